"""Streams: progressive validation of OnlineSoftBoostRegressor against river's regressors, and against refitting.

There are three tables: error and time per step on the regression streams bundled with river and on lagged columns of
Exchange, ETTh2 and Weather; time per step with 50 features; and the error compared with a SoftBoostRegressor that is
refitted to all earlier rows. Generated streams are drawn with three seeds. Run it with ``softboost benchmark streams``
or ``python -m softboost._benchmarks.streams``. Needs river.
"""

import argparse
import csv
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from softboost import SoftBoostRegressor, datasets

STEPS, QUICK_STEPS = 5000, 300
REFIT_ROWS, REFIT_EVERY, REFIT_START = 500, 10, 100
WIDE_ROWS, WIDE_COLUMNS = 2000, 50
SUBJECT = "softboost"
SEEDS = (42, 43, 44)  # seeds of generated streams
N_LAGS = 12
ROW = tuple[dict[str, Any], float]
Stream = Callable[..., Iterable[ROW]]  # function of the number of rows and the seed


def _river(module: str) -> Any:
    return importlib.import_module(f"river.{module}")


def _synthetic(name: str, **kwargs: Any) -> Stream:
    return lambda n, seed=SEEDS[0]: getattr(_river("datasets.synth"), name)(seed=seed, **kwargs).take(n)


def _drifting(kind: str, *shares: float, width: float | None = None) -> Stream:
    """Friedman's function with drifts at the given shares of the stream."""

    def rows(n: int, seed: int = SEEDS[0]) -> Iterable[ROW]:
        gradual = {} if width is None else {"transition_window": int(width * n)}
        places = tuple(int(share * n) for share in shares)
        return _synthetic("FriedmanDrift", drift_type=kind, position=places, **gradual)(n, seed)

    return rows


def _bundled(name: str) -> Stream:
    # read to the end, so that the file is closed
    return lambda n, seed=SEEDS[0]: list(getattr(_river("datasets"), name)())[:n]


def _lagged(load: str, name: str) -> Stream:
    """One column of a data set, with its last 12 values as features; ``data_dir`` is the folder of the file."""

    def rows(n: int, seed: int = SEEDS[0], data_dir: Path | None = None) -> Iterable[ROW]:
        frame = getattr(datasets, load)(data_dir)
        y = frame.loc[frame["unique_id"] == name, "y"].to_numpy()[: n + N_LAGS].tolist()
        return [({f"lag{k}": y[t - k] for k in range(1, N_LAGS + 1)}, y[t]) for t in range(N_LAGS, len(y))]

    return rows


LAGGED: dict[str, Stream] = {
    "Exchange, Australia": _lagged("load_exchange", "Australia"),
    "Exchange, Japan": _lagged("load_exchange", "Japan"),
    "ETTh2, HUFL": _lagged("load_etth2", "HUFL"),
    "ETTh2, OT": _lagged("load_etth2", "OT"),
    "Weather, temperature": _lagged("load_weather", "T (degC)"),
    "Weather, wind speed": _lagged("load_weather", "wv (m/s)"),
}
STREAMS: dict[str, Stream] = {
    "TrumpApproval": _bundled("TrumpApproval"),
    "ChickWeights": _bundled("ChickWeights"),
    "AirlinePassengers": _bundled("AirlinePassengers"),
    "WaterFlow": _bundled("WaterFlow"),
    "SP500Stocks": _bundled("SP500Stocks"),
    "Friedman": _synthetic("Friedman"),
    "FriedmanDrift, local": _drifting("lea", 0.25, 0.5, 0.75),
    "FriedmanDrift, abrupt": _drifting("gra", 0.35, 0.75),
    "FriedmanDrift, gradual": _drifting("gsg", 0.35, 0.75, width=0.1),
    "Mv": _synthetic("Mv"),
    "Planes2D": _synthetic("Planes2D"),
    **LAGGED,
}
GENERATED = ("Friedman", "FriedmanDrift, local", "FriedmanDrift, abrupt", "FriedmanDrift, gradual", "Mv", "Planes2D")


