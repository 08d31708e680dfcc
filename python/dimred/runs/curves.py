"""The curve of a run as points for a plot."""

from __future__ import annotations

import pandas as pd

from .run import Run


def points(rows: pd.DataFrame, column: str, scale: float = 1.0) -> list[tuple[float, float]]:
    """Returns (epoch, value * scale) for each row with a value in `column`."""
    measured = rows[rows[column].notna()]
    return [(float(x), float(y) * scale) for x, y in zip(measured["epoch"], measured[column], strict=True)]


def joined(run: Run, column: str, scale: float) -> list[tuple[float, float]]:
    """Returns a run's raw curve, preceded by the point of its parent's curve at which the run began."""
    own = points(run.rows(), column, scale)
    if run.stage == "stage2":  # its row of epoch 0 may be of a mean of snapshots
        first = points(run.curve.iloc[:1], column, scale)
        return own if own[:1] == first else first + own
    if run.parent is None or not own:
        return own
    before = [p for p in points(run.parent.rows(), column, scale) if p[0] <= run.start_epoch]
    return before[-1:] + own
