"""The change of a series from its past values: ridge regression averaged over penalties by evidence."""

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
STIFFNESS = np.logspace(4, -2, 31)  # of the autoregression, relative to columns of unit size


@dataclass(frozen=True)
class _Stiffnesses:
    """Ridge regressions through the origin, one per stiffness: slopes (n_stages, n_columns) and log evidence."""

    slopes: Array
    evidence: Array  # against no model at all

    @classmethod
    def fit(cls, D: Array, t: Array, total: float, freedom: Array, n_threads: int) -> _Stiffnesses:
        """Of t (1, n_samples) on D (n_columns, n_samples), each column as stiff as its freedom is small."""
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
        return cls(slopes[:, 0] * freedom, 0.5 * evidence)  # neighbours in time are alike: rows count for half

    def average(self) -> Array:
        """Slopes averaged by the evidence for each stiffness, half of the prior being on no model at all."""
        largest = max(float(self.evidence.max()), 0.0)
        likelihood = np.exp(self.evidence - largest) / len(self.evidence)
        return (likelihood[:, None] * self.slopes).sum(axis=0) / (likelihood.sum() + np.exp(-largest))


def _changes(V: Array) -> Array:
    """From each lag to the next, of differences V (n_lags - 1, n_samples) to lag 1 in the order of the lags."""
    return np.diff(V, axis=0, prepend=0.0)


def _on_changes(slopes: Array) -> Array:
    """Slopes (n_stages, n_lags - 1) on those differences, from slopes on their changes."""
    return -np.diff(slopes, axis=1, append=0.0)


def _means(V: Array) -> Array:
    """Of the lags up to each, lag 1 being zero."""
    return np.cumsum(V, axis=0) / np.arange(2.0, len(V) + 2)[:, None]


def _on_means(slopes: Array) -> Array:
    """Slopes on the differences, from slopes on their means."""
    return np.cumsum((slopes / np.arange(2.0, slopes.shape[1] + 2))[:, ::-1], axis=1)[:, ::-1]


def fit_autoregression(
    X: Array, y: Array, weight: Array | None, origin: Array, step: Array, lags: Array, n_threads: int = 1
) -> LinearPath:
    """The change of a series from its values before: ridge regression for all penalties at once, one stage.

    X (n_features, n_samples) and y (1, n_samples) are in the view of an anchor, whose ``origin`` is where nothing has
    changed, and there the model predicts no change; ``step`` is what one unit of a column is in those of the series.
    ``lags`` says how far back each column looks: lag 1, the anchor itself, takes no part.

    Each penalty counts by the evidence for it (the probability of y under the prior that the penalty stands for), half
    of the prior being on no model at all, so nothing is chosen and no rows are held out: that is what few rows are best
    used for. Ridge regression on other columns of the same span is another prior, and none of them suits all series. So
    it is run on the lags' differences to the last value, on the changes from each lag to the next, and on the means of
    the last values. The first half of the model is the one on differences, which is best where a season repeats; the
    second is the other two by the evidence, which go by the last few values and are less led astray where the season
    breaks off.
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
        signal = np.abs((D * t).sum(axis=1)) / (size * np.sqrt(everything))  # of each column by itself; 1 by chance
        freedom = (1 + own * signal) / np.sqrt(np.append(distance, np.ones(len(others))))
        freedom /= np.sqrt(np.mean(freedom**2)) * size
        fitted = _Stiffnesses.fit(D, t, total, freedom, n_threads)
        on_lags, on_others = fitted.slopes[:, : len(past)], fitted.slopes[:, len(past) :]
        return _Stiffnesses(np.concatenate([back(on_lags) * scale, on_others], axis=1), fitted.evidence)

    on_differences = regression(V, lambda slopes: slopes, far, 0.0)
    recent = [regression(_means(V), _on_means, far, 0.25)]
    if len(past):  # else there are other columns alone, which are the same in both
        recent.append(regression(_changes(V), _on_changes, near, 0.25))
    either = _Stiffnesses(
        np.concatenate([model.slopes for model in recent]), np.concatenate([model.evidence for model in recent])
    )
    slope = np.zeros(len(Z))
    slope[np.append(past, others)] = 0.5 * on_differences.average() + 0.5 * either.average()
    return LinearPath(slope[None, None], np.array([[-(slope * origin).sum()]]))
