"""Data sets as the commands see them: label noise and who takes it over, samples of all classes, equal kinds."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from compared_runs import rows, second_stage
from fashion import few, read

SMALL = ["--train_samples=400", "--test_samples=100", "--threads=1", f"--data={few()}"]


def data_of(run: Path) -> tuple[str, str]:
    """What manifest.json says of the training and the test data."""
    manifest = json.loads((run / "manifest.json").read_text())
    return manifest["train_data"], manifest["test_data"]


def test_stage2_and_evaluate_keep_stage1s_label_noise(tmp_path: Path, execute) -> None:
    """Another seed must not draw other labels; test labels stay as they are."""
    noisy = [*SMALL, "--label_noise=0.3", "--validation_fraction=0.25", "--seed=5"]
    execute("dimred", "stage1", *noisy, "--epochs=2", "--snapshots_per_epoch=3", "--output", tmp_path / "one")
    second_stage(execute, tmp_path / "one", tmp_path / "two", "--n_component=3", "--epochs=1", "--seed=9")
    train, test = data_of(tmp_path / "one")
    assert "label noise on 120 of 400 samples, seed 5" in train
    assert train.startswith("subset of 300 samples")  # the split is taken after it
    assert "label noise" not in test
    assert data_of(tmp_path / "two") == (train, test)
    config = (tmp_path / "two" / "config.toml").read_text()
    assert "label_noise = 0.3" in config
    assert "label_noise_seed = 5" in config
    printed = execute("dimred", "evaluate", tmp_path / "one")
    clean = execute("dimred", "evaluate", tmp_path / "one", "--label_noise=0")
    assert "label_noise = 0.0 overrides 0.3" in clean
    tests = [[line for line in text.splitlines() if line.startswith("test")] for text in (printed, clean)]
    assert tests[0] == tests[1]
    validations = [
        next(line for line in text.splitlines() if line.startswith("validation")) for text in (printed, clean)
    ]
    assert validations[0] != validations[1]


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
