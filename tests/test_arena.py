"""The accuracy arena: families without leaks, resumed runs, correct summaries."""

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

from softboost._benchmarks import arena, peers, series, summary
from softboost._benchmarks.families import FAMILIES, select_families
from softboost._benchmarks.peers import PEERS, TunedLightGBM
from softboost._benchmarks.task import MissingDataError

SEEDS = range(4)
CORE = {"linear", "friedman", "index1", "index2", "dense1", "setar", "exchange", "etth2", "weather"}
SERIES = [
    "setar", "exchange", "etth2", "weather", "m1_quarterly", "sunspots", "ar3", "m3_monthly", "m3_quarterly",
    "m3_yearly", "tourism_monthly", "tourism_quarterly", "elnino", "co2", "taylor", "macro_changes", "macro_levels",
]  # fmt: skip


def draw(name, seed):
    """Draw a task; skip the test if its package or data are missing."""
    try:
        return FAMILIES[name].task(seed)
    except MissingDataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", FAMILIES)
def test_family_is_deterministic_and_as_stated(name):
    family = FAMILIES[name]
    for seed in SEEDS:
        task, again = draw(name, seed), draw(name, seed)
        assert task.digest() == again.digest()
        assert family.rows[0] <= len(task.X_train) <= family.rows[1]
        assert task.X_train.shape == (len(task.y_train), family.columns)
        assert task.X_test.shape == (len(task.y_test), family.columns)
        for array in (task.X_train, task.y_train, task.X_test, task.y_test):
            assert np.isfinite(array).all()
            assert array.dtype == np.float64
        assert task.y_train.var() > 0
    assert len({draw(name, seed).digest() for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("name", FAMILIES)
def test_columns_are_shuffled(name):
    tasks = [draw(name, seed) for seed in range(8)]
    if all("relevant" in task.metadata for task in tasks) and name not in ("dense1", "dense_add", "noise"):
        places = [tuple(task.metadata["relevant"]) for task in tasks]
        assert len(set(places)) > 1
        assert not any(place == tuple(range(len(place))) for place in places)
    elif tasks[0].naive_column is not None:
        assert len({task.naive_column for task in tasks}) > 1


@pytest.mark.parametrize("name", ["linear", "tlin", "inter_hier"])
def test_relevant_columns_carry_the_signal(name):
    task = draw(name, 0)
    others = np.setdiff1d(np.arange(task.X_train.shape[1]), task.metadata["relevant"])
    X, X_test = task.X_train[:, task.metadata["relevant"]], task.X_test[:, task.metadata["relevant"]]
    assert LinearRegression().fit(X, task.y_train).score(X_test, task.y_test) > 0.2
    noise = LinearRegression().fit(task.X_train[:, others[:10]], task.y_train)
    assert noise.score(task.X_test[:, others[:10]], task.y_test) < 0.1


@pytest.mark.parametrize("name", SERIES)
def test_series_families_predict_later_rows_from_earlier_values(name):
    for seed in SEEDS:
        task = draw(name, seed)
        assert task.metadata["train_rows"].max() < task.metadata["test_rows"].min()
        assert_array_equal(np.diff(task.metadata["train_rows"]) > 0, True)
        # The naive column is the last value: the target of the previous row, if that row is in the task.
        together = np.flatnonzero(np.diff(task.metadata["test_rows"]) == 1)
        assert_allclose(task.X_test[together + 1, task.naive_column], task.y_test[together])


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - set(SERIES)))
def test_table_rows_are_either_training_or_test(name):
    task = draw(name, 0)
    assert task.naive_column is None
    assert not set(task.metadata.get("train_rows", ())) & set(task.metadata.get("test_rows", ()))


def test_lags_and_rolling_see_only_the_past():
    values = np.random.default_rng(0).standard_normal(300)
    changed = values.copy()
    changed[200:] += 10
    before = series.lags_and_rolling(values, *series.EXCHANGE_COLUMNS)
    after = series.lags_and_rolling(changed, *series.EXCHANGE_COLUMNS)
    assert_array_equal(before[:201], after[:201])
    assert not np.array_equal(before[201], after[201])


def test_lags_and_rolling_match_pandas():
    pandas = pytest.importorskip("pandas")
    values = np.random.default_rng(0).standard_normal(400)
    lags, windows, shifts = series.WEATHER_COLUMNS
    s = pandas.Series(values)
    columns = [s.shift(lag) for lag in lags]
    for window in windows:
        columns += [s.shift(shift).rolling(window).mean() for shift in shifts]
        columns += [s.shift(shift).rolling(window).std() for shift in shifts]
    got = series.lags_and_rolling(values, lags, windows, shifts)
    assert_allclose(got, np.column_stack(columns), atol=1e-10)


