"""Networks that correct the bank: the mean of a few small feed-forward networks, fitted to many training rows.

The networks minimise the absolute error by gradient steps on random batches. The mean of several networks that start
from different weights is better than each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._kernels import NetworkInputs, NetworkLayout

__all__ = ["Networks"]

Array = NDArray[Any]

EXTREME = 0.005  # part of the rows on each side whose values count as extreme
ROWS_OF_QUANTILES = 20_000  # rows that are enough to estimate quantiles


@dataclass(frozen=True)
class Networks:
    """Fitted networks of two hidden layers on standardised columns that are clipped at four standard deviations.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_columns,)
    parameters : ndarray of shape (n_networks, n_parameters)
        See :class:`softboost._kernels.NetworkLayout`.
    """

    mean: Array
    scale: Array
    parameters: Array

    N_NETWORKS = 6
    N_HIDDEN, N_LAYERS = 128, 2
    FARTHEST = 4.0
    LARGEST_TARGET = 4.0
    EPOCHS = 4
    BATCH = 512
    LEARNING_RATE = 0.002

    @classmethod
    def fit(cls, X: Array, y: Array, weight: Array, n_threads: int) -> Networks:
        """Fit to rows; missing values are replaced by the column mean."""
        X, weight = np.ascontiguousarray(X, dtype=np.float32), np.asarray(weight, dtype=np.float32)
        y = np.clip(y, -cls.LARGEST_TARGET, cls.LARGEST_TARGET).astype(np.float32)
        mean, scale = _moments(X)
        layout = cls.layout(X.shape[1], y.shape[1])
        rng = np.random.default_rng(0)
        start = np.stack([_start(layout, rng) for _ in range(cls.N_NETWORKS)])
        order = np.stack([cls._batches(len(X), rng) for _ in range(cls.N_NETWORKS)])
        inputs = NetworkInputs(X, mean, scale, cls.FARTHEST)
        parameters = _kernels.fit_networks(layout, inputs, y, weight, start, order, cls.LEARNING_RATE, n_threads)
        return cls(mean, scale, parameters)

    @classmethod
    def layout(cls, n_columns: int, n_outputs: int) -> NetworkLayout:
        """The layout for these numbers of columns and outputs."""
        return NetworkLayout(n_columns, cls.N_HIDDEN, cls.N_LAYERS, n_outputs)

    @property
    def n_outputs(self) -> int:
        """Number of steps."""
        hidden = self.layout(len(self.mean), 0).n_parameters
        return (self.parameters.shape[1] - hidden) // (self.N_HIDDEN + 1)

    @classmethod
    def _batches(cls, n_rows: int, rng: np.random.Generator) -> Array:
        """Rows of each step (n_steps, batch); every epoch takes them in another order and leaves out a few.

        A batch is a multiple of 16, the length of the longest vectors.
        """
        batch = min(cls.BATCH, n_rows // 16 * 16)
        n_steps = n_rows // batch
        epochs = (rng.permutation(n_rows)[: n_steps * batch] for _ in range(cls.EPOCHS))
        return np.concatenate(list(epochs)).astype(np.int32).reshape(-1, batch)

    def predict(self, X: Array) -> Array:
        """Errors of the bank, in units (n_rows, h)."""
        inputs = NetworkInputs(np.ascontiguousarray(X, dtype=np.float32), self.mean, self.scale, self.FARTHEST)
        layout = self.layout(len(self.mean), self.n_outputs)
        return _kernels.network_outputs(layout, inputs, self.parameters).astype(np.float64)


def _moments(X: Array) -> tuple[Array, Array]:
    """Means and standard deviations of the known values of each column, where extreme values count as quantiles."""
    low, high = _extremes(X[:: max(1, len(X) // ROWS_OF_QUANTILES)])
    known = ~np.isnan(X)
    count = np.maximum(known.sum(axis=0), 1)
    values = np.where(known, np.clip(X, low, high), 0.0)
    mean = values.sum(axis=0, dtype=np.float64) / count
    square = np.where(known, (values - mean.astype(X.dtype)) ** 2, 0.0).sum(axis=0, dtype=np.float64) / count
    return mean.astype(np.float32), (np.sqrt(square) + 1e-9).astype(np.float32)


def _extremes(X: Array) -> tuple[Array, Array]:
    """Two quantiles of the known values of each column; NaN without any."""
    ordered = np.sort(X, axis=0)  # NaN last
    last = np.maximum((~np.isnan(X)).sum(axis=0) - 1, 0)
    part = (EXTREME * last).astype(np.int64)
    columns = np.arange(X.shape[1])
    return ordered[part, columns], ordered[last - part, columns]


def _start(layout: NetworkLayout, rng: np.random.Generator) -> Array:
    """Random hidden layers and an output of zero, so that the correction starts at none."""
    widths = [layout.n_inputs, *[layout.n_hidden] * layout.n_layers]
    hidden = [rng.uniform(-1.0, 1.0, layout.n_hidden * (n_in + 1)) / np.sqrt(n_in) for n_in in widths[:-1]]
    output = np.zeros(layout.n_outputs * (layout.n_hidden + 1))
    return np.concatenate([*hidden, output]).astype(np.float32)
