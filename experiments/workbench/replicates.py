"""Experiments over replicates of a whole pipeline: rows that stay, and arms against the rival that validation chooses."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import math
import statistics
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimred.runs import BadRun, Difference, holm, paired_difference, smallest_effect
from workbench.files import write_whole
from workbench.jobs import DIMRED, CommandFailed
from workbench.text_table import text_table

Row = dict[str, Any]


class PlanError(ValueError):
    """A plan that cannot be run, or rows that are not its own."""


@dataclass(frozen=True)
class Metric:
    """A column of the rows; accuracies are fractions in the rows and percent in tables."""

    name: str
    title: str

    def of(self, row: Row) -> float:
        """The row's value as it is shown."""
        return float(row[self.name]) * (100 if self.name.endswith("accuracy") else 1)

    @property
    def digits(self) -> int:
        """Behind the point."""
        return 2 if self.name.endswith("accuracy") else 4


@dataclass(frozen=True)
class Experiment:
    """Arms in their order, those among them that the others are judged against, and by what the best of these is chosen."""

    arms: Sequence[str]
    metrics: Sequence[Metric]
    read_plan: Callable[[Path], dict[str, Any]]
    run: Callable[[dict[str, Any], int, argparse.Namespace], list[Row]]  # a replicate: a row for each arm, its name in "kind"
    rivals: Sequence[str] = ()
    chosen_by: Metric = Metric("validation_loss", "validation loss")
    report: Callable[[Sequence[Row]], str] | None = None  # what is said of the rows; None: the table


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments that all experiments take."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("plan", type=Path)
    made.add_argument("--output", type=Path, required=True)
    made.add_argument("--replicates", type=int, nargs="+", default=list(range(1, 11)))
    made.add_argument("--rows", type=Path, help="keep the rows of finished replicates in this file")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--dimred", type=Path, default=DIMRED)
    return made


