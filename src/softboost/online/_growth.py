"""Grows single soft trees and boosted ensembles on the recent rows of a stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._boost.soft_tree import SoftTree, flattened

from ._parts import RecentRows, RunningUnits, SoftTrees

__all__ = ["BoostedTrees", "GrownTree", "TreeGrower", "grow_tree"]

Array = NDArray[Any]

MAX_ROWS, MAX_COLUMNS = 512, 64
MAX_BOOSTED_ROWS, RATE = 1000, 0.4
LIFE = 64  # rows after which a new sample is drawn; binning a sample costs as much as growing several trees


class GrownTree(NamedTuple):
    """Gates on ``columns``, leaf coefficients in the order of the basis, output, and weighted leave-one-out error."""

    columns: Array
    gate_weights: Array
    gate_bias: Array
    coef: Array
    output: Array
    error: float


def grow_tree(Z: Array, bins: Any, target: Array, weight: Array, depth: int, n_extra_columns: int) -> GrownTree:
    """Grow a tree on the columns Z (n_columns, n_rows), binned in ``bins``."""
    settings = _kernels.greedy_settings(
        depth=depth,
        sharpness=(1.0, 3.0, 8.0, 25.0),
        ridge=(1.0, 0.1, 10.0),
        linear_leaves=True,
        n_extra_columns=n_extra_columns,
        detrended_candidate=True,
        min_leaf_weight=min(5.0, max(1.0, len(target) / 4)),
    )
    _, columns, gates, bias, values, slopes, output, _, error = _kernels.fit_greedy(
        Z, bins, target[None], None if np.all(weight == 1.0) else weight, settings
    )
    coef = np.zeros((2**depth, 2**depth + n_extra_columns))
    coef[:, 0] = values[:, 0]
    if slopes is not None:
        coef[:, 1 : 1 + len(columns)] = slopes[:, 0]
    return GrownTree(columns, gates, bias, coef.ravel(), output[0], error)


class TreeGrower:
    """Grows trees on a sample of rows and columns that is used for several trees.

    Parameters
    ----------
    depth : int
    n_extra_columns : int
        Number of columns of a leaf that its tree does not split on.
    seed : int
    """

    def __init__(self, depth: int, n_extra_columns: int, seed: int) -> None:
        self.depth, self.n_extra_columns, self.seed = depth, n_extra_columns, seed
        self.rows = self.columns = np.zeros(0, dtype=np.int64)
        self.end = 0
        self._binned: tuple[Array, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_binned": None}  # recomputed from the rows

    def draw(self, recent: RecentRows, units: RunningUnits, now: int) -> None:
        """Draw rows and columns, without the rows that the buffer will overwrite before the next draw."""
        rows = recent.places()[-(len(recent.y) - LIFE) :]
        columns = np.flatnonzero(units.scale > 0)
        rng = np.random.default_rng([self.seed, now])
        if len(rows) > MAX_ROWS:
            rows = rows[np.sort(rng.choice(len(rows), MAX_ROWS, replace=False))]
        if len(columns) > MAX_COLUMNS:
            columns = np.sort(rng.choice(columns, MAX_COLUMNS, replace=False))
        self.rows, self.columns, self.end = rows, columns, now + min(LIFE, max(now // 8, 1))
        self._binned = None

    def grow(self, recent: RecentRows, target: Array) -> GrownTree | None:
        """Fit a tree to a target on the sampled rows; None if all columns are constant."""
        if not len(self.columns):
            return None
        if self._binned is None:
            Z = np.ascontiguousarray(recent.Z[np.ix_(self.rows, self.columns)].T)
            self._binned = Z, _kernels.bin_columns(Z)
        weight, (Z, bins) = recent.weight[self.rows], self._binned
        tree = grow_tree(Z, bins, target, weight, self.depth, self.n_extra_columns)
        return tree._replace(columns=self.columns[tree.columns])


class BoostedTrees(SoftTrees):
    """Trees boosted on the recent rows, unchanged until the next refit.

    Attributes
    ----------
    coef : ndarray of shape (n_trees * block,)
    start : ndarray of shape (1,), the prediction before the first tree
    bounds : ndarray of shape (2,), smallest and largest target of the rows
    """

    def __init__(self, n_trees: int, depth: int, n_extra_columns: int) -> None:
        super().__init__(n_trees, depth, 2**depth - 1 + n_extra_columns)
        self.n_extra_columns = n_extra_columns
        self.coef, self.start, self.bounds = np.zeros(self.n_basis), np.zeros(1), np.zeros(2)
        self._packed: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_packed": None}  # objects of the extension cannot be pickled

    def fit(self, x: Array, y: Array, weight: Array, rng: np.random.Generator) -> None:
        """Boost on standardised rows x (n_rows, n_columns) while trees lower the leave-one-out error."""
        columns = np.flatnonzero(x.any(axis=0))
        if len(y) > MAX_BOOSTED_ROWS:
            rows = np.sort(rng.choice(len(y), MAX_BOOSTED_ROWS, replace=False))
            x, y, weight = x[rows], y[rows], weight[rows]
        if len(columns) > MAX_COLUMNS:
            columns = np.sort(rng.choice(columns, MAX_COLUMNS, replace=False))
        self.grown[:], self.coef[:], self._packed = 0.0, 0.0, None
        self.start, self.bounds = np.array([weight @ y / weight.sum()]), np.array([y.min(), y.max()])
        if not len(columns):
            return
        Z = np.ascontiguousarray(x[:, columns].T)
        bins, residual = _kernels.bin_columns(Z), y - self.start[0]
        for tree in range(min(len(self.grown), max(3, len(y) // 5))):
            grown = grow_tree(Z, bins, residual, weight, self.depth, self.n_extra_columns)
            if not grown.error < weight @ residual**2:
                break
            self.put(tree, columns[grown.columns], grown.gate_weights, grown.gate_bias)
            self.coef[self.leaves(tree)] = RATE * grown.coef
            residual = residual - RATE * grown.output

    def predict(self, x: Array) -> float:
        """The prediction at a standardised row, clipped to the range of the targets in the buffer."""
        packed = self._packed  # another thread may replace it
        if packed is None or packed[0] != len(x):
            packed = self._packed = len(x), self._pack(len(x))
        y = float(packed[1].predict(x[None], 1)[0, 0])
        return min(max(y, float(self.bounds[0])), float(self.bounds[1]))

    def _pack(self, n_columns: int) -> Any:
        leaves = self.coef.reshape(len(self.grown), 2**self.depth, 1 + self.columns.shape[1])
        trees = []
        for tree in np.flatnonzero(self.grown):
            used = np.flatnonzero(self.used[tree])
            values, slopes = leaves[tree][:, :1], leaves[tree][:, None, 1 + used]
            gates = self.weights[tree][:, used]
            trees.append(SoftTree(self.depth, self.columns[tree, used], gates, self.bias[tree], values, slopes))
        units = {"offset": np.zeros(n_columns), "scale": np.ones(n_columns)}
        linear = {"intercept": self.start, "coefficients": np.zeros((1, n_columns))}
        return _kernels.pack_ensemble(np.float64, **units, **linear, **flattened(trees))
