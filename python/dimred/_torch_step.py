"""A step of a method in tensors of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.nn import Module

from dimred._basis import Basis
from dimred._flat_weights import FlatWeights
from dimred._ranks import Ranks
from dimred._stage2_run import Cost
from dimred._trained import SCOPE, Place, Trained, own_blocks

Closure = Callable[[], Tensor]
Numbers = NDArray[np.float64]
Random = tuple[Tensor, tuple[torch.device, Tensor] | None]  # the processor's state, and a device's
# A module's dictionary of buffers, a name in it, the tensor under that name, and its values.
Values = list[tuple[dict[str, Any], str, Tensor, Tensor]]
TILE = 1 << 16  # columns whose products are summed in float32; their sums are added in float64


class TorchState:
    """The state that lasts from step to step.

    Each rank holds all weights [M], but only its own columns of P, the gradient and the momentum m.
    """

    def __init__(self, trained: Trained, basis: Basis | None, places: list[Place], ranks: Ranks) -> None:
        self.trained, self.ranks = trained, ranks
        part = -(-sum(p.numel() for p in trained.parameters) // ranks.size)
        self.weights = FlatWeights(trained, part * ranks.size)  # padded, so that all ranks have as many
        self.own = (ranks.rank * part, (ranks.rank + 1) * part)
        columns = range(self.own[0], min(self.own[1], self.weights.columns))
        self.blocks = own_blocks(basis, places, columns, self.weights.vector)
        self.momentum = self.weights.vector.new_zeros(part)
        self.spare = torch.zeros_like(self.momentum)
        self.cost = Cost()
        self._is_compared = ranks.size == 1

    @property
    def basis_bytes(self) -> int:
        """The bytes of this rank's part of P."""
        return sum(block.rows.nbytes for block in self.blocks)

    def require_same_on_ranks(self, basis: Callable[[], str | None]) -> None:
        """Raises ValueError at the first step if a rank has other weights or another basis.

        basis: returns a text that identifies the basis. Each rank moves all weights by its own copy and has a part of
            P.
        """
        if self._is_compared:
            return
        held = {
            "weights": crc32(self.weights.vector[: self.weights.columns].cpu().numpy().data),
            "basis": crc32((basis() or "").encode()),
        }
        for name, digest in held.items():
            other = self.ranks.first_other(torch.tensor([digest], device=self.weights.vector.device))
            if other is not None:
                raise ValueError(f"{SCOPE} needs the same {name} on all ranks; those of ranks 0 and {other} differ")
        self._is_compared = True

    def coordinates(self, w: Tensor) -> Numbers:
        """Returns P w, summed over all ranks; w is padded to the length of the ranks' vectors."""
        own = w.to(self.momentum)[slice(*self.own)]
        parts = [products(block.rows, own[block.columns]) for block in self.blocks]
        return self.ranks.sum(torch.cat([*parts, torch.zeros(0, dtype=torch.float64, device=own.device)])).cpu().numpy()

    def within_own(self, begin: int, end: int) -> slice:
        """Returns columns of the whole vector as columns of this rank; empty if this rank has none."""
        a, b = max(begin, self.own[0]), min(end, self.own[1])
        return slice(a - self.own[0], max(a, b) - self.own[0])


@dataclass(frozen=True)
class Objective:
    """The function that a step descends: the mean loss of a closure, plus penalties.

    decays: (begin, end, lambda) adds lambda / 2 |w|^2 of these columns.
    sam_radius: if positive, the loss is taken at w + radius g / |g|.
    scaler, optimizer: scale losses in float16; the scaler knows the gradients as those of `optimizer`.
    """

    closure: Closure
    decays: list[tuple[int, int, float]]
    sam_radius: float = 0.0
    scaler: GradScaler | None = None
    optimizer: Any = None


