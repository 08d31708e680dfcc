"""dimred.SubspaceOptimizer and dimred.minimize: the C++ trainer's path, and what a training loop of one's own asks
of them.
"""

from __future__ import annotations

import fcntl
import json
import math
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli import cli, rows_in
from compared_runs import second_stage
from conftest import PACKAGE
from dimred_twins import build
from fashion import few
from ranked_steps import take_steps
from reference.problem import Problem, minibatches, reference
from safetensors.torch import load_file
from test_presets import CASES, TOLERANCE, Case, deviation
from test_script_models import Net as ScriptNet
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as checkpoints_by_name
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import distribute_tensor
from torch.nn import functional

import dimred
from dimred._ranks import Ranks

PRESETS = ["robust", "robust-mean", "mindspore-latest", "mindspore-first", "dldr", "psgd", "twa", "sgd", "swa", "ema"]


# The same path.


@pytest.fixture(scope="module")
def stage1(tmp_path_factory, execute) -> Path:
    run = tmp_path_factory.mktemp("optimizer") / "stage1"
    execute(
        "dimred",
        "stage1 --train_samples=1280 --test_samples=50 --epochs=3 --batch_size=64 --threads=1",
        "--learning_rate=0.05 --snapshots_per_epoch=4",
        data=few(),
        output=run,
    )
    return run


@pytest.mark.parametrize("preset", PRESETS)
def test_the_trainers_steps_are_taken(preset: str, stage1: Path, tmp_path: Path, execute) -> None:
    """ConvNet: from its weights, on its batches, in its matrix. Curvature between batches amplifies rounding, so
    that quasi-Newton
    presets take 5 steps here, dldr's long ones 3, and 20 on the smooth problems below, on which the C++ is compared
    with the same reference; so does a rate of 0.05 in all weights."""
    rate: dict[str, float] = {
        "psgd": {"learning_rate": 0.05},
        "twa": {"learning_rate": 0.05},
        "mindspore-first": {"trials": 12},
        "sgd": {"learning_rate": 0.005},
        "swa": {"learning_rate": 0.005},
        "ema": {"learning_rate": 0.005},
    }.get(preset, {})
    steps = 3 if preset == "dldr" else 5 if preset.startswith(("robust", "mindspore")) else 20
    words = [f"--{name}={value}" for name, value in rate.items()]
    words += [f"--batch_size={math.ceil(1280 / steps)}", "--hooks=batches", "--epochs=1"]
    second_stage(execute, stage1, tmp_path / "run", "--preset", preset, *words)
    batches = sorted((tmp_path / "run" / "batches").glob("step_*.safetensors"))
    assert len(batches) == steps
    model = build("convnet", 1, 28, 28, 10)
    model.load_state_dict(load_file(tmp_path / "run" / "batches" / "weights_00000000.safetensors"))
    matrix = tmp_path / "run" / "pca_mat.npy"
    basis = dimred.Basis.load(matrix) if matrix.exists() else None
    optimizer = dimred.SubspaceOptimizer(model, basis, preset=preset, total_steps=steps, **rate)
    start = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    for file in batches:
        batch = load_file(file)
        decay = decay_of(optimizer, model)
        loss = optimizer.step(lambda batch=batch: functional.cross_entropy(model(batch["images"]), batch["labels"]))
        assert float(loss) - decay == pytest.approx(float(batch["loss"]), rel=1e-4)
    [state] = (tmp_path / "run" / "checkpoints").glob(f"state_{steps:08}")
    expected = torch.from_numpy(np.fromfile(state / "weights.f32", np.float32))
    got = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert (expected - start).norm() > 5e-4 * start.norm()
    assert (got - expected).norm() <= TOLERANCE * expected.norm()


@pytest.mark.parametrize("preset", ["robust", "psgd"])
def test_a_run_of_the_trainer_is_taken_up(preset: str, stage1: Path, tmp_path: Path, execute) -> None:
    rate = {"learning_rate": 0.05} if preset == "psgd" else {}
    words = ["--batch_size=320", "--hooks=batches", "--epochs=2", *(f"--{name}={rate[name]}" for name in rate)]
    second_stage(execute, stage1, tmp_path / "run", "--preset", preset, *words)
    first, last = sorted((tmp_path / "run" / "checkpoints").glob("state_*"))
    model = build("convnet", 1, 28, 28, 10)
    basis = dimred.Basis.load(tmp_path / "run" / "pca_mat.npy")
    optimizer = dimred.SubspaceOptimizer(model, basis, preset=preset, total_steps=8, **rate)
    optimizer.load_run(first)
    assert optimizer.steps == 4
    for file in sorted((tmp_path / "run" / "batches").glob("step_*.safetensors"))[4:]:
        batch = load_file(file)
        optimizer.step(lambda batch=batch: functional.cross_entropy(model(batch["images"]), batch["labels"]))
    expected = torch.from_numpy(np.fromfile(last / "weights.f32", np.float32))
    got = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert (got - expected).norm() <= TOLERANCE * expected.norm()
    optimizer.load_run(tmp_path / "run")  # its newest state
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()).detach(), expected)
    rows = np.linalg.qr(np.random.default_rng(2).normal(size=basis.components.shape[::-1]))[0].T
    other = dimred.SubspaceOptimizer(model, basis_of(rows), preset=preset, total_steps=8, **rate)
    smaller = dimred.SubspaceOptimizer(net(), random_basis(net()))
    refuse(
        [
            (lambda: other.load_run(first), "the run has another matrix than this optimizer"),
            (lambda: smaller.load_run(first), "has no parameter"),
        ]
    )
    before = everything(model, optimizer)
    with pytest.raises(ValueError, match="needs a run of stage 2"):
        optimizer.load_run(stage1)
    (last / "residual_momentum.f32").write_bytes(bytes(8))
    with pytest.raises(OSError, match=r"residual_momentum\.f32"):
        optimizer.load_run(tmp_path / "run")
    of_other_method = dimred.SubspaceOptimizer(
        model, basis, preset="psgd" if preset == "robust" else "robust", total_steps=8
    )
    with pytest.raises(ValueError):
        of_other_method.load_run(first)
    assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True))


def files_of(state: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in state.iterdir() if file.suffix != ".json"}


def scalars_of(state: Path) -> dict[str, Any]:
    return json.loads((state / "state.json").read_text())["scalars"]


def rows_of(run: Path) -> list[dict[str, str]]:
    return rows_in(run / "curve.csv")


@pytest.mark.parametrize("preset", ["robust", "psgd"])
def test_an_epoch_of_steps_goes_back_to_the_trainer(preset: str, stage1: Path, tmp_path: Path, execute) -> None:
    """Its first and third epoch there and the second one here are three epochs there."""
    rate = {"learning_rate": 0.05} if preset == "psgd" else {}
    words = cli(
        "stage2 --batch_size=640 --threads=1 --hooks=batches --epochs=3 --keep_checkpoints=3",
        checkpoint=stage1,
        preset=preset,
        **rate,
    )
    execute("dimred", *words, output=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    for step in (4, 6):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / f"state_{step:08}")
    model = build("convnet", 1, 28, 28, 10)
    basis = dimred.Basis.load(tmp_path / "run" / "pca_mat.npy")
    optimizer = dimred.SubspaceOptimizer(model, basis, preset=preset, total_steps=6, **rate)
    optimizer.load_run(tmp_path / "run")
    for file in sorted((tmp_path / "whole" / "batches").glob("step_*.safetensors"))[2:4]:
        batch = load_file(file)
        optimizer.step(lambda batch=batch: functional.cross_entropy(model(batch["images"]), batch["labels"]))
    state = optimizer.save_run()
    assert state == tmp_path / "run" / "checkpoints" / "state_00000004"
    saved, expected = scalars_of(state), scalars_of(tmp_path / "whole" / "checkpoints" / state.name)
    assert saved.keys() == expected.keys()
    assert (
        saved["position"]["totals"]["seconds"]
        > scalars_of(state.with_name("state_00000002"))["position"]["totals"]["seconds"]
    )
    for name in ("images", "forward_passes", "backward_passes", "basis_bytes_read"):
        # P's rows are padded there.
        assert saved["position"]["totals"][name] == pytest.approx(
            expected["position"]["totals"][name], rel=1e-3 if name == "basis_bytes_read" else 0
        ), name

    other = build("convnet", 1, 28, 28, 10)
    again = dimred.SubspaceOptimizer(other, basis, preset=preset, total_steps=6, **rate)
    again.load_run(state)
    assert (
        all(torch.equal(a, b) for a, b in zip(everything(model, optimizer), everything(other, again), strict=True))
        and again.steps == 4
    )

    said = execute("dimred", *words, output=tmp_path / "run")
    assert "continuing at epoch 1, step 4 " in said
    theirs, ours = rows_of(tmp_path / "whole"), rows_of(tmp_path / "run")
    assert [(row["epoch"], row["step"], row["images"]) for row in ours] == [
        (row["epoch"], row["step"], row["images"]) for row in theirs
    ]
    assert [row["train_loss"] != "" for row in ours if row["weights"] == "raw"] == [
        False,
        True,
        False,
        True,
    ]  # start; those of the program
    for row, same in zip(ours, theirs, strict=True):
        assert float(row["test_loss"]) == pytest.approx(float(same["test_loss"]), rel=1e-3)
    for name in ("weights", "residual_momentum"):
        got, want = (
            np.fromfile(tmp_path / run / "checkpoints" / "state_00000006" / f"{name}.f32", np.float32)
            for run in ("run", "whole")
        )
        assert np.linalg.norm(got - want) <= 10 * TOLERANCE * np.linalg.norm(want), name
    assert len({*files_of(state)} - {"weights.f32", "residual_momentum.f32", "buffers.f32", "counters.i64"}) == 0


