"""The examples of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softboost import SoftBoostRegressor
from softboost._choice import candidates, ladder

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def blocks(heading: str) -> list[str]:
    """Python code of a section."""
    if not PAGE.exists():
        pytest.skip("CONTRIBUTING.md is not part of this source tree")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert section is not None, heading
    return re.findall(r"^```python\n(.*?)^```", section[1], re.S | re.M)


@pytest.fixture
def examples(monkeypatch):
    """The table of candidates and the ladders with the rows that the examples add, for one test."""
    monkeypatch.setattr(candidates, "CANDIDATES", candidates.CANDIDATES)
    monkeypatch.setattr(ladder, "LADDERS", ladder.LADDERS)
    before = dict(ladder.LADDERS)
    code = blocks("How to add a candidate of the default")
    assert len(code) == 3
    names = {}
    for block in code:
        exec(compile(block, PAGE.name, "exec"), names)
    yield names
    ladder.LADDERS.clear()
    ladder.LADDERS.update(before)


def fitted(seed=3, n=100):
    """Many columns that show one hidden factor, which is the target, with much noise."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=n)
    sign = rng.choice([-1.0, 1.0], size=30)
    return SoftBoostRegressor().fit(factor[:, None] * sign + rng.normal(size=(n, 30)), factor)


def test_added_rows_compete_and_are_explained(examples):
    choice = fitted().choice_
    assert {"components", "stumps"} <= set(choice.losses)
    # made for such columns, and better than the linear models of the table
    assert choice.losses["components"] < min(choice.losses[name] for name in ("ridge", "lasso", "relaxed", "robust"))
    assert choice.weights["components"] > 0
    assert "components: least squares on the first principal components" in choice.explain().splitlines()
    assert candidates.about("anchored components").startswith("least squares on the first principal components")
    assert SoftBoostRegressor().fit(np.eye(4), np.arange(4.0)).choice_ is not None  # as many columns as rows


def test_a_row_for_tables_leaves_series_alone(examples):
    walk = np.cumsum(np.random.default_rng(0).normal(size=80))
    lags = np.lib.stride_tricks.sliding_window_view(walk, 5)
    choice = SoftBoostRegressor().fit(lags[:, :-1][:, ::-1], lags[:, -1]).choice_
    assert "anchored components" in choice.losses
    assert not any("stumps" in name for name in choice.losses)


def test_a_level_without_a_rung_gets_no_weight(examples):
    ladder.LADDERS["table"] = tuple(
        ladder.Rung(set(rung.candidates) - {"stumps"}, rung.required, rung.doubt, rung.fades)
        for rung in ladder.LADDERS["table"]
    )
    choice = fitted().choice_
    assert "stumps" in choice.losses
    assert "stumps" not in choice.weights


def test_rows_are_gone_after_the_examples():
    assert not {"components", "stumps"} & set(fitted().choice_.losses)
