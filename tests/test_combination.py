"""The default forecaster: candidates judged at past origins, combined by evidence, and what they promise together."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

import softboost
from softboost.forecast import Forecaster, Log
from softboost.forecast._evidence import Judged, climb, correlation_of, own_weights, relative_error
from softboost.forecast._intervals import Pools, _latest_known, _OwnScales, check_levels, pool_errors
from softboost.forecast._origins import Origins
from softboost.forecast._panel import Panel
from softboost.forecast._smoothing import Smoothing

BANK = ["smoothing"]


def walks(n_series=6, n_rows=60, seed=0, period=12):
    """Positive series with trend, season and noise, as a long frame of months."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_rows)
    parts = [
        np.exp(
            3
            + 0.01 * rng.normal() * t
            + 0.2 * np.sin(2 * np.pi * (t + i) / period)
            + 0.02 * rng.normal(size=n_rows).cumsum()
        )
        for i in range(n_series)
    ]
    return frame(parts)


def frame(parts):
    return pd.concat(
        [
            pd.DataFrame({"unique_id": f"s{i}", "ds": pd.date_range("2015-01-01", periods=len(y), freq="MS"), "y": y})
            for i, y in enumerate(parts)
        ],
        ignore_index=True,
    )


def in_order(forecast, n_series):
    """Rows of the series in the order in which they were made, not sorted by name."""
    return forecast.set_index("unique_id").loc[[f"s{i}" for i in range(n_series)]]


def values(forecast, h):
    return forecast["SoftBoostRegressor"].to_numpy().reshape(-1, h)


# -- which candidates take part ------------------------------------------------------------------------------------


def test_every_candidate_is_judged_by_default():
    model = Forecaster("MS", 4).fit(walks(8))
    assert model.candidates_ == ("smoothing", "correction", "local", "global")
    assert set(model.choice_.weights) == set(model.candidates_)
    assert_allclose(sum(model.choice_.weights.values()), 1)
    assert model.choice_.errors["combination"] <= 1.001 * model.choice_.errors["smoothing"]
    assert "judged at" in model.choice_.describe()
    assert model.fallback_ == {}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"candidates": ["smoothing"]}, ("smoothing",)),
        ({"candidates": ["correction", "smoothing"]}, ("smoothing", "correction")),
        ({"scope": "local"}, ("local",)),
        ({"model": Ridge()}, ("local", "global")),
        ({"strategy": "direct"}, ("local", "global")),
        ({"target_transforms": None}, ("local", "global")),
        ({"lags": [1]}, ("local", "global")),
        ({"candidates": ["smoothing", "local", "global"], "scope": "local"}, ("smoothing", "local")),
    ],
    ids=str,
)
def test_settings_restrict_the_candidates(settings, expected):
    model = Forecaster("MS", 2, **settings).fit(walks(3, 30))
    assert model.candidates_ == expected
    assert np.isfinite(model.predict().iloc[:, -1]).all()


@pytest.mark.parametrize("candidates", ["smoothing", [], ["ets"]])
def test_unknown_candidates_are_refused(candidates):
    with pytest.raises(ValueError, match="candidates"):
        Forecaster("MS", 2, candidates=candidates).fit(walks(2, 30))


