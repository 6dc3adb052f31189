"""Categories as numbers: values as text, 0/1 columns, and means of the target if there are many categories.

Up to 32 categories of a column, the most frequent ones, get a 0/1 column each. If more than 32 occur at least twice,
the column also becomes the mean of y in the category of a row, pulled towards the mean of all rows as far as the
differences between categories may be noise. In training, the mean is taken over other folds than that of the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_CATEGORIES", "TargetMeans", "as_text", "frequent", "indicators", "is_missing"]

Array = NDArray[Any]
MAX_CATEGORIES = 32


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or the missing-value marker of a library.

    Such a marker is not equal to itself, or its comparison has no truth value.
    """
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def as_text(values: Iterable[Any], missing: str | None = None) -> Array:
    """Categories as text, with 1 and 1.0 giving the same text; ``missing`` replaces missing values.

    Examples
    --------
    >>> as_text(["red", 1, 1.0, float("nan")]).tolist()
    ['red', '1', '1', None]
    """
    return np.array([missing if is_missing(value) else _text(value) for value in values], dtype=object)


def _text(value: Any) -> str:
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value) if whole else value)


def frequent(
    texts: Array, weight: Array | None = None, least: float = 2.0, most: int | None = MAX_CATEGORIES
) -> list[str]:
    """The most frequent categories, at most ``most``, that occur at least ``least`` times, in alphabetical order."""
    present = np.array([text is not None for text in texts], dtype=bool)
    names, place = np.unique(texts[present].astype(str), return_inverse=True)
    counts = np.bincount(place, weights=None if weight is None else weight[present], minlength=len(names))
    names, counts = names[counts >= least], counts[counts >= least]
    order = np.argsort(-counts, kind="stable")[:most]
    return sorted(str(name) for name in names[order])


def indicators(texts: Array, names: list[str], dtype: Any) -> Array:
    """One 0/1 column for each of the categories ``names``, shape (n_samples, n_names); other categories are zeros."""
    return (texts[:, None] == np.array(names, dtype=object)).astype(dtype)


@dataclass(frozen=True)
class TargetMeans:
    """Smoothed means of the target by category.

    Attributes
    ----------
    names : list of str
        Categories that occurred at least twice.
    means : ndarray of shape (n_names + 1, n_outputs)
        Their means; the last row, the mean of all rows, is for all other categories.
    """

    names: list[str]
    means: Array

    @classmethod
    def learn(cls, texts: Array, y: Array, weight: Array | None) -> TargetMeans:
        """Means of y (n_outputs, n_samples).

        The mean of a category of weight w is ``(w mean + k overall) / (w + k)``. The constant k is the variance of y
        within categories divided by the variance of the means between them.
        """
        weight = np.ones(len(texts)) if weight is None else weight.astype(np.float64)
        names = frequent(texts, weight, most=None)
        size = np.maximum(np.abs(y).max(axis=1, keepdims=True), 1e-300)  # sums of squares do not overflow
        scaled = y.astype(np.float64) / size
        overall = np.average(scaled, axis=1, weights=weight)
        place = _places(texts, names)
        known = place < len(names)
        total = np.bincount(place[known], weights=weight[known], minlength=len(names))
        means = np.empty((len(names) + 1, len(y)))
        means[-1] = overall
        for o, own in enumerate(scaled):
            sums = np.bincount(place[known], weights=(weight * own)[known], minlength=len(names))
            mean = sums / np.maximum(total, 1e-300)
            away = (own[known] - mean[place[known]]) ** 2
            within = float(weight[known] @ away) / max(float(total.sum()) - len(names), 1.0)
            spread = float(total @ (mean - overall[o]) ** 2) / max(float(total.sum()), 1.0)
            between = spread - within * len(names) / max(float(total.sum()), 1.0)
            k = within / max(between, 1e-3 * within, 1e-300)
            means[:-1, o] = (sums + k * overall[o]) / (total + k)
        return cls(names, means * size[:, 0])

    def encode(self, texts: Array, dtype: Any) -> Array:
        """One column for each output, shape (n_samples, n_outputs)."""
        return self.means[_places(texts, self.names)].astype(dtype)

    def out_of_fold(self, texts: Array, y: Array, weight: Array | None, fold: Array, dtype: Any) -> Array:
        """The columns of the training rows, each from the rows of other folds."""
        out = np.empty((len(texts), len(y)), dtype=dtype)
        for k in np.unique(fold):
            held, rest = fold == k, fold != k
            own = None if weight is None else weight[rest]
            out[held] = TargetMeans.learn(texts[rest], y[:, rest], own).encode(texts[held], dtype)
        return out


def _places(texts: Array, names: list[str]) -> Array:
    """Index of each text in names; the number of names for other texts."""
    index = {name: k for k, name in enumerate(names)}
    return np.array([index.get(text, len(names)) for text in texts], dtype=np.int64)
