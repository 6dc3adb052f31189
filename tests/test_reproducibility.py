"""The promise of docs/trust.md: the same data, seed and version give the same bits, whatever the surroundings.

Surroundings here are those of a process: how many threads the libraries below use, how Python hashes, what ran before.
Threads of softboost itself are in test_properties.py and test_concurrency.py, instruction sets in test_kernels.py.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from helpers import instruction_set
from softboost import SoftBoostRegressor, _kernels

SCRIPT = """
import hashlib, sys
import numpy as np, pandas as pd
from softboost import SoftBoostRegressor
from softboost.forecast import Forecaster
from softboost.online import OnlineSoftBoostRegressor
from softboost.presets import bsdt_q
from softboost._file.container import dumps

rng = np.random.default_rng(0)
if "--noise" in sys.argv:  # what ran before must not matter
    np.random.seed(7)
    SoftBoostRegressor(random_state=5).fit(rng.normal(size=(50, 7)), rng.normal(size=50))
    rng = np.random.default_rng(0)

def say(name, *parts):
    data = b"".join(p if isinstance(p, bytes) else np.asarray(p).tobytes() for p in parts)
    print(name, hashlib.sha256(data).hexdigest())

X = rng.normal(size=(300, 60))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3:8].sum(axis=1) + 0.1 * rng.normal(size=300)
X[rng.random(X.shape) < 0.02] = np.nan
model = SoftBoostRegressor().fit(X, y)
say("chosen", dumps(model), model.predict(X))
say("wide", SoftBoostRegressor().fit(X[:60], y[:60]).predict(X))
few = X[:100, :12]
model = SoftBoostRegressor(5, 0.1, 3, feature_transform="linear", init="linear").fit(few, y[:100])
say("linear", dumps(model), model.predict(few))
model.partial_fit(few[:40], y[:40] + 1)
say("learned_on", dumps(model), model.predict(few))
model = bsdt_q(5, n_steps=20, random_state=3).fit(np.nan_to_num(X[:, :10]), y)
say("bsdt_q", dumps(model), model.predict(np.nan_to_num(X[:, :10])))

walk = np.cumsum(rng.normal(size=160)).reshape(2, 80) + 50
dates = np.tile(pd.date_range("2020", periods=80), 2)
df = pd.DataFrame({"unique_id": np.repeat(["s", "t"], 80), "ds": dates, "y": walk.ravel()})
forecast = Forecaster("D", 3).fit(df).predict(level=[80])
say("forecast", forecast.iloc[:, 2:])

online = OnlineSoftBoostRegressor(buffer_size=128)
for row, target in zip(np.nan_to_num(X[:250, :6]), y):
    online.learn_one({**dict(zip("abcdef", row.tolist())), "kind": "up" if row[0] > 0 else "down"}, target)
say("online", dumps(online))
"""
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def answers(*args, threads=None, hash_seed="0"):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    if threads is not None:
        environment.update(dict.fromkeys(LIBRARIES, str(threads)))
    done = subprocess.run([sys.executable, "-c", SCRIPT, *args], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def expected():
    found = answers(threads=1)
    assert len(found) == 7
    return found


@pytest.mark.parametrize(
    ("threads", "hash_seed"),
    [(5, "random"), pytest.param(2, "1", marks=pytest.mark.slow), pytest.param(None, "2", marks=pytest.mark.slow)],
)
def test_surroundings_of_the_process_change_no_bit(expected, threads, hash_seed):
    old = int(np.__version__.split(".")[0]) < 2  # whose BLAS rounds products differently with more threads
    assert answers("--noise", threads=1 if old else threads, hash_seed=hash_seed) == expected


def test_other_instruction_sets_differ_in_the_last_digits_alone():
    """The one difference between processors of a kind that the promise leaves open."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    predictions = []
    for name in _kernels.instruction_sets():
        with instruction_set(name):
            model = SoftBoostRegressor(10, 0.3, 2, feature_transform=None, init="constant").fit(X, y)
            predictions.append(model.predict(X))
    for prediction in predictions[1:]:
        np.testing.assert_allclose(prediction, predictions[0], rtol=1e-9, atol=1e-9)
