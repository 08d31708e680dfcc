"""dimred.trajectory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import whole_number
from dimred._sources import open_source


class Statistic(NamedTuple):
    """A statistic beside a random walk's; its p-values are the chance of as much or more under random signs."""

    value: float
    walk: float  # of as many equal steps in very many dimensions
    p_value: float  # by signs of single increments
    p_blocks: float  # by signs of blocks of them


class Walk(NamedTuple):
    """What a random walk of as many steps shows."""

    straightness: float
    pc1: float
    r2: float


@dataclass(frozen=True)
class Trajectory:
    """What the increments of all weights, or of one tensor's, show beside those of a random walk."""

    name: str  # of the tensor; empty: of all weights
    weights: int
    straightness: float  # |x_n - x_0|^2 / sum |increment|^2; 1 for a walk
    p_value: float  # of the straightness, two-sided, by signs of single increments: see dimred.trajectory
    p_blocks: float  # by signs of blocks of them
    p_momentum: float  # of the straightness, where neighbours correlate as much as the increments leave possible
    p_adjusted: float  # p_value, of a tensor by Holm's method for all tensors that move
    effective_dimension: float  # 1 / mean of cos^2 between increments, at most `weights`
    cosines: NDArray[np.float64]  # mean between increments 1, 2, ... apart
    p_neighbours: float  # the chance of cosines[0] as large in another order of the increments
    pc1: float  # share of the first principal component of the centred snapshots
    r2: float  # of a line in time through its coefficients
    walk: Walk
    views: dict[str, dict[str, Statistic]]  # "pc1" and "r2" of the points from the "base", "centred", and of "windows"
    verdict: str
    snapshots: int
    limits: tuple[str, ...] = ()  # a sentence for each test that cannot reject, with what it needs
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
    """Tests where a trajectory of n >= 4 weight snapshots shows more than a random walk would, whole and by tensor.

    source, exclude: as dimred.fit takes them, in the order of time; the first snapshot is the base.
    flips: random signs of the increments, 19 to 10^6.
    block: increments that share a sign in the second test; 0: an eighth of them, at least 2.
    window: snapshots in each mean of the view "windows"; 0: a quarter of them, at least 2.
    seed: of the signs.

    The null hypothesis of p_value is independent, symmetric increments, and momentum alone breaks it: where
    neighbours correlate the verdict is "correlated: drift cannot be told apart". A test that cannot reject, for too
    few flips or snapshots, is named in `limits` with what it needs, and never answers that there is no drift. A tensor
    that does not move has statistics of 0 and p-values of 1.
    Cost: one read, then some 150 flips n^2 operations for all weights and for each tensor.
    Raises ValueError for fewer or equal snapshots, options out of range and values that are not finite, and as
    dimred.fit.
    """
    options = {"flips": flips, "block": block, "window": window, "seed": seed, "threads": threads}
    for name, value in options.items():
        whole_number("[dimred.trajectory]", name, value, 0)
    found = json.loads(
        _core.trajectory(open_source(source, exclude), flips, block, window, seed, threads), object_hook=_numbers
    )
    settings = {name: found[name] for name in ("flips", "block", "window", "seed")}
    common = {"snapshots": found["snapshots"], "settings": settings}
    tensors = {item["name"]: _trajectory(item, **common) for item in found["tensors"]}
    return _trajectory(found["whole"], tensors=tensors, limits=tuple(found["limits"]), **common)


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
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
        cosines=np.array(found["cosines"]),
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
