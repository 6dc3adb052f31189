"""Recognises rows that are a series in time order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROWS_TO_KNOW_A_SERIES", "Series", "lags_of_columns", "wanders"]

Array = NDArray[Any]
ROWS_TO_KNOW_A_SERIES = 20_000
ROWS_TO_KNOW_A_LAG = 200
MAX_LAG_TO_KNOW = 400


def lags_of_columns(X: Array, y: Array) -> Array | None:
    """How many rows back each column repeats the target, 0 where it does not; None if no column has the row before.

    If one has, the rows are a series in time order.
    """
    if len(y) < 10 or y.shape[1] != 1:
        return None
    target = y[:, 0].astype(np.float64)
    tolerance = 1e-6 * float(target.max() / 2 - target.min() / 2)
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

    known, before = target, 0  # the series, and how many of its values are before the first target
    lags = np.where(repeats(1, len(y)), 1, 0)
    if not lags.any():
        return None
    for lag in range(2, MAX_LAG_TO_KNOW + 1):
        if before == lag - 2 and np.any(lags == lag - 1):  # the first row's lags go on into the past
            known, before = np.append(X[0, np.argmax(lags == lag - 1)], known), lag - 1
        if np.all(lags > 0) or lag - before > len(y) // 2:
            break
        lags[(lags == 0) & repeats(lag, ROWS_TO_KNOW_A_LAG)] = lag
    return lags


@dataclass(frozen=True)
class Series:
    """What is known of rows that are a series in time order.

    Attributes
    ----------
    lags : ndarray of shape (n_features_in,)
        How many rows back each column looks; 0 where it is not a lag.
    wandering : bool
        Whether the series has no mean that it returns to (see :func:`wanders`).
    """

    lags: Array
    wandering: bool

    @property
    def alone(self) -> bool:
        """Whether nothing but its own past is known."""
        return bool(np.all(self.lags > 0))


def wanders(y: Array) -> bool:
    """Whether a series (n_outputs, n_samples) in time order has no mean that it returns to, as far as can be told.

    With few rows it cannot be told, and then it is safer to think so. One that does is not much farther from its last
    value than from its mean.
    """
    steps = (np.diff(y, axis=1) ** 2).mean(axis=1)
    return y.shape[1] < 60 or bool(np.any((_kpss(y) > 0.2) & (steps < 1.5 * y.var(axis=1))))


def _kpss(y: Array) -> Array:
    """The statistic of Kwiatkowski, Phillips, Schmidt and Shin for each row of y: large for series that wander."""
    n = y.shape[1]
    e = y - y.mean(axis=1, keepdims=True)
    n_lags = int(4 * (n / 100) ** 0.25)
    long_run = (e**2).mean(axis=1)
    for lag in range(1, n_lags + 1):
        long_run = long_run + 2 * (1 - lag / (n_lags + 1)) * (e[:, lag:] * e[:, :-lag]).sum(axis=1) / n
    return (np.cumsum(e, axis=1) ** 2).sum(axis=1) / n**2 / np.maximum(long_run, 1e-9 * (e**2).mean(axis=1) + 1e-300)
