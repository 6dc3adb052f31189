"""What carries the forecasts of a Forecaster: Shapley values of its inputs, and the shares of its candidates.

The method works for every candidate, strategy and model, because it only calls the fitted forecaster. The inputs of a
forecast are groups of past values, exogenous and static columns, and the calendar. Inputs that are not revealed take
their values from earlier origins of the same series, static columns from other series.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from softboost.forecast import Forecaster
from softboost.forecast._candidates import label
from softboost.forecast._combination import Combination
from softboost.forecast._fitted import Fitted
from softboost.forecast._frame import LongFrame, join_future, read_future
from softboost.forecast._panel import Future, Panel
from softboost.forecast._plots import chosen_series

from ._attributions import Attributions, shapley_plan
from ._streams import is_online, online_shares

__all__ = [
    "candidate_forecasts",
    "candidate_shares",
    "forecast_attributions",
    "forecast_importances",
    "is_forecaster",
]

Array = NDArray[Any]
N_BACKGROUND = 5  # earlier origins
MAX_EXACT, N_PERMUTATIONS = 7, 16
N_SINGLE = 3  # past values that are inputs of their own
N_SERIES = 5  # series for importances
MAX_HISTORIES = 4096  # predicted at a time


def is_forecaster(model: Any) -> bool:
    """Whether this is a Forecaster."""
    return isinstance(model, Forecaster)


def forecast_attributions(model: Forecaster, X_df: Any, series: Any, random_state: int = 0) -> Attributions:
    """Shapley values of the inputs of each forecast, one row for each chosen series and step ahead."""
    check_is_fitted(model, "fitted_")
    frame = model.frame_
    ids = frame.id_list()
    chosen = chosen_series(ids, series)
    table, known = read_future(frame, model._steps(model.h), X_df)
    times = nw.from_native(table, eager_only=True).get_column(model.time_col).to_list()
    raw = _raw_columns(frame, table, X_df)
    parts, index = [], []
    for name in chosen:
        i = ids.index(name)
        case = _Case(model, frame.panel, i, known.take([i]))
        for step in range(model.h):
            row = i * known.times.shape[1] + step
            parts.append(case.explained(step, random_state, {c: values[row] for c, values in raw.items()}))
            index.append((name, times[row]))
    names = list(dict.fromkeys(name for part in parts for name in part.values))
    values = np.array([[part.values.get(name, 0.0) for name in names] for part in parts])
    data = np.array([[part.data.get(name) for name in names] for part in parts], dtype=object)
    baseline = np.array([part.baseline for part in parts])
    labels = pd.MultiIndex.from_tuples(index, names=[model.id_col, model.time_col])
    return Attributions(values, baseline, baseline + values.sum(axis=1), names, labels, data)


def forecast_importances(model: Forecaster) -> pd.Series[float]:
    """Mean absolute Shapley values over series and steps, relative to their sum in each forecast; they sum to one."""
    check_is_fitted(model, "fitted_")
    panel, h = model.frame_.panel, model._steps(model.h)
    has_future = bool(model.frame_.exog)  # known in the past alone: explain forecasts of the last rows
    usable = np.flatnonzero(panel.sizes > (h + 2 if has_future else 2))
    if not len(usable):
        raise ValueError("all series are too short to explain their forecasts")
    sample = usable[np.unique(np.linspace(0, len(usable) - 1, min(len(usable), N_SERIES)).astype(int))]
    total: dict[str, list[float]] = {}
    n = 0
    for i in sample:
        if has_future:
            back = np.zeros(panel.n_series, dtype=np.int64)
            back[i] = h
            known, history = panel.windows(back, h)[1].take([i]), panel.cut(back)
        else:
            _, future = read_future(model.frame_, h, None)
            known, history = future.take([i]), panel
        case = _Case(model, history, int(i), known)
        for step in sorted({0, (model.h - 1) // 2, model.h - 1}):
            values = case.explained(step, 0, {}).values
            size = sum(map(abs, values.values()))
            n += 1
            for name, value in values.items():
                total.setdefault(name, []).append(abs(value) / size if size > 0 else 0.0)
    means = pd.Series({name: sum(shares) / n for name, shares in total.items()}, dtype=float)
    return means / (means.sum() or 1.0)


def candidate_shares(model: Any) -> pd.DataFrame:
    """Ensemble weight of each candidate, one row for each series of a forecaster.

    Parameters
    ----------
    model : Forecaster or OnlineSoftBoostRegressor
        A fitted model. An online model gives one row.

    Returns
    -------
    shares : pandas.DataFrame
        Rows sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from softboost.forecast import Forecaster
    >>> from softboost.inspection import candidate_shares
    >>> df = pd.DataFrame({"unique_id": "a", "ds": np.arange(40), "y": np.arange(40) % 5})
    >>> candidate_shares(Forecaster(1, h=5, candidates=["smoothing"]).fit(df))
       smoothing
    a        1.0
    """
    if is_online(model):
        return online_shares(model)
    check_is_fitted(model, "fitted_")
    fitted, ids = model.fitted_, model.frame_.id_list()
    if not isinstance(fitted, Combination):
        return pd.DataFrame({str(model.scope_): np.ones(len(ids))}, index=ids)
    return pd.DataFrame(fitted.weights, index=ids, columns=[label(m) for m in fitted.members])


def candidate_forecasts(model: Forecaster, h: int | None = None, X_df: Any = None) -> pd.DataFrame:
    """Forecasts of each candidate and their weights: forecasts times weights add up to the forecast.

    Parameters
    ----------
    model : Forecaster
        A fitted forecaster.
    h : int, default=None
        Steps ahead; None is the horizon of the forecaster.
    X_df : frame, default=None
        Future values of exogenous columns, as in :meth:`~softboost.forecast.Forecaster.predict`.

    Returns
    -------
    frame : pandas.DataFrame
        The id and the time of each forecast, ``candidate``, ``forecast`` and ``weight``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from softboost.forecast import Forecaster
    >>> from softboost.inspection import candidate_forecasts
    >>> df = pd.DataFrame({"unique_id": "a", "ds": np.arange(40), "y": np.arange(40) % 5})
    >>> list(candidate_forecasts(Forecaster(1, h=5, candidates=["smoothing"]).fit(df)).columns)
    ['unique_id', 'ds', 'candidate', 'forecast', 'weight']
    """
    check_is_fitted(model, "fitted_")
    h = model.h if h is None else h
    steps = model._steps(h)
    panel, fitted = model.frame_.panel, model.fitted_
    table, known = read_future(model.frame_, steps, X_df)
    everyone = np.arange(panel.n_series)
    if isinstance(fitted, Combination):
        forecasts, weights = fitted.by_member(panel, everyone, known)
        names = [label(member) for member in fitted.members]
    else:
        forecasts, weights = [fitted.predict(panel, everyone, known)], np.ones((panel.n_series, 1))
        names = [str(model.scope_)]
    there = np.isfinite(np.stack(forecasts))  # members that do not forecast a series leave their share to the others
    share = np.where(there, weights.T[:, :, None], 0.0)
    share = share / np.maximum(share.sum(axis=0), 1e-300)
    frame = nw.from_native(table, eager_only=True)
    keys = {c: frame.get_column(c).to_list() for c in (model.id_col, model.time_col)}
    parts = [
        pd.DataFrame({**keys, "candidate": name, "forecast": f.ravel(), "weight": w.ravel()})
        for name, f, w in zip(names, forecasts, share, strict=True)
    ]
    step = np.tile(np.arange(steps), panel.n_series)
    return pd.concat([part[step < h] for part in parts], ignore_index=True)


# -- Shapley values of one forecast ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Explained:
    """Shapley value and value of each input of one forecast."""

    values: dict[str, float]
    data: dict[str, Any]
    baseline: float


@dataclass(frozen=True)
class _Case:
    """The forecasts of one series: its history, what is known of the steps ahead, and earlier origins."""

    model: Forecaster
    panel: Panel
    series: int
    known: Future

    def explained(self, step: int, random_state: int, raw: dict[str, Any]) -> _Explained:
        """Shapley values of the inputs of the forecast ``step + 1`` steps ahead."""
        groups = self._groups(step)
        subsets, weights = shapley_plan(len(groups), np.random.default_rng(random_state), MAX_EXACT, N_PERMUTATIONS)
        offsets = self._offsets()
        told = np.zeros(len(subsets))
        per_batch = max(1, MAX_HISTORIES // len(offsets))
        for first in range(0, len(subsets), per_batch):
            batch = subsets[first : first + per_batch]
            told[first : first + len(batch)] = self._forecasts(batch, groups, offsets, step).mean(axis=1)
        found = weights @ told
        found[np.abs(found) < 1e-12 * np.abs(told).max()] = 0.0  # rounding errors
        values = dict(zip(groups, found.tolist(), strict=True))
        baseline = float(told[np.argmin(subsets.sum(axis=1))])
        return _Explained(
            values, {**{name: self._shown(group, step) for name, group in groups.items()}, **raw}, baseline
        )

    @property
    def _y(self) -> Array:
        return self.panel.y[self.panel.indptr[self.series] : self.panel.indptr[self.series + 1]]

    def _offsets(self) -> Array:
        """Rows from the last origin to each earlier one, spread over the last seasons."""
        n = len(self._y)
        farthest = max(1, min(n // 2, 2 * max(12, self.model.season_length_)))
        return np.unique(np.linspace(1, farthest, N_BACKGROUND).astype(int))

    def _groups(self, step: int) -> dict[str, tuple[str, Array]]:
        """Inputs by name: what they are part of, and their places there."""
        lags = np.arange(1, len(self._y) + 1)
        free = np.ones(len(lags), dtype=bool)
        groups: dict[str, tuple[str, Array]] = {}

        def add(name: str, mine: Array) -> None:
            mine = mine & free
            if mine.any():
                groups[name] = "past", lags[mine]
                free[mine] = False

        for lag in range(1, N_SINGLE + 1):
            add(f"lag {lag}", lags == lag)
        for season in sorted(self.model.seasons_, reverse=True):
            add(f"season of {season}", (lags + step) % season == 0)
        recent = max(12, self.model.season_length_)
        add(f"other lags up to {recent}", lags <= recent)
        add("older values", free.copy())
        frame = self.model.frame_
        for kind, names in (("exog", frame.exog), ("static", frame.static if self.panel.n_series > 1 else [])):
            for name, columns in _columns_of(frame, names).items():
                groups[name] = kind, columns
        if _uses_calendar(self.model.fitted_):
            groups["calendar"] = "calendar", np.arange(1)
        return groups

    def _forecasts(self, subsets: Array, groups: dict[str, tuple[str, Array]], offsets: Array, step: int) -> Array:
        """Forecasts (n_subsets, n_offsets) where only the groups of each subset have the values of the last origin."""
        n, (h, n_exog) = len(self._y), self.known.exog.shape[1:]
        n_all = len(subsets) * len(offsets)
        shape = (len(subsets), len(offsets))
        rows = np.arange(n)
        start = self.panel.indptr[self.series]
        own = slice(start, start + n)
        earlier = np.where(rows >= offsets[:, None], self._y[np.maximum(rows - offsets[:, None], 0)], self._y)
        times = np.concatenate([self.panel.times[own], self.known.times[0]])
        exog = np.concatenate([self.panel.exog[own], self.known.exog[0]])
        ahead = n - offsets[:, None] + np.arange(h)
        shown_y, shown_exog = np.zeros((len(subsets), n), bool), np.zeros((len(subsets), n_exog), bool)
        shown_static = np.zeros((len(subsets), self.panel.static.shape[1]), bool)
        shown_times = np.ones(len(subsets), bool)
        for revealed, (kind, places) in zip(subsets.T, groups.values(), strict=True):
            if kind == "past":
                shown_y[:, n - places] = revealed[:, None]
            elif kind == "exog":
                shown_exog[:, places] = revealed[:, None]
            elif kind == "static":
                shown_static[:, places] = revealed[:, None]
            else:
                shown_times = revealed
        others = (self.series + np.arange(1, len(offsets) + 1)) % self.panel.n_series
        if self.panel.n_series == 1:
            shown_static[:] = True
        y = np.where(shown_y[:, None], self._y, earlier)
        static = np.where(shown_static[:, None], self.panel.static[self.series], self.panel.static[others])
        known = Future(
            np.where(shown_times[:, None, None], self.known.times[0], times[ahead]).reshape(n_all, h),
            np.where(shown_exog[:, None, None], self.known.exog[0], exog[ahead]).reshape(n_all, h, n_exog),
        )
        histories = replace(
            self.panel,
            y=y.reshape(-1),
            indptr=np.arange(n_all + 1) * n,
            times=np.tile(self.panel.times[own], n_all),
            exog=np.tile(self.panel.exog[own], (n_all, 1)),
            static=static.reshape(n_all, -1),
            key=np.repeat(self.panel.keys[self.series], n_all),
        )
        told = self.model.fitted_.predict(histories, np.full(n_all, self.series), known)
        return np.asarray(told[:, step]).reshape(shape)

    def _shown(self, group: tuple[str, Array], step: int) -> Any:
        """Value of an input for plots: a single past value, the latest of a season, or the mean of several."""
        kind, places = group
        if kind != "past":
            return None
        values = self._y[len(self._y) - places]
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        return float(known[0]) if len(places) == 1 or (places + step)[0] in self.model.seasons_ else float(known.mean())


def _uses_calendar(fitted: Fitted | Combination) -> bool:
    regressions = fitted.regressions.values() if isinstance(fitted, Combination) else [fitted]
    learned = [model for regression in regressions for model in regression.models if model is not None]
    return any(model.settings.features.date_features for model in learned)


def _columns_of(frame: LongFrame, names: list[str]) -> dict[str, Array]:
    """Places of each column in the matrix of its kind; a column of categories has one place per category."""
    widths = [len(frame.categories[name]) if name in frame.categories else 1 for name in names]
    ends = np.cumsum([0, *widths])
    return {name: np.arange(first, last) for name, first, last in zip(names, ends[:-1], ends[1:], strict=True)}


def _raw_columns(frame: LongFrame, table: Any, X_df: Any) -> dict[str, list[Any]]:
    """Values of exogenous columns in the rows of the future, and of static columns, for plots."""
    out: dict[str, list[Any]] = {}
    if frame.exog:
        joined = nw.from_native(join_future(table, X_df, frame.names, frame.exog), eager_only=True)
        out.update({name: joined.get_column(name).to_list() for name in frame.exog})
    h = len(table) // frame.panel.n_series
    native = nw.from_native(frame.native, eager_only=True)
    for name in frame.static:
        first = native.get_column(name).to_list()
        out[name] = [first[start] for start in frame.panel.indptr[:-1] for _ in range(h)]
    return out
