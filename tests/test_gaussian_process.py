"""The Gaussian processes of the default: exact, weighted, bounded away from the rows, saved and exported."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost import SoftBoostRegressor
from softboost._boost import anisotropic
from softboost._boost.anisotropic import N_CENTRES, AnisotropicProcess
from softboost._boost.gaussian_process import GaussianProcess, KernelFunction, matern
from softboost._boost.learner import TrainingData
from softboost._choice import candidates
from softboost._choice.candidates import MAX_ANISOTROPIC_ROWS, MAX_PROCESS_ROWS, competing
from softboost._file.container import dumps, loads
from softboost._file.values import ModelFileError
from softboost.inspection import attributions

NAMES = ("gaussian process", "anisotropic process", "logarithmic process")
each_process = pytest.mark.parametrize("name", NAMES)
QUADRATIC = {"lengths": (1.0,), "noises": (1e-3, 0.1), "limit": 100.0, "covariance": "quadratic"}


def smooth_rows(n=60, seed=7, n_outputs=1):
    """Rows of a smooth function without an additive part, which a Gaussian process fits best."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, :1]) * np.cos(2 * X[:, 1:2]) * np.arange(1, n_outputs + 1)
    return X, y[:, 0] if n_outputs == 1 else y


def fit(X, y, weight=None, **settings):
    return GaussianProcess(**settings).fit(TrainingData(X, weight), y, None, None, np.random.default_rng(0))


def fit_one(name, X, y):
    """A default fit without the other processes."""
    table = tuple(c for c in candidates.CANDIDATES if c.name == name or c.name not in NAMES)
    with mock.patch.object(candidates, "CANDIDATES", table):
        return SoftBoostRegressor().fit(X, y)


def chosen(name, n_outputs=1):
    X, y = smooth_rows(n_outputs=n_outputs)
    y = np.exp(2 * y) if name == "logarithmic process" else y
    model = fit_one(name, X, y)
    assert model.choice_.weights[name] > 0.3
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

    @pytest.mark.parametrize("noise", [0.03, 0.3])
    def test_error_beyond_the_range_stays_below_the_spread_of_the_target(self, noise):
        """Noise on a bounded function must not become a large coefficient of a square far from the rows."""
        rng = np.random.default_rng(1)
        X = rng.uniform(-1, 1, size=(2, 60))
        y = np.tanh(2 * X[:1]) + noise * rng.normal(size=(1, 60))
        function = fit(X, y, **QUADRATIC).tree
        edge, far, farther = (np.array([[x, -x], [x, x]]) for x in (1.0, 10.0, 100.0))
        assert_array_equal(function.output(far), function.output(farther))
        assert np.all(np.abs(function.seen(X)) < function.limit[:, None])
        assert np.abs(function.output(far) - np.tanh(2 * far[:1])).max() < 4 * y.std()
        assert np.abs(function.output(edge) - np.tanh(2 * edge[:1])).max() < y.std()

    def test_more_noise_ends_columns_nearer_and_none_never(self):
        X = np.random.default_rng(1).uniform(-1, 1, size=(2, 60))
        e = np.random.default_rng(2).normal(size=60)
        widths = []
        for noise in (0.0, 0.05, 0.3, 3.0):
            settings = QUADRATIC | {"noises": tuple(np.logspace(-10, 2, 13))}
            function = fit(X, (X[0] * X[1] + noise * e)[None], **settings).tree
            most = np.abs(function.seen(X)).max(axis=1)
            widths.append(((function.limit - most) / np.ptp(function.seen(X), axis=1)).max())
        assert widths[0] > 10
        assert np.all(np.diff(widths) < 0)
        assert 0 <= widths[-1] < 0.1

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


