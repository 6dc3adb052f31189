"""Threads and processes: one model predicting in many threads, many models fitting at once, fork and spawn."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers import PATIENCE
from softboost import SoftBoostRegressor
from softboost._benchmarks import serving
from softboost._file.container import dumps, loads
from softboost.forecast import Forecaster
from softboost.presets import bsdt_q

PLAIN = {"n_estimators": 10, "learning_rate": 0.3, "depth": 2, "feature_transform": None, "init": "constant"}


def make_data(n=80, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.1 * rng.normal(size=n)


def large_model(X, y):
    """A model that takes a while to predict."""
    return SoftBoostRegressor(**{**PLAIN, "n_estimators": 100, "depth": 4}, leaves="linear", gates="greedy").fit(X, y)


def fit_and_predict(seed, n_jobs=None):
    X, y = make_data(seed=seed)
    return SoftBoostRegressor(n_jobs=n_jobs).fit(X, y).predict(X)


def in_threads(n_threads, work):
    """Run work(i) in threads that start together; the first exception comes out."""
    barrier = threading.Barrier(n_threads)

    def run(i):
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(run, range(n_threads)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eight_threads_predict_with_one_model(dtype):
    X, y = make_data()
    model = SoftBoostRegressor(n_jobs=2).fit(X, y)
    rows = make_data(700, seed=1)[0].astype(dtype)
    want = SoftBoostRegressor(n_jobs=2).fit(X, y).predict(rows)
    # the first prediction lays the model out, so all threads meet on that too
    for _ in range(5):
        fresh = loads(dumps(model))
        for got in in_threads(8, lambda i, fresh=fresh: [fresh.predict(rows) for _ in range(3)]):
            assert all(np.array_equal(g, want) for g in got)


def test_threads_predict_at_the_same_time():
    """The kernel works without the interpreter's lock: while one thread is inside it, others run.

    Counted in processor time, of which two threads get about the same, however many others want some too.
    """
    X, y = make_data()
    model = large_model(X, y)
    rows = np.tile(X, (800, 1))
    model.predict(rows[:1])
    inside = []
    begun, done = threading.Event(), threading.Event()

    def predict():
        begun.set()
        start = time.thread_time()
        model.predict(rows)
        inside.append(time.thread_time() - start)
        done.set()

    thread = threading.Thread(target=predict)
    thread.start()
    begun.wait()
    start = time.thread_time()
    while not done.is_set():  # which a kernel that held the lock would stop at once
        pass
    beside = time.thread_time() - start
    thread.join()
    assert beside > 0.2 * inside[0]


@pytest.mark.slow  # needs a quiet machine
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_threads_share_the_work():
    """With two threads predicting, processor time passes faster than the clock; a busy machine gets several tries."""
    X, y = make_data()
    model = large_model(X, y)
    rows = np.tile(X, (30, 1))
    model.predict(rows)
    best = 0.0
    for _ in range(6):
        begin, processor = time.perf_counter(), time.process_time()
        in_threads(2, lambda i: [model.predict(rows) for _ in range(5)])
        best = max(best, (time.process_time() - processor) / (time.perf_counter() - begin))
        if best > 1.3:
            return
    if os.getloadavg()[0] > 1.5:
        pytest.skip(f"the machine is too busy to tell: two threads got {best:.2f} processors")
    assert best > 1.3


@pytest.mark.slow  # needs a quiet machine
def test_threads_do_not_get_in_each_others_way():
    """Eight threads need hardly more processor time for the same rows than one; a busy machine does not count."""
    X, y = make_data()
    model = large_model(X, y)
    rows = np.tile(X, (20, 1))
    model.predict(rows)

    def cost(n_threads):
        begin = time.process_time()
        in_threads(n_threads, lambda i: [model.predict(rows) for _ in range(16 // n_threads)])
        return time.process_time() - begin

    assert min(cost(8) for _ in range(5)) < 1.5 * min(cost(1) for _ in range(5))


def test_benchmark_of_threads_and_of_one_row(tmp_path):
    text = serving.run(tmp_path, 0.01)
    assert "cost8" in text
    assert len((tmp_path / "threads.csv").read_text().splitlines()) == 7
    assert len((tmp_path / "one_row.csv").read_text().splitlines()) == 3


def test_threads_fit_different_models():
    want = [fit_and_predict(seed) for seed in range(4)]
    for got, expected in zip(in_threads(4, fit_and_predict), want, strict=True):
        assert np.array_equal(got, expected)
    for got, expected in zip(in_threads(4, lambda seed: fit_and_predict(seed, n_jobs=2)), want, strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_fit_and_predict(method):
    """Also forked from a process whose own kernel threads have run."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    data = [make_data(seed=seed) for seed in range(3)]
    want = [fit_and_predict(seed, n_jobs=2) for seed in range(3)]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        fits = [pool.submit(methodcaller("fit", X, y), SoftBoostRegressor(n_jobs=2)) for X, y in data]
        models = [fit.result(timeout=PATIENCE) for fit in fits]
        there = [pool.submit(methodcaller("predict", X), m) for m, (X, _) in zip(models, data, strict=True)]
        for answer, model, (X, _), expected in zip(there, models, data, want, strict=True):
            assert np.array_equal(answer.result(timeout=PATIENCE), expected)
            assert np.array_equal(model.predict(X), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_other_threads_predict():
    X, y = make_data()
    model = SoftBoostRegressor(n_jobs=2).fit(X, y)
    rows, stop = make_data(500, seed=1)[0], threading.Event()
    want = model.predict(rows)
    busy = [threading.Thread(target=lambda: [model.predict(rows) for _ in iter(stop.is_set, True)]) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(model.predict(rows), want) else 1)
            assert _wait(child, PATIENCE) == 0
    finally:
        stop.set()
        for thread in busy:
            thread.join()


def _wait(child, seconds):
    """Exit status of a child; it is killed if it hangs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hung"


def test_no_threads_are_left_behind():
    X, y = make_data()
    before = threading.active_count()
    model = SoftBoostRegressor(n_jobs=4).fit(X, y)
    model.predict(X)
    assert threading.active_count() == before
    tasks = Path(f"/proc/{os.getpid()}/task")
    if tasks.is_dir():
        native = len(list(tasks.iterdir()))
        for _ in range(5):
            model.fit(X, y).predict(X)
        assert len(list(tasks.iterdir())) <= native


def test_fit_while_predicting_is_safe():
    """Every prediction is that of one whole model, the old or the new, never of a mixture."""
    X, y = make_data(60, 4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    models = [
        (frame, y),
        (frame, np.column_stack([y, -y, 2 * y])),
        (frame.assign(a=np.where(np.arange(60) % 7 == 0, np.nan, X[:, 0])), 1e6 * y),
    ]
    params = {**PLAIN, "n_estimators": 3}
    allowed = [SoftBoostRegressor(**params).fit(*data).predict(frame) for data in models]
    model = SoftBoostRegressor(**params).fit(*models[0])
    stop, wrong, seen = threading.Event(), [], set()

    def watch():
        while not stop.is_set():
            try:
                got = model.predict(frame)
            except BaseException as error:
                wrong.append(repr(error))
                return
            match = [i for i, a in enumerate(allowed) if got.shape == a.shape and np.array_equal(got, a)]
            if not match:
                wrong.append(f"a mixture of shape {got.shape}")
                return
            seen.update(match)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # many more chances to meet halfway
    watchers = [threading.Thread(target=watch) for _ in range(3)]
    try:
        for thread in watchers:
            thread.start()
        for i in range(1000):
            model.fit(*models[i % 3])
            if wrong or (i >= 12 and len(seen) == 3):
                break
    finally:
        stop.set()
        for thread in watchers:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong
    assert len(seen) >= 2


def test_forecaster_may_change_while_it_predicts():
    """Forecasts and intervals are those before a fit or an update, or those after it."""
    days = pd.date_range("2024-01-01", periods=60)
    noise = np.random.default_rng(0).normal(size=60)
    df = pd.DataFrame({"unique_id": "s", "ds": days, "y": 50 + noise})
    tall = df.assign(y=1e6 * df["y"])
    settings = {"h": 2, "lags": [1, 2], "target_transforms": [], "model": SoftBoostRegressor(**PLAIN)}

    def steps():
        """A forecaster after each change."""
        forecaster = Forecaster("D", **settings)
        while True:
            yield forecaster.fit(df[:50])
            yield forecaster.update(df[50:])
            yield forecaster.fit(tall)

    allowed = [f.predict(level=[80]) for f, _ in zip(steps(), range(3), strict=False)]
    changing = steps()
    forecaster, stop, wrong, seen = next(changing), threading.Event(), [], set()

    def watch():
        while not stop.is_set():
            try:
                got = forecaster.predict(level=[80])
            except BaseException as error:
                wrong.append(repr(error))
                return
            match = [i for i, forecast in enumerate(allowed) if got.equals(forecast)]
            if not match:
                wrong.append(f"a mixture: {got}")
                return
            seen.update(match)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    try:
        for thread in watchers:
            thread.start()
        for i, _ in enumerate(itertools.islice(changing, 1000)):
            if wrong or (i >= 20 and len(seen) == 3):
                break
    finally:
        stop.set()
        for thread in watchers:
            thread.join()
    assert not wrong
    assert len(seen) >= 2


def test_results_do_not_depend_on_threads_of_other_models():
    """Same seed, same bits, however busy the process is."""
    X, y = make_data()
    want = bsdt_q(5, n_steps=10, random_state=0).fit(X, y).predict(X)
    for got in in_threads(6, lambda i: bsdt_q(5, n_steps=10, random_state=0, n_jobs=i % 3 + 1).fit(X, y).predict(X)):
        assert np.array_equal(got, want)
