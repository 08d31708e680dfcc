"""Measures stage 1 of the ConvNet while other programs use the cores, under several wait policies of OpenMP.

    python experiments/benchmarks/busy_machine.py --repeats 5 --json build/busy_machine.json

Threads of OpenMP that are done wait for the others by spinning, `GOMP_SPINCOUNT` times, before they sleep. Where
another program has the core that they wait for, they spin away the time in which it could come back. The contestants
are `dimred` with its own policy, with libgomp's, and with `OMP_WAIT_POLICY=passive` (no spinning), and a plain PyTorch
loop on resident tensors with the same three. Beside them run 0, 2 and 6 endless loops. Each is a process of its own;
they take turns, in an order that rotates. Rates are those of the training loop alone; ratios are medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epoch_peers import REPOSITORY, measure_ours, measure_peer
from machine import processor
from workbench.text_table import text_table

SPINS = "GOMP_SPINCOUNT"
LIBGOMP = {SPINS: "300000"}  # its own choice where there are as many threads as cores
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
Rates = dict[str, list[float]]  # contestant -> images/s of each round


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--loads", type=int, nargs="+", default=[0, 2, 6], help="numbers of endless loops to run beside the training"
    )
    parser.add_argument("--spins", type=int, nargs="*", default=[], help="further values of GOMP_SPINCOUNT to try")
    parser.add_argument("--train_samples", type=int, default=12800)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="JSON file for all rates and a description of the machine")
    options = parser.parse_args()
    options.batch_size, options.learning_rate, options.ours = 64, 0.05, ["test_samples=100"]
    return options


@contextmanager
def beside(count: int) -> Iterator[None]:
    """Runs `count` endless loops."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def policy(variables: dict[str, str]) -> Iterator[None]:
    """What OpenMP of the processes started inside reads."""
    before = dict(os.environ)
    for name in (SPINS, "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def contestants(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Name -> environment; "PyTorch" begins the names of the plain loops."""
    from dimred._core import openmp_spin_count  # the built package, which says what the trainers take

    own = {SPINS: openmp_spin_count}
    ours = {"dimred": {}, "dimred, libgomp's own": LIBGOMP, "dimred, passive": PASSIVE}
    further = {f"dimred, {spins} spins": {SPINS: str(spins)} for spins in options.spins}
    return ours | further | {"PyTorch": LIBGOMP, "PyTorch, passive": PASSIVE, "PyTorch, share_cores()": own}


def rate(options: argparse.Namespace, name: str, variables: dict[str, str], seed: int) -> float:
    """Images a second of one epoch."""
    with policy(variables):
        if name.startswith("PyTorch"):
            seconds = measure_peer(options, "resident", seed)["compute"]
        else:
            seconds = measure_ours(options, "dimred", seed, {})["compute"]
    return options.train_samples / seconds


def measure(options: argparse.Namespace, load: int) -> Rates:
    """All contestants beside `load` loops."""
    all_of_them = list(contestants(options).items())
    rates: Rates = {name: [] for name, _ in all_of_them}
    with beside(load):
        for turn in range(options.repeats):
            shift = turn % len(all_of_them)
            for name, variables in all_of_them[shift:] + all_of_them[:shift]:
                rates[name].append(rate(options, name, variables, seed=turn + 1))
    return rates


def ratio(rates: Rates, name: str, to: str) -> float:
    """Median over the rounds of name / to."""
    return statistics.median(a / b for a, b in zip(rates[name], rates[to], strict=True))


def table(load: int, rates: Rates) -> str:
    """Medians, and the ratios within a round to passive waiting and to libgomp's own."""
    rows = []
    for name, values in rates.items():
        group = name.split(",")[0]
        base = "PyTorch" if group == "PyTorch" else "dimred, libgomp's own"
        spread = f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"
        rows.append([name, spread, *(f"{ratio(rates, name, to):.3f}" for to in (f"{group}, passive", base))])
    return text_table([f"beside {load} loops: images/s", "median (range)", "/ passive", "/ libgomp's own"], rows)


def main() -> None:
    """Measures, prints a table for each load, writes the JSON."""
    options = parse()
    results = {}
    for load in options.loads:
        results[load] = measure(options, load)
        print(table(load, results[load]), flush=True)
    if options.json:
        machine = {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "threads": options.threads}
        options.json.write_text(json.dumps({"machine": machine, "images_per_second": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
