"""Every loss of the registry: gradients, curvature, intercepts, units, and the fitted statistic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import helpers
from softboost import SoftBoostRegressor, losses
from softboost.losses import LOSSES, FunctionLoss, Huber, Loss, Quantile, Tweedie, make_loss
from softboost.presets import bsdt

each_loss = pytest.mark.parametrize("loss", helpers.LOSS_TABLE)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-4), (np.float64, 1e-8)])
@each_loss
def test_gradient_matches_finite_differences(loss, dtype, rtol):
    y, raw = helpers.target_for(loss, 40), np.random.default_rng(1).normal(size=40)
    turn = getattr(loss, "delta", None) or 1.0
    smooth = (np.abs(y - raw) > 1e-2) & (np.abs(np.abs(y - raw) - turn) > 1e-2)
    y, raw = y[smooth], raw[smooth]
    assert len(y) > 20
    h = 1e-4
    numeric = (
        loss.loss(y, raw - 2 * h) - 8 * loss.loss(y, raw - h) + 8 * loss.loss(y, raw + h) - loss.loss(y, raw + 2 * h)
    ) / (12 * h)
    got = loss.gradient(y.astype(dtype), raw.astype(dtype))
    assert_allclose(got, numeric, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@each_loss
def test_gradient_matches_autograd(loss, dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    y, raw = helpers.target_for(loss, 40), np.random.default_rng(2).normal(size=40)
    y, raw = y.astype(dtype), raw.astype(dtype)
    f = torch.tensor(raw, requires_grad=True)
    value = torch_loss(torch, loss, torch.tensor(y), f)
    value.sum().backward()
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    assert_allclose(loss.loss(y, raw), value.detach().numpy(), rtol=tolerance, atol=tolerance)
    assert_allclose(loss.gradient(y, raw), f.grad.numpy(), rtol=tolerance, atol=tolerance)


def torch_loss(torch, loss, y, f):
    """The textbook formula of each loss, in torch."""
    if isinstance(loss, losses.FunctionLoss):
        return helpers.quartic(y, f)
    formulas = {
        "squared_error": lambda: 0.5 * (y - f) ** 2,
        "absolute_error": lambda: (y - f).abs(),
        "quantile": lambda: torch.where(y >= f, loss.quantile * (y - f), (1 - loss.quantile) * (f - y)),
        "huber": lambda: torch.nn.functional.huber_loss(f, y, reduction="none", delta=loss.delta or 1.0),
        "log_cosh": lambda: (loss.scale or 1.0) ** 2 * torch.log(torch.cosh((y - f) / (loss.scale or 1.0))),
        "poisson": lambda: torch.exp(f) - y * f + y * torch.log(y) - y,
        "gamma": lambda: y / torch.exp(f) - torch.log(y / torch.exp(f)) - 1,
        "tweedie": lambda: (
            y ** (2 - loss.power) / ((1 - loss.power) * (2 - loss.power))
            - y * torch.exp((1 - loss.power) * f) / (1 - loss.power)
            + torch.exp((2 - loss.power) * f) / (2 - loss.power)
        ),
    }
    if loss.name not in formulas:
        pytest.skip(f"no textbook formula for {loss.name} is written down here")
    return formulas[loss.name]()


@each_loss
def test_loss_is_least_where_gradient_vanishes_and_curvature_is_positive(loss):
    y = helpers.target_for(loss)
    raw = np.random.default_rng(3).normal(size=len(y))
    assert np.all(loss.curvature(y, raw) > 0)
    # a damped Newton step with gradient and curvature lowers the loss of each element
    stepped = raw - 0.5 * loss.gradient(y, raw) / loss.curvature(y, raw)
    if loss.refit_leaves:
        assert np.all(loss.loss(y, stepped) <= loss.loss(y, raw) + 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@each_loss
def test_intercept_has_least_loss_of_all_constants(loss, weighted):
    y = helpers.target_for(loss)
    weight = np.random.default_rng(4).integers(0, 4, size=len(y)).astype(float) if weighted else None
    best = loss.fit_intercept_only(y, weight)

    def mean_loss(constant):
        return np.average(loss.loss(y, np.full_like(y, constant)), weights=weight)

    around = [mean_loss(best + shift) for shift in (-0.3, -0.03, -0.003, 0.003, 0.03, 0.3)]
    assert mean_loss(best) <= min(around) + 1e-9


@each_loss
def test_intercept_counts_a_weight_of_two_as_the_row_twice(loss):
    y = helpers.target_for(loss)
    weight = np.random.default_rng(5).integers(0, 4, size=len(y))
    repeated = np.repeat(y, weight)
    assert_allclose(
        loss.fit_intercept_only(y, weight.astype(float)), loss.fit_intercept_only(repeated, None), atol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("loss", [row for row in helpers.LOSS_TABLE if row.values[0].scales_with_y])
def test_rescaled_loss_orders_predictions_as_the_loss_itself(loss, scale):
    y = 2.0 * scale * helpers.target_for(loss)
    own, working = loss.rescaled(y, 1.0), loss.rescaled(y, 2.0 * scale)
    raw = 2.0 * scale * np.random.default_rng(6).normal(size=(10, len(y)))
    a, b = own.loss(y, raw).mean(axis=1), working.loss(y / (2 * scale), raw / (2 * scale)).mean(axis=1)
    assert_array_equal(np.argsort(a), np.argsort(b))


@each_loss
@given(value=st.floats(-1e6, 1e6), raw=st.floats(-1e6, 1e6))
def test_loss_and_gradient_are_finite(loss, value, raw):
    y = np.array([abs(value) + 1e-3 if not loss.scales_with_y and not isinstance(loss, FunctionLoss) else value])
    for array in (loss.loss(y, np.array([raw])), loss.gradient(y, np.array([raw])), loss.curvature(y, np.array([raw]))):
        assert np.all(np.isfinite(array))


def test_registry_names_are_those_of_the_classes():
    assert set(LOSSES) == {
        "squared_error", "absolute_error", "huber", "quantile", "log_cosh", "poisson", "gamma", "tweedie"
    }  # fmt: skip
    for name, cls in LOSSES.items():
        assert cls.name == name
        assert isinstance(make_loss(name), cls)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(1.0), "quantile must be strictly between 0 and 1, got 1.0"),
        (lambda: Huber(0), "delta must be positive, got 0"),
        (lambda: losses.LogCosh(-1.0), "scale must be positive, got -1.0"),
        (lambda: Tweedie(2.5), "power must be strictly between 1 and 2, got 2.5"),
        (lambda: make_loss("mse"), "loss='mse' is not valid; choose one of"),
        (lambda: make_loss(3), "loss=3 is not valid; pass a name"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- what each loss learns ---------------------------------------------------------------------------------------------

EACH_WAY = [pytest.param({"cv": 2}, id="default"), pytest.param(helpers.PLAIN | {"n_estimators": 30}, id="plain")]
each_way = pytest.mark.parametrize("params", EACH_WAY)


def spread_data(n=400, seed=0):
    """y whose spread grows with the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, X[:, 0] + (1.2 + X[:, 0]) * rng.normal(size=n)