class TestAnisotropic:
    def fit(self, X, y, weight=None, **settings):
        rows = TrainingData(np.ascontiguousarray(X.T), weight)
        return AnisotropicProcess(**settings).fit(rows, y[None], None, None, np.random.default_rng(0))

    def rows(self, n=40, seed=0, n_columns=4):
        X = np.random.default_rng(seed).normal(size=(n, n_columns))
        return X, np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_gradient_of_the_likelihood(self, weighted, n_outputs, monkeypatch):
        rng, seen = np.random.default_rng(0), []
        X, t = rng.normal(size=(3, 20)), rng.normal(size=(n_outputs, 20))
        weight = rng.integers(1, 4, size=20).astype(float) if weighted else None
        monkeypatch.setattr(anisotropic, "_minimised", lambda f, start, *others: seen.append(f) or start)
        AnisotropicProcess()._search(X, t, weight)
        at = np.array([-1.0, 0.3, -2.0, -1.5])
        value, gradient = seen[0](at)
        steps = 1e-5 * np.eye(4)
        assert_allclose(gradient, [(seen[0](at + d)[0] - seen[0](at - d)[0]) / 2e-5 for d in steps], rtol=1e-5)
        r = np.sqrt(5) * np.linalg.norm((X[:, :, None] - X[:, None]) * np.exp(at[:3] / 2)[:, None, None], axis=0)
        K = (1 + r + r**2 / 3) * np.exp(-r)
        rows = np.repeat(np.arange(20), 1 if weight is None else weight.astype(int))
        C = K[np.ix_(rows, rows)] + np.exp(at[3]) * np.eye(len(rows))
        likelihood = sum(len(rows) * np.log(row @ np.linalg.solve(C, row)) for row in t[:, rows])
        likelihood += n_outputs * np.linalg.slogdet(C)[1]
        prior = 0.03 * ((at[:3] - np.log(1 / 3)) ** 2).sum()
        assert_allclose(value, likelihood + prior, rtol=1e-10)

    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_search_is_the_same_for_a_weight_and_for_equal_rows(self, n_outputs):
        """Equal rows have equal targets, so the noise of the process tends to zero, where rounding is amplified."""
        for seed in range(4):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(6, 60)), rng.normal(size=(n_outputs, 60))
            weight = np.where(np.arange(60) % 3 == 0, 3, 1)
            rows = np.repeat(np.arange(60), weight)
            data = TrainingData(X, weight.astype(float)), TrainingData(X[:, rows].copy(), None)
            one, two = (
                AnisotropicProcess().fit(d, t, None, None, None)
                for d, t in zip(data, (y, y[:, rows].copy()), strict=True)
            )
            assert_allclose(one.tree.scale, two.tree.scale, rtol=1e-9)
            assert_allclose(one.output[:, rows], two.output, atol=1e-9)
            at = 3 * rng.normal(size=(6, 40))
            assert_allclose(one.tree.output(at), two.tree.output(at), atol=1e-9)

    def test_finds_the_columns_that_matter(self):
        X, y = self.rows(n_columns=8)
        at, truth = self.rows(200, 1, n_columns=8)
        function = self.fit(X, y).tree
        assert np.mean((function.output(at.T.copy())[0] - truth) ** 2) < 0.05 * truth.var()
        assert function.scale[0] > 10 * function.scale[2:].max()

    def test_weight_two_equals_the_row_repeated(self):
        X, y = self.rows()
        weight = np.random.default_rng(2).integers(1, 4, size=40)
        rows = np.repeat(np.arange(40), weight)
        at = np.random.default_rng(3).normal(size=(4, 50))
        for settings in ({}, {"zero": (y.min() - 0.1,)}, {"most_rows": 25}):
            one = self.fit(X, y, weight.astype(float), **settings).tree
            two = self.fit(X[rows], y[rows], **settings).tree
            assert_allclose(one.output(at), two.output(at), atol=1e-9)

    def test_order_of_columns_changes_nothing(self):
        X, y = self.rows()
        order = [2, 0, 3, 1]
        assert_allclose(self.fit(X[:, order], y).output, self.fit(X, y).output, atol=1e-9)

    def test_logarithm_is_that_of_the_distance_from_zero(self):
        X, y = self.rows()
        plain = self.fit(X, y)
        logarithm = self.fit(X, np.exp(y) - 3.0, zero=(-3.0,))
        assert_allclose(logarithm.tree.coefficients, plain.tree.coefficients, atol=1e-9)
        ratio = (logarithm.output + 3.0) / np.exp(plain.output)
        assert np.ptp(ratio) < 1e-9
        assert_allclose(logarithm.output.mean(), (np.exp(y) - 3.0).mean())  # the factor corrects the mean
        assert_allclose(logarithm.tree.output(np.ascontiguousarray(X.T)), logarithm.output, atol=1e-9)

    def test_logarithm_bears_targets_that_were_moved_below_zero(self):
        X, y = self.rows()
        moved = np.exp(y)
        moved[3] = -0.5
        assert np.isfinite(self.fit(X, moved, zero=(0.0,)).output).all()

    def test_many_rows_are_summarised_by_some(self):
        X, y = self.rows(900)
        at, truth = self.rows(200, 1)
        function = self.fit(X, y).tree
        assert function.centres.shape[1] == N_CENTRES
        assert np.mean((function.output(at.T.copy())[0] - truth) ** 2) < 1e-3 * truth.var()
        weight = np.random.default_rng(2).integers(1, 3, size=900)
        rows = np.repeat(np.arange(900), weight)
        one, two = self.fit(X, y, weight.astype(float)).tree, self.fit(X[rows], y[rows]).tree
        assert_allclose(one.output(at.T.copy()), two.output(at.T.copy()), atol=1e-9)

    def test_sum_over_all_rows_is_the_process_itself(self, monkeypatch):
        X, y = self.rows()
        y = y + 0.5 * np.random.default_rng(1).normal(size=40)
        at = np.random.default_rng(2).normal(size=(4, 50))
        exact = self.fit(X, y).tree
        monkeypatch.setattr(anisotropic, "MOST_EXACT_ROWS", 10)
        assert_allclose(self.fit(X, y).tree.output(at), exact.output(at), atol=1e-5)

    def test_constant_columns_have_no_effect(self):
        X, y = self.rows()
        both = np.hstack([X, np.full((40, 1), 5.0)])
        assert_allclose(self.fit(both, y).tree.scale[-1], 0.0)
        assert np.isfinite(self.fit(np.full((40, 2), 5.0), y).output).all()

    def test_positive_targets_only_have_logarithms(self):
        X, y = smooth_rows()
        assert "logarithmic process" not in SoftBoostRegressor().fit(X, y).choice_.stages
        assert "logarithmic process" in SoftBoostRegressor().fit(X, np.exp(y)).choice_.stages

    def test_default_finds_a_multiplicative_relation(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 4))
        y = np.exp(1.5 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2])
        model = SoftBoostRegressor().fit(X[:100], y[:100])
        without = fit_one("gaussian process", X[:100], y[:100])
        errors = [np.mean((m.predict(X[100:]) - y[100:]) ** 2) for m in (model, without)]
        assert errors[0] < 0.5 * errors[1]


