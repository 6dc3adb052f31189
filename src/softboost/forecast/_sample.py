"""Sampling of series, and reading of panels in which some series are invalid.

The sample depends only on the ids, not on the order of the rows, their partitions or the library of the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from ._frame import LongFrame, infer_freq, keys_of, read_long, take
from ._frame_forms import Names
from ._panel import Array

__all__ = ["largest_key", "names_of", "parts_of", "read_sample", "readable", "rows_up_to", "sketch"]

MOST_ROWS = 3_000_000  # maximum number of rows in the sample
TRIED = 16  # series that are read one by one before reading fails

Read = Callable[[Any], LongFrame]


def names_of(model: Any) -> Names:
    """Column names of a forecaster."""
    return Names(model.id_col, model.time_col, model.target_col)


def sketch(df: Any, names: Names, most: int) -> pd.DataFrame:
    """The ``most`` smallest keys of the ids in a part of a frame, and the number of rows of each.

    The sketches of all parts contain the smallest keys of the whole frame, however it is partitioned. The row with key
    -1 contains the number of all rows.
    """
    key, code = _keys_of_rows(df, names)
    counts = np.bincount(code, minlength=len(key))
    first = np.argsort(key)[:most]
    return pd.DataFrame({"key": [-1, *key[first]], "n_rows": [len(code), *counts[first]]})


def largest_key(sketches: pd.DataFrame, most: int) -> int:
    """Largest key in the sample, which has at most ``most`` series and about ``MOST_ROWS`` rows."""
    counted = sketches[sketches["key"] >= 0]
    merged = counted.groupby("key", sort=True)["n_rows"].sum().iloc[:most]
    within = np.cumsum(merged.to_numpy()) <= MOST_ROWS
    return int(merged.index[max(int(within.sum()), 1) - 1])


def rows_up_to(df: Any, names: Names, largest: int) -> Any:
    """Rows of the series in the sample."""
    key, code = _keys_of_rows(df, names)
    return take(df, np.flatnonzero((key <= largest)[code]))


def parts_of(df: Any, names: Names, n_parts: int) -> list[Any]:
    """The frame in parts of whole series."""
    key, code = _keys_of_rows(df, names)
    part = np.empty(len(key), dtype=np.int64)
    part[np.argsort(key, kind="stable")] = np.arange(len(key)) * n_parts // max(len(key), 1)
    order = np.argsort(part[code], kind="stable")
    stops = np.searchsorted(part[code][order], np.arange(1, n_parts))
    return [take(df, rows) for rows in np.split(order, stops) if len(rows)]


def _keys_of_rows(df: Any, names: Names) -> tuple[Array, Array]:
    """Keys of the ids of a frame, and the index of the id of each row."""
    code, ids = pd.factorize(
        np.asarray(nw.from_native(df, eager_only=True).get_column(names.id).to_list(), dtype=object)
    )
    if np.any(code < 0):
        raise ValueError(f"column {names.id!r} is empty in some rows; fill it or drop the rows")
    return keys_of(list(ids)), code


def read_sample(model: Any, df: Any) -> tuple[LongFrame, dict[Any, str]]:
    """The readable series of a sample and the problems of the others; raises ValueError if none is readable."""
    names = names_of(model)

    def read(rows: Any) -> LongFrame:
        freq = model.freq if model.freq is not None else infer_freq(rows, names)
        return read_long(rows, freq, names, static=model.static_features, gaps=model.gaps)

    try:
        return read(df), {}
    except ValueError:
        key, code = _keys_of_rows(df, names)
        tried = np.unique(np.linspace(0, len(key) - 1, min(len(key), TRIED)).astype(int))
        if len(key) == 1 or not any(_reads(take(df, np.flatnonzero(code == i)), read) for i in tried):
            raise
    frame, flags = readable(df, names, read)
    assert frame is not None
    return frame, flags


def _reads(df: Any, read: Read) -> bool:
    try:
        read(df)
    except ValueError:
        return False
    return True


def readable(df: Any, names: Names, read: Read) -> tuple[LongFrame | None, dict[Any, str]]:
    """The readable series of a frame and the problems of the others, found by bisection."""
    try:
        return read(df), {}
    except ValueError as error:
        whole = error
    ids = nw.from_native(df, eager_only=True).get_column(names.id).to_list()
    code, kept = pd.factorize(np.asarray(ids, dtype=object))
    if len(kept) == 1:
        return None, {kept[0]: str(whole)}
    flags: dict[Any, str] = {}
    for half in (code < len(kept) // 2, code >= len(kept) // 2):
        flags.update(readable(take(df, np.flatnonzero(half)), names, read)[1])
    fine = np.array([name not in flags for name in kept])
    return (read(take(df, np.flatnonzero(fine[code]))) if fine.any() else None), flags
