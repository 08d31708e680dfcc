"""What dimred.fit takes, as rows for the core."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dimred import _core
from dimred._arrays import Row, is_matrix, matrix_rows, state_row


def open_source(source: Any) -> _core.Source:
    """The snapshot matrix: see dimred.fit."""
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if is_matrix(source):
        return _core.open_arrays(matrix_rows(source))
    if isinstance(source, Mapping) or not isinstance(source, Sequence) or isinstance(source, bytes):
        raise TypeError(f"[dimred.fit] needs a path, an array or a list, received {type(source).__name__}")
    items = list(source)
    if not items:
        raise ValueError("[dimred.fit] needs snapshots, received an empty list")
    if all(isinstance(item, (str, os.PathLike)) for item in items):
        return _open_files([Path(item) for item in items])
    return _core.open_arrays([_item_row(i, item) for i, item in enumerate(items)])


def _item_row(index: int, item: Any) -> Row:
    name = f"list[{index}]"
    if isinstance(item, Mapping):
        return state_row(name, item)
    if is_matrix(item):
        return name, [("", *tensor[1:]) for tensor in state_row(name, {"": item})[1]]
    raise TypeError(f"[dimred.fit] needs a list of paths, of state dicts or of vectors, received {type(item).__name__} in it")


def natural(path: Path) -> list[Any]:
    """A key that puts step_2 before step_10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]


def _open_path(text: str) -> _core.Source:
    path = Path(text)
    if not path.exists() and glob.has_magic(text):
        found = sorted((Path(name) for name in glob.glob(text)), key=natural)
        if not found:
            raise FileNotFoundError(f"[dimred.fit] no file fits the pattern '{text}'")
        return _open_files(found)
    if not path.exists():
        raise FileNotFoundError(f"[dimred.fit] '{text}' does not exist")
    _name_python()
    return _core.open_path(str(path / "snapshots" if (path / "snapshots").is_dir() else path))


def _open_files(files: list[Path]) -> _core.Source:
    for file in files:
        if not file.exists():
            raise FileNotFoundError(f"[dimred.fit] '{file}' does not exist")
    _name_python()
    return _core.open_files([str(file) for file in files])


def _name_python() -> None:
    """The Python that reads torch's files for the core, unless the user has named one."""
    os.environ.setdefault("DIMRED_PYTHON", sys.executable)
