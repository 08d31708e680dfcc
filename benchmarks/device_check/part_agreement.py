"""The same run on the processor and on the device: the first steps' losses, and accuracies by seed."""

from __future__ import annotations

import json
import math
import statistics
import struct
from pathlib import Path

from .check import Check, rows_of
from .figures import Figure, at_most


def sides(check: Check) -> dict[str, dict[str, object]]:
    """Options of both runs; without a device two orders of summing."""
    if check.on_device:
        return {"cpu": {"device": "cpu"}, "device": {"device": check.device}}
    return {"cpu": {"memory_format": "channels_last"}, "device": {"memory_format": "contiguous"}}


def loss_of(path: Path) -> float:
    """The number `loss` of a safetensors file: an eight-byte length, JSON, then the bytes."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        begin = json.loads(file.read(length))["loss"]["data_offsets"][0]
        file.seek(8 + length + begin)
        return float(struct.unpack("<f", file.read(4))[0])


def differences(ours: list[float], theirs: list[float]) -> list[float]:
    """Of each step, relative to the first."""
    return [abs(a - b) / max(abs(a), 1e-30) for a, b in zip(ours, theirs, strict=True)]


def data_options(check: Check, model: str) -> dict[str, object]:
    """The network's data set, or random images of its shape."""
    name, shape = ("fashion", "1,28,28") if model == "convnet" else ("cifar10", "3,32,32")
    data = check.place.data.get(name)
    return {"data": data} if data else {"dataset": "mock", "mock_shape": shape}


def first_steps(check: Check, model: str) -> None:
    """Of stage 1, then of stage 2 from the processor's run and matrix."""
    steps, batch = check.sizes.steps, check.sizes.agreement_batch
    common: dict[str, object] = {"train_samples": steps * batch, "test_samples": batch, "batch_size": batch, "seed": 1,
                                 "quiet": "true", "epochs": 1} | data_options(check, model)  # fmt: skip
    first: dict[str, list[float]] = {}
    second: dict[str, list[float]] = {}
    runs = {side: check.folder(f"agree_{side}") for side in sides(check)}
    for side, options in sides(check).items():
        check.train("stage1", runs[side], **(common | options), model=model, hooks="batches",
                    snapshots_per_epoch=steps, learning_rate=0.01)  # fmt: skip
        first[side] = [loss_of(path) for path in sorted((runs[side] / "batches").glob("step_????????.safetensors"))]
    matrix = check.scratch / "agree.npy"
    check.run("dimred", "pca", "--snapshots", runs["cpu"] / "snapshots", "--components", steps - 1, "--output", matrix,
              "--overwrite", "--quiet")  # fmt: skip
    for side, options in sides(check).items():
        run = check.folder("agree_2")
        check.train("stage2", run, **(common | options), checkpoint=runs["cpu"], pca_mat=matrix, model=model)
        second[side] = [float(row["loss"]) for row in rows_of(run / "steps.csv")]
    for stage, losses in (("stage 1", first), ("stage 2", second)):
        told = differences(losses["cpu"], losses["device"])
        rounds = [{"processor": a, "device": b} for a, b in zip(losses["cpu"], losses["device"], strict=True)]
        check.add(Figure(f"{model}, {stage}: largest relative difference of the first {len(told)} losses", [max(told)],
                         bar=at_most(1e-4), rounds=rounds))  # fmt: skip


def agreement(check: Check) -> None:
    """In float32, without TF32."""
    for model in ("convnet", "resnet20") if check.on_device else ("convnet",):
        first_steps(check, model)


def final_accuracy(check: Check, side: str, options: dict[str, object], seed: int) -> float:
    """Per cent, after one epoch of the ConvNet."""
    run = check.folder(f"accuracy_{side}")
    few: dict[str, object] = {} if check.on_device else {"test_samples": 100}
    told = {"model": "convnet", "epochs": 1, "seed": seed, "quiet": "true", "snapshots_per_epoch": 0,
            "train_samples": check.sizes.accuracy_samples, "learning_rate": 0.05} | few  # fmt: skip
    check.train("stage1", run, **(told | data_options(check, "convnet") | options))
    return 100 * float(rows_of(run / "curve.csv")[-1]["test_accuracy"])


def noise(rounds: list[dict[str, float]], samples: int) -> float:
    """Three standard errors of the mean difference, in points: of the seeds' spread, and at least of the
    drawing of two test sets of that size."""
    told = [r["device"] - r["processor"] for r in rounds]
    share = min(0.99, max(0.01, statistics.fmean(r["processor"] for r in rounds) / 100))
    drawn = 100 * math.sqrt(2 * share * (1 - share) / samples)
    spread = statistics.stdev(told) if len(told) > 1 else 0.0
    return 3 * max(spread, drawn) / math.sqrt(len(told))


def accuracy(check: Check) -> None:
    """Of equal seeds."""
    rounds = []
    for seed in range(1, check.sizes.seeds + 1):
        found = {side: final_accuracy(check, side, options, seed) for side, options in sides(check).items()}
        rounds.append({"processor": found["cpu"], "device": found["device"]})
    told = [r["device"] - r["processor"] for r in rounds]
    bound = noise(rounds, 10_000 if check.on_device else 100)
    check.add(Figure("ConvNet, one epoch, mean difference of equal seeds", [abs(statistics.fmean(told))], "points",
                     at_most(round(bound, 3)), rounds, "the bar is three standard errors"))  # fmt: skip
