"""Figures of dimred on a device against copies and PyTorch loops: parts (d) to (g) of check.py.

    python experiments/benchmarks/gpu/figures.py --parts algebra --json figures.json

Needs the standard library, and torch for what has a PyTorch peer. Writes every round as soon as it is measured. Exit
code 0: all parts that were asked for have figures, whatever the bars say; 1: else; 2: bad options. --device cpu runs
tiny sizes to check this script: nothing is judged then.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from programs import SOURCES, Failed, data, rows_of, run, train
from rounds import Figure, Found, Timing, choice, describe, ratios

sys.path.insert(0, str(SOURCES / "experiments"))
from workbench.text_table import text_table

RESNET50_COLUMNS = 25_557_032
NEEDS_CUDA = "not run: needs a CUDA device"
PEERS = ("PyTorch eager", "torch.compile")


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


FULL = Sizes(3, "resnet50", 224, 1000, 256, 20, 32, RESNET50_COLUMNS, 60_000, 50_000, 2, 20)
TINY = Sizes(1, "resnet20", 32, 10, 4, 2, 4, 20_000, 128, 32, 1, 3)
CHOICE_ROUNDS = 5


def sizes_of(timing: Timing) -> Sizes:
    """The sizes of the device's measurement, or of the script's own check."""
    return FULL if timing.on_cuda else TINY


def trained(timing: Timing, stage: str, name: str, **options: object) -> tuple[Path, float]:
    """A run of ours in a new folder, and its seconds from its start to its end."""
    folder = timing.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    few = {} if timing.on_cuda else {"threads": 1}
    return folder, train(stage, folder, timing.left(), device=timing.device, quiet="true", **few, **options).seconds


def epoch_seconds(folder: Path) -> float:
    """The mean over the epochs behind the first."""
    rows = [row for row in rows_of(folder / "curve.csv") if row["weights"] == "raw"]
    return (float(rows[-1]["seconds"]) - float(rows[0]["seconds"])) / (
        float(rows[-1]["epoch"]) - float(rows[0]["epoch"])
    )


def late_step_seconds(folder: Path) -> float:
    """The mean over the second half of the steps."""
    seconds = [float(row["seconds"]) for row in rows_of(folder / "step_times.csv")]
    return statistics.fmean(seconds[len(seconds) // 2 :])


def algebra(timing: Timing) -> None:
    """Both reads of P in stage 2's step, each algebra, against copies of the same bytes within the device."""
    sizes = sizes_of(timing)
    words = [timing.device, sizes.columns, sizes.components, 10 if timing.on_cuda else 2]
    for turns in json.loads(run("device_algebra", *words, seconds=timing.left()).output):
        name = f"{turns['algebra']}, P in {turns['dtype']}"
        timing.turns[f"algebra, {name}"] = {key: turns[key] for key in ("project", "line", "copy")}
        bar = 0.85 if turns["dtype"] == "float32" else None
        for work, title in (("project", "P g, m'g, g'g"), ("line", "P'd, P'g_k, m, u, first trial")):
            rate = turns[f"{work}_bytes"] / turns["copy_bytes"]
            shares = [rate * copy for copy in ratios(turns["copy"], turns[work])]
            timing.figures.append(
                Figure("algebra", f"{name}: {title}, part of a copy's bandwidth", shares, at_least=bar)
            )
        both = [a + b for a, b in zip(turns["project"], turns["line"], strict=True)]
        timing.figures.append(Figure("algebra", f"{name}: both reads of P", [1e3 * s for s in both], "ms"))


@dataclass(frozen=True)
class Small:
    """A network whose steps cost what launching them costs, and its data set."""

    model: str
    data: str
    batch: int
    shape: tuple[int, int]  # channels, side
    augment: bool

    def samples(self, timing: Timing) -> int:
        """The samples of an epoch."""
        sizes = sizes_of(timing)
        return sizes.convnet_samples if self.model == "convnet" else sizes.resnet20_samples

    def options(self, timing: Timing) -> dict[str, object]:
        """The options of all our runs of it, so that they compute what the peer computes."""
        source, (channels, side) = data(self.data), self.shape
        options: dict[str, object] = (
            {"data": source} if source else {"dataset": "mock", "mock_shape": f"{channels},{side},{side}"}
        )
        options |= {"pad": 4, "flip": "true"} if self.augment else {}
        options |= {"tf32": "true", "cudnn_autotune": "true"} if timing.on_cuda else {}
        return options | {
            "model": self.model,
            "batch_size": self.batch,
            "snapshots_per_epoch": 0,
            "checkpoint_every": 1000,
            "learning_rate": 0.001,
            "test_samples": self.batch,
        }


