"""Compares two checkpoints, tensor by tensor."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from dimred import _core
from dimred._arguments import local_path, one_of, shown, whole_number
from dimred._convert import Rules, rules_of

COLUMNS = ("tensor", "type", "shape", "different", "max abs", "max rel", "ulp", "cosine")
MOST_ROWS = 30  # of a table for a person


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that both checkpoints hold, under the name in B.

    status: "same", "different", "dtype" (the types differ; values may differ, too) or "shape" (the shapes differ, so no
        element was compared).
    dtype, shape: one value, or a tuple of A's value and B's value if the two differ.
    different: the number of elements that differ.

    None means that a measure does not apply or is not finite.
    """

    name: str
    status: str
    dtype: str | tuple[str, str]
    shape: tuple[int, ...] | tuple[tuple[int, ...], tuple[int, ...]]
    elements: int | None
    different: int | None
    max_abs: float | None
    max_rel: float | None
    max_ulp: int | None
    cosine: float | None


@dataclass(frozen=True, repr=False)
class Difference:
    """The result of diff(). tensors: the tensors that both checkpoints hold, in A's order; equal tensors are included.

    only_a, only_b: the names that only one checkpoint has. remarks: one line for each thing that was not compared.
    """

    a: Path
    b: Path
    same: bool
    only_a: list[str]
    only_b: list[str]
    tensors: list[TensorDifference]
    remarks: list[str] = field(default_factory=list)

    @property
    def differing(self) -> list[TensorDifference]:
        """The tensors that are not the same."""
        return [tensor for tensor in self.tensors if tensor.status != "same"]

    def __repr__(self) -> str:
        lines = [f"A: {self.a}", f"B: {self.b}", *self.remarks]
        if self.differing:
            rows = [COLUMNS, *map(row_of, self.differing[:MOST_ROWS])]
            widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *self._rest()])

    def _repr_html_(self) -> str:
        def cells(row: Iterable[str], kind: str) -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row) + "</tr>"

        lines = [f"A: {self.a}", f"B: {self.b}", *self.remarks]
        table = "".join(cells(row_of(tensor), "td") for tensor in self.differing[:MOST_ROWS])
        if table:
            table = f"<table><thead>{cells(COLUMNS, 'th')}</thead><tbody>{table}</tbody></table>"
        return "<br>".join(map(html.escape, lines)) + table + "<br>".join(map(html.escape, self._rest()))

    def _rest(self) -> list[str]:
        """Returns the lines below the table; the last line is the verdict."""
        lines = []
        if len(self.differing) > MOST_ROWS:
            lines.append(f"and {len(self.differing) - MOST_ROWS} more")
        for side, names in {"A": self.only_a, "B": self.only_b}.items():
            if names:
                more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
                lines.append(f"only in {side}: {', '.join(names[:MOST_ROWS])}{more}")
        count = f"{len(self.tensors)} tensor{'' if len(self.tensors) == 1 else 's'}"
        number = len(self.differing)
        verdict = f"same: {count}" if self.same else f"{number} of {count} differ{'s' if number == 1 else ''}"
        of_type = sum(tensor.status == "dtype" and tensor.different == 0 for tensor in self.tensors)
        verdict += f", {of_type} in type alone" if of_type else ""
        for side, names in {"A": self.only_a, "B": self.only_b}.items():
            verdict += f", {len(names)} only in {side}" if names else ""
        return [*lines, verdict]


def row_of(tensor: TensorDifference) -> tuple[str, ...]:
    """Returns the cells of one tensor; "-" stands for a missing value."""
    both = (tensor.dtype, tensor.shape)
    dtype, shape = (" / ".join(map(str, value)) if is_two(value) else str(value) for value in both)
    different = "-" if tensor.elements is None else f"{'-' if tensor.different is None else tensor.different}"
    if tensor.elements is not None:
        different += f" / {tensor.elements}"
    measures = ("-" if value is None else f"{value:.3g}" for value in (tensor.max_abs, tensor.max_rel))
    ulp = "-" if tensor.max_ulp is None else str(tensor.max_ulp)
    cosine = "-" if tensor.cosine is None else f"{tensor.cosine:.6f}"
    return (tensor.name, dtype, shape, different, *measures, ulp, cosine)


def is_two(value: Any) -> bool:
    """Returns whether the value holds both A's value and B's."""
    return isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], int)


def tensor_of(row: dict[str, Any]) -> TensorDifference:
    """Returns the tensor that a row of the JSON document describes."""
    dtype, shape = row["dtype"], row["shape"]
    two_shapes = bool(shape) and isinstance(shape[0], list)
    return TensorDifference(
        **{
            **row,
            "dtype": tuple(dtype) if isinstance(dtype, list) else dtype,
            "shape": tuple(map(tuple, shape)) if two_shapes else tuple(shape),
        }
    )


def tolerance_of(name: str, value: float) -> float:
    """Returns the value as a float. Raises TypeError or ValueError unless the value is a number >= 0."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"[dimred.diff] needs {name} as a number, received {shown(value)}")
    if not 0 <= value < math.inf:
        raise ValueError(f"[dimred.diff] needs {name} >= 0, received {value}")
    return float(value)


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    rtol: float = 0,
    atol: float = 0,
    rename: Rules | None = None,
    include: str | None = None,
    exclude: str | None = None,
    take: str | None = None,
    threads: int = 0,
) -> Difference:
    """Compares two checkpoints, like the command `dimred diff`. Each checkpoint is read once, block by block, and may
    be of any kind and size.

    Without a tolerance, two elements of one type are the same if their bits are the same: -0.0 differs from 0.0, and
    NaNs with different payloads differ. Tensors of different types count as different; their values are compared as
    well.
    rtol, atol: if one is given, two values are the same if |a - b| <= atol + rtol * |b|, and two NaNs are the same.
    rename: changes A's names by a file of lines `REGEX -> TEXT` or by such pairs; the first expression that matches
        decides.
    include, exclude: regular expressions. Each one is searched for in the names of each checkpoint.
    take: "raw" or "averaged", for a checkpoint that holds both kinds of weights.
    threads: 0 takes all cores of this process.

    Raises ValueError for a path that is not exactly one checkpoint, and OSError for a damaged file.
    """
    scope = "[dimred.diff]"
    tolerance = tolerance_of("rtol", rtol), tolerance_of("atol", atol)
    for name, value in {"include": include, "exclude": exclude}.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{scope} needs {name} as a regular expression, received {shown(value)}")
    if take is not None:
        one_of(scope, "take", take, ("raw", "averaged"))
    whole_number(scope, "threads", threads, 0)
    rules = rules_of(scope, rename)
    sides = local_path(scope, "a", a), local_path(scope, "b", b)
    text, remarks = _core.diff(*sides, tolerance, rules, (include or "", exclude or ""), take or "", threads)
    found = json.loads(text)
    tensors = [tensor_of(row) for row in found["tensors"]]
    return Difference(*sides, found["same"], found["only_a"], found["only_b"], tensors, remarks)
