"""Transforms written in PyTorch: their gradients, windows and seeds, and models that use them."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from helpers import SlowLinear, make_data, plain
from softboost import SoftBoostRegressor, load, transforms
from softboost._boost.gradient import GradientTrees, NoisyTrees
from softboost._boost.learner import TrainingData

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from softboost.transforms import TorchTransform, cnn, lstm, mlp, rnn  # noqa: E402
from softboost.transforms._torch_recurrence import Recurrence  # noqa: E402

N_FEATURES = 6
WINDOWS = {"first": [2, 1, 0], "second": [5, 4, 3]}


def own_module(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(N_FEATURES, 5), nn.Tanh(), nn.Linear(5, 2))


MAKERS = {
    "mlp": mlp,
    "deep mlp": lambda **p: mlp(hidden=(4, 3), activation="gelu", **p),
    "rnn": rnn,
    "lstm": lambda **p: lstm(windows=WINDOWS, **p),
    "deep lstm": lambda **p: lstm(n_layers=2, n_hidden=3, **p),
    "cnn": lambda **p: cnn(windows=WINDOWS, **p),
    "deep cnn": lambda **p: cnn(n_layers=2, **p),
    "dropped mlp": lambda **p: mlp(rest="drop", **p),
    "dropped lstm": lambda **p: lstm(windows=WINDOWS, rest="drop", **p),
    "appended": lambda **p: lstm(windows=[[2, 1, 0]], rest="append", **p),
    "own module": lambda **p: TorchTransform(own_module(), **p),
    "own callable": lambda **p: TorchTransform(lambda size: nn.Linear(size, 3), **p),
}
PICKLABLE = [name for name in MAKERS if name != "own callable"]  # a lambda is not


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).normal(size=(20, N_FEATURES))


def started(transform, X, seed=0):
    return transform.start(X, np.zeros((len(X), 1)), np.random.default_rng(seed))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("in_training", [False, True], ids=["prediction", "training"])
def test_pullback_is_the_derivative(make, in_training, X):
    transform = make()
    transform.check(N_FEATURES)
    theta = started(transform, X)
    theta = theta + 0.1 * np.random.default_rng(4).normal(size=theta.shape)  # the learned part is not zero
    used = transform.training(np.random.default_rng(1)) if in_training else transform
    z = used.apply(theta, X)
    grad_z = np.random.default_rng(2).normal(size=z.shape)
    gradient = used.pullback(theta, X, grad_z)

    def value(t):
        return float((transform.apply(t, X) * grad_z).sum())

    step = 1e-5
    numeric = [(value(theta + step * e) - value(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
    tolerance = 1e-4 if in_training and transform.rest == "keep" else 1e-6  # single precision
    assert_allclose(gradient, numeric, rtol=tolerance, atol=tolerance)


def test_linear_module_learns_what_linear_learns():
    """A layer without bias, started at the identity, is the paper's Q."""
    X, y = make_data(n_features=N_FEATURES)
    layer = nn.Linear(N_FEATURES, N_FEATURES, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(N_FEATURES))
    ours = plain(feature_transform=TorchTransform(layer, rest="drop", weight_decay=0.0, learning_rate=0.02)).fit(X, y)
    paper = plain(feature_transform=SlowLinear()).fit(X, y)
    assert_allclose(ours.transforms_[-1].reshape(N_FEATURES, -1), paper.transforms_[-1], rtol=1e-6, atol=1e-8)
    assert_allclose(ours.predict(X), paper.predict(X), rtol=1e-6)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("last_only", [False, True])
def test_recurrence_is_that_of_torch(kind, n_layers, last_only):
    torch.manual_seed(0)
    own = Recurrence(kind, 2, 5, n_layers, 0.0, last_only).double()
    x = torch.randn(7, 6, 2, dtype=torch.float64, requires_grad=True)
    states, expected = own(x), own.cell(x.transpose(0, 1))[0]
    expected = expected[-1] if last_only else torch.cat([expected.mean(dim=0), expected[-1]], dim=1)
    torch.testing.assert_close(states, expected)
    upstream = torch.randn_like(states)
    wanted = [x, *own.parameters()]
    for got, gradient in zip(
        torch.autograd.grad(states, wanted, upstream), torch.autograd.grad(expected, wanted, upstream), strict=True
    ):
        torch.testing.assert_close(got, gradient)


