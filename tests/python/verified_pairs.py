"""A short run, pictures in pairs, and the pairs as lists and pickles: what the tests of dimred verify share."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fashion import fashion, few
from PIL import Image

if TYPE_CHECKING:
    import torch

IMAGES = 60
DATA = ("--data", few(), "--train_samples=600", f"--test_samples={IMAGES}")


def report(folder: Path) -> dict:
    """verification.json."""
    return json.loads((folder / "verification.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute) -> Path:
    """A short run and its export/1."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    execute("dimred", "stage1", *DATA, "--epochs=1", "--batch_size=50", "--threads=1", "--output", folder)
    execute("dimred", "export", folder)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[list[Path], torch.Tensor, np.ndarray, np.ndarray]:
    """PNG files, their pixels, pairs of their numbers, and which are of one class; both kinds in every tenth."""
    folder = tmp_path_factory.mktemp("pictures")
    images, labels = fashion("test", IMAGES)
    files = []
    for i, image in enumerate(images):
        files.append(folder / f"{i:02}.png")
        Image.fromarray(image[0].numpy().astype(np.uint8)).save(files[-1])
    random, labels = np.random.default_rng(1), np.asarray(labels)
    pairs = []
    for number in range(80):
        while True:
            a, b = random.integers(0, IMAGES, 2)
            if a != b and (labels[a] == labels[b]) == (number % 2 == 0):
                break
        pairs.append((a, b))
    return files, images, np.array(pairs), np.arange(80) % 2 == 0


@pytest.fixture(scope="module")
def listed(pictures, tmp_path_factory) -> Path:
    """The pairs as a list with all that its form allows."""
    files, _, pairs, same = pictures
    lines = []
    for i, ((a, b), kind) in enumerate(zip(pairs, same, strict=True)):
        between = "\t" if i % 3 == 0 else "  "
        lines.append(between.join([os.path.relpath(files[a], files[0].parent.parent), str(files[b]), str(int(kind))]))
    path = files[0].parent.parent / "pairs.txt"
    path.write_text("\n\n".join(lines) + "\r\n")
    return path


def python_2(images: list[bytes], same: list[bool]) -> bytes:
    """What Python 2's cPickle writes at protocol 2: texts by SHORT_BINSTRING and BINSTRING, memoised."""
    out = io.BytesIO()
    out.write(b"\x80\x02]q\x00(")
    for i, image in enumerate(images):
        out.write(b"U" + bytes([len(image)]) if len(image) < 256 else b"T" + struct.pack("<i", len(image)))
        out.write(image + b"r" + struct.pack("<I", i + 1))
    out.write(b"e]r\xff\xff\x00\x00(" + b"".join(b"\x88" if kind else b"\x89" for kind in same) + b"e\x86.")
    assert pickle.loads(out.getvalue(), encoding="bytes") == (images, same)
    return out.getvalue()
