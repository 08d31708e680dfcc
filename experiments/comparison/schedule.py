"""Runs jobs side by side: resumes, never repeats, and leaves no process behind."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TextIO

from .jobs import Job

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
TRIES = 3  # starts of a job whose process was killed: it resumes
PATIENCE = 30.0  # seconds for the processes of a killed comparison to save and end


class Busy(RuntimeError):
    """Another comparison works in the folder."""


class Stopped(Exception):
    """A signal asked to end; every process has saved."""

    def __init__(self, number: int) -> None:
        """The signal."""
        super().__init__(f"stopped by {signal.Signals(number).name}")
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
                raise Busy(f"another comparison, or a run of it, is at work in {output}") from None
            time.sleep(0.1)


def die_with(parent: int) -> Callable[[], None]:
    """For the child, before it becomes dimred: SIGTERM (which saves) as soon as this process is gone."""

    def ask() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was quicker
            os._exit(1)

    return ask


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
        """To the comparison's folder, which may be moved."""
        return os.path.relpath(target, self.path.parent) if os.path.isabs(target) else str(target)

    def seconds(self, job: Job | None) -> float:
        """The threads of a job; 0 without one."""
        return self.by_target.get(self.relative(job.target), 0.0) if job else 0.0

    def add(self, job: Job, seconds: float) -> None:
        """Writes one down."""
        line = {"target": self.relative(job.target), "kind": job.kind, "seconds": round(seconds, 3)}
        begin = "\n" if self.path.is_file() and not self.path.read_bytes().endswith(b"\n") else ""
        with self.path.open("a") as stream:
            stream.write(begin + json.dumps(line) + "\n")
        self.count(**line)

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
    """Starts what is ready, at most `slots` at a time, until nothing is left."""

    def __init__(self, binary: Path, slots: int, threads: int, journal: Journal, lock: TextIO,
                 say: Callable[[str], None]) -> None:  # fmt: skip
        """`lock` is handed down to every process; `say` prints a line of progress."""
        self.binary, self.slots, self.threads = binary, slots, threads
        self.journal, self.lock, self.say = journal, lock, say
        self.running: dict[Job, tuple[subprocess.Popen[bytes], float]] = {}
        self.starts: dict[Path, int] = {}
        self.failed: dict[Path, str] = {}  # target -> why
        self.signal = 0

    def run(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Runs all that are not done; returns why each of the others failed. Raises Stopped."""
        waiting = [job for job in jobs if not job.done()]
        kept = len(jobs) - len(waiting)
        names = {job.target: job.name for job in jobs}
        self.finished, self.total = kept, len(jobs)
        if waiting:
            left = in_words(self.journal.estimate(waiting, self.slots))
            self.say(f"{len(jobs)} jobs, {kept} done already; {self.slots} at a time, time left {left}")
        previous = {number: signal.signal(number, self.ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while waiting or self.running:
                waiting = self.advance(waiting, names)
                time.sleep(0.02)
        finally:
            self.end_all()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self.failed

    def ask_to_stop(self, number: int, _frame: FrameType | None) -> None:
        """The first signal lets every process save; a second one kills."""
        if self.signal:
            for process, _ in self.running.values():
                process.kill()
        self.signal = number

    def advance(self, waiting: list[Job], names: dict[Path, str]) -> list[Job]:
        """One look around; returns the jobs still waiting. `names` of jobs by target."""
        if self.signal:
            self.end_all()
            raise Stopped(self.signal)
        for job, (process, began) in list(self.running.items()):
            if process.poll() is not None:
                del self.running[job]
                again = self.finish_job(job, process.returncode, time.monotonic() - began, waiting)
                waiting = [job, *waiting] if again else waiting
        if len(self.running) >= self.slots:  # nothing to start: hundreds of files need no look
            return waiting
        open_targets = {job.target for job in (*waiting, *self.running)}
        for job in list(waiting):
            if job.diverged.is_file():
                self.fail(job, job.diverged.read_text().strip(), report=False)
                waiting.remove(job)
            elif broken := [need for need in job.needs if need in self.failed]:
                self.fail(job, f"not started: {names[broken[0]]} failed", report=False)
                waiting.remove(job)
            elif len(self.running) < self.slots and not open_targets.intersection(job.needs):
                waiting.remove(job)
                self.start(job)
        return waiting

    def start(self, job: Job) -> None:
        """Its process gets the lock, a group of its own (Ctrl-C comes through us), and dies with us."""
        for folder in (job.log.parent, job.target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        arguments = [str(self.binary), *job.arguments(self.threads)]
        if job.command == "pca":  # a kill may have left part of what belongs together
            arguments.append("--overwrite=true")
        with job.log.open("a") as stream:
            stream.write("$ " + " ".join(arguments) + "\n")
            stream.flush()
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, process_group=0,
                preexec_fn=die_with(os.getpid()), pass_fds=(self.lock.fileno(),),
            )  # fmt: skip
        self.starts[job.target] = self.starts.get(job.target, 0) + 1
        self.running[job] = (process, time.monotonic())

    def finish_job(self, job: Job, code: int, seconds: float, waiting: list[Job]) -> bool:
        """Takes the end of a process into account; True: start it again, it was killed and resumes."""
        if code == 0 and job.done():
            self.journal.add(job, seconds)
            self.finished += 1
            left = in_words(self.journal.estimate([*waiting, *self.running], self.slots))
            self.say(f"[{self.finished}/{self.total}] {job.name}: {in_words(seconds)}; time left {left}")
            return False
        if self.signal:
            return False
        killed = code < 0 or code > 128
        if killed and self.starts[job.target] < TRIES:
            self.say(f"{job.name}: killed ({code}), goes on")
            return True
        said = last_line(job.log)
        why = f"ended with {code}: {said}"
        if not killed and "finite" in said:
            why = f"diverged: {said}"
            job.diverged.write_text(why + "\n")
        self.fail(job, why)
        return False

    def fail(self, job: Job, why: str, report: bool = True) -> None:
        """Named, and the others go on."""
        self.failed[job.target] = why
        self.finished += 1
        if report:
            self.say(f"[{self.finished}/{self.total}] {job.name}: FAILED: {why} ({job.log})")

    def end_all(self) -> None:
        """SIGTERM to every process, which saves; then waits for the last."""
        for process, _ in self.running.values():
            process.terminate()
        for process, _ in self.running.values():
            process.wait()
        self.running.clear()
