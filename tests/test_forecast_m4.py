"""The M4 scores and baselines, and the benchmark's own columns, against plain calculations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost._benchmarks import m4
from softboost._benchmarks.m4_own import Origins
from softboost._benchmarks.m4_scores import Judge, is_seasonal, naive, naive2, seasonal_factors, seasonal_naive
from softboost.datasets import find_file

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


def test_origins_know_only_their_past():
    """Columns and units of an origin do not change with what comes after it; targets are in its units."""
    y = np.concatenate([quarterly(30), quarterly(25, seed=1)])
    starts = np.array([0, 30, 55])
    origins = Origins(y, starts)
    changed = y.copy()
    changed[20:30] *= 7
    other = Origins(changed, starts)
    assert_array_equal(origins.columns[:20], other.columns[:20])
    assert_array_equal(origins.columns[30:], other.columns[30:])
    assert_allclose(origins.targets(np.array([10]), 2)[0], np.log(y[11:13] / y[10]) / origins.unit[10])
    assert_array_equal(origins.rows(8), [21, 46])


def test_published_baselines_are_reproduced():
    try:
        find_file("M4-Quarterly-train.csv", download=False)
    except FileNotFoundError:
        pytest.skip("the M4 files are not here; name their folder in SOFTBOOST_DATA")
    table = m4.run([], None).set_index("model")
    for name, (smape, mase) in m4.PUBLISHED.items():
        assert (round(table.loc[name, "smape"], 3), round(table.loc[name, "mase"], 3)) == (smape, mase)
