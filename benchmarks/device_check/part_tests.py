"""Tests of the build that need a device."""

from __future__ import annotations

import json

from .check import Check, Skipped
from .figures import Figure, at_most
from .processes import Failed

# Tests that need a device say so in their names, and are skipped without one.
FILTER = "*Cuda*:*Nccl*:Device*"
ROOMS = ("stage2", "pca", "stage1", "training", "models", "optimizers", "distributed")


def outcomes(check: Check, program: str) -> tuple[list[str], int, int]:
    """Names of failed tests, how many ran to their end, and how many were skipped."""
    path = check.folder("tests.json")
    done = check.run(program, f"--gtest_filter={FILTER}", f"--gtest_output=json:{path}", "--gtest_brief=1", fail=False)
    if not path.is_file():
        raise Failed(f"{program} ended without a result: {done.output.strip()[-200:]}")
    suites = json.loads(path.read_text())["testsuites"]
    path.unlink()
    failed, ran, skipped = [], 0, 0
    for suite in suites:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("result") == "SKIPPED":
                skipped += 1
            elif test.get("status") == "RUN":
                ran += 1
                failed += [name] if test.get("failures") else []
    return failed, ran, skipped


def device_tests(check: Check) -> None:
    """How many of them fail. Raises Skipped where this build has none, Failed where none runs on a device."""
    failed: list[str] = []
    ran = skipped = 0
    for program in (f"{room}_test" for room in ROOMS):
        if check.place.program(program):
            one_failed, one_ran, one_skipped = outcomes(check, program)
            failed, ran, skipped = failed + one_failed, ran + one_ran, skipped + one_skipped
    if not ran + skipped:
        raise Skipped("this build has no tests that need a device")
    if check.on_device and not ran:
        raise Failed(f"all {skipped} tests that need a device skipped themselves on {check.device}")
    if skipped:
        check.leave_out(f"{skipped} tests", "they found no device" if not check.on_device else "they skipped themselves")
    check.add(Figure("device tests that run", [ran], note=f"of {ran + skipped}"))
    if ran:
        note = f"failed: {', '.join(failed)}" if failed else f"of {ran} that ran"
        check.add(Figure("device tests that fail", [len(failed)], bar=at_most(0), note=note))
