"""Speed: softboost and LightGBM, measured alternately in one run, so that load of the machine affects both."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from softboost import SoftBoostRegressor, _kernels
from softboost.datasets import make_synthetic
from softboost.losses import LOSSES
from softboost.presets import bsdt, bsdt_q

from .peers import TunedLightGBM
from .speed_kernels import measure_kernels
from .speed_local import measure_local
from .speed_report import write_report
from .speed_torch import fit_eagerly

__all__ = ["SECTIONS", "add_arguments", "run", "run_from_args"]

Array = NDArray[Any]
Record = dict[str, Any]
PAPER_SECONDS = 190.0  # one fit of 96 rows with the authors' scripts
N_ROWS, N_COLUMNS = 100, 50
PACKAGES = ("softboost", "numpy", "scikit-learn", "lightgbm", "joblib")


def in_turn(
    work: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every repeat of each function; a repeat runs each function once, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for function in work.values():
        function()
    for _ in range(repeats):
        for name, function in work.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return seconds


def compare(measure: str, seconds: dict[str, list[float]], ours: str, other: str, target: float | None) -> Record:
    """Median times of both, and the median of the ratios within a repeat."""
    ratio = statistics.median(a / b for a, b in zip(seconds[ours], seconds[other], strict=True))
    return {
        "measure": measure,
        "seconds": statistics.median(seconds[ours]),
        "other": other,
        "other_seconds": statistics.median(seconds[other]),
        "ratio": ratio,
        "target": target,
    }


def paper_rows(n_rows: int = N_ROWS, seed: int = 0) -> tuple[Array, Array]:
    """Rows of one series of the paper's synthetic data, 50 columns."""
    frame = make_synthetic(n_series=1, n_steps=n_rows, random_state=seed)
    columns = [name for name in frame.columns if name not in ("unique_id", "ds", "y")]
    return frame[columns].to_numpy(), frame["y"].to_numpy()


def made_rows(n_rows: int, n_columns: int, seed: int = 0) -> tuple[Array, Array]:
    """Rows with five relevant columns, one product of two of them, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns))
    y = X[:, :5] @ [1.0, 0.7, 0.5, 0.3, 0.2] + np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    return X, y


def lightgbm(n_jobs: int = 1, **params: Any) -> Any:
    """LightGBM with default parameters."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_jobs=n_jobs, verbose=-1, **params)


def fixed_structure(X: Array, y: Array) -> dict[str, Any]:
    """Parameters of a plain fit with the structure that the default chooses: its boosted path of largest weight."""
    model = SoftBoostRegressor().fit(X, y)
    boosted = [member for member in model.members_ if member.boosted is not None and member.boosted.rounds]
    boosted = [member for member in boosted if hasattr(member.boosted.recipe.learner, "depth")]  # trees
    if not boosted:  # all linear: the boosted recipe of least out-of-fold loss
        return {"n_estimators": 15, "learning_rate": 0.2, "depth": 2, "leaves": "linear", "gates": "greedy",
                "init": "linear", "feature_transform": None}  # fmt: skip
    leader = max(boosted, key=lambda member: member.weight)
    assert leader.boosted is not None
    recipe = leader.boosted.recipe
    learner: Any = recipe.learner
    return {
        "n_estimators": leader.stage,
        "learning_rate": recipe.learning_rate,
        "depth": learner.depth,
        "leaves": learner.leaves,
        "gates": "greedy",
        "init": recipe.start,
        "feature_transform": recipe.transform,
    }


# -- what is measured --------------------------------------------------------------------------------------------------


def measure_fit(quick: bool) -> list[Record]:
    """Processor time of one fit of 100 x 50, with fixed parameters and with model selection."""
    X, y = paper_rows()
    params = fixed_structure(X, y)
    repeats = 5 if quick else 41
    seconds = in_turn(
        {
            "fixed": lambda: SoftBoostRegressor(**params).fit(X, y),
            "LightGBM": lambda: lightgbm().fit(X, y),
            "default": lambda: SoftBoostRegressor().fit(X, y),
        },
        repeats,
        time.process_time,
    )
    fixed = compare("fit 100 x 50, structure fixed as the default chooses it", seconds, "fixed", "LightGBM", 1.0)
    fixed["structure"] = {name: str(value) for name, value in params.items()}
    authors = {**fixed, "measure": "the same, times faster than the authors' 190 s", "other": "authors' scripts"}
    authors |= {"other_seconds": PAPER_SECONDS, "ratio": PAPER_SECONDS / fixed["seconds"], "target": 10_000.0}
    authors["at_least"] = True
    chosen = compare("fit 100 x 50, default (chooses for itself)", seconds, "default", "LightGBM", 10.0)
    return [fixed, authors, chosen, *_torch_records(X, y, quick)]


