"""Encodes the columns that were read as numeric columns.

The columns of X keep their order; those of dates hold elapsed days, those of text zeros. They are followed by 0/1
columns of categories, parts of dates, means of the target by category, and one 0/1 column per pattern of missing
values. A missing number is replaced by the column mean, even if the column had no missing values in training.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .categories import MAX_CATEGORIES, TargetMeans, frequent, indicators
from .dates import calendar_columns, calendar_parts
from .outliers import Codes
from .reading import DATE, TEXT

__all__ = ["Columns", "missing_patterns"]

Array = NDArray[Any]


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
    dates : dict of int to list of str
        For each date column, the parts of the calendar that have a column.
    means : dict of int to TargetMeans
        For each category column with many categories, the means of the target.
    """

    n_features: int
    categories: dict[int, list[str]]
    missing: Array
    codes: Codes = field(default_factory=dict)
    dates: dict[int, list[str]] = field(default_factory=dict)
    means: dict[int, TargetMeans] = field(default_factory=dict)

    @classmethod
    def learn(cls, X: Array, others: dict[int, Array], weight: Array | None, y: Array | None = None) -> Columns:
        """Learn from the matrix X (n_samples, n_features), its other columns and y (n_outputs, n_samples).

        ``others`` are the columns of text and dates as :func:`softboost._data.reading.read_frame` returns them.
        """
        texts = {j: values for j, values in others.items() if values.dtype == object}
        kept = {j: frequent(values, weight) for j, values in texts.items()}
        dates = {j: calendar_parts(values, weight) for j, values in others.items() if j not in texts}
        means: dict[int, TargetMeans] = {}
        for j, values in texts.items():
            if y is not None and len(kept[j]) == MAX_CATEGORIES:
                own = TargetMeans.learn(values, y, weight)
                means |= {j: own} if len(own.names) > MAX_CATEGORIES else {}
        return cls(X.shape[1], kept, missing_patterns(X, weight), dates=dates, means=means)

    @property
    def kinds(self) -> dict[int, str]:
        """Columns of X that are not numbers: text or dates."""
        return dict.fromkeys(self.categories, TEXT) | dict.fromkeys(self.dates, DATE)

    @property
    def n_encoded(self) -> int:
        """Number of columns after encoding."""
        return len(self.source)

    @property
    def source(self) -> Array:
        """Index of the column of X that each encoded column is derived from, shape (n_encoded,)."""
        own = [np.full(len(names), j) for part in (self.categories, self.dates) for j, names in part.items()]
        own += [np.full(one.means.shape[1], j) for j, one in self.means.items()]
        return np.concatenate([np.arange(self.n_features), *own, self.missing]).astype(np.int32)

    def names(self, features: list[str]) -> list[str]:
        """Names of the encoded columns, from those of the columns of X."""
        out = list(features)
        for j, categories in self.categories.items():
            out += [f"{features[j]}={category}" for category in categories]
        for j, parts in self.dates.items():
            out += [f"{features[j]}: {part}" for part in parts]
        for j, one in self.means.items():
            n_outputs = one.means.shape[1]
            out += [f"mean of y by {features[j]}" + (f" ({o})" if n_outputs > 1 else "") for o in range(n_outputs)]
        return out + [f"{features[j]} missing" for j in self.missing]

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

    def encode(self, X: Array, others: dict[int, Array]) -> Array:
        """X followed by the further columns, not yet standardised; X itself if there are none."""
        return self._joined(X, others, [one.encode(others[j], X.dtype) for j, one in self.means.items()])

    def encode_training(self, X: Array, others: dict[int, Array], y: Array, weight: Array | None, fold: Array) -> Array:
        """The same for training rows: means of the target come from the rows of other folds."""
        means = [one.out_of_fold(others[j], y, weight, fold, X.dtype) for j, one in self.means.items()]
        return self._joined(X, others, means)

    def _joined(self, X: Array, others: dict[int, Array], means: list[Array]) -> Array:
        X = self._without_codes(X)
        if not (self.categories or self.dates or len(self.missing)):
            return X
        extra = [indicators(others[j], names, X.dtype) for j, names in self.categories.items()]
        extra += [calendar_columns(others[j], parts, X.dtype) for j, parts in self.dates.items()]
        extra += [*means, np.isnan(X[:, self.missing]).astype(X.dtype)]
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
        return replace(columns, missing=missing_patterns(X, weight))

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


def missing_patterns(X: Array, weight: Array | None) -> Array:
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
