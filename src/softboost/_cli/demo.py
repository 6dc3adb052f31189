"""The demonstration ``softboost demo``: compares models on two small data sets and writes an HTML report.

The first data set is synthetic (eq. (1) of the paper): 50 columns, 5 of them relevant, 100 training rows and 96 test
rows. The second is real: the yearly number of sunspots from 1700 to 2008, with the last 100 years as test rows.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost._benchmarks.peers import PEERS
from softboost._benchmarks.task import Task
from softboost._regressor import SoftBoostRegressor
from softboost.datasets import make_synthetic
from softboost.forecast import Forecaster
from softboost.inspection import describe_features, importances
from softboost.report import Page, bar_chart, heat_map, line_chart
from softboost.transforms import Linear

__all__ = ["SUNSPOTS", "run", "sunspot_task", "synthetic_task"]

Array = NDArray[Any]
# Mean number of sunspots of each year from 1700 on, as published by NOAA's National Geophysical Data Center from the
# records of the Solar Influences Data Center, Royal Observatory of Belgium; in the public domain.
SUNSPOTS = (
    5, 11, 16, 23, 36, 58, 29, 20, 10, 8, 3, 0, 0, 2, 11, 27, 47, 63, 60, 39, 28, 26, 22, 11, 21, 40, 78, 122, 103, 73,
    47, 35, 11, 5, 16, 34, 70, 81, 111, 101, 73, 40, 20, 16, 5, 11, 22, 40, 60, 80.9, 83.4, 47.7, 47.8, 30.7, 12.2, 9.6,
    10.2, 32.4, 47.6, 54, 62.9, 85.9, 61.2, 45.1, 36.4, 20.9, 11.4, 37.8, 69.8, 106.1, 100.8, 81.6, 66.5, 34.8, 30.6, 7,
    19.8, 92.5, 154.4, 125.9, 84.8, 68.1, 38.5, 22.8, 10.2, 24.1, 82.9, 132, 130.9, 118.1, 89.9, 66.6, 60, 46.9, 41,
    21.3, 16, 6.4, 4.1, 6.8, 14.5, 34, 45, 43.1, 47.5, 42.2, 28.1, 10.1, 8.1, 2.5, 0, 1.4, 5, 12.2, 13.9, 35.4, 45.8,
    41.1, 30.1, 23.9, 15.6, 6.6, 4, 1.8, 8.5, 16.6, 36.3, 49.6, 64.2, 67, 70.9, 47.8, 27.5, 8.5, 13.2, 56.9, 121.5,
    138.3, 103.2, 85.7, 64.6, 36.7, 24.2, 10.7, 15, 40.1, 61.5, 98.5, 124.7, 96.3, 66.6, 64.5, 54.1, 39, 20.6, 6.7, 4.3,
    22.7, 54.8, 93.8, 95.8, 77.2, 59.1, 44, 47, 30.5, 16.3, 7.3, 37.6, 74, 139, 111.2, 101.6, 66.2, 44.7, 17, 11.3,
    12.4, 3.4, 6, 32.3, 54.3, 59.7, 63.7, 63.5, 52.2, 25.4, 13.1, 6.8, 6.3, 7.1, 35.6, 73, 85.1, 78, 64, 41.8, 26.2,
    26.7, 12.1, 9.5, 2.7, 5, 24.4, 42, 63.5, 53.8, 62, 48.5, 43.9, 18.6, 5.7, 3.6, 1.4, 9.6, 47.4, 57.1, 103.9, 80.6,
    63.6, 37.6, 26.1, 14.2, 5.8, 16.7, 44.3, 63.9, 69, 77.8, 64.9, 35.7, 21.2, 11.1, 5.7, 8.7, 36.1, 79.7, 114.4, 109.6,
    88.8, 67.8, 47.5, 30.6, 16.3, 9.6, 33.2, 92.6, 151.6, 136.3, 134.7, 83.9, 69.4, 31.5, 13.9, 4.4, 38, 141.7, 190.2,
    184.8, 159, 112.3, 53.9, 37.6, 27.9, 10.2, 15.1, 47, 93.8, 105.9, 105.5, 104.5, 66.6, 68.9, 38, 34.5, 15.5, 12.6,
    27.5, 92.5, 155.4, 154.6, 140.4, 115.9, 66.6, 45.9, 17.9, 13.4, 29.4, 100.2, 157.6, 142.6, 145.7, 94.3, 54.6, 29.9,
    17.5, 8.6, 21.5, 64.3, 93.3, 119.6, 111, 104, 63.7, 40.4, 29.8, 15.2, 7.5, 2.9,
)  # fmt: skip
FIRST_YEAR = 1700
LEVELS = (80, 95)
MODELS = {  # name shown: name in the registry of the benchmarks
    "softboost": "softboost",
    "naive": "naive",
    "lasso": "lasso",
    "LightGBM": "lightgbm",
    "LightGBM small": "lightgbm_small",
}


@dataclass
class Data:
    """One data set of the demonstration, split into training and test rows."""

    title: str
    about: str
    task: Task
    names: list[str]
    x_label: str
    x: Array  # of the test rows
    naive: Array  # last value before each test row


@dataclass
class Result:
    """Results of all models on one data set."""

    data: Data
    predictions: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    model: SoftBoostRegressor | None = None
    half_widths: dict[int, float] = field(default_factory=dict)

    def errors(self, name: str) -> Array:
        """Squared errors on the test rows."""
        return (self.predictions[name] - self.data.task.y_test) ** 2

    def mse(self, name: str) -> float:
        """Mean squared error on the test rows."""
        return float(self.errors(name).mean())

    def coverage(self, level: int) -> float:
        """Share of test rows inside the interval."""
        inside = np.abs(self.predictions["softboost"] - self.data.task.y_test) <= self.half_widths[level]
        return float(inside.mean())


def synthetic_task(seed: int = 0) -> Data:
    """Eq. (1) of the paper: y = w_1 x_1 + ... + w_5 x_5 + noise with deviation 0.1, and 45 irrelevant columns."""
    frame = make_synthetic(n_series=1, random_state=seed)
    names = [str(name) for name in frame.columns[3:]]
    X, y = frame[names].to_numpy(), frame["y"].to_numpy()
    about = "100 training rows, 96 test rows, 50 columns (5 of them relevant), noise of variance 0.01."
    task = Task(X[:100], y[:100], X[100:], y[100:])
    return Data("The paper's synthetic series", about, task, names, "step", np.arange(1, 97), y[99:-1])


def lag_features(y: Array, n_lags: int = 24, windows: tuple[int, ...] = (3, 6, 11, 22)) -> tuple[Array, list[str]]:
    """Lags and rolling means and standard deviations for one-step forecasts; rows start at index ``n_lags``."""
    rows = []
    for t in range(n_lags, len(y)):
        rolling = [f(y[t - w : t]) for w in windows for f in (np.mean, np.std)]
        rows.append([*y[t - n_lags : t][::-1], *rolling])
    names = [f"lag {k + 1}" for k in range(n_lags)]
    return np.array(rows), names + [f"{kind} of {w}" for w in windows for kind in ("mean", "spread")]


def sunspot_task(n_test: int = 100) -> Data:
    """Yearly sunspots, one year ahead, from 24 lags and 8 rolling statistics."""
    y = np.array(SUNSPOTS)
    X, names = lag_features(y)
    target = y[len(y) - len(X) :]
    split = len(X) - n_test
    about = f"{split} training years, the last {n_test} years as test rows, {len(names)} columns of past values."
    years = FIRST_YEAR + np.arange(len(y) - n_test, len(y))
    task = Task(X[:split], target[:split], X[split:], target[split:], naive_column=0)
    return Data("Sunspots, one year ahead", about, task, names, "year", years, X[split:, 0])


def fit_all(data: Data, progress: Callable[[str], None]) -> Result:
    """Fit every model that is installed and predict the test rows."""
    result, task = Result(data), data.task
    for name, key in MODELS.items():
        peer = PEERS[key]
        if not peer.available():
            continue
        progress(f"{data.title}: {name}")
        start = time.perf_counter()
        if name == "naive":
            prediction = data.naive
        else:
            model = peer.make(0, task).fit(task.X_train, task.y_train)
            prediction = model.predict(task.X_test)
            if name == "softboost":
                result.model = model
        result.seconds[name] = time.perf_counter() - start
        result.predictions[name] = np.asarray(prediction, dtype=float)
    progress(f"{data.title}: intervals")
    result.half_widths = conformal_half_widths(task)
    return result


def conformal_half_widths(task: Task, share: float = 0.4) -> dict[int, float]:
    """Split-conformal half widths: quantiles of the errors on the last rows, of a model fitted on the rows before."""
    n = len(task.y_train)
    split = n - int(share * n)
    model = SoftBoostRegressor().fit(task.X_train[:split], task.y_train[:split])
    errors = np.sort(np.abs(task.y_train[split:] - model.predict(task.X_train[split:])))
    rank = {level: int(np.ceil((len(errors) + 1) * level / 100)) for level in LEVELS}
    return {level: float(errors[min(k, len(errors)) - 1]) for level, k in rank.items()}


def learn_transform(data: Data, progress: Callable[[str], None]) -> SoftBoostRegressor:
    """Fit a model with one learned direction (the paper's Q), which every boosting round updates."""
    progress(f"{data.title}: learned features")
    transform = Linear(n_components=1, init="supervised", group_lasso=0.2)
    model = SoftBoostRegressor(
        8, 0.5, 1, feature_transform=transform, leaves="linear", gates="greedy", init="constant", ridge=1.0
    )
    return model.fit(data.task.X_train, data.task.y_train)


def outlook(progress: Callable[[str], None], n_years: int = 11) -> pd.DataFrame:
    """Forecast of the sunspots for one cycle after the last known year, with intervals."""
    progress("Sunspots: the next years")
    years = FIRST_YEAR + np.arange(len(SUNSPOTS))
    series = pd.DataFrame({"unique_id": "sunspots", "ds": years, "y": np.array(SUNSPOTS, dtype=float)})
    forecaster = Forecaster(freq=1, h=n_years, season_length=n_years).fit(series)
    forecast: pd.DataFrame = forecaster.predict(level=list(LEVELS))
    return forecast


def n_steps() -> int:
    """Number of progress steps that :func:`run` reports."""
    installed = sum(PEERS[key].available() for key in MODELS.values())
    return 2 * (installed + 1) + 3


def run(out: str | Path, progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Fit and compare the models, write the report, and return the results as plain numbers and strings.

    Parameters
    ----------
    out : path
        The report to write.
    progress : callable, default: nothing
        Called before every step with its description.

    Returns
    -------
    summary : dict
        ``tables`` (a list of rows per data set), ``report`` (the path), ``missing`` (models that are not installed).
    """
    Path(out).parent.mkdir(parents=True, exist_ok=True)  # fail before the work rather than after it
    synthetic, sunspots = synthetic_task(), sunspot_task()
    results = [fit_all(synthetic, progress), fit_all(sunspots, progress)]
    with_transform = learn_transform(synthetic, progress)
    ahead = outlook(progress)
    progress("writing the page")
    path = write_page(results, with_transform, ahead, out)
    return {
        "tables": {result.data.title: table(result) for result in results},
        "about": {result.data.title: result.data.about for result in results},
        "chose": {result.data.title: _choice(result) for result in results},
        "missing": [name for name, key in MODELS.items() if not PEERS[key].available()],
        "report": str(path),
    }


def table(result: Result) -> list[dict[str, Any]]:
    """One row per model, best first."""
    names = sorted(result.predictions, key=result.mse)
    best = result.mse(names[0])
    return [
        {"model": n, "mse": result.mse(n), "relative": result.mse(n) / best, "seconds": round(result.seconds[n], 3)}
        for n in names
    ]


def _choice(result: Result) -> str:
    assert result.model is not None
    return str(result.model.choice_.describe()) if result.model.choice_ is not None else ""


def _meaning(result: Result) -> str:
    """Explanation of the names in the choice."""
    assert result.model is not None
    explained = result.model.choice_.explain().splitlines() if result.model.choice_ is not None else []
    return f"That is: {'; '.join(explained)}. A stage is a number of boosting rounds or the index of a penalty."


def write_page(results: list[Result], with_transform: SoftBoostRegressor, ahead: pd.DataFrame, out: str | Path) -> Path:
    """Write the report of the demonstration."""
    page = Page("softboost at work", "Gradient boosting that learns its own features, without tuning.")
    for result in results:
        _section(page, result)
    page.figure(_outlook_chart(ahead), "Forecast of the eleven years after the last known one, with intervals.")
    data = results[0].data
    page.heading("Learned features")
    page.text(
        "The transform z = Q x is learned together with the trees. Here Q has one row, which starts at the columns "
        "that correlate with the target. Every boosting round updates it by gradient steps. "
        + describe_features(with_transform, data.names, share=0.8)
    )
    Q = np.vstack([theta.reshape(-1) for theta in with_transform.transforms_])
    page.figure(
        heat_map(Q, [f"round {k + 1}" for k in range(len(Q))], data.names),
        "Q by round: orange weights are positive, blue ones negative, and white columns have no weight.",
    )
    top = _top(with_transform, data.names, 8)
    page.figure(
        bar_chart(top, highlight=[n for n in top if n.startswith("relevant")]),
        "Importances of this model; over all 50 columns they sum to one.",
    )
    missing = "" if importlib.util.find_spec("lightgbm") else " LightGBM is not installed and was skipped."
    return page.write(out, f"Written by softboost demo.{missing}")


def _outlook_chart(ahead: pd.DataFrame, n_past: int = 44) -> str:
    """The known years and the forecast, whose line starts at the last known value."""
    past, name = np.array(SUNSPOTS[-n_past:]), "SoftBoostRegressor"
    gap = np.full(n_past - 1, np.nan)
    lines = {
        "known": np.append(past, np.full(len(ahead), np.nan)),
        "forecast": np.concatenate([gap, past[-1:], ahead[name]]),
    }
    bands = {
        f"{level}% interval": (
            np.append(past[-1], ahead[f"{name}-lo-{level}"]),
            np.append(past[-1], ahead[f"{name}-hi-{level}"]),
        )
        for level in sorted(LEVELS, reverse=True)
    }
    last = FIRST_YEAR + len(SUNSPOTS) - 1
    years = np.arange(last - n_past + 1, last + len(ahead) + 1)
    return line_chart(lines, years, bands=bands, truth="known", x_label="year")


def _top(model: SoftBoostRegressor, names: list[str], n: int) -> dict[str, float]:
    return {str(name): float(value) for name, value in importances(model, names)[:n].items()}


def _section(page: Page, result: Result) -> None:
    data, rows = result.data, table(result)
    page.heading(data.title)
    page.text(data.about)
    page.text(f"softboost {_choice(result)}. {_meaning(result)}")
    page.table(
        ["model", "test MSE", "relative", "seconds"],
        [[r["model"], f"{r['mse']:.4g}", f"{r['relative']:.2f}", f"{r['seconds']:.2f}"] for r in rows],
        "One-step test error; every model has the same parameters on both data sets.",
        best=0,
    )
    prediction = result.predictions["softboost"]
    widths = sorted(result.half_widths.items(), reverse=True)
    bands = {f"{level}% interval": (prediction - width, prediction + width) for level, width in widths}
    inside = ", ".join(f"{100 * result.coverage(level):.0f}% inside the {level}% interval" for level in LEVELS)
    lines = {"truth": data.task.y_test, "softboost": prediction}
    page.figure(
        line_chart(lines, data.x, bands=bands, truth="truth", x_label=data.x_label),
        f"One-step forecasts on the test rows: {inside}.",
    )
    so_far = np.arange(1, len(data.x) + 1)
    curves = {row["model"]: np.cumsum(result.errors(row["model"])) / so_far for row in rows}
    page.figure(
        line_chart(curves, data.x, log=True, x_label=data.x_label),
        "Cumulative mean squared error (cMSE): the mean over all test rows so far, on a logarithmic scale.",
    )
    assert result.model is not None
    page.figure(
        bar_chart(_top(result.model, data.names, 10)),
        "The ten most important columns; all importances sum to one.",
    )
