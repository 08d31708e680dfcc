"""Contestants that take turns, and what their times say."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Contestants = dict[str, Callable[[], float]]
Found = dict[str, list[float]]  # contestant: each round's value
# Student's t, 97.5 %, by degrees of freedom (https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm).
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass
class Figure:
    """One line of the table: a value for each round, and the bound that their median is to keep."""

    part: str
    name: str
    values: list[float]
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reached(self) -> bool | None:
        """None: there is no bar."""
        middle = statistics.median(self.values)
        if self.at_least is not None:
            return middle >= self.at_least
        return None if self.at_most is None else middle <= self.at_most

    def row(self, judged: bool) -> list[str]:
        """The table's line."""
        middle, low, high = statistics.median(self.values), min(self.values), max(self.values)
        text = f"{middle:.4g} ({low:.4g} to {high:.4g}) {self.unit}".rstrip()
        bar = f">= {self.at_least:g}" if self.at_least is not None else "-"
        if self.at_most is not None:
            bar = f"<= {self.at_most:g}"
        reached = {True: "yes", False: "NO", None: "-"}[self.reached if judged else None]
        return [self.part, self.name, text, bar, reached]


@dataclass
class Timing:
    """What one process measures: every round of every contestant, figures of them, and what is missing."""

    device: str
    scratch: Path
    deadline: float
    save: Callable[[], None] = lambda: None  # called after every turn
    figures: list[Figure] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what was not measured, and why
    turns: dict[str, Found] = field(default_factory=dict)  # by part

    @property
    def on_cuda(self) -> bool:
        """False: sizes are tiny, and nothing is judged."""
        return self.device != "cpu"

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def rounds(
        self,
        part: str,
        count: int,
        contestants: Contestants,
        report: Callable[[Found], list[Figure]] = lambda _: [],
        may_fail: Sequence[str] = (),
    ) -> Found:
        """Each contestant's value of each round, in an order that rotates; what `report` makes of them is saved after
        every turn. Contestants that may fail drop out where they do; rounds end where the next would not be done in
        time."""
        found: Found = {name: [] for name in contestants}
        self.turns[part], before = found, self.figures
        for turn in range(count):
            start = time.monotonic()
            names = [name for name in contestants if len(found[name]) == turn]
            first = turn % max(1, len(names))
            for name in names[first:] + names[:first]:
                try:
                    found[name].append(contestants[name]())
                except RuntimeError as error:
                    if name not in may_fail:
                        raise
                    self.missing.append(f"{part}, {name}: {(str(error).splitlines() or [type(error).__name__])[0]}")
                self.figures = before + [figure for figure in report(found) if figure.values]
                self.save()
            if self.left() < 1.2 * (time.monotonic() - start) and turn + 1 < count:
                self.missing.append(f"{part}, rounds {turn + 2} to {count}: no time was left")
                break
        return found


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Within each round that has both."""
    return [a / b for a, b in zip(above, below, strict=False)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean's 95 % interval by Student's t of 2 to 10 values; from -inf to inf of fewer."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = STUDENT[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def choice(name: str, without: Sequence[float], with_it: Sequence[float], least: float = 0.1) -> dict[str, Any]:
    """Whether something stays that has to save the part `least` of the time: the saving of each round, its interval,
    and the verdict: keeps and goes where the interval lies above or below `least`, else undecided (it is kept then)."""
    saved = [1 - ratio for ratio in ratios(with_it, without)]
    low, high = interval(saved)
    verdict = "keeps" if low > least else "goes" if high < least else "undecided"
    shown = [None, None] if math.isinf(low) else [low, high]
    return {
        "name": name,
        "saved": saved,
        "interval": shown,
        "least": least,
        "verdict": f"{verdict} at {100 * least:.0f} %",
    }


def describe(one: dict[str, Any]) -> str:
    """A choice's line."""
    if one["interval"][0] is None:
        return f"{one['name']}: {one['verdict']}, {len(one['saved'])} round{'s' * (len(one['saved']) != 1)}"
    low, high = (100 * bound for bound in one["interval"])
    return f"{one['name']}: saves {low:.1f} to {high:.1f} % of the time ({len(one['saved'])} rounds): {one['verdict']}"
