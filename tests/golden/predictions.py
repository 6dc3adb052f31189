"""Golden predictions, to check that a refactoring changes no bit of the results.

Bits depend on the machine, the compiler and the versions of the dependencies, so the file is not committed. Write it
from the installed build before the first change, and compare after each step::

    python tests/golden/predictions.py --write before.npz
    # change the code, install again
    python tests/golden/predictions.py --check before.npz
    python tests/golden/predictions.py --check before.npz --only series forecast   # names that contain a word

Each case is a function of no arguments that fits through the public interface and returns arrays by name. To add one,
write a function and decorate it with ``@case("name")``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))
import helpers
from helpers import Fourier, plain, quartic, quartic_gradient
from softboost import SoftBoostRegressor, _kernels, transforms
from softboost import forecast as fc
from softboost.inspection import attributions, importances
from softboost.losses import LOSSES, Huber, LogCosh, Quantile, Tweedie
from softboost.online import OnlineSoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Diagonal, Linear
from softboost.weak_learners import HardTrees

Arrays = dict[str, Any]
CASES: dict[str, Callable[[], Arrays]] = {}


def case(name: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """Register a function under a name."""

    def add(make: Callable[[], Arrays]) -> Callable[[], Arrays]:
        assert name not in CASES, name
        CASES[name] = make
        return make

    return add


def of_model(model: Any, X: Any) -> Arrays:
    """Results of a fitted regressor: predictions, importances and the result of the model selection."""
    arrays = {"prediction": model.predict(X), "importances": model.feature_importances_}
    if model.choice_ is not None:
        choice = model.choice_
        arrays |= {f"weight of {name}": value for name, value in choice.weights.items()}
        arrays |= {f"stage of {name}": value for name, value in choice.stages.items()}
        arrays |= {f"loss of {name}": value for name, value in choice.losses.items()}
        arrays["loss"] = choice.loss
    return arrays


# -- data --------------------------------------------------------------------------------------------------------------


def table(n: int = 120, d: int = 12, seed: int = 0, **kwargs: Any) -> tuple[Any, Any, Any]:
    """Rows without order, and new rows, some of them far outside the training range."""
    X, y = helpers.make_data(n, d, seed=seed, **kwargs)
    rows = np.random.default_rng(seed + 1).normal(size=(30, d))
    rows[-3:] *= 20
    return X, y, rows


def lag_table(y: Any, lags: Any) -> tuple[Any, Any]:
    """Lags of the target as columns."""
    most = max(lags)
    return np.column_stack([y[most - lag : len(y) - lag] for lag in lags]), y[most:]


def random_walk(n: int = 200, seed: int = 0) -> Any:
    return np.cumsum(np.random.default_rng(seed).normal(size=n)) + 50


def autoregression(n: int = 220, seed: int = 0) -> Any:
    """A stationary threshold autoregression."""
    noise, y = np.random.default_rng(seed).normal(size=n), np.zeros(n)
    for t in range(2, n):
        y[t] = (0.7 if y[t - 1] < 0 else -0.5) * y[t - 1] + 0.2 * y[t - 2] + noise[t]
    return y


def seasonal(n: int = 150, seed: int = 0) -> Any:
    t = np.arange(n)
    return 20 + 0.05 * t + 3 * np.sin(t * np.pi / 6) + 0.3 * np.random.default_rng(seed).normal(size=n)


def frame(n: int = 140, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Numbers with gaps, and two columns of categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], size=n))
    X["place"] = pd.Categorical(rng.choice(["north", "south", None], size=n))
    y = X["a"] * (X["kind"] == "x") + np.sin(2 * X["b"]) + (X["place"] == "north")
    X.loc[::5, "b"] = np.nan
    X.loc[::7, "c"] = np.nan
    return X, (y + 0.1 * rng.normal(size=n)).to_numpy()


def panel(n_series: int = 3, n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    parts = [
        20 + 5 * k + 0.1 * k * t + 2 * np.sin(t * np.pi / 6 + k) + 0.2 * rng.normal(size=n) for k in range(n_series)
    ]
    return pd.DataFrame({
        "unique_id": np.repeat([f"s{k}" for k in range(n_series)], n),
        "ds": np.tile(pd.date_range("2019-01-01", periods=n, freq="MS"), n_series),
        "y": np.concatenate(parts),
    })  # fmt: skip


# -- the self-choosing default -----------------------------------------------------------------------------------------


@case("default: table")
def _() -> Arrays:
    X, y, rows = table()
    model = SoftBoostRegressor().fit(X, y)
    return {**of_model(model, rows), "staged": np.stack(list(model.staged_predict(rows)))}


@case("default: more columns than rows")
def _() -> Arrays:
    X, y, rows = table(40, 60, seed=1)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: more columns than the lasso takes")
def _() -> Arrays:
    X, y, rows = table(60, 300, seed=2)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: few rows")
def _() -> Arrays:
    X, y, rows = table(12, 3, seed=3)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: one row")
def _() -> Arrays:
    X, y, rows = table(1, 3, seed=3)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: noise")
def _() -> Arrays:
    X, _, rows = table(80, 6, seed=4)
    return of_model(SoftBoostRegressor().fit(X, np.random.default_rng(5).normal(size=80)), rows)


@case("default: constant target")
def _() -> Arrays:
    X, _, rows = table(40, 4)
    return of_model(SoftBoostRegressor().fit(X, np.full(40, 3.25)), rows)


@case("default: outliers")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=6)
    y = y.copy()
    y[::17] += 40
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: products of columns")
def _() -> Arrays:
    X, _, rows = table(100, 20, seed=7)
    return of_model(SoftBoostRegressor().fit(X, X[:, 3] * X[:, 7] + 0.1 * X[:, 0]), rows)


@case("default: single index")
def _() -> Arrays:
    X, _, rows = table(100, 20, seed=8)
    return of_model(SoftBoostRegressor().fit(X, np.tanh(X[:, :4].sum(axis=1)) + 0.5 * X[:, 5] ** 2), rows)


@case("default: single precision")
def _() -> Arrays:
    X, y, rows = table(90, 8, seed=9)
    return of_model(SoftBoostRegressor().fit(X.astype(np.float32), y), rows.astype(np.float32))


@case("default: weights")
def _() -> Arrays:
    X, y, rows = table(100, 8, seed=10)
    weight = np.random.default_rng(0).integers(0, 4, size=100)
    return of_model(SoftBoostRegressor().fit(X, y, sample_weight=weight), rows)


@case("default: weights that sum to one")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=11)
    weight = np.random.default_rng(0).uniform(0.1, 1, size=80)
    return of_model(SoftBoostRegressor().fit(X, y, sample_weight=weight / weight.sum()), rows)


@case("default: two outputs")
def _() -> Arrays:
    X, y, rows = table(80, 6, n_outputs=2, seed=12)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: two outputs and weights")
def _() -> Arrays:
    X, y, rows = table(80, 6, n_outputs=2, seed=12)
    return of_model(SoftBoostRegressor().fit(X, y, sample_weight=1.0 + np.arange(80) % 3), rows)


@case("default: frame with categories and gaps")
def _() -> Arrays:
    X, y = frame()
    return of_model(SoftBoostRegressor().fit(X[:100], y[:100]), X[100:])


@case("default: categories by name")
def _() -> Arrays:
    X, y = frame(seed=1)
    X["code"] = np.arange(len(X)) % 3
    model = SoftBoostRegressor(categorical_features=["kind", "place", "code"]).fit(X[:100], y[:100])
    return of_model(model, X[100:])


@case("default: array with gaps")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=13)
    X, rows = X.copy(), rows.copy()
    X[::4, 1] = X[::9, 3] = rows[::3, 2] = np.nan
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: huge and tiny units")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=14)
    unit = 10.0 ** np.array([200, -200, 30, 0, -30, 3])
    return of_model(SoftBoostRegressor().fit(X * unit, y * 1e250), rows * unit)


@case("default: one hold-out")
def _() -> Arrays:
    X, y, rows = table(5600, 4, seed=15)
    return of_model(SoftBoostRegressor().fit(X, y), rows)


@case("default: random folds")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=16)
    return of_model(SoftBoostRegressor(shuffle=True, random_state=3).fit(X, y), rows)


@case("default: folds in time order")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=16)
    return of_model(SoftBoostRegressor(shuffle=False).fit(X, y), rows)


@case("default: own splitter")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=17)
    return of_model(SoftBoostRegressor(cv=KFold(3)).fit(X, y), rows)


@case("default: series and own splitter")
def _() -> Arrays:
    X, y = lag_table(random_walk(120), range(1, 7))
    return of_model(SoftBoostRegressor(cv=TimeSeriesSplit(4)).fit(X[:90], y[:90]), X[90:])


@case("default: rounds, rate and depth given")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=18)
    return of_model(SoftBoostRegressor(12, 0.2, 2).fit(X, y), rows)


@case("default: linear transform given")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=18)
    return of_model(SoftBoostRegressor(feature_transform="linear", random_state=0).fit(X, y), rows)


@case("default: no transform, linear start")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=18)
    return of_model(SoftBoostRegressor(feature_transform=None, init="linear").fit(X, y), rows)


@case("default: no standardising")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=19)
    return of_model(SoftBoostRegressor(standardize=False).fit(X, y), rows)


@case("default: two threads")
def _() -> Arrays:
    X, y, rows = table(200, 8, seed=19)
    return of_model(SoftBoostRegressor(n_jobs=2).fit(X, y), rows)


# -- the default on time-ordered rows ----------------------------------------------------------------------------------


@case("series: random walk, lags alone")
def _() -> Arrays:
    X, y = lag_table(random_walk(160), range(1, 13))
    return of_model(SoftBoostRegressor().fit(X[:120], y[:120]), X[120:])


@case("series: few rows")
def _() -> Arrays:
    X, y = lag_table(random_walk(50, seed=1), range(1, 9))
    return of_model(SoftBoostRegressor().fit(X[:35], y[:35]), X[35:])


@case("series: stationary, lags alone")
def _() -> Arrays:
    X, y = lag_table(autoregression(), range(1, 9))
    return of_model(SoftBoostRegressor().fit(X[:170], y[:170]), X[170:])


@case("series: stationary, 500 rows and 24 lags")
def _() -> Arrays:
    X, y = lag_table(autoregression(560, seed=2), range(1, 25))
    return of_model(SoftBoostRegressor().fit(X[:500], y[:500]), X[500:])


@case("series: lags with gaps and other columns")
def _() -> Arrays:
    y = seasonal()
    X, y = lag_table(y, [1, 2, 3, 12])
    X = np.column_stack([X, np.random.default_rng(3).normal(size=(len(X), 3))])
    return of_model(SoftBoostRegressor().fit(X[:100], y[:100]), X[100:])


@case("series: stationary, other columns")
def _() -> Arrays:
    rng = np.random.default_rng(4)
    drive = rng.normal(size=200)
    X, y = lag_table(autoregression(200, seed=4) + drive, [1, 2, 3])
    X = np.column_stack([X, drive[3:], rng.normal(size=(len(X), 2))])
    return of_model(SoftBoostRegressor().fit(X[:150], y[:150]), X[150:])


@case("series: season and trend")
def _() -> Arrays:
    X, y = lag_table(seasonal(seed=5), range(1, 25))
    return of_model(SoftBoostRegressor().fit(X[:100], y[:100]), X[100:])


@case("series: growing changes")
def _() -> Arrays:
    X, y = lag_table(np.exp(0.02 * random_walk(150, seed=6)), range(1, 7))
    return of_model(SoftBoostRegressor().fit(X[:110], y[:110]), X[110:])


@case("series: weights")
def _() -> Arrays:
    X, y = lag_table(random_walk(150, seed=7), range(1, 7))
    weight = np.linspace(0.0, 3.0, 110)
    return of_model(SoftBoostRegressor().fit(X[:110], y[:110], sample_weight=weight), X[110:])


@case("series: absolute error")
def _() -> Arrays:
    X, y = lag_table(random_walk(120, seed=8), range(1, 6))
    return of_model(SoftBoostRegressor(loss="absolute_error").fit(X[:90], y[:90]), X[90:])


@case("series: level shifts")
def _() -> Arrays:
    rng = np.random.default_rng(9)
    y = np.repeat(rng.normal(scale=50, size=8), 20) + 0.1 * rng.normal(size=160)
    X, y = lag_table(y, range(1, 7))
    return of_model(SoftBoostRegressor().fit(X[:120], y[:120]), X[120:])


@case("time: target close to a column, no lags")
def _() -> Arrays:
    rng = np.random.default_rng(10)
    walk = random_walk(140, seed=10)
    X = np.column_stack([walk, walk + rng.normal(size=140), rng.normal(size=(140, 4))])
    return of_model(SoftBoostRegressor().fit(X[:100], (walk + 0.05 * rng.normal(size=140))[:100]), X[100:])


@case("time: many columns move along, shuffled rows")
def _() -> Arrays:
    X, y = lag_table(random_walk(150, seed=11), range(1, 11))
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return of_model(SoftBoostRegressor().fit(X[:100], y[:100]), X[100:])


@case("time: two outputs")
def _() -> Arrays:
    walk = random_walk(140, seed=12)
    X, y = lag_table(walk, range(1, 7))
    Y = np.column_stack([y[:-1], y[1:]])
    return of_model(SoftBoostRegressor().fit(X[:100], Y[:100]), X[100:])


# -- losses ------------------------------------------------------------------------------------------------------------


def _add_losses() -> None:
    losses: dict[str, Any] = {name: name for name in LOSSES}
    losses |= {"quantile 0.9": Quantile(0.9), "huber 0.7": Huber(0.7), "tweedie 1.2": Tweedie(1.2)}
    losses |= {"log_cosh 0.5": LogCosh(0.5), "pair of functions": (quartic, quartic_gradient)}

    for name, loss in losses.items():

        @case(f"loss: {name}, plain")
        def _(loss: Any = loss) -> Arrays:
            X, y, rows = table(70, 5, seed=20)
            return of_model(plain(loss=loss).fit(X, np.exp(0.3 * y)), rows)

        if isinstance(loss, str):

            @case(f"loss: {name}, default")
            def _(loss: Any = loss) -> Arrays:
                X, y, rows = table(70, 5, seed=21)
                weight = 1.0 + np.arange(70) % 2
                return of_model(SoftBoostRegressor(loss=loss).fit(X, np.exp(0.3 * y), sample_weight=weight), rows)


_add_losses()


# -- plain fits --------------------------------------------------------------------------------------------------------


def from_torch(maker: str, *args: Any, **params: Any) -> Callable[[], Any]:
    """A transform that is made when its case runs, so that the other cases need no PyTorch."""
    return lambda: getattr(transforms, maker)(*args, **params)


def _add_plain() -> None:
    for name, make in helpers.MODELS.items():

        @case(f"plain: {name}")
        def _(make: Any = make) -> Arrays:
            X, y, rows = table(80, 6, seed=22)
            model = make().fit(X, y)
            return {**of_model(model, rows), "staged": np.stack(list(model.staged_predict(rows)))}

    settings: dict[str, Callable[[], Any]] = {
        "square": Linear,
        "rectangular": lambda: Linear(2),
        "supervised": lambda: Linear(2, "supervised", group_lasso=0.3),
        "diagonal": Diagonal,
        "own": lambda: Fourier(n_steps=5),
        "mlp": from_torch("mlp", 2, (3,), n_steps=4),
        "mlp with dropout": from_torch("mlp", 2, (4,), dropout=0.2, n_steps=4),
        "lstm": from_torch("lstm", 2, n_steps=2),
    }
    for name, transform in settings.items():

        @case(f"transform: {name}")
        def _(transform: Any = transform) -> Arrays:
            X, y, rows = table(60, 5, seed=23)
            params = {"gates": "random", "leaves": "constant", "n_steps": 5, "random_state": 0}
            return of_model(plain(feature_transform=transform(), n_estimators=3, **params).fit(X, y), rows)

        if name in ("square", "supervised", "own", "mlp"):

            @case(f"transform: {name}, solved leaves, weights, two outputs")
            def _(transform: Any = transform) -> Arrays:
                X, y, rows = table(60, 5, n_outputs=2, seed=24)
                model = plain(feature_transform=transform(), n_estimators=3, depth=1, random_state=0)
                return of_model(model.fit(X, y, sample_weight=1.0 + np.arange(60) % 3), rows)


_add_plain()


@case("plain: early stopping")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=25)
    model = plain(n_estimators=40, early_stopping=True, n_iter_no_change=3, random_state=0).fit(X, y)
    return {**of_model(model, rows), **{f"loss on {k}": v for k, v in model.evals_result_.items()}}


@case("plain: evaluation rows and a warm start")
def _() -> Arrays:
    X, y, rows = table(90, 6, seed=26)
    model = plain(warm_start=True).fit(X[:60], y[:60], eval_set=(X[60:], y[60:]))
    model.set_params(n_estimators=12).fit(X[:60], y[:60], eval_set=(X[60:], y[60:]))
    return {**of_model(model, rows), **{f"loss on {k}": v for k, v in model.evals_result_.items()}}


@case("plain: more rows than a tree takes")
def _() -> Arrays:
    X, y, rows = table(66_000, 3, seed=27)
    weight = 1.0 + np.arange(66_000) % 3
    return of_model(plain(n_estimators=3, leaves="constant").fit(X, y, sample_weight=weight), rows)


@case("plain: frame, weights, absolute error")
def _() -> Arrays:
    X, y = frame(seed=2)
    weight = 1.0 + np.arange(100) % 2
    return of_model(plain(loss="absolute_error").fit(X[:100], y[:100], sample_weight=weight), X[100:])


@case("presets: bsdt")
def _() -> Arrays:
    X, y, rows = table(60, 5, seed=28)
    return of_model(bsdt(3, n_steps=15, random_state=0).fit(X, y), rows)


@case("presets: bsdt_q, two outputs")
def _() -> Arrays:
    X, y, rows = table(60, 5, n_outputs=2, seed=28)
    return of_model(bsdt_q(3, n_steps=15, random_state=0).fit(X, y), rows)


def _add_hard_trees() -> None:
    learners = {
        "scikit-learn": DecisionTreeRegressor(max_depth=2),
        "sharper": HardTrees(DecisionTreeRegressor(max_depth=3), sharpness=16.0, n_alternations=2),
        "lightgbm": "lightgbm",
        "xgboost": "xgboost",
        "catboost": "catboost",
    }
    for name, learner in learners.items():
        for transform in (None, "linear"):

            @case(f"hard trees: {name}, {'no' if transform is None else 'a linear'} transform")
            def _(learner: Any = learner, transform: Any = transform) -> Arrays:
                X, y, rows = table(80, 5, seed=29)
                model = SoftBoostRegressor(3, 0.5, feature_transform=transform, weak_learner=learner, random_state=0)
                return of_model(model.fit(X, y), rows)


_add_hard_trees()


@case("inspection: attributions and importances")
def _() -> Arrays:
    X, y, rows = table(80, 6, seed=30)
    model = SoftBoostRegressor().fit(X, y)
    found = attributions(model, rows[:5])
    return {"values": found.values, "importances": importances(model)}


# -- learning on -------------------------------------------------------------------------------------------------------


def _add_partial_fit() -> None:
    models = {
        "default": SoftBoostRegressor(),
        "plain": plain(),
        "poisson": plain(loss="poisson"),
        "no rows kept": None,
    }
    for name, model in models.items():

        @case(f"partial_fit: {name}")
        def _(model: Any = model) -> Arrays:
            X, y, rows = table(160, 5, seed=31)
            y = np.exp(0.3 * y)
            y[120:] += 2
            weight = 1.0 + np.arange(160) % 2
            if model is None:
                learner = plain().fit(X[:60], y[:60])
            else:
                learner = model.partial_fit(X[:60], y[:60], sample_weight=weight[:60])
            predictions = []
            for begin in range(60, 160, 10):
                part = slice(begin, begin + 10)
                learner.partial_fit(X[part], y[part], sample_weight=weight[part])
                predictions.append(learner.predict(rows))
            return {"predictions": np.stack(predictions)}


_add_partial_fit()


@case("partial_fit: series")
def _() -> Arrays:
    X, y = lag_table(random_walk(140, seed=13), range(1, 6))
    model = SoftBoostRegressor().fit(X[:80], y[:80])
    model.partial_fit(X[80:100], y[80:100]).partial_fit(X[100:110], y[100:110])
    return {"prediction": model.predict(X[110:])}


def _add_online() -> None:
    models = {
        "default": OnlineSoftBoostRegressor(),
        "few trees": OnlineSoftBoostRegressor(3, 1, buffer_size=128, forgetting=0.99),
        "linear": OnlineSoftBoostRegressor(n_trees=0),
    }
    for name, model in models.items():

        @case(f"online: {name}")
        def _(model: Any = model) -> Arrays:
            rng = np.random.default_rng(32)
            predictions = []
            for i, (a, b) in enumerate(rng.normal(size=(400, 2)).tolist()):
                x = {"a": a, "b": b, "kind": "up" if b > 0 else "down", "day": date(2024, 1, 1) + timedelta(days=i)}
                predictions.append(model.predict_one(x))
                model.learn_one(x, abs(a) + b * (1 if i < 250 else -3))
            return {"predictions": predictions, "n_drifts": model.n_drifts}


_add_online()


# -- forecasts ---------------------------------------------------------------------------------------------------------


def of_forecast(table: Any) -> Arrays:
    """The number columns of a table of forecasts."""
    return {
        name: table[name].to_numpy(dtype=float) for name in table.columns if name not in ("unique_id", "ds", "cutoff")
    }


def _small() -> SoftBoostRegressor:
    return SoftBoostRegressor(6, 0.3, 2, feature_transform=None, init="linear", shuffle=False)


def _add_forecasts() -> None:
    lags: dict[str, Any] = {"lags": [1, 2, 12]}
    rolling = {1: [fc.RollingMean(3), fc.RollingStd(4, min_samples=2), fc.ExponentiallyWeightedMean(0.3)]}
    scaled = [fc.Log(), fc.Differences([1]), fc.LocalStandardScaler()]
    settings: dict[str, dict[str, Any]] = {
        "all given, local": {**lags, "scope": "local", "target_transforms": None},
        "all given, global": {**lags, "scope": "global", "target_transforms": None},
        "differences": {**lags, "scope": "local", "target_transforms": [fc.Differences([1, 12])]},
        "log, differences, scaler": {**lags, "scope": "global", "target_transforms": scaled},
        "min-max scaler": {**lags, "scope": "global", "target_transforms": [fc.LocalMinMaxScaler()]},
        "robust scaler": {**lags, "scope": "local", "target_transforms": [fc.LocalRobustScaler("mad")]},
        "direct": {**lags, "scope": "local", "strategy": "direct", "target_transforms": None},
        "direct, global": {**lags, "scope": "global", "strategy": "direct", "target_transforms": [fc.Differences([1])]},
        "direct_each": {**lags, "scope": "local", "strategy": "direct_each", "target_transforms": None},
        "lag transforms": {**lags, "scope": "global", "lag_transforms": rolling, "target_transforms": None},
        "date features": {**lags, "scope": "global", "date_features": ["month"], "target_transforms": None},
        "season of four": {"season_length": 4, "scope": "local", "target_transforms": [fc.Differences([1])]},
    }
    for name, params in settings.items():

        @case(f"forecast: {name}")
        def _(params: Any = params) -> Arrays:
            forecaster = fc.Forecaster("MS", 3, _small(), **params).fit(panel(2))
            return of_forecast(forecaster.predict(level=[80, 95]))


_add_forecasts()


@case("forecast: default")
def _() -> Arrays:
    return of_forecast(fc.Forecaster("MS", 3).fit(panel(1, 60)).predict(level=[80]))


@case("forecast: default model, all given")
def _() -> Arrays:
    params: dict[str, Any] = {"lags": range(1, 13), "scope": "local", "target_transforms": None}
    return of_forecast(fc.Forecaster("MS", 4, **params).fit(panel(1, 72, seed=1)).predict(level=[90]))


@case("forecast: short series")
def _() -> Arrays:
    return of_forecast(fc.Forecaster("MS", 3, _small()).fit(panel(2, 5)).predict(level=[80]))


@case("forecast: other columns")
def _() -> Arrays:
    rng = np.random.default_rng(33)
    df = panel(2, 50)
    df = df.assign(ds=np.tile(np.arange(50), 2), price=rng.normal(size=100), kind=np.repeat(["u", "v"], 50))
    ahead = pd.DataFrame({"unique_id": np.repeat(["s0", "s1"], 2), "ds": [50, 51] * 2, "price": [0.5, -1.0, 0.0, 2.0]})
    params: dict[str, Any] = {"lags": [1, 2], "scope": "global", "target_transforms": None}
    return of_forecast(fc.Forecaster(1, 2, _small(), **params).fit(df).predict(X_df=ahead))


@case("forecast: update")
def _() -> Arrays:
    df = panel(2)
    late = df.groupby("unique_id").cumcount() >= 54
    params: dict[str, Any] = {"lags": [1, 2], "scope": "local", "target_transforms": None}
    forecaster = fc.Forecaster("MS", 3, _small(), **params).fit(df[~late])
    return of_forecast(forecaster.update(df[late]).predict(level=[80]))


@case("forecast: back-test")
def _() -> Arrays:
    params: dict[str, Any] = {"lags": [1, 2], "scope": "global", "target_transforms": [fc.Differences([1])]}
    found = fc.Forecaster("MS", 3, _small(), **params).backtest(panel(2), n_windows=3)
    return of_forecast(found.forecasts)


# -- writing and comparing ---------------------------------------------------------------------------------------------


def run(words: list[str]) -> dict[str, Any]:
    """Arrays of all cases whose name contains one of the words, by ``case | array``."""
    arrays: dict[str, Any] = {}
    for name, make in CASES.items():
        if words and not any(word in name for word in words):
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found = make()
        arrays |= {f"{name} | {key}": np.asarray(value) for key, value in found.items()}
        seconds = time.perf_counter() - begin
        if seconds > 3:
            print(f"{name} took {seconds:.1f} s", file=sys.stderr)
    return arrays


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each array that is not bitwise identical."""
    lines = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'after' if name in after else 'before'}")
            continue
        a, b = before[name], after[name]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            lines.append(f"{name}: {a.dtype}{a.shape} became {b.dtype}{b.shape}")
        elif a.tobytes() != b.tobytes():
            gap = np.nanmax(np.abs(a.astype(float) - b.astype(float)), initial=0.0)
            lines.append(f"{name}: differs by up to {gap:.3g}, values up to {np.nanmax(np.abs(a), initial=0.0):.3g}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="store the arrays of all cases")
    action.add_argument("--check", type=Path, metavar="FILE", help="compare with what was stored")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name contains a word")
    args = parser.parse_args()
    begin = time.perf_counter()
    found = run(args.only)
    found["instruction set"] = np.asarray(_kernels.instruction_set())
    summary = f"{len(found) - 1} arrays in {time.perf_counter() - begin:.0f} s"
    if args.write is not None:
        np.savez(args.write, **found)
        print(f"{len(CASES)} cases, {summary}")
        return 0
    with np.load(args.check) as stored:
        before = {name: stored[name] for name in stored.files}
    if args.only:
        before = {name: value for name, value in before.items() if name in found}
    lines = differences(before, found)
    print("\n".join([*lines, f"{len(lines)} differences; {summary}"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
