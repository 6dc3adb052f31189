"""Intervals of every kind of forecaster: coverage, widths, series without a history, series that are never negative."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

import softboost
from softboost import SoftBoostRegressor
from softboost.forecast import Differences, Forecaster, LocalStandardScaler, Log
from softboost.forecast._intervals import borrowed_scales, conformal_widths, pool_errors, shaped, usual_changes
from softboost.forecast._rolling import Scores
from softboost.forecast.target_transforms import Chain

H = 6
RIDGE = {"model": Ridge(), "lags": [1, 2], "target_transforms": [Differences([1]), LocalStandardScaler()]}
FEW = {"n_estimators": 2, "learning_rate": 0.3, "depth": 1, "feature_transform": None, "init": "linear"}
KINDS = {
    "default": {},
    "smoothing": {"candidates": ["smoothing"]},
    "local": {**RIDGE, "scope": "local"},
    "global": {**RIDGE, "scope": "global"},
    "logarithms": {**RIDGE, "scope": "global", "target_transforms": [Log(1.0), Differences([1])]},
    "direct": {**RIDGE, "scope": "global", "strategy": "direct"},
    "direct_each": {**RIDGE, "scope": "local", "strategy": "direct_each"},
    "boosted": {"model": SoftBoostRegressor(**FEW, shuffle=False), "lags": [1, 2], "scope": "global"},
}
SHORT = {"one row": [3.0], "two rows": [200.0, 200.0], "one zero": [0.0]}


def values(rng, kind, n):
    """A series of one of six kinds."""
    t = np.arange(n)
    if kind == 0:
        return 10 + rng.normal(size=n).cumsum()
    if kind == 1:
        return np.exp(3 + 0.05 * rng.normal(size=n).cumsum() + 0.2 * np.sin(2 * np.pi * t / 12))
    if kind == 2:
        return rng.poisson(2, size=n).astype(float)
    if kind == 3:
        return 50 + np.convolve(rng.standard_t(3, size=n), [1, 0.6, 0.3], "same")
    if kind == 4:
        return np.maximum(40 - 0.3 * t + rng.normal(size=n), 0.0)
    return np.sin(2 * np.pi * t / 12) + 0.3 * rng.normal(size=n)


def mixed_panel(seed, n_series=30):
    """Series of all kinds, scales and lengths, and the values that follow."""
    rng = np.random.default_rng(seed)
    parts, truth = [], []
    for i in range(n_series):
        y = values(rng, i % 6, int(rng.integers(24, 120)) + H) * 10 ** rng.uniform(-2, 4)
        parts.append(one_series(f"s{i:02d}", y[:-H]))
        truth.append(y[-H:])
    return pd.concat(parts, ignore_index=True), np.array(truth)


def one_series(name, y):
    return pd.DataFrame({"unique_id": name, "ds": pd.date_range("2005-01-01", periods=len(y), freq="MS"), "y": y})


def bounds(settings, df, level):
    """Forecasts, lower and upper bounds (n_series, H), and the ids."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*too short to learn from")
        out = Forecaster("MS", H, **settings).fit(df).predict(level=[level])
    model = out.columns[2]
    columns = (model, f"{model}-lo-{level}", f"{model}-hi-{level}")
    forecast, low, high = (out[name].to_numpy().reshape(-1, H) for name in columns)
    return forecast, low, high, out["unique_id"].to_numpy()[::H]


@pytest.fixture(scope="module")
def panel():
    df, _ = mixed_panel(0, n_series=12)
    constant = one_series("constant", np.full(40, 7.0))
    return pd.concat([df, constant, *(one_series(name, np.array(y)) for name, y in SHORT.items())], ignore_index=True)


@pytest.mark.parametrize("kind", KINDS)
def test_widths_never_fall_are_never_zero_and_respect_zero(panel, kind):
    least = panel.groupby("unique_id")["y"].min()
    if kind == "logarithms":
        panel = panel[(least >= 0)[panel["unique_id"]].to_numpy()]
    _, low, high, ids = bounds(KINDS[kind], panel, 80)
    width = high - low
    assert np.all(np.isfinite(width))
    assert np.all(width > 0)
    assert np.all(np.diff(width, axis=1) >= -1e-9 * width[:, 1:])
    assert np.all(low[least[ids].to_numpy() >= 0] >= 0)


