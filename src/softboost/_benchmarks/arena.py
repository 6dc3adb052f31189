"""The accuracy arena: softboost and its peers on the same splits of many families of small data sets.

Run it with ``softboost benchmark accuracy`` or ``python -m softboost._benchmarks.arena``.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .families import FAMILIES, SPLITS, select_families
from .peers import PEERS, SUBJECT, Peer, select_peers
from .summary import read_results, write_tables
from .task import Family, MissingDataError, Task

RESULTS = "results.jsonl"
QUICK_SEEDS = 2
DEFAULT_SEEDS = 10

Record = dict[str, Any]
Unit = tuple[str, int, tuple[str, ...]]


def run(
    out: Path,
    families: list[str] | None = None,
    models: list[str] | None = None,
    seeds: Sequence[int] = range(DEFAULT_SEEDS),
    split: str = "dev",
    quick: bool = False,
    data_dir: Path | None = None,
    n_jobs: int = 1,
    redo: Sequence[str] = (),
) -> str:
    """Run the arena, skip existing results, and write the tables.

    Parameters
    ----------
    out : Path
        Folder of ``results.jsonl`` (one line per family, seed and model), ``table.csv`` and ``table.md``.
    families, models : list of str or None
        Names to run; by default all families of the split and all models.
    seeds : sequence of int, default=range(10)
        Every seed draws another task of each family, or several tasks, depending on the family.
    split : {"dev", "heldout", "all"}, default="dev"
        Split of the families to run.
    quick : bool, default=False
        Two seeds and no slow peers.
    data_dir : Path or None
        Folder of the data files.
    n_jobs : int, default=1
        Number of processes. Each fit uses one thread.
    redo : sequence of str
        Models whose existing results are replaced.

    Returns
    -------
    str
        The table of the selected families in Markdown.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / RESULTS
    chosen = select_families(split, families)
    peers = [peer for peer in select_peers(models, fast_only=quick) if _is_available(peer)]
    seeds = list(seeds)[:QUICK_SEEDS] if quick else list(seeds)
    present = [family for family in chosen if _is_present(family, data_dir)]
    done = _finished(read_results(path), redo)
    units = list(_units(present, peers, seeds, done))
    _run_units(units, path, data_dir, n_jobs)
    _warn_of_other_builds(read_results(path))
    return write_tables(path, out, [family.name for family in chosen])


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def _is_available(peer: Peer) -> bool:
    if not peer.available():
        _say(f"missing model {peer.name}: the package {peer.package} is not installed")
        return False
    return True


def _is_present(family: Family, data_dir: Path | None) -> bool:
    try:
        family.task(0, data_dir)
    except MissingDataError as error:
        _say(f"skipped family {family.name}: {error}")
        return False
    return True


def _finished(records: Iterable[Record], redo: Sequence[str]) -> set[tuple[str, int, str]]:
    return {
        (record["family"], record["seed"], record["model"])
        for record in records
        if "error" not in record and record["model"] not in redo
    }


def _units(
    families: list[Family], peers: list[Peer], seeds: list[int], done: set[tuple[str, int, str]]
) -> Iterator[Unit]:
    """Yield the missing fits, one task at a time: fast models on every family, then each slow model."""
    fast = tuple(peer.name for peer in peers if not peer.slow)
    stages = [fast, *((peer.name,) for peer in peers if peer.slow)]
    for stage in stages:
        for family in families:
            for seed in family.task_seeds(seeds):
                left = tuple(name for name in stage if (family.name, seed, name) not in done)
                if left:
                    yield family.name, seed, left


def _run_units(units: list[Unit], path: Path, data_dir: Path | None, n_jobs: int) -> None:
    if not units:
        return
    if n_jobs == 1:
        batches = (run_unit(unit, data_dir) for unit in units)
    else:
        jobs = (delayed(run_unit)(unit, data_dir) for unit in units)
        batches = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    with path.open("a") as file, tqdm(total=len(units), unit="task", file=sys.stderr) as bar:
        for records in batches:
            file.writelines(json.dumps(record) + "\n" for record in records)
            file.flush()
            bar.set_postfix_str(f"{records[0]['family']} {records[0]['seed']}" if records else "")
            bar.update()


