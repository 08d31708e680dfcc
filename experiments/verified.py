"""Verifies pairs of faces with the runs of a finished comparison; the training saw none of these persons.

    python experiments/verified.py runs/faces_comparison --pairs runs/faces/pairs.txt

Runs `dimred verify` on the end of every run and on stage 1's snapshots, one an epoch; what is done is not
repeated. Prints stage 1's accuracy by epoch, then a line per method and condition with its paired difference, over the
seeds that both have, to the baseline that the comparison set it against (the best by validation of those that took no
more passes), Holm-corrected. Writes verification.csv, a line per run.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import pandas as pd
from comparison.results import save_table
from workbench.files import require_place
from workbench.jobs import DIMRED
from workbench.text_table import interval, percent, text_table

from dimred.runs import BadRun, holm, mean_interval, paired_difference, read_run

AT_EQUAL_PASSES = "no more passes"
MARKS = {"verification.csv": ",verified\n", "verification.txt": "epoch of stage 1"}  # near their beginnings
AXES = ("stage1.", "matrices.", "methods.")  # how the names of their columns begin


@dataclass(frozen=True)
class Verified:
    """Weights, and the folder of their verification.json."""

    weights: Path
    folder: Path

    def accuracy(self, pairs: Path) -> float | None:
        """None when it is not there, is of other pairs, or is older than the weights."""
        file = self.folder / "verification.json"
        try:
            written = file.stat().st_mtime_ns
            report = json.loads(file.read_text())
            fits = report["pairs_file"] == str(pairs) and all(
                path.stat().st_mtime_ns <= written for path in (pairs, self.weights)
            )
            return report["accuracy"] if fits else None
        except (OSError, ValueError, KeyError):
            pass
        return None


def verify(dimred: Path, pairs: Path, weights: Verified) -> float:
    """The accuracy; nothing is computed twice. Raises BadRun."""
    found = weights.accuracy(pairs)
    if found is not None:
        return found
    words = ["verify", weights.weights, "--pairs", pairs, "--output", weights.folder, "--threads=1"]
    done = subprocess.run([dimred, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"dimred verify ended with {done.returncode} and said nothing"]
        raise BadRun(f"{weights.weights}: {said[-1]}")
    try:
        return float(json.loads((weights.folder / "verification.json").read_text())["accuracy"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRun(f"{weights.folder}/verification.json has no accuracy: {error!r}") from error


def epoch_ends(folder: Path) -> dict[int, Verified]:
    """The weights of a run of stage 1: its snapshots at the ends of epochs."""
    run = read_run(folder)
    ends = {}
    for file in sorted((folder / "snapshots").glob("snapshot_*.h5")):
        epoch = int(file.stem.removeprefix("snapshot_")) / run.steps_per_epoch
        if epoch == int(epoch):
            ends[int(epoch)] = Verified(file, folder / "verification" / file.stem)
    return ends


def shown(value: object) -> str:
    """An axis' value: a number or a text."""
    return f"{value:g}" if isinstance(value, Real) and not isinstance(value, bool) else str(value)


def by_epoch(dimred: Path, pairs: Path, comparison: Path, starts: pd.DataFrame, jobs: int) -> str:
    """Stage 1's accuracy as it trains, over the seeds, for each condition that it was trained in."""
    axes = [name for name in starts.columns if name.startswith("stage1.")]
    ends = [
        (*condition, epoch, weights)
        for folder, *condition in starts[["folder", *axes]].itertuples(index=False)
        for epoch, weights in epoch_ends(comparison / folder).items()
    ]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda end: verify(dimred, pairs, end[-1]), ends))
    table = pd.DataFrame([end[:-1] for end in ends], columns=[*axes, "epoch of stage 1"]).assign(verified=found)
    lines = []
    for condition, values in table.groupby([*axes, "epoch of stage 1"], dropna=False)["verified"]:
        mean = mean_interval(list(values))
        lines.append([*map(shown, condition), str(mean.n), percent(mean.mean), percent(mean.sd)])
    return text_table([*axes, "epoch of stage 1", "n", "verified %", "sd"], lines)


def of_condition(runs: pd.DataFrame, name: str, condition: dict[str, object]) -> pd.DataFrame:
    """The runs of a method and variant; one that does not depend on an axis belongs to each of its values."""
    group = runs[runs["name"] == name]
    for axis, value in condition.items():
        group = group[group[axis].isna() | (group[axis] == value)]
    return group


