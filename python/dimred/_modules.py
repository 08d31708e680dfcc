"""Modules of torch: what wraps or shards them, and by which names files and other libraries know their parameters."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch.nn import DataParallel, Module, Parameter
from torch.nn.parallel import DistributedDataParallel

# Segments that a wrapper adds to a name: torch.compile; PEFT around a layer that it trains whole.
WRAPPERS = {"_orig_mod", "modules_to_save"}
SHARDED = "received sharded ones (FSDP, DeepSpeed's ZeRO-3, tensor parallelism)"


def wrapped(model: Any) -> Iterator[Any]:
    """The model, then what DistributedDataParallel, DataParallel or torch.compile wraps in it, one after another."""
    while True:
        yield model
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif isinstance(model, Module) and "_orig_mod" in model._modules:
            model = model._modules["_orig_mod"]
        else:
            return


def bare(model: Any) -> Any:
    """The module within what wraps it."""
    *_, inner = wrapped(model)
    return inner


def is_sharded(tensors: Iterable[Any], model: Any = None) -> bool:
    """Whether FSDP, ZeRO-3 or tensor parallelism holds parts of a tensor, or of the model's, on other ranks."""
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
    """Each parameter once, with all its names: a tied one has several; the first is the name that named_parameters()
    gives.
    """
    names: dict[Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return names


def adapter_names(model: Any) -> set[str]:
    """The adapters of a model of PEFT, also of a wrapped one, whose files leave them out of the parameters' names; its
    default name where the model does not tell.
    """
    return {"default", *getattr(bare(model), "peft_config", {})}


def plain_names(names: Sequence[str], adapters: set[str] | None = None) -> list[str]:
    """The names without what DataParallel ("module." before all), torch.compile and PEFT (an adapter's name) add to
    them.

    adapters: of adapter_names. A name that two parameters would then share stays as it is.
    """
    if names and all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    left_out = WRAPPERS | (adapters or {"default"})
    plain = [".".join(part for part in name.split(".") if part not in left_out) for name in names]
    times = Counter(plain)
    return [short if times[short] == 1 else name for short, name in zip(plain, names, strict=True)]
