"""Data sets as the commands see them: the split and who takes it over, samples of all classes, equal kinds."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from cli import completed, rows
from compared_runs import second_stage
from fashion import few, read
from PIL import Image

SMALL = ["--train_samples=400", "--test_samples=100", "--threads=1", f"--data={few()}"]


def data_of(run: Path) -> tuple[str, str]:
    """What manifest.json says of the training and the test data."""
    manifest = json.loads((run / "manifest.json").read_text())
    return manifest["train_data"], manifest["test_data"]


def test_stage2_and_evaluate_keep_stage1s_split(tmp_path: Path, execute, fails) -> None:
    """Another seed must not hold out other samples."""
    held_out = [*SMALL, "--validation_fraction=0.25", "--seed=5"]
    execute("dimred", "stage1", *held_out, "--epochs=2", "--snapshots_per_epoch=3", "--output", tmp_path / "one")
    second_stage(execute, tmp_path / "one", tmp_path / "two", "--n_component=3", "--epochs=1", "--seed=9")
    train, test = data_of(tmp_path / "one")
    assert train.startswith("subset of 300 samples") and not test.startswith("subset of 300")
    assert data_of(tmp_path / "two") == (train, test)
    assert "split_seed = 5" in (tmp_path / "two" / "config.toml").read_text()
    assert "validation" in execute("dimred", "evaluate", tmp_path / "one")
    other = fails(2, "evaluate", tmp_path / "one", "--split_seed=6")
    assert "samples that the weights were trained on" in other and "split_seed = 6" in other


def write_idx(file: Path, *shape: int, values: bytes) -> None:
    """Unsigned bytes."""
    file.write_bytes(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values)


def test_some_samples_are_of_all_classes(tmp_path: Path, execute) -> None:
    """A data set in the order of its classes, whose pixels are 20 x the label: their mean tells."""
    for name, each in (("train", 30), ("t10k", 10)):
        labels = [label for label in range(10) for _ in range(each)]
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", len(labels), values=bytes(labels))
        pixels = b"".join(bytes([20 * label]) * 784 for label in labels)
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", len(labels), 28, 28, values=pixels)
    options = ["--data", tmp_path, "--train_samples=20", "--test_samples=10", "--batch_size=10", "--threads=1"]
    execute("dimred", "stage1", *options, "--output", tmp_path / "run")
    (mean,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["mean"]
    assert mean == pytest.approx(90 / 255, rel=1e-12)


def test_arrays_that_numpy_saves_train_as_the_same_images_elsewhere(tmp_path: Path, execute, fails) -> None:
    for split, name in (("train", "train"), ("test", "t10k")):
        (tmp_path / "arrays" / split).mkdir(parents=True)
        images = read(few() / f"{name}-images-idx3-ubyte", 16).reshape(-1, 28, 28)
        np.save(tmp_path / "arrays" / split / "images.npy", images)
        np.save(
            tmp_path / "arrays" / split / "labels.npy", read(few() / f"{name}-labels-idx1-ubyte", 8).astype(np.int64)
        )
    curves = []
    for data in (few(), tmp_path / "arrays"):
        run = tmp_path / f"run{len(curves)}"
        execute("dimred", "stage1", *SMALL[:-1], f"--data={data}", "--epochs=1", "--output", run)
        curves.append(rows(run))
    assert curves[0] == curves[1]
    assert "npy " in data_of(run)[0]
    np.save(tmp_path / "arrays/train/images.npy", np.zeros((4, 28, 28, 3)))
    assert "needs dtype '|u1', received '<f8'" in fails(
        1, "stage1", *SMALL[:-1], "--data", tmp_path / "arrays", "--output", tmp_path / "none"
    )


def write_arrays(folder: Path, **shapes: tuple[int, ...]) -> Path:
    """Random images of two classes as images.npy and labels.npy, for each set of that name."""
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        (folder / name).mkdir(parents=True)
        np.save(folder / name / "images.npy", random.integers(0, 256, shape, np.uint8))
        np.save(folder / name / "labels.npy", np.arange(shape[0]) % 2)
    return folder


OTHERS = {
    "larger": ((8, 28, 28), (4, 32, 32)),
    "smaller": ((8, 28, 28), (4, 3, 3)),
    "turned": ((8, 28, 20), (4, 20, 28)),
    "coloured": ((8, 28, 28), (4, 3, 28, 28)),
    "grey": ((8, 3, 28, 28), (4, 28, 28)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_test_images_that_differ_are_refused_before_any_training(name: str, tmp_path: Path, fails) -> None:
    train, test = OTHERS[name]
    data = write_arrays(tmp_path / "data", train=train, test=test)
    shown = [" x ".join(map(str, shape[1:] if len(shape) == 4 else (1, *shape[1:]))) for shape in (train, test)]
    line = fails(2, "stage1", data, "--model=resnet20", "--threads=1", "--output", tmp_path / "run")
    assert f"the test set needs images of {shown[0]} (channels, height, width), as in the training set" in line
    assert f"received {shown[1]} in npy {data}/test/images.npy" in line
    assert not (tmp_path / "run" / "curve.csv").exists()


def test_test_images_of_a_later_use_are_the_trainings(tmp_path: Path, execute, fails) -> None:
    """Named by --test_data, as files, and cut to one size."""
    data = write_arrays(tmp_path / "data", train=(8, 28, 28), test=(4, 28, 28))
    other = write_arrays(tmp_path / "other", test=(4, 32, 32)) / "test"
    run = tmp_path / "run"
    options = ["--model=convnet", "--epochs=1", "--batch_size=4", "--threads=1"]
    execute("dimred", "stage1", data, *options, "--output", run)
    assert "received 1 x 32 x 32" in fails(2, "evaluate", run, "--test_data", other)
    for label in range(2):
        (tmp_path / "files" / str(label)).mkdir(parents=True)
        Image.new("L", (32, 32), label).save(tmp_path / "files" / str(label) / "a.png")
    assert "received 1 x 32 x 32" in fails(2, "evaluate", run, "--test_data", tmp_path / "files")
    cut = ["--image_size=20", "--preprocessing_name=imagenet", "--output", tmp_path / "cut"]
    execute("dimred", "stage1", data, "--test_data", other, *options, *cut)


def test_a_test_set_that_is_the_training_set_is_named(tmp_path: Path, binaries, fails) -> None:
    rng = np.random.default_rng(7)
    for part in ("train", "test"):
        for name in "ab":
            (tmp_path / "data" / part / name).mkdir(parents=True)
            for number in range(3):
                pixels = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "data" / part / name / f"{number}.png")
    run, data = tmp_path / "run", tmp_path / "data"
    stage1 = ["stage1", "--data", data, "--epochs=1", "--batch_size=2", "--threads=1"]
    said = "the test set has the same images as the training set"
    for words, same in (
        ([*stage1, "--output", run], False),
        (["evaluate", run], False),
        (["data", "inspect", data], False),
        ([*stage1, "--test_data", data / "train", "--output", tmp_path / "same"], True),
        (["evaluate", run, "--test_data", data / "train"], True),
        (["data", "inspect", data, "--test_data", data / "train"], True),
    ):
        done = completed([binaries / "dimred", *words])
        assert done.returncode == 0, done.stderr
        assert (done.stdout + done.stderr).count(said) == same, words
    line = fails(2, *stage1, "--cache_memory=0.000001", "--output", tmp_path / "none")
    assert "needs a cache_memory for all decoded images (6 of 20 x 20, 7.2e-06 GB)" in line
    line = fails(2, *stage1, "--datasets_use_caching=false", "--output", tmp_path / "none")
    assert "needs datasets_use_caching = true, or a preprocessing_name with a crop" in line
