"""The fitted model: the complete result of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.columns import Columns
from softboost._data.task import Task
from softboost._data.units import Units
from softboost.losses import Loss

from .bounds import column_reach, limited_units, prediction_bounds
from .ensemble import Ensemble
from .intervals import Intervals
from .member import Member
from .partial_fit import CORRECTION, Recent

__all__ = ["FittedModel"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit, for prediction, model files and ``partial_fit``. A fit replaces it as a whole.

    Attributes
    ----------
    n_features_in : int
        Number of columns of X.
    columns, units : Columns, Units
        Encoder of X, and standardisation of the encoded columns and y.
    loss, train_loss : Loss
        The loss in the units of y, and the equivalent loss for standardised y.
    members : list of Member
    choice : Choice or None
        Result of the model selection; None for plain fits.
    evals_result : dict
    y_ndim : int
        Number of dimensions of y in fit, 1 or 2.
    raw_bounds : tuple of ndarray, each of shape (n_outputs,)
        Lower and upper bounds of raw predictions; relative to the anchor for anchored models.
    feature_names_in : ndarray or None
    recent : Recent or None
        State of ``partial_fit``.
    intervals : Intervals or None
        Distribution of errors; None for plain fits that were not calibrated, and in older files.
    """

    n_features_in: int
    columns: Columns
    units: Units
    loss: Loss
    train_loss: Loss
    members: list[Member]
    choice: Any  # a Choice; its class is in a higher layer
    evals_result: dict[str, list[float]]
    y_ndim: int
    raw_bounds: tuple[Array, Array]
    feature_names_in: Array | None = None
    recent: Recent | None = None
    intervals: Intervals | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        members: list[Member],
        choice: Any = None,
        evals_result: dict[str, list[float]] | None = None,
        bounds_before: tuple[Array, Array] | None = None,
        *,
        in_time_order: bool = False,
    ) -> FittedModel:
        """The model with these members, fitted to the rows of the task; ``bounds_before`` are those of earlier rows."""
        anchor = anchor_column(members)
        # only a model from model selection clips columns, and only if it is not anchored
        units = task.units
        if choice is not None and anchor is None:
            units = limited_units(task, column_reach(choice.loss, choice.losses.get("constant")))
        return cls(
            n_features_in=task.columns.n_features,
            columns=task.columns,
            units=units,
            loss=task.loss,
            train_loss=task.train_loss,
            members=members,
            choice=choice,
            evals_result={} if evals_result is None else evals_result,
            y_ndim=task.y_ndim,
            raw_bounds=prediction_bounds(task, anchor, bounds_before, in_time_order=in_time_order),
            feature_names_in=task.feature_names,
        )

    @cached_property
    def ensemble(self) -> Ensemble:
        """The members in the layout for prediction."""
        return Ensemble.build(self.members, self.units)

    @property
    def n_outputs(self) -> int:
        return len(self.units.y_spread)

    @property
    def n_estimators(self) -> int:
        """Number of rounds of the longest member."""
        return self.ensemble.n_rounds

    @property
    def anchor_column(self) -> int | None:
        """The encoded column that is the anchor of the members; None if they are not anchored."""
        return anchor_column(self.members)

    # -- prediction ------------------------------------------------------------------------------------------------

    def predict(self, encoded: Array, n_threads: int) -> Array:
        """Predictions at encoded rows."""
        return self._finished(self.ensemble.raw_prediction(encoded, n_threads), encoded)

    def staged_predict(self, encoded: Array, n_threads: int) -> Iterator[Array]:
        """Predictions after each boosting round."""
        for raw in self.ensemble.staged_raw_prediction(encoded, n_threads):
            yield self._finished(raw, encoded)

    def quantiles(self, encoded: Array, probabilities: Array, n_threads: int) -> Array:
        """Quantiles of y at encoded rows, shape (n_quantiles, n_outputs, n_samples)."""
        if self.intervals is None:
            raise ValueError(
                "this model has no prediction intervals, because it was fitted without model selection, on a single "
                "row, or by an older version; call calibrate(X, y) with rows that it was not fitted on"
            )
        raw = self.bounded(self.ensemble.raw_prediction(encoded, n_threads), encoded)
        return self.intervals.quantiles(probabilities, self.units.standardised(encoded), raw.T, self.loss, self.units)

    def _finished(self, raw: Array, encoded: Array) -> Array:
        out = self.loss.inverse_link(self.bounded(raw, encoded))
        return out[:, 0] if self.y_ndim == 1 else out

    @cached_property
    def _limits(self) -> dict[str, tuple[Array, Array]]:
        """``raw_bounds`` in single and double precision, finite."""
        limits: dict[str, tuple[Array, Array]] = {}
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            largest = np.finfo(dtype).max
            low, high = (np.clip(bound, -largest, largest).astype(dtype) for bound in self.raw_bounds)
            limits[dtype.char] = low, high
        return limits

    def bounded(self, raw: Array, encoded: Array) -> Array:
        """Raw predictions clipped to their bounds."""
        low, high = self._limits[raw.dtype.char]
        column = self.anchor_column
        if column is None:
            return np.minimum(np.maximum(raw, low), high)
        level = encoded[:, column, None]
        level = np.where(np.isnan(level), self.units.centre[column], level).astype(raw.dtype)
        with np.errstate(over="ignore"):
            return np.clip(raw, level + low, level + high)

    # -- what was learned ------------------------------------------------------------------------------------------

    def leading_rounds(self) -> list[tuple[Array | None, Any]]:
        """Rounds of the boosted member of trees with the largest weight."""
        own = [m for m in self.members if m.name != CORRECTION]
        boosted = [m for m in own if m.boosted is not None and m.boosted.rounds and m.boosted.of_trees]
        leader = max(boosted, key=lambda m: m.weight, default=None)
        return [] if leader is None or leader.boosted is None else list(leader.boosted.rounds[: leader.stage])

    def feature_importances(self) -> Array:
        """Importances of the columns of X; they sum to one, or are all zero for a constant model."""
        encoded = self.ensemble.column_importances()
        importance = np.bincount(self.columns.source, weights=encoded, minlength=self.n_features_in)
        total = importance.sum()
        return importance / total if total > 0 else importance

    def staged_losses(self, X: Array, y: Array, n_threads: int) -> list[float]:
        """Loss after every round at encoded rows, in the units of y (n_outputs, n_samples)."""
        return [self.loss.mean(y, raw.T, None) for raw in self.ensemble.staged_raw_prediction(X, n_threads)]


def anchor_column(members: list[Member]) -> int | None:
    """The encoded column that is the anchor of the members; all anchored members have the same."""
    return next((member.anchor.column for member in members if member.anchor is not None), None)
