"""Results of finished runs in one file of lines, which is kept when folders are not: a comparison goes on from it on
another machine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench.files import write_whole

from .jobs import Entry
from .options import ConfigError
from .readings import Reading, plain
from .results import Outcome
from .schedule import Journal

MACHINE = ("processor", "device", "threads", "precision", "revision")


def machine_of(folder: Path) -> dict[str, Any]:
    """What a run ran on."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {key: manifest.get(key) for key in MACHINE} | manifest["versions"]


class Rows:
    """A JSON object a line, by a run's folder below the comparison's, whose name is a digest of all its options."""

    def __init__(self, file: Path | None, root: Path) -> None:
        """The rows that are there; without a file there are none. Raises ConfigError for a file of something else."""
        self.file, self.root = file, root.resolve()
        self.kept: dict[str, dict[str, Any]] = {}
        try:
            lines = file.read_text().splitlines() if file is not None and file.exists() else []
            for line in lines:
                row = json.loads(line)
                Reading(**row["reading"])
                self.kept[row["folder"]] = row
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{file} was not written by compare.py --rows ({error!r})") from None

    def name(self, entry: Entry) -> str:
        """The name of its run."""
        return os.path.relpath(entry.job.target, self.root)

    def has(self, entry: Entry) -> bool:
        """Whether its run is finished, here or elsewhere."""
        return self.name(entry) in self.kept

    def outcome(self, entry: Entry, phase: str) -> Outcome:
        """The outcome of a run that has a row."""
        row = self.kept[self.name(entry)]
        return Outcome(entry, phase, Reading(**row["reading"]), "finished", "", row["matrix_seconds"])

    def add(self, outcomes: Sequence[Outcome], journal: Journal) -> None:
        """Adds the rows of finished runs behind the others; the file is written again, whole or not at all."""
        before = len(self.kept)
        for outcome in outcomes:
            name = self.name(outcome.entry)
            if self.file is None or outcome.reading is None or name in self.kept:
                continue
            reading = asdict(outcome.reading) | {"config": {}}  # whose options the folder's name stands for
            self.kept[name] = {
                "folder": name,
                "reading": reading,
                "matrix_seconds": outcome.matrix_seconds,
                "job_seconds": journal.seconds(outcome.entry.job),
                "machine": machine_of(outcome.entry.job.target),
            }
        if self.file is not None and len(self.kept) > before:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(row, default=plain) + "\n" for row in self.kept.values())
            write_whole(self.file, lambda path: path.write_text(text))
