"""Full disks, I/O errors, short writes and interruptions at every system call that changes a file."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from .compare import content, differences, incomplete
from .draws import evenly
from .launch import Call, Ended, Fault, execute
from .workplace import NAMES, Case, Workplace, shortened

FILLING = ("open", "stream", "write", "size", "mkdir")  # what a full disk refuses
# What POSIX lets end with EINTR, and what some network file systems interrupt.
INTERRUPTED = "open+write+sync+size+rename+mkdir"


def tolerated(call: Call) -> bool:
    """Where going on loses nothing: files that are deleted, and the process id in the lock."""
    return call.kind == "remove" or call.path == ".lock"


def error_problem(place: Workplace, name: str, ended: Ended) -> str:
    """A failed call ends the command with one line, unless nothing depends on it."""
    hit = ended.hit
    if ended.code == 0:
        return "" if hit is None or tolerated(hit) else f"{hit.kind} of {hit.path} failed unnoticed"
    if ended.code < 0:
        return f"ended by signal {-ended.code}"
    if len(ended.errors) != 1:
        return shortened(f"{len(ended.errors)} lines on standard error: {' | '.join(ended.errors)}")
    return "" if ended.errors[0].startswith("dimred") else f"not a line of ours: {ended.errors[0]}"


def failing(place: Workplace, name: str, fault: Fault, label: str) -> Case:
    folder = place.fresh(name)
    ended = execute(place.build, place.command(name, folder), fault)
    hit = f"{ended.hit.kind} {ended.hit.path}" if ended.hit else "not reached"
    case = Case("writes", f"{name} {label} at call {fault.number}: {hit}")
    case.problem = error_problem(place, name, ended)
    damaged = incomplete(place.reference(name).everything, folder)
    if damaged:
        case.problem = case.problem or f"damaged: {', '.join(damaged)}"
    case.problem = case.problem or place.finish(name, folder)
    if not case.problem:
        place.remove(folder)
    return case


def unnoticed(place: Workplace, name: str, fault: Fault, label: str) -> Case:
    """Short writes and interruptions are no errors."""
    folder = place.fresh(name)
    ended = execute(place.build, place.command(name, folder), fault)
    case = Case("writes", f"{name} {label}", faults=sum(call.hit for call in ended.calls))
    other = differences(place.reference(name).content, content(folder))
    if ended.code != 0:
        case.problem = shortened(f"ended with {ended.code}: {' | '.join(ended.errors)}")
    elif ended.errors or other:
        case.problem = shortened(f"differs: {', '.join(other)} {' | '.join(ended.errors)}")
    elif case.faults == 0:
        case.problem = "the fault was not injected"
    if not case.problem:
        place.remove(folder)
    return case


def error_faults(calls: list[Call]) -> Iterator[tuple[Fault, str]]:
    """Each call fails once and, as a full disk does, together with all that follow."""
    for call in calls:
        full = call.kind in FILLING
        for code in (errno.ENOSPC, errno.EIO) if full else (errno.EIO,):
            yield Fault(f"errno:{code}", call.number), errno.errorcode[code]
        yield Fault(f"errno:{errno.ENOSPC}", call.number, 1, "+".join(FILLING)), "ENOSPC from"


def benign_faults(calls: list[Call], count: int) -> Iterator[tuple[Fault, str]]:
    yield Fault("short", 1, 1, "write"), "every write short"
    for first in (1, 2):
        yield Fault("eintr", first, 2, INTERRUPTED), f"EINTR at every other call from {first}"
    if any(call.kind == "stream" for call in calls):
        yield Fault("eintr", 1, 2, "stream"), "EINTR at every other opening of a stream"
    for call in evenly([call for call in calls if call.kind in INTERRUPTED.split("+")], count):
        yield Fault("eintr", call.number), f"EINTR at {call.number}: {call.kind} {call.path}"


def cases(place: Workplace, count: int, names: tuple[str, ...] = NAMES) -> Iterator[Case]:
    """About `count` failing calls of each command, 0: all of them."""
    for name in names:
        calls = place.reference(name).calls
        for fault, label in benign_faults(calls, max(1, count // 8) if count else 0):
            yield unnoticed(place, name, fault, label)
        for fault, label in evenly(list(error_faults(calls)), count):
            yield failing(place, name, fault, label)
