"""Many series: cost of the default forecaster on local dask workers, and its growth with the number of series.

The series have the lengths of M4 (16 to 900 values, mean about 120), trends, seasons and random walks. Workers make
them and keep the forecasts, so that the calling process holds neither. Run it with ``softboost benchmark many_series``.
Needs dask (the extra ``distributed``). Sizes that are in the table already are not measured again.
"""

import argparse
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

from softboost.forecast import Forecaster

SIZES = [1_000, 10_000, 100_000]
QUICK_SIZES = [20, 40]
HORIZON, SEASON, LEVELS = 18, 12, [95]
SERIES_PER_PART = 500


def make_series(first: int, n_series: int) -> pd.DataFrame:
    """Series number ``first`` and the following ones as a data frame in long format."""
    rng = np.random.default_rng(first)
    sizes = np.clip(np.exp(rng.normal(4.6, 0.7, n_series)), 16, 900).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    time_ = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    walk = np.cumsum(rng.normal(size=len(time_)) * np.repeat(np.exp(rng.normal(-3.5, 0.6, n_series)), sizes))
    phase = 2 * np.pi * (time_ + np.repeat(rng.integers(0, SEASON, n_series), sizes)) / SEASON
    z = (
        np.repeat(rng.normal(8, 1, n_series), sizes)
        + walk
        - np.repeat(walk[starts], sizes)
        + np.repeat(rng.normal(0, 0.004, n_series), sizes) * time_
        + np.repeat(rng.exponential(0.08, n_series), sizes) * np.sin(phase)
    )
    names = np.array([f"M{first + i}" for i in range(n_series)], dtype=object)
    return pd.DataFrame({"unique_id": np.repeat(names, sizes), "ds": time_, "y": np.exp(z)})


def make_forecaster(engine: Any = None) -> Forecaster:
    """The default forecaster of monthly data."""
    return Forecaster(freq=1, h=HORIZON, season_length=SEASON, engine=engine)


def make_frame(n_series: int) -> Any:
    """A dask frame of the series, made by the workers."""
    dataframe = importlib.import_module("dask.dataframe")
    firsts = list(range(0, n_series, SERIES_PER_PART))
    counts = [min(SERIES_PER_PART, n_series - first) for first in firsts]
    return dataframe.from_map(make_series, firsts, counts, meta=make_series(0, 1))


def measure(client: Any, n_series: int) -> dict[str, Any]:
    """Wall and processor times of ``forecast`` with all its results, and peak memory of this process."""
    before = sum(client.run(time.process_time).values()), time.process_time()
    start = time.perf_counter()
    forecasts = make_forecaster(client).forecast(make_frame(n_series), level=LEVELS)
    learned = time.perf_counter()
    kept = forecasts.persist()
    n_rows, n_missing = int(kept.shape[0].compute()), int(kept.isna().sum().sum().compute())
    done = time.perf_counter()
    workers = sum(client.run(time.process_time).values()) - before[0]
    caller = time.process_time() - before[1]
    if n_rows != n_series * HORIZON or n_missing:
        raise RuntimeError(f"{n_rows} forecasts of {n_series} series, {n_missing} of them missing")
    return {
        "series": n_series,
        "learn_s": learned - start,
        "total_s": done - start,
        "worker_cpu_s": workers,
        "caller_cpu_s": caller,
        "cpu_ms_per_series": 1000 * (workers + caller) / n_series,
        "caller_memory_gb": _largest_memory(),
    }


def _largest_memory() -> float:
    """Peak memory in gigabytes; NaN if the system does not report it."""
    if importlib.util.find_spec("resource") is None:
        return float("nan")
    resource = importlib.import_module("resource")
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1000 if sys.platform == "darwin" else 1)
    return float(kilobytes) / 1e6


def run(out: Path, sizes: Sequence[int], n_workers: int) -> str:
    """Measure each size, write ``many_series.csv`` and ``many_series.png``, and return the table in Markdown."""
    if importlib.util.find_spec("distributed") is None:
        raise ValueError("distributed is not installed; pip install 'softboost[distributed]'")
    distributed = importlib.import_module("distributed")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "many_series.csv"
    records: list[Any] = pd.read_csv(path).to_dict("records") if path.exists() else []
    missing = sorted(set(sizes) - {record["series"] for record in records})
    if missing:
        with distributed.Client(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as client:
            measure(client, 8)  # let the workers import their modules
            for n_series in tqdm(missing, unit="size", file=sys.stderr):
                records.append(measure(client, n_series))
                pd.DataFrame(records).sort_values("series").to_csv(path, index=False)
    table = pd.read_csv(path)
    _plot(table, out / "many_series.png")
    cells = [[f"{v:,}" if isinstance(v, int) else f"{v:.3g}" for v in row] for row in table.astype(object).to_numpy()]
    lines = [list(table.columns), ["---"] * len(table.columns), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plot(table: pd.DataFrame, path: Path) -> None:
    """Cost of a series over the number of series; nothing without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(table["series"], table["cpu_ms_per_series"], "o-")
    left.set_ylabel("CPU time per series [ms]")
    right.plot(table["series"], table["caller_memory_gb"], "o-", color="tab:orange")
    right.set_ylabel("memory of the caller [GB]")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xlabel("series")
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


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
