"""A Gaussian process with a length for each column, of the target or of its logarithm.

The lengths and the variance of the noise have a large marginal likelihood: columns that do not matter get a large
length. In the logarithm of a positive target, multiplicative relations become sums, and heavy tails light ones.

A row of weight w has the noise of a mean of w rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from softboost import _kernels
from softboost._data.repeated import distinct_rows
from softboost.transforms import Transform

from .gaussian_process import COVARIANCES, KernelFunction
from .learner import Fitted, TrainingData

__all__ = ["AnisotropicProcess"]

Array = NDArray[Any]
COVARIANCE = "smooth matern"
START_NOISE = 0.1
LEAST_SCALE = 0.1  # of a column at the start of the search, relative to the largest
LENGTHS = (-12.0, 4.0)  # limits of the logarithms of squared inverse lengths
NOISES = (math.log(1e-6), math.log(30.0))  # limits of the logarithm of the noise
FIRST_STEP, LARGEST_STEP, GROWTH, SHRINKAGE = 1.0, 2.0, 1.5, 0.5  # of the search
MOST_EXACT_ROWS, N_CENTRES = 500, 300  # with more rows, the process is a sum over some of them
JITTER = 1e-9  # of the variance at the centres
DECIMALS = 3  # of these logarithms: rounding, which depends on the machine, then changes nothing
MAX_FACTOR = 2.0  # by which the exponential is corrected for the variance of its argument


def _matern(distance: Array) -> tuple[Array, Array]:
    """The Matern function of smoothness 5/2 of squared distances, and minus its derivative."""
    r = np.sqrt(5.0 * distance)
    fall = np.exp(-r)
    r += 1.0
    fall *= r  # (1 + r) exp(-r)
    covariance = distance * fall / r
    covariance *= 5.0 / 3.0
    covariance += fall
    fall *= 5.0 / 6.0
    return covariance, fall


class _View(NamedTuple):
    """Standardised targets, ``y = mean + spread * t``, or logarithms, ``y = zero + exp(mean + spread * t)``."""

    t: Array  # (n_outputs, n_samples)
    mean: Array
    spread: Array
    zero: Array | None

    @classmethod
    def of(cls, y: Array, share: Array, zero: Array | None) -> _View:
        if zero is not None:
            y = y - zero[:, None]
            least = np.where(y > 0, y, np.inf).min(axis=1, keepdims=True)  # an outlier may have been moved below zero
            y = np.log(np.where(np.isfinite(least), np.maximum(y, least), 1.0))
        mean = (y * share).sum(axis=1)
        y = y - mean[:, None]
        spread = np.sqrt((y**2 * share).sum(axis=1))
        spread = np.where(spread > 1e-9, spread, 1.0)
        return cls(y / spread[:, None], mean, spread, zero)


@dataclass(frozen=True)
class AnisotropicProcess:
    """Weak learner of a single round that starts from zero: the posterior mean of a Gaussian process.

    Attributes
    ----------
    limit : float
        Columns are clipped to this number of standard deviations.
    n_steps : int
        Steps of the search for the lengths.
    most_rows : int
        Number of rows in the search, evenly spread.
    prior : float
        Weight of the squared distance of the logarithms of the lengths from the start of the search.
    scales : tuple of float
        Factors of the standardised columns at the start of the search; empty: all are one.
    zero : tuple of float
        The value of each target that is zero in its own units; empty: no logarithms.
    """

    limit: float = 3.0
    n_steps: int = 10
    most_rows: int = 200
    prior: float = 0.03
    scales: tuple[float, ...] = ()
    zero: tuple[float, ...] = ()

    def fit(
        self,
        data: TrainingData,
        target: Array,
        transform: Transform | None,
        theta: Array | None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit the process to the target (n_outputs, n_samples), with the same lengths for all outputs."""
        X, weight = data.X.astype(np.float64), np.ones(data.X.shape[1]) if data.weight is None else data.weight
        first, number = distinct_rows(X, target)  # the search amplifies the rounding of equal rows
        is_weighted = data.weight is not None or len(first) < len(number)
        X, y = (np.ascontiguousarray(rows[:, first], dtype=np.float64) for rows in (X, target))
        weight = np.bincount(number, weight)
        share = weight / weight.sum()
        centre = (X * share).sum(axis=1)
        spread = np.sqrt(((X - centre[:, None]) ** 2 * share).sum(axis=1))
        scale = np.where(spread > 1e-9, 1.0 / np.maximum(spread, 1e-9), 0.0)
        function = KernelFunction(centre, scale, np.full(len(X), self.limit), X, y)
        function = replace(function, centres=function.seen(X))
        view = _View.of(y, share, np.array(self.zero) if self.zero else None)
        chosen = _searched(weight, self.most_rows)
        own = weight if is_weighted and weight.sum() <= self.most_rows else None
        parameters = self._search(function.centres[:, chosen], view.t[:, chosen], own)
        function, output = _fitted(function, parameters, view, y, weight, data.n_threads)
        return Fitted(function, None, output[:, number].astype(data.X.dtype))  # type: ignore[arg-type]

    def _search(self, rows: Array, t: Array, weight: Array | None) -> Array:
        """The logarithms of the squared inverse lengths and of the noise."""
        n_columns, n_rows = rows.shape
        root = None if weight is None else np.sqrt(weight)
        n_outputs, total = len(t), float(n_rows if weight is None else weight.sum())
        scaled, squares = t if root is None else t * root, rows**2
        scales = np.array(self.scales) if self.scales else np.ones(n_columns)
        scales = np.maximum(scales / scales.max(), LEAST_SCALE) ** 2
        start = np.append(np.log(scales / scales.sum()), math.log(START_NOISE))

        def objective(parameters: Array) -> tuple[float, Array]:
            """Minus twice the log likelihood and the log prior, and the gradient."""
            factors, noise = np.exp(parameters[:-1]), math.exp(parameters[-1])
            near = rows * np.sqrt(factors)[:, None]
            distance = near.T @ (-2.0 * near)
            size = -0.5 * distance.diagonal()
            distance += size
            distance += size[:, None]
            covariance, fall = _matern(np.maximum(distance, 0.0, out=distance))
            if root is not None:
                covariance *= root
                covariance *= root[:, None]
            covariance.flat[:: n_rows + 1] += noise
            factor, failed = dpotrf(covariance, lower=1, overwrite_a=1)
            if failed:
                return 1e300, np.zeros(len(parameters))
            determinant = 2.0 * np.log(factor.diagonal()).sum() + (total - n_rows) * parameters[-1]
            inverse = dpotri(factor, lower=1, overwrite_c=1)[0]
            inverse += np.tril(inverse, -1).T
            solved = scaled @ inverse
            quadratic = np.maximum((solved * scaled).sum(axis=1), 1e-300)
            slope = inverse if n_outputs == 1 else n_outputs * inverse  # by the covariance of the weighted rows
            slope -= (solved.T * (total / quadratic)) @ solved
            by_noise = noise * slope.trace() + n_outputs * (total - n_rows)
            fall *= slope
            if root is not None:
                fall *= root
                fall *= root[:, None]
            by_column = squares @ fall.sum(axis=1) - ((rows @ fall) * rows).sum(axis=1)
            rounding = 1e-9 * (squares @ np.abs(fall).sum(axis=1))  # the sign of which must not decide
            by_column[np.abs(by_column) <= rounding] = 0.0
            away = parameters[:-1] - start[:-1]
            value = total * np.log(quadratic).sum() + n_outputs * determinant + self.prior * (away @ away)
            return float(value), np.append(2.0 * (self.prior * away - factors * by_column), by_noise)

        low, high = np.array([(*LENGTHS,)] * n_columns + [(*NOISES,)]).T
        return np.round(_minimised(objective, start, low, high, self.n_steps), DECIMALS)


