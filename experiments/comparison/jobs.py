"""From a plan to commands: every run once, shared by all that need it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.jobs import as_text, flags, is_done

from .options import BUDGET, EPOCHS, RELATIVE, SEED, Tables
from .plan import Method, Options, Plan

START = "stage 1"  # what the row of the common start is called


@dataclass(frozen=True)
class Job:
    """One command; `target` is a run folder or a matrix. The same target is the same job."""

    target: Path
    name: str  # for messages
    kind: str  # for the estimate of time
    command: str
    options: tuple[tuple[str, Any], ...] = field(compare=False)
    needs: tuple[Path, ...] = ()

    def arguments(self, threads: int) -> list[str]:
        """The words of dimred's command line."""
        own = {"threads": threads, "output": self.target, "quiet": True}
        return [self.command, *flags(dict(self.options) | own)]

    def done(self) -> bool:
        """Whether its result is there, with a matrix's Gram matrix."""
        return is_done(self.command, self.target) and dict(self.options).get("gram", self.target).exists()

    @property
    def log(self) -> Path:
        """Everything that it printed, start after start."""
        return (self.target.parent if self.command == "pca" else self.target).with_suffix(".log")

    @property
    def diverged(self) -> Path:
        """Note of a run that met values that are not finite: it would again, so it is not repeated."""
        return self.target.with_suffix(".diverged")


@dataclass(frozen=True)
class Entry:
    """One line of the results: a run, and what it is in the comparison."""

    seed: int
    role: str  # start | method | baseline | control
    method: str
    variant: str
    axes: tuple[tuple[str, str | float], ...]  # of the axes that it depends on
    job: Job = field(compare=False)
    matrix: Job | None = field(default=None, compare=False)
    start: Job | None = field(default=None, compare=False)


def sweep(table: dict[str, list[Any]]) -> list[Options]:
    """The cartesian product: one set of options for each combination."""
    return [dict(zip(table, values, strict=True)) for values in itertools.product(*table.values())]


def label(options: Options) -> str:
    """`alpha=0.01 start=mean`."""
    return " ".join(f"{key}={as_text(value)}" for key, value in options.items())


