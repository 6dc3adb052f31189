"""What a back-test returns: every forecast beside what came, losses step by step, and a picture of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._combination import ForecastChoice
from ._panel import Array

__all__ = ["Backtest"]

# Colours that colour-blind people tell apart, and a line of its own for each.
STYLES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"))


@dataclass(frozen=True)
class Backtest:
    """Forecasts from rolling origins and their losses.

    Attributes
    ----------
    forecasts : pandas or polars frame
        A row for each series, origin and step: ids, times, targets, ``cutoff`` (the last time seen), the forecast,
        and interval bounds where levels were asked for.
    losses : ndarray of shape (n_series, n_windows, h)
        Squared errors; NaN where a series had no such origin.
    fallback : dict
        Id of every series that was too short when the model was first fitted, and what forecast it.
    choice : ForecastChoice or None
        Weights and errors of the candidates at the first origin.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from softboost.forecast import Forecaster
    >>> days = pd.date_range("2024-01-01", periods=60)
    >>> df = pd.DataFrame({"unique_id": "a", "ds": days, "y": np.sin(np.arange(60) / 3)})
    >>> test = Forecaster(freq="D", h=2, scope="local", target_transforms=None).backtest(df, n_windows=4)
    >>> test
    Backtest(n_series=1, n_windows=4, h=2, mse=...)
    >>> test.losses.shape, test.mse_t.shape, test.cmse_t.shape, test.mse_by_step.shape
    ((1, 4, 2), (4,), (4,), (2,))
    """

    forecasts: Any
    losses: Array
    fallback: dict[Any, str]
    choice: ForecastChoice | None = None

    def __repr__(self) -> str:
        n_series, n_windows, h = self.losses.shape
        return f"Backtest(n_series={n_series}, n_windows={n_windows}, h={h}, mse={self.mse:.4g})"

    @property
    def mse_t(self) -> Array:
        """Mean squared error over series and steps at each origin t, shape (n_windows,)."""
        known = ~np.isnan(self.losses)
        return np.nansum(self.losses, axis=(0, 2)) / np.maximum(known.sum(axis=(0, 2)), 1)

    @property
    def cmse_t(self) -> Array:
        """Running mean of :attr:`mse_t` up to each origin: ``cMSE_t = (MSE_1 + ... + MSE_t) / t``."""
        return np.cumsum(self.mse_t) / np.arange(1, self.losses.shape[1] + 1)

    @property
    def mse_by_step(self) -> Array:
        """Mean squared error of each step ahead, shape (h,)."""
        known = ~np.isnan(self.losses)
        return np.nansum(self.losses, axis=(0, 1)) / np.maximum(known.sum(axis=(0, 1)), 1)

    @property
    def mse(self) -> float:
        """Mean squared error over everything."""
        return float(np.nanmean(self.losses))

    def plot(self, ax: Any = None, label: str | None = None) -> Any:
        """Draw MSE_t and cMSE_t over the origins.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        label : str, default=None
            Name of the line, for several back-tests in one picture.

        Returns
        -------
        ax : matplotlib axes

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> Backtest(None, np.ones((1, 5, 2)), {}).plot(label="mine").get_xlabel()
        'origin t'
        """
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(7, 4))
        t = np.arange(1, self.losses.shape[1] + 1)
        name = "" if label is None else f"{label}: "
        colour, dashes = STYLES[len(ax.lines) // 2 % len(STYLES)]
        ax.plot(t, self.cmse_t, dashes, linewidth=2, color=colour, label=f"{name}cMSE$_t$")
        ax.plot(t, self.mse_t, dashes, linewidth=0.8, alpha=0.6, color=colour, label=f"{name}MSE$_t$")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("origin t")
        ax.set_ylabel("mean squared error")
        ax.legend(frameon=False)
        return ax
