"""The linear algebra of a fit uses one thread, and leaves the number of threads as it was."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from softboost import SoftBoostRegressor
from softboost._runtime.blas import one_blas_thread


def n_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if n_threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_limit_ends_with_the_last_of_overlapping_blocks():
    one_blas_thread.__enter__()
    one_blas_thread.__enter__()
    assert n_threads() == {1}
    one_blas_thread.__exit__(None, None, None)
    assert n_threads() == {1}
    one_blas_thread.__exit__(None, None, None)
    assert n_threads() == {2}


def test_limit_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), one_blas_thread:
        _ = 1 / 0
    assert n_threads() == {2}


def test_fit_leaves_the_number_of_threads_as_it_was():
    X = np.random.default_rng(0).normal(size=(60, 4))
    SoftBoostRegressor().fit(X, X[:, 0])
    assert n_threads() == {2}
