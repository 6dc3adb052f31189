"""The models of Table II: the models of the paper, tuned by grid search, simple models, and the default."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from softboost import SoftBoostRegressor
from softboost._benchmarks.peers import PEERS, TunedLightGBM
from softboost.presets import bsdt, bsdt_q

from .protocols import FloatArray, Split
from .settings import Settings

OWN = ("bsdt_q", "bsdt", "softboost")
PACKAGES = {"lightgbm": "lightgbm", "xgboost": "xgboost", "catboost": "catboost"}


class StagedSearch:
    """Grid search over a boosted model that evaluates all numbers of rounds on a single fit.

    Equivalent to ``GridSearchCV`` over the grids with ``n_estimators`` in each, by mean squared error and with
    ``KFold(n_folds)``, with far fewer fits. It uses only training rows.

    Parameters
    ----------
    make : callable
        Creates a model with ``staged_predict`` from keyword arguments.
    grids : list of dict of lists
        The settings are all combinations within each grid.
    n_estimators : sequence of int
    n_folds : int

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        Mean squared error over the folds.
    """

    def __init__(
        self, make: Callable[..., Any], grids: list[dict[str, list[Any]]], n_estimators: Sequence[int], n_folds: int = 3
    ) -> None:
        self.make, self.grids, self.n_estimators, self.n_folds = make, grids, tuple(n_estimators), n_folds

    def _fold_errors(self, params: dict[str, Any], X: FloatArray, y: FloatArray, train: Any, test: Any) -> FloatArray:
        model = self.make(n_estimators=max(self.n_estimators), **params).fit(X[train], y[train])
        stages = list(model.staged_predict(X[test]))
        return np.array([np.mean((y[test] - stages[n - 1]) ** 2) for n in self.n_estimators])

    def fit(self, X: FloatArray, y: FloatArray) -> "StagedSearch":
        """Search, then fit the best setting on all rows."""
        settings = [
            dict(zip(grid, values, strict=True)) for grid in self.grids for values in itertools.product(*grid.values())
        ]
        folds = list(KFold(self.n_folds).split(X))
        errors = np.array([sum(self._fold_errors(s, X, y, *fold) for fold in folds) for s in settings]) / len(folds)
        best, rounds = np.unravel_index(int(np.argmin(errors)), errors.shape)
        self.best_params_ = {**settings[best], "n_estimators": self.n_estimators[rounds]}
        self.best_score_ = float(errors[best, rounds])
        self.model_ = self.make(**self.best_params_).fit(X, y)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict with the best setting."""
        return np.asarray(self.model_.predict(X), dtype=np.float64)


class _Naive:
    """Predicts the last value, which is stored in the split."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def fit(self, X: FloatArray, y: FloatArray) -> "_Naive":
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return self.split.last_value


def make_model(name: str, settings: Settings, seed: int, split: Split, n_folds: int) -> Any:
    """An unfitted model of Table II.

    Parameters
    ----------
    name : str
        A key of ``models`` in the settings of Table II.
    settings : dict
        The entry of the model: grid and numbers of rounds for tuned models.
    seed : int
    split : Split
        The data; only the naive forecast uses it here.
    n_folds : int
        Number of folds of the grid search.
    """
    if name in ("bsdt", "bsdt_q"):
        preset: Callable[..., Any] = bsdt if name == "bsdt" else bsdt_q
        return StagedSearch(
            functools.partial(preset, random_state=seed), settings["grid"], settings["n_estimators"], n_folds
        )
    if name == "lightgbm":
        return _tuned_lightgbm(settings, seed)
    if name == "naive":
        return _Naive(split)
    if name == "softboost":
        return SoftBoostRegressor()
    return PEERS[name].make(seed, None)  # type: ignore[arg-type] # these do not look at the task


def _tuned_lightgbm(settings: Settings, seed: int) -> TunedLightGBM:
    model = TunedLightGBM(seed)
    (grid,) = settings["grid"]
    model.n_trees = tuple(settings["n_estimators"])
    model.learning_rates, model.max_depths = tuple(grid["learning_rate"]), tuple(grid["max_depth"])
    model.num_leaves = tuple(grid["num_leaves"])
    return model


def untuned() -> dict[str, str]:
    """Settings of the models without a grid, in words."""
    peers = {name: PEERS[name].about for name in ("ridge", "lasso", "xgboost", "catboost")}
    return {"naive": "the last value", **peers, "softboost": "no arguments: it chooses for itself"}


def chosen_params(model: Any) -> dict[str, Any]:
    """The result of the grid search; empty for models without one."""
    best = getattr(model, "best_params_", {})
    if isinstance(best, tuple):  # TunedLightGBM: ((learning_rate, max_depth, num_leaves), n_estimators)
        (learning_rate, max_depth, num_leaves), n_estimators = best
        best = {"learning_rate": learning_rate, "max_depth": max_depth, "num_leaves": num_leaves}
        best["n_estimators"] = n_estimators
    return dict(best)
