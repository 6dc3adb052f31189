"""The speed benchmark runs, says what it measured, and the kernels need no more instructions than they did."""

import json
import sys
from pathlib import Path

import pytest

from softboost._benchmarks import speed
from softboost.cli import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import instructions

MISSING = instructions.missing()


def test_benchmark_writes_table_and_figures(tmp_path, capsys):
    pytest.importorskip("lightgbm")
    sections = ["fit", "grid", "predict", "q", "kernels", "growth"]
    assert main(["benchmark", "speed", "--quick", "--out", str(tmp_path), "--sections", *sections]) == 0
    table = capsys.readouterr().out
    result = json.loads((tmp_path / "speed.json").read_text())
    assert list(result["sections"]) == sections
    assert "lightgbm" in result["environment"]["versions"]
    for section in result["sections"].values():
        for record in section:
            assert record["measure"] in table
            assert record["ratio"] > 0
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    assert (tmp_path / "speed.md").read_text().strip() in table


def test_benchmark_keeps_sections_that_were_not_asked_for(tmp_path):
    speed.run(tmp_path, ["import"], quick=True)
    speed.run(tmp_path, ["q"], quick=True)
    assert list(json.loads((tmp_path / "speed.json").read_text())["sections"]) == ["import", "q"]


def test_unknown_section_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"unknown section 'fat'; choose from fit, "):
        speed.run(tmp_path, ["fat"], quick=True)


def test_fixed_structure_is_a_plain_fit():
    X, y = speed.made_rows(100, 20)
    model = speed.SoftBoostRegressor(**speed.fixed_structure(X, y)).fit(X, y)
    assert model.choice_ is None
    assert len(model.members_) == 1


@pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} is not installed")
def test_kernels_need_no_more_instructions_than_before():
    """On a rise that is meant: python benchmarks/instructions.py --update, in the same commit."""
    baseline = json.loads(instructions.BASELINE.read_text())
    if baseline["compiler"] != instructions.compiler():
        pytest.skip(f"the counts kept are of another compiler: {baseline['compiler']}")
    assert instructions.risen(instructions.counts(), baseline["counts"]) == []


def test_a_rise_is_told():
    assert instructions.risen({"predict": 104}, {"predict": 100}) == []
    assert instructions.risen({"predict": 106}, {"predict": 100}) == ["predict: 100 -> 106 instructions (+6.0%)"]
