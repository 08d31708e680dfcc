"""Debian's Fashion-MNIST as tensors, cut as --train_samples and --test_samples cut it."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch  # seconds, that few() does not need

FOLDER = Path("/usr/share/datasets/fashion-mnist")


def read(file: Path, header: int) -> np.ndarray:
    """Bytes of an IDX file, plain or .gz, behind its header."""
    text = file.read_bytes() if file.exists() else gzip.decompress(file.with_name(f"{file.name}.gz").read_bytes())
    return np.frombuffer(text, np.uint8, offset=header)


def few() -> Path:
    """A folder with every fifteenth training image (4,000) and twentieth test image (500) as plain IDX files, in the
    build: for the many short runs that would each inflate 60,000 for a few hundred."""
    build = Path(os.environ.get("DIMRED_BUILD", Path(__file__).resolve().parents[1] / "build"))
    folder = build / "tests" / "few_fashion"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        for name, each in (("train", 15), ("t10k", 20)):
            images = read(FOLDER / f"{name}-images-idx3-ubyte", 16).reshape(-1, 28, 28)[::each]
            labels = read(FOLDER / f"{name}-labels-idx1-ubyte", 8)[::each]
            (whole / f"{name}-images-idx3-ubyte").write_bytes(
                np.array([2051, *images.shape], ">i4").tobytes() + images.tobytes()
            )
            (whole / f"{name}-labels-idx1-ubyte").write_bytes(
                np.array([2049, len(labels)], ">i4").tobytes() + labels.tobytes()
            )
        folder.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # another test was faster
            whole.rename(folder)
    return folder


def fashion(split: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` of few()'s images [count, 1, 28, 28] of 0 to 255 and labels [count] of "train" or "test"."""
    import torch

    name = "train" if split == "train" else "t10k"
    images = read(few() / f"{name}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    labels = read(few() / f"{name}-labels-idx1-ubyte", 8)
    some = np.arange(count) * len(labels) // count
    return torch.tensor(images[some], dtype=torch.float32), torch.tensor(labels[some], dtype=torch.int64)
