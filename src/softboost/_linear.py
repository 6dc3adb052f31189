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

__all__ = [
    "Anchor",
    "LinearPath",
    "Units",
    "find_anchor",
    "fit_autoregression",
    "fit_linear_models",
    "fit_robust",
]

Array = NDArray[Any]
RIDGE_PENALTIES = np.logspace(-3, 4, 29)
N_LASSO_PENALTIES = 60
MAX_MEDIAN_ROWS = 2048
MAX_ROBUST_ROWS = 5000
FAR_OFF = 4.0  # standard deviations of the typical residual
MAX_LASSO_COLUMNS = 256
MAX_ANCHOR_ROWS = 2**15
STIFFNESS = np.logspace(4, -2, 31)  # of the autoregression, relative to columns of unit size


@dataclass
class LinearPath:
    """Models of growing freedom, one per stage."""

    coefficients: Array  # (n_stages, n_outputs, n_features)
    intercepts: Array  # (n_stages, n_outputs)

    def predict(self, X: Array, n_threads: int = 1) -> Array:
        """Predictions of all stages at X (n_features, n_samples): shape (n_stages, n_outputs, n_samples)."""
        flat = np.ascontiguousarray(self.coefficients.reshape(-1, self.coefficients.shape[2]))
        intercepts = np.ascontiguousarray(self.intercepts.ravel())
        out = _kernels.linear_outputs(flat, intercepts, np.ascontiguousarray(X), n_threads)
        return out.reshape(*self.intercepts.shape, -1)

    def stage(self, index: int) -> LinearPath:
        """The path of one stage only."""
        return LinearPath(self.coefficients[index : index + 1], self.intercepts[index : index + 1])


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
    own = _medians(np.abs(y - _medians(y, share)[:, None]), share)
    return float(np.mean((_medians(away, share) / own) ** 2)) if np.all(own > 0) else np.inf


def _medians(values: Array, share: Array) -> Array:
    """The least value of each row that, with those below it, has half of the weight; of many values, some say."""
    if values.shape[1] > MAX_MEDIAN_ROWS:
        some = np.linspace(0, values.shape[1] - 1, MAX_MEDIAN_ROWS).astype(int)
        values, share = values[:, some], share[some] / share[some].sum()
    order = np.argsort(values, axis=1, kind="stable")
    below = np.cumsum(share[order], axis=1)
    places = np.argmax(below >= 0.5 - 1e-12, axis=1)
    rows = np.arange(len(values))
    return values[rows, order[rows, places]]


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
        away = _medians(np.abs(X * ratio[:, None] + gap[:, None] - X[column]), share)
    own = _medians(np.abs(X[[column]] - _medians(X[[column]], share)[:, None]), share)[0]
    alike |= (away <= own) & (own > 0)
    alike[column] = False
    return alike


@dataclass(frozen=True)
class _Moments:
    """Means of one fit, and its centred Gram matrix (n_features, n_features) and cross products."""

    mean_x: Array
    mean_y: Array
    gram: Array
    cross: Array  # (n_outputs, n_features)


def _path(coefficients: Array, mean_x: Array, mean_y: Array) -> LinearPath:
    """Slopes with the intercepts that put the model through the means."""
    return LinearPath(coefficients, mean_y - (coefficients * mean_x).sum(axis=-1))


def fit_ridge(m: _Moments) -> LinearPath:
    """Ridge regression for 29 penalties."""
    slopes, _ = _kernels.ridge_path(m.gram, m.cross, np.ascontiguousarray(RIDGE_PENALTIES[::-1]))
    return _path(slopes, m.mean_x, m.mean_y)


def fit_wide_ridge(X: Array, y: Array, weight: Array | None, n_threads: int) -> LinearPath:
    """The same where columns outnumber rows: in the space of the rows, whose Gram matrix is the smaller one."""
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    mean_x, mean_y = (X * weight).sum(axis=1) / weight.sum(), (y * weight).sum(axis=1) / weight.sum()
    root = np.sqrt(weight)
    X, y = (X - mean_x[:, None]) * root, (y - mean_y[:, None]) * root
    slopes, _ = _ridge_from_rows(X, y, RIDGE_PENALTIES[::-1], n_threads)
    return _path(slopes, mean_x, mean_y)


def _ridge_from_rows(X: Array, y: Array, penalties: Array, n_threads: int) -> tuple[Array, Array]:
    """Ridge through the origin from the Gram matrix K of the rows, and the log determinants of K + penalty I."""
    rows = np.ascontiguousarray(X.T)
    _, _, gram, _ = _kernels.moments(rows, np.zeros((1, rows.shape[1])), None, n_threads, centred=False)
    duals, log_determinants = _kernels.ridge_path(gram, np.ascontiguousarray(y), np.ascontiguousarray(penalties))
    flat = duals.reshape(-1, len(gram))
    slopes = _kernels.linear_outputs(flat, np.zeros(len(flat)), rows, n_threads)
    return slopes.reshape(*duals.shape[:2], -1), log_determinants