def test_a_correction_is_learned_where_all_series_share_a_pattern_that_smoothing_misses():
    """Every series falls back to its level two steps after a jump; nothing a smoother knows."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(80):
        jump = (rng.random(70) < 0.25) * rng.choice([-1, 1], 70)
        parts.append(np.exp(4 + jump + np.roll(jump, 1) * (np.arange(70) > 0) + 0.01 * rng.normal(size=70)))
    df = frame([y[:-2] for y in parts])
    truth = np.stack([y[-2:] for y in parts])
    both = Forecaster("MS", 2, season_length=1, candidates=["smoothing", "correction"]).fit(df)
    alone = Forecaster("MS", 2, season_length=1, candidates=BANK).fit(df)
    told = [in_order(m.predict(), 80)["SoftBoostRegressor"].to_numpy().reshape(-1, 2) for m in (both, alone)]
    error, base = (np.abs(np.log(truth) - np.log(forecast)).mean() for forecast in told)
    assert both.choice_.weights["correction"] > 0.3
    assert error < 0.95 * base


def test_exogenous_columns_enter_by_the_correction():
    rng = np.random.default_rng(1)
    parts, prices = [], []
    for _ in range(60):
        price = rng.normal(size=62)
        parts.append(np.exp(4 + 0.3 * price + 0.02 * rng.normal(size=62)))
        prices.append(price)
    df = frame([y[:-2] for y in parts]).assign(price=np.concatenate([p[:-2] for p in prices]))
    future = df.groupby("unique_id", sort=False)["ds"].max()
    ahead = pd.concat(
        [
            pd.DataFrame(
                {"unique_id": name, "ds": pd.date_range(end, periods=3, freq="MS")[1:], "price": prices[i][-2:]}
            )
            for i, (name, end) in enumerate(future.items())
        ]
    )
    model = Forecaster("MS", 2, season_length=1, candidates=["smoothing", "correction"]).fit(df)
    order = [f"s{i}" for i in range(60)]
    forecast = (
        model.predict(X_df=ahead).set_index("unique_id").loc[order]["SoftBoostRegressor"].to_numpy().reshape(-1, 2)
    )
    truth = np.stack([y[-2:] for y in parts])
    flat = np.abs(np.log(truth) - 4).mean()
    assert np.abs(np.log(truth) - np.log(forecast)).mean() < 0.6 * flat


# -- evidence ------------------------------------------------------------------------------------------------------


def judged(n_series=40, n_origins=4, h=3, seed=0):
    actual = np.random.default_rng(seed).normal(size=(n_series, n_origins, h))
    return Judged(actual, np.ones((n_series, n_origins)), 4)


def test_a_better_candidate_takes_a_share_and_a_worse_none():
    truth = judged()
    noise = np.random.default_rng(1).normal(size=truth.actual.shape)
    current = truth.actual + noise
    assert climb(truth, current, truth.actual + 0.1 * noise) == pytest.approx(0.8)
    assert climb(truth, current, truth.actual + 2 * noise) == 0
    assert climb(truth, current, current) == 0
    assert climb(truth, current, np.full_like(current, np.nan)) == 0


def test_a_gain_by_chance_is_held_back():
    shares = []
    for seed in range(30):
        truth = judged(8, 1, 2, seed)
        rng = np.random.default_rng(100 + seed)
        shares.append(
            climb(truth, truth.actual + rng.normal(size=(8, 1, 2)), truth.actual + rng.normal(size=(8, 1, 2)))
        )
    # unlike errors of equal size average out, so some share is right; a single panel of eight cannot tell how much
    assert np.mean(shares) < 0.35


@pytest.mark.parametrize("seed", [1, 5, 7])
def test_walks_that_move_together_are_little_evidence(seed):
    """A correction or regression that follows the common trend helps all series at the judged origins, by chance."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=108), rng.normal(size=(20, 108))
    changes = np.sqrt(0.9) * common + np.sqrt(0.1) * own
    y = np.cumsum(changes, axis=1)[:, :100] + 100
    model = Forecaster(1, 8, season_length=1).fit(
        pd.DataFrame({"unique_id": np.repeat(np.arange(20), 100), "ds": np.tile(np.arange(100), 20), "y": y.ravel()})
    )
    assert model.choice_.weights["smoothing"] == 1.0


def test_a_column_that_all_series_follow_is_used_though_their_errors_are_alike():
    rng = np.random.default_rng(1)
    promotion = (rng.random(126) < 0.25).astype(float)
    noise = np.cumsum(rng.normal(size=(20, 126)), axis=1) + 2 * rng.normal(size=(20, 126))
    df = frame(100 + noise + 15 * promotion).assign(promotion=np.tile(promotion, 20))
    early = df["ds"] < df["ds"].unique()[120]
    model = Forecaster("MS", 6, season_length=1).fit(df[early])
    assert model.choice_.weights["smoothing"] < 0.2
    told = in_order(model.predict(X_df=df[~early].drop(columns="y")), 20)["SoftBoostRegressor"].to_numpy()
    assert np.abs(told - df[~early]["y"].to_numpy()).mean() < 4  # 15 where promotions are not known


def test_correlated_series_count_as_fewer_unless_they_are_corrected_apart_or_explained():
    rng = np.random.default_rng(0)
    together = np.broadcast_to(rng.normal(size=(1, 40, 3)), (30, 40, 3))
    shape = together.shape
    bank, drift = np.zeros(shape), np.full(shape, 1e-3)
    for own, least, most in ((0.0, 1.0, 1.01), (1.0, 1.5, 3.0), (1e3, 20.0, 30.0)):
        actual = together + own * rng.normal(size=shape)
        correlation = correlation_of(actual.mean(axis=2))
        judged = Judged(actual, np.full(shape[:2], 1e3), 4, bank, correlation)
        assert least <= judged.independent(bank, drift) <= most
        assert judged.independent(bank, together) > 25  # what is left has nothing in common
        apart = 1e-3 * rng.normal(size=(30, 1, 1)) + bank
        assert judged.independent(bank, apart) > 20
    assert judged.take(np.arange(4)).independent(bank[:4], drift[:4]) <= 4


