"""Units of work and their results, one line of JSON each, so that an interrupted run can be resumed."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

RESULTS = "results.jsonl"

Record = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """One unit of work whose result is stored.

    Attributes
    ----------
    experiment : str
    name : dict
        Keys of the table: data set, model, seed and so on. Copied into the record.
    settings : dict
        Everything else that the result depends on; results with other settings are not reused.
    run : callable
        Called with ``name``, ``settings`` and ``data_dir``; returns a dictionary for the record. It must be a
        module-level function, because it may run in another process.
    data_dir : Path or None, default=None
        Folder of the data files; not part of the settings, because results do not depend on it.
    alone : bool, default=False
        Run after all others and without parallel work, because it measures time.
    """

    experiment: str
    name: dict[str, Any]
    settings: dict[str, Any]
    run: Callable[[dict[str, Any], dict[str, Any], Path | None], Record] = field(compare=False)
    data_dir: Path | None = None
    alone: bool = False

    @property
    def key(self) -> str:
        """Identifier of the unit with its settings and package versions."""
        text = json.dumps([self.experiment, self.name, self.settings], sort_keys=True, default=str)
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]

    def result(self) -> Record:
        """Run the unit."""
        with threadpool_limits(limits=1):
            found = self.run(self.name, self.settings, self.data_dir)
        return {"key": self.key, "experiment": self.experiment, **self.name, **found}


class Results:
    """The records of a folder.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / RESULTS

    def read(self) -> dict[str, Record]:
        """Records by key; an incomplete line of an interrupted run is skipped."""
        records: dict[str, Record] = {}
        if not self.path.exists():
            return records
        for line in self.path.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            records[record["key"]] = record
        return records

    def complete(self, units: Sequence[Unit], n_jobs: int = -1, quiet: bool = False) -> list[Record]:
        """Run the units without a record and return the records of all units, in their order.

        Parameters
        ----------
        units : sequence of Unit
        n_jobs : int, default=-1
            Number of processes; -1 uses all cores. It does not affect the results.
        quiet : bool, default=False
            Show no progress bar; there is none either if stderr is not a terminal.
        """
        done = self.read()
        wanted = {unit.key: unit for unit in units}  # tables and figures share fits
        left = [unit for key, unit in wanted.items() if key not in done]
        # None shows a bar only on a terminal
        bar = tqdm(
            total=len(wanted), initial=len(wanted) - len(left), unit="fit", file=sys.stderr, disable=quiet or None
        )
        with bar, self.path.open("a") as file:
            if self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
                file.write("\n")
            for record in _work(left, n_jobs):
                file.write(json.dumps(record) + "\n")
                file.flush()
                done[record["key"]] = record
                bar.set_postfix_str(_label(record), refresh=False)
                bar.update()
        return [done[unit.key] for unit in units]


def _label(record: Record) -> str:
    return " ".join(str(record[key]) for key in ("experiment", "dataset", "model") if key in record)


def _work(units: Sequence[Unit], n_jobs: int) -> Iterable[Record]:
    together = [unit for unit in units if not unit.alone]
    if n_jobs == 1 or len(together) < 2:
        yield from (unit.result() for unit in together)
    else:
        jobs = (delayed(unit.result)() for unit in together)
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    yield from (unit.result() for unit in units if unit.alone)


def package_version(name: str) -> str:
    """Version of an installed package, or ``not installed``."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# Modules and packages that the fits depend on.
MODEL_PARTS = (
    "_boost",
    "_choice",
    "_core",
    "_data",
    "_kernels",
    "_linear",
    "_model",
    "_regressor",
    "losses",
    "presets",
    "transforms",
    "weak_learners",
)


@functools.lru_cache(maxsize=1)
def model_version() -> str:
    """Version of softboost with a hash of the files that its fits depend on, so that a changed model is rerun."""
    digest = hashlib.sha1(usedforsecurity=False)
    for part in MODEL_PARTS:
        spec = importlib.util.find_spec(f"softboost.{part}")
        if spec is None or spec.origin is None:
            raise ImportError(f"softboost.{part} is missing")
        origin = Path(spec.origin)
        for path in sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]:
            digest.update(path.read_bytes())
    return f"{package_version('softboost')}+{digest.hexdigest()[:8]}"
