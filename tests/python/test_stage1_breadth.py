"""Stage 1 with every optimiser: it learns, and in two parts it is what it is in one; how runs end."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, rows
from compared_runs import newest_state
from fashion import few

BASE = cli("--train_samples=320 --test_samples=100 --batch_size=32 --threads=1 --total_epochs=2", data=few())

# A rate at which ten steps of 32 images already show in the loss (chance: 2.30).
OPTIMIZERS = {
    "sgd": ["--learning_rate=0.05"],
    "nesterov": ["--learning_rate=0.02"],
    "adam": ["--learning_rate=0.002"],
    "adamweightdecay": ["--learning_rate=0.002", "--opt_epsilon=1e-6", "--weight_decay=0.01"],
    "adagrad": ["--learning_rate=0.02", "--adagrad_initial_accumulator_value=0.1"],
    "adadelta": ["--learning_rate=0.3", "--opt_epsilon=1e-4", "--adadelta_rho=0.95"],
    "rmsprop": cli(
        "--learning_rate=0.01 --opt_epsilon=1e-4 --rmsprop_momentum=0.9 --rmsprop_decay=0.9", "--max_gradient_norm=5"
    ),
    "ftrl": ["--learning_rate=0.01", "--ftrl_initial_accumulator_value=1e-12"],
    "lars": ["--learning_rate=0.5", "--lars_coefficient=0.02", "--gradient_centralization"],
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_learns_and_resumes_bitwise(name: str, tmp_path: Path, execute) -> None:
    options = [*BASE, f"--optimizer={name}", *OPTIMIZERS[name]]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    execute("dimred", "stage1", *options, "--epochs=2", "--output", whole)
    execute("dimred", "stage1", *options, "--epochs=2", "--stop_at_step=14", "--output", parts)
    execute("dimred", "stage1", *options, "--epochs=2", "--output", parts)
    assert newest_state(parts) == newest_state(whole)
    first, last = (float(rows(whole)[i]["train_loss"]) for i in (0, 1))
    assert last < first < 2.4
    assert [row["epoch"] for row in rows(parts)] == ["1", "1.4", "2"]


def test_batches_made_on_the_device_are_the_loaders(tmp_path: Path, execute, fails) -> None:
    """On the CPU the device's form of a batch is the same code; a run may go on with the other one."""
    options = [*BASE, "--epochs=2", "--pad=2", "--flip", "--validation_fraction=0.1"]
    execute("dimred", "stage1", *options, "--data_on_device=no", "--output", tmp_path / "no")
    execute("dimred", "stage1", *options, "--data_on_device=yes", "--stop_at_step=12", "--output", tmp_path / "yes")
    execute("dimred", "stage1", *options, "--data_on_device=no", "--output", tmp_path / "yes")
    execute("dimred", "stage1", *options, "--data_on_device=yes", "--output", tmp_path / "all")
    assert newest_state(tmp_path / "yes") == newest_state(tmp_path / "all") == newest_state(tmp_path / "no")
    error = fails(2, "stage1", *options, "--data_on_device=yes", "--colour_jitter=.1,.1,.1", "--output", tmp_path / "x")
    assert "needs images that dimred can keep on the device, but the preprocessing changes the colours" in error


def test_a_state_of_another_optimizer_is_refused(tmp_path: Path, execute, fails) -> None:
    run = tmp_path / "run"
    execute("dimred", "stage1", *BASE, "--epochs=1", "--output", run)
    error = fails(2, "stage1", *BASE, "--epochs=2 --optimizer=adam", resume_from=run, output=tmp_path / "other")
    assert "the state comes from optimizer = momentum, received optimizer = adam; give the optimizer" in error
    execute("dimred", "stage1", *BASE, "--epochs=2 --optimizer=nesterov", resume_from=run, output=tmp_path / "nesterov")


IDLE = {
    "--optimizer=sgd --momentum=.5": "momentum has no effect: it needs optimizer = momentum, nesterov or lars",
    "--schedule=piecewise --pieces=5:.1 --learning_rate=.2": "learning_rate has no effect: it needs warmup_epochs > 0",
    "--snapshots_per_epoch=0 --snapshot_from_epoch=2": "snapshot_from_epoch has no effect: "
    "it needs snapshots_per_epoch",
    "--ema_warmup=false": "ema_warmup has no effect: it needs ema_decay",
    "--init_loss_scaling=64": "init_loss_scaling has no effect: it needs use_dynamic_loss_scaling",
    "--snapshot_from_epoch=5": "snapshot_from_epoch needs to be at most 2 (the number of epochs), received 5",
}