CONVNET = Small("convnet", "fashion", 64, (1, 28), augment=False)
RESNET20 = Small("resnet20", "cifar10", 128, (3, 32), augment=True)


def small(timing: Timing, network: Small) -> None:
    """An epoch against a loop over tensors on the device."""
    from peers import SmallPeer

    sizes, samples = sizes_of(timing), network.samples(timing)
    options = network.options(timing) | {"train_samples": samples, "epochs": 1 + sizes.epochs}
    batch = network.batch if timing.on_cuda else min(network.batch, samples // 4)
    options["batch_size"] = batch
    peer = SmallPeer(timing.device, network.model, samples, batch, network.shape, network.augment)

    def ours() -> float:
        return epoch_seconds(trained(timing, "stage1", "small", **options)[0])

    def report(found: Found) -> list[Figure]:
        title = f"batch {batch}: PyTorch's loop / ours"
        return [
            Figure(network.model, title, ratios(found["PyTorch"], found["dimred"]), "x", at_least=6),
            Figure(network.model, "our epoch", found["dimred"], "s"),
        ]

    timing.rounds(network.model, sizes.rounds, {"dimred": ours, "PyTorch": peer.epoch_seconds}, report)


def convnet(timing: Timing) -> None:
    """On Fashion-MNIST."""
    small(timing, CONVNET)


def resnet20(timing: Timing) -> None:
    """On CIFAR-10, or images drawn at random: padded, cropped and flipped at random."""
    small(timing, RESNET20)


def large_options(timing: Timing, steps: int) -> dict[str, object]:
    """Options of both stages: images drawn at random, nothing else in the way."""
    sizes = sizes_of(timing)
    # As the peers; a processor need not have bfloat16.
    tuned = {"cudnn_autotune": "true", "precision": "bfloat16"} if timing.on_cuda else {"precision": "auto"}
    return tuned | {
        "dataset": "mock",
        "mock_shape": f"3,{sizes.side},{sizes.side}",
        "num_classes": sizes.classes,
        "train_samples": sizes.batch * steps,
        "test_samples": 16,
        "batch_size": sizes.batch,
        "model": sizes.large,
        "memory_format": "channels_last",
    }


def stage1_step(timing: Timing) -> float:
    """Seconds a step in the second epoch."""
    steps = sizes_of(timing).steps
    folder, _ = trained(
        timing,
        "stage1",
        "large",
        **large_options(timing, steps),
        epochs=2,
        snapshots_per_epoch=0,
        checkpoint_every=1000,
        learning_rate=0.001,
    )
    return epoch_seconds(folder) / steps


def stage2_step(timing: Timing) -> Callable[[], float]:
    """Seconds a step with one trial, in a random subspace."""
    sizes = sizes_of(timing)
    need = 4.0 * RESNET50_COLUMNS * (sizes.components + 6) if sizes.large == "resnet50" else 0
    if shutil.disk_usage(timing.scratch).free < 1.1 * need:
        raise Failed(f"needs {need / 1e9:.1f} GB of disk at {timing.scratch}; --scratch names another folder")
    one = large_options(timing, 1) | {"epochs": 1}
    start, _ = trained(timing, "stage1", "start", **one, snapshots_per_epoch=1, learning_rate=0.001)
    quick = {"preset": "robust", "epochs": 1, "checkpoint": start, "trials": 1, "recalibrate_batchnorm": "false"}
    first, _ = trained(timing, "stage2", "first", **(one | quick), basis="random", n_component=sizes.components)

    def measured() -> float:
        folder, _ = trained(
            timing,
            "stage2",
            "large2",
            **large_options(timing, 2 * sizes.steps),
            **quick,
            pca_mat=first / "pca_mat.npy",
            time_history="true",
        )
        return late_step_seconds(folder)

    return measured


def large(timing: Timing) -> None:
    """A step of the large network in bfloat16: stage 1 against PyTorch, eager and compiled, and stage 2 against stage
    1."""
    from peers import LargePeer

    sizes = sizes_of(timing)
    made: dict[bool, LargePeer] = {}

    def peer_step(compiled: bool) -> Callable[[], float]:
        def measured() -> float:
            if compiled not in made:
                made[compiled] = LargePeer(timing.device, sizes.large, sizes.batch, sizes.side, sizes.classes, compiled)
            return made[compiled].step_seconds(sizes.steps)

        return measured

    contestants = {
        "dimred": lambda: stage1_step(timing),
        "stage 2": stage2_step(timing),
        "PyTorch eager": peer_step(False),
    }
    if timing.on_cuda:  # inductor's C++ for a processor takes a minute
        contestants["torch.compile"] = peer_step(True)
    else:
        timing.missing.append(f"large, torch.compile: {NEEDS_CUDA}")
    title = f"{sizes.large}, batch {sizes.batch}"

    def report(found: Found) -> list[Figure]:
        ours = found["dimred"]
        peers = {name: ratios(found.get(name, []), ours) for name in PEERS}
        return [
            *(Figure("large", f"{title}: {name} / ours", values, "x", at_least=1) for name, values in peers.items()),
            Figure("large", f"{title}: our stage 1", [sizes.batch / seconds for seconds in ours], "images/s"),
            Figure(
                "large", f"{title}: a step of stage 2 / of stage 1", ratios(found["stage 2"], ours), "x", at_most=1.45
            ),
        ]

    timing.rounds("large", sizes.rounds, contestants, report, may_fail=PEERS)


def demo(timing: Timing) -> None:
    """20 epochs of stage 1, the PCA, 2 epochs of stage 2, by the demo's recipe."""
    fashion, sizes = data("fashion"), sizes_of(timing)
    if not fashion:
        raise Failed("Fashion-MNIST is not here; DIMRED_FASHION names its folder")
    recipes = SOURCES / "experiments" / "recipes"
    few = {} if timing.on_cuda else {"train_samples": 256, "test_samples": 100}
    common = {"data": fashion, "seed": 1} | few
    accuracies = []

    def whole() -> float:
        start, one = trained(
            timing, "stage1", "demo1", **common, epochs=sizes.demo_epochs, config=recipes / "fashion_demo.toml"
        )
        matrix = timing.scratch / "demo.npy"
        two = run(
            "dimred",
            "pca",
            "--snapshots",
            start / "snapshots",
            "--components",
            sizes.components,
            "--output",
            matrix,
            "--overwrite",
            seconds=timing.left(),
        ).seconds
        folder, three = trained(
            timing,
            "stage2",
            "demo2",
            **common,
            config=recipes / "fashion_stage2.toml",
            checkpoint=start,
            pca_mat=matrix,
        )
        accuracies.append(100 * float(rows_of(folder / "curve.csv")[-1]["test_accuracy"]))
        return one + two + three

    def report(found: Found) -> list[Figure]:
        title = f"{sizes.demo_epochs} epochs, PCA, stage 2"
        return [
            Figure("demo", title, found["demo"], "s", at_most=20),
            Figure("demo", "final test accuracy", accuracies, "%"),
        ]

    timing.rounds("demo", sizes.rounds, {"demo": whole}, report)


def need_cuda(timing: Timing) -> None:
    """Raises Failed on a processor."""
    if not timing.on_cuda:
        raise Failed(NEEDS_CUDA)


def fused_and_graphs(timing: Timing) -> None:
    """What the fused kernels and the graphs save of a step of stage 2 with one trial, ConvNet: alternating rounds."""
    need_cuda(timing)
    options = CONVNET.options(timing) | {"train_samples": 12_800}
    start, _ = trained(timing, "stage1", "choice_start", **(options | {"epochs": 1, "snapshots_per_epoch": 40}))
    matrix = timing.scratch / "choice.npy"
    run(
        "dimred",
        "pca",
        "--snapshots",
        start / "snapshots",
        "--components",
        32,
        "--output",
        matrix,
        seconds=timing.left(),
    )
    common = {
        key: options[key] for key in options if key not in ("learning_rate", "snapshots_per_epoch", "checkpoint_every")
    }
    common |= {
        "preset": "robust",
        "epochs": 2,
        "trials": 1,
        "checkpoint": start,
        "time_history": "true",
        "pca_mat": matrix,
    }

    def step(**changed: object) -> Callable[[], float]:
        return lambda: late_step_seconds(trained(timing, "stage2", "choice", **common, **changed)[0])

    found = timing.rounds(
        "fused and graphs",
        CHOICE_ROUNDS,
        {
            "aten, graphs": step(),
            "fused, graphs": step(device_algebra="fused"),
            "aten, no graphs": step(cuda_graphs="false"),
        },
    )
    timing.choices.append(
        choice("fused kernels, a step of stage 2, ConvNet at batch 64", found["aten, graphs"], found["fused, graphs"])
    )
    timing.choices.append(
        choice("graphs, a step of stage 2, ConvNet at batch 64", found["aten, no graphs"], found["aten, graphs"])
    )


def graphs(timing: Timing) -> None:
    """What graphs save of an epoch of stage 1, ConvNet and ResNet-20: alternating rounds."""
    need_cuda(timing)
    for network in (CONVNET, RESNET20):
        options = network.options(timing) | {"train_samples": 25_600, "epochs": 3}

        def epoch(wanted: str, options: dict[str, object] = options) -> Callable[[], float]:
            return lambda: epoch_seconds(trained(timing, "stage1", "choice", **options, cuda_graphs=wanted)[0])

        name = f"graphs, an epoch of stage 1, {network.model} at batch {network.batch}"
        found = timing.rounds(name, CHOICE_ROUNDS, {"graphs": epoch("true"), "no graphs": epoch("false")})
        timing.choices.append(choice(name, found["no graphs"], found["graphs"]))


PARTS = (algebra, convnet, resnet20, large, demo, fused_and_graphs, graphs)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--seconds", type=float, default=400, help="seconds in all")
    parser.add_argument(
        "--parts", nargs="+", choices=names, default=names, metavar="PART", help=f"only these of {', '.join(names)}"
    )
    parser.add_argument("--json", type=Path, required=True, help="file of the figures")
    parser.add_argument(
        "--scratch", type=Path, help="folder for up to 5 GB that are removed at the end; default: the file's"
    )
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error(f"--device needs cuda, cuda:N or cpu, received {options.device}")
    return options


def write(timing: Timing, path: Path) -> None:
    """The file: whole, or the one before."""
    timing.figures = [figure for figure in timing.figures if figure.values]
    figures = [asdict(f) | {"reached": f.reached if timing.on_cuda else None} for f in timing.figures]
    report = {"figures": figures, "choices": timing.choices, "missing": timing.missing, "turns": timing.turns}
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(path)


def measure(timing: Timing, names: Sequence[str]) -> list[str]:
    """Runs the parts that were asked for; names of those that did not come to their end."""
    faults = []
    for part in PARTS:
        if part.__name__ not in names:
            continue
        print(f"{part.__name__}: {timing.left():.0f} s are left", flush=True)
        try:
            if timing.left() < 1:
                raise Failed("no time was left")
            part(timing)
        except (RuntimeError, LookupError, ValueError, ArithmeticError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            timing.missing.append(f"{part.__name__}: {reason}")
            if reason != NEEDS_CUDA:
                faults.append(part.__name__)
        timing.save()
    rows = [figure.row(timing.on_cuda) for figure in timing.figures]
    if rows:
        print(text_table(["part", "figure", "median (lowest to highest)", "bar", "reached"], rows))
    print("\n".join([*map(describe, timing.choices), *(f"not measured: {text}" for text in timing.missing)]))
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Its exit code."""
    options = parse(arguments)
    try:
        with tempfile.TemporaryDirectory(
            prefix="gpu_check_", dir=options.scratch or options.json.resolve().parent
        ) as scratch:
            timing = Timing(options.device, Path(scratch).resolve(), time.monotonic() + options.seconds)
            timing.save = lambda: write(timing, options.json)
            faults = measure(timing, options.parts)
    except OSError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    if faults:
        print(f"figures: these parts have none: {', '.join(faults)}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
