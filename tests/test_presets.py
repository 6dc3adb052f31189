"""The presets are exactly Algorithm 1, compared with an implementation in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import helpers
import reference
from softboost import SoftBoostRegressor
from softboost.presets import bsdt, bsdt_q

PRESETS = [pytest.param(bsdt, id="bsdt"), pytest.param(bsdt_q, id="bsdt_q")]


def algorithm_1(X, y, n_estimators, depth, n_steps, n_components, learning_rate, seed):
    """y_hat_0 = 0, Q_0 = I; each round fits tree and Q to the residual; returns y_hat after each round and all Q."""
    x, rng = X.T, np.random.default_rng(seed)
    Q = None if n_components is None else np.eye(n_components, len(x))
    prediction, staged, Qs = np.zeros(len(y)), [], []
    for _ in range(n_estimators):
        residual = y - prediction
        size = np.sqrt(np.mean(residual**2))
        n_gates, width = 2**depth - 1, len(x) if Q is None else len(Q)
        bound = 1 / np.sqrt(width)
        weights = rng.uniform(-bound, bound, size=(n_gates, width))
        bias = rng.uniform(-bound, bound, size=n_gates)
        values = rng.uniform(-0.1, 0.1, size=(n_gates + 1, 1))
        fitted, output, _ = reference.fit_joint(
            x, (residual / size)[None], None, kind="identity" if Q is None else "linear", n_steps=n_steps, depth=depth,
            q=np.zeros(0) if Q is None else Q, gate_weights=weights, gate_bias=bias, leaf_values=values,
        )  # fmt: skip
        Q = None if Q is None else fitted["q"]
        prediction = prediction + learning_rate * size * output[0]
        staged.append(prediction)
        Qs.append(Q)
    return staged, Qs


@pytest.mark.parametrize("n_components", [None, 2, 3])
def test_preset_is_algorithm_1(n_components):
    X, y = helpers.make_data(25, 3)
    y = y + 5.0
    settings = {"n_estimators": 4, "learning_rate": 0.7, "depth": 2, "n_steps": 8, "random_state": 7}
    model = bsdt(**settings) if n_components is None else bsdt_q(n_components=n_components, **settings)
    model.fit(X, y)
    expected, Qs = algorithm_1(X, y, 4, 2, 8, n_components, 0.7, 7)
    for got, wanted in zip(model.staged_predict(X), expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)
    if n_components is None:
        assert model.transforms_ == []
    else:
        for got, wanted in zip(model.transforms_, Qs, strict=True):
            assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("make", PRESETS)
def test_training_loss_falls_round_by_round_and_stages_end_in_predict(make):
    X, y = helpers.make_data(80)
    model = make(n_estimators=12, n_steps=60, random_state=0).fit(X, y)
    errors = [np.mean((y - stage) ** 2) for stage in model.staged_predict(X)]
    assert np.all(np.diff([np.mean(y**2), *errors]) < 0)
    assert_allclose(np.array(model.evals_result_["train"]), 0.5 * np.array(errors), rtol=1e-8)
    *_, last = model.staged_predict(X)
    assert_allclose(last, model.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", PRESETS)
def test_k_th_tree_is_fitted_to_the_residual_of_the_first(make):
    X, y = helpers.make_data(60)
    model = make(n_estimators=5, n_steps=40, random_state=1).fit(X, y)
    stages = [np.zeros(60), *model.staged_predict(X)]
    for k in range(5):
        residual, added = y - stages[k], stages[k + 1] - stages[k]
        assert np.corrcoef(residual, added)[0, 1] > 0.3  # a tree fitted to y itself fails this after a few rounds
        assert np.mean((residual - added) ** 2) < np.mean(residual**2)


@pytest.mark.parametrize("make", PRESETS)
def test_preset_takes_columns_and_target_as_they_come(make):
    X, y = helpers.make_data(40)
    model = make(n_estimators=3, n_steps=10, random_state=0).fit(X, y)
    assert_array_equal(model.units_.centre, 0.0)
    assert_array_equal(model.units_.spread, 1.0)
    assert_array_equal(model.units_.y_centre, 0.0)
    assert_array_equal(model.units_.y_spread, 1.0)
    assert model.choice_ is None
    assert len(model.members_) == 1
    assert all(tree.leaf_weights is None for tree in model.trees_)
    assert np.all(model.members_[0].linear.coefficients == 0)
    assert np.all(model.members_[0].linear.intercepts == 0)


def test_rectangular_q_starts_from_the_first_rows_of_the_identity():
    X, y = helpers.make_data(40)
    model = bsdt_q(n_estimators=3, n_steps=1, n_components=2, transform_learning_rate=1e-6, random_state=0).fit(X, y)
    assert_allclose(model.transforms_[-1], np.eye(2, 5), atol=1e-4)
    assert [tree.gate_weights.shape for tree in model.trees_] == [(7, 2)] * 3


def test_parameters_of_presets_reach_the_model():
    model = bsdt_q(7, 0.4, 2, 33, n_components=3, transform_learning_rate=0.1, random_state=5, n_jobs=2, loss="huber")
    assert isinstance(model, SoftBoostRegressor)
    params = model.get_params()
    assert params["n_estimators"] == 7
    assert params["learning_rate"] == 0.4
    assert params["depth"] == 2
    assert params["n_steps"] == 33
    assert params["feature_transform__n_steps"] == 33
    assert params["feature_transform__n_components"] == 3
    assert params["feature_transform__learning_rate"] == 0.1
    assert params["random_state"] == 5
    assert params["n_jobs"] == 2
    assert params["loss"] == "huber"


def test_no_transform_equals_a_fixed_identity():
    X, y = helpers.make_data(50)
    plain = bsdt(n_estimators=4, n_steps=15, random_state=3).fit(X, y)
    identity = bsdt(n_estimators=4, n_steps=15, random_state=3)
    identity.set_params(feature_transform=helpers.FixedIdentity(n_steps=15)).fit(X, y)
    assert_allclose(identity.predict(X), plain.predict(X), rtol=1e-7, atol=1e-8)