@pytest.mark.parametrize("options", IDLE)
def test_options_that_change_nothing_are_refused(options: str, tmp_path: Path, fails) -> None:
    assert IDLE[options] in fails(2, "stage1", *BASE, "--epochs=2", *options.split(), "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_patience_ends_a_run_and_the_best_weights_stay(tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    options = [*BASE[:4], BASE[-1], "--epochs=9", "--validation_fraction=0.25", "--keep_best"]
    options += ["--early_stopping_patience=2", "--early_stopping_min_delta=0.9"]  # nothing is so much better
    said = execute("dimred", "stage1", *options, "--output", run)
    assert "early stopping: no better validation accuracy in 2 epochs" in said
    curve = rows(run)
    assert len(curve) == 3
    accuracies = [float(row["validation_accuracy"]) for row in curve]
    (best,) = (run / "best").glob("*.h5")
    with h5py.File(best) as kept:
        assert kept.attrs["epoch"] == 1 + int(np.argmax(accuracies))
    assert rows(run) == curve
    assert "outcome" in execute("dimred", "inspect", run)
    again = execute("dimred", "stage1", *options, "--output", run)  # over: nothing more to do
    assert "early stopping: no better validation accuracy in 2 epochs" in again
    assert rows(run) == curve
    more = tmp_path / "more"  # what continues it has a patience of its own
    execute("dimred", "stage1", *options, "--resume_from", run, "--output", more)
    assert [row["epoch"] for row in rows(more)] == ["4", "5", "6"]
    assert len(list((more / "best").glob("*.h5"))) == 1


def test_the_weights_before_training_are_a_snapshot_of_epoch_0(tmp_path: Path, execute) -> None:
    """At a rate that changes no bit, they are those of the first epoch's end; stage 2 can start from them."""
    still = [*BASE, "--learning_rate=1e-30", "--epochs=2", "--weight_decay=0"]
    execute("dimred", "stage1", *still, "--snapshot_initial", "--output", tmp_path / "run")
    files = sorted((tmp_path / "run" / "snapshots").iterdir())
    assert [file.name for file in files] == [f"snapshot_{step:08}.h5" for step in (0, 10, 20)]
    weights = []
    for epoch, file in enumerate(files):
        with h5py.File(file) as h5:
            weights.append(h5["weights"][:])
            assert h5.attrs["epoch"] == epoch
    assert np.array_equal(weights[0], weights[1]) and np.any(weights[0])
    shown = execute("dimred", "inspect", tmp_path / "run")
    assert "missing" not in shown
    execute("dimred", "stage1", *BASE, "--learning_rate=0.05 --epochs=1 --snapshot_initial", output=tmp_path / "moved")
    execute("dimred", "stage1", *BASE, "--learning_rate=0.05 --epochs=2 --snapshot_initial", output=tmp_path / "moved")
    assert len(list((tmp_path / "moved" / "snapshots").iterdir())) == 3  # a resumed run takes no other


def test_a_loss_that_is_not_finite_says_what_was_tried(tmp_path: Path, fails) -> None:
    options = [*BASE, "--epochs=2", "--learning_rate=1e20", "--schedule=constant"]
    error = fails(1, "stage1", *options, "--output", tmp_path / "run")
    assert "the loss is not finite at epoch 1, step " in error
    assert "learning rate 1e+20, the loss before " in error
    assert "max_gradient_norm may help" in error
    assert not (tmp_path / "run").exists()  # nothing was made of it: other options may try
    snapshots = [*options, "--snapshots_per_epoch=10"]
    for _ in range(2):  # a run that has left something stays, and the same command may try again
        assert error.split("step")[0] in fails(1, "stage1", *snapshots, "--output", tmp_path / "run")
        assert list((tmp_path / "run/snapshots").glob("*.h5"))
        assert "failed" in (tmp_path / "run/manifest.json").read_text()
