"""Reading and writing of pandas and polars frames in long format.

A frame has one row for each series and time. Error messages name the row.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import utilsforecast.processing as ufp
from utilsforecast.preprocessing import fill_gaps
from utilsforecast.validation import ensure_time_dtype, validate_freq

from softboost._data.categories import as_text, frequent, indicators

from ._frame_forms import Names, as_long, is_frame
from ._frequency import guess_frequency, polars_word
from ._panel import Array, Future, Panel

__all__ = [
    "LongFrame",
    "add_columns",
    "checked_columns",
    "checked_times",
    "clock",
    "concatenate",
    "infer_freq",
    "join_future",
    "keys_of",
    "read_future",
    "read_long",
    "take",
]

Categories = dict[str, list[str]]


@dataclass
class LongFrame:
    """A checked and sorted frame, with its series as arrays.

    Attributes
    ----------
    native : pandas or polars frame
        Rows sorted by series and time.
    ids : pandas or polars series
        One id for each series, in the order of the panel.
    panel : Panel
    exog, static : list of str
        Columns whose future is known, and columns that are constant within each series.
    categories : dict of str to list of str
        Categories of each column that is not numeric; each category has a 0/1 column.
    cut : bool
        Whether the frame holds only the last rows of each series, as it does after loading from a file.
    """

    native: Any
    names: Names
    freq: str | int
    ids: Any
    panel: Panel
    exog: list[str]
    static: list[str]
    categories: Categories
    cut: bool = False

    def id_list(self) -> list[Any]:
        return list(self.ids.to_list())

    def future(self, h: int) -> Any:
        """Frame with ids and the next ``h`` times of every series."""
        last = take(self.native[[self.names.time]], self.panel.indptr[1:] - 1)[self.names.time]
        return ufp.make_future_dataframe(self.ids, last, self.freq, h, self.names.id, self.names.time)

    def known_at(self, moment: Any, static: list[str] | None = None, categories: Categories | None = None) -> LongFrame:
        """The frame as it would have been read at a moment: later rows decide neither categories nor static columns.

        Later rows are kept and encoded with the categories known at that moment, or with those given.
        """
        if not (self.exog or self.static):
            return self
        known = self.panel.times <= moment
        columns = _code_columns(self.native, self.names, self.panel.indptr, static, dict(categories or {}), known)
        panel = replace(self.panel, exog=columns.exog, static=columns.static)
        return replace(
            self, panel=panel, exog=columns.exog_names, static=columns.static_names, categories=columns.categories
        )

    def rows_ahead(self, back: Array, forecast: Array, columns: dict[str, Array]) -> Any:
        """Frame with a row for each forecast (n_series, n_windows, h) whose target exists; see :meth:`rows`."""
        start = self.panel.indptr[1:, None] - back
        rows = start[:, :, None] + np.arange(forecast.shape[2])
        there = ~np.isnan(forecast) & (rows < self.panel.indptr[1:, None, None])
        before = np.broadcast_to(start[:, :, None] - 1, rows.shape)
        return self.rows(rows[there], before[there], {k: v.reshape(there.shape)[there] for k, v in columns.items()})

    def rows(self, rows: Array, before: Array, columns: dict[str, Array]) -> Any:
        """Frame with ids, times and targets of ``rows``, cutoffs (times of the rows ``before``) and new columns."""
        names = self.names
        frame = take(self.native[[names.id, names.time, names.target]], rows)
        cutoff = take(self.native[[names.time]], before)[names.time]
        frame = ufp.assign_columns(frame, "cutoff", cutoff)
        return add_columns(frame, columns)


def add_columns(frame: Any, columns: dict[str, Array]) -> Any:
    """The frame with numeric columns appended."""
    for name, values in columns.items():
        frame = ufp.assign_columns(frame, name, values)
    return frame


def take(frame: Any, rows: Array) -> Any:
    """These rows of a frame, with a new index."""
    return ufp.drop_index_if_pandas(ufp.take_rows(frame, rows))


def concatenate(first: Any, second: Any) -> Any:
    """Rows of two frames of the same library, with the columns of the first."""
    if type(first) is not type(second):
        new, old = (type(frame).__module__.split(".")[0] for frame in (second, first))
        raise TypeError(f"new rows are a {new} frame, but the model was fitted on {old}; use the same library")
    missing = [c for c in first.columns if c not in second.columns]
    if missing:
        raise ValueError(f"new rows have no columns {missing}, which the model was fitted with")
    return ufp.vertical_concat([first, second[list(first.columns)]])


def infer_freq(df: Any, names: Names) -> str | int:
    """The frequency of the longest series, as a string of the frame's library."""
    df = checked_times(checked_columns(df, names), names.time)
    _refuse_nulls(df, names)
    frame = nw.from_native(df, eager_only=True)
    counts = frame.get_column(names.id).value_counts(sort=True, name="_count")
    most = set(counts.filter(nw.col("_count") == nw.col("_count").max()).get_column(names.id).to_list())
    longest = next(name for name in frame.get_column(names.id) if name in most)
    native = frame.filter(nw.col(names.id) == longest).to_native()
    found = guess_frequency(np.sort(native[names.time].to_numpy()))
    if found is None:
        raise ValueError(
            f"freq cannot be inferred, because the longest series, {longest!r}, has a single row; pass freq, "
            "e.g. freq='D', 'MS' or 'QS' for pandas, '1d', '1mo' or '1q' for polars, 1 for integers"
        )
    return found if isinstance(found, int) or isinstance(df, pd.DataFrame) else polars_word(found)


