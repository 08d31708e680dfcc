"""Files that readers see whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


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
