"""Codecs of all classes in model files; importing a module of this package registers its classes."""

from . import functions, partial_fit, settings, state

__all__ = ["functions", "partial_fit", "settings", "state"]
