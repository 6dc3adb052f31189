"""Feature transforms z = phi(x) that are learned during boosting: the paper's Q and its generalisations.

A transform consists of three pure functions of its parameters ``theta``, a NumPy array: the initial parameters, z, and
the pullback of a gradient from z to theta. Boosting carries theta from round to round and updates it by gradient steps
together with each new tree. A custom transform implements these three methods; see :class:`Transform` for an example.

:class:`TorchTransform` and the functions ``mlp``, ``rnn``, ``lstm`` and ``cnn`` are here too; PyTorch is imported only
when one of them is accessed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

__all__ = ["TRANSFORMS", "Diagonal", "Linear", "Transform", "make_transform"]

Array = NDArray[Any]
_NEED_TORCH = ("TorchTransform", "cnn", "lstm", "mlp", "rnn")  # not in __all__: `import *` works without PyTorch


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("softboost.transforms._torch"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"softboost.transforms.{name} needs PyTorch, which is not installed; pip install 'softboost[torch]'"
        ) from None


def __dir__() -> list[str]:
    return [*__all__, *_NEED_TORCH]


class Transform(BaseEstimator):
    """Base class of transforms.

    ``X`` has shape (n_samples, n_features) in all methods and is standardised unless ``standardize=False``.

    Parameters
    ----------
    learning_rate : float, default=0.02
        Learning rate of Adam for theta. A larger value learns features in fewer rounds but may overshoot.
    n_steps : int, default=40
        Number of gradient steps on tree and transform per boosting round. Fewer than 20 learn little.

    Examples
    --------
    Random Fourier features whose frequencies are learned:

    >>> import numpy as np
    >>> class Fourier(Transform):
    ...     def start(self, X, target, rng):
    ...         return rng.normal(size=(3, X.shape[1]))
    ...     def apply(self, theta, X):
    ...         return np.cos(X @ theta.T)
    ...     def pullback(self, theta, X, grad_z):
    ...         return -(grad_z * np.sin(X @ theta.T)).T @ X
    >>> Fourier().apply(np.zeros((3, 2)), np.ones((4, 2))).shape
    (4, 3)
    """

    kernel_kind: ClassVar[Literal["identity", "diagonal", "linear"] | None] = None
    batch_size: int | None = None  # number of rows of a gradient step; None uses all rows

    def __init__(self, learning_rate: float = 0.02, n_steps: int | None = 40) -> None:
        self.learning_rate = learning_rate
        self.n_steps = n_steps

    def start(self, X: Array, target: Array, rng: np.random.Generator) -> Array:
        """Initial theta, before the first round.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Training rows.
        target : ndarray of shape (n_samples, n_outputs)
            Target of the first tree.
        rng : numpy.random.Generator
            Random number generator for random initial values.

        Returns
        -------
        theta : ndarray of any shape
        """
        raise NotImplementedError

    @property
    def draws_start(self) -> bool:
        """Whether the initial theta may be random; if not, no generator is created for it."""
        return True

    def start_weighted(self, X: Array, target: Array, weight: Array | None, rng: np.random.Generator) -> Array:
        """Initial theta for weighted rows; override it if the initial value depends on the rows.

        Parameters
        ----------
        X, target, rng
            As in :meth:`start`.
        weight : ndarray of shape (n_samples,) or None
            Sample weights; None weights all rows equally.

        Returns
        -------
        theta : ndarray of any shape
        """
        return self.start(X, target, rng)

    def apply(self, theta: Array, X: Array) -> Array:
        """Compute the learned features z.

        Parameters
        ----------
        theta : ndarray
            Parameters, in the shape returned by :meth:`start`.
        X : ndarray of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        z : ndarray of shape (n_samples, n_components)
        """
        raise NotImplementedError

    def pullback(self, theta: Array, X: Array, grad_z: Array) -> Array:
        """Gradient with respect to theta of ``sum(grad_z * apply(theta, X))``.

        Parameters
        ----------
        theta, X
            As in :meth:`apply`.
        grad_z : ndarray of shape (n_samples, n_components)
            Gradient of the loss with respect to z.

        Returns
        -------
        gradient : ndarray of theta's shape
        """
        raise NotImplementedError

    def project(self, theta: Array, step: float) -> Array:
        """Apply a proximal step to theta; transforms without a penalty return theta unchanged.

        Parameters
        ----------
        theta : ndarray
            Parameters after a gradient step.
        step : float
            Size of the gradient step, by which the penalty is multiplied.

        Returns
        -------
        theta : ndarray of the same shape
        """
        return theta

    def starts_at_identity(self, n_features: int) -> bool:
        """Whether z initially holds the columns of X and nothing else, so that the model starts as without a transform.

        The steps of such a transform are validated on held rows; see ``docs/transforms.md``.

        Parameters
        ----------
        n_features : int
            Number of columns of X.

        Returns
        -------
        bool
        """
        return False

    def towards_identity(self, theta: Array, amount: float) -> Array:
        """Move theta by a share of its distance from the parameters at which z = x.

        Parameters
        ----------
        theta : ndarray
            Parameters after a gradient step.
        amount : float
            The share, in [0, 1].

        Returns
        -------
        theta : ndarray of the same shape
            Unchanged if there are no such parameters.
        """
        return theta

    def step_limit(self, validated: bool = False) -> int:
        """Maximum number of gradient steps of a round.

        Parameters
        ----------
        validated : bool, default=False
            Whether held rows end the steps when they no longer help.

        Returns
        -------
        int
        """
        assert self.n_steps is not None
        return self.n_steps

    def matrix(self, theta: Array) -> Array | None:
        """Q with ``apply(theta, X) == X @ Q.T``.

        Parameters
        ----------
        theta : ndarray
            As in :meth:`apply`.

        Returns
        -------
        Q : ndarray of shape (n_components, n_features) or None
            None if the transform is not linear.
        """
        return None

    def training(self, rng: np.random.Generator) -> Transform:
        """The transform during the gradient steps of a round: itself, unless it has noise in training (dropout).

        Every ``pullback`` of the result follows an ``apply`` with the same theta and X and refers to it.

        Parameters
        ----------
        rng : numpy.random.Generator
            Random number generator for the noise.

        Returns
        -------
        transform : Transform
        """
        return self

    def with_columns(self, names: Sequence[str] | None) -> Transform:
        """The transform with column names replaced by column indices.

        Parameters
        ----------
        names : sequence of str or None
            Names of the columns of X, if it has any.

        Returns
        -------
        transform : Transform
        """
        return self

    def with_lags(self, columns: Sequence[int]) -> Transform:
        """The transform with the given lag columns as its window, for transforms that process a window.

        Parameters
        ----------
        columns : sequence of int
            Indices of the lag columns of a series, oldest lag first.

        Returns
        -------
        transform : Transform
        """
        return self

    def check(self, n_features: int) -> None:
        """Raise ValueError if a parameter is out of range.

        Parameters
        ----------
        n_features : int
            Number of columns of X.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"{_name(self)}: learning_rate must be positive, got {self.learning_rate!r}")
        self._check_steps()

    def _check_steps(self) -> None:
        if not (isinstance(self.n_steps, (int, np.integer)) and self.n_steps >= 1):
            raise ValueError(f"{_name(self)}: n_steps must be an integer of at least 1, got {self.n_steps!r}")


