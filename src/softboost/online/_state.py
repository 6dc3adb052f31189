"""Converts an online model to plain values and arrays and back, with validation."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from softboost._data.checks import LARGEST

from ._growth import TreeGrower
from ._parts import RecentRows, RowEncoder, check_trees

__all__ = ["check_range", "check_size", "of_present_form", "pack", "unpack", "unpack_encoder", "with_spread"]

Array = NDArray[Any]
MAY_HOLD_NAN = {"X"}
MAY_BE_EMPTY = {"rows", "columns"}
NEVER_NEGATIVE = {"count", "spread", "scale", "errors", "used", "grown", "weight", "most", "known", "streak"}
LARGEST_COUNT = 2**53
FAR = 30.0  # errors of an expert without weight, relative to the largest of the others
SETTINGS = {"depth", "forgetting", "memory", "prior", "seed"}  # derived from the parameters


def pack(parts: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the parts by name; arrays are copied."""
    return {name: _pack_part(part) for name, part in parts.items()}


def _pack_part(part: Any) -> Any:
    if isinstance(part, RowEncoder):
        return [[name, kind] for name, kind in part.slots][1:]  # every encoder has the first one
    if isinstance(part, np.ndarray):
        return part.copy()
    if isinstance(part, (int, float)):
        return part
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in _learned(part).items()}


def _learned(part: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(part).items() if k not in SETTINGS and not k.startswith("_")}


def check_size(params: dict[str, Any], rows: Any, n_leaf_coefficients: Any) -> None:
    """Check that the state has the size of a model with these parameters."""
    check_trees(params["n_trees"], params["depth"])
    basis = rows.get("basis") if isinstance(rows, dict) else None
    least = n_leaf_coefficients(params["n_trees"], params["depth"]) + 2
    if not isinstance(basis, np.ndarray) or basis.ndim != 2 or basis.shape[1] < least:
        raise ValueError(f"state['rows']['basis'] must be a matrix with at least {least} columns")
    if params["buffer_size"] != len(basis):
        raise ValueError(f"state['rows'] must have buffer_size={params['buffer_size']!r:.80} rows, got {len(basis)}")


def unpack_encoder(encoder: RowEncoder, pairs: Any) -> None:
    """Restore the slots of an encoder."""
    if not isinstance(pairs, list) or len(pairs) > encoder.max_features:
        raise ValueError(f"encoder must be a list of at most {encoder.max_features} pairs")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], Hashable):
            raise ValueError(f"encoder must contain pairs of a name and a kind, got {pair!r:.80}")
        if not (pair[1] is None or (isinstance(pair[1], str) and pair[1][:1] in ("=", "@"))):
            raise ValueError(f"encoder: the kind {pair[1]!r:.80} is unknown")
        if tuple(pair) in encoder.slots:
            raise ValueError(f"encoder contains {pair!r:.80} twice")
        encoder.add((pair[0], pair[1]))


def of_present_form(experts: Any, n_bases: int) -> Any:
    """The experts of an older state: with absolute instead of squared errors, and with the previous target twice.

    In a state without the previous target, its large errors give it no weight at first.
    """
    if not isinstance(experts, dict) or experts.keys() != {"levels", "losses", "mass"}:
        return experts
    levels, losses, mass = experts["levels"], experts["losses"], experts["mass"]
    if not _has_older_size(levels, n_bases) or not _has_older_size(losses, n_bases) or not isinstance(mass, float):
        return experts
    if not (np.isfinite(levels).all() and (losses >= 0).all() and np.isfinite(losses).all() and 0 <= mass < math.inf):
        raise ValueError("experts: levels, losses and mass must be finite, and losses and mass not negative")
    errors = np.sqrt(losses * mass)
    knows_last = len(levels) == n_bases - 1
    level, error = (levels[-1:], errors[-1:]) if knows_last else (np.zeros((1, 3)), np.full((1, 3), FAR * errors.max()))
    n_new = n_bases - len(levels)
    levels, errors = np.vstack([levels, *[level] * n_new]), np.vstack([errors, *[error] * n_new])
    return {"levels": levels, "errors": errors, "mass": mass}


