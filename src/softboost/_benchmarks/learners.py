"""Comparison of feature transforms and weak learners on seven tasks, with few and with more rows.

Run it with ``softboost benchmark learners`` or ``python -m softboost._benchmarks.learners``.
"""

import argparse
import csv
import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import ShuffleSplit
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from softboost import SoftBoostRegressor, presets, transforms
from softboost.weak_learners import HardTrees

from . import series, synthetic
from .arena import _is_available, _is_present, _say, parse_seeds, score
from .peers import Peer
from .task import Draw, Family, Generator, Task

RESULTS = "results.jsonl"
DEFAULT_SEEDS = 5
QUICK_SEEDS = 1
N_LAGS = 24
FEW, ROWS = 100, (100, 500, 2000)
COLUMNS = ("task", "rows", "learner", "transform", "seeds", "mse", "relative_mse", "seconds")

Record = dict[str, Any]


# -- tasks -----------------------------------------------------------------------------------------------------------


def _etth2(n_train: int) -> Generator:
    """ETTh2 as in the arena, with any number of rows; ``window`` lists the lags 18 to 1, oldest first."""

    def draw(draw: Draw) -> Task:
        names, values = series.read_columns(series.find_data_file("ETTh2.csv", draw.data_dir), True)
        one = values[:, draw.seed % len(names)]
        task = series.sampled_rows(one, series.EXCHANGE_COLUMNS, draw.rng, n_train, 96)
        task.metadata["window"] = list(range(17, -1, -1))
        return task

    return draw


def _threshold(n_train: int) -> Generator:
    def draw(draw: Draw) -> Task:
        task = synthetic.threshold(N_LAGS, n_train)(draw)
        task.metadata["window"] = list(range(N_LAGS - 1, -1, -1))
        return task

    return draw


def _peaks(n_train: int) -> Generator:
    def draw(draw: Draw) -> Task:
        task = synthetic.regression(synthetic.peaks, n_train=n_train, n_features=N_LAGS)(draw)
        task.metadata["window"] = list(range(N_LAGS))
        return task

    return draw


def _families(n_train: int) -> list[Family]:
    """The tasks with ``n_train`` rows; the columns keep their order, so that windows are known."""
    synthetic_tasks = {
        "synthetic": (synthetic.sparse_linear, "the paper's: 5 of 50 columns, linear"),
        "index1": (synthetic.one_index, "one direction of 5 of 50 columns"),
        "index2": (synthetic.two_indices, "two directions of 6 of 50 columns"),
    }
    rows = (n_train, n_train)
    made = [
        Family(name, synthetic.regression(response, n_train=n_train), rows, 50, "dev", about)
        for name, (response, about) in synthetic_tasks.items()
    ]
    mixing = synthetic.regression(synthetic.dense_network, n_train=n_train, n_features=N_LAGS)
    made += [
        Family("threshold", _threshold(n_train), rows, N_LAGS, "dev", "two autoregressions, 24 lags"),
        Family("mixing", mixing, rows, N_LAGS, "dev", "a network of 4 units on 24 columns"),
        Family("window", _peaks(n_train), rows, N_LAGS, "dev", "peaks anywhere in a window of 24 steps"),
    ]
    return [*made, Family("etth2", _etth2(n_train), rows, 59, "dev", "hourly transformer loads, one hour ahead")]


def draw_task(name: str, n_train: int, seed: int, data_dir: Path | None = None) -> Task:
    """The task with this name, number of rows and seed."""
    family = next(family for family in _families(n_train) if family.name == name)
    rng = np.random.default_rng([seed, *name.encode()])
    return family.generator(Draw(rng, seed, data_dir))


# -- models ----------------------------------------------------------------------------------------------------------


def _booster(seed: int, **params: Any) -> SoftBoostRegressor:
    """Boosting from the best constant; the number of rounds is chosen on a hold-out set of a quarter of the rows."""
    split = ShuffleSplit(1, test_size=0.25, random_state=seed)
    return SoftBoostRegressor(init="constant", cv=split, random_state=seed, **params)


def _soft(make: Callable[[Task], Any]) -> Callable[[int, Task], Any]:
    return lambda seed, task: _booster(seed, feature_transform=make(task))


def _plain(transform: str | None) -> Callable[[int, Task], Any]:
    """30 rounds without selection: every parameter is set, so that only the transform differs."""
    settings: dict[str, Any] = {
        "n_estimators": 30,
        "learning_rate": 0.2,
        "depth": 2,
        "leaves": "linear",
        "gates": "greedy",
    }
    return lambda seed, task: SoftBoostRegressor(
        **settings, init="constant", feature_transform=transform, random_state=seed
    )


