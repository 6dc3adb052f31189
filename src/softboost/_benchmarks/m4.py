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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

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


def plain_model() -> Pipeline:
    """One plain path of boosting: with millions of rows there is little left to choose.

    A tree sees a thirtieth of the rows, so there are many, and each counts for little. Changes of logarithms have heavy
    tails, and gates in units of their standard deviation would be blunt where most of them are; the order of values,
    which is all that splits of LightGBM see, stays as it is.
    """
    model = SoftBoostRegressor(
        n_estimators=900, learning_rate=0.05, depth=6, loss="absolute_error", feature_transform=None,
        leaves="constant", gates="greedy", init="constant", random_state=0,
    )  # fmt: skip
    return make_pipeline(FunctionTransformer(_without_tails), model)


def _without_tails(X: Any) -> Array:
    return np.arcsinh(50.0 * np.asarray(X))


def softboost_same_features(df: pd.DataFrame) -> Point:
    """softboost on the columns of the LightGBM row, recursive."""
    forecast = Forecaster(1, HORIZON, plain_model(), **SAME_FEATURES).fit(df).predict()
    return forecast["Pipeline"].to_numpy().reshape(-1, HORIZON), None, None


def softboost_own(df: pd.DataFrame) -> Point:
    """softboost as it would do it: corrections of smoothing, all steps at once, in units of each series."""
    return forecast_own(_histories(df))


def softboost_analogues(df: pd.DataFrame) -> Point:
    """The same, which may also look at how other series went on that had gone the same way."""
    return forecast_own(_histories(df), analogues=True)


MODELS: dict[str, Callable[[pd.DataFrame], Point]] = {
    "LightGBM in mlforecast": lightgbm_in_mlforecast,
    "softboost, same features": softboost_same_features,
    "softboost": softboost_own,
    "softboost, analogues": softboost_analogues,
}


def _starts(df: pd.DataFrame) -> NDArray[np.int64]:
    """First row of every series, and the number of rows behind them."""
    first = np.flatnonzero(np.diff(df["ds"].to_numpy(), prepend=np.inf) < 0)
    return np.append(first, len(df))


def _histories(df: pd.DataFrame) -> list[Array]:
    return np.split(df["y"].to_numpy(), _starts(df)[1:-1])


def read(data_dir: Path | None, held_back: bool = False) -> tuple[pd.DataFrame, Array]:
    """Training rows of all series, ids as numbers so that they stay in the file's order, and the values to forecast.

    ``held_back`` leaves the test part alone: the last eight training values of each series are to be forecast.
    """
    train = load_m4_quarterly(data_dir, part="train")
    first = _starts(train)
    train["unique_id"] = np.repeat(np.arange(len(first) - 1), np.diff(first))
    if held_back:
        return hold_back(train)
    return train, load_m4_quarterly(data_dir, part="test")["y"].to_numpy().reshape(-1, HORIZON)


def hold_back(train: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
    """The rows without the last eight of each series, and those."""
    first = _starts(train)
    to_end = np.repeat(first[1:], np.diff(first)) - np.arange(len(train))
    actual = train["y"].to_numpy()[to_end <= HORIZON].reshape(-1, HORIZON)
    return train[to_end > HORIZON].reset_index(drop=True), actual


def run(
    models: list[str],
    data_dir: Path | None,
    limit: int | None = None,
    *,
    held_back: bool = False,
    out: Path | None = None,
) -> pd.DataFrame:
    """Score the baselines and the models.

    ``limit`` takes only the first series, for a trial. Rows that the file ``out`` holds already are kept, so that a
    stopped run goes on where it was.
    """
    df, actual = read(data_dir, held_back)
    if limit is not None:
        df, actual = df[df["unique_id"] < limit], actual[:limit]
    history = _histories(df)
    judge = Judge(history, actual)
    rows: dict[str, dict[str, Any]] = {}
    if out is not None and out.exists():
        rows = {str(row["model"]): dict(row) for _, row in pd.read_csv(out).iterrows()}
    for name, function in (("Naive", naive), ("sNaive", seasonal_naive), ("Naive2", naive2)):
        scores = judge.score(np.stack([function(y) for y in history]))
        if limit is None and not held_back:
            _check_published(name, scores)
        rows[name] = {"model": name, **vars(scores)}
    if not held_back:
        rows.update({name: {"model": name, "owa": owa} for name, owa in ANCHORS.items()})
    for name in [name for name in models if name not in rows]:
        start, processor = time.perf_counter(), time.process_time()
        scores = judge.score(*MODELS[name](df))
        minutes = (time.perf_counter() - start) / 60
        rows[name] = {"model": name, **vars(scores), "minutes": minutes}
        rows[name]["processor_minutes"] = (time.process_time() - processor) / 60  # what a busy machine does not move
        print(f"{name}: {rows[name]}", flush=True)
        if out is not None:
            _table(rows).to_csv(out, index=False)
    return _table(rows)


def _table(rows: dict[str, dict[str, Any]]) -> pd.DataFrame:
    columns = ["model", "smape", "mase", "owa", "coverage", "msis", "minutes", "processor_minutes"]
    return pd.DataFrame(list(rows.values()), columns=columns).sort_values("owa", ignore_index=True)


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
    parser.add_argument("--held-back", action="store_true", help="forecast the last eight training values instead")
    parser.add_argument("--out", type=Path, help="write the table as CSV; rows that are there are not run again")
    args = parser.parse_args(arguments)
    table = run(args.models, args.data_dir, args.limit, held_back=args.held_back, out=args.out)
    print(table.round(3).to_string(index=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