def test_no_explosive_series_decides():
    truth = judged()
    current = truth.actual + 1.0
    candidate = truth.actual + 0.5
    candidate[0] = 1e9
    assert climb(truth, current, candidate) > 0.5
    assert relative_error(truth, candidate, current) < 1


def test_weights_of_a_series_follow_its_own_errors():
    truth = judged(2, 12)
    good, bad = truth.actual + 0.1, truth.actual + 3.0
    first, second = good.copy(), bad.copy()
    first[1], second[1] = bad[1], good[1]
    own = own_weights(truth, [first, second], np.array([0.5, 0.5]))
    assert own[0, 0] > 0.9
    assert own[1, 1] > 0.9
    assert_allclose(own.sum(axis=1), 1)
    assert_array_equal(own_weights(truth, [first, second], np.array([1.0, 0.0])), [[1, 0], [1, 0]])


# -- gaps ---------------------------------------------------------------------------------------------------------


def test_filled_values_are_never_taken_for_the_truth():
    df = walks(1, 40)
    holed = df.drop(index=[35, 36, 38])
    test = Forecaster("MS", 2, candidates=BANK, gaps="interpolate").backtest(holed, n_windows=3, h=2)
    times = test.forecasts["ds"]
    known = times.isin(holed["ds"]).to_numpy()
    assert np.count_nonzero(~np.isnan(test.losses)) == known.sum()


# -- behaviour -----------------------------------------------------------------------------------------------------


def test_constant_intermittent_and_stepped_series_get_sensible_answers():
    rng = np.random.default_rng(0)
    constant, step = np.full(48, 7.0), np.r_[np.full(30, 10.0), np.full(18, 20.0)]
    demand = (rng.random(60) < 0.3) * rng.integers(1, 5, 60).astype(float)
    forecast = Forecaster("MS", 6).fit(frame([constant, step, demand])).predict(level=[90])
    low, high = (forecast[f"SoftBoostRegressor-{side}-90"].to_numpy().reshape(-1, 6) for side in ("lo", "hi"))
    centre = values(forecast, 6)
    assert_allclose(centre[0], 7, rtol=1e-4)
    assert_allclose(centre[1], 20, rtol=0.1)
    assert np.all((centre[2] >= 0) & (centre[2] <= 4))
    assert np.all(low <= centre)
    assert np.all(centre <= high)


@pytest.mark.parametrize("wild", [1e9, -1e9, 1e5])
@pytest.mark.parametrize("place", [5, 40, 58])
def test_a_wild_cell_does_not_ruin_forecasts_or_intervals(wild, place):
    for n_series in (1, 4):
        df = walks(n_series, 60)
        first = df["unique_id"] == "s0"
        spoiled = df.assign(y=df["y"].where(~(first & (df.groupby("unique_id").cumcount() == place)), wild))
        clean, other = (Forecaster("MS", h=6).fit(data).predict(level=[90]) for data in (df, spoiled))
        spread = df.loc[first, "y"].std()
        assert np.abs(clean.iloc[:, 2] - other.iloc[:, 2]).max() < 0.5 * spread
        assert (other.iloc[:, 4] - other.iloc[:, 3]).max() < 3 * (clean.iloc[:, 4] - clean.iloc[:, 3]).max()


def test_only_isolated_values_are_wild():
    rng = np.random.default_rng(0)
    calm = rng.normal(size=100)
    shifted, spiky, growing = calm + 1000 * (np.arange(100) >= 90), calm.copy(), np.exp(0.2 * np.arange(100))
    spiky[::12] = 1000.0
    last, demand = calm.copy(), np.zeros(100)
    last[-1], demand[40] = 1000.0, 5.0
    twice = calm.copy()
    twice[[20, 70]] = 1000.0, -500.0
    parts = [calm, shifted, spiky, growing, last, demand, twice]
    panel = Forecaster("MS", candidates=BANK).fit(frame(parts)).frame_.panel
    assert_array_equal(np.flatnonzero(np.isnan(panel.without_outliers().y)), 600 + np.array([20, 70]))


