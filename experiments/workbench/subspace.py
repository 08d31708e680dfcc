"""The report's section on the subspace: spectrum beside its null, the snapshots' path, what comes next."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from dimred.runs import coordinates, explained_variance_ratio, leave_last_out, random_walk_ratio

from .svg import Chart, Series

MOST_POINTS = 100  # of leave-last-out: each costs a decomposition
NOTES = {
    "path": "The chart Path of the snapshots shows the snapshots in their first two components. A random walk with the "
    "same number of snapshots draws the dashed parabola on average, because its components are cosines. A smooth arc "
    "is therefore no sign of a simple loss surface.",
    "next": "The last chart shows how much of the way from snapshot t to snapshot t + 1 lies in the components of "
    "snapshots 1 to t. This is the part that a subspace fitted to the past can still reach. For a random walk it is 0.",
}


def cumulative(values: Iterable[float]) -> list[tuple[float, float]]:
    """(number of components, per cent)."""
    return [(i + 1.0, 100 * total) for i, total in enumerate(itertools.accumulate(values))]


def shares(values: Iterable[float]) -> list[tuple[float, float]]:
    """(component, per cent)."""
    return [(i + 1.0, 100 * float(value)) for i, value in enumerate(values)]


def spectrum_charts(pca: dict[str, Any], gram: np.ndarray | None) -> list[Chart]:
    """Explained variance beside that of a random walk of as many snapshots: summed up, and each share. With
    the Gram matrix all n - 1 components are drawn, else the k of the sidecar."""
    steps = pca["snapshots"]
    if gram is not None and len(gram) == steps:
        ratio, null = explained_variance_ratio(gram), random_walk_ratio(steps)
    else:
        ratio, null = pca["explained_variance_ratio"], pca["random_walk_ratio"]
    null = null if sum(null) > 0 else np.empty(0)  # of a span or random matrix there is none
    charts = []
    for title, unit, points, log in (
        ("Explained variance", "cumulative %", cumulative, False),
        ("Share of each component", "%, logarithmic", shares, True),
    ):
        series = [
            Series(f"{steps} snapshots", points(ratio), "c1", mark="small"),
            Series(f"random walk of {steps}", points(null), "c0", mark="small", dashed=True),
        ]
        limits = (None, None) if log else (None, 100.0)
        charts.append(Chart(title, "components", unit, series, whole_x=True, y_limits=limits, log_y=log))
    return charts


def path_chart(gram: np.ndarray) -> Chart:
    """The snapshots in the plane of two components, and where a random walk would lie in one of the same
    spread: component j of snapshot t is proportional to cos(pi j (t + 1/2) / n)."""
    path, share = coordinates(gram, 2), 100 * explained_variance_ratio(gram)[:2]
    n = len(gram)
    null = np.cos(np.pi * np.outer(np.arange(n) + 0.5, [1, 2]) / n)
    null *= np.sqrt((path**2).sum(axis=0) / (null**2).sum(axis=0))
    null *= np.where(null[-1] < 0, -1, 1)
    ends = [
        Series("first", [tuple(path[0])], "c1", False, "ring"),
        Series("last", [tuple(path[-1])], "c1", False, "diamond"),
    ]
    series = [
        Series("random walk", [tuple(point) for point in null], "c0", dashed=True),
        Series("snapshots", [tuple(point) for point in path], "c1", mark="small"),
        *ends,
    ]
    x, y = (f"component {i + 1} ({value:.1f} %)" for i, value in enumerate(share))
    return Chart("Path of the snapshots", x, y, series, y_format="{:.3g}".format)


def next_chart(gram: np.ndarray, components: int) -> Chart | None:
    """Leave-last-out; None with too few snapshots."""
    k = min(components, max(2, len(gram) // 4))
    table = leave_last_out(gram, k, ahead=1, most=MOST_POINTS)
    if len(table) < 3:
        return None
    points = [(float(t), 100 * float(share)) for t, share in zip(table["known"], table["from_last"], strict=True)]
    return Chart(
        f"Next step inside the first {k} components",
        "snapshots known",
        "%",
        [Series("next step inside", points, "c1", mark="small")],
        whole_x=True,
        y_limits=(0.0, 100.0),
    )


def sentence(pca: dict[str, Any]) -> str:
    """A sentence that keeps the explained variance from being overrated."""
    kept, null = (100 * sum(pca[key]) for key in ("explained_variance_ratio", "random_walk_ratio"))
    components, snapshots = len(pca["explained_variance_ratio"]), pca["snapshots"]
    text = f"{components} components hold {kept:.1f} % of the variance of {snapshots} snapshots."
    if null:
        text += (
            f" The same number of components of a random walk with the same number of steps holds {null:.1f} % "
            "(Antognini & Sohl-Dickstein 2018). A high share alone therefore says nothing about the training."
        )
    return text


def subspace_parts(pca: dict[str, Any], gram: np.ndarray | None) -> tuple[list[Chart], list[str]]:
    """The charts and the texts below them. A random matrix has no spectrum to show."""
    drawn = spectrum_charts(pca, gram) if sum(pca["explained_variance_ratio"]) > 0 else []
    texts = [sentence(pca)] if drawn else []
    if gram is not None and len(gram) > 3:
        drawn.append(path_chart(gram))
        texts.append(NOTES["path"])
        if coming := next_chart(gram, len(pca["explained_variance_ratio"])):
            drawn.append(coming)
            texts.append(NOTES["next"])
    return drawn, [escape(text) for text in texts]