def test_states_that_the_trainer_could_not_go_on_from_are_not_written(stage1: Path, tmp_path: Path, execute) -> None:
    second_stage(execute, stage1, tmp_path / "run", "--preset=robust --batch_size=640 --epochs=2")
    first, last = sorted((tmp_path / "run" / "checkpoints").glob("state_*"))
    basis = dimred.Basis.load(tmp_path / "run" / "pca_mat.npy")

    def refused(
        text: str,
        taken: Path | None = tmp_path / "run",
        steps: int = 2,
        kind: type[Exception] = ValueError,
        **others: Any,
    ) -> None:
        model = build("convnet", 1, 28, 28, 10)
        optimizer = dimred.SubspaceOptimizer(model, basis, **others)
        images, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
        if taken is not None:
            optimizer.load_run(taken)
        for _ in range(steps):
            optimizer.step(lambda: functional.cross_entropy(model(images), labels))
        if text == "loss scale":
            optimizer._taken.scalars["loss_scale"] = {"scale": 1024}
        before = sorted((tmp_path / "run").rglob("*"))
        with pytest.raises(kind, match=text):
            optimizer.save_run()
        assert sorted((tmp_path / "run").rglob("*")) == before

    refused("save_run needs a run: call load_run first", taken=None)
    refused("needs whole epochs of 2 steps since load_run, received 3 steps", steps=3)
    refused("needs whole epochs of 2 steps since load_run, received 0 steps", steps=0)
    refused("needs preset = robust, as in the run, received mindspore-latest", preset="mindspore-latest")
    refused("needs rho = 0.55, as in the run, received 0.5", rho=0.5)
    said = "needs an optimizer that load_run has restored from the newest state of '.*run', "
    said += "received an optimizer from step 2"
    refused(f"{said}; the newest state is {last.name}", taken=first)
    refused("loss scale")
    shutil.copytree(last, tmp_path / "alone")
    refused(
        "needs a state inside a run folder, received '.*alone', which is in no run folder", taken=tmp_path / "alone"
    )
    held = (tmp_path / "run" / ".lock").open("a")
    fcntl.flock(held, fcntl.LOCK_EX)
    refused("is in use|is taken|locked", kind=OSError)
    held.close()
    config = tmp_path / "run" / "config.toml"
    text = config.read_text()
    config.write_text(text + "#")
    refused("config.toml", kind=OSError)
    config.write_text(text)


def test_rates_that_fall_need_the_length_of_the_trainer_s_run(stage1: Path, tmp_path: Path, execute) -> None:
    words = "--batch_size=640 --learning_rate=0.005"
    second_stage(execute, stage1, tmp_path / "mean", words, "--preset=swa --epochs=1")
    second_stage(execute, stage1, tmp_path / "run", words, "--preset=sgd --epochs=2")
    for run, preset, steps, text in (
        ("mean", "swa", None, "needs average = uniform, as in the run, received none"),
        ("run", "sgd", 6, "the run ends after 4 steps, received total_steps = 6"),
    ):
        optimizer = dimred.SubspaceOptimizer(
            build("convnet", 1, 28, 28, 10), None, preset=preset, total_steps=steps, learning_rate=0.005
        )
        optimizer.load_run(tmp_path / run)
        with pytest.raises(ValueError, match=text):
            optimizer.save_run()


def test_no_state_lies_beyond_the_rates_of_the_trainer_s_run(stage1: Path, tmp_path: Path, execute) -> None:
    """`dimred stage2` could continue there neither to the run's own length nor to a longer one."""
    words = "--preset=sgd --batch_size=640 --epochs=2 --learning_rate=0.005 --keep_checkpoints=2"
    second_stage(execute, stage1, tmp_path / "run", words)
    images, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
    model = build("convnet", 1, 28, 28, 10)
    optimizer = dimred.SubspaceOptimizer(model, None, preset="sgd", total_steps=4, learning_rate=0.005)
    optimizer.load_run(tmp_path / "run")
    before = sorted((tmp_path / "run").rglob("*"))
    for _ in range(2):
        optimizer.step(lambda: functional.cross_entropy(model(images), labels))
    with pytest.raises(ValueError, match=r"within the 2 epochs over which the run's rates fall, received .* epoch 3$"):
        optimizer.save_run()
    assert sorted((tmp_path / "run").rglob("*")) == before
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "state_00000004")
    optimizer.load_run(tmp_path / "run")
    for _ in range(2):
        optimizer.step(lambda: functional.cross_entropy(model(images), labels))
    assert optimizer.save_run().name == "state_00000004"  # the last epoch


def test_running_statistics_come_from_the_trainer_and_go_back(tmp_path: Path, execute) -> None:
    """BatchNorm's: a module of one's own through both."""
    torch.manual_seed(1)
    torch.jit.script(ScriptNet(0.0)).save(tmp_path / "net.pt")
    words = (f"--data={few()}", "--train_samples=640", "--test_samples=50", "--threads=1", "--memory_format=contiguous")
    execute(
        "dimred",
        "stage1",
        *words,
        "--epochs=3 --batch_size=64 --snapshots_per_epoch=2",
        model=tmp_path / "net.pt",
        output=tmp_path / "first",
    )
    words = cli(
        "stage2 --preset=robust --n_component=4 --batch_size=320 --threads=1 --hooks=batches",
        checkpoint=tmp_path / "first",
    )
    execute("dimred", *words, "--epochs=2", "--keep_checkpoints=2", "--output", tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "state_00000004")
    model = ScriptNet(0.0)
    optimizer = dimred.SubspaceOptimizer(model, dimred.Basis.load(tmp_path / "run" / "pca_mat.npy"))
    optimizer.load_run(tmp_path / "run")
    taken = files_of(tmp_path / "run" / "checkpoints" / "state_00000002")
    floats = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    assert torch.cat(floats).numpy().tobytes() == taken["buffers.f32"]
    counts = [int(buffer) for buffer in model.buffers() if not buffer.is_floating_point()]
    assert np.array(counts, np.int64).tobytes() == taken["counters.i64"] and min(counts) > 0
    for file in sorted((tmp_path / "whole" / "batches").glob("step_*.safetensors"))[2:]:
        batch = load_file(file)
        optimizer.step(lambda batch=batch: functional.cross_entropy(model(batch["images"]), batch["labels"]))
    got, expected = files_of(optimizer.save_run()), files_of(tmp_path / "whole" / "checkpoints" / "state_00000004")
    assert got["counters.i64"] == expected["counters.i64"]
    for name in ("buffers.f32", "weights.f32"):
        a, b = np.frombuffer(got[name], np.float32), np.frombuffer(expected[name], np.float32)
        assert np.linalg.norm(a - b) <= TOLERANCE * np.linalg.norm(b), name
    assert "continuing at epoch 1, step 4 " in execute("dimred", *words, "--epochs=3", "--output", tmp_path / "run")


