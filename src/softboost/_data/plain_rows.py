"""Rows that need neither conversion nor an error message, recognised quickly, for predictions of single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["plain_rows"]

Array = NDArray[Any]
FRAMES = ("pandas.", "polars.")  # first part of the module of their classes


def plain_rows(X: Any, n_features: int, names: Array | None) -> Array | None:
    """X as a matrix of floats if the complete checks would return the same, else None.

    An array must have n_features columns of floats without infinite values, and the model must have been fitted without
    column names. A frame must be of pandas or polars, convert to such an array in double precision, and have the same
    column names.
    """
    if type(X) is np.ndarray and names is not None:
        return None  # scikit-learn warns
    matrix = X if type(X) is np.ndarray else _of_frame(X, names)
    if matrix is None or matrix.ndim != 2 or matrix.shape[1] != n_features or not len(matrix):
        return None
    if matrix.dtype not in (np.float64, np.float32) or np.isinf(matrix).any():
        return None
    return np.ascontiguousarray(matrix)


def _of_frame(X: Any, names: Array | None) -> Array | None:
    """The values of a frame whose columns have these names and convert to double precision; else None."""
    if names is None or not type(X).__module__.startswith(FRAMES) or type(X).__name__ != "DataFrame":
        return None
    if list(X.columns) != names.tolist():
        return None
    matrix = X.to_numpy()
    return matrix if matrix.dtype == np.float64 else None