@each_way
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantile_loss_covers_its_share(params, quantile):
    X, y = spread_data()
    X_new, y_new = spread_data(seed=1)
    model = SoftBoostRegressor(loss=Quantile(quantile), **params).fit(X, y)
    assert np.mean(y_new <= model.predict(X_new)) == pytest.approx(quantile, abs=0.08)


@each_way
def test_quantiles_widen_where_the_spread_does(params):
    X, y = spread_data()
    low, high = (SoftBoostRegressor(loss=Quantile(q), **params).fit(X, y) for q in (0.1, 0.9))
    ends = np.array([[-0.9, 0.0, 0.0], [0.9, 0.0, 0.0]])
    width = high.predict(ends) - low.predict(ends)
    assert width[1] > 2 * width[0] > 0


@each_way
@pytest.mark.parametrize("loss", ["absolute_error", "huber", "log_cosh"])
def test_robust_losses_shrug_off_outliers(params, loss):
    X, y = helpers.make_data(200, noise=0.1)
    rng = np.random.default_rng(1)
    wild = y + np.where(rng.random(len(y)) < 0.08, 60.0, 0.0)
    X_new, y_new = helpers.make_data(200, noise=0.0, seed=9)
    error = {
        name: np.mean(np.abs(SoftBoostRegressor(loss=name, **params).fit(X, wild).predict(X_new) - y_new))
        for name in ("squared_error", loss)
    }
    assert error[loss] < 0.5 * error["squared_error"]


