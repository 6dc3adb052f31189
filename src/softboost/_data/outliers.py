"""Cells that stand apart from the rest of their column: codes for missing values, and outliers.

The distance of a value is measured from the median of its column. Going inwards from the most distant value, a gap is
found where a distance is several times the next one. Values beyond the innermost gap stand apart, if there are few of
them. A value that occurs several times beyond the gap, such as -999, is a code if it is a whole number, or if few
values of the column repeat. Other values are outliers.

The rule adapts to the tails of a column: in a normal distribution the largest distance is hardly ever twice the second
largest, and in a heavy-tailed one an outlier is only moved to a multiple of the largest other distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMN_GAP", "LEAST_ROWS", "OUTLIER_GAP", "TARGET_REACH", "Codes", "Tails", "tails_of"]

Array = NDArray[Any]
Codes = dict[int, list[float]]
OUTLIER_GAP = 2.0  # ratio of successive distances from the median beyond which values stand apart
TARGET_REACH = 1.5  # outliers of the target and its residuals are moved to this multiple of the largest other distance
COLUMN_GAP = 3.0  # the same in columns of X, whose distant values are often explained by the target
CODE_GAP = 3.0  # the same if a value occurs more than once
MAX_OUTLIERS = 0.02  # share of the rows that may be outliers; one row always may
MAX_CODED = 0.25  # share of the rows that may have a code
MAX_CODES = 2  # codes of a column
LEAST_ROWS = 20  # rows without which nothing stands apart
MAX_SORTED_ROWS = 2**14  # with more rows, a sample and the extremes show which columns are worth sorting


@dataclass(frozen=True)
class Tails:
    """What stands apart in the columns of a matrix.

    Attributes
    ----------
    low, high : dict of int to float
        Limits of the columns that have outliers.
    codes : dict of int to list of float
        Codes of the columns that have some.
    """

    low: dict[int, float]
    high: dict[int, float]
    codes: Codes

    def without(self, values: Array) -> Array:
        """Values (n_rows, n_columns) with NaN in place of outliers and codes."""
        kept = self.clipped(values)
        out = np.where(kept == values, values, np.nan)
        for j, codes in self.codes.items():
            out[np.isin(values[:, j], codes), j] = np.nan
        return out

    def clipped(self, values: Array) -> Array:
        """Values (n_rows, n_columns) with outliers moved to the limits; the same array if there are none."""
        if not self.low:
            return values
        values = values.copy()
        for j, low in self.low.items():
            values[:, j] = np.clip(values[:, j], low, self.high[j])
        return values


def tails_of(
    values: Array, weight: Array | None, *, n_coded: int = 0, gap: float = OUTLIER_GAP, reach: float | None = None
) -> Tails:
    """What stands apart in values (n_rows, n_columns), which may have missing values.

    Outliers are beyond a ``gap``, and their limit is ``reach`` times the largest other distance, by default ``gap``.
    Only the first ``n_coded`` columns can have codes.
    A row of weight 2 is equivalent to two rows.
    """
    tails = Tails({}, {}, {})
    if (len(values) if weight is None else weight.sum()) < LEAST_ROWS:
        return tails
    for j in _suspects(values, weight is not None, gap):
        column = values[:, j].astype(np.float64)
        found = _of_column(column, np.ones(len(column)) if weight is None else weight, j < n_coded, gap, reach or gap)
        if found is not None:
            limits, own = found
            if limits is not None:
                tails.low[int(j)], tails.high[int(j)] = limits
            if own:
                tails.codes[int(j)] = own
    return tails


def _suspects(values: Array, weighted: bool, gap: float) -> Array:
    """Columns in which values may stand apart, by a fast test: successive distances with the ratio of a gap."""
    gap = min(gap, CODE_GAP)
    if weighted and len(values) <= MAX_SORTED_ROWS:
        return np.arange(values.shape[1])
    rows = values
    if len(values) > MAX_SORTED_ROWS:
        rows = values[np.linspace(0, len(values) - 1, MAX_SORTED_ROWS).astype(int)]
        with np.errstate(invalid="ignore"):
            rows = np.vstack([rows, np.fmin.reduce(values), np.fmax.reduce(values)])
    half = rows.astype(np.float64) / 2  # differences of halves do not overflow
    missing = np.isnan(half)
    if missing.any():
        kept = ~missing.all(axis=0)
        middle = np.zeros(rows.shape[1])
        middle[kept] = np.nanmedian(half[:, kept], axis=0)
        away = np.where(missing, 0.0, np.abs(half - middle))
    else:
        away = np.abs(half - np.median(half, axis=0))
    away = np.sort(away, axis=0)[len(away) // 2 :]
    return np.flatnonzero(((away[:-1] > 0) & (away[1:] / gap >= away[:-1])).any(axis=0))


def _of_column(
    column: Array, weight: Array, with_codes: bool, least_gap: float, reach: float
) -> tuple[tuple[float, float] | None, list[float]] | None:
    """Limits and codes of one column; None if nothing stands apart."""
    present = ~np.isnan(column)
    value, place = np.unique(column[present] / 2, return_inverse=True)  # differences of halves do not overflow
    if len(value) < 3:
        return None
    mass = np.bincount(place.ravel(), weights=weight[present], minlength=len(value))
    total = float(mass.sum())
    centre = value[np.searchsorted(np.cumsum(mass), total / 2)]
    away = np.abs(value - centre)
    order = np.argsort(-away, kind="stable")
    away, mass = away[order], mass[order]
    likely = (2 * value[order] % 1 == 0) | (len(value) > total / 2)
    repeated = (mass >= 2) & likely & with_codes
    outlying, coded = np.cumsum(np.where(repeated, 0, mass)), np.cumsum(np.where(repeated, mass, 0))
    allowed = (outlying <= max(1.0, MAX_OUTLIERS * total) + 1e-9) & (coded <= MAX_CODED * total)
    allowed &= np.cumsum(repeated) <= MAX_CODES
    gap = np.where(np.cumsum(repeated) > 0, CODE_GAP, least_gap)
    apart = allowed[:-1] & (away[1:] > 0) & (away[:-1] / gap[:-1] >= away[1:])
    if not apart.any():
        return None
    n_apart = int(np.flatnonzero(apart)[-1]) + 1
    codes = [2 * float(v) for v in value[order[:n_apart]][repeated[:n_apart]]]
    if len(codes) == n_apart:
        return None, codes
    limit = reach * away[n_apart]
    return (2 * float(centre - limit), 2 * float(centre + limit)), codes
