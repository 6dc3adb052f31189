"""Forecasters in files: they go on as before, without the rows they were trained on."""

from __future__ import annotations

import struct

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

from softboost import SoftBoostRegressor, load
from softboost._file.container import dumps, loads
from softboost._file.values import ModelFileError
from softboost.forecast import (
    Differences,
    ExpandingMean,
    ExponentiallyWeightedMean,
    Forecaster,
    LocalMinMaxScaler,
    LocalRobustScaler,
    LocalStandardScaler,
    Log,
    RollingMax,
    RollingMean,
    RollingQuantile,
    RollingStd,
    SeasonalRollingMean,
    SeasonalRollingStd,
)

PLAIN = {"n_estimators": 2, "learning_rate": 0.3, "depth": 1, "feature_transform": None, "init": "linear"}


def regressor():
    return SoftBoostRegressor(**PLAIN, shuffle=False)


def long_frame(sizes=(60, 60), seed=0, **columns):
    rng = np.random.default_rng(seed)
    parts = []
    for i, n in enumerate(sizes):
        y = 10 * (i + 1) + np.sin(np.arange(n) * np.pi / 6) + 0.1 * np.cumsum(rng.normal(size=n))
        dates = pd.date_range("2015-01-01", periods=n, freq="MS")
        parts.append(pd.DataFrame({"unique_id": f"s{i}", "ds": dates, "y": y}))
    df = pd.concat(parts, ignore_index=True)
    return df.assign(**{name: values(len(df), rng) for name, values in columns.items()})


def frames_equal(one, other):
    assert list(one.columns) == list(other.columns)
    for name in one.columns:
        assert_array_equal(np.asarray(one[name]), np.asarray(other[name]))


LAG_TRANSFORMS = [
    RollingMean(5),
    RollingMean(4, min_samples=2),
    RollingStd(6, min_samples=2),
    RollingMax(3),
    RollingQuantile(0.3, 5),
    SeasonalRollingMean(12, 2),
    SeasonalRollingStd(6, 3, min_samples=2),
]
CHAINS = [
    [],
    [Differences([1])],
    [Differences([1, 12]), LocalStandardScaler()],
    [Log(), Differences([1])],
    [LocalMinMaxScaler()],
    [Log(), LocalRobustScaler("mad")],
]


@settings(max_examples=20)
@given(
    lags=st.lists(st.integers(1, 20), max_size=3, unique=True),
    statistics=st.dictionaries(st.integers(1, 4), st.lists(st.sampled_from(LAG_TRANSFORMS), min_size=1, max_size=2)),
    chain=st.sampled_from(CHAINS),
    scope=st.sampled_from(["local", "global"]),
    strategy=st.sampled_from(["recursive", "direct", "direct_each"]),
    sizes=st.lists(st.integers(5, 60), min_size=1, max_size=3),
    gaps=st.sampled_from(["raise", "interpolate", "forward"]),
    seed=st.integers(0, 2**16),
)
def test_goes_on_to_the_last_bit_from_the_last_rows(lags, statistics, chain, scope, strategy, sizes, gaps, seed):
    df = long_frame([*sizes, 70], seed, kind=lambda n, rng: np.repeat("x", n))
    rng = np.random.default_rng(seed)
    if gaps != "raise":
        df.loc[rng.random(len(df)) < 0.2, "y"] = np.nan
        df = df[rng.random(len(df)) < 0.9]
        df = df[df.groupby("unique_id")["y"].transform("count") > 2]
    left = df.groupby("unique_id").cumcount(ascending=False)
    past, new = df[left >= 3], df[left < 3]
    forecaster = Forecaster(
        "MS", 2, regressor(), lags=[1, *lags], lag_transforms=statistics, date_features=["month"],
        target_transforms=chain, scope=scope, strategy=strategy, gaps=gaps,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)  # short series are told of, which is well
        forecaster.fit(past)
    forecaster.predict(level=[80])
    again = loads(dumps(forecaster))
    frames_equal(forecaster.predict(level=[50, 80]), again.predict(level=[50, 80]))
    assert again.fallback_ == forecaster.fallback_
    frames_equal(forecaster.update(new).predict(), again.update(new).predict())
    frames_equal(again.predict(), loads(dumps(again)).predict())


