"""One soft tree: its arrays, and the two ways of fitting one to a target.

* :class:`GreedyTrees` grow a hard tree, soften its splits and solve the leaves in closed form.
* :class:`GradientTrees` move gates, leaves and the feature transform together by gradient steps; this is the paper's
  way, and the only one that learns a transform.

Both see feature-major arrays: ``X`` (n_features, n_samples), ``target`` (n_outputs, n_samples).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _kernels
from .transforms import Linear, Transform

__all__ = [
    "Fitted",
    "GradientTrees",
    "GreedyTrees",
    "SoftTree",
    "TrainingData",
    "WeakLearner",
    "apply_transform",
    "flattened",
    "ridge_leaves",
    "unflattened",
]

Array = NDArray[Any]
MAX_SOLVED = 4096
MIN_LEAF_ROWS = 5.0


@dataclass(frozen=True)
class SoftTree:
    """A full binary tree of soft gates on the components ``columns`` of z.

    Node i sends a sample right with probability ``sigmoid(gate_weights[i] . z[columns] + gate_bias[i])``; the output
    is the average of the leaves' values, weighted with the probability of reaching them.

    Attributes
    ----------
    depth : int
    columns : ndarray of shape (n_columns,)
        Components of z that the tree looks at.
    gate_weights : ndarray of shape (2**depth - 1, n_columns)
    gate_bias : ndarray of shape (2**depth - 1,)
    leaf_values : ndarray of shape (2**depth, n_outputs)
    leaf_weights : ndarray of shape (2**depth, n_outputs, n_columns) or None
        Slopes of leaves that are linear in z; None for constant leaves.
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
        """Functions whose sum, weighted with the leaf coefficients, is the output; shape (n_basis, n_samples).

        A leaf contributes its membership and, where leaves are linear, its membership times each column.
        """
        used = np.ascontiguousarray(z[self.columns])
        reach = _kernels.leaf_probabilities(used, self.gate_weights, self.gate_bias, self.depth, n_threads)
        if self.leaf_weights is None:
            return reach
        ones = np.vstack([np.ones((1, z.shape[1]), dtype=z.dtype), used])
        return (reach[:, None] * ones[None]).reshape(-1, z.shape[1])

    def with_leaves(self, coefficients: Array) -> SoftTree:
        """The same gates with other leaves; coefficients (n_basis, n_outputs) as :meth:`leaf_basis` orders them."""
        n_leaves, n_outputs = self.leaf_values.shape
        parts = coefficients.reshape(n_leaves, -1, n_outputs)
        values = np.ascontiguousarray(parts[:, 0])
        if self.leaf_weights is None:
            return replace(self, leaf_values=values)
        return replace(self, leaf_values=values, leaf_weights=np.ascontiguousarray(parts[:, 1:].transpose(0, 2, 1)))

    def composed(self, Q: Array) -> SoftTree:
        """The tree, which looks at z = Q x, as a tree that looks at x: gates and slopes multiplied with Q."""
        Q = Q[self.columns]
        columns = np.flatnonzero(np.any(Q != 0, axis=0)).astype(np.int32)
        Q = np.ascontiguousarray(Q[:, columns])
        slopes = None if self.leaf_weights is None else self.leaf_weights @ Q
        return replace(self, columns=columns, gate_weights=self.gate_weights @ Q, leaf_weights=slopes)

    def shifted(self, column: int, scale: Array, share: Array, shift: Array) -> SoftTree:
        """The tree, which looks at ``scale_i x_i + share_i x[column] + shift_i``, as a tree that looks at x."""
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
    """The trees of :func:`flattened`, one by one."""
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
    """Trees end to end as the prediction kernel takes them; see ``Ensemble`` in ``src/cpp/types.hpp``."""
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


@dataclass
class TrainingData:
    """The rows of one fit: X (n_features, n_samples), the weights, and the bins of X once they are needed."""

    X: Array
    weight: Array | None
    n_threads: int = 1
    _bins: Any = None
    _settings: dict[GreedyTrees, Any] = field(default_factory=dict)  # of the kernel, for each learner

    @property
    def bins(self) -> Any:
        if self._bins is None:
            self._bins = _kernels.bin_columns(self.X, 256, self.n_threads)
        return self._bins

    @property
    def total_weight(self) -> float:
        return float(self.X.shape[1] if self.weight is None else self.weight.sum())


class Fitted(NamedTuple):
    """A fitted tree, the transform's parameters after it, and the tree's output on the training rows."""

    tree: SoftTree
    theta: Array | None
    output: Array


