"""The sources of dimred.fit as rows for the core."""

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
from dimred._arrays import Row, is_matrix, matrix_rows, require_same_codes, state_row

LISTS = "[dimred.fit] needs a list of paths, of state dicts or of vectors"


def open_source(source: Any, exclude: str | Iterable[str] = (), several_runs: bool = False) -> _core.Source:
    """Opens the snapshot matrix; see dimred.fit. Snapshots of several runs are refused unless several_runs."""
    rows = _opened(source, several_runs)
    patterns = [exclude] if isinstance(exclude, str) or not isinstance(exclude, Iterable) else list(exclude)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(f"[dimred.fit] needs exclude as a pattern or a list of patterns, received {shown(exclude)}")
    if patterns:
        rows.choose(_left(rows, patterns))
    return rows


def given_order(rows: _core.Source, source: Any) -> str:
    """Returns what a user should know where the names give the rows no steps, so that the order of a list, or of the
    names in a folder or pattern, counts; else "".
    """
    if rows.rows < 2:
        return ""
    by_name = isinstance(source, (str, os.PathLike)) and not os.fspath(source).endswith(".txt")
    taken = f"so dimred takes the checkpoints in the {'order of their names' if by_name else 'given order'}"
    if rows.unordered is not None:
        return f"{rows.unordered}, {taken}"
    return f"the names have no steps, {taken}" if rows.counted else ""  # the words of the command


def row_values(rows: _core.Source, i: int) -> NDArray[Any]:
    """Returns row i as float32, or as float64 if float32 would round it."""
    row: NDArray[Any] = np.empty(rows.columns, np.float64 if rows.float64 else np.float32)
    rows.read(i, row)
    return row


def layout_of(rows: _core.Source) -> tuple[list[str], list[tuple[int, ...]]]:
    """Returns the names and shapes of the parameters, in the order of the columns; both are empty without names."""
    parameters = json.loads(rows.layout)["parameters"] if rows.layout else []
    return [part["name"] for part in parameters], [tuple(part["shape"]) for part in parameters]


def _left(rows: _core.Source, patterns: list[str]) -> list[str]:
    """Returns the names of parameters that match no pattern."""
    names, _ = layout_of(rows)
    if not names:
        raise ValueError(
            f"[dimred.fit] exclude needs snapshots with names of parameters, received {rows.names[0]}, which has no "
            "names"
        )
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"[dimred.fit] needs exclude patterns that match a parameter's name, received {pattern!r} for "
                f"{len(names)} names such as {names[0]}"
            )
    left = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not left:
        raise ValueError(
            "[dimred.fit] needs a parameter that exclude does not match, received "
            f"{', '.join(patterns)}, which matches all {len(names)} names"
        )
    return left


def _opened(source: Any, several_runs: bool) -> _core.Source:
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source), several_runs)
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
        return _open_files([local_path("[dimred.fit]", "source", item) for item in items], several_runs)
    if kinds[0] == "state dict":
        require_same_codes(items)
    return _core.open_arrays([_item_row(f"list[{i}]", item) for i, item in enumerate(items)])


def _kind(index: int, item: Any) -> str:
    """Returns the kind of a list's item. Raises TypeError for an item of no known kind."""
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


def _open_path(text: str, several_runs: bool) -> _core.Source:
    path = local_path("[dimred.fit]", "source", text)
    if not path.exists() and not glob.glob(text) and "{" not in text:  # {a,b} is for the core
        raise FileNotFoundError(f"[dimred.fit] '{text}' does not exist")
    if path.suffix == ".npy" and (rows := _other_npy(path)):
        return _core.open_arrays(rows)
    return _with_warnings(_core.open_path(path, several_runs))


def _other_npy(path: Path) -> list[Row]:
    """Returns the rows of a file in float16 or in the other byte order, which NumPy reads; else an empty list."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        return []  # the core says what is wrong with it
    other = array.dtype.newbyteorder("=").name in ("float16", "float32", "float64") and array.dtype.str not in (
        "<f4",
        "<f8",
    )
    return matrix_rows(array, str(path)) if other else []


def _open_files(files: list[Path], several_runs: bool) -> _core.Source:
    for file in files:
        if not file.exists():
            raise FileNotFoundError(f"[dimred.fit] '{file}' does not exist")
    return _with_warnings(_core.open_files(files, several_runs))


def _with_warnings(rows: _core.Source) -> _core.Source:
    """Warns of the files that were left out of a series of checkpoints."""
    for remark in rows.remarks:
        if "; the order of the list counts" not in remark:  # given_order() says where it does
            warnings.warn(f"[dimred.fit] {remark}", stacklevel=6)  # above fit, plot or trajectory
    return rows
