"""The Gaussian process of the default: exact, weighted, bounded away from the rows, saved and exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost import SoftBoostRegressor
from softboost._boost.gaussian_process import GaussianProcess, KernelFunction, matern
from softboost._boost.learner import TrainingData
from softboost._choice.candidates import MAX_PROCESS_ROWS, competing
from softboost._file.container import dumps, loads
from softboost._file.values import ModelFileError
from softboost.inspection import attributions

NAME = "gaussian process"
QUADRATIC = {"lengths": (1.0,), "noises": (1e-3, 0.1), "limit": 100.0, "covariance": "quadratic"}


def smooth_rows(n=60, seed=7, n_outputs=1):
    """Rows of a smooth function without an additive part, which a Gaussian process fits best."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, :1]) * np.cos(2 * X[:, 1:2]) * np.arange(1, n_outputs + 1)
    return X, y[:, 0] if n_outputs == 1 else y


def fit(X, y, weight=None, **settings):
    return GaussianProcess(**settings).fit(TrainingData(X, weight), y, None, None, np.random.default_rng(0))


def chosen(n_outputs=1):
    X, y = smooth_rows(n_outputs=n_outputs)
    model = SoftBoostRegressor().fit(X, y)
    assert model.choice_.weights[NAME] > 0.3
    return model, X, y


