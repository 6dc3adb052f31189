"""Screening of columns: by their effect in a pilot run, and by products of two columns that predict the target."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.losses import SquaredError

from .boosting import Recipe, boost
from .greedy import GreedyTrees
from .learner import TrainingData, evenly_spaced

__all__ = ["paired_columns", "pilot_ranking"]

Array = NDArray[Any]
PILOT = GreedyTrees(depth=2, shallower=False, sharpness=(4.0,), ridge=(1.0,))
PILOT_ROUNDS = 40
MAX_PAIRED = 300  # largest number of columns whose products are tested
N_PAIRS = 3
PAIR_MARGIN = 0.25  # standard errors beyond the largest value expected by chance


def pilot_ranking(data: TrainingData, target: Array) -> Array:
    """Columns by their effect in a short pilot run, largest first; ties by column index."""
    data, target = data.thinned(), evenly_spaced(target)
    recipe = Recipe("pilot", PILOT, None, PILOT_ROUNDS, 0.3)
    start = np.zeros_like(target)
    pilot = boost(recipe, data.X, target, data.weight, SquaredError(), start, n_threads=data.n_threads, data=data)
    effects = pilot.effects(data)
    assert effects is not None
    order = np.argsort(-effects, kind="stable")
    return order[effects[order] > 0].astype(np.int32)


def paired_columns(data: TrainingData, target: Array) -> Array:
    """Pairs of columns whose product correlates with the target beyond chance among all products, strongest first.

    A greedy tree does not find such a pair, because neither column has an effect alone.
    """
    data, target = data.thinned(), evenly_spaced(target)
    n_columns, n = data.X.shape
    if not 2 <= n_columns <= MAX_PAIRED or data.total_weight < 20:
        return np.empty(0, dtype=np.int32)
    weight = np.full(n, 1.0 / n) if data.weight is None else data.weight / data.weight.sum()
    X = np.clip(data.X, -2.0, 2.0).astype(np.float64)  # so that outliers do not decide
    constant = np.ptp(X, axis=1) == 0.0
    X -= np.sum(X * weight, axis=1, keepdims=True)
    X[constant] = 0.0  # without rounding

    def sums(row_weight: Array, Z: Array) -> Array:
        """Sum of row_weight z_i z_j over the rows, for all pairs of columns."""
        weighted, by_row = np.ascontiguousarray(Z * row_weight), np.ascontiguousarray(Z.T)
        return _kernels.linear_outputs(weighted, np.zeros(n_columns), by_row, data.n_threads)

    square = sums(weight, X**2)
    variance = square - sums(weight, X) ** 2
    varies = variance > 1e-12 * square  # else the product is constant up to rounding
    strength = np.zeros((n_columns, n_columns))
    for residual in target.astype(np.float64):
        residual = residual - np.sum(weight * residual)
        covariance = sums(weight * residual, X)
        explained = covariance**2 / np.maximum(variance * np.sum(weight * residual**2), 1e-300)
        strength = np.maximum(strength, np.where(varies, explained, 0.0))
    first, second = _pairs(n_columns)
    t = np.sqrt(strength[first, second] * data.total_weight)
    strong = np.flatnonzero(t > np.sqrt(2 * np.log(len(t) + 1)) + PAIR_MARGIN)
    best = strong[np.argsort(-t[strong], kind="stable")][:N_PAIRS]
    columns = np.column_stack([first[best], second[best]]).ravel()
    return columns[np.sort(np.unique(columns, return_index=True)[1])].astype(np.int32)


@lru_cache(maxsize=8)
def _pairs(n_columns: int) -> tuple[Array, Array]:
    """All pairs of columns, as two arrays."""
    return np.triu_indices(n_columns, 1)
