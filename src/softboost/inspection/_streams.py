"""Shapley values of an online model, whose rows are dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost.online import OnlineSoftBoostRegressor

from ._attributions import Attributions, shapley_plan

__all__ = ["is_online", "online_attributions", "online_importances", "online_shares"]

Array = NDArray[Any]
N_BACKGROUND = 10
N_EXPLAINED = 20
EXPERTS = (
    "mean",
    "linear",
    "fast linear",
    "linear and trees",
    "boosted trees",
    "trees and boosted trees",
    "last value",
    "last value as observed",
)


def is_online(model: Any) -> bool:
    """Whether this is an online model."""
    return isinstance(model, OnlineSoftBoostRegressor)


def online_attributions(model: OnlineSoftBoostRegressor, X: Any, random_state: int = 0) -> Attributions:
    """Shapley values of the features of each row."""
    rows = _as_dicts(X)
    names = _features(model)
    encoded = np.array([model._encoder.encode(row) for row in rows])
    values, baseline, prediction = _values(model, encoded, names, random_state)
    data = np.array([[row.get(name) for name in names] for row in rows], dtype=object)
    index = X.index if isinstance(X, pd.DataFrame) else None
    return Attributions(values, baseline, prediction, [str(name) for name in names], index, data)


def online_importances(model: OnlineSoftBoostRegressor) -> pd.Series[float]:
    """Mean absolute Shapley values over recent rows; they sum to one."""
    names = _features(model)
    rows = model._rows.X[_spread(model._rows.places(), N_EXPLAINED)]
    values, _, _ = _values(model, rows, names, 0)
    size = np.abs(values).mean(axis=0)
    return pd.Series(size / (size.sum() or 1.0), index=[str(name) for name in names], dtype=float)


def online_shares(model: OnlineSoftBoostRegressor) -> pd.DataFrame:
    """Weights of the models that an online model combines."""
    return pd.DataFrame([model._experts.weights().sum(axis=1)], columns=list(EXPERTS))


def _as_dicts(X: Any) -> list[Mapping[Any, Any]]:
    if isinstance(X, Mapping):
        return [X]
    if isinstance(X, pd.DataFrame):
        return list(X.to_dict("records"))
    rows = list(X)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("rows of an online model are dicts of features by name, or a pandas frame")
    return rows


def _features(model: OnlineSoftBoostRegressor) -> list[Any]:
    """Names of the features seen so far, in the order of their first entry."""
    names = list(dict.fromkeys(name for name, _ in model._encoder.slots if name is not None))
    if model.n_rows_seen == 0 or not names:
        raise ValueError("the model has not learned a row with features yet; call learn_one first")
    return names


def _spread(places: Array, most: int) -> Array:
    return places[np.unique(np.linspace(0, len(places) - 1, min(len(places), most)).astype(int))]


def _values(
    model: OnlineSoftBoostRegressor, rows: Array, names: list[Any], random_state: int
) -> tuple[Array, float, Array]:
    """Shapley values (n_rows, n_features), the baseline and the predictions."""
    others = model._rows.X[_spread(model._rows.places(), N_BACKGROUND)]
    known, weights = shapley_plan(len(names), np.random.default_rng(random_state))
    place = {name: i for i, name in enumerate(names)}
    owner = np.array([place.get(name, -1) for name, _ in model._encoder.slots])
    mask = np.where(owner >= 0, known[:, owner], False)
    out = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        told = [np.mean([model._predict_encoded(np.where(m, row, other)) for other in others]) for m in mask]
        out[i] = weights @ np.array(told)
    baseline = float(np.mean([model._predict_encoded(other) for other in others]))
    return out, baseline, baseline + out.sum(axis=1)
