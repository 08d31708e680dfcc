"""How the threads of torch wait for one another."""

from __future__ import annotations

import os
from pathlib import Path

from dimred._core import openmp_spin_count

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def share_cores() -> bool:
    """Lets torch's threads sleep soon when they wait for one another, beside other programs.

    Threads of OpenMP that are done spin until the others are. Where another program has one of the cores, a step then
    takes many times as long; on a machine of one's own the difference is small. Call it before torch is imported:
    libgomp reads its environment as it is loaded. Processes started later have the same. False where it is too late,
    or the environment names a policy (OMP_WAIT_POLICY, GOMP_SPINCOUNT) already; nothing was changed then.
    """
    loaded = "libgomp" in Path("/proc/self/maps").read_text()
    if loaded or any(name in os.environ for name in VARIABLES):
        return False
    os.environ["GOMP_SPINCOUNT"] = openmp_spin_count
    return True
