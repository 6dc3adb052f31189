"""Interrupts and faults, done for real in processes of their own: no broken file, no half-changed model."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from operator import methodcaller
from pathlib import Path

import numpy as np
import pytest

from helpers import PATIENCE, plain
from softboost import SoftBoostRegressor, load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and limits")

START = '''
import os, pathlib, pickle, resource, signal, sys, threading, time
import numpy as np
import softboost
from softboost import SoftBoostRegressor, load

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a script start with it ignored
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 8))
y = np.sin(2 * X[:, 0]) + X[:, 1]
small = dict(n_estimators=5, learning_rate=0.3, depth=2, feature_transform=None, init="constant")
long = dict(
    n_estimators=1_000_000, learning_rate=0.01, depth=2, leaves="linear", gates="greedy", feature_transform="linear",
    init="constant",
)
model = SoftBoostRegressor(**small).fit(X, y)
before, names = model.predict(X), sorted(vars(model))

def unchanged():
    return bool(np.array_equal(model.predict(X), before)) and sorted(vars(model)) == names

def n_threads():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()

def say_when_inside(part):
    """Print "inside" as soon as the main thread is seen at work in a module, however long it takes to get there."""
    files = [str(path) for path in pathlib.Path(softboost.__file__).parent.rglob("*.py")]
    assert any(path.endswith(part) for path in files), f"there is no module {part}"
    main = threading.main_thread().ident

    def watch():
        while True:
            frame = sys._current_frames()[main]
            while frame is not None and not frame.f_code.co_filename.endswith(part):
                frame = frame.f_back
            if frame is not None:
                print("inside", flush=True)
                return
            time.sleep(0.001)

    threading.Thread(target=watch, daemon=True).start()
'''


def start(code, *args, **kwargs):
    script = START + textwrap.dedent(code)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)], **pipes, **kwargs)


def wait_for(process, line):
    """Until the process prints the line."""
    for text in process.stdout:
        if text.strip() == line:
            return
    raise AssertionError(f"never said {line!r}: {process.stderr.read()}")


def next_line(process):
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


def finish(process):
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out.split(), err


slow = partial(pytest.param, marks=pytest.mark.slow)  # one more of a kind that `make test` has


@pytest.mark.parametrize(("kind", "n_jobs"), [("plain", 1), ("chosen", 2), slow("plain", 2), slow("chosen", 1)])
def test_interrupt_leaves_the_model_as_it_was(kind, n_jobs):
    process = start(
        """
        kind, n_jobs = sys.argv[1], int(sys.argv[2])
        auto = dict.fromkeys(["n_estimators", "depth", "feature_transform", "init"], "auto")
        more = long if kind == "plain" else auto
        rows = X if kind == "plain" else np.tile(X, (12, 8))
        target = y if kind == "plain" else np.tile(y, 12) + rng.normal(size=4800)
        threads = n_threads()
        model.set_params(**more, n_jobs=n_jobs)
        first, fitted = model, pickle.dumps(model)
        try:
            say_when_inside(("boosting.py", "choose.py"))
            while True:  # again, should one fit be quicker than the signal
                model.fit(rows, target)
                model = first
                model = first = pickle.loads(fitted)
        except KeyboardInterrupt as error:
            print("stopped", "The model is unchanged" in str(error).replace("_", " ") or not str(error), flush=True)
        model.set_params(**small, n_jobs=None)
        until = time.monotonic() + int(sys.argv[3])  # a fold that was being judged may end its round first
        while n_threads() > threads and time.monotonic() < until:
            time.sleep(0.05)
        print(unchanged(), n_threads() <= threads, flush=True)
        """,
        kind,
        n_jobs,
        PATIENCE,
    )
    wait_for(process, "inside")
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (0, ["stopped", "True", "True", "True"]), err


def test_interrupt_with_warm_start_keeps_whole_rounds():
    process = start(
        """
        model = SoftBoostRegressor(**long, warm_start=True)
        while not hasattr(model, "n_estimators_"):
            try:
                say_when_inside("boosting.py")
                model.fit(X, y)
            except KeyboardInterrupt:
                print("stopped", flush=True)  # perhaps before the first round was done
        done = model.n_estimators_
        model.set_params(n_estimators=done + 2).fit(X, y)
        print(done >= 1, model.n_estimators_ == done + 2, bool(np.isfinite(model.predict(X)).all()))
        """
    )
    pause = 0.1
    while (line := next_line(process)) == "inside":
        time.sleep(pause)
        pause *= 3
        process.send_signal(signal.SIGINT)
        assert next_line(process) == "stopped"
    code, _, err = finish(process)
    assert (code, line.split()) == (0, ["True", "True", "True"]), err


def test_interrupt_leaves_a_forecaster_as_it_was():
    process = start(
        """
        import pandas as pd
        from softboost.forecast import Forecaster

        dates = pd.date_range("2000-01-01", periods=400, freq="D")
        df = pd.concat([pd.DataFrame({"unique_id": i, "ds": dates, "y": 5 + i + np.abs(y)}) for i in range(20)])
        forecaster = Forecaster("D", 3, SoftBoostRegressor(**small), lags=[1, 2]).fit(df[:800])
        before, attributes = forecaster.predict(level=[80]), dict(vars(forecaster))
        forecaster.set_params(model=SoftBoostRegressor(shuffle=False))
        try:
            say_when_inside("_learned.py")
            while True:
                forecaster.fit(df)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        forecaster.set_params(model=attributes["model"])
        print(vars(forecaster) == attributes, forecaster.predict(level=[80]).equals(before), flush=True)
        """
    )
    wait_for(process, "inside")
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (0, ["stopped", "True", "True"]), err


def test_interrupt_of_an_update_leaves_all_of_it_or_nothing():
    process = start(
        """
        import copy
        import pandas as pd
        from softboost.forecast import Forecaster

        dates = pd.date_range("2000-01-01", periods=400, freq="D")
        df = pd.concat([pd.DataFrame({"unique_id": i, "ds": dates, "y": 5 + i + np.abs(y)}) for i in range(8)])
        past, new = df[df["ds"] < dates[390]], df[df["ds"] >= dates[390]]
        model = SoftBoostRegressor(**small)
        whole = Forecaster("D", 3, model, lags=[1, 2], scope="local", target_transforms=[]).fit(past)
        before, after = whole.predict(), copy.deepcopy(whole).update(new, learn=True).predict()
        try:
            say_when_inside("_learned.py")
            while True:
                forecaster = copy.deepcopy(whole)
                forecaster.update(new, learn=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        forecast = forecaster.predict()
        print(before.equals(after), forecast.equals(before) or forecast.equals(after), flush=True)
        """
    )
    wait_for(process, "inside")
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (0, ["stopped", "False", "True"]), err


def test_interrupts_never_leave_half_a_row_in_an_online_model():
    """Stopped many times, a model has learned what one has that nobody disturbed."""
    n_times = 15
    process = start(
        """
        from softboost._file.container import dumps
        from softboost.online import OnlineSoftBoostRegressor

        def row(i):
            return {**dict(zip("abcdefgh", X[i % 400].tolist())), f"new{min(i, 60)}": 1.0}, y[i % 400]

        model, stops = OnlineSoftBoostRegressor(3, 1, buffer_size=128), 0
        while stops < int(sys.argv[1]):
            try:
                say_when_inside("_regressor.py")
                while True:
                    model.learn_one(*row(model.n_rows_seen))
            except KeyboardInterrupt:
                stops += 1
        twin = OnlineSoftBoostRegressor(3, 1, buffer_size=128)
        for i in range(model.n_rows_seen):
            twin.learn_one(*row(i))
        print(dumps(twin) == dumps(model), flush=True)
        """,
        n_times,
    )
    for _ in range(n_times):
        wait_for(process, "inside")
        process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (0, ["True"]), err


@pytest.mark.parametrize("n_jobs", [slow(1), 2])
def test_termination_ends_the_process_at_once(n_jobs):
    process = start(
        """
        model.set_params(**long, n_jobs=int(sys.argv[1]))
        say_when_inside("boosting.py")
        model.fit(X, y)
        """,
        n_jobs,
    )
    wait_for(process, "inside")
    process.send_signal(signal.SIGTERM)
    code, _, _ = finish(process)
    assert code == -signal.SIGTERM


SAVING = """
    path = sys.argv[1]
    print("saving", flush=True)
    try:
        while True:
            model.save(path)
    except KeyboardInterrupt:
        print("stopped", unchanged(), flush=True)
"""


@pytest.mark.parametrize("delay", [0.037, slow(0.0)])
@pytest.mark.parametrize("how", [signal.SIGINT, slow(signal.SIGTERM), signal.SIGKILL], ids=lambda s: s.name)
def test_signal_while_saving_leaves_a_whole_file(how, delay, tmp_path):
    path = tmp_path / "model.softboost"
    X = np.random.default_rng(0).normal(size=(400, 8))
    process = start(SAVING, path)
    wait_for(process, "saving")
    while not path.exists():
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(how)
    code, out, err = finish(process)
    if how == signal.SIGINT:
        assert (code, out) == (0, ["stopped", "True"]), err
        assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert np.isfinite(load(path).predict(X)).all()


# glibc keeps freed memory, and address space for the heaps of threads, which would serve a fit beyond the limit.
NO_RESERVES = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@pytest.mark.parametrize("n_jobs", [slow(1), 2])
def test_memory_error_leaves_the_model_as_it_was(n_jobs):
    """Address space is limited (ulimit -v) just above what is in use, then a large fit is tried."""
    process = start(
        """
        rows, target = rng.normal(size=(200_000, 20)), rng.normal(size=200_000)
        # one fit first, so that thread stacks and scratch space of the libraries are there already
        model.set_params(n_jobs=int(sys.argv[1])).fit(np.tile(X, (20, 1)), np.tile(y, 20))
        model = SoftBoostRegressor(**small, n_jobs=int(sys.argv[1])).fit(X, y)
        stopped, kept, threads = 0, 0, n_threads()
        for spare in (4, 8, 16, 24, 32, 48, 64, 96, 128):  # MiB: to run out at many different places
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + spare * 2**20, resource.RLIM_INFINITY))
            try:
                model.fit(rows, target)
                break  # it was enough
            except MemoryError:
                stopped += 1
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            kept += unchanged()
        print(stopped >= 3, kept == stopped, n_threads() <= threads, flush=True)
        print(bool(np.isfinite(model.fit(rows[:2000], target[:2000]).predict(rows[:50])).all()), flush=True)
        """,
        n_jobs,
        env={**os.environ, **NO_RESERVES},
    )
    if not Path("/proc/self/statm").exists():
        process.kill()
        pytest.skip("needs /proc to know how much is in use")
    code, out, err = finish(process)
    assert (code, out) == (0, ["True", "True", "True", "True"]), err


FULL = """
    path = sys.argv[1]
    SoftBoostRegressor(**{**small, "n_estimators": 1, "depth": 1}).fit(X, y).save(path)
    old = open(path, "rb").read()
    if sys.argv[2] == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) + 100, resource.RLIM_INFINITY))
    big = SoftBoostRegressor(**{**small, "n_estimators": 60, "depth": 3}, leaves="linear", gates="greedy").fit(X, y)
    try:
        big.save(path)
    except OSError as error:
        print("refused", error.errno)
    print(open(path, "rb").read() == old, os.listdir(os.path.dirname(path)) == [os.path.basename(path)])
    print(bool(np.isfinite(load(path).predict(X)).all()), bool(np.isfinite(big.predict(X)).all()))
