"""Inspection of a fitted model: importances, learned directions, trees, and Shapley values of predictions.

:func:`importances`, :func:`directions`, :func:`dropped_features` and :func:`attributions` return numbers. The
``plot_*`` functions draw on the given axes and return them; they need matplotlib (``pip install 'softboost[plot]'``).
"""

from ._attributions import Attributions, attributions
from ._features import describe_features, directions, dropped_features, importances, transform_matrix
from ._plots import (
    plot_attributions,
    plot_importances,
    plot_partial_dependence,
    plot_transform,
    plot_transform_rounds,
)
from ._tree_plot import plot_tree

__all__ = [
    "Attributions",
    "attributions",
    "describe_features",
    "directions",
    "dropped_features",
    "importances",
    "plot_attributions",
    "plot_importances",
    "plot_partial_dependence",
    "plot_transform",
    "plot_transform_rounds",
    "plot_tree",
    "transform_matrix",
]