def decay_of(optimizer: dimred.SubspaceOptimizer, model: nn.Module) -> float:
    decay = optimizer.method.weight_decay
    return (
        decay
        / 2
        * sum(
            float(p.detach().square().sum())
            for p in model.parameters()
            if p.dim() > 1 or optimizer.method.weight_decay_all
        )
    )


def mlp(problem: Problem) -> nn.Module:
    shape = problem.shape
    model = nn.Sequential(nn.Linear(shape.d, shape.h), nn.Tanh(), nn.Linear(shape.h, shape.C))
    nn.utils.vector_to_parameters(torch.from_numpy(problem.weights.astype(np.float32)), model.parameters())
    return model


def basis_of(rows: np.ndarray) -> dimred.Basis:
    return dimred.Basis(rows.astype(np.float32), None, None)


def constants_of(problem: Problem) -> dict[str, float]:
    """The constants as the C++ takes them: a floor below 0 is out of its range."""
    return asdict(problem.constants)


# Floors below zero are for the replay of the C++ alone: no user can set them.
OPEN = [case for case in CASES if case.constants.curvature_floor >= 0]


@pytest.mark.parametrize("case", OPEN, ids=str)
def test_published_steps_are_replayed(case: Case) -> None:
    flatten = OPEN.index(case) % 2 == 0
    problem = case.problem()
    expected, steps = reference(problem, case.preset)
    model = mlp(problem)
    optimizer = dimred.SubspaceOptimizer(
        model, basis_of(problem.basis), preset=case.preset, flatten=flatten, **constants_of(problem)
    )
    trace = []
    for i, step in enumerate(steps):
        rows = slice(i * problem.batch, (i + 1) * problem.batch)
        images, labels = (
            torch.from_numpy(problem.images[rows].astype(np.float32)),
            torch.from_numpy(problem.labels[rows]),
        )
        optimizer.step(lambda: functional.cross_entropy(model(images), labels))  # noqa: B023
        assert optimizer.report["trials"] == step.trials
        trace.append(nn.utils.parameters_to_vector(model.parameters()).detach().numpy().astype(np.float64))
    assert deviation(np.array(trace), expected) < TOLERANCE


@pytest.mark.parametrize("case", OPEN, ids=str)
def test_minimize_replays_them_in_float64(case: Case) -> None:
    problem = case.problem()
    expected, _ = reference(problem, case.preset)
    trace: list[np.ndarray] = []
    done = dimred.minimize(
        lambda w, batch: batch.loss_and_gradient(w),
        problem.weights,
        basis_of(problem.basis),
        batches=minibatches(problem),
        loss=lambda w, batch: batch.loss(w),
        preset=case.preset,
        callback=lambda now: trace.append(now.w.copy()),
        **constants_of(problem),
    )
    assert deviation(np.array(trace), expected) < 1e-7
    assert len(done.losses) == len(done.reports) == len(expected)


def test_minimize_solves_a_quadratic_in_one_step() -> None:
    """-g is the way to the minimum of |w - a|^2 / 2 in a whole basis, and nothing is outside."""
    random = np.random.default_rng(1)
    a, w = random.normal(size=(2, 12))
    whole = basis_of(np.linalg.qr(random.normal(size=(12, 12)))[0])
    whole.components = np.linalg.qr(random.normal(size=(12, 12)))[0]
    done = dimred.minimize(lambda w: (0.5 * np.sum((w - a) ** 2), w - a), w, whole, steps=1)
    np.testing.assert_allclose(done.w, a, rtol=0, atol=1e-13)
    assert done.reports[0]["accepted"] and done.reports[0]["step_size"] == 1


def test_minimize_keeps_its_vector_from_the_loss() -> None:
    """A loss that changes what it is given, or keeps it, changes nothing; one that is never finite is said."""
    a, w, kept = np.arange(4.0), np.ones(4), []

    def plain(w: np.ndarray) -> tuple[float, np.ndarray]:
        return float(0.5 * np.sum((w - a) ** 2)), w - a

    def careless(w: np.ndarray) -> tuple[float, np.ndarray]:
        kept.append(w)
        loss, gradient = plain(w)
        w -= a
        return loss, gradient

    basis = basis_of(np.eye(2, 4))
    expected = dimred.minimize(plain, w, basis, steps=3)
    np.testing.assert_array_equal(dimred.minimize(careless, w, basis, steps=3).w, expected.w)
    np.testing.assert_array_equal(kept[0], w - a)
    expected = dimred.minimize(plain, w, basis, steps=1)
    in_a_vector = dimred.minimize(lambda w: (np.array([plain(w)[0]]), plain(w)[1]), w, basis, steps=1)
    assert in_a_vector.losses == expected.losses
    with pytest.warns(UserWarning, match=r"no step changed w: in each of 3 steps the loss \(first nan\)"):
        done = dimred.minimize(lambda w: (np.nan, w), w, basis, steps=3)
    np.testing.assert_array_equal(done.w, w)


def test_minimize_takes_no_batch_that_it_does_not_use() -> None:
    seen: list[int] = []

    def loss_and_grad(w: np.ndarray, batch: int) -> tuple[float, np.ndarray]:
        seen.append(batch)
        return float(0.5 * np.sum((w - batch) ** 2)), w - batch

    batches, basis = iter(range(5)), basis_of(np.eye(2, 4))
    assert len(dimred.minimize(loss_and_grad, np.ones(4), basis, steps=3, batches=batches).losses) == 3
    assert next(batches) == 3 and set(seen) == {0, 1, 2}
    assert len(dimred.minimize(loss_and_grad, np.ones(4), basis, steps=3, batches=batches).losses) == 1
    for steps in (3, None):
        with pytest.raises(ValueError, match="needs batches, received none; an iterator gives its batches only once"):
            dimred.minimize(loss_and_grad, np.ones(4), basis, steps=steps, batches=batches)


def test_minimize_gives_each_call_a_whole_batch() -> None:
    """A function may take the labels out of a batch; the caller's batch stays whole."""
    batch = {"x": np.ones(4), "labels": np.arange(4.0)}

    def loss_and_grad(w: np.ndarray, batch: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
        apart = w * batch["x"] - batch.pop("labels")
        return float(0.5 * np.sum(apart**2)), apart

    def loss(w: np.ndarray, batch: dict[str, np.ndarray]) -> float:
        return loss_and_grad(w, batch)[0]

    for of_trials in (None, loss):
        done = dimred.minimize(loss_and_grad, np.ones(4), basis_of(np.eye(2, 4)), batches=[batch] * 3, loss=of_trials)
        assert done.losses[-1] < done.losses[0] and set(batch) == {"x", "labels"}


# What a loop asks for.


PSGD = {"preset": "psgd", "learning_rate": 0.05, "alpha": 0.01, "total_steps": 8}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop, self.fc = (
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.Dropout(0.3),
            nn.Linear(4 * 36, 3),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.drop(torch.relu(self.norm(self.conv(images)))).flatten(1))


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def random_basis(model: nn.Module, k: int = 5, seed: int = 2) -> dimred.Basis:
    size = sum(p.numel() for p in model.parameters())
    return basis_of(np.linalg.qr(np.random.default_rng(seed).normal(size=(size, k)))[0].T)


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 1, 8, 8, generator=generator), torch.randint(0, 3, (16,), generator=generator)


def closure_of(model: nn.Module, seed: int = 0, calls: list[int] | None = None) -> Callable[[], torch.Tensor]:
    images, labels = batch(seed)

    def closure() -> torch.Tensor:
        if calls is not None:
            calls.append(1)
        return functional.cross_entropy(model(images), labels)

    return closure


def states_near(model: nn.Module, count: int = 6) -> list[dict[str, np.ndarray]]:
    """The weights of checkpoints around its own."""
    random = np.random.default_rng(4)
    return [
        {
            name: p.detach().numpy() + random.normal(0, 0.1, p.shape).astype(np.float32)
            for name, p in model.named_parameters()
        }
        for _ in range(count)
    ]


def momentum_of(optimizer: dimred.SubspaceOptimizer) -> torch.Tensor:
    [momentum] = optimizer.state_dict()["state"][0]["momentum"].values()
    return momentum


