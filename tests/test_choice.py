"""The default's choice: what it may look at, what it says, and how it behaves where there is nothing to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import TimeSeriesSplit

from softboost import SoftBoostRegressor
from softboost._boost.learner import TrainingData
from softboost._boost.screening import paired_columns
from softboost._choice.candidates import CANDIDATES, Candidate, competing
from softboost._choice.choose import is_better
from softboost._choice.columns import Needed
from softboost._choice.fit import Fit
from softboost._choice.judge import Judged, OutOfFold, convex_weights
from softboost._choice.ladder import LADDERS, climb
from softboost._choice.rows import RowsKind, find_anchor, is_stationary, lags_of_columns, recognise
from softboost._choice.training import TrainingRows
from softboost._data.folds import Folds, make_folds
from softboost._data.task import Task
from softboost._data.units import Units
from softboost._linear.autoregression import STIFFNESS, fit_autoregression
from softboost._linear.models import LinearModels
from softboost._linear.robust import fit_robust
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
    original = TrainingRows.__init__

    def spy(self, X, y, *args, **kwargs):
        seen.append(np.asarray(y[0]))
        original(self, X, y, *args, **kwargs)

    monkeypatch.setattr(TrainingRows, "__init__", spy)
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


def test_candidates_that_predict_nearly_the_same_share_their_weight():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 4))
        y = X @ np.array([1.0, -1.0, 0.5, 0.5]) + rng.normal(size=100)
        weights = SoftBoostRegressor().fit(X, y).choice_.weights
        alike = [weights[name] for name in ("ridge", "lasso", "relaxed", "robust")]
        assert max(alike) < 1.5 * min(alike)


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


def test_columns_count_for_no_farther_than_three_widths_beyond_their_range():
    """One value that is far out must not carry a prediction along, however steep the model is there."""
    X, y, X_test, _ = linear_task(3, d=6)
    model = SoftBoostRegressor().fit(X, y)
    low, high = X.min(axis=0), X.max(axis=0)
    limit = high + 3 * (high - low)
    changes = []
    for j in range(6):
        far, at_limit, before = X_test[:5].copy(), X_test[:5].copy(), X_test[:5].copy()
        far[:, j], at_limit[:, j], before[:, j] = 50 * limit[j], limit[j], 0.5 * limit[j]
        assert_allclose(model.predict(far), model.predict(at_limit), rtol=1e-9)
        changes.append(np.abs(model.predict(before) - model.predict(at_limit)).max())
    assert np.count_nonzero(changes) >= 5  # those that matter go on mattering up to there
    by_hand = SoftBoostRegressor(n_estimators=3, learning_rate=0.3, depth=2, feature_transform=None, init="linear")
    assert by_hand.set_params(leaves="linear", gates="greedy").fit(X, y).units_.low is None


def test_columns_of_a_non_stationary_series_have_no_limits():
    rng = np.random.default_rng(9)
    X, y = lagged_series(np.cumsum(0.5 + rng.normal(size=120)), 6)
    model = SoftBoostRegressor().fit(X, y)
    assert model.units_.low is None
    changes = y - X[:, 0]
    assert np.all(np.abs(model.predict(X + 1e4) - X[:, 0] - 1e4) <= np.abs(changes).max() + 1e-9)


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


@pytest.mark.parametrize("n_seeds", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_two_hundred_noise_columns_cost_at_most_a_quarter(n_seeds):
    plain, noisy = [], []
    for seed in range(n_seeds):
        X, y, X_test, y_test = linear_task(seed)
        rng = np.random.default_rng(100 + seed)
        order = rng.permutation(250)
        wide, wide_test = (np.hstack([A, rng.normal(size=(len(A), 200))])[:, order] for A in (X, X_test))
        plain.append(relative_error(SoftBoostRegressor().fit(X, y), X_test, y_test, y))
        noisy.append(relative_error(SoftBoostRegressor().fit(wide, y), wide_test, y_test, y))
    assert np.mean(noisy) <= 1.25 * np.mean(plain)


def even_task(seed: int, n: int = 100, d: int = 50):
    """Two columns that act evenly, so that no linear model sees them, among many that do nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 400, d))
    y = np.abs(X[:, 4]) + 0.5 * X[:, 9] ** 2 + 0.1 * rng.normal(size=n + 400)
    return X[:n], y[:n], X[n:], y[n:]


