"""A regularisation path: one linear model per penalty, so that cross-validation can select the penalty.

X (n_features, n_samples) is standardised; models are slopes on it and an intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

__all__ = ["LinearPath", "Moments", "through_means"]

Array = NDArray[Any]


@dataclass
class LinearPath:
    """Linear models in order of increasing complexity, one per stage."""

    coefficients: Array  # (n_stages, n_outputs, n_features)
    intercepts: Array  # (n_stages, n_outputs)

    def predict(self, X: Array, n_threads: int = 1) -> Array:
        """Predictions of all stages at X (n_features, n_samples): shape (n_stages, n_outputs, n_samples)."""
        flat = np.ascontiguousarray(self.coefficients.reshape(-1, self.coefficients.shape[2]))
        intercepts = np.ascontiguousarray(self.intercepts.ravel())
        out = _kernels.linear_outputs(flat, intercepts, np.ascontiguousarray(X), n_threads)
        return out.reshape(*self.intercepts.shape, -1)

    def stage(self, index: int) -> LinearPath:
        """The path that consists of this stage only."""
        return LinearPath(self.coefficients[index : index + 1], self.intercepts[index : index + 1])


@dataclass(frozen=True)
class Moments:
    """Means, centred Gram matrix (n_features, n_features) and cross products of the rows of a fit."""

    mean_x: Array
    mean_y: Array
    gram: Array
    cross: Array  # (n_outputs, n_features)


def through_means(coefficients: Array, mean_x: Array, mean_y: Array) -> LinearPath:
    """Add the intercepts for which the model predicts ``mean_y`` at ``mean_x``."""
    return LinearPath(coefficients, mean_y - (coefficients * mean_x).sum(axis=-1))