def _name(transform: Transform) -> str:
    return f"feature_transform {type(transform).__name__}"


def _shrink_columns(Q: Array, amount: float) -> Array:
    """Group soft-thresholding: reduce the norm of each column of Q by ``amount``, at most to zero."""
    length = np.sqrt((Q**2).sum(axis=0))
    keep = np.where(length > amount, 1.0 - amount / np.maximum(length, 1e-300), 0.0)
    return Q * keep


class Linear(Transform):
    """The paper's transform z = Q x, with Q of shape (n_components, n_features).

    Parameters
    ----------
    n_components : int or None, default=None
        Number of rows of Q. None uses as many rows as there are features. One or two are best on small data.
    init : {"identity", "supervised"}, default="identity"
        ``"identity"`` starts at the first rows of the identity matrix, as in the paper. ``"supervised"`` starts at the
        directions of partial least squares, from which Q is learned fastest.
    group_lasso : float, default=0.0
        Penalty on the norm of each column of Q. Larger values drop more features.
    learning_rate : float, default=0.02
        Learning rate of Adam for Q.
    n_steps : int, default=40
        Number of joint gradient steps on tree and Q per boosting round.

    Examples
    --------
    >>> import numpy as np
    >>> Q = Linear(n_components=2).start(np.eye(3), np.zeros((3, 1)), np.random.default_rng(0))
    >>> Q
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    kernel_kind = "linear"

    def __init__(
        self,
        n_components: int | None = None,
        init: Literal["identity", "supervised"] = "identity",
        group_lasso: float = 0.0,
        learning_rate: float = 0.02,
        n_steps: int = 40,
    ) -> None:
        super().__init__(learning_rate, n_steps)
        self.n_components = n_components
        self.init = init
        self.group_lasso = group_lasso

    def start_weighted(self, X: Array, target: Array, weight: Array | None, rng: np.random.Generator) -> Array:
        if type(self).start is not Linear.start:  # a subclass with another initial value
            return self.start(X, target, rng)
        n_features = X.shape[1]
        n_components = n_features if self.n_components is None else min(self.n_components, n_features)
        if self.init == "identity":
            return np.eye(n_components, n_features, dtype=X.dtype)
        return supervised_directions(X, target, n_components, weight)

    def start(self, X: Array, target: Array, rng: np.random.Generator) -> Array:
        return self.start_weighted(X, target, None, rng)

    @property
    def draws_start(self) -> bool:
        return type(self) is not Linear  # a subclass may start elsewhere

    def apply(self, theta: Array, X: Array) -> Array:
        return X @ theta.T

    def pullback(self, theta: Array, X: Array, grad_z: Array) -> Array:
        return grad_z.T @ X

    def project(self, theta: Array, step: float) -> Array:
        return _shrink_columns(theta, self.group_lasso * step) if self.group_lasso > 0 else theta

    def starts_at_identity(self, n_features: int) -> bool:
        square = self.n_components is None or self.n_components == n_features
        return type(self) is Linear and square and self.init == "identity" and self.group_lasso == 0

    def towards_identity(self, theta: Array, amount: float) -> Array:
        return theta + min(amount, 1.0) * (np.eye(*theta.shape, dtype=theta.dtype) - theta)

    def matrix(self, theta: Array) -> Array:
        return theta

    def check(self, n_features: int) -> None:
        super().check(n_features)
        n = self.n_components
        if n is not None and not (isinstance(n, (int, np.integer)) and n >= 1):
            raise ValueError(f"{_name(self)}: n_components must be None or an integer of at least 1, got {n!r}")
        if n is not None and n > n_features:
            raise ValueError(
                f"{_name(self)}: n_components={n} exceeds the number of features; use at most {n_features}"
            )
        if self.init not in ("identity", "supervised"):
            raise ValueError(f"{_name(self)}: init must be 'identity' or 'supervised', got {self.init!r}")
        if not self.group_lasso >= 0:
            raise ValueError(f"{_name(self)}: group_lasso must not be negative, got {self.group_lasso!r}")


def _leading_direction(covariance: Array) -> Array:
    """Left singular vector times the largest singular value, with a positive largest element."""
    left, values, _ = np.linalg.svd(covariance, full_matrices=False)
    direction = left[:, 0] * values[0]
    return direction if direction[np.argmax(np.abs(direction))] >= 0 else -direction


def supervised_directions(X: Array, target: Array, n_components: int, weight: Array | None = None) -> Array:
    """Directions of partial least squares of target on X, scaled to unit variance of z.

    If X has fewer informative directions than ``n_components``, the remaining rows are zero.
    """
    total = float(len(X))
    if weight is None:  # as np.average, which takes longer
        centred, residual = X - X.mean(axis=0), target - target.mean(axis=0)
    else:
        root = np.sqrt(weight)[:, None]
        centred, residual = (root * (a - np.average(a, axis=0, weights=weight)) for a in (X, target))
        total = np.sum(root**2)
    Xd = centred
    Q = np.zeros((n_components, X.shape[1]), dtype=X.dtype)
    weights: list[Array] = []
    loadings: list[Array] = []
    negligible = 1e-12 * np.sqrt((X**2).sum() * max(float((target**2).sum()), 1e-300))
    for a in range(n_components):
        covariance = Xd.T @ residual
        direction = covariance[:, 0] if target.shape[1] == 1 else _leading_direction(covariance)
        length = np.sqrt(direction @ direction)
        if not length > negligible:
            break
        w = direction / length
        t = Xd @ w
        loading = Xd.T @ t / (t @ t)
        if a + 1 < n_components:
            Xd = Xd - np.outer(t, loading)
            residual = residual - np.outer(t, (residual.T @ t) / (t @ t))
        rotation = w.copy()  # convert to the original columns by undoing the deflations, last one first
        for w_before, p_before in zip(reversed(weights), reversed(loadings), strict=True):
            rotation -= (p_before @ rotation) * w_before
        weights.append(w)
        loadings.append(loading)
        spread = np.sqrt(np.sum((centred @ rotation) ** 2) / total)
        Q[a] = rotation / spread if spread > 0 else 0.0
    return Q


class Diagonal(Transform):
    """Feature weighting z_j = q_j x_j; the initial weights are one.

    Parameters
    ----------
    group_lasso : float, default=0.0
        Penalty on the absolute value of each weight. Larger values drop more features.
    learning_rate : float, default=0.02
        Learning rate of Adam for the weights.
    n_steps : int, default=40
        Number of joint gradient steps on tree and weights per boosting round.

    Examples
    --------
    >>> import numpy as np
    >>> Diagonal().apply(np.array([2.0, 0.0]), np.ones((1, 2)))
    array([[2., 0.]])
    """

    kernel_kind = "diagonal"

    def __init__(self, group_lasso: float = 0.0, learning_rate: float = 0.02, n_steps: int = 40) -> None:
        super().__init__(learning_rate, n_steps)
        self.group_lasso = group_lasso

    def start(self, X: Array, target: Array, rng: np.random.Generator) -> Array:
        return np.ones(X.shape[1], dtype=X.dtype)

    def apply(self, theta: Array, X: Array) -> Array:
        return X * theta

    def pullback(self, theta: Array, X: Array, grad_z: Array) -> Array:
        return (grad_z * X).sum(axis=0)

    def project(self, theta: Array, step: float) -> Array:
        return _shrink_columns(theta[None], self.group_lasso * step)[0] if self.group_lasso > 0 else theta

    def matrix(self, theta: Array) -> Array:
        return np.diag(theta)

    def check(self, n_features: int) -> None:
        super().check(n_features)
        if not self.group_lasso >= 0:
            raise ValueError(f"{_name(self)}: group_lasso must not be negative, got {self.group_lasso!r}")


TRANSFORMS: dict[str, type[Transform]] = {"diagonal": Diagonal, "linear": Linear}


def make_transform(feature_transform: Any) -> Transform | None:
    """Create a transform from the parameter ``feature_transform`` of SoftBoostRegressor.

    Parameters
    ----------
    feature_transform : None, str or Transform
        A key of ``TRANSFORMS``, or a Transform.

    Returns
    -------
    transform : Transform or None
        None for trees on the columns themselves.

    Examples
    --------
    >>> make_transform("linear")
    Linear()
    """
    if feature_transform is None or isinstance(feature_transform, Transform):
        return feature_transform
    if isinstance(feature_transform, str) and feature_transform in TRANSFORMS:
        return TRANSFORMS[feature_transform]()
    raise ValueError(
        f"feature_transform={feature_transform!r} is not valid; choose None, 'auto', one of {sorted(TRANSFORMS)}, "
        "or pass an instance of a class from softboost.transforms"
    )
