"""Joins each run to the run from which it started (its parent)."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from .files import BadRun, NotARun, parsed, read_text
from .run import COUNTERS, Run, read_run

# The names of what holds a run's weights of a step; start.h5: before its first one.
STATE = re.compile(r"start\.h5|(?:snapshot|state)_(\d+)(?:\.h5)?")


def _started_from(run: Run) -> str | None:
    """Returns the path of the run, state or file from which the run started."""
    return run.config.get("checkpoint") if run.stage == "stage2" else run.config.get("resume_from")


def parent_folder(run: Run) -> Path | None:
    """Returns the folder of the parent run. If parent and child were moved together, the new place counts."""
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
    """Returns the epoch of the parent's curve in which a run of stage 2 began: the epoch with the step of the run's
    snapshot or state, or else the last epoch.
    """
    curve, found = parent.curve, STATE.fullmatch(Path(_started_from(run) or "").name)
    # Another start is of snapshots up to the parent's end, or of another file.
    if found and run.config.get("start", "last") == "last" and "step" in curve:
        epochs = curve.loc[curve["step"] >= int(found[1] or 0), "epoch"]
        if len(epochs):
            return float(epochs.min())
    return float(curve["epoch"].max())


def _start_of(run: Run, read: dict[Path, Run | None]) -> Run | None:
    """Returns the run from which a run started, also one that is not among the runs read; None if it is no run that can
    be read. `read` keeps those that it has read.
    """
    folder = None if run.parent else parent_folder(run)
    if folder is None:
        return run.parent
    place = folder.resolve()
    if place not in read:
        try:
            read[place] = read_run(place)
        except BadRun:
            read[place] = None
    return read[place]


def _root_seed(run: Run, read: dict[Path, Run | None]) -> int:
    """Returns the seed of the run at the beginning of the starts."""
    root, seen = run, {run.folder.resolve()}
    while (start := _start_of(root, read)) is not None and start.folder.resolve() not in seen:
        root = start
        seen.add(start.folder.resolve())
    return int(root.manifest.get("seed", 0))


def adopt(run: Run, parent: Run) -> None:
    """Shifts a child's epochs behind its parent's epochs, and notes the inherited costs. The parent's epochs need to be
    final.
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
    """Prefixes equal names of runs with the name of the folder around each run: seed_1/stage1, seed_2/stage1."""
    shared = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    for run in runs:
        if run.name in shared:
            run.name = f"{run.folder.resolve().parent.name}/{run.name}"


def read_good_runs(folders: Path | str | Iterable[Path | str]) -> tuple[list[Run], list[BadRun]]:
    """Returns the finished and undamaged runs, joined as by read_runs, and an error for each of the other folders."""
    good, bad = [], []
    for folder in _listed(folders):
        try:
            good.append(read_run(folder, finished=True))
        except BadRun as error:
            bad.append(error)
    return joined(good), bad


def read_runs(folders: Path | str | Iterable[Path | str], finished: bool = False) -> list[Run]:
    """Reads runs, and joins each run to its parent if the parent is among them.

    The join matters for `spent` of a run that took no step, or that did not train on the whole training set: without
    the parent it is unknown. Raises the errors of read_run.
    """
    return joined([read_run(folder, finished) for folder in _listed(folders)])


def _listed(folders: Path | str | Iterable[Path | str]) -> Iterable[Path | str]:
    return [folders] if isinstance(folders, Path | str) else folders


def joined(runs: list[Run]) -> list[Run]:
    """Joins each run to its parent, and makes the names of the runs unique."""
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
    read: dict[Path, Run | None] = {}
    for run in runs:
        run.root_seed = _root_seed(run, read)
    name_apart(runs)
    return runs


def run_folders(places: Sequence[Path]) -> list[Path]:
    """Returns the run folders in some places.

    A run folder stands for itself. A folder that compare.py filled stands for the runs of its last phase only, because
    selection and confirmation are not one sample. Any other folder stands for all runs below it. Each run is there
    once. Raises NotARun if there is no run, and Damaged for a results.csv that is no table.
    """
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
            raise NotARun(f"[dimred.runs] {place} is not a run folder: no curve.csv is in it or in a folder below it")
    once: dict[Path, Path] = {}
    for folder in found:  # a run may be named and lie in a place that is named
        once.setdefault(folder.resolve(), folder)
    return list(once.values())


def compared_in(folder: Path) -> pd.DataFrame | None:
    """Returns the results.csv of a comparison, or None if there is none."""
    file = folder / "results.csv"
    if not file.is_file():
        return None
    results = parsed(file, read_text(file))
    return results if {"phase", "folder"} <= set(results) else None
