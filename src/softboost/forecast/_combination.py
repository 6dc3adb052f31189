"""The default forecaster: candidates are compared at past origins of the panel and combined.

The smoothing bank comes first, because it needs no training. The correction and the regressions get the share that
their errors at past origins justify. Expensive candidates are first evaluated on a sample of the series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._correction import KINDS, LEAST_KNOWN, Correction, fit_correction, inputs, targets
from ._evidence import Judged, climb, own_weights, relative_error
from ._fitted import Fitted, without_logarithm
from ._intervals import borrowed_scales, usual_changes
from ._panel import Array, Future, Panel
from ._rolling import Scores, never_negative, typical_sizes
from ._smoothing import Outlook, Smoothing, stride_of, width_of

__all__ = ["CANDIDATES", "Combination", "ForecastChoice", "Judges", "Plan", "combine", "extend", "learn"]

N_BLOCKS = 2  # evaluated horizons, with origins a quarter of a horizon apart; more if there are few series
MANY_BLOCKS = 10  # minimum number of evaluated horizons over all series
MAX_HELD_BACK = 1 / 3  # largest part of the longest series that is held back
LEAST_BEFORE = 3  # minimum number of values before an evaluated origin
N_LEARNED = 24  # training origins of a correction, besides the evaluated ones
MAX_ROWS = 300_000  # maximum number of training rows of a correction
FEW_ROWS = 50_000  # with fewer training rows, origins of all phases of the stride are used
SAMPLE = 12, 64  # number of series on which an expensive candidate is first evaluated, at least and at most
MAX_POOLED_ROWS = 60_000  # approximate number of training rows of a global regression
EARNS = 0.01  # required gain of an expensive candidate, for each power of ten of the number of series
WINDOWS, FEW_WINDOWS = 40, 8  # origins per series for the calibration of intervals; fewer if there are many series
MANY_SERIES = 500
KEPT_HISTORY = 0.5  # part of a series before an origin that intervals are calibrated at: less history, larger errors
ENOUGH_FOR_RANGE = 10  # values from which the range of a series is known
KEEPS = 0.2  # part of its rows that an evaluated regression may not have seen without a refit

# The candidates: name and explanation, for reports and docs.
CANDIDATES = {
    "smoothing": "bank of exponential smoothers and autoregressions, weighted by their errors on the series",
    "correction": "model of the errors of the bank, fitted to all series",
    "local": "regression on lags, one for each series",
    "global": "regression on lags, one for all series",
}

Progress = Callable[[str], None]
FitRegression = Callable[[str, Any, Panel, int], Fitted]


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
class Plan:
    """Settings of a combination.

    Attributes
    ----------
    candidates : tuple of str
        Names of ``CANDIDATES`` that compete.
    h : int
    smoothing : Smoothing
    transforms : callable
        Target transforms to compare for a regression: ``(scope, training rows, panel) -> list``.
    regression : callable
        Fits a regression: ``(scope, transforms, panel, h) -> Fitted``.
    """

    candidates: tuple[str, ...]
    h: int
    smoothing: Smoothing
    transforms: Callable[[str, Panel, Panel], list[Any]]
    regression: FitRegression


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
        Names of the columns of ``weights``: "smoothing", "linear", "trees", "local", "global".
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
            else:
                out.append(outlook.forecast[:, 0, :steps])
        nonnegative = panel.minimum(width_of(self.h, self.smoothing.seasons)) >= 0
        return [np.where(nonnegative[:, None] & (f < 0), 0.0, f) for f in out], self.weights[series]

    def learn(self, panel: Panel, n_new: Array) -> None:
        """Update the regressions with the last ``n_new`` rows; the bank always uses all rows."""
        for fitted in self.regressions.values():
            fitted.learn(panel, n_new)

    def copied(self) -> Combination:
        """A copy whose regressions can be updated independently."""
        return replace(self, regressions={scope: fitted.copied() for scope, fitted in self.regressions.items()})

    def grow(self, panel: Panel, old: Array) -> Combination:
        """The combination for a panel with more rows and possibly more series; ``old[i]`` is -1 for a new one."""
        known = (old >= 0)[:, None]
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
        stride = stride_of(h)
        room = int(np.max(panel.sizes) - h - LEAST_BEFORE) // stride
        n_origins = max(1, min(FEW_WINDOWS if panel.n_series > MANY_SERIES else WINDOWS, room))
        n_origins = n_origins if of_all is None else of_all.errors.shape[1]
        outlook = self.smoothing.outlook(panel, h, h, n_origins)
        back = np.broadcast_to(h + stride * np.arange(n_origins), (panel.n_series, n_origins))
        actual, _ = _ahead(panel, back, h)
        ratio = self.ratio[np.minimum(np.arange(h), len(self.ratio) - 1)]
        errors = (outlook.link(actual) - outlook.link(outlook.forecast)) / outlook.unit[..., None] * ratio
        n_before = panel.sizes[:, None] - back
        short = (n_before < KEPT_HISTORY * panel.sizes[:, None]) & (back > h)  # but for the latest origin
        errors[(n_before < LEAST_BEFORE) | short] = np.nan
        errors = errors[:, ::-1]  # in the order of time
        now = self.smoothing.outlook(panel, 1)
        logs, n_known = now.logs[:, 0], panel.n_known
        scales, usual = _scales(now.unit[:, 0], logs, panel, None if of_all is None else of_all.usual)
        unknown = bool(np.isnan(errors).all()) if of_all is None else of_all.unknown
        if unknown:  # nothing could be held back: a change a step, as of a random walk
            errors = np.ones((panel.n_series, 1, 1)) * np.sqrt(np.arange(1, h + 1))
        limits, sign = _limits(panel, logs, n_known), never_negative(panel)
        return Scores(errors * scales[:, None, None], scales, -(-h // stride), logs, limits, sign, usual, unknown)

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
    """Twice the range of the history on the link scale, if the series is long enough."""
    rows = np.repeat(logs, panel.sizes)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(rows, np.log(np.where(rows, panel.y, 1.0)), panel.y)
    starts = panel.indptr[:-1]
    width = np.fmax.reduceat(z, starts) - np.fmin.reduceat(z, starts)
    return np.where((n_known >= ENOUGH_FOR_RANGE) & (width > 0), 2 * width, np.inf)


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


class _Origins:
    """Past origins of a panel: what the bank said there, what came, and which of them are judged or learned from.

    Origin k of a series lies ``first + k * stride`` rows before its end. The first ``n_judged`` are judged, and what is
    judged was learned from origins whose horizon ends before all of these. Different series begin at different phases
    of the stride; where series are few, each is there once for every phase.

    With ``judges``, the panel is a part of another one that was judged before: its origins are judged as those were,
    and nothing is learned from them.
    """

    def __init__(self, plan: Plan, panel: Panel, judges: Judges | None = None) -> None:
        self.h, self.stride, self.n_series = plan.h, stride_of(plan.h), panel.n_series
        self.per_block = -(-self.h // self.stride)
        self.n_judged = self._n_judged(panel) if judges is None else judges.n_judged
        self.alone = panel.n_series == 1 if judges is None else judges.alone
        learns = "correction" in plan.candidates
        self.first_learned = self.n_judged - 1 + self.per_block
        n_origins = self.first_learned + N_LEARNED if learns and judges is None else self.n_judged
        many = 1 if not learns or judges is not None else FEW_ROWS // (self.n_series * N_LEARNED)
        n_phases = int(np.clip(many, 1, self.stride))
        own_phase = np.zeros(1, dtype=np.int64) if self.alone else panel.keys % self.stride
        phase = own_phase + (self.stride // n_phases) * np.arange(n_phases)[:, None]
        self.panel = panel.take(np.tile(np.arange(self.n_series), n_phases)) if n_phases > 1 else panel
        first = self.h + (phase % self.stride).ravel()
        self.back = first[:, None] + self.stride * np.arange(n_origins)
        self.outlook = plan.smoothing.outlook(self.panel, self.h, first, n_origins, columns=learns)
        self.actual, self.future = _ahead(self.panel, self.back, self.h)
        self.n_before = self.panel.sizes[:, None] - self.back
        self.X = inputs(self.outlook, self.panel, self.future, n_origins) if learns else None

    def _n_judged(self, panel: Panel) -> int:
        wanted = max(N_BLOCKS, -(-MANY_BLOCKS // self.n_series)) * self.per_block + 1
        room = int(np.max(panel.sizes) * MAX_HELD_BACK - self.h) // self.stride
        return max(2, min(wanted, room))

    def judged(self, values: Array) -> Array:
        """The judged origins of every series; NaN where too little was known there."""
        mine = slice(0, self.n_series), slice(0, self.n_judged)
        out = values[mine].astype(np.float64)
        out[self.n_before[mine] < LEAST_BEFORE] = np.nan
        return out

    @property
    def judged_back(self) -> Array:
        """Rows after each judged origin (n_series, n_judged)."""
        return self.back[: self.n_series, : self.n_judged]

    def rows(self, first: int) -> tuple[Array, Array]:
        """Rows to learn a correction from, of the origins from number ``first`` on."""
        assert self.X is not None
        y = targets(self.outlook, self.actual)[:, first:]
        there = np.argwhere(np.isfinite(y).all(axis=2) & (self.n_before[:, first:] >= LEAST_KNOWN))
        if len(there) > MAX_ROWS:
            there = there[np.sort(np.random.default_rng(0).choice(len(there), MAX_ROWS, replace=False))]
        series, origin = there.T
        return self.X[series, first + origin], y[series, origin]

    def corrected(self, correction: Correction) -> Array:
        """Corrected forecasts at the judged origins."""
        assert self.X is not None
        mine = slice(0, self.n_series), slice(0, self.n_judged)
        outlook = Outlook(*(getattr(self.outlook, name)[mine] for name in Outlook.__dataclass_fields__))
        return self.judged(correction.corrected(outlook, self.X[mine]))


def _ahead(panel: Panel, back: Array, h: int) -> tuple[Array, Future]:
    """Values after every origin (n_series, n_origins, h), and what is known of those steps, origin by origin."""
    rows = (panel.indptr[1:, None] - back)[..., None] + np.arange(h)
    low, high = panel.indptr[:-1, None, None], panel.indptr[1:, None, None] - 1
    inside = (rows >= low) & (rows <= high)
    rows = np.clip(rows, low, high)
    exog = panel.exog[rows.reshape(-1, h)]
    return np.where(inside, panel.y[rows], np.nan), Future(panel.times[rows].reshape(-1, h), exog)


@dataclass
class _Ladder:
    """The current mixture, and the forecasts of its members at the evaluated origins."""

    judged: Judged
    members: list[str]
    forecasts: list[Array]
    weights: Array

    @property
    def current(self) -> Array:
        return np.asarray(sum(w * f for w, f in zip(self.weights, self.forecasts, strict=True)))

    def join(self, member: str, forecast: Array, share: float) -> None:
        self.forecasts.append(np.where(np.isnan(forecast), self.current, forecast))
        self.members.append(member)
        self.weights = np.append(self.weights * (1 - share), share)


@dataclass(frozen=True)
class Judges:
    """What forecast the judged origins of a panel, so that other series can be weighed as its own were.

    Attributes
    ----------
    n_judged : int
    alone : bool
        Whether the panel was a single series.
    shares : dict of str to float
        Share of each member at the time it joined, in that order.
    corrections : dict of str to Correction
        As they were fitted to the origins before the judged ones.
    pooled : dict of str to Fitted
        The regression for all series, likewise.
    transforms : dict of str to Chain
        Target transforms of each regression, by scope.
    """

    n_judged: int
    alone: bool
    shares: dict[str, float] = field(default_factory=dict)
    corrections: dict[str, Correction] = field(default_factory=dict)
    pooled: dict[str, Fitted] = field(default_factory=dict)
    transforms: dict[str, Any] = field(default_factory=dict)


def combine(plan: Plan, panel: Panel, progress: Progress = lambda text: None) -> Combination:
    """Compare the candidates of a plan on a panel and fit those with positive weight."""
    return learn(plan, panel, progress)[0]


def _start(origins: _Origins) -> _Ladder:
    """The bank alone."""
    bank = origins.judged(origins.outlook.forecast)
    judged = Judged(origins.judged(origins.actual), origins.judged(_unit_of_y(origins.outlook)), origins.per_block)
    return _Ladder(judged, ["smoothing"], [bank], np.ones(1))


def extend(combination: Combination, judges: Judges, plan: Plan, panel: Panel) -> Combination:
    """The combination for the series of another panel, each weighed by its own errors.

    What is learned from many series stays as it is, so each series gets what it would have got in the first panel.
    """
    if not judges.shares:  # the bank alone, which needs no weights
        return replace(combination, weights=np.ones((panel.n_series, 1)))
    origins = _Origins(plan, panel, judges)
    ladder = _start(origins)
    regressions = {}
    for member, share in judges.shares.items():
        if member in judges.corrections:
            forecast = origins.corrected(judges.corrections[member])
        else:
            nobody = np.full(panel.n_series, -1)
            before = panel.cut(origins.judged_back[:, -1])
            everyone = judges.pooled[member].grow(before, nobody) if member in judges.pooled else None
            final = combination.regressions[member].grow(panel, nobody) if everyone is not None else None
            forecast, regressions[member] = _for_everyone(
                member, judges.transforms[member], plan, panel, origins, everyone, final
            )
        ladder.join(member, forecast, share)
    own = own_weights(ladder.judged, ladder.forecasts, ladder.weights)
    return replace(combination, regressions=regressions, weights=own)


def learn(plan: Plan, panel: Panel, progress: Progress = lambda text: None) -> tuple[Combination, Judges]:
    """A combination, and what :func:`extend` needs to weigh further series."""
    progress("smoothing")
    origins = _Origins(plan, panel)
    ladder = _start(origins)
    judged, bank = ladder.judged, ladder.forecasts[0]
    judges = Judges(origins.n_judged, origins.alone)
    if "correction" in plan.candidates:
        for kind in KINDS:
            progress(f"judging the {kind} correction")
            _judge_correction(kind, plan, origins, ladder, judges)
    regressions: dict[str, Fitted] = {}
    for scope in ("local", "global"):
        if scope in plan.candidates and not (scope == "global" and panel.n_series == 1):
            progress(f"judging the {scope} regression")
            fitted = _judge_regression(scope, plan, panel, origins, ladder, judges)
            if fitted is not None:
                regressions[scope] = fitted
    corrections: dict[str, Correction] = {}
    for kind in KINDS:
        if kind in ladder.members:
            progress(f"fitting the {kind} correction")
            corrections[kind] = fit_correction(kind, *origins.rows(0), plan.smoothing.n_threads)
    own = own_weights(judged, ladder.forecasts, ladder.weights)
    combined = np.asarray(sum(own[:, c, None, None] * f for c, f in enumerate(ladder.forecasts)))
    ratio = _ratio(judged.actual, combined, bank)
    choice = _choice(plan, ladder, own, combined, _naive(panel, origins))
    combination = Combination(
        plan.smoothing, plan.h, corrections, regressions, tuple(ladder.members), own, ladder.weights, ratio, choice
    )
    return combination, judges


def _judge_correction(kind: str, plan: Plan, origins: _Origins, ladder: _Ladder, judges: Judges) -> None:
    X, y = origins.rows(origins.first_learned)
    if len(X) < 2 or (kind == "linear" and len(X) > FEW_ROWS):
        return
    correction = fit_correction(kind, X, y, plan.smoothing.n_threads)
    forecast = origins.corrected(correction)
    share = climb(ladder.judged, ladder.current, forecast)
    if share > 0:
        ladder.join(kind, forecast, share)
        judges.shares[kind], judges.corrections[kind] = share, correction


def _judged_forecasts(
    fitted: Fitted, plan: Plan, panel: Panel, origins: _Origins, series: Array, places: Array
) -> Array:
    """At the judged origins of ``series``, whose numbers in the fit are ``places``; NaN for those too short."""
    part, back = panel.take(series), origins.judged_back[series]
    histories = Panel.stack([part.cut(b) for b in back.T])
    future = Future.stack([part.windows(b, plan.h)[1] for b in back.T])
    out = fitted.predict(histories, np.tile(places, back.shape[1]), future)
    out = np.moveaxis(out.reshape(back.shape[1], len(series), plan.h), 0, 1)
    return np.where(fitted.short[places][:, None, None], np.nan, out)


def _for_everyone(
    scope: str, chain: Any, plan: Plan, panel: Panel, origins: _Origins, pooled: Fitted | None, final: Fitted | None
) -> tuple[Array, Fitted]:
    """Forecasts of a regression at the judged origins of all series, and the regression for the steps to come.

    Models of single series are fitted here, the pooled ones are given.
    """
    everyone = np.arange(panel.n_series)
    if pooled is not None and final is not None:
        return origins.judged(_judged_forecasts(pooled, plan, panel, origins, everyone, everyone)), final
    held_back = origins.judged_back[:, -1]
    judging = plan.regression(scope, chain, panel.cut(held_back), plan.h)
    forecast = origins.judged(_judged_forecasts(judging, plan, panel, origins, everyone, everyone))
    missed_much = held_back > KEEPS * panel.sizes
    return forecast, judging.refitted(panel, missed_much | judging.short)


def _judge_regression(
    scope: str, plan: Plan, panel: Panel, origins: _Origins, ladder: _Ladder, judges: Judges
) -> Fitted | None:
    """Judge a regression on a sample; where it earns its cost, fit it for all series and let it join."""
    held_back = origins.judged_back[:, -1]
    usable = np.flatnonzero(panel.sizes - held_back >= LEAST_BEFORE)
    if not len(usable):
        return None
    n_sample = int(np.clip(len(usable) // 8, *SAMPLE))
    n_pooled = int(MAX_POOLED_ROWS // max(np.median(panel.sizes[usable]), 1))
    pooled = usable[_spread(len(usable), n_sample if scope == "local" else max(n_sample, n_pooled))]
    sample = _spread(len(pooled), n_sample)
    mine = pooled[sample]

    judged, current = ladder.judged.take(mine), ladder.current[mine]
    training = panel.take(pooled).cut(held_back[pooled])
    best: tuple[float, Any, Fitted] | None = None
    for chain in plan.transforms(scope, training, panel):
        fitted = plan.regression(scope, chain, training, plan.h)
        tried = _judged_forecasts(fitted, plan, panel, origins, mine, sample)
        error = relative_error(judged, np.where(np.isnan(tried), current, tried), current)
        if best is None or error < best[0]:
            best, first_look = (error, chain, fitted), tried
    if best is None:
        return None
    share = climb(judged, current, first_look)
    mixed = np.where(np.isnan(first_look), current, (1 - share) * current + share * first_look)
    gain = 1 - relative_error(judged, mixed, current)
    if not gain > EARNS * np.log10(max(panel.n_series, 10)):
        return None
    _, chain, fitted = best
    pooled_fit = final = None
    if scope == "global":
        places = _places(pooled, panel.n_series)
        pooled_fit = fitted.grow(panel.cut(held_back), places)
        final = plan.regression(scope, chain, panel.take(pooled), plan.h).grow(panel, places)
    forecast, final = _for_everyone(scope, chain, plan, panel, origins, pooled_fit, final)
    share = climb(ladder.judged, ladder.current, forecast)
    if not share > 0:
        return None
    ladder.join(scope, forecast, share)
    judges.shares[scope], judges.transforms[scope] = share, chain
    if pooled_fit is not None:
        judges.pooled[scope] = pooled_fit
    return final


def _places(pooled: Array, n_series: int) -> Array:
    """Index of each series among the pooled ones, -1 for the others."""
    out = np.full(n_series, -1)
    out[pooled] = np.arange(len(pooled))
    return out


def _spread(n: int, most: int) -> Array:
    """At most ``most`` evenly spaced indices below n."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _unit_of_y(outlook: Outlook) -> Array:
    """Typical change on the scale of y."""
    return np.where(outlook.logs, outlook.unit * np.abs(outlook.forecast[..., 0]), outlook.unit)