# -- reading -------------------------------------------------------------------------------------------------------


def read_long(
    df: Any,
    freq: str | int,
    names: Names,
    *,
    static: list[str] | None = None,
    gaps: str = "raise",
    categories: Categories | None = None,
    add_times: bool = True,
) -> LongFrame:
    """Check a long frame and convert it to arrays.

    ``gaps`` is "raise", "interpolate" or "forward" and applies to missing times and values. With ``static=None``,
    columns that are constant within each series are static. ``categories`` are those of an earlier frame.
    ``add_times=False`` rejects missing times whatever ``gaps`` is: rows from a file have no gaps, and two distant times
    must not become millions of rows.
    """
    df = checked_times(checked_columns(df, names), names.time)
    _refuse_nulls(df, names)
    validate_freq(df[names.time], freq)
    order = ufp.maybe_compute_sort_indices(df, names.id, names.time)
    original = np.arange(len(df)) if order is None else np.asarray(order)
    df = ufp.drop_index_if_pandas(df if order is None else ufp.take_rows(df, order))
    if gaps != "raise" and add_times:
        _check_times(df, freq, names, original, gaps_too=False)
        df = _with_all_times(df, freq, names, original)
        original = np.arange(len(df))
    _check_times(df, freq, names, original)
    y = _target(df, names, original, gaps)
    indptr = _starts(df, names)
    if np.isnan(y).any():
        kept = _from_first_value(y, indptr)
        df, y = take(df, kept), y[kept]
        indptr = _starts(df, names)
    times = clock(df[names.time])
    columns = _code_columns(df, names, indptr, static, dict(categories or {}), np.ones(len(df), dtype=bool))
    ids = ufp.counts_by_id(df, names.id)[names.id]
    panel = Panel(y, indptr, times, columns.exog, columns.static, gaps, keys_of(ids.to_list()))
    return LongFrame(df, names, freq, ids, panel, columns.exog_names, columns.static_names, columns.categories)


def keys_of(ids: Sequence[Any]) -> Array:
    """A number for each id: the same in every process, and for a frame of any library."""
    texts = np.array([str(name) for name in ids], dtype=object)
    return np.asarray(pd.util.hash_array(texts, categorize=False) >> np.uint64(1), dtype=np.int64)


def _starts(df: Any, names: Names) -> Array:
    """First row of every series, and the number of rows at the end."""
    counts = ufp.counts_by_id(df, names.id)["counts"].to_numpy()
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _from_first_value(y: Array, indptr: Array) -> Array:
    """Rows from the first known value of every series on; the last row of a series without any.

    Filling earlier rows would use later values.
    """
    rows = np.arange(len(y))
    known = np.where(np.isnan(y), len(y), rows)
    first = np.minimum(np.minimum.reduceat(known, indptr[:-1]), indptr[1:] - 1)
    return rows[rows >= np.repeat(first, np.diff(indptr))]


