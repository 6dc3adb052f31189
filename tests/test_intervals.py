"""Prediction intervals: coverage, shapes, links, files, calibration; ``test_weights.py`` tests their weights."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import RepeatedKFold

import helpers
from softboost import SoftBoostRegressor, load
from softboost._choice.spread import fit_log_size, fit_log_sizes
from softboost._file.container import dumps, loads
from softboost._model.intervals import Scores
from softboost.losses import Loss, Quantile

GOLDEN = Path(__file__).parent / "golden" / "0.1.0"


def noisy(n, seed=0):
    """A linear signal; the noise grows with the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, 3 * X[:, 1] + np.exp(3 * X[:, 0] - 2) * rng.normal(size=n)


def coverage(model, X, y, level=0.9):
    low, high = model.predict_interval(X, level).T
    return np.mean((low <= y) & (y <= high))


@pytest.fixture(scope="module")
def model():
    return SoftBoostRegressor().fit(*noisy(200))


def test_intervals_cover_new_rows_and_follow_the_noise(model):
    X, y = noisy(2000, 1)
    for level in (0.5, 0.8, 0.9):
        assert abs(coverage(model, X, y, level) - level) < 0.07
    low, high = model.predict_interval(X).T
    quiet, loud = X[:, 0] < 0.2, X[:, 0] > 0.8
    assert np.mean((high - low)[loud]) > 3 * np.mean((high - low)[quiet])
    assert coverage(model, X[loud], y[loud]) > 0.75
    assert coverage(model, X[quiet], y[quiet]) > 0.75


def test_widths_stay_constant_without_evidence():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    model = SoftBoostRegressor().fit(X, X[:, 0] + rng.normal(size=150))
    width = np.diff(model.predict_interval(X), axis=1)
    assert width.max() < 1.5 * width.min()


def test_skewed_errors_give_skewed_intervals():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(300, 2)), rng.exponential(size=300)
    model = SoftBoostRegressor().fit(X, X[:, 0] + noise)
    low, high = model.predict_interval(X).T
    assert np.all(high - model.predict(X) > 1.5 * (model.predict(X) - low))


def test_shapes(model):
    X, _ = noisy(7, 2)
    assert model.predict_interval(X).shape == (7, 2)
    assert model.predict_interval(X, [0.5, 0.8, 0.9]).shape == (7, 2, 3)
    assert model.predict_quantiles(X).shape == (7, 3)
    assert model.predict_quantiles(X, 0.5).shape == (7,)
    assert_array_equal(model.predict_interval(X, [0.8])[:, :, 0], model.predict_interval(X, 0.8))
    assert_allclose(model.predict_interval(X, 0.8), model.predict_quantiles(X, [0.1, 0.9]))


def test_several_outputs_have_their_own_widths():
    X, y = helpers.make_data(80)
    Y = np.column_stack([y, 100 * y + np.random.default_rng(0).normal(size=80) * 100])
    model = SoftBoostRegressor().fit(X, Y)
    interval = model.predict_interval(X, [0.5, 0.9])
    assert interval.shape == (80, 2, 2, 2)
    assert model.predict_interval(X).shape == (80, 2, 2)
    assert model.predict_quantiles(X, [0.1, 0.5, 0.9]).shape == (80, 2, 3)
    width = (interval[:, :, 1] - interval[:, :, 0]).mean(axis=0)
    assert np.all(width[1] > 50 * width[0])


@pytest.mark.parametrize("n", [2, 3, 8, 60])
def test_quantiles_never_cross(n):
    X, y = noisy(n)
    model = SoftBoostRegressor().fit(X, y)
    quantiles = model.predict_quantiles(noisy(50, 1)[0], np.linspace(0.001, 0.999, 200))
    assert np.isfinite(quantiles).all()
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    assert np.all(quantiles[:, -1] > quantiles[:, 0])


def test_one_row_gives_no_intervals():
    model = SoftBoostRegressor().fit([[1.0]], [2.0])
    with pytest.raises(ValueError, match=r"no prediction intervals.*call calibrate\(X, y\)"):
        model.predict_interval([[1.0]])


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_units_of_y_do_not_matter(scale):
    X, y = noisy(60)
    expected = SoftBoostRegressor().fit(X, y).predict_interval(X)
    assert_allclose(SoftBoostRegressor().fit(X, y * scale).predict_interval(X) / scale, expected, rtol=1e-6)


def test_single_precision():
    X, y = noisy(60)
    interval = SoftBoostRegressor().fit(X.astype(np.float32), y).predict_interval(X.astype(np.float32))
    assert interval.dtype == np.float32
    assert np.all(interval[:, 0] < interval[:, 1])


# -- weights -----------------------------------------------------------------------------------------------------------


def test_quantile_function_of_weighted_scores():
    values, weight = np.array([[3.0, -1.0, 0.5, 2.0]]), np.array([1.0, 3.0, 2.0, 1.0])
    p = np.linspace(0.01, 0.99, 99)
    repeated = Scores.learn(np.repeat(values, weight.astype(int), axis=1), None)
    assert_allclose(Scores.learn(values, weight).quantiles(p), repeated.quantiles(p))
    assert_allclose(repeated.quantiles(np.arange(1, 8) / 8)[0], np.sort(np.repeat(values[0], weight.astype(int))))


def test_many_scores_are_thinned():
    scores = np.random.default_rng(0).normal(size=(1, 20_000))
    thin = Scores.learn(scores, None)
    assert thin.value.shape == (1, 4096)
    assert_allclose(thin.quantiles(np.array([0.05, 0.5, 0.95]))[0], np.quantile(scores, [0.05, 0.5, 0.95]), atol=2e-3)


