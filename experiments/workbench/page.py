"""One self-contained HTML page from runs: table, charts, provenance. No outside resources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from dimred_runs import Run

from . import charts
from .ranks import ranks_section
from .summary import comparison, summary_header, summary_rows
from .svg import Chart, Series, render

STYLE = Path(__file__).with_name("style.css")


def legend(series: Sequence[Series]) -> str:
    """Coloured names, one for each line; nothing for a single one."""
    items = [
        f'<span><i class="key {s.colour}"></i>{escape(s.name)}</span>'
        for s in series
        if s.line and s.points
    ]
    if len(items) < 2:
        return ""
    return f'<div class="legend">{"".join(items)}</div>'


def html_table(runs: Sequence[Run]) -> str:
    """The summary with each run's colour; the last column is the one to compare."""
    chosen = charts.colours(runs)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in summary_header(runs))
    body = []
    for run, cells in zip(runs, summary_rows(runs), strict=True):
        key = f'<i class="key {chosen[run.name]}"></i>'
        first = f"<td>{key}{escape(cells[0])}</td>"
        middle = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:-1])
        body.append(f'<tr>{first}{middle}<td class="strong">{escape(cells[-1])}</td></tr>')
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


PROVENANCE = (
    "train_data", "parameters", "device", "processor", "threads", "precision", "ranks",
    "global_batch_size", "seed", "revision", "layout_hash", "outcome",
)  # fmt: skip


def provenance(run: Run) -> str:
    """What a reader needs to repeat the run: data, device, versions, seed."""
    manifest = run.manifest
    fields = [
        f"{key.replace('_', ' ')} {manifest[key]}"
        for key in PROVENANCE
        if manifest.get(key) not in (None, "")
    ]
    fields += [f"{name} {version}" for name, version in manifest.get("versions", {}).items()]
    return f"<p class='quiet'><b>{escape(run.name)}</b>: {escape('; '.join(map(str, fields)))}</p>"


def figures(drawn: Sequence[Chart], with_legend: bool = True) -> str:
    """Charts in a grid of one or two columns."""
    named = legend if with_legend else lambda _: ""
    cells = [f"<div>{render(chart)}{named(chart.series)}</div>" for chart in drawn]
    return f'<div class="grid2">{"".join(cells)}</div>'


MARKS_NOTE = (
    "<p class='quiet'>Dots are the weights as trained; rings have their BatchNorm statistics "
    "recalibrated, diamonds are means of weights, crosses moving averages. The dotted rule is "
    "where the runs part. Point at a mark for its value.</p>"
)


def curves_section(runs: Sequence[Run], pca: dict[str, Any] | None) -> str:
    """Accuracy large; below it the last epochs, the training loss and the explained variance."""
    whole, *near = charts.accuracy_charts(runs)
    below = [*near, charts.loss_chart(runs)]
    parts = ["<h2>Curves</h2>", legend(whole.series)]
    parts += [f'<div class="scroll"><div class="wide">{render(whole)}</div></div>', MARKS_NOTE]
    parts.append(figures([chart for chart in below if chart.series], with_legend=False))
    if pca:
        parts.append(subspace_section(pca))
    return "\n".join(parts)


def subspace_section(pca: dict[str, Any]) -> str:
    """Explained variance beside its null, with the sentence that keeps it from being overrated."""
    chart = charts.explained_chart(pca)
    kept = 100 * sum(pca["explained_variance_ratio"])
    null = 100 * sum(pca["random_walk_ratio"])
    text = (
        f"{len(pca['explained_variance_ratio'])} components hold {kept:.1f} % of the variance of "
        f"{pca['snapshots']} snapshots. As many components of a random walk of as many steps hold "
        f"{null:.1f} % (Antognini & Sohl-Dickstein 2018), so a high share alone says nothing of "
        "the training."
    )
    cells = f"<div>{render(chart)}{legend(chart.series)}</div><p class='quiet'>{escape(text)}</p>"
    return f'<h2>The subspace</h2><div class="grid2">{cells}</div>'


def telemetry_section(runs: Sequence[Run]) -> str:
    """Step by step, for each stage-2 run that kept its steps.csv."""
    chosen = charts.colours(runs)
    parts = []
    for run in runs:
        drawn = charts.telemetry_charts(run, chosen[run.name])
        if drawn:
            title = escape(f"Steps of {run.name} ({run.method})")
            parts.append(f"<h2>{title}</h2>{figures(drawn)}")
    return "\n".join(parts)


def page(title: str, runs: Sequence[Run], pca: dict[str, Any] | None) -> str:
    """The whole document."""
    lead = "".join(f'<p class="lead">{escape(line)}</p>' for line in comparison(runs))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE.read_text()}</style></head><body><main>
<h1>{escape(title)}</h1>
{lead}
<h2>Runs</h2>
{html_table(runs)}
{ranks_section(runs, legend)}
{curves_section(runs, pca)}
{telemetry_section(runs)}
<h2>Where this comes from</h2>
{"".join(provenance(run) for run in runs)}
</main></body></html>
"""
