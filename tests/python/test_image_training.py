"""Training on image folders as a person starts it: any number of threads and ranks, bad files, mock data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli import cli, completed, rows_in
from PIL import Image

CLASSES = ("bird", "cat", "dog")
SMALL = ("--model=resnet20", "--batch_size=8", "--threads=1", "--quiet")


def put_images(folder: Path, each: int, sizes: bool) -> None:
    """Images whose colour is their class's, of one size or of many."""
    random = np.random.default_rng(each)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            shape = (*(random.integers(40, 90, 2) if sizes else (16, 16)), 3)
            pixels = random.integers(0, 120, shape)
            pixels[..., label] += 100
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.jpg")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    put_images(tmp_path / "photos" / "train", 12, sizes=True)
    put_images(tmp_path / "photos" / "val", 4, sizes=True)
    return tmp_path / "photos"


def losses(run: Path) -> list[tuple[str, str]]:
    return [(row["train_loss"], row["test_loss"]) for row in rows_in(run / "curve.csv")]


def test_threads_and_a_resume_see_the_same_images(tmp_path: Path, photos: Path, execute: Callable) -> None:
    recipe = [*SMALL, "--data", photos, "--preprocessing_name=imagenet", "--image_size=32", "--colour_jitter=.3,.3,.3"]
    for threads in (1, 5):
        execute("dimred", "stage1", *recipe, num_preprocessing_threads=threads, output=tmp_path / str(threads))
    assert losses(tmp_path / "1") == losses(tmp_path / "5")
    manifest = json.loads((tmp_path / "5" / "manifest.json").read_text())
    assert manifest["class_names"] == list(CLASSES)
    assert manifest["sample_order"] == "global"
    assert manifest["mean"] == [0.485, 0.456, 0.406]
    assert manifest["data_pipeline"]["samples"] == 36
    assert manifest["data_pipeline"]["decode_us_per_sample"] > 0
    for epochs in (1, 2):  # taken up again after the first
        execute("dimred", "stage1", *recipe, f"--epochs={epochs}", "--total_epochs=2", "--output", tmp_path / "resumed")
    execute("dimred", "stage1", *recipe, "--epochs=2", "--total_epochs=2", "--output", tmp_path / "whole")
    assert losses(tmp_path / "resumed") == losses(tmp_path / "whole")


def test_a_run_of_the_recipes_own_size_goes_on_with_it(tmp_path: Path, photos: Path, execute: Callable) -> None:
    recipe = cli(
        *SMALL,
        "--preprocessing_name=imagenet --train_samples=8 --test_samples=6 --total_epochs=2 --image_size=0",
        data=photos,
        output=tmp_path / "run",
    )
    execute("dimred", "stage1", *recipe)
    config = (tmp_path / "run" / "config.toml").read_text()
    assert "\nimage_size = 0\n" in config
    before = len(losses(tmp_path / "run"))
    execute("dimred", "stage1", *recipe, "--epochs=2")
    assert len(losses(tmp_path / "run")) > before
    reported = [
        execute("dimred", "evaluate", tmp_path / "run", "--threads=1", *size) for size in ([], ["--image_size=224"])
    ]
    assert reported[0].splitlines()[-1] == reported[1].splitlines()[-1]


def test_images_of_one_size_are_kept_and_normalised_by_their_own_statistics(tmp_path: Path, execute: Callable) -> None:
    put_images(tmp_path / "train", 6, sizes=False)
    put_images(tmp_path / "test", 3, sizes=False)
    execute("dimred", "stage1", *SMALL, "--data", tmp_path, "--pad=2", "--flip", "--output", tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert "pixels xxh3" in manifest["train_data"]
    pixels = np.stack([np.asarray(Image.open(file)) for file in sorted((tmp_path / "train").glob("*/*.jpg"))]) / 255.0
    np.testing.assert_allclose(manifest["mean"], pixels.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(manifest["deviation"], pixels.std((0, 1, 2)), rtol=1e-9)


def test_a_bad_sample_ends_the_run_or_is_counted(
    tmp_path: Path, photos: Path, execute: Callable, binaries: Path
) -> None:
    (photos / "train" / "cat" / "3.jpg").write_bytes(b"\xff\xd8\xff rubbish")
    (photos / "val" / "dog" / "1.jpg").write_bytes(b"")
    recipe = [*SMALL, "--data", photos, "--preprocessing_name=imagenet", "--image_size=32"]
    command = [binaries / "dimred", "stage1", *recipe, "--output", tmp_path / "fails"]
    done = completed(command)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "train/cat/3.jpg: [jpeg]" in done.stderr
    command = [binaries / "dimred", "stage1", *recipe, "--on_bad_sample=skip", "--output", tmp_path / "skips"]
    done = completed(command)
    assert done.returncode == 0, done.stderr
    assert "warning: 1 bad samples were skipped" in done.stderr
    report = json.loads((tmp_path / "skips" / "manifest.json").read_text())["data_pipeline"]
    assert (report["bad_samples"], report["bad_test_samples"]) == (1, 1)
    assert "warning: 1 bad samples are left out of the test set" in done.stderr
    assert "val/dog/1.jpg: the file is empty" in done.stderr


def test_mock_data_needs_no_files(tmp_path: Path, execute: Callable) -> None:
    options = ["--dataset=mock", "--mock_shape=3,16,16", "--num_classes=7", "--train_samples=32", "--test_samples=16"]
    execute("dimred", "stage1", *SMALL, *options, "--output", tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert len(manifest["class_names"]) == 7


def test_refusals_name_the_rule_and_the_path(tmp_path: Path, photos: Path, fails: Callable) -> None:
    stage1 = ("stage1", *SMALL, "--output", tmp_path / "run")
    assert "images of different" in fails(2, *stage1, "--data", photos, "--preprocessing_name=none")
    assert "num_classes needs to be at least the number of classes in the training set (3" in fails(
        2, *stage1, "--data", photos, "--num_classes=2"
    )
    (photos / "train" / "CAT").mkdir()
    assert "differ in more than upper and lower case, received CAT and cat" in fails(2, *stage1, "--data", photos)


def test_a_run_among_the_class_folders_is_refused(tmp_path: Path, photos: Path, fails: Callable) -> None:
    """It would be a class without images, and the data could not be opened again."""
    recipe = ["--preprocessing_name=imagenet", "--image_size=32"]
    for data, output in ((photos / "train", "train/run1"), (photos, "train/runs/1"), (photos, "val/run1")):
        line = fails(2, "stage1", *SMALL, *recipe, "--data", data, "--output", photos / output)
        assert "would be inside the input" in line and "choose an output outside of the input" in line
        assert not (photos / output).exists()


def test_preview_is_a_picture_of_training(tmp_path: Path, photos: Path, execute: Callable) -> None:
    options = ["--preprocessing_name=imagenet", "--image_size=32", "--rows=3", "--columns=4"]
    execute("dimred", "data", "preview", photos, *options, "--output", tmp_path / "sheet.png")
    sheet = np.asarray(Image.open(tmp_path / "sheet.png")).astype(int)
    assert sheet.shape == (3 * 36 + 4, 4 * 36 + 4, 3)
    for label in range(3):  # a row for each class, in its colour
        row = sheet[4 + 36 * label : 36 + 36 * label, 4:36].reshape(-1, 3).mean(0)
        assert row.argmax() == label
