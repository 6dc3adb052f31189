"""The compiled kernels against their reference implementations, and properties of all kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import lasso_path as sklearn_lasso_path

import helpers
import reference
from softboost import _kernels
from softboost._boost.soft_tree import SoftTree, flattened, unflattened

DTYPE_TOLERANCES = [(np.float32, 2e-5), (np.float64, 1e-12)]
dtypes = pytest.mark.parametrize(("dtype", "rtol"), DTYPE_TOLERANCES)
seeds = st.integers(0, 2**16)
shapes = {
    "depth": st.integers(1, 4),
    "n_components": st.integers(1, 5),
    "n_outputs": st.integers(1, 3),
    "n_samples": st.integers(1, 20),
    "linear": st.booleans(),
    "seed": seeds,
}


def assert_near(got, expected, rtol):
    """Equal up to rounding, in units of the largest element."""
    size = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    assert_allclose(got, expected, rtol=rtol, atol=rtol * size)


# -- one soft tree -----------------------------------------------------------------------------------------------------


@dtypes
@given(**shapes)
def test_leaf_probabilities_match_naive(dtype, rtol, depth, n_components, n_outputs, n_samples, linear, seed):
    z, weights, bias, *_ = helpers.random_tree(depth, n_components, n_outputs, n_samples, dtype, seed)
    got = _kernels.leaf_probabilities(z, weights, bias, depth)
    assert got.dtype == dtype
    assert_near(got, reference.leaf_probabilities(z, weights, bias, depth), rtol)
    assert_allclose(got.sum(axis=0), 1.0, rtol=rtol)


@dtypes
@given(**shapes)
def test_tree_output_matches_naive(dtype, rtol, depth, n_components, n_outputs, n_samples, linear, seed):
    z, *tree = helpers.random_tree(depth, n_components, n_outputs, n_samples, dtype, seed, linear)
    assert_near(_kernels.tree_output(z, depth, *tree), reference.tree_output(z, depth, *tree), rtol)


@dtypes
@given(**shapes)
def test_tree_gradients_match_naive(dtype, rtol, depth, n_components, n_outputs, n_samples, linear, seed):
    z, *tree = helpers.random_tree(depth, n_components, n_outputs, n_samples, dtype, seed, linear)
    upstream = np.random.default_rng(seed + 1).normal(size=(n_outputs, n_samples)).astype(dtype)
    got = _kernels.tree_gradients(z, depth, *tree, upstream)
    expected = reference.tree_gradients(z, depth, *tree, upstream)
    assert (got[3] is None) == (not linear)
    for ours, naive in zip(got, expected, strict=True):
        if naive is not None:
            assert_near(ours, naive, 5 * rtol)


@dtypes
@pytest.mark.parametrize("size", [1e2, 1e8, 1e30])
def test_saturated_gates_stay_exact_and_finite(dtype, rtol, size):
    z, weights, bias, values, slopes = helpers.random_tree(4, 3, 2, 50, dtype, seed=3, linear=True, size=size)
    reach = _kernels.leaf_probabilities(z, weights, bias, 4)
    assert np.all(np.isfinite(reach))
    assert_allclose(reach.sum(axis=0), 1.0, rtol=rtol)
    upstream = np.ones((2, 50), dtype=dtype)
    for gradient in _kernels.tree_gradients(z, 4, weights, bias, values, slopes, upstream):
        assert np.all(np.isfinite(gradient))
    if size > 1e3:  # hard gates: each row is in one leaf
        assert_allclose(reach.max(axis=0), 1.0, rtol=1e-6)


@dtypes
def test_small_side_of_a_gate_keeps_its_relative_precision(dtype, rtol):
    logits = np.linspace(-60, 60, 241).astype(dtype)
    reach = _kernels.leaf_probabilities(logits[None], np.ones((1, 1), dtype), np.zeros(1, dtype), 1)
    expected = 1 / (1 + np.exp(-logits.astype(np.float64)))
    assert_allclose(reach[1], expected, rtol=4e-7 if dtype == np.float32 else 1e-15)
    assert_allclose(reach[0], expected[::-1], rtol=4e-7 if dtype == np.float32 else 1e-15)


# -- bins and greedy growth --------------------------------------------------------------------------------------------


@dtypes
@given(
    n_samples=st.integers(1, 60),
    n_distinct=st.integers(1, 60),
    max_bins=st.integers(2, 40),
    weighted=st.booleans(),
    seed=seeds,
)
def test_bins_match_naive(dtype, rtol, n_samples, n_distinct, max_bins, weighted, seed):
    rng = np.random.default_rng(seed)
    column = rng.normal(size=n_distinct).astype(dtype)[rng.integers(0, n_distinct, size=n_samples)]
    weight = rng.integers(1, 5, size=n_samples) if weighted else None
    got = _kernels.bin_columns(column[None], None if weight is None else weight.astype(dtype), max_bins)
    thresholds, bins = reference.bin_column(column, max_bins, weight)
    assert_array_equal(got.threshold[0, : len(thresholds)], np.array(thresholds, dtype=dtype))
    assert got.count[0] == len(thresholds) + 1 <= max_bins
    assert_array_equal(got.bins[0], bins)


def test_bins_of_neighbouring_floats_separate_them():
    column = np.array([1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)])
    assert_array_equal(_kernels.bin_columns(column[None]).bins[0], [1, 2, 0])


@pytest.mark.parametrize(("n_samples", "least", "most"), [(5_000, 19, 20), (200_000, 400, 1_200)])
def test_bins_hold_equal_shares_of_many_values(n_samples, least, most):
    """Quantiles are exact for some thousand values and those of a sample for more."""
    column = np.random.default_rng(0).normal(size=n_samples)
    got = _kernels.bin_columns(column[None])
    counts = np.bincount(got.bins[0])
    assert len(counts) == 256
    assert counts.min() >= least
    assert counts.max() <= most


def test_bins_of_a_sample_count_a_weight_of_three_as_a_row_three_times():
    rng = np.random.default_rng(0)
    column, weight = rng.normal(size=9_000), rng.integers(1, 4, size=9_000)
    weighted = _kernels.bin_columns(column[None], weight.astype(float))
    repeated = _kernels.bin_columns(np.repeat(column, weight)[None])
    assert_array_equal(weighted.threshold, repeated.threshold)
    assert_array_equal(np.repeat(weighted.bins, weight, axis=1), repeated.bins)


def test_bins_of_a_long_column_of_few_values_are_exact():
    column = np.random.default_rng(0).integers(0, 200, size=50_000).astype(float)
    column[-1] = 1e6  # a value that a sample would miss
    got = _kernels.bin_columns(column[None])
    assert got.count[0] == 201
    assert len(np.unique(got.bins[0])) == 201


def greedy_case(n_samples, n_columns, n_outputs, dtype, seed, weighted):
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_columns, n_samples)).astype(dtype)
    target = np.stack([np.sign(columns[0]) + 0.3 * columns[o % n_columns] for o in range(n_outputs)])
    target = (target + 0.3 * rng.normal(size=target.shape)).astype(dtype)
    weight = rng.integers(1, 4, size=n_samples).astype(dtype) if weighted else None
    return columns, target, weight


greedy_shapes = {
    "n_samples": st.integers(8, 30),
    "n_columns": st.integers(1, 4),
    "n_outputs": st.integers(1, 2),
    "depth": st.integers(1, 3),
    "weighted": st.booleans(),
    "linear": st.booleans(),
    "seed": seeds,
}


@given(**greedy_shapes)
def test_greedy_tree_matches_naive(n_samples, n_columns, n_outputs, depth, weighted, linear, seed):
    columns, target, weight = greedy_case(n_samples, n_columns, n_outputs, np.float64, seed, weighted)
    options = {"sharpness": (3.0,), "ridge": (0.5,), "linear_leaves": linear, "min_leaf_weight": 2.0}
    settings = _kernels.greedy_settings(depth=depth, **options)
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, weight, settings)
    nodes = reference.grow(columns, target, weight, depth, 2.0)
    gain = np.zeros(n_columns)
    for column, _, node_gain in nodes:
        if column >= 0:
            gain[column] += node_gain
    assert_near(got[7], gain, 1e-8)
    used = list(dict.fromkeys(c for c, _, _ in nodes if c >= 0))
    assert list(got[1]) == used
    basis = reference.softened_basis(columns, nodes, depth, 3.0, used if linear else [])
    expected = reference.ridge_solution(basis, target, weight, 0.5).T @ basis
    assert_near(got[6], expected, 1e-8)


@given(**greedy_shapes)
def test_greedy_choice_by_leave_one_out_matches_refits_without_each_row(
    n_samples, n_columns, n_outputs, depth, weighted, linear, seed
):
    columns, target, weight = greedy_case(n_samples, n_columns, n_outputs, np.float64, seed, weighted)
    options = {"sharpness": (1.0, 4.0, 9.0), "ridge": (2.0, 0.7, 8.0), "linear_leaves": linear, "min_leaf_weight": 3.0}
    settings = _kernels.greedy_settings(depth=depth, shallower=True, **options)
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, weight, settings)
    chosen, _, _, output, error = reference.fit_greedy(columns, target, weight, depths=range(1, depth + 1), **options)
    assert_allclose(got[8], error, rtol=1e-7)
    assert got[0] == chosen
    assert_near(got[6], output, 1e-7)


@given(**greedy_shapes)
def test_greedy_tree_in_float32_solves_its_own_leaves(n_samples, n_columns, n_outputs, depth, weighted, linear, seed):
    columns, target, weight = greedy_case(n_samples, n_columns, n_outputs, np.float32, seed, weighted)
    settings = _kernels.greedy_settings(depth=depth, linear_leaves=linear, ridge=(1.0,), min_leaf_weight=2.0)
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, weight, settings)
    chosen, used, weights, bias, *_, output, _, _ = got
    z = columns[used]
    reach = reference.leaf_probabilities(z, weights, bias, chosen)
    ones = np.ones((1, n_samples)) if not linear else np.vstack([np.ones((1, n_samples)), z])
    basis = (reach[:, None] * ones[None]).reshape(-1, n_samples)
    assert_near(output, reference.ridge_solution(basis, target, weight, 1.0).T @ basis, 2e-4)
    assert_near(output, reference.tree_output(z, *got[:1], *got[2:6]), 1e-4)


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize(
    ("n_samples", "distinct", "weighted"),
    [(60, 60, False), (300, 300, False), (400, 40, False), (400, 40, True), (1100, 30, False), (1100, 30, True)],
)
def test_splits_of_many_rows_are_those_of_naive_search(n_samples, distinct, weighted, depth):
    """Sorted rows, histograms and differences of histograms find the same splits; half of a column is one value."""
    columns, target, weight = greedy_case(n_samples, 3, 1, np.float64, 3, weighted)
    columns = np.round(columns * distinct / 6) * 6 / distinct if distinct < n_samples else columns
    columns[1, ::2] = columns[1, 0]
    target += 1.0
    settings = _kernels.greedy_settings(depth=depth, ridge=(0.5,), min_leaf_weight=8.0)
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, weight, settings)
    gain = np.zeros(3)
    for column, _, node_gain in reference.grow(columns, target, weight, depth, 8.0):
        if column >= 0:
            gain[column] += node_gain
    assert_near(got.gain, gain, 1e-8)


def test_greedy_tree_without_a_useful_split_predicts_the_mean():
    columns, target = np.ones((2, 30)), np.linspace(-1, 3, 30)[None]
    settings = _kernels.greedy_settings(depth=2, ridge=(1e-9,))
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, None, settings)
    assert len(got[1]) == 0
    assert_allclose(got[6], 1.0, rtol=1e-9)


def test_duplicated_columns_are_split_on_once():
    rng = np.random.default_rng(0)
    column = rng.normal(size=100)
    columns, target = np.stack([column, column, column]), np.sin(3 * column)[None]
    settings = _kernels.greedy_settings(depth=3, linear_leaves=True, ridge=(1e-6,))
    got = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, None, settings)
    assert list(got[1]) == [0]


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_boosting_in_the_kernel_is_the_loop_of_greedy_trees_bit_for_bit(dtype, leaves, weighted):
    columns, y, weight = greedy_case(80, 4, 2, dtype, 5, weighted)
    bins = _kernels.bin_columns(columns)
    settings = _kernels.greedy_settings(depth=2, shallower=True, sharpness=(1.0, 8.0), linear_leaves=leaves == "linear")
    got, expected = np.full_like(y, 0.25), np.full_like(y, 0.25)
    trees = _kernels.boost_greedy(columns, bins, y, weight, settings, 6, 0.3, got)
    by_hand = []
    for _ in range(6):
        depth, *arrays, output, _, _ = _kernels.fit_greedy(columns, bins, y - expected, weight, settings)
        by_hand.append(SoftTree(depth, *arrays))
        expected += 0.3 * output
    assert_array_equal(got, expected)
    for name, array in flattened(by_hand).items():
        assert_array_equal(trees[name], array, err_msg=name)
    for tree, other in zip(unflattened(trees, 2), by_hand, strict=True):
        assert_array_equal(tree.output(columns), other.output(columns))


def test_boosting_in_the_kernel_refuses_a_prediction_of_another_shape():
    columns, y, _ = greedy_case(80, 4, 1, np.float64, 5, False)
    settings = _kernels.greedy_settings(depth=2)
    with pytest.raises(ValueError, match=r"prediction must have shape \(1, 80\), got \(1, 79\)"):
        _kernels.boost_greedy(columns, _kernels.bin_columns(columns), y, None, settings, 2, 0.3, np.zeros((1, 79)))


@dtypes
@pytest.mark.parametrize("weighted", [False, True])
def test_effects_of_columns_are_those_of_setting_them_to_their_mean(dtype, rtol, weighted):
    rng = np.random.default_rng(1)
    arrays = random_ensemble(rng, 5, 2, [1, 3, 2, 2], [True, False, True, True])
    packed = _kernels.pack_ensemble(dtype, **arrays)
    rows = rng.normal(size=(300, 5)).astype(dtype)
    weight = rng.uniform(0.5, 2.0, 300).astype(dtype) if weighted else None
    arrays["coefficients"][:] = 0  # trees only
    trees = _kernels.pack_ensemble(np.float64, **arrays)
    as_is = trees.predict(rows.astype(np.float64), 1)
    expected = np.zeros(5)
    for j in range(5):
        without = rows.astype(np.float64)
        without[:, j] = arrays["offset"][j]
        expected[j] = np.average(((as_is - trees.predict(without, 1)) ** 2).sum(axis=1), weights=weight)
    unused = np.setdiff1d(np.arange(5), arrays["columns"])
    assert np.all(expected[unused] == 0)
    assert_near(packed.column_effects(rows, weight, 1), expected, 100 * rtol)
    with pytest.raises(ValueError, match="one entry per row"):
        packed.column_effects(rows, np.ones(7, dtype=dtype), 1)


# -- joint steps -------------------------------------------------------------------------------------------------------


joint_cases = {
    "kind": st.sampled_from(["identity", "diagonal", "linear"]),
    "depth": st.integers(1, 3),
    "n_outputs": st.integers(1, 2),
    "linear": st.booleans(),
    "solve_leaves": st.booleans(),
    "weighted": st.booleans(),
    "group_lasso": st.sampled_from([0.0, 0.5]),
    "cosine_decay": st.booleans(),
    "seed": seeds,
}


@pytest.mark.parametrize("n", [7, 1100])  # rows in order, and too many for it
def test_bins_of_some_columns_are_those_of_these_columns(n):
    columns = np.random.default_rng(0).normal(size=(4, n)).round(1)
    chosen = np.array([3, 0, 3], dtype=np.int32)
    got, expected = _kernels.bin_columns(columns).take(chosen), _kernels.bin_columns(columns[chosen])
    for name in ("bins", "count", "threshold"):
        assert_array_equal(getattr(got, name), getattr(expected, name))
    target, settings = columns[:1] ** 2, _kernels.greedy_settings(depth=2)
    trees = [_kernels.fit_greedy(columns[chosen], bins, target, None, settings) for bins in (got, expected)]
    assert_array_equal(trees[0].output, trees[1].output)


def joint_case(kind, depth, n_outputs, linear, weighted, dtype, seed, n_samples=25):
    rng = np.random.default_rng(seed)
    n_inputs, n_components = 3, 2 if kind == "linear" else 3
    x = rng.normal(size=(n_inputs, n_samples)).astype(dtype)
    target = np.stack([np.sin(2 * x[0]) + o * x[1] for o in range(n_outputs)]).astype(dtype)
    weight = rng.uniform(0.5, 3.0, size=n_samples).astype(dtype) if weighted else None
    shape = {"identity": (0,), "diagonal": (n_inputs,), "linear": (n_components, n_inputs)}[kind]
    q = rng.normal(size=shape).astype(dtype)
    _, *tree = helpers.random_tree(depth, n_components, n_outputs, 1, dtype, seed, linear)
    return x, target, weight, q, tree


def run_joint(case, depth, options, n_threads=1):
    x, target, weight, q, tree = case
    q, tree = q.copy(), [None if a is None else a.copy() for a in tree]
    settings = _kernels.joint_settings(**options)
    output, trace = _kernels.fit_joint(x, target, weight, settings, depth, q, *tree, n_threads)
    return q, tree, output, trace


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-3), (np.float64, 1e-8)])
@given(**joint_cases)
def test_joint_steps_match_naive(
    dtype, rtol, kind, depth, n_outputs, linear, solve_leaves, weighted, group_lasso, cosine_decay, seed
):
    case = joint_case(kind, depth, n_outputs, linear, weighted, dtype, seed)
    options = {"n_steps": 5, "solve_leaves": solve_leaves, "cosine_decay": cosine_decay, "ridge": 0.5}
    options |= {"group_lasso": group_lasso, "weight_decay": 0.01}
    q, tree, output, trace = run_joint(case, depth, {"transform": kind, **options})
    x, target, weight, q0, (weights, bias, values, slopes) = case
    naive, expected, expected_trace = reference.fit_joint(
        x, target, weight, kind=kind, depth=depth, q=q0, gate_weights=weights, gate_bias=bias, leaf_values=values,
        leaf_weights=slopes, **options,
    )  # fmt: skip
    assert_near(trace, np.array(expected_trace), rtol)
    assert_near(output, expected, rtol)
    if dtype == np.float64:  # Adam divides by the size of a gradient; if that is only rounding, steps differ
        for got, name in zip([q, *tree], "qwbvs", strict=True):
            if got is not None and got.size:
                assert_near(got, naive[name], 1e-6)


def test_joint_steps_move_nothing_that_is_held_fixed():
    case = joint_case("linear", 2, 1, False, False, np.float64, 0)
    options = {"transform": "linear", "n_steps": 4, "solve_leaves": False}
    q, tree, *_ = run_joint(case, 2, {**options, "learn_gates": False, "learn_transform": False})
    assert_array_equal(q, case[3])
    assert_array_equal(tree[0], case[4][0])
    assert_array_equal(tree[1], case[4][1])
    assert np.any(tree[2] != case[4][2])


@dtypes
@pytest.mark.parametrize("solve_leaves", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_joint_steps_stay_finite_at_any_scale(dtype, rtol, solve_leaves, scale):
    case = joint_case("linear", 3, 2, True, True, dtype, 1)
    case = (case[0] * dtype(scale), *case[1:])
    options = {"transform": "linear", "n_steps": 30, "solve_leaves": solve_leaves}
    q, tree, output, trace = run_joint(case, 3, options)
    for array in (q, *tree, output, trace):
        assert np.all(np.isfinite(array))


# -- lasso and the whole ensemble --------------------------------------------------------------------------------------


@given(n_samples=st.integers(5, 60), n_columns=st.integers(1, 12), seed=seeds)
def test_lasso_path_matches_scikit_learn(n_samples, n_columns, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_columns))
    y = X[:, 0] - 2 * X[:, -1] + 0.1 * rng.normal(size=n_samples)
    penalties = np.abs(X.T @ y).max() * np.logspace(0, -2, 8)
    got = _kernels.lasso_path(X.T @ X, X.T @ y, penalties, 1e-12, 100_000)
    expected = sklearn_lasso_path(X, y, alphas=penalties / n_samples, tol=1e-13, max_iter=200_000)[1].T
    if n_columns < n_samples:
        assert_allclose(got, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))
    objective = [0.5 * ((y - X @ b) ** 2).sum() + p * np.abs(b).sum() for b, p in zip(got, penalties, strict=True)]
    best = [0.5 * ((y - X @ b) ** 2).sum() + p * np.abs(b).sum() for b, p in zip(expected, penalties, strict=True)]
    assert_allclose(objective, best, rtol=1e-7)


def test_lasso_path_gives_duplicates_to_the_first():
    column = np.random.default_rng(0).normal(size=50)
    X = np.stack([column, column], axis=1)
    beta = _kernels.lasso_path(X.T @ X, X.T @ column, np.array([1.0]))
    assert beta[0, 0] > 0
    assert beta[0, 1] == 0


def random_ensemble(rng, n_inputs, n_outputs, depths, linear):
    widths = [int(rng.integers(0, n_inputs + 1)) for _ in depths]
    leaves = [2**d * n_outputs * (1 + w if flag else 1) for d, w, flag in zip(depths, widths, linear, strict=True)]
    return {
        "offset": rng.normal(size=n_inputs),
        "scale": rng.uniform(0.5, 2.0, size=n_inputs),
        "intercept": rng.normal(size=n_outputs),
        "coefficients": rng.normal(size=(n_outputs, n_inputs)),
        "depth": np.array(depths, dtype=np.int32),
        "linear": np.array(linear, dtype=np.uint8),
        "n_columns": np.array(widths, dtype=np.int64),
        "columns": np.concatenate([rng.permutation(n_inputs)[:w] for w in widths] or [[]]).astype(np.int32),
        "gate_weights": rng.normal(size=sum((2**d - 1) * w for d, w in zip(depths, widths, strict=True))),
        "gate_bias": rng.normal(size=sum(2**d - 1 for d in depths)),
        "leaf": rng.normal(size=sum(leaves)),
    }


@dtypes
@given(
    n_inputs=st.integers(1, 4),
    n_outputs=st.integers(1, 3),
    trees=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=4),
    seed=seeds,
)
def test_ensemble_matches_naive(dtype, rtol, n_inputs, n_outputs, trees, seed):
    rng = np.random.default_rng(seed)
    arrays = random_ensemble(rng, n_inputs, n_outputs, [d for d, _ in trees], [f for _, f in trees])
    rows = rng.normal(size=(7, n_inputs)).astype(dtype)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    packed = _kernels.pack_ensemble(dtype, **arrays)
    got = packed.predict(rows, 1)
    assert_near(got, reference.predict(rows, arrays), 10 * rtol)
    start = _kernels.pack_ensemble(dtype, **{**arrays, **no_trees()}).predict(rows, 1)
    assert_near(start + packed.predict_each(rows, 1).sum(axis=0), got, 10 * rtol)


def no_trees():
    names = ("depth", "linear", "n_columns", "columns", "gate_weights", "gate_bias", "leaf")
    return {name: np.empty(0) for name in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": np.array([0, 7], dtype=np.int32)}, "column index out of range"),
        ({"columns": np.array([0, -1], dtype=np.int32)}, "column index out of range"),
        ({"depth": np.array([31], dtype=np.int32)}, "depth outside"),
        ({"gate_bias": np.zeros(1)}, "gate_bias has the wrong length"),
        ({"leaf": np.zeros(3)}, "leaf has the wrong length"),
        ({"scale": np.ones(3)}, "scale and offset have different lengths"),
        ({"n_columns": np.array([3])}, "more columns than inputs"),
    ],
)
def test_ensemble_refuses_arrays_that_do_not_fit(change, message):
    arrays = {
        "offset": np.zeros(2), "scale": np.ones(2), "intercept": np.zeros(1), "coefficients": np.zeros((1, 2)),
        "depth": np.array([2]), "linear": np.array([0]), "n_columns": np.array([2]), "columns": np.array([0, 1]),
        "gate_weights": np.zeros(6), "gate_bias": np.zeros(3), "leaf": np.zeros(4),
    }  # fmt: skip
    assert _kernels.pack_ensemble(np.float64, **arrays).predict(np.zeros((3, 2)), 1).shape == (3, 1)
    with pytest.raises(ValueError, match=message):
        _kernels.pack_ensemble(np.float64, **{**arrays, **change})


def test_python_and_the_extension_share_one_limit_of_depth():
    def one_tree(depth):
        n_leaves = 2**depth
        return {
            "offset": np.zeros(1), "scale": np.ones(1), "intercept": np.zeros(1), "coefficients": np.zeros((1, 1)),
            "depth": np.array([depth]), "linear": np.array([0]), "n_columns": np.array([1]), "columns": np.array([0]),
            "gate_weights": np.ones(n_leaves - 1), "gate_bias": np.zeros(n_leaves - 1), "leaf": np.ones(n_leaves),
        }  # fmt: skip

    deepest = _kernels.MAX_DEPTH
    assert_near(_kernels.pack_ensemble(np.float64, **one_tree(deepest)).predict(np.ones((2, 1)), 1), 1.0, 1e-12)
    for depth in (0, deepest + 1):
        with pytest.raises(ValueError, match="depth outside 1 to MAX_DEPTH"):
            _kernels.pack_ensemble(np.float64, **one_tree(depth))
        with pytest.raises(ValueError, match=f"depth must be between 1 and {deepest}, got {depth}"):
            _kernels.leaf_probabilities(np.ones((1, 2)), np.ones((2**depth - 1, 1)), np.ones(2**depth - 1), depth)
    with pytest.raises(ValueError, match=f"depth must be an integer from 1 to {deepest}, got {deepest + 1}"):
        helpers.plain(depth=deepest + 1).fit(np.ones((4, 1)), np.arange(4.0))


# -- any thread count, any instruction set -----------------------------------------------------------------------------


def everything(n_threads, dtype=np.float64, n_samples=2100):
    """Results of all kernels on rows that fill several blocks."""
    z, *tree = helpers.random_tree(3, 4, 2, n_samples, dtype, seed=11, linear=True)
    upstream = np.cos(z[:2])
    bins = _kernels.bin_columns(z, None, 256, n_threads)
    settings = _kernels.greedy_settings(
        depth=2, shallower=True, sharpness=(1.0, 8.0), ridge=(1.0, 0.1), linear_leaves=True, n_extra_columns=1,
        detrended_candidate=True,
    )  # fmt: skip
    target = np.ascontiguousarray(np.sin(2 * z[:2]))
    greedy = _kernels.fit_greedy(z, bins, target, None, settings, n_threads)
    case = joint_case("linear", 2, 1, True, True, dtype, 4, n_samples)
    joint = [
        run_joint(case, 2, {"transform": "linear", "n_steps": 4, "solve_leaves": solve}, n_threads)
        for solve in (False, True)
    ]
    arrays = random_ensemble(np.random.default_rng(0), 4, 2, [1, 3], [True, False])
    rows = np.ascontiguousarray(z.T)
    packed = _kernels.pack_ensemble(dtype, **arrays)
    return [
        _kernels.leaf_probabilities(z, tree[0], tree[1], 3, n_threads),
        _kernels.tree_output(z, 3, *tree, n_threads),
        *_kernels.tree_gradients(z, 3, *tree, upstream, n_threads),
        bins.bins,
        np.minimum(bins.threshold, 1e9),  # infinite past the last bin
        *[np.asarray(part) for part in greedy],
        *_kernels.boost_greedy(z, bins, target, None, settings, 3, 0.3, np.zeros_like(target), n_threads).values(),
        *[np.asarray(a) for q, t, output, trace in joint for a in (q, *t, output, trace)],
        packed.predict(rows, n_threads),
        packed.predict_each(rows, n_threads),
        packed.column_effects(rows, None, n_threads),
    ]


@pytest.mark.parametrize("dtype", helpers.DTYPES)
def test_thread_count_changes_no_bit(dtype):
    one = everything(1, dtype)
    for n_threads in (2, 3, 8):
        for expected, got in zip(one, everything(n_threads, dtype), strict=True):
            assert_array_equal(got, expected)


def test_thread_count_changes_no_bit_of_wide_growth():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(5, 21_000))
    target = np.sin(columns[:1])
    settings = _kernels.greedy_settings(depth=2)
    one = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, None, settings, 1)
    two = _kernels.fit_greedy(columns, _kernels.bin_columns(columns), target, None, settings, 2)
    for expected, got in zip(one, two, strict=True):
        assert_array_equal(np.asarray(got, dtype=float), np.asarray(expected, dtype=float))


@dtypes
@pytest.mark.parametrize("name", _kernels.instruction_sets())
def test_instruction_sets_agree(name, dtype, rtol):
    with helpers.instruction_set("baseline"):
        expected = everything(1, dtype)
    with helpers.instruction_set(name):
        got = everything(1, dtype)
    for a, b in zip(got, expected, strict=True):
        assert_near(np.asarray(a, dtype=float), np.asarray(b, dtype=float), 500 * rtol)


def test_unknown_instruction_set_is_refused():
    with pytest.raises(ValueError, match="instruction set is not available"):
        _kernels.use_instruction_set("pentium")


# -- checks of shapes --------------------------------------------------------------------------------------------------


def test_kernels_refuse_shapes_that_do_not_fit():
    z, weights, bias, values, slopes = helpers.random_tree(2, 3, 1, 5, np.float64, 0, linear=True)
    with pytest.raises(ValueError, match="depth must be between 1 and 10, got 0"):
        _kernels.leaf_probabilities(z, weights, bias, 0)
    with pytest.raises(ValueError, match="do not match"):
        _kernels.leaf_probabilities(z[:2], weights, bias, 2)
    with pytest.raises(ValueError, match="leaf_values must have 4 rows"):
        _kernels.tree_output(z, 2, weights, bias, values[:3])
    with pytest.raises(ValueError, match="leaf_weights has the wrong shape"):
        _kernels.tree_output(z, 2, weights, bias, values, slopes[:, :, :2].copy())
    with pytest.raises(ValueError, match="grad_output must have shape"):
        _kernels.tree_gradients(z, 2, weights, bias, values, slopes, np.ones((2, 5)))
    with pytest.raises(ValueError, match="target must have shape"):
        _kernels.fit_greedy(z, _kernels.bin_columns(z), np.ones((1, 4)), None, _kernels.greedy_settings(depth=2))
    with pytest.raises(ValueError, match="weight must have shape"):
        _kernels.fit_greedy(z, _kernels.bin_columns(z), np.ones((1, 5)), np.ones(4), _kernels.greedy_settings(depth=2))
    with pytest.raises(ValueError, match="bins of shape"):
        _kernels.fit_greedy(z, _kernels.bin_columns(z[:2]), np.ones((1, 5)), None, _kernels.greedy_settings(depth=2))
    settings = _kernels.joint_settings(transform="linear", n_steps=1, solve_leaves=False)
    with pytest.raises(ValueError, match="parameters of shape"):
        _kernels.fit_joint(z, np.ones((1, 5)), None, settings, 2, np.ones((3, 2)), weights, bias, values, slopes)
    y, q = np.ones((1, 5)), np.ones((2, len(z)))
    with pytest.raises(ValueError, match="needs parameters of shape"):
        _kernels.boost_joint(z, y, None, settings, 1, 2, True, np.ones((3, 7)), 2, 0.5, y.copy())
    with pytest.raises(ValueError, match="prediction must have shape"):
        _kernels.boost_joint(z, y, None, settings, 1, 2, True, q, 2, 0.5, np.ones((2, 5)))
    loss = _kernels.loss_settings("absolute", refit_leaves=True)
    with pytest.raises(ValueError, match="refits leaves"):
        _kernels.boost_joint(z, y, None, settings, 1, 2, True, q, 2, 0.5, y.copy(), loss=loss)
    qs, trees = _kernels.boost_joint(z, y, None, settings, 1, 2, True, q, 2, 0.5, y.copy())
    with pytest.raises(ValueError, match="shapes of the trees"):
        _kernels.joint_outputs(z[:1], qs, *trees, 0.5)
    with pytest.raises(ValueError, match="leaf_weights must have shape"):
        _kernels.joint_outputs(z, qs, *trees[:3], trees[3][:1], 0.5)
    with pytest.raises(IndexError, match="no such column"):
        _kernels.bin_columns(z).take(np.array([len(z)], dtype=np.int32))
    with pytest.raises(ValueError, match="gram must have shape"):
        _kernels.lasso_path(np.eye(2), np.ones(3), np.ones(1))
    with pytest.raises(ValueError, match="max_bins must be between 2 and 256"):
        _kernels.bin_columns(z, None, 300)


def test_kernels_refuse_other_dtypes_and_layouts_instead_of_copying():
    z, weights, bias, *_ = helpers.random_tree(2, 3, 1, 5, np.float64, 0)
    with pytest.raises(TypeError):
        _kernels.leaf_probabilities(z.astype(np.float32), weights, bias, 2)
    with pytest.raises(TypeError):
        _kernels.leaf_probabilities(np.asfortranarray(z), weights, bias, 2)


# -- linear models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("n_columns", "n_outputs", "n_samples"), [(1, 1, 2), (7, 2, 50), (33, 1, 1001), (3, 3, 20_000)]
)
@dtypes
def test_moments_match_numpy(dtype, rtol, n_columns, n_outputs, n_samples, weighted):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(n_columns, n_samples)) + 3.0).astype(dtype)
    y = rng.normal(size=(n_outputs, n_samples)).astype(dtype)
    weight = rng.uniform(0.5, 2.0, size=n_samples).astype(dtype) if weighted else None
    mean_x, mean_y, gram, cross = _kernels.moments(x, y, weight)
    w = np.ones(n_samples) if weight is None else weight.astype(np.float64)
    want_x, want_y = np.average(x, axis=1, weights=w), np.average(y, axis=1, weights=w)
    xc, yc = x - want_x[:, None], y - want_y[:, None]
    assert_allclose(mean_x, want_x, rtol=1e-6)
    assert_allclose(mean_y, want_y, atol=1e-6)
    assert_allclose(gram, (xc * w) @ xc.T, atol=1e-6 * n_samples)
    assert_allclose(cross, (yc * w) @ xc.T, atol=1e-6 * n_samples)
    assert_array_equal(gram, gram.T)
    raw = _kernels.moments(x, y, weight, centred=False)[2]
    assert_allclose(raw, (x.astype(np.float64) * w) @ x.T.astype(np.float64), rtol=1e-6)


@given(n_columns=st.integers(1, 40), n_samples=st.integers(2, 60), n_outputs=st.integers(1, 3), seed=st.integers(0, 99))
def test_ridge_path_solves_the_normal_equations(n_columns, n_samples, n_outputs, seed):
    """Also if the Gram matrix is singular: fewer samples than columns, and a duplicated column."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_columns, n_samples))
    x[-1] = x[0]
    gram, cross = x @ x.T, rng.normal(size=(n_outputs, n_samples)) @ x.T
    penalties = np.array([1e4, 1.0, 1e-3])
    got, determinants = _kernels.ridge_path(gram, cross, penalties)
    for penalty, coefficients, determinant in zip(penalties, got, determinants, strict=True):
        matrix = gram + penalty * np.eye(n_columns)
        assert_allclose(coefficients, np.linalg.solve(matrix, cross.T).T, rtol=1e-6, atol=1e-7)
        assert_allclose(determinant, np.linalg.slogdet(matrix)[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("small", [1e-150, 1e-155, 1e-160, 1e-165])
def test_ridge_path_with_entries_whose_squares_underflow(small):
    rng = np.random.default_rng(0)
    gram = np.zeros((6, 6))
    gram[0, 0], gram[1, 1] = 3.0, 2.0
    block = rng.normal(size=(4, 4))
    gram[2:, 2:] = small * (block @ block.T)
    penalties, cross = np.array([10.0, 0.1]), rng.normal(size=(1, 6))
    got, determinants = _kernels.ridge_path(gram, cross, penalties)
    for stage, penalty in enumerate(penalties):
        want = cross[0] / (np.diag(gram) + penalty)
        assert_allclose(got[stage, 0], want, rtol=1e-12)
        assert_allclose(determinants[stage], np.log(np.diag(gram) + penalty).sum(), rtol=1e-12)


def test_ridge_path_of_nothing_is_zero():
    got, _ = _kernels.ridge_path(np.zeros((3, 3)), np.zeros((2, 3)), np.array([1.0, 0.1]))
    assert_array_equal(got, np.zeros((2, 2, 3)))


def test_relaxed_path_is_least_squares_on_each_support():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 40))
    gram, cross = x @ x.T, x @ (2 * x[1] - x[4] + rng.normal(size=40))
    path = np.zeros((4, 6))
    path[1, 1] = path[2, [1, 4]] = 0.5
    path[3] = 0.1
    got = _kernels.relaxed_path(gram, cross, path, limit=2.0, ridge=0.0)
    assert_array_equal(got[0], 0.0)
    for stage, support in ((1, [1]), (2, [1, 4]), (3, [1, 4])):  # the last has too many and repeats the previous one
        want = np.zeros(6)
        want[support] = np.linalg.solve(gram[np.ix_(support, support)], cross[support])
        assert_allclose(got[stage], want, rtol=1e-10)


