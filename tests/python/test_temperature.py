"""What a finished run folder stands for, and its evaluation at a fitted temperature."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli import cli, rows_in
from fashion import few
from ranks import run_ranks

STAGE1 = cli(
    "--train_samples=800 --test_samples=200 --validation_fraction=0.25 --epochs=3",
    "--learning_rate=0.05 --snapshots_per_epoch=3 --threads=1 --quiet",
    data=few(),
)
ARMS = {"plain": ["--preset=sgd"], "averaged": ["--preset=swa"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, execute: Callable[..., str]) -> Path:
    """stage1, and of it an epoch of SGD and one whose result is a mean."""
    folder = tmp_path_factory.mktemp("temperature")
    execute("dimred", "stage1", *STAGE1, "--output", folder / "stage1")
    for name, options in ARMS.items():
        execute("dimred", "stage2", folder / "stage1", *options, "--epochs=1 --threads=1 --quiet", output=folder / name)
    return folder


def last_row(run: Path) -> dict[str, str]:
    return rows_in(run / "curve.csv")[-1]


@pytest.mark.parametrize("name", ARMS)
def test_a_run_that_has_come_to_its_end_is_the_last_row_of_its_curve(
    name: str, runs: Path, execute: Callable[..., str]
) -> None:
    found = re.search(r"^test +loss ([\d.]+)", execute("dimred", "evaluate", runs / name, "--threads=1"), re.MULTILINE)
    assert found
    assert float(found[1]) == pytest.approx(float(last_row(runs / name)["test_loss"]), abs=6e-5)


def test_a_run_that_went_on_from_its_end_is_its_newest_state(
    runs: Path, tmp_path: Path, execute: Callable[..., str]
) -> None:
    run = shutil.copytree(runs / "averaged", tmp_path / "run")
    state = next((run / "checkpoints").glob("state_*"))
    assert "final.h5" in execute("dimred", "evaluate", run, "--threads=1")
    # As a stop in its next epoch leaves it: the result is of an earlier step than the state.
    shutil.copy(runs / "averaged" / "start.h5", run / "final.h5")
    said = execute("dimred", "evaluate", run, "--threads=1")
    assert "final.h5" not in said
    assert said.splitlines()[1:] == execute("dimred", "evaluate", state, "--threads=1").splitlines()[1:]


def test_a_fitted_temperature_lowers_the_validation_loss_alike_on_two_ranks(
    runs: Path, binaries: Path, execute: Callable[..., str]
) -> None:
    said = execute("dimred", "evaluate", runs / "plain", "--threads=1", "--fit_temperature")
    before, after = re.findall(r"^validation +loss ([\d.]+)", said, re.MULTILINE)
    assert float(after) <= float(before)
    single = said.splitlines()[-3:]
    ended = run_ranks(binaries / "dimred", ["evaluate", runs / "plain", "--threads=1", "--fit_temperature"], 2)
    assert ended.codes == [0, 0]
    assert ended.output[0].splitlines()[-3:] == single


def test_it_needs_held_out_samples_and_logits(
    runs: Path, tmp_path: Path, execute: Callable[..., str], fails: Callable[..., str]
) -> None:
    small = ["--train_samples=100", "--test_samples=100", "--epochs=1", "--threads=1", "--quiet", f"--data={few()}"]
    execute("dimred", "stage1", *small, "--output", tmp_path / "all")
    assert "received no validation set" in fails(2, "evaluate", tmp_path / "all", "--fit_temperature")
    execute("dimred", "stage1", *small, "--validation_fraction=0.2 --margin_loss=arcface", output=tmp_path / "margin")
    said = fails(2, "evaluate", tmp_path / "margin", "--fit_temperature")
    assert "but this network was trained with margin_loss" in said
