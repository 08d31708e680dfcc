"""Runs jobs side by side on an engine: resumes, never repeats, and leaves no process behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TextIO

from .engine import Ended, Engine
from .jobs import Job

TRIES = 3  # starts of a job whose process was killed: it resumes
# What our trainers say; a file's name, and a damaged file's value, may have the words, too.
DIVERGED = re.compile(r"\b(?:the|a) (?:\w+ )?(?:loss|weights|gradient)\b[^/'\"]*? (?:is|are) not finite\b")
SECONDS = re.compile(r"^# ([\d.]+) seconds$", re.MULTILINE)
PATIENCE = 30.0  # seconds for the processes of a killed comparison to save and end


class Busy(RuntimeError):
    """Another comparison works in the folder."""


class Stopped(Exception):
    """A signal asked to end; every process has saved, or is left to its engine."""

    def __init__(self, number: int, left: bool) -> None:
        """The signal."""
        fate = (
            "the started runs continue; the same command reconnects to them"
            if left
            else "all runs have saved their states; run the same command again to continue"
        )
        super().__init__(f"stopped by {signal.Signals(number).name}; {fate}")
        self.number = number


def take(output: Path, patience: float = PATIENCE) -> TextIO:
    """Locks the folder. The lock is handed down to every process, so that a comparison whose predecessor
    was killed waits until the last of its runs has saved. Raises Busy."""
    output.mkdir(parents=True, exist_ok=True)
    lock = (output / ".lock").open("a")
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(f"another comparison, or one of its runs, is using {output}") from None
            time.sleep(0.1)


def last_line(log: Path) -> str:
    """The last line of a process's output."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


