"""How the default chooses: several plain boosted recipes, judged out of fold and combined.

Level 0 are linear models (``_linear``), level 1 boosted recipes (``_boost``). Every candidate is fitted on each
fold's training rows and judged on the rows left out. Pooled over folds, these out-of-fold losses choose

1. the stage of each candidate (its penalty, or its number of rounds),
2. the weights of the candidates, non-negative and summing to one,
3. how far to trust them: a richer level has to beat a simpler one by more than its own noise.

Only candidates of positive weight are then fitted on all rows. Nothing here is random beyond the fold assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from softboost._boost.boosting import Boosted, Recipe, boost
from softboost._boost.gradient import GradientTrees
from softboost._boost.greedy import GreedyTrees
from softboost._boost.learner import TrainingData
from softboost._boost.screening import paired_columns, pilot_ranking
from softboost._data.units import Units
from softboost._linear.autoregression import fit_autoregression
from softboost._linear.models import fit_linear_models
from softboost._linear.path import LinearPath
from softboost._linear.robust import fit_robust
from softboost._model.member import Member
from softboost.losses import Loss, SquaredError
from softboost.transforms import Linear

from .rows import RowsKind, find_anchor

__all__ = ["Choice", "candidate_recipes", "choose", "fit_member"]

Array = NDArray[Any]
Fold = tuple[Array, Array]
MAX_NARROWED_ROWS = 20_000
ROWS_AT_ONCE = 1024  # with fewer rows a recipe is over before anyone minds waiting for it
DOUBT = 10.0  # with few rows judged a t value means less; so many standard errors times rows are asked for on top


def candidate_recipes(n_samples: float) -> list[Recipe]:
    """The boosted recipes of the default; constants are one setting for all data.

    With more rows trees may be more (a round learns little, so rounds grow with what there is to learn), and the
    screens below let more columns through until they let all through. Few-column recipes are what a relaxed lasso is to
    the lasso: the same again on the columns that the wide one needed, without the noise of the others. With very many
    rows there is none to speak of.
    """
    n_trees = int(np.clip(0.3 * n_samples, 30, 150))
    soft: dict[str, Any] = {"sharpness": (1.0, 3.0, 8.0, 25.0), "ridge": (0.3, 3.0)}
    flexible = GreedyTrees(depth=2, n_extra_columns=2, detrended_candidate=True, **soft)
    stepped = GreedyTrees(depth=2, leaves="constant", sharpness=(8.0, 100.0), ridge=(1.0,))
    deep = GreedyTrees(3, False, "constant", sharpness=(100.0,), ridge=(0.1,), min_leaf_rows=1.0)
    plain = GreedyTrees(depth=2, **soft)
    index = GradientTrees(depth=1, leaves="linear", gates="greedy", solve_leaves=True, weight_decay=1e-3)
    one, two = Linear(1, "supervised", group_lasso=0.2), Linear(2, "supervised", group_lasso=0.2)
    two_of_many = Linear(2, "supervised", group_lasso=1.0)
    few = ("trees", 8.0)
    recipes = [
        Recipe("trees", flexible, None, n_trees, 0.2, "constant", (6, 16)),
        Recipe("steps", stepped, None, max(80, n_trees), 0.2, "constant", (6, 16)),
        Recipe("deep steps", deep, None, max(40, n_trees // 2), 0.3, "constant", (12, 6), for_tables=True),
        Recipe("few-column trees", flexible, None, n_trees, 0.2, "constant", narrow=few),
        Recipe("linear+trees", plain, None, max(15, n_trees // 2), 0.2, "linear", (8, 8)),
        Recipe(
            "linear+few-column trees", plain, None, max(15, n_trees // 2), 0.2, "linear", None, few, for_tables=True
        ),
        Recipe("two indices", index, two_of_many, 8, 0.5, "constant", (8, 8)),
        Recipe("few-column indices", index, two, 8, 0.5, "constant", narrow=("two indices", 2.0)),
        Recipe("dense index", index, one, 8, 0.5, "constant", None),
    ]
    return [recipe for recipe in recipes if recipe.narrow is None or n_samples <= MAX_NARROWED_ROWS]


class Fit:
    """One set of training rows in one view, with what all candidates share on it: bins, linear models, rankings.

    In the anchored view X and y are differences to the anchor (see :class:`softboost._linear.anchor.Anchor`).
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        units: Units,
        loss: Loss,
        n_threads: int,
        kind: RowsKind | None = None,
        recipes: Sequence[Recipe] = (),
    ) -> None:
        self.kind = RowsKind(n_outputs=len(y)) if kind is None else kind
        self.anchor = find_anchor(X, y, weight, units, self.kind.lags) if self.kind.anchored else None
        if self.anchor is not None:
            y = np.ascontiguousarray(y - self.anchor.level(X)).astype(y.dtype)
        self.X, self.y, self.weight, self.units = self.see(X), y, weight, units
        self.loss, self.n_threads = loss, n_threads
        self.data = TrainingData(self.X, weight, n_threads)
        self._linear: dict[str, LinearPath] | None = None
        self._rankings: tuple[Array, Array] | None = None
        narrowing = {recipe.narrow[0] for recipe in recipes if recipe.narrow is not None}
        self._narrowing = {recipe.name: recipe for recipe in recipes if recipe.name in narrowing}
        self._narrowing_models: dict[str, tuple[LinearPath, Boosted]] = {}
        self._effects: dict[str, Array | None] = {}

    def see(self, X: Array) -> Array:
        """X in the view of this fit."""
        return X if self.anchor is None else np.ascontiguousarray(self.anchor.view(X)).astype(X.dtype)

    def level(self, X: Array) -> Array | float:
        """What predictions of this view are relative to, at X as it came."""
        return 0.0 if self.anchor is None else self.anchor.level(X)

    @property
    def linear(self) -> dict[str, LinearPath]:
        """Linear models, shifted by a constant where the loss asks for another centre than the mean.

        Where the raw prediction is not in the units of y (log links), only the constant.
        """
        if self._linear is None and not self.loss.scales_with_y:
            n_outputs, n_features = self.y.shape[0], self.X.shape[0]
            self._linear = {"constant": LinearPath(np.zeros((1, n_outputs, n_features)), self.constant()[None])}
        if self._linear is None:
            rows = self.X, self.y, self.weight
            self._linear = fit_linear_models(*rows, self.n_threads)
            if self.anchor is None:
                self._linear["robust"] = fit_robust(*rows, self._linear["relaxed"], self.n_threads)
            if self.kind.lags is not None:
                self._linear["autoregression"] = self._autoregression(self.kind.lags)
            elif self.anchor is not None and len(self.y) == 1:
                only_the_last = (np.arange(len(self.X)) == self.anchor.column).astype(int)
                self._linear["autoregression"] = self._autoregression(only_the_last)
            if not isinstance(self.loss, SquaredError):
                for path in self._linear.values():
                    self._recentre(path)
        return self._linear

    def _autoregression(self, lags: Array) -> LinearPath:
        """As a linear model of this view, though it is always one of changes since the last value."""
        last_value = self.anchor or find_anchor(self.X, self.y, self.weight, self.units, lags)
        X, y = self.X, self.y
        if self.anchor is None:
            X, y = last_value.view(X), y - last_value.level(X)
        view = last_value.origin(self.units), last_value.step(self.units), lags
        path = fit_autoregression(X, y, self.weight, *view, self.n_threads)
        return path if self.anchor is not None else last_value.unview_path(path)

    def _recentre(self, path: LinearPath) -> None:
        residual = self.y[None] - path.predict(self.X)
        for stage in range(residual.shape[0]):
            for o in range(residual.shape[1]):
                path.intercepts[stage, o] += self.loss.fit_intercept_only(residual[stage, o], self.weight)

    def constant(self) -> Array:
        """The best constant raw prediction of each output."""
        return np.array([self.loss.fit_intercept_only(row, self.weight) for row in self.y])

    def start(self, recipe: Recipe, linear: tuple[str, int] | None) -> LinearPath:
        """y_hat_0 of a recipe as a linear model of one stage."""
        n_outputs, n_features = self.y.shape[0], self.X.shape[0]
        if recipe.start == "linear" and linear is not None:
            return self.linear[linear[0]].stage(linear[1])
        intercept = np.zeros(n_outputs) if recipe.start == "zero" else self.constant()
        return LinearPath(np.zeros((1, n_outputs, n_features)), intercept[None])

    def rankings(self) -> tuple[Array, Array]:
        """Columns by what they tell of y, best first, and those that tell it by their products."""
        if self._rankings is None:
            raw = np.repeat(self.constant()[:, None], self.y.shape[1], axis=1).astype(self.y.dtype)
            residual = np.ascontiguousarray(-self.loss.gradient(self.y, raw), dtype=self.y.dtype)
            # changes are too noisy for products
            paired = paired_columns(self.data, residual) if self.anchor is None else np.empty(0, dtype=np.int32)
            self._rankings = pilot_ranking(self.data, residual), paired
        return self._rankings

    def columns(self, recipe: Recipe) -> Array:
        """Columns that the recipe's screen lets through."""
        n_features = self.X.shape[0]
        if recipe.screen is None:
            return np.arange(n_features, dtype=np.int32)
        least, rows_per_column = recipe.screen
        keep = max(least, int(np.ceil(self.data.total_weight / rows_per_column)))
        # splits of a few rows tie all the time: the better column wins then, not the one that comes first
        if keep >= n_features and not recipe.for_tables:
            return np.arange(n_features, dtype=np.int32)
        ranking, paired = self.rankings()
        if recipe.transform is not None:  # a direction is no product
            return ranking[:keep]
        kept = np.concatenate([paired, _among(ranking, paired, n_features, False)])[:keep]
        return np.concatenate([_among(ranking, kept, n_features), _among(kept, ranking, n_features, False)])

    def needed(self, name: str, share: float, linear: tuple[str, int] | None, seed: int) -> Array:
        """Columns that the recipe of this name needs, most needed first; all where that cannot be said.

        Those without which its predictions change, on average of squares, by ``share / n`` or more of what they do
        without the column that they need most.
        """
        if name not in self._effects and name in self._narrowing:
            _, model = self.boost(self._narrowing[name], linear, seed)
            self._effects[name] = model.effects(self.data)
        effects = self._effects.get(name)
        if effects is None:
            return np.arange(self.X.shape[0], dtype=np.int32)
        order = np.argsort(-effects, kind="stable")
        effects = effects[order]
        least = share / self.data.total_weight * effects[0]
        return order[(effects >= least) & (effects > 0)].astype(np.int32)

    def boost(
        self, recipe: Recipe, linear: tuple[str, int] | None, seed: int, **kwargs: Any
    ) -> tuple[LinearPath, Boosted]:
        """Fit one boosted recipe; returns where it started and its rounds."""
        narrows = self._narrowing.get(recipe.name) == recipe
        if narrows and recipe.name in self._narrowing_models:
            return self._narrowing_models[recipe.name]
        start = self.start(recipe, linear)
        raw = start.predict(self.X)[0].astype(self.X.dtype)
        columns = self.columns(recipe) if recipe.narrow is None else self.needed(*recipe.narrow, linear, seed)
        if hasattr(kwargs.get("after_round"), "begin"):
            kwargs["after_round"].begin(start)
        rng = np.random.default_rng(seed)
        model = boost(
            recipe, self.X, self.y, self.weight, self.loss, raw,
            columns=columns, rng=rng, n_threads=self.n_threads, **kwargs,
        )  # fmt: skip
        if narrows:
            self._narrowing_models[recipe.name] = start, model
        return start, model


