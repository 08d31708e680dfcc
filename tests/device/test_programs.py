"""The tests of the build that need a device, each room's program by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from programs import BIN, DEVICE_ROOMS, DEVICE_TESTS, run


@pytest.mark.parametrize("room", DEVICE_ROOMS)
def test_no_device_test_fails(room: str, device: torch.device, tmp_path: Path) -> None:
    if not (BIN / f"{room}_test").is_file():
        pytest.skip("this build has no such program")
    report = tmp_path / "tests.json"
    done = run(f"{room}_test", f"--gtest_filter={DEVICE_TESTS}", f"--gtest_output=json:{report}", fail=False, seconds=300)
    assert report.is_file(), done.output[-4000:]
    tests = [test for suite in json.loads(report.read_text())["testsuites"] for test in suite["testsuite"]]
    failed = [test["name"] for test in tests if test.get("failures")]
    assert not failed, done.output[-4000:]
    ran = [test for test in tests if test["result"] == "COMPLETED"]
    if tests and not ran:
        assert device.type == "cpu" or room == "distributed", "all tests skipped themselves"  # NCCL wants two devices
        pytest.skip(f"{len(tests)} tests found no device")
