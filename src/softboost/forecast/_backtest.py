"""Result of a back-test: forecasts and actual values, scores compared with simple forecasts, and plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from softboost._data.checks import check_choice
from softboost._runtime.axes import new_axes

from ._combination import ForecastChoice
from ._panel import Array
from ._plots import STYLES, axes_of_series, chosen_series, draw_origins

__all__ = ["Backtest"]


@dataclass(frozen=True)
class Backtest:
    """Forecasts from rolling origins and their errors, compared with simple forecasts.

    Attributes
    ----------
    forecasts : pandas or polars frame
        A row for each series, origin and step: id, time, target, ``cutoff`` (the last time known), the forecast, the
        bounds of each level, and the forecasts of the rivals.
    losses : ndarray of shape (n_series, n_windows, h)
        Squared errors; NaN if a series has no such origin or the target is unknown.
    fallback : dict
        Id of every series that was too short for the model at the first origin, and the name of its fallback.
    choice : ForecastChoice or None, default=None
        Weights and errors of the candidates at the first origin.
    rivals : dict of str to ndarray of shape (n_series, n_windows, h), default={}
        Squared errors of the last value ("naive"), the last season ("seasonal_naive", if there is a season) and the
        smoothing bank ("smoothing") at the same origins.
    scales : ndarray of shape (n_series,) or None, default=None
        Mean absolute one-step change of each series before its first origin; errors are divided by it in ``mase``.
    ids : list, default=[]
        Ids of the series, in the order of ``losses``.
    names : tuple of str, default=("unique_id", "ds", "y", "SoftBoostRegressor")
        Columns of ``forecasts`` with the id, the time, the target and the forecast.
    levels : tuple of float, default=()
        Levels of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from softboost.forecast import Forecaster
    >>> days = pd.date_range("2024-01-01", periods=60)
    >>> df = pd.DataFrame({"unique_id": "a", "ds": days, "y": np.sin(np.arange(60) / 3)})
    >>> test = Forecaster(freq="D", h=2, scope="local", target_transforms=None).backtest(df, n_windows=4)
    >>> test
    Backtest(n_series=1, n_windows=4, h=2, mse=..., skill=...)
    >>> test.losses.shape, test.mse_t.shape, test.cmse_t.shape, test.mse_by_step.shape
    ((1, 4, 2), (4,), (4,), (2,))
    >>> list(test.scores().columns)
    ['model', 'mse', 'mae', 'mase', 'skill']
    """

    forecasts: Any
    losses: Array
    fallback: dict[Any, str]
    choice: ForecastChoice | None = None
    rivals: dict[str, Array] = field(default_factory=dict)
    scales: Array | None = None
    ids: list[Any] = field(default_factory=list)
    names: tuple[str, str, str, str] = ("unique_id", "ds", "y", "SoftBoostRegressor")
    levels: tuple[float, ...] = ()

    def __repr__(self) -> str:
        n_series, n_windows, h = self.losses.shape
        skill = f", skill={self.skill:.3g}" if "naive" in self.rivals else ""
        return f"Backtest(n_series={n_series}, n_windows={n_windows}, h={h}, mse={self.mse:.4g}{skill})"

    # -- errors ----------------------------------------------------------------------------------------------------

    @property
    def mse_t(self) -> Array:
        """Mean squared error over series and steps at each origin t, shape (n_windows,)."""
        known = ~np.isnan(self.losses)
        return np.nansum(self.losses, axis=(0, 2)) / np.maximum(known.sum(axis=(0, 2)), 1)

    @property
    def cmse_t(self) -> Array:
        """Cumulative mean of :attr:`mse_t` up to each origin: ``cMSE_t = (MSE_1 + ... + MSE_t) / t``."""
        return np.cumsum(self.mse_t) / np.arange(1, self.losses.shape[1] + 1)

    @property
    def mse_by_step(self) -> Array:
        """Mean squared error of each step ahead, shape (h,)."""
        known = ~np.isnan(self.losses)
        return np.nansum(self.losses, axis=(0, 1)) / np.maximum(known.sum(axis=(0, 1)), 1)

    @property
    def mse(self) -> float:
        """Mean squared error over all series, origins and steps."""
        return float(np.nanmean(self.losses))

    @property
    def skill(self) -> float:
        """``1 - mase / mase of the naive forecast``: 0 is as good as the last value, 1 is perfect."""
        return _skill(self._mase(self.losses), self._mase(self.rivals["naive"]))

    # -- tables ----------------------------------------------------------------------------------------------------

    def scores(self) -> Any:
        """Errors of the model and of the rivals over all series, origins and steps.

        Returns
        -------
        frame : pandas or polars frame
            Columns ``model``, ``mse``, ``mae``, ``mase`` (mean over series of the absolute error divided by
            :attr:`scales`) and ``skill`` (``1 - mase / mase of the naive forecast``).
        """
        losses = self._all_losses()
        mase = [self._mase(loss) for loss in losses.values()]
        naive = self._mase(losses["naive"]) if "naive" in losses else np.nan
        return self._frame(
            {
                "model": list(losses),
                "mse": [_mean(loss) for loss in losses.values()],
                "mae": [_mean(np.sqrt(loss)) for loss in losses.values()],
                "mase": mase,
                "skill": [_skill(value, naive) for value in mase],
            }
        )

    def by_series(self) -> Any:
        """Errors of each series, the series with the largest ``mase`` first.

        Returns
        -------
        frame : pandas or polars frame
            The id, ``n`` (judged targets), ``mae``, ``mase`` and ``skill`` of the model, the share of targets
            ``inside_`` the interval of each level, and ``mase_`` of each rival. Series without a judged target are
            left out.
        """
        losses = {name: np.sqrt(loss) for name, loss in self._all_losses().items()}
        model, *rivals = losses
        mae = {name: _mean(error, axis=(1, 2)) for name, error in losses.items()}
        mase = {name: self._scaled(value) for name, value in mae.items()}
        n = (~np.isnan(self.losses)).sum(axis=(1, 2))
        order = np.lexsort((-np.nan_to_num(mae[model], nan=-1.0), -np.nan_to_num(mase[model], nan=-1.0)))
        order = order[n[order] > 0]
        columns = {"n": n, "mae": mae[model], "mase": mase[model]}
        if "naive" in mae:
            columns["skill"] = np.array([_skill(a, b) for a, b in zip(mae[model], mae["naive"], strict=True)])
        columns.update(self._inside_by_series())
        columns.update({f"mase_{name}": mase[name] for name in rivals})
        ids = self.ids or list(range(len(n)))
        return self._frame({self.names[0]: [ids[i] for i in order], **{k: v[order] for k, v in columns.items()}})

    def by_step(self) -> Any:
        """Errors of each step ahead.

        Returns
        -------
        frame : pandas or polars frame
            ``step``, then the ``mase`` of the model and of each rival (``mase_`` and its name).
        """
        scaled = {name: self._scaled(np.sqrt(loss)) for name, loss in self._all_losses().items()}
        model, *rivals = scaled
        columns = {"mase": _mean(scaled[model], axis=(0, 1))}
        columns.update({f"mase_{name}": _mean(scaled[name], axis=(0, 1)) for name in rivals})
        return self._frame({"step": np.arange(1, self.losses.shape[2] + 1), **columns})

    def coverage(self) -> dict[float, float]:
        """Share of the known targets inside the interval of each level, e.g. ``{80: 0.79}``."""
        return {level: _mean(inside) for level, inside in self._inside().items()}

    def _all_losses(self) -> dict[str, Array]:
        return {self.names[3]: self.losses, **self.rivals}

    def _scaled(self, errors: Array) -> Array:
        """Errors (n_series, ...) divided by the step sizes; NaN for series that never changed."""
        scales = np.ones(len(errors)) if self.scales is None else np.where(self.scales > 0, self.scales, np.nan)
        return np.asarray(errors / scales.reshape(-1, *[1] * (errors.ndim - 1)))

    def _mase(self, losses: Array) -> float:
        return float(_mean(self._scaled(_mean(np.sqrt(losses), axis=(1, 2)))))

    def _inside(self) -> dict[float, Array]:
        """For each level and row of the forecasts, whether the target is inside; NaN if it is unknown."""
        if not self.levels:
            return {}
        frame, model = nw.from_native(self.forecasts, eager_only=True), self.names[3]

        def column(name: str) -> Array:
            return np.asarray(frame.get_column(name).cast(nw.Float64).to_numpy(), dtype=np.float64)

        y = column(self.names[2])
        return {
            level: np.where(
                np.isnan(y), np.nan, (y >= column(f"{model}-lo-{level:g}")) & (y <= column(f"{model}-hi-{level:g}"))
            )
            for level in self.levels
        }

    def _inside_by_series(self) -> dict[str, Array]:
        if not self.levels:
            return {}
        ids = nw.from_native(self.forecasts, eager_only=True).get_column(self.names[0]).to_list()
        place = {name: i for i, name in enumerate(self.ids)}
        series = np.array([place[name] for name in ids], dtype=np.int64)
        out = {}
        for level, inside in self._inside().items():
            known = ~np.isnan(inside)
            count = np.bincount(series[known], minlength=len(self.ids))
            total = np.bincount(series[known], inside[known], len(self.ids))
            out[f"inside_{level:g}"] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return out

    def _frame(self, columns: dict[str, Any]) -> Any:
        """A frame of the same library as the forecasts."""
        kind = pd.DataFrame if self.forecasts is None else type(self.forecasts)
        return kind(columns)

    # -- plots -----------------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None, label: str | None = None, *, kind: str = "forecasts", series: Any = None) -> Any:
        """Draw forecasts and actual values, or errors over the origins.

        Parameters
        ----------
        ax : matplotlib axes, sequence of axes or None, default=None
            Axes to draw on; None creates a figure with one panel per series, or one panel for errors.
        label : str, default=None
            Label of the line, to compare the errors of several back-tests on the same axes.
        kind : {"forecasts", "errors"}, default="forecasts"
            "forecasts" draws actual values, the forecasts from each origin and the naive forecasts. "errors" draws
            :attr:`mse_t` and :attr:`cmse_t`.
        series : id or list of ids, default=None
            Series to draw; None draws the six series with the largest errors.

        Returns
        -------
        ax : matplotlib axes, or array of axes for several series

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> Backtest(None, np.ones((1, 5, 2)), {}).plot(label="mine", kind="errors").get_xlabel()
        'origin t'
        """
        check_choice("kind", kind, ["forecasts", "errors"])
        if kind == "errors":
            return self._plot_errors(ax, label)
        worst = nw.from_native(self.by_series(), eager_only=True).get_column(self.names[0]).to_list()
        chosen = chosen_series(worst, series)
        axes = axes_of_series(ax, len(chosen))
        for name, panel in zip(chosen, axes, strict=True):
            self._plot_series(panel, name)
        return axes[0] if len(set(map(id, axes))) == 1 else np.array(axes, dtype=object)

    def _plot_series(self, ax: Any, name: Any) -> None:
        id_, time, target, model = self.names
        frame = nw.from_native(self.forecasts, eager_only=True)
        rows = frame.filter(nw.col(id_) == name).sort("cutoff", time)
        times, y, cutoff = (rows.get_column(c).to_numpy() for c in (time, target, "cutoff"))
        order = np.unique(times, return_index=True)[1]

        def lines(column: str) -> list[tuple[Array, Array]]:
            values = rows.get_column(column).to_numpy()
            return [(times[cutoff == moment], values[cutoff == moment]) for moment in np.unique(cutoff)]

        rival = ("naive", lines("naive")) if "naive" in frame.columns else None
        draw_origins(ax, name, (times[order], y[order]), lines(model), rival)

    def _plot_errors(self, ax: Any, label: str | None) -> Any:
        ax = new_axes(7, 4) if ax is None else ax
        t = np.arange(1, self.losses.shape[1] + 1)
        name = "" if label is None else f"{label}: "
        colour, dashes = STYLES[len(ax.lines) // 2 % len(STYLES)]
        ax.plot(t, self.cmse_t, dashes, linewidth=2, color=colour, label=f"{name}cMSE$_t$")
        ax.plot(t, self.mse_t, dashes, linewidth=0.8, alpha=0.6, color=colour, label=f"{name}MSE$_t$")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("origin t")
        ax.set_ylabel("mean squared error")
        ax.legend(frameon=False)
        return ax


def _mean(values: Array, axis: Any = None) -> Any:
    """Mean of the values that are not NaN; NaN without any."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    mean = np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1)
    out = np.where(count > 0, mean, np.nan)
    return float(out) if axis is None else out


def _skill(error: float, of_naive: float) -> float:
    return float(1 - error / of_naive) if of_naive > 0 else float("nan")
