"""Python interface of the compiled kernels: checks shapes and calls `_core`, which only this module imports.

Arrays of samples are feature-major: ``z`` has shape (n_components, n_samples), a target (n_outputs, n_samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

try:
    from . import _core
except ImportError as error:  # pragma: no cover - only in a source tree that was never built
    raise ImportError(
        "the compiled extension of softboost is missing; install the package (pip install .) instead of importing its "
        "source"
    ) from error

__all__ = [
    "FARTHEST",
    "MAX_DEPTH",
    "GreedyTree",
    "NetworkInputs",
    "NetworkLayout",
    "bin_columns",
    "boost_each",
    "boost_greedy",
    "boost_joint",
    "fit_greedy",
    "fit_joint",
    "fit_networks",
    "greedy_settings",
    "grow_forest",
    "hard_tree_output",
    "instruction_set",
    "instruction_sets",
    "joint_outputs",
    "joint_settings",
    "lasso_path",
    "leaf_probabilities",
    "linear_outputs",
    "loss_intercepts",
    "loss_settings",
    "moments",
    "negative_gradient",
    "network_outputs",
    "pack_ensemble",
    "pack_ensembles",
    "predict_many",
    "recurrent_gradients",
    "recurrent_states",
    "refit_leaves",
    "relaxed_path",
    "ridge_each",
    "ridge_path",
    "smoothing_bank",
    "tree_gradients",
    "tree_output",
    "use_instruction_set",
]

MAX_DEPTH = _core.MAX_DEPTH
FARTHEST = 1e18  # in standard deviations; larger values would overflow in the trees
Array = NDArray[Any]

instruction_set = _core.instruction_set
instruction_sets = _core.instruction_sets
use_instruction_set = _core.use_instruction_set


def greedy_settings(
    *,
    depth: int,
    shallower: bool = False,
    sharpness: Sequence[float] = (3.0,),
    ridge: Sequence[float] = (1.0,),
    linear_leaves: bool = False,
    n_extra_columns: int = 0,
    detrended_candidate: bool = False,
    min_leaf_weight: float = 5.0,
    n_selection_rows: int = 4096,
) -> Any:
    """Settings of :func:`fit_greedy`, documented in ``src/cpp/types.hpp``."""
    settings = _core.GreedySettings()
    settings.depth = depth
    settings.shallower = shallower
    settings.sharpness = list(sharpness)
    settings.ridge = list(ridge)
    settings.linear_leaves = linear_leaves
    settings.n_extra_columns = n_extra_columns
    settings.detrended_candidate = detrended_candidate
    settings.min_leaf_weight = min_leaf_weight
    settings.n_selection_rows = n_selection_rows
    return settings


@lru_cache(maxsize=64)
def loss_settings(kind: str, parameter: float = 1.0, refit_leaves: bool = False) -> Any:
    """A loss that the kernels know, documented in ``src/cpp/types.hpp``."""
    settings = _core.LossSettings()
    settings.kind = getattr(_core.LossKind, kind)
    settings.parameter = parameter
    settings.refit_leaves = refit_leaves
    return settings


SQUARED_ERROR = loss_settings("squared")


def joint_settings(
    *,
    transform: Literal["identity", "diagonal", "linear"],
    n_steps: int,
    solve_leaves: bool,
    learn_gates: bool = True,
    learn_transform: bool = True,
    gate_learning_rate: float = 0.05,
    leaf_learning_rate: float = 0.05,
    transform_learning_rate: float = 0.02,
    ridge: float = 1.0,
    weight_decay: float = 0.0,
    group_lasso: float = 0.0,
    cosine_decay: bool = True,
    greedy_gates: bool = False,
    min_leaf_weight: float = 5.0,
) -> Any:
    """Settings of :func:`fit_joint`, documented in ``src/cpp/types.hpp``."""
    settings = _core.JointSettings()
    settings.transform = getattr(_core.TransformKind, transform)
    settings.n_steps = n_steps
    settings.solve_leaves = solve_leaves
    settings.learn_gates = learn_gates
    settings.learn_transform = learn_transform
    settings.gate_learning_rate = gate_learning_rate
    settings.leaf_learning_rate = leaf_learning_rate
    settings.transform_learning_rate = transform_learning_rate
    settings.ridge = ridge
    settings.weight_decay = weight_decay
    settings.group_lasso = group_lasso
    settings.cosine_decay = cosine_decay
    settings.greedy_gates = greedy_gates
    settings.min_leaf_weight = min_leaf_weight
    return settings


def _check_tree(
    z: Array, depth: int, gate_weights: Array, gate_bias: Array, leaf_values: Array | None, leaf_weights: Array | None
) -> None:
    if not 1 <= depth <= MAX_DEPTH:
        raise ValueError(f"depth must be between 1 and {MAX_DEPTH}, got {depth}")
    n_leaves = 2**depth
    if gate_weights.shape != (n_leaves - 1, z.shape[0]) or gate_bias.shape != (n_leaves - 1,):
        raise ValueError(f"the shapes of the gates do not match depth {depth} and {z.shape[0]} components")
    if leaf_values is not None and (leaf_values.ndim != 2 or leaf_values.shape[0] != n_leaves):
        raise ValueError(f"leaf_values must have {n_leaves} rows, got shape {leaf_values.shape}")
    if leaf_weights is not None and (
        leaf_values is None or leaf_weights.shape != (n_leaves, leaf_values.shape[1], z.shape[0])
    ):
        raise ValueError(f"leaf_weights has the wrong shape {leaf_weights.shape}")


def leaf_probabilities(z: Array, gate_weights: Array, gate_bias: Array, depth: int, n_threads: int = 1) -> Array:
    """Probability that each sample reaches each leaf, shape (n_leaves, n_samples)."""
    _check_tree(z, depth, gate_weights, gate_bias, None, None)
    return _core.leaf_probabilities(z, gate_weights, gate_bias, depth, n_threads)


def tree_output(
    z: Array,
    depth: int,
    gate_weights: Array,
    gate_bias: Array,
    leaf_values: Array,
    leaf_weights: Array | None = None,
    n_threads: int = 1,
) -> Array:
    """Output of a soft tree at z, shape (n_outputs, n_samples)."""
    _check_tree(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights)
    return _core.tree_output(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights, n_threads)


def tree_gradients(
    z: Array,
    depth: int,
    gate_weights: Array,
    gate_bias: Array,
    leaf_values: Array,
    leaf_weights: Array | None,
    grad_output: Array,
    n_threads: int = 1,
) -> tuple[Array, Array, Array, Array | None, Array]:
    """Gradients of ``sum(grad_output * tree_output)`` with respect to gates, bias, leaf values, leaf weights and z."""
    _check_tree(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights)
    if grad_output.shape != (leaf_values.shape[1], z.shape[1]):
        raise ValueError(f"grad_output must have shape {(leaf_values.shape[1], z.shape[1])}, got {grad_output.shape}")
    return _core.tree_gradients(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights, grad_output, n_threads)


def bin_columns(columns: Array, weight: Array | None = None, max_bins: int = 256, n_threads: int = 1) -> Any:
    """Bin each row of ``columns`` (n_columns, n_samples) into at most ``max_bins`` bins; exact for few values.

    With more distinct values, the thresholds are quantiles, in which each row counts by its weight (n_samples,).
    """
    if not 2 <= max_bins <= 256:
        raise ValueError(f"max_bins must be between 2 and 256, got {max_bins}")
    if weight is not None and weight.shape != columns.shape[1:]:
        raise ValueError(f"weight has shape {weight.shape}, expected {columns.shape[1:]}")
    return _core.bin_columns(columns, weight, max_bins, n_threads)


class GreedyTree(NamedTuple):
    """The result of :func:`fit_greedy`: the arrays of a tree, its output, and what is known about its fit.

    ``gain`` (n_columns,) is the squared-error gain of each column, ``leave_one_out`` the weighted sum of squared
    leave-one-out errors.
    """

    depth: int
    columns: Array
    gate_weights: Array
    gate_bias: Array
    leaf_values: Array
    leaf_weights: Array | None
    output: Array
    gain: Array
    leave_one_out: float


def fit_greedy(
    columns: Array, bins: Any, target: Array, weight: Array | None, settings: Any, n_threads: int = 1
) -> GreedyTree:
    """Grow a tree on ``columns`` (n_columns, n_samples), soften its gates and solve its leaves."""
    _check_samples(columns, target, weight)
    _check_bins(columns, bins)
    return GreedyTree(*_core.fit_greedy(columns, bins, target, weight, settings, n_threads))


def boost_greedy(
    columns: Array,
    bins: Any,
    y: Array,
    weight: Array | None,
    settings: Any,
    n_rounds: int,
    learning_rate: float,
    prediction: Array,
    n_threads: int = 1,
    loss: Any = SQUARED_ERROR,
) -> dict[str, Array]:
    """Boost trees of :func:`fit_greedy`; updates ``prediction``, of the shape of y, in place.

    Returns the trees as concatenated arrays, in the format of ``Ensemble`` in ``src/cpp/types.hpp``.
    """
    _check_samples(columns, y, weight)
    _check_bins(columns, bins)
    if prediction.shape != y.shape:
        raise ValueError(f"prediction must have shape {y.shape}, got {prediction.shape}")
    depth, n_columns, used, gate_weights, gate_bias, leaf = _core.boost_greedy(
        columns, bins, y, weight, settings, loss, n_rounds, learning_rate, prediction, n_threads
    )
    return {
        "depth": depth,
        "linear": np.full(len(depth), settings.linear_leaves, dtype=np.uint8),
        "n_columns": n_columns,
        "columns": used,
        "gate_weights": gate_weights,
        "gate_bias": gate_bias,
        "leaf": leaf,
    }


def grow_forest(
    columns: Array, target: Array, weight: Array | None, n_trees: int, n_threads: int = 1
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Grow extremely randomised trees on ``columns`` (n_columns, n_samples) and return their mean.

    Returns feature, threshold, left, right, values (n_nodes, n_outputs) and roots (n_trees,), as in
    :class:`softboost._boost.hard_trees.HardTree`.
    """
    _check_samples(columns, target, weight)
    if not columns.size:
        raise ValueError(f"columns has shape {columns.shape}, which is empty")
    return _core.grow_forest(columns, target, weight, n_trees, n_threads)


