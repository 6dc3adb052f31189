"""Boosting: residuals, shrinkage, Q carried over between rounds, parts of large data, refitted leaves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import helpers
from softboost import SoftBoostRegressor, _kernels
from softboost._boost import boosting, parts
from softboost._boost.boosting import Boosted, Recipe, boost
from softboost._boost.gradient import GradientTrees
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import TrainingData
from softboost.losses import SquaredError, make_loss
from softboost.transforms import Diagonal, Linear


def arrays(n_samples=80, dtype=np.float64, n_outputs=1, seed=0):
    X, y = helpers.make_data(n_samples, n_outputs=n_outputs, seed=seed)
    return np.ascontiguousarray(X.T).astype(dtype), np.ascontiguousarray(np.atleast_2d(y.T)).astype(dtype)


def run(recipe, X, y, loss=None, weight=None, **kwargs):
    loss = loss or SquaredError()
    return boost(recipe, X, y, weight, loss, np.zeros_like(y), rng=np.random.default_rng(0), **kwargs)


RECIPES = [
    pytest.param(Recipe("greedy", GreedyTrees(), None, 6, 0.3), id="greedy"),
    pytest.param(Recipe("random", GradientTrees(n_steps=30), None, 6, 0.5), id="random"),
    pytest.param(Recipe("linear", GradientTrees(n_steps=30), Linear(3, n_steps=30), 6, 0.5), id="linear"),
    pytest.param(Recipe("own", GradientTrees(), helpers.Fourier(n_steps=20), 6, 0.5), id="user's own"),
]


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_tree_is_fitted_to_what_the_earlier_ones_leave_over(recipe, dtype, monkeypatch):
    X, y = arrays(dtype=dtype)
    targets = []
    real = type(recipe.learner).fit

    def spying(self, data, target, transform, theta, rng):
        targets.append(target.copy())
        return real(self, data, target, transform, theta, rng)

    monkeypatch.setattr(type(recipe.learner), "fit", spying)
    model = run(recipe, X, y, after_round=lambda m: False)
    outputs = model.outputs(X)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    assert len(targets) == 6
    for k, target in enumerate(targets):
        assert_allclose(target, y - outputs[:k].sum(axis=0), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", helpers.DTYPES)
def test_rounds_of_the_kernel_are_those_of_the_loop_bit_for_bit(dtype):
    X, y = arrays(dtype=dtype, n_outputs=2)
    recipe = RECIPES[0].values[0]
    whole, watched = run(recipe, X, y), run(recipe, X, y, after_round=lambda m: False)
    assert isinstance(whole.rounds, boosting.KernelRounds)
    assert isinstance(watched.rounds, list)
    assert_array_equal(whole.outputs(X), watched.outputs(X))
    for (_, a), (_, b) in zip(whole.rounds, watched.rounds, strict=True):
        for name, value in vars(b).items():
            assert_array_equal(getattr(a, name), value)
    assert isinstance(whole.first(2).rounds, list)
    assert_array_equal(whole.first(2).outputs(X), whole.outputs(X)[:2])


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize(
    "transform", [Linear(2, "supervised", group_lasso=0.2), Diagonal()], ids=["linear", "diagonal"]
)
@pytest.mark.parametrize("leaves", ["linear", "constant"])
def test_joint_rounds_of_the_kernel_are_those_of_the_loop_bit_for_bit(leaves, transform, dtype):
    X, y = arrays(dtype=dtype, n_outputs=2)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=X.shape[1]).astype(dtype)
    learner = GradientTrees(depth=2, leaves=leaves, gates="greedy", solve_leaves=leaves == "linear", n_steps=5)
    recipe = Recipe("j", learner, transform, 3, 0.5)
    whole = boost(recipe, X, y, weight, SquaredError(), np.zeros_like(y))
    watched = boost(recipe, X, y, weight, SquaredError(), np.zeros_like(y), after_round=lambda m: False)
    assert isinstance(whole.rounds, boosting.JointRounds)
    assert isinstance(watched.rounds, list)
    assert_array_equal(whole.outputs(X), watched.outputs(X))
    for (q, a), (other_q, b) in zip(whole.rounds, watched.rounds, strict=True):
        assert_array_equal(q, other_q)
        for name, value in vars(b).items():
            assert_array_equal(getattr(a, name), value)
    effects, expected = (model.effects(TrainingData(X, weight)) for model in (whole, watched))
    assert_allclose(effects, expected, rtol=1e-4 if dtype == np.float32 else 1e-9, atol=1e-12)


def test_bins_are_computed_once_for_all_columns(monkeypatch):
    X, y = arrays()
    calls = []
    real = _kernels.bin_columns
    monkeypatch.setattr(_kernels, "bin_columns", lambda *args: calls.append(args[0].shape) or real(*args))
    data, columns = TrainingData(X, None), np.array([2, 0], dtype=np.int32)
    recipe = Recipe("p", GreedyTrees(), None, 3, 0.3)
    alone = boost(recipe, X, y, None, SquaredError(), np.zeros_like(y), columns=columns)
    assert calls == [(2, X.shape[1])]  # only those that are needed
    boost(recipe, X, y, None, SquaredError(), np.zeros_like(y), data=data)
    shared = boost(recipe, X, y, None, SquaredError(), np.zeros_like(y), columns=columns, data=data)
    assert calls[1:] == [X.shape]
    assert_array_equal(shared.outputs(X), alone.outputs(X))


def test_effects_tell_columns_that_are_needed_from_those_that_fit_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 100))
    y = (np.abs(X[3]) + X[7] + 0.2 * rng.normal(size=100))[None]
    model = run(Recipe("p", GreedyTrees(), None, 30, 0.3), X, y - y.mean())
    effects = model.effects(TrainingData(X, None))
    assert set(np.argsort(-effects)[:2]) == {3, 7}
    assert len({column for _, tree in model.rounds for column in tree.columns}) > 4  # it used others too
    twice = model.effects(TrainingData(np.hstack([X, X[:, :50]]), None))
    weighted = model.effects(TrainingData(X, np.repeat([2.0, 1.0], 50)))
    assert_allclose(weighted, twice, rtol=1e-12)


def test_effects_go_through_a_linear_transform_and_no_other():
    X, y = arrays()
    by_hand = run(RECIPES[2].values[0], X, y)
    effects = by_hand.effects(TrainingData(X, None))
    for j in range(len(X)):
        without = X.copy()
        without[j] = 0
        change = (by_hand.outputs(X) - by_hand.outputs(without)).sum(axis=0)
        assert_allclose(effects[j], np.mean(change**2), rtol=1e-9)
    assert run(RECIPES[3].values[0], X, y).effects(TrainingData(X, None)) is None


@pytest.mark.parametrize("recipe", [row for row in RECIPES if row.values[0].transform is not None])
def test_transform_is_carried_from_round_to_round(recipe, monkeypatch):
    X, y = arrays()
    given = []
    real = type(recipe.learner).fit

    def spying(self, data, target, transform, theta, rng):
        given.append(theta.copy())
        return real(self, data, target, transform, theta, rng)

    monkeypatch.setattr(type(recipe.learner), "fit", spying)
    model = run(recipe, X, y)
    thetas = [theta for theta, _ in model.rounds]
    for k in range(1, 6):
        assert_array_equal(given[k], thetas[k - 1])
        assert np.any(thetas[k] != thetas[k - 1])


@pytest.mark.parametrize("recipe", RECIPES)
def test_training_loss_falls(recipe):
    X, y = arrays()
    losses = []
    model = run(recipe, X, y, after_round=lambda m: bool(losses.append(m.train_loss[-1])))
    assert_allclose(losses[-1], 0.5 * np.mean((y - model.outputs(X).sum(axis=0)) ** 2), rtol=1e-8)
    assert np.all(np.diff([0.5 * np.mean(y**2), *losses]) < 0)


@pytest.mark.parametrize("recipe", RECIPES)
def test_going_on_from_earlier_rounds_keeps_them(recipe):
    X, y = arrays()
    first = run(recipe, X, y)
    longer = Recipe(recipe.name, recipe.learner, recipe.transform, 9, recipe.learning_rate)
    start = first.outputs(X).sum(axis=0)
    second = boost(longer, X, y, None, SquaredError(), start, rng=np.random.default_rng(1), previous=first)
    assert len(first.rounds) == 6
    assert len(second.rounds) == 9
    assert all(a is b for a, b in zip(first.rounds, second.rounds[:6], strict=True))


def test_boosting_stops_when_told():
    X, y = arrays()
    model = run(RECIPES[0].values[0], X, y, after_round=lambda m: len(m.rounds) == 2)
    assert len(model.rounds) == 2


def test_columns_are_those_given():
    X, y = arrays()
    model = run(RECIPES[0].values[0], X, y, columns=np.array([1, 3], dtype=np.int32))
    for tree in model.trees_on_columns(6):
        assert set(tree.columns) <= {1, 3}


def test_rows_beyond_one_part_are_dealt_out_and_all_are_learned(monkeypatch):
    X, y = arrays(300)
    whole = run(Recipe("p", GreedyTrees(), None, 12, 0.3), X, y)
    monkeypatch.setattr(parts, "MAX_ROWS_PER_TREE", 100)
    dealt = run(Recipe("p", GreedyTrees(), None, 12, 0.3), X, y)
    error = [np.mean((y - m.outputs(X).sum(axis=0)) ** 2) for m in (whole, dealt)]
    assert len(dealt.rounds) == 12
    assert error[1] < 0.3 * np.var(y)
    assert not np.array_equal(whole.outputs(X), dealt.outputs(X))


def test_parts_of_several_outputs_serve_any_loss(monkeypatch):
    monkeypatch.setattr(parts, "MAX_ROWS_PER_TREE", 100)
    X, y = arrays(300)
    settings = {"n_estimators": 12, "learning_rate": 0.3, "depth": 2, "feature_transform": None, "leaves": "linear"}
    model = SoftBoostRegressor(**settings, gates="greedy", init="constant", loss="huber")
    both = np.column_stack([y[0], -y[0]])
    predicted = model.fit(X.T, both).predict(X.T)
    assert np.mean((predicted - both) ** 2) < 0.3 * np.var(y)


@pytest.mark.parametrize("transform", [None, Linear(2, "supervised")], ids=["none", "linear"])
def test_parts_hold_every_row_once_and_its_prediction(monkeypatch, transform):
    monkeypatch.setattr(parts, "MAX_ROWS_PER_TREE", 70)
    X, y = arrays(300)
    columns, weight = np.array([3, 0, 2], dtype=np.int32), np.linspace(1, 2, 300)
    dealt = parts.deal(X, columns, y, weight, np.zeros_like(y), 1, transform)
    assert len(dealt) == 5
    assert_array_equal(np.sort(np.concatenate(dealt.rows)), np.arange(300))
    learner = GreedyTrees() if transform is None else GradientTrees(1, "linear", "greedy", solve_leaves=True)
    model = Boosted(Recipe("p", learner, transform, 7, 0.3), columns, 0.3)
    theta = None if transform is None else transform.start(X[columns].T, y.T, None)
    boosting.run_rounds(model, dealt, SquaredError(), theta, np.random.default_rng(0))
    assert_allclose(dealt.raw_prediction, model.outputs(X).sum(axis=0), atol=1e-12)
    part = dealt[2]
    assert_array_equal(part.data.X, X[columns][:, dealt.rows[2]])
    assert_array_equal(part.data.weight, weight[dealt.rows[2]])
    assert_array_equal(part.raw_prediction, dealt.raw_prediction[:, dealt.rows[2]])


@pytest.mark.parametrize("n", [parts.ROWS_IN_ORDER + 1, parts.MAX_ROWS_PER_TREE + 1])
def test_each_row_keeps_its_weight_where_rows_are_shuffled(n):
    """Rows of negligible weight contradict the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    light = rng.uniform(size=n) < 0.5
    y = np.where(light, -X[:, 0], X[:, 0])
    model = helpers.plain(n_estimators=4, depth=1, init="zero").fit(X, y, sample_weight=np.where(light, 1e-6, 1.0))
    assert np.mean((model.predict(X) - X[:, 0]) ** 2) < 0.1 * np.var(X)


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize("loss", helpers.LOSS_TABLE)
def test_every_loss_falls_in_both_precisions(loss, dtype):
    X, _ = arrays(dtype=dtype)
    y = np.ascontiguousarray((helpers.target_for(loss, 80) + (0.5 * np.abs(X[0]))).astype(dtype)[None])
    loss = loss.rescaled(y, 1.0)
    losses = []
    start = np.full_like(y, loss.fit_intercept_only(y[0], None))
    recipe = Recipe("p", GreedyTrees(), None, 6, 0.3)
    model = boost(recipe, X, y, None, loss, start, after_round=lambda m: bool(losses.append(m.train_loss[-1])))
    assert model.rounds[0][1].leaf_values.dtype == dtype
    assert losses[-1] < loss.mean(y, start, None)
    assert np.all(np.isfinite(losses))


