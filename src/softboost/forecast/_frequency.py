"""Inference of the frequency from the times of one series, for data frames and for files."""

from __future__ import annotations

import warnings
from typing import Any

import pandas as pd

__all__ = ["guess_frequency", "polars_word"]

N_PIECES = 8


def guess_frequency(times: Any) -> str | int | None:
    """The frequency of sorted times as a pandas string, or the step of integers; None for a single date.

    Gaps are allowed: if the series as a whole has no frequency, the first part of it that has one decides, and
    otherwise the most common distance of consecutive times.

    Examples
    --------
    >>> from softboost.forecast._frequency import guess_frequency
    >>> guess_frequency(pd.date_range("2024-01-31", periods=5, freq="ME"))
    'ME'
    >>> guess_frequency([1, 3, 5, 9])
    2
    """
    times = pd.Series(times).reset_index(drop=True)
    if times.dtype.kind in "iu":
        return int(times.diff().mode().iloc[0]) if len(times) > 1 else 1
    if len(times) < 2:
        return None
    times = pd.Series(pd.DatetimeIndex(times))
    width = max(3, len(times) // N_PIECES + 1)
    pieces = [times.iloc[first : first + width] for first in range(0, len(times) - 2, max(1, len(times) // N_PIECES))]
    found = (_inferred(piece) for piece in (times, *pieces) if len(piece) >= 3)
    return next(filter(None, found), None) or _by_months(times) or _by_duration(times.diff().mode().iloc[0])


def _inferred(times: Any) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas will return an offset in future; both are supported
        found: Any = pd.infer_freq(times)
    return None if found is None else str(getattr(found, "freqstr", found))


def _by_months(times: Any) -> str | None:
    """A frequency in months, quarters or years if all times are at the start, or all at the end, of a month."""
    for edge, letter in ((times.dt.is_month_start, "S"), (times.dt.is_month_end, "E")):
        if not edge.all():
            continue
        steps = (12 * times.dt.year + times.dt.month).diff().dropna()
        step, month = int(steps.mode().iloc[0]), times.iloc[0].strftime("%b").upper()
        if step == 0:
            return None
        return {1: f"M{letter}", 3: f"Q{letter}-{month}", 12: f"Y{letter}-{month}"}.get(step, f"{step}M{letter}")
    return None


def _by_duration(step: Any) -> str:
    days = step / pd.Timedelta(days=1)
    return f"{days:.0f}D" if days >= 1 and days == int(days) else str(pd.tseries.frequencies.to_offset(step).freqstr)


def polars_word(word: str) -> str:
    """A pandas frequency as a polars string."""
    unit = word.lstrip("0123456789")
    count = int(word[: len(word) - len(unit)] or 1)
    letters = {"D": "d", "W": "w", "M": "mo", "Q": "q", "Y": "y", "h": "h", "m": "m", "s": "s"}
    known = letters.get(unit[:1])
    if known is None:
        raise ValueError(f"the times have the pandas frequency {word!r}, which polars does not support; pass freq")
    return f"{count}{known}"
