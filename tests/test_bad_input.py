"""Invalid input raises an error that names the parameter, the value and the fix."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import helpers
from softboost import SoftBoostRegressor
from softboost.transforms import Linear

X, Y = helpers.make_data(20)


def changed(array, value, index=(3,)):
    out = np.array(array, dtype=object if isinstance(value, str) else float)
    out[index] = value
    return out


PARAMETERS = [
    ({"depth": 0}, "depth must be an integer from 1 to 10, got 0; 2 or 3 are good values, or use 'auto'"),
    ({"depth": 30}, "depth must be an integer from 1 to 10, got 30"),
    ({"depth": 2.5}, "depth must be an integer from 1 to 10, got 2.5"),
    ({"depth": True}, "depth must be an integer from 1 to 10, got True"),
    ({"depth": None}, "depth must be an integer from 1 to 10, got None"),
    ({"n_estimators": 0}, "n_estimators must be an integer of at least 1, got 0; or use 'auto'"),
    ({"n_estimators": -5}, "n_estimators must be an integer of at least 1, got -5"),
    ({"n_estimators": "many"}, "n_estimators must be an integer of at least 1, got 'many'"),
    ({"learning_rate": 0}, "learning_rate must be a number above 0 and at most 1, got 0"),
    ({"learning_rate": 1.5}, "learning_rate must be a number above 0 and at most 1, got 1.5"),
    ({"learning_rate": float("nan")}, "learning_rate must be a number above 0 and at most 1, got nan"),
    ({"loss": "mse"}, "loss='mse' is not valid; choose one of .*squared_error"),
    ({"loss": 7}, "loss=7 is not valid; pass a name, an object with methods"),
    ({"feature_transform": "pca"}, "feature_transform='pca' is not valid; choose None, 'auto', one of .*linear"),
    ({"feature_transform": Linear(0)}, "n_components must be None or an integer of at least 1, got 0"),
    ({"feature_transform": Linear(50)}, "n_components=50 exceeds the number of features; use at most 5"),
    ({"leaves": "quadratic"}, "leaves='quadratic' is not valid; choose one of"),
    ({"gates": 3}, "gates=3 is not valid; choose one of"),
    ({"init": "median"}, "init='median' is not valid; choose one of"),
    ({"ridge": 0}, "ridge must be a number above 0, got 0; or use 'auto'"),
    ({"ridge": float("inf")}, "ridge must be a number above 0, got inf"),
    ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
    ({"shuffle": "yes"}, "shuffle='yes' is not valid; choose one of"),
    ({"validation_fraction": 0}, "validation_fraction must be a number above 0 and at most 0.9, got 0"),
    ({"validation_fraction": 1}, "validation_fraction must be a number above 0 and at most 0.9, got 1"),
    ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer of at least 1, got 0"),
    ({"tol": -1.0}, "tol must be a number of at least 0, got -1.0"),
    ({"n_jobs": 0}, "n_jobs must be None or a non-zero integer, got 0; -1 uses all cores"),
    ({"n_jobs": 1.5}, "n_jobs must be None or a non-zero integer, got 1.5"),
    ({"cv": 1}, "cv must be an integer of at least 2, got 1"),
    ({"cv": 50}, "cv=50 exceeds the number of rows; use at most 20 folds"),
    ({"cv": "five"}, "cv must be None, an integer, a scikit-learn splitter or an iterable of splits, got 'five'"),
    ({"random_state": "now"}, "random_state must be None, an integer, a RandomState or a Generator, got 'now'"),
    ({"categorical_features": "all"}, "categorical_features='all' is not valid; pass 'auto', None or a list"),
    ({"categorical_features": ["a"]}, "categorical_features contains 'a', but X has no column names"),
    ({"categorical_features": [9]}, "categorical_features contains 9; use column names or integers from 0"),
    ({"categorical_features": 3}, "categorical_features must be 'auto', None or a list of columns, got 3"),
    ({"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
    ({"early_stopping": "auto"}, "early_stopping must be True or False, got 'auto'"),
    ({"warm_start": 1}, "warm_start must be True or False, got 1"),
    ({"weak_learner": "forest"}, "weak_learner='forest' is not valid"),
]


@pytest.mark.parametrize(("params", "message"), PARAMETERS, ids=lambda p: str(p)[:50] if isinstance(p, dict) else "")
def test_parameters_out_of_range_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        SoftBoostRegressor(**params).fit(X, Y)


ARRAYS = {
    "X with one dimension": (X[:, 0], Y, "Expected 2D array, got 1D array instead"),
    "X with three dimensions": (X[None], Y, "with dim 3"),
    "no rows": (X[:0], Y[:0], "Found array with 0 sample"),
    "no columns": (X[:, :0], Y, r"0 feature\(s\) \(shape=\(20, 0\)\) while a minimum of 1 is required"),
    "lengths that differ": (X, Y[:-1], r"inconsistent numbers of samples: \[20, 19\]"),
    "X with infinity": (changed(X, np.inf, (3, 1)), Y, "Input X contains infinity .* Replace infinite values by NaN"),
    "X with minus infinity": (changed(X, -np.inf, (3, 1)), Y, "Input X contains infinity"),
    "y with infinity": (X, changed(Y, np.inf), "Input y contains infinity .* Drop the rows with a missing"),
    "y with NaN": (X, changed(Y, np.nan), "Input y contains NaN.* Drop the rows with a missing or infinite y"),
    "y missing": (X, None, "requires y to be passed, but the target y is None"),
    "y with three dimensions": (X, Y[:, None, None], "dim 3|y must have shape"),
    "text in X": (changed(X, "red", (3, 1)), Y, "could not convert string to float: 'red'.* categorical_features"),
    "text in y": (X, changed(Y, "red"), "could not convert string to float: 'red'"),
    "complex X": (X + 1j, Y, "Complex data not supported"),
}


@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("make", [SoftBoostRegressor, helpers.plain], ids=["default", "plain"])
def test_arrays_that_do_not_fit_are_refused(make, case):
    rows, target, message = ARRAYS[case]
    with pytest.raises(ValueError, match=message):
        make().fit(rows, target)


def test_sparse_matrices_are_refused():
    with pytest.raises(TypeError, match=r"Sparse data was passed.*dense"):
        SoftBoostRegressor().fit(scipy.sparse.csr_matrix(X), Y)


def test_infinity_at_predict_is_refused():
    model = helpers.plain().fit(X, Y)
    with pytest.raises(ValueError, match=r"Input X contains infinity .* Replace infinite values by NaN"):
        model.predict(changed(X, np.inf, (0, 0)))


def test_the_columns_of_infinite_values_are_named():
    bad = changed(changed(X, np.inf, (3, 1)), -np.inf, (5, 0))
    with pytest.raises(ValueError, match=r"infinity .*: column 0 in row 5, column 1 in row 3\. Replace"):
        helpers.plain().fit(bad, Y)
    frame = pd.DataFrame(bad, columns=[f"c{j}" for j in range(X.shape[1])])
    with pytest.raises(ValueError, match=r"infinity .*: column 'c0' in row 5, column 'c1' in row 3\. Replace"):
        helpers.plain().fit(frame, Y)


WEIGHTS = [
    (-np.ones(20), "sample_weight must not be negative, got -1.0; use 0 to ignore a row"),
    (np.zeros(20), "sample_weight is zero for every row; at least one weight must be positive"),
    (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\): one weight per row of X"),
    (np.ones((20, 2)), r"sample_weight.shape == \(20, 2\), expected \(20,\)"),
    (
        changed(np.ones(20), np.nan),
        "sample_weight contains NaN or infinity; drop these rows or set their weight to 0",
    ),
    (changed(np.ones(20), np.inf), "sample_weight contains NaN or infinity"),
    (["heavy"] * 20, "sample_weight must hold numbers"),
]


@pytest.mark.parametrize(("weight", "message"), WEIGHTS, ids=[str(i) for i in range(len(WEIGHTS))])
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        helpers.plain().fit(X, Y, sample_weight=weight)


EVAL_SETS = [
    (X, "eval_set must be a tuple .X, y. or a list with one such tuple, got ndarray"),
    ((X,), "eval_set must be a tuple .X, y."),
    ([(X, Y), (X, Y)], "eval_set must be a tuple .X, y. or a list with one such tuple, got list of length 2"),
    ((X[:, :3], Y), "X has 3 features, but SoftBoostRegressor is expecting 5 features"),
    ((X, Y[:5]), "inconsistent numbers of samples"),
    ((X, np.stack([Y, Y], axis=1)), "eval_set has 2 outputs, but y has 1"),
    ((X, changed(Y, np.nan)), "Input y contains NaN"),
]


@pytest.mark.parametrize(("eval_set", "message"), EVAL_SETS, ids=[str(i) for i in range(len(EVAL_SETS))])
def test_bad_eval_sets_are_refused(eval_set, message):
    with pytest.raises(ValueError, match=message):
        helpers.plain().fit(X, Y, eval_set=eval_set)


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.predict(X),
        lambda m: next(m.staged_predict(X)),
        lambda m: m.score(X, Y),
        lambda m: m.trees_,
        lambda m: m.transforms_,
        lambda m: m.feature_importances_,
    ],
    ids=["predict", "staged_predict", "score", "trees_", "transforms_", "feature_importances_"],
)
def test_use_before_fit_is_refused(use):
    with pytest.raises(NotFittedError, match=r"This SoftBoostRegressor instance is not fitted yet. Call 'fit'"):
        use(SoftBoostRegressor())


def test_other_columns_at_predict_are_refused():
    model = helpers.plain().fit(X, Y)
    message = "X has 4 features, but SoftBoostRegressor is expecting 5 features as input"
    for use in (model.predict, lambda rows: next(model.staged_predict(rows)), lambda rows: model.partial_fit(rows, Y)):
        with pytest.raises(ValueError, match=message):
            use(X[:, :4])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        model.predict(X[0])


def test_partial_fit_refuses_another_number_of_outputs():
    model = helpers.plain().fit(X, Y)
    with pytest.raises(ValueError, match="y has 2 outputs, but the model was fitted with 1"):
        model.partial_fit(X, np.stack([Y, Y], axis=1))


def test_nothing_left_to_train_on_is_refused():
    with pytest.raises(ValueError, match=r"validation_fraction=0.9 of 1 rows leaves no training rows; pass eval_set"):
        helpers.plain(early_stopping=True, validation_fraction=0.9).fit(X[:1], Y[:1])


def test_splits_without_rows_are_refused():
    with pytest.raises(ValueError, match=r"cv=.* gives no fold with both training and validation rows"):
        SoftBoostRegressor(cv=[(np.arange(10), np.arange(0))]).fit(X, Y)


def test_column_vector_y_is_flattened_with_a_warning():
    with pytest.warns(sklearn_warning(), match="A column-vector y was passed"):
        model = helpers.plain().fit(X, Y[:, None])
    assert model.predict(X).shape == (20,)


def sklearn_warning():
    from sklearn.exceptions import DataConversionWarning

    return DataConversionWarning


def test_y_too_large_for_single_precision_is_refused():
    with pytest.raises(ValueError, match=r"y contains values too large for float32.*; pass X as float64"):
        helpers.plain().fit(X.astype(np.float32), changed(Y, 1e39))
