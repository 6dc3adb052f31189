"""Prediction intervals from errors made out of sample: split conformal, with a way out where errors are few."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ._panel import Array

__all__ = ["Pool", "check_levels", "conformal_widths", "panel_widths", "pool_errors"]

ENOUGH = 20  # errors of its own that a series needs to be judged by itself


def check_levels(level: Sequence[float]) -> list[float]:
    """Levels in rising order; they are percentages between 0 and 100."""
    levels: list[Any] = list(level) if isinstance(level, (list, tuple, set, np.ndarray)) else [level]
    for value in levels:
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not 0 < value < 100:
            raise ValueError(f"level must hold percentages between 0 and 100, got {value!r}; e.g. level=[80, 95]")
        if value < 1:
            raise ValueError(
                f"level={value!r} looks like a share; levels are percentages, e.g. level=[{100 * value:g}]"
            )
    return sorted(set(levels))


def conformal_widths(errors: Array, levels: Sequence[float]) -> Array:
    """Half widths that cover a new error at each level, from n exchangeable ones.

    With n errors the k-th smallest size, k = ceil((n + 1) level), covers a new one with at least that probability.
    Where k > n no error is large enough to say; there the width is that of Student's t for their root mean square, and
    never less than the largest seen. Without any error it is infinite. Widths never shrink as the level grows, so
    quantiles do not cross.

    Parameters
    ----------
    errors : ndarray of shape (n, ...)
        NaN are left out.
    levels : sequence of float
        Percentages, rising.

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
    rms = np.sqrt(np.nansum(errors**2, axis=0) / np.maximum(n, 1))
    largest = np.take_along_axis(sizes, np.maximum(n - 1, 0)[None], axis=0)[0]
    widths = []
    for level in levels:
        rank = np.ceil((n + 1) * level / 100 - 1e-9).astype(int)
        chosen = np.take_along_axis(sizes, np.clip(rank - 1, 0, np.maximum(n - 1, 0))[None], axis=0)[0]
        student = stats.t.ppf(0.5 + level / 200, np.maximum(n, 1)) * rms * np.sqrt(1 + 1 / np.maximum(n, 1))
        widths.append(np.where(rank > n, np.maximum(largest, student), chosen))
    return np.maximum.accumulate(np.where(n > 0, np.array(widths), np.inf), axis=0)


@dataclass(frozen=True)
class Pool:
    """What the errors of all series say together.

    Attributes
    ----------
    widths : ndarray of shape (n_levels, h)
        Half widths of a series whose scale is one.
    typical : ndarray of shape (h,)
        Mean squared error of each step, in scales.
    floor : float
        Least scale.
    """

    widths: Array
    typical: Array
    floor: float


def pool_errors(errors: Array, scales: Array, levels: Sequence[float], overlap: float = 1.0) -> Pool | None:
    """Errors (n_series, n_windows, h) divided by the series' scale and judged together; None for a single series."""
    if len(errors) < 2:
        return None
    floor = float(1e-9 * np.fmax.reduce(scales, initial=1e-300))  # not of series without a scale
    relative = (errors / np.maximum(scales, floor)[:, None, None]) ** 2
    typical = np.maximum(np.nanmean(relative, axis=(0, 1)), 1e-24)  # so that looks are one on average, for any n
    judging, _ = _blended(errors, scales, typical, floor, overlap)
    scores = (errors / judging[:, :, None]).reshape(-1, errors.shape[2])
    return Pool(conformal_widths(scores, levels), typical, floor)


def panel_widths(
    errors: Array, scales: Array, levels: Sequence[float], pool: Pool | None = None, overlap: float = 1.0
) -> Array:
    """Half widths for each series and step.

    A series with at least 20 errors at a step is judged by its own. Others are judged together: the width of all
    series, for a scale of one, is multiplied by the scale of the series.

    Parameters
    ----------
    errors : ndarray of shape (n_series, n_windows, h)
        NaN where a series had no such window.
    scales : ndarray of shape (n_series,)
        Size of a step in the training rows.
    levels : sequence of float
    pool : Pool or None, default=None
        Errors of all series together, from :func:`pool_errors`; None uses the errors of each series alone.
    overlap : float, default=1.0
        Windows that share a horizon, and so count as one.

    Returns
    -------
    widths : ndarray of shape (n_levels, n_series, h)
    """
    own = conformal_widths(np.moveaxis(errors, 1, 0), levels)
    if pool is None:
        return own
    n_own = np.sum(~np.isnan(errors), axis=1) / overlap
    _, scales = _blended(errors, scales, pool.typical, pool.floor, overlap)
    return np.where(n_own[None] >= ENOUGH, own, pool.widths[:, None, :] * scales[None, :, None])


def _blended(errors: Array, scales: Array, typical: Array, floor: float, overlap: float) -> tuple[Array, Array]:
    """Scales of the training rows, moved towards the series' own errors as far as these are many.

    A window's errors are one look at the series, however many steps it has; four windows weigh as much as the training
    rows. An error is judged by a scale that has not seen its own window, or it would look smaller than a new one will.

    Returns
    -------
    judging : ndarray of shape (n_series, n_windows)
        Scales to divide the errors of each window by.
    final : ndarray of shape (n_series,)
        Scales for the forecasts to come.
    """
    scales = np.maximum(scales, floor)
    relative = (errors / scales[:, None, None]) ** 2
    present = ~np.isnan(errors).all(axis=2)
    looks = np.nan_to_num(relative / typical).mean(axis=2)
    n, total = present.sum(axis=1), looks.sum(axis=1)

    def blend(n: Array, total: Array) -> Array:
        weight = n / (n + 4.0 * overlap)
        return np.sqrt((1 - weight) + weight * total / np.maximum(n, 1))

    judging = scales[:, None] * blend((n[:, None] - present), total[:, None] - looks)
    return judging, scales * blend(n, total)
