"""Weighted medians; the twin sorts every row."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from softboost._linear.medians import medians


@pytest.mark.parametrize("n", [1, 2, 7, 80, 81])
def test_equal_weights_give_the_median_of_the_sorted_rows(n):
    rng = np.random.default_rng(n)
    values = np.round(rng.normal(size=(5, n)), 1)  # with ties
    assert_array_equal(medians(values, np.full(n, 1 / n)), np.sort(values, axis=1)[:, (n - 1) // 2])


def test_weights_count_like_repeated_values():
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(4, 9)), np.array([1, 2, 1, 3, 1, 1, 2, 1, 1])
    repeated = np.repeat(values, times, axis=1)
    n = times.sum()
    assert_array_equal(medians(values, times / n), medians(repeated, np.full(n, 1 / n)))
