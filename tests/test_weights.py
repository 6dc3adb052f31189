"""A row of weight 2 is equivalent to the row twice for every loss: plain fits, model selection, partial_fit."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.tree import DecisionTreeRegressor

import helpers
from softboost import SoftBoostRegressor
from softboost._boost import parts
from softboost._boost.alternating import _Split
from softboost._boost.learner import TrainingData
from softboost._data import folds
from softboost._data import repeated as _repeated
from softboost._data import task as _task
from softboost._data.repeated import distinct_rows, runs_of_rows
from softboost._data.task import Task
from softboost._model import partial_fit
from softboost.losses import LOSSES
from softboost.presets import bsdt, bsdt_q

QUANTILES = [0.02, 0.3, 0.5, 0.9, 0.999]
each_loss = pytest.mark.parametrize("loss", helpers.LOSS_TABLE)


def weighted_rows(loss, n_samples):
    """X, y, weights of 1 to 3, and the rows repeated by their weights; y is valid for the loss."""
    X, y = helpers.make_data(n_samples)
    try:
        loss.check_target(y)
    except ValueError:
        y = np.exp(0.5 * y)
    weight = np.random.default_rng(1).integers(1, 4, size=n_samples)
    return X, y, weight, np.repeat(np.arange(n_samples), weight)


def assert_equal_predictions(one, other, X, y):
    assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=1e-9 * y.std())


@pytest.fixture(params=["merged", "apart"])
def apart(request, monkeypatch):
    """Whether equal rows stay apart, so that a fit that ignored weights would not agree with that of the copies."""
    if request.param == "apart":
        monkeypatch.setattr(Task, "merged", lambda task, *_, **__: task)
    return request.param == "apart"


# more than 256 rows, so that bins are quantiles
@pytest.mark.parametrize("kind", ["plain", "random gates", "linear", "linear start", "bsdt_q"])
@each_loss
def test_plain_fits(loss, kind, apart):
    if apart and kind in ("random gates", "linear", "bsdt_q"):
        pytest.skip("gradient steps amplify rounding")
    if kind == "linear start" and not loss.scales_with_y:
        pytest.skip("a linear model of y is no start for a loss with a link")
    X, y, weight, rows = weighted_rows(loss, 300)
    make = helpers.MODELS[kind]
    repeated = make(loss=loss).fit(X[rows], y[rows])
    assert_equal_predictions(make(loss=loss).fit(X, y, sample_weight=weight), repeated, X, y)
    unweighted = make(loss=loss).fit(X, y)
    assert np.abs(unweighted.predict(X) - repeated.predict(X)).max() > 1e-3 * y.std()


GRADIENT_STEPS = {
    "bsdt": lambda: bsdt(n_estimators=3, random_state=0),
    "bsdt_q": lambda: bsdt_q(n_estimators=3, random_state=0),
    "diagonal": lambda: helpers.plain(feature_transform="diagonal"),
    "huber": lambda: helpers.plain(gates="random", loss="huber", random_state=0),
    "warm start": lambda: bsdt(n_estimators=3, random_state=0, warm_start=True),
    "early stopping": lambda: bsdt(n_estimators=3, random_state=0, early_stopping=True),
}


@pytest.mark.parametrize("kind", ["plain", "constant leaves"])
def test_single_precision(kind):
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 120)
    X = X.astype(np.float32)
    model = helpers.MODELS[kind](random_state=0)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(weighted, model.fit(X[rows], y[rows]).predict(X))


@pytest.mark.parametrize("kind", GRADIENT_STEPS)
def test_gradient_steps_do_not_amplify_rounding(kind):
    """100 steps on random gates turn the rounding of a sum into tenths of a standard deviation."""
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 300)
    X[np.random.default_rng(3).random(X.shape) < 0.05] = np.nan
    weighted = GRADIENT_STEPS[kind]().fit(X, y, sample_weight=weight)
    repeated = GRADIENT_STEPS[kind]().fit(X[rows], y[rows])
    if kind == "warm start":
        weighted.set_params(n_estimators=5).fit(X, y, sample_weight=weight)
        repeated.set_params(n_estimators=5).fit(X[rows], y[rows])
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert np.abs(GRADIENT_STEPS[kind]().fit(X, y).predict(X) - repeated.predict(X)).max() > 1e-3 * y.std()


@pytest.mark.parametrize("kind", ["bsdt", "bsdt_q", "huber"])
def test_groups_do_not_keep_equal_rows_apart(kind):
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 200)
    make, groups = (lambda: GRADIENT_STEPS[kind]().set_params(n_estimators=20)), np.arange(200) % 7
    weighted = make().fit(X, y, sample_weight=weight, groups=groups)
    assert_array_equal(weighted.predict(X), make().fit(X[rows], y[rows], groups=groups[rows]).predict(X))


def test_equal_rows_of_different_groups_are_held_out_with_their_groups():
    X, y = helpers.make_data(60)
    twice = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    model = bsdt(n_estimators=2, random_state=0, early_stopping=True)
    apart = model.fit(*twice, groups=np.tile(["a", "b"], 60)).predict(X)
    assert np.abs(apart - model.fit(*twice, groups=np.repeat(np.arange(60), 2)).predict(X)).max() > 1e-6


@pytest.mark.parametrize("kind", ["plain", "default"])
def test_rows_that_are_sampled(kind, monkeypatch):
    """Single precision, and trees that each see a part of the rows, are for that many distinct rows."""
    monkeypatch.setattr(_task, "MAX_UNSAMPLED_ROWS", 100)
    monkeypatch.setattr(_task, "MAX_DOUBLE_ROWS", 100)
    monkeypatch.setattr(parts, "MAX_ROWS_PER_TREE", 100)
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 90)
    fold = np.random.default_rng(2).permutation(90) % 2

    def make(fold):
        return helpers.plain(loss="huber") if kind == "plain" else SoftBoostRegressor(cv=PredefinedSplit(fold))

    weighted = make(fold).fit(X, y, sample_weight=weight)
    assert_equal_predictions(weighted, make(fold[rows]).fit(X[rows], y[rows]), X, y)


def test_equal_rows_of_different_folds_are_kept(monkeypatch):
    """Else the folds would lose rows, such as the zeros of a series in all but the first fold."""
    X, y = helpers.make_data(60)
    X, y, fold = X.repeat(2, axis=0), y.repeat(2), np.tile([0, 1], 60)
    before = SoftBoostRegressor(cv=PredefinedSplit(fold)).fit(X, y)
    monkeypatch.setattr(_task, "MAX_UNSAMPLED_ROWS", 100)
    assert_array_equal(SoftBoostRegressor(cv=PredefinedSplit(fold)).fit(X, y).predict(X), before.predict(X))


def test_equal_rows_of_a_cv_that_can_be_read_once(monkeypatch):
    monkeypatch.setattr(_task, "MAX_UNSAMPLED_ROWS", 100)
    X, y = helpers.make_data(60)
    X = np.column_stack([np.arange(60) % 40, X]).repeat(2, axis=0)  # 40 categories become means of other folds
    splits = KFold(2, shuffle=True, random_state=0).split(X)
    model = SoftBoostRegressor(cv=splits, categorical_features=[0]).fit(X, y.repeat(2))
    assert np.isfinite(model.predict(X)).all()


def test_equal_rows_of_different_targets_are_kept():
    X, y = helpers.make_data(60)
    model = bsdt(n_estimators=2, random_state=0)
    both = model.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2) + np.tile([0.3, -0.3], 60)).predict(X)
    assert np.abs(both - model.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).predict(X)).max() > 1e-6


def test_distinct_rows():
    X = np.array([[1.0, 0.0, 1.0, np.nan, -0.0, np.nan], [2.0, 2.0, 2.0, 5.0, 2.0, 5.0]])
    first, number = distinct_rows(X[:1], X[1:])
    assert first.tolist() == [0, 1, 3]
    assert number.tolist() == [0, 1, 0, 2, 1, 2]


def test_runs_of_rows():
    X = np.array([[1.0, 1.0, np.nan, np.nan, -0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0]])
    assert runs_of_rows(X[:1], X[1:]).tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    assert runs_of_rows(np.array([["a", "a", None, None, "b"]], dtype=object)).tolist() == [0, 0, 1, 1, 2]


def test_distinct_rows_of_equal_keys(monkeypatch):
    monkeypatch.setattr(_repeated, "ODD", np.uint64(0))  # the key is the last column
    first, number = distinct_rows(np.array([[1.0, 2.0, 1.0, 1.0], [3.0, 3.0, 3.0, 4.0]]))
    assert first.tolist() == [0, 1, 3]
    assert number.tolist() == [0, 1, 0, 2]


def test_mini_batches_follow_weights():
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 40)

    def batches(X, y, weight):
        data = TrainingData(np.ascontiguousarray(X.T), weight.astype(float))
        draw = _Split.of(data, y[None]).batches(16, np.random.default_rng(0))
        return [draw() for _ in range(5)]

    for weighted, repeated in zip(batches(X, y, weight), batches(X[rows], y[rows], np.ones(len(rows))), strict=True):
        for one, other in zip(weighted, repeated, strict=True):
            assert_allclose(one, other, rtol=1e-12)


@each_loss
def test_model_selection_on_the_same_folds(loss, apart):
    X, y, weight, rows = weighted_rows(loss, 60)
    fold = np.random.default_rng(2).permutation(60) % 2
    weighted = SoftBoostRegressor(loss=loss, cv=PredefinedSplit(fold)).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(loss=loss, cv=PredefinedSplit(fold[rows])).fit(X[rows], y[rows])
    assert weighted.choice_.stages == repeated.choice_.stages
    assert_equal_predictions(weighted, repeated, X, y)
    quantiles = [model.predict_quantiles(X, QUANTILES) for model in (weighted, repeated)]
    assert_allclose(*quantiles, rtol=0, atol=(1e-7 if apart else 1e-9) * y.std())


@each_loss
def test_default_fits(loss):
    """A default fold, which is a block of rows, holds all copies of a row that follow it."""
    X, y, weight, rows = weighted_rows(loss, 100)
    weight[::7] = 0
    rows = np.repeat(np.arange(100), weight)
    weighted = SoftBoostRegressor(loss=loss).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(loss=loss).fit(X[rows], y[rows])
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert_array_equal(*[model.predict_quantiles(X, QUANTILES) for model in (weighted, repeated)])
    assert np.abs(SoftBoostRegressor(loss=loss).fit(X, y).predict(X) - repeated.predict(X)).max() > 1e-3 * y.std()


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("how", ["cv", "groups"])
def test_selection_under_a_loss_with_a_kink(how, seed):
    """The median of a weighted column has other roundings than that of its copies; a path of models amplifies them."""
    X, y = helpers.make_data(80, seed=seed)
    rng = np.random.default_rng(seed)
    weight, part = rng.integers(0, 4, size=80), rng.integers(0, 12, size=80)
    rows = np.repeat(np.arange(80), weight)

    def fitted(X, y, weight, part):
        cv, groups = (PredefinedSplit(part % 3), None) if how == "cv" else (None, part)
        return SoftBoostRegressor(loss="absolute_error", cv=cv).fit(X, y, weight, groups=groups).predict(X)

    weighted, repeated = fitted(X, y, weight, part), fitted(X[rows], y[rows], None, part[rows])
    assert_array_equal(weighted[rows], repeated)


def test_many_rounds_under_a_loss_with_a_kink():
    X, y = helpers.make_data(80, seed=2)
    weight = np.random.default_rng(2).integers(0, 4, size=80)
    rows = np.repeat(np.arange(80), weight)
    model = helpers.plain(loss="absolute_error", n_estimators=40, depth=3)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(weighted, model.fit(X[rows], y[rows]).predict(X))


@pytest.mark.parametrize("params", [{}, {"cv": 3}, {"cv": 3, "shuffle": True}, {"shuffle": False}], ids=str)
def test_default_folds_of_frames(params):
    """Missing values, and categories that become means of the target over other folds."""
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 200)
    weight[3:60:5] = 0
    rows, place = (np.repeat(one, weight) for one in (np.arange(200), np.cumsum(weight > 0) - 1))
    X[np.random.default_rng(3).random(X.shape) < 0.05] = np.nan
    frame = pd.DataFrame(X, columns=list("abcde")).assign(many=pd.Series(np.arange(200) * 7 % 45).astype(str))
    model = SoftBoostRegressor(random_state=0, **params)
    encoded = Task.from_user(clone(model), frame, y, weight, None).encoded
    assert_array_equal(Task.from_user(clone(model), frame.iloc[rows], y[rows], None, None).encoded, encoded[place])
    weighted = model.fit(frame, y, sample_weight=weight).predict(frame)
    assert model.columns_.means
    repeated = model.fit(frame.iloc[rows], y[rows]).predict(frame)
    assert_allclose(weighted, repeated, rtol=0, atol=1e-9 * y.std())


@pytest.mark.parametrize("cv", [None, 4])
def test_default_folds_of_frames_with_copies_further_down(cv):
    """All copies have the means of the target over the same folds; missing texts, dates and numbers are equal."""
    X, y, weight, _ = weighted_rows(helpers.LOSS_TABLE[0].values[0], 200)
    X[::7, 0] = np.nan
    many = pd.Series(np.arange(200) * 7 % 45).astype(str).where(np.arange(200) % 11 > 0, None)
    days = pd.Series(pd.date_range("2024-01-01", periods=200)).where(np.arange(200) % 13 > 0)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(many=many, days=days)
    rows = np.concatenate([np.arange(200), np.random.default_rng(0).permutation(np.repeat(np.arange(200), weight - 1))])
    model = SoftBoostRegressor(random_state=0, cv=cv)
    encoded = Task.from_user(clone(model), frame, y, weight, None).encoded
    of_copies = Task.from_user(clone(model), frame.iloc[rows], y[rows], None, None).encoded
    assert_allclose(of_copies, encoded[rows], rtol=1e-12)
    weighted = model.fit(frame, y, sample_weight=weight).predict(frame)
    assert model.columns_.means
    repeated = model.fit(frame.iloc[rows], y[rows]).predict(frame)
    assert_allclose(weighted, repeated, rtol=0, atol=1e-9 * y.std())


@pytest.mark.parametrize("kind", ["plain", "constant leaves", "bsdt"])
@pytest.mark.parametrize("shuffle", ["auto", False])
def test_early_stopping(kind, shuffle):
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 120)
    model = helpers.MODELS[kind](n_estimators=40, early_stopping=True, shuffle=shuffle, random_state=0)
    weighted, n_rounds = model.fit(X, y, sample_weight=weight).predict(X), model.n_estimators_
    assert_array_equal(weighted, model.fit(X[rows], y[rows]).predict(X))
    assert model.n_estimators_ == n_rounds


def test_early_stopping_holds_out_the_last_rows():
    """The zeros among the last rows are not merged with those among the first ones."""
    X, y = np.tile([0.0, 1.0], 50)[:, None], np.tile([0.0, 1.0], 50)
    y[-10:] = 3.0, 0.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0
    model = helpers.plain(early_stopping=True, shuffle=False).fit(X, y)
    assert model.evals_result_["validation"][-1] > 1.0


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost", DecisionTreeRegressor(max_depth=3)], ids=str)
@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_trees_of_other_libraries(library, loss):
    """These libraries count rows in their own rules, such as the smallest number of rows in a leaf."""
    if isinstance(library, str):
        pytest.importorskip(library)
    X, y, weight, rows = weighted_rows(LOSSES[loss](), 100)
    model = SoftBoostRegressor(5, 0.3, loss=loss, feature_transform=None, weak_learner=library, random_state=0)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(weighted, model.fit(X[rows], y[rows]).predict(X))


@pytest.mark.parametrize("order", ["behind", "shuffled"])
@each_loss
def test_default_fits_of_copies_further_down(loss, order):
    X, y, weight, rows = weighted_rows(loss, 60)
    rows = np.concatenate([np.arange(60), np.sort(rows)[np.diff(np.sort(rows), prepend=-1) == 0]])
    if order == "shuffled":
        rows[60:] = np.random.default_rng(0).permutation(rows[60:])
    weighted = SoftBoostRegressor(loss=loss).fit(X, y, sample_weight=weight)
    assert_array_equal(weighted.predict(X), SoftBoostRegressor(loss=loss).fit(X[rows], y[rows]).predict(X))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_default_fits_of_copies_further_down_in_discrete_columns(loss):
    """Rows of equal columns have different targets; equal targets are no chance where nearly all differ."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, size=(80, 3)).astype(float)
    y = X[:, 0] - X[:, 1] * X[:, 2] + rng.normal(size=80)
    weight = 1 + (np.arange(80) % 3 == 0)
    rows = np.concatenate([np.arange(80), rng.permutation(np.flatnonzero(weight == 2))])
    weighted = SoftBoostRegressor(loss=loss).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(loss=loss).fit(X[rows], y[rows])
    assert_allclose(repeated.predict(X), weighted.predict(X), rtol=0, atol=1e-9 * y.std())


