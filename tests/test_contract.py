"""The scikit-learn API: check_estimator without exceptions, and the tools that use it."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import helpers
from softboost import SoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Linear

ESTIMATORS = [
    SoftBoostRegressor(),
    helpers.plain(),
    helpers.plain(feature_transform=Linear(1, "supervised", group_lasso=0.2)),
    bsdt(n_estimators=5, n_steps=20, random_state=0),
    bsdt_q(n_estimators=5, n_steps=20, random_state=0),
]


# scikit-learn skips its test of array API input unless SCIPY_ARRAY_API is set before scipy is first imported
@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("default")
def test_check_estimator(estimator, check):
    check(estimator)


def test_constructor_stores_parameters_and_nothing_else():
    model = SoftBoostRegressor(n_estimators=7, loss="huber")
    assert vars(model) == model.get_params(deep=False)


@pytest.mark.parametrize("make", helpers.MODEL_TABLE)
def test_clone_copies_parameters_and_no_fit(make):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "members_")
    assert_array_equal(copy.fit(X, y).predict(X), model.predict(X))


def test_grid_search_reaches_nested_parameters():
    X, y = helpers.make_data()
    grid = {"depth": [1, 2], "feature_transform__n_components": [1, 3]}
    search = GridSearchCV(helpers.plain(n_estimators=3, feature_transform=Linear(2, n_steps=5)), grid, cv=3).fit(X, y)
    assert search.best_params_["feature_transform__n_components"] in (1, 3)
    assert search.best_estimator_.transforms_[0].shape == (search.best_params_["feature_transform__n_components"], 5)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_grid_search_over_transforms_and_losses():
    X, y = helpers.make_data()
    grid = {"feature_transform": [None, "linear", Linear(1)], "loss": ["squared_error", "huber"]}
    search = GridSearchCV(helpers.plain(n_estimators=2), grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 6


def test_grid_search_in_other_processes_gives_the_same():
    X, y = helpers.make_data()
    with joblib.parallel_backend("threading", n_jobs=2):
        threads = GridSearchCV(helpers.plain(n_jobs=2), {"depth": [1, 2]}, cv=2, n_jobs=2).fit(X, y)
    alone = GridSearchCV(helpers.plain(), {"depth": [1, 2]}, cv=2).fit(X, y)
    assert_array_equal(threads.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_pipeline_and_cross_validation():
    X, y = helpers.make_data(100)
    pipeline = make_pipeline(StandardScaler(), helpers.plain(n_estimators=20))
    scores = cross_val_score(pipeline, X, y, cv=TimeSeriesSplit(3))
    assert np.mean(scores) > 0.3
    pipeline.set_params(softboostregressor__depth=1).fit(X, y)
    assert pipeline.predict(X).shape == (100,)


def test_inside_other_meta_estimators():
    X, y = helpers.make_data()
    stack = StackingRegressor([("soft", helpers.plain()), ("line", LinearRegression())], cv=3).fit(X, y)
    assert stack.score(X, y) > 0.5
    target = TransformedTargetRegressor(helpers.plain(), func=np.cbrt, inverse_func=lambda t: t**3).fit(X, y)
    assert target.score(X, y) > 0.3
    both = MultiOutputRegressor(helpers.plain()).fit(X, np.stack([y, -y], axis=1))
    assert both.predict(X).shape == (60, 2)


def test_set_output_of_a_transformer_before_the_model_gives_it_names():
    X, y = helpers.make_data()
    frame = pd.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(StandardScaler(), helpers.plain()).set_output(transform="pandas").fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == list("abcde")
    expected = make_pipeline(StandardScaler(), helpers.plain()).fit(X, y).predict(X)
    assert_allclose(pipeline.predict(frame), expected, rtol=1e-9)


def test_sample_weight_is_routed():
    X, y = helpers.make_data()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=60)
    with sklearn.config_context(enable_metadata_routing=True):
        model = helpers.plain().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        results = cross_validate(model, X, y, cv=2, params={"sample_weight": weight}, return_estimator=True)
        search = GridSearchCV(model, {"depth": [1, 2]}, cv=2).fit(X, y, sample_weight=weight)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)
    first = helpers.plain().fit(X[30:], y[30:], sample_weight=weight[30:])
    assert_array_equal(results["estimator"][0].predict(X), first.predict(X))
    best = helpers.plain(depth=search.best_params_["depth"]).fit(X, y, sample_weight=weight)
    assert_array_equal(search.predict(X), best.predict(X))
    scaled = StandardScaler().fit_transform(X)
    assert_array_equal(pipeline.predict(X), helpers.plain().fit(scaled, y, sample_weight=weight).predict(scaled))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_of_every_protocol(protocol):
    X, y = helpers.make_data()
    model = SoftBoostRegressor().fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model, protocol)).predict(X), model.predict(X))


def test_joblib_file(tmp_path):
    X, y = helpers.make_data()
    model = helpers.plain(loss="quantile").fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))


def test_repr_shows_what_was_set():
    text = repr(SoftBoostRegressor(depth=3, feature_transform=Linear(n_components=2)))
    assert "depth=3" in text
    assert "Linear(n_components=2)" in text
