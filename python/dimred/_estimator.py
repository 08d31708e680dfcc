"""The PCA of snapshots as an estimator of scikit-learn."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"[dimred.SnapshotPCA] needs scikit-learn >= 1.6: pip install scikit-learn ({error})") from None

import dimred
from dimred._basis import coordinates_of, rows_of

Numbers = NDArray[np.float64]
FLOATS = [np.float32, np.float64]


class SnapshotPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """dimred.fit behind scikit-learn's interface, for data with few samples and very many features.

    n_components: k. A float in (0, 1) takes the fewest components that explain more than this part of the variance.
        None takes min(n_samples - 1, n_features); the samples then need to be linearly independent after centring.
    threads: 0 takes all cores of this process.

    The differences from sklearn.decomposition.PCA: the components are float32, and the largest entry of each is
    positive; mean_ is float64; k <= n_samples - 1, because the mean takes one direction; whitening does not exist.
    """

    def __init__(self, n_components: float | None = None, *, threads: int = 0) -> None:
        self.n_components = n_components
        self.threads = threads

    # The rows that partial_fit has seen. scikit-learn keeps __init__ for parameters, so it is not set there.
    _seen: tuple[NDArray[Any], ...] = ()

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fits the rows X [n_samples, n_features]."""
        rows: NDArray[Any] = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        self._seen = ()
        return self._fit(rows, self.n_components)

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Adds the rows X and fits all rows since the last fit(), exactly.

        The estimator keeps all these rows in memory: n_samples_ x n_features values. While few rows are known,
        n_components is at most n_samples_ - 1. Cost: each call costs as much as a fit of all the rows.
        """
        first = not self._seen
        X = validate_data(self, X, dtype=FLOATS, reset=first, ensure_min_samples=2 if first else 1)
        self._seen = (*self._seen, np.array(X))
        rows = np.concatenate(self._seen)
        most = min(len(rows) - 1, rows.shape[1])
        counted = isinstance(self.n_components, (int, np.integer)) and self.n_components > 0
        return self._fit(rows, min(self.n_components, most) if counted else self.n_components)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Returns the coordinates [n_samples, k] of the centred rows, in the type of X."""
        X = self._validated(X)
        return coordinates_of(self.components_, X, self.mean_).astype(X.dtype)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Returns the rows [n_samples, n_features] for coordinates X [n_samples, k], in the type of X."""
        check_is_fitted(self)
        coordinates = np.asarray(X)
        dtype = coordinates.dtype if coordinates.dtype in FLOATS else np.float64
        return rows_of(self.components_, coordinates.astype(np.float64), self.mean_, dtype)

    def score_samples(self, X: ArrayLike) -> Numbers:
        """Returns the log-likelihood [n_samples] of each row under probabilistic PCA (Tipping & Bishop, 1999).

        Cost: O(k n_features) for each row. Raises ValueError if the components leave no variance for the noise, that
        is, if noise_variance_ is 0 and there are fewer components than features.
        """
        X = self._validated(X)
        rows = X.astype(np.float64) - self.mean_
        inner, noise, spare = self._inner("score")
        inside = rows @ self._directions().T
        features = self.mean_.size
        log_determinant = np.linalg.slogdet(inner)[1] + np.log(spare).sum() + features * math.log(noise)
        solved = np.linalg.solve(inner, inside.T).T
        squares = (rows**2).sum(axis=1) / noise - (inside * solved).sum(axis=1) / noise**2
        return np.asarray(-0.5 * (features * math.log(2 * math.pi) + log_determinant + squares))

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Returns the mean of score_samples(X)."""
        return float(self.score_samples(X).mean())

    def get_covariance(self) -> Numbers:
        """Returns the model's covariance [n_features, n_features] in float64. Few features fit in memory."""
        check_is_fitted(self)
        components = self.components_.astype(np.float64)
        spare = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (components.T * spare) @ components
        covariance.flat[:: len(covariance) + 1] += self.noise_variance_
        return np.asarray(covariance)

    def get_precision(self) -> Numbers:
        """Returns the inverse of get_covariance()."""
        check_is_fitted(self)
        if self.noise_variance_ == 0:
            return np.asarray(np.linalg.inv(self.get_covariance()))
        inner, noise, _ = self._inner("get_precision")
        directions = self._directions()
        precision = -(directions.T @ np.linalg.solve(inner, directions)) / noise**2
        precision.flat[:: len(precision) + 1] += 1 / noise
        return precision

    def _fit(self, X: NDArray[Any], wanted: float | None) -> Self:
        n_samples, n_features = X.shape
        most = min(n_samples - 1, n_features)
        wanted = most if wanted is None else wanted
        part = isinstance(wanted, (float, np.floating)) and 0 < wanted < 1
        if not part and not (isinstance(wanted, (int, np.integer)) and 1 <= wanted <= most):
            raise ValueError(
                f"n_components={wanted!r} must be an integer between 1 and min(n_samples - 1, n_features)={most}, or a "
                "float between 0 and 1"
            )
        basis = dimred.fit(X, wanted, threads=self.threads, progress=False)
        self.components_ = np.asarray(basis.components)
        self.mean_: Numbers = np.asarray(basis.mean)  # a fit of kind pca has one
        self.singular_values_ = basis.singular_values
        self.explained_variance_ = basis.singular_values**2 / (n_samples - 1)
        self.explained_variance_ratio_ = basis.explained_variance_ratio
        self.random_walk_ratio_ = basis.random_walk_ratio
        self.n_components_ = len(self.components_)
        self.n_samples_ = n_samples
        self.noise_variance_ = self._left_over(min(n_samples, n_features) - self.n_components_)
        return self

    def _left_over(self, directions: int) -> float:
        """The mean variance of the directions that are no components; the last of n is 0, as scikit-learn counts it."""
        kept, first = self.explained_variance_ratio_.sum(), self.explained_variance_ratio_[0]
        if directions == 0 or first == 0:
            return 0.0
        rounding = 1e-12  # of the sum of the ratios
        return (
            float(self.explained_variance_[0] / first * max(0.0, 1 - kept) / directions) if kept < 1 - rounding else 0.0
        )

    def _directions(self) -> Numbers:
        """The components with more variance than the noise."""
        return np.asarray(self.components_[self.explained_variance_ > self.noise_variance_], np.float64)

    def _inner(self, method: str) -> tuple[Numbers, float, Numbers]:
        """K = C C' / noise + D^-1 of the covariance C' D C + noise I, whose inverse is I / noise - C' K^-1 C / noise^2;
        noise; D's diagonal."""
        features = self.mean_.size
        noise = self.noise_variance_
        if noise == 0 and self.n_components_ == features:
            noise = (
                float(self.explained_variance_.min()) / 2
            )  # all directions are components: any noise below them is the same model
        if noise == 0:
            raise ValueError(
                f"[SnapshotPCA.{method}] needs variance outside the components, received "
                f"n_components_={self.n_components_} with noise_variance_=0; fit fewer components"
            )
        directions = self._directions()
        spare = self.explained_variance_[self.explained_variance_ > self.noise_variance_] - noise
        return directions @ directions.T / noise + np.diag(1 / spare), noise, spare

    def _validated(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=FLOATS, reset=False))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
