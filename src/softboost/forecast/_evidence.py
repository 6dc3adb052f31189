"""Evidence for a combination of forecasts: how candidates did at past origins, and how far that is to be trusted.

Errors are absolute and relative to what is used already, so that no explosive series and no scale decides. A candidate
joins by the share that would have been best, held back where its gain is not well above its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._panel import Array

__all__ = ["Judged", "climb", "own_weights", "relative_error"]

SHARES = np.linspace(0.0, 1.0, 11)
MOST = 0.8  # largest share that a candidate may take from what was there before it
ASKED = 1.0  # standard errors that a gain has to exceed
FLOOR = 0.1  # of a unit, added to errors that others are compared with: next to nothing is no yardstick
FEW_SERIES = 10  # with fewer, blocks of origins of one series count as well
LARGEST = 1.5  # logarithm of an error relative to what is used already: worse than that is all the same
POWER = 8.0  # of relative errors, in the weights of a single series
BLOCKS_TO_TRUST = 3.0  # judged blocks after which a series' own errors count half


@dataclass(frozen=True)
class Judged:
    """Truth at past origins, with what a change of each series is.

    Attributes
    ----------
    actual : ndarray of shape (n_series, n_origins, h)
        NaN where a value is not known.
    unit : ndarray of shape (n_series, n_origins)
        Size of a change, of y.
    per_block : int
        Origins that lie within one horizon, and so share what they are judged on.
    """

    actual: Array
    unit: Array
    per_block: int

    def take(self, series: Array) -> Judged:
        """Only these series."""
        return Judged(self.actual[series], self.unit[series], self.per_block)

    def error(self, forecast: Array) -> Array:
        """Mean absolute error at every origin (n_series, n_origins); NaN where nothing is known."""
        size = np.abs(self.actual - forecast)
        known = ~np.isnan(size)
        count = known.sum(axis=2)
        return np.where(count > 0, np.where(known, size, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)

    def by_block(self, values: Array) -> Array:
        """Means over blocks of origins (n_series, n_blocks), or over all origins where there are many series."""
        n_series, n_origins = values.shape
        n_blocks = 1 if n_series >= FEW_SERIES else -(-n_origins // self.per_block)
        padded = np.full((n_series, n_blocks * -(-n_origins // n_blocks)), np.nan)
        padded[:, :n_origins] = values
        parts = padded.reshape(n_series, n_blocks, -1)
        known = ~np.isnan(parts)
        count = known.sum(axis=2)
        return np.where(count > 0, np.where(known, parts, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)


def relative_error(judged: Judged, forecast: Array, naive: Array) -> float:
    """Geometric mean over series of the absolute error relative to the naive's."""
    mine, theirs = judged.error(forecast), judged.error(naive)
    both = ~np.isnan(mine) & ~np.isnan(theirs)
    n = both.sum(axis=1)
    floor = FLOOR * np.nan_to_num(judged.unit).mean(axis=1)
    total = [np.where(both, e, 0.0).sum(axis=1) / np.maximum(n, 1) + floor for e in (mine, theirs)]
    there = (n > 0) & (total[1] > 0)
    return float(np.exp(np.mean(np.log(total[0][there] / total[1][there])))) if there.any() else float("nan")


def climb(judged: Judged, current: Array, candidate: Array) -> float:
    """Share of a candidate in place of what is used so far, forecasts of shape (n_series, n_origins, h).

    Shares are compared by the mean logarithm of the error of a series, which no series of large errors decides, and
    which does not favour what an error is compared with. The best share on a grid, at most 0.8, is taken times
    ``clip(t - 1, 0, 1)``: t is the paired t value of its gain over series (over blocks of origins where series are
    few), shrunk where these are few.
    """
    candidate = np.where(np.isnan(candidate), current, candidate)
    floor = FLOOR * judged.by_block(judged.unit)
    relative = np.stack([
        np.log(judged.by_block(judged.error((1 - share) * current + share * candidate)) + floor).ravel()
        for share in SHARES
    ])  # fmt: skip
    relative = np.clip(relative - relative[0], -LARGEST, LARGEST)
    relative = relative[:, np.isfinite(relative).all(axis=0)]
    n = relative.shape[1]
    if n < 2:
        return 0.0
    best = int(np.argmin(relative.mean(axis=1)))
    gain = relative[0] - relative[best]
    noise = gain.std(ddof=1) / np.sqrt(n)
    if not noise > 0:
        return 0.0
    t = gain.mean() / noise * np.sqrt((n - 1) / (n + 4))
    return float(min(SHARES[best], MOST) * np.clip(t - ASKED, 0.0, 1.0))


def own_weights(judged: Judged, forecasts: list[Array], weights: Array) -> Array:
    """Weights of candidates for each series (n_series, n_candidates): the panel's, moved by the series' own errors.

    They move by powers of errors relative to the mean error of the candidates, and the more, the more blocks of origins
    a series was judged on.
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
