"""Trees of other libraries as weak learners: exact conversion, gradients of the soft twin, boosting."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from helpers import Fourier, make_data
from softboost import SoftBoostRegressor, load
from softboost._boost import tree_libraries
from softboost._boost.hard_trees import HardTree, SoftTwin
from softboost._boost.learner import TrainingData
from softboost._boost.tree_libraries import LIBRARIES, library_of
from softboost._file.codecs.functions import _unpack_hard_tree
from softboost._file.container import dumps, loads
from softboost._file.values import Fields, ModelFileError
from softboost.transforms import Diagonal, Linear
from softboost.weak_learners import HardTrees

CATBOOST = {"random_strength": 0, "bootstrap_type": "No", "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def lightgbm(**params):
    module = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return module.LGBMRegressor(**{"num_leaves": 7, "min_child_samples": 5, "verbose": -1, "n_jobs": 1, **params})


def xgboost(**params):
    module = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return module.XGBRegressor(**{"max_depth": 3, "n_jobs": 1, **params})


def catboost(**params):
    module = pytest.importorskip("catboost", reason="CatBoost is not installed")
    return module.CatBoostRegressor(**{"depth": 3, **CATBOOST, **params})


ESTIMATORS = {
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
    "catboost lossguide": lambda **p: catboost(grow_policy="Lossguide", max_leaves=6, **p),
    "decision tree": lambda **p: DecisionTreeRegressor(**{"max_depth": 3, **p}),
    "extra tree": lambda **p: ExtraTreeRegressor(**{"max_depth": 4, "random_state": 0, **p}),
}
ALL = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)


def boosted(weak_learner, n_estimators=20, **params):
    params = {"feature_transform": None, "init": "constant", "random_state": 0, **params}
    return SoftBoostRegressor(n_estimators, 0.1, weak_learner=weak_learner, **params)


def grown(make, n_outputs=1, n_samples=150, dtype=np.float64, seed=0):
    """A tree of the library, the z (n_components, n_samples) that it was fitted on, and other z."""
    X, y = make_data(n_samples=n_samples, n_features=4, n_outputs=n_outputs, seed=seed)
    data = TrainingData(np.ascontiguousarray(X.T, dtype=dtype), None)
    tree = HardTrees(make())._grow(data.X, np.atleast_2d(y.T).astype(dtype), data, np.random.default_rng(0))
    return tree, data.X, np.random.default_rng(seed + 1).normal(size=data.X.shape).astype(dtype)


@ALL
def test_tree_predicts_what_its_library_predicts(make):
    X, y = make_data(n_samples=200, n_features=4)
    library = library_of(make())
    one_tree = library.make(make(), {**library.fixed, library.seed: 3})
    one_tree.fit(X, y)
    tree = HardTree.joined(library.read(one_tree), [0], 1, library.single_precision)
    rows = np.vstack([X, np.random.default_rng(1).normal(size=(2000, 4))])
    expected = np.asarray(one_tree.predict(rows), dtype=np.float64)
    assert_allclose(tree.output(np.ascontiguousarray(rows.T))[0], expected, rtol=1e-6, atol=1e-7)
    assert len(np.unique(expected)) > 4


@pytest.mark.parametrize("make", [xgboost, catboost, ESTIMATORS["decision tree"]])
def test_rows_on_a_threshold_go_where_the_library_sends_them(make):
    """Values that are equal in single precision are on the same side of a threshold."""
    rng = np.random.default_rng(0)
    X = (rng.integers(0, 4, size=(200, 2)) + 1e-12 * rng.normal(size=(200, 2))).astype(np.float64)
    y = X[:, 0] ** 2 - X[:, 1]
    library = library_of(make())
    one_tree = library.make(make(), library.fixed)
    one_tree.fit(X, y)
    tree = HardTree.joined(library.read(one_tree), [0], 1, library.single_precision)
    on_threshold = np.repeat(tree.threshold[tree.left != np.arange(len(tree.left))][:, None], 2, axis=1)
    rows = np.vstack([X, on_threshold, np.nextafter(on_threshold, 9)])
    assert_allclose(tree.output(np.ascontiguousarray(rows.T))[0], one_tree.predict(rows), rtol=1e-6, atol=1e-6)


@ALL
def test_twin_tends_to_the_tree(make):
    tree, z, other = grown(make, n_outputs=2)
    spread = z.std(axis=1)
    inner = np.flatnonzero(tree.left != np.arange(len(tree.left)))
    distance = np.abs(other[tree.feature[inner]] - tree.threshold[inner, None]).min(axis=0)
    off = distance > 0.01  # at a threshold the twin is between both sides
    errors = []
    for sharpness in (1.0, 10.0, 100.0, 1000.0, 10000.0):
        difference = SoftTwin(tree, spread, sharpness).output(other) - tree.output(other)
        errors.append(np.abs(difference[:, off]).max())
    assert off.sum() > 50
    assert errors[0] > 0.1
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < 1e-12


@ALL
@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_gradient_of_the_twin_is_the_derivative(make, sharpness):
    tree, z, _ = grown(make, n_outputs=2, n_samples=30)
    twin = SoftTwin(tree, z.std(axis=1), sharpness)
    weights = np.random.default_rng(3).normal(size=(2, 30))
    gradient = twin.gradient(z, lambda output, rows: weights[:, rows] * output)
    step = 1e-6
    for component in range(len(z)):
        there, back = z.copy(), z.copy()
        there[component] += step
        back[component] -= step
        value = 0.5 * weights * (twin.output(there) ** 2 - twin.output(back) ** 2)
        assert_allclose(gradient[component], value.sum(axis=0) / (2 * step), rtol=1e-5, atol=1e-6)


def test_twin_works_on_rows_in_pieces(monkeypatch):
    tree, z, _ = grown(ESTIMATORS["decision tree"])
    twin = SoftTwin(tree, z.std(axis=1), 4.0)
    whole = twin.output(z), twin.gradient(z, lambda output, rows: output)
    monkeypatch.setattr("softboost._boost.hard_trees.MAX_TWIN_CELLS", 7 * len(tree.left))
    assert_allclose(twin.output(z), whole[0], rtol=1e-12)
    assert_allclose(twin.gradient(z, lambda output, rows: output), whole[1], rtol=1e-12, atol=1e-15)


# -- without a transform it is the library's own boosting -----------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "catboost lossguide", "scikit-learn"])
def test_plain_boosting_is_that_of_the_library(name, weighted):
    X, y = make_data(n_samples=300, n_features=8)
    rows, _ = make_data(n_samples=200, n_features=8, seed=1)
    weight = np.random.default_rng(2).uniform(1, 2, len(y)) if weighted else None
    rounds = {"n_estimators": 20, "learning_rate": 0.1}
    # CatBoost multiplies its penalty by the mean weight; softboost divides by it, so that weights count rows
    penalty = {"l2_leaf_reg": 3.0 / (weight.mean() if weighted else 1.0)}
    own = {
        "lightgbm": lambda: lightgbm(**rounds),
        "xgboost": lambda: xgboost(base_score=float(np.average(y, weights=weight)), **rounds),
        "catboost": lambda: catboost(**rounds, **penalty),
        "catboost lossguide": lambda: ESTIMATORS["catboost lossguide"](**rounds, **penalty),
        # leaves are large enough that no two columns give equal splits, which would be broken at random
        "scikit-learn": lambda: GradientBoostingRegressor(max_depth=3, min_samples_leaf=20, random_state=0, **rounds),
    }[name]()
    learner = DecisionTreeRegressor(max_depth=3, min_samples_leaf=20) if name == "scikit-learn" else ESTIMATORS[name]()
    expected = own.fit(X, y, sample_weight=weight).predict(rows)
    ours = boosted(learner, standardize=False).fit(X, y, sample_weight=weight).predict(rows)
    assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.std(y))
    assert np.std(expected) > 0.3


def test_parameters_of_the_library_pass_through():
    X, y = make_data(n_samples=200)
    small = boosted(lightgbm(num_leaves=2), 5).fit(X, y)
    large = boosted(lightgbm(num_leaves=8), 5).fit(X, y)
    assert all(len(tree.leaves) == 2 for tree in small.trees_)
    assert all(2 < len(tree.leaves) <= 8 for tree in large.trees_)
    subsampled = boosted(lightgbm(colsample_bytree=0.3), 5).fit(X, y)
    assert np.abs(subsampled.predict(X) - boosted(lightgbm(), 5).fit(X, y).predict(X)).max() > 1e-3


@pytest.mark.parametrize("make", [lightgbm, xgboost, catboost, ESTIMATORS["decision tree"]])
def test_number_of_trees_and_rate_are_those_of_the_boosting(make):
    X, y = make_data(n_samples=100)
    name = "iterations" if make is catboost else "n_estimators"
    loud = {} if make is ESTIMATORS["decision tree"] else {name: 50, "learning_rate": 0.7}
    model = boosted(make(**loud), 4).fit(X, y)
    assert_allclose(model.predict(X), boosted(make(), 4).fit(X, y).predict(X), rtol=1e-9)
    assert len(model.trees_) == 4


def test_synonyms_of_parameters_are_understood():
    X, y = make_data(n_samples=100)
    module = pytest.importorskip("catboost", reason="CatBoost is not installed")
    other = module.CatBoostRegressor(n_estimators=50, eta=0.7, max_depth=3, silent=True, random_state=4, **CATBOOST)
    del other._init_params["verbose"]
    assert_allclose(boosted(other, 4).fit(X, y).predict(X), boosted(catboost(), 4).fit(X, y).predict(X), rtol=1e-9)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_names_stand_for_the_libraries_and_depth_for_theirs(name):
    pytest.importorskip(name, reason=f"{name} is not installed")
    X, y = make_data(n_samples=100)
    deep = boosted(name, 3).fit(X, y)
    shallow = boosted(name, 3, depth=2).fit(X, y)
    assert max(tree.depth for tree in deep.trees_) > 2
    assert all(tree.depth <= 2 for tree in shallow.trees_)
    assert deep.score(X, y) > 0.1


# -- with a transform -------------------------------------------------------------------------------------------------


def test_alternation_learns_a_direction():
    """y is a step along a direction: no single column predicts it, but one component of z = Q x does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.where(X @ np.array([1.0, -1.0, 1.0, 0, 0, 0]) > 0, 1.0, -1.0)
    tree = DecisionTreeRegressor(max_depth=2)
    without = boosted(tree, 20).fit(X[:200], y[:200])
    with_q = boosted(tree, 20, feature_transform=Linear(n_components=2, learning_rate=0.05)).fit(X[:200], y[:200])
    error = [np.mean((model.predict(X[200:]) - y[200:]) ** 2) for model in (without, with_q)]
    assert error[1] < 0.75 * error[0]
    Q = with_q.transforms_[-1]
    relevant = np.abs(Q[:, :3]).sum() / np.abs(Q).sum()
    assert relevant > 0.75
    assert with_q.feature_importances_[:3].sum() > 0.75


