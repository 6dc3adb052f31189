"""Ridge regression from the Gram matrix of the columns or, if there are more columns than rows, of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .path import LinearPath, Moments, through_means

__all__ = ["fit_ridge", "fit_wide_ridge", "ridge_from_rows"]

Array = NDArray[Any]
RIDGE_PENALTIES = np.logspace(-3, 4, 29)


def fit_ridge(m: Moments) -> LinearPath:
    """Ridge regression for 29 penalties."""
    slopes, _ = _kernels.ridge_path(m.gram, m.cross, np.ascontiguousarray(RIDGE_PENALTIES[::-1]))
    return through_means(slopes, m.mean_x, m.mean_y)


def fit_wide_ridge(X: Array, y: Array, weight: Array | None, n_threads: int) -> LinearPath:
    """Ridge regression with more columns than rows, through the Gram matrix of the rows, which is smaller."""
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    mean_x, mean_y = (X * weight).sum(axis=1) / weight.sum(), (y * weight).sum(axis=1) / weight.sum()
    root = np.sqrt(weight)
    X, y = (X - mean_x[:, None]) * root, (y - mean_y[:, None]) * root
    slopes, _ = ridge_from_rows(X, y, RIDGE_PENALTIES[::-1], n_threads)
    return through_means(slopes, mean_x, mean_y)


def ridge_from_rows(X: Array, y: Array, penalties: Array, n_threads: int) -> tuple[Array, Array]:
    """Ridge through the origin from the Gram matrix K of the rows, and the log determinants of K + penalty I."""
    rows = np.ascontiguousarray(X.T)
    _, _, gram, _ = _kernels.moments(rows, np.zeros((1, rows.shape[1])), None, n_threads, centred=False)
    duals, log_determinants = _kernels.ridge_path(gram, np.ascontiguousarray(y), np.ascontiguousarray(penalties))
    flat = duals.reshape(-1, len(gram))
    slopes = _kernels.linear_outputs(flat, np.zeros(len(flat)), rows, n_threads)
    return slopes.reshape(*duals.shape[:2], -1), log_determinants
