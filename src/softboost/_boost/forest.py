"""Extremely randomised trees as a weak learner of a single round.

Each tree is grown until its leaves are pure. A split is the best of one random threshold per column, so trees differ
although all of them see all rows. Their mean is a deep and smooth function, which boosted trees of small depth cannot
represent. The random numbers depend on the number of the tree and the path to the node only; no seed changes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.transforms import Transform

from .hard_trees import HardTree
from .learner import Fitted, TrainingData

__all__ = ["ExtraTrees"]

Array = NDArray[Any]


@dataclass(frozen=True)
class ExtraTrees:
    """Weak learner: the mean of extremely randomised trees.

    Parameters
    ----------
    n_trees : int
    """

    n_trees: int = 32

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit the trees to the target (n_outputs, n_samples)."""
        target = np.ascontiguousarray(target, dtype=data.X.dtype)
        grown = _kernels.grow_forest(data.X, target, data.weight, self.n_trees, data.n_threads)
        trees = HardTree(*grown, np.array(False))
        return Fitted(trees, None, trees.output(data.X, data.n_threads))  # type: ignore[arg-type]
