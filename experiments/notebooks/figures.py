"""One look for the notebooks' figures, and the runs that they show.

It needs the package alone, so that a copy of this folder works.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


class Missing(Exception):
    """What a notebook needs and does not find; it ends the cell with one line that says how to make it."""

    def _render_traceback_(self) -> list[str]:  # instead of IPython's
        return [str(self)]


try:
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
    from IPython.display import HTML, display
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    from dimred import runs as reader
    from dimred.runs.matrices import is_plain
except ModuleNotFoundError as missing:
    raise Missing(
        f"no module {missing.name}: scripts/notebooks.sh installs it, or pip install '.[runs,plot]'"
    ) from None

# The colours of the light report (experiments/workbench/style.css).
COLOUR = {
    "c0": "#5c6177",
    "c1": "#cb4353",
    "c2": "#2f6ac4",
    "c3": "#19a583",
    "c4": "#4b2a85",
    "c5": "#b5751b",
    "c6": "#0a2f4d",
    "c7": "#a484ad",
    "quiet": "#667079",
    "faint": "#e4e6e8",
}
WHOLE = ("epoch", "step", "snapshot", "component", "components", "trials", "angle number")


def folder() -> Path:
    """$DIMRED_RUNS, else runs/fashion (scripts/compare.sh) or runs/demo (scripts/demo.sh) here or above."""
    if named := os.environ.get("DIMRED_RUNS"):
        if not Path(named).is_dir():
            raise Missing(f"DIMRED_RUNS needs a folder, received {named}")
        return Path(named)
    for above in (Path.cwd(), *Path.cwd().parents):
        for name in ("fashion", "demo"):
            if (above / "runs" / name).is_dir():
                return above / "runs" / name
    raise Missing("no runs yet: scripts/demo.sh makes runs/demo; or set DIMRED_RUNS to a folder of runs")


def load() -> list[reader.Run]:
    """Every finished run in the folder, each joined to the one it began from; of a comparison, of its last
    phase. Names those that it leaves out."""
    try:
        runs, bad = reader.read_good_runs(reader.run_folders([folder()]))
    except reader.NotARun:
        runs, bad = [], []
    for error in bad:
        print("left out:", error)
    for run in runs:
        if not run.is_tested:
            print(f"left out: {run.folder} has no test set")
    tested = [run for run in runs if run.is_tested]
    if not tested:
        raise Missing(f"{folder()} has no finished run with a test set: scripts/demo.sh makes some in runs/demo")
    return tested


def one_of(runs: list[reader.Run], what: str) -> reader.Run:
    """The first, of those that a notebook is about."""
    if not runs:
        raise Missing(f"{folder()} has no {what}: scripts/demo.sh makes one in runs/demo")
    return runs[0]


def table(name: str) -> pd.DataFrame:
    """results.csv or summary.csv of a comparison."""
    file = folder() / name
    if not file.is_file():
        raise Missing(
            f"{folder()} is no comparison, because {name} is missing: scripts/compare.sh "
            "experiments/comparisons/fashion.toml --output runs/fashion makes one"
        )
    return pd.read_csv(file)


def gram_of(runs: list[reader.Run]) -> tuple[np.ndarray, Path]:
    """Gram matrix of the snapshots behind the first stage-2 run, and its sidecar's path."""
    sidecar = reader.find_sidecar(runs)
    gram = reader.gram_beside(sidecar) if sidecar else None
    if gram is None or sidecar is None:
        raise Missing(
            f"{folder()} has no run of stage 2 whose Gram matrix or snapshots still exist: scripts/demo.sh makes one "
            "in runs/demo"
        )
    return gram, sidecar


def matrix_of_each_start(runs: list[reader.Run]) -> dict[str, Path]:
    """Name of a stage-1 run -> the first PCA's matrix of all columns that stage 2 used behind it."""
    found: dict[str, Path] = {}
    for run in runs:
        file = Path(run.config.get("pca_mat") or run.folder / "pca_mat.npy")
        reported = file.with_suffix(".json")
        if run.stage != "stage2" or run.parent is None or not file.is_file() or not reported.is_file():
            continue
        if is_plain(reader.read_sidecar(reported)):
            found.setdefault(run.parent.name, file)
    return found


def grouped(runs: list[reader.Run]) -> Iterator[tuple[str, str, list[reader.Run]]]:
    """(name, colour, its runs over seeds), as the report groups them."""
    classes = reader.colours(runs)
    for name, members in reader.groups(runs).items():
        yield name, COLOUR[classes[members[0].name].split()[0]], members


def way(run: reader.Run, column: str, scale: float = 1.0) -> tuple[list[float], list[float]]:
    """Epochs and values of a run's curve, led up to from the point where it began."""
    points = reader.joined(run, column, scale)
    return [x for x, _ in points], [y for _, y in points]


def figure(columns: int = 1, width: float = 7.0, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """Axes side by side."""
    drawn, axes = plt.subplots(1, columns, figsize=(width if columns == 1 else 9.6, height), squeeze=False)
    return drawn, list(axes[0])


def label(axis: Axes, title: str, x: str, y: str, legend: bool = False) -> None:
    """Title to the left, quiet axis labels."""
    axis.set_title(title, loc="left")
    if x in WHOLE:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if legend:
        axis.legend()


def rest(axis: Axes, text: str) -> None:
    """A sentence where a figure has nothing to draw yet."""
    axis.text(0.5, 0.5, text, ha="center", va="center", transform=axis.transAxes, wrap=True)
    axis.set_axis_off()


set_matplotlib_formats("svg")
display(HTML("<style>.jp-RenderedSVG > * { max-width: 100%; height: auto; }</style>"))  # wide figures fit the page
quiet = COLOUR["quiet"]
plt.rcParams.update(
    {
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.labelcolor": quiet,
        "axes.edgecolor": quiet,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": COLOUR["faint"],
        "xtick.color": quiet,
        "ytick.color": quiet,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",
        "axes.prop_cycle": plt.cycler(color=[COLOUR[f"c{i}"] for i in (1, 2, 3, 0, 5, 4, 7, 6)]),
    }
)
