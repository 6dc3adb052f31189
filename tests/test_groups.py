"""Groups of rows that belong together, and folds that the user passes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut

import helpers
from softboost import SoftBoostRegressor
from softboost._data.folds import Folds, check_groups
from softboost._data.task import Task


def folds_of(groups, n, cv=None, shuffle="auto", kept=None):
    X = np.zeros((n, 1))
    kept = np.arange(n) if kept is None else kept
    return Folds(cv, shuffle, X, X, kept, 0, check_groups(groups, n))


@pytest.mark.parametrize("n", [60, 6000])
@pytest.mark.parametrize("shuffle", ["auto", "blocks", True])
@pytest.mark.parametrize("cv", [None, 3, GroupKFold(4), LeaveOneGroupOut()], ids=["default", "3", "splitter", "each"])
def test_a_group_is_never_in_both_parts(cv, shuffle, n):
    groups = np.random.default_rng(0).integers(0, 8, size=n)
    kept = np.arange(0, n, 2)
    for forward in (False, True):
        folds = folds_of(groups, n, cv, shuffle, kept).in_order(forward)
        for train, held in folds:
            assert len(train)
            assert len(held)
            assert not set(groups[kept][train]) & set(groups[kept][held])


def test_few_groups_give_few_folds():
    assert len(folds_of([0, 0, 1, 1, 2, 2], 6).in_order(False)) == 3
    with pytest.raises(ValueError, match="a single group"):
        folds_of(["a"] * 6, 6).in_order(False)
    cities = pd.DataFrame({"city": [f"city {i % 40}" for i in range(120)]})  # whose means are taken over folds
    with pytest.raises(ValueError, match="a single group"):
        SoftBoostRegressor().fit(cities, np.arange(120.0), groups=["a"] * 120)
    with pytest.raises(ValueError, match=r"cv=4 exceeds the number of groups; use at most 3"):
        folds_of([0, 0, 1, 1, 2, 2], 6, cv=4).in_order(False)
    with pytest.raises(ValueError, match="groups cannot be combined with shuffle=False"):
        folds_of([0, 0, 1, 1], 4, shuffle=False)


@pytest.mark.parametrize("cv", [None, 3])
def test_means_of_categories_leave_whole_groups_out(cv):
    groups = np.random.default_rng(1).integers(0, 12, size=90)
    fold = folds_of(groups, 90, cv).of_rows(np.arange(90))
    assert len(set(fold)) == (cv or 5)
    assert all(len(set(fold[groups == group])) == 1 for group in range(12))


def test_groups_may_be_of_any_type():
    for groups in (["b", "a", "b"], np.array([2, 1, 2]), pd.Series([2.0, 1.0, 2.0]), pd.Categorical(["y", "x", "y"])):
        assert_array_equal(check_groups(groups, 3), [1, 0, 1])
    with pytest.raises(ValueError, match="missing value in row 1"):
        check_groups(["a", None, "b"], 3)
    with pytest.raises(ValueError, match="groups has 2 values, but X has 3 rows"):
        check_groups(["a", "b"], 3)


def repeated_measures():
    """Ten rows of each of 12 people, whose level only their number tells."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(12), 10)
    X = np.column_stack([person, rng.normal(size=(12, 3))[person], rng.normal(size=120)])
    return X, 3 * rng.normal(size=12)[person] + X[:, -1] + 0.1 * rng.normal(size=120), person


def test_groups_show_the_error_on_new_groups():
    X, y, person = repeated_measures()
    mixed = SoftBoostRegressor(shuffle=True, random_state=0).fit(X, y)
    grouped = SoftBoostRegressor().fit(X, y, groups=person)
    assert grouped.choice_.loss > 3 * mixed.choice_.loss
    width = [np.diff(model.predict_interval(X), axis=1).mean() for model in (mixed, grouped)]
    assert width[1] > 2 * width[0]


def test_early_stopping_holds_out_whole_groups():
    X, y, person = repeated_measures()
    model = helpers.plain(early_stopping=True, validation_fraction=0.2, random_state=0)
    task = Task.from_user(model, X, y, None, None, groups=person)
    train, held = (
        set(np.unique(rows[0][0]).round(6)) for rows in task.hold_out(model)
    )  # the first column is the person
    assert len(train) + len(held) == 12
    assert len(held) in (2, 3)
    assert model.fit(X, y, groups=person).evals_result_["validation"]
    with pytest.raises(ValueError, match="a single group, which cannot be held out"):
        model.fit(X, y, groups=np.zeros(120))


def test_cv_may_be_a_list_of_splits():
    X, y = helpers.make_data(60)
    expected = SoftBoostRegressor(cv=KFold(3)).fit(X, y).predict(X)
    assert_array_equal(SoftBoostRegressor(cv=list(KFold(3).split(X))).fit(X, y).predict(X), expected)
    once = SoftBoostRegressor(cv=KFold(3).split(X))
    assert_array_equal(once.fit(X, y).predict(X), expected)
    with pytest.raises(ValueError, match="use fewer splits, or a list if it is a generator that was read before"):
        once.fit(X, y)