def _naive(panel: Panel, origins: _Origins) -> Array:
    """The last known value at every evaluated origin, for all steps."""
    known = np.where(np.isnan(panel.y), -1, np.arange(len(panel.y)))
    last = np.maximum.accumulate(known)[np.maximum(panel.indptr[1:, None] - origins.judged_back - 1, 0)]
    value = np.where(last >= panel.indptr[:-1, None], panel.y[np.maximum(last, 0)], np.nan)
    return np.repeat(value[..., None], origins.h, axis=2)


def _ratio(actual: Array, combined: Array, bank: Array) -> Array:
    """Mean absolute error of the combination over that of the bank at each step, in units of the bank's error."""
    size = np.abs(actual - bank)
    both = np.isfinite(size) & np.isfinite(combined)
    count = np.maximum(both.sum(axis=(1, 2), keepdims=True), 1)
    unit = np.where(both, size, 0.0).sum(axis=(1, 2), keepdims=True) / count
    there = both & (unit > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, theirs = (np.where(there, np.abs(actual - f) / unit, 0.0).sum(axis=(0, 1)) for f in (combined, bank))
        return np.clip(np.where(theirs > 0, mine / theirs, 1.0), 0.5, 1.5)


def _choice(plan: Plan, ladder: _Ladder, own: Array, combined: Array, naive: Array) -> ForecastChoice:
    """The mean weight and the error of every candidate."""
    name_of = {member: "correction" if member in KINDS else member for member in ladder.members}
    weights = dict.fromkeys(plan.candidates if "smoothing" in plan.candidates else ("smoothing", *plan.candidates), 0.0)
    errors = {}
    for c, member in enumerate(ladder.members):
        weights[name_of[member]] += float(own[:, c].mean())
        errors[member if member not in KINDS else f"correction ({member})"] = relative_error(
            ladder.judged, ladder.forecasts[c], naive
        )
    errors["combination"] = relative_error(ladder.judged, combined, naive)
    judged = ~np.isnan(ladder.judged.error(combined))
    return ForecastChoice(weights, errors, int(judged.any(axis=1).sum()), judged.shape[1])
