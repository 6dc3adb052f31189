"""Forecasters in model files: settings, the last rows of each series and the fitted models; no pickle.

All values read are checked: types, shapes and ranges here, rows in :mod:`softboost.forecast._saved_rows`, models by the
codec of the regressor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any

from softboost._file.codecs.settings import conforms
from softboost._file.values import Codec, Fields, ModelFileError, register
from softboost._regressor import SoftBoostRegressor

from . import lag_transforms, target_transforms
from ._candidates import REGRESSIONS
from ._combination import Combination, ForecastChoice
from ._features import Features
from ._fitted import Fitted
from ._forecaster import Forecaster
from ._saved_models import (
    MAX_STEPS,
    pack_combination,
    pack_fitted,
    pack_scores,
    rows_needed,
    unpack_combination,
    unpack_fitted,
    unpack_scores,
)
from ._saved_rows import last_rows, pack_rows, unpack_rows
from .target_transforms import Chain, TargetTransform, read_target_transforms

__all__: list[str] = []

MAX_JOBS = 1024
PARAMETERS: dict[str, Any] = {
    "freq": str | int | None,
    "h": int,
    "model": SoftBoostRegressor | None,
    "candidates": list[str] | None,
    "lags": list[int] | None,
    "lag_transforms": dict[int, list[Any]] | None,
    "date_features": list[str | Callable] | None,  # type: ignore[type-arg]
    "target_transforms": str | list[TargetTransform] | None,
    "season_length": int | list[int] | None,
    "scope": str | None,
    "strategy": str,
    "static_features": list[str] | None,
    "gaps": str,
    "engine": None,
    "n_jobs": int | None,
    "id_col": str,
    "time_col": str,
    "target_col": str,
    "verbose": bool,
}


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
        except (TypeError, ValueError, OverflowError) as error:
            raise f.error(str(error)) from None

    return unpack


def _pack_features(features: Features) -> dict[str, Any]:
    lags = [int(lag) for lag in features.lags]
    return {
        "lags": lags,
        "lag_transforms": _own_words(features.lag_transforms),
        "date_features": list(features.date_features),
    }


def _own_words(given: Any) -> dict[int, list[Any]]:
    """Lag transforms as objects of this package; those of mlforecast are converted."""
    return {int(lag): [_own(t) for t in transforms] for lag, transforms in given.items()}


def _own(transform: Any) -> Any:
    cls: Any = getattr(lag_transforms, type(transform).__name__, type(transform))
    if type(transform) is cls:
        return transform
    return cls(**{field.name: getattr(transform, field.name, None) for field in dataclass_fields(cls)})


def _unpack_features(f: Fields) -> Features:
    lags, transforms, dates = f.take("lags", list), f.take("lag_transforms", dict), f.take("date_features", list)
    if not (conforms(lags, list[int]) and conforms(transforms, dict[int, list[Any]])):
        raise f.error("lags and lag_transforms must be integers")
    try:
        features = Features(lags, transforms, dates)
        features.kernels()
    except (AttributeError, TypeError, ValueError) as error:
        raise f.error(str(error)) from None
    return features


# -- writing ---------------------------------------------------------------------------------------------------------


def _pack(forecaster: Forecaster) -> dict[str, Any]:
    params = forecaster.get_params(deep=False)
    if not isinstance(params["model"], SoftBoostRegressor | None):
        raise ModelFileError(
            f"model={params['model']!r} cannot be saved: a model file holds softboost's own models only. Use pickle or "
            "joblib for a forecaster with another model"
        )
    params["engine"] = None  # a cluster is not kept
    for name in ("lags", "date_features", "static_features", "candidates"):
        params[name] = None if params[name] is None else list(params[name])
    if isinstance(params["season_length"], Sequence):
        params["season_length"] = [int(season) for season in params["season_length"]]
    if params["lag_transforms"] is not None:
        params["lag_transforms"] = _own_words(params["lag_transforms"])
    if params["target_transforms"] not in ("auto", None):
        params["target_transforms"] = read_target_transforms(params["target_transforms"]).steps
    if params["h"] > MAX_STEPS:
        raise ModelFileError(f"h={params['h']} exceeds {MAX_STEPS:,}, the largest horizon of a model file")
    if not hasattr(forecaster, "fitted_"):
        return {"params": params, "fitted": None}
    frame, fitted = forecaster.frame_, forecaster.fitted_
    kept = last_rows(frame, rows_needed(forecaster))
    state = {
        **pack_rows(frame, kept),
        "cut": frame.cut or len(kept) < len(frame.panel.y),
        "freq": frame.freq,
        "season_length": forecaster.season_length_,
        "features": forecaster.features_,
        "target_transforms": forecaster.target_transforms_.steps,
        "scores": [pack_scores(h, scores) for h, scores in forecaster._scores.items()],
    }
    if isinstance(fitted, Combination):
        state |= {"combination": pack_combination(fitted)}
    else:
        state |= {"choice": forecaster.choice_.errors, **pack_fitted(fitted)}
    return {"params": params, "fitted": state}


# -- reading ---------------------------------------------------------------------------------------------------------


def _unpack(f: Fields) -> Forecaster:
    params, state = f.take("params", dict), f.take("fitted", (dict, type(None)))
    for name, value in params.items():
        if name not in PARAMETERS or not conforms(value, PARAMETERS[name]):
            raise f.error(f"the parameter {name!r:.80} must not be {value!r:.80}")
    try:
        forecaster = Forecaster(**params)
        forecaster._check_params()
    except (TypeError, ValueError, OverflowError) as error:
        raise f.error(str(error)) from None
    if forecaster.h > MAX_STEPS or abs(forecaster.n_jobs or 1) > MAX_JOBS:
        raise f.error(f"h={forecaster.h} or n_jobs={forecaster.n_jobs} exceeds the limit of model files")
    if state is not None:
        _restore(forecaster, f.inner(state, "fitted"))
    return forecaster


def _restore(forecaster: Forecaster, f: Fields) -> None:
    forecaster.features_ = f.take("features", Features)
    forecaster.season_length_ = f.integer("season_length", 1, 10**6)
    steps = f.take("target_transforms", list)
    if not all(isinstance(step, TargetTransform) for step in steps):
        raise f.error("target_transforms contains an object of another class")
    forecaster.target_transforms_ = Chain(steps)
    frame = unpack_rows(f, forecaster)
    frame.cut = f.take("cut", bool)
    forecaster.freq_ = frame.freq
    if forecaster.features_.date_features and frame.panel.times.dtype.kind != "M":
        raise f.error("date_features require dates, but times are integers")
    forecaster._choose_candidates(frame)
    if "combination" not in f.values:  # regressions alone, as in files before candidates were combined
        forecaster.candidates_ = REGRESSIONS
    if forecaster._combines:
        combination = unpack_combination(forecaster, frame, f)
        fitted: Fitted | Combination = combination
        forecaster.scope_, forecaster.choice_ = None, combination.choice
    else:
        errors = f.take("choice", dict)
        if not conforms(errors, dict[str, float]):
            raise f.error("choice must map names to numbers")
        regression = unpack_fitted(forecaster, forecaster.target_transforms_, frame, f)
        fitted = regression
        forecaster.scope_, forecaster.choice_ = regression.scope, ForecastChoice(errors=errors)
    scores = unpack_scores(f, forecaster, frame.panel.n_series)
    f.done()
    forecaster._adopt(frame, fitted, scores)


_register_settings()
register(Forecaster, Codec(_pack, _unpack), model=True)
