"""Forecasters in model files: settings, the rows that forecasts start from, and the fitted models; no pickle.

Of the training rows a file holds the last ones alone. Everything read is checked: kinds, shapes and ranges here, the
rows in :mod:`softboost.forecast._saved_rows`, the models by the codec of the regressor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from softboost._file.codecs.settings import conforms
from softboost._file.values import Codec, Fields, ModelFileError, register
from softboost._regressor import SoftBoostRegressor

from . import lag_transforms, target_transforms
from ._features import Features
from ._fitted import Fitted, fit_one_by_one
from ._forecaster import Forecaster
from ._frame import LongFrame
from ._learned import Learned, Settings
from ._rolling import Scores
from ._saved_rows import last_rows, pack_rows, unpack_rows
from .target_transforms import Chain, TargetTransform, read_target_transforms

__all__: list[str] = []

MAX_STEPS = 100_000  # so that a file cannot ask for forecasts without end
MAX_JOBS = 1024
LARGEST = 1e150  # squares stay finite
PARAMETERS: dict[str, Any] = {
    "freq": str | int | None,
    "h": int,
    "model": SoftBoostRegressor | None,
    "lags": list[int] | None,
    "lag_transforms": dict[int, list[Any]] | None,
    "date_features": list[str | Callable] | None,  # type: ignore[type-arg]
    "target_transforms": str | list[TargetTransform] | None,
    "season_length": int | None,
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
    """Lag transforms as objects of this package, also where they came as mlforecast's."""
    return {int(lag): [_own(t) for t in transforms] for lag, transforms in given.items()}


def _own(transform: Any) -> Any:
    cls: Any = getattr(lag_transforms, type(transform).__name__, type(transform))
    if type(transform) is cls:
        return transform
    return cls(**{field.name: getattr(transform, field.name, None) for field in dataclass_fields(cls)})


def _unpack_features(f: Fields) -> Features:
    lags, transforms, dates = f.take("lags", list), f.take("lag_transforms", dict), f.take("date_features", list)
    if not (conforms(lags, list[int]) and conforms(transforms, dict[int, list[Any]])):
        raise f.error("lags and lag_transforms must name whole numbers of rows")
    try:
        features = Features(lags, transforms, dates)
        features.kernels()
    except (AttributeError, TypeError, ValueError) as error:
        raise f.error(str(error)) from None
    return features


# -- writing ---------------------------------------------------------------------------------------------------------


def _pack(forecaster: Forecaster) -> dict[str, Any]:
    params = forecaster.get_params(deep=False)
    params["engine"] = None  # a cluster is not kept
    for name in ("lags", "date_features", "static_features"):
        params[name] = None if params[name] is None else list(params[name])
    if params["lag_transforms"] is not None:
        params["lag_transforms"] = _own_words(params["lag_transforms"])
    if params["target_transforms"] not in ("auto", None):
        params["target_transforms"] = read_target_transforms(params["target_transforms"]).steps
    if params["h"] > MAX_STEPS:
        raise ModelFileError(f"h={params['h']} is more than the {MAX_STEPS:,} steps that a model file may ask for")
    if not hasattr(forecaster, "fitted_"):
        return {"params": params, "fitted": None}
    frame, fitted = forecaster.frame_, forecaster.fitted_
    kept = last_rows(frame, _rows_needed(forecaster))
    state = {
        **pack_rows(frame, kept),
        "cut": frame.cut or len(kept) < len(frame.panel.y),
        "freq": frame.freq,
        "season_length": forecaster.season_length_,
        "features": forecaster.features_,
        "target_transforms": forecaster.target_transforms_.steps,
        "choice": forecaster.choice_,
        "scope": fitted.scope,
        "short": fitted.short,
        "place": fitted.place,
        "models": [_pack_learned(learned) for learned in fitted.models],
        "scores": [[h, scores.errors, scores.scales] for h, scores in forecaster._scores.items()],
    }
    return {"params": params, "fitted": state}


