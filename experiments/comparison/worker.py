"""One process of dimred, as an engine's worker or this machine starts it. Workers get this module as it stands, so it
imports nothing of ours."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

PR_SET_PDEATHSIG = 1
PATIENCE = 60.0  # seconds for the process of a lost worker, or one that is to end, to save
# Variables that change numbers, or that Dask sets: a run has the driver's.
NUMERIC = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DIMRED_", "MALLOC_")
LOST, REFUSED = -9, 1000  # codes beside those of processes


@dataclass(frozen=True)
class Facts:
    """What a worker has to have as the driver has it."""

    folder: str  # of the comparison
    marker: str  # a file in it, and
    nonce: str  # what it holds
    cwd: str  # which paths of options start from
    binary: str
    digest: str  # of the programs


def die_with(parent: int) -> Callable[[], None]:
    """For the child, before it becomes dimred: SIGTERM (which saves) as soon as the thread that started it is gone."""
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was quicker
            os._exit(1)

    return ask


def spawn(arguments: list[str], log: TextIO, **more: Any) -> subprocess.Popen[bytes]:
    """Its process has a group of its own (Ctrl-C comes through us), and dies with us."""
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        process_group=0,
        preexec_fn=die_with(os.getpid()),  # noqa: PLW1509  calls prctl alone
        **more,
    )


def digest_of(binary: str) -> str:
    """The digest of dimred and of the trainer beside it. Raises OSError."""
    files = [Path(binary), Path(binary).with_name("dimred-train")]
    return hashlib.sha256(
        b"".join(file.read_bytes() for file in files if file == files[0] or file.is_file())
    ).hexdigest()


def version_of(binary: str) -> str:
    """What it says of itself."""
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or "no version"


def unfit(facts: Facts, dask_worker: Any) -> str:
    """Why this worker can have no run; empty when it can. The digest is made once for each build."""
    here = f"worker {dask_worker.address} on {socket.gethostname()}"
    try:
        seen = Path(facts.marker).read_text() == facts.nonce
    except OSError:
        seen = False
    if not seen:
        return f"{here} does not see {facts.folder}: the folder is not shared"
    if not os.path.isdir(facts.cwd):
        return f"{here} has no folder {facts.cwd}, but relative paths start there"
    try:
        made = os.stat(facts.binary).st_mtime_ns, facts.binary
        if getattr(dask_worker, "digest_of_dimred", ("", ""))[0] != made:
            dask_worker.digest_of_dimred = made, digest_of(facts.binary)
        if dask_worker.digest_of_dimred[1] != facts.digest:
            return f"{here} has another {facts.binary}: {version_of(facts.binary)}"
    except OSError as error:
        return f"{here} cannot read {error.filename}: {error.strerror}"
    return ""


def is_taken(stream: TextIO) -> bool:
    """Whether a process holds the lock of this log; else it is ours. Where a file system has no locks nobody does."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def is_wanted(worker: Any, key: object) -> bool:
    """Whether anybody still waits for the task: its driver may have cancelled it, or be gone, or the worker closes."""
    task = worker.state.tasks.get(key)
    closing = worker.status.name in ("closing", "closed", "failed", "stopping")
    return task is not None and task.state in ("executing", "long-running") and not closing


def wait_for(process: subprocess.Popen[bytes], wanted: Callable[[], bool]) -> int:
    """Its exit code; it is ended when nobody wants it any more."""
    while wanted():
        try:
            return process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
    process.terminate()
    try:
        return process.wait(timeout=PATIENCE)
    finally:
        process.kill()


def perform(
    arguments: list[str], log: str, token: str, facts: Facts, variables: dict[str, str]
) -> tuple[int, float, str]:
    """Runs on a worker: exit code, seconds, and a reason where there was no process. The process inherits the lock of
    its log, so that another start waits until it has saved. A log that holds `token` was begun by a worker that is
    lost."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    if why := unfit(facts, worker):
        return REFUSED, 0.0, why
    with open(log, "a+") as stream:
        deadline = time.monotonic() + PATIENCE
        while is_taken(stream):
            if time.monotonic() > deadline or not is_wanted(worker, key):
                return 1, 0.0, "the process of an earlier start is still at work"
            time.sleep(0.1)
        stream.seek(0)
        if token in stream.read():
            return LOST, 0.0, "its worker was lost"
        stream.write(f"$ {' '.join(arguments)}  # {worker.address} {token}\n")
        stream.flush()
        os.fsync(stream.fileno())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(NUMERIC)} | variables
        begin = time.monotonic()
        code = wait_for(spawn(arguments, stream, cwd=facts.cwd, env=environment), lambda: is_wanted(worker, key))
        seconds = time.monotonic() - begin
        if code == 0:  # for a driver that is not there to be told
            stream.write(f"# {seconds:.3f} seconds\n")
    return code, seconds, ""
