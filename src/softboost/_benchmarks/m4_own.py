"""softboost's own forecasts of the M4 quarterly series: corrections of smoothing, learnt from all series at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from softboost import SoftBoostRegressor
from softboost.losses import Huber, Loss

from .m4_analogues import Analogues
from .m4_panel import HORIZON, Array, Origin, Panel

__all__ = ["forecast_own"]

LEAST_KNOWN = 7  # values that an origin to learn from needs
N_ORIGINS = 32  # last origins of each series to learn from
CLIP = 15.0  # largest target, in units
BOUNDS = (0.025, 0.975)
SERIES_PER_GROUP = 2000  # series of about the same unit that share the widths of their bounds


class Clipped(Huber):
    """Huber's loss without the refit of leaves: its gradient has the right length, and rounds take a fifth."""

    refit_leaves = False

    def rescaled(self, y_true: Array, scale: float) -> Loss:
        return Clipped(self._delta() / scale)


@dataclass(frozen=True)
class Rows:
    """Rows to learn from: columns, targets in units, weights."""

    columns: NDArray[np.float32]
    targets: NDArray[np.float32]
    weight: NDArray[np.float32]


class Origins:
    """The last origins of all series, with what the model may look at and what it is to correct."""

    def __init__(self, series: Sequence[Array], analogues: bool) -> None:
        self.panel = Panel(series)
        self.analogues = Analogues(self.panel.z) if analogues else None
        self.scale = np.array([np.mean(np.abs(y[4:] - y[:-4])) if len(y) > 4 else 0.0 for y in series])
        self._kept: dict[int, Origin] = {}

    def at(self, back: int) -> Origin:
        if back not in self._kept:
            origin = self.panel.at(back)
            if self.analogues is not None:
                base, told = self.analogues.believed(back, origin.base, origin.last, origin.unit)
                origin = replace(origin, base=base, columns=np.concatenate([origin.columns, told], axis=1))
            self._kept[back] = origin
        return self._kept[back]

    def rows(self, first_back: int) -> Rows:
        """Rows of the origins from ``first_back`` steps before the end on backwards."""
        parts = [self._rows(back) for back in range(first_back, first_back + N_ORIGINS)]
        weight = np.concatenate([part.weight for part in parts])
        weight = np.minimum(weight, np.quantile(weight, 0.995))
        return Rows(
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.targets for part in parts]),
            weight / weight.mean(),
        )

    def _rows(self, back: int) -> Rows:
        origin, actual = self.at(back), self.panel.actual(back)
        keep = (origin.n_known >= LEAST_KNOWN) & np.isfinite(actual).all(axis=1)
        target = ((actual - origin.base) / origin.unit[:, None])[keep]
        # an error of one unit moves sMAPE by a share of the level and MASE by a share of the scale
        relative = np.maximum(self.scale * np.exp(-origin.last), 1e-3)
        weight = (origin.unit * (SMAPE_WEIGHT + MASE_WEIGHT / relative))[keep]
        return Rows(origin.columns[keep], np.clip(target, -CLIP, CLIP).astype(np.float32), weight.astype(np.float32))


SMAPE_WEIGHT, MASE_WEIGHT = 100 / 11.0, 1 / 1.37  # about the scores of Naive2, by which OWA divides


def forecast_own(
    series: Sequence[Array], *, analogues: bool = False, n_rounds: int = 300
) -> tuple[Array, Array, Array]:
    """Forecasts and 95 percent bounds (n_series, 8) from one model with a vector of all steps in its leaves.

    Bounds come from a second fit that has not seen the last eight values: the quantiles of its errors there, in units
    of the series and by groups of units of about the same size, are what is added to the forecasts.
    """
    origins = Origins(series, analogues)
    error = (origins.panel.actual(HORIZON) - _forecast(origins, HORIZON, n_rounds)) / origins.at(HORIZON).unit[:, None]
    centre, unit = _forecast(origins, 0, n_rounds), origins.at(0).unit
    n_groups = max(1, len(unit) // SERIES_PER_GROUP)
    edges = np.quantile(unit, np.linspace(0, 1, n_groups + 1)[1:-1])
    low, high = np.empty_like(centre), np.empty_like(centre)
    for group in range(n_groups):
        judged = error[np.searchsorted(edges, origins.at(HORIZON).unit) == group]
        here = np.searchsorted(edges, unit) == group
        below, above = np.quantile(judged[np.isfinite(judged).all(axis=1)], BOUNDS, axis=0)
        low[here] = centre[here] + unit[here][:, None] * below
        high[here] = centre[here] + unit[here][:, None] * above
    return np.exp(centre), np.exp(low), np.exp(high)


def _forecast(origins: Origins, back: int, n_rounds: int) -> Array:
    """Forecasts of logarithms at the origin ``back`` steps before the end, learnt from what was known there."""
    rows = origins.rows(back + HORIZON)
    model = SoftBoostRegressor(
        n_estimators=n_rounds, learning_rate=0.1, depth=3, loss=Clipped(0.3), feature_transform=None, leaves="linear",
        gates="greedy", init="constant", random_state=0,
    )  # fmt: skip
    model.fit(rows.columns, rows.targets, sample_weight=rows.weight)
    origin = origins.at(back)
    forecast = origin.base + origin.unit[:, None] * model.predict(origin.columns)
    return np.where(np.isfinite(forecast), forecast, origin.last[:, None])
