"""Checks of parameters and arrays; the messages name the parameter, the value and the fix."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import column_or_1d, validate_data

from .reading import is_frame, read_array, read_frame

__all__ = [
    "LARGEST",
    "check_choice",
    "check_columns",
    "check_flag",
    "check_integer",
    "check_number",
    "check_shares",
    "check_weight",
    "check_y",
    "hinted",
    "resolve_n_threads",
    "resolve_seed",
]

Array = NDArray[Any]
MAX_WEIGHT = 1e15
LARGEST = 1e100  # limit of numbers whose squares and products must stay finite


def check_integer(name: str, value: Any, least: int, most: int | None = None, *, hint: str = "") -> None:
    """Raise ValueError unless value is an integer in [least, most]."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be an integer {limit}, got {value!r}{_hint(hint)}")


def check_number(
    name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf, most: float = np.inf, hint: str = ""
) -> None:
    """Raise ValueError unless value is a finite number above ``above``, at least ``least`` and at most ``most``."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and _is_finite(value)
    if not number or not (above < value <= most and value >= least):
        limit = f"above {above:g}" if above > -np.inf else f"of at least {least:g}"
        limit += "" if most == np.inf else f" and at most {most:g}"
        raise ValueError(f"{name} must be a number {limit}, got {value!r}{_hint(hint)}")


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # an integer beyond all floats
        return False


def check_shares(name: str, values: Any) -> Array:
    """Numbers strictly between 0 and 1 as an array, from one number or a list."""
    try:
        shares = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number between 0 and 1 or a list of numbers, got {values!r}") from None
    if shares.ndim != 1 or not len(shares):
        raise ValueError(f"{name} must be a number between 0 and 1 or a list of numbers, got {values!r}")
    for value in shares:
        if not 0 < value < 1:
            hint = f"; for {value:g} percent pass {name}={value / 100:g}" if 1 < value < 100 else ""
            raise ValueError(f"{name} must be between 0 and 1, got {value:g}{hint}")
    return shares


def check_choice(name: str, value: Any, options: Iterable[Any]) -> None:
    """Raise ValueError unless value is one of the options."""
    options = list(options)
    if not any(value is o or (isinstance(value, str) and value == o) for o in options):
        raise ValueError(f"{name}={value!r} is not valid; choose one of {options}")


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def _hint(hint: str) -> str:
    return f"; {hint}" if hint else ""


HINTS = {
    "Input X contains infinity": "Replace infinite values by NaN (missing) or by finite numbers.",
    "Input y contains": "Drop the rows with a missing or infinite y, or set a finite value.",
    "Expected unique column names": "Rename the duplicate columns.",
    "could not convert string to float": "Convert the text to numbers, or list its column in categorical_features.",
}


@contextmanager
def hinted() -> Iterator[None]:
    """Append the fix to error messages of scikit-learn and NumPy that only state the problem."""
    try:
        yield
    except ValueError as error:
        for sign, hint in HINTS.items():
            if sign in str(error) and "categorical_features" not in str(error):
                raise ValueError(f"{error} {hint}") from None
        raise


def check_weight(sample_weight: Any, n_samples: int) -> Array | None:
    """Weights as float64, or None if all are one; weight 2 is equivalent to repeating the row.

    If the mean of the positive weights is below one, the weights are rescaled to a mean of one. Weights that sum to
    one are meant as shares, not as a single row. Weights above ``MAX_WEIGHT`` are rescaled to it, because their squares
    would overflow; every penalty is negligible there already.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_samples, float(sample_weight))  # type: ignore[arg-type]
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, one per row of X: {error}") from None
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_samples,)}: one weight per row of X")
    if not np.all(np.isfinite(weight)):
        raise ValueError("sample_weight contains NaN or infinity; drop these rows or set their weight to 0")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight must not be negative, got {float(weight.min())!r}; use 0 to ignore a row")
    positive = weight > 0
    if not positive.any():
        raise ValueError("sample_weight is zero for every row; at least one weight must be positive")
    largest = float(weight.max())
    if largest > MAX_WEIGHT:
        weight = weight / largest * MAX_WEIGHT
    mean = float(weight[positive].mean())
    weight = weight / mean if mean < 1.0 else weight
    return None if np.all(weight == 1.0) else weight


