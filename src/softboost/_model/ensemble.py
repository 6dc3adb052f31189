"""A fitted model in the layout for prediction: one linear part and all trees, in original units, multiplied with Q."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost._boost.soft_tree import SoftTree, flattened
from softboost._data.units import Units

from .member import Member

__all__ = ["Ensemble"]

Array = NDArray[Any]


@dataclass
class Ensemble:
    """``raw = intercept + coefficients x + sum of trees`` on standardised x.

    Trees are ordered by boosting round, so a prefix of the trees is an earlier stage of the model. ``transformed``
    holds the members with a non-linear transform, which is evaluated at prediction.
    """

    units: Units
    intercept: Array  # (n_outputs,)
    coefficients: Array  # (n_outputs, n_columns)
    trees: list[SoftTree]
    round_of_tree: Array
    transformed: list[Member] = field(default_factory=list)
    _packed: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": {}}  # objects of the extension cannot be pickled; rebuilt on first use

    @classmethod
    def build(cls, members: list[Member], units: Units) -> Ensemble:
        """Combine the weighted members."""
        scale = units.y_spread
        n_outputs, n_columns = len(scale), len(units.centre)
        intercept, coefficients = units.y_centre.astype(np.float64), np.zeros((n_outputs, n_columns))
        numbered: list[tuple[int, SoftTree]] = []
        transformed = []
        for member in members:
            linear = member.linear_on_columns()
            intercept = intercept + member.weight * scale * linear.intercepts[0]
            coefficients = coefficients + member.weight * scale[:, None] * linear.coefficients[0]
            trees = member.trees_on_columns()
            if trees is None:
                transformed.append(member)
                continue
            for k, tree in enumerate(trees):
                numbered.append((k, _scaled(tree, member.weight * scale)))
        numbered.sort(key=lambda pair: pair[0])
        rounds = np.array([k for k, _ in numbered], dtype=np.int64)
        return cls(units, intercept, coefficients, [t for _, t in numbered], rounds, transformed)

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds of the longest member."""
        own = int(self.round_of_tree.max()) + 1 if len(self.round_of_tree) else 0
        return max([own, *[member.stage for member in self.transformed]])

    def raw_prediction(self, X: Array, n_threads: int) -> Array:
        """Raw predictions at encoded rows X (n_samples, n_columns), shape (n_samples, n_outputs)."""
        X = np.ascontiguousarray(X)
        raw: Array = self._kernel(X.dtype).predict(X, n_threads)
        for member in self.transformed:
            assert member.boosted is not None
            raw = raw + self._through_transform(member, X, n_threads).sum(axis=0)
        return raw

    def staged_raw_prediction(self, X: Array, n_threads: int) -> Iterator[Array]:
        """Raw predictions after 1, 2, ... rounds; the last is :meth:`raw_prediction` up to rounding."""
        X = np.ascontiguousarray(X)
        raw = self._kernel(X.dtype, with_trees=False).predict(X, n_threads)
        added = self._kernel(X.dtype).predict_each(X, n_threads)
        through = [(m, self._through_transform(m, X, n_threads)) for m in self.transformed]
        for k in range(self.n_rounds):
            raw = raw + added[self.round_of_tree == k].sum(axis=0)
            for member, outputs in through:
                if k < member.stage:
                    raw = raw + outputs[k]
            yield raw

    def _through_transform(self, member: Member, X: Array, n_threads: int) -> Array:
        """Contribution of each round of a member, shape (n_rounds, n_samples, n_outputs)."""
        with np.errstate(over="ignore"):  # columns are clipped
            z = self.units.within(self.units.standardised(X))
        return self._outputs(member, z, n_threads).transpose(0, 2, 1).astype(X.dtype)

    def _outputs(self, member: Member, z: Array, n_threads: int = 1) -> Array:
        """Contribution of each round at standardised z (n_columns, n_samples): (n_rounds, n_outputs, n_samples)."""
        assert member.boosted is not None
        theta = member.boosted.rounds[0][0]
        z = z if member.anchor is None else member.anchor.view(z)
        z = np.ascontiguousarray(z, dtype=z.dtype if theta is None else theta.dtype)
        return member.boosted.outputs(z, n_threads)[: member.stage] * (member.weight * self.units.y_spread)[:, None]

    def _kernel(self, dtype: Any, with_trees: bool = True) -> Any:
        key = (np.dtype(dtype).name, with_trees)
        if key not in self._packed:
            self._packed[key] = _kernels.pack_ensemble(dtype, **self.arrays(with_trees))
        return self._packed[key]

    def arrays(self, with_trees: bool = True) -> dict[str, Array]:
        """The arrays needed for prediction, concatenated over the trees, as in the kernel and in a model file."""
        limits = {"low": self.units.low, "high": self.units.high}
        return {
            "offset": self.units.centre,
            "scale": 1.0 / self.units.spread,
            **{name: limit for name, limit in limits.items() if limit is not None},
            "intercept": self.intercept,
            "coefficients": self.coefficients,
            **flattened(self.trees if with_trees else []),
        }

    def column_importances(self) -> Array:
        """Importance of each standardised column, shape (n_columns,), not normalised.

        It is the sum of the absolute slope of the linear part and, for each tree, the standard deviation of its leaf
        values, divided among the columns in proportion to their absolute gate weights, and the mean absolute slope of
        its leaves. For hard trees and non-linear transforms it is the mean absolute change of the prediction at random
        rows when the column takes another value.
        """
        importance = np.abs(self.coefficients).sum(axis=0)
        for tree in self.trees:
            gates = np.abs(tree.gate_weights).sum(axis=0)
            if gates.sum() > 0:
                importance[tree.columns] += gates / gates.sum() * np.std(tree.leaf_values, axis=0).sum()
            if tree.leaf_weights is not None:
                importance[tree.columns] += np.abs(tree.leaf_weights).mean(axis=0).sum(axis=0)
        for member in self.transformed:
            importance += self._changes(member)
        return importance

    def _changes(self, member: Member, n_rows: int = 64) -> Array:
        rng = np.random.default_rng(0)
        n_columns = len(self.units.centre)
        z, other = rng.normal(size=(2, n_columns, n_rows))
        changed = np.repeat(z[:, None], n_columns, axis=1)
        changed[np.arange(n_columns), np.arange(n_columns)] = other
        before = self._outputs(member, z).sum(axis=0)
        after = (
            self._outputs(member, changed.reshape(n_columns, -1)).sum(axis=0).reshape(len(before), n_columns, n_rows)
        )
        return np.abs(after - before[:, None]).mean(axis=2).sum(axis=0)


def _scaled(tree: SoftTree, scale: Array) -> SoftTree:
    slopes = None if tree.leaf_weights is None else tree.leaf_weights * scale[None, :, None]
    return SoftTree(tree.depth, tree.columns, tree.gate_weights, tree.gate_bias, tree.leaf_values * scale, slopes)
