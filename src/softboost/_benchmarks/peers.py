"""The models of the arena: softboost and its peers, with fair parameters, one thread and a seed."""

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from .task import FloatArray, Task

SUBJECT = "softboost"


@dataclass(frozen=True)
class Peer:
    """A model of the arena.

    Parameters
    ----------
    name : str
    make : callable
        Builds an unfitted regressor from the seed and the task.
    package : str
        Distribution whose version is recorded.
    module : str
        Module to import; if it is not installed, the peer is listed as missing.
    slow : bool, default=False
        Whether a fit on 100 rows takes a second or more. Slow peers run last and not in a quick run.
    about : str, default=""
        Description of the parameters.
    most_rows : float, default=inf
        Number of training rows of real tables up to which the model is fitted; beyond, a fit takes too long.
    """

    name: str
    make: Callable[[int, Task], Any]
    package: str = "scikit-learn"
    module: str = "sklearn"
    slow: bool = False
    about: str = ""
    most_rows: float = math.inf

    def available(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.module) is not None

    def applies_to(self, task: Task) -> bool:
        """Whether the model can be fitted; the naive forecast needs a column with the last value."""
        return self.name != "naive" or task.naive_column is not None

    def version(self) -> str:
        """Version of the package; for softboost, followed by a hash of its code."""
        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        return f"{version}+{code_hash(self.module)}" if self.name == SUBJECT else version


@functools.lru_cache(maxsize=4)
def code_hash(module: str) -> str:
    """Hash of a package in eight hex digits: its Python files without the benchmarks, and the extension."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return "none"
    folder = Path(spec.origin).parent
    files = [path for path in folder.rglob("*.py") if "_benchmarks" not in path.parts]
    core = importlib.util.find_spec(f"{module}._core")
    if core is not None and core.origin is not None:
        files.append(Path(core.origin))
    digest = hashlib.sha1(usedforsecurity=False)
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


class NaiveRegressor:
    """Predicts the last value, which is one of the columns."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X: FloatArray, y: FloatArray) -> "NaiveRegressor":
        """Do nothing."""
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the column."""
        return X[:, self.column]


class TunedLightGBM:
    """LightGBM with the grid search of the paper.

    The grid is n_estimators 50, 100, 200, 500; learning_rate 0.01, 0.05, 0.1; num_leaves 31, 50, 100; max_depth -1,
    5, 10, by mean squared error over 3 folds. Equivalent to ``GridSearchCV(LGBMRegressor(), grid, cv=3)``: the smaller
    numbers of trees are read off the largest fit, and settings that cannot differ on few rows are fitted once.
    """

    n_trees = (50, 100, 200, 500)
    learning_rates = (0.01, 0.05, 0.1)
    max_depths = (-1, 5, 10)
    num_leaves = (31, 50, 100)
    min_child_samples = 20

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state

    def _model(self, setting: tuple[float, int, int], n_estimators: int) -> Any:
        learning_rate, max_depth, num_leaves = setting
        return _load("lightgbm", "LGBMRegressor")(
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            num_leaves=num_leaves,
            max_depth=max_depth,
            min_child_samples=self.min_child_samples,
            random_state=self.random_state,
            n_jobs=1,
            verbose=-1,
        )

    def _distinct(self, setting: tuple[float, int, int], n_rows: int) -> tuple[float, int, int]:
        """Map settings that give the same trees on ``n_rows`` rows to the same representative."""
        learning_rate, max_depth, num_leaves = setting
        num_leaves = max(2, min(num_leaves, n_rows // self.min_child_samples))
        return learning_rate, max_depth if 0 < max_depth < num_leaves - 1 else -1, num_leaves

    def _fold_errors(
        self, setting: tuple[float, int, int], X: FloatArray, y: FloatArray, train: Any, test: Any
    ) -> list[float]:
        model = self._model(setting, max(self.n_trees)).fit(X[train], y[train])
        return [float(np.mean((y[test] - model.predict(X[test], num_iteration=n)) ** 2)) for n in self.n_trees]

    def fit(self, X: FloatArray, y: FloatArray) -> "TunedLightGBM":
        """Search the grid and fit the best setting on all rows."""
        grid = list(itertools.product(self.learning_rates, self.max_depths, self.num_leaves))
        errors = np.zeros((len(grid), len(self.n_trees)))
        for train, test in KFold(3).split(X):
            known: dict[tuple[float, int, int], list[float]] = {}
            for i, setting in enumerate(grid):
                distinct = self._distinct(setting, len(train))
                if distinct not in known:
                    known[distinct] = self._fold_errors(distinct, X, y, train, test)
                errors[i] += known[distinct]
        best, n_trees = divmod(int(np.argmin(errors)), len(self.n_trees))
        self.best_params_ = (grid[best], self.n_trees[n_trees])
        self.model_ = self._model(*self.best_params_).fit(X, y)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict with the best setting."""
        return np.asarray(self.model_.predict(X), dtype=np.float64)


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _ridge(seed: int, task: Task) -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-4, 5, 46)))


def _lasso(seed: int, task: Task) -> Any:
    return make_pipeline(StandardScaler(), LassoCV(eps=10**-3.5, cv=5, max_iter=20_000, random_state=seed))


def _lightgbm(seed: int, **params: Any) -> Any:
    return _load("lightgbm", "LGBMRegressor")(random_state=seed, n_jobs=1, verbose=-1, **params)


