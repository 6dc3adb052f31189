"""Scores of a back-test: the model beside simple forecasts, by series and by step, and the coverage of intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from softboost.forecast import Forecaster
from test_forecast import long_frame, quick

H = 3


@pytest.fixture(scope="module")
def tested():
    df = long_frame(3)
    df.loc[df["unique_id"] == "s1", "y"] *= 100  # errors of large numbers count no more than those of small ones
    return df, quick().backtest(df, h=H, n_windows=4, step_size=2, level=[50, 90])


def error(table, name):
    return (table[name] - table["y"]).abs()


def test_rivals_repeat_the_last_value_and_the_last_season(tested):
    df, result = tested
    series = df.set_index(["unique_id", "ds"])["y"]
    for row in result.forecasts.itertuples():
        step = (row.ds.year - row.cutoff.year) * 12 + row.ds.month - row.cutoff.month
        assert row.naive == series[row.unique_id, row.cutoff]
        assert row.seasonal_naive == series[row.unique_id, row.ds - pd.DateOffset(months=12)]
        assert 1 <= step <= H


def test_the_bank_is_the_forecaster_with_this_candidate_alone(tested):
    df, result = tested
    bank = Forecaster("MS", H, candidates=["smoothing"]).backtest(df, n_windows=4, step_size=2)
    assert_array_equal(result.forecasts["smoothing"], bank.forecasts["SoftBoostRegressor"])
    assert_allclose(bank.skill, bank.scores().set_index("model")["skill"]["smoothing"])


def test_scores_follow_from_the_forecasts(tested):
    df, result = tested
    scores, table = result.scores().set_index("model"), result.forecasts
    assert list(scores.index) == ["Ridge", "naive", "seasonal_naive", "smoothing"]
    first = table["cutoff"].min()
    scale = df[df["ds"] <= first].groupby("unique_id")["y"].agg(lambda y: y.diff().abs().mean())
    for name in scores.index:
        assert_allclose(scores["mse"][name], (error(table, name) ** 2).mean())
        assert_allclose(scores["mae"][name], error(table, name).mean())
        mase = (error(table, name).groupby(table["unique_id"]).mean() / scale).mean()
        assert_allclose(scores["mase"][name], mase)
        assert_allclose(scores["skill"][name], 1 - mase / scores["mase"]["naive"], atol=1e-12)
    assert result.skill == scores["skill"]["Ridge"] > 0.3


def test_the_worst_series_comes_first(tested):
    _, result = tested
    by_series, table = result.by_series(), result.forecasts
    assert (np.diff(by_series["mase"]) <= 0).all()
    assert sorted(by_series["unique_id"]) == ["s0", "s1", "s2"]
    groups = table["unique_id"]
    expected = error(table, "Ridge").groupby(groups).mean()
    assert_allclose(by_series["mae"], expected[by_series["unique_id"]])
    assert_allclose(
        by_series["skill"], (1 - expected / error(table, "naive").groupby(groups).mean())[by_series["unique_id"]]
    )
    inside = (table["y"] >= table["Ridge-lo-90"]) & (table["y"] <= table["Ridge-hi-90"])
    assert_allclose(by_series["inside_90"], inside.groupby(groups).mean()[by_series["unique_id"]])
    assert by_series["n"].tolist() == [4 * H] * 3


def test_errors_by_step_average_to_the_whole(tested):
    _, result = tested
    steps, scores = result.by_step(), result.scores().set_index("model")
    assert steps["step"].tolist() == [1, 2, 3]
    assert_allclose(steps["mase"].mean(), scores["mase"]["Ridge"])
    assert_allclose(steps["mase_naive"].mean(), scores["mase"]["naive"])
    assert steps["mase_naive"].is_monotonic_increasing


def test_coverage_is_the_share_of_targets_inside(tested):
    _, result = tested
    table, coverage = result.forecasts, result.coverage()
    assert list(coverage) == [50, 90]
    for level, share in coverage.items():
        inside = (table["y"] >= table[f"Ridge-lo-{level}"]) & (table["y"] <= table[f"Ridge-hi-{level}"])
        assert_allclose(share, inside.mean())
    assert coverage[50] < coverage[90]
    assert quick().backtest(long_frame(1), n_windows=2).coverage() == {}


def test_missing_targets_and_constant_series_are_left_out_of_scores():
    df = long_frame(3)
    df.loc[df["unique_id"] == "s2", "y"] = 7.0
    holed = df.drop(index=df.index[df["unique_id"] == "s0"][-2:-1])
    result = Forecaster("MS", 2, candidates=["smoothing"], gaps="forward").backtest(holed, n_windows=3, level=[80])
    rows = result.by_series().set_index("unique_id")
    assert rows.index[-1] == "s2"
    assert np.isnan(rows["mase"]["s2"])  # it never changed: nothing to divide by
    assert rows["mae"]["s2"] == 0
    assert rows["n"]["s0"] == 4  # of six forecasts two are for the time that is missing
    assert rows["n"]["s1"] == 6
    assert 0 <= result.coverage()[80] <= 1
    assert_allclose(result.scores()["mase"][0], rows["mase"][["s0", "s1"]].mean())


def test_without_a_season_there_is_no_seasonal_naive():
    df = long_frame(1).assign(ds=np.arange(60))
    result = Forecaster(1, 2, Ridge(), lags=[1], target_transforms=None).backtest(df, n_windows=3)
    assert list(result.rivals) == ["naive", "smoothing"]
    assert "seasonal_naive" not in result.forecasts
    seasonal = Forecaster(1, 2, Ridge(), lags=[1], target_transforms=None, season_length=12).backtest(df, n_windows=3)
    assert list(seasonal.rivals) == ["naive", "seasonal_naive", "smoothing"]


def test_tables_of_polars_frames_are_polars():
    df = long_frame(2)
    expected = quick().backtest(df, n_windows=3, level=[80])
    got = quick().set_params(freq="1mo").backtest(pl.from_pandas(df), n_windows=3, level=[80])
    for name in ("scores", "by_series", "by_step"):
        table = getattr(got, name)()
        assert isinstance(table, pl.DataFrame)
        pd.testing.assert_frame_equal(table.to_pandas(), getattr(expected, name)())
    assert got.coverage() == expected.coverage()
