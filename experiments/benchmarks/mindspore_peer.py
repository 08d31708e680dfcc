"""Measures dimred beside MindSpore 2.10 on CPUs: the PCA, one epoch, one stage-2 step and the whole recipe.

    python experiments/benchmarks/mindspore_peer.py --scratch /tmp --json build/mindspore.json

Needs scripts/mindspore.sh. Both sides have the same data, network and number of threads. Every contestant is a process
of its own, and they take turns, each round beginning with another. Seconds are wall-clock of the work alone (the
recipe: from exec to exit); processor seconds are disturbed less by other work. MindSpore's leave out imports and
compilation, while ours are of the whole process, start and evaluation included, so that a ratio of processor time is a
lower bound; in the recipe both are of whole processes. Ratios are theirs / ours within a round: above 1 dimred is
faster.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "experiments"))
from epoch_peer_loops import read_idx  # noqa: E402
from machine import processor  # noqa: E402
from pca_peers import centred_chunks, errors, exact_combinations, seconds_of, warm  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402
from workbench.text_table import text_table  # noqa: E402

PARTS = ("pca", "epoch", "step", "recipe")
COMPONENTS = 32
SETTINGS = ("rounds", "threads", "rows", "columns", "batch_size", "steps", "train_samples", "test_samples", "epochs")
Run = dict[str, Any]
Rounds = list[dict[str, Run]]  # contestant -> measure -> value


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--mindspore", type=Path, default=REPOSITORY / ".venv-mindspore" / "bin" / "python")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"), help="folder for W, P and runs")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="threads of both sides")
    parser.add_argument("--rows", type=int, default=60, help="pca: number of snapshots n, from a random walk")
    parser.add_argument("--columns", type=int, default=2_560_000, help="pca: number of weights M")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100, help="epoch, step: number of MindSpore's steps")
    parser.add_argument("--train_samples", type=int, default=4096, help="step, recipe: images of Fashion-MNIST")
    parser.add_argument("--test_samples", type=int, default=2000)
    parser.add_argument(
        "--epochs", type=int, default=9, help="recipe: epochs of stage 1, a fifth of the schedule's length"
    )
    parser.add_argument(
        "--json",
        type=Path,
        help="JSON file for all measurements; keeps earlier results of parts that are not measured now",
    )
    return parser.parse_args(arguments)


def measured(command: Sequence[object], environment: dict[str, str] | None = None) -> tuple[Run, str]:
    """Wall-clock and processor seconds from exec to exit, and its output. Raises RuntimeError with the error text."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor": used}, done.stdout


def theirs(options: argparse.Namespace, task: str, **request: object) -> tuple[Run, Run]:
    """(what MindSpore reports of a task, its whole process)."""
    threads = str(options.threads)
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "GLOG_v": "3"}
    words = json.dumps({"seed": 1, "threads": options.threads, "batch_size": options.batch_size} | request, default=str)
    process, output = measured(
        [options.mindspore, REPOSITORY / "experiments" / "benchmarks" / "mindspore_side.py", task, words], environment
    )
    return json.loads(output.splitlines()[-1]), process


def ours(options: argparse.Namespace, stage: str, output: Path, *words: str) -> tuple[Run, dict[str, str]]:
    """(its whole process, the last row of its curve); the folder is made again."""
    shutil.rmtree(output, ignore_errors=True)
    command = [
        options.dimred,
        stage,
        f"--output={output}",
        f"--threads={options.threads}",
        f"--batch_size={options.batch_size}",
        "--quiet",
    ]
    process, _ = measured([*command, *words])
    with (output / "curve.csv").open(newline="") as stream:
        return process, list(csv.DictReader(stream))[-1]


def in_turns(count: int, contestants: dict[str, Callable[[int], Run]]) -> Rounds:
    """Each in every round, which begins with another each time."""
    names, rounds = list(contestants), []
    for i in range(count):
        first = i % len(names)
        done = {name: contestants[name](i) for name in names[first:] + names[:first]}
        rounds.append({name: done[name] for name in names})
    return rounds


