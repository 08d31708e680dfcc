"""The same run on the processor and on the device, in float32 without TF32: the first losses, and accuracies
by seed."""

from __future__ import annotations

import json
import math
import statistics
import struct
from pathlib import Path

import pytest
from conftest import DEVICE
from programs import data, rows_of, run, train

MODELS = {"convnet": ("fashion", "1,28,28")} | ({} if DEVICE == "cpu" else {"resnet20": ("cifar10", "3,32,32")})


def sides(device: str) -> dict[str, dict[str, object]]:
    """Options of both runs; without a device two orders of summing, on one thread."""
    if device != "cpu":
        return {"processor": {"device": "cpu"}, "device": {"device": device}}
    return {
        "processor": {"memory_format": "channels_last", "threads": 1},
        "device": {"memory_format": "contiguous", "threads": 1},
    }


def data_options(model: str) -> dict[str, object]:
    """The network's data set, or random images of its shape."""
    name, shape = MODELS[model]
    folder = data(name)
    return {"data": folder} if folder else {"dataset": "mock", "mock_shape": shape}


def loss_of(path: Path) -> float:
    """The number `loss` of a safetensors file: an eight-byte length, JSON, then the bytes."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    begin = json.loads(content[8 : 8 + length])["loss"]["data_offsets"][0]
    return float(struct.unpack_from("<f", content, 8 + length + begin)[0])


def expect_alike(ours: list[float], theirs: list[float]) -> None:
    """Within 1e-4 in three steps and 1e-3 from there on: differences of 6e-8 grow from step to step, and two orders of
    summing on one processor make 1e-5 of them in three steps of ResNet-20, 8e-5 in ten."""
    assert ours and len(ours) == len(theirs)
    for step, (one, other) in enumerate(zip(ours, theirs, strict=True), 1):
        assert abs(one - other) / abs(one) <= (1e-4 if step <= 3 else 1e-3), f"step {step}: {one} and {other}"


def first_losses(folder: Path, common: dict[str, object], **options: object) -> list[float]:
    """The losses of stage 1, one for each step."""
    train("stage1", folder, **common, **options, hooks="batches", learning_rate=0.01)
    return [loss_of(path) for path in sorted((folder / "batches").glob("step_????????.safetensors"))]


def later_losses(folder: Path, common: dict[str, object], **options: object) -> list[float]:
    """The losses of stage 2, one for each step."""
    train("stage2", folder, **common, **options)
    return [float(row["loss"]) for row in rows_of(folder / "steps.csv")]


@pytest.mark.parametrize("model", MODELS)
def test_the_first_losses_agree(model: str, device: str, tmp_path: Path) -> None:
    """On a device with graphs, which the fourth batch is recorded for, and without; stage 2 by each algebra."""
    steps, batch = (10, 64) if device != "cpu" else (3, 8)
    common = data_options(model) | {
        "train_samples": steps * batch,
        "test_samples": batch,
        "batch_size": batch,
        "seed": 1,
        "quiet": "true",
        "epochs": 1,
        "model": model,
        "snapshots_per_epoch": steps,
    }
    host, there = sides(device).values()
    plain = {"cuda_graphs": "false"}
    expected = first_losses(tmp_path / "processor", common, **host)
    for i, options in enumerate([{}, plain] if device != "cpu" else [{}]):
        expect_alike(expected, first_losses(tmp_path / f"stage1_{i}", common, **there, **options))
    matrix = tmp_path / "pca_mat.npy"
    snapshots = tmp_path / "processor" / "snapshots"
    run("dimred", "pca", "--snapshots", snapshots, "--components", steps - 1, "--output", matrix)
    common = {key: value for key, value in common.items() if key != "snapshots_per_epoch"} | {
        "checkpoint": tmp_path / "processor",
        "pca_mat": matrix,
    }
    expected = later_losses(tmp_path / "stage2", common, **host)
    for i, options in enumerate([{}, plain, {"device_algebra": "fused"}] if device != "cpu" else [{}]):
        expect_alike(expected, later_losses(tmp_path / f"stage2_{i}", common, **there, **options))


def final_accuracy(folder: Path, device: str, options: dict[str, object], seed: int) -> float:
    """Per cent, after one epoch of the ConvNet."""
    few = {} if device != "cpu" else {"train_samples": 256, "test_samples": 100}
    train(
        "stage1",
        folder,
        **data_options("convnet"),
        **few,
        **options,
        model="convnet",
        epochs=1,
        seed=seed,
        quiet="true",
        snapshots_per_epoch=0,
        learning_rate=0.05,
    )
    return 100 * float(rows_of(folder / "curve.csv")[-1]["test_accuracy"])


def noise(processor: list[float], differences: list[float], samples: int) -> float:
    """Three standard errors of the mean difference, in points: of the seeds' spread, and at least of the drawing of two
    test sets of that size."""
    share = min(0.99, max(0.01, statistics.fmean(processor) / 100))
    drawn = 100 * math.sqrt(2 * share * (1 - share) / samples)
    spread = statistics.stdev(differences) if len(differences) > 1 else 0.0
    return 3 * max(spread, drawn) / math.sqrt(len(differences))


def test_accuracies_of_equal_seeds_agree(device: str, tmp_path: Path) -> None:
    seeds = range(1, 4 if device != "cpu" else 2)
    found = {
        side: [final_accuracy(tmp_path / f"{side}_{seed}", device, options, seed) for seed in seeds]
        for side, options in sides(device).items()
    }
    differences = [b - a for a, b in zip(found["processor"], found["device"], strict=True)]
    samples = 10_000 if device != "cpu" else 100
    assert abs(statistics.fmean(differences)) <= noise(found["processor"], differences, samples)
