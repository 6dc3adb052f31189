"""A test for drift in the errors of a model."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

__all__ = ["DRIFT_INFLATION", "DRIFT_ROWS", "GROWTH", "DriftTest"]

Array = NDArray[Any]
# the same for streams and for partial_fit
DRIFT_ROWS, DRIFT_INFLATION = 10, 16.0  # rows kept after a drift (earlier ones precede it); factor of the covariance
GROWTH = 1.2  # factor by which the number of rows grows between two refits while there are few rows


class DriftTest:
    """Detects when the mean error of the last 30 rows is far above that of the last 500."""

    def __init__(self) -> None:
        self.count = 0
        self.fast = self.slow = self.variance = 0.0

    def update(self, error: float) -> bool:
        error = min(abs(error), 5.0)
        self.count += 1
        self.fast += (error - self.fast) / min(self.count, 30)
        step, rate = error - self.slow, 1.0 / min(self.count, 500)
        self.slow += rate * step
        self.variance += rate * ((1.0 - rate) * step * step - self.variance)
        if self.count <= 100 or self.fast <= self.slow + 5.0 * math.sqrt(self.variance / 60.0):
            return False
        self.count, self.fast, self.slow, self.variance = 0, 0.0, 0.0, 0.0
        return True
