"""The fast path of prediction gives what the complete checks give, and leaves everything unusual to them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from helpers import make_data, plain
from softboost import _regressor
from softboost._data.plain_rows import plain_rows

X, y = make_data(40)
names = [f"c{j}" for j in range(X.shape[1])]
frame = pd.DataFrame(X, columns=names)


def slowly(monkeypatch, model, rows):
    with monkeypatch.context() as patch:
        patch.setattr(_regressor, "plain_rows", lambda *args: None)
        return model.predict(rows)


def with_missing(rows):
    rows = rows.copy()
    rows[0, 1] = np.nan
    return rows


ARRAYS = {
    "double": X,
    "single": X.astype(np.float32),
    "one row": X[:1],
    "by columns": np.asfortranarray(X),
    "every second": X[::2],
    "missing": with_missing(X),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays(monkeypatch, kind):
    rows, model = ARRAYS[kind], plain().fit(X, y)
    assert plain_rows(rows, X.shape[1], None) is not None
    got = model.predict(rows)
    assert_array_equal(got, slowly(monkeypatch, model, rows))
    assert got.dtype == rows.dtype


def test_frames(monkeypatch):
    pl = pytest.importorskip("polars")
    mixed = frame.assign(c0=np.arange(40), c1=np.nan)
    model = plain().fit(frame, y)
    for rows in (frame, frame[:1], mixed, pl.DataFrame(frame), pl.DataFrame(mixed)):
        assert plain_rows(rows, X.shape[1], model.feature_names_in_) is not None
        assert_array_equal(model.predict(rows), slowly(monkeypatch, model, rows))


UNUSUAL = {
    "list": X.tolist(),
    "integers": np.ones((2, X.shape[1]), dtype=int),
    "objects": X.astype(object),
    "single precision": frame.astype(np.float32),
    "truth values": frame.assign(c0=True),
    "nullable": frame.convert_dtypes(),
    "names for a model without names": frame,
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_other_rows_are_left_to_the_complete_checks(monkeypatch, kind):
    rows = UNUSUAL[kind]
    named = isinstance(rows, pd.DataFrame) and "names" not in kind
    model = plain().fit(frame if named else X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_array_equal(model.predict(rows), slowly(monkeypatch, model, rows))


def test_errors_and_warnings_are_still_given():
    model, unnamed = plain().fit(frame, y), plain().fit(X, y)
    infinite = X.copy()
    infinite[3, 1] = np.inf
    for bad in (X[:, 1:], X[:0], X[0], infinite):
        assert plain_rows(bad, X.shape[1], None) is None
        with pytest.raises(ValueError, match=r"features|minimum of 1|2D|infinity"):
            unnamed.predict(bad)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"c0": "other"}))
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)
