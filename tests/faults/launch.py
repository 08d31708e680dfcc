"""Starts a program as one or several ranks, kills it or injects a fault into it, and says how it ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

TIME_LIMIT = 60.0  # seconds for a run that takes one
NOTICE_LIMIT = 10.0  # seconds in which the other ranks must notice that one is gone
TIMEOUTS = ("--heartbeat_timeout=2", "--rendezvous_timeout=5")  # seconds, where there are several ranks


@dataclass(frozen=True)
class Build:
    """The folder with bin/dimred and lib/libfault_shim.so."""

    folder: Path

    @property
    def front(self) -> Path:
        return self.folder / "bin" / "dimred"

    @property
    def shim(self) -> Path:
        return self.folder / "lib" / "libfault_shim.so"


@dataclass(frozen=True)
class Fault:
    """What the shim does, see shim_fault.cpp."""

    action: str
    number: int = 1
    every: int = 0
    kind: str = "any"

    def environment(self, under: Path, shim: Path, log: Path) -> dict[str, str]:
        text = f"under={under},kind={self.kind},number={self.number},every={self.every},action={self.action}"
        return {"LD_PRELOAD": str(shim), "DIMRED_FAULT": text, "DIMRED_FAULT_LOG": str(log)}


@dataclass(frozen=True)
class Command:
    """One command of the front, its output folder and how many ranks run it."""

    arguments: tuple[str, ...]
    folder: Path
    ranks: int = 1


@dataclass(frozen=True)
class Call:
    """A line of the shim's log."""

    number: int
    kind: str
    path: str
    hit: bool

    @staticmethod
    def parse(line: str) -> Call:
        number, kind, path = line.split(" ", 2)
        return Call(int(number.lstrip("*")), kind, path.rstrip("\n"), number.startswith("*"))


@dataclass
class Ended:
    """How a command ended; `code` is that of the first rank that did not end well, else 0."""

    code: int
    output: str
    errors: list[str]
    seconds: float
    notice: float = 0.0  # seconds from the first rank's bad end to the last one's end
    calls: list[Call] = field(default_factory=list)
    killed: bool = False  # a rank, by SIGKILL
    hung: bool = False  # TIME_LIMIT or NOTICE_LIMIT was not enough

    @property
    def hit(self) -> Call | None:
        return next((call for call in self.calls if call.hit), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_environments(ranks: int) -> list[dict[str, str]]:
    """What torchrun would set; nothing for a single rank."""
    if ranks == 1:
        return [{}]
    shared = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


class Running:
    """The processes of one command."""

    def __init__(self, build: Build, command: Command, faults: Mapping[int, Fault] | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="dimred_faults_")
        self._log = Path(self._scratch.name) / "calls"
        self._started = time.monotonic()
        self._output: list[IO[str]] = []
        self._errors: list[IO[str]] = []
        self._processes: list[subprocess.Popen[str]] = []
        for rank, environment in enumerate(rank_environments(command.ranks)):
            fault = (faults or {}).get(rank)
            injected = fault.environment(command.folder, build.shim, self._log) if fault else {}
            self._start(build, command, environment | injected)

    def _start(self, build: Build, command: Command, environment: dict[str, str]) -> None:
        timeouts = TIMEOUTS if command.ranks > 1 else ()
        output, errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._output.append(output)
        self._errors.append(errors)
        self._processes.append(
            subprocess.Popen(
                [str(build.front), *command.arguments, *timeouts],
                text=True,
                stdout=output,
                stderr=errors,
                env=os.environ | environment,
            )
        )

    def kill(self, ranks: Iterable[int]) -> None:
        """SIGKILL; no-op for those that have ended."""
        for rank in ranks:
            self._processes[rank].kill()

    def sleep(self, seconds: float) -> None:
        """Waits until that long after the start, or until a rank has ended."""
        deadline = self._started + seconds
        while time.monotonic() < deadline and self.goes_on():
            time.sleep(max(0.0, min(0.02, deadline - time.monotonic())))

    def goes_on(self) -> bool:
        return all(process.poll() is None for process in self._processes)

    def wait(self) -> Ended:
        """Waits until all have ended: the others have NOTICE_LIMIT after the first failure, then they are killed."""
        deadline, notice, hung = self._started + TIME_LIMIT, 0.0, False
        first_end: float | None = None
        while any(process.poll() is None for process in self._processes):
            now = time.monotonic()
            if first_end is None and any(process.poll() for process in self._processes):
                first_end, deadline = now, now + NOTICE_LIMIT + 2
            if now > deadline:
                hung = True
                self.kill(range(len(self._processes)))
            time.sleep(0.002)
        now = time.monotonic()
        if first_end is not None and len(self._processes) > 1:
            notice = now - first_end
        codes = [process.returncode for process in self._processes]
        ended = Ended(
            next((code for code in codes if code), 0),
            self._text(self._output[:1]),
            self._text(self._errors).splitlines(),
            now - self._started,
            notice,
            self._calls(),
            -signal.SIGKILL in codes,
            hung,
        )
        self._scratch.cleanup()
        return ended

    @staticmethod
    def _text(files: list[IO[str]]) -> str:
        text = ""
        for file in files:
            file.seek(0)
            text += file.read()
            file.close()
        return text

    def _calls(self) -> list[Call]:
        if not self._log.exists():
            return []
        return [Call.parse(line) for line in self._log.read_text().splitlines()]


def execute(build: Build, command: Command, fault: Fault | None = None, rank: int = 0) -> Ended:
    """Runs the command to its end, with the fault in one of its ranks."""
    return Running(build, command, {rank: fault} if fault else None).wait()