def hard_tree_output(
    z: Array,
    feature: Array,
    threshold: Array,
    left: Array,
    right: Array,
    values: Array,
    roots: Array,
    single: bool,
    n_threads: int = 1,
) -> Array:
    """Sum of the outputs of hard trees at z (n_components, n_samples), shape (n_outputs, n_samples).

    The nodes must form trees, as they do in a model file that was read.
    """
    if feature.size and feature.max() >= len(z):
        raise ValueError(f"a tree uses component {feature.max()} of {len(z)}")
    nodes = [np.ascontiguousarray(a, dtype=np.int32) for a in (feature, left, right, roots)]
    numbers = [np.ascontiguousarray(a, dtype=np.float64) for a in (threshold, values)]
    z = np.ascontiguousarray(z)
    return _core.hard_tree_output(z, nodes[0], numbers[0], nodes[1], nodes[2], numbers[1], nodes[3], single, n_threads)


def negative_gradient(loss: Any, y: Array, raw_prediction: Array) -> Array:
    """Negative gradient of a loss with respect to the raw prediction, of the shape of y (n_outputs, n_samples)."""
    if raw_prediction.shape != y.shape:
        raise ValueError(f"raw_prediction must have shape {y.shape}, got {raw_prediction.shape}")
    return _core.negative_gradient(loss, y, raw_prediction)


