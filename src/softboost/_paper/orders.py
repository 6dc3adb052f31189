"""Table II with shuffled columns, and with other starts of the transform.

A single row of Q starts at the first column, which is lag 1 in the real data sets: persistence. With the columns in
random order it starts anywhere, so the errors show what Q learns without this head start.
"""

import functools
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost import SoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Diagonal, Linear, Transform

from .models import StagedSearch
from .protocols import Split, make_split, n_splits
from .results import Record, Unit, model_version
from .settings import Settings


def with_supervised_start(
    n_components: int, group_lasso: float, transform_learning_rate: float, **params: Any
) -> SoftBoostRegressor:
    """BSDT-Q whose Q starts at the directions of partial least squares."""
    steps = params["n_steps"]
    return _with(Linear(n_components, "supervised", group_lasso, transform_learning_rate, steps), params)


def with_diagonal(group_lasso: float, transform_learning_rate: float, **params: Any) -> SoftBoostRegressor:
    """BSDT on z_j = q_j x_j, with all weights starting at one."""
    return _with(Diagonal(group_lasso, transform_learning_rate, params["n_steps"]), params)


def _with(transform: Transform, params: dict[str, Any]) -> SoftBoostRegressor:
    return bsdt(**params).set_params(feature_transform=transform)


MAKERS: dict[str, Callable[..., SoftBoostRegressor]] = {
    "identity": bsdt_q,
    "supervised": with_supervised_start,
    "diagonal": with_diagonal,
}


def units(settings: Settings, data_dir: Path | None) -> list[Unit]:
    """All fits: every start on every real data set, with the columns as given (order -1) and shuffled."""
    made = []
    for name, dataset in settings["datasets"].items():
        if dataset["source"] == "synthetic":  # its columns are always shuffled
            continue
        n_splits("script", dataset, data_dir)  # raises an error if there are no data
        for start, model in settings["orders"]["starts"].items():
            fixed = {"dataset": dataset, "model": model, "n_folds": settings["n_folds"], "version": model_version()}
            if start == "identity":
                fixed["model"] = {**settings["models"]["bsdt_q"], "label": model["label"]}
            for order in (-1, *settings["orders"]["seeds"]):
                where = {"dataset": name, "seed": dataset["script"]["seed"], "start": start, "order": order}
                made.append(Unit("orders", where, fixed, run, data_dir))
    return made


def shuffled(split: Split, order: int) -> Split:
    """The split with its columns in a random order; -1 keeps the order."""
    if order < 0:
        return split
    columns = np.random.default_rng([order, split.X_train.shape[1]]).permutation(split.X_train.shape[1])
    return replace(split, X_train=split.X_train[:, columns], X_test=split.X_test[:, columns])


def run(name: dict[str, Any], settings: Settings, data_dir: Path | None) -> Record:
    """Tune and fit one start with one order of the columns."""
    split = shuffled(_given(json.dumps(settings["dataset"], sort_keys=True), name["seed"], data_dir), name["order"])
    model = settings["model"]
    make = functools.partial(MAKERS[name["start"]], random_state=name["seed"])
    search = StagedSearch(make, model["grid"], model["n_estimators"], settings["n_folds"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        search.fit(split.X_train, split.y_train)
        seconds = time.perf_counter() - start
    error = float(np.mean((split.y_test - search.predict(split.X_test).ravel()) ** 2))
    return {"mse": error, "seconds": round(seconds, 4), "chosen": search.best_params_}


@functools.lru_cache(maxsize=8)
def _given(dataset: str, seed: int, data_dir: Path | None) -> Split:
    return make_split("script", json.loads(dataset), seed, 0, data_dir)


def table(records: list[Record], settings: Settings, paper: Settings) -> pd.DataFrame:
    """One row per data set and start: error with the given order, and mean, least and largest error over shuffles."""
    rows = []
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        for start, model in settings["orders"]["starts"].items():
            own = [r for r in records if r["dataset"] == dataset and r["start"] == start]
            errors = [r["mse"] for r in own if r["order"] >= 0]
            rows.append(
                {
                    "dataset": dataset,
                    "start": start,
                    "label": model["label"],
                    "given": next(r["mse"] for r in own if r["order"] < 0),
                    "shuffled": float(np.mean(errors)),
                    "least": min(errors),
                    "most": max(errors),
                    "n_orders": len(errors),
                    "paper_mse": paper["table2"].get(dataset, {}).get("bsdt_q", float("nan")),
                    "seconds": float(np.mean([r["seconds"] for r in own])),
                }
            )
    return pd.DataFrame(rows)