def test_positive_series_stay_positive_and_growing_seasons_grow():
    t = np.arange(72)
    growing = np.exp(2 + 0.03 * t) * (1 + 0.3 * np.sin(2 * np.pi * t / 12))
    falling = np.exp(4 - 0.08 * t)
    forecast = Forecaster("MS", 12).fit(frame([growing, falling])).predict(level=[95])
    centre = values(forecast, 12)
    assert np.ptp(centre[0]) > 0.9 * np.ptp(growing[-12:])
    assert np.all(centre[1] > 0)
    assert np.all(forecast["SoftBoostRegressor-lo-95"] > 0)


def test_short_newcomers_hardly_move_a_long_series():
    df = walks(6, 96)
    short = frame([np.arange(1.0, 4.0), np.ones(2), np.array([5.0])]).assign(unique_id=lambda d: "new" + d["unique_id"])
    before = Forecaster("MS", 6).fit(df).predict(level=[80]).set_index("unique_id")
    after = Forecaster("MS", 6).fit(pd.concat([df, short])).predict(level=[80]).set_index("unique_id")
    assert np.isfinite(after.drop(columns="ds")).all().all()
    for name, group in df.groupby("unique_id"):
        old, new = before.loc[name], after.loc[name]
        assert np.abs(old["SoftBoostRegressor"] - new["SoftBoostRegressor"]).max() < 0.01 * group["y"].std()
        widths = [(d["SoftBoostRegressor-hi-80"] - d["SoftBoostRegressor-lo-80"]).to_numpy() for d in (old, new)]
        assert_allclose(widths[1], widths[0], rtol=0.1)


def test_later_values_need_no_logarithm():
    """Regressions of logarithms leave out series with values that have none, wherever these first appear."""
    z = np.linspace(0.1, 0.6, 6)[:, None]  # a non-linear map, which trees learn and linear models do not
    for _ in range(119):
        z = np.column_stack([z, 1 - 1.7 * z[:, -1] ** 2])
    parts = list(np.exp(2 + z))
    parts[2][-2:] = 0.0
    settings = {"candidates": ["smoothing", "local", "global"]}
    model = Forecaster("MS", 3, **settings).fit(frame(parts))
    assert np.isfinite(model.predict(level=[80]).iloc[:, 2:]).all(axis=None)
    positive = Forecaster("MS", 3, **settings).fit(frame([y[:116] for y in parts]))
    assert positive.choice_.weights["local"] + positive.choice_.weights["global"] > 0
    positive.update(frame([y[116:] for y in parts]).assign(ds=lambda d: d["ds"] + pd.DateOffset(months=116)))
    assert np.isfinite(positive.predict(level=[80]).iloc[:, 2:]).all(axis=None)
    for chosen in (settings, {"model": Ridge(), "lags": [1, 12]}):
        test = Forecaster("MS", 3, **chosen).backtest(frame(parts), n_windows=4, refit=3, level=[80])
        assert np.isfinite(test.forecasts.iloc[:, 4:6]).all(axis=None)
    with pytest.raises(ValueError, match=r"needs y \+ offset > 0, but the smallest y is 0"):
        Forecaster("MS", 3, model=Ridge(), lags=[1], target_transforms=[Log()]).fit(frame(parts))


def test_a_share_is_no_level():
    with pytest.raises(ValueError, match=r"level=0.8 .* level=\[80\]"):
        check_levels([0.8])


# -- going on ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"candidates": ["smoothing", "local"]}, {"candidates": BANK}], ids=str)
def test_a_saved_combination_forecasts_and_goes_on_the_same(tmp_path, settings):
    df = walks(7, 260)
    model = Forecaster("MS", 4, **settings).fit(df[df["ds"] < "2035-06-01"])
    model.save(tmp_path / "model.softboost")
    loaded = softboost.load(tmp_path / "model.softboost")
    pd.testing.assert_frame_equal(loaded.predict(level=[80]), model.predict(level=[80]))
    assert loaded.choice_ == model.choice_
    later = df[df["ds"] >= "2035-06-01"]
    pd.testing.assert_frame_equal(loaded.update(later).predict(), model.update(later).predict())
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(again.predict(), model.predict())


def test_update_takes_new_rows_and_new_series():
    df = walks(4, 60)
    model = Forecaster("MS", 3).fit(df[df["ds"] < "2019-06-01"])
    model.update(df[df["ds"] >= "2019-06-01"])
    assert model.predict()["ds"].min() == df["ds"].max() + pd.DateOffset(months=1)
    new = walks(1, 20, seed=9).assign(unique_id="new")
    assert len(model.update(new).predict()) == 5 * 3


