"""A benchmark task: training rows, test rows and their origin."""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class MissingDataError(RuntimeError):
    """Raised if the package or the data file of a family is missing."""


@dataclass(frozen=True)
class Task:
    """Training and test rows of one regression problem.

    Parameters
    ----------
    X_train, y_train : ndarray of shape (n_train, n_features) and (n_train,)
    X_test, y_test : ndarray of shape (n_test, n_features) and (n_test,)
    naive_column : int or None
        Column with the last value of the target, if the rows are a series.
    metadata : dict
        Origin of the rows. ``relevant`` lists the relevant columns, if known; ``train_rows`` and ``test_rows`` are the
        indices of the rows in their source (in a series, the time of the target).
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    naive_column: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def digest(self) -> str:
        """Eight hex digits that identify the numbers of this task, ignoring their last bits."""
        arrays = (self.X_train, self.y_train, self.X_test, self.y_test)
        sums = [float(array.ravel() @ np.linspace(1, 2, array.size)) for array in arrays]
        shapes = [array.shape for array in arrays]
        text = f"{shapes} {' '.join(f'{x:.6e}' for x in sums)}"
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]

    def permuted(self, order: NDArray[np.intp]) -> "Task":
        """Return the same task with column ``order[j]`` moved to position ``j``."""
        place = np.argsort(order)
        metadata = dict(self.metadata)
        if "relevant" in metadata:
            metadata["relevant"] = sorted(int(place[j]) for j in metadata["relevant"])
        naive_column = None if self.naive_column is None else int(place[self.naive_column])
        return replace(
            self,
            X_train=self.X_train[:, order],
            X_test=self.X_test[:, order],
            naive_column=naive_column,
            metadata=metadata,
        )


@dataclass(frozen=True)
class Draw:
    """Inputs of a generator for one task: random numbers, seed and data folder."""

    rng: np.random.Generator
    seed: int
    data_dir: Path | None = None


Generator = Callable[[Draw], Task]


@dataclass(frozen=True)
class Family:
    """A kind of task; every seed draws another instance.

    Parameters
    ----------
    name : str
    generator : callable
        Draws a task. Its columns are always shuffled afterwards, so the relevant ones may come first.
    rows : tuple of int
        Smallest and largest number of training rows.
    columns : int
        Number of columns.
    split : {"dev", "heldout"}
        Defaults are developed on ``"dev"``; docs/benchmarks.md lists the held-out families that were consulted.
    about : str
        Description in one line.
    core : bool, default=False
        One of the nine families of the design.
    draws : int, default=1
        Number of tasks per seed; more than one for families whose tasks vary strongly, such as single series.
    """

    name: str
    generator: Generator
    rows: tuple[int, int]
    columns: int
    split: str
    about: str
    core: bool = False
    draws: int = 1

    def task(self, seed: int, data_dir: Path | None = None) -> Task:
        """Draw the task of this seed, with its columns shuffled.

        Raises
        ------
        MissingDataError
            If the data of the family are not available.
        """
        salt = zlib.crc32(self.name.encode())
        task = self.generator(Draw(np.random.default_rng([salt, seed]), seed, data_dir))
        order = np.random.default_rng([salt, seed, 1]).permutation(task.X_train.shape[1])
        return task.permuted(order)

    def task_seeds(self, seeds: list[int]) -> list[int]:
        """Seeds of all tasks drawn for the benchmark seeds ``seeds``."""
        return [seed * self.draws + k for seed in seeds for k in range(self.draws)]