@given(n=st.integers(1, 40), gap=st.floats(0.1, 10), seed=st.integers(0, 99))
def test_rls_update_is_the_formula(n, gap, seed):
    rng = np.random.default_rng(seed)
    root, basis = rng.normal(size=(n, n)), rng.normal(size=n)
    covariance = root @ root.T
    covariance = (covariance + covariance.T) / 2
    want_gain = covariance @ basis
    want = covariance - np.outer(want_gain, want_gain) / (gap + basis @ want_gain)
    gain, variance = _kernels.rls_update(covariance, basis, gap)
    assert_allclose(gain, want_gain, rtol=1e-10, atol=1e-10)
    assert_allclose(variance, basis @ want_gain, rtol=1e-10)
    assert_allclose(covariance, want, rtol=1e-8, atol=1e-8)
    assert_array_equal(covariance, covariance.T)


def test_rls_update_leaves_what_rounding_has_spoilt():
    for spoilt in (-1.0, np.nan):
        covariance = np.diag([spoilt, spoilt])
        before = covariance.copy()
        _, variance = _kernels.rls_update(covariance, np.ones(2), 1.0)
        assert not variance >= 0
        assert_array_equal(covariance, before)


@given(n=st.integers(1, 60), seed=st.integers(0, 99))
def test_solve_with_inverse_matches_numpy(n, seed):
    rng = np.random.default_rng(seed)
    root, cross = rng.normal(size=(n, n)), rng.normal(size=n)
    gram = root @ root.T + np.eye(n)
    coefficients, inverse = _kernels.solve_with_inverse(gram, cross)
    assert_allclose(coefficients, np.linalg.solve(gram, cross), rtol=1e-8, atol=1e-10)
    assert_allclose(inverse, np.linalg.inv(gram), rtol=1e-8, atol=1e-10)
    assert_array_equal(inverse, inverse.T)


