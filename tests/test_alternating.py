"""Transforms that start where no transform is, and whose moves held rows confirm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import FixedIdentity, plain
from softboost import SoftBoostRegressor, load
from softboost._boost.alternating import CHECK_EVERY, AlternatingTrees, fold_of_rows, is_clear
from softboost._boost.gradient import AdamState
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import TrainingData
from softboost._choice import confirm
from softboost.transforms import Diagonal, Linear, Transform

N_FEATURES = 8


def index_rows(n_samples, seed=0, noise=0.05):
    """A smooth step along a direction of all columns, which trees on single columns represent badly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, N_FEATURES))
    s = X @ np.linspace(-1, 1, N_FEATURES) / np.sqrt(N_FEATURES)
    return X, np.tanh(3 * s) + noise * rng.normal(size=n_samples)


def noise_rows(n_samples, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, N_FEATURES)), rng.normal(size=n_samples)


def test_transform_that_helps_is_learned():
    X, y = index_rows(900)
    errors = {}
    for transform in (None, "linear"):
        model = plain(n_estimators=20, learning_rate=0.3, feature_transform=transform).fit(X[:500], y[:500])
        errors[transform] = np.mean((model.predict(X[500:]) - y[500:]) ** 2)
    assert errors["linear"] < 0.6 * errors[None]


def test_rejected_moves_leave_the_trees_of_no_transform():
    X, y = noise_rows(60)
    learner = AlternatingTrees(GreedyTrees(), required=100.0)
    data = TrainingData(np.ascontiguousarray(X.T), None)
    rng = np.random.default_rng(0)
    theta = np.eye(N_FEATURES)
    fitted = learner.fit(data, y[None], Linear(), theta, rng)
    plain_fit = GreedyTrees().fit(TrainingData(np.ascontiguousarray(X.T), None), y[None], None, None, rng)
    assert fitted.theta is theta
    assert_array_equal(fitted.output, plain_fit.output)


class StaysPut(FixedIdentity):
    """A transform that no step moves, and that counts the steps."""

    def pullback(self, theta, X, grad_z):
        self.n_pullbacks = getattr(self, "n_pullbacks", 0) + 1
        return super().pullback(theta, X, grad_z)


def test_steps_stop_when_the_held_rows_do_not_gain():
    X, y = noise_rows(120)
    learner, transform = AlternatingTrees(GreedyTrees()), StaysPut(n_steps=300)
    data = TrainingData(np.ascontiguousarray(X.T), None)
    fitted = learner.fit(data, y[None], transform, np.eye(N_FEATURES), np.random.default_rng(0))
    assert_array_equal(fitted.theta, np.eye(N_FEATURES))
    assert 0 < transform.n_pullbacks <= learner.patience + CHECK_EVERY


def test_plain_fit_equals_that_without_a_transform_until_it_moves():
    X, y = noise_rows(120)
    settings = {"depth": 2, "leaves": "linear", "gates": "greedy", "init": "constant", "random_state": 0}
    without, moved = (SoftBoostRegressor(6, 0.2, feature_transform=t, **settings).fit(X, y) for t in (None, "linear"))
    assert_allclose(moved.transforms_[-1], np.eye(X.shape[1]))
    assert_allclose(moved.predict(X), without.predict(X), rtol=1e-9)
    learner = moved.members_[0].boosted.recipe.learner
    assert learner.required == 2.0


def test_transform_on_pure_noise_costs_little():
    ratios = []
    for seed in range(4):
        X, y = noise_rows(460, seed)
        errors = []
        for transform in (None, "linear"):
            model = plain(n_estimators=10, learning_rate=0.2, feature_transform=transform).fit(X[:60], y[:60])
            errors.append(np.mean((model.predict(X[60:]) - y[60:]) ** 2))
        ratios.append(errors[1] / errors[0])
    assert np.mean(ratios) < 1.1


