"""Programs with a time limit, which take all that they started along when it is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class Failed(RuntimeError):
    """A program's error, in one line."""


class Stopped(RuntimeError):
    """Its time was over."""


@dataclass(frozen=True)
class Done:
    """What a program said, and how long it took from its start to its end."""

    output: str
    seconds: float


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends a process that leads a session of its own, and all in it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def call(command: Sequence[object], environment: Mapping[str, str], seconds: float, fail: bool = True) -> Done:
    """Runs a program to its end. Raises Failed (unless `fail` is false), Stopped after `seconds`."""
    words = [str(word) for word in command]
    name = f"{Path(words[0]).name} {words[1] if len(words) > 1 else ''}".strip()
    if seconds <= 0:
        raise Stopped(f"no time was left for {name}")
    start = time.perf_counter()
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   text=True, env=dict(environment), start_new_session=True)  # fmt: skip
    except OSError as error:
        raise Failed(f"cannot start {words[0]}: {error.strerror}") from error
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Stopped(f"{name} was not done after {seconds:.0f} s") from None
    finally:
        if process.poll() is None:
            end_group(process)
    if process.returncode and fail:
        raise Failed(f"{name} ended with {process.returncode}: {last_line(errors) or last_line(output)}")
    return Done(output, time.perf_counter() - start)
