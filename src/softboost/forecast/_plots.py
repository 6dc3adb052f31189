"""Plots of forecasts with history and intervals, and of back-tests with actual values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softboost._runtime.axes import new_axes

from ._panel import Array

__all__ = ["STYLES", "axes_of_series", "chosen_series", "draw_forecast", "draw_origins"]

# Colours that are distinguishable with colour blindness, each with its own dashes.
STYLES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"))
MAX_PANELS = 6


def chosen_series(ids: list[Any], series: Any, ordered: Sequence[Any] | None = None) -> list[Any]:
    """Ids to draw: those given as ``series``, one id or a list, else the first six of ``ordered``."""
    if series is None:
        return list(ids if ordered is None else ordered)[:MAX_PANELS]
    wanted = list(series) if isinstance(series, (list, tuple, set, np.ndarray)) else [series]
    unknown = [name for name in wanted if name not in ids]
    if unknown or not wanted:
        raise ValueError(f"series={series!r} is not among the series; there are {ids[:5]}{' ...' * (len(ids) > 5)}")
    return wanted


def axes_of_series(ax: Any, n_series: int) -> list[Any]:
    """Axes for each series: those given, one for all of them, or a new figure with one panel for each."""
    if ax is None:
        n_columns = 1 if n_series <= 2 else 2
        n_rows = -(-n_series // n_columns)
        made = new_axes(6.4 * n_columns, 1.0 + 2.4 * n_rows, n_rows, n_columns)
        axes = list(np.ravel(made))
        for unused in axes[n_series:]:
            unused.set_axis_off()
        return axes[:n_series]
    if isinstance(ax, (list, tuple, np.ndarray)):
        axes = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) != n_series:
            raise ValueError(f"ax has {len(axes)} axes for {n_series} series; pass one for each, or a single one")
        return axes
    return [ax] * n_series


def draw_forecast(
    ax: Any,
    name: Any,
    history: tuple[Array, Array],
    times: Array,
    forecast: Array,
    bands: dict[float, tuple[Array, Array]],
    alone: bool,
) -> None:
    """Draw history, forecast and intervals of a series; the forecast starts at the last known value."""
    past, y = history
    colour, dashes = STYLES[(0 if alone else len(ax.lines) // 2) % len(STYLES)]
    known = np.flatnonzero(~np.isnan(y))
    ax.plot(past, y, color="black" if alone else colour, linewidth=1.1, label="history" if alone else None)
    joined = [past[known[-1:]], times], [y[known[-1:]], forecast]
    label = "forecast" if alone else str(name)
    ax.plot(*map(np.concatenate, joined), color=colour, linestyle=dashes, linewidth=2, label=label)
    for i, (level, (low, high)) in enumerate(sorted(bands.items(), reverse=True)):
        style = {"color": colour, "alpha": 0.18 + 0.14 * i, "label": f"{level:g}%" if alone else None}
        if len(times) > 1:
            ax.fill_between(times, low, high, linewidth=0, **style)
        else:  # one step has no width to fill
            ax.vlines(times, low, high, linewidth=6, **style)
    _finish(ax, name if alone else None)


def draw_origins(
    ax: Any, name: Any, truth: tuple[Array, Array], by_origin: list[tuple[Array, Array]], rival: tuple[str, Any] | None
) -> None:
    """Draw actual values and the forecasts from each origin, each as a separate line."""
    times, y = truth
    ax.plot(times, y, color="black", linewidth=1.1, label="truth")
    if rival is not None:
        word, lines = rival
        for i, (x, values) in enumerate(lines):
            ax.plot(x, values, color=STYLES[1][0], linestyle=":", linewidth=1, label=word if i == 0 else None, zorder=1)
    for i, (x, values) in enumerate(by_origin):
        label = "forecasts from each origin" if i == 0 else None
        marker = "o" if len(x) < 3 else None
        ax.plot(x, values, color=STYLES[0][0], linewidth=1.6, alpha=0.75, label=label, marker=marker, markersize=3)
    _finish(ax, name)


def _finish(ax: Any, title: Any) -> None:
    if title is not None:
        ax.set_title(_shortened(str(title)), fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(framealpha=0.8, edgecolor="none", fontsize=8)  # readable over lines
    ax.tick_params(labelsize=8)
    locator = ax.xaxis.get_major_locator()
    if type(locator).__name__ == "AutoDateLocator":
        from matplotlib.dates import ConciseDateFormatter

        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _shortened(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
