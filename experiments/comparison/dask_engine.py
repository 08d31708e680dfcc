"""Runs on the workers of a Dask scheduler: one that is there, or one of this comparison with workers on this machine or
in Slurm's jobs."""

from __future__ import annotations

import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import cloudpickle
import distributed
from workbench.files import write_whole

from . import cluster, worker
from .engine import LEFT, Ended, EngineError, left_in
from .jobs import Job
from .options import ConfigError
from .worker import LOST, NUMERIC, REFUSED, Facts

REACH = 5.0  # seconds for a scheduler to answer
BEGIN = 60.0  # seconds for a scheduler of ours to begin
SHARED = 60.0  # seconds until a shared folder shows here what a worker wrote
ALONE = 60.0  # seconds without a worker, after which it is said


@dataclass
class Asked:
    """What the command line says of an engine."""

    slurm: bool
    jobs: int
    threads: int
    scheduler: str | None
    cluster: Path | None
    leave: bool
    slurm_options: dict[str, Any] = field(default_factory=dict)


def check(asked: Asked) -> None:
    """Before any work. Raises ConfigError for what is wrong, EngineError for what is missing."""
    if not asked.slurm:
        return
    if asked.cluster:
        try:
            asked.slurm_options = tomllib.loads(asked.cluster.read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"--cluster {asked.cluster}: {getattr(error, 'strerror', None) or error}") from None
    try:
        job_script(asked, Path("logs"))
    except (TypeError, ValueError) as error:
        reason = str(error).split("__init__() ")[-1].splitlines()[0]
        place = f"--cluster {asked.cluster}" if asked.cluster else "jobqueue.yaml"
        raise ConfigError(f"{place}: {reason} (arguments of dask-jobqueue's SLURMCluster)") from None
    if not shutil.which("sbatch"):
        raise EngineError("--engine slurm needs Slurm's sbatch, but sbatch is not on PATH")


def job_script(asked: Asked, logs: Path) -> str:
    """What sbatch gets for each worker."""
    from dask_jobqueue.slurm import SLURMJob

    arguments = cluster.slurm_arguments(asked.slurm_options, asked.threads, logs)
    made = {
        key: value for key, value in arguments.items() if key not in ("scheduler_options", "log_directory")
    }  # which it would make
    return str(SLURMJob("tcp://scheduler:8786", name="worker", **made).job_script())


