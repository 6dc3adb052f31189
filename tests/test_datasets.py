"""Loaders read the published files and report missing ones; generators follow their formulas."""

import gzip
import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost import datasets
from softboost.datasets import (
    SOURCES,
    DataUnavailableError,
    find_file,
    load_etth2,
    load_exchange,
    load_m4_quarterly,
    load_weather,
    make_feature_recovery,
    make_synthetic,
)

needs_pooch = pytest.mark.skipif(importlib.util.find_spec("pooch") is None, reason="pooch is not installed")


@pytest.fixture
def real_data():
    """Skip the test if the real files are missing; tests download nothing."""
    for name in SOURCES:
        try:
            find_file(name, download=False)
        except DataUnavailableError as error:
            pytest.skip(str(error))


@pytest.fixture
def folder(tmp_path):
    """Small files in the formats of the real ones; one of them compressed."""
    rates = "\n".join(",".join(f"{10 * day + country}" for country in range(8)) for day in range(3))
    (tmp_path / "exchange_rate.txt.gz").write_bytes(gzip.compress(rates.encode()))
    (tmp_path / "ETTh2.csv").write_text("date,HUFL,OT\n2016-07-01 00:00:00,1,3\n2016-07-01 01:00:00,2,4\n")
    weather = "date,T (degC),SWDR (W/m\xb2)\n2020-01-01 00:10:00,0.5,7\n2020-01-01 00:20:00,0.6,8\n"
    (tmp_path / "weather.csv").write_bytes(weather.encode("latin-1"))
    (tmp_path / "M4-Quarterly-train.csv").write_text('"V1","V2","V3","V4"\n"Q1","1","2","3"\n"Q2","5","6",\n')
    (tmp_path / "M4-Quarterly-test.csv").write_text('"V1","V2","V3"\n"Q1","4","5"\n"Q2","7","8"\n')
    return tmp_path


def test_exchange_is_long_and_in_file_order(folder):
    frame = load_exchange(folder)
    assert list(frame.columns) == ["unique_id", "ds", "y"]
    assert list(frame["unique_id"].unique()) == list(datasets.EXCHANGE_NAMES)
    assert_array_equal(frame.loc[frame["unique_id"] == "Canada", "y"], [2, 12, 22])
    assert_array_equal(frame["ds"], np.tile([0, 1, 2], 8))


def test_dated_files_keep_their_dates_and_names(folder):
    transformer, weather = load_etth2(folder), load_weather(folder)
    assert_array_equal(transformer["y"], [1, 2, 3, 4])
    assert transformer["ds"].iloc[1] == pd.Timestamp("2016-07-01 01:00:00")
    assert list(weather["unique_id"].unique()) == ["T (degC)", "SWDR (W/m\xb2)"]


@pytest.mark.parametrize(
    ("part", "values", "times"),
    [
        ("all", [1, 2, 3, 4, 5, 5, 6, 7, 8], [1, 2, 3, 4, 5, 1, 2, 3, 4]),
        ("train", [1, 2, 3, 5, 6], [1, 2, 3, 1, 2]),
        ("test", [4, 5, 7, 8], [4, 5, 3, 4]),
    ],
)
def test_m4_parts(folder, part, values, times):
    frame = load_m4_quarterly(folder, part)
    assert_array_equal(frame["y"], values)
    assert_array_equal(frame["ds"], times)


def test_m4_part_is_checked(folder):
    with pytest.raises(ValueError, match="part must be 'all', 'train' or 'test', got 'both'"):
        load_m4_quarterly(folder, "both")


def test_folder_of_the_environment_is_used(folder, monkeypatch):
    monkeypatch.setenv("SOFTBOOST_DATA", str(folder))
    assert find_file("ETTh2.csv") == folder / "ETTh2.csv"
    assert find_file("exchange_rate.txt") == folder / "exchange_rate.txt.gz"


