"""The parts of the forecasting layer: features, target transforms, intervals, each against a plain calculation."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pandas as pd
import pytest
from coreforecast import lag_transforms as kernels
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from softboost.forecast import (
    Differences,
    ExpandingMean,
    ExponentiallyWeightedMean,
    Forecaster,
    LocalMinMaxScaler,
    LocalRobustScaler,
    LocalStandardScaler,
    Log,
    RollingMax,
    RollingMean,
    RollingMin,
    RollingQuantile,
    RollingStd,
    SeasonalRollingMean,
    lag_transforms,
)
from softboost.forecast._fallback import naive
from softboost.forecast._features import Features, choose_features, season_of
from softboost.forecast._intervals import conformal_widths, panel_widths, pool_errors
from softboost.forecast._panel import Panel, ranges
from softboost.forecast.target_transforms import Chain, read_target_transforms

INDPTR = np.array([0, 30, 42, 60])


def values(seed=0):
    return 10 + np.random.default_rng(seed).normal(size=INDPTR[-1]).cumsum() * 0.3


def series_of(y):
    return [pd.Series(part) for part in np.split(y, INDPTR[1:-1])]


STATISTICS = [
    (RollingMean(4), lambda s: s.shift(2).rolling(4).mean()),
    (RollingMean(4, min_samples=2), lambda s: s.shift(2).rolling(4, min_periods=2).mean()),
    (RollingStd(5), lambda s: s.shift(2).rolling(5).std()),
    (RollingMin(3), lambda s: s.shift(2).rolling(3).min()),
    (RollingMax(3), lambda s: s.shift(2).rolling(3).max()),
    (RollingQuantile(0.5, 5), lambda s: s.shift(2).rolling(5).median()),
    (SeasonalRollingMean(4, 2), lambda s: (s.shift(2) + s.shift(6)) / 2),
    (ExpandingMean(), lambda s: s.shift(2).expanding().mean()),
    (ExponentiallyWeightedMean(0.3), lambda s: s.shift(2).ewm(alpha=0.3, adjust=False).mean()),
]


@pytest.mark.parametrize(
    ("transform", "expected"), STATISTICS, ids=lambda p: repr(p) if dataclasses.is_dataclass(p) else ""
)
def test_lag_transforms_match_pandas(transform, expected):
    y = values()
    got = Features([], {2: [transform]}).of_rows(y, INDPTR)[:, 0]
    assert_allclose(got, np.concatenate([expected(s) for s in series_of(y)]), rtol=1e-9)


def test_lag_transforms_have_the_kernels_words():
    for name in lag_transforms.__all__:
        parameters = inspect.signature(getattr(kernels, name).__init__).parameters
        assert {f.name for f in dataclasses.fields(getattr(lag_transforms, name))} <= set(parameters)


def test_ahead_gives_the_columns_of_the_rows_to_come():
    """Step by step, as in recursive forecasting, equals computing the columns of the longer series at once."""
    features = Features([1, 3, 8], {2: [t for t, _ in STATISTICS]})
    y = values()
    whole = features.of_rows(y, INDPTR)
    panel = Panel(y, INDPTR, np.arange(len(y)), np.empty((len(y), 0)), np.empty((3, 0)))
    history = panel.cut(4)
    ahead = features.ahead(history.y, history.indptr)
    for step in range(4):
        assert_allclose(ahead.columns(), whole[INDPTR[1:] - 4 + step], rtol=1e-9)
        ahead.append(y[INDPTR[1:] - 4 + step])


def test_lags_keep_leading_rows_as_nan():
    X = Features([1, 2], {}).of_rows(values(), INDPTR)
    assert len(X) == INDPTR[-1]
    assert np.isnan(X[INDPTR[:-1]]).all()
    assert np.isnan(X).sum() == 3 * (1 + 2)


def test_calendar_takes_words_and_functions():
    times = pd.date_range("2020-01-30", periods=5, freq="D").to_numpy()
    got = Features(date_features=["month", "dayofweek", lambda index: index.day % 2]).calendar(times)
    assert_array_equal(got, [[1, 3, 0], [1, 4, 1], [2, 5, 1], [2, 6, 0], [2, 0, 1]])


@pytest.mark.parametrize(
    ("freq", "season"),
    [("h", 24), ("1h", 24), ("D", 7), ("1d", 7), ("B", 5), ("W-SUN", 52), ("MS", 12), ("ME", 12), ("1mo", 12),
     ("3mo", 4), ("QS", 4), ("QE-DEC", 4), ("1q", 4), ("YS", 1), ("15min", 96), ("30m", 48), (1, 1), ("2h", 12)],
)  # fmt: skip
def test_season_follows_from_frequency(freq, season):
    assert season_of(freq)[0] == season


def test_chosen_features_follow_length():
    short, long = choose_features("MS", 12, 12, True), choose_features("MS", 12, 120, True)
    assert max(short.lags) == 2
    assert not short.date_features
    assert {1, 12, 24} <= set(long.lags)
    assert long.date_features == ["month"]
    assert choose_features(1, 1, 100, False).date_features == []


def test_bad_lag_and_bad_transform_are_named():
    with pytest.raises(ValueError, match="got 0; 1 is the previous value"):
        Features([0])
    with pytest.raises(ValueError, match=r"lag_transforms\[1\] contains 'mean'"):
        Features([], {1: ["mean"]}).kernels()


# -- target transforms -------------------------------------------------------------------------------------------

TRANSFORMS = [
    [Log()],
    [Log(offset=1.0)],
    [Differences([1])],
    [Differences([1, 4])],
    [LocalStandardScaler()],
    [LocalMinMaxScaler()],
    [LocalRobustScaler("mad")],
    [Log(), Differences([4, 1]), LocalStandardScaler()],
    [LocalStandardScaler(), Differences([1])],
]


@pytest.mark.parametrize("steps", TRANSFORMS, ids=repr)
def test_target_transforms_are_undone(steps):
    """Transforming history and future together, and taking the future part back, gives the future."""
    y = values()
    panel = Panel(y, INDPTR, np.arange(len(y)), np.empty((len(y), 0)), np.empty((3, 0)))
    history, (future, _) = panel.cut(3), panel.windows(3, 3)
    fitted = Chain(steps).fit(history.y, history.indptr)
    z, _ = fitted.apply(y, INDPTR)
    _, inverse = fitted.apply(history.y, history.indptr)
    assert_allclose(inverse(z[(INDPTR[1:] - 3)[:, None] + np.arange(3)]), future, rtol=1e-10)
    assert np.isnan(z).sum() == 3 * Chain(steps).n_lost


def test_scalers_learn_each_series_from_training_rows_only():
    y = values()
    stats = LocalStandardScaler().fit(y, INDPTR).stats_
    assert_allclose(stats[:, 0], [s.mean() for s in series_of(y)])
    assert_allclose(stats[:, 1], [s.std(ddof=0) for s in series_of(y)])


@pytest.mark.parametrize("scaler", [LocalStandardScaler(), LocalMinMaxScaler(), LocalRobustScaler()], ids=repr)
def test_scalers_survive_constant_series(scaler):
    y = np.full(10, 0.1)
    z, inverse = scaler.fit(y, np.array([0, 10])).apply(y, np.array([0, 10]))
    assert_allclose(z, 0, atol=1e-12)
    assert_allclose(inverse(np.zeros((1, 2))), 0.1)


def test_log_refuses_what_it_cannot_take():
    with pytest.raises(ValueError, match="smallest y is -1; use a larger offset"):
        Log().apply(np.array([1.0, -1.0]), np.array([0, 2]))


@pytest.mark.parametrize("offset", [0.0, 1.0, -5.0, 1e6])
def test_log_can_take_what_it_gave_back(offset):
    """However low a forecast is on its scale: intervals are made there, from the forecast itself."""
    _, inverse = Log(offset).apply(np.array([6.0, 7.0]), np.array([0, 2]))
    forecast = inverse(np.array([[-1e300, -800.0, -40.0, 0.0, 800.0, 1e300]]))
    z, _ = Chain([Log(offset)]).link(forecast)
    assert np.isfinite(z).all()


def test_target_transforms_read_mlforecasts_words():
    module = pytest.importorskip("mlforecast.target_transforms", reason="mlforecast is not installed")
    chain = read_target_transforms([module.Differences([1, 4]), module.LocalStandardScaler()])
    assert [type(step) for step in chain.steps] == [Differences, LocalStandardScaler]
    assert chain.n_lost == 5
    with pytest.raises(ValueError, match="use transforms of softboost"):
        read_target_transforms([object()])


# -- panels and fallback -----------------------------------------------------------------------------------------


def test_ranges_lists_every_range():
    assert_array_equal(ranges(np.array([3, 0, 7]), np.array([5, 0, 8])), [3, 4, 7])


def test_naive_repeats_the_season_or_the_last_value():
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    panel = Panel(y, np.array([0, 4, 6]), np.arange(6), np.empty((6, 0)), np.empty((2, 0)))
    assert_array_equal(naive(panel, 3, 5), [[2, 3, 4, 2, 3], [6, 6, 6, 6, 6]])


# -- intervals ---------------------------------------------------------------------------------------------------


def test_twenty_errors_give_a_95_percent_interval():
    errors = np.random.default_rng(0).normal(size=20)
    assert conformal_widths(errors, [95])[0] == np.abs(errors).max()
    assert conformal_widths(errors[:10], [95])[0] > np.abs(errors[:10]).max()


def test_widths_cover_as_often_as_they_say():
    """Over many draws of 20 errors and a new one, coverage is at least the level and not much above."""
    errors = np.random.default_rng(1).standard_t(4, size=(21, 20000))
    for level, width in zip([50, 80, 95], conformal_widths(errors[:20], [50, 80, 95]), strict=True):
        coverage = np.mean(np.abs(errors[20]) <= width)
        assert level / 100 - 0.01 <= coverage <= (level + 5) / 100 + 0.01


def test_few_errors_fall_back_to_student():
    errors = np.random.default_rng(2).normal(size=(7, 20000))
    coverage = np.mean(np.abs(errors[6]) <= conformal_widths(errors[:6], [95])[0])
    assert 0.94 <= coverage <= 0.975


@given(
    n=st.integers(1, 40),
    levels=st.lists(st.floats(1, 99.9), min_size=2, max_size=5, unique=True),
    seed=st.integers(0, 2**16),
)
def test_widths_never_cross(n, levels, seed):
    errors = np.random.default_rng(seed).standard_cauchy(size=(n, 3))
    errors[np.random.default_rng(seed).random(errors.shape) < 0.2] = np.nan
    widths = conformal_widths(errors, sorted(levels))
    assert (widths[1:] >= widths[:-1]).all()
    assert_array_equal(np.isinf(widths[0]), np.isnan(errors).all(axis=0))


def test_pooled_widths_follow_the_scale_of_each_series():
    """Series with few windows borrow from the others; coverage holds though scales differ a thousand times."""
    rng = np.random.default_rng(3)
    scales = 10 ** rng.uniform(-1, 2, size=3000)
    errors = rng.normal(size=(3000, 2, 1)) * scales[:, None, None]
    widths = panel_widths(errors, scales, [80, 95], pool_errors(errors, scales, [80, 95]))
    new = np.abs(rng.normal(size=3000) * scales)
    for level, width in zip([80, 95], widths[:, :, 0], strict=True):
        assert abs(np.mean(new <= width) - level / 100) < 0.015
    assert np.corrcoef(np.log(widths[0, :, 0]), np.log(scales))[0, 1] > 0.95


def test_one_wild_window_hardly_widens_the_intervals_of_its_series():
    """One error of a thousand times the usual size is an outlier, not the scale of the series."""
    rng = np.random.default_rng(4)
    errors, scales = rng.normal(size=(200, 8, 4)), np.ones(200)
    wild = errors.copy()
    wild[0, 2] *= 1000
    usual, widened = (
        panel_widths(e, scales, [95], pool_errors(e, scales, [95], 4.0), 4.0)[0, 0] for e in (errors, wild)
    )
    assert (widened < 40 * usual).all()
    assert (widened > usual).all()


def test_one_wild_change_in_the_history_does_not_decide_the_width():
    """A scale that its own errors contradict counts for less than one that they confirm."""
    rng = np.random.default_rng(5)
    errors, scales = rng.normal(size=(200, 8, 4)), np.ones(200)
    wild = scales.copy()
    wild[0] = 1000.0
    usual, widened = (panel_widths(errors, s, [95], pool_errors(errors, s, [95]), 1.0)[0, 0] for s in (scales, wild))
    assert (widened < 150 * usual).all()


# -- what a frame must hold ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (
            {"firm": ["a"], "year": [1], "y": [1.0]},
            "no column \\['unique_id', 'ds'\\]; it has \\['firm', 'year', 'y'\\]",
        ),
        (
            {"unique_id": "a", "ds": [1.0, 2.0, 2.5], "y": 1.0},
            "'ds' must contain dates or integers, but row 2 is 2.5",
        ),
        ({"unique_id": "a", "ds": ["2024-01-01", "soon"], "y": 1.0}, "'ds' must contain dates .* row 1 is 'soon'"),
    ],
)
def test_frames_without_the_right_columns_are_told_what_to_do(frame, says):
    with pytest.raises(ValueError, match=says):
        Forecaster(h=1).fit(pd.DataFrame(frame))


def test_a_model_that_is_none_is_named():
    frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(30), "y": 1.0})
    with pytest.raises(ValueError, match=r"model must be a scikit-learn regressor, .* got 'lightgbm'"):
        Forecaster(h=1, model="lightgbm").fit(frame)


def test_the_time_that_was_expected_is_shown_as_the_frame_shows_times():
    days = pd.date_range("2024-01-01", periods=30).delete(7)
    with pytest.raises(ValueError, match=r"but freq='D' expects 2024-01-08\."):
        Forecaster(freq="D").fit(pd.DataFrame({"unique_id": "a", "ds": days, "y": 1.0}))


def test_whole_numbers_stored_as_floats_are_times():
    years = np.arange(1950.0, 1990.0)
    frame = pd.DataFrame({"unique_id": "a", "ds": years, "y": np.sin(years)})
    forecast = Forecaster(h=2, scope="local", target_transforms=None).fit(frame).predict()
    assert forecast["ds"].tolist() == [1990, 1991]


@pytest.mark.parametrize(
    ("transform", "by_hand"),
    [
        (lag_transforms.RollingMean(3), lambda past: past[-3:].mean() if len(past) >= 3 else np.nan),
        (lag_transforms.RollingMax(3, min_samples=1), lambda past: past[-3:].max() if len(past) else np.nan),
        (lag_transforms.RollingQuantile(0.5, 3), lambda past: np.median(past[-3:]) if len(past) >= 3 else np.nan),
        (lag_transforms.SeasonalRollingMean(2, 2), lambda past: past[[-1, -3]].mean() if len(past) >= 3 else np.nan),
        (lag_transforms.ExpandingMin(), lambda past: past.min() if len(past) else np.nan),
    ],
)
def test_lag_transforms_show_their_column(transform, by_hand):
    y = np.random.default_rng(0).normal(size=12)
    np.testing.assert_allclose(transform(y), [by_hand(y[:t]) for t in range(len(y))])
    np.testing.assert_allclose(transform(y, lag=2), [np.nan, *transform(y)[:-1]])
