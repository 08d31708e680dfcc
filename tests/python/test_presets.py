"""Each preset of `dimred stage2`, step by step against the independent NumPy reference.

Quasi-Newton steps on minibatches can amplify rounding without bound, so the problems are ones that
rounding does not decide: `test_rounding_does_not_decide_the_problem` replays the reference with
losses and gradients disturbed as float32 would and allows 3e-6. What the C++ then differs by
beyond the issue's bound of 1e-5 is a different algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from cli import rows_in
from reference.problem import Problem, make_problem, minibatches, reference, through_float32, write_folder
from reference.stage2_reference import PRESETS, Array, Constants, Minibatch, Step, replay

TOLERANCE = 1e-5  # the issue's
FLOAT32 = 3e-7  # relative error of a float32 loss or gradient here: 2 to 5 units of 6e-8


@dataclass(frozen=True)
class Case:
    """A problem and the events that must occur in it, lest the test say nothing of them."""

    preset: str
    seed: int
    batch: int
    scale: float
    constants: Constants
    events: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.preset}-seed{self.seed}-batch{self.batch}"

    def problem(self) -> Problem:
        return make_problem(self.seed, self.constants, self.batch, self.scale)


PUBLISHED_DLDR = Constants(rho=0.4, sigma=0.4, gamma=0.9, alpha=0.0, trials=20)
PUBLISHED_FIRST = Constants(rho=0.55, sigma=0.4, gamma=0.9, alpha=0.001, trials=3)
PUBLISHED_LATEST = replace(PUBLISHED_FIRST, trials=2)
# Demanding searches, which fail now and then, and a residual step that shows.
DLDR = replace(PUBLISHED_DLDR, sigma=0.7, alpha=0.02, trials=4)
FIRST = replace(PUBLISHED_FIRST, sigma=0.7, alpha=0.02)
LATEST = replace(PUBLISHED_LATEST, alpha=0.02)
ROBUST = Constants(0.5, 0.1, 0.9, 0.3, 2, curvature_floor=1e-10, relative_curvature_floor=0.2)
# Floors that let negative curvature in, so that H turns indefinite and the reset is needed.
UNGUARDED = replace(ROBUST, sigma=1e-4, curvature_floor=-1e9, relative_curvature_floor=-1.0)

SEARCHED = ("updated", "skipped", "failed")
GUARDED = (*SEARCHED, "skipped positive curvature", "residual left out")
CASES = [
    Case("dldr", 24, 16, 0.6, DLDR, SEARCHED),
    Case("dldr", 38, 16, 0.6, DLDR, SEARCHED),
    Case("dldr", 237, 32, 0.6, DLDR, SEARCHED),
    Case("mindspore-first", 50, 32, 0.6, FIRST, SEARCHED),
    Case("mindspore-first", 53, 32, 0.6, FIRST, SEARCHED),
    Case("mindspore-first", 191, 16, 0.3, FIRST, SEARCHED),
    Case("mindspore-latest", 0, 32, 1.0, LATEST, SEARCHED),
    Case("mindspore-latest", 13, 32, 1.0, LATEST, SEARCHED),
    Case("mindspore-latest", 23, 16, 1.0, LATEST, SEARCHED),
    Case("robust", 20, 8, 1.0, ROBUST, GUARDED),
    Case("robust", 1, 16, 1.0, ROBUST, GUARDED),
    Case("robust", 70, 16, 1.0, ROBUST, GUARDED),
    Case("robust", 28, 8, 1.0, UNGUARDED, ("updated", "reset", "failed", "residual left out")),
    Case("robust", 67, 8, 1.0, UNGUARDED, ("updated", "reset", "failed", "residual left out")),
    Case("robust", 28, 16, 1.0, UNGUARDED, ("updated", "reset", "failed")),
]
CASES += [
    Case("dldr", 91, 32, 0.6, PUBLISHED_DLDR),
    Case("mindspore-first", 56, 32, 0.6, PUBLISHED_FIRST),
    Case("mindspore-latest", 7, 32, 1.0, PUBLISHED_LATEST, SEARCHED),
]


def deviation(trace: Array, expected: Array) -> float:
    """Largest |w - expected| / |expected| over the steps; traces are [steps, M]."""
    norms = np.linalg.norm(expected, axis=1)
    return float((np.linalg.norm(trace - expected, axis=1) / norms).max())


def disturbed(batch: Minibatch, generator: np.random.Generator) -> Minibatch:
    """The same minibatch with weights rounded to float32 and losses and gradients as inexact."""

    def noise(size: int) -> Array:
        return FLOAT32 * generator.normal(size=size)

    def loss(w: Array) -> float:
        return float(batch.loss(through_float32(w)) * (1 + noise(1)[0]))

    def loss_and_gradient(w: Array) -> tuple[float, Array]:
        value, g = batch.loss_and_gradient(through_float32(w))
        per_entry = np.linalg.norm(g) / np.sqrt(g.size)
        return float(value * (1 + noise(1)[0])), g + per_entry * noise(g.size)

    return Minibatch(loss, loss_and_gradient)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rounding_does_not_decide_the_problem(case: Case) -> None:
    problem = case.problem()
    expected, steps = reference(problem, case.preset)
    for seed in range(6):
        generator = np.random.default_rng(seed)
        batches = [disturbed(batch, generator) for batch in minibatches(problem)]
        trace, _ = replay(case.preset, problem.weights, problem.basis, batches, problem.constants)
        assert deviation(trace, expected) < 3e-6
    for event in case.events:  # before the last step, so that its consequence is replayed too
        assert any(event in step.events for step in steps[:-1]), event


@pytest.mark.parametrize("case", CASES, ids=str)
def test_presets_differ_by_far_more_than_the_tolerance(case: Case) -> None:
    """Where every event occurs no preset can pass for another."""
    if not case.events:
        pytest.skip("a smooth run, on which presets may agree")
    problem = case.problem()
    expected, _ = reference(problem, case.preset)
    for other in PRESETS.keys() - {case.preset}:
        with np.errstate(all="ignore"):
            trace, _ = reference(problem, other)
        assert not deviation(trace, expected) < 100 * TOLERANCE, other


def read_steps(file: Path) -> list[dict[str, str]]:
    """The rows of steps.csv."""
    return rows_in(file)


def expect_equal_telemetry(rows: list[dict[str, str]], steps: list[Step]) -> None:
    """Trials and step sizes are decisions and must be equal; the rest are float32 results."""
    assert [int(row["trials"]) for row in rows] == [step.trials for step in steps]
    sizes = [float(row["step_size"]) for row in rows]
    np.testing.assert_allclose(sizes, [step.step_size for step in steps], rtol=1e-6)
    losses = [float(row["loss"]) for row in rows]
    np.testing.assert_allclose(losses, [step.loss for step in steps], rtol=1e-4)
    slopes = [float(row["slope"]) for row in rows]
    # A slope is a sum that cancels when the direction is nearly orthogonal to the gradient.
    expected = [step.slope for step in steps]
    np.testing.assert_allclose(slopes, expected, rtol=1e-3, atol=1e-6 * np.abs(expected).max())
    for row, step in zip(rows, steps, strict=True):
        if not np.isnan(step.curvature):
            error = abs(float(row["curvature"]) - step.curvature)
            assert error < 1e-3 * max(abs(step.curvature), 1e-2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cpp_replays_the_reference(case: Case, tmp_path: Path, execute) -> None:
    problem = case.problem()
    expected, steps = reference(problem, case.preset)
    write_folder(problem, tmp_path)
    execute("stage2_replay", tmp_path, case.preset)
    trace = np.load(tmp_path / "trace.npy").astype(np.float64)
    assert trace.shape == expected.shape
    path = np.vstack([problem.weights, expected])
    moved = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert moved > 0.5 * np.linalg.norm(problem.weights)  # else 1e-5 would be met standing still
    expect_equal_telemetry(read_steps(tmp_path / "steps.csv"), steps)
    assert deviation(trace, expected) < TOLERANCE
