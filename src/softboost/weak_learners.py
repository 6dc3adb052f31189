"""Weak learners with settings: what ``SoftBoostRegressor(weak_learner=...)`` takes besides names and estimators."""

from ._boost.hard_trees import HardTrees

__all__ = ["HardTrees"]
