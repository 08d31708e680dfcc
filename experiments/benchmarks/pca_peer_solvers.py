"""PCA of an n x M .npy by a peer, as its users run it; timed from loading the file to saving P.

    python experiments/benchmarks/pca_peer_solvers.py sklearn_full W.npy 32 P.npy

Prints one line of JSON: seconds (imports left out) and the process's peak memory in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg
from sklearn.decomposition import PCA


def sklearn_full(snapshots: np.ndarray, components: int) -> np.ndarray:
    """Exact: LAPACK's gesdd of the centred matrix."""
    return PCA(n_components=components, svd_solver="full").fit(snapshots).components_


def sklearn_default(snapshots: np.ndarray, components: int) -> np.ndarray:
    """PCA(n_components) as it is: above 500 columns and below 0.8 n, a randomized solver."""
    return PCA(n_components=components, random_state=0).fit(snapshots).components_


def scipy_svd(snapshots: np.ndarray, components: int) -> np.ndarray:
    """MindSpore's way."""
    centred = snapshots - snapshots.mean(axis=0)
    return scipy.linalg.svd(centred, full_matrices=False)[2][:components]


SOLVERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "sklearn_full": sklearn_full,
    "sklearn_default": sklearn_default,
    "scipy_svd": scipy_svd,
}


def peak_memory() -> int:
    """VmHWM in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def main() -> None:
    """One fit."""
    solver, source, components, output = sys.argv[1:]
    start = time.perf_counter()
    np.save(output, SOLVERS[solver](np.load(source), int(components)))
    print(json.dumps({"seconds": time.perf_counter() - start, "memory": peak_memory()}))


if __name__ == "__main__":
    main()
