"""The command ``softboost reproduce``: runs experiments and writes tables, figures and a report."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .outcome import Outcome

if TYPE_CHECKING:
    from .results import Unit

WHAT = ("all", "table1", "table2", "orders", "figure1", "figure2", "overhead")
DEFAULT_OUT = Path("out")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``softboost reproduce`` to a parser."""
    parser.add_argument("what", nargs="?", choices=WHAT, default="all", help="what to reproduce (default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIR",
        help="folder for tables, figures and report.html (default: %(default)s); an interrupted run resumes there",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of the data files (default: SOFTBOOST_DATA, otherwise they are downloaded)",
    )
    parser.add_argument("--quick", action="store_true", help="a reduced version of all experiments, two minutes")
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=-1,
        metavar="N",
        help="processes (default: all cores); does not affect the results",
    )
    parser.add_argument("--config", type=Path, metavar="DIR", help="folder with other settings")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress bar")


class MissingPartError(RuntimeError):
    """Raised if a requested part cannot be produced."""


def run(
    what: str = "all",
    out: Path = DEFAULT_OUT,
    data_dir: Path | None = None,
    quick: bool = False,
    n_jobs: int = -1,
    config: Path | None = None,
    quiet: bool = True,
) -> Outcome:
    """Run experiments, skip existing results, and write tables, figures and the report.

    The report also shows the tables and figures of parts that an earlier run left in the folder.

    Parameters
    ----------
    what : {"all", "table1", "table2", "orders", "figure1", "figure2", "overhead"}
        ``"orders"``, part of ``"table2"``, is BSDT-Q with shuffled columns and with other starts of Q.
    out : Path
        Folder of ``results.jsonl`` (one line per fit), the tables, the figures and ``report.html``.
    data_dir : Path or None, default=None
        As in :func:`softboost.datasets.find_file`.
    quick : bool, default=False
        Run the reduced version defined in the settings.
    n_jobs : int, default=-1
        Number of processes; -1 uses all cores.
    config : Path or None, default=None
        Folder with settings that replace those of the package.
    quiet : bool, default=True
        Show no progress bar.

    Returns
    -------
    Outcome
    """
    from . import page, table2  # noqa: PLC0415 - the libraries behind these take a second to load
    from .results import Results  # noqa: PLC0415
    from .settings import NAMES, load_settings  # noqa: PLC0415

    start = time.perf_counter()
    outcome = Outcome(out, quick, settings={name: load_settings(name, quick, config) for name in NAMES})
    if what not in ("table1",):
        outcome.settings["table2"], outcome.remarks = table2.available(outcome.settings["table2"], data_dir)
    plan = _plan(what, outcome, data_dir)
    units = sorted((unit for part in plan.values() for unit in part), key=table2.by_cost)
    by_key = {record["key"]: record for record in Results(out).complete(units, n_jobs, quiet)}
    outcome.records = {name: [by_key[unit.key] for unit in part] for name, part in plan.items()}
    _write(what, outcome)
    _keep_earlier(outcome)
    outcome.seconds = time.perf_counter() - start
    page.write(outcome)
    return outcome


def _plan(what: str, outcome: Outcome, data_dir: Path | None) -> "dict[str, list[Unit]]":
    """Units of each requested part."""
    from . import orders, overhead, table1, table2  # noqa: PLC0415

    settings = outcome.settings
    plan: dict[str, list[Unit]] = {}
    if what in ("all", "table1"):
        plan["table1"] = table1.units(settings["table1"])
    if what in ("all", "table2"):
        plan["script"] = table2.units(settings["table2"], data_dir, "script")
        plan["clean"] = table2.units(settings["table2"], data_dir, "clean")
        plan["published"] = table2.published_units(settings["table2"], data_dir)
    if what in ("all", "table2", "orders") and "bsdt_q" in settings["table2"]["models"]:
        plan["orders"] = orders.units(settings["table2"], data_dir)
    for figure in ("figure1", "figure2"):
        dataset = settings["figures"][figure]["dataset"]
        if what == figure and dataset not in settings["table2"]["datasets"]:
            raise MissingPartError("; ".join(r for r in outcome.remarks if r.startswith(dataset)))
        if what in ("all", figure):
            plan[figure] = table2.units(settings["table2"], data_dir, "script", only=dataset)
    if what in ("all", "overhead"):
        plan["overhead"] = overhead.units(settings["overhead"], settings["table2"], data_dir)
    return plan


