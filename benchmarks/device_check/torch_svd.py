"""PCA by torch.linalg.svd on the processor, where scikit-learn is not; timed from the file to the file.

    python torch_svd.py W.npy 32 P.npy      prints one line of JSON, as benchmarks/pca_peer_solvers.py does
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from snapshot_file import create, read


def main() -> None:
    """One fit."""
    source, components, output = sys.argv[1:]
    start = time.perf_counter()
    snapshots = read(Path(source))
    basis = torch.linalg.svd(snapshots - snapshots.mean(0), full_matrices=False)[2][: int(components)]
    create(Path(output), *basis.shape).copy_(basis)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
