"""The relaxed lasso with outliers downweighted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .medians import medians
from .models import LinearModels
from .path import LinearPath

__all__ = ["fit_robust"]

Array = NDArray[Any]
MAX_ROBUST_ROWS = 5000
FAR_OFF = 4.0  # robust standard deviations of the residuals beyond which a row is an outlier


def fit_robust(X: Array, y: Array, weight: Array | None, relaxed: LinearPath, n_threads: int = 1) -> LinearPath:
    """The relaxed lasso with outliers downweighted.

    Without outliers, with several outputs, or with more than ``MAX_ROBUST_ROWS`` rows, which a few outliers hardly
    affect, it equals the relaxed lasso. The scale of the residuals is the smallest median absolute residual of all
    stages, corrected for degrees of freedom.
    """
    if len(y) > 1 or y.shape[1] > MAX_ROBUST_ROWS:
        return relaxed
    own = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    total, share = own.sum(), own / own.sum()
    residual = y[0] - relaxed.predict(X, n_threads)[:, 0]
    away = np.abs(residual - medians(residual, share)[:, None])
    n_coefficients = 1 + np.count_nonzero(relaxed.coefficients[:, 0], axis=1)
    freedom = 1 - 1.5 * n_coefficients / total  # a selected column uses more than one degree of freedom
    size = medians(away, share) / 0.6745 / np.maximum(freedom, 0.1)
    stage = int(np.argmin(size))
    if not away[stage].max() > FAR_OFF * size[stage] > 0:
        return relaxed
    own = own * np.minimum(1.0, 1.345 * size[stage] / np.maximum(away[stage], 1e-300)) ** 2
    return LinearModels(X, y, own.astype(X.dtype), n_threads).relaxed
