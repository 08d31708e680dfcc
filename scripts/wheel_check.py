"""What an installed wheel of dimred has to do, in an environment with NumPy alone, or with torch imported before or
after it.

python scripts/wheel_check.py no|before|after
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

torch_comes = sys.argv[1]
if torch_comes == "before":
    import torch
begin = time.perf_counter()
import dimred  # noqa: E402

dimred.fit  # noqa: B018  its modules are imported here
imported = time.perf_counter() - begin
if torch_comes == "after":
    import torch


def fitted() -> None:
    """Components against NumPy's SVD, through a file and the command."""
    rows = np.random.default_rng(1).normal(size=(12, 3000)).astype(np.float32)
    exact = np.linalg.svd(rows - rows.mean(axis=0, dtype=np.float64), full_matrices=False)[2][:5]
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", rows)
        command = Path(sys.prefix, "bin", "dimred")
        if command.exists():
            subprocess.run(
                [
                    command,
                    "pca",
                    "--snapshots",
                    f"{folder}/rows.npy",
                    "--components",
                    "5",
                    "--output",
                    f"{folder}/pca_mat.npy",
                ],
                check=True,
                capture_output=True,
            )
            by_command = dimred.Basis.load(f"{folder}/pca_mat.npy").components
            assert np.abs(np.abs(by_command @ exact.T) - np.eye(5)).max() < 1e-5
        by_fit = dimred.fit(f"{folder}/rows.npy", 5, progress=False).components
        assert np.abs(np.abs(by_fit @ exact.T) - np.eye(5)).max() < 1e-5
        weights = {"w": np.zeros(4, np.float32)}
        with dimred.SnapshotRecorder(weights, f"{folder}/w", every_steps=1, rank=0) as recorder:
            for _ in range(4):
                weights["w"] += 1
                recorder.step()
        assert dimred.average(f"{folder}/w").w.tolist() == [2.5] * 4


def searched() -> None:
    """A quadratic in its own basis, and one of torch."""
    target = np.arange(1.0, 7.0)
    basis = dimred.Basis(np.eye(6, dtype=np.float32), None, None)
    done = dimred.minimize(lambda w: (float(((w - target) ** 2).sum() / 2), w - target), np.zeros(6), basis, steps=30)
    assert np.abs(done.w - target).max() < 1e-6
    if torch_comes == "no":
        assert "torch" not in sys.modules
        return
    model = torch.nn.Linear(6, 1, bias=False)
    optimizer = dimred.SubspaceOptimizer(model, basis)
    x = torch.randn(64, 6)
    losses = [float(optimizer.step(lambda: (model(x) - x.sum(1, keepdim=True)).square().mean())) for _ in range(40)]
    assert losses[-1] < 1e-3 * losses[0]


for name in dimred.__all__:
    if name not in ("SnapshotPCA", "SubspaceOptimizer", "runs"):
        getattr(dimred, name)
assert Path(dimred.__file__).with_name("runs").is_dir()
fitted()
searched()
versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}" + (
    f", torch {torch.__version__}" if torch_comes != "no" else ""
)
print(f"dimred {dimred.__version__} ({versions}): all checks passed; import dimred took {imported:.3f} s in addition")
