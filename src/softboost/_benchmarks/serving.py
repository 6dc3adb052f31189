"""Serving: throughput of several threads that share a model, and latency of a single row.

Run it with ``softboost benchmark serving`` or ``python -m softboost._benchmarks.serving``. Each request is predicted in
one thread (``n_jobs=None``). ``x8`` is the throughput of eight threads relative to one, which is limited by the number
of processors. ``cost8`` is the processor time per row relative to one thread. The latency of a row is measured in
Python, from an array and from a data frame, in the kernel alone, which releases the global interpreter lock, and, if
the extra ``onnx`` is installed, in ONNX Runtime with one thread.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost import SoftBoostRegressor
from softboost._file.onnx import onnx_model

THREADS = (1, 2, 4, 8)
REQUESTS = (1, 100, 10_000)  # rows per request
N_COLUMNS = 50


def models(as_frame: bool = False) -> dict[str, SoftBoostRegressor]:
    """The default model and a model with many trees, fitted on an array or a data frame."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, N_COLUMNS))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) * X[:, 2] + 0.1 * rng.normal(size=200)
    many = SoftBoostRegressor(200, 0.1, 3, leaves="linear", feature_transform=None, init="constant")
    rows = one_frame(X) if as_frame else X
    return {"default": SoftBoostRegressor().fit(rows, y), "200 trees of depth 3": many.fit(rows, y)}


def one_frame(X: Any) -> pd.DataFrame:
    """The rows as a data frame with column names."""
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(N_COLUMNS)])


def throughput(model: SoftBoostRegressor, n_rows: int, n_threads: int, seconds: float) -> tuple[float, float]:
    """Rows per second of ``n_threads`` threads together, with requests of ``n_rows``, and processor time per row."""
    rows = np.random.default_rng(1).normal(size=(n_rows, N_COLUMNS))
    model.predict(rows)
    counts, start, stop = [0] * n_threads, threading.Barrier(n_threads + 1), threading.Event()

    def work(i: int) -> None:
        start.wait()
        while not stop.is_set():
            model.predict(rows)
            counts[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    start.wait()
    begin, processor = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    n_done = max(sum(counts), 1) * n_rows
    return n_done / (time.perf_counter() - begin), (time.process_time() - processor) / n_done


def latency(work: Callable[[], Any], seconds: float) -> float:
    """Median duration of a call in microseconds."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    work()
    while time.perf_counter() < until or len(times) < 5:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return float(np.median(times) * 1e6)


def in_onnx_runtime(model: SoftBoostRegressor) -> Callable[[Any], Any] | None:
    """The model in ONNX Runtime with one thread; None if it is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        onnx_model(model._fitted).SerializeToString(), options, ["CPUExecutionProvider"]
    )
    return lambda rows: session.run(None, {"X": rows})


def run(out: Path, seconds: float) -> str:
    """Measure, write ``threads.csv`` and ``one_row.csv``, and return both as text."""
    fitted, on_frames = models(), models(as_frame=True)
    threads, one_row = [], []
    for name, model in fitted.items():
        for n_rows in REQUESTS:
            measured = {n: throughput(model, n_rows, n, seconds) for n in THREADS}
            alone, cost = measured[1]
            ratios = {f"x{n}": round(measured[n][0] / alone, 2) for n in THREADS[1:]}
            ratios["cost8"] = round(measured[8][1] / cost, 2)
            threads.append({"model": name, "rows": n_rows, "rows_a_second": round(alone), **ratios})
        double = np.random.default_rng(2).normal(size=(1, N_COLUMNS))
        single = double.astype(np.float32)
        session = in_onnx_runtime(model)
        in_onnx = None if session is None else round(latency(partial(session, single), seconds), 1)
        in_python = round(latency(partial(model.predict, double), seconds), 1)
        framed = round(latency(partial(on_frames[name].predict, one_frame(double)), seconds), 1)
        kernel = model._fitted.ensemble._kernel(double.dtype)  # the part of the call that releases the lock
        in_kernel = round(latency(partial(kernel.predict, double, 1), seconds), 1)
        timed = {"array_us": in_python, "frame_us": framed, "kernel_us": in_kernel, "onnx_us": in_onnx}
        one_row.append({"model": name, **timed})
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "threads.csv", threads)
    _write(out / "one_row.csv", one_row)
    return f"{_markdown(threads)}\n\n{_markdown(one_row)}\n\n{os.cpu_count()} processors"


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *[["" if v is None else f"{v}" for v in r.values()] for r in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument("--out", type=Path, default=Path(".serving"), help="folder of the tables (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth of a second per measurement")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    if not args.seconds > 0:
        print(f"error: --seconds must be above 0, got {args.seconds}", file=sys.stderr)
        return 2
    print(run(args.out, 0.1 if args.quick else args.seconds))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost benchmark serving", description=__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
