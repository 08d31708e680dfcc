"""Runs that differ in nothing but the seed are one group: one colour, one line of a table."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from .run import Run

# Options that differ between seeds, machines and folders without being another experiment. A report is made of folders
# alone, where no program may be; tests/python/test_option_tables.py derives the same names from the table of options.
PLACES = frozenset(
    """
    output checkpoint resume_from pca_mat snapshots start_file data test_data
    seed split_seed label_noise_seed basis_seed
    batch_size gradient_accumulation threads prefetch prefetch_memory num_preprocessing_threads num_parallel_batches
    datasets_use_caching cache_memory data_cache data_on_device cuda_graphs module_timeout
    backend bucket_mb first_bucket_mb rendezvous_timeout collective_timeout heartbeat_timeout
    stream_cache stream_fetches store_cache store_timeout store_attempts store_first_wait store_longest_wait
    store_hadoop upload_checkpoints
    quiet yes check_options tensorboard tensorboard_steps log_loss_every_n_iters print_model_statistics
    profile_every_n_iters profile_at_task time_history
    """.split()
)
COLOURS = {"stage 1": "c0", "stage 2": "c1", "continued": "c2", "annealed": "c3"}
SPARE = ("c4", "c5", "c6", "c7")
DASHES = ("d1", "d2")
MOST_RUNS, MOST_GROUPS = 40, 12  # shown one by one


def settings(run: Run) -> dict[str, object]:
    """The options that make the experiment."""
    batch = {"global_batch_size": run.manifest.get("global_batch_size"), "ranks": run.manifest.get("ranks")}
    own = {key: value for key, value in run.config.items() if key not in PLACES}
    return {"stage": run.stage, "method": run.method} | own | batch


def seed_of(run: Run) -> int:
    """The key that pairs runs of different groups."""
    return int(run.manifest.get("seed", 0))


def members_by_settings(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of equal settings and equal starts, one of each seed."""
    found: dict[tuple[str, int], list[Run]] = {}
    copies: Counter[tuple[str, int]] = Counter()
    for run in runs:
        key = json.dumps([settings(run), settings(run.parent) if run.parent is not None else {}], default=str)
        copies[key, seed_of(run)] += 1
        found.setdefault((key, copies[key, seed_of(run)]), []).append(run)
    return list(found.values())


def short_name(run: Run) -> str:
    """A run's name without the folder of its seed and the digest that compare.py puts behind it."""
    return re.sub(r"-[0-9a-f]{8}$", "", run.name.rpartition("/")[2])


def told_apart(run: Run, others: Sequence[Run]) -> str:
    """The settings in which a run differs from others of its name: ` budget=1`."""
    own, theirs = settings(run), [settings(other) for other in others]
    keys = [key for key in own if any(other.get(key) != own[key] for other in theirs)]
    return "".join(f" {key}={own[key]}" for key in keys[:3])


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Name -> runs, in their order: the runs' short name where it is not another group's, too, else with
    what differs, and numbered where that is in their starts alone."""
    found = members_by_settings(runs)
    named: dict[str, list[Run]] = {}
    for members in found:
        first = members[0]
        others = [m[0] for m in found if m is not members and short_name(m[0]) == short_name(first)]
        base = first.name if len(found) == len(runs) else short_name(first) + told_apart(first, others)
        name, number = base, 2
        while name in named:
            name, number = f"{base} {number}", number + 1
        named[name] = members
    return named


def preference(members: Sequence[Run]) -> tuple[int, float]:
    """For choosing among groups: more seeds first, so that a lucky few do not win; then the mean validation
    accuracy."""
    mean = fmean(float(run.result()["validation_accuracy"]) for run in members)
    return len(members), -math.inf if math.isnan(mean) else mean


def shown(runs: Sequence[Run]) -> list[Run]:
    """The runs that are drawn and listed one by one: all of a few; of more than MOST_RUNS the first seed's of
    stage 1 and of the groups that validation prefers."""
    if len(runs) <= MOST_RUNS:
        return list(runs)
    first = [members[0] for members in members_by_settings(runs) if members[0].kind == "stage 1"]
    others = [members for members in members_by_settings(runs) if members[0].kind != "stage 1"]
    best = sorted(others, key=preference, reverse=True)[:MOST_GROUPS]
    return [*first[:MOST_GROUPS], *(members[0] for members in best)]


def group_names(runs: Sequence[Run]) -> dict[str, str]:
    """Name of a run -> name of its group."""
    return {run.name: name for name, members in groups(runs).items() for run in members}


def colours(runs: Sequence[Run]) -> dict[str, str]:
    """Name of a run -> classes of its colour and dashes ("c4", then "c4 d1"), the same for all seeds of a group: the
    first group of each kind has a colour of its own, others take the rest, and all of them again with other dashes."""
    chosen: dict[str, str] = {}
    spare = itertools.cycle(
        [*SPARE, *(f"{colour} {dashes}" for dashes in DASHES for colour in (*COLOURS.values(), *SPARE))]
    )
    for members in groups(runs).values():
        own = COLOURS[members[0].kind]
        colour = next(spare) if own in chosen.values() else own
        chosen |= {run.name: colour for run in members}
    return chosen
