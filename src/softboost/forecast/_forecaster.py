"""Forecaster: frames in, forecasts out. Puts the parts together; the parts know nothing of each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from softboost._data.checks import check_choice, check_flag, check_integer
from softboost._file.container import save as save_model
from softboost._regressor import SoftBoostRegressor
from softboost._runtime.progress import Progress

from ._backtest import Backtest
from ._choose import candidate_transforms, choose
from ._distributed import as_local, fit_on_engine, roll_on_engine
from ._fallback import fallback_name, too_short
from ._features import DateFeature, Features, choose_features, season_of
from ._fitted import FitMany, Fitted
from ._frame import LongFrame, Names, add_columns, concatenate, infer_freq, read_future, read_long, take
from ._intervals import check_levels
from ._learned import STRATEGIES, Learned, Settings
from ._panel import Array, Panel
from ._rolling import Scores, calibration_scores, n_calibration_windows, roll
from .target_transforms import Chain, read_target_transforms

__all__ = ["Forecaster"]

AUTO = "auto"


class Forecaster(BaseEstimator):
    """Forecasts of many series in a long frame.

    A frame has one row for each series and time, with columns ``unique_id``, ``ds`` and ``y``; further columns are
    static (they never change within a series) or exogenous (their future is passed to :meth:`predict`). pandas and
    polars are taken, and the answer is of the same kind.

    Parameters
    ----------
    freq : str, int or None, default=None
        Time between rows: a pandas offset for pandas frames ("D", "MS"), a polars one for polars frames ("1d",
        "1mo"), an integer for integer times. None infers it from the longest series.
    h : int, default=1
        Steps ahead that back-tests judge, direct strategies learn and :meth:`predict` gives by default.
    model : scikit-learn regressor, default=None
        Any regressor. None is ``SoftBoostRegressor(shuffle=False)``: its choice is judged in time order.
    lags : list of int, default=None
        Past values as columns. Where ``lags``, ``lag_transforms`` and ``date_features`` are all None they are chosen
        from the frequency and the length of the series. Rows whose lags reach before the start are kept, with NaN.
    lag_transforms : dict of int to list, default=None
        Statistics of the past, e.g. ``{1: [RollingMean(4)]}``; see :mod:`softboost.forecast.lag_transforms`.
    date_features : list of str or callable, default=None
        Attributes of a pandas DatetimeIndex ("month", "dayofweek"), or functions of one.
    target_transforms : "auto", list or None, default="auto"
        Changes of the target, learned from training rows and undone in forecasts and intervals, e.g.
        ``[Log(), Differences([1])]``. "auto" chooses by back-test.
    season_length : int, default=None
        Steps in a season; None takes it from the frequency (12 for months).
    scope : {"local", "global", None}, default=None
        A model for each series, one for all series pooled, or whichever did better in a back-test.
    strategy : {"recursive", "direct", "direct_each"}, default="recursive"
        One model of the next step, fed with its own forecasts; one model with a vector in its leaves for all steps;
        or a model for each step.
    static_features : list of str, default=None
        Columns that never change within a series; None finds them.
    gaps : {"raise", "interpolate", "forward"}, default="raise"
        Refuse missing times and values, or fill them between neighbours or with the last one.
    engine : None, "dask", "ray", "spark" or an engine object, default=None
        Where local models are fitted and back-tests run; needs the ``distributed`` extra. A dask client, a Spark
        session or anything else that fugue takes as an engine uses an existing cluster.
    n_jobs : int, default=None
        Processes for local models on this machine; -1 uses all cores.
    id_col, time_col, target_col : str, default="unique_id", "ds" and "y"
        Names of the columns.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    scope_, features_, target_transforms_, season_length_, freq_
        What was chosen or given.
    fallback_ : dict
        Id of every series too short to learn from, and what forecasts it ("seasonal naive" or "naive").
    choice_ : dict
        Back-test error of every combination that was tried; empty if nothing was left to choose.

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
        lags: Sequence[int] | None = None,
        lag_transforms: dict[int, Sequence[Any]] | None = None,
        date_features: Sequence[DateFeature] | None = None,
        target_transforms: Any = AUTO,
        season_length: int | None = None,
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
        """Learn from all rows of a long frame.

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
        other = self._snapshot()  # so that whatever stops the fit leaves this one as it was
        other._choose(frame.panel, frame)
        other._adopt(frame, other._fit_panel(frame.panel), {})
        other.fitted_.fit_many = self._fit_many()
        self.__dict__ = other.__dict__  # in one step: see _snapshot
        self._warn_of_fallback()
        return self

    def predict(self, h: int | None = None, level: Sequence[float] | None = None, X_df: Any = None) -> Any:
        """Forecast the steps after the last row of every series.

        Parameters
        ----------
        h : int, default=None
            Steps ahead; None takes the forecaster's own. Direct strategies give at most that many.
        level : list of float, default=None
            Percentages of intervals, e.g. ``[80, 95]``. Bounds are conformal: they come from errors made out of
            sample, on rows that a model fitted for this purpose has not seen. The first call with levels fits it.
        X_df : frame, default=None
            Exogenous columns of the steps ahead, where the model was fitted with any.

        Returns
        -------
        frame : pandas or polars frame
            Columns: id, time, the forecast (named as the model's class) and, for each level, ``-lo-`` and ``-hi-``.
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
        if level is not None:
            levels = check_levels(level)
            columns.update(self._bounds(forecast, levels, self._scores_for(h).widths(levels, h)))
        return add_columns(future, columns)

    def update(self, df: Any, learn: bool = False) -> Forecaster:
        """Take new rows in, without fitting again.

        Later forecasts start from the new rows. Series not seen before join the pooled model or get one of their own.

        Parameters
        ----------
        df : frame of the same kind and columns as in :meth:`fit`
            Rows that follow those already known; none may come twice.
        learn : bool, default=False
            Also let the model learn the new rows, by its ``partial_fit``.

        Returns
        -------
        self
        """
        check_is_fitted(self, "fitted_")
        old = self.frame_
        frame = self._read(concatenate(old.native, df), old)
        number = {name: i for i, name in enumerate(old.id_list())}
        places = np.array([number.get(name, -1) for name in frame.id_list()])
        _refuse_earlier_rows(old, frame, places)
        fitted = self.fitted_.grow(frame.panel, places)
        if learn:
            before = np.where(places >= 0, old.panel.sizes[places], frame.panel.sizes)
            fitted.models = [model and model.copied() for model in fitted.models]
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
        """Forecast the past from rolling origins, as it would have been done then.

        Everything left to choose is chosen on the rows before the first origin. A model already fitted stays as it is.

        Parameters
        ----------
        df : pandas or polars frame
            All rows, in any order; the last ones are forecast from those before them.
        h : int, default=None
            Steps ahead of each origin; None takes the forecaster's own.
        n_windows : int, default=10
            Origins; the last lies h rows before the end of each series.
        step_size : int, default=1
            Rows from one origin to the next.
        refit : bool, int or "online", default=False
            Fit before the first origin only; at every one (True); at every k-th (an integer); or let the model learn
            the rows between origins by its ``partial_fit``.
        level : list of float, default=None
            Intervals, calibrated on the rows before the first origin.

        Returns
        -------
        backtest : Backtest
        """
        self._check_params()
        h = self.h if h is None else h
        for name, value in (("h", h), ("n_windows", n_windows), ("step_size", step_size)):
            check_integer(name, value, 1)
        if not isinstance(refit, (bool, str)):
            check_integer("refit", refit, 1, hint="or use True, False or 'online'")
        elif isinstance(refit, str):
            check_choice("refit", refit, ["online"])
        return self._backtest(self._read(df), h, n_windows, step_size, refit, level)

    def save(self, path: str | os.PathLike[str], intervals: bool = True) -> None:
        """Write the forecaster to a file that :func:`softboost.load` reads.

        Of the training rows the file holds only the last ones of each series, those that forecasts start from (all of
        them where expanding or exponentially weighted statistics go on from the first). A loaded forecaster predicts
        and takes updates as this one does; its intervals rest on the errors that were known when it was saved, those of
        ``predict(h, level)`` as it was called before and of the forecaster's own ``h``.

        Parameters
        ----------
        path : str or path-like
            Replaced in one step. Models other than softboost's own are refused; use pickle for those.
        intervals : bool, default=True
            Keep what intervals need. If none were asked for yet, this fits a model for it, as the first call of
            ``predict`` with levels does. False leaves a loaded forecaster without intervals.
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
        first = h + step_size * (n_windows - 1)
        if not (panel.sizes - first >= 2).any():
            raise ValueError(
                f"n_windows={n_windows}, step_size={step_size} and h={h} leave no series with two rows to learn from; "
                f"the longest has {panel.sizes.max()} rows. Use fewer windows or a shorter h"
            )
        other: Forecaster = Forecaster(**self.get_params(deep=False))
        present = np.flatnonzero(panel.sizes - first >= 2)
        training = panel.take(present).cut(first)
        other._choose(training, frame)
        y, forecast = other._roll(panel, h, n_windows, step_size, refit)
        columns = {self._name: forecast}
        if level is not None:
            levels = check_levels(level)
            widths = np.full((len(levels), panel.n_series, h), np.nan)
            widths[:, present] = other._calibrate(training, h).widths(levels, h)
            shape = np.broadcast_to(widths[:, :, None], (len(levels), *forecast.shape))
            columns.update(other._bounds(forecast, levels, shape))
        there = ~np.isnan(forecast)
        start = panel.indptr[1:, None] - (h + step_size * np.arange(n_windows - 1, -1, -1))
        rows = start[:, :, None] + np.arange(h)
        before = np.broadcast_to(start[:, :, None] - 1, rows.shape)
        table = frame.rows(rows[there], before[there], {k: v.reshape(there.shape)[there] for k, v in columns.items()})
        fallback = other._fit_flags(training, [frame.id_list()[i] for i in present])
        return Backtest(table, (y - forecast) ** 2, fallback)

    def _check_params(self) -> None:
        check_integer("h", self.h, 1)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("scope", self.scope, ["local", "global", None])
        check_choice("gaps", self.gaps, ["raise", "interpolate", "forward"])
        if self.season_length is not None:
            check_integer("season_length", self.season_length, 1)
        if self.engine is not None and self.scope == "global":
            raise ValueError("scope='global' pools all series in one fit, which no engine shares out; use engine=None")
        if self.model is not None and not (hasattr(self.model, "fit") and hasattr(self.model, "get_params")):
            raise ValueError(
                f"model must be a scikit-learn regressor, such as lightgbm.LGBMRegressor(), or None; got {self.model!r}"
            )

    @property
    def _name(self) -> str:
        return type(self._model()).__name__

    def _model(self) -> Any:
        return SoftBoostRegressor(shuffle=False) if self.model is None else self.model

    def _read(self, df: Any, old: LongFrame | None = None) -> LongFrame:
        names = Names(self.id_col, self.time_col, self.target_col)
        df = as_local(df)
        if old is not None:
            return read_long(df, old.freq, names, static=old.static, gaps=self.gaps, categories=old.categories)
        freq = infer_freq(df, names) if self.freq is None else self.freq
        return read_long(df, freq, names, static=self.static_features, gaps=self.gaps)

    def _choose(self, panel: Panel, frame: LongFrame) -> None:
        """Set what the user left open: season, features, scope and target transforms."""
        self.freq_ = frame.freq
        self.season_length_ = season_of(frame.freq)[0] if self.season_length is None else self.season_length
        length, dates = int(np.median(panel.sizes)), panel.times.dtype.kind == "M"
        if self.lags is None and self.lag_transforms is None and self.date_features is None:
            self.features_ = choose_features(frame.freq, self.season_length_, length, dates)
        else:
            stated = list(self.lags or []), dict(self.lag_transforms or {}), list(self.date_features or [])
            self.features_ = Features(*stated)
        if not self.features_.names() and not frame.exog and not frame.static:
            raise ValueError("lags, lag_transforms and date_features are all empty: there is nothing to predict from")
        scopes = ["local", "global"] if self.scope is None else [self.scope]
        if self.engine is not None or panel.n_series == 1:
            scopes = [self.scope or "local"]
        given = None if self.target_transforms == AUTO else read_target_transforms(self.target_transforms)
        options = [
            (scope, chain) for scope in scopes
            for chain in ([given] if given is not None else candidate_transforms(scope, panel))
        ]  # fmt: skip
        self.choice_: dict[str, float] = {}
        self.scope_, self.target_transforms_ = options[0]
        if len(options) > 1:
            best, self.choice_ = choose(options, self._make_fit, panel, self.h)
            self.scope_, self.target_transforms_ = best

    def _settings(self, h: int) -> Settings:
        return Settings(self._model(), self.strategy, h, self.features_, self.target_transforms_)

    def _make_fit(self, scope: str, chain: Chain, h: int) -> Callable[[Panel], Fitted]:
        settings = Settings(self._model(), self.strategy, h, self.features_, chain)
        return lambda panel: Fitted(settings, scope, self.season_length_, panel, fit_many=self._fit_in_processes)

    def _fit_panel(self, panel: Panel) -> Fitted:
        return Fitted(self._settings(self.h), self.scope_, self.season_length_, panel, fit_many=self._fit_many())

    def _fit_many(self) -> FitMany:
        return self._fit_in_processes if self.engine is None else partial(fit_on_engine, self.engine)

    def _fit_in_processes(self, settings: Settings, panel: Panel, chosen: Array) -> Iterator[Learned]:
        progress = Progress(self.verbose, len(chosen), "fitting")
        tasks = (delayed(Learned)(settings, panel.take([i])) for i in chosen)
        for learned in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            progress.step()
            yield learned
        progress.close()

    def _roll(
        self, panel: Panel, h: int, n_windows: int, step_size: int, refit: bool | int | str
    ) -> tuple[Array, Array]:
        """Targets and forecasts from rolling origins (n_series, n_windows, h)."""
        settings, season = self._settings(h), self.season_length_
        if self.engine is not None:
            return roll_on_engine(self.engine, settings, season, panel, h, n_windows, step_size, refit)
        progress = Progress(self.verbose, None, "windows")
        fit = self._make_fit(self.scope_, self.target_transforms_, h)
        try:
            return roll(fit, panel, h, n_windows, step_size, refit, progress.step)
        finally:
            progress.close()

    def _steps(self, h: int) -> int:
        """Steps to forecast for ``h`` of them: a model of a vector always gives all of it."""
        if self.strategy == "recursive":
            return h
        if h > self.h:
            raise ValueError(
                f"predict(h={h}): strategy={self.strategy!r} has learned {self.h} steps only; fit with that h"
            )
        return self.h if self.strategy == "direct" else h

    def _calibrate(self, panel: Panel, h: int) -> Scores:
        """Errors of forecasts made out of sample, for intervals of ``h`` steps."""
        steps = self._steps(h)
        y, forecast = self._roll(panel, steps, n_calibration_windows(panel, steps), 1, False)
        return calibration_scores(y, forecast, panel, self.target_transforms_)

    def _scores_for(self, h: int) -> Scores:
        """What intervals of ``h`` steps are made of; after loading, those of the next longer horizon in the file."""
        if h not in self._scores and self.frame_.cut:
            longer = [known for known in self._scores if known > h]
            if not longer:
                known = f"with intervals of at most {max(self._scores)} steps" if self._scores else "without intervals"
                raise ValueError(
                    f"predict(h={h}, level=...): this forecaster comes from a file that was saved {known}, and a file "
                    "holds too few rows to judge forecasts anew; fit again, or call predict with this h and level "
                    "before save"
                )
            return self._scores[min(longer)]
        if h not in self._scores:
            self._scores[h] = self._calibrate(self.frame_.panel, h)
        return self._scores[h]

    def _bounds(self, forecast: Array, levels: list[float], widths: Array) -> dict[str, Array]:
        """Columns with the bounds, in Nixtla's words and order: lower ones from wide to narrow, then upper ones."""
        centre, inverse = self.target_transforms_.link(forecast)
        low = {f"{self._name}-lo-{v:g}": inverse(centre - w).ravel() for v, w in zip(levels, widths, strict=True)}
        high = {f"{self._name}-hi-{v:g}": inverse(centre + w).ravel() for v, w in zip(levels, widths, strict=True)}
        return {**dict(reversed(low.items())), **high}

    def _adopt(self, frame: LongFrame, fitted: Fitted, scores: dict[int, Scores]) -> None:
        """Take over what was learned."""
        ids = frame.id_list()
        self.frame_, self.fitted_, self._scores = frame, fitted, scores
        self.fallback_ = {ids[i]: name for i, name in fitted.fallback(frame.panel).items()}

    def _snapshot(self) -> Forecaster:
        """A shallow copy, which a fit or an update in another thread does not change halfway."""
        other: Forecaster = object.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other

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
        """Ids of series too short for the scope and transforms chosen, and their fallback."""
        short = too_short(panel, self.scope_, self.target_transforms_.n_lost, self.h, self.strategy)
        return {ids[i]: fallback_name(int(panel.sizes[i]), self.season_length_) for i in np.flatnonzero(short)}


def _refuse_earlier_rows(old: LongFrame, new: LongFrame, places: Array) -> None:
    """Rows may only be added behind those known."""
    known = np.flatnonzero(places >= 0)
    before = old.panel.times[old.panel.indptr[places[known]]]
    moved = new.panel.times[new.panel.indptr[known]] != before
    if moved.any():
        name = new.id_list()[known[int(np.argmax(moved))]]
        raise ValueError(f"series {name!r} has new rows before its first known one; update takes later rows only")
