"""Cross-validates the candidates and stores their predictions of the validation rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from softboost._boost.watch import MAX_UNWATCHED_ROWS
from softboost._data.units import Units
from softboost.losses import Loss, SquaredError, weighted_mean

from .candidates import Candidate
from .fit import Fit, Start
from .rows import RowsKind
from .training import TrainingRows

__all__ = ["Judge", "Judged", "OutOfFold", "convex_weights"]

Array = NDArray[Any]
Fold = tuple[Array, Array]
ALL_FOLDS = slice(None)
RACED_FOLDS = 2
FAR_BEHIND = 2.0  # ratio of losses at which a candidate that is raced is given up
MORE_ROUNDS = 4  # factor of the rounds of the best candidate if its loss still falls at the end
STILL_FALLING = 0.95  # largest ratio of its loss at the end to the loss after three quarters of its rounds


@dataclass(eq=False)
class Judged:
    """Cross-validated predictions of one candidate at its selected stage, and their losses."""

    candidate: Candidate
    stage: int
    prediction: Array  # (n_outputs, n_judged)
    row_loss: Array  # (n_judged,)
    is_falling: bool = False  # whether the loss still falls clearly at the last stage

    def mean_loss(self, weight: Array | None) -> float:
        return weighted_mean(self.row_loss, weight)


class Judge:
    """Fits candidates on the training rows of each fold and predicts its validation rows.

    Parameters
    ----------
    X, y, weight
        Standardised rows: (n_features, n_samples), (n_outputs, n_samples), (n_samples,) or None.
    loss : Loss
    folds : sequence of pairs of arrays
        Training rows and validation rows.
    units : Units
    kind : RowsKind
    candidates : sequence of Candidate
        All competing candidates.
    fixed_rounds : bool
        Whether boosted candidates use all of their rounds.
    progress : callable
        Called with a description of each step.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        loss: Loss,
        folds: Sequence[Fold],
        units: Units,
        kind: RowsKind,
        candidates: Sequence[Candidate],
        *,
        fixed_rounds: bool = False,
        seed: int = 0,
        n_threads: int = 1,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.loss, self.fixed_rounds, self.progress = loss, fixed_rounds, progress
        self.candidates, self.kind = candidates, kind
        self._judged_once: dict[str, Judged | None] = {}
        self.weights: Array | None = None  # of the combination of all candidates, once they are known
        self._start_outputs: dict[tuple[Fit, str], Array] = {}  # of validation rows, by fold and start of a recipe
        self.n_workers = min(n_threads, len(folds))
        self._stopped = Event()
        self._must_watch = self.n_workers > 1 and y.shape[1] > MAX_UNWATCHED_ROWS
        inner = 1 if self.n_workers > 1 else n_threads

        def fit_on(train: Array) -> Fit:
            own = None if weight is None else np.ascontiguousarray(weight[train])
            rows = np.ascontiguousarray(X[:, train]), np.ascontiguousarray(y[:, train]), own
            return Fit(TrainingRows(*rows, units, loss, inner, kind), candidates, seed)

        self.fits = [fit_on(train) for train, _ in folds]
        self.X_judged = [np.ascontiguousarray(X[:, held]) for _, held in folds]
        self.rows = np.concatenate([held for _, held in folds])
        self.fold = np.repeat(np.arange(len(folds)), [len(held) for _, held in folds])
        self.y = np.ascontiguousarray(y[:, self.rows])
        self.weight = None if weight is None else weight[self.rows]

    @cached_property
    def linear(self) -> list[Judged]:
        """Cross-validate all linear candidates."""
        linear = [candidate for candidate in self.candidates if not candidate.is_boosted]

        def work(fit: Fit, X: Array) -> dict[str, Array]:
            seen, level = fit.rows.see(X), fit.rows.level(X)
            return {candidate.name: fit.linear[candidate.name].predict(seen) + level for candidate in linear}

        per_fold = self._over_folds(work)
        return [self._judged(c, np.concatenate([p[c.name] for p in per_fold], axis=2)) for c in linear]

    @cached_property
    def start(self) -> Start:
        """The best linear candidate, whose residuals some candidates boost; None if no linear model competes."""
        best = min(self.linear, key=lambda one: one.mean_loss(self.weight))
        return (best.candidate.name, best.stage) if len(self.linear) > 1 else None

    def boosted(self, candidate: Candidate) -> Judged | None:
        """Cross-validate a boosted candidate, once.

        A candidate that is raced is given up, and None, if its loss on the first two folds is more than twice that of
        the best candidate so far.
        """
        if candidate.name not in self._judged_once:
            self._judged_once[candidate.name] = self._judge_boosted(candidate)
        return self._judged_once[candidate.name]

    def all(self) -> list[Judged]:
        """Cross-validate all candidates; linear ones come first.

        In tables, the best candidate gets more rounds if its loss still falls at the end.
        """
        boosted = [self.boosted(candidate) for candidate in self.candidates if candidate.is_boosted]
        judged = self.linear + [one for one in boosted if one is not None]
        best = min(judged, key=lambda one: one.mean_loss(self.weight))
        if best.is_falling and self.kind.kind == "table" and len(self.fits) > 1 and not self.fixed_rounds:
            longer = best.candidate.with_recipe(n_estimators=MORE_ROUNDS * best.candidate.recipe.n_estimators)
            again = self._judge_boosted(longer)
            assert again is not None
            self._judged_once[longer.name] = replace(again, is_falling=False)
            return self.all()
        return judged

    def best_scout(self) -> Judged:
        """The best of the candidates by which levels and changes are compared."""
        boosted = [self.boosted(candidate) for candidate in self.candidates if candidate.is_boosted and candidate.scout]
        scouts = [one for one in [*self.linear, *boosted] if one is not None and one.candidate.scout]
        return min(scouts, key=lambda one: one.mean_loss(self.weight))

    def _judge_boosted(self, candidate: Candidate) -> Judged | None:
        self.progress(f"judging {candidate.name}")
        n_rounds, start = candidate.recipe.n_estimators, self.start
        watch = {"after_round": lambda model: self._stopped.is_set()} if self._must_watch else {}

        def work(fit: Fit, X: Array) -> Array:
            first, model = fit.boost(candidate, start, **watch)
            seen, key = fit.rows.see(X), (fit, candidate.recipe.start)
            if key not in self._start_outputs:
                self._start_outputs[key] = first.predict(seen) + fit.rows.level(X)
            begin = self._start_outputs[key]
            if not model.rounds:
                return np.repeat(begin, n_rounds + 1, axis=0)
            staged = begin + model.outputs(seen, fit.rows.n_threads).cumsum(axis=0)
            after_last = [staged[-1:]] * (n_rounds - len(staged))
            return np.concatenate([begin, staged, *after_last])

        n_raced = RACED_FOLDS if candidate.raced and len(self.fits) > RACED_FOLDS else 0
        first = self._over_folds(work, slice(n_raced))
        if n_raced and self._is_far_behind(np.concatenate(first, axis=2)):
            return None
        staged = np.concatenate(first + self._over_folds(work, slice(n_raced, None)), axis=2)
        return self._judged(candidate, staged, slice(n_rounds, None) if self.fixed_rounds else slice(None))

    def _is_far_behind(self, staged: Array) -> bool:
        """Whether no stage comes near the best candidate so far on the first rows."""
        n = staged.shape[2]
        weight = None if self.weight is None else self.weight[:n]
        own = self.loss.loss(self.y[None, :, :n], staged).mean(axis=1)
        known = [*self.linear, *[one for one in self._judged_once.values() if one is not None]]
        best = min(float(np.average(one.row_loss[:n], weights=weight)) for one in known)
        return float(np.average(own, axis=1, weights=weight).min()) > FAR_BEHIND * best

    def _over_folds(self, work: Callable[[Fit, Array], Any], folds: slice = ALL_FOLDS) -> list[Any]:
        fits, X_judged = self.fits[folds], self.X_judged[folds]
        if self.n_workers == 1:
            return [work(fit, X) for fit, X in zip(fits, X_judged, strict=True)]
        with ThreadPoolExecutor(self.n_workers) as pool:
            try:
                return list(pool.map(work, fits, X_judged))
            except BaseException:
                self._stopped.set()  # only this thread receives Ctrl-C; the others end after their round
                pool.shutdown(cancel_futures=True)
                raise

    def _judged(self, candidate: Candidate, staged: Array, allowed: slice = slice(None)) -> Judged:
        """Select the stage with the lowest pooled loss; see :func:`best_stage` for equal ones."""
        row_loss = self.loss.loss(self.y[None], staged).mean(axis=1)  # (n_stages, n_judged)
        pooled = np.average(row_loss, axis=1, weights=self.weight)
        first = range(len(pooled))[allowed][0]
        pooled = pooled[allowed]
        stage = first + best_stage(pooled, in_steps=not candidate.is_boosted)
        last = len(pooled) - 1
        is_falling = candidate.is_boosted and last >= 4 and pooled[last] < STILL_FALLING * pooled[3 * last // 4]
        # views would keep all stages
        return Judged(candidate, stage, staged[stage].copy(), row_loss[stage].copy(), bool(is_falling))


def best_stage(pooled: Array, *, in_steps: bool) -> int:
    """The stage of the lowest loss; among equal ones the first, which is the simplest.

    Paths of selected columns change ``in_steps``. A column enters a little earlier or later on all rows than in the
    folds, so the middle of the stages of equal loss is used: all of them are the same model in every fold.
    """
    equal = pooled <= pooled.min() + 1e-9 * abs(pooled.min())
    first = int(np.argmax(equal))
    if not in_steps:
        return first
    n_equal = int(np.argmin(np.append(equal[first:], False)))
    return first + (n_equal - 1) // 2


class OutOfFold:
    """Cross-validated predictions as evidence for :mod:`softboost._choice.ladder`.

    Parameters
    ----------
    predictions : ndarray of shape (n_candidates, n_outputs, n_judged)
    y : ndarray of shape (n_outputs, n_judged)
    weight : ndarray of shape (n_judged,) or None
    loss : Loss
    fold : ndarray of shape (n_judged,) or None
        Fold of each row; None: all rows are in one fold.
    evenness : float, default=0.0
        How much weights are shrunk towards equal ones; see :func:`convex_weights`.
    """

    def __init__(
        self,
        predictions: Array,
        y: Array,
        weight: Array | None,
        loss: Loss,
        fold: Array | None = None,
        evenness: float = 0.0,
    ) -> None:
        self.predictions, self.y, self.weight = np.ascontiguousarray(predictions), y, weight
        self.loss, self.evenness = loss, evenness
        self.fold = np.zeros(y.shape[1], dtype=int) if fold is None else fold

    def without(self, folds: Collection[int]) -> OutOfFold:
        """The evidence of the rows of all other folds."""
        kept = np.ones(len(self.fold), dtype=bool)
        for k in folds:
            kept &= self.fold != k
        weight = None if self.weight is None else self.weight[kept]
        rows = self.predictions[:, :, kept], self.y[:, kept], weight
        return OutOfFold(*rows, self.loss, self.fold[kept], self.evenness)

    def combined(self, mixture: Array) -> Array:
        """Predictions of a mixture, shape (n_outputs, n_judged)."""
        return (mixture @ self.predictions.reshape(len(mixture), -1)).reshape(self.y.shape)

    def losses(self, mixture: Array) -> Array:
        """Losses of a mixture, shape (n_judged,)."""
        return self.loss.loss(self.y, self.combined(mixture)).mean(axis=0)

    def best_mixture(self, places: Array) -> Array:
        """The mixture of the candidates at these positions with the lowest loss."""
        mixture = np.zeros(len(self.predictions))
        own = self.predictions[places]
        mixture[places] = 1.0
        if len(places) > 1:
            mixture[places] = convex_weights(own, self.y, self.weight, self.loss, self.evenness)
        return mixture


def convex_weights(predictions: Array, y: Array, weight: Array | None, loss: Loss, evenness: float = 0.0) -> Array:
    """Non-negative weights that sum to one and minimise the loss; predictions (n_candidates, n_outputs, n_judged).

    For the squared error, the sum of squared errors is increased by the squared distance of the weights from equal
    ones, times ``evenness`` and the mean squared error of the best candidate. Candidates whose predictions hardly
    differ then share their weight; on few rows, the best of them is best by chance.
    """
    n = len(predictions)
    root = None if weight is None else np.sqrt(weight)
    total = float(y.shape[1]) if root is None else float((root**2).sum())
    if isinstance(loss, SquaredError):
        own = (predictions if root is None else predictions * root).reshape(n, -1)
        target = (y if root is None else y * root).ravel()
        n_own = len(target)
        n_rows = n_own + n if evenness > 0 else n_own
        A, b = np.zeros((n_rows + 1, n)), np.empty(n_rows + 1)
        A[:n_own], b[:n_own] = own.T, target
        if evenness > 0:
            least = ((own - target) ** 2).sum(axis=1).min() / total
            pull = np.sqrt(evenness * least)
            A[np.arange(n_own, n_rows), np.arange(n)], b[n_own:n_rows] = pull, pull / n
        size = max(math.sqrt((A[:n_rows] ** 2).sum()), math.sqrt(b[:n_rows] @ b[:n_rows]), 1e-30)
        A[n_rows] = b[n_rows] = 1e3 * size  # enforces a sum of one
        w, _ = nnls(A, b)
        return w / w.sum()
    flat = predictions.reshape(n, -1)
    w, rate, largest = np.full(n, 1.0 / n), 1.0, np.abs(flat).max(axis=0)
    visited = []
    for _ in range(300):  # exponentiated gradient descent stays on the simplex
        visited.append(w)
        slope = loss.gradient(y, (w @ flat).reshape(y.shape))
        slope = (slope if weight is None else slope * weight).ravel()
        gradient = flat @ slope / total
        size = float(np.abs(gradient - gradient @ w).max())
        if size <= 1e-9 * float(largest @ np.abs(slope)) / total:  # rounding
            break
        w = w * np.exp(-rate * (gradient - gradient.min()) / size)
        w /= w.sum()
        rate *= 0.985
    tried = np.stack(visited)
    values = loss.loss(y[:, None], (tried @ flat).reshape(len(tried), *y.shape).swapaxes(0, 1)).mean(axis=0)
    return tried[np.argmin(np.average(values, axis=1, weights=weight))]