def _minimised(
    objective: Callable[[Array], tuple[float, Array]], start: Array, low: Array, high: Array, n_steps: int
) -> Array:
    """The best parameters of a resilient backpropagation (Rprop), which uses the signs of the gradient only.

    The step of a parameter grows while its gradient keeps its sign, and shrinks when the sign changes. On the scale of
    logarithms this finds the parameters of a Gaussian process in few steps.
    """
    parameters, step, before = start, np.full(len(start), FIRST_STEP), np.zeros(len(start))
    best, least = start, np.inf
    for _ in range(n_steps):
        value, gradient = objective(parameters)
        if value < least:
            best, least = parameters, value
        turned = gradient * before
        step = np.where(
            turned > 0, np.minimum(GROWTH * step, LARGEST_STEP), np.where(turned < 0, SHRINKAGE * step, step)
        )
        before = np.where(turned < 0, 0.0, gradient)
        parameters = np.clip(parameters - np.sign(before) * step, low, high)
    return best


def _searched(weight: Array, most: int) -> Array:
    """Indices of at most so many rows, evenly spread over the total weight."""
    if weight.sum() <= most:
        return np.arange(len(weight))
    below = np.cumsum(weight)
    return np.searchsorted(below, (np.arange(most) + 0.5) * (below[-1] / most))