def test_intervals_are_calibrated_at_origins_with_enough_history():
    rng = np.random.default_rng(0)
    model = Forecaster("MS", 3, candidates=["smoothing"]).fit(frame([rng.normal(size=n).cumsum() for n in (40, 4)]))
    errors = model.fitted_.scores(model.frame_.panel, 3).errors[:, :, 0]  # windows in the order of time, one step apart
    n_before = np.array([[40], [4]]) - 1 - np.arange(errors.shape[1])[::-1]
    assert_array_equal(~np.isnan(errors[0]), n_before[0] >= 16)
    assert_array_equal(~np.isnan(errors[1]), n_before[1] >= 3)  # fewer values before an origin are too few


@pytest.mark.parametrize(("n_series", "n_rows"), [(1, 5), (1, 8), (3, 8)])
def test_intervals_without_a_whole_window_are_those_of_a_random_walk(n_rows, n_series):
    y = np.random.default_rng(0).normal(size=(n_series, n_rows)).cumsum(axis=1)
    told = Forecaster("MS", 6, season_length=1, candidates=BANK).fit(frame(y)).predict(level=[80])
    width = (told["SoftBoostRegressor-hi-80"] - told["SoftBoostRegressor-lo-80"]).to_numpy().reshape(n_series, 6)
    assert_allclose(width / width[:, :1], np.tile(np.sqrt(np.arange(1, 7)), (n_series, 1)))


def test_the_latest_whole_window_counts_even_after_few_values():
    model = Forecaster("MS", 6, candidates=BANK).fit(frame([np.random.default_rng(0).normal(size=9).cumsum()]))
    scores = model.fitted_.scores(model.frame_.panel, 6)
    assert not scores.unknown
    assert np.isfinite(scores.errors[0, 0]).all()  # three values before it


def test_a_common_bias_is_no_correlation():
    errors = np.random.default_rng(0).normal(size=(20, 400))
    assert correlation_of(errors + 3) < 0.01
    assert correlation_of(errors + 3 + errors[0]) > 0.4


def test_intervals_widen_right_after_a_jump():
    """Windows that are known in part say so before the first whole one."""
    rng = np.random.default_rng(0)
    calm = 0.3 * rng.normal(size=(20, 60)).cumsum(axis=1) + 100
    rough = calm.copy()
    rough[0, -3:] += 15
    widths = []
    for y in (calm, rough):
        told = in_order(Forecaster("MS", 12, season_length=1, candidates=BANK).fit(frame(y)).predict(level=[80]), 20)
        widths.append((told["SoftBoostRegressor-hi-80"] - told["SoftBoostRegressor-lo-80"]).to_numpy().reshape(20, 12))
    calm_widths, rough_widths = widths
    assert (rough_widths[0] > 2.5 * calm_widths[0]).all()
    assert_allclose(rough_widths[1:], calm_widths[1:], rtol=0.1)


def test_steps_of_partly_known_windows_use_the_latest_errors_they_have():
    """A window that ends after the last row has no error at the later steps; whole ones count as before."""
    known = _latest_known(np.array([[[1, np.nan], [2, 10], [3, 20], [4, 30]]]))
    assert_array_equal(known, [[[1, 10], [2, 20], [3, 30]]])
    errors = np.random.default_rng(0).normal(size=(300, 12, 2))
    errors[:, :4] *= 3  # so long ago that only the mean of all errors knows
    partly = np.concatenate([errors, np.full((300, 1, 2), np.nan)], axis=1)
    partly[:, 1:, 0], partly[:, 0, 0] = errors[:, :, 0], np.nan
    whole, shifted = (pool_errors(e, np.ones(300), [90]).widths for e in (errors, partly))
    assert_allclose(shifted, whole, rtol=0.1)


def test_errors_fade_where_series_have_calm_and_rough_times():
    rng = np.random.default_rng(0)
    times = np.exp(np.repeat(rng.normal(size=(300, 4, 1)), 10, axis=1))  # ten windows each
    week = np.exp(np.where(np.arange(40) % 5 < 2, 1.5, 0.0))[:, None]  # and that repeat
    scale = np.ones(300)
    for size, half_life in ((times, 2.5), (week, np.inf)):
        pool = pool_errors(size * rng.normal(size=(300, 40, 1)), scale, [90])
        assert pool.half_life == half_life
    errors = np.ones((2, 40, 1)) * np.where(np.arange(40) < 36, 1.0, 5.0)[:, None]
    fading, lasting = (_OwnScales(errors, np.ones(2), np.ones(1), 1.0).final(h) for h in (2.5, np.inf))
    assert (fading > 1.4 * lasting).all()


