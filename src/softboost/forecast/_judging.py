"""How each kind of candidate is judged at past origins, and joins the mixture if its errors justify it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._correction import KINDS, Correction, fit_correction
from ._evidence import Judged, climb, relative_error
from ._fitted import Fitted
from ._origins import LEAST_BEFORE, Judging, Origins
from ._panel import Array, Future, Panel, spread
from ._smoothing import Outlook, Smoothing

__all__ = [
    "Judges",
    "Ladder",
    "Plan",
    "Trial",
    "bank_alone",
    "forecast_everyone",
    "judge_correction",
    "judge_last_value",
    "judge_regression",
]

SAMPLE = 12, 64  # number of series on which an expensive candidate is first evaluated, at least and at most
MAX_POOLED_ROWS = 60_000  # approximate number of training rows of a global regression
EARNS = 0.01  # required gain of an expensive candidate, for each power of ten of the number of series
NEAR_RANDOM_WALKS = 0.97  # error relative to that of the last value, above which series are close to random walks
USUAL_SHARE = 0.8  # of the correction: on large panels it usually deserves more than it gets with older rows
KEEPS = 0.2  # part of its rows that an evaluated regression may not have seen without a refit

FitRegression = Callable[[str, Any, Panel, int], Fitted]


@dataclass(frozen=True)
class Plan:
    """Settings of a combination.

    Attributes
    ----------
    candidates : tuple of str
        Names of the candidates that compete.
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


@dataclass
class Ladder:
    """The current mixture, and the forecasts of its members at the judged origins.

    Attributes
    ----------
    judged : Judged
    members : list of str
        In the order in which they joined; the bank is first.
    forecasts : list of ndarray of shape (n_series, n_origins, h)
    weights : ndarray of shape (n_members,)
    """

    judged: Judged
    members: list[str]
    forecasts: list[Array]
    weights: Array

    @property
    def current(self) -> Array:
        """Forecasts of the mixture."""
        return np.asarray(sum(w * f for w, f in zip(self.weights, self.forecasts, strict=True)))

    def join(self, forecasts: dict[str, Array], share: float) -> None:
        """Add members, which take a share from all others and split it.

        Where one of them gives no forecast, the mixture stays.
        """
        current = self.current
        self.forecasts += [np.where(np.isnan(forecast), current, forecast) for forecast in forecasts.values()]
        self.members += forecasts
        self.weights = np.append(self.weights * (1 - share), np.full(len(forecasts), share / len(forecasts)))


@dataclass(frozen=True)
class Judges:
    """The models that were judged on a panel, which are used to weight further series in the same way.

    Attributes
    ----------
    judging : Judging
    shares : dict of tuple of str to float
        Share of the members that joined together, in the order in which they joined.
    corrections : dict of str to Correction
        Fitted to the origins before the judged ones.
    pooled : dict of str to Fitted
        Global regressions, fitted to the rows before the judged origins.
    transforms : dict of str to Chain
        Target transforms of each regression, by scope.
    """

    judging: Judging
    shares: dict[tuple[str, ...], float] = field(default_factory=dict)
    corrections: dict[str, Correction] = field(default_factory=dict)
    pooled: dict[str, Fitted] = field(default_factory=dict)
    transforms: dict[str, Any] = field(default_factory=dict)


@dataclass
class Trial:
    """A combination in the making: candidates are judged one after the other and join the mixture.

    Attributes
    ----------
    plan : Plan
    panel : Panel
    origins : Origins
    ladder : Ladder
    judges : Judges
    regressions : dict of str to Fitted
        Regressions that joined, fitted to all rows.
    """

    plan: Plan
    panel: Panel
    origins: Origins
    ladder: Ladder
    judges: Judges
    regressions: dict[str, Fitted] = field(default_factory=dict)

    def admit(self, forecasts: dict[str, Array], usual: float | None = None) -> tuple[str, ...]:
        """Let a candidate join with the share that its forecasts at the judged origins justify; who joined.

        Of several kinds, those that improve the mixture on their own join, with equal weights: which of them was the
        best by a small margin says little about the steps to come. ``usual`` is as in :func:`climb`.
        """
        judged, current = self.ladder.judged, self.ladder.current
        if len(forecasts) > 1:
            forecasts = {member: f for member, f in forecasts.items() if climb(judged, current, f) > 0}
        share = climb(judged, current, np.mean(list(forecasts.values()), axis=0), usual) if forecasts else 0.0
        if not share > 0:
            return ()
        self.ladder.join(forecasts, share)
        self.judges.shares[tuple(forecasts)] = share
        return tuple(forecasts)


def bank_alone(origins: Origins, name: str, correlation: float = 0.0) -> Ladder:
    """The ladder with the bank as its only member; ``correlation`` is that of its errors for two series."""
    bank = origins.judged(origins.outlook.forecast)
    actual, unit = origins.judged(origins.actual), origins.judged(_unit_of_y(origins.outlook))
    return Ladder(Judged(actual, unit, origins.per_block, bank, correlation), [name], [bank], np.ones(1))


