"""The candidates of a combination: a table with one row each.

A row gives the name of a candidate, an explanation, how it is judged and when it applies. ``Forecaster(candidates=)``,
``choice_``, reports and model files take the names from here, and ``docs/forecasting.md`` the explanations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ._correction import KINDS
from ._judging import Trial, judge_correction, judge_last_value, judge_regression

__all__ = ["BANK", "CANDIDATES", "LAST", "REGRESSIONS", "Candidate", "label", "rows_of"]

BANK = "smoothing"  # the member that every combination starts with
LAST = "last value"


@dataclass(frozen=True)
class Candidate:
    """One row of the table.

    Attributes
    ----------
    name : str
        Name in ``candidates`` and ``choice_``.
    about : str
        Explanation in one line.
    judge : callable
        Judges the members at past origins and lets them join: ``(members, trial) -> None``.
    kinds : collection of str
        Kinds of the candidate, each of which is a member; those that help join with equal weights. Empty: the candidate
        is the member.
    least_series : int
        Minimum number of series.
    reads_bank : bool
        Whether it reads the state of the bank, which is then computed at all origins.
    regression : bool
        Whether it is a regression on lags, which ``scope`` and other settings of regressions restrict the choice to.
    """

    name: str
    about: str
    judge: Callable[[Collection[str], Trial], None]
    kinds: Collection[str] = ()
    least_series: int = 1
    reads_bank: bool = False
    regression: bool = False

    @property
    def judged(self) -> tuple[str, ...]:
        """Names of the members that are judged."""
        return tuple(self.kinds) or (self.name,)

    @property
    def members(self) -> dict[str, str]:
        """Names of the members in the weights, and their labels in tables."""
        bank = {BANK: BANK} if self.name == BANK else {}
        return bank | {member: f"{self.name} ({member})" if self.kinds else self.name for member in self.judged}


CANDIDATES = (
    Candidate(
        BANK, "bank of exponential smoothers and autoregressions, weighted by their errors on the series",
        judge_last_value, (LAST,),
    ),
    Candidate(
        "correction", "model of the errors of the bank, fitted to all series", judge_correction, KINDS,
        reads_bank=True,
    ),
    Candidate("local", "regression on lags, one for each series", judge_regression, regression=True),
    Candidate(
        "global", "regression on lags, one for all series", judge_regression, least_series=2, regression=True
    ),
)  # fmt: skip

REGRESSIONS = tuple(row.name for row in CANDIDATES if row.regression)


def rows_of(names: Collection[str]) -> list[Candidate]:
    """The rows with these names, in the order of the table."""
    return [row for row in CANDIDATES if row.name in names]


def label(member: str) -> str:
    """Label of a member in tables: the candidate, and its kind if there are several."""
    return next(row.members[member] for row in CANDIDATES if member in row.members)
