"""Monitors a plain fit round by round: losses, early stopping and progress."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._data.task import Rows, Task
from softboost._runtime.progress import Progress

from .boosting import Boosted, Features

__all__ = ["MAX_UNWATCHED_ROWS", "Watch"]

Array = NDArray[Any]
MAX_UNWATCHED_ROWS = 1024  # with fewer rows a fit is too fast to be stopped between rounds


class Watch:
    """Monitors a plain fit: losses, early stopping, progress, and the completed rounds for Ctrl-C.

    Attributes
    ----------
    results : dict of str to list of float
        Loss after every round on the training rows and on the validation rows, if there are any; units of y.
    best_round : int
        Round with the lowest validation loss; 0 without validation rows.
    """

    def __init__(self, model: Any, task: Task, train: Rows, held: Rows | None, n_rounds: int) -> None:
        self.settings, self.task = model, task
        self.rows = {"train": train} if held is None else {"train": train, "validation": held}
        self.results: dict[str, list[float]] = {name: [] for name in self.rows}
        self.start: Any = None
        self.model: Boosted | None = None
        self.best_round, self.best = 0, np.inf
        self._raw: dict[str, Array] = {}
        self._z: dict[str, Features] = {}
        self.progress = Progress(bool(model.verbose), n_rounds, "boosting", keep=True)

    @property
    def n_rounds(self) -> int:
        """Number of completed and recorded rounds."""
        return len(self.results["train"])

    def begin(self, start: Any) -> None:
        """Receive the linear model that boosting starts from."""
        self.start = start

    def __call__(self, model: Boosted) -> bool:
        self.model = model
        while self.n_rounds < len(model.rounds):  # a warm start begins with several rounds to record
            k = self.n_rounds
            values = {name: self._losses_after(model, k, name) for name in reversed(self.rows)}
            for name, (own, _) in values.items():
                self.results[name].append(own)
            if "validation" in values and values["validation"][1] < self.best - self.settings.tol:
                self.best, self.best_round = values["validation"][1], k + 1
            self.progress.step(", ".join(f"{name} {self.results[name][-1]:.4g}" for name in self.rows))
        return self.settings.early_stopping and self.n_rounds - self.best_round >= self.settings.n_iter_no_change

    def _losses_after(self, model: Boosted, k: int, name: str) -> tuple[float, float]:
        """Loss after round k in the units of y and in standardised units, in which ``tol`` is measured."""
        X, y, weight = self.rows[name]
        if name not in self._raw:
            self._raw[name] = self.start.predict(X)[0]
            self._z[name] = Features(model.recipe.transform, np.ascontiguousarray(X[model.columns]))
        theta, tree = model.rounds[k]
        added = model.learning_rate * tree.output(self._z[name].at(theta), self.task.n_threads)
        self._raw[name] = self._raw[name] + added
        raw = self._raw[name]
        return self.task.mean_loss(y, raw, weight), self.task.train_loss.mean(y, raw, weight)

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether the losses can be recorded after the last round: nothing stops, shows or keeps the rounds before."""
        few = self.rows["train"][1].shape[1] <= MAX_UNWATCHED_ROWS
        return few and not (self.settings.verbose or self.settings.early_stopping or self.settings.warm_start)

    def record(self, start: Any, model: Boosted) -> None:
        """Record the losses of a completed model that was not watched."""
        if not model.rounds:
            return
        units, loss = self.task.units, self.task.loss
        for name, (X, y, weight) in self.rows.items():
            outputs = model.outputs(X, self.task.n_threads)
            raw = np.cumsum(np.concatenate([start.predict(X), outputs]), axis=0)[1:]
            with np.errstate(over="ignore"):  # as in Task.mean_loss
                losses = loss.loss(units.original_y(y)[None], units.original_y(raw)).mean(axis=1)
            self.results[name] = np.average(losses, axis=1, weights=weight).tolist()

    def close(self) -> None:
        """Close the progress bar."""
        self.progress.close()