@dataclass
class Journal:
    """Seconds of every finished job, a line each; a line that a kill cut off is passed over."""

    path: Path
    by_kind: dict[str, list[float]] = field(default_factory=dict)
    by_target: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reads what is there."""
        for line in self.path.read_text().splitlines() if self.path.is_file() else []:
            try:
                self.count(**json.loads(line))
            except (json.JSONDecodeError, TypeError):
                continue

    def count(self, target: str, kind: str, seconds: float) -> None:
        """Takes one finished job into account; a resumed job's parts add up."""
        target = self.relative(target)
        self.by_target[target] = self.by_target.get(target, 0.0) + seconds
        self.by_kind.setdefault(kind, []).append(seconds)

    def relative(self, target: Path | str) -> str:
        """The path relative to the comparison's folder, which may be moved."""
        return os.path.relpath(target, self.path.parent) if os.path.isabs(target) else str(target)

    def seconds(self, job: Job | None) -> float:
        """The threads of a job; 0 without one."""
        return self.by_target.get(self.relative(job.target), 0.0) if job else 0.0

    def add(self, job: Job, seconds: float) -> None:
        """Writes one down."""
        target, seconds = self.relative(job.target), round(seconds, 3)
        line = {"target": target, "kind": job.kind, "seconds": seconds}
        begin = "\n" if self.path.is_file() and not self.path.read_bytes().endswith(b"\n") else ""
        with self.path.open("a") as stream:
            stream.write(begin + json.dumps(line) + "\n")
        self.count(target, job.kind, seconds)

    def recover(self, job: Job) -> None:
        """Writes down one that finished while nobody watched, from what its worker wrote into its log."""
        if self.relative(job.target) not in self.by_target and job.log.is_file():
            for seconds in SECONDS.findall(job.log.read_text(errors="replace"))[-1:]:
                self.add(job, float(seconds))

    def estimate(self, jobs: Sequence[Job], slots: int) -> float | None:
        """Seconds until the jobs are done, from those of the same kind, else of any; None: no idea."""
        means = {kind: sum(times) / len(times) for kind, times in self.by_kind.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        return sum(means.get(job.kind, usual) for job in jobs) / slots


def in_words(seconds: float | None) -> str:
    """`3 min 20 s`."""
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


class Scheduler:
    """Starts what is ready, as much as the engine takes, until nothing is left."""

    def __init__(
        self,
        binary: Path,
        threads: int,
        journal: Journal,
        open_engine: Callable[[], Engine],
        say: Callable[[str], None],
    ) -> None:
        """`open_engine` is asked when there is anything to run; `say` prints a line of progress."""
        self.binary, self.threads = binary, threads
        self.journal, self.open_engine, self.say = journal, open_engine, say
        self.engine: Engine | None = None
        self.running: set[Job] = set()
        self.starts: dict[Path, int] = {}
        self.failed: dict[Path, str] = {}  # target -> why
        self.finished = self.total = 0  # jobs
        self.signal = 0
        self.changed = True  # something may be ready that was not

    def run(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Runs all that are not done; returns why each of the others failed. Raises Stopped and EngineError."""
        waiting = [job for job in jobs if not job.done()]
        self.finished, self.total = len(jobs) - len(waiting), len(jobs)
        names = {job.target: job.name for job in jobs}
        for job in set(jobs).difference(waiting):
            self.journal.recover(job)
        if not waiting:
            return self.failed
        previous = {number: signal.signal(number, self.ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            engine = self.engine = self.open_engine()
            left = in_words(self.journal.estimate(waiting, engine.slots))
            self.say(f"{len(jobs)} jobs, {self.finished} done already; {engine.slots} at a time, time left {left}")
            while waiting or self.running:
                waiting = self.advance(engine, waiting, names)
                time.sleep(0.02)
        finally:
            if self.engine:
                self.engine.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self.failed

    def ask_to_stop(self, number: int, _frame: FrameType | None) -> None:
        """The first signal lets every process save; a second one kills."""
        if self.signal and self.engine:
            self.engine.kill()
        self.signal = number

    def advance(self, engine: Engine, waiting: list[Job], names: dict[Path, str]) -> list[Job]:
        """One look around; returns the jobs still waiting. `names` of jobs by target."""
        if self.signal:
            engine.stop()
            raise Stopped(self.signal, engine.leaves)
        for end in engine.ended():
            self.running.remove(end.job)
            self.changed = True
            again = self.finish_job(end, waiting, engine.slots)
            waiting = [end.job, *waiting] if again else waiting
        if not self.changed or not engine.has_room():  # nothing to start: hundreds of files need no look
            return waiting
        self.changed = False
        open_targets = {job.target for job in (*waiting, *self.running)}
        for job in list(waiting):
            if job.diverged.is_file():
                self.fail(job, job.diverged.read_text().strip(), report=False)
                waiting.remove(job)
            elif broken := [need for need in job.needs if need in self.failed]:
                ended = "diverged" if self.failed[broken[0]].startswith("diverged") else "not started"
                self.fail(
                    job, f"{ended}: {names[broken[0]]} {'did' if ended == 'diverged' else 'failed'}", report=False
                )
                waiting.remove(job)
            elif engine.has_room() and not open_targets.intersection(job.needs):
                waiting.remove(job)
                self.start(engine, job)
        return waiting

    def start(self, engine: Engine, job: Job) -> None:
        """Hands its command to the engine."""
        for folder in (job.log.parent, job.target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        arguments = [str(self.binary), *job.arguments(self.threads)]
        if job.command == "pca":  # a kill may have left part of what belongs together
            arguments.append("--overwrite=true")
        engine.start(job, arguments)
        self.starts[job.target] = self.starts.get(job.target, 0) + 1
        self.running.add(job)

    def finish_job(self, end: Ended, waiting: list[Job], slots: int) -> bool:
        """Takes the end of a process into account; True: start it again, it was killed and resumes."""
        job, code = end.job, end.code
        if code == 0 and job.done():
            self.journal.add(job, end.seconds)
            self.finished += 1
            left = in_words(self.journal.estimate([*waiting, *self.running], slots))
            self.say(f"[{self.finished}/{self.total}] {job.name}: {in_words(end.seconds)}; time left {left}")
            return False
        if self.signal:
            return False
        killed = code < 0 or code > 128
        if killed and self.starts[job.target] < TRIES:
            self.say(f"{job.name}: {end.why or f'killed ({code})'}; the job is started again")
            return True
        said = end.why or last_line(job.log)
        why = f"ended with {code}: {said}"
        if not killed and DIVERGED.search(said):
            why = f"diverged: {said}"
            job.diverged.write_text(why + "\n")
        self.fail(job, why)
        return False

    def fail(self, job: Job, why: str, report: bool = True) -> None:
        """Named, and the others go on."""
        self.failed[job.target] = why
        self.finished += 1
        self.changed = True
        if report:
            self.say(f"[{self.finished}/{self.total}] {job.name}: FAILED: {why} ({job.log})")