def _torch(name: str) -> Callable[[Task], Any]:
    def make(task: Task) -> Any:
        window = task.metadata.get("window")
        with_memory = {} if window is None or name == "mlp" else {"windows": [window]}
        return getattr(transforms, name)(**with_memory)

    return make


def _hard(library: str, transform: Any, **params: Any) -> Callable[[int, Task], Any]:
    class_name = {"lightgbm": "LGBMRegressor", "xgboost": "XGBRegressor", "catboost": "CatBoostRegressor"}[library]

    def make(seed: int, task: Task) -> Any:
        learner = HardTrees(getattr(importlib.import_module(library), class_name)(**params))
        return _booster(seed, feature_transform=transform, weak_learner=learner)

    return make


def _without_and_with_q(library: str) -> list[Peer]:
    """Trees of depth 3 of another library."""
    params: dict[str, Any] = {"max_depth": 3}
    if library == "lightgbm":
        params = {"max_depth": 3, "num_leaves": 8, "min_child_samples": 5}
    elif library == "catboost":
        params = {"depth": 3}
    return [
        Peer(f"{library}/none", _hard(library, None, **params), library, library),
        Peer(f"{library}/linear", _hard(library, "linear", **params), library, library),
    ]


_OURS = ("softboost", "softboost")
MODELS: dict[str, Peer] = {
    peer.name: peer
    for peer in [
        Peer("soft/none", _soft(lambda task: None), *_OURS, about="what feature_transform=None gives"),
        Peer("soft/diagonal", _soft(lambda task: "diagonal"), *_OURS, about="a weight for each column"),
        Peer("soft/linear", _soft(lambda task: "linear"), *_OURS, about="the paper's Q, square, from the identity"),
        Peer(
            "soft/linear, 2 rows",
            _soft(lambda task: transforms.Linear(2, "supervised", group_lasso=0.2)),
            *_OURS,
            about="Q of two rows from supervised directions, kept sparse",
        ),
        Peer("soft/mlp", _soft(_torch("mlp")), "torch", "torch", about="16 hidden units, 4 components beside x"),
        Peer("soft/rnn", _soft(_torch("rnn")), "torch", "torch", about="state of 8, 4 components beside x"),
        Peer("soft/lstm", _soft(_torch("lstm")), "torch", "torch", about="state of 8, 4 components beside x"),
        Peer("soft/cnn", _soft(_torch("cnn")), "torch", "torch", about="8 channels, 4 components beside x"),
        Peer("plain/none", _plain(None), *_OURS, about="30 rounds without selection"),
        Peer("plain/linear", _plain("linear"), *_OURS, about="the same with the paper's Q, square"),
        Peer("paper/none", lambda seed, task: presets.bsdt(random_state=seed), *_OURS, about="BSDT to the letter"),
        Peer(
            "paper/linear", lambda seed, task: presets.bsdt_q(random_state=seed), *_OURS, about="BSDT-Q to the letter"
        ),
        *_without_and_with_q("lightgbm"),
        *_without_and_with_q("xgboost"),
        *_without_and_with_q("catboost"),
    ]
}


# -- running ---------------------------------------------------------------------------------------------------------


def run(
    out: Path,
    tasks: list[str] | None = None,
    models: list[str] | None = None,
    seeds: Sequence[int] = range(DEFAULT_SEEDS),
    rows: Sequence[int] = ROWS,
    data_dir: Path | None = None,
    n_jobs: int = 1,
) -> str:
    """Fit every model on every task, skip existing results, and write the tables.

    Parameters
    ----------
    out : Path
        Folder of ``results.jsonl`` (one line per task, rows, seed and model), ``table.csv`` and ``table.md``.
    tasks, models : list of str or None
        Names to run; by default all.
    seeds, rows : sequence of int
        Seeds and numbers of training rows.
    data_dir : Path or None
        Folder of the data files.
    n_jobs : int, default=1
        Number of processes. Each fit uses one thread.

    Returns
    -------
    str
        The table in Markdown.
    """
    families = [family for family in _families(FEW) if _wanted(family.name, tasks, [f.name for f in _families(FEW)])]
    peers = [peer for peer in MODELS.values() if _wanted(peer.name, models, list(MODELS)) and _is_available(peer)]
    names = [family.name for family in families if _is_present(family, data_dir)]
    out.mkdir(parents=True, exist_ok=True)
    path = out / RESULTS
    done = {(r["task"], r["rows"], r["seed"], r["model"]) for r in _read(path) if "error" not in r}
    keys = [(name, n, seed, peer.name) for n in rows for seed in seeds for name in names for peer in peers]
    jobs = [delayed(run_one)(key, data_dir) for key in keys if key not in done]
    with path.open("a") as file, tqdm(total=len(jobs), unit="fit", file=sys.stderr) as bar:
        for record in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs):
            file.write(json.dumps(record) + "\n")
            file.flush()
            bar.update()
    return write_tables(_read(path), out)


