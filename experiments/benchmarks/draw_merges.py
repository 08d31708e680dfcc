"""The figure of README: time and memory of a merge beside other tools.

    .venv/bin/python experiments/benchmarks/draw_merges.py

Reads docs/results/merge_peers.json, which merge.py of this folder wrote. One JSON gives the same bytes each time, with
the matplotlib of requirements/base.txt.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
TOOLS = {
    "cat + cp": ("cat and cp", "#bbbbbb"),
    "dimred merge": ("dimred merge", "#cc3311"),
    "mergekit": ("mergekit", "#88aacc"),
    "OLMo-core": ("OLMo-core", "#88aacc"),
}
Panels = dict[str, list[float]]  # a value for each of TOOLS, by the panel's title


def panels_of(costs: dict[str, list[dict[str, float]]]) -> Panels:
    """Median seconds of the rounds, and the highest memory of those from the page cache."""

    def seconds(tool: str, state: str) -> float:
        return statistics.median(cost["seconds"] for cost in costs[f"{tool}, {state}"])

    return {
        "seconds, from the page cache": [seconds(tool, "warm") for tool in TOOLS],
        "seconds, from disk": [seconds(tool, "cold") for tool in TOOLS],
        "memory, MiB": [max(cost["peak"] for cost in costs[f"{tool}, warm"]) / 2**20 for tool in TOOLS],
    }


def label_of(value: float) -> str:
    """Two or three digits; whole numbers from a hundred on."""
    return f"{value:.2g}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def draw(panels: Panels, output: Path) -> None:
    """Writes a row of bar charts, a bar for each tool."""
    mpl.use("agg")
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "dimred", "font.size": 8, "svg.fonttype": "path"})
    figure, row = pyplot.subplots(1, len(panels), figsize=(7.6, 1.9), sharey=True, layout="constrained")
    names, colors = zip(*TOOLS.values(), strict=True)
    for axes, (title, values) in zip(row, panels.items(), strict=True):
        bars = axes.barh(range(len(TOOLS)), values, color=colors, height=0.7)
        axes.bar_label(bars, labels=[label_of(value) for value in values], padding=3)
        axes.set_title(title, fontsize=8)
        axes.set(yticks=range(len(TOOLS)), yticklabels=names, xticks=[], xlim=(0, 1.22 * max(values)))
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(left=False)
    row[0].get_yticklabels()[list(TOOLS).index("dimred merge")].set_fontweight("bold")
    row[0].invert_yaxis()
    title = "Mean of ten checkpoints of 100 M parameters (2 GB, bfloat16), two busy cores"
    figure.suptitle(title, fontsize=8, fontweight="bold")
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else {}, dpi=200)


def main() -> None:
    """Prints the values and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, default=RESULTS / "merge_peers.json")
    parser.add_argument("--output", type=Path, default=RESULTS / "merges.svg")
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.input.read_text())
    panels = panels_of(found["costs"])
    for title, values in panels.items():
        print(f"{title}: " + ", ".join(f"{tool} {label_of(value)}" for tool, value in zip(TOOLS, values, strict=True)))
    draw(panels, options.output)


if __name__ == "__main__":
    main()
