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
    """A preset of `dimred stage2` on your network, data and loss: one searched step in and beside the basis a step().

        optimizer = SubspaceOptimizer(model, basis, preset="robust")
        for images, labels in loader:
            loss = optimizer.step(lambda: cross_entropy(model(images), labels))

    model_or_params: a module (also wrapped by DistributedDataParallel), whose buffers, as BatchNorm's statistics,
        are then as they were after each trial; or what optimizers of torch take. What needs no gradient stays as it
        is. A group may have weight_decay, which then counts for all its parameters.
    basis: of dimred.fit, whose columns find their parameters by name (without names: in the basis's order); None for
        presets without one ("sgd", "swa", "ema").
    preset: "robust", "robust-mean", "mindspore-latest", "mindspore-first", "dldr", "psgd", "twa", "sgd", "swa", "ema"
        (docs/reference/presets.md). It starts from the weights that the network has: a preset's own start is the
        caller's to load, its average of iterates to take.
    total_steps: of the run, for what falls as it goes on.
    flatten: True makes the parameters parts of one vector, which saves copying them, and leaves them there; they
        then may not be moved. Their type needs to be float32. Otherwise they stay where they are, and a copy in
        float32 (of float64 parameters: in float64) keeps what a narrower type rounds off.
    check_closure: evaluate the closure once more at each step and compare, not at the first alone.
    grad_scaler: a torch.amp.GradScaler; call its update() after step(). Its step() refuses closures.
    process_group: of bare modules on several ranks, whose gradients and losses are then averaged (True: the default
        group; False: each rank descends by itself). Several ranks need it, or a DistributedDataParallel. All begin
        with the same weights and basis, which the first step compares.
    hyperparameters: `rho`, `alpha`, `trials`, `weight_decay` and all others that a preset has; `update_rule`.

    step(closure) -> the loss before the step, weight decay included. The closure runs the network forward on ONE
    batch, the same at each call, and returns the mean loss, a scalar tensor; it does not call backward. It is called
    with gradients once and without them for each trial, from the same buffers and random numbers. If it raises,
    weights, buffers and state are as before. `report` says what the last step did; `lr` of each group is the step
    size that it took, and not to be set: the next step refuses schedulers.

    Cost of a step: one pass with gradients, a forward pass a trial, two readings of the basis (k x M float32; over
    ranks each reads its part), on R ranks one all-reduce of k + 2 numbers and one all-gather of M.
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
        """One step on the closure's batch; the loss before it. See the class."""
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
        """Only the constructor adds groups: basis and momentum have no columns for a later one, which is refused."""
        if self._is_made:
            raise ValueError(
                f"{SCOPE} takes all its parameters when it is made; "
                "make another one with the new group among its groups"
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
        """Copies and pickles are made by the constructor, then go on as this one; a (model, optimizer) stays a pair."""
        return _again, (type(self), self._arguments | {"total_steps": self.total_steps}, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """The method's numbers, a copy of the momentum (this rank's columns), the steps; the basis by its checksum.

        Of parameters in a narrower type than float32 also the weights that they round. All stands under the first
        parameter, as what torch.optim.LBFGS keeps does, so that torch.distributed.checkpoint finds it there.
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
        """Takes up a state of the same preset, basis and number of ranks, whole or not at all."""
        states = state_dict.get("state") if isinstance(state_dict, dict) else None
        found = [kept for kept in states.values() if "preset" in kept] if isinstance(states, dict) else []
        if not found:
            received = f"one with {', '.join(state_dict)}" if isinstance(states, dict) else shown(state_dict)
            raise ValueError(f"{SCOPE} needs a state of its own, received {received}")
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
        """Takes up a state of `dimred stage2` with the same network, preset and matrix: weights, buffers, momentum,
        the method's numbers.

        run: its folder, of which the newest state is taken, or one of its states (RUN/checkpoints/state_...).
        Parameters are found by their names. Raises ValueError for another network, method or matrix, OSError for a
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
        """The way back of load_run: the steps since then as the run's next state, from which `dimred stage2` goes
        on; its folder.

        The run is that of load_run, with the same preset and constants; whole epochs of its batch size and data,
        taken in any order, count as its epochs. Weights, buffers, momentum, the method's numbers, step, epoch and
        cost go on, all else is as it was; the program's first act is to evaluate the epoch for curve.csv. steps.csv
        has no rows of these steps. Whole or not at all.

        Raises ValueError within an epoch; for another preset or constant, another newest state, a run with an
        average of its iterates or a loss scale, groups with a weight decay of their own, several ranks; OSError
        while another process has the run, or for a full disk.
        """
        taken = self._taken
        if taken is None:
            raise ValueError(f"{SCOPE} save_run needs a run that load_run has taken up")
        for name in ("weight_decay", "weight_decay_of"):
            if any(group[name] != self.defaults[name] for group in self.param_groups):
                raise ValueError(f"{SCOPE} save_run needs the {name} of the run, {self.defaults[name]}, in all groups")
        run = taken.require_way_back(self.preset, self._method, self.total_steps, self._space.ranks.size)
        vectors, counters, coordinates = saved_state(self._space, taken.scalars)
        scalars = taken.following(
            self.steps - taken.scalars["step"], self._space.cost, self._method.state_dict(), coordinates
        )
        text = json.dumps(scalars)
        state = _core.write_run_state(str(run), taken.text, text, vectors, counters)
        self._taken, self._space.cost = TakenRun(SCOPE, str(state), text), Cost()
        return Path(state)

    @property
    def _columns(self) -> str:
        """The columns of the momentum that this rank has."""
        return "{}:{}".format(*self._space.own)

    def _kept_weights(self, own: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
        """The weights and those of a state, where it has what a narrower type rounds off."""
        return [(self._space.weights.vector, own["weights"])] if "weights" in own else []

    def _list_parameters(self) -> None:
        """What goes through states by parameter, as torch.distributed.checkpoint does, wants an entry for each."""
        self.state.update({parameter: {} for group in self.param_groups for parameter in group["params"]})

    def _checksum(self) -> str | None:
        return None if self._basis is None else self._basis.checksum()

    def _decays(self) -> list[tuple[int, int, float]]:
        """(begin, end, weight decay) of the columns that decay, as the groups say now."""
        found = []
        for group in self.param_groups:
            rate, of = group["weight_decay"], group["weight_decay_of"]
            if not 0 <= rate < float("inf") or of not in ("weights", "all"):
                raise ValueError(
                    f"{SCOPE} needs weight_decay >= 0 of 'weights' or 'all' in a group, received {rate} of {of!r}"
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
                    f"{SCOPE} finds its step sizes itself, and lr of a group only shows the last step size; "
                    f"received {received}"
                )


def _again(kind: type[SubspaceOptimizer], arguments: dict[str, Any], state: dict[str, Any]) -> SubspaceOptimizer:
    optimizer = kind(**arguments)
    optimizer.load_state_dict(state)
    return optimizer
