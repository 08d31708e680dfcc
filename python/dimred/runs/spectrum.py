"""Facts about a trajectory from the n x n Gram matrix alone: spectrum, null, path, and prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd


def random_walk_ratio(snapshots: int, count: int | None = None) -> np.ndarray:
    """Explained variance ratio [count] that a random walk of n snapshots has in high dimension:
    proportional to 1 / (2 (1 - cos(pi j / n))), j = 1..n-1 (Antognini and Sohl-Dickstein 2018)."""
    values = 1 / (2 * (1 - np.cos(np.pi * np.arange(1, snapshots) / snapshots)))
    return (values / values.sum())[:count]


def centred(gram: np.ndarray) -> np.ndarray:
    """G of snapshots about their mean, whatever they were about before."""
    return gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()


def eigenpairs(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues [n - 1] of the centred Gram matrix, largest first, not negative, and their vectors."""
    values, vectors = np.linalg.eigh(centred(gram))
    return np.clip(values[:0:-1], 0, None), vectors[:, :0:-1]


def explained_variance_ratio(gram: np.ndarray) -> np.ndarray:
    """Share of the variance in each of the n - 1 components."""
    values, _ = eigenpairs(gram)
    return values / values.sum()


def coordinates(gram: np.ndarray, components: int = 2) -> np.ndarray:
    """Where each snapshot lies [n x components] in the basis of the principal components, up to sign;
    the last snapshot's coordinates are not negative."""
    values, vectors = eigenpairs(gram)
    path = vectors[:, :components] * np.sqrt(values[:components])
    return path * np.where(path[-1] < 0, -1, 1)


def inside(gram: np.ndarray, known: int, components: int, later: int) -> tuple[float, float]:
    """How much of the later snapshot lies in the basis of the first `known`: see leave_last_out."""
    values, vectors = eigenpairs(gram[:known, :known])
    vectors = vectors[:, :components] / np.sqrt(values[:components])  # P = vectors' Wc
    head, cross = gram[:known, :known], gram[:known, later]

    def share(products: np.ndarray, square: float) -> float:  # products: W (w_later - origin)
        part = vectors.T @ (products - products.mean())
        return float(part @ part / square)

    from_mean = share(cross - head.mean(axis=1), gram[later, later] - 2 * cross.mean() + head.mean())
    last = known - 1
    step = gram[later, later] - 2 * gram[last, later] + gram[last, last]
    return from_mean, share(cross - head[:, last], step)


def leave_last_out(gram: np.ndarray, components: int, ahead: int | None = None) -> pd.DataFrame:
    """Does the basis of snapshots 1..t hold snapshot t + j? One line per t and j with the share of the
    squared distance inside the basis, measured from the mean of the known snapshots (`from_mean`) and
    from the last known one (`from_last`: is the way still to go inside?). A random walk in high
    dimension has from_last = 0. Needs t > components."""
    snapshots = len(gram)
    ahead = snapshots if ahead is None else ahead
    rows = [
        (known, later - known + 1, *inside(gram, known, components, later))
        for known in range(components + 1, snapshots)
        for later in range(known, min(snapshots, known + ahead))
    ]
    return pd.DataFrame(rows, columns=["known", "ahead", "from_mean", "from_last"])
