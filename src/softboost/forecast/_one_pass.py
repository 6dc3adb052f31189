"""Fit and forecast in one pass that keeps no models: learn from a sample of the series, then apply to all of them.

Shared results (weights of the candidates, corrections, pooled errors for intervals) are estimated once, on a bounded
sample that depends only on the ids. The resulting :class:`Record` is then applied to parts of the panel, in this
process or on a worker. The forecast of a series is bit-identical in every partition.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import utilsforecast.processing as ufp

from softboost._runtime.progress import Progress

from ._combination import Combination, extend, learn
from ._correction import Correction
from ._engines import AHEAD, EngineFrame, engine_frame, packed, unpacked
from ._fitted import Fitted
from ._frame import (
    LongFrame,
    add_columns,
    checked_columns,
    checked_times,
    read_future,
    read_long,
)
from ._frame_forms import Names, long_with_freq, without_pyarrow
from ._intervals import Pools
from ._judging import Judges
from ._panel import Array, Panel
from ._rolling import Scores, calibration_origins, calibration_scores, roll
from ._sample import largest_key, names_of, parts_of, read_sample, readable, rows_up_to, sketch

__all__ = [
    "Record",
    "forecast_frame",
    "forecast_on_engine",
    "forecast_part",
    "gather_sample",
    "learn_record",
    "most_series",
    "plain_rows",
]

MOST_SERIES = 2_500  # maximum number of series in the sample; more take minutes and a gigabyte of memory
MOST_LOCAL = 500  # likewise, if a model is fitted to each series
ROWS_PER_PART = 50_000
LEAST_PARTS = 8  # minimum number of parts of an engine frame
FEW_VALUES = 2  # known values from which changes cannot be estimated
FLAG = "flag"


def most_series(model: Any) -> int:
    """Maximum number of series in the sample of a forecaster."""
    model.candidates_ = model._open_candidates()
    return MOST_SERIES if model._combines or model.scope == "global" else MOST_LOCAL


# -- the record ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Results from a sample of the series that are applied to all series.

    Attributes
    ----------
    model : Forecaster
        Settings and choices, without rows.
    freq : str or int
    static : list of str
    categories : dict of str to list of str
    h : int
    levels : list of float
    flags : bool
        Whether the result has a column that describes problems of a series.
    combination, judges
        Set if candidates are combined.
    pooled, pooled_earlier : Fitted or None
        A global regression that is used alone, and the earlier fit that calibrates its intervals.
    origins : ndarray of shape (n_windows,), or None
        Number of rows after each calibration origin of a regression that is used alone.
    scores : Scores or None
        Scores of the sample, without its individual series.
    pools : Pools or None
    """

    model: Any
    freq: str | int
    static: list[str]
    categories: dict[str, list[str]]
    h: int
    levels: list[float]
    flags: bool
    combination: Combination | None = None
    judges: Judges | None = None
    pooled: Fitted | None = None
    pooled_earlier: Fitted | None = None
    origins: Array | None = None
    scores: Scores | None = None
    pools: Pools | None = None

    def fit(self, panel: Panel) -> Fitted | Combination:
        """Fit the models that forecast the series of a part."""
        if self.combination is not None:
            assert self.judges is not None
            return extend(self.combination, self.judges, self.model._plan(self.h), panel)
        return _fitted(self.model, panel) if self.pooled is None else _grown(self.pooled, panel)

    def scores_of(self, panel: Panel, fitted: Fitted | Combination) -> Scores:
        """Out-of-sample errors for the intervals of a part."""
        if isinstance(fitted, Combination):
            return fitted.scores(panel, self.h, self.scores)
        earlier = self.pooled_earlier
        fit = partial(_fitted, self.model) if earlier is None else partial(_grown, earlier)
        assert self.origins is not None
        back = np.tile(self.origins, (panel.n_series, 1))
        return _calibrated(self.model, panel, back, fit, self.scores)

    def on_one_thread(self) -> Record:
        """A copy that uses one thread, for workers."""
        if self.combination is None or self.judges is None:
            return self
        corrections = [_on_one_thread(c) for c in (self.combination.corrections, self.judges.corrections)]
        smoothing = replace(self.combination.smoothing, n_threads=1)
        return replace(
            self,
            combination=replace(self.combination, smoothing=smoothing, corrections=corrections[0]),
            judges=replace(self.judges, corrections=corrections[1]),
        )


