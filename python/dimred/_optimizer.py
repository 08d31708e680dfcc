"""Line-searched descent in the subspace of a basis, as an optimizer of torch."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from dimred import _core
from dimred._arguments import require_switch, shown, whole_number
from dimred._basis import Basis
from dimred._minimize import method_of
from dimred._ranks import Ranks
from dimred._stage2_run import Cost, TakenRun
from dimred._torch_run import saved_state, take_up_of
from dimred._torch_step import Closure, Objective, TorchState, TorchStep
from dimred._trained import SCOPE, Params, in_basis, refuse_changes, trained_of


class SubspaceOptimizer(torch.optim.Optimizer):
    """A preset of `dimred stage2` for your own network, data and loss. Each step() does one line search, in the
    subspace of the basis and outside it.

        optimizer = SubspaceOptimizer(model, basis, preset="robust")
        for images, labels in loader:
            loss = optimizer.step(lambda: cross_entropy(model(images), labels))

    model_or_params: a module, which DistributedDataParallel may wrap, or whatever optimizers of torch take. A module's
        buffers, such as BatchNorm's statistics, are restored after each trial. Parameters that need no gradient stay
        unchanged. A group may have weight_decay, which then applies to all parameters of the group.
    basis: a basis of dimred.fit. Its columns are matched to parameters by name, or by order if either side has no
        names. None for presets without a basis ("sgd", "swa", "ema").
    preset: "robust", "robust-mean", "mindspore-latest", "mindspore-first", "dldr", "psgd", "twa", "sgd", "swa" or "ema"
        (docs/reference/presets.md). The optimizer starts from the network's present weights. If a preset starts from
        other weights, you load them; if a preset averages its iterates, you take the average.
    total_steps: the length of the run. Presets with a rate that falls over the run need it.
    flatten: True makes the parameters views into one vector, which saves copies. The parameters then must not be moved,
        and must be float32. With False the parameters stay where they are, and a copy in float32 (in float64 for
        float64 parameters) keeps the bits that a narrower type rounds off.
    check_closure: True evaluates the closure once more at each step and compares the two losses. False does so at the
        first step only.
    grad_scaler: a torch.amp.GradScaler. Call its update() after step(), also after one that raised. Do not call its
        step(): it refuses closures.
    process_group: the ranks whose gradients and losses are averaged, for modules without DistributedDataParallel. True
        is the default group; with False each rank descends on its own. Several ranks need a process_group or a
        DistributedDataParallel. All ranks need to begin with the same weights and basis; the first step compares them.
    hyperparameters: `update_rule` and the numbers of a preset, such as `rho`, `alpha`, `trials` and `weight_decay`. The
        options of `dimred stage2` have the same names (docs/reference/options.md).

    step(closure) returns the loss before the step, weight decay included. The closure runs the network forward on ONE
    batch, the same batch at each call, and returns the mean loss as a scalar tensor. The closure does not call
    backward(). step() calls the closure once with gradients and once without gradients for each trial, always with the
    same buffers and random numbers. If the closure raises, the weights, buffers and state are restored. `report`
    describes the last step. `lr` of each group shows the last step size. Do not set `lr`: the next step() refuses
    schedulers.

    Cost of a step: one forward and backward pass, one forward pass for each trial, and two readings of the basis (k x M
    float32; each of several ranks reads a part). R ranks also reduce-scatter the M gradients (DDP: all-reduce),
    all-gather M numbers (`mindspore-*`: twice), and make small all-reduces.
    """

    # Keywords, as all optimizers of torch take them, rather than a value of options that users would have to import.
    def __init__(
        self,
        model_or_params: Params,
        basis: Basis | None,
        *,
        preset: str = "robust",
        total_steps: int | None = None,
        flatten: bool = False,
        check_closure: bool = False,
        grad_scaler: GradScaler | None = None,
        process_group: Any = None,
        **hyperparameters: float | str,
    ) -> None:
        self._is_made = False
        if total_steps is not None:
            whole_number(SCOPE, "total_steps", total_steps, 1)
        for name, value in (("flatten", flatten), ("check_closure", check_closure)):
            require_switch(SCOPE, name, value)
        if grad_scaler is not None and not isinstance(grad_scaler, GradScaler):
            raise TypeError(f"{SCOPE} needs grad_scaler as a torch.amp.GradScaler, received {shown(grad_scaler)}")
        self._method = method_of(SCOPE, preset, basis, hyperparameters, ("total_steps", total_steps))
        trained, places = in_basis(trained_of(model_or_params), basis)
        decayed = "all" if self._method.weight_decay_all else "weights"
        super().__init__(
            trained.groups, {"lr": 0.0, "weight_decay": self._method.weight_decay, "weight_decay_of": decayed}
        )
        self._basis = basis
        self.preset, self.total_steps, self.steps = preset, total_steps, 0
        self.report: dict[str, Any] = {}
        self._check_closure = check_closure
        self._taken: TakenRun | None = None
        self._scaler = grad_scaler
        self._arguments = {
            "model_or_params": trained.given,
            "basis": basis,
            "preset": preset,
            "flatten": flatten,
            "check_closure": check_closure,
            "grad_scaler": grad_scaler,
            "process_group": process_group,
            **hyperparameters,
        }
        self._lr = 0.0
        self._space = TorchState(trained, basis, places, Ranks(model_or_params, process_group))
        self._list_parameters()
        self._decays()  # which refuses those of a group that cannot be
        if flatten:  # last: a constructor that is refused leaves the model as it was
            self._space.weights.flatten()
        self._is_made = True

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """Takes one step on the closure's batch and returns the loss before the step. See the class."""
        if not callable(closure):
            received = "none" if closure is None else f"a {type(closure).__name__}"
            raise TypeError(
                f"{SCOPE} step() needs a closure that runs the network forward and returns the loss, "
                f"received {received}"
            )
        self._refuse_rates()
        refuse_changes(self._space.trained)
        begin = time.perf_counter()
        progress = 0.0 if self.total_steps is None else min(1.0, self.steps / self.total_steps)
        objective = Objective(closure, self._decays(), self._method.sam_radius, self._scaler, self)
        step = TorchStep(self._space, objective, self._check_closure or self.steps == 0)
        self._space.require_same_on_ranks(self._checksum)
        self.report = self._method.step(step, progress)
        step.end(lost=not np.isfinite(self.report["loss"]))
        self.steps += 1
        self._set_rates(self.report["step_size"])
        self._space.cost.seconds += time.perf_counter() - begin
        return torch.tensor(self.report["loss"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises ValueError after the constructor: the basis and the momentum have no columns for a later group."""
        if self._is_made:
            raise ValueError(
                f"{SCOPE} takes no new group after the optimizer was made; make another optimizer with all groups"
            )
        super().add_param_group(param_group)

    @property
    def method(self) -> _core.Method:
        """The algorithm and its constants."""
        return self._method

    def __repr__(self) -> str:
        rows = "none" if self._basis is None else len(self._basis.components)
        columns = self._space.weights.columns
        about = f"preset: {self.preset}\nrows of the basis: {rows}\nweights: {columns}\nsteps: {self.steps}"
        return super().__repr__().replace("(\n", f"(\n{about}\n", 1)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles call the constructor and load the state. A pickled (model, optimizer) stays a pair."""
        return _again, (type(self), self._arguments | {"total_steps": self.total_steps}, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Returns the method's numbers, a copy of the momentum (this rank's columns), the number of steps and the
        basis's checksum.

        For parameters in a type narrower than float32, the state also holds their float32 weights. Everything lies
        under the first parameter, like the state of torch.optim.LBFGS, so that torch.distributed.checkpoint finds it.
        """
        own: dict[str, Any] = {
            "preset": self.preset,
            "basis": self._checksum(),
            "method": self._method.state_dict(),
            # By its columns, so that a checkpoint of several ranks keeps each one's.
            "momentum": {self._columns: self._space.momentum.clone()},
            "steps": self.steps,
        }
        if self._space.weights.rounds:
            own["weights"] = self._space.weights.vector.clone()
        whole = super().state_dict()
        return whole | {"state": whole["state"] | {0: own}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state of the same preset, basis and number of ranks. On an error nothing changes."""
        states = state_dict.get("state") if isinstance(state_dict, dict) else None
        found = [kept for kept in states.values() if "preset" in kept] if isinstance(states, dict) else []
        if not found:
            received = f"one with {', '.join(state_dict)}" if isinstance(states, dict) else shown(state_dict)
            raise ValueError(f"{SCOPE} needs a state of a SubspaceOptimizer, received {received}")
        own = found[0]
        if own["preset"] != self.preset or self._columns not in own["momentum"]:
            raise ValueError(
                f"{SCOPE} needs a state of the preset {self.preset} and columns {self._columns}, "
                f"received {own['preset']} and {', '.join(own['momentum'])}"
            )
        if own["basis"] != self._checksum():
            raise ValueError(
                f"{SCOPE} needs a state of the basis {self._checksum()}, received a state of the basis {own['basis']}"
            )
        for vector, kept in ((self._space.momentum, own["momentum"][self._columns]), *self._kept_weights(own)):
            if kept.shape != vector.shape:
                raise ValueError(f"{SCOPE} needs vectors of {len(vector)} numbers, received {list(kept.shape)}")
        before = self._method.state_dict()
        self._method.restore(own["method"])
        try:
            super().load_state_dict(state_dict | {"state": {}})
        except BaseException:
            self._method.restore(before)
            raise
        self._list_parameters()
        self._space.momentum.copy_(own["momentum"][self._columns])
        for vector, kept in self._kept_weights(own):
            vector.copy_(kept)
        self._lr = self.param_groups[0]["lr"]
        self._taken = None
        self.steps = own["steps"]

    def load_run(self, run: str | os.PathLike[str]) -> None:
        """Loads a state of `dimred stage2` with the same network, preset and matrix: the weights, buffers, momentum and
        the method's numbers.

        run: the folder of the run, or one of its states (RUN/checkpoints/state_...). A folder stands for its newest
            state.
        Parameters are matched by name. Raises ValueError for another network, method or matrix, and OSError for a
        damaged state.
        """
        state, text, vectors, counters = _core.read_run_state(os.fspath(run))
        scalars = json.loads(text)
        if scalars.get("stage") != "stage2" or "residual_momentum" not in vectors:
            raise ValueError(f"{SCOPE} needs a run of stage 2, received '{os.fspath(run)}' of {scalars.get('stage')}")
        take_up = take_up_of(self._space, scalars, vectors, counters)
        self._method.restore(scalars["method"])
        take_up()
        self.steps = scalars["step"]
        self._taken, self._space.cost = TakenRun(SCOPE, state, text), Cost()

    def save_run(self) -> Path:
        """Writes the steps since load_run as the next state of that run, and returns the state's folder. `dimred
        stage2` can continue from this state.

        Preset and constants need to be those of the run. Only whole epochs of the run's batch size and data can be
        saved, in any order of the data. Weights, buffers, momentum, the method's numbers, step, epoch and cost are
        updated; everything else in the state is kept. When `dimred stage2` continues, it first evaluates the epoch for
        curve.csv. steps.csv has no rows of these steps. The state is written completely or not at all.

        Raises ValueError within an epoch, after the last epoch of a run whose rates fall, for another preset or
        constant, if the run has a newer state, for a run that averages its iterates or has a loss scale, for groups
        with a weight decay of their own, and on several ranks. Raises OSError if another process uses the run, or for a
        full disk.
        """
        taken = self._taken
        if taken is None:
            raise ValueError(f"{SCOPE} save_run needs a run: call load_run first")
        for name in ("weight_decay", "weight_decay_of"):
            if any(group[name] != self.defaults[name] for group in self.param_groups):
                raise ValueError(f"{SCOPE} save_run needs {name} = {self.defaults[name]} in all groups, as in the run")
        run = taken.require_way_back(self.preset, self._method, self.total_steps, self._space.ranks.size)
        vectors, counters, coordinates = saved_state(self._space, taken.scalars)
        scalars = taken.following(self.steps - taken.scalars["step"], self._space.cost, self._method, coordinates)
        text = json.dumps(scalars)
        state = _core.write_run_state(str(run), taken.text, text, vectors, counters)
        self._taken, self._space.cost = TakenRun(SCOPE, str(state), text), Cost()
        return Path(state)

    @property
    def _columns(self) -> str:
        """The columns of the momentum that this rank has."""
        return "{}:{}".format(*self._space.own)

    def _kept_weights(self, own: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
        """Returns the weights and the state's weights, if the state holds bits that a narrower type rounds off."""
        return [(self._space.weights.vector, own["weights"])] if "weights" in own else []

    def _list_parameters(self) -> None:
        """Adds an entry for each parameter; torch.distributed.checkpoint goes through states by parameter."""
        self.state.update({parameter: {} for group in self.param_groups for parameter in group["params"]})

    def _checksum(self) -> str | None:
        return None if self._basis is None else self._basis.checksum()

    def _decays(self) -> list[tuple[int, int, float]]:
        """Returns (begin, end, weight decay) of the columns that decay, from the present groups."""
        found = []
        for group in self.param_groups:
            rate, of = group["weight_decay"], group["weight_decay_of"]
            if not 0 <= rate < float("inf") or of not in ("weights", "all"):
                raise ValueError(
                    f"{SCOPE} needs weight_decay >= 0, and weight_decay_of 'weights' or 'all', in a group, "
                    f"received {rate} and {of!r}"
                )
            found += [
                (parameter, rate) for parameter in group["params"] if rate > 0 and (parameter.dim() > 1 or of == "all")
            ]
        return self._space.weights.columns_of(found)

    def _set_rates(self, rate: float) -> None:
        self._lr = rate
        for group in self.param_groups:
            group["lr"] = rate

    def _refuse_rates(self) -> None:
        for group in self.param_groups:
            if "initial_lr" in group or group["lr"] != self._lr:
                received = "a scheduler" if "initial_lr" in group else f"{float(group['lr']):g}"
                raise ValueError(
                    f"{SCOPE} searches the step size itself, and lr of a group only shows the last step size; "
                    f"received {received}"
                )


def _again(kind: type[SubspaceOptimizer], arguments: dict[str, Any], state: dict[str, Any]) -> SubspaceOptimizer:
    optimizer = kind(**arguments)
    optimizer.load_state_dict(state)
    return optimizer
