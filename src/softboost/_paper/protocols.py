"""Protocols for drawing rows: that of the released scripts, and that of the paper's text.

* ``script``: every series is scaled to [-1, 1] by its whole range, including the test rows; the rows of all series are
  pooled, and one model is fitted on a sample of them (synthetic data: one model per series with 100 rows).
* ``clean``: one model per series, fitted on 100 rows drawn from those before the last 96, and scaled by the range of
  these 100 rows.
"""

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost import datasets
from softboost._benchmarks.series import lags_and_rolling

FloatArray = NDArray[np.float64]
PROTOCOLS = ("script", "clean")


@dataclass(frozen=True)
class Split:
    """Training and test rows of one model.

    Attributes
    ----------
    name : str
        The series, or ``pooled``.
    X_train, y_train, X_test, y_test : ndarray
    last_value : ndarray of shape (n_test,)
        The value before each test target, which is the naive forecast.
    step : ndarray of shape (n_test,)
        Index of each test row in the test window of its series.
    """

    name: str
    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    last_value: FloatArray
    step: NDArray[np.int64]

    def mse_by_step(self, prediction: FloatArray) -> list[float]:
        """Squared error at each step of the test window, averaged over the series that have this step."""
        error = (self.y_test - prediction) ** 2
        total = np.bincount(self.step, weights=error)
        return [float(x) for x in total / np.bincount(self.step)]


def scaled(values: FloatArray, reference: FloatArray | None = None) -> FloatArray:
    """Scale values so that ``reference`` (by default, the values) has the range [-1, 1].

    Examples
    --------
    >>> scaled(np.array([0.0, 5.0, 20.0]), reference=np.array([0.0, 10.0]))
    array([-1.,  0.,  3.])
    """
    reference = values if reference is None else reference
    low, high = float(reference.min()), float(reference.max())
    return 2.0 * (values - low) / ((high - low) or 1.0) - 1.0


@dataclass(frozen=True)
class _Rows:
    """All usable rows of one series, in time order."""

    X: FloatArray
    y: FloatArray

    @classmethod
    def of(cls, values: FloatArray, dataset: dict[str, Any]) -> "_Rows":
        X = lags_and_rolling(values, dataset["lags"], dataset["windows"], dataset["shifts"])
        usable = np.isfinite(X).all(axis=1)
        return cls(X[usable], values[usable])

    def part(self, rows: slice) -> "_Rows":
        return _Rows(self.X[rows], self.y[rows])


@functools.lru_cache(maxsize=8)
def _series(source: str, data_dir: Path | None) -> dict[str, FloatArray]:
    """All series of a real data set, by name."""
    loader: Callable[..., pd.DataFrame] = getattr(datasets, f"load_{source}")
    frame = loader(data_dir)
    return {str(name): group.to_numpy() for name, group in frame.groupby("unique_id", sort=False)["y"]}


def _chosen_series(dataset: dict[str, Any], data_dir: Path | None) -> dict[str, FloatArray]:
    """The series of an experiment, sorted by name as in the released scripts."""
    series = _series(dataset["source"], data_dir)
    names = dataset.get("series", list(series))
    # The file of Exchange has no names; the scripts number its series in the order of the file.
    names = names if dataset["source"] == "exchange" else sorted(names)
    return {name: series[name][: dataset.get("first_rows")] for name in names}


def n_splits(protocol: str, dataset: dict[str, Any], data_dir: Path | None) -> int:
    """Number of models for a data set: one if rows are pooled, else one per series.

    Raises
    ------
    DataUnavailableError
        If the file of the data set is not available.
    """
    if dataset["source"] == "synthetic":
        return int(dataset[protocol]["n_series"])
    if protocol == "script":
        _series(dataset["source"], data_dir)
        return 1
    return min(len(_long_enough(dataset, data_dir)), dataset["clean"].get("n_series", 10**9))


def make_split(protocol: str, dataset: dict[str, Any], seed: int, index: int, data_dir: Path | None) -> Split:
    """One split of a data set.

    Parameters
    ----------
    protocol : {"script", "clean"}
    dataset : dict
        An entry of ``datasets`` in the settings of Table II.
    seed : int
        Seed of the sampled rows (and of the sampled series, if there are many).
    index : int
        Index of the split, below :func:`n_splits`.
    data_dir : Path or None
        As in :func:`softboost.datasets.find_file`.
    """
    if dataset["source"] == "synthetic":
        return _synthetic(protocol, dataset[protocol], seed, index)
    if protocol == "clean":
        return _clean(dataset, seed, index, data_dir)
    if dataset["source"] == "m4_quarterly":
        return _other_series(dataset, seed, data_dir)
    return _pooled(dataset, seed, data_dir)


