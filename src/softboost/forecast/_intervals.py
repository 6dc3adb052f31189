"""Prediction intervals from out-of-sample errors: split conformal, with Student's t where errors are few."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.isotonic import isotonic_regression

from ._panel import Array

__all__ = [
    "Pool",
    "Pools",
    "borrowed_scales",
    "check_levels",
    "conformal_widths",
    "panel_widths",
    "pool_errors",
    "shaped",
    "usual_changes",
]

ENOUGH = 20  # number of errors from which a series uses its own errors only
LATEST = 2000  # windows, counted over series, that show whether errors have grown lately
BLOCK = 200  # likewise, that show how large the errors of a time, or of short series, are
DEVIATIONS = 0.5  # standard deviations by which errors of the time to come may exceed those of the past
LEAST_VALUES = 3  # values from which the changes of a series are known
LEAST_SCALE = 0.01  # lower limit of a scale, relative to the errors of the series
PRIOR_WINDOWS = 0.3  # windows with typical errors that are added to the series' own, so that no scale is zero
ENOUGH_FOR_STUDENT = 5  # number of errors that fewer ones are filled up to, with errors of the usual size
WINDOWS_TO_TRUST = 2.0  # windows without overlap at which the series' own errors have half of the weight
HALF_LIVES = np.inf, 2.5  # windows without overlap after which an error counts half in the scale of its series


def check_levels(level: Sequence[float]) -> list[float]:
    """Sorted levels; they must be percentages between 0 and 100."""
    levels: list[Any] = list(level) if isinstance(level, (list, tuple, set, np.ndarray)) else [level]
    for value in levels:
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not 0 < value < 100:
            raise ValueError(f"level must be percentages between 0 and 100, got {value!r}; e.g. level=[80, 95]")
        if value < 1:
            raise ValueError(
                f"level={value!r} looks like a share; levels are percentages, e.g. level=[{100 * value:g}]"
            )
    return sorted(set(levels))


def conformal_widths(errors: Array, levels: Sequence[float], usual: Array | None = None) -> Array:
    """Half widths that cover a new error at each level, from n exchangeable ones.

    With n errors, the k-th smallest absolute error, k = ceil((n + 1) level), covers a new error with at least this
    probability. If k > n, the width is that of Student's t for the root mean square of the errors, but at least the
    largest error. Without errors it is infinite. Widths never decrease with the level, so quantiles do not cross.

    The quantiles of Student's t are very large for one or two errors. If the size of an error is roughly known
    beforehand (``usual``), fewer than five errors are filled up to five with errors of this size.

    Parameters
    ----------
    errors : ndarray of shape (n, ...)
        NaN are ignored.
    levels : sequence of float
        Percentages in increasing order.
    usual : ndarray of shape (...), default=None
        Root mean square that errors usually have; zero or NaN if it is not known.

    Returns
    -------
    widths : ndarray of shape (n_levels, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast._intervals import conformal_widths
    >>> conformal_widths(np.arange(1.0, 21.0), [80, 95])
    array([17., 20.])
    """
    sizes = np.sort(np.abs(errors), axis=0)  # NaN go last
    n = np.sum(~np.isnan(errors), axis=0)
    usual = np.zeros(n.shape) if usual is None else np.where(usual > 0, usual, 0.0)
    n_usual = np.where(usual > 0, np.maximum(ENOUGH_FOR_STUDENT - n, 0), 0)
    df = np.maximum(n + n_usual, 1)
    rms = np.sqrt((np.nansum(errors**2, axis=0) + n_usual * usual**2) / df)
    largest = np.take_along_axis(sizes, np.maximum(n - 1, 0)[None], axis=0)[0]
    widths = []
    for level in levels:
        rank = np.ceil((n + 1) * level / 100 - 1e-9).astype(int)
        chosen = np.take_along_axis(sizes, np.clip(rank - 1, 0, np.maximum(n - 1, 0))[None], axis=0)[0]
        student = stats.t.ppf(0.5 + level / 200, df) * rms * np.sqrt(1 + 1 / df)
        widths.append(np.where(rank > n, np.maximum(largest, student), chosen))
    return np.maximum.accumulate(np.where(n > 0, np.array(widths), np.inf), axis=0)


@dataclass(frozen=True)
class Pool:
    """Pooled errors of all series.

    Attributes
    ----------
    widths : ndarray of shape (n_levels, h)
        Half widths of a series with a scale of one.
    typical : ndarray of shape (h,)
        Mean absolute error of each step, relative to the scale.
    floor : float
        Smallest scale.
    half_life : float
        One of ``HALF_LIVES``.
    """

    widths: Array
    typical: Array
    floor: float
    half_life: float


def pool_errors(
    errors: Array, scales: Array, levels: Sequence[float], overlap: float = 1.0, cycle: int = 1, phase: int = 0
) -> Pool | None:
    """Pool errors (n_series, n_windows, h), divided by the scale of their series; None for a single series.

    Windows are in the order of time. Those that end after the last row are known for their first steps only. Errors of
    a panel rise and fall together, so widths are the mean of those that cover the errors of all windows and of those
    that cover the latest ones of each step by themselves, and a bit more if the errors of some times were larger than
    those of others. They do not decrease with the step: where the quantiles do, neighbouring steps share their mean.

    ``cycle`` is the number of windows after which the season repeats, and ``phase`` the number of windows after the
    latest one that starts at the same time of the season as the forecasts, or nearly so. If there are enough such
    windows, only they are used: errors depend on the hour or the month.
    """
    if len(errors) < 2:
        return None
    h = errors.shape[2]
    floor = float(1e-9 * np.min(scales, where=scales > 0, initial=1.0))  # of series without a scale
    scales = _floored(errors, scales, floor)
    relative = np.abs(errors / scales[:, None, None])
    typical = np.maximum(_nanmean(relative, axis=(0, 1)), 1e-24)  # so that the mean observation is one for any n
    own = _OwnScales(errors, scales, typical, overlap)
    half_life = min(HALF_LIVES, key=own.loss)
    judging = own.judging(half_life)
    if len(errors) * (errors.shape[1] // cycle) < LATEST:
        cycle, phase = 1, 0
    scores = _latest_known((errors / judging[:, :, None])[:, ::-1][:, phase::cycle])
    n_latest = max(int(np.ceil(overlap / cycle)), -(-LATEST // (len(errors) * cycle)))
    parts = (part.reshape(-1, h) for part in (scores, scores[:, :n_latest]))
    widths = np.mean([conformal_widths(part, levels, np.sqrt(np.arange(1, h + 1))) for part in parts], axis=0)
    if np.isfinite(widths).all():
        widths = np.array([isotonic_regression(width) for width in widths])
    return Pool(widths * np.exp(DEVIATIONS * _between_times(scores, n_latest)), typical, floor, half_life)


def _latest_known(scores: Array) -> Array:
    """Scores (n_series, n_windows, h), the latest window first, where each step begins with its latest known window."""
    first = np.isfinite(scores).any(axis=0).argmax(axis=0)
    n_windows = scores.shape[1] - int(first.max(initial=0))
    return np.stack([scores[:, start : start + n_windows, step] for step, start in enumerate(first)], axis=2)


def _between_times(scores: Array, n_windows: int) -> float:
    """Standard deviation of the logarithm of the size of errors, between blocks of ``n_windows`` windows.

    The sizes are computed for two halves of the series. Their covariance is not increased by the noise of the sizes.
    """
    sizes, n = [], []
    for start in range(0, scores.shape[1] - n_windows + 1, n_windows):
        block = scores[:, start : start + n_windows]
        halves = [half[np.isfinite(half).all(axis=2)] for half in (block[::2], block[1::2])]
        if min(map(len, halves)) >= BLOCK // 2:
            quantiles = [np.quantile(np.abs(half), 0.9, axis=0) for half in halves]
            sizes.append([np.mean(np.log(np.maximum(q, 1e-24))) for q in quantiles])
            n.append(sum(map(len, halves)))
    if len(sizes) < 2:
        return 0.0
    return float(np.sqrt(max(np.cov(np.array(sizes).T, aweights=n)[0, 1], 0.0)))


def panel_widths(
    errors: Array, scales: Array, levels: Sequence[float], pool: Pool | None = None, overlap: float = 1.0
) -> Array:
    """Half widths for each series and step, which do not decrease with the step.

    A series with at least 20 errors at a step uses its own errors. The others use the pooled errors: the width of a
    series whose scale is one is multiplied by the scale of the series. Without pooled errors, a series of few errors
    also uses the errors of a random walk with its scale.

    Parameters
    ----------
    errors : ndarray of shape (n_series, n_windows, h)
        NaN where a series had no such window.
    scales : ndarray of shape (n_series,)
        Typical one-step change in the training rows; NaN if it is not known.
    levels : sequence of float
    pool : Pool or None, default=None
        Errors of all series together, from :func:`pool_errors`; None uses the errors of each series alone.
    overlap : float, default=1.0
        Number of windows that overlap within one horizon; together they count as one.

    Returns
    -------
    widths : ndarray of shape (n_levels, n_series, h)
    """
    random_walk = np.sqrt(np.arange(1, errors.shape[2] + 1))
    widths = conformal_widths(np.moveaxis(errors, 1, 0), levels, scales[:, None] * random_walk)
    if pool is not None:
        n_own = np.sum(~np.isnan(errors), axis=1) / overlap
        final = _OwnScales(errors, _floored(errors, scales, pool.floor), pool.typical, overlap).final(pool.half_life)
        together = pool.widths[:, None, :] * final[None, :, None]
        widths = np.where((n_own >= ENOUGH) & (widths > 0).all(axis=0), widths, together)
    # a series that changes has intervals, even if it has hardly changed so far
    widths = np.fmax(widths, LEAST_SCALE * scales[:, None] * random_walk)
    widths = np.where(np.isinf(widths) & np.isnan(scales[:, None]), np.nan, widths)
    return np.maximum.accumulate(widths, axis=2)


@dataclass(frozen=True)
class Pools:
    """Pooled errors for series of different lengths.

    Attributes
    ----------
    long : Pool or None
        Errors of the series that are not short, for these; None if there is one.
    short : Pool or None
        Errors of the others, for these; of all series if the others have fewer than 200 windows.
    """

    long: Pool | None
    short: Pool | None

    @classmethod
    def of(
        cls,
        errors: Array,
        scales: Array,
        short: Array,
        levels: Sequence[float],
        overlap: float,
        cycle: int,
        phase: int = 0,
    ) -> Pools:
        """Pool errors (n_series, n_windows, h) as :func:`pool_errors` does; ``short`` marks the short series."""
        n_windows = (~np.isnan(errors[short])).any(axis=2).sum()
        rest = short if n_windows >= BLOCK else np.ones_like(short)

        def pool(mine: Array) -> Pool | None:
            return pool_errors(errors[mine], scales[mine], levels, overlap, cycle, phase)

        of_long = pool(~short)
        return cls(of_long, pool(rest) if short.any() else of_long)

    def widths(self, errors: Array, scales: Array, short: Array, levels: Sequence[float], overlap: float) -> Array:
        """Half widths (n_levels, n_series, h) as :func:`panel_widths` computes them."""
        out = np.empty((len(levels), len(errors), errors.shape[2]))
        for mine, pool in ((~short, self.long), (short, self.short)):
            out[:, mine] = panel_widths(errors[mine], scales[mine], levels, pool, overlap)
        return out


def usual_changes(scales: Array, sizes: Array, n_known: Array) -> tuple[float, float]:
    """Median one-step change of the series that have changed, and its median relative to the size of their values."""
    told = (n_known >= LEAST_VALUES) & (scales > 0)
    relative = told & (sizes > 0)
    return _median(scales[told]), _median(scales[relative] / sizes[relative])


def borrowed_scales(scales: Array, sizes: Array, n_known: Array, usual: tuple[float, float]) -> Array:
    """Scales, with those of series that have shown no change taken from the other series of the panel.

    A series of fewer than three values gets the usual change, relative to the size of its values. A longer series that
    has never changed gets ``1 / sqrt(n_known)`` of it. Without other series, the scale of a short series is NaN.

    Parameters
    ----------
    scales : ndarray of shape (n_series,)
        Typical one-step changes.
    sizes : ndarray of shape (n_series,)
        Typical absolute values, or ones if changes are relative already.
    n_known : ndarray of int, shape (n_series,)
        Number of known values.
    usual : tuple of float
        From :func:`usual_changes` of the panel.
    """
    change, share = usual
    borrowed = np.where(sizes > 0, (0.0 if np.isnan(share) else share) * sizes, change) if change > 0 else np.nan
    short = n_known < LEAST_VALUES
    still = ~short & ~(scales > 0)
    out = np.where(short, borrowed, scales)
    return np.where(still, np.nan_to_num(borrowed) / np.sqrt(np.maximum(n_known, 1)), out)


def shaped(low: Array, high: Array, floors: Array) -> tuple[Array, Array]:
    """Bounds (..., h) that are not below the floors and whose distance never decreases with the step.

    Bounds that are formed on the scale of logarithms approach each other where forecasts fall; there the upper bound
    is raised.
    """
    low = np.maximum(low, floors)
    return low, np.maximum(high, low + np.maximum.accumulate(high - low, axis=-1))


def _floored(errors: Array, scales: Array, floor: float) -> Array:
    """Scales that are not negligible beside the errors of their series, which would dominate the pooled errors."""
    own = np.sqrt(_nanmean(errors**2, axis=(1, 2)))
    return np.maximum(scales, np.maximum(np.nan_to_num(LEAST_SCALE * own), floor))


class _OwnScales:
    """Scales of series from their own errors: geometric means of the scales of the training rows and of the errors.

    The weight of the errors grows with the number of windows. All steps of a window count as one observation, and some
    of them as a part of one. Absolute errors and geometric means keep one wild window, or one wild change in the
    training rows, from deciding the scale. Where series have calm and rough times, errors fade with their distance in
    time.
    """

    def __init__(self, errors: Array, scales: Array, typical: Array, overlap: float) -> None:
        self.scales, self.overlap = scales, overlap
        self.present = (~np.isnan(errors)).mean(axis=2)
        self.sizes = np.nan_to_num(np.abs(errors / scales[:, None, None]) / typical).mean(axis=2)

    def final(self, half_life: float) -> Array:
        """Scales of the forecasts (n_series,)."""
        n, total = self._before(half_life)
        return np.asarray(self.scales * self._factor(n[:, -1], total[:, -1]))

    def judging(self, half_life: float) -> Array:
        """Scales (n_series, n_windows) to divide the errors of each window by.

        They do not include the window itself; otherwise its errors would look smaller than new ones.
        """
        sides = zip(self._before(half_life), self._before(half_life, order=-1), strict=True)
        n, total = (before[:, :-1] + after[:, -2::-1] for before, after in sides)
        return np.asarray(self.scales[:, None] * self._factor(n, total))

    def loss(self, half_life: float) -> float:
        """Mean loss of the scale from earlier windows that do not overlap: that of Laplace's density."""
        n_apart = self.present.shape[1] - int(np.ceil(self.overlap)) + 1
        if n_apart < 1:
            return 0.0
        n, total = (sums[:, :n_apart] for sums in self._before(half_life))
        factor, sizes = self._factor(n, total), self.sizes[:, -n_apart:]
        there = (self.present[:, -n_apart:] == 1) & (n > 0)
        return float(np.mean((np.log(factor) + sizes / factor)[there])) if there.any() else 0.0

    def _before(self, half_life: float, order: int = 1) -> tuple[Array, Array]:
        """Number of windows before each one and after the last one, and sum of their sizes, both faded."""
        keep = 0.5 ** (1 / (half_life * self.overlap))
        n, total = (_faded_sums(values[:, ::order], keep) for values in (self.present, self.sizes))
        return n, total

    def _factor(self, n: Array, total: Array) -> Array:
        weight = n / (n + WINDOWS_TO_TRUST * self.overlap)
        return np.asarray(((total + PRIOR_WINDOWS) / (n + PRIOR_WINDOWS)) ** weight)


def _faded_sums(values: Array, keep: float) -> Array:
    """Sums over the columns before each one and before the end, where every step back in time counts ``keep`` times."""
    out = np.zeros((len(values), values.shape[1] + 1))
    for k in range(values.shape[1]):
        out[:, k + 1] = keep * (out[:, k] + values[:, k])
    return out


def _median(values: Array) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _nanmean(values: Array, axis: Any) -> Array:
    """Mean of the values that are not NaN; NaN without any."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)
