"""Extra trees of the default: as their reference, weighted, saved, exported, and given up where they are hopeless."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from softboost import SoftBoostRegressor, _kernels
from softboost._boost.forest import ExtraTrees
from softboost._boost.hard_trees import HardTree
from softboost._boost.learner import TrainingData
from softboost._choice import candidates
from softboost._choice.candidates import MAX_FOREST_ROWS, competing
from softboost._choice.judge import MORE_ROUNDS
from softboost._file.container import dumps, loads
from softboost.inspection import attributions

NAME, ON_RESIDUALS, FEW_COLUMNS = "extra trees", "linear+extra trees", "few-column extra trees"


def cells(n=120, seed=0):
    """Each of 27 cells of a grid has its own random mean: no model of few columns or small depth describes them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 4))
    means = np.random.default_rng(9).normal(size=(3, 3, 3))
    place = np.clip(((X[:, :3] + 1) * 1.5).astype(int), 0, 2)
    return X, means[place[:, 0], place[:, 1], place[:, 2]]


@cache
def chosen():
    X, y = cells(400)
    model = SoftBoostRegressor().fit(X, y)
    assert model.choice_.weights.get(NAME, 0) > 0.05
    return model, X, y


def trend_and_cells(n, seed=0):
    """A linear trend in 20 columns, and a random mean for each combination of the signs of five of them."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 20))
    means = np.random.default_rng(9).normal(size=(2, 2, 2, 2, 2))
    slopes = np.random.default_rng(3).normal(size=20)
    return X, X @ slopes + means[tuple((X[:, :5] > 0).astype(int).T)]


@cache
def chosen_on_residuals():
    model = SoftBoostRegressor().fit(*trend_and_cells(300))
    assert model.choice_.weights.get(ON_RESIDUALS, 0) > 0.05
    return model


def places_and_noise(n, seed=0):
    """A value for each of 40 places, told apart by one column, and nine columns of noise."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 40, size=n)
    X = np.column_stack([np.random.default_rng(3).permutation(40)[place], rng.normal(size=(n, 9))])
    return X, np.random.default_rng(9).normal(size=40)[place]


@cache
def chosen_on_few_columns():
    model = SoftBoostRegressor().fit(*places_and_noise(150))
    assert model.choice_.weights.get(FEW_COLUMNS, 0) > 0.05
    return model


def as_nested(tree):
    def nested(node):
        if tree.left[node] == node:
            return tuple(tree.values[node])
        return int(tree.feature[node]), tree.threshold[node], nested(tree.left[node]), nested(tree.right[node])

    return [nested(root) for root in tree.roots]


def assert_same(a, b):
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        if isinstance(one, tuple):
            assert_same(one, other)
        else:
            assert one == pytest.approx(other, rel=1e-9, abs=1e-12)


