"""Run folders as dimred writes them: config.toml, manifest.json, curve.csv, steps.csv."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from .files import BadRun, NotARun, Unfinished, check_prefix, read_csv, read_manifest, read_options

COUNTERS = (
    "images",
    "seconds",
    "data_wait_seconds",
    "forward_passes",
    "backward_passes",
    "basis_bytes_read",
    "wire_bytes",
)
COSTS = (*COUNTERS, "spent")
NEEDED = ("stage", "weights", "epoch", "seconds", "test_accuracy")
AVERAGES = ("mean", "ema")


@dataclass
class Run:
    """One run folder. `curve` has one row per evaluation; `read_runs` counts epochs from the parent's start."""

    folder: Path
    curve: pd.DataFrame
    config: dict[str, Any]
    manifest: dict[str, Any]
    steps: pd.DataFrame | None = None
    parent: Run | None = None
    name: str = ""
    root_seed: int | None = None  # of the run at the beginning of its starts
    start_epoch: float = 0  # of the weights it began with
    start_costs: dict[str, float] = field(default_factory=dict)  # counted before its own first step
    steps_per_epoch: float = math.nan

    @property
    def stage(self) -> str:
        """ "stage1" or "stage2"."""
        return str(self.curve["stage"].iloc[0])

    @property
    def method(self) -> str:
        """The optimizer of stage 1 ("sgd", "adam", ...), or the preset or method of stage 2."""
        return str(self.curve["method"].iloc[0])

    @property
    def kind(self) -> str:
        """ "stage 1", "continued", "annealed" or "stage 2". Curves are coloured and compared by kind."""
        if self.stage == "stage2":
            return "stage 2"
        if self.config.get("anneal_from_epoch", -1) >= 0:
            return "annealed"
        return "continued" if self.config.get("resume_from") else "stage 1"

    @property
    def outcome(self) -> str:
        """ "finished", "running", "interrupted" or "failed", from the manifest."""
        return str(self.manifest.get("outcome", "unknown"))

    def rows(self, weights: str = "raw") -> pd.DataFrame:
        """Returns the evaluations of one kind of weights: "raw", "ema", "mean" or "recalibrated"."""
        return self.curve[self.curve["weights"] == weights]

    def result(self) -> pd.Series:
        """Returns the run's result: one row of its last epoch.

        A run that averages its weights gives the row of the average. Otherwise the row of the recalibrated weights is
        taken if there is one, and else the row of the raw weights.
        """
        return self._result

    @cached_property
    def _result(self) -> pd.Series:
        last = self.curve[self.curve["epoch"] == self.curve["epoch"].max()]
        averages = self.config.get("average", "none") != "none"
        for kinds in ([AVERAGES] if averages else []) + [("recalibrated",), ("raw",)]:
            found = last[last["weights"].isin(kinds)]
            if len(found):
                return found.iloc[-1]
        return last.iloc[-1]  # a start of averaged weights, evaluated and nothing more

    @property
    def is_tested(self) -> bool:
        """Whether there was a test set. Without a test set the test columns are empty."""
        return bool(self.curve["test_accuracy"].notna().any())

    def best_by_validation(self) -> pd.Series | None:
        """Returns the evaluation with the highest validation accuracy; None if the run had no validation set."""
        if self.curve["validation_accuracy"].isna().all():
            return None
        return self.curve.loc[self.curve["validation_accuracy"].idxmax()]

    def own(self) -> pd.DataFrame:
        """Returns the curve with epochs and costs counted from the run's own start, and a column `spent`.

        `spent` is the compute in epochs of plain SGD: (forward + 2 backward passes) / (3 x steps per epoch). The passes
        that recalibrate BatchNorm at the end are not included, as with --budget.
        """
        own = self.curve.copy()
        own["epoch"] -= self.start_epoch
        for key in COUNTERS:
            own[key] = own[key] - self.start_costs.get(key, 0) if key in own else math.nan
        passes = own["forward_passes"] + 2 * own["backward_passes"]
        passes = passes.groupby(own["epoch"]).transform("min")
        own["spent"] = (passes / (3 * self.steps_per_epoch)).where(passes != 0, 0.0)
        return own

    def costs(self) -> dict[str, float]:
        """Returns the costs of this run itself, without the costs of its parent."""
        return self.own()[list(COSTS)].max().to_dict()


def steps_per_epoch(curve: pd.DataFrame, manifest: dict[str, Any], config: dict[str, Any]) -> float:
    """Returns the number of steps in an epoch of the whole training set, from the manifest or from the last row with
    steps.

    The result is nan if no row has steps, or if the run's epochs cover half of the validation set.
    """
    if "steps_per_epoch" in manifest:
        return float(manifest["steps_per_epoch"])
    if "step" not in curve or config.get("train_on") == "validation":
        return math.nan
    trained = curve[(curve["step"] > 0) & (curve["epoch"] > 0)]
    return float(round(trained["step"].iloc[-1] / trained["epoch"].iloc[-1])) if len(trained) else math.nan


def read_run(folder: Path | str, finished: bool = False) -> Run:
    """Reads one run folder. Raises BadRun, a ValueError that names the folder and the fault.

    finished: True raises Unfinished for a run that has not finished.
    """
    folder = Path(folder)
    for name in ("curve.csv", "config.toml", "manifest.json"):
        if not (folder / name).is_file():
            raise NotARun(f"[dimred.runs] {folder} is not a run folder: it has no {name}")
    manifest = read_manifest(folder)
    ended = manifest.get("outcome") == "finished"
    if finished and not ended:
        raise Unfinished(f"[dimred.runs] {folder} is not finished: its outcome is {manifest.get('outcome')}")
    curve = read_csv(folder / "curve.csv", NEEDED, whole=ended)
    if not len(curve):
        raise Unfinished(f"[dimred.runs] {folder}/curve.csv has no evaluation yet")
    check_prefix(folder, folder / "curve.csv", manifest)
    config = read_options(folder / "config.toml")
    steps = folder / "steps.csv"
    if steps.is_file():
        check_prefix(folder, steps, manifest)
    return Run(
        folder=folder,
        curve=curve,
        config=config,
        manifest=manifest,
        steps=read_csv(steps, ("epoch", "step", "loss"), whole=ended) if steps.is_file() else None,
        name=folder.resolve().name,
        steps_per_epoch=steps_per_epoch(curve, manifest, config),
    )


def outcome(folder: Path) -> tuple[str, str]:
    """Returns one word for the state of a folder (finished, unfinished, damaged, missing, other version), and the
    reason.
    """
    try:
        read_run(folder, finished=True)
    except BadRun as error:
        return error.outcome, str(error)
    return "finished", ""


def is_finished(folder: Path) -> bool:
    """Returns whether the manifest of a run folder says that the run has finished."""
    try:
        return read_manifest(folder).get("outcome") == "finished"
    except BadRun:
        return False