def _among(columns: Array, others: Array, n_features: int, wanted: bool = True) -> Array:
    """Columns that are among others, or that are not; ``np.isin`` would sort them first."""
    there = np.zeros(n_features, dtype=bool)
    there[others] = True
    return columns[there[columns] == wanted]


@dataclass
class Choice:
    """What was chosen and why; kept on the fitted model as ``choice_``.

    Attributes
    ----------
    weights : dict of str to float
        Weight of each candidate in the final model; zeros left out.
    stages : dict of str to int
        Chosen stage of each candidate: rounds, or the number of the penalty.
    losses : dict of str to float
        Out-of-fold loss of each candidate at its stage (mean over judged rows, units of standardised y).
    loss : float
        The same for the combination.
    n_folds, n_judged : int
        Folds, and rows that were judged.
    """

    weights: dict[str, float] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    loss: float = float("nan")
    n_folds: int = 0
    n_judged: int = 0

    def describe(self) -> str:
        """One line that says what was chosen."""
        parts = sorted(self.weights.items(), key=lambda item: -item[1])
        text = ", ".join(f"{100 * w:.0f}% {name} (stage {self.stages[name]})" for name, w in parts)
        return f"chose {text}; judged on {self.n_judged} rows in {self.n_folds} folds"


@dataclass(eq=False)
class _Judged:
    """Out-of-fold predictions of one candidate at its chosen stage, and what they cost."""

    model: str
    anchored: bool
    stage: int
    prediction: Array  # (n_outputs, n_judged)
    row_loss: Array  # (n_judged,)

    @property
    def name(self) -> str:
        if self.anchored:
            own = {"zero": "persistence", "constant": "drift", "autoregression": "autoregression"}
            return own.get(self.model, f"anchored {self.model}")
        return self.model


