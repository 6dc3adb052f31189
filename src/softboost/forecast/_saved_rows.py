"""The rows of a forecaster in a model file: selection, conversion to arrays, and checked reading."""

from __future__ import annotations

import re
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import utilsforecast.processing as ufp

from softboost._file.codecs.settings import conforms
from softboost._file.values import Fields

from ._frame import LongFrame, is_panic, read_long, take
from ._frame_columns import PLAIN, frame_of_columns, kind_of_frame, plain_columns
from ._frame_forms import Names
from ._panel import Array, ranges

__all__ = ["last_rows", "pack_rows", "unpack_rows"]

ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*|[+-]\d\d:\d\d")
UNITS = ("s", "ms", "us", "ns")
DAY = 86_400 * 10**6  # microseconds
FARTHEST = {True: 2**63 - 1 - 1000 * DAY, False: 719_000 * DAY}  # in nanoseconds, and in microseconds: year 1 to 3938


def last_rows(frame: LongFrame, n_rows: Array) -> Array:
    """The last ``n_rows`` of each series, extended to a row with a known target, so that gaps are filled as before."""
    indptr = frame.panel.indptr
    y = nw.from_native(frame.native, eager_only=True).get_column(frame.names.target).cast(nw.Float64).to_numpy()
    known = np.maximum.accumulate(np.where(np.isnan(np.asarray(y, dtype=np.float64)), -1, np.arange(len(y))))
    starts = np.maximum(known[indptr[1:] - n_rows], indptr[:-1])
    return ranges(starts, indptr[1:])


def pack_rows(frame: LongFrame, kept: Array) -> dict[str, Any]:
    """These rows as plain columns."""
    native = take(frame.native, kept)
    series = np.searchsorted(frame.panel.indptr, kept, side="right") - 1
    for name in frame.static:  # the value of the first row, which may be cut off
        first = take(frame.native[[name]], frame.panel.indptr[series])[name]
        native = ufp.assign_columns(native, name, first)
    return {
        "kind": kind_of_frame(native),
        "columns": plain_columns(native),
        "static": frame.static,
        "categories": frame.categories,
    }


def unpack_rows(f: Fields, forecaster: Any) -> LongFrame:
    """The checked frame of a forecaster whose parameters are known."""
    kind, columns = f.take("kind", str), f.take("columns", list)
    if kind not in ("pandas", "polars"):
        raise f.error(f"the library {kind!r:.80} is unknown")
    lengths = {_check_column(f, column) for column in columns}
    if len(lengths) != 1 or len({column["name"] for column in columns}) != len(columns):
        raise f.error("columns must have equal lengths and distinct names")
    static, categories = f.take("static", list), f.take("categories", dict)
    if not (conforms(static, list[str]) and conforms(categories, dict[str, list[str]])):
        raise f.error("static and categories must contain names")
    names = Names(forecaster.id_col, forecaster.time_col, forecaster.target_col)
    freq = f.take("freq", (str, int))
    try:
        native = frame_of_columns(kind, columns)
        frame = read_long(
            native, freq, names, static=static, gaps=forecaster.gaps, categories=categories, add_times=False
        )
        _check_future(f, frame, forecaster.h)
    except BaseException as error:  # pandas and polars raise many classes
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise f.error(f"invalid rows: {str(error) or type(error).__name__:.300}") from None
    if frame.categories.keys() != categories.keys():
        raise f.error("a text column has no categories")
    return frame


def _check_column(f: Fields, column: Any) -> int:
    """Number of rows of a column, whose values must match its dtype."""
    if not isinstance(column, dict) or not conforms(list(column), list[str]):
        raise f.error("columns must be dicts")
    inner = f.inner(dict(column), "columns")
    name, dtype, unit, zone = (inner.take(key, str) for key in ("name", "dtype", "unit", "zone"))
    if dtype == "String":
        texts = inner.take("values", list)
        if not conforms(texts, list[str | None]):
            raise inner.error(f"{name!r:.80} must contain strings")
        inner.done()
        return len(texts)
    if dtype not in {*PLAIN, "Datetime", "Date"}:
        raise inner.error(f"{name!r:.80} has the unknown dtype {dtype!r:.80}")
    kind = "f" if dtype.startswith("Float") else "b" if dtype == "Boolean" else "i"
    values = inner.array("values", kind, (None,), finite=False)
    inner.done()
    if dtype in ("Datetime", "Date"):
        if unit not in UNITS or (zone and not ZONE.fullmatch(zone)):
            raise inner.error(f"{name!r:.80} has the time unit {unit!r:.80} and zone {zone!r:.80}")
        _check_values(inner, name, values, FARTHEST[unit == "ns"], signed=True)
    elif kind == "i":
        bits = int(dtype.lstrip("UInt"))
        _check_values(inner, name, values, 2 ** (bits - 1 if dtype[0] == "I" else min(bits, 63)) - 1, dtype[0] == "I")
    return len(values)


def _check_values(f: Fields, name: str, values: Array, most: int, signed: bool) -> None:
    if values.size and not ((-most - 1 if signed else 0) <= int(values.min()) and int(values.max()) <= most):
        raise f.error(f"{name!r:.80} contains a number outside its range")


def _check_future(f: Fields, frame: LongFrame, h: int) -> None:
    """Check that times of forecasts exist: the frequency is valid, and the last times can be advanced."""
    last = frame.panel.indptr[1:] - 1
    times = frame.panel.times[last]
    ends = take(frame.native[[frame.names.time]], last[[np.argmin(times), np.argmax(times)]])[frame.names.time]
    later: Any = ufp.offset_times(ends, frame.freq, h)
    ahead = nw.from_native(later, series_only=True).to_numpy()
    before = nw.from_native(ends, series_only=True).to_numpy()
    if not np.all(ahead > before):
        raise ValueError(f"freq={frame.freq!r} does not lead to a later time")
