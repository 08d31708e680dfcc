"""The tidy table: one line per run with all that it cost and came to, or why it counts for nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from workbench.files import write_whole
from workbench.jobs import as_text

from dimred.runs import COSTS, BadRun

from .jobs import Entry
from .readings import Reading, Readings
from .schedule import Journal

MEASURES = ("validation_accuracy", "validation_loss", "test_accuracy", "test_loss")


@dataclass
class Outcome:
    """The outcome of an entry: its run's result when it finished, else a word and a reason."""

    entry: Entry
    phase: str  # selection | confirmation
    reading: Reading | None
    word: str
    note: str = ""
    matrix_seconds: float = 0.0
    costs: dict[str, float] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, str | float]:
        """The values of the axes that it depends on."""
        return dict(self.entry.axes)

    def __post_init__(self) -> None:
        """`seconds` include its matrix's."""
        if self.reading is None:
            return
        self.result = self.reading.result | {"seconds": self.reading.result["seconds"] + self.matrix_seconds}
        self.costs = self.reading.costs | {"seconds": self.reading.costs["seconds"] + self.matrix_seconds}


class Reader:
    """Finds what became of entries."""

    def __init__(self, readings: Readings, journal: Journal, failed: dict[Path, str]) -> None:
        """`failed`: why jobs did not come to their end."""
        self.readings, self.journal, self.failed = readings, journal, failed

    def outcome(self, entry: Entry, phase: str) -> Outcome:
        """The outcome of the entry. A failure is a better reason than the folder that it left."""
        reading = self.readings.read(entry.job.target, entry.start.target if entry.start else None)
        if isinstance(reading, BadRun):  # its own folder, or its start's
            note = self.failed.get(entry.job.target, "")
            word = "diverged" if note.startswith("diverged") else "failed" if note else reading.outcome
            return Outcome(entry, phase, None, word, note or str(reading))
        if note := foreign(reading, entry):
            return Outcome(entry, phase, None, "foreign", note)
        if math.isnan(reading.result["test_accuracy"]):
            return Outcome(entry, phase, None, "untested", "no test set: [stage1] test_data names one")
        return Outcome(entry, phase, reading, "finished", "", self.journal.seconds(entry.matrix))

    def outcomes(self, entries: Sequence[Entry], phase: str) -> list[Outcome]:
        """The outcomes of all entries."""
        found = [self.outcome(entry, phase) for entry in entries]
        self.readings.save()
        return found


def foreign(run: Reading, entry: Entry) -> str:
    """How the run in an entry's folder is another than it should be; empty when it is not. Places may have moved,
    those that the comparison chose itself too, and what is left to dimred (auto) is in its config.toml as it was
    resolved."""
    if run.seed != entry.seed:
        return f"{entry.job.target} is a run of seed {run.seed}"
    moved = run.config.get("output", str(entry.job.target)) != str(entry.job.target)
    for key, value in entry.job.options:
        has = run.config.get(key, value)
        if isinstance(value, Path) or value == "auto":
            continue
        same = math.isclose(has, value) if is_number(has) and is_number(value) else as_text(has) == as_text(value)
        same = same or is_place(has, value, moved)
        if not same:
            return f"{entry.job.target} is a run with {key} = {as_text(has)} instead of {as_text(value)}"
    return ""


def is_place(has: object, value: object, moved: bool) -> bool:
    """Whether a path of config.toml, which dimred made absolute, is the one that was asked for, seen from the folder
    where we and dimred stand. Where a run stood that has `moved` since is not known: the end of its path must be the
    same."""
    if not (isinstance(has, str) and isinstance(value, str) and has.startswith("/")) or not value:
        return False
    if os.path.realpath(has) == os.path.realpath(os.path.abspath(value)):
        return True
    asked = tuple(part for part in Path(os.path.normpath(value)).parts if part != "..")
    return moved and asked != () and not Path(value).is_absolute() and Path(has).parts[-len(asked) :] == asked


def is_number(value: object) -> bool:
    """The value as TOML."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def line(outcome: Outcome, axes: Sequence[str], root: Path) -> dict[str, object]:
    """One line of results.csv."""
    entry = outcome.entry
    head = {
        "phase": outcome.phase,
        "seed": entry.seed,
        "role": entry.role,
        "method": entry.method,
        "variant": entry.variant,
    } | {axis: outcome.axes.get(axis) for axis in axes}
    names = ("weights", *MEASURES, "epochs", *COSTS)
    measured: dict[str, Any] = dict.fromkeys(names)
    start: dict[str, float] = {}
    if outcome.reading is not None:
        start = outcome.reading.start_costs
        measured = {name: outcome.result.get(name) for name in names} | outcome.costs
        measured["seconds"] -= outcome.matrix_seconds
    tail = {
        "matrix_seconds": outcome.matrix_seconds,
        "stage1_seconds": start.get("seconds"),
        "stage1_spent": start.get("spent"),
        "outcome": outcome.word,
        "folder": os.path.relpath(entry.job.target, root),
        "note": outcome.note,
    }
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


def save_table(table: pd.DataFrame, stem: Path) -> None:
    """STEM.csv and STEM.parquet."""
    write_whole(stem.with_suffix(".csv"), lambda path: table.to_csv(path, index=False))
    write_whole(stem.with_suffix(".parquet"), lambda path: table.to_parquet(path, index=False))
