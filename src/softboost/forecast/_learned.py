"""One fit of a regression: target transforms, features and model, for one series or for pooled series."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

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
        own = self.own_features is not None and panel.n_series == 1
        return self.with_features(self.own_features(len(panel.y)) if own else self.features)  # type: ignore[misc]

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
        for X, y in learned._training_sets(panel, z, np.ones(len(z), dtype=bool)):
            learned.models.append(_able(settings.model, settings.features, y).fit(X, y))
        return learned

    # -- training ------------------------------------------------------------------------------------------------

    def _training_sets(self, panel: Panel, z: Array, wanted: Array) -> list[tuple[Array, Array]]:
        """X and y for each model, with rows in time order; ``wanted`` marks the rows that may be targets.

        Filled values are used as lags, never as targets.
        """
        wanted = wanted & ~np.isnan(panel.y)
        settings, features = self.settings, self.settings.features
        past = features.of_rows(z, panel.indptr)
        static = np.repeat(panel.static, panel.sizes, axis=0)
        order = np.argsort(panel.times, kind="stable")
        if settings.strategy == "recursive":
            known = np.column_stack([features.calendar(panel.times), panel.exog, static])
            rows = order[(wanted & ~np.isnan(z))[order]]
            return [(np.column_stack([past[rows], known[rows]]), z[rows])]
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
            return [(X, y if settings.h > 1 else y[:, 0])]
        sets = []
        for step in range(settings.h):
            rows = order[(np.arange(len(z)) + step < ends)[order]]
            rows = rows[wanted[rows + step] & ~np.isnan(z[rows + step])]
            then = rows + step
            known = np.column_stack([features.calendar(panel.times[then]), panel.exog[then], static[rows]])
            sets.append((np.column_stack([past[rows], known]), z[then]))
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
        for model, (X, y) in zip(self.models, self._training_sets(panel, z, wanted), strict=True):
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