LEVEL_MODELS = ("constant", "ridge", "lasso", "relaxed", "robust")
ANCHORED_MODELS = ("zero", "constant", "ridge", "lasso", "relaxed")


def choose(
    X: Array,
    y: Array,
    weight: Array | None,
    loss: Loss,
    recipes: Sequence[Recipe],
    folds: Sequence[Fold],
    units: Units,
    *,
    linear_level: bool = True,
    kind: RowsKind,
    fixed_rounds: bool = False,
    seed: int = 0,
    n_threads: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[Member], Choice]:
    """Judge all candidates out of fold, combine them, and fit those that count on all rows.

    The autoregression is the simplest model of a series.
    """
    anchored, in_time = kind.anchored, kind.in_time
    # changes are too noisy to tell which columns are needed
    recipes = [recipe for recipe in recipes if not ((recipe.for_tables and in_time) or (recipe.narrow and anchored))]
    judge = _Judge(X, y, weight, loss, folds, units, kind, recipes, seed, n_threads, progress)
    names = (ANCHORED_MODELS if anchored else LEVEL_MODELS) if linear_level else ("constant",)
    if in_time and len(y) == 1 and loss.scales_with_y:
        names = ("autoregression", *names)
    linear = judge.linear_candidates(names)
    best = min(linear, key=lambda c: float(np.average(c.row_loss, weights=judge.weight)))
    start = (best.model, best.stage) if linear_level else None
    boosted = judge.boosted_candidates(recipes, start, fixed_rounds)
    weights = combine(linear, boosted, judge.y, judge.weight, loss, kind)
    everyone = linear + boosted
    by_name = {recipe.name: recipe for recipe in recipes}
    full = Fit(X, y, weight, units, loss, n_threads, kind, recipes)
    members = []
    for candidate, w in zip(everyone, weights, strict=True):
        if w <= 0:
            continue
        progress(f"fitting {candidate.name} on all rows")
        if candidate.model in by_name:
            recipe = replace(by_name[candidate.model], n_estimators=candidate.stage)
            origin, model = full.boost(recipe, start, seed)
            model = model.first(candidate.stage)
            members.append(Member(candidate.name, float(w), candidate.stage, origin, model, full.anchor))
        else:
            origin = full.linear[candidate.model].stage(candidate.stage)
            members.append(Member(candidate.name, float(w), candidate.stage, origin, None, full.anchor))
    combined = sum(w * c.prediction for w, c in zip(weights, everyone, strict=True))
    choice = Choice(
        weights={m.name: m.weight for m in members},
        stages={c.name: c.stage for c in everyone},
        losses={c.name: float(np.average(c.row_loss, weights=judge.weight)) for c in everyone},
        loss=float(np.average(loss.loss(judge.y, combined).mean(axis=0), weights=judge.weight)),
        n_folds=len(folds),
        n_judged=judge.y.shape[1],
    )
    return members, choice