def _rows_needed(forecaster: Forecaster) -> Any:
    """Rows at the end of each series without which it could not go on as before."""
    sizes, reach = forecaster.frame_.panel.sizes, forecaster.features_.reach()
    if reach is None:
        return sizes
    n_lost, ahead = forecaster.target_transforms_.n_lost, forecaster.h - 1
    # what the features see of the first row that may still be learned; what a model of its own or the fallback needs
    n = max(reach + n_lost + ahead, n_lost + ahead + 8, forecaster.season_length_)
    return np.where(forecaster.fitted_.short, sizes, np.minimum(sizes, n))


def _pack_learned(learned: Learned | None) -> dict[str, Any] | None:
    if learned is None:
        return None
    return {"models": learned.models, "stats": [getattr(step, "stats_", None) for step in learned.transforms.steps]}


# -- reading ---------------------------------------------------------------------------------------------------------


def _unpack(f: Fields) -> Forecaster:
    params, state = f.take("params", dict), f.take("fitted", (dict, type(None)))
    for name, value in params.items():
        if name not in PARAMETERS or not conforms(value, PARAMETERS[name]):
            raise f.error(f"the parameter {name!r:.80} cannot be {value!r:.80}")
    try:
        forecaster = Forecaster(**params)
        forecaster._check_params()
    except (TypeError, ValueError, OverflowError) as error:
        raise f.error(str(error)) from None
    if forecaster.h > MAX_STEPS or abs(forecaster.n_jobs or 1) > MAX_JOBS:
        raise f.error(f"h={forecaster.h} and n_jobs={forecaster.n_jobs} are more than a model file may ask for")
    if state is not None:
        _restore(forecaster, f.inner(state, "fitted"))
    return forecaster


def _restore(forecaster: Forecaster, f: Fields) -> None:
    forecaster.features_ = f.take("features", Features)
    forecaster.season_length_ = f.integer("season_length", 1, 10**6)
    steps = f.take("target_transforms", list)
    if not all(isinstance(step, TargetTransform) for step in steps):
        raise f.error("target_transforms holds something else")
    forecaster.target_transforms_ = Chain(steps)
    forecaster.choice_ = f.take("choice", dict)
    if not conforms(forecaster.choice_, dict[str, float]):
        raise f.error("choice must give numbers by name")
    forecaster.scope_ = f.take("scope", str)
    frame = unpack_rows(f, forecaster)
    frame.cut = f.take("cut", bool)
    forecaster.freq_ = frame.freq
    if forecaster.features_.date_features and frame.panel.times.dtype.kind != "M":
        raise f.error("features of dates where times are whole numbers")
    fitted = _unpack_fitted(forecaster, frame, f)
    scores = _unpack_scores(f, forecaster.strategy, forecaster.h, frame.panel.n_series)
    f.done()
    forecaster._adopt(frame, fitted, scores)


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
        raise f.error(f"{len(models)} models for {n_series} series of scope {forecaster.scope_!r:.80}")
    if np.any(fitted._too_short(frame.panel) & ~fitted.short):
        raise f.error("a series has fewer rows than its model needs")
    if not local:
        _check_places(f, fitted, bool(models))
    n_pooled = int(fitted.place.max(initial=-1)) + 1
    fitted.models = [_unpack_learned(fitted.settings, m, 1 if local else n_pooled, frame, f) for m in models]
    if local and any((m is None) != bool(short) for m, short in zip(fitted.models, fitted.short, strict=True)):
        raise f.error("a series without a model is not marked as short")
    _check_target(f, fitted, frame)
    return fitted


def _check_places(f: Fields, fitted: Any, has_model: bool) -> None:
    """Each series of a pooled model has a place of its own in it, and the others have none."""
    places = fitted.place[~fitted.short]
    if np.any(fitted.place[fitted.short] != -1) or not np.array_equal(np.sort(places), np.arange(len(places))):
        raise f.error("place does not name the series of the pooled model")
    if has_model != bool(len(places)):
        raise f.error("a pooled model without series, or series without it")


