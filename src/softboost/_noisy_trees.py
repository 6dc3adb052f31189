"""Gradient trees whose transform may be noisy in training, as modules with dropout are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._tree import Fitted, GradientTrees, TrainingData, apply_transform, ridge_leaves
from .transforms import Transform

__all__ = ["NoisyTrees"]

Array = NDArray[Any]


@dataclass(frozen=True)
class NoisyTrees(GradientTrees):
    """Weak learner: the joint gradient steps of :class:`GradientTrees`, taken on ``transform.training(rng)``.

    Once the steps are done the noise is off: leaves that are solved are solved again, and the output is what
    prediction will give. Equivalent to :class:`GradientTrees` for a transform that is not noisy.
    """

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target), and move Q to Q_k along with it."""
        in_training = None if transform is None else transform.training(rng)
        fitted = super().fit(data, target, in_training, theta, rng)
        if transform is None or in_training is transform:
            return fitted
        tree, z = fitted.tree, apply_transform(transform, fitted.theta, data.X)
        if self.solve_leaves:
            weight = np.ones(target.shape[1], dtype=target.dtype) if data.weight is None else data.weight
            tree = tree.with_leaves(ridge_leaves(tree.leaf_basis(z, data.n_threads), target, weight, self.ridge))
        return Fitted(tree, fitted.theta, tree.output(z, data.n_threads))
