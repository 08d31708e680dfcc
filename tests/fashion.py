"""Debian's Fashion-MNIST as tensors, cut as --train_samples and --test_samples cut it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch

FOLDER = Path("/usr/share/datasets/fashion-mnist")


def read(name: str, header: int) -> np.ndarray:
    """Bytes of an IDX file, plain or .gz, behind its header."""
    file = FOLDER / name
    text = file.read_bytes() if file.exists() else gzip.decompress((FOLDER / f"{name}.gz").read_bytes())
    return np.frombuffer(text, np.uint8, offset=header)


def fashion(split: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` images [count, 1, 28, 28] of 0 to 255 and labels [count] of "train" or "test"."""
    name = "train" if split == "train" else "t10k"
    images = read(f"{name}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    labels = read(f"{name}-labels-idx1-ubyte", 8)
    some = np.arange(count) * len(labels) // count
    return torch.tensor(images[some], dtype=torch.float32), torch.tensor(labels[some], dtype=torch.int64)