@pytest.mark.parametrize("half_life", [2.5, np.inf])
def test_scales_of_past_windows_leave_out_their_own_errors(half_life):
    """As sums over all other windows, each weighted by its distance."""
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(3, 9, 2))
    errors[0, :4], errors[1, 8, 1] = np.nan, np.nan
    own = _OwnScales(errors, np.array([1.0, 2.0, 0.5]), np.array([0.8, 1.1]), 2.0)
    distance = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    weight = np.where(distance > 0, 0.5 ** (distance / (2 * half_life)), 0.0)
    sizes = np.nan_to_num(np.abs(errors) / own.scales[:, None, None] / [0.8, 1.1]).mean(axis=2)
    n, total = (~np.isnan(errors)).mean(axis=2) @ weight, sizes @ weight
    expected = own.scales[:, None] * ((total + 0.3) / (n + 0.3)) ** (n / (n + 4))
    assert_allclose(own.judging(half_life), expected)
    before = np.where(np.subtract.outer(np.arange(9), np.arange(9)) > 1, weight, 0).T  # two windows overlap
    n, total = (~np.isnan(errors)).mean(axis=2) @ before, sizes @ before
    keep = 0.5 ** (1 / (2 * half_life))  # the latest of them counts as much as the next window before
    factor = ((total / keep + 0.3) / (n / keep + 0.3)) ** (n / keep / (n / keep + 4))
    there = (n > 0) & ~np.isnan(errors).any(axis=2)
    assert_allclose(own.loss(half_life), (np.log(factor) + sizes / factor)[there].mean())


def test_windows_are_taken_from_the_nearest_time_of_the_season():
    df = frame([np.random.default_rng(i).normal(size=150).cumsum() + 100 for i in range(3)])
    for h, season, off in ((18, 12, 2), (17, 12, 1), (12, 12, 0), (14, 7, 0), (6, 4, 0)):
        model = Forecaster("MS", h, season_length=season, candidates=BANK).fit(df)
        scores = model.fitted_.scores(model.frame_.panel, h)
        stride = h // 4
        back = h - (h - 1) // stride * stride + stride * scores.phase  # rows after the latest such origin
        assert min(-back % season, back % season) == off


def test_intervals_of_a_panel_lie_between_all_errors_and_the_latest():
    errors = np.random.default_rng(0).normal(size=(2500, 16, 1))
    calm, rough = (pool_errors(errors * size, np.ones(2500), [90]).widths for size in (1, [[1]] * 15 + [[3]]))
    assert_allclose(calm, 1.645, rtol=0.08)  # wider than the quantile, because scales are estimated
    assert rough > 1.8 * calm  # a sixteenth of all errors, but all of the latest ones
    assert rough < 3.0 * calm  # the latest errors alone would say more than three times


def test_longer_horizons_than_fitted_are_forecast():
    model = Forecaster("MS", 3).fit(walks(6))
    forecast = model.predict(h=9, level=[80])
    assert len(forecast) == 6 * 9
    assert np.isfinite(forecast.drop(columns=["unique_id", "ds"])).all().all()
    assert_allclose(values(forecast, 9)[:, :3], values(model.predict(), 3), rtol=0.05)


@pytest.mark.parametrize("h", [1, 2, 6])
def test_other_horizons_than_fitted_are_corrected_too(h):
    """A pattern that all series share is learned by the correction, which reads the columns of the fitted horizon."""
    rng = np.random.default_rng(0)
    shock = (rng.random((20, 60)) < 0.2) * 5.0
    model = Forecaster("MS", 4, candidates=["smoothing", "correction"]).fit(
        frame([10 + s + 0.1 * rng.normal(size=60) for s in shock])
    )
    assert model.fitted_.corrections
    forecast, fitted = values(model.predict(h=h, level=[80]), h), values(model.predict(), 4)
    if h < 4:
        assert_array_equal(forecast, fitted[:, :h])
    else:
        assert_allclose(forecast[:, :4], fitted, rtol=0.1)  # smoothers and lags are weighted by all six steps


def test_gaps_are_filled_from_the_rows_at_hand_alone():
    y = np.array([np.nan, 1.0, np.nan, 3.0, np.nan])
    panel = Panel(y, np.array([0, 5]), np.arange(5), np.empty((5, 0)), np.empty((1, 0)), "interpolate")
    assert_array_equal(panel.filled, [np.nan, 1, 2, 3, 3])
    assert_array_equal(panel.cut(2).filled, [np.nan, 1, 1])


