"""Recursive least squares: ridge regression updated one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

__all__ = [
    "FORGETTING",
    "FORGET_EVERY",
    "INTERCEPT_PRIOR",
    "LEAF_PRIOR",
    "LINEAR_PRIOR",
    "RecursiveLeastSquares",
]

Array = NDArray[Any]
# the same for streams and for partial_fit
FORGETTING, FORGET_EVERY = 0.9995, 16  # weight of a row relative to the next; rows between two calls of ``forget``
INTERCEPT_PRIOR, LINEAR_PRIOR, LEAF_PRIOR = 100.0, 1.0, 0.3  # variances in standardised units


class RecursiveLeastSquares:
    """Ridge regression updated one row at a time, with forgetting; the covariance never exceeds its prior.

    Parameters
    ----------
    prior : ndarray of shape (n_basis,)
        Prior variance of each coefficient, the inverse of its ridge penalty.
    forgetting : float
        Weight of a row relative to the one after it, in (0, 1].
    """

    def __init__(self, prior: Array, forgetting: float) -> None:
        self.prior, self.forgetting = prior, forgetting
        self.coef = np.zeros(len(prior))
        self.covariance = np.diag(prior)

    def grow(self, prior: Array) -> None:
        """Append coefficients with the given prior variances."""
        n = len(self.prior)
        self.prior = np.concatenate([self.prior, prior])
        covariance = np.diag(self.prior)
        covariance[:n, :n] = self.covariance
        self.covariance = covariance
        self.coef = np.concatenate([self.coef, np.zeros(len(prior))])

    def update(self, basis: Array, error: float, weight: float) -> None:
        """Update with a row; ``error`` is its target minus the prediction before the update."""
        gain, variance = _kernels.rls_update(self.covariance, basis, self.forgetting / weight)
        if not variance >= 0.0:  # rounding has made the covariance indefinite
            self.covariance = np.diag(self.prior)
            return
        self.coef += gain * (error / (self.forgetting / weight + variance))

    def forget(self, factor: float) -> None:
        """Multiply the covariance by a factor, limited by the prior variance of each coefficient."""
        grown = np.maximum(np.diag(self.covariance) * factor, 1e-300)
        shrink = np.sqrt(np.minimum(1.0, self.prior / grown) * factor)
        self.covariance *= shrink[:, None] * shrink  # a single product keeps it exactly symmetric

    def solve(self, basis: Array, target: Array, weight: Array) -> None:
        """Refit from scratch on the rows of ``basis`` (n_rows, n_basis), oldest first."""
        weight = weight * self.forgetting ** np.arange(len(target) - 1, -1, -1)
        active = np.flatnonzero(basis.any(axis=0))  # the other coefficients keep their prior
        self.coef, self.covariance = np.zeros(len(self.prior)), np.diag(self.prior)
        if not len(active):
            return
        part = np.ascontiguousarray(basis[:, active].T)
        *_, information, cross = _kernels.moments(part, target[None], weight, centred=False)
        information[np.diag_indices_from(information)] += 1.0 / self.prior[active]
        self.coef[active], self.covariance[np.ix_(active, active)] = _kernels.solve_with_inverse(information, cross[0])

    def replace(self, places: slice, coef: Array, variance: float) -> None:
        """Reset coefficients whose basis functions changed to new values, uncorrelated with the others."""
        self.coef[places] = coef
        self.covariance[places] = 0.0
        self.covariance[:, places] = 0.0
        np.fill_diagonal(self.covariance[places, places], variance)
