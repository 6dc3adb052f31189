"""Fitted models of a forecaster in a model file: conversion to plain values, and checked reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from softboost._file.codecs.settings import conforms
from softboost._file.values import Fields
from softboost._regressor import SoftBoostRegressor

from ._candidates import BANK, CANDIDATES, REGRESSIONS
from ._combination import Combination, ForecastChoice
from ._correction import KINDS, Correction, Ridge
from ._fallback import too_short
from ._features import Features
from ._fitted import Fitted, fit_one_by_one, without_logarithm
from ._frame import LongFrame
from ._learned import Learned, Settings
from ._networks import Networks
from ._panel import Array
from ._rolling import Scores
from ._smoothing import N_EVIDENCE, Smoothing, stride_of, width_of
from .target_transforms import Chain, TargetTransform

__all__ = [
    "pack_combination",
    "pack_fitted",
    "pack_scores",
    "rows_needed",
    "unpack_combination",
    "unpack_fitted",
    "unpack_scores",
]

MAX_STEPS = 100_000  # limits the work that a file can cause
MAX_SEASON, MAX_SEASONS = 100_000, 8
LARGEST = 1e150  # squares stay finite
LARGEST_SINGLE = 1e15  # the same in single precision
MEMBERS = [member for row in CANDIDATES for member in row.members]


# -- writing -----------------------------------------------------------------------------------------------------------


def rows_needed(forecaster: Any) -> Array:
    """Number of last rows of each series that forecasts and updates need."""
    fitted, sizes, h = forecaster.fitted_, forecaster.frame_.panel.sizes, forecaster.h
    if not isinstance(fitted, Combination):
        return _rows_of_regression(fitted, sizes, h)
    bank = width_of(h, fitted.smoothing.seasons) + (N_EVIDENCE + 1) * stride_of(h)
    needed = np.minimum(sizes, bank)
    for regression in fitted.regressions.values():
        needed = np.maximum(needed, _rows_of_regression(regression, sizes, h))
    return needed


def _rows_of_regression(fitted: Fitted, sizes: Array, h: int) -> Array:
    settings = fitted.settings
    used = [settings.features, *(model.settings.features for model in fitted.models if model is not None)]
    reaches = [features.reach() for features in used]
    known = [reach for reach in reaches if reach is not None]
    if len(known) < len(reaches):
        return sizes
    n_lost, ahead = settings.transforms.n_lost, h - 1
    # rows for the features of the first row that can still be learned, for a local model, and for the fallback
    n = max(max(known) + n_lost + ahead, n_lost + ahead + 8, fitted.season)
    return np.where(fitted.short, sizes, np.minimum(sizes, n))


def pack_fitted(fitted: Fitted) -> dict[str, Any]:
    """Plain values of a regression."""
    return {
        "scope": fitted.scope,
        "short": fitted.short,
        "place": fitted.place,
        "models": [_pack_learned(learned, fitted.settings) for learned in fitted.models],
    }


def _pack_learned(learned: Learned | None, settings: Settings) -> dict[str, Any] | None:
    if learned is None:
        return None
    stats = [getattr(step, "stats_", None) for step in learned.transforms.steps]
    packed = {"models": list(learned.models), "stats": stats}
    return (
        packed if learned.settings.features == settings.features else packed | {"features": learned.settings.features}
    )


def pack_combination(fitted: Combination) -> dict[str, Any]:
    """Plain values of a combination."""
    regressions = {
        scope: {**pack_fitted(regression), "target_transforms": regression.settings.transforms.steps}
        for scope, regression in fitted.regressions.items()
    }
    corrections = {
        kind: [model if isinstance(model, SoftBoostRegressor) else dict(vars(model)) for model in correction.models]
        for kind, correction in fitted.corrections.items()
    }
    return {
        "seasons": list(fitted.smoothing.seasons),
        "members": list(fitted.members),
        "weights": fitted.weights,
        "typical": fitted.typical,
        "ratio": fitted.ratio,
        "choice": dict(vars(fitted.choice)),
        "corrections": corrections,
        "regressions": regressions,
    }


def pack_scores(h: int, scores: Scores) -> list[Any]:
    """Plain values of the scores for intervals of ``h`` steps."""
    links = [] if scores.logs is None else [float(scores.overlap), scores.logs, scores.limits]
    sign = [] if scores.nonnegative is None else [scores.nonnegative, scores.cycle]
    short = [] if scores.short is None else [scores.short, scores.phase]
    return [h, scores.errors, scores.scales, *links, *sign, *short]


# -- reading -----------------------------------------------------------------------------------------------------------


def unpack_fitted(forecaster: Any, chain: Chain, frame: LongFrame, f: Fields) -> Fitted:
    """A regression with the settings of a forecaster."""
    n_series, settings = frame.panel.n_series, forecaster._settings(chain, forecaster.h)
    scope = f.take("scope", str)
    short = f.array("short", "b", (n_series,))
    place = f.array("place", "i", (n_series,))
    models = f.take("models", list)
    local = scope == "local"
    if scope not in ("local", "global") or len(models) != (n_series if local else min(len(models), 1)):
        raise f.error(f"{len(models)} models for {n_series} series of scope {scope!r:.80}")
    least = too_short(frame.panel, scope, settings.transforms.n_lost, settings.h, settings.strategy)
    if np.any(least & ~short):
        raise f.error("a series has fewer rows than its model needs")
    if not local:
        _check_places(f, short, place, bool(models))
    n_pooled = int(place.max(initial=-1)) + 1
    learned = [_unpack_learned(settings, m, 1 if local else n_pooled, frame, f) for m in models]
    if local and any((m is None) != bool(s) for m, s in zip(learned, short, strict=True)):
        raise f.error("a series without a model is not marked as short")
    fitted = Fitted(settings, scope, forecaster.season_length_, short, place, learned, fit_one_by_one)
    _check_target(f, fitted, frame)
    return fitted


def _check_places(f: Fields, short: Array, place: Array, has_model: bool) -> None:
    """Check that each series of a global model has a unique place in it, and the others have none."""
    places = place[~short]
    if np.any(place[short] != -1) or not np.array_equal(np.sort(places), np.arange(len(places))):
        raise f.error("place must number the series of the global model")
    if has_model != bool(len(places)):
        raise f.error("a global model without series, or series without a global model")


def _check_target(f: Fields, fitted: Fitted, frame: LongFrame) -> None:
    """Check that the target transforms can be applied to the rows."""
    with np.errstate(all="ignore"):
        for i, model in enumerate(fitted.models):
            mine = np.flatnonzero(~fitted.short) if fitted.scope == "global" else np.array([i])
            mine = mine[~without_logarithm(fitted.settings, frame.panel.take(mine))]
            if model is None or not len(mine):
                continue
            places = fitted.place[mine] if fitted.scope == "global" else np.zeros(1, dtype=np.int64)
            panel = frame.panel.take(mine)
            try:
                z, _ = model.transforms.take(places).apply(panel.filled, panel.indptr)
            except ValueError as error:
                raise f.error(str(error)) from None
            if np.any(np.abs(z) > LARGEST):  # features use sums and squares
                raise f.error("the rows overflow in the target transforms")


def _unpack_learned(settings: Settings, state: Any, n_series: int, frame: LongFrame, f: Fields) -> Learned | None:
    if state is None:
        return None
    if not isinstance(state, dict) or not conforms(list(state), list[str]):
        raise f.error("models must be dicts")
    inner = f.inner(dict(state), "models")
    settings = settings.with_features(inner.take("features", Features) if "features" in state else settings.features)
    models, stats = inner.take("models", list), inner.take("stats", list)
    inner.done()
    n_models = settings.h if settings.strategy == "direct_each" else 1
    if len(models) != n_models:
        raise f.error(f"{len(models)} models where {n_models} are needed")
    for model in models:
        _check_model(f, model, settings, frame)
    if len(stats) != len(settings.transforms.steps):
        raise f.error(f"{len(stats)} learned transforms of the target instead of {len(settings.transforms.steps)}")
    steps = zip(settings.transforms.steps, stats, strict=True)
    try:
        transforms = Chain([step.with_stats(values, n_series) for step, values in steps])
    except ValueError as error:
        raise f.error(str(error)) from None
    return Learned(settings, transforms, models)


def _check_model(f: Fields, model: Any, settings: Settings, frame: LongFrame) -> None:
    """Check that the regressor is fitted and has the columns of the features and the outputs of the strategy."""
    features, panel, direct = settings.features, frame.panel, settings.strategy == "direct"
    n_columns = len(features.names()) + panel.static.shape[1] + panel.exog.shape[1] * (settings.h if direct else 1)
    if features.date_features and panel.times.dtype.kind != "M":
        raise f.error("date_features require dates, but times are integers")
    _check_regressor(f, model, n_columns, settings.h if direct else 1)


def _check_regressor(f: Fields, model: Any, n_columns: int, n_outputs: int) -> None:
    if type(model) is not SoftBoostRegressor or not hasattr(model, "members_"):
        raise f.error("a forecaster without a fitted regressor")
    if (model.n_features_in_, model.n_outputs_, model._fitted.y_ndim) != (n_columns, n_outputs, 1 + (n_outputs > 1)):
        raise f.error(
            f"a regressor of {model.n_features_in_} columns and {model.n_outputs_} outputs where {n_columns} and "
            f"{n_outputs} are needed"
        )
    if hasattr(model, "feature_names_in_"):
        raise f.error("a regressor that was fitted on column names, which forecasters do not use")


def unpack_combination(forecaster: Any, frame: LongFrame, f: Fields) -> Combination:
    """A combination with the settings of a forecaster."""
    inner = f.inner(f.take("combination", dict), "combination")
    n_series, h = frame.panel.n_series, forecaster.h
    seasons, members = inner.take("seasons", list), inner.take("members", list)
    if not conforms(seasons, list[int]) or len(seasons) > MAX_SEASONS or not all(2 <= m <= MAX_SEASON for m in seasons):
        raise inner.error(f"seasons must be at most {MAX_SEASONS} integers from 2 to {MAX_SEASON:,}")
    if not conforms(members, list[str]) or members[:1] != [BANK] or len(set(members)) != len(members):
        raise inner.error("members must be distinct names, the first of which is smoothing")
    if not set(members) <= set(MEMBERS):
        raise inner.error(f"members contains a name that is not in {MEMBERS}")
    smoothing = Smoothing(tuple(seasons), forecaster._n_threads())
    weights = _weights(inner, "weights", (n_series, len(members)))
    typical = _weights(inner, "typical", (len(members),))
    ratio = inner.array("ratio", "f", (h,))
    if np.any((ratio <= 0) | (ratio > 100)):
        raise inner.error("ratio must be positive")
    choice = _unpack_choice(inner)
    corrections, regressions = inner.take("corrections", dict), inner.take("regressions", dict)
    if set(corrections) != set(members) & set(KINDS) or set(regressions) != set(members) & set(REGRESSIONS):
        raise inner.error("corrections and regressions must match members")
    n_columns = _n_columns(smoothing, frame, h) if corrections else 0
    corrected = {
        kind: Correction(tuple(READERS[kind](inner, state, n_columns, h) for state in _listed(inner, states)), h)
        for kind, states in corrections.items()
    }
    fitted = {}
    for scope, state in regressions.items():
        if not isinstance(state, dict) or state.get("scope") != scope:
            raise inner.error("regressions must be dicts with their scope")
        part = inner.inner(dict(state), "regressions")
        steps = part.take("target_transforms", list)
        if not all(isinstance(step, TargetTransform) for step in steps):
            raise part.error("target_transforms contains an object of another class")
        fitted[scope] = unpack_fitted(forecaster, Chain(steps), frame, part)
        part.done()
    inner.done()
    return Combination(smoothing, h, corrected, fitted, tuple(members), weights, typical, ratio, choice)


def _weights(f: Fields, name: str, shape: tuple[int, ...]) -> Array:
    weights = f.array(name, "f", shape)
    if np.any(weights < 0) or np.any(np.abs(weights.sum(axis=-1) - 1) > 1e-6):
        raise f.error(f"{name} must be non-negative and sum to one")
    return weights


def _n_columns(smoothing: Smoothing, frame: LongFrame, h: int) -> int:
    panel = frame.panel.take([0])
    columns = smoothing.outlook(panel, h, columns=True).columns.shape[2]
    return int(columns + h * panel.exog.shape[1] + panel.static.shape[1])


def _listed(f: Fields, states: Any) -> list[Any]:
    """The models of a correction; older files hold a single one."""
    states = states if isinstance(states, list) else [states]
    if not states:
        raise f.error("corrections must contain a model")
    return states


def _read_trees(f: Fields, model: Any, n_columns: int, h: int) -> SoftBoostRegressor:
    _check_regressor(f, model, n_columns, h)
    return cast("SoftBoostRegressor", model)


def _read_linear(f: Fields, state: Any, n_columns: int, h: int) -> Ridge:
    shapes = {"mean": (n_columns,), "scale": (n_columns,), "coefficients": (n_columns, h), "intercept": (h,)}
    return Ridge(**_checked_arrays(f, state, shapes, LARGEST))


def _read_networks(f: Fields, state: Any, n_columns: int, h: int) -> Networks:
    n_parameters = Networks.layout(n_columns, h).n_parameters
    shapes = {"mean": (n_columns,), "scale": (n_columns,), "parameters": (None, n_parameters)}
    arrays = _checked_arrays(f, state, shapes, LARGEST_SINGLE)
    if not len(arrays["parameters"]):
        raise f.error("corrections must contain a network")
    return Networks(**{name: np.ascontiguousarray(a, dtype=np.float32) for name, a in arrays.items()})


def _checked_arrays(
    f: Fields, state: Any, shapes: Mapping[str, tuple[int | None, ...]], largest: float
) -> dict[str, Array]:
    """Arrays of a correction with these shapes and without too large numbers; ``scale`` is positive."""
    if not isinstance(state, dict):
        raise f.error("corrections contains an object of another class")
    inner = f.inner(dict(state), "corrections")
    arrays = {name: inner.array(name, "f", shape) for name, shape in shapes.items()}
    inner.done()
    if np.any(arrays["scale"] <= 0) or any(np.any(np.abs(a) > largest) for a in arrays.values()):
        raise inner.error("scale must be positive, and no number too large")
    return arrays


READERS = {"linear": _read_linear, "trees": _read_trees, "networks": _read_networks}


def _unpack_choice(f: Fields) -> ForecastChoice:
    inner = f.inner(f.take("choice", dict), "choice")
    weights, errors = inner.take("weights", dict), inner.take("errors", dict)
    if not (conforms(weights, dict[str, float]) and conforms(errors, dict[str, float])) or not set(weights) <= {
        row.name for row in CANDIDATES
    }:
        raise inner.error("weights and errors must map names to numbers")
    counts = inner.integer("n_series", 0, 2**53), inner.integer("n_origins", 0, 2**53)
    inner.done()
    return ForecastChoice(weights, errors, *counts)


def unpack_scores(f: Fields, forecaster: Any, n_series: int) -> dict[int, Scores]:
    """Scores for intervals, by horizon."""
    out: dict[int, Scores] = {}
    h = forecaster.h
    combines = forecaster._combines
    free = forecaster.strategy == "recursive" or combines
    for row in f.take("scores", list):
        names = ["h", "errors", "scales", *(["overlap", "logs", "limits"] if combines else [])]
        names += ["nonnegative", "cycle", "short", "phase"]
        complete = isinstance(row, list) and 0 <= len(names) - len(row) <= 4  # older files hold fewer
        if not (complete and type(row[0]) is int and row[0] not in out):
            raise f.error("scores must be lists of a distinct horizon, errors and scales")
        inner = f.inner(dict(zip(names, row, strict=False)), "scores")
        steps = inner.integer("h", 1, MAX_STEPS if free else h)
        wide = h if forecaster.strategy == "direct" and not combines else steps
        errors = inner.array("errors", "f", (n_series, None, wide), finite=False)
        scales = inner.array("scales", "f", (n_series,), finite=False)
        if errors.shape[1] < 1 or np.any(np.abs(errors) > LARGEST) or np.isnan(errors).all(axis=(0, 1)).any():
            raise inner.error("errors must contain a number for each step")
        if np.any((scales < 0) | (scales > LARGEST)):
            raise inner.error("scales must not be negative")
        overlap, logs, limits = 1.0, None, None
        if combines:
            overlap, logs = inner.take("overlap", float), inner.array("logs", "b", (n_series,))
            limits = inner.array("limits", "f", (n_series,), finite=False)
            if not 1 <= overlap <= MAX_STEPS or np.any(limits < 0):
                raise inner.error("overlap must be at least 1, and limits not negative")
        sign = inner.array("nonnegative", "b", (n_series,)) if "nonnegative" in inner.values else None
        cycle = inner.integer("cycle", 1, MAX_STEPS) if "cycle" in inner.values else 1
        short = inner.array("short", "b", (n_series,)) if "short" in inner.values else None
        phase = inner.integer("phase", 0, cycle - 1) if "phase" in inner.values else 0
        out[steps] = Scores(errors, scales, overlap, logs, limits, sign, cycle=cycle, short=short, phase=phase)
    return out
