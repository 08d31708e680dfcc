"""experiments/transfer.py: draws and directions, the free last layer against NumPy, plans, and a whole small replicate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import transfer
from conftest import REPOSITORY
from dimred.runs import read_weights
from dimred.runs.snapshots import snapshot_files
from fashion import few
from scipy.special import softmax
from torch import Tensor
from workbench import readouts, replicates
from workbench.readouts import Samples

PLANS = sorted((REPOSITORY / "experiments" / "transfer").glob("*.toml"))


def test_a_draw_has_as_many_of_each_class_and_holds_as_many_out() -> None:
    labels = np.random.default_rng(0).integers(10, size=2000).astype(np.uint8)
    trained, held_out = transfer.drawn(labels, 30, 1)
    for part in (trained, held_out):
        assert (np.bincount(labels[part]) == 30).all() and len(part) == 300
    assert not set(trained) & set(held_out)
    again, other = transfer.drawn(labels, 30, 1)[0], transfer.drawn(labels, 30, 2)[0]
    assert (again == trained).all() and 20 < len(set(trained) & set(other)) < 80


class Linear:
    """A judge of weights [5 features, 2 classes], the rows of the last 2 features in the last layer."""

    def logits(self, w: Tensor, images: Tensor) -> Tensor:
        return images @ w.view(-1, 2)

    def blocks(self) -> list[slice]:
        return [slice(0, 6), slice(6, 10)]


@pytest.mark.parametrize("count", [0, 2])
def test_directions_and_a_last_layer_are_trained_by_momentum(count: int) -> None:
    rng = np.random.default_rng(1)
    images, labels, start = rng.normal(size=(20, 5)), rng.integers(2, size=20), rng.normal(size=10)
    along = np.linalg.qr(rng.normal(size=(6, 2)))[0].T[:count]
    padded = np.pad(along, ((0, 0), (0, 4))).astype(np.float32)
    samples = Samples(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels))
    options = {"epochs": 7, "batch_size": 20, "learning_rate": 0.3, "head_rate": 0.1}
    found = readouts.tuned_in_directions(Linear(), start.astype(np.float32), padded, samples, options, 1)  # type: ignore[arg-type]
    basis = np.concatenate([np.pad(along, ((0, 0), (0, 4))), np.eye(10)[6:]])  # P-SGD in these rows, with two rates
    rates, velocity, w = np.array([0.3] * count + [0.1] * 4), np.zeros(count + 4), start.copy()
    for step in range(7):
        gradient = images.T @ (softmax(images @ w.reshape(5, 2), axis=1) - np.eye(2)[labels]) / 20
        velocity = 0.9 * velocity + basis @ gradient.ravel()
        w = w - basis.T @ (rates * (1 - step / 7) * velocity)
    np.testing.assert_allclose(found, w, atol=1e-5)


TINY = """title = "tiny"
question = "Does it run?"
base_seed = 3
[base]
model = "convnet"
preprocessing_name = "rescale"
image_size = 28
train_samples = 128
epochs = 2
snapshots_per_epoch = 2
[tuned]
preprocessing_name = "rescale"
image_size = 28
[sizes.4]
begin_epochs = 3
epochs = 2
window = 2
batch_size = 20
snapshots_per_epoch = 1
learning_rate = 0.02
head_rate = 0.05
[sizes.4.arms]
head_whole = {learning_rate = 0.02}
psgd_last = {preset = "psgd", start = "last", learning_rate = 0.05}
psgd_mean = {preset = "psgd", start = "mean", learning_rate = 0.05}
robust_last = {preset = "robust", start = "last", alpha = 0}
robust_mean = {preset = "robust", start = "mean", alpha = 0}
psgd_residual = {preset = "psgd", start = "mean", learning_rate = 0.05, alpha = 0.01, alpha_schedule = "linear"}
robust_residual = {preset = "robust", start = "mean", alpha = 0.005, alpha_schedule = "linear"}
random_mean = {preset = "psgd", start = "mean", basis = "random", n_component = 2, learning_rate = 0.05}
robust_pretrained = {preset = "robust", start = "last", alpha = 0, components = 2}
psgd_pretrained = {components = 2, learning_rate = 0.05, head_rate = 0.05}
psgd_random = {components = 2, learning_rate = 0.05, head_rate = 0.05}
"""


def test_a_replicate_scores_every_arm_and_goes_on_from_its_rows(
    tmp_path: Path, binaries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, rows, out = tmp_path / "tiny.toml", tmp_path / "rows.jsonl", tmp_path / "here"
    plan.write_text(TINY)
    common = [str(plan), "--replicates", "1", "--threads=1", "--rows", str(rows), "--data", str(few()), "--dimred",
              str(binaries / "dimred"), "--base", f"data={few()}"]  # fmt: skip
    assert transfer.main([*common, "--output", str(out)]) == 0
    made = {row["kind"]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert tuple(made) == transfer.EXPERIMENT.arms and {row["images"] for row in made.values()} == {4}
    assert len({row["test_loss"] for row in made.values()}) == len(made)  # no arm is another's
    folder = out / "replicate_1" / "images_4"
    for arm in ("constant", "head", "head_whole", "psgd_mean", "robust_pretrained"):  # the trainer's own score of the held-out images
        curve = (folder / arm / "curve.csv").read_text().splitlines()
        last = dict(zip(curve[0].split(","), curve[-1].split(","), strict=True))
        assert float(last["test_loss"]) == pytest.approx(made[arm]["validation_loss"], abs=1e-5)
        assert float(last["test_accuracy"]) == pytest.approx(made[arm]["validation_accuracy"])
    weights, start = [read_weights(file) for file in snapshot_files(out / "base")], snapshot_files(folder / "head_whole")[0]
    for kind in ("pretrained", "random"):
        along = transfer.directions(out / "base", 650, 3, 1, kind).astype(np.float64)
        np.testing.assert_allclose(along @ along.T, np.eye(3), atol=1e-5)
        assert not along[:, -650:].any()
        spread = (weights[0] - weights[3])[:-650]
        inside = np.linalg.norm(along[:, :-650] @ spread) / np.linalg.norm(spread)
        assert inside > 0.999 if kind == "pretrained" else inside < 0.1  # four snapshots span three directions
    np.testing.assert_array_equal(read_weights(start)[:-650], weights[3][:-650])  # the last layer alone was tuned
    moved = read_weights(folder / "robust_pretrained" / "final.h5") - read_weights(start)
    along = np.load(folder / "pretrained.npy")
    np.testing.assert_allclose(along.T @ (along @ moved), moved, atol=1e-5)
    assert np.abs(moved).max() > 1e-3
    first = capsys.readouterr().out
    assert transfer.main([*common, "--output", str(tmp_path / "elsewhere")]) == 0
    assert first.endswith(capsys.readouterr().out) and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert set(transfer.read_plan(plan)["sizes"]) == {"10", "100"}


@pytest.mark.parametrize(("before", "after", "rule"), [
    ("base_seed = 3\n", "", "needs base_seed"),
    ("epochs = 2\nsnapshots_per_epoch = 2", "epochs = 2\nsnapshots_per_epoch = 1", "base needs 3 snapshots or more"),
    ("window = 2", "window = 3", "sizes.4.window needs 2 to all the snapshots of a phase, received 3"),
    ("head_rate = 0.05\n[sizes.4.arms]", "[sizes.4.arms]", "sizes.4 needs head_rate"),
    ("batch_size = 20", "batch_size = 20\nown = 1", "sizes.4 has the unknown key own"),
    ("random_mean = {", "random_own = {", "sizes.4.arms needs random_mean"),
    ("[sizes.4]", "[sizes.0]", "sizes.0 needs a number of images a class, from 1 to 3000"),
])  # fmt: skip
def test_a_plan_that_cannot_run_is_refused(before: str, after: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert before in TINY
    plan = tmp_path / "plan.toml"
    plan.write_text(TINY.replace(before, after, 1).replace("[sizes.4.", f"[sizes.{after[7] if after.startswith('[sizes') else 4}."))
    assert transfer.main([str(plan), "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err and not (tmp_path / "out").exists()


def rows_of(gains: Mapping[str, tuple[float, float]]) -> list[replicates.Row]:
    """Of four replicates in which these arms gain so many points and so much loss over the others."""
    rows = []
    for replicate in (1, 2, 3, 4):
        for arm in transfer.EXPERIMENT.arms:
            points, nats = gains.get(arm, (0.0, 0.0))
            wave = 1e-4 * np.sin(7 * replicate + len(arm))
            rows.append({"replicate": replicate, "images": 10, "kind": arm, "validation_loss": 0.5 - nats, "test_loss": 0.5 - nats + wave,
                         "validation_accuracy": 0.8 + points / 100, "test_accuracy": 0.8 + points / 100 + wave})  # fmt: skip
    return rows


def test_an_arm_wins_over_the_best_rival_of_each_metric() -> None:
    said = transfer.report(rows_of({"head": (2.0, 0.0), "mean": (0.0, 0.1), "psgd_mean": (3.0, 0.05), "robust_last": (1.0, 0.2)}))
    assert "Stop rule, test %, 10 images a class: psgd_mean beats head" in said
    assert "Stop rule, test loss, 10 images a class: robust_last beats mean" in said
    assert "no subspace beats annealed" in transfer.report(rows_of({"annealed": (1.0, 0.1)}))