class TorchStep:
    """method::SubspaceSpace for one step. All passes begin with the same buffers and random numbers.

    check: evaluates the closure again at the same weights, and raises RuntimeError if the loss differs.
    """

    def __init__(self, state: TorchState, objective: Objective, check: bool) -> None:
        self._state, self._objective, self._check = state, objective, check
        self._weights = state.weights
        self._weights.gather()
        self._module = state.trained.module
        self._before = self._after = _buffers(self._module)
        self._random = random_state(self._weights.vector.device)
        self._random_after: Random | None = None
        self._gradient = self._weights.gradient[slice(*state.own)]
        columns = zip(self._weights.parameters, self._weights.ranges, strict=True)
        self._frozen = [state.within_own(a, b) for p, (a, b) in columns if not p.requires_grad]
        self._start: Tensor | None = None
        self._direction: Tensor | None = None
        self._shift: Tensor | None = None
        self._loss = self._t = 0.0
        self._moved = self._unscaled = False

    def end(self, *, lost: bool) -> None:
        """Sets the random numbers to their state after the pass with gradients; a batch without a loss leaves no
        statistics.
        """
        if lost:
            _put(self._before)
        if self._random_after is not None:
            set_random_state(self._random_after)

    # What the method asks for.

    def gradient(self, move: bool) -> None:
        if move and self._objective.sam_radius > 0:
            self._shift = self._ascent()
        with self._weights.shifted(self._shift):
            self._gradient, loss = self._pass()
        if move:
            self._after, self._random_after = _buffers(self._module), random_state(self._weights.vector.device)
        _put(self._after)
        for begin, end, rate in self._objective.decays:
            own = self._state.within_own(begin, end)
            self._gradient[own].add_(self._weights.vector[slice(*self._state.own)][own], alpha=rate)
        self._loss = loss + self._decay()
        if move and self._check:
            self._require_same(self.loss())

    def project(self) -> tuple[Numbers, float, float, float]:
        state = self._state
        parts = [products(block.rows, self._gradient[block.columns]) for block in state.blocks]
        state.cost.basis_bytes_read += state.basis_bytes
        squares = products(torch.stack([state.momentum, self._gradient]), self._gradient)
        numbers = state.ranks.sum(torch.cat([*parts, squares])).cpu().numpy()
        return np.ascontiguousarray(numbers[:-2]), float(numbers[-2]), float(numbers[-1]), self._loss

    def set_line(
        self,
        direction: Numbers,
        projected: Numbers,
        gamma: float,
        alpha: float,
        moves_momentum: bool,
        keeps_start: bool,
    ) -> None:
        state = self._state
        forward, inside = self._back_projected(np.stack([direction, projected]))
        if moves_momentum:
            torch.mul(state.momentum, gamma, out=state.spare)
            state.spare.add_(self._gradient).sub_(inside)
            for frozen in self._frozen:
                state.spare[frozen] = state.momentum[frozen]
            self._swap_momenta(moved=True)
        own = forward.sub(state.momentum, alpha=alpha) if alpha > 0 else forward
        # The gradient is 0 where a parameter is frozen: the slope is that of the line which leaves it where it is.
        self._direction = state.ranks.gather(self._thawed(own))
        self._start = self._weights.vector.clone() if keeps_start else None
        self._t = 0.0

    def move_to(self, t: float) -> None:
        if t == self._t:
            return
        assert self._direction is not None
        w = self._weights.vector
        if self._start is None:
            w.add_(self._direction, alpha=t - self._t)
        elif t == 0:
            w.copy_(self._start)
        else:
            torch.add(self._start, self._direction, alpha=t, out=w)
        self._t = t
        self._weights.scatter()

    def loss(self) -> float:
        with torch.no_grad(), self._weights.shifted(self._shift):
            loss = self._state.ranks.mean(self._evaluate())
        _put(self._after)
        return loss + self._decay()

    def subtract_momentum(self, alpha: float) -> None:
        self._weights.vector.sub_(self._state.ranks.gather(self._thawed(self._state.momentum)), alpha=alpha)
        self._weights.scatter()

    def restore(self) -> None:
        if self._start is not None:
            self._weights.vector.copy_(self._start)
        if self._moved:
            self._swap_momenta(moved=False)
        self._weights.scatter()
        torch.clear_autocast_cache()
        _put(self._before)
        set_random_state(self._random)
        for parameter in self._weights.parameters:
            parameter.grad = None

    # Passes.

    def _evaluate(self) -> Tensor:
        self._state.cost.forward_passes += 1
        torch.clear_autocast_cache()  # an autocast around the step keeps copies of earlier weights
        _put(self._before)
        set_random_state(self._random)
        return _scalar(self._objective.closure())

    def _evaluate_with_graph(self) -> Tensor:
        """Returns the loss, before its backward()."""
        parameters = self._weights.parameters
        for parameter in parameters:
            parameter.grad = None
        with torch.enable_grad():
            loss = self._evaluate()
            if any(parameter.grad is not None for parameter in parameters):
                raise RuntimeError(
                    f"{SCOPE} the closure called backward(); the closure needs only to run the network forward and to "
                    "return the loss, because the optimizer calls backward() itself"
                )
            if not loss.requires_grad:
                raise RuntimeError(
                    f"{SCOPE} the closure's loss depends on no parameter; does the closure run under torch.no_grad()?"
                )
        return loss

    def _pass(self) -> tuple[Tensor, float]:
        """Returns this rank's columns of the mean gradient, and the mean loss."""
        scaler = self._objective.scaler
        loss = self._evaluate_with_graph()
        self._state.cost.backward_passes += 1
        (loss if scaler is None else scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        if scaler is not None and not self._unscaled:  # once a step, as the scaler keeps count
            scaler.unscale_(self._objective.optimizer)
        self._weights.gather_gradients()
        if scaler is not None and self._unscaled:
            self._weights.gradient.div_(scaler.get_scale())
        self._unscaled = True
        ranks = self._state.ranks
        return ranks.own_mean(self._weights.gradient, slice(*self._state.own)), ranks.mean(loss)

    def _ascent(self) -> Tensor | None:
        """Returns SAM's shift, radius g / |g|; None if g is 0 or not finite."""
        own, _ = self._pass()
        norm = float(self._state.ranks.sum(products(own[None], own))) ** 0.5
        if not np.isfinite(norm) or norm == 0:
            return None
        return self._state.ranks.gather(own).mul(self._objective.sam_radius / norm)

    def _decay(self) -> float:
        w = self._weights.vector
        parts = [rate / 2 * products(w[None, begin:end], w[begin:end]) for begin, end, rate in self._objective.decays]
        return float(torch.cat(parts).sum()) if parts else 0.0

    def _require_same(self, again: float) -> None:
        if np.isfinite(self._loss) and not abs(again - self._loss) <= 1e-4 * max(1e-3, abs(self._loss)):
            raise RuntimeError(
                f"{SCOPE} the closure gave a loss of {self._loss:.9g} and then of {again:.9g} at the same weights; "
                "at each call the closure needs to use the same batch, and no random numbers except torch's"
            )

    def _back_projected(self, coordinates: Numbers) -> Tensor:
        """Returns this rank's columns of P' c for n vectors of k coordinates."""
        momentum = self._state.momentum
        self._state.cost.basis_bytes_read += self._state.basis_bytes
        out = momentum.new_zeros(len(coordinates), len(momentum))
        row = 0
        for block in self._state.blocks:
            own = torch.from_numpy(coordinates[:, row : row + len(block.rows)]).to(block.rows)
            out[:, block.columns] = own @ block.rows
            row += len(block.rows)
        return out

    def _thawed(self, own: Tensor) -> Tensor:
        """Returns the values with 0 in the columns of parameters that need no gradient."""
        if not self._frozen:
            return own
        moving = own.clone()
        for frozen in self._frozen:
            moving[frozen] = 0
        return moving

    def _swap_momenta(self, *, moved: bool) -> None:
        state = self._state
        state.momentum, state.spare, self._moved = state.spare, state.momentum, moved


def products(rows: Tensor, vector: Tensor) -> Tensor:
    """Returns rows [k, n] times vector [n]; tiles are summed in the rows' type, and their sums in float64."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for begin in range(0, len(vector), TILE):
        total += torch.mv(rows[:, begin : begin + TILE], vector[begin : begin + TILE])
    return total


def _scalar(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.numel() != 1 or loss.is_complex():
        received = (
            f"{str(loss.dtype).removeprefix('torch.')} {list(loss.shape)}"
            if isinstance(loss, Tensor)
            else type(loss).__name__
        )
        raise TypeError(f"{SCOPE} the closure needs to return the mean loss as a scalar tensor, received {received}")
    return loss


def _buffers(module: Module | None) -> Values:
    """Returns the present buffers: a forward pass may write to a buffer, or replace it by another tensor."""
    modules = [] if module is None else module.modules()
    held = [
        (part._buffers, name, buffer)
        for part in modules
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    return [(buffers, name, buffer, buffer.detach().clone()) for buffers, name, buffer in held]


@torch.no_grad()
def _put(values: Values) -> None:
    if values:
        for buffers, name, buffer, _ in values:
            buffers[name] = buffer
        written = [(buffer, value) for *_, buffer, value in values if not is_expanded(buffer)]
        torch._foreach_copy_([buffer for buffer, _ in written], [value for _, value in written])


def is_expanded(tensor: Tensor) -> bool:
    """Whether elements share memory, as expand() leaves them: nothing can write to such a tensor in place."""
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def random_state(device: torch.device) -> Random:
    return torch.get_rng_state(), (device, torch.cuda.get_rng_state(device)) if device.type == "cuda" else None


def set_random_state(state: Random) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1][1], state[1][0])