def test_recipes_go_again_over_the_columns_that_they_needed():
    for seed in range(3):
        X, y, X_test, y_test = even_task(seed)
        model = SoftBoostRegressor().fit(X, y)
        members = {m.name: m for m in model.members_}
        assert "few-column trees" in members
        assert set(members["few-column trees"].boosted.columns) == {4, 9}
        wide = SoftBoostRegressor(feature_transform=None, n_estimators=30, learning_rate=0.2).fit(X, y)
        assert relative_error(model, X_test, y_test, y) < 0.15
        assert relative_error(wide, X_test, y_test, y) < 0.35


def test_needed_columns_are_those_of_the_whole_recipe_however_many_of_its_rounds_are_chosen():
    X, y, _, _ = even_task(0)
    X, y = np.ascontiguousarray(X.T), y[None] - y.mean()
    table = {candidate.name: candidate for candidate in competing(100)}
    trees, few = table["trees"], table["few-column trees"]
    units = Units(np.zeros(50), np.ones(50), np.zeros(1), np.ones(1))
    fit = Fit(TrainingRows(X, y, None, units, SquaredError(), 1), list(table.values()))
    fit.boost(trees.with_recipe(n_estimators=1), None)
    _, whole = fit.boost(trees, None)
    effects = whole.effects(fit.rows.data)
    assert len(whole.rounds) == trees.recipe.n_estimators
    assert fit.boost(trees, None)[1] is whole  # once is enough

    def columns(needed: Needed) -> np.ndarray:
        return fit.columns(replace(few, columns=needed), None)

    assert_array_equal(columns(Needed("trees", 8.0)), np.argsort(-effects)[:2])
    assert_array_equal(columns(Needed("trees", 1e-9)), np.argsort(-effects, kind="stable")[: (effects > 0).sum()])
    assert_array_equal(columns(Needed("no such candidate", 8.0)), np.arange(50))


def test_number_of_threads_changes_no_bit_where_rounds_are_watched_and_where_not():
    """Threads watch for Ctrl-C round by round beyond a thousand rows; one thread boosts in the kernel at any size."""
    for n in (200, 1100):
        X, y, X_test, _ = even_task(1, n=n, d=12)
        one, two = (SoftBoostRegressor(n_jobs=n_jobs, cv=2).fit(X, y) for n_jobs in (1, 2))
        assert one.choice_ == two.choice_
        assert_array_equal(one.predict(X_test), two.predict(X_test))


def test_few_column_recipes_are_for_levels_and_not_for_very_many_rows():
    for n, expected in ((20_000, True), (20_001, False)):
        assert any(isinstance(candidate.columns, Needed) for candidate in competing(n)) is expected
    X, y = lagged_series(np.cumsum(np.random.default_rng(0).normal(size=140)), 30)
    model = SoftBoostRegressor(shuffle=False).fit(X, y)
    assert "anchored trees" in model.choice_.stages
    assert not any("few-column" in name for name in model.choice_.stages)


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
    assert_array_equal(lags_of_columns(X, y[:, None]), [1, 2, 3, 4, 5, 6])
    mixed = np.column_stack([X[:, ::-1], rng.normal(size=len(y))])
    mixed[:3, :3] = np.nan
    assert_array_equal(lags_of_columns(mixed, y[:, None]), [6, 5, 4, 3, 2, 1, 0])
    order = rng.permutation(len(y))
    assert lags_of_columns(X[order], y[order, None]) is None
    assert lags_of_columns(X[:, 1:], y[:, None]) is None
    assert lags_of_columns(X, np.ones((len(y), 1))) is None


def kind_of(X: np.ndarray, y: np.ndarray) -> RowsKind:
    return recognise(Task.from_user(SoftBoostRegressor(), X, y, None, None))


