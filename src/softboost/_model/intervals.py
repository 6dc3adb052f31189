"""Prediction intervals: the distribution of errors on rows that were not trained on, and how their size varies.

The error of a prediction is ``u * s(x)``. The score u has the distribution of the cross-validated scores, and s(x) is a
log-linear model of the size of errors, which is constant unless there is evidence for more. Quantiles of y are

    inverse_link(raw) + y_spread * deviation * s(x) * quantile of u

so they never cross. :mod:`softboost._choice.spread` learns both parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from softboost._data.units import Units
from softboost.losses import Loss

__all__ = ["Intervals", "Scores", "Size", "Validated", "size_features"]

Array = NDArray[Any]
MAX_KNOTS = 4096  # of a quantile function; more rows hardly change it
N_OWN = 3  # features of the prediction and of the row as a whole, which come before the columns
FARTHEST_COLUMN = 4.0  # columns are clipped to this number of standard deviations


@dataclass(frozen=True)
class Validated:
    """Cross-validated predictions of the combined model.

    Attributes
    ----------
    rows, fold : ndarray of shape (n_judged,)
        Index of each validation row, and its fold.
    prediction : ndarray of shape (n_outputs, n_judged)
        Raw predictions for standardised y.
    """

    rows: Array
    fold: Array
    prediction: Array


@dataclass(frozen=True)
class Scores:
    """The quantile function of the scores of each output.

    With n rows, the k-th smallest score is the quantile k / (n + 1): a new score is below it with that probability.
    Quantiles between are interpolated. Beyond the smallest and the largest score they are those of Student's t
    distribution with the root mean square of the scores, if that is farther out.

    Attributes
    ----------
    position, value : ndarray of shape (n_outputs, n_knots)
        Scores in ascending order and their ranks; a row of weight 2 has two ranks.
    root_mean_square : ndarray of shape (n_outputs,)
    total : float
        Sum of the weights of the rows.
    """

    position: Array
    value: Array
    root_mean_square: Array
    total: float

    @classmethod
    def learn(cls, scores: Array, weight: Array | None) -> Scores:
        """Scores (n_outputs, n_samples) as a quantile function."""
        weight = np.ones(scores.shape[1]) if weight is None else weight.astype(np.float64)
        order = np.argsort(scores, axis=1, kind="stable")
        value, own = np.take_along_axis(scores, order, axis=1), weight[order]
        last = np.cumsum(own, axis=1)
        first = last - np.maximum(own - 1.0, 0.0)  # the ranks of a row begin here and end at last
        position = np.stack([first, last], axis=2).reshape(len(scores), -1)
        value = np.repeat(value, 2, axis=1)
        if position.shape[1] > MAX_KNOTS:
            some = np.linspace(0, position.shape[1] - 1, MAX_KNOTS).astype(int)
            position, value = position[:, some], value[:, some]
        largest = np.ldexp(1.0, np.frexp(np.abs(scores).max())[1] - 1)  # a power of two: no overflow, no rounding
        largest = max(float(largest), 1.0)
        root_mean_square = largest * np.sqrt(np.average((scores / largest) ** 2, axis=1, weights=weight))
        return cls(position, value, root_mean_square, float(weight.sum()))

    def quantiles(self, probabilities: Array) -> Array:
        """Quantiles, shape (n_outputs, n_probabilities)."""
        n = self.total
        rank = probabilities * (n + 1)
        far = stdtrit(max(n, 1.0), probabilities) * np.sqrt(1 + 1 / n)
        out = np.empty((len(self.value), len(probabilities)))
        for o, (position, value, size) in enumerate(zip(self.position, self.value, self.root_mean_square, strict=True)):
            inner = np.interp(rank, position, value)
            outer = np.where(probabilities < 0.5, np.minimum(inner, far * size), np.maximum(inner, far * size))
            out[o] = np.where((rank < position[0]) | (rank > position[-1]), outer, inner)
        return out


def size_features(X: Array, prediction: Array, n_columns: int) -> Array:
    """What the size of errors may depend on: the prediction, its absolute value, the distance of the row, columns.

    Parameters
    ----------
    X : ndarray of shape (n_columns, n_samples)
        Standardised columns.
    prediction : ndarray of shape (n_samples,)
        Standardised predictions of one output.
    n_columns : int
        Number of columns to append: all or none.

    Returns
    -------
    features : ndarray of shape (3 + n_columns, n_samples)
    """
    X = np.clip(np.nan_to_num(X.astype(np.float64)), -FARTHEST_COLUMN, FARTHEST_COLUMN)
    distance = np.log1p((X**2).mean(axis=0)) if len(X) else np.zeros(len(prediction))
    own = np.stack([prediction, np.abs(prediction), distance])
    return np.concatenate([own, X]) if n_columns else own


@dataclass(frozen=True)
class Size:
    """The size s(x) of errors, relative to a typical one: the exponential of a linear function of the features.

    Attributes
    ----------
    coefficients : ndarray of shape (n_outputs, 3) or (n_outputs, 3 + n_columns)
    intercept, low, high : ndarray of shape (n_outputs,)
        The logarithm is clipped to its range in the training rows, low to high.
    centre, spread : ndarray of shape (n_outputs,)
        Standardisation of the raw predictions, in the units of standardised y.
    """

    coefficients: Array
    intercept: Array
    low: Array
    high: Array
    centre: Array
    spread: Array

    def at(self, X: Array, raw: Array) -> Array:
        """s at standardised columns X and raw predictions (n_outputs, n_samples) for standardised y."""
        n_columns = self.coefficients.shape[1] - N_OWN
        out = np.empty(raw.shape)
        for o, own in enumerate(self.coefficients):
            if not own.any():
                out[o] = np.clip(self.intercept[o], self.low[o], self.high[o])
                continue
            prediction = (raw[o] - self.centre[o]) / self.spread[o]
            log = self.intercept[o] + own @ size_features(X, prediction, n_columns)
            out[o] = np.clip(log, self.low[o], self.high[o])
        return np.exp(out)


@dataclass(frozen=True)
class Intervals:
    """Quantiles of y around predictions."""

    scores: Scores
    size: Size

    def quantiles(self, probabilities: Array, X: Array, raw: Array, loss: Loss, units: Units) -> Array:
        """Quantiles of y at rows X (n_columns, n_samples).

        Parameters
        ----------
        probabilities : ndarray of shape (n_quantiles,)
        X : ndarray of shape (n_columns, n_samples)
            Standardised columns.
        raw : ndarray of shape (n_outputs, n_samples)
            Raw predictions in the units of y.
        loss : Loss
        units : Units

        Returns
        -------
        quantiles : ndarray of shape (n_quantiles, n_outputs, n_samples)
        """
        raw = raw.astype(np.float64)
        standard, spread = units.standardised_y(raw), units.y_spread[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            prediction = loss.inverse_link(raw)
            width = self.size.at(X, standard) * loss.deviation(prediction) * spread
            steps = self.scores.quantiles(probabilities).T[:, :, None] * width
            low, high = loss.y_range()
            return np.clip(prediction + steps, max(low, -np.finfo(float).max), min(high, np.finfo(float).max))
