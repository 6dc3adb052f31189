"""Weak learner: a tree grown greedily, with softened splits and leaves in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.transforms import Transform

from .learner import Fitted, TrainingData, training_z
from .soft_tree import SoftTree

__all__ = ["GreedyTrees", "min_leaf_weight"]

Array = NDArray[Any]
MIN_LEAF_ROWS = 5.0


def min_leaf_weight(data: TrainingData, rows: float = MIN_LEAF_ROWS) -> float:
    """Minimum leaf weight, lowered on tiny data."""
    return min(rows, max(1.0, data.total_weight / 4.0))


@dataclass(frozen=True)
class GreedyTrees:
    """Weak learner: greedy splits, softened; ridge regression in the leaves; settings by leave-one-out error.

    Parameters
    ----------
    depth : int
    shallower : bool
        Also try every smaller depth.
    leaves : {"constant", "linear"}
        Linear leaves are linear in the split columns of the tree and ``n_extra_columns`` further columns.
    sharpness : tuple of float
        Slopes of the gates to try, per standard deviation of the column; 25 is nearly hard.
    ridge : tuple of float
        Ridge penalties of the leaf regression to try.
    detrended_candidate : bool
        Also try a tree grown on the residuals of a linear fit on four columns.
    min_leaf_rows : float
        Minimum weight of a leaf; a row without sample weight counts as one.
    """

    depth: int = 2
    shallower: bool = True
    leaves: Literal["constant", "linear"] = "linear"
    sharpness: tuple[float, ...] = (1.0, 3.0, 8.0, 25.0)
    ridge: tuple[float, ...] = (1.0, 0.1, 10.0)
    n_extra_columns: int = 0
    detrended_candidate: bool = False
    min_leaf_rows: float = MIN_LEAF_ROWS

    def settings(self, data: TrainingData) -> Any:
        """Settings of the kernel."""
        return _settings(self, min_leaf_weight(data, self.min_leaf_rows))

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target) without changing Q."""
        if transform is not None:
            data = TrainingData(training_z(transform, theta, data.X), data.weight, data.n_threads)
        t = _kernels.fit_greedy(data.X, data.bins, target, data.weight, self.settings(data), data.n_threads)
        tree = SoftTree(t.depth, t.columns, t.gate_weights, t.gate_bias, t.leaf_values, t.leaf_weights)
        return Fitted(tree, theta, t.output, t.leave_one_out)


@lru_cache(maxsize=256)
def _settings(learner: GreedyTrees, min_leaf_weight: float) -> Any:
    """Settings of the kernel, which many fits and all of their rounds share."""
    linear = learner.leaves == "linear"
    return _kernels.greedy_settings(
        depth=learner.depth,
        shallower=learner.shallower and learner.depth > 1,
        sharpness=learner.sharpness,
        ridge=learner.ridge,
        linear_leaves=linear,
        n_extra_columns=learner.n_extra_columns if linear else 0,
        detrended_candidate=learner.detrended_candidate,
        min_leaf_weight=min_leaf_weight,
    )
