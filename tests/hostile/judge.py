"""One command on a disturbed folder: what came of it, and whether that may be."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measured import Ended, bytes_of
from .site import Site, Stamps, Use, ignored
from .uses import names

MARGIN = 64 << 20  # bytes of memory beyond the input and the undisturbed peak
LONGEST_LINE = 4096
CRASH = re.compile(r"Traceback|internal:|terminate called|Sanitizer|Segmentation")
# What inspect says of what is not there; without its signature an export is a folder of weights.
LACKING = re.compile(r"DAMAGED|MISSING|sidecar +none|^safetensors +/", re.M)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass
class Verdict:
    """`outcome`: equal, warned, refused; silent (a changed result), outside (a touched file) or wrong otherwise."""

    kind: str
    name: str
    outcome: str
    problem: str
    ended: Ended
    memory: int  # bytes above the undisturbed peak


def error_lines(ended: Ended) -> list[str]:
    return [line for line in ended.errors.splitlines() if line and not line.startswith("warning: ")]


def warned(ended: Ended, file: Path, site: Site) -> bool:
    """Also where the command looks only, and says what is not there."""
    if LACKING.search(ended.output):
        return True
    lines = [line for line in ended.errors.splitlines() if line.startswith("warning: ")]
    return any(names(file, site.work, line) for line in lines)


def touched(before: Stamps, after: Stamps) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def breach(ended: Ended, memory: int, changed: list[str]) -> tuple[str, str]:
    """(outcome, problem) of what no command may do, whatever it was given."""
    text = ended.output + ended.errors
    if changed:
        return "outside", f"touched {', '.join(changed[:5])}"
    if ended.hung:
        return "wrong", "hangs"
    if ended.code not in (0, 1, 2):
        return "wrong", f"ended with {ended.code}"
    if found := CRASH.search(text):
        return "wrong", f"says {found[0]}"
    if found := CONTROL.search(text):
        return "wrong", f"prints the control character {found[0]!r}"
    if memory > MARGIN:
        return "wrong", f"takes {memory >> 20} MB more than its input and the undisturbed command"
    return "", ""


def refusal_fault(ended: Ended, slowest: float) -> str:
    lines = error_lines(ended)
    if len(lines) != 1 or not lines[0].startswith("dimred"):
        return f"{len(lines)} error lines"
    if len(lines[0]) > LONGEST_LINE:
        return f"a line of {len(lines[0])} letters"
    return f"refused after {ended.seconds:.1f} s" if ended.seconds > slowest else ""


def result_of(site: Site, use: Use, ended: Ended, file: Path) -> Any:
    """What the use made; the disturbed file itself only where it can be read to its end."""
    if not file.is_file() and (file.is_symlink() or file.exists()):
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
    assert use.result is not None
    try:
        return use.result(site, ended)
    except (OSError, ValueError) as error:
        return f"unreadable: {error}"


def same(result: Any, expected: Any, file: Path, left: bytes) -> bool:
    """A damaged snapshot that a run leaves as it is changes nothing of its result: a run reads the heads of its older
    snapshots alone, and all that use their weights (pca, stage2, evaluate, inspect) verify every byte."""
    if file.parent.name == "snapshots" and isinstance(result, dict) and result.get(file.name) == left != b"":
        return {**result, file.name: b""} == {**expected, file.name: b""}
    return result == expected


def outcome_of(site: Site, use: Use, ended: Ended, expected: Any, file: Path, left: bytes) -> tuple[str, str]:
    """(outcome, problem) of a command that kept to its bounds. `left`: the disturbed file's bytes before it."""
    if ended.code != 0:
        fault = refusal_fault(ended, site.slowest)
        return "wrong" if fault else "refused", fault
    if use.result is None:
        return "silent", "was taken without a word"
    if use.result is ignored or same(result_of(site, use, ended, file), expected, file, left):
        return "equal", ""
    if warned(ended, file, site):
        return "warned", ""
    return "silent", "changed its result silently"


def attempt(
    site: Site, use: Use, like: Use, disturbed: Callable[[], tuple[Path, int]], kind: str, name: str
) -> Verdict:
    """Runs the use on a fresh folder that was disturbed; that tells the file and how many bytes of input it made.
    `like`: the use whose undisturbed peak and result it is held against."""
    expected, result = site.reference(like)
    site.fresh()
    file, given = disturbed()
    before, left = site.stamps(), bytes_of(file) if file.parent.name == "snapshots" else b""
    ended = site.dimred(*use.words, file_size=use.file_size)
    memory = max(0, ended.peak - expected.peak - given)
    outcome, problem = breach(ended, memory, touched(before, site.stamps()))
    if not problem:
        outcome, problem = outcome_of(site, use, ended, result, file, left)
    if problem:
        says = (ended.errors or ended.output).strip().splitlines()
        problem += f" | {says[-1][:200]}" if says else ""
    return Verdict(kind, f"{use.name}: {name}", outcome, problem, ended, memory)
