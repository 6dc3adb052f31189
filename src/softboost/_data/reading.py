"""Reads a data frame or an array: numbers, text and categories, dates.

Columns of numbers and Booleans become floats, nulls of any kind NaN. Columns of text and categories are returned as
text, dates as elapsed days and their calendar. A column that is none of these is an error, which names all such
columns.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Iterable
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from .categories import as_text, is_missing
from .dates import is_date_column, read_dates

__all__ = ["DATE", "NUMBER", "TEXT", "is_frame", "read_array", "read_frame"]

Array = NDArray[Any]
NUMBER, TEXT, DATE = "number", "text", "date"
Kinds = dict[int, str] | None  # of the columns of a fitted model that are not numbers


def is_frame(X: Any) -> bool:
    """Whether X is a data frame that narwhals supports."""
    return nw.dependencies.is_into_dataframe(X)


def read_frame(X: Any, categorical_features: Any, kinds: Kinds = None) -> tuple[Array, dict[int, Array]]:
    """Split a data frame into a float matrix and its other columns.

    Parameters
    ----------
    X : data frame
    categorical_features : "auto", None or list
        As in the regressor: text and categorical types, none, or these columns.
    kinds : dict of int to str, optional
        Columns of a fitted model that are text or dates; all others are numbers.

    Returns
    -------
    matrix : ndarray of shape (n_samples, n_features)
        Elapsed days for dates, zeros for text.
    others : dict of int to ndarray of shape (n_samples,)
        Text as objects, None if missing; days by the calendar for dates, as floats.
    """
    frame = nw.from_native(X, eager_only=True)
    names = frame.columns
    wanted = set(_wanted(categorical_features, names, len(names))) if kinds is None else set()
    automatic = isinstance(categorical_features, str)
    numeric: list[Array] = []
    others: dict[int, Array] = {}
    refused: list[tuple[str, str]] = []
    for j, name in enumerate(names):
        column = frame[:, j]
        expected = None if kinds is None else kinds.get(j, NUMBER)
        found = TEXT if j in wanted or expected == TEXT else _kind(column)
        if (found == TEXT and not (automatic or j in wanted or expected == TEXT)) or expected not in (None, found):
            found = f"dtype {_dtype(column)}" if expected is None else f"a {expected} in fit, now {_dtype(column)}"
        if found == NUMBER:
            numeric.append(_numbers(column))
        elif found == TEXT:
            others[j] = as_text(column.to_list())
            numeric.append(np.zeros(len(column), dtype=np.float32))
        elif found == DATE:
            elapsed, others[j] = read_dates(column)
            numeric.append(elapsed)
        else:
            refused.append((name, found))
    if refused:
        raise ValueError(_refusal(refused, kinds))
    own = [c.dtype for j, c in enumerate(numeric) if j not in others]
    dtype = np.float32 if own and all(kind == np.float32 for kind in own) else np.float64
    matrix = np.column_stack(numeric).astype(dtype, copy=False) if numeric else np.empty((len(frame), 0))
    return matrix, others


def _refusal(refused: list[tuple[str, str]], kinds: Kinds) -> str:
    """The message for all columns that cannot be used."""
    columns = ", ".join(f"{name!r} ({what})" for name, what in refused)
    if kinds is not None:
        return f"X has columns that differ from those in fit: {columns}. Convert them to the type that they had in fit."
    return (
        f"X has columns that cannot be used: {columns}. Convert them to numbers, text or dates, or drop them; "
        f"categorical_features={[name for name, _ in refused]} takes any value as a category."
    )


def _dtype(column: nw.Series[Any]) -> str:
    return str(column.dtype)


def _kind(column: nw.Series[Any]) -> str:
    """The kind of a column; what it is instead if it cannot be used."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean or dtype == nw.Duration:
        return NUMBER
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return TEXT
    if is_date_column(column):
        return DATE
    if dtype != nw.Object:
        return f"dtype {dtype}"
    return kind_of_values(column.to_list())


def kind_of_values(values: Iterable[Any]) -> str:
    """The kind of a column of Python objects; what they are if they cannot be used."""
    classes: dict[str, str] = {}
    for value in values:
        if is_missing(value):
            continue
        kind = NUMBER if isinstance(value, (numbers.Real, dt.timedelta)) else TEXT if isinstance(value, str) else DATE
        if kind == DATE and not isinstance(value, (dt.date, dt.time)):
            return f"holds objects of class {type(value).__name__}"
        classes[kind] = type(value).__name__
    if len(classes) > 1:
        return f"mixes {' and '.join(sorted(classes.values()))}"
    return next(iter(classes), NUMBER)


