"""Files that readers see whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from dimred import _core

Mark = tuple[str, str]  # what an earlier output is, and a text that stands near its beginning


def require_place(file: Path, option: str, mark: Mark, inputs: Iterable[Path] = ()) -> None:
    """Raises ValueError where `option` names an input, a part of a run, or anything but an earlier output of the kind
    that `mark` tells: the rule of lib/support/result_file.h."""
    _core.require_result_place(file, option, mark, list(inputs))


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Under a temporary name first, so that a reader sees the old file or the new one. A link stays, and what it leads
    to is written. Raises ValueError for a device, a pipe or a folder, and where there is no such folder."""
    file = file.resolve()
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is no regular file: it is left as it is")
    if not file.parent.is_dir():
        raise ValueError(f"{file}: the folder {file.parent} is not there")
    temporary = file.with_name(f".{file.name}.tmp")
    write(temporary)
    temporary.replace(file)
