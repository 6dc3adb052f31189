"""One set of training rows, as levels or changes, with the results that all candidates share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.kernel_loss import intercepts
from softboost._boost.learner import TrainingData
from softboost._boost.screening import paired_columns, pilot_ranking
from softboost._data.units import Units
from softboost._linear.models import LinearModels
from softboost._linear.path import LinearPath
from softboost.losses import Loss, SquaredError

from .rows import RowsKind, find_anchor

__all__ = ["TrainingRows"]

Array = NDArray[Any]


class TrainingRows:
    """Standardised training rows, as levels or as changes since an anchor column.

    Parameters
    ----------
    X, y : ndarray of shape (n_features, n_samples) and (n_outputs, n_samples)
    weight : ndarray of shape (n_samples,) or None
    units : Units
        Standardisation of the columns and y.
    loss : Loss
    n_threads : int
    kind : RowsKind or None
        The kind of all rows of the fit, which may include more rows; None is a table.

    Attributes
    ----------
    X, y : ndarray
        The rows; with an ``anchor``, differences to it.
    anchor : Anchor or None
        The anchor, found on these rows only.
    data : TrainingData
        Binned X, for trees.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        units: Units,
        loss: Loss,
        n_threads: int,
        kind: RowsKind | None = None,
    ) -> None:
        self.kind = RowsKind(n_outputs=len(y)) if kind is None else kind
        self.anchor = find_anchor(X, y, weight, units, self.kind.lags) if self.kind.anchored else None
        if self.anchor is not None:
            y = np.ascontiguousarray(y - self.anchor.level(X)).astype(y.dtype)
        self.X, self.y, self.weight, self.units = self.see(X), y, weight, units
        self.loss, self.n_threads = loss, n_threads
        self.data = TrainingData(self.X, weight, n_threads)

    def see(self, X: Array) -> Array:
        """X in the view of these rows."""
        return X if self.anchor is None else np.ascontiguousarray(self.anchor.view(X)).astype(X.dtype)

    def level(self, X: Array) -> Array | float:
        """The value that predictions are relative to, at the original X."""
        return 0.0 if self.anchor is None else self.anchor.level(X)

    @cached_property
    def linear_models(self) -> LinearModels:
        """Linear models under squared error, which share the moments of the rows."""
        return LinearModels(self.X, self.y, self.weight, self.n_threads)

    def constant(self) -> Array:
        """The constant raw prediction that minimises the loss, shape (n_outputs,)."""
        return self._constant.copy()

    @cached_property
    def _constant(self) -> Array:
        if self.loss.scales_with_y and not isinstance(self.loss, SquaredError):
            return intercepts(self.loss, self.y, self.weight)
        return np.array([self.loss.fit_intercept_only(row, self.weight) for row in self.y])

    def flat(self, intercept: Array) -> LinearPath:
        """A linear model of one stage without slopes."""
        return LinearPath(np.zeros((1, self.y.shape[0], self.X.shape[0])), intercept[None])

    def recentre(self, path: LinearPath) -> None:
        """Shift a path that was fitted to squared errors by the constant that minimises the loss, in place."""
        if isinstance(self.loss, SquaredError) or not self.loss.scales_with_y:
            return
        residual = self.y[None] - path.predict(self.X)
        n_samples = residual.shape[-1]
        shift = intercepts(self.loss, residual.reshape(-1, n_samples), self.weight)
        path.intercepts += shift.reshape(path.intercepts.shape)

    @cached_property
    def rankings(self) -> tuple[Array, Array]:
        """Columns by their effects in a pilot run, largest first, and columns that matter through products."""
        raw = np.repeat(self.constant()[:, None], self.y.shape[1], axis=1).astype(self.y.dtype)
        residual = np.ascontiguousarray(-self.loss.gradient(self.y, raw), dtype=self.y.dtype)
        # anchored rows are too noisy for products
        paired = paired_columns(self.data, residual) if self.anchor is None else np.empty(0, dtype=np.int32)
        return pilot_ranking(self.data, residual), paired
