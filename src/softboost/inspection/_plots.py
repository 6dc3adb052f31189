"""Plots of a fitted model. Each function draws on the given axes, or creates a figure, and returns the axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softboost._regressor import SoftBoostRegressor
from softboost._runtime.axes import new_axes

from ._attributions import Attributions
from ._features import importances, n_transform_rounds, transform_matrix
from ._labels import WIDTH, label_width, name_bars, value_text
from ._names import feature_names as _names

__all__ = [
    "plot_attributions",
    "plot_importances",
    "plot_partial_dependence",
    "plot_transform",
    "plot_transform_rounds",
]

Array = NDArray[Any]
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8a8a8a"  # distinguishable with every colour vision and in grey
DIVERGING = "PuOr_r"
PAPER = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # under numbers


def _axes(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    return new_axes(width, height) if ax is None else ax


def plot_importances(model: Any, *, n_features: int = 15, feature_names: Any = None, ax: Any = None) -> Any:
    """Bar chart of the largest importances, largest on top.

    Parameters
    ----------
    model : SoftBoostRegressor, Forecaster or OnlineSoftBoostRegressor
        A fitted model.
    n_features : int, default=15
        Number of bars.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None creates a figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> plot_importances(SoftBoostRegressor().fit(X, X[:, 2])).get_yticklabels()[-1].get_text()
    'x2'
    """
    top = importances(model, feature_names).iloc[:n_features][::-1]
    names = list(top.index)
    ax = _axes(ax, 5.0 + label_width(names), 1.0 + _bar_height(names) * len(top))
    ax.barh(np.arange(len(top)), top.to_numpy(), color=BLUE)
    name_bars(ax, names)
    ax.set_xlabel("importance (all columns sum to one)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_transform(
    model: SoftBoostRegressor, k: int = -1, *, n_features: int | None = 40, feature_names: Any = None, ax: Any = None
) -> Any:
    """Heat map of Q after round ``k``, with one row per learned feature and one column per column of X.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model with a linear or diagonal transform.
    k : int, default=-1
        Index of the round; negative values count from the end.
    n_features : int or None, default=40
        Number of columns to show, those with the largest weights in Q; None shows all.
    feature_names : sequence of str or None, default=None
        As in :func:`importances`.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None creates a figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.transforms import Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform=Linear(3)).fit(X, np.tanh(X[:, 2]))
    >>> plot_transform(model).images[0].get_array().shape
    (3, 4)
    """
    Q = transform_matrix(model, k, feature_names)
    shown = _largest(Q.to_numpy(), n_features)
    return _heat(ax, Q.to_numpy()[:, shown], list(Q.index), [Q.columns[j] for j in shown], "weight in Q")


def plot_transform_rounds(
    model: SoftBoostRegressor,
    component: int = 0,
    *,
    n_features: int | None = 40,
    feature_names: Any = None,
    ax: Any = None,
) -> Any:
    """Heat map of one row of Q over the rounds, with one row per round and one column per column of X.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model with a linear or diagonal transform.
    component : int, default=0
        Index of the row of Q.
    n_features, feature_names, ax
        As in :func:`plot_transform`.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> from softboost.transforms import Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform=Linear(3)).fit(X, np.tanh(X[:, 2]))
    >>> plot_transform_rounds(model).images[0].get_array().shape
    (2, 4)
    """
    rounds = [transform_matrix(model, k, feature_names) for k in range(n_transform_rounds(model))]
    if not 0 <= component < len(rounds[0]):
        raise ValueError(f"component={component} is out of range; use 0 to {len(rounds[0]) - 1}")
    values = np.vstack([Q.to_numpy()[component] for Q in rounds])
    shown = _largest(values, n_features)
    names = [rounds[0].columns[j] for j in shown]
    rows = [f"round {k + 1}" for k in range(len(rounds))]
    return _heat(ax, values[:, shown], rows, names, f"weight in z{component + 1}")


def _largest(matrix: Array, n: int | None) -> Array:
    """The columns with the largest absolute values, in their original order."""
    if n is None or n >= matrix.shape[1]:
        return np.arange(matrix.shape[1])
    return np.sort(np.argsort(-np.abs(matrix).max(axis=0), kind="stable")[:n])


def _heat(ax: Any, matrix: Array, rows: list[str], columns: list[str], label: str) -> Any:
    ax = _axes(ax, min(3.0 + 0.24 * len(columns), 14.0), 1.6 + 0.25 * len(rows))
    size = float(np.abs(matrix).max()) or 1.0
    image = ax.imshow(matrix, cmap=DIVERGING, vmin=-size, vmax=size, aspect="auto", interpolation="nearest")
    ax.set_yticks(np.arange(len(rows)), rows)
    ax.set_xticks(np.arange(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax


def plot_attributions(why: Attributions, row: int = 0, *, n_features: int = 10, ax: Any = None) -> Any:
    """Waterfall chart of one prediction: bars from the baseline at the top to the prediction at the bottom.

    The name of each bar is followed by the value of the column in this row.

    Parameters
    ----------
    why : Attributions
        The result of :func:`attributions` for a model with one output.
    row : int, default=0
        Index of the prediction.
    n_features : int, default=10
        Number of bars; the remaining columns are combined into one bar.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None creates a figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> from softboost.inspection import attributions
    >>> why = attributions(SoftBoostRegressor().fit(X, X[:, 2]), X[:1])
    >>> plot_attributions(why).get_yticklabels()[0].get_text().split(" = ")[0]
    'x2'
    """
    if why.values.ndim != 2:
        raise ValueError(
            "the model has several outputs; plot Attributions(values[:, :, k], baseline[k], ...) for output k"
        )
    values, baseline = why.values[row], float(np.broadcast_to(why.baseline, len(why.values))[row])
    order = np.argsort(-np.abs(values), kind="stable")
    names, sizes = [_with_value(why, row, j) for j in order[:n_features]], list(values[order[:n_features]])
    rest = float(values[order[n_features:]].sum())
    if len(order) > n_features:
        names, sizes = [*names, f"{len(order) - n_features} others"], [*sizes, rest]
    ax = _axes(ax, 5.0 + label_width(names), 1.2 + _bar_height(names) * len(names))
    ends = baseline + np.cumsum(sizes)
    starts = ends - sizes
    at = np.arange(len(names))
    ax.barh(at, sizes, left=starts, color=[VERMILION if s > 0 else BLUE for s in sizes])
    for y, end, size in zip(at, ends, sizes, strict=True):
        ax.annotate(f"{size:+.3g}", (end, y), (4 if size >= 0 else -4, 0), textcoords="offset points",
                    va="center", ha="left" if size >= 0 else "right", fontsize=8, bbox=PAPER)  # fmt: skip
    ax.axvline(baseline, color=GREY, linewidth=1, linestyle=":", zorder=0)
    ax.axvline(why.prediction[row], color="black", linewidth=1, zorder=0)
    name_bars(ax, names)
    ax.invert_yaxis()
    low, high = min(*starts, *ends), max(*starts, *ends)
    room = 0.15 * ((high - low) or 1.0)  # space for the numbers beside the bars
    ax.set_xlim(low - room, high + room)
    ax.set_xlabel(f"from {baseline:.4g} (mean) to {why.prediction[row]:.4g} (prediction)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _with_value(why: Attributions, row: int, column: int) -> str:
    name = why.feature_names[column]
    return name if why.data is None else f"{name} = {value_text(why.data[row, column])}"


def _bar_height(names: list[str]) -> float:
    """Height in inches of a bar whose name may need two lines."""
    return 0.36 if max(map(len, names), default=0) > WIDTH else 0.28


def plot_partial_dependence(
    model: SoftBoostRegressor, X: Any, features: Any, *, kind: str = "average", ax: Any = None, **kwargs: Any
) -> Any:
    """Partial dependence through scikit-learn's ``PartialDependenceDisplay``.

    Numbers are drawn as lines, integers among them, and the categories of the model as bars.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model.
    X : array or frame of shape (n_samples, n_features)
        Rows to average over.
    features : list of int, str or pair
        Columns or pairs of columns, one panel each.
    kind : {"average", "individual", "both"}, default="average"
        The mean over the rows, one line per row, or both.
    ax : matplotlib.axes.Axes, sequence of Axes or None, default=None
        Axes to draw on: one per panel, or one that is divided among the panels; None creates a figure.
    **kwargs
        Passed to ``PartialDependenceDisplay.from_estimator``.

    Returns
    -------
    ax : Axes, or ndarray of Axes for several panels
        The given axes if there is one per panel, else new ones.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> ax = plot_partial_dependence(SoftBoostRegressor().fit(X, X[:, 2]), X, [2])
    >>> ax.get_xlabel()
    'x2'
    """
    from sklearn.inspection import PartialDependenceDisplay  # noqa: PLC0415 - imports matplotlib's parts

    ax = _axes(ax, 3.2 * min(len(features), 3) + 1.0, 3.2)
    if len(features) == 1 and not isinstance(ax, (list, tuple, np.ndarray)):
        ax = [ax]  # otherwise scikit-learn hides the axes and draws on new ones
    if model.columns_.categories:
        names = _names(model) if hasattr(X, "columns") else range(model.n_features_in_)
        kwargs.setdefault("categorical_features", [names[j] for j in model.columns_.categories])
    display = PartialDependenceDisplay.from_estimator(model, _with_floats(X), features, kind=kind, ax=ax, **kwargs)
    panels = display.axes_.ravel()
    panels = panels[[panel is not None for panel in panels]]
    return panels[0] if len(panels) == 1 else panels


def _with_floats(X: Any) -> Any:
    """X with floats in place of integers, between which scikit-learn refuses to draw."""
    if isinstance(X, pd.DataFrame):
        whole = [name for name in X.columns if pd.api.types.is_integer_dtype(X[name].dtype)]
        return X.astype(dict.fromkeys(whole, float)) if whole else X
    if isinstance(X, np.ndarray):
        return X.astype(float) if X.dtype.kind in "iu" else X
    return X
