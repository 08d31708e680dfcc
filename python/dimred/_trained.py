"""The parameters that an optimizer trains: their names, the options of their groups, and their columns in a basis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from dimred._basis import Basis
from dimred._modules import SHARDED, adapter_names, aliases, bare, is_sharded, plain_names

SCOPE = "[SubspaceOptimizer]"
GROUP_OPTIONS = ("params", "weight_decay", "weight_decay_of", "name")
NEEDED = f"{SCOPE} needs a module, a list of tensors or of (name, tensor), or groups of them"
REPLACED = "was moved or replaced after the optimizer was made; make another optimizer"
CONSTANT = 1e-6  # the largest entry of a unit row in the column of a value that no snapshot changed

Params = Module | Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
Place = tuple[int, int]  # the first column and the number of columns that a basis has of a parameter


@dataclass(frozen=True)
class Trained:
    """parameters, names: the parameters that need a gradient, and all names of each; no names if the caller gave none.

    groups: in the form of torch.optim.Optimizer.
    given: the optimizer's argument: the module, or groups whose parameters have names.
    left_out: by name, the parameters that needed no gradient when the optimizer was made.
    """

    parameters: tuple[Parameter, ...]
    names: tuple[tuple[str, ...], ...]
    groups: list[dict[str, Any]]
    given: Any
    left_out: tuple[tuple[str, Parameter], ...] = field(default=())

    @property
    def module(self) -> Module | None:
        """The module inside all wrappers."""
        return bare(self.given) if isinstance(self.given, Module) else None

    def name(self, i: int) -> str:
        """The name of parameter i, for messages."""
        return self.names[i][0] if self.names[i] else f"parameter {i}"


def trained_of(given: Params) -> Trained:
    """Returns the parameters in any form that an optimizer of torch takes.

    Raises TypeError and ValueError for parameters that cannot be trained.
    """
    if isinstance(given, Module):
        known = {parameter: tuple(names) for parameter, names in aliases(bare(given)).items()}
        groups = [{"params": [parameter for parameter in known if parameter.requires_grad]}]
    else:
        given = _groups(given)
        known = _known(given)
        groups = [group | {"params": [tensor for _, tensor in group["params"]]} for group in given]
    if is_sharded(known, given):
        raise TypeError(f"{SCOPE} needs whole parameters, {SHARDED}")
    trained = {parameter: names for parameter, names in known.items() if parameter.requires_grad}
    frozen = ((names, parameter) for parameter, names in known.items() if not parameter.requires_grad)
    left_out = tuple((names[0] if names else "a parameter", parameter) for names, parameter in frozen)
    result = Trained(tuple(trained), tuple(trained.values()), groups, given, left_out)
    _refuse_parameters(result)
    return result


def refuse_changes(trained: Trained) -> None:
    """Raises RuntimeError if a parameter was replaced, ValueError if a frozen parameter needs a gradient now."""
    module = trained.module
    known = trained.left_out if module is None else tuple(module.named_parameters())
    ours = set(trained.parameters)
    if module is not None and (gone := ours - {parameter for _, parameter in known}):
        name = next(trained.name(i) for i, parameter in enumerate(trained.parameters) if parameter in gone)
        raise RuntimeError(f"{SCOPE} {name} {REPLACED}")
    for name, parameter in known:
        if parameter.requires_grad and parameter not in ours:
            raise ValueError(
                f"{SCOPE} {name} needed no gradient when the optimizer was made, but needs one now; "
                "make another optimizer"
            )


def _groups(given: Iterable[Any]) -> list[dict[str, Any]]:
    """Returns the groups, with (name, tensor) in place of each parameter; the name is "" if there is none."""
    if isinstance(given, Tensor | Mapping | str) or not isinstance(given, Iterable):
        raise TypeError(f"{NEEDED}; received {type(given).__name__}")
    items = list(given)
    if not any(isinstance(item, dict) for item in items):
        return [{"params": _listed(items)}]
    groups = []
    for item in items:
        if not isinstance(item, dict) or "params" not in item:
            raise TypeError(f"{NEEDED}; received {type(item).__name__} where a group with params was expected")
        if "lr" in item:
            raise ValueError(
                f"{SCOPE} searches the step size itself, so a group takes no lr; received {item['lr']} "
                "(to freeze a parameter, call requires_grad_(False))"
            )
        if unknown := [name for name in item if name not in GROUP_OPTIONS]:
            raise ValueError(f"{SCOPE} a group takes {', '.join(GROUP_OPTIONS)}, received {unknown[0]}")
        group = item | {"params": _listed(item["params"])}
        if "weight_decay" in group:
            group.setdefault("weight_decay_of", "all")
        groups.append(group)
    return groups


def _listed(params: Any) -> list[tuple[str, Parameter]]:
    if isinstance(params, set):
        raise TypeError(f"{SCOPE} needs an ordered list of parameters, received a set")
    listed: list[tuple[str, Parameter]] = []
    for item in [params] if isinstance(params, Tensor) else params:
        name, tensor = item if isinstance(item, tuple) and len(item) == 2 else ("", item)
        if not isinstance(tensor, Tensor) or not isinstance(name, str):
            raise TypeError(f"{NEEDED}; received {type(tensor).__name__} among the parameters")
        listed.append((name, cast(Parameter, tensor)))  # or a leaf tensor, which torch takes, too
    return listed


def _known(groups: list[dict[str, Any]]) -> dict[Parameter, tuple[str, ...]]:
    listed = [pair for group in groups for pair in group["params"]]
    if any(name for name, _ in listed) and not all(name for name, _ in listed):
        unnamed = sum(not name for name, _ in listed)
        raise ValueError(
            f"{SCOPE} needs names of all parameters or of none, received {unnamed} of {len(listed)} without a name"
        )
    known: dict[Parameter, tuple[str, ...]] = {}
    for i, (name, parameter) in enumerate(listed):
        if parameter in known:
            raise ValueError(f"{SCOPE} received {name or f'parameter {i}'} twice")
        known[parameter] = (name,) if name else ()
    return known


def _refuse_parameters(trained: Trained) -> None:
    if not trained.parameters:
        raise ValueError(f"{SCOPE} received no parameter that needs a gradient")
    device = trained.parameters[0].device
    for i, parameter in enumerate(trained.parameters):
        if is_lazy(parameter) or parameter.device.type == "meta":
            raise ValueError(
                f"{SCOPE} needs parameters that have values, received {trained.name(i)} without values; "
                "run the network once before"
            )
        if not parameter.is_floating_point() or parameter.layout != torch.strided:
            kind = f"{parameter.dtype}".removeprefix("torch.")
            raise ValueError(f"{SCOPE} needs dense real parameters, received {kind} ({trained.name(i)})")
        if parameter.device != device:
            raise ValueError(
                f"{SCOPE} needs all parameters on one device, "
                f"received {device} and {parameter.device} ({trained.name(i)})"
            )


# Columns.


def in_basis(trained: Trained, basis: Basis | None) -> tuple[Trained, list[Place]]:
    """Returns the parameters in the order of the basis, and their places in the basis.

    Parameters are matched by name. If either side has no names, the parameters need to have the order and the shapes of
    the basis. Raises ValueError otherwise.
    """
    if basis is None:
        return trained, []
    by_name = bool(basis.names and trained.names[0])
    places = _named_places(trained, basis) if by_name else _places_in_order(trained, basis)
    order = sorted(range(len(places)), key=lambda i: places[i])
    in_order = replace(
        trained, parameters=tuple(trained.parameters[i] for i in order), names=tuple(trained.names[i] for i in order)
    )
    return in_order, [places[i] for i in order]


def _named_places(trained: Trained, basis: Basis) -> list[Place]:
    adapters = adapter_names(trained.module)
    there = dict(zip(plain_names(basis.names, adapters), zip(basis.shapes, _begins(basis), strict=True), strict=True))
    flat = iter(plain_names([name for names in trained.names for name in names], adapters))
    places = []
    for parameter, names in zip(trained.parameters, trained.names, strict=True):
        found = [name for name in [next(flat) for _ in names] if name in there]
        if len(found) > 1:
            raise ValueError(
                f"{SCOPE} the model ties {found[0]} and {found[1]}, but the basis has both; "
                f"leave one out, for example with dimred.fit(..., exclude={found[1]!r})"
            )
        if not found or there[found[0]][0] != tuple(parameter.shape):
            known = f"has {found[0]} {list(there[found[0]][0])}" if found else "has no such parameter"
            raise ValueError(f"{SCOPE} the model trains {names[0]} {list(parameter.shape)}, but the basis {known}")
        places.append((there.pop(found[0])[1], parameter.numel()))
    for name, (shape, begin) in there.items():
        columns = basis.components[:, begin : begin + int(np.prod(shape, dtype=np.int64))]
        if columns.size and np.abs(columns).max() > CONSTANT:  # else its snapshots had it frozen, too
            raise ValueError(f"{SCOPE} the basis has {name}, but the model does not train {name}")
    return places


def _places_in_order(trained: Trained, basis: Basis) -> list[Place]:
    shapes = [tuple(parameter.shape) for parameter in trained.parameters]
    sizes = [parameter.numel() for parameter in trained.parameters]
    if basis.names and shapes != basis.shapes:
        raise ValueError(
            f"{SCOPE} needs parameters without names in the order of the basis; pass the module, or the "
            f"(name, tensor) pairs of named_parameters(); received {_first_difference(shapes, basis)}"
        )
    if sum(sizes) != basis.components.shape[1]:
        raise ValueError(
            f"{SCOPE} the basis has {basis.components.shape[1]} columns, "
            f"but the trained parameters have {sum(sizes)} values"
        )
    if not basis.names and len(trained.groups) > 1:
        raise ValueError(
            f"{SCOPE} needs one list of parameters, in the order of the columns, because the basis has no names; "
            f"received {len(trained.groups)} groups"
        )
    return list(zip(accumulate([0, *sizes[:-1]]), sizes, strict=True))


def _first_difference(shapes: list[tuple[int, ...]], basis: Basis) -> str:
    for shape, name, wanted in zip(shapes, basis.names, basis.shapes, strict=False):
        if shape != wanted:
            return f"shape {list(shape)} where the basis has {name} {list(wanted)}"
    return f"{len(shapes)} parameters where the basis has {len(basis.shapes)}"


def _begins(basis: Basis) -> list[int]:
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in basis.shapes]
    return list(accumulate([0, *sizes[:-1]]))


@dataclass(frozen=True)
class Block:
    """The rows [k, columns] of a basis on the columns of this rank."""

    columns: slice
    rows: Tensor


def own_blocks(basis: Basis | None, places: list[Place], own: range, like: Tensor) -> list[Block]:
    """Returns the basis on the columns `own` of the parameters, in the type and on the device of `like`."""
    if basis is None:
        return []
    blocks = []
    for first, last in basis.blocks or [(0, basis.components.shape[1])]:
        # The parameters' columns before one of the basis: it may have more than they.
        begin, end = (sum(min(max(column - start, 0), size) for start, size in places) for column in (first, last))
        here = range(max(begin, own.start), max(begin, own.start, min(end, own.stop)))
        columns = slice(here.start - own.start, here.stop - own.start)
        blocks.append(Block(columns, _rows(basis, places, here).to(like.device, like.dtype)))
    return blocks


def _rows(basis: Basis, places: list[Place], here: range) -> Tensor:
    rows = torch.empty(len(basis.components), len(here))
    begin = 0
    for first, size in places:
        a, b = max(begin, here.start), min(begin + size, here.stop)
        if a < b:
            part = np.array(basis.components[:, first + a - begin : first + b - begin], np.float32)
            rows[:, a - here.start : b - here.start] = torch.from_numpy(part)
        begin += size
    return rows