def test_transform_moves_downhill_and_carries_over():
    X, y = make_data(n_samples=120)
    data, target = TrainingData(np.ascontiguousarray(X.T), None), y[None] - y.mean()
    learner, transform = HardTrees(DecisionTreeRegressor(max_depth=2), sharpness=3.0), Linear()
    theta = np.eye(X.shape[1])
    tree = learner._grow(data.X, target, data, np.random.default_rng(0))
    twin = SoftTwin(tree, data.X.std(axis=1), 3.0)
    moved = learner._move(tree, data.X, data, target, transform, theta, np.random.default_rng(0))
    losses = [np.mean((twin.output(np.ascontiguousarray(Q @ X.T)) - target) ** 2) for Q in (theta, moved)]
    assert losses[1] < 0.96 * losses[0]
    model = boosted(learner, 3, feature_transform=transform).fit(X, y)
    steps = [np.abs(b - a).max() for a, b in zip(model.transforms_[:-1], model.transforms_[1:], strict=True)]
    assert all(0 < step < 0.02 * 40 for step in steps)


def test_last_tree_of_a_round_belongs_to_the_last_transform():
    X, y = make_data(n_samples=120)
    data, target = TrainingData(np.ascontiguousarray(X.T), None), y[None]
    learner = HardTrees(DecisionTreeRegressor(max_depth=2), n_alternations=2)
    fitted = learner.fit(data, target, Linear(), np.eye(X.shape[1]), np.random.default_rng(0))
    z = np.ascontiguousarray(fitted.theta @ X.T)
    own = DecisionTreeRegressor(max_depth=2).fit(z.T, y)
    assert_allclose(fitted.output[0], own.predict(z.T), rtol=1e-6)


