"""Several ranks of one command on this machine, started as a launcher would."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cli import cli
from fashion import few

PATIENCE = 90  # seconds after which a test's ranks hang
SMALL = cli(
    "--train_samples=1500 --test_samples=298 --global_batch_size=60 --threads=1 --learning_rate=0.02",
    "--snapshots_per_epoch=8 --heartbeat_timeout=2",
    data=few(),
)


@dataclass(frozen=True)
class Ended:
    """How the ranks of a command ended, by rank."""

    codes: list[int]
    output: list[str]
    errors: list[str]


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment_of(rank: int, size: int, port: int) -> dict[str, str]:
    """torchrun's variables, without its agent."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


@contextmanager
def running(
    commands: Sequence[Sequence[object]],
    environments: Sequence[Mapping[str, str]],
    folders: Sequence[Path | None] | None = None,
) -> Iterator[list[subprocess.Popen[str]]]:
    """A process for each command, in its folder of `folders`; killed if they are still there at the end."""
    processes = [
        subprocess.Popen(
            [*map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment
        )
        for command, environment, folder in zip(commands, environments, folders or [None] * len(commands), strict=True)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def started(
    program: Path,
    arguments: Sequence[object],
    ranks: int,
    port: int | None = None,
    folders: Sequence[Path | None] | None = None,
    **variables: str,
) -> Iterator[list[subprocess.Popen[str]]]:
    """The ranks' processes; killed if they are still there at the end. Lists in `arguments` and
    `folders` (to start in) give each rank its own."""
    port = port or free_port()
    of_ranks: Any = arguments if isinstance(arguments[0], list) else [arguments] * ranks
    environments = [{**os.environ, **environment_of(rank, ranks, port), **variables} for rank in range(ranks)]
    with running([[program, *own] for own in of_ranks], environments, folders) as processes:
        yield processes


def ended(processes: Sequence[subprocess.Popen[str]], patience: float = PATIENCE) -> Ended:
    """Waits for all."""
    texts = [process.communicate(timeout=patience) for process in processes]
    return Ended([process.returncode for process in processes], [out for out, _ in texts], [err for _, err in texts])


def run_ranks(program: Path, arguments: Sequence[object], ranks: int, patience: float = PATIENCE) -> Ended:
    """Starts and waits."""
    with started(program, arguments, ranks) as processes:
        return ended(processes, patience)


def vectors(run: Path) -> dict[str, np.ndarray]:
    """The newest resume state's float vectors."""
    state = sorted((run / "checkpoints").iterdir())[-1]
    return {file.stem: np.fromfile(file, np.float32) for file in state.glob("*.f32")}


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Relative."""
    return float(np.linalg.norm(one.astype(np.float64) - other) / np.linalg.norm(one))


def refused(done: Ended, code: int, *texts: str) -> None:
    """Every rank leaves with the code, rank 0 alone says why, in one line."""
    assert done.codes == [code] * len(done.codes), done
    lines = [text.splitlines() for text in done.errors]
    assert len(lines[0]) == 1, done.errors
    assert lines[1:] == [[]] * (len(lines) - 1), done.errors
    for text in texts:
        assert text in lines[0][0]