def draws(name: str, n: int, data_dir: Path | None = None) -> list[list[ROW]]:
    """The draws of a stream: one for each seed if it is generated, else one."""
    more = {"data_dir": data_dir} if name in LAGGED else {}
    seeds = SEEDS if name in GENERATED else SEEDS[:1]
    return [[(plain(x), y) for x, y in STREAMS[name](n, seed, **more)] for seed in seeds]


def _is_present(name: str, data_dir: Path | None) -> bool:
    """Whether the data of a stream are available; if not, say what is missing."""
    try:
        return name not in LAGGED or bool(draws(name, 1, data_dir))
    except datasets.DataUnavailableError as error:
        print(f"skipped {name}: {error}", file=sys.stderr)
        return False


class LastValue:
    """Predicts the previous target."""

    def __init__(self) -> None:
        self.last = 0.0

    def predict_one(self, x: dict[str, Any]) -> float:
        """Return the previous target."""
        return self.last

    def learn_one(self, x: dict[str, Any], y: float) -> None:
        """Remember the target."""
        self.last = y


def _prepared(model: Any) -> Any:
    """A river model preceded by a scaler and one-hot encoding, which the linear leaves of its trees need."""
    compose, preprocessing = _river("compose"), _river("preprocessing")
    text = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return (text + (compose.SelectType(int, float) | preprocessing.StandardScaler())) | model


MODELS: dict[str, Callable[[], Any]] = {
    SUBJECT: lambda: importlib.import_module("softboost.online").OnlineSoftBoostRegressor(),
    "last value": LastValue,
    "linear": lambda: _prepared(_river("linear_model").LinearRegression()),
    "adaptive tree": lambda: _prepared(_river("tree").HoeffdingAdaptiveTreeRegressor(seed=1)),
    "adaptive forest": lambda: _prepared(_river("forest").ARFRegressor(seed=1)),
    "Mondrian forest": lambda: _prepared(_river("forest").AMFRegressor(seed=1)),
    "neighbours": lambda: _prepared(_river("neighbors").KNNRegressor()),
}


def plain(x: dict[str, Any]) -> dict[str, Any]:
    """A row in the form that river's models need: names as strings, dates as numbers."""
    out = {}
    for name, value in x.items():
        if isinstance(value, datetime):
            out[f"{name} day"] = value.toordinal() + value.hour / 24
            out[f"{name} month"], out[f"{name} weekday"] = value.month, value.weekday()
            out[f"{name} hour"] = value.hour
        else:
            out[str(name)] = value
    return out


def progressive(model: Any, rows: Iterable[ROW]) -> dict[str, float]:
    """Progressive validation: mean absolute error, root mean squared error, milliseconds per row."""
    errors, seconds = [], []
    for x, y in rows:
        start = time.process_time()
        prediction = model.predict_one(x)
        model.learn_one(x, y)
        seconds.append(time.process_time() - start)
        errors.append((0.0 if prediction is None else prediction) - y)  # neighbours predict nothing before a row
    error = np.array(errors)
    return {
        "rows": len(error),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "ms": 1000 * float(np.mean(seconds)),
        "median_ms": 1000 * float(np.median(seconds)),
    }


