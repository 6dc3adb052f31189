"""Many series: the cost of one model per series, and its growth with the number of series.

The series are short random walks, each with a small model of fixed structure, fitted on local dask workers and forecast
in this process. Run it with ``softboost benchmark many_series``. Needs dask and fugue (the extra ``distributed``).
"""

import argparse
import csv
import importlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from softboost import SoftBoostRegressor
from softboost.forecast import Differences, Forecaster

SIZES = [1_000, 10_000, 100_000]
QUICK_SIZES = [100, 200]
ROWS, HORIZON = 40, 4


def make_series(n_series: int, n_rows: int = ROWS) -> pd.DataFrame:
    """Random walks as a data frame in long format."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(n_series), n_rows),
            "ds": np.tile(np.arange(n_rows), n_series),
            "y": (10 + rng.normal(size=(n_series, n_rows)).cumsum(axis=1)).ravel(),
        }
    )


def make_forecaster(engine: Any = None) -> Forecaster:
    """A forecaster without selection: five trees of depth one on six lags of the differences."""
    model = SoftBoostRegressor(
        n_estimators=5,
        learning_rate=0.3,
        depth=1,
        leaves="linear",
        gates="greedy",
        init="constant",
        ridge=1.0,
        feature_transform=None,
    )
    return Forecaster(
        freq=1,
        h=HORIZON,
        model=model,
        lags=[1, 2, 3, 4, 8, 12],
        target_transforms=[Differences([1])],
        strategy="direct",
        scope="local",
        engine=engine,
    )


def measure(client: Any, n_series: int) -> dict[str, Any]:
    """Seconds of fitting and forecasting, processor time of the workers, and peak memory of this process."""
    df = make_series(n_series)
    before = sum(client.run(time.process_time).values())
    start = time.perf_counter()
    forecaster = make_forecaster(client).fit(df)
    fitted = time.perf_counter()
    cpu = sum(client.run(time.process_time).values()) - before
    forecasts = forecaster.predict()
    done = time.perf_counter()
    if len(forecasts) != n_series * HORIZON or forecasts.isna().any().any():
        raise RuntimeError(f"{len(forecasts)} forecasts of {n_series} series, or some are missing")
    return {
        "series": n_series,
        "fit_s": fitted - start,
        "worker_cpu_s": cpu,
        "worker_cpu_ms_per_series": 1000 * cpu / n_series,
        "predict_s": done - fitted,
        "memory_gb": _largest_memory(),
    }


def _largest_memory() -> float:
    """Peak memory in gigabytes; NaN if the system does not report it."""
    if importlib.util.find_spec("resource") is None:
        return float("nan")
    resource = importlib.import_module("resource")
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1000 if sys.platform == "darwin" else 1)
    return float(kilobytes) / 1e6


def run(out: Path, sizes: Sequence[int], n_workers: int) -> str:
    """Measure each size, write ``many_series.csv`` and return the table in Markdown."""
    for name in ("distributed", "fugue"):
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"{name} is not installed; pip install 'softboost[distributed]'")
    distributed = importlib.import_module("distributed")
    records = []
    with distributed.Client(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as client:
        measure(client, 64)  # let the workers import their modules
        for n_series in tqdm(sorted(sizes), unit="size", file=sys.stderr):
            records.append(measure(client, n_series))
    out.mkdir(parents=True, exist_ok=True)
    with (out / "many_series.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    cells = [[f"{v:.3g}" if isinstance(v, float) else f"{v:,}" for v in record.values()] for record in records]
    lines = [list(records[0]), ["---"] * len(records[0]), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument("--out", type=Path, default=Path(".many_series"), help="folder of the table (%(default)s)")
    parser.add_argument("--series", type=int, nargs="+", default=SIZES, help="numbers of series (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="dask workers of one thread each (%(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_SIZES} series")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    try:
        if min([*args.series, args.workers]) < 1:
            raise ValueError("--series and --workers must be 1 or more")
        print(run(args.out, QUICK_SIZES if args.quick else args.series, args.workers))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