@pytest.mark.parametrize("kind", ["smoothing", "global", "direct"])
def test_levels_hold_on_mixed_panels(kind):
    inside = []
    for seed in range(4):
        df, truth = mixed_panel(seed)
        _, low, high, _ = bounds(KINDS[kind], df, 80)
        inside.append((truth >= low) & (truth <= high))
    assert 0.75 < np.mean(inside) < 0.88
    by_step = np.mean(inside, axis=(0, 1))
    assert np.all((by_step > 0.68) & (by_step < 0.93))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_levels_hold_on_many_mixed_panels(kind):
    inside = {80: [], 95: []}
    for seed in range(12):
        df, truth = mixed_panel(100 + seed)
        if kind == "logarithms":
            df, truth = df.assign(y=df["y"].abs()), np.abs(truth)
        for level, found in inside.items():
            _, low, high, _ = bounds(KINDS[kind], df, level)
            found.append((truth >= low) & (truth <= high))
    assert 0.77 < np.mean(inside[80]) < 0.87
    assert 0.925 < np.mean(inside[95]) < 0.98


@pytest.mark.parametrize("kind", ["default", "global"])
def test_a_short_series_gets_the_relative_changes_of_the_others(kind):
    rng = np.random.default_rng(0)
    walks = [one_series(f"w{i}", 10.0**i * np.exp(3 + 0.1 * rng.normal(size=60).cumsum())) for i in range(4)]
    short = [one_series("low", np.array([1.0])), one_series("high", np.array([1e6]))]
    forecast, low, high, ids = bounds(KINDS[kind], pd.concat(walks + short), 80)
    share = dict(zip(ids, ((high - low) / np.abs(forecast))[:, 0], strict=True))
    others = np.median([share[f"w{i}"] for i in range(4)])
    for name in ("low", "high"):
        assert 0.4 * others < share[name] < 2.5 * others


