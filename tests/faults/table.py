"""Results of many cases as one table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from .known import reason_of
from .workplace import Case


@dataclass
class Row:
    cases: int = 0
    faults: int = 0
    failed: int = 0
    known: int = 0
    repeated: float = 0.0
    notice: float = 0.0
    seconds: float = 0.0

    def add(self, case: Case) -> None:
        known = bool(case.problem) and reason_of(case) is not None
        self.cases += 1
        self.faults += case.faults
        self.known += known
        self.failed += bool(case.problem) and not known
        self.repeated = max(self.repeated, case.repeated)
        self.notice = max(self.notice, case.notice)


COLUMNS = {
    "suite": -24,
    "cases": 7,
    "faults": 8,
    "passed": 8,
    "failed": 8,
    "known": 7,
    "repeated": 10,
    "notice": 9,
    "time": 8,
}


def line_of(values: list[object]) -> str:
    widths = COLUMNS.values()
    return "".join(f"{value!s:<{-w}}" if w < 0 else f"{value!s:>{w}}" for value, w in zip(values, widths, strict=True))


@dataclass
class Table:
    """A row a suite; says at once what failed."""

    rows: dict[str, Row] = field(default_factory=dict)

    def run(self, suite: str, cases: Iterable[Case]) -> None:
        row = self.rows.setdefault(suite, Row())
        started = time.monotonic()
        for case in cases:
            row.add(case)
            if case.problem:
                reason = reason_of(case)
                word = f"known ({reason})" if reason else "FAILED"
                print(f"{word}: {suite}: {case.name}: {case.problem}", flush=True)
            row.seconds = time.monotonic() - started
            if sys.stderr.isatty():
                print(f"\r{suite}: {row.cases} cases, {row.failed} failed", end="", file=sys.stderr, flush=True)

    @property
    def failed(self) -> int:
        return sum(row.failed for row in self.rows.values())

    def text(self) -> str:
        """Worst repeated work in save intervals; slowest notice of a dead rank in seconds."""
        lines = [line_of(list(COLUMNS))]
        for suite, row in self.rows.items():
            passed = row.cases - row.failed - row.known
            lines.append(
                line_of(
                    [
                        suite,
                        row.cases,
                        row.faults,
                        passed,
                        row.failed,
                        row.known,
                        f"{row.repeated:.2f}",
                        f"{row.notice:.1f} s",
                        f"{row.seconds:.0f} s",
                    ]
                )
            )
        return "\n".join(lines)
