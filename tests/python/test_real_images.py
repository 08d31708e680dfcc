"""Real photographs and small files, where DIMRED_PHOTOS and DIMRED_SMALL_IMAGES name folders of class folders (train,
test).

What the drawn images of the other tests may not have: many cameras' JPEGs, all sizes. Skipped without the folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from image_probe import Ask, decoded, region_of
from PIL import Image, ImageOps

pytest_plugins = ["image_probe"]

MOST = 200  # files, evenly over the sorted list


def files_of(variable: str) -> list[Path]:
    """The folder's training images, in the order of dimred's samples."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no folder")
    train = Path(folder).resolve() / "train"
    return sorted(
        (file for file in train.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png")), key=os.fsencode
    )


@pytest.mark.parametrize("variable", ["DIMRED_PHOTOS", "DIMRED_SMALL_IMAGES"])
def test_they_decode_as_pillow_does(ask: Ask, tmp_path: Path, variable: str) -> None:
    files = files_of(variable)
    random = np.random.default_rng(3)
    for file in files[:: len(files) // MOST + 1]:
        with Image.open(file) as image:
            expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        np.testing.assert_array_equal(decoded(ask, file, tmp_path / "out"), expected, err_msg=str(file))
        height, width = (int(random.integers(1, size + 1)) for size in expected.shape[:2])
        top, left = (
            int(random.integers(0, size - part + 1))
            for size, part in zip(expected.shape, (height, width), strict=False)
        )
        pixels = region_of(ask, file, tmp_path / "out", top, left, height, width)
        np.testing.assert_array_equal(pixels, expected[top : top + height, left : left + width], err_msg=str(file))


@pytest.mark.parametrize("variable", ["DIMRED_PHOTOS", "DIMRED_SMALL_IMAGES"])
@pytest.mark.parametrize("form", ["tfrecord", "base64", "packed"])
def test_every_form_holds_all_of_them_sound(
    variable: str, form: str, tmp_path: Path, execute: Callable[..., str]
) -> None:
    files = files_of(variable)
    source = files[0].parents[1]
    execute("dimred", "data", "convert", source / "*" / "*", f"--to={form}", "--quiet", "--output", tmp_path)
    shown = execute("dimred", "data", "inspect", tmp_path, "--split=train", "--quiet")
    classes = {file.parent.name for file in files}
    counts = {name: int(count.replace(",", "")) for name, count in re.findall(r"^ +\d+ +(\S+) +([\d,]+)$", shown, re.M)}
    assert counts == {name: sum(file.parent.name == name for file in files) for name in classes}, shown
    assert "bad" not in shown and "damaged" not in shown
