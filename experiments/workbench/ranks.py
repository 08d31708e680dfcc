"""The report's section on ranks: rate and accuracy by their number, when runs differ in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from dimred.runs import Run

from .svg import Chart, Series, figures
from .tables import html_of
from .text_table import number

FIXED = ("per-rank batch", "global batch")  # what stays while ranks are added


def ranks_of(run: Run) -> int:
    """How many ranks trained it."""
    return int(run.manifest.get("ranks", 1))


def batches(run: Run) -> tuple[int, int]:
    """Samples per step: of a rank, of all."""
    whole = int(run.manifest.get("global_batch_size", 0))
    return whole // ranks_of(run), whole


def rate(run: Run) -> float:
    """Images a second over the whole run, evaluation aside."""
    costs = run.costs()
    return costs["images"] / costs["seconds"] if costs["seconds"] else 0.0


def wire_per_step(run: Run) -> float:
    """Bytes that rank 0 sent per optimiser step, evaluations not included."""
    last = run.curve.iloc[-1]
    return float(last["wire_bytes"]) / max(1.0, float(last["step"]))


def differ_in_ranks(runs: Sequence[Run]) -> bool:
    """Whether there is anything to compare."""
    return len({ranks_of(run) for run in runs}) > 1


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of several numbers of ranks with the same batch per rank, or the same global one."""
    found: dict[str, list[Run]] = {}
    for which, name in enumerate(FIXED):
        for size in sorted({batches(run)[which] for run in runs}):
            same = sorted((run for run in runs if batches(run)[which] == size), key=ranks_of)
            if differ_in_ranks(same):
                found[f"{name} of {size}"] = same
    return found


def ranks_header() -> list[str]:
    """Column names."""
    return [
        "run",
        "ranks",
        "batch of a rank",
        "global batch",
        "images/s",
        "against 1 rank",
        "sent per step",
        "final test %",
    ]


def ranks_rows(runs: Sequence[Run]) -> list[list[str]]:
    """A row a run, by number of ranks; the rate against one rank with the same global batch, or else
    the same batch of a rank."""
    rows = []
    for run in sorted(runs, key=lambda r: (ranks_of(r), batches(r)[1])):
        own, whole = batches(run)
        alone = [r for r in runs if ranks_of(r) == 1 and whole in batches(r)]
        alone = alone or [r for r in runs if ranks_of(r) == 1 and own in batches(r)]
        against = f"{rate(run) / rate(alone[0]):.2f}" if alone and rate(alone[0]) else "–"
        accuracy = 100 * float(run.result()["test_accuracy"])
        rows.append(
            [
                run.name,
                f"{ranks_of(run)}",
                f"{own}",
                f"{whole}",
                f"{rate(run):,.0f}",
                against,
                f"{wire_per_step(run) / 1e6:.2f} MB",
                number(accuracy),
            ]
        )
    return rows


def means(runs: Sequence[Run], value: Callable[[Run], float]) -> list[tuple[float, float]]:
    """(ranks, mean over the runs with as many)."""
    by_ranks: dict[int, list[float]] = {}
    for run in runs:
        by_ranks.setdefault(ranks_of(run), []).append(value(run))
    return [(float(ranks), fmean(values)) for ranks, values in by_ranks.items()]


def chart(title: str, unit: str, runs: Sequence[Run], value: Callable[[Run], float], low: float | None = None) -> Chart:
    """One line for each thing that stays while ranks are added."""
    series = [
        Series(name, means(same, value), f"c{i}", mark="dot") for i, (name, same) in enumerate(groups(runs).items())
    ]
    return Chart(title, "ranks", unit, series, whole_x=True, y_limits=(low, None), y_format="{:.4g}".format)


def ranks_section(runs: Sequence[Run]) -> str:
    """Nothing when all runs have the same number."""
    if not differ_in_ranks(runs):
        return ""
    table = html_of((ranks_header(), ranks_rows(runs)), first_columns=2)
    tested = [run for run in runs if run.is_tested]
    drawn = [
        chart("Images a second", "images/s", runs, rate, low=0.0),
        chart("Final test accuracy", "%", tested, lambda r: 100 * float(r.result()["test_accuracy"])),
    ]
    return f"<h2>Ranks</h2>{table}{figures([one for one in drawn if one.series])}"
