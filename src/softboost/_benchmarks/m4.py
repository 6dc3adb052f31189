"""M4 quarterly: 24,000 series, eight steps, scored as in the competition.

``python benchmarks/m4.py`` runs it. The official Naive, seasonal Naive and Naive2 are reproduced first; a run whose
baselines do not match the published ones to three decimals stops there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost import SoftBoostRegressor
from softboost.datasets import load_m4_quarterly
from softboost.forecast import Differences, Forecaster, Log, RollingMean

from .m4_own import forecast_own
from .m4_scores import Array, Judge, Scores, naive, naive2, seasonal_naive

HORIZON = 8
PUBLISHED = {"Naive": (11.610, 1.477), "sNaive": (12.521, 1.602), "Naive2": (11.012, 1.371)}
ANCHORS = {"Theta": 0.917, "Comb": 0.890, "Smyl (winner)": 0.847, "N-BEATS (ensemble)": 0.800}
SAME_FEATURES: dict[str, Any] = {
    "season_length": 4,
    "lags": [*range(1, 10), 12],
    "lag_transforms": {1: [RollingMean(4), RollingMean(8)]},
    "target_transforms": [Log(), Differences([1])],
    "scope": "global",
}

Point = tuple[Array, Array | None, Array | None]


def lightgbm_in_mlforecast(df: pd.DataFrame) -> Point:
    """What a user gets today in a minute."""
    import lightgbm
    from mlforecast import MLForecast  # noqa: PLC0415
    from mlforecast import lag_transforms as theirs  # noqa: PLC0415
    from mlforecast import target_transforms as changes  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

    log = changes.GlobalSklearnTransformer(FunctionTransformer(func=np.log, inverse_func=np.exp))
    model = MLForecast(
        {"model": lightgbm.LGBMRegressor(n_estimators=300, objective="l1", verbosity=-1, n_jobs=1)},
        freq=1,
        lags=SAME_FEATURES["lags"],
        lag_transforms={1: [theirs.RollingMean(4), theirs.RollingMean(8)]},
        target_transforms=[log, changes.Differences([1])],
    )
    forecast = model.fit(df, static_features=[]).predict(HORIZON)["model"]
    return forecast.to_numpy().reshape(-1, HORIZON), None, None


def plain_model(n_rounds: int = 200) -> SoftBoostRegressor:
    """One plain path of boosting: with millions of rows there is little left to choose."""
    return SoftBoostRegressor(
        n_estimators=n_rounds, learning_rate=0.1, depth=3, loss="absolute_error", feature_transform=None,
        leaves="linear", gates="greedy", init="constant",
    )  # fmt: skip


def softboost_same_features(df: pd.DataFrame) -> Point:
    """softboost on the columns of the LightGBM row, recursive."""
    forecast = Forecaster(1, HORIZON, plain_model(), **SAME_FEATURES).fit(df).predict()
    return forecast["SoftBoostRegressor"].to_numpy().reshape(-1, HORIZON), None, None


def softboost_own(df: pd.DataFrame) -> Point:
    """softboost as it would do it: all steps at once, each series in units of its own changes."""
    return forecast_own(df["y"].to_numpy(), _starts(df), HORIZON)


MODELS: dict[str, Callable[[pd.DataFrame], Point]] = {
    "LightGBM in mlforecast": lightgbm_in_mlforecast,
    "softboost, same features": softboost_same_features,
    "softboost": softboost_own,
}


def _starts(df: pd.DataFrame) -> NDArray[np.int64]:
    """First row of every series, and the number of rows behind them."""
    first = np.flatnonzero(np.diff(df["ds"].to_numpy(), prepend=np.inf) < 0)
    return np.append(first, len(df))


def read(data_dir: Path | None) -> tuple[pd.DataFrame, Array]:
    """Training rows of all series, ids as numbers so that they stay in the file's order, and the values to forecast."""
    train = load_m4_quarterly(data_dir, part="train")
    test = load_m4_quarterly(data_dir, part="test")
    first = _starts(train)
    train["unique_id"] = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return train, test["y"].to_numpy().reshape(-1, HORIZON)


def run(models: list[str], data_dir: Path | None, limit: int | None = None) -> pd.DataFrame:
    """Score the baselines and the models; ``limit`` takes only the first series, for a trial."""
    df, actual = read(data_dir)
    if limit is not None:
        df, actual = df[df["unique_id"] < limit], actual[:limit]
    history = np.split(df["y"].to_numpy(), _starts(df)[1:-1])
    judge = Judge(history, actual)
    rows: dict[str, tuple[Scores, float]] = {}
    for name, function in (("Naive", naive), ("sNaive", seasonal_naive), ("Naive2", naive2)):
        scores = judge.score(np.stack([function(y) for y in history]))
        rows[name] = scores, 0.0
        if limit is None:
            _check_published(name, scores)
    for name in models:
        start = time.perf_counter()
        rows[name] = judge.score(*MODELS[name](df)), time.perf_counter() - start
        print(f"{name}: {rows[name]}", flush=True)
    columns = [{"model": name, **vars(scores), "seconds": seconds} for name, (scores, seconds) in rows.items()]
    anchors = [{"model": name, "owa": owa} for name, owa in ANCHORS.items()]
    return pd.DataFrame(columns + anchors).sort_values("owa", ignore_index=True)


def _check_published(name: str, scores: Scores) -> None:
    smape, mase = PUBLISHED[name]
    if round(scores.smape, 3) != smape or round(scores.mase, 3) != mase:
        raise RuntimeError(f"{name} scores {scores}, published are sMAPE {smape} and MASE {mase}; the data differ")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, help="folder of the data files (SOFTBOOST_DATA)")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--limit", type=int, help="only so many series")
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    args = parser.parse_args(arguments)
    table = run(args.models, args.data_dir, args.limit)
    if args.out is not None:
        table.to_csv(args.out, index=False)
    print(table.round(3).to_string(index=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