def test_kinds_of_rows_are_told_apart():
    rng = np.random.default_rng(0)
    walk, still, other = np.cumsum(rng.normal(size=150)), rng.normal(size=150), rng.normal(size=(142, 2))
    X, y = lagged_series(walk, 8)
    alone = kind_of(X, y)
    assert (alone.kind, alone.non_stationary, alone.forward) == ("series_alone", True, True)
    assert alone.anchor.column == 0
    assert_array_equal(alone.lags, np.arange(8) + 1)
    with_others = kind_of(np.column_stack([other, X]), y)
    assert (with_others.kind, with_others.anchor.column) == ("series", 2)
    assert_array_equal(with_others.lags, [0, 0, *np.arange(8) + 1])
    order = rng.permutation(len(y))
    shuffled = kind_of(X[order], y[order])
    assert (shuffled.kind, shuffled.lags, shuffled.forward) == ("time", None, False)
    assert shuffled.anchor.column == 0
    stationary = kind_of(*lagged_series(still, 8))
    assert (stationary.kind, stationary.anchor, stationary.forward) == ("series_alone", None, False)
    table = kind_of(rng.normal(size=(150, 8)), walk)
    assert (table.kind, table.anchor, table.in_time) == ("table", None, False)


def test_lags_are_recognised_though_they_reach_farther_back_than_there_are_rows():
    rng = np.random.default_rng(0)
    X, y = lagged_series(np.cumsum(rng.normal(size=60)), 36)
    order = rng.permutation(36)
    assert_array_equal(lags_of_columns(X[:20, order], y[:20, None]), order + 1)
    apart = X[:, [0, 1, 2, 11, 35]]  # a gap is bridged as far as rows reach
    assert_array_equal(lags_of_columns(apart, y[:, None]), [1, 2, 3, 12, 0])
    X[0] = np.nan
    assert_array_equal(lags_of_columns(X, y[:, None])[:12], np.arange(12) + 1)


def test_non_stationary_series_are_modelled_by_their_changes():
    rng = np.random.default_rng(1)
    walk, still = np.cumsum(rng.normal(size=150)), rng.normal(size=150)
    assert not is_stationary(walk[None])
    assert is_stationary(still[None])
    assert is_stationary((still + 0.008 * np.arange(150))[None])  # the mean is nearer than the last value
    X, y = lagged_series(walk, 8)
    model = SoftBoostRegressor().fit(X[:-30], y[:-30])
    assert all(m.name in ("autoregression", "persistence", "drift") or "anchored" in m.name for m in model.members_)
    naive = np.mean((X[-30:, 0] - y[-30:]) ** 2)
    assert np.mean((model.predict(X[-30:]) - y[-30:]) ** 2) <= 1.25 * naive


def threshold_autoregression(seed: int, n: int = 500, n_lags: int = 24, n_test: int = 2000):
    """Half of the last value plus or minus 0.8 by the sign of the value five steps before, with noise of variance 1."""
    noise = np.random.default_rng(seed).normal(size=n_lags + n + n_test)
    values = np.zeros(len(noise))
    for t in range(5, len(values)):
        values[t] = 0.5 * values[t - 1] + 0.8 * np.sign(values[t - 5]) + noise[t]
    X, y = lagged_series(values, n_lags)
    return X[:n], y[:n], X[n:], y[n:]


def test_threshold_autoregression_is_modelled_by_its_levels():
    X, y, X_test, y_test = threshold_autoregression(1)
    assert kind_of(X, y).anchored  # by the KPSS statistic alone
    model = SoftBoostRegressor().fit(X, y)
    assert all(member.anchor is None for member in model.members_)
    assert {"robust", "trees", "two indices"} <= model.choice_.losses.keys()  # all candidates compete in that view
    error = np.mean((model.predict(X_test) - y_test) ** 2) / y_test.var()
    assert error < 0.37  # 0.40 with changes; the variance of the noise is 0.32


