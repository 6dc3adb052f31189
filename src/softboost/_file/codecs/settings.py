"""Codecs of settings: weak learners, losses, transforms and the parameters of the estimator.

Dataclasses of plain values are checked against their annotations, other objects by their constructors. Custom classes
come only from ``custom_objects``.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

from softboost import losses, transforms
from softboost._boost import tree_libraries
from softboost._boost.alternating import AlternatingTrees
from softboost._boost.anisotropic import AnisotropicProcess
from softboost._boost.boosting import Recipe
from softboost._boost.forest import ExtraTrees
from softboost._boost.gaussian_process import GaussianProcess
from softboost._boost.gradient import GradientTrees, NoisyTrees
from softboost._boost.greedy import GreedyTrees
from softboost._boost.hard_trees import HardTrees
from softboost._choice.choose import Choice
from softboost._file.values import Codec, Fields, ModelFileError, register, register_base
from softboost._kernels import MAX_DEPTH
from softboost.losses import Loss
from softboost.transforms import Diagonal, Linear, Transform

__all__ = ["PARAMETER_KINDS", "SCALARS", "attributes", "conforms", "register_learner"]

Unpack = Callable[[Fields], Any]


def attributes(value: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, not copied."""
    return {f.name: getattr(value, f.name) for f in fields(value)}


