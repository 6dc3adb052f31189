"""The M4 competition's own scores and baselines, for any frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Judge", "Scores", "is_seasonal", "naive", "naive2", "seasonal_factors", "seasonal_naive"]

Array = NDArray[np.float64]


def naive(y: Array, h: int) -> Array:
    """The last value again."""
    return np.full(h, y[-1])


def seasonal_naive(y: Array, h: int, period: int) -> Array:
    """The last season again."""
    return np.resize(y[-period:], h)


def naive2(y: Array, h: int, period: int) -> Array:
    """The last value of the seasonally adjusted series, with its season put back."""
    factors = seasonal_factors(y, period)
    return y[-1] / factors[-1] * np.resize(factors[-period:], h)


def seasonal_factors(y: Array, period: int) -> Array:
    """Multiplicative season of every value by classical decomposition; ones where the test finds no season."""
    if not is_seasonal(y, period):
        return np.ones_like(y)
    window = np.ones(period) / period if period % 2 else np.r_[0.5, np.ones(period - 1), 0.5] / period
    half = period // 2
    trend = np.convolve(y, window, mode="valid")
    ratio = np.full(len(y), np.nan)
    ratio[half : half + len(trend)] = y[half : half + len(trend)] / trend
    figure = np.array([np.nanmean(ratio[phase::period]) for phase in range(period)])
    return np.resize(figure / figure.mean(), len(y))


def is_seasonal(y: Array, period: int) -> bool:
    """Whether the autocorrelation at one season passes the competition's test at 90 percent."""
    if period == 1 or len(y) < 3 * period:
        return False
    centred = y - y.mean()
    total = float(centred @ centred)
    if total == 0:
        return False
    acf = np.array([centred[lag:] @ centred[:-lag] for lag in range(1, period + 1)]) / total
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
    actual : ndarray of shape (n_series, h)
    period : int
        Season of the scaled errors and of Naive2.
    """

    def __init__(self, history: list[Array], actual: Array, period: int) -> None:
        self.actual = actual
        self.scale = np.array(
            [np.mean(np.abs(y[period:] - y[:-period])) if len(y) > period else np.nan for y in history]
        )
        self.scale[self.scale == 0] = np.nan  # MASE says nothing of a series that has never moved over a season
        self.baseline = self.points(np.stack([naive2(y, actual.shape[1], period) for y in history]))

    def points(self, forecast: Array) -> tuple[float, float]:
        """sMAPE and MASE of point forecasts (n_series, h)."""
        error = np.abs(self.actual - forecast)
        size = np.abs(self.actual) + np.abs(forecast)
        smape = 200 * np.divide(error, size, out=np.zeros_like(error), where=size > 0)
        return float(smape.mean()), float(np.nanmean(error / self.scale[:, None]))

    def score(self, forecast: Array, low: Array | None = None, high: Array | None = None) -> Scores:
        """Scores of point forecasts (n_series, h), and of their 95 percent bounds where given."""
        smape, mase = self.points(forecast)
        owa = (smape / self.baseline[0] + mase / self.baseline[1]) / 2
        if low is None or high is None:
            return Scores(smape, mase, owa)
        outside = np.maximum(low - self.actual, 0) + np.maximum(self.actual - high, 0)
        msis = float(np.nanmean((high - low + 2 / 0.05 * outside) / self.scale[:, None]))
        return Scores(smape, mase, owa, float((outside == 0).mean()), msis)
