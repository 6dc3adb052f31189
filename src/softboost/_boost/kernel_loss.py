"""Losses that the kernels know, so that boosting with them needs no Python in its rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost import _kernels
from softboost.losses import (
    AbsoluteError,
    Gamma,
    Huber,
    LogCosh,
    Loss,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)

__all__ = ["intercepts", "kernel_loss"]

Array = NDArray[Any]

# name in the kernel and attribute that holds the parameter; subclasses may differ, so only these very types count
KERNEL_LOSSES: dict[type[Loss], tuple[str, str | None]] = {
    SquaredError: ("squared", None),
    AbsoluteError: ("absolute", None),
    Quantile: ("quantile", "quantile"),
    Huber: ("huber", "delta"),
    LogCosh: ("log_cosh", "scale"),
    Poisson: ("poisson", None),
    Gamma: ("gamma", None),
    Tweedie: ("tweedie", "power"),
}


def kernel_loss(loss: Loss) -> Any:
    """Settings of a loss for the kernels; None if it is written in Python."""
    if type(loss) not in KERNEL_LOSSES:
        return None
    kind, attribute = KERNEL_LOSSES[type(loss)]
    parameter = None if attribute is None else getattr(loss, attribute)
    return _kernels.loss_settings(kind, 1.0 if parameter is None else float(parameter), loss.refit_leaves)


def intercepts(loss: Loss, y: Array, weight: Array | None) -> Array:
    """The constant that minimises the loss for each row of y (n_rows, n_samples), for a loss without a link."""
    settings = kernel_loss(loss)
    if settings is None:
        return np.array([loss.fit_intercept_only(row, weight) for row in y])
    weight = None if weight is None else weight.astype(np.float64)
    return _kernels.loss_intercepts(settings, np.ascontiguousarray(y, dtype=np.float64), weight)
