"""Which run began where another had ended: joins children to their parents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .run import COUNTERS, Run, read_run


def parent_folder(run: Run) -> Path | None:
    """The run folder that the weights came from: stage 1's resume_from, stage 2's checkpoint."""
    value = run.config.get("checkpoint") if run.stage == "stage2" else run.config.get("resume_from")
    if not value:
        return None
    path = Path(value)
    beside = run.folder.resolve().parent / path.name  # where the folders were moved together
    for candidate in (path, *path.parents, beside):  # a state lies in RUN/checkpoints/
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


def read_runs(folders: Iterable[Path | str], finished: bool = False) -> list[Run]:
    """Reads runs and joins each to the run that it started from, where that is among them."""
    runs = [read_run(folder, finished) for folder in folders]
    by_folder = {run.folder.resolve(): run for run in runs}
    for run in sorted(runs, key=lambda r: r.kind != "stage 1"):
        folder = parent_folder(run)
        if folder and folder.resolve() in by_folder:
            adopt(run, by_folder[folder.resolve()])
    name_apart(runs)
    return runs
