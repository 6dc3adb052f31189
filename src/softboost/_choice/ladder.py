"""The rule of evidence: a richer level replaces a simpler one if it is better by more than the noise.

The candidates form the rungs of a ladder, simplest first. The best mixture of the candidates of a rung is compared with
the mixture reached so far, by the paired t statistic of their losses on n validation rows. The rung gets the share

    share = clip(t - required - doubt / n, 0, 1)

and the mixture below keeps the rest. The rule is the same for all data; the four ladders are its settings.

In tables two refinements keep single rows from deciding: the differences of losses are winsorised, and the weights are
means over all climbs that leave two folds out (:func:`climb_without_pairs`).

This module does not depend on losses, models or data frames: :func:`climb` needs only the losses of a mixture and the
best mixture of some candidates. :func:`trust` and :func:`pulled` can be used for other comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AS_GIVEN", "LADDERS", "Evidence", "Rung", "climb", "climb_without_pairs", "ladder_of", "pulled", "trust",
]  # fmt: skip

Array = NDArray[Any]
LEAST_WEIGHT = 1e-3  # candidates with less weight are dropped, to save prediction time
LEAST_MEAN_WEIGHT = 0.03  # the same for means over many climbs, in which more candidates have some weight
LEAST_FOLDS = 4  # folds needed to leave two of them out
WINSORISED = 0.05  # share of the differences of losses that is winsorised, half of it on either side
LEAST_WINSORISED_ROWS = 40

CONSTANT = ("constant",)
LAST = ("last value",)
AUTOREGRESSION = ("autoregression",)
LINEAR = (*CONSTANT, *LAST, *AUTOREGRESSION, "linear")
BOOSTED = ("boosted",)
ALL = (*LINEAR, *BOOSTED)


@dataclass(frozen=True)
class Rung:
    """A set of candidates and the evidence that they need.

    Attributes
    ----------
    candidates : collection of str
        Levels whose candidates are mixed on this rung. A rung without candidates is skipped.
    required : float
        Standard errors by which the rung must be better to get any share; with one more it gets the full share.
    doubt : float
        Extra standard errors required, divided by the number of validation rows.
    fades : bool
        Whether both are multiplied by the weight that is still on the first rung.
    """

    candidates: Collection[str]
    required: float = 0.0
    doubt: float = 0.0
    fades: bool = False


# In a table, rows to be predicted resemble the validation rows: once a linear model has shown that there is a signal, a
# boosted one needs no margin; otherwise there may be no signal at all. Future rows of a series may differ, and
# neighbouring rows are correlated. An autoregression averages over its penalties, so its validation loss is not
# optimistic: it replaces persistence as soon as it is better, and it is hard to improve on without other columns.
LADDERS: dict[str, tuple[Rung, ...]] = {
    "table": (Rung(CONSTANT), Rung(LINEAR, 1.0, 10.0), Rung(ALL, 1.5, 10.0, fades=True)),
    "time": (Rung(LAST), Rung(AUTOREGRESSION), Rung(LINEAR, 1.0, 15.0), Rung(ALL, 1.0, 15.0)),
    "series": (Rung(AUTOREGRESSION), Rung(LINEAR, 1.0, 15.0), Rung(ALL, 1.0, 15.0)),
    "series_alone": (Rung(AUTOREGRESSION), Rung(LAST, 0.5), Rung(LINEAR, 1.5, 15.0), Rung(ALL, 1.5, 15.0)),
}
AS_GIVEN = (Rung(BOOSTED),)


def ladder_of(kind: str, levels: Sequence[str]) -> tuple[Rung, ...]:
    """The ladder for rows of a kind and candidates of these levels.

    A single boosted candidate without competing linear models was set by the user and gets all of the weight.
    """
    return AS_GIVEN if sorted(levels) == sorted([*BOOSTED, *CONSTANT]) else LADDERS[kind]


class Evidence(Protocol):
    """Evidence for climbing a ladder; mixtures are weights (n_candidates,) that sum to one."""

    @property
    def weight(self) -> Array | None:
        """Weights of the validation rows."""

    def losses(self, mixture: Array) -> Array:
        """Losses of a mixture on the validation rows."""

    def best_mixture(self, places: Array) -> Array:
        """The mixture of the candidates at these positions with the lowest loss."""


class EvidenceByFold(Evidence, Protocol):
    """Evidence whose rows belong to folds."""

    @property
    def fold(self) -> Array:
        """Fold of each validation row."""

    def without(self, folds: Collection[int]) -> EvidenceByFold:
        """The evidence of the rows of all other folds."""


def climb_without_pairs(ladder: Sequence[Rung], levels: Sequence[str], evidence: EvidenceByFold) -> Array:
    """The mean of the weights from all climbs that leave two folds out, with winsorised differences of losses.

    With fewer than four folds, the weights from all rows.
    """
    folds = np.unique(evidence.fold)
    if len(folds) < LEAST_FOLDS:
        return climb(ladder, levels, evidence, winsorise=True)
    parts = [evidence.without(pair) for pair in combinations(folds.tolist(), 2)]
    mixture = np.mean([climb(ladder, levels, part, winsorise=True) for part in parts], axis=0)
    return _without_small(mixture, min(LEAST_MEAN_WEIGHT, float(mixture.max())))


def climb(ladder: Sequence[Rung], levels: Sequence[str], evidence: Evidence, *, winsorise: bool = False) -> Array:
    """Non-negative weights of candidates of these levels that sum to one."""
    mixture, reached, first = None, np.empty(0, dtype=int), np.empty(0, dtype=int)
    for rung in ladder:
        places = np.flatnonzero([level in rung.candidates for level in levels])
        if not len(places) or np.array_equal(places, reached):
            continue
        rich = evidence.best_mixture(places)
        if mixture is None:
            mixture, first = rich, places
        else:
            strictness = float(mixture[first].sum()) if rung.fades else 1.0
            gain = evidence.losses(mixture) - evidence.losses(rich)
            gain = _winsorised(gain, evidence.weight) if winsorise else gain
            share = trust(gain, evidence.weight, rung.required * strictness, rung.doubt * strictness)
            mixture = pulled(mixture, rich, share)
        reached = places
    assert mixture is not None, "no rung has a candidate"
    return _without_small(mixture, LEAST_WEIGHT)


def _without_small(mixture: Array, least: float) -> Array:
    mixture = np.where(mixture < least, 0.0, mixture)
    return mixture / mixture.sum()


def _winsorised(gain: Array, weight: Array | None) -> Array:
    """Differences of losses clipped at their outer quantiles if there are at least 40 rows."""
    below = np.arange(1.0, len(gain) + 1) if weight is None else np.cumsum(weight[np.argsort(gain, kind="stable")])
    if below[-1] < LEAST_WINSORISED_ROWS:
        return gain
    shares = np.array([WINSORISED / 2, 1 - WINSORISED / 2]) * below[-1]
    low, high = np.sort(gain)[np.searchsorted(below, shares - 1e-9)]
    return np.minimum(np.maximum(gain, low), high)


def trust(gain: Array, weight: Array | None, required: float, doubt: float = 0.0) -> float:
    """The share in [0, 1] of a richer mixture, from paired differences of losses on n rows.

    It is ``clip(t - required - doubt / n, 0, 1)`` with the t statistic of the differences. If all differences are
    equal, it is 1 for a gain and 0 otherwise.
    """
    if weight is None:  # as np.average, which takes longer
        n = float(len(gain))
        mean = float(gain.mean())
        spread = math.sqrt(float(((gain - mean) ** 2).mean()))
    else:
        n = float(weight.sum())
        mean = float(np.average(gain, weights=weight))
        spread = math.sqrt(float(np.average((gain - mean) ** 2, weights=weight)))
    error = spread / math.sqrt(max(n, 1.0))
    return min(max(mean / error - required - doubt / n, 0.0), 1.0) if error > 0 else float(mean > 0)


def pulled(simple: Array, rich: Array, share: float) -> Array:
    """The mixture with this share of the richer one and the rest of the simpler one."""
    return share * rich + (1 - share) * simple
