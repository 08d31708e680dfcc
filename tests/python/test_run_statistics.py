"""dimred.runs' mathematics: spectra and their null, angles between bases, paired differences, Holm's correction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import subspace_angles

from dimred.runs import (
    explained_variance_ratio,
    gram_matrix,
    holm,
    leave_last_out,
    paired_difference,
    principal_angles,
    random_walk_ratio,
)


def test_random_walk_null_has_the_published_shares() -> None:
    """Antognini and Sohl-Dickstein 2018, cumulative per cent at n = 40 and 101."""
    assert 100 * np.cumsum(random_walk_ratio(40))[[0, 1, 2, 7, 15]] == pytest.approx(
        [60.86, 76.10, 82.89, 93.17, 96.89], abs=0.05
    )
    assert 100 * np.cumsum(random_walk_ratio(101))[[0, 1, 31]] == pytest.approx([60.80, 76.01, 98.30], abs=0.05)
    assert random_walk_ratio(40).sum() == pytest.approx(1)


def test_a_random_walk_has_its_null_spectrum() -> None:
    """20 steps in 40,000 dimensions: shares deviate by about 1 / sqrt(40,000)."""
    walk = np.random.default_rng(1).normal(size=(20, 40_000)).cumsum(axis=0)
    assert explained_variance_ratio(gram_matrix(walk)) == pytest.approx(random_walk_ratio(20), rel=0.05)


def test_leave_last_out_is_what_the_basis_itself_says() -> None:
    """Against the projection in full, for every prefix; a random walk leaves its past's subspace."""
    weights = np.random.default_rng(2).normal(size=(9, 50)).cumsum(axis=0)
    table = leave_last_out(gram_matrix(weights), components=3)
    assert len(table) == sum(9 - known for known in range(4, 9))
    for line in table.itertuples():
        known = weights[: line.known]
        basis = np.linalg.svd(known - known.mean(axis=0), full_matrices=False)[2][:3]
        later = weights[line.known + line.ahead - 1]
        for origin, share in ((known.mean(axis=0), line.from_mean), (known[-1], line.from_last)):
            way = later - origin
            assert share == pytest.approx(np.sum((basis @ way) ** 2) / (way @ way), abs=1e-12)
    walk = np.random.default_rng(3).normal(size=(12, 20_000)).cumsum(axis=0)
    assert leave_last_out(gram_matrix(walk), components=4)["from_last"].max() < 0.01


def test_leave_last_out_of_some_counts_is_that_of_all() -> None:
    gram = gram_matrix(np.random.default_rng(3).normal(size=(24, 50)).cumsum(axis=0))
    every, some = leave_last_out(gram, 3), leave_last_out(gram, 3, most=5)
    assert list(some["known"].unique()) == [4, 9, 14, 18, 23]
    both = some.merge(every, on=["known", "ahead"])
    assert len(both) == len(some)
    assert both["from_last_x"].to_numpy() == pytest.approx(both["from_last_y"].to_numpy(), rel=1e-12)


def test_leave_last_out_of_a_plane_is_whole() -> None:
    weights = np.random.default_rng(4).normal(size=(8, 2)) @ np.random.default_rng(5).normal(size=(2, 100))
    assert leave_last_out(gram_matrix(weights), components=2)["from_mean"].to_numpy() == pytest.approx(1)


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 0.5, math.pi / 2 - 1e-9, math.pi / 2])
def test_principal_angles_are_exact_at_both_ends(angle: float) -> None:
    first = np.eye(2, 7)
    second = np.array([[0, math.cos(angle), math.sin(angle), 0, 0, 0, 0]])
    assert principal_angles(first, second) == pytest.approx([angle], rel=1e-7, abs=1e-12)


def test_principal_angles_agree_with_scipy() -> None:
    random = np.random.default_rng(6)
    first, second = (np.linalg.qr(random.normal(size=(60, k)))[0].T for k in (5, 3))
    expected = np.sort(subspace_angles(first.T, second.T))
    assert principal_angles(first, second) == pytest.approx(expected, rel=1e-9)
    assert principal_angles(second, first) == pytest.approx(expected, rel=1e-9)


def test_paired_difference_is_scipys() -> None:
    random = np.random.default_rng(7)
    first, second = random.normal(size=(2, 9))
    ours = paired_difference(first, second)
    theirs = stats.ttest_rel(first, second)
    interval = theirs.confidence_interval(0.95)
    assert (ours.n, ours.p) == (9, pytest.approx(theirs.pvalue))
    assert (ours.low, ours.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert ours.sd == pytest.approx(np.std(first - second, ddof=1))


def test_what_has_no_spread_has_no_test() -> None:
    assert math.isnan(paired_difference([1.0], [0.5]).p)
    assert paired_difference([1, 2], [1, 2]).p == 1
    assert math.isnan(paired_difference([0.41, 0.36], [0.39, 0.34]).p)
    for images, apart in ((300, 4), (3000, 1), (7000, 2), (60000, 1)):  # as curve.csv has them
        pairs = [(round((right + apart) / images, 9), round(right / images, 9)) for right in range(11, 26)]
        written = paired_difference(*zip(*pairs, strict=True))
        assert (written.sd, math.isnan(written.p)) == (0, True)
    one = paired_difference([0.9, 0.9, 0.9 + 1 / 60000], [0.9] * 3)  # one image of one seed is a spread
    assert one.p == pytest.approx(0.42265, rel=1e-3)
    assert math.isnan(paired_difference([], []).mean)
    with pytest.raises(ValueError, match="received 2 and 1"):
        paired_difference([1, 2], [1])


def test_holm_by_hand() -> None:
    """0.01 x 4, 0.02 x 3, 0.03 x 2 (not below the one before), 0.04; 1 at most; nan is no test."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert holm([0.01, math.nan, 0.02]) == pytest.approx([0.02, math.nan, 0.02], nan_ok=True)
    assert len(holm([])) == 0
