"""Local fits and back-tests over partitions of series, on any engine that fugue knows; no scheduler is written here.

Series travel as arrays in a frame of two columns, the number of the part and its contents, so that no engine converts
times or numbers on the way and the answer is the same bits as on one machine.
"""

from __future__ import annotations

import base64
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ._fitted import Fitted
from ._learned import Learned, Settings
from ._panel import Array, Panel
from ._rolling import roll

__all__ = ["as_local", "fit_on_engine", "roll_on_engine", "run_on_engine"]

SERIES_PER_PART = 64


def as_local(df: Any) -> Any:
    """Frames of dask, ray and Spark brought to this machine as pandas; anything else as it is."""
    of_engine = type(df).__module__.split(".")[0] in ("dask", "ray", "pyspark")
    return _fugue().as_pandas(df) if of_engine else df


def fit_on_engine(engine: Any, settings: Settings, panel: Panel, chosen: Array) -> list[Learned]:
    """A model of its own for each of the chosen series, in their order."""
    parts = _parts(chosen)
    done = run_on_engine(engine, _fit_part, [(settings, panel.take(part)) for part in parts])
    return [learned for part in done for learned in part]


def _fit_part(settings: Settings, panel: Panel) -> list[Learned]:
    return Learned.fit_each(settings, panel)


def roll_on_engine(
    engine: Any, settings: Settings, season: int, panel: Panel, back: Array, h: int, refit: bool | int | str
) -> tuple[Array, Array]:
    """:func:`~softboost.forecast._rolling.roll` of local models, parts of the series at a time."""
    tasks = [(settings, season, panel.take(part), back[part], h, refit) for part in _parts(np.arange(panel.n_series))]
    done = run_on_engine(engine, _roll_part, tasks)
    return np.concatenate([y for y, _ in done]), np.concatenate([forecast for _, forecast in done])


def _roll_part(
    settings: Settings, season: int, panel: Panel, back: Array, h: int, refit: bool | int | str
) -> tuple[Array, Array]:
    return roll(lambda p: Fitted.fit(settings, "local", season, p), panel, back, h, refit)


def _parts(series: Array) -> list[Array]:
    n_parts = min(len(series), max(8, -(-len(series) // SERIES_PER_PART)))
    return [part for part in np.array_split(series, n_parts) if len(part)] if n_parts else []


def run_on_engine(engine: Any, function: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> list[Any]:
    """``function(*task)`` for every task on the engine, in the order of the tasks."""
    if not tasks:
        return []
    frame = pd.DataFrame({"part": np.arange(len(tasks)), "payload": [_packed((function, task)) for task in tasks]})
    api = _fugue()
    spread = {"num": len(tasks), "algo": "even"}  # by rows; by key, some engines shuffle for many seconds
    result = api.as_pandas(
        api.transform(frame, _work, schema="part:long,ok:bool,result:str", partition=spread, engine=engine)
    ).sort_values("part")
    if sorted(result["part"]) != list(range(len(tasks))):
        raise RuntimeError(f"the engine returned parts {sorted(result['part'])} of {len(tasks)}; run again")
    outcomes = [_unpacked(text) for text in result["result"]]
    for ok, outcome in zip(result["ok"], outcomes, strict=True):
        if not ok:
            raise RuntimeError(f"a worker of engine={engine!r} failed:\n{outcome}")
    return outcomes


def _work(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs on a worker: one row a task. Errors come back as text, since not every engine carries exceptions whole."""
    rows = []
    for part, payload in zip(frame["part"], frame["payload"], strict=True):
        try:
            function, task = _unpacked(payload)
            rows.append((part, True, _packed(function(*task))))
        except Exception:
            rows.append((part, False, _packed(traceback.format_exc())))
    return pd.DataFrame(rows, columns=["part", "ok", "result"])


def _packed(thing: Any) -> str:
    """Anything as text: every engine carries text unchanged, while some take a column of bytes for one."""
    import cloudpickle  # noqa: PLC0415 - an extra; it carries models that users define in their own scripts

    return base64.b64encode(cloudpickle.dumps(thing)).decode("ascii")


def _unpacked(text: str) -> Any:
    import cloudpickle  # noqa: PLC0415 - an extra

    return cloudpickle.loads(base64.b64decode(text))


def _fugue() -> Any:
    try:
        import fugue.api
    except ImportError as error:
        raise ImportError(
            f"engine needs fugue ({error}); install it with: pip install 'softboost[distributed]'"
        ) from None
    return fugue.api