@pytest.mark.parametrize("kind", ["default", "local"])
def test_a_short_series_alone_has_no_interval(kind):
    settings = KINDS[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*too short to learn from")
        forecaster = Forecaster("MS", 2, **settings).fit(one_series("a", np.array([5.0])))
    with pytest.warns(UserWarning, match="intervals are NaN for series of one or two values"):
        out = forecaster.predict(level=[80])
    assert_allclose(out.iloc[:, 2], 5.0)
    assert out.iloc[:, 3:].isna().all(axis=None)


def test_series_that_fall_towards_zero_have_no_negative_forecasts():
    y = np.maximum(30.0 - np.arange(40), 0.0) + 0.1
    falling, other = one_series("falling", y[:28]), one_series("other", y[:28] - 20)
    forecast, low, _, _ = bounds({"candidates": ["smoothing"]}, pd.concat([falling, other]), 95)
    assert np.all(forecast[0] >= 0)
    assert np.all(low[0] >= 0)
    assert np.all(forecast[1] < 0)


def test_a_file_remembers_that_a_series_was_negative(tmp_path):
    rng = np.random.default_rng(0)
    y = np.r_[-1.0, 0.5 + rng.random(599)]
    df = pd.DataFrame({"unique_id": "a", "ds": np.arange(600), "y": y})
    forecaster = Forecaster(1, 3, candidates=["smoothing"]).fit(df)
    forecaster.save(tmp_path / "model.softboost")
    again = softboost.load(tmp_path / "model.softboost")
    assert len(again.frame_.panel.y) < 600
    pd.testing.assert_frame_equal(again.predict(level=[99.9]), forecaster.predict(level=[99.9]))


# -- parts -------------------------------------------------------------------------------------------------------------


def test_scales_are_borrowed_relative_to_the_values():
    scales, sizes = np.array([1.0, 20.0, 0.0, 0.0, 0.0]), np.array([10.0, 100.0, 50.0, 1000.0, 0.0])
    n_known = np.array([50, 50, 1, 100, 1])
    out = borrowed_scales(scales, sizes, n_known, usual_changes(scales, sizes, n_known))
    assert_allclose(out, [1.0, 20.0, 0.15 * 50, 0.15 * 1000 / 10, 10.5])


def test_without_others_a_scale_is_not_known():
    still = np.zeros(2), np.ones(2), np.array([1, 9])
    assert_array_equal(borrowed_scales(*still, usual_changes(*still)), [np.nan, 0.0])


def test_bounds_widen_upwards_and_stop_at_the_floor():
    low, high = shaped(np.array([-1.0, -2.0, 1.0]), np.array([3.0, 2.0, 2.0]), np.zeros(1))
    assert_array_equal(low, [0, 0, 1])
    assert_array_equal(high, [3, 3, 4])


def test_intervals_of_a_short_series_are_plausible():
    """Student's t quantiles of one or two errors are large; on the scale of logarithms they are absurd."""
    rng = np.random.default_rng(0)
    for n in range(7, 30, 3):
        y = 100 * np.exp(rng.normal(0.03, 0.15, n).cumsum())
        df = pd.DataFrame({"unique_id": 0, "ds": np.arange(n), "y": y})
        bounds = Forecaster(1, h=6).fit(df).predict(level=[95])
        low, high = bounds.iloc[:, 3].to_numpy(), bounds.iloc[:, 4].to_numpy()
        spread = y.max() - y.min()
        assert (high < 8 * y.max() + 5 * spread).all()
        assert (low > y.min() / 20).all()
        assert (high - low > 0.2 * np.abs(np.diff(y)).mean()).all()


def test_a_spike_in_the_history_does_not_make_bounds_absurd():
    y = 50 + np.random.default_rng(1).normal(size=80)
    y[60] = 5000.0
    df = pd.DataFrame({"unique_id": 0, "ds": np.arange(80), "y": y})
    high = Forecaster(1, h=6).fit(df).predict(level=[95]).iloc[:, 4]
    assert (high < 3 * 5000).all()


def test_a_usual_size_of_errors_counts_where_errors_are_few():
    one = np.array([[1.0]])
    alone, told = conformal_widths(one, [95])[0, 0], conformal_widths(one, [95], np.array([1.0]))[0, 0]
    assert alone == pytest.approx(12.706 * np.sqrt(2), rel=1e-3)
    assert told == pytest.approx(2.571 * np.sqrt(6 / 5), rel=1e-3)
    assert conformal_widths(one, [95], np.array([np.nan]))[0, 0] == alone
    for n in (5, 40):
        many = np.random.default_rng(0).normal(size=(n, 3))
        assert_array_equal(conformal_widths(many, [80, 95]), conformal_widths(many, [80, 95], np.full(3, 9.0)))


def pooled_errors(rng, sizes, steps, n_series=300):
    """Errors of series whose size depends on the window and on the step."""
    return np.asarray(sizes)[:, None] * np.asarray(steps) * rng.normal(size=(n_series, len(sizes), len(steps)))


def test_pooled_widths_follow_the_time_of_the_season():
    """The first step is hard at the time that forecasts start at; windows at other times do not dilute its width."""
    rng = np.random.default_rng(0)
    errors = pooled_errors(rng, np.ones(20), [1, 4, 4, 4])
    errors[:, 1::2, 0] *= 3.0  # the latest window is the last one
    ones = np.ones(300)
    mixed, own = pool_errors(errors, ones, [95]), pool_errors(errors, ones, [95], cycle=2)
    assert own.widths[0, 0] > 1.1 * mixed.widths[0, 0]
    assert_allclose(own.widths[0, 1:], mixed.widths[0, 1:], rtol=0.1)
    assert own.widths[0, 0] > 1.5 * pool_errors(errors, ones, [95], cycle=2, phase=1).widths[0, 0]
    few = pool_errors(errors[:20], ones[:20], [95], cycle=2)  # too few windows to use every second one
    assert_array_equal(few.widths, pool_errors(errors[:20], ones[:20], [95]).widths)


def test_pooled_widths_never_fall_and_cover_what_they_say():
    """Where errors fall with the step, steps share a width, so that all of them together are covered as asked."""
    rng = np.random.default_rng(1)
    steps = np.tile([2.0, 1.0], 6) + 0.05 * np.arange(12)
    errors = pooled_errors(rng, np.ones(20), steps)
    pool = pool_errors(errors, np.ones(300), [80, 95])
    assert (np.diff(pool.widths, axis=1) >= 0).all()
    assert (pool.widths[1] > pool.widths[0]).all()
    new = pooled_errors(rng, np.ones(50), steps)
    inside = np.abs(new)[None] <= pool.widths[:, None, None, :]
    assert_allclose(inside.mean(axis=(1, 2, 3)), [0.80, 0.95], atol=0.02)


def test_intervals_are_wider_if_errors_of_some_times_were_larger():
    """The widths that cover all past errors are multiplied by exp(s / 2), s the deviation of sizes between times."""
    rng = np.random.default_rng(2)
    sizes, ones = np.exp([*np.tile([0.4, -0.4], 19).repeat(2), 0.4, -0.4]), np.ones(1000)  # the latest are as the rest
    errors = pooled_errors(rng, sizes, [1, 1], 1000)
    own_times = rng.permuted(np.tile(np.arange(78), (1000, 1)), axis=1)
    mixed = np.take_along_axis(errors, own_times[..., None], axis=1)  # the same errors, of each series at its own times
    together, apart = (pool_errors(e, ones, [95], overlap=2.0).widths[0] for e in (errors, mixed))
    assert_allclose(together / apart, np.exp(0.2), rtol=0.05)


def test_a_file_keeps_the_time_of_the_season(tmp_path):
    """A file stores which windows start at the time of the season that forecasts start at; new rows end that."""
    rng = np.random.default_rng(3)
    t = np.arange(96)
    df = pd.concat([one_series(f"s{i:03}", 50 + 5 * np.sin(t / 2) + rng.normal(size=96)) for i in range(260)])
    model = Forecaster("MS", h=4, candidates=["smoothing"]).fit(df)
    before = model.predict(level=[90])
    assert model._scores[4].cycle == 12
    model.save(tmp_path / "model.sb")
    loaded = softboost.load(tmp_path / "model.sb")
    pd.testing.assert_frame_equal(loaded.predict(level=[90]), before)
    scores = loaded._scores[4].grow(model.frame_.panel, np.arange(260), model.target_transforms_)
    assert (scores.cycle, scores.phase) == (1, 0)


def test_intervals_of_days_do_not_depend_on_whether_a_year_is_complete():
    """Series a bit longer than a year once had intervals many times as wide as those a bit shorter."""
    rng = np.random.default_rng(4)
    sizes = rng.permutation(np.arange(340, 460, 4))
    series = [100 * np.exp(0.01 * rng.normal(size=n).cumsum()) for n in sizes]
    days = pd.concat([
        pd.DataFrame({"unique_id": i, "ds": pd.date_range(end="2024-06-30", periods=len(y)), "y": y})
        for i, y in enumerate(series)
    ])  # fmt: skip
    forecast = Forecaster("D", h=14, candidates=["smoothing"]).fit(days).predict(level=[95])
    low, centre, high = (forecast.iloc[:, c].to_numpy().reshape(-1, 14) for c in (3, 2, 4))
    width = ((high - low) / centre).mean(axis=1)
    expected = 2 * 1.96 * 0.01 * np.sqrt(np.arange(1, 15)).mean()
    assert 0.8 * expected < np.median(width[sizes <= 365]) < 1.6 * expected
    assert 0.8 * expected < np.median(width[sizes > 365]) < 1.6 * expected
    assert width.max() < 3 * expected


def test_bounds_of_levels_do_not_cross_where_a_series_hardly_changes():
    """The own errors of a series that has changed once are zero at one level, and large at another."""
    rng = np.random.default_rng(0)
    step = one_series("step", np.r_[np.full(97, 10.0), np.full(3, 20.0)])
    other = one_series("walk", 50 + rng.normal(size=100).cumsum())
    forecast = Forecaster("MS", h=2).fit(pd.concat([step, other])).predict(level=[50, 80, 90, 95])
    widths = forecast.iloc[:, :-5:-1].to_numpy() - forecast.iloc[:, 3:7].to_numpy()
    assert (np.diff(widths, axis=1) <= 1e-9).all()


@pytest.mark.parametrize(
    "y", [*(np.full(40, c) for c in (7, 0.3, 1.1, 123.456, 99.9)), np.r_[np.full(57, 10), 20, 20, 20]]
)
def test_forecasts_lie_inside_their_bounds(y):
    """A series that has hardly changed, or never, has intervals of some width."""
    df = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("1950", periods=len(y), freq="YS"), "y": y})
    forecast = Forecaster("YS", h=6).fit(df).predict(level=[80, 95])
    low, high = forecast.iloc[:, 3:5].to_numpy(), forecast.iloc[:, 5:7].to_numpy()
    assert (low <= forecast.iloc[:, [2]].to_numpy()).all()
    assert (high >= forecast.iloc[:, [2]].to_numpy()).all()
    assert (high[:, ::-1] > low).all()


def test_bounds_of_logarithms_contain_the_forecast():
    """Logarithms and exponentials round, so that bounds of no width could miss the forecast."""
    forecast = np.array([[0.3], [1.1], [7.0], [99.9], [123.456]])
    scores = Scores(np.zeros((5, 30, 1)), np.zeros(5), logs=np.ones(5, dtype=bool), limits=np.ones(5))
    low, high = scores.bounds(forecast, [80.0], Chain([]), scores.pools([80.0]))
    assert (low[0] <= forecast).all()
    assert (high[0] >= forecast).all()


def test_a_series_in_other_units_leaves_the_intervals_of_the_others():
    rng = np.random.default_rng(0)
    small = pd.concat([one_series(f"s{i}", 50 + 0.5 * rng.normal(size=60).cumsum()) for i in range(10)])
    widths = []
    for size in (1e3, 1e10):
        large = one_series("large", size * np.random.default_rng(1).normal(size=60).cumsum())
        forecast = Forecaster("MS", h=6).fit(pd.concat([small, large])).predict(level=[95])
        widths.append((forecast.iloc[:, 4] - forecast.iloc[:, 3])[forecast["unique_id"] != "large"])
    assert_allclose(widths[1], widths[0], rtol=1e-6)