def test_wide_and_narrow_features_give_the_same_size_of_errors():
    rng = np.random.default_rng(0)
    F, weight = rng.normal(size=(8, 12)), rng.uniform(1, 3, size=12)
    size = np.exp(F[0] + rng.normal(size=12))
    slopes, intercept = fit_log_size(np.concatenate([F, np.zeros((10, 12))]), size, weight, 5.0)
    expected = fit_log_size(F, size, weight, 5.0)
    assert_allclose(slopes[:8], expected[0], rtol=1e-9)
    assert_allclose(intercept, expected[1], rtol=1e-9)


# -- losses ------------------------------------------------------------------------------------------------------------


class Logistic(Loss):
    """Squared error of a probability."""

    def inverse_link(self, raw_prediction):
        return 1 / (1 + np.exp(-np.clip(raw_prediction, -50, 50)))

    def loss(self, y_true, raw_prediction):
        return 0.5 * (y_true - self.inverse_link(raw_prediction)) ** 2

    def gradient(self, y_true, raw_prediction):
        p = self.inverse_link(raw_prediction)
        return (p - y_true) * p * (1 - p)


@pytest.mark.parametrize("n_features", [3, 40])  # fewer and more columns than rows
def test_sizes_of_several_folds_are_fitted_at_once(n_features):
    rng = np.random.default_rng(0)
    features, size = rng.normal(size=(n_features, 30)), rng.exponential(size=30)
    weights = rng.uniform(0.5, 2.0, size=30) * (np.arange(30) % 3 != np.arange(3)[:, None])
    slopes, intercepts = fit_log_sizes(features, size, weights, 2.0)
    for k, weight in enumerate(weights):
        there = weight > 0
        own, intercept = fit_log_size(features[:, there], size[there], weight[there], 2.0)
        assert_allclose(slopes[k], own, rtol=1e-9, atol=1e-12)
        assert_allclose(intercepts[k], intercept, rtol=1e-9)


def test_intervals_stay_in_the_range_of_the_link():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    counts = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = SoftBoostRegressor(loss="poisson").fit(X, counts)
    low, high = model.predict_interval(X, 0.95).T
    assert low.min() == 0.0
    assert coverage(model, X, counts) > 0.88
    busy = X[:, 0] > 1
    assert np.mean((high - low)[busy]) > 2 * np.mean((high - low)[X[:, 0] < -1])
    share = SoftBoostRegressor(loss=Logistic()).fit(X, (X[:, 0] + rng.normal(size=80) > 0).astype(float))
    interval = share.predict_interval(X, [0.5, 0.9, 0.99])
    assert interval.min() >= 0.0
    assert interval.max() <= 1.0


def test_intervals_of_a_quantile_model_are_around_y_not_around_the_quantile():
    X, y = noisy(200)
    model = SoftBoostRegressor(loss=Quantile(0.9)).fit(X, y)
    assert abs(coverage(model, *noisy(1000, 1)) - 0.9) < 0.06


# -- other fits --------------------------------------------------------------------------------------------------------


def test_repeated_folds_count_each_row_once():
    X, y = noisy(60)
    repeated = SoftBoostRegressor(cv=RepeatedKFold(n_splits=3, n_repeats=3, random_state=0)).fit(X, y)
    assert repeated._fitted.intervals.scores.total == 60


def test_plain_fits_need_calibration():
    X, y = noisy(300)
    model = helpers.plain().fit(X[:150], y[:150])
    with pytest.raises(ValueError, match=r"call calibrate\(X, y\)"):
        model.predict_interval(X)
    before = model.predict(X)
    assert model.calibrate(X[150:], y[150:]) is model
    assert_array_equal(model.predict(X), before)
    assert abs(coverage(model, *noisy(1000, 1)) - 0.9) < 0.06
    with pytest.raises(ValueError, match="at least two rows"):
        model.calibrate(X[:1], y[:1])
    weight = np.random.default_rng(0).integers(1, 3, size=150)
    one = helpers.plain().fit(X[:150], y[:150]).calibrate(X[150:], y[150:], sample_weight=weight)
    assert one._fitted.intervals.scores.total == weight.sum()


def test_partial_fit_keeps_intervals(model):
    X, y = noisy(40, 3)
    later = SoftBoostRegressor().partial_fit(*noisy(60)).partial_fit(X, y)
    assert later.predict_interval(X).shape == (40, 2)


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (90, r"level must be between 0 and 1, got 90; for 90 percent pass level=0.9"),
        (0.0, "level must be between 0 and 1, got 0"),
        ([0.5, 1.0], "level must be between 0 and 1, got 1"),
        ([], "level must be a number between 0 and 1 or a list of numbers"),
        ("all", "level must be a number between 0 and 1 or a list of numbers, got 'all'"),
    ],
)
def test_levels_are_checked(model, level, message):
    with pytest.raises(ValueError, match=message):
        model.predict_interval(noisy(3)[0], level)


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_hold_intervals(model):
    X, _ = noisy(50, 1)
    assert_array_equal(loads(dumps(model)).predict_interval(X), model.predict_interval(X))


def test_older_files_load_and_say_what_to_do():
    model = load(GOLDEN / "default.softboost")
    with pytest.raises(ValueError, match=r"older version; call calibrate"):
        model.predict_interval(np.zeros((1, model.n_features_in_)))
