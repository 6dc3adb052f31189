"""The forecaster: reads data frames, selects and fits models, and returns forecasts."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from softboost._data.checks import check_choice, check_flag, check_integer, resolve_n_threads
from softboost._file.container import save as save_model
from softboost._regressor import SoftBoostRegressor
from softboost._runtime.progress import Progress

from ._backtest import Backtest
from ._candidates import CANDIDATES, REGRESSIONS, rows_of
from ._choose import candidate_transforms, choose, few_transforms
from ._combination import Combination, ForecastChoice, combine
from ._distributed import as_local, fit_on_engine, roll_on_engine, run_on_engine
from ._engine_backtest import backtest_on_engine
from ._engines import engine_frame
from ._fallback import fallback_name, too_short
from ._features import DateFeature, FeatureChooser, Features, season_of
from ._fitted import FitMany, Fitted
from ._frame import LongFrame, add_columns, concatenate, infer_freq, read_future, read_long, take
from ._frame_forms import Names, as_long, long_with_freq
from ._intervals import Pools, check_levels
from ._judging import Plan
from ._learned import STRATEGIES, Learned, Settings
from ._one_pass import forecast_frame, forecast_on_engine
from ._panel import Array, Panel
from ._plots import axes_of_series, chosen_series, draw_forecast
from ._rivals import rival_forecasts, step_sizes
from ._rolling import Scores, calibration_origins, calibration_scores, common_origins, roll
from ._sample import names_of
from ._smoothing import Smoothing, seasons_of
from ._together import fits_together
from .target_transforms import Chain, read_target_transforms

__all__ = ["Forecaster"]

AUTO = "auto"
SERIES_PER_PART = 64  # local models between two steps of the progress bar
ROWS_PER_PART = 2**15  # of series whose models are fitted together
PARTS_PER_PROCESS = 8
WORTH_PROCESSES = 32  # number of small fits from which processes are worth starting

# The regression among other candidates starts from a linear model and does not select its model.
FEW_ROUNDS: dict[str, Any] = {
    "n_estimators": 40, "learning_rate": 0.1, "depth": 2, "feature_transform": None, "leaves": "linear",
    "gates": "greedy", "init": "linear", "shuffle": False,
}  # fmt: skip


class Forecaster(BaseEstimator):
    """Forecaster of one or many time series.

    By default, four candidates are compared at past origins and combined: a bank of smoothers and autoregressions, a
    correction of the bank that is learned from all series, and regressions on lags for each series and for all series.
    If a parameter of the regressions is set (``model``, ``lags``, ``lag_transforms``, ``date_features``,
    ``target_transforms``, ``scope``, ``strategy="direct"``), only the regressions are used, unless ``candidates`` is
    set.

    The data frame has one row for each series and time, with columns ``unique_id``, ``ds`` and ``y``. A single series
    needs no ``unique_id``, and a pandas frame may have ids and dates in its index. Other columns are static (constant
    within each series) or exogenous (their future values are passed to :meth:`predict`). Results are frames of the same
    library, pandas or polars.

    Parameters
    ----------
    freq : str, int or None, default=None
        Time between rows: a pandas offset for pandas frames ("D", "MS"), a polars duration for polars frames ("1d",
        "1mo"), or an integer for integer times. None infers it from the longest series.
    h : int, default=1
        Forecast horizon: the number of steps of back-tests, of direct strategies and, by default, of :meth:`predict`.
    model : scikit-learn regressor, default=None
        Regressor of the regressions. None uses ``SoftBoostRegressor(shuffle=False)``, whose folds are in time order; if
        it is combined with other candidates, a model of a few rounds that starts from a linear model.
    candidates : list of str, default=None
        Candidates to combine, out of "smoothing", "correction", "local" and "global". A combination always includes the
        smoothing bank, because it forecasts series that are too short for the others. One regression is used alone.
    lags : list of int, default=None
        Lags used as columns. If ``lags``, ``lag_transforms`` and ``date_features`` are all None, they depend on the
        frequency and the length of the series. Lags before the start of a series are NaN.
    lag_transforms : dict of int to list, default=None
        Statistics of past values, e.g. ``{1: [RollingMean(4)]}``; see :mod:`softboost.forecast.lag_transforms`.
    date_features : list of str or callable, default=None
        Attributes of a pandas DatetimeIndex ("month", "dayofweek"), or functions of one.
    target_transforms : "auto", list or None, default="auto"
        Transforms of the target, learned from training rows and inverted in forecasts and intervals, e.g.
        ``[Log(), Differences([1])]``. "auto" selects them by a back-test.
    season_length : int or list of int, default=None
        Season length in steps; None uses the frequency: 12 for months, 24 and 168 for hours, 7 and 365 for days.
    scope : {"local", "global", None}, default=None
        One model per series or one model for all series. None selects by a back-test.
    strategy : {"recursive", "direct", "direct_each"}, default="recursive"
        One model of the next step, whose forecasts become lags; one model with an output for each step; or one model
        per step.
    static_features : list of str, default=None
        Columns that are constant within each series; None detects them.
    gaps : {"raise", "interpolate", "forward"}, default="raise"
        Raise an error for missing times and values, or interpolate them, or fill them with the last value.
    engine : None, "dask", "ray", "spark" or an engine object, default=None
        Where local models are fitted, back-tests run and :meth:`forecast` computes parts of a frame in memory; needs
        the ``distributed`` extra. A dask client, a Spark session or anything else that fugue takes as an engine uses an
        existing cluster. Frames of an engine are forecast and back-tested there without this parameter.
    n_jobs : int, default=None
        Processes for local models on this machine; -1 uses all cores.
    id_col, time_col, target_col : str, default="unique_id", "ds" and "y"
        Names of the columns.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    scope_, features_, target_transforms_, season_length_, freq_
        Values that were selected or given.
    candidates_ : tuple of str
        Candidates that were compared.
    choice_ : ForecastChoice
        ``weights`` and ``errors`` of the candidates, and :meth:`~ForecastChoice.describe`.
    fallback_ : dict
        For regressions alone: id of every series that is too short, and the name of its fallback.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from softboost.forecast import Forecaster
    >>> t = np.arange(72)
    >>> df = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2020-01-01", periods=72, freq="MS"),
    ...                    "y": 10 + np.sin(t * np.pi / 6)})
    >>> forecast = Forecaster(freq="MS", h=3).fit(df).predict(level=[80])
    >>> list(forecast.columns)
    ['unique_id', 'ds', 'SoftBoostRegressor', 'SoftBoostRegressor-lo-80', 'SoftBoostRegressor-hi-80']
    """

    def __init__(
        self,
        freq: str | int | None = None,
        h: int = 1,
        model: Any = None,
        *,
        candidates: Sequence[str] | None = None,
        lags: Sequence[int] | None = None,
        lag_transforms: dict[int, Sequence[Any]] | None = None,
        date_features: Sequence[DateFeature] | None = None,
        target_transforms: Any = AUTO,
        season_length: int | Sequence[int] | None = None,
        scope: str | None = None,
        strategy: str = "recursive",
        static_features: list[str] | None = None,
        gaps: str = "raise",
        engine: Any = None,
        n_jobs: int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        verbose: bool = False,
    ) -> None:
        self.freq = freq
        self.h = h
        self.model = model
        self.candidates = candidates
        self.lags = lags
        self.lag_transforms = lag_transforms
        self.date_features = date_features
        self.target_transforms = target_transforms
        self.season_length = season_length
        self.scope = scope
        self.strategy = strategy
        self.static_features = static_features
        self.gaps = gaps
        self.engine = engine
        self.n_jobs = n_jobs
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.verbose = verbose

    # -- fitting and forecasting -----------------------------------------------------------------------------------

    def fit(self, df: Any) -> Forecaster:
        """Fit to all rows of a data frame.

        Parameters
        ----------
        df : pandas or polars frame
            Rows in any order.

        Returns
        -------
        self
        """
        self._check_params()
        frame = self._read(df)
        other = self._snapshot()  # so that an interrupted fit changes nothing
        other._choose(frame.panel, frame)
        other._adopt(frame, other._fit_panel(frame.panel), {})
        self.__dict__ = other.__dict__  # in one step: see _snapshot
        self._warn_of_fallback()
        return self

    def predict(self, h: int | None = None, level: Sequence[float] | None = None, X_df: Any = None) -> Any:
        """Forecast the steps after the last row of each series.

        Parameters
        ----------
        h : int, default=None
            Number of steps; None uses that of the forecaster. Direct strategies forecast at most that many.
        level : list of float, default=None
            Levels of intervals in percent, e.g. ``[80, 95]``. Bounds are computed from out-of-sample errors. For
            regressions alone, the first call with levels fits a model for this purpose.
        X_df : frame, default=None
            Exogenous columns of the steps ahead, if the model was fitted with any.

        Returns
        -------
        frame : pandas or polars frame
            Columns: id, time, the forecast (named after the class of the model) and, for each level, the bounds with
            ``-lo-`` and ``-hi-``.
        """
        check_is_fitted(self, "fitted_")
        return self._snapshot()._predict(h, level, X_df)

    def _predict(self, h: int | None, level: Sequence[float] | None, X_df: Any) -> Any:
        h = self.h if h is None else h
        check_integer("h", h, 1)
        steps = self._steps(h)
        future, known = read_future(self.frame_, steps, X_df)
        panel = self.frame_.panel
        forecast = self.fitted_.predict(panel, np.arange(panel.n_series), known)
        if steps > h:
            keep = (np.arange(panel.n_series)[:, None] * steps + np.arange(h)).ravel()
            future = take(future, keep)
        forecast = forecast[:, :h]
        columns = {self._name: forecast.ravel()}
        levels = [] if level is None else check_levels(level)
        if levels:
            scores = self._scores_for(h)
            columns.update(self._bounds(forecast, levels, scores, scores.pools(levels)))
        return add_columns(future, columns)

    def forecast(
        self,
        df: Any,
        h: int | None = None,
        level: Sequence[float] | None = None,
        X_df: Any = None,
        *,
        flags: bool = False,
    ) -> Any:
        """Fit and forecast in one pass without keeping models, for frames of any size.

        Up to 2,500 series, the forecasts equal those of ``fit(df).predict(h, level, X_df)``. With more series, what the
        series share is learned from a sample of 2,500, selected by their ids: the weights of the candidates, the
        correction and the pooled errors of the intervals. All series are then forecast in parts. For regressions alone,
        the scope, the transforms and the pooled errors are learned from 500 series, and a global regression from 2,500.
        The fitted state of the forecaster does not change.

        Frames of Dask, Ray and Spark give a frame of the same engine, computed lazily by its workers, in no particular
        order. This process receives only the rows of the sample, which is drawn when the method is called. The results
        are bitwise identical to those of the same rows in one pandas frame.

        A series with invalid rows (infinite or missing values, repeated or missing times) has forecasts of NaN; the
        other series are not affected.

        Parameters
        ----------
        df : frame of pandas, polars, dask, ray or Spark
            Rows in any order.
        h : int, default=None
            Number of steps; None uses that of the forecaster.
        level : list of float, default=None
            Levels of intervals in percent, e.g. ``[80, 95]``.
        X_df : frame, default=None
            Exogenous columns of the steps ahead.
        flags : bool, default=False
            Add a column ``flag`` with the problem of each series; it is empty if there is none.

        Returns
        -------
        frame : frame of the same library
            Columns as those of :meth:`predict`.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from softboost.forecast import Forecaster
        >>> df = pd.DataFrame({"unique_id": "a", "ds": np.arange(40), "y": np.arange(40) % 5})
        >>> Forecaster(1, season_length=5).forecast(df, h=5)["SoftBoostRegressor"].round(1).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
        """
        self._check_params()
        check_flag("flags", flags)
        h = self.h if h is None else h
        check_integer("h", h, 1)
        levels = [] if level is None else check_levels(level)
        model = Forecaster(**{**self.get_params(deep=False), "h": h, "engine": None})
        source = engine_frame(df, self.engine)
        if source is not None:
            return forecast_on_engine(model, source, levels, flags, X_df)
        df, model.freq = model._long(df, names_of(model))
        run = None if self.engine is None else partial(run_on_engine, self.engine)
        return forecast_frame(model, df, levels, flags, as_local(X_df), run)

    def update(self, df: Any, learn: bool = False) -> Forecaster:
        """Add new rows without fitting again.

        Forecasts then start after the new rows. New series join the global model or get a local one.

        Parameters
        ----------
        df : frame of the same kind and columns as in :meth:`fit`
            Rows after the known ones, each only once.
        learn : bool, default=False
            Also pass the new rows to ``partial_fit`` of the model.

        Returns
        -------
        self
        """
        check_is_fitted(self, "fitted_")
        old = self.frame_
        frame = self._read(df, old)
        number = {name: i for i, name in enumerate(old.id_list())}
        places = np.array([number.get(name, -1) for name in frame.id_list()])
        _refuse_earlier_rows(old, frame, places)
        fitted = self.fitted_.grow(frame.panel, places)
        if learn:
            before = np.where(places >= 0, old.panel.sizes[places], frame.panel.sizes)
            fitted = fitted.copied()
            fitted.learn(frame.panel, frame.panel.sizes - before)
        scores: dict[int, Scores] = {}
        if old.cut:  # too few rows are left to judge forecasts anew
            frame.cut = True
            grown = {h: s.grow(frame.panel, places, self.target_transforms_) for h, s in self._scores.items()}
            scores.update(grown)
        other = self._snapshot()
        other._adopt(frame, fitted, scores)
        self.__dict__ = other.__dict__
        return self

    def backtest(
        self,
        df: Any,
        *,
        h: int | None = None,
        n_windows: int = 10,
        step_size: int = 1,
        refit: bool | int | str = False,
        level: Sequence[float] | None = None,
    ) -> Backtest:
        """Forecast the past from rolling origins, using only the rows before each origin.

        Candidates, transforms and features are selected on the rows before the first origin. The fitted state of the
        forecaster does not change.

        Of a frame of dask, ray or Spark, workers forecast the series, with what a sample of them has taught, as in
        :meth:`forecast`; the forecasts stay with the engine.

        Parameters
        ----------
        df : frame of pandas, polars, dask, ray or Spark
            All rows, in any order; the last ones are forecast from the earlier ones.
        h : int, default=None
            Number of steps from each origin; None uses that of the forecaster.
        n_windows : int, default=10
            Number of origins; the last is h steps before the latest time of the panel.
        step_size : int, default=1
            Steps from one origin to the next.
        refit : bool, int or "online", default=False
            Fit before the first origin only (False), at every origin (True), at every k-th (an integer), or pass the
            rows between origins to ``partial_fit`` of the model ("online").
        level : list of float, default=None
            Intervals, calibrated on the rows before the first origin.

        Returns
        -------
        backtest : Backtest, or EngineBacktest for a frame of dask, ray or Spark
        """
        self._check_params()
        h = self.h if h is None else h
        for name, value in (("h", h), ("n_windows", n_windows), ("step_size", step_size)):
            check_integer(name, value, 1)
        if not isinstance(refit, (bool, str)):
            check_integer("refit", refit, 1, hint="or use True, False or 'online'")
        elif isinstance(refit, str):
            check_choice("refit", refit, ["online"])
        source = engine_frame(df, self.engine)
        if source is not None:
            model = Forecaster(**{**self.get_params(deep=False), "h": h, "engine": None})
            levels = [] if level is None else check_levels(level)
            return cast("Any", backtest_on_engine(model, source, n_windows, step_size, refit, levels))
        return self._backtest(self._read(df), h, n_windows, step_size, refit, level)

    def plot(
        self,
        h: int | None = None,
        level: Sequence[float] | None = (80, 95),
        X_df: Any = None,
        *,
        series: Any = None,
        n_history: int | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw the history, the forecasts and their intervals.

        Parameters
        ----------
        h, level, X_df
            As in :meth:`predict`; ``level=None`` draws no intervals.
        series : id or list of ids, default=None
            Series to draw; None draws the first six.
        n_history : int, default=None
            Number of past values; None shows four horizons, but at least 60 values.
        ax : matplotlib axes, sequence of axes or None, default=None
            Axes to draw on. None creates a figure with one panel per series; all series share a single axes object.

        Returns
        -------
        ax : matplotlib axes, or array of axes for several panels

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import pandas as pd
        >>> from softboost.forecast import Forecaster
        >>> df = pd.DataFrame({"unique_id": "a", "ds": np.arange(40), "y": np.arange(40) % 5})
        >>> Forecaster(1, h=5, candidates=["smoothing"], season_length=5).fit(df).plot().get_title(loc="left")
        'a'
        """
        check_is_fitted(self, "fitted_")
        frame = self.frame_
        h = self.h if h is None else h
        table = self.predict(h, level, X_df)
        ids = frame.id_list()
        chosen = chosen_series(ids, series)
        axes = axes_of_series(ax, len(chosen))
        alone = len(set(map(id, axes))) == len(axes)
        if n_history is None:
            n_history = max(60, 4 * h)
        check_integer("n_history", n_history, 1)
        levels = [] if level is None else check_levels(level)
        columns = {name: np.asarray(table[name]).reshape(len(ids), h) for name in table.columns[1:]}
        for name, panel in zip(chosen, axes, strict=True):
            i = ids.index(name)
            stop = frame.panel.indptr[i + 1]
            rows = slice(max(frame.panel.indptr[i], stop - n_history), stop)
            history = frame.panel.times[rows], frame.panel.y[rows]
            bands = {v: tuple(columns[f"{self._name}-{e}-{v:g}"][i] for e in ("lo", "hi")) for v in levels}
            times = np.asarray(columns[self.time_col][i])
            draw_forecast(panel, name, history, times, columns[self._name][i], bands, alone)
        return axes[0] if len(set(map(id, axes))) == 1 else np.array(axes, dtype=object)

    def save(self, path: str | os.PathLike[str], intervals: bool = True) -> None:
        """Write the forecaster to a file that :func:`softboost.load` reads.

        The file contains only the last training rows of each series, which forecasts start from (all rows if there are
        expanding or exponentially weighted statistics). A loaded forecaster predicts and updates like this one. Its
        intervals use the errors that were known when it was saved: those of earlier calls of ``predict(h, level)`` and
        of the ``h`` of the forecaster.

        Parameters
        ----------
        path : str or path-like
            Path of the file, which is replaced atomically. Use pickle for forecasters with models of other libraries.
        intervals : bool, default=True
            Save the errors for intervals. If they are not known yet, a model is fitted to obtain them, as in the first
            call of ``predict`` with levels. False: the loaded forecaster has no intervals.
        """
        check_is_fitted(self, "fitted_")
        check_flag("intervals", intervals)
        model = self._snapshot()
        if intervals and not model.frame_.cut:
            model._scores_for(model.h)
        if not intervals:
            model._scores = {}
        save_model(model, path)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _backtest(
        self, frame: LongFrame, h: int, n_windows: int, step_size: int, refit: bool | int | str, level: Any
    ) -> Backtest:
        panel = frame.panel
        back = common_origins(panel, h, n_windows, step_size)
        present = np.flatnonzero(panel.sizes - back[:, 0] >= 2)
        if not len(present):
            raise ValueError(
                f"n_windows={n_windows}, step_size={step_size} and h={h} leave no series with two rows to learn from; "
                f"the longest has {panel.sizes.max()} rows. Use fewer windows or a shorter h"
            )
        other: Forecaster = Forecaster(**{**self.get_params(deep=False), "h": h})
        last_known = panel.indptr[1:][present] - back[present, 0] - 1
        frame = frame.known_at(panel.times[last_known].max(), self.static_features)
        panel = frame.panel
        training = panel.take(present).cut(back[present, 0])
        other._choose(training, frame)
        first_fit: list[Fitted | Combination] = []
        y, forecast = other._roll(panel, back, h, refit, first_fit)
        columns = {self._name: forecast}
        levels = [] if level is None else check_levels(level)
        if levels:
            scores = other._calibrate(training, h, first_fit[0] if first_fit else None)
            bounds = other._bounds(forecast[present], levels, scores, scores.pools(levels))
            for name, values in bounds.items():
                columns[name] = np.full(forecast.shape, np.nan)
                columns[name][present] = values.reshape(forecast[present].shape)
        smoothing = Smoothing(other.seasons_, other._n_threads())
        rivals = rival_forecasts(panel, back, h, other.season_length_, smoothing)
        rivals = {name: np.where(np.isnan(forecast), np.nan, told) for name, told in rivals.items()}
        columns.update(rivals)
        table = frame.rows_ahead(back, forecast, columns)
        fallback = other._fit_flags(training, [frame.id_list()[i] for i in present])
        choice = first_fit[0].choice if first_fit and isinstance(first_fit[0], Combination) else other.choice_
        return Backtest(
            table,
            (y - forecast) ** 2,
            fallback,
            choice,
            {name: (y - told) ** 2 for name, told in rivals.items()},
            step_sizes(panel, back, forecast),
            frame.id_list(),
            (self.id_col, self.time_col, self.target_col, self._name),
            tuple(levels),
        )

    def _check_params(self) -> None:
        check_integer("h", self.h, 1)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("scope", self.scope, ["local", "global", None])
        check_choice("gaps", self.gaps, ["raise", "interpolate", "forward"])
        for season in self._stated_seasons() or ():
            check_integer("season_length", season, 1)
        if self.candidates is not None:
            if isinstance(self.candidates, str) or not len(self.candidates):
                raise ValueError(f"candidates must be a list of names, got {self.candidates!r}; e.g. ['smoothing']")
            for name in self.candidates:
                check_choice("candidates", name, [row.name for row in CANDIDATES])
        if self.engine is not None and self.scope == "global":
            raise ValueError("scope='global' fits one model, which engines do not distribute; use engine=None")
        if self.model is not None and not (hasattr(self.model, "fit") and hasattr(self.model, "get_params")):
            raise ValueError(
                f"model must be a scikit-learn regressor, such as lightgbm.LGBMRegressor(), or None; got {self.model!r}"
            )

    @property
    def _name(self) -> str:
        return type(self._model()).__name__

    def _model(self) -> Any:
        if self.model is not None:
            return self.model
        return (
            SoftBoostRegressor(**FEW_ROUNDS)
            if getattr(self, "candidates_", ()) and self._combines
            else SoftBoostRegressor(shuffle=False)
        )

    def _read(self, df: Any, old: LongFrame | None = None) -> LongFrame:
        names = Names(self.id_col, self.time_col, self.target_col)
        if old is not None:
            df = concatenate(old.native, as_long(as_local(df), names))
            return read_long(df, old.freq, names, static=old.static, gaps=self.gaps, categories=old.categories)
        df, freq = self._long(as_local(df), names)
        return read_long(
            df, infer_freq(df, names) if freq is None else freq, names, static=self.static_features, gaps=self.gaps
        )

    def _long(self, df: Any, names: Names) -> tuple[Any, str | int | None]:
        """The frame in long format, and the frequency if it is given."""
        df, of_periods = long_with_freq(df, names)
        if of_periods is not None and self.freq is not None and season_of(self.freq) != season_of(of_periods):
            raise ValueError(
                f"freq={self.freq!r} contradicts the periods of column {self.time_col!r}: use {of_periods!r}"
            )
        return df, of_periods or self.freq

    def _stated_seasons(self) -> tuple[int, ...] | None:
        if self.season_length is None:
            return None
        return tuple(self.season_length) if isinstance(self.season_length, Sequence) else (self.season_length,)

    def _open_candidates(self) -> tuple[str, ...]:
        """Candidates allowed by the settings."""
        scopes = REGRESSIONS if self.scope is None else (self.scope,)
        if self.candidates is not None:
            fitting = [row for row in rows_of(self.candidates) if not row.regression or row.name in scopes]
            if not fitting:
                raise ValueError(
                    f"candidates={list(self.candidates)!r} and scope={self.scope!r} exclude each other; "
                    "leave one of them out"
                )
            stated = self._stated_of_regressions()
            if stated and not any(row.regression for row in fitting):
                raise ValueError(
                    f"candidates={list(self.candidates)!r} contains no regression, so {stated[0]} has no effect; leave "
                    f"it out, or add one of {list(REGRESSIONS)!r} to candidates"
                )
            return tuple(row.name for row in fitting)
        return scopes if self._stated_of_regressions() else tuple(row.name for row in CANDIDATES)

    def _stated_of_regressions(self) -> list[str]:
        """Parameters of the regressions that are not at their defaults, with their values."""
        defaults = {
            "model": None, "lags": None, "lag_transforms": None, "date_features": None, "scope": None,
            "target_transforms": AUTO, "strategy": "recursive",
        }  # fmt: skip
        values = {name: getattr(self, name) for name in defaults}
        return [
            f"{name}={value!r}" for name, value in values.items()
            if not (value is defaults[name] or (isinstance(value, str) and value == defaults[name]))
        ]  # fmt: skip

    @property
    def _combines(self) -> bool:
        """Whether candidates are combined; among regressions alone, one is selected."""
        return not set(self.candidates_) <= set(REGRESSIONS) or (
            self.candidates is not None and len(self.candidates_) > 1
        )

    def _choose_candidates(self, frame: LongFrame) -> None:
        """Set what depends only on the settings and the frequency."""
        self.freq_ = frame.freq
        stated = self._stated_seasons()
        usual = seasons_of(season_of(frame.freq)[0])
        self.seasons_ = usual if stated is None else tuple(m for m in stated if m > 1)
        self.season_length_ = self.seasons_[0] if self.seasons_ else 1
        self.candidates_ = self._open_candidates()
        self._chooser = None
        if self.lags is None and self.lag_transforms is None and self.date_features is None:
            dates = frame.panel.times.dtype.kind == "M"
            longer = self.seasons_[1] if len(self.seasons_) > 1 else 0
            self._chooser = FeatureChooser(frame.freq, self.season_length_, dates, longer)

    def _choose(self, panel: Panel, frame: LongFrame) -> None:
        """Select season, features, scope and target transforms that are not given."""
        self._choose_candidates(frame)
        if self._chooser is not None:
            self.features_ = self._chooser(_typical_length(panel))
        else:
            own = list(self.lags or []), dict(self.lag_transforms or {}), list(self.date_features or [])
            self.features_ = Features(*own)
        if not self.features_.names() and not frame.exog and not frame.static and not self._combines:
            raise ValueError("lags, lag_transforms and date_features are all empty; set at least one of them")
        self.choice_ = ForecastChoice()
        self.scope_: str | None = None
        self.target_transforms_ = Chain([])
        if not self._combines:
            self._choose_regression(panel)

    def _choose_regression(self, panel: Panel) -> None:
        """Select scope and target transforms of a regression alone."""
        scopes = list(self.candidates_)
        if self.engine is not None or panel.n_series == 1:
            scopes = ["local"] if "local" in scopes else scopes
        options = [(scope, chain) for scope in scopes for chain in self._transforms(scope, panel, candidate_transforms)]
        self.scope_, self.target_transforms_ = options[0]
        if len(options) > 1:
            best, self.choice_.errors = choose(options, self._make_fit, panel, self.h)
            self.scope_, self.target_transforms_ = best

    def _transforms(self, scope: str, panel: Panel, few: Callable[[str, Panel], list[Chain]]) -> list[Chain]:
        if self.target_transforms == AUTO:
            return few(scope, panel)
        chain = read_target_transforms(self.target_transforms)
        chain.link(panel.filled)  # raises if a value has no logarithm
        return [chain]

    def _settings(self, chain: Chain, h: int) -> Settings:
        return Settings(self._model(), self.strategy, h, self.features_, chain, self._chooser)

    def _make_fit(self, scope: str, chain: Chain, h: int) -> Callable[[Panel], Fitted]:
        settings = self._settings(chain, h)
        return lambda panel: Fitted.fit(settings, scope, self.season_length_, panel, fit_many=self._fit_in_processes)

    def _plan(self, h: int) -> Plan:
        """The plan of a combination."""

        def transforms(scope: str, panel: Panel, whole: Panel) -> list[Chain]:
            few = partial(few_transforms, season=self.season_length_, whole=whole)
            return self._transforms(scope, panel, few)

        def regression(scope: str, chain: Chain, panel: Panel, h: int) -> Fitted:
            settings = self._settings(chain, h)
            return Fitted.fit(settings, scope, self.season_length_, panel, fit_many=self._fit_many())

        smoothing = Smoothing(self.seasons_, self._n_threads())
        return Plan(self.candidates_, h, smoothing, transforms, regression)

    def _n_threads(self) -> int:
        return resolve_n_threads(self.n_jobs)

    def _fit_panel(self, panel: Panel) -> Fitted | Combination:
        if not self._combines:
            assert self.scope_ is not None
            settings = self._settings(self.target_transforms_, self.h)
            return Fitted.fit(settings, self.scope_, self.season_length_, panel, fit_many=self._fit_many())
        progress = Progress(self.verbose, None, "candidates")
        try:
            fitted = combine(self._plan(self.h), panel, progress.step)
        finally:
            progress.close()
        self.choice_ = fitted.choice
        return fitted

    def _fit_many(self) -> FitMany:
        return self._fit_in_processes if self.engine is None else partial(fit_on_engine, self.engine)

    def _fit_in_processes(self, settings: Settings, panel: Panel, chosen: Array) -> Iterator[Learned]:
        progress = Progress(self.verbose, len(chosen), "fitting")
        n_jobs = 1 if self._combines and len(chosen) < WORTH_PROCESSES else self.n_jobs
        together = fits_together(settings.model)
        n_parts = -(-int(panel.sizes[chosen].sum()) // ROWS_PER_PART if together else -len(chosen) // SERIES_PER_PART)
        if n_jobs not in (None, 1):  # several parts for each process, because some take longer
            n_parts = max(n_parts, PARTS_PER_PROCESS * effective_n_jobs(n_jobs))
        parts = [part for part in np.array_split(chosen, max(n_parts, 1)) if len(part)]
        tasks = (delayed(Learned.fit_each)(settings, panel.take(part)) for part in parts)
        for several in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
            for learned in several:
                progress.step()
                yield learned
        progress.close()

    def _roll(
        self, panel: Panel, back: Array, h: int, refit: bool | int | str, first_fit: list[Any] | None = None
    ) -> tuple[Array, Array]:
        """Targets and forecasts from rolling origins (n_series, n_windows, h); appends the first model to first_fit."""
        if self.engine is not None and not self._combines:
            settings = self._settings(self.target_transforms_, h)
            return roll_on_engine(self.engine, settings, self.season_length_, panel, back, h, refit)

        def fit(training: Panel) -> Fitted | Combination:
            if self._combines:
                fitted: Fitted | Combination = combine(self._plan(h), training)
            else:
                assert self.scope_ is not None
                fitted = self._make_fit(self.scope_, self.target_transforms_, h)(training)
            if first_fit is not None:
                first_fit.append(fitted)
            return fitted

        progress = Progress(self.verbose, None, "windows")
        try:
            return roll(fit, panel, back, h, refit, progress.step)
        finally:
            progress.close()

    def _steps(self, h: int) -> int:
        """Number of steps to compute for ``h`` steps: a direct model always gives all of its outputs."""
        if self.strategy == "recursive" or self._combines:
            return h
        if h > self.h:
            raise ValueError(
                f"predict(h={h}): strategy={self.strategy!r} has learned {self.h} steps only; fit with that h"
            )
        return self.h if self.strategy == "direct" else h

    def _calibrate(self, panel: Panel, h: int, fitted: Fitted | Combination | None) -> Scores:
        """Out-of-sample errors for intervals of ``h`` steps."""
        if isinstance(fitted, Combination):
            return fitted.scores(panel, h)
        steps = self._steps(h)
        y, forecast = self._roll(panel, calibration_origins(panel, steps), steps, False)
        return calibration_scores(y, forecast, panel, self.target_transforms_)

    def _scores_for(self, h: int) -> Scores:
        """Scores for intervals of ``h`` steps; after loading, those of the next longer horizon in the file."""
        if h not in self._scores and self.frame_.cut:
            longer = [known for known in self._scores if known > h]
            if not longer:
                known = f"with intervals of at most {max(self._scores)} steps" if self._scores else "without intervals"
                raise ValueError(
                    f"predict(h={h}, level=...): this forecaster comes from a file that was saved {known}, and a file "
                    "contains too few rows for new errors; fit again, or call predict with this h and level "
                    "before save"
                )
            return self._scores[min(longer)]
        if h not in self._scores:
            self._scores[h] = self._calibrate(self.frame_.panel, h, self.fitted_)
        return self._scores[h]

    def _bounds(self, forecast: Array, levels: list[float], scores: Scores, pools: Pools) -> dict[str, Array]:
        """Columns of bounds, named and ordered as by Nixtla: lower bounds from wide to narrow, then upper bounds."""
        low, high = scores.bounds(forecast, levels, self.target_transforms_, pools)
        if (np.isnan(low) & ~np.isnan(forecast)).any():
            warnings.warn(
                "intervals are NaN for series of one or two values, because no other series shows how far values move; "
                "add rows, or fit them together with other series",
                stacklevel=4,
            )
        lower = {f"{self._name}-lo-{v:g}": values.ravel() for v, values in zip(levels, low, strict=True)}
        upper = {f"{self._name}-hi-{v:g}": values.ravel() for v, values in zip(levels, high, strict=True)}
        return {**dict(reversed(lower.items())), **upper}

    def _adopt(self, frame: LongFrame, fitted: Fitted | Combination, scores: dict[int, Scores]) -> None:
        """Store the fitted state."""
        ids = frame.id_list()
        self.frame_, self.fitted_, self._scores = frame, fitted, scores
        self.fallback_ = {ids[i]: name for i, name in fitted.fallback(frame.panel).items()}

    def _snapshot(self) -> Forecaster:
        """A shallow copy, which a fit or an update in another thread does not change halfway."""
        return copy.copy(self)

    def _warn_of_fallback(self) -> None:
        if self.fallback_:
            some = ", ".join(f"{k!r} ({v})" for k, v in list(self.fallback_.items())[:3])
            n_series = self.frame_.panel.n_series
            warnings.warn(
                f"{len(self.fallback_)} of {n_series} series are too short to learn from and are forecast by a fallback"
                f": {some}{', ...' if len(self.fallback_) > 3 else ''}; see fallback_",
                stacklevel=3,
            )

    def _fit_flags(self, panel: Panel, ids: list[Any]) -> dict[Any, str]:
        """Ids of series that are too short for the selected scope and transforms, and their fallback."""
        if self.scope_ is None:
            return {}
        short = too_short(panel, self.scope_, self.target_transforms_.n_lost, self.h, self.strategy)
        return {ids[i]: fallback_name(int(panel.sizes[i]), self.season_length_) for i in np.flatnonzero(short)}


def _typical_length(panel: Panel) -> int:
    """Length of the series that contains the median row, which short series hardly affect."""
    sizes = np.sort(panel.sizes)
    return int(sizes[np.searchsorted(np.cumsum(sizes), 0.5 * sizes.sum())])


def _refuse_earlier_rows(old: LongFrame, new: LongFrame, places: Array) -> None:
    """Raise ValueError if a new row is not after the known rows of its series."""
    known = np.flatnonzero(places >= 0)
    before = old.panel.times[old.panel.indptr[places[known]]]
    moved = new.panel.times[new.panel.indptr[known]] != before
    if moved.any():
        name = new.id_list()[known[int(np.argmax(moved))]]
        raise ValueError(f"series {name!r} has new rows before its first known one; update takes later rows only")
