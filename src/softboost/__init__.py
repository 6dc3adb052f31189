"""Gradient boosting that learns its own features, for regression on small data with many columns."""

from __future__ import annotations

from importlib.metadata import version

from ._file.container import load
from ._regressor import SoftBoostRegressor

__all__ = ["SoftBoostRegressor", "__version__", "load"]

__version__ = version("softboost")