@pytest.mark.parametrize("n_series", [1, 20])
def test_three_short_series_change_nothing_for_long_ones(n_series):
    rng = np.random.default_rng(100)
    t = np.arange(72)
    long = [50 + 0.5 * t + 5 * np.sin(t * np.pi / 6) + 2 * rng.normal(size=72) for _ in range(n_series)]
    short = [np.array(v, dtype=float) for v in ([5, 6, 4], [1000, 900, 1200, 1100], [3, 1, 4, 2, 3])]
    alone, joined = (Forecaster("MS", 12).fit(frame(series)).predict(level=[95]) for series in (long, long + short))
    joined = joined[joined["unique_id"].isin(alone["unique_id"])].reset_index(drop=True)
    spread = np.mean([y.std() for y in long])
    assert np.abs(values(joined, 12) - values(alone, 12)).max() < 0.001 * spread
    width = [p.iloc[:, 4].to_numpy() - p.iloc[:, 3].to_numpy() for p in (alone, joined)]
    assert_allclose(width[1], width[0], rtol=0.1)


@pytest.mark.parametrize(
    ("n_series", "h", "growing", "seed"), [(1, 12, True, 3), (1, 6, True, 0), (2, 6, False, 0), (5, 6, True, 3)]
)
def test_series_that_can_be_judged_but_are_short_hardly_move_long_ones(n_series, h, growing, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(150)

    def series():
        if growing:
            return 20 * 1.005**t * np.exp(0.05 * rng.normal(size=150))
        return 50 + 10 * np.sin(t * np.pi / 6) + 5 * rng.normal(size=150)

    long = [series() for _ in range(n_series)]
    short = [series()[-n:] for n in (4, 7, 12)]
    alone, joined = (Forecaster("MS", h).fit(frame(parts)).predict(level=[80, 95]) for parts in (long, long + short))
    joined = joined[joined["unique_id"].isin(alone["unique_id"])].reset_index(drop=True)
    assert np.abs(values(joined, h) - values(alone, h)).max() < 0.01 * long[0].std()
    for level in (80, 95):
        low, high = (f"SoftBoostRegressor-{side}-{level}" for side in ("lo", "hi"))
        assert_allclose(joined[high] - joined[low], alone[high] - alone[low], rtol=0.1)


def test_short_series_have_the_intervals_of_short_series():
    """Where there are many of them, whose errors are larger in units of the series."""
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(60, 40, 2))
    errors[30:] *= 3
    errors[30:, :30] = np.nan
    pools = Pools.of(errors, np.ones(60), np.arange(60) >= 30, [90], 1.0, 1)
    long, short = pools.long.widths[0], pools.short.widths[0]
    assert_allclose(long, 1.65, rtol=0.15)
    assert_allclose(short, 3 * 1.65, rtol=0.25)
    few = Pools.of(errors[:32], np.ones(32), np.arange(32) >= 30, [90], 1.0, 1)
    assert_array_equal(few.long.widths, pool_errors(errors[:30], np.ones(30), [90]).widths)
    assert_array_equal(few.short.widths, pool_errors(errors[:32], np.ones(32), [90]).widths)


@pytest.mark.parametrize("n_others", [0, 4])
@pytest.mark.parametrize("known", [[0, 12], [0], [0, 1, 2]])
def test_a_series_of_few_known_values_stops_no_other(known, n_others):
    sparse = np.full(40, np.nan)
    sparse[known] = 3.0 + np.arange(len(known))
    df = pd.concat([walks(n_others, 40), frame([sparse]).assign(unique_id="z")]) if n_others else frame([sparse])
    forecast = Forecaster("MS", 3, gaps="interpolate").fit(df).predict()
    assert len(forecast) == 3 * (n_others + 1)
    assert np.isfinite(forecast["SoftBoostRegressor"]).all()


def test_a_zero_in_a_short_series_forbids_no_logarithm():
    rng = np.random.default_rng(3)
    chaos = np.empty((10, 100))
    chaos[:, 0] = rng.uniform(0.1, 0.9, 10)
    for t in range(99):
        chaos[:, t + 1] = 3.9 * chaos[:, t] * (1 - chaos[:, t])
    long = [0.1 + series for series in chaos]
    joined = [
        Forecaster("MS", 3).fit(frame([*long, *[np.array([1.0, y, 2, 1, 3] * 3)] * 3])).predict() for y in (0, 0.5)
    ]
    assert_array_equal(*(in_order(forecast, 10)["SoftBoostRegressor"] for forecast in joined))


