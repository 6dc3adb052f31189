"""Standardisation of columns and targets: learned from the training rows, applied to other rows, and inverted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels

__all__ = ["Units"]

Array = NDArray[Any]
BLOCK_ROWS = 8192  # rows processed at a time, to avoid a copy of the whole X


@dataclass(frozen=True)
class Units:
    """Centre and spread: ``x_original = x * spread + centre``, likewise for each output of y.

    If there are limits (in standardised units), prediction clips the columns to them. Values are halved before a
    difference is taken, because the difference of two large numbers may overflow; the prediction kernel (``load_rows``
    in ``src/cpp/predict.hpp``) does the same.

    Arrays may have a first axis for several sets of rows, each of which has its own units; see :meth:`of_set`.
    """

    centre: Array
    spread: Array
    y_centre: Array
    y_spread: Array
    low: Array | None = None
    high: Array | None = None

    @classmethod
    def learn(
        cls, encoded: Array, y: Array, weight: Array | None, *, columns: bool = True, target: bool = True
    ) -> Units:
        """Weighted means and standard deviations of encoded (n_samples, n_columns) and y (n_outputs, n_samples).

        Columns or targets that are not standardised have a centre of zero and a spread of one. Several sets of rows
        (n_sets, n_samples, n_columns) are standardised, each by itself, if they have no weights.
        """
        if encoded.ndim == 3:
            return cls(*_of_columns(encoded, None), *_of_target(y, None))
        n_columns, n_outputs = encoded.shape[1], len(y)
        own = _of_columns(encoded, weight) if columns else (np.zeros(n_columns), np.ones(n_columns))
        return cls(*own, *(_of_target(y, weight) if target else (np.zeros(n_outputs), np.ones(n_outputs))))

    def of_set(self, k: int) -> Units:
        """The units of one of several sets of rows."""
        return Units(self.centre[k], self.spread[k], self.y_centre[k], self.y_spread[k])

    def standardised(self, encoded: Array, dtype: Any = None) -> Array:
        """Standardised columns (n_columns, n_samples), with missing values replaced by zero, the mean."""
        own = encoded.dtype
        columns = np.swapaxes(encoded, -1, -2)
        out = np.empty(columns.shape, dtype=own if dtype is None else dtype)
        half_centre, scale = (0.5 * self.centre).astype(own)[..., None], (2.0 / self.spread).astype(own)[..., None]
        for rows in _blocks(columns.shape[-1]):
            block = np.multiply(columns[..., rows], 0.5, order="C", dtype=own)
            block -= half_centre
            block *= scale
            if np.isnan(block).any():
                block[np.isnan(block)] = 0.0
            out[..., rows] = block
        return out

    def within(self, z: Array) -> Array:
        """Standardised columns (n_columns, n_samples) clipped to the limits, with missing values replaced by zero."""
        low = -_kernels.FARTHEST if self.low is None else self.low[:, None]
        high = _kernels.FARTHEST if self.high is None else self.high[:, None]
        return np.where(np.isnan(z), 0.0, np.clip(z, low, high)).astype(z.dtype)

    def standardised_y(self, y: Array) -> Array:
        """Targets or raw predictions (n_outputs, n_samples) in standardised units."""
        centred = y.astype(np.float64) / 2 - self.y_centre[..., None] / 2
        return np.ascontiguousarray(centred / self.y_spread[..., None] * 2, dtype=y.dtype)

    def original_y(self, y: Array) -> Array:
        """The inverse of :meth:`standardised_y`."""
        return y * self.y_spread[..., None] + self.y_centre[..., None]


def _blocks(n_rows: int) -> list[slice]:
    return [slice(begin, begin + BLOCK_ROWS) for begin in range(0, n_rows, BLOCK_ROWS)]


def _of_columns(X: Array, weight: Array | None) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column without its missing values, safe for any scale.

    Columns are first divided by their largest absolute value, so that squares neither overflow nor underflow. A column
    that is constant up to rounding gets a spread of one. Rows are the last axis but one.
    """
    smallest = 1e-307 if X.dtype == np.float64 else 1e-37  # twice the inverse must be finite
    shape = (*X.shape[:-2], X.shape[-1])
    blocks = _blocks(X.shape[-2])

    def block(rows: slice) -> tuple[Array, Array, Array]:
        values = np.ascontiguousarray(X[..., rows, :], dtype=np.float64)  # a fixed memory order: reproducible sums
        present = ~np.isnan(values)
        return values, present, present.astype(np.float64) if weight is None else present * weight[rows, None]

    size, total = np.zeros(shape), np.zeros(shape)
    for rows in blocks:
        values, present, w = block(rows)
        with np.errstate(invalid="ignore"):
            size = np.maximum(size, np.where(present, np.abs(values), 0.0).max(axis=-2, initial=0.0))
        total += w.sum(axis=-2)
    size = np.where(size > 0, size, 1.0)
    total = np.maximum(total, 1e-300)
    mean, variance, each = np.zeros(shape), np.zeros(shape), size[..., None, :]
    for rows in blocks:
        values, present, w = block(rows)
        mean += (w * np.where(present, values / each, 0.0)).sum(axis=-2)
    mean /= total
    for rows in blocks:
        values, present, w = block(rows)
        variance += (w * np.where(present, values / each - mean[..., None, :], 0.0) ** 2).sum(axis=-2)
    std = np.sqrt(variance / total)
    spread = np.where(std > 1e-10, std * size, 1.0)
    return mean * size, np.where((spread > smallest) & np.isfinite(spread), spread, 1.0)


def _of_target(y: Array, weight: Array | None) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each output, shapes (n_outputs,), safe for any scale."""
    y = y.astype(np.float64)
    size = np.abs(y).max(axis=-1)
    size = np.where(size > 0, size, 1.0)
    scaled = y / size[..., None]  # squares neither overflow nor underflow
    centre = np.average(scaled, axis=-1, weights=weight)
    deviation = scaled - centre[..., None]
    spread = np.sqrt(np.average(deviation**2, axis=-1, weights=weight))
    # a target that is constant up to rounding is scaled by its size only
    return centre * size, np.where(spread > 1e-12, spread, 1.0) * size
