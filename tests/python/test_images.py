"""Resizing and preparing images against Pillow, with a bound per operation.

resize                                                equal, or 1 level where Pillow 13 takes rows first
brightness, contrast, saturation                      equal
evaluation of a recipe against Pillow + NumPy         1e-6 of float32
random area at a reduction against full decoding      mean error <= 2 levels
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_probe import Ask, photograph, save
from PIL import Image, ImageEnhance, ImageOps

pytest_plugins = ["image_probe"]


def equal_unless_higher(pixels: np.ndarray, expected: np.ndarray, height: int, out_height: int) -> bool:
    """Where rows are not reduced, Pillow takes columns first."""
    return out_height < height or np.array_equal(pixels, expected)


def test_resize_is_pillows(ask: Ask, tmp_path: Path) -> None:
    path = save(photograph(150, 201), tmp_path / "a.png")
    image = Image.open(path)
    random = np.random.default_rng(2)
    equal = 0
    for _ in range(40):
        height, width = random.integers(1, 150), random.integers(1, 201)
        top, left = random.integers(0, 150 - height + 1), random.integers(0, 201 - width + 1)
        out_height, out_width = random.integers(1, 300, 2)
        ask("resize", path, top, left, height, width, out_height, out_width, tmp_path / "out")
        part = image.crop((left, top, left + width, top + height))
        expected = np.asarray(part.resize((out_width, out_height), Image.Resampling.BILINEAR))
        pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(out_height, out_width, 3)
        # Pillow 13 may take rows first where that leaves less between: one level of rounding.
        np.testing.assert_allclose(pixels.astype(int), expected, atol=1)
        equal += np.array_equal(pixels, expected)
        assert equal_unless_higher(pixels, expected, height, out_height)
    assert equal >= 25


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.999, 1.0, 1.4, 2.5])
def test_colours_change_as_pillows_do(ask: Ask, tmp_path: Path, factor: float) -> None:
    path = save(photograph(50, 70), tmp_path / "a.png")
    image = Image.open(path)
    enhancers = {
        "brightness": ImageEnhance.Brightness,
        "contrast": ImageEnhance.Contrast,
        "saturation": ImageEnhance.Color,
    }
    for name, enhancer in enhancers.items():
        ask("enhance", path, name, factor, tmp_path / "out")
        pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(50, 70, 3)
        np.testing.assert_array_equal(pixels, np.asarray(enhancer(image).enhance(factor)), err_msg=name)


def prepared(ask: Ask, path: Path, out: Path, *words: object) -> tuple[np.ndarray, list[int]]:
    answer = ask("prepare", path, *words, out)
    assert answer[0] != "error:", " ".join(answer)
    values = np.fromfile(out, np.float32)
    side = round((len(values) / 3) ** 0.5)
    return values.reshape(3, side, side), list(map(int, answer))


MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def normalised(image: Image.Image) -> np.ndarray:
    return ((np.asarray(image) / 255.0 - MEAN) / DEVIATION).transpose(2, 0, 1)


@pytest.mark.parametrize(("height", "width"), [(300, 400), (401, 290), (256, 256), (100, 130)])
def test_evaluation_is_resize_and_centre_crop(ask: Ask, tmp_path: Path, height: int, width: int) -> None:
    path = save(photograph(height, width), tmp_path / "a.jpg")
    values, _ = prepared(ask, path, tmp_path / "out", "imagenet", 224, "test", 1, 0, 0)
    image = Image.open(path)
    # torchvision's Resize(256) and CenterCrop(224).
    short, long = sorted((height, width))
    other = 256 * long // short
    size = (other, 256) if width >= height else (256, other)
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    np.testing.assert_allclose(values, normalised(image.crop((left, top, left + 224, top + 224))), atol=1e-6)


def test_inception_evaluates_the_middle_in_minus_one_to_one(ask: Ask, tmp_path: Path) -> None:
    path = save(photograph(320, 400), tmp_path / "a.jpg")
    values, cutting = prepared(ask, path, tmp_path / "out", "inception", 299, "test", 1, 0, 0)
    assert cutting[:6] == [20, 25, 280, 350, 299, 299]
    image = Image.open(path).crop((25, 20, 375, 300)).resize((299, 299), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(values, (np.asarray(image) / 127.5 - 1).transpose(2, 0, 1), atol=1e-6)


@pytest.mark.parametrize("width", range(330, 338))
def test_a_decoder_s_window_of_the_wanted_size_is_not_the_area(ask: Ask, tmp_path: Path, width: int) -> None:
    """It reads whole blocks: the middle of 341 x 333 is 299 x 293, and the window may be 299 x 299."""
    path = save(photograph(341, width), tmp_path / "a.jpg")
    values, cutting = prepared(ask, path, tmp_path / "out", "inception", 299, "test", 1, 0, 0)
    top, left, height, columns = cutting[:4]
    part = Image.open(path).crop((left, top, left + columns, top + height))
    expected = np.asarray(part.resize((299, 299), Image.Resampling.BILINEAR)) / 127.5 - 1
    np.testing.assert_allclose(values, expected.transpose(2, 0, 1), atol=1e-6)


def test_random_areas_are_those_of_the_full_image(ask: Ask, tmp_path: Path) -> None:
    """Also where a reduction is used: areas of a 600 x 800 image that become 64 x 64."""
    path = save(photograph(600, 800), tmp_path / "a.jpg")
    image = Image.open(path)
    flipped = 0
    for index in range(40):
        values, cutting = prepared(ask, path, tmp_path / "out", "imagenet", 64, "train", 7, 3, index)
        top, left, height, width = cutting[:4]
        assert 0.079 < height * width / 480_000 <= 1
        assert 0.73 < width / height < 1.36
        part = image.crop((left, top, left + width, top + height)).resize((64, 64), Image.Resampling.BILINEAR)
        both = [normalised(part), normalised(ImageOps.mirror(part))]
        errors = [np.abs((values - one) * DEVIATION[:, None, None] * 255).mean() for one in both]
        flipped += errors[1] < errors[0]
        assert min(errors) < 2
    assert 8 < flipped < 32


def test_vgg_takes_a_square_of_a_random_size(ask: Ask, tmp_path: Path) -> None:
    path = save(photograph(300, 400), tmp_path / "a.png")
    image = Image.open(path)
    sides = set()
    for index in range(20):
        values, cutting = prepared(ask, path, tmp_path / "out", "vgg", 224, "train", 7, 0, index)
        height, width, top, left = cutting[4:]
        sides.add(height)
        assert 256 <= height <= 512
        assert width == height * 400 // 300
        part = image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + 224, top + 224))
        expected = (np.asarray(part) - np.array([123.68, 116.78, 103.94])).transpose(2, 0, 1)
        assert min(np.abs(values - expected).max(), np.abs(values - expected[:, :, ::-1]).max()) < 1e-3
    assert len(sides) > 10


def test_cifarnet_standardises_each_image(ask: Ask, tmp_path: Path) -> None:
    path = save(photograph(32, 32), tmp_path / "a.png")
    values, _ = prepared(ask, path, tmp_path / "out", "cifarnet", 0, "test", 1, 0, 0)
    pixels = np.asarray(Image.open(path)).transpose(2, 0, 1) / 255.0
    np.testing.assert_allclose(values, (pixels - pixels.mean()) / pixels.std(), atol=1e-5)


def test_equalize_is_pillows(ask: Ask, tmp_path: Path) -> None:
    """It is Pillow's to the bit, also of a picture of one colour, and of one with few pixels."""
    flat = Image.new("RGB", (20, 20), (7, 7, 200))
    small = photograph(9, 9)
    for i, picture in enumerate((photograph(64, 64), flat, small)):
        path = save(picture, tmp_path / f"{i}.png")
        values, _ = prepared(ask, path, tmp_path / "out", "equalize", 0, "test", 1, 0, 0)
        expected = np.asarray(ImageOps.equalize(picture), np.float64).transpose(2, 0, 1) / 255
        assert np.array_equal(values.reshape(expected.shape), expected.astype(np.float32))
    assert not np.array_equal(np.asarray(ImageOps.equalize(photograph(64, 64))), np.asarray(photograph(64, 64)))
