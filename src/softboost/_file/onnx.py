"""Export of a fitted model as an ONNX graph of standard operators, with float32 as input and output.

The graph computes in float32, and in float64 if the loss has a log link: the exponential would turn the rounding of
a raw prediction far from zero into a relative error of the prediction.

The graph corresponds to the prediction kernel: missing-value indicators, standardisation, the linear part, and the
trees. All trees of the same depth are computed together, with one matrix product for their gates, one product of
probabilities per level and one sum over the leaves. Gaussian processes are sums over their rows, and extra trees are an
operator of the domain ai.onnx.ml.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softboost._boost.anisotropic import AnisotropicProcess
from softboost._boost.forest import ExtraTrees
from softboost._boost.gaussian_process import GaussianProcess, KernelFunction
from softboost._boost.hard_trees import HardTree
from softboost._boost.soft_tree import SoftTree
from softboost._data.outliers import Codes
from softboost._kernels import FARTHEST
from softboost._model.ensemble import Ensemble
from softboost._model.fitted import FittedModel
from softboost._model.member import Member
from softboost.losses import Gamma, Loss, Poisson, Tweedie

from .container import write_atomically

__all__ = ["write_onnx"]

Array = NDArray[Any]
OPSET, ML_OPSET = 18, 3


def write_onnx(fitted: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write the graph of a fitted regressor to a file, atomically."""
    write_atomically(path, onnx_model(fitted).SerializeToString())


def onnx_model(fitted: FittedModel) -> Any:
    """The graph as an ``onnx.ModelProto``, checked."""
    _check_supported(fitted)
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'softboost[onnx]'") from error
    log_link = isinstance(fitted.loss, (Poisson, Gamma, Tweedie))
    graph = _Graph(onnx.helper, onnx.numpy_helper, np.float64 if log_link else np.float32)
    x = _standardised(graph, fitted)
    raw = _linear_part(graph, x, fitted.ensemble)
    for trees in _by_shape(fitted.ensemble.trees):
        raw = graph.add("Add", raw, _trees(graph, x, trees, fitted.ensemble))
    for member in fitted.ensemble.transformed:
        raw = graph.add("Add", raw, _whole_models()[_learner(member)](graph, x, member, fitted.ensemble))
    out = _finished(graph, raw, x, fitted)
    shape: list[Any] = ["n_samples"] if fitted.y_ndim == 1 else ["n_samples", fitted.n_outputs]
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "softboost",
            [helper.make_tensor_value_info("X", float32, ["n_samples", fitted.n_features_in])],
            [helper.make_tensor_value_info(out, float32, shape)],
            graph.constants,
        ),
        producer_name="softboost",
        producer_version=version("softboost"),
        opset_imports=[helper.make_opsetid(*pair) for pair in graph.opsets.items()],
        ir_version=8,
    )
    onnx.checker.check_model(proto)
    return proto


def _check_supported(fitted: FittedModel) -> None:
    found = []
    for kind, own in (("categorical", fitted.columns.categories), ("date", fitted.columns.dates)):
        if own:
            names = [j if fitted.feature_names_in is None else str(fitted.feature_names_in[j]) for j in sorted(own)]
            found.append(f"{kind} columns {names}")
    if found:
        raise ValueError(
            f"to_onnx: the model has {' and '.join(found)}, which are not supported; convert them to numbers before "
            "fitting"
        )
    for member in fitted.ensemble.transformed:
        assert member.boosted is not None
        if _learner(member) in _whole_models():
            continue
        if not all(isinstance(tree, SoftTree) for _, tree in member.boosted.rounds):
            raise ValueError(
                f"to_onnx: the model has trees of {member.name}, which are not supported; use weak_learner='soft'"
            )
        raise ValueError(
            f"to_onnx: the transform {type(member.boosted.recipe.transform).__name__} is not linear; use "
            "feature_transform='linear', 'diagonal' or None"
        )
    if type(fitted.loss).inverse_link not in (Loss.inverse_link, Poisson.inverse_link):
        raise ValueError(
            f"to_onnx: the loss {type(fitted.loss).__name__} has a custom inverse link, which is not supported; use a "
            "built-in loss"
        )