def test_leaves_refitted_to_absolute_error_are_near_medians():
    rng = np.random.default_rng(0)
    x = np.repeat([-1.0, 1.0], 100)[None]
    y = np.where(x > 0, 2.0, -1.0) + rng.exponential(size=(1, 200))
    recipe = Recipe("p", GreedyTrees(depth=1, leaves="constant", sharpness=(100.0,), ridge=(1e-3,)), None, 30, 0.5)
    model = run(recipe, x, y, make_loss("absolute_error"))
    prediction = model.outputs(x).sum(axis=0)[0]
    assert prediction[0] == pytest.approx(np.median(y[0, :100]), abs=0.1)
    assert prediction[-1] == pytest.approx(np.median(y[0, 100:]), abs=0.1)


REFITTED = [row for row in helpers.LOSS_TABLE if row.values[0].refit_leaves]


@pytest.mark.parametrize("loss", REFITTED)
def test_refitted_leaves_are_the_best_constants_of_weighted_rows(loss):
    """In either leaf a third of the rows, of ten times the weight, disagrees with the rest."""
    x = np.repeat([-1.0, 1.0], 60)[None]
    heavy = np.tile(np.arange(60) < 20, 2)
    y = np.where(heavy == (x > 0), 4.0, 1.0) + 0.2 * np.random.default_rng(0).uniform(size=(1, 120))
    weight = np.where(heavy, 10.0, 1.0)
    loss = loss.rescaled(y, 1.0)
    recipe = Recipe("p", GreedyTrees(depth=1, leaves="constant", sharpness=(100.0,), ridge=(1e-3,)), None, 40, 0.5)
    prediction = run(recipe, x, y, loss, weight).outputs(x).sum(axis=0)[0]
    for leaf in (slice(0, 60), slice(60, 120)):
        assert_allclose(prediction[leaf], loss.fit_intercept_only(y[0, leaf], weight[leaf]), atol=0.02)


@pytest.mark.parametrize("level", [1e-3, 1.0, 1e4])
def test_poisson_finds_the_level_from_zero(level):
    X, _ = arrays(100)
    y = np.random.default_rng(0).poisson(level * 50, size=(1, 100)) / 50.0 + 1e-9
    recipe = Recipe("p", GreedyTrees(), None, 60, 0.5)
    raw = run(recipe, X, y, make_loss("poisson")).outputs(X).sum(axis=0)
    assert np.mean(np.exp(raw)) == pytest.approx(np.mean(y), rel=0.3)


def test_many_rows_give_the_same_bits_again_without_a_seed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 4))
    y = X[:, 0] * X[:, 1] + rng.normal(size=5_000)
    fixed = {"n_estimators": 3, "learning_rate": 0.3, "depth": 2, "feature_transform": None, "init": "constant"}
    models = [SoftBoostRegressor(**fixed, leaves="linear", gates="greedy").fit(X, y) for _ in range(2)]
    assert_array_equal(models[0].predict(X), models[1].predict(X))