def test_recipes_start_at_unit_scale(X):
    for transform in (make(rest="drop") for make in (mlp, rnn, lstm, cnn)):
        z = transform.apply(started(transform, X), np.random.default_rng(3).normal(size=(2000, N_FEATURES)))
        assert np.all(np.abs(z.mean(axis=0)) < 0.3)
        assert np.all((z.std(axis=0) > 0.8) & (z.std(axis=0) < 1.25))


@pytest.mark.parametrize("name", [name for name in MAKERS if "dropped" not in name and name != "appended"])
def test_z_starts_as_the_columns_themselves(name, X):
    transform = MAKERS[name]()
    z = transform.apply(started(transform, X), X)
    assert transform.starts_at_identity(N_FEATURES)
    assert_array_equal(z[:, :N_FEATURES], X)
    assert_array_equal(z[:, N_FEATURES:], 0.0)
    assert z.shape[1] > N_FEATURES


class Remembering(nn.Module):
    """Keeps what it was given last, and returns the newest step."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return self.scale * x[:, -1]

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("windows", [WINDOWS, list(WINDOWS.values())], ids=["dict", "lists"])
def test_module_is_given_steps_and_channels(windows, X):
    module = Remembering()
    z = TorchTransform(module, windows=windows, rest="drop").apply(np.ones(1), X)
    expected = np.stack([X[:, [2, 1, 0]], X[:, [5, 4, 3]]], axis=2)
    assert_array_equal(module.seen[-1].numpy(), expected)
    assert_array_equal(z, X[:, [0, 3]])


def test_columns_in_no_window_can_join_z(X):
    appended = TorchTransform(Remembering(), windows=[[1, 0]], rest="append")
    assert_array_equal(appended.apply(np.ones(1), X), X[:, [0, 2, 3, 4, 5]])


def test_windows_by_name_are_those_by_number():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = make_data(n_features=N_FEATURES)
    frame = pd.DataFrame(X, columns=[f"lag{i}" for i in range(1, 7)])
    named = plain(feature_transform=lstm(n_steps=4, windows={"y": ["lag3", "lag2", "lag1"]}), random_state=0)
    numbered = plain(feature_transform=lstm(n_steps=4, windows=[[2, 1, 0]]), random_state=0)
    assert_array_equal(named.fit(frame, y).predict(frame), numbered.fit(X, y).predict(X))
    assert named.feature_transform.windows == {"y": ["lag3", "lag2", "lag1"]}
    with pytest.raises(ValueError, match="contains the column 'lag3', but X has no column names"):
        named.fit(X, y)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (mlp(weight_decay=-1), "weight_decay must not be negative, got -1"),
        (mlp(learning_rate=0.0), "learning_rate must be positive, got 0.0"),
        (mlp(activation="sine"), "activation='sine' is not valid"),
        (lstm(rest="some"), "rest must be 'keep', 'append' or 'drop', got 'some'"),
        (mlp(batch_size=0), "batch_size must be None or an integer of at least 1, got 0"),
        (lstm(windows=[[0, 1], [2]]), "the same number of columns for each variable"),
        (lstm(windows=[[0, 9]]), "windows contains .*9.*; use column indices from 0 to 5"),
        (TorchTransform("mlp"), "module must be a torch.nn.Module or build one, got 'mlp'"),
        (TorchTransform(nn.Linear(3, 2)), r"module fails on input of shape \(n_samples, \*\(6,\)\)"),
        (TorchTransform(nn.Flatten(0)), r"must return a tensor \(n_samples, n_components\), got \(12,\)"),
        (TorchTransform(nn.BatchNorm1d(N_FEATURES)), "BatchNorm1d has statistics that are not weights"),
    ],
)
def test_settings_that_cannot_work_are_named(transform, message):
    X, y = make_data(n_features=N_FEATURES)
    with pytest.raises(ValueError, match=message):
        SoftBoostRegressor(feature_transform=transform).fit(X, y)


def test_dropout_is_on_in_training_only(X):
    transform = mlp(dropout=0.5, rest="drop")
    theta = started(transform, X)
    assert_array_equal(transform.apply(theta, X), transform.apply(theta, X))
    training = transform.training(np.random.default_rng(0))
    first, second = training.apply(theta, X), training.apply(theta, X)
    assert np.abs(first - second).max() > 0.1
    again = transform.training(np.random.default_rng(0))
    assert_array_equal(again.apply(theta, X), first)
    # a unit that is left out passes no gradient on: the gradient belongs to the same draw as z
    gradient = again.pullback(theta, X, np.ones_like(first))
    assert np.abs(gradient - transform.pullback(theta, X, np.ones_like(first))).max() > 1e-3


def test_noise_is_off_once_the_steps_are_done(X):
    target = np.random.default_rng(1).normal(size=(1, len(X)))
    data = TrainingData(np.ascontiguousarray(X.T), None)
    transform = mlp(dropout=0.5, n_steps=5, rest="drop")
    learner = NoisyTrees(depth=1, leaves="linear", gates="greedy", solve_leaves=True)
    fitted = learner.fit(data, target, transform, started(transform, X), np.random.default_rng(0))
    z = np.ascontiguousarray(transform.apply(fitted.theta, X).T)
    assert_array_equal(fitted.output, fitted.tree.output(z))


@pytest.mark.parametrize("solve_leaves", [False, True])
def test_noisy_trees_without_noise_are_gradient_trees(solve_leaves, X):
    target = np.random.default_rng(1).normal(size=(2, len(X)))
    data = TrainingData(np.ascontiguousarray(X.T), np.linspace(0.5, 2, len(X)))
    settings = {"depth": 2, "leaves": "linear", "gates": "greedy", "solve_leaves": solve_leaves}
    transform = mlp(n_steps=6, rest="drop")
    theta = started(transform, X)
    plain_fit = GradientTrees(**settings).fit(data, target, transform, theta, np.random.default_rng(0))
    noisy_fit = NoisyTrees(**settings).fit(data, target, transform, theta, np.random.default_rng(0))
    assert_allclose(noisy_fit.theta, plain_fit.theta, rtol=1e-10)
    assert_allclose(noisy_fit.output, plain_fit.output, rtol=1e-8, atol=1e-12)


def test_convolutions_see_whether_a_shape_occurs():
    """The largest agreement with a shape, anywhere in the window, is no function of means over the window."""
    X = np.random.default_rng(1).normal(size=(700, 24))
    y = np.max([X[:, i : i + 3] @ [-1.0, 2.0, -1.0] for i in range(22)], axis=0)
    without, network = (
        plain(n_estimators=20, feature_transform=transform, random_state=0).fit(X[:400], y[:400])
        for transform in (None, cnn())
    )
    error = [np.mean((model.predict(X[400:]) - y[400:]) ** 2) for model in (without, network)]
    assert error[1] < 0.5 * error[0]


def test_weight_decay_shrinks_the_weights():
    X, y = make_data(n_features=N_FEATURES)
    sizes = []
    for weight_decay in (0.0, 1.0, 10.0):
        model = plain(feature_transform=mlp(weight_decay=weight_decay, rest="drop"), random_state=0).fit(X, y)
        sizes.append(np.abs(model.transforms_[-1]).mean())
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * sizes[2]


def test_weights_carry_over_rounds_and_move_in_each():
    X, y = make_data(n_features=N_FEATURES)
    model = plain(feature_transform=mlp(learning_rate=0.01, rest="drop"), random_state=0).fit(X, y)
    moves = [np.abs(a - b).max() for a, b in zip(model.transforms_[1:], model.transforms_[:-1], strict=True)]
    assert len(moves) == 7
    assert all(0 < move < 0.41 for move in moves)  # 40 steps of at most 0.01 each from where the round before ended


def test_seed_decides_everything():
    X, y = make_data(n_features=N_FEATURES)
    state = torch.random.get_rng_state()
    make = {"n_estimators": 3, "learning_rate": 0.5, "feature_transform": mlp(dropout=0.3, n_steps=5, rest="drop")}
    first = SoftBoostRegressor(**make, random_state=0).fit(X, y).predict(X)
    torch.rand(3)  # what else draws from the global generator does not matter
    torch.random.set_rng_state(state)
    assert_array_equal(SoftBoostRegressor(**make, random_state=0).fit(X, y).predict(X), first)
    assert np.abs(SoftBoostRegressor(**make, random_state=1).fit(X, y).predict(X) - first).max() > 1e-3
    assert_array_equal(torch.random.get_rng_state(), state)


def test_threads_do_not_matter():
    X, y = make_data(n_features=N_FEATURES)
    model = SoftBoostRegressor(learning_rate=0.5, feature_transform=mlp(dropout=0.3, n_steps=5), random_state=0)
    one, two = clone(model).fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(one.predict(X), two.predict(X))


def test_module_passed_in_is_left_alone():
    X, y = make_data(n_features=N_FEATURES)
    module = own_module()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    plain(feature_transform=TorchTransform(module)).fit(X, y)
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("name", PICKLABLE)
def test_model_pickles_clones_and_repeats(name):
    X, y = make_data(n_features=N_FEATURES)
    model = plain(n_estimators=2, feature_transform=MAKERS[name](n_steps=3), random_state=0).fit(X, y)
    expected = model.predict(X)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    assert_array_equal(clone(model).fit(X, y).predict(X), expected)
    assert_allclose(list(model.staged_predict(X))[-1], expected)
    assert model.feature_importances_.shape == (N_FEATURES,)
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_grid_search_reaches_into_the_module():
    X, y = make_data(n_features=N_FEATURES)
    grid = {"feature_transform__module__hidden": [(2,), (8,)], "feature_transform__n_steps": [2, 20]}
    search = GridSearchCV(plain(n_estimators=3, feature_transform=mlp(rest="drop"), random_state=0), grid, cv=2).fit(
        X, y
    )
    scores = search.cv_results_["mean_test_score"]
    assert len(np.unique(scores.round(6))) == 4
    assert search.best_params_["feature_transform__n_steps"] == 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_either_precision_works_and_stays(dtype):
    X, y = make_data(n_features=N_FEATURES)
    model = plain(n_estimators=3, feature_transform=mlp(), random_state=0).fit(X.astype(dtype), y)
    assert model.transforms_[0].dtype == dtype
    assert model.predict(X.astype(dtype)).dtype == dtype
    assert_allclose(model.predict(X.astype(np.float32)), model.predict(X), rtol=1e-3, atol=1e-3)


def test_saved_parameters_rebuild_networks_but_no_modules(X):
    for name, make in MAKERS.items():
        transform = make(weight_decay=0.5)
        params = json.loads(json.dumps(transform.saved_params()))
        if name.startswith("own"):
            assert params["module"] is None
            continue
        rebuilt = TorchTransform.from_saved_params(params)
        theta = started(transform, X)
        assert_array_equal(rebuilt.apply(theta, X), transform.apply(theta, X))
        assert rebuilt.weight_decay == 0.5


@pytest.mark.parametrize("name", MAKERS)
def test_model_goes_through_a_file(name, tmp_path):
    """Weights as arrays, recipes as numbers; code of the user's own has to be passed again."""
    X, y = make_data(n_features=N_FEATURES)
    transform = MAKERS[name](n_steps=3)
    model = plain(n_estimators=2, feature_transform=transform, random_state=0).fit(X, y)
    path = tmp_path / "model.softboost"
    model.save(path)
    assert b"transforms._torch" not in path.read_bytes()
    custom = {"TorchTransform": transform} if name.startswith("own") else None
    assert_array_equal(load(path, custom).predict(X), model.predict(X))


