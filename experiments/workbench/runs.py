"""Run folders as dimred writes them: config.toml, manifest.json, curve.csv, steps.csv."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

# What counts as a run's result when it evaluated several sets of weights, best first.
PREFERRED_WEIGHTS = ("recalibrated", "raw", "ema", "mean")
COSTS = ("images", "seconds", "forward_passes", "backward_passes")


@dataclass
class Run:
    """One run folder. `curve` has one row per evaluation, epochs counted from stage 1's start."""

    folder: Path
    curve: pd.DataFrame
    config: dict[str, Any]
    manifest: dict[str, Any]
    steps: pd.DataFrame | None = None
    parent: Run | None = None
    name: str = ""
    start_epoch: float = 0  # of the weights it began with
    start_costs: dict[str, float] = field(default_factory=dict)  # counted before its own first step

    @property
    def stage(self) -> str:
        """stage1 or stage2."""
        return str(self.curve["stage"].iloc[0])

    @property
    def method(self) -> str:
        """sgd, or the preset's name."""
        return str(self.curve["method"].iloc[0])

    @property
    def kind(self) -> str:
        """stage 1 | continued | annealed | stage 2: what curves are coloured and compared by."""
        if self.stage == "stage2":
            return "stage 2"
        if self.config.get("anneal_from_epoch", -1) >= 0:
            return "annealed"
        return "continued" if self.config.get("resume_from") else "stage 1"

    def rows(self, weights: str = "raw") -> pd.DataFrame:
        """The evaluations of one set of weights: raw, ema, mean or recalibrated."""
        return self.curve[self.curve["weights"] == weights]

    def final(self) -> pd.Series:
        """The last evaluation, of recalibrated weights where there is one at that epoch."""
        last = self.curve[self.curve["epoch"] == self.curve["epoch"].max()]
        for weights in PREFERRED_WEIGHTS:
            found = last[last["weights"] == weights]
            if len(found):
                return found.iloc[-1]
        return last.iloc[-1]

    def best_by_validation(self) -> pd.Series | None:
        """The evaluation of highest validation accuracy; None where no validation set was kept."""
        if self.curve["validation_accuracy"].isna().all():
            return None
        return self.curve.loc[self.curve["validation_accuracy"].idxmax()]

    def costs(self) -> dict[str, float]:
        """Images, seconds and passes of this run itself, without what its parent had spent."""
        return {key: self.curve[key].max() - self.start_costs.get(key, 0) for key in COSTS}


def flatten(table: dict[str, Any]) -> dict[str, Any]:
    """TOML with or without [sections] as one table of options."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value) if isinstance(value, dict) else {key: value}
    return flat


def read_csv(file: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A table with at least these columns. Raises ValueError that names the file otherwise."""
    try:
        table = pd.read_csv(file)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"[report] {file} is damaged: {error}") from error
    if missing := [column for column in columns if column not in table]:
        raise ValueError(f"[report] {file} needs the columns {missing}, received {list(table)[:20]}")
    return table


def read_run(folder: Path) -> Run:
    """Reads one run folder. Raises ValueError that names the folder and what it lacks."""
    for name in ("curve.csv", "config.toml", "manifest.json"):
        if not (folder / name).is_file():
            raise ValueError(f"[report] {folder} is not a run folder: it has no {name}")
    curve = read_csv(folder / "curve.csv", ("stage", "weights", "epoch", "seconds", "test_accuracy"))
    if not len(curve):
        raise ValueError(f"[report] {folder}/curve.csv has no evaluation yet")
    steps = folder / "steps.csv"
    return Run(
        folder=folder,
        curve=curve,
        config=flatten(tomllib.loads((folder / "config.toml").read_text())),
        manifest=json.loads((folder / "manifest.json").read_text()),
        steps=read_csv(steps, ("epoch", "step", "loss")) if steps.is_file() else None,
        name=folder.resolve().name,
    )


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
        return
    earlier = parent.curve[parent.curve["epoch"] < run.curve["epoch"].min()]
    if len(earlier):
        run.start_epoch = float(earlier["epoch"].max())
        run.start_costs = {key: float(earlier[key].max()) for key in COSTS}


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Reads runs and joins each to the run that it started from, where that is among them."""
    runs = [read_run(folder) for folder in folders]
    by_folder = {run.folder.resolve(): run for run in runs}
    for run in sorted(runs, key=lambda r: r.kind != "stage 1"):
        folder = parent_folder(run)
        if folder and folder.resolve() in by_folder:
            adopt(run, by_folder[folder.resolve()])
    return runs


def find_pca(runs: Iterable[Run]) -> dict[str, Any] | None:
    """The pca_mat.json beside the basis that a stage-2 run used."""
    for run in runs:
        named = run.config.get("pca_mat")
        places = [Path(named).with_suffix(".json")] if named else []
        places += [run.folder / "pca_mat.json", run.folder.parent / "pca_mat.json"]
        for place in places if run.stage == "stage2" else []:
            if place.is_file():
                return json.loads(place.read_text())
    return None
