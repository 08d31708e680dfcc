"""Commands of a test: their words as one text, their end, and the tables that they leave."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path


def cli(*words: object, **options: object) -> list[str]:
    """Splits each text at its white space, then adds `--name=value` for each option; a value or a path is one word."""
    split = [part for word in words for part in (word.split() if isinstance(word, str) else [str(word)])]
    return split + [f"--{name}={value}" for name, value in options.items()]


def completed(
    command: Sequence[object], timeout: float = 300, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, whatever its exit code is, and keeps what it says as text."""
    words = list(map(str, command))
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd, check=False)


def rows_in(file: Path, without: Collection[str] = ()) -> list[dict[str, str]]:
    """The rows of a table, without the columns whose names are left out."""
    with file.open(newline="") as stream:
        return [{name: value for name, value in row.items() if name not in without} for row in csv.DictReader(stream)]


TIMES = ("seconds", "data_wait_seconds")  # what the curves of two equal runs may differ in


def rows(run: Path) -> list[dict[str, str]]:
    """The rows of a run's curve.csv, without its times."""
    return rows_in(run / "curve.csv", TIMES)