def fit_member(
    X: Array,
    y: Array,
    weight: Array | None,
    loss: Loss,
    recipe: Recipe,
    units: Units,
    *,
    seed: int,
    n_threads: int,
    **kwargs: Any,
) -> Member:
    """A plain single fit of one recipe on all rows."""
    fit = Fit(X, y, weight, units, loss, n_threads)
    linear = ("ridge", len(fit.linear["ridge"].coefficients) // 2) if recipe.start == "linear" else None
    start, model = fit.boost(recipe, linear, seed, **kwargs)
    return Member(recipe.name, 1.0, len(model.rounds), start, model.first(len(model.rounds)))


class _Judge:
    """Runs candidates over the folds and keeps their out-of-fold predictions."""

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        loss: Loss,
        folds: Sequence[Fold],
        units: Units,
        kind: RowsKind,
        recipes: Sequence[Recipe],
        seed: int,
        n_threads: int,
        progress: Callable[[str], None],
    ) -> None:
        self.loss, self.anchored, self.seed, self.progress = loss, kind.anchored, seed, progress
        self.n_workers = min(n_threads, len(folds))
        self._stopped = Event()
        self._must_watch = self.n_workers > 1 and y.shape[1] > ROWS_AT_ONCE
        inner = 1 if self.n_workers > 1 else n_threads
        self.fits = [
            Fit(
                np.ascontiguousarray(X[:, train]),
                np.ascontiguousarray(y[:, train]),
                None if weight is None else np.ascontiguousarray(weight[train]),
                units,
                loss,
                inner,
                kind,
                recipes,
            )
            for train, _ in folds
        ]
        self.X_judged = [np.ascontiguousarray(X[:, held]) for _, held in folds]
        rows = np.concatenate([held for _, held in folds])
        self.y = np.ascontiguousarray(y[:, rows])
        self.weight = None if weight is None else weight[rows]

    def _over_folds(self, work: Callable[[Fit, Array], Any]) -> list[Any]:
        if self.n_workers == 1:
            return [work(fit, X) for fit, X in zip(self.fits, self.X_judged, strict=True)]
        with ThreadPoolExecutor(self.n_workers) as pool:
            try:
                return list(pool.map(work, self.fits, self.X_judged))
            except BaseException:
                self._stopped.set()  # Ctrl-C reaches this thread only: the others end after their round
                pool.shutdown(cancel_futures=True)
                raise

    def _judged(self, model: str, staged: Array, allowed: slice = slice(None)) -> _Judged:
        """Choose the stage of least pooled loss; equal ones go to the simpler, which comes first."""
        row_loss = self.loss.loss(self.y[None], staged).mean(axis=1)  # (n_stages, n_judged)
        pooled = np.average(row_loss, axis=1, weights=self.weight)
        first = range(len(pooled))[allowed][0]
        pooled = pooled[allowed]
        stage = first + int(np.flatnonzero(pooled <= pooled.min() + 1e-9 * abs(pooled.min()))[0])
        return _Judged(model, self.anchored, stage, staged[stage], row_loss[stage])

    def linear_candidates(self, names: Sequence[str]) -> list[_Judged]:
        def work(fit: Fit, X: Array) -> dict[str, Array]:
            seen, level = fit.see(X), fit.level(X)
            return {name: fit.linear[name].predict(seen) + level for name in names}

        per_fold = self._over_folds(work)
        return [self._judged(name, np.concatenate([p[name] for p in per_fold], axis=2)) for name in names]

    def boosted_candidates(
        self, recipes: Sequence[Recipe], linear: tuple[str, int] | None, fixed_rounds: bool
    ) -> list[_Judged]:
        out = []
        for recipe in recipes:
            self.progress(f"judging {recipe.name}")

            def work(fit: Fit, X: Array, recipe: Recipe = recipe) -> Array:
                watch = {"after_round": lambda model: self._stopped.is_set()} if self._must_watch else {}
                start, model = fit.boost(recipe, linear, self.seed, **watch)
                seen = fit.see(X)
                staged = np.repeat(start.predict(seen) + fit.level(X), recipe.n_estimators + 1, axis=0)
                if model.rounds:
                    added = np.cumsum(model.outputs(seen, fit.n_threads), axis=0)
                    staged[1 : len(added) + 1] += added
                    staged[len(added) + 1 :] += added[-1]
                return staged

            staged = np.concatenate(self._over_folds(work), axis=2)
            allowed = slice(recipe.n_estimators, None) if fixed_rounds else slice(None)
            out.append(self._judged(recipe.name, staged, allowed))
        return out