# The PCA.


def make_walk(path: Path, rows: int, columns: int) -> None:
    """W [rows x columns], a random walk: its spectrum falls as that of weights in training, like 1 / k^2."""
    generator = np.random.default_rng(0)
    walk = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    row = np.zeros(columns, np.float32)
    for i in range(rows):
        row += 0.01 * generator.standard_normal(columns, np.float32)
        walk[i] = row


def pca_ours(options: argparse.Namespace, source: Path, output: Path) -> Run:
    """From exec to exit, less the fsync, which theirs do not do."""
    command = [
        options.dimred,
        "pca",
        f"--snapshots={source}",
        f"--output={output}",
        "--overwrite",
        f"--threads={options.threads}",
    ]
    run, text = measured([*command, f"--components={COMPONENTS}"])
    return run | {"seconds": run["seconds"] - seconds_of(text)}


def variance_kept(source: Path, basis_path: Path) -> float:
    """The part of the variance of W that the rows of P keep."""
    basis = np.load(basis_path, mmap_mode="r")
    total, coordinates = 0.0, 0.0
    for part, wide in centred_chunks(source):
        total += np.sum(wide**2)
        coordinates = coordinates + wide @ basis[:, part].astype(np.float64).T
    return float(np.sum(coordinates**2) / total)


def pca_part(options: argparse.Namespace, scratch: Path) -> Run:
    """Times, and the smallest cosine between the found and the exact subspace."""
    source = scratch / "walk.npy"
    make_walk(source, options.rows, options.columns)
    warm(source)
    outputs = {name: scratch / f"{name}.npy" for name in ("dimred", "MindSpore", "MindSpore, full")}

    def peer(name: str) -> Callable[[int], Run]:
        request = {"source": source, "output": outputs[name], "components": COMPONENTS, "full": name.endswith("full")}
        return lambda i: theirs(options, "pca", seed=i + 1, **request)[0]

    contestants: dict[str, Callable[[int], Run]] = {"dimred": lambda _: pca_ours(options, source, outputs["dimred"])}
    rounds = in_turns(options.rounds, contestants | {name: peer(name) for name in list(outputs)[1:]})
    with threadpool_limits(options.threads):
        exact = exact_combinations(source, COMPONENTS)
        sines = {name: errors(source, exact, path)["subspace"] for name, path in outputs.items()}
        kept = {name: variance_kept(source, path) for name, path in outputs.items()}
    cosines = {name: max(0.0, 1 - sine**2) ** 0.5 for name, sine in sines.items()}
    for path in (source, *outputs.values()):
        path.unlink()
    return {"rounds": rounds, "sine_of_largest_angle": sines, "smallest_cosine": cosines, "variance_kept": kept}


# Training.