class TestKernel:
    @pytest.mark.parametrize("n_outputs", [1, 2])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_as_reference(self, n_outputs, weighted):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(9, 40)), rng.normal(size=(n_outputs, 40))
        X[3] = X[3] > 0  # a 0/1 column
        X[4] = 1.0  # a constant one
        weight = rng.integers(1, 4, 40).astype(float) if weighted else None
        tree = HardTree(*_kernels.grow_forest(X, y, weight, 3), np.array(False))
        expected = reference.grow_forest(X, y, np.ones(40) if weight is None else weight, 3)
        assert_same(as_nested(tree), expected)

    def test_reproduces_targets_of_distinct_rows(self):
        rng = np.random.default_rng(2)
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
            X, y = rng.normal(size=(3, 50)).astype(dtype), rng.normal(size=(1, 50)).astype(dtype)
            fitted = ExtraTrees().fit(TrainingData(X, None), y, None, None, rng)
            assert_allclose(fitted.output, y, atol=tolerance)

    def test_equal_rows_share_a_leaf(self):
        X, y = np.zeros((2, 4)), np.array([[1.0, 2.0, 3.0, 6.0]])
        fitted = ExtraTrees(2).fit(TrainingData(X, None), y, None, None, None)
        assert_allclose(fitted.output, 3.0)

    def test_weight_two_equals_two_rows_and_order_does_not_matter(self):
        rng = np.random.default_rng(3)
        X, y = rng.normal(size=(5, 30)), rng.normal(size=(1, 30))
        weight, order = np.where(np.arange(30) < 7, 2.0, 1.0), rng.permutation(37)
        twice = np.concatenate([np.arange(30), np.arange(7)])[order]
        a = ExtraTrees().fit(TrainingData(X, weight), y, None, None, rng).tree
        repeated = TrainingData(np.ascontiguousarray(X[:, twice]), None)
        b = ExtraTrees().fit(repeated, np.ascontiguousarray(y[:, twice]), None, None, rng).tree
        z = rng.normal(size=(5, 200))
        assert_allclose(a.output(z), b.output(z), atol=1e-12)

    def test_threads_change_no_bit(self):
        rng = np.random.default_rng(4)
        X, y, z = rng.normal(size=(5, 300)), rng.normal(size=(1, 300)), rng.normal(size=(5, 2000))
        one, two = (HardTree(*_kernels.grow_forest(X, y, None, 9, n), np.array(False)) for n in (1, 2))
        assert_array_equal(one.output(z, 1), two.output(z, 2))

    def test_output_follows_the_nodes(self):
        rng = np.random.default_rng(5)
        for single in (False, True):
            grown = _kernels.grow_forest(rng.normal(size=(4, 90)), rng.normal(size=(2, 90)), None, 6)
            tree, z = HardTree(*grown, np.array(single)), rng.normal(size=(4, 700))
            assert_allclose(tree.output(z), tree.values[tree.leaf_of(z)].sum(axis=0).T, atol=1e-13)

    def test_wrong_shapes_are_refused(self):
        with pytest.raises(ValueError, match="empty"):
            _kernels.grow_forest(np.zeros((0, 5)), np.zeros((1, 5)), None, 2)
        grown = _kernels.grow_forest(np.arange(10.0)[None].repeat(3, 0), np.arange(10.0)[None], None, 2)
        with pytest.raises(ValueError, match="component"):
            HardTree(grown[0] + 2, *grown[1:], np.array(False)).output(np.zeros((2, 4)))


class TestDefault:
    def test_predicts_cells(self):
        model, _, _ = chosen()
        assert model.score(*cells(500, 5)) > 0.55

    def test_more_trees_on_few_rows(self):
        def n_trees(n_rows):
            return next(c.recipe.learner.n_trees for c in competing(n_rows, n_rows) if c.name == NAME)

        sizes = [20, 100, 200, 300, 1000, MAX_FOREST_ROWS]
        assert [n_trees(n) for n in sizes] == [128, 128, 64, 42, 32, 32]

    def test_competes_in_tables_with_squared_error_and_free_parameters(self):
        def names(n_rows):
            return [c.name for c in competing(n_rows, n_rows)]

        assert NAME in names(MAX_FOREST_ROWS)
        assert NAME not in names(MAX_FOREST_ROWS + 1)
        X, y = cells()
        for params in ({"loss": "huber"}, {"depth": 1}, {"feature_transform": None}, {"learning_rate": 0.1}):
            assert NAME not in SoftBoostRegressor(**params).fit(X, y).choice_.stages

    def test_is_given_up_if_far_behind(self):
        X, _ = cells()
        assert NAME not in SoftBoostRegressor().fit(X, X[:, 0] - X[:, 1]).choice_.stages

    def test_is_saved_exactly(self):
        model, X, _ = chosen()
        again = loads(dumps(model))
        assert_array_equal(again.predict(X), model.predict(X))
        assert dumps(again) == dumps(model)

    def test_in_onnx(self, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime")
        model, X, _ = chosen()
        model.to_onnx(tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        X = cells(200, 6)[0].astype(np.float32)
        (prediction,) = session.run(None, {"X": X})
        assert_allclose(prediction, model.predict(X), atol=1e-4)

    def test_is_explained(self):
        model, X, _ = chosen()
        why = attributions(model, X[:3])
        assert_allclose(why.prediction, model.predict(X[:3]), atol=1e-9)
        assert model.feature_importances_[:3].sum() > 0.8
        assert all(hasattr(tree, "leaf_values") for tree in model.trees_)
        assert "random thresholds" in model.choice_.explain()
        assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), atol=1e-12)


