"""The one rule of evidence: a richer level replaces the simpler one where it is better by more than its noise.

Candidates stand on the rungs of a ladder, the simplest first. Going up, the best mixture of a rung's candidates is
compared with what was reached below it, by the paired t value of their losses on n validation rows:

    share = clip(t - required - doubt / n, 0, 1)

is given to the rung, the rest stays below. One rule holds for all data; the four ladders hold its settings.

Nothing here knows losses, models or frames: :func:`climb` asks for losses of a mixture and for the best mixture of some
candidates, and :func:`trust` and :func:`pulled` are its parts for those who compare in another way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AS_GIVEN", "LADDERS", "Evidence", "Rung", "climb", "ladder_of", "pulled", "trust"]

Array = NDArray[Any]
LEAST_WEIGHT = 1e-3  # below, a candidate is not worth its time in prediction

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
        Levels whose candidates are mixed on this rung. Without a candidate of them it is left out.
    required : float
        Standard errors by which the rung has to be better to get any share; with one more it gets everything.
    doubt : float
        Extra standard errors required, divided by the number of validation rows.
    fades : bool
        Whether both count only as much as the weight that is still on the first rung.
    """

    candidates: Collection[str]
    required: float = 0.0
    doubt: float = 0.0
    fades: bool = False


# In a table rows to be predicted resemble the validation rows: once a linear model has shown that there is a signal, a
# boosted one needs no margin, and where none has there may be no signal at all. Rows to come in time may differ, and
# neighbouring rows are alike and count for less. An autoregression averages over its penalties, so its validation loss
# is not optimistic: it replaces persistence as soon as it is better, and is hard to beat where nothing but the past of
# a series is known.
LADDERS: dict[str, tuple[Rung, ...]] = {
    "table": (Rung(CONSTANT), Rung(LINEAR, 1.0, 10.0), Rung(ALL, 1.5, 10.0, fades=True)),
    "time": (Rung(LAST), Rung(AUTOREGRESSION), Rung(LINEAR, 1.0, 15.0), Rung(ALL, 1.0, 15.0)),
    "series": (Rung(AUTOREGRESSION), Rung(LINEAR, 1.0, 15.0), Rung(ALL, 1.0, 15.0)),
    "series_alone": (Rung(AUTOREGRESSION), Rung(LAST, 0.5), Rung(LINEAR, 1.5, 15.0), Rung(ALL, 1.5, 15.0)),
}
AS_GIVEN = (Rung(BOOSTED),)


def ladder_of(kind: str, levels: Sequence[str]) -> tuple[Rung, ...]:
    """The ladder for rows of a kind and candidates of these levels.

    A single boosted candidate that no linear model competes with is what the user asked for, and stands as it is.
    """
    return AS_GIVEN if sorted(levels) == sorted([*BOOSTED, *CONSTANT]) else LADDERS[kind]


class Evidence(Protocol):
    """What a ladder is climbed by; mixtures are weights (n_candidates,) that sum to one."""

    @property
    def weight(self) -> Array | None:
        """Weights of the validation rows."""

    def losses(self, mixture: Array) -> Array:
        """Losses of a mixture on the validation rows."""

    def best_mixture(self, places: Array) -> Array:
        """The mixture of the candidates at these places that has the least loss."""


def climb(ladder: Sequence[Rung], levels: Sequence[str], evidence: Evidence) -> Array:
    """Weights of candidates of these levels: non-negative, summing to one."""
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
            share = trust(gain, evidence.weight, rung.required * strictness, rung.doubt * strictness)
            mixture = pulled(mixture, rich, share)
        reached = places
    assert mixture is not None, "no rung has a candidate"
    mixture[mixture < LEAST_WEIGHT] = 0.0
    return mixture / mixture.sum()


def trust(gain: Array, weight: Array | None, required: float, doubt: float = 0.0) -> float:
    """How far to trust a gain, in [0, 1], from paired differences of losses on n rows.

    ``clip(t - required - doubt / n, 0, 1)`` of their t value; where all differences are the same, whether they are
    gains.
    """
    mean = float(np.average(gain, weights=weight))
    spread = float(np.sqrt(np.average((gain - mean) ** 2, weights=weight)))
    n = len(gain) if weight is None else float(weight.sum())
    error = spread / np.sqrt(max(n, 1.0))
    return float(np.clip(mean / error - required - doubt / n, 0.0, 1.0)) if error > 0 else float(mean > 0)


def pulled(simple: Array, rich: Array, share: float) -> Array:
    """The richer mixture pulled towards the simpler one, which keeps what is not trusted."""
    return share * rich + (1 - share) * simple
