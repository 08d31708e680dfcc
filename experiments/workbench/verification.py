"""The report's section on verification: ROC curves and figures of runs that `dimred verify` has written to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from dimred.runs import Run, colours

from .svg import Chart, Series, figures
from .tables import html_of

FIELDS = ("accuracy", "accuracy_deviation", "tar", "tar_deviation", "far", "xnorm", "pairs", "pairs_file")


def read(run: Run) -> tuple[dict[str, Any], pd.DataFrame] | None:
    """verification.json and roc.csv of a run folder; None without them. Raises ValueError naming a damaged one."""
    figures, curve = run.folder / "verification.json", run.folder / "roc.csv"
    if not (figures.is_file() and curve.is_file()):
        return None
    try:
        reported = json.loads(figures.read_text())
        roc = pd.read_csv(curve)[["threshold", "true_positive_rate", "false_positive_rate"]].astype(float)
        missing = [key for key in FIELDS if key not in reported]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"[report] {run.folder}: verification.json or roc.csv is damaged: {error}") from error
    if missing:
        raise ValueError(f"[report] {figures} is damaged: it has no {missing[0]}")
    return reported, roc


def roc_chart(title: str, found: Sequence[tuple[Run, pd.DataFrame]], chosen: dict[str, str], upto: float) -> Chart:
    """True against false positives, each a mean over the folds."""
    series = [
        Series(
            run.name, list(zip(roc["false_positive_rate"], roc["true_positive_rate"], strict=True)), chosen[run.name]
        )
        for run, roc in found
    ]
    limits = (0.0, upto)
    low = None if upto < 1 else 0.0
    return Chart(title, "false positive rate", "true positive rate", series, x_limits=limits, y_limits=(low, 1.0))


def rows(reported: dict[str, Any], name: str) -> list[str]:
    """A run's figures, as the table shows them."""
    return [
        name,
        Path(reported["pairs_file"]).name,
        f"{reported['pairs']:,}",
        f"{100 * reported['accuracy']:.2f} ± {100 * reported['accuracy_deviation']:.2f}",
        f"{100 * reported['tar']:.2f} ± {100 * reported['tar_deviation']:.2f}",
        f"{reported['far']:.2g}",
        f"{reported['xnorm']:.3g}",
    ]


def verification_section(runs: Sequence[Run]) -> str:
    """Nothing where no run was verified."""
    found = [(run, *read_) for run in runs if (read_ := read(run))]
    if not found:
        return ""
    chosen = colours(runs)
    header = ["run", "pairs", "number", "accuracy %", "TAR %", "at FAR", "XNorm"]
    table = html_of(
        (header, [rows(reported, run.name) for run, reported, _ in found]), [chosen[run.name] for run, *_ in found]
    )
    curves = [(run, roc) for run, _, roc in found]
    drawn = [roc_chart("ROC", curves, chosen, 1.0), roc_chart("ROC, few false positives", curves, chosen, 0.1)]
    note = "The numbers are means over 10 folds ± the standard deviation; see docs/reference/verification.md."
    return f'<h2>Verification</h2>{table}{figures(drawn)}<p class="quiet">{escape(note)}</p>'
