"""One stage-1 epoch of the ConvNet on Fashion-MNIST: dimred against plain PyTorch loops in Python.

    python experiments/benchmarks/epoch_peers.py --repeats 5 --output build/epoch_peers.json

Every contestant is a process of its own; they take turns, in an order that rotates, so that a slow
minute of the machine meets all alike. `epoch`: the training loop alone, as each reports it;
`compute`: that without waits for data; `process`: from exec to exit, evaluation included. Ratios
are peer / ours within the same round: above 1 ours is faster.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "experiments"))
from machine import processor  # noqa: E402
from workbench.text_table import text_table  # noqa: E402

PEERS = ("resident", "loader0", "loader2")
OURS = {
    "dimred": ["--snapshots_per_epoch=0"],
    "dimred, 20 snapshots": ["--snapshots_per_epoch=20"],
    "dimred bf16": ["--snapshots_per_epoch=0", "--precision=bfloat16"],
}
Round = dict[str, dict[str, float]]  # contestant -> measure -> value
MEASURES = ("epoch", "compute", "process")
SETTINGS = ("repeats", "batch_size", "threads", "learning_rate", "train_samples", "ours")
NAMES = {
    "resident": "PyTorch, resident tensors",
    "loader0": "PyTorch, DataLoader, 0 workers",
    "loader2": "PyTorch, DataLoader, 2 workers",
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=0.05)
    parser.add_argument("--train_samples", type=int, default=0, help="use only the first N training samples; 0: all")
    parser.add_argument("--no_bf16", action="store_true", help="skip dimred in bfloat16")
    parser.add_argument(
        "--ours",
        nargs="*",
        default=[],
        metavar="OPTION=VALUE",
        help="further options of dimred stage1, e.g. memory_format=channels_last",
    )
    parser.add_argument("--output", type=Path, help="JSON file for every measurement and the versions")
    return parser.parse_args(arguments)


def common(options: argparse.Namespace) -> list[str]:
    """The options of all contestants."""
    shared = ("data", "batch_size", "threads", "learning_rate", "train_samples")
    return [f"--{name}={getattr(options, name)}" for name in shared]


def timed_process(command: Sequence[str]) -> tuple[float, str]:
    """Seconds from exec to exit and standard output. Raises RuntimeError with the error text."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        error = done.stderr.strip()
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {error}")
    return seconds, done.stdout


def measure_peer(options: argparse.Namespace, kind: str, seed: int) -> dict[str, float]:
    """One epoch of a Python loop."""
    script = str(Path(__file__).with_name("epoch_peer_loops.py"))
    command = [sys.executable, script, kind, *common(options), f"--seed={seed}"]
    process, output = timed_process(command)
    report = json.loads(output.splitlines()[-1])
    return {
        "epoch": report["seconds"],
        "compute": report["compute_seconds"],
        "process": process,
        "accuracy": report["accuracy"],
    }


def measure_ours(options: argparse.Namespace, name: str, seed: int, versions: dict[str, Any]) -> dict[str, float]:
    """One epoch of dimred stage1, read from its curve.csv; notes its versions by the way."""
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        extra = [f"--{text}" for text in options.ours]
        command = [
            str(options.dimred),
            "stage1",
            *common(options),
            f"--seed={seed}",
            "--epochs=1",
            f"--output={run}",
            "--model=convnet",
            "--quiet",
            "--weight_decay=0",
            *OURS[name],
            *extra,
        ]
        process, _ = timed_process(command)
        with (run / "curve.csv").open(newline="") as stream:
            row = list(csv.DictReader(stream))[-1]
        versions |= json.loads((run / "manifest.json").read_text())["versions"]
    seconds, waited = float(row["seconds"]), float(row["data_wait_seconds"])
    return {"epoch": seconds, "compute": seconds - waited, "process": process, "accuracy": float(row["test_accuracy"])}


def median_and_spread(values: Sequence[float]) -> str:
    """`median (min-max)`."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def times_table(rounds: list[Round]) -> str:
    """Seconds of each contestant and the accuracy it reached."""
    rows = []
    for name in rounds[0]:
        cells = [median_and_spread([r[name][measure] for r in rounds]) for measure in MEASURES]
        accuracy = statistics.median(r[name]["accuracy"] for r in rounds)
        rows.append([NAMES.get(name, name), *cells, f"{100 * accuracy:.2f}"])
    return text_table(["seconds", *MEASURES, "test accuracy %"], rows)


def ratios(rounds: list[Round], ours: str, peer: str) -> dict[str, list[float]]:
    """peer / ours of each round, by measure."""
    return {m: [r[peer][m] / r[ours][m] for r in rounds] for m in MEASURES}


def ratio_table(rounds: list[Round]) -> str:
    """How many times faster than each peer ours is."""
    rows = []
    for ours in (name for name in OURS if name in rounds[0]):
        for peer in PEERS:
            by_measure = ratios(rounds, ours, peer)
            cells = [median_and_spread(by_measure[measure]) for measure in MEASURES]
            rows.append([f"{NAMES[peer]} / {ours}", *cells])
    by_measure = ratios(rounds, "dimred", "dimred, 20 snapshots")
    cells = [median_and_spread(by_measure[measure]) for measure in MEASURES]
    rows.append(["dimred: with 20 snapshots / without", *cells])
    return text_table(["ratio", *MEASURES], rows)


def versions_of_peers() -> dict[str, Any]:
    """The facts that the figures depend on besides the code."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": processor(),
        "system": platform.platform(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints both tables, writes the JSON. Returns 1 with the error of a contestant that fails."""
    options = parse(arguments)
    versions = versions_of_peers()
    ours = [name for name in OURS if not (options.no_bf16 and name.endswith("bf16"))]
    names = [*ours, *PEERS]
    rounds: list[Round] = []
    try:
        for i in range(options.repeats):
            turn = i % len(names)
            measured = {
                name: measure_ours(options, name, i + 1, versions)
                if name in ours
                else measure_peer(options, name, i + 1)
                for name in names[turn:] + names[:turn]
            }
            rounds.append({name: measured[name] for name in names})
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(times_table(rounds), ratio_table(rounds), sep="\n\n")
    if options.output:
        settings = {key: getattr(options, key) for key in SETTINGS}
        text = json.dumps({"versions": versions, "settings": settings, "rounds": rounds}, indent=1)
        options.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
