"""The anchored view: a series, or a table whose target follows a column, seen as changes since that column."""

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
    """The column that comes nearest to y as it stands: the last value of a series, whichever column that is.

    The anchored view looks at changes: y minus the anchor, and columns in the same units as y minus the anchor (other
    columns stay). A model of that view shrinks to persistence where an ordinary one shrinks to the mean, and it
    carries on a trend where an ordinary one falls back.

    In standardised units ``y = slope x[column] + offset`` says that y equals the column, and
    ``view_i = scale_i x_i + share_i x[column] + shift_i``.
    """

    column: int
    slope: Array  # (n_outputs,)
    offset: Array  # (n_outputs,)
    scale: Array  # (n_features,)
    share: Array
    shift: Array
    error: float  # how far y is from the anchor, as a share of its variance
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

        ``alike`` marks the columns in the units of the anchor, which are seen as differences to it.
        """
        unit = np.ldexp(1.0, np.frexp(units.spread[column])[1])  # a power of two: no overflow, no rounding
        with np.errstate(over="ignore", invalid="ignore"):  # in columns that are not alike
            scale = np.where(alike, units.spread / unit, 1.0)
            part = np.where(alike, -units.spread[column] / unit, 0.0)
            shift = np.where(alike, (units.centre - units.centre[column]) / unit, 0.0)
        view = X * scale[:, None] + np.outer(part, X[column]) + shift[:, None]
        mean = view @ share
        size = np.sqrt(np.maximum((view - mean[:, None]) ** 2 @ share, 1e-30))
        size = np.where(size > 1e-9 * np.abs(scale), size, 1.0)  # a difference that is always the same is no signal
        n_alike = int(alike.sum())
        return cls(column, slope, offset, scale / size, part / size, (shift - mean) / size, error, n_alike)

    def level(self, X: Array) -> Array:
        """y if it equals the anchor, shape (n_outputs, n_samples)."""
        return np.outer(self.slope, X[self.column]) + self.offset[:, None]

    def view(self, X: Array) -> Array:
        """The anchored view of X (n_features, n_samples)."""
        return X * self.scale[:, None] + np.outer(self.share, X[self.column]) + self.shift[:, None]

    def origin(self, units: Units) -> Array:
        """The view, shape (n_features,), of a row whose columns in the units of the anchor all equal it."""
        distance = (units.centre - units.centre[self.column]) / units.spread
        return np.where(self.share != 0, self.shift - self.scale * distance, 0.0)

    def step(self, units: Units) -> Array:
        """What one unit of each column of the view is in the units that X came in."""
        return units.spread / self.scale

    def unview(self, weights: Array) -> tuple[Array, Array]:
        """Weights on X, and the constant they add, from weights (..., n_features) on the view."""
        on_x = weights * self.scale
        on_x[..., self.column] += weights @ self.share
        return on_x, weights @ self.shift

    def unview_path(self, path: LinearPath) -> LinearPath:
        """Linear models of y on X from linear models of its change on the view."""
        coefficients, constant = self.unview(path.coefficients)
        coefficients[..., self.column] += self.slope
        return LinearPath(coefficients, path.intercepts + constant + self.offset)