class Planner:
    """Makes the entries of a plan for some seeds."""

    def __init__(self, plan: Plan, output: Path) -> None:
        """`output` is part of every path, and paths are part of a run's configuration: resolved once."""
        self.plan, self.output = plan, output.resolve()

    def target(self, seed: int, name: str, *identity: object) -> Path:
        """A folder of its own for each name and set of options."""
        text = json.dumps(identity, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self.output / f"seed_{seed}" / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}-{digest}"

    def stage1(self, seed: int, axes: Options) -> Job:
        """The common start."""
        options = self.plan.stage1 | axes
        target = self.target(seed, "stage1", options)
        return Job(target, named(START, seed, axes), "stage1", "stage1", (*options.items(), (SEED, seed)))

    def matrix(self, seed: int, name: str, axes: Options, start: Job, stage1: Options) -> Job:
        """A matrix of a start's snapshots; axes do not touch what [matrices.NAME] says itself. stage1: the start's."""
        known = self.plan.tables["pca"]
        options = axes | self.plan.matrices[name]
        seeded = {} if SEED in options or SEED in self.plan.ask.idle("pca", options) else {SEED: seed}
        folder = self.target(seed, name, options, start.target.name)
        gram = {"gram": folder / "gram.npy"} if "gram" in known else {}
        options |= seeded | gram | {"snapshots": start.target / "snapshots"}
        return Job(
            folder / "pca_mat.npy",
            named(f"matrix {name}", seed, stage1 | axes),
            f"matrix {name}",
            "pca",
            tuple(options.items()),
            (start.target,),
        )

    def run(self, seed: int, method: Method, variant: Options, axes: Options, start: Job, matrix: Job | None) -> Job:
        """Stage 2 from the start, or stage 1 continued. variant: with its matrix, where the method has several."""
        name = named(" ".join(filter(None, (method.name, label(variant)))), seed, axes)
        options = {key: value for key, value in variant.items() if key != "matrix"}
        options = method.options | options
        identity = (options, start.target.name, matrix.target.parent.name if matrix else "")
        target = self.target(seed, method.name, method.command, *identity)
        needs = [start.target, *([matrix.target] if matrix else [])]
        if method.command == "stage2":
            source = {"checkpoint": start.target} | ({"pca_mat": matrix.target} if matrix else {})
        else:
            options = continued(self.plan.ask, dict(start.options), options)
            source = {"resume_from": start.target}
        options |= source | {SEED: seed}
        return Job(target, name, method.name, method.command, tuple(options.items()), tuple(needs))

    def takes(self, method: Method) -> dict[str, list[Any]]:
        """The axes of methods that apply to this one: options of its command that it does not set itself."""
        known = {*self.plan.tables[method.command], *([BUDGET] if method.command == "stage1" else [])}
        own = {*method.options, *method.variants}
        epochs = {BUDGET} if own & {EPOCHS, BUDGET} else set()  # one replaces the other
        return {k: v for k, v in self.plan.axes["methods"].items() if k in known - own - epochs}

    def entries(self, seeds: Sequence[int]) -> list[Entry]:
        """Every line of the table; entries may share jobs, and no two are equal."""
        found = (
            entry for seed in seeds for axes in sweep(self.plan.axes["stage1"]) for entry in self.of_start(seed, axes)
        )
        return list(dict.fromkeys(found))

    def of_start(self, seed: int, stage1: Options) -> Iterator[Entry]:
        """Everything that goes on from one stage 1."""
        start = self.stage1(seed, stage1)
        yield Entry(seed, "start", START, "", tag("stage1", stage1), start)
        for method in self.plan.methods:
            for variant, swept_own in itertools.product(sweep(method.variants), sweep(self.takes(method))):
                own = of_use(self.plan.ask, method, dict(start.options), variant | swept_own, swept_own)
                name = variant.get("matrix")
                swept = (
                    {k: v for k, v in self.plan.axes["matrices"].items() if k not in self.plan.matrices[name]}
                    if name
                    else {}
                )
                shown = {k: v for k, v in variant.items() if k != "matrix" or len(method.variants["matrix"]) > 1}
                for axes in sweep(swept):
                    matrix = self.matrix(seed, name, axes, start, stage1) if name else None
                    tags = tag("stage1", stage1) + tag("matrices", axes) + tag("methods", own)
                    job = self.run(seed, method, own | shown, stage1 | axes, start, matrix)
                    yield Entry(seed, method.role, method.name, label(shown), tags, job, matrix, start)


def inherited(start: Options) -> Options:
    """The options that a continued stage 1 has from its start."""
    return {k: v for k, v in start.items() if k != SEED} | {"snapshots_per_epoch": 0}


def of_use(ask: Tables, method: Method, start: Options, chosen: Options, axes: Options) -> Options:
    """The axes without those that have no effect on the method with the others' values."""
    before = inherited(start) if method.command == "stage1" else {}
    unused = ask.idle(method.command, before | method.options | chosen)
    return {k: v for k, v in axes.items() if k not in unused}


def continued(ask: Tables, start: Options, options: Options) -> Options:
    """Options of stage 1 continued: `budget` = X and texts like "+2" count from the start's end; the start's own
    stay but for those that the others leave without effect."""
    options = dict(options)
    if BUDGET in options:
        options[EPOCHS] = f"+{options.pop(BUDGET)}"
    for key, value in options.items():
        if isinstance(value, str) and RELATIVE.match(value):
            total = float(start[EPOCHS]) + float(value)
            options[key] = int(total) if total == int(total) else total
    whole = inherited(start) | options
    return {k: v for k, v in whole.items() if k in options or k not in ask.idle("stage1", whole)}


def named(what: str, seed: int, axes: Options) -> str:
    """For messages."""
    return ", ".join(filter(None, (what, label(axes), f"seed {seed}")))


def cell(value: Any) -> str | float:
    """A value as it stands in a column."""
    return as_text(value) if isinstance(value, (list, bool)) else value


def tag(table: str, options: Options) -> tuple[tuple[str, str | float], ...]:
    """Axes as columns: ("matrices.components", 8)."""
    return tuple((f"{table}.{key}", cell(value)) for key, value in options.items())


def jobs_of(entries: Sequence[Entry]) -> list[Job]:
    """Each job once, what it needs before it."""
    ordered: dict[Path, Job] = {}
    for entry in entries:
        for job in (entry.start, entry.matrix, entry.job):
            if job is not None:
                ordered.setdefault(job.target, job)
    return list(ordered.values())
