"""Rows that occur more than once.

Hundreds of gradient steps amplify rounding. A row of weight 2 gives the model of the row twice only if both are the
same arrays, so repeated rows are merged first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct_rows"]

Array = NDArray[Any]


def distinct_rows(*columns: Array) -> tuple[Array, Array]:
    """Positions of the first of equal rows, in order, and for each row the number of the one that it equals.

    Parameters
    ----------
    *columns : ndarray of shape (n_columns, n_samples)
        Rows are equal if all columns are; NaN equals NaN.
    """
    rows = np.concatenate(columns).T + 0.0  # -0.0 becomes 0.0
    rows = np.ascontiguousarray(rows)
    _, first, number = np.unique(rows.view(f"V{rows[0].nbytes}").ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[number.ravel()]
