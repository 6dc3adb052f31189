"""Mutates valid model files and loads them: each must raise a clean error or give a model that predicts.

The long run is one command, best under the sanitizers (`make fuzz`):

    python tests/fuzz/harness.py --files 1000000 --processes 2

It prints the results as one JSON object and stores every file with a finding in `fuzz-failures/`.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
from sklearn.tree import DecisionTreeRegressor

import softboost
from softboost import SoftBoostRegressor
from softboost._file.container import PREFIX, dumps, loads, sealed
from softboost._file.values import ModelFileError
from softboost.forecast import (
    Differences,
    ExpandingMean,
    Forecaster,
    LocalRobustScaler,
    LocalStandardScaler,
    Log,
    RollingMean,
    SeasonalRollingMean,
)
from softboost.online import OnlineSoftBoostRegressor

SECONDS_PER_FILE = 20  # timeout, far above the slowest valid file
NUMBERS = [0, 1, -1, 2, 3, 7, 8, 10, 11, 63, 64, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 10**30, 10**400]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e-300, 1e300, 1.7e308, -1.7e308, float("nan"), float("inf"), -float("inf")]
VALUES: list[Any] = [
    None, True, False, "", "auto", "linear", "inf", "<f8", "x" * 300, "\ud800", [], {}, [None], 0.5, 1e308, *NUMBERS,
    {"$": "array", "index": 0}, {"$": "tuple", "items": []}, {"$": "dict", "items": []}, {"$": "SoftTree"},
    {"$": "float", "value": "nan"}, {"$": "function", "name": "print"},
    {"$": "custom", "name": "eval", "base": "Loss", "fields": {"$": "dict", "items": []}},
]  # fmt: skip


def corpus() -> list[bytes]:
    """Small valid files that together use every part of the format."""
    return [dumps(model) for model in [*_regressors(), *_networks(), *_forecasters(), *_online_models()]]


def _regressors() -> list[Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    holes = X.copy()
    holes[::5, 1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["d"] = pd.Categorical(np.where(X[:, 2] > 0, "up", "down"))
    walk = np.cumsum(rng.normal(size=28)) + 50
    one: dict[str, Any] = {"n_estimators": 1, "depth": 1, "init": "constant"}
    stopped: dict[str, Any] = {**one, "early_stopping": True, "feature_transform": None}
    paper: dict[str, Any] = {
        "n_estimators": 1,
        "depth": 1,
        "init": "zero",
        "gates": "random",
        "leaves": "constant",
        "n_steps": 3,
    }
    return [
        SoftBoostRegressor(**stopped).fit(X, y),
        SoftBoostRegressor(n_estimators=2, depth=2, feature_transform="linear", init="linear").fit(X, y),
        SoftBoostRegressor(**one, feature_transform="diagonal").fit(X.astype(np.float32), y),
        SoftBoostRegressor(**paper, feature_transform=None, loss="huber", random_state=0).fit(holes, y),
        SoftBoostRegressor(**stopped).fit(X, np.column_stack([y, -y])),
        SoftBoostRegressor(**stopped, random_state=np.random.RandomState(1), cv=3).fit(frame, y),
        SoftBoostRegressor(**stopped, loss="poisson", random_state=np.random.default_rng(1)).fit(X, 0.3 * np.exp(y)),
        SoftBoostRegressor(n_estimators=2, depth=1).fit(X[:, :1], y),
        SoftBoostRegressor(1, 0.5, feature_transform=None, weak_learner=DecisionTreeRegressor(max_depth=2)).fit(X, y),
        SoftBoostRegressor().fit(np.column_stack([walk[2:-1], walk[1:-2]]), walk[3:]),
        SoftBoostRegressor(**stopped).fit(X, y).partial_fit(X[:4], y[:4]),
    ]


def _networks() -> list[Any]:
    """A transform in PyTorch, if it is installed."""
    if importlib.util.find_spec("torch") is None:
        return []
    X = np.random.default_rng(0).normal(size=(20, 2))
    transform = softboost.transforms.mlp(hidden=(2,), n_components=1, n_steps=1)
    return [SoftBoostRegressor(1, 0.5, 1, feature_transform=transform, init="constant", random_state=0).fit(X, X[:, 0])]


def _forecasters() -> list[Any]:
    rng = np.random.default_rng(0)
    n = 14
    df = pd.DataFrame({
        "unique_id": np.repeat(["a", "b"], n),
        "ds": np.tile(pd.date_range("2020-01-01", periods=n, freq="MS"), 2),
        "y": 5 + rng.normal(size=2 * n),
    })  # fmt: skip
    counted = df.assign(ds=np.tile(np.arange(n), 2), price=rng.normal(size=2 * n), kind=np.repeat(["u", "v"], n))
    zoned = df.assign(ds=df["ds"].dt.tz_localize("UTC"))
    zoned.loc[3, "y"] = np.nan
    model = SoftBoostRegressor(1, 0.5, 1, feature_transform=None, init="constant", shuffle=False)
    plain: dict[str, Any] = {"h": 2, "model": model, "lags": [1, 2]}
    forecasters = [
        Forecaster("MS", **plain, lag_transforms={1: [RollingMean(3), SeasonalRollingMean(2, 2)]}, scope="local",
                   date_features=["month"], target_transforms=[Log(), Differences([1]), LocalStandardScaler()]).fit(df),
        Forecaster(1, **plain, strategy="direct", scope="global", target_transforms=[]).fit(pl.from_pandas(counted)),
        Forecaster("MS", **plain, strategy="direct_each", scope="local", target_transforms=[LocalRobustScaler()],
                   lag_transforms={2: [ExpandingMean()]}, gaps="interpolate").fit(zoned),
        Forecaster("1mo", **plain, target_transforms=[]).fit(pl.from_pandas(df[:n])),
    ]  # fmt: skip
    for forecaster in forecasters:
        forecaster._scores_for(forecaster.h)
    return forecasters


def _online_models() -> list[Any]:
    rng = np.random.default_rng(0)
    models = [OnlineSoftBoostRegressor(1, 1, buffer_size=128), OnlineSoftBoostRegressor(0, 1, buffer_size=128)]
    for model in models:
        for a, b in rng.normal(size=(30, 2)).tolist():
            model.learn_one({"a": a, "b": b, "kind": "up" if a > 0 else "down"}, a + abs(b))
    return models


class Mutator:
    """Random mutations of model files, most of them with a valid checksum, so that later checks are reached."""

    def __init__(self, files: list[bytes], seed: int) -> None:
        self.files = files
        self.rng = random.Random(seed)

    @staticmethod
    def _split(data: bytes) -> tuple[bytes, bytes]:
        end = PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]
        return data[PREFIX.size : end], data[end:]

    def next(self) -> bytes:
        which = self.rng.randrange(len(self.files))
        kind = self.rng.random()
        if kind < 0.1:
            return self._bytes(self.files[which])
        header, arrays = self._split(self.files[which])
        if kind < 0.3:
            text = self._bytes(header)
            text += b" " * (-(PREFIX.size + len(text)) % 8)
            return sealed(len(text), text + arrays)
        if kind < 0.55:
            return sealed(len(header), header + self._words(arrays))
        if kind < 0.6:
            return sealed(len(header), header + self._bytes(arrays))
        tree = json.loads(header)
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            self._json(tree)
        text = json.dumps(tree, separators=(",", ":")).encode("ascii")
        text += b" " * (-(PREFIX.size + len(text)) % 8)
        if self.rng.random() < 0.2:
            arrays = self._words(arrays)
        return sealed(len(text), text + arrays)

    def _bytes(self, data: bytes) -> bytes:
        """Flip bits, set bytes, remove, duplicate or insert pieces, or truncate the file."""
        rng, out = self.rng, bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 4, 16])):
            at = rng.randrange(len(out) or 1)
            length = rng.choice([1, 2, 4, 8, 64, 512])
            what = rng.randrange(6)
            if what == 0 and out:
                out[at] ^= 1 << rng.randrange(8)
            elif what == 1 and out:
                out[at] = rng.choice([0, 1, 9, 32, 34, 44, 45, 48, 57, 91, 93, 123, 125, 127, 128, 255])
            elif what == 2:
                del out[at : at + length]
            elif what == 3:
                out[at:at] = out[at : at + length]
            elif what == 4:
                other = rng.choice(self.files)
                begin = rng.randrange(len(other))
                out[at : at + length] = other[begin : begin + length]
            elif rng.random() < 0.2:
                del out[at:]
        return bytes(out)

    def _words(self, data: bytes) -> bytes:
        """Replace some numbers of the arrays by extreme ones."""
        rng, out = self.rng, bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            size = rng.choice([4, 8])
            at = rng.randrange(max(len(out) // size, 1)) * size
            if rng.random() < 0.5:
                word = rng.choice(NUMBERS[:17]).to_bytes(8, "little", signed=True)[:size]
            else:
                with np.errstate(all="ignore"):
                    word = np.array(rng.choice(FLOATS), dtype=f"<f{size}").tobytes()
            if at + size <= len(out):
                out[at : at + size] = word
        return bytes(out)

    def _json(self, tree: Any) -> None:
        """Replace, remove, duplicate or swap a value in the header."""
        rng, node = self.rng, tree
        while True:
            key = self._key(node)
            if key is None:
                return
            if not isinstance(node[key], (dict, list)) or not node[key] or rng.random() < 0.15:
                break
            node = node[key]
        what = rng.random()
        if what < 0.6:
            node[key] = copy.deepcopy(rng.choice(VALUES))
        elif what < 0.7 and type(node[key]) in (int, float):
            node[key] += rng.choice([-2, -1, 1, 2])
        elif what < 0.8:
            del node[key]
        elif what < 0.9 and isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        else:
            other = self._key(node)
            node[key], node[other] = node[other], node[key]

    def _key(self, node: Any) -> Any:
        if not node:
            return None
        return self.rng.choice(list(node)) if isinstance(node, dict) else self.rng.randrange(len(node))


def try_file(data: bytes) -> bool:
    """Whether the loader accepts the file; raises an exception if the loaded model cannot predict."""
    try:
        model = loads(data)
    except ModelFileError:
        return False
    use = {SoftBoostRegressor: _regress, Forecaster: _forecast, OnlineSoftBoostRegressor: _follow}[type(model)]
    use(model)
    if len(data) % 64 == 0:  # one in eight: a loaded model can be saved and loaded again
        assert len(dumps(loads(dumps(model)))) > PREFIX.size
    return True


ROWS = np.array([[0.1, -1.0, 2.0, 0.5], [np.nan] * 4, [1e9, -1e9, 0.0, 1.0], [0.0] * 4])


def _regress(model: SoftBoostRegressor) -> None:
    X = np.ascontiguousarray(ROWS[:, : model.n_features_in_], dtype=np.float32 if model.n_features_in_ == 2 else None)
    if model.columns_.categories or hasattr(model, "feature_names_in_"):
        X = pd.DataFrame(X, columns=getattr(model, "feature_names_in_", None))
        for j in model.columns_.categories:
            X.isetitem(j, np.array(["up", "down", None, "new"], dtype=object))
    assert model.predict(X).shape[0] == len(X)


def _forecast(model: Forecaster) -> None:
    if not hasattr(model, "fitted_"):
        return
    h = min(2, model.h)
    levels = [80.0] if any(known >= h for known in model._scores) or not model.frame_.cut else None
    forecast = model.predict(h, levels, _ahead(model, model._steps(h)) if model.frame_.exog else None)
    assert len(forecast) == h * model.frame_.panel.n_series
    with suppress(ValueError):  # a new row may be invalid for the transforms of the model
        model.update(_ahead(model, 1)).predict(h, None, None if not model.frame_.exog else _ahead(model, model.h + 1))


def _ahead(model: Forecaster, h: int) -> Any:
    """Rows after the last ones, with a target and all other columns of the model."""
    frame = nw.from_native(model.frame_.future(h), eager_only=True)
    values = nw.from_native(model.frame_.native, eager_only=True)
    rest = [c for c in values.columns if c not in frame.columns]
    return frame.with_columns(*[nw.lit(values.get_column(c)[0]).alias(c) for c in rest]).to_native()


def _follow(model: OnlineSoftBoostRegressor) -> None:
    for a, kind in ((0.5, "up"), (-2.0, "new"), (1e9, "down")):
        assert isinstance(model.predict_one({"a": a, "kind": kind}), float)
        model.learn_one({"a": a, "b": None, "kind": kind}, a)


def _hanging(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS_PER_FILE} s on one file")


def fuzz(n_files: int, seed: int, failures: Path | None = None) -> dict[str, Any]:
    """Results of one run."""
    warnings.simplefilter("ignore")  # numbers may overflow in a mutated model
    mutator = Mutator(corpus(), seed)
    accepted, failed, slowest = 0, 0, 0.0
    signal.signal(signal.SIGALRM, _hanging)
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    for i in range(n_files):
        data = mutator.next()
        started = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_FILE)
        try:
            accepted += try_file(data)
        except BaseException as error:
            failed += 1
            if failures is None or isinstance(error, KeyboardInterrupt):
                raise
            failures.mkdir(exist_ok=True)
            (failures / f"{seed}-{i}.softboost").write_bytes(data)
            (failures / f"{seed}-{i}.txt").write_text(traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, time.perf_counter() - started)
    return {
        "files": n_files,
        "accepted": accepted,
        "rejected": n_files - accepted - failed,
        "failed": failed,
        "slowest_seconds": round(slowest, 3),
        "memory_growth_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) // 1024,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    args = parser.parse_args()
    chunk = 20_000
    jobs = [(min(chunk, args.files - k), args.seed + k // chunk, args.failures) for k in range(0, args.files, chunk)]
    total: dict[str, Any] = {}
    with ProcessPoolExecutor(args.processes) as pool:
        for figures in pool.map(fuzz, *zip(*jobs, strict=True)):
            for name, value in figures.items():
                combine = max if name in ("slowest_seconds", "memory_growth_mib") else lambda a, b: a + b
                total[name] = combine(total.get(name, 0), value)
            print(json.dumps({**total, "seconds": round(total["seconds"], 1)}), flush=True)
    return 1 if total.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
