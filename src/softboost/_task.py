"""What one fit works on: the user's rows, checked and standardised, and a watch that follows the rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import column_or_1d, validate_data

from ._boost.boosting import MAX_ROWS_PER_TREE, Boosted
from ._choice_rows import ROWS_TO_KNOW_A_SERIES
from ._data.checks import check_weight, hinted, resolve_n_threads, resolve_seed
from ._data.columns import Columns, is_frame, read_array, read_frame
from ._data.units import Units
from ._kernels import FARTHEST
from ._runtime.progress import Progress
from .losses import Loss, make_loss

__all__ = ["Task", "Watch", "check_columns"]

Array = NDArray[Any]
REACH = 3.0  # predictions, and columns as the model sees them, leave their training range by at most so many widths
MAX_GROWTH = 0.25  # how many widths predicted changes of a series may leave theirs, where those have been growing
Rows = tuple[Array, Array, Array | None]
KINDS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan", "order": "C"}


def check_columns(model: Any, X: Any, categorical_features: Any, *, reset: bool) -> tuple[Array, dict[int, Array]]:
    """X as a float matrix with NaN for what is missing, and its category columns; names and width are checked."""
    with hinted():
        if is_frame(X):
            validate_data(model, X, skip_check_array=True, reset=reset)
            matrix, categories = read_frame(X, categorical_features)
            return check_array(matrix, estimator=model, input_name="X", **KINDS), categories
        numeric, categories = read_array(X, categorical_features)
        return validate_data(model, numeric, reset=reset, **KINDS), categories


def check_y(y: Any, X: Array) -> tuple[Array, int]:
    """y as (n_outputs, n_samples) of X's precision, and the number of dimensions it came with."""
    if y is None:
        raise ValueError("This SoftBoostRegressor estimator requires y to be passed, but the target y is None.")
    with hinted():
        y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=True, input_name="y")
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n_samples,) or (n_samples, n_outputs), got {y.shape}")
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(np.atleast_2d(y.T).astype(X.dtype))
    if not np.all(np.isfinite(cast)):
        raise ValueError("y holds values too large for float32, the precision of X; pass X as float64")
    return cast, y.ndim


def _widened(values: Array, reach: float, before: tuple[Array, Array] | None) -> tuple[Array, Array]:
    """The range of each row of values, and ``reach`` of its widths on both sides.

    ``before`` is what this gave for earlier values; the range then is that of all.
    """
    low, high = values.min(axis=1).astype(np.float64), values.max(axis=1).astype(np.float64)
    if before is not None:
        width = (before[1] - before[0]) * (reach / (1 + 2 * reach))
        low, high = np.minimum(low, before[0] + width), np.maximum(high, before[1] - width)
    with np.errstate(over="ignore"):
        return low - reach * (high - low), high + reach * (high - low)


def _growth(changes: Array) -> float:
    """By how much changes (n_outputs, n_samples) in time order are larger in the second half, up to MAX_GROWTH."""
    largest = float(np.abs(changes).max())
    if not 0 < largest < np.inf:
        return 0.0
    early, late = (float(np.abs(half / largest).mean()) for half in np.array_split(changes, 2, axis=1))
    return min(max(late / early - 1, 0.0), MAX_GROWTH) if early > 0 else 0.0


