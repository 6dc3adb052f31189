"""Reads a file of series into a data frame in long format; infers the columns, and errors name line and column."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["SeriesFile", "TableError", "read_series"]

ID_NAMES = ("unique_id", "series_id", "id", "series", "item_id", "item", "sku", "ticker", "symbol", "name", "store")
TIME_NAMES = (
    "ds", "date", "datetime", "timestamp", "time", "day", "week", "month", "quarter", "year", "period", "t", "step",
)  # fmt: skip
TARGET_NAMES = ("y", "target", "value", "sales", "demand", "close", "price", "count", "quantity")
DATE_FORMATS = (
    "ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y/%m/%d",
    "%d-%m-%Y", "%b %Y", "%B %Y",
)  # fmt: skip
SEPARATORS = ",;\t|"
MINUS = "\N{MINUS SIGN}"
GAPS = {"", "na", "n/a", "nan", "null", "none"}


class TableError(ValueError):
    """Raised if a file cannot be read as series; the message names the line and the column."""


@dataclass
class SeriesFile:
    """The content of a file of series.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns ``unique_id``, ``ds``, ``y``, sorted by series and time.
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
        wrong = (ids[1:] == ids[:-1]) & (times.to_numpy()[1:] != expected.to_numpy()[:-1])
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TableError(
                f"{self.path}: series {ids[row]!r} goes from {_shown(times[row])} (line {self.lines[row]}) to "
                f"{_shown(times[row + 1])} (line {self.lines[row + 1]}), but --freq {freq} expects "
                f"{_shown(expected[row])}; pass another --freq, or fill gaps with --gaps interpolate or --gaps forward"
            )


