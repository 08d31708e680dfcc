"""Runs a fair comparison from one TOML file of stage 1, matrices, methods, seeds and sweeps; writes tables.

    python experiments/compare.py experiments/comparisons/fashion.toml --output runs/fashion
    python experiments/compare.py experiments/comparisons/fashion.toml --output runs/fashion --confirm

Shared work is done once. Stopped and started again it goes on where it was; what is done is not repeated.
--rows FILE adds a line for each finished run to FILE, and takes as done what has a line there: kept in a repository it
lets a comparison go on where the folders are not. --confirm fixes each method's variant and the best baseline as the
selection seeds chose them, and runs these on the confirmation seeds. --choices FILE confirms what another folder's
choices.json fixed, without its selection: on another machine, or by somebody else. Writes results.csv and
results.parquet (a line per run), summary.csv and summary.txt. --engine dask and --engine slurm run the same on the
workers of a Dask scheduler. Exit code 1 when a run failed, 2 for a mistake in the file, 130 or 143 when it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
from comparison.engine import Engine, EngineError, open_local
from comparison.jobs import Entry, Planner, cell, jobs_of
from comparison.options import ConfigError, Tables, nearest
from comparison.plan import Plan, read_plan
from comparison.readings import Readings
from comparison.results import Outcome, Reader, save_table, tidy
from comparison.rows import Rows
from comparison.schedule import Busy, Journal, Scheduler, Stopped, in_words, take
from comparison.summary import EQUALS, NOTES, Choices, choose, conditions, ranking, shown, summarise, within
from workbench.files import require_place, write_whole
from workbench.jobs import DIMRED

ENGINES = ("local", "dask", "slurm")
TABLES = {  # and what is near their beginnings
    "results.csv": "phase,seed,role,method,variant,",
    "summary.csv": "role,method,variant,chosen,",
    "summary.txt": EQUALS[None],
}
LISTS = {"baselines": "test_accuracy", "baselines_by_loss": "test_loss"}  # key of a file of choices -> metric


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, metavar="CONFIG", help="TOML file of the comparison")
    parser.add_argument("--output", type=Path, help="folder of the runs and tables (default: runs/<name of CONFIG>)")
    parser.add_argument("--confirm", action="store_true", help="run the chosen variants on the confirmation seeds")
    parser.add_argument(
        "--choices", type=Path, metavar="FILE", help="confirm the choices in this choices.json and skip the selection"
    )
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="file with results of finished runs; the command skips these runs and adds new results",
    )
    parser.add_argument(
        "--jobs", type=int, help="runs at a time (default: cores / threads); for slurm: jobs with one worker each"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each run (default: %(default)s)")
    parser.add_argument("--dry_run", action="store_true", help="only check CONFIG and list the runs")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    parser.add_argument(
        "--engine", default="local", help="engine that starts the runs: local, dask or slurm (default: %(default)s)"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="existing dask scheduler (default: a new one with --jobs workers)"
    )
    parser.add_argument(
        "--cluster", type=Path, metavar="FILE", help="TOML file with arguments for dask-jobqueue's SLURMCluster"
    )
    parser.add_argument("--on_interrupt", help="cancel or leave the runs of dask or slurm at Ctrl-C (default: cancel)")
    options = parser.parse_args(arguments)
    if options.threads < 1 or (options.jobs is not None and options.jobs < 1):
        parser.error("--jobs and --threads need >= 1")
    options.output = options.output or Path("runs") / options.config.stem
    return options


def check_engine(options: argparse.Namespace) -> None:
    """Raises ConfigError for options that do not go together."""
    engine = options.engine
    if engine not in ENGINES:
        raise ConfigError(f"--engine needs one of {', '.join(ENGINES)}, received {engine!r}{nearest(engine, ENGINES)}")
    for option, engines in (("scheduler", ["dask"]), ("cluster", ["slurm"]), ("on_interrupt", ["dask", "slurm"])):
        if getattr(options, option) is not None and engine not in engines:
            raise ConfigError(f"--{option} is an option of --engine {' or '.join(engines)}, not of {engine}")
    if options.on_interrupt not in (None, "cancel", "leave"):
        raise ConfigError(f"--on_interrupt needs cancel or leave, received {options.on_interrupt!r}")
    if options.scheduler and options.jobs:
        raise ConfigError("--jobs has no effect with --scheduler: the number of its workers sets the runs at a time")
    if engine == "slurm" and not options.jobs:
        raise ConfigError("--engine slurm needs --jobs, the number of workers")
    options.jobs = options.jobs or max(1, len(os.sched_getaffinity(0)) // options.threads)


def engine_of(options: argparse.Namespace) -> Callable[[Path, TextIO], Engine]:
    """What opens the engine for a folder and its lock. Raises ConfigError and EngineError before any work."""
    if options.engine == "local":
        return partial(open_local, options.jobs)
    try:
        from comparison.dask_engine import Asked, check, open_dask
    except ModuleNotFoundError as error:
        raise EngineError(
            f"--engine {options.engine}: {error}; scripts/compare.sh installs requirements/engine.txt"
        ) from None
    asked = Asked(
        options.engine == "slurm",
        options.jobs,
        options.threads,
        options.scheduler,
        options.cluster,
        options.on_interrupt == "leave",
    )
    check(asked)
    return partial(open_dask, asked, options.dimred)


def all_axes(plan: Plan) -> dict[str, list[Any]]:
    """Axes by the name of their column."""
    return {
        f"{table}.{key}": [cell(value) for value in values]
        for table, sweeps in plan.axes.items()
        for key, values in sweeps.items()
    }


def choices_of(outcomes: Sequence[Outcome], plan: Plan) -> Choices:
    """The choices of validation on the selection seeds, in each condition."""
    groups = {condition: within(outcomes, condition) for condition in conditions(all_axes(plan))}
    return {condition: (choose(group), ranking(group)) for condition, group in groups.items()}


def frozen_of(plan: Plan) -> dict[str, Any]:
    """All of a plan that a confirmation stands on, as JSON has it."""
    methods = {m.name: [m.role, m.command, m.options, m.variants] for m in plan.methods}
    parts = {"seeds": plan.confirmation_seeds, "stage1": plan.stage1, "matrices": plan.matrices, "axes": plan.axes}
    return json.loads(json.dumps(parts | {"methods": methods}))


def save_choices(file: Path, choices: Choices, plan: Plan) -> None:
    """Saves them as JSON, with the plan that they were made for."""
    value = [
        {"condition": dict(c), "variants": v, **{key: b[metric] for key, metric in LISTS.items()}}
        for c, (v, b) in choices.items()
    ]
    text = json.dumps({"plan": frozen_of(plan), "choices": value}, indent=1)
    write_whole(file, lambda path: path.write_text(text))


def difference(before: Any, now: Any, place: str = "") -> str:
    """Where two JSON values first differ; empty when they do not."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = (difference(before.get(k), now.get(k), f"{place}.{k}".strip(".")) for k in {**before, **now})
        return next(filter(None, found), "")
    return "" if before == now else place