def test_scaling_of_sampled_rows_ignores_the_test_rows():
    values = np.random.default_rng(0).standard_normal(400)
    changed = values.copy()
    changed[-50:] *= 100
    columns = ((1, 2), (4,), (1,))
    task = series.sampled_rows(values, columns, np.random.default_rng(1), 60, 50)
    other = series.sampled_rows(changed, columns, np.random.default_rng(1), 60, 50)
    assert_array_equal(task.X_train, other.X_train)
    assert_array_equal(task.y_train, other.y_train)


def test_missing_data_is_said_in_one_sentence(tmp_path):
    with pytest.raises(MissingDataError, match=r"exchange_rate.txt not found; pass a data folder"):
        FAMILIES["exchange"].task(0, tmp_path)


def test_splits_hold_back_at_least_a_third():
    dev, heldout = select_families("dev"), select_families("heldout")
    assert {family.name for family in FAMILIES.values() if family.core} == CORE <= {family.name for family in dev}
    assert len(heldout) >= len(FAMILIES) / 3
    assert len(dev) + len(heldout) == len(select_families("all")) == len(FAMILIES)
    with pytest.raises(ValueError, match="unknown families: nope"):
        select_families("dev", ["nope"])


SLOW = {"chimeraboost", *(peer.name for peer in PEERS.values() if peer.slow)}


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in PEERS])
def test_peer_fits_and_predicts(name):
    peer = PEERS[name]
    if not peer.available():
        pytest.skip(f"{peer.package} is not installed")
    task = FAMILIES["setar"].task(0)
    record = arena.score(peer, 0, task)
    assert "error" not in record
    assert_allclose(record["relative_mse"], record["mse"] / task.y_train.var())
    assert 0.05 < record["relative_mse"] < 4


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("n_rows", [60, 150])
def test_tuned_lightgbm_equals_grid_search(n_rows):
    lightgbm = pytest.importorskip("lightgbm")
    from sklearn.model_selection import GridSearchCV

    class SmallGrid(TunedLightGBM):
        n_trees = (5, 20)
        learning_rates = (0.05, 0.1)
        max_depths = (-1, 2, 5)
        num_leaves = (3, 31)

    rng = np.random.default_rng(n_rows)
    X = rng.standard_normal((n_rows, 5))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(n_rows)
    grid = {"n_estimators": [5, 20], "learning_rate": [0.05, 0.1], "max_depth": [-1, 2, 5], "num_leaves": [3, 31]}
    model = lightgbm.LGBMRegressor(random_state=0, n_jobs=1, verbose=-1)
    search = GridSearchCV(model, grid, cv=3, scoring="neg_mean_squared_error").fit(X, y)
    assert_allclose(SmallGrid(0).fit(X, y).predict(X), search.predict(X))


def test_missing_peer_is_listed(monkeypatch, capsys):
    absent = peers.Peer("absent", lambda seed, task: None, "absent-package", "absent_package")
    monkeypatch.setitem(PEERS, "absent", absent)
    assert not arena._is_available(absent)
    assert "missing model absent: the package absent-package is not installed" in capsys.readouterr().err
    assert "(missing)" in arena.describe()


def lines(folder):
    return (folder / arena.RESULTS).read_text().splitlines()


def test_run_resumes_and_redoes(tmp_path, capsys):
    options = {"families": ["linear", "ar3"], "models": ["naive", "mean", "ridge"]}
    arena.run(tmp_path, seeds=[0], **options)
    first = lines(tmp_path)
    assert len(first) == 5  # the naive forecast has no column in "linear"
    arena.run(tmp_path, seeds=[0, 1], **options)
    assert lines(tmp_path)[:5] == first
    assert len(lines(tmp_path)) == 10
    arena.run(tmp_path, seeds=[0], redo=["ridge"], **options)
    assert len(lines(tmp_path)) == 12
    with (tmp_path / arena.RESULTS).open("a") as file:
        file.write('{"family": "linear", "se')  # interrupted while writing
    assert len(summary.read_results(tmp_path / arena.RESULTS)) == 10
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "table.csv", "table.md"}


def test_run_in_processes_gives_the_same_numbers(tmp_path, capsys):
    options = {"families": ["linear"], "models": ["mean", "ridge"], "seeds": [0, 1]}
    arena.run(tmp_path / "one", **options)
    arena.run(tmp_path / "two", n_jobs=2, **options)
    one, two = (summary.summarise(summary.read_results(tmp_path / x / arena.RESULTS)) for x in ("one", "two"))
    assert one[0].means == two[0].means


