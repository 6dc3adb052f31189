"""Losses of the compiled kernels against the classes in NumPy."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost import _kernels
from softboost._boost.boosting import KernelRounds, Part, Recipe, _refit_in_python, _refit_leaves, boost
from softboost._boost.greedy import GreedyTrees
from softboost._boost.kernel_loss import intercepts, kernel_loss
from softboost._boost.learner import TrainingData
from softboost._boost.soft_tree import SoftTree
from softboost.losses import LOSSES, AbsoluteError, Gamma, Huber, LogCosh, Poisson, Quantile, SquaredError, Tweedie


def rows(n_samples, n_columns, n_outputs, weighted):
    """Columns, positive targets and weights."""
    rng = np.random.default_rng(n_samples)
    columns = rng.normal(size=(n_columns, n_samples))
    y = np.exp(0.5 * np.sign(columns[0]) + 0.3 * rng.normal(size=(n_outputs, n_samples)))
    return columns, y, rng.integers(1, 4, size=n_samples).astype(float) if weighted else None


ALL_LOSSES = {
    "squared": SquaredError(),
    "absolute": AbsoluteError(),
    "quantile": Quantile(0.8),
    "huber": Huber(0.7),
    "log_cosh": LogCosh(0.6),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(1.3),
}


@pytest.mark.parametrize("name", ALL_LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_the_kernel_are_those_in_python(name, weighted):
    """Gradients, and leaves that minimise the loss, against the classes in NumPy."""
    loss, settings = ALL_LOSSES[name], kernel_loss(ALL_LOSSES[name])
    assert settings.kind.name == name
    z, y, weight = rows(700, 2, 2, weighted)
    raw = np.random.default_rng(1).normal(scale=0.3, size=y.shape)
    assert_allclose(_kernels.negative_gradient(settings, y, raw), -loss.gradient(y, raw), rtol=1e-12, atol=1e-12)
    tree = SoftTree(1, np.arange(2), np.array([[2.0, -1.0]]), np.array([0.3]), np.zeros((2, 2)), np.zeros((2, 2, 2)))
    part = Part(TrainingData(z, weight), y, raw)
    expected, output = _refit_in_python(tree, z, part, loss)
    values, slopes, got = _kernels.refit_leaves(
        settings, z, 1, tree.gate_weights, tree.gate_bias, True, y, raw, weight, n_threads=2
    )
    assert_allclose(got, output, atol=1e-7)
    assert_allclose(values, expected.leaf_values, atol=1e-6)
    assert_allclose(slopes, expected.leaf_weights, atol=1e-6)
    refitted, same = _refit_leaves(tree, None, part, loss)
    assert_array_equal(same, got)
    assert_array_equal(refitted.leaf_values, values)


@pytest.mark.parametrize("name", ["absolute", "quantile", "huber", "log_cosh"])
@pytest.mark.parametrize("weighted", [False, True])
def test_constants_of_the_kernel_minimise_the_loss(name, weighted):
    loss = ALL_LOSSES[name]
    rng = np.random.default_rng(2)
    y = np.vstack([rng.standard_t(2, size=(5, 41)), np.full((1, 41), 3.0), np.r_[np.zeros(20), np.full(21, 2.0)][None]])
    weight = rng.integers(1, 4, size=41).astype(float) if weighted else None
    expected = [loss.fit_intercept_only(row, weight) for row in y]
    assert_allclose(intercepts(loss, y, weight), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["quantile", "huber", "poisson"])
def test_boosting_in_the_kernel_is_the_loop_in_python_for_every_loss(name):
    columns, y, weight = rows(90, 4, 1, True)
    recipe = Recipe("", GreedyTrees(depth=2), None, 5, 0.3)
    run = functools.partial(boost, recipe, columns, y, weight, ALL_LOSSES[name], np.zeros_like(y))
    one, other = run(), run(after_round=lambda model: False)
    assert isinstance(one.rounds, KernelRounds)
    assert not isinstance(other.rounds, KernelRounds)
    assert_array_equal(one.outputs(columns), other.outputs(columns))


def test_every_loss_by_name_is_known_to_the_kernels():
    assert {type(loss) for loss in ALL_LOSSES.values()} == set(LOSSES.values())


def test_a_subclass_is_not_taken_for_its_parent():
    class Other(Huber):
        def gradient(self, y_true, raw_prediction):
            return 2 * super().gradient(y_true, raw_prediction)

    assert kernel_loss(Other()) is None
    assert kernel_loss(Huber()).parameter == 1.0


def test_predictions_of_another_shape_are_refused():
    y, settings = np.ones((1, 5)), kernel_loss(Huber())
    with pytest.raises(ValueError, match=r"raw_prediction must have shape \(1, 5\), got \(1, 4\)"):
        _kernels.negative_gradient(settings, y, y[:, :4])
    with pytest.raises(ValueError, match=r"raw_prediction must have shape \(1, 5\), got \(1, 4\)"):
        _kernels.refit_leaves(settings, y, 1, np.ones((1, 1)), np.ones(1), False, y, y[:, :4], None)
    with pytest.raises(ValueError, match=r"weight has shape \(4,\), expected \(5,\)"):
        _kernels.loss_intercepts(settings, y, np.ones(4))