class TestDefault:
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_predicts_smooth_functions(self, n_outputs):
        model, _, _ = chosen("gaussian process", n_outputs)
        X, y = smooth_rows(300, 8, n_outputs)
        assert model.score(X, y) > 0.55  # 0.4 without it

    def test_competes_on_few_rows_with_squared_error_and_free_parameters(self):
        def names(n_rows, total=None):
            return [c.name for c in competing(total or n_rows, n_rows)]

        assert set(NAMES) <= set(names(MAX_PROCESS_ROWS))
        assert set(NAMES[1:]) == set(NAMES) & set(names(MAX_PROCESS_ROWS + 1))
        assert not set(NAMES) & set(names(MAX_ANISOTROPIC_ROWS + 1))
        assert not set(NAMES) & set(names(10 * MAX_PROCESS_ROWS, total=50))  # small weights
        X, y = smooth_rows()
        for params in ({"loss": "huber"}, {"depth": 1}, {"feature_transform": None}, {"learning_rate": 0.1}):
            assert not set(NAMES) & set(SoftBoostRegressor(**params).fit(X, y).choice_.stages)

    @each_process
    def test_is_saved_exactly(self, name):
        for n_outputs in (1, 2):
            model, X, _ = chosen(name, n_outputs)
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
            ({"intercept": np.zeros(2)}, "shape"),
            ({"zero": np.full(1, np.nan), "intercept": np.zeros(1)}, "NaN or infinity"),
            ({"zero": np.zeros(1)}, "intercept"),
        ],
    )
    def test_inconsistent_file_is_refused(self, change, message):
        model, _, _ = chosen("gaussian process")
        member = next(m for m in model.members_ if m.name == "gaussian process")
        n = len(member.boosted.columns)
        arrays = {"centre": np.zeros(3), "scale": np.ones(3), "limit": np.ones(3), "centres": np.zeros((3, 4))}
        assert n == 3
        member.boosted.rounds[0] = None, KernelFunction(**{**arrays, "coefficients": np.zeros((1, 4)), **change})
        with pytest.raises(ModelFileError, match=message):
            loads(dumps(model))

    @each_process
    def test_is_explained(self, name):
        model, X, _ = chosen(name)
        why = attributions(model, X[:5])
        assert_allclose(why.prediction, model.predict(X[:5]), atol=1e-9)
        assert model.feature_importances_[:2].sum() > 0.8
        assert all(hasattr(tree, "leaf_values") for tree in model.trees_)
        assert name in model.choice_.explain()

    @each_process
    def test_onnx(self, name, tmp_path):
        pytest.importorskip("onnx")
        runtime = pytest.importorskip("onnxruntime")
        model, X, _ = chosen(name)
        model.to_onnx(tmp_path / "model.onnx")
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
        got = session.run(None, {"X": X.astype(np.float32)})[0]
        assert_allclose(got, model.predict(X), rtol=1e-4, atol=1e-4)

    def test_staged_predictions_end_at_the_prediction(self):
        model, X, _ = chosen("gaussian process")
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
