"""Figures of dimred on a device, beside copies of memory and plain PyTorch: parts (d) to (g) and (j) of check.py.

    DIMRED_DEVICE=cpu DIMRED_RESULTS=results python experiments/benchmarks/gpu/figures.py algebra

Appends a JSON line to DIMRED_RESULTS for a figure after each of its rounds, and at the end one as tests/device does.
Needs the standard library, and torch for what has a PyTorch peer. DIMRED_DEVICE=cpu runs tiny sizes without bars, which
checks this script. Exit code 0: it has measured; 1: it has not.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from programs import SOURCES, Failed, data, rows_of, run, train

DEVICE = os.environ.get("DIMRED_DEVICE", "cuda")
ON_CUDA = DEVICE != "cpu"
COMPONENTS = 32 if ON_CUDA else 4
# Images drawn at random: nothing but the network's steps takes time.
COMMON: dict[str, Any] = {"dataset": "mock", "test_samples": 16}
CONVNET = COMMON | {"model": "convnet", "mock_shape": "1,28,28", "num_classes": 10}
CONVNET |= {"train_samples": 25_600, "batch_size": 64} if ON_CUDA else {"train_samples": 128, "batch_size": 32}
RESNET50 = COMMON | {"model": "resnet_v2_50", "mock_shape": "3,224,224", "num_classes": 1000}
RESNET50 |= {"train_samples": 5120, "batch_size": 256, "memory_format": "channels_last", "precision": "bfloat16"}
RESNET20 = COMMON | {"model": "resnet20", "mock_shape": "3,32,32", "num_classes": 10}
RESNET20 |= {"train_samples": 8, "batch_size": 4, "memory_format": "channels_last"}


def write(line: dict[str, object]) -> None:
    """Appends it to the results."""
    with Path(os.environ["DIMRED_RESULTS"]).open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def record(figure: str, values: list[float], bar: float | None = None) -> None:
    """Writes a figure: the value of each round so far, and what each should reach."""
    write({"figure": figure, "values": values, "bar": bar if ON_CUDA else None})


def trained(stage: str, folder: Path, **options: object) -> None:
    """A run of ours in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    tuned = {"tf32": "true", "cudnn_autotune": "true"} if ON_CUDA else {"threads": 1}
    train(stage, folder, 300, device=DEVICE, quiet="true", **tuned, **options)


def last_epoch(stage: str, folder: Path, **options: object) -> float:
    """The seconds of the second epoch of a run of ours: the first one warms up."""
    trained(stage, folder, **options, epochs=2)
    seconds = [float(row["seconds"]) for row in rows_of(folder / "curve.csv") if row["weights"] == "raw"]
    return seconds[-1] - seconds[-2]


