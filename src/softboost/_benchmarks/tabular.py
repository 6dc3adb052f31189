"""Families of real tables from scikit-learn and statsmodels, with few training rows."""

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from .series import optional_module
from .task import Draw, FloatArray, Generator, Task

N_TEST = 400


def table(load: Callable[[], tuple[FloatArray, FloatArray]], n_train: int, products: bool = False) -> Generator:
    """Make a generator over random splits of a table.

    Parameters
    ----------
    load : callable
        Returns the columns and the target of all rows.
    n_train : int
        Number of training rows; at most 400 of the other rows are test rows.
    products : bool, default=False
        Append all squares and pairwise products of the columns, standardised by the training rows.
    """

    def draw(draw: Draw) -> Task:
        X, y = load()
        rows = draw.rng.permutation(len(y))[: n_train + N_TEST]
        train, test = rows[:n_train], rows[n_train:]
        task = Task(X[train], y[train], X[test], y[test], None, {"train_rows": train, "test_rows": test})
        return with_products(task) if products else task

    return draw


def with_products(task: Task) -> Task:
    """Append all squares and pairwise products of the columns, standardised by the training rows."""
    mean, scale = task.X_train.mean(axis=0), task.X_train.std(axis=0)
    scale[scale == 0] = 1
    first, second = np.triu_indices(task.X_train.shape[1])

    def widen(X: FloatArray) -> FloatArray:
        z = (X - mean) / scale
        return np.hstack([z, z[:, first] * z[:, second]])

    return replace(task, X_train=widen(task.X_train), X_test=widen(task.X_test))


def with_noise_columns(generator: Generator, n_columns: int) -> Generator:
    """Append columns of Gaussian noise, scaled like the first column, to the tasks of a generator."""

    def draw(draw: Draw) -> Task:
        task = generator(draw)
        scale = task.X_train[:, 0].std()

        def widen(X: FloatArray) -> FloatArray:
            return np.hstack([X, scale * draw.rng.standard_normal((len(X), n_columns))])

        metadata = {**task.metadata, "relevant": list(range(task.X_train.shape[1]))}
        return replace(task, X_train=widen(task.X_train), X_test=widen(task.X_test), metadata=metadata)

    return draw


@functools.lru_cache(maxsize=16)
def statsmodels_table(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[FloatArray, FloatArray]:
    """Columns and target of a table of statsmodels, without the columns in ``drop`` and without incomplete rows."""
    frame = optional_module(f"statsmodels.datasets.{name}").load_pandas().data
    frame = frame.drop(columns=list(drop)).select_dtypes("number").dropna()
    return frame.drop(columns=target).to_numpy(np.float64), frame[target].to_numpy(np.float64)


def diabetes_table() -> tuple[FloatArray, FloatArray]:
    """Disease progression of 442 patients from 10 measurements."""
    X, y = load_diabetes(return_X_y=True)
    return X, y


def wine_table() -> tuple[FloatArray, FloatArray]:
    """Alcohol of 178 wines from 12 other measurements."""
    X = load_wine().data
    return X[:, 1:], X[:, 0]


def cells_table() -> tuple[FloatArray, FloatArray]:
    """Worst fractal dimension of 569 cell images from the mean and spread of ten measurements."""
    X = load_breast_cancer().data
    return X[:, :20], X[:, 29]


def schools_table() -> tuple[FloatArray, FloatArray]:
    """Share of pupils above the median in 303 school districts from 20 columns."""
    X, above = statsmodels_table("star98", "NABOVE")
    return X[:, 1:], above / (above + X[:, 0])


def fertility_table() -> tuple[FloatArray, FloatArray]:
    """Fertility of some 190 countries in 2005 from the years 1960 to 1995."""
    frame = optional_module("statsmodels.datasets.fertility").load_pandas().data
    frame = frame[[str(year) for year in range(1960, 1996)] + ["2005"]].dropna()
    values = frame.to_numpy(np.float64)
    return values[:, :-1], values[:, -1]


diabetes = table(diabetes_table, 100)
diabetes_noise = with_noise_columns(diabetes, 40)
wine = table(wine_table, 100, products=True)
cells = table(cells_table, 100)
schools = table(schools_table, 100)
fertility = table(fertility_table, 60)
crime = table(lambda: statsmodels_table("statecrime", "violent"), 35, products=True)
marriage = table(lambda: statsmodels_table("fair", "rate_marriage"), 100, products=True)
party = table(lambda: statsmodels_table("anes96", "PID", ("vote", "popul")), 100, products=True)