def test_named_folder_comes_before_the_environment(folder, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SOFTBOOST_DATA", str(tmp_path_factory.mktemp("empty")))
    assert len(load_exchange(folder)) == 24


@needs_pooch
def test_download_is_checked_and_shows_progress(folder, tmp_path, monkeypatch):
    calls = []

    def retrieve(url, **options):
        calls.append((url, options))
        return str(folder / "exchange_rate.txt.gz")

    monkeypatch.setattr("pooch.retrieve", retrieve)
    assert len(load_exchange(tmp_path / "nothing")) == 24
    ((url, options),) = calls
    source = SOURCES["exchange_rate.txt"]
    assert url == source.url
    assert options["known_hash"] == f"sha256:{source.download_sha256}"
    assert options["progressbar"] is True


@needs_pooch
@pytest.mark.parametrize("error", [ConnectionError("no network"), ValueError("hash of downloaded file does not match")])
def test_failed_download_says_what_to_do(tmp_path, monkeypatch, error):
    def retrieve(url, **options):
        raise error

    monkeypatch.setattr("pooch.retrieve", retrieve)
    with pytest.raises(DataUnavailableError, match=r"weather\.csv is not in .*pass data_dir or set SOFTBOOST_DATA"):
        load_weather(tmp_path)


def test_without_pooch_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataUnavailableError, match=r"pip install 'softboost\[paper\]'"):
        load_etth2(tmp_path)


def test_without_download_nothing_is_fetched(tmp_path):
    with pytest.raises(DataUnavailableError, match="set SOFTBOOST_DATA"):
        find_file("ETTh2.csv", tmp_path, download=False)


def test_changed_file_is_not_original(folder):
    assert not datasets.is_original("ETTh2.csv", folder)


@pytest.mark.parametrize("name", SOURCES)
def test_real_files_are_original(real_data, name):
    assert datasets.is_original(name)


@pytest.mark.parametrize(
    ("load", "n_series", "length"), [(load_exchange, 8, 7588), (load_etth2, 7, 17420), (load_weather, 21, 52696)]
)
def test_real_series_have_their_known_sizes(real_data, load, n_series, length):
    sizes = load().groupby("unique_id").size()
    assert len(sizes) == n_series
    assert (sizes == length).all()


def test_m4_gives_the_published_score_of_the_naive_forecast(real_data):
    train, test = load_m4_quarterly(part="train"), load_m4_quarterly(part="test")
    last = train.groupby("unique_id")["y"].last()
    forecast = last.loc[test["unique_id"]].to_numpy()
    truth = test["y"].to_numpy()
    smape = 200 * np.mean(np.abs(truth - forecast) / (np.abs(truth) + np.abs(forecast)))
    assert_allclose(smape, 11.610, atol=5e-4)


def test_synthetic_keeps_to_its_formula():
    frame, weights = make_synthetic(random_state=0, return_weights=True)
    assert frame.shape == (50 * 196, 3 + 50)
    assert list(frame.columns[3:9]) == [f"relevant_{i}" for i in range(1, 6)] + ["irrelevant_1"]
    assert ((weights[:5] >= 0.5) & (weights[:5] <= 1.5)).all()
    assert (weights[5:] == 0).all()
    noise = frame["y"] - frame.iloc[:, 3:].to_numpy() @ weights
    assert_allclose(noise.std(), 0.1, rtol=0.05)
    assert abs(noise.mean()) < 0.005


def test_feature_recovery_has_the_weights_of_table_1():
    frame, weights = make_feature_recovery(random_state=0, return_weights=True)
    assert_allclose(weights, [0.476, 0.333, 0.190, 0, 0], atol=6e-4)
    found = np.linalg.lstsq(frame.iloc[:, 3:].to_numpy(), frame["y"].to_numpy(), rcond=None)[0]
    assert_allclose(found, weights, atol=0.01)


@pytest.mark.parametrize("make", [make_synthetic, make_feature_recovery])
def test_same_seed_same_numbers(make):
    pd.testing.assert_frame_equal(make(random_state=3), make(random_state=3))
    assert not make(random_state=3).equals(make(random_state=4))


def test_synthetic_checks_the_number_of_columns():
    with pytest.raises(ValueError, match="n_relevant must be between 0 and n_features=3, got 5"):
        make_synthetic(n_features=3)
