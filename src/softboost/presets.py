"""The models of the paper: Algorithm 1.

y_hat_0 = 0, and Q_0 = I or its first rows. Every round fits a soft tree with constant leaves to the residual by
gradient steps on its gates and leaves and, in :func:`bsdt_q`, on Q. Columns and target are not standardised.

The paper leaves three things open, or states them without the details that a program needs:

- **Optimiser.** The gradient steps are Adam steps (learning rate 0.05 for gates and leaves, ``transform_learning_rate``
  for Q, moment decays 0.9 and 0.99) with a cosine decay to zero within each round. The paper's Algorithm 1 writes a
  plain gradient step.
- **Scale of the target.** Each round divides its residual by the root mean square of the residual and multiplies the
  leaves by it afterwards, because the length of an Adam step does not depend on the scale of the target. The result is
  equivariant: ten times the target gives ten times the prediction.
- **Many rows.** Beyond 65,536 rows, the rows are split at random into equal parts of at most this size, and the rounds
  use the parts in turn. Each round then moves gates, leaves and Q on one part only.
"""

from __future__ import annotations

from typing import Any

from ._regressor import SoftBoostRegressor
from .transforms import Linear

__all__ = ["bsdt", "bsdt_q"]


def bsdt(
    n_estimators: int = 20,
    learning_rate: float = 1.0,
    depth: int = 3,
    n_steps: int = 100,
    random_state: Any = None,
    **params: Any,
) -> SoftBoostRegressor:
    """Boosted soft decision trees without a feature transform.

    The steps are Adam steps on a residual of unit size. Beyond 65,536 rows the rounds use random parts of the rows in
    turn. :mod:`softboost.presets` says more.

    Parameters
    ----------
    n_estimators, learning_rate, depth, random_state, **params
        As in :class:`softboost.SoftBoostRegressor`.
    n_steps : int, default=100
        Gradient steps on the tree per round.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(n_samples=60, n_features=5, random_state=0)
    >>> round(bsdt(random_state=0).fit(X, y).score(X, y), 1)
    1.0
    """
    return SoftBoostRegressor(
        n_estimators=n_estimators,
        learning_rate=learning_rate,
        depth=depth,
        feature_transform=None,
        init="zero",
        leaves="constant",
        gates="random",
        n_steps=n_steps,
        standardize=False,
        random_state=random_state,
        **params,
    )


def bsdt_q(
    n_estimators: int = 20,
    learning_rate: float = 1.0,
    depth: int = 3,
    n_steps: int = 100,
    n_components: int | None = None,
    transform_learning_rate: float = 0.02,
    group_lasso: float = 0.0,
    random_state: Any = None,
    **params: Any,
) -> SoftBoostRegressor:
    """Boosted soft decision trees with the learned transform Q (BSDT-Q).

    The steps are Adam steps on a residual of unit size. Beyond 65,536 rows the rounds use random parts of the rows in
    turn. :mod:`softboost.presets` says more.

    Parameters
    ----------
    n_estimators, learning_rate, depth, random_state, **params
        As in :class:`softboost.SoftBoostRegressor`.
    n_steps : int, default=100
        Joint gradient steps on tree and Q per round.
    n_components : int or None, default=None
        Number of rows of Q; None gives a square Q.
    transform_learning_rate : float, default=0.02
        Learning rate of Adam for Q.
    group_lasso : float, default=0.0
        The regulariser Omega of Section II-D of the paper, on the columns of Q. Larger values drop more features.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(n_samples=60, n_features=5, random_state=0)
    >>> model = bsdt_q(random_state=0).fit(X, y)
    >>> model.transforms_[0].shape
    (5, 5)
    """
    transform = Linear(
        n_components=n_components, group_lasso=group_lasso, learning_rate=transform_learning_rate, n_steps=n_steps
    )
    return bsdt(n_estimators, learning_rate, depth, n_steps, random_state, **params).set_params(
        feature_transform=transform
    )
