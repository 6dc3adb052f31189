"""Checks of parameters and arrays, with messages that name the parameter, the value and the way out."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, TimeSeriesSplit, check_cv
from sklearn.utils import check_random_state

__all__ = [
    "check_choice",
    "check_flag",
    "check_integer",
    "check_number",
    "check_weight",
    "hinted",
    "lags_of_columns",
    "make_folds",
    "resolve_n_threads",
    "resolve_seed",
]

Array = NDArray[Any]
MAX_ROWS_FOR_FOLDS = 5000
MAX_TRAINING_ROWS = 2**15  # of the one hold-out beyond that
ROWS_TO_KNOW_A_SERIES = 20_000
ROWS_TO_KNOW_A_LAG = 200
MAX_LAG_TO_KNOW = 400
FORWARD_START = 0.4


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
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and np.isfinite(float(value))
    if not number or not (above < value <= most and value >= least):
        limit = f"above {above:g}" if above > -np.inf else f"of at least {least:g}"
        limit += "" if most == np.inf else f" and at most {most:g}"
        raise ValueError(f"{name} must be a number {limit}, got {value!r}{_hint(hint)}")


def check_choice(name: str, value: Any, options: Iterable[Any]) -> None:
    """Raise ValueError unless value is one of the options."""
    options = list(options)
    if not any(value is o or (isinstance(value, str) and value == o) for o in options):
        raise ValueError(f"{name}={value!r} is not known; choose one of {options}")


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def _hint(hint: str) -> str:
    return f"; {hint}" if hint else ""


HINTS = {
    "Input X contains infinity": "Replace such values by NaN, which stands for a missing one, or by finite numbers.",
    "Input y contains": "Drop the rows whose y is not known, or give it a finite value.",
    "Expected unique column names": "Rename columns of the same name.",
    "could not convert string to float": "Name columns of text in categorical_features, or turn them into numbers.",
}


@contextmanager
def hinted() -> Iterator[None]:
    """Add the way out to messages of scikit-learn and NumPy that say only what is wrong."""
    try:
        yield
    except ValueError as error:
        for sign, hint in HINTS.items():
            if sign in str(error) and "categorical_features" not in str(error):
                raise ValueError(f"{error} {hint}") from None
        raise


def check_weight(sample_weight: Any, n_samples: int) -> Array | None:
    """Weights as float64, or None where all are one; a weight of 2 means the row counts twice.

    Weights whose mean (over rows that count at all) is below one are brought to a mean of one: somebody who passes
    shares that sum to one does not mean that there is a single row.
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
        raise ValueError("sample_weight contains NaN or infinity; drop those rows or give them a weight of 0")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight must not be negative, got {float(weight.min())!r}; use 0 to leave a row out")
    positive = weight > 0
    if not positive.any():
        raise ValueError("sample_weight is zero for every row; at least one row must count")
    mean = float(weight[positive].mean())
    weight = weight / mean if mean < 1.0 else weight
    return None if np.all(weight == 1.0) else weight


