"""Both stages as commands on a subset of Fashion-MNIST: results, resume bit by bit, interruptions."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, rows, rows_in
from compared_runs import interrupted, newest_state, second_stage
from fashion import few
from safetensors.numpy import save_file

STAGE1 = cli(
    "--train_samples=800 --test_samples=100 --epochs=4 --batch_size=32 --threads=1",
    "--learning_rate=0.05 --snapshots_per_epoch=3 --memory_format=channels_last",
    data=few(),
)
STAGE2 = ["--epochs=2", "--n_component=6", "--batch_size=100", "--preset=robust"]


def snapshots(run: Path) -> dict[str, bytes]:
    """The weights of every snapshot, by file name."""
    weights = {}
    for file in sorted((run / "snapshots").glob("*.h5")):
        with h5py.File(file) as h5:
            weights[file.name] = h5["weights"][:].tobytes()
    return weights


@pytest.fixture(scope="session")
def stage1(tmp_path_factory, execute) -> Path:
    """A finished stage-1 run, shared by the tests; they do not write into it."""
    run = tmp_path_factory.mktemp("runs") / "stage1"
    execute("dimred", "stage1", *STAGE1, "--output", run)
    return run


@pytest.fixture(scope="session")
def stage2(stage1: Path, execute) -> Path:
    """A finished stage-2 run on it, with the PCA inside."""
    run = stage1.parent / "stage2"
    second_stage(execute, stage1, run, *STAGE2)
    return run


def test_two_stages_leave_their_files_and_learn(stage1: Path, stage2: Path) -> None:
    curve = rows(stage1)
    assert [row["epoch"] for row in curve] == ["1", "2", "3", "4"]
    assert float(curve[-1]["test_accuracy"]) > 0.6  # ten classes: chance is 0.1
    assert len(snapshots(stage1)) == 12
    basis = np.load(stage2 / "pca_mat.npy")
    assert basis.shape == (6, 93322)
    assert np.abs(basis @ basis.T - np.eye(6)).max() < 1e-6
    curve = rows(stage2)
    assert [row["epoch"] for row in curve] == ["0", "1", "2"]
    assert float(curve[-1]["train_loss"]) < float(curve[1]["train_loss"]) * 1.05
    assert int(curve[-1]["forward_passes"]) > int(curve[-1]["backward_passes"]) == 16
    assert int(curve[-1]["basis_bytes_read"]) >= 16 * 2 * basis.nbytes
    assert len(rows_in(stage2 / "steps.csv")) == 16


def test_a_run_in_two_parts_equals_one(stage1: Path, tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    fixed = [option for option in STAGE1 if not option.startswith("--epochs")] + ["--total_epochs=4"]
    execute("dimred", "stage1", *fixed, "--epochs=1", "--output", run)
    execute("dimred", "stage1", *fixed, "--epochs=4", "--output", run)
    assert rows(run) == rows(stage1)
    assert newest_state(run) == newest_state(stage1)
    assert snapshots(run) == snapshots(stage1)


STOPS = [(signal.SIGTERM, 143), (signal.SIGKILL, -9)]


@pytest.mark.parametrize(("stop", "code"), STOPS)
def test_stage1_resumes_bit_identically(stop, code, stage1: Path, tmp_path: Path, binaries, execute) -> None:
    run = tmp_path / "run"
    options = [*STAGE1, "--keep_checkpoints=100", f"--output={run}"]
    command = [str(binaries / "dimred"), "stage1", *options]
    assert [interrupted(command, stop, run) for _ in range(2)] == [code, code]  # not at its end yet
    outcome = json.loads((run / "manifest.json").read_text())["outcome"]
    assert outcome == ("interrupted" if stop == signal.SIGTERM else "running")
    assert "continuing at epoch" in execute("dimred", "stage1", *options)
    assert rows(run) == rows(stage1)
    assert newest_state(run) == newest_state(stage1)
    assert snapshots(run) == snapshots(stage1)


@pytest.mark.parametrize(("stop", "code"), STOPS)
def test_stage2_resumes_bit_identically(
    stop, code, stage1: Path, stage2: Path, tmp_path: Path, binaries, execute
) -> None:
    run = tmp_path / "run"
    options = [*STAGE2, "--threads=1", f"--checkpoint={stage1}", f"--output={run}"]
    assert interrupted([str(binaries / "dimred"), "stage2", *options], stop, run) == code
    assert "continuing at epoch 1" in execute("dimred", "stage2", *options)
    assert rows(run) == rows(stage2)
    assert newest_state(run) == newest_state(stage2)
    assert (run / "steps.csv").read_text() == (stage2 / "steps.csv").read_text()


def test_a_run_folder_is_taken_by_one_process(tmp_path: Path, binaries, fails) -> None:
    run = tmp_path / "run"
    long = [option for option in STAGE1 if "epochs" not in option] + ["--epochs=1000", f"--output={run}"]
    with subprocess.Popen(
        [str(binaries / "dimred"), "stage1", *long], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not (run / "curve.csv").exists():
            assert process.poll() is None
            time.sleep(0.01)
        assert f"in use by process {process.pid}" in fails(1, "stage1", *long)
        assert process.poll() is None
        process.kill()


def test_stage2_goes_on_with_its_own_matrix_only(stage1: Path, stage2: Path, tmp_path: Path, execute, fails) -> None:
    matrix = tmp_path / "p.npy"
    basis = np.load(stage2 / "pca_mat.npy")
    np.save(matrix, basis)
    options = cli(
        "--preset=robust --n_component=6 --batch_size=100 --threads=1",
        checkpoint=stage1,
        pca_mat=matrix,
        output=tmp_path / "run",
    )
    execute("dimred", "stage2", *options, "--epochs=1")
    np.save(matrix, basis[::-1])
    assert "another projection matrix" in fails(2, "stage2", *options, "--epochs=2")
    np.save(matrix, basis)
    execute("dimred", "stage2", *options, "--epochs=2")


def test_a_basis_in_bfloat16_halves_what_is_read(stage1: Path, stage2: Path, tmp_path: Path, execute, fails) -> None:
    options = cli(
        "--preset=robust --n_component=6 --batch_size=100 --threads=1",
        checkpoint=stage1,
        output=tmp_path / "run",
        pca_mat=stage2 / "pca_mat.npy",
    )
    printed = execute("dimred", "stage2", *options, "--epochs=1", "--basis_dtype=bfloat16")
    assert "in bfloat16" in printed
    assert 'basis_dtype = "bfloat16"' in (tmp_path / "run" / "config.toml").read_text()
    # config.toml tells the two types apart, however close the state's coordinates are.
    assert "basis_dtype" in fails(2, "stage2", *options, "--epochs=2")
    execute("dimred", "stage2", *options, "--epochs=2", "--basis_dtype=bfloat16")
    wide, narrow = rows(stage2)[-1], rows(tmp_path / "run")[-1]
    assert 2 * int(narrow["basis_bytes_read"]) == int(wide["basis_bytes_read"])
    # Rounding turns the subspace by 2^-9 rad: other rounding in a chaotic run, not another method.
    assert float(narrow["train_loss"]) == pytest.approx(float(wide["train_loss"]), rel=0.05)


def test_a_schedule_keeps_its_length(tmp_path: Path, execute, fails) -> None:
    """Continuing a linear schedule that has come to its end would raise the rate again."""
    short = cli("--train_samples=256 --test_samples=100 --threads=1", data=few(), output=tmp_path / "run")
    execute("dimred", "stage1", *short, "--epochs=1")
    assert "total_epochs = 1" in fails(2, "stage1", *short, "--epochs=2")
    execute("dimred", "stage1", *short, "--epochs=2", "--total_epochs=1")
    config = (tmp_path / "run" / "config.toml").read_text()
    manifest = (tmp_path / "run" / "manifest.json").read_text()
    assert "epochs needs to be larger" in fails(2, "stage1", *short, "--epochs=1", "--total_epochs=1")
    assert (tmp_path / "run" / "config.toml").read_text() == config
    assert (tmp_path / "run" / "manifest.json").read_text() == manifest


def test_nohup_keeps_a_run_going(stage1: Path, tmp_path: Path, binaries) -> None:
    run = tmp_path / "run"
    command = ["nohup", str(binaries / "dimred"), "stage1", *STAGE1, f"--output={run}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (run / "curve.csv").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 0
    assert rows(run) == rows(stage1)


def test_sklearn_style_matrix_is_accepted(stage1: Path, stage2: Path, tmp_path: Path, execute) -> None:
    """components_ of scikit-learn is Fortran-ordered, and may be float64."""
    basis = np.load(stage2 / "pca_mat.npy")
    np.save(tmp_path / "components.npy", np.asfortranarray(basis.astype(np.float64)))
    ours = second_stage(execute, stage1, tmp_path / "run", *STAGE2, "--pca_mat", tmp_path / "components.npy")
    assert ours == rows(stage2)


def test_safetensors_of_python_give_a_matrix_that_stage2_takes(
    stage1: Path, stage2: Path, tmp_path: Path, execute
) -> None:
    """Python's writer sorts the tensors by name; the matrix is put in the network's order on load."""
    for file in (stage1 / "snapshots").glob("*.h5"):
        with h5py.File(file) as h5:
            weights, parameters = h5["weights"][:], json.loads(h5["layout"][()])["parameters"]
        parts = np.split(weights, [parameter["offset"] for parameter in parameters[1:]])
        save_file(
            {p["name"]: part.reshape(p["shape"]) for p, part in zip(parameters, parts, strict=True)},
            tmp_path / f"{file.stem}.safetensors",
        )
    execute("dimred", "pca", "--snapshots", tmp_path, "--components=6", "--output", tmp_path / "p.npy")
    other = second_stage(execute, stage1, tmp_path / "run", *STAGE2, "--pca_mat", tmp_path / "p.npy")
    ours = rows(stage2)
    assert float(other[-1]["train_loss"]) == pytest.approx(float(ours[-1]["train_loss"]), rel=1e-3)


def test_batchnorm_is_recalibrated_at_the_end(tmp_path: Path, execute) -> None:
    small = cli("--train_samples=128 --test_samples=50 --batch_size=32 --model=resnet20 --threads=1", data=few())
    execute("dimred", "stage1", *small, "--epochs=2", "--snapshots_per_epoch=2", "--output", tmp_path / "one")
    words = ("--n_component=3", "--epochs=1", "--start=mean")
    curve = second_stage(execute, tmp_path / "one", tmp_path / "two", *words)
    assert [row["weights"] for row in curve] == ["mean", "raw", "recalibrated"]
    printed = execute("dimred", "evaluate", tmp_path / "two" / "final.h5", "--threads=1")
    accuracy = float(curve[-1]["test_accuracy"])
    assert f"accuracy {100 * accuracy:.2f} %" in printed
    assert "recalibrated" in execute("dimred", "evaluate", tmp_path / "one" / "snapshots", "--threads=1")
