"""Statistics of the past as features, in mlforecast's words; coreforecast's kernels compute them.

``lag_transforms={1: [RollingMean(4)]}`` is the mean of the last four values; the key says how far back the most
recent of them lies.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from coreforecast import lag_transforms as kernels

from softboost._validation import check_integer, check_number

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

MAX_REACH = 10**6  # rows; the kernels count in 32 bits


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
    _check_settings(transform, lag)
    wanted = [name for name in inspect.signature(kernel.__init__).parameters if name not in ("self", "lag")]
    settings = {key: getattr(transform, key) for key in wanted if hasattr(transform, key)}
    shown = [f"{key}{value}" for key, value in settings.items() if value is not None and key != "skipna"]
    return "_".join([name, f"lag{lag}", *shown]), kernel(lag=lag, **settings)


def _check_settings(transform: Any, lag: int) -> None:
    """Refuse what the kernels would take in silence, or with a message that says nothing of the setting."""
    where = f"lag_transforms[{lag}]={transform!r}: "
    for name in ("window_size", "season_length", "min_samples"):
        value = getattr(transform, name, None)
        if value is not None:
            check_integer(where + name, value, 1, MAX_REACH)
    if hasattr(transform, "p"):
        check_number(where + "p", transform.p, least=0.0, most=1.0)
    if hasattr(transform, "alpha"):
        check_number(where + "alpha", transform.alpha, above=0.0, most=1.0)


def reach_of(transform: Any, lag: int) -> int | None:
    """Values before the row ahead that the statistic looks at; None for those that go on from all values before."""
    window = getattr(transform, "window_size", None)
    if window is None:
        return None
    return int(lag + window * (getattr(transform, "season_length", None) or 1))
