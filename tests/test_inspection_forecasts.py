"""Inspection of forecasters and online models: what carries a forecast, and the shares of the candidates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression, Ridge

from softboost import SoftBoostRegressor
from softboost.forecast import Differences, Forecaster
from softboost.inspection import (
    attributions,
    candidate_forecasts,
    candidate_shares,
    describe_features,
    dropped_features,
    importances,
    plot_attributions,
    plot_importances,
)
from softboost.online import OnlineSoftBoostRegressor
from test_forecast import long_frame

N = 60


def with_columns(n_series=2):
    rng = np.random.default_rng(1)
    df = long_frame(n_series).assign(
        promo=rng.normal(size=N * n_series), group=np.repeat(["u", "v"], N * n_series // 2)
    )
    df["day"] = rng.choice(["weekday", "holiday"], size=len(df))
    df["y"] += 5 * df["promo"] + 2 * (df["day"] == "holiday")
    return df


RIDGE = {"model": Ridge(), "lags": [1, 2, 12], "target_transforms": None}
SETTINGS = {
    "default": ({}, False),
    "smoothing": ({"candidates": ["smoothing"]}, False),
    "correction": ({"candidates": ["smoothing", "correction"]}, True),
    "local regression": ({"candidates": ["smoothing", "local"]}, True),
    "recursive": ({**RIDGE, "scope": "global"}, True),
    "direct": ({**RIDGE, "scope": "global", "strategy": "direct"}, True),
    "direct_each": ({**RIDGE, "scope": "local", "strategy": "direct_each", "date_features": ["month"]}, True),
    "differences": ({**RIDGE, "scope": "local", "target_transforms": [Differences([1])]}, False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_contributions_add_up_to_the_forecast(name):
    settings, exog = SETTINGS[name]
    df = with_columns() if exog else long_frame(2)
    past, ahead = df.groupby("unique_id").head(N - 2), df.groupby("unique_id").tail(2).drop(columns="y")
    model = Forecaster("MS", 2, **settings).fit(past)
    X_df = ahead if exog else None
    why = attributions(model, X_df, series="s1")
    forecast = model.predict(X_df=X_df).query("unique_id == 's1'")
    assert_allclose(why.prediction, forecast.iloc[:, -1], rtol=1e-9)
    assert_allclose(why.baseline + why.values.sum(axis=1), why.prediction)
    assert why.frame().index.get_level_values("ds").tolist() == forecast["ds"].tolist()
    expected = ["lag 1", "lag 2", "lag 3", "season of 12", "other lags up to 12", "older values"]
    assert why.feature_names[:6] == expected
    assert {"promo", "day", "group"} <= set(why.feature_names) or not exog
    if name in ("recursive", "smoothing"):
        ranked = importances(model)
        assert_allclose(ranked.sum(), 1)
        assert set(ranked.index) == set(why.feature_names)


def test_contributions_of_a_linear_model_are_slopes_times_distances():
    """y follows from the last value and a column known ahead; both contributions can be computed by hand."""
    rng = np.random.default_rng(0)
    price, y = rng.normal(size=N + 1), np.zeros(N + 1)
    for t in range(1, N + 1):
        y[t] = 0.5 * y[t - 1] + 3 * price[t]
    df = pd.DataFrame({"unique_id": "a", "ds": np.arange(N + 1), "y": y, "price": price})
    model = Forecaster(1, 1, LinearRegression(), lags=[1], target_transforms=None, scope="local").fit(df[:-1])
    slopes = model.fitted_.models[0].models[0][-1].coef_
    why = attributions(model, df[-1:]).frame().iloc[0]
    earlier = np.unique(np.linspace(1, 24, 5).astype(int))
    assert_allclose(why["lag 1"], slopes[0] * (y[N - 1] - y[N - 1 - earlier].mean()), rtol=1e-6)
    assert_allclose(why["price"], slopes[1] * (price[N] - price[N - earlier].mean()), rtol=1e-6)
    assert_allclose(why.drop(["lag 1", "price"]), 0, atol=1e-9)
    assert set(dropped_features(model)) == {"lag 2", "lag 3", "other lags up to 12", "older values"}
    assert "2 of 6 columns carry 95% of the prediction" in describe_features(model)


def test_seasons_and_columns_that_matter_come_first():
    t = np.arange(96)
    season = pd.DataFrame({"unique_id": "a", "ds": t, "y": np.tile([1.0, 9, 2, 7, 4, 5, 8, 3], 12)})
    model = Forecaster(1, 4, candidates=["smoothing"], season_length=8).fit(season)
    assert importances(model).index[0] == "season of 8"
    promo = with_columns()
    promo["y"] = 20 * promo["promo"] + 0.1 * promo["y"]
    model = Forecaster("MS", 2, **RIDGE, scope="global").fit(promo)
    ranked = importances(model)
    assert ranked.index[0] == "promo"
    assert ranked["promo"] > 0.5


def test_static_columns_are_explained_by_other_series():
    df = long_frame(4).assign(kind=np.repeat(["up", "down", "up", "down"], N))
    df["y"] = np.where(df["kind"] == "up", 3.0, -3.0)
    model = Forecaster("MS", 1, Ridge(), lags=[], date_features=["month"], target_transforms=None, scope="global").fit(
        df
    )
    why = attributions(model)
    names = why.feature_names
    kind = why.values[:, names.index("kind")]
    assert (np.sign(kind) == [1, -1, 1, -1]).all()
    assert why.data[:, names.index("kind")].tolist() == ["up", "down", "up", "down"]
    assert "calendar" in names


def test_shares_of_candidates_and_their_forecasts_add_up():
    df = pd.concat([long_frame(3), long_frame(1, 3).assign(unique_id="short")])
    model = Forecaster("MS", 4, candidates=["smoothing", "correction", "local"]).fit(df)
    shares = candidate_shares(model)
    assert list(shares.index) == ["s0", "s1", "s2", "short"]
    assert_allclose(shares.sum(axis=1), 1)
    assert shares.mean()["smoothing"] == pytest.approx(model.choice_.weights["smoothing"])
    for h in (4, 2):
        parts = candidate_forecasts(model, h)
        total = (parts["forecast"].fillna(0) * parts["weight"]).groupby([parts["unique_id"], parts["ds"]]).sum()
        assert_allclose(total, model.predict(h)["SoftBoostRegressor"])
    alone = Forecaster("MS", 2, **RIDGE, scope="global").fit(long_frame(2))
    assert candidate_shares(alone).to_dict() == {"global": {"s0": 1.0, "s1": 1.0}}
    assert_allclose(candidate_forecasts(alone)["forecast"], alone.predict()["Ridge"])


def test_polars_frames_and_gaps_are_explained():
    df = long_frame(2).drop(index=[30, 31, 58])
    settings = {"candidates": ["smoothing"], "gaps": "forward"}
    pandas = attributions(Forecaster("MS", 2, **settings).fit(df))
    polars = attributions(Forecaster("1mo", 2, **settings).fit(pl.from_pandas(df)))
    assert_allclose(pandas.values, polars.values)
    assert pandas.values.shape == (4, 6)


def test_unknown_series_and_missing_rows_are_named():
    model = Forecaster("MS", 2, candidates=["smoothing"]).fit(long_frame(2))
    with pytest.raises(ValueError, match="series='north' is not among the series"):
        attributions(model, series="north")
    with pytest.raises(ValueError, match="attributions of a SoftBoostRegressor need X"):
        attributions(SoftBoostRegressor())
    with pytest.raises(TypeError, match="got Ridge"):
        attributions(Ridge(), np.zeros((2, 2)))


def test_forecasts_are_drawn_with_the_values_of_their_inputs():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    df = with_columns()
    past, ahead = df.groupby("unique_id").head(N - 1), df.groupby("unique_id").tail(1)
    model = Forecaster("MS", 1, **RIDGE, scope="global").fit(past)
    why = attributions(model, ahead)
    ax = plot_attributions(why, 1)
    shown = dict(t.get_text().split(" = ") for t in ax.get_yticklabels() if " = " in t.get_text())
    assert float(shown["lag 1"]) == pytest.approx(past["y"].iloc[-1], rel=1e-3)
    assert float(shown["promo"]) == pytest.approx(ahead["promo"].iloc[-1], rel=1e-3)
    assert shown["day"] == ahead["day"].iloc[-1]
    year_before = past[(past["unique_id"] == "s1") & (past["ds"] == ahead["ds"].iloc[-1] - pd.DateOffset(years=1))]
    assert float(shown["season of 12"]) == pytest.approx(year_before["y"].iloc[0], rel=1e-3)
    assert f"{why.baseline[1]:.4g} (mean)" in ax.get_xlabel()
    assert len(plot_importances(model).patches) == len(importances(model))


# -- online models -----------------------------------------------------------------------------------------------------


def stream(n=300, **settings):
    rng = np.random.default_rng(0)
    model = OnlineSoftBoostRegressor(**settings)
    rows = []
    for _ in range(n):
        x = {"a": rng.normal(), "b": rng.normal(), "noise": rng.normal(), "day": str(rng.choice(["mon", "sun"]))}
        model.learn_one(x, abs(x["a"]) + 2 * x["b"] + (x["day"] == "sun"))
        rows.append(x)
    return model, rows


@pytest.mark.parametrize("n_trees", [0, 6])
def test_contributions_of_an_online_model_add_up(n_trees):
    model, rows = stream(n_trees=n_trees)
    why = attributions(model, rows[:4])
    assert why.feature_names == ["a", "b", "day", "noise"]
    assert_allclose(why.prediction, [model.predict_one(x) for x in rows[:4]])
    assert_allclose(why.baseline + why.values.sum(axis=1), why.prediction)
    assert why.data[0].tolist() == [rows[0][name] for name in why.feature_names]
    assert_allclose(attributions(model, pd.DataFrame(rows[:4])).values, why.values)
    assert_allclose(attributions(model, rows[0]).values[0], why.values[0])
    if n_trees == 0:  # linear: a feature contributes the same whatever the others are
        step = model.predict_one({**rows[0], "b": 1.0}) - model.predict_one({**rows[0], "b": 0.0})
        pair = attributions(model, [{**rows[0], "b": 1.0}, {**rows[1], "b": 0.0}]).frame()["b"]
        assert_allclose(pair[0] - pair[1], step)


def test_importances_and_shares_of_an_online_model():
    model, _ = stream()
    ranked = importances(model)
    assert ranked.index[0] == "b"
    assert ranked.index[-1] == "noise"
    assert_allclose(ranked.sum(), 1)
    shares = candidate_shares(model)
    assert_allclose(shares.sum(axis=1), 1)
    assert shares["mean"][0] < 0.01
    with pytest.raises(ValueError, match="call learn_one first"):
        importances(OnlineSoftBoostRegressor())
    with pytest.raises(ValueError, match="are dicts of features by name"):
        attributions(model, [[1.0, 2.0]])