def test_forecasts_after_a_wild_last_value_stay_within_the_history():
    t = np.arange(72)
    for seed in range(5):
        y = 10 + 2 * np.sin(t * np.pi / 6) + np.random.default_rng(seed).normal(size=72)
        y[-1] = 1e3
        forecast = values(Forecaster("MS", 12).fit(frame([y])).predict(), 12)
        assert forecast.max() <= 1e3
        assert forecast.min() >= y.min()


def test_intervals_follow_a_column_that_explains_most():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 80))
    df = frame(list(50 + 10 * x + rng.normal(size=x.shape))).assign(x=x.ravel())
    late = df["ds"] >= "2021-03-01"
    forecast = Forecaster("MS", 6).fit(df[~late]).predict(X_df=df[late].drop(columns="y"), level=[80])
    width = forecast["SoftBoostRegressor-hi-80"] - forecast["SoftBoostRegressor-lo-80"]
    assert 2 < width.mean() < 9  # 2.6 is ideal, 33 that of the smoothing bank


def test_weights_are_those_that_are_used():
    """Nine of ten series are too short for a local regression."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    long = frame([50 + 10 * x + rng.normal(size=150)]).assign(x=x)
    short = frame([np.arange(4.0)] * 9).assign(x=0.0, unique_id=lambda d: "short" + d["unique_id"])
    model = Forecaster("MS", 3).fit(pd.concat([long, short]))
    own = model.fitted_.weights
    assert_allclose(own.sum(axis=1), 1.0)
    assert model.choice_.weights["local"] == pytest.approx(own[:, model.fitted_.members.index("local")].mean())
    assert 0.02 < model.choice_.weights["local"] <= 0.1


@pytest.mark.parametrize(
    "settings",
    [{"scope": "local"}, {"model": Ridge()}, {"lags": [1]}, {"strategy": "direct"}, {"target_transforms": None}],
)
def test_settings_of_regressions_need_one(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=rf"candidates=.*{name}=.* has no effect|exclude each other"):
        Forecaster("MS", 3, candidates=["smoothing"], **settings).fit(walks(1, 40))


def test_saved_and_updated_intervals_know_the_short_series(tmp_path):
    rng = np.random.default_rng(4)
    df = frame([rng.normal(size=n) * (1 if n > 20 else np.arange(n)) for n in (300, 300, 15, 15, 15)])
    model = Forecaster("MS", 3).fit(df)
    before = model.predict(level=[80, 95])
    model.save(tmp_path / "panel.softboost")
    loaded = softboost.load(tmp_path / "panel.softboost")
    pd.testing.assert_frame_equal(loaded.predict(level=[80, 95]), before)
    assert loaded._scores[3].phase == model._scores[3].phase == 11  # of 12 months; windows start 1, 2, 3 ... back
    loaded.update(frame([np.arange(4.0)]).assign(unique_id="t"))
    assert loaded._scores[3].short.tolist() == [False, False, True, True, True, True]


@pytest.mark.parametrize("n_rows", [3, 20])
def test_series_too_short_to_be_judged_change_no_origin(n_rows):
    rng = np.random.default_rng(0)
    long, short = [rng.normal(size=90) for _ in range(4)], [np.resize([1.0, 3.0, 2.0], n_rows)] * 8
    mine, joined = (
        Origins(
            Smoothing(()), Forecaster("MS", 4, candidates=["smoothing"]).fit(frame(s)).frame_.panel, 4, columns=True
        )
        for s in (long, long + short)
    )
    assert mine.judging == joined.judging
    assert len(mine.rows(0).X) == len(joined.rows(0).X)


def test_a_column_that_explains_a_single_series_is_used():
    """Its gain is larger than what counts in every block, so that the gains do not differ."""
    rng = np.random.default_rng(0)
    promo = (rng.random(66) < 0.25) * 1.0
    promo[61] = 1.0
    df = frame([100 + 30 * promo + 0.1 * rng.normal(size=66)]).assign(promo=promo)
    past, future = df[:60], df[60:]
    forecast = Forecaster("MS", 6).fit(past).predict(X_df=future.drop(columns="y"))
    assert np.abs(forecast["SoftBoostRegressor"].to_numpy() - future["y"].to_numpy()).mean() < 3


def test_no_levels_and_contradicting_settings():
    df = walks(1, 40)
    assert list(Forecaster("MS", 3).fit(df).predict(level=[])) == ["unique_id", "ds", "SoftBoostRegressor"]
    with pytest.raises(ValueError, match=r"candidates=\['local'\] and scope='global' exclude each other"):
        Forecaster("MS", 3, candidates=["local"], scope="global").fit(df)