def everything(model: nn.Module, optimizer: dimred.SubspaceOptimizer) -> list[torch.Tensor]:
    numbers = [torch.tensor(values) for values in optimizer.method.state_dict().values()]
    return [value.clone() for value in (*model.state_dict().values(), momentum_of(optimizer), *numbers)]


@pytest.mark.parametrize("flatten", [True, False])
def test_trials_leave_batchnorm_and_random_numbers_alone(flatten: bool) -> None:
    model, twin = net(), net()
    calls: list[int] = []
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), sigma=0.9, trials=6, flatten=flatten)
    for seed in range(4):
        twin.load_state_dict(model.state_dict())
        torch.manual_seed(seed)
        closure_of(twin, seed)()
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        calls.clear()
        optimizer.step(closure_of(model, seed, calls))
        assert torch.equal(torch.get_rng_state(), after)
        for name, buffer in twin.named_buffers():
            assert torch.equal(model.get_buffer(name), buffer), name
        assert len(calls) == 1 + optimizer.report["trials"] + (seed == 0)
    assert int(model.norm.num_batches_tracked) == 4


def test_an_autocast_around_the_step_sees_each_trial() -> None:
    """It keeps copies of the weights in bfloat16, which a trial changes."""
    within, around = net(), net()
    losses: list[list[float]] = [[], []]
    for model, found in ((within, losses[0]), (around, losses[1])):
        optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
        for seed in range(3):
            plain = closure_of(model, seed)

            def cast(plain: Callable[[], torch.Tensor] = plain) -> torch.Tensor:
                with torch.autocast("cpu", torch.bfloat16):
                    return plain()

            torch.manual_seed(seed)
            if model is within:
                found.append(float(optimizer.step(cast)))
            else:
                with torch.autocast("cpu", torch.bfloat16):
                    found.append(float(optimizer.step(plain)))
            assert optimizer.report["accepted"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_a_buffer_that_repeats_one_element_stays() -> None:
    model = net()
    model.register_buffer("mask", torch.ones(1, 2).expand(4, 2))
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
    optimizer.step(closure_of(model))
    assert optimizer.report["accepted"] and torch.equal(model.mask, torch.ones(4, 2))


@pytest.mark.parametrize("failing", [0, 2, 3])
@pytest.mark.parametrize("flatten", [True, False])
def test_an_error_in_the_closure_changes_nothing(failing: int, flatten: bool) -> None:
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), sigma=0.99, rho=0.9, flatten=flatten)
    for seed in range(3):
        optimizer.step(closure_of(model, seed))
    calls: list[int] = []
    whole = closure_of(model, 7, calls)

    def interrupted() -> torch.Tensor:
        if len(calls) == failing:
            raise KeyboardInterrupt
        return whole()

    before = everything(model, optimizer)
    random = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(interrupted)
    assert len(calls) == failing
    assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    optimizer.step(closure_of(model, 8))
    assert optimizer.steps == 4