@pytest.mark.parametrize("make", [mlp, lstm, *(pytest.param(make, marks=pytest.mark.slow) for make in (rnn, cnn))])
@pytest.mark.filterwarnings("ignore")  # estimator checks warn about what they skip
def test_scikit_learn_checks(make):
    check_estimator(
        SoftBoostRegressor(2, 0.5, feature_transform=make(n_steps=3), init="linear", random_state=0), on_skip=None
    )


def in_new_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_softboost_leaves_torch_alone():
    code = "import sys, softboost.transforms, softboost.presets; sys.exit('torch' in sys.modules)"
    assert in_new_process(code).returncode == 0


def test_without_torch_the_error_is_one_line_with_the_command():
    code = """
import sys
import softboost.transforms
sys.modules["torch"] = None
for name in ("TorchTransform", "mlp"):
    try:
        getattr(softboost.transforms, name)
    except ImportError as error:
        print(error, file=sys.stderr)
"""
    result = in_new_process(code)
    assert result.stderr.splitlines() == [
        f"softboost.transforms.{name} needs PyTorch, which is not installed; pip install 'softboost[torch]'"
        for name in ("TorchTransform", "mlp")
    ]


def test_unknown_names_of_the_module_stay_unknown():
    with pytest.raises(AttributeError, match="has no attribute 'transformer'"):
        transforms.transformer  # noqa: B018
    assert {"TorchTransform", "mlp", "Linear"} <= set(dir(transforms))