def read_series(
    path: str | Path,
    *,
    id_column: str | None = None,
    time_column: str | None = None,
    target: str | None = None,
    allow_gaps: bool = False,
    say: Callable[[str], None] = lambda remark: None,
) -> SeriesFile:
    r"""Read a CSV or Parquet file of one or many series in long format, with one row per series and time.

    Parameters
    ----------
    path : path
        ``.csv``, ``.txt``, ``.tsv`` (separated by comma, semicolon, tab or vertical bar) or ``.parquet``, optionally
        followed by ``.gz``.
    id_column, time_column, target : str or None, default=None
        Columns with the series, the time and the value; None infers them from names and contents.
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
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder; pass a file")
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    table = _read_parquet(path) if path.suffix in (".parquet", ".pq") else _read_csv(path)
    if table.empty:
        raise TableError(f"{path}: no rows below the header")
    reader = _Reader(path, table, allow_gaps, say)
    return reader.read(id_column, time_column, target)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise TableError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error


def _read_csv(path: Path) -> pd.DataFrame:
    """Read all cells as text, so that errors can name a cell; lines with too few or too many cells raise an error."""
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start})") from error
    head = text.split("\n", 1)[0]
    separator = max(SEPARATORS, key=head.count)
    quick = _read_plain_csv(text, separator)
    if quick is not None:
        return quick
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    if not rows:
        raise TableError(f"{path}: the file is empty")
    names = [name.strip() for name in rows[0]]
    lines = [i + 1 for i, row in enumerate(rows) if i and any(cell.strip() for cell in row)]
    for line in lines:
        if len(rows[line - 1]) != len(names):
            raise TableError(f"{path}, line {line}: {len(rows[line - 1])} cells, but the header has {len(names)}")
    cells = [[cell.strip() for cell in rows[line - 1]] for line in lines]
    return pd.DataFrame(cells, columns=names, index=pd.Index(lines), dtype=object)


def _read_plain_csv(text: str, separator: str) -> pd.DataFrame | None:
    """Read a file without quotes, blank lines or ragged lines with pandas; None for other files."""
    if '"' in text:
        return None
    try:
        table = pd.read_csv(
            io.StringIO(text), sep=separator, dtype=object, keep_default_na=False, skip_blank_lines=False, header=None
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError):
        return None
    if text.count(separator) != (table.shape[1] - 1) * len(table) or (table == "").all(axis=1).any():
        return None
    names = [str(name).strip() for name in table.iloc[0]]
    body = table.iloc[1:].set_axis(names, axis=1)
    return body.set_axis(pd.RangeIndex(2, len(table) + 1), axis=0)


class _Reader:
    """Finds the three columns of a table and converts them to times, numbers and names."""

    def __init__(self, path: Path, table: pd.DataFrame, allow_gaps: bool, say: Callable[[str], None]) -> None:
        self.path, self.table, self.allow_gaps, self.say = path, table, allow_gaps, say
        self.remarks: list[str] = []
        if table.columns.duplicated().any():
            twice = table.columns[table.columns.duplicated()][0]
            raise TableError(f"{path}: two columns are named {twice!r}")
        if table.index.dtype.kind not in "iu" or path.suffix in (".parquet", ".pq"):
            self.table = table.reset_index(drop=True)
            self.table.index = pd.RangeIndex(1, len(table) + 1)

    def read(self, id_column: str | None, time_column: str | None, target: str | None) -> SeriesFile:
        if time_column is None:
            self._join_year()
        time_column = self._column("time", time_column, TIME_NAMES) or self._first_dates(target, id_column)
        target = self._column("target", target, TARGET_NAMES) or self._last_numbers(time_column, id_column)
        assert time_column is not None
        assert target is not None
        id_column = self._column("series", id_column, ID_NAMES, besides=(time_column, target))
        id_column = id_column or self._series_told_apart(time_column, target)
        for role, name in (("time", time_column), ("series", id_column), ("target", target)):
            if name is not None:
                self._remark(f"{role}: column {name!r}")
        if id_column is None:
            self._remark("series: one, the whole file")
        left = [str(c) for c in self.table.columns if c not in (time_column, target, id_column)]
        if left:
            self._remark(f"ignored: {', '.join(left)}")
        ids = self.table[id_column].astype(str) if id_column is not None else pd.Series(target, self.table.index)
        frame = pd.DataFrame({"unique_id": ids, "ds": self._times(time_column), "y": self._numbers(target)})
        self._check_repeats(frame)
        frame = frame.sort_values(["unique_id", "ds"], kind="stable")
        lines = frame.index.to_numpy()
        frame = frame.reset_index(drop=True)
        first, last = _shown(frame["ds"].min()), _shown(frame["ds"].max())
        self._remark(f"{frame['unique_id'].nunique():,} series, {len(frame):,} rows, {first} to {last}")
        return SeriesFile(frame, lines, self.path, self.remarks)

    def _remark(self, text: str) -> None:
        self.remarks.append(text)
        self.say(text)

    def _column(
        self, role: str, asked: str | None, names: tuple[str, ...], besides: tuple[str | None, ...] = ()
    ) -> str | None:
        columns = [str(c) for c in self.table.columns]
        if asked is not None:
            if asked not in columns:
                raise TableError(f"{self.path}: no column {asked!r} for the {role}; there are {', '.join(columns)}")
            return asked
        lower = {c.lower(): c for c in reversed(columns) if c not in besides}
        return next((lower[name] for name in names if name in lower), None)

    def _join_year(self) -> None:
        """Combine numeric columns of the year and of the month or quarter into one column of dates."""
        lower = {str(c).lower(): c for c in self.table.columns}
        for part, per_year in (("month", 12), ("quarter", 4)):
            if "year" not in lower or part not in lower or "ds" in lower or "date" in lower:
                continue
            year, within = (self.table[lower[name]].pipe(_as_numbers) for name in ("year", part))
            if year.between(1500, 2500).all() and within.isin(range(1, per_year + 1)).all():
                month = ((within - 1) * (12 // per_year) + 1).astype(int)
                dates = pd.to_datetime({"year": year.astype(int), "month": month, "day": 1})
                self.table = self.table.drop(columns=[lower["year"], lower[part]]).assign(date=dates)
                self._remark(f"time: columns {lower['year']!r} and {lower[part]!r} joined to 'date'")

    def _first_dates(self, *besides: str | None) -> str:
        for name in self.table.columns:
            values = self.table[name]
            if name in besides or values.pipe(_as_numbers).notna().all():
                continue
            if values.dtype.kind == "M" or _parse_dates(values) is not None:
                return str(name)
        if self.table.shape[1] == 1:
            raise TableError(
                f"{self.path}: a single column, {str(self.table.columns[0])!r}; a column of times and one of values "
                "are needed, with a header line"
            )
        raise TableError(
            f"{self.path}: no column of dates among {', '.join(map(str, self.table.columns))}; set it with --time"
        )

    def _last_numbers(self, *besides: str | None) -> str:
        shares = {
            str(name): self.table[name].pipe(_as_numbers).notna().mean()
            for name in reversed(self.table.columns)
            if name not in besides
        }
        for least in (0.5, 0.0):  # accept a column with some numbers; the error then names its first invalid cell
            found = next((name for name, share in shares.items() if share > least), None)
            if found is not None:
                return found
        raise TableError(
            f"{self.path}: no column of numbers among {', '.join(map(str, self.table.columns))}; set it with --target"
        )

    def _series_told_apart(self, time_column: str, target: str) -> str | None:
        """If times repeat, the first column whose values distinguish the rows of the same time."""
        if not self.table[time_column].duplicated().any():
            return None
        for name in self.table.columns:
            if name in (time_column, target) or self.table[name].pipe(_as_numbers).notna().any():
                continue
            if not self.table.duplicated([name, time_column]).any():
                return str(name)
        return None

    def _numbers(self, name: str) -> Any:
        values = self.table[name].pipe(_as_numbers)
        empty = self.table[name].map(lambda cell: str(cell).strip().lower() in GAPS)
        bad = values.isna() & ~(empty & self.allow_gaps)
        if bad.any():
            line = values.index[bad][0]
            what = f"{str(self.table[name].loc[line])!r} is not a number"
            if empty.loc[line]:
                what = "is empty; give it a value, or fill gaps with --gaps interpolate or --gaps forward"
            raise TableError(f"{self.path}, line {line}, column {name!r}: {what}")
        return values.astype(float)

    def _times(self, name: str) -> Any:
        values = self.table[name]
        if values.dtype.kind == "M":
            return values
        numbers = values.pipe(_as_numbers)
        if numbers.notna().all() and (numbers % 1 == 0).all():
            return numbers.astype("int64")
        dates = _parse_dates(values)
        if dates is not None:
            return dates
        some = pd.to_datetime(values, format="ISO8601", errors="coerce")
        line = values.index[some.isna()][0]
        raise TableError(f"{self.path}, line {line}, column {name!r}: {str(values.loc[line])!r} is not a date")

    def _check_repeats(self, frame: pd.DataFrame) -> None:
        repeated = frame.duplicated(["unique_id", "ds"])
        if repeated.any():
            line = frame.index[repeated][0]
            row = frame.loc[line]
            same = (frame["unique_id"] == row["unique_id"]) & (frame["ds"] == row["ds"])
            first = frame.index[same][0]
            hint = "" if frame["unique_id"].nunique() > 1 else "; if the file holds many series, name them with --id"
            what = f"series {row['unique_id']!r} has {_shown(row['ds'])} already in line {first}"
            raise TableError(f"{self.path}, line {line}: {what}{hint}")


def _shown(time: Any) -> str:
    """A time as text, without midnight for dates."""
    text = str(time)
    return text.removesuffix(" 00:00:00")


def _as_numbers(cells: Any) -> Any:
    """Numbers of a column, NaN for other cells, with a fast path for plain numbers."""
    quick = pd.to_numeric(cells, errors="coerce").astype(float)
    quick = quick.where(np.isfinite(quick))
    if quick.notna().all() or not any(isinstance(c, str) and ("," in c or MINUS in c) for c in cells):
        return quick
    return cells.map(_as_number)


def _as_number(cell: Any) -> float:
    """Parse a number; NaN if the cell is not a number. If it has points and commas, the last is the decimal mark.

    A single comma is the decimal mark unless three digits follow it: 1,5 is one and a half, 1,500 is fifteen hundred.
    """
    if isinstance(cell, (int, float, np.number)):
        return float(cell)
    text = str(cell).strip().replace(MINUS, "-")
    if "," in text:
        decimal = text.rfind(",") > text.rfind(".")
        if "." not in text:
            decimal = text.count(",") == 1 and len(text.rsplit(",", 1)[1]) != 3
        text = text.replace(".", "").replace(",", ".") if decimal else text.replace(",", "")
    try:
        value = float(text)
    except ValueError:
        return float("nan")
    return value if np.isfinite(value) else float("nan")


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
