"""OnlineSoftBoostRegressor: soft trees on a stream, one row at a time, in bounded memory.

The prediction is a weighted average of experts (:class:`softboost.online._parts.Experts`) on six models: the running
mean, the previous target, a linear model, a linear model that forgets fast, the full model, which is linear in the
columns and in the leaves of a fixed number of soft trees on z = Q x, and trees boosted on recent rows. Every row

1. updates the coefficients of all models but the boosted trees by recursive least squares with forgetting,
2. moves the gates that matter most at this row, and a few entries of Q, by a gradient step,
3. enters a buffer of recent rows, on which one tree is regrown occasionally and accepted if it predicts better.

While there are few rows, and after a drift, which drops the rows before it, all trees are refitted each time the number
of rows has grown by a fifth. The boosted trees are also refitted whenever a fifth of the buffer is new.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.checks import LARGEST, check_integer, check_number
from softboost._data.outliers import tails_of
from softboost._file.container import save as save_model
from softboost._file.values import Codec, Fields, register
from softboost._linear.recursive import (
    FORGET_EVERY,
    FORGETTING,
    INTERCEPT_PRIOR,
    LEAF_PRIOR,
    LINEAR_PRIOR,
    RecursiveLeastSquares,
)
from softboost._model.drift import DRIFT_INFLATION, DRIFT_ROWS, GROWTH, DriftTest
from softboost._runtime.interrupts import uninterrupted

from ._growth import BoostedTrees, TreeGrower
from ._parts import Experts, Reach, RecentRows, RowEncoder, RunningUnits, SoftTrees, check_trees
from ._state import check_range, check_size, of_present_form, pack, unpack, unpack_encoder, with_spread

__all__ = ["OnlineSoftBoostRegressor"]

Array = NDArray[Any]

FAST_FORGETTING = 0.98
EXPERT_MEMORY, N_BASES = 0.99, 8
BOOSTED_TREES = 2  # maximum number of boosted trees per tree of the full model
N_EXTRA_COLUMNS = 4  # number of columns of a leaf that its tree does not split on
MAX_LEAF_COEFFICIENTS = 2048
N_MOVED = 4  # number of trees whose gates a row moves, and of rows of Q
N_ENTRIES = 8  # number of entries that it moves in each of these rows of Q
MAX_STEP_ERROR = 3.0
LARGEST_FALL = 10.0  # of a unit, above which errors of earlier rows say nothing; and of a prediction, in ranges of y
BOOSTING_RATE, REPLACING_RATE = 0.25, 0.5
LEAST_ROWS = 10
BETTER = 0.98
NEW_VARIANCE = 0.1 * LEAF_PRIOR
CELL_MEMORY, ERROR_MEMORY = 0.999, 0.99  # factors by which the largest distances shrink with each row


def _regressor_base() -> type:
    """river's ``Regressor`` if river is installed, so that its tools recognise the model."""
    if importlib.util.find_spec("river") is None:
        return object
    base: type = importlib.import_module("river.base").Regressor
    return base


