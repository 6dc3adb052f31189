"""Many series of different lengths as plain arrays, laid end to end; nothing here knows frames or models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from coreforecast.grouped_array import GroupedArray
from numpy.typing import NDArray

__all__ = ["Array", "Future", "Panel", "equal_groups", "grouped", "ranges"]

Array = NDArray[Any]


def grouped(values: Array, indptr: Array) -> Any:
    """Values laid end to end as coreforecast's kernels take them."""
    return GroupedArray(np.ascontiguousarray(values, dtype=np.float64), indptr.astype(np.int32))


def equal_groups(values: Array) -> Any:
    """A matrix of one row a series as coreforecast's kernels take it."""
    n_series, width = values.shape
    return grouped(values.ravel(), np.arange(n_series + 1) * width)


def ranges(starts: Array, stops: Array) -> Array:
    """All integers of ``[start, stop)`` for every pair, one range after the other."""
    sizes = stops - starts
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)


@dataclass(frozen=True)
class Panel:
    """Series, each in time order, one after the other.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
    indptr : ndarray of shape (n_series + 1,)
        Series i is rows ``indptr[i]`` to ``indptr[i + 1]``.
    times : ndarray of shape (n_rows,)
        datetime64 (local clock, no zone) or integers.
    exog : ndarray of shape (n_rows, n_exog)
        Columns whose future is known.
    static : ndarray of shape (n_series, n_static)
    """

    y: Array
    indptr: Array
    times: Array
    exog: Array
    static: Array

    @property
    def n_series(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Array:
        return np.diff(self.indptr)

    def _rows(self, rows: Array, sizes: Array, static: Array) -> Panel:
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return Panel(self.y[rows], indptr, self.times[rows], self.exog[rows], static)

    def take(self, series: Any) -> Panel:
        """Only these series (numbers, in this order)."""
        series = np.asarray(series, dtype=np.int64)
        rows = ranges(self.indptr[series], self.indptr[series + 1])
        return self._rows(rows, self.sizes[series], self.static[series])

    def cut(self, n_rows: Any) -> Panel:
        """Without the last ``n_rows`` (one number, or one for each series) of every series."""
        sizes = np.maximum(self.sizes - n_rows, 0)
        rows = ranges(self.indptr[:-1], self.indptr[:-1] + sizes)
        return self._rows(rows, sizes, self.static)

    @staticmethod
    def stack(panels: list[Panel]) -> Panel:
        """The series of several panels as one."""
        sizes = np.concatenate([panel.sizes for panel in panels])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        parts = [np.concatenate([getattr(p, name) for p in panels]) for name in ("y", "times", "exog", "static")]
        return Panel(parts[0], indptr, *parts[1:])

    def windows(self, n_back: Any, h: int) -> tuple[Array, Future]:
        """The ``h`` values, and what is known of them, that begin ``n_back`` rows before the end of each series.

        Returns
        -------
        y : ndarray of shape (n_series, h)
        future : Future
        """
        rows = (self.indptr[1:] - n_back)[:, None] + np.arange(h)
        return self.y[rows], Future(self.times[rows], self.exog[rows])


@dataclass(frozen=True)
class Future:
    """What is known of the steps ahead.

    Attributes
    ----------
    times : ndarray of shape (n_series, h)
    exog : ndarray of shape (n_series, h, n_exog)
    """

    times: Array
    exog: Array

    def take(self, series: Any) -> Future:
        """Only these series."""
        return Future(self.times[series], self.exog[series])

    @staticmethod
    def stack(futures: list[Future]) -> Future:
        """The series of several futures as one."""
        return Future(np.concatenate([f.times for f in futures]), np.concatenate([f.exog for f in futures]))
