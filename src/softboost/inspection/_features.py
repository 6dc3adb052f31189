"""Importances of columns and learned directions, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from softboost._model.member import Member
from softboost._regressor import SoftBoostRegressor

from ._forecasts import forecast_importances, is_forecaster
from ._names import encoded_names
from ._names import feature_names as _names
from ._streams import is_online, online_importances

__all__ = [
    "describe_features",
    "directions",
    "dropped_features",
    "importances",
    "linear_text",
    "transform_matrix",
]

Array = NDArray[Any]


def importances(model: Any, feature_names: Any = None) -> pd.Series[float]:
    """Importances by name, largest first; they sum to one.

    The importance of a column measures how much the prediction changes per standard deviation of the column. It is the
    sum of its absolute slope in the linear part and, for each tree, its share of the absolute gate weights (after
    multiplication with Q) times the standard deviation of the leaf values, and the mean absolute slope of the leaves.

    The importances of a forecaster or an online model are mean absolute Shapley values (see :func:`attributions`). For
    a forecaster they are taken from up to five series and three steps ahead; inputs are recent values, values one or
    more seasons before, other past values, exogenous and static columns, and the calendar.

    Parameters
    ----------
    model : SoftBoostRegressor, Forecaster or OnlineSoftBoostRegressor
        A fitted model.
    feature_names : sequence of str or None, default=None
        Names of the columns of a regressor; None uses the names of the training data frame, or x0, x1, ...

    Returns
    -------
    importances : pandas.Series of float

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.inspection import importances
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> top = importances(SoftBoostRegressor().fit(X[:100], y[:100]))
    >>> sorted(top.index[:2]), float(round(top.sum(), 6))
    (['bmi', 's5'], 1.0)
    """
    if is_forecaster(model):
        values = forecast_importances(model)
    elif is_online(model):
        values = online_importances(model)
    else:
        names = _names(model, feature_names)
        values = pd.Series(model.feature_importances_, index=names, dtype=float)
    return values.rename("importance").sort_values(ascending=False, kind="stable")


def dropped_features(model: Any, feature_names: Any = None) -> list[str]:
    """Columns that cannot change any prediction, because their importance is exactly zero.

    Parameters
    ----------
    model : SoftBoostRegressor, Forecaster or OnlineSoftBoostRegressor
        A fitted model.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.

    Returns
    -------
    names : list of str
        Names in the order of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> model = SoftBoostRegressor(n_estimators=1, depth=1, feature_transform=None, init="constant", learning_rate=1.0)
    >>> len(dropped_features(model.fit(X, X[:, 3]))) > 10
    True
    """
    values = importances(model, feature_names)  # those that are zero keep the order of the columns
    return [str(name) for name, value in values.items() if value == 0.0]


def describe_features(model: Any, feature_names: Any = None, share: float = 0.95) -> str:
    """Describe in two sentences which columns are important and which were dropped.

    Parameters
    ----------
    model : SoftBoostRegressor, Forecaster or OnlineSoftBoostRegressor
        A fitted model.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.
    share : float, default=0.95
        Columns are listed until their importances sum to this share.

    Returns
    -------
    text : str

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> y = 2 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=100)
    >>> print(describe_features(SoftBoostRegressor().fit(X, y)).split(".")[0])
    2 of 8 columns carry 95% of the prediction: x0, x1
    """
    ranked = importances(model, feature_names)
    dropped = dropped_features(model, feature_names)
    if len(dropped) == len(ranked):
        return f"All {len(ranked)} columns were dropped: the model predicts a constant."
    needed = int(np.searchsorted(np.cumsum(ranked.to_numpy()), share - 1e-12)) + 1
    names = _listed(list(ranked.index[:needed]))
    verb = "carries" if needed == 1 else "carry"
    carry = f"{needed} of {len(ranked)} columns {verb} {100 * share:.0f}% of the prediction: {names}."
    if not dropped:
        return f"{carry} No column was dropped altogether."
    verb = "was" if len(dropped) == 1 else "were"
    return f"{carry} {len(dropped)} {verb} dropped altogether: {_listed(dropped)}."


def _listed(names: list[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def member_with_transform(model: SoftBoostRegressor) -> Member:
    """The member with a learned transform that has the largest ensemble weight."""
    check_is_fitted(model)
    found = [m for m in model.members_ if m.boosted is not None and m.boosted.recipe.transform is not None and m.stage]
    if not found:
        raise ValueError(
            "the model has no learned transform"
            + (f" ({model.choice_.describe()})" if model.choice_ is not None else "")
            + "; fit with feature_transform='linear' and init='constant' to learn one"
        )
    return max(found, key=lambda m: m.weight)


def transform_matrix(model: SoftBoostRegressor, k: int = -1, feature_names: Any = None) -> pd.DataFrame:
    """Q after round ``k``, of the member with a transform that has the largest ensemble weight.

    Q acts on standardised columns: an entry is the change of a learned feature per standard deviation of a column.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model with a linear or diagonal transform.
    k : int, default=-1
        Index of the round; negative values count from the end.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.

    Returns
    -------
    Q : pandas.DataFrame of shape (n_components, n_columns)
        Rows z1, z2, ...; columns by name, with zeros for columns that were removed by screening.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.transforms import Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform=Linear(2)).fit(X, np.tanh(X[:, 0]))
    >>> transform_matrix(model).shape
    (2, 3)
    """
    member = member_with_transform(model)
    assert member.boosted is not None
    assert member.boosted.recipe.transform is not None
    names = encoded_names(model, feature_names)
    rounds = member.boosted.rounds[: member.stage]
    if not -len(rounds) <= k < len(rounds):
        raise ValueError(f"k={k} is out of range, the model has {len(rounds)} rounds; use 0 to {len(rounds) - 1}")
    theta, _ = rounds[k]
    assert theta is not None
    matrix = member.boosted.recipe.transform.matrix(theta)
    if matrix is None:
        raise ValueError(
            f"feature_transform {type(member.boosted.recipe.transform).__name__} is not linear and has no matrix Q; "
            "use feature_transform='linear' or 'diagonal'"
        )
    Q = np.zeros((matrix.shape[0], len(names)))
    Q[:, member.boosted.columns] = matrix
    if member.anchor is not None:  # convert weights on the anchored view into weights on the columns
        Q, _ = member.anchor.unview(Q)
    return pd.DataFrame(Q, index=[f"z{a + 1}" for a in range(len(Q))], columns=names)


def n_transform_rounds(model: SoftBoostRegressor) -> int:
    """Number of rounds of the member that :func:`transform_matrix` uses."""
    return member_with_transform(model).stage


def linear_text(weights: Array, names: list[str], n_terms: int, digits: int = 2) -> str:
    """Text such as ``0.61 lag 1 - 0.32 lag 9 + ...`` with the largest terms."""
    order = [j for j in np.argsort(-np.abs(weights), kind="stable") if weights[j] != 0]
    if not order:
        return "0"
    text = ""
    for i, j in enumerate(order[:n_terms]):
        sign = ("-" if weights[j] < 0 else "") if i == 0 else (" - " if weights[j] < 0 else " + ")
        text += f"{sign}{abs(weights[j]):.{digits}g} {names[j]}"
    return text + (" + ..." if len(order) > n_terms else "")


def directions(model: SoftBoostRegressor, n_terms: int = 5, k: int = -1, feature_names: Any = None) -> list[str]:
    """The learned features as linear combinations of named columns, largest terms first.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model with a linear or diagonal transform.
    n_terms : int, default=5
        Number of columns to show per feature.
    k : int, default=-1
        Round, as in :func:`transform_matrix`.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.

    Returns
    -------
    texts : list of str
        One text per row of Q, in standard deviations of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.transforms import Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> transform = Linear(n_components=1, init="supervised")
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform=transform, init="constant")
    >>> directions(model.fit(X, np.tanh(X[:, 0] - X[:, 1])), n_terms=2)[0].split()[:2]
    ['z1', '=']
    """
    Q = transform_matrix(model, k, feature_names)
    names = list(Q.columns)
    return [f"{row} = {linear_text(values, names, n_terms)}" for row, values in zip(Q.index, Q.to_numpy(), strict=True)]
