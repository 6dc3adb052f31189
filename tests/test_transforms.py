"""Feature transforms: gradients of theta, initial values, projections, nested parameters, and errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression

import helpers
from softboost import SoftBoostRegressor
from softboost.transforms import TRANSFORMS, Diagonal, Linear, Transform, make_transform, supervised_directions

each_transform = pytest.mark.parametrize("transform", helpers.TRANSFORM_TABLE)


def started(transform, dtype=np.float64, n_samples=30, n_features=4):
    X, y = helpers.make_data(n_samples, n_features)
    X, target = X.astype(dtype), y[:, None].astype(dtype)
    return X, np.asarray(transform.start(X, target, np.random.default_rng(0)))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-4), (np.float64, 1e-8)])
@each_transform
def test_pullback_matches_finite_differences(transform, dtype, rtol):
    X, theta = started(transform)
    theta = theta + 0.1 * np.random.default_rng(1).normal(size=theta.shape)
    upstream = np.random.default_rng(2).normal(size=transform.apply(theta, X).shape)
    numeric, h = np.zeros_like(theta), 1e-6
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = h
        difference = transform.apply(theta + step, X) - transform.apply(theta - step, X)
        numeric[index] = (upstream * difference).sum() / (2 * h)
    got = transform.pullback(theta.astype(dtype), X.astype(dtype), upstream.astype(dtype))
    assert got.shape == theta.shape
    assert_allclose(got, numeric, rtol=rtol, atol=rtol * np.abs(numeric).max())


@each_transform
def test_matrix_is_the_transform_where_it_is_linear(transform):
    X, theta = started(transform)
    Q = transform.matrix(theta)
    if isinstance(transform, helpers.Fourier):
        assert Q is None
    else:
        assert_allclose(transform.apply(theta, X), X @ Q.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@each_transform
def test_start_keeps_the_precision_of_x(transform, dtype):
    if not isinstance(transform, helpers.Fourier):  # boosting converts the initial value of a custom transform
        assert started(transform, dtype)[1].dtype == dtype


@each_transform
def test_transform_is_a_scikit_learn_object(transform):
    params = transform.get_params()
    assert {"learning_rate", "n_steps"} <= set(params)
    assert clone(transform).get_params() == params


def test_identity_start_is_the_first_rows_of_the_identity():
    _, theta = started(Linear(n_components=2))
    assert_array_equal(theta, np.eye(2, 4))
    assert_array_equal(started(Linear())[1], np.eye(4))
    assert_array_equal(started(Diagonal())[1], np.ones(4))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_supervised_start_has_the_directions_of_partial_least_squares(n_outputs):
    X, y = helpers.make_data(80, 6, n_outputs)
    y = y.reshape(80, -1)
    Q = supervised_directions(X, y, 3)
    pls = PLSRegression(3, scale=False, tol=1e-12, max_iter=10_000).fit(X, y)
    for ours, theirs in zip(Q, pls.x_rotations_.T, strict=True):
        cosine = ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs))
        assert abs(cosine) == pytest.approx(1.0, abs=1e-5)
    assert_allclose(np.std(X @ Q.T, axis=0), 1.0, rtol=1e-10)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("X", [np.ones((10, 3)), np.zeros((10, 3)), np.repeat(np.arange(10.0)[:, None], 3, axis=1)])
def test_supervised_start_survives_columns_that_say_nothing(X, n_outputs):
    Q = supervised_directions(X, np.arange(10.0 * n_outputs).reshape(10, -1) % 3, 3)
    assert np.all(np.isfinite(Q))


def test_projection_shrinks_columns_together_and_to_zero():
    Q = np.array([[3.0, 0.1], [4.0, 0.0]])
    shrunk = Linear(group_lasso=2.0).project(Q, 0.5)
    assert_allclose(shrunk, [[2.4, 0.0], [3.2, 0.0]])
    assert_allclose(Diagonal(group_lasso=2.0).project(np.array([3.0, -0.5, -2.0]), 0.5), [2.0, 0.0, -1.0])
    assert Linear().project(Q, 0.5) is Q


def test_group_lasso_drops_columns_that_do_not_matter():
    X, y = helpers.make_data(100, 8, noise=0.05)
    dense = helpers.plain(feature_transform=Linear(2, "supervised")).fit(X, y)
    sparse = helpers.plain(feature_transform=Linear(2, "supervised", group_lasso=8.0)).fit(X, y)
    assert np.all(dense.transforms_[-1].any(axis=0))
    assert np.sum(sparse.transforms_[-1].any(axis=0)) < 8


def test_nested_parameters_reach_the_transform():
    model = SoftBoostRegressor(feature_transform=Linear(n_components=2))
    model.set_params(feature_transform__n_components=3, feature_transform__n_steps=7)
    assert model.get_params()["feature_transform__n_components"] == 3
    X, y = helpers.make_data()
    fitted = helpers.plain(feature_transform=Linear()).set_params(feature_transform__n_components=3).fit(X, y)
    assert [Q.shape for Q in fitted.transforms_] == [(3, 5)] * 8


def test_transform_of_the_user_is_not_changed_by_fit():
    X, y = helpers.make_data()
    transform = Linear(2, n_steps=5)
    before = dict(vars(transform))
    helpers.plain(feature_transform=transform).fit(X, y)
    assert vars(transform) == before


def test_own_transform_learns_and_predicts():
    X, y = helpers.make_data(100)
    model = helpers.plain(feature_transform=helpers.Fourier(n_steps=15), gates="random", random_state=0)
    model.fit(X, y)
    assert model.score(X, y) > 0.3
    staged = list(model.staged_predict(X))
    assert_allclose(staged[-1], model.predict(X), rtol=1e-10)
    assert model.transforms_[0].shape == (3, 5)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("quadratic", "feature_transform='quadratic' is not valid; choose None, 'auto', one of"),
        (Linear(n_components=0), "n_components must be None or an integer of at least 1, got 0"),
        (Linear(n_components=9), "n_components=9 exceeds the number of features; use at most 5"),
        (Linear(init="random"), "init must be 'identity' or 'supervised', got 'random'"),
        (Linear(group_lasso=-1.0), "group_lasso must not be negative, got -1.0"),
        (Linear(learning_rate=0.0), "learning_rate must be positive, got 0.0"),
        (Linear(n_steps=0), "n_steps must be an integer of at least 1, got 0"),
        (Diagonal(group_lasso=float("nan")), "group_lasso must not be negative, got nan"),
    ],
)
def test_bad_transforms_are_refused(transform, message):
    X, y = helpers.make_data()
    with pytest.raises(ValueError, match=message):
        SoftBoostRegressor(feature_transform=transform).fit(X, y)


def test_registry_makes_each_transform_by_name():
    for name, cls in TRANSFORMS.items():
        assert type(make_transform(name)) is cls
    assert make_transform(None) is None


def test_start_of_a_subclass_of_linear_is_used():
    class FromOnes(Linear):
        def start(self, X, target, rng):
            return np.ones((1, X.shape[1]))

    X = np.ones((4, 3))
    assert np.array_equal(FromOnes().start_weighted(X, X[:, :1], None, np.random.default_rng(0)), np.ones((1, 3)))


class Broken(helpers.Fourier):
    """Cosines with a mistake."""

    def __init__(self, mistake="none"):
        super().__init__(learning_rate=0.05, n_steps=3)
        self.mistake = mistake

    def apply(self, theta, X):
        z = super().apply(theta, X)
        return {"one dimension": z[:, 0], "too few rows": z[1:], "NaN": z * np.nan}.get(self.mistake, z)

    def pullback(self, theta, X, grad_z):
        gradient = super().pullback(theta, X, grad_z)
        return {"shape": gradient[:1], "NaN gradient": gradient * np.nan}.get(self.mistake, gradient)


@pytest.mark.parametrize("learner", ["greedy", "random", "lightgbm"])
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("one dimension", r"Broken: apply must return an array of shape .*\(60, n_components\), got \(60,\)"),
        ("too few rows", r"apply must return an array of shape .* got \(59, 3\)"),
        ("NaN", "gives values that are not finite; lower its learning_rate"),
        ("shape", r"Broken: pullback must return an array of the shape of theta \(3, 5\), got \(1, 5\)"),
        ("NaN gradient", "gives values that are not finite; lower its learning_rate"),
    ],
)
def test_mistakes_of_own_transforms_are_named(mistake, message, learner):
    X, y = helpers.make_data(60)
    model = helpers.plain(feature_transform=Broken(mistake))
    if learner == "lightgbm":
        pytest.importorskip("lightgbm")
        model = SoftBoostRegressor(3, 0.3, feature_transform=Broken(mistake), weak_learner="lightgbm")
    else:
        model.set_params(gates=learner, random_state=0)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_theta_may_be_a_number():
    class Scale(Transform):
        def start(self, X, target, rng):
            return np.array(1.0)

        def apply(self, theta, X):
            return X * theta

        def pullback(self, theta, X, grad_z):
            return (grad_z * X).sum()

    X, y = helpers.make_data(60)
    assert helpers.plain(feature_transform=Scale()).fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("gates", ["greedy", "random"])
def test_steps_that_are_far_too_long(gates):
    """Beside x, no move is kept; where trees and transform move together, the error says what to change."""
    make = pytest.importorskip("softboost.transforms._torch", reason="PyTorch is not installed").mlp
    X, y = helpers.make_data(60)
    model = helpers.plain(feature_transform=make(learning_rate=1e6), gates=gates, random_state=0)
    if gates == "random":
        with pytest.raises(ValueError, match="lower its learning_rate"):
            model.fit(X, y)
    else:
        assert np.isfinite(model.fit(X, y).predict(X)).all()
