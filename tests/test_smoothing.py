"""The smoothing bank against a naive twin, and what it promises: any length, gaps, one pass, one answer."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reference import autoregression, smoothing_filters, smoothing_season
from softboost import _kernels


def bank(series, seasons, h, *, first=0, n_origins=1, stride=None, n_evidence=0, columns=False, n_threads=1):
    indptr = np.concatenate([[0], np.cumsum([len(y) for y in series])])
    stride = max(1, h // 4) if stride is None else stride
    starts = np.full(len(series), first)
    y = np.concatenate(series).astype(float)
    return _kernels.smoothing_bank(y, indptr, seasons, h, starts, n_origins, stride, n_evidence, columns, n_threads)


def seasonal(n, m, seed=0, trend=0.01, noise=0.05):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    return np.exp(3 + trend * t + 0.3 * np.sin(2 * np.pi * t / m) + noise * rng.normal(size=n))


@pytest.mark.parametrize("n", [3, 4, 7, 20, 59, 60, 61, 150])
@pytest.mark.parametrize("h", [1, 6, 18])
def test_filters_agree_with_the_naive_twin(n, h):
    y = -seasonal(n, 5, seed=n)  # negative values: levels are the only scale
    scale = np.abs(y[-(200 + h + 1) :]).mean()
    smoothed = smoothing_filters(y / scale, h)
    lagged = autoregression(y / scale, h, 1, [1, 2, 3, 4, 5, 6], penalty=20, centre=0.8)
    # without evidence both have the same weight; of too few values the autoregression is the smoother
    expected = scale * (smoothed + (smoothed if lagged is None else lagged)) / 2
    assert_allclose(bank([y], [], h)[0][0, 0], expected, rtol=1e-9)


@pytest.mark.parametrize(("n", "m"), [(60, 4), (61, 5), (90, 12), (13, 4)])
def test_seasons_lags_and_logarithms_agree_with_the_naive_twin(n, m):
    y, h = seasonal(n, m), 6
    scale = y.mean()
    views = []
    for z, back in ((y / scale, lambda v: v), (np.log(y / scale), np.exp)):
        season = smoothing_season(z, m)
        for figure in (np.zeros(m), season):
            adjusted = z - np.resize(figure, n)
            ahead = np.resize(np.roll(figure, -(n % m)), h)
            views.append(scale * back(smoothing_filters(adjusted, h) + ahead))
        lags = range(1, m + 2)
        views += [scale * back(autoregression(z, h, step, lags)) for step in (1, m)]
    # without evidence logarithms count twice as much as levels
    weights = np.array([1, 1, 1, 1, 2, 2, 2, 2]) / 12
    forecast, _, logs, found, _ = bank([y], [m], h)
    assert logs[0, 0] == 1
    assert_allclose(found[0, 0], weights)
    assert_allclose(forecast[0, 0], weights @ np.array(views), rtol=1e-8)


def test_autoregression_of_two_seasons_agrees_with_the_naive_twin():
    """Lags are those of the short season and three around the long one; of the rest, the views tell them apart."""
    rng = np.random.default_rng(0)
    t = np.arange(140)
    y = -5 - np.sin(2 * np.pi * t / 4) - 0.5 * np.sin(2 * np.pi * t / 35) + 0.1 * rng.normal(size=len(t))
    scale, h, lags = np.abs(y).mean(), 7, [1, 2, 3, 4, 5, 34, 35, 36]
    smoothed = [scale * (smoothing_filters(y / scale - np.resize(figure, len(y)), h) + np.resize(ahead, h))
                for m in (1, 4, 35)
                for figure in [smoothing_season(y / scale, m) if m > 1 else np.zeros(1)]
                for ahead in [np.roll(figure, -(len(y) % m))]]  # fmt: skip
    lagged = [scale * autoregression(y / scale, h, step, lags) for step in (1, 4, 35)]
    assert_allclose(bank([y], [35, 4], h)[0][0, 0], np.mean(smoothed + lagged, axis=0), rtol=1e-8)


def test_autoregression_follows_alternating_series():
    shares, errors = [], []
    for seed in range(4):
        noise = np.random.default_rng(seed).normal(size=121)
        x = np.zeros(121)
        for i in range(1, len(x)):
            x[i] = -0.8 * x[i - 1] + noise[i]
        forecast, _, _, views, _ = bank([x[:-1]], [], 4, n_evidence=10)
        errors.append(np.abs([forecast[0, 0, 0] - x[-1], x[-2] - x[-1]]))
        shares.append(views[0, 0, 1])  # of the autoregression of levels
    assert np.mean(shares) > 0.5
    mine, naive = np.mean(errors, axis=0)
    assert mine < 0.7 * naive


def test_all_origins_of_one_pass_are_forecasts_from_what_was_known_there():
    y, h = seasonal(120, 12), 8
    forecast, unit, _, views, columns = bank([y], [12], h, n_origins=6, n_evidence=5, columns=True)
    for o in range(6):
        cut = y[: len(y) - 2 * o]
        alone = bank([cut], [12], h, n_evidence=5, columns=True)
        assert_allclose(alone[0][0, 0], forecast[0, o], rtol=1e-9)
        assert_allclose(alone[3][0, 0], views[0, o], rtol=1e-7)
        assert_allclose(alone[1][0, 0], unit[0, o], rtol=1e-9)
        assert_allclose(alone[4][0, 0], columns[0, o], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_any_length_has_an_answer(n):
    forecast = bank([np.arange(1.0, n + 1)], [12], 4, n_evidence=10)[0]
    assert np.isfinite(forecast).all()
    assert np.all(np.abs(forecast - n) <= 2 * n)


def test_series_without_a_value_has_none():
    forecast = bank([np.full(5, np.nan), np.ones(5)], [], 2, n_evidence=3)[0]
    assert np.isnan(forecast[0]).all()
    assert_allclose(forecast[1, 0], [1, 1], rtol=1e-15)


def test_missing_values_are_skipped():
    y = seasonal(100, 12, noise=0.01)
    gaps = y.copy()
    gaps[[20, 21, 50, 77, 98, 99]] = np.nan
    whole, holed = (bank([v], [12], 6, n_evidence=10)[0][0, 0] for v in (y, gaps))
    assert np.isfinite(holed).all()
    assert_allclose(holed, whole, rtol=0.1)
    leading = np.concatenate([np.full(7, np.nan), y])
    assert_allclose(bank([leading], [], 6, n_evidence=10)[0], bank([y], [], 6, n_evidence=10)[0], rtol=1e-12)


def test_units_of_measurement_do_not_matter():
    y = seasonal(80, 4)
    one, thousand = (bank([v], [4], 8, n_evidence=10)[0] for v in (y, 1000 * y))
    assert_allclose(thousand, 1000 * one, rtol=1e-9)


def test_forecasts_do_not_run_away_from_a_change_of_the_level():
    """Logarithms continue a rise of 100 times; a series that always grows goes on to grow."""
    for seed in range(4):
        y = np.r_[np.full(57, 10.0), np.full(3, 1000.0)] + np.random.default_rng(seed).normal(size=60)
        assert bank([y], [12], 18, n_evidence=10)[0].max() < 2.5 * y.max()
    faded = np.abs(np.linspace(60, 0, 60) + np.random.default_rng(94).normal(size=60)) + 1e-3
    assert bank([faded], [12], 18, n_evidence=10)[0].max() < 1.5 * faded.max()
    growing = 1.1 ** np.arange(60.0)
    assert_allclose(bank([growing], [], 18, n_evidence=10)[0][0, 0], 1.1 ** np.arange(60.0, 78.0), rtol=0.1)


@pytest.mark.parametrize(("seasons", "cycle"), [([], 1), ([12], 12), ([7, 200], 200), ([7, 201], 7), ([201], 1)])
def test_the_unit_is_the_mean_change_over_a_step_and_over_a_season_that_a_window_holds(seasons, cycle):
    y = np.random.default_rng(0).normal(size=500).cumsum()  # negative values: no logarithms
    seen = y[-(max(200, 6 * max(seasons, default=1) + 4 + 40) + 2 + 1) :]  # with the origin that is asked for
    per_step = np.abs(np.diff(seen[-60:])).mean()
    unit = bank([y], seasons, 2)[1][0, 0]
    if cycle == 1:
        assert_allclose(unit, (per_step + np.abs(np.diff(seen)).mean()) / 2, rtol=0.15)
    else:
        # steps are those of the adjusted series
        assert_allclose(unit, (per_step + np.abs(seen[cycle:] - seen[:-cycle]).mean()) / 2, rtol=0.15)


def test_the_unit_of_days_does_not_jump_when_the_first_year_is_complete():
    y = 100 * np.exp(0.01 * np.random.default_rng(1).normal(size=400).cumsum())
    before, after = (bank([y[:n]], [7, 365], 14)[1][0, 0] for n in (364, 400))
    assert_allclose(after, before, rtol=0.1)


def test_threads_and_neighbours_change_no_bit():
    series = [seasonal(n, 4, seed=n) for n in (5, 40, 80, 33, 61) * 8]
    once = bank(series, [4], 8, n_origins=3, n_evidence=10, columns=True)
    for threads in (2, 5):
        for a, b in zip(
            once, bank(series, [4], 8, n_origins=3, n_evidence=10, columns=True, n_threads=threads), strict=True
        ):
            assert_array_equal(a, b)
    alone = bank(series[2:3], [4], 8, n_origins=3, n_evidence=10, columns=True)
    assert_array_equal(alone[0][0], once[0][2])


@pytest.mark.parametrize("isa", _kernels.instruction_sets())
def test_instruction_sets_agree(isa):
    y, before = seasonal(90, 12), _kernels.instruction_set()
    expected = bank([y], [12], 12, n_evidence=10)[0]
    try:
        _kernels.use_instruction_set(isa)
        assert_allclose(bank([y], [12], 12, n_evidence=10)[0], expected, rtol=1e-9)
    finally:
        _kernels.use_instruction_set(before)


def test_changes_stay_within_what_was_seen():
    y = np.concatenate([np.full(40, 10.0), 10 + np.array([1.0, 2.0, 4.0, 8.0, 16.0])])
    forecast = bank([y], [], 24, n_evidence=10)[0][0, 0]
    assert np.all(np.diff(forecast) >= -1e-9)
    assert forecast[-1] <= 26 + 1.5 * 16 * 26 / 10  # on the scale of logarithms the change counts as a factor
    falling = bank([y[::-1]], [], 24, n_evidence=10)[0][0, 0]
    assert np.all(falling > 0)


def test_seasons_are_found_where_they_are():
    t = np.arange(168 * 5)
    rng = np.random.default_rng(0)
    week = 10 + (t // 24 % 7 >= 5) * 4.0 + np.sin(2 * np.pi * t / 24) + 0.1 * rng.normal(size=len(t))
    forecast, *_ = bank([week], [24, 168], 48, n_evidence=10)
    ahead = np.arange(len(t), len(t) + 48)
    truth = 10 + (ahead // 24 % 7 >= 5) * 4.0 + np.sin(2 * np.pi * ahead / 24)
    assert np.abs(forecast[0, 0] - truth).mean() < 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h": 0}, "h must be positive"),
        ({"seasons": [1]}, "seasons must be positive"),
        ({"n_origins": 0}, "n_origins must be positive"),
        ({"first": -1}, "must not be negative"),
    ],
)
def test_bad_settings_are_refused(change, message):
    settings = {"seasons": [4], "h": 2, **change}
    with pytest.raises(ValueError, match=message):
        bank([np.ones(9)], **settings)