@dataclass(frozen=True)
class _Stiffnesses:
    """Ridge regressions through the origin, one per stiffness: slopes (n_stages, n_columns) and log evidence."""

    slopes: Array
    evidence: Array  # against no model at all

    @classmethod
    def fit(cls, D: Array, t: Array, total: float, freedom: Array, n_threads: int) -> _Stiffnesses:
        """Of t (1, n_samples) on D (n_columns, n_samples), each column as stiff as its freedom is small."""
        D = np.ascontiguousarray(D * freedom[:, None])
        if D.shape[0] <= D.shape[1]:
            _, _, gram, cross = _kernels.moments(D, t, None, n_threads, centred=False)
            slopes, log_determinants = _kernels.ridge_path(gram, cross, np.ascontiguousarray(STIFFNESS))
        else:
            slopes, log_determinants = _ridge_from_rows(D, t, STIFFNESS, n_threads)
        everything = float((t**2).sum())
        left_over = everything - (slopes[:, 0] * (D * t).sum(axis=1)).sum(axis=1)
        left_over = np.maximum(left_over, 1e-12 * everything)
        narrowing = log_determinants - min(D.shape) * np.log(STIFFNESS)
        evidence = -0.5 * narrowing - 0.5 * total * np.log(left_over / everything)
        return cls(slopes[:, 0] * freedom, 0.5 * evidence)  # neighbours in time are alike: rows count for half

    def average(self) -> Array:
        """Slopes averaged by the evidence for each stiffness, half of the prior being on no model at all."""
        largest = max(float(self.evidence.max()), 0.0)
        likelihood = np.exp(self.evidence - largest) / len(self.evidence)
        return (likelihood[:, None] * self.slopes).sum(axis=0) / (likelihood.sum() + np.exp(-largest))


def _changes(V: Array) -> Array:
    """From each lag to the next, of differences V (n_lags - 1, n_samples) to lag 1 in the order of the lags."""
    return np.diff(V, axis=0, prepend=0.0)


def _on_changes(slopes: Array) -> Array:
    """Slopes (n_stages, n_lags - 1) on those differences, from slopes on their changes."""
    return -np.diff(slopes, axis=1, append=0.0)


def _means(V: Array) -> Array:
    """Of the lags up to each, lag 1 being zero."""
    return np.cumsum(V, axis=0) / np.arange(2.0, len(V) + 2)[:, None]


def _on_means(slopes: Array) -> Array:
    """Slopes on the differences, from slopes on their means."""
    return np.cumsum((slopes / np.arange(2.0, slopes.shape[1] + 2))[:, ::-1], axis=1)[:, ::-1]


def fit_autoregression(
    X: Array, y: Array, weight: Array | None, origin: Array, step: Array, lags: Array, n_threads: int = 1
) -> LinearPath:
    """The change of a series from its values before: ridge regression for all penalties at once, one stage.

    X (n_features, n_samples) and y (1, n_samples) are in the view of an anchor, whose ``origin`` is where nothing has
    changed, and there the model predicts no change; ``step`` is what one unit of a column is in those of the series.
    ``lags`` says how far back each column looks: lag 1, the anchor itself, takes no part.

    Each penalty counts by the evidence for it (the probability of y under the prior that the penalty stands for), half
    of the prior being on no model at all, so nothing is chosen and no rows are held out: that is what few rows are best
    used for. Ridge regression on other columns of the same span is another prior, and none of them suits all series. So
    it is run on the lags' differences to the last value, on the changes from each lag to the next, and on the means of
    the last values. The first half of the model is the one on differences, which is best where a season repeats; the
    second is the other two by the evidence, which go by the last few values and are less led astray where the season
    breaks off.
    """
    root = np.ones(X.shape[1]) if weight is None else np.sqrt(weight.astype(np.float64))
    Z = (X.astype(np.float64) - origin[:, None]) * root
    t = y.astype(np.float64) * root
    total, everything = float((root**2).sum()), float((t**2).sum())
    past = np.flatnonzero(lags > 1)
    past = past[np.argsort(lags[past], kind="stable")]
    others = np.flatnonzero(np.append(lags, np.zeros(len(Z) - len(lags))) == 0)
    if not everything > 0 or not len(past) + len(others):
        return LinearPath(np.zeros((1, 1, len(Z))), np.zeros((1, 1)))
    scale = step[past] / step[past].max(initial=0.0)
    V, far = Z[past] * scale[:, None], lags[past]
    near = np.append(1, far[:-1])[: len(far)]

    def regression(seen: Array, back: Callable[[Array], Array], distance: Array, own: float) -> _Stiffnesses:
        D = np.concatenate([seen, Z[others]])
        size = np.sqrt((D**2).sum(axis=1) / total)
        size = np.where(size > 1e-9, size, 1.0)
        signal = np.abs((D * t).sum(axis=1)) / (size * np.sqrt(everything))  # of each column by itself; 1 by chance
        freedom = (1 + own * signal) / np.sqrt(np.append(distance, np.ones(len(others))))
        freedom /= np.sqrt(np.mean(freedom**2)) * size
        fitted = _Stiffnesses.fit(D, t, total, freedom, n_threads)
        on_lags, on_others = fitted.slopes[:, : len(past)], fitted.slopes[:, len(past) :]
        return _Stiffnesses(np.concatenate([back(on_lags) * scale, on_others], axis=1), fitted.evidence)

    on_differences = regression(V, lambda slopes: slopes, far, 0.0)
    recent = [regression(_means(V), _on_means, far, 0.25)]
    if len(past):  # else there are other columns alone, which are the same in both
        recent.append(regression(_changes(V), _on_changes, near, 0.25))
    either = _Stiffnesses(
        np.concatenate([model.slopes for model in recent]), np.concatenate([model.evidence for model in recent])
    )
    slope = np.zeros(len(Z))
    slope[np.append(past, others)] = 0.5 * on_differences.average() + 0.5 * either.average()
    return LinearPath(slope[None, None], np.array([[-(slope * origin).sum()]]))


