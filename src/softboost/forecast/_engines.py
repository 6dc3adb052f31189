"""Adapters for dask, ray and Spark frames: one class per engine, which maps, collects and partitions rows.

Functions take and return pandas frames. Shared objects are sent to each worker once, not with each partition.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from ._frame import keys_of

__all__ = ["AHEAD", "EngineFrame", "engine_frame", "packed", "unpacked"]

PART = "_softboost_part"
AHEAD = "_softboost_ahead"

OfRows = Callable[[pd.DataFrame], pd.DataFrame]
OfSeries = Callable[[bytes, pd.DataFrame], pd.DataFrame]


def engine_frame(df: Any, engine: Any = None) -> EngineFrame | None:
    """Wrap a frame of an engine; None for other frames."""
    kind = ENGINES.get(type(df).__module__.split(".")[0])
    return None if kind is None else kind(df, engine)


def packed(thing: Any) -> bytes:
    """Serialise with cloudpickle, which includes classes that are defined in the user's own script."""
    return bytes(importlib.import_module("cloudpickle").dumps(thing))


@lru_cache(maxsize=1)  # once per worker
def unpacked(data: bytes) -> Any:
    """Inverse of :func:`packed`."""
    return pickle.loads(data)


class EngineFrame:
    """A frame of an engine."""

    def __init__(self, df: Any, engine: Any) -> None:
        self.df, self.engine = df, engine

    @property
    def columns(self) -> list[str]:
        return list(self.df.columns)

    def gather(self, function: OfRows, meta: pd.DataFrame | None = None) -> list[pd.DataFrame]:
        """Apply ``function`` to every partition and collect the results in this process.

        ``meta`` is an empty frame with the columns of the results; None means the columns of the frame.
        """
        raise NotImplementedError

    def with_future(self, other: EngineFrame, target: str) -> EngineFrame:
        """The rows of both frames; rows of ``other`` are marked as future and have no targets."""
        raise NotImplementedError

    def spread(self, ids: str, n_parts: int, function: OfSeries, shared: bytes, meta: pd.DataFrame) -> Any:
        """Apply ``function(shared, rows)`` to about ``n_parts`` groups of complete series.

        Returns a frame of the engine, lazy if the engine is. ``meta`` is an empty frame with its columns.
        """
        raise NotImplementedError


class DaskFrame(EngineFrame):
    """A dask.dataframe."""

    def gather(self, function: OfRows, meta: pd.DataFrame | None = None) -> list[pd.DataFrame]:
        mapped = self.df.map_partitions(function, meta=self.df._meta if meta is None else meta, enforce_metadata=False)
        with self._current():
            return [mapped.compute()]

    def spread(self, ids: str, n_parts: int, function: OfSeries, shared: bytes, meta: pd.DataFrame) -> Any:
        dask = importlib.import_module("dask")
        dtypes = self.df._meta.dtypes.items()
        kept = {name: dtype for name, dtype in dtypes if name in meta and not isinstance(dtype, pd.CategoricalDtype)}
        meta = meta.astype(kept)  # without categoricals, whose categories may differ between partitions
        rows = self.df.shuffle(on=ids, npartitions=n_parts) if self.df.npartitions > 1 or n_parts > 1 else self.df
        return rows.map_partitions(_dask_part, function, dask.delayed(shared), meta, meta=meta)

    def with_future(self, other: EngineFrame, target: str) -> EngineFrame:
        dataframe = importlib.import_module("dask.dataframe")
        known = self.df.assign(**{AHEAD: False})
        ahead = other.df.assign(**{AHEAD: True, target: np.nan})
        return DaskFrame(dataframe.concat([known, ahead], interleave_partitions=True), self.engine)

    def _current(self) -> Any:
        as_current = getattr(self.engine, "as_current", None)
        return contextlib.nullcontext() if as_current is None else as_current()


def _dask_part(rows: pd.DataFrame, function: OfSeries, shared: bytes, meta: pd.DataFrame) -> pd.DataFrame:
    return function(shared, rows.reset_index(drop=True)).astype(meta.dtypes.to_dict()) if len(rows) else meta