@pytest.mark.parametrize("transform", ["linear", "diagonal", Diagonal(group_lasso=0.5), Fourier()], ids=repr)
def test_every_transform_works_with_hard_trees(transform):
    X, y = make_data(n_samples=80)
    model = boosted(DecisionTreeRegressor(max_depth=3), 5, feature_transform=transform).fit(X, y)
    assert len(model.transforms_) == 5
    assert model.score(X, y) > 0.3
    assert_allclose(list(model.staged_predict(X))[-1], model.predict(X))


def test_torch_transform_works_with_hard_trees():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from softboost.transforms import mlp

    X, y = make_data(n_samples=80)
    model = boosted(DecisionTreeRegressor(max_depth=3), 5, feature_transform=mlp(dropout=0.1)).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.score(X, y) > 0.3


def test_automatic_transform_is_judged_out_of_fold():
    X, y = make_data(n_samples=80)
    model = SoftBoostRegressor(10, 0.3, init="constant", weak_learner=DecisionTreeRegressor(max_depth=2)).fit(X, y)
    assert set(model.choice_.losses) == {"constant", "tree", "tree+linear"}
    assert model.score(X, y) > 0.5


# -- as an estimator --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["absolute_error", "quantile", "huber", "poisson"])
def test_losses_other_than_squared_solve_the_leaves_again(loss):
    X, y = make_data(n_samples=150)
    y = np.exp(0.5 * y) if loss == "poisson" else y
    model = boosted(lightgbm(), 30, loss=loss).fit(X, y)
    losses = [model.loss_.mean(y[None], raw.T, None) for raw in model._fitted.ensemble.staged_raw_prediction(X, 1)]
    assert losses[-1] < 0.8 * losses[0]


