"""The report's charts: accuracy and loss of all runs, telemetry of stage 2, explained variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dimred.runs import Run, colours, group_names, joined, points

from .svg import Chart, Series

MARKS = {"raw": "dot", "recalibrated": "ring", "mean": "diamond", "ema": "cross"}
MOST_POINTS = 1500  # of one telemetry chart; more are thinned evenly


def curve_series(runs: Sequence[Run], column: str, scale: float = 1.0) -> list[Series]:
    """One line per run; points of recalibrated, mean and ema weights as marks of their own."""
    chosen, group = colours(runs), group_names(runs)
    series = []
    for run in runs:
        colour = chosen[run.name]
        series.append(Series(run.name, joined(run, column, scale), colour, mark="dot", group=group[run.name]))
        for weights, mark in MARKS.items():
            marked = points(run.rows(weights), column, scale) if weights != "raw" else []
            if marked:
                series.append(Series(f"{run.name}, {weights}", marked, colour, False, mark))
    return [s for s in series if s.points]


def branch_epoch(runs: Sequence[Run]) -> float | None:
    """Where the runs part: the start of the first that has a parent."""
    starts = [run.start_epoch for run in runs if run.parent]
    return min(starts) if starts else None


def accuracy_charts(runs: Sequence[Run]) -> list[Chart]:
    """Test accuracy (of the validation set where no run has a test set) over all epochs, and again from shortly before
    the runs part."""
    measured = "test" if any(run.is_tested for run in runs) else "validation"
    title = f"{measured.capitalize()} accuracy"
    series = curve_series(runs, f"{measured}_accuracy", 100.0)
    start = branch_epoch(runs)
    whole = Chart(
        title, "epoch", "%", series, whole_x=True, y_format="{:.4g}".format, width=1040, height=380, x_line=start
    )
    if start is None:
        return [whole]
    near = Chart(
        f"{title} after the runs separate",
        "epoch",
        "%",
        series,
        x_limits=(start - 3, None),
        y_format="{:.4g}".format,
        x_line=start,
    )
    return [whole, near]


def loss_chart(runs: Sequence[Run]) -> Chart:
    """Mean training loss of each epoch, as the trainer saw it."""
    series = curve_series(runs, "train_loss")
    return Chart("Training loss", "epoch", "cross-entropy", series, log_y=False, whole_x=True)


def thinned(values: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Every n-th value, so that a chart holds at most MOST_POINTS."""
    return values[:: math.ceil(len(values) / MOST_POINTS) or 1]


def smoothed(values: list[tuple[float, float]], window: int = 21) -> list[tuple[float, float]]:
    """Running median over `window` steps."""
    median = pd.Series([y for _, y in values]).rolling(window, center=True, min_periods=1).median()
    return [(x, float(y)) for (x, _), y in zip(values, median, strict=True)]


def step_points(steps: pd.DataFrame, column: str) -> list[tuple[float, float]]:
    """(step, value) of one telemetry column."""
    return [(float(x), float(y)) for x, y in zip(steps["step"], steps[column], strict=True) if not pd.isna(y)]


def telemetry_charts(run: Run, colour: str) -> list[Chart]:
    """Loss, accepted step size, trials, and how often H was left alone or reset, step by step."""
    steps = run.steps
    if steps is None or not len(steps):
        return []
    loss = step_points(steps, "loss")
    size = thinned([point for point in step_points(steps, "step_size") if point[1] > 0])
    trials = thinned(step_points(steps, "trials"))

    def dots(name: str, points: list[tuple[float, float]]) -> list[Series]:
        return [Series(name, points, colour, False, "small", opacity=0.6)]

    charts = [
        Chart(
            "Loss of each step's batch",
            "step",
            "running median of 21",
            [
                Series("loss", thinned(loss), colour, False, "small", opacity=0.35),
                Series("median", thinned(smoothed(loss)), colour),
            ],
            whole_x=True,
        ),
        Chart("Accepted step size", "step", "t, logarithmic", dots("t", size), log_y=True, whole_x=True),
        Chart(
            "Trials of the line search",
            "step",
            "loss evaluations",
            dots("trials", trials),
            whole_x=True,
            y_limits=(0.0, None),
        ),
        norms_chart(steps),
        counts_chart(steps),
    ]
    return [chart for chart in charts if any(s.points for s in chart.series)]


def norms_chart(steps: pd.DataFrame) -> Chart:
    """How long the step inside the subspace is, and the gradient's part outside it."""
    columns = (("direction in the subspace", "direction_norm", "c1"), ("gradient outside it", "residual_norm", "c0"))
    series = [
        Series(name, thinned(smoothed(step_points(steps, column))), colour)
        for name, column, colour in columns
        if column in steps
    ]
    return Chart("Norms", "step", "logarithmic, running median", series, log_y=True, whole_x=True)


def event_columns(steps: pd.DataFrame) -> dict[str, pd.Series]:
    """The events that may go wrong in a step, as one truth value per step, for the columns that are there."""
    tests = {
        "failed searches": ("outcome", lambda c: c != "accepted"),
        "skipped updates of H": ("update", lambda c: c == "skipped"),
        "resets of H": ("reset", lambda c: c.astype(int) > 0),
        "residual left out": ("residual_left_out", lambda c: c.astype(int) > 0),
    }
    return {name: test(steps[key]) for name, (key, test) in tests.items() if key in steps.columns}


def counts_chart(steps: pd.DataFrame) -> Chart:
    """How many steps so far had each event."""
    series = []
    for (name, happened), colour in zip(event_columns(steps).items(), ("c1", "c2", "c4", "c5"), strict=False):
        total = list(zip(map(float, steps["step"]), map(float, happened.cumsum()), strict=True))
        series.append(Series(f"{name} ({int(happened.sum())})", thinned(total), colour))
    limits = (0.0, None)
    return Chart("Guards at work", "step", "steps so far", series, whole_x=True, y_limits=limits)