"""


def test_full_disk_leaves_the_old_file(tmp_path):
    """The system allows files no larger than the old one: what a quota or a full disk does."""
    code, out, err = finish(start(FULL, tmp_path / "model", "limit"))
    assert (code, out) == (0, ["refused", "27", "True", "True", "True", "True"]), err


def test_full_file_system_leaves_the_old_file(tmp_path):
    """A file system of 32 kB in a namespace of its own."""
    wrap = ["unshare", "-rm", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=32k none {tmp_path}"
    if shutil.which("unshare") is None or subprocess.run([*wrap, mount], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a small file system")
    script = START + textwrap.dedent(FULL)
    done = subprocess.run(
        [*wrap, f'{mount} && exec "$0" -c "$1" "$2" disk', sys.executable, script, str(tmp_path / "model")],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["refused", "28", "True", "True", "True", "True"]), done.stderr


def test_read_only_folder_is_told(tmp_path):
    """Even root cannot write where a file stands instead of a folder."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = SoftBoostRegressor(2, 0.5, 1, feature_transform=None, init="constant").fit(X, X[:, 0])
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        model.save(tmp_path / "file" / "model")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see that a process is at work")
def test_killed_worker_is_told_and_leaves_the_rest_alone():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = SoftBoostRegressor(3, 0.5, 1, feature_transform=None, init="constant").fit(X, X[:, 0])
    before = model.predict(X)
    endless = plain(n_estimators=1_000_000, feature_transform="linear")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(methodcaller("predict", X), model).result(timeout=PATIENCE).shape == (60,)
        (worker,) = pool._processes.values()
        before_job = cpu_seconds(worker.pid)
        job = pool.submit(methodcaller("fit", X, X[:, 0]), endless)
        while cpu_seconds(worker.pid) < before_job + 0.1:  # until it is at work
            time.sleep(0.01)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            job.result(timeout=PATIENCE)
    assert np.array_equal(model.predict(X), before)
    assert not hasattr(endless, "members_")