def _torch_records(X: Array, y: Array, quick: bool) -> list[Record]:
    """The paper's algorithm in softboost and in eager PyTorch, with the same rounds and steps."""
    if importlib.util.find_spec("torch") is None:
        return []
    rounds = 1 if quick else 5
    seconds = in_turn(
        {
            "ours": lambda: bsdt_q(n_estimators=rounds, random_state=0).fit(X, y),
            "eager PyTorch": lambda: fit_eagerly(X, y, n_estimators=rounds),
        },
        3 if quick else 7,
    )
    record = compare(f"BSDT-Q, {rounds} rounds of 100 steps, times faster", seconds, "ours", "eager PyTorch", 20.0)
    return [{**record, "ratio": 1 / record["ratio"], "at_least": True}]


def measure_losses(quick: bool) -> list[Record]:
    """Processor time of the default with every other loss, over that with the squared error."""
    X, y = paper_rows()
    y = np.exp(y - y.mean())  # positive, which some losses require
    others = [name for name in LOSSES if name != "squared_error"]
    names = ("squared_error", *others)
    fits: dict[str, Callable[[], Any]] = {name: partial(SoftBoostRegressor(loss=name).fit, X, y) for name in names}
    seconds = in_turn(fits, 1 if quick else 5, time.process_time)
    measure = "fit 100 x 50, default, loss={!r}"
    return [compare(measure.format(name), seconds, name, "squared_error", 2.0) for name in others]


SIZES = {1_000: 5.0, 10_000: 5.0, 100_000: 3.0}  # rows, and the target of the ratio


def measure_sizes(quick: bool) -> list[Record]:
    """Processor time of the default over that of LightGBM, on one thread, for more rows."""
    records = []
    for n_rows, target in {300: 5.0}.items() if quick else SIZES.items():
        X, y = made_rows(n_rows, N_COLUMNS)
        fits: dict[str, Callable[[], Any]] = {
            "default": partial(SoftBoostRegressor().fit, X, y),
            "LightGBM": partial(lightgbm().fit, X, y),
        }
        seconds = in_turn(fits, 1 if quick or n_rows > 1_000 else 3, time.process_time)
        measure = f"fit {n_rows:,} x 50, default, processor time"
        records.append(compare(measure, seconds, "default", "LightGBM", target))
    return records


def measure_grid_search(quick: bool) -> list[Record]:
    """The default against the paper's grid search of LightGBM in scikit-learn."""
    grid = {
        "n_estimators": (50, 100) if quick else TunedLightGBM.n_trees,
        "learning_rate": TunedLightGBM.learning_rates,
        "max_depth": TunedLightGBM.max_depths,
        "num_leaves": (31,) if quick else TunedLightGBM.num_leaves,
    }
    X, y = paper_rows()
    seconds = in_turn(
        {
            "default": lambda: SoftBoostRegressor().fit(X, y),
            "grid search": lambda: GridSearchCV(lightgbm(), grid, cv=3).fit(X, y),
        },
        1,
    )
    return [compare("fit 100 x 50, default, over LightGBM tuned on a grid", seconds, "default", "grid search", 0.05)]


def measure_predict(quick: bool) -> list[Record]:
    """Prediction of one row and of many rows."""
    X, y = paper_rows()
    ours = SoftBoostRegressor().fit(*made_rows(N_ROWS, N_COLUMNS))
    other = lightgbm(n_estimators=100).fit(X, y)
    many, _ = made_rows(5_000 if quick else 100_000, N_COLUMNS)
    one = in_turn({"ours": lambda: ours.predict(X[:1]), "LightGBM": lambda: other.predict(X[:1])}, 50 if quick else 500)
    all_ = in_turn({"ours": lambda: ours.predict(many), "LightGBM": lambda: other.predict(many)}, 3 if quick else 9)
    trees = len(ours._fitted.ensemble.trees)
    return [
        compare(f"predict one row ({trees} trees)", one, "ours", "LightGBM", 1.0),
        compare(f"predict {len(many):,} x 50 ({trees} trees)", all_, "ours", "LightGBM", 1.5),
    ]


