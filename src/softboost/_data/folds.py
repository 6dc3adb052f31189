"""Folds for cross-validation: contiguous blocks, random rows, whole groups, or forward validation in time order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, GroupKFold, KFold, TimeSeriesSplit, check_cv

from .categories import as_text
from .checks import check_integer

__all__ = ["Folds", "check_groups", "make_folds"]

Array = NDArray[Any]
MAX_ROWS_FOR_FOLDS = 5000
MAX_TRAINING_ROWS = 2**15  # of the single hold-out split used beyond MAX_ROWS_FOR_FOLDS
N_FOLDS = 5
FORWARD_START = 0.4  # share of the rows before the first validation block of forward validation


class Folds:
    """Folds of one fit: as the user set them, else in the order that suits the rows; each set is made once.

    Parameters are those of :func:`make_folds`; ``shuffle="auto"`` leaves the order open.
    """

    def __init__(
        self, cv: Any, shuffle: Any, X: Array, y: Array, kept: Array, seed: int, groups: Array | None = None,
        weight: Array | None = None,
    ) -> None:  # fmt: skip
        self.cv, self.shuffle, self.seed, self.groups, self.weight = cv, shuffle, seed, groups, weight
        self.rows = X, y, kept
        self._made: dict[Any, list[tuple[Array, Array]]] = {}
        if groups is not None and shuffle is False:
            raise ValueError(
                "groups cannot be combined with shuffle=False, which validates on later rows; leave out groups, or use "
                "shuffle='auto' or True"
            )

    def in_order(self, forward: bool) -> list[tuple[Array, Array]]:
        """Folds in time order if ``forward``, else contiguous blocks, where the user has left that open."""
        shuffle = self.shuffle if self.shuffle != "auto" else (False if forward else "blocks")
        shuffle = "blocks" if shuffle is False and self.groups is not None else shuffle
        order_counts = self.cv is None or isinstance(self.cv, (int, np.integer))
        key = shuffle if order_counts else None  # a splitter has its own order, and may be read only once
        if key not in self._made:
            self._made[key] = make_folds(self.cv, shuffle, *self.rows, self.seed, self.groups, self.weight)
        return self._made[key]

    def of_rows(self, run: Array) -> Array:
        """A fold for each row, as given by the user, else blocks of rows or groups.

        ``run`` is the number of each row, in the order of their first rows, by a function of
        :mod:`softboost._data.repeated`: a block holds all rows of equal number.
        """
        X, y, kept = self.rows
        n_runs = int(run.max()) + 1
        if isinstance(self.cv, (int, np.integer)) and self.groups is None and self.cv <= n_runs < len(run):
            first = np.unique(run, return_index=True)[1]
            return Folds(self.cv, self.shuffle, X, y, kept[first], self.seed).of_rows(np.arange(n_runs))[run]
        if self.cv is not None:
            fold = np.full(len(kept), -1)
            for k, (_, held) in reversed(list(enumerate(self.in_order(False)))):
                fold[held] = k
            if np.all(fold >= 0):
                return fold
        if self.groups is None:
            return run * N_FOLDS // n_runs
        place = np.unique(self.groups[kept], return_inverse=True)[1]
        n_groups = _number_of_groups(place)
        return place * min(N_FOLDS, n_groups) // n_groups


def check_groups(groups: Any, n_samples: int) -> Array | None:
    """Groups as numbers from 0, one per row of X."""
    if groups is None:
        return None
    values = list(groups)
    if len(values) != n_samples:
        raise ValueError(f"groups has {len(values)} values, but X has {n_samples} rows")
    array = np.asarray(groups)
    if array.dtype.kind in "biuf" and array.ndim == 1 and not np.isnan(array).any():
        return np.unique(array, return_inverse=True)[1]
    texts = as_text(values)
    missing = [i for i, text in enumerate(texts) if text is None]
    if missing:
        raise ValueError(f"groups has a missing value in row {missing[0]}; set a group for every row")
    return np.unique(texts.astype(str), return_inverse=True)[1]


def make_folds(
    cv: Any, shuffle: Any, X: Array, y: Array, kept: Array, seed: int, groups: Array | None = None,
    weight: Array | None = None,
) -> list[tuple[Array, Array]]:  # fmt: skip
    """Pairs of (training rows, validation rows), as indices into the rows ``kept`` (those of positive weight).

    Without ``cv`` there are five folds up to 5,000 rows. Beyond, there is one hold-out set of a fifth of the rows, with
    at most 32,768 training and 16,384 validation rows, because more rows hardly change the selected model.
    ``shuffle="blocks"`` splits into contiguous blocks, True assigns rows to folds at random, and False validates each
    fold only on rows after its training rows. Rows of the same group are in the same fold. Folds of groups have similar
    sums of weights (those of the rows ``kept``).
    """
    place = np.full(len(X), -1)
    place[kept] = np.arange(len(kept))
    if cv is None:
        return _default_folds(len(kept), shuffle, seed, None if groups is None else groups[kept], weight)
    if isinstance(cv, (int, np.integer)):
        check_integer("cv", cv, 2)
        if cv > len(kept):
            raise ValueError(f"cv={cv} exceeds the number of rows; use at most {len(kept)} folds")
        if groups is not None:
            return _group_folds(int(cv), shuffle, seed, groups[kept], weight)
        return list(_integer_cv(int(cv), shuffle, seed).split(kept[:, None]))
    try:
        splitter = check_cv(cv)
    except ValueError:
        raise ValueError(
            f"cv must be None, an integer, a scikit-learn splitter or an iterable of splits, got {cv!r}"
        ) from None
    folds = []
    for train, held in splitter.split(X, y, groups):
        train, held = place[np.asarray(train)], place[np.asarray(held)]
        train, held = train[train >= 0], held[held >= 0]
        if len(train) and len(held):
            folds.append((train, held))
    if not folds:
        raise ValueError(
            f"cv={cv!r} gives no fold with both training and validation rows; use fewer splits, or a list if it is a "
            "generator that was read before"
        )
    return folds


def _integer_cv(n_splits: int, shuffle: Any, seed: int) -> BaseCrossValidator:
    check_integer("cv", n_splits, 2)
    if shuffle is False:
        return TimeSeriesSplit(n_splits)
    return KFold(n_splits, shuffle=True, random_state=seed) if shuffle is True else KFold(n_splits)


def _group_folds(
    n_splits: int, shuffle: Any, seed: int, groups: Array, weight: Array | None
) -> list[tuple[Array, Array]]:
    """Folds of whole groups: at random, else the heaviest first, each into the lightest fold.

    Without weights these are the folds of :class:`sklearn.model_selection.GroupKFold`, which counts rows.
    """
    own = np.unique(groups, return_inverse=True)[1]
    n_groups = int(own.max()) + 1
    if n_splits > n_groups:
        raise ValueError(f"cv={n_splits} exceeds the number of groups; use at most {n_groups} folds")
    if shuffle is True:
        splitter = GroupKFold(n_splits, shuffle=True, random_state=seed)
        return list(splitter.split(own[:, None], groups=own))
    total, fold, held = np.bincount(own, weight), np.zeros(n_groups, dtype=int), np.zeros(n_splits)
    for group in np.argsort(total, kind="stable")[::-1]:
        fold[group] = np.argmin(held)
        held[fold[group]] += total[group]
    return [(np.flatnonzero(fold[own] != k), np.flatnonzero(fold[own] == k)) for k in range(n_splits)]


def _number_of_groups(groups: Array) -> int:
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError("groups has a single group, which cannot be divided into folds; leave out groups")
    return n_groups


def _default_folds(
    n: int, shuffle: Any, seed: int, groups: Array | None, weight: Array | None
) -> list[tuple[Array, Array]]:
    rows = np.arange(n)
    n_splits = min(N_FOLDS, n)
    if groups is not None:
        n_splits = min(N_FOLDS, _number_of_groups(groups))
    if n > MAX_ROWS_FOR_FOLDS:
        if groups is not None:
            _, own = _group_folds(n_splits, shuffle, seed, groups, weight)[0]
            held = np.isin(rows, own)
        elif shuffle is False:
            held = rows >= n - n // 5
        elif shuffle is True:
            held = np.random.default_rng(seed).permutation(n) < n // 5
        else:  # ten contiguous validation blocks, evenly spread over the rows
            held = (rows * 50 // n) % 5 == 2
        return [(_thinned(rows[~held], MAX_TRAINING_ROWS), _thinned(rows[held], MAX_TRAINING_ROWS // 2))]
    if n_splits < 2:
        return []
    if shuffle is False:
        return _forward_folds(n)
    if groups is not None:
        return _group_folds(n_splits, shuffle, seed, groups, weight)
    return list(_integer_cv(n_splits, shuffle, seed).split(rows[:, None]))


def _thinned(rows: Array, most: int) -> Array:
    """At most ``most`` of the rows, evenly spaced."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _forward_folds(n: int, n_folds: int = N_FOLDS) -> list[tuple[Array, Array]]:
    """Validation blocks over the later rows, each with all rows before it as training rows."""
    first = max(2, int(np.ceil(FORWARD_START * n)))
    edges = np.unique(np.linspace(first, n, n_folds + 1).astype(int))
    return [(np.arange(a), np.arange(a, b)) for a, b in pairwise(edges)]