def combine(
    linear: list[_Judged],
    boosted: list[_Judged],
    y: Array,
    weight: Array | None,
    loss: Loss,
    kind: RowsKind,
) -> Array:
    """Weights of ``linear + boosted``: convex, and pulled to the simpler level where the richer is not surely better.

    ``trust(t) = clip(t - asked - doubt / n, 0, 1)`` of the paired t value of two levels' losses on n judged rows. The
    first linear candidate is the simplest, and one standard error is asked for to leave it. Boosted recipes have to
    beat the linear level by one for rows in time, which change after those judged. In a table what is better at all is
    taken once the simplest was left, and one and a half are asked for where it was not: there may be nothing to find.

    An autoregression has averaged over its penalties by itself, so nothing was chosen that would flatter it. Where
    rows are not known to be a series it replaces persistence for being better at all. For a series it is the simplest
    model, and hard to beat where nothing but the past is known: one and a half are asked for then, and half of one for
    persistence.
    """
    doubt = 1.5 * DOUBT if kind.in_time else DOUBT  # neighbours in time are alike: rows count for less
    n_linear, n_all = len(linear), len(linear) + len(boosted)
    predictions = np.stack([c.prediction for c in linear + boosted])

    def cost(w: Array) -> Array:
        return loss.loss(y, np.tensordot(w, predictions, axes=1)).mean(axis=0)

    def only(index: int) -> Array:
        w = np.zeros(n_all)
        w[index] = 1.0
        return w

    def trust(simple: Array, rich: Array, asked: float, doubt: float) -> float:
        gain = cost(simple) - cost(rich)
        mean = float(np.average(gain, weights=weight))
        spread = float(np.sqrt(np.average((gain - mean) ** 2, weights=weight)))
        n = len(gain) if weight is None else float(weight.sum())
        error = spread / np.sqrt(max(n, 1.0))
        return float(np.clip(mean / error - asked - doubt / n, 0.0, 1.0)) if error > 0 else float(mean > 0)

    def pulled(simple: Array, rich: Array, asked: float, doubt: float) -> Array:
        a = trust(simple, rich, asked, doubt)
        return a * rich + (1 - a) * simple

    w = only(0)
    alone = kind.kind == "series_alone"
    asked = 1.5 if alone else 1.0
    if linear[0].model == "autoregression" and linear[1].model == "zero":
        if not kind.is_series:
            w = pulled(only(1), w, 0.0, 0.0)
        elif alone:
            w = pulled(w, only(1), 0.5, 0.0)
    if n_linear > 1:
        rich = np.zeros(n_all)
        rich[:n_linear] = convex_weights(predictions[:n_linear], y, weight, loss)
        w = pulled(w, rich, asked, doubt)
    if n_linear == 1 and len(boosted) == 1:  # the user's own recipe stands as it is
        w = only(n_linear)
    elif boosted:
        asked, doubt = (asked, doubt) if kind.in_time else (1.5 * w[0], doubt * w[0])
        w = pulled(w, convex_weights(predictions, y, weight, loss), asked, doubt)
    w[w < 1e-3] = 0.0
    return w / w.sum()


