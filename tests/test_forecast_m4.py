"""The M4 scores and baselines, and the benchmark's own columns, against plain calculations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost._benchmarks import m4
from softboost._benchmarks.m4_analogues import Analogues
from softboost._benchmarks.m4_own import forecast_own
from softboost._benchmarks.m4_panel import Panel
from softboost._benchmarks.m4_scores import Judge, is_seasonal, naive, naive2, seasonal_factors, seasonal_naive
from softboost.datasets import DataUnavailableError, find_file

SEASON = np.array([0.8, 1.0, 1.3, 0.9])


def quarterly(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return (50 + np.arange(n)) * np.resize(SEASON, n) * np.exp(rng.normal(scale=0.01, size=n))


def test_baselines_repeat_what_they_say():
    y = quarterly()
    assert_array_equal(naive(y), [y[-1]] * 8)
    assert_array_equal(seasonal_naive(y), [*y[-4:], *y[-4:]])
    assert_allclose(naive2(y) / naive2(y)[3], np.resize(SEASON, 8) / SEASON[3], rtol=0.05)
    assert_allclose(naive2(y)[3], y[-1])


def test_season_is_found_only_where_there_is_one():
    assert is_seasonal(quarterly())
    assert not is_seasonal(np.random.default_rng(1).normal(size=40) + 10)
    assert not is_seasonal(np.full(40, 3.0))
    assert_array_equal(seasonal_factors(quarterly(11)), np.ones(11))
    assert_allclose(seasonal_factors(quarterly())[:4].mean(), 1)


def test_scores_are_the_competitions():
    history = [quarterly(seed=i) for i in range(3)]
    actual = np.stack([quarterly(48, seed=i)[40:] for i in range(3)])
    judge = Judge(history, actual)
    forecast = actual * 1.1
    scores = judge.score(forecast, forecast - 20, forecast + 20)
    assert_allclose(scores.smape, 200 * 0.1 / 2.1)
    scale = [np.abs(y[4:] - y[:-4]).mean() for y in history]
    assert_allclose(scores.mase, np.mean(0.1 * actual / np.array(scale)[:, None]))
    assert scores.coverage == 1.0
    assert_allclose(scores.msis, np.mean(40 / np.array(scale)))
    assert_allclose(judge.score(np.stack([naive2(y) for y in history])).owa, 1)
    missed = judge.score(actual, actual + 1, actual + 2)
    assert missed.coverage == 0
    assert_allclose(missed.msis, np.mean((1 + 40) / np.array(scale)))


def test_a_series_that_never_moved_counts_in_smape_alone():
    history, actual = [np.full(20, 3.0), quarterly()], np.stack([np.full(8, 4.0), quarterly(48)[40:]])
    scores = Judge(history, actual).score(np.stack([np.full(8, 3.0), actual[1]]))
    assert_allclose(scores.smape, 100 / 7)
    assert_allclose(scores.mase, 0)


def test_origins_know_only_their_past():
    """Nothing known at an origin changes with what comes after it, nor with another series."""
    series = [quarterly(60), quarterly(45, seed=1), quarterly(9, seed=2)]
    changed = [y.copy() for y in series]
    changed[0][-12:] *= np.linspace(2, 9, 12)
    before, after = Panel(series), Panel(changed)
    for name in ("columns", "base", "unit", "last", "n_known"):
        assert_array_equal(getattr(before.at(12), name), getattr(after.at(12), name))
        assert_array_equal(getattr(before.at(0), name)[1:], getattr(after.at(0), name)[1:])
    assert not np.array_equal(before.at(11).base[0], after.at(11).base[0])


def test_targets_follow_the_origin():
    panel = Panel([quarterly(30), quarterly(25, seed=1)])
    assert_allclose(panel.actual(10), np.log([quarterly(30)[20:28], quarterly(25, seed=1)[15:23]]))
    assert np.isnan(panel.actual(3)[:, 3:]).all()
    assert np.isfinite(panel.actual(3)[:, :3]).all()
    assert_allclose(panel.at(10).last, panel.actual(11)[:, 0])


def test_first_forecasts_follow_season_and_trend():
    y = 50 * np.exp(0.02 * np.arange(48)) * np.resize(SEASON, 48)
    origin = Panel([y[:40]]).at(0)
    assert np.abs(np.exp(origin.base[0]) - y[40:]).mean() < 0.75 * np.abs(naive2(y[:40]) - y[40:]).mean()
    assert_allclose(np.diff(origin.base[0]), np.diff(np.log(y[40:])), atol=0.02)


def test_no_season_is_put_into_noise():
    y = np.exp(np.random.default_rng(0).normal(scale=0.1, size=(50, 60)))
    swing = np.ptp(Panel(list(y)).at(0).base, axis=1)
    assert np.median(swing) < 0.05


def test_level_and_unit_of_measure_do_not_matter():
    y = quarterly(40)
    origin, scaled = Panel([y]).at(0), Panel([1000 * y]).at(0)
    assert_allclose(scaled.base - np.log(1000), origin.base)
    assert_allclose(scaled.unit, origin.unit)


def copied(n_series=12, shift=20):
    """Series of pure noise in their changes, the last of which repeats the first in other units and ends earlier."""
    rng = np.random.default_rng(3)
    series = [np.exp(np.cumsum(rng.normal(scale=0.05, size=80))) for _ in range(n_series)]
    return [*series, 7.0 * series[0][:-shift]]


def test_an_analogue_is_found_and_tells_what_came_next():
    series = copied()
    analogues = Analogues(Panel(series).z)
    distance, after = analogues.at(0)
    assert distance[-1] < 1e-6
    assert_allclose(after[-1], np.log(series[0][60:68] / series[0][59]), atol=1e-9)
    assert np.isnan(distance[:-1]).all()


def test_no_analogue_from_the_future_of_the_origin():
    """At an origin 20 before the end, what follows an analogue must end 20 before its own series' end."""
    series = copied(shift=20)
    analogues = Analogues(Panel(series).z)
    assert analogues.at(12)[0][-1] < 1e-6  # 20 + 12 before the end of the first series: 8 more lie before its last 12
    assert np.isnan(Analogues(Panel([*series[:-1], series[-1][:-12]]).z).at(40)[0][-1])
    own = Analogues(Panel([np.tile(series[0][:20], 4), *series[1:-1]]).z).at(0)[0]
    assert np.isnan(own[0])  # a series is no analogue of itself