EQUAL_ROWS = {
    "rows stacked twice": (np.tile(np.arange(30), 2), np.tile(np.arange(30) % 7, 2), 30),
    "few rows, each of much weight": (np.tile(np.arange(3), 40), np.tile(np.arange(3) ** 2, 40), 120),
    "many zeros": (np.tile([0, 0, 0, 1], 30) * np.arange(120), np.tile([0, 0, 0, 5], 30), 60),
    "targets that differ": (np.tile(np.arange(30), 4), np.repeat([1, 2, 1, 2], 30) + np.arange(120) % 2, 120),
}


@pytest.mark.parametrize("kind", EQUAL_ROWS)
def test_equal_rows_of_default_folds(kind):
    """Copies share a fold; equal rows that are observations of their own do so only if they follow each other."""
    x, y, n_rows = EQUAL_ROWS[kind]
    model = SoftBoostRegressor()
    task = Task.from_user(clone(model), x[:, None].astype(float), y.astype(float), None, None)
    merged = task.merged_in_folds(model, False)
    assert len(merged.encoded) == n_rows
    assert merged.total_weight == len(x)


def test_equal_rows_alone():
    X, y = np.ones((30, 2)), np.full(30, 7.0)
    assert_array_equal(SoftBoostRegressor().fit(X, y).predict_interval(X), np.full((30, 2), 7.0))


