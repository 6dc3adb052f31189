"""The M4 competition's own scores and baselines, for quarterly series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["PERIOD", "Scores", "naive", "naive2", "seasonal_factors", "seasonal_naive"]

Array = NDArray[np.float64]
PERIOD = 4
HORIZON = 8


def naive(y: Array) -> Array:
    """The last value again."""
    return np.full(HORIZON, y[-1])


def seasonal_naive(y: Array) -> Array:
    """The last year again."""
    return np.tile(y[-PERIOD:], HORIZON // PERIOD)


def naive2(y: Array) -> Array:
    """The last value of the seasonally adjusted series, with its season put back."""
    factors = seasonal_factors(y)
    return y[-1] / factors[-1] * np.tile(factors[-PERIOD:], HORIZON // PERIOD)


def seasonal_factors(y: Array) -> Array:
    """Multiplicative season of every value by classical decomposition; ones where the test finds no season."""
    if not is_seasonal(y):
        return np.ones_like(y)
    window = np.array([0.5, 1, 1, 1, 0.5]) / PERIOD
    trend = np.convolve(y, window, mode="valid")
    ratio = np.full(len(y), np.nan)
    ratio[2:-2] = y[2:-2] / trend
    figure = np.array([np.nanmean(ratio[quarter::PERIOD]) for quarter in range(PERIOD)])
    return np.resize(figure / figure.mean(), len(y))


def is_seasonal(y: Array) -> bool:
    """Whether the autocorrelation at one year passes the competition's test at 90 percent."""
    if len(y) < 3 * PERIOD:
        return False
    centred = y - y.mean()
    total = float(centred @ centred)
    if total == 0:
        return False
    acf = np.array([centred[lag:] @ centred[:-lag] for lag in range(1, PERIOD + 1)]) / total
    limit = 1.645 / np.sqrt(len(y)) * np.sqrt(1 + 2 * np.sum(acf[:-1] ** 2))
    return bool(abs(acf[-1]) > limit)


@dataclass(frozen=True)
class Scores:
    """Mean scores over series: sMAPE in percent, MASE, OWA against Naive2, and for intervals coverage and MSIS."""

    smape: float
    mase: float
    owa: float
    coverage: float = float("nan")
    msis: float = float("nan")


class Judge:
    """Scores forecasts of all series.

    Parameters
    ----------
    history : list of ndarray
        What was known of each series.
    actual : ndarray of shape (n_series, 8)
    """

    def __init__(self, history: list[Array], actual: Array) -> None:
        self.actual = actual
        self.scale = np.array([np.mean(np.abs(y[PERIOD:] - y[:-PERIOD])) for y in history])
        self.scale[self.scale == 0] = np.nan  # MASE says nothing of a series that has never moved over a year
        self.baseline = (1.0, 1.0)
        self.baseline = self._points(np.stack([naive2(y) for y in history]))

    def _points(self, forecast: Array) -> tuple[float, float]:
        error = np.abs(self.actual - forecast)
        smape = 200 * error / (np.abs(self.actual) + np.abs(forecast))
        return float(smape.mean()), float(np.nanmean(error / self.scale[:, None]))

    def score(self, forecast: Array, low: Array | None = None, high: Array | None = None) -> Scores:
        """Scores of point forecasts (n_series, 8), and of their 95 percent bounds where given."""
        smape, mase = self._points(forecast)
        owa = (smape / self.baseline[0] + mase / self.baseline[1]) / 2
        if low is None or high is None:
            return Scores(smape, mase, owa)
        outside = np.maximum(low - self.actual, 0) + np.maximum(self.actual - high, 0)
        msis = float(np.nanmean((high - low + 2 / 0.05 * outside) / self.scale[:, None]))
        return Scores(smape, mase, owa, float((outside == 0).mean()), msis)