@dtypes
@pytest.mark.parametrize("n_samples", [1, 15, 700])
def test_linear_outputs_match_numpy(dtype, rtol, n_samples):
    rng = np.random.default_rng(0)
    coefficients, intercepts = rng.normal(size=(11, 9)), rng.normal(size=11)
    x = rng.normal(size=(9, n_samples)).astype(dtype)
    got = _kernels.linear_outputs(coefficients, intercepts, x)
    assert_allclose(got, coefficients @ x.astype(np.float64) + intercepts[:, None], rtol=1e-12, atol=1e-12)
    assert_array_equal(got, _kernels.linear_outputs(coefficients, intercepts, x, 3))


# -- recurrent layers --------------------------------------------------------------------------------------------------


def recurrent_layer(is_lstm, n_steps, n_inputs, n_hidden, n_samples, dtype, seed=0):
    """x, both weights, the bias and a gradient of the states."""
    rng = np.random.default_rng(seed)
    n_gates = n_hidden * (4 if is_lstm else 1)
    shapes = [(n_steps, n_inputs, n_samples), (n_gates, n_inputs), (n_gates, n_hidden), (n_gates,)]
    arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    return arrays, rng.normal(size=(n_steps, n_hidden, n_samples)).astype(dtype)


@dtypes
@pytest.mark.parametrize("is_lstm", [False, True])
@pytest.mark.parametrize(
    ("n_steps", "n_inputs", "n_hidden", "n_samples"), [(1, 1, 1, 1), (4, 2, 5, 3), (3, 1, 4, 19), (2, 3, 3, 130)]
)
def test_recurrent_layers_match_naive(dtype, rtol, is_lstm, n_steps, n_inputs, n_hidden, n_samples):
    arrays, upstream = recurrent_layer(is_lstm, n_steps, n_inputs, n_hidden, n_samples, dtype)
    found = _kernels.recurrent_states(*arrays, is_lstm=is_lstm, store=True)
    assert_near(found.states, reference.recurrent_states(*arrays, is_lstm), rtol)
    *of_weights, of_x = _kernels.recurrent_gradients(*arrays, found, upstream, is_lstm=is_lstm, of_x=True)
    for which, got in enumerate([of_x, *of_weights]):
        assert got.dtype == dtype
        if which or n_samples < 20:
            assert_near(got, reference.recurrent_gradient(arrays, which, is_lstm, upstream), 5 * rtol)


