"""Two checkpoints, tensor by tensor."""

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
    """A tensor that both checkpoints hold, under B's name.

    status: same, different, dtype (the types differ, and perhaps values) or shape (no element has a partner).
    dtype, shape: A's and B's where they differ, as a tuple of two.
    different: elements that are not the same. None: does not apply, or is not finite.
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
    """What `diff` found. tensors: those of both sides, equal ones included, in A's order.

    only_a, only_b: names that one checkpoint has alone. remarks: what was not compared, a line each.
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
        """The lines below the table; the last one is the verdict."""
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
    """The cells of one tensor; - for what has no value."""
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
    """Whether it holds A's value and B's."""
    return isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], int)


def tensor_of(row: dict[str, Any]) -> TensorDifference:
    """The tensor that the document describes."""
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
    """The value as a float. Raises where it is no number >= 0."""
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
    """Compares two checkpoints as `dimred diff` does: each is read once, block by block, of any kind and size.

    Elements of one type are the same if their bits are: -0.0 is not 0.0, and a NaN is one of its own payload. Another
    type is a difference; its values are compared, too.
    rtol, atol: where one is given, values within atol + rtol * abs(b) are the same, and so are two NaN.
    rename: a file of lines `REGEX -> TEXT`, or such pairs, for A's names; the first that matches decides.
    include, exclude: regular expressions, searched in the names that each checkpoint has.
    take: raw or averaged, of each side that holds both kinds.

    Raises ValueError for what is no single checkpoint, OSError for damaged files.
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