def resolve_n_threads(n_jobs: Any) -> int:
    """Number of threads for n_jobs, with joblib's convention: None is one thread, -1 all cores.

    Inside a joblib worker, "all cores" is one thread. OMP_NUM_THREADS is an upper limit, because dask and others set
    it when their workers share the cores.
    """
    if n_jobs is not None and (not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a non-zero integer, got {n_jobs!r}; -1 uses all cores")
    if n_jobs is not None and int(n_jobs) > 0:
        return int(n_jobs)
    if (get_active_backend()[0].nesting_level or 0) > 0:
        return 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(effective_n_jobs(n_jobs))
    return min(threads, max(int(allowed), 1)) if n_jobs is not None and allowed.isdecimal() else threads


def resolve_seed(random_state: Any) -> int:
    """Convert any random_state that scikit-learn accepts into one integer seed."""
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}; use 0 or a positive integer")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except ValueError:
        raise ValueError(
            f"random_state must be None, an integer, a RandomState or a Generator, got {random_state!r}"
        ) from None


KINDS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan", "order": "C"}


def check_columns(
    model: Any, X: Any, categorical_features: Any, *, kinds: dict[int, str] | None = None
) -> tuple[Array, dict[int, Array]]:
    """X as a float matrix with NaN for missing values, and its columns of text and dates.

    ``kinds`` are the columns of a fitted model that are not numbers; names and number of columns must then agree with
    those in fit.
    """
    reset = kinds is None
    with hinted():
        if is_frame(X):
            validate_data(model, X, skip_check_array=True, reset=reset)
            matrix, others = read_frame(X, categorical_features, kinds)
            _refuse_infinity(matrix, getattr(model, "feature_names_in_", None))
            return check_array(matrix, estimator=model, input_name="X", **KINDS), others
        numeric, others = read_array(X, categorical_features, kinds)
        if isinstance(numeric, np.ndarray) and numeric.ndim == 2:
            _refuse_text(numeric)
            _refuse_infinity(numeric)
        return validate_data(model, numeric, reset=reset, **KINDS), others


def _refuse_text(X: Array) -> None:
    """Raise ValueError with all columns of an array that hold text."""
    if X.dtype.kind not in "OU":
        return
    found = {j: text for j, column in enumerate(X.T) if (text := next(filter(_is_text, column), None)) is not None}
    if found:
        columns = list(found)
        raise ValueError(
            f"could not convert string to float: {str(found[columns[0]])!r}. Columns {columns} hold text; pass "
            f"categorical_features={columns} or convert them to numbers."
        )


def _is_text(value: Any) -> bool:
    """Whether a value is a string that is not a number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _refuse_infinity(X: Array, names: Array | None = None) -> None:
    """Raise ValueError with all columns that hold an infinite value, and the first row of each."""
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    infinite = np.isinf(X)
    columns = np.flatnonzero(infinite.any(axis=0))
    if not len(columns):
        return
    found = [
        f"column {int(j) if names is None else names[j]!r} in row {int(np.argmax(infinite[:, j]))}" for j in columns
    ]
    more = f" and {len(found) - 5} more columns" if len(found) > 5 else ""
    raise ValueError(f"Input X contains infinity or a value too large for {X.dtype!r}: {', '.join(found[:5])}{more}.")


def check_y(y: Any, X: Array) -> tuple[Array, int]:
    """y as (n_outputs, n_samples) in the precision of X, and its original number of dimensions."""
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
        raise ValueError("y contains values too large for float32, the precision of X; pass X as float64")
    return cast, y.ndim
