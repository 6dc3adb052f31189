"""Forecasts of series that are too short for a regression: the last season or the last value."""

from __future__ import annotations

import numpy as np

from ._panel import Array, Panel

__all__ = ["fallback_name", "naive", "too_short"]


def too_short(panel: Panel, scope: str, n_lost: int, h: int, strategy: str) -> Array:
    """Whether each series has too few rows.

    A local model needs eight training rows, besides those lost by differences and, in direct strategies, the steps
    ahead. In a global model, a series needs one row more than differences lose, and at least two.
    """
    least = n_lost + 8 + (h - 1 if strategy != "recursive" else 0) if scope == "local" else max(n_lost + 1, 2)
    return panel.sizes < least


def fallback_name(n_rows: int, season: int) -> str:
    """Name of the fallback of a series with this number of rows."""
    return "seasonal naive" if season > 1 and n_rows >= season else "naive"


def naive(panel: Panel, season: int, h: int) -> Array:
    """Forecasts (n_series, h): the value one season earlier, or the last value without a full season."""
    periods = np.where(panel.sizes >= season, season, 1)[:, None]
    steps = np.arange(h)[None]
    return panel.filled[panel.indptr[1:, None] - periods + steps % periods]
