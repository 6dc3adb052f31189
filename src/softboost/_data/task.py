"""The data of one fit: validated, encoded and standardised."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from softboost.losses import Loss, check_zero_start, make_loss

from .checks import check_columns, check_weight, check_y, resolve_n_threads, resolve_seed
from .columns import Columns
from .folds import Folds, check_groups
from .outliers import COLUMN_GAP, TARGET_REACH, tails_of
from .repeated import distinct_rows, runs_of_rows
from .units import Units

__all__ = ["Rows", "Task"]

Array = NDArray[Any]
MAX_DOUBLE_ROWS = 2**16  # with more rows, single precision is sufficient: the noise is far above its rounding
MAX_UNSAMPLED_ROWS = 2048
GRADIENTS_CHECKED = 1000
DIFFERENT = 0.9  # share of different targets among different rows from which equal rows are no chance
LARGEST_COPIED = 0.1  # share of the weight, half of a default fold, up to which a repeated row is in one fold
Rows = tuple[Array, Array, Array | None]


class Previous(Protocol):
    """The encoder, units and loss of a fitted model, which are applied to later rows."""

    @property
    def columns(self) -> Columns: ...
    @property
    def units(self) -> Units: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def train_loss(self) -> Loss: ...


class Task:
    """The validated data of one fit: encoded rows, targets, weights and units.

    Attributes
    ----------
    encoded : ndarray of shape (n_kept, n_encoded)
        Rows of positive weight, encoded by :class:`softboost._data.columns.Columns`.
    y : ndarray of shape (n_outputs, n_kept)
    weight : ndarray of shape (n_kept,) or None
    loss, train_loss : Loss
        The loss in the units of y, and the equivalent loss for standardised y.
    feature_names : ndarray or None
        Column names of X, if there are any.
    """

    def __init__(self) -> None:
        self.encoded: Array
        self.y: Array
        self.weight: Array | None
        self.columns: Columns
        self.units: Units
        self.loss: Loss
        self.train_loss: Loss
        self.y_ndim = 1
        self.kept: Array
        self.X_rows: Array
        self.y_rows: Array
        self.seed = 0
        self.n_threads = 1
        self.bounded = True
        self.feature_names: Any = None
        self.eval_rows: tuple[Array, Array] | None = None
        self.groups: Array | None = None
        self._standardised: Rows | None = None
        self.moved: Array | None = None  # rows of which cells of columns have been moved, if any
        self._folds: Folds | None = None

    @classmethod
    def from_user(
        cls,
        model: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        eval_set: Any,
        previous: Previous | None = None,
        *,
        groups: Any = None,
        new_rows: bool = False,
    ) -> Task:
        """Validate the arguments of fit; a fitted model ``previous`` determines columns, units and loss.

        With ``new_rows``, the rows are not those that ``previous`` was fitted on.
        ``model`` is a copy of the estimator, because ``n_features_in_`` is set here and the fit may still fail.
        """
        task = cls()
        kinds = None if previous is None else previous.columns.kinds
        matrix, categories = check_columns(model, X, model.categorical_features, kinds=kinds)
        task.feature_names = getattr(model, "feature_names_in_", None)
        if previous is not None:
            previous.columns.check_kinds(categories, task.feature_names)
        task.y, task.y_ndim = check_y(y, matrix)
        weight = check_weight(sample_weight, len(matrix))
        task.kept = np.arange(len(matrix)) if weight is None else np.flatnonzero(weight > 0)
        task.X_rows, task.y_rows = matrix, task.y.T
        if len(task.kept) < len(matrix):
            matrix = np.ascontiguousarray(matrix[task.kept])
            categories = {j: values[task.kept] for j, values in categories.items()}
            task.y = np.ascontiguousarray(task.y[:, task.kept])
        task.weight = None if weight is None else weight[task.kept]
        task.groups = check_groups(groups, len(task.X_rows))
        task.seed, task.n_threads = resolve_seed(model.random_state), resolve_n_threads(model.n_jobs)
        task.bounded = bool(model.standardize)
        if previous is None:
            task.loss = make_loss(model.loss)
            task.columns = Columns.learn(matrix, categories, task.weight, task.y)
        else:
            task._keep(previous)
        if task.columns.means and not new_rows:
            task.encoded = task._encoded_out_of_fold(model, matrix, categories)
        else:
            task.encoded = task.columns.encode(matrix, categories)
        if previous is None:
            task._learn_units()
        task.loss.check_target(task.y)
        if model.init == "zero" and previous is None:
            check_zero_start(task.loss, task.y)
        _check_gradient(task.loss, task.y)
        if eval_set is not None:
            task._read_eval_set(model, eval_set)
        return task

    def _encoded_out_of_fold(self, model: Any, X: Array, others: dict[int, Array]) -> Array:
        """Encoded training rows whose means of the target come from other folds; a row twice is a row of weight 2."""
        number = self._numbers_of_copies(model, X, others)
        fold = self.folds(model).of_rows(number)
        _, first, number = np.unique(number * (int(fold.max()) + 1) + fold, return_index=True, return_inverse=True)
        total = np.bincount(number, self.weight).astype(np.float64)
        others = {j: values[first] for j, values in others.items()}
        return self.columns.encode_training(X[first], others, self.y[:, first], total, fold[first])[number]

    def _numbers_of_copies(self, model: Any, X: Array, others: dict[int, Array]) -> Array:
        """For each row, the number of the row that it equals, where :meth:`merged_in_folds` will merge the two."""
        columns = X.T, *map(_numbered, others.values())
        if self.groups is None and (model.cv is None or isinstance(model.cv, (int, np.integer))):
            first, number = distinct_rows(*columns, self.y)
            parts = (part[:, first] for part in columns)
            if _are_copies(np.bincount(number, self.weight), self.y[:, first], *parts):
                return number
        return runs_of_rows(self.y, *columns)

    def of_rows(self, encoded: Array, y: Array, weight: Array, loss: Any) -> Task:
        """The task with the same columns and other rows, y (n_samples, n_outputs), standardised by these rows."""
        task = Task()
        task.encoded, task.X_rows, task.y_rows = encoded, encoded, y.astype(encoded.dtype)
        task.y = np.ascontiguousarray(task.y_rows.T)
        task.weight = None if np.all(weight == 1.0) else weight
        task.kept = np.arange(len(encoded))
        task.seed, task.n_threads, task.bounded = self.seed, self.n_threads, self.bounded
        task.feature_names, task.y_ndim, task.loss = self.feature_names, self.y_ndim, make_loss(loss)
        task.columns = self.columns
        task._learn_units()
        return task

    def merged(self, loss: Any = None, folds: Sequence[tuple[Array, Array]] = (), *, neighbours: bool = False) -> Task:
        """The task with equal rows as one row that has the sum of their weights.

        With ``loss``, a parameter of the estimator, units are learned again. Rows of different groups, or of different
        parts of the folds, are different. With ``neighbours``, so are rows that do not follow each other.
        """
        group = [] if self.groups is None else [np.unique(self.groups, return_inverse=True)[1][None, self.kept]]
        if neighbours:
            number = runs_of_rows(self.y, *group, self.encoded.T)
            first = np.flatnonzero(np.diff(number, prepend=-1))
        else:
            parts = np.zeros((2 * len(folds), len(self.encoded)), dtype=bool)
            for part, rows in zip(parts, chain.from_iterable(folds), strict=True):
                part[rows] = True
            first, number = distinct_rows(self.encoded.T, self.y, *group, parts)
        if len(first) == len(number):
            return self
        task = copy.copy(self)
        task.encoded, task.y = self.encoded[first], np.ascontiguousarray(self.y[:, first])
        task.weight, task.kept = np.bincount(number, self.weight).astype(np.float64), self.kept[first]
        task._standardised = task._folds = None
        if loss is not None:
            task.loss = make_loss(loss)
            task._learn_units()
        return task

    def tamed(self, *, codes: bool) -> Task:
        """The task in which no single cell matters much: see :mod:`softboost._data.outliers`.

        Outliers of the columns and, unless the loss has a link, of y are moved closer. With ``codes``, numbers such as
        -999 that stand for a missing value are encoded as missing. Returns the task itself if nothing stands apart.
        """
        if not self.bounded:
            return self
        n_coded = self.columns.n_features if codes else 0
        tails = tails_of(self.encoded, self.weight, n_coded=n_coded, gap=COLUMN_GAP)
        of_y = tails_of(self.y.T if self.loss.scales_with_y else self.y.T[:, :0], self.weight, reach=TARGET_REACH)
        if not (tails.low or tails.codes or of_y.low):
            return self
        self._standardised = None  # one copy at a time: it may be half as large as X
        task = copy.copy(self)
        task.y = np.ascontiguousarray(of_y.clipped(self.y.T).T)
        if tails.codes:
            task.columns = self.columns.with_codes(tails.codes, self.encoded, self.weight)
            task.encoded = task.columns.recoded(self.encoded, self.columns)
            if self.eval_rows is not None:
                task.eval_rows = task.columns.recoded(self.eval_rows[0], self.columns), self.eval_rows[1]
        recoded = task.encoded
        task.encoded = tails.clipped(recoded)
        if tails.low:
            task.moved = np.any((task.encoded != recoded) & ~np.isnan(recoded), axis=1)
        task._learn_units()
        return task

    def _keep(self, previous: Previous) -> None:
        self.columns, self.units = previous.columns, previous.units
        self.loss, self.train_loss = previous.loss, previous.train_loss
        n_outputs = len(previous.units.y_spread)
        if len(self.y) != n_outputs:
            raise ValueError(f"y has {len(self.y)} outputs, but the model was fitted with {n_outputs}")

    def _learn_units(self) -> None:
        scales = self.bounded and self.loss.scales_with_y
        self.units = Units.learn(self.encoded, self.y, self.weight, columns=self.bounded, target=scales)
        self.loss = self.loss.rescaled(self.y, 1.0, self.weight)
        spread = self.units.y_spread
        largest = float(spread.max())
        typical = largest * float(np.sqrt(np.mean((spread / largest) ** 2)))
        self.train_loss = self.loss.rescaled(self.y, typical, self.weight)

    def _read_eval_set(self, model: Any, eval_set: Any) -> None:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not (isinstance(eval_set, tuple) and len(eval_set) == 2):
            raise ValueError(
                f"eval_set must be a tuple (X, y) or a list with one such tuple, got {type(eval_set).__name__} "
                f"of length {len(eval_set) if hasattr(eval_set, '__len__') else 1}"
            )
        matrix, categories = check_columns(model, eval_set[0], None, kinds=self.columns.kinds)
        self.columns.check_kinds(categories, self.feature_names)
        y, _ = check_y(eval_set[1], matrix)
        if y.shape[0] != self.y.shape[0]:
            raise ValueError(f"eval_set has {y.shape[0]} outputs, but y has {self.y.shape[0]}")
        self.loss.check_target(y)
        self.eval_rows = self.columns.encode(matrix, categories), y

    @property
    def is_sampled(self) -> bool:
        """Whether rows are so many that some decisions, and later trees, are based on a sample of them."""
        return len(self.encoded) > MAX_UNSAMPLED_ROWS

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows without weights."""
        return float(self.y.shape[1] if self.weight is None else self.weight.sum())

    def standardised(self) -> Rows:
        """Standardised X (n_columns, n_samples) and y (n_outputs, n_samples), and the weights."""
        if self._standardised is None:
            dtype = self._working_precision()
            X = self.units.standardised(self.encoded, dtype)
            weight = None if self.weight is None else self.weight.astype(dtype)
            self._standardised = X, self.units.standardised_y(self.y).astype(dtype, copy=False), weight
        return self._standardised

    def _working_precision(self) -> Any:
        """Single precision for many rows, whose noise is far above its rounding."""
        fits = self.loss.scales_with_y or float(np.abs(self.y).max()) < 1e30  # y of other losses is not standardised
        many = self.bounded and fits and len(self.encoded) > MAX_DOUBLE_ROWS
        return np.dtype(np.float32) if many else self.encoded.dtype

    def merged_in_folds(self, model: Any, forward: bool) -> Task:
        """The task with equal rows of a fold as one row.

        Rows of groups, and rows for which the user has set the folds, are merged wherever they are in a fold. Default
        folds are blocks of rows. All copies of a row go into one block, unless equal rows look like observations of
        their own: if one of them makes up much of the weight, such as the zeros of many series, or if rows of equal
        columns differ in their target. Then only rows that follow an equal row are merged. An iterator of splits is not
        followed, because it can be read only once.
        """
        if isinstance(model.cv, Iterator):
            return self
        if not (model.cv is None or isinstance(model.cv, (int, np.integer))):
            return self.merged(model.loss, self.folds(model).in_order(forward))
        merged = self.merged(model.loss)
        if merged is not self and self.groups is None and not merged._is_of_copies():
            merged = self.merged(model.loss, neighbours=True)
        return merged if len(merged.kept) > (model.cv or 1) else self

    def _is_of_copies(self) -> bool:
        assert self.weight is not None
        return _are_copies(self.weight, self.y, self.encoded.T)

    def folds(self, model: Any) -> Folds:
        """Folds by the parameters of the estimator."""
        if self._folds is None:
            rows = self.X_rows, self.y_rows, self.kept
            self._folds = Folds(model.cv, model.shuffle, *rows, self.seed, self.groups, self.weight)
        return self._folds

    def first_rows(self, most: int) -> tuple[Array, Array]:
        """The first rows of positive weight of the original X and y."""
        kept = self.kept[:most]
        return self.X_rows[kept], self.y_rows[kept]

    def hold_out(self, model: Any) -> tuple[Rows, Rows | None]:
        """Training rows and validation rows: those of eval_set or, for early stopping, part of the training rows."""
        X, y, weight = self.standardised()
        if self.eval_rows is not None:
            X_eval, y_eval = self.eval_rows
            X_eval = self.units.standardised(X_eval.astype(self.encoded.dtype), X.dtype)
            return (X, y, weight), (X_eval, self.units.standardised_y(y_eval).astype(y.dtype), None)
        if not model.early_stopping:
            return (X, y, weight), None
        n = y.shape[1]
        n_held = int(np.ceil(model.validation_fraction * n))
        if n_held >= n:
            raise ValueError(
                f"validation_fraction={model.validation_fraction!r} of {n} rows leaves no training rows; "
                "pass eval_set or set early_stopping=False"
            )
        rows = np.arange(n)
        if self.groups is not None:
            rows, n_held = self._by_groups(model.validation_fraction)
        elif model.shuffle is not False:
            rows = np.random.default_rng(self.seed).permutation(n)

        def part(chosen: Array) -> Rows:
            own = None if weight is None else np.ascontiguousarray(weight[chosen])
            return np.ascontiguousarray(X[:, chosen]), np.ascontiguousarray(y[:, chosen]), own

        return part(np.sort(rows[: n - n_held])), part(np.sort(rows[n - n_held :]))

    def _by_groups(self, share: float) -> tuple[Array, int]:
        """Rows in the order of shuffled groups, and a number of last rows: whole groups of this share of the weight."""
        assert self.groups is not None
        own = np.unique(self.groups[self.kept], return_inverse=True)[1]
        if own.max() == 0:
            raise ValueError("groups has a single group, which cannot be held out; leave out groups or pass eval_set")
        place = np.random.default_rng(self.seed).permutation(own.max() + 1)[own]
        rows = np.argsort(place, kind="stable")
        last = np.cumsum(np.bincount(place, self.weight)[:0:-1])  # weight of the last groups
        n_held = np.cumsum(np.bincount(place)[:0:-1])
        wanted = np.ceil(share * self.total_weight)
        return rows, int(n_held[np.flatnonzero(np.abs(last - wanted) == np.abs(last - wanted).min())[-1]])

    def mean_loss(self, y: Array, raw: Array, weight: Array | None) -> float:
        """Mean loss in the units of y, from standardised y and raw predictions."""
        with np.errstate(over="ignore"):  # the loss itself may be infinite, such as the square of a huge y
            return self.loss.mean(self.units.original_y(y), self.units.original_y(raw), weight)