def test_held_out_families_run_only_when_asked_for(tmp_path, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(arena, "_is_present", lambda family, data_dir: asked.append(family.split))
    arena.run(tmp_path, models=["mean"], seeds=[0])
    assert set(asked) == {"dev"}


def test_failing_model_is_recorded_and_tried_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(PEERS, "broken", peers.Peer("broken", lambda seed, task: None))
    text = arena.run(tmp_path, families=["linear"], models=["mean", "broken"], seeds=[0])
    assert "Fits that failed (1)" in text
    assert "broken on linear, seed 0: AttributeError" in text
    arena.run(tmp_path, families=["linear"], models=["mean", "broken"], seeds=[0])
    assert len(lines(tmp_path)) == 3


def record(family, seed, model, relative_mse, task="same"):
    numbers = {"mse": relative_mse, "relative_mse": relative_mse, "seconds": 0.1, "version": "1"}
    return {"family": family, "seed": seed, "model": model, "task": task, **numbers}


def hand_made_records():
    values = {
        ("linear", "softboost"): [1.0, 2.0, 1.0, 4.0],
        ("linear", "lasso"): [2.0, 2.01, 3.0, 1.0],
        ("linear", "ridge"): [3.0, 3.0, 3.0, 3.0],
        ("noise", "softboost"): [1.2, 1.2],
        ("noise", "lasso"): [1.5, 1.3],
        ("noise", "ridge"): [1.0, 1.0],
        ("noise", "catboost"): [0.1],
        ("tlin", "softboost"): [0.25, 0.25],
        ("tlin", "lasso"): [1.0, 1.0],
        ("tlin", "ridge"): [2.0, 2.0],
    }
    return [record(f, seed, model, x) for (f, model), row in values.items() for seed, x in enumerate(row)]


def test_summary_of_hand_made_results():
    linear, noise, tlin = summary.summarise(hand_made_records())
    assert linear.best_peer == "lasso"
    assert_allclose(linear.ratio, 2.0 / 2.0025)
    assert (linear.wins, linear.ties, linear.losses) == (2, 1, 1)
    assert_allclose(linear.median_ratio, (0.5 + 2 / 2.01) / 2)
    assert linear.interval[0] < linear.ratio < linear.interval[1]
    assert noise.best_peer == "ridge"  # catboost ran on one task of two and is not compared
    assert noise.partial == {"catboost": 0.1}
    assert_allclose(noise.ratio, 1.2)
    assert (noise.wins, noise.ties, noise.losses) == (0, 0, 2)
    assert tlin.ratio == 0.25
    assert tlin.interval == (0.25, 0.25)
    assert summary._totals_row("all", [linear, noise, tlin]) == [
        "all", "3", f"{(2.0 / 2.0025 * 1.2 * 0.25) ** (1 / 3):.3f}", "2", "1", "noise 1.200", "4/1/3",
    ]  # fmt: skip


def test_ranks_and_critical_difference():
    ranks = summary.rank_models(summary.summarise(hand_made_records()))
    assert ranks.mean_rank == {"softboost": 4 / 3, "lasso": 7 / 3, "ridge": 7 / 3}
    # Nemenyi at 5 percent: q = 2.343 for three models (Demsar 2006, table 5).
    assert_allclose(ranks.critical_difference, 2.343 * math.sqrt(3 * 4 / (6 * 3)), rtol=1e-3)
    assert 0 < ranks.p_value < 1


def test_tables_of_hand_made_results(tmp_path):
    path = tmp_path / arena.RESULTS
    path.write_text("".join(json.dumps(x) + "\n" for x in hand_made_records()))
    text = summary.write_tables(path, tmp_path)
    assert "| noise | dev | 1.2 | ridge | 1 | 1.200 | 1.20-1.20 | 1.200 | 0/0/2 |" in text
    assert "| heldout | 1 | 0.250 | 1 | 0 | tlin 0.250 | 2/0/0 |" in text
    header, *rows = [line.split(",") for line in (tmp_path / "table.csv").read_text().splitlines()]
    assert header[:3] == ["family", "split", "n_tasks"]
    assert [row[header.index("ratio")] for row in rows] == ["0.998752", "1.2", "0.25"]
    assert (tmp_path / "table.md").read_text() == text
    assert "tlin" not in summary.write_tables(path, tmp_path, ["linear", "noise"])


def test_summary_refuses_results_from_different_data():
    records = [record("linear", 0, "ridge", 1.0), record("linear", 0, "lasso", 1.0, task="other")]
    with pytest.raises(ValueError, match="results of linear, seed 0, come from different data"):
        summary.summarise(records)


def test_command_line(tmp_path, capsys):
    assert arena.parse_seeds("3") == [0, 1, 2]
    assert arena.parse_seeds("300-302") == [300, 301, 302]
    assert arena.main(["--list"]) == 0
    assert "tourism_monthly" in capsys.readouterr().out
    assert arena.main(["--out", str(tmp_path), "--families", "nope"]) == 2
    assert "unknown families: nope" in capsys.readouterr().err
    assert arena.main(["--out", str(tmp_path), "--families", "linear", "--models", "mean", "--seeds", "1"]) == 0
    assert "# Accuracy arena" in capsys.readouterr().out
