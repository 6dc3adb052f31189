"""Codecs of the functions that a round of boosting may add: soft trees, hard trees and Gaussian processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softboost._boost.gaussian_process import COVARIANCES, KernelFunction
from softboost._boost.hard_trees import HardTree
from softboost._boost.soft_tree import SoftTree
from softboost._file.values import Codec, Fields, register
from softboost._kernels import FARTHEST, MAX_DEPTH

from .settings import attributes

__all__ = ["FUNCTIONS", "outputs_of"]


def _unpack_tree(f: Fields) -> SoftTree:
    depth = f.integer("depth", 1, MAX_DEPTH)
    n_leaves = 2**depth
    columns = f.array("columns", "i", (None,), below=2**31)
    gate_weights = f.array("gate_weights", "f", (n_leaves - 1, len(columns)))
    gate_bias = f.array("gate_bias", "f", (n_leaves - 1,))
    leaf_values = f.array("leaf_values", "f", (n_leaves, None))
    leaf_weights = None
    if f.values.get("leaf_weights") is None:
        f.take("leaf_weights", type(None))
    else:
        leaf_weights = f.array("leaf_weights", "f", (n_leaves, leaf_values.shape[1], len(columns)))
    dtypes = {a.dtype for a in (gate_weights, gate_bias, leaf_values, leaf_weights) if a is not None}
    if len(dtypes) > 1:
        raise f.error("gates and leaves have different precisions")
    leaf_weights = None if leaf_weights is None else np.ascontiguousarray(leaf_weights)
    gate_weights, leaf_values = np.ascontiguousarray(gate_weights), np.ascontiguousarray(leaf_values)
    return SoftTree(depth, columns, gate_weights, gate_bias, leaf_values, leaf_weights)


def _unpack_hard_tree(f: Fields) -> HardTree:
    feature = f.array("feature", "i", (None,), below=2**31)
    n_nodes = len(feature)
    threshold = f.array("threshold", "f", (n_nodes,), finite=False)
    left, right = (f.array(side, "i", (n_nodes,), below=n_nodes) for side in ("left", "right"))
    values = f.array("values", "f", (n_nodes, None))
    roots = f.array("roots", "i", (None,), below=n_nodes)
    numbers = np.arange(n_nodes)
    splits = left != numbers
    parents = np.bincount(np.concatenate([left[splits], right[splits], roots]), minlength=n_nodes)
    # every node is a root or has exactly one parent, which precedes it, so there are no cycles
    if not n_nodes or np.any(parents != 1) or np.any((right != numbers) != splits) or np.isnan(threshold).any():
        raise f.error("the nodes do not form trees")
    if np.any(left[splits] <= numbers[splits]) or np.any(right[splits] <= numbers[splits]):
        raise f.error("a node precedes its parent")
    return HardTree(feature, threshold, left, right, values, roots, f.array("single", "b", ()))


def _unpack_kernel_function(f: Fields) -> KernelFunction:
    centres = f.array("centres", "f", (None, None))
    coefficients = f.array("coefficients", "f", (None, centres.shape[1]))
    centre, scale, limit = (f.array(name, "f", (len(centres),)) for name in ("centre", "scale", "limit"))
    with np.errstate(over="ignore"):
        total = np.abs(coefficients).sum()
    if not (centres.size and np.all(np.abs(centres) <= 1.001 * limit[:, None]) and np.all(limit <= FARTHEST)):
        raise f.error("the rows of a Gaussian process must be within its limits")
    if not np.isfinite(total):
        raise f.error("the coefficients of a Gaussian process overflow")
    covariance = f.take("covariance", str) if "covariance" in f.values else "matern"  # older files have no entry
    if covariance not in COVARIANCES:
        raise f.error(f"unknown covariance {covariance!r}")
    arrays = centre, scale, limit, np.ascontiguousarray(centres), np.ascontiguousarray(coefficients)
    intercept, zero = (_optional(f, name, len(coefficients)) for name in ("intercept", "zero"))
    if zero is not None and intercept is None:
        raise f.error("a Gaussian process of logarithms has no intercept")
    return KernelFunction(*arrays, covariance, intercept, zero)


def _optional(f: Fields, name: str, length: int) -> Any:
    """An array of this length, or None, as in older files, which have no entry."""
    if f.values.get(name) is not None:
        return f.array(name, "f", (length,))
    return f.take(name, type(None)) if name in f.values else None


def outputs_of(function: Any) -> int:
    """Number of outputs of a function."""
    if isinstance(function, KernelFunction):
        return len(function.coefficients)
    return int((function.leaf_values if isinstance(function, SoftTree) else function.values).shape[1])


FUNCTIONS = (SoftTree, HardTree, KernelFunction)
register(SoftTree, Codec(attributes, _unpack_tree))
register(HardTree, Codec(attributes, _unpack_hard_tree))
register(KernelFunction, Codec(attributes, _unpack_kernel_function))
