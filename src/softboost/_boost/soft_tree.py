"""A soft tree as arrays, and conversion of many trees to and from the concatenated arrays of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

__all__ = ["SoftTree", "flattened", "unflattened"]

Array = NDArray[Any]


@dataclass(frozen=True)
class SoftTree:
    """A complete binary tree of soft gates on the components ``columns`` of z.

    Node i sends a sample right with probability ``sigmoid(gate_weights[i] . z[columns] + gate_bias[i])``. The output
    is the average of the leaf values, weighted by the probability of each leaf.

    Attributes
    ----------
    depth : int
    columns : ndarray of shape (n_columns,)
        Components of z that the tree uses.
    gate_weights : ndarray of shape (2**depth - 1, n_columns)
    gate_bias : ndarray of shape (2**depth - 1,)
    leaf_values : ndarray of shape (2**depth, n_outputs)
    leaf_weights : ndarray of shape (2**depth, n_outputs, n_columns) or None
        Slopes of linear leaves; None for constant leaves.
    """

    depth: int
    columns: Array
    gate_weights: Array
    gate_bias: Array
    leaf_values: Array
    leaf_weights: Array | None = None

    def output(self, z: Array, n_threads: int = 1) -> Array:
        """Output at z (n_components, n_samples), shape (n_outputs, n_samples)."""
        used = np.ascontiguousarray(z[self.columns])
        return _kernels.tree_output(
            used, self.depth, self.gate_weights, self.gate_bias, self.leaf_values, self.leaf_weights, n_threads
        )

    def leaf_basis(self, z: Array, n_threads: int = 1) -> Array:
        """Basis functions of which the output is a linear combination; shape (n_basis, n_samples).

        A leaf contributes its probability and, if leaves are linear, its probability times each column.
        """
        used = np.ascontiguousarray(z[self.columns])
        reach = _kernels.leaf_probabilities(used, self.gate_weights, self.gate_bias, self.depth, n_threads)
        if self.leaf_weights is None:
            return reach
        ones = np.vstack([np.ones((1, z.shape[1]), dtype=z.dtype), used])
        return (reach[:, None] * ones[None]).reshape(-1, z.shape[1])

    def with_leaves(self, coefficients: Array) -> SoftTree:
        """Replace the leaves; coefficients (n_basis, n_outputs) are in the order of :meth:`leaf_basis`."""
        n_leaves, n_outputs = self.leaf_values.shape
        parts = coefficients.reshape(n_leaves, -1, n_outputs)
        values = np.ascontiguousarray(parts[:, 0])
        if self.leaf_weights is None:
            return replace(self, leaf_values=values)
        return replace(self, leaf_values=values, leaf_weights=np.ascontiguousarray(parts[:, 1:].transpose(0, 2, 1)))

    def composed(self, Q: Array) -> SoftTree:
        """Convert this tree on z = Q x into a tree on x by multiplying gates and slopes with Q."""
        Q = Q[self.columns]
        columns = np.flatnonzero(np.any(Q != 0, axis=0)).astype(np.int32)
        Q = np.ascontiguousarray(Q[:, columns])
        slopes = None if self.leaf_weights is None else self.leaf_weights @ Q
        return replace(self, columns=columns, gate_weights=self.gate_weights @ Q, leaf_weights=slopes)

    def shifted(self, column: int, scale: Array, share: Array, shift: Array) -> SoftTree:
        """Convert this tree on ``scale_i x_i + share_i x[column] + shift_i`` into a tree on x."""
        own = self.columns
        columns = np.append(own, column).astype(np.int32) if column not in own else own
        place = int(np.flatnonzero(columns == column)[0])

        def on_x(weights: Array) -> Array:
            out = np.zeros((*weights.shape[:-1], len(columns)), dtype=weights.dtype)
            out[..., : len(own)] = weights * scale[own]
            out[..., place] += weights @ share[own]
            return out

        values, slopes = self.leaf_values, self.leaf_weights
        if slopes is not None:
            values, slopes = values + slopes @ shift[own], on_x(slopes)
        gate_bias = self.gate_bias + self.gate_weights @ shift[own]
        return SoftTree(self.depth, columns, on_x(self.gate_weights), gate_bias, values, slopes)


def unflattened(flat: dict[str, Array], n_outputs: int) -> list[SoftTree]:
    """Convert the arrays of :func:`flattened` back into trees."""
    trees = []
    column = weight = bias = leaf = 0
    for depth, linear, n_columns in zip(flat["depth"], flat["linear"], flat["n_columns"], strict=True):
        n_leaves = 2 ** int(depth)
        n_nodes, n_values, n_slopes = n_leaves - 1, n_leaves * n_outputs, n_leaves * n_outputs * n_columns * linear
        slopes = flat["leaf"][leaf + n_values : leaf + n_values + n_slopes]
        trees.append(
            SoftTree(
                int(depth),
                flat["columns"][column : column + n_columns],
                flat["gate_weights"][weight : weight + n_nodes * n_columns].reshape(n_nodes, n_columns),
                flat["gate_bias"][bias : bias + n_nodes],
                flat["leaf"][leaf : leaf + n_values].reshape(n_leaves, n_outputs),
                slopes.reshape(n_leaves, n_outputs, n_columns) if linear else None,
            )
        )
        column, weight, bias = column + n_columns, weight + n_nodes * n_columns, bias + n_nodes
        leaf += n_values + n_slopes
    return trees


def flattened(trees: list[SoftTree]) -> dict[str, Array]:
    """Concatenate trees into the arrays of the prediction kernel; see ``Ensemble`` in ``src/cpp/types.hpp``."""
    leaves = []
    for tree in trees:
        leaves.append(tree.leaf_values.ravel())
        if tree.leaf_weights is not None:
            leaves.append(tree.leaf_weights.ravel())
    return {
        "depth": np.array([t.depth for t in trees], dtype=np.int32),
        "linear": np.array([t.leaf_weights is not None for t in trees], dtype=np.uint8),
        "n_columns": np.array([len(t.columns) for t in trees], dtype=np.int64),
        "columns": _joined([t.columns for t in trees], np.int32),
        "gate_weights": _joined([t.gate_weights.ravel() for t in trees], np.float64),
        "gate_bias": _joined([t.gate_bias for t in trees], np.float64),
        "leaf": _joined(leaves, np.float64),
    }


def _joined(parts: list[Array], dtype: Any) -> Array:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
