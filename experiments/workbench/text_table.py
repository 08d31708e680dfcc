"""Small aligned tables for a terminal, and their CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path


def is_number(cell: str) -> bool:
    """Whether a cell is set flush right: it starts like a number or is a dash."""
    return cell[:1].isdigit() or cell[:1] in "+-.−–" or cell == "nan"


def number(value: float, sign: str = "", digits: int = 2) -> str:
    """A dash where there is none."""
    return "–" if math.isnan(value) else f"{value:{sign}.{digits}f}"


def p_value(value: float) -> str:
    """Three digits, `< .001` below them."""
    return "–" if math.isnan(value) else "< .001" if value < 0.001 else f"{value:.3f}"


def percent(value: float, sign: str = "") -> str:
    """A fraction as per cent with two decimals."""
    return number(100 * value, sign)


def interval(low: float, high: float, sign: str = "", write: Callable[[float, str], str] = number) -> str:
    """`low to high`."""
    return "–" if math.isnan(low) else f"{write(low, sign)} to {write(high, sign)}"


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