def measure_q(quick: bool) -> list[Record]:
    """Cost of learning Q: time of BSDT-Q over BSDT with equal rounds and steps."""
    records = []
    for n_rows in (100,) if quick else (100, 1_000):
        X, y = made_rows(n_rows, N_COLUMNS)
        rounds = 2 if quick else 10
        seconds = in_turn(
            {
                "BSDT": lambda: bsdt(n_estimators=rounds, random_state=0).fit(X, y),  # noqa: B023
                "5": lambda: bsdt_q(n_estimators=rounds, n_components=5, random_state=0).fit(X, y),  # noqa: B023
                "50": lambda: bsdt_q(n_estimators=rounds, random_state=0).fit(X, y),  # noqa: B023
            },
            3 if quick else 15,
        )
        records.append(compare(f"BSDT-Q, 5 components, {n_rows:,} x 50", seconds, "5", "BSDT", 1.3))
        records.append(compare(f"BSDT-Q, square Q of 50, {n_rows:,} x 50", seconds, "50", "BSDT", 2.0))
    return records


def measure_many(quick: bool) -> list[Record]:
    """Many small models: two processes against one, and against LightGBM."""
    X, y = paper_rows()
    params = fixed_structure(X, y)
    n_fits = 40 if quick else 1_000
    rng = np.random.default_rng(0)
    targets = [y + 0.1 * rng.standard_normal(len(y)) for _ in range(n_fits)]

    def fits(n_jobs: int, make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: Parallel(n_jobs=n_jobs)(delayed(_fit_one)(make, X, target) for target in targets)

    make = _Maker(params)
    seconds = in_turn({"two": fits(2, make), "one": fits(1, make), "LightGBM": fits(1, lightgbm)}, 1 if quick else 3)
    return [
        compare(f"{n_fits:,} fits of 100 x 50, n_jobs=2 over n_jobs=1", seconds, "two", "one", 0.55),
        compare(f"{n_fits:,} fits of 100 x 50, n_jobs=1", seconds, "one", "LightGBM", 1.0),
    ]


class _Maker:
    """Creates the estimator in the process that fits it."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def __call__(self) -> SoftBoostRegressor:
        return SoftBoostRegressor(**self.params)


def _fit_one(make: Callable[[], Any], X: Array, y: Array) -> float:
    return float(make().fit(X, y).predict(X[:1])[0])


def measure_growth(quick: bool) -> list[Record]:
    """Growth of the default's fit time with rows and columns: log-log slopes, and the memory of the largest fit."""
    rows = (100, 200) if quick else (1_000, 10_000, 100_000, 1_000_000)
    columns = (10, 20) if quick else (10, 50, 250, 1_000, 2_000)
    points = [("rows", n, n, N_COLUMNS) for n in rows] + [("columns", d, rows[0], d) for d in columns]
    by_axis: dict[str, list[Record]] = {"rows": [], "columns": []}
    for axis, value, n_rows, n_columns in tqdm(points, desc="growth", unit="fit", file=sys.stderr):
        found = _in_own_process(n_rows, n_columns, 1 if quick else 2)  # LightGBM's threads crawl on a busy machine
        by_axis[axis].append({"axis": axis, "value": value, **found})
    records: list[Record] = []
    for axis, points_of in by_axis.items():
        slope = np.polyfit(np.log([f["value"] for f in points_of]), np.log([f["seconds"] for f in points_of]), 1)[0]
        first, last = points_of[0], points_of[-1]
        records.append(
            {
                "measure": f"growth of fit time with {axis}, slope from {first['value']:,} to {last['value']:,}",
                "seconds": last["seconds"],
                "other": "LightGBM",
                "other_seconds": last["lightgbm_seconds"],
                "ratio": float(slope),
                "target": 1.1,
                "points": points_of,
            }
        )
    largest = by_axis["rows"][-1]
    records.append(
        {
            "measure": f"fit {largest['value']:,} x 50, two threads",
            "seconds": largest["seconds"],
            "other": "LightGBM",
            "other_seconds": largest["lightgbm_seconds"],
            "ratio": largest["seconds"] / largest["lightgbm_seconds"],
            "target": 1.0,
        }
    )
    records.append(
        {
            "measure": f"fit {largest['value']:,} x 50, memory on top of the data, over the data",
            "ratio": largest["extra_bytes"] / largest["data_bytes"],
            "target": 1.0,
        }
    )
    return records


def _in_own_process(n_rows: int, n_columns: int, n_jobs: int) -> Record:
    """Seconds and peak memory of one fit of each library, in a separate process."""
    code = f"from softboost._benchmarks.speed import one_fit; one_fit({n_rows}, {n_columns}, {n_jobs})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: Record = json.loads(done.stdout)
    return found


def one_fit(n_rows: int, n_columns: int, n_jobs: int) -> None:
    """Fit both libraries to synthetic rows and print time and memory as JSON; memory is that of softboost only."""
    X, y = made_rows(n_rows, n_columns)
    small = made_rows(200, n_columns)
    SoftBoostRegressor(n_jobs=n_jobs).fit(*small)
    lightgbm(n_jobs).fit(*small)
    best: dict[str, float] = {}
    before = _peak_memory(reset=True)
    for _ in range(3 if n_rows * n_columns < 1_000_000 else 1):
        start = time.perf_counter()
        SoftBoostRegressor(n_jobs=n_jobs).fit(X, y)
        best["seconds"] = min(best.get("seconds", np.inf), time.perf_counter() - start)
        after = _peak_memory()
        start = time.perf_counter()
        lightgbm(n_jobs).fit(X, y)
        best["lightgbm_seconds"] = min(best.get("lightgbm_seconds", np.inf), time.perf_counter() - start)
        extra = max(best.get("extra_bytes", 0.0), 0.0 if best.get("extra_bytes") else float(after - before))
        best["extra_bytes"] = extra
    print(json.dumps({**best, "data_bytes": X.nbytes}))


def _peak_memory(reset: bool = False) -> int:
    """Peak resident memory of this process in bytes; ``reset`` restarts the measurement (Linux)."""
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        import resource  # noqa: PLC0415

        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_import(quick: bool) -> list[Record]:
    """Import time beyond that of scikit-learn, each in a fresh process."""
    code = (
        "import time; import sklearn.linear_model, sklearn.model_selection; start = time.perf_counter(); "
        "import softboost; print(time.perf_counter() - start)"
    )
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(3 if quick else 11)
    ]
    middle = statistics.median(seconds)
    return [{"measure": "import beyond scikit-learn, seconds", "seconds": middle, "ratio": middle, "target": 0.15}]