def _check_target(f: Fields, fitted: Fitted, frame: LongFrame) -> None:
    """The rows can be taken through the transforms of the target."""
    with np.errstate(all="ignore"):
        for i, model in enumerate(fitted.models):
            mine = np.flatnonzero(~fitted.short) if fitted.scope == "global" else np.array([i])
            if model is None or not len(mine):
                continue
            places = fitted.place[mine] if fitted.scope == "global" else np.zeros(1, dtype=np.int64)
            panel = frame.panel.take(mine)
            try:
                z, _ = model.transforms.take(places).apply(panel.y, panel.indptr)
            except ValueError as error:
                raise f.error(str(error)) from None
            if np.any(np.abs(z) > LARGEST):  # sums and squares of them must be numbers too: features are made of these
                raise f.error("the rows overflow in the transforms of the target")


def _unpack_learned(settings: Settings, state: Any, n_series: int, frame: LongFrame, f: Fields) -> Learned | None:
    if state is None:
        return None
    if not isinstance(state, dict) or not conforms(list(state), list[str]):
        raise f.error("models must hold dicts")
    inner = f.inner(dict(state), "models")
    learned: Any = object.__new__(Learned)
    learned.settings, learned.models = settings, inner.take("models", list)
    stats = inner.take("stats", list)
    inner.done()
    n_models = settings.h if settings.strategy == "direct_each" else 1
    if len(learned.models) != n_models:
        raise f.error(f"{len(learned.models)} models where {n_models} are needed")
    for model in learned.models:
        _check_model(f, model, settings, frame)
    if len(stats) != len(settings.transforms.steps):
        raise f.error(f"{len(stats)} learned transforms of the target instead of {len(settings.transforms.steps)}")
    steps = zip(settings.transforms.steps, stats, strict=True)
    try:
        learned.transforms = Chain([step.with_stats(values, n_series) for step, values in steps])
    except ValueError as error:
        raise f.error(str(error)) from None
    return learned


def _check_model(f: Fields, model: Any, settings: Settings, frame: LongFrame) -> None:
    """A fitted regressor with as many columns as the features give, and as many outputs as the strategy wants."""
    if type(model) is not SoftBoostRegressor or not hasattr(model, "members_"):
        raise f.error("a forecaster without a fitted regressor")
    features, panel, direct = settings.features, frame.panel, settings.strategy == "direct"
    n_columns = len(features.names()) + panel.static.shape[1] + panel.exog.shape[1] * (settings.h if direct else 1)
    n_outputs = settings.h if direct else 1
    if (model.n_features_in_, model.n_outputs_, model._fitted.y_ndim) != (n_columns, n_outputs, 1 + (n_outputs > 1)):
        raise f.error(
            f"a regressor of {model.n_features_in_} columns and {model.n_outputs_} outputs where {n_columns} and "
            f"{n_outputs} are needed"
        )
    if hasattr(model, "feature_names_in_"):
        raise f.error("a regressor that was fitted on names, which forecasters do not give")


def _unpack_scores(f: Fields, strategy: str, h: int, n_series: int) -> dict[int, Scores]:
    out: dict[int, Scores] = {}
    for row in f.take("scores", list):
        if not (isinstance(row, list) and len(row) == 3 and type(row[0]) is int and row[0] not in out):
            raise f.error("scores must be lists of a number of steps, errors and scales, each number once")
        inner = f.inner({"h": row[0], "errors": row[1], "scales": row[2]}, "scores")
        steps = inner.integer("h", 1, MAX_STEPS if strategy == "recursive" else h)
        wide = h if strategy == "direct" else steps
        errors = inner.array("errors", "f", (n_series, None, wide), finite=False)
        scales = inner.array("scales", "f", (n_series,))
        if errors.shape[1] < 1 or np.any(np.abs(errors) > LARGEST) or np.isnan(errors).all(axis=(0, 1)).any():
            raise inner.error("errors must be numbers, at least one for each step")
        if np.any((scales < 0) | (scales > LARGEST)):
            raise inner.error("scales must not be negative")
        out[steps] = Scores(errors, scales)
    return out


_register_settings()
register(Forecaster, Codec(_pack, _unpack), model=True)
