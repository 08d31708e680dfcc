"""What the trainers refuse: one line, the right exit code, nothing written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fashion import few

SMALL = ["--train_samples=256", "--test_samples=100", "--batch_size=64", "--threads=1", f"--data={few()}"]


@pytest.fixture(scope="session")
def run(tmp_path_factory, execute) -> Path:
    """A small finished stage-1 run."""
    folder = tmp_path_factory.mktemp("bad") / "stage1"
    execute("dimred", "stage1", *SMALL, "--epochs=2", "--snapshots_per_epoch=3", "--output", folder)
    return folder


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--epoch=2"], "--epochs"),
        (["--epochs=two"], "two"),
        (["--epochs=0"], "0"),
        (["--learning_rate=-1"], "-1"),
        (["--momentum=1"], "[0, 1)"),
        (["--schedule=lineer"], "(nearest: linear), received lineer"),
        (["--model=resnet21"], "did you mean resnet20?"),
        (["--model=resnet"], "did you mean resnet20, resnet32, resnet56, resnet110, resnet18, "),
        (["--optimizer=adamm"], "(nearest: adam)"),
        (["--data=/nowhere"], "/nowhere"),
        (["--keep_best"], "keep_best has no effect: it needs validation_fraction > 0"),
        (["--early_stopping_patience=2"], "early_stopping_patience has no effect: it needs validation_fraction > 0"),
        (["--validation_fraction=1"], "1"),
        (["--device=tpu"], "tpu"),
        (["--global_batch_size=100"], "64"),
        (["--nesterov", "--momentum=0"], "nesterov"),
        (["--warmup_epochs=9", "--total_epochs=5"], "warmup"),
        (["--snapshots_per_epoch=1000"], "1000"),
        (["--train_samples=100000"], "100000"),
        (["--resume_from=/nowhere"], "/nowhere"),
        (["--config=/nowhere.toml"], "/nowhere.toml"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_stage1_refuses(options: list[str], expected: str, tmp_path: Path, fails) -> None:
    line = fails(2, "stage1", *SMALL, *options, f"--output={tmp_path / 'run'}")
    assert expected in line
    assert not (tmp_path / "run").exists()


def test_output_is_needed_and_must_be_ours(tmp_path: Path, run: Path, fails) -> None:
    assert "--output" in fails(2, "stage1", *SMALL)
    (tmp_path / "thesis.txt").write_text("precious")
    assert str(tmp_path) in fails(2, "stage1", *SMALL, f"--output={tmp_path}")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    before = (run / "config.toml").read_text()
    line = fails(2, "stage1", *SMALL, "--learning_rate=0.3", f"--output={run}")
    assert "learning_rate = 0.1" in line and "0.3" in line
    assert (run / "config.toml").read_text() == before


def test_stage2_refuses(tmp_path: Path, run: Path, fails) -> None:
    output = f"--output={tmp_path / 'run'}"
    assert "--checkpoint" in fails(2, "stage2", output)
    assert "/nowhere" in fails(2, "stage2", "--checkpoint=/nowhere", output)
    assert "robust" in fails(2, "stage2", f"--checkpoint={run}", "--preset=robst", output)
    assert "(0, 1)" in fails(2, "stage2", f"--checkpoint={run}", "--rho=1", output)
    assert "start_file" in fails(2, "stage2", f"--checkpoint={run}", "--start=file", output)
    line = fails(2, "stage2", f"--checkpoint={run}", "--n_component=32", output)  # 6 snapshots
    assert "received 6 snapshots" in line and "k = 32" in line
    line = fails(2, "stage2", f"--checkpoint={run}", "--model=resnet20", output)
    assert "another model" in line and "conv1" in line
    assert not (tmp_path / "run").exists()


def test_foreign_matrices_are_refused(tmp_path: Path, run: Path, fails) -> None:
    def stage2(matrix: np.ndarray, code: int = 2) -> str:
        np.save(tmp_path / "p.npy", matrix)
        places = {"checkpoint": run, "pca_mat": tmp_path / "p.npy", "output": tmp_path / "run"}
        return fails(code, "stage2 --n_component=3", **places)

    assert "93322" in stage2(np.zeros((3, 100), np.float32))
    assert "orthonormal" in stage2(np.ones((3, 93322), np.float32))
    assert "finite" in stage2(np.full((3, 93322), np.nan, np.float32), code=1)  # damaged
    assert not (tmp_path / "run").exists()


def test_damaged_files_are_named(tmp_path: Path, run: Path, fails) -> None:
    snapshot = next((run / "snapshots").glob("*.h5"))
    damaged = tmp_path / snapshot.name
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    arguments = ["evaluate", damaged, "--model=convnet", *SMALL]
    assert str(damaged) in fails(1, *arguments)
    damaged.write_bytes(snapshot.read_bytes()[:-100])
    assert str(damaged) in fails(1, *arguments)


def test_a_damaged_newest_state_falls_back(tmp_path: Path, execute) -> None:
    folder = tmp_path / "run"
    execute("dimred", "stage1", *SMALL, "--epochs=2", "--total_epochs=4", "--output", folder)
    newest = sorted((folder / "checkpoints").iterdir())[-1] / "weights.f32"
    data = bytearray(newest.read_bytes())
    data[100] ^= 4
    newest.write_bytes(data)
    printed = execute("dimred", "stage1", *SMALL, "--epochs=3", "--total_epochs=4", "--output", folder)
    assert "continuing at epoch 1" in printed


def test_a_last_batch_of_one_sample_is_named_with_the_remedy(tmp_path: Path, fails) -> None:
    mock = ["--dataset=mock", "--mock_shape=3,32,32", "--train_samples=5", "--test_samples=2", "--batch_size=4"]
    line = fails(1, "stage1", *mock, "--model=resnet18", "--epochs=1", "--threads=1", "--output", tmp_path / "run")
    assert "BatchNorm needs several values for each channel, but a pass has one sample; choose a batch size" in line
