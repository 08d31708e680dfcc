"""Runs that differ in nothing but the seed are one group: one colour, one line of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dimred_runs import Run

# What differs between seeds, machines and folders without being another experiment.
PLACES = ("output", "checkpoint", "resume_from", "pca_mat", "snapshots", "start_file", "data", "threads", "prefetch",
          "quiet", "seed", "split_seed", "basis_seed", "gradient_accumulation", "batch_size", "bucket_mb",
          "first_bucket_mb", "rendezvous_timeout", "collective_timeout", "heartbeat_timeout", "tensorboard",
          "tensorboard_steps")  # fmt: skip


def settings(run: Run) -> dict[str, object]:
    """The options that make the experiment."""
    batch = {"global_batch_size": run.manifest.get("global_batch_size"), "ranks": run.manifest.get("ranks")}
    own = {key: value for key, value in run.config.items() if key not in PLACES}
    return {"stage": run.stage, "method": run.method} | own | batch


def seed_of(run: Run) -> int:
    """What pairs runs of different groups."""
    return int(run.manifest.get("seed", 0))


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Name -> runs, in their order. A name is the run's, without the folder of its seed and the digest that
    compare.py puts behind it; groups of one name are numbered."""
    found: list[tuple[tuple[object, ...], list[Run]]] = []
    for run in runs:
        start = settings(run.parent) if run.parent is not None else {}
        key = (settings(run), start)
        same = next(
            (members for other, members in found if other == key and seed_of(run) not in map(seed_of, members)), None
        )
        if same is None:
            found.append((key, [run]))
        else:
            same.append(run)
    named: dict[str, list[Run]] = {}
    for _, members in found:
        short = re.sub(r"-[0-9a-f]{8}$", "", members[0].name.rpartition("/")[2])
        name = members[0].name if len(members) == 1 and len(found) == len(runs) else short
        number = 2
        while name in named:
            name, number = f"{short} {number}", number + 1
        named[name] = members
    return named


def group_names(runs: Sequence[Run]) -> dict[str, str]:
    """Name of a run -> name of its group."""
    return {run.name: name for name, members in groups(runs).items() for run in members}
