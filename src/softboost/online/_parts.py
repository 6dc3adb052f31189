"""The parts of an online model: row encoder, running units, recent rows, soft trees, experts.

Each part consists of arrays and plain values only, so that a model can be saved without code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.soft_tree import SoftTree
from softboost._data.checks import LARGEST, check_integer
from softboost._data.outliers import LEAST_ROWS, OUTLIER_GAP
from softboost._linear.recursive import FORGETTING

__all__ = ["Experts", "Reach", "RecentRows", "RowEncoder", "RunningUnits", "Slot", "SoftTrees", "check_trees"]

Array = NDArray[Any]
Slot = tuple[Any, str | None]  # name of the feature; the category, or the part of a date, or None for a number
DAY_PARTS = {"@day": 1.0, "@week": 7.0, "@year": 365.2425}
MEMORY = round(1.0 / (1.0 - FORGETTING))  # effective number of rows of the running means
MAX_TREES, MAX_DEPTH = 1000, 4
FARTHEST = 8.0  # columns are clipped at this number of standard deviations


def check_trees(n_trees: Any, depth: Any) -> None:
    """Refuse numbers of trees, and depths, that a stream cannot keep up with."""
    check_integer("n_trees", n_trees, 0, MAX_TREES)
    check_integer("depth", depth, 1, MAX_DEPTH)


class RowEncoder:
    """Converts dicts to vectors, with one entry per numeric feature and category seen so far.

    A string feature has one entry per category. A date is encoded as a number of days and its positions in the day,
    the week and the year. There are at most ``max_features`` entries; later features are ignored, so that memory is
    bounded. The first entry is always empty, so that a row without features is a vector too.
    """

    def __init__(self, max_features: int) -> None:
        self.max_features = max_features
        self.slots: dict[Slot, int] = {}
        self._absent: list[float] = []  # the vector of a row without features
        self.add((None, "@"))

    def add(self, slot: Slot) -> None:
        """Assign the next entry."""
        self.slots[slot] = len(self.slots)
        self._absent.append(math.nan if slot[1] is None or slot[1].startswith("@") else 0.0)

    def encode(self, x: Mapping[Any, Any], *, learn: bool = False) -> Array:
        """The row as a vector of length ``len(slots)``, with NaN for missing numbers."""
        slots, row, new = self.slots, self._absent.copy(), {}
        for name, value in x.items():
            if type(value) is float and abs(value) < LARGEST and (name, None) in slots:  # the usual case; not NaN
                row[slots[name, None]] = value
                continue
            for slot, number in _parts(name, value).items():
                if slot in slots:
                    row[slots[slot]] = number
                else:
                    new[slot] = number
        if learn and new and len(slots) <= self.max_features:
            # sorted, so that the order of the dict does not matter
            for slot in sorted(new, key=lambda s: (str(s[0]), s[1] or ""))[: self.max_features + 1 - len(slots)]:
                self.add(slot)
                row.append(new[slot])
        return np.array(row)


def _parts(name: Any, value: Any) -> dict[Slot, float]:
    """The numbers that encode one feature of a row, by slot."""
    if isinstance(value, str):
        return {(name, "=" + value): 1.0}
    if isinstance(value, date):  # includes datetime
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
            f"x[{name!r}]={value!r} is neither a number, a string, a date nor None; convert or remove it"
        ) from None
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"x[{name!r}] is infinite; replace it by a finite number, or by None if it is missing")
    return {} if math.isnan(number) else {(name, None): min(max(number, -LARGEST), LARGEST)}


class RunningUnits:
    """Running mean and standard deviation of the columns, and the centre and scale in use, updated occasionally.

    Coefficients in units of ``centre`` and ``scale`` must be converted when :meth:`adopt` changes them. A scale of 0
    marks a column that has been constant so far. Variances are not stored, because those of tiny columns would be 0.
    """

    def __init__(self) -> None:
        self.count, self.mean, self.spread, self.centre, self.scale = (np.zeros(0) for _ in range(5))

    def grow(self, n_new: int) -> None:
        for name, a in vars(self).items():
            setattr(self, name, np.concatenate([a, np.zeros(n_new)]))

    def update(self, row: Array) -> None:
        """Update with a row; NaN leaves its column unchanged."""
        seen = ~np.isnan(row)
        self.count += seen
        rate = 1.0 / np.clip(self.count, 1.0, MEMORY)
        step = np.where(seen, row - self.mean, 0.0)
        moved = np.sqrt(1.0 - rate) * np.hypot(self.spread, np.sqrt(rate) * step)
        self.spread = np.where(seen, np.minimum(moved, LARGEST), self.spread)
        self.mean += rate * step

    def learn_again(self, rows: Array) -> None:
        """Replace mean and standard deviation by those of these rows."""
        present = ~np.isnan(rows)
        n = np.maximum(present.sum(axis=0), 1)
        self.mean = np.where(present, rows, 0.0).sum(axis=0) / n
        away = np.where(present, np.abs(rows - self.mean), 0.0)
        most = away.max(axis=0)
        share = away / np.where(most > 0, most, 1.0)
        self.spread = np.minimum(most * np.sqrt((share**2).sum(axis=0) / n), LARGEST)

    def standardised(self, rows: Array) -> Array:
        """Standardised rows, clipped at 8 standard deviations; missing values are 0, the mean."""
        out = (rows - self.centre) / np.where(self.scale > 0, self.scale, np.inf)
        out[np.isnan(out)] = 0.0
        return out.clip(-FARTHEST, FARTHEST)

    def have_shifted(self) -> bool:
        """Whether a column has moved by a standard deviation, or its scale by a factor of two, since :meth:`adopt`."""
        spread, fixed = self.spread, self.scale > 0
        moved = np.abs(self.mean - self.centre) > self.scale
        moved |= (spread > 2.0 * self.scale) | (spread < 0.4 * self.scale)
        appeared = ~fixed & (spread > 0) & (self.count > 4)
        return bool(np.any(np.where(fixed, moved, appeared)))

    def adopt(self) -> tuple[Array, Array]:
        """Adopt the current units; returns ratio and offset with ``old value = ratio * new value + offset``."""
        scale = np.where(self.spread > 1e-9 * np.abs(self.mean), self.spread, 0.0)
        both = (self.scale > 0) & (scale > 0)
        old = np.where(both, self.scale, 1.0)
        ratio, offset = np.where(both, scale, 1.0) / old, np.where(both, self.mean - self.centre, 0.0) / old
        self.centre, self.scale = self.mean.copy(), scale
        return ratio, offset


class Reach:
    """Recognises values that stand apart, by the largest distance of earlier values.

    A distance of more than twice the largest one is far, of more than four times it is very far. After four such
    values in a row the values have changed, and nothing stands apart until as many rows are known as at the beginning.

    Attributes
    ----------
    most : ndarray of shape (n_columns,), largest distance so far
    known : ndarray of shape (n_columns,), number of values that determine it
    streak : ndarray of shape (n_columns,), number of successive values that were far off
    """

    FAR, VERY_FAR, PATIENCE, SETTLED = OUTLIER_GAP, OUTLIER_GAP**2, 4, LEAST_ROWS

    def __init__(self, memory: float) -> None:
        self.memory = memory  # factor by which the largest distance shrinks with each value
        self.most, self.known, self.streak = np.zeros(0), np.zeros(0), np.zeros(0)

    def grow(self, n_new: int) -> None:
        more = np.zeros(n_new)
        self.most, self.known, self.streak = (np.append(a, more) for a in (self.most, self.known, self.streak))

    def judge(self, away: Array) -> tuple[Array, Array]:
        """Which distances are far and very far, after which they are remembered; NaN is a missing value."""
        present = ~np.isnan(away)
        settled = (self.known >= self.SETTLED) & (self.most > 0) & present
        far = settled & (away > self.FAR * self.most)
        self.streak = np.where(present, np.where(far, self.streak + 1, 0.0), self.streak)
        changed = self.streak >= self.PATIENCE
        self.forget(changed)
        far &= ~changed
        very = far & (away > self.VERY_FAR * self.most)
        seen = np.where(far, np.where(very, 0.0, self.FAR * self.most), np.where(present, away, 0.0))
        self.most = np.minimum(np.maximum(self.memory * self.most, seen), LARGEST)
        self.known += present
        return far, very

    def forget(self, which: Array | bool = True) -> None:
        """Start again."""
        for a in (self.most, self.known, self.streak):
            a[np.broadcast_to(which, a.shape)] = 0.0


class RecentRows:
    """Ring buffer of the most recent rows: original columns, components z and basis functions."""

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
        """Positions of the rows in the buffer, oldest first."""
        return (self.end - self.n_rows + np.arange(self.n_rows)) % len(self.y)


class SoftTrees:
    """A fixed number of soft trees of equal depth, each with linear leaves on a few components of z.

    Attributes
    ----------
    columns : ndarray of shape (n_trees, n_columns)
    used : ndarray of shape (n_trees, n_columns), 1 for columns that a tree uses, else 0
    weights : ndarray of shape (n_trees, n_nodes, n_columns)
    bias : ndarray of shape (n_trees, n_nodes)
    grown : ndarray of shape (n_trees,), 1 for trees that have been grown, else 0
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
        """Slice of the leaf coefficients of one tree."""
        return slice(tree * self.block, (tree + 1) * self.block)

    def put(self, place: int, tree: SoftTree) -> None:
        """Store the gates of a tree."""
        n = len(tree.columns)
        self.columns[place], self.used[place], self.weights[place] = 0, 0.0, 0.0
        self.columns[place, :n], self.used[place, :n], self.weights[place, :, :n] = tree.columns, 1.0, tree.gate_weights
        self.bias[place], self.grown[place] = tree.gate_bias, 1.0

    def coefficients(self, tree: SoftTree) -> Array:
        """Leaf coefficients of a tree of one output, shape (block,), in the order of :meth:`basis`."""
        coef = np.zeros((2**self.depth, 1 + self.columns.shape[1]))
        coef[:, 0] = tree.leaf_values[:, 0]
        if tree.leaf_weights is not None:
            coef[:, 1 : 1 + len(tree.columns)] = tree.leaf_weights[:, 0]
        return coef.ravel()

    def convert(self, Q: Array, ratio: Array, offset: Array) -> None:
        """Convert to new units with ``old x = ratio * new x + offset``, keeping all outputs; convert Q afterwards."""
        shift = (Q @ offset)[self.columns] * self.used
        self.bias += (self.weights @ shift[..., None])[..., 0]
        self.weights *= ratio[self.columns][:, None, :]

    def forward(self, z: Array, tree: int | None = None) -> tuple[Array, Array, Array]:
        """Columns used (..., n_trees, n_columns), gates (..., n_nodes) and leaf probabilities (..., n_leaves) at z.

        For all trees, or for one.
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
        """Basis functions of the leaf coefficients, shape (..., n_basis): probability, and probability times column."""
        out = np.empty((*reach.shape, 1 + seen.shape[-1]))
        out[..., 0] = reach
        np.multiply(reach[..., None], seen[..., None, :], out=out[..., 1:])
        return out.reshape(*out.shape[:-3], math.prod(out.shape[-3:]))

    def gradients(self, seen: Array, right: Array, reach: Array, coef: Array) -> tuple[Array, Array]:
        """Gradients of the summed outputs at one row with respect to the gate logits and to the columns used."""
        leaves = coef.reshape(len(self.grown), 2**self.depth, -1)
        value = leaves[..., 0] + (leaves[..., 1:] @ seen[..., None])[..., 0]
        by_seen = (reach[..., None] * leaves[..., 1:]).sum(axis=1)
        by_logit = np.zeros_like(right)
        for level in range(self.depth - 1, -1, -1):  # values of subtrees, bottom up
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            gate, low, high = right[:, nodes], value[:, ::2], value[:, 1::2]
            reach = reach[:, ::2] + reach[:, 1::2]
            by_logit[:, nodes] = reach * gate * (1.0 - gate) * (high - low)
            value = low + gate * (high - low)
        return by_logit, by_seen * self.used + (by_logit[:, None, :] @ self.weights)[:, 0]


class Experts:
    """Weighted average of experts.

    Each of ``n_bases`` models gives three experts: the model itself, and the model plus its recent errors after slow or
    fast smoothing. The fast one suits targets that are close to the previous target. The weights depend on the absolute
    errors of the last rows, among which a single jump counts less than among squared errors. The last two models are
    the previous target as learned, without an outlier, and as observed. Their smoothed errors are the trend of the
    target, which a jump does not change: there an error counts at most as three usual ones. Which of the two was right
    about an outlier is limited evidence as well.

    Attributes
    ----------
    levels : ndarray of shape (n_bases, 3), smoothed errors of the models
    errors : ndarray of shape (n_bases, 3), sums of absolute errors with forgetting
    mass : float, sum of the weights of the rows with forgetting
    """

    RATES = np.array([0.0, 0.1, 0.5])
    LARGEST_ERROR = 5.0
    LARGEST_RATIO = 1e6  # of successive units of the target
    KEPT_ROWS = 4.0  # as which earlier rows count after an early outlier
    DOUBT = 0.02  # least probability of an outlier before its errors are known
    MOST_EVIDENCE = 32.0  # of one outlier about the next one, in mean absolute errors of the best expert
    JUMP = 3.0  # errors of the previous target, relative to its mean absolute error, above which it is a jump

    def __init__(self, n_bases: int, memory: float) -> None:
        self.memory = memory
        self.levels, self.errors = np.zeros((n_bases, 3)), np.zeros((n_bases, 3))
        self.mass = 0.0

    def weights(self) -> Array:
        """Weights that sum to one: square roots of Laplace likelihoods, because the errors are correlated.

        The better the previous target predicts, the more likely is a jump a new level, and not an outlier. The target
        as observed counts only where the previous target has more than half of the weight.
        """
        if self.mass == 0.0:
            return np.full(self.errors.shape, 1.0 / self.errors.size)
        relative = self.errors / (self.errors.min() + 1e-12)
        out = np.exp(-0.5 * self.mass * (relative - 1.0))
        out /= out.sum()
        learned, observed = out[-2].sum(), out[-1].sum()
        level = min(learned + observed, 1.0 - self.DOUBT) if learned + observed > 0.5 else 0.0
        both = (learned + observed) / (learned * (1.0 - level) + observed * level + 1e-300)
        out[-2] *= both * (1.0 - level)
        out[-1] *= both * level
        return out

    def follow_the_last(self) -> bool:
        """Whether the previous target has more than half of the weight, as in a random walk."""
        return bool(self.weights()[-2:].sum() > 0.5)

    def combined(self, bases: Array) -> float:
        return float(((bases[:, None] + self.levels) * self.weights()).sum())

    def update(self, bases: Array, truth: float, weight: float, largest: float | None = None) -> None:
        """Learn from the errors of a row. If it stands apart, ``largest`` is the largest error it may count as."""
        error = truth - bases[:, None]
        size = np.minimum(np.abs(error - self.levels), self.LARGEST_ERROR if largest is None else largest)
        if self.mass > 0.0:
            usual = self.errors / self.mass
            if bases[-2] != bases[-1]:  # after an outlier
                size[-2:] = np.minimum(size[-2:], self.MOST_EVIDENCE * usual.min())
            error[-2:] = np.clip(error[-2:], -self.JUMP * usual[-2:, :1], self.JUMP * usual[-2:, :1])
        self.errors = self.memory * self.errors + weight * size
        self.mass = self.memory * self.mass + weight
        if largest is None:
            self.levels += self.RATES * (error - self.levels)

    def rescale(self, factor: float) -> None:
        """Convert to units in which all values are ``factor`` times as large.

        Values in far larger units, before an early outlier was found, are only rounding: start again.
        """
        if factor > self.LARGEST_RATIO:
            self.forget()
        self.levels *= factor
        self.errors *= factor

    def keep_order(self) -> None:
        """Keep only how the experts compare, as evidence of a few rows whose errors are about one."""
        if self.mass > 0.0:
            relative = np.minimum(self.errors / (self.errors.min() + 1e-300), self.LARGEST_ERROR)
            self.mass = min(self.mass, self.KEPT_ROWS)
            self.levels, self.errors = np.zeros_like(self.levels), self.mass * relative

    def forget(self) -> None:
        """Start again."""
        self.levels, self.errors, self.mass = np.zeros_like(self.levels), np.zeros_like(self.errors), 0.0