# -- in a forecaster ---------------------------------------------------------------------------------------------------


def forecast_with(transform, lags, **settings):
    from softboost.forecast import Forecaster

    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    t = np.arange(80)
    y = 10 + np.sin(t / 3) + 0.05 * np.random.default_rng(0).normal(size=80)
    df = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2015-01-01", periods=80, freq="MS"), "y": y})
    model = SoftBoostRegressor(4, 0.5, feature_transform=transform, random_state=0)
    forecaster = Forecaster("MS", 3, model, lags=lags, date_features=["month"], scope="local", **settings).fit(df)
    (learned,) = forecaster.fitted_.models
    return forecaster.predict(), learned.models[0].members_[0].boosted.recipe.transform


@pytest.mark.parametrize(("make", "strategy"), [(rnn, "recursive"), (lstm, "direct"), (cnn, "recursive")])
def test_forecaster_hands_its_lags_over_as_a_window(make, strategy):
    got, transform = forecast_with(
        make(n_components=2, n_steps=5), [1, 3, 2], target_transforms=None, strategy=strategy
    )
    assert transform.windows == [[1, 2, 0]]  # lags 3, 2, 1
    assert np.isfinite(got.iloc[:, -1]).all()


def test_forecaster_keeps_to_windows_that_are_stated():
    named, transform = forecast_with(
        lstm(n_components=2, n_steps=5, windows={"y": ["lag2", "lag1"]}), [1, 2, 3], target_transforms=None
    )
    assert transform.windows == [[1, 0]]
    numbered, _ = forecast_with(lstm(n_components=2, n_steps=5, windows=[[1, 0]]), [1, 2, 3], target_transforms=None)
    assert_array_equal(named.iloc[:, -1], numbered.iloc[:, -1])
    _, transform = forecast_with(mlp(n_components=2, n_steps=5), [1, 2], target_transforms=None)
    assert transform.windows is None  # no memory, no window


def test_networks_use_one_thread_and_restore_the_number():
    seen = []

    class Recorded(nn.Linear):
        def forward(self, x):
            seen.append(torch.get_num_threads())
            return super().forward(x)

    X, y = make_data()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        transform = TorchTransform(Recorded(X.shape[1], 2), n_steps=3)
        plain(n_estimators=2, feature_transform=transform, random_state=0).fit(X, y).predict(X)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen[-6:]) == {1}  # the module is also called to find the size of its output