def test_moves_end_after_failures_and_after_the_limit():
    X, y = index_rows(200)
    counted = []

    class Counted(Linear):
        def starts_at_identity(self, n_features):
            return True

        def towards_identity(self, theta, amount):
            counted.append(amount)
            return super().towards_identity(theta, amount)

    data = TrainingData(np.ascontiguousarray(X.T), None)
    learner = AlternatingTrees(GreedyTrees(), max_moves=3, max_failures=2, required=1e9)
    for _ in range(6):
        learner.fit(data, y[None], Counted(n_steps=4), np.eye(N_FEATURES), np.random.default_rng(0))
    assert len(counted) == 2 * 4  # two moves of four steps were rejected
    counted.clear()
    learner = AlternatingTrees(GreedyTrees(), max_moves=3, max_failures=2, required=-1e9)
    data = TrainingData(np.ascontiguousarray(X.T), None)
    theta = np.eye(N_FEATURES)
    for _ in range(6):
        theta = learner.fit(data, y[None], Counted(n_steps=4), theta, np.random.default_rng(0)).theta
    assert len(counted) == 3 * 4
    counted.clear()
    learner = AlternatingTrees(GreedyTrees(), max_steps=6, required=-1e9)
    data = TrainingData(np.ascontiguousarray(X.T), None)
    for _ in range(6):
        theta = learner.fit(data, y[None], Counted(n_steps=4), theta, np.random.default_rng(0)).theta
    assert len(counted) == 6


def test_folds_hold_equal_rows_whatever_the_order_and_repeats():
    X = np.random.default_rng(0).normal(size=(5, 41))
    fold = fold_of_rows(X)
    assert np.bincount(fold).tolist() == [11, 10, 10, 10]
    order = np.random.default_rng(1).permutation(41)
    assert_array_equal(fold_of_rows(X[:, order]), fold[order])
    assert_array_equal(fold_of_rows(X[[3, 0, 4, 1, 2]]), fold)
    assert_array_equal(fold_of_rows(1e-290 * X), fold)
    assert_array_equal(fold_of_rows(np.repeat(X, 2, axis=1)), np.repeat(fold, 2))
    assert fold_of_rows(np.repeat(X[:, :7], 9, axis=1)) is None  # too few distinct rows


def test_moves_that_do_not_pay_are_not_made(monkeypatch):
    X, y = index_rows(200)
    moved = plain(n_estimators=8, feature_transform="linear").fit(X, y)
    assert np.abs(moved.transforms_[-1] - np.eye(N_FEATURES)).max() > 0.05
    monkeypatch.setattr(confirm, "REQUIRED", 1e9)
    still = plain(n_estimators=8, feature_transform="linear", warm_start=True).fit(X, y)
    assert_array_equal(still.transforms_[-1], np.eye(N_FEATURES))
    assert_allclose(still.predict(X), plain(n_estimators=8, feature_transform=None).fit(X, y).predict(X), rtol=1e-9)
    still.set_params(n_estimators=12).fit(X, y)  # nor do further rounds move it
    assert_array_equal(still.transforms_[-1], np.eye(N_FEATURES))


def test_few_validation_rows_take_more_folds(monkeypatch):
    fitted = []
    losses = confirm._losses
    monkeypatch.setattr(confirm, "_losses", lambda *args: fitted.append(args[1].sum()) or losses(*args))
    for n_rows, n_folds in ((100, 4), (500, 2), (1200, 1)):
        X, y = index_rows(n_rows)
        fitted.clear()
        plain(n_estimators=2, feature_transform="linear").fit(X, y)
        assert len(fitted) == 2 * n_folds  # with and without moves


def test_very_many_rounds_are_judged_by_some(monkeypatch):
    judged = []
    monkeypatch.setattr(confirm, "JUDGED_ROUNDS", 3)
    losses = confirm._losses
    monkeypatch.setattr(confirm, "_losses", lambda *args: judged.append(args[2].recipe.n_estimators) or losses(*args))
    X, y = index_rows(100)
    model = plain(n_estimators=6, feature_transform="linear").fit(X, y)
    assert set(judged) == {3}
    assert model.n_estimators_ == 6