def read_choices(file: Path, plan: Plan) -> Choices:
    """Raises ConfigError when they were made for anything else: a confirmation is made once."""
    try:
        frozen = json.loads(file.read_text())
        before = frozen["plan"]
        found: Choices = {}
        for item in frozen["choices"]:
            ranked = {metric: [(method, variant) for method, variant in item[key]] for key, metric in LISTS.items()}
            found[tuple(item["condition"].items())] = (dict(item["variants"]), ranked)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{file} is damaged or of another version ({error}); remove the file to choose and confirm again"
        ) from None
    if place := difference(before, frozen_of(plan)):
        raise ConfigError(f"{file} was written for another {place}; remove the file to choose and confirm again")
    return found


def adopt_choices(source: Path, file: Path, plan: Plan) -> None:
    """Freezes here what another comparison froze. Raises ConfigError when it was made for another plan, or
    something else is frozen here."""
    read_choices(source, plan)
    text = source.read_text()
    if file.is_file():
        read_choices(file, plan)
    if file.is_file() and json.loads(file.read_text()) != json.loads(text):
        raise ConfigError(f"{file} has other choices than {source}; choices can be confirmed only once")
    write_whole(file, lambda path: path.write_text(text))


def chosen(entry: Entry, choices: Choices) -> bool:
    """Whether the selection chose the entry's variant in any condition that it belongs to."""
    axes = dict(entry.axes)
    return any(
        variants.get(entry.method, "") == entry.variant and all(dict(c)[a] == v for a, v in axes.items())
        for c, (variants, _) in choices.items()
    )


