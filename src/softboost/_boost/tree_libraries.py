"""Fits one tree with LightGBM, XGBoost, CatBoost or scikit-learn and reads its structure.

The estimator of the library fits a single tree, and the structure is read from the library's dump. All comparisons are
converted to "left if z <= threshold".
"""

from __future__ import annotations

import importlib
import json
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIBRARIES", "Library", "Nodes", "from_description", "library_of"]

Array = NDArray[Any]


class Nodes(NamedTuple):
    """One tree: parents precede children, a leaf is its own child, and values are zero except at leaves."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array


@dataclass
class _Builder:
    """Collects nodes of a nested dump, parents first."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, feature: int = 0, threshold: float = 0.0, value: float = 0.0) -> int:
        """Add a leaf; :meth:`join` turns it into an inner node."""
        node = len(self.feature)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.left.append(node)
        self.right.append(node)
        self.value.append(value)
        return node

    def join(self, node: int, left: int, right: int) -> None:
        self.left[node], self.right[node] = left, right

    def nodes(self) -> Nodes:
        return Nodes(*[np.array(getattr(self, name)) for name in Nodes._fields])


def _single_leaf(value: float) -> Nodes:
    builder = _Builder()
    builder.add(value=value)
    return builder.nodes()


class Library:
    """Fits and reads the trees of one library."""

    name: ClassVar[str]
    module: ClassVar[str]
    class_names: ClassVar[tuple[str, ...]]
    single_precision: ClassVar[bool] = True
    fixed: ClassVar[dict[str, Any]] = {}
    """Parameters that SoftBoostRegressor controls."""
    defaults: ClassVar[dict[str, Any]] = {}
    """Parameters that replace the library's defaults unless the user sets them."""
    synonyms: ClassVar[dict[str, tuple[str, ...]]] = {}
    loss_names: ClassVar[tuple[str, ...]] = ()
    squared_error: ClassVar[tuple[Any, ...]] = ()
    seed: ClassVar[str] = "random_state"
    threads: ClassVar[str | None] = "n_jobs"
    depth: ClassVar[str] = "max_depth"

    @classmethod
    def load(cls, class_name: str | None = None) -> Any:
        """The library's estimator class."""
        try:
            return getattr(importlib.import_module(cls.module), class_name or cls.class_names[0])
        except ModuleNotFoundError as error:
            raise ImportError(
                f"weak_learner {cls.name!r} needs the package {cls.module}, which is not installed; "
                f"pip install {cls.module}"
            ) from error

    @classmethod
    def params(cls, estimator: Any) -> dict[str, Any]:
        """Parameters of the estimator; empty if only the name of the library is given."""
        return {} if isinstance(estimator, str) else dict(estimator.get_params(deep=False))

    @classmethod
    def check(cls, estimator: Any) -> None:
        """Raise an error if the library is not installed or if a loss of the estimator would be ignored."""
        cls.load()
        params = cls.params(estimator)
        for name in cls.loss_names:
            if params.get(name) not in (None, *cls.squared_error):
                raise ValueError(
                    f"weak_learner has {name}={params[name]!r}, but trees are fitted to the gradient of the loss of "
                    f"SoftBoostRegressor; set loss= there and do not set {name}"
                )

    @classmethod
    def with_depth(cls, estimator: Any, depth: int) -> Any:
        """The estimator with trees of at most this depth."""
        return cls.make(estimator, {cls.depth: depth})

    @classmethod
    def make(cls, estimator: Any, changes: dict[str, Any]) -> Any:
        """Create an estimator with changed parameters, replacing synonyms that the user may have set."""
        params = cls.params(estimator)
        for name in changes:
            for synonym in cls.synonyms.get(name, ()):
                params.pop(synonym, None)
        kind = cls.load() if isinstance(estimator, str) else type(estimator)
        return kind(**{**params, **changes})

    @classmethod
    def grow(cls, estimator: Any, X: Array, y: Array, weight: Array | None, seed: int, n_threads: int) -> list[Nodes]:
        """Fit one tree to y (n_samples,) on X; some models of a library consist of several trees."""
        known = cls.params(estimator)
        changes = {name: value for name, value in cls.defaults.items() if known.get(name) is None}
        changes |= {**cls.fixed, cls.seed: seed}
        if cls.threads is not None:
            changes[cls.threads] = n_threads
        model = cls.make(estimator, changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about settings that are not the user's: column names, a single tree
            model.fit(X, y, sample_weight=weight)
        return cls.read(model)

    @classmethod
    def read(cls, model: Any) -> list[Nodes]:
        """The trees of a fitted model."""
        raise NotImplementedError

    @classmethod
    def describe(cls, estimator: Any) -> Any:
        """The name, or the class and its parameters in JSON values, without parameters that boosting sets."""
        if isinstance(estimator, str):
            return estimator
        default = type(estimator)().get_params(deep=False)
        ours = {*cls.fixed, *cls.defaults, cls.seed, cls.threads, "verbose"}
        ours |= {synonym for name in ours for synonym in cls.synonyms.get(name or "", ())}
        changed = {k: v for k, v in cls.params(estimator).items() if k not in ours and repr(v) != repr(default.get(k))}
        for name, value in changed.items():
            if not (value is None or isinstance(value, (bool, int, float, str))):
                raise ValueError(
                    f"weak_learner has {name}={value!r}, which cannot be saved; use a number, a string or None"
                )
        return {"library": cls.name, "class": type(estimator).__name__, "params": changed}


class LightGBM(Library):
    """LightGBM's gradient boosted trees."""

    name, module, class_names = "lightgbm", "lightgbm", ("LGBMRegressor",)
    single_precision = False
    fixed: ClassVar = {"n_estimators": 1, "learning_rate": 1.0, "boost_from_average": False, "objective": "regression"}
    defaults: ClassVar = {"verbose": -1, "deterministic": True, "force_col_wise": True}
    synonyms: ClassVar = {
        "n_estimators": ("num_iterations", "num_iteration", "num_trees", "num_boost_round"),
        "learning_rate": ("eta", "shrinkage_rate"),
        "random_state": ("seed", "random_seed"),
        "n_jobs": ("num_threads", "nthread"),
        "verbose": ("verbosity",),
    }
    loss_names = ("objective",)
    squared_error = ("regression", "regression_l2", "l2", "mean_squared_error", "mse")

    @classmethod
    def check(cls, estimator: Any) -> None:
        super().check(estimator)
        if cls.params(estimator).get("linear_tree"):
            raise ValueError(
                "weak_learner has linear_tree=True, but linear leaves need soft trees; use weak_learner='soft'"
            )

    @classmethod
    def with_depth(cls, estimator: Any, depth: int) -> Any:
        num_leaves = cls.params(estimator).get("num_leaves", 31)
        return cls.make(estimator, {"max_depth": depth, "num_leaves": min(num_leaves, 2**depth)})

    @classmethod
    def read(cls, model: Any) -> list[Nodes]:
        def add(part: dict[str, Any]) -> int:
            if "leaf_value" in part:
                return builder.add(value=part["leaf_value"])
            if part["decision_type"] != "<=":
                raise ValueError(
                    "weak_learner splits on categories, which is not supported; remove categorical_feature and use "
                    "categorical_features of SoftBoostRegressor"
                )
            node = builder.add(part["split_feature"], part["threshold"])
            builder.join(node, add(part["left_child"]), add(part["right_child"]))
            return node

        trees = []
        for tree in model.booster_.dump_model()["tree_info"]:
            builder = _Builder()
            add(tree["tree_structure"])
            trees.append(builder.nodes())
        return trees


class XGBoost(Library):
    """XGBoost's gradient boosted trees."""

    name, module, class_names = "xgboost", "xgboost", ("XGBRegressor",)
    fixed: ClassVar = {
        "n_estimators": 1,
        "learning_rate": 1.0,
        "base_score": 0.0,
        "objective": "reg:squarederror",
        "early_stopping_rounds": None,
    }
    defaults: ClassVar = {"verbosity": 0}
    loss_names = ("objective",)
    squared_error = ("reg:squarederror",)

    @classmethod
    def check(cls, estimator: Any) -> None:
        super().check(estimator)
        if cls.params(estimator).get("booster") == "gblinear":
            raise ValueError("weak_learner has booster='gblinear', which does not use trees; use booster='gbtree'")

    @classmethod
    def read(cls, model: Any) -> list[Nodes]:
        booster = json.loads(model.get_booster().save_raw(raw_format="json"))["learner"]["gradient_booster"]
        booster = booster.get("gbtree", booster)  # dart wraps it
        return [cls._nodes(tree) for tree in booster["model"]["trees"]]

    @staticmethod
    def _nodes(tree: dict[str, Any]) -> Nodes:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        condition = np.array(tree["split_conditions"], dtype=np.float32)
        leaf, own = left == -1, np.arange(len(left))
        # XGBoost goes left if z < condition, which is equivalent to z <= the next smaller number
        before = np.nextafter(condition, np.float32(-np.inf))
        return Nodes(
            np.where(leaf, 0, np.array(tree["split_indices"])),
            np.where(leaf, 0.0, before.astype(np.float64)),
            np.where(leaf, own, left),
            np.where(leaf, own, right),
            np.where(leaf, condition.astype(np.float64), 0.0),
        )


class CatBoost(Library):
    """CatBoost's trees: oblivious by default, of any shape with other grow policies."""

    name, module, class_names = "catboost", "catboost", ("CatBoostRegressor",)
    fixed: ClassVar = {"iterations": 1, "learning_rate": 1.0, "boost_from_average": False, "loss_function": "RMSE"}
    defaults: ClassVar = {"allow_writing_files": False}
    synonyms: ClassVar = {
        "iterations": ("n_estimators", "num_boost_round", "num_trees"),
        "learning_rate": ("eta",),
        "loss_function": ("objective",),
        "random_seed": ("random_state",),
        "depth": ("max_depth",),
        "verbose": ("silent", "logging_level", "verbose_eval"),
    }
    loss_names = ("loss_function", "objective")
    squared_error = ("RMSE",)
    seed, threads, depth = "random_seed", "thread_count", "depth"

    @classmethod
    def grow(cls, estimator: Any, X: Array, y: Array, weight: Array | None, seed: int, n_threads: int) -> list[Nodes]:
        if np.ptp(y) == 0 or not np.ptp(X, axis=0).any():  # CatBoost raises an error for both
            return [_single_leaf(float(np.average(y, weights=weight)))]
        estimator = cls._quiet(estimator)
        if weight is not None:  # CatBoost multiplies its penalty by the mean weight; here weights count rows
            known = cls.params(estimator)
            penalty = "reg_lambda" if "reg_lambda" in known else "l2_leaf_reg"
            estimator = cls.make(estimator, {penalty: known.get(penalty, 3.0) / float(weight.mean())})
        return super().grow(estimator, X, y, weight, seed, n_threads)

    @classmethod
    def _quiet(cls, estimator: Any) -> Any:
        known = cls.params(estimator)
        loud = any(name in known for name in ("verbose", *cls.synonyms["verbose"]))
        return estimator if loud else cls.make(estimator, {"verbose": 0})

    @classmethod
    def read(cls, model: Any) -> list[Nodes]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.save_model(str(path), format="json")
            dump = json.loads(path.read_text())
        scale, bias = dump["scale_and_bias"]
        trees = dump.get("oblivious_trees") or dump.get("trees") or []
        builders = []
        for tree in trees:
            builder = _Builder()
            cls._add_oblivious(builder, tree, 0, 0) if "splits" in tree else cls._add(builder, tree)
            builders.append(builder)
        nodes = [b.nodes() for b in builders]
        nodes = [n._replace(value=n.value * scale) for n in nodes]
        constant = float(np.sum(bias))
        return [*nodes, _single_leaf(constant)] if constant != 0 or not nodes else nodes

    @classmethod
    def _add_oblivious(cls, builder: _Builder, tree: dict[str, Any], level: int, leaf: int) -> int:
        """Add the nodes below a level; bit i of the index of a leaf is the direction at split i."""
        splits = tree["splits"] or []
        if level == len(splits):
            return builder.add(value=tree["leaf_values"][leaf])
        node = builder.add(*cls._split(splits[level]))
        left = cls._add_oblivious(builder, tree, level + 1, leaf)
        builder.join(node, left, cls._add_oblivious(builder, tree, level + 1, leaf | 1 << level))
        return node

    @classmethod
    def _add(cls, builder: _Builder, part: dict[str, Any]) -> int:
        if "value" in part:
            return builder.add(value=part["value"])
        node = builder.add(*cls._split(part["split"]))
        builder.join(node, cls._add(builder, part["left"]), cls._add(builder, part["right"]))
        return node

    @staticmethod
    def _split(split: dict[str, Any]) -> tuple[int, float]:
        if split["split_type"] != "FloatFeature":
            raise ValueError(
                "weak_learner splits on categories, which is not supported; remove cat_features and use "
                "categorical_features of SoftBoostRegressor"
            )
        return split["float_feature_index"], float(np.float32(split["border"]))


class ScikitLearn(Library):
    """Decision trees of scikit-learn."""

    name, module = "tree", "sklearn.tree"
    class_names = ("DecisionTreeRegressor", "ExtraTreeRegressor")
    threads = None

    @classmethod
    def read(cls, model: Any) -> list[Nodes]:
        tree = model.tree_
        leaf, own = tree.children_left == -1, np.arange(tree.node_count)
        return [
            Nodes(
                np.where(leaf, 0, tree.feature),
                np.where(leaf, 0.0, tree.threshold),
                np.where(leaf, own, tree.children_left),
                np.where(leaf, own, tree.children_right),
                np.where(leaf, tree.value[:, 0, 0], 0.0),
            )
        ]


LIBRARIES: dict[str, type[Library]] = {library.name: library for library in (LightGBM, XGBoost, CatBoost, ScikitLearn)}


def library_of(estimator: Any) -> type[Library]:
    """The library of an estimator, or of a name."""
    if isinstance(estimator, str) and estimator in LIBRARIES and estimator != ScikitLearn.name:
        return LIBRARIES[estimator]
    for library in LIBRARIES.values():  # compare names, because importing the library would be slow
        for kind in type(estimator).__mro__:
            if kind.__name__ in library.class_names and kind.__module__.startswith(library.module):
                return library
    raise ValueError(
        f"weak_learner={estimator!r} is not valid; choose 'soft', 'lightgbm', 'xgboost', 'catboost', or pass an "
        "unfitted LGBMRegressor, XGBRegressor, CatBoostRegressor, DecisionTreeRegressor or ExtraTreeRegressor"
    )


def from_description(description: Any) -> Any:
    """Create the name or estimator from :meth:`Library.describe`; only classes listed here are created."""
    if isinstance(description, str):
        return description
    library = LIBRARIES[description["library"]]
    if description["class"] not in library.class_names:
        raise ValueError(f"the model has the weak learner {description['class']!r}, which softboost does not support")
    return library.load(description["class"])(**description["params"])
