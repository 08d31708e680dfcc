"""Tests a trajectory of snapshots against a random walk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import whole_number
from dimred._sources import given_order, open_source


class Statistic(NamedTuple):
    """A statistic of the trajectory, and its value for a random walk.

    A p-value is the probability of a value at least as large under random signs.
    """

    value: float
    walk: float  # the value for a random walk of equally many, equally long steps in very many dimensions
    p_value: float  # with a random sign for each increment
    p_blocks: float  # with a random sign for each block of increments


class Walk(NamedTuple):
    """The statistics of a random walk with the same number of steps."""

    straightness: float
    pc1: float
    r2: float


@dataclass(frozen=True)
class Trajectory:
    """Statistics of the increments of all weights or of one tensor, beside the values for a random walk."""

    name: str  # the tensor's name; empty for all weights
    weights: int  # the number of weights
    straightness: float  # |x_n - x_0|^2 / sum |increment|^2; 1 for a random walk
    p_value: float  # of the straightness, two-sided, with a random sign for each increment; see dimred.trajectory
    p_blocks: float  # of the straightness, with a random sign for each block of increments
    p_momentum: float  # of the straightness, for the strongest neighbour correlation that the increments allow
    p_adjusted: float  # p_value; for a tensor, corrected by Holm's method over all tensors that move
    effective_dimension: float  # 1 / mean of cos^2 between increments, at most `weights`
    cosines: NDArray[np.float64]  # mean cosine of increments at distance 1, 2, ...
    p_neighbours: float  # the probability of a value at least as large as cosines[0] in a random order of increments
    pc1: float  # share of the first principal component of the centred snapshots
    r2: float  # R^2 of a linear fit over time to the coefficients of the first component
    walk: Walk
    views: dict[str, dict[str, Statistic]]  # "pc1" and "r2" of points from the "base", "centred", and of "windows"
    verdict: str
    snapshots: int
    limits: tuple[str, ...] = ()  # one sentence for each test that cannot reject, with its requirement
    tensors: dict[str, Trajectory] = field(default_factory=dict, repr=False)
    settings: dict[str, int] = field(default_factory=dict, repr=False)  # flips, block, window, seed


def trajectory(
    source: Any,
    *,
    exclude: str | Iterable[str] = (),
    flips: int = 999,
    block: int = 0,
    window: int = 0,
    seed: int = 0,
    threads: int = 0,
) -> Trajectory:
    """Tests whether a trajectory of n >= 4 weight snapshots shows more than a random walk would, for all weights and
    for each tensor.

    source, exclude: as dimred.fit takes them. The snapshots are in the order of time, files in the order of the steps
        in their names; the first one is the base. If the names in a list give no order, the order of the list counts,
        and a warning says so.
    flips: the number of draws of random signs for the increments, from 19 to 10^6.
    block: the number of increments that share a sign in the second test; 0 takes an eighth of them, at least 2.
    window: the number of snapshots in each mean of the view "windows"; 0 takes a quarter of them, at least 2.
    seed: the seed of the random signs.
    threads: 0 takes all cores of this process.

    The null hypothesis of p_value is that the increments are independent and symmetric. Momentum alone violates it. If
    neighbouring increments correlate, the verdict is "correlated: drift cannot be told apart". A test that cannot
    reject, because flips or snapshots are too few, appears in `limits` with its requirement. Such a test never
    concludes that there is no drift. A tensor that does not move has statistics of 0 and p-values of 1.
    Cost: one read of the source, then about 150 flips n^2 operations for all weights and again for each tensor.
    Raises ValueError for too few snapshots, equal snapshots, options out of range and values that are not finite.
    Raises the errors of dimred.fit, too.
    """
    options = {"flips": flips, "block": block, "window": window, "seed": seed, "threads": threads}
    for name, value in options.items():
        whole_number("[dimred.trajectory]", name, value, 0)
    rows = open_source(source, exclude)
    found = json.loads(_core.trajectory(rows, flips, block, window, seed, threads), object_hook=_numbers)
    if order := given_order(rows, source):
        warnings.warn(f"[dimred.trajectory] {order}", stacklevel=2)
    settings = {name: found[name] for name in ("flips", "block", "window", "seed")}
    common = {"snapshots": found["snapshots"], "settings": settings}
    tensors = {item["name"]: _trajectory(item, **common) for item in found["tensors"]}
    return _trajectory(found["whole"], tensors=tensors, limits=tuple(found["limits"]), **common)


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Replaces null by NaN: JSON has no NaN."""
    return {name: float("nan") if value is None else value for name, value in values.items()}


def _trajectory(found: Mapping[str, Any], **others: Any) -> Trajectory:
    straightness = Statistic(**found["straightness"])
    views = {
        view: {name: Statistic(**statistic) for name, statistic in found[view].items()}
        for view in ("base", "centred", "windows")
    }
    pc1, r2 = views["centred"]["pc1"], views["centred"]["r2"]
    return Trajectory(
        straightness=straightness.value,
        p_value=straightness.p_value,
        p_blocks=straightness.p_blocks,
        cosines=np.array(found["cosines"], np.float64),  # None, of a distance without two increments, becomes NaN
        pc1=pc1.value,
        r2=r2.value,
        walk=Walk(straightness.walk, pc1.walk, r2.walk),
        views=views,
        **{
            name: found[name]
            for name in (
                "name",
                "weights",
                "p_momentum",
                "p_adjusted",
                "effective_dimension",
                "p_neighbours",
                "verdict",
            )
        },
        **others,
    )
