"""Synthetic families."""

from collections.abc import Callable

import numpy as np

from .task import Draw, FloatArray, Generator, Task

N_TEST = 400
Response = Callable[[FloatArray, np.random.Generator], tuple[FloatArray, int]]


def _gaussian(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.standard_normal(shape)


def _unit(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.uniform(0.0, 1.0, shape)


def _symmetric(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.uniform(-1.0, 1.0, shape)


def regression(
    response: Response,
    n_train: int = 100,
    n_features: int = 50,
    noise: float = 0.1,
    columns: Callable[[np.random.Generator, tuple[int, int]], FloatArray] = _gaussian,
) -> Generator:
    """Make a generator of independent rows.

    Parameters
    ----------
    response : callable
        Returns the noise-free target of all rows and the number of relevant columns, which are the first ones.
    n_train, n_features : int
    noise : float
        Standard deviation of the noise in training and test targets.
    columns : callable
        Draws the columns.
    """

    def draw(draw: Draw) -> Task:
        X = columns(draw.rng, (n_train + N_TEST, n_features))
        signal, n_relevant = response(X, draw.rng)
        y = signal + noise * draw.rng.standard_normal(len(X))
        return _split(X, y, n_train, n_relevant)

    return draw


def _split(X: FloatArray, y: FloatArray, n_train: int, n_relevant: int) -> Task:
    metadata = {"relevant": list(range(n_relevant))}
    return Task(X[:n_train], y[:n_train], X[n_train:], y[n_train:], None, metadata)


def _direction(rng: np.random.Generator, n_columns: int) -> FloatArray:
    direction = rng.standard_normal(n_columns)
    return direction / np.linalg.norm(direction)


def sparse_linear(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Sum of 5 columns with weights in (0.5, 1.5)."""
    return X[:, :5] @ rng.uniform(0.5, 1.5, 5), 5


def friedman(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Friedman's first function."""
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return y, 5


def one_index(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Smooth step along one direction of 5 columns."""
    s = X[:, :5] @ _direction(rng, 5)
    return np.tanh(2 * s) + 0.5 * s, 5


def two_indices(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Line and hinge along two directions of the same 6 columns."""
    first, second = X[:, :6] @ _direction(rng, 6), X[:, :6] @ _direction(rng, 6)
    return first + 1.5 * np.maximum(second, 0), 6


def dense_index(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Hinge along one direction of all columns."""
    s = X @ _direction(rng, X.shape[1])
    return np.where(s > 0, 2 * s, 0.3 * s), X.shape[1]


def steps(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Axis-aligned steps: three on single columns, and one box on two further columns."""
    above = X[:, :5] > rng.uniform(-0.4, 0.4, 5)
    height = rng.uniform(1.0, 2.0, 4) * rng.choice([-1.0, 1.0], 4)
    return above[:, :3] @ height[:3] + height[3] * (above[:, 3] & above[:, 4]), 5


def pure_noise(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Nothing to learn: the best prediction is the mean."""
    return np.zeros(len(X)), 0


def interaction_with_main_effects(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Product of two columns plus both columns."""
    return X[:, 0] + X[:, 1] + 1.5 * X[:, 0] * X[:, 1], 2


def pure_interaction(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Product of two columns; neither has an effect alone."""
    return X[:, 0] * X[:, 1], 2


def additive_cosines(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Three cosines, each of one column, with no linear part."""
    return np.cos(np.pi * X[:, :3]).sum(axis=1), 3


def small_network(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Random network: 3 hidden units on 5 columns."""
    directions = np.stack([_direction(rng, 5) for _ in range(3)], axis=1)
    hidden = np.tanh(2 * X[:, :5] @ directions + rng.normal(0, 0.5, 3))
    return hidden @ rng.normal(0, 1, 3), 5


def dense_network(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Random network: 4 hidden units, each on all columns."""
    directions = np.stack([_direction(rng, X.shape[1]) for _ in range(4)], axis=1)
    hidden = np.tanh(2 * X @ directions + rng.normal(0, 0.5, 4))
    return hidden @ np.array([1.0, -1.0, 1.0, -1.0]), X.shape[1]


def peaks(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Sum of the heights of all peaks in a window, wherever they are; the columns are the steps of the window."""
    bend = (2 * X[:, 1:-1] - X[:, :-2] - X[:, 2:]) / np.sqrt(6)
    height = np.maximum(bend - 0.5, 0).sum(axis=1)
    return (height - height.mean()) / height.std(), X.shape[1]


def linear_with_threshold(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Four linear columns and a jump in a fifth."""
    jump = rng.uniform(2.0, 3.0) * (X[:, 4] > rng.uniform(-0.5, 0.5))
    return X[:, :4] @ rng.uniform(0.5, 1.5, 4) + jump, 5


def dense_additive(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Every column has an effect: a hinge, a soft step or a line."""
    shapes = np.stack([np.maximum(X, 0), np.tanh(2 * X), X])
    kind = rng.integers(0, 3, X.shape[1])
    return shapes[kind, :, np.arange(X.shape[1])].T @ rng.normal(0, 1, X.shape[1]), X.shape[1]


def sine_index(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Sine along one direction of 5 columns."""
    return np.sin(2 * X[:, :5] @ _direction(rng, 5)), 5


def heavy_tails(degrees: float, scale: float, noisy_test: bool) -> Generator:
    """Sparse linear, 60 rows and 100 columns, with Student noise.

    With 2 degrees of freedom the variance of the noise is infinite, so the test targets have no noise.
    """

    def draw(draw: Draw) -> Task:
        n_train = 60
        X = draw.rng.standard_normal((n_train + N_TEST, 100))
        y, n_relevant = sparse_linear(X, draw.rng)
        noise = scale * draw.rng.standard_t(degrees, len(X))
        if not noisy_test:
            noise[n_train:] = 0
        return _split(X, y + noise, n_train, n_relevant)

    return draw


def _lag_task(series: FloatArray, n_lags: int, n_train: int, relevant: list[int]) -> Task:
    windows = np.lib.stride_tricks.sliding_window_view(series, n_lags + 1)[:, ::-1]
    X, y = windows[:, 1:], windows[:, 0]
    rows = np.arange(n_lags, len(series))
    metadata = {"relevant": relevant, "train_rows": rows[:n_train], "test_rows": rows[n_train:]}
    return Task(X[:n_train].copy(), y[:n_train], X[n_train:].copy(), y[n_train:], 0, metadata)


def threshold(n_lags: int, n_train: int) -> Generator:
    """Two autoregressions, selected by the second lag; the lags are the columns, lag 1 first."""

    def draw(draw: Draw) -> Task:
        burn_in = 200
        noise = 0.3 * draw.rng.standard_normal(burn_in + n_lags + n_train + N_TEST)
        y = np.zeros(len(noise))
        for t in range(2, len(y)):
            low = y[t - 2] <= 0
            level = 0.9 * y[t - 1] - 0.2 * y[t - 2] + 0.5 if low else -0.6 * y[t - 1] + 0.1 * y[t - 2] - 0.5
            y[t] = level + noise[t]
        return _lag_task(y[burn_in:], n_lags, n_train, [0, 1])

    return draw


def autoregression(draw: Draw) -> Task:
    """Linear autoregression of order 3; 50 lags as columns."""
    n_lags, n_train, burn_in = 50, 100, 200
    noise = draw.rng.standard_normal(burn_in + n_lags + n_train + N_TEST)
    y = np.zeros(len(noise))
    for t in range(3, len(y)):
        y[t] = 0.4 * y[t - 1] - 0.2 * y[t - 2] + 0.25 * y[t - 3] + noise[t]
    return _lag_task(y[burn_in:], n_lags, n_train, [0, 1, 2])


threshold_autoregression = threshold(50, 100)
linear = regression(sparse_linear)
friedman1 = regression(friedman, noise=1.0, columns=_unit)
friedman1000 = regression(friedman, n_train=1000, noise=1.0, columns=_unit)
index1 = regression(one_index)
index2 = regression(two_indices)
dense1 = regression(dense_index)
piecewise_constant = regression(steps, n_train=150, noise=0.2, columns=_symmetric)
noise_only = regression(pure_noise, noise=1.0)
inter_hier = regression(interaction_with_main_effects)
inter_pure = regression(pure_interaction)
cosadd = regression(additive_cosines, n_features=80, columns=_symmetric)
net3 = regression(small_network, n_train=150, n_features=60)
linthr = regression(linear_with_threshold)
dense_add = regression(dense_additive, n_train=200, n_features=30)
sine = regression(sine_index)
tlin3 = heavy_tails(3.0, 0.4, noisy_test=True)
tlin2 = heavy_tails(2.0, 0.4, noisy_test=False)
