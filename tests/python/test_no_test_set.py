"""Data without a test set: both stages train on it, its curve has no test column, and readers of curves say so."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import compare
import numpy as np
import pandas as pd
import pytest
import report
from cli import rows
from compared_runs import newest_state
from PIL import Image

SMALL = ["--model=lenet", "--threads=1", "--batch_size=4", "--optimizer=sgd", "--learning_rate=0.01"]
NONE = "no test set: the curve's test columns stay empty"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two classes of 12 images of one size, in class folders alone."""
    data = tmp_path_factory.mktemp("door") / "flower_photos"
    generator = np.random.default_rng(1)
    for label, name in enumerate(("daisy", "roses")):
        (data / name).mkdir(parents=True)
        for i in range(12):
            pixels = generator.integers(100 * label, 100 * label + 99, (28, 28, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(data / name / f"{i}.png")
    return data


@pytest.fixture(scope="module")
def run(folder: Path, execute) -> Path:
    """Stage 1 of 2 epochs on it."""
    output = folder.parent / "run"
    said = execute("dimred", "stage1", *SMALL, "--epochs=2 --snapshots_per_epoch=2", data=folder, output=output)
    assert said.count("no test set") == 1 and f"{NONE}; give a test set with --test_data, or hold out" in said
    return output


def measured(curve: Path, column: str) -> list[str]:
    """The fields of a column that are not empty."""
    return [row[column] for row in rows(curve) if row[column]]


def test_both_stages_leave_the_test_columns_empty(run: Path, tmp_path: Path, execute) -> None:
    said = execute("dimred", "stage2 --epochs=1 --n_component=2", checkpoint=run, output=tmp_path / "boost")
    assert said.count(NONE) == 1
    for curve in (run, tmp_path / "boost"):
        assert len(rows(curve)) >= 2 and len(measured(curve, "train_loss")) >= 1
        for column in ("test_loss", "test_accuracy", "validation_loss", "validation_accuracy"):
            assert measured(curve, column) == []
        assert json.loads((curve / "manifest.json").read_text())["test_data"] is None
    assert report.main([str(run), str(tmp_path / "boost"), "--output", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "These runs have no test set: run, boost." in page
    assert '<td class="strong">no test set</td>' in page and "nan" not in page


def test_an_interrupted_run_has_the_bits_of_a_whole_one(
    run: Path, folder: Path, tmp_path: Path, execute, fails
) -> None:
    command = ["stage1", "--data", folder, *SMALL, "--epochs=2", "--snapshots_per_epoch=2"]
    execute("dimred", *command, "--stop_at_step=8", "--output", tmp_path / "parts")
    execute("dimred", *command, "--output", tmp_path / "parts")
    assert newest_state(tmp_path / "parts") == newest_state(run)
    line = fails(2, *command, "--test_data", folder, "--output", tmp_path / "parts")
    assert "test_data" in line


def test_evaluate_and_what_reads_test_samples_ask_for_them(
    run: Path, folder: Path, tmp_path: Path, execute, fails
) -> None:
    line = fails(2, "evaluate", run)
    assert "has none; give a test set with --test_data PATH, or other data with --data PATH" in line
    assert "(24 samples)" in execute("dimred", "evaluate", run, "--test_data", folder)
    execute("dimred", "pca", run, "--output", tmp_path / "pca_mat.npy")
    line = fails(2, "inspect", "--landscape", run, "--set=test", "--pca_mat", tmp_path / "pca_mat.npy")
    assert "set = test needs a test set, but the run has none; give a test set with --test_data PATH" in line
    said = execute("dimred", "export", run, "--output", tmp_path / "export")
    assert "no test set found, so the export has no test accuracy" in said
    line = fails(2, "stage1", "--data", folder, *SMALL, "--test_samples=5", "--output", tmp_path / "x")
    assert "test_samples needs a test set, received 5" in line
    for option in ("--keep_best", "--early_stopping_patience=2"):
        line = fails(2, "stage1", "--data", folder, *SMALL, option, "--output", tmp_path / "x")
        assert "needs validation_fraction > 0" in line


def test_a_fraction_is_held_out_by_both_stages_and_evaluate(folder: Path, tmp_path: Path, execute) -> None:
    held, boost = tmp_path / "held", tmp_path / "boost"
    said = execute(
        "dimred",
        "stage1",
        *SMALL,
        "--validation_fraction=0.25 --snapshots_per_epoch=3 --seed=7 --keep_best",
        data=folder,
        output=held,
    )
    assert said.count(NONE) == 1 and "validation" in said
    assert measured(held, "test_accuracy") == [] and "split_seed = 7" in (held / "config.toml").read_text()
    execute("dimred", "stage2 --start=last --epochs=1 --n_component=2 --seed=9", checkpoint=held, output=boost)
    loss = float(measured(held, "validation_loss")[-1])
    assert float(measured(boost, "validation_loss")[0]) == pytest.approx(loss, rel=1e-6)
    said = execute("dimred", "evaluate", held)
    assert f"loss {loss:.4f}" in said and "(6 samples)" in said and "no test set" in said
    assert report.main([str(held), str(boost), "--output", str(tmp_path / "report.html")]) == 0
    assert "Validation accuracy" in (tmp_path / "report.html").read_text()


def as_list(folder: Path, out: Path) -> Path:
    """PLSC's train_data/{images,label.txt}."""
    lines = []
    (out / "images").mkdir(parents=True)
    for file in sorted(folder.glob("*/*.png")):
        name = f"{file.parent.name}-{file.name}"
        shutil.copy(file, out / "images" / name)
        lines.append(f"images/{name} {int(file.parent.name == 'roses')}\n")
    (out / "label.txt").write_text("".join(lines))
    return out


def as_base64(folder: Path, out: Path) -> Path:
    """PLSC's dataset/ of Base64 parts."""
    out.mkdir()
    files = sorted(folder.glob("*/*.png"))
    for part in range(2):
        text = "".join(
            f"{base64.b64encode(file.read_bytes()).decode()}\t{int(file.parent.name == 'roses')}\n"
            for file in files[part::2]
        )
        (out / f"part-0{part}.txt").write_text(text)
    (out / "file_list.txt").write_text("part-00.txt\npart-01.txt\n")
    return out


KINDS = {
    "list folder": lambda folder, out: [as_list(folder, out)],
    "list": lambda folder, out: [as_list(folder, out) / "label.txt"],
    "pattern": lambda folder, out: [f"{folder}/*/*.png"],
    "base64": lambda folder, out: [as_base64(folder, out)],
    "base64 by name": lambda folder, out: [as_base64(folder, out), "--dataset=base64"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_data_trains_at_the_first_command(kind: str, folder: Path, tmp_path: Path, execute) -> None:
    data = KINDS[kind](folder, tmp_path / "data")
    said = execute("dimred", "stage1", "--data", *data, *SMALL, "--output", tmp_path / "run")
    assert NONE in said and "6 steps, 24 images" in said


def test_validation_preprocess_is_the_test_set(folder: Path, tmp_path: Path, execute) -> None:
    for part in ("train", "validation_preprocess"):
        shutil.copytree(folder, tmp_path / "imagenet" / part)
    said = execute("dimred", "stage1", "--data", tmp_path / "imagenet", *SMALL, "--output", tmp_path / "run")
    assert "no test set" not in said and len(measured(tmp_path / "run", "test_accuracy")) == 1


def test_a_comparison_says_which_run_has_no_test_set(folder: Path, tmp_path: Path, binaries: Path, monkeypatch) -> None:
    config = f"""title = "untested"
selection_seeds = [1]
[stage1]
data = "{folder}"
model = "lenet"
batch_size = 4
epochs = 2
snapshots_per_epoch = 2
validation_fraction = 0.25
learning_rate = 0.01
[matrices.pca]
components = 2
[methods.subspace]
matrix = "pca"
epochs = 1
[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+1"
"""
    (tmp_path / "untested.toml").write_text(config)
    compare.main(
        [str(tmp_path / "untested.toml"), "--output", str(tmp_path / "out"), "--dimred", str(binaries / "dimred")]
    )
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert set(results["outcome"]) == {"untested"}
    assert results["note"].str.startswith("no test set").all()