class _Graph:
    """Nodes and constants of the graph; :meth:`add` returns the name of the output of a node."""

    def __init__(self, helper: Any, numpy_helper: Any, precision: Any) -> None:
        self._helper, self._numpy_helper, self.precision = helper, numpy_helper, precision
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = {"": OPSET}

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        # nodes need names, because ONNX Runtime before 1.19 fuses nodes and derives new names from them
        self.nodes.append(self._helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values)
        if dtype is None:
            dtype, limit = self.precision, float(np.finfo(self.precision).max)
            array = np.clip(array, -limit, limit)
        self.constants.append(self._numpy_helper.from_array(np.ascontiguousarray(array.astype(dtype)), name))
        return name

    def cast(self, x: str, precision: Any) -> str:
        return self.add("Cast", x, to=self._helper.np_dtype_to_tensor_dtype(np.dtype(precision)))

    def shape(self, *sizes: int) -> str:
        return self.constant(sizes, np.int64)


def _standardised(graph: _Graph, fitted: FittedModel) -> str:
    """Standardised columns followed by missing-value indicators, with missing values replaced by zero."""
    units, missing = fitted.units, fitted.columns.missing
    encoded = _without_codes(graph, fitted.columns.codes, fitted.n_features_in)
    if len(missing):
        holes = graph.add("IsNaN", graph.add("Gather", encoded, graph.constant(missing, np.int64), axis=1))
        encoded = graph.add("Concat", encoded, graph.cast(holes, np.float32), axis=1)
    if graph.precision is not np.float32:
        encoded = graph.cast(encoded, graph.precision)
    centred = graph.add("Sub", encoded, graph.constant(units.centre))
    scaled = graph.add("Mul", centred, graph.constant(1.0 / units.spread))
    known = graph.add("Where", graph.add("IsNaN", scaled), graph.constant(0.0), scaled)
    low = graph.constant(-FARTHEST if units.low is None else units.low)
    high = graph.constant(FARTHEST if units.high is None else units.high)
    return graph.add("Min", graph.add("Max", known, low), high)


def _without_codes(graph: _Graph, codes: Codes, n_features: int) -> str:
    """X with NaN in place of the numbers that stand for a missing value."""
    x = "X"
    for k in range(max(map(len, codes.values()), default=0)):
        numbers = np.full(n_features, np.nan, dtype=np.float32)  # NaN equals nothing
        for j, own in codes.items():
            numbers[j] = own[k] if k < len(own) else np.nan
        coded = graph.add("Equal", x, graph.constant(numbers, np.float32))
        x = graph.add("Where", coded, graph.constant(np.nan, np.float32), x)
    return x


def _linear_part(graph: _Graph, x: str, ensemble: Ensemble) -> str:
    return graph.add("Gemm", x, graph.constant(ensemble.coefficients.T), graph.constant(ensemble.intercept))


def _by_shape(trees: list[SoftTree]) -> list[list[SoftTree]]:
    """Group trees of equal depth and type of leaves."""
    groups: dict[tuple[int, bool], list[SoftTree]] = {}
    for tree in trees:
        groups.setdefault((tree.depth, tree.leaf_weights is not None), []).append(tree)
    return list(groups.values())


def _on_all_columns(weights: Array, columns: Array, n_columns: int) -> Array:
    """Distribute weights on the columns of a tree over all columns; a column may occur twice."""
    out = np.zeros((*weights.shape[:-1], n_columns))
    for c, j in enumerate(columns):
        out[..., j] += weights[..., c]
    return out


