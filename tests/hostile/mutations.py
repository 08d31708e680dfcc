"""What may have become of a file."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

PAGE = 4096


def flip(file: Path, draw: random.Random, bits: int = 1) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(bits if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def cut(file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: draw.choice([len(data) - 1, len(data) // 2, draw.randrange(len(data))]) if data else 0])


def extend(file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    more = draw.choice([b"\0", b"\n", draw.randbytes(draw.randrange(1, 2 * PAGE)), data])
    file.write_bytes(data + more)


def zero(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        begin = draw.randrange(0, len(data), PAGE)
        data[begin : begin + PAGE] = bytes(len(data[begin : begin + PAGE]))
    file.write_bytes(data)


def replaced(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def change(file: Path, _: random.Random) -> None:
        file.unlink()
        make(file)

    return change


def make_folder(file: Path) -> None:
    file.mkdir()
    (file / "inside").write_text("inside\n")


# Each takes the file, random numbers, the same file of another run, and a free path outside.
Mutation = Callable[[Path, random.Random, Path, Path], object]


def alone(change: Callable[[Path, random.Random], object]) -> Mutation:
    return lambda file, draw, _other, _outside: change(file, draw)


def swap(file: Path, _: random.Random, other: Path, __: Path) -> None:
    shutil.copyfile(other, file)


def sibling(file: Path, draw: random.Random, _: Path, __: Path) -> None:
    """A neighbour's bytes under this name: an older state's, another snapshot's."""
    near = [path for path in file.parent.iterdir() if path.is_file() and path != file]
    near += [path for path in file.parent.parent.glob(f"*/{file.name}") if path != file]
    shutil.copyfile(draw.choice(near), file)


def link_out(file: Path, _: random.Random, __: Path, outside: Path) -> None:
    """The same bytes, but behind a link."""
    file.rename(outside)
    file.symlink_to(outside)


MUTATIONS: dict[str, Mutation] = {
    "a bit": alone(flip),
    "eight bits": alone(lambda file, draw: flip(file, draw, 8)),
    "cut": alone(cut),
    "longer": alone(extend),
    "zeroed page": alone(zero),
    "another run's": swap,
    "a neighbour's": sibling,
    "empty": alone(lambda file, _: file.write_bytes(b"")),
    "gone": alone(replaced(lambda _: None)),
    "a folder": alone(replaced(make_folder)),
    "a FIFO": alone(replaced(os.mkfifo)),
    "a link out": link_out,
    "endless": alone(replaced(lambda file: file.symlink_to("/dev/zero"))),
}
