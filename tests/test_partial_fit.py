"""partial_fit: bounded memory, drift, accuracy close to a refit, saving and resuming bit for bit."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import softboost
from softboost import SoftBoostRegressor
from softboost._file.container import dumps, loads
from softboost._model import partial_fit
from softboost.losses import LOSSES, SquaredError

NOISE = 0.2


def before_the_change(X):
    return np.tanh(X[:, :3] @ [1, -1, 2]) + np.abs(X[:, 3]) * X[:, 4]


def after_the_change(X):
    return 2 * np.sin(X[:, 0]) - X[:, 5]


def make_rows(n, function=before_the_change, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, function(X) + NOISE * rng.normal(size=n)


def make_plain(**settings):
    fixed = dict(n_estimators=40, learning_rate=0.2, depth=2, feature_transform=None, leaves="linear")
    return SoftBoostRegressor(**(fixed | dict(gates="greedy", init="constant") | settings))


def learn(model, X, y, size=5):
    for i in range(0, len(y), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


def error(model, function=before_the_change):
    X, y = make_rows(2000, function, seed=99)
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


@pytest.mark.parametrize(("start", "most"), [("partial_fit", 1.1), ("fit", 1.2)])
def test_is_close_to_a_refit(start, most):
    """Over times and seeds; a model that was given to fit at first no longer has those rows."""
    ratios = []
    for seed in range(2):
        X, y = make_rows(700, seed=seed)
        model = getattr(make_plain(), start)(X[:150], y[:150])
        alone, done = error(model), 150
        for end in (300, 500, 700):
            learn(model, X[done:end], y[done:end])
            ratios.append(error(model) / error(make_plain().fit(X[:end], y[:end])))
            done = end
        assert error(model) < 0.9 * alone
    assert np.exp(np.mean(np.log(ratios))) < most


def test_default_is_within_ten_percent_of_a_refit():
    X, y = make_rows(400)
    model = learn(SoftBoostRegressor().partial_fit(X[:100], y[:100]), X[100:], y[100:], 10)
    assert error(model) < 1.1 * error(SoftBoostRegressor().fit(X, y))


@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_follows_a_drift(start):
    X, y = make_rows(400)
    model = learn(getattr(make_plain(), start)(X[:200], y[:200]), X[200:], y[200:])
    X, y = make_rows(400, after_the_change, seed=1)
    learn(model, X, y)
    assert error(model, after_the_change) < 1.1 * error(make_plain().fit(X, y), after_the_change)


def test_a_thousand_calls_keep_the_size(monkeypatch):
    monkeypatch.setattr(partial_fit, "MAX_ROWS", 300)
    X, y = make_rows(2100)
    model = make_plain(n_estimators=5).partial_fit(X[:100], y[:100])
    sizes = []
    for i in range(1000):
        model.partial_fit(X[100 + 2 * i : 102 + 2 * i], y[100 + 2 * i : 102 + 2 * i])
        if i % 100 == 99:
            sizes.append((len(pickle.dumps(model)), len(dumps(model))))
            assert len(model.members_) <= 2
            assert model._fitted.recent.n_rows <= 300
    assert_array_equal(np.ptp(sizes[1:], axis=0) < 0.05 * np.max(sizes, axis=0), True)
    assert error(model) < error(make_plain(n_estimators=5).fit(X[:100], y[:100]))


def test_rows_of_a_large_fit_are_not_thrown_away():
    X, y = make_rows(6000)
    model = make_plain(n_estimators=80).fit(X, y)
    before = error(model)
    learn(model, *make_rows(300, seed=5), 10)
    assert error(model) < 1.05 * before


@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), lambda m: loads(dumps(m)), copy.deepcopy])
def test_goes_on_to_the_last_bit_after_saving(how):
    X, y = make_rows(400)
    model = learn(make_plain().partial_fit(X[:100], y[:100]), X[100:160], y[100:160])
    again = how(model)
    assert_array_equal(again.predict(X), model.predict(X))
    for m in (model, again):
        learn(m, X[160:], y[160:])
    assert_array_equal(again.predict(X), model.predict(X))
    assert dumps(again) == dumps(model)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_every_loss_goes_down(name, start):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 5))
    y = X[:, 0] + np.abs(X[:, 1])
    positive = name in ("poisson", "gamma", "tweedie")
    y = rng.poisson(np.exp(0.4 * y)) + 0.5 * (name == "gamma") if positive else y + 0.3 * rng.normal(size=500)
    model = getattr(make_plain(n_estimators=30, leaves="constant", loss=name), start)(X[:60], y[:60])

    def loss():
        return model.loss_.mean(y[None, 300:], model._fitted.ensemble.raw_prediction(X[300:], 1).T, None)

    before = loss()
    learn(model, X[60:300], y[60:300], 6)
    assert loss() < before


def test_learns_several_outputs_together():
    X, y = make_rows(300)
    Y = np.stack([y, -2 * y, X[:, 0]], axis=1)
    model = make_plain().fit(X[:100], Y[:100])
    before = np.mean((model.predict(X[250:]) - Y[250:]) ** 2, axis=0)
    learn(model, X[100:250], Y[100:250])
    assert np.all(np.mean((model.predict(X[250:]) - Y[250:]) ** 2, axis=0) < before)
    assert model.predict(X).shape == (300, 3)
    assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize(
    "settings",
    [{"feature_transform": "linear"}, {"weak_learner": "lightgbm", "leaves": "auto", "gates": "auto"}],
    ids=["transform", "hard trees"],
)
def test_other_structures_learn_too(settings):
    if "weak_learner" in settings:
        pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = make_rows(300)
    model = make_plain(n_estimators=8, **settings).fit(X[:100], y[:100])
    before = error(model)
    learn(model, X[100:], y[100:], 20)
    assert error(model) < before


def test_weights_frames_and_gaps():
    pd = pytest.importorskip("pandas")
    X, y = make_rows(200)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    frame["colour"] = pd.Categorical(np.where(X[:, 7] > 0, "red", "blue"))
    frame.loc[::7, "b"] = np.nan
    y = y + (frame["colour"] == "red")
    model = make_plain().partial_fit(frame[:100], y[:100])
    for i in range(100, 200, 4):
        weight = np.array([1.0, 2.0, 0.0, 0.5])
        model.partial_fit(frame[i : i + 4], y[i : i + 4], sample_weight=weight)
    assert np.isfinite(model.predict(frame)).all()
    assert model._fitted.recent.n_rows == 100 + 3 * 25


@pytest.mark.parametrize("bad", [np.full(5, np.nan), np.full(5, np.inf), np.ones((5, 2)), np.ones(4)])
def test_what_cannot_be_learned_leaves_the_model_as_it_was(bad):
    X, y = make_rows(150)
    model = learn(make_plain().partial_fit(X[:100], y[:100]), X[100:], y[100:])
    before = dumps(model)
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are tested with the bad inputs
        model.partial_fit(X[:5], bad)
    assert dumps(model) == before


def test_a_failing_fit_anew_leaves_the_model_as_it_was(monkeypatch):
    X, y = make_rows(200)
    model = make_plain().partial_fit(X[:100], y[:100])
    before = dumps(model)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SoftBoostRegressor, "_fit_task", fail)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[100:], y[100:])
    assert dumps(model) == before


def test_fit_forgets_the_rows_kept(tmp_path):
    X, y = make_rows(150)
    model = learn(make_plain().partial_fit(X[:100], y[:100]), X[100:], y[100:])
    assert not hasattr(model.fit(X, y), "_recent")
    assert_array_equal(model.predict(X), make_plain().fit(X, y).predict(X))
    model.partial_fit(X[:3], y[:3]).save(tmp_path / "model")
    assert softboost.load(tmp_path / "model")._fitted.recent.n_rows == 3


def test_leading_trees_are_those_of_the_fit():
    X, y = make_rows(150)
    model = SoftBoostRegressor().fit(X[:120], y[:120])
    trees = model.trees_
    model.partial_fit(X[120:], y[120:])
    assert len(model.trees_) == len(trees)


def test_limits_of_columns_widen_with_the_rows_learned():
    X, y = make_rows(80)
    model = SoftBoostRegressor().fit(X, y)
    before = model.units_
    model.partial_fit(X[:5] * 30, y[:5])
    assert np.all(model.units_.low <= before.low + 1e-12)
    assert np.all(model.units_.high >= before.high - 1e-12)
    assert np.any(model.units_.high > 2 * before.high)
    again = model.partial_fit(X[:5], y[:5]).units_.high
    model.partial_fit(X[:5], y[:5])
    assert_allclose(model.units_.high, again, rtol=1e-9)  # rows inside change nothing


def test_rows_kept_are_the_last_ones():
    """However they come: with the first call, in calls that overflow, or in one that is longer than the memory."""
    most = partial_fit.MAX_ROWS
    X, y, weight = np.arange(3.0 * most)[:, None], -np.arange(3.0 * most)[:, None], np.arange(3.0 * most) + 1
    recent = partial_fit.Recent.start(X[: most + 9], y[: most + 9], weight[: most + 9])

    def kept(end):
        return all(np.array_equal(getattr(recent, n), a[end - most : end]) for n, a in zip(names, rows, strict=True))

    names, rows = ("X", "y", "weight"), (X, y, weight)
    assert kept(most + 9)
    recent.take(X[most + 9 : most + 12], y[most + 9 : most + 12], weight[most + 9 : most + 12], np.zeros(3))
    assert kept(most + 12)
    recent.take(X[most + 12 :], y[most + 12 :], weight[most + 12 :], np.zeros(2 * most - 12))
    assert kept(3 * most)


def test_equal_neighbours_take_the_room_of_one_row(monkeypatch):
    monkeypatch.setattr(partial_fit, "MAX_ROWS", 3)
    X, y = np.array([[1.0], [2.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [2.0], [3.0]])
    recent = partial_fit.Recent.start(X[:0], y[:0], None)
    recent.take(X[:2], y[:2], None, np.array([1.0, 4.0]))
    recent.take(X[2:], y[2:], np.array([3.0, 1.0]), np.array([8.0, 1.0]))
    assert recent.y[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert recent.weight.tolist() == [1.0, 4.0, 1.0]
    assert recent.loss.tolist() == [1.0, 7.0, 1.0]


def fresh_correction():
    """A correction that has learned nothing yet."""
    X, y = make_rows(50)
    recent = partial_fit.Recent.start(X[:0], y[:0, None], None)
    recent.begin(make_plain(n_estimators=3).fit(X, y)._fitted.ensemble, X[:0].T)
    return recent


def test_a_long_batch_corrects_by_its_last_rows(monkeypatch):
    monkeypatch.setattr(partial_fit, "MAX_ROWS", 40)
    X, y = make_rows(100)
    whole, last = fresh_correction(), fresh_correction()
    weight = np.linspace(0.5, 2.0, 100)
    whole.learn(X.T, y[None], np.zeros((1, 100)), weight, SquaredError())
    last.learn(X[60:].T, y[None, 60:], np.zeros((1, 40)), weight[60:], SquaredError())
    assert whole.coef().any()
    assert_array_equal(whole.coef(), last.coef())


def test_a_batch_corrects_as_its_rows_one_by_one():
    """A later row of a batch is learned from the error that the correction by earlier ones leaves."""
    X, y = make_rows(60)
    batch, rows = fresh_correction(), fresh_correction()
    batch.learn(X.T, y[None], np.zeros((1, 60)), None, SquaredError())
    for i in range(60):
        now = rows.basis.at(X[i : i + 1].T) @ rows.coef().T
        rows.learn(X[i : i + 1].T, y[None, i : i + 1], now.T, None, SquaredError())
    assert_allclose(batch.coef(), rows.coef(), rtol=1e-9, atol=1e-12)
    corrected = batch.basis.at(X.T) @ batch.coef()[0]
    assert np.mean((y - corrected) ** 2) < 0.8 * np.mean(y**2)


def test_two_halves_of_a_row_correct_like_the_row(monkeypatch):
    monkeypatch.setattr(partial_fit, "FORGET_EVERY", 1000)  # updates
    X, y = make_rows(30)
    whole, halves = fresh_correction(), fresh_correction()
    rows, weight = np.repeat(np.arange(30), 2), np.full(60, 0.5)
    whole.learn(X.T, y[None], np.zeros((1, 30)), None, SquaredError())
    halves.learn(X[rows].T, y[None, rows], np.zeros((1, 60)), weight, SquaredError())
    assert whole.coef().any()
    assert_allclose(halves.coef(), whole.coef(), rtol=1e-6, atol=1e-9)


def random_walk_lags(size, seed=3, n=120, n_lags=6):
    """Lags and next value of a random walk whose steps have the given size."""
    values = np.cumsum(size * np.random.default_rng(seed).normal(size=n))
    windows = np.lib.stride_tricks.sliding_window_view(values, n_lags + 1)
    return windows[:, :-1][:, ::-1].copy(), windows[:, -1].copy()


@pytest.mark.parametrize("start", ["fit", "partial_fit"])
@pytest.mark.parametrize("n_new", [3, 114])  # corrected, and refitted
def test_changes_of_earlier_rows_still_bound_predicted_changes(start, n_new):
    X, y = random_walk_lags(1.0)
    model = getattr(SoftBoostRegressor(), start)(X, y)
    assert model.members_[0].anchor.column == 0
    low, high = (bound.copy() for bound in model._fitted.raw_bounds)
    quiet_X, quiet_y = random_walk_lags(0.05, seed=6)
    model.partial_fit(quiet_X[:n_new], quiet_y[:n_new])
    assert model.members_[0].anchor.column == 0
    assert np.all(model._fitted.raw_bounds[0] <= low)
    assert np.all(model._fitted.raw_bounds[1] >= high)
    loud_X, loud_y = random_walk_lags(5.0, seed=5)
    model.partial_fit(loud_X[:3], loud_y[:3])
    changes = loud_y[:3] - loud_X[:3, 0]
    assert np.all(model._fitted.raw_bounds[0] <= changes.min())
    assert np.all(model._fitted.raw_bounds[1] >= changes.max())
