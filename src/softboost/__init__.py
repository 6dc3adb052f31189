"""Gradient boosting that learns its own features, for regression on small data with many columns."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from ._file.container import load
from ._regressor import SoftBoostRegressor

__all__ = ["SoftBoostRegressor", "__version__", "load"]

__version__ = version("softboost")

_SUBMODULES = (
    "datasets",
    "forecast",
    "inspection",
    "losses",
    "online",
    "presets",
    "report",
    "transforms",
    "weak_learners",
)


def __getattr__(name: str) -> Any:
    """Import a public submodule at its first use, so that ``import softboost`` alone is enough and stays fast."""
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
