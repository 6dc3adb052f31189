"""Weights of a combination of forecasts from the errors at past origins.

Absolute errors are compared relative to those of the current mixture, so that neither scales nor a few series with
large errors decide. A candidate gets the share that would have been best, reduced if its gain is not clearly above the
noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import stats

from ._panel import Array

__all__ = ["FARTHEST", "MOST", "Judged", "climb", "correlation_of", "own_weights", "relative_error"]

SHARES = np.linspace(0.0, 1.0, 11)
MOST = 0.8  # largest share of a candidate, all its kinds together
ASKED = 1.0  # standard errors that a gain of many series must exceed
SERIES_TO_TRUST = 20.0  # number of series up to which it must exceed one more, because series move together
FLOOR = 0.1  # added to errors, relative to the unit of the series, so that ratios of tiny errors do not matter
FEW_SERIES = 10  # with fewer series, blocks of origins are separate observations; fewer independent ones say less
LEAST_OBSERVATIONS = 2.0  # independent ones that a gain needs
FARTHEST = 4.0  # limit of errors that series have in common, in units
LARGEST = 1.5  # limit of the logarithm of a relative error
POWER = 4.0  # exponent of relative errors in the weights of a single series
BLOCKS_TO_TRUST = 3.0  # number of blocks at which the series' own errors have half of the weight


@dataclass(frozen=True)
class Judged:
    """Actual values at past origins, and the typical change of each series.

    Attributes
    ----------
    actual : ndarray of shape (n_series, n_origins, h)
        NaN if a value is unknown.
    unit : ndarray of shape (n_series, n_origins)
        Typical change of y.
    per_block : int
        Number of origins within one horizon, which share actual values.
    bank : ndarray of shape (n_series, n_origins, h), or None
        Forecasts of the bank.
    correlation : float, default=0.0
        Mean correlation of the errors of the bank for two series, from :func:`correlation_of`.
    """

    actual: Array
    unit: Array
    per_block: int
    bank: Array | None = None
    correlation: float = 0.0

    def take(self, series: Array) -> Judged:
        """The series with these indices."""
        bank = None if self.bank is None else self.bank[series]
        return replace(self, actual=self.actual[series], unit=self.unit[series], bank=bank)

    def error(self, forecast: Array) -> Array:
        """Mean absolute error at every origin (n_series, n_origins); NaN without a known value."""
        size = np.abs(self.actual - forecast)
        known = ~np.isnan(size)
        count = known.sum(axis=2)
        return np.where(count > 0, np.where(known, size, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)

    @cached_property
    def n_judged(self) -> int:
        """Number of series with a known value at some origin."""
        return int((~np.isnan(self.actual)).any(axis=(1, 2)).sum())

    def independent(self, current: Array, mixture: Array) -> float:
        """Number of independent series whose mean gain varies as much as that of these series.

        Gains are alike where the errors are alike and are corrected alike. What the mixture explains of the errors that
        series have in common does not count: a column that all series follow is no chance of these origins.
        """
        of_bank = 0.0 if self.bank is None else self._common(self.bank)
        unexplained = min(self._common(mixture) / of_bank, 1.0) if of_bank > 0 else 0.0
        corrected = _alike((mixture - current).reshape(len(current), -1))
        correlation = self.correlation * unexplained * corrected
        return self.n_judged / (1 + max(self.n_judged - 1, 0) * correlation)

    def _common(self, forecast: Array) -> float:
        """Sum of the products of the errors of all pairs of series at the same times, in units; at least zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.clip((self.actual - forecast) / self.unit[..., None], -FARTHEST, FARTHEST)
        return max(_of_pairs(np.where(np.isfinite(error), error, 0.0)), 0.0)

    def by_block(self, values: Array) -> Array:
        """Means over blocks of origins (n_series, n_blocks), or over all origins if there are many series."""
        n_series, n_origins = values.shape
        n_blocks = 1 if self.n_judged >= FEW_SERIES else -(-n_origins // self.per_block)
        padded = np.full((n_series, n_blocks * -(-n_origins // n_blocks)), np.nan)
        padded[:, :n_origins] = values
        parts = padded.reshape(n_series, n_blocks, -1)
        known = ~np.isnan(parts)
        count = known.sum(axis=2)
        return np.where(count > 0, np.where(known, parts, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)


def correlation_of(errors: Array) -> float:
    """Mean correlation of the errors of two series at the same time; zero if it is negative or unknown.

    The mean of all errors is subtracted, since a correction may remove it. What is left moves the mean of the panel up
    and down with time.

    Parameters
    ----------
    errors : ndarray of shape (n_series, n_times)
        Signed errors; NaN are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast._evidence import correlation_of
    >>> together = np.array([[1.0, -1.0, 1.0, -1.0]] * 3)
    >>> correlation_of(together), correlation_of(together * [[1], [-1], [0]])
    (1.0, 0.0)
    """
    return _alike(errors - np.nanmean(errors)) if not np.isnan(errors).all() else 0.0


def _alike(values: Array) -> float:
    """Mean product of the values (n_series, n_times) of two series, each relative to its size; between 0 and 1."""
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    size = np.sqrt((values**2).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1))
    n_pairs = _of_pairs(known.astype(np.float64))
    relative = np.divide(values, size, out=np.zeros_like(values), where=size > 0)
    return float(np.clip(_of_pairs(relative) / n_pairs, 0.0, 1.0)) if n_pairs else 0.0


def _of_pairs(values: Array) -> float:
    """Sum of the products of the values of all pairs of series, over all times."""
    return float((values.sum(axis=0) ** 2 - (values**2).sum(axis=0)).sum())


def relative_error(judged: Judged, forecast: Array, naive: Array) -> float:
    """Geometric mean over series of the absolute error relative to that of the naive forecast."""
    mine, theirs = judged.error(forecast), judged.error(naive)
    both = ~np.isnan(mine) & ~np.isnan(theirs)
    n = both.sum(axis=1)
    floor = FLOOR * np.nan_to_num(judged.unit).mean(axis=1)
    total = [np.where(both, e, 0.0).sum(axis=1) / np.maximum(n, 1) + floor for e in (mine, theirs)]
    there = (n > 0) & (total[1] > 0)
    return float(np.exp(np.mean(np.log(total[0][there] / total[1][there])))) if there.any() else float("nan")


def climb(judged: Judged, current: Array, candidate: Array, usual: float | None = None) -> float:
    """Share of a candidate in the mixture; forecasts have shape (n_series, n_origins, h).

    Shares are compared by the mean over series of the logarithm of the error, which is not dominated by series with
    large errors. The best share on a grid, at most 0.8, is multiplied by ``clip(z - asked, 0, 1)``. z is the paired t
    statistic of its gain over series, converted to the normal score with the same probability, because t statistics of
    two or three observations are often large by chance. If there are fewer than ten series, the observations are blocks
    of origins. Series whose errors are correlated count as fewer series, if fewer than ten are left. ``asked`` is 1 for
    many series and 2 for at most twenty.

    Series move together, so even many of them say little about the best share. If the share that a candidate usually
    deserves is known, the mean of both is used, at most twice the best one: a larger share would have been worse than
    none.
    """
    candidate = np.where(np.isnan(candidate), current, candidate)
    floor = FLOOR * judged.by_block(judged.unit)
    relative = np.stack([
        np.log(judged.by_block(judged.error((1 - share) * current + share * candidate)) + floor).ravel()
        for share in SHARES
    ])  # fmt: skip
    relative = np.clip(relative - relative[0], -LARGEST, LARGEST)
    relative = relative[:, np.isfinite(relative).all(axis=0)]
    n: float = relative.shape[1]
    if n < 2:
        return 0.0
    best = int(np.argmin(relative.mean(axis=1)))
    gain = relative[0] - relative[best]
    if not gain.mean() > 0:
        return 0.0
    independent = judged.independent(current, (1 - SHARES[best]) * current + SHARES[best] * candidate)
    if independent < FEW_SERIES:
        n *= independent / judged.n_judged
        if n < LEAST_OBSERVATIONS:
            return 0.0
    noise = gain.std(ddof=1) / np.sqrt(n)
    # gains without noise are all at the limit
    z = stats.norm.isf(stats.t.sf(gain.mean() / noise, n - 1)) if noise > 0 else np.inf
    asked = ASKED + min(1.0, SERIES_TO_TRUST / judged.n_judged)
    share = SHARES[best] if usual is None else min((SHARES[best] + usual) / 2, 2 * SHARES[best])
    return float(min(share, MOST) * np.clip(z - asked, 0.0, 1.0))


def own_weights(judged: Judged, forecasts: list[Array], weights: Array) -> Array:
    """Weights of the candidates for each series (n_series, n_candidates): those of the panel, adjusted by own errors.

    The adjustment is a power of the errors relative to the mean error of the candidates, which grows with the number of
    blocks of origins of the series.
    """
    used = np.flatnonzero(weights > 0)
    out = np.tile(weights, (len(judged.actual), 1))
    if len(used) < 2:
        return out
    errors = np.stack([judged.error(forecasts[c]) for c in used])  # (n_used, n_series, n_origins)
    known = ~np.isnan(errors).any(axis=0)
    n = known.sum(axis=1)
    floor = FLOOR * np.nan_to_num(judged.unit).mean(axis=1)
    mean = np.where(known, errors, 0.0).sum(axis=2) / np.maximum(n, 1) + floor
    blocks = n / judged.per_block
    power = POWER * blocks / (blocks + BLOCKS_TO_TRUST)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where((n > 0) & (mean > 0), (mean.mean(axis=0) / mean) ** power, 1.0)
    mine = weights[used][:, None] * factor
    out[:, used] = (mine / mine.sum(axis=0)).T
    return out
