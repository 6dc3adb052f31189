"""Which columns a boosted candidate sees: all, those that a screen lets through, or those that another one needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.boosting import Recipe

from .rows import RowsKind
from .training import TrainingRows

__all__ = ["All", "Columns", "Needed", "Screened"]

Array = NDArray[Any]
Effects = Callable[[str], "Array | None"]
MAX_NEEDED_ROWS = 20_000


@dataclass(frozen=True)
class All:
    """All columns."""

    def suits_size(self, n_samples: float) -> bool:
        """Whether the rule works on that many rows."""
        return True

    def suits(self, kind: RowsKind) -> bool:
        """Whether the rule works on rows of this kind."""
        return True

    def select(self, rows: TrainingRows, recipe: Recipe, effects: Effects) -> Array:
        """The columns that the recipe sees on these rows.

        ``effects(name)`` says how much the candidate of that name depends on each column, None where it is not there
        or cannot say.
        """
        return np.arange(rows.X.shape[0], dtype=np.int32)


@dataclass(frozen=True)
class Screened(All):
    """The ``max(least, n / rows_per_column)`` columns that a pilot run depends on most.

    ``ranked`` orders the columns by that even where all are kept: trees with leaves of a few rows find many splits
    equally good and take the first.
    """

    least: int
    rows_per_column: int
    ranked: bool = False

    def select(self, rows: TrainingRows, recipe: Recipe, effects: Effects) -> Array:
        n_features = rows.X.shape[0]
        keep = max(self.least, int(np.ceil(rows.data.total_weight / self.rows_per_column)))
        if keep >= n_features and not self.ranked:
            return super().select(rows, recipe, effects)
        ranking, paired = rows.rankings
        if recipe.transform is not None:  # a direction is not a product
            return ranking[:keep]
        kept = np.concatenate([paired, _among(ranking, paired, n_features, False)])[:keep]
        return np.concatenate([_among(ranking, kept, n_features), _among(kept, ranking, n_features, False)])


@dataclass(frozen=True)
class Needed(All):
    """The columns that the candidate named ``of`` needs, most needed first; all where it cannot say.

    Those with an effect of at least ``share / n`` of the largest one: the larger the share, the fewer. The effect of a
    column is the mean squared change of predictions when the column stays at its mean. In the view of changes effects
    are too noisy, and on very many rows there are hardly any superfluous columns left.
    """

    of: str
    share: float

    def suits_size(self, n_samples: float) -> bool:
        return n_samples <= MAX_NEEDED_ROWS

    def suits(self, kind: RowsKind) -> bool:
        return not kind.anchored

    def select(self, rows: TrainingRows, recipe: Recipe, effects: Effects) -> Array:
        found = effects(self.of)
        if found is None:
            return super().select(rows, recipe, effects)
        order = np.argsort(-found, kind="stable")
        found = found[order]
        least = self.share / rows.data.total_weight * found[0]
        return order[(found >= least) & (found > 0)].astype(np.int32)


Columns = All | Screened | Needed


def _among(columns: Array, others: Array, n_features: int, wanted: bool = True) -> Array:
    """Columns that are among others, or that are not; ``np.isin`` would sort them first."""
    there = np.zeros(n_features, dtype=bool)
    there[others] = True
    return columns[there[columns] == wanted]
