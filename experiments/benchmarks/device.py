"""Figures of dimred on a CUDA device against copies and PyTorch loops; scripts/gpu_check.sh starts it behind tests/device.

    python experiments/benchmarks/device.py --output runs/gpu_check

Runs in a bundle of scripts/bundle.sh or in a repository with a finished build; needs the standard library and torch.
Contestants take turns within a round, in an order that rotates, and ratios are within a round. Prints a table and writes
OUTPUT/device.json after every part. Exit code 0: all parts that were asked for ran, whatever the bars say; 1: else; 2: bad
options. --device cpu runs tiny sizes to check this script: nothing is judged then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from machine import processor
from programs import SOURCES, Failed, data, rows_of, run, train

sys.path.insert(0, str(SOURCES / "experiments"))
from dimred_twins import build  # noqa: E402
from resnet50 import ResNet50  # noqa: E402
from workbench.text_table import text_table  # noqa: E402

RESNET50_COLUMNS = 25_557_032
PEERS = ("PyTorch", "PyTorch eager", "torch.compile")
Contestants = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int
    large: str  # network on images [3, side, side] drawn at random
    side: int
    classes: int
    batch: int
    steps: int  # that count; a run makes as many before
    components: int
    columns: int  # of the algebra's P
    convnet_samples: int
    resnet20_samples: int
    epochs: int  # of small networks, that count; a run makes one before
    demo_epochs: int


FULL = Sizes(3, "resnet50", 224, 1000, 256, 30, 32, RESNET50_COLUMNS, 60_000, 50_000, 2, 20)
QUICK = Sizes(2, "resnet50", 224, 1000, 256, 10, 32, RESNET50_COLUMNS, 60_000, 12_800, 1, 20)
TINY = Sizes(1, "resnet20", 32, 10, 4, 2, 4, 20_000, 128, 32, 1, 3)


@dataclass
class Figure:
    """One line of the table: a value for each round, and the bound that their median is to keep."""

    part: str
    name: str
    values: list[float]
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reached(self) -> bool | None:
        """None: there is no bar."""
        middle = statistics.median(self.values)
        if self.at_least is not None:
            return middle >= self.at_least
        return None if self.at_most is None else middle <= self.at_most

    def row(self, judged: bool) -> list[str]:
        """The table's line."""
        text = f"{statistics.median(self.values):.4g} ({min(self.values):.4g} to {max(self.values):.4g}) {self.unit}".rstrip()
        bar = "-" if self.reached is None else f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"
        return [self.part, self.name, text, bar, {True: "yes", False: "NO", None: "-"}[self.reached if judged else None]]


@dataclass
class Timing:
    """One run of this script."""

    device: torch.device
    sizes: Sizes
    scratch: Path
    deadline: float
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what was not measured, and why
    algebra: float | None = None  # seconds of both reads of P in a step

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def train(self, stage: str, name: str, **options: object) -> tuple[Path, float]:
        """A run of ours in a new folder, and its seconds from its start to its end."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        few = {} if self.device.type == "cuda" else {"threads": 1}
        return folder, train(stage, folder, self.left(), device=self.device, quiet="true", **few, **options).seconds

    def rounds(self, part: str, contestants: Contestants) -> dict[str, list[float]]:
        """Values of each round; a peer that fails drops out, and rounds end where the next would not be done in time."""
        found: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(self.sizes.rounds):
            start = time.monotonic()
            names = [name for name in contestants if len(found[name]) == turn]
            first = turn % max(1, len(names))
            for name in names[first:] + names[:first]:
                try:
                    found[name].append(contestants[name]())
                except RuntimeError as error:
                    if name not in PEERS:
                        raise
                    self.missing.append(f"{part}, {name}: {(str(error).splitlines() or [type(error).__name__])[0]}")
                finally:
                    if self.device.type == "cuda":
                        torch.cuda.empty_cache()
            if self.left() < 1.2 * (time.monotonic() - start) and turn + 1 < self.sizes.rounds:
                self.missing.append(f"{part}, rounds {turn + 2} to {self.sizes.rounds}: no time was left")
                break
        return found


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Within each round that has both."""
    return [a / b for a, b in zip(above, below, strict=False)]


