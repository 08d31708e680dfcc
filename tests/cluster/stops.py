"""Slurm jobs that are requeued, preempted, out of time, or lose a node: each ends with the bits of an uninterrupted
one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cli import cli, rows_in

from .hosts import Hosts, wait_until
from .jobs import BATCH, Job, gone, outcome, submit
from .table import Table

RANKS = 4
LONGER = 300  # seconds: a limit of time is a minute at least, and a requeued job waits
EPOCHS = 24
STAGE_1 = cli(
    *BATCH,
    "--heartbeat_timeout=3 --train_samples=3000 --test_samples=100 --snapshots_per_epoch=1",
    "--learning_rate=0.02",
    epochs=EPOCHS,
)


@dataclass(frozen=True)
class Event:
    """What happens to a job in the middle of stage 1, and what must come of it."""

    happens: Callable[[Hosts, str], None]
    options: tuple[str, ...] = ()  # of sbatch
    comes_back: bool = True


def requeue(place: Hosts, number: str) -> None:
    place.ask("scontrol", "requeue", number)


def sigterm(place: Hosts, number: str) -> None:
    place.ask("scancel", "--signal=TERM", number)


def preempt(place: Hosts, number: str) -> None:
    """Preempts the job by another one that needs every processor."""
    words = ["--partition=high", "--nodes=4", "--ntasks-per-node=4", "--output=/dev/null"]
    other = place.ask("sbatch", "--parsable", *words, "--wrap=sleep 1").strip()
    wait_until(lambda: gone(place, other), "the other job", LONGER)


def lose_node(place: Hosts, number: str) -> None:
    """The second of the job's nodes."""
    nodes = place.ask("squeue", "--noheader", f"--jobs={number}", "--format=%N").strip()
    lost = place.ask("scontrol", "show", "hostnames", nodes).split()[1]
    place.kill(lost)
    wait_until(lambda: "down" in place.ask("sinfo", "--noheader", f"--nodes={lost}", "--format=%T"), "the node's end")
    place.start_node(lost)


def nothing(_: Hosts, __: str) -> None:
    """Time passes."""


def cancel(place: Hosts, number: str) -> None:
    place.ask("scancel", number)


EVENTS = {
    "scontrol requeue": Event(requeue),
    "SIGTERM to its ranks": Event(sigterm),
    "preempted": Event(preempt),
    "a node dies": Event(lose_node),
    "time limit": Event(nothing, ("--time=1", "--signal=TERM@40")),
    "scancel": Event(cancel, comes_back=False),
}


def epochs_done(run: Path) -> int:
    """Rows of the curve behind the start's."""
    curve = run / "curve.csv"
    if not curve.exists():
        return 0
    return sum(1 for _ in rows_in(curve))


def starts_of(place: Hosts, number: str) -> int:
    """How often Slurm has started the job."""
    facts = dict(word.split("=", 1) for word in place.ask("scontrol", "show", "job", number).split() if "=" in word)
    return int(facts["Restarts"]) + 1


def disturbed(place: Hosts, job: Job, event: Event) -> tuple[str, str]:
    """What is wrong, and the digest of the weights at the end."""
    number = submit(place, job, RANKS, *event.options)
    wait_until(lambda: epochs_done(job.runs / "one") >= 2 or gone(place, number), "two epochs")
    event.happens(place, number)
    wait_until(lambda: gone(place, number), "the job's end", LONGER)
    starts = starts_of(place, number)
    if not event.comes_back:
        later = epochs_done(job.runs / "one")
        return ("" if starts == 1 and later < EPOCHS else f"started {starts} times, {later} epochs"), ""
    found = outcome(job, RANKS)
    if found.problem:
        return found.problem, ""
    if starts < 2 or "continuing at" not in job.text():
        return f"started {starts} times, and did not go on", ""
    return "", found.digest


def stops(place: Hosts, build: Path, root: Path, only: str, table: Table) -> None:
    """Against an uninterrupted job of the same ranks."""
    expected = ""
    for name, event in {"uninterrupted": Event(nothing), **EVENTS}.items():
        if only not in f"slurm {name}" and name != "uninterrupted":
            continue
        job = Job(build, root / f"stop_{name.replace(' ', '_')}", STAGE_1)
        job.folder.mkdir()
        since = time.monotonic()
        try:
            if name == "uninterrupted":
                number = submit(place, job, RANKS)
                wait_until(lambda number=number: gone(place, number), "the job's end", LONGER)  # type: ignore[misc]
                found = outcome(job, RANKS)
                wrong, expected = found.problem, found.digest
            else:
                wrong, bits = disturbed(place, job, event)
                if not wrong and event.comes_back and bits != expected:
                    wrong = f"{bits[:12]}, not the bits of an uninterrupted job, {expected[:12]}"
        except RuntimeError as error:
            wrong = str(error)
        table.add("slurm", RANKS, name, "FAILED" if wrong else "passed", time.monotonic() - since, wrong)
