"""Autoregression of the next change of a series: ridge regressions averaged over penalties by marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

from .path import LinearPath
from .ridge import ridge_from_rows

__all__ = ["fit_autoregression"]

Array = NDArray[Any]
STIFFNESS = np.logspace(4, -2, 31)  # ridge penalties, relative to columns of unit size


@dataclass(frozen=True)
class _Stiffnesses:
    """Ridge regressions through the origin, one per penalty: slopes (n_stages, n_columns) and log evidence."""

    slopes: Array
    evidence: Array  # log marginal likelihood relative to the model that predicts zero

    @classmethod
    def fit(cls, D: Array, t: Array, total: float, freedom: Array, n_threads: int) -> _Stiffnesses:
        """Regress t (1, n_samples) on D (n_columns, n_samples); ``freedom`` is the prior scale of each slope."""
        D = np.ascontiguousarray(D * freedom[:, None])
        if D.shape[0] <= D.shape[1]:
            _, _, gram, cross = _kernels.moments(D, t, None, n_threads, centred=False)
            slopes, log_determinants = _kernels.ridge_path(gram, cross, np.ascontiguousarray(STIFFNESS))
        else:
            slopes, log_determinants = ridge_from_rows(D, t, STIFFNESS, n_threads)
        everything = float((t**2).sum())
        left_over = everything - (slopes[:, 0] * (D * t).sum(axis=1)).sum(axis=1)
        left_over = np.maximum(left_over, 1e-12 * everything)
        narrowing = log_determinants - min(D.shape) * np.log(STIFFNESS)
        evidence = -0.5 * narrowing - 0.5 * total * np.log(left_over / everything)
        return cls(slopes[:, 0] * freedom, 0.5 * evidence)  # neighbouring rows are correlated: each counts for half

    def average(self) -> Array:
        """Slopes averaged by evidence over the penalties; half of the prior is on the model that predicts zero."""
        largest = max(float(self.evidence.max()), 0.0)
        likelihood = np.exp(self.evidence - largest) / len(self.evidence)
        return (likelihood[:, None] * self.slopes).sum(axis=0) / (likelihood.sum() + np.exp(-largest))


def _changes(V: Array) -> Array:
    """Changes from each lag to the next, from differences V (n_lags - 1, n_samples) to lag 1, ordered by lag."""
    return np.diff(V, axis=0, prepend=0.0)


def _on_changes(slopes: Array) -> Array:
    """Convert slopes (n_stages, n_lags - 1) on the changes into slopes on the differences."""
    return -np.diff(slopes, axis=1, append=0.0)


def _means(V: Array) -> Array:
    """Running means of the differences over the lags up to each one; the difference of lag 1 is zero."""
    return np.cumsum(V, axis=0) / np.arange(2.0, len(V) + 2)[:, None]


def _on_means(slopes: Array) -> Array:
    """Convert slopes on the running means into slopes on the differences."""
    return np.cumsum((slopes / np.arange(2.0, slopes.shape[1] + 2))[:, ::-1], axis=1)[:, ::-1]


def fit_autoregression(
    X: Array, y: Array, weight: Array | None, origin: Array, step: Array, lags: Array, n_threads: int = 1
) -> LinearPath:
    """Regress the next change of a series on its lags, averaged over all penalties; the path has one stage.

    X (n_features, n_samples) and y (1, n_samples) are in the anchored view. ``origin`` is the row without any change,
    where the model predicts no change. ``step`` is the size of one unit of each column in the units of the series.
    ``lags`` is the lag of each column; lag 1 is the anchor and is not used.

    Each penalty is weighted by its marginal likelihood, the probability of y under the prior that corresponds to the
    penalty. Half of the prior is on the model that predicts no change. No penalty is selected and no rows are held
    out, which is the best use of few rows.

    Ridge regressions on different bases of the same column space are different priors, and none suits all series. The
    model uses three bases: the differences between each lag and the last value, the changes from each lag to the next,
    and the running means of the last values. Half of the model uses the differences, which suit a stable seasonal
    pattern. The other half averages the other two bases by evidence. They depend mainly on recent values and are more
    robust when the seasonal pattern breaks.
    """
    root = np.ones(X.shape[1]) if weight is None else np.sqrt(weight.astype(np.float64))
    Z = (X.astype(np.float64) - origin[:, None]) * root
    t = y.astype(np.float64) * root
    total, everything = float((root**2).sum()), float((t**2).sum())
    past = np.flatnonzero(lags > 1)
    past = past[np.argsort(lags[past], kind="stable")]
    others = np.flatnonzero(np.append(lags, np.zeros(len(Z) - len(lags))) == 0)
    if not everything > 0 or not len(past) + len(others):
        return LinearPath(np.zeros((1, 1, len(Z))), np.zeros((1, 1)))
    scale = step[past] / step[past].max(initial=0.0)
    V, far = Z[past] * scale[:, None], lags[past]
    near = np.append(1, far[:-1])[: len(far)]

    def regression(seen: Array, back: Callable[[Array], Array], distance: Array, own: float) -> _Stiffnesses:
        D = np.concatenate([seen, Z[others]])
        size = np.sqrt((D**2).sum(axis=1) / total)
        size = np.where(size > 1e-9, size, 1.0)
        signal = np.abs((D * t).sum(axis=1)) / (size * np.sqrt(everything))  # of each column alone; about 1 by chance
        freedom = (1 + own * signal) / np.sqrt(np.append(distance, np.ones(len(others))))
        freedom /= np.sqrt(np.mean(freedom**2)) * size
        fitted = _Stiffnesses.fit(D, t, total, freedom, n_threads)
        on_lags, on_others = fitted.slopes[:, : len(past)], fitted.slopes[:, len(past) :]
        return _Stiffnesses(np.concatenate([back(on_lags) * scale, on_others], axis=1), fitted.evidence)

    on_differences = regression(V, lambda slopes: slopes, far, 0.0)
    recent = [regression(_means(V), _on_means, far, 0.25)]
    if len(past):  # without lags both bases are the same
        recent.append(regression(_changes(V), _on_changes, near, 0.25))
    either = _Stiffnesses(
        np.concatenate([model.slopes for model in recent]), np.concatenate([model.evidence for model in recent])
    )
    slope = np.zeros(len(Z))
    slope[np.append(past, others)] = 0.5 * on_differences.average() + 0.5 * either.average()
    return LinearPath(slope[None, None], np.array([[-(slope * origin).sum()]]))
