"""One-hot encoding: values as text, the categories that get a column, and the 0/1 columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_text", "frequent", "indicators", "is_missing"]

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


def frequent(texts: Array, weight: Array | None = None, least: float = 2.0) -> list[str]:
    """The most frequent categories, at most 32, that occur at least ``least`` times, in alphabetical order."""
    present = np.array([text is not None for text in texts], dtype=bool)
    names, place = np.unique(texts[present].astype(str), return_inverse=True)
    counts = np.bincount(place, weights=None if weight is None else weight[present], minlength=len(names))
    names, counts = names[counts >= least], counts[counts >= least]
    order = np.argsort(-counts, kind="stable")[:MAX_CATEGORIES]
    return sorted(str(name) for name in names[order])


def indicators(texts: Array, names: list[str], dtype: Any) -> Array:
    """One 0/1 column for each of the categories ``names``, shape (n_samples, n_names); other categories are zeros."""
    return (texts[:, None] == np.array(names, dtype=object)).astype(dtype)
