"""Dimension-reduce training: an exact PCA of weight snapshots, larger than memory if need be, and what records them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dimred._basis import Basis
from dimred._core import version as __version__
from dimred._fit import fit
from dimred._minimize import Minimized, minimize
from dimred._readouts import Average, average, recalibrate_batchnorm
from dimred._recorder import SnapshotRecorder

if TYPE_CHECKING:
    from dimred import plot
    from dimred._estimator import SnapshotPCA
    from dimred._optimizer import SubspaceOptimizer

__all__ = ["Average", "Basis", "Minimized", "SnapshotPCA", "SnapshotRecorder", "SubspaceOptimizer", "__version__", "average", "fit", "minimize",
           "plot", "recalibrate_batchnorm"]  # fmt: skip
LATE = {"SnapshotPCA": "_estimator", "SubspaceOptimizer": "_optimizer"}  # which import scikit-learn or torch


def __getattr__(name: str) -> Any:
    if name == "plot":
        return importlib.import_module("dimred.plot")
    if name not in LATE:
        raise AttributeError(f"module 'dimred' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dimred.{LATE[name]}"), name)
