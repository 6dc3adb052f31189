"""Local models that were fitted together: estimators are made on first use, and until then predict together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from softboost._choice.many import Many, predict_many
from softboost._data.checks import resolve_n_threads
from softboost._regressor import SoftBoostRegressor

from ._panel import Array

__all__ = ["LazyModels", "fit_together", "fits_together", "predict_together"]


@dataclass(frozen=True)
class Together:
    """Models of many series that were fitted together.

    Attributes
    ----------
    blank : list of SoftBoostRegressor
        The unfitted estimators, one for each training set of a series.
    many : list of Many
        The fits of all series to each of these sets.
    """

    blank: list[SoftBoostRegressor]
    many: list[Many]

    def of(self, k: int) -> LazyModels:
        """The models of series k."""
        return LazyModels(self, k, [None] * len(self.blank))


@dataclass(eq=False)
class LazyModels(Sequence[Any]):
    """The fitted estimators of one series, each made when it is asked for."""

    together: Together
    series: int
    made: list[SoftBoostRegressor | None]

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if self.made[index] is None:
            fitted = self.together.many[index].fitted(self.series)
            self.made[index] = self.together.blank[index]._with(fitted)
        return self.made[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyModels:
        return LazyModels(self.together, self.series, copy.deepcopy(self.made, memo))  # fits do not change

    @property
    def untouched(self) -> bool:
        """Whether no estimator was made, which could have been changed since."""
        return not any(self.made)


def fits_together(model: Any) -> bool:
    """Whether models of small sets of rows can be fitted together."""
    return type(model) is SoftBoostRegressor and model._fits_together


def fit_together(blank: list[Any], sets: list[tuple[Array, Array, Array]]) -> Together | None:
    """Fit the models of all series; None if the estimators do not fit many sets of rows together.

    ``sets`` are X, y and the first row of each series, for each of the models of a series.
    """
    many = []
    for model, (X, y, begin) in zip(blank, sets, strict=True):
        own = model._fit_many(X, y, begin) if fits_together(model) else None
        if own is None:
            return None
        many.append(own)
    return Together(blank, many)


def predict_together(models: Sequence[Sequence[Any]], owner: Array) -> Callable[[int, Array], Array]:
    """A function of k and X: the predictions of the k-th model of ``models[owner[i]]`` for every row i of X.

    Rows of an owner are neighbours.
    """
    lazy = np.array([isinstance(own, LazyModels) and own.untouched for own in models])
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    rows_of = [slice(a, b) for a, b in pairwise([*starts.tolist(), len(owner)])]
    alone = [(rows, models[owner[rows.start]]) for rows in rows_of if not lazy[owner[rows.start]]]
    joint = np.flatnonzero(lazy[owner])
    known: dict[int, Callable[[Array], Array]] = {}

    def predict_joint(k: int, X: Array) -> Array:
        if np.isinf(X).any():  # the estimator refuses such rows, with a message
            return np.concatenate([models[owner[i]][k].predict(X[[at]]) for at, i in enumerate(joint)])
        if k not in known:
            number = np.cumsum(lazy) - 1
            own = [one for one in models if isinstance(one, LazyModels) and one.untouched]
            n_threads = resolve_n_threads(own[0].together.blank[k].n_jobs)
            fits = [(one.together.many[k], one.series) for one in own]
            known[k] = predict_many(fits, number[owner[joint]], n_threads)
        return known[k](X)

    def predict(k: int, X: Array) -> Array:
        if not alone:
            return predict_joint(k, X)
        parts = [(rows, own[k].predict(X[rows])) for rows, own in alone]
        out = np.empty((len(X), *parts[0][1].shape[1:]))
        for rows, prediction in parts:
            out[rows] = prediction
        if len(joint):
            out[joint] = predict_joint(k, X[joint])
        return out

    return predict