@each_way
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_losses_of_positive_means_predict_positive_means(params, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    mean = np.exp(0.8 * X[:, 0] - 0.4 * X[:, 1] + 1)
    y = rng.poisson(mean) * 1.0 if loss != "gamma" else rng.gamma(3.0, mean / 3.0)
    model = SoftBoostRegressor(loss=loss, **params).fit(X, y)
    prediction = model.predict(X)
    assert np.all(prediction > 0)
    assert np.mean(np.abs(np.log(prediction) - np.log(mean))) < 0.35
    far = model.predict(100 * X)
    assert np.all(far > 0)
    assert np.all(np.isfinite(far))


@each_way
def test_squared_error_predicts_the_mean_of_constant_columns(params):
    y = np.random.default_rng(0).normal(size=40)
    model = SoftBoostRegressor(**params).fit(np.ones((40, 2)), y)
    assert_allclose(model.predict(np.ones((3, 2))), y.mean(), atol=1e-8)


class Cauchy:
    """A custom loss: any object with these two methods."""

    def loss(self, y_true, raw_prediction):
        return np.log1p((y_true - raw_prediction) ** 2) / 2

    def gradient(self, y_true, raw_prediction):
        error = raw_prediction - y_true
        return error / (1 + error**2)


class Registered(Loss):
    """A custom subclass with a curvature."""

    scales_with_y = True

    def loss(self, y_true, raw_prediction):
        return 0.5 * (y_true - raw_prediction) ** 2

    def gradient(self, y_true, raw_prediction):
        return raw_prediction - y_true


@each_way
@pytest.mark.parametrize(
    "loss", [Cauchy(), Registered(), (helpers.quartic, helpers.quartic_gradient)], ids=["object", "subclass", "pair"]
)
def test_own_losses_are_learned(params, loss):
    X, y = helpers.make_data(150)
    model = SoftBoostRegressor(loss=loss, **params).fit(X, y)
    assert model.score(X, y) > 0.7


def test_own_subclass_of_squared_error_equals_squared_error():
    X, y = helpers.make_data()
    own = helpers.plain(loss=type("Own", (Registered,), {"refit_leaves": False})()).fit(X, y)
    assert_allclose(own.predict(X), helpers.plain().fit(X, y).predict(X), rtol=1e-10)


@pytest.mark.parametrize(("loss", "bad"), [("poisson", -1.0), ("tweedie", -1.0), ("gamma", 0.0)])
def test_targets_outside_a_loss_are_refused(loss, bad):
    X, y = helpers.make_data()
    y = np.abs(y) + 0.1
    y[3] = bad
    with pytest.raises(ValueError, match=f"loss='{loss}' needs y .* got {bad}"):
        SoftBoostRegressor(loss=loss).fit(X, y)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_all_zero_targets_are_refused(loss):
    with pytest.raises(ValueError, match="at least one positive y"):
        SoftBoostRegressor(loss=loss).fit(np.ones((5, 1)), np.zeros(5))


LOG_LINK = ["poisson", "gamma", "tweedie"]


@pytest.mark.parametrize("scale", [1e-90, 1e-36, 1e36, 1e90])
@pytest.mark.parametrize("loss", LOG_LINK)
def test_log_link_follows_y_of_any_size(loss, scale):
    X, y = helpers.make_data(100)
    y = np.exp(y)
    prediction = SoftBoostRegressor(loss=loss).fit(X, scale * y).predict(X)
    assert np.corrcoef(np.log(prediction), np.log(y))[0, 1] > 0.9
    assert_allclose(prediction / scale, SoftBoostRegressor(loss=loss).fit(X, y).predict(X), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "largest"), [(np.float64, 1e101), (np.float32, 1e31), (np.float64, 1e-101)])