def _are_copies(weight: Array, y: Array, *columns: Array) -> bool:
    """Whether rows, which are all different, are light, and equal rows before them were copies, not observations.

    They were copies if the targets are a function of the columns, or nearly all different.
    """
    n = len(weight)
    light = float(weight.max()) <= LARGEST_COPIED * float(weight.sum())
    return light and (len(distinct_rows(*columns)[0]) == n or len(distinct_rows(y)[0]) >= DIFFERENT * n)


def _numbered(values: Array) -> Array:
    """A column of texts or dates as numbers, shape (1, n_samples), equal where the values are."""
    if values.dtype != object:
        return values[None]
    index: dict[Any, int] = {}
    return np.array([[index.setdefault(value, len(index)) for value in values]], dtype=np.float64)


def _check_gradient(loss: Loss, y: Array) -> None:
    """Raise ValueError unless the gradient of the loss, which may be the user's own, is a number for every target."""
    y = np.asarray(y[0, :GRADIENTS_CHECKED], dtype=np.float64)
    with np.errstate(all="ignore"):
        gradient = np.asarray(loss.gradient(y, np.zeros_like(y)))
    if gradient.shape != y.shape or np.isnan(gradient).any():
        raise ValueError(
            f"the gradient of loss={loss!r} must be an array of numbers with the shape of its arguments {y.shape}, got "
            f"{'NaN' if gradient.shape == y.shape else f'shape {gradient.shape}'}"
        )
