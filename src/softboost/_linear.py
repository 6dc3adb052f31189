"""Linear models: where boosted paths may start, and the first level of the self-choosing default.

Each model is a whole path of solutions (one per penalty), so that the choice out of fold can pick the penalty.
X (n_features, n_samples) is standardised; models come back as slopes on it and an intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kernels

__all__ = ["Anchor", "LINEAR_MODELS", "LinearPath", "find_anchor"]

Array = NDArray[Any]
RIDGE_PENALTIES = np.logspace(-3, 4, 29)
N_LASSO_PENALTIES = 60
MAX_LASSO_COLUMNS = 256


@dataclass
class LinearPath:
    """Models of growing freedom: ``coefficients`` (n_stages, n_outputs, n_features), ``intercepts`` (n_stages, n_outputs)."""

    coefficients: Array
    intercepts: Array

    def predict(self, X: Array) -> Array:
        """Predictions of all stages at X (n_features, n_samples): shape (n_stages, n_outputs, n_samples)."""
        return self.coefficients @ X + self.intercepts[..., None]

    def stage(self, index: int) -> LinearPath:
        """The path of one stage only."""
        return LinearPath(self.coefficients[index : index + 1], self.intercepts[index : index + 1])


@dataclass(frozen=True)
class Anchor:
    """The column that comes nearest to y as it stands (the last value of a series, whichever column that is).

    In standardised units: ``y ~ slope * x[column] + offset`` is y = that column in its own units. ``scale``,
    ``share`` and ``shift`` (n_features,) describe the anchored view of X,
    ``view_i = scale_i x_i + share_i x[column] + shift_i``: columns in the same units as y become differences to the
    anchor, the others stay.
    """

    column: int
    slope: float
    offset: float
    scale: Array
    share: Array
    shift: Array

    def view(self, X: Array) -> Array:
        """The anchored view of X (n_features, n_samples)."""
        return X * self.scale[:, None] + np.outer(self.share, X[self.column]) + self.shift[:, None]

    def unview(self, weights: Array) -> tuple[Array, Array]:
        """Weights on X, and what they add as a constant, from weights (..., n_features) on the view."""
        on_x = weights * self.scale
        on_x[..., self.column] += weights @ self.share
        return on_x, weights @ self.shift


def find_anchor(X: Array, y: Array, weight: Array | None, centre: Array, spread: Array, y_centre: Array, y_spread: Array) -> list[Anchor]:
    """For each output, the column that is nearest to y in its own units; centre and spread undo the standardisation."""
    weight = np.ones(X.shape[1]) if weight is None else weight
    total = weight.sum()
    raw_mean = X @ weight / total * spread + centre
    anchors = []
    for o in range(y.shape[0]):
        y_raw = y[o] * y_spread[o] + y_centre[o]
        # mean (y - x_j)^2 for all columns without forming the differences
        mean_y = y_raw @ weight / total
        cross = (X * spread[:, None]) @ (weight * (y_raw - mean_y)) / total
        variance_x = ((X * spread[:, None]) ** 2) @ weight / total - (raw_mean - centre) ** 2
        error = ((y_raw - mean_y) ** 2) @ weight / total + variance_x - 2 * cross + (raw_mean - mean_y) ** 2
        column = int(np.flatnonzero(error <= error.min() * (1 + 1e-9) + 1e-300)[0])
        slope = float(spread[column] / y_spread[o])
        offset = float((centre[column] - y_centre[o]) / y_spread[o])
        alike = _in_the_same_units(X, column, centre, spread, weight)
        scale = np.where(alike, spread, 1.0)
        share = np.where(alike, -spread[column], 0.0)
        shift = np.where(alike, centre - centre[column], 0.0)
        size = np.sqrt(np.maximum(((X * scale[:, None] + np.outer(share, X[column]) + shift[:, None]) ** 2) @ weight / total, 1e-24))
        scale, share, shift = scale / size, share / size, shift / size
        scale[column], share[column], shift[column] = 1.0, 0.0, 0.0
        anchors.append(Anchor(column, slope, offset, scale, share, shift))
    return anchors


def _in_the_same_units(X: Array, column: int, centre: Array, spread: Array, weight: Array) -> Array:
    """Columns that move about one to one with the anchor: a regression slope on it between a half and two."""
    x = X[column] - X[column] @ weight / weight.sum()
    denominator = float(x**2 @ weight)
    if denominator <= 0:
        return np.zeros(X.shape[0], dtype=bool)
    slope = (X @ (x * weight)) / denominator * spread / spread[column]
    level = np.abs(centre - centre[column]) <= 4 * spread[column]
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


def fit_copy(anchors: list[Anchor], n_features: int) -> LinearPath:
    """y equals its anchor: persistence, without being told which column is the last value."""
    coefficients = np.zeros((1, len(anchors), n_features))
    for o, anchor in enumerate(anchors):
        coefficients[0, o, anchor.column] = anchor.slope
    return LinearPath(coefficients, np.array([[anchor.offset for anchor in anchors]]))


def fit_anchored_ridge(X: Array, y: Array, weight: Array | None, anchors: list[Anchor]) -> LinearPath:
    """Ridge regression of the change since the anchor on differences to it: shrinks to persistence, not to the mean."""
    coefficients, intercepts = [], []
    for o, anchor in enumerate(anchors):
        change = (y[o] - anchor.slope * X[anchor.column] - anchor.offset)[None]
        path = fit_ridge(_moments(anchor.view(X), change, weight))
        on_x, constant = anchor.unview(path.coefficients[:, 0])
        on_x[:, anchor.column] += anchor.slope
        coefficients.append(on_x)
        intercepts.append(path.intercepts[:, 0] + constant + anchor.offset)
    return LinearPath(np.stack(coefficients, axis=1), np.stack(intercepts, axis=1))


def fit_linear_models(X: Array, y: Array, weight: Array | None, anchors: list[Anchor]) -> dict[str, LinearPath]:
    """All linear models of the default's first level, by name."""
    m = _moments(X, y, weight)
    lasso, relaxed = fit_lasso_and_relaxed(m)
    return {
        "constant": fit_constant(m),
        "copy": fit_copy(anchors, X.shape[0]),
        "ridge": fit_ridge(m),
        "lasso": lasso,
        "relaxed": relaxed,
        "anchored": fit_anchored_ridge(X, y, weight, anchors),
    }


LINEAR_MODELS: tuple[str, ...] = ("constant", "copy", "ridge", "lasso", "relaxed", "anchored")
