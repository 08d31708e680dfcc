"""Parts one after the other, each for as long as it may take; one that fails does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .check import Check, Skipped
from .figures import Figure
from .processes import Failed, Stopped


PATIENCE = 5  # times a part's seconds without a device: nothing is judged there, and other work may be going on


@dataclass(frozen=True)
class Part:
    """A function that adds figures, for so many seconds at most; not begun with fewer than `least` left."""

    name: str
    measure: Callable[[Check], None]
    seconds: float
    least: float = 5.0


@dataclass
class Result:
    """What became of a part."""

    name: str
    outcome: str = "done"  # done, skipped, stopped (its time was over), failed
    why: str = ""
    seconds: float = 0.0
    budget: float = 0.0
    figures: list[Figure] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def as_json(self, judged: bool) -> dict[str, Any]:
        """All of it."""
        return {"name": self.name, "outcome": self.outcome, "why": self.why, "seconds": round(self.seconds, 1),
                "budget_seconds": round(self.budget, 1), "left_out": self.left_out,
                "figures": [figure.as_json(judged) for figure in self.figures]}  # fmt: skip


def run_part(part: Part, check: Check, until: float) -> Result:
    """Figures that were added before a failure stay."""
    start = time.monotonic()
    budget = min(part.seconds * (1 if check.on_device else PATIENCE), until - start)
    if budget < part.least:
        return Result(part.name, "skipped", "no time was left")
    check.deadline, check.figures, check.left_out = start + budget, [], []
    result = Result(part.name, budget=budget, figures=check.figures, left_out=check.left_out)
    try:
        part.measure(check)
        if not check.figures:
            raise Skipped("it found nothing to measure")
    except (Skipped, Stopped, Failed) as error:
        result.outcome = type(error).__name__.lower()
        result.why = str(error)
    except Exception as error:  # an unforeseen file or number is that part's failure alone
        result.outcome, result.why = "failed", f"{type(error).__name__}: {error}"
    result.seconds = time.monotonic() - start
    return result
