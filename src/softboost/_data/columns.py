"""Converts a data frame or an array into numeric columns, with categories and missing values as 0/1 columns.

The numeric columns keep their order. They are followed by one 0/1 column per category and one per pattern of missing
values. A missing number is replaced by the column mean, even if the column had no missing values in training.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from .categories import as_text, frequent, indicators, is_missing
from .outliers import Codes

__all__ = ["Columns", "is_frame", "read_array", "read_frame"]

Array = NDArray[Any]


def is_frame(X: Any) -> bool:
    """Whether X is a data frame that narwhals supports."""
    return nw.dependencies.is_into_dataframe(X)


def read_array(X: Any, categorical_features: Any) -> tuple[Any, dict[int, Array]]:
    """Split an array or a list of rows into numbers, with zeros in the category columns, and categories as text.

    Without category columns, X is returned unchanged.
    """
    if _is_absent(categorical_features):
        return X, {}
    values = np.array(X, dtype=object)
    if values.ndim != 2:
        return X, {}
    wanted = _wanted(categorical_features, None, values.shape[1])
    categories = {j: as_text(values[:, j].tolist()) for j in wanted}
    values[:, list(categories)] = 0.0
    return values.astype(np.float64), categories


def read_frame(X: Any, categorical_features: Any) -> tuple[Array, dict[int, Array]]:
    """Split a data frame into a float matrix, with zeros in the category columns, and the categories as text.

    Missing categories are None.
    """
    frame = nw.from_native(X, eager_only=True)
    names = frame.columns
    wanted = set(_wanted(categorical_features, names, len(names)))
    automatic = isinstance(categorical_features, str)
    numeric, categories = [], {}
    refused: list[tuple[str, Any]] = []
    for j, name in enumerate(names):
        column = frame[:, j]
        if j in wanted or (automatic and column.dtype in (nw.Categorical, nw.Enum)):
            categories[j] = as_text(column.to_list())
            numeric.append(np.zeros(len(column), dtype=np.float32))
        elif (values := _numbers(column)) is not None:
            numeric.append(values)
        else:
            refused.append((name, column.dtype))
    if refused:
        raise ValueError(_not_numeric(refused))
    dtype = np.float32 if numeric and all(c.dtype == np.float32 for c in numeric) else np.float64
    matrix = np.column_stack(numeric).astype(dtype, copy=False) if numeric else np.empty((len(frame), 0))
    return matrix, categories


def _is_absent(categorical_features: Any) -> bool:
    return categorical_features is None or (isinstance(categorical_features, str) and categorical_features == "auto")


def _numbers(column: nw.Series[Any]) -> Array | None:
    """Values of a numeric or boolean column as floats, nulls of any kind as NaN; None for other columns."""
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        array = np.asarray(column.to_numpy())
        if array.dtype.kind in "fiub":
            # keep single precision only for float32 columns: polars converts small integers with nulls to float32
            return array if column.dtype == nw.Float32 and array.dtype == np.float32 else array.astype(np.float64)
    values = column.to_list()
    if not all(is_missing(v) or isinstance(v, numbers.Number) for v in values):
        return None
    return np.array([np.nan if is_missing(v) else float(v) for v in values], dtype=np.float64)


def _not_numeric(columns: list[tuple[str, Any]]) -> str:
    """The message for all columns that are not numeric, with a fix for each kind."""
    times = [name for name, dtype in columns if isinstance(dtype, (nw.Datetime, nw.Date, nw.Duration, nw.Time))]
    texts = [name for name, _ in columns if name not in times]
    if len(columns) == 1:
        found, them = f"column {columns[0][0]!r} has dtype {columns[0][1]}", "it"
    else:
        kinds = ", ".join(f"{name!r} ({type(dtype).__name__})" for name, dtype in columns)
        found, them = f"columns {kinds} are not numeric", "them"
    fixes = [f"pass categorical_features={texts} or use a categorical dtype"] if texts else []
    fixes += [f"convert {times} to numbers, such as the day of the year"] if times else []
    problem = "could not convert string to float: " if texts else ""
    return f"{problem}{found}. To fix this, {', '.join(fixes)}, or drop {them}."


def _wanted(categorical_features: Any, names: list[str] | None, width: int) -> list[int]:
    """Column indices from names, indices or a Boolean mask."""
    if _is_absent(categorical_features):
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


@dataclass
class Columns:
    """Encoder of X into numeric columns, learned from the training rows.

    Attributes
    ----------
    n_features : int
        Number of columns of X.
    categories : dict of int to list of str
        For each category column, the categories that have a 0/1 column; other categories are encoded as zeros.
    missing : ndarray of shape (n_missing,)
        Numeric columns that have a 0/1 column for missing values.
    codes : dict of int to list of float
        For each numeric column that has some, the numbers that stand for a missing value, such as -999.
    """

    n_features: int
    categories: dict[int, list[str]]
    missing: Array
    codes: Codes = field(default_factory=dict)

    @classmethod
    def learn(cls, X: Array, categories: dict[int, Array], weight: Array | None) -> Columns:
        """Learn from the numeric matrix X (n_samples, n_features) and the category columns of :func:`read_frame`."""
        kept = {j: frequent(values, weight) for j, values in categories.items()}
        return cls(X.shape[1], kept, _missing_patterns(X, weight))

    @property
    def n_encoded(self) -> int:
        """Number of columns after encoding."""
        return self.n_features + sum(map(len, self.categories.values())) + len(self.missing)

    @property
    def source(self) -> Array:
        """Index of the column of X that each encoded column is derived from, shape (n_encoded,)."""
        of_categories = [np.full(len(names), j) for j, names in self.categories.items()]
        return np.concatenate([np.arange(self.n_features), *of_categories, self.missing]).astype(np.int32)

    def check_kinds(self, categories: dict[int, Array], names: Any = None) -> None:
        """Raise ValueError if a category column holds numbers, but was fitted on text: no value can match."""
        for j, known in self.categories.items():
            given = {text for text in categories.get(j, ()) if text is not None}
            if given and all(map(_is_number, given)) and not any(map(_is_number, known)):
                column = f"column {j if names is None else names[j]!r}"
                columns = "" if names is None else f" with the columns {[str(name) for name in names]}"
                raise ValueError(
                    f"{column} of X holds numbers such as {min(given)}, but the model was fitted on its categories "
                    f"{known[:5]}{'...' if len(known) > 5 else ''}; pass a data frame{columns}, or the categories "
                    "themselves"
                )

    def encode(self, X: Array, categories: dict[int, Array]) -> Array:
        """X followed by the 0/1 columns, not yet standardised; X itself if there are none."""
        X = self._without_codes(X)
        if not self.categories and not len(self.missing):
            return X
        extra = [indicators(categories[j], names, X.dtype) for j, names in self.categories.items()]
        extra.append(np.isnan(X[:, self.missing]).astype(X.dtype))
        return np.ascontiguousarray(np.hstack([X, *extra]))

    def _without_codes(self, X: Array) -> Array:
        if not self.codes:
            return X
        X = X.copy()
        for j, codes in self.codes.items():
            X[np.isin(X[:, j], np.array(codes, dtype=X.dtype)), j] = np.nan
        return X

    def with_codes(self, codes: Codes, encoded: Array, weight: Array | None) -> Columns:
        """The encoder for which these numbers are missing values; ``encoded`` are its training rows."""
        columns = replace(self, codes=codes)
        X = columns._without_codes(encoded[:, : self.n_features])
        return replace(columns, missing=_missing_patterns(X, weight))

    def recoded(self, encoded: Array, before: Columns) -> Array:
        """Rows that the encoder without codes has encoded, encoded by this one."""
        X = self._without_codes(encoded[:, : self.n_features])
        others = encoded[:, self.n_features : before.n_encoded - len(before.missing)]
        return np.ascontiguousarray(np.hstack([X, others, np.isnan(X[:, self.missing]).astype(X.dtype)]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing_patterns(X: Array, weight: Array | None) -> Array:
    """Columns with at least two missing and two present values, the first one of each distinct pattern."""
    if not np.isnan(np.sum(X)):
        return np.empty(0, dtype=np.int64)
    nan = np.isnan(X)
    weight = np.ones(len(X)) if weight is None else weight
    missing, present = weight @ nan, weight @ ~nan
    seen: set[bytes] = set()
    kept = []
    for j in np.flatnonzero((missing >= 2) & (present >= 2)):
        pattern = nan[:, j].tobytes()
        if pattern not in seen:
            seen.add(pattern)
            kept.append(j)
    return np.array(kept, dtype=np.int64)