def test_a_state_goes_on_bit_for_bit(tmp_path: Path) -> None:
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), **PSGD)
    for seed in range(8):
        if seed == 4:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()},
                tmp_path / "state.pt",
            )
        optimizer.step(closure_of(model, seed))
    other = net()
    resumed = dimred.SubspaceOptimizer(other, random_basis(other), **PSGD)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    for seed in range(4, 8):
        resumed.step(closure_of(other, seed))
    assert all(torch.equal(a, b) for a, b in zip(everything(model, optimizer), everything(other, resumed), strict=True))
    wrong = dimred.SubspaceOptimizer(net(), random_basis(model))
    with pytest.raises(ValueError, match=r"needs a state of the preset robust .* received psgd"):
        wrong.load_state_dict(saved["optimizer"])
    of_another_basis = dimred.SubspaceOptimizer(other, random_basis(other, seed=9), preset="psgd", total_steps=8)
    with pytest.raises(ValueError, match=r"needs a state of the basis sha256:.* received a state of the basis sha256:"):
        of_another_basis.load_state_dict(saved["optimizer"])
    own = saved["optimizer"]["state"][0]
    own["momentum"] = {columns: kept[:3] for columns, kept in own["momentum"].items()}
    before = everything(other, resumed)
    with pytest.raises(ValueError, match=r"needs vectors of \d+ numbers, received \[3\]"):
        resumed.load_state_dict(saved["optimizer"])
    assert all(torch.equal(a, b) for a, b in zip(before, everything(other, resumed), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_distributed_checkpoint_keeps_the_state(dtype: torch.dtype, tmp_path: Path) -> None:
    """The state goes by the names of parameters, also into an optimizer before its first step, which torch.optim.LBFGS
    refuses. A state that is kept beside those of parameters would be lost without a word.
    """

    def made() -> tuple[nn.Module, dimred.SubspaceOptimizer]:
        model = net().to(dtype)
        return model, dimred.SubspaceOptimizer(model, random_basis(model), alpha=0.01)

    def batch_loss(model: nn.Module, seed: int) -> Callable[[], torch.Tensor]:
        images, labels = batch(seed)
        return lambda: functional.cross_entropy(model(images.to(dtype)).float(), labels)

    model, optimizer = made()
    for seed in range(3):
        optimizer.step(batch_loss(model, seed))
    parts = dict(zip(("model", "optimizer"), checkpoints_by_name.get_state_dict(model, optimizer), strict=True))
    checkpoint.save(parts, checkpoint_id=tmp_path)
    other, again = made()
    parts = dict(zip(("model", "optimizer"), checkpoints_by_name.get_state_dict(other, again), strict=True))
    checkpoint.load(parts, checkpoint_id=tmp_path)
    checkpoints_by_name.set_state_dict(
        other, again, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"]
    )
    assert again.steps == 3 and momentum_of(again).norm() > 0
    for seed in range(3, 5):
        torch.manual_seed(seed)
        optimizer.step(batch_loss(model, seed))
        torch.manual_seed(seed)
        again.step(batch_loss(other, seed))
    assert all(torch.equal(a, b) for a, b in zip(everything(model, optimizer), everything(other, again), strict=True))
    foreign = torch.optim.Adam(model.parameters())
    for state, text in ((foreign.state_dict(), "one with state, param_groups"), (None, "None"), ({}, r"{}")):
        with pytest.raises(ValueError, match=f"needs a state of a SubspaceOptimizer, received {text}"):
            again.load_state_dict(state)


def test_frozen_and_tied_parameters() -> None:
    """What needs no gradient stays; a tied weight is one."""
    model = net()
    model.conv.requires_grad_(False)
    kept = deepcopy(model.conv.state_dict())
    trained = [p for p in model.parameters() if p.requires_grad]
    size = sum(p.numel() for p in trained)
    optimizer = dimred.SubspaceOptimizer(trained, basis_of(np.eye(4, size)))
    optimizer.step(closure_of(model.eval()))
    assert all(torch.equal(value, model.conv.state_dict()[name]) for name, value in kept.items())
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    optimizer = dimred.SubspaceOptimizer(tied, basis_of(np.eye(3, 16)))
    start = tied[0].weight.detach().clone()
    optimizer.step(lambda: tied(torch.ones(1, 4)).square().mean())
    assert tied[1].weight is tied[0].weight and not torch.equal(start, tied[0].weight)


def test_columns_follow_the_names_of_the_basis(tmp_path: Path) -> None:
    """A basis of checkpoints whose order is another gives the same step."""
    model, other = net(), net()
    states = states_near(model)
    forward = dimred.fit(states, 4)
    backward = dimred.fit([dict(reversed(list(state.items()))) for state in states], 4)
    assert forward.names == list(reversed(backward.names))
    for network, basis in ((model, forward), (other, backward)):
        torch.manual_seed(5)
        dimred.SubspaceOptimizer(network, basis).step(closure_of(network))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    wrapped = dimred.fit([{f"module.{name}": value for name, value in state.items()} for state in states], 4)
    dimred.SubspaceOptimizer(net(), wrapped)
    with pytest.raises(ValueError, match=r"the basis has conv.weight, but the model does not train conv.weight"):
        model.conv.weight.requires_grad_(False)
        dimred.SubspaceOptimizer(model, forward)
    with pytest.raises(ValueError, match=r"the model trains 0.weight \[2, 2\], but the basis has no such parameter"):
        dimred.SubspaceOptimizer(nn.Sequential(nn.Linear(2, 2)), forward)


def test_a_basis_of_blocks(tmp_path: Path) -> None:
    """Each layer has components of its own: a block's rows act on its columns alone."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    basis = dimred.fit(states_near(model), 2, blocks="layers")
    assert len(basis.blocks) > 1
    optimizer = dimred.SubspaceOptimizer(model, basis, alpha=0)
    w = nn.utils.parameters_to_vector(model.parameters()).detach().numpy().astype(np.float64)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    loss = model(x).square().mean()
    loss.backward()
    g = nn.utils.parameters_to_vector([p.grad for p in model.parameters()]).numpy().astype(np.float64)
    expected = np.zeros_like(w)
    for begin, end in basis.blocks:
        rows = np.asarray(basis.components[:, begin:end], np.float64)
        expected[begin:end] = rows.T @ (rows @ g[begin:end])
    optimizer.step(lambda: model(x).square().mean())
    moved = w - nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    np.testing.assert_allclose(moved, optimizer.report["step_size"] * expected, rtol=1e-4, atol=1e-6)


def test_sam_and_decay_are_in_the_loss() -> None:
    """Against the formulas, with plain gradient steps: sgd without momentum."""
    model = nn.Linear(6, 3)
    x, y = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3
    twin = deepcopy(model).double()
    rate, decay, radius = 0.1, 0.01, 0.05
    optimizer = dimred.SubspaceOptimizer(
        model,
        None,
        preset="sgd",
        total_steps=10**9,
        learning_rate=rate,
        momentum=0,
        weight_decay=decay,
        sam_radius=radius,
    )
    functional.cross_entropy(twin(x.double()), y).backward()
    g = [p.grad.clone() for p in twin.parameters()]
    norm = torch.sqrt(sum(part.square().sum() for part in g))
    start = [p.detach().clone() for p in twin.parameters()]
    with torch.no_grad():
        for p, part in zip(twin.parameters(), g, strict=True):
            p.add_(part, alpha=float(radius / norm))
    twin.zero_grad()
    functional.cross_entropy(twin(x.double()), y).backward()
    optimizer.step(lambda: functional.cross_entropy(model(x), y))
    for p, at, before in zip(model.parameters(), twin.parameters(), start, strict=True):
        expected = before - rate * (at.grad + (decay * before if before.dim() > 1 else 0))
        torch.testing.assert_close(p.double(), expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_overflows_is_left_out_and_lowers_the_scale() -> None:
    model = net()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), grad_scaler=scaler)
    before = [p.detach().clone() for p in model.parameters()]
    images, labels = batch()
    optimizer.step(lambda: 1e12 * functional.cross_entropy(model(images), labels))
    scaler.update()
    assert optimizer.report["not_finite"] and scaler.get_scale() == 2.0**99
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    optimizer.step(closure_of(model))
    scaler.update()
    assert not optimizer.report["not_finite"] and scaler.get_scale() == 2.0**99


def test_a_loss_that_is_not_finite_leaves_no_statistics() -> None:
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
    optimizer.step(closure_of(model))
    before = everything(model, optimizer)
    images, labels = batch()
    optimizer.step(lambda: functional.cross_entropy(model(images * torch.inf), labels))
    assert optimizer.report["not_finite"]
    assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True))


# As optimizers of torch.


def constant_sgd(params: Any, **others: Any) -> dimred.SubspaceOptimizer:
    """The preset that is torch.optim.SGD with a constant rate."""
    return dimred.SubspaceOptimizer(params, None, preset="swa", learning_rate=0.1, momentum=0.9, **others)


def grouped(model: nn.Module, rate: float) -> list[dict[str, Any]]:
    """The usual groups: biases and what normalises do not decay."""
    named = list(model.named_parameters())
    return [
        {"params": [pair for pair in named if pair[1].dim() > 1], "weight_decay": rate},
        {"params": [pair for pair in named if pair[1].dim() == 1], "weight_decay": 0.0, "name": "no decay"},
    ]


class Words(nn.Module):
    """An embedding, whose gradient is sparse, and the same weight again at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(20, 6, sparse=True), nn.Linear(6, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(images[:, 0, 0].abs().mul(7).long() % 20).mean(1))


def frozen_a_while(model: nn.Module, step: int) -> None:
    next(model.parameters()).requires_grad_(not 2 <= step < 4)


@pytest.mark.parametrize(
    "variant",
    ["groups", "decay of all", "frozen a while", "sparse", "float64", "channels_last", "compiled", "kept gradients"],
)
@pytest.mark.parametrize("flatten", [False, True])
def test_steps_are_those_of_torch(variant: str, flatten: bool) -> None:
    """SGD of torch.optim on a twin, with its groups, on frozen and thawed, sparse, float64, channels_last and
    compiled parameters.
    """
    torch.manual_seed(3)
    model = Words() if variant == "sparse" else Net()
    if variant == "float64":
        model.double()
    if variant == "channels_last":
        model.conv = nn.Conv2d(2, 4, 3)
        model.to(memory_format=torch.channels_last)
    if flatten and variant in ("float64", "channels_last"):
        before = [p.data_ptr() for p in model.parameters()]
        text = r"flatten=True needs contiguous float32 parameters, received float(32|64) with strides .*\(conv.weight"
        refuse([(lambda: constant_sgd(model, flatten=True), text)])
        assert [p.data_ptr() for p in model.parameters()] == before
        return
    model.eval()  # without dropout, whose numbers the twin would take, too
    twin = deepcopy(model)
    decay = 0.1 if variant in ("groups", "decay of all", "frozen a while") else 0.0
    reference = torch.optim.SGD(
        grouped(twin, decay) if variant == "groups" else twin.parameters(), lr=0.1, momentum=0.9, weight_decay=decay
    )
    called = torch.compile(model, backend="eager") if variant == "compiled" else model
    groups = (
        grouped(model, decay)[::-1]
        if variant == "groups"
        else [{"params": list(model.parameters()), "weight_decay": decay}]
    )
    optimizer = constant_sgd(groups if decay else called, flatten=flatten, weight_decay=0.0)
    for step in range(6):
        images, labels = batch(step)
        if variant == "channels_last":
            images = images.repeat(1, 2, 1, 1)
        images = images.to(next(model.parameters()).dtype)
        if variant == "frozen a while":
            frozen_a_while(model, step)
            frozen_a_while(twin, step)
        optimizer.zero_grad(set_to_none=variant != "kept gradients")
        optimizer.step(lambda images=images, labels=labels: functional.cross_entropy(called(images), labels))
        reference.zero_grad()
        functional.cross_entropy(twin(images), labels).backward()
        reference.step()
    tolerance = 1e-12 if variant == "float64" else 2e-6
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
        assert ours.stride() == theirs.stride()


def test_groups_in_a_subspace_take_the_steps_of_the_module(tmp_path: Path) -> None:
    """Matched by name, in whatever order; a decay of the weights is what the module's own would be."""
    model, other = net(), net()
    basis = dimred.fit(states_near(model), 4)
    whole = dimred.SubspaceOptimizer(model, basis, weight_decay=0.05, alpha=0.01)
    parted = dimred.SubspaceOptimizer(grouped(other.eval(), 0.05), basis, alpha=0.01)
    model.eval()
    for seed in range(3):
        assert torch.equal(whole.step(closure_of(model, seed)), parted.step(closure_of(other, seed)))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert [(g["weight_decay"], g["weight_decay_of"], g["lr"]) for g in parted.param_groups] == [
        (0.05, "all", parted.report["step_size"]),
        (0.0, "all", parted.report["step_size"]),
    ]
    assert "preset: robust" in repr(parted) and "weight_decay: 0.05" in repr(parted)
    with pytest.raises(ValueError, match="takes no new group after the optimizer was made"):
        parted.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    assert len(parted.param_groups) == 2


def test_a_frozen_parameter_is_left_out_of_the_line() -> None:
    """Its columns of P are not stepped along, and the slope that the search is told is that of the loss along the line
    that it takes.
    """
    model = net().eval()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), alpha=0.05, gamma=0.5)
    optimizer.step(closure_of(model, 1))
    model.fc.weight.requires_grad_(False)
    kept, momentum = model.fc.weight.detach().clone(), momentum_of(optimizer)
    start = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    begin = start.double()
    optimizer.step(closure_of(model, 2))
    assert torch.equal(model.fc.weight, kept)
    end = nn.utils.parameters_to_vector(model.parameters()).detach().double()
    t = optimizer.report["step_size"]
    assert t > 0 and not torch.equal(begin, end)
    twin = deepcopy(model).double()

    def loss_at(w: torch.Tensor) -> float:
        nn.utils.vector_to_parameters(w, twin.parameters())
        images, labels = batch(2)
        return float(functional.cross_entropy(twin(images.double()), labels).detach())

    step = (end - begin) / t
    assert optimizer.report["slope"] == pytest.approx(
        (loss_at(begin + 1e-4 * step) - loss_at(begin - 1e-4 * step)) / 2e-4, rel=1e-3
    )
    ends = np.cumsum([0] + [p.numel() for p in model.parameters()])
    own = [name for name, _ in model.named_parameters()].index("fc.weight")
    columns = slice(ends[own], ends[own + 1])
    assert torch.equal(momentum_of(optimizer)[columns], momentum[columns])


