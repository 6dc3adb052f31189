"""The correction of the bank: one model for all series of the errors of the bank at past origins.

A row is an origin of a series, in units of that series. The target is the vector of the errors of the bank at all steps
in the same units, so that trees with vector leaves model all steps and series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from softboost._regressor import SoftBoostRegressor
from softboost.losses import Huber

from ._networks import Networks
from ._panel import Array, Future, Panel
from ._smoothing import Outlook

__all__ = [
    "FEW_ROWS",
    "KINDS",
    "LEAST_KNOWN",
    "Correction",
    "Ridge",
    "Rows",
    "fit_correction",
    "inputs",
    "relative_units",
    "row_weights",
    "targets",
]

LARGEST = 15.0  # limit of the target, in units
LEAST_KNOWN = 7  # values before an origin that is used for training
FEW_ROWS = 50_000  # with fewer training rows, origins of all phases of the stride are used
ROWS_OF_A_MODEL, MOST_MODELS = 25_000, 3  # rows that are enough for a model of many, and the largest number of models
HEAVIEST = 10.0  # largest weight of a training row, before weights are scaled to a mean of one


class Rows(NamedTuple):
    """Training rows of a correction.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns)
        From :func:`inputs`.
    y : ndarray of shape (n_rows, h)
        From :func:`targets`.
    weight : ndarray of shape (n_rows,)
        From :func:`row_weights`.
    """

    X: Array
    y: Array
    weight: Array


@dataclass(frozen=True)
class Correction:
    """A fitted correction.

    Attributes
    ----------
    models : tuple of objects with ``predict``
        Each predicts the errors of the bank at all ``h`` steps, in units, from the inputs of an origin. The correction
        is their mean.
    h : int
    """

    models: tuple[Any, ...]
    h: int

    def corrected(self, outlook: Outlook, X: Array) -> Array:
        """Corrected forecasts (n_series, n_origins, h); steps beyond ``h`` use the correction of the last step."""
        n_series, n_origins, steps = outlook.forecast.shape
        rows = X.reshape(n_series * n_origins, -1)
        error = np.mean([np.asarray(model.predict(rows), dtype=np.float64) for model in self.models], axis=0)
        error = error.reshape(n_series, n_origins, self.h)[..., np.minimum(np.arange(steps), self.h - 1)]
        moved = outlook.link(outlook.forecast) + outlook.unit[..., None] * error
        return np.where(np.isfinite(moved), outlook.unlink(moved), outlook.forecast)


def inputs(outlook: Outlook, panel: Panel, known: Future, n_origins: int) -> Array:
    """Inputs (n_series, n_origins, n_columns): the state of the bank, exogenous columns ahead and static columns.

    ``known`` contains the steps ahead of every origin, series by series.
    """
    n_series = panel.n_series
    ahead = known.exog.reshape(n_series, n_origins, known.exog[0].size if len(known.exog) else 0)
    static = np.broadcast_to(panel.static[:, None], (n_series, n_origins, panel.static.shape[1]))
    return np.concatenate([outlook.columns, ahead, static], axis=2, dtype=np.float32)


def targets(outlook: Outlook, actual: Array) -> Array:
    """Errors of the bank in units (n_series, n_origins, h); NaN if a value is unknown."""
    with np.errstate(invalid="ignore"):
        error = (outlook.link(actual) - outlook.link(outlook.forecast)) / outlook.unit[..., None]
    return np.clip(error, -LARGEST, LARGEST)


def relative_units(outlook: Outlook) -> Array:
    """Typical change relative to the level of the series, at most one (n_series, n_origins)."""
    level = np.abs(outlook.forecast[..., 0])
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(outlook.logs, outlook.unit, outlook.unit / np.maximum(level, outlook.unit))
    return np.minimum(relative, 1.0)


def row_weights(relative: Array) -> Array:
    """Weights of training rows (n_rows,) from their relative units.

    Targets are errors in units of the series. Users also look at errors in percent, which are errors in units times
    the relative unit. Both count, equally at the median row.
    """
    if not len(relative):
        return np.ones(0, dtype=np.float32)
    weight = np.minimum(1.0 + relative / np.median(relative), HEAVIEST)
    return np.asarray(weight / weight.mean(), dtype=np.float32)


def fit_correction(kind: str, rows: Rows, n_threads: int) -> Correction:
    """Fit a correction of one of ``KINDS``."""
    rows = rows._replace(y=np.ascontiguousarray(rows.y, dtype=np.float32))
    return Correction(KINDS[kind].fit(rows, n_threads), rows.y.shape[1])


def _fit_trees(rows: Rows, n_threads: int) -> tuple[SoftBoostRegressor, ...]:
    """Boosted trees whose size grows with the number of training rows; many rows are shared among several models."""
    n_rows = len(rows.X)
    depth = 1 + int(np.searchsorted([600, 5_000], n_rows))
    rounds = int(np.clip(30 * (n_rows / 1000) ** 0.4, 30, 300))
    n_models = int(np.clip(n_rows // ROWS_OF_A_MODEL, 1, MOST_MODELS))
    model_of = np.random.default_rng(0).permutation(n_rows) % n_models
    y = rows.y if rows.y.shape[1] > 1 else rows.y[:, 0]
    blank = SoftBoostRegressor(
        n_estimators=rounds, learning_rate=0.1, depth=depth,
        loss=Huber(1.0, refit_leaves=False), feature_transform=None, leaves="linear", gates="greedy", init="constant",
        random_state=0, n_jobs=n_threads,
    )  # fmt: skip
    mine = (np.flatnonzero(model_of == k) for k in range(n_models))
    return tuple(clone(blank).fit(rows.X[i], y[i], sample_weight=rows.weight[i]) for i in mine)


@dataclass(frozen=True)
class Ridge:
    """Ridge regression on standardised columns that are clipped at three standard deviations.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_columns,)
    coefficients : ndarray of shape (n_columns, h)
    intercept : ndarray of shape (h,)
    """

    mean: Array
    scale: Array
    coefficients: Array
    intercept: Array

    PENALTY = 30.0
    FARTHEST = 3.0
    LARGEST_TARGET = 4.0
    BLOCK = 32_768  # rows that are standardised at a time

    @classmethod
    def fit(cls, rows: Rows) -> Ridge:
        """Fit to rows; missing values are replaced by the column mean."""
        X, weight = (np.asarray(a, dtype=np.float64) for a in (rows.X, rows.weight))
        known = ~np.isnan(X)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, X, 0.0).sum(axis=0) / count
        scale = np.sqrt(np.where(known, (X - mean) ** 2, 0.0).sum(axis=0) / count) + 1e-9
        Z = cls._standardised(X, mean, scale)
        y = np.clip(np.asarray(rows.y, dtype=np.float64), -cls.LARGEST_TARGET, cls.LARGEST_TARGET)
        intercept = np.average(y, axis=0, weights=weight)
        weighted = Z.T * weight
        gram = weighted @ Z + cls.PENALTY * np.eye(Z.shape[1])
        return cls(mean, scale, np.linalg.solve(gram, weighted @ (y - intercept)), intercept)

    @classmethod
    def _standardised(cls, X: Array, mean: Array, scale: Array) -> Array:
        return np.clip(np.nan_to_num((X - mean) / scale), -cls.FARTHEST, cls.FARTHEST)

    def predict(self, X: Array) -> Array:
        """Errors of the bank, in units (n_rows, h)."""
        out = np.empty((len(X), len(self.intercept)))
        for start in range(0, len(X), self.BLOCK):
            rows = slice(start, start + self.BLOCK)
            Z = self._standardised(np.asarray(X[rows], dtype=np.float64), self.mean, self.scale)
            # not by BLAS, whose sums depend on how many rows there are: a row has one answer wherever it stands
            out[rows] = np.einsum("ij,jk->ik", Z, self.coefficients) + self.intercept
        return out


# -- the kinds of corrections: a table with one row each -----------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """One row of the table.

    Attributes
    ----------
    fit : callable
        ``(rows, n_threads) -> models`` with ``predict``, which are averaged.
    least_rows, most_rows : float
        Numbers of training rows from and up to which this kind competes.
    """

    fit: Callable[[Rows, int], tuple[Any, ...]]
    least_rows: float = 2
    most_rows: float = np.inf


KINDS = {
    "linear": Kind(lambda rows, n_threads: (Ridge.fit(rows),), most_rows=ROWS_OF_A_MODEL),
    "trees": Kind(_fit_trees),
    "networks": Kind(lambda rows, n_threads: (Networks.fit(*rows, n_threads),), least_rows=ROWS_OF_A_MODEL),
}