def checked_columns(df: Any, names: Names) -> Any:
    """The frame, if it has rows and the columns of a long frame."""
    if not is_frame(df):
        lazy = "; call collect() first" if type(df).__name__ == "LazyFrame" else ""
        raise TypeError(f"df must be a pandas or polars frame, got {type(df).__name__}{lazy}")
    wide = nw.from_native(df, eager_only=True)
    missing = [c for c in (names.id, names.time, names.target) if c not in wide.columns]
    if missing:
        added = names.id if missing == [names.target] and _is_one_series(wide, names) else None  # not the user's column
        found = [c for c in wide.columns if c != added]
        raise ValueError(
            f"df has no column {missing}; it has {found}. Rename columns, or pass id_col, time_col, target_col"
        )
    if len(wide) == 0:
        raise ValueError("df has no rows")
    target = wide.get_column(names.target)
    if not (target.dtype.is_numeric() or target.dtype == nw.Boolean):
        what = f"has dtype {target.dtype}{_first_text(target)}"
        raise ValueError(f"column {names.target!r} must contain numbers, but {what}")
    return df


def _is_one_series(wide: nw.DataFrame[Any], names: Names) -> bool:
    """Whether the ids are those of a frame that came without any; see :func:`as_long`."""
    return bool((wide.get_column(names.id) == names.target).all())


def checked_times(df: Any, name: str) -> Any:
    """The frame with its times as dates or integers; floats without a fraction become integers."""
    column = nw.from_native(df, eager_only=True).get_column(name)
    if column.dtype.is_float():
        values = column.to_numpy()
        odd = ~(np.isfinite(values) & (values == np.round(values)))
        if odd.any():
            row = int(np.argmax(odd))
            raise ValueError(
                f"column {name!r} must contain dates or integers, but row {row} is {values[row]}; "
                "convert it to dates (pandas.to_datetime), or number the times"
            )
        return ufp.assign_columns(df, name, column.cast(nw.Int64).to_native())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # pandas warns about text in an unknown format
            return ensure_time_dtype(df, name)
    except ValueError:
        early = _early_dates(column)
        if early is not None:
            return ufp.assign_columns(df, name, early)
        raise ValueError(
            f"column {name!r} must contain dates or integers, but has dtype {column.dtype}{_first_no_date(column)}; "
            "convert it to dates (pandas.to_datetime)"
        ) from None


def _early_dates(column: nw.Series[Any]) -> Array | None:
    """Dates before 1678, as objects or ISO text, which pandas 2 refuses; None for anything else."""
    try:
        dates = np.array(column.to_list(), dtype="datetime64[s]")
    except (TypeError, ValueError):
        return None
    return None if np.isnat(dates).any() else dates


def _first_no_date(column: nw.Series[Any]) -> str:
    for row, value in enumerate(column.to_list()):
        if pd.isna(pd.to_datetime(value, errors="coerce")):
            return f": row {row} is {value!r}"
    return ""


def _first_text(column: nw.Series[Any]) -> str:
    for row, value in enumerate(column.to_list()):
        try:
            float(value)
        except (TypeError, ValueError):
            return f": row {row} is {value!r}"
    return ""


def _refuse_nulls(df: Any, names: Names) -> None:
    frame = nw.from_native(df, eager_only=True)
    for name in (names.id, names.time):
        null = frame.get_column(name).is_null().to_numpy()
        if null.any():
            raise ValueError(f"column {name!r} is empty in row {int(np.argmax(null))}; fill it or drop the row")


def is_panic(error: BaseException) -> bool:
    """Whether this is a panic of polars, which older versions raise on overflowing times; it is not an Exception."""
    return type(error).__name__ == "PanicException"


def _check_times(df: Any, freq: str | int, names: Names, original: Array, gaps_too: bool = True) -> None:
    """Check that no time is repeated or missing within a series."""
    frame = nw.from_native(df, eager_only=True)
    ids = frame.get_column(names.id)
    same = (ids[1:].to_numpy() == ids[:-1].to_numpy()) if len(ids) > 1 else np.zeros(0, dtype=bool)
    times = df[names.time]
    now = clock(times)
    twice = same & (now[1:] == now[:-1])
    if twice.any():
        row = int(np.argmax(twice))
        raise ValueError(
            f"rows {original[row]} and {original[row + 1]} are both series {ids[row]!r} at {names.time}={times[row]}; "
            "keep one of them or aggregate them"
        )
    if not gaps_too:
        return
    try:
        expected = clock(ufp.offset_times(times, freq, 1))
    except BaseException as error:
        if not is_panic(error):
            raise
        raise ValueError(f"{names.time} contains times that cannot be advanced by freq={freq!r}") from None
    gap = same & (now[1:] != expected[:-1])
    if not gap.any():
        return
    row = int(np.argmax(gap))
    step = (
        f"from {_shown(now[row])} (row {original[row]}) to {_shown(now[row + 1])} (row {original[row + 1]}), but "
        f"freq={freq!r} expects {_shown(expected[row])}"
    )
    if 2 * gap.sum() > same.sum():
        found = _word(guess_frequency(np.sort(now[ids.to_numpy() == ids[row]])), df)
        likely = f"; its times look like freq={found!r}" if found is not None and found != freq else ""
        raise ValueError(f"most rows do not follow freq={freq!r}: series {ids[row]!r} goes {step}{likely}")
    if _reaches(take(times, np.array([row])), freq, now[row + 1]):
        raise ValueError(
            f"series {ids[row]!r} has a gap: it goes {step}. Set gaps='interpolate' or gaps='forward' to accept gaps, "
            "or add the missing rows"
        )
    raise ValueError(f"series {ids[row]!r} has an irregular time: it goes {step}; correct the time")


