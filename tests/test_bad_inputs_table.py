"""A table of invalid inputs: each raises an error of the right class and message and leaves the fitted model unchanged.

A row is (description, function of a fitted model, class of the error, pattern of its message).
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from helpers import Fourier
from softboost import SoftBoostRegressor, load
from softboost._cli import main as cli
from softboost._file.container import PREFIX, dumps, loads, sealed
from softboost.forecast import ExponentiallyWeightedMean, Forecaster, Log, RollingMean
from softboost.losses import Huber, Quantile, Tweedie
from softboost.online import OnlineSoftBoostRegressor
from softboost.transforms import Diagonal, Linear

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
Y = X[:, 0] + np.abs(X[:, 1])
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
PLAIN = {"n_estimators": 2, "learning_rate": 0.5, "depth": 1, "feature_transform": None, "init": "constant"}


def at(array, index, value):
    out = np.array(array, dtype=object if isinstance(value, str) else None)
    out[index] = value
    return out


def fit(*args, **kwargs):
    return lambda model: model.fit(*args, **kwargs)


def predict(rows):
    return lambda model: model.predict(rows)


def named(rows):
    """Predict with a model that was fitted on a data frame."""
    return lambda model: SoftBoostRegressor(**PLAIN).fit(FRAME, Y).predict(rows)


def params(**values):
    """Refit the fitted model with other parameters."""
    return lambda model: model.set_params(**values).fit(X, Y)


FIT = [
    ("X of one dimension", fit(X[:, 0], Y), ValueError, "Expected 2D array"),
    ("X of three dimensions", fit(X[None], Y), ValueError, "dim 3"),
    ("a single number for X", fit(3.0, Y), ValueError, "Expected 2D array"),
    ("None for X", fit(None, Y), ValueError, "2D array|NoneType"),
    ("X without rows", fit(X[:0], Y[:0]), ValueError, "0 sample"),
    ("X without columns", fit(X[:, :0], Y), ValueError, "0 feature"),
    ("rows of different length", fit([[1, 2], [3]], [1, 2]), ValueError, "inhomogeneous|sequence"),
    ("sparse X", fit(scipy.sparse.csr_matrix(X), Y), TypeError, "[Ss]parse"),
    ("complex X", fit(X + 1j, Y), ValueError, "Complex data not supported"),
    ("infinity in X", fit(at(X, (0, 1), np.inf), Y), ValueError, "X contains infinity"),
    ("minus infinity in X", fit(at(X, (0, 1), -np.inf), Y), ValueError, "X contains infinity"),
    ("text in X", fit(at(X, (0, 1), "red"), Y), ValueError, "'red'"),
    ("lists in a frame", fit(FRAME.assign(c=[[1, 2]] * 30), Y), ValueError, "'c' .*categorical_features"),
    ("a set in a polars frame", fit(pl.DataFrame({"a": [{1}] * 3}), [1, 2, 3]), ValueError, "'a' .holds objects of"),
    ("groups of other rows", fit(X, Y, groups=[1, 2]), ValueError, "groups has 2 values, but X has 30"),
    ("names that are no text", fit(pd.DataFrame(X, columns=["a", 1, "b", 2]), Y), TypeError, "[Ff]eature names"),
    ("no y", fit(X, None), ValueError, "y to be passed|y.*None"),
    ("fewer y than rows", fit(X, Y[:-1]), ValueError, r"inconsistent numbers of samples: \[30, 29\]"),
    ("NaN in y", fit(X, at(Y, 3, np.nan)), ValueError, "y contains NaN"),
    ("infinity in y", fit(X, at(Y, 3, np.inf)), ValueError, "y contains infinity"),
    ("text in y", fit(X, at(Y, 3, "red")), ValueError, "'red'"),
    ("y of three dimensions", fit(X, Y[:, None, None]), ValueError, "y must have shape|dim 3"),
    ("a negative weight", fit(X, Y, sample_weight=-np.ones(30)), ValueError, "sample_weight must not be negative"),
    ("only zero weights", fit(X, Y, sample_weight=np.zeros(30)), ValueError, "sample_weight is zero for every row"),
    ("fewer weights than rows", fit(X, Y, sample_weight=np.ones(3)), ValueError, r"sample_weight.shape == \(3,\)"),
    ("NaN as weight", fit(X, Y, sample_weight=at(np.ones(30), 1, np.nan)), ValueError, "sample_weight contains NaN"),
    ("eval_set without y", fit(X, Y, eval_set=(X,)), ValueError, "eval_set must be a tuple"),
    ("eval_set of other columns", fit(X, Y, eval_set=(X[:, :2], Y)), ValueError, "2 features"),
    ("eval_set of other outputs", fit(X, Y, eval_set=(X, np.c_[Y, Y])), ValueError, "2 outputs, but y has 1"),
]

PREDICT = [
    ("too few columns", predict(X[:, :3]), ValueError, "3 features.*expecting 4"),
    ("too many columns", predict(np.c_[X, X]), ValueError, "8 features.*expecting 4"),
    ("rows of one dimension", predict(X[0]), ValueError, "Expected 2D array"),
    ("no rows", predict(X[:0]), ValueError, "0 sample"),
    ("infinity", predict(at(X, (0, 0), np.inf)), ValueError, "X contains infinity"),
    ("text", predict(at(X, (0, 0), "red")), ValueError, "'red'"),
    ("another name", named(FRAME.rename(columns={"a": "z"})), ValueError, "feature names"),
    ("another order", named(FRAME[["b", "a", "c", "d"]]), ValueError, "feature names"),
    ("partial_fit of other columns", lambda m: m.partial_fit(X[:, :2], Y), ValueError, "2 features.*expecting 4"),
    ("partial_fit without y", lambda m: m.partial_fit(X, None), ValueError, "y"),
]

PARAMS = [
    ("depth 0", params(depth=0), ValueError, "depth must be an integer from 1 to 10, got 0"),
    ("depth 11", params(depth=11), ValueError, "depth must be an integer from 1 to 10, got 11"),
    ("depth as text", params(depth="deep"), ValueError, "depth must be an integer.*'deep'"),
    ("no rounds", params(n_estimators=0), ValueError, "n_estimators must be an integer of at least 1, got 0"),
    ("rounds as fraction", params(n_estimators=2.5), ValueError, "n_estimators must be an integer.*2.5"),
    ("learning rate 0", params(learning_rate=0.0), ValueError, "learning_rate must be a number above 0"),
    ("learning rate NaN", params(learning_rate=np.nan), ValueError, "learning_rate.*nan"),
    ("unknown loss", params(loss="mse"), ValueError, "loss='mse' is not valid; choose one of"),
    ("loss that is none", params(loss=3), ValueError, "loss=3 is not valid"),
    ("counts below zero", params(loss="poisson"), ValueError, "loss='poisson' needs y >= 0"),
    (
        "gamma of zero",
        lambda m: m.set_params(loss="gamma").fit(X, np.zeros(30)),
        ValueError,
        "loss='gamma' needs y > 0",
    ),
    ("unknown transform", params(feature_transform="pca"), ValueError, "feature_transform='pca' is not valid"),
    ("transform class", params(feature_transform=Linear), ValueError, "feature_transform=.*instance"),
    ("more rows of Q than columns", params(feature_transform=Linear(9)), ValueError, "n_components=9.*use at most 4"),
    (
        "negative lasso",
        params(feature_transform=Diagonal(-1.0)),
        ValueError,
        "group_lasso must not be negative, got -1",
    ),
    ("unknown learner", params(weak_learner="forest"), ValueError, "weak_learner='forest' is not valid"),
    ("unknown leaves", params(leaves="square"), ValueError, "leaves='square' is not valid; choose one of"),
    ("unknown gates", params(gates="open"), ValueError, "gates='open' is not valid; choose one of"),
    ("negative ridge", params(ridge=-1), ValueError, "ridge must be a number above 0, got -1"),
    ("no threads", params(n_jobs=0), ValueError, "n_jobs must be None or a non-zero integer, got 0"),
    ("unknown seed", params(random_state="x"), ValueError, "'x'"),
    ("one fold", params(cv=1, n_estimators="auto"), ValueError, "cv must be an integer of at least 2, got 1"),
    ("unknown category", params(categorical_features=[7]), ValueError, "categorical_features contains 7"),
    ("quantile 1", lambda m: Quantile(1.0), ValueError, "quantile must be strictly between 0 and 1, got 1.0"),
    ("delta 0", lambda m: Huber(0.0), ValueError, "delta must be positive, got 0.0"),
    ("power 2", lambda m: Tweedie(2.0), ValueError, "power must be strictly between 1 and 2, got 2.0"),
    ("warm start backwards", params(warm_start=True, n_estimators=1), ValueError, "n_estimators=1 is less than the 2"),
    ("unknown parameter", lambda m: m.set_params(max_depth=3), ValueError, "max_depth"),
]


def split(data):
    end = PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]
    return json.loads(data[PREFIX.size : end]), data[end:]


def header(change):
    """Load the model file with a changed header and valid lengths and checksum."""

    def work(model):
        content, arrays = split(dumps(model))
        change(content)
        text = json.dumps(content).encode()
        text += b" " * (-(PREFIX.size + len(text)) % 8)
        loads(sealed(len(text), text + arrays))

    return work


def file(change):
    """Load the changed bytes of the model file."""
    return lambda model: loads(change(dumps(model)))


def numbers(name, values):
    """Load the model file with changed numbers in one array."""

    def work(model):
        content, arrays = split(dumps(model))
        index, start = _find(content["model"], name), 0
        for dtype, shape in content["arrays"][:index]:
            start += -(-np.dtype(dtype).itemsize * int(np.prod(shape)) // 8) * 8
        dtype, shape = content["arrays"][index]
        raw = np.full(shape, values, dtype=dtype).tobytes()
        text = dumps(model)[PREFIX.size : len(dumps(model)) - len(arrays)]
        loads(sealed(len(text), text + arrays[:start] + raw + arrays[start + len(raw) :]))

    return work


def _find(node, name):
    """Index of the array with this name."""
    if isinstance(node, dict):
        if isinstance(node.get(name), dict) and node[name].get("$") == "array":
            return node[name]["index"]
        node = list(node.values())
    found = [_find(child, name) for child in node] if isinstance(node, list) else []
    return next((f for f in found if f is not None), None)


def part(content, *names):
    node = content["model"]
    for name in names:
        items = dict(node["items"]) if isinstance(node, dict) and node.get("$") == "dict" else node
        node = items[name]
    return node


def pair(content, group, name):
    return next(p for p in content["model"][group]["items"] if p[0] == name)


def put(*names, value):
    return header(lambda c: part(c, *names[:-1]).__setitem__(names[-1], value))


def put_pair(group, name, value):
    return header(lambda c: pair(c, group, name).__setitem__(1, value))


def fourier():
    return SoftBoostRegressor(**{**PLAIN, "feature_transform": Fourier(n_steps=1)}).fit(X, Y)


def twice(content):
    tree = part(content, *TREE)
    tree["gate_bias"] = tree["leaf_values"]


def overflowing(content):
    part(content, *MEMBER)["weight"] = part(content, *MEMBER, "boosted")["learning_rate"] = 1e200


MEMBER = ("fitted", "members_", 0)
TREE = (*MEMBER, "boosted", "rounds", 0, "items", 1)
LOAD = [
    ("no bytes", file(lambda d: b""), ValueError, "not a softboost model file"),
    ("another kind of file", file(lambda d: b"PK\x03\x04" + d), ValueError, "not a softboost model file"),
    ("half a file", file(lambda d: d[: len(d) // 2]), ValueError, "cut off or damaged"),
    ("bytes behind the end", file(lambda d: d + b"\0"), ValueError, "cut off or damaged"),
    ("half a prefix", file(lambda d: d[:20]), ValueError, "cut off after 20 bytes"),
    ("a flipped bit", file(lambda d: d[:-9] + bytes([d[-9] ^ 1]) + d[-8:]), ValueError, "checksum"),
    ("a newer format", file(lambda d: sealed(0, b"", 99)), ValueError, "format 99.*upgrade"),
    ("format 0", file(lambda d: sealed(0, b"", 0)), ValueError, "format 0"),
    ("a header that is no JSON", file(lambda d: sealed(8, b"{]      ")), ValueError, "not valid JSON"),
    ("NaN in the header", file(lambda d: sealed(8, b"[NaN]   ")), ValueError, "NaN is not JSON"),
    ("a header of a list", file(lambda d: sealed(8, b"[]      ")), ValueError, "must have exactly the entries"),
    ("a header too long", file(lambda d: sealed(80, b"[]      ")), ValueError, "header of 80 bytes does not fit"),
    ("another kind", header(lambda c: c.update(kind="Forest")), ValueError, "kind in the header is 'Forest'"),
    ("an unknown class", put("fitted", "$", value="os.system"), ValueError, "class 'os.system' is unknown"),
    ("an unknown entry", put(*MEMBER, "more", value=1), ValueError, r"unknown entries \['more'\]"),
    ("a missing entry", header(lambda c: part(c, *MEMBER).pop("weight")), ValueError, "weight is missing"),
    ("text for a number", put(*MEMBER, "weight", value="1"), ValueError, "weight must be float"),
    ("half a character", put(*MEMBER, "name", value="\ud800"), ValueError, "not valid Unicode"),
    ("infinite weight", put(*MEMBER, "weight", value={"$": "float", "value": "inf"}), ValueError, "finite"),
    ("stage beyond the rounds", put(*MEMBER, "stage", value=3), ValueError, "stage must be from 0 to 2, got 3"),
    ("negative stage", put(*MEMBER, "stage", value=-1), ValueError, "stage must be from 0 to 2, got -1"),
    ("a deeper tree", put(*TREE, "depth", value=2), ValueError, "gate_weights has shape"),
    ("depth 60", put(*TREE, "depth", value=60), ValueError, "depth must be from 1 to 10, got 60"),
    ("depth true", put(*TREE, "depth", value=True), ValueError, "depth must be int, got bool"),
    ("an array twice", header(twice), ValueError, "twice"),
    ("an array never", header(lambda c: part(c, *TREE).update(leaf_weights=None)), ValueError, "does not use"),
    ("array number 10**9", put(*TREE, "gate_bias", value={"$": "array", "index": 10**9}), ValueError, "index must be"),
    ("a shape of billions", header(lambda c: c["arrays"][0].__setitem__(1, [2**40])), ValueError, "invalid shape"),
    ("a negative shape", header(lambda c: c["arrays"][0].__setitem__(1, [-1])), ValueError, "invalid shape"),
    ("an object dtype", header(lambda c: c["arrays"][0].__setitem__(0, "|O")), ValueError, "dtype"),
    ("columns out of range", numbers("columns", 4), ValueError, "tree uses component 4|column 4 of 4"),
    ("negative columns", numbers("columns", -1), ValueError, "columns contains an index outside"),
    ("NaN in gates", numbers("gate_weights", np.nan), ValueError, "gate_weights contains NaN"),
    ("infinity in leaves", numbers("leaf_values", np.inf), ValueError, "leaf_values contains NaN or infinity"),
    ("leaves that overflow", header(overflowing), ValueError, "overflow"),
    ("spread 0", numbers("spread", 0.0), ValueError, "spread contains a number that is not positive"),
    ("other columns", put_pair("fitted", "n_features_in_", 5), ValueError, "n_features_in_ must be 4, got 5"),
    ("other shape of y", put_pair("fitted", "_y_ndim", 3), ValueError, "y has 3 dimensions, but there are 1 outputs"),
    ("no bounds", put_pair("fitted", "_raw_bounds", None), ValueError, "the invalid value None"),
    ("an unknown result", header(lambda c: c["model"]["fitted"]["items"].append(["extra_", 1])), ValueError, "extra_"),
    ("an unknown parameter", header(lambda c: c["model"]["params"]["items"].append(["x", 1])), ValueError, "'x'"),
    ("a bad parameter", put_pair("params", "depth", 99), ValueError, "depth must be an integer from 1 to 10, got 99"),
    ("a million threads", put_pair("params", "n_jobs", 10**6), ValueError, "n_jobs must be between -1024 and 1024"),
    ("a function of Python", put_pair("params", "loss", {"$": "function", "name": "eval"}), ValueError, "named 'eval'"),
    ("no such path", lambda m: load("/nowhere/model"), FileNotFoundError, "nowhere"),
    ("a folder", lambda m: load("/"), (ValueError, OSError), "/"),
    ("a number as path", lambda m: load(3.5), TypeError, "float"),
    ("saving to a folder", lambda m: m.save("/"), ValueError, "path='/' is a folder"),
    ("saving to nowhere", lambda m: m.save("/nowhere/model"), FileNotFoundError, "folder '/nowhere' does not exist"),
    ("a lambda as loss", lambda m: dumps(m.set_params(loss=(lambda y, f: y, lambda y, f: f))), ValueError, "lambda"),
    ("ONNX of a transform", lambda m: fourier().to_onnx("model.onnx"), ValueError, "Fourier is not linear"),
    ("ONNX before fit", lambda m: SoftBoostRegressor().to_onnx("model.onnx"), ValueError, "not fitted yet"),
    ("saving before fit", lambda m: SoftBoostRegressor().save("model"), ValueError, "not fitted yet"),
]  # fmt: skip

SERIES = pd.DataFrame({"unique_id": ["s"] * 30, "ds": pd.date_range("2024-01-01", periods=30), "y": np.arange(30.0)})
ONE = SERIES[["ds", "y"]]
NEXT = pd.DataFrame({"unique_id": ["s"], "ds": [pd.Timestamp("2024-01-31")], "y": [30.0]})
AHEAD = pd.DataFrame({"unique_id": ["s", "s"], "ds": pd.date_range("2024-01-31", periods=2)})
PRICED = SERIES.assign(price=np.arange(30.0) % 7)
TEXTS = SERIES.assign(ds=["a"] * 30)


def refit(df=SERIES, **settings):
    """Refit the fitted forecaster with other parameters or rows."""
    return lambda f: f.set_params(**settings).fit(df)


def lag_transform(transform):
    return refit(lag_transforms={1: [transform]})


def update(df):
    return lambda f: f.update(df)


def ahead(X_df):
    """Forecast with a model that has an exogenous price."""
    return lambda f: Forecaster(**f.get_params(deep=False)).fit(PRICED).predict(X_df=X_df)


FORECAST = [
    ("no frame", refit([1, 2, 3]), TypeError, "df must be a pandas or polars frame, got list"),
    ("no column y", refit(SERIES.drop(columns="y")), ValueError, r"no column \['y'\].*target_col"),
    ("one series, another target", refit(ONE.rename(columns={"y": "sales"})), ValueError, r"has \['ds', 'sales'\]\."),
    ("no rows", refit(SERIES[:0]), ValueError, "no rows"),
    ("text as y", refit(SERIES.assign(y="red")), ValueError, "column 'y' must contain numbers.*row 0 is 'red'"),
    ("infinite y", refit(SERIES.assign(y=at(SERIES["y"], 4, np.inf))), ValueError, "column 'y' is inf in row 4"),
    ("missing y", refit(SERIES.assign(y=at(SERIES["y"], 4, np.nan))), ValueError, "is nan in row 4.*gaps="),
    ("missing id", refit(SERIES.assign(unique_id=at(SERIES["unique_id"], 3, None))), ValueError, "empty in row 3"),
    ("text as time", refit(TEXTS), ValueError, "column 'ds' must contain dates or integers.*'a'"),
    ("a time twice", refit(pd.concat([SERIES, SERIES[:1]])), ValueError, "rows .* are both series 's'"),
    ("a gap", refit(SERIES.drop(index=4)), ValueError, "series 's' has a gap.*gaps='interpolate'"),
    ("another frequency", refit(freq="MS"), ValueError, "freq='MS' expects"),
    ("no frequency", refit(SERIES[:1], freq=None), ValueError, "freq cannot be inferred, because the longest"),
    ("gaps, and no frequency", refit(SERIES.drop(index=[4, 9, 11]), freq=None), ValueError, "expects .* gaps="),
    ("lag 0", refit(lags=[0]), ValueError, "lags must be integers of at least 1, got 0"),
    ("half a lag", refit(lags=[1.5]), ValueError, "lags must be integers of at least 1, got 1.5"),
    ("a lag of years", refit(lags=[10**9]), ValueError, "lags must be at most 1,000,000, got 1000000000"),
    ("nothing to learn from", refit(lags=[]), ValueError, "are all empty; set at least one"),
    ("no window", lag_transform(RollingMean(0)), ValueError, "window_size must be an integer from 1"),
    ("a share above one", lag_transform(ExponentiallyWeightedMean(2.0)), ValueError, "alpha must be a number above 0"),
    ("unknown statistic", lag_transform("mean"), ValueError, r"lag_transforms\[1\] contains 'mean', which is not"),
    ("unknown date feature", refit(date_features=["moon"]), ValueError, "date_features contains 'moon'.*choose from"),
    ("unknown target transform", refit(target_transforms=["log"]), ValueError, "target_transforms contains 'log'"),
    ("log of zero", refit(target_transforms=[Log()]), ValueError, "needs y \\+ offset > 0.*larger offset"),
    ("no steps", refit(h=0), ValueError, "h must be an integer of at least 1, got 0"),
    ("unknown strategy", refit(strategy="guess"), ValueError, "strategy='guess' is not valid; choose one of"),
    ("unknown scope", refit(scope="all"), ValueError, "scope='all' is not valid; choose one of"),
    ("unknown gaps", refit(gaps="skip"), ValueError, "gaps='skip' is not valid; choose one of"),
    ("season 0", refit(season_length=0), ValueError, "season_length must be an integer of at least 1, got 0"),
    ("unknown static column", refit(static_features=["shop"]), ValueError, "static_features contains 'shop'"),
    ("static that changes", refit(PRICED, static_features=["price"]), ValueError, "'price', but it changes"),
    ("forecast of no steps", lambda f: f.predict(0), ValueError, "h must be an integer of at least 1, got 0"),
    ("levels of text", lambda f: f.predict(2, level=["80"]), ValueError, "level.*percentages.*got '80'"),
    ("level 200", lambda f: f.predict(2, level=[200]), ValueError, "level.*between 0 and 100, got 200"),
    ("no future", ahead(None), ValueError, r"exogenous columns \['price'\].*pass their future values as X_df"),
    ("future without the column", ahead(NEXT), ValueError, r"X_df has no columns \['price'\]"),
    ("half a future", ahead(NEXT.assign(price=1.0)), ValueError, "X_df has no row for series 's' at"),
    ("infinite price", refit(PRICED.assign(price=at(PRICED["price"], 4, np.inf))), ValueError, "'price' contains inf"),
    ("infinite price ahead", ahead(AHEAD.assign(price=-np.inf)), ValueError, "'price' contains -inf"),
    ("old rows again", update(SERIES[-1:]), ValueError, "are both series 's'"),
    ("rows from before", update(NEXT.assign(ds=pd.Timestamp("2023-12-31"))), ValueError, "before its first known one"),
    ("rows after a gap", update(NEXT.assign(ds=pd.Timestamp("2024-03-01"))), ValueError, "series 's' has a gap"),
    ("rows without y", update(NEXT.drop(columns="y")), ValueError, r"have no columns \['y'\]"),
    ("rows of another library", update(pl.from_pandas(NEXT)), TypeError, "polars.*fitted on pandas"),
    ("no windows", lambda f: f.backtest(SERIES, n_windows=0), ValueError, "n_windows must be an integer.*got 0"),
    ("too many windows", lambda f: f.backtest(SERIES, n_windows=40), ValueError, "n_windows=40.*longest has 30 rows"),
    ("refit sometimes", lambda f: f.backtest(SERIES, refit="often"), ValueError, "refit='often' is not valid"),
    ("forecast before fit", lambda f: Forecaster().predict(), ValueError, "not fitted yet"),
    ("saving before fit", lambda f: Forecaster().save("model"), ValueError, "not fitted yet"),
    ("saving to nowhere", lambda f: f.save("/nowhere/model"), FileNotFoundError, "folder '/nowhere' does not exist"),
]  # fmt: skip


def learn(x, y=1.0, **weight):
    return lambda online: online.learn_one(x, y, **weight)


def online(**settings):
    return lambda online: OnlineSoftBoostRegressor(**settings)


def state(change):
    """Create a model from the changed state of the fitted one."""

    def work(online):
        content = online.get_state()
        change(content)
        OnlineSoftBoostRegressor.from_state(content)

    return work


ONLINE = [
    ("a list for x", learn([1.0]), ValueError, "x must be a dict of features by name, got list"),
    ("None for x", learn(None), ValueError, "x must be a dict of features by name, got NoneType"),
    ("text for x", lambda m: m.predict_one("a"), ValueError, "x must be a dict of features by name, got str"),
    ("a list in x", learn({"a": [1]}), ValueError, r"x\['a'\]=\[1\] is neither a number"),
    ("a complex number", learn({"new": 1.0, "a": 1j}), ValueError, r"x\['a'\]=1j is neither a number"),
    ("a list in a row to predict", lambda m: m.predict_one({"a": [1]}), ValueError, r"x\['a'\]"),
    ("no y", learn({"a": 1.0}, None), ValueError, "y=None is not a number; skip such rows"),
    ("text as y", learn({"new": 1.0}, "red"), ValueError, "y='red' is not a number"),
    ("NaN as y", learn({"new": 1.0}, np.nan), ValueError, "y=nan is not a finite number"),
    ("infinite y", learn({"a": 1.0}, np.inf), ValueError, "y=inf is not a finite number"),
    ("huge y", learn({"a": 1.0}, 10**400), ValueError, "y=inf is not a finite number; skip such rows"),
    ("negative weight", learn({"new": 1.0}, w=-1), ValueError, r"w must be a number of at least 0 and .*, got -1"),
    ("NaN as weight", learn({"a": 1.0}, w=np.nan), ValueError, r"at least 0 and at most 1e\+100, got nan"),
    ("text as weight", learn({"a": 1.0}, w="x"), ValueError, r"at least 0 and at most 1e\+100, got 'x'"),
    ("bad x of no weight", learn({"a": [1]}, w=0), ValueError, r"x\['a'\]"),
    ("negative trees", online(n_trees=-1), ValueError, "n_trees must be an integer from 0 to 1000, got -1"),
    ("deep trees", online(depth=9), ValueError, "depth must be an integer from 1 to 4, got 9"),
    ("too many leaves", online(n_trees=500, depth=4), ValueError, "more than 2048; use fewer trees"),
    ("forgetting 0", online(forgetting=0.0), ValueError, "forgetting must be a number above 0"),
    ("a small buffer", online(buffer_size=10), ValueError, "buffer_size must be an integer from 128"),
    ("no columns", online(max_features=0), ValueError, "max_features must be an integer from 1"),
    ("a seed of text", online(seed="x"), ValueError, "seed must be an integer of at least 0, got 'x'"),
    ("half a state", state(lambda s: s.pop("Q")), ValueError, "must have the entries"),
    ("a state without rows", state(lambda s: s.update(rows=[])), ValueError, r"state\['rows'\]"),
    ("negative counts", state(lambda s: s.update(n_rows_seen=-1)), ValueError, "n_rows_seen must be a int from 0"),
    ("no range", state(lambda s: s["range"].fill(np.nan)), ValueError, "range must be"),
    ("saving to nowhere", lambda m: m.save("/nowhere/model"), FileNotFoundError, "folder '/nowhere' does not exist"),
]  # fmt: skip

CSV = "ds,y\n" + "".join(f"2024-01-{d:02d},{d}\n" for d in range(1, 29))
COMMANDS = [
    ("an unknown command", ["fly"], 2, "fly"),
    ("an unknown option", ["demo", "--fast-as-light"], 2, "fast-as-light"),
    ("a file that is not there", ["forecast", "/nowhere/series.csv"], 1, "nowhere"),
    ("a folder", ["forecast", "."], 1, "."),
    ("a file of another kind", ["forecast", "page.html"], 1, "page.html"),
    ("an empty file", ["forecast", "empty.csv"], 1, "empty.csv"),
    ("a file of one column", ["forecast", "column.csv"], 1, "column.csv"),
    ("text as values", ["forecast", "text.csv"], 1, "text.csv"),
    ("no such column", ["forecast", "series.csv", "--target", "sales"], 1, "'sales'"),
    ("a horizon that is no number", ["forecast", "series.csv", "--h", "soon"], 2, "soon"),
    ("a horizon of 0", ["forecast", "series.csv", "--h", "0"], 2, "0"),
    ("a level of 200", ["forecast", "series.csv", "--level", "200"], 2, "200"),
    ("an unknown scope", ["forecast", "series.csv", "--scope", "all"], 2, "all"),
    ("an output that cannot be", ["forecast", "series.csv", "--out", "forecast.docx"], 2, "docx"),
    ("an output nowhere", ["forecast", "series.csv", "--h", "1", "--out", "empty.csv/out.csv"], 1, "empty.csv"),
    ("no windows", ["backtest", "series.csv", "--windows", "0"], 2, "0"),
    ("an unknown experiment", ["reproduce", "table9"], 2, "table9"),
    ("an unknown shell", ["completion", "cmd"], 2, "cmd"),
]  # fmt: skip

REGRESSOR = {"fit": FIT, "predict": PREDICT, "parameter": PARAMS, "load": LOAD}


def cases(groups):
    rows = [(f"{group}: {row[0]}", *row[1:]) for group, rows in groups.items() for row in rows]
    return pytest.mark.parametrize(("work", "error", "message"), [r[1:] for r in rows], ids=[r[0] for r in rows])


@pytest.fixture(scope="module")
def content():
    return dumps(SoftBoostRegressor(**PLAIN, leaves="linear", gates="random", n_steps=2, random_state=0).fit(X, Y))


@cases(REGRESSOR)
def test_bad_input_is_told_and_changes_nothing(work, error, message, content):
    model = loads(content)
    before, prediction = fitted_state(model), model.predict(X)
    with pytest.raises(error, match=f"(?s){message}"):
        work(model)
    after = fitted_state(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    assert np.array_equal(model.set_params(n_jobs=None).predict(X), prediction)


def fitted_state(model):
    return {name: value for name, value in vars(model).items() if name not in model.get_params(deep=False)}


@cases({"forecast": FORECAST})
def test_bad_input_to_a_forecaster_is_told_and_changes_nothing(work, error, message):
    settings = {"freq": "D", "h": 2, "lags": [1, 2], "target_transforms": None, "model": SoftBoostRegressor(**PLAIN)}
    forecaster = Forecaster(**settings).fit(SERIES)
    before, forecast = fitted_state(forecaster), forecaster.predict(level=[80])
    with pytest.raises(error, match=f"(?s){message}"):
        work(forecaster)
    after = fitted_state(forecaster)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    for parameter, value in settings.items():
        forecaster.set_params(**{parameter: value})
    pd.testing.assert_frame_equal(forecaster.set_params(strategy="recursive").predict(level=[80]), forecast)


@pytest.fixture(scope="module")
def followed():
    model = OnlineSoftBoostRegressor(2, 1, buffer_size=128)
    for row, y in zip(X, Y, strict=True):
        model.learn_one(dict(zip("abcd", row.tolist(), strict=True)), y)
    return dumps(model)


@cases({"online": ONLINE})
def test_bad_input_to_an_online_model_is_told_and_changes_nothing(work, error, message, followed):
    model = loads(followed)
    with pytest.raises(error, match=f"(?s){message}"):
        work(model)
    assert dumps(model) == followed


@pytest.mark.parametrize(("args", "code", "message"), [r[1:] for r in COMMANDS], ids=[r[0] for r in COMMANDS])
def test_bad_command_is_told(args, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"series": CSV, "empty": "", "column": "y\n1\n2\n3\n", "text": "ds,y\n2024-01-01,red\n2024-01-02,blue\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "page.html").write_text("<html><body>no table</body></html>")
    there = sorted(tmp_path.iterdir())
    try:
        got = cli.main(args)
    except SystemExit as stop:
        got = stop.code
    out, err = capsys.readouterr()
    assert got == code
    assert message in err
    assert "Traceback" not in err
    assert not out
    assert sorted(tmp_path.iterdir()) == there


def test_table_is_long_enough():
    groups = {**REGRESSOR, "forecast": FORECAST, "online": ONLINE, "command": COMMANDS}
    names = [f"{group}: {row[0]}" for group, rows in groups.items() for row in rows]
    assert len(set(names)) == len(names) >= 80
    assert all(len(rows) >= 10 for rows in groups.values())