@pytest.mark.parametrize("loss", LOG_LINK)
def test_log_link_refuses_y_that_its_exponential_cannot_reach(loss, dtype, largest):
    X, y = helpers.make_data(20)
    with pytest.raises(ValueError, match=f"loss='{loss}' needs the largest y between .* divide y by a constant"):
        SoftBoostRegressor(loss=loss).fit(X.astype(dtype), np.exp(y) * (largest / np.exp(y).max()))


@pytest.mark.parametrize("scale", [1e-30, 1e36])
@pytest.mark.parametrize("loss", LOG_LINK)
def test_log_link_refuses_y_that_trees_cannot_reach_from_zero(loss, scale):
    X, y = helpers.make_data(60)
    y = np.exp(0.3 * y)
    with pytest.raises(
        ValueError, match=f"init='zero' with loss='{loss}' starts at a prediction of 1, too far from .*"
    ):
        bsdt(loss=loss).fit(X, scale * y)
    for near in (1e-6, 1e6):
        prediction = bsdt(loss=loss, random_state=0).fit(X, near * y).predict(X)
        assert np.median(np.abs(np.log(prediction / (near * y)))) < 0.1


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (Huber(), "Huber()"),
        (Huber(2.0, refit_leaves=False), "Huber(delta=2.0, refit_leaves=False)"),
        (Quantile(0.9), "Quantile(quantile=0.9)"),
        (Tweedie(), "Tweedie()"),
    ],
)
def test_losses_show_their_parameters(loss, text):
    assert repr(loss) == text
    assert repr(eval(text, vars(losses))) == text


@each_loss
def test_losses_are_cloned_with_their_parameters(loss):
    copied = clone(loss)
    assert copied is not loss
    assert type(copied) is type(loss)
    assert copied.get_params() == loss.get_params()
    assert vars(copied) == vars(loss)


def test_grid_search_reaches_the_parameters_of_a_loss():
    X, y = helpers.make_data(80)
    model = helpers.plain(n_estimators=3, loss=Quantile(0.5))
    search = GridSearchCV(model, {"loss__quantile": [0.02, 0.5]}, cv=2, scoring="neg_mean_absolute_error").fit(X, y)
    assert search.best_params_ == {"loss__quantile": 0.5}
    assert search.best_estimator_.loss.quantile == 0.5
    assert model.loss.quantile == 0.5  # candidates are copies


def test_wrong_parameters_of_a_loss_are_refused():
    loss = Huber(2.0)
    with pytest.raises(ValueError, match="delta must be positive, got -1"):
        loss.set_params(delta=-1)
    with pytest.raises(ValueError, match=r"Huber has no parameter 'scale'; it has \['delta', 'refit_leaves'\]"):
        loss.set_params(scale=1)
    assert loss.get_params() == {"delta": 2.0, "refit_leaves": True}


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda y, f: (f - y) * np.nan, "got NaN"),
        (lambda y, f: (f - y)[:5], r"shape of its arguments \(60,\), got .*5"),
    ],
)
@pytest.mark.parametrize("kind", ["default", "plain", "random gates"])
def test_mistakes_of_own_gradients_are_named(gradient, message, kind):
    X, y = helpers.make_data(60)
    with pytest.raises(ValueError, match=message):
        helpers.MODELS[kind](loss=(lambda y, f: (y - f) ** 2 / 2, gradient)).fit(X, y)
