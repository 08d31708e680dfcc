"""Means and paired differences with their uncertainty, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences, its confidence interval, and the two-sided p-value of no difference."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    p: float


RESOLUTION = 1e-6  # curve.csv has nine digits of a fraction; a single image of a million is as much


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Difference:
    """Returns Student's t interval of a mean, and its test against 0.

    The interval and p are nan if the spread is unknown: for n < 2, and if all values are equal within RESOLUTION. But p
    is 1 if all values are 0.
    """
    numbers = np.asarray(values, dtype=float)
    n = len(numbers)
    if n < 2:
        return Difference(n, float(numbers.mean()) if n else math.nan, *[math.nan] * 4)
    mean, sd = float(numbers.mean()), float(numbers.std(ddof=1))
    if sd <= RESOLUTION:
        return Difference(n, mean, 0.0, math.nan, math.nan, 1.0 if abs(mean) <= RESOLUTION else math.nan)
    from scipy.special import stdtr, stdtrit  # here: it takes longer to load than most of our commands take

    error = sd / math.sqrt(n)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    p = float(2 * stdtr(n - 1, -abs(mean / error)))
    return Difference(n, mean, sd, mean - half, mean + half, p)


def paired_difference(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> Difference:
    """Returns the difference first - second, pair by pair. A pair has the same seed in both lists."""
    if len(first) != len(second):
        raise ValueError(f"[dimred.runs] pairs need two lists of one length, received {len(first)} and {len(second)}")
    return mean_interval(np.asarray(first, dtype=float) - np.asarray(second, dtype=float), confidence)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Returns the p-values with Holm's step-down correction.

    The i-th smallest of m p-values is multiplied by m - i + 1; no result is smaller than the one before it, or larger
    than 1. A nan (no test was possible) stays nan and does not count as a test.
    """
    p = np.asarray(p_values, dtype=float)
    corrected = np.full(p.shape, np.nan)
    order = [i for i in np.argsort(p) if not np.isnan(p[i])]
    scaled = [(len(order) - rank) * p[i] for rank, i in enumerate(order)]
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled)) if order else []
    return corrected
