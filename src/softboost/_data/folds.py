"""Folds for cross-validation: contiguous blocks, random rows, or forward validation in time order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, TimeSeriesSplit, check_cv

from .checks import check_integer

__all__ = ["Folds", "make_folds"]

Array = NDArray[Any]
MAX_ROWS_FOR_FOLDS = 5000
MAX_TRAINING_ROWS = 2**15  # of the single hold-out split used beyond MAX_ROWS_FOR_FOLDS
FORWARD_START = 0.4  # share of the rows before the first validation block of forward validation


class Folds:
    """Folds of one fit: as the user set them, else in the order that suits the rows; each set is made once.

    Parameters are those of :func:`make_folds`; ``shuffle="auto"`` leaves the order open.
    """

    def __init__(self, cv: Any, shuffle: Any, X: Array, y: Array, kept: Array, seed: int) -> None:
        self.cv, self.shuffle, self.seed = cv, shuffle, seed
        self.rows = X, y, kept
        self._made: dict[Any, list[tuple[Array, Array]]] = {}

    def in_order(self, forward: bool) -> list[tuple[Array, Array]]:
        """Folds in time order if ``forward``, else contiguous blocks, where the user has left that open."""
        shuffle = self.shuffle if self.shuffle != "auto" else (False if forward else "blocks")
        order_counts = self.cv is None or isinstance(self.cv, (int, np.integer))
        key = shuffle if order_counts else None  # a splitter has its own order, and may be read only once
        if key not in self._made:
            self._made[key] = make_folds(self.cv, shuffle, *self.rows, self.seed)
        return self._made[key]


def make_folds(cv: Any, shuffle: Any, X: Array, y: Array, kept: Array, seed: int) -> list[tuple[Array, Array]]:
    """Pairs of (training rows, validation rows), as indices into the rows ``kept`` (those of positive weight).

    Without ``cv`` there are five folds up to 5,000 rows. Beyond, there is one hold-out set of a fifth of the rows, with
    at most 32,768 training and 16,384 validation rows, because more rows hardly change the selected model.
    ``shuffle="blocks"`` splits into contiguous blocks, True assigns rows to folds at random, and False validates each
    fold only on rows after its training rows.
    """
    place = np.full(len(X), -1)
    place[kept] = np.arange(len(kept))
    if cv is None:
        return _default_folds(len(kept), shuffle, seed)
    if isinstance(cv, (int, np.integer)):
        check_integer("cv", cv, 2)
        if cv > len(X):
            raise ValueError(f"cv={cv} exceeds the number of rows; use at most {len(X)} folds")
        splitter = _integer_cv(int(cv), shuffle, seed)
    else:
        try:
            splitter = check_cv(cv)
        except ValueError:
            raise ValueError(
                f"cv must be None, an integer, a scikit-learn splitter or an iterable of splits, got {cv!r}"
            ) from None
    folds = []
    for train, held in splitter.split(X, y):
        train, held = place[np.asarray(train)], place[np.asarray(held)]
        train, held = train[train >= 0], held[held >= 0]
        if len(train) and len(held):
            folds.append((train, held))
    if not folds:
        raise ValueError(f"cv={cv!r} gives no fold with both training and validation rows; use fewer splits")
    return folds


def _integer_cv(n_splits: int, shuffle: Any, seed: int) -> BaseCrossValidator:
    check_integer("cv", n_splits, 2)
    if shuffle is False:
        return TimeSeriesSplit(n_splits)
    return KFold(n_splits, shuffle=shuffle is True, random_state=seed if shuffle is True else None)


def _default_folds(n: int, shuffle: Any, seed: int) -> list[tuple[Array, Array]]:
    rows = np.arange(n)
    if n > MAX_ROWS_FOR_FOLDS:
        if shuffle is False:
            held = rows >= n - n // 5
        elif shuffle is True:
            held = np.random.default_rng(seed).permutation(n) < n // 5
        else:  # ten contiguous validation blocks, evenly spread over the rows
            held = (rows * 50 // n) % 5 == 2
        return [(_thinned(rows[~held], MAX_TRAINING_ROWS), _thinned(rows[held], MAX_TRAINING_ROWS // 2))]
    n_splits = min(5, n)
    if n_splits < 2:
        return []
    if shuffle is False:
        return _forward_folds(n)
    return list(_integer_cv(n_splits, shuffle, seed).split(rows[:, None]))


def _thinned(rows: Array, most: int) -> Array:
    """At most ``most`` of the rows, evenly spaced."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _forward_folds(n: int, n_folds: int = 5) -> list[tuple[Array, Array]]:
    """Validation blocks over the later rows, each with all rows before it as training rows."""
    first = max(2, int(np.ceil(FORWARD_START * n)))
    edges = np.unique(np.linspace(first, n, n_folds + 1).astype(int))
    return [(np.arange(a), np.arange(a, b)) for a, b in pairwise(edges)]
