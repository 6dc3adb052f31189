"""One fit of a regression: target transforms, features and model, for one series or for pooled series."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from ._together import fit_together, predict_together
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
    models: Sequence[Any]

    @classmethod
    def fit(cls, settings: Settings, panel: Panel) -> Learned:
        """Fit transforms and models to a panel."""
        settings = settings.of(panel)
        transforms = settings.transforms.fit(panel.filled, panel.indptr)
        z, _ = transforms.apply(panel.filled, panel.indptr)
        sets = cls(settings, transforms, [])._training_sets(panel, z, np.ones(len(z), dtype=bool))
        return cls(settings, transforms, [_able(settings.model, settings.features, y).fit(X, y) for X, y, _ in sets])

    @classmethod
    def fit_each(cls, settings: Settings, panel: Panel) -> list[Learned]:
        """Fit a model to each series; columns of all series are computed at once, and so are the models, if possible.

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
            starts = [np.searchsorted(first, part.indptr) for _, _, first in sets]
            together = fit_together(blank, [(X, y, begin) for (X, y, _), begin in zip(sets, starts, strict=True)])
            for k, i in enumerate(series):
                models: Sequence[Any] = [] if together is None else together.of(k)
                if together is None:
                    models = [
                        _copy(model).fit(X[begin[k] : begin[k + 1]], y[begin[k] : begin[k + 1]])
                        for model, (X, y, _), begin in zip(blank, sets, starts, strict=True)
                    ]
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
        return self._forecasts(self.transforms.take(series), self._predict, panel, future)

    @property
    def can_join(self) -> bool:
        """Whether :meth:`predict_each` applies: transforms and columns do not depend on other rows or series."""
        by_row = all(isinstance(f, str) for f in self.settings.features.date_features)
        return by_row and _is_own(self.transforms)

    @staticmethod
    def predict_each(several: Sequence[Learned], panel: Panel, owner: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) of several fits with equal settings; ``owner[i]`` is the fit of history i.

        Transforms and columns of all histories are computed at once, and models that were fitted together predict
        together. The result is that of :meth:`predict` for each fit.
        """
        transforms = _joined([one.transforms for one in several]).take(owner)
        predict = predict_together([one.models for one in several], owner)
        return several[0]._forecasts(transforms, predict, panel, future)

    def _predict(self, place: int, X: Array) -> Array:
        prediction: Array = self.models[place].predict(X)
        return prediction

    def _forecasts(
        self, transforms: Chain, predict: Callable[[int, Array], Array], panel: Panel, future: Future
    ) -> Array:
        """Forecasts after the histories of ``panel``; ``predict(k, X)`` are the predictions of the k-th models."""
        z, inverse = transforms.apply(panel.filled, panel.indptr)
        n_series, h = future.times.shape
        settings, ahead = self.settings, self.settings.features.ahead(z, panel.indptr)
        out = np.empty((n_series, h))
        if settings.strategy == "direct":
            X = np.column_stack([ahead.columns(), self._known(future, panel.static)])
            out = predict(0, X).reshape(n_series, h)
            return inverse(np.ascontiguousarray(out, dtype=np.float64))
        calendar = settings.features.calendar(future.times.ravel()).reshape(n_series, h, -1)
        recursive, past = settings.strategy == "recursive", ahead.columns()
        for step in range(h):
            if recursive and step:
                ahead.append(out[:, step - 1])
                past = ahead.columns()
            X = np.column_stack([past, calendar[:, step], future.exog[:, step], panel.static])
            out[:, step] = predict(0 if recursive else step, X)
        return inverse(out)


def _is_own(transforms: Chain) -> bool:
    """Whether all transforms are those of this package, which treat each series by itself."""
    return all(type(step).__module__ == Chain.__module__ for step in transforms.steps)


def _joined(chains: Sequence[Chain]) -> Chain:
    """The transforms of several fits as those of one fit, with the series one after the other."""
    if len(chains) == 1:
        return chains[0]
    half = len(chains) // 2
    return _joined(chains[:half]).join(_joined(chains[half:]))


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
