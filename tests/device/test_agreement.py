"""The same run on the processor and on the device, in float32 without TF32: the first losses, and accuracies by seed."""

from __future__ import annotations

import json
import math
import statistics
import struct
from pathlib import Path

import pytest
import torch
from programs import data, rows_of, run, train

MODELS = {"convnet": ("fashion", "1,28,28"), "resnet20": ("cifar10", "3,32,32")}


def sides(device: torch.device) -> dict[str, dict[str, object]]:
    """Options of both runs; without a device two orders of summing, on one thread."""
    if device.type == "cuda":
        return {"processor": {"device": "cpu"}, "device": {"device": device}}
    return {"processor": {"memory_format": "channels_last", "threads": 1}, "device": {"memory_format": "contiguous", "threads": 1}}


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


def expect_alike(ours: list[float], theirs: list[float], device: torch.device) -> None:
    """Within 1e-4: two orders of summing differ by a few units of 6e-8, and ResNet-20 makes 1e-5 of them in three steps."""
    assert ours and len(ours) == len(theirs)
    assert max(abs(a - b) / abs(a) for a, b in zip(ours, theirs, strict=True)) <= 1e-4


@pytest.mark.parametrize("model", MODELS)
def test_the_first_losses_agree(model: str, device: torch.device, tmp_path: Path) -> None:
    steps, batch = (10, 64) if device.type == "cuda" else (3, 8)
    common = data_options(model) | {"train_samples": steps * batch, "test_samples": batch, "batch_size": batch, "seed": 1,
                                    "quiet": "true", "epochs": 1, "model": model}  # fmt: skip
    first, second = {}, {}
    for side, options in sides(device).items():
        train("stage1", tmp_path / side, **common, **options, hooks="batches", snapshots_per_epoch=steps, learning_rate=0.01)
        first[side] = [loss_of(path) for path in sorted((tmp_path / side / "batches").glob("step_????????.safetensors"))]
    expect_alike(first["processor"], first["device"], device)
    matrix = tmp_path / "pca_mat.npy"
    run("dimred", "pca", "--snapshots", tmp_path / "processor" / "snapshots", "--components", steps - 1, "--output", matrix)
    algebras = ("aten", "fused") if device.type == "cuda" else ("aten",)
    cases = [("processor", "aten"), *(("device", algebra) for algebra in algebras)]
    for side, algebra in cases:
        folder = tmp_path / f"stage2_{side}_{algebra}"
        train("stage2", folder, **common, **sides(device)[side], checkpoint=tmp_path / "processor", pca_mat=matrix,
              device_algebra=algebra)  # fmt: skip
        second[side, algebra] = [float(row["loss"]) for row in rows_of(folder / "steps.csv")]
    for algebra in algebras:
        expect_alike(second["processor", "aten"], second["device", algebra], device)


def final_accuracy(folder: Path, device: torch.device, options: dict[str, object], seed: int) -> float:
    """Per cent, after one epoch of the ConvNet."""
    few = {} if device.type == "cuda" else {"train_samples": 256, "test_samples": 100}
    train("stage1", folder, **data_options("convnet"), **few, **options, model="convnet", epochs=1, seed=seed, quiet="true",
          snapshots_per_epoch=0, learning_rate=0.05)  # fmt: skip
    return 100 * float(rows_of(folder / "curve.csv")[-1]["test_accuracy"])


def noise(processor: list[float], differences: list[float], samples: int) -> float:
    """Three standard errors of the mean difference, in points: of the seeds' spread, and at least of the drawing of two
    test sets of that size."""
    share = min(0.99, max(0.01, statistics.fmean(processor) / 100))
    drawn = 100 * math.sqrt(2 * share * (1 - share) / samples)
    spread = statistics.stdev(differences) if len(differences) > 1 else 0.0
    return 3 * max(spread, drawn) / math.sqrt(len(differences))


def test_accuracies_of_equal_seeds_agree(device: torch.device, tmp_path: Path) -> None:
    seeds = range(1, 4 if device.type == "cuda" else 2)
    found = {side: [final_accuracy(tmp_path / f"{side}_{seed}", device, options, seed) for seed in seeds]
             for side, options in sides(device).items()}  # fmt: skip
    differences = [b - a for a, b in zip(found["processor"], found["device"], strict=True)]
    samples = 10_000 if device.type == "cuda" else 100
    assert abs(statistics.fmean(differences)) <= noise(found["processor"], differences, samples)
