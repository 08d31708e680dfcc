"""The parts of the check for GPU machines: figures and bars, limits of time, what is skipped and what fails."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "benchmarks"))
from device_check import part_agreement, part_algebra, part_tests, report, torch_libraries  # noqa: E402
from device_check.check import Check, in_turns  # noqa: E402
from device_check.figures import Figure, at_least, at_most, ratios  # noqa: E402
from device_check.peers import Peers  # noqa: E402
from device_check.place import Place  # noqa: E402
from device_check.processes import Failed, Stopped, call  # noqa: E402
from device_check.runner import Part, run_part  # noqa: E402
from device_check.sizes import TINY  # noqa: E402


def test_a_bar_is_held_against_the_median() -> None:
    figure = Figure("f", [0.8, 0.9, 5.0], "x", at_least(0.85))
    assert figure.reached(True) and figure.reached(False) is None
    assert not Figure("f", [0.8, 0.84, 5.0], bar=at_least(0.85)).reached(True)
    assert Figure("f", [1.45], bar=at_most(1.45)).reached(True)
    assert not Figure("f", [math.nan], bar=at_most(1)).reached(True)
    assert Figure("f", [1.0]).reached(True) is None
    assert figure.text() == "0.9 x (0.8 to 5)"


def test_a_lower_bound_reaches_a_bar_or_decides_nothing() -> None:
    assert Figure("f", [41.0], bar=at_least(40), is_lower_bound=True).reached(True)
    assert Figure("f", [39.0], "x", at_least(40), is_lower_bound=True).reached(True) is None
    assert Figure("f", [1.0], bar=at_most(2), is_lower_bound=True).reached(True) is None
    assert Figure("f", [39.0], "x", is_lower_bound=True).text() == "at least 39 x"


def test_ratios_are_within_a_round() -> None:
    rounds = [{"a": 2.0, "b": 1.0}, {"a": 9.0, "b": 3.0}, {"a": 1.0}]
    assert ratios(rounds, "a", "b") == [2.0, 3.0]


def test_turns_rotate() -> None:
    assert [in_turns("abc", turn) for turn in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_json_has_null_for_what_is_not_a_number() -> None:
    assert json.dumps(report.finite({"a": [1.0, math.nan], "b": {"c": math.inf}})) == '{"a": [1.0, null], "b": {"c": null}}'


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Of a build without programs."""
    place = Place(tmp_path, False, tmp_path / "bin", tmp_path, environment=dict(os.environ))
    return Check(place, TINY, "cpu", tmp_path, Peers("cpu"))


def test_a_part_that_fails_leaves_its_figures_and_does_not_stop_the_others(check: Check) -> None:
    def fails(check: Check) -> None:
        check.add(Figure("first", [1.0]))
        check.leave_out("second", "of a reason")
        raise ValueError("what nobody thought of")

    result = run_part(Part("one", fails, 10), check, time.monotonic() + 10)
    assert (result.outcome, result.why) == ("failed", "ValueError: what nobody thought of")
    assert [figure.name for figure in result.figures] == ["first"] and len(result.left_out) == 1
    after = run_part(Part("two", lambda check: check.add(Figure("other", [1.0])), 10), check, time.monotonic() + 10)
    assert after.outcome == "done" and [figure.name for figure in after.figures] == ["other"] and not after.left_out
    assert [figure.name for figure in result.figures] == ["first"]


def test_a_part_without_its_program_is_skipped_and_one_without_time_is_not_begun(check: Check) -> None:
    result = run_part(Part("one", lambda check: check.run("device_algebra") and None, 10), check, time.monotonic() + 10)
    assert (result.outcome, result.why) == ("skipped", "this build has no device_algebra")

    def never(check: Check) -> None:
        raise AssertionError

    assert run_part(Part("two", never, 100, least=20), check, time.monotonic() + 10).why == "no time was left"


def test_a_part_that_measures_nothing_is_not_done(check: Check) -> None:
    result = run_part(Part("one", lambda check: None, 10), check, time.monotonic() + 10)
    assert (result.outcome, result.why) == ("skipped", "it found nothing to measure")


def program_of_tests(folder: Path, outcome: str) -> None:
    """A program of the stage2 room that has one test of this outcome."""
    told = {"testsuites": [{"name": "Device", "testsuite": [{"name": "Test", "status": "RUN", "result": outcome}]}]}
    program = folder / "stage2_test"
    folder.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\nfor word; do case $word in *json:*) echo '{json.dumps(told)}' >\"${{word#*json:}}\";; esac; done\n")
    program.chmod(0o755)


def test_device_tests_need_programs_and_on_a_device_they_need_to_run(check: Check) -> None:
    def result() -> tuple[str, str]:
        found = run_part(Part("tests", part_tests.device_tests, 10), check, time.monotonic() + 10)
        return found.outcome, found.why

    assert result() == ("skipped", "this build has no tests that need a device")
    program_of_tests(check.place.programs, "SKIPPED")
    assert result() == ("done", "")
    check.device = "cuda"
    assert result() == ("failed", "all 1 tests that need a device skipped themselves on cuda")
    program_of_tests(check.place.programs, "COMPLETED")
    assert result() == ("done", "")
    assert [(f.name, f.values) for f in check.figures] == [("device tests that run", [1]), ("device tests that fail", [0])]


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"(sleep 2; touch {mark}) & sleep 60"
    start = time.monotonic()
    with pytest.raises(Stopped, match="^sh -c was not done after 0 s$"):
        call(["sh", "-c", script], os.environ, 0.3)
    assert time.monotonic() - start < 2
    time.sleep(2.2)
    assert not mark.exists()


