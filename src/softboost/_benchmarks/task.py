"""What one benchmark task is: training rows, test rows, and where they came from."""

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
    """A family cannot be drawn here: its package or its data file is absent."""


@dataclass(frozen=True)
class Task:
    """Training and test rows of one regression problem.

    Parameters
    ----------
    X_train, y_train : ndarray of shape (n_train, n_features) and (n_train,)
    X_test, y_test : ndarray of shape (n_test, n_features) and (n_test,)
    naive_column : int or None
        Column that holds the last value of the target, where the rows are a series.
    metadata : dict
        Where the rows came from. ``relevant`` lists the columns that matter, where known; ``train_rows`` and
        ``test_rows`` number the rows in their source (in a series: the time of the target).
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    naive_column: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def digest(self) -> str:
        """Eight hex digits that identify the numbers of this task, blind to the last bits of each."""
        arrays = (self.X_train, self.y_train, self.X_test, self.y_test)
        sums = [float(array.ravel() @ np.linspace(1, 2, array.size)) for array in arrays]
        shapes = [array.shape for array in arrays]
        text = f"{shapes} {' '.join(f'{x:.6e}' for x in sums)}"
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]

    def permuted(self, order: NDArray[np.intp]) -> "Task":
        """Return the same task with column ``order[j]`` moved to place ``j``."""
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
    """What a generator may use to draw one task."""

    rng: np.random.Generator
    seed: int
    data_dir: Path | None = None


Generator = Callable[[Draw], Task]


@dataclass(frozen=True)
class Family:
    """A kind of task, of which every seed gives another one.

    Parameters
    ----------
    name : str
    generator : callable
        Draws a task. Its columns are shuffled afterwards, always, so it may put the relevant ones first.
    rows : tuple of int
        Smallest and largest number of training rows.
    columns : int
        Number of columns.
    split : {"dev", "heldout"}
        Held-out families are not looked at while the default is being developed.
    about : str
        The problem in one line.
    core : bool, default=False
        One of the nine families of the design.
    draws : int, default=1
        Tasks per seed: families whose tasks differ much (another series each time) take more than one.
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
            If the data of the family is not on this machine.
        """
        salt = zlib.crc32(self.name.encode())
        task = self.generator(Draw(np.random.default_rng([salt, seed]), seed, data_dir))
        order = np.random.default_rng([salt, seed, 1]).permutation(task.X_train.shape[1])
        return task.permuted(order)

    def task_seeds(self, seeds: list[int]) -> list[int]:
        """Seeds of all tasks drawn for the benchmark seeds ``seeds``."""
        return [seed * self.draws + k for seed in seeds for k in range(self.draws)]