def test_clear_cases_have_no_rival_view():
    rng = np.random.default_rng(0)
    walk, still = np.cumsum(rng.normal(size=400)), rng.normal(size=400)
    X, y = lagged_series(walk, 8)
    order = rng.permutation(len(y))
    short = lagged_series(threshold_autoregression(0)[1][:60], 8)
    for rows in ((X, y), (X[order], y[order]), lagged_series(still, 8), short):
        assert kind_of(*rows).rival is None
    unclear = kind_of(*threshold_autoregression(1)[:2])
    assert (unclear.rival.kind, unclear.rival.anchored, unclear.rival.forward) == ("series_alone", False, False)
    factor = rng.normal(size=200)  # many columns in the units of the target, none of them close to it
    table = kind_of(factor[:, None] + 0.5 * rng.normal(size=(200, 12)), factor)
    assert (table.kind, table.anchored, table.rival.kind) == ("time", True, "table")


def equal_in_most_rows() -> tuple[np.ndarray, np.ndarray]:
    """A target that equals the first column in seven of ten rows, and is far from it in the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    return X, np.where(rng.uniform(size=150) < 0.3, 4 * X[:, 1], X[:, 0])


def test_a_column_that_equals_the_target_in_most_rows_is_not_a_clear_anchor():
    kind = kind_of(*equal_in_most_rows())
    assert (kind.kind, kind.anchored) == ("time", True)
    assert kind.rival is not None
    assert kind.rival.kind == "table"


@pytest.mark.parametrize("anchored", [False, True])
def test_view_of_a_table_is_that_of_the_better_combination(anchored, monkeypatch):
    def loss(judge) -> float:
        return 0.5 if judge.kind.anchored == anchored else 1.0

    monkeypatch.setattr("softboost._choice.choose.combined_loss", loss)
    model = SoftBoostRegressor().fit(*equal_in_most_rows())
    assert all((member.anchor is not None) == anchored for member in model.members_)
    assert any(name.endswith("dense index") for name in model.choice_.losses)  # all candidates compete


def loss_of_view(view: RowsKind, X: np.ndarray, y: np.ndarray, monkeypatch) -> float:
    """The lowest validation loss of the candidates that compare views, if only this view is modelled."""
    with monkeypatch.context() as patch:
        patch.setattr("softboost._regressor.recognise", lambda task: view)
        losses = SoftBoostRegressor(shuffle=False).fit(X, y).choice_.losses  # the folds of the comparison
    return min(losses[one.name_in(view)] for one in CANDIDATES if one.scout and one.name_in(view) in losses)


@pytest.mark.parametrize(("inertia", "jump", "anchored"), [(0.5, 0.8, False), (0.9, 0.0, True)])
def test_view_with_the_lower_validation_loss_is_chosen(inertia, jump, anchored, monkeypatch):
    noise, values = np.random.default_rng(1).normal(size=312), np.zeros(312)
    for t in range(5, len(values)):
        values[t] = inertia * values[t - 1] + jump * np.sign(values[t - 5]) + noise[t]
    X, y = lagged_series(values, 12)
    kind = kind_of(X, y)
    levels, changes = (loss_of_view(view, X, y, monkeypatch) for view in (kind.rival, replace(kind, rival=None)))
    assert (changes < levels) == anchored
    model = SoftBoostRegressor().fit(X, y)
    assert all((member.anchor is not None) == anchored for member in model.members_)


def test_a_negligible_gain_does_not_change_the_view():
    def judged(loss: float) -> Judged:
        return Judged(CANDIDATES[0], 0, np.zeros((1, 4)), np.full(4, loss))

    assert not is_better(judged(0.997), judged(1.0), None)
    assert is_better(judged(0.99), judged(1.0), None)


def test_chance_does_not_decide_for_levels():
    def judged(*losses: float) -> Judged:
        return Judged(CANDIDATES[0], 0, np.zeros((1, len(losses))), np.array(losses))

    assert not is_better(judged(0.1, 1.3, 1.2, 0.9), judged(1.0, 1.0, 1.0, 1.0), None)  # lower by less than its error
    assert is_better(judged(0.6, 0.8, 0.9, 0.9), judged(1.0, 1.0, 1.0, 1.0), None)


def test_folds_of_a_splitter_are_made_once():
    X, y = linear_task(0)[:2]
    splits = iter([(np.arange(50), np.arange(50, 100))])  # can be read only once
    folds = Folds(splits, "auto", X, y, np.arange(100), 0)
    assert folds.in_order(True) is folds.in_order(False)
    folds = Folds(None, "auto", X, y, np.arange(100), 0)
    assert all(train[-1] < held[0] for train, held in folds.in_order(True))
    assert len(folds.in_order(False)[0][0]) == 80
    assert all(len(fixed.in_order(True)[0][0]) == 80 for fixed in [Folds(None, True, X, y, np.arange(100), 0)])


@pytest.mark.parametrize("scale", [1e-150, 1e200, 1e303])
@pytest.mark.parametrize("every", [1, 2])  # a series, and a sample of its rows
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_series_in_other_units_are_the_same_series(scale, every):
    rng = np.random.default_rng(3)
    t = np.arange(160)
    X, y = (part[::every] for part in lagged_series(np.cumsum(rng.normal(size=160)) + 3 * np.sin(t / 3), 8))
    want = SoftBoostRegressor().fit(X, y).predict(X)
    got = SoftBoostRegressor().fit(scale * X, scale * y).predict(scale * X)
    assert_allclose(got / scale, want, rtol=1e-6, atol=1e-6)


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
    changes = LinearModels(anchor.view(X), y - anchor.level(X), None).ridge
    levels = anchor.unview_path(changes)
    assert_allclose(levels.predict(X), changes.predict(anchor.view(X)) + anchor.level(X), atol=1e-8)
    same = (np.full((3, 1), 5.0) - units.centre[:, None]) / units.spread[:, None]
    assert_allclose(anchor.origin(units)[1], anchor.view(same)[1, 0], atol=1e-12)


def test_anchor_is_the_nearest_column_though_a_few_rows_leap():
    rng = np.random.default_rng(5)
    steps = rng.normal(size=(3, 60))
    steps[2] *= 2.0
    steps[0, 0] = 20.0  # the last change, in one row
    before = rng.normal(size=60) * 20
    raw = np.column_stack([before, before + steps[2]])
    target = before + steps[2] + steps[0]
    raw[0, 0] = target[0]  # where y leaps, the older value happens to be near it
    units = Units(raw.mean(axis=0), raw.std(axis=0), np.array([target.mean()]), np.array([target.std()]))
    X = ((raw - units.centre) / units.spread).T
    y = ((target - units.y_centre) / units.y_spread)[None]
    assert find_anchor(X, y, None, units).column == 1


def lag_table(leap: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a slow series that leaps once, in random order."""
    rng = np.random.default_rng(0)
    values = 0.05 * np.cumsum(rng.normal(size=160))
    values[80:] += leap
    X, y = lagged_series(values, 12)
    rows = rng.permutation(len(y))
    return X[rows], y[rows]


