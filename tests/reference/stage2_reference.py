"""One stage-2 step of each preset in float64 NumPy, written from the published code's semantics.

Independent of the C++: nothing is shared, and every preset is spelt out in full although they
repeat one another, so that each can be read beside its source.

    dldr              nblt/DLDR train_pbfgs.py (TPAMI 2022)
    mindspore-first   MindSpore boost/dim_reduce.py, commit 38b2d942, one rank
    mindspore-latest  the same file, commit 92e3ba5f, one rank
    robust            dimred's own (docs/reference/presets.md)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Constants:
    """The preset constants; the two floors belong to `robust` alone."""

    rho: float  # contraction of the step size
    sigma: float  # sufficient decrease
    gamma: float  # decay of the residual momentum
    alpha: float  # step size of the residual momentum
    trials: int
    curvature_floor: float = 1e-20
    relative_curvature_floor: float = 0.0


@dataclass(frozen=True)
class Minibatch:
    """The loss of one minibatch as functions of the weights [M]; NaN fails every comparison."""

    loss: Callable[[Array], float]
    loss_and_gradient: Callable[[Array], tuple[float, Array]]


@dataclass
class State:
    """All that a step reads and changes. H [k, k], s and g_k_last [k], m [M]."""

    w: Array
    H: Array
    s: Array
    g_k_last: Array
    m: Array
    has_last: bool = False


@dataclass
class Step:
    """What one step did."""

    loss: float
    slope: float = np.nan
    trials: int = 0
    step_size: float = np.nan
    curvature: float = np.nan  # s'y; nan when there is no earlier step to compare with
    accepted: bool = False
    events: set[str] = field(default_factory=set)


def start(weights: Array, components: int) -> State:
    """The state before the first step."""
    k = components
    zeros = np.zeros(k)
    return State(weights.copy(), np.eye(k), zeros.copy(), zeros.copy(), np.zeros_like(weights))


def bfgs(H: Array, s: Array, y: Array) -> Array:
    """(I - r y s')' H (I - r y s') + r s s' with r = 1 / y's; keeps H positive if y's > 0."""
    r = 1 / (y @ s)
    left = np.eye(len(s)) - r * np.outer(y, s)
    return left.T @ H @ left + r * np.outer(s, s)


def published_update(state: State, g_k: Array, step: Step) -> None:
    """y = g_k - g_k_last of consecutive minibatches; B changes when y's > 1e-20; g_k_last = g_k."""
    if state.has_last:
        y = g_k - state.g_k_last
        if np.any(state.s):
            step.curvature = float(y @ state.s)
            step.events.add("updated" if step.curvature > 1e-20 else "skipped")
        if y @ state.s > 1e-20:
            state.H = bfgs(state.H, state.s, y)
    state.g_k_last = g_k
    state.has_last = True


def dldr(state: State, batch: Minibatch, P: Array, c: Constants) -> Step:
    """P+-BFGS. Without success the step is rho^trials d: one contraction beyond the last trial."""
    old_loss, g = batch.loss_and_gradient(state.w)
    step = Step(old_loss)
    g_k = P @ g
    published_update(state, g_k, step)
    d = -state.H @ g_k
    step.slope = float(g_k @ d)
    t = 1.0
    while step.trials < c.trials:
        step.trials += 1
        new_loss = batch.loss(state.w + P.T @ (t * d))
        if new_loss < old_loss + c.sigma * t * step.slope:
            step.accepted = True
            break
        t *= c.rho
    step.step_size = t
    state.s = t * d
    state.m = c.gamma * state.m + (g - P.T @ g_k)
    state.w = state.w + P.T @ state.s - c.alpha * state.m
    return step


def mindspore_first(state: State, batch: Minibatch, P: Array, c: Constants) -> Step:
    """Without success the last trial's t is taken and s stays that of the last success."""
    old_loss, g = batch.loss_and_gradient(state.w)
    step = Step(old_loss)
    g_k = P @ g
    published_update(state, g_k, step)
    d = -state.H @ g_k
    step.slope = float(g_k @ d)
    for exponent in range(c.trials):
        step.trials += 1
        step.step_size = c.rho**exponent
        new_loss = batch.loss(state.w + step.step_size * (P.T @ d))
        if new_loss < old_loss + c.sigma * step.step_size * step.slope:
            step.accepted = True
            state.s = step.step_size * d
            break
    state.m = c.gamma * state.m + g - P.T @ g_k
    state.w = state.w + step.step_size * (P.T @ d) - c.alpha * state.m
    return step


def mindspore_latest(state: State, batch: Minibatch, P: Array, c: Constants) -> Step:
    """Without success t = 0, B and g_k_last are restored; the momentum step is taken all the same.

    s stays that of the last success, so the next step repeats the update with a newer gradient.
    """
    old_loss, g = batch.loss_and_gradient(state.w)
    step = Step(old_loss)
    g_k = P @ g
    g_k_last_backup, H_backup = state.g_k_last, state.H
    published_update(state, g_k, step)
    d = -state.H @ g_k
    step.slope = float(g_k @ d)
    step.step_size = 0.0
    for exponent in range(c.trials):
        step.trials += 1
        t = c.rho**exponent
        new_loss = batch.loss(state.w + t * (P.T @ d))
        if new_loss < old_loss + c.sigma * t * step.slope:
            step.accepted = True
            step.step_size = t
            state.s = t * d
            break
    if not step.accepted:
        state.g_k_last, state.H = g_k_last_backup, H_backup
    state.m = c.gamma * state.m + g - P.T @ g_k
    state.w = state.w + step.step_size * (P.T @ d) - c.alpha * state.m
    return step


def guarded_update(state: State, g_k: Array, step: Step, c: Constants) -> None:
    """BFGS from s, y of the last accepted step when s'y exceeds both floors, else skipped."""
    if not np.any(state.s):
        return
    y = g_k - state.g_k_last
    step.curvature = float(state.s @ y)
    size = float(np.linalg.norm(state.s) * np.linalg.norm(y))
    floor = max(c.curvature_floor, c.relative_curvature_floor * size)
    if step.curvature > floor:
        state.H = bfgs(state.H, state.s, y)
        step.events.add("updated")
    else:
        step.events.add("skipped" if step.curvature <= 0 else "skipped positive curvature")


def robust_direction(state: State, g_k: Array, step: Step) -> Array:
    """-H g_k, or -g_k with H = I when that is no descent or not finite."""
    d = -state.H @ g_k
    if np.all(np.isfinite(d)) and g_k @ d < 0:
        return d
    step.events.add("reset")
    state.H = np.eye(len(g_k))
    return -g_k


def robust(state: State, batch: Minibatch, P: Array, c: Constants) -> Step:
    """One direction u for both parts; a failed search leaves w and restores H, and drops s."""
    old_loss, g = batch.loss_and_gradient(state.w)
    step = Step(old_loss)
    g_k = P @ g
    H_backup = state.H
    guarded_update(state, g_k, step, c)
    d = robust_direction(state, g_k, step)
    state.m = c.gamma * state.m + (g - P.T @ g_k)
    u = P.T @ d - c.alpha * state.m
    step.slope = float(g_k @ d - c.alpha * (g @ state.m))
    if step.slope >= 0:
        step.events.add("residual left out")
        u = P.T @ d
        step.slope = float(g_k @ d)
    step.step_size = 0.0
    for exponent in range(c.trials):
        step.trials += 1
        t = c.rho**exponent
        new_loss = batch.loss(state.w + t * u)
        if new_loss <= old_loss + c.sigma * t * step.slope:
            step.accepted = True
            step.step_size = t
            break
    if step.accepted:
        state.w = state.w + step.step_size * u
        state.s = step.step_size * d
        state.g_k_last = g_k
    else:
        state.H = H_backup
        state.s = np.zeros_like(state.s)
    return step


PRESETS: dict[str, Callable[[State, Minibatch, Array, Constants], Step]] = {
    "dldr": dldr,
    "mindspore-first": mindspore_first,
    "mindspore-latest": mindspore_latest,
    "robust": robust,
}


def replay(
    preset: str, weights: Array, P: Array, batches: Iterable[Minibatch], c: Constants
) -> tuple[Array, list[Step]]:
    """Weights after each step [steps, M] and what the steps did."""
    state = start(weights, len(P))
    trace, steps = [], []
    for batch in batches:
        steps.append(PRESETS[preset](state, batch, P, c))
        if not steps[-1].accepted:
            steps[-1].events.add("failed")
        trace.append(state.w.copy())
    return np.array(trace), steps
