"""What a part measures: values with their spread, the bar they are held against, whether it is reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """A bound that the median is to keep."""

    bound: float
    at_least: bool  # else: at most

    def reached(self, value: float) -> bool:
        """Whether a value keeps it; nan does not."""
        return value >= self.bound if self.at_least else value <= self.bound

    def text(self) -> str:
        """`>= 0.85`."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


def at_least(bound: float) -> Bar:
    """A bar for what is better when it is larger."""
    return Bar(bound, True)


def at_most(bound: float) -> Bar:
    """A bar for what is better when it is smaller."""
    return Bar(bound, False)


@dataclass
class Figure:
    """One line of the table: a value for each repeat."""

    name: str
    values: Sequence[float]
    unit: str = ""
    bar: Bar | None = None
    rounds: Sequence[Mapping[str, float]] = field(default_factory=list)  # what each contestant gave, by repeat
    note: str = ""

    @property
    def median(self) -> float:
        """Of the repeats."""
        return statistics.median(self.values)

    def reached(self, judged: bool) -> bool | None:
        """None: there is no bar, or figures are not judged here."""
        return self.bar.reached(self.median) if self.bar and judged else None

    def text(self) -> str:
        """`1.02 x (0.99 to 1.05)`."""
        middle = f"{self.median:.4g} {self.unit}".rstrip()
        if len(self.values) == 1:
            return middle
        return f"{middle} ({min(self.values):.4g} to {max(self.values):.4g})"

    def as_json(self, judged: bool) -> dict[str, Any]:
        """Every repeat, and the verdict."""
        told: dict[str, Any] = {"name": self.name, "unit": self.unit, "median": self.median, "low": min(self.values),
                                "high": max(self.values), "values": list(self.values),
                                "rounds": [dict(r) for r in self.rounds]}  # fmt: skip
        told["bar"] = self.bar.text() if self.bar else None
        told["reached"] = self.reached(judged)
        return told | ({"note": self.note} if self.note else {})


def ratios(rounds: Sequence[Mapping[str, float]], above: str, below: str) -> list[float]:
    """above / below within each round that has both."""
    return [r[above] / r[below] for r in rounds if above in r and below in r]
