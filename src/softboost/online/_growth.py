"""Grows single soft trees and boosted ensembles on the recent rows of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._boost.boosting import Boosted, Part, Recipe, run_rounds
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import Fitted, TrainingData
from softboost._boost.soft_tree import SoftTree, flattened
from softboost.losses import Loss, SquaredError

from ._parts import RecentRows, RunningUnits, SoftTrees

__all__ = ["BoostedTrees", "TreeGrower", "boosted_trees"]

Array = NDArray[Any]

MAX_ROWS, MAX_COLUMNS = 512, 64
MAX_BOOSTED_ROWS, RATE = 1000, 0.4
LIFE = 64  # rows after which a new sample is drawn; binning a sample costs as much as growing several trees


def make_learner(depth: int, n_extra_columns: int) -> GreedyTrees:
    """The weak learner of a stream's trees: that of SoftBoostRegressor, with the ridge that suits few rows."""
    return GreedyTrees(depth, shallower=False, n_extra_columns=n_extra_columns, detrended_candidate=True)


def training_data(Z: Array, weight: Array) -> TrainingData:
    """Columns Z (n_columns, n_rows) and weights as weak learners take them."""
    return TrainingData(np.ascontiguousarray(Z), None if np.all(weight == 1.0) else weight)


class _Remainder(Part):
    """Rows whose state is the residual of the squared error itself, which every round lowers."""

    def __init__(self, data: TrainingData, residual: Array) -> None:
        super().__init__(data, residual[None], np.zeros((1, len(residual))))

    def residual(self, loss: Loss) -> Array:
        return self.y

    def add(self, step: Array) -> None:
        self.y = self.y - step


def boosted_trees(
    learner: GreedyTrees, data: TrainingData, weight: Array, target: Array, n_trees: int, rate: float
) -> list[SoftTree]:
    """Algorithm 1 on a target (n_rows,), as long as trees lower the leave-one-out error; at most one in five rows."""
    n_trees = min(n_trees, max(3, len(target) // 5))
    model = Boosted(Recipe("trees", learner, None, n_trees, rate, "zero"), np.arange(len(data.X)), rate)

    def lowers_the_error(fitted: Fitted, residual: Array) -> bool:
        return bool(fitted.error < weight @ residual[0] ** 2)

    rng = np.random.default_rng(0)  # from which greedy trees draw nothing
    run_rounds(model, [_Remainder(data, target)], SquaredError(), None, rng, accept=lowers_the_error)
    return [tree for _, tree in model.rounds]


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
        self.seed = seed
        self.rows = self.columns = np.zeros(0, dtype=np.int64)
        self.end = 0
        self._learner = make_learner(depth, n_extra_columns)
        self._data: TrainingData | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_data": None}  # recomputed from the rows

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
        self._data = None

    def grow(self, recent: RecentRows, target: Array) -> Fitted | None:
        """Fit a tree to a target on the sampled rows; None if all columns are constant."""
        if not len(self.columns):
            return None
        rng = np.random.default_rng(0)  # from which greedy trees draw nothing
        fitted = self._learner.fit(self._sample(recent), target[None], None, None, rng)
        return fitted._replace(tree=self._on_all_columns(fitted.tree))

    def boost(self, recent: RecentRows, target: Array, n_trees: int, rate: float) -> list[SoftTree]:
        """Boost trees on a target on the sampled rows; none if all columns are constant."""
        if not len(self.columns):
            return []
        data, weight = self._sample(recent), recent.weight[self.rows]
        trees = boosted_trees(self._learner, data, weight, target, n_trees, rate)
        return [self._on_all_columns(tree) for tree in trees]

    def _sample(self, recent: RecentRows) -> TrainingData:
        if self._data is None:
            self._data = training_data(recent.Z[np.ix_(self.rows, self.columns)].T, recent.weight[self.rows])
        return self._data

    def _on_all_columns(self, tree: SoftTree) -> SoftTree:
        return replace(tree, columns=self.columns[tree.columns])


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
        self._learner = make_learner(depth, n_extra_columns)
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
        data = training_data(x[:, columns].T, weight)
        trees = boosted_trees(self._learner, data, weight, y - self.start[0], len(self.grown), RATE)
        for place, tree in enumerate(trees):
            self.put(place, replace(tree, columns=columns[tree.columns]))
            self.coef[self.leaves(place)] = RATE * self.coefficients(tree)

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
