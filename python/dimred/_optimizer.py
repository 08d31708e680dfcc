"""Line-searched descent in the subspace of a basis, as an optimizer of torch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.nn import Module, Parameter

from dimred import _core
from dimred._basis import Basis
from dimred._minimize import method_of
from dimred._modules import bare
from dimred._stage2_run import Cost, TakenRun

Closure = Callable[[], Tensor]
Numbers = NDArray[np.float64]
Random = tuple[Tensor, tuple[torch.device, Tensor] | None]  # the processor's state, and a device's
SCOPE = "[SubspaceOptimizer]"
TILE = 1 << 16  # columns whose products are summed in float32; their sums are added in float64


class SubspaceOptimizer(torch.optim.Optimizer):
    """A preset of `dimred stage2` on your network, data and loss: one searched step in the basis and beside it for each step().

        optimizer = SubspaceOptimizer(model, basis, preset="robust")
        for images, labels in loader:
            loss = optimizer.step(lambda: cross_entropy(model(images), labels))

    model_or_params: a module (also wrapped by DistributedDataParallel), whose BatchNorm statistics are then as they were after each
        trial; or what optimizers of torch take. What needs no gradient stays as it is.
    basis: of dimred.fit, of these parameters; None for presets without one ("sgd").
    preset: "robust", "robust-mean", "mindspore-latest", "mindspore-first", "dldr", "psgd", "twa", "sgd" (docs/reference/presets.md). It
        starts from the weights that the network has: a preset's own start is the caller's to load, its average of iterates to take.
    total_steps: of the run, for what falls as it goes on.
    flatten: parameters become views of one float32 vector; False copies to and fro, for other types or frameworks that move them.
    check_closure: evaluate the closure once more at each step and compare, not at the first alone.
    grad_scaler: a torch.amp.GradScaler; call its update() after step(). Its step() refuses closures.
    process_group: of bare modules on several ranks (True: the default group): gradients and losses are averaged over it.
    hyperparameters: `rho`, `alpha`, `trials`, `weight_decay` and all others that a preset has; `update_rule`.

    step(closure) -> the loss before the step, weight decay included. The closure runs the network forward on ONE batch, the same at
    each call, and returns the mean loss, a scalar tensor; it does not call backward. It is called with gradients once and without them
    for each trial, under the same random numbers. If it raises, weights, buffers and state are as before. `report` says what the last step did.

    Cost of a step: one pass with gradients, a forward pass a trial, two readings of the basis (k x M float32; over ranks each reads
    its part), on R ranks one all-reduce of k + 2 numbers and one all-gather of M.
    """

    def __init__(
        self,
        model_or_params: Any,
        basis: Basis | None,
        *,
        preset: str = "robust",
        total_steps: int | None = None,
        flatten: bool = True,
        check_closure: bool = False,
        grad_scaler: GradScaler | None = None,
        process_group: Any = None,
        **hyperparameters: float | str,
    ) -> None:
        named, groups, buffers = _parts(model_or_params)
        super().__init__(groups, {})
        blocks = [] if basis is None else _blocks(basis)
        self._method = method_of(SCOPE, preset, basis, len(blocks), hyperparameters, ("total_steps", total_steps))
        self._basis = basis
        self.preset, self.total_steps, self.steps = preset, total_steps, 0
        self.report: dict[str, Any] = {}
        self._check_closure = check_closure
        self._taken: TakenRun | None = None
        ranks = _Ranks(model_or_params, process_group)
        self._space = _TorchSpace(self, named, buffers, basis, blocks, ranks, flatten, grad_scaler)

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """One step on the closure's batch; the loss before it. See the class."""
        if closure is None:
            raise TypeError(f"{SCOPE} step() needs a closure that runs the network forward and returns the loss")
        begin = time.perf_counter()
        progress = 0.0 if self.total_steps is None else min(1.0, self.steps / self.total_steps)
        self._space.begin(closure, self._check_closure or self.steps == 0)
        self.report = self._method.step(self._space, progress)
        self._space.end(lost=not np.isfinite(self.report["loss"]))
        self.steps += 1
        self._space.cost.seconds += time.perf_counter() - begin
        return torch.tensor(self.report["loss"])

    @property
    def method(self) -> _core.Method:
        """The algorithm and its constants."""
        return self._method

    def state_dict(self) -> dict[str, Any]:
        """Of the method, the residual momentum (this rank's columns), and the steps done; the basis by its checksum."""
        own = {"preset": self.preset, "basis": self._checksum(), "method": self._method.state_dict(),
               "momentum": self._space.momentum.clone(), "columns": list(self._space.own), "steps": self.steps}  # fmt: skip
        return {**super().state_dict(), "dimred": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of the same preset, basis and number of ranks."""
        if "dimred" not in state_dict:
            raise ValueError(f"{SCOPE} needs a state of its own, received one with {', '.join(state_dict)}")
        own = state_dict["dimred"]
        if own["preset"] != self.preset or list(own["columns"]) != list(self._space.own):
            raise ValueError(f"{SCOPE} needs a state of the preset {self.preset} and columns {list(self._space.own)}, "
                             f"received {own['preset']} and {own['columns']}")  # fmt: skip
        if own["basis"] != self._checksum():
            raise ValueError(f"{SCOPE} needs a state of the basis {self._checksum()}, received one of {own['basis']}")
        self._method.restore(own["method"])
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "dimred"})
        self._space.momentum.copy_(own["momentum"])
        self._taken = None
        self.steps = own["steps"]

    def load_run(self, run: str | os.PathLike[str]) -> None:
        """Takes up a state of `dimred stage2` with the same network, preset and matrix: weights, buffers, momentum, the method's numbers.

        run: its folder, of which the newest state is taken, or one of its states (RUN/checkpoints/state_...). Parameters are found by
        their names. Raises ValueError for another network, method or matrix, OSError for a damaged state.
        """
        state, text, vectors, counters = _core.read_run_state(os.fspath(run))
        scalars = json.loads(text)
        if scalars.get("stage") != "stage2" or "residual_momentum" not in vectors:
            raise ValueError(f"{SCOPE} needs a run of stage 2, received '{os.fspath(run)}' of {scalars.get('stage')}")
        take_up = self._space.checked(scalars, vectors, counters)
        self._method.restore(scalars["method"])
        take_up()
        self.steps = scalars["step"]
        self._taken, self._space.cost = TakenRun(SCOPE, state, text), Cost()

    def save_run(self) -> Path:
        """The way back of load_run: the steps since then as the run's next state, from which `dimred stage2` goes on; its folder.

        The run is that of load_run, with the same preset and constants; whole epochs of its batch size and data, taken in any order,
        count as its epochs. Weights, buffers, momentum, the method's numbers, step, epoch and cost go on, all else is as it was; the
        program's first act is to evaluate the epoch for curve.csv. steps.csv has no rows of these steps. Whole or not at all.

        Raises ValueError within an epoch; for another preset or constant, another newest state, a run with an average of its iterates
        or a loss scale, several ranks; OSError while another process has the run, or for a full disk.
        """
        taken = self._taken
        if taken is None:
            raise ValueError(f"{SCOPE} save_run needs a run that load_run has taken up")
        run = taken.require_way_back(self.preset, self._method, self.total_steps, self._space.ranks)
        vectors, counters, coordinates = self._space.saved(taken.scalars)
        scalars = taken.following(self.steps - taken.scalars["step"], self._space.cost, self._method.state_dict(), coordinates)
        text = json.dumps(scalars)
        state = _core.write_run_state(str(run), taken.text, text, vectors, counters)
        self._taken, self._space.cost = TakenRun(SCOPE, state, text), Cost()
        return Path(state)

    def _checksum(self) -> str | None:
        return None if self._basis is None else self._basis.checksum()


class _Ranks:
    """Who else holds the same weights."""

    def __init__(self, model: Any, process_group: Any) -> None:
        if any("FullySharded" in kind.__name__ for kind in type(model).__mro__):
            raise TypeError(f"{SCOPE} needs whole parameters, received a model sharded by FSDP")
        parallel = type(model).__name__ == "DistributedDataParallel"
        self.averages_gradients = parallel
        self.group = model.process_group if parallel else None if process_group is True else process_group
        alone = not parallel and process_group is None
        self.size = 1 if alone else dist.get_world_size(self.group)
        self.rank = 0 if alone else dist.get_rank(self.group)

    def sum(self, numbers: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(numbers, group=self.group)
        return numbers

    def mean(self, number: Tensor) -> float:
        return float(self.sum(number.detach().double().reshape(1)) / self.size)

    def own_mean(self, whole: Tensor, own: slice) -> Tensor:
        """The gradient's own columns, averaged unless DistributedDataParallel has done it."""
        if self.size == 1 or self.averages_gradients:
            return whole[own]
        part = torch.empty_like(whole[own])
        dist.reduce_scatter_tensor(part, whole, group=self.group)
        return part.div_(self.size)

    def gather(self, part: Tensor) -> Tensor:
        if self.size == 1:
            return part
        whole = part.new_empty(self.size * len(part))
        dist.all_gather_into_tensor(whole, part, group=self.group)
        return whole


class _TorchSpace:
    """method::SubspaceSpace over torch's tensors: all ranks hold w [M] whole, and of P, g and m their own columns."""

    def __init__(
        self,
        optimizer: SubspaceOptimizer,
        named: list[tuple[str, Parameter]],
        buffers: list[Tensor],
        basis: Basis | None,
        blocks: list[tuple[int, int]],
        ranks: _Ranks,
        flatten: bool,
        scaler: GradScaler | None,
    ) -> None:
        self._optimizer, self._ranks, self._scaler, self._buffers = optimizer, ranks, scaler, buffers
        self._named, self._parameters = named, [parameter for _, parameter in named]
        _refuse_parameters(named, flatten)
        sizes = [parameter.numel() for parameter in self._parameters]
        ends = np.cumsum([0, *sizes]).tolist()
        columns = ends[-1]
        part = -(-columns // ranks.size)
        self.own = (ranks.rank * part, (ranks.rank + 1) * part)
        device = self._parameters[0].device
        self._w = torch.zeros(part * ranks.size, device=device)  # padded, so that all ranks have as many
        self._g = torch.zeros_like(self._w)
        self._views = [self._w[a:b].view(p.shape) for p, (a, b) in zip(self._parameters, pairwise(ends), strict=True)]
        self._gradients = [self._g[a:b].view(p.shape) for p, (a, b) in zip(self._parameters, pairwise(ends), strict=True)]
        self._flatten = flatten
        self._take_weights()
        if flatten:
            for parameter, view in zip(self._parameters, self._views, strict=True):
                parameter.data = view
        method = optimizer.method
        self._decays = [(a, b) for p, (a, b) in zip(self._parameters, pairwise(ends), strict=True)
                        if method.weight_decay > 0 and (p.dim() > 1 or method.weight_decay_all)]  # fmt: skip
        self._own = slice(*self.own)
        # Of each block its own columns here, counted from the first own one, and its rows there.
        self._blocks: list[tuple[slice, Tensor]] = []
        if basis is not None:
            order = _columns_of(named, basis, blocks)
            for begin, end in blocks:
                here = range(max(begin, self.own[0]), max(begin, self.own[0], min(end, self.own[1], columns)))
                rows = _rows_of(basis, order, here, device)
                self._blocks.append((slice(here.start - self.own[0], here.stop - self.own[0]), rows))
        self._basis_bytes = sum(rows.nbytes for _, rows in self._blocks)
        self.momentum = torch.zeros(part, device=device)
        self._other = torch.zeros_like(self.momentum)
        self._gradient = self._g[self._own]
        self._start: Tensor | None = None
        self._shift: Tensor | None = None
        self._random_after: Random | None = None
        self._closure: Closure | None = None
        self.ranks = ranks.size
        self.cost = Cost()

    def begin(self, closure: Closure, check: bool) -> None:
        """Before a step of the method."""
        if self._flatten and any(p.numel() > 0 and p.data_ptr() != view.data_ptr() for p, view in zip(self._parameters, self._views, strict=True)):
            raise RuntimeError(f"{SCOPE} the parameters were moved or replaced after the optimizer was made; make it anew")
        self._closure, self._check = closure, check
        self._take_weights()
        self._before = [buffer.clone() for buffer in self._buffers]
        self._after = self._before
        self._random, self._random_after = _random_state(self._w.device), None
        self._start, self._shift, self._t, self._moved, self._unscaled = None, None, 0.0, False, False

    def end(self, *, lost: bool) -> None:
        """After it: the random numbers go on as after the pass with gradients; statistics of a batch whose loss was lost do not stay."""
        if lost:
            _copy(self._buffers, self._before)
        if self._random_after is not None:
            _set_random_state(self._random_after)
        self._closure = None

    def checked(self, scalars: dict[str, Any], vectors: dict[str, Any], counters: dict[str, Any]) -> Callable[[], None]:
        """A state of the trainer, w, m and the buffers in this order of parameters, as a function that takes it up and does not fail."""
        columns = self._columns_in(scalars)
        if len(columns) != len(vectors["weights"]):
            raise ValueError(f"{SCOPE} the run has {len(vectors['weights'])} weights, the model trains {len(columns)}")
        w, momentum = (torch.zeros(len(self._w)) for _ in range(2))
        for whole, name in ((w, "weights"), (momentum, "residual_momentum")):
            whole[: len(columns)] = torch.from_numpy(vectors[name])[columns]
        if not np.allclose(scalars["coordinates"], self._coordinates(w), rtol=0, atol=1e-5 * float(w.norm())):
            raise ValueError(f"{SCOPE} the run is of another matrix")
        floats = [buffer for buffer in self._buffers if buffer.is_floating_point()]
        whole_numbers = [buffer for buffer in self._buffers if not buffer.is_floating_point()]
        parts = [*_parted(vectors["buffers"], floats), *_parted(counters["counters"], whole_numbers)]

        def take_up() -> None:
            with torch.no_grad():
                self._w.copy_(w)
                self.momentum.copy_(momentum[self._own])
            self._give_weights()
            _copy([*floats, *whole_numbers], parts)

        return take_up

    def saved(self, scalars: dict[str, Any]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], Numbers]:
        """w, m and the buffers as a state of the trainer has them, and P w."""
        columns = self._columns_in(scalars)
        vectors: dict[str, NDArray[Any]] = {}
        with torch.no_grad():
            self._take_weights()
            for name, whole in (("weights", self._w), ("residual_momentum", self.momentum)):
                out = torch.empty(len(columns))
                out[columns] = whole[: len(columns)].cpu()
                vectors[name] = out.numpy()
            vectors["buffers"] = _joined([b for b in self._buffers if b.is_floating_point()], torch.float32)
            counters = {"counters": _joined([b for b in self._buffers if not b.is_floating_point()], torch.int64)}
            return vectors, counters, self._coordinates(self._w)

    def _columns_in(self, scalars: dict[str, Any]) -> Tensor:
        """Where the trainer's vectors have each value of ours."""
        there = {part["name"]: (part["offset"], tuple(part["shape"])) for part in scalars["layout"]["parameters"]}
        for (name, _), parameter in zip(self._named, self._parameters, strict=True):
            if there.get(name, (0, None))[1] != tuple(parameter.shape):
                raise ValueError(f"{SCOPE} the run has no parameter {name} {list(parameter.shape)}")
        return torch.cat([torch.arange(there[name][0], there[name][0] + p.numel()) for (name, _), p in zip(self._named, self._parameters, strict=True)])

    def _coordinates(self, w: Tensor) -> Numbers:
        """P w of all ranks; w padded as theirs."""
        own = w.to(self._w.device)[self._own]
        parts = [_products(rows, own[columns]) for columns, rows in self._blocks]
        return self._ranks.sum(torch.cat([*parts, torch.zeros(0, dtype=torch.float64, device=own.device)])).cpu().numpy()

    # What the method asks for.

    def gradient(self, move: bool) -> None:
        if move and self._optimizer.method.sam_radius > 0:
            self._shift = self._ascent()
            _copy(self._buffers, self._before)
        kept = [buffer.clone() for buffer in self._buffers]
        with self._shifted():
            own, self._loss = self._pass()
        for begin, end in self._decays:
            a, b = max(begin, self.own[0]), min(end, self.own[1])
            if a < b:
                own[a - self.own[0] : b - self.own[0]].add_(self._w[a:b], alpha=self._optimizer.method.weight_decay)
        self._gradient = own
        self._loss += self._decay()
        if not move:
            _copy(self._buffers, kept)
            return
        self._after = [buffer.clone() for buffer in self._buffers]
        self._random_after = _random_state(self._w.device)
        if self._check:
            again = self.loss()
            if not abs(again - self._loss) <= 1e-4 * max(1e-3, abs(self._loss)) and np.isfinite(self._loss):
                raise RuntimeError(f"{SCOPE} the closure gave a loss of {self._loss:.9g} and then of {again:.9g} at the same weights: "
                                   "it needs to use the same batch, and torch's random numbers alone, at each call")  # fmt: skip

    def project(self) -> tuple[Numbers, float, float, float]:
        parts = [_products(rows, self._gradient[columns]) for columns, rows in self._blocks]
        self.cost.basis_bytes_read += self._basis_bytes
        squares = _products(torch.stack([self.momentum, self._gradient]), self._gradient)
        numbers = self._ranks.sum(torch.cat([*parts, squares])).cpu().numpy()
        return np.ascontiguousarray(numbers[:-2]), float(numbers[-2]), float(numbers[-1]), self._loss

    def set_line(self, direction: Numbers, projected: Numbers, gamma: float, alpha: float, moves_momentum: bool, keeps_start: bool) -> None:
        with torch.no_grad():
            self.cost.basis_bytes_read += self._basis_bytes
            both = torch.zeros(2, len(self.momentum), device=self._w.device)
            row = 0
            for columns, rows in self._blocks:
                coordinates = np.stack([direction[row : row + len(rows)], projected[row : row + len(rows)]]).astype(np.float32)
                both[:, columns] = torch.from_numpy(coordinates).to(rows.device) @ rows
                row += len(rows)
            forward, inside = both
            if moves_momentum:
                torch.mul(self.momentum, gamma, out=self._other)
                self._other.add_(self._gradient).sub_(inside)
                self.momentum, self._other, self._moved = self._other, self.momentum, True
            own = forward.sub(self.momentum, alpha=alpha) if alpha > 0 else forward.clone()
            self._direction = self._ranks.gather(own)
            self._start = self._w.clone() if keeps_start else None
            self._t = 0.0

    def move_to(self, t: float) -> None:
        if t == self._t:
            return
        with torch.no_grad():
            if self._start is None:
                self._w.add_(self._direction, alpha=t - self._t)
            elif t == 0:
                self._w.copy_(self._start)
            else:
                torch.add(self._start, self._direction, alpha=t, out=self._w)
        self._t = t
        self._give_weights()

    def loss(self) -> float:
        assert self._closure is not None
        _set_random_state(self._random)
        kept = [buffer.clone() for buffer in self._buffers]
        self.cost.forward_passes += 1
        with torch.no_grad(), self._shifted():
            loss = self._ranks.mean(_scalar(self._closure()))
        _copy(self._buffers, kept)
        return loss + self._decay()

    def subtract_momentum(self, alpha: float) -> None:
        with torch.no_grad():
            self._w.sub_(self._ranks.gather(self.momentum), alpha=alpha)
        self._give_weights()

    def restore(self) -> None:
        with torch.no_grad():
            if self._start is not None:
                self._w.copy_(self._start)
            if self._moved:
                self.momentum, self._other, self._moved = self._other, self.momentum, False
        self._give_weights()
        _copy(self._buffers, self._before)
        _set_random_state(self._random)
        for parameter in self._parameters:
            parameter.grad = None

    # Passes.

    def _pass(self) -> tuple[Tensor, float]:
        """The mean gradient, own columns, and the mean loss."""
        assert self._closure is not None
        self.cost.forward_passes += 1
        self.cost.backward_passes += 1
        for parameter in self._parameters:
            parameter.grad = None
        _set_random_state(self._random)
        with torch.enable_grad():
            loss = _scalar(self._closure())
            if any(parameter.grad is not None for parameter in self._parameters):
                raise RuntimeError(f"{SCOPE} the closure called backward(); it only runs the network forward and returns the loss, "
                                   "of which the optimizer takes the gradient")  # fmt: skip
            if not loss.requires_grad:
                raise RuntimeError(f"{SCOPE} the closure's loss depends on no parameter: does it run under torch.no_grad()?")
            (loss if self._scaler is None else self._scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        if self._scaler is not None and not self._unscaled:  # once a step, as the scaler keeps count
            self._scaler.unscale_(self._optimizer)
        with torch.no_grad():
            for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
                gradient.zero_() if parameter.grad is None else gradient.copy_(parameter.grad)
            if self._scaler is not None and self._unscaled:
                self._g.div_(self._scaler.get_scale())
        self._unscaled = True
        return self._ranks.own_mean(self._g, self._own), self._ranks.mean(loss)

    def _ascent(self) -> Tensor | None:
        """SAM's radius g / |g|; none where g is not finite."""
        own, _ = self._pass()
        norm = float(self._ranks.sum(_products(own[None], own))) ** 0.5
        if not np.isfinite(norm) or norm == 0:
            return None
        return self._ranks.gather(own).mul(self._optimizer.method.sam_radius / norm)

    def _shifted(self) -> _Shift:
        return _Shift(self, self._shift)

    def _decay(self) -> float:
        total = sum(float(_products(self._w[None, a:b], self._w[a:b])) for a, b in self._decays)
        return self._optimizer.method.weight_decay * total / 2

    def _take_weights(self) -> None:
        if not self._flatten or self._parameters[0].data_ptr() != self._w.data_ptr():
            with torch.no_grad():
                for parameter, view in zip(self._parameters, self._views, strict=True):
                    view.copy_(parameter)

    def _give_weights(self) -> None:
        if not self._flatten:
            with torch.no_grad():
                for parameter, view in zip(self._parameters, self._views, strict=True):
                    parameter.copy_(view)


class _Shift:
    """The weights plus a shift, and their own bits again afterwards."""

    def __init__(self, space: _TorchSpace, shift: Tensor | None) -> None:
        self._space, self._shift = space, shift

    def __enter__(self) -> None:
        if self._shift is not None:
            self._w = self._space._w.clone()
            self._space._w.add_(self._shift)
            self._space._give_weights()

    def __exit__(self, *_: object) -> None:
        if self._shift is not None:
            self._space._w.copy_(self._w)
            self._space._give_weights()


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    """rows [k, n] times vector [n], in float64 over tiles of float32 sums."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for begin in range(0, len(vector), TILE):
        total += torch.mv(rows[:, begin : begin + TILE], vector[begin : begin + TILE])
    return total


def _scalar(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        received = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"{SCOPE} the closure needs to return a scalar tensor, the mean loss, received {received}")
    return loss


def _copy(tensors: list[Tensor], values: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def _parted(values: NDArray[Any], tensors: list[Tensor]) -> list[Tensor]:
    """Values that lie one behind another, in the tensors' shapes."""
    sizes = [tensor.numel() for tensor in tensors]
    if sum(sizes) != len(values):
        raise ValueError(f"{SCOPE} the run has {len(values)} values of buffers, the model {sum(sizes)}")
    return [part.view(tensor.shape) for tensor, part in zip(tensors, torch.split(torch.from_numpy(values), sizes), strict=True)]


def _joined(tensors: list[Tensor], dtype: torch.dtype) -> NDArray[Any]:
    """Their values, one behind another."""
    return torch.cat([torch.empty(0, dtype=dtype), *(tensor.detach().cpu().flatten().to(dtype) for tensor in tensors)]).numpy()


def _random_state(device: torch.device) -> Random:
    return torch.get_rng_state(), (device, torch.cuda.get_rng_state(device)) if device.type == "cuda" else None


def _set_random_state(state: Random) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1][1], state[1][0])


