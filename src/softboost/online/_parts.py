"""The parts of an online model: rows to vectors, running units, recent rows, soft trees, experts.

Every part holds arrays and plain values alone, so that a model is saved by writing them down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Experts", "RecentRows", "RowEncoder", "RunningUnits", "Slot", "SoftTrees"]

Array = NDArray[Any]
Slot = tuple[Any, str | None]  # name of the feature; the category, or the part of a date, or None for a number
DAY_PARTS = {"@day": 1.0, "@week": 7.0, "@year": 365.2425}
LARGEST = 1e100  # so that squares stay finite
MEMORY = 2000  # rows after which running means forget
FARTHEST = 8.0  # standard deviations beyond which columns are cut off


class RowEncoder:
    """Turns dicts into vectors, one place for each number and each category seen so far.

    Text becomes one place per category, dates become a count of days and their place in the day, week and year.
    Places are given out up to ``max_features``; what comes later is ignored, so that memory stays bounded. The first
    place is never filled, so that a row without features is a vector too.
    """

    def __init__(self, max_features: int) -> None:
        self.max_features = max_features
        self.slots: dict[Slot, int] = {}
        self._absent: list[float] = []  # a row without any entries
        self.add((None, "@"))

    def add(self, slot: Slot) -> None:
        """Give out the next place."""
        self.slots[slot] = len(self.slots)
        self._absent.append(math.nan if slot[1] is None or slot[1].startswith("@") else 0.0)

    def encode(self, x: Mapping[Any, Any], *, learn: bool = False) -> Array:
        """The row as a vector of length ``len(slots)``; NaN where a number is missing."""
        slots, row, new = self.slots, self._absent.copy(), {}
        for name, value in x.items():
            if type(value) is float and abs(value) < LARGEST and (name, None) in slots:  # as most; NaN is not below
                row[slots[name, None]] = value
                continue
            for slot, number in _parts(name, value).items():
                if slot in slots:
                    row[slots[slot]] = number
                else:
                    new[slot] = number
        if learn and new and len(slots) <= self.max_features:
            # sorted, so that the order within a dict does not matter
            for slot in sorted(new, key=lambda s: (str(s[0]), s[1] or ""))[: self.max_features + 1 - len(slots)]:
                self.add(slot)
                row.append(new[slot])
        return np.array(row)


def _parts(name: Any, value: Any) -> dict[Slot, float]:
    """What one entry of a row says, as numbers by their place."""
    if isinstance(value, str):
        return {(name, "=" + value): 1.0}
    if isinstance(value, date):  # a datetime is one too
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        days = moment.toordinal() + (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
        parts: dict[Slot, float] = {(name, "@days"): days}
        for part, period in DAY_PARTS.items():
            angle = 2 * math.pi * days / period
            parts[name, part + "_sin"], parts[name, part + "_cos"] = math.sin(angle), math.cos(angle)
        return parts
    if value is None:
        return {}
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"x[{name!r}]={value!r} is neither a number, a text, a date nor None; convert it or leave it out"
        ) from None
    return {(name, None): min(max(number, -LARGEST), LARGEST)} if math.isfinite(number) else {}


class RunningUnits:
    """Mean and variance of columns as they come, and the centre and scale in use, which follow only now and then.

    Whoever keeps coefficients in units of ``centre`` and ``scale`` has to convert them when :meth:`adopt` moves these.
    A scale of 0 marks a column that has not varied yet.
    """

    def __init__(self) -> None:
        self.count, self.mean, self.variance, self.centre, self.scale = (np.zeros(0) for _ in range(5))

    def grow(self, n_new: int) -> None:
        for name, a in vars(self).items():
            setattr(self, name, np.concatenate([a, np.zeros(n_new)]))

    def update(self, row: Array) -> None:
        """Take in a row; NaN leaves its column as it is."""
        seen = ~np.isnan(row)
        self.count += seen
        rate = 1.0 / np.clip(self.count, 1.0, MEMORY)
        step = np.where(seen, row - self.mean, 0.0)
        self.variance += np.where(seen, rate * ((1.0 - rate) * step * step - self.variance), 0.0)
        self.mean += rate * step

    def standardised(self, rows: Array) -> Array:
        """Rows in units of the scale, cut off at 8; 0, the mean, where a value is missing."""
        out = (rows - self.centre) / np.where(self.scale > 0, self.scale, np.inf)
        out[np.isnan(out)] = 0.0
        return out.clip(-FARTHEST, FARTHEST)

    def have_shifted(self) -> bool:
        """Whether columns have left the units in use by a standard deviation, or a factor of two."""
        spread, fixed = np.sqrt(self.variance), self.scale > 0
        moved = np.abs(self.mean - self.centre) > self.scale
        moved |= (spread > 2.0 * self.scale) | (spread < 0.4 * self.scale)
        appeared = ~fixed & (spread > 0) & (self.count > 4)
        return bool(np.any(np.where(fixed, moved, appeared)))

    def adopt(self) -> tuple[Array, Array]:
        """Move to the units of now; ratio and offset with ``old value = ratio * new value + offset``."""
        spread = np.sqrt(self.variance)
        scale = np.where(spread > 1e-9 * np.abs(self.mean), spread, 0.0)
        both = (self.scale > 0) & (scale > 0)
        old = np.where(both, self.scale, 1.0)
        ratio, offset = np.where(both, scale, 1.0) / old, np.where(both, self.mean - self.centre, 0.0) / old
        self.centre, self.scale = self.mean.copy(), scale
        return ratio, offset


class RecentRows:
    """The last rows, in a ring: as they came, and as components z and basis functions."""

    def __init__(self, size: int, n_basis: int) -> None:
        self.X, self.Z, self.basis = np.zeros((size, 0)), np.zeros((size, 0)), np.zeros((size, n_basis))
        self.y, self.weight = np.zeros(size), np.zeros(size)
        self.end, self.n_rows = 0, 0

    def grow(self, n_new: int) -> None:
        more = np.zeros((len(self.y), n_new))
        self.X, self.Z = np.hstack([self.X, more + math.nan]), np.hstack([self.Z, more])
        self.basis = np.hstack([self.basis, more])

    def append(self, row: Array, z: Array, basis: Array, y: float, weight: float) -> None:
        i = self.end
        self.X[i], self.Z[i], self.basis[i], self.y[i], self.weight[i] = row, z, basis, y, weight
        self.end, self.n_rows = (i + 1) % len(self.y), min(self.n_rows + 1, len(self.y))

    def places(self) -> Array:
        """Where the rows are, oldest first."""
        return (self.end - self.n_rows + np.arange(self.n_rows)) % len(self.y)


class SoftTrees:
    """A fixed number of soft trees of one depth, each on a few components of z, with leaves linear in them.

    Attributes
    ----------
    columns : ndarray of shape (n_trees, n_columns)
    used : ndarray of shape (n_trees, n_columns), 1 where a tree has that many columns, else 0
    weights : ndarray of shape (n_trees, n_nodes, n_columns)
    bias : ndarray of shape (n_trees, n_nodes)
    grown : ndarray of shape (n_trees,), 1 where there is a tree, else 0
    """

    def __init__(self, n_trees: int, depth: int, n_columns: int) -> None:
        self.depth = depth
        n_nodes = 2**depth - 1
        self.columns = np.zeros((n_trees, n_columns), dtype=np.int64)
        self.used = np.zeros((n_trees, n_columns))
        self.weights = np.zeros((n_trees, n_nodes, n_columns))
        self.bias = np.zeros((n_trees, n_nodes))
        self.grown = np.zeros(n_trees)

    @property
    def block(self) -> int:
        """Number of leaf coefficients of one tree."""
        return int(2**self.depth * (1 + self.columns.shape[1]))

    @property
    def n_basis(self) -> int:
        return self.block * len(self.grown)

    def leaves(self, tree: int) -> slice:
        """Places of the leaf coefficients of one tree."""
        return slice(tree * self.block, (tree + 1) * self.block)

    def put(self, tree: int, columns: Array, weights: Array, bias: Array) -> None:
        """Set a tree; weights of shape (n_nodes, len(columns))."""
        n = len(columns)
        self.columns[tree], self.used[tree], self.weights[tree] = 0, 0.0, 0.0
        self.columns[tree, :n], self.used[tree, :n], self.weights[tree, :, :n] = columns, 1.0, weights
        self.bias[tree], self.grown[tree] = bias, 1.0

    def convert(self, Q: Array, ratio: Array, offset: Array) -> None:
        """Keep all answers the same in new units, in which x is ``ratio * x + offset``; Q then has to follow."""
        shift = (Q @ offset)[self.columns] * self.used
        self.bias += (self.weights @ shift[..., None])[..., 0]
        self.weights *= ratio[self.columns][:, None, :]

    def forward(self, z: Array, tree: int | None = None) -> tuple[Array, Array, Array]:
        """Columns seen (..., n_trees, n_columns), gates (..., n_nodes) and leaf probabilities (..., n_leaves) at z.

        Of all trees, or of one.
        """
        which = slice(None) if tree is None else slice(tree, tree + 1)
        seen = z[..., self.columns[which]] * self.used[which]
        logit = (self.weights[which] @ seen[..., None])[..., 0] + self.bias[which]
        right = 1.0 / (1.0 + np.exp(-np.clip(logit, -40.0, 40.0)))
        reach = self.grown[which, None] * np.ones_like(right[..., :1])
        for level in range(self.depth):
            gate = right[..., 2**level - 1 : 2 ** (level + 1) - 1]
            below = np.empty((*gate.shape, 2))
            below[..., 1] = reach * gate
            below[..., 0] = reach - below[..., 1]
            reach = below.reshape(*gate.shape[:-1], 2 * gate.shape[-1])
        return seen, right, reach

    def basis(self, seen: Array, reach: Array) -> Array:
        """Functions that the leaf coefficients weigh, shape (..., n_basis): reach, and reach times each column."""
        out = np.empty((*reach.shape, 1 + seen.shape[-1]))
        out[..., 0] = reach
        np.multiply(reach[..., None], seen[..., None, :], out=out[..., 1:])
        return out.reshape(*out.shape[:-3], math.prod(out.shape[-3:]))

    def gradients(self, seen: Array, right: Array, reach: Array, coef: Array) -> tuple[Array, Array]:
        """Slopes of the summed outputs at one row: by the logit of each gate, and by each column seen."""
        leaves = coef.reshape(len(self.grown), 2**self.depth, -1)
        value = leaves[..., 0] + (leaves[..., 1:] @ seen[..., None])[..., 0]
        by_seen = (reach[..., None] * leaves[..., 1:]).sum(axis=1)
        by_logit = np.zeros_like(right)
        for level in range(self.depth - 1, -1, -1):  # values of subtrees, from the leaves up
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            gate, low, high = right[:, nodes], value[:, ::2], value[:, 1::2]
            reach = reach[:, ::2] + reach[:, 1::2]
            by_logit[:, nodes] = reach * gate * (1.0 - gate) * (high - low)
            value = low + gate * (high - low)
        return by_logit, by_seen * self.used + (by_logit[:, None, :] @ self.weights)[:, 0]


class Experts:
    """Several predictions of one number, and what a weighted mean of them is.

    Each of ``n_bases`` models is followed as it is and with its recent errors, smoothed slowly or fast, added: the last
    is at home where the truth is close to the truth before. Weights follow the squared errors of the last rows.
    """

    RATES = np.array([0.0, 0.1, 0.5])

    def __init__(self, n_bases: int, memory: float) -> None:
        self.memory = memory
        self.levels, self.losses = np.zeros((n_bases, 3)), np.zeros((n_bases, 3))
        self.mass = 0.0

    def weights(self) -> Array:
        """Weight of each expert, summing to one: likelihoods of the errors, flattened as these are not independent."""
        if self.mass == 0.0:
            return np.full(self.losses.shape, 1.0 / self.losses.size)
        relative = self.losses / (self.losses.min() + 1e-12)
        out = np.exp(-0.25 * self.mass * (relative - 1.0))
        return out / out.sum()

    def combined(self, bases: Array) -> float:
        return float(((bases[:, None] + self.levels) * self.weights()).sum())

    def update(self, bases: Array, truth: float, weight: float) -> None:
        error = truth - bases[:, None]
        self.losses = self.memory * self.losses + weight * np.minimum((error - self.levels) ** 2, 25.0)
        self.mass = self.memory * self.mass + weight
        self.levels += self.RATES * (error - self.levels)

    def rescale(self, factor: float) -> None:
        """Go on in units in which everything is ``factor`` times as large."""
        self.levels *= factor
        self.losses *= factor**2
