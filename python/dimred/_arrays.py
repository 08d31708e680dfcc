"""Tensors of any framework as NumPy arrays, without a copy where they lie in this process's memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import shown

FLOATS = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16"}
TYPES = {**FLOATS, "int8": "I8", "uint8": "U8"}  # as safetensors names them
Tensor = tuple[str, tuple[int, ...], str, NDArray[Any]]  # name, shape, type, values as a vector
Row = tuple[str, list[Tensor]]


def is_torch(value: Any) -> bool:
    """Whether it is a torch tensor, without importing torch, which has none before its import."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dtype_name(value: Any) -> str:
    """The dtype of a tensor of any framework, as NumPy calls it."""
    return str(getattr(value.dtype, "name", value.dtype)).removeprefix("torch.")


def as_numbers(value: Any) -> NDArray[Any]:
    """The array; bfloat16 of torch as float32."""
    if is_torch(value):
        value = value.detach().cpu()
        return cast(NDArray[Any], (value.float() if dtype_name(value) == "bfloat16" else value).numpy())
    return np.asarray(value)


def require_dense(value: Any) -> None:
    """Raises ValueError for a torch tensor without values, of which only some are stored, or of quantised ones.

    TypeError where other ranks hold parts of it.
    """
    from dimred._modules import SHARDED, is_sharded

    if is_sharded([value]):
        raise TypeError(f"[dimred.fit] needs whole tensors, {SHARDED}")
    dtype, layout = dtype_name(value), "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
    if layout != "strided" or dtype.startswith("float8"):
        raise ValueError(f"[dimred.fit] needs dense tensors of {', '.join(FLOATS)}, received {dtype} ({layout})")


def as_array(value: Any) -> tuple[NDArray[Any], str]:
    """The array and the name of its type; bfloat16 as the 16 bits of each value."""
    if is_torch(value):
        require_dense(value)
        value = value.detach().cpu()
        dtype = dtype_name(value)
        return (value.view(_torch_int16(value)).numpy() if dtype == "bfloat16" else value.numpy()), dtype
    if np.ma.is_masked(value):
        raise ValueError("[dimred.fit] needs arrays without masked values, received some; fill them first")
    array = np.asarray(value)
    dtype = array.dtype.name
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    return (array.view(np.uint16) if dtype == "bfloat16" else array), dtype


def _torch_int16(value: Any) -> Any:
    import torch

    return torch.int16


def is_matrix(source: Any) -> bool:
    """Whether it is an array of any framework rather than a path or a list."""
    return hasattr(source, "__dlpack__") or hasattr(source, "__array__") or isinstance(source, memoryview)


def matrix_rows(source: Any, name: str = "array") -> list[Row]:
    """The rows of an n x M array, read where they lie. name: of the array, for those of the rows."""
    array, dtype = as_array(source)
    if array.ndim != 2:
        raise ValueError(
            f"[dimred.fit] needs an array of 2 dimensions, n snapshots x M values, received shape {array.shape}"
        )
    if dtype not in FLOATS:
        raise ValueError(f"[dimred.fit] needs an array of {', '.join(FLOATS)}, received {dtype}")
    shape = (array.shape[1],)
    return [(f"{name}[{i}]", [("", shape, FLOATS[dtype], row)]) for i, row in enumerate(array)]


def require_name(scope: str, key: Any) -> None:
    """Raises TypeError for a key of a state dict that is no text, as those of Flax's paths."""
    if not isinstance(key, str):
        raise TypeError(
            f"{scope} needs names as text, received the key {shown(key)}; join the parts of a path, as by '.'.join"
        )


def state_row(name: str, state: Mapping[str, Any]) -> Row:
    """The float tensors of a state dict, in its order; tied ones once, under the first of their names.

    Raises TypeError for a name that is no text, ValueError for tensors in a mapping or list among the values.
    """
    tensors: list[Tensor] = []
    places: dict[tuple[Any, ...], Any] = {}  # and the values there: an address is another's once its value is freed
    for key, value in state.items():
        require_name(f"[dimred.fit] '{name}'", key)
        if not hasattr(value, "shape"):
            if _holds_arrays(value) and not key.endswith("_extra_state"):  # a torch module's own, of any kind
                raise ValueError(
                    f"[dimred.fit] '{name}' needs arrays by name, received a {type(value).__name__} of them under "
                    f'"{key}"; give that state dict itself'
                )
            continue
        if is_torch(value):
            require_dense(value)
        if (place := place_of(value)) in places:
            continue
        places[place] = value
        array, dtype = as_array(value)
        if _core.holds_quantised_weights(key, TYPES.get(dtype, dtype)):
            raise ValueError(
                f"[dimred.fit] '{name}': \"{key}\" ({dtype}) holds quantised weights; take the state dicts from before "
                "they were quantised"
            )
        if dtype in FLOATS:
            tensors.append((key, array.shape, FLOATS[dtype], np.ascontiguousarray(array).reshape(-1)))
    return name, tensors


def _holds_arrays(value: Any) -> bool:
    """Whether a mapping has an array of one dimension or more, or a list begins with one: losses are scalars."""
    if isinstance(value, Mapping):
        return any(map(_holds_arrays, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_arrays, value[:1]))
    return len(getattr(value, "shape", ())) > 0


def place_of(value: Any) -> tuple[Any, ...]:
    """Where its values lie, while it lives: the same for tied parameters; of an empty tensor like no other."""
    if 0 in value.shape:
        return (id(value), "empty")
    if is_torch(value):
        return (value.data_ptr(), tuple(value.shape), value.stride())
    if isinstance(value, np.ndarray):
        return (value.ctypes.data, value.shape, value.strides)
    return (id(value),)
