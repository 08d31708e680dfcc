"""Training in plain PyTorch, as its users write it: the peers of ours on a device."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from dimred_twins import build
from packed_images import read_packed
from resnet50 import ResNet50
from torch import nn
from torch.nn.functional import cross_entropy, pad
from torch.utils.data import DataLoader, Dataset

Batch = tuple[torch.Tensor, torch.Tensor]


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def network(name: str, channels: int, side: int, classes: int) -> nn.Module:
    """Our twins; ResNet-50 without torchvision."""
    return ResNet50(channels, classes) if name == "resnet50" else build(name, channels, side, side, classes)


@dataclass
class Trainer:
    """A network and its SGD with momentum, eager or compiled, in float32 or under autocast."""

    device: torch.device
    model: nn.Module
    half: bool
    compiled: bool = False

    def __post_init__(self) -> None:
        self.model = self.model.to(self.device, memory_format=torch.channels_last).train()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        # Tracing alone is tested where no device is: inductor's C++ takes a minute.
        backend = "inductor" if self.device.type == "cuda" else "eager"
        self.call = torch.compile(self.model, backend=backend) if self.compiled else self.model

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One batch."""
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext():
            loss = cross_entropy(self.call(images), labels)
        loss.backward()
        self.optimiser.step()

    def seconds(self, batches: Iterable[Batch]) -> float:
        """Of all these steps."""
        synchronize(self.device)
        start = time.perf_counter()
        for images, labels in batches:
            self.step(images, labels)
        synchronize(self.device)
        return time.perf_counter() - start


def drawn_batches(device: torch.device, batch: int, side: int, classes: int, steps: int) -> list[Batch]:
    """Two random batches in turns, which lie on the device already."""
    pair = [(torch.randn(batch, 3, side, side, device=device).to(memory_format=torch.channels_last),
             torch.randint(classes, (batch,), device=device)) for _ in range(2)]  # fmt: skip
    return [pair[i % 2] for i in range(steps)]


@dataclass
class Images:
    """Normalised samples [samples, channels, side, side], and labels."""

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def read(cls, path: Path | None, samples: int, shape: tuple[int, int, int]) -> Images:
        """A packed file's, or random ones of `shape`; the first so many, 0: all."""
        if path:
            data, labels = read_packed(path)
        else:
            count = samples or 50_000
            data, labels = torch.randint(256, (count, *shape), dtype=torch.uint8), torch.arange(count) % 10
        kept = samples or len(labels)
        data, labels = data[:kept], labels[:kept]
        wide = data.float() / 255
        over = (0, 2, 3)
        mean, deviation = wide.mean(over)[:, None, None], wide.std(over)[:, None, None]
        return cls((wide - mean) / deviation, labels)

    def to(self, device: torch.device) -> Images:
        """There, images as channels_last."""
        return Images(self.images.to(device, memory_format=torch.channels_last), self.labels.to(device))


def cropped_and_flipped(images: torch.Tensor, margin: int = 4) -> torch.Tensor:
    """Each padded by `margin`, cut out at random and flipped with probability 1/2, on its own device."""
    count, channels, side, _ = images.shape
    wide = pad(images, (margin,) * 4)
    device = images.device
    down, right = torch.randint(2 * margin + 1, (2, count, 1), device=device)
    along = torch.arange(side, device=device)
    across = torch.where(torch.rand(count, 1, device=device) < 0.5, along, side - 1 - along)
    rows, columns = (down + along)[:, None, :, None], (right + across)[:, None, None, :]
    which = torch.arange(count, device=device)[:, None, None, None]
    return wide[which, torch.arange(channels, device=device)[None, :, None, None], rows, columns]


class Resident:
    """Batches of what lies on the device, in a new permutation each time."""

    def __init__(self, data: Images, batch: int, augment: bool) -> None:
        self.data, self.batch, self.augment = data, batch, augment

    def __iter__(self) -> Iterator[Batch]:
        for rows in torch.randperm(len(self.data.labels), device=self.data.labels.device).split(self.batch):
            images = self.data.images[rows]
            yield (cropped_and_flipped(images) if self.augment else images), self.data.labels[rows]


class Samples(Dataset):
    """One sample at a time, for DataLoader."""

    def __init__(self, data: Images, augment: bool) -> None:
        self.data, self.augment = data, augment

    def __len__(self) -> int:
        return len(self.data.labels)

    def __getitem__(self, index: int) -> Batch:
        image = self.data.images[index]
        if self.augment:
            image = cropped_and_flipped(image[None])[0]
        return image, self.data.labels[index]


def loaded(data: Images, batch: int, augment: bool, device: torch.device) -> Iterator[Batch]:
    """DataLoader's batches, copied to the device."""
    workers = min(8, len(os.sched_getaffinity(0))) if device.type == "cuda" else 0
    loader = DataLoader(Samples(data, augment), batch, shuffle=True, num_workers=workers, pin_memory=device.type == "cuda")
    for images, labels in loader:
        yield images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
