"""What tests compare of two runs, and runs that are stopped on the way."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cli import rows


def second_stage(execute: Callable[..., str], checkpoint: Path, run: Path, *words: object) -> list[dict[str, str]]:
    """The rows of a second stage of the run at `checkpoint`."""
    execute("dimred", "stage2", *words, "--checkpoint", checkpoint, "--threads=1", "--output", run)
    return rows(run)


def newest_state(run: Path) -> dict[str, bytes]:
    """The raw vectors of the newest resume state, by file name."""
    state = sorted((run / "checkpoints").iterdir())[-1]
    return {file.name: file.read_bytes() for file in state.iterdir() if file.suffix != ".json"}


def interrupted(command: list[str], stop: signal.Signals, run: Path) -> int:
    """Starts the command and sends the signal a moment after its first resume state; its exit code."""

    def states() -> int:
        return len(list(run.glob("checkpoints/state_????????")))

    before = states()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        deadline = time.monotonic() + 60
        while states() == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(0.03)
        process.send_signal(stop)
        return process.wait(timeout=60)
