"""Writes the golden files of the installed version: at least one file for every kind of object in the format.

python tests/golden/make.py          # only missing files; files of a release never change
python tests/golden/make.py --again  # all files, before this version is released
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.tree import DecisionTreeRegressor

sys.path.insert(0, str(Path(__file__).parents[1]))
import softboost
from helpers import Fourier, quartic, quartic_gradient
from softboost import SoftBoostRegressor
from softboost import forecast as fc
from softboost.losses import LOSSES
from softboost.online import OnlineSoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Linear, lstm, mlp

PLAIN: dict[str, Any] = {"n_estimators": 3, "learning_rate": 0.3, "depth": 2, "init": "constant"}
CUSTOM_OBJECTS = {"Fourier": Fourier, "quartic": quartic, "quartic_gradient": quartic_gradient}


def regressors() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, model, rows and predictions."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 4))
    y = np.exp(0.5 * X[:, 0]) + np.abs(X[:, 1])
    holes = X.copy()
    holes[::6, 2] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["e"] = np.array(["x", "y"])[(X[:, 3] > 0).astype(int)]
    rows = np.vstack([rng.normal(size=(5, 4)) * 2, [[np.nan] * 4]])
    walk = np.cumsum(rng.normal(size=84)) + 50
    random, none = {"gates": "random", "n_steps": 3}, {"feature_transform": None}
    models = {
        "default": SoftBoostRegressor().fit(X, y),
        "process": SoftBoostRegressor().fit(X, np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1])),
        "logarithm": SoftBoostRegressor().fit(X, np.exp(X[:, 0] - np.sin(2 * X[:, 1]))),
        "forest": SoftBoostRegressor().fit(X, np.abs(X).max(axis=1)),
        "limits": SoftBoostRegressor().fit(X, y + X[:, 2] * X[:, 3]),
        "missing": SoftBoostRegressor().fit(holes, y),
        "single": SoftBoostRegressor(**PLAIN, feature_transform=Linear(2)).fit(X.astype(np.float32), y),
        "diagonal": SoftBoostRegressor(**PLAIN, feature_transform="diagonal").fit(X, y),
        "bsdt": bsdt(2, n_steps=5, random_state=0).fit(X, y),
        "bsdt_q": bsdt_q(2, n_steps=5, random_state=0).fit(X, np.column_stack([y, -y])),
        "names": SoftBoostRegressor(**PLAIN, categorical_features=["e"], early_stopping=True).fit(frame, y),
        "walk": SoftBoostRegressor().fit(np.column_stack([walk[k : k + 80] for k in (3, 2, 1, 0)]), walk[4:]),
        "learned_on": SoftBoostRegressor(**PLAIN, **none).fit(X, y).partial_fit(X[:8], y[:8] + 1),
        "hard": SoftBoostRegressor(2, 0.5, **none, weak_learner=DecisionTreeRegressor(max_depth=2)).fit(X, y),
        "own_transform": SoftBoostRegressor(
            **PLAIN, **random, feature_transform=Fourier(n_steps=2), random_state=0
        ).fit(X, y),
        "own_loss": SoftBoostRegressor(**PLAIN, **none, loss=(quartic, quartic_gradient)).fit(X, y),
        "kfold": SoftBoostRegressor(**PLAIN, **none, cv=KFold(3), random_state=np.random.RandomState(3)).fit(X, y),
        "shuffled": SoftBoostRegressor(
            **PLAIN, **none, cv=ShuffleSplit(2, test_size=0.3), random_state=np.random.default_rng(3)
        ).fit(X, y),
        "in_time": SoftBoostRegressor(**PLAIN, **none, cv=TimeSeriesSplit(3, gap=1)).fit(X, y),
        "columns": SoftBoostRegressor(**PLAIN).fit(mixed(rng, 240), np.abs(rng.normal(size=240))),
        "intervals": SoftBoostRegressor().fit(X, y * (1 + X[:, 2] / 4)),
        "torch_mlp": SoftBoostRegressor(
            **PLAIN, feature_transform=mlp(2, (3,), n_steps=2, rest="drop"), random_state=0
        ).fit(X, y),
        "square": SoftBoostRegressor(**PLAIN, feature_transform="linear").fit(X, np.tanh(2 * X @ np.ones(4))),
        "torch_lstm": SoftBoostRegressor(
            **PLAIN, feature_transform=lstm(2, 3, windows=[[2, 1, 0]], n_steps=2), random_state=0
        ).fit(X, y),
        **{loss: SoftBoostRegressor(**PLAIN, **none, loss=loss).fit(X, 0.2 * y) for loss in LOSSES},
    }
    for name, model in models.items():
        expected: dict[str, Any] = {"X": rows.tolist()}
        given: Any = rows
        if name == "names":
            expected |= {"names": list("abcd"), "categories": {"e": ["x", "y", "x", "z", "y", "x"]}}
            given = pd.DataFrame(rows, columns=list("abcd")).assign(e=expected["categories"]["e"])
        if name == "columns":
            given = mixed(np.random.default_rng(8), 6)
            expected = {"X": [[]] * 6, "names": [], "categories": {"shop": given["shop"].tolist()}}
            expected["dates"] = {"day": [day.isoformat() for day in given["day"]]}
        if name == "intervals":
            expected["quantiles"] = model.predict_quantiles(rows).tolist()
        yield name, model, {**expected, "prediction": model.predict(given).tolist()}


def mixed(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Many categories, and dates."""
    shop = [f"shop {i}" for i in rng.integers(0, 40, size=n)]
    return pd.DataFrame({"shop": shop, "day": pd.date_range("2023-01-01 08:00", periods=n, freq="101h")})