def _on_one_thread(corrections: dict[str, Correction]) -> dict[str, Correction]:
    out = copy.deepcopy(corrections)
    for correction in out.values():
        for model in correction.models:
            if hasattr(model, "n_jobs"):
                model.n_jobs = 1
    return out


def _fitted(model: Any, panel: Panel) -> Fitted:
    settings = model._settings(model.target_transforms_, model.h)
    return Fitted.fit(settings, model.scope_, model.season_length_, panel, fit_many=model._fit_many())


def _grown(fitted: Fitted, panel: Panel) -> Fitted:
    """A global regression, extended to series that it was not fitted to."""
    return fitted.grow(panel, np.full(panel.n_series, -1))


def _calibrated(
    model: Any, panel: Panel, back: Array, fit: Callable[[Panel], Fitted], of_all: Scores | None = None
) -> Scores:
    """Out-of-sample errors for the intervals of a regression that is used alone."""
    y, forecast = roll(fit, panel, back, model.h, False)
    return calibration_scores(y, forecast, panel, model.target_transforms_, of_all)


def choose_and_learn(
    model: Any, frame: LongFrame, levels: list[float], flags: bool, progress: Any = lambda text: None
) -> tuple[Record, Fitted | Combination | None]:
    """Select settings on a sample, which are stored on ``model``; return the record and the fit to the sample."""
    model._choose(frame.panel, frame)
    return learn_record(model, frame, frame.panel, levels, flags, progress)


def learn_record(
    model: Any, frame: LongFrame, panel: Panel, levels: list[float], flags: bool, progress: Any = lambda text: None
) -> tuple[Record, Fitted | Combination | None]:
    """Fit the record to a panel with the selected settings; ``frame`` describes its columns."""
    record = Record(model, frame.freq, frame.static, frame.categories, model.h, levels, flags)
    if model._combines:
        combination, judges = learn(model._plan(model.h), panel, progress)
        model.choice_ = combination.choice
        pooled = {scope: fitted for scope, fitted in combination.regressions.items() if scope in judges.pooled}
        bare = replace(combination, regressions=pooled, weights=combination.weights[:0])
        record = replace(record, combination=bare, judges=judges)
        return (_with_scores(record, combination.scores(panel, model.h)) if levels else record), combination
    if model.scope_ == "global":
        record = replace(record, pooled=_fitted(model, panel))
    if levels:
        back, earlier = calibration_origins(panel, model.h), []

        def fit(training: Panel) -> Fitted:
            earlier.append(_fitted(model, training))
            return earlier[-1]

        scores = _calibrated(model, panel, back, fit)
        record = _with_scores(replace(record, origins=back[0]), scores)
        if model.scope_ == "global" and earlier:
            record = replace(record, pooled_earlier=earlier[0])
    return record, None


def _with_scores(record: Record, scores: Scores) -> Record:
    bare = replace(
        scores, errors=scores.errors[:0], scales=scores.scales[:0], logs=None, limits=None, nonnegative=None, short=None
    )
    return replace(record, scores=bare, pools=scores.pools(record.levels))


# -- a part of the series ------------------------------------------------------------------------------------------


def forecast_part(record: Record, df: Any, X_df: Any = None) -> tuple[Any, dict[Any, str]]:
    """Forecasts of the series in a frame, sorted by id, and the problems of some series."""
    frame, flags = readable(df, names_of(record.model), partial(_read, record))
    fitted = None if frame is None else record.fit(frame.panel)
    return forecast_table(record, frame, fitted, df, flags, X_df)


