"""Conversion of other data frames to the long format: one series without ids, dates in the index, periods, pyarrow.

The result has a column of ids, a column of dates or integers, and NumPy columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import utilsforecast.processing as ufp

from ._frequency import guess_frequency

__all__ = ["Names", "as_long", "is_frame", "long_with_freq", "without_pyarrow"]

ID = "unique_id"


@dataclass(frozen=True)
class Names:
    """Column names of a long frame."""

    id: str = ID
    time: str = "ds"
    target: str = "y"


def as_long(df: Any, names: Names) -> Any:
    """The frame in long format; see :func:`long_with_freq`."""
    return long_with_freq(df, names)[0]


def long_with_freq(df: Any, names: Names) -> tuple[Any, str | None]:
    """The frame in long format, and the frequency of its periods, if its times are periods.

    - A pandas Series with dates in its index becomes a frame.
    - Ids and times may be in the index of a pandas frame.
    - Periods become the time at which they start.
    - pyarrow columns become NumPy columns.
    - A frame without the column ``unique_id`` is one series with the name of the target.
    """
    freq = None
    if isinstance(df, pd.Series):
        df = df.to_frame(names.target)
    if isinstance(df, pd.DataFrame):
        df = without_pyarrow(_index_to_columns(df, names))
        if names.time in df.columns and isinstance(df[names.time].dtype, pd.PeriodDtype):
            freq = _freq_of_periods(df[names.time].dtype)
            df = df.assign(**{names.time: _starts_of_periods(df[names.time])})
    if is_frame(df) and names.id == ID and ID not in df.columns and names.time in df.columns and len(df):
        df = _one_series(df, names)
    return df, freq


def is_frame(df: Any) -> bool:
    """Whether df is a pandas or polars data frame in memory."""
    of_polars = type(df).__module__.split(".")[0] == "polars" and type(df).__name__ == "DataFrame"
    return isinstance(df, pd.DataFrame) or of_polars


def _index_to_columns(df: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The frame with index levels of ids and times as columns."""
    wanted = [name for name in (names.id, names.time) if name not in df.columns]
    if names.time in wanted and isinstance(df.index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return df.rename_axis(index=names.time).reset_index()
    levels = [name for name in df.index.names if name in wanted]
    return df.reset_index(levels) if levels else df


def without_pyarrow(df: pd.DataFrame) -> pd.DataFrame:
    """The frame with pyarrow columns converted to NumPy."""
    changed = {
        name: pd.Series(_to_numpy(df[name]), index=df.index)
        for name in df.columns
        if isinstance(df[name].dtype, pd.ArrowDtype)
    }
    return df.assign(**changed) if changed else df


def _to_numpy(column: pd.Series[Any]) -> Any:
    import pyarrow  # noqa: PLC0415 - optional; installed if a column has this type

    values = pyarrow.array(column.array).to_pandas(date_as_object=False)
    return getattr(values, "array", values)


def _freq_of_periods(dtype: Any) -> str | None:
    """Frequency of the start times of periods of this type."""
    starts = pd.period_range("2001-01-01", periods=40, freq=dtype.freq).to_timestamp()
    found = guess_frequency(starts)
    return None if found is None else str(found)


def _starts_of_periods(periods: pd.Series[Any]) -> Any:
    try:
        return periods.dt.to_timestamp()
    except pd.errors.OutOfBoundsDatetime:  # before 1678: pandas 2 counts nanoseconds here
        return np.array(periods.dt.asfreq("D", "start").astype(str), dtype="datetime64[s]")


def _one_series(df: Any, names: Names) -> Any:
    """The frame with a column of ids for a single series."""
    times = nw.from_native(df, eager_only=True).get_column(names.time)
    twice = times.is_duplicated().to_numpy()
    if twice.any():
        first = int(np.argmax(twice))
        same = [row for row in np.flatnonzero(twice) if times[int(row)] == times[first]]
        raise ValueError(
            f"df has no column {ID!r} and is read as one series, but rows {first} and {same[1]} have the same "
            f"{names.time}={times[first]}; pass the column that names the series as id_col, or keep one row for each "
            "time"
        )
    return ufp.assign_columns(df, ID, np.full(len(df), names.target, dtype=object).tolist())
