"""See what a fitted model learned: which columns, which directions, which trees, and why a prediction is what it is.

Numbers come from :func:`importances`, :func:`directions`, :func:`dropped_features` and :func:`attributions`; pictures
from the ``plot_*`` functions, which take the axes to draw on and return them. Pictures need matplotlib
(``pip install 'softboost[plot]'``), numbers do not.
"""

from ._attributions import Attributions, attributions
from ._features import describe_features, directions, dropped_features, importances, transform_matrix
from ._plots import (
    plot_attributions,
    plot_importances,
    plot_partial_dependence,
    plot_transform,
    plot_transform_rounds,
    plot_tree,
)

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
