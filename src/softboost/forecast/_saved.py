"""Forecasters in model files: settings, the rows that forecasts start from, and the fitted models; no pickle."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from softboost._model_values import Codec, Fields, register

from . import lag_transforms, target_transforms
from ._features import Features
from ._fitted import Fitted, fit_one_by_one
from ._forecaster import Forecaster
from ._frame import LongFrame, Names, read_long
from ._frame_columns import PLAIN, frame_of_columns, kind_of_frame, plain_columns
from ._learned import Learned, Settings
from .target_transforms import Chain, TargetTransform

__all__: list[str] = []


# -- small parts -----------------------------------------------------------------------------------------------------


def _register_settings() -> None:
    for name in lag_transforms.__all__:
        cls = getattr(lag_transforms, name)
        names = [field.name for field in dataclass_fields(cls)]
        register(cls, Codec(vars, _from_settings(cls, names)))
    for cls, names in (
        (target_transforms.Log, ["offset"]),
        (target_transforms.Differences, ["differences"]),
        (target_transforms.LocalStandardScaler, []),
        (target_transforms.LocalMinMaxScaler, []),
        (target_transforms.LocalRobustScaler, ["scale"]),
    ):
        register(cls, Codec(_settings_of(names), _from_settings(cls, names)))
    register(Features, Codec(_pack_features, _unpack_features))


def _settings_of(names: list[str]) -> Any:
    return lambda transform: {name: getattr(transform, name) for name in names}


def _from_settings(cls: Any, names: list[str]) -> Any:
    def unpack(f: Fields) -> Any:
        values = {name: f.take(name, (int, float, str, list, type(None))) for name in names}
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise f.error(str(error)) from None

    return unpack


def _pack_features(features: Features) -> dict[str, Any]:
    transforms = {int(lag): list(given) for lag, given in features.lag_transforms.items()}
    lags = [int(lag) for lag in features.lags]
    return {"lags": lags, "lag_transforms": transforms, "date_features": list(features.date_features)}


def _unpack_features(f: Fields) -> Features:
    try:
        features = Features(f.take("lags", list), f.take("lag_transforms", dict), f.take("date_features", list))
        features.kernels()
        return features
    except (AttributeError, TypeError, ValueError) as error:
        raise f.error(str(error)) from None


# -- the forecaster --------------------------------------------------------------------------------------------------


def _pack(forecaster: Forecaster) -> dict[str, Any]:
    params = forecaster.get_params(deep=False)
    params["engine"] = params["engine"] if isinstance(params["engine"], str) else None  # a cluster is not kept
    for name in ("lags", "date_features", "static_features"):
        params[name] = None if params[name] is None else list(params[name])
    if not hasattr(forecaster, "fitted_"):
        return {"params": params, "fitted": None}
    frame, fitted = forecaster.frame_, forecaster.fitted_
    state = {
        "kind": kind_of_frame(frame.native),
        "columns": plain_columns(frame.native),
        "freq": frame.freq,
        "static": frame.static,
        "categories": frame.categories,
        "season_length": forecaster.season_length_,
        "features": forecaster.features_,
        "target_transforms": forecaster.target_transforms_.steps,
        "choice": forecaster.choice_,
        "scope": fitted.scope,
        "short": fitted.short,
        "place": fitted.place,
        "models": [_pack_learned(learned) for learned in fitted.models],
    }
    return {"params": params, "fitted": state}


def _pack_learned(learned: Learned | None) -> dict[str, Any] | None:
    if learned is None:
        return None
    return {"models": learned.models, "stats": [getattr(step, "stats_", None) for step in learned.transforms.steps]}


def _unpack(f: Fields) -> Forecaster:
    params, state = f.take("params", dict), f.take("fitted", (dict, type(None)))
    try:
        forecaster = Forecaster(**params)
        forecaster._check_params()
        if state is not None:
            _restore(forecaster, Fields(state, f"{f.where}.fitted"))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise f.error(str(error)) from None
    return forecaster


def _restore(forecaster: Forecaster, f: Fields) -> None:
    frame = _unpack_frame(forecaster, f)
    forecaster.features_ = f.take("features", Features)
    forecaster.season_length_ = f.integer("season_length", 1, 10**6)
    steps = f.take("target_transforms", list)
    if not all(isinstance(step, TargetTransform) for step in steps):
        raise f.error("target_transforms holds something else")
    forecaster.target_transforms_ = Chain(steps)
    forecaster.choice_ = f.take("choice", dict)
    forecaster.freq_, forecaster.frame_ = frame.freq, frame
    forecaster.scope_ = f.take("scope", str)
    forecaster.fitted_ = _unpack_fitted(forecaster, frame, f)
    forecaster._widths = {}
    f.done()
    forecaster._flag(forecaster.fitted_, frame, quiet=True)


def _unpack_frame(forecaster: Forecaster, f: Fields) -> LongFrame:
    columns = f.take("columns", list)
    for column in columns:
        if column["dtype"] not in {*PLAIN, "Datetime", "Date", "String"}:
            raise f.error(f"a column of dtype {column['dtype']!r}")
    native = frame_of_columns(f.take("kind", str), columns)
    names = Names(forecaster.id_col, forecaster.time_col, forecaster.target_col)
    static, categories = f.take("static", list), f.take("categories", dict)
    freq = f.take("freq", (str, int))
    return read_long(native, freq, names, static=static, gaps=forecaster.gaps, categories=categories)


def _unpack_fitted(forecaster: Forecaster, frame: LongFrame, f: Fields) -> Fitted:
    n_series = frame.panel.n_series
    fitted: Any = object.__new__(Fitted)
    fitted.settings = forecaster._settings(forecaster.h)
    fitted.scope, fitted.season, fitted.fit_many = forecaster.scope_, forecaster.season_length_, fit_one_by_one
    fitted.short = f.array("short", "b", (n_series,))
    fitted.place = f.array("place", "i", (n_series,))
    models = f.take("models", list)
    local = forecaster.scope_ == "local"
    if forecaster.scope_ not in ("local", "global") or len(models) != (n_series if local else min(len(models), 1)):
        raise f.error(f"{len(models)} models for {n_series} series of scope {forecaster.scope_!r}")
    n_pooled = int(fitted.place.max(initial=-1)) + 1
    if not local and (np.any((fitted.place < 0) & ~fitted.short) or n_pooled > n_series):
        raise f.error("place does not name the series of the pooled model")
    fitted.models = [_unpack_learned(fitted.settings, m, 1 if local else n_pooled, f) for m in models]
    if local and any((m is None) != bool(short) for m, short in zip(fitted.models, fitted.short, strict=True)):
        raise f.error("a series without a model is not marked as short")
    return fitted


def _unpack_learned(settings: Settings, state: Any, n_series: int, f: Fields) -> Learned | None:
    if state is None:
        return None
    inner = Fields(dict(state), f"{f.where}.models")
    learned: Any = object.__new__(Learned)
    learned.settings, learned.models = settings, inner.take("models", list)
    stats = inner.take("stats", list)
    inner.done()
    n_models = settings.h if settings.strategy == "direct_each" else 1
    if len(learned.models) != n_models or not all(hasattr(m, "predict") for m in learned.models):
        raise f.error(f"{len(learned.models)} models where {n_models} are needed")
    steps = zip(settings.transforms.steps, stats, strict=True)
    learned.transforms = Chain([step.with_stats(values, n_series) for step, values in steps])
    return learned


_register_settings()
register(Forecaster, Codec(_pack, _unpack))
