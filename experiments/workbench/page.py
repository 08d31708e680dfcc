"""One self-contained HTML page from runs: table, charts, provenance. No outside resources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dimred.runs import Run, colours, groups
from dimred.runs.grouping import shown

from . import charts
from .ranks import ranks_section
from .subspace import subspace_parts
from .summary import comparison, summary_header, summary_rows
from .svg import figures, legend, render
from .tables import costs, differences, html_of, uncertainty
from .verification import verification_section

MARK = ("page of experiments/report.py", '<meta name="generator" content="dimred report">')
STYLE = Path(__file__).with_name("style.css")


def html_table(runs: Sequence[Run]) -> str:
    """The summary with each run's colour; the last column is the one to compare."""
    chosen = colours(runs)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in summary_header(runs))
    body = []
    for run, cells in zip(runs, summary_rows(runs), strict=True):
        key = f'<i class="key {chosen[run.name]}"></i>'
        first = f"<td>{key}{escape(cells[0])}</td>"
        middle = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:-1])
        body.append(f'<tr>{first}{middle}<td class="strong">{escape(cells[-1])}</td></tr>')
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


PROVENANCE = (
    "train_data",
    "parameters",
    "device",
    "processor",
    "threads",
    "precision",
    "ranks",
    "global_batch_size",
    "seed",
    "revision",
    "layout_hash",
    "outcome",
)


def provenance(run: Run) -> str:
    """The facts that a reader needs to repeat the run: data, device, versions, seed."""
    manifest = run.manifest
    fields = [f"{key.replace('_', ' ')} {manifest[key]}" for key in PROVENANCE if manifest.get(key) not in (None, "")]
    fields += [f"{name} {version}" for name, version in manifest.get("versions", {}).items()]
    return f"<p class='quiet'><b>{escape(run.name)}</b>: {escape('; '.join(map(str, fields)))}</p>"


MARKS_NOTE = (
    "<p class='quiet'>Dots show the weights as trained. Rings show weights with recalibrated BatchNorm statistics. "
    "Diamonds show means of weights, and crosses show moving averages. The dotted vertical line shows the epoch where "
    "the runs separate. Point at a mark to see the value.</p>"
)


def curves_section(runs: Sequence[Run]) -> str:
    """Accuracy large; below it the last epochs and the training loss."""
    whole, *near = charts.accuracy_charts(runs)
    below = [*near, charts.loss_chart(runs)]
    parts = ["<h2>Curves</h2>", legend(whole.series)]
    if whole.series:
        parts += [f'<div class="scroll"><div class="wide">{render(whole)}</div></div>', MARKS_NOTE]
    parts.append(figures([chart for chart in below if chart.series], with_legend=False))
    return "\n".join(parts)


def subspace_section(pca: dict[str, Any] | None, gram: np.ndarray | None) -> str:
    """Spectrum with its null, the snapshots' path and whether the basis holds what comes next."""
    drawn, texts = subspace_parts(pca, gram) if pca else ([], [])
    if not drawn:
        return ""
    notes = "".join(f"<p class='quiet'>{text}</p>" for text in texts)
    return f"<h2>The subspace</h2>{figures(drawn)}{notes}"


def uncertainty_section(runs: Sequence[Run]) -> str:
    """Means over seeds; nothing where there is one seed."""
    table, best = uncertainty(runs)
    if not table[1]:
        return ""
    why = (
        "Each difference is the mean over pairs with the same seed, in percentage points, against "
        f"{best}, the baseline with the highest validation accuracy. The p-values are Holm-corrected over the table."
        if best
        else "The table has no differences, because no baseline (stage 1 continued or annealed, or SGD in stage 2) has "
        "validation accuracies. Only the test set could choose the best baseline, and that choice would be biased."
    )
    note = f"Intervals and p-values are from Student's t over seeds. {why}"
    keys = group_colours(runs)
    return f"<h2>Over seeds</h2>{html_of(table, [keys[row[0]] for row in table[1]])}<p class='quiet'>{escape(note)}</p>"


def group_colours(runs: Sequence[Run]) -> dict[str, str]:
    """Name of a group -> colour class."""
    chosen = colours(runs)
    return {name: chosen[members[0].name] for name, members in groups(runs).items()}


def costs_section(runs: Sequence[Run]) -> str:
    """The costs of the runs themselves."""
    keys, table = group_colours(runs), costs(runs)
    note = (
        "Each number is a mean over seeds of the runs' own costs. The costs of the runs from which they started are "
        "not included. `spent` is the compute in epochs of plain SGD: (forward + 2 backward passes) / (3 x steps per "
        "epoch)."
    )
    return f"<h2>Costs</h2>{html_of(table, [keys[row[0]] for row in table[1]])}<p class='quiet'>{note}</p>"


def differences_section(runs: Sequence[Run]) -> str:
    """Options in which runs of a stage differ; nothing when they agree."""
    table = differences(runs)
    if not table[1]:
        return ""
    return f"<h2>What differs</h2>{html_of(table, first_columns=2)}"


GUARDS_NOTE = (
    "<p class='quiet'>The chart Guards at work counts the steps so far in which a safeguard of the method acted. A "
    "search fails if no trial lowers the loss enough. H is the estimate of the inverse Hessian. An update of H is "
    "skipped if the curvature is too small. H is reset to the identity if its direction does not descend. The residual "
    "is the momentum outside the subspace. A step leaves out the residual if the direction with the residual does not "
    "descend.</p>"
)


def telemetry_section(runs: Sequence[Run]) -> str:
    """Step by step, for the first run of each group of stage 2 that kept its steps.csv."""
    chosen = colours(runs)
    parts = []
    for name, members in groups(runs).items():
        run = members[0]
        if drawn := charts.telemetry_charts(run, chosen[run.name]):
            seeds = f", the first of {len(members)} seeds" if len(members) > 1 else ""
            parts.append(f"<h2>{escape(f'Steps of {name} ({run.method}{seeds})')}</h2>{figures(drawn)}")
    return "\n".join([*parts, GUARDS_NOTE] if parts else parts)


def not_shown(runs: Sequence[Run], few: Sequence[Run]) -> str:
    """A sentence where some are left out."""
    if len(few) == len(runs):
        return ""
    return (
        f"<p class='quiet'>This table and the charts show {len(few)} of {len(runs)} runs: the first seed of stage 1 "
        "and of the groups with the most seeds and the best validation accuracy. The tables over seeds and of costs "
        "include all runs.</p>"
    )


def page(
    title: str,
    runs: Sequence[Run],
    pca: dict[str, Any] | None,
    gram: np.ndarray | None = None,
    left_out: Sequence[str] = (),
) -> str:
    """The whole document; `left_out`: which runs are not in it, and why."""
    missing = "".join(f'<p class="quiet">{escape(line)}</p>' for line in left_out)
    lead = "".join(f'<p class="lead">{escape(line)}</p>' for line in comparison(runs))
    few = shown(runs)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">{MARK[1]}<meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE.read_text()}</style></head><body><main>
<h1>{escape(title)}</h1>
{lead}
{missing}
<h2>Runs</h2>
{not_shown(runs, few)}
{html_table(few)}
{uncertainty_section(runs)}
{ranks_section(runs)}
{curves_section(few)}
{subspace_section(pca, gram)}
{telemetry_section(few)}
{verification_section(few)}
{costs_section(runs)}
{differences_section(few)}
<h2>Where this comes from</h2>
{"".join(provenance(run) for run in few)}
</main></body></html>
"""
