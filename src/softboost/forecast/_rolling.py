"""Rolling origins: forecasts from several moments of the past, and intervals from their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ._intervals import Pools, borrowed_scales, shaped, usual_changes
from ._panel import Array, Future, Panel
from ._smoothing import stride_of
from .target_transforms import Chain, Log

__all__ = [
    "CanForecast",
    "Scores",
    "calibration_origins",
    "calibration_scores",
    "common_origins",
    "moments",
    "never_negative",
    "origins_at",
    "own_origins",
    "roll",
    "scaled_errors",
    "typical_sizes",
]

MIN_HISTORY = 2
MIN_WINDOWS = 6  # of each series, however many series there are


class CanForecast(Protocol):
    """Interface of a fitted model for rolling origins."""

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts after the histories of a panel."""

    def learn(self, panel: Panel, n_new: Array) -> None:
        """Update the model with the last rows."""


def own_origins(panel: Panel, h: int, n_windows: int, step_size: int) -> Array:
    """Rows after each origin (n_series, n_windows), the last origin ``h`` rows before the end of each series."""
    return np.tile(h + step_size * np.arange(n_windows - 1, -1, -1), (panel.n_series, 1))


def common_origins(panel: Panel, h: int, n_windows: int, step_size: int) -> Array:
    """Rows after each origin (n_series, n_windows), where origins are moments in time, the same for all series.

    The last origin is ``h`` steps before the latest time of the panel. A model fitted at an origin then uses no later
    value of any series, even if series end at different times.
    """
    return origins_at(panel, moments(np.unique(panel.times), h, n_windows, step_size))


def moments(axis: Array, h: int, n_windows: int, step_size: int) -> list[Any]:
    """The last time known at each origin, given all times in order; None before the first of them."""
    places = len(axis) - 1 - h - step_size * np.arange(n_windows - 1, -1, -1)
    return [axis[p] if p >= 0 else None for p in places]


def origins_at(panel: Panel, known: list[Any]) -> Array:
    """Rows after each of some moments (n_series, n_moments)."""
    return np.column_stack([panel.sizes if moment is None else panel.rows_after(moment) for moment in known])


def roll(
    fit: Callable[[Panel], CanForecast],
    panel: Panel,
    back: Array,
    h: int,
    refit: bool | int | str,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Array, Array]:
    """Forecasts from origins that are ``back`` (n_series, n_windows) rows before the end of each series.

    ``refit`` False fits before the first origin only, an integer k at every k-th origin, True at every origin. "online"
    updates the model with the rows between two origins.

    Returns
    -------
    y, forecast : ndarray of shape (n_series, n_windows, h)
        NaN if a series has no history, had none when the model was fitted, or has ended.
    """
    n_windows = back.shape[1]
    every = {True: 1, False: n_windows, "online": n_windows}.get(refit, refit)
    assert isinstance(every, int)
    y = np.full((panel.n_series, n_windows, h), np.nan)
    forecast = y.copy()
    for first in range(0, n_windows, every):
        block = np.arange(first, min(first + every, n_windows))
        chosen = np.flatnonzero(panel.sizes - back[:, first] >= MIN_HISTORY)
        if not len(chosen):
            continue
        mine, then = panel.take(chosen), back[np.ix_(chosen, block)]
        fitted = fit(mine.cut(then[:, 0]))
        there = np.ix_(chosen, block)
        y[there] = np.stack([mine.windows(b, h)[0] for b in then.T], axis=1)
        told = _online(fitted, mine, then, h, progress) if refit == "online" else _batch(fitted, mine, then, h)
        forecast[there] = np.where((then > 0)[..., None], told, np.nan)
        progress(f"window {block[-1] + 1}")
    return y, forecast


def _batch(fitted: CanForecast, panel: Panel, back: Array, h: int) -> Array:
    """All windows of one fit at once: each history is a separate series."""
    histories = Panel.stack([panel.cut(b) for b in back.T])
    future = Future.stack([panel.windows(b, h)[1] for b in back.T])
    series = np.tile(np.arange(panel.n_series), back.shape[1])
    out = fitted.predict(histories, series, future)
    return np.moveaxis(out.reshape(back.shape[1], panel.n_series, h), 0, 1)


