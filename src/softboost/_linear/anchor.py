"""The anchored view: a series, or a table whose target follows a column, seen as changes since that column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.units import Units

from .medians import medians
from .path import LinearPath

__all__ = ["Anchor", "find_anchor"]

Array = NDArray[Any]
MAX_ANCHOR_ROWS = 2**15


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


def find_anchor(X: Array, y: Array, weight: Array | None, units: Units, lags: Array | None = None) -> Anchor:
    """The column nearest to y in its own units, all outputs together; of many rows, 32,768 evenly spread ones say.

    Nearest on average, not on average of squares: a few leaps of a series must not decide which column is its last
    value. Where ``lags`` tells how many rows back each column looks (0: not a lag), the anchor is lag 1, and all lags
    are in its units.
    """
    if X.shape[1] > MAX_ANCHOR_ROWS:
        rows = np.linspace(0, X.shape[1] - 1, MAX_ANCHOR_ROWS).astype(int)
        X, y, weight = X[:, rows], y[:, rows], None if weight is None else weight[rows]
    X, y = X.astype(np.float64), y.astype(np.float64)
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    share = weight / weight.sum()
    with np.errstate(over="ignore"):  # a y of subnormal numbers; what overflows is limited
        slope = _limited(units.spread[:, None] / units.y_spread)  # (n_features, n_outputs)
        offset = _limited((units.centre[:, None] - units.y_centre) / units.y_spread)
    # mean (y - slope x - offset)^2 for all columns from second moments, without forming the differences
    mean_x, mean_y = X @ share, y @ share
    gap = mean_y - slope * mean_x[:, None] - offset
    variance_x = (X - mean_x[:, None]) ** 2 @ share
    variance_y = (y - mean_y[:, None]) ** 2 @ share
    covariance = (X - mean_x[:, None]) * share @ (y - mean_y[:, None]).T
    error = (gap**2 + variance_y + slope**2 * variance_x[:, None] - 2 * slope * covariance).mean(axis=1)
    error = np.maximum(error, 1e-12 * variance_y.mean())  # a copy of y leaves only rounding
    if lags is None:
        near = np.sort(np.argsort(error, kind="stable")[:8])
        distance = np.abs(y - slope[near][:, :, None] * X[near][:, None] - offset[near][:, :, None])
        distance = distance.mean(axis=1) @ share
        column = int(near[np.flatnonzero(distance <= distance.min() * (1 + 1e-9))[0]])
    else:
        column = int(np.flatnonzero(lags == 1)[0])
    alike = _in_the_same_units(X, column, units, share)
    away = np.abs(y - slope[column][:, None] * X[column] - offset[column][:, None])
    if lags is not None:
        alike[np.flatnonzero(lags > 1)] = True
    unit = np.ldexp(1.0, np.frexp(units.spread[column])[1])  # a power of two, so that nothing overflows or is rounded
    with np.errstate(over="ignore", invalid="ignore"):  # in columns that are not alike
        scale = np.where(alike, units.spread / unit, 1.0)
        part = np.where(alike, -units.spread[column] / unit, 0.0)
        shift = np.where(alike, (units.centre - units.centre[column]) / unit, 0.0)
    view = X * scale[:, None] + np.outer(part, X[column]) + shift[:, None]
    mean = view @ share
    size = np.sqrt(np.maximum((view - mean[:, None]) ** 2 @ share, 1e-30))
    size = np.where(size > 1e-9 * np.abs(scale), size, 1.0)  # a difference that is always the same says nothing
    return Anchor(
        column,
        slope[column],
        offset[column],
        scale / size,
        part / size,
        (shift - mean) / size,
        min(float(error[column]), _typical_error(away, y, share)),
        int(alike.sum()),
    )


def _limited(ratio: Array) -> Array:
    """Ratios of units that are worlds apart, kept where their squares do not overflow."""
    return np.clip(ratio, -1e100, 1e100)


def _typical_error(away: Array, y: Array, share: Array) -> float:
    """The median distance of y from the anchor by that from its own median, squared.

    As large as the share of the variance where both are normal, and far smaller for a series that hardly moves between
    a few leaps, which are nearly all of its variance.
    """
    own = medians(np.abs(y - medians(y, share)[:, None]), share)
    return float(np.mean((medians(away, share) / own) ** 2)) if np.all(own > 0) else np.inf


def _in_the_same_units(X: Array, column: int, units: Units, share: Array) -> Array:
    """Columns that move about one to one with the anchor: a regression slope on it between a half and two.

    And those that are nearer to it, in the median, than it is to its own median: leaps do not decide.
    """
    x = X[column] - X[column] @ share
    denominator = float(x**2 @ share)
    if denominator <= 0:
        return np.zeros(X.shape[0], dtype=bool)
    slope = (X @ (x * share)) / denominator * units.spread / units.spread[column]
    level = np.abs(units.centre - units.centre[column]) <= 4 * units.spread[column]
    alike = (slope > 0.5) & (slope < 2.0) & level
    with np.errstate(over="ignore"):
        ratio, gap = units.spread / units.spread[column], (units.centre - units.centre[column]) / units.spread[column]
        away = medians(np.abs(X * ratio[:, None] + gap[:, None] - X[column]), share)
    own = medians(np.abs(X[[column]] - medians(X[[column]], share)[:, None]), share)[0]
    alike |= (away <= own) & (own > 0)
    alike[column] = False
    return alike
