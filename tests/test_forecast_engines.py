"""Local fits and back-tests on the real engines: the same bits as on one machine, whatever runs them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from helpers import PATIENCE
from softboost import SoftBoostRegressor
from softboost.forecast import Differences, Forecaster, _one_pass
from softboost.forecast._frame_forms import without_pyarrow
from test_look_ahead import CUTOFF, LOCAL, N_WINDOWS, H, changed_after, differences, panel

pytest.importorskip("fugue.api", reason="fugue is not installed")
cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
# Workers cannot import this file, so the models it defines travel as a whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
# The engines warn in their own name (ports in use, deprecated settings of theirs); that is not for us to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


def long_frame(n_series=12, n_rows=48):
    rng = np.random.default_rng(0)
    t = np.arange(n_rows)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{i:02}",
                "ds": pd.date_range("2015-01-01", periods=n_rows, freq="MS"),
                "y": 20 + 10 * i + 3 * np.sin(t * np.pi / 6 + i) + rng.normal(size=n_rows).cumsum(),
            }
        )
        for i in range(n_series)
    ]
    return pd.concat(parts, ignore_index=True)


# nothing is left to choose, so that fits cost next to nothing
PLAIN = SoftBoostRegressor(3, 0.3, 1, feature_transform=None, leaves="linear", gates="greedy", init="constant")


COMBINED = {"candidates": ["smoothing", "correction"]}
ALONE = {"model": Ridge(), "lags": [1, 2, 12], "target_transforms": [Differences([1])]}


def make(engine=None, model=PLAIN):
    return Forecaster(
        "MS", 3, model, lags=[1, 2, 12], target_transforms=[Differences([1])], scope="local", engine=engine
    )


def check_fit(engine):
    df = long_frame(6)
    expected = make().fit(df).predict()
    pd.testing.assert_frame_equal(make(engine).fit(df).predict(), expected, check_exact=True)


def check_backtest(engine):
    df = long_frame()
    expected = make().backtest(df, n_windows=4, refit=2, level=[80])
    got = make(engine).backtest(df, n_windows=4, refit=2, level=[80])
    pd.testing.assert_frame_equal(got.forecasts, expected.forecasts, check_exact=True)
    np.testing.assert_array_equal(got.losses, expected.losses)


# one pass: name of the engine -> a frame of it from pandas, and back
def dask_frame(df):
    return pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed").from_pandas(
        df, npartitions=3
    )


def ray_frame(df):
    return pytest.importorskip("ray.data", reason="ray is not installed").from_pandas(df).repartition(3)


def spark_frame(df):
    return pytest.importorskip("pyspark.sql").SparkSession.getActiveSession().createDataFrame(df)


def to_pandas(frame):
    """Rows of an engine's forecasts, in order."""
    got = (
        frame.compute()
        if hasattr(frame, "compute")
        else getattr(frame, "toPandas", getattr(frame, "to_pandas", None))()
    )
    got = without_pyarrow(got).sort_values(["unique_id", "ds"]).reset_index(drop=True)
    return got.astype({name: object for name in ("unique_id", "flag") if name in got})


def check_one_pass(to_engine, monkeypatch, **settings):
    """The same bits as in one frame, of which this process sees the sample alone; a broken series is flagged."""
    monkeypatch.setattr(_one_pass, "MOST_SERIES", 5)
    df = long_frame(9)
    broken = df[df["unique_id"] == "s00"].assign(unique_id="zz", y=np.inf)
    df = pd.concat([df, broken]).sample(frac=1, random_state=0).reset_index(drop=True)
    model = Forecaster("MS", 3, candidates=["smoothing", "correction"], **settings)
    expected = model.forecast(df, level=[80], flags=True)
    sizes, read = [], _one_pass.read_sample
    monkeypatch.setattr(_one_pass, "read_sample", lambda model, rows: sizes.append(len(rows)) or read(model, rows))
    lazy = model.forecast(to_engine(df), level=[80], flags=True)
    assert type(lazy).__module__.split(".")[0] == type(to_engine(df)).__module__.split(".")[0]
    assert sizes == [5 * 48]
    got = to_pandas(lazy)
    pd.testing.assert_frame_equal(got.drop(columns="flag"), expected.drop(columns="flag"), check_exact=True)
    assert set(got.loc[got["flag"] != "", "unique_id"]) == {"zz"}


