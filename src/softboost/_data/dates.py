"""Dates and times as numbers: elapsed time, and the parts of the calendar that vary in the training rows.

A date column becomes its elapsed days. These columns are added:

- sine and cosine of the time of year, if the training rows span about a year or more;
- a 0/1 column for each weekday, unless the rows span less than a week, or all fall on the first or last of a month;
- sine and cosine of the time of day, if it varies.

Times with a zone have the calendar of their zone and elapse as in UTC.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from .categories import frequent, is_missing

__all__ = ["calendar_columns", "calendar_parts", "is_date_column", "read_dates"]

Array = NDArray[Any]
DAY = 86400.0
YEAR = 365.2425
WHOLE_YEAR = 350  # days that the rows must span for the time of year
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WAVES = {  # name of a cyclic part: length in days, and the wave
    "time of year (sine)": (YEAR, np.sin),
    "time of year (cosine)": (YEAR, np.cos),
    "time of day (sine)": (1.0, np.sin),
    "time of day (cosine)": (1.0, np.cos),
}
EPOCH = dt.datetime(1970, 1, 1)


def is_date_column(column: nw.Series[Any]) -> bool:
    """Whether a column holds dates, times, times of day or, as objects of Python, dates."""
    if column.dtype in (nw.Datetime, nw.Date, nw.Time):
        return True
    if column.dtype != nw.Object and column.dtype != nw.Unknown:
        return False
    present = [value for value in column.to_list() if not is_missing(value)]
    return bool(present) and all(isinstance(v, (dt.date, dt.time)) or hasattr(v, "to_timestamp") for v in present)


def read_dates(column: nw.Series[Any]) -> tuple[Array, Array]:
    """Elapsed days since 1970 in UTC, and days since 1970 by the clock and calendar of the zone; NaN if missing."""
    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("us"))
    if column.dtype == nw.Datetime:
        local = column.dt.replace_time_zone(None) if getattr(column.dtype, "time_zone", None) else column
        return _days(column), _days(local)
    both = [_python_days(value) for value in column.to_list()]
    elapsed, clock = np.array(both, dtype=np.float64).reshape(-1, 2).T
    return np.ascontiguousarray(elapsed), np.ascontiguousarray(clock)


def _days(column: nw.Series[Any]) -> Array:
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    stamps = np.zeros(len(missing))
    stamps[~missing] = column.filter(~column.is_null()).dt.timestamp("us").to_numpy()
    return np.where(missing, np.nan, stamps / (1e6 * DAY))


def _python_days(value: Any) -> tuple[float, float]:
    """The same for one object of Python: a date, a time, a time of day or a period of pandas."""
    if is_missing(value):
        return np.nan, np.nan
    if hasattr(value, "to_timestamp"):
        value = value.to_timestamp()
    if isinstance(value, dt.time):
        clock = (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / DAY
        return clock, clock
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    local = (value.replace(tzinfo=None) - EPOCH).total_seconds() / DAY
    offset = value.utcoffset()
    return local - (0.0 if offset is None else offset.total_seconds() / DAY), local


def calendar_parts(clock: Array, weight: Array | None) -> list[str]:
    """The parts of the calendar that vary in days by the clock, in the order of their columns."""
    here = np.isfinite(clock)
    days, weight = clock[here], None if weight is None else weight[here]
    if not len(days):
        return []
    parts: list[str] = []
    span = days.max() - days.min()
    whole = np.floor(days)
    if span >= WHOLE_YEAR:
        parts += [name for name in WAVES if "year" in name]
    if span >= 6 and not _at_ends_of_months(whole):
        kept = frequent(_weekdays(days), weight)
        parts += [name for name in WEEKDAYS if name in kept] if len(kept) > 1 else []
    if np.ptp(days - whole) > 1e-6:
        parts += [name for name in WAVES if "of day" in name]
    return parts


def calendar_columns(clock: Array, parts: list[str], dtype: Any) -> Array:
    """One column for each part, shape (n_samples, n_parts); waves of a missing date are NaN."""
    weekdays = _weekdays(clock)
    out = np.empty((len(clock), len(parts)), dtype=dtype)
    for k, name in enumerate(parts):
        if name in WAVES:
            length, wave = WAVES[name]
            out[:, k] = wave(2 * np.pi / length * np.mod(clock, length))
        else:
            out[:, k] = weekdays == name
    return out


def _weekdays(clock: Array) -> Array:
    """Names of weekdays; None if missing."""
    here = np.isfinite(clock)
    names = np.full(len(clock), None, dtype=object)
    names[here] = np.array(WEEKDAYS, dtype=object)[(np.floor(clock[here]).astype(np.int64) + 3) % 7]
    return names


def _at_ends_of_months(whole: Array) -> bool:
    """Whether all days are the first, or all the last, of a month."""
    days = whole.astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    first = days == months.astype("datetime64[D]")
    last = days == (months + 1).astype("datetime64[D]") - 1
    return bool(first.all() or last.all())
