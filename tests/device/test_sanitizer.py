"""compute-sanitizer over the shortest test of each kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from programs import BIN, environment

OURS = ("--kernel-name", "kns=project_tiles", "--kernel-name", "kns=advance_columns")
# Each tensor gets memory of its own, whose end the tool knows; a graph's memory has to come from torch's pool.
OWN_MEMORY = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
CASES = {
    "fused kernels, memory": ("memcheck", OURS, "stage2_test", "DeviceKernels.Fused*", OWN_MEMORY),
    "aten": ("memcheck", (), "stage2_test", "DeviceKernels.AtenOnce", OWN_MEMORY),
    "graphs": ("memcheck", (), "engine_test", "DeviceGraphs.GraphsOfOnePoolKeepTheirOwnResults", {}),
    "fused kernels, shared memory": ("racecheck", OURS, "stage2_test", "DeviceKernels.Fused*", OWN_MEMORY),
}
FOUND = 99  # exit code of a program in which the tool found an error


def sanitizer() -> str:
    """The program. Skips the test where there is none."""
    found = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if not found:
        pytest.skip("compute-sanitizer is not here")
    return found


@pytest.mark.parametrize("case", CASES)
def test_finds_nothing(case: str, cuda: str, tmp_path: Path) -> None:
    tool, kernels, program, tests, variables = CASES[case]
    log = tmp_path / "log"
    command = [
        sanitizer(),
        "--tool",
        tool,
        f"--error-exitcode={FOUND}",
        f"--log-file={log}",
        *kernels,
        str(BIN / program),
        f"--gtest_filter={tests}",
    ]
    print("$", *command, flush=True)
    done = subprocess.run(command, env=environment() | variables, capture_output=True, text=True, check=False)
    said = log.read_text(errors="replace") if log.is_file() else ""
    print(done.stdout, done.stderr, said, f"exit code {done.returncode}", sep="\n", flush=True)
    if "Device not supported" in said + done.stdout:
        pytest.skip("compute-sanitizer does not support this device")
    assert done.returncode == 0, (said or done.stdout or done.stderr).strip().splitlines()[-1]
    assert "[  PASSED  ]" in done.stdout
    assert "[  SKIPPED ]" not in done.stdout
