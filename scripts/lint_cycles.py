"""Circles of units: lint_cycles.py FILE... (all C++ files, paths from here).

A unit is a header with its source, an arrow is an include by either. Whoever changes a unit of a circle has to know all
of its units. The script reports each circle of more than three units, and any circle in a room of FREE, outside tests/.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

MOST = 3
FREE = ("lib/support/", "lib/options/", "lib/engine/", "lib/run/")  # rooms without a circle of any size

INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
SUFFIX = re.compile(r"\.(h|cpp|inc|cu|cuh)$")


def arrows_of(files: Iterable[str]) -> dict[str, set[str]]:
    """Unit -> the other units that it includes."""
    texts = {file: pathlib.Path(file).read_text() for file in files if not file.startswith("tests/")}
    units = {SUFFIX.sub("", file) for file in texts}
    arrows: dict[str, set[str]] = {unit: set() for unit in sorted(units)}
    for file, text in texts.items():
        unit = SUFFIX.sub("", file)
        named = (folder + SUFFIX.sub("", name) for name in INCLUDE.findall(text) for folder in ("", "lib/"))
        arrows[unit] |= {other for other in named if other in units and other != unit}
    return arrows


def reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """The units that a path of arrows from `start` leads to; itself where it lies in a circle."""
    seen: set[str] = set()
    left = [*arrows[start]]
    while left:
        unit = left.pop()
        if unit not in seen:
            seen.add(unit)
            left += arrows[unit]
    return seen


def circles_of(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Sets of units that all reach one another, the largest first."""
    reach = {unit: reached(unit, arrows) for unit in arrows}
    found = {
        tuple(sorted(other for other in reach[unit] if unit in reach[other])) for unit in arrows if unit in reach[unit]
    }
    return sorted(map(list, found), key=lambda circle: (-len(circle), circle))


def complaints(circles: list[list[str]]) -> Iterator[str]:
    """A line for each circle that may not be."""
    for circle in circles:
        size, names = len(circle), " ".join(circle)
        if any(unit.startswith(FREE) for unit in circle):
            yield f"{circle[0]}: a circle of {size} units, where none may be: {names}"
        elif size > MOST:
            yield f"{circle[0]}: a circle of {size} units, of at most {MOST}: {names}"


def main() -> int:
    found = list(complaints(circles_of(arrows_of(sys.argv[1:]))))
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
