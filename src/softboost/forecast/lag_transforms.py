"""Statistics of past values as features, with the names of mlforecast; computed by the kernels of coreforecast.

``lag_transforms={1: [RollingMean(4)]}`` is the mean of the last four values. The key is the lag of the most recent one.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from coreforecast import lag_transforms as kernels

from softboost._data.checks import check_integer, check_number

from ._panel import Array, grouped

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


class _LagTransform:
    """Base of the statistics; calling one on a series returns the column that the model gets."""

    def __call__(self, y: Any, lag: int = 1) -> Array:
        """The statistic at every time of one series, shape (n_times,); NaN if there are too few earlier values."""
        y = np.asarray(y, dtype=np.float64)
        _, kernel = kernel_of(self, lag)
        values: Array = kernel.transform(grouped(y, np.array([0, len(y)])))
        return values


@dataclass(frozen=True)
class _Rolling(_LagTransform):
    window_size: int
    min_samples: int | None = None


class RollingMean(_Rolling):
    """Mean of the last values.

    Parameters
    ----------
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import RollingMean
    >>> RollingMean(2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, nan,  2.,  4.,  7.])
    """


class RollingStd(_Rolling):
    """Standard deviation of the last values.

    Parameters
    ----------
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import RollingStd
    >>> RollingStd(2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0])).round(2)
    array([ nan,  nan, 1.41, 1.41, 2.83])
    """


class RollingMin(_Rolling):
    """Minimum of the last values.

    Parameters
    ----------
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import RollingMin
    >>> RollingMin(2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, nan,  1.,  3.,  5.])
    """


class RollingMax(_Rolling):
    """Maximum of the last values.

    Parameters
    ----------
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import RollingMax
    >>> RollingMax(2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, nan,  3.,  5.,  9.])
    """


@dataclass(frozen=True)
class RollingQuantile(_LagTransform):
    """Quantile of the last values.

    Parameters
    ----------
    p : float
        Between 0 and 1; 0.5 is the median.
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import RollingQuantile
    >>> RollingQuantile(0.5, window_size=3)(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, nan, nan,  3.,  5.])
    """

    p: float
    window_size: int
    min_samples: int | None = None


@dataclass(frozen=True)
class _SeasonalRolling(_LagTransform):
    season_length: int
    window_size: int
    min_samples: int | None = None


class SeasonalRollingMean(_SeasonalRolling):
    """Mean of values one season apart.

    The most recent value is at the lag. If the lag is ``season_length``, all values are of the same season as the row.

    Parameters
    ----------
    season_length : int
        Number of steps from one value to the next.
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import SeasonalRollingMean
    >>> SeasonalRollingMean(season_length=2, window_size=2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, nan, nan,  3.,  6.])
    """


class SeasonalRollingStd(_SeasonalRolling):
    """Standard deviation of values one season apart.

    The most recent value is at the lag. If the lag is ``season_length``, all values are of the same season as the row.

    Parameters
    ----------
    season_length : int
        Number of steps from one value to the next.
    window_size : int
        Number of values, at least 1.
    min_samples : int or None, default=None
        Minimum number of values; with fewer the feature is NaN. None requires all.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import SeasonalRollingStd
    >>> SeasonalRollingStd(season_length=2, window_size=2)(np.array([1.0, 3.0, 5.0, 9.0, 2.0])).round(2)
    array([ nan,  nan,  nan, 2.83, 4.24])
    """


@dataclass(frozen=True)
class ExpandingMean(_LagTransform):
    """Mean of all values so far.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import ExpandingMean
    >>> ExpandingMean()(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan, 1. , 2. , 3. , 4.5])
    """


@dataclass(frozen=True)
class ExpandingStd(_LagTransform):
    """Standard deviation of all values so far.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import ExpandingStd
    >>> ExpandingStd()(np.array([1.0, 3.0, 5.0, 9.0, 2.0])).round(2)
    array([ nan,  nan, 1.41, 2.  , 3.42])
    """


@dataclass(frozen=True)
class ExpandingMin(_LagTransform):
    """Minimum of all values so far.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import ExpandingMin
    >>> ExpandingMin()(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan,  1.,  1.,  1.,  1.])
    """


@dataclass(frozen=True)
class ExpandingMax(_LagTransform):
    """Maximum of all values so far.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import ExpandingMax
    >>> ExpandingMax()(np.array([1.0, 3.0, 5.0, 9.0, 2.0]))
    array([nan,  1.,  3.,  5.,  9.])
    """


@dataclass(frozen=True)
class ExponentiallyWeightedMean(_LagTransform):
    """Mean with exponentially decreasing weights.

    Parameters
    ----------
    alpha : float
        Weight of the most recent value, in (0, 1]; the weight of each earlier value is smaller by ``1 - alpha``.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import ExponentiallyWeightedMean
    >>> ExponentiallyWeightedMean(0.5)(np.array([1.0, 3.0, 5.0, 9.0, 2.0])).round(2)
    array([ nan, 1.  , 2.  , 3.5 , 6.25])
    """

    alpha: float


def kernel_of(transform: Any, lag: int) -> tuple[str, Any]:
    """Name and kernel of a transform at a lag; transforms of mlforecast with the same name work too."""
    name = type(transform).__name__
    kernel = getattr(kernels, name, None)
    if kernel is None or name.startswith("_"):
        raise ValueError(f"lag_transforms[{lag}] contains {transform!r}, which is not supported; choose from {__all__}")
    if getattr(transform, "global_", False) or getattr(transform, "groupby", None):
        raise ValueError(f"lag_transforms[{lag}] contains {transform!r}, which pools series; remove that setting")
    _check_settings(transform, lag)
    wanted = [name for name in inspect.signature(kernel.__init__).parameters if name not in ("self", "lag")]
    settings = {key: getattr(transform, key) for key in wanted if hasattr(transform, key)}
    shown = [f"{key}{value}" for key, value in settings.items() if value is not None and key != "skipna"]
    return "_".join([name, f"lag{lag}", *shown]), kernel(lag=lag, **settings)


def _check_settings(transform: Any, lag: int) -> None:
    """Check settings that the kernels accept silently or reject without naming the setting."""
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
    """Number of past values that the statistic uses; None for statistics of all past values."""
    window = getattr(transform, "window_size", None)
    if window is None:
        return None
    return int(lag + window * (getattr(transform, "season_length", None) or 1))
