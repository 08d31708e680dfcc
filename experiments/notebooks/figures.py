"""One look for the notebooks' figures, and the runs that they show."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXPERIMENTS))

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import MaxNLocator  # noqa: E402
from matplotlib_inline.backend_inline import set_matplotlib_formats  # noqa: E402
from report import run_folders  # noqa: E402
from workbench import charts, groups  # noqa: E402
from workbench.palette import palettes  # noqa: E402

from dimred.runs import Run, find_sidecar, gram_beside, read_good_runs, read_sidecar  # noqa: E402
from dimred.runs.matrices import is_plain  # noqa: E402

COLOUR = palettes()["light"]
WHOLE = ("epoch", "step", "snapshot", "component", "components", "trials", "angle number")


def folder() -> Path:
    """$DIMRED_RUNS, else runs/fashion (scripts/compare.sh), else runs/demo (scripts/demo.sh)."""
    if named := os.environ.get("DIMRED_RUNS"):
        return Path(named)
    places = [EXPERIMENTS.parent / "runs" / name for name in ("fashion", "demo")]
    for place in places:
        if place.is_dir():
            return place
    raise SystemExit(f"no runs yet: scripts/demo.sh makes {places[1]}; or set DIMRED_RUNS to a folder of runs")


def load() -> list[Run]:
    """Every finished run in the folder, each joined to the one it began from; of a comparison, of its last
    phase. Names those that it leaves out."""
    compared = (folder() / "results.csv").is_file()
    folders = run_folders([folder()]) if compared else sorted(c.parent for c in folder().rglob("curve.csv"))
    runs, bad = read_good_runs(folders)
    for error in bad:
        print("left out:", error)
    for run in runs:
        if not run.is_tested:
            print(f"left out: {run.folder} has no test set")
    return [run for run in runs if run.is_tested]


def gram_of(runs: list[Run]) -> tuple[np.ndarray, Path]:
    """Gram matrix of the snapshots behind the first stage-2 run, and its sidecar's path."""
    sidecar = find_sidecar(runs)
    gram = gram_beside(sidecar) if sidecar else None
    if gram is None or sidecar is None:
        raise SystemExit(f"{folder()} has no stage 2 with a matrix whose Gram matrix or snapshots are still there")
    return gram, sidecar


def matrix_of_each_start(runs: list[Run]) -> dict[str, Path]:
    """Name of a stage-1 run -> the first PCA's matrix of all columns that stage 2 used behind it."""
    found: dict[str, Path] = {}
    for run in runs:
        file = Path(run.config.get("pca_mat") or run.folder / "pca_mat.npy")
        reported = file.with_suffix(".json")
        if (
            run.stage == "stage2"
            and run.parent
            and file.is_file()
            and reported.is_file()
            and is_plain(read_sidecar(reported))
        ):
            found.setdefault(run.parent.name, file)
    return found


def grouped(runs: list[Run]) -> Iterator[tuple[str, str, list[Run]]]:
    """(name, colour, its runs over seeds), as the report groups them."""
    classes = charts.colours(runs)
    for name, members in groups.groups(runs).items():
        yield name, COLOUR[classes[members[0].name].split()[0]], members


def way(run: Run, column: str, scale: float = 1.0) -> tuple[list[float], list[float]]:
    """Epochs and values of a run's curve, led up to from the point where it began."""
    points = charts.joined(run, column, scale)
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
