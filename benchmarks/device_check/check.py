"""What every part gets: where things are, how much to measure, until when, and where to put what it finds."""

from __future__ import annotations

import csv
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .figures import Figure
from .peers import Peers
from .place import Place
from .processes import Done, call
from .sizes import Sizes

Row = dict[str, str]


class Skipped(RuntimeError):
    """Why a part measures nothing here, in one line."""


@dataclass
class Check:
    """One run of the check."""

    place: Place
    sizes: Sizes
    device: str  # cuda, cuda:N or cpu
    scratch: Path
    peers: Peers
    options: frozenset[str] = frozenset()  # of dimred stage1
    pca_options: frozenset[str] = frozenset()  # of dimred pca
    shared: dict[str, list[float]] = field(default_factory=dict)  # what later parts need of earlier ones
    # Of the part under way.
    deadline: float = 0.0
    figures: list[Figure] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    @property
    def on_device(self) -> bool:
        """Whether there is a device; else sizes are tiny, and nothing is judged."""
        return self.device != "cpu"

    def left(self) -> float:
        """Seconds of the part."""
        return self.deadline - time.monotonic()

    def add(self, figure: Figure) -> None:
        """A line of the table, unless nothing was measured."""
        if figure.values:
            self.figures.append(figure)

    def leave_out(self, what: str, why: str) -> None:
        """Notes what is not measured."""
        self.left_out.append({"what": what, "why": why})

    def need(self, name: str) -> Path:
        """A program. Raises Skipped where this build has none of that name."""
        program = self.place.program(name)
        if not program:
            raise Skipped(f"this build has no {name}")
        return program

    def folder(self, name: str) -> Path:
        """A new one of the scratch folder."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def run(self, program: str, *words: object, fail: bool = True) -> Done:
        """A program of ours, for as long as the part may take."""
        return call([self.need(program), *words], self.place.environment, self.left(), fail)

    def train(self, stage: str, output: Path, **options: object) -> Done:
        """`dimred stage1` or `stage2` on the device; options as keywords, also `device`."""
        few = {} if self.on_device else {"threads": 1}  # a check of the check is to leave the other cores alone
        words = {"device": self.device, "output": output} | few | options
        return self.run("dimred", stage, *(f"--{name}={value}" for name, value in words.items()))

    def rounds(self, measure: Callable[[int], dict[str, float]]) -> list[dict[str, float]]:
        """As many as are asked for, fewer where the next would end too late; at least one."""
        found: list[dict[str, float]] = []
        for turn in range(self.sizes.rounds):
            start = time.monotonic()
            found.append(measure(turn))
            if self.left() < 1.2 * (time.monotonic() - start) and turn + 1 < self.sizes.rounds:
                self.leave_out(f"rounds {turn + 2} to {self.sizes.rounds}", "no time was left")
                break
        return found


def rows_of(path: Path) -> list[Row]:
    """A CSV file's."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def epoch_seconds(run: Path) -> tuple[float, float]:
    """Seconds of an epoch behind the first, and of these, those without waits for data; the mean over them."""
    rows = [row for row in rows_of(run / "curve.csv") if row["weights"] == "raw"]
    first, last = rows[0], rows[-1]
    epochs = float(last["epoch"]) - float(first["epoch"])
    seconds = float(last["seconds"]) - float(first["seconds"])
    waited = float(last["data_wait_seconds"]) - float(first["data_wait_seconds"])
    return seconds / epochs, (seconds - waited) / epochs


def in_turns(names: Sequence[str], turn: int) -> list[str]:
    """The order of a round: it rotates."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def available_memory() -> int:
    """Bytes that processes may still take."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_disk(folder: Path, size: float) -> None:
    """Raises Skipped where the disk has less."""
    free = shutil.disk_usage(folder).free
    if free < 1.1 * size:
        raise Skipped(f"needs {size / 1e9:.1f} GB of disk at {folder}, {free / 1e9:.1f} GB are free; --scratch names another")
