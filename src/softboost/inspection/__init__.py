"""Inspection of a fitted model: importances, learned directions, trees, and Shapley values of predictions.

:func:`importances` and :func:`attributions` also explain forecasters and online models, and :func:`candidate_shares`
and :func:`candidate_forecasts` show what these combine. Functions without ``plot_`` return numbers. The
``plot_*`` functions draw on the given axes and return them; they need matplotlib (``pip install 'softboost[plot]'``).
"""

from ._attributions import Attributions
from ._explain import attributions
from ._features import describe_features, directions, dropped_features, importances, transform_matrix
from ._forecasts import candidate_forecasts, candidate_shares
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
    "candidate_forecasts",
    "candidate_shares",
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
