"""Tensors of any framework as NumPy arrays. Tensors in this process's memory are not copied."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import shown

FLOATS = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16"}
CODES = {"int8", "uint8", "int16", "uint16", "int32", "uint32"}
TYPES = {**FLOATS, "int8": "I8", "uint8": "U8"}  # as safetensors names them
Tensor = tuple[str, tuple[int, ...], str, NDArray[Any]]  # name, shape, type, values as a vector
Row = tuple[str, list[Tensor]]


def is_torch(value: Any) -> bool:
    """Returns whether the value is a torch tensor. The function does not import torch: no tensor exists before the
    import.
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dtype_name(value: Any) -> str:
    """Returns NumPy's name for the dtype of a tensor of any framework."""
    return str(getattr(value.dtype, "name", value.dtype)).removeprefix("torch.")


def as_numbers(value: Any) -> NDArray[Any]:
    """Returns the value as an array; torch's bfloat16 becomes float32."""
    if is_torch(value):
        value = _resolved(value)
        return cast(NDArray[Any], (value.float() if dtype_name(value) == "bfloat16" else value).numpy())
    return np.asarray(value)


def _resolved(value: Any) -> Any:
    """Returns a torch tensor on the CPU, without the marks by which values stand for their negative or conjugate."""
    return value.detach().cpu().resolve_conj().resolve_neg()


def require_dense(value: Any, place: str) -> None:
    """Raises ValueError for a torch tensor that is sparse, quantised or without values. place: the tensor's name.

    Raises TypeError for a tensor whose parts lie on other ranks.
    """
    from dimred._modules import SHARDED, is_sharded

    if is_sharded([value]):
        raise TypeError(f"[dimred.fit] needs whole tensors, {SHARDED}")
    dtype, layout = dtype_name(value), "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
    if value.is_quantized:
        _refuse_quantised(place, dtype)
    if layout != "strided" or dtype.startswith("float8"):
        _refuse_type(place, f"{dtype} ({layout})")


def _refuse_quantised(place: str, dtype: str) -> NoReturn:
    raise ValueError(
        f"[dimred.fit] {place} ({dtype}) holds quantised weights; take the state dicts from before the quantisation"
    )


def _refuse_type(place: str, received: str) -> NoReturn:
    raise ValueError(f"[dimred.fit] needs dense tensors of {', '.join(FLOATS)}, received {received} as {place}")


def as_array(value: Any, place: str) -> tuple[NDArray[Any], str]:
    """Returns the array and the name of its type; a bfloat16 value is given as its 16 bits. place: the value's name."""
    if is_torch(value):
        import torch

        require_dense(value, place)
        value = _resolved(value)
        dtype = dtype_name(value)
        try:
            return (value.view(torch.int16).numpy() if dtype == "bfloat16" else value.numpy()), dtype
        except TypeError:  # a type that NumPy lacks
            _refuse_type(place, dtype)
    if np.ma.is_masked(value):
        raise ValueError(
            "[dimred.fit] needs arrays without masked values, received a masked array; fill the masked values first"
        )
    array = np.asarray(value)
    dtype = array.dtype.name
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    return (array.view(np.uint16) if dtype == "bfloat16" else array), dtype


def is_matrix(source: Any) -> bool:
    """Returns whether the source is an array of any framework, not a path or a list."""
    return hasattr(source, "__dlpack__") or hasattr(source, "__array__") or isinstance(source, memoryview)


def matrix_rows(source: Any, name: str = "array") -> list[Row]:
    """Returns the rows of an n x M array without copying them. name: the name of the array, used in the names of the
    rows.
    """
    array, dtype = as_array(source, f"'{name}'")
    if array.ndim != 2:
        raise ValueError(
            f"[dimred.fit] needs an array of 2 dimensions, n snapshots x M values, received shape {array.shape}"
        )
    if dtype not in FLOATS:
        raise ValueError(f"[dimred.fit] needs an array of {', '.join(FLOATS)}, received {dtype}")
    shape = (array.shape[1],)
    return [(f"{name}[{i}]", [("", shape, FLOATS[dtype], row)]) for i, row in enumerate(array)]


def require_name(scope: str, key: Any) -> None:
    """Raises TypeError for a key of a state dict that is no text, such as the tuples of Flax."""
    if not isinstance(key, str):
        raise TypeError(
            f"{scope} needs names as text, received the key {shown(key)}; join the parts of a path with '.'.join"
        )


