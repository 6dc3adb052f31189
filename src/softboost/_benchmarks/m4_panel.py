"""What is known of short quarterly series at one point of time: smoothed levels, seasons, a first forecast, columns.

All values are logarithms, and series stand in one matrix with their ends aligned, so that every step is an operation
on whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HORIZON", "Origin", "Panel"]

Array = NDArray[np.float64]
PERIOD = 4
HORIZON = 8
WIDTH = 208  # values kept of a series, the last ones
WINDOW = 60  # values that smoothing and trends look at
ALPHAS = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0])
DAMPED = np.array([(a, b, p) for a in (0.3, 0.6, 0.9) for b in (0.1, 0.3) for p in (0.8, 0.92)]).T
STEPS = np.arange(1, HORIZON + 1)


@dataclass(frozen=True)
class Origin:
    """All series at one point of time.

    Attributes
    ----------
    columns : ndarray of shape (n_series, n_columns)
        What a model may look at, in units of each series.
    base : ndarray of shape (n_series, 8)
        First forecast: the mean of simple, damped and Theta smoothing of the seasonally adjusted series.
    unit : ndarray of shape (n_series,)
        Size of the series' changes over a quarter and over a year.
    last : ndarray of shape (n_series,)
        Value at the origin.
    n_known : ndarray of shape (n_series,)
        Values up to the origin.
    """

    columns: NDArray[np.float32]
    base: Array
    unit: Array
    last: Array
    n_known: NDArray[np.int64]


class Panel:
    """Logarithms of all series, ends aligned, and their seasons by what was known at each point of time.

    Parameters
    ----------
    series : sequence of ndarray
        Positive values, of any lengths.
    """

    def __init__(self, series: Sequence[Array]) -> None:
        self.z = np.full((len(series), WIDTH), np.nan)
        for row, values in zip(self.z, series, strict=True):
            known = values[-WIDTH:]
            row[WIDTH - len(known) :] = np.log(np.maximum(known, 1e-3))
        self.lengths = np.array([len(values) for values in series])
        self._season()
        per_quarter, per_year = (_mean_so_far(np.abs(self.z - _lag(self.z, lag))) for lag in (1, PERIOD))
        self._yearly = np.where(np.isnan(per_year), 2 * per_quarter, per_year)

    def _season(self) -> None:
        """Expanding classical decomposition: the mean of each quarter, and of its last three years, by end of data.

        Both are shrunk towards none by how clearly quarters differ (one less the inverse of an F statistic).
        """
        z = self.z
        trend = (0.5 * z + _lag(z, 1) + _lag(z, 2) + _lag(z, 3) + 0.5 * _lag(z, 4)) / PERIOD
        apart = _lag(z, 2) - trend  # known at t, of time t - 2
        known = ~np.isnan(apart)
        filled = np.where(known, apart, 0.0)
        quarter = (np.arange(WIDTH) - 2) % PERIOD
        total = np.stack([np.cumsum(filled * (quarter == q), axis=1) for q in range(PERIOD)], axis=2)
        count = np.stack([np.cumsum(known * (quarter == q), axis=1) for q in range(PERIOD)], axis=2)
        mean = total / np.maximum(count, 1)
        centred = mean - mean.mean(axis=2, keepdims=True)
        n = count.sum(axis=2)
        within = np.maximum(np.cumsum(filled**2, axis=1) - (count * mean**2).sum(axis=2), 1e-12) / np.maximum(n - 4, 1)
        f = (count * centred**2).sum(axis=2) / 3 / np.maximum(within, 1e-10)
        complete = (count.min(axis=2) > 0) & (n >= 2 * PERIOD)
        self._clarity = np.where(complete, f, 0.0)
        self._shrink = np.clip(1 - 1 / np.maximum(self._clarity, 1e-9), 0, 1)
        self._long = centred * self._shrink[..., None]
        self._recent = _recent_means(apart, 3) * self._shrink[..., None]

    def actual(self, back: int) -> Array:
        """The eight values after the origin ``back`` steps before the end, NaN where they are not known."""
        first = WIDTH - back
        known = self.z[:, first : first + HORIZON]
        return np.pad(known, ((0, 0), (0, HORIZON - known.shape[1])), constant_values=np.nan)

    def at(self, back: int) -> Origin:
        """All series ``back`` steps before their end."""
        t = WIDTH - 1 - back
        season = 0.5 * self._long[:, t] + 0.5 * self._recent[:, t]
        newer = self._recent[:, t] - self._long[:, t]
        ahead = (t + STEPS) % PERIOD
        window = np.arange(t - WINDOW + 1, t + 1)
        raw = self.z[:, window]
        adjusted = raw - season[:, window % PERIOD]
        known = ~np.isnan(adjusted)
        n = known.sum(axis=1)
        last = adjusted[:, -1]
        first = adjusted[np.arange(len(raw)), np.argmax(known, axis=1)]
        filled = np.where(known, adjusted, first[:, None])  # a flat past before the first value
        changes = np.diff(adjusted, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            per_quarter = np.nansum(np.abs(changes), axis=1) / np.maximum(n - 1, 1)
            unit = np.maximum(np.nan_to_num(0.5 * per_quarter + 0.5 * self._yearly[:, t]), 1e-3)
            level, level_error = _simple(filled, n)
            damped, damped_error = _damped(filled, n)
            slope, fitted = _line(filled, known)
            recent_slope, _ = _line(filled, known & (np.arange(WINDOW) >= WINDOW - 16))
            theta = level[:, None] + 0.5 * slope[:, None] * STEPS
            forecast = (level[:, None] + damped + theta) / 3
            span = np.where(known, adjusted, last[:, None])
            columns = [changes[:, -1 - k] for k in range(12)]
            columns += [last - adjusted[:, -1 - k] for k in (2, 4, 6, 8, 12, 16, 24, 32)]
            columns += [raw[:, -1] - raw[:, -1 - k] for k in (4, 8, 12)]
            columns += [level - last, damped[:, 0] - last, damped[:, -1] - last, slope, recent_slope]
            columns += [(last - first) / np.maximum(n - 1, 1), forecast[:, -1] - last, fitted - last]
            columns += [adjusted[:, -k:].mean(axis=1) - last for k in (4, 8)]
            columns += [span.max(axis=1) - last, span.min(axis=1) - last]
            columns += [_spread(changes[:, -k:]) for k in (8, 16)]
            columns += [season[:, ahead[k]] for k in range(PERIOD)] + [newer[:, ahead[k]] for k in range(PERIOD)]
            own = [np.log(unit), np.log(np.maximum(self.lengths - back, 1)), raw[:, -1], per_quarter / unit]
            own += [self._shrink[:, t], np.log1p(self._clarity[:, t])]
            own += [damped_error / (level_error + 1e-9), level_error / np.maximum(n, 1) / unit]
            table = np.column_stack([*(c / unit for c in columns), *own]).astype(np.float32)
        table = np.clip(np.where(np.isfinite(table), table, np.nan), -50, 50)
        return Origin(table, forecast + season[:, ahead], unit, raw[:, -1], self.lengths - back)


def _lag(values: Array, k: int) -> Array:
    lagged = np.full_like(values, np.nan)
    lagged[:, k:] = values[:, : values.shape[1] - k]
    return lagged


def _mean_so_far(values: Array) -> Array:
    known = ~np.isnan(values)
    count = np.cumsum(known, axis=1)
    total = np.cumsum(np.where(known, values, 0.0), axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _recent_means(apart: Array, n_years: int) -> Array:
    """Mean of each quarter's last ``n_years`` values, at every point of time, centred; zero where there are none."""
    lagged = np.stack([_lag(apart, k) if k else apart for k in range(PERIOD * n_years)])
    known = ~np.isnan(lagged)
    lagged = np.where(known, lagged, 0.0)
    means = np.zeros((*apart.shape, PERIOD))
    for quarter in range(PERIOD):
        for t in range(PERIOD):
            newest = (t - 2 - quarter) % PERIOD
            total = lagged[newest::PERIOD, :, t::PERIOD].sum(axis=0)
            means[:, t::PERIOD, quarter] = total / np.maximum(known[newest::PERIOD, :, t::PERIOD].sum(axis=0), 1)
    return means - means.mean(axis=2, keepdims=True)


