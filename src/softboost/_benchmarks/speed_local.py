"""Processor time of local regressions: many small fits and forecasts, one for each series of a panel."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pandas as pd

from softboost import SoftBoostRegressor
from softboost.forecast import Forecaster
from softboost.forecast._forecaster import FEW_ROUNDS

__all__ = ["measure_local"]

N_MONTHS = 60
STEPS = 12


def measure_local(quick: bool) -> list[dict[str, Any]]:
    """One local regression of the default forecaster, per series of a panel of monthly series."""
    n_series, repeats = (4, 1) if quick else (60, 3)
    frame = _panel(n_series)
    model = Forecaster("MS", STEPS, model=SoftBoostRegressor(**FEW_ROUNDS), scope="local", target_transforms=None)
    model.fit(frame).predict()
    fits, forecasts = [], []
    for _ in range(repeats):
        start = time.process_time()
        model.fit(frame)
        fits.append((time.process_time() - start) / n_series)
        start = time.process_time()
        model.predict()
        forecasts.append((time.process_time() - start) / n_series)
    found = {"fit": statistics.median(fits), f"forecast of {STEPS} steps": statistics.median(forecasts)}
    return [
        {"measure": f"local regression of {N_MONTHS} months, {what}, seconds", "seconds": s, "ratio": s, "target": None}
        for what, s in found.items()
    ]


def _panel(n_series: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    months = pd.date_range("2020-01-01", periods=N_MONTHS, freq="MS")
    season = 3 * np.sin(2 * np.pi * np.arange(N_MONTHS) / 12)
    y = 10 + season + rng.standard_normal((n_series, N_MONTHS)).cumsum(axis=1)
    ids = np.repeat(np.arange(n_series), N_MONTHS)
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(months, n_series), "y": y.ravel()})
