"""A sample of every fault of tests/faults, spread evenly over all; scripts/faults.sh runs them all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from faults import compare, damage, kills, poison, prefixes, writes
from faults.draws import generator
from faults.known import reason_of
from faults.launch import TIMEOUTS, Build, Call, Command, Ended, Fault, Running, execute
from faults.workplace import NAMES, Case, Workplace

SEED = int(os.environ.get("DIMRED_FAULT_SEED", "1"))


@pytest.fixture(scope="module")
def place(binaries: Path, tmp_path_factory) -> Workplace:
    build = Build(binaries.parent)
    assert build.shim.exists(), f"needs {build.shim}: ninja fault_shim"
    return Workplace(build, tmp_path_factory.mktemp("faults") / "place")


def check(cases: Iterable[Case]) -> None:
    """All must pass but for what tests/faults/known.py lists, which pytest's summary shows."""
    tried = list(cases)
    assert tried
    for case in tried:
        if case.problem and reason_of(case):
            warnings.warn(f"not met yet, {reason_of(case)}: {case.name}: {case.problem}", stacklevel=2)
    failed = [case for case in tried if case.problem and reason_of(case) is None]
    assert not failed, "\n".join(f"{case.name}: {case.problem}" for case in failed)


def test_killed_runs_end_the_same(place: Workplace) -> None:
    check(kills.cases(place, 6, SEED))


@pytest.mark.parametrize("name", NAMES)
def test_failing_calls_end_with_one_line(name: str, place: Workplace) -> None:
    check(writes.cases(place, 4, (name,)))


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_of_the_saves_can_be_taken_up(name: str, place: Workplace) -> None:
    check(prefixes.cases(place, 4, (name,)))


def test_damaged_files_are_noticed(place: Workplace) -> None:
    check(damage.cases(place, 15, 1, SEED))


def test_what_is_not_finite_is_not_saved(place: Workplace) -> None:
    check(poison.cases(place))


@pytest.mark.parametrize("action", ["exit_before", "errno:5"])
def test_an_earlier_basis_is_put_back_or_kept(place: Workplace, tmp_path: Path, action: str) -> None:
    """At each call that changes files from the keeping on: no sidecar stands beside another matrix."""
    folder = tmp_path / "basis"
    for seed in (1, 2):
        np.save(tmp_path / f"{seed}.npy", np.random.default_rng(seed).normal(size=(35, 90)).astype(np.float32))

    def fit(seed: int, number: int = 10**6) -> Ended:
        words = ("pca", f"--snapshots={tmp_path / f'{seed}.npy'}", f"--output={folder / 'p.npy'}", "--overwrite")
        return execute(place.build, Command(words, folder), Fault(action, number))

    def held() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    folder.mkdir()
    pairs = []
    for seed in (1, 2):
        calls = fit(seed).calls
        pairs.append(held())
    first = next(call.number for call in calls if "dimred_old" in call.path)
    last = calls[-1].number
    assert any(call.kind == "sync" and call.path.endswith("p.npy.tmp") for call in calls if call.number < first)
    assert fit(1).code == 0 and held() == pairs[0] and last - first > 8
    for number in range(first, last + 1):
        ended, left = fit(2, number), held()
        assert ended.hit, number
        if ended.killed:  # a second kill loses no more
            ended, left = fit(2, number), held()
        pair = {name: left[name] for name in pairs[0] if name in left}
        kept = any(
            all(left.get(f"{name}.dimred_old.tmp") == content for name, content in earlier.items()) for earlier in pairs
        )
        assert pair in pairs or (ended.killed and "p.json" not in left and kept), number
        assert ended.killed or (left == pairs[0] if ended.code else pair == pairs[1]), number
        assert fit(1).code == 0 and held() == pairs[0], number


# The harness itself: what it must not overlook.


@pytest.fixture
def finished(place: Workplace) -> Iterable[Path]:
    place.reference("stage1")
    folder = damage.copied(place, "stage1")
    yield folder
    place.remove(folder)


