"""Plots of a training in the space of its weights. Each function returns matplotlib's Axes."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimred._basis import Basis
from dimred._fit import fit
from dimred._readouts import _parameters_of, _row, _split
from dimred._sources import given_order, layout_of, open_source
from dimred._trajectory import Trajectory

Grid = NDArray[np.float64]


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("[dimred.plot] needs matplotlib: pip install matplotlib") from None
    return pyplot.subplots()[1]


def spectrum(basis: Basis, axes: Any = None) -> Any:
    """Plots the part of the variance that each component explains, beside a random walk with the same number of
    snapshots.
    """
    if basis.explained_variance_ratio.size == 0:
        raise ValueError("[dimred.plot.spectrum] this basis has no singular values: its .json file was missing")
    axes = _axes(axes)
    numbers = np.arange(1, len(basis.explained_variance_ratio) + 1)
    axes.semilogy(numbers, basis.explained_variance_ratio, "o-", label="snapshots")
    if basis.random_walk_ratio.any():
        axes.semilogy(numbers, basis.random_walk_ratio, "--", color="grey", label="random walk")
    axes.set(
        xlabel="component",
        ylabel="explained variance ratio",
        title=f"{basis.explained_variance_ratio.sum():.1%} in {len(numbers)} components",
    )
    axes.legend()
    return axes


def trajectory(source: Any, basis: Basis | None = None, axes: Any = None) -> Any:
    """Plots the snapshots in the plane of the first two components of `basis`, or of a new fit. The last snapshot is
    the origin. source: as dimred.trajectory takes it.

    A random walk also looks like a smooth arc here. Compare the grey line of spectrum() before you interpret the path.
    """
    coordinates, basis, _ = _coordinates(source, basis)
    axes = _axes(axes)
    axes.plot(*coordinates.T, "-", color="grey", zorder=1)
    points = axes.scatter(*coordinates.T, c=np.arange(len(coordinates)), zorder=2)
    axes.figure.colorbar(points, ax=axes, label="snapshot")
    axes.set(**_labels(basis))
    return axes


def cosines(found: Trajectory, axes: Any = None) -> Any:
    """Plots the mean cosines of increments by lag, and two sigma of independent increments. found: a result of
    dimred.trajectory.
    """
    axes = _axes(axes)
    lags = np.arange(1, len(found.cosines) + 1)
    band = 2 / np.sqrt(found.effective_dimension * (found.snapshots - 1 - lags))
    axes.fill_between(lags, -band, band, color="lightgrey", label="independent increments")
    axes.plot(lags, found.cosines, "o-", label="snapshots")
    axes.set(xlabel="lag", ylabel="mean cosine of increments", title=found.verdict)
    axes.legend()
    return axes


def landscape(
    model: Any,
    loss: Callable[[], float],
    source: Any,
    *,
    points: int = 21,
    margin: float = 0.3,
    basis: Basis | None = None,
    axes: Any = None,
) -> Any:
    """Plots the loss of a torch module in the plane of the first two components through the last snapshot, and the
    path.

    loss: loss() evaluates the model with its present weights, on the same data at each call. It is called points x
        points times.
    margin: the distance between the trajectory and the edge of the grid, as a part of the trajectory's width.

    The model's own weights and buffers are restored afterwards. `axes.landscape` is (x [points], y [points], losses
    [points, points]). Cost: points^2 calls of loss, and as many copies of M weights.
    """
    coordinates, basis, centre = _coordinates(source, basis)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    reach = margin * np.maximum(high - low, 1e-12)
    x, y = (np.linspace(low[i] - reach[i], high[i] + reach[i], points) for i in (0, 1))
    losses = np.empty((points, points))
    with _written(model, basis) as write:
        for i, b in enumerate(y):
            for j, a in enumerate(x):
                write(centre + basis.components[0] * np.float32(a) + basis.components[1] * np.float32(b))
                losses[i, j] = loss()
    axes = _axes(axes)
    drawn = axes.contourf(x, y, losses, levels=20)
    axes.figure.colorbar(drawn, ax=axes, label="loss")
    axes.plot(*coordinates.T, "o-", color="white", markersize=3)
    axes.set(**_labels(basis))
    axes.landscape = (x, y, losses)
    return axes


def compare(
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    column: str = "test_accuracy",
    axes: Any = None,
    *,
    weights: str = "raw",
) -> Any:
    """Plots a column of several runs' curve.csv by epoch. Runs without the column are left out; raises ValueError if no
    run has it.

    weights: the kind of weights: "raw", "ema", "mean" or "recalibrated".
    """
    axes = _axes(axes)
    drawn = 0
    runs = [runs] if isinstance(runs, (str, os.PathLike)) else runs
    for run in map(Path, runs):
        with (run / "curve.csv").open(newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if row.get("weights") == weights and row.get(column)]
        if rows:
            axes.plot([float(row["epoch"]) for row in rows], [float(row[column]) for row in rows], "o-", label=run.name)
            drawn += 1
    if drawn == 0:
        raise ValueError(
            f"[dimred.plot.compare] none of the runs {', '.join(map(str, runs))} has values of {weights} weights in "
            f"the column {column}"
        )
    axes.set(xlabel="epoch", ylabel=column.replace("_", " "))
    axes.legend()
    return axes


def _coordinates(source: Any, basis: Basis | None) -> tuple[Grid, Basis, NDArray[Any]]:
    """Returns the coordinates [n, 2] relative to the last snapshot, the basis, and this snapshot in its order."""
    rows = open_source(source)
    if rows.rows < 3:
        raise ValueError(f"[dimred.plot] needs 3 or more snapshots, received {rows.rows}")
    if rows.unordered is not None and isinstance(source, (str, os.PathLike)):  # a list gives an order
        raise ValueError(f"[dimred.plot] needs the order of the snapshots, but {rows.unordered}; give an ordered list")
    if order := given_order(rows, source):
        warnings.warn(f"[dimred.plot] {order}", stacklevel=3)
    if basis is None:
        basis = fit(source, 2, progress=False)
    if basis.components.shape[0] < 2 or basis.components.shape[1] != rows.columns:
        raise ValueError(
            f"[dimred.plot] needs a basis of 2 or more components with {rows.columns} columns, received the shape "
            f"{list(basis.components.shape)}"
        )
    names, shapes = layout_of(rows)
    reordered = names != basis.names and sorted(names) == sorted(basis.names)
    found = []
    for i in range(rows.rows):
        row = _row(rows, i)
        if reordered:
            row = basis._flat("project", dict(_split(row, names, shapes)))
        found.append(basis.project(row)[:2])
    return np.stack(found) - found[-1], basis, row


def _labels(basis: Basis) -> dict[str, str]:
    ratio = basis.explained_variance_ratio
    return {
        name: f"component {i + 1}" + (f" ({ratio[i]:.1%})" if len(ratio) > i else "")
        for i, name in enumerate(("xlabel", "ylabel"))
    }


@contextmanager
def _written(model: Any, basis: Basis) -> Iterator[Callable[[NDArray[np.float32]], None]]:
    """Yields a function that gives a torch module weights [M]; the module gets its weights and buffers back."""
    import torch

    from dimred._torch_step import is_expanded

    parameters = _parameters_of(model, basis.names) if basis.names else list(model.parameters())
    shapes = basis.shapes or [tuple(parameter.shape) for parameter in parameters]
    first: dict[Any, str] = {}
    for name, shape, parameter in zip(basis.names, shapes, parameters, strict=False):  # the basis may have no names
        if parameter is None or tuple(parameter.shape) != shape:
            raise ValueError(f"[dimred.plot.landscape] the model has no parameter {name} {list(shape)}")
        if (other := first.setdefault(parameter, name)) != name:
            raise ValueError(f"[dimred.plot.landscape] the model ties {other} and {name}, but the basis has both")
    if (columns := basis.components.shape[1]) != (values := sum(parameter.numel() for parameter in parameters)):
        raise ValueError(
            f"[dimred.plot.landscape] the basis has {columns} columns, but the model's parameters have {values} values"
        )
    own = [(part, part.detach().clone()) for part in (*model.parameters(), *model.buffers()) if not is_expanded(part)]

    def write(w: NDArray[np.float32]) -> None:
        begin = 0
        with torch.no_grad():
            for parameter, shape in zip(parameters, shapes, strict=True):
                size = int(np.prod(shape, dtype=np.int64))
                parameter.copy_(torch.from_numpy(w[begin : begin + size].reshape(shape)))
                begin += size
        torch.clear_autocast_cache()  # an autocast around all keeps copies of earlier weights

    try:
        yield write
    finally:
        with torch.no_grad():
            for tensor, value in own:
                tensor.copy_(value)
        torch.clear_autocast_cache()
