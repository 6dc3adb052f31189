"""Plain fits of many small sets of rows, computed together; the twin is one fit after the other."""

import copy
import itertools
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from softboost import SoftBoostRegressor, _kernels, load
from softboost._choice.many import predict_many
from softboost.forecast._together import LazyModels, fit_together, predict_together

SIZES = np.array([40, 17, 40, 6, 25, 40, 1])
PARAMS = {
    "n_estimators": 4, "learning_rate": 0.3, "depth": 2, "feature_transform": None, "leaves": "linear",
    "gates": "greedy", "init": "linear",
}  # fmt: skip
INDPTR = np.concatenate([[0], np.cumsum(SIZES)])
CHANGES = {
    "linear start": {},
    "constant start": {"init": "constant"},
    "zero start": {"init": "zero"},
    "constant leaves": {"leaves": "constant"},
    "deep": {"depth": 3, "ridge": 0.1},
    "two threads": {"n_jobs": 2},
}


def make_rows(n_columns=4, n_outputs=None, seed=0):
    """Rows of all sets; the columns have gaps that differ between sets, and one set has a constant target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(INDPTR[-1], n_columns)) * 10.0 ** np.arange(n_columns)
    y = rng.normal(size=(INDPTR[-1], n_outputs or 1)) + X[:, :1]
    y = y[:, 0] if n_outputs is None else y
    for begin in INDPTR[:-1]:
        X[begin : begin + 3, -1] = np.nan  # as lags at the start of a series
    X[2:5, 0] = np.nan
    y[INDPTR[4] : INDPTR[5]] = 7.0
    X[INDPTR[2] : INDPTR[3], 0] = 3.0
    return X, y


def both(params=None, **rows):
    """The estimators of all sets, made from fits together and fitted one after the other."""
    X, y = make_rows(**rows)
    model = SoftBoostRegressor(**{**PARAMS, **(params or {})})
    many = model._fit_many(X, y, INDPTR)
    assert many is not None
    together = [model._with(many.fitted(i)) for i in range(len(SIZES))]
    alone = [copy.copy(model).fit(X[a:b], y[a:b]) for a, b in itertools.pairwise(INDPTR)]
    return many, together, alone, X


def content(model, folder):
    """The bytes of the model's file."""
    model.save(folder / "m.softboost")
    return (folder / "m.softboost").read_bytes()