def refit_leaves(
    loss: Any,
    z: Array,
    depth: int,
    gate_weights: Array,
    gate_bias: Array,
    linear_leaves: bool,
    y: Array,
    raw_prediction: Array,
    weight: Array | None,
    n_threads: int = 1,
) -> tuple[Array, Array | None, Array]:
    """Leaf values, leaf weights and output of a tree on z whose leaves minimise a loss of y and the raw prediction."""
    _check_samples(z, y, weight)
    _check_tree(z, depth, gate_weights, gate_bias, None, None)
    if raw_prediction.shape != y.shape:
        raise ValueError(f"raw_prediction must have shape {y.shape}, got {raw_prediction.shape}")
    return _core.refit_leaves(
        loss, z, depth, gate_weights, gate_bias, linear_leaves, y, raw_prediction, weight, n_threads
    )


def loss_intercepts(loss: Any, y: Array, weight: Array | None) -> Array:
    """The constants that minimise a loss without a link for each row of y (n_rows, n_samples), shape (n_rows,)."""
    if weight is not None and weight.shape != y.shape[1:]:
        raise ValueError(f"weight has shape {weight.shape}, expected {y.shape[1:]}")
    return _core.loss_intercepts(loss, y, weight)


def fit_joint(
    x: Array,
    target: Array,
    weight: Array | None,
    settings: Any,
    depth: int,
    q: Array,
    gate_weights: Array,
    gate_bias: Array,
    leaf_values: Array,
    leaf_weights: Array | None,
    n_threads: int = 1,
) -> tuple[Array, Array]:
    """Update a tree and its transform jointly, in place; return the final output and the loss before each step.

    With ``greedy_gates`` in the settings, the initial gates are the best splits on z, and the target is scaled to unit
    size before the steps; the losses are those of the scaled target.
    """
    _check_samples(x, target, weight)
    n_components = gate_weights.shape[1]
    _check_tree(gate_weights.T, depth, gate_weights, gate_bias, leaf_values, leaf_weights)
    expected = {"identity": (0,), "diagonal": (x.shape[0],), "linear": (n_components, x.shape[0])}
    kind = settings.transform.name
    if q.shape != expected[kind] or (kind != "linear" and n_components != x.shape[0]):
        raise ValueError(f"transform {kind} with {x.shape[0]} inputs needs parameters of shape {expected[kind]}")
    if leaf_values.shape[1] != target.shape[0]:
        raise ValueError(f"leaf_values has {leaf_values.shape[1]} outputs, but target has {target.shape[0]}")
    return _core.fit_joint(
        x, target, weight, settings, depth, n_components, q, gate_weights, gate_bias, leaf_values, leaf_weights,
        n_threads,
    )  # fmt: skip