def _numbers(column: nw.Series[Any]) -> Array:
    """Values of a column of numbers, Booleans or durations, which become days, as floats."""
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        array = np.asarray(column.to_numpy())
        if array.dtype.kind in "fiub":
            # keep single precision only for float32 columns: polars converts small integers with nulls to float32
            return array if column.dtype == nw.Float32 and array.dtype == np.float32 else array.astype(np.float64)
    return np.array([_number(value) for value in column.to_list()], dtype=np.float64)


def _number(value: Any) -> float:
    if is_missing(value):
        return np.nan
    return value.total_seconds() / 86400 if isinstance(value, dt.timedelta) else float(value)


# -- arrays ------------------------------------------------------------------------------------------------------------


def read_array(X: Any, categorical_features: Any, kinds: Kinds = None) -> tuple[Any, dict[int, Array]]:
    """The same for an array or a list of rows; X itself if it has only numbers.

    Columns of an array of objects or strings are text if all of their values are, and numbers if all can be read as
    such.
    """
    dates = [] if kinds is None else [j for j, kind in kinds.items() if kind == DATE]
    if dates:
        raise ValueError(f"columns {dates} of X were dates in fit; pass a data frame with the columns of fit")
    values = _objects(X, categorical_features, kinds)
    if values is None:
        return X, {}
    if kinds is None:
        wanted = _wanted(categorical_features, None, values.shape[1])
        if _is_automatic(categorical_features):
            wanted = [j for j in range(values.shape[1]) if kind_of_values(values[:, j].tolist()) == TEXT]
    else:
        wanted = [j for j, kind in kinds.items() if kind == TEXT and j < values.shape[1]]
    if not wanted:
        return X, {}
    others = {j: as_text(values[:, j].tolist()) for j in wanted}
    values[:, wanted] = 0.0
    return values.astype(np.float64), others


def _objects(X: Any, categorical_features: Any, kinds: Kinds) -> Array | None:
    """X as an array of objects if it may have columns of text, else None."""
    if kinds == {} or (kinds is None and categorical_features is None):
        return None
    given = not _is_automatic(categorical_features) if kinds is None else True
    if not isinstance(X, (np.ndarray, list, tuple)) and not given:
        return None
    try:
        plain = np.asarray(X)
        if plain.ndim != 2 or (plain.dtype.kind not in "OUT" and not given):
            return None
        values = np.array(X, dtype=object)
    except ValueError:  # rows of different lengths
        return None
    if isinstance(X, np.ndarray) and plain.dtype.kind in "UT":  # NumPy has made text of numbers beside text
        for j in range(values.shape[1]):
            read = [_parsed(value) for value in values[:, j]]
            if 2 * sum(isinstance(value, float) for value in read) > len(read):
                values[:, j] = read
    return values


def _parsed(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _is_automatic(categorical_features: Any) -> bool:
    return isinstance(categorical_features, str) and categorical_features == "auto"


def _wanted(categorical_features: Any, names: list[str] | None, width: int) -> list[int]:
    """Column indices from names, indices or a Boolean mask."""
    if categorical_features is None or _is_automatic(categorical_features):
        return []
    if isinstance(categorical_features, str):
        raise ValueError(
            f"categorical_features={categorical_features!r} is not valid; pass 'auto', None or a list of columns"
        )
    if not isinstance(categorical_features, Iterable):
        raise ValueError(
            f"categorical_features must be 'auto', None or a list of columns, got {categorical_features!r}"
        )
    chosen = list(categorical_features)
    if len(chosen) == width and all(isinstance(c, (bool, np.bool_)) for c in chosen):
        return [j for j, c in enumerate(chosen) if c]
    out = []
    for c in chosen:
        if isinstance(c, str):
            if names is None or c not in names:
                where = "X has no column names" if names is None else f"X has {names}"
                raise ValueError(f"categorical_features contains {c!r}, but {where}")
            out.append(names.index(c))
        elif isinstance(c, (int, np.integer)) and not isinstance(c, bool) and 0 <= c < width:
            out.append(int(c))
        else:
            raise ValueError(f"categorical_features contains {c!r}; use column names or integers from 0 to {width - 1}")
    return out
