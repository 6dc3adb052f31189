"""Local regressions of many series are computed together; the twin is one fit after the other."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from softboost import SoftBoostRegressor, _kernels
from softboost.forecast import Differences, LocalStandardScaler, Log, RollingMean
from softboost.forecast._features import FeatureChooser, Features
from softboost.forecast._fitted import Fitted
from softboost.forecast._forecaster import FEW_ROUNDS
from softboost.forecast._learned import Learned, Settings
from softboost.forecast._panel import Panel
from softboost.forecast.target_transforms import Chain, TargetTransform

SIZES = np.array([40, 17, 41, 40])
FEW = SoftBoostRegressor(**{**FEW_ROUNDS, "n_estimators": 3})


class Halves(TargetTransform):
    """A custom transform, which is fitted to one series at a time."""

    def fit(self, y, indptr):
        assert len(indptr) == 2
        return self

    def apply(self, y, indptr):
        return y / 2, lambda z: 2 * z


def make_panel(gap=False):
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(SIZES)])
    times = np.concatenate([pd.date_range("2020-01-01", periods=n, freq="MS").to_numpy() for n in SIZES])
    y = 20 + rng.normal(size=indptr[-1]).cumsum()
    y[45:47] = np.where(gap, np.nan, y[45:47])
    return Panel(y, indptr, times, rng.normal(size=(len(y), 1)), rng.normal(size=(len(SIZES), 1)), "interpolate")


def make_settings(model=FEW, strategy="recursive", transforms=(), **features):
    chooser = None if features else FeatureChooser("MS", 12, has_dates=True)
    own = Features([1, 3], **features) if features else Features([1], {}, ["month"])
    return Settings(model, strategy, 3, own, Chain(transforms), chooser)


CASES = {
    "default": make_settings(),
    "scaled differences": make_settings(transforms=[Log(), Differences([1]), LocalStandardScaler()]),
    "ridge": make_settings(Ridge()),
    "direct": make_settings(strategy="direct"),
    "direct each": make_settings(strategy="direct_each"),
    "given columns": make_settings(lag_transforms={1: [RollingMean(4)]}),
    "function of dates": make_settings(lag_transforms={}, date_features=[lambda dates: dates.month]),
    "custom transform": make_settings(transforms=[Halves()]),
}


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_fits_of_many_series_are_those_of_each(name, gap):
    settings, panel = CASES[name], make_panel(gap)
    _, future = panel.windows(3, 3)
    together = Learned.fit_each(settings, panel)
    for i, learned in enumerate(together):
        part = panel.take([i])
        alone = Learned.fit(settings, part)
        assert learned.settings.features.names() == alone.settings.features.names()
        only = np.zeros(1, dtype=int)
        got, expected = (one.predict(part, only, future.take([i])) for one in (learned, alone))
        assert_array_equal(got, expected)


def test_series_with_equal_columns_are_fitted_and_forecast_by_one_kernel_call(monkeypatch):
    calls = {"boost_each": 0, "predict_many": 0}

    def counted(name):
        function = getattr(_kernels, name)

        def call(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return call

    for name in calls:
        monkeypatch.setattr(_kernels, name, counted(name))
    many = make_panel().take(np.tile([0, 2], 20))  # 40 and 41 rows
    fitted = Fitted.fit(CASES["default"], "local", 12, many)
    assert calls["boost_each"] == 2
    _, future = many.windows(3, 3)
    fitted.predict(many, np.arange(40), future)
    assert calls["predict_many"] == 3  # steps
    assert all(model.models.untouched for model in fitted.models)


@pytest.mark.parametrize("strategy", ["recursive", "direct", "direct_each"])
def test_models_fitted_together_learn_as_single_ones(strategy):
    settings, panel = make_settings(strategy=strategy), make_panel()
    first = panel.cut(4)
    fitted = Fitted.fit(settings, "local", 12, first)
    kept = fitted.copied()
    fitted.learn(panel, np.full(len(SIZES), 4))
    _, future = panel.windows(3, 3)
    every = np.arange(len(SIZES))
    got, before = (one.predict(panel, every, future) for one in (fitted, kept))
    for i in every:
        part, only = panel.take([i]), np.zeros(1, dtype=int)
        alone = Learned.fit(settings, first.take([i]))
        assert_array_equal(before[[i]], alone.predict(part, only, future.take([i])))
        alone.learn(part, only, np.array([4]))
        assert_array_equal(got[[i]], alone.predict(part, only, future.take([i])))
    assert not np.array_equal(got, before)


@pytest.mark.parametrize("name", CASES)
def test_forecasts_of_many_series_are_those_of_each(name):
    settings, panel = CASES[name], make_panel()
    fitted = Fitted.fit(settings, "local", 12, panel)
    which = np.array([2, 0, 3, 0, 1])  # a model may have several histories
    back = np.array([1, 2, 3, 6, 4])
    histories = panel.take(which).cut(back)
    _, future = panel.take(which).windows(back, 3)
    got = fitted.predict(histories, which, future)
    for k, i in enumerate(which):
        model = fitted.models[i]
        expected = model.predict(histories.take([k]), np.zeros(1, dtype=int), future.take([k]))
        assert_allclose(got[[k]], expected, rtol=1e-12 if name == "ridge" else 0)  # BLAS: one row or several


def test_plain_fits_of_few_rows_record_the_losses_of_all_rounds():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    weight = rng.uniform(0.5, 2.0, size=60)
    params = {**FEW_ROUNDS, "n_estimators": 5}
    unwatched = SoftBoostRegressor(**params).fit(X, y, weight, eval_set=(X[:20], y[:20]))
    watched = SoftBoostRegressor(**params, warm_start=True).fit(X, y, weight, eval_set=(X[:20], y[:20]))
    assert_array_equal(unwatched.predict(X), watched.predict(X))
    assert unwatched.evals_result_.keys() == watched.evals_result_.keys() == {"train", "validation"}
    for name, losses in watched.evals_result_.items():
        assert_allclose(unwatched.evals_result_[name], losses, rtol=1e-12)
