"""Whether the moves of a transform pay, in a fit without model selection.

In a model selection, trees without the transform compete with those on it. A fit whose parameters are all set, or that
stops early, has no such competitor: it is cross-validated here with and without moves, and the transform stays where it
starts unless the moves clearly lower the error.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.alternating import N_FOLDS, AlternatingTrees, fold_of_rows, is_clear
from softboost._boost.boosting import Boosted, Recipe

from .candidates import RIDGE, Candidate
from .fit import Fit, plain_start
from .training import TrainingRows

__all__ = ["confirmed", "continued"]

Array = NDArray[Any]
JUDGED_ROWS = 250  # with fewer validation rows, a further fold is fitted
JUDGED_ROUNDS = 100  # moves that pay do so early; a fit of thousands of rounds need not be repeated for each fold
REQUIRED = 0.5  # standard errors by which the moves must lower the error


def confirmed(rows: TrainingRows, candidate: Candidate, seed: int) -> Candidate:
    """The candidate, with a transform that does not move if its moves do not pay on validation rows."""
    learner = candidate.recipe.learner
    if not isinstance(learner, AlternatingTrees) or candidate.recipe.transform is None:
        return candidate
    fold = fold_of_rows(rows.X)
    if fold is None:
        return candidate  # nothing moves with so few rows
    still = candidate.with_recipe(learner=learner.still())
    n_rounds = min(candidate.recipe.n_estimators, JUDGED_ROUNDS)
    tried = [version.with_recipe(n_estimators=n_rounds) for version in (still, candidate)]
    weight = np.ones(len(fold)) if rows.weight is None else rows.weight
    judged = fold < math.ceil(JUDGED_ROWS * N_FOLDS / float(weight.sum()))
    gain = np.zeros(len(fold))
    for number in np.unique(fold[judged]):
        held = fold == number
        without, moved = (_losses(rows, held, version, seed) for version in tried)
        gain[held] = without - moved
    return candidate if is_clear(gain[judged], weight[judged], REQUIRED) else still


def _losses(rows: TrainingRows, held: Array, candidate: Candidate, seed: int) -> Array:
    """Loss of each held row under a fit of the candidate on the other rows."""
    X, y = rows.X[:, held], rows.y[:, held]
    part = TrainingRows(
        np.ascontiguousarray(rows.X[:, ~held]), np.ascontiguousarray(rows.y[:, ~held]),
        None if rows.weight is None else rows.weight[~held], rows.units, rows.loss, rows.n_threads,
    )  # fmt: skip
    fit = Fit(part, [RIDGE, candidate], seed)
    first, model = fit.boost(candidate, plain_start(fit, candidate))
    raw = first.predict(X)[0] + model.outputs(np.ascontiguousarray(X), rows.n_threads).sum(axis=0)
    return np.asarray(rows.loss.loss(y, raw).mean(axis=0))


def continued(recipe: Recipe, old: Boosted) -> Recipe:
    """The recipe of further rounds: a transform that was not confirmed still does not move."""
    before, now = old.recipe.learner, recipe.learner
    if isinstance(before, AlternatingTrees) and isinstance(now, AlternatingTrees) and before.max_moves == 0:
        return replace(recipe, learner=now.still())
    return recipe