def boost_joint(
    x: Array,
    y: Array,
    weight: Array | None,
    settings: Any,
    depth: int,
    n_components: int,
    linear_leaves: bool,
    q: Array,
    n_rounds: int,
    learning_rate: float,
    prediction: Array,
    n_threads: int = 1,
    loss: Any = SQUARED_ERROR,
) -> tuple[Array, tuple[Array, Array, Array, Array | None]]:
    """Boost with :func:`fit_joint`, each round from the transform of the last; updates ``prediction`` in place.

    ``q`` is the initial transform, and the loss must not refit leaves. Returns the transforms (n_rounds, *q.shape) and
    the gate weights, gate biases, leaf values and leaf weights of the trees, with the rounds as first axis.
    """
    _check_samples(x, y, weight)
    if prediction.shape != y.shape:
        raise ValueError(f"prediction must have shape {y.shape}, got {prediction.shape}")
    expected = {"identity": (0,), "diagonal": (x.shape[0],), "linear": (n_components, x.shape[0])}
    kind = settings.transform.name
    if q.shape != expected[kind] or (kind != "linear" and n_components != x.shape[0]):
        raise ValueError(f"transform {kind} with {x.shape[0]} inputs needs parameters of shape {expected[kind]}")
    if loss.refit_leaves:
        raise ValueError("the loss refits leaves, which joint rounds in the kernel do not")
    qs, *trees = _core.boost_joint(
        x, y, weight, settings, loss, depth, n_components, linear_leaves, np.ascontiguousarray(q).ravel(), n_rounds,
        learning_rate, prediction, n_threads,
    )  # fmt: skip
    return qs.reshape(n_rounds, *q.shape), tuple(trees)


