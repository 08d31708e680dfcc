"""The tidy table: one line per run with all that it cost and came to, or why it counts for nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from dimred_runs import COSTS, BadRun, Run, read_run
from dimred_runs.family import adopt

from .jobs import Entry, Job, as_text
from .plan import OURS
from .schedule import Journal

MEASURES = ("validation_accuracy", "validation_loss", "test_accuracy", "test_loss")


@dataclass
class Outcome:
    """What became of an entry: its run when it finished, else a word and a reason."""

    entry: Entry
    phase: str  # selection | confirmation
    run: Run | None
    word: str
    note: str = ""
    matrix_seconds: float = 0.0
    start: Run | None = None
    costs: dict[str, float] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, str | float]:
        """Of the axes that it depends on."""
        return dict(self.entry.axes)

    def __post_init__(self) -> None:
        """`epochs` is the epoch counted from the run's own start; `seconds` include its matrix's."""
        if self.run is None:
            return
        own = self.run.own().rename(columns={"epoch": "epochs"})
        own["seconds"] += self.matrix_seconds
        self.result = own.loc[self.run.result().name].to_dict()
        self.costs = own[["epochs", *COSTS]].max().to_dict()


class Reader:
    """Reads each folder once, also where entries share it."""

    def __init__(self, journal: Journal, failed: dict[Path, str]) -> None:
        """`failed`: why jobs did not come to their end."""
        self.journal, self.failed = journal, failed
        self.runs: dict[Path, Run | BadRun] = {}

    def folder(self, job: Job) -> Run | BadRun:
        """The finished run, or what is wrong with it."""
        if job.target not in self.runs:
            try:
                self.runs[job.target] = read_run(job.target, finished=True)
            except BadRun as error:
                self.runs[job.target] = error
        return self.runs[job.target]

    def outcome(self, entry: Entry, phase: str) -> Outcome:
        """What became of it. A failure is a better reason than the folder that it left."""
        run = self.folder(entry.job)
        if isinstance(run, BadRun):
            note = self.failed.get(entry.job.target, "")
            word = "diverged" if note.startswith("diverged") else "failed" if note else run.outcome
            return Outcome(entry, phase, None, word, note or str(run))
        if note := foreign(run, entry):
            return Outcome(entry, phase, None, "foreign", note)
        start = self.folder(entry.start) if entry.start else None
        start = start if isinstance(start, Run) else None
        if start is not None and run.parent is None:
            adopt(run, start)
        return Outcome(entry, phase, run, "finished", "", self.journal.seconds(entry.matrix), start)

    def outcomes(self, entries: Sequence[Entry], phase: str) -> list[Outcome]:
        """Of all."""
        return [self.outcome(entry, phase) for entry in entries]


def foreign(run: Run, entry: Entry) -> str:
    """How the run in an entry's folder is another than it should be; empty when it is not. Places may have moved,
    and what is left to dimred (auto, preset) is in its config.toml as it was settled."""
    if run.manifest.get("seed") != entry.seed:
        return f"{entry.job.target} is a run of seed {run.manifest.get('seed')}"
    for key, value in entry.job.options:
        has = run.config.get(key, value)
        if key in OURS or value in ("auto", "preset"):
            continue
        same = math.isclose(has, value) if is_number(has) and is_number(value) else as_text(has) == as_text(value)
        if not same:
            return f"{entry.job.target} is a run with {key} = {as_text(has)} instead of {as_text(value)}"
    return ""


def is_number(value: object) -> bool:
    """Of TOML."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def line(outcome: Outcome, axes: Sequence[str], root: Path) -> dict[str, object]:
    """One line of results.csv."""
    entry = outcome.entry
    head = {"phase": outcome.phase, "seed": entry.seed, "role": entry.role, "method": entry.method,
            "variant": entry.variant} | {axis: outcome.axes.get(axis) for axis in axes}  # fmt: skip
    names = ("weights", *MEASURES, "epochs", *COSTS)
    measured = dict.fromkeys(names)
    if outcome.run is not None:
        measured = {name: outcome.result.get(name) for name in names} | outcome.costs
        measured["seconds"] -= outcome.matrix_seconds
    start = outcome.start.costs() if outcome.start is not None else {}
    tail = {"matrix_seconds": outcome.matrix_seconds, "stage1_seconds": start.get("seconds"),
            "stage1_spent": start.get("spent"), "outcome": outcome.word,
            "folder": os.path.relpath(entry.job.target, root), "note": outcome.note}  # fmt: skip
    return head | measured | tail


def tidy(outcomes: Sequence[Outcome], axes: Sequence[str], root: Path) -> pd.DataFrame:
    """The table; an axis whose values are of several types becomes text, so that parquet takes it."""
    table = pd.DataFrame([line(outcome, axes, root) for outcome in outcomes])
    for axis in axes:
        if table[axis].map(type)[table[axis].notna()].nunique() > 1:
            table[axis] = table[axis].map(str, na_action="ignore")
    for name in ("weights", "variant", "note"):
        table[name] = table[name].astype("string")
    numbers = ["epochs", *MEASURES, *COSTS, "matrix_seconds", "stage1_seconds", "stage1_spent"]
    return table.astype(dict.fromkeys(numbers, float))


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Under a temporary name first, so that a reader sees the old file or the new one."""
    temporary = file.with_name(f".{file.name}.tmp")
    write(temporary)
    temporary.replace(file)


def save_table(table: pd.DataFrame, stem: Path) -> None:
    """STEM.csv and STEM.parquet."""
    write_whole(stem.with_suffix(".csv"), lambda path: table.to_csv(path, index=False))
    write_whole(stem.with_suffix(".parquet"), lambda path: table.to_parquet(path, index=False))
