"""Facts about a trajectory that follow from its n x n Gram matrix alone: spectrum, random walk, path and prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.linalg


def random_walk_ratio(snapshots: int, count: int | None = None) -> np.ndarray:
    """Returns the explained variance ratio [count] of a random walk with n snapshots in high dimension.

    It is proportional to 1 / (2 (1 - cos(pi j / n))), j = 1..n-1 (Antognini and Sohl-Dickstein 2018).
    """
    values = 1 / (2 * (1 - np.cos(np.pi * np.arange(1, snapshots) / snapshots)))
    return (values / values.sum())[:count]


def centred(gram: np.ndarray) -> np.ndarray:
    """Returns the Gram matrix of the snapshots about their mean, for any earlier centre."""
    return gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()


def eigenpairs(gram: np.ndarray, components: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the eigenvalues of the centred Gram matrix and their vectors: all n - 1 pairs, or the first `components`.

    The eigenvalues are sorted from the largest, and are never negative.
    """
    n = len(gram)
    smallest = 1 if components is None else max(1, n - components)
    values, vectors = scipy.linalg.eigh(centred(gram), subset_by_index=(smallest, n - 1))
    return np.clip(values[::-1], 0, None), vectors[:, ::-1]


def explained_variance_ratio(gram: np.ndarray) -> np.ndarray:
    """Returns the share of the variance in each of the n - 1 components."""
    values, _ = eigenpairs(gram)
    return values / values.sum()


def coordinates(gram: np.ndarray, components: int = 2) -> np.ndarray:
    """Returns the position [n x components] of each snapshot in the basis of the principal components.

    The sign of a component is arbitrary; the last snapshot's coordinates are never negative.
    """
    values, vectors = eigenpairs(gram, components)
    path = vectors * np.sqrt(values)
    return path * np.where(path[-1] < 0, -1, 1)


def inside(gram: np.ndarray, known: int, components: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns how much of each snapshot from `known` to `end` - 1 lies in the basis of the first `known` snapshots.

    The two results are from_mean and from_last of leave_last_out. One decomposition serves all snapshots.
    """
    values, vectors = eigenpairs(gram[:known, :known], components)
    vectors = vectors / np.sqrt(values)  # P = vectors' Wc
    head, cross, last = gram[:known, :known], gram[:known, known:end], known - 1
    squares = np.diag(gram)[known:end]

    def shares(
        origin: np.ndarray, square: np.ndarray
    ) -> np.ndarray:  # origin: W w of the point that distances are from
        products = cross - origin[:, None]
        part = vectors.T @ (products - products.mean(axis=0))
        return (part**2).sum(axis=0) / square

    from_mean = shares(head.mean(axis=1), squares - 2 * cross.mean(axis=0) + head.mean())
    return from_mean, shares(head[:, last], squares - 2 * gram[last, known:end] + gram[last, last])


def leave_last_out(
    gram: np.ndarray, components: int, ahead: int | None = None, most: int | None = None
) -> pd.DataFrame:
    """Tests whether the basis of snapshots 1..t contains snapshot t + j.

    Returns a table with one row per t (column `known`) and j (column `ahead`). The columns `from_mean` and `from_last`
    hold the share of the squared distance that lies inside the basis, measured from the mean of the known snapshots and
    from the last known one. `from_last` shows whether the rest of the way lies inside; for a random walk in high
    dimension it is 0.
    ahead: the largest j; None takes all later snapshots.
    most: the largest number of values of t, evenly spaced.

    t needs to be larger than `components`. Cost: an eigen-decomposition of a t x t matrix for each t.
    """
    snapshots = len(gram)
    counts = np.arange(components + 1, snapshots)
    if most is not None and len(counts) > most:
        counts = counts[np.linspace(0, len(counts) - 1, most).round().astype(int)]
    tables = []
    for known in counts.tolist():
        end = snapshots if ahead is None else min(snapshots, known + ahead)
        from_mean, from_last = inside(gram, known, components, end)
        tables.append(
            pd.DataFrame(
                {"known": known, "ahead": np.arange(1, end - known + 1), "from_mean": from_mean, "from_last": from_last}
            )
        )
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=["known", "ahead", "from_mean", "from_last"])
    )
