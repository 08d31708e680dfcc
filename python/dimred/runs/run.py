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
    steps_per_epoch: float = math.nan

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

    @property
    def outcome(self) -> str:
        """finished | running | interrupted | failed, as its manifest says."""
        return str(self.manifest.get("outcome", "unknown"))

    def rows(self, weights: str = "raw") -> pd.DataFrame:
        """The evaluations of one set of weights: raw, ema, mean or recalibrated."""
        return self.curve[self.curve["weights"] == weights]

    def result(self) -> pd.Series:
        """The result of the run: of its last epoch the row of the average when it averages, else of the
        recalibrated weights when there is one, else of the raw ones."""
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
        """Whether there was a test set; without one the test columns are empty."""
        return bool(self.curve["test_accuracy"].notna().any())

    def best_by_validation(self) -> pd.Series | None:
        """The evaluation of highest validation accuracy; None where no validation set was kept."""
        if self.curve["validation_accuracy"].isna().all():
            return None
        return self.curve.loc[self.curve["validation_accuracy"].idxmax()]

    def own(self) -> pd.DataFrame:
        """The curve with epochs and costs counted from the run's own start, and what it `spent`: the
        compute in epochs of plain SGD, (forward + 2 backward passes) / (3 x steps per epoch). As
        with --budget, the passes that recalibrate BatchNorm at the end are not in it."""
        own = self.curve.copy()
        own["epoch"] -= self.start_epoch
        for key in COUNTERS:
            own[key] = own[key] - self.start_costs.get(key, 0) if key in own else math.nan
        passes = own["forward_passes"] + 2 * own["backward_passes"]
        passes = passes.groupby(own["epoch"]).transform("min")
        own["spent"] = (passes / (3 * self.steps_per_epoch)).where(passes != 0, 0.0)
        return own

    def costs(self) -> dict[str, float]:
        """Costs of this run itself, without what its parent had spent."""
        return self.own()[list(COSTS)].max().to_dict()


def steps_per_epoch(curve: pd.DataFrame, manifest: dict[str, Any], config: dict[str, Any]) -> float:
    """The steps of an epoch of the whole training set: as the manifest says, or from the last row that has steps; nan
    when there is none, or its epochs are of half the validation set."""
    if "steps_per_epoch" in manifest:
        return float(manifest["steps_per_epoch"])
    if "step" not in curve or config.get("train_on") == "validation":
        return math.nan
    trained = curve[(curve["step"] > 0) & (curve["epoch"] > 0)]
    return float(round(trained["step"].iloc[-1] / trained["epoch"].iloc[-1])) if len(trained) else math.nan


def read_run(folder: Path | str, finished: bool = False) -> Run:
    """Reads one run folder. Raises BadRun (a ValueError) that names the folder and what is wrong with
    it; with `finished`, Unfinished for one that has not come to its end."""
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
    """A word for what a folder is (finished, unfinished, damaged, missing, other version), and why."""
    try:
        read_run(folder, finished=True)
    except BadRun as error:
        return error.outcome, str(error)
    return "finished", ""


def is_finished(folder: Path) -> bool:
    """Whether a run folder's manifest says that the run came to its end."""
    try:
        return read_manifest(folder).get("outcome") == "finished"
    except BadRun:
        return False
