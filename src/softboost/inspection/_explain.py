"""Shapley values of predictions and forecasts, by kind of model."""

from __future__ import annotations

from typing import Any

from softboost._regressor import SoftBoostRegressor

from ._attributions import Attributions, regressor_attributions
from ._forecasts import forecast_attributions, is_forecaster
from ._streams import is_online, online_attributions

__all__ = ["attributions"]


def attributions(
    model: Any,
    X: Any = None,
    background: Any = None,
    *,
    feature_names: Any = None,
    series: Any = None,
    random_state: int = 0,
) -> Attributions:
    """Shapley values: the average contribution of each input over all orders in which inputs are revealed.

    Inputs that are not yet revealed take their values from the background (interventional Shapley values). Baseline and
    values sum to the prediction.

    - **Regressor.** The inputs are the columns. The model is a sum of parts, and so are its Shapley values. They are
      exact for the linear part, ``slope * (x - background)``, and for trees that use at most 10 columns. For larger
      trees and for non-linear transforms they are estimated from 64 random orders; the estimates have a sampling error
      but still sum to the prediction.
    - **Forecaster.** Each row explains one forecast of :meth:`~softboost.forecast.Forecaster.predict`. The inputs are
      the last three values, the values one or more seasons before the time of the forecast, the other past values,
      exogenous and static columns, and the calendar. The background are five earlier origins of the same series.
      Values are exact for up to 7 inputs, and estimated from 16 random orders for more.
    - **Online model.** The inputs are the features. The background are recent rows.

    Parameters
    ----------
    model : SoftBoostRegressor, Forecaster or OnlineSoftBoostRegressor
        A fitted model.
    X : array, frame, list of dicts or None, default=None
        Rows to explain, of shape (n_samples, n_features); a dict or a list of dicts for an online model. For a
        forecaster, exogenous columns of the steps ahead, as ``X_df`` of ``predict``.
    background : array or frame of shape (n_background, n_features) or None, default=None
        Rows that supply the values of unrevealed columns of a regressor. Time grows with their number; 20 to 100 are
        enough. None uses a single row, the means of the training columns.
    feature_names : sequence of str or None, default=None
        Names of the columns of a regressor; None uses the names of the training data frame, or x0, x1, ...
    series : id or list of ids, default=None
        Series of a forecaster to explain; None explains the first six.
    random_state : int, default=0
        Seed of the random orders.

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
    if is_forecaster(model):
        return forecast_attributions(model, X, series, random_state)
    if X is None:
        raise ValueError(f"attributions of a {type(model).__name__} need X, the rows to explain")
    if is_online(model):
        return online_attributions(model, X, random_state)
    if not isinstance(model, SoftBoostRegressor):
        raise TypeError(f"model must be a SoftBoostRegressor, Forecaster or online model, got {type(model).__name__}")
    return regressor_attributions(model, X, background, feature_names=feature_names, random_state=random_state)
