"""Writes the results of a comparison as one page of Markdown for experiments/records.

The page has question, tables, machine, time, configuration and failures. Reads the comparison's folder only. Write the
answer in words into records/README.md.

    python experiments/record.py runs/fashion_convnet --output experiments/records/fashion_convnet.md
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
from comparison.rows import Rows, machine_of
from comparison.schedule import Journal, in_words
from workbench.files import require_place, write_whole

AGAINST = {
    "all baselines": "against the best of all baselines",
    "all baselines, losses": "losses, against the baseline with the lowest validation loss",
    "no more passes": "against the best of the baselines that took no more passes",
}


def sections(summary: str) -> dict[str, str]:
    """Heading -> table of summary.txt."""
    found = re.split(r"^((?:selection|confirmation), .+)$", summary, flags=re.MULTILINE)
    return {head: body.strip("\n").split("\n\n")[0] for head, body in zip(found[1::2], found[2::2], strict=True)}


def machine(reports: list[dict[str, Any]]) -> str:
    """The machines that the runs ran on: every different value, as they differ at times."""
    seen: dict[str, set[str]] = {}
    for report in reports:
        for key, value in report.items():
            seen.setdefault(key, set()).add(str(value))
    return "; ".join(f"{key} {', '.join(sorted(values))}" for key, values in seen.items())


def fenced(text: str, kind: str = "") -> str:
    """The text as a block of Markdown."""
    return f"```{kind}\n{text.strip()}\n```"


def failures(results: pd.DataFrame) -> str:
    """Every run that counts for nothing."""
    bad = results[results["outcome"] != "finished"]
    lines = [
        f"- {line.method} {line.variant}, seed {line.seed} ({line.phase}): {line.outcome}: {line.note}"
        for line in bad.astype(object).fillna("").itertuples()
    ]
    return "\n".join(lines) or "None."


def resolved(folder: Path) -> str:
    """config.toml of one run, without its places."""
    text = (folder / "config.toml").read_text()
    return "\n".join(line for line in text.splitlines() if line and not re.match(r"#|\w+ = ['\"]?/", line))


COUNTED = "of one job at a time."  # near the beginning of every page


def record(output: Path, rows: Path | None = None) -> str:
    """The page; `rows`: of runs whose folders are elsewhere. Raises OSError for a folder without a comparison."""
    text = (output / "comparison.toml").read_text()
    toml = tomllib.loads(text)
    results = pd.read_csv(output / "results.csv")
    tables = sections((output / "summary.txt").read_text())
    finished = results[results["outcome"] == "finished"]
    names = list(finished["folder"].drop_duplicates())
    elsewhere = {
        name: row for name, row in Rows(rows, output).kept.items() if name in names and not (output / name).is_dir()
    }
    folders = [output / name for name in names if name not in elsewhere]
    journal = Journal(output / "journal.jsonl").by_target
    seconds = sum(journal.values()) + sum(row["job_seconds"] for row in elsewhere.values())
    machines = [*map(machine_of, folders), *(row["machine"] for row in elsewhere.values())]
    start = next((folder for folder in folders if folder.name.startswith("stage1")), None)
    parts = [
        f"# {toml.get('title', output.name)}",
        toml.get("question", ""),
        f"{len(finished)} runs of {len(results)} finished, {in_words(seconds)} {COUNTED} {machine(machines)}.",
    ]
    for phase in ("confirmation", "selection"):
        for words in AGAINST:
            if table := tables.get(f"{phase}, {words}"):
                parts += [f"## {phase.capitalize()}: {AGAINST[words]}", fenced(table)]
    parts += ["## What failed", failures(results), "## Configuration", fenced(text, "toml")]
    if start is not None:
        parts += ["Stage 1 as resolved, first seed:", fenced(resolved(start), "toml")]
    return "\n\n".join(part for part in parts if part) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", type=Path, help="folder that compare.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="Markdown page to write")
    parser.add_argument("--rows", type=Path, help="file of compare.py --rows, for runs whose folders are missing")
    options = parser.parse_args(arguments)
    try:
        require_place(options.output, "--output", ("page of experiments/record.py", COUNTED))
        page = record(options.comparison, options.rows)
    except OSError as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"record: {error}", file=sys.stderr)
        return 2
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, lambda path: path.write_text(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
