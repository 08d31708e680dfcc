"""Where the processes of a comparison run: an engine takes commands and says how they ended."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from .jobs import Job
from .worker import spawn

LEFT = "engine.json"  # in a comparison's folder: the scheduler that works for it, and the runs that were left to it


class EngineError(RuntimeError):
    """An engine that cannot be had, or cannot go on; the text is one line."""


@dataclass(frozen=True)
class Ended:
    """The end of a job's process."""

    job: Job
    code: int  # negative, or above 128: killed, and it resumes
    seconds: float
    why: str = ""  # where a code does not say it


def left_in(output: Path) -> dict[str, Any] | None:
    """What an earlier start left at work, or nothing."""
    try:
        return dict(json.loads((output / LEFT).read_text()))
    except (OSError, ValueError):
        return None


class Engine(Protocol):
    """What the scheduler asks of it, from one thread."""

    leaves: bool  # `stop` leaves the processes to themselves

    @property
    def slots(self) -> int:
        """Processes at a time, for the estimate of time."""

    def has_room(self) -> bool:
        """Whether it takes another job now."""

    def start(self, job: Job, arguments: list[str]) -> None:
        """Takes the job's command; what it prints goes to the end of the job's log."""

    def ended(self) -> list[Ended]:
        """What has ended since the last call. Raises EngineError."""

    def stop(self) -> None:
        """Ends everything by SIGTERM and returns when all has saved, or leaves it."""

    def kill(self) -> None:
        """From a signal handler: waits no longer for anything to save."""

    def close(self) -> None:
        """No more jobs."""


class Local:
    """Child processes on this machine."""

    leaves = False

    def __init__(self, slots: int, lock: TextIO) -> None:
        """`lock` is handed down to every process."""
        self.slots, self.lock = slots, lock
        self.running: dict[Job, tuple[subprocess.Popen[bytes], float]] = {}

    def has_room(self) -> bool:
        """At most `slots` at a time."""
        return len(self.running) < self.slots

    def start(self, job: Job, arguments: list[str]) -> None:
        """A process that dies with this one."""
        with job.log.open("a") as stream:
            stream.write("$ " + " ".join(arguments) + "\n")
            stream.flush()
            self.running[job] = (spawn(arguments, stream, pass_fds=(self.lock.fileno(),)), time.monotonic())

    def ended(self) -> list[Ended]:
        """Asks each."""
        over = [
            (job, process.returncode, begin)
            for job, (process, begin) in self.running.items()
            if process.poll() is not None
        ]
        for job, _, _ in over:
            del self.running[job]
        return [Ended(job, code, time.monotonic() - begin) for job, code, begin in over]

    def stop(self) -> None:
        """SIGTERM to every process, which saves; then waits for the last."""
        for process, _ in self.running.values():
            process.terminate()
        for process, _ in self.running.values():
            process.wait()
        self.running.clear()

    def kill(self) -> None:
        """SIGKILL."""
        for process, _ in self.running.values():
            process.kill()

    def close(self) -> None:
        """Nothing is kept."""


def open_local(slots: int, output: Path, lock: TextIO) -> Local:
    """Raises EngineError while runs that were left elsewhere are at work in the folder."""
    if left := left_in(output):
        host, _, port = left["scheduler"].rpartition("/")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except (OSError, ValueError):
            return Local(slots, lock)
        raise EngineError(
            f"runs still belong to the Dask scheduler at {left['scheduler']}; --engine dask reconnects to these runs "
            f"(to forget the runs, remove {output / LEFT})"
        )
    return Local(slots, lock)
