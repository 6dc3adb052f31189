"""Columns of the regressions: lags, statistics of lags and the calendar, given or chosen by frequency and length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from coreforecast.lag_transforms import Lag

from ._panel import Array, grouped
from .lag_transforms import MAX_REACH, RollingMean, RollingStd, kernel_of, reach_of

__all__ = ["FeatureChooser", "Features", "choose_features", "season_of"]

DateFeature = str | Callable[[Any], Any]

# Season length and calendar columns by the unit of the frequency, for pandas and polars.
_UNITS: dict[str, tuple[int, tuple[str, ...]]] = {
    "s": (60, ("minute",)),
    "min": (60, ("minute", "hour")),
    "h": (24, ("hour", "dayofweek")),
    "d": (7, ("dayofweek", "month")),
    "b": (5, ("dayofweek", "month")),
    "w": (52, ("month",)),
    "mo": (12, ("month",)),
    "q": (4, ("quarter",)),
    "y": (1, ()),
}
# Other names (MS, QE, YS, 1m, ...) by their first letter.
_UNIT_OF_LETTER = {letter: unit for letters, unit in [
    ("S", "s"), ("Tm", "min"), ("H", "h"), ("D", "d"), ("B", "b"), ("W", "w"), ("M", "mo"), ("Q", "q"), ("YA", "y"),
] for letter in letters}  # fmt: skip

DATE_ATTRIBUTES = (
    "year", "quarter", "month", "day", "hour", "minute", "second", "microsecond", "nanosecond", "dayofweek",
    "day_of_week", "weekday", "dayofyear", "day_of_year", "days_in_month", "daysinmonth", "is_month_start",
    "is_month_end", "is_quarter_start", "is_quarter_end", "is_year_start", "is_year_end", "is_leap_year",
)  # fmt: skip

# Older names of pandas, which mlforecast accepts, and their current names.
_ATTRIBUTES = {"dayofweek": "day_of_week", "weekday": "day_of_week", "dayofyear": "day_of_year"}


def season_of(freq: str | int) -> tuple[int, tuple[str, ...]]:
    """Season length (1 if there is none) and calendar columns of a frequency.

    Examples
    --------
    >>> from softboost.forecast._features import season_of
    >>> season_of("ME"), season_of("15min"), season_of("1mo"), season_of(1)
    ((12, ('month',)), (96, ('minute', 'hour')), (12, ('month',)), (1, ()))
    """
    if not isinstance(freq, str):
        return 1, ()
    word = freq.lstrip("0123456789")
    count = int(freq[: len(freq) - len(word)] or 1)
    unit = word.split("-")[0]
    if unit not in _UNITS:
        unit = _UNIT_OF_LETTER.get(unit[:1], "")
    if unit not in _UNITS:
        return 1, ()
    season, calendar = _UNITS[unit]
    if count == 1:
        return season, calendar
    if unit == "min" and 1440 % count == 0:
        return 1440 // count, calendar
    if unit == "mo" and count == 3:
        return _UNITS["q"]
    return (season // count, calendar) if season % count == 0 else (1, calendar)


@dataclass(frozen=True)
class Features:
    """The columns of a regression.

    Attributes
    ----------
    lags : list of int
        1 is the previous value.
    lag_transforms : dict of int to list
        Statistics of the values up to this lag.
    date_features : list of str or callable
        Attributes of a pandas DatetimeIndex, or functions of one.
    """

    lags: Sequence[int] = ()
    lag_transforms: dict[int, Sequence[Any]] = field(default_factory=dict)
    date_features: Sequence[DateFeature] = ()

    def __post_init__(self) -> None:
        for lag in [*self.lags, *self.lag_transforms]:
            if not isinstance(lag, (int, np.integer)) or isinstance(lag, bool) or lag < 1:
                raise ValueError(f"lags must be integers of at least 1, got {lag!r}; 1 is the previous value")
            if lag > MAX_REACH:
                raise ValueError(f"lags must be at most {MAX_REACH:,}, got {lag!r}")
        for feature in self.date_features:
            if not callable(feature) and feature not in DATE_ATTRIBUTES:
                raise ValueError(
                    f"date_features contains {feature!r:.80}, which is not supported; choose from "
                    f"{list(DATE_ATTRIBUTES)}, or pass a function of a pandas DatetimeIndex"
                )

    def kernels(self) -> list[tuple[str, Any]]:
        """Name and coreforecast kernel of every column of past values."""
        out = [(f"lag{lag}", Lag(lag)) for lag in self.lags]
        out += [kernel_of(t, lag) for lag, transforms in self.lag_transforms.items() for t in transforms]
        return out

    def names(self) -> list[str]:
        """Names of the columns of past values, followed by those of the calendar."""
        return [name for name, _ in self.kernels()] + [_date_name(f) for f in self.date_features]

    def reach(self) -> int | None:
        """Number of past values that the columns use; None if a statistic uses all of them."""
        reaches = [reach_of(t, lag) for lag, transforms in self.lag_transforms.items() for t in transforms]
        if None in reaches:
            return None
        return max([0, *map(int, self.lags), *[r for r in reaches if r is not None]])

    def of_rows(self, z: Array, indptr: Array) -> Array:
        """Columns of past values for every row (n_rows, n_columns); NaN before the start of a series."""
        values = grouped(z, indptr)
        columns = [kernel.transform(values) for _, kernel in self.kernels()]
        return np.column_stack(columns) if columns else np.empty((len(z), 0))

    def ahead(self, z: Array, indptr: Array) -> Ahead:
        """Columns of the rows after the end of every series, step by step."""
        return Ahead(self, z, indptr)

    def calendar(self, times: Array) -> Array:
        """Calendar columns (n_rows, n_date_features)."""
        if not self.date_features:
            return np.empty((len(times), 0))
        if times.dtype.kind != "M":
            raise ValueError(
                f"date_features={self.date_features!r} require dates, but the time column contains integers"
            )
        index = pd.DatetimeIndex(times)
        columns = [f(index) if callable(f) else getattr(index, _ATTRIBUTES.get(f, f)) for f in self.date_features]
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


class Ahead:
    """Columns of past values for the next row of each series; values can be appended."""

    def __init__(self, features: Features, z: Array, indptr: Array) -> None:
        self._values = grouped(z, indptr)
        self._kernels = [copy.copy(kernel) for _, kernel in features.kernels()]
        for kernel in self._kernels:
            if "Expanding" in type(kernel).__name__ or "Exponentially" in type(kernel).__name__:
                kernel.transform(self._values)  # these keep a state

    def columns(self) -> Array:
        """Columns of the next row (n_series, n_columns)."""
        columns = [kernel.update(self._values).copy() for kernel in self._kernels]
        return np.column_stack(columns) if columns else np.empty((len(self._values.indptr) - 1, 0))

    def append(self, z: Array) -> None:
        """Append a value to each series."""
        self._values = self._values._append(grouped(z, np.arange(len(z) + 1)))


def _date_name(feature: DateFeature) -> str:
    return feature if isinstance(feature, str) else getattr(feature, "__name__", repr(feature))


@dataclass(frozen=True)
class FeatureChooser:
    """Default columns by the length of a series."""

    freq: str | int
    season: int
    has_dates: bool
    longer: int = 0

    def __call__(self, length: int) -> Features:
        """The columns for series of this length."""
        return choose_features(self.freq, self.season, length, self.has_dates, self.longer)


def choose_features(freq: str | int, season: int, length: int, has_dates: bool, longer: int = 0) -> Features:
    """Columns for series of this frequency, season length and (typical) length.

    - Lags up to a sixth of the length, but at most two seasons or eight values, whichever is more, and at most 24.
    - Seasonal lags if there are three seasons. The same holds for a second, longer season (168 hours) and for the
      multiples of the first season up to it.
    - Means over up to three windows and one standard deviation, for windows of at most a quarter of the length.
    - Calendar columns if there are two seasons.

    Examples
    --------
    >>> from softboost.forecast._features import choose_features
    >>> features = choose_features("QS", 4, 60, has_dates=True)
    >>> features.lags, features.date_features
    ([1, 2, 3, 4, 5, 6, 7, 8], ['quarter'])
    """
    reach = min(24, max(8, 2 * season))
    lags = list(range(1, max(1, min(reach, length // 6)) + 1))
    if season > 1:
        lags += [m for m in (season, season + 1, 2 * season) if m not in lags and 3 * m <= length]
        if season < longer <= length // 3:
            far = [*range(3 * season, min(longer, 8 * season), season), longer - 1, longer, longer + 1]
            lags += [m for m in far if m not in lags]
    windows = sorted({w for w in (4, season, 2 * season) if 4 <= w <= 104 and 4 * w <= length})
    statistics: list[Any] = [RollingMean(w, min_samples=2) for w in windows[:3]]
    if windows:
        statistics.append(RollingStd(windows[-1], min_samples=2))
    calendar = season_of(freq)[1] if has_dates and season > 1 and length >= 2 * season else ()
    return Features(lags, {1: statistics} if statistics else {}, list(calendar))
