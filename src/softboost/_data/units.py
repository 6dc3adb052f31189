"""The units of standardised columns and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

__all__ = ["Units"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Units:
    """What standardising took away: ``x_own = x * spread + centre``, likewise for y (per output).

    Where there are limits, in standardised units, a column's values beyond them count as the limit in prediction.
    """

    centre: Array
    spread: Array
    y_centre: Array
    y_spread: Array
    low: Array | None = None
    high: Array | None = None

    def within(self, z: Array) -> Array:
        """Standardised rows (n_samples, n_columns) inside the limits, missing values at zero."""
        low = -_kernels.FARTHEST if self.low is None else self.low
        high = _kernels.FARTHEST if self.high is None else self.high
        return np.where(np.isnan(z), 0.0, np.clip(z, low, high)).astype(z.dtype)
