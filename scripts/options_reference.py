"""Writes what is told of the options where no program may be; all of it comes from the tables of the options:
docs/reference/options.md (every subcommand's --help all), and python/dimred/runs/same_experiment.json (the options that
differ between runs of one experiment, by which reports group runs).

python scripts/options_reference.py            rewrites both files
python scripts/options_reference.py --check    exit code 1 when a file is not what the build says
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "reference" / "options.md"
SAME_EXPERIMENT = REPOSITORY / "python" / "dimred" / "runs" / "same_experiment.json"
HEAD = """# Options

**Reference.** Every option of every command; `dimred COMMAND --help all` prints the same. Written by \
`scripts/options_reference.py`.
An option may also stand in a file for `--config` (TOML, or key=value lines), with `_` or `-` between words.
"""

# What the columns of the table do not tell about an experiment.
LENGTHS = {"epochs", "stop_at_step"}  # a resume may change them, but a longer run is another experiment
BESIDE = {"test_data", "start_file"}  # files that belong to the data and to the weights
ROUNDING = {"bucket_mb", "first_bucket_mb"}  # a resume keeps them, because they change the last bits of sums


def help_of(dimred: Path, *words: str) -> str:
    """The output of the build."""
    done = subprocess.run([dimred, *words, "--help", "all"], capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


def listed(text: str) -> list[str]:
    """The commands of a help text that lists commands: two blanks, a name, a summary."""
    return re.findall(r"^  ([a-z][a-z0-9-]*)  +\S", text, flags=re.MULTILINE)


def page(dimred: Path) -> str:
    """The whole text of docs/reference/options.md."""
    sections: list[tuple[str, ...]] = []
    for command in listed(help_of(dimred)):
        text = help_of(dimred, command)
        further = re.findall(rf"dimred {command} (--\w+)(?: FILE)? --help`?", " ".join(text.split()))
        further += listed(text) if command in ("data", "store") else []
        sections += [(command,), *((command, word) for word in further)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = pool.map(lambda words: help_of(dimred, *words), sections)
        return HEAD + "".join(
            f"\n## dimred {' '.join(words)}\n\n```\n{text}\n```\n" for words, text in zip(sections, texts, strict=True)
        )


def same_experiment(rows: Sequence[Mapping[str, Any]], earlier: Collection[str]) -> list[str]:
    """The options that differ between seeds, machines and folders: inputs, seeds, and what a resume may change.

    An earlier name that no table has any more stays, so that runs of older versions are grouped as before.
    """
    names = {row["name"] for row in rows}
    free = {row["name"] for row in rows if row["resume"] == "free"} - LENGTHS
    inputs = {row["name"] for row in rows if row["role"] in ("input", "data")}
    seeds = {name for name in names if name.endswith("seed")}
    return sorted(free | inputs | seeds | (names & (BESIDE | ROUNDING)) | ({*earlier} - names))


def same_experiment_file(dimred: Path) -> str:
    """The whole text of same_experiment.json."""
    tables = [
        subprocess.run([dimred, command, "--help", "json"], capture_output=True, text=True, check=True).stdout
        for command in ("stage1", "stage2")
    ]
    rows = [row for table in tables for row in json.loads(table)["options"]]
    earlier = json.loads(SAME_EXPERIMENT.read_text())["options"]
    content = {"written_by": "scripts/options_reference.py", "options": same_experiment(rows, earlier)}
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the files with the build, and write nothing")
    options = parser.parse_args()
    build = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build"))
    dimred = build / "bin" / "dimred"
    status = 0
    for file, text in ((PAGE, page(dimred)), (SAME_EXPERIMENT, same_experiment_file(dimred))):
        if not options.check:
            file.write_text(text)
        elif not file.is_file() or file.read_text() != text:
            name = file.relative_to(REPOSITORY)
            print(f"{name} differs from the build; run scripts/options_reference.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
