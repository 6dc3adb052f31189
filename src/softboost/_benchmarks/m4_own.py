"""softboost's own forecasts of short quarterly series: columns in units of each series, all steps at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from coreforecast.grouped_array import GroupedArray
from coreforecast.lag_transforms import ExpandingMean, ExponentiallyWeightedMean, Lag, RollingMean, RollingStd
from numpy.typing import NDArray

from softboost import SoftBoostRegressor

__all__ = ["Origins", "forecast_own"]

Array = NDArray[np.float64]
PERIOD = 4
N_LAGS = 12
N_YEARS = 5
LEAST_ROWS = 7  # known rows that an origin needs
N_ORIGINS = 12  # last origins of each series to learn from
CLIP = 30.0


class Origins:
    """Every row as an origin: what is known there, in units of the series' own changes.

    Values are logarithms. The unit is the mean size of changes over a quarter and over a year, up to the origin.
    """

    def __init__(self, y: Array, starts: NDArray[np.int64]) -> None:
        self.z = np.log(y)
        self.starts = starts
        self.position = np.arange(len(y)) - np.repeat(starts[:-1], np.diff(starts))
        change, yearly = self.z - self._lag(self.z, 1), self.z - self._lag(self.z, PERIOD)
        per_quarter, per_year = self._mean_so_far(np.abs(change)), self._mean_so_far(np.abs(yearly))
        per_year = np.where(np.isnan(per_year), 2 * per_quarter, per_year)
        self.unit = np.maximum(np.nan_to_num(0.5 * per_quarter + 0.5 * per_year), 1e-4)
        past = [self._lag(change, lag) for lag in range(PERIOD * N_YEARS)]
        columns = past[:N_LAGS]
        columns += [self.z - self._lag(self.z, lag) for lag in (4, 8, 12, 16)]
        columns.append(self._mean_so_far(change))
        columns += [self._mean([past[PERIOD * year - k] for year in range(1, N_YEARS + 1)]) for k in range(1, 5)]
        columns += [self._smooth(self.z, alpha) - self.z for alpha in (0.2, 0.5)]
        columns += [self._smooth(change, alpha) for alpha in (0.1, 0.3)]
        columns += [self._kernel(RollingMean(0, PERIOD), self.z) - self.z, self._kernel(RollingStd(0, 8, 3), change)]
        own = [np.log(self.unit), np.log1p(self.position), self.z, per_quarter / self.unit]
        self.columns = np.column_stack([*(c / self.unit for c in columns), *own])

    def _kernel(self, kernel: Any, values: Array) -> Array:
        return np.asarray(kernel.transform(GroupedArray(values, self.starts.astype(np.int32))))

    def _lag(self, values: Array, lag: int) -> Array:
        return self._kernel(Lag(lag), values) if lag else values

    def _mean_so_far(self, values: Array) -> Array:
        return self._kernel(ExpandingMean(0, skipna=True), values)

    def _smooth(self, values: Array, alpha: float) -> Array:
        return self._kernel(ExponentiallyWeightedMean(0, alpha, skipna=True), values)

    @staticmethod
    def _mean(columns: list[Array]) -> Array:
        """Mean of what is known, NaN where nothing is."""
        stacked = np.stack(columns)
        known = ~np.isnan(stacked)
        total = np.where(known, stacked, 0.0).sum(axis=0)
        return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)

    def rows(self, n_back: int) -> NDArray[np.int64]:
        """Row ``n_back`` before the last of every series that has enough rows up to there."""
        rows = self.starts[1:] - 1 - n_back
        return rows[rows - self.starts[:-1] + 1 >= LEAST_ROWS]

    def targets(self, rows: NDArray[np.int64], h: int) -> Array:
        ahead = self.z[rows[:, None] + np.arange(1, h + 1)] - self.z[rows][:, None]
        return np.clip(ahead / self.unit[rows][:, None], -CLIP, CLIP)


def forecast_own(y: Array, starts: NDArray[np.int64], h: int, n_rounds: int = 150) -> tuple[Array, Array, Array]:
    """Forecasts and 95 percent bounds (n_series, h) from one model with a vector of all steps in its leaves.

    Bounds come from a second fit that has not seen the last ``h`` values: its errors there, in units of the series,
    give the width of every step.
    """
    origins = Origins(y, starts)
    last = starts[1:] - 1
    judged = origins.rows(h)
    held_back = _fit(origins, h, 2 * h, n_rounds).predict(origins.columns[judged])
    error = np.abs(origins.targets(judged, h) - held_back)
    width = np.quantile(error, 0.95, axis=0)
    centre = _fit(origins, h, h, n_rounds).predict(origins.columns[last])
    level, unit = origins.z[last][:, None], origins.unit[last][:, None]
    return (
        np.exp(level + unit * centre),
        np.exp(level + unit * (centre - width)),
        np.exp(level + unit * (centre + width)),
    )


def _fit(origins: Origins, h: int, n_back: int, n_rounds: int) -> SoftBoostRegressor:
    """Learn from the last origins whose targets lie at least ``n_back - h`` rows before the end."""
    rows = np.concatenate([origins.rows(n_back + i) for i in range(N_ORIGINS)])
    model = SoftBoostRegressor(
        n_estimators=n_rounds, learning_rate=0.1, depth=3, loss="absolute_error", feature_transform=None,
        leaves="linear", gates="greedy", init="constant",
    )  # fmt: skip
    return model.fit(origins.columns[rows], origins.targets(rows, h))
