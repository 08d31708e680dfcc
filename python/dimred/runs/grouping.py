"""Groups of runs. Runs that differ only in the seed are one group, with one colour and one line in a table."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from .run import Run

# Options that differ between seeds, machines and folders without being another experiment. The table of options decides
# which, but a report is made of folders alone, where no program may be: scripts/options_reference.py writes the names.
SAME_EXPERIMENT = frozenset(json.loads(Path(__file__).with_name("same_experiment.json").read_text())["options"])
COLOURS = {"stage 1": "c0", "stage 2": "c1", "continued": "c2", "annealed": "c3"}
SPARE = ("c4", "c5", "c6", "c7")
DASHES = ("d1", "d2")
MOST_RUNS, MOST_GROUPS = 40, 12  # shown one by one


def settings(run: Run) -> dict[str, object]:
    """Returns the options that define the experiment."""
    batch = {"global_batch_size": run.manifest.get("global_batch_size"), "ranks": run.manifest.get("ranks")}
    own = {key: value for key, value in run.config.items() if key not in SAME_EXPERIMENT}
    return {"stage": run.stage, "method": run.method} | own | batch


def seeds_of(run: Run) -> tuple[int, int]:
    """Returns the seed of the run at the beginning of the starts, which pairs runs of different groups, and the run's
    own seed, which tells runs of one start apart. Stage 2's own seed is 1 from any start unless it is given.
    """
    own = int(run.manifest.get("seed", 0))
    return own if run.root_seed is None else run.root_seed, own


def members_by_settings(runs: Sequence[Run]) -> list[list[Run]]:
    """Returns lists of runs with equal settings and equal starts; each list has each pair of seeds (seeds_of) at most
    once.
    """
    found: dict[tuple[str, int], list[Run]] = {}
    copies: Counter[tuple[str, tuple[int, int]]] = Counter()
    for run in runs:
        key = json.dumps([settings(run), settings(run.parent) if run.parent is not None else {}], default=str)
        copies[key, seeds_of(run)] += 1
        found.setdefault((key, copies[key, seeds_of(run)]), []).append(run)
    return list(found.values())


def short_name(run: Run) -> str:
    """Returns a run's name without the folder of its seed and without the digest that compare.py appends."""
    return re.sub(r"-[0-9a-f]{8}$", "", run.name.rpartition("/")[2])


def told_apart(run: Run, others: Sequence[Run]) -> str:
    """Returns the settings that tell a run from others with the same name: ` budget=1`."""
    own, theirs = settings(run), [settings(other) for other in others]
    keys = [key for key in own if any(other.get(key) != own[key] for other in theirs)]
    return "".join(f" {key}={own[key]}" for key in keys[:3])


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns name -> runs, in the order of the runs.

    The name is the runs' short name if no other group has it. Otherwise the differing settings follow the name, or a
    number if only the starts differ.
    """
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
    """Returns a key for the choice among groups: first the number of seeds, so that a few lucky runs do not win, then
    the mean validation accuracy.
    """
    mean = fmean(float(run.result()["validation_accuracy"]) for run in members)
    return len(members), -math.inf if math.isnan(mean) else mean


def shown(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs that are drawn and listed one by one.

    These are all runs if there are at most MOST_RUNS. Otherwise they are the first seed's runs of stage 1 and of the
    groups with the most seeds and the best validation accuracy.
    """
    if len(runs) <= MOST_RUNS:
        return list(runs)
    first = [members[0] for members in members_by_settings(runs) if members[0].kind == "stage 1"]
    others = [members for members in members_by_settings(runs) if members[0].kind != "stage 1"]
    best = sorted(others, key=preference, reverse=True)[:MOST_GROUPS]
    return [*first[:MOST_GROUPS], *(members[0] for members in best)]


def group_names(runs: Sequence[Run]) -> dict[str, str]:
    """Returns the name of each run -> the name of its group."""
    return {run.name: name for name, members in groups(runs).items() for run in members}


def colours(runs: Sequence[Run]) -> dict[str, str]:
    """Returns the name of each run -> its classes of colour and dashes ("c4", then "c4 d1"), the same for all seeds of
    a group.

    The first group of each kind has a colour of its own. Other groups take the remaining colours, and then all colours
    again with other dashes.
    """
    chosen: dict[str, str] = {}
    spare = itertools.cycle(
        [*SPARE, *(f"{colour} {dashes}" for dashes in DASHES for colour in (*COLOURS.values(), *SPARE))]
    )
    for members in groups(runs).values():
        own = COLOURS[members[0].kind]
        colour = next(spare) if own in chosen.values() else own
        chosen |= {run.name: colour for run in members}
    return chosen