@ALL
def test_several_outputs_are_several_trees(make):
    X, y = make_data(n_samples=100, n_outputs=2)
    both = boosted(make(), 5, standardize=False).fit(X, y).predict(X)
    each = [boosted(make(), 5, standardize=False).fit(X, y[:, o]).predict(X) for o in range(2)]
    if make is not ESTIMATORS["extra tree"]:  # it has random thresholds, and the seeds differ
        assert_allclose(both, np.column_stack(each), rtol=1e-6, atol=1e-7)
    assert both.shape == (100, 2)


@ALL
def test_model_pickles_clones_and_repeats(make):
    X, y = make_data()
    estimator = make()
    before = repr(vars(estimator))
    model = boosted(estimator, 3, feature_transform="linear").fit(X, y)
    assert repr(vars(estimator)) == before  # the estimator of the user is not fitted itself
    expected = model.predict(X)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    assert_array_equal(clone(model).fit(X, y).predict(X), expected)
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_model_keeps_none_of_the_library_after_fitting():
    X, y = make_data()
    model = boosted("lightgbm", 3).fit(X, y)
    assert all(type(tree) is HardTree for tree in model.trees_)


def test_grid_search_reaches_the_library():
    X, y = make_data(n_samples=100)
    grid = {"weak_learner__estimator__max_depth": [1, 3], "weak_learner__sharpness": [2.0, 20.0]}
    model = boosted(HardTrees(DecisionTreeRegressor()), 10, feature_transform="linear")
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert len(np.unique(search.cv_results_["mean_test_score"].round(6))) == 4


def test_files_hold_no_nodes_that_are_no_trees():
    tree, z, _ = grown(ESTIMATORS["decision tree"], n_outputs=2)
    assert_array_equal(_unpack_hard_tree(Fields(dict(vars(tree)), "tree")).output(z), tree.output(z))
    for name, value in [
        ("left", np.zeros_like(tree.left)),
        ("right", np.arange(len(tree.right), dtype=np.int32)),
        ("roots", np.array([10**6])),
        ("threshold", np.zeros(1)),
        ("threshold", np.full_like(tree.threshold, np.nan)),
    ]:
        with pytest.raises(ModelFileError, match="tree: "):
            _unpack_hard_tree(Fields({**vars(tree), name: value}, "tree"))


