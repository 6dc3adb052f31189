"""Rules for the columns of a boosted candidate: all, screened columns, or the columns that another candidate needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.boosting import Recipe

from .rows import RowsKind
from .training import TrainingRows

__all__ = ["All", "Columns", "Needed", "Scaled", "ScaledFromZero", "Screened"]

Array = NDArray[Any]
Effects = Callable[[str], "Array | None"]
MAX_NEEDED_ROWS = 20_000
FEW_ROWS = 40  # up to which columns are ranked even if all are kept


@dataclass(frozen=True)
class All:
    """All columns."""

    def suits_size(self, n_samples: float) -> bool:
        """Whether the rule applies to this number of rows."""
        return True

    def suits(self, kind: RowsKind) -> bool:
        """Whether the rule applies to rows of this kind."""
        return True

    def select(self, rows: TrainingRows, recipe: Recipe, effects: Effects) -> Array:
        """The columns that the recipe uses on these rows.

        ``effects(name)`` returns the effect of each column on the named candidate, or None if it is not available.
        """
        return np.arange(rows.X.shape[0], dtype=np.int32)

    def prepared(self, rows: TrainingRows, recipe: Recipe, columns: Array, effects: Effects) -> Recipe:
        """The recipe for the selected columns."""
        return recipe


@dataclass(frozen=True)
class Screened(All):
    """The ``max(least, n / rows_per_column)`` columns with the largest effects in a pilot run.

    Trees use the first of several equally good splits. Such splits are common if rows are few or leaves hold a few
    rows only (``ranked``). The columns are then ordered by their effects even if all are kept, so that the order of
    the columns in the data does not matter.
    """

    least: int
    rows_per_column: int
    ranked: bool = False

    def select(self, rows: TrainingRows, recipe: Recipe, effects: Effects) -> Array:
        n_features = rows.X.shape[0]
        keep = max(self.least, int(np.ceil(rows.data.total_weight / self.rows_per_column)))
        if keep >= n_features and not self.ranked and rows.data.total_weight > FEW_ROWS:
            return super().select(rows, recipe, effects)
        ranking, paired = rows.rankings
        if recipe.transform is not None:  # a direction is not a product
            return ranking[:keep]
        kept = np.concatenate([paired, _among(ranking, paired, n_features, False)])[:keep]
        return np.concatenate([_among(ranking, kept, n_features), _among(kept, ranking, n_features, False)])


@dataclass(frozen=True)
class Needed(All):
    """The columns that the candidate named ``of`` needs, largest effect first; all columns if effects are unknown.

    A column is needed if its effect is at least ``share / n`` of the largest one. The effect of a column is the mean
    squared change of the predictions when the column is set to its mean. The rule does not apply to anchored models,
    whose effects are too noisy, or to very many rows, for which hardly any column is superfluous.
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


@dataclass(frozen=True)
class Scaled(Needed):
    """The same, with each column multiplied by the root of its effect relative to the largest, for a Gaussian process.

    Distances then depend mostly on columns that matter.
    """

    def prepared(self, rows: TrainingRows, recipe: Recipe, columns: Array, effects: Effects) -> Recipe:
        found = effects(self.of)
        if found is None or not len(columns):
            return recipe
        scales = np.sqrt(found[columns] / found[columns].max())
        return replace(recipe, learner=replace(recipe.learner, scales=tuple(scales.tolist())))  # type: ignore[type-var]


@dataclass(frozen=True)
class ScaledFromZero(Scaled):
    """The same, for a learner that also uses the zero of the target, in its own units."""

    def prepared(self, rows: TrainingRows, recipe: Recipe, columns: Array, effects: Effects) -> Recipe:
        recipe = super().prepared(rows, recipe, columns, effects)
        zero = -rows.units.y_centre / rows.units.y_spread
        return replace(recipe, learner=replace(recipe.learner, zero=tuple(zero.tolist())))  # type: ignore[type-var]


Columns = All | Screened | Needed | Scaled | ScaledFromZero


def _among(columns: Array, others: Array, n_features: int, wanted: bool = True) -> Array:
    """Columns that are (or are not) among others, without the sorting of ``np.isin``."""
    there = np.zeros(n_features, dtype=bool)
    there[others] = True
    return columns[there[columns] == wanted]
