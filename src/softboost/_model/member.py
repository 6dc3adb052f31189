"""One part of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from softboost._boost.boosting import Boosted
from softboost._boost.soft_tree import SoftTree
from softboost._linear.anchor import Anchor
from softboost._linear.path import LinearPath

__all__ = ["Member"]

Array = NDArray[Any]


@dataclass
class Member:
    """One part of the final model: a linear model, the boosting rounds up to ``stage``, and an ensemble weight.

    With an ``anchor``, both parts are models of its anchored view.
    """

    name: str
    weight: float
    stage: int
    linear: LinearPath
    boosted: Boosted | None = None
    anchor: Anchor | None = None

    def linear_on_columns(self) -> LinearPath:
        """The linear part as a model of the original columns."""
        return self.linear if self.anchor is None else self.anchor.unview_path(self.linear)

    def trees_on_columns(self) -> list[SoftTree] | None:
        """The trees on the original columns, with transform and view multiplied in; None if not linear."""
        if self.boosted is None:
            return []
        trees = self.boosted.trees_on_columns(self.stage)
        if trees is None or self.anchor is None:
            return trees
        a = self.anchor
        return [tree.shifted(a.column, a.scale, a.share, a.shift) for tree in trees]
