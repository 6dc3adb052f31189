"""Dates and times as columns: every library, zones, parts of the calendar, files."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import helpers
from softboost import SoftBoostRegressor
from softboost._data.dates import WEEKDAYS, calendar_columns, calendar_parts
from softboost._data.reading import read_frame
from softboost._file.container import dumps, loads

TIMES = [dt.datetime(2021, 1, 1, 6) + dt.timedelta(days=5 * i, hours=7 * i) for i in range(90)]
YEAR = ["time of year (sine)", "time of year (cosine)"]
CLOCK = ["time of day (sine)", "time of day (cosine)"]
KINDS = {
    "pandas": lambda times: pd.DataFrame({"t": pd.Series(times, dtype="datetime64[ns]")}),
    "pandas seconds": lambda times: pd.DataFrame({"t": pd.Series(times, dtype="datetime64[s]")}),
    "pandas arrow": lambda times: pd.DataFrame({"t": pd.Series(times, dtype="timestamp[us][pyarrow]")}),
    "pandas objects": lambda times: pd.DataFrame({"t": pd.Series(times, dtype=object)}),
    "polars": lambda times: pl.DataFrame({"t": times}),
    "polars milliseconds": lambda times: pl.DataFrame({"t": pl.Series(times, dtype=pl.Datetime("ms"))}),
}


def days(clock):
    return np.array([(t - dt.datetime(1970, 1, 1)).total_seconds() / 86400 for t in clock])


@pytest.mark.parametrize("kind", KINDS)
def test_dates_of_every_library_are_alike(kind):
    matrix, others = read_frame(KINDS[kind]([*TIMES, None]), "auto")
    assert_allclose(matrix[:-1, 0], days(TIMES), rtol=1e-12)
    assert_allclose(others[0][:-1], days(TIMES), rtol=1e-12)
    assert np.isnan(matrix[-1, 0])
    assert np.isnan(others[0][-1])


@pytest.mark.parametrize("library", ["pandas", "polars", "objects"])
def test_zones_have_their_own_calendar_and_elapse_as_in_utc(library):
    times = pd.to_datetime(["2024-07-01 00:30", "2024-01-01 00:30"]).tz_localize("Europe/Paris")
    frame = {
        "pandas": lambda: pd.DataFrame({"t": times}),
        "polars": lambda: pl.from_pandas(pd.DataFrame({"t": times})),
        "objects": lambda: pd.DataFrame({"t": pd.Series(times.to_pydatetime().tolist(), dtype=object)}),
    }[library]()
    matrix, others = read_frame(frame, "auto")
    assert_allclose((others[0] - matrix[:, 0]) * 24, [2.0, 1.0], atol=1e-6)
    assert_allclose(others[0] % 1 * 24, 0.5, atol=1e-6)


def test_dates_times_of_day_durations_and_periods():
    day, clock, step = dt.date(1969, 12, 31), dt.time(18, 0), dt.timedelta(hours=36)
    polars = pl.DataFrame({"day": [day], "clock": [clock], "step": [step]})
    objects = pd.DataFrame({"day": [day], "clock": [clock], "step": pd.Series([step], dtype=object)})
    for frame in (
        polars,
        objects,
        pd.DataFrame({"day": [pd.Period("1969-12-31", "D")], "clock": [clock], "step": [step]}),
    ):
        matrix, others = read_frame(frame, "auto")
        assert_allclose(matrix, [[-1.0, 0.75, 1.5]])
        assert list(others) == [0, 1]


def test_parts_of_the_calendar_vary_in_the_training_rows():
    daily = np.arange(18000.0, 18400.0)
    assert calendar_parts(daily, None) == [*YEAR, *WEEKDAYS]
    assert calendar_parts(daily[:100], None) == list(WEEKDAYS)
    assert calendar_parts(daily[:5], None) == []
    assert calendar_parts(18000 + np.arange(48) / 24, None) == CLOCK
    months = pd.date_range("2020-01-01", periods=30, freq="MS")
    ends = pd.date_range("2020-01-31", periods=30, freq="ME")
    for first in (months, ends):
        assert calendar_parts(days(first.to_pydatetime()), None) == YEAR
    assert calendar_parts(np.full(10, np.nan), None) == []
    weekdays = np.array([0.0, 7.0, 4.0, 11.0, 5.0])  # Thursdays, Mondays, and a Tuesday once
    assert calendar_parts(weekdays, None) == ["Monday", "Thursday"]
    assert calendar_parts(weekdays, np.array([1.0, 1.0, 1.0, 1.0, 2.0])) == ["Monday", "Tuesday", "Thursday"]


def test_columns_of_the_calendar():
    clock = np.array([days([dt.datetime(2024, 2, 5, 6)])[0], np.nan])
    columns = calendar_columns(clock, [*YEAR, "Monday", "Sunday", *CLOCK], np.float64)
    assert_allclose(columns[0, 2:], [1.0, 0.0, 1.0, 0.0], atol=1e-9)
    assert_allclose(columns[0, :2] @ columns[0, :2], 1.0)
    assert_array_equal(np.isnan(columns[1]), [True, True, False, False, True, True])


def seasonal(n=150):
    rng = np.random.default_rng(0)
    t = pd.date_range("2022-01-01", periods=n, freq="4D")
    y = np.sin(2 * np.pi * t.dayofyear / 365.25) + 0.8 * (t.weekday >= 5) + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"t": t, "x": rng.normal(size=n)}), y.to_numpy()


def test_seasons_and_weekends_are_learned():
    frame, y = seasonal()
    model = SoftBoostRegressor().fit(frame, y)
    assert model.score(frame, y) > 0.8
    assert model.feature_importances_[0] > 0.7
    assert_array_equal(model.predict(pl.from_pandas(frame)), model.predict(frame))
    gap = frame.assign(t=frame["t"].where(frame.index > 5))
    assert np.isfinite(model.predict(gap)).all()


def test_files_updates_and_refusals():
    frame, y = seasonal()
    model = helpers.plain().fit(frame[:120], y[:120])
    again = loads(dumps(model))
    assert again.columns_.dates == model.columns_.dates == {0: [*YEAR, *WEEKDAYS]}
    assert_array_equal(again.predict(frame), model.predict(frame))
    again.partial_fit(frame[120:], y[120:])
    assert np.isfinite(again.predict(frame)).all()
    with pytest.raises(ValueError, match=r"'t' \(a date in fit, now .*\)"):
        model.predict(frame.assign(t="2024-01-01"))
    with pytest.raises(ValueError, match=r"columns \[0\] of X were dates in fit; pass a data frame"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"to_onnx: the model has date columns \['t'\]"):
        model.to_onnx("unused.onnx")
