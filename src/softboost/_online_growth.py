"""Growing one soft tree on a sample of a stream's recent rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _kernels
from ._online_parts import RecentRows, RunningUnits

__all__ = ["GrownTree", "TreeGrower"]

Array = NDArray[Any]

MAX_ROWS, MAX_COLUMNS = 512, 64
LIFE = 64  # rows after which a new sample is drawn; binning one costs as much as growing several trees on it


class GrownTree(NamedTuple):
    """Gates on ``columns``, leaf coefficients ordered as the basis, output, weighted sum of squared left-out errors."""

    columns: Array
    gate_weights: Array
    gate_bias: Array
    coef: Array
    output: Array
    error: float


class TreeGrower:
    """Grows trees on a sample of rows and columns, which is kept for a while.

    Parameters
    ----------
    depth : int
    n_extra_columns : int
        Columns of a leaf that its tree does not split on.
    seed : int
    """

    def __init__(self, depth: int, n_extra_columns: int, seed: int) -> None:
        self.depth, self.n_extra_columns, self.seed = depth, n_extra_columns, seed
        self.rows = self.columns = np.zeros(0, dtype=np.int64)
        self.end = 0
        self._binned: tuple[Array, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_binned": None}  # made again from the rows

    def draw(self, recent: RecentRows, units: RunningUnits, now: int) -> None:
        """Choose rows and columns; no rows that the ring overwrites before the next choice."""
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
        """A tree that fits a target on the sampled rows; None where no column varies."""
        if not len(self.columns):
            return None
        if self._binned is None:
            Z = np.ascontiguousarray(recent.Z[np.ix_(self.rows, self.columns)].T)
            self._binned = Z, _kernels.bin_columns(Z)
        settings = _kernels.greedy_settings(
            depth=self.depth,
            sharpness=(1.0, 3.0, 8.0, 25.0),
            ridge=(1.0, 0.1, 10.0),
            linear_leaves=True,
            n_extra_columns=self.n_extra_columns,
            detrended_candidate=True,
            min_leaf_weight=min(5.0, max(1.0, len(target) / 4)),
        )
        weight, (Z, bins) = recent.weight[self.rows], self._binned
        _, columns, gates, bias, values, slopes, output, _, error = _kernels.fit_greedy(
            Z, bins, target[None], None if np.all(weight == 1.0) else weight, settings
        )
        coef = np.zeros((2**self.depth, 2**self.depth + self.n_extra_columns))
        coef[:, 0] = values[:, 0]
        if slopes is not None:
            coef[:, 1 : 1 + len(columns)] = slopes[:, 0]
        return GrownTree(self.columns[columns], gates, bias, coef.ravel(), output[0], error)
