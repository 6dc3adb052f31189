"""The state of ``partial_fit`` between calls: the most recent rows and a correction by recursive least squares.

The correction is linear in the columns and in the leaves of the most important trees; gates and Q are unchanged. Both
parts are bounded, so the model does not grow with the number of calls. When ``due``, the model is refitted to the
stored rows. If these are all rows so far, the refitted model replaces the old one. If the old model was fitted to other
rows too, or to rows before a drift, it is replaced only if the refitted model predicts better.

Only ``MAX_ROWS`` counts rows, because it limits the memory; once it is reached, rows that follow an equal row become
part of its weight. All other numbers of rows are sums of weights, and a row of weight 2 is learned in two steps, so
that it is equivalent to two rows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.boosting import Boosted, Recipe
from softboost._boost.greedy import GreedyTrees
from softboost._boost.soft_tree import SoftTree
from softboost._data.checks import LARGEST
from softboost._data.repeated import runs_of_rows
from softboost._linear.path import LinearPath
from softboost._linear.recursive import (
    FORGET_EVERY,
    FORGETTING,
    INTERCEPT_PRIOR,
    LEAF_PRIOR,
    LINEAR_PRIOR,
    RecursiveLeastSquares,
)
from softboost.losses import Loss, weighted_quantile

from .drift import DRIFT_INFLATION, DRIFT_ROWS, GROWTH, DriftTest
from .ensemble import Ensemble
from .member import Member

__all__ = ["CORRECTION", "Basis", "Recent"]

Array = NDArray[Any]
CORRECTION = "new rows"  # name of the member that holds the correction
MAX_ROWS = 2000
MAX_LEAVES, MAX_COLUMNS = 128, 128
MAX_STEPS = 32  # steps in which a row of large weight is learned
N_STAND_INS = 256  # random rows that replace the rows of a fit, which are not stored
LEAST_KNOWN = 30  # losses needed to estimate the typical loss
LEAST_ROWS = 60  # rows needed for a refit that must predict better
TALLEST = 4.0  # curvatures are clipped at this multiple of the typical one (kinks)


@dataclass
class Basis:
    """Basis functions of the correction: leaves of trees, a constant, and columns."""

    trees: list[SoftTree]
    columns: Array

    @classmethod
    def of(cls, ensemble: Ensemble) -> Basis:
        """The most important trees and, if there are many, the most important columns of a model."""
        strength = [_strength(tree) for tree in ensemble.trees]
        trees: list[SoftTree] = []
        n_outputs, n_leaves = len(ensemble.intercept), 0
        for k in np.argsort([-s for s in strength], kind="stable"):
            tree = ensemble.trees[k]
            n_leaves += 2**tree.depth
            if n_leaves > MAX_LEAVES:
                break
            leaves = np.zeros((2**tree.depth, n_outputs))
            gates = tree.gate_weights.astype(np.float64), tree.gate_bias.astype(np.float64)
            trees.append(SoftTree(tree.depth, tree.columns, *gates, leaves))
        n_columns = len(ensemble.units.centre)
        order = np.arange(n_columns)
        if n_columns > MAX_COLUMNS:
            order = np.sort(np.argsort(-ensemble.column_importances(), kind="stable")[:MAX_COLUMNS])
        return cls(trees, order.astype(np.int64))

    @property
    def n_leaves(self) -> int:
        return sum(2**tree.depth for tree in self.trees)

    def prior(self) -> Array:
        """Prior variance of each coefficient."""
        sizes = (self.n_leaves, 1, len(self.columns))
        return np.repeat([LEAF_PRIOR, INTERCEPT_PRIOR, LINEAR_PRIOR], sizes)

    def at(self, X: Array) -> Array:
        """Values at standardised X (n_columns, n_samples): shape (n_samples, n_basis)."""
        X = X.astype(np.float64)
        parts = [tree.leaf_basis(X) for tree in self.trees]
        return np.ascontiguousarray(np.vstack([*parts, np.ones((1, X.shape[1])), X[self.columns]]).T)

    def member(self, coef: Array, n_columns: int) -> Member:
        """The linear combination with coefficients coef (n_basis, n_outputs), as a member of the model."""
        rounds: list[tuple[Array | None, SoftTree]] = []
        end = 0
        for tree in self.trees:
            rounds.append((None, tree.with_leaves(coef[end : end + 2**tree.depth])))
            end += 2**tree.depth
        slopes = np.zeros((1, coef.shape[1], n_columns))
        slopes[0][:, self.columns] = coef[end + 1 :].T
        recipe = Recipe(CORRECTION, GreedyTrees(), None, len(rounds), 1.0, "zero")
        boosted = Boosted(recipe, np.arange(n_columns, dtype=np.int32), 1.0, rounds)
        return Member(CORRECTION, 1.0, len(rounds), LinearPath(slopes, coef[None, end]), boosted)


def _unit_steps(weight: Array) -> tuple[Array, Array]:
    """Steps of weight at most one in which rows are learned: the row and the weight of each step."""
    n = np.clip(np.ceil(weight - 1e-9), 1, MAX_STEPS).astype(int)
    return np.repeat(np.arange(len(weight)), n), np.repeat(weight / n, n)


def _strength(tree: SoftTree) -> float:
    slopes = 0.0 if tree.leaf_weights is None else float(np.abs(tree.leaf_weights).mean(axis=0).sum())
    return float(np.std(tree.leaf_values, axis=0).sum()) + slopes


@dataclass
class Recent:
    """The most recent rows and the correction learned from them.

    Attributes
    ----------
    X, y, weight : ndarray of shape (n_rows, n_columns), (n_rows, n_outputs), (n_rows,)
        At most ``MAX_ROWS`` encoded rows in original units, oldest first.
    loss : ndarray of shape (n_rows,)
        Loss of each row before it was learned; NaN for rows that the model was fitted to.
    doubted : bool
        Whether a refit must predict better to replace the model, because the model was fitted to other rows too.
    next_fit : int
        Sum of weights at which the next refit is due.
    """

    X: Array
    y: Array
    weight: Array
    loss: Array
    doubted: bool
    next_fit: int = 0
    n_updates: int = 0
    basis: Basis | None = None
    models: list[RecursiveLeastSquares] = field(default_factory=list)  # one per output
    curvature: Array = field(default_factory=lambda: np.zeros(0))  # typical curvature of each output
    drift: DriftTest = field(default_factory=DriftTest)

    @classmethod
    def start(cls, X: Array, y: Array, weight: Array | None, *, is_series: bool = False) -> Recent:
        """Start with the rows that a model was fitted to, or with no rows for an existing model.

        ``is_series`` as in :meth:`take`.
        """
        weight = np.ones(len(y)) if weight is None else weight
        recent = cls(X, y.astype(np.float64), weight.astype(np.float64), np.full(len(y), np.nan), doubted=not len(y))
        recent.doubted |= recent._limit(is_series)
        recent.X = recent.X.copy()
        recent.postpone()
        return recent

    def copied(self) -> Recent:
        return copy.deepcopy(self)

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def total(self) -> float:
        """Sum of the weights of the stored rows."""
        return float(self.weight.sum())

    def fitted(self) -> None:
        """Reset the correction after the model was refitted to the stored rows."""
        self.basis, self.models, self.doubted = None, [], False
        self.postpone()

    def postpone(self) -> None:
        """Schedule the next refit, after a refit or after one that was not better than the model."""
        n = self.total
        # if the buffer is full, rows that leave it lower next_fit, so a fifth of the rows is new at the next refit
        self._refit_at(max(np.ceil(n * GROWTH), n + 1, LEAST_ROWS if self.doubted else 0))

    def _refit_at(self, total: float) -> None:
        self.next_fit = int(min(max(total, 0.0), 2.0**53))

    def take(self, X: Array, y: Array, weight: Array | None, loss: Array, *, is_series: bool = False) -> None:
        """Store new encoded rows in original units, with the loss of their predictions.

        If the losses indicate a drift, the rows before it are dropped. Equal rows of a series, which is in time order,
        are not merged.
        """
        known = ~np.isnan(self.loss)
        enough = self.weight[known].sum() >= LEAST_KNOWN
        typical = max(weighted_quantile(self.loss[known], self.weight[known], 0.5), 1e-300) if enough else np.inf
        weight = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        before = self.total + float(weight.sum())
        for name, new in (("X", X), ("y", y), ("weight", weight), ("loss", loss)):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, new.astype(old.dtype)]))
        self._limit(is_series)
        self._refit_at(self.next_fit - (before - self.total))
        rows, steps = _unit_steps(weight)
        later = np.append(np.cumsum(steps[::-1])[::-1][1:], 0.0)
        for i, error in enumerate(np.sqrt(np.clip(loss[rows] / typical, 0.0, LARGEST))):
            if typical < np.inf and self.drift.update(error):
                self._forget(DRIFT_INFLATION)
                self._cut(DRIFT_ROWS + later[i])

    def _limit(self, is_series: bool) -> bool:
        """Merge equal neighbours if rows exceed ``MAX_ROWS``, and keep the last ones; whether any were dropped."""
        if self.n_rows > MAX_ROWS and not is_series:
            run = runs_of_rows(self.y.T, np.isnan(self.loss)[None], self.X.T)
            first = np.flatnonzero(np.diff(run, prepend=-1))
            if len(first) < len(run):
                total = np.bincount(run, self.weight)
                self.loss = np.bincount(run, self.weight * self.loss) / total
                self.X, self.y, self.weight = self.X[first], self.y[first], total
        lost = self.n_rows > MAX_ROWS
        for name in ("X", "y", "weight", "loss"):
            setattr(self, name, getattr(self, name)[-MAX_ROWS:])
        return lost

    def _cut(self, total: float) -> None:
        """Drop all rows but the last ones with this sum of weights, because earlier rows precede a drift."""
        self.weight = np.clip(total - (np.cumsum(self.weight[::-1])[::-1] - self.weight), 0.0, self.weight)
        kept = self.weight > 1e-9
        for name in ("X", "y", "weight", "loss"):
            setattr(self, name, getattr(self, name)[kept])
        self.doubted = True
        self._refit_at(max(LEAST_ROWS, self.total))

    def split(self) -> tuple[Array, Array]:
        """Weights of the stored rows as training rows, and as validation rows, the last quarter."""
        held = self.total // 4
        last = np.clip(held - (np.cumsum(self.weight[::-1])[::-1] - self.weight), 0.0, self.weight)
        return self.weight - last, last

    @property
    def due(self) -> bool:
        """Whether the model should be refitted to the stored rows."""
        return self.total >= self.next_fit

    # -- the correction ------------------------------------------------------------------------------------------------

    def begin(self, ensemble: Ensemble, X: Array) -> None:
        """Select the basis; ``X`` (n_columns, n_samples) holds the standardised rows that the model was fitted to.

        The coefficients start at zero with the covariance that these rows imply. If the rows are not available,
        standard normal rows replace them, because columns are standardised.
        """
        self.basis = Basis.of(ensemble)
        if not X.shape[1]:
            X = np.random.default_rng(0).normal(size=(len(X), N_STAND_INS))
        values, prior = self.basis.at(X), self.basis.prior()
        rows, weight = _unit_steps(self.weight if len(self.weight) else np.ones(len(values)))
        model = RecursiveLeastSquares(prior, FORGETTING)
        model.solve(values[rows], np.zeros(len(rows)), weight)
        self.models = [copy.deepcopy(model) for _ in ensemble.intercept]
        self.curvature = np.zeros(len(self.models))

    def learn(self, X: Array, y: Array, raw: Array, weight: Array | None, loss: Loss) -> None:
        """Update by recursive least squares, row by row; for losses other than the squared error, by Newton steps.

        X (n_columns, n_samples), y and the raw predictions of the model (n_outputs, n_samples) are standardised.
        """
        assert self.basis is not None
        X, y, raw = X[:, -MAX_ROWS:], y[:, -MAX_ROWS:].astype(np.float64), raw[:, -MAX_ROWS:].astype(np.float64)
        rows, weight = _unit_steps(np.ones(y.shape[1]) if weight is None else weight[-MAX_ROWS:].astype(np.float64))
        values, y, raw = self.basis.at(X)[rows], y[:, rows], raw[:, rows]
        self._follow_curvature(loss.curvature(y, raw))
        before = self.coef()
        for i, row in enumerate(values):
            truth, now = y[:, i], raw[:, i] + (self.coef() - before) @ row
            gradient, curvature = loss.gradient(truth, now), loss.curvature(truth, now)
            for o, model in enumerate(self.models):
                share = min(float(curvature[o]) / self.curvature[o], TALLEST)
                model.update(row, -float(gradient[o]) / max(float(curvature[o]), 1e-300), max(weight[i] * share, 1e-9))
            self.n_updates += 1
            if self.n_updates % FORGET_EVERY == 0:
                self._forget(FORGETTING**-FORGET_EVERY)

    def _follow_curvature(self, curvature: Array) -> None:
        typical = np.maximum(np.median(curvature, axis=1), 1e-12)
        old = self.curvature
        self.curvature = np.where(old > 0, old + 0.05 * (typical - old), typical)

    def coef(self) -> Array:
        """Coefficients of the correction, shape (n_outputs, n_basis)."""
        return np.array([model.coef for model in self.models])

    def _forget(self, factor: float) -> None:
        for model in self.models:
            model.forget(factor)

    def member(self) -> Member:
        """The correction as a member of the model."""
        assert self.basis is not None
        return self.basis.member(self.coef().T, self.X.shape[1])
