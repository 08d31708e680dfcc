"""Draws README's figure: time and memory of merges and conversions beside other tools.

    .venv/bin/python experiments/benchmarks/draw_merges.py

Reads docs/results/merge_peers.json, which merge.py of this folder writes, and docs/results/verbs.json, which verbs.py
writes. If verbs.json exists, each measured task in it has a row of bars. The same files give the same bytes each time,
with the matplotlib of requirements/base.txt.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
OURS, PEER, YARDSTICK = "#cc3311", "#88aacc", "#bbbbbb"
STATES = {"warm": "seconds, from the page cache", "cold": "seconds, from disk"}
Costs = dict[str, list[dict[str, float]]]
Panels = dict[str, list[float]]  # a value for each tool of a row, by the panel's title


@dataclass(frozen=True)
class Row:
    """What a row of charts shows: its title, tools of the JSON and their names here, and what they cost."""

    title: str
    tools: dict[str, str]
    costs: Costs

    def panels(self) -> Panels:
        """Median seconds of the rounds, and the highest memory of those from the page cache."""
        panels = {
            title: [
                statistics.median(cost["seconds"] for cost in self.costs[f"{tool}, {state}"]) for tool in self.tools
            ]
            for state, title in STATES.items()
        }
        peaks = [max(cost["peak"] for cost in self.costs[f"{tool}, warm"]) / 2**20 for tool in self.tools]
        return panels | {"memory, MiB": peaks}


MERGE = {"cat + cp": "cat and cp", "dimred merge": "dimred merge", "mergekit": "mergekit", "OLMo-core": "OLMo-core"}
COPY = {"cat + cp": "cat and cp"}
# A task of verbs.json, the words of its row's title behind the size, and its tools.
VERBS = {
    "convert": ("in {files} shards, converted", COPY | {"dimred convert": "dimred convert"}),
    "distributed": (
        "of a distributed checkpoint as one file",
        COPY | {"dimred convert": "dimred convert", "torch": "torch", "accelerate": "accelerate"},
    ),
    "adapter": ("with a LoRA adapter folded", COPY | {"dimred convert": "dimred convert", "PEFT": "PEFT"}),
}


def rows_of(merges: dict[str, Any], verbs: dict[str, Any]) -> list[Row]:
    """The merge, then each task of verbs.json that was measured."""
    title = "Mean of ten checkpoints of 100 M parameters (2 GB, bfloat16), two busy cores"
    rows = [Row(title, MERGE, merges["costs"])]
    for task, (words, tools) in VERBS.items():
        if task in verbs:
            found = verbs[task]
            size = f"{found['bytes'] / 1e9:.2g} GB"
            rows.append(Row(f"{size} {words.format(files=found['shards'])}", tools, found["costs"]))
    return rows


def label_of(value: float) -> str:
    """Two or three digits; whole numbers from a hundred on."""
    return f"{value:.2g}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def color_of(tool: str) -> str:
    """One for dimred, one for other tools and one for commands that only read and copy."""
    return OURS if tool.startswith("dimred") else YARDSTICK if tool.startswith("cat") else PEER


def draw_row(row: Row, charts: Any, names_panels: bool) -> None:
    """Fills a chart for each panel, a bar for each tool."""
    colors = [color_of(tool) for tool in row.tools]
    for axes, (panel, values) in zip(charts, row.panels().items(), strict=True):
        bars = axes.barh(range(len(row.tools)), values, color=colors, height=0.7)
        axes.bar_label(bars, labels=[label_of(value) for value in values], padding=3)
        axes.set_title(f"\n{panel}" if names_panels else " ", fontsize=8)  # leaves room for the row's
        axes.set(yticks=range(len(row.tools)), yticklabels=row.tools.values(), xticks=[], xlim=(0, 1.22 * max(values)))
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(left=False)
    place: dict[str, Any] = {"xytext": (0, 17 if names_panels else 6), "textcoords": "offset points"}
    title = charts[0].annotate(row.title, (0, 1), xycoords="axes fraction", fontweight="bold", **place)
    title.set_in_layout(False)  # its width is no chart's
    for label, tool in zip(charts[0].get_yticklabels(), row.tools, strict=True):
        label.set_fontweight("bold" if tool.startswith("dimred") else "normal")
    charts[0].invert_yaxis()


def draw(rows: list[Row], output: Path) -> None:
    """Writes rows of bar charts, one row below another."""
    mpl.use("agg")
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "dimred", "font.size": 8, "svg.fonttype": "path"})
    heights = [len(row.tools) for row in rows]
    size = (7.6, 0.3 + 0.3 * len(rows) + 0.3 * sum(heights))
    options: dict[str, Any] = {"sharey": "row", "squeeze": False, "layout": "constrained"}
    figure, charts = pyplot.subplots(len(rows), 3, figsize=size, height_ratios=heights, **options)
    for row, of_row in zip(rows, charts, strict=True):
        draw_row(row, of_row, names_panels=row is rows[0])
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else {}, dpi=200)


def main() -> None:
    """Prints the values and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, default=RESULTS / "merge_peers.json")
    parser.add_argument("--verbs", type=Path, default=RESULTS / "verbs.json")
    parser.add_argument("--output", type=Path, default=RESULTS / "merges.svg")
    options = parser.parse_args()
    verbs = json.loads(options.verbs.read_text()) if options.verbs.exists() else {}
    rows = rows_of(json.loads(options.input.read_text()), verbs)
    for row in rows:
        print(row.title)
        for title, values in row.panels().items():
            pairs = zip(row.tools, values, strict=True)
            print(f"  {title}: " + ", ".join(f"{tool} {label_of(value)}" for tool, value in pairs))
    draw(rows, options.output)


if __name__ == "__main__":
    main()
