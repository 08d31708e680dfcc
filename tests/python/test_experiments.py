"""The experiment scripts' arithmetic and their way of going on where they were stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import recipe_seeds
import robustness
from robustness import Result
from workbench import jobs


def result(seed: int, delta: float, finite: bool = True) -> Result:
    return Result("robust", 64, seed, 1, 90.0, 90.0 + delta, finite, "")


def test_robustness_counts_losses_and_runs_that_are_not_finite() -> None:
    results = [result(1, 1.0), result(2, -0.5), result(3, -0.6), result(4, math.nan, finite=False)]
    (row,) = robustness.table_rows(results)
    assert row == ["robust", "64", "4", "1", "90.00", "-0.60", "-0.03", "+1.00", "2"]


def test_robustness_spreads_seeds_over_the_stage1_runs() -> None:
    options = robustness.parse(["--output", "x", "--presets", "dldr", "--batch_sizes", "64"])
    planned = robustness.jobs_of(options)
    assert [job.seed for job in planned] == list(range(1, 21))
    assert [job.stage1_seed for job in planned[:4]] == [1, 2, 3, 1]


def test_mean_and_deviation_are_the_samples() -> None:
    assert recipe_seeds.mean_and_deviation([1.0, 2.0, 3.0], "+") == "+2.00 ± 1.00"
    assert recipe_seeds.mean_and_deviation([1.0]) == "1.00 ± –"


def fake_dimred(folder: Path, body: str) -> Path:
    """A program in place of dimred that counts its calls in calls.txt."""
    program = folder / "dimred"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls.txt\n{body}\n')
    program.chmod(0o755)
    return program


def test_finished_runs_are_not_repeated_and_others_are_resumed(tmp_path: Path) -> None:
    program = fake_dimred(tmp_path, "exit 0")
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"outcome": "finished"}))
    jobs.train(program, "stage1", run, {"seed": 1})
    assert not (tmp_path / "calls.txt").exists()
    (run / "manifest.json").write_text(json.dumps({"outcome": "interrupted"}))
    jobs.train(program, "stage1", run, {"seed": 1, "config": None})
    assert (tmp_path / "calls.txt").read_text() == f"stage1 --seed=1 --output={run} --quiet=true\n"


def test_a_failed_command_says_which_and_why(tmp_path: Path) -> None:
    program = fake_dimred(tmp_path, "echo '[stage1] needs more' >&2; exit 2")
    with pytest.raises(jobs.CommandFailed, match=r"stage1 ended with 2: \[stage1\] needs more"):
        jobs.train(program, "stage1", tmp_path / "run", {})
