"""Recognises the kind of rows: a table, time-ordered rows, or a series.

The result, a :class:`RowsKind`, determines which candidates apply, how much evidence is required of them, whether
validation is forward in time, and whether levels or changes are modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from softboost._data.outliers import tails_of
from softboost._data.task import Task
from softboost._data.units import Units
from softboost._linear.anchor import Anchor
from softboost._linear.medians import medians

__all__ = ["RowsKind", "find_anchor", "is_stationary", "lags_of_columns", "recognise"]

Array = NDArray[Any]
MAX_SERIES_ROWS = 20_000  # maximum number of rows that are tested for lag 1
MAX_LAG_ROWS = 200  # maximum number of rows that are tested for each longer lag
MAX_LAG = 400
MIN_STATIONARY_ROWS = 60
MAX_ANCHOR_ROWS = 2**15
NEAR = 0.02  # squared distance of the target from a column, relative to its variance, below which they nearly agree
NEARISH = 0.3  # the same if many columns move together with that column
CLEAR = 0.15  # the same, below which changes are modelled without a comparison with levels


@dataclass(frozen=True)
class RowsKind:
    """The order of the rows, and the column that the target follows.

    Attributes
    ----------
    kind : {"table", "time", "series", "series_alone"}
        ``"table"``: rows without order. ``"time"``: the target follows a column as a value follows the last value, but
        the rows are not known to be in time order. ``"series"``: one series in time order. ``"series_alone"``: the
        same, and every column is a lag.
    n_outputs : int
    lags : ndarray of shape (n_features_in,) or None
        Lag of each column, 0 for a column that is not a lag; None unless the rows are a series.
    non_stationary : bool
        Whether the series is non-stationary (see :func:`is_stationary`).
    anchor : Anchor or None
        The anchored view of all rows; None if levels are modelled.
    rival : RowsKind or None
        The same rows with levels modelled, if it is not clear that changes are better; both are cross-validated then.
    positive : bool
        Whether all targets are positive.
    """

    kind: Literal["table", "time", "series", "series_alone"] = "table"
    n_outputs: int = 1
    lags: Array | None = None
    non_stationary: bool = False
    anchor: Anchor | None = None
    rival: RowsKind | None = None
    positive: bool = False

    @property
    def in_time(self) -> bool:
        """Whether neighbouring rows are correlated and future rows may differ from the validation rows."""
        return self.kind != "table"

    @property
    def is_series(self) -> bool:
        """Whether the rows are one series in time order."""
        return self.lags is not None

    @property
    def anchored(self) -> bool:
        """Whether changes since an anchor column are modelled, not levels."""
        return self.anchor is not None

    @property
    def forward(self) -> bool:
        """Whether candidates are validated only on rows after their training rows."""
        return self.is_series and self.non_stationary


def recognise(task: Task) -> RowsKind:
    """The kind of the rows of a task, from a column that is lag 1 of the target or that nearly equals the target.

    Changes are modelled for a non-stationary series, and for other rows whose target nearly equals a column, or is
    close to a column with which many others move together. Levels are a rival unless the target is close to the anchor
    column relative to its variance, in all rows and not only in most, or a series is too short to tell.
    """
    X, y, weight = task.standardised()
    lags = lags_of_columns(*task.first_rows(MAX_SERIES_ROWS))
    if lags is not None:
        levels = RowsKind("series_alone" if np.all(lags > 0) else "series", len(y), lags)
        if is_stationary(y):
            return levels
        anchor = find_anchor(X, y, weight, task.units, lags)
        clear = anchor.error < CLEAR or y.shape[1] < MIN_STATIONARY_ROWS
        return replace(levels, non_stationary=True, anchor=anchor, rival=None if clear else levels)
    levels = RowsKind("table", len(y), positive=bool(np.all(task.y > 0)))
    anchor = find_anchor(X, y, weight, task.units)
    if anchor.error < NEAR or (anchor.error < NEARISH and anchor.n_alike >= max(4, X.shape[0] / 10)):
        with np.errstate(over="ignore"):  # the error is that of most rows; the column may say little about the others
            distance = float(np.average((y - anchor.level(X)) ** 2, axis=1, weights=weight).mean())
        return RowsKind("time", len(y), anchor=anchor, rival=None if distance < CLEAR else levels)
    return levels


# -- series ------------------------------------------------------------------------------------------------------------


def lags_of_columns(X: Array, y: Array) -> Array | None:
    """The lag of each column, 0 for a column that is not a lag; None if no column is lag 1.

    If a column is lag 1, the rows are a series in time order.
    """
    if len(y) < 10 or y.shape[1] != 1:
        return None
    target = y[:, 0].astype(np.float64)
    usual = tails_of(y, None).clipped(y)  # an outlier would make all other values seem equal
    tolerance = 1e-6 * float(usual.max() / 2 - usual.min() / 2)
    if not tolerance > 0:
        return None

    def repeats(lag: int, rows: int) -> Array:
        first = max(0, lag - before)
        past = known[before + first - lag :][: min(rows, len(y) - first)]
        there = np.isfinite(past)
        if 2 * np.count_nonzero(there) < min(rows, len(y)):
            return np.zeros(X.shape[1], dtype=bool)
        with np.errstate(over="ignore"):
            gap = np.abs(X[first : first + rows][there] - past[there, None])
        return np.mean(gap <= tolerance, axis=0) >= 0.95

    known, before = target, 0  # the series, and the number of its values before the first target
    lags = np.where(repeats(1, len(y)), 1, 0)
    if not lags.any():
        return None
    for lag in range(2, MAX_LAG + 1):
        if before == lag - 2 and np.any(lags == lag - 1):  # the lags of the first row extend the series into the past
            known, before = np.append(X[0, np.argmax(lags == lag - 1)], known), lag - 1
        if np.all(lags > 0) or lag - before > len(y) // 2:
            break
        lags[(lags == 0) & repeats(lag, MAX_LAG_ROWS)] = lag
    return lags


def is_stationary(y: Array) -> bool:
    """Whether a series (n_outputs, n_samples) in time order returns to a mean, by the KPSS test.

    With fewer than 60 rows the test has little power, and the series is taken as non-stationary. A series whose last
    value is a much worse predictor of the next value than its mean is stationary, whatever the result of the test.
    """
    if y.shape[1] < MIN_STATIONARY_ROWS:
        return False
    steps = (np.diff(y, axis=1) ** 2).mean(axis=1)
    return not np.any((_kpss(y) > 0.2) & (steps < 1.5 * y.var(axis=1)))


def _kpss(y: Array) -> Array:
    """The KPSS statistic of each row of y, which is large for a non-stationary series."""
    n = y.shape[1]
    e = y - y.mean(axis=1, keepdims=True)
    n_lags = int(4 * (n / 100) ** 0.25)
    long_run = (e**2).mean(axis=1)
    for lag in range(1, n_lags + 1):
        long_run = long_run + 2 * (1 - lag / (n_lags + 1)) * (e[:, lag:] * e[:, :-lag]).sum(axis=1) / n
    return (np.cumsum(e, axis=1) ** 2).sum(axis=1) / n**2 / np.maximum(long_run, 1e-9 * (e**2).mean(axis=1) + 1e-300)


# -- the anchor --------------------------------------------------------------------------------------------------------


def find_anchor(X: Array, y: Array, weight: Array | None, units: Units, lags: Array | None = None) -> Anchor:
    """The anchored view of the column that is closest to y in its own units, over all outputs.

    Uses at most 32,768 evenly spaced rows. The distance is the mean absolute difference, so that a few level shifts do
    not decide which column is the last value. With ``lags`` (0: not a lag), the anchor is lag 1, and all lags are in
    its units.
    """
    if X.shape[1] > MAX_ANCHOR_ROWS:
        rows = np.linspace(0, X.shape[1] - 1, MAX_ANCHOR_ROWS).astype(int)
        X, y, weight = X[:, rows], y[:, rows], None if weight is None else weight[rows]
    X, y = X.astype(np.float64), y.astype(np.float64)
    weight = np.ones(X.shape[1]) if weight is None else weight.astype(np.float64)
    share = weight / weight.sum()
    with np.errstate(over="ignore"):  # y may be subnormal; infinite ratios are limited
        slope = _limited(units.spread[:, None] / units.y_spread)  # (n_features, n_outputs)
        offset = _limited((units.centre[:, None] - units.y_centre) / units.y_spread)
    error = _squared_distances(X, y, share, slope, offset)
    column = _nearest(X, y, share, slope, offset, error) if lags is None else int(np.flatnonzero(lags == 1)[0])
    alike = _in_the_same_units(X, column, units, share)
    if lags is not None:
        alike[np.flatnonzero(lags > 1)] = True
    away = np.abs(y - slope[column][:, None] * X[column] - offset[column][:, None])
    return Anchor.of_column(
        column,
        alike,
        X,
        share,
        units,
        slope=slope[column],
        offset=offset[column],
        error=min(float(error[column]), _typical_error(away, y, share)),
    )


def _limited(ratio: Array) -> Array:
    """Ratios of units that are many orders of magnitude apart, limited so that their squares do not overflow."""
    return np.clip(ratio, -1e100, 1e100)


def _squared_distances(X: Array, y: Array, share: Array, slope: Array, offset: Array) -> Array:
    """Mean (y - slope x - offset)^2 for all columns, from second moments, without forming the differences."""
    mean_x, mean_y = X @ share, y @ share
    gap = mean_y - slope * mean_x[:, None] - offset
    variance_x = (X - mean_x[:, None]) ** 2 @ share
    variance_y = (y - mean_y[:, None]) ** 2 @ share
    covariance = (X - mean_x[:, None]) * share @ (y - mean_y[:, None]).T
    error = (gap**2 + variance_y + slope**2 * variance_x[:, None] - 2 * slope * covariance).mean(axis=1)
    return np.maximum(error, 1e-12 * variance_y.mean())  # the distance of a copy of y is only rounding


def _nearest(X: Array, y: Array, share: Array, slope: Array, offset: Array, error: Array) -> int:
    """The column closest to y by mean absolute distance, among the eight closest by squared distance."""
    near = np.sort(np.argsort(error, kind="stable")[:8])
    distance = np.abs(y - slope[near][:, :, None] * X[near][:, None] - offset[near][:, :, None])
    distance = distance.mean(axis=1) @ share
    return int(near[np.flatnonzero(distance <= distance.min() * (1 + 1e-9))[0]])


def _typical_error(away: Array, y: Array, share: Array) -> float:
    """The median distance of y from the anchor divided by its median distance from its own median, squared.

    For normal distributions it equals the squared distance relative to the variance. It is far smaller for a series
    that hardly moves between a few level shifts, which make up nearly all of its variance.
    """
    own = medians(np.abs(y - medians(y, share)[:, None]), share)
    return float(np.mean((medians(away, share) / own) ** 2)) if np.all(own > 0) else np.inf


def _in_the_same_units(X: Array, column: int, units: Units, share: Array) -> Array:
    """Columns that move about one to one with the anchor, with a regression slope between 0.5 and 2.

    Also columns whose median distance from the anchor is less than the median absolute deviation of the anchor, which
    level shifts do not affect.
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
