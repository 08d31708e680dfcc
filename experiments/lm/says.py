"""What a window of a run shows at T, nine tenths of the run; what a mean, annealing or a step beyond gains there."""

from __future__ import annotations

import math
from collections.abc import Iterator

import dimred
from lm.arms import MEAN_OF, annealed_losses, mean_losses
from lm.base import Base, make
from lm.training import Losses

SNAPSHOTS, LAGS, AMOUNTS = 40, (1, 10), (0.1, 0.25, 0.5, 1.0)

Part = tuple[str, dict[str, float] | dict[str, str] | dict[str, Losses]]


def measured(base: Base) -> Iterator[Part]:
    """The statistics, which are yielded before anything is evaluated, then the losses. Raises Diverged. A window whose
    weights hardly move has a reason in the place of statistics."""
    at = base.end - base.end // 10
    make(base, at)
    try:
        yield "statistics", statistics(base, at)
    except ValueError as reason:
        yield "no statistics", {"reason": str(reason)}
    make(base, base.end)
    losses = {
        "last": base.losses(base.at(at).model),
        "mean": mean_losses(base, at),
        "end": base.losses(base.at(base.end).model),
        "annealed": annealed_losses(base, at),
    }
    yield "losses", losses | {f"step {amount}": stepped(base, at, amount) for amount in AMOUNTS}


def statistics(base: Base, at: int) -> dict[str, float]:
    found = dimred.trajectory(base.files(at)[-SNAPSHOTS:], flips=19, threads=1)
    values = {
        "straightness": found.straightness,
        "pc1": found.pc1 / found.walk.pc1,
        "effective dimension": found.effective_dimension,
        **{f"cosine {lag}": float(found.cosines[lag - 1]) for lag in LAGS},
    }
    if unknown := [name for name, value in values.items() if not math.isfinite(value)]:
        raise ValueError(f"the window has no {' and no '.join(unknown)}")
    return values


def stepped(base: Base, at: int, amount: float) -> Losses:
    """Beyond the weights at T, along the change of the latest MEAN_OF snapshots."""
    files = base.files(at)
    end, before = dimred.average(files, last=1), dimred.average(files[:-MEAN_OF], last=1)
    end.w[:] += amount * (end.w - before.w)
    return base.losses_of(end)
