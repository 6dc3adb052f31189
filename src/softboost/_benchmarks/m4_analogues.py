"""Analogues: stretches of other series that went the same way, and how they went on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from .m4_panel import HORIZON, Array

__all__ = ["Analogues"]

N_CHANGES = 12  # changes that are compared
REACH = 0.15  # farthest analogue, as a distance between changes of unit length
N_NEAREST = 8
LEAST_SPREAD = 2e-3  # of changes; calmer stretches resemble each other without meaning anything
TRUST = np.array([(0.005, 1.0), (0.015, 1.0), (0.0275, 1.0), (0.0425, 0.95), (0.06, 0.9), (0.085, 0.65), (0.1125, 0.45),
                  (0.1375, 0.25)]).T  # fmt: skip
FARTHEST = 10.0  # an analogue that leaves the first forecast by more units than this is not believed


class Analogues:
    """Nearest stretches of other series by their last changes, whatever their level and size.

    For an origin ``back`` steps before the end only stretches count whose following values end before it on this
    scale, in every series: what is learnt of analogues at earlier origins then holds at the last.

    Parameters
    ----------
    z : ndarray of shape (n_series, width)
        Logarithms with ends aligned, NaN before a series begins.
    """

    def __init__(self, z: Array) -> None:
        self.z = z
        self.windows = np.lib.stride_tricks.sliding_window_view(np.diff(z, axis=1), N_CHANGES, axis=1)
        back = self.windows.shape[1] - 1 - np.arange(self.windows.shape[1])
        complete = back >= HORIZON
        keys, spread = _directions(self.windows[:, complete].reshape(-1, N_CHANGES))
        usable = spread > LEAST_SPREAD
        self.spread = spread[usable]
        self.series = np.repeat(np.arange(len(z)), complete.sum())[usable]
        self.back = np.tile(back[complete], len(z))[usable]
        self.tree = cKDTree(keys[usable], leafsize=24, balanced_tree=False)

    def at(self, back: int) -> tuple[Array, Array]:
        """How far the nearest analogue is, and the changes that followed: shapes (n_series,) and (n_series, 8).

        NaN where there is none. Analogues of nearly the same distance are averaged.
        """
        keys, spread = _directions(self.windows[:, self.windows.shape[1] - 1 - back])
        asked = np.flatnonzero(spread > LEAST_SPREAD)
        distance, found = self.tree.query(keys[asked], k=N_NEAREST, distance_upper_bound=REACH)
        found = np.minimum(found, len(self.back) - 1)
        distance[(self.series[found] == asked[:, None]) | (self.back[found] < HORIZON + back)] = np.inf
        nearest = distance.min(axis=1)
        weight = np.where(distance <= 1.5 * nearest[:, None] + 0.005, 1 / (distance + 0.01) ** 2, 0.0)
        weight[np.isinf(nearest)] = 0.0
        end = self.z.shape[1] - 1 - self.back[found]
        after = self.z[self.series[found][..., None], end[..., None] + np.arange(1, HORIZON + 1)]
        after = after - self.z[self.series[found], end][..., None]
        size = spread[asked][:, None] / self.spread[found]
        after *= np.where((size > 0.9) & (size < 1.11), 1.0, size)[..., None]  # the same data in another unit
        has = weight.sum(axis=1) > 0
        mean = np.einsum("ik,ikh->ih", weight[has], after[has]) / weight[has].sum(axis=1)[:, None]
        distances, changes = np.full(len(self.z), np.nan), np.full((len(self.z), HORIZON), np.nan)
        distances[asked[has]], changes[asked[has]] = nearest[has], mean
        return distances, changes

    def believed(self, back: int, base: Array, last: Array, unit: Array) -> tuple[Array, NDArray[np.float32]]:
        """First forecasts moved towards the analogues' by their closeness, and columns that tell of them."""
        distance, changes = self.at(back)
        apart = last[:, None] + changes - base
        with np.errstate(invalid="ignore"):
            in_units = np.abs(apart).max(axis=1) / unit
        trust = np.asarray(np.interp(np.nan_to_num(distance, nan=1.0), TRUST[0], TRUST[1], right=0.0))
        trust[~(in_units < FARTHEST)] = 0.0
        apart = np.where(trust[:, None] > 0, apart, 0.0)
        told = [trust, np.where(trust > 0, distance, 0.2), *(apart[:, [0, 3, 7]] / unit[:, None]).T]
        return base + trust[:, None] * apart, np.column_stack(told).astype(np.float32)


def _directions(changes: Array) -> tuple[Array, Array]:
    """Changes brought to a common size, and their spread; zero where a change is not known."""
    spread = np.nan_to_num(changes.std(axis=-1))
    return np.nan_to_num(changes / np.maximum(spread * np.sqrt(N_CHANGES), 1e-12)[..., None]), spread