@pytest.mark.parametrize("leap", [0.0, 8.0])
def test_leaps_of_a_series_do_not_hide_its_last_value(leap):
    X, y = lag_table(leap)
    model = SoftBoostRegressor().fit(X, y)
    assert {member.anchor.column for member in model.members_ if member.anchor is not None} == {0}
    assert "deep steps" not in model.choice_.stages  # does not apply to time-ordered rows


def test_anchor_counts_a_weight_of_two_as_a_row_twice():
    X, y = lag_table(8.0)
    units = Units(X.mean(axis=0), X.std(axis=0), np.array([y.mean()]), np.array([y.std()]))
    Z, target = ((X - units.centre) / units.spread).T, ((y - units.y_centre) / units.y_spread)[None]
    twice = np.r_[np.arange(len(y)), np.arange(40)]
    weight = np.where(np.arange(len(y)) < 40, 2.0, 1.0)
    got, want = find_anchor(Z, target, weight, units), find_anchor(Z[:, twice], target[:, twice], None, units)
    assert (got.column, got.n_alike) == (want.column, want.n_alike)
    assert got.error == pytest.approx(want.error, rel=1e-9)


def products_task(seed: int, n: int = 100, d: int = 30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 500, d))
    y = X[:, 3] * X[:, 7] + 0.2 * rng.normal(size=n + 500)
    return X[:n], y[:n], X[n:], y[n:]