class RayFrame(EngineFrame):
    """A ray.data.Dataset."""

    @property
    def columns(self) -> list[str]:
        return list(self.df.columns())

    def gather(self, function: OfRows, meta: pd.DataFrame | None = None) -> list[pd.DataFrame]:
        mapped = self.df.map_batches(function, batch_format="pandas", batch_size=None)
        return [batch for batch in mapped.iter_batches(batch_format="pandas", batch_size=None) if len(batch)]

    def spread(self, ids: str, n_parts: int, function: OfSeries, shared: bytes, meta: pd.DataFrame) -> Any:
        reference = importlib.import_module("ray").put(shared)

        def part(rows: pd.DataFrame) -> pd.DataFrame:
            known = importlib.import_module("ray").get(reference)
            return function(known, rows.drop(columns=PART).reset_index(drop=True)).astype(meta.dtypes.to_dict())

        numbered = self.df.map_batches(
            _with_part, fn_kwargs={"ids": ids, "n_parts": n_parts}, batch_format="pandas", batch_size=None
        )
        return numbered.groupby(PART).map_groups(part, batch_format="pandas")

    def with_future(self, other: EngineFrame, target: str) -> EngineFrame:
        columns = self.columns

        def marked(rows: pd.DataFrame, ahead: bool) -> pd.DataFrame:
            return rows.reindex(columns=columns).assign(**{AHEAD: ahead})

        known, future = (
            df.map_batches(marked, fn_kwargs={"ahead": ahead}, batch_format="pandas", batch_size=None)
            for df, ahead in ((self.df, False), (other.df, True))
        )
        return RayFrame(known.union(future), self.engine)


def _with_part(rows: pd.DataFrame, ids: str, n_parts: int) -> pd.DataFrame:
    """Add a column with the group of each series."""
    code, names = pd.factorize(rows[ids].to_numpy(dtype=object))
    return rows.assign(**{PART: (keys_of(list(names)) % n_parts)[code].astype(np.int64)})


class SparkFrame(EngineFrame):
    """A pyspark.sql.DataFrame."""

    def gather(self, function: OfRows, meta: pd.DataFrame | None = None) -> list[pd.DataFrame]:
        def of_all(batches: Any) -> Any:
            for rows in batches:
                if len(rows):
                    yield function(rows)

        schema = self.df.schema if meta is None else self._schema(meta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Spark warns about its own type conversions
            return [self.df.mapInPandas(of_all, schema=schema).toPandas()]

    def spread(self, ids: str, n_parts: int, function: OfSeries, shared: bytes, meta: pd.DataFrame) -> Any:
        functions = importlib.import_module("pyspark.sql.functions")
        schema = self._schema(meta)
        dates = [field.name for field in schema.fields if field.dataType.typeName() == "date"]
        value = self._sent(shared)

        def part(rows: pd.DataFrame) -> pd.DataFrame:
            out = function(value(), rows.drop(columns=PART))
            return out.assign(**{name: pd.to_datetime(out[name]).dt.date for name in dates})

        number = functions.pmod(functions.hash(functions.col(ids)), functions.lit(n_parts))
        return self.df.withColumn(PART, number).groupBy(PART).applyInPandas(part, schema=schema)

    def with_future(self, other: EngineFrame, target: str) -> EngineFrame:
        functions = importlib.import_module("pyspark.sql.functions")
        known = self.df.withColumn(AHEAD, functions.lit(False))
        ahead = other.df.withColumn(AHEAD, functions.lit(True))
        return SparkFrame(known.unionByName(ahead, allowMissingColumns=True), self.engine)

    def _sent(self, shared: bytes) -> Callable[[], Any]:
        """How workers get shared objects: broadcast once, or inside the function if the session cannot broadcast."""
        try:
            sent = self.df.sparkSession.sparkContext.broadcast(shared)
        except Exception:  # Spark Connect has no context
            return lambda: shared
        return lambda: sent.value

    def _schema(self, meta: pd.DataFrame) -> Any:
        """Spark types of a pandas frame; columns of the engine frame keep their types."""
        types = importlib.import_module("pyspark.sql.types")
        known = {field.name: field.dataType for field in self.df.schema.fields}
        by_kind = {"f": types.DoubleType(), "i": types.LongType(), "O": types.StringType(), "M": types.TimestampType()}
        fields = [(name, known.get(name) or by_kind[dtype.kind]) for name, dtype in meta.dtypes.items()]
        return types.StructType([types.StructField(str(name), kind, True) for name, kind in fields])


# One row per engine: the package that defines its frames.
ENGINES: dict[str, type[EngineFrame]] = {"dask": DaskFrame, "ray": RayFrame, "pyspark": SparkFrame}