def test_own_forecasts_learn_and_their_bounds_hold():
    """On series with a common pattern that smoothing does not see, the model is better than what it corrects."""
    rng = np.random.default_rng(0)
    time = np.arange(88)
    series = [
        np.exp(4 + 0.3 * np.sin(2 * np.pi * (time + rng.integers(14)) / 14) + rng.normal(scale=0.01, size=88))
        for _ in range(100)
    ]
    history, actual = [y[:-8] for y in series], np.stack([y[-8:] for y in series])
    judge = Judge(history, actual)
    forecast, low, high = forecast_own(history, n_rounds=50)
    scores, base = judge.score(forecast, low, high), judge.score(np.exp(Panel(history).at(0).base))
    assert scores.owa < 0.5 * base.owa
    assert scores.coverage > 0.9
    assert (low < high).all()
    few = [forecast_own(history, n_rounds=3) for _ in range(2)]
    assert_array_equal(few[0], few[1])


def test_analogues_help_where_series_are_copies():
    series = copied(n_series=60)
    history, actual = [y[:-8] for y in series[:-1]], np.stack([y[-8:] for y in series[:-1]])
    history += [y[:-20] * 3 for y in series[:30]]  # end 12 before the originals do
    actual = np.concatenate([actual, 3 * np.stack([y[-20:-12] for y in series[:30]])])
    judge = Judge(history, actual)
    without, with_them = (judge.score(forecast_own(history, analogues=a, n_rounds=10)[0]).owa for a in (False, True))
    assert with_them < 0.85 * without


def test_held_back_values_are_the_last_of_training():
    lengths = (20, 31)
    y = np.concatenate([np.arange(1, n + 1) for n in lengths])
    frame = pd.DataFrame({"unique_id": np.repeat([0, 1], lengths), "ds": y, "y": y.astype(float)})
    train, actual = m4.hold_back(frame)
    assert_array_equal(actual, [np.arange(13, 21), np.arange(24, 32)])
    assert_array_equal(train.groupby("unique_id").size(), [12, 23])


def test_published_baselines_are_reproduced():
    try:
        find_file("M4-Quarterly-train.csv", download=False)
    except DataUnavailableError:
        pytest.skip("the M4 files are not here; name their folder in SOFTBOOST_DATA")
    table = m4.run([], None).set_index("model")
    for name, (smape, mase) in m4.PUBLISHED.items():
        assert (round(table.loc[name, "smape"], 3), round(table.loc[name, "mase"], 3)) == (smape, mase)
