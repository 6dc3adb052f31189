"""Simple forecasts at the origins of a back-test, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._fallback import naive
from ._panel import Array, Panel
from ._rolling import MIN_HISTORY
from ._smoothing import Smoothing

__all__ = ["RIVALS", "rival_forecasts", "rivals_of", "step_sizes"]

# The rivals: name, and forecasts after some histories (histories, h, season, bank) -> (n_series, h).
RIVALS: dict[str, Callable[[Panel, int, int, Smoothing], Array]] = {
    "naive": lambda history, h, season, bank: naive(history, 1, h),
    "seasonal_naive": lambda history, h, season, bank: naive(history, season, h),
    "smoothing": lambda history, h, season, bank: bank.outlook(history, h).forecast[:, 0],
}


def rivals_of(season: int) -> list[str]:
    """Names of the rivals of series with a season of this length; 1 is none."""
    return [name for name in RIVALS if season > 1 or name != "seasonal_naive"]


def rival_forecasts(panel: Panel, back: Array, h: int, season: int, smoothing: Smoothing) -> dict[str, Array]:
    """Forecasts of each rival (n_series, n_windows, h), from origins ``back`` rows before the end of each series.

    The rivals are the last value, the last season (if there is one) and the smoothing bank. A forecast is NaN where a
    series has fewer than two rows before the origin, or has ended.
    """
    out = {name: np.full((*back.shape, h), np.nan) for name in rivals_of(season)}
    for w, rows_after in enumerate(back.T):
        chosen = np.flatnonzero((panel.sizes - rows_after >= MIN_HISTORY) & (rows_after > 0))
        if not len(chosen):
            continue
        history = panel.take(chosen).cut(rows_after[chosen])
        for name, forecasts in out.items():
            forecasts[chosen, w] = RIVALS[name](history, h, season, smoothing)
    return out


def step_sizes(panel: Panel, back: Array, forecast: Array) -> Array:
    """Mean absolute one-step change of each series before its first forecast; NaN where there is none.

    Forecasts (n_series, n_windows, h) start ``back`` (n_series, n_windows) rows before the end.
    """
    first_origin = np.argmax(~np.isnan(forecast).all(axis=2), axis=1)
    known = panel.cut(back[np.arange(panel.n_series), first_origin])
    change = np.abs(np.diff(known.y, prepend=np.nan))
    starts = known.indptr[:-1][known.sizes > 0]
    change[starts] = np.nan
    number = np.repeat(np.arange(known.n_series), known.sizes)
    there = ~np.isnan(change)
    total = np.bincount(number[there], change[there], known.n_series)
    count = np.bincount(number[there], minlength=known.n_series)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