def algebra(timing: Timing) -> None:
    """Both reads of P in stage 2's step, each algebra, against copies of the same bytes within the device."""
    sizes = timing.sizes
    words = [timing.device, sizes.columns, sizes.components, 10 if timing.device.type == "cuda" else 2]
    for turns in json.loads(run("device_algebra", *words, seconds=timing.left()).output):
        name = f"{turns['algebra']}, P in {turns['dtype']}"
        bar = 0.85 if turns["dtype"] == "float32" else None
        for work, title in (("project", "P g, m'g, g'g"), ("line", "P'd, P'g_k, m, u, first trial")):
            rate = turns[f"{work}_bytes"] / turns["copy_bytes"]
            shares = [rate * copy for copy in ratios(turns["copy"], turns[work])]
            timing.figures.append(Figure("algebra", f"{name}: {title}, part of a copy's bandwidth", shares, at_least=bar))
        both = [a + b for a, b in zip(turns["project"], turns["line"], strict=True)]
        timing.figures.append(Figure("algebra", f"{name}: both reads of P", [1e3 * s for s in both], "ms"))
        if name == "aten, P in float32":  # the default
            timing.algebra = statistics.median(both)


class Peer:
    """Plain PyTorch, as its users write it: SGD with momentum on batches that lie on the device."""

    def __init__(self, device: torch.device, model: torch.nn.Module, half: bool = False, compiled: bool = False) -> None:
        self.device, self.half = device, half
        self.model = model.to(device, memory_format=torch.channels_last).train()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        # Tracing alone is tested where no device is: inductor's C++ takes a minute.
        backend = "inductor" if device.type == "cuda" else "eager"
        self.call = torch.compile(self.model, backend=backend) if compiled else self.model

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One batch."""
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16) if self.half else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy(self.call(images), labels)
        loss.backward()
        self.optimiser.step()

    def seconds(self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """The images of all these steps."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        for images, labels in batches:
            self.step(images, labels)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - start


def cropped_and_flipped(images: torch.Tensor, margin: int = 4) -> torch.Tensor:
    """Each padded by `margin`, cut out at random and flipped with probability 1/2, on its own device."""
    count, channels, side, _ = images.shape
    wide = torch.nn.functional.pad(images, (margin,) * 4)
    device = images.device
    down, right = torch.randint(2 * margin + 1, (2, count, 1), device=device)
    along = torch.arange(side, device=device)
    across = torch.where(torch.rand(count, 1, device=device) < 0.5, along, side - 1 - along)
    rows, columns = (down + along)[:, None, :, None], (right + across)[:, None, None, :]
    which = torch.arange(count, device=device)[:, None, None, None]
    return wide[which, torch.arange(channels, device=device)[None, :, None, None], rows, columns]