def test_a_pair_that_matters_only_together_is_found():
    for seed in range(10):
        X, y, _, _ = products_task(seed)
        assert set(paired_columns(TrainingData(np.ascontiguousarray(X.T), None), y[None])[:2]) == {3, 7}
    found = [
        len(paired_columns(TrainingData(np.random.default_rng(s).normal(size=(30, 100)), None), y[None]))
        for s in range(40)
    ]
    assert np.mean(np.array(found) > 0) < 0.3  # in noise, seldom


def test_a_pair_counts_a_weight_of_two_as_a_row_twice():
    X, y, _, _ = products_task(1)
    twice, weight = np.r_[np.arange(100), np.arange(30)], np.where(np.arange(100) < 30, 2.0, 1.0)
    doubled = paired_columns(TrainingData(np.ascontiguousarray(X[twice].T), None), y[None, twice])
    assert_array_equal(paired_columns(TrainingData(np.ascontiguousarray(X.T), weight), y[None]), doubled)


def test_products_that_are_constant_up_to_rounding_are_no_pairs():
    rng = np.random.default_rng(0)
    sign = np.tile([1.0, -1.0], 30)
    for constant in (0.1, 1 / 3, 0.7):  # whose weighted means are not exact
        X = np.stack([rng.normal(size=60), np.full(60, constant), 1.1 * sign + 0.3, 0.9 * sign - 0.2])
        weight = rng.integers(1, 5, size=60).astype(float)
        weight[1::2] = weight[::2]  # so that the last two columns are symmetric about their means
        assert not len(paired_columns(TrainingData(X, weight), X[:1] + rng.normal(size=60)))


def test_a_product_of_two_columns_is_learned():
    errors = []
    for seed in range(4):
        X, y, X_test, y_test = products_task(seed)
        errors.append(relative_error(SoftBoostRegressor().fit(X, y), X_test, y_test, y))
    assert np.median(errors) < 0.4


def test_rows_far_off_count_less_in_the_robust_lasso():
    rng = np.random.default_rng(3)
    X, slopes = rng.normal(size=(20, 80)), np.r_[1.0, -2.0, np.zeros(18)]
    clean = slopes @ X + 0.2 * rng.normal(size=80)
    relaxed = LinearModels(X, clean[None], None).relaxed
    assert fit_robust(X, clean[None], None, relaxed) is relaxed
    spoiled = clean.copy()
    spoiled[:6] += 25 * rng.choice([-1, 1], size=6)
    relaxed = LinearModels(X, spoiled[None], None).relaxed
    robust = fit_robust(X, spoiled[None], None, relaxed)

    def best(path):  # the stage nearest to the truth
        return np.abs(path.coefficients[:, 0] - slopes).sum(axis=1).min()

    assert best(robust) < 0.25 * best(relaxed)


def test_robust_lasso_counts_a_weight_of_two_as_a_row_twice():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(5, 60)), rng.standard_t(1.5, size=(1, 60))
    twice, weight = np.r_[np.arange(60), np.arange(20)], np.where(np.arange(60) < 20, 2.0, 1.0)
    rows, weighted = (X[:, twice].copy(), y[:, twice].copy(), None), (X, y, weight)
    got, want = (fit_robust(*data, LinearModels(*data).relaxed) for data in (weighted, rows))
    assert_allclose(got.coefficients, want.coefficients, rtol=1e-6, atol=1e-9)


