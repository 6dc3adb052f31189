"""Prediction intervals of softboost and of its peers on real tables with 100 training rows.

Run it with ``softboost benchmark intervals`` or ``python -m softboost._benchmarks.intervals``.
"""

import argparse
import importlib
import importlib.util
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from softboost import SoftBoostRegressor

from .arena import parse_seeds
from .real_tables import RealTable, real_tables
from .task import FloatArray, MissingDataError, Task

RESULTS = "results.jsonl"
DEFAULT_SEEDS = 3
LEVEL = 0.9
SUBJECT = "softboost"

Record = dict[str, Any]
Ends = tuple[FloatArray, FloatArray]


# -- models ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A model of the comparison: fits a task and returns the ends of its intervals at the test rows."""

    name: str
    about: str
    ends: Callable[[Task, float, int], Ends]
    module: str = "sklearn"

    def available(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.module) is not None


def _softboost(task: Task, level: float, seed: int) -> Ends:
    low, high = SoftBoostRegressor().fit(task.X_train, task.y_train).predict_interval(task.X_test, level).T
    return low, high


def _halves(n: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to calibrate with."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[: n // 2], rows[n // 2 :]


def conformal_quantile(scores: FloatArray, level: float) -> float:
    """The smallest score that covers a new score with at least this probability; the largest if there is none."""
    rank = int(np.ceil((len(scores) + 1) * level))
    return float(np.sort(scores)[min(rank, len(scores)) - 1])


def _split_lasso(task: Task, level: float, seed: int) -> Ends:
    train, held = _halves(len(task.y_train), seed)
    model = make_pipeline(StandardScaler(), LassoCV(cv=5)).fit(task.X_train[train], task.y_train[train])
    width = conformal_quantile(np.abs(task.y_train[held] - model.predict(task.X_train[held])), level)
    prediction = model.predict(task.X_test)
    return prediction - width, prediction + width


def _conformal_lightgbm(task: Task, level: float, seed: int) -> Ends:
    """Conformalised quantile regression: two quantile models, moved apart by the errors on the other half."""
    train, held = _halves(len(task.y_train), seed)
    make = importlib.import_module("lightgbm").LGBMRegressor
    ends = []
    for alpha in ((1 - level) / 2, (1 + level) / 2):
        leaf = max(2, min(20, len(train) // 5))  # the default of 20 gives constants on 50 rows
        model = make(objective="quantile", alpha=alpha, min_child_samples=leaf, random_state=seed, n_jobs=1, verbose=-1)
        ends.append(model.fit(task.X_train[train], task.y_train[train]))
    low, high = (model.predict(task.X_train[held]) for model in ends)
    width = conformal_quantile(np.maximum(low - task.y_train[held], task.y_train[held] - high), level)
    low, high = (model.predict(task.X_test) for model in ends)
    return np.minimum(low - width, high + width), np.maximum(low - width, high + width)


def _quantile_forest(task: Task, level: float, seed: int) -> Ends:
    make = importlib.import_module("quantile_forest").RandomForestQuantileRegressor
    model = make(n_estimators=100, min_samples_leaf=5, random_state=seed).fit(task.X_train, task.y_train)
    low, high = model.predict(task.X_test, quantiles=[(1 - level) / 2, (1 + level) / 2]).T
    return low, high


MODELS = {
    model.name: model
    for model in (
        Model(SUBJECT, "default parameters, predict_interval", _softboost, "softboost"),
        Model("lightgbm", "quantile models, conformalised on half of the rows", _conformal_lightgbm, "lightgbm"),
        Model("quantile forest", "100 trees, five rows per leaf", _quantile_forest, "quantile_forest"),
        Model("lasso", "LassoCV, split conformal on half of the rows", _split_lasso),
    )
}  # fmt: skip


# -- runs --------------------------------------------------------------------------------------------------------------


def interval_score(low: FloatArray, high: FloatArray, y: FloatArray, level: float) -> float:
    """Mean interval score: the width, plus ``2 / (1 - level)`` times the distance of targets outside."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - level) * outside))


def run(
    out: Path,
    half: str = "all",
    models: Sequence[str] | None = None,
    tables: Sequence[str] | None = None,
    seeds: Sequence[int] = range(DEFAULT_SEEDS),
    redo: Sequence[str] = (),
) -> str:
    """Run the comparison, skip existing results, and write ``table.md``; return it."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / RESULTS
    chosen = [table for table in real_tables().values() if half in ("all", table.half)]
    chosen = [table for table in chosen if tables is None or table.name in tables]
    unknown = sorted(set(models or ()) - set(MODELS)) + sorted(set(tables or ()) - {table.name for table in chosen})
    if unknown:
        raise ValueError(f"unknown names: {', '.join(unknown)}; see --list")
    present = [MODELS[name] for name in models or MODELS]
    for model in present:
        if not model.available():
            print(f"missing model {model.name}: the package {model.module} is not installed", file=sys.stderr)
    present = [model for model in present if model.available()]
    done = {(r["table"], r["seed"], r["model"]) for r in read_results(path) if r["model"] not in redo}
    units = [
        (table, seed, model)
        for table in chosen
        for seed in seeds
        for model in present
        if (table.name, seed, model.name) not in done
    ]
    with path.open("a") as file, tqdm(units, unit="fit", file=sys.stderr, disable=not units) as bar:
        for table, seed, model in bar:
            bar.set_postfix_str(f"{table.name} {model.name}")
            file.write(json.dumps(score(table, seed, model)) + "\n")
            file.flush()
    names = {table.name for table in chosen}
    text = markdown([r for r in read_results(path) if r["table"] in names and r["seed"] in set(seeds)])
    (out / "table.md").write_text(text + "\n")
    return text


def read_results(path: Path) -> list[Record]:
    """Records of a results file; an incomplete last line of an interrupted run is skipped."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return records


def score(table: RealTable, seed: int, model: Model) -> Record:
    """Coverage and interval score, relative to the standard deviation of the training targets, of one model."""
    task = table.scarce(seed)
    start = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")
        low, high = model.ends(task, LEVEL, zlib.crc32(f"{table.name} {seed}".encode()) % 2**31)
    inside = (low <= task.y_test) & (task.y_test <= high)
    spread = max(float(task.y_train.std()), 1e-12 * float(np.abs(task.y_train).max()), 1e-300)
    return {
        "table": table.name,
        "seed": seed,
        "model": model.name,
        "coverage": float(inside.mean()),
        "score": interval_score(low, high, task.y_test, LEVEL) / spread,
        "width": float(np.mean(high - low)) / spread,
        "seconds": round(time.perf_counter() - start, 4),
    }


def markdown(records: list[Record]) -> str:
    """The table of all models, over the tables that all of them have finished; scores are means over draws first."""
    latest = {(r["table"], r["seed"], r["model"]): r for r in records}
    models = [name for name in MODELS if any(key[2] == name for key in latest)]
    tasks = sorted({key[:2] for key in latest})
    tasks = [task for task in tasks if all((*task, name) in latest for name in models)]
    tables = sorted({table for table, _ in tasks})

    def means(name: str, field: str) -> FloatArray:
        return np.array(
            [np.mean([latest[t, s, name][field] for t, s in tasks if t == table]) for table in tables], dtype=np.float64
        )

    lines = [
        f"{len(tables)} tables, {len(tasks)} draws of 100 training rows; intervals of {100 * LEVEL:.0f} percent.",
        "",
        "| model | coverage | tables at 85 to 95% | mean score | score relative to softboost | tables lost | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    own = means(SUBJECT, "score") if SUBJECT in models else None
    for name in models:
        coverage, value = means(name, "coverage"), means(name, "score")
        near = np.mean((coverage >= 0.85) & (coverage <= 0.95))
        against = "" if own is None else f"{np.exp(np.mean(np.log(value / own))):.2f}"
        lost = "" if own is None or name == SUBJECT else f"{int(np.sum(value > own))}"
        lines.append(
            f"| {name} | {100 * coverage.mean():.1f}% | {100 * near:.0f}% | {value.mean():.2f} | {against} | {lost} "
            f"| {means(name, 'seconds').mean():.2f} |"
        )
    return "\n".join(lines)


# -- command -----------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".intervals"),
        metavar="DIR",
        help="folder of results and tables (default: %(default)s)",
    )
    parser.add_argument("--half", choices=("dev", "report", "all"), default="all", help="half of the tables")
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="only these tables")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument(
        "--seeds",
        type=parse_seeds,
        default=list(range(DEFAULT_SEEDS)),
        metavar="N|A-B",
        help=f"draws of training rows (default: {DEFAULT_SEEDS}, 0 to {DEFAULT_SEEDS - 1})",
    )
    parser.add_argument("--quick", action="store_true", help="one draw of ten tables")
    parser.add_argument("--redo", nargs="+", default=[], metavar="MODEL", help="run these models again")
    parser.add_argument("--list", action="store_true", help="list tables and models and exit")


def run_from_args(args: argparse.Namespace) -> int:
    """Run the comparison with parsed options and return the exit status."""
    try:
        if args.list:
            print("\n".join(f"{model.name:18} {model.about}" for model in MODELS.values()))
            print("\n".join(f"{table.name:30} {table.half:7} {table.target}" for table in real_tables().values()))
            return 0
        tables = args.tables or (sorted(real_tables())[::15] if args.quick else None)
        seeds = args.seeds[:1] if args.quick else args.seeds
        print(run(args.out, args.half, args.models, tables, seeds, args.redo))
    except (ValueError, MissingDataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost benchmark intervals", description=__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
