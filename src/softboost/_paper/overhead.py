"""Cost of learning Q: time to fit BSDT-Q divided by time to fit BSDT."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.presets import bsdt, bsdt_q

from .protocols import make_split
from .results import Record, Unit, model_version
from .settings import Settings


def units(settings: Settings, table2: Settings, data_dir: Path | None) -> list[Unit]:
    """One unit per available data set."""
    fixed = {key: settings[key] for key in ("n_estimators", "depth", "n_steps", "n_components", "repeats")}
    return [
        Unit(
            "overhead",
            {"dataset": name},
            {**fixed, "rows": table2["datasets"][name], "version": model_version()},
            run,
            data_dir,
            alone=True,
        )
        for name in settings["datasets"]
        if name in table2["datasets"]
    ]


def run(name: dict[str, Any], settings: Settings, data_dir: Path | None) -> Record:
    """Time both models alternately, so that load of the machine affects both."""
    rows = settings["rows"]
    split = make_split("script", rows, rows["script"]["seed"], 0, data_dir)
    equal = {key: settings[key] for key in ("n_estimators", "depth", "n_steps")}
    models = {"bsdt": bsdt(**equal, random_state=0)}
    for n_components in settings["n_components"]:
        models[str(n_components)] = bsdt_q(**equal, n_components=n_components, random_state=0)
    seconds: dict[str, list[float]] = {key: [] for key in models}
    for _ in range(settings["repeats"] + 1):
        for key, model in models.items():
            start = time.perf_counter()
            model.fit(split.X_train, split.y_train)
            seconds[key].append(time.perf_counter() - start)
    # The first round warms up the caches.
    median = {key: float(np.median(values[1:])) for key, values in seconds.items()}
    return {"n_rows": len(split.y_train), "n_features": split.X_train.shape[1], "seconds": median}


def table(records: list[Record]) -> pd.DataFrame:
    """One row per data set and number of components of Q."""
    rows = []
    for record in records:
        base = record["seconds"]["bsdt"]
        for key, seconds in record["seconds"].items():
            if key == "bsdt":
                continue
            components = record["n_features"] if key == "None" else int(key)
            rows.append(
                {
                    "dataset": record["dataset"],
                    "n_features": record["n_features"],
                    "n_components": components,
                    "seconds_bsdt": base,
                    "seconds_bsdt_q": seconds,
                    "ratio": seconds / base,
                }
            )
    return pd.DataFrame(rows)
