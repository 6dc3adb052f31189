"""Table I: the weights learned by Q, over many starts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.datasets import make_feature_recovery
from softboost.presets import bsdt_q

from .protocols import FloatArray
from .results import Record, Unit, model_version
from .settings import Settings


def units(settings: Settings) -> list[Unit]:
    """The units, each with several starts."""
    n_runs, together = settings["n_runs"], settings["runs_per_unit"]
    fixed = {key: settings[key] for key in ("data_seed", "n_series", "n_steps", "n_train_steps", "noise", "model")}
    fixed["version"] = model_version()
    return [
        Unit("table1", {"first_run": first, "n_runs": min(together, n_runs - first)}, fixed, run)
        for first in range(0, n_runs, together)
    ]


def training_rows(settings: Settings) -> tuple[FloatArray, FloatArray]:
    """X (n_rows, 5) and y: the first steps of all series."""
    frame = make_feature_recovery(
        settings["n_series"], settings["n_steps"], settings["noise"], random_state=settings["data_seed"]
    )
    frame = frame[frame["ds"] <= settings["n_train_steps"]]
    return frame.iloc[:, 3:].to_numpy(), frame["y"].to_numpy()


def run(name: dict[str, Any], settings: Settings, data_dir: Path | None = None) -> Record:
    """Fit from several starts; return the row of Q of each, scaled so that its absolute values sum to one.

    A start is a seed of the gates and an order of the columns, the first of which is the initial direction of Q.
    """
    X, y = training_rows(settings)
    learned = []
    for start in range(name["first_run"], name["first_run"] + name["n_runs"]):
        order = np.random.default_rng(start).permutation(X.shape[1])
        model = bsdt_q(**settings["model"], random_state=start).fit(X[:, order], y)
        learned.append(normalised(model.transforms_[-1][0][np.argsort(order)]).tolist())
    return {"weights": learned}


def normalised(row: FloatArray) -> FloatArray:
    """A row of Q with absolute values that sum to one and a positive sum, since the sign is arbitrary.

    Examples
    --------
    >>> normalised(np.array([-2.0, -1.0, 1.0]))
    array([ 0.5 ,  0.25, -0.25])
    """
    return row / np.abs(row).sum() * (1.0 if row.sum() >= 0 else -1.0)


def table(records: list[Record], settings: Settings, paper: Settings) -> pd.DataFrame:
    """One row per column of X: true weight, published and reproduced mean and standard deviation, least squares."""
    weights = np.array([row for record in records for row in record["weights"]])
    X, y = training_rows(settings)
    least_squares = np.linalg.lstsq(X, y, rcond=None)[0]
    return pd.DataFrame(
        {
            "feature": [f"w{j + 1}" for j in range(weights.shape[1])],
            "truth": paper["table1"]["truth"],
            "paper_mean": paper["table1"]["mean"],
            "paper_std": paper["table1"]["std"],
            "mean": weights.mean(axis=0),
            "std": weights.std(axis=0, ddof=1),
            "least_squares": least_squares / np.abs(least_squares).sum(),
        }
    )
