"""Dimension-reduce training: an exact PCA of weight snapshots, larger than memory if need be, and what records them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimred._basis import Basis
from dimred._core import version as __version__
from dimred._fit import fit
from dimred._recorder import SnapshotRecorder

if TYPE_CHECKING:
    from dimred._estimator import SnapshotPCA

__all__ = ["Basis", "SnapshotPCA", "SnapshotRecorder", "__version__", "fit"]


def __getattr__(name: str) -> Any:
    """SnapshotPCA, with which scikit-learn is imported."""
    if name != "SnapshotPCA":
        raise AttributeError(f"module 'dimred' has no attribute {name!r}")
    from dimred._estimator import SnapshotPCA

    return SnapshotPCA
