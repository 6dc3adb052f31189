"""Weak learner: greedy trees on z, alternating with steps on a transform that starts where no transform is.

Without moves the trees are those of no transform. A round fits a greedy tree on z, moves the transform by gradient
steps with the tree held fixed, and fits the tree again. A quarter of the rows takes no part in the steps: the steps
stop when the error of these rows no longer falls, and the transform keeps a move only if it lowers that error by more
than its standard error. So a transform that does not help costs little, and one that helps is learned. A fit without
model selection also checks by cross-validation whether the moves pay (:mod:`softboost._choice.confirm`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._data.repeated import distinct_rows
from softboost.transforms import Transform

from .gradient import AdamState
from .greedy import GreedyTrees
from .learner import ENOUGH_ROWS, Fitted, TrainingData, apply_transform, pull_back, training_z
from .soft_tree import SoftTree

__all__ = ["AlternatingTrees", "fold_of_rows", "is_clear"]

Array = NDArray[Any]
N_FOLDS = 4  # one row in four judges the moves
LEAST_ROWS = 8  # distinct rows without which nothing can be judged
CHECK_EVERY = 4  # steps between two looks at the held rows
TO_IDENTITY = 1.0  # penalty on the squared distance of Q from the identity


@dataclass(frozen=True)
class AlternatingTrees:
    """Weak learner: greedy trees on z, and steps on the transform that held rows confirm.

    Parameters
    ----------
    trees : GreedyTrees
        Fits the trees.
    max_moves, max_steps : int
        Number of rounds that may move the transform, and of their steps in all; later rounds fit trees only.
    max_failures : int
        Number of moves in a row that the held rows may reject before the transform stays as it is.
    patience : int
        Number of steps without a lower error of the held rows after which a round stops moving.
    required : float
        Standard errors by which a move must lower the error of the held rows.
    """

    trees: GreedyTrees
    max_moves: int = 8
    max_failures: int = 4
    patience: int = 20
    required: float = 1.0
    max_steps: int = 320

    def still(self) -> AlternatingTrees:
        """The same trees on a transform that stays where it starts."""
        return replace(self, max_moves=0)

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a tree on (Q_{k-1} X, target), move Q to Q_k if held rows confirm it, and refit the tree on Q_k X."""
        if transform is None or theta is None:
            return self.trees.fit(data, target, None, None, rng)
        moves: _Moves = data._settings.setdefault(self, _Moves())
        z = moves.transformed(data, transform, theta)
        fitted = self.trees.fit(z, target, None, None, rng)
        split = _Split.of(data, target) if self._may_move(moves) else None
        if split is not None:
            moves.n += 1
            most = min(transform.step_limit(validated=True), self.max_steps - moves.n_steps)
            with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long are no move
                moved, n_steps = self._move(fitted.tree, split, transform, theta, rng, most)
            moves.n_steps += n_steps
            moves.n_failures = moves.n_failures + 1 if moved is None else 0
            if moved is not None:
                theta = moved
                fitted = self.trees.fit(moves.transformed(data, transform, theta), target, None, None, rng)
        return fitted._replace(theta=theta)

    def _may_move(self, moves: _Moves) -> bool:
        return moves.n < self.max_moves and moves.n_failures < self.max_failures and moves.n_steps < self.max_steps

    def _move(
        self, tree: SoftTree, rows: _Split, transform: Transform, theta: Array, rng: np.random.Generator, most: int
    ) -> tuple[Array | None, int]:
        """At most this number of Adam steps on theta with the tree held fixed.

        Returns the new theta, None if no step lowers the error of the held rows enough, and the number of steps.
        """
        n_components = apply_transform(transform, theta, rows.learn[0][:, :1]).shape[0]
        tree = _with_slopes(_scaled(tree, 1.0 / rows.size), len(rows.learn[0]), n_components, rng)
        # a common step length for all entries of Q, most of which have a small gradient that is noise
        training, adam = transform.training(rng), AdamState(shared=transform.kernel_kind == "linear")
        X_held, goal_held, weight_held = rows.held

        def held_errors(theta: Array) -> Array:
            z = apply_transform(transform, theta, X_held)
            return ((tree.output(z, rows.n_threads) - goal_held) ** 2).mean(axis=0)

        before = held_errors(theta)
        lowest, lowest_step, kept = float(np.average(before, weights=weight_held)), 0, None
        batches = rows.batches(transform.batch_size, rng)
        theta, rate, step = np.array(theta), transform.learning_rate, 0
        for step in range(1, most + 1):
            X, goal, weight = batches()
            z = apply_transform(training, theta, X)
            grad_z = _gradient_of_z(tree, z, goal, weight, rows.n_threads)
            gradient = pull_back(training, theta, X, grad_z)
            theta = transform.project(adam.step(theta, gradient, rate, step), rate)
            theta = transform.towards_identity(theta, TO_IDENTITY * rate)
            if step % CHECK_EVERY == 0 or step == most:
                after = held_errors(theta)
                mean = float(np.average(after, weights=weight_held))
                if not math.isfinite(mean):
                    break
                if mean < lowest:
                    lowest, lowest_step = mean, step
                    kept = theta if is_clear(before - after, weight_held, self.required) else kept
                if step - lowest_step >= self.patience:
                    break
        return kept, step


