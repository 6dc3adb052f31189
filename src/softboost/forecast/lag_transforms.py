"""Statistics of the past as features, in mlforecast's words; coreforecast's kernels compute them.

``lag_transforms={1: [RollingMean(4)]}`` is the mean of the last four values; the key says how far back the most
recent of them lies.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from coreforecast import lag_transforms as kernels

__all__ = [
    "ExpandingMax",
    "ExpandingMean",
    "ExpandingMin",
    "ExpandingStd",
    "ExponentiallyWeightedMean",
    "RollingMax",
    "RollingMean",
    "RollingMin",
    "RollingQuantile",
    "RollingStd",
    "SeasonalRollingMean",
    "SeasonalRollingStd",
]


@dataclass(frozen=True)
class _Rolling:
    window_size: int
    min_samples: int | None = None


class RollingMean(_Rolling):
    """Mean of ``window_size`` values; NaN before there are ``min_samples`` (default: all) of them."""


class RollingStd(_Rolling):
    """Standard deviation of ``window_size`` values."""


class RollingMin(_Rolling):
    """Least of ``window_size`` values."""


class RollingMax(_Rolling):
    """Largest of ``window_size`` values."""


@dataclass(frozen=True)
class RollingQuantile:
    """Quantile ``p`` of ``window_size`` values."""

    p: float
    window_size: int
    min_samples: int | None = None


@dataclass(frozen=True)
class _SeasonalRolling:
    season_length: int
    window_size: int
    min_samples: int | None = None


class SeasonalRollingMean(_SeasonalRolling):
    """Mean of ``window_size`` values one season apart."""


class SeasonalRollingStd(_SeasonalRolling):
    """Standard deviation of ``window_size`` values one season apart."""


@dataclass(frozen=True)
class ExpandingMean:
    """Mean of all values so far."""


@dataclass(frozen=True)
class ExpandingStd:
    """Standard deviation of all values so far."""


@dataclass(frozen=True)
class ExpandingMin:
    """Least value so far."""


@dataclass(frozen=True)
class ExpandingMax:
    """Largest value so far."""


@dataclass(frozen=True)
class ExponentiallyWeightedMean:
    """Mean in which each older value counts ``1 - alpha`` times the one after it."""

    alpha: float


def kernel_of(transform: Any, lag: int) -> tuple[str, Any]:
    """Name and kernel of a transform of this module, or of mlforecast's of the same name, at a lag."""
    name = type(transform).__name__
    kernel = getattr(kernels, name, None)
    if kernel is None or name.startswith("_"):
        raise ValueError(f"lag_transforms[{lag}] holds {transform!r}, which is not known; choose from {__all__}")
    if getattr(transform, "global_", False) or getattr(transform, "groupby", None):
        raise ValueError(f"lag_transforms[{lag}] holds {transform!r}, which pools series; leave that setting out")
    wanted = [name for name in inspect.signature(kernel.__init__).parameters if name not in ("self", "lag")]
    settings = {key: getattr(transform, key) for key in wanted if hasattr(transform, key)}
    shown = [f"{key}{value}" for key, value in settings.items() if value is not None and key != "skipna"]
    return "_".join([name, f"lag{lag}", *shown]), kernel(lag=lag, **settings)
