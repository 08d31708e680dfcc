"""Which run began where another had ended: joins children to their parents."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from .files import BadRun, NotARun
from .run import COUNTERS, Run, read_run


def parent_folder(run: Run) -> Path | None:
    """The folder of the run that it started from; where both were moved together, the moved one."""
    value = run.config.get("checkpoint") if run.stage == "stage2" else run.config.get("resume_from")
    if not value:
        return None
    path = Path(value)
    was = Path(run.config.get("output", run.folder))
    moved = Path(os.path.normpath(run.folder.resolve() / os.path.relpath(path, was)))
    for candidate in (moved, *moved.parents[:2], path, *path.parents[:2]):  # a state lies in RUN/checkpoints/
        if (candidate / "curve.csv").is_file():
            return candidate
    return None


def adopt(run: Run, parent: Run) -> None:
    """Shifts a child's epochs behind its parent's and notes the costs that it inherited."""
    run.parent = parent
    if run.stage == "stage2":  # counts from its own start, with a row of epoch 0
        run.start_epoch = float(parent.curve["epoch"].max())
        run.curve["epoch"] += run.start_epoch
        # `spent` is in epochs of the whole training set; a soup alone has passes and no step.
        if run.config.get("train_on") == "validation" or math.isnan(run.steps_per_epoch):
            batches = [float(r.manifest.get("global_batch_size", math.nan)) for r in (parent, run)]
            run.steps_per_epoch = parent.steps_per_epoch * batches[0] / batches[1]
        return
    earlier = parent.curve[parent.curve["epoch"] < run.curve["epoch"].min()]
    if len(earlier):
        run.start_epoch = float(earlier["epoch"].max())
        run.start_costs = {key: float(earlier[key].max()) for key in COUNTERS if key in earlier}


def name_apart(runs: Iterable[Run]) -> None:
    """Runs of one name take that of the folder around it in front: seed_1/stage1, seed_2/stage1."""
    shared = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    for run in runs:
        if run.name in shared:
            run.name = f"{run.folder.resolve().parent.name}/{run.name}"


def read_good_runs(folders: Iterable[Path | str]) -> tuple[list[Run], list[BadRun]]:
    """The finished and whole ones among them, joined as by read_runs, and what is wrong with the others."""
    good, bad = [], []
    for folder in folders:
        try:
            good.append(read_run(folder, finished=True))
        except BadRun as error:
            bad.append(error)
    return joined(good), bad


def read_runs(folders: Iterable[Path | str], finished: bool = False) -> list[Run]:
    """Reads runs and joins each to the run that it started from, where that is among them; only so is `spent`
    known of one that took no step, or did not train on the whole training set. Raises as read_run does."""
    return joined([read_run(folder, finished) for folder in folders])


def joined(runs: list[Run]) -> list[Run]:
    """Each to its start, and told apart by name."""
    by_folder = {run.folder.resolve(): run for run in runs}
    for run in sorted(runs, key=lambda r: r.kind != "stage 1"):
        folder = parent_folder(run)
        if folder and folder.resolve() in by_folder:
            adopt(run, by_folder[folder.resolve()])
    name_apart(runs)
    return runs


def run_folders(places: Sequence[Path]) -> list[Path]:
    """Run folders as they are; a folder that compare.py filled stands for the runs of its last phase: selection
    and confirmation are not one sample. Raises NotARun for anything else."""
    found = []
    for place in places:
        if (place / "curve.csv").is_file():
            found.append(place)
        elif (place / "results.csv").is_file():
            results = pd.read_csv(place / "results.csv")
            last = "confirmation" if (results["phase"] == "confirmation").any() else "selection"
            found += [place / folder for folder in sorted(set(results[results["phase"] == last]["folder"]))]
        else:
            raise NotARun(f"[dimred.runs] {place} is not a run folder: it has no curve.csv")
    return found
