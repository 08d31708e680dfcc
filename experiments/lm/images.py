"""The ConvNet on Fashion-MNIST, of Debian's package dataset-fashion-mnist."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from dimred_twins import build
from torch import Tensor, nn
from torch.nn import functional

from lm.training import Losses, generator_at

FOLDER = Path("/usr/share/datasets/fashion-mnist")
BATCH, TRAINING = 128, 55_000


def read(name: str, header: int) -> np.ndarray:
    """The bytes of an IDX file after its header. Raises SystemExit where it is missing."""
    try:
        return np.frombuffer(gzip.decompress((FOLDER / name).read_bytes()), np.uint8, offset=header)
    except FileNotFoundError:
        raise SystemExit(f"this experiment needs {FOLDER / name}; apt install dataset-fashion-mnist") from None


def images_of(part: str) -> tuple[Tensor, Tensor]:
    """Images [n, 1, 28, 28] in 0 .. 1 and labels [n]."""
    images = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read(f"{part}-labels-idx1-ubyte.gz", 8)
    return torch.from_numpy(images / np.float32(255)), torch.from_numpy(labels.astype(np.int64))


class Images:
    """The task: an image's class."""

    name, kind, end, weight_decay, clip = "convnet", "SGD", 1_600, 5e-4, float("inf")

    def __init__(self) -> None:
        images, labels = images_of("train")
        self.training = images[:TRAINING], labels[:TRAINING]
        self.validation, self.test = (images[TRAINING:], labels[TRAINING:]), images_of("t10k")

    def start(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return build("convnet", 1, 28, 28, 10)

    def loss(self, model: nn.Module, seed: int, step: int) -> Tensor:
        images, labels = self.training
        chosen = torch.randint(len(labels), (BATCH,), generator=generator_at(seed, step))
        return functional.cross_entropy(model(images[chosen]), labels[chosen])

    @torch.inference_mode()
    def losses(self, model: nn.Module) -> Losses:
        """Mean cross-entropy."""

        def mean(images: Tensor, labels: Tensor) -> float:
            logits = torch.cat([model(part) for part in torch.split(images, 500)])
            return functional.cross_entropy(logits, labels).item()

        return mean(*self.validation), mean(*self.test)
