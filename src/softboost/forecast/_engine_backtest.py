"""Back-tests of dask, ray and Spark frames: forecasts stay on the engine, and workers sum the errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ._combination import Combination, ForecastChoice
from ._engines import EngineFrame, engine_frame, packed, unpacked
from ._fitted import Fitted
from ._frame import LongFrame, add_columns, clock, read_long
from ._frame_forms import Names
from ._one_pass import LEAST_PARTS, ROWS_PER_PART, Record, gather_sample, learn_record, plain_rows
from ._panel import Array, Panel
from ._rivals import RIVALS, rival_forecasts, rivals_of, step_sizes
from ._rolling import MIN_HISTORY, moments, origins_at, roll
from ._sample import names_of, read_sample, readable
from ._smoothing import Smoothing

__all__ = ["EngineBacktest", "backtest_on_engine"]

SCALE = "scale"


@dataclass(frozen=True)
class EngineBacktest:
    """Forecasts of an engine frame from rolling origins.

    Attributes
    ----------
    forecasts : frame of dask, ray or Spark
        As in :class:`Backtest`, in any order, with an additional column ``scale``: the mean absolute one-step change of
        the series before its first origin. Computed by the workers when it is used.
    choice : ForecastChoice
        Weights and errors of the candidates at the first origin, in the sample.
    names : tuple of str
        Columns of ``forecasts`` with the id, the time, the target and the forecast.
    """

    forecasts: Any
    choice: ForecastChoice
    names: tuple[str, str, str, str]

    def scores(self) -> pd.DataFrame:
        """Errors of the model and of the rivals over all series, origins and steps; see :meth:`Backtest.scores`.

        Workers sum the errors of their rows, so that no rows are collected in this process.

        Returns
        -------
        frame : pandas frame
        """
        source = engine_frame(self.forecasts)
        assert source is not None
        id_, _, target, model = self.names
        models = [model, *(name for name in RIVALS if name in source.columns)]
        empty = _error_sums(_nothing([id_], [target, SCALE, *models]), id_, target, models)
        parts = pd.concat(source.gather(partial(_error_sums, id_=id_, target=target, models=models), empty))
        each = parts.groupby(["model", "id"]).sum().reset_index()
        rows = []
        for name in models:
            mine = each[each["model"] == name]
            scaled = mine["mae"] / mine["n"] / (mine["scale"] / mine["n"]).where(mine["scale"] > 0)
            rows.append((name, mine["mse"].sum() / mine["n"].sum(), mine["mae"].sum() / mine["n"].sum(), scaled.mean()))
        table = pd.DataFrame(rows, columns=["model", "mse", "mae", "mase"])
        naive = table.loc[table["model"] == "naive", "mase"].iloc[0]
        return table.assign(skill=1 - table["mase"] / naive)


def _nothing(texts: list[str], numbers: list[str]) -> pd.DataFrame:
    columns = {**{name: np.empty(0, dtype=object) for name in texts}, **{name: np.empty(0) for name in numbers}}
    return pd.DataFrame(columns)


def _error_sums(rows: pd.DataFrame, id_: str, target: str, models: list[str]) -> pd.DataFrame:
    """Runs on a worker: sums of errors for each model and series."""
    columns = {name: rows[name].to_numpy(dtype=np.float64) for name in (target, SCALE, *models)}
    known = ~np.isnan(columns[target])
    code, ids = pd.factorize(rows[id_].to_numpy(dtype=object)[known])
    out = []
    for model in models:
        error = np.abs(columns[target] - columns[model])[known]
        sums = {"n": None, "mse": error**2, "mae": error, "scale": np.nan_to_num(columns[SCALE][known])}
        counted = {name: np.bincount(code, values, len(ids)).astype(np.float64) for name, values in sums.items()}
        texts = {"model": np.full(len(ids), model, dtype=object), "id": np.array([str(v) for v in ids], dtype=object)}
        out.append(pd.DataFrame({**texts, **counted}))
    return pd.concat(out, ignore_index=True)


# -- on the calling process ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rolling:
    """The plan of a back-test, sent to the workers.

    Attributes
    ----------
    known : list
        The last time known at each origin; None before the first time.
    blocks : list of tuple of Record and slice
        Records, and the origins that each of them is used for.
    refit : bool, int or str
    """

    known: list[Any]
    blocks: list[tuple[Record, slice]]
    refit: bool | int | str


def backtest_on_engine(
    model: Any, source: EngineFrame, n_windows: int, step_size: int, refit: bool | int | str, levels: list[float]
) -> EngineBacktest:
    """Forecasts from rolling origins, computed by workers with records from a sample of the rows before each origin."""
    names, h = names_of(model), model.h
    sample, n_rows = gather_sample(model, source)
    last = 1 + h + step_size * (n_windows - 1)
    some = sample[[names.time]].iloc[:0].rename(columns={names.time: "time"})
    times = pd.concat(source.gather(partial(_last_times, names=names, last=last), some), ignore_index=True)
    known = moments(np.unique(clock(plain_times(times["time"])))[-last:], h, n_windows, step_size)
    frame, _ = read_sample(model, sample)
    present = frame.panel.sizes - origins_at(frame.panel, known[:1])[:, 0] >= MIN_HISTORY
    if known[0] is None or not present.any():
        raise ValueError(
            f"n_windows={n_windows}, step_size={step_size} and h={h} leave no series of the sample with two rows to "
            f"learn from; the longest has {frame.panel.sizes.max()} rows. Use fewer windows or a shorter h"
        )
    frame = frame.known_at(known[0], model.static_features)
    every = {True: 1, False: n_windows, "online": n_windows}.get(refit, refit)
    assert isinstance(every, int)
    blocks: list[tuple[Record, slice]] = []
    for first in range(0, n_windows, every):
        training = _before(frame.panel, known[first])
        if not blocks:
            model._choose(training, frame)
        if refit == "online" and (model._combines or model.scope_ == "global"):
            raise ValueError(
                "refit='online' of a frame of an engine needs scope='local'; use True, False or an integer"
            )
        record, _ = learn_record(model, frame, training, levels if not blocks else [], False)
        blocks.append((record.on_one_thread(), slice(first, first + every)))
    rolling = Rolling(known, blocks, refit)
    n_parts = max(-(-n_rows // ROWS_PER_PART), min(LEAST_PARTS, frame.panel.n_series))
    like = _backtest_rows(rolling, frame).iloc[:0]
    forecasts = source.spread(names.id, n_parts, _forecast_the_past, packed(rolling), like)
    return EngineBacktest(forecasts, model.choice_, (names.id, names.time, names.target, model._name))


def _before(panel: Panel, moment: Any) -> Panel:
    """Rows up to a moment, of the series that have enough of them."""
    back = origins_at(panel, [moment])[:, 0]
    chosen = np.flatnonzero(panel.sizes - back >= MIN_HISTORY)
    return panel.take(chosen).cut(back[chosen])


def _last_times(rows: pd.DataFrame, names: Names, last: int) -> pd.DataFrame:
    """Runs on a worker: the last few distinct times of its rows."""
    return pd.DataFrame({"time": np.sort(rows[names.time].unique())[-last:]})


def plain_times(times: pd.Series[Any]) -> Any:
    return plain_rows(pd.DataFrame({"id": 0, "time": times}), Names("id", "time"))["time"]


# -- on a worker ---------------------------------------------------------------------------------------------------


def _forecast_the_past(shared: bytes, rows: pd.DataFrame) -> pd.DataFrame:
    """Runs on a worker: the back-test of complete series, without those that cannot be read."""
    rolling: Rolling = unpacked(shared)
    record = rolling.blocks[0][0]
    names = names_of(record.model)

    def read(part: pd.DataFrame) -> LongFrame:
        frame = read_long(part, record.freq, names, gaps=record.model.gaps)
        return frame.known_at(rolling.known[0], record.static, record.categories)

    frame, _ = readable(plain_rows(rows, names), names, read)
    return _empty(rolling, rows, names) if frame is None else _backtest_rows(rolling, frame)


def _backtest_rows(rolling: Rolling, frame: LongFrame) -> pd.DataFrame:
    panel, (record, _) = frame.panel, rolling.blocks[0]
    model, h = record.model, record.h
    back = origins_at(panel, rolling.known)
    first_fit: list[Fitted | Combination] = []
    told = []
    for learned, block in rolling.blocks:

        def fit(training: Panel, learned: Record = learned) -> Fitted | Combination:
            fitted = learned.fit(training)
            if learned is record:
                first_fit.append(fitted)
            return fitted

        told.append(roll(fit, panel, back[:, block], h, "online" if rolling.refit == "online" else False)[1])
    forecast = np.concatenate(told, axis=1)
    columns = {model._name: forecast, **_bounds(record, panel, back, forecast, first_fit)}
    smoothing = Smoothing(model.seasons_, 1)
    for name, values in rival_forecasts(panel, back, h, model.season_length_, smoothing).items():
        columns[name] = np.where(np.isnan(forecast), np.nan, values)
    scale = step_sizes(panel, back, forecast)
    columns[SCALE] = np.broadcast_to(scale[:, None, None], forecast.shape)
    out: pd.DataFrame = frame.rows_ahead(back, forecast, columns)
    return out


def _bounds(record: Record, panel: Panel, back: Array, forecast: Array, first_fit: list[Any]) -> dict[str, Array]:
    """Bounds of all windows, calibrated on the rows before the first window."""
    model = record.model._name
    names = [f"{model}-{side}-{v:g}" for side, order in (("lo", -1), ("hi", 1)) for v in record.levels[::order]]
    out = {name: np.full(forecast.shape, np.nan) for name in names}
    present = np.flatnonzero(panel.sizes - back[:, 0] >= MIN_HISTORY)
    if record.levels and len(present):
        training = panel.take(present).cut(back[present, 0])
        scores = record.scores_of(training, first_fit[0])
        bounds = record.model._bounds(forecast[present], record.levels, scores, record.pools)
        for name, values in bounds.items():
            out[name][present] = values.reshape(forecast[present].shape)
    return out


def _empty(rolling: Rolling, rows: pd.DataFrame, names: Names) -> pd.DataFrame:
    """An empty frame with the columns of a back-test."""
    record = rolling.blocks[0][0]
    model = record.model
    bounds = [f"{model._name}-{side}-{v:g}" for side, order in (("lo", -1), ("hi", 1)) for v in record.levels[::order]]
    some = rows[[names.id, names.time, names.target]].iloc[:0].assign(cutoff=rows[names.time].iloc[:0])
    new = [model._name, *bounds, *rivals_of(model.season_length_), SCALE]
    out: pd.DataFrame = add_columns(some, {name: np.empty(0) for name in new})
    return out
