"""The frequency of times: one rule for frames and files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

from softboost.forecast import Forecaster
from softboost.forecast._frame import infer_freq
from softboost.forecast._frame_forms import Names
from softboost.forecast._frequency import guess_frequency

FREQUENCIES = ["h", "D", "B", "W-MON", "MS", "ME", "QS-JAN", "YS-JAN"]


def frame_of(times, series="a"):
    return pd.DataFrame({"unique_id": series, "ds": times, "y": np.arange(float(len(times)))})


@pytest.mark.parametrize("freq", FREQUENCIES)
@pytest.mark.parametrize("n_rows", [8, 16, 40, 200])
def test_regular_times_go_on_by_their_own_frequency(freq, n_rows):
    times = pd.date_range("2020-01-01", periods=n_rows + 10, freq=freq)
    guess = guess_frequency(times[:n_rows])
    assert_array_equal(pd.date_range(times[0], periods=n_rows + 10, freq=guess), times)


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_a_gap_does_not_matter(freq):
    times = pd.date_range("2020-01-01", periods=40, freq=freq).delete(7)
    offset = pd.tseries.frequencies.to_offset(guess_frequency(times))
    assert times[20] + offset == times[21]


@pytest.mark.parametrize(
    ("times", "freq"),
    [
        (["2020-01-01", "2020-02-01"], "MS"),
        (["2020-02-29", "2020-03-31"], "ME"),
        (["2020-02-01", "2020-05-01"], "QS-FEB"),
        (["2020-03-31", "2021-03-31"], "YE-MAR"),
        (["2020-01-01", "2020-03-01"], "2MS"),
        (["2020-01-05", "2020-01-13"], "8D"),
        (["2020-01-01 00:00", "2020-01-01 06:00"], "6h"),
    ],
)
def test_two_rows_are_enough(times, freq):
    times = pd.to_datetime(times)
    assert guess_frequency(times) == freq
    assert times[0] + pd.tseries.frequencies.to_offset(freq) == times[1]


def test_whole_numbers_take_their_commonest_step():
    assert guess_frequency(np.array([1, 3, 5, 9])) == 2
    assert guess_frequency(np.array([4])) == 1


def test_time_zones_do_not_matter():
    times = pd.date_range("2024-03-25", periods=20, freq="D", tz="Europe/Berlin")  # over a change of the clock
    assert infer_freq(frame_of(times), Names()) == "D"


def test_the_longest_series_decides():
    short, long = pd.to_datetime(["2020-01-01"]), pd.date_range("2020-01-31", periods=12, freq="ME")
    df = pd.concat([frame_of(short, "a"), frame_of(long, "b")], ignore_index=True)
    assert infer_freq(df, Names()) == "ME"
    assert infer_freq(pl.from_pandas(df), Names()) == "1mo"


def test_forecaster_without_a_frequency_fills_gaps():
    times = pd.date_range("2020-01-01", periods=43, freq="W-MON")
    df = frame_of(times[:40].delete([5, 20]))
    forecaster = Forecaster(None, 3, Ridge(), lags=[1], target_transforms=None, gaps="interpolate").fit(df)
    assert_array_equal(forecaster.predict()["ds"], times[40:])