def run_unit(unit: Unit, data_dir: Path | None) -> list[Record]:
    """Fit some models on one task.

    Parameters
    ----------
    unit : tuple
        Family, seed and the models to fit.
    data_dir : Path or None
        Folder of the data files.

    Returns
    -------
    list of dict
        One record per model that applies to the task.
    """
    family, seed, models = unit
    task = FAMILIES[family].task(seed, data_dir)
    with threadpool_limits(limits=1):
        return [
            {
                "family": family,
                "seed": seed,
                "model": name,
                "task": task.digest(),
                **score(PEERS[name], seed, task),
            }
            for name in models
            if PEERS[name].applies_to(task)
        ]


def score(peer: Peer, seed: int, task: Task) -> Record:
    """Fit one model on one task and score it; the error of a model that fails is recorded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = peer.make(seed, task)
            start = time.perf_counter()
            model.fit(task.X_train, task.y_train)
            seconds = time.perf_counter() - start
            prediction = np.asarray(model.predict(task.X_test), dtype=np.float64).ravel()
    except Exception as error:  # the other models must still run
        return {"error": f"{type(error).__name__}: {error}"[:300], "version": peer.version()}
    mse = float(np.mean((task.y_test - prediction) ** 2))
    return {
        "mse": mse,
        "relative_mse": mse / float(task.y_train.var()),
        "seconds": round(seconds, 5),
        "version": peer.version(),
    }


def _warn_of_other_builds(records: Iterable[Record]) -> None:
    peer = PEERS[SUBJECT]
    versions = {record["version"] for record in records if record["model"] == SUBJECT}
    if versions and peer.available() and versions != {peer.version()}:
        _say(f"note: some {SUBJECT} results come from another build; --redo {SUBJECT} runs them again")


def parse_seeds(text: str) -> list[int]:
    """Parse ``10`` as the seeds 0 to 9 and ``300-311`` as the seeds 300 to 311."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else list(range(int(first)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the arena to a command-line parser."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".arena"),
        metavar="DIR",
        help="folder of results and tables (default: %(default)s)",
    )
    parser.add_argument("--split", choices=SPLITS, default="dev", help="families to run (default: %(default)s)")
    parser.add_argument("--families", nargs="+", metavar="NAME", help="only these families, from any split")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument(
        "--seeds",
        type=parse_seeds,
        default=list(range(DEFAULT_SEEDS)),
        metavar="N|A-B",
        help="seeds (default: 10, 0 to 9)",
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, no slow peers: under two minutes")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder of the data files (default: SOFTBOOST_DATA)"
    )
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--redo", nargs="+", default=[], metavar="MODEL", help="run these models again")
    parser.add_argument("--list", action="store_true", help="list families and models and exit")


def describe() -> str:
    """List families and models as text."""
    lines = ["families"]
    for family in FAMILIES.values():
        low, high = family.rows
        rows = str(low) if low == high else f"{low}-{high}"
        lines.append(f"  {family.name:18} {family.split:8} {rows:>7} x {family.columns:<4} {family.about}")
    lines.append("models")
    for peer in PEERS.values():
        missing = "" if peer.available() else "  (missing)"
        lines.append(f"  {peer.name:18} {peer.about}{missing}")
    return "\n".join(lines)


def run_from_args(args: argparse.Namespace) -> int:
    """Run the arena with parsed options and return the exit status."""
    if args.list:
        print(describe())
        return 0
    try:
        table = run(
            out=args.out,
            families=args.families,
            models=args.models,
            seeds=args.seeds,
            split=args.split,
            quick=args.quick,
            data_dir=args.data_dir,
            n_jobs=args.n_jobs,
            redo=args.redo,
        )
    except ValueError as error:
        _say(f"error: {error}")
        return 2
    print(table)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the arena from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost benchmark accuracy", description=__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
