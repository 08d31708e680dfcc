"""The results of finished runs, read once: a later comparison reads only the folders whose files have changed."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.files import write_whole

import dimred.runs
from dimred.runs import COSTS, BadRun, Run, read_run
from dimred.runs.family import adopt

FILES = ("manifest.json", "config.toml", "curve.csv", "steps.csv")


@dataclass(frozen=True)
class Reading:
    """One finished run. `result` is its row of curve.csv with `epochs` and costs counted from its own start,
    `costs` their largest values, `start_costs` those of the run that it began from."""

    seed: int | None
    config: dict[str, Any]
    steps_per_epoch: float
    result: dict[str, Any]
    costs: dict[str, float]
    start_costs: dict[str, float] = field(default_factory=dict)


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()


def code_digest() -> str:
    """The digest of all that makes a reading of a run: readings of other code are read again."""
    sources = [*sorted(Path(dimred.runs.__file__).parent.glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()


def reading_of(run: Run, start: Run | None) -> Reading:
    """Joins the run to its start."""
    if start is not None and run.parent is None:
        adopt(run, start)
    own = run.own().rename(columns={"epoch": "epochs"})
    return Reading(
        run.manifest.get("seed"),
        run.config,
        run.steps_per_epoch,
        own.loc[run.result().name].to_dict(),
        own[["epochs", *COSTS]].max().to_dict(),
        start.costs() if start is not None else {},
    )


def signature(folder: Path) -> list[list[int]]:
    """Sizes and times of the files that a reading depends on."""
    stats = [(folder / name).stat() for name in FILES if (folder / name).is_file()]
    return [[stat.st_size, stat.st_mtime_ns] for stat in stats]


class Readings:
    """The readings of one comparison, in a JSON file beside its tables. A run that is damaged or unfinished is never
    kept; one whose files keep size and time is not looked at again."""

    def __init__(self, file: Path) -> None:
        """The readings that are there already; one file that cannot be read is passed over: it can be made again."""
        self.file = file
        self.kept: dict[str, dict[str, Any]] = {}
        self.runs: dict[Path, Run | BadRun] = {}
        self.changed = False
        try:
            value = json.loads(file.read_text())
            if value["code"] == code_digest():
                self.kept = value["readings"]
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def run(self, folder: Path) -> Run | BadRun:
        """The finished run, or what is wrong with it."""
        if folder not in self.runs:
            try:
                self.runs[folder] = read_run(folder, finished=True)
            except BadRun as error:
                self.runs[folder] = error
        return self.runs[folder]

    def read(self, folder: Path, start: Path | None) -> Reading | BadRun:
        """The reading of a run in `folder` that began from the run in `start`, which its costs need in good order."""
        name = os.path.relpath(folder, self.file.parent)
        now = [signature(folder), signature(start) if start else None]
        kept = self.kept.get(name)
        if kept and kept["files"] == now:
            return Reading(**kept["reading"])
        run = self.run(folder)
        if isinstance(run, BadRun):
            return run
        begin = self.run(start) if start else None
        if isinstance(begin, BadRun):
            return begin
        reading = reading_of(run, begin)
        self.kept[name] = {"files": now, "reading": asdict(reading)}
        self.changed = True
        return reading

    def save(self) -> None:
        """When there is anything new; of folders that are still there."""
        if not self.changed:
            return
        there = {name: kept for name, kept in self.kept.items() if (self.file.parent / name).is_dir()}
        text = json.dumps({"code": code_digest(), "readings": there}, default=plain)
        write_whole(self.file, lambda path: path.write_text(text))
        self.changed = False
