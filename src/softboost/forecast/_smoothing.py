"""The smoothing bank: exponential smoothers and autoregressions, weighted by how well they forecast each series so far.

Smoothers have fixed settings, and autoregressions are solved in closed form along the series. A forecast therefore
depends on the values before it alone, and forecasts from many past origins cost little more than one. The other
candidates correct these forecasts or compete with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softboost import _kernels

from ._panel import Array, Future, Panel

__all__ = ["Outlook", "Smoothing", "seasons_of", "stride_of", "width_of"]

N_EVIDENCE = 10  # earlier origins whose errors weight logarithms, levels and seasons
LEAST = 1e-300  # keeps logarithms finite

# Second season length for a given first one; both are used.
LONGER = {24: 168, 7: 365, 96: 672, 48: 336, 5: 260, 60: 1440}


def seasons_of(season: int) -> tuple[int, ...]:
    """Season lengths of the bank, given the first one: hours have a daily and a weekly season.

    Examples
    --------
    >>> from softboost.forecast._smoothing import seasons_of
    >>> seasons_of(24), seasons_of(12), seasons_of(1)
    ((24, 168), (12,), ())
    """
    if season < 2:
        return ()
    return (season, LONGER[season]) if season in LONGER else (season,)


def width_of(h: int, seasons: Sequence[int]) -> int:
    """Maximum number of values before an origin that the bank uses."""
    return max(200, 6 * max(seasons, default=1) + 2 * h + 40)


def stride_of(h: int) -> int:
    """Steps between origins."""
    return max(1, h // 4)


@dataclass(frozen=True)
class Outlook:
    """Forecasts of the bank at several origins of every series.

    Attributes
    ----------
    forecast : ndarray of shape (n_series, n_origins, h)
        NaN without a known value.
    unit : ndarray of shape (n_series, n_origins)
        Typical change: of log y if ``logs`` is true, else of y.
    logs : ndarray of bool, shape (n_series, n_origins)
    views : ndarray of shape (n_series, n_origins, 4 * (n_seasons + 1))
        Weights of the views: levels, then logarithms; for each of them smoothers without a season and with every one,
        then autoregressions of changes over one step and over every season.
    columns : ndarray of shape (n_series, n_origins, n_columns)
        Inputs of the correction, in units of the series: changes, distances, slopes, seasons ahead.
    """

    forecast: Array
    unit: Array
    logs: Array
    views: Array
    columns: Array

    def link(self, y: Array) -> Array:
        """Values (n_series, n_origins, h) on the scale of ``unit``."""
        with np.errstate(invalid="ignore"):
            return np.where(self.logs[..., None], np.log(np.maximum(y, LEAST)), y)

    def unlink(self, z: Array) -> Array:
        """Inverse of :meth:`link`."""
        return np.where(self.logs[..., None], np.exp(np.where(self.logs[..., None], z, 0.0)), z)

    def take(self, series: Array) -> Outlook:
        """The series with these indices."""
        return Outlook(*(getattr(self, name)[series] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Smoothing:
    """The bank as a model.

    Attributes
    ----------
    seasons : tuple of int
        Season lengths, besides no season.
    n_threads : int
    """

    seasons: tuple[int, ...]
    n_threads: int = 1

    def outlook(
        self, panel: Panel, h: int, first: Array | int = 0, n_origins: int = 1, *, columns: bool = False
    ) -> Outlook:
        """Forecasts at ``n_origins`` origins, the latest ``first`` rows before the end of each series."""
        starts = np.broadcast_to(np.asarray(first, dtype=np.int64), panel.n_series)
        forecast, unit, logs, views, table = _kernels.smoothing_bank(
            panel.y, panel.indptr, self.seasons, h, np.ascontiguousarray(starts), n_origins, stride_of(h), N_EVIDENCE,
            columns, self.n_threads,
        )  # fmt: skip
        return Outlook(forecast, unit, logs > 0, views, table)

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) after the histories of ``panel``."""
        return self.outlook(panel, future.times.shape[1]).forecast[:, 0]
