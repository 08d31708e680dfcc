"""The values of a model that a recorder copies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arrays import as_numbers, dtype_name, is_torch, place_of, require_name

SCOPE = "[SnapshotRecorder]"
Named = list[tuple[str, Any]]
Table = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Values:
    """A model's values by name, in the order of registration. frozen: the parameters that need no gradient. tied: the
    further names of parameters, each with the first one.
    """

    parameters: Named
    frozen: Named
    buffers: Named  # of floats
    counters: Named
    tied: dict[str, str] = field(default_factory=dict)


class Recorded:
    """The recorded part of a model, which is decided once."""

    def __init__(self, model: Any, trainable_only: bool) -> None:
        self._model, self._trainable_only = model, trainable_only
        values = values_of(model, trainable_only)
        if not values.parameters and isinstance(model, Mapping):
            raise ValueError(f"{SCOPE} needs a mapping with an array of floats, received names {list(model)}")
        if not values.parameters:
            raise ValueError(
                f"{SCOPE} needs a trainable parameter, received a model whose parameters are all frozen; "
                "trainable_only=False records frozen parameters, too"
            )
        _refuse_types(values)
        self.tables = (_table(values.parameters), _table(values.buffers), _table(values.counters))
        self._names = {name for name, _ in values.parameters}
        self.tied = list(values.tied.items())
        self.lacks = [name for name, _ in values.frozen]
        self.frozen_digest = _digest(values.frozen) if values.frozen else ""
        if values.frozen:
            warnings.warn(
                f"{SCOPE} records the {len(values.parameters)} trainable parameters ({_count(values.parameters)} "
                f"values) and leaves out the {len(values.frozen)} frozen parameters ({_count(values.frozen)} values); "
                "trainable_only=False records all",
                stacklevel=3,
            )

    def copy(self, weights: NDArray[Any], buffers: NDArray[Any], counters: NDArray[Any]) -> None:
        """Copies the present values. Raises ValueError, with the name, for a parameter that has changed its kind or
        shape.
        """
        now = values_of(self._model, False)
        named = dict(now.parameters)
        thawed = [
            name for name, value in now.parameters if self._trainable_only and name in self.lacks and _trains(value)
        ]
        if thawed:
            raise ValueError(
                f"{SCOPE} needs the same trainable parameters as when the recorder was made, received {thawed[0]}, "
                "which was frozen then; trainable_only=False records all"
            )
        added = [(name, value) for name, value in now.parameters if name not in self._names and name not in self.lacks]
        parameters = [*((name, named[name]) for name, _ in self.tables[0] if name in named), *added]
        for part, table, out in zip(
            (parameters, now.buffers, now.counters), self.tables, (weights, buffers, counters), strict=True
        ):
            _require_same(_table(part), table)
            _copy(part, out)


def values_of(model: Any, trainable_only: bool) -> Values:
    """Returns the parameters and buffers of a torch module, or of a mapping such as a state dict."""
    if isinstance(model, Mapping):
        return _values_of_mapping(model)
    if not hasattr(model, "named_parameters"):
        raise TypeError(
            f"{SCOPE} needs a torch module or a mapping from names to arrays, received {type(model).__name__}"
        )
    from dimred._modules import aliases, bare, persistent_buffers

    model = bare(model)
    named = list(model.named_parameters())
    _require_whole([parameter for _, parameter in named], model)
    buffers = persistent_buffers(model)
    return Values(
        [(name, value) for name, value in named if value.requires_grad or not trainable_only],
        [(name, value) for name, value in named if trainable_only and not value.requires_grad],
        [(name, value) for name, value in buffers if _is_float(value)],
        [(name, value) for name, value in buffers if not _is_float(value)],
        {name: first for first, *further in aliases(model).values() for name in further},
    )


def _values_of_mapping(model: Mapping[str, Any]) -> Values:
    values = Values([], [], [], [])
    places: dict[Any, str] = {}  # of torch's tensors; others' arrays may be one at first and several after a step
    for name, value in model.items():
        require_name(SCOPE, name)
        if not hasattr(value, "shape"):
            raise TypeError(f"{SCOPE} needs a mapping from names to arrays, received {type(value).__name__} for {name}")
        if is_torch(value):
            _require_whole([value])
            first = places.setdefault(place_of(value), name)
            if first != name:  # recorded under the first of its names
                values.tied[name] = first
                continue
        if not _is_float(value):
            values.counters.append((name, value))
        elif name.endswith(("running_mean", "running_var")):
            values.buffers.append((name, value))
        else:
            values.parameters.append((name, value))
    return values


def _require_whole(tensors: list[Any], model: Any = None) -> None:
    from dimred._modules import SHARDED, is_sharded  # imports torch

    if is_sharded(tensors, model):
        raise TypeError(f"{SCOPE} needs whole parameters, {SHARDED}")


def _trains(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", True))


def _is_float(value: Any) -> bool:
    return "float" in dtype_name(value) or "complex" in dtype_name(value)


def _refuse_types(values: Values) -> None:
    for name, value in [*values.parameters, *values.frozen, *values.buffers]:
        if "complex" in dtype_name(value):
            raise ValueError(
                f"{SCOPE} needs real parameters and buffers, received {dtype_name(value)} ({name}); record "
                "torch.view_as_real of the tensor"
            )
    if wide := [name for name, value in values.parameters if dtype_name(value) == "float64"]:
        warnings.warn(
            f"{SCOPE} rounds the float64 values of {wide[0]} to float32; dimred.fit takes a list of state dicts "
            "without rounding",
            stacklevel=4,
        )


def _table(named: Named) -> Table:
    return [(name, tuple(int(extent) for extent in value.shape)) for name, value in named]


def _count(named: Named) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape in _table(named))


def _digest(frozen: Named) -> str:
    """Returns the digest of the frozen values, as a run of the trainer has it; the values are read once."""
    digest = _core.FrozenDigest(_table(frozen))
    for _, value in frozen:
        digest.update(np.ascontiguousarray(as_numbers(value), np.float32).reshape(-1))
    return digest.hex()


def _require_same(now: Table, table: Table) -> None:
    if now != table:
        lost = next((entry for entry in table if entry not in now), None) or next(
            entry for entry in now if entry not in table
        )
        raise ValueError(
            f"{SCOPE} needs the model that the recorder was made for, received a model in which {lost[0]} "
            f"{list(lost[1])} was added, removed or reshaped"
        )


def _copy(named: Named, out: NDArray[Any]) -> None:
    """Copies the values one after another into `out`, in the type of `out`."""
    begin = 0
    for _, value in named:
        shape = tuple(int(extent) for extent in value.shape)
        end = begin + int(np.prod(shape, dtype=np.int64))
        _copy_one(value, out[begin:end].reshape(shape))
        begin = end


def _copy_one(value: Any, out: NDArray[Any]) -> None:
    if is_torch(value):
        import torch

        torch.from_numpy(out).copy_(value.detach())
    else:
        out[...] = np.asarray(value)