def _trust(error: Array, n: NDArray[np.int64]) -> Array:
    """Weights of settings by their absolute one-step errors so far, the sharper the longer the series."""
    weight = ((error.min(axis=1, keepdims=True) + 1e-9) / (error + 1e-9)) ** (np.maximum(n, 8)[:, None] / 2)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _simple(values: Array, n: NDArray[np.int64]) -> tuple[Array, Array]:
    """Level of simple exponential smoothing, and its least error so far."""
    level = np.repeat(values[:, :1], len(ALPHAS), axis=1)
    error = np.zeros_like(level)
    for t in range(1, values.shape[1]):
        missed = values[:, t : t + 1] - level
        error += np.abs(missed)
        level += ALPHAS * missed
    return (_trust(error, n) * level).sum(axis=1), error.min(axis=1)


def _damped(values: Array, n: NDArray[np.int64]) -> tuple[Array, Array]:
    """Forecasts of exponential smoothing with a damped trend, and its least error so far."""
    alpha, beta, phi = DAMPED
    level = np.repeat(values[:, :1], len(alpha), axis=1)
    trend = np.zeros_like(level)
    error = np.zeros_like(level)
    for t in range(1, values.shape[1]):
        expected = level + phi * trend
        missed = values[:, t : t + 1] - expected
        error += np.abs(missed)
        level = expected + alpha * missed
        trend = phi * trend + alpha * beta * missed
    weight = _trust(error, n)
    reach = np.cumsum(phi[:, None] ** STEPS, axis=1)
    return (weight * level).sum(axis=1)[:, None] + (weight * trend) @ reach, error.min(axis=1)


def _line(values: Array, known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Slope of a straight line through the known values, and its value at the end."""
    n = np.maximum(known.sum(axis=1), 1)
    time = np.arange(values.shape[1]) - (values.shape[1] - 1.0)
    mean_time = (known * time).sum(axis=1) / n
    mean = np.where(known, values, 0.0).sum(axis=1) / n
    centred = known * (time - mean_time[:, None])
    slope = (centred * (values - mean[:, None])).sum(axis=1) / np.maximum((centred**2).sum(axis=1), 1e-9)
    return slope, mean - mean_time * slope


def _spread(values: Array) -> Array:
    """Standard deviation of what is known."""
    known = ~np.isnan(values)
    n = np.maximum(known.sum(axis=1), 1)
    filled = np.where(known, values, 0.0)
    mean = filled.sum(axis=1) / n
    return np.asarray(np.sqrt((known * (filled - mean[:, None]) ** 2).sum(axis=1) / n))