def test_what_a_narrow_type_rounds_off_is_kept() -> None:
    """bfloat16: the steps of SGD on float32 weights with gradients at the rounded ones, by a loop of its own; over a
    copy and a state, too.
    What is loaded into the parameters from outside counts."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)).bfloat16()
    twin = deepcopy(model)
    master = [p.detach().float() for p in twin.parameters()]
    velocity = [torch.zeros_like(w) for w in master]
    sgd = {"preset": "swa", "learning_rate": 1e-3, "momentum": 0.9, "weight_decay": 0}
    optimizer = dimred.SubspaceOptimizer(model, None, **sgd)

    def loss_of(network: nn.Module, step: int) -> torch.Tensor:
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step)).bfloat16()
        return functional.cross_entropy(network(x).float(), torch.arange(8) % 3)

    for step in range(40):
        if step == 10:
            model, optimizer = deepcopy((model, optimizer))
        if step == 20:
            state, model = optimizer.state_dict(), deepcopy(model)
            optimizer = dimred.SubspaceOptimizer(model, None, **sgd)
            optimizer.load_state_dict(state)
        if step == 30:
            with torch.no_grad():
                for network in (model, twin):
                    next(network.parameters())[0].fill_(0.5)
                master[0][0] = 0.5
        optimizer.step(lambda model=model, step=step: loss_of(model, step))
        twin.zero_grad()
        loss_of(twin, step).backward()
        with torch.no_grad():
            for w, v, p in zip(master, velocity, twin.parameters(), strict=True):
                w.sub_(v.mul_(0.9).add_(p.grad.float()), alpha=1e-3)
                p.copy_(w)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert any(not torch.equal(w, p.float()) for w, p in zip(master, twin.parameters(), strict=True))


class Moving(nn.Module):
    """Buffers that a pass moves and that its loss depends on: spectral_norm's vectors, and one that is replaced, not
    written to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + 1
        return self.out(torch.tanh(self.layer(images[:, 0, 0, :6]))) / self.seen


def test_every_pass_begins_with_the_same_buffers() -> None:
    torch.manual_seed(3)
    model = Moving()
    nn.init.normal_(model.layer.parametrizations.weight.original)
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), sigma=0.9, trials=6, check_closure=True)
    for seed in range(3):
        twin = deepcopy(model)
        closure_of(twin, seed)()  # one pass: what the buffers are afterwards
        optimizer.step(closure_of(model, seed))
        for name, buffer in twin.named_buffers():
            assert torch.equal(model.get_buffer(name), buffer), name
    assert float(model.seen) == 3 and optimizer.report["trials"] > 0
    before = everything(model, optimizer)
    with pytest.raises(TypeError):
        optimizer.step(lambda: model(batch()[0]))
    assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True))


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("way", [deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["deepcopy", "pickle"])
def test_copies_go_on_by_themselves(way: Callable[..., Any], flatten: bool) -> None:
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model), flatten=flatten, **PSGD)
    optimizer.step(closure_of(model))
    other, again = way((model, optimizer))
    assert again.param_groups[0]["params"][0] is next(other.parameters()) and again.steps == 1
    random = torch.get_rng_state()
    kept = everything(model, optimizer)
    again.step(closure_of(other, 1))
    assert all(torch.equal(a, b) for a, b in zip(kept, everything(model, optimizer), strict=True))
    torch.set_rng_state(random)
    optimizer.step(closure_of(model, 1))
    assert all(torch.equal(a, b) for a, b in zip(everything(model, optimizer), everything(other, again), strict=True))


@pytest.mark.parametrize("flatten", [False, True])
def test_what_is_loaded_in_place_arrives(flatten: bool, tmp_path: Path) -> None:
    """A distributed checkpoint loads into the tensors of state_dict()."""
    model = net()
    optimizer = constant_sgd(model, flatten=flatten, weight_decay=0)
    optimizer.step(closure_of(model))
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=tmp_path / "saved")
    saved = [value.clone() for value in model.state_dict().values()]
    optimizer.step(closure_of(model, 1))
    checkpoint.load({"model": model.state_dict()}, checkpoint_id=tmp_path / "saved")
    assert all(torch.equal(a, b) for a, b in zip(saved, model.state_dict().values(), strict=True))
    model.eval()
    expected = closure_of(model, 2)().detach()
    optimizer.step(closure_of(model, 2))  # from the loaded weights
    assert optimizer.report["loss"] == pytest.approx(float(expected), rel=1e-6)
    assert all(
        p.untyped_storage().nbytes() == p.nbytes for p in model.parameters()
    )  # a saved layer carries its own values alone


def test_hooks_of_an_optimizer_run() -> None:
    """The hooks that profilers, trackers and trainers register."""
    model, calls = net(), []
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda _, state: state | {"tag": 7})
    optimizer.register_load_state_dict_pre_hook(lambda _, state: calls.append(state["tag"]))
    optimizer.step(closure_of(model))
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after", 7] and optimizer.steps == 1


def test_rates_are_read_and_not_set() -> None:
    """lr is the last step size; schedulers and users who set it are refused by a sentence, before a step is lost."""
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
    optimizer.step(closure_of(model))
    assert optimizer.param_groups[0]["lr"] == optimizer.report["step_size"] > 0
    resumed = dimred.SubspaceOptimizer(model, random_basis(model))
    resumed.load_state_dict(optimizer.state_dict())
    resumed.step(closure_of(model))
    before = everything(model, optimizer)
    optimizer.param_groups[0]["lr"] = 0.25
    with pytest.raises(
        ValueError,
        match=r"searches the step size itself, and lr of a group only shows the last step size; received 0.25",
    ):
        optimizer.step(closure_of(model))
    for scheduler in (lambda o: torch.optim.lr_scheduler.StepLR(o, 30), lambda o: torch.optim.swa_utils.SWALR(o, 0.1)):
        scheduled = dimred.SubspaceOptimizer(model, random_basis(model))
        scheduler(scheduled)
        with pytest.raises(ValueError, match="received a scheduler"):
            scheduled.step(closure_of(model))
    assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True))


