"""What is done with one run at the cost of its steps. Each arm gives a function for each of its variants, of which
validation text chooses one by seed; the choice costs nothing, in any arm. A backward pass costs as much as two forward
passes. A function raises Diverged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dimred
from lm.base import Base
from lm.training import SCHEDULE_FREE, Diverged, Losses, train

Variants = Iterator[tuple[str, Callable[[], Losses]]]
Arm = Callable[[Base], Variants]
WINDOWS = (5, 10, 20, 40, 80)
COMPONENTS, MEAN_OF = 32, 20
FALLS: dict[str, Callable[[float], float]] = {"linear": lambda x: 1 - x, "minus-sqrt": lambda x: 1 - math.sqrt(x)}


def last(base: Base) -> Variants:
    yield "", lambda: base.losses(base.at(base.end).model)


def mean(base: Base) -> Variants:
    for n in WINDOWS:
        yield f"last={n}", partial(mean_losses, base, base.end, n)


def mean_losses(base: Base, step: int, n: int = MEAN_OF) -> Losses:
    """Losses of the mean of the latest `n` snapshots at a step."""
    return base.losses_of(dimred.average(base.files(step), last=n))


def annealed(percent: int, base: Base) -> Variants:
    for shape in FALLS:
        yield shape, partial(annealed_losses, base, base.end - percent * base.end // 100, shape)


def annealed_losses(base: Base, leave: int, shape: str = "linear") -> Losses:
    """Losses of the run's end with a rate that falls to zero from a step on."""
    run = base.at(leave)
    for _ in train(run, base.end, lambda step: FALLS[shape]((step - leave) / (base.end - leave))):
        pass
    return base.losses(run.model)


def averaged(base: Base) -> Variants:
    """The schedule-free average of a run of that optimizer."""

    def losses() -> Losses:
        run = base.at(base.end)
        run.optimizer.eval()  # type: ignore[attr-defined]
        return base.losses(run.model)

    yield "", losses


def window_pca(base: Base) -> dimred.Basis:
    return dimred.fit(base.files(base.end - base.after), COMPONENTS, threads=1)


def random_basis(base: Base) -> dimred.Basis:
    return dimred.fit(base.files(base.end - base.after), COMPONENTS, "random", seed=base.seed, threads=1)


def span(base: Base) -> dimred.Basis:
    return dimred.fit(base.files(base.end - base.after)[-COMPONENTS:], COMPONENTS, "span", threads=1)


def shuffled_pca(base: Base) -> dimred.Basis:
    """The PCA of the window's steps in a random order, added up from its first snapshot."""
    snapshots = [dimred.average([file], last=1) for file in base.files(base.end - base.after)]
    rows = np.stack([snapshot.w for snapshot in snapshots])
    steps = np.random.default_rng(base.seed).permutation(np.diff(rows, axis=0))
    for snapshot, w in zip(snapshots[1:], rows[0] + np.cumsum(steps, axis=0), strict=True):
        snapshot.w[:] = w
    return dimred.fit([snapshot.arrays() for snapshot in snapshots], COMPONENTS, threads=1)


def from_mean(base: Base) -> nn.Module:
    """The network with the mean of the latest snapshots where the arms leave the run."""
    model = base.task.start(base.seed)
    dimred.average(base.files(base.end - base.after), last=MEAN_OF).load_into(model)
    return model


def psgd(basis_of: Callable[[Base], dimred.Basis], rates: tuple[float, ...], base: Base) -> Variants:
    basis = basis_of(base)
    for rate in rates:
        yield f"rate={rate:g}", partial(searched, base, basis, "psgd", total_steps=base.after, learning_rate=rate)


def second_stage(preset: str, sizes: tuple[int, ...], alphas: tuple[float | None, ...], base: Base) -> Variants:
    """sizes: batches in one."""
    basis = window_pca(base)
    for times in sizes:
        for alpha in alphas:
            options = {} if alpha is None else {"alpha": alpha}
            name = ", ".join([f"batches={times}", *(f"{name}={value:g}" for name, value in options.items())])
            yield name, partial(searched, base, basis, preset, times, **options)


def searched(base: Base, basis: dimred.Basis, preset: str, times: int = 1, **options: Any) -> Losses:
    """Losses after steps of a preset from the mean that cost what `after` gradients cost; a trial costs a third. The
    last step is one of which half can be paid, so that variants with dear steps cost as much as others on average."""
    model, task = from_mean(base), base.task
    optimizer = dimred.SubspaceOptimizer(model, basis, preset=preset, weight_decay=0.0, **options)
    left, cost, step = 3 * base.after, 0, base.end - base.after
    while left > 0 and 2 * left >= cost:

        def loss(begin: int = times * step) -> Tensor:
            return torch.stack([task.loss(model, base.seed, begin + i) for i in range(times)]).mean()

        optimizer.step(loss)
        if optimizer.report["not_finite"]:
            raise Diverged(f"a loss or gradient that is not finite at step {optimizer.steps}")
        cost = times * (3 + optimizer.report["trials"])
        left -= cost
        step += 1
    return base.losses(model)


def adamw(starts_from_mean: bool, base: Base) -> Variants:
    """The run's own optimizer for the last steps, at a rate that falls to zero."""
    for rate in (1e-4, 3e-4, 1e-3, 3e-3):
        yield f"rate={rate:g}", partial(adamw_losses, base, starts_from_mean, rate)


def adamw_losses(base: Base, starts_from_mean: bool, rate: float) -> Losses:
    leave = base.end - base.after
    run = base.at(leave)
    run.rate = rate
    if starts_from_mean:
        dimred.average(base.files(leave), last=MEAN_OF).load_into(run.model)
    for _ in train(run, base.end, lambda step: FALLS["linear"]((step - leave) / base.after)):
        pass
    return base.losses(run.model)


RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
WITH_EACH_RATE: dict[str, Arm] = {
    "last weights": last,
    "mean of a window": mean,
    "annealed, last 10 %": partial(annealed, 10),
    "annealed, last 20 %": partial(annealed, 20),
    SCHEDULE_FREE: averaged,
}
IN_THE_WINDOW: dict[str, Arm] = {
    "P-SGD in the window's PCA": partial(psgd, window_pca, RATES),
    "P-SGD in a random basis": partial(psgd, random_basis, (*RATES, 300.0, 3000.0)),
    "P-SGD in the PCA of shuffled increments": partial(psgd, shuffled_pca, RATES),
    "P-SGD in the span of the latest 32": partial(psgd, span, RATES),
    "AdamW from the mean": partial(adamw, True),
    "AdamW from the last weights": partial(adamw, False),
    "robust in the window's PCA": partial(second_stage, "robust", (1, 4), (0.005, 0.02)),
    "dldr in the window's PCA": partial(second_stage, "dldr", (1, 4, 16), (None,)),
}
ARMS = WITH_EACH_RATE | IN_THE_WINDOW
