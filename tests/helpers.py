"""Tables of all losses, transforms, weak learners and models for parametrised tests, and small data sets.

The tables are read from the registries of the package, so that a new row is tested without a change here.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from softboost import SoftBoostRegressor, _kernels
from softboost._boost.gradient import GradientTrees
from softboost._boost.greedy import GreedyTrees
from softboost.losses import LOSSES, FunctionLoss, Huber, LogCosh, Quantile, Tweedie
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import TRANSFORMS, Diagonal, Linear, Transform

DTYPES = [np.float32, np.float64]
PATIENCE = 600  # seconds after which another process or thread counts as hung, even on a busy machine


def quartic(y_true, raw_prediction):
    return (y_true - raw_prediction) ** 4 / 4


def quartic_gradient(y_true, raw_prediction):
    return (raw_prediction - y_true) ** 3


class Fourier(Transform):
    """A transform written in Python: cosines of learned frequencies."""

    def start(self, X, target, rng):
        return rng.normal(size=(3, X.shape[1]))

    def apply(self, theta, X):
        return np.cos(X @ theta.T)

    def pullback(self, theta, X, grad_z):
        return -(grad_z * np.sin(X @ theta.T)).T @ X


class SlowLinear(Linear):
    """Linear with the loop in Python instead of the kernel."""

    kernel_kind = None


class SlowDiagonal(Diagonal):
    kernel_kind = None


class FixedIdentity(Linear):
    """The identity z = x, never updated."""

    kernel_kind = None

    def pullback(self, theta, X, grad_z):
        return np.zeros_like(theta)


LOSS_TABLE = [
    *[pytest.param(cls(), id=name) for name, cls in LOSSES.items()],
    pytest.param(Quantile(0.9), id="quantile-0.9"),
    pytest.param(Huber(0.7), id="huber-0.7"),
    pytest.param(LogCosh(0.5), id="log_cosh-0.5"),
    pytest.param(Tweedie(1.2), id="tweedie-1.2"),
    pytest.param(FunctionLoss(quartic, quartic_gradient), id="pair of functions"),
]

TRANSFORM_TABLE = [
    *[pytest.param(cls(), id=name) for name, cls in TRANSFORMS.items()],
    pytest.param(Linear(n_components=2), id="rectangular"),
    pytest.param(Linear(2, "supervised", group_lasso=0.3), id="sparse supervised"),
    pytest.param(Fourier(), id="user's own"),
]

LEARNER_TABLE = [
    pytest.param(GreedyTrees(), id="greedy linear"),
    pytest.param(GreedyTrees(depth=3, leaves="constant"), id="greedy constant"),
    pytest.param(GreedyTrees(n_extra_columns=2, detrended_candidate=True), id="greedy detrended"),
    pytest.param(GradientTrees(), id="gradient"),
    pytest.param(GradientTrees(leaves="linear"), id="gradient linear"),
    pytest.param(GradientTrees(depth=1, leaves="linear", gates="greedy", solve_leaves=True), id="gradient solved"),
]

PLAIN = {
    "n_estimators": 8,
    "learning_rate": 0.3,
    "depth": 2,
    "leaves": "linear",
    "gates": "greedy",
    "init": "constant",
    "ridge": 1.0,
    "feature_transform": None,
}
"""All parameters set, so that fit is plain boosting."""


def plain(**params):
    return SoftBoostRegressor(**{**PLAIN, **params})


MODELS = {
    "default": lambda **p: SoftBoostRegressor(**p),
    "plain": plain,
    "constant leaves": lambda **p: plain(leaves="constant", **p),
    "random gates": lambda **p: plain(gates="random", leaves="constant", n_steps=20, random_state=0, **p),
    "solved random gates": lambda **p: plain(gates="random", n_steps=20, random_state=0, **p),
    "diagonal": lambda **p: plain(feature_transform="diagonal", **p),
    "linear": lambda **p: plain(feature_transform="linear", **p),
    "sparse": lambda **p: plain(feature_transform=Linear(1, "supervised", group_lasso=0.2), **p),
    "linear start": lambda **p: plain(init="linear", **p),
    "bsdt": lambda **p: bsdt(**{"n_estimators": 5, "n_steps": 30, "random_state": 0, **p}),
    "bsdt_q": lambda **p: bsdt_q(**{"n_estimators": 5, "n_steps": 30, "random_state": 0, **p}),
}
"""Functions that create small models of every kind; each accepts further parameters."""

MODEL_TABLE = [pytest.param(make, id=name) for name, make in MODELS.items()]


def make_data(n_samples=60, n_features=5, n_outputs=1, noise=0.1, seed=0):
    """A smooth function of three columns; y is (n_samples,) for one output."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    columns = X[:, np.arange(3) % n_features]
    signal = columns[:, 0] + np.sin(2 * columns[:, 1]) + 0.5 * columns[:, 0] * columns[:, 2]
    y = np.stack([signal * (1 + 0.5 * o) + o * columns[:, 1] for o in range(n_outputs)], axis=1)
    y = y + noise * rng.normal(size=y.shape)
    return X, (y[:, 0] if n_outputs == 1 else y)


def target_for(loss, n_samples=50, seed=0):
    """A target that is valid for the loss: of both signs if possible, else positive."""
    y = np.random.default_rng(seed).normal(size=n_samples)
    try:
        loss.check_target(y)
    except ValueError:
        y = np.exp(0.5 * y)
        loss.check_target(y)
    return y


def random_tree(depth, n_components, n_outputs, n_samples, dtype, seed, linear=False, size=1.0):
    """z, gate_weights, gate_bias, leaf_values and leaf_weights of a random tree."""
    rng = np.random.default_rng(seed)
    n_leaves = 2**depth
    arrays = [
        rng.normal(size=(n_components, n_samples)),
        size * rng.normal(size=(n_leaves - 1, n_components)),
        size * rng.normal(size=n_leaves - 1),
        rng.normal(size=(n_leaves, n_outputs)),
        rng.normal(size=(n_leaves, n_outputs, n_components)) if linear else None,
    ]
    return tuple(None if a is None else a.astype(dtype) for a in arrays)


@contextlib.contextmanager
def instruction_set(name):
    """Use the kernels of one instruction set inside the block."""
    before = _kernels.instruction_set()
    _kernels.use_instruction_set(name)
    try:
        yield
    finally:
        _kernels.use_instruction_set(before)
