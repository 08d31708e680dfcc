"""A process of its own with a Dask scheduler, which sees to its workers, so that runs can outlive the driver.

    python cluster.py FILE OPTIONS

OPTIONS are JSON: jobs, threads, leave, and slurm (arguments of SLURMCluster) or null.

Writes its address into FILE; ends, and its workers with it, by SIGTERM, when FILE is removed, and, of `leave`, when
nothing has run for a while."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

IDLE = 600.0  # seconds without a run, after which a cluster that was left ends
EVERY = 1.0  # seconds between two looks for lost workers


def slurm_arguments(options: dict[str, Any], threads: int, logs: Path) -> dict[str, Any]:
    """The arguments of SLURMCluster: a job is a worker of one run at a time. Limits are Slurm's own where neither the
    options nor jobqueue.yaml name any: the half hour that dask-jobqueue sets by default would cut runs."""
    import dask
    import dask_jobqueue  # noqa: F401  (its defaults)

    arguments: dict[str, Any] = {
        "cores": 1,
        "processes": 1,
        "job_cpu": threads,
        "job_name": "dimred",
        "log_directory": str(logs),
    } | options
    if "memory" not in arguments and dask.config.get("jobqueue.slurm.memory") is None:
        arguments |= {"memory": "1GB", "job_directives_skip": [*arguments.get("job_directives_skip", []), "--mem="]}
    if "walltime" not in arguments and dask.config.get("jobqueue.slurm.walltime") == "00:30:00":
        dask.config.set({"jobqueue.slurm.walltime": None})
    return arguments


def make_cluster(options: dict[str, Any], logs: Path) -> Any:
    """Without workers yet."""
    if options["slurm"] is None:
        from distributed import LocalCluster

        return LocalCluster(
            n_workers=0, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address="127.0.0.1:8787"
        )
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(**slurm_arguments(options["slurm"], options["threads"], logs))


def is_of(file: Path, address: str) -> bool:
    """Whether the file is there and names this scheduler: a later one may have taken its place."""
    try:
        return bool(json.loads(file.read_text())["scheduler"] == address)
    except (OSError, ValueError):
        return False


def main(file: Path, options: dict[str, Any]) -> int:
    """Keeps the cluster until it is over."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with make_cluster(options, file.parent / "engine_logs") as cluster:
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"scheduler": cluster.scheduler_address, "ours": True}))
        temporary.replace(file)
        cluster.scale(options["jobs"])
        while is_of(file, cluster.scheduler_address) and not over.wait(EVERY):
            idle_since = cluster.scheduler.check_idle()
            if options["leave"] and idle_since and time.time() > idle_since + IDLE:
                break
            cluster.scale(options["jobs"])  # replaces those that are lost
        if is_of(file, cluster.scheduler_address):
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
