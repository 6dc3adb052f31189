"""Algorithm 1 of the paper, for any loss, weak learner and feature transform.

    y_hat_0 <- start                                   zero in the paper
    for k = 1 .. K:
        r_k  <- - dL / dF at y_hat_{k-1}               the residual, for squared error
        fit SDT_k on (Q_{k-1} X, r_k), moving Q_{k-1} to Q_k by gradient steps on its loss
        y_hat_k <- y_hat_{k-1} + nu * SDT_k(Q_k X)

Weak learners receive the residual, not the loss. Arrays are feature-major: X (n_features, n_samples), y (n_outputs,
n_samples).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.losses import Loss, SquaredError, weighted_mean
from softboost.transforms import Linear, Transform

from .alternating import AlternatingTrees
from .anisotropic import AnisotropicProcess
from .forest import ExtraTrees
from .gaussian_process import GaussianProcess
from .gradient import GradientTrees
from .greedy import GreedyTrees
from .kernel_loss import kernel_loss
from .learner import Fitted, TrainingData, WeakLearner, ridge_leaves
from .parts import DealtParts, Features, Part, deal
from .rounds import JointRounds, KernelRounds
from .soft_tree import SoftTree, flattened

__all__ = ["WHOLE_MODELS", "Boosted", "Features", "KernelRounds", "Part", "Recipe", "boost", "run_rounds"]

Array = NDArray[Any]
WHOLE_MODELS = (GaussianProcess, AnisotropicProcess, ExtraTrees)  # learners of a single round


@dataclass(frozen=True)
class Recipe:
    """One plain boosted model: everything Algorithm 1 needs besides the data.

    Attributes
    ----------
    name : str
    learner : WeakLearner
        Fits the tree of each round.
    transform : Transform or None
        The paper's Q; None boosts trees on the columns themselves.
    n_estimators, learning_rate : int, float
        Number of rounds and shrinkage nu.
    start : {"zero", "constant", "linear"}
        y_hat_0: zero, the best constant, or a linear model.
    """

    name: str
    learner: WeakLearner
    transform: Transform | None = None
    n_estimators: int = 100
    learning_rate: float = 0.1
    start: Literal["zero", "constant", "linear"] = "constant"

    @property
    def takes_steps(self) -> bool:
        """Whether gradient steps move gates or a transform of soft trees."""
        return isinstance(self.learner, (GradientTrees, AlternatingTrees))


@dataclass
class Boosted:
    """A fitted recipe: ``rounds[k]`` holds the transform's parameters and the tree of round k + 1.

    ``columns`` are the columns of X that the recipe used; its trees index into them.
    """

    recipe: Recipe
    columns: Array
    learning_rate: float
    rounds: Sequence[tuple[Array | None, SoftTree]] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)

    @property
    def of_trees(self) -> bool:
        """Whether its rounds are trees that were boosted, not a whole model each."""
        return not isinstance(self.recipe.learner, WHOLE_MODELS)

    def first(self, n_rounds: int) -> Boosted:
        """The model after its first ``n_rounds`` rounds."""
        return replace(self, rounds=list(self.rounds[:n_rounds]))

    def outputs(self, X: Array, n_threads: int = 1) -> Array:
        """Contribution of each round at X (n_features, n_samples), shape (n_rounds, n_outputs, n_samples)."""
        packed = self._packed(X) if self.recipe.transform is None else None
        if packed is not None:
            return packed.predict_each(np.ascontiguousarray(X.T), n_threads).transpose(0, 2, 1)
        own = np.ascontiguousarray(X[self.columns])
        if isinstance(self.rounds, JointRounds) and self._is_linear:
            return self.rounds.outputs(own, self.learning_rate, n_threads)
        z = Features(self.recipe.transform, own)
        return np.stack([self.learning_rate * tree.output(z.at(theta), n_threads) for theta, tree in self.rounds])

    def effects(self, data: TrainingData) -> Array | None:
        """Effect of each column: mean squared change of the predictions when the column is set to its mean.

        Shape (n_features,); None if a transform is not linear. If trees use a column only to fit noise, their changes
        largely cancel in the sum; if the column carries a signal, they add up.
        """
        data = data.thinned()
        packed = self._packed(data.X)
        if packed is None:
            return None
        return packed.column_effects(np.ascontiguousarray(data.X.T), data.weight, data.n_threads)

    def _packed(self, X: Array) -> Any:
        """The trees in the format of the prediction kernel, on X (n_features, n_samples); None if not linear."""
        if isinstance(self.rounds, KernelRounds):
            flat, n_outputs = self.rounds.flat, self.rounds.n_outputs
            flat = {**flat, "columns": self.columns[flat["columns"]], "leaf": self.learning_rate * flat["leaf"]}
        elif isinstance(self.rounds, JointRounds) and self._is_linear:
            flat, n_outputs = self.rounds.flat(self.columns), self.rounds.trees[2].shape[2]
            flat["leaf"] *= self.learning_rate
        else:
            trees = self.trees_on_columns(len(self.rounds))
            if trees is None:
                return None
            flat, n_outputs = flattened(trees), trees[0].leaf_values.shape[1] if trees else 1
        return _kernels.pack_ensemble(X.dtype, **_plain_inputs(len(X), n_outputs), **flat)

    @property
    def _is_linear(self) -> bool:
        """Whether z = Q x as for :class:`~softboost.transforms.Linear`, and not as for a subclass with another z."""
        return type(self.recipe.transform).apply is Linear.apply  # type: ignore[union-attr]

    def trees_on_columns(self, n_rounds: int) -> list[SoftTree] | None:
        """The first trees as trees on all columns of X, multiplied with Q; None if a transform is not linear."""
        trees = []
        for theta, tree in self.rounds[:n_rounds]:
            if not isinstance(tree, SoftTree):  # a hard tree cannot be multiplied with Q
                return None
            if self.recipe.transform is not None:
                assert theta is not None
                Q = self.recipe.transform.matrix(theta)
                if Q is None:
                    return None
                tree = tree.composed(Q)
            trees.append(
                SoftTree(
                    tree.depth,
                    self.columns[tree.columns],
                    tree.gate_weights,
                    tree.gate_bias,
                    self.learning_rate * tree.leaf_values,
                    None if tree.leaf_weights is None else self.learning_rate * tree.leaf_weights,
                )
            )
        return trees


@lru_cache(maxsize=16)
def _plain_inputs(n_features: int, n_outputs: int) -> dict[str, Array]:
    """Arguments of :func:`softboost._kernels.pack_ensemble` for standardised columns without a linear part."""
    limit = np.full(n_features, _kernels.FARTHEST)
    return {
        "offset": np.zeros(n_features),
        "scale": np.ones(n_features),
        "low": -limit,
        "high": limit,
        "intercept": np.zeros(n_outputs),
        "coefficients": np.zeros((n_outputs, n_features)),
    }


def boost(
    recipe: Recipe,
    X: Array,
    y: Array,
    weight: Array | None,
    loss: Loss,
    raw_prediction: Array,
    *,
    columns: Array | None = None,
    rng: np.random.Generator | int = 0,
    n_threads: int = 1,
    data: TrainingData | None = None,
    previous: Boosted | None = None,
    after_round: Callable[[Boosted], bool] | None = None,
) -> Boosted:
    """Algorithm 1.

    Parameters
    ----------
    X, y, weight
        Training rows; ``X`` holds all columns, and ``columns`` lists those that the recipe may use.
    raw_prediction : ndarray of shape (n_outputs, n_samples)
        y_hat_0 on these rows; with ``previous``, the prediction after its rounds.
    rng : numpy.random.Generator or int
        A generator, or the seed of one, which is created only if the recipe draws numbers.
    data : TrainingData or None
        X and the weights, with bins that several fits share.
    previous : Boosted or None
        Completed rounds to continue from.
    after_round : callable or None
        Called with the model after every round; boosting ends when it returns True.
    """
    columns = np.arange(X.shape[0], dtype=np.int32) if columns is None else columns
    if columns.size == 0:
        return Boosted(recipe, columns, recipe.learning_rate)
    parts = deal(X, columns, y, weight, raw_prediction, n_threads, recipe.transform, data)
    rounds: list[tuple[Array | None, SoftTree]] = [] if previous is None else list(previous.rounds)
    model = Boosted(recipe, columns, recipe.learning_rate, rounds)
    theta = rounds[-1][0] if rounds else None
    if previous is not None:
        model.train_loss = list(previous.train_loss)
    if recipe.transform is not None and theta is None:
        first = parts[0]
        if recipe.transform.draws_start:
            rng = np.random.default_rng(rng)
        start = first.data.X.T, first.residual(loss).T, first.data.weight
        theta = recipe.transform.start_weighted(*start, rng)  # type: ignore[arg-type]
        theta = np.asarray(theta, dtype=X.dtype)

    if previous is None and after_round is None and len(parts) == 1:
        in_kernel = _boost_in_kernel(recipe, parts[0], loss, theta)
        if in_kernel is not None:
            model.rounds = in_kernel
            return model
    if not isinstance(recipe.learner, WHOLE_MODELS):  # which draw no numbers, and a generator takes time
        rng = np.random.default_rng(rng)
    run_rounds(model, parts, loss, theta, rng, after_round=after_round)  # type: ignore[arg-type]
    return model


def run_rounds(
    model: Boosted,
    parts: Sequence[Part],
    loss: Loss,
    theta: Array | None,
    rng: np.random.Generator,
    *,
    accept: Callable[[Fitted, Array], bool] | None = None,
    after_round: Callable[[Boosted], bool] | None = None,
) -> None:
    """The loop of Algorithm 1: append rounds to ``model.rounds``, which is a list, up to the number of the recipe.

    Parameters
    ----------
    model : Boosted
        The recipe and the rounds so far.
    parts : sequence of Part
        Training rows, which the rounds use in turn.
    theta : ndarray or None
        Parameters of the transform after the rounds so far.
    accept : callable or None
        Called with every fitted tree and the residual it was fitted to, before the tree is added; boosting ends when
        it returns False.
    after_round : callable or None
        Called with the model after every round; boosting ends when it returns True.
    """
    recipe, rounds = model.recipe, model.rounds
    assert isinstance(rounds, list)
    while len(rounds) < recipe.n_estimators:
        part = parts[len(rounds) % len(parts)]
        residual = part.residual(loss)
        fitted = recipe.learner.fit(part.data, residual, recipe.transform, theta, rng)
        if accept is not None and not accept(fitted, residual):
            break
        tree, theta, output, _ = fitted
        if loss.refit_leaves:
            tree, output = _refit_leaves(tree, theta, part, loss)
        part.add(recipe.learning_rate * output)
        rounds.append((theta, tree))
        if isinstance(parts, DealtParts):
            parts.add(part, recipe.learning_rate, theta, tree)
        if after_round is not None:
            model.train_loss.append(loss.mean(part.y, part.raw_prediction, part.data.weight))
            if after_round(model):
                break


def _boost_in_kernel(recipe: Recipe, part: Part, loss: Loss, theta: Array | None) -> KernelRounds | JointRounds | None:
    """The rounds of :func:`run_rounds`, bit for bit, from a loop in the kernel; None if the kernel has no such loop.

    With few rows, Python costs more than the tree itself.
    """
    learner, data, settings = recipe.learner, part.data, kernel_loss(loss)
    if settings is None:
        return None
    if type(learner) is GreedyTrees and recipe.transform is None:
        flat = _kernels.boost_greedy(
            data.X, data.bins, part.y, data.weight, learner.settings(data), recipe.n_estimators, recipe.learning_rate,
            part.raw_prediction, data.n_threads, settings,
        )  # fmt: skip
        return KernelRounds(flat, len(part.y))
    transform = recipe.transform
    if transform is None or transform.kernel_kind is None or theta is None or type(loss) is not SquaredError:
        return None
    if type(learner) is GradientTrees and learner.gates == "greedy":
        return learner.boost_in_kernel(
            data, part.y, part.raw_prediction, transform, theta, recipe.n_estimators, recipe.learning_rate
        )
    return None


def _refit_leaves(tree: SoftTree, theta: Array | None, part: Part, loss: Loss) -> tuple[SoftTree, Array]:
    """Refit the leaves to the loss, with the gates held fixed, by a few Newton steps on a quadratic approximation.

    A tree fitted to the sign of an error (absolute error, quantile) or to a gradient in units of counts (Poisson) has
    the right direction but not the right step length.
    """
    z = part.z.at(theta)
    settings = kernel_loss(loss)
    if settings is None or not isinstance(tree, SoftTree):
        return _refit_in_python(tree, z, part, loss)
    values, slopes, output = _kernels.refit_leaves(
        settings, np.ascontiguousarray(z[tree.columns]), tree.depth, tree.gate_weights, tree.gate_bias,
        tree.leaf_weights is not None, part.y, part.raw_prediction, part.data.weight, part.data.n_threads,
    )  # fmt: skip
    return replace(tree, leaf_values=values, leaf_weights=slopes), output


def _refit_in_python(tree: SoftTree, z: Array, part: Part, loss: Loss, n_iterations: int = 4) -> tuple[SoftTree, Array]:
    """The same for a loss that the kernels do not know, and for trees of other libraries."""
    basis = tree.leaf_basis(z, part.data.n_threads)
    output = np.zeros_like(part.raw_prediction)
    coefficients = np.zeros((basis.shape[0], output.shape[0]), dtype=basis.dtype)
    own = part.data.weight
    weight = 1.0 if own is None else own
    # the ridge penalty assumes a mean curvature of one, so rescale the curvature
    for _ in range(n_iterations):
        raw = part.raw_prediction + output
        gradient, curvature = loss.quadratic(part.y, raw, own)
        typical = max(weighted_mean(curvature, own), 1e-300)
        for o in range(output.shape[0]):
            row_weight = weight * curvature[o] / typical
            goal = output[o] - gradient[o] / curvature[o]
            coefficients[:, o] = ridge_leaves(basis, goal[None], row_weight, 1.0, part.data.n_threads)[:, 0]
        output = coefficients.T @ basis
    return tree.with_leaves(coefficients), output