def plain_epochs(options: dict[str, Any]) -> Callable[[], float]:
    """What gives the seconds of an epoch of plain PyTorch with these options of ours, as its users write it, over
    images that lie on the device. One warms up here."""
    import torch

    sys.path.insert(0, str(SOURCES / "experiments"))
    from dimred_twins import build

    torch.set_num_threads(torch.get_num_threads() if ON_CUDA else 1)  # as ours
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True  # convolutions round to TF32 by default
    device, half = torch.device(DEVICE), options.get("precision") == "bfloat16"
    channels, height, width = map(int, options["mock_shape"].split(","))
    samples, classes = options["train_samples"], options["num_classes"]
    images = torch.randn(samples, channels, height, width, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (samples,), device=device)
    network = build(options["model"], channels, height, width, classes)
    network = network.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)

    def epoch() -> float:
        start = time.perf_counter()
        for rows in torch.randperm(samples, device=device).split(options["batch_size"]):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                loss = torch.nn.functional.cross_entropy(network(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device
        seconds = time.perf_counter() - start
        torch.cuda.empty_cache()  # for our run, which has a process of its own
        return seconds

    epoch()
    return epoch


def beside_pytorch(folder: Path, options: dict[str, Any], bar: float) -> None:
    """An epoch of stage 1 and one of PyTorch's loop, in turn."""
    more = {"snapshots_per_epoch": 0, "checkpoint_every": 1000, "learning_rate": 0.001}
    theirs = plain_epochs(options)
    ours: list[float] = []
    ratios: list[float] = []
    name = f"{options['model']}, batch {options['batch_size']}"
    for _ in range(3 if ON_CUDA else 1):
        ours.append(last_epoch("stage1", folder, **options, **more))
        ratios.append(theirs() / ours[-1])
        record(f"{name}: seconds of an epoch of {options['train_samples']} images", ours)
        record(f"{name}: an epoch of PyTorch's loop / ours", ratios, bar)


def algebra(_: Path) -> None:
    """Both reads of P in stage 2's step with ResNet-50's weights, each algebra, against copies of the same bytes."""
    columns, repeats = (25_557_032, 10) if ON_CUDA else (20_000, 2)
    for turns in json.loads(run("device_algebra", DEVICE, columns, COMPONENTS, repeats).output):
        for work, title in (("project", "P g, m'g, g'g"), ("line", "P'd, P'g_k, m, u, first trial")):
            share = turns[f"{work}_bytes"] / turns["copy_bytes"]
            values = [share * copy / ours for copy, ours in zip(turns["copy"], turns[work], strict=True)]
            name = f"{turns['algebra']}, P in {turns['dtype']}: {title}, part of a copy's bandwidth"
            record(name, values, 0.85 if turns["dtype"] == "float32" else None)


def demo(folder: Path) -> None:
    """20 epochs of stage 1, the PCA, 2 epochs of stage 2, by the demo's recipe."""
    fashion, recipes = data("fashion"), SOURCES / "experiments" / "recipes"
    if not fashion:
        raise Failed("needs Fashion-MNIST; set DIMRED_FASHION to its folder")
    few = {} if ON_CUDA else {"train_samples": 256, "test_samples": 100}
    common = {"data": fashion, "seed": 1} | few
    one, two, matrix = folder / "stage1", folder / "stage2", folder / "pca_mat.npy"
    start = time.perf_counter()
    trained("stage1", one, **common, config=recipes / "fashion_demo.toml", epochs=20 if ON_CUDA else 3)
    run("dimred", "pca", "--snapshots", one / "snapshots", "--components", COMPONENTS, "--output", matrix)
    trained("stage2", two, **common, config=recipes / "fashion_stage2.toml", checkpoint=one, pca_mat=matrix)
    record("seconds of the demo", [time.perf_counter() - start])


def choices(folder: Path) -> None:
    """What the fused kernels and the graphs save of an epoch of stage 2 with one trial, in turn."""
    trained("stage1", folder / "start", **CONVNET, epochs=1, snapshots_per_epoch=1, learning_rate=0.001)
    options = CONVNET | {"checkpoint": folder / "start", "preset": "robust", "trials": 1}
    options |= {"basis": "random", "n_component": COMPONENTS}
    saved: dict[str, list[float]] = {"fused kernels": [], "CUDA graphs": []}
    for _ in range(5 if ON_CUDA else 1):
        plain = last_epoch("stage2", folder / "run", **options)
        fused = last_epoch("stage2", folder / "run", **options, device_algebra="fused" if ON_CUDA else "aten")
        without = last_epoch("stage2", folder / "run", **options, cuda_graphs="false")
        saved["fused kernels"].append(1 - fused / plain)
        saved["CUDA graphs"].append(1 - plain / without)
        for name, values in saved.items():
            record(f"{name}: part of an epoch of stage 2 saved, ConvNet", values, 0.1)


PARTS: dict[str, Callable[[Path], None]] = {
    "algebra": algebra,
    "convnet": lambda folder: beside_pytorch(folder, CONVNET, 6),  # its steps cost what launching them costs
    "resnet50": lambda folder: beside_pytorch(
        folder, RESNET50 if ON_CUDA else RESNET20, 1
    ),  # its steps cost what their arithmetic costs
    "demo": demo,
    "choices": choices,
}


def main(name: str) -> int:
    """Its exit code."""
    why, start = "", time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            PARTS[name](Path(folder))
        except RuntimeError as error:
            why = str(error).partition("\n")[0] or type(error).__name__
    outcome = "failed" if why else "passed"
    write({"test": name, "outcome": outcome, "seconds": time.perf_counter() - start, "why": why})
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