@pytest.mark.parametrize("shuffle", ["auto", True, False])
def test_rows_of_weight_zero_are_in_no_fold(shuffle):
    X, y = helpers.make_data(60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    model = SoftBoostRegressor(cv=3, shuffle=shuffle, random_state=0)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(weighted, model.fit(X[weight > 0], y[weight > 0]).predict(X))


@pytest.mark.parametrize("params", [{}, {"cv": 3}, {"loss": "huber"}], ids=["default", "cv=3", "huber"])
def test_model_selection_with_groups(params, apart):
    """Folds of groups, and the groups that early stopping holds out, have similar sums of weights."""
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 120)
    weight[7:40:3] = 0
    groups, rows = np.random.default_rng(4).integers(0, 12, size=120), np.repeat(np.arange(120), weight)
    weighted = SoftBoostRegressor(**params).fit(X, y, sample_weight=weight, groups=groups)
    repeated = SoftBoostRegressor(**params).fit(X[rows], y[rows], groups=groups[rows])
    assert_equal_predictions(weighted, repeated, X, y)
    intervals = [model.predict_interval(X) for model in (weighted, repeated)]
    assert_allclose(*intervals, rtol=0, atol=(1e-7 if apart else 1e-9) * y.std())
    stopped = helpers.plain(n_estimators=30, early_stopping=True, random_state=0)
    losses = [
        stopped.fit(X, y, sample_weight=weight, groups=groups).evals_result_["validation"],
        stopped.fit(X[rows], y[rows], groups=groups[rows]).evals_result_["validation"],
    ]
    assert_allclose(*losses, rtol=1e-9)