def wide_rows(n_rows: int, n_columns: int = WIDE_COLUMNS) -> list[ROW]:
    """Rows of a smooth function of four of many normal columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    y = X[:, 0] + np.sin(2 * X[:, 1]) * X[:, 2] + np.abs(X[:, 3]) + 0.3 * rng.normal(size=n_rows)
    return [({f"x{j}": v for j, v in enumerate(row)}, t) for row, t in zip(X.tolist(), y.tolist(), strict=True)]


def against_refits(name: str, n_rows: int) -> dict[str, Any]:
    """Errors and times of the online model and of refits to all earlier rows; mean over draws."""
    draws = [_against_refits([(plain(x), y) for x, y in STREAMS[name](n_rows, seed)]) for seed in SEEDS]
    errors = np.array([draw[0] for draw in draws])
    online, refit = errors.mean(axis=0)
    learned, fitted = np.mean([draw[1] for draw in draws], axis=0)
    return {
        "stream": name,
        "rows": n_rows,
        "mae": online,
        "refit_mae": refit,
        "ratio": online / refit,
        "ratios": " ".join(f"{ratio:.2f}" for ratio in errors[:, 0] / errors[:, 1]),
        "ms": 1000 * learned,
        "refit_ms": 1000 * fitted,
        "times_cheaper": fitted / learned,
    }


def _against_refits(rows: list[ROW]) -> tuple[Any, Any]:
    """Mean absolute errors at every tenth row, and seconds per learned row and per refit."""
    model = MODELS[SUBJECT]()
    names = sorted({(k, v if isinstance(v, str) else None) for x, _ in rows for k, v in x.items()}, key=str)
    X = np.array([[float(x[k]) if v is None else float(x[k] == v) for k, v in names] for x, _ in rows])
    y = np.array([truth for _, truth in rows])
    errors, seconds, learned = [], [], []
    for t, (x, truth) in enumerate(rows):
        if t >= REFIT_START and t % REFIT_EVERY == 0:
            start = time.process_time()
            batch = SoftBoostRegressor().fit(X[:t], y[:t])
            seconds.append(time.process_time() - start)
            # several new rows per refit give less noise than one
            ahead = slice(t, t + REFIT_EVERY)
            online = np.array([model.predict_one(row) for row, _ in rows[ahead]])
            errors.append([np.abs(online - y[ahead]).mean(), np.abs(batch.predict(X[ahead]) - y[ahead]).mean()])
        start = time.process_time()
        model.learn_one(x, truth)
        learned.append(time.process_time() - start)
    return np.mean(errors, axis=0), (np.mean(learned), np.mean(seconds))


def run(
    out: Path,
    streams: Sequence[str],
    models: Sequence[str],
    steps: int,
    refit_streams: Sequence[str],
    refit_rows: int,
    data_dir: Path | None = None,
) -> str:
    """Run the selected parts, write the tables as CSV and return them in Markdown."""
    if importlib.util.find_spec("river") is None:
        raise ValueError("river, which provides the streams, is not installed; pip install 'softboost[river]'")
    for kind, asked, known in (("stream", [*streams, *refit_streams], STREAMS), ("model", models, MODELS)):
        unknown = [name for name in asked if name not in known]
        if unknown:
            raise ValueError(f"unknown {kind} {unknown[0]!r}; choose from {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    jobs = [(stream, name) for stream in streams if _is_present(stream, data_dir) for name in models]
    table, speed = [], []
    with threadpool_limits(limits=1):
        for stream, name in tqdm(jobs, unit="run", file=sys.stderr):
            done = [progressive(MODELS[name](), rows) for rows in draws(stream, steps, data_dir)]
            means = {key: float(np.mean([one[key] for one in done])) for key in done[0]}
            table.append({"stream": stream, "model": name, "draws": len(done), **means, "rows": done[0]["rows"]})
        for name in models:
            speed.append({"model": name, **progressive(MODELS[name](), wide_rows(min(steps, WIDE_ROWS)))})
        refits = [against_refits(name, refit_rows) for name in tqdm(refit_streams, unit="stream", file=sys.stderr)]
    tables = {"streams": table, "wide": speed, "refits": refits}
    return "\n".join(_write(out / f"{name}.csv", records) for name, records in tables.items() if records)


def _write(path: Path, records: list[dict[str, Any]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in record.values()] for record in records]
    lines = [list(records[0]), ["---"] * len(records[0]), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument(
        "--out", type=Path, default=Path(".streams"), metavar="DIR", help="folder of the tables (default: %(default)s)"
    )
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), metavar="NAME", help="only these streams")
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME", help="only these models")
    parser.add_argument("--steps", type=int, default=STEPS, help="maximum rows per stream (default: %(default)s)")
    refitted = ["Friedman", "Planes2D", "Mv"]
    parser.add_argument(
        "--refits", nargs="*", default=refitted, metavar="NAME", help="streams to refit on (default: %(default)s)"
    )
    parser.add_argument("--refit-rows", type=int, default=REFIT_ROWS, help="rows of these (default: %(default)s)")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder of the data files (default: SOFTBOOST_DATA)"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} rows per stream, no refits")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    steps, refits = (QUICK_STEPS, []) if args.quick else (args.steps, args.refits)
    try:
        print(run(args.out, args.streams, args.models, steps, refits, args.refit_rows, args.data_dir))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost benchmark streams", description=__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
