"""SoftBoostRegressor inside other forecasting libraries."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

from softboost import SoftBoostRegressor

N_ROWS = 60


def make_model(**settings):
    return SoftBoostRegressor(shuffle=False, **settings)


def long_frame(n_series=2, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(N_ROWS)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": pd.date_range("2015-01-01", periods=N_ROWS, freq="MS"),
                "y": 10 * i + 0.1 * t + 3 * np.sin(t * np.pi / 6) + rng.normal(size=N_ROWS, scale=0.3),
            }
        )
        for i in range(n_series)
    ]
    return pd.concat(parts, ignore_index=True)


def wide_series(seed=0):
    df = long_frame(1, seed)
    return pd.Series(df["y"].to_numpy(), index=pd.DatetimeIndex(df["ds"], freq="MS"), name="y")


def seasonal_naive_error(actual, history, period=12):
    return np.mean(np.abs(actual - history[-period : -period + len(actual)]))


# -- mlforecast --------------------------------------------------------------------------------------------------


def make_mlforecast(freq="MS", **settings):
    mlforecast = pytest.importorskip("mlforecast", reason="mlforecast is not installed")
    from mlforecast.lag_transforms import RollingMean
    from mlforecast.target_transforms import Differences

    return mlforecast.MLForecast(
        {"model": make_model()},
        freq=freq,
        lags=[1, 2, 12],
        lag_transforms={1: [RollingMean(4)]},
        date_features=["month"],
        target_transforms=[Differences([1])],
        **settings,
    )


@pytest.mark.parametrize("max_horizon", [None, 4])
def test_mlforecast_predicts_recursively_and_directly(max_horizon):
    df = long_frame()
    train, test = df.groupby("unique_id").head(N_ROWS - 4), df.groupby("unique_id").tail(4)
    forecast = make_mlforecast().fit(train, static_features=[], max_horizon=max_horizon).predict(4)
    assert_array_equal(forecast["ds"], test["ds"])
    for name, part in forecast.groupby("unique_id"):
        actual = test.loc[test["unique_id"] == name, "y"].to_numpy()
        history = train.loc[train["unique_id"] == name, "y"].to_numpy()
        assert np.mean(np.abs(part["model"] - actual)) < seasonal_naive_error(actual, history)


def test_mlforecast_passes_weights():
    df = long_frame(1)
    weights = np.ones(len(df))
    weights[-12:] = 5.0
    model = make_mlforecast()
    plain = model.fit(df, static_features=[]).predict(2)["model"].to_numpy()
    ones = model.fit(df.assign(w=1.0), static_features=[], weight_col="w").predict(2)["model"].to_numpy()
    weighted = model.fit(df.assign(w=weights), static_features=[], weight_col="w").predict(2)["model"].to_numpy()
    assert_array_equal(ones, plain)
    assert np.abs(weighted - plain).max() > 1e-6


def test_mlforecast_intervals_hold_the_forecast():
    pytest.importorskip("mlforecast", reason="mlforecast is not installed")
    from mlforecast.utils import PredictionIntervals

    model = make_mlforecast().fit(
        long_frame(), static_features=[], prediction_intervals=PredictionIntervals(n_windows=3, h=3)
    )
    out = model.predict(3, level=[80])
    assert (out["model-lo-80"] < out["model"]).all()
    assert (out["model"] < out["model-hi-80"]).all()


def test_mlforecast_cross_validation():
    df = long_frame()
    out = make_mlforecast().cross_validation(df, n_windows=2, h=3, static_features=[])
    assert out.groupby(["unique_id", "cutoff"]).size().tolist() == [3] * 4
    assert np.mean((out["model"] - out["y"]) ** 2) < np.var(df["y"] - df.groupby("unique_id")["y"].transform("mean"))


def test_mlforecast_gives_the_same_from_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    df = long_frame()
    expected = make_mlforecast().fit(df, static_features=[]).predict(3)["model"].to_numpy()
    got = make_mlforecast("1mo").fit(polars.from_pandas(df), static_features=[]).predict(3)
    assert isinstance(got, polars.DataFrame)
    assert_array_equal(got["model"].to_numpy(), expected)


# -- sktime ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The default of config ``remember_data``:FutureWarning")
@pytest.mark.parametrize("strategy", ["recursive", "direct", "multioutput"])
def test_sktime_make_reduction(strategy):
    compose = pytest.importorskip("sktime.forecasting.compose", reason="sktime is not installed")
    y = wide_series()
    forecaster = compose.make_reduction(make_model(), strategy=strategy, window_length=13)
    forecast = forecaster.fit(y[:-4], fh=[1, 2, 3, 4]).predict()
    assert_array_equal(forecast.index, y.index[-4:])
    actual = y.to_numpy()[-4:]
    assert np.mean(np.abs(forecast.to_numpy().ravel() - actual)) < seasonal_naive_error(actual, y.to_numpy()[:-4])


# -- skforecast --------------------------------------------------------------------------------------------------


def test_skforecast_recursive_beats_seasonal_naive():
    recursive = pytest.importorskip("skforecast.recursive", reason="skforecast is not installed")
    y = wide_series()
    forecaster = recursive.ForecasterRecursive(estimator=make_model(), lags=13)
    forecaster.fit(y[:-4])
    actual = y.to_numpy()[-4:]
    assert np.mean(np.abs(forecaster.predict(4).to_numpy() - actual)) < seasonal_naive_error(actual, y.to_numpy()[:-4])


def test_skforecast_intervals_hold_the_forecast():
    recursive = pytest.importorskip("skforecast.recursive", reason="skforecast is not installed")
    forecaster = recursive.ForecasterRecursive(estimator=make_model(), lags=13)
    forecaster.fit(wide_series(), store_in_sample_residuals=True)
    out = forecaster.predict_interval(steps=3, interval=[0.1, 0.9], method="conformal")
    assert (out["lower_bound"] <= out["pred"]).all()
    assert (out["pred"] <= out["upper_bound"]).all()


# -- scikit-learn ------------------------------------------------------------------------------------------------


def lagged(y, n_lags):
    windows = np.lib.stride_tricks.sliding_window_view(y, n_lags + 1)
    return windows[:, :-1], windows[:, -1]


def test_time_series_split_scores_and_searches():
    X, y = lagged(wide_series().to_numpy(), 12)
    folds = TimeSeriesSplit(3)
    scores = cross_val_score(make_model(), X, y, cv=folds, scoring="neg_mean_squared_error")
    mean_model = [-np.mean((y[test] - y[train].mean()) ** 2) for train, test in folds.split(X)]
    assert np.mean(scores) > np.mean(mean_model)
    search = GridSearchCV(
        make_model(n_estimators=5, learning_rate=0.3, feature_transform=None), {"depth": [1, 2]}, cv=folds
    )
    assert search.fit(X, y).best_params_["depth"] in (1, 2)


def test_one_row_costs_little_more_than_ridge():
    """Recursive tools predict row by row; the overhead of a call must be small."""
    X, y = lagged(wide_series().to_numpy(), 12)
    models = [make_model().fit(X, y), Ridge().fit(X, y)]
    seconds = [np.inf, np.inf]
    for _ in range(6):
        for k, model in enumerate(models):
            start = time.process_time()  # a busy machine does not count
            for i in range(50):
                model.predict(X[i % len(X)][None])
            seconds[k] = min(seconds[k], time.process_time() - start)
    assert seconds[0] < 6 * seconds[1], f"one row takes {seconds[0] / 50:.2g} s, Ridge {seconds[1] / 50:.2g} s"
    assert_allclose(np.concatenate([models[0].predict(row[None]) for row in X]), models[0].predict(X), rtol=1e-12)