def test_parts_of_a_network_and_names_of_other_libraries() -> None:
    """A basis of adapters by the names of PEFT's files; of a compiled or tied model; of snapshots that had the rest
    frozen.
    """

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.lora_A = nn.Linear(4, 4), nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
            self.base.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.lora_A["default"](x).sum(1, keepdim=True)

    def moved(model: nn.Module, basis: dimred.Basis) -> set[str]:
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer = dimred.SubspaceOptimizer(model, basis)
        optimizer.step(lambda: model(torch.ones(3, 4)).square().mean())
        assert optimizer.report["accepted"]
        return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}

    random = np.random.default_rng(4)

    def rows_of_states(**shapes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
        return [
            {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(6)
        ]

    files = dimred.fit(rows_of_states(**{"lora_A.weight": (2, 4)}), 3)
    assert moved(Adapted(), files) == {"lora_A.default.weight"}
    assert moved(torch.compile(Adapted(), backend="eager"), files) == {"_orig_mod.lora_A.default.weight"}
    whole = dimred.fit(
        [
            {"base.weight": np.ones((4, 4), np.float32), "base.bias": np.ones(4, np.float32), **state}
            for state in rows_of_states(**{"lora_A.default.weight": (2, 4)})
        ],
        3,
    )
    assert moved(Adapted(), whole) == {"lora_A.default.weight"}  # its columns of the base are zero
    with pytest.raises(ValueError, match=r"the basis has base\.weight, but the model does not train base\.weight"):
        dimred.SubspaceOptimizer(
            Adapted(), dimred.fit(rows_of_states(**{"base.weight": (4, 4), "lora_A.weight": (2, 4)}), 3)
        )
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    one_name = dimred.fit(rows_of_states(**{"1.weight": (4, 4)}), 3)  # as safetensors may have kept it
    assert moved(tied, one_name) == {"0.weight"}
    with pytest.raises(
        ValueError,
        match=r"ties 0\.weight and 1\.weight, .* leave one out, for example with dimred.fit\(..., exclude='1.weight'\)",
    ):
        dimred.SubspaceOptimizer(tied, dimred.fit(rows_of_states(**{"0.weight": (4, 4), "1.weight": (4, 4)}), 3))
    thawed = Adapted()
    optimizer = dimred.SubspaceOptimizer(thawed, files)
    thawed.base.bias.requires_grad_(True)
    with pytest.raises(ValueError, match=r"base\.bias needed no gradient when the optimizer was made, but needs one"):
        optimizer.step(lambda: thawed(torch.ones(3, 4)).square().mean())


def test_ranks_take_the_steps_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DistributedDataParallel, and bare modules with a process group; M = 73 is no multiple of 2 or 3."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ranked_steps"])  # so that torch is imported once
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)])
    )  # which the server reads
    ranks = [
        context.Process(target=take_steps, args=(kind, rank, size, tmp_path))
        for kind, size in (("bare", 1), ("bare", 3), ("ddp", 2))
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=120)
        assert process.exitcode == 0
    alone = np.load(tmp_path / "bare_1_0.npy")
    for name in ("bare_3_0", "bare_3_1", "bare_3_2", "ddp_2_0", "ddp_2_1"):
        w = np.load(tmp_path / f"{name}.npy")
        assert np.linalg.norm(w - alone) <= TOLERANCE * np.linalg.norm(alone), name
    assert np.array_equal(np.load(tmp_path / "bare_3_0.npy"), np.load(tmp_path / "bare_3_2.npy"))


class Exchanged(Exception):
    """A step has come to the exchange of its gradients."""


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[torch.Tensor]]:
    """The first step of rank 0 of 2, whose collectives are stubs: it receives what the other rank sends, and gives what
    it sends itself.
    """

    def refuse(*_: Any, **__: Any) -> None:
        raise Exchanged

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda *_: 2)
    monkeypatch.setattr(distributed, "get_rank", lambda *_: 0)
    monkeypatch.setattr(distributed, "reduce_scatter_tensor", refuse)

    def first_step(model: nn.Module, basis: dimred.Basis, others: list[torch.Tensor]) -> list[torch.Tensor]:
        sent: list[torch.Tensor] = []

        def all_gather(whole: torch.Tensor, part: torch.Tensor, group: Any) -> None:
            other = others[len(sent)] if others else part
            sent.append(part.clone())
            whole.copy_(torch.cat([part, other]))

        monkeypatch.setattr(distributed, "all_gather_into_tensor", all_gather)
        optimizer = dimred.SubspaceOptimizer(model, basis, process_group=True)
        with pytest.raises(Exchanged):
            optimizer.step(closure_of(model))
        return sent

    return first_step


def test_ranks_begin_with_the_same_weights_and_basis(two_ranks: Callable[..., list[torch.Tensor]]) -> None:
    model, other = net(), Net()
    basis, another = random_basis(model), random_basis(model, seed=6)
    same, weights, rows = two_ranks(net(), basis, []), two_ranks(other, basis, []), two_ranks(net(), another, [])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    two_ranks(model, basis, same)
    for sent, text in ((weights, "weights"), (rows, "basis")):
        with pytest.raises(ValueError, match=f"needs the same {text} on all ranks; those of ranks 0 and 1 differ"):
            two_ranks(model, basis, sent)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_several_ranks_say_how_they_descend(two_ranks: object) -> None:
    """Parameters do not tell whether a DistributedDataParallel averages their gradients."""
    model, twin = net(), net()
    text = "needs a DistributedDataParallel or process_group=True on 2 ranks, or process_group=False if each rank"
    for given in (model, model.named_parameters(), list(model.parameters())):
        with pytest.raises(ValueError, match=text):
            dimred.SubspaceOptimizer(given, random_basis(model))
    by_itself = dimred.SubspaceOptimizer(model, random_basis(model), process_group=False)
    by_itself.step(closure_of(model))
    assert by_itself.report["accepted"] and not torch.equal(model.fc.weight, twin.fc.weight)


# Bad input.


def test_closures_that_will_not_do_are_refused_with_the_remedy() -> None:
    model = net()
    optimizer = dimred.SubspaceOptimizer(model, random_basis(model))
    images, labels = batch()
    before = everything(model, optimizer)

    def backward() -> torch.Tensor:
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        return loss

    seeds = iter(range(100))
    for closure, kind, text in (
        (backward, RuntimeError, r"the closure called backward\(\); the closure needs only to run the network forward"),
        (
            lambda: model(images),
            TypeError,
            r"needs to return the mean loss as a scalar tensor, received float32 \[16, 3\]",
        ),
        (lambda: None, TypeError, r"needs to return the mean loss as a scalar tensor, received NoneType"),
        (lambda: torch.empty(0), TypeError, r"the mean loss as a scalar tensor, received float32 \[0\]"),
        (lambda: 0.5, TypeError, r"needs to return the mean loss as a scalar tensor, received float"),
        (lambda: torch.tensor(1.0), RuntimeError, "depends on no parameter"),
        (
            lambda: closure_of(model, next(seeds))(),  # noqa: PLW0108 - another batch at each call
            RuntimeError,
            r"gave a loss of .* and then of .*; at each call the closure needs to use the same batch",
        ),
        (None, TypeError, r"step\(\) needs a closure .* received none"),
        (torch.tensor(1.0), TypeError, r"step\(\) needs a closure .* received a Tensor"),
        (
            lambda: model(images).sum() * 1j,
            TypeError,
            r"needs to return the mean loss as a scalar tensor, received complex64 \[\]",
        ),
    ):
        with pytest.raises(kind, match=text):
            optimizer.step(closure)
        assert all(torch.equal(a, b) for a, b in zip(before, everything(model, optimizer), strict=True)), text


def refuse(cases: list[tuple[Callable[[], object], str]], kind: type[Exception] = ValueError) -> None:
    for call, text in cases:
        with pytest.raises(kind, match=text):
            call()


