"""Rows that occur more than once.

Hundreds of gradient steps amplify rounding. A row of weight 2 gives the model of the row twice only if both are the
same arrays, so repeated rows are merged first. So are many rows, of which a sample decides, and rows that are divided
into folds, because a fold that held one of two equal rows would be judged on what it was trained on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct_rows", "runs_of_rows"]

Array = NDArray[Any]
SHIFT, ODD = np.uint64(29), np.uint64(0x9E3779B97F4A7C15)  # they mix the bits of a row into one integer


def distinct_rows(*columns: Array) -> tuple[Array, Array]:
    """Positions of the first of equal rows, in order, and for each row the number of the one that it equals.

    Parameters
    ----------
    *columns : ndarray of shape (n_columns, n_samples)
        Rows are equal if all columns are; NaN equals NaN.
    """
    key = np.zeros(columns[0].shape[1], dtype=np.uint64)
    for bits in _bits(columns):
        key = (key ^ (key >> SHIFT)) * ODD + bits
    first, number = _first_of_equal(key)
    if len(first) == len(number) or all((bits[first][number] == bits).all() for bits in _bits(columns)):
        return first, number
    rows = np.ascontiguousarray(np.stack(list(_bits(columns)), axis=1))  # different rows have the same key
    return _first_of_equal(rows.view(f"V{rows[0].nbytes}").ravel())


def runs_of_rows(*columns: Array) -> Array:
    """For each row, the number of its run: rows that follow an equal row are in the run of that row.

    Parameters
    ----------
    *columns : ndarray of shape (n_columns, n_samples)
        Rows are equal if all columns are; NaN equals NaN. Those that differ most should come first.
    """
    n = columns[0].shape[1]
    repeats = np.arange(1, n)
    for column in itertools.chain(*columns):
        if not len(repeats):
            break
        own, before = column[repeats], column[repeats - 1]
        repeats = repeats[(own == before) | ((own != own) & (before != before))]
    return np.cumsum(~np.isin(np.arange(n), repeats, assume_unique=True)) - 1


def _bits(columns: tuple[Array, ...]) -> Iterator[Array]:
    """The columns as integers, one at a time; -0.0 becomes 0.0."""
    for column in itertools.chain(*columns):
        yield (column.astype(np.float64) + 0.0).view(np.uint64)


def _first_of_equal(values: Array) -> tuple[Array, Array]:
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[number.ravel()]
