"""One fit of a regression: target transforms, features and model, for one series or for pooled series."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from softboost._regressor import SoftBoostRegressor
from softboost.transforms import Transform

from ._features import Features
from ._panel import Array, Future, Panel
from .target_transforms import Chain

__all__ = ["Learned", "Settings"]

STRATEGIES = ("recursive", "direct", "direct_each")


@dataclass(frozen=True)
class Settings:
    """Settings of one fit.

    ``own_features``, if given, selects the features of a local model by the length of the series.
    """

    model: Any
    strategy: str
    h: int
    features: Features
    transforms: Chain
    own_features: Callable[[int], Features] | None = None

    def of(self, panel: Panel) -> Settings:
        """The settings of a fit to this panel."""
        return self.of_length(len(panel.y)) if panel.n_series == 1 else self.with_features(self.features)

    def of_length(self, length: int) -> Settings:
        """The settings of a fit to a series of this length."""
        return self.with_features(self.features if self.own_features is None else self.own_features(length))

    def with_features(self, features: Features) -> Settings:
        """The settings with these features only."""
        return replace(self, features=features, own_features=None)


@dataclass(frozen=True)
class Learned:
    """A fitted regression that converts histories to forecasts.

    Recursive: one model of the next value, whose forecasts become lags. Direct: one model with h outputs. Direct each:
    h models, one per step.
    """

    settings: Settings
    transforms: Chain
    models: list[Any]

    @classmethod
    def fit(cls, settings: Settings, panel: Panel) -> Learned:
        """Fit transforms and models to a panel."""
        settings = settings.of(panel)
        transforms = settings.transforms.fit(panel.filled, panel.indptr)
        z, _ = transforms.apply(panel.filled, panel.indptr)
        learned = cls(settings, transforms, [])
        for X, y, _ in learned._training_sets(panel, z, np.ones(len(z), dtype=bool)):
            learned.models.append(_able(settings.model, settings.features, y).fit(X, y))
        return learned

    @classmethod
    def fit_each(cls, settings: Settings, panel: Panel) -> list[Learned]:
        """Fit a model to each series; the columns of all series are computed at once.

        The result is that of :meth:`fit` for each series. Columns depend on the length of a series only, so series are
        grouped by their columns.
        """
        if not (_is_own(settings.transforms) and all(isinstance(f, str) for f in settings.features.date_features)):
            return [cls.fit(settings, panel.take([i])) for i in range(panel.n_series)]
        groups: dict[tuple[str, ...], tuple[Settings, list[int]]] = {}
        by_length = {n: settings.of_length(int(n)) for n in np.unique(panel.sizes)}
        names = {n: tuple(own.features.names()) for n, own in by_length.items()}
        for i, n in enumerate(panel.sizes):
            groups.setdefault(names[n], (by_length[n], []))[1].append(i)
        out: list[Any] = [None] * panel.n_series
        for own, series in groups.values():
            part = panel.take(series)
            transforms = own.transforms.fit(part.filled, part.indptr)
            z, _ = transforms.apply(part.filled, part.indptr)
            learned = cls(own, transforms, [])
            sets = learned._training_sets(part, z, np.ones(len(z), dtype=bool), by_series=True)
            blank = [_able(own.model, own.features, y) for _, y, _ in sets]
            for k, i in enumerate(series):
                models = []
                for model, (X, y, first) in zip(blank, sets, strict=True):
                    rows = slice(*np.searchsorted(first, part.indptr[k : k + 2]))
                    models.append(_copy(model).fit(X[rows], y[rows]))
                out[i] = cls(own, transforms.take(np.array([k])), models)
        return out

    # -- training ------------------------------------------------------------------------------------------------

    def _training_sets(
        self, panel: Panel, z: Array, wanted: Array, *, by_series: bool = False
    ) -> list[tuple[Array, Array, Array]]:
        """X and y for each model, and the row of the first step; ``wanted`` marks the rows that may be targets.

        Rows are in time order, with ``by_series`` series after series. Filled values are used as lags, never as
        targets.
        """
        wanted = wanted & ~np.isnan(panel.y)
        settings, features = self.settings, self.settings.features
        past = features.of_rows(z, panel.indptr)
        static = np.repeat(panel.static, panel.sizes, axis=0)
        order = np.arange(len(z)) if by_series else np.argsort(panel.times, kind="stable")
        if settings.strategy == "recursive":
            known = np.column_stack([features.calendar(panel.times), panel.exog, static])
            rows = order[(wanted & ~np.isnan(z))[order]]
            return [(np.column_stack([past[rows], known[rows]]), z[rows], rows)]
        ends = np.repeat(panel.indptr[1:], panel.sizes)
        if settings.strategy == "direct":
            steps = np.arange(settings.h)
            whole = np.arange(len(z)) + settings.h <= ends
            rows = order[whole[order]]
            rows = rows[wanted[rows + settings.h - 1]]
            y = np.where(np.isnan(panel.y), np.nan, z)[rows[:, None] + steps]
            fine = ~np.isnan(y).any(axis=1)
            rows, y = rows[fine], y[fine]
            future = Future(panel.times[rows[:, None] + steps], panel.exog[rows[:, None] + steps])
            X = np.column_stack([past[rows], self._known(future, static[rows])])
            return [(X, y if settings.h > 1 else y[:, 0], rows)]
        sets = []
        for step in range(settings.h):
            rows = order[(np.arange(len(z)) + step < ends)[order]]
            rows = rows[wanted[rows + step] & ~np.isnan(z[rows + step])]
            then = rows + step
            known = np.column_stack([features.calendar(panel.times[then]), panel.exog[then], static[rows]])
            sets.append((np.column_stack([past[rows], known]), z[then], rows))
        return sets

    def _known(self, future: Future, static: Array) -> Array:
        """Known columns for a model of all steps: the calendar of the first step, exogenous columns of all steps."""
        calendar = self.settings.features.calendar(future.times[:, 0])
        return np.column_stack([calendar, future.exog.reshape(len(future.exog), -1), static])

    def copied(self) -> Learned:
        """A copy whose models can be updated independently."""
        return replace(self, models=copy.deepcopy(self.models))

    def learn(self, panel: Panel, series: Array, n_new: Array) -> None:
        """Update the models with the last ``n_new`` rows of each series by ``partial_fit``."""
        z, _ = self.transforms.take(series).apply(panel.filled, panel.indptr)
        position = np.arange(len(z))
        wanted = position >= np.repeat(panel.indptr[1:] - n_new, panel.sizes)
        for model, (X, y, _) in zip(self.models, self._training_sets(panel, z, wanted), strict=True):
            if not hasattr(model, "partial_fit"):
                raise ValueError(
                    f"{type(model).__name__} has no partial_fit; use refit=True or an integer, or learn=False"
                )
            if len(y):
                model.partial_fit(X, y)

    # -- forecasting ---------------------------------------------------------------------------------------------

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts of shape (n_series, h) after the histories of ``panel``.

        ``series[i]`` is the index of the i-th history at fit time, which selects its fitted scalers.
        """
        z, inverse = self.transforms.take(series).apply(panel.filled, panel.indptr)
        h = future.times.shape[1]
        settings, ahead = self.settings, self.settings.features.ahead(z, panel.indptr)
        if settings.strategy == "recursive":
            out = self._recursive(ahead, panel.static, future, h)
        elif settings.strategy == "direct":
            X = np.column_stack([ahead.columns(), self._known(future, panel.static)])
            out = self.models[0].predict(X).reshape(panel.n_series, h)
        else:
            past = ahead.columns()
            out = np.column_stack([
                model.predict(np.column_stack([past, self._step(future, step, panel.static)]))
                for step, model in enumerate(self.models[:h])
            ])  # fmt: skip
        return inverse(np.ascontiguousarray(out, dtype=np.float64))

    @property
    def can_join(self) -> bool:
        """Whether :meth:`predict_each` applies: one model of the next step, and columns that treat rows one by one."""
        by_row = all(isinstance(f, str) for f in self.settings.features.date_features)
        return self.settings.strategy == "recursive" and by_row

    @staticmethod
    def predict_each(several: list[Learned], panel: Panel, owner: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) of several fits with equal settings; ``owner[i]`` is the fit of history i.

        Columns of all histories are computed at once, and every model predicts its histories at each step. The result
        is that of :meth:`predict` for each fit.
        """
        settings, h = several[0].settings, future.times.shape[1]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))  # histories of a fit are neighbours
        mine = [slice(a, b) for a, b in pairwise([*starts.tolist(), len(owner)])]
        z, inverses = [], []
        for rows in mine:
            part, fit = panel.take(np.arange(rows.start, rows.stop)), several[owner[rows.start]]
            own, inverse = fit.transforms.take(np.zeros(part.n_series, dtype=int)).apply(part.filled, part.indptr)
            z.append(own)
            inverses.append(inverse)
        ahead = settings.features.ahead(np.concatenate(z), panel.indptr)
        calendar = settings.features.calendar(future.times.ravel()).reshape(len(owner), h, -1)
        out = np.empty((len(owner), h))
        for step in range(h):
            if step:
                ahead.append(out[:, step - 1])
            X = np.column_stack([ahead.columns(), calendar[:, step], future.exog[:, step], panel.static])
            for rows in mine:
                out[rows, step] = several[owner[rows.start]].models[0].predict(X[rows])
        for rows, inverse in zip(mine, inverses, strict=True):
            out[rows] = inverse(np.ascontiguousarray(out[rows]))
        return out

    def _step(self, future: Future, step: int, static: Array) -> Array:
        calendar = self.settings.features.calendar(future.times[:, step])
        return np.column_stack([calendar, future.exog[:, step], static])

    def _recursive(self, ahead: Any, static: Array, future: Future, h: int) -> Array:
        out = np.empty((len(static), h))
        for step in range(h):
            if step:
                ahead.append(out[:, step - 1])
            X = np.column_stack([ahead.columns(), self._step(future, step, static)])
            out[:, step] = self.models[0].predict(X)
        return out


def _is_own(transforms: Chain) -> bool:
    """Whether all transforms are those of this package, which treat each series by itself."""
    return all(type(step).__module__ == Chain.__module__ for step in transforms.steps)


def _copy(model: Any) -> Any:
    """An unfitted copy of an unfitted model; the parameters of our own are not changed by a fit and can be shared."""
    return copy.copy(model) if type(model) is SoftBoostRegressor else clone(model)


def _able(model: Any, features: Features, y: Array) -> Any:
    """A clone of the model, wrapped if it does not support missing values or several outputs.

    Transforms of windows are told the positions of the lags.
    """
    model = clone(model)
    transform = getattr(model, "feature_transform", None)
    if isinstance(transform, Transform):
        oldest_first = sorted(range(len(features.lags)), key=lambda place: -features.lags[place])
        model.set_params(feature_transform=transform.with_columns(features.names()).with_lags(oldest_first))
    tags = get_tags(model)
    if y.ndim == 2 and not tags.target_tags.multi_output:
        model = MultiOutputRegressor(model)
    if not tags.input_tags.allow_nan:
        model = make_pipeline(SimpleImputer(keep_empty_features=True), model)
    return model
