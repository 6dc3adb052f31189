"""All models of a panel: one pooled, or one for each series, and the fallback for series too short for either."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._fallback import fallback_name, naive, too_short
from ._learned import Learned, Settings
from ._panel import Array, Future, Panel

__all__ = ["FitMany", "Fitted"]

FitMany = Callable[[Settings, Panel, Array], Iterable[Learned]]


def fit_one_by_one(settings: Settings, panel: Panel, chosen: Array) -> Iterable[Learned]:
    """A model of its own for each chosen series."""
    return (Learned(settings, panel.take([i])) for i in chosen)


class Fitted:
    """Models for the series of a panel.

    Attributes
    ----------
    fit_many : callable
        How models of single series are fitted: here, in processes, or on an engine.
    short : ndarray of bool, shape (n_series,)
        Series that are forecast by the fallback.
    models : list of Learned or None
        Local: the model of each series, None for short ones. Global: one model.
    place : ndarray of shape (n_series,)
        Global: number of each series within the pooled fit, -1 for short ones.
    """

    def __init__(
        self,
        settings: Settings,
        scope: str,
        season: int,
        panel: Panel,
        *,
        fit_many: FitMany | None = None,
    ) -> None:
        self.settings, self.scope, self.season = settings, scope, season
        self.fit_many = fit_many or fit_one_by_one
        self.short = self._too_short(panel)
        self.place = np.full(panel.n_series, -1)
        self.models: list[Learned | None] = []
        chosen = np.flatnonzero(~self.short)
        if scope == "local":
            self.models = [None] * panel.n_series
            self._fit_local(panel, chosen)
        elif len(chosen):
            self.models = [Learned(settings, panel.take(chosen))]
            self.place[chosen] = np.arange(len(chosen))

    def _too_short(self, panel: Panel) -> Array:
        settings = self.settings
        return too_short(panel, self.scope, settings.transforms.n_lost, settings.h, settings.strategy)

    def _fit_local(self, panel: Panel, chosen: Array) -> None:
        for i, learned in zip(chosen, self.fit_many(self.settings, panel, chosen), strict=True):
            self.models[i] = learned

    def fallback(self, panel: Panel) -> dict[int, str]:
        """Number of every short series, and what forecasts it."""
        return {int(i): fallback_name(int(panel.sizes[i]), self.season) for i in np.flatnonzero(self.short)}

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) after the histories of ``panel``; ``series`` are their numbers at fit time.

        A number may come several times, with histories of different length.
        """
        h = future.times.shape[1]
        out = naive(panel, self.season, h)
        if self.scope == "global":
            mine = np.flatnonzero(~self.short[series])
            model = self.models[0] if self.models else None
            if model is not None and len(mine):
                out[mine] = model.predict(panel.take(mine), self.place[series[mine]], future.take(mine))
            return out
        order = np.argsort(series, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(series[order])) + 1):
            model = self.models[series[mine[0]]] if len(mine) else None
            if model is not None:
                out[mine] = model.predict(panel.take(mine), np.zeros(len(mine), dtype=np.int64), future.take(mine))
        return out

    def learn(self, panel: Panel, n_new: Array) -> None:
        """Let models go on learning from the last ``n_new`` rows of each series."""
        if self.scope == "global":
            mine = np.flatnonzero(~self.short)
            if self.models and self.models[0] is not None:
                self.models[0].learn(panel.take(mine), self.place[mine], n_new[mine])
            return
        for i, model in enumerate(self.models):
            if model is not None and n_new[i]:
                model.learn(panel.take([i]), np.zeros(1, dtype=np.int64), n_new[[i]])

    def grow(self, panel: Panel, old: Array) -> Fitted:
        """The same models for a panel with more rows and perhaps more series.

        ``old[i]`` is the number that series i had before, -1 for a new one. New series, and those no longer too short,
        get a model of their own or join the pooled one, which is not fitted again.
        """
        grown: Any = object.__new__(Fitted)
        grown.__dict__.update(self.__dict__)
        known = old >= 0
        was_short = np.where(known, self.short[old], True)
        grown.short = was_short & self._too_short(panel)
        added = np.flatnonzero(was_short & ~grown.short)
        if self.scope == "local":
            grown.models = [self.models[i] if i >= 0 else None for i in old]
            grown._fit_local(panel, added)
            return grown
        grown.place = np.where(known, self.place[old], -1)
        if len(added) and not self.models:
            return Fitted(self.settings, self.scope, self.season, panel, fit_many=self.fit_many)
        if len(added) and self.models[0] is not None:
            model = self.models[0]
            new = panel.take(added)
            joined: Any = object.__new__(Learned)
            joined.__dict__.update(model.__dict__)
            joined.transforms = model.transforms.join(self.settings.transforms.fit(new.y, new.indptr))
            grown.place[added] = grown.place.max() + 1 + np.arange(len(added))
            grown.models = [joined]
        return grown
