"""The PCA of snapshots as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"[dimred.SnapshotPCA] needs scikit-learn >= 1.6: pip install scikit-learn ({error})") from None

import dimred


class SnapshotPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """dimred.fit behind scikit-learn's interface, for rows that are much longer than they are many.

    n_components: k; a float in (0, 1) takes the fewest components that explain more than this part of the variance; None takes
        min(n_samples - 1, n_features), which the rows then have to span.
    threads: 0 takes all cores of this process.

    As sklearn.decomposition.PCA but for these: components are float32 and their largest entry is positive; k <= n_samples - 1, as
    one direction goes with the mean; there is no whitening, and no noise model.
    """

    def __init__(self, n_components: float | None = None, *, threads: int = 0) -> None:
        self.n_components = n_components
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> SnapshotPCA:
        """X: [n_samples, n_features]."""
        X = validate_data(self, X, dtype=[np.float32, np.float64], ensure_min_samples=2)
        most = min(X.shape[0] - 1, X.shape[1])
        wanted = most if self.n_components is None else self.n_components
        part = isinstance(wanted, (float, np.floating)) and 0 < wanted < 1
        if not part and not (isinstance(wanted, (int, np.integer)) and 1 <= wanted <= most):
            raise ValueError(f"n_components={wanted!r} must be an integer between 1 and min(n_samples - 1, n_features)={most}, or a float "
                             "between 0 and 1")  # fmt: skip
        basis = dimred.fit(X, wanted, threads=self.threads, progress=False)
        self.components_ = np.asarray(basis.components)
        self.mean_ = basis.mean
        self.singular_values_ = basis.singular_values
        self.explained_variance_ = basis.singular_values**2 / (X.shape[0] - 1)
        self.explained_variance_ratio_ = basis.explained_variance_ratio
        self.random_walk_ratio_ = basis.random_walk_ratio
        self.n_components_ = len(self.components_)
        self.n_samples_ = X.shape[0]
        return self

    def transform(self, X: Any) -> Any:
        """Coordinates [n_samples, k] of the centred rows, in the type of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        components = self.components_.astype(np.float64)
        return ((X.astype(np.float64) - self.mean_) @ components.T).astype(X.dtype)

    def inverse_transform(self, X: Any) -> Any:
        """Rows [n_samples, n_features] of coordinates."""
        check_is_fitted(self)
        X = np.asarray(X)
        return X @ self.components_ + self.mean_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