def joint_outputs(
    x: Array,
    q: Array,
    gate_weights: Array,
    gate_bias: Array,
    leaf_values: Array,
    leaf_weights: Array | None,
    learning_rate: float,
    n_threads: int = 1,
) -> Array:
    """``learning_rate`` times the output of each round of :func:`boost_joint` at x, for linear transforms.

    Shape (n_rounds, n_outputs, n_samples).
    """
    n_rounds, n_components, n_inputs = q.shape
    n_leaves, n_outputs = leaf_values.shape[1:]
    shapes = [(n_rounds, n_leaves - 1, n_components), (n_rounds, n_leaves - 1), (n_rounds, n_leaves, n_outputs)]
    if x.shape[0] != n_inputs or [gate_weights.shape, gate_bias.shape, leaf_values.shape] != shapes:
        raise ValueError(f"the shapes of the trees do not fit q of shape {q.shape} and x of shape {x.shape}")
    if leaf_weights is not None and leaf_weights.shape != (*shapes[2], n_components):
        raise ValueError(f"leaf_weights must have shape {(*shapes[2], n_components)}, got {leaf_weights.shape}")
    return _core.joint_outputs(x, q, gate_weights, gate_bias, leaf_values, leaf_weights, learning_rate, n_threads)


def _check_samples(columns: Array, target: Array, weight: Array | None) -> None:
    n_samples = columns.shape[1]
    if target.ndim != 2 or target.shape[1] != n_samples:
        raise ValueError(f"target must have shape (n_outputs, {n_samples}), got {target.shape}")
    if weight is not None and weight.shape != (n_samples,):
        raise ValueError(f"weight must have shape ({n_samples},), got {weight.shape}")


def _check_bins(columns: Array, bins: Any) -> None:
    if bins.shape != columns.shape:
        raise ValueError(f"bins of shape {bins.shape} do not match columns of shape {columns.shape}")


def lasso_path(gram: Array, cross: Array, penalties: Array, tolerance: float = 1e-5, max_sweeps: int = 300) -> Array:
    """Lasso coefficients for each penalty, shape (n_penalties, n_columns): argmin b'Gb/2 - c'b + penalty |b|_1."""
    if gram.shape != (len(cross), len(cross)):
        raise ValueError(f"gram must have shape {(len(cross), len(cross))}, got {gram.shape}")
    return _core.lasso_path(gram, cross, penalties, tolerance, max_sweeps)


def moments(
    x: Array, y: Array, weight: Array | None, n_threads: int = 1, centred: bool = True
) -> tuple[Array, Array, Array, Array]:
    """Weighted means of x (n_columns, n_samples) and y (n_outputs, n_samples), and their centred products.

    With ``centred=False``, the products are not centred.

    Returns
    -------
    mean_x, mean_y, gram (n_columns, n_columns), cross (n_outputs, n_columns)
    """
    _check_samples(x, y, weight)
    return _core.moments(x, y, weight, centred, n_threads)


def ridge_path(gram: Array, cross: Array, penalties: Array) -> tuple[Array, Array]:
    """Solutions of (G + penalty I) b = c, shape (n_penalties, n_outputs, n_columns); cross (n_outputs, n_columns).

    Also returns the log determinants of G + penalty I, shape (n_penalties,).
    """
    if gram.shape != (cross.shape[1], cross.shape[1]):
        raise ValueError(f"gram must have shape {(cross.shape[1], cross.shape[1])}, got {gram.shape}")
    return _core.ridge_path(gram, cross, penalties)


def relaxed_path(gram: Array, cross: Array, path: Array, limit: float, ridge: float) -> Array:
    """Least squares on the support of each stage of ``path`` (n_stages, n_columns), same shape.

    Stages with more than ``limit`` coefficients repeat the previous stage.
    """
    if gram.shape != (len(cross), len(cross)) or path.shape[1] != len(cross):
        raise ValueError(f"the shapes of gram {gram.shape}, cross {cross.shape} and path {path.shape} do not match")
    return _core.relaxed_path(gram, cross, path, limit, ridge)


def rls_update(covariance: Array, basis: Array, gap: float) -> tuple[Array, float]:
    """Gain P b and variance b' P b of a row b (n,); subtracts gain gain' / (gap + variance) from P (n, n) in place.

    If the variance is negative or NaN, rounding has made P indefinite, and P is not changed.
    """
    n = len(basis)
    if covariance.shape != (n, n) or basis.shape != (n,):
        raise ValueError(f"covariance must have shape {(n, n)} for basis of shape {basis.shape}")
    return _core.rls_update(covariance, basis, gap)


