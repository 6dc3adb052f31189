"""The candidates under the parameters that the user has set, that is, that are not "auto"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from softboost._boost.alternating import AlternatingTrees
from softboost._boost.boosting import WHOLE_MODELS, Recipe
from softboost._boost.gradient import GradientTrees, NoisyTrees
from softboost._boost.greedy import GreedyTrees
from softboost._boost.hard_trees import HardTrees, make_hard_trees
from softboost._data.task import Task
from softboost.losses import SquaredError
from softboost.transforms import Diagonal, Linear, Transform, make_transform

from .candidates import CONSTANT, TREES, TWO_INDICES, Candidate, competing
from .columns import All

__all__ = ["AUTO", "Given", "given_candidates", "plain_trees"]

AUTO: Literal["auto"] = "auto"
AS_SET = Candidate("trees", "trees as they were set", "boosted", Recipe("trees", GreedyTrees()))
ALONE_REQUIRED = 2.0  # standard errors by which a move of a transform that has no competitor must help


@dataclass(frozen=True)
class Given:
    """The remaining candidates."""

    linear: list[Candidate]
    boosted: list[Candidate]
    fixed_rounds: bool

    @property
    def linear_models_compete(self) -> bool:
        """Whether there are linear models other than the constant."""
        return len(self.linear) > 1

    @property
    def nothing_to_choose(self) -> bool:
        """Whether a single boosted model remains."""
        return len(self.boosted) == 1 and not self.linear_models_compete and self.fixed_rounds

    @property
    def candidates(self) -> list[Candidate]:
        return [*self.linear, *self.boosted]


def given_candidates(params: Any, task: Task) -> Given:
    """The candidates under the parameters of an estimator.

    Linear models compete if neither ``init`` nor ``n_estimators`` is set and the loss has no link. A Gaussian process
    and extra trees compete if no parameter of trees is set and the loss is the squared error.
    """
    table = [c for c in competing(task.total_weight, task.y.shape[1]) if _of_trees(c) or _is_open(params, task)]
    boosted = [_under_user(params, c) for c in _boosted(params, task, [c for c in table if c.is_boosted])]
    linear = [CONSTANT]
    if params.init == AUTO and params.n_estimators == AUTO and task.loss.scales_with_y:
        linear = [c for c in table if not c.is_boosted]
    return Given(linear, _distinct(boosted), params.n_estimators != AUTO)


def _of_trees(candidate: Candidate) -> bool:
    return not (candidate.is_boosted and isinstance(candidate.recipe.learner, WHOLE_MODELS))


def _is_open(params: Any, task: Task) -> bool:
    """Whether no parameter of trees is set and the loss is the squared error."""
    names = ("n_estimators", "learning_rate", "depth", "leaves", "gates", "init", "ridge", "feature_transform")
    automatic = all(isinstance(value := getattr(params, name), str) and value == AUTO for name in names)
    return automatic and isinstance(task.loss, SquaredError) and make_hard_trees(params.weak_learner) is None


def _boosted(params: Any, task: Task, table: list[Candidate]) -> list[Candidate]:
    """Boosted candidates for the given weak learner and transform."""
    automatic = isinstance(params.feature_transform, str) and params.feature_transform == AUTO
    transform = None if automatic else _transform(params, task)
    hard = make_hard_trees(params.weak_learner)
    if hard is not None:
        return [_hard_trees(hard, t) for t in ([None, Linear()] if automatic else [transform])]
    if automatic:
        return table
    if _all_set(params):
        return [AS_SET if transform is None else _with_transform(params, transform, task)]
    without = [candidate for candidate in table if candidate.recipe.transform is None]
    if transform is None:
        return without
    chosen = _with_transform(params, transform, task)  # first, because early stopping fits the first one
    competes = params.n_estimators == AUTO or _starts_at_columns(transform, task.encoded.shape[1])
    return [chosen, *without] if competes else [chosen]


def _starts_at_columns(transform: Transform, n_features: int) -> bool:
    """Whether the trees without a transform are the start of those with it, whatever moves it."""
    if type(transform) is Linear:
        return transform.init == "identity" and transform.n_components in (None, n_features)
    return type(transform) is Diagonal or transform.starts_at_identity(n_features)


def plain_trees(params: Any) -> Candidate | None:
    """The candidate of a fit of greedy trees whose parameters are all set; None if another model is fitted."""
    if not _all_set(params) or params.feature_transform is not None or make_hard_trees(params.weak_learner) is not None:
        return None
    candidate = _under_user(params, AS_SET)
    return candidate if type(candidate.recipe.learner) is GreedyTrees else None


def _all_set(params: Any) -> bool:
    """Whether every parameter of the trees is set, so that nothing is selected."""
    return AUTO not in (
        params.n_estimators, params.learning_rate, params.depth, params.leaves, params.gates, params.init
    )  # fmt: skip


def _with_transform(params: Any, transform: Transform, task: Task) -> Candidate:
    """The candidate with a transform that was set: like trees if it starts at the identity, else like two indices."""
    name, about = type(transform).__name__.lower(), "trees on the transform that was set"
    if params.gates != "random" and transform.starts_at_identity(task.encoded.shape[1]):
        # the trees of a fit without a transform, which it equals as long as the transform has not moved
        trees: Any = GreedyTrees() if _all_set(params) else TREES.recipe.learner
        alone = _all_set(params) or (params.early_stopping and params.n_estimators != AUTO)
        learner = AlternatingTrees(trees, required=ALONE_REQUIRED if alone else 1.0)
        rounds = TREES.rounds(task.total_weight) if TREES.rounds else TREES.recipe.n_estimators
        chosen = replace(TREES, name=name, about=about, columns=All(), rounds=None)
        return chosen.with_recipe(name=name, learner=learner, transform=transform, n_estimators=rounds)
    chosen = replace(TWO_INDICES, name=name, about=about, columns=All())
    return chosen.with_recipe(name=name, transform=transform)


def _transform(params: Any, task: Task) -> Transform | None:
    """The given transform, checked against the columns."""
    transform = make_transform(params.feature_transform)
    if transform is not None:
        transform = transform.with_columns(task.feature_names)
        transform.check(task.encoded.shape[1])
    return transform


def _hard_trees(learner: HardTrees, transform: Transform | None) -> Candidate:
    """Trees of another library, with the default number of rounds and learning rate of such libraries."""
    name = learner.name if transform is None else f"{learner.name}+{type(transform).__name__.lower()}"
    return Candidate(
        name, f"trees of {learner.name}", "boosted", Recipe(name, learner, transform, 100, 0.1), scout=False
    )


def _under_user(params: Any, candidate: Candidate) -> Candidate:
    """The candidate with the parameters that are set."""
    learner: Any = candidate.recipe.learner
    if isinstance(learner, WHOLE_MODELS):
        return candidate
    if isinstance(learner, HardTrees):
        learner = learner if params.depth == AUTO else learner.with_depth(int(params.depth))
        return _with_rounds(params, candidate, learner)
    if params.gates == "random":
        solve = params.leaves == "linear"
        learner = GradientTrees(depth=3, leaves="constant", gates="random", solve_leaves=solve, n_steps=params.n_steps)
        candidate = replace(candidate, columns=All())
    if isinstance(learner, AlternatingTrees):
        learner = replace(learner, trees=_shaped(params, learner.trees))
    else:
        learner = _shaped(params, learner)
    transform = candidate.recipe.transform
    if transform is not None and transform.kernel_kind is None and isinstance(learner, GradientTrees):
        learner = NoisyTrees(**vars(learner))
    return _with_rounds(params, candidate, learner)


def _shaped(params: Any, learner: Any) -> Any:
    """Soft trees with the depth, leaves and ridge penalty that are set."""
    if params.depth != AUTO:
        learner = replace(learner, depth=params.depth)
        learner = replace(learner, shallower=False) if isinstance(learner, GreedyTrees) else learner
    if params.leaves != AUTO:
        learner = replace(learner, leaves=params.leaves)
    if params.ridge != AUTO:
        ridge = float(params.ridge)
        learner = replace(learner, ridge=(ridge,) if isinstance(learner, GreedyTrees) else ridge)
    return learner


def _with_rounds(params: Any, candidate: Candidate, learner: Any) -> Candidate:
    changes: dict[str, Any] = {"learner": learner}
    if params.n_estimators != AUTO:
        changes["n_estimators"] = int(params.n_estimators)
    if params.learning_rate != AUTO:
        changes["learning_rate"] = float(params.learning_rate)
    if params.init != AUTO:
        changes["start"] = params.init
    return candidate.with_recipe(**changes)


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Remove candidates that the parameters have made equal to an earlier one."""
    kept: list[Candidate] = []
    for candidate in candidates:
        if not any(_same(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


def _same(a: Candidate, b: Candidate) -> bool:
    one, other = vars(a.recipe), vars(b.recipe)
    return (a.columns, a.when) == (b.columns, b.when) and all(one[k] == other[k] for k in one if k != "name")
