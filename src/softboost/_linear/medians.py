"""Weighted medians."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["medians"]

Array = NDArray[Any]
MAX_MEDIAN_ROWS = 2048
HALF = 0.5 - 1e-12  # without rounding of the sums


def medians(values: Array, share: Array) -> Array:
    """Weighted median of each row of values; uses at most 2,048 evenly spaced columns."""
    if values.shape[1] > MAX_MEDIAN_ROWS:
        some = np.linspace(0, values.shape[1] - 1, MAX_MEDIAN_ROWS).astype(int)
        values, share = values[:, some], share[some] / share[some].sum()
    if share.min() == share.max():  # the same place in all rows, and no need to sort them
        place = int(np.argmax(np.cumsum(share) >= HALF))
        return np.partition(values, place, axis=1)[:, place]
    order = np.argsort(values, axis=1, kind="stable")
    below = np.cumsum(share[order], axis=1)
    places = np.argmax(below >= HALF, axis=1)
    rows = np.arange(len(values))
    return values[rows, order[rows, places]]