def _pooled(dataset: dict[str, Any], seed: int, data_dir: Path | None) -> Split:
    """A training sample from the rows of all series before their test rows, and the test rows of all series."""
    size = dataset["script"]
    rows = [_Rows.of(scaled(values), dataset) for values in _chosen_series(dataset, data_dir).values()]
    before = [r.part(slice(None, -size["n_test"])) for r in rows]
    if "history" in size:
        before = [r.part(slice(-size["history"], None)) for r in before]
    X, y = np.vstack([r.X for r in before]), np.concatenate([r.y for r in before])
    # sample with pandas, as in the released scripts, to get the same rows
    drawn = pd.Series(np.arange(len(y))).sample(n=size["n_train"], random_state=seed).to_numpy()
    return _joined("pooled", X[drawn], y[drawn], [r.part(slice(-size["n_test"], None)) for r in rows])


def _joined(name: str, X: FloatArray, y: FloatArray, test: Sequence[_Rows]) -> Split:
    X_test, y_test = np.vstack([r.X for r in test]), np.concatenate([r.y for r in test])
    step = np.concatenate([np.arange(len(r.y)) for r in test])
    return Split(name, X, y, X_test, y_test, X_test[:, 0].copy(), step)  # the first column is lag 1


def _other_series(dataset: dict[str, Any], seed: int, data_dir: Path | None) -> Split:
    """Train on the first rows of some series, test on the first rows of others."""
    size = dataset["script"]
    first = _first_usable(dataset)
    series = {name: v for name, v in _chosen_series(dataset, data_dir).items() if len(v) > first}
    names = pd.Series(list(series))
    for_test = names.sample(n=size["n_test_series"], random_state=seed)
    rest = names[~names.isin(for_test)].reset_index(drop=True)
    for_train = rest.sample(n=size["n_train_series"], random_state=seed)
    train = [_Rows.of(scaled(series[n]), dataset).part(slice(size["n_train"])) for n in sorted(for_train)]
    test = [_Rows.of(scaled(series[n]), dataset).part(slice(size["n_test"])) for n in sorted(for_test)]
    return _joined("pooled", np.vstack([r.X for r in train]), np.concatenate([r.y for r in train]), test)


def _first_usable(dataset: dict[str, Any]) -> int:
    """Index of the first row for which every lag and window exists."""
    return int(max(*dataset["lags"], max(dataset["shifts"]) + max(dataset["windows"]) - 1))


def _long_enough(dataset: dict[str, Any], data_dir: Path | None) -> list[str]:
    """Names of the series that are long enough for the clean protocol."""
    size = dataset["clean"]
    needed = _first_usable(dataset) + size["n_train"] + size["n_test"]
    return [name for name, values in _chosen_series(dataset, data_dir).items() if len(values) >= needed]


def _clean(dataset: dict[str, Any], seed: int, index: int, data_dir: Path | None) -> Split:
    """One series: rows drawn at random before the test rows, scaled by the range of the drawn rows."""
    size = dataset["clean"]
    names = _long_enough(dataset, data_dir)
    if size.get("n_series", len(names)) < len(names):
        rng = np.random.default_rng([zlib.crc32(dataset["source"].encode()), seed])
        names = [names[i] for i in rng.choice(len(names), size["n_series"], replace=False)]
    name = names[index]
    values = _chosen_series(dataset, data_dir)[name]
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    first, last = _first_usable(dataset), len(values) - size["n_test"]
    # in the order of drawing, so that the folds of a grid search are random
    drawn = rng.choice(np.arange(first, last), size["n_train"], replace=False)
    values = scaled(values, reference=values[drawn])
    X = lags_and_rolling(values, dataset["lags"], dataset["windows"], dataset["shifts"])
    return _joined(name, X[drawn], values[drawn], [_Rows(X[last:], values[last:])])


@functools.lru_cache(maxsize=4)
def _synthetic_frame(n_steps: int, seed: int) -> pd.DataFrame:
    frame: pd.DataFrame = datasets.make_synthetic(n_steps=n_steps, random_state=seed)
    return frame


def _synthetic(protocol: str, size: dict[str, Any], seed: int, index: int) -> Split:
    """One series of eq. (1), split into first rows for training and remaining rows for testing.

    The columns are shuffled, because the relevant ones come first and a single row of Q starts at the first column.
    """
    n_train, n_test = size["n_train"], size["n_test"]
    n_steps = n_train + n_test
    group = _synthetic_frame(n_steps, seed).iloc[index * n_steps : (index + 1) * n_steps]
    X, y = group.iloc[:, 3:].to_numpy(), group["y"].to_numpy()
    X = X[:, np.random.default_rng([seed, index]).permutation(X.shape[1])]
    y = scaled(y, reference=None if protocol == "script" else y[:n_train])
    name, step = str(group["unique_id"].iloc[0]), np.arange(n_test)
    return Split(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:], y[n_train - 1 : -1], step)