def forecast_table(
    record: Record, frame: LongFrame | None, fitted: Any, df: Any, flags: dict[Any, str], X_df: Any
) -> tuple[Any, dict[Any, str]]:
    """Forecasts of the readable series, NaN for the others."""
    names, tables, flags = names_of(record.model), [], dict(flags)
    if flags:
        tables.append(_unreadable(record, df, names, flags))
    if frame is not None:
        panel, model = frame.panel, record.model
        future, known = read_future(frame, record.h, X_df)
        forecast = fitted.predict(panel, np.arange(panel.n_series), known)
        columns = {model._name: forecast.ravel()}
        if record.levels:
            columns.update(model._bounds(forecast, record.levels, record.scores_of(panel, fitted), record.pools))
        remarks = _remarks(panel)
        flags.update({name: text for name, text in zip(frame.id_list(), remarks, strict=True) if text})
        if record.flags:
            columns[FLAG] = np.repeat(remarks, record.h)
        tables.append(add_columns(future, columns))
    return (tables[0] if len(tables) == 1 else _in_order(tables, names)), flags


def _read(record: Record, df: Any) -> LongFrame:
    model = record.model
    names = names_of(model)
    df, _ = long_with_freq(df, names)
    return read_long(df, record.freq, names, static=record.static, gaps=model.gaps, categories=record.categories)


def _remarks(panel: Panel) -> Array:
    """A remark about each series; empty for most."""
    n_known = np.add.reduceat(~np.isnan(panel.y), panel.indptr[:-1])
    texts = ["" if n > FEW_VALUES else f"has {n} known value{'' if n == 1 else 's'}" for n in n_known]
    return np.array(texts, dtype=object)


def _unreadable(record: Record, df: Any, names: Names, flags: dict[Any, str]) -> Any:
    """NaN forecasts for series that cannot be read."""
    frame = nw.from_native(df, eager_only=True)
    last = frame.filter(nw.col(names.id).is_in(list(flags))).group_by(names.id).agg(nw.col(names.time).max())
    last = last.sort(names.id)
    future = ufp.make_future_dataframe(
        last.get_column(names.id).to_native(), last.get_column(names.time).to_native(), record.freq, record.h, names.id,
        names.time,
    )  # fmt: skip
    nothing = np.full(len(future), np.nan)
    model = record.model._name
    columns = [
        model,
        *(f"{model}-lo-{v:g}" for v in reversed(record.levels)),
        *(f"{model}-hi-{v:g}" for v in record.levels),
    ]
    out = add_columns(future, dict.fromkeys(columns, nothing))
    if record.flags:
        texts = [flags[name] for name in last.get_column(names.id).to_list()]
        out = add_columns(out, {FLAG: np.repeat(np.array(texts, dtype=object), record.h)})
    return out


def _in_order(tables: list[Any], names: Names) -> Any:
    """Rows of several tables, sorted by series and time."""
    whole = nw.concat([nw.from_native(table, eager_only=True) for table in tables]).sort(names.id, names.time)
    return ufp.drop_index_if_pandas(whole.to_native())


# -- a frame in memory ---------------------------------------------------------------------------------------------


