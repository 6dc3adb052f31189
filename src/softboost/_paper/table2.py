"""Table II: test error of every model on every data set, with two protocols."""

import functools
import importlib.util
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.datasets import DataUnavailableError

from .models import OWN, PACKAGES, chosen_params, make_model
from .protocols import Split, make_split, n_splits
from .results import Record, Unit, model_version, package_version
from .settings import Settings

# Fast models first, so that an interrupted run has most of the table.
ORDER = ("naive", "ridge", "lasso", "softboost", "bsdt_q", "xgboost", "lightgbm", "bsdt", "catboost")


def available(settings: Settings, data_dir: Path | None) -> tuple[Settings, list[str]]:
    """The settings without unavailable data sets and models, and a remark on each of these."""
    remarks, found, models = [], {}, {}
    for name, dataset in settings["datasets"].items():
        try:
            n_splits("script", dataset, data_dir)
            found[name] = dataset
        except DataUnavailableError as error:
            remarks.append(f"{name} is left out: {error}")
    for name, model in settings["models"].items():
        package = PACKAGES.get(name)
        if package is None or importlib.util.find_spec(package) is not None:
            models[name] = model
        else:
            remarks.append(f"{model['label']} is left out: {package} is not installed (pip install 'softboost[paper]')")
    return {**settings, "datasets": found, "models": models}, remarks


def units(settings: Settings, data_dir: Path | None, protocol: str, only: str | None = None) -> list[Unit]:
    """All fits of one protocol, for all data sets or ``only`` one."""
    made = []
    for dataset_name, dataset in settings["datasets"].items():
        if only is not None and dataset_name != only:
            continue
        seeds = [dataset["script"]["seed"]] if protocol == "script" else settings["clean_seeds"]
        for seed in seeds:
            for index in range(n_splits(protocol, dataset, data_dir)):
                for model in settings["models"]:
                    name = {"protocol": protocol, "dataset": dataset_name, "seed": seed, "split": index, "model": model}
                    made.append(Unit("table2", name, _unit_settings(settings, dataset, model), run, data_dir))
    return made


def by_cost(unit: Unit) -> int:
    """Sort key of units, fast ones first."""
    model = unit.name.get("model")
    return ORDER.index(model) if model in ORDER else -1


def _unit_settings(settings: Settings, dataset: Settings, model: str) -> Settings:
    package = PACKAGES.get(model, "scikit-learn")
    return {
        "dataset": dataset,
        "model": settings["models"][model],
        "n_folds": settings["n_folds"],
        "version": model_version() if model in OWN else package_version(package),
    }


@functools.lru_cache(maxsize=64)
def _cached_split(protocol: str, dataset: str, seed: int, index: int, data_dir: Path | None) -> Split:
    return make_split(protocol, json.loads(dataset), seed, index, data_dir)


def run(name: dict[str, Any], settings: Settings, data_dir: Path | None) -> Record:
    """Tune and fit one model on one split and score it on the test rows."""
    dataset = json.dumps(settings["dataset"], sort_keys=True)
    split = _cached_split(name["protocol"], dataset, name["seed"], name["split"], data_dir)
    model = make_model(name["model"], settings["model"], name["seed"], split, settings["n_folds"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other libraries warn about column names and convergence
        start = time.perf_counter()
        model.fit(split.X_train, split.y_train)
        seconds = time.perf_counter() - start
        prediction = np.asarray(model.predict(split.X_test), dtype=np.float64).ravel()
    return {
        "series": split.name,
        "n_train": len(split.y_train),
        "n_features": split.X_train.shape[1],
        "mse": float(np.mean((split.y_test - prediction) ** 2)),
        "mse_by_step": split.mse_by_step(prediction),
        "seconds": round(seconds, 4),
        "chosen": chosen_params(model),
    }


def table(records: list[Record], settings: Settings, paper: Settings) -> pd.DataFrame:
    """One row per data set and model: mean squared error, published error, and seconds to tune and fit one model."""
    rows = []
    for dataset in settings["datasets"]:
        for model in settings["models"]:
            found = [r for r in records if r["dataset"] == dataset and r["model"] == model]
            rows.append(
                {
                    "dataset": dataset,
                    "model": model,
                    "mse": float(np.mean([r["mse"] for r in found])),
                    "paper_mse": paper["table2"].get(dataset, {}).get(model, float("nan")),
                    "seconds": float(np.mean([r["seconds"] for r in found])),
                }
            )
    return pd.DataFrame(rows)


def clean_table(records: list[Record], settings: Settings) -> pd.DataFrame:
    """One row per data set and model: mean over series, then mean and standard deviation over seeds.

    ``to_naive`` is the median over all fits of the ratio to the error of the naive forecast. Unlike a mean, it does not
    depend on a single series.
    """
    naive = {_place(r): r["mse"] for r in records if r["model"] == "naive"}
    rows = []
    for dataset in settings["datasets"]:
        for model in settings["models"]:
            found = [r for r in records if r["dataset"] == dataset and r["model"] == model]
            by_seed = [np.mean([r["mse"] for r in found if r["seed"] == seed]) for seed in settings["clean_seeds"]]
            rows.append(
                {
                    "dataset": dataset,
                    "model": model,
                    "mse": float(np.mean(by_seed)),
                    "std": float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else float("nan"),
                    "to_naive": float(np.median([r["mse"] / naive[_place(r)] for r in found])),
                    "n_seeds": len(by_seed),
                    "n_models": len(found),
                    "seconds": float(np.mean([r["seconds"] for r in found])),
                }
            )
    return pd.DataFrame(rows)


def _place(record: Record) -> tuple[str, int, int]:
    return record["dataset"], record["seed"], record["split"]


def published_units(settings: Settings, data_dir: Path | None) -> list[Unit]:
    """LightGBM with the settings of the released scripts, to check that the rows are those of the paper."""
    if "lightgbm" not in settings["models"]:
        return []
    made = []
    for dataset_name, dataset in settings["datasets"].items():
        for index in range(n_splits("script", dataset, data_dir)):
            seed = dataset["script"]["seed"]
            name = {"dataset": dataset_name, "seed": seed, "split": index, "protocol": "script", "model": "published"}
            fixed = {"dataset": dataset, "version": package_version("lightgbm")}
            made.append(Unit("published", name, fixed, run_published, data_dir))
    return made


def run_published(name: dict[str, Any], settings: Settings, data_dir: Path | None) -> Record:
    """Test error of LightGBM with the settings of the released script."""
    from lightgbm import LGBMRegressor

    dataset = settings["dataset"]
    split = _cached_split("script", json.dumps(dataset, sort_keys=True), name["seed"], name["split"], data_dir)
    model = LGBMRegressor(**dataset["published_lightgbm"], n_jobs=1, verbosity=-1).fit(split.X_train, split.y_train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prediction = np.asarray(model.predict(split.X_test), dtype=np.float64)
    return {"mse": float(np.mean((split.y_test - prediction) ** 2))}


def published_table(records: list[Record], settings: Settings, paper: Settings) -> pd.DataFrame:
    """One row per data set: published error of LightGBM, and its error with the same settings on our rows."""
    rows = []
    for dataset in settings["datasets"]:
        found = [r["mse"] for r in records if r["dataset"] == dataset]
        theirs = paper["table2"].get(dataset, {}).get("lightgbm", float("nan"))
        rows.append({"dataset": dataset, "paper_mse": theirs, "mse": float(np.mean(found)) if found else float("nan")})
    return pd.DataFrame(rows)
