"""Processor time of local regressions: many small fits and forecasts, one for each series of a panel.

The time outside of the kernels is reported separately: it is what Python costs for each series.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import pandas as pd

from softboost import SoftBoostRegressor, _kernels
from softboost.forecast import Forecaster
from softboost.forecast._forecaster import FEW_ROUNDS

__all__ = ["kernel_time", "measure_local"]

N_MONTHS = 60
LEAST_MONTHS = 24  # of the panel with different lengths
STEPS = 12
MOST_PYTHON = 0.5e-3  # seconds for each series


def measure_local(quick: bool) -> list[dict[str, Any]]:
    """One local regression of the default forecaster, per series of a panel of monthly series."""
    n_series, repeats = (4, 1) if quick else (240, 5)
    whole = _panel(n_series)
    length = np.random.default_rng(1).integers(LEAST_MONTHS, N_MONTHS + 1, n_series)
    known = whole.groupby("unique_id").cumcount().to_numpy() < length[whole["unique_id"]]
    panels = {f"{N_MONTHS} months": whole, f"{LEAST_MONTHS} to {N_MONTHS} months": whole[known]}
    records = []
    for what, frame in panels.items():
        model = Forecaster("MS", STEPS, model=SoftBoostRegressor(**FEW_ROUNDS), scope="local", target_transforms=None)
        model.fit(frame).predict()
        work: dict[str, Callable[[], Any]] = {
            "fit": partial(model.fit, frame),
            f"forecast of {STEPS} steps": model.predict,
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
        for _ in range(repeats):
            for name, function in work.items():
                with kernel_time() as inside:
                    start = time.process_time()
                    function()
                    total = time.process_time() - start
                found[name].append((total / n_series, (total - inside["seconds"]) / n_series))
        for name, seconds in found.items():
            total, python = (statistics.median(column) for column in zip(*seconds, strict=True))
            measure = f"local regression of {what}, {name}, seconds"
            records += [
                {"measure": measure, "seconds": total, "ratio": total, "target": None},
                {"measure": f"{measure} of Python", "seconds": python, "ratio": python, "target": MOST_PYTHON},
            ]
    return records


@contextmanager
def kernel_time() -> Iterator[dict[str, float]]:
    """Processor time spent in kernels while the context is open, as ``seconds``."""
    spent = {"seconds": 0.0}
    functions = {name: getattr(_kernels, name) for name in _kernels.__all__}
    functions = {name: function for name, function in functions.items() if callable(function)}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent["seconds"] += time.process_time() - start

        return call

    try:
        for name, function in functions.items():
            if not isinstance(function, type):
                setattr(_kernels, name, timed(function))
        yield spent
    finally:
        for name, function in functions.items():
            setattr(_kernels, name, function)


def _panel(n_series: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    months = pd.date_range("2020-01-01", periods=N_MONTHS, freq="MS")
    season = 3 * np.sin(2 * np.pi * np.arange(N_MONTHS) / 12)
    y = 10 + season + rng.standard_normal((n_series, N_MONTHS)).cumsum(axis=1)
    ids = np.repeat(np.arange(n_series), N_MONTHS)
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(months, n_series), "y": y.ravel()})
