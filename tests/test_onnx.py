"""ONNX graphs against predict, on random models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

from helpers import Fourier
from softboost import SoftBoostRegressor
from softboost._file.onnx import onnx_model
from softboost.losses import Loss
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Diagonal, Linear

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")

STANDARD = {
    "Add", "Cast", "Clip", "Concat", "Exp", "Gather", "Gemm", "Identity", "IsNaN", "MatMul", "Max", "Min", "Mul", "Neg",
    "ReduceSum", "Reshape", "Sigmoid", "Slice", "Sqrt", "Squeeze", "Sub", "Unsqueeze", "Where",
}  # fmt: skip


def run(model, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        onnx_model(model._fitted).SerializeToString(), options, ["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X.astype(np.float32)})[0]


def assert_agrees(model, X, y):
    """Agreement to 1e-5 of the prediction or, near zero, of the standard deviation of y; both in float32."""
    want, got = model.predict(X.astype(np.float32)), run(model, X)
    assert got.dtype == np.float32
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.std(y))


def make_data(n, d, seed, n_outputs=1, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, :1]) + np.abs(X[:, -1:]) + 0.1 * rng.normal(size=(n, n_outputs))
    X[rng.random(X.shape) < holes] = np.nan
    return X, y if n_outputs > 1 else y[:, 0]


@settings(max_examples=120)
@given(
    depth=st.integers(1, 4),
    leaves=st.sampled_from(["constant", "linear"]),
    transform=st.sampled_from([None, "linear", "diagonal", "two"]),
    gates=st.sampled_from(["greedy", "random"]),
    init=st.sampled_from(["zero", "constant", "linear"]),
    standardize=st.booleans(),
    n_outputs=st.integers(1, 3),
    d=st.integers(2, 6),
    holes=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**16),
)
def test_agrees_on_random_models(depth, leaves, transform, gates, init, standardize, n_outputs, d, holes, seed):
    X, y = make_data(40, d, seed, n_outputs, holes)
    model = SoftBoostRegressor(
        3, 0.3, depth, feature_transform=Linear(2, n_steps=5) if transform == "two" else transform, leaves=leaves,
        gates=gates, init=init, standardize=standardize, n_steps=5, random_state=0,
    )  # fmt: skip
    model.fit(X, y)
    rows, _ = make_data(30, d, seed + 1, n_outputs, 0.2)
    assert_agrees(model, np.vstack([X, rows, np.full((1, d), np.nan)]), y)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**16), n_outputs=st.integers(1, 2), holes=st.sampled_from([0.0, 0.1]))
def test_agrees_on_chosen_models(seed, n_outputs, holes):
    X, y = make_data(50, 4, seed, n_outputs, holes)
    assert_agrees(SoftBoostRegressor().fit(X, y), X, y)


@pytest.mark.parametrize("loss", ["huber", "quantile", "log_cosh", "absolute_error", "poisson", "gamma", "tweedie"])
def test_agrees_for_losses(loss):
    X, y = make_data(60, 4, 3)
    y = 0.2 + np.abs(y)
    model = SoftBoostRegressor(5, 0.3, 2, loss=loss, feature_transform=None, init="constant").fit(X, y)
    assert_agrees(model, 3 * X, y)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_agrees_on_far_rows_of_a_log_link(loss):
    """The exponential of a raw prediction in float32 would be off by as much of itself as the prediction is off."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)).astype(np.float32)
    y = np.exp(X[:, 0] + 0.5 * np.abs(X[:, 1])) * rng.gamma(3, size=200)
    model = SoftBoostRegressor(loss=loss).fit(X.astype(np.float64), y)
    far = (X * rng.choice([1, 10, 1000, 1e6], size=(200, 1))).astype(np.float32)
    want = model.predict(far.astype(np.float64))
    assert want.max() > 10 * y.max()
    np.testing.assert_allclose(run(model, far), want, rtol=3e-7)


@pytest.mark.parametrize("make", [bsdt, bsdt_q])
def test_agrees_for_the_paper(make):
    X, y = make_data(60, 4, 3)
    assert_agrees(make(10, n_steps=20, random_state=0).fit(X, y), X, y)


def test_agrees_far_outside_where_predictions_are_bounded():
    X, y = make_data(60, 3, 5)
    model = SoftBoostRegressor().fit(X, y)
    assert model.units_.low is not None
    assert_agrees(model, X * 1e4, y)
    one = X.copy()
    one[:, 1] *= 1e4  # only a column is far outside its range, the prediction is not
    assert_agrees(model, one, y)