@pytest.mark.parametrize("rows", [{}, {"n_columns": 1}, {"n_columns": 30}, {"n_outputs": 3}], ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_models_and_predictions_are_those_of_single_fits(name, rows, tmp_path):
    many, together, alone, X = both(CHANGES[name], **rows)
    for own, single in zip(together, alone, strict=True):
        assert content(own, tmp_path) == content(single, tmp_path)  # trees, units, bounds, losses
        assert_array_equal(own.predict(X), single.predict(X))
    owner = np.repeat(np.arange(len(SIZES)), SIZES)[::-1].copy()
    got = predict_many([(many, i) for i in range(len(SIZES))], owner, 2)(X)
    expected = np.concatenate([alone[i].predict(X[owner == i]) for i in range(len(SIZES))[::-1]])
    assert_array_equal(got, expected)


@pytest.mark.parametrize("instruction_set", _kernels.instruction_sets())
def test_every_instruction_set_fits_together_as_alone(instruction_set):
    before = _kernels.instruction_set()
    try:
        _kernels.use_instruction_set(instruction_set)
        _, together, alone, X = both()
        for own, single in zip(together, alone, strict=True):
            assert_array_equal(own.predict(X), single.predict(X))
    finally:
        _kernels.use_instruction_set(before)


def test_models_that_are_made_can_be_updated_saved_and_inspected(tmp_path):
    _, together, alone, X = both()
    own, single = together[0], alone[0]
    assert own.choice_ is None
    assert own.evals_result_ == single.evals_result_
    assert_array_equal(own.feature_importances_, single.feature_importances_)
    y = np.arange(10.0)
    assert_array_equal(own.partial_fit(X[:10], y).predict(X), single.partial_fit(X[:10], y).predict(X))
    own.save(tmp_path / "m")
    assert_array_equal(load(tmp_path / "m").predict(X), single.predict(X))


@pytest.mark.parametrize(
    "params",
    [
        {"n_estimators": "auto"}, {"feature_transform": "linear"}, {"gates": "random"}, {"loss": "huber"},
        {"early_stopping": True}, {"warm_start": True}, {"standardize": False}, {"verbose": True},
        {"categorical_features": [0]},
    ],
    ids=str,
)  # fmt: skip
def test_other_models_are_not_fitted_together(params):
    X, y = make_rows()
    assert SoftBoostRegressor(**{**PARAMS, **params})._fit_many(X, y, INDPTR) is None


def test_rows_that_need_checks_are_not_fitted_together():
    X, y = make_rows()
    model = SoftBoostRegressor(**PARAMS)
    infinite, unknown = X.copy(), y.copy()
    infinite[3, 1], unknown[3] = np.inf, np.nan
    assert model._fit_many(infinite, y, INDPTR) is None
    assert model._fit_many(X, unknown, INDPTR) is None
    assert model._fit_many(X[:, :0], y, INDPTR) is None
    assert model._fit_many(X, y, np.array([0, 0, len(y)])) is None
    long, target = np.zeros((1025, 1)), np.zeros(1025)
    assert model._fit_many(long, target, np.array([0, 1025])) is None
    with pytest.raises(ValueError, match="n_steps"):
        SoftBoostRegressor(**PARAMS, n_steps=0)._fit_many(X, y, INDPTR)


def lazy(X, y):
    together = fit_together([SoftBoostRegressor(**PARAMS)], [(X, y, INDPTR)])
    return [together.of(i) for i in range(len(SIZES))]


def test_an_estimator_is_made_once_and_then_predicts_itself():
    X, y = make_rows()
    models = lazy(X, y)
    assert models[0][0] is models[0][0]
    assert not models[0].untouched
    assert models[1].untouched
    expected = models[2][:1][0].predict(X[:4])
    models[0][0].partial_fit(X[:10], np.arange(10.0))
    owner = np.array([1, 1, 0, 2, 2])
    got = predict_together(models, owner)(0, X[:5])
    assert_array_equal(got[2:3], models[0][0].predict(X[2:3]))
    assert_array_equal(got[3:], models[2][0].predict(X[3:5]))
    assert_array_equal(got[:2], lazy(X, y)[1][0].predict(X[:2]))
    assert_array_equal(expected, models[2][0].predict(X[:4]))


def test_copies_are_independent_and_files_of_python_keep_the_models():
    X, y = make_rows()
    models = lazy(X, y)
    expected = predict_together(models, np.zeros(5, dtype=int))(0, X[:5])
    twin = copy.deepcopy(models[0])
    twin[0].partial_fit(X[:10], np.arange(10.0))
    assert models[0].untouched
    again = pickle.loads(pickle.dumps(models))
    assert isinstance(again[0], LazyModels)
    assert again[0].together is again[1].together
    assert_array_equal(predict_together(again, np.zeros(5, dtype=int))(0, X[:5]), expected)
    changed = copy.deepcopy(twin)
    assert_array_equal(changed[0].predict(X[:5]), twin[0].predict(X[:5]))
    assert not np.array_equal(twin[0].predict(X[:5]), expected)


def test_infinite_rows_are_refused_with_the_message_of_the_estimator():
    X, y = make_rows()
    models = lazy(X, y)
    X[1, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        predict_together(models, np.zeros(5, dtype=int))(0, X[:5])


def test_the_kernel_refuses_models_that_do_not_fit():
    X, y = make_rows()
    many = SoftBoostRegressor(**PARAMS)._fit_many(X, y, INDPTR)
    group = many.groups[0]
    one = np.zeros(1, dtype=np.int64)
    for groups, model, rows, message in (
        ([], one, X[:1], "no models"),
        ([group.packed], one + len(group.losses), X[:1], "no such model"),
        ([group.packed], one - 1, X[:1], "no such model"),
        ([group.packed], one, np.zeros((1, 9)), "differ in shape"),
        ([group.packed], one, np.zeros((2, 4)), "one entry per row"),
    ):
        with pytest.raises(ValueError, match=message):
            _kernels.predict_many(groups, one, model, rows)
    fine = {
        "offset": group.units.centre, "scale": group.units.spread, "intercept": group.linear.intercepts,
        "coefficients": group.linear.coefficients, "missing": group.columns.missing, **group.trees, "rate": 1.0,
        "unit": group.units.y_spread,
    }  # fmt: skip
    _kernels.pack_ensembles(**fine)
    for name, message in {
        "scale": "scale", "intercept": "intercept", "coefficients": "coefficients", "depth": "trees", "linear": "trees",
        "leaf": "trees", "gate_bias": "trees", "unit": "unit",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(message)):
            _kernels.pack_ensembles(**{**fine, name: fine[name][:-1].copy()})
    for name, value in {"columns": 99, "missing": 99, "depth": 99}.items():
        with pytest.raises(ValueError, match=r"range|depth"):
            _kernels.pack_ensembles(**{**fine, name: np.full_like(fine[name], value)})


def test_the_kernel_refuses_sets_of_other_shapes():
    x, y = np.zeros((2, 3, 5)), np.zeros((2, 1, 5))
    penalties = np.ones(2)
    for bad in (x[0], x[:1], x[..., :4].copy()):
        with pytest.raises(ValueError, match="sets of equal rows"):
            _kernels.ridge_each(bad, y, penalties, 0)
    with pytest.raises(ValueError, match="stage"):
        _kernels.ridge_each(x, y, penalties, 2)
    settings = _kernels.greedy_settings(depth=1)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.boost_each(x, y, np.zeros((2, 1, 4)), np.zeros((2, 1)), settings, 1, 0.1)
