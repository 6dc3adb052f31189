"""The regressions of a panel, one global or one per series, with a fallback for short series."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from ._fallback import fallback_name, naive, too_short
from ._learned import Learned, Settings
from ._panel import Array, Future, Panel

__all__ = ["FitMany", "Fitted", "fit_one_by_one", "too_short_for", "without_logarithm"]

LEAST_KNOWN = 2  # known values of a series that a model can learn from

FitMany = Callable[[Settings, Panel, Array], Iterable[Learned]]


def fit_one_by_one(settings: Settings, panel: Panel, chosen: Array) -> Iterable[Learned]:
    """Fit one model per chosen series."""
    return Learned.fit_each(settings, panel.take(chosen))


@dataclass(frozen=True)
class Fitted:
    """Fitted regressions of a panel.

    Attributes
    ----------
    settings : Settings
    scope : {"local", "global"}
    season : int
    short : ndarray of bool, shape (n_series,)
        Series that are forecast by the fallback.
    place : ndarray of shape (n_series,)
        Global: index of each series in the pooled fit, -1 for short ones.
    models : list of Learned or None
        Local: the model of each series, None for short ones. Global: one model.
    fit_many : callable
        How local models are fitted: in this process, in several processes, or on an engine.
    """

    settings: Settings
    scope: str
    season: int
    short: Array
    place: Array
    models: list[Learned | None]
    fit_many: FitMany = fit_one_by_one

    @classmethod
    def fit(
        cls, settings: Settings, scope: str, season: int, panel: Panel, *, fit_many: FitMany = fit_one_by_one
    ) -> Fitted:
        """Fit models to a panel."""
        short = too_short_for(settings, scope, panel)
        nowhere: Array = np.full(panel.n_series, -1)
        chosen = np.flatnonzero(~short)
        if scope == "local":
            empty = cls(settings, scope, season, short, nowhere, [None] * panel.n_series, fit_many)
            return empty._with_local_fits(panel, chosen)
        place = nowhere
        place[chosen] = np.arange(len(chosen))
        models: list[Learned | None] = [Learned.fit(settings, panel.take(chosen))] if len(chosen) else []
        return cls(settings, scope, season, short, place, models, fit_many)

    def _with_local_fits(self, panel: Panel, chosen: Array) -> Fitted:
        models = list(self.models)
        for i, learned in zip(chosen, self.fit_many(self.settings, panel, chosen), strict=True):
            models[i] = learned
        return replace(self, models=models)

    def refitted(self, panel: Panel, which: Array) -> Fitted:
        """Refit the local models of the series marked by ``which`` to a panel with more rows."""
        short = self.short & too_short_for(self.settings, self.scope, panel)
        return replace(self, short=short)._with_local_fits(panel, np.flatnonzero(which & ~short))

    def copied(self) -> Fitted:
        """A copy whose models can be updated independently."""
        return replace(self, models=[model and model.copied() for model in self.models])

    def fallback(self, panel: Panel) -> dict[int, str]:
        """Index of every short series and the name of its fallback."""
        return {int(i): fallback_name(int(panel.sizes[i]), self.season) for i in np.flatnonzero(self.short)}

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) after the histories of ``panel``; ``series`` are their indices at fit time.

        An index may occur several times, with histories of different lengths.
        """
        h = future.times.shape[1]
        out = naive(panel, self.season, h)
        unable = without_logarithm(self.settings, panel)
        if self.scope == "global":
            mine = np.flatnonzero(~(self.short[series] | unable))
            model = self.models[0] if self.models else None
            if model is not None and len(mine):
                out[mine] = model.predict(panel.take(mine), self.place[series[mine]], future.take(mine))
            return out
        order = np.argsort(series, kind="stable")
        order = order[~unable[order]]
        alike: dict[int, list[Array]] = {}  # by columns, which local models of a fit share
        for mine in np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(order) else ():
            model = self.models[series[mine[0]]]
            if model is not None and model.can_join:
                alike.setdefault(id(model.settings.features), []).append(mine)
            elif model is not None:
                out[mine] = model.predict(panel.take(mine), np.zeros(len(mine), dtype=np.int64), future.take(mine))
        for parts in alike.values():
            mine = np.concatenate(parts)
            several = [self.models[series[part[0]]] for part in parts]
            owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
            out[mine] = Learned.predict_each(several, panel.take(mine), owner, future.take(mine))
        return out

    def learn(self, panel: Panel, n_new: Array) -> None:
        """Update the models with the last ``n_new`` rows of each series."""
        if self.scope == "global":
            mine = np.flatnonzero(~self.short)
            if self.models and self.models[0] is not None:
                self.models[0].learn(panel.take(mine), self.place[mine], n_new[mine])
            return
        for i, model in enumerate(self.models):
            if model is not None and n_new[i]:
                model.learn(panel.take([i]), np.zeros(1, dtype=np.int64), n_new[[i]])

    def grow(self, panel: Panel, old: Array) -> Fitted:
        """The same models for a panel with more rows and possibly more series.

        ``old[i]`` is the previous index of series i, -1 for a new one. New series, and those that are no longer too
        short, get a local model or join the global one, which is not refitted.
        """
        known = old >= 0
        was_short = np.where(known, self.short[old], True)
        short = was_short & too_short_for(self.settings, self.scope, panel)
        added = np.flatnonzero(was_short & ~short)
        if self.scope == "local":
            models = [self.models[i] if i >= 0 else None for i in old]
            return replace(self, short=short, models=models)._with_local_fits(panel, added)
        if len(added) and not self.models:
            return Fitted.fit(self.settings, self.scope, self.season, panel, fit_many=self.fit_many)
        place = np.where(known, self.place[old], -1)
        models = self.models
        if len(added) and models[0] is not None:
            new = panel.take(added)
            transforms = models[0].transforms.join(self.settings.transforms.fit(new.filled, new.indptr))
            place[added] = len(self.place[self.place >= 0]) + np.arange(len(added))
            models = [replace(models[0], transforms=transforms)]
        return replace(self, short=short, place=place, models=models)


def too_short_for(settings: Settings, scope: str, panel: Panel) -> Array:
    """Series that have too few rows or known values for these settings, or values without a logarithm."""
    short = too_short(panel, scope, settings.transforms.n_lost, settings.h, settings.strategy)
    late = np.arange(len(panel.y)) - np.repeat(panel.indptr[:-1], panel.sizes) >= settings.transforms.n_lost
    n_known = panel.reduce(np.add, (late & ~np.isnan(panel.y)).astype(np.int64), 0)
    return short | (n_known < LEAST_KNOWN) | without_logarithm(settings, panel)


def without_logarithm(settings: Settings, panel: Panel) -> Array:
    """Series with values that the target transforms cannot take: a later value may be zero or negative."""
    return np.asarray(panel.minimum() <= settings.transforms.infimum)
