"""A Gaussian process as a weak learner of a single round.

The prior covariance of two rows is a Matern function of their distance, so the fitted function is a sum of such
functions about the training rows. It is smooth and tends to zero away from the rows. The length of the covariance and
the variance of the noise are those with the largest marginal likelihood on a small grid; one tridiagonal form of the
covariance matrix serves all variances of the noise. A row of weight w has the noise of a mean of w rows.

With a quadratic covariance the process is ridge regression on the columns, their squares and their products. Such a
function does not tend to zero away from the rows, so its columns are clipped near their range: the more noise, the
nearer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.transforms import Transform

from .learner import Fitted, TrainingData

__all__ = ["COVARIANCES", "GaussianProcess", "KernelFunction", "matern"]

Array = NDArray[Any]
MAX_CELLS = 2**18  # rows times centres that are evaluated at a time


def matern(squared_distance: Array) -> Array:
    """The Matern function of smoothness 3/2 of squared distances in units of its length."""
    r = np.sqrt(3.0 * np.maximum(squared_distance, 0.0))
    return (1.0 + r) * np.exp(-r)


@dataclass(frozen=True)
class KernelFunction:
    """``f(z) = sum_i coefficients[:, i] k(centres[:, i], s(z))`` with a covariance function k.

    ``s`` standardises the columns, clips them and divides them by the length of k. The clipping keeps a cell of a row
    from counting for much more than the others.

    Attributes
    ----------
    centre, scale, limit : ndarray of shape (n_columns,)
        s(z) is ``(z - centre) * scale``, clipped to ``-limit`` and ``limit``. A constant column has a scale of zero.
    centres : ndarray of shape (n_columns, n_centres)
        The training rows, after s.
    coefficients : ndarray of shape (n_outputs, n_centres)
    covariance : str
        Name of k in ``COVARIANCES``.
    intercept : ndarray of shape (n_outputs,) or None
        Added to the sum; None is zero.
    zero : ndarray of shape (n_outputs,) or None
        If given, f is ``zero + exp(intercept + sum)``.
    """

    centre: Array
    scale: Array
    limit: Array
    centres: Array
    coefficients: Array
    covariance: str = "matern"
    intercept: Array | None = None
    zero: Array | None = None

    def seen(self, z: Array) -> Array:
        """``s(z)``."""
        z = (z.astype(np.float64) - self.centre[:, None]) * self.scale[:, None]
        return np.ascontiguousarray(np.clip(z, -self.limit[:, None], self.limit[:, None]))

    def output(self, z: Array, n_threads: int = 1) -> Array:
        """Output at z (n_columns, n_samples), shape (n_outputs, n_samples)."""
        out = np.empty((len(self.coefficients), z.shape[1]), dtype=z.dtype)
        intercept = np.zeros(len(self.coefficients)) if self.intercept is None else self.intercept
        step = max(1, MAX_CELLS // self.centres.shape[1])
        for begin in range(0, z.shape[1], step):
            rows = slice(begin, begin + step)
            pairs, shape = COVARIANCES[self.covariance]
            values = shape(pairs(self.centres, self.seen(z[:, rows]), n_threads))
            sums = _kernels.linear_outputs(self.coefficients, intercept, values, n_threads)
            if self.zero is not None:
                with np.errstate(over="ignore"):
                    sums = self.zero[:, None] + np.exp(sums)
            out[:, rows] = sums
        return out


def smooth_matern(squared_distance: Array) -> Array:
    """The Matern function of smoothness 5/2 of squared distances in units of its length."""
    r = np.sqrt(5.0 * np.maximum(squared_distance, 0.0))
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


def squared_distances(a: Array, b: Array, n_threads: int = 1) -> Array:
    """Squared distances of columns, (n_a, n_b), up to rounding, which does not depend on the number of columns."""
    size = _kernels.linear_outputs(np.ones((1, len(b))), np.zeros(1), b * b, n_threads)
    own = (a * a).sum(axis=0)
    return _kernels.linear_outputs(np.ascontiguousarray(-2.0 * a.T), own, b, n_threads) + size


def products(a: Array, b: Array, n_threads: int = 1) -> Array:
    """Inner products of columns, (n_a, n_b)."""
    return _kernels.linear_outputs(np.ascontiguousarray(a.T), np.zeros(a.shape[1]), b, n_threads)


def quadratic(product: Array) -> Array:
    """The covariance of a quadratic function whose coefficients are independent, from inner products."""
    return (1.0 + product) ** 2


# a matrix of pairs of columns, which scales with the square of the columns, and the covariance as a function of it
COVARIANCES: dict[str, tuple[Callable[[Array, Array, int], Array], Callable[[Array], Array]]] = {
    "matern": (squared_distances, matern),
    "smooth matern": (squared_distances, smooth_matern),
    "quadratic": (products, quadratic),
}


def quadratic_reach(noise: float) -> float:
    """How far beyond its range a column of a quadratic function is followed, in widths of the range.

    A quadratic function that is wrong by e on [-1, 1] may be wrong by e T(x) at x, with the Chebyshev polynomial
    T(x) = 2 x^2 - 1. If e is the root of the share of ``noise`` in the variance of the target, the error reaches the
    standard deviation of the target at T(x) = 1 / e, where the column ends.
    """
    x = np.sqrt((1.0 + 1.0 / np.sqrt(np.clip(noise, 1e-30, 1.0))) / 2.0)
    return float(x - 1.0) / 2.0


# covariances of functions that do not tend to zero away from the rows: the reach of a column for a share of noise
REACHES: dict[str, Callable[[float], float]] = {"quadratic": quadratic_reach}


@dataclass(frozen=True)
class GaussianProcess:
    """Weak learner: the posterior mean of a Gaussian process.

    Attributes
    ----------
    lengths : tuple of float
        Lengths of the covariance, in units of the root mean square distance of a row from the mean.
    noises : tuple of float
        Variances of the noise relative to that of the process.
    limit : float
        Columns are clipped to this number of standard deviations.
    scales : tuple of float
        Factors of the standardised columns; empty: all are one.
    covariance : str
        Name of the covariance function; those in ``REACHES`` also clip columns near their range.
    """

    lengths: tuple[float, ...] = (0.5, 1.0, 2.0)
    noises: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    limit: float = 3.0
    scales: tuple[float, ...] = ()
    covariance: str = "matern"

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit the process to the target (n_outputs, n_samples), with the same covariance for all outputs."""
        X, weight = data.X.astype(np.float64), np.ones(data.X.shape[1]) if data.weight is None else data.weight
        weight, target = weight.astype(np.float64), target.astype(np.float64)
        total, scales = float(weight.sum()), np.array(self.scales) if self.scales else np.ones(len(X))
        share = weight / total
        centre = X @ share
        spread = np.sqrt((X - centre[:, None]) ** 2 @ share)
        scale = np.where(spread > 1e-9, scales / np.maximum(spread, 1e-9), 0.0)
        function = KernelFunction(centre, scale, self.limit * scales, X, target, self.covariance)
        rows = function.seen(X)
        size = float(((rows - (rows @ share)[:, None]) ** 2 @ share).sum())
        if size == 0:
            nothing = replace(function, centres=rows[:, :1], coefficients=np.zeros((len(target), 1)))
            return Fitted(nothing, None, np.zeros(target.shape, dtype=data.X.dtype))  # type: ignore[arg-type]
        pairs, shape = COVARIANCES[self.covariance]
        pair = pairs(rows, rows, data.n_threads) / size
        root, noises = None if data.weight is None else np.sqrt(weight), np.array(self.noises)
        scaled = target if root is None else target * root
        best, best_value, noise = (1.0, pair, target), np.inf, 0.0
        for length in self.lengths:
            K = shape(pair / length**2)
            covariance = K if root is None else root[:, None] * K * root
            solved, log_determinants = _kernels.ridge_path(covariance, scaled, noises)
            # minus twice the log likelihood; a row of weight w counts like w equal rows
            quadratic = np.einsum("loi,oi->lo", solved, scaled) / total
            logs = log_determinants + (total - len(weight)) * np.log(noises)
            value = (total * np.log(np.maximum(quadratic, 1e-300)) + logs[:, None]).sum(axis=1)
            if value.min() < best_value:
                chosen = int(np.argmin(value))
                best_value, best = value.min(), (length, K, solved[chosen])
                noise = float(noises[chosen] * quadratic[chosen].sum())
        length, K, coefficients = best
        coefficients = coefficients.copy() if root is None else coefficients * root
        unit = 1.0 / (length * np.sqrt(size))
        limit = function.limit
        if self.covariance in REACHES:
            variance = float(((scaled**2).sum(axis=1) / total).sum())
            reach = REACHES[self.covariance](noise / variance if variance > 0 else 1.0)
            limit = np.minimum(limit, np.abs(rows).max(axis=1) + reach * np.ptp(rows, axis=1))
        limit = limit * unit
        function = KernelFunction(centre, scale * unit, limit, rows * unit, coefficients, self.covariance)
        output = _kernels.linear_outputs(coefficients, np.zeros(len(target)), K, data.n_threads)
        return Fitted(function, None, output.astype(data.X.dtype))  # type: ignore[arg-type]
