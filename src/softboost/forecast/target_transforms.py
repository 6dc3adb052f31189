"""Transforms of the target, one class each: learned from the training rows of each series, inverted in forecasts.

Names follow mlforecast. :meth:`TargetTransform.fit` learns a transform; :meth:`TargetTransform.apply` returns the
transformed history and the inverse function for forecasts.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from coreforecast import scalers

from ._panel import Array, equal_groups, grouped

__all__ = ["Differences", "LocalMinMaxScaler", "LocalRobustScaler", "LocalStandardScaler", "Log", "TargetTransform"]

Inverse = Callable[[Array], Array]


class TargetTransform(ABC):
    """Base class of invertible transforms of the target.

    ``n_lost`` rows at the start of each series have no transformed value. ``pointwise`` states that the transform is
    one increasing function of y for all series and times, so that intervals can be computed on its scale. A custom
    transform needs one method, ``apply``.

    Series are concatenated: series i is ``y[indptr[i]:indptr[i + 1]]``.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast.target_transforms import TargetTransform
    >>> class SquareRoot(TargetTransform):
    ...     pointwise = True
    ...     def apply(self, y, indptr):
    ...         return np.sqrt(y), np.square
    >>> z, inverse = SquareRoot().apply(np.array([4.0, 9.0]), np.array([0, 2]))
    >>> z, inverse(z)
    (array([2., 3.]), array([4., 9.]))
    """

    n_lost: int = 0
    pointwise: bool = False

    def fit(self, y: Array, indptr: Array) -> TargetTransform:
        """Learn from training rows and return a fitted copy.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            Concatenated values of all series.
        indptr : ndarray of shape (n_series + 1,)
            Start of each series, and the end of the last.

        Returns
        -------
        fitted : TargetTransform
        """
        return copy.copy(self)

    def take(self, series: Array) -> TargetTransform:
        """Return the transform of a part of the series.

        Parameters
        ----------
        series : ndarray of int or bool
            Indices or mask of the series.

        Returns
        -------
        taken : TargetTransform
        """
        return self

    def join(self, other: TargetTransform) -> TargetTransform:
        """Append a transform of the same class that was fitted to other series.

        Parameters
        ----------
        other : TargetTransform
            Transform of the other series.

        Returns
        -------
        joined : TargetTransform
        """
        return self

    def with_stats(self, stats: Any, n_series: int) -> TargetTransform:
        """Return a copy with the fitted values of a file.

        Parameters
        ----------
        stats : ndarray or None
            Fitted values; None for transforms without any.
        n_series : int
            Required number of series.

        Returns
        -------
        fitted : TargetTransform
        """
        if stats is not None:
            raise ValueError(f"{self!r} has no fitted values, but the file contains some")
        return self

    @abstractmethod
    def apply(self, y: Array, indptr: Array) -> tuple[Array, Inverse]:
        """Transform a history and return the inverse.

        Parameters
        ----------
        y, indptr
            As in :meth:`fit`.

        Returns
        -------
        z : ndarray of shape (n_rows,)
            The transformed history, NaN in the first ``n_lost`` rows of each series.
        inverse : callable
            Transforms forecasts (n_series, h) back to the scale of y.
        """

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.endswith("_"))
        return f"{type(self).__name__}({settings})"


class Log(TargetTransform):
    """``log(y + offset)``: errors are relative to the level, and bounds of intervals are above ``-offset``.

    Parameters
    ----------
    offset : float, default=0.0
        Added before taking the logarithm; 1.0 allows zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import Log
    >>> z, inverse = Log().apply(np.array([1.0, np.e]), np.array([0, 2]))
    >>> z
    array([0., 1.])
    """

    pointwise = True

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset

    def apply(self, y: Array, indptr: Array) -> tuple[Array, Inverse]:
        least = np.min(y, initial=np.inf, where=~np.isnan(y))
        if least + self.offset <= 0:
            raise ValueError(
                f"Log(offset={self.offset!r}) needs y + offset > 0, but the smallest y is {least:g}; "
                "use a larger offset or remove the transform"
            )
        least = np.nextafter(-self.offset, np.inf)  # so that inverted values have a logarithm again
        return np.log(y + self.offset), lambda z: np.maximum(np.exp(np.clip(z, -700.0, 700.0)) - self.offset, least)


class Differences(TargetTransform):
    """Differences at the given lags, in sequence: 1 removes a trend, the season length a season.

    Parameters
    ----------
    differences : iterable of int
        Lags of at least 1, in the order of application.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import Differences
    >>> z, inverse = Differences([1]).apply(np.array([1.0, 3.0, 6.0]), np.array([0, 3]))
    >>> z
    array([nan,  2.,  3.])
    >>> inverse(np.array([[4.0, 5.0]]))
    array([[10., 15.]])
    """

    def __init__(self, differences: Iterable[int]) -> None:
        self.differences = [int(d) for d in differences]
        if not self.differences or min(self.differences) < 1:
            raise ValueError(f"differences must be integers of at least 1, got {self.differences!r}")

    @property
    def n_lost(self) -> int:  # type: ignore[override]
        return sum(self.differences)

    def apply(self, y: Array, indptr: Array) -> tuple[Array, Inverse]:
        steps = [scalers.Difference(d) for d in self.differences]
        for step in steps:
            y = step.fit_transform(grouped(y, indptr))

        def inverse(z: Array) -> Array:
            for step in reversed(steps):
                z = step.inverse_transform(equal_groups(z)).reshape(z.shape)
            return z

        return y, inverse


class _Scaler(TargetTransform):
    """Subtract an offset and divide by a scale, which are learned from the training rows of each series."""

    stats_: Array

    @abstractmethod
    def _kernel(self) -> Any: ...

    def fit(self, y: Array, indptr: Array) -> TargetTransform:
        fitted = copy.copy(self)
        stats = self._kernel().fit(grouped(y, indptr)).stats_
        offset, scale = np.nan_to_num(stats[:, 0]), stats[:, 1]
        constant = ~(scale > 1e-12 * np.abs(offset)) | ~np.isfinite(scale)
        fitted.stats_ = np.column_stack([offset, np.where(constant, 1.0, scale)])
        return fitted

    def take(self, series: Array) -> TargetTransform:
        taken = copy.copy(self)
        taken.stats_ = self.stats_[series]
        return taken

    def with_stats(self, stats: Any, n_series: int) -> TargetTransform:
        fine = isinstance(stats, np.ndarray) and stats.shape == (n_series, 2) and np.isfinite(stats).all()
        if not fine or not (stats[:, 1] > 0).all():
            raise ValueError(f"{self!r} needs an offset and a positive scale for each of {n_series} series")
        made = copy.copy(self)
        made.stats_ = stats
        return made

    def join(self, other: TargetTransform) -> TargetTransform:
        assert isinstance(other, _Scaler)
        joined = copy.copy(self)
        joined.stats_ = np.vstack([self.stats_, other.stats_])
        return joined

    def apply(self, y: Array, indptr: Array) -> tuple[Array, Inverse]:
        offset, scale = self.stats_.T
        sizes = np.diff(indptr)
        z = (y - np.repeat(offset, sizes)) / np.repeat(scale, sizes)
        return z, lambda z: z * scale[:, None] + offset[:, None]


class LocalStandardScaler(_Scaler):
    """Scale each series to zero mean and unit variance.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import LocalStandardScaler
    >>> y, ends = np.array([1.0, 3.0, 100.0, 300.0]), np.array([0, 2, 4])  # two series
    >>> z, inverse = LocalStandardScaler().fit(y, ends).apply(y, ends)
    >>> z
    array([-1.,  1., -1.,  1.])
    >>> inverse(np.array([[0.0], [2.0]]))
    array([[  2.],
           [400.]])
    """

    def _kernel(self) -> Any:
        return scalers.LocalStandardScaler()


class LocalMinMaxScaler(_Scaler):
    """Scale the training rows of each series to the range from zero to one.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import LocalMinMaxScaler
    >>> y, ends = np.array([1.0, 2.0, 3.0]), np.array([0, 3])
    >>> LocalMinMaxScaler().fit(y, ends).apply(y, ends)[0]
    array([0. , 0.5, 1. ])
    """

    def _kernel(self) -> Any:
        return scalers.LocalMinMaxScaler()


class LocalRobustScaler(_Scaler):
    """Scale each series to zero median and unit interquartile range or unit median absolute deviation.

    Parameters
    ----------
    scale : {"iqr", "mad"}, default="iqr"
        Measure of spread: interquartile range or median absolute deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost.forecast import LocalRobustScaler
    >>> y, ends = np.array([1.0, 2.0, 3.0, 4.0, 1000.0]), np.array([0, 5])
    >>> LocalRobustScaler().fit(y, ends).apply(y, ends)[0][:4]
    array([-1. , -0.5,  0. ,  0.5])
    """

    def __init__(self, scale: str = "iqr") -> None:
        self.scale = scale

    def _kernel(self) -> Any:
        return scalers.LocalRobustScaler(self.scale)


class Chain(TargetTransform):
    """A sequence of transforms."""

    def __init__(self, steps: Sequence[TargetTransform]) -> None:
        self.steps = list(steps)

    @property
    def n_lost(self) -> int:  # type: ignore[override]
        return sum(step.n_lost for step in self.steps)

    def fit(self, y: Array, indptr: Array) -> Chain:
        fitted = []
        for step in self.steps:
            fitted.append(step.fit(y, indptr))
            y, _ = fitted[-1].apply(y, indptr)
        return Chain(fitted)

    def take(self, series: Array) -> Chain:
        return Chain([step.take(series) for step in self.steps])

    def join(self, other: TargetTransform) -> Chain:
        assert isinstance(other, Chain)
        return Chain([a.join(b) for a, b in zip(self.steps, other.steps, strict=True)])

    def apply(self, y: Array, indptr: Array) -> tuple[Array, Inverse]:
        inverses = []
        for step in self.steps:
            y, inverse = step.apply(y, indptr)
            inverses.append(inverse)

        def undo(z: Array) -> Array:
            for inverse in reversed(inverses):
                z = inverse(z)
            return z

        return y, undo

    @property
    def infimum(self) -> float:
        """Value that y must exceed: the negative offset if the first step is a logarithm."""
        return -self.steps[0].offset if self.steps and isinstance(self.steps[0], Log) else -np.inf

    def link(self, y: Array) -> tuple[Array, Inverse]:
        """Values of y (any shape) on the scale of the leading pointwise steps, and the inverse."""
        pointwise = []
        for step in self.steps:
            if not step.pointwise:
                break
            pointwise.append(step)
        z, inverse = Chain(pointwise).apply(y.ravel(), np.array([0, y.size]))
        return z.reshape(y.shape), inverse


def read_target_transforms(given: Any) -> Chain:
    """Chain of the transforms given by the user, of this module or of mlforecast."""
    steps = []
    for transform in given or []:
        if isinstance(transform, TargetTransform):
            steps.append(transform)
            continue
        name = type(transform).__name__
        if name == "Differences":
            steps.append(Differences(transform.differences))
        elif name in ("LocalStandardScaler", "LocalMinMaxScaler"):
            steps.append({"LocalStandardScaler": LocalStandardScaler, "LocalMinMaxScaler": LocalMinMaxScaler}[name]())
        else:
            raise ValueError(
                f"target_transforms contains {transform!r}; use transforms of softboost.forecast: {__all__[:-1]}"
            )
    return Chain(steps)