def autoregression_twin(X: np.ndarray, y: np.ndarray, step: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """The same from singular value decompositions: X (n_columns, n_samples) through the origin, y (n_samples,)."""
    past = sorted(np.flatnonzero(lags > 1), key=lambda j: lags[j])
    others = list(np.flatnonzero(lags == 0))
    far = lags[past]
    lag = np.eye(len(lags))[past] * step  # rows: the differences to lag 1 in one unit
    changes = lag - np.vstack([np.zeros(len(lags)), lag[:-1]])
    means = np.stack([lag[: k + 1].sum(axis=0) / (k + 2) for k in range(len(past))])
    rest, near = np.eye(len(lags))[others], [1, *far[:-1]]

    def regressions(rows, distance, own):
        basis = np.vstack([rows, rest])
        D = basis @ X
        size = np.sqrt(np.mean(D**2, axis=1))
        freedom = (1 + own * np.abs(D @ y) / (size * np.sqrt(y @ y))) / np.sqrt([*distance, *np.ones(len(rest))])
        freedom = freedom / np.sqrt(np.mean(freedom**2)) / size
        U, d, Vt = np.linalg.svd((D * freedom[:, None]).T, full_matrices=False)
        kept = d**2 / (d**2 + STIFFNESS[:, None])
        left_over = y @ y - kept @ (U.T @ y) ** 2
        evidence = -0.5 * np.log1p(d**2 / STIFFNESS[:, None]).sum(axis=1) - 0.5 * len(y) * np.log(left_over / (y @ y))
        return np.sqrt(np.exp(evidence)), (d / (d**2 + STIFFNESS[:, None]) * (U.T @ y)) @ Vt * freedom @ basis

    parts = []
    for models in ([(lag, far, 0.0)], [(changes, near, 0.25), (means, far, 0.25)]):
        likelihoods, slopes = zip(*[regressions(*model) for model in models], strict=True)
        likelihood = np.concatenate(likelihoods)
        parts.append(likelihood @ np.concatenate(slopes) / (likelihood.sum() + len(likelihood)))
    return np.mean(parts, axis=0)


@pytest.mark.parametrize("n_columns", [5, 30])
def test_autoregression_averages_ridge_by_evidence(n_columns):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n_columns, 20)) * rng.uniform(0.1, 3, size=(n_columns, 1))
    y = 0.6 * X[0] - 0.2 * X[1] + 0.3 * rng.normal(size=20)
    step = rng.uniform(0.5, 2, size=n_columns)
    origin, lags = rng.normal(size=n_columns), np.r_[5, 0, 2, np.arange(n_columns - 3) + 1]
    path = fit_autoregression(X + origin[:, None], y[None], None, origin, step, lags)
    assert_allclose(path.coefficients[0, 0], autoregression_twin(X, y, step, lags), rtol=1e-7, atol=1e-12)
    assert_allclose(path.predict(origin[:, None]), 0.0, atol=1e-12)


def test_autoregression_counts_a_weight_of_two_as_a_row_twice():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(5, 30)), rng.normal(size=(1, 30))
    twice = np.r_[np.arange(30), np.arange(10)]
    weight = np.where(np.arange(30) < 10, 2.0, 1.0)
    view = np.zeros(5), np.ones(5), np.arange(5)
    doubled = fit_autoregression(X[:, twice], y[:, twice], None, *view)
    got = fit_autoregression(X, y, weight, *view)
    assert_allclose(got.coefficients, doubled.coefficients, rtol=1e-9)


def test_autoregression_of_a_series_that_stands_still_says_so():
    view = np.zeros(2), np.ones(2), np.array([1, 2])
    path = fit_autoregression(np.ones((2, 12)), np.zeros((1, 12)), None, *view)
    assert_array_equal(path.predict(np.ones((2, 3))), 0.0)


def test_season_is_learned_from_two_years():
    """The last value is far from the next, and 36 rows with 12 lags leave little to hold out."""
    rng = np.random.default_rng(8)
    t = np.arange(72)
    X, y = lagged_series(5 * np.sin(2 * np.pi * t / 12) + 0.1 * t + 0.3 * rng.normal(size=72), 12)
    model = SoftBoostRegressor().fit(X[:36], y[:36])
    assert np.mean((model.predict(X[36:]) - y[36:]) ** 2) < 0.2 * np.mean((X[36:, 0] - y[36:]) ** 2)


