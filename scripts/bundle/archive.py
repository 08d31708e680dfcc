"""One .tar.xz whose parts are compressed as suits each: programs by their jumps, images by their bytes."""

from __future__ import annotations

import lzma
import math
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

DICTIONARY = 64 << 20  # holds all programs: what they have in common is stored once
PRESET = {"preset": 9 | lzma.PRESET_EXTREME, "dict_size": DICTIONARY}
PROGRAMS: list[dict[str, Any]] = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2} | PRESET]
IMAGES: list[dict[str, Any]] = [{"id": lzma.FILTER_LZMA2, "lc": 4, "lp": 0, "pb": 0} | PRESET]


class TooLarge(RuntimeError):
    """The archive's limit and its size, in one line."""


class Streams:
    """A file of several xz streams, which readers take for one."""

    def __init__(self, file: BinaryIO, filters: list[dict[str, Any]]) -> None:
        self.file, self.written = file, 0
        self.compressor = lzma.LZMACompressor(filters=filters)

    def write(self, data: bytes) -> int:
        """Writes as a file does."""
        self.file.write(self.compressor.compress(data))
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes before compression."""
        return self.written

    def begin(self, filters: list[dict[str, Any]]) -> None:
        """Begins a stream of its own with the bytes that follow."""
        self.end()
        self.compressor = lzma.LZMACompressor(filters=filters)

    def end(self) -> None:
        """The bytes of this stream."""
        self.file.write(self.compressor.flush())


def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without this machine's users and times."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


@dataclass(frozen=True)
class Group:
    """Files of a folder that lie together in the archive, and how they are compressed. Groups of the same filters that
    follow one another share a stream, in which what they have in common is stored once."""

    name: str
    files: Sequence[Path]
    filters: list[dict[str, Any]]


def write_archive(path: Path, folder: Path, groups: Sequence[Group], most: float = math.inf) -> dict[str, int]:
    """Files of `folder` as path. Returns each group's bytes there, to 64 kB. Raises TooLarge where they are above
    `most` together. What lies at path is whole: until then it is path.part."""
    part = path.with_name(path.name + ".part")
    costs: dict[str, int] = {}
    try:
        with part.open("wb") as file:
            streams = Streams(file, groups[0].filters)
            with tarfile.open(fileobj=streams, mode="w", format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]
                for before, group in zip([groups[0], *groups], groups, strict=False):
                    begin = file.tell()
                    if group.filters is not before.filters:
                        streams.begin(group.filters)
                    for entry in group.files:
                        tar.add(entry, f"{folder.name}/{entry.relative_to(folder)}", filter=nobodys)
                    costs[group.name] = file.tell() - begin
            streams.end()
            costs[groups[-1].name] += file.tell() - sum(costs.values())
        size = part.stat().st_size
        if size > most:
            raise TooLarge(f"{path} needs at most {most / 1e6:.0f} MB, received {size / 1e6:.1f} MB")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return costs