def forecast_frame(model: Any, df: Any, levels: list[float], flags: bool, X_df: Any, run: Any = None) -> Any:
    """Forecasts of a pandas or polars frame; ``run``, if given, computes its parts on an engine."""
    names, most = names_of(model), most_series(model)
    df = checked_times(checked_columns(df, names), names.time)
    counted = sketch(df, names, len(df))
    largest = largest_key(counted, most)
    whole = largest >= counted["key"].max()
    sample = df if whole else rows_up_to(df, names, largest)
    frame, bad = read_sample(model, sample)
    progress = Progress(model.verbose, None, "candidates")
    try:
        record, fitted = choose_and_learn(model, frame, levels, flags, progress.step)
    finally:
        progress.close()
    if whole and fitted is not None:
        table, bad = forecast_table(record, frame, fitted, df, bad, X_df)
        _warn_of(bad, len(counted) - 1)
        return table
    parts = parts_of(df, names, -(-len(df) // ROWS_PER_PART))
    if run is None:
        done = [forecast_part(record, part, X_df) for part in parts]
    else:
        done = run(forecast_part, [(record.on_one_thread(), part, X_df) for part in parts])
    _warn_of({name: text for _, part in done for name, text in part.items()}, len(counted) - 1)
    return _in_order([table for table, _ in done], names)


def _warn_of(flags: dict[Any, str], n_series: int) -> None:
    if flags:
        some = "; ".join(f"{name!r} {text}" for name, text in list(flags.items())[:3])
        warnings.warn(
            f"{len(flags)} of {n_series} series have no forecast, or one from too few values: {some}"
            f"{'; ...' if len(flags) > 3 else ''}. forecast(flags=True) adds a column that says so for each",
            stacklevel=4,
        )


# -- a frame of an engine ------------------------------------------------------------------------------------------


def forecast_on_engine(model: Any, source: EngineFrame, levels: list[float], flags: bool, X_df: Any) -> Any:
    """Forecasts of a dask, ray or Spark frame, as a frame of the same engine."""
    names = names_of(model)
    sample, n_rows = gather_sample(model, source)
    frame, _ = read_sample(model, sample)
    record, _ = choose_and_learn(model, frame, levels, flags)
    record = record.on_one_thread()
    future = engine_frame(X_df, source.engine)
    if future is not None:
        source, X_df = source.with_future(future, names.target), None
    n_parts = max(-(-n_rows // ROWS_PER_PART), min(LEAST_PARTS, frame.panel.n_series))
    return source.spread(names.id, n_parts, _forecast_rows, packed((record, X_df)), _like(record, frame))


def _like(record: Record, frame: LongFrame) -> pd.DataFrame:
    """An empty frame with the columns of the forecasts."""
    flags = {name: "" for name in frame.id_list()[:1]}
    return _unreadable(record, frame.native, frame.names, flags).iloc[:0]


def gather_sample(model: Any, source: EngineFrame) -> tuple[pd.DataFrame, int]:
    """Rows of the sample, collected from the workers, and the total number of rows."""
    names, most = names_of(model), most_series(model)
    missing = [c for c in (names.id, names.time, names.target) if c not in source.columns]
    if missing:
        raise ValueError(
            f"df has no column {missing}; it has {source.columns}. Rename columns, or pass id_col, time_col, target_col"
        )
    empty = pd.DataFrame({"key": np.empty(0, dtype=np.int64), "n_rows": np.empty(0, dtype=np.int64)})
    counted = pd.concat(source.gather(partial(sketch, names=names, most=most), empty), ignore_index=True)
    if not len(counted) or not (counted["key"] >= 0).any():
        raise ValueError("df has no rows")
    largest = largest_key(counted, most)
    rows = pd.concat(source.gather(partial(rows_up_to, names=names, largest=largest)), ignore_index=True)
    return plain_rows(rows, names), int(counted.loc[counted["key"] < 0, "n_rows"].sum())


def _forecast_rows(shared: bytes, rows: pd.DataFrame) -> pd.DataFrame:
    """Runs on a worker: forecasts of whole series."""
    record, X_df = unpacked(shared)
    rows = plain_rows(rows, names_of(record.model))
    if AHEAD in rows.columns:
        ahead = rows[AHEAD].to_numpy(dtype=bool)
        X_df, rows = rows[ahead].drop(columns=AHEAD), rows[~ahead].drop(columns=AHEAD).reset_index(drop=True)
    return forecast_part(record, rows, X_df)[0]


def plain_rows(rows: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Rows whose ids and times have the default dtypes of pandas."""
    rows = without_pyarrow(rows)
    text = rows[names.id].dtype != object and rows[names.id].dtype.kind == "O"
    rows = rows.assign(**{names.id: rows[names.id].astype(object)}) if text else rows
    return checked_times(rows, names.time)
