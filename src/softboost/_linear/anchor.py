"""Anchored models: the target and its lags as changes since an anchor column, usually the last value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.units import Units

from .path import LinearPath

__all__ = ["Anchor"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Anchor:
    """The column closest to y in its own units, usually the last value of a series, and the change since it.

    The anchored view replaces y, and all columns in the units of y, by their differences to the anchor; other columns
    stay as they are. A model of the anchored view shrinks towards persistence, while an ordinary model shrinks towards
    the mean. It also continues a trend, while an ordinary model returns to the training range.

    In standardised units, y equals the anchor if ``y = slope x[column] + offset``, and the view is
    ``view_i = scale_i x_i + share_i x[column] + shift_i``.
    """

    column: int
    slope: Array  # (n_outputs,)
    offset: Array  # (n_outputs,)
    scale: Array  # (n_features,)
    share: Array
    shift: Array
    error: float  # squared distance of y from the anchor, relative to the variance of y
    n_alike: int  # columns in the same units

    @classmethod
    def of_column(
        cls,
        column: int,
        alike: Array,
        X: Array,
        share: Array,
        units: Units,
        *,
        slope: Array,
        offset: Array,
        error: float,
    ) -> Anchor:
        """The view whose columns have mean 0 and variance 1 on X (n_features, n_samples), rows weighted by ``share``.

        ``alike`` marks the columns in the units of the anchor; the view holds their differences to it.
        """
        unit = np.ldexp(1.0, np.frexp(units.spread[column])[1])  # a power of two: no overflow, no rounding
        with np.errstate(over="ignore", invalid="ignore"):  # in columns that are not alike
            scale = np.where(alike, units.spread / unit, 1.0)
            part = np.where(alike, -units.spread[column] / unit, 0.0)
            shift = np.where(alike, (units.centre - units.centre[column]) / unit, 0.0)
        view = X * scale[:, None] + np.outer(part, X[column]) + shift[:, None]
        mean = view @ share
        away = view - mean[:, None]
        largest = np.ldexp(1.0, np.frexp(np.abs(away).max(axis=1))[1] - 1)  # squares of distant cells would overflow
        largest = np.where(largest > 1.0, largest, 1.0)
        size = largest * np.sqrt(np.maximum((away / largest[:, None]) ** 2 @ share, 1e-30))
        size = np.where(size > 1e-9 * np.abs(scale), size, 1.0)  # a constant difference carries no information
        n_alike = int(alike.sum())
        return cls(column, slope, offset, scale / size, part / size, (shift - mean) / size, error, n_alike)

    def level(self, X: Array) -> Array:
        """The prediction of persistence, y = anchor, shape (n_outputs, n_samples)."""
        return np.outer(self.slope, X[self.column]) + self.offset[:, None]

    def view(self, X: Array) -> Array:
        """The anchored view of X (n_features, n_samples)."""
        return X * self.scale[:, None] + np.outer(self.share, X[self.column]) + self.shift[:, None]

    def origin(self, units: Units) -> Array:
        """The view, shape (n_features,), of a row in which all columns in the units of the anchor equal it."""
        distance = (units.centre - units.centre[self.column]) / units.spread
        return np.where(self.share != 0, self.shift - self.scale * distance, 0.0)

    def step(self, units: Units) -> Array:
        """Size of one unit of each column of the view in the units of the original X."""
        return units.spread / self.scale

    def unview(self, weights: Array) -> tuple[Array, Array]:
        """Convert weights (..., n_features) on the view into weights on X and a constant."""
        on_x = weights * self.scale
        on_x[..., self.column] += weights @ self.share
        return on_x, weights @ self.shift

    def unview_path(self, path: LinearPath) -> LinearPath:
        """Convert linear models of the change on the view into linear models of y on X."""
        coefficients, constant = self.unview(path.coefficients)
        coefficients[..., self.column] += self.slope
        return LinearPath(coefficients, path.intercepts + constant + self.offset)