def read_tables(file: Path, needed: set[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """A plan with these keys. Raises PlanError, OSError, ValueError."""
    plan = tomllib.loads(file.read_text())
    known = needed | set(optional)
    if unknown := sorted(set(plan) - known):
        raise PlanError(f"{file}: unknown key {unknown[0]}; there are {', '.join(sorted(known))}")
    if missing := sorted(needed - set(plan)):
        raise PlanError(f"{file}: needs {missing[0]}")
    return plan


def needs_one_split(file: Path, options: Mapping[str, Any], table: str) -> None:
    """Raises PlanError unless the options name the samples that all runs hold out."""
    for name in ("validation_fraction", "split_seed"):
        if name not in options:
            raise PlanError(f"{file}: {table} needs {name}: all runs hold the same samples out")
    if not options["validation_fraction"] > 0:
        raise PlanError(f"{file}: {table}.validation_fraction needs a number above 0, received {options['validation_fraction']}")


def digest(plan: Mapping[str, Any]) -> str:
    """Of all that a plan sets; its title and question may be reworded."""
    settings = {key: value for key, value in plan.items() if key not in ("title", "question")}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def machine_of(run: Path) -> Row:
    """What a run's figures depend on."""
    manifest = json.loads((run / "manifest.json").read_text())
    return {key: manifest.get(key) for key in ("processor", "device", "threads", "precision", "revision")}


def whole_replicates(rows: Sequence[Row], arms: Sequence[str]) -> list[dict[str, Row]]:
    """The replicates that have a row for each of the arms, in order."""
    by_replicate: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_replicate.setdefault(row["replicate"], {})[row["kind"]] = row
    return [found for _, found in sorted(by_replicate.items()) if set(arms) <= set(found)]


def measured(whole: Sequence[Mapping[str, Row]], experiment: Experiment) -> list[Metric]:
    """The metrics that every row has: one that was added later is not in rows from before."""
    return [metric for metric in experiment.metrics if all(metric.name in row for found in whole for row in found.values())]


def table(rows: Sequence[Row], experiment: Experiment) -> str:
    """Each arm against the best rival in each metric: paired by replicate, Holm over the arms, and the smallest difference
    that so many replicates would have shown at p < 0.01 with a power of 0.8, before Holm."""
    arms = [arm for arm in experiment.arms if any(row["kind"] == arm for row in rows)]
    whole = whole_replicates(rows, arms)
    if not arms or not whole:
        return "no replicate is finished"

    def column(arm: str, metric: Metric) -> list[float]:
        return [metric.of(found[arm]) for found in whole]

    best = min if experiment.chosen_by.name.endswith("loss") else max
    rival = best((arm for arm in arms if arm in experiment.rivals), key=lambda arm: statistics.fmean(column(arm, experiment.chosen_by)))
    shown = measured(whole, experiment)
    parts = [f"{len(whole)} replicate{'s' if len(whole) > 1 else ''}, best rival by {experiment.chosen_by.title}: {rival}"]
    for metric in experiment.metrics:
        if metric not in shown:
            parts.append(f"{metric.title}: not in every row, so not compared")
            continue
        others = [arm for arm in arms if arm != rival]
        differences = [paired_difference(column(arm, metric), column(rival, metric)) for arm in others]
        corrected = dict(zip(others, zip(differences, holm([d.p for d in differences]), strict=True), strict=True))
        lines = []
        for arm in arms:
            chosen = f"{statistics.fmean(column(arm, experiment.chosen_by)):.{experiment.chosen_by.digits}f}"
            of_rival = ["", "", "", "", ""] if arm == rival else difference_cells(*corrected[arm], metric.digits)
            lines.append([arm, chosen, mean_and_sd(column(arm, metric), metric.digits), *of_rival])
        parts.append(text_table(["arm", experiment.chosen_by.title, metric.title, *DIFFERENCE], lines))
    return "\n\n".join(parts)


def mean_and_sd(values: Sequence[float], digits: int) -> str:
    """A cell; the mean alone where there is one value."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


DIFFERENCE = ["difference", "95 % interval", "p", "p (Holm)", "detectable"]


def difference_cells(d: Difference, p: float, digits: int) -> list[str]:
    """The cells under DIFFERENCE of a paired difference and its corrected p; one pair, or equal differences, have no spread."""
    if math.isnan(d.low):
        return [f"{d.mean:+.{digits}f}", "", "", "", ""]
    return [f"{d.mean:+.{digits}f}", f"{d.low:+.{digits}f} to {d.high:+.{digits}f}", f"{d.p:.2g}", f"{p:.2g}",
            f"{smallest_effect(d.sd, d.n):.{digits}f}"]  # fmt: skip


def paired(whole: Sequence[Mapping[str, Row]], pairs: Sequence[tuple[str, str]], metric: Metric) -> list[tuple[Difference, float]]:
    """Of each arm and a rival of its own, over whole replicates, with p by Holm over all pairs."""
    differences = [paired_difference([metric.of(found[arm]) for found in whole], [metric.of(found[rival]) for found in whole])
                   for arm, rival in pairs]  # fmt: skip
    return list(zip(differences, map(float, holm([d.p for d in differences])), strict=True))


def pairs_table(whole: Sequence[Mapping[str, Row]], pairs: Sequence[tuple[str, str]], metric: Metric) -> str:
    """Their table, under the metric's name."""
    lines = [[*pair, *difference_cells(*found, metric.digits)] for pair, found in zip(pairs, paired(whole, pairs, metric), strict=True)]
    return f"{metric.title}\n\n{text_table(['arm', 'rival', *DIFFERENCE], lines)}"


def report(rows: Sequence[Row], experiment: Experiment) -> str:
    """What is said of the rows."""
    return experiment.report(rows) if experiment.report and rows else table(rows, experiment)


def main(experiment: Experiment, options: argparse.Namespace) -> int:
    """Runs the replicates that have no rows yet and prints the table. Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    try:
        plan = experiment.read_plan(options.plan)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    options.output = options.output.resolve()  # paths are part of a run's configuration
    file = options.rows or options.output / "rows.jsonl"
    try:
        for replicate in options.replicates:
            if any(row["replicate"] == replicate for row in stored(file, plan)):
                continue
            made = [{"replicate": replicate, **row, "plan": digest(plan)} for row in experiment.run(plan, replicate, options)]
            add(file, made)
            print(f"replicate {replicate} is finished", flush=True)
        rows = stored(file, plan)
    except (BadRun, CommandFailed, OSError, PlanError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{plan['title']}\n{plan['question']}\n\n{report(rows, experiment)}")
    return 0


def read_rows(file: Path) -> list[Row]:
    """The rows of a file; none where there is no file. Raises PlanError for a line that is no row, OSError."""
    rows = []
    for number, line in enumerate(file.read_text().splitlines() if file.is_file() else [], 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not {"replicate", "kind"} <= set(row):
            raise PlanError(f"{file}:{number}: needs a replicate's row, received {line[:60]!r}")
        rows.append(row)
    return rows


def stored(file: Path, plan: Mapping[str, Any]) -> list[Row]:
    """The rows that the plan has made. Raises PlanError for those of other settings, OSError."""
    rows = read_rows(file)
    for number, row in enumerate(rows, 1):
        if row.get("plan") != digest(plan):
            raise PlanError(
                f"{file}:{number}: replicate {row['replicate']} was made with other settings than the plan's; name another --rows"
            )
    return rows


def add(file: Path, rows: Sequence[Row]) -> None:
    """Adds rows, whole; several processes with replicates of their own may share the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = "".join(json.dumps(row) + "\n" for row in [*read_rows(file), *rows])
        write_whole(file, lambda path: path.write_text(text))
