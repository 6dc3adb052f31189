"""Linear models: where boosted paths may start, and the first level of the self-choosing default.

Each model is a whole path of solutions (one per penalty), so that the choice out of fold can pick the penalty.
X (n_features, n_samples) is standardised; models come back as slopes on it and an intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kernels

__all__ = ["Anchor", "LinearPath", "Units", "find_anchor", "fit_linear_models"]

Array = NDArray[Any]
RIDGE_PENALTIES = np.logspace(-3, 4, 29)
N_LASSO_PENALTIES = 60
MAX_LASSO_COLUMNS = 256


@dataclass
class LinearPath:
    """Models of growing freedom, one per stage."""

    coefficients: Array  # (n_stages, n_outputs, n_features)
    intercepts: Array  # (n_stages, n_outputs)

    def predict(self, X: Array) -> Array:
        """Predictions of all stages at X (n_features, n_samples): shape (n_stages, n_outputs, n_samples)."""
        return self.coefficients @ X + self.intercepts[..., None]

    def stage(self, index: int) -> LinearPath:
        """The path of one stage only."""
        return LinearPath(self.coefficients[index : index + 1], self.intercepts[index : index + 1])


@dataclass(frozen=True)
class Units:
    """What standardising took away: ``x_own = x * spread + centre``, likewise for y (per output)."""

    centre: Array
    spread: Array
    y_centre: Array
    y_spread: Array


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
    error: float  # mean squared distance of y from the anchor, in standardised units
    n_alike: int  # columns in the same units

    def level(self, X: Array) -> Array:
        """y if it equals the anchor, shape (n_outputs, n_samples)."""
        return np.outer(self.slope, X[self.column]) + self.offset[:, None]

    def view(self, X: Array) -> Array:
        """The anchored view of X (n_features, n_samples)."""
        return X * self.scale[:, None] + np.outer(self.share, X[self.column]) + self.shift[:, None]

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


def find_anchor(X: Array, y: Array, weight: Array | None, units: Units) -> Anchor:
    """The column nearest to y in its own units, all outputs together."""
    X, y = X.astype(np.float64), y.astype(np.float64)
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    share = weight / weight.sum()
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
    column = int(np.flatnonzero(error <= error.min() * (1 + 1e-9))[0])
    alike = _in_the_same_units(X, column, units, share)
    scale = np.where(alike, units.spread, 1.0)
    part = np.where(alike, -units.spread[column], 0.0)
    shift = np.where(alike, units.centre - units.centre[column], 0.0)
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
        float(error[column]),
        int(alike.sum()),
    )


def _limited(ratio: Array) -> Array:
    """Ratios of units that are worlds apart, kept where their squares do not overflow."""
    return np.clip(ratio, -1e100, 1e100)


def _in_the_same_units(X: Array, column: int, units: Units, share: Array) -> Array:
    """Columns that move about one to one with the anchor: a regression slope on it between a half and two."""
    x = X[column] - X[column] @ share
    denominator = float(x**2 @ share)
    if denominator <= 0:
        return np.zeros(X.shape[0], dtype=bool)
    slope = (X @ (x * share)) / denominator * units.spread / units.spread[column]
    level = np.abs(units.centre - units.centre[column]) <= 4 * units.spread[column]
    alike = (slope > 0.5) & (slope < 2.0) & level
    alike[column] = False
    return alike


@dataclass(frozen=True)
class _Moments:
    """Centred Gram matrix and cross products of one fit, shared by all models."""

    mean_x: Array
    mean_y: Array
    X: Array  # centred, times the square root of the weights
    y: Array
    total: float


def _moments(X: Array, y: Array, weight: Array | None) -> _Moments:
    X, y = X.astype(np.float64), y.astype(np.float64)
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    total = float(weight.sum())
    mean_x, mean_y = X @ weight / total, y @ weight / total
    root = np.sqrt(weight)
    return _Moments(mean_x, mean_y, (X - mean_x[:, None]) * root, (y - mean_y[:, None]) * root, total)


def _with_intercepts(coefficients: Array, m: _Moments) -> LinearPath:
    return LinearPath(coefficients, m.mean_y - coefficients @ m.mean_x)


def fit_constant(m: _Moments) -> LinearPath:
    """The mean."""
    return _with_intercepts(np.zeros((1, len(m.mean_y), len(m.mean_x))), m)


def fit_ridge(m: _Moments) -> LinearPath:
    """Ridge regression for 29 penalties from one eigendecomposition of the smaller Gram matrix."""
    n_features, n_samples = m.X.shape
    if n_features <= n_samples:
        values, vectors = np.linalg.eigh(m.X @ m.X.T)
        cross = vectors.T @ (m.X @ m.y.T)
    else:
        values, left = np.linalg.eigh(m.X.T @ m.X)
        vectors, cross = m.X @ left, left.T @ m.y.T
    values = np.maximum(values, 0.0)
    shrunk = cross[None] / (values[None, :, None] + RIDGE_PENALTIES[::-1, None, None])
    return _with_intercepts((vectors @ shrunk).transpose(0, 2, 1), m)


def _lasso_coefficients(m: _Moments) -> tuple[Array, Array]:
    """Lasso paths (n_outputs, n_penalties, n_kept) on the columns kept, and those columns.

    Beyond 256 columns only those of largest correlation take part, so that time grows with the columns and not with
    their square.
    """
    cross = m.X @ m.y.T
    kept = np.arange(len(cross))
    if len(kept) > MAX_LASSO_COLUMNS:
        kept = np.sort(np.argsort(-np.abs(cross).max(axis=1), kind="stable")[:MAX_LASSO_COLUMNS])
    X = m.X[kept]
    gram = np.ascontiguousarray(X @ X.T)
    paths = []
    for o in range(m.y.shape[0]):
        largest = float(np.abs(cross[kept, o]).max(initial=0.0))
        penalties = largest * np.logspace(0, -3.5, N_LASSO_PENALTIES)
        paths.append(_kernels.lasso_path(gram, np.ascontiguousarray(cross[kept, o]), penalties))
    return np.stack(paths), kept


def _scatter(coefficients: Array, kept: Array, n_features: int) -> Array:
    """(n_outputs, n_stages, n_kept) to (n_stages, n_outputs, n_features)."""
    out = np.zeros((coefficients.shape[1], coefficients.shape[0], n_features))
    out[..., kept] = coefficients.transpose(1, 0, 2)
    return out


def fit_lasso_and_relaxed(m: _Moments) -> tuple[LinearPath, LinearPath]:
    """The lasso path, and least squares on each of its supports (frozen once a support passes half the rows)."""
    lasso, kept = _lasso_coefficients(m)
    X = m.X[kept]
    gram, cross = X @ X.T, X @ m.y.T
    relaxed = np.zeros_like(lasso)
    limit = m.total / 2
    for o in range(lasso.shape[0]):
        support: Array = np.zeros(len(kept), dtype=bool)
        for stage in range(lasso.shape[1]):
            now = lasso[o, stage] != 0
            if now.sum() > limit or (stage > 0 and np.array_equal(now, support)):
                relaxed[o, stage] = relaxed[o, stage - 1]
                continue
            support = now
            if support.any():
                block = gram[np.ix_(support, support)]
                block[np.diag_indices_from(block)] += 1e-5 * m.total
                relaxed[o, stage, support] = np.linalg.solve(block, cross[support, o])
    n_features = len(m.mean_x)
    return (
        _with_intercepts(_scatter(lasso, kept, n_features), m),
        _with_intercepts(_scatter(relaxed, kept, n_features), m),
    )


def fit_zero(m: _Moments) -> LinearPath:
    """Always zero: in the anchored view, persistence."""
    shape = (1, len(m.mean_y), len(m.mean_x))
    return LinearPath(np.zeros(shape), np.zeros(shape[:2]))


def fit_linear_models(X: Array, y: Array, weight: Array | None) -> dict[str, LinearPath]:
    """All linear models of the default's first level, by name."""
    m = _moments(X, y, weight)
    lasso, relaxed = fit_lasso_and_relaxed(m)
    return {
        "zero": fit_zero(m),
        "constant": fit_constant(m),
        "ridge": fit_ridge(m),
        "lasso": lasso,
        "relaxed": relaxed,
    }
