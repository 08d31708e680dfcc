"""Files that readers see whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Under a temporary name first, so that a reader sees the old file or the new one."""
    temporary = file.with_name(f".{file.name}.tmp")
    write(temporary)
    temporary.replace(file)
