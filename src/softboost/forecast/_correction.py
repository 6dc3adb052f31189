"""The correction of the bank: one model for all series of the errors of the bank at past origins.

A row is an origin of a series, in units of that series. The target is the vector of the errors of the bank at all steps
in the same units, so that trees with vector leaves model all steps and series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softboost._regressor import SoftBoostRegressor
from softboost.losses import Huber

from ._panel import Array, Future, Panel
from ._smoothing import Outlook

__all__ = ["FEW_ROWS", "KINDS", "LEAST_KNOWN", "Correction", "Ridge", "fit_correction", "inputs", "targets"]

LARGEST = 15.0  # limit of the target, in units
LEAST_KNOWN = 7  # values before an origin that is used for training
FEW_ROWS = 50_000  # with fewer training rows, origins of all phases of the stride are used


@dataclass(frozen=True)
class Correction:
    """A fitted correction.

    Attributes
    ----------
    model : object with ``predict``
        Predicts the errors of the bank at all ``h`` steps, in units, from the inputs of an origin.
    h : int
    """

    model: Any
    h: int

    def corrected(self, outlook: Outlook, X: Array) -> Array:
        """Corrected forecasts (n_series, n_origins, h); steps beyond ``h`` use the correction of the last step."""
        n_series, n_origins, steps = outlook.forecast.shape
        error = np.asarray(self.model.predict(X.reshape(n_series * n_origins, -1)), dtype=np.float64)
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


def fit_correction(kind: str, X: Array, y: Array, n_threads: int) -> Correction:
    """Fit a correction of one of ``KINDS`` to rows of :func:`inputs` and :func:`targets`."""
    y = np.ascontiguousarray(y, dtype=np.float32)
    return Correction(KINDS[kind].fit(X, y, n_threads), y.shape[1])


def _fit_trees(X: Array, y: Array, n_threads: int) -> SoftBoostRegressor:
    """Boosted trees whose size grows with the number of training rows."""
    n_rows = len(X)
    depth = 1 + int(np.searchsorted([600, 5_000, 50_000], n_rows))
    rounds = int(np.clip(40 * np.log10(max(n_rows, 10) / 100), 30, 300))
    trees = SoftBoostRegressor(
        n_estimators=rounds, learning_rate=0.1 if n_rows < FEW_ROWS else 0.2, depth=depth,
        loss=Huber(1.0, refit_leaves=False), feature_transform=None, leaves="linear", gates="greedy", init="constant",
        random_state=0, n_jobs=n_threads,
    )  # fmt: skip
    return trees.fit(X, y if y.shape[1] > 1 else y[:, 0])


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
    def fit(cls, X: Array, y: Array) -> Ridge:
        """Fit to rows; missing values are replaced by the column mean."""
        X = np.asarray(X, dtype=np.float64)
        known = ~np.isnan(X)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, X, 0.0).sum(axis=0) / count
        scale = np.sqrt(np.where(known, (X - mean) ** 2, 0.0).sum(axis=0) / count) + 1e-9
        Z = cls._standardised(X, mean, scale)
        y = np.clip(np.asarray(y, dtype=np.float64), -cls.LARGEST_TARGET, cls.LARGEST_TARGET)
        intercept = y.mean(axis=0)
        gram = Z.T @ Z + cls.PENALTY * np.eye(Z.shape[1])
        return cls(mean, scale, np.linalg.solve(gram, Z.T @ (y - intercept)), intercept)

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
        ``(X, y, n_threads) -> model`` with ``predict``.
    most_rows : float
        Number of training rows up to which this kind competes.
    """

    fit: Callable[[Array, Array, int], Any]
    most_rows: float = np.inf


KINDS = {
    "linear": Kind(lambda X, y, n_threads: Ridge.fit(X, y), most_rows=FEW_ROWS),
    "trees": Kind(_fit_trees),
}