def rows_in(data, y):
    """How many of the numbers are in a file."""
    return sum(data.count(struct.pack("<d", v)) > 0 for v in y)


def test_holds_the_last_rows_alone(tmp_path):
    df = long_frame((200, 150))
    forecaster = Forecaster("MS", 3, regressor()).fit(df)
    forecaster.save(tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    longest = max(forecaster.features_.reach(), forecaster.season_length_, 8)
    for _, y in df.groupby("unique_id")["y"]:
        n_rows = rows_in(data, y)
        assert 0 < n_rows <= longest + forecaster.target_transforms_.n_lost + 3
        assert rows_in(data, y[:100]) == 0


def test_statistics_that_go_on_from_the_first_row_keep_all_rows():
    df = long_frame((60,))
    for statistic in (ExpandingMean(), ExponentiallyWeightedMean(0.3)):
        forecaster = Forecaster("MS", 2, regressor(), lag_transforms={1: [statistic]}, target_transforms=None).fit(df)
        again = loads(dumps(forecaster))
        assert rows_in(dumps(forecaster), df["y"]) == 60
        frames_equal(forecaster.predict(), again.predict())


def test_static_values_survive_holes_in_later_rows():
    df = long_frame((60, 60), size=lambda n, rng: np.where(np.arange(n) % 60 < 10, 1.0 + (np.arange(n) >= 60), np.nan))
    forecaster = Forecaster("MS", 2, regressor(), lags=[1, 2], target_transforms=None, scope="global").fit(df)
    assert forecaster.frame_.static == ["size"]
    frames_equal(forecaster.predict(), loads(dumps(forecaster)).predict())


@pytest.mark.parametrize("polars", [False, True])
def test_keeps_exogenous_columns_zones_and_names(polars, tmp_path):
    df = long_frame((40, 40), price=lambda n, rng: rng.normal(size=n), group=lambda n, rng: np.repeat(["é", "b"], 40))
    df["ds"] = df["ds"].dt.tz_localize("Europe/Paris")
    df = df.rename(columns={"unique_id": "shop", "y": "sales"})
    past = df.groupby("shop").head(37)
    ahead = df.groupby("shop").tail(3).drop(columns="sales")
    if polars:
        past, ahead = pl.from_pandas(past), pl.from_pandas(ahead)
    names = {"id_col": "shop", "target_col": "sales"}
    settings = {"lags": [1, 2], "target_transforms": None, "scope": "global", "strategy": "direct"}
    forecaster = Forecaster("1mo" if polars else "MS", 3, regressor(), **settings, **names).fit(past)
    forecaster.save(tmp_path / "model")
    again = load(tmp_path / "model")
    frames_equal(forecaster.predict(X_df=ahead, level=[90]), again.predict(X_df=ahead, level=[90]))
    assert type(again.predict(X_df=ahead)) is type(past)
    assert again.frame_.static == forecaster.frame_.static == ["group"]


class TestIntervals:
    def test_are_kept_without_the_rows(self, tmp_path):
        forecaster = Forecaster("MS", 4, regressor(), lags=[1, 2, 3], target_transforms=None).fit(long_frame((80, 70)))
        forecaster.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.frame_.cut
        assert len(again.frame_.panel.y) < 40
        frames_equal(forecaster.predict(level=[80, 95]), again.predict(level=[80, 95]))
        assert again.predict(2, level=[80]).shape == (4, 5)

    def test_of_longer_horizons_must_be_asked_for_before(self, tmp_path):
        forecaster = Forecaster("MS", 2, regressor(), lags=[1, 2], target_transforms=None).fit(long_frame((80,)))
        forecaster.save(tmp_path / "model")
        with pytest.raises(ValueError, match=r"predict\(h=6, level=.*at most 2 steps.*before save"):
            load(tmp_path / "model").predict(6, level=[80])
        want = forecaster.predict(6, level=[80])
        forecaster.save(tmp_path / "model")
        frames_equal(load(tmp_path / "model").predict(6, level=[80]), want)

    def test_may_be_left_out(self, tmp_path):
        forecaster = Forecaster("MS", 2, regressor(), lags=[1, 2], target_transforms=None).fit(long_frame((80,)))
        forecaster.save(tmp_path / "model", intervals=False)
        again = load(tmp_path / "model")
        frames_equal(forecaster.predict(), again.predict())
        with pytest.raises(ValueError, match="saved without intervals"):
            again.predict(level=[80])
        with pytest.raises(ValueError, match="intervals must be True or False"):
            forecaster.save(tmp_path / "model", intervals="yes")

    def test_of_series_that_joined_later(self, tmp_path):
        df = long_frame((80, 80, 80))
        old, new = df[df["unique_id"] != "s2"], df[df["unique_id"] == "s2"]
        forecaster = Forecaster("MS", 2, regressor(), lags=[1, 2], scope="global").fit(old)
        forecaster.save(tmp_path / "model")
        again = load(tmp_path / "model")
        known = again.predict(level=[80])
        after = again.update(new).predict(level=[80])
        frames_equal(known, after[after["unique_id"] != "s2"])
        assert np.isfinite(after.iloc[:, 2:].to_numpy()).all()


def test_rows_that_overflow_in_features_are_refused():
    """Numbers that are finite, while their sums, which features are made of, would not be."""
    forecaster = Forecaster("MS", 2, regressor(), lags=[1], lag_transforms={1: [ExpandingMean()]}, scope="local",
                            target_transforms=[LocalStandardScaler()]).fit(long_frame((40,)))  # fmt: skip
    (learned,) = forecaster.fitted_.models
    loads(dumps(forecaster))
    learned.transforms.steps[0].stats_[:, 0] = -1.7e308
    with pytest.raises(ModelFileError, match="the rows overflow"):
        loads(dumps(forecaster))


class TestNothingHalfDone:
    """What fails, or is stopped, leaves the forecaster as it was."""

    @pytest.fixture
    def forecaster(self):
        return Forecaster("MS", 2, regressor(), lags=[1, 2], target_transforms=[Log(), Differences([1])])

    def test_failed_fit(self, forecaster):
        df = long_frame((60,))
        before = forecaster.fit(df).predict(level=[80])
        state = dict(vars(forecaster))
        with pytest.raises(ValueError, match="Log"):
            forecaster.fit(df.assign(y=df["y"] - 100))
        assert all(vars(forecaster)[name] is value for name, value in state.items())
        frames_equal(forecaster.predict(level=[80]), before)

    def test_stopped_fit(self, forecaster, monkeypatch):
        df = long_frame((60, 60))
        forecaster.set_params(scope=None)
        before, state = forecaster.fit(df).predict(), dict(vars(forecaster))
        calls = []

        def fit(self, X, y):
            calls.append(len(y))
            if len(calls) == 4:
                raise KeyboardInterrupt
            return original(self, X, y)

        original = SoftBoostRegressor.fit
        monkeypatch.setattr(SoftBoostRegressor, "fit", fit)
        with pytest.raises(KeyboardInterrupt):
            forecaster.fit(df[30:])
        assert vars(forecaster) == state
        monkeypatch.undo()
        frames_equal(forecaster.predict(), before)

    def test_stopped_update(self, forecaster, monkeypatch):
        df = long_frame((60, 60))
        past, new = df.groupby("unique_id").head(55), df.groupby("unique_id").tail(5)
        forecaster.set_params(scope="local")
        before = forecaster.fit(past).predict()
        calls = []

        def partial_fit(self, X, y):
            calls.append(len(y))
            if len(calls) == 2:
                raise MemoryError
            return original(self, X, y)

        original = SoftBoostRegressor.partial_fit
        monkeypatch.setattr(SoftBoostRegressor, "partial_fit", partial_fit)
        with pytest.raises(MemoryError):
            forecaster.update(new, learn=True)
        frames_equal(forecaster.predict(), before)
        monkeypatch.undo()
        after = forecaster.update(new, learn=True).predict()
        assert not np.array_equal(after["SoftBoostRegressor"], before["SoftBoostRegressor"])


def test_a_forecaster_with_another_model_is_refused_with_a_way_out(tmp_path):
    forecaster = Forecaster("MS", 2, model=Ridge(), lags=[1]).fit(long_frame())
    with pytest.raises(ValueError, match=r"model=Ridge\(\) cannot be saved.*Use pickle or joblib"):
        forecaster.save(tmp_path / "model.softboost")
