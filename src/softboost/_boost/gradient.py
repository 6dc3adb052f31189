"""Weak learner: joint gradient steps on gates, leaves and the feature transform, as in the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.transforms import Transform

from .greedy import GreedyTrees, min_leaf_weight
from .learner import Fitted, TrainingData, apply_transform, pull_back, ridge_leaves, training_z
from .rounds import JointRounds
from .soft_tree import SoftTree

__all__ = ["AdamState", "GradientTrees", "NoisyTrees"]

Array = NDArray[Any]
MAX_SOLVED = 4096


@dataclass(frozen=True)
class GradientTrees:
    """Weak learner: joint gradient steps on gates, leaves and the transform.

    Parameters
    ----------
    depth : int
    leaves : {"constant", "linear"}
    gates : {"random", "greedy"}
        Initial gates: small random weights, as in the paper, or the best split on a component of z.
    solve_leaves : bool
        Solve the leaves by ridge regression at every step instead of moving them by gradient steps.
    ridge, weight_decay : float
        Penalty of the leaf regression; weight decay of the gates.
    n_steps : int
        Number of gradient steps without a transform; a transform has its own ``n_steps``.
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
        """Fit a tree on (Q_{k-1} X, target) and move Q to Q_k jointly."""
        kind = "identity" if transform is None else transform.kernel_kind
        if kind is not None and self.gates == "greedy":
            n_components = len(theta) if theta is not None and theta.ndim == 2 else len(data.X)
            self._check_size(n_components)
            return self._fit_in_kernel(self._blank(n_components, target), data, target, transform, theta)
        # Adam steps have a fixed length: fit a target of unit size, then rescale the leaves.
        size = math.sqrt(float(_mean_square(target, data.weight).mean()))
        size = size if size > 0 else 1.0
        scaled = np.ascontiguousarray(target / size)
        z = data.X if transform is None else training_z(transform, theta, data.X)
        self._check_size(len(z))
        tree = self._start(z, scaled, data, rng)
        if transform is None or kind is not None:
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

    def _blank(self, n_components: int, target: Array) -> SoftTree:
        """A tree of zeros on all components."""
        n_outputs, n_leaves, dtype = len(target), 2**self.depth, target.dtype
        linear = self.leaves == "linear"
        return SoftTree(
            self.depth,
            np.arange(n_components, dtype=np.int32),
            np.zeros((n_leaves - 1, n_components), dtype),
            np.zeros(n_leaves - 1, dtype),
            np.zeros((n_leaves, n_outputs), dtype),
            np.zeros((n_leaves, n_outputs, n_components), dtype) if linear else None,
        )

    def _start(self, z: Array, target: Array, data: TrainingData, rng: np.random.Generator) -> SoftTree:
        """The tree from which the joint steps start."""
        tree = self._blank(len(z), target)
        if self.gates == "random":
            bound = 1.0 / math.sqrt(len(z))
            tree.gate_weights[:] = rng.uniform(-bound, bound, size=tree.gate_weights.shape)
            tree.gate_bias[:] = rng.uniform(-bound, bound, size=tree.gate_bias.shape)
            if not self.solve_leaves:  # with equal leaves the gradient of the gates is zero
                tree.leaf_values[:] = rng.uniform(-0.1, 0.1, size=tree.leaf_values.shape)
        else:
            tree.gate_weights[:], tree.gate_bias[:] = self._greedy_gates(z, target, data)
        return tree

    def _greedy_gates(self, z: Array, target: Array, data: TrainingData) -> tuple[Array, Array]:
        """The best axis-aligned split of each node on z, with slope 2 per standard deviation of its component."""
        start = GreedyTrees(self.depth, shallower=False, leaves="constant", sharpness=(1.0,), ridge=(1.0,))
        bins = _kernels.bin_columns(z, data.weight, 256, data.n_threads)
        unit = _kernels.fit_greedy(z, bins, target, data.weight, start.settings(data), data.n_threads)
        spread = np.sqrt(_mean_square(z - _mean(z, data.weight)[:, None], data.weight))
        slope = np.where(spread > 0, 2.0 / np.maximum(spread, np.finfo(z.dtype).tiny), 0.0).astype(z.dtype)
        gate_weights = np.zeros((2**self.depth - 1, z.shape[0]), dtype=z.dtype)
        gate_weights[:, unit.columns] = unit.gate_weights * slope[unit.columns]
        split = unit.gate_weights.any(axis=1)
        node_slope = gate_weights.sum(axis=1)  # each row holds a single weight
        return gate_weights, np.where(split, unit.gate_bias * node_slope, unit.gate_bias).astype(z.dtype)

    def _settings(self, data: TrainingData, transform: Transform | None) -> Any:
        """Settings of the kernel."""
        kind = "identity" if transform is None else transform.kernel_kind
        return _kernels.joint_settings(
            transform=kind,  # type: ignore[arg-type]
            n_steps=self.n_steps if transform is None else transform.step_limit(),
            solve_leaves=self.solve_leaves,
            gate_learning_rate=self.gate_learning_rate,
            leaf_learning_rate=self.leaf_learning_rate,
            transform_learning_rate=0.0 if transform is None else transform.learning_rate,
            ridge=self.ridge,
            weight_decay=self.weight_decay,
            group_lasso=float(getattr(transform, "group_lasso", 0.0)),
            cosine_decay=self.cosine_decay,
            greedy_gates=self.gates == "greedy",
            min_leaf_weight=min_leaf_weight(data),
        )

    def boost_in_kernel(
        self,
        data: TrainingData,
        y: Array,
        raw_prediction: Array,
        transform: Transform,
        theta: Array,
        n_rounds: int,
        learning_rate: float,
    ) -> JointRounds:
        """The rounds that repeated calls of :meth:`fit` give under squared error, for gates that start greedily.

        Updates ``raw_prediction`` in place.
        """
        n_components = len(theta) if theta.ndim == 2 else len(data.X)
        self._check_size(n_components)
        theta, trees = _kernels.boost_joint(
            data.X, y, data.weight, self._settings(data, transform), self.depth, n_components,
            self.leaves == "linear", theta, n_rounds, learning_rate, raw_prediction, data.n_threads,
        )  # fmt: skip
        return JointRounds(theta, trees)

    def _fit_in_kernel(
        self, tree: SoftTree, data: TrainingData, target: Array, transform: Transform | None, theta: Array | None
    ) -> Fitted:
        settings = self._settings(data, transform)
        q = np.zeros(0, dtype=data.X.dtype) if theta is None else np.array(theta, order="C")
        output, _ = _kernels.fit_joint(
            data.X, target, data.weight, settings, self.depth, q, tree.gate_weights, tree.gate_bias,
            tree.leaf_values, tree.leaf_weights, data.n_threads,
        )  # fmt: skip
        return Fitted(tree, None if theta is None else q, output)

    def _fit_in_python(
        self, tree: SoftTree, data: TrainingData, target: Array, transform: Transform, theta: Array | None
    ) -> Fitted:
        """The loop of the kernel for a transform written in Python: the same steps in the same order."""
        assert theta is not None
        weight = np.ones(target.shape[1], dtype=target.dtype) if data.weight is None else data.weight
        theta = np.array(theta)
        adams = AdamState(), AdamState(), AdamState(), AdamState(), AdamState()
        n_steps = transform.step_limit()
        for step in range(1, n_steps + 1):
            decay = 0.5 * (1 + math.cos(math.pi * (step - 1) / n_steps)) if self.cosine_decay else 1.0
            z = training_z(transform, theta, data.X)
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
            gradient = pull_back(transform, theta, data.X, grad_z)
            with np.errstate(over="ignore", invalid="ignore"):  # the next z is checked
                theta = transform.project(adams[4].step(theta, gradient, rate, step), rate)
        z = training_z(transform, theta, data.X)
        if self.solve_leaves:
            tree = self._solved(tree, z, target, weight)
        return Fitted(tree, theta, tree.output(z, data.n_threads))

    def _solved(self, tree: SoftTree, z: Array, target: Array, weight: Array) -> SoftTree:
        return tree.with_leaves(ridge_leaves(tree.leaf_basis(z), target, weight, self.ridge))


