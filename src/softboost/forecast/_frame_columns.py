"""Conversion of data frames to arrays and lists, and back, for the model file."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from softboost._data.categories import as_text

__all__ = ["frame_of_columns", "kind_of_frame", "plain_columns"]

PLAIN = {"Float64", "Float32", "Int64", "Int32", "Int16", "Int8", "UInt64", "UInt32", "UInt16", "UInt8", "Boolean"}


def kind_of_frame(native: Any) -> str:
    """The library of a frame: "pandas" or "polars"."""
    return "pandas" if isinstance(native, pd.DataFrame) else "polars"


def plain_columns(native: Any) -> list[dict[str, Any]]:
    """Name, dtype and values of every column, as numbers or text."""
    return [_plain(column) for column in nw.from_native(native, eager_only=True).iter_columns()]


def _plain(column: nw.Series[Any]) -> dict[str, Any]:
    dtype = column.dtype
    out: dict[str, Any] = {"name": column.name, "dtype": type(dtype).__name__, "unit": "", "zone": ""}
    if isinstance(dtype, (nw.Datetime, nw.Date)):
        unit = dtype.time_unit if isinstance(dtype, nw.Datetime) else "us"
        zone = dtype.time_zone if isinstance(dtype, nw.Datetime) else None
        dates = column.cast(nw.Datetime("us")) if isinstance(dtype, nw.Date) else column
        counted = dates.dt.timestamp("ns" if unit == "ns" else "us").to_numpy().astype(np.int64)
        return {**out, "unit": unit, "zone": zone or "", "values": counted}
    if out["dtype"] in PLAIN and column.null_count() == 0:
        kind = np.float64 if dtype.is_float() else np.bool_ if out["dtype"] == "Boolean" else np.int64
        return {**out, "values": np.asarray(column.to_numpy(), dtype=kind)}
    if dtype.is_numeric():  # nullable: as floats with NaN
        return {**out, "dtype": "Float64", "values": np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)}
    return {**out, "dtype": "String", "values": as_text(column.to_list()).tolist()}


def frame_of_columns(kind: str, columns: list[dict[str, Any]]) -> Any:
    """A pandas or polars frame from the result of :func:`plain_columns`."""
    backend: Any = {"pandas": "pandas", "polars": "polars"}[kind]
    first, *others = [_series(column, backend) for column in columns]
    return first.to_frame().with_columns(*others).to_native()  # narwhals' from_dict would drop time zones


def _series(column: dict[str, Any], backend: Any) -> nw.Series[Any]:
    name, dtype, values = column["name"], column["dtype"], column["values"]
    if dtype in ("Datetime", "Date"):
        counted = nw.new_series(name, np.asarray(values), dtype=nw.Int64, backend=backend)
        dates = counted.cast(nw.Datetime("ns" if column["unit"] == "ns" else "us"))
        if dtype == "Date":
            return dates.cast(nw.Date)
        dates = dates.cast(nw.Datetime(column["unit"]))
        return dates.dt.replace_time_zone("UTC").dt.convert_time_zone(column["zone"]) if column["zone"] else dates
    if dtype == "String":
        if backend == "pandas":
            return nw.from_native(pd.Series(values, name=name), series_only=True)
        return nw.new_series(name, values, dtype=nw.String, backend=backend)
    return nw.new_series(name, np.asarray(values), dtype=getattr(nw, dtype), backend=backend)
