"""Which run began where another had ended: joins children to their parents."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from .files import BadRun, NotARun
from .run import COUNTERS, Run, read_run

# The names of what holds a run's weights of a step; start.h5: before its first one.
STATE = re.compile(r"start\.h5|(?:snapshot|state)_(\d+)(?:\.h5)?")


def _started_from(run: Run) -> str | None:
    """The path of the run, state or file that it started from."""
    return run.config.get("checkpoint") if run.stage == "stage2" else run.config.get("resume_from")


def parent_folder(run: Run) -> Path | None:
    """The folder of the run that it started from; where both were moved together, the moved one."""
    value = _started_from(run)
    if not value:
        return None
    path = Path(value)
    was = Path(run.config.get("output", run.folder))
    moved = Path(os.path.normpath(run.folder.resolve() / os.path.relpath(path, was)))
    for candidate in (moved, *moved.parents[:2], path, *path.parents[:2]):  # a state lies in RUN/checkpoints/
        if (candidate / "curve.csv").is_file():
            return candidate
    return None


def _epoch_begun_at(run: Run, parent: Run) -> float:
    """The epoch of the parent's curve in which a run of stage 2 began: the one that holds the step of its snapshot or
    state, else the last.
    """
    curve, found = parent.curve, STATE.fullmatch(Path(_started_from(run) or "").name)
    # Another start is of snapshots up to the parent's end, or of another file.
    if found and run.config.get("start", "last") == "last" and "step" in curve:
        epochs = curve.loc[curve["step"] >= int(found[1] or 0), "epoch"]
        if len(epochs):
            return float(epochs.min())
    return float(curve["epoch"].max())


def adopt(run: Run, parent: Run) -> None:
    """Shifts a child's epochs behind its parent's, which stand where they belong, and notes the costs that it
    inherited.
    """
    run.parent = parent
    if run.stage == "stage2":  # counts from its own start, with a row of epoch 0
        run.start_epoch = _epoch_begun_at(run, parent)
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
    placed: set[int] = set()  # by id

    def place(run: Run) -> None:
        """Its parent first, whose epochs and costs it is shifted by."""
        placed.add(id(run))
        folder = parent_folder(run)
        parent = by_folder.get(folder.resolve()) if folder else None
        if parent is None or parent is run:
            return
        if id(parent) not in placed:
            place(parent)
        adopt(run, parent)

    for run in runs:
        if id(run) not in placed:
            place(run)
    name_apart(runs)
    return runs


def run_folders(places: Sequence[Path]) -> list[Path]:
    """Run folders as they are; a folder that compare.py filled stands for the runs of its last phase: selection
    and confirmation are not one sample; another folder for the runs below it. Raises NotARun where there is none."""
    found = []
    for place in places:
        if (place / "curve.csv").is_file():
            found.append(place)
        elif (results := compared_in(place)) is not None:
            last = "confirmation" if (results["phase"] == "confirmation").any() else "selection"
            found += [place / folder for folder in sorted(set(results[results["phase"] == last]["folder"]))]
        elif below := sorted(curve.parent for curve in place.rglob("curve.csv")):
            found += below
        else:
            raise NotARun(f"[dimred.runs] {place} is not a run folder: it has no curve.csv, nor has a folder below it")
    return found


def compared_in(folder: Path) -> pd.DataFrame | None:
    """The results.csv of a comparison; None where there is none."""
    if not (folder / "results.csv").is_file():
        return None
    results = pd.read_csv(folder / "results.csv")
    return results if {"phase", "folder"} <= set(results) else None