# -- dataclasses of plain values ---------------------------------------------------------------------------------------


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value conforms to an annotation; the caller checks protocols."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or getattr(hint, "_is_protocol", False):
        return True
    if origin is Literal:
        return any(type(value) is type(a) and value == a for a in args)
    if origin in (Union, types.UnionType):
        return any(conforms(value, a) for a in args)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return isinstance(value, tuple) and all(conforms(v, args[0]) for v in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(args) and all(map(conforms, value, args))
    if origin is list:
        return isinstance(value, list) and all(conforms(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(conforms(k, args[0]) and conforms(v, args[1]) for k, v in value.items())
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if hint is float:
        return type(value) in (float, int)
    return type(value) is hint if hint in (int, bool, str) else isinstance(value, type(None) if hint is None else hint)


def _unpack_settings(cls: type) -> Unpack:
    """Decoder of a dataclass; entries that older versions did not write get their defaults."""

    def unpack(f: Fields) -> Any:
        values = {}
        for field in fields(cls):
            if field.name not in f.values and (field.default, field.default_factory) != (MISSING, MISSING):
                continue
            value = f.take(field.name, object)
            if not conforms(value, _hints(cls)[field.name]):
                raise f.error(f"{field.name} cannot be {value!r:.80}")
            values[field.name] = value
        if "depth" in values and not 1 <= values["depth"] <= MAX_DEPTH:
            raise f.error(f"depth must be from 1 to {MAX_DEPTH}, got {values['depth']}")
        if "learner" in values and type(values["learner"]) not in _LEARNERS:
            raise f.error(f"{type(values['learner']).__name__} is not a weak learner")
        return cls(**values)

    return unpack


_LEARNERS: set[type] = set()


def register_learner(cls: type) -> None:
    """Allow recipes with weak learners of this class, a dataclass of plain values, in files."""
    _LEARNERS.add(cls)
    register(cls, Codec(attributes, _unpack_settings(cls)))


for _learner in (
    GreedyTrees,
    GradientTrees,
    NoisyTrees,
    AlternatingTrees,
    GaussianProcess,
    AnisotropicProcess,
    ExtraTrees,
):
    register_learner(_learner)


def _unpack_recipe(f: Fields) -> Any:
    """Decode a recipe; files of version 0.1.0 also contain the rule by which its columns were selected."""
    for former in ("screen", "narrow", "for_tables"):
        f.values.pop(former, None)
    return _unpack_settings(Recipe)(f)


register(Recipe, Codec(attributes, _unpack_recipe), tag="Path")
register(Choice, Codec(attributes, _unpack_settings(Choice)))


def _unpack_hard_trees(f: Fields) -> HardTrees:
    estimator = f.take("estimator", (str, dict))
    params = estimator.get("params", {}) if isinstance(estimator, dict) else {}
    if not isinstance(params, dict) or not all(_harmless(name, value) for name, value in params.items()):
        raise f.error("the weak learner has a parameter that files must not set")
    sharpness, n_alternations = f.number("sharpness"), f.integer("n_alternations", 1, 2**31)
    try:
        learner = HardTrees(tree_libraries.from_description(estimator), sharpness, n_alternations)
        learner.check()
    except (ValueError, TypeError, KeyError) as error:
        raise f.error(f"weak learner: {error}") from None
    return learner


def _harmless(name: Any, value: Any) -> bool:
    """Whether a parameter is a number or a single word, not a file or folder that a library might write to."""
    if not isinstance(name, str) or any(part in name for part in ("dir", "file", "path", "callback")):
        return False
    return isinstance(value, (bool, int, float, type(None))) or (isinstance(value, str) and value.isidentifier())


def _pack_hard_trees(learner: HardTrees) -> dict[str, Any]:
    """Prediction does not need the learner, only further fitting does."""
    estimator = tree_libraries.library_of(learner.estimator).describe(learner.estimator)
    return {"estimator": estimator, "sharpness": learner.sharpness, "n_alternations": learner.n_alternations}


_LEARNERS.add(HardTrees)
register(HardTrees, Codec(_pack_hard_trees, _unpack_hard_trees))


# -- losses and transforms ---------------------------------------------------------------------------------------------


def _pack_built_in(value: Any) -> dict[str, Any]:
    return dict(value.get_params(deep=False)) if isinstance(value, BaseEstimator) else dict(vars(value))


def _unpack_built_in(cls: type) -> Unpack:
    """Decoder that calls the constructor, which checks its arguments."""

    def unpack(f: Fields) -> Any:
        values, f.values = f.values, {}
        for name, value in values.items():
            if not isinstance(value, (bool, int, float, str, type(None))) or (
                name != "init" and isinstance(value, str)
            ):
                raise f.error(f"{name} cannot be {value!r:.80}")
        try:
            made = cls(**values)
            if isinstance(made, Transform):
                made.check(2**62)
        except (TypeError, ValueError, OverflowError) as error:
            raise f.error(str(error)) from None
        return made

    return unpack


def _pack_loss(loss: Loss) -> dict[str, Any]:
    return dict(vars(loss))


def _unpack_loss(f: Fields) -> Any:
    """Decode a custom loss with its attributes, in the way of pickle."""
    cls = f.custom(_subclass_of(Loss), "a subclass of softboost.losses.Loss")
    made = cls.__new__(cls)  # without the constructor, whose arguments are unknown
    vars(made).update(f.values)
    f.values = {}
    return made


def _pack_transform(transform: Transform) -> dict[str, Any]:
    if type(transform).__module__ == "softboost.transforms._torch":
        return transform.saved_params()
    return dict(transform.get_params(deep=False))


def _unpack_transform(f: Fields) -> Any:
    """Decode a custom transform with its parameters, or a PyTorch transform from its description."""
    values, f.values = f.values, {}
    try:
        if f.name == "TorchTransform":
            return _torch_transform(f, values)
        return f.custom(_subclass_of(Transform), "a subclass of softboost.transforms.Transform")(**values)
    except TypeError as error:
        raise f.error(f"{f.name} does not accept its saved parameters: {error}") from None


def _torch_transform(f: Fields, values: dict[str, Any]) -> Any:
    if f.name in f.custom_objects:
        return f.custom(lambda value: isinstance(value, Transform), "a transform")
    if values.get("module") is None:
        raise f.error(
            "the model has a TorchTransform with a custom module, and the file contains no code; pass the transform to "
            "load(path, custom_objects={'TorchTransform': transform})"
        )
    try:
        return transforms.TorchTransform.from_saved_params(values)
    except (ValueError, KeyError, AttributeError) as error:
        raise f.error(f"TorchTransform does not accept its saved parameters: {error}") from None


def _subclass_of(base: type) -> Callable[[Any], bool]:
    return lambda cls: isinstance(cls, type) and issubclass(cls, base)


def _unpack_function_loss(f: Fields) -> losses.FunctionLoss:
    pair = f.take("loss", object), f.take("gradient", object)
    if not all(callable(p) for p in pair):
        raise f.error("loss and gradient must be functions")
    return losses.FunctionLoss(*pair)


for _built_in in (*losses.LOSSES.values(), Linear, Diagonal):
    register(_built_in, Codec(_pack_built_in, _unpack_built_in(_built_in)))
register(
    losses.FunctionLoss,
    Codec(lambda loss: {"loss": loss._loss, "gradient": loss._gradient}, _unpack_function_loss),
)
register_base(Loss, Codec(_pack_loss, _unpack_loss))
register_base(Transform, Codec(_pack_transform, _unpack_transform))


# -- parameters of the estimator ---------------------------------------------------------------------------------------


_SPLITTERS = {
    KFold: ("n_splits", "shuffle", "random_state"),
    ShuffleSplit: ("n_splits", "test_size", "train_size", "random_state"),
    TimeSeriesSplit: ("n_splits", "max_train_size", "test_size", "gap"),
}


def _pack_splitter(splitter: Any) -> dict[str, Any]:
    return {name: getattr(splitter, name) for name in _SPLITTERS[type(splitter)]}


def _unpack_splitter(cls: Any) -> Unpack:
    def unpack(f: Fields) -> Any:
        kinds = (bool, int, float, type(None), np.random.RandomState)
        try:
            return cls(**{name: f.take(name, kinds) for name in _SPLITTERS[cls]})
        except (TypeError, ValueError) as error:
            raise f.error(str(error)) from None

    return unpack


for _splitter in _SPLITTERS:
    register(_splitter, Codec(_pack_splitter, _unpack_splitter(_splitter)))


def _pack_random_state(state: np.random.RandomState) -> dict[str, Any]:
    _, keys, position, has_gauss, gauss = state.get_state(legacy=True)
    return {"keys": keys, "position": position, "has_gauss": has_gauss, "gauss": gauss}


def _unpack_random_state(f: Fields) -> np.random.RandomState:
    state = np.random.RandomState(0)
    keys = f.array("keys", "u", (624,))
    state.set_state(("MT19937", keys, f.integer("position", 0, 624), f.integer("has_gauss", 0, 1), f.number("gauss")))
    return state


register(np.random.RandomState, Codec(_pack_random_state, _unpack_random_state))


def _pack_generator(generator: np.random.Generator) -> dict[str, Any]:
    if not isinstance(generator.bit_generator, np.random.PCG64):
        raise ModelFileError(
            f"random_state uses {type(generator.bit_generator).__name__}, which cannot be saved; use "
            "numpy.random.default_rng or an integer"
        )
    return {"state": dict(generator.bit_generator.state)}


def _unpack_generator(f: Fields) -> np.random.Generator:
    generator = np.random.Generator(np.random.PCG64(0))
    try:
        generator.bit_generator.state = f.take("state", dict)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise f.error(f"the value is not the state of a PCG64 generator: {error}") from None
    return generator


register(np.random.Generator, Codec(_pack_generator, _unpack_generator))

SCALARS = (bool, int, float, str, type(None))
PARAMETER_KINDS: dict[str, tuple[type, ...]] = {
    "loss": (str, tuple, Loss),
    "feature_transform": (str, type(None), Transform),
    "cv": (*SCALARS, list, tuple, *_SPLITTERS),
    "categorical_features": (str, type(None), list, tuple, np.ndarray),
    "random_state": (int, type(None), np.random.RandomState, np.random.Generator),
    "weak_learner": (str, HardTrees),
}
