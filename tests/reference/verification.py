"""Verification of pairs as insightface and PLSC do it, in NumPy and scikit-learn, with their thresholds and folds.

Where scipy's interp1d(kind="slinear") would refuse false accept rates that repeat, which every step function has,
np.interp stands: the same line between the last threshold of the lower rate and the first of the higher.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.preprocessing import normalize


def rates(thresholds: np.ndarray, distances: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, ...]:
    """True positive rates, false positive rates and accuracies, one of each for each threshold."""
    accepted = distances[None, :] < thresholds[:, None]
    tp, fp = np.sum(accepted & same, 1), np.sum(accepted & ~same, 1)
    tn, fn = np.sum(~accepted & ~same, 1), np.sum(~accepted & same, 1)
    return tp / (tp + fn), fp / (fp + tn), (tp + tn) / distances.size


def verify(embeddings: np.ndarray, flipped: np.ndarray | None, same: np.ndarray) -> dict[str, Any]:
    """Verifies 2 n embeddings, of which 2 i and 2 i + 1 are a pair."""
    whole = [embeddings] if flipped is None else [embeddings, flipped]
    unit = normalize(sum(whole))
    distances = np.sum(np.square(unit[0::2] - unit[1::2]), 1)
    coarse, fine = np.arange(0, 4, 0.01), np.arange(0, 4, 0.001)
    folds, tprs, fprs = [], [], []
    for train, test in KFold(n_splits=10, shuffle=False).split(distances):
        best = coarse[np.argmax(rates(coarse, distances[train], same[train])[2])]
        fars = rates(fine, distances[train], same[train])[1]
        threshold = np.interp(1e-3, fars, fine) if fars.max() >= 1e-3 else 0.0
        tested = rates(np.array([best, threshold]), distances[test], same[test])
        folds.append([best, tested[2][0], threshold, tested[0][1], tested[1][1]])
        tpr, fpr, _ = rates(coarse, distances[test], same[test])
        tprs.append(tpr)
        fprs.append(fpr)
    by_fold = np.array(folds)
    return {
        "folds": by_fold,
        "tpr": np.mean(tprs, 0),
        "fpr": np.mean(fprs, 0),
        "accuracy": by_fold[:, 1].mean(),
        "accuracy_deviation": by_fold[:, 1].std(),
        "tar": by_fold[:, 3].mean(),
        "tar_deviation": by_fold[:, 3].std(),
        "far": by_fold[:, 4].mean(),
        "xnorm": np.mean([np.linalg.norm(row) for matrix in whole for row in matrix]),
    }