def state_row(name: str, state: Mapping[str, Any]) -> Row:
    """Returns the float tensors of a state dict in its order. A tied tensor appears once, under its first name. A
    complex tensor appears without values, so that the core can refuse complex weights.

    Raises TypeError for a name that is no text. Raises ValueError for a value that is a mapping or a list of tensors.
    """
    tensors: list[Tensor] = []
    places: dict[tuple[Any, ...], Any] = {}  # and the values there: an address is another's once its value is freed
    for key, value in state.items():
        require_name(f"[dimred.fit] '{name}'", key)
        if not hasattr(value, "shape"):
            _refuse_arrays_in(value, name, key)
            continue
        where = f"'{name}': \"{key}\"" if key else f"'{name}'"
        if is_torch(value):
            require_dense(value, where)
        if (place := place_of(value)) in places:
            continue
        places[place] = value
        if (dtype := dtype_name(value) if hasattr(value, "dtype") else "").startswith("complex"):
            shape = tuple(int(extent) for extent in value.shape)
            tensors.append((key, shape, dtype.replace("complex", "C"), np.empty(0, np.float32)))
            continue
        array, dtype = as_array(value, where)
        if _core.holds_quantised_weights(key, TYPES.get(dtype, dtype)):
            _refuse_quantised(where, dtype)
        if dtype == "object":
            _refuse_arrays_in(array.reshape(-1).tolist(), name, key)
        if "float" in dtype and dtype not in FLOATS:  # such as NumPy's float128
            _refuse_type(where, dtype)
        if dtype in FLOATS:
            tensors.append((key, array.shape, FLOATS[dtype], np.ascontiguousarray(array).reshape(-1)))
    return name, tensors


def require_same_codes(states: Sequence[Mapping[str, Any]]) -> None:
    """Raises ValueError if integers that may be quantised weights differ between state dicts. Flags, counts and
    a generator's state are no weights.
    """
    names = dict.fromkeys(name for state in states for name, value in state.items() if _may_hold_codes(value))
    for name in names:
        for i, state in enumerate(states):
            if not _are_same(states[0].get(name), state.get(name)):
                raise ValueError(
                    f'[dimred.fit] the integers of "{name}" differ between list[0] and list[{i}], so they may be '
                    "quantised weights; take the state dicts from before the quantisation"
                )


def _may_hold_codes(value: Any) -> bool:
    kind = dtype_name(value) if hasattr(value, "shape") and hasattr(value, "dtype") else ""
    return kind in CODES and len(value.shape) > 1


def _are_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if not _may_hold_codes(one) or not _may_hold_codes(other) or dtype_name(one) != dtype_name(other):
        return False
    return np.array_equal(as_array(one, "")[0], as_array(other, "")[0])


def tied_names(state: Mapping[str, Any]) -> dict[str, str]:
    """Returns each further name of a tied tensor, with the first name, under which state_row has it."""
    first: dict[tuple[Any, ...], str] = {}
    named = [(name, value) for name, value in state.items() if hasattr(value, "shape")]
    return {name: known for name, value in named if (known := first.setdefault(place_of(value), name)) != name}


def _refuse_arrays_in(value: Any, name: str, key: str) -> None:
    """Raises ValueError for a value that holds arrays. A torch module's own "_extra_state" may be of any kind."""
    if _holds_arrays(value) and not key.endswith("_extra_state"):
        raise ValueError(
            f"[dimred.fit] '{name}' needs an array under each name, received a {type(value).__name__} of "
            f'arrays under "{key}"; give that inner state dict instead'
        )


def _holds_arrays(value: Any) -> bool:
    """Returns whether a mapping or a list, at any depth, holds an array of at least one dimension."""
    if isinstance(value, Mapping):
        return any(map(_holds_arrays, value.values()))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return any(map(_holds_arrays, value))
    return len(getattr(value, "shape", ())) > 0


def place_of(value: Any) -> tuple[Any, ...]:
    """Returns the place of a live tensor's values: equal for tied parameters, and unique for each empty tensor."""
    if 0 in value.shape:
        return (id(value), "empty")
    if is_torch(value):
        meaning = (value.dtype, value.is_conj(), value.is_neg())
        return (value.data_ptr(), tuple(value.shape), value.stride(), *meaning)
    if isinstance(value, np.ndarray):
        return (value.ctypes.data, value.shape, value.strides, value.dtype.str)
    return (id(value),)
