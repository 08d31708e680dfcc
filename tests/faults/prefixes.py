"""Every prefix of the system calls of a run: cut off there, the next start must end the same."""

from __future__ import annotations

from collections.abc import Iterator

from .compare import incomplete
from .draws import evenly
from .launch import Fault, execute
from .workplace import NAMES, Case, Workplace


def cut_off(place: Workplace, name: str, number: int) -> Case:
    folder = place.fresh(name)
    ended = execute(place.build, place.command(name, folder), Fault("exit_before", number))
    hit = f"{ended.hit.kind} {ended.hit.path}" if ended.hit else "not reached"
    case = Case("prefixes", f"{name} before call {number}: {hit}")
    damaged = incomplete(place.reference(name).everything, folder)
    if ended.hit and not ended.killed:
        case.problem = f"ended with {ended.code}"
    elif damaged:
        case.problem = f"incomplete under its final name: {', '.join(damaged)}"
    case.problem = case.problem or place.finish(name, folder)
    if not case.problem:
        place.remove(folder)
    return case


def cases(place: Workplace, count: int, names: tuple[str, ...] = NAMES) -> Iterator[Case]:
    """`count` prefixes of each command, 0: all of them."""
    for name in names:
        for call in evenly(place.reference(name).calls, count):
            yield cut_off(place, name, call.number)
