"""Categories as 0/1 columns: one encoder for the estimator and the forecaster."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

from softboost._data.categories import MAX_CATEGORIES, as_text, frequent, indicators
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
