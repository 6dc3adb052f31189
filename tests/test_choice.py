"""The default's choice: what it may look at, what it says, and how it behaves where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import TimeSeriesSplit

from softboost import SoftBoostRegressor, _choice
from softboost._choice import Units, combine, convex_weights, wanders
from softboost._linear import find_anchor, fit_linear_models
from softboost._validation import is_series, make_folds
from softboost.losses import AbsoluteError, SquaredError


def linear_task(seed: int, n: int = 100, d: int = 50, n_test: int = 400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_test, d))
    relevant = rng.permutation(d)[:5]
    y = X[:, relevant] @ rng.uniform(0.5, 1.5, 5) + 0.1 * rng.normal(size=n + n_test)
    return X[:n], y[:n], X[n:], y[n:]


def lagged_series(values: np.ndarray, n_lags: int):
    windows = np.lib.stride_tricks.sliding_window_view(values, n_lags + 1)
    return windows[:, :-1][:, ::-1].copy(), windows[:, -1].copy()


def relative_error(model: SoftBoostRegressor, X: np.ndarray, y: np.ndarray, y_train: np.ndarray) -> float:
    return float(np.mean((model.predict(X) - y) ** 2) / np.var(y_train))


def test_choice_is_deterministic_and_says_what_it_chose(capsys):
    X, y, X_test, _ = linear_task(0)
    first = SoftBoostRegressor(random_state=1).fit(X, y)
    second = SoftBoostRegressor(random_state=2).fit(X, y)
    assert_array_equal(first.predict(X_test), second.predict(X_test))
    assert first.choice_ == second.choice_
    assert sum(first.choice_.weights.values()) == pytest.approx(1.0)
    assert set(first.choice_.weights) <= set(first.choice_.losses)
    assert first.choice_.n_judged == len(y)
    line = first.choice_.describe()
    assert "\n" not in line
    assert all(name in line for name in first.choice_.weights)
    SoftBoostRegressor(verbose=True).fit(X, y)
    assert "chose" in capsys.readouterr().err


def test_thread_count_changes_no_bit():
    X, y, X_test, _ = linear_task(1)
    one, two = (SoftBoostRegressor(n_jobs=n).fit(X, y).predict(X_test) for n in (1, 2))
    assert_array_equal(one, two)


def test_every_fixed_parameter_is_kept_and_all_fixed_is_one_plain_fit():
    X, y, _, _ = linear_task(2, n=60, d=6)
    partly = SoftBoostRegressor(n_estimators=7, feature_transform=None).fit(X, y)
    assert all(member.stage == 7 for member in partly.members_ if member.boosted is not None)
    fixed = SoftBoostRegressor(
        n_estimators=9, learning_rate=0.3, depth=2, feature_transform=None, leaves="linear", gates="greedy",
        init="constant", ridge=1.0,
    ).fit(X, y)  # fmt: skip
    assert fixed.choice_ is None
    assert [member.weight for member in fixed.members_] == [1.0]
    assert fixed.n_estimators_ == 9
    assert all(tree.depth == 2 for tree in fixed.trees_)


@pytest.mark.parametrize("cv", [None, TimeSeriesSplit(4), 4])
def test_no_fold_is_trained_on_rows_after_those_it_is_judged_on(monkeypatch, cv):
    seen = []
    original = _choice.Fit.__init__

    def spy(self, X, y, *args, **kwargs):
        seen.append(np.asarray(y[0]))
        original(self, X, y, *args, **kwargs)

    monkeypatch.setattr(_choice.Fit, "__init__", spy)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60.0)  # y tells the row
    SoftBoostRegressor(shuffle=False, cv=cv, standardize=False).fit(X, y)
    rows = np.arange(60)
    folds = make_folds(cv, False, X, y[:, None], rows, 0)
    assert len(folds) >= 2
    for train, held in folds:
        assert train.max() < held.min()
    trained_on = {tuple(train) for train, _ in folds} | {tuple(rows)}
    assert {tuple(s.astype(int)) for s in seen} <= trained_on


def test_folds_scale_with_rows():
    def folds(n):
        return make_folds(None, "blocks", np.zeros((n, 1)), np.zeros((n, 1)), np.arange(n), 0)

    assert len(folds(100)) == 5
    assert len(folds(100_000)) == 1
    train, held = folds(30_000)[0]
    assert len(held) == pytest.approx(6_000, rel=0.01)
    train, held = folds(1_000_000)[0]
    assert (len(train), len(held)) == (2**15, 2**14)
    assert train.max() > 900_000
    assert train.min() < 100_000
    assert not set(train) & set(held)
    assert sorted(np.concatenate([held for _, held in folds(103)])) == list(range(103))


def test_pure_noise_is_predicted_by_about_the_mean():
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 50)), rng.normal(size=100)
        X_test, y_test = rng.normal(size=(2000, 50)), rng.normal(size=2000)
        model = SoftBoostRegressor().fit(X, y)
        ratios.append(np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y_test))
    # the mean of 100 values costs 1.01 of the variance by itself
    assert np.mean(ratios) <= 1.02


def test_twenty_rows_do_not_explode():
    for seed in range(5):
        X, y, X_test, y_test = linear_task(seed, n=20)
        assert relative_error(SoftBoostRegressor().fit(X, y), X_test, y_test, y) < 1.5


def test_far_away_predictions_stay_within_three_widths_of_the_targets():
    X, y, X_test, _ = linear_task(3)
    prediction = SoftBoostRegressor().fit(X, y).predict(1e6 * X_test)
    width = y.max() - y.min()
    assert prediction.min() >= y.min() - 3 * width - 1e-9
    assert prediction.max() <= y.max() + 3 * width + 1e-9


def test_far_away_changes_stay_within_one_width_of_the_training_changes():
    rng = np.random.default_rng(7)
    X, y = lagged_series(np.cumsum(0.3 + rng.normal(size=120)), 6)
    model = SoftBoostRegressor().fit(X, y)
    changes = y - X[:, 0]
    width = changes.max() - changes.min()
    predicted = model.predict(1000 * X) - 1000 * X[:, 0]
    assert model.members_[0].anchor.column == 0
    assert predicted.min() >= changes.min() - width - 1e-6
    assert predicted.max() <= changes.max() + width + 1e-6


def test_two_hundred_noise_columns_cost_at_most_a_quarter():
    plain, noisy = [], []
    for seed in range(6):
        X, y, X_test, y_test = linear_task(seed)
        rng = np.random.default_rng(100 + seed)
        order = rng.permutation(250)
        wide, wide_test = (np.hstack([A, rng.normal(size=(len(A), 200))])[:, order] for A in (X, X_test))
        plain.append(relative_error(SoftBoostRegressor().fit(X, y), X_test, y_test, y))
        noisy.append(relative_error(SoftBoostRegressor().fit(wide, y), wide_test, y_test, y))
    assert np.mean(noisy) <= 1.25 * np.mean(plain)


def test_index_task_is_learned_by_the_transform():
    rng = np.random.default_rng(5)
    direction = np.zeros(50)
    direction[rng.permutation(50)[:5]] = rng.normal(size=5)
    direction /= np.linalg.norm(direction)
    X = rng.normal(size=(500, 50))
    s = X @ direction
    y = np.tanh(2 * s) + 0.5 * s + 0.1 * rng.normal(size=500)
    model = SoftBoostRegressor().fit(X[:100], y[:100])
    assert relative_error(model, X[100:], y[100:], y[:100]) < 0.03
    assert model.transforms_[-1].shape[0] <= 2


def test_series_are_recognised_by_a_column_that_repeats_the_target():
    rng = np.random.default_rng(0)
    X, y = lagged_series(np.cumsum(rng.normal(size=90)), 6)
    assert is_series(X, y[:, None])
    assert is_series(X[:, ::-1], y[:, None])
    order = rng.permutation(len(y))
    assert not is_series(X[order], y[order, None])
    assert not is_series(X, np.ones((len(y), 1)))


def test_wandering_series_are_modelled_by_their_changes():
    rng = np.random.default_rng(1)
    walk, still = np.cumsum(rng.normal(size=150)), rng.normal(size=150)
    assert wanders(walk[None])
    assert not wanders(still[None])
    X, y = lagged_series(walk, 8)
    model = SoftBoostRegressor().fit(X[:-30], y[:-30])
    assert all("persistence" in m.name or "drift" in m.name or "anchored" in m.name for m in model.members_)
    naive = np.mean((X[-30:, 0] - y[-30:]) ** 2)
    assert np.mean((model.predict(X[-30:]) - y[-30:]) ** 2) <= 1.25 * naive


def test_trend_is_carried_on_beyond_the_training_range():
    t = np.arange(120.0)
    X, y = lagged_series(0.5 * t + np.sin(t), 6)
    model = SoftBoostRegressor().fit(X[:80], y[:80])
    assert np.sqrt(np.mean((model.predict(X[80:]) - y[80:]) ** 2)) < 0.5


def test_anchor_view_is_undone_exactly():
    rng = np.random.default_rng(2)
    level = np.cumsum(rng.normal(size=80))
    raw = np.column_stack([level, level + 0.1 * rng.normal(size=80), rng.normal(size=80)])
    target = level + 0.2 * rng.normal(size=80)
    units = Units(raw.mean(axis=0), raw.std(axis=0), np.array([target.mean()]), np.array([target.std()]))
    X = ((raw - units.centre) / units.spread).T
    y = ((target - units.y_centre) / units.y_spread)[None]
    anchor = find_anchor(X, y, None, units)
    assert anchor.column == 0
    assert_allclose(anchor.level(X)[0] * units.y_spread[0] + units.y_centre[0], level, atol=1e-10)
    changes = fit_linear_models(anchor.view(X), y - anchor.level(X), None)["ridge"]
    levels = anchor.unview_path(changes)
    assert_allclose(levels.predict(X), changes.predict(anchor.view(X)) + anchor.level(X), atol=1e-8)


def test_convex_weights_find_a_known_mixture():
    rng = np.random.default_rng(3)
    predictions = rng.normal(size=(4, 1, 500))
    y = np.tensordot([0.0, 0.7, 0.3, 0.0], predictions, axes=1)
    assert_allclose(convex_weights(predictions, y, None, SquaredError()), [0, 0.7, 0.3, 0], atol=1e-5)
    assert_allclose(convex_weights(predictions, y, None, AbsoluteError()), [0, 0.7, 0.3, 0], atol=0.02)


def test_richer_level_needs_more_than_its_noise():
    rng = np.random.default_rng(4)
    y = rng.normal(size=(1, 100))

    def judged(name: str, prediction: np.ndarray) -> _choice._Judged:
        return _choice._Judged(name, False, 0, prediction, SquaredError().loss(y, prediction).mean(axis=0))

    constant = judged("constant", np.zeros_like(y))
    lucky = judged("ridge", 0.02 * y)  # better, but hardly
    sure = judged("trees", 0.9 * y)
    assert_allclose(combine([constant, judged("ridge", -0.1 * y)], [], y, None, SquaredError()), [1, 0])
    weights = combine([constant, lucky], [sure], y, None, SquaredError())
    assert weights[2] == pytest.approx(1.0)