@dtypes
@pytest.mark.parametrize("is_lstm", [False, True])
def test_recurrent_layers_do_not_depend_on_threads_or_much_on_instructions(dtype, rtol, is_lstm):
    arrays, upstream = recurrent_layer(is_lstm, 5, 2, 6, 700, dtype)

    def results(n_threads):
        found = _kernels.recurrent_states(*arrays, is_lstm=is_lstm, store=True, n_threads=n_threads)
        unstored = _kernels.recurrent_states(*arrays, is_lstm=is_lstm, n_threads=n_threads)
        assert_array_equal(found.states, unstored.states)
        assert unstored.gates.size == unstored.cells.size == 0
        options = {"is_lstm": is_lstm, "of_x": True, "n_threads": n_threads}
        return [found.states, *_kernels.recurrent_gradients(*arrays, found, upstream, **options)]

    one = results(1)
    for got, expected in zip(results(3), one, strict=True):
        assert_array_equal(got, expected)
    with helpers.instruction_set("baseline"):
        for got, expected in zip(results(1), one, strict=True):
            assert_near(got, expected, 20 * rtol)


@dtypes
def test_recurrent_layers_saturate_without_overflow(dtype, rtol):
    arrays, upstream = recurrent_layer(True, 3, 1, 2, 20, dtype)
    arrays[0] *= dtype(1e20)
    found = _kernels.recurrent_states(*arrays, is_lstm=True, store=True)
    assert np.abs(found.states).max() <= 1
    for gradient in _kernels.recurrent_gradients(*arrays, found, upstream, is_lstm=True)[1:3]:
        assert np.all(np.isfinite(gradient))


def test_recurrent_layers_check_shapes():
    arrays, upstream = recurrent_layer(True, 3, 2, 4, 5, np.float64)
    with pytest.raises(ValueError, match=r"bias has shape \(15,\), expected \(16,\)"):
        _kernels.recurrent_states(*arrays[:3], arrays[3][1:], is_lstm=True)
    with pytest.raises(ValueError, match="at least one step"):
        _kernels.recurrent_states(arrays[0][:0], *arrays[1:], is_lstm=True)
    found = _kernels.recurrent_states(*arrays, is_lstm=True)  # not stored
    with pytest.raises(ValueError, match="do not fit x"):
        _kernels.recurrent_gradients(*arrays, found, upstream, is_lstm=True)
