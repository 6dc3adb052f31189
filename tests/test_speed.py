"""The speed benchmark runs, says what it measured, and the kernels need no more instructions than they did."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, effective_n_jobs

from softboost._benchmarks import speed
from softboost._benchmarks.speed_report import write_report
from softboost._cli.main import main
from softboost._data.checks import resolve_n_threads

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import instructions

MISSING = instructions.missing()


@pytest.mark.parametrize(
    "sections",
    [["grid", "predict", "q", "kernels", "local"], pytest.param(list(speed.SECTIONS), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_benchmark_writes_table_and_figures(tmp_path, capsys, sections):
    pytest.importorskip("lightgbm")
    assert main(["benchmark", "speed", "--quick", "--out", str(tmp_path), "--sections", *sections]) == 0
    table = capsys.readouterr().out
    result = json.loads((tmp_path / "speed.json").read_text())
    assert list(result["sections"]) == sections
    assert "lightgbm" in result["environment"]["versions"]
    for section in result["sections"].values():
        for record in section:
            assert record["measure"] in table
            assert np.isfinite(record["ratio"])
    assert (tmp_path / "growth.png").is_file() == ("growth" in sections)
    assert (tmp_path / "speed.md").read_text().strip() in table


def test_growth_is_drawn_and_judged(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")

    def grown(axis, slope):
        points = [{"axis": axis, "value": n, "seconds": 1e-4 * n**slope, "lightgbm_seconds": 0.1} for n in (100, 1000)]
        return {"measure": f"growth with {axis}", "seconds": 0.5, "ratio": slope, "target": 1.1, "points": points}

    environment = {"versions": {"softboost": "1.0"}, "python": "3.11", "instruction_set": "avx2"}
    result = {"sections": {"growth": [grown("rows", 0.9), grown("columns", 1.3)]}, "environment": environment}
    first, second = write_report(result, tmp_path).splitlines()[2:4]
    assert first == "| growth with rows | 500 ms |  | 0.9 | at most 1.1 | yes |"
    assert second == "| growth with columns | 500 ms |  | 1.3 | at most 1.1 | no |"
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_benchmark_keeps_sections_that_were_not_asked_for(tmp_path):
    speed.run(tmp_path, ["predict"], quick=True)
    speed.run(tmp_path, ["q"], quick=True)
    assert list(json.loads((tmp_path / "speed.json").read_text())["sections"]) == ["predict", "q"]


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


def test_a_fit_keeps_to_one_thread_unless_told_otherwise():
    """Processor time beyond the clock's would be that of other threads, those of a linear algebra library too."""
    X, y = speed.made_rows(400, 150)
    model = speed.SoftBoostRegressor()
    model.fit(X, y)
    clock, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    assert processor < 1.1 * clock + 0.05


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_do_not_start_threads_of_their_own(backend):
    found = Parallel(n_jobs=2, backend=backend)(delayed(resolve_n_threads)(-1) for _ in range(4))
    assert found == [1, 1, 1, 1]


@pytest.mark.parametrize(("allowed", "want"), [("1", 1), ("1000", effective_n_jobs(-1)), ("4,2", effective_n_jobs(-1))])
def test_all_cores_are_those_that_the_environment_allows(monkeypatch, allowed, want):
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert resolve_n_threads(-1) == want
    assert resolve_n_threads(3) == 3
    assert resolve_n_threads(None) == 1