def with_spread(units: Any) -> Any:
    """The units of an older state, which have variances, with standard deviations."""
    if not isinstance(units, dict) or "variance" not in units or "spread" in units:
        return units
    units = dict(units)
    variance = units.pop("variance")
    with np.errstate(invalid="ignore"):  # NaN is refused later
        units["spread"] = np.sqrt(variance) if _is_vector(variance) else variance
    return units


def _is_vector(value: Any) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _has_older_size(value: Any, n_bases: int) -> TypeGuard[Array]:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape in ((n_bases - 1, 3), (n_bases - 2, 3))
    )


def unpack(parts: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Restore a packed state into the parts of a new model with the same features; return plain values and arrays.

    Every shape and type must match the new model, whose parameters and features determine them.
    """
    if not isinstance(state, dict) or state.keys() != parts.keys():
        raise ValueError(f"the state must have the entries {sorted(parts)}")
    plain = {}
    for name, part in parts.items():
        if isinstance(part, RowEncoder):
            continue
        if isinstance(part, (np.ndarray, int, float)):
            plain[name] = _checked(name, state[name], part)
            continue
        own = _learned(part)
        if not isinstance(state[name], dict) or state[name].keys() != own.keys():
            raise ValueError(f"{name} must have the entries {sorted(own)}")
        for k, v in own.items():
            setattr(part, k, _checked(k, state[name][k], v))
        _check_indices(name, part, parts)
    return plain


def _checked(name: str, value: Any, like: Any) -> Any:
    if not isinstance(like, np.ndarray):
        most = LARGEST_COUNT if isinstance(like, int) else LARGEST
        if type(value) is not type(like) or not 0 <= value <= most:
            raise ValueError(f"{name} must be a {type(like).__name__} from 0 to {most:g}, got {value!r:.80}")
        return value
    free = name in MAY_BE_EMPTY and like.ndim == 1
    if not isinstance(value, np.ndarray) or value.dtype != like.dtype or (value.shape != like.shape and not free):
        raise ValueError(f"{name} must be an array of shape {like.shape} and dtype {like.dtype}")
    if value.ndim != like.ndim:
        raise ValueError(f"{name} has {value.ndim} dimensions instead of {like.ndim}")
    if value.dtype.kind == "f" and name != "range":
        _check_numbers(name, value)
    return np.array(value, order="C")


def _check_numbers(name: str, value: Array) -> None:
    """Check that the numbers are finite and small enough for updates not to overflow."""
    least = 0.0 if name in NEVER_NEGATIVE else -LARGEST
    fine = (value >= least) & (value <= LARGEST)
    if name in MAY_HOLD_NAN:
        fine |= np.isnan(value)
    if not fine.all():
        raise ValueError(f"{name} contains NaN or a number outside {least:g} to {LARGEST:g}")


def check_range(bounds: Array, n_rows_seen: int) -> None:
    """Check the smallest and the largest target seen."""
    if n_rows_seen and not (-LARGEST <= bounds[0] <= bounds[1] <= LARGEST):
        raise ValueError(f"range must be the smallest and the largest target, got {bounds.tolist()}")


def _check_indices(name: str, part: Any, parts: dict[str, Any]) -> None:
    """Check that indices of rows and columns are in range."""
    recent: RecentRows = parts["rows"]
    size, n_features = recent.X.shape
    if isinstance(part, RecentRows) and not (0 <= part.end < size and 0 <= part.n_rows <= size):
        raise ValueError(f"{name} cannot have {part.n_rows} rows up to position {part.end} in a buffer of {size}")
    for a, limit in (
        (getattr(part, "columns", None), n_features),
        (part.rows if isinstance(part, TreeGrower) else None, size),
    ):
        if a is not None and a.size and not (a.min() >= 0 and a.max() < limit):
            raise ValueError(f"{name} contains an index of a row or column outside 0 to {limit - 1}")
