"""Codec of the state of ``partial_fit``."""

from __future__ import annotations

from typing import Any

import numpy as np

from softboost._boost.soft_tree import SoftTree
from softboost._data.checks import LARGEST
from softboost._file.values import Codec, Fields, register
from softboost._linear.recursive import FORGETTING, RecursiveLeastSquares
from softboost._model import partial_fit
from softboost._model.partial_fit import MAX_COLUMNS, MAX_LEAVES, Basis, Recent


def _pack(recent: Recent) -> dict[str, Any]:
    own = {name: getattr(recent, name) for name in ("X", "y", "weight", "loss", "doubted", "next_fit")}
    own |= {"n_updates": recent.n_updates, "drift": dict(vars(recent.drift)), "basis": None}
    if recent.basis is not None:
        own["basis"] = {
            "trees": recent.basis.trees,
            "columns": recent.basis.columns,
            "coef": recent.coef(),
            "covariance": np.array([model.covariance for model in recent.models]),
            "curvature": recent.curvature,
        }
    return own


def _unpack(f: Fields) -> Recent:
    weight = f.array("weight", "f", (None,))
    n = len(weight)
    X, y = f.array("X", "f", (n, None), finite=False), f.array("y", "f", (n, None))
    if n > partial_fit.MAX_ROWS or np.isinf(X).any() or not (weight > 0).all():
        raise f.error("there are too many stored rows, or they have infinite values or weights that are not positive")
    recent = Recent(
        X, y, weight, f.array("loss", "f", (n,), finite=False), f.take("doubted", bool),
        f.integer("next_fit", 0, 2**53), f.integer("n_updates", 0, 2**53),
    )  # fmt: skip
    drift = Fields(f.take("drift", dict), f"{f.where}.drift")
    recent.drift.count = drift.integer("count", 0, 2**53)
    for name in ("fast", "slow", "variance"):
        value = drift.number(name)
        if not 0 <= value <= LARGEST:
            raise drift.error(f"{name} must be from 0 to {LARGEST}, got {value}")
        setattr(recent.drift, name, value)
    drift.done()
    basis = f.take("basis", (dict, type(None)))
    if basis is not None:
        _unpack_basis(Fields(basis, f"{f.where}.basis"), recent)
    return recent


def _unpack_basis(f: Fields, recent: Recent) -> None:
    n_columns, n_outputs = recent.X.shape[1], recent.y.shape[1]
    trees = f.take("trees", list)
    for tree in trees:
        if not isinstance(tree, SoftTree) or tree.leaf_values.shape[1] != n_outputs or tree.leaf_weights is not None:
            raise f.error("trees must be a list of soft trees with constant leaves and one value per output")
        if tree.columns.size and tree.columns.max() >= n_columns:
            raise f.error(f"a tree uses column {tree.columns.max()} of {n_columns}")
    recent.basis = Basis(trees, f.array("columns", "i", (None,), below=n_columns))
    prior = recent.basis.prior()
    n_basis = len(prior)
    if n_basis > MAX_LEAVES + 1 + MAX_COLUMNS:
        raise f.error(f"{n_basis} coefficients are too many")
    coef = f.array("coef", "f", (n_outputs, n_basis))
    covariance = f.array("covariance", "f", (n_outputs, n_basis, n_basis))
    recent.curvature = f.array("curvature", "f", (n_outputs,))
    if (
        max(np.abs(coef).max(initial=0.0), np.abs(covariance).max(initial=0.0)) > LARGEST
        or (recent.curvature < 0).any()
    ):
        raise f.error("coefficients, covariances or curvatures are out of range")
    for o in range(n_outputs):
        model = RecursiveLeastSquares(prior, FORGETTING)
        model.coef, model.covariance = coef[o].copy(), covariance[o].copy()
        recent.models.append(model)
    f.done()


register(Recent, Codec(_pack, _unpack))
