"""The rows of a fit: all of them, or random parts which the rounds use in turn.

A round has constant cost beyond ``MAX_ROWS_PER_TREE`` rows, apart from one pass over all rows. Parts are copied only
while a round uses them, so that a fit needs little memory in addition to X; their bins are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.losses import Loss
from softboost.transforms import Transform

from .kernel_loss import kernel_loss
from .learner import TrainingData, apply_transform
from .soft_tree import SoftTree

__all__ = ["DealtParts", "Features", "Part", "deal"]

Array = NDArray[Any]
MAX_ROWS_PER_TREE = 2**16
ROWS_IN_ORDER = 4096  # up to this number the kernel uses all rows for every decision
ROWS_TOGETHER = 16  # neighbouring rows that stay in one part: a line of the cache in single precision


class Features:
    """z of fixed rows X (n_features, n_samples); computed again only when the parameters have changed."""

    def __init__(self, transform: Transform | None, X: Array) -> None:
        self.transform, self.X = transform, X
        self._latest: tuple[Array | None, Array] = None, X

    def at(self, theta: Array | None) -> Array:
        """z (n_components, n_samples) for these parameters."""
        before, z = self._latest
        if self.transform is not None and not (before is theta or (before is not None and _equal(before, theta))):
            z = apply_transform(self.transform, theta, self.X)
            self._latest = theta, z
        return z


def _equal(a: Array, b: Array | None) -> bool:
    return b is not None and a.shape == b.shape and bool((a == b).all())


class Part:
    """A subset of the rows on which trees are fitted, with its target and current prediction."""

    def __init__(self, data: TrainingData, y: Array, raw_prediction: Array, transform: Transform | None = None) -> None:
        self.data, self.y, self.raw_prediction = data, y, raw_prediction
        self.index = 0  # among several parts
        self.z = Features(transform, data.X)

    def residual(self, loss: Loss) -> Array:
        """r_k: the negative gradient of the loss at the current prediction."""
        settings = kernel_loss(loss)
        if settings is not None:
            return _kernels.negative_gradient(settings, self.y, self.raw_prediction)
        return np.ascontiguousarray(-loss.gradient(self.y, self.raw_prediction), dtype=self.y.dtype)

    def add(self, step: Array) -> None:
        """Add the contribution of a round to the prediction."""
        self.raw_prediction += step


class DealtParts(Sequence[Part]):
    """Many rows in random parts of at most ``MAX_ROWS_PER_TREE`` rows, each copied when it is asked for.

    The kernel bases some decisions on the first rows of a part, so the order is random. It is fixed and independent of
    ``random_state``, so a fit without a seed is reproducible.

    Attributes
    ----------
    raw_prediction : ndarray of shape (n_outputs, n_samples)
        The prediction for all rows, in their original order.
    """

    def __init__(
        self,
        X: Array,
        columns: Array,
        y: Array,
        weight: Array | None,
        raw: Array,
        n_threads: int,
        transform: Transform | None,
    ) -> None:
        n = X.shape[1]
        self.X, self.columns, self.y, self.weight = X, columns, y, weight
        self.raw_prediction = np.array(raw, order="C")
        self.n_threads, self.transform = n_threads, transform
        order = np.random.default_rng(0).permutation(n // ROWS_TOGETHER)
        self.blocks = np.array_split(order, math.ceil(n / MAX_ROWS_PER_TREE))
        within = np.arange(ROWS_TOGETHER)
        self.rows = [(ROWS_TOGETHER * block[:, None] + within).ravel().astype(np.int32) for block in self.blocks]
        rest = np.arange(n // ROWS_TOGETHER * ROWS_TOGETHER, n, dtype=np.int32)
        self.rows[-1] = np.concatenate([self.rows[-1], rest])
        self._kept: dict[int, tuple[Any, dict[Any, Any]]] = {}  # bins and settings of the parts used so far

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: Any) -> Any:
        rows = self.rows[k]
        chosen = np.empty((len(self.columns), len(rows)), dtype=self.X.dtype)
        whole = self.X.shape[1] // ROWS_TOGETHER * ROWS_TOGETHER
        n_blocked = ROWS_TOGETHER * len(self.blocks[k])
        for place, column in enumerate(self.columns):  # whole blocks, which is faster than row by row
            blocks = self.X[column, :whole].reshape(-1, ROWS_TOGETHER)
            chosen[place, :n_blocked] = blocks.take(self.blocks[k], axis=0).ravel()
            chosen[place, n_blocked:] = self.X[column, rows[n_blocked:]]
        weight = None if self.weight is None else self.weight[rows]
        data = TrainingData(chosen, weight, self.n_threads, *self._kept.get(k, (None, {})))
        part = Part(data, self.y.take(rows, axis=1), self.raw_prediction.take(rows, axis=1), self.transform)
        part.index = k
        return part

    def add(self, part: Part, rate: float, theta: Array | None, tree: SoftTree) -> None:
        """Add a round, fitted on one of the parts, to the prediction for all rows."""
        self._kept[part.index] = part.data._bins, part.data._settings
        for begin in range(0, self.X.shape[1], MAX_ROWS_PER_TREE):
            rows, own = slice(begin, begin + MAX_ROWS_PER_TREE), tree
            if self.transform is None and isinstance(tree, SoftTree):
                z = self.X[self.columns[tree.columns], rows]
                own = replace(tree, columns=np.arange(len(z), dtype=np.int32))
            else:
                z = self.X[self.columns, rows]
                z = z if self.transform is None else apply_transform(self.transform, theta, z)
            self.raw_prediction[:, rows] += rate * own.output(z, self.n_threads)


def deal(
    X: Array,
    columns: Array,
    y: Array,
    weight: Array | None,
    raw: Array,
    n_threads: int,
    transform: Transform | None,
    whole: TrainingData | None = None,
) -> Sequence[Part]:
    """The rows as one part, or as random parts if there are more than ``MAX_ROWS_PER_TREE``.

    One part of more than ``ROWS_IN_ORDER`` rows is in random order too. ``whole`` holds the same rows with all columns,
    whose bins are used again.
    """
    n = X.shape[1]
    if n > MAX_ROWS_PER_TREE:
        return DealtParts(X, columns, y, weight, raw, n_threads, transform)
    if n <= ROWS_IN_ORDER:
        data = (TrainingData(X, weight, n_threads) if whole is None else whole).of_columns(columns)
        return [Part(data, np.ascontiguousarray(y), np.array(raw, order="C"), transform)]
    rows = np.random.default_rng(0).permutation(n)
    own = None if weight is None else np.ascontiguousarray(weight[rows])
    data = TrainingData(np.stack([X[column].take(rows) for column in columns]), own, n_threads)
    return [Part(data, y[:, rows].copy(), raw[:, rows].copy(), transform)]
