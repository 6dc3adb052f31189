"""The lasso, and the relaxed lasso: least squares on the supports that the lasso selects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .path import Moments

__all__ = ["fit_lasso_and_relaxed"]

Array = NDArray[Any]
N_LASSO_PENALTIES = 60


def fit_lasso_and_relaxed(m: Moments, total: float) -> tuple[Array, Array]:
    """The lasso path and the relaxed lasso, least squares on each support of the path.

    The relaxed path stops changing once a support has more columns than half the rows. Both are coefficients of shape
    (n_stages, n_outputs, n_features).
    """
    paths = []
    for cross in m.cross:
        penalties = float(np.abs(cross).max(initial=0.0)) * np.logspace(0, -3.5, N_LASSO_PENALTIES)
        lasso = _kernels.lasso_path(m.gram, cross, penalties)
        paths.append((lasso, _kernels.relaxed_path(m.gram, cross, lasso, total / 2, 1e-5 * total)))
    lasso, relaxed = (np.stack(coefficients, axis=1) for coefficients in zip(*paths, strict=True))
    return lasso, relaxed
