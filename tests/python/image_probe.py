"""The image tool as tests ask it, and pictures to ask about."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Ask = Callable[..., list[str]]


@pytest.fixture(scope="module")
def ask(binaries: Path) -> Iterator[Ask]:
    """Sends a request to the image tool; returns the words of its answer."""
    with subprocess.Popen([binaries / "image_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tool:

        def send(*words: object) -> list[str]:
            tool.stdin.write(" ".join(map(str, words)) + "\n")
            tool.stdin.flush()
            return tool.stdout.readline().rstrip("\n").split(" ")

        yield send
        tool.stdin.close()


def photograph(height: int, width: int, seed: int = 0) -> Image.Image:
    """Smooth colours with some texture, as photographs have."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        np.sin(x / random.uniform(9, 40) + random.uniform(0, 6)) + np.cos(y / random.uniform(9, 40)) for _ in range(3)
    ]
    pixels = 128 + 50 * np.stack(waves, axis=-1) + random.normal(0, 4, (height, width, 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def save(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


def decoded(ask: Ask, path: Path, out: Path, channels: int = 3) -> np.ndarray:
    answer = ask("decode", path, 0, 0, 0, 0, 9999, 9999, channels, out)
    assert answer[0] != "error:", " ".join(answer)
    height, width = map(int, answer[3:5])
    return np.fromfile(out, np.uint8).reshape(height, width, channels)


def region_of(ask: Ask, path: Path, out: Path, top: int, left: int, height: int, width: int) -> np.ndarray:
    """The pixels of what the region was decoded to."""
    answer = ask("decode", path, top, left, height, width, 9999, 9999, 3, out)
    rows, columns, reduction, above, before = map(int, answer[3:8])
    assert reduction == 1
    pixels = np.fromfile(out, np.uint8).reshape(rows, columns, 3)
    return pixels[top - above :, left - before :][:height, :width]
