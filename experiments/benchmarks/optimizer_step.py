"""Measures a step of dimred.SubspaceOptimizer against the trainer's step and a forward and backward pass of PyTorch.

ConvNet on mock images of 3 x 28 x 28, batch 512, one thread, preset robust, the same matrix; all keep freed memory.
Contestants take turns; prints seconds a step and ratios, median (range).

    .venv/bin/python experiments/benchmarks/optimizer_step.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "experiments")]

from dimred_twins import build  # noqa: E402

import dimred  # noqa: E402

BATCH, STEPS = 512, 15
DATA = ("--dataset", "mock", "--mock_shape", "3,28,28", "--num_classes", 10, "--num_samples", 20_480)


def run(*words: object) -> None:
    subprocess.run([ROOT / "build" / "bin" / "dimred", *map(str, words)], check=True, capture_output=True)


def of_trainer(folder: Path, number: int) -> tuple[float, float]:
    """Seconds and trials of a step of `dimred stage2`, in its second epoch."""
    output = folder / f"stage2_{number}"
    run(
        "stage2",
        *DATA,
        "--checkpoint",
        folder / "stage1",
        "--pca_mat",
        folder / "pca_mat.npy",
        "--preset",
        "robust",
        "--train_samples",
        BATCH * STEPS,
        "--batch_size",
        BATCH,
        "--epochs",
        2,
        "--test_samples",
        100,
        "--precision",
        "float32",
        "--threads",
        1,
        "--quiet",
        "--output",
        output,
    )
    curve = pd.read_csv(output / "curve.csv", comment="#").drop_duplicates("epoch", keep="last").set_index("epoch")
    seconds, passes = (curve[name].iloc[-1] - curve[name].iloc[-2] for name in ("seconds", "forward_passes"))
    return seconds / STEPS, passes / STEPS - 1


def loss_of(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A batch's cross-entropy."""
    return functional.cross_entropy(model(images), labels)


def of_python(folder: Path, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Seconds and trials of a step of SubspaceOptimizer, after some steps to warm up."""
    model = build("convnet", 3, 28, 28, 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as the trainer has it
    dimred.average(folder / "stage1" / "snapshots", last=1).load_into(model)
    optimizer = dimred.SubspaceOptimizer(model, dimred.Basis.load(folder / "pca_mat.npy"), preset="robust")
    trials = 0
    for step in range(STEPS + 5):
        if step == 5:
            begin, trials = time.perf_counter(), 0
        rows = torch.randint(len(images), (BATCH,))
        x, y = images[rows], labels[rows]
        optimizer.step(partial(loss_of, model, x, y))
        trials += optimizer.report["trials"]
    return (time.perf_counter() - begin) / STEPS, trials / STEPS


def of_passes(images: torch.Tensor, labels: torch.Tensor) -> float:
    """Seconds of a forward and backward pass."""
    model = build("convnet", 3, 28, 28, 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as the trainer has it
    for step in range(STEPS + 5):
        if step == 5:
            begin = time.perf_counter()
        rows = torch.randint(len(images), (BATCH,))
        model.zero_grad()
        functional.cross_entropy(model(images[rows]), labels[rows]).backward()
    return (time.perf_counter() - begin) / STEPS


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g} - {max(values):.3g})"


def main() -> int:
    dimred.keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(
            "stage1",
            *DATA,
            "--train_samples",
            10_000,
            "--test_samples",
            100,
            "--epochs",
            5,
            "--snapshots_per_epoch",
            8,
            "--quiet",
            "--output",
            folder / "stage1",
        )
        run(
            "pca",
            "--snapshots",
            folder / "stage1" / "snapshots",
            "--components",
            32,
            "--output",
            folder / "pca_mat.npy",
        )
        images = torch.randn(10_000, 3, 28, 28).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(10, (10_000,))
        trainer, python, passes = [], [], []
        for number in range(rounds):
            trainer.append(of_trainer(folder, number))
            python.append(of_python(folder, images, labels))
            passes.append(of_passes(images, labels))
    for name, steps in (("dimred stage2", trainer), ("SubspaceOptimizer", python)):
        seconds, trials = spread([s for s, _ in steps]), statistics.mean(t for _, t in steps)
        print(f"{name:24}{seconds} s a step, {trials:.2f} trials")
    print(f"{'forward and backward':24}{spread(passes)} s")
    over_trainer = [p[0] / t[0] for p, t in zip(python, trainer, strict=True)]
    over_passes = [p[0] / seconds for p, seconds in zip(python, passes, strict=True)]
    print(f"SubspaceOptimizer over dimred stage2: {spread(over_trainer)}")
    print(f"SubspaceOptimizer over forward and backward: {spread(over_passes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
