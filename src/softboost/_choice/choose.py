"""Model selection: candidates are cross-validated, combined by evidence, and fitted on all rows.

1. :mod:`~softboost._choice.rows` recognises the kind of rows and whether levels or changes are modelled. If that is not
   clear, a few cheap candidates are cross-validated in both views, and the better view is used.
2. :mod:`~softboost._choice.candidates` is the table of candidates; :mod:`~softboost._choice.given` applies the
   parameters that the user has set.
3. :mod:`~softboost._choice.judge` fits each candidate on the training rows of each fold
   (:mod:`~softboost._choice.fit`) and selects its stage, a penalty or a number of rounds, by the validation loss.
4. :mod:`~softboost._choice.ladder` determines the weights: a richer level must be better than a simpler one by more
   than the noise of the comparison.
5. Candidates of positive weight are fitted on all rows.

Only the assignment of rows to folds can be random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.alternating import is_clear
from softboost._data.folds import Folds
from softboost._data.outliers import TARGET_REACH, tails_of
from softboost._data.units import Units
from softboost._model.intervals import Validated
from softboost._model.member import Member
from softboost.losses import AbsoluteError, Huber, LogCosh, Loss, Quantile, SquaredError

from .candidates import Candidate, about
from .columns import Needed
from .fit import Fit, Start
from .judge import Judge, Judged, OutOfFold
from .ladder import climb, climb_without_pairs, ladder_of
from .rows import RowsKind
from .training import TrainingRows

__all__ = ["Choice", "choose"]

Array = NDArray[Any]
MAX_PASSES = 3  # over the residuals, each of which may show outliers that larger ones have hidden
BOUNDED = (AbsoluteError, Huber, LogCosh, Quantile)  # losses of bounded gradient: how far an outlier is hardly matters
HARMFUL = 0.75  # ratio of the losses of other rows that a suspect row must reach if it is moved closer
EXPLAINED = 1 / 3  # share of the distance of an outlier that must be predicted to keep its value
EVENNESS = 5.0  # of the weights in tables; in units of validation rows
LEAST_GAIN = 0.005  # relative gain of the loss below which the view stays as it is


@dataclass
class Choice:
    """The result of the model selection, stored on the fitted model as ``choice_``.

    Attributes
    ----------
    weights : dict of str to float
        Ensemble weights of the candidates in the final model; zero weights are omitted.
    stages : dict of str to int
        Selected stage of each candidate: the number of rounds, or the index of the penalty.
    losses : dict of str to float
        Cross-validated loss of each candidate at its stage (mean over validation rows, for standardised y).
    loss : float
        Cross-validated loss of the ensemble.
    n_folds, n_judged : int
        Number of folds and of validation rows.
    """

    weights: dict[str, float] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    loss: float = float("nan")
    n_folds: int = 0
    n_judged: int = 0

    def describe(self) -> str:
        """Describe the selected candidates in one line, largest weight first."""
        text = ", ".join(f"{100 * self.weights[n]:.0f}% {n} (stage {self.stages[n]})" for n in self._by_weight())
        return f"chose {text}; judged on {self.n_judged} rows in {self.n_folds} folds"

    def explain(self) -> str:
        """Explain each name in :meth:`describe` in one line."""
        return "\n".join(f"{name}: {text}" for name in self._by_weight() if (text := about(name)) is not None)

    def _by_weight(self) -> list[str]:
        return sorted(self.weights, key=lambda name: -self.weights[name])


def choose(
    X: Array,
    y: Array,
    weight: Array | None,
    loss: Loss,
    candidates: Sequence[Candidate],
    folds: Folds,
    units: Units,
    kind: RowsKind,
    *,
    true_y: Array | None = None,
    suspect: Array | None = None,
    fixed_rounds: bool = False,
    seed: int = 0,
    n_threads: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[Member], Choice, Validated]:
    """Judge all candidates that apply to rows of this kind, combine them, and fit those that count on all rows.

    ``true_y`` are the targets before outliers were moved; cells of columns were moved in the rows that are ``suspect``.
    Also returns the cross-validated predictions of the combination.
    """

    def judge_of(kind: RowsKind, forward: bool, candidates: Sequence[Candidate], y: Array = y) -> Judge:
        applying = [candidate for candidate in candidates if candidate.applies(kind)]
        return Judge(
            X, y, weight, loss, folds.in_order(forward), units, kind, applying,
            fixed_rounds=fixed_rounds, seed=seed, n_threads=n_threads, progress=progress,
        )  # fmt: skip

    true_y = y if true_y is None else true_y
    judge = judge_of(kind, kind.forward, candidates)
    if kind.rival is not None and kind.is_series:
        rival = judge_of(kind.rival, kind.forward, [candidate for candidate in candidates if candidate.scout])
        if is_better(rival.best_scout(), judge.best_scout(), judge.weight):  # on the same folds
            judge = judge_of(kind.rival, kind.rival.forward, candidates)
    elif kind.rival is not None:  # candidates that model no changes, such as deep trees, may be why levels are better
        rival = judge_of(kind.rival, False, candidates)
        if combined_loss(rival) < (1 - LEAST_GAIN) * combined_loss(judge):
            judge = rival
    kind = judge.kind
    if kind.kind == "table" and loss.scales_with_y and not isinstance(loss, BOUNDED):
        for _ in range(MAX_PASSES):
            tamed = _tamed(judge, y)
            if tamed is y:
                break
            y = tamed
            judge = judge_of(kind, kind.forward, candidates, y)
        restored = _with_explained(judge, y, true_y)
        if restored is not y:
            rival = judge_of(kind, kind.forward, candidates, restored)
            kept = (restored == true_y)[:, judge.rows]
            if combined_loss(rival, restored, kept) < combined_loss(judge, restored, kept):
                judge, y = rival, restored
        suspect = np.any(y != true_y, axis=0) | (np.zeros(y.shape[1], dtype=bool) if suspect is None else suspect)
        calmer = np.where(suspect, _tamed(judge, y, _combined(judge)), y) if suspect.any() else y
        if np.any(calmer != y):
            rival = judge_of(kind, kind.forward, candidates, calmer)
            kept = (calmer == y)[:, judge.rows]
            if combined_loss(rival, y, kept) < HARMFUL * combined_loss(judge, y, kept):
                judge, y = rival, calmer
    judged = judge.all()
    weights = _weights(judge)
    fit = Fit(TrainingRows(X, y, weight, units, loss, n_threads, kind), judge.candidates, seed)
    members = []
    used = [one.candidate.columns for one, w in zip(judged, weights, strict=True) if w > 0]
    needed = {columns.of for columns in used if isinstance(columns, Needed)}
    for one, w in zip(judged, weights, strict=True):
        if w > 0:
            progress(f"fitting {one.candidate.name_in(kind)} on all rows")
            members.append(_member(fit, one, float(w), judge.start, all_rounds=one.candidate.name in needed))
    combined = sum(w * one.prediction for w, one in zip(weights, judged, strict=True))
    names = [one.candidate.name_in(kind) for one in judged]
    choice = Choice(
        weights={member.name: member.weight for member in members},
        stages={name: one.stage for name, one in zip(names, judged, strict=True)},
        losses={name: one.mean_loss(judge.weight) for name, one in zip(names, judged, strict=True)},
        loss=float(np.average(loss.loss(judge.y, combined).mean(axis=0), weights=judge.weight)),
        n_folds=len(judge.fits),
        n_judged=judge.y.shape[1],
    )
    return members, choice, Validated(judge.rows, judge.fold, np.asarray(combined))


def _weights(judge: Judge) -> Array:
    """The ensemble weights of all candidates, which are computed once."""
    if judge.weights is None:
        judge.weights = _climbed(judge)
    return judge.weights


def _climbed(judge: Judge) -> Array:
    judged, kind, loss = judge.all(), judge.kind, judge.loss
    levels = [one.candidate.level for one in judged]
    predictions = np.stack([one.prediction for one in judged])
    # neighbouring folds of a series differ, and the weights under other losses take much longer
    by_pairs = kind.kind == "table" and isinstance(loss, SquaredError)
    evenness = EVENNESS if by_pairs else 0.0
    evidence = OutOfFold(predictions, judge.y, judge.weight, loss, judge.fold, evenness)
    return (climb_without_pairs if by_pairs else climb)(ladder_of(kind.kind, levels), levels, evidence)


def _combined(judge: Judge) -> Array:
    """Cross-validated predictions of the combination of all candidates."""
    return np.asarray(sum(w * one.prediction for w, one in zip(_weights(judge), judge.all(), strict=True)))


def combined_loss(judge: Judge, y: Array | None = None, kept: Array | None = None) -> float:
    """The validation loss of the combination of all candidates; on targets y, of the values that are kept."""
    y = judge.y if y is None else y[:, judge.rows]
    loss = judge.loss.loss(y, _combined(judge))
    loss = loss if kept is None else np.where(kept, loss, 0.0)
    return float(np.average(loss.mean(axis=0), weights=judge.weight))


def _tamed(judge: Judge, y: Array, prediction: Array | None = None) -> Array:
    """y with outliers moved closer, or y itself if there are none.

    Outliers are cross-validated residuals that stand apart: of the best linear candidate, or of a ``prediction``.
    """
    if prediction is None:
        prediction = min(judge.linear, key=lambda one: one.mean_loss(judge.weight)).prediction
    residual = (judge.y - prediction).T
    clipped = tails_of(residual, judge.weight, reach=TARGET_REACH).clipped(residual)
    if clipped is residual:
        return y
    y = y.copy()
    moved = (clipped != residual).T
    for o in range(len(y)):
        y[o, judge.rows[moved[o]]] = (prediction + clipped.T)[o, moved[o]]
    return y


def _with_explained(judge: Judge, y: Array, true_y: Array) -> Array:
    """y with outliers restored that the combination of all candidates predicts, or y itself if there are none.

    An outlier is far from the mean, or from the prediction of the best linear candidate. It is explained if the
    combination, which has not seen it, covers a third of that distance.
    """
    if not np.any(y != true_y):
        return y
    best = min(judge.linear, key=lambda one: one.mean_loss(judge.weight))
    true = true_y[:, judge.rows]
    with np.errstate(over="ignore"):
        away = np.maximum(np.abs(true), np.abs(true - best.prediction))
        explained = (true != judge.y) & (np.abs(true - _combined(judge)) < (1 - EXPLAINED) * away)
    if not explained.any():
        return y
    y = y.copy()
    for o in range(len(y)):
        y[o, judge.rows[explained[o]]] = true[o, explained[o]]
    return y


def is_better(rival: Judged, other: Judged, weight: Array | None) -> bool:
    """Whether the rival view has a lower validation loss, by more than a negligible amount and its standard error.

    Rows of the future may leave the range of the validation rows. Changes follow them there, and levels may not, so
    chance alone must not decide for levels.
    """
    gain = other.row_loss - rival.row_loss
    weight = np.ones(len(gain)) if weight is None else weight
    return rival.mean_loss(weight) < (1 - LEAST_GAIN) * other.mean_loss(weight) and is_clear(gain, weight, 1.0)


def _member(fit: Fit, judged: Judged, weight: float, start: Start, *, all_rounds: bool) -> Member:
    """A candidate at its stage, fitted on all rows.

    With ``all_rounds``, those after its stage are fitted too, because the columns of another member depend on them.
    """
    candidate, stage, anchor = judged.candidate, judged.stage, fit.rows.anchor
    name = candidate.name_in(fit.rows.kind)
    if not candidate.is_boosted:
        return Member(name, weight, stage, fit.linear[candidate.name].stage(stage), None, anchor)
    at_stage = candidate.with_recipe(n_estimators=stage)
    first, model = fit.boost(candidate if all_rounds else at_stage, start)
    return Member(name, weight, stage, first, replace(model.first(stage), recipe=at_stage.recipe), anchor)
