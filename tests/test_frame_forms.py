"""Frames as people have them: one series, dates in the index, periods, pyarrow, early dates, gaps."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import softboost
from softboost.forecast import Forecaster

N = 48
BANK = {"candidates": ["smoothing"]}
MONTHS = pd.date_range("2020-01-01", periods=N, freq="MS")


def long_frame(**columns):
    y = 10 + np.sin(np.arange(N) * np.pi / 6)
    return pd.DataFrame({"unique_id": "a", "ds": MONTHS, "y": y}).assign(**columns)


def forecast(df, freq="MS", **settings):
    return Forecaster(freq, 2, **{**BANK, **settings}).fit(df).predict()


def pyarrow_frame(df):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return df.convert_dtypes(dtype_backend="pyarrow")


ONE_SERIES = {
    "no ids": lambda df: df.drop(columns="unique_id"),
    "dates in the index": lambda df: df.drop(columns="unique_id").set_index("ds"),
    "dates in an index of another name": lambda df: df.drop(columns="unique_id").set_index("ds").rename_axis("month"),
    "a Series": lambda df: df.set_index("ds")["y"],
    "a Series of another name": lambda df: df.set_index("ds")["y"].rename("sold"),
    "periods in the index": lambda df: df.set_index("ds")["y"].to_period("M"),
    "unsorted": lambda df: df.drop(columns="unique_id").sample(frac=1, random_state=0),
}


@pytest.mark.parametrize("form", ONE_SERIES)
@pytest.mark.parametrize("freq", ["MS", None])
def test_one_series_needs_no_ids(form, freq):
    df = long_frame()
    expected = forecast(df).assign(unique_id="y")
    pd.testing.assert_frame_equal(forecast(ONE_SERIES[form](df), freq), expected)


def test_one_series_of_polars_needs_no_ids():
    df = pl.from_pandas(long_frame()[["ds", "y"]])
    got = forecast(df, "1mo")
    assert_array_equal(got["SoftBoostRegressor"], forecast(long_frame())["SoftBoostRegressor"])
    assert got["unique_id"].to_list() == ["y", "y"]


def test_one_series_goes_on_and_takes_columns_without_ids():
    df = long_frame(promo=np.arange(N) % 3).drop(columns="unique_id").set_index("ds")
    settings = {"lags": [1], "target_transforms": None, "model": softboost.SoftBoostRegressor(n_estimators=2)}
    model = Forecaster("MS", 2, **settings).fit(df[:-4])
    first = model.predict(X_df=df[["promo"]][-4:-2])
    assert_array_equal(first["ds"], df.index[-4:-2])
    second = model.update(df[-4:-2]).predict(X_df=df[["promo"]][-2:])
    assert_array_equal(second["ds"], df.index[-2:])
    assert set(model.backtest(df, n_windows=2).forecasts["unique_id"]) == {"y"}


MANY_SERIES = {
    "dates in the index": lambda df: df.set_index("ds"),
    "ids in the index": lambda df: df.set_index("unique_id"),
    "both in the index": lambda df: df.set_index(["unique_id", "ds"]),
    "periods": lambda df: df.assign(ds=df["ds"].dt.to_period("M")),
    "pyarrow": pyarrow_frame,
    "nullable": lambda df: df.convert_dtypes(dtype_backend="numpy_nullable"),
    "categories": lambda df: df.assign(unique_id=df["unique_id"].astype("category")),
}


@pytest.mark.parametrize("form", MANY_SERIES)
@pytest.mark.parametrize("freq", ["MS", None])
def test_ids_and_times_may_be_of_any_kind(form, freq):
    df = pd.concat([long_frame(), long_frame(unique_id="b", y=np.arange(N) % 5)], ignore_index=True)
    expected, got = forecast(df), forecast(MANY_SERIES[form](df), freq)
    assert got["unique_id"].tolist() == expected["unique_id"].tolist()
    assert_array_equal(got["ds"], expected["ds"])
    assert_array_equal(got["SoftBoostRegressor"], expected["SoftBoostRegressor"])


@pytest.mark.parametrize("kind", ["timestamp[us][pyarrow]", "timestamp[ns, tz=UTC][pyarrow]", "date32[pyarrow]"])
def test_times_of_pyarrow(kind):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    times = MONTHS.tz_localize("UTC") if "UTC" in kind else MONTHS.date if "date" in kind else MONTHS
    got = forecast(long_frame(ds=pd.array(times, dtype=kind)))
    assert [str(t)[:10] for t in got["ds"]] == ["2024-01-01", "2024-02-01"]
    assert_array_equal(got["SoftBoostRegressor"], forecast(long_frame())["SoftBoostRegressor"])


def test_columns_of_pyarrow_are_exogenous_and_static():
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    df = long_frame(price=np.cos(np.arange(N)), promo=np.resize(["u", "v"], N), group="g")
    settings = {"lags": [1], "target_transforms": None, "model": softboost.SoftBoostRegressor(n_estimators=2)}
    ahead = df[["ds", "price", "promo"]].assign(unique_id="a", ds=df["ds"] + pd.DateOffset(years=4))
    models = [Forecaster("MS", 2, **settings).fit(d) for d in (df, pyarrow_frame(df))]
    assert models[0].frame_.exog == models[1].frame_.exog == ["price", "promo"]
    told = [m.predict(X_df=x) for m, x in zip(models, (ahead, pyarrow_frame(ahead)), strict=True)]
    assert_array_equal(*[t["SoftBoostRegressor"] for t in told])


@pytest.mark.parametrize(
    ("period", "freq"), [("M", "MS"), ("Q", "QS-OCT"), ("Q-NOV", "QS-DEC"), ("Y", "YS-JAN"), ("W", "W-MON"), ("D", "D")]
)
def test_periods_tell_the_frequency(period, freq):
    times = pd.period_range("2001-01-01", periods=N, freq=period)
    model = Forecaster(None, 2, **BANK).fit(long_frame(ds=times))
    after = pd.period_range(times[-1], periods=3, freq=times.freq)[1:].to_timestamp()
    assert_array_equal(model.predict()["ds"], after)
    assert pd.tseries.frequencies.to_offset(model.freq_) in (
        pd.tseries.frequencies.to_offset(freq), pd.tseries.frequencies.to_offset(freq.split("-")[0])
    )  # fmt: skip


def test_a_frequency_that_contradicts_the_periods_is_refused():
    with pytest.raises(ValueError, match=r"freq='D' contradicts the periods of column 'ds': use 'MS'"):
        forecast(long_frame(ds=MONTHS.to_period("M")), "D")
    assert len(forecast(long_frame(ds=MONTHS.to_period("M")), "ME")) == 2  # months, in other words


@pytest.mark.parametrize("kind", [np.int64, "Int32", float, "int64[pyarrow]"])
def test_integer_times_take_a_season(kind):
    if "pyarrow" in str(kind):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    y = np.tile([1.0, 5.0, 2.0, 8.0], 12)
    df = long_frame(ds=pd.array(np.arange(100, 100 + N), dtype=kind), y=y)
    got = Forecaster(None, 4, **BANK, season_length=4).fit(df).predict()
    assert got["ds"].tolist() == [148, 149, 150, 151]
    np.testing.assert_allclose(got["SoftBoostRegressor"], [1, 5, 2, 8], atol=0.2)


def test_several_series_without_ids_are_not_taken_for_one():
    df = pd.concat([long_frame(), long_frame()]).drop(columns="unique_id")
    with pytest.raises(ValueError, match=r"no column 'unique_id' and is read as one series, but rows 0 and 48 "):
        forecast(df)
    with pytest.raises(ValueError, match=r"df has no column \['shop'\]"):
        forecast(df, id_col="shop")


# -- early dates -------------------------------------------------------------------------------------------------------

EARLY = np.datetime64("1600-01", "M") + np.arange(N)
EARLY_FORMS = {
    "seconds": lambda: EARLY.astype("datetime64[s]"),
    "dates": lambda: EARLY.astype("datetime64[D]").astype(object),
    "text": lambda: EARLY.astype("datetime64[D]").astype(str),
    "periods": lambda: pd.period_range("1600-01", periods=N, freq="M"),
}


@pytest.mark.parametrize("form", EARLY_FORMS)
@pytest.mark.parametrize("settings", [BANK, {"lags": [1], "date_features": ["month"], "target_transforms": None}])
def test_dates_before_nanoseconds_keep_their_calendar(form, settings, tmp_path):
    model = softboost.SoftBoostRegressor(n_estimators=5, learning_rate=0.3, depth=2)
    settings = settings if settings is BANK else {**settings, "model": model}
    model = Forecaster("MS", 2, **settings).fit(long_frame(ds=EARLY_FORMS[form]()))
    got, modern = model.predict(), Forecaster("MS", 2, **settings).fit(long_frame()).predict()
    assert [t.date() for t in got["ds"]] == [datetime.date(1604, 1, 1), datetime.date(1604, 2, 1)]
    assert_array_equal(got["SoftBoostRegressor"], modern["SoftBoostRegressor"])
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(softboost.load(tmp_path / "model").predict(), got)


# -- gaps and wrong frequencies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("freq", ["MS", None])
def test_a_gap_is_called_a_gap(freq):
    with pytest.raises(ValueError, match=r"'a' has a gap: .*2021-08-01 \(row 19\) to 2021-10-01 \(row 20\)") as caught:
        forecast(long_frame().drop(index=20), freq)
    assert "gaps='interpolate' or gaps='forward'" in str(caught.value)
    assert "correct freq" not in str(caught.value)
    assert len(forecast(long_frame().drop(index=20), freq, gaps="forward")) == 2


@pytest.mark.parametrize(
    ("freq", "times", "likely"), [("D", MONTHS, "MS"), ("MS", MONTHS[0] + np.arange(N) * pd.Timedelta("1D"), "D")]
)
def test_a_wrong_frequency_is_named_with_the_likely_one(freq, times, likely):
    with pytest.raises(ValueError, match=f"most rows do not follow freq='{freq}'.*look like freq='{likely}'"):
        forecast(long_frame(ds=times), freq)
    with pytest.raises(ValueError, match=r"most rows do not follow freq='1d'.*look like freq='1mo'"):
        forecast(pl.from_pandas(long_frame()), "1d")


def test_a_time_off_the_grid_is_refused_with_and_without_gaps():
    odd = long_frame()
    odd.loc[20, "ds"] += pd.Timedelta(days=3)
    with pytest.raises(ValueError, match=r"'a' has an irregular time: .* to 2021-09-04 \(row 20\)"):
        forecast(odd)
    with pytest.raises(ValueError, match=r"row 20 \(series 'a', ds=2021-09-04\) cannot be reached from the first time"):
        forecast(odd, gaps="forward")


def test_lazy_frames_and_tables_are_refused_by_name():
    with pytest.raises(TypeError, match=r"got LazyFrame; call collect\(\) first"):
        forecast(pl.from_pandas(long_frame()).lazy(), "1mo")
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(TypeError, match="must be a pandas or polars frame, got Table"):
        forecast(pyarrow.Table.from_pandas(long_frame()))
