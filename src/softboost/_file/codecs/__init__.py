"""How each class goes into a model file and comes back, checked; importing a module here registers its classes."""

from . import partial_fit, settings, state

__all__ = ["partial_fit", "settings", "state"]