class TestOnResiduals:
    def test_lowers_the_error_where_cells_add_to_a_trend(self, monkeypatch):
        score = chosen_on_residuals().score(*trend_and_cells(1000, 5))
        without = tuple(c for c in candidates.CANDIDATES if c.name != ON_RESIDUALS)
        monkeypatch.setattr(candidates, "CANDIDATES", without)
        others = SoftBoostRegressor().fit(*trend_and_cells(300)).score(*trend_and_cells(1000, 5))
        assert 1 - score < 0.99 * (1 - others)

    def test_competes_where_extra_trees_do(self):
        X, y = cells()
        for n_rows in (MAX_FOREST_ROWS, MAX_FOREST_ROWS + 1):
            names = [c.name for c in competing(n_rows, n_rows)]
            assert (ON_RESIDUALS in names) == (NAME in names)
        assert ON_RESIDUALS not in SoftBoostRegressor(loss="huber").fit(X, y).choice_.stages

    def test_is_saved_exactly(self):
        model, (X, _) = chosen_on_residuals(), trend_and_cells(200, 6)
        assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))

    def test_in_onnx(self, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime")
        model = chosen_on_residuals()
        model.to_onnx(tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        X = trend_and_cells(200, 6)[0].astype(np.float32)
        (prediction,) = session.run(None, {"X": X})
        assert_allclose(prediction, model.predict(X), atol=1e-4)


class TestFewColumns:
    def test_lowers_the_error_where_one_column_tells_rows_apart(self, monkeypatch):
        score = chosen_on_few_columns().score(*places_and_noise(1000, 5))
        without = tuple(c for c in candidates.CANDIDATES if c.name != FEW_COLUMNS)
        monkeypatch.setattr(candidates, "CANDIDATES", without)
        others = SoftBoostRegressor().fit(*places_and_noise(150)).score(*places_and_noise(1000, 5))
        assert 1 - score < 0.9 * (1 - others)

    def test_competes_where_extra_trees_do(self):
        for n_rows in (MAX_FOREST_ROWS, MAX_FOREST_ROWS + 1):
            names = [c.name for c in competing(n_rows, n_rows)]
            assert (FEW_COLUMNS in names) == (NAME in names)
        assert FEW_COLUMNS not in SoftBoostRegressor(loss="huber").fit(*cells()).choice_.stages

    def test_smooth_models_that_are_far_better_end_its_race(self):
        X = np.random.default_rng(6).normal(size=(100, 3))
        assert FEW_COLUMNS not in SoftBoostRegressor().fit(X, np.sin(X[:, 0]) * np.cos(X[:, 1])).choice_.stages

    def test_is_saved_exactly(self):
        model, (X, _) = chosen_on_few_columns(), places_and_noise(200, 6)
        assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))

    def test_in_onnx(self, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime")
        model = chosen_on_few_columns()
        model.to_onnx(tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        X = places_and_noise(200, 6)[0].astype(np.float32)
        (prediction,) = session.run(None, {"X": X})
        assert_allclose(prediction, model.predict(X), atol=1e-4)


def test_the_best_candidate_gets_more_rounds_while_its_loss_falls():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 25, size=(300, 2))
    y = rng.normal(size=(2, 25))[[[0, 1]], X].sum(axis=1)  # a value for each level of two columns, without noise
    stages = SoftBoostRegressor().fit(X, y).choice_.stages
    most = {c.name: c.recipe.n_estimators for c in competing(300, 300) if c.is_boosted}
    extended = [name for name, stage in stages.items() if stage > most.get(name, np.inf)]
    assert extended
    assert all(stages[name] <= MORE_ROUNDS * most[name] for name in extended)
