"""The interface of a weak learner: its training data and its result.

Arrays are feature-major: ``X`` (n_features, n_samples), ``target`` (n_outputs, n_samples).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.transforms import Linear, Transform

from .soft_tree import SoftTree

__all__ = [
    "ENOUGH_ROWS",
    "Fitted",
    "TrainingData",
    "WeakLearner",
    "apply_transform",
    "evenly_spaced",
    "pull_back",
    "ridge_leaves",
    "training_z",
]

Array = NDArray[Any]
ENOUGH_ROWS = 5000  # sample size for ranking columns


@dataclass
class TrainingData:
    """The rows of one fit: X (n_features, n_samples), the weights, and the bins of X, computed on first use."""

    X: Array
    weight: Array | None
    n_threads: int = 1
    _bins: Any = None
    _settings: dict[Any, Any] = field(default_factory=dict)  # what learners keep from round to round
    _whole: tuple[TrainingData, Array] | None = None  # the rows with more columns, and which columns these are

    @property
    def bins(self) -> Any:
        if self._bins is None:
            self._bins = self._bins_of_whole()
        if self._bins is None:
            self._bins = _kernels.bin_columns(self.X, self.weight, 256, self.n_threads)
        return self._bins

    def _bins_of_whole(self) -> Any:
        """The bins of the same columns among more columns, where those are known or nearly all are needed."""
        if self._whole is None:
            return None
        whole, columns = self._whole
        if whole._bins is None and 2 * len(columns) < len(whole.X):
            return None
        return whole.bins.take(columns)

    def of_columns(self, columns: Array) -> TrainingData:
        """The same rows with some of the columns."""
        columns = np.ascontiguousarray(columns, dtype=np.int32)
        return TrainingData(np.ascontiguousarray(self.X[columns]), self.weight, self.n_threads, _whole=(self, columns))

    @property
    def total_weight(self) -> float:
        return float(self.X.shape[1] if self.weight is None else self.weight.sum())

    def thinned(self) -> TrainingData:
        """At most ``ENOUGH_ROWS`` evenly spaced rows, enough to rank the columns."""
        if self.X.shape[1] <= ENOUGH_ROWS:
            return self
        weight = None if self.weight is None else evenly_spaced(self.weight)
        return TrainingData(evenly_spaced(self.X), weight, self.n_threads)


def evenly_spaced(rows: Array) -> Array:
    """At most ``ENOUGH_ROWS`` evenly spaced rows; rows are the last axis."""
    n = rows.shape[-1]
    return rows if n <= ENOUGH_ROWS else np.ascontiguousarray(rows[..., np.linspace(0, n - 1, ENOUGH_ROWS).astype(int)])


class Fitted(NamedTuple):
    """A fitted tree, the updated parameters of the transform, and the tree's output on the training rows."""

    tree: SoftTree
    theta: Array | None
    output: Array
    error: float = math.nan  # weighted sum of squared leave-one-out errors, where the learner computes it


class WeakLearner(Protocol):
    """Fits the tree of one round to a target (n_outputs, n_samples) and updates the transform."""

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit SDT_k on (Q_{k-1} X, target) and move Q_{k-1} to Q_k; theta holds Q's parameters."""
        ...


def apply_transform(transform: Transform, theta: Array | None, X: Array) -> Array:
    """z (n_components, n_samples) of feature-major X."""
    assert theta is not None
    if type(transform).apply is Linear.apply:  # the kernel's result does not depend on the threads of a BLAS
        Q = np.ascontiguousarray(theta, dtype=np.float64)
        return _kernels.linear_outputs(Q, np.zeros(len(Q)), np.ascontiguousarray(X)).astype(X.dtype, copy=False)
    z = np.asarray(transform.apply(theta, X.T))
    if z.ndim != 2 or len(z) != X.shape[1]:
        raise ValueError(
            f"feature_transform {type(transform).__name__}: apply must return an array of shape (n_samples, "
            f"n_components) = ({X.shape[1]}, n_components), got {z.shape}"
        )
    return np.ascontiguousarray(z.T, dtype=X.dtype)


def training_z(transform: Transform, theta: Array | None, X: Array) -> Array:
    """:func:`apply_transform` on training rows, where parameters that have become huge raise an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        z = apply_transform(transform, theta, X)
    if not np.isfinite(z).all():
        raise ValueError("feature_transform gives values that are not finite; lower its learning_rate")
    return z


def pull_back(transform: Transform, theta: Array, X: Array, grad_z: Array) -> Array:
    """Gradient of theta from the gradient of z (n_components, n_samples), for feature-major X."""
    if type(transform).pullback is Linear.pullback:  # as in apply_transform
        rows, weights = np.ascontiguousarray(X.T), np.ascontiguousarray(grad_z, dtype=np.float64)
        return _kernels.linear_outputs(weights, np.zeros(len(grad_z)), rows).astype(X.dtype, copy=False)
    gradient = np.asarray(transform.pullback(theta, X.T, grad_z.T))
    if gradient.shape != theta.shape and not gradient.size == theta.size == 1:
        raise ValueError(
            f"feature_transform {type(transform).__name__}: pullback must return an array of the shape of theta "
            f"{theta.shape}, got {gradient.shape}"
        )
    return gradient.reshape(theta.shape)


def ridge_leaves(basis: Array, target: Array, weight: Array, ridge: float, n_threads: int = 1) -> Array:
    """Leaf coefficients (n_basis, n_outputs) of the weighted ridge regression of the target on the leaf basis."""
    target, weight = (np.ascontiguousarray(a, dtype=basis.dtype) for a in (target, weight))
    _, _, gram, cross = _kernels.moments(np.ascontiguousarray(basis), target, weight, n_threads, centred=False)
    gram[np.diag_indices_from(gram)] += ridge
    return np.stack([_kernels.solve_with_inverse(gram, row)[0] for row in cross], axis=1).astype(basis.dtype)