def _online(fitted: CanForecast, panel: Panel, back: Array, h: int, progress: Callable[[str], None]) -> Array:
    everyone = np.arange(panel.n_series)
    out = []
    for w, b in enumerate(back.T):
        history = panel.cut(b)
        if w:
            fitted.learn(history, back[:, w - 1] - b)
        out.append(fitted.predict(history, everyone, panel.windows(b, h)[1]))
        progress(f"window {w + 1}")
    return np.stack(out, axis=1)


def calibration_origins(panel: Panel, h: int) -> Array:
    """Origins to calibrate intervals at (n_series, n_windows).

    A single series has up to 50 origins, and half of its rows stay for training. Each of many series has fewer origins,
    which are farther apart.
    """
    room = max(int(np.median(panel.sizes)) // 2 - h, 1)
    if panel.n_series == 1:
        return own_origins(panel, h, min(room, 50), 1)
    stride = stride_of(h)
    wanted = int(np.clip(np.ceil(1000 / panel.n_series), MIN_WINDOWS, 30))
    return own_origins(panel, h, min(1 + (room - 1) // stride, wanted), stride)


@dataclass(frozen=True)
class Scores:
    """Data for intervals: out-of-sample errors and typical one-step changes, on the link scale.

    Attributes
    ----------
    errors : ndarray of shape (n_series, n_windows, h)
        NaN where a series had no such window.
    scales : ndarray of shape (n_series,)
        Typical one-step change; NaN if it is unknown.
    overlap : float
        Number of windows that overlap within one horizon; together they count as one.
    logs : ndarray of bool, shape (n_series,), or None
        Series whose link is the logarithm; None if the target transforms determine the link of all series.
    limits : ndarray of shape (n_series,), or None
        Largest plausible half width, from the history of a series.
    nonnegative : ndarray of bool, shape (n_series,), or None
        Series whose values were never negative; None if it is not known, in old files.
    usual : tuple of float
        Median change of the series of the panel, absolute and relative to their values.
    unknown : bool
        Whether the errors are assumed, because no rows could be held back.
    cycle, phase : int
        Number of windows after which the season repeats, and number of windows after the latest one that starts at the
        same time of the season as the forecasts.
    short : ndarray of bool, shape (n_series,), or None
        Series whose errors say nothing about longer ones; None if all count alike.
    least_size : float
        Number of values from which a series of the panel is not short.
    """

    errors: Array
    scales: Array
    overlap: float = 1.0
    logs: Array | None = None
    limits: Array | None = None
    nonnegative: Array | None = None
    usual: tuple[float, float] = (float("nan"), float("nan"))
    unknown: bool = False
    cycle: int = 1
    short: Array | None = None
    least_size: float = 0.0
    phase: int = 0

    def pools(self, levels: list[float]) -> Pools:
        """Pooled errors of the series."""
        return Pools.of(self.errors, self.scales, self._short(), levels, self.overlap, self.cycle, self.phase)

    def _short(self) -> Array:
        return np.zeros(len(self.errors), dtype=bool) if self.short is None else self.short

    def widths(self, levels: list[float], h: int, pools: Pools) -> Array:
        """Half widths (n_levels, n_series, h) on the link scale, for the first ``h`` steps."""
        widths = pools.widths(self.errors, self.scales, self._short(), levels, self.overlap)[:, :, :h]
        return widths if self.limits is None else np.minimum(widths, self.limits[:, None])

    def bounds(self, forecast: Array, levels: list[float], transforms: Chain, pools: Pools) -> tuple[Array, Array]:
        """Lower and upper bounds (n_levels, n_series, ..., h) of forecasts (n_series, ..., h).

        Their distance never decreases with the step. A series that was never negative has no negative bound.
        """
        centre, inverse = self.link(forecast, transforms)
        widths = self.widths(levels, forecast.shape[-1], pools)
        widths = widths.reshape(len(levels), len(forecast), *[1] * (forecast.ndim - 2), -1)
        floors: Array = np.full(len(forecast), -np.inf)
        if self.nonnegative is not None:
            floors[self.nonnegative] = 0.0
        floors = floors.reshape(-1, *[1] * (forecast.ndim - 1))
        pairs = [shaped(inverse(centre - w), inverse(centre + w), floors) for w in widths]
        low, high = zip(*pairs, strict=True)
        # the inverse rounds, so that bounds of no width may miss the forecast
        return np.minimum(low, forecast), np.maximum(high, forecast)

    def grow(self, panel: Panel, old: Array, transforms: Chain) -> Scores:
        """The scores for a panel with more rows and possibly more series, which use the errors of the others.

        ``old[i]`` is the previous index of series i, -1 for a new one.
        """
        known = old >= 0
        errors = np.where(known[:, None, None], self.errors[old], np.nan)
        scales = np.where(known, self.scales[old], _naive_scales(panel, transforms))
        logs = None if self.logs is None else np.where(known, self.logs[old], False)
        limits = None if self.limits is None else np.where(known, self.limits[old], np.inf)
        short = None if self.short is None else np.where(known, self.short[old], True)
        sign = never_negative(panel)
        if self.nonnegative is not None:
            sign &= np.where(known, self.nonnegative[old], True)
        scores = replace(self, errors=errors, scales=scales, logs=logs, limits=limits, nonnegative=sign, short=short)
        return replace(scores, cycle=1, phase=0)  # forecasts now start at another time of the season than the windows

    def link(self, y: Array, transforms: Chain) -> tuple[Array, Callable[[Array], Array]]:
        """Forecasts (n_series, ...) on the link scale, and the inverse of the link."""
        if self.logs is None:
            return transforms.link(np.maximum(y, np.nextafter(transforms.infimum, np.inf)))
        logs = self.logs.reshape(-1, *[1] * (y.ndim - 1))

        def inverse(z: Array) -> Array:
            return np.where(logs, np.exp(np.where(logs, z, 0.0)), z)

        with np.errstate(invalid="ignore"):
            return np.where(logs, np.log(np.maximum(y, 1e-300)), y), inverse


def calibration_scores(
    y: Array, forecast: Array, panel: Panel, transforms: Chain, of_all: Scores | None = None
) -> Scores:
    """Scores from out-of-sample forecasts and the values that followed.

    ``of_all`` are the scores of the panel that this one is a part of.
    """
    errors = transforms.link(y)[0] - transforms.link(forecast)[0]
    relative = any(isinstance(step, Log) for step in transforms.steps)
    sizes = np.ones(panel.n_series) if relative else typical_sizes(panel)
    changes, n_known = _naive_scales(panel, transforms), panel.n_known
    usual = usual_changes(changes, sizes, n_known) if of_all is None else of_all.usual
    scales = borrowed_scales(changes, sizes, n_known, usual)
    unknown = bool(np.isnan(errors).all()) if of_all is None else of_all.unknown
    if unknown:  # no series is long enough to hold rows back: errors of a random walk
        errors = (scales[:, None] * np.sqrt(np.arange(1, y.shape[2] + 1)))[:, None, :]
    return Scores(errors, scales, nonnegative=never_negative(panel), usual=usual, unknown=unknown)


def never_negative(panel: Panel) -> Array:
    """Whether all known values of each series are at least zero."""
    return panel.minimum() >= 0


def typical_sizes(panel: Panel) -> Array:
    """Mean absolute value of each series."""
    return panel.reduce(np.add, np.nan_to_num(np.abs(panel.y)), 0.0) / np.maximum(panel.n_known, 1)


def _naive_scales(panel: Panel, transforms: Chain) -> Array:
    """Root mean square of one-step changes on the link scale."""
    z, _ = transforms.link(panel.filled)
    change = np.diff(z, prepend=z[:1])
    change[panel.indptr[:-1]] = 0.0
    total = np.add.reduceat(change**2, panel.indptr[:-1])
    return np.asarray(np.sqrt(total / np.maximum(panel.sizes - 1, 1)), dtype=np.float64)


def scaled_errors(y: Array, forecast: Array, panel: Panel) -> Array:
    """Root mean squared error of each series divided by its one-step changes; NaN without a known error."""
    scale: Any = np.maximum(_naive_scales(panel, Chain([])), 1e-12)
    n = np.sum(~np.isnan(y - forecast), axis=(1, 2))
    total = np.nansum((y - forecast) ** 2, axis=(1, 2))
    return np.where(n > 0, np.sqrt(total / np.maximum(n, 1)) / scale, np.nan)