def _trees(graph: _Graph, x: str, trees: list[SoftTree], ensemble: Ensemble) -> str:
    """Sum of trees of equal depth, shape (n_samples, n_outputs)."""
    n_columns, n_outputs = ensemble.coefficients.shape[1], len(ensemble.intercept)
    n_trees, depth = len(trees), trees[0].depth
    gates = np.stack([_on_all_columns(t.gate_weights, t.columns, n_columns) for t in trees])
    bias = np.stack([t.gate_bias for t in trees]).ravel()
    logits = graph.add("Gemm", x, graph.constant(gates.reshape(-1, n_columns).T), graph.constant(bias))
    logits = graph.add("Reshape", logits, graph.shape(-1, n_trees, 2**depth - 1))
    reach = _leaf_probabilities(graph, logits, n_trees, depth)
    values = np.stack([t.leaf_values for t in trees]).reshape(n_trees * 2**depth, n_outputs)
    reach = graph.add("Reshape", reach, graph.shape(-1, n_trees * 2**depth))
    constant = graph.add("MatMul", reach, graph.constant(values))
    if trees[0].leaf_weights is None:
        return constant
    slopes = np.stack(
        [_on_all_columns(t.leaf_weights, t.columns, n_columns) for t in trees if t.leaf_weights is not None]
    )
    trends = graph.add("MatMul", x, graph.constant(slopes.reshape(-1, n_columns).T))
    trends = graph.add("Reshape", trends, graph.shape(-1, n_trees * 2**depth, n_outputs))
    weighted = graph.add("Mul", trends, graph.add("Unsqueeze", reach, graph.shape(2)))
    total = graph.add("ReduceSum", weighted, graph.shape(1), keepdims=0)
    return graph.add("Add", constant, total)


def _leaf_probabilities(graph: _Graph, logits: str, n_trees: int, depth: int) -> str:
    """Probability of each leaf, (n_samples, n_trees, 2**depth), computed level by level."""
    right, left = graph.add("Sigmoid", logits), graph.add("Sigmoid", graph.add("Neg", logits))
    axis, last = graph.shape(2), graph.shape(3)
    reach = ""
    for level in range(depth):
        begin, end = graph.shape(2**level - 1), graph.shape(2 ** (level + 1) - 1)
        sides = []
        for side in (left, right):
            gate = graph.add("Slice", side, begin, end, axis)
            gate = gate if not reach else graph.add("Mul", reach, gate)
            sides.append(graph.add("Unsqueeze", gate, last))
        both = graph.add("Concat", *sides, axis=3)
        reach = graph.add("Reshape", both, graph.shape(-1, n_trees, 2 ** (level + 1)))
    return reach


def _learner(member: Member) -> type:
    assert member.boosted is not None
    return type(member.boosted.recipe.learner)


def _whole_models() -> dict[type, Any]:
    """How members that are not sums of soft trees are written, by their learner."""
    return {GaussianProcess: _gaussian_process, AnisotropicProcess: _gaussian_process, ExtraTrees: _forest}


