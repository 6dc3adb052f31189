"""Shapley values of predictions."""

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

from ._names import feature_names as _names

__all__ = ["Attributions", "regressor_attributions", "shapley_plan"]

Array = NDArray[Any]
MAX_EXACT = 10  # largest number of columns of a tree for which all 2^k combinations are evaluated
N_PERMUTATIONS = 64  # pairs of an order and its reverse
MAX_ROWS = 2**16  # maximum number of rows predicted at a time


@dataclass(frozen=True)
class Attributions:
    """Contribution of each column to each prediction.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        Shapley values of the columns.
    baseline : float or ndarray of shape (n_outputs,) or (n_samples,)
        The mean prediction over the background; one for each row if rows are forecasts.
    prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        ``baseline + values.sum(axis=1)``. Equals ``model.predict(X)`` for losses without a link, and its logarithm for
        the Poisson, gamma and Tweedie losses.
    feature_names : list of str
        Names of the columns, in the order of the second axis of ``values``.
    index : sequence or None, default=None
        Row labels of the data frame, if there are any; pairs of id and time for forecasts.
    data : ndarray of shape (n_samples, n_features) or None, default=None
        Values of the columns in these rows, for plots.

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
    data: Array | None = None

    def frame(self) -> pd.DataFrame:
        """A data frame with one row per prediction and one column per feature, for models with a single output.

        Examples
        --------
        >>> import numpy as np
        >>> Attributions(np.array([[1.0, -0.5]]), 2.0, np.array([2.5]), ["a", "b"], index=["monday"]).frame()
                  a    b
        monday  1.0 -0.5
        """
        if self.values.ndim != 2:
            raise ValueError("the model has several outputs; use values[:, :, k] for output k")
        return pd.DataFrame(self.values, index=self.index, columns=self.feature_names)


def regressor_attributions(
    model: SoftBoostRegressor, X: Any, background: Any = None, *, feature_names: Any = None, random_state: int = 0
) -> Attributions:
    """Shapley values of a regressor; see :func:`softboost.inspection.attributions`."""
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
    data = np.asarray(X if isinstance(X, np.ndarray) or not hasattr(X, "to_numpy") else X.to_numpy(), dtype=object)
    if model._fitted.y_ndim == 1:
        return Attributions(values[:, :, 0], float(baseline[0]), prediction[:, 0], names, index, data)
    return Attributions(values, baseline, prediction, names, index, data)


def _within_bounds(values: Array, baseline: Array, raw: Array, held: Array) -> Array:
    """Rescale the values of predictions that were clipped to their bounds, so that they sum to the prediction."""
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
    """The trees, grouped by the columns of X that they use, and these columns.

    Members with a non-linear transform are one part that uses all columns; it comes last.
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
    """Shapley values (n_samples, n_players, n_outputs); player i consists of the encoded columns ``owned[i]``."""
    known, weights = shapley_plan(len(owned), rng, MAX_EXACT)
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


def shapley_plan(
    n_players: int, rng: np.random.Generator, max_exact: int = MAX_EXACT, n_permutations: int = N_PERMUTATIONS
) -> tuple[Array, Array]:
    """Subsets of players (n_subsets, n_players) and the weight of each in the value of each player.

    All subsets for at most ``max_exact`` players, else those along random orders.
    """
    return _exact_plan(n_players) if n_players <= max_exact else _sampled_plan(n_players, rng, n_permutations)


def _exact_plan(n_players: int) -> tuple[Array, Array]:
    """All subsets of players, and their weights in the value of each player."""
    subsets = np.array([[bool(s >> i & 1) for i in range(n_players)] for s in range(2**n_players)])
    size = subsets.sum(axis=1)
    n = n_players
    with_player = np.array([factorial(k - 1) * factorial(n - k) / factorial(n) if k else 0.0 for k in range(n + 1)])
    without = np.array([factorial(k) * factorial(n - k - 1) / factorial(n) if k < n else 0.0 for k in range(n + 1)])
    return subsets, np.where(subsets.T, with_player[size], -without[size])


def _sampled_plan(n_players: int, rng: np.random.Generator, n_permutations: int) -> tuple[Array, Array]:
    """The subsets along random orders and their reverses; within each order the values sum to the prediction."""
    subsets, weights = [], []
    for _ in range(n_permutations // 2):
        order = rng.permutation(n_players)
        for way in (order, order[::-1]):
            rank = np.empty(n_players, dtype=int)
            rank[way] = np.arange(n_players)
            subsets.append(rank[None] < np.arange(n_players + 1)[:, None])
            weight = np.zeros((n_players, n_players + 1))
            weight[np.arange(n_players), rank + 1] = 1.0
            weight[np.arange(n_players), rank] = -1.0
            weights.append(weight / n_permutations)
    return np.concatenate(subsets), np.concatenate(weights, axis=1)
