"""Constant, ridge, lasso and relaxed lasso from one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .lasso import fit_lasso_and_relaxed
from .path import LinearPath, Moments, through_means
from .ridge import fit_ridge, fit_wide_ridge

__all__ = ["LinearModels", "fit_linear_models"]

Array = NDArray[Any]
MAX_LASSO_COLUMNS = 256


@dataclass(frozen=True)
class LinearModels:
    """Linear models that share the moments of the rows, each a path of increasing complexity."""

    constant: LinearPath
    ridge: LinearPath
    lasso: LinearPath
    relaxed: LinearPath


def fit_linear_models(X: Array, y: Array, weight: Array | None, n_threads: int = 1) -> LinearModels:
    """All linear models that share the moments of X (n_features, n_samples) and y (n_outputs, n_samples).

    Beyond 256 columns the lasso uses only those of largest correlation, so that its time grows with the number of
    columns and not with its square.
    """
    n_features, n_samples = X.shape
    total = float(n_samples if weight is None else weight.sum(dtype=np.float64))
    if n_features <= n_samples:
        m = Moments(*_kernels.moments(X, y, weight, n_threads))
        ridge = fit_ridge(m)
        mean_x, mean_y, cross = m.mean_x, m.mean_y, m.cross
    else:
        ridge = fit_wide_ridge(X, y, weight, n_threads)
        w = np.ones(n_samples) if weight is None else weight.astype(np.float64)
        mean_x, mean_y = (X * w).sum(axis=1) / total, (y * w).sum(axis=1) / total
        cross = _kernels.linear_outputs(
            np.ascontiguousarray((y - mean_y[:, None]) * w), np.zeros(len(y)), np.ascontiguousarray(X.T), n_threads
        )
    kept = np.arange(n_features)
    if n_features > MAX_LASSO_COLUMNS:
        kept = np.sort(np.argsort(-np.abs(cross).max(axis=0), kind="stable")[:MAX_LASSO_COLUMNS])
    if n_features > n_samples:
        m = Moments(*_kernels.moments(np.ascontiguousarray(X[kept]), y, weight, n_threads))
    elif len(kept) < n_features:
        m = Moments(mean_x[kept], mean_y, np.ascontiguousarray(m.gram[np.ix_(kept, kept)]), m.cross[:, kept].copy())
    paths = []
    for coefficients in fit_lasso_and_relaxed(m, total):
        on_all = np.zeros((*coefficients.shape[:2], n_features))
        on_all[..., kept] = coefficients
        paths.append(through_means(on_all, mean_x, mean_y))
    constant = through_means(np.zeros((1, len(mean_y), n_features)), mean_x, mean_y)
    return LinearModels(constant, ridge, *paths)
