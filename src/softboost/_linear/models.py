"""Constant, ridge, lasso and relaxed lasso from one pass over the rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .lasso import fit_lasso_and_relaxed
from .path import LinearPath, Moments, through_means
from .ridge import fit_ridge, fit_wide_ridge

__all__ = ["LinearModels"]

Array = NDArray[Any]
MAX_LASSO_COLUMNS = 256


class LinearModels:
    """Linear models that share the moments of X (n_features, n_samples) and y (n_outputs, n_samples).

    Each is a path of increasing complexity, computed on first use. Beyond 256 columns the lasso uses only those of
    largest correlation, so that its time grows with the number of columns and not with its square.
    """

    def __init__(self, X: Array, y: Array, weight: Array | None, n_threads: int = 1) -> None:
        self._rows, self._n_threads = (X, y, weight), n_threads
        self._total = float(X.shape[1] if weight is None else weight.sum(dtype=np.float64))
        self._wide = X.shape[0] > X.shape[1]

    @cached_property
    def _moments(self) -> Moments:
        """Moments of all columns; if there are more columns than rows, without the Gram matrix."""
        X, y, weight = self._rows
        if not self._wide:
            return Moments(*_kernels.moments(X, y, weight, self._n_threads))
        w = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
        mean_x, mean_y = (X * w).sum(axis=1) / self._total, (y * w).sum(axis=1) / self._total
        centred = np.ascontiguousarray((y - mean_y[:, None]) * w)
        cross = _kernels.linear_outputs(centred, np.zeros(len(y)), np.ascontiguousarray(X.T), self._n_threads)
        return Moments(mean_x, mean_y, np.empty((0, 0)), cross)

    @cached_property
    def constant(self) -> LinearPath:
        m = self._moments
        return through_means(np.zeros((1, len(m.mean_y), len(m.mean_x))), m.mean_x, m.mean_y)

    @cached_property
    def ridge(self) -> LinearPath:
        return fit_wide_ridge(*self._rows, self._n_threads) if self._wide else fit_ridge(self._moments)

    @property
    def lasso(self) -> LinearPath:
        return self._lasso_and_relaxed[0]

    @property
    def relaxed(self) -> LinearPath:
        return self._lasso_and_relaxed[1]

    @cached_property
    def _lasso_and_relaxed(self) -> list[LinearPath]:
        X, y, weight = self._rows
        m = of_kept = self._moments
        n_features, kept = len(X), np.arange(len(X))
        if n_features > MAX_LASSO_COLUMNS:
            kept = np.sort(np.argsort(-np.abs(m.cross).max(axis=0), kind="stable")[:MAX_LASSO_COLUMNS])
        if self._wide:
            of_kept = Moments(*_kernels.moments(np.ascontiguousarray(X[kept]), y, weight, self._n_threads))
        elif len(kept) < n_features:
            gram = np.ascontiguousarray(m.gram[np.ix_(kept, kept)])
            of_kept = Moments(m.mean_x[kept], m.mean_y, gram, m.cross[:, kept].copy())
        paths = []
        for coefficients in fit_lasso_and_relaxed(of_kept, self._total):
            on_all = np.zeros((*coefficients.shape[:2], n_features))
            on_all[..., kept] = coefficients
            paths.append(through_means(on_all, m.mean_x, m.mean_y))
        return paths
