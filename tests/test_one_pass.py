"""Fit and forecast in one pass: the bits of fit and predict whatever the parts, and no series stops the others."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

from softboost.forecast import Differences, Forecaster, _one_pass, _sample
from softboost.forecast._frame import keys_of
from softboost.forecast._frame_forms import Names
from test_combination import frame, walks

ALONE = {"model": Ridge(), "lags": [1, 2], "target_transforms": [Differences([1])]}
SETTINGS = {
    "combination": {"candidates": ["smoothing", "correction"]},
    "pooled candidate": {"candidates": ["smoothing", "global"], "model": Ridge(), "lags": [1, 2, 3]},
    "local": {**ALONE, "scope": "local"},
    "direct": {**ALONE, "scope": "local", "strategy": "direct"},
    "global": {**ALONE, "scope": "global"},
}


def mixed(n_series=14):
    """Series of different lengths and signs, in no order."""
    rng = np.random.default_rng(1)
    long = [y.to_numpy() for _, y in walks(n_series, 60)["y"].groupby(walks(n_series, 60)["unique_id"])]
    parts = [y[: int(rng.integers(20, 60))] - (20 if i % 3 == 0 else 0) for i, y in enumerate(long)]
    return frame([*parts, np.array([5.0, 6.0, 5.5])]).sample(frac=1, random_state=0)


@pytest.mark.parametrize("name", SETTINGS)
def test_one_pass_gives_the_bits_of_fit_and_predict_whatever_the_parts(name, monkeypatch):
    df = mixed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the short series
        expected = Forecaster("MS", 4, **SETTINGS[name]).fit(df).predict(level=[80, 95])
    got = Forecaster("MS", **SETTINGS[name]).forecast(df, 4, [80, 95])
    pd.testing.assert_frame_equal(got, expected, check_exact=True)
    learn = _one_pass.choose_and_learn
    monkeypatch.setattr(_one_pass, "choose_and_learn", lambda *args: (learn(*args)[0], None))  # as of a larger panel
    monkeypatch.setattr(_one_pass, "ROWS_PER_PART", 100)
    in_parts = Forecaster("MS", **SETTINGS[name]).forecast(df, 4, [80, 95])
    pd.testing.assert_frame_equal(in_parts, expected, check_exact=True)


def test_only_a_sample_is_learned_from_and_the_ids_alone_decide_it(monkeypatch):
    monkeypatch.setattr(_one_pass, "MOST_SERIES", 6)
    learned, learn = [], _one_pass.choose_and_learn
    monkeypatch.setattr(_one_pass, "choose_and_learn", lambda *args: learned.append(args[1].id_list()) or learn(*args))
    df = mixed()
    model = Forecaster("MS", 4, **SETTINGS["combination"])
    first = model.forecast(df, level=[80])
    monkeypatch.setattr(_one_pass, "ROWS_PER_PART", 50)
    second = model.forecast(df.iloc[::-1], level=[80])
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    other = Forecaster("1mo", 4, **SETTINGS["combination"]).forecast(pl.from_pandas(df), level=[80])
    assert isinstance(other, pl.DataFrame)
    assert_array_equal(other["SoftBoostRegressor-hi-80"], first["SoftBoostRegressor-hi-80"])
    ids = sorted(df["unique_id"].unique())
    expected = sorted(np.array(ids)[np.argsort(keys_of(ids))[:6]])
    assert learned == [expected] * 3


def test_sketches_of_parts_find_the_sample_of_the_whole():
    df, names = mixed(30), Names()
    whole = _sample.largest_key(_sample.sketch(df, names, 10**6), 7)
    parts = pd.concat([_sample.sketch(df.iloc[i::5], names, 7) for i in range(5)])
    assert _sample.largest_key(parts, 7) == whole
    assert parts.loc[parts["key"] < 0, "n_rows"].sum() == len(df)
    assert _sample.rows_up_to(df, names, whole)["unique_id"].nunique() == 7


def test_the_rows_of_the_sample_are_bounded(monkeypatch):
    monkeypatch.setattr(_sample, "MOST_ROWS", 100)
    df, names = mixed(30), Names()
    largest = _sample.largest_key(_sample.sketch(df, names, 1000), 1000)
    assert len(_sample.rows_up_to(df, names, largest)) <= 100


def poison(df):
    months = pd.date_range("2015-01-01", periods=20, freq="MS")
    bad = {"nan": np.full(20, np.nan), "inf": np.where(np.arange(20) == 7, np.inf, 1.0)}
    parts = [pd.DataFrame({"unique_id": name, "ds": months, "y": y}) for name, y in bad.items()]
    one = pd.DataFrame({"unique_id": "one", "ds": months[:1], "y": 3.0})
    gap = pd.DataFrame({"unique_id": "gap", "ds": months[[0, 1, 5]], "y": 3.0})
    twice = pd.DataFrame({"unique_id": "twice", "ds": months[[0, 1, 1]], "y": 3.0})
    return pd.concat([df, *parts, one, gap, twice], ignore_index=True)


@pytest.mark.parametrize("rows_per_part", [50, 10**6])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas])
def test_a_poisoned_series_costs_a_flag_and_not_the_job(library, rows_per_part, monkeypatch):
    monkeypatch.setattr(_one_pass, "ROWS_PER_PART", rows_per_part)
    df = mixed()
    settings = {**SETTINGS["local"], "freq": "MS" if library is pd.DataFrame else "1mo", "h": 2}
    with pytest.warns(UserWarning, match="5 of 20 series have no forecast"):
        got = Forecaster(**settings).forecast(library(poison(df)), level=[80], flags=True)
    got = pd.DataFrame(got.to_dict(as_series=False)) if isinstance(got, pl.DataFrame) else got
    flag = got.groupby("unique_id")["flag"].first()
    assert {name for name, text in flag.items() if text} == {"nan", "inf", "one", "gap", "twice"}
    assert "inf" in flag["inf"]
    assert "has a gap" in flag["gap"]
    broken = got["unique_id"].isin(["nan", "inf", "gap", "twice"])
    assert got.loc[broken, "Ridge"].isna().all()
    assert (got.loc[got["unique_id"] == "one", "Ridge"] == 3).all()
    fine = got[~got["unique_id"].isin(["nan", "inf", "one", "gap", "twice"])].drop(columns="flag")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Forecaster(**{**settings, "freq": "MS"}).forecast(df)
    assert_array_equal(fine["Ridge"], expected["Ridge"])
    assert fine["unique_id"].tolist() == expected["unique_id"].tolist()


def test_gaps_that_are_accepted_leave_a_series_without_values_alone():
    df = mixed()
    nothing = pd.DataFrame({"unique_id": "nan", "ds": pd.date_range("2015-01-01", periods=20, freq="MS"), "y": np.nan})
    model = Forecaster("MS", 2, candidates=["smoothing", "correction"], gaps="interpolate")
    with pytest.warns(UserWarning, match="'nan' has 0 known values"):
        got = model.forecast(pd.concat([df, nothing]), level=[80])
    fine = got[got["unique_id"] != "nan"]
    assert got.loc[got["unique_id"] == "nan", "SoftBoostRegressor"].isna().all()
    assert np.isfinite(fine.drop(columns=["unique_id", "ds"]).to_numpy()).all()


def test_a_panel_that_nobody_can_read_is_refused_with_the_reason():
    df = mixed()
    with pytest.raises(ValueError, match="most rows do not follow freq='W'"):
        Forecaster("W", 2).forecast(df)
    with pytest.raises(ValueError, match="is inf"):
        Forecaster("MS", 2).forecast(df[df["unique_id"] == "s1"].assign(y=np.inf))
    with pytest.raises(ValueError, match=r"df has no column \['y'\]"):
        Forecaster("MS", 2).forecast(df.rename(columns={"y": "target"}))
    with pytest.raises(ValueError, match="flags"):
        Forecaster("MS", 2).forecast(df, flags="yes")


def test_a_forecaster_already_fitted_stays_as_it_is():
    df = walks(3, 30)
    model = Forecaster("MS", 2, candidates=["smoothing"]).fit(df)
    before = model.predict()
    model.forecast(walks(4, 40, seed=1), h=5)
    pd.testing.assert_frame_equal(model.predict(), before)
    assert model.h == 2