@dataclass(frozen=True)
class NoisyTrees(GradientTrees):
    """Weak learner: the joint gradient steps of :class:`GradientTrees`, taken on ``transform.training(rng)``.

    After the last step the noise is switched off: solved leaves are solved again, and the output equals that of
    prediction. Equivalent to :class:`GradientTrees` for a transform without noise.
    """

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target) and move Q to Q_k jointly."""
        in_training = None if transform is None else transform.training(rng)
        fitted = super().fit(data, target, in_training, theta, rng)
        if transform is None or in_training is transform:
            return fitted
        tree, z = fitted.tree, apply_transform(transform, fitted.theta, data.X)
        if self.solve_leaves:
            weight = np.ones(target.shape[1], dtype=target.dtype) if data.weight is None else data.weight
            tree = tree.with_leaves(ridge_leaves(tree.leaf_basis(z, data.n_threads), target, weight, self.ridge))
        return Fitted(tree, fitted.theta, tree.output(z, data.n_threads))


def _mean(values: Array, weight: Array | None) -> Array:
    """Weighted mean over the samples (last axis)."""
    return values.mean(axis=-1) if weight is None else (values * weight).sum(axis=-1) / weight.sum()


def _mean_square(values: Array, weight: Array | None) -> Array:
    """Weighted mean square over the samples (last axis)."""
    weighted = values if weight is None else values * weight
    total = values.shape[-1] if weight is None else weight.sum()
    return np.einsum("...n,...n->...", values, weighted) / total


@dataclass
class AdamState:
    """Adam's moments of one parameter array; the same optimiser as in the kernel, for parameters in Python.

    With ``shared``, all entries have the scale of the largest one, so that steps are proportional to the gradient.
    """

    first: Any = 0.0
    second: Any = 0.0
    betas: tuple[float, float] = field(default=(0.9, 0.99))
    shared: bool = False

    def step(self, parameter: Array, gradient: Array | None, rate: float, t: int) -> Array:
        assert gradient is not None
        b1, b2 = self.betas
        self.first = b1 * self.first + (1 - b1) * gradient
        square = (gradient**2).max() if self.shared else gradient**2
        self.second = b2 * self.second + (1 - b2) * square
        scale = np.sqrt(self.second / (1 - b2**t)) + 1e-8
        moved = parameter - rate / (1 - b1**t) * self.first / scale
        return np.ascontiguousarray(moved, dtype=parameter.dtype)
