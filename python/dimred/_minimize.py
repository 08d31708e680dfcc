"""The presets of stage 2 on arrays and functions of any framework."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import islice, repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import require_function, shown, whole_number
from dimred._basis import TILE, Basis

SCOPE = "[dimred.minimize]"
Vector = NDArray[Any]
NO_BATCH = object()


@dataclass
class Minimized:
    """The result of minimize().

    w: [M], in the type of the start.
    losses: the loss before each step.
    reports: one dict for each step, with step_size, trials, accepted and more.
    """

    w: Vector
    losses: list[float] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)


def minimize(
    loss_and_grad: Callable[..., tuple[Any, Any]],
    w: Any,
    basis: Basis | None,
    *,
    steps: int | None = None,
    batches: Iterable[Any] | None = None,
    loss: Callable[..., Any] | None = None,
    preset: str = "robust",
    callback: Callable[[Minimized], object] | None = None,
    **hyperparameters: float | str,
) -> Minimized:
    """Minimises a loss from w [M], like `dimred stage2`: along the rows of the basis, and outside the basis by the
    residual momentum.

    loss_and_grad: loss_and_grad(w) -> (loss, gradient [M]); with batches, loss_and_grad(w, batch). The results may be
        arrays of NumPy, JAX or another framework. The function receives a copy of w, in float32 or float64 as you
        passed it.
    basis: from dimred.fit; None for a preset without a basis.
    steps: the number of steps. With batches, the highest number; no further batch is drawn.
    loss: loss(w) or loss(w, batch), for the trials of the line search, if it is cheaper than loss_and_grad.
    preset, hyperparameters: as SubspaceOptimizer takes them, except weight_decay and sam_radius. The preset's values of
        these two are ignored; add such terms to your loss.
    callback: called after each step. An exception in the callback ends the descent.

    A step whose loss or gradient is not finite changes nothing and reports not_finite. If every step is such a step, a
    warning says so. Raises ValueError for a basis of another length, a gradient of another shape, and an empty
    `batches`.
    """
    if steps is None and batches is None:
        raise ValueError(f"{SCOPE} needs steps or batches")
    if steps is not None:
        whole_number(SCOPE, "steps", steps, 1)
    for name, function in (("loss_and_grad", loss_and_grad), ("loss", loss), ("callback", callback)):
        require_function(SCOPE, name, function)
    for name in ("weight_decay", "sam_radius"):
        if hyperparameters.get(name):
            raise ValueError(
                f"{SCOPE} takes no {name}, received {hyperparameters[name]}; add this term to the loss and its gradient"
            )
    method = method_of(SCOPE, preset, basis, hyperparameters, ("steps", steps))
    space = _ArraySpace(np.array(w), basis, loss_and_grad, loss)
    done = Minimized(space.w)
    for step, batch in enumerate(islice(repeat(NO_BATCH) if batches is None else batches, steps)):
        space.arguments = () if batch is NO_BATCH else (batch,)
        done.reports.append(method.step(space, step / steps if steps else 0.0))
        done.losses.append(done.reports[-1]["loss"])
        if callback is not None:
            callback(done)
    if not done.reports:
        raise ValueError(f"{SCOPE} needs batches, received none; an iterator gives its batches only once")
    if all(report["not_finite"] for report in done.reports):
        warnings.warn(
            f"{SCOPE} no step changed w: in each of {len(done.reports)} steps the loss (first {done.losses[0]}) or its "
            "gradient was not finite",
            stacklevel=2,
        )
    return done


def own_batch(batch: Any) -> Any:
    """Returns a batch for one call of a user's function: a mapping's copy, as some functions pop the labels."""
    return copy.copy(batch) if isinstance(batch, MutableMapping) else batch


def method_of(
    scope: str,
    preset: str,
    basis: Basis | None,
    hyperparameters: Mapping[str, float | str],
    length: tuple[str, int | None],
) -> _core.Method:
    """Returns a preset for a basis. length: the name and the value of the argument for the length of the run.

    Raises TypeError and ValueError for arguments that are not valid.
    """
    _require_basis(scope, basis)
    if not isinstance(preset, str):
        raise TypeError(f"{scope} needs the name of a preset, received {shown(preset)}")
    numbers: dict[str, float] = {}
    words: dict[str, str] = {}
    for name, value in hyperparameters.items():
        if isinstance(value, str):
            words[name] = value
        elif isinstance(value, Real) and not isinstance(value, bool):
            numbers[name] = float(value)
        else:
            raise TypeError(f"{scope} needs a number or a word as {name}, received {shown(value)}")
    blocks = [] if basis is None else [len(basis.components)] * max(1, len(basis.blocks))
    method = _core.Method(preset, numbers, words, blocks)
    if method.needs_basis and basis is None:
        raise ValueError(f"{scope} the preset {preset} needs a basis, received None")
    if method.depends_on_length and length[1] is None:
        raise ValueError(f"{scope} needs {length[0]}: the preset {preset} has a rate that falls over the run")
    return method


def _require_basis(scope: str, basis: Any) -> None:
    if basis is not None and not isinstance(basis, Basis):
        remedy = "; Basis.load(path) reads a basis from a file" if isinstance(basis, str | os.PathLike) else ""
        raise TypeError(f"{scope} needs a dimred.Basis or None as basis, received a {type(basis).__name__}{remedy}")


class _ArraySpace:
    """method::SubspaceSpace over arrays of NumPy."""

    def __init__(
        self, w: Vector, basis: Basis | None, loss_and_grad: Callable[..., Any], loss: Callable[..., Any] | None
    ) -> None:
        if w.ndim != 1 or w.dtype not in (np.float32, np.float64):
            raise ValueError(f"{SCOPE} needs w as a vector of float32 or float64, received {w.dtype} {list(w.shape)}")
        if not np.isfinite(w).all():
            raise ValueError(f"{SCOPE} needs w with finite values, received {w[~np.isfinite(w)][0]} among them")
        if basis is not None and basis.components.shape[1] != len(w):
            raise ValueError(f"{SCOPE} the basis has {basis.components.shape[1]} columns, but w has {len(w)} values")
        self.w, self._loss_and_grad, self._loss = w, loss_and_grad, loss
        self.blocks: list[tuple[slice, Vector]] = []
        if basis is not None:
            for begin, end in basis.blocks or [(0, len(w))]:
                self.blocks.append((slice(begin, end), basis.components[:, begin:end]))
        self._m, self._other = np.zeros_like(w), np.zeros_like(w)
        self._start: Vector | None = None
        self._moved = False
        self._value, self._t = 0.0, 0.0
        self._g = self._direction = np.empty(0, w.dtype)
        self.arguments: tuple[Any, ...] = ()

    def gradient(self, move: bool) -> None:
        if move:
            self._start, self._moved, self._t = None, False, 0.0
        both = self._loss_and_grad(self.w.copy(), *map(own_batch, self.arguments))
        if not isinstance(both, tuple | list) or len(both) != 2:
            raise TypeError(f"{SCOPE} needs loss_and_grad to return (loss, gradient), received a {type(both).__name__}")
        self._value, self._g = _number(both[0]), np.asarray(both[1], self.w.dtype)
        if self._g.shape != self.w.shape:
            raise ValueError(f"{SCOPE} needs a gradient [{len(self.w)}], received {list(self._g.shape)}")

    def project(self) -> tuple[NDArray[np.float64], float, float, float]:
        g_k = np.concatenate([np.zeros(0), *(_products(rows, self._g[columns]) for columns, rows in self.blocks)])
        gradient_momentum, gradient_square = _products(np.stack([self._m, self._g]), self._g)
        return g_k, float(gradient_momentum), float(gradient_square), self._value

    def set_line(
        self, direction: Vector, projected: Vector, gamma: float, alpha: float, moves_momentum: bool, keeps_start: bool
    ) -> None:
        both, row = np.zeros((2, len(self.w)), self.w.dtype), 0
        for columns, rows in self.blocks:
            coordinates = np.stack([direction[row : row + len(rows)], projected[row : row + len(rows)]]).astype(
                self.w.dtype
            )
            both[:, columns] = coordinates @ rows
            row += len(rows)
        if moves_momentum:
            np.multiply(self._m, gamma, out=self._other)
            self._other += self._g - both[1]
            self._m, self._other, self._moved = self._other, self._m, True
        self._direction = both[0] - self.w.dtype.type(alpha) * self._m
        self._start, self._t = self.w.copy(), 0.0

    def move_to(self, t: float) -> None:
        assert self._start is not None
        if t != self._t:
            self.w[:] = self._start + self.w.dtype.type(t) * self._direction if t else self._start
        self._t = t

    def loss(self) -> float:
        if self._loss is not None:
            return _number(self._loss(self.w.copy(), *map(own_batch, self.arguments)))
        return _number(self._loss_and_grad(self.w.copy(), *map(own_batch, self.arguments))[0])

    def subtract_momentum(self, alpha: float) -> None:
        self.w -= self.w.dtype.type(alpha) * self._m

    def restore(self) -> None:
        if self._start is not None:
            self.w[:] = self._start
        if self._moved:
            self._m, self._other, self._moved = self._other, self._m, False


def _products(rows: Vector, vector: Vector) -> NDArray[np.float64]:
    """rows [k, n] times vector [n], each tile's in their type, their sum in float64."""
    total = np.zeros(len(rows))
    for begin in range(0, len(vector), TILE):
        total += rows[:, begin : begin + TILE] @ vector[begin : begin + TILE]
    return total


def _number(loss: Any) -> float:
    if loss is None or getattr(loss, "shape", ()) not in ((), (1,)):
        received = "none" if loss is None else f"shape {list(loss.shape)}"
        raise TypeError(f"{SCOPE} needs one number as the loss, received {received}")
    return float(loss.item() if hasattr(loss, "item") else loss)  # NumPy makes no number of shape (1,)