def connect(address: str) -> Any:
    """A client of it. Raises EngineError."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
    try:
        return distributed.Client(address, timeout=REACH, set_as_default=False)
    except ValueError as error:
        raise ConfigError(f"--scheduler {address}: {error}") from None
    except OSError as error:
        raise EngineError(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None


def begin_cluster(asked: Asked, output: Path, lock: TextIO) -> subprocess.Popen[bytes]:
    """A process with a scheduler and its workers, whose address is in LEFT when this returns. It dies with this one and
    holds its lock, unless it is to be left. Raises EngineError."""
    options = {
        "jobs": asked.jobs,
        "threads": asked.threads,
        "leave": asked.leave,
        "slurm": asked.slurm_options if asked.slurm else None,
    }
    arguments = [sys.executable, str(Path(cluster.__file__)), str(output / LEFT), json.dumps(options)]
    log = output / "engine.log"
    more: dict[str, Any] = (
        {} if asked.leave else {"preexec_fn": worker.die_with(os.getpid()), "pass_fds": (lock.fileno(),)}
    )
    with log.open("w") as stream:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True, **more
        )
    deadline = time.monotonic() + BEGIN
    while not (output / LEFT).is_file():
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            last = [line for line in log.read_text().splitlines() if line.strip()][-1:]
            raise EngineError(f"the Dask scheduler did not start: {''.join(last)} ({log})")
        time.sleep(0.05)
    return process


def versions_of(side: dict[str, Any]) -> str:
    """What has to be the same, or one does not understand the other."""
    python = ".".join(side["host"]["python"].split(".")[:2])
    return f"Python {python} and distributed {side['packages']['distributed']}"


def has_dashboard(link: str) -> bool:
    """Whether there is one: a scheduler without it answers at the same place."""
    try:
        urllib.request.urlopen(link, timeout=2).close()
    except urllib.error.HTTPError:
        return False
    except OSError:  # seen from elsewhere, perhaps
        pass
    return True


class Sent:
    """A call of our module as scheduler and workers get it, which need not have our sources."""

    def __init__(self, call: Callable[..., Any]) -> None:
        """Holds the call with all its code."""
        cloudpickle.register_pickle_by_value(worker)
        self.code = cloudpickle.dumps(call)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        """The call itself, where it is unpacked."""
        return cloudpickle.loads, (self.code,)

    def __call__(self) -> None:
        """Never here."""


class Dask:
    """Every job that is ready is a task of the scheduler at once, under a key of its own, so that a later start takes
    up a task that was left."""

    def __init__(
        self,
        client: Any,
        asked: Asked,
        output: Path,
        binary: Path,
        left: dict[str, Any],
        process: subprocess.Popen[bytes] | None,
    ) -> None:
        """`left`: the scheduler's address as it was given, keys of tasks that were left, by target, and whether it is
        ours: whether it works for this comparison alone and ends with it. Raises EngineError for a worker that cannot
        have runs."""
        self.client, self.asked, self.leaves, self.process = client, asked, asked.leave, process
        self.address, self.tasks, self.ours = left["scheduler"], left.get("tasks", {}), left["ours"]
        self.file, self.nonce = output / LEFT, uuid.uuid4().hex
        self.marker = output / f".shared-{self.nonce}"
        self.marker.write_text(self.nonce)
        program = os.path.abspath(shutil.which(binary) or binary)
        self.facts = Facts(str(output), str(self.marker), self.nonce, os.getcwd(), program, worker.digest_of(program))
        self.variables = {name: value for name, value in os.environ.items() if name.startswith(NUMERIC)}
        self.running: dict[Job, Any] = {}
        self.over: queue.SimpleQueue[Job] = queue.SimpleQueue()  # filled by threads of the client
        self.late: list[tuple[Ended, float]] = []  # finished, and not seen here yet
        self.is_left = self.is_killed = False
        self.alone_from = time.monotonic()
        try:
            self.refuse_foreign()
        except BaseException:
            self.marker.unlink()
            raise

    def refuse_foreign(self) -> None:
        """Raises EngineError for a worker of other versions; workers that come later are asked at each run."""
        found = self.client.get_versions()
        here = versions_of(found["client"])
        for address, there in found["workers"].items():
            if versions_of(there) != here:
                raise EngineError(f"worker {address} has {versions_of(there)}, but this machine has {here}")
        for why in self.client.run(Sent(partial(worker.unfit, self.facts))).values():
            if why:
                self.refuse(why)

    @property
    def slots(self) -> int:
        """Threads of the workers that are there, or will be."""
        return max(self.asked.jobs if self.ours else 1, sum(map(int, self.client.nthreads().values())))

    def has_room(self) -> bool:
        """Dask has a queue."""
        return True

    def start(self, job: Job, arguments: list[str]) -> None:
        """One that was left by an earlier start, and is not over, is waited for as it is."""
        token = uuid.uuid4().hex
        key = self.tasks.pop(str(job.target), f"{job.kind}-{token}")  # the dashboard shows what stands before the token
        perform = Sent(
            partial(
                worker.perform, [self.facts.binary, *arguments[1:]], str(job.log), token, self.facts, self.variables
            )
        )
        future = self.client.submit(perform, key=key)
        self.running[job] = future
        future.add_done_callback(lambda _: self.over.put(job))

    def ended(self) -> list[Ended]:
        """What came in. One that finished counts when its files are seen here."""
        found = []
        if self.alone_from and time.monotonic() > self.alone_from + ALONE:
            if not self.client.nthreads():
                say(
                    "no worker has come yet"
                    + (f"; its job prints into {self.file.with_name('engine_logs')}" if self.asked.slurm else "")
                )
            self.alone_from = 0.0
        while not self.over.empty():
            job = self.over.get()
            found.append(self.read(job, self.running.pop(job)))
        late = [(end, time.monotonic()) for end in found if end.code == 0] + self.late
        self.late = [(end, since) for end, since in late if not end.job.done() and time.monotonic() < since + SHARED]
        waits = {end.job for end, _ in self.late}
        return [end for end in found if end.code != 0] + [end for end, _ in late if end.job not in waits]

    def read(self, job: Job, future: Any) -> Ended:
        """The end of a task. Raises EngineError for a worker that is refused and for a scheduler that is gone."""
        if future.status == "finished":
            code, seconds, why = future.result()
            if code == REFUSED:
                self.refuse(why)
            return Ended(job, code, seconds, why)
        if future.status == "cancelled":
            raise EngineError(
                f"the Dask scheduler at {self.client.scheduler.address} has ended, or has dropped the runs; run the "
                "same command again to continue"
            )
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            return Ended(job, LOST, 0.0, "its worker was lost")
        raise EngineError(
            f"a worker failed at {job.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        )

    def refuse(self, why: str) -> None:
        """Raises EngineError."""
        here = f", but this machine has {worker.version_of(self.facts.binary)}"
        raise EngineError(f"{why}{here}" if " another " in why else why)

    def stop(self) -> None:
        """Cancelled tasks end their processes, whose logs stay locked until they have saved."""
        futures = list(self.running.values())
        if self.leaves and futures:
            distributed.fire_and_forget(futures)
            self.is_left = True
            left = {
                "scheduler": self.address,
                "ours": self.ours,
                "tasks": self.tasks | {str(job.target): future.key for job, future in self.running.items()},
            }
            write_whole(self.file, lambda path: path.write_text(json.dumps(left)))
            say(f"{len(futures)} runs continue at {self.address}; the same command reconnects to these runs")
        elif futures:
            with suppress(OSError):  # the scheduler is gone, and so the tasks
                self.client.cancel(futures, force=True)
            waits = [job.log for job in self.running if job.log.is_file()]
            while waits and not self.is_killed:
                waits = [log for log in waits if is_locked(log)]
                time.sleep(0.05)
        self.running.clear()

    def kill(self) -> None:
        """Workers end what is theirs."""
        self.is_killed = True

    def close(self) -> None:
        """A scheduler of ours ends with its workers, unless runs are left to it."""
        self.client.close()
        if not self.is_left:
            for marker in self.marker.parent.glob(".shared-*"):
                marker.unlink(missing_ok=True)
            self.file.unlink(missing_ok=True)  # by which a scheduler of ours ends
        if self.process and not self.is_left:
            end(self.process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a scheduler that we started."""
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()


def is_locked(log: Path) -> bool:
    """Whether a process writes it."""
    with log.open("a") as stream:
        return worker.is_taken(stream)


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


def open_dask(asked: Asked, binary: Path, output: Path, lock: TextIO) -> Dask:
    """The scheduler that an earlier start left its runs to, or the one that was asked for. Raises EngineError."""
    left, client, process = left_in(output), None, None
    if left:
        try:
            client = connect(left["scheduler"])
            say(f"reconnects to the runs at {left['scheduler']}")
        except EngineError:
            (output / LEFT).unlink(missing_ok=True)  # it is over
    if client is None:
        process = None if asked.scheduler else begin_cluster(asked, output, lock)
        left = left_in(output) if process else {"scheduler": asked.scheduler, "ours": False}
    try:
        if left is None:
            raise EngineError("the Dask scheduler ended right after its start")
        client = client or connect(left["scheduler"])
        if has_dashboard(client.dashboard_link):
            say(f"dashboard: {client.dashboard_link}")
        return Dask(client, asked, output, binary, left, process)
    except BaseException:
        if client:
            client.close()
        if process:
            end(process)
        raise
