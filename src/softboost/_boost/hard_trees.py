"""Hard trees of other libraries as weak learners, and their soft twins, which provide a gradient.

Each round fits one tree of the library on Q X, updates Q by gradient steps with the tree held fixed, and refits the
tree on the new features (Remark 2 of the paper). A hard tree has no gradient with respect to z, so the steps use its
soft twin, in which every threshold is a sigmoid gate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator

from softboost import _kernels
from softboost.transforms import Transform

from . import tree_libraries
from .gradient import AdamState
from .learner import Fitted, TrainingData, pull_back, training_z

__all__ = ["HardTree", "HardTrees", "SoftTwin", "make_hard_trees"]

Array = NDArray[Any]
MAX_TWIN_CELLS = 2**22


@dataclass(frozen=True)
class HardTree:
    """Binary trees with thresholds whose outputs are summed; usually there is one tree per output.

    A sample at node i goes left if ``z[feature[i]] <= threshold[i]``. A leaf is its own left and right child.

    Attributes
    ----------
    feature, left, right : ndarray of shape (n_nodes,)
    threshold : ndarray of shape (n_nodes,)
    values : ndarray of shape (n_nodes, n_outputs)
        Values of the leaves; zero at inner nodes.
    roots : ndarray of shape (n_trees,)
    single : ndarray of shape ()
        Whether z is rounded to single precision before comparison, as in the library.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    values: Array
    roots: Array
    single: Array

    @classmethod
    def joined(
        cls, trees: list[tree_libraries.Nodes], output_of_tree: list[int], n_outputs: int, single: bool
    ) -> HardTree:
        """Concatenate trees; tree t contributes to output ``output_of_tree[t]``."""
        sizes = [len(tree.feature) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        values = np.zeros((sum(sizes), n_outputs))
        for tree, root, output in zip(trees, roots, output_of_tree, strict=True):
            values[root : root + len(tree.feature), output] = tree.value
        return cls(
            np.concatenate([tree.feature for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
            np.concatenate([tree.left + root for tree, root in zip(trees, roots, strict=True)]).astype(np.int32),
            np.concatenate([tree.right + root for tree, root in zip(trees, roots, strict=True)]).astype(np.int32),
            values,
            roots,
            np.array(single),
        )

    @property
    def leaves(self) -> Array:
        """Indices of the leaves."""
        return np.flatnonzero(self.left == np.arange(len(self.left)))

    @property
    def depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf."""
        return len(self.levels())

    def levels(self) -> list[Array]:
        """Inner nodes, grouped by their distance from the root."""
        levels, nodes = [], self.roots
        while len(nodes := nodes[self.left[nodes] != nodes]):
            levels.append(nodes)
            nodes = np.concatenate([self.left[nodes], self.right[nodes]])
        return levels

    def leaf_of(self, z: Array) -> Array:
        """Leaf that each sample reaches in each tree, shape (n_trees, n_samples)."""
        if self.single:
            z = z.astype(np.float32)
        samples = np.arange(z.shape[1])
        node = np.repeat(self.roots[:, None], z.shape[1], axis=1)
        for _ in range(self.depth):
            node = np.where(z[self.feature[node], samples] <= self.threshold[node], self.left[node], self.right[node])
        return node

    def output(self, z: Array, n_threads: int = 1) -> Array:
        """Output at z (n_components, n_samples), shape (n_outputs, n_samples)."""
        nodes = self.feature, self.threshold, self.left, self.right, self.values, self.roots
        return _kernels.hard_tree_output(z, *nodes, bool(self.single), n_threads)

    def leaf_basis(self, z: Array, n_threads: int = 1) -> Array:
        """Indicator of each leaf, shape (n_leaves, n_samples)."""
        place = np.full(len(self.left), -1)
        place[self.leaves] = np.arange(len(self.leaves))
        basis = np.zeros((len(self.leaves), z.shape[1]), dtype=z.dtype)
        for leaf in self.leaf_of(z):
            basis[place[leaf], np.arange(z.shape[1])] = 1.0
        return basis

    def with_leaves(self, coefficients: Array) -> HardTree:
        """Replace the leaves; coefficients (n_leaves, n_outputs) are in the order of :meth:`leaf_basis`."""
        values = np.zeros_like(self.values)
        values[self.leaves] = coefficients
        return replace(self, values=values)


class SoftTwin:
    """A hard tree with a gate at every threshold: left with probability ``sigmoid(sharpness (t - z_f) / spread_f)``.

    The twin converges to the hard tree as the sharpness increases, at every z that is not on a threshold.

    Parameters
    ----------
    tree : HardTree
    spread : ndarray of shape (n_components,)
        Standard deviation of each component of z, the unit of the gates.
    sharpness : float
    """

    def __init__(self, tree: HardTree, spread: Array, sharpness: float) -> None:
        self.tree, self.levels, self.leaves = tree, tree.levels(), tree.leaves
        self.slope = sharpness / np.where(spread > 0, spread, 1.0)

    def output(self, z: Array) -> Array:
        """Output at z (n_components, n_samples), shape (n_outputs, n_samples)."""
        return self._by_rows(z, lambda rows: self._forward(z[:, rows])[0], self.tree.values.shape[1])

    def gradient(self, z: Array, grad_of_output: Callable[[Array, slice], Array]) -> Array:
        """Gradient with respect to z of a function of the output.

        ``grad_of_output`` computes the gradient of this function from outputs (n_outputs, n_rows) and their rows.
        """

        def work(rows: slice) -> Array:
            output, left_share, reach = self._forward(z[:, rows])
            return self._backward(z[:, rows], left_share, reach, grad_of_output(output, rows))

        return self._by_rows(z, work, z.shape[0])

    def _by_rows(self, z: Array, work: Callable[[slice], Array], n_results: int) -> Array:
        """Process the rows in blocks, so that nodes times rows stay small."""
        n_rows = max(1, MAX_TWIN_CELLS // len(self.tree.left))
        out = np.empty((n_results, z.shape[1]), dtype=z.dtype)
        for first in range(0, z.shape[1], n_rows):
            rows = slice(first, first + n_rows)
            out[:, rows] = work(rows)
        return out

    def _forward(self, z: Array) -> tuple[Array, list[Array], Array]:
        tree = self.tree
        reach = np.zeros((len(tree.left), z.shape[1]))
        reach[tree.roots] = 1.0
        left_share = []
        for nodes in self.levels:
            feature = tree.feature[nodes]
            share = expit(self.slope[feature, None] * (tree.threshold[nodes, None] - z[feature]))
            reach[tree.left[nodes]] = reach[nodes] * share
            reach[tree.right[nodes]] = reach[nodes] * (1.0 - share)
            left_share.append(share)
        return tree.values[self.leaves].T @ reach[self.leaves], left_share, reach

    def _backward(self, z: Array, left_share: list[Array], reach: Array, grad_output: Array) -> Array:
        tree = self.tree
        worth = np.zeros_like(reach)  # output of the subtree at the node, times grad_output
        worth[self.leaves] = tree.values[self.leaves] @ grad_output
        grad_z = np.zeros(z.shape)
        for nodes, share in zip(reversed(self.levels), reversed(left_share), strict=True):
            left, right = worth[tree.left[nodes]], worth[tree.right[nodes]]
            worth[nodes] = share * left + (1.0 - share) * right
            slope = -self.slope[tree.feature[nodes], None] * share * (1.0 - share)
            np.add.at(grad_z, tree.feature[nodes], reach[nodes] * slope * (left - right))
        return grad_z


class HardTrees(BaseEstimator):
    """Weak learner: one tree of another library per round, alternating with steps on the feature transform.

    Parameters
    ----------
    estimator : {"lightgbm", "xgboost", "catboost"} or estimator, default="lightgbm"
        The name of a library, with its default parameters, or an unfitted LGBMRegressor, XGBRegressor,
        CatBoostRegressor or scikit-learn tree regressor. Its number of trees, learning rate, loss, threads and seed
        are set by SoftBoostRegressor.
    sharpness : float, default=8.0
        Slope of the gates of the soft twin per standard deviation of a feature. Larger values follow the hard tree
        more closely, but only rows near a threshold then contribute to the gradient of the transform.
    n_alternations : int, default=1
        Number of times a round updates the transform and refits the tree.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.weak_learners import HardTrees
    >>> X, y = load_diabetes(return_X_y=True)
    >>> trees = HardTrees(DecisionTreeRegressor(max_depth=2), sharpness=16.0)
    >>> model = SoftBoostRegressor(20, 0.2, feature_transform="linear", weak_learner=trees, random_state=0)
    >>> model.fit(X[:100], y[:100]).predict(X[100:103]).shape
    (3,)
    """

    def __init__(self, estimator: Any = "lightgbm", sharpness: float = 8.0, n_alternations: int = 1) -> None:
        self.estimator = estimator
        self.sharpness = sharpness
        self.n_alternations = n_alternations

    @property
    def name(self) -> str:
        """Name of the learner in printed output."""
        return tree_libraries.library_of(self.estimator).name

    def check(self) -> None:
        """Raise ValueError if a parameter is out of range, ImportError if the library is not installed."""
        if not self.sharpness > 0:
            raise ValueError(f"sharpness of HardTrees must be positive, got {self.sharpness!r}")
        if not (isinstance(self.n_alternations, (int, np.integer)) and self.n_alternations >= 1):
            raise ValueError(
                f"n_alternations of HardTrees must be an integer of at least 1, got {self.n_alternations!r}"
            )
        tree_libraries.library_of(self.estimator).check(self.estimator)

    def with_depth(self, depth: int) -> HardTrees:
        """Return this learner with trees of at most this depth.

        Parameters
        ----------
        depth : int
            Maximum number of splits between root and leaf.

        Returns
        -------
        learner : HardTrees
        """
        estimator = tree_libraries.library_of(self.estimator).with_depth(self.estimator, depth)
        return HardTrees(estimator, self.sharpness, self.n_alternations)

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target), move Q to Q_k with the tree held fixed, and refit it on Q_k X.

        Parameters
        ----------
        data : TrainingData
            Columns of X, weights and settings of the fit.
        target : ndarray of shape (n_outputs, n_samples)
            The negative gradient.
        transform : Transform or None
            The transform that computes z; None fits on the columns themselves.
        theta : ndarray or None
            Parameters of the transform after the previous round.
        rng : numpy.random.Generator
            Source of the library's seeds.

        Returns
        -------
        fitted : Fitted
            The tree, the parameters of the transform, and the tree's output on the training rows.
        """
        z = data.X if transform is None else training_z(transform, theta, data.X)
        tree = self._grow(z, target, data, rng)
        if transform is not None:
            for _ in range(self.n_alternations):
                theta = self._move(tree, z, data, target, transform, theta, rng)
                z = training_z(transform, theta, data.X)
                tree = self._grow(z, target, data, rng)
        return Fitted(tree, theta, tree.output(z))  # type: ignore[arg-type]

    def _grow(self, z: Array, target: Array, data: TrainingData, rng: np.random.Generator) -> HardTree:
        library = tree_libraries.library_of(self.estimator)
        rows, trees, output_of_tree = np.ascontiguousarray(z.T), [], []
        for o, y in enumerate(target):
            seed = int(rng.integers(2**31 - 1))
            grown = library.grow(self.estimator, rows, y, data.weight, seed, data.n_threads)
            trees += grown
            output_of_tree += [o] * len(grown)
        return HardTree.joined(trees, output_of_tree, len(target), library.single_precision)

    def _move(
        self,
        tree: HardTree,
        z: Array,
        data: TrainingData,
        target: Array,
        transform: Transform,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Array:
        """Update Q by Adam steps on the squared error of the soft twin of the tree."""
        assert theta is not None
        size = float(np.sqrt(np.average(np.mean(target**2, axis=0), weights=data.weight))) or 1.0
        centre = np.average(z, axis=1, weights=data.weight)
        spread = np.sqrt(np.average((z - centre[:, None]) ** 2, axis=1, weights=data.weight))
        twin = SoftTwin(replace(tree, values=tree.values / size), spread, self.sharpness)
        weight = np.ones(target.shape[1]) if data.weight is None else data.weight
        share = weight / weight.sum()
        goal, moving, adam = target / size, transform.training(rng), AdamState()
        theta = np.array(theta)
        n_steps = transform.step_limit()
        for step in range(1, n_steps + 1):
            rate = transform.learning_rate * 0.5 * (1 + np.cos(np.pi * (step - 1) / n_steps))
            z = training_z(moving, theta, data.X)
            grad_z = twin.gradient(z, lambda output, rows: (output - goal[:, rows]) * share[rows])
            gradient = pull_back(moving, theta, data.X, grad_z)
            theta = transform.project(adam.step(theta, gradient, rate, step), rate)
        return theta


def make_hard_trees(weak_learner: Any) -> HardTrees | None:
    """Create and check the weak learner from the parameter of the same name; None for ``"soft"``."""
    if isinstance(weak_learner, str) and weak_learner == "soft":
        return None
    learner = weak_learner if isinstance(weak_learner, HardTrees) else HardTrees(weak_learner)
    learner.check()
    return learner
