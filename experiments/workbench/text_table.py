"""Small aligned tables for a terminal, and their CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path


def is_number(cell: str) -> bool:
    """Whether a cell is set flush right: it starts like a number or is a dash."""
    return cell[:1].isdigit() or cell[:1] in "+-.−–" or cell == "nan"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to equal width; those that hold numbers are flush right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(column[1:]) and all(is_number(cell) for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Writes a table for later use; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
