"""Matrices as .npy files with torch alone: snapshots for the PCA, and back."""

from __future__ import annotations

import ast
from pathlib import Path

import torch

HEADER = 128  # bytes, in all: 32 numbers of float32
CHUNK = 1 << 18


def header_of(rows: int, columns: int) -> bytes:
    """Of a float32 matrix in C order, version 1.0."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"


def create(path: Path, rows: int, columns: int) -> torch.Tensor:
    """A new file, mapped: what is written into the matrix is in the file."""
    with path.open("wb") as file:
        file.write(header_of(rows, columns))
        file.truncate(HEADER + 4 * rows * columns)
    flat = torch.from_file(str(path), shared=True, size=HEADER // 4 + rows * columns)
    return flat[HEADER // 4 :].view(rows, columns)


def read(path: Path) -> torch.Tensor:
    """A float32 matrix in C order, mapped. Raises ValueError for any other file."""
    with path.open("rb") as file:
        begin = file.read(10)
        size = 10 + int.from_bytes(begin[8:10], "little")
        told = ast.literal_eval(file.read(size - 10).decode()) if begin[:7] == b"\x93NUMPY\x01" else {}
    if told.get("descr") != "<f4" or told.get("fortran_order") is not False or size % 4:
        raise ValueError(f"{path} needs to be a float32 matrix in C order")
    rows, columns = told["shape"]
    flat = torch.from_file(str(path), shared=False, size=size // 4 + rows * columns)
    return flat[size // 4 :].view(rows, columns)


def write_snapshots(path: Path, rows: int, columns: int, device: torch.device) -> None:
    """W = V diag(.85^j) G + a mean, V orthonormal, G of normal numbers (as benchmarks/pca_peers.py's)."""
    generator = torch.Generator(device).manual_seed(0)
    square = torch.randn(rows, rows, generator=generator, device=device, dtype=torch.float64)
    factor = (torch.linalg.qr(square)[0] * 0.85 ** torch.arange(rows, device=device)).float()
    matrix = create(path, rows, columns)
    for begin in range(0, columns, CHUNK):
        width = min(CHUNK, columns - begin)
        noise = torch.randn(rows, width, generator=generator, device=device)
        mean = 0.05 * torch.randn(width, generator=generator, device=device)
        matrix[:, begin : begin + width] = 0.01 * (factor @ noise) + mean
