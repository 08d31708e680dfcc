"""Converts the state of a run of `dimred stage2` to tensors of torch, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dimred._torch_step import Numbers, TorchState
from dimred._trained import SCOPE

Arrays = dict[str, NDArray[Any]]


def take_up_of(state: TorchState, scalars: dict[str, Any], vectors: Arrays, counters: Arrays) -> Callable[[], None]:
    """Returns a function that copies w, m and the buffers of the trainer's state into `state` and does not fail.

    Raises ValueError for another network or matrix.
    """
    columns = _columns_in(state, scalars)
    if len(columns) != len(vectors["weights"]):
        raise ValueError(f"{SCOPE} the run has {len(vectors['weights'])} weights, but the model trains {len(columns)}")
    w, momentum = (torch.zeros(len(state.weights.vector)) for _ in range(2))
    for whole, name in ((w, "weights"), (momentum, "residual_momentum")):
        whole[: len(columns)] = torch.from_numpy(vectors[name])[columns]
    if not np.allclose(scalars["coordinates"], state.coordinates(w), rtol=0, atol=1e-5 * float(w.norm())):
        raise ValueError(f"{SCOPE} the run has another matrix than this optimizer")
    floats, whole_numbers = _buffers(state)
    buffers = [*floats, *whole_numbers]
    parts = [*_parted(vectors["buffers"], floats), *_parted(counters["counters"], whole_numbers)]

    @torch.no_grad()
    def take_up() -> None:
        state.weights.vector.copy_(w)
        state.weights.scatter()
        state.momentum.copy_(momentum[slice(*state.own)])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part)

    return take_up


@torch.no_grad()
def saved_state(state: TorchState, scalars: dict[str, Any]) -> tuple[Arrays, Arrays, Numbers]:
    """Returns w, m and the buffers in the form of the trainer's state, and P w."""
    columns = _columns_in(state, scalars)
    state.weights.gather()
    vectors: Arrays = {}
    for name, whole in (("weights", state.weights.vector), ("residual_momentum", state.momentum)):
        out = torch.empty(len(columns))
        out[columns] = whole[: len(columns)].cpu().float()
        vectors[name] = out.numpy()
    floats, whole_numbers = _buffers(state)
    vectors["buffers"] = _joined(floats, torch.float32)
    return vectors, {"counters": _joined(whole_numbers, torch.int64)}, state.coordinates(state.weights.vector)


def _columns_in(state: TorchState, scalars: dict[str, Any]) -> Tensor:
    """Returns the index of each of our values in the trainer's vectors."""
    there = {part["name"]: (part["offset"], tuple(part["shape"])) for part in scalars["layout"]["parameters"]}
    columns = []
    for i, parameter in enumerate(state.trained.parameters):
        found = [there[name] for name in state.trained.names[i] if name in there]
        if not found or found[0][1] != tuple(parameter.shape):
            raise ValueError(f"{SCOPE} the run has no parameter {state.trained.name(i)} {list(parameter.shape)}")
        columns.append(torch.arange(found[0][0], found[0][0] + parameter.numel()))
    return torch.cat(columns)


def _buffers(state: TorchState) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the floating-point buffers, and the others."""
    buffers = [] if state.trained.module is None else list(state.trained.module.buffers())
    return [b for b in buffers if b.is_floating_point()], [b for b in buffers if not b.is_floating_point()]


def _parted(values: NDArray[Any], tensors: list[Tensor]) -> list[Tensor]:
    """Splits consecutive values into tensors of the given shapes."""
    sizes = [tensor.numel() for tensor in tensors]
    if sum(sizes) != len(values):
        raise ValueError(f"{SCOPE} the run has {len(values)} values of buffers, but the model has {sum(sizes)}")
    return [
        part.view(tensor.shape)
        for tensor, part in zip(tensors, torch.split(torch.from_numpy(values), sizes), strict=True)
    ]


def _joined(tensors: list[Tensor], dtype: torch.dtype) -> NDArray[Any]:
    """Returns the values of all tensors as one vector."""
    return torch.cat(
        [torch.empty(0, dtype=dtype), *(tensor.detach().cpu().flatten().to(dtype) for tensor in tensors)]
    ).numpy()