def convex_weights(predictions: Array, y: Array, weight: Array | None, loss: Loss) -> Array:
    """Non-negative weights summing to one of least pooled loss; predictions (n_candidates, n_outputs, n_judged)."""
    n = len(predictions)
    root = np.ones(y.shape[1]) if weight is None else np.sqrt(weight)
    A = (predictions * root).reshape(n, -1).T
    b = (y * root).ravel()
    if isinstance(loss, SquaredError):
        heavy = 1e3 * max(float(np.sqrt((A**2).sum())), float(np.sqrt(b @ b)), 1e-30)  # holds the sum at one
        w, _ = nnls(np.vstack([A, np.full((1, n), heavy)]), np.append(b, heavy))
        return w / w.sum()
    w = np.full(n, 1.0 / n)
    rate, best, best_value = 1.0, w, np.inf
    for _ in range(300):  # exponentiated gradient descent keeps to the simplex by itself
        combined = np.tensordot(w, predictions, axes=1)
        value = loss.mean(y, combined, weight)
        if value < best_value:
            best, best_value = w, value
        slope = loss.gradient(y, combined) * (1.0 if weight is None else weight)
        gradient = np.einsum("con,on->c", predictions, slope) / (root**2).sum()
        size = float(np.abs(gradient - gradient @ w).max())
        if size < 1e-9:
            break
        w = w * np.exp(-rate * (gradient - gradient.min()) / size)
        w /= w.sum()
        rate *= 0.985
    return best
