"""Modules of torch: their wrappers, their shards, and the names of their parameters in files and other libraries."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor
from torch.nn import DataParallel, Module, Parameter
from torch.nn.parallel import DistributedDataParallel

# Segments that a wrapper adds to a name: torch.compile; PEFT around a layer that it trains whole.
WRAPPERS = {"_orig_mod", "modules_to_save"}
SHARDED = "received sharded ones (FSDP, DeepSpeed's ZeRO-3, tensor parallelism)"


def wrapped(model: Any) -> Iterator[Any]:
    """Yields the model, then each module inside wrappers (DistributedDataParallel, DataParallel, torch.compile)."""
    while True:
        yield model
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif isinstance(model, Module) and "_orig_mod" in model._modules:
            model = model._modules["_orig_mod"]
        else:
            return


def bare(model: Any) -> Any:
    """Returns the module inside all wrappers."""
    *_, inner = wrapped(model)
    return inner


def is_sharded(tensors: Iterable[Any], model: Any = None) -> bool:
    """Returns whether FSDP, ZeRO-3 or tensor parallelism holds parts of a tensor, or of the model, on other ranks."""
    # A type whose module nobody has imported has no values; to import it takes half a second.
    distributed = [
        getattr(sys.modules.get(f"torch.distributed.{name}"), "DTensor", None) for name in ("tensor", "_tensor")
    ]
    pieces = tuple(kind for kind in distributed if kind is not None)
    fully = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
    modules = model.modules() if isinstance(model, Module) else ()
    return any(isinstance(t, pieces) or _is_part(t) for t in tensors) or any(
        isinstance(module, fully) for module in modules
    )


def _is_part(parameter: Any) -> bool:
    """By the marks of FSDP (with use_orig_params) and of DeepSpeed's ZeRO-3, which may have gathered it."""
    whole = getattr(parameter, "ds_numel", None)
    return getattr(parameter, "_fsdp_flattened", False) or (whole is not None and parameter.numel() != whole)


def aliases(model: Module) -> dict[Parameter, list[str]]:
    """Returns each parameter once, with all its names. The first name is the one of named_parameters()."""
    names: dict[Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return names


def persistent_buffers(model: Module) -> list[tuple[str, Tensor]]:
    """Returns the buffers that a state dict has, also those of one module under several names."""
    return [
        (f"{prefix}.{name}" if prefix else name, buffer)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in module._non_persistent_buffers_set
    ]


def adapter_names(model: Any) -> set[str]:
    """Returns the names of the adapters in a PEFT model, wrapped or not; PEFT's default name if the model has no list.

    PEFT's files leave these names out of the names of parameters.
    """
    return {"default", *getattr(bare(model), "peft_config", {})}


def plain_names(names: Sequence[str], adapters: set[str] | None = None) -> list[str]:
    """Returns the names without the parts that DataParallel, torch.compile and PEFT add.

    adapters: the result of adapter_names. A name stays unchanged if two parameters would otherwise share it.
    """
    if names and all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    left_out = WRAPPERS | (adapters or {"default"})
    plain = [".".join(part for part in name.split(".") if part not in left_out) for name in names]
    times = Counter(plain)
    return [short if times[short] == 1 else name for short, name in zip(plain, names, strict=True)]
