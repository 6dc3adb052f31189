"""Reads a file of text or Parquet, or stdin, into a table of cells; infers encoding, separator and decimal mark."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.forecast._frame_forms import without_pyarrow

__all__ = ["Format", "TableError", "numbers_of", "read_table", "shown_path"]

SEPARATORS = ("\t", ";", "|", ",")  # commas last: they also occur in numbers and in text
N_SAMPLE = 50  # lines that decide on the separator
MINUS = "\N{MINUS SIGN}"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
STDIN = Path("-")


class TableError(ValueError):
    """Raised if a file cannot be read as series; the message names the line and the column."""


@dataclass(frozen=True)
class Format:
    """How a text file is written; None infers.

    Attributes
    ----------
    separator : str or None
    decimal : {".", ","} or None
    encoding : str or None
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


def shown_path(path: Path) -> str:
    """The path as it is shown in messages."""
    return "stdin" if path == STDIN else str(path)


def read_table(path: Path, form: Format, say: Callable[[str], None]) -> pd.DataFrame:
    """All cells of a file, indexed by line number; cells of text files are text, so that errors can name a cell."""
    content = _content(path)
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise TableError(f"{shown_path(path)}: not a complete gzip file ({error})") from None
    if content[:4] == b"PAR1":
        return _read_parquet(path, content)
    return _read_csv(path, _decoded(path, content, form.encoding, say), form.separator)


def _content(path: Path) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read()
    if path.is_dir():
        raise TableError(f"{path} is a folder; pass a file")
    if not path.exists():
        raise TableError(f"{path}: no such file")
    return path.read_bytes()


def _decoded(path: Path, content: bytes, encoding: str | None, say: Callable[[str], None]) -> str:
    """Text in the given encoding, else in UTF-8 or UTF-16, else in cp1252 if that leaves no control characters."""
    name = shown_path(path)
    if encoding is not None:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except LookupError:
            raise TableError(f"--encoding {encoding}: unknown; use e.g. utf-8, cp1252, latin-1 or utf-16") from None
        except UnicodeDecodeError as error:
            raise TableError(f"{name}: not in --encoding {encoding} ({error.reason} at byte {error.start})") from None
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            text = "\x00"
        if CONTROL.search(text):
            raise TableError(
                f"{name}: not a text file in UTF-8 ({error.reason} at byte {error.start}); set --encoding"
            ) from None
        say("encoding: cp1252, because the file is not in UTF-8")
    return text


# -- Parquet -----------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, content: bytes) -> pd.DataFrame:
    try:
        table = pd.read_parquet(io.BytesIO(content))
    except ImportError as error:
        raise TableError(f"{shown_path(path)}: reading Parquet needs pyarrow: pip install pyarrow") from error
    if not isinstance(table.index, pd.RangeIndex) or table.index.name is not None:
        dates = isinstance(table.index, (pd.DatetimeIndex, pd.PeriodIndex))
        if dates and table.index.name is None:
            table.index.name = "ds"
        if dates or any(name is not None for name in table.index.names):
            table = table.reset_index()
    for name in table.columns[[isinstance(dtype, pd.PeriodDtype) for dtype in table.dtypes]]:
        table[name] = table[name].dt.to_timestamp()
    table = without_pyarrow(table.set_axis(table.columns.map(str), axis=1))
    return table.set_axis(pd.RangeIndex(1, len(table) + 1), axis=0)


# -- text --------------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, text: str, separator: str | None) -> pd.DataFrame:
    """Read all cells as text; lines with too few or too many cells raise an error."""
    separator = separator or _separator(text)
    quick = _read_plain_csv(text, separator)
    if quick is not None:
        return quick
    name = shown_path(path)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    if not rows:
        raise TableError(f"{name}: the file is empty")
    names = [cell.strip() for cell in rows[0]]
    lines = [i + 1 for i, row in enumerate(rows) if i and any(cell.strip() for cell in row)]
    for line in lines:
        if len(rows[line - 1]) != len(names):
            raise TableError(
                f"{name}, line {line}: {len(rows[line - 1])} cells, but the header has {len(names)} (separated by "
                f"{separator!r}; set another separator with --sep)"
            )
    cells = [[cell.strip() for cell in rows[line - 1]] for line in lines]
    return pd.DataFrame(cells, columns=names, index=pd.Index(lines), dtype=object)


def _separator(text: str) -> str:
    """The separator that gives every line the same number of cells, at least two.

    Where several do, tabs, semicolons and bars precede commas. Without any, the most frequent one of the header.
    """
    lines = [line for line in text.splitlines()[:N_SAMPLE] if line.strip()]
    for separator in SEPARATORS:
        widths = {len(row) for row in csv.reader(lines, delimiter=separator)}
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    head = lines[0] if lines else ""
    return max(reversed(SEPARATORS), key=head.count)


def _read_plain_csv(text: str, separator: str) -> pd.DataFrame | None:
    """Read a file without quotes, blank lines or ragged lines with pandas; None for other files."""
    if '"' in text:
        return None
    try:
        table = pd.read_csv(
            io.StringIO(text), sep=separator, dtype=object, keep_default_na=False, skip_blank_lines=False, header=None,
            engine="c",
        )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError):
        return None
    if text.count(separator) != (table.shape[1] - 1) * len(table) or (table == "").all(axis=1).any():
        return None
    names = [str(name).strip() for name in table.iloc[0]]
    body = table.iloc[1:].set_axis(names, axis=1)
    return body.set_axis(pd.RangeIndex(2, len(table) + 1), axis=0)


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbers_of(cells: Any, decimal: str | None = None) -> Any:
    """Numbers of a column, NaN for other cells.

    Without a decimal mark given, it is the one that the cells of the column show, as in 3,5 or 1.000,25. A comma with
    three digits behind it may separate thousands: 1,500 is 1.5 in a column with 3,5 and fifteen hundred elsewhere.
    """
    if decimal is None:
        quick = pd.to_numeric(cells, errors="coerce").astype(float)
        quick = quick.where(np.isfinite(quick))
        if quick.notna().all() or not any(isinstance(c, str) and ("," in c or MINUS in c) for c in cells):
            return quick
        marks = {mark for cell in cells if isinstance(cell, str) and (mark := _decimal_mark(cell)) is not None}
        decimal = marks.pop() if len(marks) == 1 else None
    elif not any(isinstance(c, str) for c in cells):
        return pd.to_numeric(cells, errors="coerce").astype(float)
    return cells.map(lambda cell: _number(cell, decimal)).astype(float)


def _decimal_mark(text: str) -> str | None:
    """The decimal mark that a number shows; None if it shows none: 1,500 and 1.500 may be thousands."""
    marks = re.sub(r"[^.,]", "", text)
    if not marks:
        return None
    last, digits = marks[-1], re.split(r"[.,]", text.strip())[-1]
    if len(set(marks)) == 2:
        return last
    return last if len(marks) == 1 and len(digits) != 3 else None


def _number(cell: Any, decimal: str | None) -> float:
    """A number with this decimal mark, or the one it shows; the other mark separates thousands. NaN for other cells."""
    if isinstance(cell, (int, float, np.number)):
        return float(cell)
    text = str(cell).strip().replace(MINUS, "-")
    decimal = decimal or _decimal_mark(text) or "."
    text = text.replace(".", "").replace(",", ".") if decimal == "," else text.replace(",", "")
    try:
        value = float(text)
    except ValueError:
        return float("nan")
    return value if np.isfinite(value) else float("nan")