class TestLearner:
    def by_definition(self, X, y, length, noise, limit=3.0):
        """Posterior mean at the rows, and minus twice the log likelihood with the best variance, up to a constant."""
        rows = np.clip((X - X.mean(axis=1)[:, None]) / X.std(axis=1)[:, None], -limit, limit)
        unit = length * np.sqrt(rows.var(axis=1).sum())
        r = np.sqrt(3) * np.linalg.norm(rows[:, :, None] - rows[:, None], axis=0) / unit
        K = (1 + r) * np.exp(-r)
        C = K + noise * np.eye(len(K))
        n = len(K)
        value = sum(n * np.log(row @ np.linalg.solve(C, row) / n) + np.linalg.slogdet(C)[1] for row in y)
        return np.linalg.solve(C, y.T).T @ K, value

    def test_is_the_posterior_mean_of_largest_likelihood(self):
        X, y = (a.T.copy() for a in smooth_rows(40, n_outputs=2))
        X[0, 3] = 9.0  # clipped
        learner = GaussianProcess()
        found = {(s, v): self.by_definition(X, y, s, v) for s in learner.lengths for v in learner.noises}
        best = min(found.values(), key=lambda pair: pair[1])[0]
        fitted = fit(X, y)
        assert_allclose(fitted.output, best, atol=1e-9)
        assert_allclose(fitted.tree.output(X), fitted.output, atol=1e-9)

    def test_weight_two_equals_the_row_repeated(self):
        X, y = smooth_rows(30)
        y = y + 0.3 * np.random.default_rng(1).normal(size=30)
        weight = np.random.default_rng(2).integers(1, 4, size=30)
        rows = np.repeat(np.arange(30), weight)
        at = np.random.default_rng(3).normal(size=(3, 50))
        one = fit(X.T.copy(), y[None], weight.astype(float))
        two = fit(X[rows].T.copy(), y[rows][None])
        assert_allclose(one.tree.output(at), two.tree.output(at), atol=1e-8)

    def test_output_vanishes_far_from_the_rows_and_does_not_depend_on_the_other_rows(self):
        X, y = smooth_rows(40)
        function = fit(X.T.copy(), y[None]).tree
        far = function.output(np.full((3, 1), 1e6))
        assert_array_equal(far, function.output(np.full((3, 1), 1e300)))
        assert abs(far).max() < abs(y).max()
        at = np.random.default_rng(0).normal(size=(3, 700))
        whole = function.output(at)
        assert_array_equal(whole[:, 5:6], function.output(at[:, 5:6]))
        assert_array_equal(whole, function.output(at, 2))

    def test_constant_columns_have_no_effect(self):
        X, y = smooth_rows(30)
        own = X.T.copy()
        both = np.vstack([own, np.full((1, 30), 5.0)])
        assert_allclose(fit(both, y[None]).output, fit(own, y[None]).output, atol=1e-12)
        nothing = fit(np.full((2, 30), 5.0), y[None])
        assert not nothing.output.any()
        assert not nothing.tree.output(np.ones((2, 4))).any()

    def test_scales_measure_distances(self):
        X, y = (a.T.copy() for a in smooth_rows(30, n_outputs=2))
        assert_allclose(fit(X, y, scales=(2.0,) * 3).output, fit(X, y).output, atol=1e-9)
        assert_allclose(fit(X, y, scales=(1.0, 1.0, 0.0)).output, fit(X[:2].copy(), y).output, atol=1e-9)

    def test_matern_is_a_covariance(self):
        rows = np.random.default_rng(0).normal(size=(40, 2))
        K = matern(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
        assert np.linalg.eigvalsh(K).min() > 0
        assert_array_equal(np.diag(K), 1.0)


class TestQuadratic:
    def test_is_ridge_regression_on_squares_and_products(self):
        rng = np.random.default_rng(0)
        X, at = rng.normal(size=(3, 40)), rng.normal(size=(3, 9))
        y = (X[:1] * X[1:2] + rng.normal(size=(1, 40))).copy()
        settings = {**QUADRATIC, "noises": (0.1,)}

        def features(z):
            z = (z - X.mean(axis=1)[:, None]) / X.std(axis=1)[:, None] / np.sqrt(3)
            pairs = [np.sqrt(2) * z[i] * z[j] for i in range(3) for j in range(i)]
            return np.vstack([np.ones(z.shape[1]), np.sqrt(2) * z, z**2, *pairs])

        A = features(X)
        expected = np.linalg.solve(A @ A.T + 0.1 * np.eye(len(A)), A @ y[0]) @ features(at)
        assert_allclose(fit(X, y, **settings).tree.output(at)[0], expected, atol=1e-9)

    def test_weight_two_equals_the_row_repeated(self):
        X, y = smooth_rows(30)
        weight = np.random.default_rng(2).integers(1, 4, size=30)
        rows = np.repeat(np.arange(30), weight)
        one = fit(X.T.copy(), y[None], weight.astype(float), **QUADRATIC)
        two = fit(X[rows].T.copy(), y[rows][None], **QUADRATIC)
        assert_allclose(one.output[:, rows], two.output, atol=1e-8)

    def test_default_finds_a_product_and_saves_it(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(110, 5))
        y = X[:, 0] * (X[:, 1] - X[:, 2]) + X[:, 3]
        model = SoftBoostRegressor().fit(X[:80], y[:80])
        assert model.choice_.weights["quadratic"] > 0.9
        assert_allclose(model.predict(X[80:]), y[80:], atol=1e-6)
        again = loads(dumps(model))
        assert_array_equal(again.predict(X), model.predict(X))
        member = next(m for m in model.members_ if m.name == "quadratic")
        function = member.boosted.rounds[0][1]
        member.boosted.rounds[0] = None, replace(function, covariance="cubic")
        with pytest.raises(ModelFileError, match="covariance"):
            loads(dumps(model))

    def test_onnx(self, tmp_path):
        pytest.importorskip("onnx")
        runtime = pytest.importorskip("onnxruntime")
        X = np.random.default_rng(0).normal(size=(60, 4))
        model = SoftBoostRegressor().fit(X, X[:, 0] * X[:, 1])
        assert model.choice_.weights["quadratic"] > 0.9
        model.to_onnx(tmp_path / "model.onnx")
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
        got = session.run(None, {"X": X.astype(np.float32)})[0]
        assert_allclose(got, model.predict(X), atol=1e-4)


class TestDefault:
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_predicts_smooth_functions(self, n_outputs):
        model, _, _ = chosen(n_outputs)
        X, y = smooth_rows(300, 8, n_outputs)
        assert model.score(X, y) > 0.55  # 0.4 without it

    def test_competes_on_few_rows_with_squared_error_and_free_parameters(self):
        def names(n_rows, total=None):
            return [c.name for c in competing(total or n_rows, n_rows)]

        assert NAME in names(MAX_PROCESS_ROWS)
        assert NAME not in names(MAX_PROCESS_ROWS + 1)
        assert NAME not in names(10 * MAX_PROCESS_ROWS, total=50)  # small weights
        X, y = smooth_rows()
        for params in ({"loss": "huber"}, {"depth": 1}, {"feature_transform": None}, {"learning_rate": 0.1}):
            assert NAME not in SoftBoostRegressor(**params).fit(X, y).choice_.stages

    def test_is_saved_exactly(self):
        for n_outputs in (1, 2):
            model, X, _ = chosen(n_outputs)
            again = loads(dumps(model))
            assert_array_equal(again.predict(X), model.predict(X))
            assert_array_equal(again.predict_interval(X), model.predict_interval(X))
            assert dumps(again) == dumps(model)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"centres": np.full((3, 4), 9.0)}, "within its limits"),
            ({"centres": np.zeros((2, 4)), "centre": np.zeros(2), "scale": np.ones(2), "limit": np.ones(2)}, "columns"),
            ({"coefficients": np.zeros((2, 4))}, "outputs"),
            ({"coefficients": np.full((1, 4), 1e308)}, "overflow"),
            ({"coefficients": np.zeros((1, 5))}, "shape"),
            ({"limit": np.full(3, np.inf)}, "NaN or infinity"),
        ],
    )
    def test_inconsistent_file_is_refused(self, change, message):
        model, _, _ = chosen()
        member = next(m for m in model.members_ if m.name == NAME)
        n = len(member.boosted.columns)
        arrays = {"centre": np.zeros(3), "scale": np.ones(3), "limit": np.ones(3), "centres": np.zeros((3, 4))}
        assert n == 3
        member.boosted.rounds[0] = None, KernelFunction(**{**arrays, "coefficients": np.zeros((1, 4)), **change})
        with pytest.raises(ModelFileError, match=message):
            loads(dumps(model))

    def test_is_explained(self):
        model, X, _ = chosen()
        why = attributions(model, X[:5])
        assert_allclose(why.prediction, model.predict(X[:5]), atol=1e-9)
        assert model.feature_importances_[:2].sum() > 0.8
        assert all(hasattr(tree, "leaf_values") for tree in model.trees_)
        assert "Gaussian process" in model.choice_.explain()

    def test_staged_predictions_end_at_the_prediction(self):
        model, X, _ = chosen()
        assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), atol=1e-12)

    def test_one_wild_cell_changes_little(self):
        X, y = smooth_rows()
        test = smooth_rows(300, 8)
        before = SoftBoostRegressor().fit(X, y).score(*test)
        for wild in (1e3, 1e9):
            X_wild = X.copy()
            X_wild[5, 2] = wild
            assert SoftBoostRegressor().fit(X_wild, y).score(*test) > before - 0.03
        far = X.copy()
        far[:, 0] *= 1e6
        assert np.abs(SoftBoostRegressor().fit(X, y).predict(far)).max() < 7 * np.abs(y).max()
