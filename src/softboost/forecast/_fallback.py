"""Forecasts for series too short to learn from: the last season again, or the last value."""

from __future__ import annotations

import numpy as np

from ._panel import Array, Panel

__all__ = ["fallback_name", "naive", "too_short"]


def too_short(panel: Panel, scope: str, n_lost: int, h: int, strategy: str) -> Array:
    """Which series have too few rows.

    A model of its own needs eight rows to learn from, besides those that differences take and, in direct strategies,
    the steps ahead. In a pooled model a series needs one row more than differences take, and two at least.
    """
    least = n_lost + 8 + (h - 1 if strategy != "recursive" else 0) if scope == "local" else max(n_lost + 1, 2)
    return panel.sizes < least


def fallback_name(n_rows: int, season: int) -> str:
    """Which fallback a series of this many rows gets."""
    return "seasonal naive" if season > 1 and n_rows >= season else "naive"


def naive(panel: Panel, season: int, h: int) -> Array:
    """Forecasts (n_series, h): the value one season before, or the last value where there is no full season."""
    periods = np.where(panel.sizes >= season, season, 1)[:, None]
    steps = np.arange(h)[None]
    return panel.filled[panel.indptr[1:, None] - periods + steps % periods]