def test_parameters_that_will_not_do_are_refused() -> None:
    """And are where they were, with their values."""
    model, make = net(), dimred.SubspaceOptimizer
    weights, basis = list(model.parameters()), random_basis(model)
    named = dimred.fit(states_near(model, 4), 2)

    def groups(**options: Any) -> list[dict[str, Any]]:
        return [{"params": weights, **options}]

    before = [(p.data_ptr(), p.detach().clone()) for p in weights]
    values = [
        (lambda: make(groups(lr=0.0), basis), "searches the step size itself, so a group takes no lr; received 0"),
        (lambda: make(groups(betas=(0.9, 0.99)), basis), "a group takes params, .* received betas"),
        (lambda: make(groups(weight_decay=-1), basis), "needs weight_decay >= 0.* received -1"),
        (lambda: make(groups(weight_decay_of="biases"), basis), "'weights' or 'all', in a group, received .*'biases'"),
        (lambda: make([{"params": weights[:1]}, {"params": weights[1:]}], basis), "has no names; received 2 groups"),
        (
            lambda: make(weights[::-1], named),
            r"in the order of the basis; .*received shape \[3\] where the basis has conv.weight \[4, 1, 3, 3\]",
        ),
        (lambda: make(weights[:2], named), "received 2 parameters where the basis has 6"),
        (
            lambda: make([("a", weights[0]), *weights[1:]], basis),
            "needs names of all parameters or of none, received 5 of 6 without a name",
        ),
        (lambda: make([*weights, weights[0]], basis), "received parameter 6 twice"),
        (lambda: make(nn.LazyLinear(2), basis), "received weight without values; run the network once before"),
        (
            lambda: make(nn.Linear(2, 2, dtype=torch.complex64), basis),
            r"needs dense real parameters, received complex64 \(weight",
        ),
        (lambda: make(model, random_basis(nn.Linear(2, 2)), flatten=True), "the trained parameters have"),
        (lambda: make(model, basis, flatten=True, process_group=True), "process group"),
        (lambda: make(nn.Linear(2, 2), basis), "the basis has .* columns, but the trained parameters have 6"),
        (lambda: make([], basis), "empty parameter list|no parameter"),
    ]
    types = [
        (lambda: make(weights[0], basis), "needs a module, a list of tensors .* received Parameter"),
        (lambda: make([model], basis), "needs a module, .* received Net among the parameters"),
        (lambda: make([{"params": set(weights)}], basis), "needs an ordered list of parameters, received a set"),
        (lambda: make(model, "pca_mat.npy"), "needs a dimred.Basis or None as basis, received a str; Basis.load"),
        (lambda: make(model, named.components), "needs a dimred.Basis or None as basis, received a ndarray"),
        (lambda: make(model, basis, alpha=None), "needs a number or a word as alpha, received None"),
        (lambda: make(model, basis, trials=True), "needs a number or a word as trials, received True"),
        (lambda: make(model, basis, preset=None), "needs the name of a preset, received None"),
        (lambda: make(model, basis, flatten="no"), "needs flatten as True or False, received 'no'"),
        (lambda: make(model, basis, check_closure=2), "needs check_closure as True or False, received 2"),
        (lambda: make(model, basis, grad_scaler=True), "needs grad_scaler as a torch.amp.GradScaler, received True"),
        (lambda: make(model, basis, process_group="gloo"), "as a process group, True or False, received 'gloo'"),
    ]
    refuse(values)
    refuse(types, TypeError)
    assert all(
        p.data_ptr() == place and torch.equal(p, value) for p, (place, value) in zip(weights, before, strict=True)
    )


def test_arguments_that_will_not_do_are_refused() -> None:
    model, make = net(), dimred.SubspaceOptimizer
    basis = random_basis(model)
    cases = [
        (lambda: make(model, None, preset="sgd", total_steps=0), "needs total_steps as a whole .* >= 1, received 0"),
        (lambda: make(model, None, preset="sgd", total_steps=2.5), r"a whole number >= 1, received 2\.5"),
        (lambda: make(model, basis, preset="robots"), "preset needs one of robust, .*, ema; received robots"),
        (lambda: make(model, basis, rho=2), "rho needs .*, received 2"),
        (
            lambda: make(model, basis, rhoo=0.5),
            "a hyperparameter is one of rho, .*, update_rule, .*; received rhoo; did you mean rho\\?",
        ),
        (lambda: make(model, basis, trials=2.5), "trials needs a whole number .*, received 2.5"),
        (lambda: make(model, basis, trials=np.nan), r"trials needs a whole number in \[1, 100\], received nan"),
        (lambda: make(model, basis, ema_decay=0.5), "a hyperparameter is one of .*; received ema_decay"),
        (lambda: make(model, basis, rho="x"), "rho needs a number .*, received x"),
        (lambda: make(model, basis, update_rule=1), "update_rule needs one of .*, received 1"),
        (lambda: make(model, basis, update_rule="dfp"), "update_rule needs one of .*, received dfp"),
        (lambda: make(model, basis, learning_rate=0.1), "learning_rate has no effect: it needs method = psgd or sgd"),
        (lambda: make(model, basis, first_drop=0.2), "first_drop has no effect: it needs schedule or alpha_schedule"),
        (lambda: make(model, basis, preset="psgd", total_steps=9, update_rule="sr1"), "update_rule has no effect"),
        (lambda: make(model, None, preset="sgd", total_steps=9, gamma=0.5), "gamma has no effect"),
        (lambda: make(model, None), "the preset robust needs a basis"),
        (lambda: make(model, basis, preset="swa"), "sgd uses no subspace, received a basis of 5 rows"),
        (lambda: make(model, None, preset="schedule-free"), "does not support the preset schedule-free"),
        (lambda: make(model, basis, preset="psgd"), "needs total_steps"),
    ]
    refuse(cases)


def test_minimize_refuses_what_will_not_do() -> None:
    two, nine = basis_of(np.eye(2, 9)), np.zeros(9)

    def minimize(of: Callable[..., Any], w: Any = nine, basis: Any = two, **others: Any) -> None:
        dimred.minimize(of, w, basis, **others)

    def plain(w: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.0, w

    values = [
        (lambda: minimize(plain, steps=0), "needs steps as a whole number >= 1, received 0"),
        (
            lambda: minimize(lambda w: (0j, w), np.zeros(9, complex), two, steps=1),
            "float32 or float64, received complex128",
        ),
        (lambda: minimize(plain, steps=1, momentum=0.5), "momentum has no effect"),
        (lambda: minimize(plain, np.zeros(3), two, steps=1), "the basis has .* columns, but w has 3"),
        (lambda: minimize(plain, np.zeros(3), two), "needs steps or batches"),
        (lambda: minimize(plain, np.full(9, np.nan), steps=1), "needs w with finite values, received nan"),
        (
            lambda: minimize(plain, np.zeros(3), None, steps=1, sam_radius=0.1),
            "takes no sam_radius, received 0.1; add this term to the loss",
        ),
        (lambda: minimize(lambda w: (0.0, w[:2]), steps=1), r"needs a gradient \[9\]"),
    ]
    types = [
        (lambda: minimize(plain, nine, "pca_mat.npy", steps=1), "Basis.load.path. reads a basis from a file"),
        (lambda: minimize(3, steps=1), "needs loss_and_grad as a function, received 3"),
        (lambda: minimize(lambda w: None, steps=1), "return .loss, gradient., received a NoneType"),
        (lambda: minimize(lambda w: (w, w), steps=1), r"one number as the loss, received shape \[9\]"),
    ]
    refuse(values)
    refuse(types, TypeError)


def test_parameters_that_were_replaced_are_noticed() -> None:
    """Parameters that lie in the optimizer's vector; others are read where they are, but not on another device."""
    model = net()
    flat, apart = (dimred.SubspaceOptimizer(model, random_basis(model), flatten=flatten) for flatten in (True, False))
    flat.step(closure_of(model))
    model.fc.weight.data = torch.zeros_like(model.fc.weight)
    with pytest.raises(RuntimeError, match=r"(conv|fc)\.weight was moved or replaced"):
        flat.step(closure_of(model))
    model.eval()
    expected = closure_of(model)().detach()
    assert float(apart.step(closure_of(model))) == pytest.approx(float(expected), rel=1e-6)
    model.to("meta")
    with pytest.raises(RuntimeError, match=r"(conv|fc)\.weight was moved or replaced"):
        apart.step(closure_of(model))


def test_sharded_models_are_refused(tmp_path: Path) -> None:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = distributed.init_device_mesh("cpu", (1,))
        model = nn.Linear(4, 2)
        for name, parameter in list(model.named_parameters()):
            setattr(model, name, nn.Parameter(distribute_tensor(parameter.detach(), mesh)))
        flattened = FullyShardedDataParallel(net(), use_orig_params=True, device_id=torch.device("cpu"))
        zero = nn.Linear(4, 2)
        vars(zero.weight)["ds_numel"] = 16  # as DeepSpeed's ZeRO-3 marks a parameter whose values lie on all ranks
        for sharded in (model, flattened, zero):
            for given in (sharded, sharded.parameters()):
                with pytest.raises(TypeError, match="needs whole parameters, received sharded ones"):
                    dimred.SubspaceOptimizer(given, None, preset="sgd", total_steps=1)
            with pytest.raises(TypeError, match="needs whole parameters, received sharded ones"):
                dimred.SnapshotRecorder(sharded, tmp_path, every_steps=1)
        with pytest.raises(TypeError, match="needs whole parameters, received sharded ones"):
            dimred.SnapshotRecorder(model.state_dict(), tmp_path, every_steps=1)
        with pytest.raises(TypeError, match="needs whole tensors, received sharded ones"):
            dimred.fit([model.state_dict()], 1)
        compiled = torch.compile(nn.parallel.DistributedDataParallel(net()), backend="eager")
        assert Ranks(compiled, None).averages_gradients
    finally:
        distributed.destroy_process_group()
