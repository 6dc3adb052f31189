"""The candidates of the model selection: a table with one row each.

A row gives the name of a candidate, an explanation, its level on the ladder of evidence
(:mod:`softboost._choice.ladder`), how it is fitted, which columns it uses and when it applies. To add a candidate, add
a row: ``choice_``, reports and ``docs/choice.md`` take names and explanations from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.anisotropic import AnisotropicProcess
from softboost._boost.boosting import Recipe
from softboost._boost.forest import ExtraTrees
from softboost._boost.gaussian_process import GaussianProcess
from softboost._boost.gradient import GradientTrees
from softboost._boost.greedy import GreedyTrees
from softboost._linear.autoregression import fit_autoregression
from softboost._linear.path import LinearPath
from softboost._linear.robust import fit_robust
from softboost.transforms import Linear

from .columns import All, Columns, Needed, Scaled, ScaledFromZero, Screened
from .rows import RowsKind, find_anchor
from .training import TrainingRows

__all__ = [
    "CANDIDATES",
    "CONSTANT",
    "FLEXIBLE",
    "RIDGE",
    "TREES",
    "TWO_INDICES",
    "Candidate",
    "Rounds",
    "Trees",
    "about",
    "competing",
]

Array = NDArray[Any]
ANCHORED = "anchored "  # prefix of the names of anchored candidates
OF_CHANGES = ", fitted to the change since the anchor column"
ALL_COLUMNS = All()
MAX_FOREST_ROWS = 5000  # of extra trees, which have a leaf for each row
MAX_PROCESS_ROWS = 500  # of a Gaussian process, whose time grows with the cube of the number of rows
MAX_ANISOTROPIC_ROWS = 2000  # of those with a length for each column, which are sums over some of the rows


# -- the type of a row -------------------------------------------------------------------------------------------------


def always(kind: RowsKind) -> bool:
    """Applies to all rows."""
    return True


@dataclass(frozen=True)
class Rounds:
    """Number of boosting rounds, ``per_row * n`` within limits; more rows support more rounds."""

    per_row: float
    least: int
    most: int

    def __call__(self, n_samples: float) -> int:
        return int(np.clip(self.per_row * n_samples, self.least, self.most))


@dataclass(frozen=True)
class Trees:
    """Number of trees of a forest, ``enough / n`` within limits; on few rows a mean of more trees is affordable."""

    enough: float
    least: int
    most: int

    def __call__(self, n_samples: float) -> int:
        return int(np.clip(self.enough / n_samples + 1e-9, self.least, self.most))


@dataclass(frozen=True)
class Candidate:
    """One row of the table.

    Attributes
    ----------
    name : str
        Name in ``choice_``; an anchored candidate has the prefix "anchored".
    about : str
        Explanation in one line.
    level : str
        Level, which determines its rungs on the ladder.
    fit : callable or Recipe
        A function of :class:`TrainingRows` that returns a linear path, or the recipe of a boosted model.
    columns : All, Screened, Needed or Scaled
        Rule for the columns of a boosted candidate.
    when : callable
        Whether it applies to rows of a kind.
    rounds : Rounds or None
        Number of rounds of a boosted candidate; None uses that of its recipe.
    trees : Trees or None
        Number of trees of a forest; None uses that of its learner.
    most_rows : float
        Number of rows up to which it competes.
    raced : bool
        Whether it is given up after two folds if it is far behind; see :meth:`softboost._choice.judge.Judge.boosted`.
    of_changes : bool
        Whether the candidate always models changes, so that it has the same name if it is anchored.
    scout : bool
        Whether the candidate takes part in the comparison of levels and changes, for which it must be fast.
    """

    name: str
    about: str
    level: str
    fit: Callable[[TrainingRows], LinearPath] | Recipe
    columns: Columns = ALL_COLUMNS
    when: Callable[[RowsKind], bool] = always
    rounds: Rounds | None = None
    trees: Trees | None = None
    most_rows: float = float("inf")
    raced: bool = False
    of_changes: bool = False
    scout: bool = True

    @property
    def is_boosted(self) -> bool:
        return isinstance(self.fit, Recipe)

    def applies(self, kind: RowsKind) -> bool:
        """Whether the candidate applies to rows of this kind."""
        return self.when(kind) and self.columns.suits(kind)

    @property
    def recipe(self) -> Recipe:
        """The recipe of a boosted candidate."""
        assert isinstance(self.fit, Recipe)
        return self.fit

    def linear_path(self, rows: TrainingRows) -> LinearPath:
        """Fit it to the rows; for linear candidates only."""
        assert not isinstance(self.fit, Recipe)
        return self.fit(rows)

    def name_in(self, kind: RowsKind) -> str:
        """The name for rows of this kind."""
        return f"{ANCHORED}{self.name}" if kind.anchored and not self.of_changes else self.name

    def with_recipe(self, **changes: Any) -> Candidate:
        """The candidate with a changed recipe."""
        return replace(self, fit=replace(self.recipe, **changes))

    def sized(self, n_samples: float) -> Candidate:
        """The candidate with the numbers of rounds and trees for a data set of this size."""
        changes: dict[str, Any] = {}
        if self.rounds:
            changes["n_estimators"] = self.rounds(n_samples)
        if self.trees:
            changes["learner"] = replace(self.recipe.learner, n_trees=self.trees(n_samples))  # type: ignore[type-var]
        return self.with_recipe(**changes) if changes else self


# -- when a candidate applies ------------------------------------------------------------------------------------------


def tables(kind: RowsKind) -> bool:
    """Applies to tables."""
    return not kind.in_time


def positive_tables(kind: RowsKind) -> bool:
    """Applies to tables whose targets are all positive."""
    return not kind.in_time and kind.positive


def levels(kind: RowsKind) -> bool:
    """Applies if levels are modelled."""
    return not kind.anchored


def changes(kind: RowsKind) -> bool:
    """Applies to anchored models."""
    return kind.anchored


def one_series(kind: RowsKind) -> bool:
    """Applies to time-ordered rows with one output."""
    return kind.in_time and kind.n_outputs == 1


# -- how linear candidates are fitted ----------------------------------------------------------------------------------


def fit_constant(rows: TrainingRows) -> LinearPath:
    """The mean; for losses with a link, the constant that minimises the loss."""
    return rows.linear_models.constant if rows.loss.scales_with_y else rows.flat(rows.constant())


def fit_no_change(rows: TrainingRows) -> LinearPath:
    """A change of zero, which is persistence in the anchored view."""
    return rows.flat(np.zeros(len(rows.y)))


def fit_robust_lasso(rows: TrainingRows) -> LinearPath:
    """The relaxed lasso with outliers downweighted."""
    return fit_robust(rows.X, rows.y, rows.weight, rows.linear_models.relaxed, rows.n_threads)


def fit_next_change(rows: TrainingRows) -> LinearPath:
    """The autoregression, which always models the change since the last value, as a linear model of the view."""
    lags = rows.kind.lags
    if lags is None:
        assert rows.anchor is not None
        lags = (np.arange(len(rows.X)) == rows.anchor.column).astype(int)
    last_value = rows.anchor or find_anchor(rows.X, rows.y, rows.weight, rows.units, lags)
    X, y = rows.X, rows.y
    if rows.anchor is None:
        X, y = last_value.view(X), y - last_value.level(X)
    view = last_value.origin(rows.units), last_value.step(rows.units), lags
    path = fit_autoregression(X, y, rows.weight, *view, rows.n_threads)
    return path if rows.anchor is not None else last_value.unview_path(path)


# -- the table ---------------------------------------------------------------------------------------------------------

_SOFT: dict[str, Any] = {"sharpness": (1.0, 3.0, 8.0, 25.0), "ridge": (0.3, 3.0)}
FLEXIBLE = GreedyTrees(depth=2, n_extra_columns=2, detrended_candidate=True, **_SOFT)
STEPPED = GreedyTrees(depth=2, leaves="constant", sharpness=(8.0, 100.0), ridge=(1.0,))
DEEP = GreedyTrees(3, False, "constant", sharpness=(100.0,), ridge=(0.1,), min_leaf_rows=1.0)
PLAIN = GreedyTrees(depth=2, **_SOFT)
QUADRATIC = GaussianProcess(
    lengths=(1.0,), noises=tuple(np.logspace(-10, 2, 13).tolist()), limit=100.0, covariance="quadratic"
)
INDEX = GradientTrees(depth=1, leaves="linear", gates="greedy", solve_leaves=True, weight_decay=1e-3)


def _boosted(
    name: str, about: str, recipe: Recipe, columns: Columns = ALL_COLUMNS, scout: bool = False, **others: Any
) -> Candidate:
    return Candidate(name, about, "boosted", replace(recipe, name=name), columns, scout=scout, **others)


CONSTANT = Candidate("constant", "the mean, or the best constant under the loss", "constant", fit_constant, when=levels)
RIDGE = Candidate("ridge", "ridge regression", "linear", lambda rows: rows.linear_models.ridge)
TREES = _boosted(
    "trees",
    "soft trees of depth 1 or 2 with linear leaves, on screened columns",
    Recipe("", FLEXIBLE, learning_rate=0.2),
    Screened(6, 16),
    rounds=Rounds(0.3, 30, 150),
)
TWO_INDICES = _boosted(
    "two indices",
    "trees on two learned directions z = Q x of screened columns",
    Recipe("", INDEX, Linear(2, "supervised", group_lasso=1.0), 8, 0.5),
    Screened(8, 8),
)
CANDIDATES = (
    Candidate(
        "autoregression",
        "Bayesian ridge autoregression of the next change, averaged over penalties and priors",
        "autoregression",
        fit_next_change,
        when=one_series,
        of_changes=True,
    ),
    Candidate(
        "persistence",
        "the anchor column, usually the last value of a series",
        "last value",
        fit_no_change,
        when=changes,
        of_changes=True,
    ),
    CONSTANT,
    Candidate("drift", "the anchor column plus the mean change", "linear", fit_constant, when=changes, of_changes=True),
    RIDGE,
    Candidate("lasso", "lasso", "linear", lambda rows: rows.linear_models.lasso),
    Candidate(
        "relaxed",
        "relaxed lasso: least squares on the columns that the lasso selects",
        "linear",
        lambda rows: rows.linear_models.relaxed,
    ),
    Candidate(
        "robust", "relaxed lasso with outliers downweighted", "linear", fit_robust_lasso, when=levels, scout=False
    ),
    TREES,
    _boosted(
        "steps",
        "nearly hard trees of depth 1 or 2 with constant leaves, on screened columns",
        Recipe("", STEPPED, learning_rate=0.2),
        Screened(6, 16),
        rounds=Rounds(0.3, 80, 150),
    ),
    # not for time-ordered rows, whose future rows resemble the validation rows less
    _boosted(
        "deep steps",
        "nearly hard trees of depth 3 with leaves down to a single row",
        Recipe("", DEEP, learning_rate=0.3),
        Screened(12, 6, ranked=True),
        rounds=Rounds(0.15, 40, 75),
        when=tables,
    ),
    # few-column candidates correspond to the relaxed lasso: they refit on the columns that another candidate needs
    _boosted(
        "few-column trees",
        "like trees, on the few columns that it needs",
        Recipe("", FLEXIBLE, learning_rate=0.2),
        Needed("trees", 8.0),
        rounds=Rounds(0.3, 30, 150),
    ),
    _boosted(
        "linear+trees",
        "soft trees on the residuals of the best linear model",
        Recipe("", PLAIN, learning_rate=0.2, start="linear"),
        Screened(8, 8),
        rounds=Rounds(0.15, 15, 75),
        scout=True,
    ),
    _boosted(
        "linear+few-column trees",
        "like linear+trees, on the few columns that trees needs",
        Recipe("", PLAIN, learning_rate=0.2, start="linear"),
        Needed("trees", 8.0),
        rounds=Rounds(0.15, 15, 75),
        when=tables,
    ),
    TWO_INDICES,
    _boosted(
        "few-column indices",
        "like two indices, on the few columns that it needs",
        Recipe("", INDEX, Linear(2, "supervised", group_lasso=0.2), 8, 0.5),
        Needed("two indices", 2.0),
    ),
    _boosted(
        "dense index",
        "trees on one learned direction of all columns",
        Recipe("", INDEX, Linear(1, "supervised", group_lasso=0.2), 8, 0.5),
    ),
    _boosted(
        "gaussian process",
        "Gaussian process on the residuals of the best linear model, with columns scaled by their effects on trees",
        Recipe("", GaussianProcess(), None, 1, 1.0, "linear"),
        Scaled("trees", 1e-3),
        when=tables,
        most_rows=MAX_PROCESS_ROWS,
    ),
    _boosted(
        "quadratic",
        "ridge regression on the few columns that trees needs, their squares and their products",
        Recipe("", QUADRATIC, None, 1, 1.0),
        Needed("trees", 0.5),
        when=tables,
        most_rows=MAX_PROCESS_ROWS,
        raced=True,
    ),
    _boosted(
        "extra trees",
        "mean of deep trees with random thresholds",
        Recipe("", ExtraTrees(), None, 1, 1.0),
        Screened(12, 6, ranked=True),
        trees=Trees(12_800, 32, 128),
        when=tables,
        most_rows=MAX_FOREST_ROWS,
        raced=True,
    ),
    _boosted(
        "linear+extra trees",
        "extra trees on the residuals of the best linear model",
        Recipe("", ExtraTrees(), None, 1, 1.0, "linear"),
        Screened(12, 6, ranked=True),
        when=tables,
        most_rows=MAX_FOREST_ROWS,
        raced=True,
    ),
    _boosted(
        "anisotropic process",
        "Gaussian process with a length for each column",
        Recipe("", AnisotropicProcess(), None, 1, 1.0, "zero"),
        Scaled("trees", 1e-3),
        when=tables,
        most_rows=MAX_ANISOTROPIC_ROWS,
        raced=True,
    ),
    _boosted(
        "logarithmic process",
        "like anisotropic process, for the logarithm of a positive target",
        Recipe("", AnisotropicProcess(), None, 1, 1.0, "zero"),
        ScaledFromZero("trees", 1e-3),
        when=positive_tables,
        most_rows=MAX_ANISOTROPIC_ROWS,
        raced=True,
    ),
    # the last one: smooth models that are far better end its race
    _boosted(
        "few-column extra trees",
        "like extra trees, on the columns of the largest effects on trees",
        Recipe("", ExtraTrees(), None, 1, 1.0),
        Needed("trees", 50.0),
        when=tables,
        most_rows=MAX_FOREST_ROWS,
        raced=True,
    ),
)


def competing(total_weight: float, n_rows: int = 0) -> list[Candidate]:
    """The candidates for a data set of this size, with their numbers of rounds and trees.

    The sum of the weights determines the size. Small weights may make it less than the number of rows, which limits
    candidates of many operations.
    """
    return [
        candidate.sized(total_weight)
        for candidate in CANDIDATES
        if candidate.columns.suits_size(total_weight) and max(total_weight, n_rows) <= candidate.most_rows
    ]


def about(name: str) -> str | None:
    """The explanation of a name in ``choice_``; None if it is not in the table, such as a recipe set by the user."""
    found = {candidate.name: candidate.about for candidate in CANDIDATES}
    if name in found:
        return found[name]
    own = name.removeprefix(ANCHORED)
    return f"{found[own]}{OF_CHANGES}" if own in found else None
