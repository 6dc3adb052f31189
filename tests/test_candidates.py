"""The table of candidates of the forecaster: pages repeat it, and a new row competes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softboost.forecast import Forecaster
from softboost.forecast import _candidates as candidates
from softboost.forecast._correction import KINDS, Kind
from test_combination import frame, walks

PAGE = Path(__file__).parents[1] / "docs" / "forecasting.md"


def test_the_page_shows_the_table() -> None:
    lines = [f"| `{row.name}` | {row.about} |" for row in candidates.CANDIDATES]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")


def test_names_of_candidates_and_members_are_distinct() -> None:
    members = [member for row in candidates.CANDIDATES for member in row.members]
    assert len(set(members)) == len(members)
    assert [candidates.label(member) for member in members].count("correction (trees)") == 1
    assert [row.name for row in candidates.CANDIDATES if row.judge is None] == [candidates.BANK]


def test_a_new_kind_of_correction_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank cannot know that shocks of these series never last; a median of past errors does."""

    class Median:
        def __init__(self, y: np.ndarray) -> None:
            self.value = np.median(y, axis=0)

        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.tile(self.value, (len(X), 1))

    monkeypatch.setitem(KINDS, "median", Kind(lambda X, y, n_threads: Median(y)))
    rows = [replace(row, kinds=["median"]) if row.kinds else row for row in candidates.CANDIDATES]
    monkeypatch.setattr(candidates, "CANDIDATES", tuple(rows))
    rng = np.random.default_rng(0)
    shock = (rng.random((20, 60)) < 0.2) * 5.0
    series = [10 + s + 0.1 * rng.normal(size=60) for s in shock]
    model = Forecaster("MS", h=4, candidates=["smoothing", "correction"]).fit(frame(series))
    assert model.fitted_.members == ("smoothing", "median")
    assert model.choice_.weights["correction"] > 0.2
    assert model.choice_.errors["correction (median)"] < model.choice_.errors["smoothing"]
    assert np.isfinite(model.predict()["SoftBoostRegressor"]).all()


def test_a_candidate_that_needs_more_series_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    rows = [
        row if row.judge is None else replace(row, judge=lambda member, trial: judged.append(member))
        for row in candidates.CANDIDATES
    ]
    monkeypatch.setattr(candidates, "CANDIDATES", tuple(rows))
    Forecaster("MS", h=3).fit(walks(1, 40))
    assert judged == ["linear", "trees", "local"]
    Forecaster("MS", h=3).fit(walks(2, 40))
    assert judged == ["linear", "trees", "local", "linear", "trees", "local", "global"]
