"""Names of the columns of a regressor."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from softboost._regressor import SoftBoostRegressor

__all__ = ["encoded_names", "feature_names"]


def feature_names(model: SoftBoostRegressor, names: Any = None) -> list[str]:
    """Names of the columns of X: ``names``, the names seen in fit, or x0, x1, ..."""
    check_is_fitted(model)
    n = model.n_features_in_
    if names is None:
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(n)])
    names = [str(name) for name in names]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} names, but the model was fitted on {n} columns")
    return names


def encoded_names(model: SoftBoostRegressor, names: Any = None) -> list[str]:
    """Names of the encoded columns: those of X, then those derived from categories, dates and missing values."""
    return model.columns_.names(feature_names(model, names))
