"""How torch's threads wait for one another."""

from __future__ import annotations

import os
from pathlib import Path

from dimred._core import openmp_spin_count

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def share_cores() -> bool:
    """Makes torch's waiting threads sleep soon, so that other programs can use the cores.

    An OpenMP thread that is done spins until all threads are done. If another program occupies one of the cores, a step
    can take many times as long. On an otherwise idle machine the difference is small.

    Call the function before torch is imported, because libgomp reads the environment when it is loaded. Processes
    started later inherit the setting. Returns False, and changes nothing, if libgomp is loaded already or if the
    environment already sets OMP_WAIT_POLICY or GOMP_SPINCOUNT.
    """
    loaded = "libgomp" in Path("/proc/self/maps").read_text()
    if loaded or any(name in os.environ for name in VARIABLES):
        return False
    os.environ["GOMP_SPINCOUNT"] = openmp_spin_count
    return True