def test_convex_weights_find_a_known_mixture():
    rng = np.random.default_rng(3)
    predictions = rng.normal(size=(4, 1, 500))
    y = np.tensordot([0.0, 0.7, 0.3, 0.0], predictions, axes=1)
    assert_allclose(convex_weights(predictions, y, None, SquaredError()), [0, 0.7, 0.3, 0], atol=1e-5)
    assert_allclose(convex_weights(predictions, y, None, AbsoluteError()), [0, 0.7, 0.3, 0], atol=0.02)


def weights_of(kind: str, y: np.ndarray, **predictions: np.ndarray) -> dict[str, float]:
    """Weights of candidates of the table from their cross-validated predictions."""
    table: dict[str, Candidate] = {candidate.name: candidate for candidate in CANDIDATES}
    judged = [
        Judged(table[name], 0, prediction, SquaredError().loss(y, prediction).mean(axis=0))
        for name, prediction in predictions.items()
    ]
    levels = [one.candidate.level for one in judged]
    weights = climb(
        LADDERS[kind], levels, OutOfFold(np.stack([one.prediction for one in judged]), y, None, SquaredError())
    )
    return dict(zip(predictions, weights, strict=True))


def test_richer_level_needs_more_than_its_noise():
    rng = np.random.default_rng(4)
    y = rng.normal(size=(1, 100))
    constant = np.zeros_like(y)
    assert weights_of("table", y, constant=constant, ridge=-0.1 * y) == {"constant": 1.0, "ridge": 0.0}
    hardly = 0.02 * y
    assert weights_of("table", y, constant=constant, ridge=hardly, trees=0.9 * y)["trees"] == pytest.approx(1.0)
    # slightly better than a clearly better linear model: accepted for a table, not for time-ordered rows
    few = np.argsort(np.abs(np.abs(y[0]) - 1))[:2]
    better = 0.8 * y
    better[0, few] = y[0, few]  # in two rows alone: 1.4 standard errors
    table = weights_of("table", y, constant=constant, ridge=0.8 * y, trees=better)
    in_time = weights_of("time", y, persistence=constant, ridge=0.8 * y, trees=better)
    assert table["trees"] == pytest.approx(1.0)
    assert 0.05 < in_time["trees"] < 0.5


def test_a_series_alone_leaves_its_autoregression_for_persistence_sooner():
    y = np.random.default_rng(4).normal(size=(1, 100))
    few = np.argsort(np.abs(np.abs(y[0]) - 1))[:2]
    better = 0.8 * y
    better[0, few] = y[0, few]  # in two rows alone: 1.4 standard errors

    def weight_of(name: str, kind: str, first: np.ndarray = 0.8 * y, second: np.ndarray = better) -> float:
        return weights_of(kind, y, **{"autoregression": first, name: second})[name]

    assert weight_of("persistence", "series_alone") > 0.8
    assert weight_of("ridge", "series_alone") == 0.0
    assert 0.05 < weight_of("persistence", "series") == weight_of("ridge", "series") < 0.5
    # rows that are no series leave persistence for the autoregression as soon as that is better
    assert weight_of("persistence", "time", first=better, second=0.8 * y) == 0.0
    assert weight_of("persistence", "time", first=0.7 * y, second=0.8 * y) == 1.0


def test_changes_of_a_series_that_have_grown_may_grow_on():
    t = np.arange(120)
    season = np.sin(2 * np.pi * t / 12)
    for series, most in ((10 * season + 0.5 * t, 0.0), (20 * np.exp(t / 60) * (1 + 0.3 * season), 0.25)):
        X, y = lagged_series(series, 13)
        model = SoftBoostRegressor().fit(X[:72], y[:72])  # six years
        changes = y[:72] - X[:72, 0]
        low, high = (bound[0] for bound in model._fitted.raw_bounds)
        reach = most * np.ptp(changes)
        assert_allclose([low, high], [changes.min() - reach, changes.max() + reach], rtol=1e-6)
        assert np.mean((model.predict(X[72:]) - y[72:]) ** 2) < 0.1 * np.mean((X[72:, 0] - y[72:]) ** 2)
