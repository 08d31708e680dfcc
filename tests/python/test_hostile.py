"""A sample of what a stranger's files may do; scripts/hostile.sh runs all of it."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli import completed
from conftest import REPOSITORY
from hostile.judge import Verdict, breach, outcome_of, refusal_fault, same, touched
from hostile.measured import Ended, run
from hostile.mutations import MUTATIONS
from hostile.site import Use, printed
from hostile.table import Table
from hostile.uses import KINDS

FINE = Ended(0, "0.5\n", "", 0.1, 0.1, 1 << 20)
REFUSED = replace(FINE, code=1, output="", errors="dimred pca: error: p.npy is damaged\n")


def test_files_of_strangers(binaries: Path) -> None:
    command = [sys.executable, "-m", "hostile", "--short", "--build", str(binaries.parent)]
    done = completed(command, cwd=REPOSITORY / "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "seed 1, " in done.stdout
        and "MISSED" not in done.stdout
        and len(re.findall("^mutated ", done.stdout, re.M)) == len(KINDS)
    )


# The harness itself: what it must not overlook.


@pytest.mark.parametrize(
    ("ended", "memory", "changed", "says"),
    [
        (replace(FINE, hung=True), 0, [], "hangs"),
        (replace(FINE, code=-11), 0, [], "ended with -11"),
        (replace(FINE, errors="Traceback (most recent call last)"), 0, [], "says Traceback"),
        (replace(FINE, output="\x1b[2J"), 0, [], "control character"),
        (replace(FINE, output="\u202e"), 0, [], "control character"),
        (FINE, 65 << 20, [], "65 MB"),
        (FINE, 0, ["outside/precious"], "touched outside/precious"),
    ],
)
def test_a_breach_is_seen(ended: Ended, memory: int, changed: list[str], says: str) -> None:
    assert says in breach(ended, memory, changed)[1]
    assert breach(FINE, 0, []) == breach(REFUSED, 0, []) == ("", "")


def test_a_silent_change_is_seen(tmp_path: Path) -> None:
    class Place:
        work, slowest = tmp_path, 2.0

    file = tmp_path / "state_00000004" / "weights.f32"
    use = Use("evaluate", (), printed)
    assert outcome_of(Place, use, FINE, "0.5\n", file, b"") == ("equal", "")
    assert outcome_of(Place, use, FINE, "0.6\n", file, b"")[0] == "silent"
    for line, outcome in {"state_00000004 is damaged": "warned", "another": "silent"}.items():
        assert outcome_of(Place, use, replace(FINE, errors=f"warning: {line}\n"), "0.6\n", file, b"")[0] == outcome
    assert outcome_of(Place, use, replace(FINE, output="sidecar     none: ..."), "0.5\n", file, b"")[0] == "warned"
    assert outcome_of(Place, use, REFUSED, "0.5\n", file, b"") == ("refused", "")
    assert outcome_of(Place, replace(use, result=None), FINE, "", file, b"")[0] == "silent"
    assert "2 error lines" in refusal_fault(replace(REFUSED, errors=REFUSED.errors * 2), 2)
    assert "letters" in refusal_fault(replace(REFUSED, errors="dimred: " + "x" * 10_000), 2)
    assert "after 2.5 s" in refusal_fault(replace(REFUSED, seconds=2.5), 2)


def test_a_damaged_snapshot_changes_no_run_that_leaves_it() -> None:
    file = Path("run/snapshots/snapshot_00000002.h5")
    expected, damaged = {file.name: b"whole", "curve.csv": 1}, {file.name: b"damaged", "curve.csv": 1}
    assert same(damaged, expected, file, b"damaged")
    assert not same(damaged, expected, file, b"whole")  # the run has written it
    assert not same(damaged | {"curve.csv": 2}, expected, file, b"damaged")
    assert not same(damaged, expected, Path("run/final.h5"), b"damaged")


def test_every_missed_bar_is_named() -> None:
    fine, table = Verdict("kind", "name", "refused", "", REFUSED, 0), Table()
    table.add(fine)
    assert not table.missed(2) and "MISSED" not in table.text(2)
    for bad in (
        {"outcome": "silent"},
        {"outcome": "outside"},
        {"outcome": "wrong"},
        {"memory": 65 << 20},
        {"ended": replace(REFUSED, seconds=2.1)},
        {"problem": "hangs"},
    ):
        table = Table()
        table.add(replace(fine, **bad))
        assert table.missed(2), bad
        assert ("MISSED" in table.text(2)) == ("problem" not in bad), bad


def test_what_is_touched_is_named() -> None:
    assert touched({"a": (1,), "b": (1,)}, {"a": (2,), "c": (1,)}) == ["a", "b", "c"]


def test_memory_and_time_are_measured(tmp_path: Path) -> None:
    eats = [sys.executable, "-c", "x = bytearray(200 << 20); print(len(x))"]
    ended = run(eats, {})
    assert ended.code == 0 and 200 << 20 < ended.peak < 300 << 20
    run([sys.executable, "-c", f"open('{tmp_path}/x', 'wb').write(bytes(5000))"], {}, file_size=1000)
    assert (tmp_path / "x").stat().st_size == 1000


def test_a_peak_does_not_begin_with_ours() -> None:
    """A process's peak begins with the memory of the one that starts it."""
    says = "import hostile.__main__, pathlib; print(pathlib.Path('/proc/self/status').read_text())"
    status = subprocess.run(
        [sys.executable, "-c", says], cwd=REPOSITORY / "tests", capture_output=True, text=True, check=True
    ).stdout
    assert int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) < 48 << 10


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_mutation_changes_its_file(name: str, tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / str(number)
        (folder / "state_1").mkdir(parents=True)
        (folder / "state_2").mkdir()
        for other in ("state_1", "state_2"):
            (folder / other / "weights").write_bytes(other.encode() * 3000)
        (folder / "other").write_bytes(b"other")
        file = folder / "state_2" / "weights"
        before = (file.lstat().st_mode, file.read_bytes())
        MUTATIONS[name](file, random.Random(number), folder / "other", folder / "outside")
        gone = not (file.exists() or file.is_symlink())
        assert gone or (file.lstat().st_mode, file.is_file() and file.read_bytes()) != before
