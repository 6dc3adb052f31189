"""Axes of matplotlib, which is optional."""

from __future__ import annotations

from typing import Any

__all__ = ["new_axes"]


def new_axes(width: float, height: float, n_rows: int = 1, n_columns: int = 1, share_x: bool = False) -> Any:
    """Axes in a new figure; an array of shape (n_rows, n_columns) if there are several."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'softboost[plot]'") from error
    return plt.subplots(n_rows, n_columns, figsize=(width, height), sharex=share_x, layout="constrained")[1]
