"""Reads a packed file of decoded images (data/packed.h) with torch alone."""

from __future__ import annotations

import struct
from pathlib import Path

import torch

ROW = struct.Struct("<QQIIIIII")  # offset, digest, size, label, height, width, channels, encoding
HEADER = struct.Struct("<8sIIQQ")
PLANES = 0


def texts_end(description: bytes) -> int:
    """Where the table's length is: behind the source and the class names."""

    def number(at: int) -> int:
        return int(struct.unpack_from("<Q", description, at)[0])

    at = 8 + number(0)
    names = number(at)
    at += 8
    for _ in range(names):
        at += 8 + number(at)
    return at


def read_packed(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images [samples, channels, height, width] of bytes, and labels. Raises ValueError unless all are
    decoded and of one shape."""
    with path.open("rb") as file:
        header = file.read(HEADER.size)
        if header[:8] != b"DIMREDPK" or len(header) < HEADER.size:
            raise ValueError(f"{path} is not a packed file")
        _, _, _, offset, size = HEADER.unpack(header)
        file.seek(offset)
        description = file.read(size)
    at = texts_end(description)
    (count,) = struct.unpack_from("<Q", description, at)
    rows = [ROW.unpack_from(description, at + 8 + i * ROW.size) for i in range(count)]
    first, step = rows[0], rows[1][0] - rows[0][0] if count > 1 else rows[0][2]
    if any(row[0] != first[0] + i * step or row[4:] != first[4:] for i, row in enumerate(rows)) or first[7] != PLANES:
        raise ValueError(f"{path} needs decoded images of one shape")
    height, width, channels = first[4:7]
    content = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    images = content.as_strided((count, channels, height, width), (step, height * width, width, 1), first[0])
    return images.contiguous(), torch.tensor([row[3] for row in rows])
