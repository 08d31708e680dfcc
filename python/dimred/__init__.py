"""Dimension-reduced training.

The package records snapshots of a network's weights, computes their exact PCA even where the snapshots are larger than
memory, and trains in the subspace of the components.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dimred import plot, runs
    from dimred._basis import Basis
    from dimred._convert import Converted, convert
    from dimred._core import version as __version__
    from dimred._cores import share_cores
    from dimred._diff import Difference, TensorDifference, diff
    from dimred._estimator import SnapshotPCA
    from dimred._fit import fit
    from dimred._inspect import InspectedTensor, Inspection, inspect
    from dimred._memory import keep_freed_memory
    from dimred._merge import Merged, merge
    from dimred._minimize import Minimized, minimize
    from dimred._optimizer import SubspaceOptimizer
    from dimred._readouts import Average, average, recalibrate_batchnorm
    from dimred._recorder import SnapshotRecorder
    from dimred._trajectory import Trajectory, trajectory

__all__ = [
    "Average",
    "Basis",
    "Converted",
    "Difference",
    "InspectedTensor",
    "Inspection",
    "Merged",
    "Minimized",
    "SnapshotPCA",
    "SnapshotRecorder",
    "SubspaceOptimizer",
    "TensorDifference",
    "Trajectory",
    "__version__",
    "average",
    "convert",
    "diff",
    "fit",
    "inspect",
    "keep_freed_memory",
    "merge",
    "minimize",
    "plot",
    "recalibrate_batchnorm",
    "runs",
    "share_cores",
    "trajectory",
]
# Imported at their first use: some need torch, scikit-learn, matplotlib or pandas, which not everyone has.
NEEDS = {"SnapshotPCA": "sklearn", "SubspaceOptimizer": "torch", "runs": "pandas"}
MODULES = {
    "Average": "_readouts",
    "Basis": "_basis",
    "Converted": "_convert",
    "Difference": "_diff",
    "InspectedTensor": "_inspect",
    "Inspection": "_inspect",
    "Merged": "_merge",
    "Minimized": "_minimize",
    "SnapshotPCA": "_estimator",
    "SnapshotRecorder": "_recorder",
    "SubspaceOptimizer": "_optimizer",
    "TensorDifference": "_diff",
    "Trajectory": "_trajectory",
    "average": "_readouts",
    "convert": "_convert",
    "diff": "_diff",
    "fit": "_fit",
    "inspect": "_inspect",
    "keep_freed_memory": "_memory",
    "merge": "_merge",
    "minimize": "_minimize",
    "recalibrate_batchnorm": "_readouts",
    "share_cores": "_cores",
    "trajectory": "_trajectory",
}


def __getattr__(name: str) -> Any:
    if name in ("plot", "runs"):
        return importlib.import_module(f"dimred.{name}")
    if name == "__version__":
        return importlib.import_module("dimred._core").version
    if name not in MODULES:
        raise AttributeError(f"module 'dimred' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dimred.{MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names whose library is there, so that help() and completion do not fail at the others."""
    return [name for name in __all__ if name not in NEEDS or find_spec(NEEDS[name]) is not None]
