"""Fits candidates on one set of training rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.boosting import Boosted, Recipe, boost
from softboost._linear.path import LinearPath
from softboost._model.member import Member

from .candidates import RIDGE, Candidate
from .columns import Needed
from .training import TrainingRows

__all__ = ["Fit", "Start", "fit_member", "plain_start"]

Array = NDArray[Any]
Start = tuple[str, int] | None  # name and stage of the linear model that boosting starts from; None: a constant


class Fit:
    """Fits candidates on one set of training rows and caches results that several of them use.

    Parameters
    ----------
    rows : TrainingRows
    candidates : sequence of Candidate
        All competing candidates.
    seed : int
    """

    def __init__(self, rows: TrainingRows, candidates: Sequence[Candidate], seed: int = 0) -> None:
        self.rows, self.seed = rows, seed
        self._linear_candidates = [candidate for candidate in candidates if not candidate.is_boosted]
        needed = {candidate.columns.of for candidate in candidates if isinstance(candidate.columns, Needed)}
        self._asked = {candidate.name: candidate for candidate in candidates if candidate.name in needed}
        self._boosted: dict[str, tuple[LinearPath, Boosted]] = {}
        self._effects: dict[str, Array | None] = {}
        self._starts: dict[tuple[str, Start], tuple[LinearPath, Array]] = {}

    @cached_property
    def linear(self) -> dict[str, LinearPath]:
        """Linear candidates by name."""
        paths = {candidate.name: candidate.linear_path(self.rows) for candidate in self._linear_candidates}
        for path in paths.values():
            self.rows.recentre(path)
        return paths

    def _start(self, recipe: Recipe, start: Start) -> tuple[LinearPath, Array]:
        """y_hat_0 of a recipe as a linear model of one stage, and its predictions of the training rows."""
        key = recipe.start, start
        if key not in self._starts:
            rows = self.rows
            if recipe.start == "linear" and start is not None:
                first = self.linear[start[0]].stage(start[1])
            else:
                first = rows.flat(np.zeros(len(rows.y)) if recipe.start == "zero" else rows.constant())
            self._starts[key] = first, first.predict(rows.X)[0].astype(rows.X.dtype)
        return self._starts[key]

    def _effects_of(self, name: str, start: Start) -> Array | None:
        """Effects of the columns on the boosted candidate of this name, after all of its rounds."""
        if name not in self._effects and name in self._asked:
            _, model = self.boost(self._asked[name], start)
            self._effects[name] = model.effects(self.rows.data)
        return self._effects.get(name)

    def columns(self, candidate: Candidate, start: Start) -> Array:
        """The columns that a boosted candidate uses."""
        return candidate.columns.select(self.rows, candidate.recipe, lambda name: self._effects_of(name, start))

    def boost(self, candidate: Candidate, start: Start, **kwargs: Any) -> tuple[LinearPath, Boosted]:
        """Fit one boosted candidate; return its initial model and its rounds."""
        is_asked = self._asked.get(candidate.name) == candidate
        if is_asked and candidate.name in self._boosted:
            return self._boosted[candidate.name]
        rows, recipe = self.rows, candidate.recipe
        first, raw = self._start(recipe, start)
        columns = self.columns(candidate, start)
        recipe = candidate.columns.prepared(rows, recipe, columns, lambda name: self._effects_of(name, start))
        if hasattr(kwargs.get("after_round"), "begin"):
            kwargs["after_round"].begin(first)
        model = boost(
            recipe, rows.X, rows.y, rows.weight, rows.loss, raw,
            columns=columns, rng=self.seed, n_threads=rows.n_threads, data=rows.data, **kwargs,
        )  # fmt: skip
        if is_asked:
            self._boosted[candidate.name] = first, model
        return first, model


def fit_member(rows: TrainingRows, candidate: Candidate, seed: int, **kwargs: Any) -> Member:
    """Plain fit of one boosted candidate; a linear start is ridge regression with the middle penalty of the path."""
    fit = Fit(rows, [RIDGE, candidate], seed)
    first, model = fit.boost(candidate, plain_start(fit, candidate), **kwargs)
    return Member(candidate.name, 1.0, len(model.rounds), first, model)


def plain_start(fit: Fit, candidate: Candidate) -> Start:
    """The start of a plain fit: the middle stage of ridge regression if the recipe starts from a linear model."""
    if candidate.recipe.start != "linear":
        return None
    return RIDGE.name, len(fit.linear[RIDGE.name].coefficients) // 2
