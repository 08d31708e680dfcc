"""Runs one command as a user does, and measures its end, its time and its memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TIME_LIMIT = 90.0  # seconds after which a command counts as hung
LARGEST = 8 << 30  # bytes of addresses, so that what never ends does not take the machine's memory
LONGEST_TEXT = 1 << 20  # bytes of what a command prints that are looked at


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str
    seconds: float  # by the clock, but for those in which others had the processor
    processor: float  # seconds of processor time
    peak: int  # bytes of memory, of the largest process
    hung: bool = False


def text_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(LONGEST_TEXT).decode(errors="replace")


def kill_group(process: subprocess.Popen[bytes], hung: threading.Event) -> None:
    hung.set()
    os.killpg(process.pid, signal.SIGKILL)


def waited_for(process: int) -> float:
    """Seconds in which it could have gone on, but others had the processors."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9


def run(
    words: list[str], environment: dict[str, str], file_size: int | None = None, limit: float = TIME_LIMIT
) -> Ended:
    """The command's end; `file_size`: as after `ulimit -f`, in bytes."""

    def prepare() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST))
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started, ours = time.monotonic(), waited_for(os.getpid())
        # With a preexec_fn the child is forked, so that its peak begins with our own few pages, not with all.
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            preexec_fn=prepare,  # noqa: PLW1509
        )
        hung = threading.Event()
        watch = threading.Timer(limit, kill_group, (process, hung))
        watch.daemon = True  # an early end does not wait for it
        watch.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.monotonic() - started - waited_for(process.pid) - (waited_for(os.getpid()) - ours)
        _, status, usage = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            process.returncode,
            text_of(output),
            text_of(errors),
            seconds,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
            hung.is_set(),
        )


def apart(work: Callable[..., None], *arguments: object) -> None:
    """Calls it in a process of its own, so that what it imports is not in the peaks of those that follow."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")


def bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
