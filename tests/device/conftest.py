"""Tests on a CUDA device: all are skipped, and counted, where there is none.

DIMRED_DEVICE=cuda:1 names another device; DIMRED_DEVICE=cpu runs what can run on a processor with tiny sizes, which
checks the tests themselves. DIMRED_RESULTS names a file that gets one JSON line a test when it ends. Need the standard
library and pytest.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "benchmarks" / "gpu"))
from programs import why_no_device

DEVICE = os.environ.get("DIMRED_DEVICE", "cuda")
NEEDS_CUDA = "needs a CUDA device"


@pytest.fixture(scope="session", autouse=True)
def device() -> str:
    """That the tests are of."""
    if DEVICE != "cpu" and (reason := why_no_device(DEVICE)):
        pytest.skip(f"{NEEDS_CUDA}: {reason}")
    return DEVICE


@pytest.fixture(scope="session")
def cuda(device: str) -> str:
    """The device, of tests that a processor cannot run."""
    if device == "cpu":
        pytest.skip(NEEDS_CUDA)
    return device


def reason_of(report: pytest.TestReport) -> str:
    """Why a test failed or was skipped, in one line."""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr or "")).partition("\n")[0]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes the result of a test's body, or of a setup or teardown that did not pass."""
    path = os.environ.get("DIMRED_RESULTS")
    if not path or (report.when != "call" and report.outcome == "passed"):
        return
    line = {
        "test": report.nodeid.rpartition("/")[2],
        "outcome": report.outcome,
        "seconds": report.duration,
        "why": reason_of(report),
    }
    with Path(path).open("a") as stream:
        stream.write(json.dumps(line) + "\n")
