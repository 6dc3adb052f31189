"""The default forecaster: candidates are judged at past origins of the panel and combined.

The smoothing bank comes first, because it needs no training. The correction and the regressions get the share that
their errors at past origins justify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ._candidates import BANK, LAST, label, rows_of
from ._correction import Correction, fit_correction, inputs
from ._evidence import own_weights, relative_error
from ._fitted import Fitted, without_logarithm
from ._intervals import borrowed_scales, usual_changes
from ._judging import Judges, Ladder, Plan, Trial, bank_alone, forecast_everyone
from ._origins import LEAST_BEFORE, MOST_TYPICAL, Judging, Origins, ahead, last_known
from ._panel import Array, Future, Panel, typical_size
from ._rolling import Scores, never_negative, typical_sizes
from ._smoothing import Smoothing, stride_of, width_of

__all__ = ["Combination", "ForecastChoice", "combine", "extend", "learn"]

WINDOWS = 40  # origins per series for the calibration of intervals
KEPT_HISTORY = 0.4  # part of a series before an origin that intervals are calibrated at: less history, larger errors
SHORT = 0.5  # part of a typical size below which the errors of a series say nothing about those of longer ones
LEAST_RATIO = 0.2  # of the errors of the combination and of the bank at the judged origins
RANGES, RANGES_OF_FEW = 2.0, 10.0  # ranges of the history that an interval may extend to; more by 1 / n

Progress = Callable[[str], None]


@dataclass
class ForecastChoice:
    """Selected candidates and their errors, stored on the forecaster as ``choice_``.

    Attributes
    ----------
    weights : dict of str to float, default={}
        Mean weight of each candidate in the forecasts.
    errors : dict of str to float, default={}
        Error of each candidate and of the combination at the judged origins: absolute, relative to the naive forecast,
        geometric mean over series. Where scope and transforms were chosen for a regression alone, its back-test error
        under each of them.
    n_series, n_origins : int, default=0
        Number of series and origins that were evaluated.

    Examples
    --------
    >>> from softboost.forecast import ForecastChoice
    >>> ForecastChoice({"smoothing": 1.0}).weights
    {'smoothing': 1.0}
    """

    weights: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    n_series: int = 0
    n_origins: int = 0

    def describe(self) -> str:
        """Describe the weights in one line.

        Examples
        --------
        >>> from softboost.forecast import ForecastChoice
        >>> ForecastChoice({"smoothing": 0.4, "correction": 0.6}, n_series=80, n_origins=5).describe()
        '60% correction, 40% smoothing; judged at 5 origins of 80 series'
        """
        parts = sorted(((name, w) for name, w in self.weights.items() if w >= 0.005), key=lambda item: -item[1])
        text = ", ".join(f"{100 * w:.0f}% {name}" for name, w in parts)
        return f"{text}; judged at {self.n_origins} origins of {self.n_series} series" if self.n_series else text


@dataclass(frozen=True)
class Combination:
    """Fitted candidates and their weights; the forecast is the weighted mean.

    Attributes
    ----------
    smoothing : Smoothing
    h : int
    corrections : dict of str to Correction
        By kind; only those with positive weight.
    regressions : dict of str to Fitted
        By scope; only those with positive weight.
    members : tuple of str
        Names of the columns of ``weights``; the bank is first.
    weights : ndarray of shape (n_series, n_members)
    typical : ndarray of shape (n_members,)
        Weights of the panel, for series that are added later.
    ratio : ndarray of shape (h,)
        Ratio of the errors of the combination and of the bank at each step.
    choice : ForecastChoice
    """

    smoothing: Smoothing
    h: int
    corrections: dict[str, Correction]
    regressions: dict[str, Fitted]
    members: tuple[str, ...]
    weights: Array
    typical: Array
    ratio: Array
    choice: ForecastChoice

    def predict(self, panel: Panel, series: Array, future: Future) -> Array:
        """Forecasts (n_histories, h) after the histories of ``panel``; ``series`` are their indices at fit time."""
        forecasts, weights = self.by_member(panel, series, future)
        return _mixed(forecasts, weights)

    def by_member(self, panel: Panel, series: Array, future: Future) -> tuple[list[Array], Array]:
        """Forecasts of each member, NaN for series it does not forecast, and weights (n_histories, n_members).

        A shorter horizon than the fitted one gives its first steps. Corrections read the columns of the fitted one.
        Series whose recent values are not negative get no negative forecasts.
        """
        history, panel = panel, panel.without_outliers()
        steps = future.times.shape[1]
        fitted_h = self.smoothing.outlook(panel, self.h, columns=bool(self.corrections))
        outlook = fitted_h if steps <= self.h else self.smoothing.outlook(panel, steps)
        out = []
        for member in self.members:
            if member in self.corrections:
                X = inputs(fitted_h, panel, Future(future.times, _padded(future.exog, self.h)), 1)
                out.append(self.corrections[member].corrected(outlook, X)[:, 0, :steps])
            elif member in self.regressions:
                fitted = self.regressions[member]
                left_out = fitted.short[series] | without_logarithm(fitted.settings, panel)
                out.append(np.where(left_out[:, None], np.nan, fitted.predict(panel, series, future)))
            elif member == LAST:
                value = last_known(panel, np.zeros((panel.n_series, 1), dtype=np.int64))
                out.append(np.repeat(value, steps, axis=1))
            else:
                out.append(outlook.forecast[:, 0, :steps])
        nonnegative = panel.minimum(width_of(self.h, self.smoothing.seasons)) >= 0
        out = [np.where(nonnegative[:, None] & (f < 0), 0.0, f) for f in out]
        return [history.within_history(f) for f in out], self.weights[series]

    def learn(self, panel: Panel, n_new: Array) -> None:
        """Update the regressions with the last ``n_new`` rows; the bank always uses all rows."""
        panel = panel.without_outliers()
        for fitted in self.regressions.values():
            fitted.learn(panel, n_new)

    def copied(self) -> Combination:
        """A copy whose regressions can be updated independently."""
        return replace(self, regressions={scope: fitted.copied() for scope, fitted in self.regressions.items()})

    def grow(self, panel: Panel, old: Array) -> Combination:
        """The combination for a panel with more rows and possibly more series; ``old[i]`` is -1 for a new one."""
        known, panel = (old >= 0)[:, None], panel.without_outliers()
        return replace(
            self,
            regressions={scope: fitted.grow(panel, old) for scope, fitted in self.regressions.items()},
            weights=np.where(known, self.weights[old], self.typical),
        )

    def scores(self, panel: Panel, h: int, of_all: Scores | None = None) -> Scores:
        """What intervals are made of: errors of the bank at many past origins, scaled to those of the combination.

        A series of one or two values has said nothing about its changes, and gets the typical size of the others'; NaN
        where there are none. ``of_all`` are the scores of the panel that this one is a part of.
        """
        panel, stride = panel.without_outliers(), stride_of(h)
        n_partial = (h - 1) // stride  # windows that end after the last row
        first = h - n_partial * stride
        room = int(np.max(panel.sizes) - h - LEAST_BEFORE) // stride
        n_origins = max(1, min(WINDOWS, room)) + n_partial
        n_origins = n_origins if of_all is None else of_all.errors.shape[1]
        outlook = self.smoothing.outlook(panel, h, first, n_origins)
        back = np.broadcast_to(first + stride * np.arange(n_origins), (panel.n_series, n_origins))
        actual, _ = ahead(panel, back, h)
        ratio = self.ratio[np.minimum(np.arange(h), len(self.ratio) - 1)]
        errors = (outlook.link(actual) - outlook.link(outlook.forecast)) / outlook.unit[..., None] * ratio
        n_before = panel.sizes[:, None] - back
        too_early = (n_before < KEPT_HISTORY * panel.sizes[:, None]) & (back > h)  # but for the latest origins
        errors[(n_before < LEAST_BEFORE) | too_early] = np.nan
        errors = errors[:, ::-1]  # in the order of time
        now = self.smoothing.outlook(panel, 1)
        logs, n_known = now.logs[:, 0], panel.n_known
        scales, usual = _scales(now.unit[:, 0], logs, panel, None if of_all is None else of_all.usual)
        unknown = bool(np.isnan(errors[..., -1]).all()) if of_all is None else of_all.unknown
        if unknown:  # nothing could be held back: a change a step, as of a random walk
            errors = np.ones((panel.n_series, 1, 1)) * np.sqrt(np.arange(1, h + 1))
        limits, sign = _limits(panel, logs, n_known), never_negative(panel)
        season = min(self.smoothing.seasons, default=1)
        cycle = season // math.gcd(season, stride)
        ahead_of_season = -back[0, :cycle] % season
        phase = int(np.argmin(np.minimum(ahead_of_season, season - ahead_of_season)))
        least_size = (
            SHORT * typical_size(np.minimum(panel.sizes, MOST_TYPICAL)) if of_all is None else of_all.least_size
        )
        short = panel.sizes < least_size
        return Scores(
            errors * scales[:, None, None], scales, -(-h // stride), logs, limits, sign, usual, unknown, cycle, short,
            least_size, phase,
        )  # fmt: skip

    def fallback(self, panel: Panel) -> dict[int, str]:
        """Empty: the bank forecasts series of any length."""
        return {}


def _scales(
    units: Array, logs: Array, panel: Panel, usual: tuple[float, float] | None
) -> tuple[Array, tuple[float, float]]:
    """Typical changes on the link scale, where series without changes get the usual ones, and the usual changes."""
    sizes, n_known = typical_sizes(panel), panel.n_known
    changes = np.where(logs, units * sizes, units)
    usual = usual_changes(changes, sizes, n_known) if usual is None else usual
    borrowed = borrowed_scales(changes, sizes, n_known, usual)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.where(logs, borrowed / sizes, borrowed)
    return np.where(borrowed == changes, units, scales), usual


def _limits(panel: Panel, logs: Array, n_known: Array) -> Array:
    """Largest plausible half width on the link scale: a few times the range of the history, also of its levels.

    A few values show less of the range that a series has, so the multiple is larger for them.
    """
    low, high = panel.minimum(), panel.reduce(np.fmax, panel.y, np.nan)
    latest = np.abs(last_known(panel, np.zeros((panel.n_series, 1), dtype=np.int64)))[:, 0]
    reach = RANGES + RANGES_OF_FEW / np.maximum(n_known, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(logs, high / low, 1.0)
        size = np.where(logs, np.fmax(typical_sizes(panel), latest), 1.0)
        limit = np.where(
            logs, np.minimum(reach * np.log(ratio), np.log1p(reach * (high - low) / size)), reach * (high - low)
        )
    return np.where((n_known >= LEAST_BEFORE) & (limit > 0), limit, np.inf)


def _mixed(forecasts: list[Array], weights: Array) -> Array:
    """Weighted means of forecasts (n_series, h); forecasts that are not finite are ignored."""
    total, weight = np.zeros_like(forecasts[0]), np.zeros_like(forecasts[0])
    for forecast, w in zip(forecasts, weights.T, strict=True):
        known = np.isfinite(forecast)
        total += np.where(known, w[:, None] * forecast, 0.0)
        weight += np.where(known, w[:, None], 0.0)
    return np.where(weight > 0, total / np.maximum(weight, 1e-300), forecasts[0])


def _padded(exog: Array, h: int) -> Array:
    """Exogenous columns of the first ``h`` steps; the last step is repeated if there are fewer."""
    return exog[:, np.minimum(np.arange(h), exog.shape[1] - 1)]


# -- fitting -------------------------------------------------------------------------------------------------------


def combine(plan: Plan, panel: Panel, progress: Progress = lambda text: None) -> Combination:
    """Compare the candidates of a plan on a panel and fit those with positive weight."""
    return learn(plan, panel, progress)[0]


def learn(plan: Plan, panel: Panel, progress: Progress = lambda text: None) -> tuple[Combination, Judges]:
    """A combination, and what :func:`extend` needs to weight further series."""
    progress(BANK)
    panel = panel.without_outliers()
    origins = _origins(plan, panel)
    ladder = bank_alone(origins, BANK, origins.correlation(plan.smoothing))
    trial = Trial(plan, panel, origins, ladder, Judges(origins.judging))
    # the last value of the smoothing row comes last: it competes with all that the others have reached
    for row in sorted(rows_of(plan.candidates), key=lambda row: row.name == BANK):
        if origins.judging.n_series >= row.least_series or row.least_series == 1:
            progress(f"judging {', '.join(map(label, row.judged))}")
            row.judge(row.judged, trial)
    corrections: dict[str, Correction] = {}
    for kind in trial.judges.corrections:
        progress(f"fitting {label(kind)}")
        corrections[kind] = fit_correction(kind, origins.rows(0), plan.smoothing.n_threads)
    own = _own_weights(ladder, trial.regressions)
    combined = np.asarray(sum(own[:, c, None, None] * f for c, f in enumerate(ladder.forecasts)))
    ratio = _ratio(ladder.judged.actual, combined, ladder.forecasts[0])
    choice = _choice(plan, ladder, own, combined, origins.last_value())
    combination = Combination(
        plan.smoothing,
        plan.h,
        corrections,
        trial.regressions,
        tuple(ladder.members),
        own,
        ladder.weights,
        ratio,
        choice,
    )
    return combination, trial.judges


def _origins(plan: Plan, panel: Panel, judged_as: Judging | None = None) -> Origins:
    columns = any(row.reads_bank for row in rows_of(plan.candidates))
    return Origins(plan.smoothing, panel, plan.h, columns=columns, judged_as=judged_as)


def extend(combination: Combination, judges: Judges, plan: Plan, panel: Panel) -> Combination:
    """The combination for the series of another panel, each weighted by its own errors.

    Models of many series stay as they are, so that each series gets the forecast that it would get in the first panel.
    """
    if not judges.shares:  # the bank alone needs no weights
        return replace(combination, weights=np.ones((panel.n_series, 1)))
    panel = panel.without_outliers()
    origins = _origins(plan, panel, judges.judging)
    ladder = bank_alone(origins, BANK)
    regressions = {}
    for members, share in judges.shares.items():
        forecasts = {}
        for member in members:
            if member in judges.corrections:
                forecasts[member] = origins.corrected(judges.corrections[member])
            elif member == LAST:
                forecasts[member] = origins.last_value()
            else:
                nobody = np.full(panel.n_series, -1)
                before = panel.cut(origins.judged_back[:, -1])
                everyone = judges.pooled[member].grow(before, nobody) if member in judges.pooled else None
                final = combination.regressions[member].grow(panel, nobody) if everyone is not None else None
                forecasts[member], regressions[member] = forecast_everyone(
                    member, judges.transforms[member], plan, panel, origins, everyone, final
                )
        ladder.join(forecasts, share)
    return replace(combination, regressions=regressions, weights=_own_weights(ladder, regressions))


def _own_weights(ladder: Ladder, regressions: dict[str, Fitted]) -> Array:
    """Weights of the members for each series; a regression has none where the series is too short for it."""
    own = own_weights(ladder.judged, ladder.forecasts, ladder.weights)
    for scope, fitted in regressions.items():
        own[fitted.short, ladder.members.index(scope)] = 0.0
    return np.asarray(own / own.sum(axis=1, keepdims=True)) if regressions else own


def _ratio(actual: Array, combined: Array, bank: Array) -> Array:
    """Mean absolute error of the combination over that of the bank at each step, in units of the bank's error."""
    size = np.abs(actual - bank)
    both = np.isfinite(size) & np.isfinite(combined)
    count = np.maximum(both.sum(axis=(1, 2), keepdims=True), 1)
    unit = np.where(both, size, 0.0).sum(axis=(1, 2), keepdims=True) / count
    there = both & (unit > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, theirs = (np.where(there, np.abs(actual - f) / unit, 0.0).sum(axis=(0, 1)) for f in (combined, bank))
        return np.clip(np.where(theirs > 0, mine / theirs, 1.0), LEAST_RATIO, 1.5)


def _choice(plan: Plan, ladder: Ladder, own: Array, combined: Array, naive: Array) -> ForecastChoice:
    """The mean weight and the error of every candidate."""
    weights, errors = {}, {}
    for row in rows_of({BANK, *plan.candidates}):
        mine = [c for c, member in enumerate(ladder.members) if member in row.members]
        weights[row.name] = sum((float(own[:, c].mean()) for c in mine), 0.0)
    for member, forecast in zip(ladder.members, ladder.forecasts, strict=True):
        errors[label(member)] = relative_error(ladder.judged, forecast, naive)
    errors["combination"] = relative_error(ladder.judged, combined, naive)
    judged = ~np.isnan(ladder.judged.error(combined))
    return ForecastChoice(weights, errors, int(judged.any(axis=1).sum()), judged.shape[1])
