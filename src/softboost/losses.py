"""Loss functions, one small class each.

A loss compares ``y_true`` with ``raw_prediction``, the sum of the trees before the inverse link. Boosting uses the
gradient, to whose negative the next tree is fitted, and the curvature, with which the leaves are refitted if the
gradient alone does not determine the step length.

A new loss is one class with ``loss`` and ``gradient`` and one row in ``LOSSES``; all tests of losses then include it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

__all__ = [
    "LOSSES",
    "AbsoluteError",
    "FunctionLoss",
    "Gamma",
    "Huber",
    "LogCosh",
    "Loss",
    "Poisson",
    "Quantile",
    "SquaredError",
    "Tweedie",
    "make_loss",
]

Array = NDArray[Any]
FARTHEST_FROM_ONE = 1e12  # mean of y, or its inverse, up to which trees reach y from a prediction of one


def weighted_quantile(values: Array, weight: Array | None, q: float) -> float:
    """Smallest value at which the cumulative weight reaches the share q; the midpoint if there is an interval."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    weight = np.ones(len(values)) if weight is None else weight[order]
    cumulated = np.cumsum(weight)
    goal = q * cumulated[-1]
    slack = 1e-12 * cumulated[-1]
    low = int(np.searchsorted(cumulated, goal - slack))
    high = min(int(np.searchsorted(cumulated, goal + slack, side="right")), len(values) - 1)
    return float(0.5 * (values[low] + values[high]))


def weighted_mean(values: Array, weight: Array | None) -> float:
    """Mean over all elements of values (..., n_samples), rows weighted by weight (n_samples,)."""
    if weight is None:
        return float(values.mean())
    return float(np.average(values.reshape(-1, values.shape[-1]).mean(axis=0), weights=weight))


def _defaults(cls: type) -> dict[str, Any]:
    """Parameters of a constructor and their default values."""
    return {name: parameter.default for name, parameter in signature(cls).parameters.items()}