def _parts(model: Any) -> tuple[list[tuple[str, Parameter]], list[Any], list[Tensor]]:
    """Trained parameters by name ("" where nobody knows), the groups, and the buffers."""
    if isinstance(model, Module):
        module: Module = bare(model)
        named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
        return named, [parameter for _, parameter in named], list(module.buffers())
    items = list(model) if isinstance(model, Iterable) else []
    flat = list(_flat(items))
    trained = [(name, parameter) for name, parameter in flat if parameter.requires_grad]
    return trained, items, []


def _flat(items: Iterable[Any]) -> Iterator[tuple[str, Parameter]]:
    for item in items:
        if isinstance(item, dict):
            params = item["params"]
            yield from _flat([params] if isinstance(params, Tensor) else params)
        else:
            yield item if isinstance(item, tuple) else ("", item)


def _refuse_parameters(named: list[tuple[str, Parameter]], flatten: bool) -> None:
    if not named:
        raise ValueError(f"{SCOPE} received no parameter that needs a gradient")
    for name, parameter in named:
        if type(parameter).__name__ == "DTensor" or type(parameter.data).__name__ == "DTensor":
            raise TypeError(f"{SCOPE} needs whole parameters, received a model sharded by FSDP")
        if parameter.device != named[0][1].device:
            raise ValueError(f"{SCOPE} needs all parameters on one device, received {named[0][1].device} and {parameter.device} ({name})")
        if flatten and parameter.dtype != torch.float32:
            raise ValueError(f"{SCOPE} needs float32 parameters, received {parameter.dtype} ({name}); flatten=False keeps a float32 copy")