@pytest.mark.parametrize("loss", ["squared_error", "gamma"])
@pytest.mark.parametrize("size", [1e15, 3e18, 1e30])
def test_agrees_on_columns_of_any_size_without_limits(loss, size):
    """Prediction clips columns where larger ones could overflow; the graph clips them at the same place."""
    X, y = make_data(60, 4, 3)
    y = np.exp(y / np.std(y))
    assert_agrees(bsdt(5, n_steps=20, loss=loss, random_state=0).fit(X, y), (X * size).astype(np.float32), y)


def test_agrees_for_a_non_stationary_series():
    """The bounds of an anchored model are relative to the last value."""
    rng = np.random.default_rng(2)
    walk = np.cumsum(rng.normal(size=130)) + 50
    X, y = np.column_stack([walk[i : i + 120] for i in range(5)][::-1]), walk[5:125]
    model = SoftBoostRegressor().fit(X[:80], y[:80])
    assert any(member.anchor is not None for member in model.members_)
    rows = np.vstack([X, X + 30, X * [1, 3, 1, 1, 1], np.where(rng.random(X.shape) < 0.2, np.nan, X)])
    assert_agrees(model, rows, y)


def test_agrees_for_columns_of_other_scales():
    X, y = make_data(60, 3, 5)
    X = X * [1e-4, 1.0, 1e5] + [0.0, 10.0, 0.0]
    assert_agrees(SoftBoostRegressor(feature_transform=Diagonal()).fit(X, y), X, y)


def test_uses_standard_operators_only():
    X, y = make_data(60, 3, 5, holes=0.2)
    proto = onnx_model(SoftBoostRegressor().fit(X, y)._fitted)
    assert {node.op_type for node in proto.graph.node} <= STANDARD
    assert {node.domain for node in proto.graph.node} <= {""}
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 18)]


def test_writes_a_file_that_the_checker_accepts(tmp_path):
    X, y = make_data(60, 3, 5)
    model = SoftBoostRegressor().fit(X, y)
    model.to_onnx(tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (given_input,), (output,) = session.get_inputs(), session.get_outputs()
    assert (given_input.name, given_input.shape, output.name) == ("X", ["n_samples", 3], "prediction")
    for n in (0, 1, 200):
        assert session.run(None, {"X": np.zeros((n, 3), dtype=np.float32)})[0].shape == (n,)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


class Probit(Loss):
    def loss(self, y_true, raw_prediction):
        return 0.5 * (y_true - raw_prediction) ** 2

    def gradient(self, y_true, raw_prediction):
        return raw_prediction - y_true

    def inverse_link(self, raw_prediction):
        return np.tanh(raw_prediction)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"feature_transform": Fourier(n_steps=2)}, "Fourier is not linear"),
        ({"loss": Probit()}, "Probit has a custom inverse link"),
        ({"weak_learner": DecisionTreeRegressor(max_depth=2), "depth": "auto", "init": "auto"}, "not supported"),
        ({"categorical_features": [0]}, "categorical columns"),
    ],
)
def test_refuses_what_has_no_graph(params, message, tmp_path):
    X, y = make_data(40, 3, 5)
    X[:, 0] = np.round(X[:, 0])
    model = SoftBoostRegressor(
        **{"n_estimators": 2, "depth": 1, "init": "constant", "feature_transform": None, **params}
    )
    model.fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_names_all_columns_without_a_graph(tmp_path):
    days = pd.date_range("2020-01-01", periods=40, freq="9D")
    frame = pd.DataFrame({"x": np.arange(40.0), "day": days, "shop": ["a", "b"] * 20, "city": ["c", "d"] * 20})
    model = SoftBoostRegressor().fit(frame, np.arange(40.0))
    with pytest.raises(ValueError, match=r"categorical columns \['shop', 'city'\] and date columns \['day'\]"):
        model.to_onnx(tmp_path / "model.onnx")


def test_needs_a_fitted_model(tmp_path):
    with pytest.raises(NotFittedError):
        SoftBoostRegressor().to_onnx(tmp_path / "model.onnx")


def test_names_do_not_matter():
    X, y = make_data(40, 3, 5)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SoftBoostRegressor(2, 0.5, 1, feature_transform=None, init="constant").fit(frame, y)
    np.testing.assert_allclose(run(model, X), model.predict(frame), rtol=1e-5, atol=1e-5)
