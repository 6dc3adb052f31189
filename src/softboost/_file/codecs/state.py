"""Codecs of the parts of a fitted model, with their validation.

Each part is checked by itself (consistent shapes, indices in range, finite numbers), and :func:`_check_fitted` checks
the parts against each other. A model that passes is as safe to use as one that was fitted here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol, get_type_hints

import numpy as np
from numpy.typing import NDArray

from softboost._boost.boosting import Boosted, Recipe
from softboost._boost.gaussian_process import KernelFunction
from softboost._boost.hard_trees import make_hard_trees
from softboost._boost.soft_tree import SoftTree
from softboost._choice.choose import Choice
from softboost._data.categories import TargetMeans
from softboost._data.columns import Columns
from softboost._data.dates import WAVES, WEEKDAYS
from softboost._data.units import Units
from softboost._file.values import Codec, Fields, register
from softboost._kernels import FARTHEST
from softboost._linear.anchor import Anchor
from softboost._linear.path import LinearPath
from softboost._model.fitted import FittedModel
from softboost._model.intervals import N_OWN, Intervals, Scores, Size
from softboost._model.member import Member
from softboost.transforms import Diagonal, Linear, Transform

from .functions import FUNCTIONS, outputs_of
from .settings import PARAMETER_KINDS, SCALARS, attributes, conforms

__all__ = ["register_estimator"]

Array = NDArray[Any]
LEAST_SPREAD = 1e-308
MAX_THREADS = 1024
NAMES = {  # other names end in "_"
    "y_ndim": "_y_ndim",
    "raw_bounds": "_raw_bounds",
    "recent": "_recent",
    "intervals": "_intervals",
}
DERIVED = ("n_estimators_", "n_outputs_")  # redundant entries of older files


# -- columns, members --------------------------------------------------------------------------------------------------


def _unpack_linear(f: Fields) -> LinearPath:
    coefficients = f.array("coefficients", "f", (None, None, None))
    intercepts = f.array("intercepts", "f", coefficients.shape[:2])
    if len(coefficients) < 1:
        raise f.error("a linear model has no stage")
    return LinearPath(coefficients, intercepts)


def _pack_boosted(boosted: Boosted) -> dict[str, Any]:
    """Encode a boosted model; files call the recipe ``path``, its original name."""
    fields = {"path" if name == "recipe" else name: value for name, value in attributes(boosted).items()}
    return fields | {"rounds": list(boosted.rounds)}


def _unpack_boosted(f: Fields) -> Boosted:
    recipe = f.take("path", Recipe)
    columns = f.array("columns", "i", (None,), below=2**31)
    rounds = f.take("rounds", list)
    for pair in rounds:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], FUNCTIONS)):
            raise f.error("a round must be a pair of the parameters of a transform and a tree")
        _check_theta(f, recipe.transform, pair[0], pair[1], len(columns))
    train_loss = f.take("train_loss", list)
    if not all(isinstance(v, (int, float)) for v in train_loss):
        raise f.error("train_loss must be a list of numbers")
    return Boosted(recipe, columns, f.number("learning_rate"), rounds, train_loss)


def _check_theta(f: Fields, transform: Transform | None, theta: Any, tree: Any, n_inputs: int) -> None:
    """Check that the parameters match the transform and that the tree uses only its components."""
    if transform is None:
        if theta is not None:
            raise f.error("there are parameters of a transform, but no transform")
        n_components = n_inputs
    else:
        if not isinstance(theta, np.ndarray) or theta.dtype.kind != "f" or not np.isfinite(theta).all():
            raise f.error("the parameters of a transform must be an array of finite numbers")
        n_components = _n_components(f, transform, theta, n_inputs)
    if isinstance(tree, KernelFunction):
        if len(tree.centres) != n_components:
            raise f.error(f"a Gaussian process has {len(tree.centres)} columns instead of {n_components}")
        return
    used = tree.columns if isinstance(tree, SoftTree) else tree.feature
    if used.size and used.max() >= n_components:
        raise f.error(f"a tree uses component {used.max()} of {n_components}")


def _n_components(f: Fields, transform: Transform, theta: Array, n_inputs: int) -> int:
    if isinstance(transform, (Linear, Diagonal)):
        wanted = 2 if isinstance(transform, Linear) else 1
        if theta.ndim != wanted or theta.shape[-1] != n_inputs:
            raise f.error(
                f"parameters of shape {theta.shape} do not match {type(transform).__name__} on {n_inputs} columns"
            )
        return int(theta.shape[0])
    _check_recipe(f, transform, theta.size)
    try:
        return int(transform.apply(theta, np.zeros((1, n_inputs), dtype=theta.dtype)).shape[1])
    except Exception as error:
        raise f.error(f"{type(transform).__name__} does not accept its saved parameters: {error}") from error


def _check_recipe(f: Fields, transform: Transform, n_parameters: int) -> None:
    """Check that no size of a network exceeds the number of its weights, so that building it is cheap."""
    saved: dict[str, Any] = getattr(transform, "saved_params", dict)()
    rest = [saved.get("module")]
    while rest:
        value = rest.pop()
        if isinstance(value, (dict, list, tuple)):
            rest += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and value > max(n_parameters, 64):
            raise f.error(f"a network with a size of {value} cannot have {n_parameters} weights")


def _unpack_member(f: Fields) -> Member:
    boosted = f.take("boosted", (Boosted, type(None)))
    n_rounds = len(boosted.rounds) if boosted is not None else 2**31
    linear, anchor = f.take("linear", LinearPath), f.take("anchor", (Anchor, type(None)))
    return Member(f.take("name", str), f.number("weight"), f.integer("stage", 0, n_rounds), linear, boosted, anchor)


def _unpack_anchor(f: Fields) -> Anchor:
    scale = f.array("scale", "f", (None,))
    slope = f.array("slope", "f", (None,))
    return Anchor(
        column=f.integer("column", 0, len(scale) - 1),
        slope=slope,
        offset=f.array("offset", "f", slope.shape),
        scale=scale,
        share=f.array("share", "f", scale.shape),
        shift=f.array("shift", "f", scale.shape),
        error=f.number("error"),
        n_alike=f.integer("n_alike", 0, len(scale)),
    )


def _unpack_units(f: Fields) -> Units:
    centre = f.array("centre", "f", (None,))
    y_centre = f.array("y_centre", "f", (None,))
    spread = _spread(f, "spread", len(centre))
    # predictions are multiplied by the spread of y, not divided, so it may be subnormal
    y_spread = _spread(f, "y_spread", len(y_centre), least=5e-324)
    return Units(centre, spread, y_centre, y_spread, *_limits(f, len(centre)))


def _limits(f: Fields, n_columns: int) -> tuple[Array | None, Array | None]:
    """The limits of the columns; None in older files, which have no limits."""
    absent = [name for name in ("low", "high") if f.values.get(name) is None]
    for name in absent:
        f.values.pop(name, None)
    if len(absent) == 2:
        return None, None
    low, high = f.array("low", "f", (n_columns,)), f.array("high", "f", (n_columns,))
    if not (np.all(low <= high) and max(np.abs(low).max(), np.abs(high).max()) <= FARTHEST):
        raise f.error("low and high must be lower and upper limits of standardised columns")
    return low, high


def _spread(f: Fields, name: str, length: int, least: float = LEAST_SPREAD) -> Array:
    a = f.array(name, "f", (length,))
    if a.size and not a.min() >= least:
        raise f.error(f"{name} contains a number that is not positive")
    return a


def _unpack_columns(f: Fields) -> Columns:
    for name in ("centre", "spread", "source"):  # redundant entries of older files
        f.values.pop(name, None)
    n_features = f.integer("n_features", 1, 2**31)
    categories = f.take("categories", dict)
    missing = f.array("missing", "i", (None,), below=n_features)
    for j, names in categories.items():
        if type(j) is not int or not 0 <= j < n_features or not conforms(names, list[str]):
            raise f.error("categories must map column indices to lists of strings")
    codes = f.take("codes", dict) if "codes" in f.values else {}  # older files have none
    for j, numbers in codes.items():
        if type(j) is not int or not 0 <= j < n_features or not conforms(numbers, list[float]):
            raise f.error("codes must map column indices to lists of numbers")
    dates, means = (f.take(name, dict) if name in f.values else {} for name in ("dates", "means"))  # not in older files
    for j, parts in dates.items():
        known = conforms(parts, list[str]) and set(parts) <= {*WAVES, *WEEKDAYS}
        if type(j) is not int or not 0 <= j < n_features or j in categories or not known:
            raise f.error("dates must map column indices to parts of the calendar")
    for j, one in means.items():
        if j not in categories or not isinstance(one, TargetMeans):
            raise f.error("means must map columns of categories to means of the target")
    return Columns(n_features, categories, missing, codes, dates, means)


def _unpack_means(f: Fields) -> TargetMeans:
    names = f.take("names", list)
    if not conforms(names, list[str]) or len(set(names)) < len(names):
        raise f.error("names must be distinct strings")
    return TargetMeans(names, f.array("means", "f", (len(names) + 1, None)))


def _unpack_scores(f: Fields) -> Scores:
    value = f.array("value", "f", (None, None))
    position = f.array("position", "f", value.shape)
    size, total = f.array("root_mean_square", "f", value.shape[:1]), f.number("total")
    ascending = np.all(np.diff(value, axis=1) >= 0) and np.all(np.diff(position, axis=1) >= 0)
    if not (value.shape[1] and ascending and np.all(position > 0) and np.all(size >= 0) and total > 0):
        raise f.error("the scores of prediction intervals must be a quantile function")
    return Scores(position, value, size, total)


def _unpack_size(f: Fields) -> Size:
    coefficients = f.array("coefficients", "f", (None, None))
    names = ("intercept", "low", "high", "centre", "spread")
    size = Size(coefficients, *(f.array(name, "f", coefficients.shape[:1]) for name in names))
    if not (np.all(size.low <= size.high) and np.all(np.abs([size.low, size.high]) < 100) and np.all(size.spread > 0)):
        raise f.error("the size of errors must have a positive spread and a range from low to high")
    return size


def _unpack_intervals(f: Fields) -> Intervals:
    return Intervals(f.take("scores", Scores), f.take("size", Size))


register(Scores, Codec(attributes, _unpack_scores))
register(Size, Codec(attributes, _unpack_size))
register(Intervals, Codec(attributes, _unpack_intervals))
register(LinearPath, Codec(attributes, _unpack_linear))
register(Boosted, Codec(_pack_boosted, _unpack_boosted))
register(Anchor, Codec(attributes, _unpack_anchor))
register(Member, Codec(attributes, _unpack_member))
register(Units, Codec(attributes, _unpack_units))
register(TargetMeans, Codec(attributes, _unpack_means))
register(Columns, Codec(attributes, _unpack_columns))


# -- the estimator -----------------------------------------------------------------------------------------------------


class _Estimator(Protocol):
    """The interface of the regressor, which is in a higher layer."""

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def _check_params(self) -> None: ...


def register_estimator(cls: type) -> None:
    """Allow the regressor in files, fitted or not, at the top level or inside another model."""
    register(cls, Codec(_pack_estimator, lambda f: _unpack_estimator(cls, f)), model=True)


def _pack_estimator(model: _Estimator) -> dict[str, Any]:
    model._check_params()
    params = model.get_params(deep=False)
    params["weak_learner"] = make_hard_trees(params["weak_learner"]) or "soft"
    fitted = vars(model).get("_fitted")
    return {"params": params, "fitted": {} if fitted is None else _pack_fitted(fitted)}


def _unpack_estimator(cls: type, f: Fields) -> Any:
    params, fitted = f.take("params", dict), f.take("fitted", dict)
    for name, value in params.items():
        if not isinstance(value, PARAMETER_KINDS.get(name, SCALARS)):
            raise f.error(f"the parameter {name} cannot be {value!r:.80}")
    try:
        model = cls(**params)  # parameters that older versions did not have get their defaults
        model._check_params()
    except (TypeError, ValueError, OverflowError) as error:
        raise f.error(f"parameters: {error}") from None
    if model.n_jobs is not None and (type(model.n_jobs) is not int or not 1 <= abs(model.n_jobs) <= MAX_THREADS):
        raise f.error(f"n_jobs must be between -{MAX_THREADS} and {MAX_THREADS}, got {model.n_jobs!r}")
    if fitted:
        model._take(_unpack_fitted(f.inner(fitted, "fitted")))
    return model


def _saved_fields() -> dict[str, str]:
    """Fields of a fitted model, by their names in files."""
    return {NAMES.get(field.name, f"{field.name}_"): field.name for field in fields(FittedModel)}


def _pack_fitted(fitted: FittedModel) -> dict[str, Any]:
    values = {saved: getattr(fitted, name) for saved, name in _saved_fields().items()}
    return {saved: value for saved, value in values.items() if value is not None or saved == "choice_"}


def _unpack_fitted(f: Fields) -> FittedModel:
    """Decode a fitted model; each field must conform to its annotation, and the fields must be consistent."""
    hints, values = get_type_hints(FittedModel), {}
    for name in DERIVED:
        f.values.pop(name, None)
    for saved, name in _saved_fields().items():
        value = f.values.pop(saved, None)
        if not conforms(value, hints[name]):
            raise f.error(f"{saved} is missing or has the invalid value {value!r:.80}")
        values[name] = value
    f.done()
    fitted = FittedModel(**values)
    _check_fitted(f, fitted)
    return fitted


def _check_fitted(f: Fields, m: FittedModel) -> None:
    """Check that the fields of a fitted model are consistent."""
    n_columns, n_outputs, n_features = len(m.units.centre), len(m.units.y_centre), m.columns.n_features
    if n_outputs < 1:
        raise f.error("the model has no output")
    if m.columns.n_encoded != n_columns:
        raise f.error(f"columns_ gives {m.columns.n_encoded} columns, but units_ has {n_columns}")
    if m.n_features_in != n_features:
        raise f.error(f"n_features_in_ must be {n_features}, got {m.n_features_in}")
    if not isinstance(m.choice, (Choice, type(None))):
        raise f.error(f"choice_ cannot be {m.choice!r:.80}")
    if m.y_ndim not in ((1, 2) if n_outputs == 1 else (2,)):
        raise f.error(f"y has {m.y_ndim} dimensions, but there are {n_outputs} outputs")
    for i, member in enumerate(m.members):
        _check_member(f, i, member, n_columns, n_outputs)
    _check_bounds(f, m.raw_bounds, n_outputs)
    if m.recent is not None and (m.recent.X.shape[1], m.recent.y.shape[1]) != (n_columns, n_outputs):
        raise f.error(f"_recent has rows with {m.recent.X.shape[1]} columns and {m.recent.y.shape[1]} outputs")
    _check_intervals(f, m.intervals, n_columns, n_outputs)
    names = m.feature_names_in
    if names is not None and (names.dtype != object or names.shape != (n_features,)):
        raise f.error(f"feature_names_in_ must contain {n_features} strings, one per column")
    if names is not None and len(set(names)) < len(names):
        raise f.error("feature_names_in_ contains a name twice")
    _check_memory(f, m.members)
    _check_finite(f, m)


def _check_intervals(f: Fields, intervals: Intervals | None, n_columns: int, n_outputs: int) -> None:
    if intervals is None:
        return
    n_scores, shape = len(intervals.scores.value), intervals.size.coefficients.shape
    if n_scores != n_outputs or shape not in ((n_outputs, N_OWN), (n_outputs, N_OWN + n_columns)):
        raise f.error(f"_intervals have {n_scores} outputs and coefficients of shape {shape}")


def _check_member(f: Fields, i: int, member: Member, n_columns: int, n_outputs: int) -> None:
    if member.linear.coefficients.shape[1:] != (n_outputs, n_columns):
        raise f.error(f"members_[{i}]: the linear part has shape {member.linear.coefficients.shape[1:]}")
    if member.anchor is not None and (len(member.anchor.slope), len(member.anchor.scale)) != (n_outputs, n_columns):
        raise f.error(f"members_[{i}]: the anchor has {len(member.anchor.scale)} columns instead of {n_columns}")
    if member.boosted is None:
        return
    used = member.boosted.columns
    if used.size and used.max() >= n_columns:
        raise f.error(f"members_[{i}]: a tree uses column {used.max()} of {n_columns}")
    for _, tree in member.boosted.rounds:
        own = outputs_of(tree)
        if own != n_outputs:
            raise f.error(f"members_[{i}]: a round has {own} outputs instead of {n_outputs}")


def _check_memory(f: Fields, members: list[Member]) -> None:
    """Compute the memory of gates multiplied with Q, which can be far larger than both, before it is allocated."""
    total = largest = 0
    for member in members:
        if member.boosted is None or member.boosted.recipe.transform is None:
            continue
        width = len(member.boosted.columns)
        for theta, tree in member.boosted.rounds[: member.stage]:
            assert theta is not None
            if not isinstance(tree, SoftTree):
                continue
            rows = 2**tree.depth * (1 if tree.leaf_weights is None else 1 + tree.leaf_values.shape[1])
            total += 8 * width * rows
            largest = max(largest, 8 * width * (width if theta.ndim == 1 else len(theta)))
    f.budget.spend(max(total, largest), f.where)


def _check_finite(f: Fields, m: FittedModel) -> None:
    with np.errstate(all="ignore"):
        arrays = m.ensemble.arrays()
    for name, a in arrays.items():
        if not np.isfinite(a).all():
            raise f.error(f"the numbers of the model overflow when they are combined ({name})")


def _check_bounds(f: Fields, bounds: tuple[Array, Array], n_outputs: int) -> None:
    inner = f.inner(dict(zip(("low", "high"), bounds, strict=True)), "_raw_bounds")
    low, high = (inner.array(name, "f", (n_outputs,), finite=False) for name in ("low", "high"))
    if not np.all(low <= high):
        raise f.error("_raw_bounds must be a pair of lower and upper bounds")
