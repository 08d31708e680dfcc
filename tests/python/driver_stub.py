"""A library in the place of NVIDIA's driver, for machines without one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
SOURCE = """
static int answer(void) { return CODE ? CODE : 100; }
int cuDriverGetVersion(int* version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { (void)flags; return CODE; }
int strcmp(const char*, const char*);
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long flags, void* status) {
  (void)version, (void)flags, (void)status;
  *function = (void*)answer;
  if (!strcmp(name, "cuGetProcAddress")) *function = (void*)cuGetProcAddress_v2;
  if (!strcmp(name, "cuDriverGetVersion")) *function = (void*)cuDriverGetVersion;
  if (!strcmp(name, "cuInit")) *function = (void*)cuInit;
  return 0;
}
"""

needs_a_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


def make(folder: Path, version: int, code: int) -> None:
    """libcuda.so.1 in the folder, for LD_LIBRARY_PATH: its version (13000 for CUDA 13.0), and what cuInit returns."""
    (folder / "driver.c").write_text(SOURCE)
    options = ["-w", "-shared", "-fPIC", f"-DVERSION={version}", f"-DCODE={code}"]
    subprocess.run(["cc", *options, "-o", "libcuda.so.1", "driver.c"], cwd=folder, check=True)
