"""A row for each thing tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = {"launcher": -12, "ranks": 6, "step": -37, "outcome": -9, "seconds": 8}


def line_of(values: list[object]) -> str:
    parts = [
        f"{value!s:<{-w}}" if w < 0 else f"{value!s:>{w}}  " for value, w in zip(values, COLUMNS.values(), strict=True)
    ]
    return "".join(parts).rstrip()


@dataclass
class Table:
    """Prints each row as it comes."""

    lines: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, launcher: str, ranks: object, step: str, outcome: str, seconds: float = 0, why: str = "") -> None:
        """`outcome` is passed, FAILED or skipped."""
        if not self.lines:
            self.say(line_of(list(COLUMNS)))
        self.counts[outcome] += 1
        self.say(line_of([launcher, ranks, step, outcome, f"{seconds:.0f}"]) + (f"  {why}" if why else ""))

    def say(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)

    def end(self, record: Path | None = None) -> None:
        """Prints the counts; `record` gets all lines."""
        self.say(", ".join(f"{self.counts[kind]} {kind.lower()}" for kind in ("passed", "FAILED", "skipped")))
        if record is not None:
            record.write_text("\n".join(self.lines) + "\n")

    @property
    def failed(self) -> bool:
        return self.counts["FAILED"] > 0 or self.counts["passed"] == 0
