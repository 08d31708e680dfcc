"""The report's tables over groups of runs: accuracy with its uncertainty, costs, and what differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import fmean

from dimred.runs import Run, groups, holm, mean_interval, paired_difference
from dimred.runs.grouping import preference, seeds_of, settings

from .text_table import interval, number, p_value

Table = tuple[list[str], list[list[str]]]  # header, rows


def html_of(table: Table, keys: Sequence[str] = (), first_columns: int = 1) -> str:
    """A table; `keys` are colour classes of its rows. As wide as it needs, scrolled on a narrow screen."""
    header, rows = table
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = []
    for i, row in enumerate(rows):
        key = f'<i class="key {keys[i]}"></i>' if keys else ""
        cells = (f"<td>{key if j == 0 else ''}{escape(cell)}</td>" for j, cell in enumerate(row))
        body.append(f"<tr>{''.join(cells)}</tr>")
    style = ' class="one"' if first_columns == 1 else ""
    return f'<div class="scroll"><table{style}><tr>{head}</tr>{"".join(body)}</table></div>'


def accuracies(members: Sequence[Run], column: str) -> dict[tuple[int, int], float]:
    """The accuracies by seeds (seeds_of), in per cent."""
    return {seeds_of(run): 100 * float(run.result()[column]) for run in members}


def by_start(values: dict[tuple[int, int], float]) -> dict[int, dict[int, float]]:
    """Seed of the start -> own seed -> value."""
    found: dict[int, dict[int, float]] = {}
    for (start, own), value in values.items():
        found.setdefault(start, {})[own] = value
    return found


def pairs(values: dict[tuple[int, int], float], others: dict[tuple[int, int], float]) -> list[tuple[float, float]]:
    """The pairs of two groups by start: the means where a start has several runs, because they are not independent
    pairs; of one start alone, its runs by their own seeds."""
    mine, theirs = by_start(values), by_start(others)
    shared = [start for start in mine if start in theirs]
    if len(mine) == len(theirs) == len(shared) == 1 and min(len(values), len(others)) > 1:
        one, other = mine[shared[0]], theirs[shared[0]]
        return [(one[own], other[own]) for own in one if own in other]
    return [(fmean(mine[start].values()), fmean(theirs[start].values())) for start in shared]


def independent(values: dict[tuple[int, int], float]) -> list[float]:
    """The means of the starts; of one start alone, its runs."""
    starts = list(by_start(values).values())
    return list(starts[0].values()) if len(starts) == 1 else [fmean(start.values()) for start in starts]


def is_baseline(run: Run) -> bool:
    """Stage 1 continued or annealed, or plain SGD (averaged or not) in stage 2's loop."""
    return run.kind in ("continued", "annealed") or (run.stage == "stage2" and run.config.get("method") == "sgd")


def saw_validation(run: Run) -> bool:
    """Whether its weights depend on the validation set, which then flatters it."""
    return run.config.get("start") == "soup" or run.config.get("train_on") == "validation"


def best_baseline(found: dict[str, list[Run]]) -> str | None:
    """The group of the baselines that validation prefers, one that has seen the validation set only where there
    is no other; None without a validation set: the test set must not choose."""
    known = {
        name: members
        for name, members in found.items()
        if is_baseline(members[0]) and not math.isinf(preference(members)[1])
    }
    return max(known, key=lambda name: (not saw_validation(known[name][0]), preference(known[name])), default=None)


def uncertainty(runs: Sequence[Run]) -> tuple[Table, str | None]:
    """Mean and 95 % interval of each group; paired difference of all but the common start to the best
    baseline, whose name comes back, too. Empty when no group has several seeds."""
    found = groups(runs)
    if all(len(members) < 2 for members in found.values()):
        return ([], []), None
    best = best_baseline(found)
    against = accuracies(found[best], "test_accuracy") if best else {}
    rows, differences = [], []
    for name, members in found.items():
        values = accuracies(members, "test_accuracy")
        mean = mean_interval(independent(values))
        validation = fmean(accuracies(members, "validation_accuracy").values())
        compared = name != best and members[0].kind != "stage 1"
        shared = pairs(values, against) if compared else []
        difference = paired_difference([mine for mine, _ in shared], [theirs for _, theirs in shared])
        differences.append(difference)
        rows.append(
            [
                name,
                str(mean.n),
                number(validation),
                f"{number(mean.mean)} ± {number(mean.sd)}",
                interval(mean.low, mean.high),
            ]
        )
    header = ["group", "seeds", "validation %", "test % (mean ± sd)", "95 % interval"]
    if best:
        corrected = holm([difference.p for difference in differences])
        header += ["difference", "95 % interval", "p (Holm)"]
        for row, difference, p in zip(rows, differences, corrected, strict=True):
            row += [
                "best baseline" if row[0] == best else number(difference.mean, "+"),
                interval(difference.low, difference.high, "+"),
                p_value(p),
            ]
    return (header, rows), best


COSTS = {
    "spent, epochs": ("spent", 1.0, "{:.2f}"),
    "forward passes": ("forward_passes", 1.0, "{:,.0f}"),
    "backward passes": ("backward_passes", 1.0, "{:,.0f}"),
    "images": ("images", 1.0, "{:,.0f}"),
    "seconds": ("seconds", 1.0, "{:,.1f}"),
    "waiting for data, s": ("data_wait_seconds", 1.0, "{:,.1f}"),
    "P read, GB": ("basis_bytes_read", 1e-9, "{:,.2f}"),
    "sent, MB": ("wire_bytes", 1e-6, "{:,.1f}"),
}


def costs(runs: Sequence[Run]) -> Table:
    """Means over each group of what its runs themselves cost."""
    rows = []
    for name, members in groups(runs).items():
        spent = [run.costs() for run in members]
        means = {key: fmean(cost[key] for cost in spent) for key, _, _ in COSTS.values()}
        rows.append(
            [
                name,
                *(
                    "–" if math.isnan(means[key]) else style.format(means[key] * unit)
                    for key, unit, style in COSTS.values()
                ),
            ]
        )
    return ["group", *COSTS], rows


def differences(runs: Sequence[Run]) -> Table:
    """Options that are not the same in all groups of a stage; empty cells: not an option of that stage."""
    found = {name: settings(members[0]) for name, members in groups(runs).items()}
    stages = {stage: [name for name in found if found[name]["stage"] == stage] for stage in ("stage1", "stage2")}
    rows = []
    for stage, names in stages.items():
        for key in dict.fromkeys(key for name in names for key in found[name]):
            values = [found[name].get(key, "") for name in names]
            if any(value != values[0] for value in values[1:]):
                shown = {name: str(value) for name, value in zip(names, values, strict=True)}
                rows.append([stage, key, *(shown.get(name, "") for name in found)])
    return ["", "option", *found], rows
