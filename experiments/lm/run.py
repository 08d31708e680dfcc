"""Computes the missing rows of two records; a second start continues a stopped run.

    python experiments/lm/run.py [RECORD...] [--seeds 1 2 3] [--folder runs/lm] [--rows FOLDER]

RECORD: lm_controls, trajectory_says; by default both, seed by seed. Snapshots and states of a seed take 2 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))

from lm.arms import ARMS, IN_THE_WINDOW, WITH_EACH_RATE  # noqa: E402
from lm.base import Base, make  # noqa: E402
from lm.images import Images  # noqa: E402
from lm.says import measured  # noqa: E402
from lm.sums import Sums  # noqa: E402
from lm.text import Pages  # noqa: E402
from lm.training import SCHEDULE_FREE, Diverged, Task  # noqa: E402

Row = dict[str, Any]
SHARED = ("last weights", "mean of a window")
FIRST_QUESTION = [(1e-3, arm) for arm in (*SHARED, *IN_THE_WINDOW)]
SECOND_QUESTION = [(rate, arm) for rate in (3e-3, 1e-2, 1e-3) for arm in WITH_EACH_RATE]
MERGES = EXPERIMENTS / "records" / "lm_merges_rows.jsonl"
SETTINGS: list[tuple[type[Task], tuple[float, ...]]] = [
    (Sums, (1e-4, 3e-4, 1e-3)),
    (Images, (0.003, 0.01, 0.03, 0.1)),
    (Pages, (3e-4, 1e-3, 3e-3, 1e-2)),
]


def read_rows(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Rows:
    """The lines of a file; those of one step of the work are added together, or none."""

    def __init__(self, file: Path, keys: tuple[str, ...]) -> None:
        self.file, self.keys = file, keys
        self.done = {self.key(row) for row in read_rows(file)}

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[key] for key in self.keys)

    def add(self, rows: list[Row]) -> None:
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        with self.file.open("a") as stream:
            stream.write(text)
        self.done |= set(map(self.key, rows))
        print(text, end="", flush=True)


@cache
def task_of(kind: type[Task]) -> Task:
    """One of each: it holds the data."""
    return kind()


def base_of(folder: Path, task: Task, seed: int, rate: float, kind: str = "") -> Base:
    name = f"rate_{rate:g}" + "_schedule_free" * (kind == SCHEDULE_FREE)
    return Base(task, seed, rate, folder / task.name / f"seed_{seed}" / name, kind)


def lm_controls(folder: Path, rows: Rows, seed: int) -> None:
    run_arms(folder, rows, seed, FIRST_QUESTION)
    take_over(rows, seed, read_rows(MERGES))
    run_arms(folder, rows, seed, SECOND_QUESTION)


def take_over(rows: Rows, seed: int, merges: list[Row]) -> None:
    """Adds what the first record has for the second question, where its run at 1e-3 is repeated here."""
    first = [row for row in merges if row["seed"] == seed]
    theirs = {(row["arm"], row["variant"]): row["test"] for row in first if row["arm"] in SHARED}
    own = {(row["arm"], row["variant"]): row["test"] for row in read_rows(rows.file) if at(row, seed) and "test" in row}
    if not theirs or any(abs(own.get(key, math.inf) - loss) > 1e-4 for key, loss in theirs.items()):
        return
    taken: dict[tuple[float, str], list[Row]] = {}
    for row in first:
        if annealed := re.fullmatch(r"annealed (.+), (10|20) %", row["arm"]):
            if row["variant"] == "end":
                job, variant = (1e-3, f"annealed, last {annealed[2]} %"), annealed[1]
                taken.setdefault(job, []).append(row | {"arm": job[1], "variant": variant})
        elif row["arm"] == SCHEDULE_FREE:
            taken[float(row["variant"].removeprefix("rate=")), SCHEDULE_FREE] = [row | {"variant": ""}]
    for (rate, _), found in taken.items():
        if rows.key(found[0] | {"rate": rate}) not in rows.done:
            rows.add([row | {"rate": rate, "from": "lm_merges"} for row in found])


def at(row: Row, seed: int) -> bool:
    return row["seed"] == seed and row["rate"] == 1e-3


def run_arms(folder: Path, rows: Rows, seed: int, jobs: list[tuple[float, str]]) -> None:
    for rate, arm in jobs:
        row: Row = {"seed": seed, "rate": rate, "arm": arm}
        if rows.key(row) in rows.done:
            continue
        base = base_of(folder, task_of(Pages), seed, rate, SCHEDULE_FREE if arm == SCHEDULE_FREE else "")
        try:
            make(base, base.end)
            rows.add([row | {"variant": variant} | losses_or_reason(losses) for variant, losses in ARMS[arm](base)])
        except Diverged as reason:
            rows.add([row | {"variant": "", "reason": str(reason)}])


def losses_or_reason(losses: Callable[[], tuple[float, float]]) -> Row:
    try:
        return dict(zip(("validation", "test"), losses(), strict=True))
    except Diverged as reason:
        return {"reason": str(reason)}


def trajectory_says(folder: Path, rows: Rows, seed: int) -> None:
    for kind, rates in SETTINGS:
        for rate in rates:
            row: Row = {"setting": kind.name, "seed": seed, "rate": rate}
            if {rows.key(row | {"what": what}) for what in ("losses", "diverged")} & rows.done:
                continue
            try:
                for what, values in measured(base_of(folder, task_of(kind), seed, rate)):
                    if rows.key(row | {"what": what}) not in rows.done:
                        rows.add([row | {"what": what} | values])
            except Diverged as reason:
                rows.add([row | {"what": "diverged", "reason": str(reason)}])


RECORDS = {
    "lm_controls": (lm_controls, ("seed", "rate", "arm")),
    "trajectory_says": (trajectory_says, ("setting", "seed", "rate", "what")),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", default=list(RECORDS), metavar="RECORD")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--folder", type=Path, default=Path("runs/lm"), help="folder of snapshots and states")
    parser.add_argument(
        "--rows",
        type=Path,
        default=EXPERIMENTS / "records",
        metavar="FOLDER",
        help="folder of the records' files of rows",
    )
    options = parser.parse_args()
    if unknown := set(options.records) - set(RECORDS):
        parser.error(f"RECORD needs to be one of {', '.join(RECORDS)}, received {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    for seed in options.seeds:
        for record in options.records:
            work, keys = RECORDS[record]
            work(options.folder, Rows(options.rows / f"{record}_rows.jsonl", keys), seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