@dataclass
class _Moves:
    """The moves of one fit so far, and the rows in terms of the current z."""

    n: int = 0
    n_failures: int = 0
    n_steps: int = 0
    _latest: tuple[Array, TrainingData] | None = None

    def transformed(self, data: TrainingData, transform: Transform, theta: Array) -> TrainingData:
        """The rows with z as columns; binned once as long as theta does not move."""
        if self._latest is None or self._latest[0] is not theta:
            z = training_z(transform, theta, data.X)
            self._latest = theta, TrainingData(z, data.weight, data.n_threads)
        return self._latest[1]


Rows = tuple[Array, Array, Array]  # X (n_features, n_samples), goal (n_outputs, n_samples), weight (n_samples,)


@dataclass
class _Split:
    """Rows that move the transform and rows that judge the moves; the goal is the target in units of its size."""

    learn: Rows
    held: Rows
    size: float
    n_threads: int
    _order: Array = field(default_factory=lambda: np.zeros(0, dtype=int))

    @classmethod
    def of(cls, data: TrainingData, target: Array) -> _Split | None:
        """Split the rows; None if there are too few."""
        weight = np.ones(target.shape[1], dtype=target.dtype) if data.weight is None else data.weight
        size = math.sqrt(float(np.average((target**2).mean(axis=0), weights=weight))) or 1.0
        if "held" not in data._settings:
            fold = fold_of_rows(data.X)
            data._settings["held"] = None if fold is None else fold == 0
        held = data._settings["held"]
        if held is None:
            return None

        def part(rows: Array, most: int) -> Rows:
            rows = rows[:: math.ceil(len(rows) / most)] if len(rows) > most else rows
            return np.ascontiguousarray(data.X[:, rows]), np.ascontiguousarray(target[:, rows] / size), weight[rows]

        judging = part(np.flatnonzero(held), ENOUGH_ROWS // 2)
        return cls(part(np.flatnonzero(~held), ENOUGH_ROWS), judging, size, data.n_threads)

    def batches(self, batch_size: int | None, rng: np.random.Generator) -> Callable[[], Rows]:
        """A function that returns the rows of the next step: all, or random ones until all have been used."""
        rows = self.learn if batch_size is None else _merged(*self.learn)
        X, goal, weight = rows
        if batch_size is None or len(weight) <= batch_size:
            return lambda: rows

        def draw() -> Rows:
            if len(self._order) < batch_size:
                self._order = rng.permutation(len(weight))
            rows, self._order = self._order[:batch_size], self._order[batch_size:]
            return np.ascontiguousarray(X[:, rows]), np.ascontiguousarray(goal[:, rows]), weight[rows]

        return draw


def _merged(X: Array, goal: Array, weight: Array) -> Rows:
    """The rows with those of equal X as one row, so that weights and repeated rows give the same batches."""
    first, number = distinct_rows(X)
    if len(first) == len(number):
        return X, goal, weight
    total = np.bincount(number, weight)
    means = np.stack([np.bincount(number, weight * row) for row in goal]) / total
    return np.ascontiguousarray(X[:, first]), means.astype(goal.dtype), total.astype(weight.dtype)


def fold_of_rows(X: Array) -> Array | None:
    """Four folds of the distinct rows in a random order that depends only on X; equal rows are in the same fold.

    Neither the order of the rows nor that of the columns matters. None if there are fewer than ``LEAST_ROWS`` distinct
    rows.
    """
    largest = np.maximum(np.abs(X).max(axis=1, keepdims=True), np.finfo(X.dtype).tiny)
    place = np.sin(3.0 * (X / largest).astype(np.float64) + 1.0).sum(axis=0)  # the same function of each column
    order = np.argsort(place, kind="stable")
    number = np.cumsum(np.diff(place[order], prepend=place[order[0]]) > 1e-9 * np.abs(place).max())
    if number[-1] + 1 < LEAST_ROWS:
        return None
    folds = np.random.default_rng(1).permutation(number[-1] + 1) % N_FOLDS
    fold = np.empty(len(place), dtype=int)
    fold[order] = folds[number]
    return fold


def _scaled(tree: SoftTree, factor: float) -> SoftTree:
    slopes = None if tree.leaf_weights is None else tree.leaf_weights * factor
    return replace(tree, leaf_values=tree.leaf_values * factor, leaf_weights=slopes)


def _with_slopes(tree: SoftTree, n_features: int, n_components: int, rng: np.random.Generator) -> SoftTree:
    """The tree with leaves that are also linear in the learned components of z, with random slopes.

    The learned part starts at zero, where no tree uses it and its gradient would be zero.
    """
    learned = np.setdiff1d(np.arange(n_features, n_components), tree.columns).astype(np.int32)
    n_leaves, n_outputs = tree.leaf_values.shape
    slopes = tree.leaf_weights
    if slopes is None:
        slopes = np.zeros((n_leaves, n_outputs, len(tree.columns)), dtype=tree.leaf_values.dtype)
    drawn = rng.normal(size=(n_leaves, n_outputs, len(learned))).astype(slopes.dtype)
    gates = np.zeros((n_leaves - 1, len(learned)), dtype=tree.gate_weights.dtype)
    return replace(
        tree,
        columns=np.concatenate([tree.columns, learned]),
        gate_weights=np.ascontiguousarray(np.hstack([tree.gate_weights, gates])),
        leaf_weights=np.ascontiguousarray(np.concatenate([slopes, drawn], axis=2)),
    )


def _gradient_of_z(tree: SoftTree, z: Array, goal: Array, weight: Array, n_threads: int) -> Array:
    """Gradient of half the weighted mean squared error with respect to z (n_components, n_samples)."""
    used = np.ascontiguousarray(z[tree.columns])
    error = np.ascontiguousarray((tree.output(z, n_threads) - goal) * (weight / weight.sum()), dtype=z.dtype)
    *_, gradient = _kernels.tree_gradients(
        used, tree.depth, tree.gate_weights, tree.gate_bias, tree.leaf_values, tree.leaf_weights, error, n_threads
    )
    out = np.zeros_like(z)
    out[tree.columns] = gradient
    return out


def is_clear(gain: Array, weight: Array, required: float) -> bool:
    """Whether the mean of paired gains is positive by more than this number of standard errors."""
    mean = float(np.average(gain, weights=weight))
    error = math.sqrt(float(np.average((gain - mean) ** 2, weights=weight)) / float(weight.sum()))
    return mean > required * error
