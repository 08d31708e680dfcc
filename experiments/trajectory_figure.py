"""Draws the figure of docs/explanation/trajectories.md: a run, its shuffled increments and a walk in three statistics.

    build/bin/dimred stage1 --config experiments/recipes/fashion_demo.toml --train_samples 12000 --output runs/walk
    .venv/bin/python experiments/trajectory_figure.py runs/walk/snapshots

Cost: a second for the demo's 36 snapshots of 93,322 weights. The random walk has as many steps as the run,
of the same lengths, in independent directions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from workbench.files import require_place

import dimred
from dimred._sources import open_source

REPOSITORY = Path(__file__).resolve().parents[1]
FIGURE = REPOSITORY / "docs" / "static" / "trajectories.svg"
PANELS = {"straightness": "straightness S", "pc1": "share of the first component", "r2": "R² of a line in time"}


def rows_of(source: str) -> NDArray[np.float64]:
    """All snapshots in memory, [n, M]."""
    rows = open_source(source)
    values = np.empty((rows.rows, rows.columns), np.float32)
    for i, row in enumerate(values):
        rows.read(i, row)
    return values.astype(np.float64)


def trajectories(rows: NDArray[np.float64], seed: int) -> dict[str, dimred.Trajectory]:
    """The run's own, that of its increments in another order, and that of random ones of their lengths."""
    random = np.random.default_rng(seed)
    steps = np.diff(rows, axis=0)
    directions = random.standard_normal(steps.shape)
    lengths = np.linalg.norm(steps, axis=1) / np.linalg.norm(directions, axis=1)
    kinds = {
        "run": steps,
        "its steps\nshuffled": random.permutation(steps),
        "random\nwalk": directions * lengths[:, None],
    }
    return {
        name: dimred.trajectory(np.vstack([np.zeros(rows.shape[1]), np.cumsum(values, axis=0)]), seed=seed)
        for name, values in kinds.items()
    }


def draw(found: dict[str, dimred.Trajectory], output: Path) -> None:
    mpl.use("agg")
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "dimred", "font.size": 8, "svg.fonttype": "none"})
    figure, panels = pyplot.subplots(1, 3, figsize=(7.2, 2.2), layout="constrained")
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        values = [getattr(one, name) for one in found.values()]
        bars = axes.bar(range(len(found)), values, color=["#4477aa", "#88aacc", "#bbbbbb"])
        axes.bar_label(bars, fmt="%.2f", label_type="center")
        axes.axhline(getattr(next(iter(found.values())).walk, name), color="black", linestyle="--", linewidth=0.8)
        axes.set(title=title, xticks=range(len(found)), xticklabels=list(found), ylim=(0, 1.18 * max(values)))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="snapshots, as dimred.trajectory takes them")
    parser.add_argument("--output", type=Path, default=FIGURE)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        require_place(options.output, "--output", ("figure of Matplotlib", "Matplotlib"))
    except ValueError as error:
        parser.error(str(error))
    found = trajectories(rows_of(options.source), options.seed)
    for name, one in found.items():
        print(
            f"{' '.join(name.split()):18} S {one.straightness:.3f} (p = {one.p_value:.3f}), PC1 {one.pc1:.3f} "
            f"(p = {one.views['centred']['pc1'].p_value:.3f}), R2 {one.r2:.3f}, lag 1 {one.cosines[0]:.3f}: "
            f"{one.verdict}"
        )
    draw(found, options.output)


if __name__ == "__main__":
    main()