def solve_with_inverse(gram: Array, cross: Array) -> tuple[Array, Array]:
    """Solution of G b = c, shape (n,), and the inverse of the positive definite matrix G."""
    if gram.shape != (len(cross), len(cross)):
        raise ValueError(f"gram must have shape {(len(cross), len(cross))}, got {gram.shape}")
    return _core.solve_with_inverse(gram, cross)


def linear_outputs(coefficients: Array, intercepts: Array, x: Array, n_threads: int = 1) -> Array:
    """Predictions (n_models, n_samples), in double precision, of linear models at x (n_columns, n_samples)."""
    if coefficients.shape != (len(intercepts), x.shape[0]):
        raise ValueError(f"coefficients must have shape {(len(intercepts), x.shape[0])}, got {coefficients.shape}")
    return _core.linear_outputs(coefficients, intercepts, x, n_threads)


def pack_ensemble(dtype: Any, **arrays: Array) -> Any:
    """Pack a model for prediction in float32 or float64, with checks of all lengths and indices.

    Without ``low`` and ``high``, columns are clipped only to avoid overflow in the trees.
    """
    dtype = np.dtype(dtype)
    cls = _core.Ensemble32 if dtype == np.float32 else _core.Ensemble64
    kinds = {"depth": np.int32, "linear": np.uint8, "n_columns": np.int64, "columns": np.int32}
    if "low" not in arrays:
        limit = np.full(len(arrays["offset"]), FARTHEST)
        arrays = {**arrays, "low": -limit, "high": limit}
    return cls(**{name: np.ascontiguousarray(a, dtype=kinds.get(name, dtype)) for name, a in arrays.items()})


def ridge_each(x: Array, y: Array, penalties: Array, stage: int, n_threads: int = 1) -> tuple[Array, Array, Array]:
    """One stage of :func:`ridge_path` for each of several models, from the rows.

    x is (n_models, n_columns, n_samples), y (n_models, n_outputs, n_samples). Returns the means of x and y and the
    slopes (n_models, n_outputs, n_columns).
    """
    _check_sets(x, y)
    if not 0 <= stage < len(penalties):
        raise ValueError(f"stage must be from 0 to {len(penalties) - 1}, got {stage}")
    return _core.ridge_each(x, y, penalties, stage, n_threads)


def boost_each(
    x: Array,
    y: Array,
    coefficients: Array,
    intercepts: Array,
    settings: Any,
    n_rounds: int,
    learning_rate: float,
    n_threads: int = 1,
    loss: Any = SQUARED_ERROR,
) -> tuple[dict[str, Array], Array, Array]:
    """:func:`boost_greedy` for each of several models, from its linear model; threads share the models.

    x is (n_models, n_columns, n_samples), y (n_models, n_outputs, n_samples), coefficients (n_models, n_outputs,
    n_columns). Returns the trees of all models end to end, the predictions of the linear models, of the shape of y,
    and the contribution of each round (n_models, n_rounds, n_samples, n_outputs).
    """
    _check_sets(x, y)
    shape = len(x), y.shape[1]
    if coefficients.shape != (*shape, x.shape[1]) or intercepts.shape != shape:
        raise ValueError(f"coefficients {coefficients.shape} and intercepts {intercepts.shape} do not fit x {x.shape}")
    depth, n_columns, used, gate_weights, gate_bias, leaf, start, outputs = _core.boost_each(
        x, y, coefficients, intercepts, settings, loss, n_rounds, learning_rate, n_threads
    )
    trees = {
        "depth": depth,
        "linear": np.full(len(depth), settings.linear_leaves, dtype=np.uint8),
        "n_columns": n_columns,
        "columns": used,
        "gate_weights": gate_weights,
        "gate_bias": gate_bias,
        "leaf": leaf,
    }
    return trees, start, outputs


def _check_sets(x: Array, y: Array) -> None:
    if x.ndim != 3 or y.ndim != 3 or (len(x), x.shape[2]) != (len(y), y.shape[2]):
        raise ValueError(f"x of shape {x.shape} and y of shape {y.shape} are not several sets of equal rows")


