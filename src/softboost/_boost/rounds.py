"""Boosting rounds that the kernel has computed, stored as arrays and converted to trees on first access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .soft_tree import SoftTree, unflattened

__all__ = ["JointRounds", "KernelRounds"]

Array = NDArray[Any]


class KernelRounds(Sequence[tuple[None, SoftTree]]):
    """Rounds of greedy trees, stored as concatenated arrays."""

    def __init__(self, flat: dict[str, Array], n_outputs: int) -> None:
        self.flat, self.n_outputs = flat, n_outputs
        self._cut: list[tuple[None, SoftTree]] | None = None

    def __len__(self) -> int:
        return len(self.flat["depth"])

    def __getitem__(self, index: Any) -> Any:
        if self._cut is None:
            self._cut = [(None, tree) for tree in unflattened(self.flat, self.n_outputs)]
        return self._cut[index]


class JointRounds(Sequence[tuple[Array, SoftTree]]):
    """Rounds of joint steps: the parameters of the transform and a tree of the same shape per round.

    Parameters
    ----------
    theta : ndarray of shape (n_rounds, ...)
    trees : tuple of ndarray
        Gate weights, gate biases, leaf values and leaf weights (or None), with the rounds as first axis.
    """

    def __init__(self, theta: Array, trees: tuple[Array, Array, Array, Array | None]) -> None:
        self.theta, self.trees = theta, trees
        self._cut: list[tuple[Array, SoftTree]] | None = None

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, index: Any) -> Any:
        if self._cut is None:
            gates, bias, values, slopes = self.trees
            depth, columns = values.shape[1].bit_length() - 1, np.arange(gates.shape[2], dtype=np.int32)
            self._cut = [
                (
                    self.theta[k],
                    SoftTree(depth, columns, gates[k], bias[k], values[k], None if slopes is None else slopes[k]),
                )
                for k in range(len(self))
            ]
        return self._cut[index]

    def flat(self, columns: Array) -> dict[str, Array]:
        """The trees multiplied with linear transforms Q, in the format of the prediction kernel, on all columns."""
        gates, bias, values, slopes = self.trees
        n_rounds, n_leaves = values.shape[:2]
        leaf = [values.reshape(n_rounds, -1)]
        if slopes is not None:
            leaf.append((slopes.reshape(n_rounds, -1, slopes.shape[-1]) @ self.theta).reshape(n_rounds, -1))
        return {
            "depth": np.full(n_rounds, n_leaves.bit_length() - 1, dtype=np.int32),
            "linear": np.full(n_rounds, slopes is not None, dtype=np.uint8),
            "n_columns": np.full(n_rounds, len(columns)),
            "columns": np.tile(columns, n_rounds),
            "gate_weights": (gates @ self.theta).ravel(),
            "gate_bias": bias.ravel(),
            "leaf": np.hstack(leaf).ravel(),
        }

    def outputs(self, X: Array, learning_rate: float, n_threads: int = 1) -> Array:
        """Contribution of each round at X (n_features, n_samples) for z = Q x: (n_rounds, n_outputs, n_samples)."""
        return _kernels.joint_outputs(X, self.theta, *self.trees, learning_rate, n_threads)