class WeakLearner(Protocol):
    """How one round's tree is fitted to a target (n_outputs, n_samples), and the transform moved along with it."""

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


def _min_leaf_weight(data: TrainingData, rows: float = MIN_LEAF_ROWS) -> float:
    """A leaf holds so many rows, fewer only where there are hardly more than that."""
    return min(rows, max(1.0, data.total_weight / 4.0))


@dataclass(frozen=True)
class GreedyTrees:
    """Weak learner: greedy split, softened, leaves by ridge regression, details chosen by leave-one-out error.

    Parameters
    ----------
    depth : int
    shallower : bool
        Also try every smaller depth.
    leaves : {"constant", "linear"}
        Linear leaves are linear in the tree's split columns and ``n_extra_columns`` others.
    sharpness : tuple of float
        Slopes of the gates to try, in standard deviations of the columns; 25 is nearly hard.
    ridge : tuple of float
        Ridges of the leaf regression to try.
    detrended_candidate : bool
        Also try a tree grown on what a linear fit on four columns leaves over.
    min_leaf_rows : float
        Rows of each leaf at least, counted with their weights.
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
        """Settings of the kernel; the same for every round of one fit, so made once."""
        if self not in data._settings:
            data._settings[self] = _kernels.greedy_settings(
                depth=self.depth,
                shallower=self.shallower and self.depth > 1,
                sharpness=self.sharpness,
                ridge=self.ridge,
                linear_leaves=self.leaves == "linear",
                n_extra_columns=self.n_extra_columns if self.leaves == "linear" else 0,
                detrended_candidate=self.detrended_candidate,
                min_leaf_weight=_min_leaf_weight(data, self.min_leaf_rows),
            )
        return data._settings[self]

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """A tree grown on (Q_{k-1} X, target); Q itself stays where it is."""
        if transform is not None:
            data = TrainingData(apply_transform(transform, theta, data.X), data.weight, data.n_threads)
        depth, columns, gate_weights, gate_bias, leaf_values, leaf_weights, output, *_ = _kernels.fit_greedy(
            data.X, data.bins, target, data.weight, self.settings(data), data.n_threads
        )
        return Fitted(SoftTree(depth, columns, gate_weights, gate_bias, leaf_values, leaf_weights), theta, output)


@dataclass(frozen=True)
class GradientTrees:
    """Weak learner: joint gradient steps on gates, leaves and the transform.

    Parameters
    ----------
    depth : int
    leaves : {"constant", "linear"}
    gates : {"random", "greedy"}
        Where gates start: small random weights, as in the paper, or the best split on each z.
    solve_leaves : bool
        Solve the leaves by ridge regression at every step instead of moving them by gradient steps.
    ridge, weight_decay : float
        Ridge of that regression; decay of the gate weights.
    n_steps : int
        Gradient steps where there is no transform to say how many.
    gate_learning_rate, leaf_learning_rate : float
    """

    depth: int = 3
    leaves: Literal["constant", "linear"] = "constant"
    gates: Literal["random", "greedy"] = "random"
    solve_leaves: bool = False
    ridge: float = 1.0
    weight_decay: float = 0.0
    n_steps: int = 40
    gate_learning_rate: float = 0.05
    leaf_learning_rate: float = 0.05
    cosine_decay: bool = True

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target), and move Q to Q_k along with it."""
        # Steps have a fixed length in Adam, so the target is brought to unit size and the leaves back to the target's.
        size = math.sqrt(float(_mean_square(target, data.weight).mean()))
        size = size if size > 0 else 1.0
        scaled = np.ascontiguousarray(target / size)
        z = data.X if transform is None else apply_transform(transform, theta, data.X)
        self._check_size(len(z))
        tree = self._start(z, scaled, data, rng)
        if transform is None or transform.kernel_kind is not None:
            fitted = self._fit_in_kernel(tree, data, scaled, transform, theta)
        else:
            fitted = self._fit_in_python(tree, data, scaled, transform, theta)
        tree = fitted.tree
        slopes = None if tree.leaf_weights is None else tree.leaf_weights * size
        tree = replace(tree, leaf_values=tree.leaf_values * size, leaf_weights=slopes)
        return Fitted(tree, fitted.theta, fitted.output * size)

    def _check_size(self, n_components: int) -> None:
        n_basis = 2**self.depth * (1 + (n_components if self.leaves == "linear" else 0))
        if self.solve_leaves and n_basis > MAX_SOLVED:
            raise ValueError(
                f"leaves='linear' with depth={self.depth} on {n_components} components would solve for {n_basis} "
                f"coefficients at every step, more than {MAX_SOLVED}; use leaves='constant', a smaller depth, or a "
                "feature_transform with few components"
            )

    def _start(self, z: Array, target: Array, data: TrainingData, rng: np.random.Generator) -> SoftTree:
        n_components, n_outputs, n_leaves = z.shape[0], target.shape[0], 2**self.depth
        columns = np.arange(n_components, dtype=np.int32)
        leaf_values = np.zeros((n_leaves, n_outputs), dtype=z.dtype)
        leaf_weights = np.zeros((n_leaves, n_outputs, n_components), dtype=z.dtype) if self.leaves == "linear" else None
        if self.gates == "random":
            bound = 1.0 / math.sqrt(n_components)
            gate_weights = rng.uniform(-bound, bound, size=(n_leaves - 1, n_components)).astype(z.dtype)
            gate_bias = rng.uniform(-bound, bound, size=n_leaves - 1).astype(z.dtype)
            if not self.solve_leaves:  # leaves that are all equal would pass no gradient on to the gates
                leaf_values[:] = rng.uniform(-0.1, 0.1, size=leaf_values.shape)
        else:
            gate_weights, gate_bias = self._greedy_gates(z, target, data)
        return SoftTree(self.depth, columns, gate_weights, gate_bias, leaf_values, leaf_weights)

    def _greedy_gates(self, z: Array, target: Array, data: TrainingData) -> tuple[Array, Array]:
        """The best axis-aligned split of each node on z, with a slope of two over the spread of its component."""
        start = GreedyTrees(self.depth, shallower=False, leaves="constant", sharpness=(1.0,), ridge=(1.0,))
        bins = _kernels.bin_columns(z, 256, data.n_threads)
        _, columns, unit_weights, unit_bias, *_ = _kernels.fit_greedy(
            z, bins, target, data.weight, start.settings(data), data.n_threads
        )
        spread = np.sqrt(_mean_square(z - _mean(z, data.weight)[:, None], data.weight))
        slope = np.where(spread > 0, 2.0 / np.maximum(spread, np.finfo(z.dtype).tiny), 0.0).astype(z.dtype)
        gate_weights = np.zeros((2**self.depth - 1, z.shape[0]), dtype=z.dtype)
        gate_weights[:, columns] = unit_weights * slope[columns]
        split = unit_weights.any(axis=1)
        node_slope = gate_weights.sum(axis=1)  # each row holds a single weight
        return gate_weights, np.where(split, unit_bias * node_slope, unit_bias).astype(z.dtype)

    def _fit_in_kernel(
        self, tree: SoftTree, data: TrainingData, target: Array, transform: Transform | None, theta: Array | None
    ) -> Fitted:
        kind = "identity" if transform is None else transform.kernel_kind
        settings = _kernels.joint_settings(
            transform=kind,  # type: ignore[arg-type]
            n_steps=self.n_steps if transform is None else transform.n_steps,
            solve_leaves=self.solve_leaves,
            gate_learning_rate=self.gate_learning_rate,
            leaf_learning_rate=self.leaf_learning_rate,
            transform_learning_rate=0.0 if transform is None else transform.learning_rate,
            ridge=self.ridge,
            weight_decay=self.weight_decay,
            group_lasso=float(getattr(transform, "group_lasso", 0.0)),
            cosine_decay=self.cosine_decay,
        )
        q = np.zeros(0, dtype=data.X.dtype) if theta is None else np.array(theta, order="C")
        output, _ = _kernels.fit_joint(
            data.X, target, data.weight, settings, self.depth, q, tree.gate_weights, tree.gate_bias,
            tree.leaf_values, tree.leaf_weights, data.n_threads,
        )  # fmt: skip
        return Fitted(tree, None if theta is None else q, output)

    def _fit_in_python(
        self, tree: SoftTree, data: TrainingData, target: Array, transform: Transform, theta: Array | None
    ) -> Fitted:
        """The kernel's loop for a transform it does not know: same steps, same order, transform by its own methods."""
        assert theta is not None
        weight = np.ones(target.shape[1], dtype=target.dtype) if data.weight is None else data.weight
        theta = np.array(theta)
        adams = _AdamState(), _AdamState(), _AdamState(), _AdamState(), _AdamState()
        for step in range(1, transform.n_steps + 1):
            decay = 0.5 * (1 + math.cos(math.pi * (step - 1) / transform.n_steps)) if self.cosine_decay else 1.0
            z = apply_transform(transform, theta, data.X)
            if self.solve_leaves:
                tree = self._solved(tree, z, target, weight)
            grad_output = np.ascontiguousarray((tree.output(z, data.n_threads) - target) * (weight / weight.sum()))
            grad_gates, grad_bias, grad_values, grad_slopes, grad_z = _kernels.tree_gradients(
                z, self.depth, tree.gate_weights, tree.gate_bias, tree.leaf_values, tree.leaf_weights, grad_output,
                data.n_threads,
            )  # fmt: skip
            gate_rate, leaf_rate = self.gate_learning_rate * decay, self.leaf_learning_rate * decay
            gate_weights = tree.gate_weights * (1.0 - gate_rate * self.weight_decay)
            gate_weights = adams[0].step(gate_weights, grad_gates, gate_rate, step)
            gate_bias = adams[1].step(tree.gate_bias, grad_bias, gate_rate, step)
            leaf_values, leaf_weights = tree.leaf_values, tree.leaf_weights
            if not self.solve_leaves:
                leaf_values = adams[2].step(leaf_values, grad_values, leaf_rate, step)
                if leaf_weights is not None:
                    leaf_weights = adams[3].step(leaf_weights, grad_slopes, leaf_rate, step)
            tree = SoftTree(self.depth, tree.columns, gate_weights, gate_bias, leaf_values, leaf_weights)
            rate = transform.learning_rate * decay
            gradient = transform.pullback(theta, data.X.T, grad_z.T)
            theta = transform.project(adams[4].step(theta, gradient, rate, step), rate)
        z = apply_transform(transform, theta, data.X)
        if self.solve_leaves:
            tree = self._solved(tree, z, target, weight)
        return Fitted(tree, theta, tree.output(z, data.n_threads))

    def _solved(self, tree: SoftTree, z: Array, target: Array, weight: Array) -> SoftTree:
        return tree.with_leaves(ridge_leaves(tree.leaf_basis(z), target, weight, self.ridge))


