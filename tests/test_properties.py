"""What must hold for any data and any model: finite answers, and none that depends on how the rows were handed over."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softboost import SoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Linear

PLAIN = {"n_estimators": 4, "learning_rate": 0.3, "depth": 2}
MODELS = {
    "default": SoftBoostRegressor,
    "trees": lambda **p: SoftBoostRegressor(**PLAIN, feature_transform=None, init="constant", **p),
    "constant leaves": lambda **p: SoftBoostRegressor(
        **PLAIN, feature_transform=None, leaves="constant", init="constant", **p
    ),
    "linear": lambda **p: SoftBoostRegressor(**PLAIN, feature_transform=Linear(2, n_steps=5), init="constant", **p),
    "diagonal": lambda **p: SoftBoostRegressor(**PLAIN, feature_transform="diagonal", init="constant", **p),
    "bsdt": lambda **p: bsdt(3, n_steps=5, random_state=0, **p),
    "bsdt_q": lambda **p: bsdt_q(3, n_steps=5, random_state=0, **p),
}
any_model = pytest.mark.parametrize("name", MODELS)
few_examples = settings(max_examples=4)  # of models that take a tenth of a second to fit
seeds = st.integers(0, 2**16)


def make_data(n, d, seed, holes=0.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, -1]) + 0.1 * rng.normal(size=n)
    X[rng.random(X.shape) < holes] = np.nan
    return X.astype(dtype), y


numbers = st.one_of(
    st.floats(-1e3, 1e3),
    st.sampled_from([0.0, -0.0, 1.0, np.nan, 1e-300, -1e-300, 1e9, -1e9, 5e-324, 1e30]),
)


@any_model
@settings(max_examples=30)
@given(data=st.data())
def test_any_valid_rows_give_finite_predictions(name, data):
    """Whatever numbers come, with holes, constants, doubles of rows and columns: an answer, and a finite one."""
    # the paper's models take columns as they come, which is not meant for numbers of any size
    elements = st.floats(-10, 10) if name.startswith("bsdt") else numbers
    n, d = data.draw(st.integers(1, 25)), data.draw(st.integers(2, 5))
    X = data.draw(hnp.arrays(np.float64, (n, d), elements=elements))
    y = data.draw(hnp.arrays(np.float64, n, elements=st.floats(-1e6, 1e6)))
    model = MODELS[name]().fit(X, y)
    fresh = data.draw(hnp.arrays(np.float64, (3, d), elements=elements))
    for rows in (X, fresh, np.full((1, d), np.nan), np.zeros((1, d))):
        prediction = model.predict(rows)
        assert prediction.shape == (len(rows),)
        assert np.isfinite(prediction).all()


KINDS = {  # of columns: values that may stand in them, and the dtype of each library
    "float": (st.floats(-1e6, 1e6), "Float64", pl.Float64),
    "whole": (st.integers(-(2**40), 2**40), "Int64", pl.Int64),
    "byte": (st.integers(0, 255), "UInt8", pl.UInt8),
    "truth": (st.booleans(), "boolean", pl.Boolean),
    "category": (st.sampled_from(["up", "down", "", "ünï"]), "category", pl.Categorical),
}


@pytest.mark.parametrize("name", ["default", "trees", "linear"])
@settings(max_examples=15)
@given(data=st.data())
def test_any_valid_frame_gives_finite_predictions(name, data):
    """Columns of every kind, with holes, from pandas and polars: finite, and the same bits from both."""
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=2, max_size=5))
    n = data.draw(st.integers(2, 20))
    columns = {}
    for j, kind in enumerate(kinds):
        values = st.one_of(st.none(), KINDS[kind][0])
        columns[f"{kind} {j}"] = data.draw(st.lists(values, min_size=n, max_size=n))
    y = data.draw(hnp.arrays(np.float64, n, elements=st.floats(-1e6, 1e6)))
    dtypes = dict(zip(columns, (KINDS[kind] for kind in kinds), strict=True))
    pandas = pd.DataFrame({c: pd.array(v, dtype=dtypes[c][1]) for c, v in columns.items()})
    polars = pl.DataFrame({c: pl.Series(v, dtype=dtypes[c][2]) for c, v in columns.items()})
    prediction = MODELS[name]().fit(pandas, y).predict(pandas)
    assert prediction.shape == (n,)
    assert np.isfinite(prediction).all()
    assert np.array_equal(MODELS[name]().fit(polars, y).predict(polars), prediction)


@any_model
@few_examples
@given(seed=seeds, holes=st.sampled_from([0.0, 0.2]))
def test_predictions_do_not_depend_on_company(name, seed, holes):
    """Order of the rows, size of the batch, number of threads: the same bits for every row."""
    X, y = make_data(40, 4, seed, holes)
    model = MODELS[name]().fit(X, y)
    rows, _ = make_data(300, 4, seed + 1, 0.1)
    want = model.predict(rows)
    order = np.random.default_rng(seed).permutation(len(rows))
    assert np.array_equal(model.predict(rows[order]), want[order])
    assert np.array_equal(np.concatenate([model.predict(rows[i : i + 7]) for i in range(0, 300, 7)]), want)
    assert np.array_equal([model.predict(rows[i : i + 1])[0] for i in range(20)], want[:20])
    assert np.array_equal(model.set_params(n_jobs=3).predict(rows), want)
    for last in list(model.staged_predict(rows))[-1:]:  # none for a model without rounds
        np.testing.assert_allclose(last, want, rtol=1e-9, atol=1e-9)


@any_model
@few_examples
@given(seed=seeds)
def test_memory_layout_does_not_matter(name, seed):
    X, y = make_data(40, 4, seed)
    want = MODELS[name]().fit(X, y).predict(X)
    spaced = np.zeros((80, 9))
    spaced[::2, 1::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    swapped = X.astype(X.dtype.newbyteorder())
    for same in (np.asfortranarray(X), spaced[::2, 1::2], X[::-1][::-1], read_only, swapped, X.tolist()):
        assert np.array_equal(MODELS[name]().fit(same, y).predict(same), want)


@any_model
@few_examples
@given(seed=seeds, holes=st.sampled_from([0.0, 0.2]))
def test_carrier_does_not_matter(name, seed, holes):
    """NumPy, pandas or polars: the same bits."""
    X, y = make_data(40, 4, seed, holes)
    want = MODELS[name]().fit(X, y).predict(X)
    names = list("abcd")
    missing = pl.DataFrame({c: [None if np.isnan(v) else v for v in X[:, j]] for j, c in enumerate(names)})
    carriers = [
        pd.DataFrame(X, columns=names),
        pd.DataFrame(X, columns=names).convert_dtypes(dtype_backend="numpy_nullable"),
        pl.DataFrame(X, schema=names),
        missing.with_columns(pl.col(pl.Float64)),
    ]
    for frame in carriers:
        assert np.array_equal(MODELS[name]().fit(frame, y).predict(frame), want)
    assert np.array_equal(MODELS[name]().fit(X, pd.Series(y)).predict(X), want)
    assert np.array_equal(MODELS[name]().fit(X, pl.Series(y)).predict(X), want)


@pytest.mark.parametrize("name", ["trees", "constant leaves"])
@given(seed=seeds)
def test_order_of_columns_does_not_matter(name, seed):
    """Trees on the columns themselves: nothing but rounding may change."""
    X, y = make_data(40, 5, seed)
    order = np.random.default_rng(seed).permutation(5)
    want = MODELS[name]().fit(X, y).predict(X)
    np.testing.assert_allclose(MODELS[name]().fit(X[:, order], y).predict(X[:, order]), want, rtol=1e-7, atol=1e-7)


class PermutedStart(Linear):
    """Linear with the columns of its start permuted along with those of X."""

    def __init__(self, order=None, learning_rate=0.02, n_steps=10):
        super().__init__(2, learning_rate=learning_rate, n_steps=n_steps)
        self.order = order

    def start_weighted(self, X, target, weight, rng):
        Q = rng.normal(size=(2, X.shape[1])).astype(X.dtype)
        return Q if self.order is None else np.ascontiguousarray(Q[:, self.order])


@given(seed=seeds)
def test_permuting_columns_together_with_Q_changes_nothing(seed):  # noqa: N802
    X, y = make_data(40, 5, seed)
    order = np.random.default_rng(seed).permutation(5)
    fixed = {
        "n_estimators": 4,
        "learning_rate": 0.3,
        "depth": 2,
        "gates": "random",
        "leaves": "constant",
        "init": "zero",
    }
    one = SoftBoostRegressor(**fixed, random_state=0, feature_transform=PermutedStart()).fit(X, y)
    other = SoftBoostRegressor(**fixed, random_state=0, feature_transform=PermutedStart(order)).fit(X[:, order], y)
    np.testing.assert_allclose(other.predict(X[:, order]), one.predict(X), rtol=1e-7, atol=1e-8)
    for Q, permuted in zip(one.transforms_, other.transforms_, strict=True):
        np.testing.assert_allclose(permuted, Q[:, order], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["default", "trees", "constant leaves", "linear", "diagonal"])
@few_examples
@given(seed=seeds, power=st.integers(-20, 20), shift=st.sampled_from([0.0, 1.0, -8.0]))
def test_scale_of_y_carries_through(name, seed, power, shift):
    """f for a y + b is a f + b: models that standardise, losses that scale with y.

    In the default, logarithms compete if all targets are positive, so a shift must not make them so.
    """
    X, y = make_data(40, 4, seed)
    assume(name != "default" or shift == 0 or max(y.min(), y.min() + shift) <= 0)
    a = 2.0**power
    want = MODELS[name]().fit(X, y).predict(X)
    got = MODELS[name]().fit(X, a * (y + shift)).predict(X)
    np.testing.assert_allclose(got / a - shift, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["trees", "constant leaves", "linear", "diagonal"])
@given(seed=seeds, power=st.integers(-30, 30))
def test_scale_of_a_column_does_not_matter(name, seed, power):
    """Columns are standardised; a power of two keeps every rounding, so the answer keeps every bit but a few."""
    X, y = make_data(40, 4, seed)
    scaled = X * [1.0, 2.0**power, 1.0, 1.0]
    want = MODELS[name]().fit(X, y).predict(X)
    np.testing.assert_allclose(MODELS[name]().fit(scaled, y).predict(scaled), want, rtol=1e-7, atol=1e-7)


@any_model
@few_examples
@given(seed=seeds)
def test_weight_of_zero_is_absence(name, seed):
    X, y = make_data(45, 4, seed)
    weight = np.ones(45)
    weight[np.random.default_rng(seed).choice(45, 10, replace=False)] = 0.0
    kept = weight > 0
    X[~kept], y[~kept] = 1e6, -1e6  # rows that would spoil everything
    model = MODELS[name]().fit(X, y, sample_weight=weight)
    assert np.array_equal(model.predict(X[kept]), MODELS[name]().fit(X[kept], y[kept]).predict(X[kept]))


@any_model
@few_examples
@given(seed=seeds)
def test_threads_and_repeats_give_the_same_bits(name, seed):
    """The reproducibility promise: same data, seed and version, any number of threads."""
    X, y = make_data(60, 5, seed, 0.05)
    want = MODELS[name](n_jobs=1).fit(X, y).predict(X)
    for n_jobs in (1, 2, 3):
        assert np.array_equal(MODELS[name](n_jobs=n_jobs).fit(X, y).predict(X), want)


@any_model
@few_examples
@given(seed=seeds)
def test_single_precision_is_near_double(name, seed):
    X, y = make_data(60, 4, seed)
    assume(np.std(y) > 0)
    model = MODELS[name]().fit(X, y)
    single = model.predict(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.predict(X), rtol=1e-3, atol=1e-3 * np.std(y))
