"""Many series of different lengths as concatenated arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from coreforecast.grouped_array import GroupedArray
from numpy.typing import NDArray

__all__ = ["Array", "Future", "Panel", "equal_groups", "grouped", "ranges", "spread", "typical_size"]

Array = NDArray[Any]

WILD = 10.0  # distances from the median of wild values, relative to those of all others
WILD_PART = 0.02  # largest part of the values that are wild
LEAST_FOR_WILD = 8  # known values from which wild ones are recognised


def grouped(values: Array, indptr: Array) -> Any:
    """Concatenated values as input of the coreforecast kernels."""
    return GroupedArray(np.ascontiguousarray(values, dtype=np.float64), indptr.astype(np.int32))


def equal_groups(values: Array) -> Any:
    """A matrix with one row per series as input of the coreforecast kernels."""
    n_series, width = values.shape
    return grouped(values.ravel(), np.arange(n_series + 1) * width)


def ranges(starts: Array, stops: Array) -> Array:
    """The concatenated ranges ``[start, stop)`` of all pairs."""
    sizes = stops - starts
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)


def spread(items: Array, most: int) -> Array:
    """At most ``most`` evenly spaced items, from the first to the last."""
    return np.asarray(items[np.unique(np.linspace(0, len(items) - 1, min(len(items), most)).astype(int))])


def typical_size(sizes: Array) -> int:
    """Size of a typical series: half of all values belong to series that are at least as long. Short ones hardly count.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast._panel import typical_size
    >>> typical_size(np.array([150, 4, 7, 12])), typical_size(np.array([12, 10, 9]))
    (150, 10)
    """
    ordered = np.sort(sizes)
    total = np.cumsum(ordered)
    return int(ordered[np.searchsorted(total, total[-1] / 2)]) if len(sizes) else 0


@dataclass(frozen=True)
class Panel:
    """Concatenated series, each in time order.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Observed values; NaN if missing.
    indptr : ndarray of shape (n_series + 1,)
        Series i is the rows from ``indptr[i]`` to ``indptr[i + 1]``.
    times : ndarray of shape (n_rows,)
        datetime64 (local time without zone) or integers.
    exog : ndarray of shape (n_rows, n_exog)
        Columns whose future values are known.
    static : ndarray of shape (n_series, n_static)
    gaps : {"raise", "interpolate", "forward"}
        How :attr:`filled` fills gaps.
    key : ndarray of shape (n_series,), or None
        A number for each series that depends only on its id; None uses positions.
    """

    y: Array
    indptr: Array
    times: Array
    exog: Array
    static: Array
    gaps: str = "raise"
    key: Array | None = None

    @property
    def n_series(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Array:
        return np.diff(self.indptr)

    @property
    def keys(self) -> Array:
        return np.arange(self.n_series) if self.key is None else self.key

    def reduce(self, ufunc: Any, values: Array, empty: Any) -> Array:
        """``ufunc`` over the rows of each series; ``empty`` for a series without rows."""
        out = np.full(self.n_series, empty)
        some = self.sizes > 0
        out[some] = ufunc.reduceat(values, self.indptr[:-1][some]) if some.any() else empty
        return out

    @property
    def n_known(self) -> Array:
        """Number of known values of each series."""
        return self.reduce(np.add, (~np.isnan(self.y)).astype(np.int64), 0)

    def minimum(self, n_rows: int | None = None) -> Array:
        """Smallest known value among the last ``n_rows`` (all if None) of each series; NaN without any."""
        late = np.repeat(self.indptr[1:], self.sizes) - np.arange(len(self.y)) <= (n_rows or len(self.y))
        return self.reduce(np.fmin, np.where(late, self.y, np.nan), np.nan)

    @cached_property
    def filled(self) -> Array:
        """Values with gaps filled, for regressions; only these rows are used, so a cut panel has no look-ahead."""
        if not np.isnan(self.y).any():
            return self.y
        y = self.y.copy()
        for start, stop in pairwise(self.indptr):
            y[start:stop] = _filled(y[start:stop], self.gaps)
        return y

    @cached_property
    def _outliers(self) -> list[tuple[Array, bool]]:
        return [_wild(self.y[start:stop]) for start, stop in pairwise(self.indptr)]

    def without_outliers(self) -> Panel:
        """The panel with wild values marked as missing; this one if there are none."""
        wild = [start + rows for start, (rows, _) in zip(self.indptr[:-1], self._outliers, strict=True)]
        rows = np.concatenate(wild) if wild else np.zeros(0, dtype=np.int64)
        if not len(rows):
            return self
        y = self.y.copy()
        y[rows] = np.nan
        return replace(self, y=y)

    def within_history(self, forecast: Array) -> Array:
        """Forecasts (n_series, h) where those of a series whose last value is wild do not exceed its history.

        One value shows neither a new level nor a trend.
        """
        jumped = np.array([is_last for _, is_last in self._outliers], dtype=bool)
        if not jumped.any():
            return forecast
        low, high = self.minimum()[:, None], self.reduce(np.fmax, self.y, np.nan)[:, None]
        return np.where(jumped[:, None], np.clip(forecast, low, high), forecast)

    def _rows(self, rows: Array, sizes: Array) -> Panel:
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return replace(self, y=self.y[rows], indptr=indptr, times=self.times[rows], exog=self.exog[rows])

    def take(self, series: Any) -> Panel:
        """The series with these indices, in this order."""
        series = np.asarray(series, dtype=np.int64)
        rows = ranges(self.indptr[series], self.indptr[series + 1])
        key = None if self.key is None else self.key[series]
        return replace(self._rows(rows, self.sizes[series]), static=self.static[series], key=key)

    def cut(self, n_rows: Any) -> Panel:
        """The panel without the last ``n_rows`` rows (one number, or one per series) of every series."""
        sizes = np.maximum(self.sizes - n_rows, 0)
        rows = ranges(self.indptr[:-1], self.indptr[:-1] + sizes)
        return self._rows(rows, sizes)

    @staticmethod
    def stack(panels: list[Panel]) -> Panel:
        """Concatenate the series of several panels."""
        sizes = np.concatenate([panel.sizes for panel in panels])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        names = ("y", "times", "exog", "static")
        parts: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in panels]) for name in names}
        key = None if panels[0].key is None else np.concatenate([panel.keys for panel in panels])
        return replace(panels[0], indptr=indptr, key=key, **parts)

    def windows(self, n_back: Any, h: int) -> tuple[Array, Future]:
        """The ``h`` values that begin ``n_back`` rows before the end of each series, with times and exogenous columns.

        Beyond the end of a series, values are NaN, and times and exogenous columns are those of its last row.

        Returns
        -------
        y : ndarray of shape (n_series, h)
        future : Future
        """
        rows = (self.indptr[1:] - n_back)[:, None] + np.arange(h)
        last = self.indptr[1:, None] - 1
        y = np.where(rows <= last, self.y[np.minimum(rows, last)], np.nan)
        rows = np.minimum(rows, last)
        return y, Future(self.times[rows], self.exog[rows])

    def rows_after(self, moment: Any) -> Array:
        """Number of rows of each series after a moment."""
        later = self.times > moment
        return np.add.reduceat(later, self.indptr[:-1]) if len(later) else np.zeros(self.n_series, dtype=np.int64)


def _wild(y: Array) -> tuple[Array, bool]:
    """Indices of at most two percent of the values, many times farther from the median than all others.

    After a level shift, or in a series of many spikes, other values are as far. If the last value is as far, which is
    returned too, there are none: a level shift may begin there.
    """
    known = np.flatnonzero(~np.isnan(y))
    if len(known) < LEAST_FOR_WILD:
        return known[:0], False
    values = y[known]
    away = np.abs(values - np.median(values))
    n_most = max(1, int(WILD_PART * len(known)))
    order = np.argpartition(-away, n_most)[: n_most + 1]
    order = order[np.argsort(-away[order])]
    gaps = np.flatnonzero((away[order[:-1]] > WILD * away[order[1:]]) & (away[order[1:]] > 0))
    wild = order[: gaps[-1] + 1] if len(gaps) else order[:0]
    return (known[:0], True) if len(known) - 1 in wild else (known[wild], False)


def _filled(y: Array, how: str) -> Array:
    """A series with gaps interpolated or filled with the last value; values before the first stay NaN."""
    known = np.flatnonzero(~np.isnan(y))
    if len(known) == 0:
        return y
    place = np.searchsorted(known, np.arange(len(y)), side="right") - 1
    out = y[known[np.maximum(place, 0)]] if how == "forward" else np.interp(np.arange(len(y)), known, y[known])
    return np.where(place >= 0, out, np.nan)


@dataclass(frozen=True)
class Future:
    """Known inputs of the steps ahead.

    Attributes
    ----------
    times : ndarray of shape (n_series, h)
    exog : ndarray of shape (n_series, h, n_exog)
    """

    times: Array
    exog: Array

    def take(self, series: Any) -> Future:
        """The series with these indices."""
        return Future(self.times[series], self.exog[series])

    @staticmethod
    def stack(futures: list[Future]) -> Future:
        """Concatenate the series of several futures."""
        return Future(np.concatenate([f.times for f in futures]), np.concatenate([f.exog for f in futures]))
