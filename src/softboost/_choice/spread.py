"""Learns prediction intervals from cross-validated predictions.

The size of errors climbs a ladder like the predictions do: constant, then a function of the prediction and of the
distance of the row from the others, then also of the columns. Each step is fitted without a fold and judged on it, and
replaces the step below by the evidence of :func:`softboost._choice.ladder.trust`. Scores are errors divided by a size
that was estimated without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.units import Units
from softboost._model.intervals import N_OWN, Intervals, Scores, Size, Validated, size_features
from softboost.losses import Loss

from .ladder import trust

__all__ = ["learn_intervals"]

Array = NDArray[Any]
MAX_SIZE_ROWS = 2048  # for the size of errors; the scores of all rows are used
MAX_OPERATIONS = 2e9  # of a fit that uses the columns; with more it is left out
MAX_VALUES = 2**20  # values of the columns, over all folds that are fitted at once
N_BLOCKS = 5
N_STEPS = 10
LARGEST_SURPRISE = 3.0  # an error counts at most this much more than expected, so that one row does not decide
FARTHEST_SIZE = 3.0  # largest logarithm of the size relative to the mean size
PENALTIES = {"own": 10.0, "columns": 100.0}
EVIDENCE = {"own": (0.0, 10.0), "columns": (1.0, 10.0)}  # required standard errors, and doubt, as in the ladder


def learn_intervals(
    X: Array, y: Array, weight: Array | None, validated: Validated, loss: Loss, units: Units
) -> Intervals | None:
    """Intervals from predictions of rows that were not trained on; None if there are fewer than two such rows.

    Parameters
    ----------
    X, y, weight
        All standardised rows: (n_columns, n_samples), (n_outputs, n_samples), (n_samples,) or None.
    validated : Validated
    loss : Loss
        The loss in the units of y.
    units : Units
    """
    rows, fold, raw = _distinct(validated)
    if len(rows) < 2:
        return None
    kept, weight = _merged(X[:, rows], y[:, rows], fold, None if weight is None else weight[rows].astype(np.float64))
    rows, fold, raw = rows[kept], fold[kept], raw[:, kept]
    X, y = X[:, rows], units.original_y(y[:, rows].astype(np.float64))
    prediction = loss.inverse_link(units.original_y(raw))
    with np.errstate(over="ignore", invalid="ignore"):
        error = (y / 2 - prediction / 2) / (units.y_spread[:, None] * loss.deviation(prediction)) * 2
    if not np.isfinite(error).all():
        return None
    centre, spread = np.zeros(len(raw)), np.ones(len(raw))
    if not loss.scales_with_y:
        centre = np.average(raw, axis=1, weights=weight)
        spread = np.sqrt(np.average((raw - centre[:, None]) ** 2, axis=1, weights=weight))
        spread = np.where(spread > 1e-12, spread, 1.0)
    n_columns = X.shape[0]
    coefficients, intercept = np.zeros((len(raw), N_OWN + n_columns)), np.zeros(len(raw))
    low, high, score = np.zeros(len(raw)), np.zeros(len(raw)), np.empty_like(error)
    some = np.linspace(0, len(rows) - 1, min(len(rows), MAX_SIZE_ROWS)).astype(int)
    for o in range(len(raw)):
        features = size_features(X, (raw[o] - centre[o]) / spread[o], n_columns)
        ladder = _Ladder(features, np.abs(error[o]), weight, _blocks(fold), some)
        coefficients[o], intercept[o], low[o], high[o] = ladder.final()
        score[o] = error[o] / np.exp(ladder.log_size)
    if not coefficients[:, N_OWN:].any():
        coefficients = coefficients[:, :N_OWN]
    return Intervals(Scores.learn(score, weight), Size(coefficients, intercept, low, high, centre, spread))


def _distinct(validated: Validated) -> tuple[Array, Array, Array]:
    """Validation rows, folds and predictions; a row of several folds counts once, with its mean prediction."""
    rows, first, place = np.unique(validated.rows, return_index=True, return_inverse=True)
    prediction = validated.prediction.astype(np.float64)
    if len(rows) == len(place):
        return validated.rows, validated.fold, prediction
    counts = np.bincount(place)
    mean = np.stack([np.bincount(place, weights=own) / counts for own in prediction])
    return rows, validated.fold[first], mean


def _merged(X: Array, y: Array, fold: Array, weight: Array | None) -> tuple[Array, Array | None]:
    """The first of equal rows of a fold, with the sum of their weights, so that a row twice is a row of weight 2."""
    first: dict[bytes, int] = {}
    keys = (blake2b(b"".join(a[..., i].tobytes() for a in (X, y, fold))).digest() for i in range(len(fold)))
    place = np.array([first.setdefault(key, i) for i, key in enumerate(keys)])
    kept = np.unique(place)
    if len(kept) < len(place):
        weight = np.bincount(place, weights=weight)[kept].astype(np.float64)
    return kept, weight


def _blocks(fold: Array) -> Array:
    """The folds; five blocks of rows in place of a single hold-out set."""
    if len(np.unique(fold)) > 1:
        return fold
    return np.arange(len(fold)) * N_BLOCKS // len(fold)


class _Ladder:
    """The logarithm of the size of errors of one output, relative to their mean, estimated without each fold."""

    def __init__(self, features: Array, size: Array, weight: Array | None, fold: Array, some: Array) -> None:
        self.features, self.some = features, some
        self.weight = np.ones(len(size)) if weight is None else weight
        mean = float(np.average(size, weights=self.weight))
        self.size = np.maximum(size, 1e-9 * mean) / mean if mean > 0 else np.ones_like(size)
        self.fold = fold
        self.log_size = np.zeros(len(size))
        self.share = dict.fromkeys(PENALTIES, 0.0)
        constant = np.zeros(len(size))
        for _, train, held in self._folds():
            typical = np.average(self.size[train], weights=self.weight[train])
            constant[held] = np.log(typical)
        self.log_size = constant.copy()
        for step in PENALTIES:
            if step == "columns" and len(features) * len(some) * min(features.shape) > MAX_OPERATIONS:
                continue
            rich = self._judged(step)
            gain = self._loss(self.log_size)[some] - self._loss(rich)[some]
            required, doubt = EVIDENCE[step]
            share = trust(gain, self.weight[some], required, doubt)
            self.log_size = share * rich + (1 - share) * self.log_size
            self.share = {name: own * (1 - share) for name, own in self.share.items()} | {step: share}
        self.log_size -= constant  # folds differ in their mean size by chance

    def _folds(self) -> Iterator[tuple[int, Array, Array]]:
        allowed = np.zeros(len(self.size), dtype=bool)
        allowed[self.some] = True
        for k in np.unique(self.fold):
            train = np.flatnonzero((self.fold != k) & allowed)
            yield int(k), train, np.flatnonzero(self.fold == k)

    def _loss(self, log_size: Array) -> Array:
        """Negative log likelihood of a Laplace distribution, up to a constant."""
        return log_size + self.size * np.exp(-log_size)

    def _used(self, step: str) -> Array:
        return self.features[:N_OWN] if step == "own" else self.features

    def _judged(self, step: str) -> Array:
        """Logarithm of the size at the rows of each fold, fitted without them."""
        out, used = np.empty(len(self.size)), self._used(step)
        some, size, weight = used[:, self.some], self.size[self.some], self.weight[self.some]
        folds = np.unique(self.fold)
        at_once = max(1, MAX_VALUES // some.size)
        for few in (folds[k : k + at_once] for k in range(0, len(folds), at_once)):
            train = self.fold[self.some] != few[:, None]
            slopes, intercepts = fit_log_sizes(some, size, weight * train, PENALTIES[step])
            inside = slopes @ some
            low, high = np.where(train, inside, np.inf).min(axis=1), np.where(train, inside, -np.inf).max(axis=1)
            for k, own in enumerate(few):
                held = np.flatnonzero(self.fold == own)
                out[held] = intercepts[k] + np.clip(slopes[k] @ used[:, held], low[k], high[k])
        return out

    def _fit(self, step: str, rows: Array) -> tuple[Array, float]:
        return fit_log_size(self._used(step)[:, rows], self.size[rows], self.weight[rows], PENALTIES[step])

    def final(self) -> tuple[Array, float, float, float]:
        """Coefficients, intercept and range of the logarithm of the size, from all rows."""
        coefficients, intercept = np.zeros(len(self.features)), 0.0
        for step, share in self.share.items():
            if share > 0:
                slopes, own = self._fit(step, self.some)
                coefficients[: len(slopes)] += share * slopes
                intercept += share * own
        log = intercept + coefficients @ self.features
        return coefficients, intercept, float(log.min()), float(log.max())


def fit_log_size(features: Array, size: Array, weight: Array, penalty: float) -> tuple[Array, float]:
    """Slopes and intercept of the logarithm of the size of errors, by ridge-penalised maximum likelihood.

    Minimises the sum of ``weight * (log_size + size / exp(log_size))`` plus half the penalty times the squared slopes,
    by Fisher scoring, in which every step is a ridge regression with the same matrix.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 200)
    >>> slopes, intercept = fit_log_size(x[None], np.exp(1 + 2 * x), np.ones(200), 1e-6)
    >>> np.round(slopes, 3), round(intercept, 3)
    (array([2.]), 1.0)
    """
    slopes, intercepts = fit_log_sizes(features, size, weight[None], penalty)
    return slopes[0], float(intercepts[0])


def fit_log_sizes(features: Array, size: Array, weights: Array, penalty: float) -> tuple[Array, Array]:
    """:func:`fit_log_size` for several weightings (n_fits, n_samples) of the same rows at once.

    Returns slopes (n_fits, n_features) and intercepts (n_fits,).
    """
    total = weights.sum(axis=1)
    mean = weights @ features.T / total[:, None]
    root = np.sqrt(weights)
    centred = features - mean[:, :, None]  # (n_fits, n_features, n_samples)
    F = centred * root[:, None]
    transposed = F.swapaxes(1, 2)
    wide = F.shape[1] > F.shape[2]
    gram = transposed @ F if wide else F @ transposed
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += penalty
    inverse = np.linalg.inv(gram)
    level = np.log(weights @ size / total)
    low, high = level[:, None] - FARTHEST_SIZE, level[:, None] + FARTHEST_SIZE
    slopes, intercepts = np.zeros(mean.shape), level
    for _ in range(N_STEPS):
        along = np.matmul(slopes[:, None], centred)[:, 0]
        log = np.minimum(np.maximum(intercepts[:, None] + along, low), high)
        surprise = np.minimum(size * np.exp(-log) - 1.0, LARGEST_SURPRISE)
        working = (root * (along + surprise))[:, :, None]
        slopes = (F @ (inverse @ working) if wide else inverse @ (F @ working))[:, :, 0]
        intercepts = intercepts + (weights * surprise).sum(axis=1) / total
    return slopes, intercepts - (slopes * mean).sum(axis=1)