def test_a_program_that_fails_is_named_with_its_last_line() -> None:
    with pytest.raises(Failed, match="^sh -c ended with 3: second$"):
        call(["sh", "-c", "echo first >&2; echo second >&2; exit 3"], os.environ, 10)
    with pytest.raises(Failed, match="^cannot start /nowhere/at/all: No such file"):
        call(["/nowhere/at/all"], os.environ, 10)


def test_rounds_end_where_the_next_would_not_fit(check: Check) -> None:
    check.deadline = time.monotonic() + 0.5
    check.sizes = SimpleNamespace(rounds=3)  # type: ignore[assignment]

    def slow(turn: int) -> dict[str, float]:
        time.sleep(0.3)
        return {"turn": turn}

    assert check.rounds(slow) == [{"turn": 0}]
    assert check.left_out == [{"what": "rounds 2 to 3", "why": "no time was left"}]


SERVER = """
import json, sys, time
for line in sys.stdin:
    what = json.loads(line)["what"]
    if what == "die":
        print("its last words", file=sys.stderr, flush=True)
        sys.exit(1)
    if what == "sleep":
        time.sleep(60)
    print(json.dumps({"error": "of a kind"} if what == "err" else {"seconds": 1.5}), flush=True)
"""


def test_a_peer_that_dies_or_hangs_is_named_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with Peers("cpu", tmp_path / "server.py") as peers:
        with pytest.raises(Failed, match="^PyTorch's process ended in die: its last words$"):
            peers.ask("die", 20)
        assert peers.seconds_of("count", 20) == 1.5
        first = peers.process
        with pytest.raises(Failed, match="^PyTorch's err: of a kind$"):
            peers.ask("err", 20)
        assert peers.process is first
        with pytest.raises(Stopped, match="^PyTorch's sleep was not done after 0 s$"):
            peers.ask("sleep", 0.2)
        assert first and first.poll() is not None
        assert peers.seconds_of("count", 20) == 1.5


def test_a_kernels_part_of_the_bandwidth_is_by_the_bytes_that_both_move(check: Check) -> None:
    turns = {"dtype": "Float", "project": [0.5, 1.0], "project_bytes": 90, "advance": [1.0, 1.0], "advance_bytes": 120,
             "copy": [1.0, 1.0], "copy_bytes": 200}  # fmt: skip
    part_algebra.of_stage2(check, turns)
    project, advance, step = check.figures
    assert project.values == [0.9, 0.45] and project.bar and advance.values == [0.6, 0.6]
    assert step.values == [1500.0, 2000.0] and check.shared["algebra"] == [1.5, 2.0]
    passes = {"gram_streamed": [2.0], "gram_kept": [0.5], "components_kept": [1.0], "gram_bytes": 100, "host_copy": [1.0],
              "host_copy_bytes": 100, "copy": [1.0], "copy_bytes": 200}  # fmt: skip
    part_algebra.of_pca(check, passes)
    assert [figure.values for figure in check.figures[3:]] == [[0.5], [1.0], [0.5]]


def test_noise_is_three_standard_errors_of_the_seeds_or_of_the_test_set() -> None:
    close = [{"processor": 90.0, "device": 90.0}] * 2
    drawn = 100 * math.sqrt(2 * 0.9 * 0.1 / 10_000)
    assert part_agreement.noise(close, 10_000) == pytest.approx(3 * drawn / math.sqrt(2))
    wide = [{"processor": 90.0, "device": 90.0 + d} for d in (-2.0, 2.0)]
    assert part_agreement.noise(wide, 10_000) == pytest.approx(3 * math.sqrt(8) / math.sqrt(2))


def test_differences_are_relative() -> None:
    assert part_agreement.differences([2.0, 4.0], [2.0, 4.002]) == [0.0, pytest.approx(5e-4)]


@pytest.mark.parametrize(("change", "says"), [
    ({"torch": "2.99.0"}, "needs torch 2.99.0 for CUDA 13.0, "),
    ({"cuda": "99.0"}, "for CUDA 99.0, "),
    ({"glibc": "99.1"}, "needs glibc 99.1 or later, this system has "),
])  # fmt: skip
def test_another_torch_or_system_is_refused(change: dict[str, str], says: str) -> None:
    folder = torch_libraries.torch_folder()
    version, cuda = torch_libraries.torch_version(folder)
    fits = {"torch": version, "cuda": cuda, "glibc": "2.17", "glibcxx": "3.4.9"}
    torch_libraries.require_fit(fits, folder)
    with pytest.raises(torch_libraries.Unfit, match=says):
        torch_libraries.require_fit(fits | change, folder)


def test_versions_compare_by_their_numbers() -> None:
    assert torch_libraries.version_of("3.4.30") > torch_libraries.version_of("3.4.9")
    assert torch_libraries.version_of(torch_libraries.newest_glibcxx()) > (3, 4)
