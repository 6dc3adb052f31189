"""Forecaster on long frames: strategies, scopes, frames of both kinds, intervals, updates, back-tests, bad input."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from threadpoolctl import threadpool_limits

from softboost import SoftBoostRegressor, load
from softboost.forecast import (
    Differences,
    ExpandingMean,
    Forecaster,
    LocalStandardScaler,
    Log,
    RollingMean,
)

N_ROWS = 60


def long_frame(n_series=3, n_rows=N_ROWS, seed=0, freq="MS"):
    rng = np.random.default_rng(seed)
    t = np.arange(n_rows)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": pd.date_range("2015-01-01", periods=n_rows, freq=freq),
                "y": 20 + 10 * i + 0.2 * t + 3 * np.sin(t * np.pi / 6 + i) + rng.normal(size=n_rows, scale=0.5),
            }
        )
        for i in range(n_series)
    ]
    return pd.concat(parts, ignore_index=True)


def quick(**settings):
    """A forecaster with nothing left to choose and a model that fits at once."""
    chosen = {"model": Ridge(), "lags": [1, 2, 12], "target_transforms": None, "scope": "local", "h": 4, **settings}
    return Forecaster("MS", **chosen)


def values(frame, name="Ridge"):
    return np.asarray(frame[name])


class Recorder(RegressorMixin, BaseEstimator):
    """Remembers what it was fitted on, in a list that is shared with its copies."""

    seen: list = []  # noqa: RUF012 - shared on purpose: fits are of clones

    def fit(self, X, y):
        Recorder.seen.append((X, y))
        self.mean_ = y.mean(axis=0)
        return self

    def predict(self, X):
        return np.broadcast_to(self.mean_, (len(X), *np.shape(self.mean_))).copy()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        return tags


@pytest.fixture
def recorded():
    Recorder.seen.clear()
    return Recorder.seen


# -- strategies and scopes ---------------------------------------------------------------------------------------


def test_recursive_equals_a_plain_loop():
    df = long_frame(1)
    y = df["y"].to_numpy()
    rows = np.arange(2, len(y))
    model = LinearRegression().fit(np.column_stack([y[rows - 1], y[rows - 2]]), y[rows])
    history = list(y)
    for _ in range(5):
        history.append(model.predict([[history[-1], history[-2]]])[0])
    forecaster = quick(model=HistoryOnly(), lags=[1, 2])
    assert_allclose(values(forecaster.fit(df).predict(5), "HistoryOnly"), history[-5:], rtol=1e-9)


class HistoryOnly(LinearRegression):
    """Linear regression that leaves out rows with missing values by itself."""

    def fit(self, X, y):
        whole = ~np.isnan(X).any(axis=1)
        return super().fit(X[whole], y[whole])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def test_direct_equals_a_plain_regression_on_each_step():
    df = long_frame(1)
    y = df["y"].to_numpy()
    expected = []
    for step in range(3):
        rows = np.arange(2, len(y) - step)
        model = LinearRegression().fit(np.column_stack([y[rows - 1], y[rows - 2]]), y[rows + step])
        expected.append(model.predict([[y[-1], y[-2]]])[0])
    got = quick(model=HistoryOnly(), lags=[1, 2], strategy="direct_each", h=3).fit(df).predict()
    assert_allclose(values(got, "HistoryOnly"), expected, rtol=1e-9)


def test_direct_is_one_model_with_a_vector_for_all_steps():
    forecaster = quick(
        model=SoftBoostRegressor(n_estimators=3, depth=1, learning_rate=0.5, shuffle=False), strategy="direct"
    )
    forecaster.fit(long_frame(1))
    (learned,) = forecaster.fitted_.models
    assert len(learned.models) == 1
    assert learned.models[0].n_outputs_ == 4
    assert values(forecaster.predict(), "SoftBoostRegressor").shape == (4,)
    with pytest.raises(ValueError, match=r"predict\(h=5\): strategy='direct' has learned 4 steps only"):
        forecaster.predict(5)
    assert_array_equal(
        values(forecaster.predict(2), "SoftBoostRegressor"), values(forecaster.predict(), "SoftBoostRegressor")[:2]
    )


@pytest.mark.parametrize("strategy", ["recursive", "direct", "direct_each"])
def test_models_see_rows_in_time_order_and_keep_leading_rows(recorded, strategy):
    df = long_frame(2)
    quick(model=Recorder(), scope="global", strategy=strategy, lags=[1], date_features=["year"], h=2).fit(df)
    X, y = recorded[0]
    assert (np.diff(X[:, -1]) >= 0).all()
    assert len(y) == 2 * (N_ROWS - (1 if strategy == "direct" else 0))
    assert np.isnan(X[:, 0]).sum() == 2


def test_global_equals_mlforecast():
    mlforecast = pytest.importorskip("mlforecast", reason="mlforecast is not installed")
    from mlforecast.lag_transforms import ExpandingMean as TheirExpandingMean
    from mlforecast.lag_transforms import RollingMean as TheirRollingMean
    from mlforecast.target_transforms import Differences as TheirDifferences
    from mlforecast.target_transforms import LocalStandardScaler as TheirScaler

    df = long_frame(3)
    model = HistGradientBoostingRegressor(max_iter=20, early_stopping=False)
    words = {"lags": [1, 12], "date_features": ["month"]}
    theirs = mlforecast.MLForecast(
        [model], freq="MS", lag_transforms={1: [TheirRollingMean(3), TheirExpandingMean()]},
        target_transforms=[TheirDifferences([1]), TheirScaler()], **words,
    ).fit(df, static_features=[], dropna=False)  # fmt: skip
    ours = Forecaster(
        "MS", 6, model, lag_transforms={1: [RollingMean(3), ExpandingMean()]}, scope="global",
        target_transforms=[Differences([1]), LocalStandardScaler()], **words,
    ).fit(df)  # fmt: skip
    name = "HistGradientBoostingRegressor"
    expected, got = theirs.predict(6), ours.predict(6)
    assert_array_equal(got["ds"], expected["ds"])
    assert_allclose(got[name], expected[name], rtol=1e-3)


def test_scope_and_transforms_are_chosen_by_least_backtest_error():
    forecaster = Forecaster("MS", h=4, model=Ridge(), lags=[1, 12]).fit(long_frame(4))
    errors = forecaster.choice_.errors
    assert min(errors, key=errors.get).startswith(f"{forecaster.scope_}: ")
    assert len(errors) == 6
    assert np.isfinite(list(errors.values())).all()


def test_pooling_wins_where_series_are_short_and_alike():
    rng = np.random.default_rng(0)
    parts = []
    for i in range(40):
        y = np.zeros(24)
        for t in range(1, 24):
            y[t] = np.sin(2 * y[t - 1]) * 2 + rng.normal(scale=0.3)
        parts.append(pd.DataFrame({"unique_id": i, "ds": np.arange(24), "y": y}))
    model = HistGradientBoostingRegressor(max_iter=50, min_samples_leaf=5)
    with threadpool_limits(limits=1):  # two threads for each of these small fits crawl on a busy machine
        forecaster = Forecaster(1, h=2, model=model, lags=[1], target_transforms=None).fit(pd.concat(parts))
    assert forecaster.scope_ == "global"


def test_default_beats_seasonal_naive():
    df = long_frame(2, 72)
    train, test = df.groupby("unique_id").head(66), df.groupby("unique_id").tail(6)
    forecast = Forecaster("MS", h=6).fit(train).predict()
    naive = train.groupby("unique_id")["y"].transform(lambda s: s.shift(-(len(s) - 12))).dropna()
    naive = np.concatenate([part.to_numpy()[:6] for _, part in naive.groupby(train["unique_id"])])
    error = np.mean(np.abs(values(forecast, "SoftBoostRegressor") - test["y"].to_numpy()))
    assert error < 0.6 * np.mean(np.abs(naive - test["y"].to_numpy()))


# -- frames ------------------------------------------------------------------------------------------------------


def test_polars_and_pandas_agree():
    df = long_frame().assign(price=np.tile(np.cos(np.arange(N_ROWS)), 3), group=np.repeat(["a", "b", "a"], N_ROWS))
    past, ahead = df.groupby("unique_id").head(N_ROWS - 4), df.groupby("unique_id").tail(4)
    pandas = quick(scope="global").fit(past)
    polars = quick(scope="global").set_params(freq="1mo").fit(pl.from_pandas(past))
    assert polars.frame_.exog == pandas.frame_.exog == ["price"]
    assert polars.frame_.static == pandas.frame_.static == ["group"]
    expected = pandas.predict(level=[80], X_df=ahead)
    got = polars.predict(level=[80], X_df=pl.from_pandas(ahead))
    assert isinstance(got, pl.DataFrame)
    assert got.columns == list(expected.columns)
    assert_array_equal(got["ds"].to_numpy(), expected["ds"])
    for name in expected.columns[2:]:
        assert_array_equal(got[name].to_numpy(), expected[name])


def test_backtest_of_polars_and_pandas_agree():
    df = long_frame()
    expected = quick().backtest(df, n_windows=3).forecasts
    got = quick().set_params(freq="1mo").backtest(pl.from_pandas(df), n_windows=3).forecasts
    rivals = ["naive", "seasonal_naive", "smoothing"]
    assert got.columns == list(expected.columns) == ["unique_id", "ds", "y", "cutoff", "Ridge", *rivals]
    for name in expected.columns:
        assert_array_equal(got[name].to_numpy(), expected[name])


def test_unsorted_rows_are_sorted():
    df = long_frame()
    expected = quick().fit(df).predict()
    pd.testing.assert_frame_equal(quick().fit(df.sample(frac=1, random_state=0)).predict(), expected)


@pytest.mark.parametrize(
    ("freq", "start"),
    [("D", "2020-02-27"), ("h", "2020-01-01 22:00"), ("QS", "2020-01-01"), ("ME", "2020-01-31"),
     ("W-MON", "2020-01-06"), ("B", "2020-01-02")],
)  # fmt: skip
def test_frequency_is_inferred_and_times_go_on(freq, start):
    times = pd.date_range(start, periods=43, freq=freq)
    df = pd.DataFrame({"unique_id": "a", "ds": times[:40], "y": np.arange(40.0)})
    forecaster = Forecaster(None, 3, Ridge(), lags=[1], target_transforms=None).fit(df)
    assert_array_equal(forecaster.predict()["ds"], times[40:])


def test_integer_times_and_own_column_names():
    df = long_frame(2).rename(columns={"unique_id": "shop", "ds": "when", "y": "sold"})
    df["when"] = np.tile(np.arange(N_ROWS), 2)
    forecaster = Forecaster(
        1, 2, Ridge(), lags=[1], id_col="shop", time_col="when", target_col="sold", target_transforms=None
    )
    assert forecaster.fit(df).predict()["when"].tolist() == [60, 61, 60, 61]


def test_exogenous_columns_are_used_and_must_be_given():
    rng = np.random.default_rng(0)
    df = long_frame(1).assign(promo=rng.normal(size=N_ROWS))
    df["y"] = 5 * df["promo"] + 1
    past, ahead = df[:-4], df[-4:]
    for strategy in ("recursive", "direct", "direct_each"):
        forecaster = quick(model=Ridge(alpha=1e-6), lags=[1], strategy=strategy).fit(past)
        assert_allclose(values(forecaster.predict(X_df=ahead)), ahead["y"], rtol=1e-3)
    with pytest.raises(ValueError, match=r"exogenous columns \['promo'\].*pass their future values as X_df"):
        forecaster.predict()
    with pytest.raises(ValueError, match=r"no row for series 's0' at .*2019-12-01.*\(1 of 4 are missing\)"):
        forecaster.predict(X_df=ahead[:-1])
    with pytest.raises(ValueError, match=r"X_df has no columns \['promo'\]"):
        forecaster.predict(X_df=ahead[["unique_id", "ds"]])


def test_static_text_tells_groups_apart():
    df = long_frame(4).assign(kind=np.repeat(["up", "down", "up", "down"], N_ROWS))
    df["y"] = np.where(df["kind"] == "up", 3.0, -3.0)
    forecast = quick(scope="global", lags=[], date_features=["month"]).fit(df).predict(1)
    assert_allclose(values(forecast), [3, -3, 3, -3], atol=0.1)


BAD = [
    (lambda d: d.drop(columns="y"), r"df has no column \['y'\]; it has"),
    (lambda d: pd.concat([d, d.iloc[[7]]]), r"rows 7 and 180 are both series 's0' at ds=2015-08-01"),
    (
        lambda d: d.drop(index=70),
        r"'s1' has a gap: .*2015-10-01 \(row 69\) to 2015-12-01 \(row 70\).*2015-11-01",
    ),
    (lambda d: d.assign(y=d["y"].where(d.index != 65)), r"'y' is nan in row 65 \(series 's1', ds=2015-06-01"),
    (lambda d: d.assign(y=d["y"].where(d.index != 3, np.inf)), r"'y' is inf in row 3"),
    (
        lambda d: d.assign(y=d["y"].astype(object).where(d.index != 4, "n/a").astype(str)),
        r"must contain numbers.*row 4 is 'n/a'",
    ),
    (lambda d: d.assign(unique_id=d["unique_id"].where(d.index != 9)), r"column 'unique_id' is empty in row 9"),
    (lambda d: d[:0], "df has no rows"),
    (lambda d: d.assign(ds=np.arange(len(d))), "integers"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_frames_are_refused_by_row(spoil, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(spoil(long_frame()))


def test_rows_are_counted_as_the_user_gave_them():
    df = long_frame()[::-1].reset_index(drop=True)
    with pytest.raises(ValueError, match="rows 0 and 180 are both series 's2'"):
        quick().fit(pd.concat([df, df.iloc[[0]]]))


@pytest.mark.parametrize("gaps", ["interpolate", "forward"])
def test_gaps_are_filled_where_asked(gaps):
    df = long_frame(2)
    df["y"] = np.tile(np.arange(float(N_ROWS)), 2)
    filled = quick(gaps=gaps).fit(df.drop(index=[10, 11]).assign(y=lambda d: d["y"].where(d.index != 80)))
    y, known = filled.frame_.panel.filled, filled.frame_.panel.y
    assert_array_equal(y[10:12], [10, 11] if gaps == "interpolate" else [9, 9])
    assert y[80] == (20 if gaps == "interpolate" else 19)
    assert len(y) == 2 * N_ROWS
    assert_array_equal(np.flatnonzero(np.isnan(known)), [10, 11, 80])  # what was filled is never taken for the truth


def test_not_a_frame_is_refused():
    with pytest.raises(TypeError, match="must be a pandas or polars frame, got list"):
        quick().fit([1, 2, 3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"h": 0}, "h must be an integer of at least 1"),
        ({"strategy": "both"}, "strategy='both' is not valid"),
        ({"scope": "town"}, "scope='town' is not valid"),
        ({"gaps": "zero"}, "gaps='zero' is not valid"),
        ({"lags": []}, "are all empty; set at least one"),
        ({"static_features": ["size"]}, "static_features contains 'size', which is not a column of df"),
        ({"engine": "dask", "scope": "global"}, "scope='global' fits one model, which engines do not distribute"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        quick(**settings).fit(long_frame())


# -- series that are hard to learn from --------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["local", "global", None])
def test_constant_series_stay_constant(scope):
    df = long_frame(3).assign(y=lambda d: d["y"].where(d["unique_id"] != "s1", 7.0))
    forecaster = Forecaster("MS", h=3, model=Ridge(), lags=[1, 12], scope=scope).fit(df)
    out = forecaster.predict(level=[90]).query("unique_id == 's1'")
    assert_allclose(out["Ridge"], 7, atol=0.2)
    assert np.isfinite(out.drop(columns=["unique_id", "ds"]).to_numpy()).all()


def test_short_series_fall_back_and_are_flagged():
    df = long_frame(3)
    short = pd.concat([df, long_frame(1, 5).assign(unique_id="tiny"), long_frame(1, 13).assign(unique_id="year")])
    forecaster = quick(target_transforms=[Differences([12])])
    with pytest.warns(UserWarning, match=r"2 of 5 series are too short.*'tiny' \(naive\), 'year' \(seasonal naive\)"):
        forecaster.fit(short)
    assert forecaster.fallback_ == {"tiny": "naive", "year": "seasonal naive"}
    out = forecaster.predict(3, level=[80])
    assert out["unique_id"].nunique() == 5
    tiny, year = (out[out["unique_id"] == name]["Ridge"].to_numpy() for name in ("tiny", "year"))
    history = short[short["unique_id"] == "year"]["y"].to_numpy()
    assert_array_equal(tiny, [short[short["unique_id"] == "tiny"]["y"].iloc[-1]] * 3)
    assert_array_equal(year, history[1:4])
    assert (out["Ridge-lo-80"] < out["Ridge-hi-80"]).all()


# -- intervals ---------------------------------------------------------------------------------------------------


def test_intervals_nest_and_cover():
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"unique_id": i, "ds": np.arange(105), "y": 10.0 ** (i % 3) * rng.normal(size=105).cumsum()})
        for i in range(60)
    ]
    df = pd.concat(parts)
    past, ahead = df[df["ds"] < 100], df[df["ds"] >= 100]
    forecaster = Forecaster(1, 5, Ridge(), lags=[1, 2], target_transforms=None, scope="local").fit(past)
    out = forecaster.predict(level=[50, 80, 95])
    order = ["Ridge-lo-95", "Ridge-lo-80", "Ridge-lo-50", "Ridge", "Ridge-hi-50", "Ridge-hi-80", "Ridge-hi-95"]
    assert (np.diff(out[order].to_numpy(), axis=1) >= 0).all()
    y = ahead["y"].to_numpy()
    for level in (50, 80, 95):
        coverage = np.mean((y >= out[f"Ridge-lo-{level}"]) & (y <= out[f"Ridge-hi-{level}"]))
        assert abs(coverage - level / 100) < 0.1


def test_intervals_work_with_few_errors_and_widen():
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"unique_id": "a", "ds": np.arange(50), "y": rng.normal(size=50).cumsum()})
    out = Forecaster(1, 4, Ridge(), lags=[1], target_transforms=None).fit(df).predict(level=[80, 95])
    width = (out["Ridge-hi-95"] - out["Ridge-lo-95"]).to_numpy()
    assert np.isfinite(width).all()
    assert width[3] > width[0] > 0


def test_intervals_of_logs_stay_positive():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"unique_id": "a", "ds": np.arange(60), "y": np.exp(rng.normal(size=60))})
    out = Forecaster(1, 3, Ridge(), lags=[1], target_transforms=[Log()]).fit(df).predict(level=[99])
    assert (out["Ridge-lo-99"] > 0).all()
    above, below = out["Ridge-hi-99"] / out["Ridge"], out["Ridge"] / out["Ridge-lo-99"]
    assert_allclose(above[0], below[0], rtol=1e-9)
    assert (above >= below - 1e-9).all()  # raised where the forecast falls, so that intervals do not shrink


def test_bad_level_is_refused():
    with pytest.raises(ValueError, match=r"got 120; e\.g\. level"):
        quick().fit(long_frame(1)).predict(level=[120])


# -- updates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["local", "global"])
def test_update_moves_the_origin_and_not_the_model(scope):
    df = long_frame()
    past, new = df.groupby("unique_id").head(50), df.groupby("unique_id").tail(10)
    transforms = [Differences([1]), LocalStandardScaler()]
    forecaster = quick(scope=scope, target_transforms=transforms).fit(past)
    models = [learned.models[0] for learned in forecaster.fitted_.models]
    scales = [learned.transforms.steps[1].stats_ for learned in forecaster.fitted_.models]
    forecaster.update(new)
    assert [learned.models[0] for learned in forecaster.fitted_.models] == models
    for before, learned in zip(scales, forecaster.fitted_.models, strict=True):
        assert_array_equal(before, learned.transforms.steps[1].stats_)
    # a back-test that never fits again makes the same forecasts
    longer = pd.concat([df, long_frame(3, 64).groupby("unique_id").tail(4)])
    backtest = quick(scope=scope, target_transforms=transforms).backtest(longer, n_windows=11, refit=False)
    last = backtest.forecasts[backtest.forecasts["cutoff"] == df["ds"].max()]
    assert_allclose(values(forecaster.predict()), values(last), rtol=1e-10)


@pytest.mark.parametrize("scope", ["local", "global"])
def test_update_takes_new_and_grown_series(scope):
    df = long_frame()
    short = long_frame(1, 30, seed=5).assign(unique_id="a_new")
    grown = long_frame(1, 30, seed=6).assign(unique_id="grown")
    forecaster = quick(scope=scope, target_transforms=[Differences([1]), LocalStandardScaler()])
    with pytest.warns(UserWarning, match="too short"):
        forecaster.fit(pd.concat([df, grown[:1]]))
    forecaster.update(pd.concat([short, grown[1:]]))
    assert forecaster.fallback_ == {}
    out = forecaster.predict(2)
    assert out["unique_id"].unique().tolist() == ["a_new", "grown", "s0", "s1", "s2"]
    naive = np.repeat([short["y"].iloc[-1], grown["y"].iloc[-1]], 2)
    assert np.abs(values(out)[:4] - naive).max() < 6
    assert (values(out)[:4] != naive).all()


def test_update_refuses_known_and_earlier_rows():
    df = long_frame(1)
    forecaster = quick().fit(df[10:])
    with pytest.raises(ValueError, match="are both series 's0'"):
        forecaster.update(df[-1:])
    with pytest.raises(ValueError, match="new rows before its first known one"):
        forecaster.update(df[:10])
    with pytest.raises(TypeError, match="new rows are a polars frame, but the model was fitted on pandas"):
        forecaster.update(pl.from_pandas(df[-1:]))


def test_update_can_learn():
    df = long_frame(1)
    forecaster = quick(model=SGDRegressor(random_state=0), lags=[1], target_transforms=[LocalStandardScaler()]).fit(
        df[:40]
    )
    with pytest.raises(ValueError, match="Pipeline has no partial_fit"):
        clone(forecaster).fit(df[:40]).update(df[40:], learn=True)
    boosted = quick(model=SoftBoostRegressor(shuffle=False), lags=[1], target_transforms=[Differences([1])])
    plain = clone(boosted).fit(df[:40]).update(df[40:]).predict()
    taught = clone(boosted).fit(df[:40]).update(df[40:], learn=True).predict()
    assert np.abs(values(plain, "SoftBoostRegressor") - values(taught, "SoftBoostRegressor")).max() > 0


# -- back-tests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refit", [False, True, 3])
def test_backtest_losses_are_those_of_its_forecasts(refit):
    df = long_frame()
    result = quick().backtest(df, n_windows=5, step_size=2, refit=refit)
    table = result.forecasts
    assert table.groupby("unique_id")["cutoff"].nunique().tolist() == [5, 5, 5]
    assert table.groupby(["unique_id", "cutoff"]).size().unique().tolist() == [4]
    assert (table["cutoff"] < table["ds"]).all()
    squared = (table["y"] - table["Ridge"]) ** 2
    assert_allclose(result.losses.ravel(), squared)
    assert_allclose(result.mse_t, squared.groupby(table["cutoff"]).mean())
    assert_allclose(result.cmse_t, np.cumsum(result.mse_t) / np.arange(1, 6))
    assert_allclose(result.mse, squared.mean())


def test_backtest_refits_when_it_says(recorded):
    df = long_frame(1)
    for refit, expected in [(False, 1), (2, 3), (True, 5)]:
        recorded.clear()
        quick(model=Recorder(), lags=[1]).backtest(df, n_windows=5, refit=refit)
        assert len(recorded) == expected
    first, *_, last = [len(y) for _, y in recorded]
    assert (first, last) == (N_ROWS - 8, N_ROWS - 4)


def test_backtest_leaves_the_fitted_model_alone_and_plots():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    from matplotlib.figure import Figure

    forecaster = quick().fit(long_frame())
    expected = forecaster.predict()
    result = forecaster.backtest(long_frame(), n_windows=6)
    pd.testing.assert_frame_equal(forecaster.predict(), expected)
    ax = Figure().subplots()
    assert result.plot(ax=ax, label="ridge", kind="errors") is ax
    assert_allclose(ax.lines[0].get_ydata(), result.cmse_t)
    assert ax.get_legend().get_texts()[0].get_text() == "ridge: cMSE$_t$"


def test_backtest_leaves_out_series_without_history():
    df = pd.concat([long_frame(2), long_frame(1, 6).assign(unique_id="young")])
    result = quick().backtest(df, n_windows=4, h=2)
    assert np.isnan(result.losses[2]).all()
    assert "young" not in set(result.forecasts["unique_id"])
    with pytest.raises(ValueError, match="leave no series with two rows to learn from; the longest has 60"):
        quick().backtest(df, n_windows=60)


def test_processes_give_the_same_bits():
    df = long_frame(4)
    one, two = quick().fit(df).predict(level=[80]), quick(n_jobs=2).fit(df).predict(level=[80])
    pd.testing.assert_frame_equal(one, two, check_exact=True)


# -- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("polars", [False, True])
@pytest.mark.parametrize(
    ("scope", "strategy"), [("local", "recursive"), ("global", "direct"), ("local", "direct_each")]
)
def test_saved_forecaster_goes_on_to_the_last_bit(tmp_path, scope, strategy, polars):
    model = SoftBoostRegressor(n_estimators=3, learning_rate=0.3, depth=1, feature_transform=None, shuffle=False)
    df = long_frame(2).assign(group=np.repeat(["a", "b"], N_ROWS))
    past, new = df.groupby("unique_id").head(50), df.groupby("unique_id").tail(10)
    past, new = (pl.from_pandas(past), pl.from_pandas(new)) if polars else (past, new)
    forecaster = Forecaster(
        "1mo" if polars else "MS", 3, model, lags=[1, 2], lag_transforms={1: [RollingMean(3), ExpandingMean()]},
        target_transforms=[Log(), Differences([1]), LocalStandardScaler()], scope=scope, strategy=strategy,
    ).fit(past)  # fmt: skip
    forecaster.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again.predict()) is type(past)
    for frames in [(forecaster.predict(level=[80]), again.predict(level=[80])),
                   (forecaster.update(new).predict(), again.update(new).predict())]:  # fmt: skip
        for name in frames[0].columns:
            assert_array_equal(np.asarray(frames[0][name]), np.asarray(frames[1][name]))