class OnlineSoftBoostRegressor(_regressor_base()):  # type: ignore[misc]
    """Online regression with soft trees and linear models: predict a row, observe the target, update.

    The class follows river's protocol and derives from river's ``Regressor`` if river is installed; river is optional.
    Columns and target are standardised with running statistics. Features may be numbers, strings (categories), dates
    or Booleans. A feature that is absent, None or NaN is replaced by its running mean. New features are added when they
    appear.

    Parameters
    ----------
    n_trees : int, default=12
        Number of soft trees of the full model; there are at most twice as many boosted trees. More trees represent
        finer structure and take more time. 0 uses only the linear models.
    depth : int, default=2
        Depth of the trees, 1 to 4.
    forgetting : float, default=0.9995
        Weight of a row relative to the next one, in (0, 1]. 1 never forgets; 0.99 remembers about 100 rows.
    gate_learning_rate : float, default=0.005
        Length of the gradient step on the gates for each row.
    transform_learning_rate : float, default=0.005
        Length of the gradient step on Q for each row.
    buffer_size : int, default=1000
        Number of recent rows stored for growing trees, at least 128.
    max_features : int, default=256
        Maximum number of columns. A string feature uses one column per category. Later features are ignored.
    seed : int, default=0
        Seed of the row samples on which trees are grown. The same rows and seed give the same model.

    Attributes
    ----------
    n_rows_seen : int
        Number of rows learned.
    n_drifts : int
        Number of detected drifts, that is, of large increases of the error.

    Examples
    --------
    >>> import random
    >>> from softboost.online import OnlineSoftBoostRegressor
    >>> model, draw = OnlineSoftBoostRegressor(), random.Random(0)
    >>> errors = []
    >>> for _ in range(300):
    ...     x = {"a": draw.uniform(-1, 1), "b": draw.uniform(-1, 1)}
    ...     y = abs(x["a"]) + x["b"]
    ...     errors.append(abs(model.predict_one(x) - y))
    ...     model.learn_one(x, y)
    >>> sum(errors[200:]) < 0.2 * sum(errors[:100])
    True
    """

    def __init__(
        self,
        n_trees: int = 12,
        depth: int = 2,
        forgetting: float = FORGETTING,
        gate_learning_rate: float = 0.005,
        transform_learning_rate: float = 0.005,
        buffer_size: int = 1000,
        max_features: int = 256,
        seed: int = 0,
    ) -> None:
        check_trees(n_trees, depth)
        check_number("forgetting", forgetting, above=0.0, most=1.0)
        check_number("gate_learning_rate", gate_learning_rate, least=0.0, most=1.0)
        check_number("transform_learning_rate", transform_learning_rate, least=0.0, most=1.0)
        check_integer("buffer_size", buffer_size, 128, 1_000_000)
        check_integer("max_features", max_features, 1, 2000)
        check_integer("seed", seed, 0)
        n_leaves = _n_leaf_coefficients(n_trees, depth)
        if n_leaves > MAX_LEAF_COEFFICIENTS:
            raise ValueError(
                f"n_trees={n_trees} with depth={depth} gives {n_leaves} leaf coefficients, more than "
                f"{MAX_LEAF_COEFFICIENTS}; use fewer trees or a smaller depth"
            )
        self.n_trees, self.depth, self.forgetting = n_trees, depth, forgetting
        self.gate_learning_rate, self.transform_learning_rate = gate_learning_rate, transform_learning_rate
        self.buffer_size, self.max_features, self.seed = buffer_size, max_features, seed

        self.n_rows_seen, self.n_drifts = 0, 0
        self._encoder = RowEncoder(max_features)
        self._units, self._target = RunningUnits(), RunningUnits()
        self._target.grow(1)
        self._cells, self._errors = Reach(CELL_MEMORY), Reach(ERROR_MEMORY)
        self._errors.grow(1)
        self._range = np.array([math.inf, -math.inf])
        self._latest = np.zeros(2)  # the previous target, as learned and as observed
        self._trees = SoftTrees(n_trees, depth, 2**depth - 1 + N_EXTRA_COLUMNS)
        self._Q = np.zeros((0, 0))
        linear, leaves = np.array([INTERCEPT_PRIOR]), np.full(self._trees.n_basis, LEAF_PRIOR)
        # The basis is ordered as leaves, intercept, columns; the linear models use only the last two.
        self._models = [
            RecursiveLeastSquares(linear, forgetting),
            RecursiveLeastSquares(linear, min(FAST_FORGETTING, forgetting)),
            RecursiveLeastSquares(np.concatenate([leaves, linear]), forgetting),
        ]
        self._boosted = BoostedTrees(BOOSTED_TREES * n_trees, depth, N_EXTRA_COLUMNS)
        self._experts = Experts(N_BASES, EXPERT_MEMORY)
        self._rows = RecentRows(buffer_size, len(leaves) + 1)
        self._drift = DriftTest()
        self._next_build, self._next_tree = 2, 0
        self._grower = TreeGrower(depth, N_EXTRA_COLUMNS, seed)
        self._grow(len(self._encoder.slots))

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of a row.

        Parameters
        ----------
        x : dict
            Features by name: numbers, strings, dates, Booleans or None.

        Returns
        -------
        float
            The prediction; 0 before the first row is learned. It exceeds the range of the targets seen so far by at
            most the width of that range.
        """
        _check_row(x)
        if self.n_rows_seen == 0:
            return 0.0
        return self._predict_encoded(self._encoder.encode(x))

    def _predict_encoded(self, row: Array) -> float:
        """Prediction for an encoded row."""
        *_, basis = self._see(self._units.standardised(row))
        y = self._experts.combined(self._bases(basis)) * self._y_scale + float(self._target.centre[0])
        low, high = min(self._range[0], self._latest[1]), max(self._range[1], self._latest[1])
        return float(min(max(y, 2 * low - high), 2 * high - low))

    def _see(self, x: Array) -> tuple[Array, Array, Array, Array, Array]:
        """z, the columns used by the trees, gates, leaf probabilities and the basis at standardised rows."""
        z = x @ self._Q.T
        seen, right, reach = self._trees.forward(z)
        basis = np.concatenate([self._trees.basis(seen, reach), np.ones((*x.shape[:-1], 1)), x], axis=-1)
        return z, seen, right, reach, basis

    def _bases(self, basis: Array) -> Array:
        """Predictions of the base models, in standardised units.

        These are the running mean, the three models fitted by least squares, the boosted trees, the mean of the
        boosted trees and the full model, whose errors differ, and the previous target: as learned, without an outlier,
        and as observed. After a jump the errors of the last two tell a new level from an outlier.
        """
        models = [model.coef @ basis[-len(model.coef) :] for model in self._models]
        boosted = self._boosted.predict(basis[-len(self._Q) :]) if self._boosted.grown.any() else models[-1]
        mean, *latest = (np.append(self._target.mean, self._latest) - self._target.centre[0]) / self._y_scale
        return np.array([mean, *models, boosted, 0.5 * (models[-1] + boosted), *latest])

    @property
    def _y_scale(self) -> float:
        """Unit of the target: its standard deviation; its level as long as all targets are equal."""
        if self._target.scale[0] > 0:
            return float(self._target.scale[0])
        level = abs(float(self._target.mean[0]))
        return level if level > 1.0 / LARGEST else 1.0

    # -- learning ------------------------------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Update the model with a row.

        Parameters
        ----------
        x : dict
            Features by name, as in :meth:`predict_one`.
        y : float
            The target.
        w : float, default=1.0
            Weight of the row; 2 is about equivalent to repeating it, 0 ignores it.
        """
        y = _target_of(y)
        check_number("w", w, least=0.0, most=LARGEST)
        _check_row(x)
        if w == 0.0:
            self._encoder.encode(x)  # raises an error for invalid features
            return
        # a row is learned completely or not at all; early wild cells are still in the units, and their squares overflow
        with uninterrupted(), np.errstate(over="ignore"):
            self._learn(self._encoder.encode(x, learn=True), y, float(w))

    def _learn(self, row: Array, y: float, w: float) -> None:
        if len(row) > len(self._Q):
            self._grow(len(row) - len(self._Q))
        row, observed = self._without_far_cells(row), y
        z, seen, right, reach, basis = self._see(self._units.standardised(row))
        if self.n_rows_seen:
            truth = (y - float(self._target.centre[0])) / self._y_scale
            learned = self._update(z, seen, right, reach, basis, truth, w)
            if learned != truth:
                y = learned * self._y_scale + float(self._target.centre[0])
        self.n_rows_seen, self._latest = self.n_rows_seen + 1, np.array([y, observed])
        self._units.update(row)
        self._target.update(np.array([y]))
        self._range = np.array([min(self._range[0], y), max(self._range[1], y)])
        self._rows.append(row, z, basis, y, w)
        self._maintain()

    def _without_far_cells(self, row: Array) -> Array:
        """The row with far cells moved closer, and very far ones missing."""
        with np.errstate(invalid="ignore"):
            far, very = self._cells.judge(np.where(self._units.count > 0, np.abs(row - self._units.mean), math.nan))
        if not far.any():
            return row
        reach = self._cells.most
        row = np.where(far, np.clip(row, self._units.mean - reach, self._units.mean + reach), row)
        return np.where(very, math.nan, row)

    def _grow(self, n_new: int) -> None:
        """Extend all arrays for new features."""
        n = len(self._Q)
        Q = np.eye(n + n_new)
        Q[:n, :n] = self._Q
        self._Q, self._grower.end = Q, 0
        self._units.grow(n_new)
        self._cells.grow(n_new)
        self._rows.grow(n_new)
        for model in self._models:
            model.grow(np.full(n_new, LINEAR_PRIOR))

    def _update(
        self, z: Array, seen: Array, right: Array, reach: Array, basis: Array, truth: float, weight: float
    ) -> float:
        """Update coefficients, gates, Q and expert weights from the errors of the prediction.

        Returns the target that was learned, which is closer to the prediction if the error stands apart.
        """
        bases = self._bases(basis)
        most = float(self._errors.most[0])
        # after an outlier, the target may be near it or back at the level before; where the previous target predicts
        # best, two alike are a new level
        likely = [self._experts.combined(bases), self._experts.combined(np.append(bases[:-1], bases[-2]))]
        if bases[-1] != bases[-2] and self._experts.follow_the_last():
            likely.append(float(bases[-1]))
        expected = min(likely, key=lambda prediction: abs(truth - prediction))
        _, very_far = self._errors.judge(np.array([abs(truth - expected)]))
        self._experts.update(bases, truth, weight, most if very_far[0] else None)
        if very_far[0]:
            low, high = ((end - float(self._target.centre[0])) / self._y_scale for end in self._range)
            far = LARGEST_FALL * (high - low)
            if low - far <= expected <= high + far:  # a wild prediction moves no target
                truth = min(max(truth, expected - most), expected + most)
            else:
                truth = min(max(truth, low), high)
        drifted = self._drift.update(expected - truth)
        for model, base in zip(self._models, bases[1:4], strict=True):
            model.update(basis[-len(model.coef) :], truth - base, weight)
            if self.n_rows_seen % FORGET_EVERY == 0:
                model.forget(model.forgetting**-FORGET_EVERY)
        if self._trees.grown.any():
            error = min(max(truth - bases[3], -MAX_STEP_ERROR), MAX_STEP_ERROR)
            self._step(basis[-len(z) :], seen, right, reach, error * min(weight, 1.0))
        if drifted:
            self.n_drifts += 1
            self._rows.n_rows = min(self._rows.n_rows, DRIFT_ROWS)
            self._next_build, self._grower.end = 2 * DRIFT_ROWS, 0
            for model in self._models:
                model.forget(DRIFT_INFLATION)
        return truth

    def _step(self, x: Array, seen: Array, right: Array, reach: Array, error: float) -> None:
        """One sparse gradient step on the gates of the trees that matter most at this row and a few entries of Q."""
        trees = self._trees
        by_logit, by_seen = trees.gradients(seen, right, reach, self._models[-1].coef[: trees.n_basis])
        top = np.argsort(-np.abs(by_logit).max(axis=1), kind="stable")[:N_MOVED]
        move = by_logit[top] * (self.gate_learning_rate * error / (0.01 + float(np.sum(by_logit[top] ** 2))))
        trees.weights[top] += move[:, :, None] * seen[top][:, None, :]
        trees.bias[top] += move
        by_z = np.bincount(trees.columns.ravel(), by_seen.ravel(), minlength=len(x))
        components = np.argsort(-np.abs(by_z), kind="stable")[:N_MOVED]
        entries = np.argsort(-np.abs(x), kind="stable")[:N_ENTRIES]
        length = self.transform_learning_rate * error / ((0.01 + by_z @ by_z) * (1.0 + x @ x / len(x)))
        self._Q[np.ix_(components, entries)] += length * np.outer(by_z[components], x[entries])

    # -- growing trees on recent rows ----------------------------------------------------------------------------------

    def _maintain(self) -> None:
        """Occasional work: adopt new units, refit all trees, or regrow one tree."""
        n, size = self._rows.n_rows, self.buffer_size
        due = n >= self._next_build and self._next_build <= size
        if not due and self.n_rows_seen % FORGET_EVERY == 0:
            due = self._units.have_shifted() or self._target.have_shifted()
        if due:
            self._build()
            self._next_build = max(n + 1, math.ceil(n * GROWTH)) if n < size else size + 1
        elif n == size and self.n_rows_seen % round(size * (GROWTH - 1.0)) == 0:
            self._refit_boosted()
        elif self.n_trees and n >= LEAST_ROWS and self.n_rows_seen % (2 if n < 100 else 8 if n < size else 16) == 0:
            self._replace_tree()

    def _build(self) -> None:
        """Adopt the current units and refit everything to the recent rows, with trees boosted on the linear model."""
        self._tame_recent_rows()
        had_cells = self._units.scale > 0
        ratio, offset = self._units.adopt()
        self._trees.convert(self._Q, ratio, offset)
        self._Q = self._Q * ratio / ratio[:, None]
        had_units = self._target.scale[0] > 0
        y_ratio, _ = self._target.adopt()
        fallen = ratio[had_cells] if had_units else ratio[:0]
        self._experts.rescale(1.0 / float(y_ratio[0]))
        if had_units and min([y_ratio[0], *fallen]) * LARGEST_FALL < 1.0:  # an outlier decided all errors until now
            self._experts.keep_order()
            self._errors.forget()
        self._errors.most /= float(y_ratio[0])
        if not had_units:  # errors relative to the level count as if they were relative to the standard deviation
            self._experts.levels[:] = 0.0
            self._errors.most = np.minimum(self._errors.most, self._experts.LARGEST_ERROR)
        rows, places, full = self._rows, self._rows.places(), self._models[-1]
        rows.Z[places], *_, rows.basis[places] = self._see(self._units.standardised(rows.X[places]))
        truth, weight = self._truth(places), rows.weight[places]
        for model in self._models[:2]:
            model.solve(rows.basis[places][:, -len(model.coef) :], truth, weight)
        start = np.concatenate([np.zeros(self._trees.n_basis), self._models[0].coef])
        if self.n_trees and rows.n_rows >= LEAST_ROWS:
            self._boost(start)
            *_, rows.basis[places] = self._see(self._units.standardised(rows.X[places]))
        basis = rows.basis[places]
        full.solve(basis, truth - basis @ start, weight)
        full.coef += start
        self._refit_boosted()

    def _tame_recent_rows(self) -> None:
        """Remove early outliers of the recent rows, from before the usual range was known."""
        rows, places = self._rows, self._rows.places()
        X, y = rows.X[places], rows.y[places, None]
        weight = None if np.all(rows.weight[places] == 1.0) else rows.weight[places]
        cells, targets = tails_of(X, weight, n_coded=X.shape[1]), tails_of(y, weight)
        if cells.low or cells.codes:
            X = cells.without(X)
            rows.X[places] = X
            self._units.learn_again(X)
            self._cells.forget()
        if targets.low:
            before, limit = y[:, 0], targets.clipped(y)[:, 0]
            centre = (targets.low[0] + targets.high[0]) / 2
            with np.errstate(invalid="ignore"):  # the farther away, the less it counts
                nearer = np.where(limit == before, 1.0, (limit - centre) / (before - centre))
            rows.weight[places] *= nearer**2
            rows.y[places] = y = limit
            self._target.learn_again(y[:, None])
            self._errors.forget()
            if rows.n_rows == self.n_rows_seen:
                self._range = np.array([y.min(), y.max()])

    def _truth(self, places: Array) -> Array:
        return (self._rows.y[places] - self._target.centre[0]) / self._y_scale

    def _boost(self, coef: Array) -> None:
        """Grow trees on the residuals, one after the other, while they improve; their leaves are written to coef."""
        self._grower.draw(self._rows, self._units, self.n_rows_seen)
        places = self._grower.rows
        self._rows.basis[places, : self._trees.n_basis] = 0.0  # of the previous trees
        residual = self._truth(places) - self._rows.basis[places] @ coef
        self._trees.grown[:] = 0.0
        for place, tree in enumerate(self._grower.boost(self._rows, residual, self.n_trees, BOOSTING_RATE)):
            self._trees.put(place, tree)
            coef[self._trees.leaves(place)] = BOOSTING_RATE * self._trees.coefficients(tree)

    def _refit_boosted(self) -> None:
        """Refit the boosted trees on the recent rows."""
        places = self._rows.places()
        if not self.n_trees or len(places) < LEAST_ROWS:
            return
        x, rng = self._units.standardised(self._rows.X[places]), np.random.default_rng([self.seed, self.n_rows_seen, 1])
        self._boosted.fit(x, self._truth(places), self._rows.weight[places], rng)

    def _replace_tree(self) -> None:
        """Regrow one tree with the others unchanged; accept it if its leave-one-out error is lower."""
        if self.n_rows_seen >= self._grower.end:
            self._grower.draw(self._rows, self._units, self.n_rows_seen)
        places, full, trees = self._grower.rows, self._models[-1], self._trees
        basis = self._rows.basis[places]
        residual = self._truth(places) - basis @ full.coef
        free = np.flatnonzero(trees.grown == 0.0)
        place = int(free[0]) if len(free) else self._next_tree
        self._next_tree = (place + 1) % self.n_trees
        own = trees.leaves(place)
        grown = self._grower.grow(self._rows, residual + basis[:, own] @ full.coef[own])
        if grown is None or not grown.error < BETTER * (self._rows.weight[places] @ residual**2):
            return
        trees.put(place, grown.tree)
        full.replace(own, REPLACING_RATE * trees.coefficients(grown.tree), NEW_VARIANCE)
        everywhere = self._rows.places()
        seen, _, reach = trees.forward(self._rows.Z[everywhere], place)
        self._rows.basis[everywhere, own] = trees.basis(seen, reach)

    # -- saving --------------------------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, Any]:
        linear, fast, full = self._models
        return {
            "n_rows_seen": self.n_rows_seen, "n_drifts": self.n_drifts, "next_build": self._next_build,
            "next_tree": self._next_tree, "range": self._range, "Q": self._Q, "encoder": self._encoder,
            "rows": self._rows, "units": self._units, "target": self._target, "trees": self._trees, "linear": linear,
            "fast": fast, "full": full, "boosted": self._boosted, "experts": self._experts, "drift": self._drift,
            "grower": self._grower, "cells": self._cells, "errors": self._errors, "latest": self._latest,
        }  # fmt: skip

    def get_state(self) -> dict[str, Any]:
        """The complete state as dicts and lists of plain values and arrays, copied from the model."""
        return {"params": {name: getattr(self, name) for name in _parameters()}, **pack(self._parts())}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OnlineSoftBoostRegressor:
        """Create a model from the result of :meth:`get_state`; it continues exactly as the original model."""
        state = dict(state)
        params = state.pop("params", None)
        if not isinstance(params, dict) or params.keys() != set(_parameters()):
            raise ValueError(f"state['params'] must have the entries {_parameters()}")
        check_size(params, state.get("rows"), _n_leaf_coefficients)
        model = cls(**params)
        unpack_encoder(model._encoder, state.get("encoder"))
        model._grow(len(model._encoder.slots) - len(model._Q))
        has_latest = "latest" in state
        for name in ("cells", "errors", "latest"):  # older states have none
            state.setdefault(name, pack({name: model._parts()[name]})[name])
        state["experts"] = of_present_form(state.get("experts"), N_BASES)
        state["units"], state["target"] = with_spread(state.get("units")), with_spread(state.get("target"))
        plain = unpack(model._parts(), state)
        check_range(plain["range"], plain["n_rows_seen"])
        model.n_rows_seen, model.n_drifts = plain["n_rows_seen"], plain["n_drifts"]
        model._next_build, model._next_tree = plain["next_build"], plain["next_tree"] % max(model.n_trees, 1)
        model._range, model._Q = plain["range"], plain["Q"]
        model._latest = plain["latest"] if has_latest else np.full(2, model._rows.y[model._rows.end - 1])
        model._boosted.predict(np.zeros(len(model._Q)))  # raises an error for invalid trees
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to a file; ``softboost.load`` reads it.

        Parameters
        ----------
        path : str or path-like
            The file to write; the usual extension is ``.softboost``.
        """
        save_model(self, path)


def _n_leaf_coefficients(n_trees: int, depth: int) -> int:
    return n_trees * 2**depth * (2**depth + N_EXTRA_COLUMNS)


def _target_of(y: Any) -> float:
    try:
        number = float(y)
    except (TypeError, ValueError):
        raise ValueError(f"y={y!r:.80} is not a number; skip such rows") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"y={number!r} is not a finite number; skip such rows")
    return min(max(number, -LARGEST), LARGEST)  # as for cells of x; squares stay finite


def _check_row(x: Any) -> None:
    if not isinstance(x, Mapping):
        raise ValueError(f"x must be a dict of features by name, got {type(x).__name__}; e.g. x={{'lag1': 0.5}}")


def _parameters() -> list[str]:
    return list(inspect.signature(OnlineSoftBoostRegressor).parameters)


def _from_file(fields: Fields) -> OnlineSoftBoostRegressor:
    try:
        return OnlineSoftBoostRegressor.from_state(fields.take("state", dict))
    except (ValueError, TypeError) as error:
        raise fields.error(str(error)) from None


register(OnlineSoftBoostRegressor, Codec(lambda model: {"state": model.get_state()}, _from_file), model=True)