class Loss:
    """Base class of losses; a custom loss implements ``loss`` and ``gradient``.

    Attributes
    ----------
    refit_leaves : bool
        Whether the leaves are refitted with the curvature after a tree was fitted to the negative gradient.
    scales_with_y : bool
        Whether y may be standardised before boosting. True if the optimal prediction for ``a y + b`` is ``a`` times
        the optimal prediction for y plus ``b``.

    Examples
    --------
    A cubed error, which penalises large errors more than the squared error:

    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> class Cubed(Loss):
    ...     scales_with_y = True
    ...     def loss(self, y_true, raw_prediction):
    ...         return np.abs(raw_prediction - y_true) ** 3 / 3
    ...     def gradient(self, y_true, raw_prediction):
    ...         return np.abs(raw_prediction - y_true) * (raw_prediction - y_true)
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> SoftBoostRegressor(loss=Cubed()).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9
    True
    """

    name: ClassVar[str] = "custom"
    refit_leaves: bool = True
    scales_with_y: ClassVar[bool] = False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor, by name; with ``loss__`` before a name, a grid search sets it.

        Parameters
        ----------
        deep : bool, default=True
            Not used; for the interface of scikit-learn.

        Returns
        -------
        params : dict

        Examples
        --------
        >>> from softboost import SoftBoostRegressor
        >>> SoftBoostRegressor(loss=Huber(delta=2.0)).set_params(loss__delta=0.5).loss
        Huber(delta=0.5)
        """
        return {name: getattr(self, name) for name in _defaults(type(self)) if name in vars(self)}

    def set_params(self, **params: Any) -> Loss:
        """Set parameters of the constructor, which checks them.

        Parameters
        ----------
        **params
            New values, by name.

        Returns
        -------
        self
        """
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ValueError(f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {sorted(known)}")
        if params:
            type(self).__init__(self, **{**known, **params})
        return self

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_clone__(self) -> Loss:
        return copy.deepcopy(self)

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        """Loss of each element.

        Parameters
        ----------
        y_true : ndarray
            Targets, of any shape.
        raw_prediction : ndarray of the same shape
            Sum of the trees before the inverse link.

        Returns
        -------
        loss : ndarray of the same shape
        """
        raise NotImplementedError

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        """Derivative of the loss with respect to the raw prediction, elementwise.

        Parameters
        ----------
        y_true : ndarray
            Targets, of any shape.
        raw_prediction : ndarray of the same shape
            Sum of the trees before the inverse link.

        Returns
        -------
        gradient : ndarray of the same shape
            The next tree is fitted to its negative.
        """
        raise NotImplementedError

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        """Positive curvature of a quadratic approximation of the loss at the raw prediction.

        The default is the difference quotient of the gradient, or the slope of the line from the gradient to zero at y
        if that is steeper. It is therefore safe for losses that have kinks or are not convex.

        Parameters
        ----------
        y_true : ndarray
            Targets, of any shape.
        raw_prediction : ndarray of the same shape
            Sum of the trees before the inverse link.
        weight : ndarray of shape (n_samples,) or None, default=None
            Sample weights, for the means over all samples that limit the curvature; None weights all rows equally.

        Returns
        -------
        curvature : ndarray of the same shape
            Used to refit the leaves if ``refit_leaves`` is True.
        """
        y, raw = np.asarray(y_true, dtype=np.float64), np.asarray(raw_prediction, dtype=np.float64)
        h = 1e-5 * (1.0 + np.abs(raw))
        second = (self.gradient(y, raw + h) - self.gradient(y, raw - h)) / (2.0 * h)
        away = raw - y
        nearest = 1e-3 * (1e-12 + weighted_mean(np.abs(away), weight))
        secant = self.gradient(y, raw) * np.sign(away) / np.maximum(np.abs(away), nearest)
        steepest = np.maximum(np.where(np.isfinite(second), second, 0.0), secant)
        floor = max(1e-6 * weighted_mean(np.abs(steepest), weight), 1e-12)
        return np.maximum(steepest, floor).astype(raw_prediction.dtype)

    def quadratic(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> tuple[Array, Array]:
        """Gradient and curvature of the quadratic approximation with which the leaves are refitted.

        Losses with a kink return the gradient of a smoothed loss, so that a sample close to the kink does not jump
        from one side to the other because of rounding.

        Parameters
        ----------
        y_true, raw_prediction, weight
            As in :meth:`curvature`.

        Returns
        -------
        gradient, curvature : ndarray of the same shape
        """
        return self.gradient(y_true, raw_prediction), self.curvature(y_true, raw_prediction, weight)

    def fit_intercept_only(self, y_true: Array, weight: Array | None) -> float:
        """Constant raw prediction that minimises the loss, computed by damped Newton steps.

        Parameters
        ----------
        y_true : ndarray of shape (n_samples,)
            Targets.
        weight : ndarray of shape (n_samples,) or None
            Sample weights; None weights all rows equally.

        Returns
        -------
        raw_prediction : float
        """
        y_true = np.asarray(y_true, dtype=np.float64)
        weight = np.ones_like(y_true) if weight is None else np.asarray(weight, dtype=np.float64)

        def cost(constant: float) -> float:
            with np.errstate(all="ignore"):
                value = float(np.sum(weight * self.loss(y_true, np.full_like(y_true, constant))))
            return value if np.isfinite(value) else np.inf

        # the mean is a good initial value unless the loss has a link
        raw, value = min(((c, cost(c)) for c in (float(np.average(y_true, weights=weight)), 0.0)), key=lambda p: p[1])
        for _ in range(50):
            at = np.full_like(y_true, raw)
            gradient = float(np.sum(weight * self.gradient(y_true, at)))
            step = gradient / max(float(np.sum(weight * self.curvature(y_true, at, weight))), 1e-300)
            while abs(step) > 1e-13 * (1.0 + abs(raw)) and not cost(raw - step) < value:
                step /= 2.0
            if abs(step) <= 1e-13 * (1.0 + abs(raw)):
                break
            raw, value = raw - step, cost(raw - step)
        return _root(lambda c: float(np.sum(weight * self.gradient(y_true, np.full_like(y_true, c)))), raw)

    def inverse_link(self, raw_prediction: Array) -> Array:
        """Prediction in the units of y.

        Parameters
        ----------
        raw_prediction : ndarray
            Sum of the trees.

        Returns
        -------
        prediction : ndarray of the same shape
        """
        return raw_prediction

    def deviation(self, prediction: Array) -> Array:
        """Standard deviation of y at a prediction, up to a constant factor; prediction intervals start from it.

        Parameters
        ----------
        prediction : ndarray
            Predictions in the units of y.

        Returns
        -------
        deviation : ndarray of the same shape
            All ones by default.
        """
        return np.ones_like(prediction)

    def y_range(self) -> tuple[float, float]:
        """The smallest and the largest possible y, which limit prediction intervals.

        By default they are the limits of :meth:`inverse_link`.

        Returns
        -------
        low, high : float
        """
        if type(self).inverse_link is Loss.inverse_link:
            return -np.inf, np.inf
        with np.errstate(all="ignore"):
            ends = np.asarray(self.inverse_link(np.array([-1e9, 1e9])), dtype=np.float64)
        low, high = float(ends.min()), float(ends.max())
        return (low, high) if low < high else (-np.inf, np.inf)

    def rescaled(self, y_true: Array, scale: float, weight: Array | None = None) -> Loss:
        """The equivalent loss for y divided by ``scale``; also sets parameters that depend on the data.

        Parameters
        ----------
        y_true : ndarray
            Targets before the division; parameters that are None are estimated from them.
        scale : float
            The divisor.
        weight : ndarray of shape (n_samples,) or None, default=None
            Sample weights; None weights all rows equally.

        Returns
        -------
        loss : Loss
        """
        return self

    def check_target(self, y_true: Array) -> None:
        """Raise ValueError if y contains values for which the loss is not defined.

        Parameters
        ----------
        y_true : ndarray
            Targets.
        """

    def mean(self, y_true: Array, raw_prediction: Array, weight: Array | None) -> float:
        """Weighted mean of the loss over samples and outputs.

        Parameters
        ----------
        y_true, raw_prediction : ndarray of shape (n_outputs, n_samples)
            Targets and raw predictions.
        weight : ndarray of shape (n_samples,) or None
            Sample weights; None weights all rows equally.

        Returns
        -------
        mean : float
        """
        return float(np.average(self.loss(y_true, raw_prediction).mean(axis=0), weights=weight))


def _root(slope: Callable[[float], float], near: float) -> float:
    """The zero of an increasing function next to a point; the point if there is none.

    Costs determine a minimum only to half of the digits, their slope determines it to all of them.
    """
    reach = 1e-9 * (1.0 + abs(near))
    for _ in range(4):
        if slope(near - reach) < 0 < slope(near + reach):
            return float(brentq(slope, near - reach, near + reach, xtol=1e-15 * (1.0 + abs(near)), disp=False))
        reach *= 100.0
    return near


class SquaredError(Loss):
    """Half the squared error, ``(y - f)^2 / 2``. Its negative gradient is the residual. Predicts the mean.

    Examples
    --------
    >>> import numpy as np
    >>> SquaredError().gradient(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    array([2., 1.])
    """

    name = "squared_error"
    refit_leaves = False
    scales_with_y = True

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        return 0.5 * (y_true - raw_prediction) ** 2

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return raw_prediction - y_true

    def fit_intercept_only(self, y_true: Array, weight: Array | None) -> float:
        return float(np.average(y_true, weights=weight))


class AbsoluteError(Loss):
    """Absolute error ``|y - f|``. Predicts the median and is robust to outliers.

    Examples
    --------
    >>> import numpy as np
    >>> AbsoluteError().fit_intercept_only(np.array([1.0, 2.0, 1000.0]), None)
    2.0
    """

    name = "absolute_error"
    scales_with_y = True

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        return np.abs(y_true - raw_prediction)

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return _sign(y_true, raw_prediction)

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        return 1.0 / _distance(y_true, raw_prediction, weight)

    def quadratic(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> tuple[Array, Array]:
        curvature = self.curvature(y_true, raw_prediction, weight)
        return curvature * (raw_prediction - y_true), curvature

    def fit_intercept_only(self, y_true: Array, weight: Array | None) -> float:
        return weighted_quantile(y_true, weight, 0.5)


def _sign(y_true: Array, raw_prediction: Array) -> Array:
    """Sign of f - y; 0 if they are equal up to rounding, because a fit that interpolates a row rounds either way."""
    above = raw_prediction - y_true
    rounding = 1e-12 if above.dtype == np.float64 else 1e-6
    equal = np.abs(above) <= rounding * np.abs(y_true).max(initial=0.0)
    return np.where(equal, 0.0, np.sign(above)).astype(above.dtype)


def _distance(y_true: Array, raw_prediction: Array, weight: Array | None) -> Array:
    """|y - f| with a positive minimum, because the curvature of the approximation is infinite at zero.

    The minimum is a tenth of the median distance, or the distance of the nearest 5% of the rows if that is less. With a
    much smaller one, the few rows next to the prediction would determine the leaves, and rounding errors would grow
    from round to round.
    """
    distance = np.abs(y_true - raw_prediction)
    own = None if weight is None else np.broadcast_to(weight, distance.shape).ravel()
    near, middle = (weighted_quantile(distance.ravel(), own, q) for q in (0.05, 0.5))
    least = 1e-3 * weighted_mean(distance, weight)  # most rows may be fitted exactly
    return np.maximum(distance, max(min(near, 0.1 * middle), least, 1e-30))


class Quantile(Loss):
    """Pinball loss. Predicts a quantile of y.

    Parameters
    ----------
    quantile : float, default=0.5
        The quantile, between 0 and 1; one in ten values exceeds the 0.9 quantile.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.zeros((200, 1)), rng.uniform(size=200)
    >>> upper = SoftBoostRegressor(loss=Quantile(0.9)).fit(X, y)
    >>> float((y <= upper.predict(X)).mean().round(2))
    0.9
    """

    name = "quantile"
    scales_with_y = True

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(
                f"quantile must be strictly between 0 and 1, got {quantile!r}; use 0.9 for the 90th percentile"
            )
        self.quantile = quantile

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        above = y_true - raw_prediction
        return np.maximum(self.quantile * above, (self.quantile - 1.0) * above)

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        sign = _sign(y_true, raw_prediction)
        return np.where(sign < 0, -self.quantile, np.where(sign > 0, 1.0 - self.quantile, 0.0)).astype(sign.dtype)

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        return 0.5 / _distance(y_true, raw_prediction, weight)

    def quadratic(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> tuple[Array, Array]:
        curvature = self.curvature(y_true, raw_prediction, weight)
        return 0.5 - self.quantile + curvature * (raw_prediction - y_true), curvature

    def fit_intercept_only(self, y_true: Array, weight: Array | None) -> float:
        return weighted_quantile(y_true, weight, self.quantile)


class Huber(Loss):
    """Squared error near zero, absolute error beyond ``delta``. Close to the mean, but robust to outliers.

    Parameters
    ----------
    delta : float or None, default=None
        Error at which the loss becomes linear, in units of y. None uses 1.345 robust standard deviations of y.
    refit_leaves : bool, default=True
        Whether the leaves of each tree are solved again with the curvature of the loss. Without it a round takes a
        fifth of the time; with many rows the gradient alone is enough.

    Examples
    --------
    >>> import numpy as np
    >>> Huber(delta=1.0).gradient(np.zeros(3), np.array([0.5, 1.0, 100.0]))
    array([0.5, 1. , 1. ])
    """

    name = "huber"
    scales_with_y = True

    def __init__(self, delta: float | None = None, refit_leaves: bool = True) -> None:
        if delta is not None and not delta > 0:
            raise ValueError(f"delta must be positive, got {delta!r}; use None to estimate it from the data")
        if not isinstance(refit_leaves, bool):
            raise ValueError(f"refit_leaves must be True or False, got {refit_leaves!r}")
        self.delta = delta
        self.refit_leaves = refit_leaves

    def _delta(self) -> float:
        return 1.0 if self.delta is None else self.delta

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        delta, distance = self._delta(), np.abs(y_true - raw_prediction)
        return np.where(distance <= delta, 0.5 * distance**2, delta * (distance - 0.5 * delta))

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return np.clip(raw_prediction - y_true, -self._delta(), self._delta())

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        return self._delta() / np.maximum(np.abs(y_true - raw_prediction), self._delta())

    def rescaled(self, y_true: Array, scale: float, weight: Array | None = None) -> Loss:
        delta = self.delta if self.delta is not None else 1.345 * _robust_scale(y_true, weight)
        return Huber(delta / scale, self.refit_leaves)


def _robust_scale(y_true: Array, weight: Array | None) -> float:
    """Median absolute deviation, scaled to a normal distribution; the standard deviation if it is zero."""
    rows = np.atleast_2d(y_true)
    median = np.array([weighted_quantile(row, weight, 0.5) for row in rows])
    own = None if weight is None else np.tile(weight, len(rows))
    scale = 1.4826 * weighted_quantile(np.abs(rows - median[:, None]).ravel(), own, 0.5)
    if scale > 0:
        return scale
    mean = weighted_mean(rows, weight)
    return max(float(np.sqrt(weighted_mean((rows - mean) ** 2, weight))), 1e-30)


class LogCosh(Loss):
    """``s^2 log cosh((y - f) / s)``: a smooth Huber loss.

    Parameters
    ----------
    scale : float or None, default=None
        Error at which the loss changes from quadratic to linear, in units of y. None uses one robust standard
        deviation of y.

    Examples
    --------
    >>> import numpy as np
    >>> LogCosh(scale=1.0).gradient(np.zeros(3), np.array([0.1, 1.0, 100.0])).round(2)
    array([0.1 , 0.76, 1.  ])
    """

    name = "log_cosh"
    scales_with_y = True

    def __init__(self, scale: float | None = None) -> None:
        if scale is not None and not scale > 0:
            raise ValueError(f"scale must be positive, got {scale!r}; use None to estimate it from the data")
        self.scale = scale

    def _scaled(self, y_true: Array, raw_prediction: Array) -> tuple[float, Array]:
        scale = 1.0 if self.scale is None else self.scale
        return scale, (raw_prediction - y_true) / scale

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        scale, t = self._scaled(y_true, raw_prediction)
        t = np.abs(t)
        return scale**2 * (t + np.log1p(np.exp(-2.0 * t)) - np.log(2.0))

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        scale, t = self._scaled(y_true, raw_prediction)
        return scale * np.tanh(t)

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        t = np.maximum(np.abs(self._scaled(y_true, raw_prediction)[1]), 1e-6)
        return np.tanh(t) / t

    def rescaled(self, y_true: Array, scale: float, weight: Array | None = None) -> Loss:
        return LogCosh((self.scale if self.scale is not None else _robust_scale(y_true, weight)) / scale)


class _LogLinkLoss(Loss):
    """Base class of losses with a log link, for a positive mean; the variance of y is a power of its mean."""

    power: float

    def inverse_link(self, raw_prediction: Array) -> Array:
        return np.exp(_clipped(raw_prediction))

    def deviation(self, prediction: Array) -> Array:
        return prediction ** (self.power / 2)

    def y_range(self) -> tuple[float, float]:
        return 0.0, np.inf

    def fit_intercept_only(self, y_true: Array, weight: Array | None) -> float:
        mean = float(np.average(y_true, weights=weight))
        return float(np.log(max(mean, 1e-300)))

    def check_target(self, y_true: Array) -> None:
        largest, most = float(y_true.max()), 1e30 if y_true.dtype == np.float32 else 1e100
        if not 1.0 / most <= largest <= most:
            raise ValueError(
                f"loss={self.name!r} needs the largest y between {1 / most:g} and {most:g}, got {largest!r}; divide y "
                "by a constant"
            )


def check_zero_start(loss: Loss, y_true: Array) -> None:
    """Refuse ``init="zero"`` where a log link makes it a prediction of one, from which trees do not reach y."""
    if isinstance(loss, _LogLinkLoss):
        mean = float(np.mean(y_true))
        if not 1.0 / FARTHEST_FROM_ONE <= mean <= FARTHEST_FROM_ONE:
            raise ValueError(
                f"init='zero' with loss={loss.name!r} starts at a prediction of 1, too far from the mean {mean:.3g} of "
                "y; use init='constant' or divide y by a constant"
            )


def _clipped(raw_prediction: Array) -> Array:
    """Clip, so that exp neither overflows nor underflows."""
    limit = 80.0 if raw_prediction.dtype == np.float32 else 250.0
    return np.clip(raw_prediction, -limit, limit)


def _log(y_true: Array) -> Array:
    return np.log(np.maximum(y_true, 1e-300))


class Poisson(_LogLinkLoss):
    """Half the Poisson deviance for counts and rates, y >= 0, with a log link. Predictions are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> model = SoftBoostRegressor(loss="poisson").fit(X, rng.poisson(np.exp(X[:, 0])))
    >>> bool((model.predict(X) > 0).all())
    True
    """

    name = "poisson"
    power = 1.0

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        raw = _clipped(raw_prediction)
        return np.exp(raw) - y_true * raw + y_true * (_log(y_true) - 1.0)

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return np.exp(_clipped(raw_prediction)) - y_true

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        return np.maximum(np.exp(_clipped(raw_prediction)), 0.5 * y_true)  # limits Newton steps to two

    def check_target(self, y_true: Array) -> None:
        if np.any(y_true < 0):
            raise ValueError(f"loss='poisson' needs y >= 0, got {float(y_true.min())!r}; use 'squared_error' instead")
        if not np.any(y_true > 0):
            raise ValueError("loss='poisson' needs at least one positive y, but all are zero; use 'squared_error'")
        super().check_target(y_true)


class Gamma(_LogLinkLoss):
    """Half the gamma deviance for positive, right-skewed y, with a log link. Errors are relative to the mean.

    Examples
    --------
    >>> import numpy as np
    >>> off_by_half = Gamma().loss(np.array([1.0, 1000.0]), np.log([1.5, 1500.0]))
    >>> bool(np.isclose(*off_by_half))
    True
    """

    name = "gamma"
    power = 2.0

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        raw = _clipped(raw_prediction)
        return y_true * np.exp(-raw) + raw - _log(y_true) - 1.0

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return 1.0 - y_true * np.exp(-_clipped(raw_prediction))

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        return np.maximum(y_true * np.exp(-_clipped(raw_prediction)), 0.5)

    def check_target(self, y_true: Array) -> None:
        if np.any(y_true <= 0):
            raise ValueError(f"loss='gamma' needs y > 0, got {float(y_true.min())!r}; use 'tweedie' for zeros")
        super().check_target(y_true)


class Tweedie(_LogLinkLoss):
    """Half the Tweedie deviance for amounts with many zeros, y >= 0, with a log link.

    Parameters
    ----------
    power : float, default=1.5
        Variance power, strictly between 1 (Poisson) and 2 (gamma).

    Examples
    --------
    >>> import numpy as np
    >>> Tweedie(power=1.5).inverse_link(np.array([0.0]))
    array([1.])
    """

    name = "tweedie"

    def __init__(self, power: float = 1.5) -> None:
        if not 1.0 < power < 2.0:
            raise ValueError(f"power must be strictly between 1 and 2, got {power!r}; 1 is 'poisson', 2 is 'gamma'")
        self.power = power

    def _terms(self, y_true: Array, raw_prediction: Array) -> tuple[Array, Array]:
        raw = _clipped(raw_prediction)
        return y_true * np.exp((1.0 - self.power) * raw), np.exp((2.0 - self.power) * raw)

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        first, second = self._terms(y_true, raw_prediction)
        least = y_true ** (2.0 - self.power) / ((2.0 - self.power) * (self.power - 1.0))
        return second / (2.0 - self.power) + first / (self.power - 1.0) - least

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        first, second = self._terms(y_true, raw_prediction)
        return second - first

    def curvature(self, y_true: Array, raw_prediction: Array, weight: Array | None = None) -> Array:
        first, second = self._terms(y_true, raw_prediction)
        return (2.0 - self.power) * second + (self.power - 1.0) * first

    def check_target(self, y_true: Array) -> None:
        if np.any(y_true < 0):
            raise ValueError(f"loss='tweedie' needs y >= 0, got {float(y_true.min())!r}; use 'squared_error' instead")
        if not np.any(y_true > 0):
            raise ValueError("loss='tweedie' needs at least one positive y, but all are zero; use 'squared_error'")
        super().check_target(y_true)


class FunctionLoss(Loss):
    """A custom loss from a pair of elementwise functions ``(loss, gradient)``.

    Parameters
    ----------
    loss : callable
        Function of ``(y_true, raw_prediction)`` that returns the loss of each element.
    gradient : callable
        Function of the same arguments that returns the derivative with respect to the raw prediction.

    Examples
    --------
    >>> import numpy as np
    >>> quartic = FunctionLoss(lambda y, f: (y - f) ** 4 / 4, lambda y, f: (f - y) ** 3)
    >>> quartic.gradient(np.array([1.0]), np.array([3.0]))
    array([8.])
    """

    def __init__(self, loss: Callable[[Array, Array], Array], gradient: Callable[[Array, Array], Array]) -> None:
        self._loss, self._gradient = loss, gradient

    def loss(self, y_true: Array, raw_prediction: Array) -> Array:
        return np.asarray(self._loss(y_true, raw_prediction))

    def gradient(self, y_true: Array, raw_prediction: Array) -> Array:
        return np.asarray(self._gradient(y_true, raw_prediction), dtype=raw_prediction.dtype)


LOSSES: dict[str, type[Loss]] = {
    cls.name: cls for cls in (SquaredError, AbsoluteError, Huber, Quantile, LogCosh, Poisson, Gamma, Tweedie)
}


def make_loss(loss: Any) -> Loss:
    """Create a loss from the parameter ``loss`` of SoftBoostRegressor.

    Parameters
    ----------
    loss : str, Loss, object or pair of callables
        A key of ``LOSSES``, a Loss, an object with methods ``loss`` and ``gradient``, or a pair of such functions.

    Returns
    -------
    loss : Loss

    Examples
    --------
    >>> make_loss("quantile").quantile
    0.5
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss={loss!r} is not valid; choose one of {sorted(LOSSES)} or pass a Loss object")
        return LOSSES[loss]()
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, tuple) and len(loss) == 2 and all(callable(f) for f in loss):
        return FunctionLoss(*loss)
    if callable(getattr(loss, "loss", None)) and callable(getattr(loss, "gradient", None)):
        return FunctionLoss(loss.loss, loss.gradient)
    raise ValueError(
        f"loss={loss!r} is not valid; pass a name, an object with methods loss(y_true, raw_prediction) and "
        "gradient(y_true, raw_prediction), or a pair of such functions"
    )
