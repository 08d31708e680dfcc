"""The build's tests that need a device, each room's program by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import NEEDS_CUDA
from programs import BIN, DEVICE_TESTS, run


def gtests_of(report: Path) -> list[dict[str, object]]:
    """The tests in gtest's JSON."""
    return [test for suite in json.loads(report.read_text())["testsuites"] for test in suite["testsuite"]]


@pytest.mark.parametrize("room", DEVICE_TESTS)
def test_no_device_test_fails(room: str, device: str, tmp_path: Path) -> None:
    if not (BIN / f"{room}_test").is_file():
        pytest.skip("this build has no such program")
    report = tmp_path / "tests.json"
    done = run(
        f"{room}_test", f"--gtest_filter={DEVICE_TESTS[room]}", f"--gtest_output=json:{report}", fail=False, seconds=60
    )
    assert report.is_file(), f"{room}_test ended with {done.code} and wrote no report"
    tests = gtests_of(report)
    failed = [test["name"] for test in tests if test.get("failures")]
    assert not failed
    assert done.code == 0
    assert tests, "no test has such a name"
    if all(test["result"] == "SKIPPED" for test in tests):
        assert device == "cpu", "all tests skipped themselves"
        pytest.skip(NEEDS_CUDA)
