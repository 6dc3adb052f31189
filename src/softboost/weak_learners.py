"""Weak learners with parameters, for ``SoftBoostRegressor(weak_learner=...)``."""

from ._boost.hard_trees import HardTrees

__all__ = ["HardTrees"]
