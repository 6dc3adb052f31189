"""Past origins of a panel, at which candidates are judged and corrections are fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._correction import FEW_ROWS, LEAST_KNOWN, Correction, Rows, inputs, relative_units, row_weights, targets
from ._evidence import FARTHEST, correlation_of
from ._panel import Array, Future, Panel, spread, typical_size
from ._smoothing import Outlook, Smoothing, stride_of

__all__ = ["LEAST_BEFORE", "MOST_TYPICAL", "Judging", "Origins", "ahead", "last_known"]

N_BLOCKS = 2  # evaluated horizons, with origins a quarter of a horizon apart; more if there are few series
MANY_BLOCKS = 10  # minimum number of evaluated horizons over all series
MAX_HELD_BACK = 1 / 3  # largest part of the longest series that is held back
LEAST_BEFORE = 3  # minimum number of values before an evaluated origin
N_LEARNED = 24  # training origins of a correction, besides the evaluated ones
PHASE_STEPS = 288  # largest product of the phases and the horizon, because long horizons are expensive to fit
TELLING, MOST_TYPICAL = 1 / 3, 200  # part of a typical size, of at most 200 values, from which a series is judged
CORRELATED, CORRELATED_AT = 200, 40  # series and origins that show how much series move together
MAX_ROWS = 300_000  # maximum number of training rows of a correction


@dataclass(frozen=True)
class Judging:
    """How the origins of a panel are judged.

    Attributes
    ----------
    n_origins : int
        Number of judged origins per series.
    n_series : int
        Number of series that are long enough to be judged.
    least_size : float
        Number of values from which a series is judged; shorter ones say nothing about the others.
    """

    n_origins: int
    n_series: int
    least_size: float


class Origins:
    """Past origins of a panel: forecasts of the bank, actual values, and which origins are judged or learned from.

    Origin k of a series lies ``first + k * stride`` rows before its end. The first ``n_judged`` are judged. Models that
    are judged there were fitted to origins whose horizon ends before all of them. Series start at different phases of
    the stride. A panel of few series contains each of them once per phase. Series that are too short to be judged, or
    much shorter than typical ones, do not count, so that they change nothing for the others.

    With ``judged_as``, the panel is a part of another one that was judged before: its origins are judged as those
    were, and nothing is learned from them.
    """

    def __init__(
        self, smoothing: Smoothing, panel: Panel, h: int, *, columns: bool, judged_as: Judging | None = None
    ) -> None:
        self.h, self.stride, self.n_series = h, stride_of(h), panel.n_series
        self.per_block = -(-h // self.stride)
        self.judging = self._judging(panel) if judged_as is None else judged_as
        n_usable = max(1, self.judging.n_series)
        self.n_judged = self.judging.n_origins
        learns = columns and judged_as is None
        self.first_learned = self.n_judged - 1 + self.per_block
        n_origins = self.first_learned + N_LEARNED if learns else self.n_judged
        many = min(FEW_ROWS // (n_usable * N_LEARNED), PHASE_STEPS // h) if learns else 1
        n_phases = int(np.clip(many, 1, self.stride))
        own_phase = np.zeros(self.n_series, dtype=np.int64) if n_usable == 1 else panel.keys % self.stride
        phase = own_phase + (self.stride // n_phases) * np.arange(n_phases)[:, None]
        self.panel = panel.take(np.tile(np.arange(self.n_series), n_phases)) if n_phases > 1 else panel
        first = self.h + (phase % self.stride).ravel()
        self.back = first[:, None] + self.stride * np.arange(n_origins)
        self.outlook = smoothing.outlook(self.panel, self.h, first, n_origins, columns=columns)
        self.actual, self.future = ahead(self.panel, self.back, self.h)
        self.n_before = self.panel.sizes[:, None] - self.back
        self.X = inputs(self.outlook, self.panel, self.future, n_origins) if columns else None

    def _judging(self, panel: Panel) -> Judging:
        telling = TELLING * typical_size(np.minimum(panel.sizes, MOST_TYPICAL))
        least_size = max(telling, float(self.h + LEAST_BEFORE))
        n_usable = int((panel.sizes >= least_size).sum())
        wanted = max(N_BLOCKS, -(-MANY_BLOCKS // max(1, n_usable))) * self.per_block + 1
        room = int(np.max(panel.sizes) * MAX_HELD_BACK - self.h) // self.stride
        return Judging(max(2, min(wanted, room)), n_usable, least_size)

    def correlation(self, smoothing: Smoothing) -> float:
        """Mean correlation of the errors of the bank between two series, at origins as far from their ends."""
        panel = self.panel.take(spread(np.flatnonzero(self.usable), CORRELATED))
        if panel.n_series < 2:
            return 0.0
        room = int(np.max(panel.sizes) - self.h - LEAST_BEFORE) // self.stride
        n_origins = max(1, min(CORRELATED_AT, room))
        outlook = smoothing.outlook(panel, self.h, self.h, n_origins)
        back = np.broadcast_to(self.h + self.stride * np.arange(n_origins), (panel.n_series, n_origins))
        errors = targets(outlook, ahead(panel, back, self.h)[0])
        errors[panel.sizes[:, None] - back < LEAST_KNOWN] = np.nan
        return correlation_of(np.clip(errors, -FARTHEST, FARTHEST).mean(axis=2))

    @property
    def usable(self) -> Array:
        """Whether each series is long enough to be judged."""
        return self.panel.sizes[: self.n_series] >= self.judging.least_size

    def judged(self, values: Array) -> Array:
        """The judged origins of every series; NaN where too little was known, and for series that are not judged."""
        mine = slice(0, self.n_series), slice(0, self.n_judged)
        out = values[mine].astype(np.float64)
        out[(self.n_before[mine] < LEAST_BEFORE) | ~self.usable[:, None]] = np.nan
        return out

    @property
    def judged_back(self) -> Array:
        """Rows after each judged origin (n_series, n_judged)."""
        return self.back[: self.n_series, : self.n_judged]

    def rows(self, first: int) -> Rows:
        """Rows to learn a correction from, of the origins from number ``first`` on.

        Series that are too short to be judged do not count, unless there are many rows. Of very many, a random part of
        all ages is kept: series of the same time move together, so that the latest rows would be many observations of
        few events.
        """
        assert self.X is not None
        y = targets(self.outlook, self.actual)[:, first:]
        fine = np.isfinite(y).all(axis=2) & (self.n_before[:, first:] >= LEAST_KNOWN)
        telling = fine & (self.panel.sizes >= self.judging.least_size)[:, None]
        there = np.argwhere(fine if telling.sum() > FEW_ROWS else telling)
        if len(there) > MAX_ROWS:
            there = there[np.sort(np.random.default_rng(0).choice(len(there), MAX_ROWS, replace=False))]
        series, origin = there.T
        weight = row_weights(relative_units(self.outlook)[:, first:][series, origin])
        return Rows(self.X[series, first + origin], y[series, origin], weight)

    def corrected(self, correction: Correction) -> Array:
        """Corrected forecasts at the judged origins."""
        assert self.X is not None
        mine = slice(0, self.n_series), slice(0, self.n_judged)
        outlook = Outlook(*(getattr(self.outlook, name)[mine] for name in Outlook.__dataclass_fields__))
        return self.judged(correction.corrected(outlook, self.X[mine]))

    def last_value(self) -> Array:
        """The last known value at every judged origin, for all steps."""
        mine = self.panel.take(np.arange(self.n_series))
        return self.judged(np.repeat(last_known(mine, self.judged_back)[..., None], self.h, axis=2))


def last_known(panel: Panel, back: Array) -> Array:
    """The last known value before every origin (n_series, n_origins); NaN without any."""
    known = np.where(np.isnan(panel.y), -1, np.arange(len(panel.y)))
    last = np.maximum.accumulate(known)[np.maximum(panel.indptr[1:, None] - back - 1, 0)]
    return np.where(last >= panel.indptr[:-1, None], panel.y[np.maximum(last, 0)], np.nan)


def ahead(panel: Panel, back: Array, h: int) -> tuple[Array, Future]:
    """Values after every origin (n_series, n_origins, h), and what is known of those steps, origin by origin."""
    rows = (panel.indptr[1:, None] - back)[..., None] + np.arange(h)
    low, high = panel.indptr[:-1, None, None], panel.indptr[1:, None, None] - 1
    inside = (rows >= low) & (rows <= high)
    rows = np.clip(rows, low, high)
    exog = panel.exog[rows.reshape(-1, h)]
    return np.where(inside, panel.y[rows], np.nan), Future(panel.times[rows].reshape(-1, h), exog)