def judge_last_value(members: Collection[str], trial: Trial) -> None:
    """Let the last value join if the panel is close to random walks, where the mixture is hardly better."""
    ladder, last = trial.ladder, trial.origins.last_value()
    if relative_error(ladder.judged, ladder.current, last) > NEAR_RANDOM_WALKS:
        trial.admit(dict.fromkeys(members, last))


def judge_correction(kinds: Collection[str], trial: Trial) -> None:
    """Fit corrections to earlier origins and let them join with the share that their errors justify."""
    rows = trial.origins.rows(trial.origins.first_learned)
    fitting = [kind for kind in kinds if KINDS[kind].least_rows <= len(rows.X) <= KINDS[kind].most_rows]
    corrections = {kind: fit_correction(kind, rows, trial.plan.smoothing.n_threads) for kind in fitting}
    forecasts = {kind: trial.origins.corrected(correction) for kind, correction in corrections.items()}
    joined = trial.admit(forecasts, USUAL_SHARE)
    trial.judges.corrections.update({kind: corrections[kind] for kind in joined})


def _judged_forecasts(
    fitted: Fitted, plan: Plan, panel: Panel, origins: Origins, series: Array, places: Array
) -> Array:
    """At the judged origins of ``series``, whose numbers in the fit are ``places``; NaN for those too short."""
    part, back = panel.take(series), origins.judged_back[series]
    histories = Panel.stack([part.cut(b) for b in back.T])
    future = Future.stack([part.windows(b, plan.h)[1] for b in back.T])
    out = fitted.predict(histories, np.tile(places, back.shape[1]), future)
    out = np.moveaxis(out.reshape(back.shape[1], len(series), plan.h), 0, 1)
    return np.where(fitted.short[places][:, None, None], np.nan, out)


def forecast_everyone(
    scope: str, chain: Any, plan: Plan, panel: Panel, origins: Origins, pooled: Fitted | None, final: Fitted | None
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


def judge_regression(members: Collection[str], trial: Trial) -> None:
    """Judge a regression on a sample of the series; if it is worth its cost, fit it for all series and let it join."""
    (scope,) = members
    plan, panel, origins, ladder = trial.plan, trial.panel, trial.origins, trial.ladder
    held_back = origins.judged_back[:, -1]
    usable = np.flatnonzero(origins.usable & (panel.sizes - held_back >= LEAST_BEFORE))
    if not len(usable):
        return
    n_sample = int(np.clip(len(usable) // 8, *SAMPLE))
    n_pooled = int(MAX_POOLED_ROWS // max(np.median(panel.sizes[usable]), 1))
    pooled = spread(usable, n_sample if scope == "local" else max(n_sample, n_pooled))
    sample = spread(np.arange(len(pooled)), n_sample)
    mine = pooled[sample]

    judged, current = ladder.judged.take(mine), ladder.current[mine]
    training = panel.take(pooled).cut(held_back[pooled])
    best: tuple[float, Any, Fitted] | None = None
    for chain in plan.transforms(scope, training, panel.take(usable)):
        fitted = plan.regression(scope, chain, training, plan.h)
        tried = _judged_forecasts(fitted, plan, panel, origins, mine, sample)
        error = relative_error(judged, np.where(np.isnan(tried), current, tried), current)
        if best is None or error < best[0]:
            best, first_look = (error, chain, fitted), tried
    if best is None:
        return
    share = climb(judged, current, first_look)
    mixed = np.where(np.isnan(first_look), current, (1 - share) * current + share * first_look)
    gain = 1 - relative_error(judged, mixed, current)
    if not gain > EARNS * np.log10(max(len(usable), 10)):
        return
    _, chain, fitted = best
    pooled_fit = final = None
    if scope == "global":
        places = _places(pooled, panel.n_series)
        pooled_fit = fitted.grow(panel.cut(held_back), places)
        final = plan.regression(scope, chain, panel.take(pooled), plan.h).grow(panel, places)
    forecast, final = forecast_everyone(scope, chain, plan, panel, origins, pooled_fit, final)
    if trial.admit({scope: forecast}):
        trial.regressions[scope], trial.judges.transforms[scope] = final, chain
        if pooled_fit is not None:
            trial.judges.pooled[scope] = pooled_fit


def _places(pooled: Array, n_series: int) -> Array:
    """Index of each series among the pooled ones, -1 for the others."""
    out = np.full(n_series, -1)
    out[pooled] = np.arange(len(pooled))
    return out


def _unit_of_y(outlook: Outlook) -> Array:
    """Typical change on the scale of y."""
    return np.where(outlook.logs, outlook.unit * np.abs(outlook.forecast[..., 0]), outlook.unit)