def check_one_pass_backtest(to_engine, settings, **how):
    """The rows and scores of a back-test in memory."""
    df = long_frame(7).sample(frac=1, random_state=0).reset_index(drop=True)
    model = Forecaster("MS", 3, **settings)
    expected = model.backtest(df, n_windows=4, step_size=2, level=[80], **how)
    got = model.backtest(to_engine(df), n_windows=4, step_size=2, level=[80], **how)
    rows = to_pandas(got.forecasts).sort_values(["unique_id", "cutoff", "ds"]).reset_index(drop=True)
    wanted = expected.forecasts.sort_values(["unique_id", "cutoff", "ds"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(rows.drop(columns="scale"), wanted, check_exact=True)
    pd.testing.assert_frame_equal(got.scores(), expected.scores())


@pytest.fixture(scope="module")
def dask_client():
    distributed = pytest.importorskip("distributed", reason="dask's distributed scheduler is not installed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def ray_cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def spark_session():
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # two threads, and as on a cluster up to four attempts at a task
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    try:
        session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start (it needs Java 17): {str(error)[:80]}")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_dask_fits_the_same_bits(dask_client):
    check_fit(dask_client)


@pytest.mark.slow
def test_ray_fits_the_same_bits(ray_cluster):
    check_fit("ray")


@pytest.mark.slow
def test_spark_fits_the_same_bits(spark_session):
    check_fit(spark_session)


@pytest.mark.slow
def test_dask_backtests_the_same_bits(dask_client):
    check_backtest("dask")


@pytest.mark.slow
def test_ray_backtests_the_same_bits(ray_cluster):
    check_backtest("ray")
    check_one_pass_backtest(ray_frame, COMBINED)


@pytest.mark.slow
def test_spark_backtests_the_same_bits(spark_session):
    check_backtest("spark")
    check_one_pass_backtest(spark_frame, COMBINED)


@pytest.mark.parametrize(
    ("settings", "refit"),
    [
        (COMBINED, False),
        pytest.param(COMBINED, 2, marks=pytest.mark.slow),
        pytest.param({**ALONE, "scope": "global"}, True, marks=pytest.mark.slow),
        pytest.param({**ALONE, "scope": "local"}, False, marks=pytest.mark.slow),
    ],
    ids=["combination", "refitted", "global", "local"],
)
def test_dask_frames_are_backtested_by_the_workers(dask_client, settings, refit):
    check_one_pass_backtest(dask_frame, settings, refit=refit)


def test_dask_forecasts_the_same_bits_in_one_pass(dask_client, monkeypatch):
    check_one_pass(dask_frame, monkeypatch, engine=dask_client)


@pytest.mark.slow
def test_ray_forecasts_the_same_bits_in_one_pass(ray_cluster, monkeypatch):
    check_one_pass(ray_frame, monkeypatch)


@pytest.mark.slow
def test_spark_forecasts_the_same_bits_in_one_pass(spark_session, monkeypatch):
    check_one_pass(spark_frame, monkeypatch)


def check_future(to_engine, ahead_to_engine):
    """Exogenous columns of the steps ahead, as a frame of the engine or of pandas."""
    df = long_frame(3)
    df["price"] = np.random.default_rng(1).normal(size=len(df))
    last = df.groupby("unique_id")["ds"].max()
    ahead = pd.concat(
        [
            pd.DataFrame({"unique_id": name, "ds": pd.date_range(end, periods=3, freq="MS")[1:], "price": [1.0, -1.0]})
            for name, end in last.items()
        ],
        ignore_index=True,
    )
    model = Forecaster("MS", 2, Ridge(), lags=[1, 2], scope="local", target_transforms=None)
    expected = model.forecast(df, X_df=ahead)
    got = to_pandas(model.forecast(to_engine(df), X_df=ahead_to_engine(ahead)))
    pd.testing.assert_frame_equal(got, expected, check_exact=True)


@pytest.mark.parametrize(
    "ahead", [dask_frame, pytest.param(pd.DataFrame, marks=pytest.mark.slow)], ids=["dask", "pandas"]
)
def test_dask_takes_exogenous_columns_in_one_pass(dask_client, ahead):
    check_future(dask_frame, ahead)


@pytest.mark.slow
def test_ray_takes_exogenous_columns_in_one_pass(ray_cluster):
    check_future(ray_frame, ray_frame)


@pytest.mark.slow
def test_spark_takes_exogenous_columns_in_one_pass(spark_session):
    check_future(spark_frame, spark_frame)


@pytest.mark.slow
def test_frames_in_memory_are_forecast_by_an_engine(dask_client, monkeypatch):
    df = long_frame(6)
    expected = make().forecast(df, level=[80])
    monkeypatch.setattr(_one_pass, "ROWS_PER_PART", 100)
    pd.testing.assert_frame_equal(make(dask_client).forecast(df, level=[80]), expected, check_exact=True)


@pytest.mark.parametrize(
    ("refit", "data"),
    [
        (False, {"gaps": True}),
        pytest.param(2, {"gaps": True}, marks=pytest.mark.slow),
        pytest.param(2, {"exog": True}, marks=pytest.mark.slow),
    ],
)
def test_backtests_on_an_engine_never_look_ahead(dask_client, monkeypatch, refit, data):
    assert differences(monkeypatch, {**LOCAL, "engine": dask_client}, {"refit": refit}, data) == []


def test_backtests_of_frames_of_an_engine_never_look_ahead(dask_client):
    df, tables = panel(), []
    for rows in (df, changed_after(df, CUTOFF)):
        test = Forecaster("MS", H).backtest(dask_frame(rows), n_windows=N_WINDOWS, level=[80])
        table = to_pandas(test.forecasts)
        table = table[table["cutoff"] <= CUTOFF].sort_values(["unique_id", "cutoff", "ds"], ignore_index=True)
        tables.append(table.drop(columns="y"))
    assert len(tables[0]) == 16
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_frames_of_an_engine_are_taken(dask_client):
    dataframe = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    df = long_frame(3)
    got = make().fit(dataframe.from_pandas(df, npartitions=2)).predict()
    np.testing.assert_array_equal(got["SoftBoostRegressor"], make().fit(df).predict()["SoftBoostRegressor"])


class Failing(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        if y.mean() > 0:
            raise ValueError("these rows are not to my liking")
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_errors_of_workers_come_back_whole(dask_client):
    with pytest.raises(RuntimeError, match="these rows are not to my liking"):
        make(dask_client, Failing()).fit(long_frame(3))


class Mortal(Ridge):
    """Says in ``folder`` which processes fit; the first of them waits there to be killed."""

    def __init__(self, folder=None, patience=PATIENCE):
        super().__init__()
        self.folder, self.patience = folder, patience

    def fit(self, X, y):
        if self.folder is not None:
            Path(self.folder, str(os.getpid())).touch()
            with contextlib.suppress(FileExistsError):
                Path(self.folder, "victim").symlink_to(str(os.getpid()))  # one process alone succeeds
                time.sleep(self.patience)
        return super().fit(X, y)


def check_death_of_a_worker(engine, folder, to_engine=None):
    """Kill the first process that fits a series while it does; the rest of the run must make up for it.

    With ``to_engine``, the series are forecast in one pass of a frame of the engine.
    """
    df, victims, done = long_frame(), [], threading.Event()

    def kill_first():
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):
                victim = int((folder / "victim").readlink().name)
                assert victim != os.getpid(), "the engine fits in this very process"
                os.kill(victim, signal.SIGKILL)
                victims.append(victim)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_first)
    killer.start()
    try:
        model = make(engine, Mortal(str(folder)))
        got = model.fit(df).predict() if to_engine is None else to_pandas(model.forecast(to_engine(df)))
    finally:
        done.set()
        killer.join()
    assert victims, "no worker was seen at work"
    assert len(list(folder.iterdir())) > 2, "no other process took the work over"
    pd.testing.assert_frame_equal(got, make(model=Mortal()).fit(df).predict(), check_exact=True)


def check_laziness(to_engine, folder):
    """No process fits a series before the forecasts are used."""
    forecasts = make(model=Mortal(str(folder), patience=0)).forecast(to_engine(long_frame(4)))
    assert not list(folder.iterdir())
    to_pandas(forecasts)
    assert list(folder.iterdir())


def test_dask_forecasts_when_the_result_is_used(dask_client, tmp_path):
    check_laziness(dask_frame, tmp_path)


@pytest.mark.slow
def test_ray_forecasts_when_the_result_is_used(ray_cluster, tmp_path):
    check_laziness(ray_frame, tmp_path)


@pytest.mark.slow
def test_spark_forecasts_when_the_result_is_used(spark_session, tmp_path):
    check_laziness(spark_frame, tmp_path)


def test_dask_survives_the_death_of_a_worker(dask_client, tmp_path):
    check_death_of_a_worker(dask_client, tmp_path)


def test_dask_survives_the_death_of_a_worker_in_one_pass(dask_client, tmp_path):
    check_death_of_a_worker(dask_client, tmp_path, dask_frame)


@pytest.mark.slow
@pytest.mark.parametrize("to_engine", [None, ray_frame], ids=["fit", "one pass"])
def test_ray_survives_the_death_of_a_worker(ray_cluster, tmp_path, to_engine):
    check_death_of_a_worker("ray", tmp_path, to_engine)


@pytest.mark.slow
@pytest.mark.parametrize("to_engine", [None, spark_frame], ids=["fit", "one pass"])
def test_spark_survives_the_death_of_a_worker(spark_session, tmp_path, to_engine):
    check_death_of_a_worker(spark_session, tmp_path, to_engine)


def test_benchmark_of_many_series_writes_its_table(tmp_path):
    pytest.importorskip("distributed", reason="dask's distributed scheduler is not installed")
    from softboost._benchmarks import many_series

    assert many_series.run(tmp_path, [4, 2], 1).count("\n") == 3
    assert [row["series"] for _, row in pd.read_csv(tmp_path / "many_series.csv").iterrows()] == [2, 4]


def test_missing_fugue_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fugue.api", None)
    with pytest.raises(ImportError, match=r"pip install 'softboost\[distributed\]'"):
        make("dask").fit(long_frame(2))
