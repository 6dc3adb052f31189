"""The benchmark of transforms and weak learners: tasks, resumed runs, summaries."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softboost._benchmarks import learners
from softboost._benchmarks.task import MissingDataError


def test_windows_of_etth2_are_lags_oldest_first():
    try:
        task = learners.draw_task("etth2", 100, 0)
    except MissingDataError as error:
        pytest.skip(str(error))
    window = task.X_test[:, task.metadata["window"]]
    assert_allclose(window[1:, -1], task.y_test[:-1])  # rows of the test follow each other: lag 1 is the row before
    assert_allclose(window[1:, :-1], window[:-1, 1:])
    assert window.shape[1] == 18


@pytest.mark.parametrize("name", ["synthetic", "index1", "index2"])
def test_tasks_have_the_rows_asked_for_and_repeat(name):
    task, again = learners.draw_task(name, 40, 3), learners.draw_task(name, 40, 3)
    assert task.X_train.shape == (40, 50)
    assert task.digest() == again.digest() != learners.draw_task(name, 40, 4).digest()


def test_run_resumes_and_tables_hold_means(tmp_path):
    settings = {"tasks": ["synthetic", "index1"], "models": ["soft/none", "soft/linear, 2 rows"], "rows": [40]}
    table = learners.run(tmp_path, **settings, seeds=[0])
    first = (tmp_path / "results.jsonl").read_text()
    assert learners.run(tmp_path, **settings, seeds=[0]) == table
    assert (tmp_path / "results.jsonl").read_text() == first
    learners.run(tmp_path, **settings, seeds=[0, 1])
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert len(records) == 8
    errors = [r["relative_mse"] for r in records if (r["task"], r["model"]) == ("index1", "soft/none")]
    row = next(r for r in learners.summarise(records) if (r["task"], r["transform"]) == ("index1", "none"))
    assert (row["seeds"], row["relative_mse"]) == (2, pytest.approx(np.mean(errors)))
    assert_array_equal((tmp_path / "table.md").read_text().count("\n| soft |"), 2)
    assert "40 training rows: test MSE / variance of the training targets (seconds)." in table
    assert "(seconds), mean of 2 seeds." in (tmp_path / "table.md").read_text()


def test_models_are_every_transform_and_learner_with_and_without_q():
    names = set(learners.MODELS)
    assert {f"soft/{t}" for t in ("none", "diagonal", "linear", "mlp", "lstm", "cnn")} <= names
    assert {f"{lib}/{t}" for lib in ("lightgbm", "xgboost", "catboost") for t in ("none", "linear")} <= names


def test_unknown_names_are_an_error_of_usage(tmp_path, capsys):
    assert learners.main(["--out", str(tmp_path), "--models", "soft/wavelet"]) == 2
    assert "unknown: soft/wavelet; known: soft/none" in capsys.readouterr().err
