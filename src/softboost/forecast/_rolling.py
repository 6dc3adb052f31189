"""Rolling origins: forecasts from several points of the past, and what is learned from their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._fitted import Fitted
from ._intervals import panel_widths
from ._panel import Array, Future, Panel
from .target_transforms import Chain

__all__ = ["Scores", "calibration_scores", "n_calibration_windows", "roll", "scaled_errors"]

MIN_HISTORY = 2


def roll(
    fit: Callable[[Panel], Fitted],
    panel: Panel,
    h: int,
    n_windows: int,
    step_size: int,
    refit: bool | int | str,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Array, Array]:
    """Forecasts from ``n_windows`` origins, the last one ``h`` rows before the end of each series.

    ``refit`` False fits before the first origin only, an integer k at every k-th, True at every one; "online" lets the
    model learn the rows between two origins.

    Returns
    -------
    y, forecast : ndarray of shape (n_series, n_windows, h)
        NaN where a series has no history, or had none when the model was fitted.
    """
    every = {True: 1, False: n_windows, "online": n_windows}.get(refit, refit)
    assert isinstance(every, int)
    back = h + step_size * np.arange(n_windows - 1, -1, -1)
    y = np.full((panel.n_series, n_windows, h), np.nan)
    forecast = y.copy()
    for first in range(0, n_windows, every):
        chosen = np.flatnonzero(panel.sizes - back[first] >= MIN_HISTORY)
        if not len(chosen):
            continue
        mine = panel.take(chosen)
        fitted = fit(mine.cut(back[first]))
        block = np.arange(first, min(first + every, n_windows))
        there = np.ix_(chosen, block)
        y[there] = np.stack([mine.windows(b, h)[0] for b in back[block]], axis=1)
        if refit == "online":
            forecast[there] = _online(fitted, mine, back[block], h, progress)
        else:
            forecast[there] = _batch(fitted, mine, back[block], h)
        progress(f"window {block[-1] + 1}")
    return y, forecast


def _batch(fitted: Fitted, panel: Panel, back: Array, h: int) -> Array:
    """All windows of one fit at once: each history is a series of its own."""
    histories = Panel.stack([panel.cut(b) for b in back])
    future = Future.stack([panel.windows(b, h)[1] for b in back])
    series = np.tile(np.arange(panel.n_series), len(back))
    out = fitted.predict(histories, series, future)
    return np.moveaxis(out.reshape(len(back), panel.n_series, h), 0, 1)


def _online(fitted: Fitted, panel: Panel, back: Array, h: int, progress: Callable[[str], None]) -> Array:
    everyone = np.arange(panel.n_series)
    out = []
    for w, b in enumerate(back):
        history = panel.cut(b)
        if w:
            fitted.learn(history, np.full(panel.n_series, back[w - 1] - b))
        out.append(fitted.predict(history, everyone, panel.windows(b, h)[1]))
        progress(f"window {w + 1}")
    return np.stack(out, axis=1)


def n_calibration_windows(panel: Panel, h: int) -> int:
    """Origins to calibrate intervals from.

    A single series gives up to 50, while half of its rows stay for training; of many series each gives fewer.
    """
    room = int(np.median(panel.sizes)) // 2 - h
    wanted = 50 if panel.n_series == 1 else int(np.clip(np.ceil(1000 / panel.n_series), 2, 30))
    return max(1, min(wanted, room))


@dataclass(frozen=True)
class Scores:
    """What intervals are made of: errors out of sample, and the size of a step, on the link scale.

    Attributes
    ----------
    errors : ndarray of shape (n_series, n_windows, h)
        NaN where a series had no such window.
    scales : ndarray of shape (n_series,)
    """

    errors: Array
    scales: Array

    def widths(self, levels: list[float], h: int) -> Array:
        """Half widths (n_levels, n_series, h) on the link scale, for the first ``h`` steps."""
        return panel_widths(self.errors, self.scales, levels, pooled=True)[:, :, :h]

    def grow(self, panel: Panel, old: Array, transforms: Chain) -> Scores:
        """The same for a panel with more rows and perhaps more series, which are judged by the errors of the others.

        ``old[i]`` is the number that series i had before, -1 for a new one.
        """
        known = old >= 0
        errors = np.where(known[:, None, None], self.errors[old], np.nan)
        return Scores(errors, np.where(known, self.scales[old], _naive_scales(panel, transforms)))


def calibration_scores(y: Array, forecast: Array, panel: Panel, transforms: Chain) -> Scores:
    """Scores from forecasts out of sample and what came."""
    errors = transforms.link(y)[0] - transforms.link(forecast)[0]
    scales = _naive_scales(panel, transforms)
    if np.isnan(errors).all():  # nothing long enough to hold rows back: the size of a step, growing with the horizon
        errors = (scales[:, None] * np.sqrt(np.arange(1, y.shape[2] + 1)))[:, None, :]
    return Scores(errors, scales)


def _naive_scales(panel: Panel, transforms: Chain) -> Array:
    """Root mean square of one-step changes on the link scale."""
    z, _ = transforms.link(panel.y)
    change = np.diff(z, prepend=z[:1])
    change[panel.indptr[:-1]] = 0.0
    total = np.add.reduceat(change**2, panel.indptr[:-1])
    return np.asarray(np.sqrt(total / np.maximum(panel.sizes - 1, 1)), dtype=np.float64)


def scaled_errors(y: Array, forecast: Array, panel: Panel) -> Array:
    """Root mean squared error of each series over its one-step changes; NaN where nothing was judged."""
    scale: Any = np.maximum(_naive_scales(panel, Chain([])), 1e-12)
    n = np.sum(~np.isnan(forecast), axis=(1, 2))
    total = np.nansum((y - forecast) ** 2, axis=(1, 2))
    return np.where(n > 0, np.sqrt(total / np.maximum(n, 1)) / scale, np.nan)
