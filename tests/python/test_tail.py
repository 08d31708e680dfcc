"""experiments/tail.py and workbench/readouts.py: readouts against closed forms, plans, and a whole small replicate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import tail
import torch
from conftest import REPOSITORY
from dimred.runs import BadRun
from fashion import few
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor
from workbench import readouts, replicates
from workbench.readouts import Judge, Samples

PLANS = sorted((REPOSITORY / "experiments" / "tail").glob("*.toml"))


def test_anderson_finds_the_fixed_point_of_a_linear_iteration() -> None:
    rng = np.random.default_rng(0)
    size = 3
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    matrix, shift = basis @ np.diag([0.9, -0.5, 0.2]) @ basis.T, rng.normal(size=size)
    rows = [rng.normal(size=size)]
    for _ in range(size + 1):
        rows.append(matrix @ rows[-1] + shift)
    coefficients = readouts.anderson(np.array(rows), 1e-13)
    assert coefficients.sum() == pytest.approx(1)
    np.testing.assert_allclose(coefficients @ np.array(rows), np.linalg.solve(np.eye(size) - matrix, shift), atol=1e-6)
    # Regularised without bound, it is the mean of all but the first, whose step is not known.
    np.testing.assert_allclose(readouts.anderson(np.array(rows), 1e12), [0, *[1 / (size + 1)] * (size + 1)], atol=1e-9)


@pytest.mark.parametrize("damping", [1e-12, 0.5])
def test_a_gauss_newton_step_solves_linear_least_squares(damping: float) -> None:
    rng = np.random.default_rng(1)
    samples, outputs, size = 20, 3, 4
    jacobian, residual = rng.normal(size=(samples, outputs, size)), rng.normal(size=(samples, outputs))
    step = readouts.gauss_newton_step(jacobian, residual, np.broadcast_to(np.eye(outputs), (samples, outputs, outputs)), damping)
    flat = jacobian.reshape(-1, size)
    ridge = np.sqrt(damping * np.trace(flat.T @ flat) / size) * np.eye(size)
    expected = np.linalg.lstsq(np.vstack([flat, ridge]), np.concatenate([-residual.ravel(), np.zeros(size)]), rcond=None)[0]
    np.testing.assert_allclose(step, expected, atol=1e-9)


def test_the_best_of_a_line_is_that_of_a_quadratic() -> None:
    floor, target, best = np.zeros(3, np.float32), np.array([1, 2, 0], np.float32), np.array([1.4, 2.8, 5], np.float32)
    found, w = readouts.best_on_line(floor, target, [0.0, 0.6, 1.0, 1.4, 1.8], lambda w: float(((w - best) ** 2).sum()))
    assert found == 1.4
    np.testing.assert_allclose(w, [1.4, 2.8, 0], rtol=1e-6)


def test_held_out_samples_are_none_of_the_training_ones() -> None:
    trained = {i * 60000 // 7000 for i in range(7000)}  # training/data_sets.cpp
    held_out = readouts.held_out_indices(60000, 7000, 2000)
    assert len(set(held_out)) == 2000 and not trained & set(held_out)
    assert held_out[0] < 60 and held_out[-1] > 59900 and np.diff(held_out).max() < 40  # spread over the file
    assert list(readouts.held_out_indices(60000, 7000, 4000)[::2]) == list(held_out)  # twice as many: these, and others between
    assert len(readouts.held_out_indices(10, 4, 6)) == 6
    with pytest.raises(BadRun, match="held_out needs 1 to 6"):
        readouts.held_out_indices(10, 4, 7)


class Linear:
    """A judge of weights [features, 2 classes], in two layers of its rows."""

    def logits(self, w: Tensor, images: Tensor) -> Tensor:
        return images @ w.view(-1, 2)

    def blocks(self) -> list[slice]:
        return [slice(0, 4), slice(4, 12)]


def test_coefficients_by_layers_reach_the_optimum_of_a_convex_loss() -> None:
    rng = np.random.default_rng(0)
    images, rows = rng.normal(size=(60, 6)), rng.normal(size=(3, 12))
    labels = (images[:, 0] + rng.normal(size=60) > 0).astype(np.int64)
    samples = Samples(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels))
    options = {"epochs": 300, "batch_size": 60, "learning_rate": 0.5}
    w = readouts.learned_by_layers(Linear(), rows.astype(np.float32), samples, options, seed=1)  # type: ignore[arg-type]
    spread = rows - rows.mean(0)

    def moved(c: np.ndarray) -> np.ndarray:
        return rows.mean(0) + np.concatenate([c[:3] @ spread[:, :4], c[3:] @ spread[:, 4:]])

    def loss(w: np.ndarray) -> float:
        return float(-log_softmax(images @ w.reshape(-1, 2), axis=1)[np.arange(60), labels].mean())

    assert loss(rows.mean(0)) > 1.05 * loss(w)
    assert loss(w) == pytest.approx(minimize(lambda c: loss(moved(c)), np.zeros(6)).fun, abs=1e-4)


def test_principal_directions_are_as_long_as_the_deviation_along_them() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(12, 5)) * [5, 4, 3, 2, 1]
    directions = readouts.principal_directions(rows.astype(np.float32), 3).astype(np.float64)
    largest = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1][:3]
    np.testing.assert_allclose(directions @ directions.T, np.diag(largest), atol=1e-5)


@pytest.fixture(scope="module")
def samples() -> Samples:
    rng = np.random.default_rng(4)
    return Samples(torch.from_numpy(rng.normal(size=(30, 1, 18, 18))), torch.from_numpy(rng.integers(10, size=30)))


def test_directional_derivatives_are_those_of_differences(samples: Samples) -> None:
    rng = np.random.default_rng(5)
    torch.manual_seed(1)
    judge = Judge("convnet", samples)
    judge.network.double()
    w = torch.nn.utils.parameters_to_vector(judge.network.parameters()).detach().numpy()
    directions = rng.normal(size=(2, len(w)))
    logits, jacobian = readouts.directional_outputs(judge, w, directions, samples)
    with torch.no_grad():
        np.testing.assert_allclose(logits, judge.network(samples.images), atol=1e-12)
        for direction, column in zip(directions, jacobian.unbind(2), strict=True):
            high, low = (judge.logits(torch.from_numpy(w + h * direction), samples.images) for h in (1e-7, -1e-7))
            np.testing.assert_allclose(column, (high - low) / 2e-7, rtol=1e-3, atol=1e-4)
    assert [block.stop - block.start for block in judge.blocks()][-2:] == [64 * 64 + 64, 64 * 10 + 10]
    assert judge.blocks()[-1].stop == len(w) and len(judge.blocks()) == 5


def test_the_temperature_of_two_classes_has_a_closed_form() -> None:
    # Margins of 6 that are right for 3 of 4: the softmax of 6/T is 3/4 at T = 6 / log 3, with the entropy of 3/4 as its loss.
    logits = torch.tensor([[6.0, 0.0]] * 8, dtype=torch.float64)
    samples = Samples(torch.zeros(8), torch.tensor([0, 0, 0, 1] * 2))
    found = readouts.fitted_temperature(logits, samples)
    assert found == pytest.approx(6 / np.log(3), rel=1e-5)
    assert readouts.mean_loss(logits / found, samples) == pytest.approx(np.log(4) - 0.75 * np.log(3), abs=1e-9)


def test_no_temperature_fits_what_is_not_finite() -> None:
    with pytest.raises(BadRun, match="a logit is not finite"):
        readouts.fitted_temperature(torch.tensor([[0.0, float("nan")]]), Samples(torch.zeros(1), torch.tensor([0])))


def test_a_tempered_loss_is_that_of_the_held_out_images_best(samples: Samples) -> None:
    torch.manual_seed(2)
    single = Samples(samples.images.float(), samples.labels)
    judge = Judge("convnet", single)
    w = 3 * torch.nn.utils.parameters_to_vector(judge.network.parameters()).detach().numpy()
    held_out, test = single.part(slice(20)), single.part(slice(20, None))
    temperature, tempered = judge.tempered_loss(w, held_out, test)
    around = [temperature * s for s in (0.8, 0.99, 1, 1.01, 1.25)]
    losses = {t: readouts.mean_loss(judge.outputs(w, held_out) / t, held_out) for t in around}
    assert min(losses, key=losses.__getitem__) == temperature and abs(temperature - 1) > 0.05
    assert tempered == readouts.mean_loss(judge.outputs(w, test) / temperature, test) != judge.scores(w, test)[0]


def test_a_network_with_batchnorm_is_refused(samples: Samples) -> None:
    with pytest.raises(ValueError, match="without BatchNorm, received resnet20"):
        Judge("resnet20", samples)


TINY = """title = "tiny"
question = "Does it run?"
held_out = 100
constant_epochs = 2
tail_epochs = 1
longer_epochs = 2
window = 5
floor_rate = 0.005
[stage1]
train_samples = 320
batch_size = 64
learning_rate = 0.05
[rna]
regularisation = 1e-2
[line]
lambdas = [0.0, 1.0]
[layers]
epochs = 2
batch_size = 50
learning_rate = 0.002
[gauss_newton]
components = 2
samples = 50
dampings = [1.0]
"""


def test_a_replicate_scores_every_arm_and_goes_on_from_its_rows(
    tmp_path: Path, binaries: Path, execute: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    plan, rows = tmp_path / "tiny.toml", tmp_path / "rows.jsonl"
    plan.write_text(TINY)
    common = [
        str(plan),
        "--replicates",
        "1",
        "--threads=1",
        "--rows",
        str(rows),
        "--data",
        str(few()),
        "--dimred",
        str(binaries / "dimred"),
    ]
    assert tail.main([*common, "--output", str(tmp_path / "here")]) == 0
    made = {row["kind"]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert tuple(made) == tail.EXPERIMENT.arms
    replicate = tmp_path / "here" / "replicate_1"
    scored = {"floor": [max((replicate / "tail" / "snapshots").iterdir())], "tail": sorted((replicate / "tail" / "snapshots").iterdir()),
              "tail_longer": sorted((replicate / "tail_longer" / "snapshots").iterdir())[-5:],
              "annealed": [max((replicate / "annealed" / "snapshots").iterdir())]}  # fmt: skip
    for arm, files in scored.items():  # judged by the trainer itself
        listed = tmp_path / f"{arm}.txt"
        listed.write_text("".join(f"{file}\n" for file in files))
        said = execute("dimred", "evaluate", listed, "--threads=1", "--test_samples=0", "--data", few())
        assert f"loss {made[arm]['test_loss']:.4f}  accuracy {100 * made[arm]['test_accuracy']:.2f} %" in said, said
    held_out = {arm: row["validation_loss"] for arm, row in made.items()}
    assert held_out["line"] == pytest.approx(min(held_out["floor"], held_out["tail"])) and held_out["layers"] < held_out["tail"]
    assert {arm: row["epochs_of_passes"] for arm, row in made.items() if arm in tail.RIVALS} == {
        "floor": 3, "annealed": 3, "tail": 3, "annealed_longer": 4, "tail_longer": 4}  # fmt: skip
    assert made["line"]["epochs_of_passes"] == pytest.approx(3 + 2 * 100 / 3 / 320)
    first = capsys.readouterr().out
    assert "test loss at a fitted temperature" in first and "not compared" not in first
    assert tail.main([*common, "--output", str(tmp_path / "elsewhere")]) == 0
    assert first.endswith(capsys.readouterr().out) and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert tail.read_plan(plan)["window"] == 40


@pytest.mark.parametrize(("before", "after", "rule"), [
    ("floor_rate = 0.005", "floor_rate = 0", "floor_rate needs a number above 0, received 0"),
    ("train_samples = 320\n", "", "stage1 needs train_samples"),
    ("tail_epochs = 1\nlonger_epochs = 2", "tail_epochs = 2\nlonger_epochs = 3", "window needs a multiple of tail_epochs, received 5"),
    ("longer_epochs = 2", "longer_epochs = 1", "longer_epochs needs more than tail_epochs, received 1"),
    ("[layers]\nepochs = 2", "[layers]\nepochs = 9", "layers takes the passes of 2.81 epochs, the longer tail has 1 more"),
    ("[rna]", "[own]", "unknown key own"),
])  # fmt: skip
def test_a_plan_that_cannot_run_is_refused(before: str, after: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert before in TINY
    plan = tmp_path / "plan.toml"
    plan.write_text(TINY.replace(before, after, 1))
    assert tail.main([str(plan), "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err and not (tmp_path / "out").exists()


def rows_of(gains: Mapping[str, tuple[float, float]]) -> list[replicates.Row]:
    """Of three replicates in which these arms gain so many points and so much loss over the others."""
    rows = []
    for replicate in (1, 2, 3):
        for arm in tail.EXPERIMENT.arms:
            points, nats = gains.get(arm, (0.0, 0.0))
            rows.append({"replicate": replicate, "kind": arm, "validation_loss": 0.3, "test_accuracy": 0.9 + points / 100,
                         "test_loss": 0.3 - nats + 0.001 * replicate, "epochs_of_passes": 20})  # fmt: skip
    return rows


def test_a_readout_must_gain_both_over_the_mean_of_as_many_passes() -> None:
    assert "3 replicates: no readout gains both" in tail.report(rows_of({}))
    assert "no readout gains both" in tail.report(rows_of({"line": (0.5, 0.001), "layers": (0.01, 0.01)}))
    assert "3 replicates: line gains both" in tail.report(rows_of({"line": (0.05, 0.003)}))
    assert "no readout gains both" in tail.report(rows_of({"line": (0.05, 0.003), "tail_longer": (0.05, 0.003)}))
    assert "3 replicates: rna gains both" in tail.report(rows_of({"rna": (0.05, 0.003), "tail_longer": (0.05, 0.003)}))