def _cholesky(matrix: Array) -> Array:
    """The lower Cholesky factor, whose bits do not depend on the threads of a BLAS."""
    factor = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j] - (factor[j:, :j] * factor[j, :j]).sum(axis=1)
        factor[j:, j] = column / np.sqrt(max(column[0], JITTER))
    return factor


def _fitted(
    function: KernelFunction, parameters: Array, view: _View, y: Array, weight: Array, n_threads: int
) -> tuple[KernelFunction, Array]:
    """The posterior mean and its values on the rows; with many rows, as a sum over some of them."""
    factors, noise = np.sqrt(np.exp(parameters[:-1])), np.exp(parameters[-1:])
    rows = function.centres * factors[:, None]
    pairs, shape = COVARIANCES[COVARIANCE]
    if max(weight.sum(), rows.shape[1]) <= MOST_EXACT_ROWS:
        centres, K, root = rows, shape(pairs(rows, rows, n_threads)), np.sqrt(weight)
        solved, _ = _kernels.ridge_path(root[:, None] * K * root, view.t * root, noise)
        coefficients = solved[0] * root
    else:  # ridge regression on functions that are independent and of variance one under the process at the centres
        centres = np.ascontiguousarray(np.unique(rows[:, _searched(weight, N_CENTRES)], axis=1))
        K, own = (shape(pairs(centres, others, n_threads)) for others in (rows, centres))
        own.flat[:: len(own) + 1] += JITTER
        factor = _cholesky(own)
        basis = np.empty_like(K)
        for j in range(len(K)):
            known = factor[j : j + 1, :j].copy()
            below = _kernels.linear_outputs(known, np.zeros(1), basis[:j], n_threads)[0] if j else 0.0
            basis[j] = (K[j] - below) / factor[j, j]
        _, _, gram, cross = _kernels.moments(basis, view.t, weight, n_threads, centred=False)
        solved, _ = _kernels.ridge_path(gram, cross, noise)
        coefficients = solved[0].copy()
        for j in reversed(range(len(factor))):
            above = (coefficients[:, j + 1 :] * factor[j + 1 :, j]).sum(axis=1)
            coefficients[:, j] = (coefficients[:, j] - above) / factor[j, j]
    coefficients = coefficients * view.spread[:, None]
    output = _kernels.linear_outputs(coefficients, view.mean, K, n_threads)
    intercept = view.mean
    if view.zero is not None:
        output = np.exp(output)
        factor = ((y - view.zero[:, None]) * weight).sum(axis=1) / (output * weight).sum(axis=1)
        factor = np.clip(factor, 1 / MAX_FACTOR, MAX_FACTOR)
        intercept, output = intercept + np.log(factor), view.zero[:, None] + factor[:, None] * output
    function = KernelFunction(
        function.centre, function.scale * factors, function.limit * factors, centres, coefficients, COVARIANCE,
        intercept, view.zero,
    )  # fmt: skip
    return function, output
