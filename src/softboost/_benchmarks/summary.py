"""Tables of the arena: means per family, ratios to the best peer, wins, ranks and their critical difference."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from .families import FAMILIES
from .peers import PEERS, SUBJECT
from .task import FloatArray

TIE = 0.01
LIMIT = 1.05
Scores = dict[str, dict[int, float]]


@dataclass(frozen=True)
class FamilyRow:
    """The results of one family.

    Parameters
    ----------
    family : str
    n_tasks : int
        Number of tasks that are compared.
    means : dict
        Mean relative MSE of each model that ran on all of these tasks.
    partial : dict
        The same for models that ran only on some tasks; they are not compared.
    best_peer : str
        The peer with the smallest mean, chosen in hindsight.
    ratio : float
        Mean of softboost divided by the mean of the best peer; NaN without softboost.
    interval : tuple of float
        Bootstrap interval of the ratio over tasks, 95 percent.
    median_ratio : float
        Median over tasks of the ratio to the best peer.
    wins, ties, losses : int
        Number of tasks where softboost is better than the best peer, within one percent of it, and worse.
    """

    family: str
    n_tasks: int
    means: dict[str, float]
    partial: dict[str, float]
    best_peer: str
    ratio: float
    interval: tuple[float, float]
    median_ratio: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over families and their critical difference."""

    mean_rank: dict[str, float]
    n_families: int
    p_value: float
    critical_difference: float


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read the results of a run; the last of several lines on the same fit is used."""
    if not path.is_file():
        return []
    records: dict[tuple[str, int, str], dict[str, Any]] = {}
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # an incomplete line of an interrupted run
            continue
        records[record["family"], record["seed"], record["model"]] = record
    return list(records.values())


def scores_by_family(records: Iterable[dict[str, Any]]) -> dict[str, Scores]:
    """Relative MSE by family, model and seed.

    Raises
    ------
    ValueError
        If two models were run on different data under the same family and seed.
    """
    scores: dict[str, Scores] = {}
    digests: dict[tuple[str, int], str] = {}
    for record in records:
        if "error" in record:
            continue
        family, seed = record["family"], record["seed"]
        if digests.setdefault((family, seed), record["task"]) != record["task"]:
            raise ValueError(f"results of {family}, seed {seed}, come from different data; use a new folder")
        scores.setdefault(family, {}).setdefault(record["model"], {})[seed] = record["relative_mse"]
    return scores


def summarise_family(family: str, scores: Scores) -> FamilyRow:
    """Compare the models of one family on the tasks of softboost (on all tasks if softboost did not run)."""
    seeds = sorted(scores[SUBJECT]) if SUBJECT in scores else sorted(set().union(*scores.values()))
    complete = {name: values for name, values in scores.items() if set(seeds) <= set(values)}
    means = {name: float(np.mean([values[s] for s in seeds])) for name, values in complete.items()}
    partial = {name: float(np.mean(list(scores[name].values()))) for name in scores.keys() - complete.keys()}
    peers = {name: mean for name, mean in means.items() if name != SUBJECT}
    best = min(peers, key=lambda name: peers[name]) if peers else ""
    if not best or SUBJECT not in means:
        nothing = (math.nan, math.nan)
        return FamilyRow(family, len(seeds), means, partial, best, math.nan, nothing, math.nan, 0, 0, 0)
    ours = np.array([scores[SUBJECT][s] for s in seeds])
    theirs = np.array([scores[best][s] for s in seeds])
    wins, ties, losses = win_tie_loss(ours, theirs)
    ratio = means[SUBJECT] / means[best]
    interval = bootstrap_ratio(ours, theirs)
    median = float(np.median(ours / theirs))
    return FamilyRow(family, len(seeds), means, partial, best, ratio, interval, median, wins, ties, losses)


def win_tie_loss(ours: FloatArray, theirs: FloatArray) -> tuple[int, int, int]:
    """Count tasks where ``ours`` is smaller, within one percent, and larger."""
    ratio = ours / theirs
    wins, losses = int(np.sum(ratio < 1 - TIE)), int(np.sum(ratio > 1 + TIE))
    return wins, len(ratio) - wins - losses, losses


def bootstrap_ratio(ours: FloatArray, theirs: FloatArray, n_samples: int = 2000) -> tuple[float, float]:
    """Bootstrap interval of the ratio of two means over tasks, 95 percent."""
    rows = np.random.default_rng(0).integers(0, len(ours), (n_samples, len(ours)))
    low, high = np.quantile(ours[rows].mean(axis=1) / theirs[rows].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean; NaN for no values."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else math.nan


def rank_models(rows: Sequence[FamilyRow], level: float = 0.05) -> Ranks | None:
    """Rank the models that ran on every family by their means.

    The critical difference is Nemenyi's, ``q sqrt(k (k + 1) / (6 N))`` for k models on N families; the p-value is that
    of Friedman's test. None with fewer than three models or two families.
    """
    names = [name for name in PEERS if all(name in row.means for row in rows)]
    if len(names) < 3 or len(rows) < 2:
        return None
    means = np.array([[row.means[name] for name in names] for row in rows])
    ranks = rankdata(means, axis=1).mean(axis=0)
    k, n = len(names), len(rows)
    q = studentized_range.ppf(1 - level, k, math.inf) / math.sqrt(2)
    p_value = float(friedmanchisquare(*means.T).pvalue)
    mean_rank = {name: float(rank) for name, rank in sorted(zip(names, ranks, strict=True), key=lambda x: x[1])}
    return Ranks(mean_rank, n, p_value, float(q * math.sqrt(k * (k + 1) / (6 * n))))


def summarise(records: Iterable[dict[str, Any]]) -> list[FamilyRow]:
    """Summarise each family, in the order of the registry."""
    scores = scores_by_family(records)
    return [summarise_family(family, scores[family]) for family in FAMILIES if family in scores]


def write_tables(results: Path, out: Path, families: Iterable[str] = FAMILIES) -> str:
    """Write ``table.csv`` and ``table.md``.

    Parameters
    ----------
    results : Path
        File of results.
    out : Path
        Folder of the tables.
    families : iterable of str, default=all
        Families to show; a run of the development families does not show results of held-out families.

    Returns
    -------
    str
        The Markdown text.
    """
    shown = set(families)
    records = [record for record in read_results(results) if record["family"] in shown]
    rows = summarise(records)
    with (out / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(csv_rows(rows))
    text = markdown(rows, records)
    (out / "table.md").write_text(text)
    return text


def _models(rows: Sequence[FamilyRow]) -> list[str]:
    return [name for name in PEERS if any(name in row.means or name in row.partial for row in rows)]


def csv_rows(rows: Sequence[FamilyRow]) -> list[list[str]]:
    """A header and one row per family with all numbers."""
    models = _models(rows)
    comparison = ["best_peer", "ratio", "ratio_low", "ratio_high", "median_ratio", "wins", "ties", "losses"]
    table = [["family", "split", "n_tasks", *models, *comparison]]
    for row in rows:
        numbers = [row.means.get(name, math.nan) for name in models]
        ratios = [row.ratio, *row.interval, row.median_ratio]
        table.append(
            [
                row.family,
                FAMILIES[row.family].split,
                str(row.n_tasks),
                *(_number(x, 6) for x in numbers),
                row.best_peer,
                *(_number(x, 6) for x in ratios),
                *(str(x) for x in (row.wins, row.ties, row.losses)),
            ]
        )
    return table


def _number(value: float, digits: int = 3) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def _cell(row: FamilyRow, model: str) -> str:
    if model in row.partial:
        return f"{_number(row.partial[model])}*"
    text = _number(row.means.get(model, math.nan))
    return f"**{text}**" if text and row.means[model] <= min(row.means.values()) else text


def _table(header: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *body)]


def markdown(rows: Sequence[FamilyRow], records: Sequence[dict[str, Any]]) -> str:
    """Write the report of a run in Markdown."""
    lines = ["# Accuracy arena", "", "Mean relative test MSE (test MSE / variance of the training targets)."]
    lines += ["Bold: the smallest of the row; a star: not all tasks of the row, not compared.", ""]
    lines += _means_table(rows)
    if any(not math.isnan(row.ratio) for row in rows):
        lines += ["", f"## {SUBJECT} against the best peer of each family", "", *_ratio_table(rows)]
        lines += ["", "## Totals", "", *_totals_table(rows)]
    lines += ["", "## Mean ranks", "", *_ranks_lines(rows)]
    lines += ["", "## Seconds a fit", "", *_seconds_table(records)]
    lines += _error_lines(records)
    return "\n".join(lines) + "\n"


def _means_table(rows: Sequence[FamilyRow]) -> list[str]:
    models = _models(rows)
    header = ["family", "split", "tasks", *models]
    return _table(
        header,
        [
            [row.family, FAMILIES[row.family].split, str(row.n_tasks), *(_cell(row, name) for name in models)]
            for row in rows
        ],
    )


def _ratio_table(rows: Sequence[FamilyRow]) -> list[str]:
    header = [
        "family",
        "split",
        SUBJECT,
        "best peer",
        "its mean",
        "ratio",
        "95 %",
        "median ratio",
        "win/tie/loss",
    ]
    return _table(
        header,
        [
            [
                row.family,
                FAMILIES[row.family].split,
                _number(row.means[SUBJECT]),
                row.best_peer,
                _number(row.means[row.best_peer]),
                f"{row.ratio:.3f}",
                f"{row.interval[0]:.2f}-{row.interval[1]:.2f}",
                f"{row.median_ratio:.3f}",
                f"{row.wins}/{row.ties}/{row.losses}",
            ]
            for row in rows
            if not math.isnan(row.ratio)
        ],
    )


def _totals_table(rows: Sequence[FamilyRow]) -> list[str]:
    compared = [row for row in rows if not math.isnan(row.ratio)]
    groups = {
        "the nine": [row for row in compared if FAMILIES[row.family].core],
        "dev": [row for row in compared if FAMILIES[row.family].split == "dev"],
        "heldout": [row for row in compared if FAMILIES[row.family].split == "heldout"],
        "all": compared,
    }
    header = [
        "families",
        "number",
        "geometric mean",
        "at or below 1.00",
        f"above {LIMIT}",
        "worst",
        "win/tie/loss",
    ]
    return _table(header, [_totals_row(name, group) for name, group in groups.items() if group])


def _totals_row(name: str, rows: Sequence[FamilyRow]) -> list[str]:
    ratios = [row.ratio for row in rows]
    worst = max(rows, key=lambda row: row.ratio)
    counts = [sum(getattr(row, outcome) for row in rows) for outcome in ("wins", "ties", "losses")]
    return [
        name,
        str(len(rows)),
        f"{geometric_mean(ratios):.3f}",
        str(sum(ratio <= 1 for ratio in ratios)),
        str(sum(ratio > LIMIT for ratio in ratios)),
        f"{worst.family} {worst.ratio:.3f}",
        "/".join(map(str, counts)),
    ]


def _ranks_lines(rows: Sequence[FamilyRow]) -> list[str]:
    ranks = rank_models(rows)
    if ranks is None:
        return ["Too few families or models to rank."]
    intro = (
        f"Over {ranks.n_families} families, models that ran on all of them. Friedman test p = {ranks.p_value:.2g}; "
        f"two mean ranks differ if more than {ranks.critical_difference:.2f} apart (Nemenyi, 5 percent)."
    )
    body = [[name, f"{rank:.2f}"] for name, rank in ranks.mean_rank.items()]
    return [intro, "", *_table(["model", "mean rank"], body)]


def _seconds_table(records: Sequence[dict[str, Any]]) -> list[str]:
    seconds: dict[str, list[float]] = {}
    versions: dict[str, set[str]] = {}
    for record in records:
        if "error" not in record:
            seconds.setdefault(record["model"], []).append(record["seconds"])
            versions.setdefault(record["model"], set()).add(record["version"])
    body = [
        [name, f"{np.median(seconds[name]):.4f}", ", ".join(sorted(versions[name])), PEERS[name].about]
        for name in PEERS
        if name in seconds
    ]
    return _table(["model", "median", "version", "setting"], body)


def _error_lines(records: Sequence[dict[str, Any]]) -> list[str]:
    failed = [record for record in records if "error" in record]
    if not failed:
        return []
    lines = [f"- {r['model']} on {r['family']}, seed {r['seed']}: {r['error']}" for r in failed[:20]]
    return ["", f"## Fits that failed ({len(failed)})", "", *lines]
