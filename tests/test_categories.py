"""Categories as 0/1 columns: one encoder for the estimator and the forecaster."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from softboost import SoftBoostRegressor
from softboost._data.categories import MAX_CATEGORIES, TargetMeans, as_text, frequent, indicators
from softboost._file.container import dumps, loads
from softboost.forecast import Forecaster


def test_whole_numbers_are_alike_and_gaps_are_marked():
    values = ["red", 1, 1.0, np.float32(1.0), 1.5, None, float("nan"), pd.NA, True]
    assert as_text(values).tolist() == ["red", "1", "1", "1", "1.5", None, None, None, "True"]
    assert as_text(values, missing="").tolist()[5:8] == ["", "", ""]


def test_rare_categories_have_no_column():
    texts = as_text(["b", "a", "b", "c", "a", None, None])
    assert frequent(texts) == ["a", "b"]
    assert frequent(texts, least=1) == ["a", "b", "c"]
    weight = np.array([0.5, 2.0, 1.0, 2.0, 0.0, 5.0, 5.0])
    assert frequent(texts, weight) == ["a", "c"]
    assert_array_equal(
        indicators(texts, ["a", "b"], np.float32), [[0, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 0], [0, 0]]
    )


def test_the_most_frequent_categories_are_kept():
    texts = as_text([f"c{i:03d}" for i in range(100) for _ in range(2 + (i % 3 == 0))])
    assert frequent(texts) == [f"c{i:03d}" for i in range(0, 96, 3)]
    assert len(frequent(texts)) == MAX_CATEGORIES


@pytest.mark.parametrize("ahead", [int, float])
def test_forecaster_takes_whole_numbers_of_any_kind_for_one_category(ahead):
    code = np.tile([1, 2, 3], 12)
    times = pd.date_range("2020-01-01", periods=39, freq="D")
    df = pd.DataFrame({"unique_id": "a", "ds": times[:36], "y": 10.0 * code, "code": pd.Categorical(code)})
    forecaster = Forecaster("D", 3, Ridge(1e-6), lags=[7], target_transforms=None).fit(df)
    future = pd.DataFrame({"unique_id": "a", "ds": times[36:], "code": pd.Categorical([ahead(c) for c in (3, 1, 2)])})
    np.testing.assert_allclose(forecaster.predict(X_df=future)["Ridge"], [30.0, 10.0, 20.0], rtol=1e-3)


# -- means of the target -----------------------------------------------------------------------------------------------


def test_means_are_pulled_towards_the_overall_mean():
    texts = as_text(["a"] * 50 + ["b"] * 2 + ["c"])
    y = np.array([[*np.tile([1.0, 3.0], 25).tolist(), 7.0, 9.0, 4.0]])
    learned = TargetMeans.learn(texts, y, None)
    assert learned.names == ["a", "b"]
    a, b, other = learned.means[:, 0]
    assert_allclose(other, y.mean())
    assert 2.0 < a < 2.1
    assert other < b < 8.0
    assert_allclose(learned.encode(as_text(["b", "new", None]), np.float64)[:, 0], [b, other, other])
    noise = TargetMeans.learn(texts, np.random.default_rng(0).normal(size=(1, 53)), None)
    assert np.ptp(noise.means) < 0.1


def test_means_of_weighted_rows_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    texts, y, weight = as_text(rng.integers(0, 6, size=40)), rng.normal(size=(2, 40)), rng.integers(1, 4, size=40)
    weighted = TargetMeans.learn(texts, y, weight.astype(float))
    repeated = TargetMeans.learn(np.repeat(texts, weight), np.repeat(y, weight, axis=1), None)
    assert weighted.names == repeated.names
    assert_allclose(weighted.means, repeated.means)
    assert_allclose(TargetMeans.learn(texts, 1e300 * y, None).means / 1e300, TargetMeans.learn(texts, y, None).means)


def test_no_row_sees_its_own_target():
    texts, fold = as_text(np.arange(40) % 4), np.arange(40) * 5 // 40
    y = np.random.default_rng(0).normal(size=(1, 40))
    means = TargetMeans.learn(texts, y, None)
    before = means.out_of_fold(texts, y, None, fold, np.float64)
    changed = y.copy()
    changed[0, :8] += 100.0  # the first fold
    after = means.out_of_fold(texts, changed, None, fold, np.float64)
    assert_array_equal(after[:8], before[:8])
    assert np.all(after[8:] > before[8:] + 1)


def many_values(n=400, n_values=60, seed=0):
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, n_values, size=n)
    frame = pd.DataFrame({"shop": [f"shop {s}" for s in shop], "x": rng.normal(size=n)})
    return frame, np.random.default_rng(9).normal(size=n_values)[shop] + frame["x"].to_numpy() + 0.3 * rng.normal(
        size=n
    )


def test_columns_of_many_categories_are_learned():
    frame, y = many_values()
    model = SoftBoostRegressor().fit(frame, y)
    assert model.columns_.n_encoded == 2 + MAX_CATEGORIES + 1
    assert model.columns_.names(["shop", "x"])[-1] == "mean of y by shop"
    test, target = many_values(seed=1)
    assert model.score(test, target) > 0.8
    assert loads(dumps(model)).columns_.names(["shop", "x"]) == model.columns_.names(["shop", "x"])
    assert_array_equal(loads(dumps(model)).predict(test), model.predict(test))
    assert np.isfinite(model.predict(test.assign(shop="unknown"))).all()
    two = SoftBoostRegressor().fit(frame, np.column_stack([y, -y]))
    assert two.columns_.names(["shop", "x"])[-2:] == ["mean of y by shop (0)", "mean of y by shop (1)"]


def test_a_column_that_names_each_row_does_no_harm():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    frame = pd.DataFrame({"name": [f"row {i}" for i in range(100)], "x": x})
    model = SoftBoostRegressor().fit(frame, x)
    assert model.columns_.n_encoded == 2
    zeros = frame.assign(name=0.0)
    assert_array_equal(model.predict(frame), SoftBoostRegressor().fit(zeros, x).predict(zeros))