def pack_ensembles(*, rate: float, **arrays: Array) -> Any:
    """Pack several models with equal inputs and numbers of trees for :func:`predict_many`.

    Arrays are those of :func:`pack_ensemble` with the models as first axis, those of the trees end to end. ``missing``
    lists the features of which a further input tells whether the value is missing. Leaves are multiplied by ``rate``
    and by the ``unit`` of each model and output, (n_models, n_outputs).
    """
    return _core.Ensembles(rate=rate, **arrays)


def predict_many(groups: Sequence[Any], group: Array, model: Array, rows: Array, n_threads: int = 1) -> Array:
    """Predictions (n_rows, n_outputs); row i of ``rows`` (n_rows, n_features) by model[i] of groups[group[i]].

    The groups come from :func:`pack_ensembles`. Rows of one model should be neighbours.
    """
    return _core.predict_many(list(groups), group, model, rows, n_threads)


def smoothing_bank(
    y: Array,
    indptr: Array,
    seasons: Sequence[int],
    h: int,
    first: Array,
    n_origins: int,
    stride: int,
    n_evidence: int,
    columns: bool,
    n_threads: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """Forecasts of a bank of smoothers and autoregressions from several origins of every series; see ``smoothing.hpp``.

    Series i is ``y[indptr[i]:indptr[i + 1]]``, NaN where a value is missing. Its o-th origin has not seen the last
    ``first[i] + o * stride`` values. Returns forecasts (n_series, n_origins, h), units and whether they are those of
    logarithms (n_series, n_origins), weights of the views (n_series, n_origins, 4 * (n_seasons + 1)) and, where asked
    for, columns of the origins (n_series, n_origins, n_columns).
    """
    n_series = len(indptr) - 1
    if (
        n_series < 0
        or first.shape != (n_series,)
        or indptr[0] != 0
        or indptr[-1] != len(y)
        or np.any(np.diff(indptr) < 0)
    ):
        raise ValueError(f"indptr {indptr.shape} and first {first.shape} do not fit y {y.shape}")
    for name, value in (
        ("h", h),
        ("n_origins", n_origins),
        ("stride", stride),
        ("seasons", min(seasons, default=2) - 1),
    ):
        if value < 1:
            raise ValueError(f"{name} must be positive, got {value}")
    if n_evidence < 0 or np.any(first < 0):
        raise ValueError("n_evidence and first must not be negative")
    arrays = np.ascontiguousarray(y, dtype=np.float64), np.ascontiguousarray(indptr, dtype=np.int64)
    return _core.smoothing_bank(
        *arrays,
        np.asarray(seasons, dtype=np.int64),
        h,
        np.ascontiguousarray(first, dtype=np.int64),
        n_origins,
        stride,
        n_evidence,
        columns,
        n_threads,
    )


class RecurrentStates(NamedTuple):
    """States (n_steps, n_hidden, n_samples) of a recurrent layer, and what the gradients of an LSTM need."""

    states: Array
    gates: Array
    cells: Array


def recurrent_states(
    x: Array,
    input_weights: Array,
    state_weights: Array,
    bias: Array,
    *,
    is_lstm: bool,
    store: bool = False,
    n_threads: int = 1,
) -> RecurrentStates:
    """States of a recurrent layer on x (n_steps, n_inputs, n_samples), a plain one (tanh) or an LSTM.

    Weights and bias have one row per unit, or four for an LSTM, in the order of PyTorch. With ``store``, the result
    serves :func:`recurrent_gradients`.
    """
    n_gates = (4 if is_lstm else 1) * state_weights.shape[1]
    if x.ndim != 3 or x.shape[0] < 1:
        raise ValueError(f"x must have shape (n_steps, n_inputs, n_samples) with at least one step, got {x.shape}")
    for name, array, shape in (
        ("input_weights", input_weights, (n_gates, x.shape[1])),
        ("state_weights", state_weights, (n_gates, state_weights.shape[1])),
        ("bias", bias, (n_gates,)),
    ):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return RecurrentStates(
        *_core.recurrent_states(is_lstm, x, input_weights, state_weights, bias, store, n_threads),
    )


def recurrent_gradients(
    x: Array,
    input_weights: Array,
    state_weights: Array,
    bias: Array,
    found: RecurrentStates,
    grad_states: Array,
    *,
    is_lstm: bool,
    of_x: bool = False,
    n_threads: int = 1,
) -> tuple[Array, Array, Array, Array | None]:
    """Gradients of ``sum(grad_states * states)`` with respect to both weights, the bias and, with ``of_x``, x.

    ``found`` is the result of :func:`recurrent_states` with ``store`` for the same arguments.
    """
    n_steps, n_hidden, n_samples = x.shape[0], state_weights.shape[1], x.shape[2]
    shape = (n_steps, n_hidden, n_samples)
    expected = (shape, (n_steps, 4 * n_hidden, n_samples), shape) if is_lstm else (shape,)
    if grad_states.shape != shape or any(a.shape != s for a, s in zip(found, expected, strict=False)):
        raise ValueError(f"grad_states {grad_states.shape} or the stored states do not fit x {x.shape}")
    *weights, grad_x = _core.recurrent_gradients(
        is_lstm, x, input_weights, state_weights, bias, *found, grad_states, of_x, n_threads
    )
    return (*weights, grad_x if of_x else None)


class NetworkLayout(NamedTuple):
    """Inputs, hidden layers of rectified units of equal width, and linear outputs of a network."""

    n_inputs: int
    n_hidden: int
    n_layers: int
    n_outputs: int

    @property
    def n_parameters(self) -> int:
        """Length of the parameters: for each layer the weights (n_out, n_in), then the bias."""
        widths = [self.n_inputs, *[self.n_hidden] * self.n_layers, self.n_outputs]
        return sum(n_out * (n_in + 1) for n_in, n_out in pairwise(widths))


class NetworkInputs(NamedTuple):
    """Rows (n_rows, n_inputs) of networks and how they are standardised; NaN becomes zero, the mean."""

    x: Array
    mean: Array
    scale: Array
    farthest: float


def fit_networks(
    layout: NetworkLayout,
    inputs: NetworkInputs,
    y: Array,
    weight: Array,
    start: Array,
    order: Array,
    learning_rate: float,
    n_threads: int = 1,
) -> Array:
    """Parameters (n_networks, n_parameters) of networks that minimise the weighted absolute error of y.

    They begin at ``start``. Step s of network k of Adam uses the rows ``order[k, s]``, whose number must be a multiple
    of 16; the step length falls from ``learning_rate`` to zero along a cosine.
    """
    _check_network_inputs(layout, inputs)
    n_rows, n_networks = len(inputs.x), len(start)
    for name, array, shape in (
        ("y", y, (n_rows, layout.n_outputs)),
        ("weight", weight, (n_rows,)),
        ("start", start, (n_networks, layout.n_parameters)),
        ("order", order, (n_networks, *order.shape[1:])),
    ):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if order.ndim != 3 or order.shape[2] % 16:
        raise ValueError(f"order must have three axes, the last a multiple of 16, got {order.shape}")
    if order.size and not 0 <= order.min() <= order.max() < n_rows:
        raise ValueError(f"order must contain rows from 0 to {n_rows - 1}")
    settings = layout.n_hidden, layout.n_layers
    return _core.fit_networks(inputs.x, y, weight, *inputs[1:], *settings, start, order, learning_rate, n_threads)


def network_outputs(layout: NetworkLayout, inputs: NetworkInputs, parameters: Array, n_threads: int = 1) -> Array:
    """Mean output (n_rows, n_outputs) of networks with these parameters (n_networks, n_parameters)."""
    _check_network_inputs(layout, inputs)
    if parameters.ndim != 2 or parameters.shape[1] != layout.n_parameters:
        raise ValueError(f"parameters has shape {parameters.shape}, expected (n_networks, {layout.n_parameters})")
    return _core.network_outputs(*inputs, *layout[1:], parameters, n_threads)


def _check_network_inputs(layout: NetworkLayout, inputs: NetworkInputs) -> None:
    if min(layout) < 1:
        raise ValueError(f"all numbers of a layout must be positive, got {layout}")
    shapes = inputs.x.shape[1:], inputs.mean.shape, inputs.scale.shape
    if set(shapes) != {(layout.n_inputs,)}:
        raise ValueError(f"x, mean and scale have {shapes} columns, expected {layout.n_inputs}")