def forecasters() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    rng = np.random.default_rng(7)
    n = 40
    df = pd.DataFrame({
        "unique_id": np.repeat(["s", "t"], n),
        "ds": np.tile(pd.date_range("2020-01-01", periods=n, freq="MS"), 2),
        "y": 20 + np.tile(np.sin(np.arange(n) * np.pi / 6), 2) + 0.1 * rng.normal(size=2 * n),
    })  # fmt: skip
    zoned = df.assign(ds=df["ds"].dt.tz_localize("Europe/Paris"), kind=np.repeat(["u", "v"], n))
    priced = df.assign(ds=np.tile(np.arange(n), 2), price=rng.normal(size=2 * n))
    ahead = pd.DataFrame({"unique_id": np.repeat(["s", "t"], 2), "ds": [n, n + 1] * 2, "price": [0.5, -1.0, 0.0, 2.0]})
    model = SoftBoostRegressor(2, 0.3, 1, feature_transform=None, init="linear", shuffle=False)
    plain: dict[str, Any] = {"h": 2, "model": model, "lags": [1, 2]}
    rolling = [fc.RollingMean(3), fc.RollingStd(4, min_samples=2), fc.RollingMin(3), fc.RollingMax(3)]
    rolling += [fc.RollingQuantile(0.3, 5), fc.SeasonalRollingMean(6, 2), fc.SeasonalRollingStd(6, 3)]
    expanding = [fc.ExpandingMean(), fc.ExpandingStd(), fc.ExpandingMin(), fc.ExpandingMax()]
    expanding += [fc.ExponentiallyWeightedMean(0.3)]
    local = {"scope": "local", "target_transforms": [fc.Log(), fc.Differences([1]), fc.LocalStandardScaler()]}
    pooled = {"scope": "global", "strategy": "direct", "target_transforms": [fc.LocalMinMaxScaler()]}
    each = {"scope": "local", "strategy": "direct_each", "target_transforms": [fc.LocalRobustScaler("mad")]}
    models = {
        "forecaster": fc.Forecaster("MS", 3).fit(df),
        "forecaster_local": fc.Forecaster("MS", **plain, **local, date_features=["month"]).fit(df),
        "forecaster_pooled": fc.Forecaster("1mo", **plain, **pooled, lag_transforms={1: rolling}).fit(
            pl.from_pandas(zoned)
        ),
        "forecaster_each": fc.Forecaster("MS", **plain, **each, lag_transforms={2: expanding}).fit(zoned),
        "forecaster_short": fc.Forecaster("MS", 3, model).fit(df[n - 2 : n + 2]),
        "forecaster_exog": fc.Forecaster(1, **plain, target_transforms=None).fit(priced),
    }
    for name, forecaster in models.items():
        X_df = ahead if name == "forecaster_exog" else None
        forecast = forecaster.predict(level=[80], X_df=X_df)
        columns = {c: [as_json(v) for v in forecast[c].to_list()] for c in forecast.columns}
        yield name, forecaster, {"X_df": X_df if X_df is None else X_df.to_dict("list"), "forecast": columns}


def as_json(value: Any) -> Any:
    """Convert a value to JSON values."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def online_models() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    rng = np.random.default_rng(7)
    for name, model in {
        "online": OnlineSoftBoostRegressor(2, 1, buffer_size=128),
        "online_linear": OnlineSoftBoostRegressor(n_trees=0, buffer_size=128),
        "online_empty": OnlineSoftBoostRegressor(0, buffer_size=128),
    }.items():
        for i, (a, b) in enumerate(rng.normal(size=(0 if name == "online_empty" else 60, 2)).tolist()):
            x = {"a": a, "b": b, "kind": "up" if b > 0 else "down", "day": date(2024, 1, 1) + timedelta(days=i)}
            model.learn_one(x, a + abs(b))
        rows = [{"a": 0.5, "b": -1.0, "kind": "up"}, {"a": None, "kind": "new", "more": 3.0}, {}]
        yield name, model, {"rows": rows, "prediction": [model.predict_one(x) for x in rows]}


def main() -> None:
    folder = Path(__file__).parent / softboost.__version__
    folder.mkdir(exist_ok=True)
    for models in (regressors, forecasters, online_models):
        for name, model, expected in models():
            path = folder / f"{name}.softboost"
            if "--again" in sys.argv or not path.exists():
                model.save(path)
                path.with_suffix(".json").write_text(json.dumps(expected))
                print("wrote", path.name)


if __name__ == "__main__":
    main()