class Task:
    """The data of one fit, checked: encoded rows, targets, weights, and how they are standardised.

    Attributes
    ----------
    encoded : ndarray of shape (n_kept, n_encoded)
        Rows of positive weight with the extra columns of :class:`softboost._columns.Columns`.
    y : ndarray of shape (n_outputs, n_kept)
    weight : ndarray of shape (n_kept,) or None
    loss, train_loss : Loss
        The loss in the units of y, and the same for y in working units.
    header : dict
        ``n_features_in_`` and, where X has column names, ``feature_names_in_``.
    in_time_order : bool
        Whether the rows were found to be a series.
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
        self.in_time_order = False
        self.header: dict[str, Any] = {}
        self.eval_rows: tuple[Array, Array] | None = None
        self._standardised: Rows | None = None

    @classmethod
    def from_user(
        cls, model: Any, X: Any, y: Any, sample_weight: Any, eval_set: Any, previous: dict[str, Any] | None = None
    ) -> Task:
        """Check the arguments of fit. ``previous``, a fitted state, fixes columns, units and loss.

        ``model`` is a copy of the estimator: it is given ``n_features_in_`` here, and the fit may yet fail.
        """
        task = cls()
        matrix, categories = check_columns(model, X, model.categorical_features, reset=previous is None)
        names = ("n_features_in_", "feature_names_in_")
        task.header = {name: getattr(model, name) for name in names if hasattr(model, name)}
        task.y, task.y_ndim = check_y(y, matrix)
        weight = check_weight(sample_weight, len(matrix))
        task.kept = np.arange(len(matrix)) if weight is None else np.flatnonzero(weight > 0)
        task.X_rows, task.y_rows = matrix, task.y.T
        if len(task.kept) < len(matrix):
            matrix = np.ascontiguousarray(matrix[task.kept])
            categories = {j: values[task.kept] for j, values in categories.items()}
            task.y = np.ascontiguousarray(task.y[:, task.kept])
        task.weight = None if weight is None else weight[task.kept]
        task.seed, task.n_threads = resolve_seed(model.random_state), resolve_n_threads(model.n_jobs)
        task.bounded = bool(model.standardize)
        if previous is None:
            task.loss = make_loss(model.loss)
            task.columns = Columns.learn(matrix, categories, task.weight, model.standardize)
            task._learn_units(model.standardize)
        else:
            task._keep(previous)
        task.loss.check_target(task.y)
        task.encoded = task.columns.encode(matrix, categories)
        if eval_set is not None:
            task._read_eval_set(model, eval_set)
        return task

    def of_rows(self, encoded: Array, y: Array, weight: Array, loss: Any) -> Task:
        """The task of fitting the same columns to other rows, y (n_samples, n_outputs), in units of their own."""
        task = Task()
        task.encoded, task.X_rows, task.y_rows = encoded, encoded, y.astype(encoded.dtype)
        task.y = np.ascontiguousarray(task.y_rows.T)
        task.weight = None if np.all(weight == 1.0) else weight
        task.kept = np.arange(len(encoded))
        task.seed, task.n_threads, task.bounded = self.seed, self.n_threads, self.bounded
        task.header, task.y_ndim, task.loss = self.header, self.y_ndim, make_loss(loss)
        task.columns = self.columns.rescaled(encoded, task.weight) if task.bounded else self.columns
        task._learn_units(task.bounded)
        return task

    def _keep(self, previous: dict[str, Any]) -> None:
        self.columns, self.units = previous["columns_"], previous["units_"]
        self.loss, self.train_loss = previous["loss_"], previous["train_loss_"]
        if len(self.y) != previous["n_outputs_"]:
            raise ValueError(f"y has {len(self.y)} outputs, the model was fitted with {previous['n_outputs_']}")

    def _learn_units(self, standardize: bool) -> None:
        n_outputs = self.y.shape[0]
        y_centre, y_spread = np.zeros(n_outputs), np.ones(n_outputs)
        if standardize and self.loss.scales_with_y:
            y = self.y.astype(np.float64)
            size = np.abs(y).max(axis=1)
            size = np.where(size > 0, size, 1.0)
            scaled = y / size[:, None]  # squares of what is left neither overflow nor vanish
            centre = np.average(scaled, axis=1, weights=self.weight)
            deviation = scaled - centre[:, None]
            spread = np.sqrt(np.average(deviation**2, axis=1, weights=self.weight))
            y_centre = centre * size
            # a y that is constant up to rounding has no spread of its own
            y_spread = np.where(spread > 1e-12, spread, 1.0) * size
        self.units = Units(self.columns.centre, self.columns.spread, y_centre, y_spread)
        self.loss = self.loss.rescaled(self.y, 1.0)
        largest = float(y_spread.max())
        self.train_loss = self.loss.rescaled(self.y, largest * float(np.sqrt(np.mean((y_spread / largest) ** 2))))

    def _read_eval_set(self, model: Any, eval_set: Any) -> None:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not (isinstance(eval_set, tuple) and len(eval_set) == 2):
            raise ValueError(
                f"eval_set must be a tuple (X, y) or a list with one such tuple, got {type(eval_set).__name__} "
                f"of length {len(eval_set) if hasattr(eval_set, '__len__') else 1}"
            )
        matrix, categories = check_columns(model, eval_set[0], self._category_columns(), reset=False)
        y, _ = check_y(eval_set[1], matrix)
        if y.shape[0] != self.y.shape[0]:
            raise ValueError(f"eval_set has {y.shape[0]} outputs, y has {self.y.shape[0]}")
        self.loss.check_target(y)
        self.eval_rows = self.columns.encode(matrix, categories), y

    def _category_columns(self) -> list[int] | None:
        return sorted(self.columns.categories) or None

    @property
    def total_weight(self) -> float:
        """Rows, counted with their weights."""
        return float(self.y.shape[1] if self.weight is None else self.weight.sum())

    def _standard_y(self, y: Array) -> Array:
        units = self.units
        centred = y.astype(np.float64) / 2 - units.y_centre[:, None] / 2  # halves, because a difference may overflow
        return np.ascontiguousarray(centred / units.y_spread[:, None] * 2, dtype=y.dtype)

    def standardised(self) -> Rows:
        """X (n_columns, n_samples), y (n_outputs, n_samples) and weights, all in working units."""
        if self._standardised is None:
            dtype = self._working_precision()
            X = self.columns.standardised(self.encoded, dtype)
            weight = None if self.weight is None else self.weight.astype(dtype)
            self._standardised = X, self._standard_y(self.y).astype(dtype, copy=False), weight
        return self._standardised

    def _working_precision(self) -> Any:
        """Many rows are learned from in single precision, in which their noise is far above the rounding."""
        many = self.bounded and len(self.encoded) > MAX_ROWS_PER_TREE
        return np.dtype(np.float32) if many else self.encoded.dtype

    def first_rows(self, most: int = ROWS_TO_KNOW_A_SERIES) -> tuple[Array, Array]:
        """The first rows of positive weight of X and y as they came."""
        kept = self.kept[:most]
        return self.X_rows[kept], self.y_rows[kept]

    def hold_out(self, model: Any) -> tuple[Rows, Rows | None]:
        """Rows to train on, and rows to watch: those of eval_set or, for early stopping, some of the training rows."""
        X, y, weight = self.standardised()
        if self.eval_rows is not None:
            X_eval, y_eval = self.eval_rows
            X_eval = self.columns.standardised(X_eval.astype(self.encoded.dtype), X.dtype)
            return (X, y, weight), (X_eval, self._standard_y(y_eval).astype(y.dtype), None)
        if not model.early_stopping:
            return (X, y, weight), None
        n = y.shape[1]
        n_held = int(np.ceil(model.validation_fraction * n))
        if n_held >= n:
            raise ValueError(
                f"validation_fraction={model.validation_fraction!r} of {n} rows leaves none to train on; "
                "pass eval_set or set early_stopping=False"
            )
        rows = np.arange(n)
        if model.shuffle is not False:
            rows = np.random.default_rng(self.seed).permutation(n)

        def part(chosen: Array) -> Rows:
            own = None if weight is None else np.ascontiguousarray(weight[chosen])
            return np.ascontiguousarray(X[:, chosen]), np.ascontiguousarray(y[:, chosen]), own

        return part(np.sort(rows[: n - n_held])), part(np.sort(rows[n - n_held :]))

    def bounds(self, column: int | None, before: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """Raw predictions are kept within three widths of the targets' range beyond that range.

        A model of changes since ``column`` predicts no change beyond those of the training rows, or, in a series whose
        changes grew from its first half to its second, so much beyond. ``before`` are the bounds of rows learned
        earlier; the range then is that of all rows.
        """
        n_outputs = self.y.shape[0]
        if not (self.bounded and self.loss.scales_with_y):
            return np.full(n_outputs, -np.inf), np.full(n_outputs, np.inf)
        y = self.y.astype(np.float64)
        if column is None:
            return _widened(y, REACH, before)
        level = self.encoded[:, column].astype(np.float64)
        changes = y - np.where(np.isnan(level), self.units.centre[column], level)
        low, high = _widened(changes, _growth(changes) if self.in_time_order else 0.0, None)
        return (low, high) if before is None else (np.minimum(low, before[0]), np.maximum(high, before[1]))

    def limited_units(self) -> Units:
        """The units with limits of the columns, REACH widths beyond their range on these and all earlier rows."""
        if not self.bounded:
            return self.units
        units = self.units
        before = None if units.low is None or units.high is None else (units.low, units.high)
        low, high = _widened(self.standardised()[0], REACH, before)
        return replace(units, low=np.maximum(low, -FARTHEST), high=np.minimum(high, FARTHEST))

    def mean_loss(self, y: Array, raw: Array, weight: Array | None) -> float:
        """Mean loss, in the units of y, of y and raw predictions in working units."""
        spread, centre = self.units.y_spread[:, None], self.units.y_centre[:, None]
        with np.errstate(over="ignore"):  # infinite where the loss itself, say the square of a huge y, is
            return self.loss.mean(y * spread + centre, raw * spread + centre, weight)


class Watch:
    """Follows a plain fit round by round: losses, early stopping, progress, and the rounds so far for Ctrl-C.

    Attributes
    ----------
    results : dict of str to list of float
        Loss after every round on the training rows and, if there are any, on the rows held out; units of y.
    best_round : int
        Round of least loss on the rows held out; 0 where there are none.
    """

    def __init__(self, model: Any, task: Task, train: Rows, held: Rows | None, n_rounds: int) -> None:
        self.settings, self.task = model, task
        self.rows = {"train": train} if held is None else {"train": train, "validation": held}
        self.results: dict[str, list[float]] = {name: [] for name in self.rows}
        self.start: Any = None
        self.model: Boosted | None = None
        self.best_round, self.best = 0, np.inf
        self._raw: dict[str, Array] = {}
        self._X: dict[str, Array] = {}
        self.progress = Progress(bool(model.verbose), n_rounds, "boosting", keep=True)

    @property
    def n_rounds(self) -> int:
        """Rounds that are complete and recorded."""
        return len(self.results["train"])

    def begin(self, start: Any) -> None:
        """Called with the linear model that boosting starts from."""
        self.start = start

    def __call__(self, model: Boosted) -> bool:
        self.model = model
        while self.n_rounds < len(model.rounds):  # more than one where a warm start goes on from earlier rounds
            k = self.n_rounds
            values = {name: self._losses_after(model, k, name) for name in reversed(self.rows)}
            for name, (own, _) in values.items():
                self.results[name].append(own)
            if "validation" in values and values["validation"][1] < self.best - self.settings.tol:
                self.best, self.best_round = values["validation"][1], k + 1
            self.progress.step(", ".join(f"{name} {self.results[name][-1]:.4g}" for name in self.rows))
        return self.settings.early_stopping and self.n_rounds - self.best_round >= self.settings.n_iter_no_change

    def _losses_after(self, model: Boosted, k: int, name: str) -> tuple[float, float]:
        """Loss after round k in the units of y and in working units; the latter make ``tol`` free of scale."""
        X, y, weight = self.rows[name]
        if name not in self._raw:
            self._raw[name] = self.start.predict(X)[0]
            self._X[name] = np.ascontiguousarray(X[model.columns])
        theta, tree = model.rounds[k]
        self._raw[name] = self._raw[name] + model._add(self._X[name], theta, tree, self.task.n_threads)
        raw = self._raw[name]
        return self.task.mean_loss(y, raw, weight), self.task.train_loss.mean(y, raw, weight)

    def close(self) -> None:
        """Close the progress bar."""
        self.progress.close()