def drawn(timing: Timing, count: int, channels: int, side: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels on the device; their values cost nothing."""
    images = torch.randn(count, channels, side, side, device=timing.device).to(memory_format=torch.channels_last)
    return images, torch.randint(classes, (count,), device=timing.device)


def epoch_seconds(folder: Path) -> float:
    """The mean over the epochs behind the first."""
    rows = [row for row in rows_of(folder / "curve.csv") if row["weights"] == "raw"]
    return (float(rows[-1]["seconds"]) - float(rows[0]["seconds"])) / (float(rows[-1]["epoch"]) - float(rows[0]["epoch"]))


def small(timing: Timing, model: str, name: str, samples: int, batch: int, shape: tuple[int, int], augment: bool) -> None:
    """An epoch of a network whose steps cost what launching them costs, against a loop over tensors on the device."""
    source = data(name)
    options: dict[str, object] = {"data": source} if source else {"dataset": "mock", "mock_shape": f"{shape[0]},{shape[1]},{shape[1]}"}
    options |= {"pad": 4, "flip": "true"} if augment else {}
    options |= {"tf32": "true", "cudnn_autotune": "true"} if timing.device.type == "cuda" else {}  # as the peer's
    images, labels = drawn(timing, samples, *shape, 10)
    peer = Peer(timing.device, build(model, shape[0], shape[1], shape[1], 10))

    def epoch() -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        for rows in torch.randperm(samples, device=timing.device).split(batch):
            yield (cropped_and_flipped(images[rows]) if augment else images[rows]), labels[rows]

    def ours() -> float:
        folder, _ = timing.train("stage1", "small", model=model, batch_size=batch, epochs=1 + timing.sizes.epochs,
                                 snapshots_per_epoch=0, checkpoint_every=1000, learning_rate=0.001, test_samples=batch,
                                 train_samples=samples, **options)  # fmt: skip
        return epoch_seconds(folder)

    peer.seconds(epoch())  # warms up
    found = timing.rounds(model, {"dimred": ours, "PyTorch": lambda: peer.seconds(epoch())})
    report = ratios(found["PyTorch"], found["dimred"])
    timing.figures.append(Figure(model, f"batch {batch}: PyTorch's loop / ours", report, "x", at_least=6))
    timing.figures.append(Figure(model, "our epoch", found["dimred"], "s"))


def convnet(timing: Timing) -> None:
    """On Fashion-MNIST."""
    small(timing, "convnet", "fashion", timing.sizes.convnet_samples, 64, (1, 28), augment=False)


def resnet20(timing: Timing) -> None:
    """On CIFAR-10, padded, cropped and flipped at random."""
    batch = 128 if timing.device.type == "cuda" else 8
    small(timing, "resnet20", "cifar10", timing.sizes.resnet20_samples, batch, (3, 32), augment=True)


def large_options(timing: Timing, steps: int) -> dict[str, object]:
    """Options of both stages: images drawn at random, nothing else in the way."""
    sizes = timing.sizes
    # As the peers; a processor need not have bfloat16.
    tuned = {"cudnn_autotune": "true", "precision": "bfloat16"} if timing.device.type == "cuda" else {"precision": "auto"}
    return tuned | {"dataset": "mock", "mock_shape": f"3,{sizes.side},{sizes.side}", "num_classes": sizes.classes,
                    "train_samples": sizes.batch * steps, "test_samples": 16, "batch_size": sizes.batch,
                    "model": sizes.large, "memory_format": "channels_last"}  # fmt: skip


def stage1_step(timing: Timing) -> float:
    """Seconds a step in the second epoch."""
    steps = timing.sizes.steps
    folder, _ = timing.train("stage1", "large", **large_options(timing, steps), epochs=2, snapshots_per_epoch=0,
                             checkpoint_every=1000, learning_rate=0.001)  # fmt: skip
    return epoch_seconds(folder) / steps


def stage1(timing: Timing) -> None:
    """A step of the large network in bfloat16 against PyTorch, eager and compiled."""
    sizes = timing.sizes
    pair = [drawn(timing, sizes.batch, 3, sizes.side, sizes.classes) for _ in range(2)]

    def peer_step(compiled: bool) -> Callable[[], float]:
        model = ResNet50(3, sizes.classes) if sizes.large == "resnet50" else build(sizes.large, 3, sizes.side, sizes.side, sizes.classes)
        peer = Peer(timing.device, model, half=True, compiled=compiled)

        def measured() -> float:
            peer.seconds(pair[i % 2] for i in range(5))  # warms up
            return peer.seconds(pair[i % 2] for i in range(sizes.steps)) / sizes.steps

        return measured

    found = timing.rounds("stage1", {"dimred": lambda: stage1_step(timing), "PyTorch eager": peer_step(False),
                                     "torch.compile": peer_step(True)})  # fmt: skip
    for name in PEERS[1:]:
        if found[name]:
            report = ratios(found[name], found["dimred"])
            timing.figures.append(Figure("stage1", f"{sizes.large}, batch {sizes.batch}: {name} / ours", report, "x", at_least=1))
    timing.figures.append(Figure("stage1", "our stage 1", [sizes.batch / s for s in found["dimred"]], "images/s"))


def stage2(timing: Timing) -> None:
    """A step with one trial against stage 1's; what algebra takes of it."""
    sizes = timing.sizes
    need = 4.0 * RESNET50_COLUMNS * (sizes.components + 6) if sizes.large == "resnet50" else 0
    if shutil.disk_usage(timing.scratch).free < 1.1 * need:
        raise Failed(f"needs {need / 1e9:.1f} GB of disk at {timing.scratch}; --scratch names another folder")
    one = large_options(timing, 1) | {"epochs": 1}
    start, _ = timing.train("stage1", "start", **one, snapshots_per_epoch=1, learning_rate=0.001)
    quick = {"preset": "robust", "epochs": 1, "checkpoint": start, "trials": 1, "recalibrate_batchnorm": "false"}
    first, _ = timing.train("stage2", "first", **(one | quick), basis="random", n_component=sizes.components)

    def stage2_step() -> float:
        folder, _ = timing.train("stage2", "large2", **large_options(timing, 2 * sizes.steps), **quick,
                                 pca_mat=first / "pca_mat.npy", time_history="true")  # fmt: skip
        return statistics.fmean(float(row["seconds"]) for row in rows_of(folder / "step_times.csv")[sizes.steps :])

    found = timing.rounds("stage2", {"stage 1": lambda: stage1_step(timing), "stage 2": stage2_step})
    title = f"{sizes.large}, batch {sizes.batch}"
    report = ratios(found["stage 2"], found["stage 1"])
    timing.figures.append(Figure("stage2", f"{title}: a step of stage 2 / of stage 1", report, "x", at_most=1.45))
    if timing.algebra is None:
        timing.missing.append("stage2, the algebra's part of a step: the part `algebra` has no figure for it")
    else:
        share = [100 * timing.algebra / s for s in found["stage 1"]]
        timing.figures.append(Figure("stage2", f"{title}: stage 2's algebra of a step of stage 1", share, "%", at_most=2))


def demo(timing: Timing) -> None:
    """20 epochs of stage 1, the PCA, 2 epochs of stage 2, by the demo's recipe."""
    fashion = data("fashion")
    if not fashion:
        raise Failed("Fashion-MNIST is not here; DIMRED_FASHION names its folder")
    recipes = SOURCES / "experiments" / "recipes"
    few = {} if timing.device.type == "cuda" else {"train_samples": 256, "test_samples": 100}
    common = {"data": fashion, "seed": 1} | few
    accuracies = []

    def whole() -> float:
        start, one = timing.train("stage1", "demo1", **common, epochs=timing.sizes.demo_epochs, config=recipes / "fashion_demo.toml")
        matrix = timing.scratch / "demo.npy"
        two = run("dimred", "pca", "--snapshots", start / "snapshots", "--components", timing.sizes.components, "--output", matrix,
                  "--overwrite", seconds=timing.left()).seconds  # fmt: skip
        folder, three = timing.train("stage2", "demo2", **common, config=recipes / "fashion_stage2.toml", checkpoint=start, pca_mat=matrix)
        accuracies.append(100 * float(rows_of(folder / "curve.csv")[-1]["test_accuracy"]))
        return one + two + three

    seconds = timing.rounds("demo", {"demo": whole})["demo"]
    timing.figures.append(Figure("demo", f"{timing.sizes.demo_epochs} epochs, PCA, stage 2", seconds, "s", at_most=20))
    timing.figures.append(Figure("demo", "final test accuracy", accuracies, "%"))


PARTS = (algebra, convnet, resnet20, stage1, stage2, demo)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    names = [part.__name__ for part in PARTS]
    shown = "default: %(default)s"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help=f"cuda, cuda:N or cpu; {shown}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument("--minutes", type=float, default=7, help=f"in all; {shown}")
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="PART", help=f"only these of {', '.join(names)}")
    parser.add_argument("--output", type=Path, default=Path("runs/gpu_check"), help=f"folder of device.json; {shown}")
    parser.add_argument("--scratch", type=Path, help="folder for up to 5 GB that are removed at the end; default: OUTPUT")
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error(f"--device needs cuda, cuda:N or cpu, received {options.device}")
    if not options.minutes > 0:
        parser.error(f"--minutes needs a number above 0, received {options.minutes}")
    return options