def _reaches(start: Any, freq: str | int, end: Any) -> bool:
    """Whether steps of ``freq`` lead from a time (a column of one row) to another; gaps beyond 1,000 steps count."""
    for n_steps in range(1, 1000):
        reached = clock(ufp.offset_times(start, freq, n_steps))[0]
        if reached >= end:
            return bool(reached == end)
    return True


def _word(freq: str | int | None, df: Any) -> str | int | None:
    """A frequency as a string of the frame's library; None where it has no word for it."""
    if not isinstance(freq, str) or isinstance(df, pd.DataFrame):
        return freq
    try:
        return polars_word(freq)
    except ValueError:
        return None


def _with_all_times(df: Any, freq: str | int, names: Names, original: Array) -> Any:
    """The frame with a row for every time between the first and the last of each series."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows that were lost are reported below
        filled = fill_gaps(df, freq, end="per_serie", id_col=names.id, time_col=names.time)
    keys = [names.id, names.time]
    numbered = nw.from_native(df, eager_only=True).select(*keys).with_row_index("_row")
    lost = numbered.join(nw.from_native(filled, eager_only=True).select(*keys), on=keys, how="anti")
    if len(lost):
        row = int(lost.get_column("_row").to_numpy().min())
        raise ValueError(
            f"row {original[row]} (series {df[names.id][row]!r}, {names.time}={_shown(clock(df[names.time])[row])}) "
            f"cannot be reached from the first time of its series by steps of freq={freq!r}; correct the time or freq"
        )
    return filled


def _shown(time: Any) -> str:
    """A time as frames show it."""
    if not isinstance(time, np.datetime64):
        return str(time)
    return str(time.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")


def _target(df: Any, names: Names, original: Array, gaps: str) -> Array:
    """The target as floats, with NaN for missing values if gaps are accepted."""
    y = nw.from_native(df, eager_only=True).get_column(names.target).cast(nw.Float64).to_numpy()
    y = np.array(y, dtype=np.float64)
    bad = np.isinf(y) if gaps != "raise" else ~np.isfinite(y)
    if bad.any():
        row = int(np.argmax(bad))
        where = f"row {original[row]} (series {df[names.id][row]!r}, {names.time}={df[names.time][row]})"
        help_ = "" if np.isinf(y[row]) else ", or set gaps='interpolate' or gaps='forward'"
        raise ValueError(f"column {names.target!r} is {y[row]} in {where}; replace the value or drop the row{help_}")
    return y


def clock(times: Any) -> Array:
    """Times as integers or as datetime64 of the local clock, without time zone."""
    column = nw.from_native(times, series_only=True)
    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("us"))
    if isinstance(column.dtype, nw.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.replace_time_zone(None)
    values = column.to_numpy()
    if values.dtype.kind != "M":
        return np.asarray(values.astype(np.int64))
    # microseconds reach dates before 1678, nanoseconds do not
    return np.asarray(values if values.dtype == "datetime64[ns]" else values.astype("datetime64[us]"))


@dataclass(frozen=True)
class _Columns:
    """Further columns of a frame as numbers."""

    exog_names: list[str]
    static_names: list[str]
    exog: Array
    static: Array
    categories: Categories


def _code_columns(
    df: Any, names: Names, indptr: Array, static: list[str] | None, categories: Categories, known: Array
) -> _Columns:
    """Encode further columns; only the rows marked by ``known`` decide which are static and what categories exist."""
    extra = [c for c in df.columns if c not in (names.id, names.time, names.target)]
    static_names = _static_columns(df, extra, indptr, static, names, known)
    exog_names = [c for c in extra if c not in static_names]
    first = indptr[:-1]
    exog = _matrix(df, exog_names, categories, known)
    static_values = _matrix(ufp.take_rows(df, first), static_names, categories, known[first])
    return _Columns(exog_names, static_names, exog, static_values, categories)


def _static_columns(
    df: Any, extra: list[str], indptr: Array, static: list[str] | None, names: Names, known: Array
) -> list[str]:
    for name in static or []:
        if name not in extra:
            raise ValueError(f"static_features contains {name!r}, which is not a column of df; it has {extra}")
    constant = []
    for name in extra if static is None else static:
        changes = _changes(df, name, indptr) & known
        if not changes.any():
            constant.append(name)
        elif static is not None:
            series = df[names.id][int(np.argmax(changes))]
            raise ValueError(f"static_features contains {name!r}, but it changes within series {series!r}")
    return constant


def _changes(df: Any, name: str, indptr: Array) -> Array:
    """For each row, whether the value of a column differs from the first value of its series; nulls do not count."""
    column = nw.from_native(df, eager_only=True).get_column(name)
    values = np.array(column.to_list(), dtype=object)
    first = np.repeat(values[indptr[:-1]], np.diff(indptr))
    null = column.is_null().to_numpy() | np.array([v != v for v in values], dtype=bool)
    return (values != first) & ~null


def _matrix(df: Any, columns: list[str], categories: Categories, known: Array | None = None) -> Array:
    """Columns as numbers; text and categories become 0/1 columns.

    Categories of a column that is not in ``categories`` are learned from the rows marked by ``known`` and added to it.
    """
    frame = nw.from_native(df, eager_only=True)
    out = []
    for name in columns:
        column = frame.get_column(name)
        if (column.dtype.is_numeric() or column.dtype == nw.Boolean) and name not in categories:
            values = np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
            if np.isinf(values).any():
                found = values[np.argmax(np.isinf(values))]
                raise ValueError(f"column {name!r} contains {found}; use finite numbers, or NaN for missing values")
            out.append(values)
            continue
        if isinstance(column.dtype, (nw.Datetime, nw.Date, nw.Duration)):
            raise ValueError(f"column {name!r} contains times; convert it to numbers or drop it")
        texts = as_text(column.to_list(), missing="")
        if name not in categories:
            seen = texts if known is None else texts[known]
            categories[name] = frequent(seen, least=1)  # a static column has only one row per series
        out.append(indicators(texts, categories[name], np.float64))
    return np.column_stack(out) if out else np.empty((len(frame), 0))


def read_future(long: LongFrame, h: int, X_df: Any) -> tuple[Any, Future]:
    """Frame of ids and the next ``h`` times, and their exogenous columns from ``X_df``."""
    future = long.future(h)
    names, n_series = long.names, long.panel.n_series
    times = clock(future[names.time]).reshape(n_series, h)
    if not long.exog:
        return future, Future(times, np.empty((n_series, h, 0)))
    if X_df is None:
        raise ValueError(
            f"the model was fitted with the exogenous columns {long.exog}; pass their future values as X_df, or drop "
            "these columns before fitting"
        )
    joined = join_future(future, X_df, names, long.exog)
    exog = _matrix(joined, long.exog, long.categories)
    return future, Future(times, exog.reshape(n_series, h, -1))


def join_future(future: Any, X_df: Any, names: Names, columns: list[str]) -> Any:
    """The frame of future times with the exogenous columns of ``X_df``."""
    left = nw.from_native(future, eager_only=True).with_row_index("_row")
    X_df = as_long(X_df, names)
    right = nw.from_native(X_df, eager_only=True)
    missing = [c for c in [names.id, names.time, *columns] if c not in right.columns]
    if missing:
        raise ValueError(f"X_df has no columns {missing}; it has {right.columns}")
    right = nw.from_native(checked_times(X_df, names.time), eager_only=True)
    keys = [names.id, names.time]
    right = right.select(*keys, *columns, nw.lit(1).alias("_given"))
    right = right.with_columns(*[nw.col(key).cast(left.schema[key]) for key in keys])
    if len(right.unique(subset=keys)) < len(right):
        raise ValueError(f"X_df has several rows for one {names.id} and {names.time}; keep one of each")
    joined = left.join(right, on=keys, how="left").sort("_row")
    absent = joined.get_column("_given").is_null().to_numpy()
    if absent.any():
        row = int(np.argmax(absent))
        raise ValueError(
            f"X_df has no row for series {joined.get_column(names.id)[row]!r} at {joined.get_column(names.time)[row]}"
            f" ({int(absent.sum())} of {len(absent)} are missing)"
        )
    return joined.to_native()
