"""Bounds of predictions and of columns beyond their training range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.task import Task
from softboost._data.units import Units
from softboost._kernels import FARTHEST

__all__ = ["REACH", "column_reach", "joint_bounds", "limited_units", "prediction_bounds", "widened"]

Array = NDArray[Any]
REACH = 3.0  # predictions and columns may exceed their training range by this multiple of its width
LEAST_REACH = 0.5  # the same for columns if the model explains little
LEFT = 1 / 15  # share of the loss of a constant up to which columns have the whole reach
MAX_GROWTH = 0.25  # the same for predicted changes of a series whose changes grow, at most


def widened(values: Array, reach: float, before: tuple[Array, Array] | None) -> tuple[Array, Array]:
    """The range of each row of values (the last axis), extended on both sides by ``reach`` times its width.

    ``before`` is the extended range of earlier values; the result then covers all values.
    """
    low, high = values.min(axis=-1).astype(np.float64), values.max(axis=-1).astype(np.float64)
    if before is not None:
        width = (before[1] - before[0]) * (reach / (1 + 2 * reach))
        low, high = np.minimum(low, before[0] + width), np.maximum(high, before[1] - width)
    with np.errstate(over="ignore"):
        return low - reach * (high - low), high + reach * (high - low)


def _growth(changes: Array) -> float:
    """Relative growth of the mean absolute change from the first half to the second, limited to MAX_GROWTH.

    ``changes`` (n_outputs, n_samples) are in time order.
    """
    largest = float(np.abs(changes).max())
    if not 0 < largest < np.inf:
        return 0.0
    early, late = (float(np.abs(half / largest).mean()) for half in np.array_split(changes, 2, axis=1))
    return min(max(late / early - 1, 0.0), MAX_GROWTH) if early > 0 else 0.0


def prediction_bounds(
    task: Task, column: int | None, before: tuple[Array, Array] | None = None, *, in_time_order: bool = False
) -> tuple[Array, Array]:
    """Bounds of raw predictions: the range of the targets, extended on both sides by three times its width.

    For an anchored model the bounds apply to the change since ``column`` and are the range of the changes in the
    training rows. If the rows are in time order and the changes grew from the first half to the second, that range is
    extended by the same proportion. ``before`` are the bounds of earlier rows; the result then covers all rows.
    """
    n_outputs = task.y.shape[0]
    if not (task.bounded and task.loss.scales_with_y):
        return np.full(n_outputs, -np.inf), np.full(n_outputs, np.inf)
    y = task.y.astype(np.float64)
    if column is None:
        return widened(y, REACH, before)
    level = task.encoded[:, column].astype(np.float64)
    changes = y - np.where(np.isnan(level), task.units.centre[column], level)
    bounds = widened(changes, _growth(changes) if in_time_order else 0.0, None)
    return bounds if before is None else _union(bounds, before)


def joint_bounds(
    task: Task, column: int | None, bounds: tuple[Array, Array], before: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Bounds of a model of these rows, extended to cover the rows learned earlier."""
    return prediction_bounds(task, None, before) if column is None else _union(bounds, before)


def _union(bounds: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.minimum(bounds[0], before[0]), np.maximum(bounds[1], before[1])


def column_reach(loss: float, constant: float | None) -> float:
    """The multiple of its width by which a column may exceed its training range.

    A model that explains much of the target may be continued far beyond the training rows. One that leaves most of the
    loss of a constant may not: a single row with a distant value would have the largest errors of all.
    """
    if constant is None or not (constant > 0 and loss >= 0):
        return REACH
    return min(max(REACH * LEFT * constant / max(loss, LEFT * constant), LEAST_REACH), REACH)


def limited_units(task: Task, reach: float) -> Units:
    """The units with limits for the columns: ``reach`` widths beyond their range on these and all earlier rows."""
    if not task.bounded:
        return task.units
    units = task.units
    before = None if units.low is None or units.high is None else (units.low, units.high)
    low, high = widened(task.standardised()[0], reach, before)
    return replace(units, low=np.maximum(low, -FARTHEST), high=np.minimum(high, FARTHEST))