def test_killed_worker_of_a_forecaster_is_told_and_leaves_it_as_it_was():
    """Series are fitted in processes (n_jobs=2); one of them dies at work."""
    process = start(
        """
        import pandas as pd
        from concurrent.futures.process import BrokenProcessPool
        from softboost.forecast import Forecaster

        class Mortal(SoftBoostRegressor):
            def fit(self, X, y):
                if os.getpid() != home:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().fit(X, y)

        home = os.getpid()
        dates = pd.date_range("2000-01-01", periods=60, freq="D")
        df = pd.concat([pd.DataFrame({"unique_id": i, "ds": dates, "y": y[i : i + 60]}) for i in range(4)])
        settings = dict(lags=[1, 2], scope="local", target_transforms=[])
        forecaster = Forecaster("D", 3, Mortal(**small), **settings).fit(df)
        before, attributes = forecaster.predict(), dict(vars(forecaster))
        try:
            forecaster.set_params(n_jobs=2).fit(df[df["unique_id"] < 3])
        except BrokenProcessPool:
            print("told", flush=True)
        forecaster.set_params(n_jobs=attributes["n_jobs"])
        print(vars(forecaster) == attributes, forecaster.predict().equals(before), flush=True)
        """
    )
    code, out, err = finish(process)
    assert (code, out) == (0, ["told", "True", "True"]), err
