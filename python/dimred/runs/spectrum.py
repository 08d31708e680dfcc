"""Facts about a trajectory from the n x n Gram matrix alone: spectrum, null, path, and prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.linalg


def random_walk_ratio(snapshots: int, count: int | None = None) -> np.ndarray:
    """Explained variance ratio [count] that a random walk of n snapshots has in high dimension:
    proportional to 1 / (2 (1 - cos(pi j / n))), j = 1..n-1 (Antognini and Sohl-Dickstein 2018)."""
    values = 1 / (2 * (1 - np.cos(np.pi * np.arange(1, snapshots) / snapshots)))
    return (values / values.sum())[:count]


def centred(gram: np.ndarray) -> np.ndarray:
    """G of snapshots about their mean, whatever they were about before."""
    return gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()


def eigenpairs(gram: np.ndarray, components: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the centred Gram matrix, largest first, not negative, and their vectors: all n - 1, or
    `components`."""
    n = len(gram)
    smallest = 1 if components is None else max(1, n - components)
    values, vectors = scipy.linalg.eigh(centred(gram), subset_by_index=(smallest, n - 1))
    return np.clip(values[::-1], 0, None), vectors[:, ::-1]


def explained_variance_ratio(gram: np.ndarray) -> np.ndarray:
    """Share of the variance in each of the n - 1 components."""
    values, _ = eigenpairs(gram)
    return values / values.sum()


def coordinates(gram: np.ndarray, components: int = 2) -> np.ndarray:
    """Where each snapshot lies [n x components] in the basis of the principal components, up to sign;
    the last snapshot's coordinates are not negative."""
    values, vectors = eigenpairs(gram, components)
    path = vectors * np.sqrt(values)
    return path * np.where(path[-1] < 0, -1, 1)


def inside(gram: np.ndarray, known: int, components: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """How much of each of the snapshots known..end - 1 lies in the basis of the first `known`: from_mean and from_last
    of leave_last_out, one decomposition for all of them."""
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
    """Does the basis of snapshots 1..t hold snapshot t + j? One line per t and j with the share of the
    squared distance inside the basis, measured from the mean of the known snapshots (`from_mean`) and
    from the last known one (`from_last`: is the way still to go inside?). A random walk in high
    dimension has from_last = 0. Needs t > components. Cost: an eigen-decomposition of a t x t matrix for
    each t; `most`: the largest number of values of t, evenly spaced."""
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
