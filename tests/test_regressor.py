"""SoftBoostRegressor as a user meets it: identities, stopping, going on, progress, Ctrl-C, reproducibility."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import helpers
from softboost import SoftBoostRegressor
from softboost._model.bounds import REACH
from softboost.transforms import Linear

each_model = pytest.mark.parametrize("make", helpers.MODEL_TABLE)
PLAIN_TABLE = [row for row in helpers.MODEL_TABLE if row.id != "default"]
each_plain = pytest.mark.parametrize("make", PLAIN_TABLE)
STANDARDISED = [row for row in helpers.MODEL_TABLE if not row.id.startswith("bsdt")]


# -- identities --------------------------------------------------------------------------------------------------------


@each_model
def test_same_seed_gives_the_same_bits(make):
    X, y = helpers.make_data()
    first, second = (make().fit(X, y).predict(X) for _ in range(2))
    assert_array_equal(first, second)


def test_random_gates_differ_between_seeds():
    X, y = helpers.make_data()
    a, b = (helpers.plain(gates="random", random_state=seed).fit(X, y).predict(X) for seed in (0, 1))
    assert np.any(a != b)


@each_model
def test_thread_count_changes_no_bit(make):
    X, y = helpers.make_data(1100)
    if make is helpers.MODELS["default"]:
        X, y = X[:150], y[:150]
    one, four = (make(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 4))
    assert_array_equal(one.predict(X), four.predict(X))
    for a, b in zip(one.trees_, four.trees_, strict=True):
        assert_array_equal(a.leaf_values, b.leaf_values)


@each_model
def test_staged_predict_ends_in_predict(make):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == model.n_estimators_
    if stages:
        assert_allclose(stages[-1], model.predict(X), rtol=1e-9, atol=1e-9)


@each_model
def test_prediction_is_the_sum_of_the_members(make):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    standard = (X.T - model.units_.centre[:, None]) / model.units_.spread[:, None]
    total = np.zeros((1, len(y)))
    for member in model.members_:
        total += member.weight * member.linear.predict(standard)[0]
        if member.boosted is not None and member.stage and member.boosted.rounds:
            anchor = getattr(member, "anchor", None)
            if anchor is not None:
                pytest.skip("a member looks at differences to its anchor; the ensemble's test covers it")
            total += member.weight * member.boosted.outputs(np.ascontiguousarray(standard))[: member.stage].sum(axis=0)
    raw = total[0] * model.units_.y_spread[0] + model.units_.y_centre[0]
    assert_allclose(model.predict(X), np.clip(raw, *[b[0] for b in model._fitted.raw_bounds]), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("make", [row for row in helpers.MODEL_TABLE if row.id != "default"])
def test_weight_of_two_is_the_row_twice_and_of_zero_no_row(make):
    X, y = helpers.make_data()
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    weighted = make().fit(X, y, sample_weight=weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-6)
    absent = make().fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    assert_allclose(weighted.predict(X), absent.predict(X), rtol=1e-9, atol=1e-9)


def test_default_counts_a_weight_of_zero_as_no_row():
    X, y = helpers.make_data()
    weight = np.random.default_rng(1).integers(0, 2, size=60).astype(float)
    with_zeros = SoftBoostRegressor().fit(X, y, sample_weight=weight).predict(X)
    without = SoftBoostRegressor().fit(X[weight > 0], y[weight > 0]).predict(X)
    assert_allclose(with_zeros, without, rtol=1e-9, atol=1e-9)


@each_plain
def test_order_of_rows_does_not_matter(make):
    X, y = helpers.make_data()
    order = np.random.default_rng(2).permutation(60)
    one, other = make().fit(X, y), make().fit(X[order], y[order])
    assert_allclose(one.predict(X), other.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", STANDARDISED)
@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-100, 1.0), (1e100, 1e100), (1.0, 1e-100), (1e150, 1e-150)])
def test_units_of_x_and_y_do_not_matter(make, x_scale, y_scale):
    X, y = helpers.make_data()
    one = make().fit(X, y).predict(X)
    other = make().fit(X * x_scale, y * y_scale).predict(X * x_scale)
    if make is helpers.MODELS["default"]:  # which may copy a column only where it is in the units of y
        assert np.all(np.isfinite(other))
        assert np.corrcoef(one, other / y_scale)[0, 1] > 0.9
    else:
        assert_allclose(other, one * y_scale, rtol=1e-5, atol=1e-6 * y_scale)


HARD_CASES = {
    "one row": (np.ones((1, 3)), np.array([2.0])),
    "two rows": (np.arange(6.0).reshape(2, 3), np.array([2.0, 3.0])),
    "three rows": (np.arange(9.0).reshape(3, 3), np.array([2.0, 3.0, 1.0])),
    "fewer rows than columns": (np.random.default_rng(0).normal(size=(8, 40)), np.arange(8.0)),
    "constant columns": (np.column_stack([np.ones(20), np.zeros(20), np.arange(20.0)]), np.arange(20.0)),
    "only constant columns": (np.ones((12, 2)), np.arange(12.0)),
    "duplicated columns": (np.repeat(np.arange(20.0)[:, None], 4, axis=1), np.sin(np.arange(20.0))),
    "constant y": (np.random.default_rng(0).normal(size=(20, 3)), np.full(20, 7.0)),
    "y of zeros": (np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20)),
    "huge": (1e250 * np.random.default_rng(0).normal(size=(20, 3)), 1e250 * np.arange(20.0)),
    "tiny": (1e-250 * np.random.default_rng(0).normal(size=(20, 3)), 1e-250 * np.arange(20.0)),
    "largest floats": (np.array([[1e307], [-1e307]] * 10), np.array([1e307, -1e307] * 10)),
    "mixed scales": (np.random.default_rng(0).normal(size=(20, 3)) * [1e-30, 1.0, 1e30], np.arange(20.0)),
    "far from zero": (1e9 + np.random.default_rng(0).normal(size=(30, 3)), 1e9 + np.arange(30.0)),
    "a column of NaN": (np.column_stack([np.full(20, np.nan), np.arange(20.0)]), np.arange(20.0)),
    "all NaN": (np.full((20, 2), np.nan), np.arange(20.0)),
    "one outlier": (np.append(np.zeros(19), 1e12)[:, None], np.append(np.zeros(19), 1.0)),
}


@pytest.mark.parametrize("case", HARD_CASES)
@pytest.mark.parametrize("make", STANDARDISED)
def test_hard_data_give_finite_answers_within_reach_of_y(make, case):
    X, y = HARD_CASES[case]
    prediction = make().fit(X, y).predict(X)
    assert np.all(np.isfinite(prediction))
    reach = REACH * (y.max() / 2 - y.min() / 2) + abs(y).max() * 1e-9
    assert np.all(prediction / 2 - y.min() / 2 >= -reach)
    assert np.all(prediction / 2 - y.max() / 2 <= reach)
    far = make().fit(X, y).predict(np.where(np.isnan(X), np.nan, np.sign(X) * 1e300))
    assert np.all(np.isfinite(far))


@pytest.mark.parametrize("case", ["one row", "constant y", "duplicated columns", "fewer rows than columns"])
@pytest.mark.parametrize("make", [helpers.MODELS["bsdt"], helpers.MODELS["bsdt_q"]], ids=["bsdt", "bsdt_q"])
def test_presets_give_finite_answers_on_hard_data(make, case):
    X, y = HARD_CASES[case]
    assert np.all(np.isfinite(make().fit(X, y).predict(X)))


@pytest.mark.parametrize("case", ["one row", "huge32", "tiny32", "constant columns", "fewer rows than columns"])
def test_hard_data_in_float32_give_finite_answers(case):
    if case.endswith("32"):
        size = 1e38 if case == "huge32" else 1e-38
        X, y = size * np.random.default_rng(0).uniform(-1, 1, size=(20, 3)), size * np.arange(20.0) / 10
    else:
        X, y = HARD_CASES[case]
    model = SoftBoostRegressor().fit(X.astype(np.float32), y.astype(np.float32))
    prediction = model.predict(X.astype(np.float32))
    assert prediction.dtype == np.float32
    assert np.all(np.isfinite(prediction))


def test_constant_y_is_predicted_exactly():
    X, _ = helpers.make_data()
    model = SoftBoostRegressor().fit(X, np.full(60, 7.0))
    assert_array_equal(model.predict(100 * X), 7.0)


@each_model
def test_float32_gives_nearly_what_float64_gives(make):
    X, y = helpers.make_data()
    double = make().fit(X, y).predict(X)
    single = make().fit(X.astype(np.float32), y.astype(np.float32)).predict(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.mean((single - double) ** 2) < 0.02 * np.var(y)


def test_predictions_do_not_leave_the_neighbourhood_of_the_training_range():
    X, y = helpers.make_data()
    model = helpers.plain().fit(X, y)
    far = model.predict(1e6 * X)
    reach = REACH * (y.max() - y.min())
    assert far.min() >= y.min() - reach - 1e-9
    assert far.max() <= y.max() + reach + 1e-9


# -- several outputs ---------------------------------------------------------------------------------------------------


@each_model
def test_outputs_share_gates_and_q_and_have_vector_leaves(make):
    X, y = helpers.make_data(80, n_outputs=3)
    model = make().fit(X, y)
    assert model.predict(X).shape == (80, 3)
    assert model.n_outputs_ == 3
    for tree in model.trees_:
        assert tree.leaf_values.shape == (2**tree.depth, 3)
        assert tree.gate_weights.ndim == 2
    assert len(model.transforms_) in (0, len(model.trees_))
    assert model.score(X, y) > 0.1


def test_repeated_output_is_predicted_as_one():
    X, y = helpers.make_data()
    one = helpers.plain().fit(X, y).predict(X)
    two = helpers.plain().fit(X, np.stack([y, y], axis=1)).predict(X)
    assert_allclose(two, np.stack([one, one], axis=1), rtol=1e-7, atol=1e-8)


def test_outputs_of_very_different_scales_are_both_learned():
    X, y = helpers.make_data(100)
    model = helpers.plain(n_estimators=30).fit(X, np.stack([1e-6 * y, 1e6 * y], axis=1))
    prediction = model.predict(X)
    assert_allclose(prediction[:, 0] * 1e6, prediction[:, 1] * 1e-6, rtol=1e-6, atol=1e-6)


# -- what was learned --------------------------------------------------------------------------------------------------


@each_model
def test_importances_sum_to_one_and_find_the_columns_that_matter(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    y = 3 * X[:, 1] + 0.05 * rng.normal(size=120)
    importance = (
        make(**({} if make is helpers.MODELS["default"] else {"n_estimators": 15})).fit(X, y).feature_importances_
    )
    assert importance.shape == (6,)
    assert importance.sum() == pytest.approx(1.0)
    assert np.all(importance >= 0)
    assert np.argmax(importance) == 1


def test_importances_of_a_constant_model_are_zero():
    model = SoftBoostRegressor().fit(np.ones((10, 2)), np.arange(10.0))
    assert_array_equal(model.feature_importances_, 0.0)


def test_choice_says_what_was_chosen():
    X, y = helpers.make_data(100)
    model = SoftBoostRegressor().fit(X, y)
    assert sum(model.choice_.weights.values()) == pytest.approx(1.0, abs=1e-6)
    assert len(model.members_) == len(model.choice_.weights)
    assert "judged on" in model.choice_.describe()
    assert helpers.plain().fit(X, y).choice_ is None


def test_rectangular_q_has_the_asked_shape_every_round():
    X, y = helpers.make_data()
    model = helpers.plain(feature_transform=Linear(n_components=2)).fit(X, y)
    assert [Q.shape for Q in model.transforms_] == [(2, 5)] * 8
    assert any(np.any(a != b) for a, b in zip(model.transforms_[:-1], model.transforms_[1:], strict=True))


# -- watching, stopping, going on --------------------------------------------------------------------------------------


@each_plain
def test_evals_result_is_the_loss_after_every_round(make):
    X, y = helpers.make_data(80)
    model = make().fit(X[:60], y[:60], eval_set=(X[60:], y[60:]))
    assert set(model.evals_result_) == {"train", "validation"}
    for name, rows in (("train", slice(60)), ("validation", slice(60, None))):
        expected = [0.5 * np.mean((y[rows] - stage) ** 2) for stage in model.staged_predict(X[rows])]
        assert_allclose(model.evals_result_[name], expected, rtol=1e-4, atol=1e-9)


def test_eval_set_does_not_change_the_model():
    X, y = helpers.make_data(80)
    for make in (SoftBoostRegressor, helpers.plain):
        watched = make().fit(X[:60], y[:60], eval_set=[(X[60:], y[60:])])
        assert_array_equal(watched.predict(X), make().fit(X[:60], y[:60]).predict(X))
        assert len(watched.evals_result_["validation"]) == watched.n_estimators_


def test_early_stopping_keeps_the_model_selection_of_the_default():
    X, y = helpers.make_data()
    model = SoftBoostRegressor(early_stopping=True).fit(X, y, eval_set=[(X, y)])
    assert model.choice_ is not None
    assert_array_equal(model.predict(X), SoftBoostRegressor().fit(X, y).predict(X))
    assert SoftBoostRegressor(n_estimators=20, early_stopping=True).fit(X, y).choice_ is None


def test_early_stopping_keeps_the_best_round():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    model = helpers.plain(n_estimators=200, learning_rate=0.5, early_stopping=True, n_iter_no_change=5)
    model.fit(X, y, eval_set=(X[:20] + 0.5, y[20:40]))
    losses = model.evals_result_["validation"]
    assert len(losses) < 200
    assert len(losses) - 5 == model.n_estimators_ == int(np.argmin(losses)) + 1
    assert len(model.trees_) == model.n_estimators_


def test_early_stopping_holds_out_a_fraction():
    X, y = helpers.make_data(100, noise=1.0)
    model = helpers.plain(
        n_estimators=300, learning_rate=0.5, early_stopping=True, validation_fraction=0.3, random_state=0
    )
    model.fit(X, y)
    assert model.n_estimators_ < 300
    again = helpers.plain(**model.get_params(deep=False) | {"feature_transform": None}).fit(X, y)
    assert_array_equal(model.predict(X), again.predict(X))


def test_early_stopping_in_time_order_holds_out_the_last_rows():
    X, y = helpers.make_data(100)
    strange = np.where(np.arange(100) < 80, y, 100.0)  # only the last rows differ
    model = helpers.plain(n_estimators=50, early_stopping=True, validation_fraction=0.2, shuffle=False).fit(X, strange)
    assert np.corrcoef(model.predict(X[:80]), y[:80])[0, 1] > 0.5
    assert model.evals_result_["validation"][0] > 10 * model.evals_result_["train"][0]


@pytest.mark.parametrize("name", ["plain", "constant leaves", "linear", "diagonal", "sparse", "linear start"])
def test_warm_start_equals_one_longer_fit(name):
    X, y = helpers.make_data()
    make = helpers.MODELS[name]
    model = make(warm_start=True).set_params(n_estimators=3).fit(X, y)
    first = [tree.leaf_values.copy() for tree in model.trees_]
    model.set_params(n_estimators=8).fit(X, y)
    whole = make().fit(X, y)
    assert model.n_estimators_ == 8
    for before, tree in zip(first, model.trees_, strict=False):
        assert_array_equal(before, tree.leaf_values)
    for a, b in zip(model.staged_predict(X), whole.staged_predict(X), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert_allclose(model.evals_result_["train"], whole.evals_result_["train"], rtol=1e-6)


def test_warm_start_with_random_gates_keeps_the_rounds_and_goes_on():
    X, y = helpers.make_data()
    model = helpers.MODELS["bsdt_q"](warm_start=True, n_estimators=3).fit(X, y)
    before = model.predict(X)
    model.set_params(n_estimators=6).fit(X, y)
    stages = list(model.staged_predict(X))
    assert_allclose(stages[2], before, rtol=1e-12)
    assert np.mean((stages[5] - y) ** 2) < np.mean((before - y) ** 2)


def test_warm_start_with_nothing_to_add_changes_nothing():
    X, y = helpers.make_data()
    model = helpers.plain(warm_start=True).fit(X, y)
    before, losses = model.predict(X), model.evals_result_
    assert_array_equal(model.fit(X, y).predict(X), before)
    assert_allclose(model.evals_result_["train"], losses["train"], rtol=1e-9)


def test_warm_start_refuses_fewer_rounds_and_other_columns():
    X, y = helpers.make_data()
    model = helpers.plain(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="n_estimators=2 is less than the 8 rounds already fitted"):
        model.set_params(n_estimators=2).fit(X, y)
    model.set_params(n_estimators=10)
    with pytest.raises(ValueError, match="X has 4 features, but SoftBoostRegressor is expecting 5"):
        model.fit(X[:, :4], y)


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", 0.1), ("feature_transform", "linear"), ("loss", "huber"), ("init", "zero")],
)
def test_warm_start_refuses_changes_that_would_spoil_earlier_rounds(name, value):
    X, y = helpers.make_data()
    model = helpers.plain(warm_start=True).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=f"warm_start=True continues a model with {name}=.*warm_start=False"):
        model.set_params(n_estimators=10, **{name: value}).fit(X, y)
    assert_array_equal(model.predict(X), before)


def test_warm_start_handles_nan_that_comes_later():
    X, y = helpers.make_data()
    model = helpers.plain(warm_start=True).fit(X, y)
    holes = X.copy()
    holes[::3, 1] = np.nan
    assert model.set_params(n_estimators=12).fit(holes, y).n_estimators_ == 12


@each_model
def test_partial_fit_starts_as_fit_and_then_adds(make):
    X, y = helpers.make_data(120)
    model = make().partial_fit(X[:60], y[:60])
    assert_array_equal(model.predict(X), make().fit(X[:60], y[:60]).predict(X))
    shifted = y[60:] + 1.0
    before = np.mean((model.predict(X[60:]) - shifted) ** 2)
    for _ in range(4):
        model.partial_fit(X[60:], shifted)
    assert np.mean((model.predict(X[60:]) - shifted) ** 2) < before


def test_partial_fit_on_a_narrow_batch_forgets_nothing_of_the_range():
    X, y = helpers.make_data(100)
    model = helpers.plain(n_estimators=30).fit(X, y)
    before = model.predict(X)
    row = np.argmin(np.abs(before - y))
    model.partial_fit(X[[row] * 3], y[[row] * 3])
    assert_allclose(model.predict(X), before, atol=0.3)


def test_partial_fit_learns_a_range_beyond_the_first():
    X, y = helpers.make_data(60)
    model = SoftBoostRegressor().fit(X, y)
    for rows in np.array_split(np.arange(60), 6):
        model.partial_fit(X[rows], y[rows] + 30.0)
    assert np.mean(model.predict(X)) > 15.0


# -- progress and failure ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [SoftBoostRegressor, helpers.plain], ids=["default", "plain"])
def test_verbose_shows_a_bar_and_silence_shows_nothing(make, capsys):
    X, y = helpers.make_data()
    make().fit(X, y)
    assert capsys.readouterr() == ("", "")
    make(verbose=True).fit(X, y)
    shown = capsys.readouterr().err
    assert ("train" in shown and "8/8" in shown) if make is helpers.plain else "chose" in shown


FAILURES = {
    "bad parameter": ({"depth": 0}, lambda X, y: (X, y)),
    "bad y": ({}, lambda X, y: (X, np.full(len(y), np.nan))),
    "other width, bad weight": ({}, lambda X, y: (X[:, :3], y, -np.ones(len(y)))),
    "bad transform": ({"feature_transform": Linear(99)}, lambda X, y: (X, y)),
    "loss that fails": ({"loss": (helpers.quartic, lambda y, f: 1 / 0)}, lambda X, y: (X, y)),
}


@pytest.mark.parametrize("make", [SoftBoostRegressor, helpers.plain], ids=["default", "plain"])
@pytest.mark.parametrize("failure", FAILURES)
def test_fit_that_fails_leaves_the_model_as_it_was(make, failure):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    before, params = model.predict(X), model.get_params()
    fitted = {name for name in vars(model) if name.endswith("_")}
    changes, arguments = FAILURES[failure]
    with pytest.raises((ValueError, ZeroDivisionError)):
        model.set_params(**changes).fit(*arguments(X, y))
    model.set_params(**{name: params[name] for name in changes})
    assert {name for name in vars(model) if name.endswith("_")} == fitted
    assert model.n_features_in_ == 5
    assert_array_equal(model.predict(X), before)


def test_fit_that_fails_leaves_an_unfitted_model_unfitted():
    X, y = helpers.make_data()
    model = helpers.plain()
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=-np.ones(60))
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotFittedError):
        model.predict(X)


@each_model
def test_pickled_model_predicts_the_same_bits(make):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    model.predict(X)  # also after the compiled arrays were made
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


LONG_FIT = """
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a script start with it ignored
    import numpy as np
    from softboost import SoftBoostRegressor
    from softboost.presets import bsdt_q

    rng = np.random.default_rng(0)
    X = rng.normal(size=({n}, {d}))
    y = X[:, 0] + rng.normal(size={n})
    model = {model}
    print("ready", flush=True)
    try:
        model.fit(X, y)
    except KeyboardInterrupt as stop:
        print("stopped", time.process_time(), stop, flush=True)
        print("rounds", getattr(model, "n_estimators_", None), flush=True)
        {then}
    else:
        print("finished before it was stopped", flush=True)