def _blocks(basis: Basis) -> list[tuple[int, int]]:
    return basis.blocks or [(0, basis.components.shape[1])]


def _columns_of(named: list[tuple[str, Parameter]], basis: Basis, blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the basis has each parameter: its first column and its size."""
    sizes = [(name, tuple(parameter.shape), parameter.numel()) for name, parameter in named]
    columns = basis.components.shape[1]
    if not basis.names or not sizes[0][0]:
        total = sum(size for _, _, size in sizes)
        if total != columns:
            raise ValueError(f"{SCOPE} the basis has {columns} columns, the trained parameters have {total} values")
        return [(0, total)]
    begins = np.cumsum([0] + [int(np.prod(shape, dtype=np.int64)) for shape in basis.shapes]).tolist()
    names = basis.names
    if all(name.startswith("module.") for name in names):  # of a model in DataParallel
        names = [name.removeprefix("module.") for name in names]
    there = {name: (shape, begin) for name, shape, begin in zip(names, basis.shapes, begins[:-1], strict=True)}
    for name, shape, _ in sizes:
        if name not in there or there[name][0] != shape:
            known = f"has it as {list(there[name][0])}" if name in there else "does not have it"
            raise ValueError(f"{SCOPE} the model trains {name} {list(shape)}, the basis {known}")
    if extra := there.keys() - {name for name, _, _ in sizes}:
        raise ValueError(f"{SCOPE} the basis has {min(extra)}, which the model does not train")
    places = [(there[name][1], size) for name, _, size in sizes]
    if len(blocks) > 1 and [begin for begin, _ in places] != begins[:-1]:
        raise ValueError(f"{SCOPE} a basis of blocks needs the order of the model's parameters")
    return places


def _rows_of(basis: Basis, places: list[tuple[int, int]], here: range, device: torch.device) -> Tensor:
    """P [k, here] in the order of the parameters, on the device."""
    rows = torch.empty(len(basis.components), len(here))
    begin = 0
    for first, size in places:
        a, b = max(begin, here.start), min(begin + size, here.stop)
        if a < b:
            part = np.asarray(basis.components[:, first + a - begin : first + b - begin])
            rows[:, a - here.start : b - here.start] = torch.from_numpy(np.array(part))
        begin += size
    return rows.to(device)
