"""Files that readers see whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PARTS = {
    ".lock",
    "best",
    "checkpoints",
    "config.toml",
    "curve.csv",
    "ema.h5",
    "final.h5",
    "frozen.safetensors",
    "initialization.json",
    "manifest.json",
    "model.pt",
    "snapshots",
    "start.h5",
    "step_times.csv",
    "steps.csv",
}
BEGINNING = 4096  # bytes that hold a mark


def run_of(file: Path) -> Path | None:
    """The run whose record, states or snapshots a file is, or would be."""
    for part in (file, *file.parents[:3]):
        if part.name in PARTS and all((part.parent / name).is_file() for name in ("config.toml", "manifest.json")):
            return part.parent
    return None


def require_place(file: Path, option: str, mark: tuple[str, str]) -> None:
    """Raises ValueError where `option` names a part of a run, or anything but an earlier output, which `mark` tells:
    what it is, and a text near its beginning. The rule of lib/support/result_file.h, for scripts, which a clone has
    before its Python package."""
    target = file.resolve()
    if (run := run_of(target)) is not None:
        raise ValueError(f"{file} is a part of the run {run}; choose another {option}")
    if not target.is_file():
        return
    with target.open("rb") as stream:
        begin = stream.read(BEGINNING)
    if begin and mark[1].encode() not in begin:
        raise ValueError(
            f"{file} exists already and is not an earlier {mark[0]}; choose another {option} or remove the file"
        )


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Under a temporary name first, so that a reader sees the old file or the new one. A link stays, and what it leads
    to is written. Raises ValueError for a device, a pipe or a folder, and where there is no such folder."""
    file = file.resolve()
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is no regular file and is not replaced")
    if not file.parent.is_dir():
        raise ValueError(f"{file} cannot be written: the folder {file.parent} does not exist")
    temporary = file.with_name(f".{file.name}.tmp")
    write(temporary)
    temporary.replace(file)
