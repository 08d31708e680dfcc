"""Writes what a comparison found as one page of Markdown for experiments/records: question, tables, machine, time,
configuration, failures. Reads the comparison's folder only; the answer in words is ours to write, in records/README.md.

    python experiments/record.py runs/fashion_convnet --output experiments/records/fashion_convnet.md
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

import pandas as pd
from comparison.schedule import Journal, in_words
from workbench.files import write_whole

AGAINST = {"all baselines": "all baselines", "no more passes": "the baselines that took no more passes"}


def sections(summary: str) -> dict[str, str]:
    """Heading -> table of summary.txt."""
    found = re.split(r"^((?:selection|confirmation), .+)$", summary, flags=re.MULTILINE)
    return {head: body.strip("\n").split("\n\n")[0] for head, body in zip(found[1::2], found[2::2], strict=True)}


def machine(folders: list[Path]) -> str:
    """The machines that the runs ran on: every different value, as they differ at times."""
    seen: dict[str, set[str]] = {}
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text())
        report = {key: manifest.get(key) for key in ("processor", "device", "threads", "precision", "revision")}
        for key, value in (report | manifest["versions"]).items():
            seen.setdefault(key, set()).add(str(value))
    return "; ".join(f"{key} {', '.join(sorted(values))}" for key, values in seen.items())


def fenced(text: str, kind: str = "") -> str:
    """As a block."""
    return f"```{kind}\n{text.strip()}\n```"


def failures(results: pd.DataFrame) -> str:
    """Every run that counts for nothing."""
    bad = results[results["outcome"] != "finished"]
    lines = [f"- {line.method} {line.variant}, seed {line.seed} ({line.phase}): {line.outcome}: {line.note}"
             for line in bad.astype(object).fillna("").itertuples()]  # fmt: skip
    return "\n".join(lines) or "None."


def resolved(folder: Path) -> str:
    """config.toml of one run, without its places."""
    text = (folder / "config.toml").read_text()
    return "\n".join(line for line in text.splitlines() if line and not re.match(r"#|\w+ = ['\"]?/", line))


def record(output: Path) -> str:
    """The page. Raises OSError for a folder without a comparison."""
    text = (output / "comparison.toml").read_text()
    toml = tomllib.loads(text)
    results = pd.read_csv(output / "results.csv")
    tables = sections((output / "summary.txt").read_text())
    finished = results[results["outcome"] == "finished"]
    folders = [output / folder for folder in finished["folder"].drop_duplicates()]
    seconds = sum(Journal(output / "journal.jsonl").by_target.values())
    start = next((folder for folder in folders if folder.name.startswith("stage1")), None)
    parts = [f"# {toml.get('title', output.name)}", toml.get("question", ""),
             f"{len(finished)} runs of {len(results)} finished, {in_words(seconds)} of one job at a time. {machine(folders)}."]  # fmt: skip
    for phase in ("confirmation", "selection"):
        for words in AGAINST:
            if table := tables.get(f"{phase}, {words}"):
                parts += [f"## {phase.capitalize()}: against the best of {AGAINST[words]}", fenced(table)]
    parts += ["## What failed", failures(results), "## Configuration", fenced(text, "toml")]
    if start is not None:
        parts += ["Stage 1 as resolved, first seed:", fenced(resolved(start), "toml")]
    return "\n\n".join(part for part in parts if part) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", type=Path, help="folder that compare.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="the page")
    options = parser.parse_args(arguments)
    try:
        page = record(options.comparison)
    except OSError as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, lambda path: path.write_text(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