def test_shared_steps_are_proportional_to_the_gradient():
    gradient = np.array([[1.0, -0.5], [0.01, 0.0]])
    step = AdamState(shared=True).step(np.zeros((2, 2)), gradient, 0.1, 1)
    assert_allclose(step, -0.1 * gradient, rtol=1e-6)


def test_gains_need_a_standard_error():
    gain, weight = np.array([1.0, -0.5, 0.4, 0.1]), np.ones(4)
    assert is_clear(gain, weight, 0.9)
    assert not is_clear(gain, weight, 1.0)
    assert is_clear(np.repeat(gain, 2), np.ones(8), 1.0) == is_clear(gain, 2 * weight, 1.0)


def test_weight_two_is_the_row_twice():
    X, y = index_rows(120)
    weight = np.random.default_rng(2).integers(1, 3, size=120)
    weighted = plain(n_estimators=8, feature_transform="linear").fit(X, y, sample_weight=weight)
    repeated = plain(n_estimators=8, feature_transform="linear").fit(np.repeat(X, weight, axis=0), y.repeat(weight))
    assert np.abs(weighted.transforms_[-1] - np.eye(N_FEATURES)).max() > 0.05  # it has moved
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


def test_penalty_pulls_q_to_the_identity():
    Q = np.random.default_rng(0).normal(size=(3, 3))
    assert_allclose(Linear().towards_identity(Q, 0.25), 0.75 * Q + 0.25 * np.eye(3))
    assert_allclose(Linear().towards_identity(Q, 5.0), np.eye(3))
    assert_array_equal(Transform().towards_identity(Q, 0.5), Q)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (Linear(), True),
        (Linear(3), True),
        (Linear(2), False),
        (Linear(3, "supervised"), False),
        (Linear(group_lasso=0.1), False),
        (Diagonal(), False),
        (Transform(), False),
    ],
)
def test_transforms_that_start_at_the_identity(transform, expected):
    assert transform.starts_at_identity(3) is expected


@pytest.mark.parametrize("settings", [{"init": "constant"}, {"n_estimators": 6}, {"n_estimators": 6, "depth": 1}])
def test_selection_includes_trees_without_the_transform(settings):
    X, y = index_rows(120)
    names = set(SoftBoostRegressor(feature_transform="linear", **settings).fit(X, y).choice_.losses)
    without = set(SoftBoostRegressor(feature_transform=None, **settings).fit(X, y).choice_.losses)
    assert names == without | {"linear"}


@pytest.mark.parametrize("transform", ["diagonal", Linear(group_lasso=0.1)], ids=str)
def test_few_rows_where_the_transform_does_not_help(transform):
    """Without a competitor, both had three times the error of no transform."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 20))
    y = np.abs(X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.3 * rng.normal(size=1100)
    errors = []
    for own in (None, transform):
        model = SoftBoostRegressor(n_estimators=30, feature_transform=own, random_state=0).fit(X[:100], y[:100])
        errors.append(np.mean((model.predict(X[100:]) - y[100:]) ** 2))
    assert errors[1] <= 1.1 * errors[0]


def test_rectangular_transform_with_a_number_of_rounds_has_no_competitor():
    X, y = index_rows(60)
    model = SoftBoostRegressor(n_estimators=3, feature_transform=Linear(2)).fit(X, y)
    assert model.choice_ is None
    assert len(model.transforms_) == 3


def test_order_of_the_columns_does_not_matter():
    X, y = index_rows(120)
    order = np.random.default_rng(1).permutation(N_FEATURES)
    given = SoftBoostRegressor(n_estimators=8, feature_transform="linear").fit(X, y)
    assert given.choice_.weights["linear"] > 0.5
    shuffled = SoftBoostRegressor(n_estimators=8, feature_transform="linear").fit(X[:, order], y)
    assert_allclose(shuffled.predict(X[:, order]), given.predict(X), rtol=0, atol=1e-9)


def test_model_goes_through_a_file(tmp_path):
    X, y = index_rows(100)
    model = plain(feature_transform="linear").fit(X, y)
    model.save(tmp_path / "model.softboost")
    assert_array_equal(load(tmp_path / "model.softboost").predict(X), model.predict(X))
