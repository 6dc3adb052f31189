"""Which rows a forecaster learns from, row by row, and that series do not leak into each other's intervals."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from softboost.forecast import Forecaster

N_ROWS = 40


class Recorder(RegressorMixin, BaseEstimator):
    """Remembers what it is taught, in lists shared with its copies; predicts the mean of its first fit."""

    fits: list = []  # noqa: RUF012 - shared on purpose: the forecaster fits clones
    later: list = []  # noqa: RUF012

    def fit(self, X, y):
        Recorder.fits.append((X, y))
        self.mean_ = np.mean(y, axis=0)
        return self

    def partial_fit(self, X, y):
        Recorder.later.append((X, y))
        return self

    def predict(self, X):
        return np.broadcast_to(self.mean_, (len(X), *np.shape(self.mean_))).copy()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        return tags


@pytest.fixture(autouse=True)
def forgotten():
    Recorder.fits.clear()
    Recorder.later.clear()


def counting_frame(n_series=2, n_rows=N_ROWS):
    """Series whose value tells its row: 0, 1, 2, ... in the first, 1000, 1001, ... in the second."""
    days = pd.date_range("2024-01-01", periods=n_rows)
    parts = [
        pd.DataFrame({"unique_id": f"s{i}", "ds": days, "y": 1000.0 * i + np.arange(n_rows)}) for i in range(n_series)
    ]
    return pd.concat(parts, ignore_index=True)


def recording(**settings):
    chosen = {"h": 1, "lags": [1, 2], "target_transforms": None, "scope": "local", **settings}
    return Forecaster("D", model=Recorder(), **chosen)


def targets(taught):
    """All targets of some calls, sorted."""
    return np.sort(np.concatenate([np.ravel(y) for _, y in taught]))


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("step_size", [1, 3])
def test_an_online_backtest_learns_each_row_before_its_origin_once(scope, step_size):
    n_windows = 4
    recording(scope=scope).backtest(counting_frame(), n_windows=n_windows, step_size=step_size, refit="online")
    first, last = N_ROWS - 1 - step_size * (n_windows - 1), N_ROWS - 1  # the last origin leaves one row to forecast
    expected = np.arange(first, last)
    assert_array_equal(targets(Recorder.fits), np.concatenate([np.arange(first), 1000 + np.arange(first)]))
    assert_array_equal(targets(Recorder.later), np.concatenate([expected, 1000 + expected]))
    assert len(Recorder.later) == (n_windows - 1) * (2 if scope == "local" else 1)
    for X, y in Recorder.later:
        assert_array_equal(X[:, 0], y - 1)  # beside each value the two before it
        assert_array_equal(X[:, 1], y - 2)


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize(("strategy", "h"), [("direct", 3), ("direct", 1), ("direct_each", 3)])
def test_direct_strategies_learn_every_step_from_the_values_before_the_first(strategy, h, scope):
    """Each row that has its whole horizon within its series is learned once, with the past as it was before it."""
    recording(strategy=strategy, h=h, scope=scope).fit(counting_frame())
    for series in (0, 1000):
        for step in range(h):
            pairs = _of_step(Recorder.fits, strategy, step, h)
            X, y = np.vstack([X for X, _ in pairs]), np.concatenate([y for _, y in pairs])
            mine = (y >= series) & (y < series + N_ROWS)
            past, y = X[mine], y[mine]
            last = N_ROWS - (h if strategy == "direct" else step + 1)
            assert_array_equal(y, series + step + np.arange(last + 1))
            known = ~np.isnan(past[:, 0])
            assert_array_equal(np.flatnonzero(~known), [0])  # the first row has no past
            assert_array_equal(past[known, 0], y[known] - step - 1)


def _of_step(fits, strategy, step, h):
    """Columns and target of one step, from what models were fitted to."""
    if strategy == "direct_each":
        return fits[step::h]
    return [(X, np.reshape(y, (len(X), h))[:, step]) for X, y in fits]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_direct_update_learns_the_horizons_that_end_in_a_new_row(scope):
    df, h, n_new = counting_frame(), 3, 5
    new = df.groupby("unique_id").cumcount() >= N_ROWS - n_new
    forecaster = recording(strategy="direct", h=h, scope=scope).fit(df[~new])
    forecaster.update(df[new], learn=True)
    X = np.vstack([X for X, _ in Recorder.later])
    y = np.vstack([y for _, y in Recorder.later])
    order = np.argsort(y[:, -1])
    ends = N_ROWS - n_new + np.arange(n_new)
    assert_array_equal(y[order, -1], np.concatenate([ends, 1000 + ends]))
    assert_array_equal(y[:, 1:] - y[:, :-1], np.ones((2 * n_new, h - 1)))
    assert_array_equal(X[:, 0], y[:, 0] - 1)


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("levels", [(0.0, 1e6), (1e6, 0.0)])
def test_a_neighbour_far_away_widens_no_interval(scope, levels):
    """Widths follow the steps within each series, not the way from the end of one to the start of the next."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, N_ROWS))
    days = pd.date_range("2024-01-01", periods=N_ROWS)

    def widths(first, second):
        df = pd.concat([
            pd.DataFrame({"unique_id": name, "ds": days, "y": level + y})
            for name, level, y in zip("ab", (first, second), noise, strict=True)
        ])  # fmt: skip
        # the forecast is the value before, whatever the level
        forecaster = Forecaster("D", h=2, model=LastValue(), lags=[1], target_transforms=None, scope=scope)
        forecast = forecaster.fit(df).predict(level=[80])
        return (forecast["LastValue-hi-80"] - forecast["LastValue-lo-80"]).to_numpy()

    assert_allclose(widths(*levels), widths(0.0, 0.0), rtol=1e-6)


class LastValue(Ridge):
    """Predicts its first column."""

    def predict(self, X):
        return X[:, 0]
