"""Circles of units: lint_cycles.py FILE... (all C++ files, paths from here).

A unit is a header with its source, an arrow is an include by either. Who changes a unit of a circle has to know all of
them. Reported are a circle of more than three units, any circle in a room of FREE, and one of EXCEPTIONS that has
grown, or that has shrunk, for its size here has to shrink with it. Tests are not looked at.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

MOST = 3
FREE = ("lib/support/", "lib/options/")  # rooms without a circle of any size
# A room that still has larger circles, and the units of its largest.
EXCEPTIONS: dict[str, int] = {"checkpoints/": 13, "lib/training/": 16}

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


def complaints(circles: list[list[str]], exceptions: dict[str, int]) -> Iterator[str]:
    """A line for each circle that may not be, and for each exception that says another size."""
    largest = dict.fromkeys(exceptions, 0)
    for circle in circles:
        size, names = len(circle), " ".join(circle)
        room = next((room for room in exceptions if all(unit.startswith(room) for unit in circle)), None)
        if room:
            largest[room] = max(largest[room], size)
        elif any(unit.startswith(FREE) for unit in circle):
            yield f"{circle[0]}: a circle of {size} units, where none may be: {names}"
        elif size > MOST:
            yield f"{circle[0]}: a circle of {size} units, of at most {MOST}: {names}"
    for room, known in exceptions.items():
        if largest[room] > known:
            yield f"{room}: its largest circle has grown from {known} to {largest[room]} units"
        elif known > largest[room] > MOST:
            yield f"scripts/lint_cycles.py: the largest circle of {room} has {largest[room]} units, no longer {known}"
        elif largest[room] <= MOST:
            yield f"scripts/lint_cycles.py: {room} needs no exception"


def main() -> int:
    arrows = arrows_of(sys.argv[1:])
    looked_at = {room: size for room, size in EXCEPTIONS.items() if any(unit.startswith(room) for unit in arrows)}
    found = list(complaints(circles_of(arrows), looked_at))
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