def _mean(values: Array, weight: Array | None) -> Array:
    """Weighted mean over samples, the last axis."""
    return values.mean(axis=-1) if weight is None else (values * weight).sum(axis=-1) / weight.sum()


def _mean_square(values: Array, weight: Array | None) -> Array:
    """Weighted mean of the squares over samples, the last axis."""
    weighted = values if weight is None else values * weight
    total = values.shape[-1] if weight is None else weight.sum()
    return np.einsum("...n,...n->...", values, weighted) / total


def ridge_leaves(basis: Array, target: Array, weight: Array, ridge: float, n_threads: int = 1) -> Array:
    """Leaf coefficients (n_basis, n_outputs) of least weighted squared error plus ``ridge`` times their squares."""
    target, weight = (np.ascontiguousarray(a, dtype=basis.dtype) for a in (target, weight))
    _, _, gram, cross = _kernels.moments(np.ascontiguousarray(basis), target, weight, n_threads, centred=False)
    gram[np.diag_indices_from(gram)] += ridge
    return np.stack([_kernels.solve_with_inverse(gram, row)[0] for row in cross], axis=1).astype(basis.dtype)


def apply_transform(transform: Transform, theta: Array | None, X: Array) -> Array:
    """z (n_components, n_samples) of feature-major X."""
    assert theta is not None
    if type(transform).apply is Linear.apply:  # in the kernel, whose bits depend on no library's threads
        Q = np.ascontiguousarray(theta, dtype=np.float64)
        return _kernels.linear_outputs(Q, np.zeros(len(Q)), np.ascontiguousarray(X)).astype(X.dtype, copy=False)
    return np.ascontiguousarray(transform.apply(theta, X.T).T, dtype=X.dtype)


@dataclass
class _AdamState:
    """Moments of one parameter array; the kernel's Adam, for parameters that live in Python."""

    first: Any = 0.0
    second: Any = 0.0
    betas: tuple[float, float] = field(default=(0.9, 0.99))

    def step(self, parameter: Array, gradient: Array | None, rate: float, t: int) -> Array:
        assert gradient is not None
        b1, b2 = self.betas
        self.first = b1 * self.first + (1 - b1) * gradient
        self.second = b2 * self.second + (1 - b2) * gradient**2
        scale = np.sqrt(self.second / (1 - b2**t)) + 1e-8
        moved = parameter - rate / (1 - b1**t) * self.first / scale
        return np.ascontiguousarray(moved, dtype=parameter.dtype)
