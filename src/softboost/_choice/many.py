"""Plain fits of greedy trees to many small sets of rows, computed together; the bits are those of single fits.

A single small fit spends more time in Python than in the kernel. Here the work in Python is done once for all sets with
equal numbers of rows and equal columns, and the kernel fits and evaluates many models in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._boost.boosting import Boosted, Recipe
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import TrainingData
from softboost._boost.rounds import KernelRounds
from softboost._data.columns import Columns, missing_patterns
from softboost._data.units import Units
from softboost._linear.path import LinearPath, through_means
from softboost._linear.ridge import RIDGE_PENALTIES, fit_wide_ridge
from softboost._model.bounds import REACH, widened
from softboost._model.fitted import FittedModel
from softboost._model.member import Member
from softboost.losses import SquaredError

__all__ = ["Alike", "Many", "fit_many", "predict_many"]

Array = NDArray[Any]
STAGE = len(RIDGE_PENALTIES) // 2  # of a linear start, as in a single fit


@dataclass(eq=False)
class Alike:
    """Fitted models of sets of rows with equal numbers of rows and equal columns; models are the first axis.

    Attributes
    ----------
    columns : Columns
    units : Units
    recipe : Recipe
    linear : LinearPath
        The linear start; its stages are the models.
    trees : dict of str to ndarray
        Trees of all models end to end, in the format of the kernel.
    losses : ndarray of shape (n_models, n_rounds)
        Training loss after each round.
    raw_bounds : tuple of ndarray, each of shape (n_models, n_outputs)
    y_ndim : int
    """

    columns: Columns
    units: Units
    recipe: Recipe
    linear: LinearPath
    trees: dict[str, Array]
    losses: Array
    raw_bounds: tuple[Array, Array]
    y_ndim: int

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("packed", "_starts")}

    @property
    def n_outputs(self) -> int:
        return self.units.y_spread.shape[1]

    @cached_property
    def packed(self) -> Any:
        """The models in the format for prediction; cf. :class:`softboost._model.ensemble.Ensemble`."""
        units, spread = self.units, self.units.y_spread
        return _kernels.pack_ensembles(
            offset=units.centre,
            scale=1.0 / units.spread,
            intercept=units.y_centre + spread * self.linear.intercepts,
            coefficients=spread[..., None] * self.linear.coefficients,
            missing=self.columns.missing,
            **self.trees,
            rate=self.recipe.learning_rate,
            unit=spread,
        )

    @cached_property
    def _starts(self) -> dict[str, Array]:
        """Where the trees of each model begin in each array of the trees."""
        depth, width, linear = (self.trees[name].astype(np.int64) for name in ("depth", "n_columns", "linear"))
        leaves, one = 2**depth, np.ones_like(depth)
        sizes = {
            "depth": one, "linear": one, "n_columns": one, "columns": width, "gate_weights": (leaves - 1) * width,
            "gate_bias": leaves - 1, "leaf": leaves * self.n_outputs * (1 + linear * width),
        }  # fmt: skip
        n_models, every = len(self.losses), self.recipe.n_estimators
        places = np.arange(n_models + 1) * every
        return {name: np.concatenate([[0], np.cumsum(size)])[places] for name, size in sizes.items()}

    def fitted(self, k: int) -> FittedModel:
        """Model k, as a single fit returns it."""
        flat = {name: self.trees[name][begin[k] : begin[k + 1]].copy() for name, begin in self._starts.items()}
        n_columns, rounds = self.units.centre.shape[1], KernelRounds(flat, self.n_outputs)
        boosted = Boosted(self.recipe, np.arange(n_columns, dtype=np.int32), self.recipe.learning_rate, rounds)
        return FittedModel(
            n_features_in=self.columns.n_features,
            columns=self.columns,
            units=self.units.of_set(k),
            loss=SquaredError(),
            train_loss=SquaredError(),
            members=[Member(self.recipe.name, 1.0, len(rounds), self.linear.stage(k), boosted)],
            choice=None,
            evals_result={"train": self.losses[k].tolist()},
            y_ndim=self.y_ndim,
            raw_bounds=(self.raw_bounds[0][k], self.raw_bounds[1][k]),
        )


@dataclass(eq=False)
class Many:
    """Fitted models of many sets of rows: model i is model ``place[i]`` of ``groups[group[i]]``."""

    groups: list[Alike]
    group: Array
    place: Array

    def fitted(self, i: int) -> FittedModel:
        """Model i, as a single fit returns it."""
        return self.groups[self.group[i]].fitted(int(self.place[i]))


def fit_many(recipe: Recipe, X: Array, y: Array, indptr: Array, n_threads: int = 1) -> Many:
    """Fit greedy trees under the squared error to the rows from ``indptr[i]`` to ``indptr[i + 1]``, for all i.

    X (n_rows, n_features) is finite or NaN, y (n_rows,) or (n_rows, n_outputs) finite; both have double precision.
    """
    nan, known = np.isnan(X), {}
    alike: dict[tuple[int, bytes], list[int]] = {}
    for i, (begin, end) in enumerate(pairwise(indptr.tolist())):
        cells = nan[begin:end].tobytes()
        if cells not in known:
            known[cells] = missing_patterns(X[begin:end], None)
        alike.setdefault((end - begin, known[cells].tobytes()), []).append(i)
    group, place = np.empty((2, len(indptr) - 1), dtype=np.int64)
    groups = []
    for number, ((n_rows, missing), sets) in enumerate(alike.items()):
        group[sets], place[sets] = number, np.arange(len(sets))
        rows = indptr[sets][:, None] + np.arange(n_rows)
        columns = Columns(X.shape[1], {}, np.frombuffer(missing, dtype=np.int64))
        groups.append(_fit_alike(recipe, columns, X[rows], y[rows], n_threads))
    return Many(groups, group, place)


def _fit_alike(recipe: Recipe, columns: Columns, X: Array, y: Array, n_threads: int) -> Alike:
    """Fit each of several sets of rows: X (n_sets, n_samples, n_features), y (n_sets, n_samples[, n_outputs])."""
    learner, y_ndim = recipe.learner, y.ndim - 1
    assert isinstance(learner, GreedyTrees)
    y = np.ascontiguousarray(np.swapaxes(y, 1, 2) if y_ndim == 2 else y[:, None])
    encoded = np.concatenate([X, np.isnan(X[..., columns.missing]).astype(X.dtype)], axis=2)
    units = Units.learn(encoded, y, None)
    x, target = units.standardised(encoded), units.standardised_y(y)
    linear = _start(recipe, x, target, n_threads)
    settings = learner.settings(TrainingData(x[0], None))
    trees, start, outputs = _kernels.boost_each(
        x, target, linear.coefficients, linear.intercepts, settings, recipe.n_estimators, recipe.learning_rate,
        n_threads,
    )  # fmt: skip
    raw = np.cumsum(np.concatenate([start[:, None], outputs.transpose(0, 1, 3, 2)], axis=1), axis=1)[:, 1:]
    spread, centre = units.y_spread[:, None, :, None], units.y_centre[:, None, :, None]
    with np.errstate(over="ignore"):  # as in Watch
        losses = SquaredError().loss(units.original_y(target)[:, None], raw * spread + centre).mean(axis=2)
    losses = np.average(losses, axis=2)
    return Alike(columns, units, recipe, linear, trees, losses, widened(y, REACH, None), y_ndim)


def _start(recipe: Recipe, x: Array, y: Array, n_threads: int) -> LinearPath:
    """The start of each model, as a path whose stages are the models."""
    n_models, n_outputs, n_columns = len(x), y.shape[1], x.shape[1]
    if recipe.start == "linear" and n_columns > x.shape[2]:
        paths = [fit_wide_ridge(own, target, None, n_threads).stage(STAGE) for own, target in zip(x, y, strict=True)]
        return LinearPath(
            np.concatenate([path.coefficients for path in paths]), np.concatenate([path.intercepts for path in paths])
        )
    if recipe.start == "linear":
        penalties = np.ascontiguousarray(RIDGE_PENALTIES[::-1])
        mean_x, mean_y, slopes = _kernels.ridge_each(x, y, penalties, STAGE, n_threads)
        return through_means(slopes, mean_x[:, None], mean_y)
    constant = np.zeros((n_models, n_outputs)) if recipe.start == "zero" else np.average(y, axis=2)
    return LinearPath(np.zeros((n_models, n_outputs, n_columns)), constant)


def predict_many(many: Sequence[tuple[Many, int]], owner: Array, n_threads: int = 1) -> Any:
    """A function that predicts rows (n_rows, n_features), of which row i belongs to the model ``many[owner[i]]``.

    Its result is that of a single model for each row, of shape (n_rows,) or (n_rows, n_outputs).
    """
    groups: dict[int, tuple[int, Alike]] = {}
    number, place = np.empty((2, len(many)), dtype=np.int64)
    for i, (own, k) in enumerate(many):
        group = own.groups[own.group[k]]
        number[i] = groups.setdefault(id(group), (len(groups), group))[0]
        place[i] = own.place[k]
    alike = [group for _, group in groups.values()]
    first = np.cumsum([0, *(len(group.losses) for group in alike[:-1])])
    largest = np.finfo(np.float64).max
    bounds = (np.concatenate([group.raw_bounds[side] for group in alike]) for side in (0, 1))
    low, high = (np.clip(bound, -largest, largest)[(first[number] + place)[owner]] for bound in bounds)
    packed, number, place = [group.packed for group in alike], number[owner], place[owner]

    def predict(rows: Array) -> Array:
        raw = _kernels.predict_many(packed, number, place, np.ascontiguousarray(rows), n_threads)
        out = np.minimum(np.maximum(raw, low), high)
        return out[:, 0] if alike[0].y_ndim == 1 else out

    return predict
