"""Measures a stage-1 step of ResNet-20 and ResNet-50 in bfloat16 against float32.

    python experiments/benchmarks/precision_step.py --rounds 5 --json build/precision.json

Each round runs every precision of a network in a process of its own, in an order that rotates. A
run makes `warm_up` steps that do not count, then `steps` that do; the step's seconds are what the
run's own log says, waits for data included (images are drawn at random and resident). Ratios are
float32 / bfloat16 within one round: above 1 bfloat16 is faster.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "experiments"))
from machine import processor  # noqa: E402
from workbench.text_table import text_table  # noqa: E402

PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Case:
    """A network on random images [3, side, side]."""

    model: str
    side: int
    batch_size: int
    steps: int


CASES = {"resnet20": Case("resnet20", 32, 128, 30), "resnet50": Case("resnet50", 224, 16, 4)}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="number of measured steps; 0: each case's own number")
    parser.add_argument("--warm_up", type=int, default=3, help="further steps before the measured ones")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0: all cores")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="JSON file for every measurement, with versions")
    return parser.parse_args(arguments)


def seconds_a_step(options: argparse.Namespace, case: Case, precision: str) -> float:
    """Mean over the steps that count. Raises RuntimeError with the error text of a run that fails."""
    counted = options.steps or case.steps
    total = options.warm_up + counted
    with tempfile.TemporaryDirectory() as temporary:
        command = [
            str(options.dimred),
            "stage1",
            "--dataset=mock",
            f"--mock_shape=3,{case.side},{case.side}",
            f"--train_samples={total * case.batch_size}",
            f"--test_samples={case.batch_size}",
            f"--batch_size={case.batch_size}",
            f"--model={case.model}",
            f"--precision={precision}",
            f"--threads={options.threads}",
            f"--device={options.device}",
            "--epochs=1",
            "--learning_rate=0.001",
            "--snapshots_per_epoch=0",
            "--log_loss_every_n_iters=1",
            f"--output={temporary}/run",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    report = [float(found) for found in re.findall(r"([0-9.e+-]+) s/step", done.stdout)]
    if len(report) != total:
        raise RuntimeError(f"expected {total} lines of s/step, received {len(report)}")
    return statistics.fmean(report[options.warm_up :])


def measure(options: argparse.Namespace, case: Case) -> dict[str, list[float]]:
    """Seconds a step by precision, one a round."""
    seconds: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    for turn in range(options.rounds):
        first = turn % len(PRECISIONS)
        for precision in PRECISIONS[first:] + PRECISIONS[:first]:
            seconds[precision].append(seconds_a_step(options, case, precision))
    return seconds


def median_and_spread(values: Sequence[float]) -> str:
    """`median (min-max)`."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def bfloat16_flags() -> list[str]:
    """The processor's instructions for it."""
    text = Path("/proc/cpuinfo").read_text()
    return [flag for flag in ("avx512_bf16", "amx_bf16") if flag in text]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, writes the JSON. Returns 1 with the error of a run that fails."""
    options = parse(arguments)
    rows, results = [], {}
    try:
        for name in options.cases:
            case = CASES[name]
            seconds = measure(options, case)
            ratios = [wide / narrow for wide, narrow in zip(*(seconds[p] for p in PRECISIONS), strict=True)]
            results[name] = {
                "seconds_a_step": seconds,
                "ratios": ratios,
                "side": case.side,
                "batch_size": case.batch_size,
            }
            rows.append(
                [
                    f"{name}, {case.side} x {case.side}, batch {case.batch_size}",
                    *(median_and_spread(seconds[p]) for p in PRECISIONS),
                    median_and_spread(ratios),
                ]
            )
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(text_table(["seconds a step", *PRECISIONS, "float32 / bfloat16"], rows))
    if options.json:
        settings = {key: getattr(options, key) for key in ("rounds", "steps", "warm_up", "threads", "device")}
        text = json.dumps(
            {"processor": {"name": processor(), "bfloat16": bfloat16_flags()}, "settings": settings, "cases": results},
            indent=1,
        )
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
