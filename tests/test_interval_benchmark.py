"""The comparison of prediction intervals: scores, resuming, its table and its command."""

import json

import numpy as np
import pytest

from softboost._benchmarks import intervals
from softboost._benchmarks.real_tables import RealTable


@pytest.fixture
def one_table(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 5))
    table = RealTable("made/up", "y", X, X[:, 0] + 0.3 * rng.normal(size=260))
    monkeypatch.setattr(intervals, "real_tables", lambda: {table.name: table})


def test_interval_score_punishes_width_and_distance():
    y = np.array([0.0, 5.0, -2.0])
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    assert intervals.interval_score(low, high, y, 0.9) == pytest.approx(2 + 20 * (4 + 1) / 3)


def test_conformal_quantile_covers_a_new_score():
    assert intervals.conformal_quantile(np.arange(1.0, 20.0), 0.9) == 18.0
    assert intervals.conformal_quantile(np.arange(1.0, 4.0), 0.9) == 3.0


def test_results_are_kept_and_summarised(one_table, tmp_path, capsys):
    names = ["softboost", "lasso"]
    table = intervals.run(tmp_path, models=names, seeds=[0])
    assert "1 tables, 1 draws of 100 training rows; intervals of 90 percent." in table
    before = (tmp_path / intervals.RESULTS).read_text()
    records = [json.loads(line) for line in before.splitlines()]
    assert [r["model"] for r in records] == names
    assert all(0.7 < r["coverage"] <= 1.0 and 0.5 < r["score"] < 6 for r in records), records
    assert intervals.run(tmp_path, models=names, seeds=[0]) == table
    assert (tmp_path / intervals.RESULTS).read_text() == before
    assert intervals.main(["--out", str(tmp_path), "--models", "softboost", "lasso", "--seeds", "1"]) == 0
    assert table in capsys.readouterr().out
    with pytest.raises(ValueError, match="unknown names: forest; see --list"):
        intervals.run(tmp_path, models=["forest"])


@pytest.mark.parametrize("name", ["lightgbm", "quantile forest"])
def test_peers_give_intervals(name, one_table):
    if not intervals.MODELS[name].available():
        pytest.skip(f"needs the package {intervals.MODELS[name].module}")
    record = intervals.score(next(iter(intervals.real_tables().values())), 0, intervals.MODELS[name])
    assert 0.6 < record["coverage"] <= 1.0
    assert record["width"] > 0