SECTIONS: dict[str, Callable[[bool], list[Record]]] = {
    "fit": measure_fit,
    "losses": measure_losses,
    "sizes": measure_sizes,
    "grid": measure_grid_search,
    "predict": measure_predict,
    "q": measure_q,
    "kernels": measure_kernels,
    "many": measure_many,
    "local": measure_local,
    "import": measure_import,
    "growth": measure_growth,
}


def environment() -> Record:
    """Versions and machine."""
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "instruction_set": _kernels.instruction_set(),
    }


def run(out: Path, sections: Sequence[str], quick: bool) -> str:
    """Measure, write speed.json, speed.md and growth.png to ``out``, and return the table in Markdown."""
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        raise ValueError(f"unknown section {unknown[0]!r}; choose from {', '.join(SECTIONS)}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "speed.json"
    result: Record = {"environment": environment(), "sections": {}}
    if path.exists():  # keep the results of other sections
        result["sections"] = json.loads(path.read_text(encoding="utf-8"))["sections"]
    for name in tqdm(sections, unit="section", file=sys.stderr):
        with threadpool_limits(limits=1):
            result["sections"][name] = SECTIONS[name](quick)
        path.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return write_report(result, out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument("--out", type=Path, default=Path(".speed"), help="folder of the results (%(default)s)")
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), metavar="NAME", help="only these sections")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats, to check that it runs")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    try:
        print(run(args.out, args.sections, args.quick))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