def differences(runs: pd.DataFrame, summary: pd.DataFrame, axes: list[str]) -> list[list[str]]:
    """A line per method and condition; `runs` with their accuracy of verification. A test that stands in several
    conditions, because neither side depends on an axis, counts once in Holm's correction."""
    lines, tests = [], []
    p_values: dict[tuple[str, ...], float] = {}
    for report in summary.to_dict("records"):
        condition = {axis: report[axis] for axis in axes}
        group = of_condition(runs, f"{report['method']} {report['variant']}".strip(), condition)
        rival = of_condition(runs, report["against"], condition)
        mine, theirs = (table.set_index("seed")["verified"] for table in (group, rival))
        mean, both = mean_interval(list(mine)), mine.index.intersection(theirs.index)
        line = [
            report["role"],
            report["method"],
            report["variant"],
            *map(shown, condition.values()),
            str(mean.n),
            percent(mean.mean),
            percent(mean.sd),
        ]
        tests.append((*group["folder"], *rival["folder"]))
        if report["baseline"]:
            p_values[tests[-1]] = math.nan
            line += ["–", "the best", "–", "–"]
        else:
            d = paired_difference(list(mine[both]), list(theirs[both]))
            p_values[tests[-1]] = d.p
            line += [str(d.n), percent(d.mean, "+"), interval(d.low, d.high, "+", percent), short(d.p)]
        lines.append(line)
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [[*line, short(corrected[test])] for line, test in zip(lines, tests, strict=True)]


def short(p: float) -> str:
    """Three digits; a dash where no test was possible."""
    return "–" if math.isnan(p) else f"{p:.3g}"


def read_table(file: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A table that compare.py wrote. Raises BadRun for another one."""
    try:
        table = pd.read_csv(file, dtype=dict.fromkeys(("variant", "against"), str))
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise BadRun(f"{file} needs to be a table that compare.py wrote: {error}") from error
    missing = [name for name in columns if name not in table]
    if missing:
        raise BadRun(f"{file} needs to be a table that compare.py wrote, but the column {missing[0]} is missing")
    return table


def tables_of(options: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Finished runs and lines of the summary of the phase, before anything is verified. Raises BadRun."""
    runs = read_table(
        options.comparison / "results.csv", ("phase", "seed", "role", "method", "variant", "outcome", "folder")
    )
    columns = ("phase", "compared_at", "role", "method", "variant", "chosen", "baseline", "against")
    axes = [name for name in runs.columns if name.startswith(AXES)]
    summary = read_table(options.comparison / "summary.csv", (*columns, *axes))
    runs = runs[(runs["outcome"] == "finished") & (runs["phase"] == options.phase)].copy()
    if runs.empty:
        raise BadRun(f"{options.comparison} has no finished run of its {options.phase}")
    wanted = (summary["phase"] == options.phase) & (summary["compared_at"] == AT_EQUAL_PASSES)
    return runs, summary[wanted & summary["chosen"]].fillna({"variant": "", "against": ""})


def text_of(options: argparse.Namespace) -> str:
    """Verifies all; the two tables."""
    runs, summary = tables_of(options)
    for name, mark in MARKS.items():
        require_place(options.comparison / name, "comparison", ("table of experiments/verified.py", mark))
    text = by_epoch(options.dimred, options.pairs, options.comparison, runs[runs["role"] == "start"], options.jobs)
    runs = runs[runs["role"] != "start"].copy()
    folders = [options.comparison / folder for folder in runs["folder"]]
    with ThreadPoolExecutor(options.jobs) as pool:
        ends = (Verified(folder / "final.h5", folder) for folder in folders)
        runs["verified"] = list(pool.map(lambda weights: verify(options.dimred, options.pairs, weights), ends))
    save_table(runs, options.comparison / "verification")
    runs["name"] = (runs["method"] + " " + runs["variant"].fillna("")).str.strip()
    axes = [name for name in runs.columns if name.startswith(AXES)]
    header = ["role", "method", "variant", *axes, "n", "verified %", "sd", "pairs", "difference", "95 %", "p", "Holm"]
    return f"{text}\n\n{text_table(header, differences(runs, summary, axes))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", type=Path, help="folder of a finished comparison")
    parser.add_argument("--pairs", type=Path, required=True, help="file of pairs, as for dimred verify --pairs")
    parser.add_argument("--phase", choices=("selection", "confirmation"), default="selection")
    parser.add_argument("--jobs", type=int, default=2, help="verifications at a time (default: %(default)s)")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs needs a number above 0, received {options.jobs}")
    try:
        text = text_of(options)
    except (ValueError, OSError) as error:  # BadRun is a ValueError, as is a place that is taken
        print(f"verified: {error}", file=sys.stderr)
        return 1
    (options.comparison / "verification.txt").write_text(text + "\n")
    print(f"{text}\n\nwritten: {options.comparison}/verification.csv, verification.parquet, verification.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