def fit_lasso_and_relaxed(m: _Moments, total: float) -> tuple[Array, Array]:
    """The lasso path, and least squares on each of its supports (frozen once a support passes half the rows).

    Both as coefficients (n_stages, n_outputs, n_features).
    """
    paths = []
    for cross in m.cross:
        penalties = float(np.abs(cross).max(initial=0.0)) * np.logspace(0, -3.5, N_LASSO_PENALTIES)
        lasso = _kernels.lasso_path(m.gram, cross, penalties)
        paths.append((lasso, _kernels.relaxed_path(m.gram, cross, lasso, total / 2, 1e-5 * total)))
    lasso, relaxed = (np.stack(coefficients, axis=1) for coefficients in zip(*paths, strict=True))
    return lasso, relaxed


def fit_linear_models(X: Array, y: Array, weight: Array | None, n_threads: int = 1) -> dict[str, LinearPath]:
    """All linear models of the default's first level, by name.

    Beyond 256 columns only those of largest correlation take part in the lasso, so that its time grows with the
    columns and not with their square.
    """
    n_features, n_samples = X.shape
    total = float(n_samples if weight is None else weight.sum(dtype=np.float64))
    if n_features <= n_samples:
        m = _Moments(*_kernels.moments(X, y, weight, n_threads))
        ridge = fit_ridge(m)
        mean_x, mean_y, cross = m.mean_x, m.mean_y, m.cross
    else:
        ridge = fit_wide_ridge(X, y, weight, n_threads)
        w = np.ones(n_samples) if weight is None else weight.astype(np.float64)
        mean_x, mean_y = (X * w).sum(axis=1) / total, (y * w).sum(axis=1) / total
        cross = _kernels.linear_outputs(
            np.ascontiguousarray((y - mean_y[:, None]) * w), np.zeros(len(y)), np.ascontiguousarray(X.T), n_threads
        )
    kept = np.arange(n_features)
    if n_features > MAX_LASSO_COLUMNS:
        kept = np.sort(np.argsort(-np.abs(cross).max(axis=0), kind="stable")[:MAX_LASSO_COLUMNS])
    if n_features > n_samples:
        m = _Moments(*_kernels.moments(np.ascontiguousarray(X[kept]), y, weight, n_threads))
    elif len(kept) < n_features:
        m = _Moments(mean_x[kept], mean_y, np.ascontiguousarray(m.gram[np.ix_(kept, kept)]), m.cross[:, kept].copy())
    paths = []
    for coefficients in fit_lasso_and_relaxed(m, total):
        on_all = np.zeros((*coefficients.shape[:2], n_features))
        on_all[..., kept] = coefficients
        paths.append(_path(on_all, mean_x, mean_y))
    nothing = np.zeros((1, len(mean_y), n_features))
    return {
        "zero": LinearPath(nothing, np.zeros((1, len(mean_y)))),  # in the anchored view, persistence
        "constant": _path(nothing, mean_x, mean_y),
        "ridge": ridge,
        "lasso": paths[0],
        "relaxed": paths[1],
    }


def fit_robust(X: Array, y: Array, weight: Array | None, relaxed: LinearPath, n_threads: int = 1) -> LinearPath:
    """The relaxed lasso again, with rows far off the rest counting for less; itself where no row is.

    It is also itself for several outputs, and for so many rows that a few hardly move it. What is typical is the median
    size of the residuals at the stage where it is least for its degrees of freedom.
    """
    if len(y) > 1 or y.shape[1] > MAX_ROBUST_ROWS:
        return relaxed
    own = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    total, share = own.sum(), own / own.sum()
    residual = y[0] - relaxed.predict(X, n_threads)[:, 0]
    away = np.abs(residual - _medians(residual, share)[:, None])
    n_coefficients = 1 + np.count_nonzero(relaxed.coefficients[:, 0], axis=1)
    freedom = 1 - 1.5 * n_coefficients / total  # columns that were looked for take more than one each
    size = _medians(away, share) / 0.6745 / np.maximum(freedom, 0.1)
    stage = int(np.argmin(size))
    if not away[stage].max() > FAR_OFF * size[stage] > 0:
        return relaxed
    own = own * np.minimum(1.0, 1.345 * size[stage] / np.maximum(away[stage], 1e-300)) ** 2
    return fit_linear_models(X, y, own.astype(X.dtype), n_threads)["relaxed"]