def _lightgbm_small(seed: int, task: Task) -> Any:
    return _lightgbm(seed, n_estimators=300, learning_rate=0.05, num_leaves=4, min_child_samples=5)


def _lightgbm_linear(seed: int, task: Task) -> Any:
    return _lightgbm(
        seed,
        n_estimators=200,
        learning_rate=0.05,
        num_leaves=4,
        min_child_samples=10,
        linear_tree=True,
        linear_lambda=0.01,
    )


def _xgboost(seed: int, task: Task) -> Any:
    return _load("xgboost", "XGBRegressor")(
        n_estimators=200, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed
    )


def _catboost(seed: int, task: Task) -> Any:
    return _load("catboost", "CatBoostRegressor")(
        thread_count=1, random_seed=seed, verbose=0, allow_writing_files=False
    )


def _perpetual(seed: int, task: Task) -> Any:
    booster = _load("perpetual", "PerpetualBooster")
    return booster(objective="SquaredLoss", budget=1.0, num_threads=1, seed=seed)


def _chimeraboost(seed: int, task: Task) -> Any:
    return _load("chimeraboost", "ChimeraBoostRegressor")(thread_count=1, ensemble_n_jobs=1, random_state=seed)


def _gaussian_process(seed: int, task: Task) -> Any:
    kernel = ConstantKernel() * RBF(math.sqrt(task.X_train.shape[1])) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    return make_pipeline(StandardScaler(), model)


def _svr(seed: int, task: Task) -> Any:
    grid = {"svr__C": [0.3, 3.0, 30.0], "svr__gamma": [0.1 / task.X_train.shape[1], 1.0 / task.X_train.shape[1]]}
    model = GridSearchCV(make_pipeline(StandardScaler(), SVR()), grid, cv=KFold(5), scoring="neg_mean_squared_error")
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _ebm(seed: int, task: Task) -> Any:
    return _load("interpret.glassbox", "ExplainableBoostingRegressor")(n_jobs=1, random_state=seed)


class Flaml:
    """FLAML with ten seconds a fit."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: FloatArray, y: FloatArray) -> "Flaml":
        """Search for ten seconds."""
        self.model_ = _load("flaml", "AutoML")()
        self.model_.fit(X, y, task="regression", time_budget=10, metric="mse", n_jobs=1, verbose=0, seed=self.seed)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict with the best model."""
        return np.asarray(self.model_.predict(X), dtype=np.float64)


_ROWS = (
    Peer("naive", lambda seed, task: NaiveRegressor(task.naive_column or 0), about="last value"),
    Peer("mean", lambda seed, task: DummyRegressor(), about="mean of the training targets"),
    Peer("ridge", _ridge, about="standardised, leave-one-out over 46 penalties"),
    Peer("lasso", _lasso, about="standardised, 5 folds over 100 penalties"),
    Peer("lightgbm", lambda seed, task: _lightgbm(seed), "lightgbm", "lightgbm", about="defaults"),
    Peer("lightgbm_small", _lightgbm_small, "lightgbm", "lightgbm", about="4 leaves, 5 rows a leaf, 300 x 0.05"),
    Peer(
        "lightgbm_linear",
        _lightgbm_linear,
        "lightgbm",
        "lightgbm",
        about="linear_tree, 10 rows a leaf, 200 x 0.05",
    ),
    Peer("xgboost", _xgboost, "xgboost", "xgboost", about="200 trees of depth 3, rate 0.1"),
    Peer(
        "extra_trees",
        lambda seed, task: ExtraTreesRegressor(300, random_state=seed, n_jobs=1),
        about="300 trees",
    ),
    Peer("gaussian_process", _gaussian_process, about="radial basis and noise, marginal likelihood", most_rows=1000),
    Peer("svr", _svr, about="standardised, 5 folds over 6 settings", most_rows=1000),
    Peer("chimeraboost", _chimeraboost, "chimeraboost", "chimeraboost", about="defaults"),
    Peer(
        "lightgbm_tuned",
        lambda seed, task: TunedLightGBM(seed),
        "lightgbm",
        "lightgbm",
        slow=True,
        about="grid search of the paper, 3 folds",
    ),
    Peer("perpetual", _perpetual, "perpetual", "perpetual", slow=True, about="budget 1"),
    Peer("catboost", _catboost, "catboost", "catboost", slow=True, about="defaults"),
    Peer("ebm", _ebm, "interpret-core", "interpret", slow=True, about="explainable boosting machine, defaults"),
    Peer("flaml", lambda seed, task: Flaml(seed), "flaml", "flaml", slow=True, about="ten seconds a fit"),
    Peer(
        SUBJECT,
        lambda seed, task: _load("softboost", "SoftBoostRegressor")(),
        "softboost",
        "softboost",
        about="no arguments",
    ),
)

PEERS: dict[str, Peer] = {peer.name: peer for peer in _ROWS}


def select_peers(names: list[str] | None = None, fast_only: bool = False) -> list[Peer]:
    """Peers by name, or all of them, in the order of the registry.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    unknown = sorted(set(names or ()) - set(PEERS))
    if unknown:
        raise ValueError(f"unknown models: {', '.join(unknown)}; known: {', '.join(PEERS)}")
    chosen = [peer for peer in PEERS.values() if not names or peer.name in names]
    return [peer for peer in chosen if names or not (fast_only and peer.slow)]
