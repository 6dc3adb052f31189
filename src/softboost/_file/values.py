"""Values in the header of a model file: conversion of Python values to JSON and back, with validation.

Arrays are stored separately and referred to by index. Objects are created only for classes in a fixed table, in which
modules register a :class:`Codec` for each of their classes. A file cannot name code to execute; custom classes and
functions come only from ``custom_objects``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DEFAULT_MEMORY",
    "DTYPES",
    "Budget",
    "Codec",
    "Decoder",
    "Encoder",
    "Fields",
    "ModelFileError",
    "register",
    "register_base",
]

Array = NDArray[Any]

MAX_NESTING: Final = 64
DEFAULT_MEMORY: Final = 2**30
DTYPES: Final = {name: np.dtype(name) for name in ("<f4", "<f8", "<i4", "<i8", "<u4", "|u1", "|b1")}


class ModelFileError(ValueError):
    """Raised for a file that is not a valid model, and for a model that cannot be saved."""


class Budget:
    """Limit of the memory that a model needs beyond its file, since a small file could request any amount."""

    def __init__(self, limit: float = DEFAULT_MEMORY) -> None:
        self.limit = self.left = limit

    def spend(self, n_bytes: int, where: str) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise ModelFileError(
                f"{where}: for prediction the model needs more than {self.limit:,} bytes of memory; if you trust the "
                "file, raise the limit with load(path, memory_limit=...)"
            )


@dataclass(frozen=True)
class Codec:
    """Converts objects of one class to named values and back, with validation."""

    pack: Callable[[Any], dict[str, Any]]
    unpack: Callable[[Fields], Any]


_CODECS: dict[str, tuple[type, Codec]] = {}
_TAGS: dict[type, str] = {}
_MODELS: set[str] = set()
_BASES: list[tuple[type, Codec]] = []
# Kinds of models whose modules are imported only when a file contains one.
_LAZY = {"Forecaster": "softboost.forecast", "OnlineSoftBoostRegressor": "softboost.online"}


def register(cls: type, codec: Codec, *, model: bool = False, tag: str | None = None) -> None:
    """Allow objects of exactly this class in files; with ``model``, also as the top-level object of a file.

    Files identify the class by its ``tag``, which never changes; by default it is the name of the class.
    """
    tag = cls.__name__ if tag is None else tag
    _CODECS[tag] = cls, codec
    _TAGS[cls] = tag
    if model:
        _MODELS.add(tag)


def register_base(cls: type, codec: Codec) -> None:
    """Allow objects of custom subclasses in files; ``load`` takes the subclass from ``custom_objects``.

    The ``unpack`` of the codec finds the subclass through ``Fields.custom``.
    """
    _BASES.append((cls, codec))


class Encoder:
    """Converts values to JSON and collects the arrays."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.custom_objects: dict[str, Any] = {}  # objects to pass to load

    def encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, (bool, np.bool_)):
            return None if value is None else bool(value)
        if isinstance(value, str):
            return _text(str(value), where)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, (float, np.floating)):
            return float(value) if math.isfinite(value) else {"$": "float", "value": repr(float(value))}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list):
            return [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
        if isinstance(value, tuple):
            return {"$": "tuple", "items": [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if isinstance(value, dict):
            items = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"$": "dict", "items": items}
        if isinstance(value, FunctionType):
            return self._function(value, where)
        return self._object(value, where)

    def _array(self, a: Array, where: str) -> Any:
        if a.dtype.kind in "OU" and all(isinstance(v, str) for v in a.ravel()) and a.ndim == 1:
            return {"$": "names", "items": [_text(str(v), where) for v in a]}
        if a.dtype.newbyteorder("<").str not in DTYPES:
            raise ModelFileError(f"{where} is an array of dtype {a.dtype}, which cannot be saved")
        self.arrays.append(a)
        return {"$": "array", "index": len(self.arrays) - 1}

    def _function(self, f: FunctionType, where: str) -> Any:
        if not f.__name__.isidentifier():
            raise ModelFileError(
                f"{where} is a {f.__name__} function, which cannot be saved; define it with def and a name, and pass "
                "it to load as custom_objects={name: function}"
            )
        self.custom_objects[f.__name__] = f
        return {"$": "function", "name": f.__name__}

    def _object(self, value: Any, where: str) -> Any:
        cls = type(value)
        if cls in _TAGS:
            tag, codec = _TAGS[cls], _CODECS[_TAGS[cls]][1]
            return {"$": tag, **self._fields(codec.pack(value), f"{where}.")}
        for base, codec in _BASES:
            if isinstance(value, base):
                fields = self.encode(codec.pack(value), where)
                self.custom_objects[cls.__name__] = value if cls.__name__ == "TorchTransform" else cls
                return {"$": "custom", "name": cls.__name__, "base": base.__name__, "fields": fields}
        raise ModelFileError(
            f"{where} is a {cls.__module__}.{cls.__qualname__}, which cannot be saved. If it is a parameter that is "
            "needed only for fitting, change it with set_params before saving"
        )

    def _fields(self, fields: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(v, where + name) for name, v in fields.items()}


class Decoder:
    """Creates values from JSON; each array may be used once."""

    def __init__(self, arrays: list[Array | None], custom_objects: Mapping[str, Any], budget: Budget) -> None:
        self.arrays, self.custom_objects, self.budget = arrays, custom_objects, budget
        self.plain: dict[str, Callable[[Fields], Any]] = {
            "float": _float,
            "tuple": lambda f: tuple(f.take("items", list)),
            "dict": _dict,
            "names": _names,
            "array": self._array,
            "function": self._function,
            "custom": self._custom_object,
        }

    def decode_model(self, value: Any) -> Any:
        """The top-level object of a file."""
        tag = value["$"]
        self._unpacker(tag, "model")
        if tag not in _MODELS:
            raise ModelFileError(f"the file contains a {tag!r:.80}, which is not a model")
        return self.decode(value, "model")

    def decode(self, value: Any, where: str, depth: int = 0) -> Any:
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            return _text(value, where)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ModelFileError(f"{where}: a number is too large")
            return value
        if depth > MAX_NESTING:
            raise ModelFileError(f"{where}: nested too deeply")
        if isinstance(value, list):
            return [self.decode(v, where, depth + 1) for v in value]
        tag = value.get("$")
        if not isinstance(tag, str):
            raise ModelFileError(f"{where}: an object has no class")
        unpack = self._unpacker(tag, where)
        values = {k: self.decode(v, f"{where}.{k}", depth + 1) for k, v in value.items() if k != "$"}
        fields = Fields(values, where, budget=self.budget)
        made = unpack(fields)
        fields.done()
        return made

    def _unpacker(self, tag: str, where: str) -> Callable[[Fields], Any]:
        if tag in self.plain:
            return self.plain[tag]
        if tag not in _CODECS and tag in _LAZY:
            with suppress(ImportError):
                import_module(_LAZY[tag])
        if tag not in _CODECS:
            raise ModelFileError(f"{where}: the class {tag!r} is unknown to this version of softboost")
        return _CODECS[tag][1].unpack

    def _array(self, fields: Fields) -> Array:
        index = fields.integer("index", 0, len(self.arrays) - 1)
        a = self.arrays[index]
        if a is None:
            raise fields.error(f"array {index} is used twice")
        self.arrays[index] = None
        return a

    def _function(self, fields: Fields) -> Any:
        name = fields.take("name", str)
        return Fields({}, fields.where, name, self.custom_objects).custom(callable, "a function")

    def _custom_object(self, fields: Fields) -> Any:
        name, base_name, values = fields.take("name", str), fields.take("base", str), fields.take("fields", dict)
        if not all(isinstance(k, str) for k in values):
            raise fields.error("the names of fields must be strings")
        for base, codec in _BASES:
            if base.__name__ == base_name:
                inner = Fields(values, f"{fields.where}.fields", name, self.custom_objects)
                made = codec.unpack(inner)
                inner.done()
                return made
        raise fields.error(f"the base class {base_name!r} is unknown to this version of softboost")


def _text(value: str, where: str) -> str:
    """Check that a string is valid Unicode, without lone surrogates."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ModelFileError(f"{where}: {value!r} is not valid Unicode; rename it") from None
    return value


def _float(fields: Fields) -> float:
    text = fields.take("value", str)
    if text not in ("nan", "inf", "-inf"):
        raise fields.error(f"the number must be nan, inf or -inf, got {text!r}")
    return float(text)


def _names(fields: Fields) -> Array:
    items = fields.take("items", list)
    if not all(isinstance(v, str) for v in items):
        raise fields.error("names must be strings")
    return np.array(items, dtype=object)


def _dict(fields: Fields) -> dict[Any, Any]:
    items = fields.take("items", list)
    if not all(isinstance(i, list) and len(i) == 2 and isinstance(i[0], (str, int)) for i in items):
        raise fields.error("a dict must be a list of pairs; keys must be strings or integers")
    # The hash of an integer is its remainder modulo 2**61 - 1, so a file could contain many large keys with the same
    # hash, and a dict would take quadratic time. Hashes of strings are randomised.
    if not all(isinstance(k, str) or abs(k) < 2**31 for k, _ in items):
        raise fields.error("a dict has a key that is too large")
    made = dict(items)
    if len(made) < len(items):
        raise fields.error("a dict has a duplicate key")
    return made


class Fields:
    """The named values of one object in a file; every accessor checks the value."""

    def __init__(
        self,
        values: dict[str, Any],
        where: str,
        name: str = "",
        custom_objects: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.values, self.where = values, where
        self.name, self.custom_objects = name, custom_objects or {}
        self.budget = budget or Budget()

    def inner(self, values: dict[str, Any], name: str) -> Fields:
        """The values of a nested dict."""
        return Fields(values, f"{self.where}.{name}", budget=self.budget)

    def error(self, text: str) -> ModelFileError:
        return ModelFileError(f"{self.where}: {text}")

    def custom(self, fits: Callable[[Any], bool], what: str) -> Any:
        """The custom class, object or function for the name in the file."""
        if self.name not in self.custom_objects:
            raise self.error(
                f"the model uses {what} named {self.name!r}, which is not part of softboost; pass it to "
                f"load(path, custom_objects={{{self.name!r}: ...}})"
            )
        value = self.custom_objects[self.name]
        if not fits(value):
            raise self.error(f"custom_objects[{self.name!r}] is not {what}: {value!r}")
        return value

    def done(self) -> None:
        """Raise an error if values remain."""
        if self.values:
            raise self.error(f"unknown entries {sorted(self.values)}")

    def take(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """A value of the given class; integers are accepted as float, Booleans only as bool."""
        if name not in self.values:
            raise self.error(f"{name} is missing")
        value = self.values.pop(name)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if float in kinds and type(value) is int:
            kinds = (*kinds, int)
        if not isinstance(value, kinds) or (isinstance(value, bool) and not {bool, object} & set(kinds)):
            wanted = " or ".join(k.__name__ for k in kinds)
            raise self.error(f"{name} must be {wanted}, got {type(value).__name__}")
        return value

    def integer(self, name: str, least: int, most: int) -> int:
        value: int = self.take(name, int)
        if not least <= value <= most:
            raise self.error(f"{name} must be from {least} to {most}, got {value}")
        return value

    def number(self, name: str) -> float:
        """A finite number."""
        try:
            value = float(self.take(name, float))
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.error(f"{name} must be a finite number")
        return value

    def array(
        self, name: str, kind: str, shape: tuple[int | None, ...], *, finite: bool = True, below: int | None = None
    ) -> Array:
        """An array of floats (kind "f") or integers ("i") of the given shape; with ``below``, indices in [0, below)."""
        a: Array = self.take(name, np.ndarray)
        if a.dtype.kind != kind:
            raise self.error(f"{name} has dtype {a.dtype}")
        if a.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, a.shape, strict=True)):
            raise self.error(f"{name} has shape {a.shape} instead of {shape}")
        if finite and kind == "f" and not np.isfinite(a).all():
            raise self.error(f"{name} contains NaN or infinity")
        if below is not None and a.size and not (a.min() >= 0 and a.max() < below):
            raise self.error(f"{name} contains an index outside 0 to {below - 1}")
        return a