def leads(entry: Entry, choices: Choices) -> bool:
    """Whether the entry is the rival in a metric in any condition that it belongs to."""
    axes = dict(entry.axes)
    return any(
        (entry.method, entry.variant) in [ranked[metric][0] for metric in ranked if ranked[metric]]
        and all(dict(c)[a] == v for a, v in axes.items())
        for c, (_, ranked) in choices.items()
    )


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


class Entries:
    """What a plan asks for, and the rows of what is done elsewhere; nothing is run."""

    def __init__(self, options: argparse.Namespace, plan: Plan) -> None:
        self.plan = plan
        self.planner = Planner(plan, options.output)
        self.selection = self.planner.entries(plan.selection_seeds)
        self.rows = Rows(options.rows, options.output)

    def confirmed(self, choices: Choices) -> list[Entry]:
        """The entries that the choices leave, and each metric's rival, on the confirmation seeds."""
        entries = self.planner.entries(self.plan.confirmation_seeds)
        return [entry for entry in entries if chosen(entry, choices) or leads(entry, choices)]

    def left(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries without a row."""
        return [entry for entry in entries if not self.rows.has(entry)]


class Comparison:
    """One invocation in a folder where no other comparison works meanwhile, and what was found so far."""

    def __init__(self, options: argparse.Namespace, entries: Entries, begin_engine: Callable[[], Engine]) -> None:
        """Reads what the folder holds; runs nothing."""
        self.options, self.plan, self.entries, self.rows = options, entries.plan, entries, entries.rows
        self.begin_engine = begin_engine
        self.output = options.output.resolve()
        self.journal = Journal(self.output / "journal.jsonl")
        self.readings = Readings(self.output / "readings.json")
        self.failed: dict[Path, str] = {}
        self.engine: Engine | None = None

    def open_engine(self) -> Engine:
        """Once for both phases."""
        self.engine = self.engine or self.begin_engine()
        return self.engine

    def close(self) -> None:
        """Ends the engine, where one was begun."""
        if self.engine:
            self.engine.close()

    def execute(self, entries: Sequence[Entry], phase: str) -> list[Outcome]:
        """Runs what is not done, then reads everything."""
        journal = self.journal
        scheduler = Scheduler(self.options.dimred, self.options.threads, journal, self.open_engine, say)
        try:
            self.failed |= scheduler.run(jobs_of(self.entries.left(entries)))
        finally:  # also where it was stopped
            self.rows.add(self.outcomes([entry for entry in entries if entry.job.done()], phase), journal)
        return self.outcomes(entries, phase)

    def outcomes(self, entries: Sequence[Entry], phase: str) -> list[Outcome]:
        """The outcomes, from rows and folders."""
        reader = Reader(self.readings, self.journal, self.failed)
        here = iter(reader.outcomes(self.entries.left(entries), phase))
        return [self.rows.outcome(entry, phase) if self.rows.has(entry) else next(here) for entry in entries]

    def done_already(self) -> list[Outcome]:
        """The results of a selection that was made here, for the tables; nothing is run."""
        selection = self.entries.selection
        done = [entry for entry in selection if self.rows.has(entry) or all(job.done() for job in jobs_of([entry]))]
        return self.outcomes(done, "selection")

    def run(self) -> int:
        """All of it. Returns the exit code."""
        write_whole(self.output / "comparison.toml", lambda path: path.write_bytes(self.options.config.read_bytes()))
        file = self.output / "choices.json"
        if self.options.choices:
            adopt_choices(self.options.choices, file, self.plan)
        before = read_choices(file, self.plan) if file.is_file() else None
        selection = self.done_already() if self.options.choices else self.execute(self.entries.selection, "selection")
        choices = before
        if before is None and self.options.confirm:
            if unfinished := [outcome for outcome in selection if outcome.word not in ("finished", "diverged")]:
                self.report(selection, [], None)
                say(
                    f"nothing is chosen, because {len(unfinished)} runs of the selection failed; start again, or take "
                    "their variants out of the file"
                )
                return 1
            choices = choices_of(selection, self.plan)
            save_choices(file, choices, self.plan)
        confirmation = self.execute(self.entries.confirmed(choices), "confirmation") if choices is not None else []
        self.report(selection, confirmation, choices)
        bad = [outcome for outcome in (*selection, *confirmation) if outcome.reading is None]
        return 1 if bad else 0

    def report(self, selection: list[Outcome], confirmation: list[Outcome], choices: Choices | None) -> None:
        """Saves and prints the tables."""
        output, axes = self.output, all_axes(self.plan)
        everything = [*selection, *confirmation]
        resolved = choices or choices_of(selection, self.plan)
        table = tidy(everything, list(axes), output)
        table.insert(table.columns.get_loc("variant") + 1, "chosen", [chosen(o.entry, resolved) for o in everything])
        save_table(table, output / "results")
        texts, tables = [self.plan.title], []
        for phase, outcomes, frozen in (("selection", selection, None), ("confirmation", confirmation, resolved)):
            for cost, words in EQUALS.items() if outcomes else ():
                table = summarise(outcomes, axes, cost, frozen)
                tables.append(table.assign(phase=phase, compared_at=words))
                if cost is None or table["difference"].notna().any():
                    texts.append(f"\n{phase}, {words}\n{shown(table, list(axes), cost)}")
                if cost is None:
                    texts.append(f"\n{phase}, {words}, losses\n{shown(table, list(axes), cost, 'test_loss')}")
        texts.append(f"\n{NOTES}")
        bad = [outcome for outcome in everything if outcome.reading is None]
        if bad:
            texts.append(f"\n{len(bad)} of {len(everything)} runs are not in the tables above:")
            texts += [f"  {o.entry.job.name} ({o.phase}): {o.word}: {o.note}" for o in bad]
        summary = pd.concat(tables, ignore_index=True)
        write_whole(output / "summary.csv", lambda path: summary.to_csv(path, index=False))
        text = "\n".join(texts)
        write_whole(output / "summary.txt", lambda path: path.write_text(text + "\n"))
        print(f"{text}\n\nwritten: {output}/results.csv, results.parquet, summary.csv, summary.txt")


def require_free_tables(output: Path) -> None:
    """Raises ConfigError where a table would replace anything but a comparison's, before hours of work."""
    for name, mark in TABLES.items():
        try:
            require_place(output / name, "--output", ("table of experiments/compare.py", mark))
        except ValueError as error:
            raise ConfigError(str(error)) from None


def show_jobs(entries: Entries, frozen: Choices | None, options: argparse.Namespace) -> None:
    """What --dry_run prints: the jobs of the selection, or of the confirmation of choices that are frozen, and the time
    that they take, as far as jobs that have run in the folder tell."""
    wanted = entries.selection if frozen is None else entries.confirmed(frozen)
    left = entries.left(wanted)
    needed = {job.target for job in jobs_of(left)}
    elsewhere = {entry.job.target for entry in wanted if entry not in left}
    to_run = []
    for job in jobs_of(wanted):
        done = job.done() or job.target in elsewhere or job.target not in needed
        print("done  " if done else "to run", job.name)
        to_run += [] if done else [job]
    seconds = Journal(options.output.resolve() / "journal.jsonl").estimate(to_run, options.jobs)
    time = "known once a job has run here" if seconds is None and to_run else f"about {in_words(seconds or 0)}"
    print(f"{len(to_run)} of {len(jobs_of(wanted))} jobs to run, {options.jobs} at a time; time {time}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = parse(arguments)
    try:
        check_engine(options)
        plan = read_plan(options.config, Tables(options.dimred))
        for option in ("confirm", "choices"):
            if getattr(options, option) and not plan.confirmation_seeds:
                raise ConfigError(f"{options.config}: --{option} needs confirmation_seeds")
        entries = Entries(options, plan)
        if options.dry_run:
            show_jobs(entries, read_choices(options.choices, plan) if options.choices else None, options)
            return 0
        require_free_tables(options.output)
        begin_engine = engine_of(options)
        with take(options.output.resolve()) as lock:
            comparison = Comparison(options, entries, lambda: begin_engine(options.output.resolve(), lock))
            try:
                return comparison.run()
            finally:
                comparison.close()
    except ConfigError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except (Busy, EngineError, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        print(f"compare: {stopped}", file=sys.stderr)
        return 128 + stopped.number


if __name__ == "__main__":
    sys.exit(main())
