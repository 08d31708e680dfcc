"""What of a lower test loss in a finished comparison is better confidence alone: every run's loss at its own temperature.

    python experiments/temperature.py runs/fashion_tails --phase confirmation --where methods.budget=1.0

Each run's logits are divided by the temperature with the lowest loss on its validation set (`dimred evaluate --fit_temperature`), which
costs no training. Stopped and started again it goes on where it was; `--rows FILE` keeps a line for each run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from workbench import replicates
from workbench.evaluation import Evaluation
from workbench.jobs import DIMRED, CommandFailed, pair
from workbench.replicates import Experiment, Metric, PlanError, Row

METRICS = (
    Metric("test_tempered_loss", "test loss, tempered"),
    Metric("test_loss", "test loss"),
    Metric("test_accuracy", "test %"),
    Metric("temperature", "temperature"),
)


def chosen_runs(results: pd.DataFrame, phase: str, where: dict[str, str]) -> pd.DataFrame:
    """The finished runs of a phase and condition, but for stage 1 itself; one that does not depend on an axis is of every condition.
    Raises PlanError for an axis that there is not, or when there are none."""
    kept = (results["phase"] == phase) & (results["outcome"] == "finished") & (results["role"] != "start")
    for axis, value in where.items():
        if axis not in results:
            raise PlanError(f"--where needs an axis of the comparison, received {axis}")
        kept &= results[axis].isna() | (results[axis].astype(str) == value)
    if not kept.any():
        raise PlanError(f"no run of phase {phase} is finished under {where or 'any condition'}")
    return results[kept]


def arm(line: Any) -> str:
    """The method and what validation chose of it."""
    return f"{line.method} {line.variant}".strip() if isinstance(line.variant, str) else str(line.method)


def tempered(line: Any, folder: Path, binary: Path) -> Row:
    """The row of one run."""
    run = folder / line.folder
    judge = Evaluation(binary, folder / "temperature", {"fit_temperature": "true", "threads": 1})
    scores = judge.scores(line.folder.replace("/", "-"), [run])
    return {"replicate": int(line.seed), "kind": arm(line), "role": line.role, **scores, "machine": replicates.machine_of(run)}


def report(rows: Sequence[Row]) -> str:
    """Each arm against the baseline with the lowest tempered validation loss."""
    roles = {row["kind"]: row["role"] for row in rows}
    experiment = Experiment(
        arms=tuple(roles), metrics=METRICS, rivals=[name for name, role in roles.items() if role == "baseline"],
        chosen_by=Metric("validation_tempered_loss", "validation loss, tempered"),
        read_plan=lambda _: {}, run=lambda *_: [],
    )  # fmt: skip
    return replicates.table(rows, experiment)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 with one line of what failed, or 2 for runs that are not there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", type=Path, help="folder that compare.py wrote")
    parser.add_argument("--phase", default="confirmation", choices=("selection", "confirmation"))
    parser.add_argument("--where", type=pair, nargs="*", default=[], metavar="AXIS=VALUE", help="the runs of one condition")
    parser.add_argument("--rows", type=Path, help="keep the rows of finished runs in this file")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    options = parser.parse_args(arguments)
    try:
        runs = chosen_runs(pd.read_csv(options.comparison / "results.csv"), options.phase, dict(options.where))
        file = options.rows or options.comparison / "temperature.jsonl"
        rows = replicates.read_rows(file)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    known = {(row["replicate"], row["kind"]) for row in rows}
    missing = [line for line in runs.itertuples() if (line.seed, arm(line)) not in known]
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            made = list(pool.map(lambda line: tempered(line, options.comparison, options.dimred), missing))
    except (CommandFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    replicates.add(file, made)
    print(report([*rows, *made]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
