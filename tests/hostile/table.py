"""What came of all cases, by kind of file, and the bars that they were held against."""

from __future__ import annotations

from dataclasses import dataclass, field

from .judge import MARGIN, Verdict

OUTCOMES = ("equal", "warned", "refused", "silent", "outside", "wrong")


@dataclass
class Row:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    seconds: float = 0.0  # of the slowest refusal
    processor: float = 0.0
    memory: int = 0

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.outcome] += 1
        self.memory = max(self.memory, verdict.memory)
        if verdict.ended.code != 0:
            self.seconds = max(self.seconds, verdict.ended.seconds)
            self.processor = max(self.processor, verdict.ended.processor)

    def line(self, name: str) -> str:
        return line_of(
            name,
            [
                sum(self.counts.values()),
                *self.counts.values(),
                f"{self.seconds:.2f}",
                f"{self.processor:.2f}",
                f"{self.memory / (1 << 20):.0f}",
            ],
        )


def line_of(name: str, cells: list[object]) -> str:
    return f"{name:<26}" + "".join(f"{cell!s:>10}" for cell in cells)


@dataclass
class Table:
    """Says at once what is wrong. The slowest refusal by the clock (without waiting for others) and in processor time,
    in seconds; memory beyond the input and the undisturbed command, in MiB."""

    rows: dict[str, Row] = field(default_factory=dict)
    total: Row = field(default_factory=Row)
    wrong: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.rows.setdefault(verdict.kind, Row()).add(verdict)
        self.total.add(verdict)
        if verdict.problem:
            self.wrong.append(f"{verdict.kind}: {verdict.name}: {verdict.problem}")
            print(f"WRONG: {self.wrong[-1]}", flush=True)

    def bars(self, slowest: float) -> list[str]:
        counts = self.total.counts
        measured = (
            ("silent changes of a result", counts["silent"], 0),
            ("files outside touched", counts["outside"], 0),
            ("other faults", counts["wrong"], 0),
            ("memory beyond the input, MiB", self.total.memory >> 20, MARGIN >> 20),
            ("slowest refusal, s", round(self.total.seconds, 2), slowest),
        )
        return [
            f"{name:<30}{value:>8} (at most {bar:g})" + ("" if value <= bar else " MISSED")
            for name, value, bar in measured
        ]

    def text(self, slowest: float) -> str:
        lines = [line_of("kind", ["commands", *OUTCOMES, "slowest s", "cpu s", "MiB"])]
        lines += [row.line(name) for name, row in self.rows.items()] + [self.total.line("all"), ""]
        return "\n".join(lines + self.bars(slowest) + [f"WRONG: {problem}" for problem in self.wrong])

    def missed(self, slowest: float) -> bool:
        return bool(self.wrong) or any(line.endswith("MISSED") for line in self.bars(slowest))