def test_a_changed_run_is_seen(place: Workplace, finished: Path) -> None:
    expected = place.reference("stage1").content
    assert compare.differences(expected, compare.content(finished)) == []
    newest = compare.states(finished)[-1]
    changes = {
        newest / "weights.f32": newest.name,
        newest / "state.json": newest.name,
        compare.snapshots(finished)[0]: compare.snapshots(finished)[0].name,
        finished / "curve.csv": "curve.csv",
        finished / "config.toml": "config.toml",
    }
    for file, name in changes.items():
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b'"step": 12', b'"step": 13').replace(b"2", b"3"))
        if file.suffix == ".json":
            file.write_bytes(whole.replace(b'"step": 12', b'"step": 13'))
        assert compare.differences(expected, compare.content(finished)) == [name]
        file.write_bytes(whole)


def test_a_damaged_table_is_compared_too(place: Workplace, finished: Path) -> None:
    text = (finished / "curve.csv").read_bytes()
    (finished / "curve.csv").write_bytes(text.replace(b"seconds", b"s\xe9conds", 1))
    assert compare.differences(place.reference("stage1").content, compare.content(finished)) == ["curve.csv"]
    (finished / "curve.csv").write_bytes(text[:-30])
    assert compare.progress(finished) == 12  # of the newest snapshot


def test_what_is_incomplete_or_left_over_is_seen(place: Workplace, finished: Path) -> None:
    everything = place.reference("stage1").everything
    assert compare.incomplete(everything, finished) == []
    (compare.states(finished)[0] / "weights.f32").unlink()
    assert compare.incomplete(everything, finished) == [compare.states(finished)[0].name]
    (finished / "manifest.json.tmp").touch()
    assert compare.leftovers(finished) == ["manifest.json.tmp"]


def test_lost_work_is_measured(place: Workplace, finished: Path) -> None:
    for state in compare.states(finished):
        place.remove(state)
    assert compare.progress(finished) == 12
    case = Case("kills", "stage1")
    ended = Ended(-9, "", [], 1.0, killed=True)
    assert "3.00 save intervals" in kills.after_kill(place, "stage1", finished, ended, case)
    assert "resumed at step None" in kills.resume_problem(8, Ended(0, "", [], 1.0))


def test_an_unnoticed_failure_is_seen(place: Workplace) -> None:
    unnoticed = Ended(0, "", [], 1.0, calls=[Call(1, "sync", "curve.csv", hit=True)])
    assert "unnoticed" in writes.error_problem(place, "stage1", unnoticed)
    crashed = Ended(-11, "", [], 1.0)
    assert "signal 11" in writes.error_problem(place, "stage1", crashed)
    wordy = Ended(1, "", ["dimred: error: a", "terminate called"], 1.0)
    assert "2 lines" in writes.error_problem(place, "stage1", wordy)


FAKE_RANKS = """#!/bin/bash
echo $$ > "$FAKE_FOLDER/$RANK"
[ "$RANK" = 1 ] && sleep 30
while [ ! -s "$FAKE_FOLDER/1" ] || kill -0 "$(cat "$FAKE_FOLDER/1")" 2>/dev/null; do sleep 0.05; done
sleep 0.5
echo "$RANK of $WORLD_SIZE: rank 1 is gone $*" >&2
exit 1
"""


def test_the_notice_of_a_dead_rank_is_measured(tmp_path: Path, monkeypatch) -> None:
    """Three ranks of a script: two of them end by themselves half a second behind the one that is killed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dimred").write_text(FAKE_RANKS)
    (tmp_path / "bin" / "dimred").chmod(0o755)
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    running = Running(Build(tmp_path), Command(("stage1",), tmp_path, ranks=3))
    running.sleep(0.5)
    running.kill([1])
    ended = running.wait()
    assert ended.killed and ended.code == 1
    assert 0.4 < ended.notice < 5
    assert ended.errors == [f"{rank} of 3: rank 1 is gone stage1 {' '.join(TIMEOUTS)}" for rank in (0, 2)]


def test_plans_repeat_with_their_seed(place: Workplace) -> None:
    reference = place.reference("stage1")
    plans = [[kills.draw_plan(reference, 3, generator(seed, 1)) for _ in range(3)] for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
