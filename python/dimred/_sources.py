"""What dimred.fit takes, as rows for the core."""

from __future__ import annotations

import glob
import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import local_path, shown
from dimred._arrays import Row, is_matrix, matrix_rows, state_row

LISTS = "[dimred.fit] needs a list of paths, of state dicts or of vectors"


def open_source(source: Any, exclude: str | Iterable[str] = ()) -> _core.Source:
    """The snapshot matrix: see dimred.fit."""
    rows = _opened(source)
    patterns = [exclude] if isinstance(exclude, str) or not isinstance(exclude, Iterable) else list(exclude)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(f"[dimred.fit] needs exclude as a pattern or a list of patterns, received {shown(exclude)}")
    if patterns:
        rows.choose(_left(rows, patterns))
    return rows


def row_values(rows: _core.Source, i: int) -> NDArray[Any]:
    """Row i as float32, or as float64 where float32 would round it."""
    row: NDArray[Any] = np.empty(rows.columns, np.float64 if rows.float64 else np.float32)
    rows.read(i, row)
    return row


def _left(rows: _core.Source, patterns: list[str]) -> list[str]:
    """The names of parameters that fit no pattern."""
    names = [parameter["name"] for parameter in json.loads(rows.layout)["parameters"]] if rows.layout else []
    if not names:
        raise ValueError(
            f"[dimred.fit] exclude needs snapshots that name their parameters, received {rows.names[0]}, which has no "
            "names"
        )
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"[dimred.fit] needs exclude to fit a parameter's name, received {pattern!r} for {len(names)} names "
                f"such as {names[0]}"
            )
    left = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not left:
        raise ValueError(
            f"[dimred.fit] needs exclude to leave a parameter, received {', '.join(patterns)} for all {len(names)} of "
            "them"
        )
    return left


def _opened(source: Any) -> _core.Source:
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if is_matrix(source):
        return _core.open_arrays(matrix_rows(source))
    if isinstance(source, Mapping) or not isinstance(source, Sequence) or isinstance(source, bytes):
        raise TypeError(f"[dimred.fit] needs a path, an array or a list, received {type(source).__name__}")
    items = list(source)
    if not items:
        raise ValueError("[dimred.fit] needs snapshots, received an empty list")
    kinds = [_kind(i, item) for i, item in enumerate(items)]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise TypeError(f"{LISTS}, received a {kinds[0]} (list[0]) and a {kind} (list[{i}])")
    if kinds[0] == "path":
        return _open_files([local_path("[dimred.fit]", "its source", item) for item in items])
    return _core.open_arrays([_item_row(f"list[{i}]", item) for i, item in enumerate(items)])


def _kind(index: int, item: Any) -> str:
    """The kind of an item of a list. Raises TypeError for an item of no known kind."""
    if isinstance(item, (str, os.PathLike)):
        return "path"
    if isinstance(item, Mapping):
        return "state dict"
    if is_matrix(item):
        return "vector"
    raise TypeError(f"{LISTS}, received a {type(item).__name__} (list[{index}])")


def _item_row(name: str, item: Any) -> Row:
    if isinstance(item, Mapping):
        return state_row(name, item)
    return name, [("", *tensor[1:]) for tensor in state_row(name, {"": item})[1]]


def _open_path(text: str) -> _core.Source:
    path = local_path("[dimred.fit]", "its source", text)
    if not path.exists() and not glob.glob(text) and "{" not in text:  # {a,b} is for the core
        raise FileNotFoundError(f"[dimred.fit] '{text}' does not exist")
    if path.suffix == ".npy" and (rows := _other_npy(path)):
        return _core.open_arrays(rows)
    return _remarked(_core.open_path(path))


def _other_npy(path: Path) -> list[Row]:
    """The rows of a file of float16, or of the other byte order, which the core leaves to NumPy; else none."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        return []  # the core says what is wrong with it
    other = array.dtype.newbyteorder("=").name in ("float16", "float32", "float64") and array.dtype.str not in (
        "<f4",
        "<f8",
    )
    return matrix_rows(array, str(path)) if other else []


def _open_files(files: list[Path]) -> _core.Source:
    for file in files:
        if not file.exists():
            raise FileNotFoundError(f"[dimred.fit] '{file}' does not exist")
    return _remarked(_core.open_files(files))


def _remarked(rows: _core.Source) -> _core.Source:
    """Says what was left out of a series of checkpoints."""
    for remark in rows.remarks:
        warnings.warn(f"[dimred.fit] {remark}", stacklevel=6)  # above fit, plot or trajectory
    return rows
