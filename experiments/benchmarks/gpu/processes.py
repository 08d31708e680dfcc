"""Commands that may fail or hang: each in a process group of its own, with a limit of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE = 2.0  # seconds between the request to end and the end


@dataclass(frozen=True)
class Ended:
    """A command's exit code (None: it was stopped at its limit) and its seconds."""

    code: int | None
    seconds: float


def is_done(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Waits until it has ended or the deadline. It stays a zombie, whose group's number nobody else can get."""
    while True:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)


def run_limited(command: Sequence[str], log: Path, limit: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Runs a command whose output goes behind what `log` has. Stopped after `limit` seconds; whatever its group still
    holds when it has ended, is killed. Returns also where a process cannot be killed, because its driver hangs."""
    start = time.monotonic()
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        done = False
        try:
            done = is_done(process, start + limit)
            if not done:
                os.killpg(process.pid, signal.SIGTERM)
                is_done(process, time.monotonic() + GRACE)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
    return Ended(process.returncode if done else None, time.monotonic() - start)


def cut_middle(log: Path, begin: int, most: int) -> None:
    """Leaves at most `most` bytes of what `log` has from byte `begin` on: its first and its last ones, and a line
    between them."""
    size = log.stat().st_size - begin
    if size <= most:
        return
    with log.open("r+b") as stream:
        stream.seek(begin + size - most // 2)
        tail = stream.read()
        stream.seek(begin + most // 2)
        stream.write(b"\n[... %d bytes were left out ...]\n" % (size - 2 * (most // 2)))
        stream.write(tail)
        stream.truncate()