def resolve_n_threads(n_jobs: Any) -> int:
    """Threads for n_jobs as joblib counts them: None is one, -1 all cores.

    "All" is one inside a worker of joblib, and no more than OMP_NUM_THREADS, by which dask and others say that their
    workers share the cores.
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
    """One integer seed from whatever scikit-learn accepts as random_state."""
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}; use 0 or a larger integer")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except ValueError:
        raise ValueError(
            f"random_state={random_state!r} is neither None, nor an integer, nor a RandomState or Generator"
        ) from None


def lags_of_columns(X: Array, y: Array) -> Array | None:
    """How many rows back each column repeats the target, 0 where it does not; None if no column has the row before.

    If one has, the rows are a series in time order.
    """
    if len(y) < 10 or y.shape[1] != 1:
        return None
    target = y[:, 0].astype(np.float64)
    tolerance = 1e-6 * float(target.max() / 2 - target.min() / 2)
    if not tolerance > 0:
        return None

    def repeats(lag: int, rows: int) -> Array:
        first = max(0, lag - before)
        past = known[before + first - lag :][: min(rows, len(y) - first)]
        there = np.isfinite(past)
        if 2 * np.count_nonzero(there) < min(rows, len(y)):
            return np.zeros(X.shape[1], dtype=bool)
        with np.errstate(over="ignore"):
            gap = np.abs(X[first : first + rows][there] - past[there, None])
        return np.mean(gap <= tolerance, axis=0) >= 0.95

    known, before = target, 0  # the series, and how many of its values are before the first target
    lags = np.where(repeats(1, len(y)), 1, 0)
    if not lags.any():
        return None
    for lag in range(2, MAX_LAG_TO_KNOW + 1):
        if before == lag - 2 and np.any(lags == lag - 1):  # the first row's lags go on into the past
            known, before = np.append(X[0, np.argmax(lags == lag - 1)], known), lag - 1
        if np.all(lags > 0) or lag - before > len(y) // 2:
            break
        lags[(lags == 0) & repeats(lag, ROWS_TO_KNOW_A_LAG)] = lag
    return lags


def make_folds(cv: Any, shuffle: Any, X: Array, y: Array, kept: Array, seed: int) -> list[tuple[Array, Array]]:
    """Pairs of (training rows, judged rows), counted within the rows ``kept`` (those of positive weight).

    Without ``cv``: five folds up to 5,000 rows, one hold-out of a fifth beyond, thinned out to at most 32,768 rows to
    train on and 16,384 to judge on: what is chosen on so many hardly changes on more. ``shuffle="blocks"`` cuts the
    rows into contiguous blocks, True deals them at random, False lets no fold be trained on rows after those it is
    judged on.
    """
    place = np.full(len(X), -1)
    place[kept] = np.arange(len(kept))
    if cv is None:
        return _default_folds(len(kept), shuffle, seed)
    if isinstance(cv, (int, np.integer)):
        check_integer("cv", cv, 2)
        if cv > len(X):
            raise ValueError(f"cv={cv} is more than the {len(X)} rows; use at most that")
        splitter = _integer_cv(int(cv), shuffle, seed)
    else:
        try:
            splitter = check_cv(cv)
        except ValueError:
            raise ValueError(
                f"cv={cv!r} is neither None, nor an integer, nor a splitter, nor a list of splits"
            ) from None
    folds = []
    for train, held in splitter.split(X, y):
        train, held = place[np.asarray(train)], place[np.asarray(held)]
        train, held = train[train >= 0], held[held >= 0]
        if len(train) and len(held):
            folds.append((train, held))
    if not folds:
        raise ValueError(f"cv={cv!r} left no fold with rows on both sides; use fewer splits")
    return folds


def _integer_cv(n_splits: int, shuffle: Any, seed: int) -> BaseCrossValidator:
    check_integer("cv", n_splits, 2)
    if shuffle is False:
        return TimeSeriesSplit(n_splits)
    return KFold(n_splits, shuffle=shuffle is True, random_state=seed if shuffle is True else None)


def _default_folds(n: int, shuffle: Any, seed: int) -> list[tuple[Array, Array]]:
    rows = np.arange(n)
    if n > MAX_ROWS_FOR_FOLDS:
        if shuffle is False:
            held = rows >= n - n // 5
        elif shuffle is True:
            held = np.random.default_rng(seed).permutation(n) < n // 5
        else:  # ten blocks spread over the rows, each judged as a whole
            held = (rows * 50 // n) % 5 == 2
        return [(_thinned(rows[~held], MAX_TRAINING_ROWS), _thinned(rows[held], MAX_TRAINING_ROWS // 2))]
    n_splits = min(5, n)
    if n_splits < 2:
        return []
    if shuffle is False:
        return _forward_folds(n)
    return list(_integer_cv(n_splits, shuffle, seed).split(rows[:, None]))


def _thinned(rows: Array, most: int) -> Array:
    """At most so many of the rows, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _forward_folds(n: int, n_folds: int = 5) -> list[tuple[Array, Array]]:
    """The later rows in blocks, each judged by what was fitted on all rows before it."""
    first = max(2, int(np.ceil(FORWARD_START * n)))
    edges = np.unique(np.linspace(first, n, n_folds + 1).astype(int))
    return [(np.arange(a), np.arange(a, b)) for a, b in pairwise(edges)]