def _write(what: str, outcome: Outcome) -> None:
    """Write tables and figures from the records."""
    from . import figures, orders, overhead, table1, table2  # noqa: PLC0415

    settings, records, out = outcome.settings, outcome.records, outcome.out
    tables = outcome.tables
    if "table1" in records:
        tables["table1"] = table1.table(records["table1"], settings["table1"], settings["paper"])
    if "script" in records:
        tables["table2"] = table2.table(records["script"], settings["table2"], settings["paper"])
        tables["table2_clean"] = table2.clean_table(records["clean"], settings["table2"])
        tables["published"] = table2.published_table(records["published"], settings["table2"], settings["paper"])
    if records.get("orders"):
        tables["table2_orders"] = orders.table(records["orders"], settings["table2"], settings["paper"])
    if records.get("overhead"):
        tables["overhead"] = overhead.table(records["overhead"])
    for name, frame in tables.items():
        frame.to_csv(out / f"{name}.csv", index=False, float_format="%.6g")
    labels = {name: model["label"] for name, model in settings["table2"]["models"].items()}
    for figure in ("figure1", "figure2"):
        if records.get(figure):
            try:
                path = figures.draw(records[figure], labels, settings["figures"][figure], out / f"{figure}.png")
            except ImportError:
                remark = f"{figure}.png is left out: matplotlib is not installed (pip install 'softboost[paper]')"
                if what == figure:
                    raise MissingPartError(remark) from None
                outcome.remarks.append(remark)
            else:
                outcome.figures[figure] = path


def _keep_earlier(outcome: Outcome) -> None:
    """Add the tables and figures that an earlier run, not a quick one, left in the folder."""
    import pandas as pd  # noqa: PLC0415

    from .page import is_quick  # noqa: PLC0415

    report = outcome.out / "report.html"
    if outcome.quick or not report.exists() or is_quick(report):
        return
    table2 = outcome.settings["table2"]
    for name in ("table1", "table2", "table2_clean", "table2_orders", "published", "overhead"):
        path = outcome.out / f"{name}.csv"
        if name in outcome.tables or not path.exists():
            continue
        frame = pd.read_csv(path)
        complete = set(table2["datasets"]) <= set(frame["dataset"]) if name in ("table2", "table2_clean") else True
        if complete and ("model" not in frame or set(table2["models"]) <= set(frame["model"])):
            outcome.tables[name] = frame
            outcome.earlier.append(name)
    for name in ("figure1", "figure2"):
        path = outcome.out / f"{name}.png"
        if name not in outcome.figures and path.exists():
            outcome.figures[name] = path
            outcome.earlier.append(name)
    if outcome.earlier:
        outcome.remarks.append(
            f"From an earlier run in the same folder: {', '.join(outcome.earlier)}. The versions and the time at the "
            "end of the page are those of the other parts."
        )


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options and return the exit status."""
    try:
        outcome = run(args.what, args.out, args.data_dir, args.quick, args.n_jobs, args.config, args.quiet)
    except MissingPartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for remark in outcome.remarks:
        print(f"note: {remark}", file=sys.stderr)
    for name in ("table1", "table2", "table2_clean", "table2_orders", "overhead"):
        if name in outcome.tables and name not in outcome.earlier:
            print(f"{name}\n{outcome.tables[name].to_string(index=False, float_format='{:.4g}'.format)}\n")
    for path in [*(args.out / f"{name}.csv" for name in outcome.tables), *outcome.figures.values()]:
        if path.stem not in outcome.earlier:
            print(path)
    print(args.out / "report.html")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``python -m softboost._paper`` and return the exit status."""
    parser = argparse.ArgumentParser(prog="softboost reproduce", description="The paper's tables and figures.")
    add_arguments(parser)
    return run_from_args(parser.parse_args(argv))
