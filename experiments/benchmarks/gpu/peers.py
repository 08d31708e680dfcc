"""Plain PyTorch, as its users write it: what our epochs and steps are held against."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator

import torch
from programs import SOURCES

sys.path.insert(0, str(SOURCES / "experiments"))
from dimred_twins import build
from resnet50 import ResNet50

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True  # convolutions round to TF32 by default


class Peer:
    """SGD with momentum on batches that lie on the device."""

    def __init__(self, device: str, model: torch.nn.Module, half: bool = False, compiled: bool = False) -> None:
        self.device, self.half = torch.device(device), half
        self.model = model.to(self.device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        self.call = torch.compile(self.model) if compiled else self.model

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One batch."""
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16) if self.half else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy(self.call(images), labels)
        loss.backward()
        self.optimiser.step()

    def seconds(self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """From the first step's start to the last one's end on the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        for images, labels in batches:
            self.step(images, labels)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - start


def cropped_and_flipped(images: torch.Tensor, margin: int = 4) -> torch.Tensor:
    """Each padded by `margin`, cut out at random and flipped with probability 1/2, on its own device."""
    count, channels, side, _ = images.shape
    wide = torch.nn.functional.pad(images, (margin,) * 4)
    device = images.device
    down, right = torch.randint(2 * margin + 1, (2, count, 1), device=device)
    along = torch.arange(side, device=device)
    across = torch.where(torch.rand(count, 1, device=device) < 0.5, along, side - 1 - along)
    rows, columns = (down + along)[:, None, :, None], (right + across)[:, None, None, :]
    which = torch.arange(count, device=device)[:, None, None, None]
    return wide[which, torch.arange(channels, device=device)[None, :, None, None], rows, columns]


def drawn(device: str, count: int, channels: int, side: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels on the device; their values cost nothing."""
    images = torch.randn(count, channels, side, side, device=device).to(memory_format=torch.channels_last)
    return images, torch.randint(classes, (count,), device=device)


class SmallPeer:
    """Epochs of a small network over tensors that lie on the device."""

    def __init__(
        self, device: str, model: str, samples: int, batch: int, shape: tuple[int, int], augment: bool
    ) -> None:
        self.images, self.labels = drawn(device, samples, *shape, 10)
        self.batch, self.augment = batch, augment
        self.peer = Peer(device, build(model, shape[0], shape[1], shape[1], 10))
        self.epoch_seconds()  # warms up

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of one epoch, in an order drawn at random."""
        for rows in torch.randperm(len(self.labels), device=self.labels.device).split(self.batch):
            images = self.images[rows]
            yield (cropped_and_flipped(images) if self.augment else images), self.labels[rows]

    def epoch_seconds(self) -> float:
        """The seconds of one epoch."""
        return self.peer.seconds(self.batches())


class LargePeer:
    """Steps in bfloat16 on two batches in turn."""

    def __init__(self, device: str, model: str, batch: int, side: int, classes: int, compiled: bool) -> None:
        self.pair = [drawn(device, batch, 3, side, classes) for _ in range(2)]
        network = ResNet50(3, classes) if model == "resnet50" else build(model, 3, side, side, classes)
        self.peer = Peer(device, network, half=True, compiled=compiled)

    def step_seconds(self, steps: int) -> float:
        """The mean of `steps`, behind five that warm up."""
        self.peer.seconds(self.pair[i % 2] for i in range(5))
        seconds = self.peer.seconds(self.pair[i % 2] for i in range(steps)) / steps
        if self.peer.device.type == "cuda":
            torch.cuda.empty_cache()  # ours runs in a process of its own
        return seconds
