"""Soft trees: derivatives against finite differences and autograd, leaves, multiplication with Q, weak learners."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import helpers
import reference
from softboost import _kernels
from softboost._boost.gradient import GradientTrees
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import TrainingData, apply_transform, ridge_leaves
from softboost._boost.soft_tree import SoftTree
from softboost.transforms import Diagonal, Linear

NAMES = ["gate_weights", "gate_bias", "leaf_values", "leaf_weights", "z"]
seeds = st.integers(0, 2**16)


def soft_tree(depth=2, n_components=3, n_outputs=2, n_samples=7, dtype=np.float64, seed=0, linear=True):
    z, *arrays = helpers.random_tree(depth, n_components, n_outputs, n_samples, dtype, seed, linear)
    return z, SoftTree(depth, np.arange(n_components, dtype=np.int32), *arrays)


def gradients(z, tree, upstream):
    got = _kernels.tree_gradients(
        z, tree.depth, tree.gate_weights, tree.gate_bias, tree.leaf_values, tree.leaf_weights, upstream
    )
    return dict(zip(NAMES, got, strict=True))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-4), (np.float64, 1e-8)])
@pytest.mark.parametrize("linear", [False, True], ids=["constant", "linear"])
@pytest.mark.parametrize("depth", [1, 3])
def test_gradients_match_finite_differences(dtype, rtol, linear, depth):
    z, tree = soft_tree(depth, dtype=dtype, linear=linear, seed=depth)
    upstream = np.random.default_rng(9).normal(size=(2, 7)).astype(dtype)
    got = gradients(z, tree, upstream)
    parts = {name: getattr(tree, name, None) for name in NAMES[:4]} | {"z": z}
    parts = {name: None if a is None else a.astype(np.float64) for name, a in parts.items()}

    def total(changed):
        p = parts | changed
        output = reference.tree_output(
            p["z"], depth, p["gate_weights"], p["gate_bias"], p["leaf_values"], p["leaf_weights"]
        )
        return float((upstream * output).sum())

    h = 1e-5
    for name, array in parts.items():
        if array is None:
            assert got[name] is None
            continue
        numeric = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[index] = h
            numeric[index] = (total({name: array + step}) - total({name: array - step})) / (2 * h)
        assert_allclose(got[name], numeric, rtol=rtol, atol=rtol * np.abs(numeric).max(), err_msg=name)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("transform", ["diagonal", "linear"])
def test_gradients_match_autograd(dtype, rtol, transform):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    depth, n_inputs = 3, 4
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_inputs, 11)).astype(dtype)
    n_components = n_inputs if transform == "diagonal" else 2
    q = rng.normal(size=n_inputs if transform == "diagonal" else (n_components, n_inputs)).astype(dtype)
    own = Diagonal() if transform == "diagonal" else Linear()
    _, tree = soft_tree(depth, n_components, dtype=dtype, seed=3)
    upstream = rng.normal(size=(2, 11)).astype(dtype)

    tensors = {name: torch.tensor(getattr(tree, name), requires_grad=True) for name in NAMES[:4]}
    tq, tx = torch.tensor(q, requires_grad=True), torch.tensor(x)
    z = tq[:, None] * tx if transform == "diagonal" else tq @ tx
    z.retain_grad()
    right = torch.sigmoid(tensors["gate_weights"] @ z + tensors["gate_bias"][:, None])
    reach = []
    for leaf in range(2**depth):
        product = torch.ones(11, dtype=z.dtype)
        for node, goes_right in reference._path(leaf, depth):
            product = product * (right[node] if goes_right else 1 - right[node])
        reach.append(product)
    values = tensors["leaf_values"][..., None] + tensors["leaf_weights"] @ z
    output = (torch.stack(reach)[:, None] * values).sum(dim=0)
    (output * torch.tensor(upstream)).sum().backward()

    z_own = apply_transform(own, q, x)
    got = gradients(z_own, tree, upstream)
    assert_allclose(tree.output(z_own), output.detach().numpy(), rtol=rtol, atol=rtol)
    for name in NAMES[:4]:
        expected = tensors[name].grad.numpy()
        assert_allclose(got[name], expected, rtol=10 * rtol, atol=10 * rtol * np.abs(expected).max(), err_msg=name)
    assert_allclose(got["z"], z.grad.numpy(), rtol=10 * rtol, atol=10 * rtol * np.abs(got["z"]).max())
    pulled = own.pullback(q, x.T, got["z"].T)
    assert_allclose(pulled, tq.grad.numpy(), rtol=10 * rtol, atol=20 * rtol * np.abs(pulled).max())


@given(depth=st.integers(1, 4), linear=st.booleans(), seed=seeds)
def test_output_is_leaf_basis_times_leaf_coefficients(depth, linear, seed):
    z, tree = soft_tree(depth, linear=linear, seed=seed)
    basis = tree.leaf_basis(z)
    coefficients = np.random.default_rng(seed).normal(size=(len(basis), 2))
    assert_allclose(tree.with_leaves(coefficients).output(z), coefficients.T @ basis, rtol=1e-10, atol=1e-12)


@given(depth=st.integers(1, 3), linear=st.booleans(), seed=seeds)
def test_composed_tree_on_x_equals_tree_on_qx(depth, linear, seed):
    rng = np.random.default_rng(seed)
    _, tree = soft_tree(depth, linear=linear, seed=seed)
    Q = rng.normal(size=(3, 5))
    Q[:, rng.integers(5)] = 0.0  # a column that Q does not use is not used by the tree either
    x = rng.normal(size=(5, 9))
    composed = tree.composed(Q)
    assert_allclose(composed.output(x), tree.output(np.ascontiguousarray(Q @ x)), rtol=1e-10, atol=1e-12)
    assert set(composed.columns) == set(np.flatnonzero(Q.any(axis=0)))


def test_ridge_leaves_solve_the_normal_equations():
    rng = np.random.default_rng(0)
    basis, target, weight = rng.normal(size=(4, 30)), rng.normal(size=(2, 30)), rng.uniform(0.5, 2.0, size=30)
    coefficients = ridge_leaves(basis, target, weight, 0.7)
    gradient = (basis * weight) @ (coefficients.T @ basis - target).T + 0.7 * coefficients
    assert_allclose(gradient, 0.0, atol=1e-10)


def test_constant_tree_is_its_leaf():
    z, tree = soft_tree(3, linear=False)
    tree = tree.with_leaves(np.full((8, 2), 1.5))
    assert_allclose(tree.output(z), 1.5, rtol=1e-12)


# -- the learners ------------------------------------------------------------------------------------------------------


def training_data(n_samples=60, dtype=np.float64, weight=None, n_outputs=1, seed=0):
    X, y = helpers.make_data(n_samples, n_outputs=n_outputs, seed=seed)
    target = np.ascontiguousarray(np.atleast_2d(y.T)).astype(dtype)
    return TrainingData(np.ascontiguousarray(X.T).astype(dtype), weight), target - target.mean(axis=1, keepdims=True)


def fit(learner, data, target, transform=None, seed=0):
    rng = np.random.default_rng(seed)
    theta = None
    if transform is not None:
        theta = np.asarray(transform.start(data.X.T, target.T, rng), dtype=data.X.dtype)
    return learner.fit(data, target, transform, theta, rng)


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize("transform", [pytest.param(None, id="none"), *helpers.TRANSFORM_TABLE])
@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
def test_learner_reports_the_output_of_its_tree_and_lowers_the_loss(learner, transform, dtype):
    data, target = training_data(dtype=dtype, n_outputs=2)
    fitted = fit(learner, data, target, transform)
    z = data.X if transform is None else apply_transform(transform, fitted.theta, data.X)
    tolerance = 2e-4 if dtype == np.float32 else 1e-10
    assert fitted.output.dtype == dtype
    assert_allclose(fitted.output, fitted.tree.output(z), rtol=tolerance, atol=tolerance)
    assert np.mean((target - fitted.output) ** 2) < 0.98 * np.mean(target**2)


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
def test_learner_counts_a_weight_of_two_as_the_row_twice(learner):
    data, target = training_data()
    weight = np.random.default_rng(1).integers(1, 4, size=60)
    rows = np.repeat(np.arange(60), weight)
    repeated = TrainingData(np.ascontiguousarray(data.X[:, rows]), None)
    weighted = fit(learner, TrainingData(data.X, weight.astype(float)), target)
    twice = fit(learner, repeated, np.ascontiguousarray(target[:, rows]))
    assert_allclose(twice.output[:, np.cumsum(weight) - 1], weighted.output, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
def test_learner_does_not_mind_the_order_of_rows(learner):
    data, target = training_data()
    order = np.random.default_rng(2).permutation(60)
    shuffled = TrainingData(np.ascontiguousarray(data.X[:, order]), None)
    one = fit(learner, data, target)
    other = fit(learner, shuffled, np.ascontiguousarray(target[:, order]))
    assert_allclose(other.output, one.output[:, order], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
def test_learner_of_two_outputs_shares_its_gates(learner):
    data, target = training_data(n_outputs=2)
    tree = fit(learner, data, target).tree
    assert tree.leaf_values.shape == (2**tree.depth, 2)
    assert tree.gate_weights.shape == (2**tree.depth - 1, len(tree.columns))


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_learner_scales_with_its_target(learner, scale):
    data, target = training_data()
    one, other = fit(learner, data, target), fit(learner, data, target * scale)
    assert_allclose(other.output, one.output * scale, rtol=1e-5, atol=1e-7 * scale)


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_learner_survives_a_handful_of_rows(learner, n_samples):
    data, target = training_data(n_samples)
    assert np.all(np.isfinite(fit(learner, data, target + 1.0).output))


@pytest.mark.parametrize("learner", helpers.LEARNER_TABLE)
def test_learner_fits_nothing_to_a_target_of_zero(learner):
    data, target = training_data()
    output = fit(learner, data, 0.0 * target).output
    assert np.all(np.isfinite(output))
    assert np.abs(output).max() < 0.2


JOINT = [
    pytest.param(GradientTrees(depth=2), id="steps"),
    pytest.param(GradientTrees(depth=2, leaves="linear"), id="linear"),
    pytest.param(GradientTrees(depth=1, leaves="linear", gates="greedy", solve_leaves=True), id="solved"),
    pytest.param(GradientTrees(depth=2, weight_decay=0.01, cosine_decay=False), id="decay"),
]
PAIRS = [
    pytest.param(Linear(2, n_steps=10), helpers.SlowLinear(2, n_steps=10), id="linear"),
    pytest.param(
        Linear(2, "supervised", group_lasso=0.5, n_steps=10),
        helpers.SlowLinear(2, "supervised", group_lasso=0.5, n_steps=10),
        id="sparse",
    ),
    pytest.param(Diagonal(0.2, n_steps=10), helpers.SlowDiagonal(0.2, n_steps=10), id="diagonal"),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("known", "unknown"), PAIRS)
@pytest.mark.parametrize("learner", JOINT)
def test_steps_in_the_kernel_equal_those_of_the_loop_in_python(learner, known, unknown, weighted):
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=60) if weighted else None
    data, target = training_data(weight=weight, n_outputs=2)
    fast, slow = fit(learner, data, target, known), fit(learner, data, target, unknown)
    assert_allclose(fast.output, slow.output, rtol=1e-6, atol=1e-7)
    assert_allclose(fast.theta, slow.theta, rtol=1e-6, atol=1e-7)
    for name in NAMES[:4]:
        if getattr(fast.tree, name) is not None:
            assert_allclose(getattr(fast.tree, name), getattr(slow.tree, name), rtol=1e-6, atol=1e-7, err_msg=name)


def test_no_transform_equals_an_identity_that_is_never_moved():
    data, target = training_data()
    for learner in (GradientTrees(n_steps=12), GradientTrees(depth=2, leaves="linear", n_steps=12)):
        plain = fit(learner, data, target)
        identity = fit(learner, data, target, helpers.FixedIdentity(n_steps=12))
        assert_allclose(identity.output, plain.output, rtol=1e-8, atol=1e-9)


def test_greedy_trees_find_the_step():
    x = np.linspace(-1, 1, 50)[None]
    target = np.where(x > 0.3, 1.0, -1.0)
    fitted = fit(
        GreedyTrees(depth=1, leaves="constant", sharpness=(100.0,), ridge=(1e-6,)), TrainingData(x, None), target
    )
    assert np.mean((fitted.output - target) ** 2) < 0.02
    assert fitted.tree.gate_bias[0] / -fitted.tree.gate_weights[0, 0] == pytest.approx(0.3, abs=0.05)


def test_depth_ten_with_linear_leaves_is_solved_in_reasonable_size():
    data, target = training_data(300)
    fitted = fit(GreedyTrees(depth=10, shallower=False, sharpness=(3.0,), ridge=(1.0,)), data, target)
    assert fitted.tree.depth == 10
    assert np.all(np.isfinite(fitted.output))


def test_wide_linear_leaves_of_random_gates_are_refused_with_a_way_out():
    data = TrainingData(np.random.default_rng(0).normal(size=(1000, 20)), None)
    learner = GradientTrees(depth=4, leaves="linear", solve_leaves=True)
    with pytest.raises(ValueError, match=r"leaves='linear'.*16016 coefficients.*leaves='constant'"):
        fit(learner, data, np.ones((1, 20)))


def test_learner_leaves_its_inputs_alone():
    data, target = training_data()
    before = data.X.copy(), target.copy()
    for row in helpers.LEARNER_TABLE:
        fit(row.values[0], data, target, Linear(2, n_steps=3))
    assert_array_equal(data.X, before[0])
    assert_array_equal(target, before[1])