@ALL
@pytest.mark.parametrize("transform", [None, "linear"])
def test_model_goes_through_a_file(make, transform, tmp_path):
    X, y = make_data(n_samples=80)
    model = boosted(make(), 3, feature_transform=transform).fit(X, y)
    model.save(tmp_path / "model.softboost")
    assert_array_equal(load(tmp_path / "model.softboost").predict(X), model.predict(X))


@ALL
def test_files_bring_back_the_learner(make):
    learner = HardTrees(make(), sharpness=3.0, n_alternations=2)
    again = loads(dumps(SoftBoostRegressor(weak_learner=learner))).weak_learner
    assert type(again.estimator) is type(learner.estimator)
    assert (again.sharpness, again.n_alternations) == (3.0, 2)
    X, y = make_data()
    assert_array_equal(boosted(again, 2).fit(X, y).predict(X), boosted(learner, 2).fit(X, y).predict(X))


def test_descriptions_build_nothing_but_trees():
    with pytest.raises(ValueError, match="which softboost does not support"):
        tree_libraries.from_description({"library": "tree", "class": "export_text", "params": {}})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"weak_learner": "forest"}, "weak_learner='forest' is not valid; choose 'soft', 'lightgbm'"),
        ({"weak_learner": DecisionTreeClassifier()}, r"weak_learner=DecisionTreeClassifier\(\) is not valid"),
        (
            {"weak_learner": HardTrees(DecisionTreeRegressor(), sharpness=0)},
            "sharpness of HardTrees must be positive, got 0",
        ),
        (
            {"weak_learner": HardTrees(DecisionTreeRegressor(), n_alternations=0)},
            "n_alternations of HardTrees must be an integer",
        ),
        ({"weak_learner": DecisionTreeRegressor(), "leaves": "linear"}, "leaves='linear' is for soft trees only"),
        ({"weak_learner": DecisionTreeRegressor(), "gates": "random"}, "gates='random' is for soft trees only"),
        ({"weak_learner": DecisionTreeRegressor(), "ridge": 1.0}, "ridge=1.0 is for soft trees only"),
    ],
)
def test_settings_that_cannot_work_are_named(params, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        SoftBoostRegressor(**params).fit(X, y)


@pytest.mark.parametrize(
    ("make", "params", "message"),
    [
        (lightgbm, {"objective": "mae"}, "weak_learner has objective='mae', .* set loss= there"),
        (lightgbm, {"linear_tree": True}, "linear_tree=True, .* use weak_learner='soft'"),
        (xgboost, {"objective": "reg:absoluteerror"}, "weak_learner has objective='reg:absoluteerror'"),
        (xgboost, {"booster": "gblinear"}, "booster='gblinear', which does not use trees"),
        (catboost, {"loss_function": "MAE"}, "weak_learner has loss_function='MAE'"),
    ],
)
def test_settings_of_a_library_that_cannot_work_are_named(make, params, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        SoftBoostRegressor(weak_learner=make(**params)).fit(X, y)


def test_missing_library_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    X, y = make_data()
    with pytest.raises(ImportError, match="needs the package xgboost, which is not installed; pip install xgboost"):
        SoftBoostRegressor(weak_learner="xgboost").fit(X, y)
    assert set(LIBRARIES) == {"lightgbm", "xgboost", "catboost", "tree"}


CHECKED = {
    "lightgbm": lambda: lightgbm(min_child_samples=1),
    "xgboost with Q": xgboost,
    "catboost": catboost,
    "decision tree with Q": ESTIMATORS["decision tree"],
}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.filterwarnings("ignore")  # estimator checks warn about what they skip
def test_scikit_learn_checks(name):
    transform = Linear(n_steps=2) if name.endswith("Q") else None
    weak_learner = CHECKED[name]()
    estimator = SoftBoostRegressor(3, 0.5, feature_transform=transform, weak_learner=weak_learner, random_state=0)
    check_estimator(estimator, on_skip=None)