def test_model_selection_with_groups_of_many_rows(monkeypatch):
    monkeypatch.setattr(_task, "MAX_UNSAMPLED_ROWS", 100)
    monkeypatch.setattr(folds, "MAX_ROWS_FOR_FOLDS", 80)
    monkeypatch.setattr(folds, "MAX_TRAINING_ROWS", 120)
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 90)
    groups = np.random.default_rng(4).integers(0, 12, size=90)
    weighted = SoftBoostRegressor().fit(X, y, sample_weight=weight, groups=groups)
    assert_array_equal(weighted.predict(X), SoftBoostRegressor().fit(X[rows], y[rows], groups=groups[rows]).predict(X))


def test_processes_of_many_rows(apart):
    """Whether a Gaussian process is exact depends on the sum of the weights, not on the number of rows."""
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 450)
    fold = np.random.default_rng(2).permutation(450) % 2
    weighted = SoftBoostRegressor(cv=PredefinedSplit(fold)).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(cv=PredefinedSplit(fold[rows])).fit(X[rows], y[rows])
    assert weighted.choice_.weights["anisotropic process"] > 0
    assert_equal_predictions(weighted, repeated, X, y)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_model_selection_on_few_rows(seed, apart):
    """No rule counts rows: of these folds, eight to ten rows of weight 1 to 3 train."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 6))
    y, weight, fold = X[:, 0] + np.abs(X[:, 1]), rng.integers(1, 4, size=14), rng.permutation(14) % 3
    rows = np.repeat(np.arange(14), weight)
    weighted = SoftBoostRegressor(cv=PredefinedSplit(fold)).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(cv=PredefinedSplit(fold[rows])).fit(X[rows], y[rows])
    assert_equal_predictions(weighted, repeated, X, y)


@each_loss
def test_calibration(loss):
    """The rows are divided into blocks, which must not depend on repeated rows."""
    X, y, weight, rows = weighted_rows(loss, 120)
    weighted, repeated = (helpers.plain(loss=loss).fit(X, y) for _ in range(2))
    X, y = X[60:], y[60:] + (y.max() - y[60:]) * (X[60:, 0] > 0)  # errors that depend on a column
    weighted.calibrate(X, y, sample_weight=weight[60:])
    copies = rows[rows >= 60] - 60
    repeated.calibrate(X[copies], y[copies])
    quantiles = [model.predict_quantiles(X, [0.02, 0.3, 0.5, 0.9, 0.999]) for model in (weighted, repeated)]
    assert_allclose(*quantiles, rtol=0, atol=1e-9 * y.std())
    assert np.ptp(np.diff(quantiles[0], axis=1)) > 0


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@each_loss
def test_partial_fit_with_a_drift(loss, first, apart):
    X, y, weight, rows = weighted_rows(loss, 400)
    y = np.where(np.arange(400) < 250, y, y.max() + y.min() - y)
    weighted, repeated = helpers.plain(loss=loss), helpers.plain(loss=loss)
    n_stored = []
    for begin in range(0, 400, 40):
        method = "partial_fit" if begin else first
        part = np.arange(begin, begin + 40)
        copies = rows[np.isin(rows, part)]
        getattr(weighted, method)(X[part], y[part], sample_weight=weight[part])
        getattr(repeated, method)(X[copies], y[copies])
        assert_equal_predictions(weighted, repeated, X, y)
        n_stored.append(weighted._fitted.recent.n_rows if begin else 0)
    assert (np.diff(n_stored) < 0).any(), "no drift was detected"


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize("batch", [20, 60])
def test_partial_fit_beyond_its_memory(first, batch, monkeypatch):
    """Copies take no more room than weights, so that the same rows are remembered."""
    monkeypatch.setattr(partial_fit, "MAX_ROWS", 50)
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 180)
    weighted, repeated = helpers.plain(), helpers.plain()
    for begin in range(0, 180, batch):
        method, part = "partial_fit" if begin else first, np.arange(begin, begin + batch)
        copies = rows[np.isin(rows, part)]
        getattr(weighted, method)(X[part], y[part], sample_weight=weight[part])
        getattr(repeated, method)(X[copies], y[copies])
        assert_equal_predictions(weighted, repeated, X, y)
    assert weighted._fitted.recent.n_rows == repeated._fitted.recent.n_rows == 50


def test_partial_fit_keeps_all_rows_of_a_series(monkeypatch):
    monkeypatch.setattr(partial_fit, "MAX_ROWS", 50)
    series = np.where(np.arange(90) % 15 < 8, 0.0, np.sin(np.arange(90)))  # rows of zeros follow each other
    X, y = np.lib.stride_tricks.sliding_window_view(series, 3)[:-1, ::-1], series[3:]
    for size in (80, 40):
        model = SoftBoostRegressor().partial_fit(X[:size], y[:size]).partial_fit(X[size:], y[size:])
        assert_array_equal(model._fitted.recent.y[:, 0], y[-50:])


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_partial_fit_of_the_default(first):
    X, y, weight, rows = weighted_rows(helpers.LOSS_TABLE[0].values[0], 120)
    weighted, repeated = SoftBoostRegressor(), SoftBoostRegressor()
    for begin in range(0, 120, 40):
        method, part = "partial_fit" if begin else first, np.arange(begin, begin + 40)
        copies = rows[np.isin(rows, part)]
        getattr(weighted, method)(X[part], y[part], sample_weight=weight[part])
        getattr(repeated, method)(X[copies], y[copies])
        assert_equal_predictions(weighted, repeated, X, y)


def test_a_large_weight_is_learned_in_few_steps():
    X, y = helpers.make_data(100)
    model = helpers.plain().partial_fit(X[:80], y[:80])
    model.partial_fit(X[80:81], y[80:81], sample_weight=[3.0])
    before = model._fitted.recent.n_updates
    model.partial_fit(X[81:82], y[81:82], sample_weight=[9.0])
    assert model._fitted.recent.n_updates == before + 9
    heavy = helpers.plain().partial_fit(X[:80], y[:80]).partial_fit(X[80:81], y[80:81], sample_weight=[1e12])
    assert np.isfinite(heavy.predict(X)).all()


@pytest.mark.parametrize("kind", ["default", "plain", "bsdt_q"])
@pytest.mark.parametrize("size", [1e155, 1e308])
def test_weights_whose_squares_overflow(kind, size):
    X, y = helpers.make_data()
    ratio = np.where(np.arange(60) % 2, 1.0, 0.5)
    huge = helpers.MODELS[kind]().fit(X, y, sample_weight=size * ratio)
    large = helpers.MODELS[kind]().fit(X, y, sample_weight=1e15 * ratio)
    assert_allclose(huge.predict(X), large.predict(X), rtol=1e-9)
    assert large.score(X, y) > 0.5
