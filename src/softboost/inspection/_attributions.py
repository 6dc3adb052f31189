"""Why a prediction is what it is: Shapley values that add up to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost._data.checks import resolve_n_threads
from softboost._model.ensemble import Ensemble
from softboost._regressor import SoftBoostRegressor

from ._features import feature_names as _names

__all__ = ["Attributions", "attributions"]

Array = NDArray[Any]
MAX_EXACT = 10  # columns of one tree up to which all 2^k combinations are tried
N_PERMUTATIONS = 64  # in pairs of one order and its reverse
MAX_ROWS = 2**16  # rows predicted at once


@dataclass(frozen=True)
class Attributions:
    """What each column adds to each prediction.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        What knowing a column adds.
    baseline : float or ndarray of shape (n_outputs,)
        The prediction that knows no column: the mean over the background.
    prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        ``baseline + values.sum(axis=1)``. Equals ``model.predict(X)`` for losses without a link (all but poisson,
        gamma and tweedie, where it is the logarithm of it).
    feature_names : list of str
        Names of the columns, in the order of the second axis of ``values``.
    index : sequence or None, default=None
        Labels of the rows, where they came in a frame that has some.

    Examples
    --------
    >>> import numpy as np
    >>> why = Attributions(np.array([[1.0, -0.5]]), 2.0, np.array([2.5]), ["a", "b"])
    >>> why.frame().loc[0, "b"].item()
    -0.5
    """

    values: Array
    baseline: Any
    prediction: Array
    feature_names: list[str]
    index: Any = None

    def frame(self) -> pd.DataFrame:
        """One row a prediction, under its label in X; one column a feature. For a single output.

        Examples
        --------
        >>> import numpy as np
        >>> Attributions(np.array([[1.0, -0.5]]), 2.0, np.array([2.5]), ["a", "b"], index=["monday"]).frame()
                  a    b
        monday  1.0 -0.5
        """
        if self.values.ndim != 2:
            raise ValueError("the model has several outputs; take values[:, :, k] of one")
        return pd.DataFrame(self.values, index=self.index, columns=self.feature_names)


def attributions(
    model: SoftBoostRegressor, X: Any, background: Any = None, *, feature_names: Any = None, random_state: int = 0
) -> Attributions:
    """Shapley values of each prediction: what each column adds to it, on average over all orders of learning them.

    A column that is not known takes its value from the background, whatever the known ones are (interventional
    Shapley values). The model is a sum, and so are its Shapley values: the linear part is exact, ``slope * (x -
    background)``, and so is each tree that looks at up to 10 columns, over all combinations of them. For trees that
    look at more, and for transforms that are not linear, 64 orders are drawn; the values then carry a sampling error,
    and still add up to the prediction.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model.
    X : array or frame of shape (n_samples, n_features)
        Rows to explain.
    background : array or frame of shape (n_background, n_features) or None, default=None
        Rows that stand for "not known"; time grows with their number, 20 to 100 are enough. None takes one row, the
        means of the training columns.
    feature_names : sequence of str or None, default=None
        None takes the names of the training frame, or x0, x1, ...
    random_state : int, default=0
        Seed of the orders drawn.

    Returns
    -------
    attributions : Attributions

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> model = SoftBoostRegressor().fit(X, np.abs(X[:, 0]) + X[:, 1])
    >>> why = attributions(model, X[:5])
    >>> bool(np.allclose(why.baseline + why.values.sum(axis=1), model.predict(X[:5])))
    True
    """
    names = _names(model, feature_names)
    rows = model._encode(X)
    others = model.units_.centre.astype(rows.dtype)[None] if background is None else model._encode(background)
    n_threads = resolve_n_threads(model.n_jobs)
    ensemble, source = model._fitted.ensemble, model.columns_.source
    n_outputs = len(ensemble.intercept)
    values = np.zeros((len(rows), model.n_features_in_, n_outputs))
    for j, slopes in zip(source, _linear_values(ensemble, rows, others), strict=True):
        values[:, j] += slopes
    rng = np.random.default_rng(random_state)
    for part, players in _parts(ensemble, source):

        def predict(hybrids: Array, part: Ensemble = part) -> Array:
            return np.asarray(part.raw_prediction(hybrids, n_threads), dtype=np.float64)

        owned = [np.flatnonzero(source == j) for j in players]
        values[:, players] += _shapley(predict, rows, others, owned, rng)
    baseline = np.asarray(ensemble.raw_prediction(others, n_threads), dtype=np.float64).mean(axis=0)
    raw = np.asarray(ensemble.raw_prediction(rows, n_threads), dtype=np.float64)
    values = _within_bounds(values, baseline, raw, model._fitted.bounded(raw, rows))
    prediction = baseline + values.sum(axis=1)
    index = X.index if isinstance(X, pd.DataFrame) else None
    if model._fitted.y_ndim == 1:
        return Attributions(values[:, :, 0], float(baseline[0]), prediction[:, 0], names, index)
    return Attributions(values, baseline, prediction, names, index)


def _within_bounds(values: Array, baseline: Array, raw: Array, held: Array) -> Array:
    """Attributions of predictions that were held inside their bounds, scaled alike so that they add up to them."""
    change = raw - baseline
    factor = np.where(held == raw, 1.0, (held - baseline) / np.where(change == 0, 1.0, change))
    return values * factor[:, None]


def _linear_values(ensemble: Ensemble, rows: Array, others: Array) -> Array:
    """Exact values of the linear part, shape (n_encoded, n_samples, n_outputs)."""

    def standardised(X: Array) -> Array:
        return ensemble.units.within(((X - ensemble.units.centre) / ensemble.units.spread).T)

    change = standardised(rows) - standardised(others).mean(axis=1, keepdims=True)
    return change[:, :, None] * ensemble.coefficients.T[:, None]


def _parts(ensemble: Ensemble, source: Array) -> list[tuple[Ensemble, list[int]]]:
    """The trees as sums of those that look at the same columns of X, and those columns.

    Members that predict through a transform of their own come last, as one part of all columns.
    """
    empty = replace(
        ensemble, intercept=ensemble.intercept * 0, coefficients=ensemble.coefficients * 0, trees=[],
        round_of_tree=np.empty(0, dtype=np.int64), transformed=[], _packed={},
    )  # fmt: skip
    by_columns: dict[tuple[int, ...], list[Any]] = {}
    for tree in ensemble.trees:
        players = tuple(sorted({int(j) for j in source[tree.columns]}))
        by_columns.setdefault(players, []).append(tree)
    parts = [
        (replace(empty, trees=trees, round_of_tree=np.zeros(len(trees), dtype=np.int64), _packed={}), list(players))
        for players, trees in by_columns.items()
        if players
    ]
    if ensemble.transformed:
        parts.append((replace(empty, transformed=ensemble.transformed, _packed={}), sorted({int(j) for j in source})))
    return parts


def _shapley(
    predict: Callable[[Array], Array], rows: Array, others: Array, owned: list[Array], rng: np.random.Generator
) -> Array:
    """Shapley values (n_samples, n_players, n_outputs); player i holds the encoded columns ``owned[i]``."""
    known, weights = _exact_plan(len(owned)) if len(owned) <= MAX_EXACT else _sampled_plan(len(owned), rng)
    mask = np.zeros((len(known), rows.shape[1]), dtype=bool)
    for i, columns in enumerate(owned):
        mask[:, columns] = known[:, i, None]
    out = []
    n_others = max(1, min(len(others), MAX_ROWS // len(known)))
    n_rows = max(1, MAX_ROWS // (len(known) * n_others))
    for first in range(0, len(rows), n_rows):
        x = rows[first : first + n_rows, None, None, :]
        total: Any = 0.0
        for start in range(0, len(others), n_others):
            hybrids = np.where(mask, x, others[None, start : start + n_others, None, :])
            outputs = predict(np.ascontiguousarray(hybrids.reshape(-1, rows.shape[1])))
            total = total + outputs.reshape(*hybrids.shape[:3], -1).sum(axis=1)
        out.append(np.einsum("ps,nso->npo", weights, total / len(others)))
    return np.concatenate(out)


def _exact_plan(n_players: int) -> tuple[Array, Array]:
    """All subsets, and the weight of each in the value of each player."""
    subsets = np.array([[bool(s >> i & 1) for i in range(n_players)] for s in range(2**n_players)])
    size = subsets.sum(axis=1)
    n = n_players
    with_player = np.array([factorial(k - 1) * factorial(n - k) / factorial(n) if k else 0.0 for k in range(n + 1)])
    without = np.array([factorial(k) * factorial(n - k - 1) / factorial(n) if k < n else 0.0 for k in range(n + 1)])
    return subsets, np.where(subsets.T, with_player[size], -without[size])


def _sampled_plan(n_players: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Subsets met along random orders and their reverses; the values still add up, order by order."""
    subsets, weights = [], []
    for _ in range(N_PERMUTATIONS // 2):
        order = rng.permutation(n_players)
        for way in (order, order[::-1]):
            rank = np.empty(n_players, dtype=int)
            rank[way] = np.arange(n_players)
            subsets.append(rank[None] < np.arange(n_players + 1)[:, None])
            weight = np.zeros((n_players, n_players + 1))
            weight[np.arange(n_players), rank + 1] = 1.0
            weight[np.arange(n_players), rank] = -1.0
            weights.append(weight / N_PERMUTATIONS)
    return np.concatenate(subsets), np.concatenate(weights, axis=1)
