"""Forecasts of series in long frames.

>>> from softboost.forecast import Differences, Forecaster, RollingMean
>>> Forecaster(freq="MS", h=12, lags=[1, 12], lag_transforms={1: [RollingMean(3)]},
...            target_transforms=[Differences([1])])  # doctest: +ELLIPSIS
Forecaster(...)
"""

from __future__ import annotations

from . import _saved as _saved  # lets model files hold forecasters
from ._backtest import Backtest
from ._combination import ForecastChoice
from ._forecaster import Forecaster
from .lag_transforms import (
    ExpandingMax,
    ExpandingMean,
    ExpandingMin,
    ExpandingStd,
    ExponentiallyWeightedMean,
    RollingMax,
    RollingMean,
    RollingMin,
    RollingQuantile,
    RollingStd,
    SeasonalRollingMean,
    SeasonalRollingStd,
)
from .target_transforms import Differences, LocalMinMaxScaler, LocalRobustScaler, LocalStandardScaler, Log

__all__ = [
    "Backtest",
    "Differences",
    "ExpandingMax",
    "ExpandingMean",
    "ExpandingMin",
    "ExpandingStd",
    "ExponentiallyWeightedMean",
    "ForecastChoice",
    "Forecaster",
    "LocalMinMaxScaler",
    "LocalRobustScaler",
    "LocalStandardScaler",
    "Log",
    "RollingMax",
    "RollingMean",
    "RollingMin",
    "RollingQuantile",
    "RollingStd",
    "SeasonalRollingMean",
    "SeasonalRollingStd",
]