"""
GO_ON = (
    "kept = model.n_estimators_; model.set_params(n_estimators=kept + 1).fit(X, y); "
    "print('went on by', model.n_estimators_ - kept, flush=True)"
)
PLAIN_TEXT = "n_estimators=100000, learning_rate=0.1, depth=3, leaves='linear', gates='greedy', init='constant'"


def cpu_seconds(pid):
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupted(model, n, d, then="pass"):
    """Run a long fit in another process, send it Ctrl-C, and return its words and the processor time until it stopped.

    Both the wait before the signal and the time after it are the processor's: other work on the machine does not count.
    """
    code = textwrap.dedent(LONG_FIT).format(model=model, n=n, d=d, then=then)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            begin = cpu_seconds(process.pid)
            while cpu_seconds(process.pid) < begin + 0.5 and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            sent = cpu_seconds(process.pid)
            words, _ = process.communicate(timeout=helpers.PATIENCE)
        finally:
            process.kill()
    assert words.startswith("stopped"), words
    return words, float(words.split()[1]) - sent


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to measure another process")


@needs_proc
@pytest.mark.parametrize(
    ("model", "n", "d"),
    [
        pytest.param(
            f"SoftBoostRegressor({PLAIN_TEXT}, feature_transform=None)",
            2000,
            20,
            id="many short rounds",
            marks=pytest.mark.slow,
        ),
        pytest.param(f"SoftBoostRegressor({PLAIN_TEXT}, feature_transform=None)", 60_000, 20, id="long greedy rounds"),
        pytest.param("bsdt_q(1000, n_steps=100_000)", 5000, 50, id="long joint rounds"),
        pytest.param(
            "SoftBoostRegressor(feature_transform='linear', n_estimators=1000)",
            4000,
            200,
            id="choosing",
            marks=pytest.mark.slow,
        ),
        pytest.param("SoftBoostRegressor(n_jobs=2, n_estimators=1000)", 4000, 100, id="choosing in threads"),
    ],
)
def test_ctrl_c_stops_within_a_second_and_says_how_to_keep_rounds(model, n, d):
    words, seconds = interrupted(model, n, d)
    assert seconds < (2.0 if "n_jobs=2" in model else 1.0)
    assert "warm_start=True" in words
    assert "The model is unchanged" in words
    assert "rounds None" in words


@needs_proc
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(f"SoftBoostRegressor({PLAIN_TEXT}, feature_transform=None, warm_start=True)", id="greedy"),
        pytest.param("bsdt_q(100_000, n_steps=20, warm_start=True, random_state=0)", id="bsdt_q"),
    ],
)
def test_ctrl_c_keeps_the_rounds_under_warm_start_and_fit_goes_on(model):
    words, seconds = interrupted(model, 500, 10, then=GO_ON)
    assert seconds < 1.0
    assert "which are kept; call fit again to continue" in words
    assert "rounds None" not in words
    assert "went on by 1" in words
