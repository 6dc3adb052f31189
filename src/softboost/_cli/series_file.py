"""Reads a file of series into a data frame in long format; infers the columns, and errors name line and column."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.forecast._frequency import guess_frequency

from .table_file import Format, TableError, numbers_of, read_table, shown_path

__all__ = ["SeriesFile", "TableError", "read_future", "read_series"]

ID_NAMES = ("unique_id", "series_id", "id", "series", "item_id", "item", "sku", "ticker", "symbol", "name", "store")
TIME_NAMES = (
    "ds", "date", "datetime", "timestamp", "time", "day", "week", "month", "quarter", "year", "period", "t", "step",
)  # fmt: skip
TARGET_NAMES = ("y", "target", "value", "sales", "demand", "close", "price", "count", "quantity")
DATE_FORMATS = (
    "ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y/%m/%d",
    "%d-%m-%Y", "%b %Y", "%B %Y",
)  # fmt: skip
GAPS = {"", "na", "n/a", "nan", "null", "none"}


@dataclass
class SeriesFile:
    """The content of a file of series.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns ``unique_id``, ``ds``, ``y`` and those asked for, sorted by series and time.
    lines : ndarray of shape (n_rows,)
        Line number of each row in the file (in a Parquet file, its row number, from one).
    path : Path
    remarks : list of str
        Inferred and ignored columns, one remark each.
    """

    frame: pd.DataFrame
    lines: Any
    path: Path
    remarks: list[str] = field(default_factory=list)

    def check_regular(self, freq: str | int) -> None:
        """Raise an error that names the lines if a series has a gap or does not follow ``freq``."""
        ids, times = self.frame["unique_id"].to_numpy(), self.frame["ds"]
        if isinstance(freq, int):
            expected = times + freq
        else:
            with warnings.catch_warnings():  # pandas warns that some offsets are added one by one
                warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
                expected = pd.Series(pd.DatetimeIndex(times) + pd.tseries.frequencies.to_offset(freq))
        same = ids[1:] == ids[:-1]
        wrong = same & (times.to_numpy()[1:] != expected.to_numpy()[:-1])
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        step = (
            f"from {_shown(times[row])} (line {self.lines[row]}) to {_shown(times[row + 1])} (line "
            f"{self.lines[row + 1]}), but --freq {freq} expects {_shown(expected[row])}"
        )
        name, series = shown_path(self.path), f"series {ids[row]!r}"
        if 2 * wrong.sum() > same.sum():
            found = guess_frequency(np.sort(times.to_numpy()[ids == ids[row]]))
            likely = f"; its times look like --freq {found}" if found is not None and found != freq else ""
            raise TableError(f"{name}: most lines do not follow --freq {freq}: {series} goes {step}{likely}")
        raise TableError(
            f"{name}: {series} has a gap: it goes {step}; use --gaps interpolate or --gaps forward to accept gaps"
        )


def read_series(
    path: str | Path,
    *,
    id_column: str | None = None,
    time_column: str | None = None,
    target: str | None = None,
    columns: Sequence[str] = (),
    wide: bool = False,
    form: Format | None = None,
    allow_gaps: bool = False,
    say: Callable[[str], None] = lambda remark: None,
) -> SeriesFile:
    r"""Read a CSV or Parquet file of one or many series, with one row per series and time, or in wide format.

    Parameters
    ----------
    path : path
        Text with separators or Parquet, optionally compressed with gzip; ``-`` reads stdin.
    id_column, time_column, target : str or None, default=None
        Columns with the series, the time and the value; None infers them from names and contents.
    columns : sequence of str, default=()
        Further columns to read.
    wide : bool, default=False
        Read every column of numbers as a series. False infers it.
    form : Format or None, default=None
        Separator, decimal mark and encoding; None infers them.
    allow_gaps : bool, default=False
        Treat empty values as missing instead of raising an error.
    say : callable, default: nothing
        Called with every remark at once, so that remarks precede a later error.

    Returns
    -------
    file : SeriesFile

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("month,sales\n2024-01,3\n2024-02,5\n")
    >>> file = read_series(path)
    >>> file.frame["y"].tolist(), file.remarks[0]
    ([3.0, 5.0], "time: column 'month'")
    """
    reader = _Reader(Path(path), form or Format(), allow_gaps, say)
    return reader.read(id_column, time_column, target, columns, wide)


def read_future(
    path: str | Path,
    *,
    id_column: str | None = None,
    time_column: str | None = None,
    target: str | None = None,
    form: Format | None = None,
) -> pd.DataFrame:
    """Read a file of values that are known ahead, with the same columns of series and times as the main file.

    Returns
    -------
    frame : pandas.DataFrame
        ``unique_id`` (if the file has such a column), ``ds``, and all other columns but the target, as numbers where
        all cells are.
    """
    return _Reader(Path(path), form or Format(), True, lambda remark: None).read_known(id_column, time_column, target)


class _Reader:
    """Finds the three columns of a table and converts them to times, numbers and names."""

    def __init__(self, path: Path, form: Format, allow_gaps: bool, say: Callable[[str], None]) -> None:
        self.path, self.form, self.allow_gaps, self.say = path, form, allow_gaps, say
        self.remarks: list[str] = []
        self.name = shown_path(path)
        self.table = read_table(path, form, self._remark)
        if self.table.empty:
            raise TableError(f"{self.name}: no rows below the header")
        if self.table.columns.duplicated().any():
            twice = self.table.columns[self.table.columns.duplicated()][0]
            raise TableError(f"{self.name}: two columns are named {twice!r}")

    def read(
        self, id_column: str | None, time_column: str | None, target: str | None, columns: Sequence[str], wide: bool
    ) -> SeriesFile:
        if self._times_in_header(id_column, time_column, target):
            id_column, time_column, target = "series", "time", "value"
        if time_column is None:
            self._join_year()
        time_column = self._column("time", time_column, TIME_NAMES) or self._first_dates(target, id_column)
        if wide or (target is None and id_column is None and not columns and self._looks_wide(time_column)):
            self._melt(time_column, id_column, target)
            id_column, target = "series", "value"
        target = self._column("target", target, TARGET_NAMES) or self._last_numbers(time_column, id_column, *columns)
        assert target is not None
        id_column = self._column("series", id_column, ID_NAMES, besides=(time_column, target))
        id_column = id_column or self._series_told_apart(time_column, target)
        for role, name in (("time", time_column), ("series", id_column), ("target", target)):
            if name is not None:
                self._remark(f"{role}: column {name!r}")
        if id_column is None:
            self._remark("series: one, the whole file")
        for name in columns:
            self._column("--exog file", name, ())
        if columns:
            self._remark(f"known ahead: {', '.join(columns)}")
        left = [str(c) for c in self.table.columns if c not in (time_column, target, id_column, *columns)]
        if left:
            self._remark(f"ignored: {', '.join(left)}")
        ids = self.table[id_column].astype(str) if id_column is not None else pd.Series(target, self.table.index)
        frame = pd.DataFrame({"unique_id": ids, "ds": self._times(time_column), "y": self._numbers(target)})
        for name in columns:
            frame[name] = self._values(name)
        self._check_repeats(frame)
        frame = frame.sort_values(["unique_id", "ds"], kind="stable")
        lines = frame.index.to_numpy()
        frame = frame.reset_index(drop=True)
        first, last = _shown(frame["ds"].min()), _shown(frame["ds"].max())
        self._remark(f"{frame['unique_id'].nunique():,} series, {len(frame):,} rows, {first} to {last}")
        return SeriesFile(frame, lines, self.path, self.remarks)

    def read_known(self, id_column: str | None, time_column: str | None, target: str | None) -> pd.DataFrame:
        if time_column is None:
            self._join_year()
        time_column = self._column("time", time_column, TIME_NAMES) or self._first_dates(target, id_column)
        id_column = self._column("series", id_column, ID_NAMES, besides=(time_column,))
        frame = pd.DataFrame({"ds": self._times(time_column)})
        if id_column is not None:
            frame.insert(0, "unique_id", self.table[id_column].astype(str))
        for name in self.table.columns:
            if name not in (time_column, id_column, target):
                frame[str(name)] = self._values(str(name))
        return frame.reset_index(drop=True)

    def _values(self, name: str) -> Any:
        """A column as numbers if all of its cells are numbers or empty, else as text."""
        numbers = self._as_numbers(name)
        empty = self.table[name].map(lambda cell: str(cell).strip().lower() in GAPS)
        return numbers if (numbers.notna() | empty).all() else self.table[name].astype(str)

    def _as_numbers(self, name: str) -> Any:
        values = self.table[name]
        if values.dtype.kind in "mM":
            return pd.Series(np.nan, index=values.index)
        return numbers_of(values, self.form.decimal)

    # -- wide files ----------------------------------------------------------------------------------------------------

    def _looks_wide(self, time_column: str) -> bool:
        """Whether all columns but the time are numbers, several, without a usual name, and no time repeats."""
        others = [c for c in self.table.columns if c != time_column]
        known = {str(c).lower() for c in others} & {*TARGET_NAMES, *ID_NAMES}
        if len(others) < 2 or known or self.table[time_column].duplicated().any():
            return False
        return all(self._values(str(c)).dtype.kind in "iuf" and self._as_numbers(str(c)).notna().any() for c in others)

    def _melt(self, time_column: str, id_column: str | None, target: str | None) -> None:
        """Turn columns into series; empty cells before the first and after the last value of a series are dropped."""
        if id_column is not None or target is not None:
            raise TableError(f"{self.name}: --wide reads all columns as series; omit --id and --target")
        names = [str(c) for c in self.table.columns if c != time_column and self._as_numbers(str(c)).notna().any()]
        if not names:
            raise TableError(f"{self.name}: no column of numbers beside {time_column!r}")
        parts = []
        for name in names:
            known = np.flatnonzero(self._as_numbers(name).notna())
            rows = self.table.iloc[known[0] : known[-1] + 1]
            parts.append(pd.DataFrame({"series": name, time_column: rows[time_column], "value": rows[name]}))
        left = [str(c) for c in self.table.columns if c != time_column and str(c) not in names]
        self.table = pd.concat(parts)
        self._remark(f"wide file: {len(names)} columns are series" + (f"; ignored: {', '.join(left)}" if left else ""))

    def _times_in_header(self, *asked: str | None) -> bool:
        """Turn a table with one row per series and one column per time into long format."""
        if any(name is not None for name in asked):
            return False
        names = pd.Series([str(c) for c in self.table.columns])
        for n_others in (1, 2):  # columns in front that describe the series
            dates = names[n_others:]
            if len(dates) < 3 or (dates.str.fullmatch(r"\d{1,5}|.*[a-zA-Z]{4,}.*")).any():
                continue
            times = _calendar_numbers(dates)
            times = _parse_dates(dates) if times is None else times
            if times is None:
                continue
            parts = []
            for line, row in self.table.iterrows():
                known = np.flatnonzero(numbers_of(row.iloc[n_others:], self.form.decimal).notna())
                if not len(known):
                    continue
                inside = slice(known[0], known[-1] + 1)
                label = " ".join(str(cell) for cell in row.iloc[:n_others])
                values = {"series": label, "time": times.iloc[inside], "value": row.iloc[n_others:].to_numpy()[inside]}
                parts.append(pd.DataFrame(values).set_axis([line] * (known[-1] + 1 - known[0]), axis=0))
            if not parts:
                raise TableError(f"{self.name}: no numbers below the times in the header")
            self.table = pd.concat(parts)
            self._remark(f"wide file: one series per line, {len(dates)} times in the header")
            return True
        return False

    # -- columns -------------------------------------------------------------------------------------------------------

    def _remark(self, text: str) -> None:
        self.remarks.append(text)
        self.say(text)

    def _column(
        self, role: str, asked: str | None, names: tuple[str, ...], besides: tuple[str | None, ...] = ()
    ) -> str | None:
        columns = [str(c) for c in self.table.columns]
        if asked is not None:
            if asked not in columns:
                raise TableError(f"{self.name}: no column {asked!r} for the {role}; there are {', '.join(columns)}")
            return asked
        lower = {c.lower(): c for c in reversed(columns) if c not in besides}
        return next((lower[name] for name in names if name in lower), None)

    def _join_year(self) -> None:
        """Combine numeric columns of the year and of the month or quarter into one column of dates."""
        lower = {str(c).lower(): c for c in self.table.columns}
        for part, per_year in (("month", 12), ("quarter", 4)):
            if "year" not in lower or part not in lower or "ds" in lower or "date" in lower:
                continue
            year, within = (self._as_numbers(str(lower[name])) for name in ("year", part))
            if year.between(1500, 2500).all() and within.isin(range(1, per_year + 1)).all():
                month = ((within - 1) * (12 // per_year) + 1).astype(int)
                dates = pd.to_datetime({"year": year.astype(int), "month": month, "day": 1})
                self.table = self.table.drop(columns=[lower["year"], lower[part]]).assign(date=dates)
                self._remark(f"time: columns {lower['year']!r} and {lower[part]!r} joined to 'date'")

    def _first_dates(self, *besides: str | None) -> str:
        for name in self.table.columns:
            values = self.table[name]
            if name in besides or (values.dtype.kind != "M" and self._as_numbers(str(name)).notna().all()):
                if name not in besides and _calendar_numbers(values) is not None:
                    return str(name)
                continue
            if values.dtype.kind == "M" or _parse_dates(values) is not None:
                return str(name)
        if self.table.shape[1] == 1:
            raise TableError(
                f"{self.name}: a single column, {str(self.table.columns[0])!r}; a column of times and one of values "
                "are needed, with a header line"
            )
        raise TableError(
            f"{self.name}: no column of dates among {', '.join(map(str, self.table.columns))}; set it with --time"
        )

    def _last_numbers(self, *besides: str | None) -> str:
        shares = {
            str(name): self._as_numbers(name).notna().mean()
            for name in reversed(self.table.columns)
            if name not in besides
        }
        for least in (0.5, 0.0):  # accept a column with some numbers; the error then names its first invalid cell
            found = next((name for name, share in shares.items() if share > least), None)
            if found is not None:
                return found
        raise TableError(
            f"{self.name}: no column of numbers among {', '.join(map(str, self.table.columns))}; set it with --target"
        )

    def _series_told_apart(self, time_column: str, target: str) -> str | None:
        """If times repeat, the first column whose values distinguish the rows of the same time."""
        if not self.table[time_column].duplicated().any():
            return None
        for name in self.table.columns:
            if name in (time_column, target) or self._as_numbers(name).notna().any():
                continue
            if not self.table.duplicated([name, time_column]).any():
                return str(name)
        return None

    def _numbers(self, name: str) -> Any:
        values = self._as_numbers(name)
        empty = self.table[name].map(lambda cell: str(cell).strip().lower() in GAPS)
        bad = values.isna() & ~(empty & self.allow_gaps)
        if bad.any():
            row = int(np.argmax(bad))
            what = f"{str(self.table[name].iloc[row])!r} is not a number"
            if empty.iloc[row]:
                what = "is empty; give it a value, or fill gaps with --gaps interpolate or --gaps forward"
            raise TableError(f"{self.name}, line {values.index[row]}, column {name!r}: {what}")
        return values.astype(float)

    def _times(self, name: str) -> Any:
        values = self.table[name]
        if values.dtype.kind == "M":
            return values
        months = _calendar_numbers(values)
        if months is not None:
            return months
        numbers = self._as_numbers(name)
        if numbers.notna().all() and (numbers % 1 == 0).all():
            return numbers.astype("int64")
        dates = _parse_dates(values)
        if dates is not None:
            return dates
        some = pd.to_datetime(values, format="ISO8601", errors="coerce")
        row = int(np.argmax(some.isna()))
        found = str(values.iloc[row])
        raise TableError(f"{self.name}, line {values.index[row]}, column {name!r}: {found!r} is not a date")

    def _check_repeats(self, frame: pd.DataFrame) -> None:
        repeated = frame.duplicated(["unique_id", "ds"])
        if repeated.any():
            second = int(np.argmax(repeated))
            line, row = frame.index[second], frame.iloc[second]
            same = (frame["unique_id"] == row["unique_id"]) & (frame["ds"] == row["ds"])
            first = frame.index[same][0]
            hint = "" if frame["unique_id"].nunique() > 1 else "; if the file holds many series, name them with --id"
            what = f"series {row['unique_id']!r} has {_shown(row['ds'])} already in line {first}"
            raise TableError(f"{self.name}, line {line}: {what}{hint}")


def _shown(time: Any) -> str:
    """A time as text, without midnight for dates."""
    text = str(time)
    return text.removesuffix(" 00:00:00")


def _calendar_numbers(values: Any) -> Any:
    """Dates written as numbers, 202412 or 20241231; None for other columns."""
    texts = values.astype(str).str.removesuffix(".0")
    for pattern, form in ((r"(1[5-9]|2[0-4])\d{2}(0[1-9]|1[0-2])", "%Y%m"), (r"(1[5-9]|2[0-4])\d{6}", "%Y%m%d")):
        if texts.str.fullmatch(pattern).all():
            dates = pd.to_datetime(texts, format=form, errors="coerce")
            return dates if dates.notna().all() else None
    return None


def _parse_dates(values: Any) -> Any:
    """Dates in the format that fits all cells, including quarters such as 2020Q1; None if there is no such format."""
    texts = values.astype(str)
    if texts.str.fullmatch(r"\d{4}-?[Qq][1-4]").all():
        quarters = pd.PeriodIndex(texts.str.upper().str.replace("-", ""), freq="Q")
        return pd.Series(quarters.to_timestamp(), index=values.index)
    for pattern in DATE_FORMATS:
        dates = pd.to_datetime(texts, format=pattern, errors="coerce")
        if dates.notna().all():
            return dates
    return None