def write_data(folder: Path, train: int, test: int) -> Path:
    """This number of samples of Fashion-MNIST, evenly spread, as arrays that both sides read."""
    for split, name, count in (("train", "train", train), ("test", "t10k", test)):
        images, labels = (
            read_idx(Path("/usr/share/datasets/fashion-mnist"), f"{name}-{part}")
            for part in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        rows = np.linspace(0, len(labels) - 1, count).astype(int)
        (folder / split).mkdir(parents=True)
        np.save(folder / split / "images.npy", images[rows])
        np.save(folder / split / "labels.npy", labels[rows].astype(np.int64))
    return folder


def stage1_words(data: Path, options: argparse.Namespace, epochs: int) -> list[str]:
    """The recipe's."""
    return [
        f"--data={data}",
        f"--epochs={epochs}",
        f"--total_epochs={5 * epochs}",
        "--learning_rate=0.05",
        "--schedule=linear",
        "--snapshots_per_epoch=4",
        "--snapshot_initial",
    ]


def snapshot(run: Path, index: int) -> np.ndarray:
    """Its weights [M]."""
    with h5py.File(sorted((run / "snapshots").glob("*.h5"))[index]) as file:
        weights: np.ndarray = file["weights"][:]
    return weights


def epoch_part(options: argparse.Namespace, scratch: Path) -> Run:
    """Seconds an image: ours over an epoch of 60,000 in float32, theirs over `steps` steps, as an epoch takes
    minutes."""
    data = write_data(scratch / "whole", 60_000, 1000)

    def one(_: int) -> Run:
        words = [f"--data={data}", "--epochs=1", "--snapshots_per_epoch=0", "--learning_rate=0.05"]
        process, row = ours(options, "stage1", scratch / "epoch", *words)
        return {"seconds": float(row["seconds"]) / 60_000, "processor": process["processor"] / 60_000}

    def peer(_: int) -> Run:
        step = theirs(options, "epoch", data=data, steps=options.steps)[0]
        return {name: value / options.batch_size for name, value in step.items()}

    rounds = in_turns(options.rounds, {"dimred": one, "MindSpore": peer})
    shutil.rmtree(data)
    return {"rounds": rounds}


def step_part(options: argparse.Namespace, scratch: Path) -> Run:
    """A step of `mindspore-latest`: same weights, P, batch size and network. Raises RuntimeError where the networks
    differ."""
    data = write_data(scratch / "some", options.train_samples, options.test_samples)
    run, basis, weights = scratch / "stage1", scratch / "basis.npy", scratch / "weights.npy"
    _, row = ours(options, "stage1", run, *stage1_words(data, options, options.epochs))
    measured([options.dimred, "pca", run, f"--output={basis}", f"--components={COMPONENTS}", "--overwrite", "--quiet"])
    np.save(weights, snapshot(run, -1))
    epochs = -(
        -4 * options.steps * options.batch_size // options.train_samples
    )  # four times theirs, lest our start-up be what counts
    steps = epochs * (options.train_samples // options.batch_size)

    def one(_: int) -> Run:
        words = [str(run), f"--pca_mat={basis}", "--preset=mindspore-latest", f"--epochs={epochs}", f"--data={data}"]
        process, row = ours(options, "stage2", scratch / "boost", *words)
        return {"seconds": float(row["seconds"]) / steps, "processor": process["processor"] / steps}

    def peer(_: int) -> Run:
        return theirs(options, "step", data=data, steps=options.steps, weights=weights, basis=basis)[0]

    rounds = in_turns(options.rounds, {"dimred": one, "MindSpore": peer})
    theirs_right = rounds[0]["MindSpore"]["accuracy"]
    if abs(theirs_right - float(row["test_accuracy"])) > 2.5 / options.test_samples:
        raise RuntimeError(
            f"the same weights have the test accuracy {row['test_accuracy']} in dimred and {theirs_right} in "
            "MindSpore: the networks differ"
        )
    shutil.rmtree(data)
    return {
        "rounds": rounds,
        "accuracy_of_the_same_weights": {"dimred": float(row["test_accuracy"]), "MindSpore": theirs_right},
    }


def recipe_part(options: argparse.Namespace, scratch: Path) -> Run:
    """Stage 1 from the same initial weights, PCA of 4 snapshots an epoch, 2 epochs of stage 2; a seed a round."""
    data = write_data(scratch / "data", options.train_samples, options.test_samples)

    @functools.cache  # both presets start from the same run
    def stage1(seed: int) -> tuple[Run, dict[str, str]]:
        return ours(
            options, "stage1", scratch / f"one_{seed}", *stage1_words(data, options, options.epochs), f"--seed={seed}"
        )

    def two_stages(preset: str) -> Callable[[int], Run]:
        def once(i: int) -> Run:
            first, row = stage1(i + 1)
            second, last = ours(
                options,
                "stage2",
                scratch / "two",
                str(scratch / f"one_{i + 1}"),
                f"--preset={preset}",
                "--epochs=2",
                "--snapshot_from=1",
                f"--data={data}",
                f"--seed={i + 1}",
            )
            return {
                "seconds": first["seconds"] + second["seconds"],
                "processor": first["processor"] + second["processor"],
                "stage1": float(row["test_accuracy"]),
                "stage2": float(last["test_accuracy"]),
            }

        return once

    def peer(i: int) -> Run:
        run, folder, weights = scratch / "start", scratch / "checkpoints", scratch / "start.npy"
        ours(options, "stage1", run, *stage1_words(data, options, 1), f"--seed={i + 1}", "--stop_at_step=1")
        np.save(weights, snapshot(run, 0))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result, process = theirs(
            options,
            "recipe",
            data=data,
            weights=weights,
            output=folder,
            seed=i + 1,
            components=COMPONENTS,
            epochs=options.epochs,
            total_epochs=5 * options.epochs,
            learning_rate=0.05,
            snapshots_per_epoch=4,
            boost_epochs=2,
        )
        return result | {"inside": {name: result[name] for name in ("seconds", "processor")}} | process

    rounds = in_turns(
        options.rounds,
        {
            "dimred, robust": two_stages("robust"),
            "dimred, mindspore-latest": two_stages("mindspore-latest"),
            "MindSpore": peer,
        },
    )
    return {"rounds": rounds}


# What is shown.


def span(values: Sequence[float], factor: float = 1) -> str:
    """`median (lowest - highest)`, three digits."""
    middle, low, high = (factor * value for value in (statistics.median(values), min(values), max(values)))
    return f"{middle:.3g} ({low:.3g} - {high:.3g})"


def ratios(rounds: Rounds, name: str, measure: str) -> list[float]:
    """The peer's / ours, by round; ours is the first."""
    first = next(iter(rounds[0]))
    return [done[name][measure] / done[first][measure] for done in rounds]


def show(part: str, result: Run) -> None:
    """A table: seconds, processor seconds, ratios, and accuracies or cosines."""
    rounds = result["rounds"]
    rows = []
    for name in rounds[0]:
        cells = [span([done[name][measure] for done in rounds]) for measure in ("seconds", "processor")]
        cells += [span(ratios(rounds, name, measure)) for measure in ("seconds", "processor")]
        cells += [f"{result[fact][name]:.4f}" for fact in ("smallest_cosine", "variance_kept")] if part == "pca" else []
        cells += (
            [span([done[name][stage] for done in rounds], 100) for stage in ("stage1", "stage2")]
            if part == "recipe"
            else []
        )
        rows.append([name, *cells])
    more = {"pca": ["smallest cosine", "variance kept"], "recipe": ["stage 1 %", "stage 2 %"]}.get(part, [])
    what = {"epoch": "an image", "step": "a step"}.get(part, "")
    print(
        text_table([part, f"seconds {what}".strip(), "processor", "times slower", "by processor", *more], rows),
        flush=True,
    )
    print()


def versions(options: argparse.Namespace) -> dict[str, str]:
    """The facts that the figures depend on besides the code."""
    text = (
        "import json, mindspore, numpy, scipy; "
        "print(json.dumps({m.__name__: m.__version__ for m in (mindspore, numpy, scipy)}))"
    )
    _, output = measured([options.mindspore, "-c", text])
    _, ours_version = measured([options.dimred, "--version"])
    return json.loads(output.splitlines()[-1]) | {"dimred": ours_version.strip(), "processor": processor()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table for each part, writes the JSON. Returns 1 with the error of a contestant that fails."""
    options = parse(arguments)
    if not options.mindspore.exists():
        print("mindspore_peer: needs MindSpore; scripts/mindspore.sh installs it (about 800 MB)", file=sys.stderr)
        return 1
    run = {"pca": pca_part, "epoch": epoch_part, "step": step_part, "recipe": recipe_part}
    result: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    settings = {name: getattr(options, name) for name in SETTINGS}
    try:
        result["versions"] = versions(options)
        for part in options.parts:
            with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
                result[part] = {"settings": settings} | run[part](options, Path(scratch))
            show(part, result[part])
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n")
    except (RuntimeError, OSError) as error:
        print(f"mindspore_peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