def _read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _wanted(name: str, chosen: list[str] | None, known: list[str]) -> bool:
    unknown = sorted(set(chosen or ()) - set(known))
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return not chosen or name in chosen


def run_one(key: tuple[str, int, int, str], data_dir: Path | None) -> Record:
    """Fit one model on one task; the error of a model that fails is recorded.

    ``seconds`` is the processor time of fit and prediction, which the load of the machine affects little.
    """
    task, n_rows, seed, model = key
    drawn = draw_task(task, n_rows, seed, data_dir)
    importlib.import_module(MODELS[model].module)  # before the measurement
    with threadpool_limits(limits=1):
        start = time.process_time()
        record = score(MODELS[model], seed, drawn)
        record["seconds"] = round(time.process_time() - start, 4)
    return {"task": task, "rows": n_rows, "seed": seed, "model": model, **record}


# -- tables ----------------------------------------------------------------------------------------------------------


def summarise(records: list[Record]) -> list[Record]:
    """Means over seeds: one row per task, number of rows and model; the last result of each seed is used."""
    latest = {(r["rows"], r["task"], r["model"], r["seed"]): r for r in records if "error" not in r}
    groups: dict[tuple[int, str, str], list[Record]] = {}
    for (n_rows, task, model, _), record in sorted(latest.items(), key=lambda item: (*item[0][:2], item[0][3])):
        groups.setdefault((n_rows, task, model), []).append(record)
    table = []
    for (n_rows, task, model), group in groups.items():
        learner, transform = model.split("/", 1)
        means = {name: float(np.mean([r[name] for r in group])) for name in ("mse", "relative_mse", "seconds")}
        row = {"task": task, "rows": n_rows, "learner": learner, "transform": transform, "seeds": len(group), **means}
        table.append(row)
    return table


def write_tables(records: list[Record], out: Path) -> str:
    """Write ``table.csv`` and ``table.md``; return the latter."""
    table = summarise(records)
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(table)
    text = "\n\n".join(_markdown(table, n_rows) for n_rows in sorted({row["rows"] for row in table}))
    (out / "table.md").write_text(text + "\n")
    return text


def _markdown(table: list[Record], n_rows: int) -> str:
    """Table with models as rows and tasks as columns: mean of MSE / variance of the training targets, best in bold."""
    table = [row for row in table if row["rows"] == n_rows]
    tasks = [family.name for family in _families(n_rows) if any(row["task"] == family.name for row in table)]
    cells = {(row["learner"], row["transform"], row["task"]): row for row in table}
    best = {task: min(row["relative_mse"] for row in table if row["task"] == task) for task in tasks}
    seeds = max(row["seeds"] for row in table)
    tail = "" if seeds == 1 else f", mean of {seeds} seeds"
    lines = [
        f"{n_rows} training rows: test MSE / variance of the training targets (seconds){tail}.",
        "",
        f"| learner | transform | {' | '.join(tasks)} |",
        "|---|---|" + "---:|" * len(tasks),
    ]
    for model in MODELS:
        learner, transform = model.split("/", 1)
        found = [cells.get((learner, transform, task)) for task in tasks]
        if any(found):
            lines.append(f"| {learner} | {transform} | {' | '.join(_cell(row, best) for row in found)} |")
    return "\n".join(lines)


def _cell(row: Record | None, best: dict[str, float]) -> str:
    if row is None:
        return ""
    value = f"{row['relative_mse']:.2g}" if row["relative_mse"] < 1 else f"{row['relative_mse']:.1f}"
    value = f"**{value}**" if row["relative_mse"] == best[row["task"]] else value
    return f"{value} ({row['seconds']:.2g})"


# -- command ---------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".learners"),
        metavar="DIR",
        help="folder of results and tables (default: %(default)s)",
    )
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="only these tasks")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models, as learner/transform")
    parser.add_argument(
        "--seeds",
        type=parse_seeds,
        default=list(range(DEFAULT_SEEDS)),
        metavar="N|A-B",
        help=f"seeds (default: {DEFAULT_SEEDS}, 0 to {DEFAULT_SEEDS - 1})",
    )
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="training rows (default: 100 500 2000)")
    parser.add_argument("--quick", action="store_true", help=f"one seed of {FEW} rows")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder of the data files (default: SOFTBOOST_DATA)"
    )
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    seeds, rows = (args.seeds[:QUICK_SEEDS], [FEW]) if args.quick else (args.seeds, args.rows)
    try:
        table = run(args.out, args.tasks, args.models, seeds, rows, args.data_dir, args.n_jobs)
    except ValueError as error:
        _say(f"error: {error}")
        return 2
    print(table)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost benchmark learners", description=__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