def described(device: torch.device) -> dict[str, Any]:
    """The facts that the figures depend on. Raises Failed where there is no such device."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise Failed(f"needs the device {device}, received none: {str(error).splitlines()[0]}") from error
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    report = {"device": name, "torch": torch.__version__, "cuda": torch.version.cuda, "processor": processor()}
    return report | {"dimred": run("dimred", "--version").output.strip()}


def measure(timing: Timing, options: argparse.Namespace) -> list[str]:
    """Runs the parts that were asked for; names of those that did not come to their end."""
    report = described(timing.device)
    judged = timing.device.type == "cuda"
    faults = []
    for part in PARTS:
        if part.__name__ not in options.parts:
            continue
        print(f"{timing.left():5.0f} s left: {part.__name__}", file=sys.stderr, flush=True)
        try:
            if timing.left() < 5:
                raise Failed("no time was left")
            part(timing)
        except (RuntimeError, LookupError, ValueError, ArithmeticError) as error:
            timing.missing.append(f"{part.__name__}: {(str(error).splitlines() or [type(error).__name__])[0]}")
            faults.append(part.__name__)
        timing.figures = [figure for figure in timing.figures if figure.values]
        figures = [asdict(f) | {"reached": f.reached if judged else None} for f in timing.figures]
        whole = report | {"judged": judged, "figures": figures, "missing": timing.missing}
        (options.output / "device.json").write_text(json.dumps(whole, indent=1) + "\n")
    print(text_table(["part", "figure", "median (lowest to highest)", "bar", "reached"], [f.row(judged) for f in timing.figures]))
    print("".join(f"\nnot measured: {text}" for text in timing.missing))
    print(f"\n{report['device']}, torch {report['torch']}, {report['dimred']}; {options.output / 'device.json'}")
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Its exit code."""
    options = parse(arguments)
    device = torch.device(options.device)
    sizes = TINY if device.type == "cpu" else QUICK if options.quick else FULL
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True  # convolutions round to TF32 by default
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="gpu_check_", dir=options.scratch or options.output) as scratch:
            timing = Timing(device, sizes, Path(scratch).resolve(), time.monotonic() + 60 * options.minutes)
            faults = measure(timing, options)
    except (Failed, OSError) as error:
        print(f"device: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("device: interrupted", file=sys.stderr)
        return 130
    if faults:
        print(f"device: these parts have no figures: {', '.join(faults)}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