def _forest(graph: _Graph, x: str, member: Member, ensemble: Ensemble) -> str:
    """Sum of hard trees, shape (n_samples, n_outputs)."""
    assert member.boosted is not None
    (_, tree), *_ = member.boosted.rounds
    assert isinstance(tree, HardTree)
    n_nodes, n_outputs = tree.values.shape
    owner = np.searchsorted(tree.roots, np.arange(n_nodes), side="right") - 1
    within = np.arange(n_nodes) - tree.roots[owner]  # number of a node in its tree
    is_leaf = tree.left == np.arange(n_nodes)
    leaves = np.repeat(np.flatnonzero(is_leaf), n_outputs)
    scale = member.weight * member.boosted.learning_rate * ensemble.units.y_spread
    graph.opsets["ai.onnx.ml"] = ML_OPSET
    columns = graph.constant(member.boosted.columns, np.int64)
    return graph.add(
        "TreeEnsembleRegressor",
        graph.add("Gather", x, columns, axis=1),
        domain="ai.onnx.ml",
        n_targets=n_outputs,
        nodes_treeids=owner.tolist(),
        nodes_nodeids=within.tolist(),
        nodes_featureids=tree.feature.tolist(),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=tree.threshold.tolist(),
        nodes_truenodeids=within[tree.left].tolist(),
        nodes_falsenodeids=within[tree.right].tolist(),
        target_treeids=owner[leaves].tolist(),
        target_nodeids=within[leaves].tolist(),
        target_ids=np.tile(np.arange(n_outputs), len(leaves) // n_outputs).tolist(),
        target_weights=(tree.values[is_leaf] * scale).ravel().tolist(),
    )


def _gaussian_process(graph: _Graph, x: str, member: Member, ensemble: Ensemble) -> str:
    """Sum over the rows of a Gaussian process, shape (n_samples, n_outputs).

    It is computed in float64, because its coefficients may be large and of both signs.
    """
    assert member.boosted is not None
    (_, function), *_ = member.boosted.rounds
    assert isinstance(function, KernelFunction)

    def constant(values: Any) -> str:
        return graph.constant(values, np.float64)

    columns = graph.constant(member.boosted.columns, np.int64)
    z = graph.cast(graph.add("Gather", x, columns, axis=1), np.float64)
    z = graph.add("Mul", graph.add("Sub", z, constant(function.centre)), constant(function.scale))
    z = graph.add("Min", graph.add("Max", z, constant(-function.limit)), constant(function.limit))
    if function.covariance == "quadratic":
        product = graph.add("Gemm", z, constant(function.centres), constant(np.ones(function.centres.shape[1])))
        values = graph.add("Mul", product, product)
    else:
        size = graph.add("ReduceSum", graph.add("Mul", z, z), graph.shape(1), keepdims=1)
        own = (function.centres**2).sum(axis=0)
        distance = graph.add("Gemm", z, constant(-2.0 * function.centres), constant(own))
        distance = graph.add("Max", graph.add("Add", distance, size), constant(0.0))
        smooth = function.covariance == "smooth matern"
        r = graph.add("Sqrt", graph.add("Mul", distance, constant(5.0 if smooth else 3.0)))
        polynomial = graph.add("Add", r, constant(1.0))
        if smooth:
            polynomial = graph.add("Add", polynomial, graph.add("Mul", distance, constant(5.0 / 3.0)))
        values = graph.add("Mul", polynomial, graph.add("Exp", graph.add("Neg", r)))
    scale = member.weight * member.boosted.learning_rate * ensemble.units.y_spread
    if function.zero is None:
        out = graph.add("MatMul", values, constant((function.coefficients * scale[:, None]).T))
        if function.intercept is not None:
            out = graph.add("Add", out, constant(function.intercept * scale))
    else:
        out = graph.add("MatMul", values, constant(function.coefficients.T))
        out = graph.add("Exp", graph.add("Add", out, constant(function.intercept)))
        out = graph.add("Mul", graph.add("Add", out, constant(function.zero)), constant(scale))
    return graph.cast(out, graph.precision)


def _finished(graph: _Graph, raw: str, x: str, fitted: FittedModel) -> str:
    """Apply bounds, inverse link and the shape of y."""
    low, high = map(graph.constant, fitted.raw_bounds)
    column = fitted.anchor_column
    if column is not None:  # the bounds are relative to this column, in its original units
        units = fitted.units
        level = graph.add("Gather", x, graph.shape(column), axis=1)
        level = graph.add("Mul", level, graph.constant(units.spread[column]))
        level = graph.add("Add", level, graph.constant(units.centre[column]))
        low, high = graph.add("Add", level, low), graph.add("Add", level, high)
    raw = graph.add("Min", graph.add("Max", raw, low), high)
    if graph.precision is not np.float32:
        raw = graph.add("Exp", graph.add("Clip", raw, graph.constant(-87.0), graph.constant(88.0)))  # within float32
        raw = graph.cast(raw, np.float32)
    if fitted.y_ndim == 1:
        return graph.add("Squeeze", raw, graph.shape(1), name="prediction")
    return graph.add("Identity", raw, name="prediction")
