"""Plots of a fitted model. Each function draws on the given axes, or creates a figure, and returns the axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from softboost._boost.soft_tree import SoftTree
from softboost._regressor import SoftBoostRegressor

from ._attributions import Attributions
from ._features import encoded_names, importances, linear_text, n_transform_rounds, transform_matrix

__all__ = [
    "plot_attributions",
    "plot_importances",
    "plot_partial_dependence",
    "plot_transform",
    "plot_transform_rounds",
    "plot_tree",
]

Array = NDArray[Any]
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8a8a8a"  # distinguishable with every colour vision and in grey
DIVERGING = "PuOr_r"
PAPER = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # under numbers


def _axes(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'softboost[plot]'") from error
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def plot_importances(
    model: SoftBoostRegressor, *, n_features: int = 15, feature_names: Any = None, ax: Any = None
) -> Any:
    """Bar chart of the largest importances, largest on top.

    Parameters
    ----------
    model : SoftBoostRegressor
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
    ax = _axes(ax, 6.4, 1.0 + 0.26 * len(top))
    ax.barh(np.arange(len(top)), top.to_numpy(), color=BLUE)
    ax.set_yticks(np.arange(len(top)), list(top.index))
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
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform="linear", init="constant").fit(X, np.tanh(X[:, 2]))
    >>> plot_transform(model).images[0].get_array().shape
    (4, 4)
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
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = SoftBoostRegressor(n_estimators=2, feature_transform="linear", init="constant").fit(X, np.tanh(X[:, 2]))
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
    >>> plot_attributions(why).get_yticklabels()[0].get_text()
    'x2'
    """
    if why.values.ndim != 2:
        raise ValueError(
            "the model has several outputs; plot Attributions(values[:, :, k], baseline[k], ...) for output k"
        )
    values = why.values[row]
    order = np.argsort(-np.abs(values), kind="stable")
    names, sizes = [why.feature_names[j] for j in order[:n_features]], list(values[order[:n_features]])
    rest = float(values[order[n_features:]].sum())
    if len(order) > n_features:
        names, sizes = [*names, f"{len(order) - n_features} others"], [*sizes, rest]
    ax = _axes(ax, 6.4, 1.2 + 0.28 * len(names))
    ends = why.baseline + np.cumsum(sizes)
    starts = ends - sizes
    at = np.arange(len(names))
    ax.barh(at, sizes, left=starts, color=[VERMILION if s > 0 else BLUE for s in sizes])
    for y, end, size in zip(at, ends, sizes, strict=True):
        ax.annotate(f"{size:+.3g}", (end, y), (4 if size >= 0 else -4, 0), textcoords="offset points",
                    va="center", ha="left" if size >= 0 else "right", fontsize=8, bbox=PAPER)  # fmt: skip
    ax.axvline(why.baseline, color=GREY, linewidth=1, linestyle=":", zorder=0)
    ax.axvline(why.prediction[row], color="black", linewidth=1, zorder=0)
    ax.set_yticks(at, names)
    ax.invert_yaxis()
    low, high = min(*starts, *ends), max(*starts, *ends)
    room = 0.15 * ((high - low) or 1.0)  # space for the numbers beside the bars
    ax.set_xlim(low - room, high + room)
    ax.set_xlabel(f"from {why.baseline:.4g} (mean) to {why.prediction[row]:.4g} (prediction)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_partial_dependence(
    model: SoftBoostRegressor, X: Any, features: Any, *, kind: str = "average", ax: Any = None, **kwargs: Any
) -> Any:
    """Partial dependence through scikit-learn's ``PartialDependenceDisplay``.

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
    display = PartialDependenceDisplay.from_estimator(model, X, features, kind=kind, ax=ax, **kwargs)
    panels = display.axes_.ravel()
    panels = panels[[panel is not None for panel in panels]]
    return panels[0] if len(panels) == 1 else panels


def plot_tree(
    model: SoftBoostRegressor, k: int = 0, *, n_terms: int = 3, feature_names: Any = None, ax: Any = None
) -> Any:
    """Diagram of a soft tree of the member with the largest ensemble weight.

    Each gate shows the condition under which the right child is the more likely one; the probability grows with the
    distance from the threshold. Each leaf shows what it adds to the prediction.

    Parameters
    ----------
    model : SoftBoostRegressor
        A fitted model that contains trees.
    k : int, default=0
        Index of the round.
    n_terms : int, default=3
        Number of columns to show per gate or leaf.
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
    >>> model = SoftBoostRegressor(n_estimators=2, depth=1, feature_transform=None, init="constant")
    >>> plot_tree(model.fit(X, np.abs(X[:, 2]))).get_title()
    'tree 1 of 2 (trees)'
    """
    leader = _leader(model)
    rounds = leader.boosted.rounds[: leader.stage]
    if not -len(rounds) <= k < len(rounds):
        raise ValueError(f"k={k} is out of range, the model has {len(rounds)} rounds; use 0 to {len(rounds) - 1}")
    tree = rounds[k][1]
    if not isinstance(tree, SoftTree):
        raise ValueError(
            f"plot_tree draws soft trees, got a {type(tree).__name__}; use the plot function of its library"
        )
    names, centre, spread = _inputs(model, leader, tree, feature_names)
    scale = float(leader.boosted.learning_rate * model.units_.y_spread[0])
    ax = _axes(ax, max(2.0 * 2**tree.depth, 5.0), 1.6 + 1.4 * tree.depth)
    _draw_nodes(ax, tree, names, centre, spread, scale, n_terms)
    ax.set_title(f"tree {k % len(rounds) + 1} of {len(rounds)} ({leader.name})", fontsize=10)
    ax.set_axis_off()
    return ax


def _leader(model: SoftBoostRegressor) -> Any:
    """The boosted member with the largest ensemble weight."""
    check_is_fitted(model)
    boosted = [m for m in model.members_ if m.boosted is not None and m.boosted.rounds and m.stage]
    if not boosted:
        raise ValueError("the model contains no tree, it is a linear model or a constant; see model.choice_")
    return max(boosted, key=lambda m: m.weight)


def _inputs(
    model: SoftBoostRegressor, member: Any, tree: SoftTree, feature_names: Any
) -> tuple[list[str], Array, Array]:
    """Names of the inputs of a tree, and the centre and spread that convert them to original units.

    With a transform the inputs are z1, z2, ...; in the anchored view they are differences to the anchor for columns in
    its units.
    """
    if member.boosted.recipe.transform is not None:
        names = [f"z{a + 1}" for a in tree.columns]
        return names, np.zeros(len(names)), np.ones(len(names))
    columns, all_names = member.boosted.columns[tree.columns], encoded_names(model, feature_names)
    names = [all_names[j] for j in columns]
    centre, spread = model.units_.centre[columns], model.units_.spread[columns]
    if member.anchor is None:
        return names, centre, spread
    anchor = member.anchor
    scale, shift, shares = anchor.scale[columns], anchor.shift[columns], anchor.share[columns] != 0
    names = [f"{n} - {all_names[anchor.column]}" if shared else n for n, shared in zip(names, shares, strict=True)]
    spread = spread / scale
    return names, centre - np.where(shares, model.units_.centre[anchor.column], 0.0) - spread * shift, spread


def _draw_nodes(
    ax: Any, tree: SoftTree, names: list[str], centre: Array, spread: Array, scale: float, n_terms: int
) -> None:
    n_gates = 2**tree.depth - 1
    places = {}
    for node in range(2 * n_gates + 1):
        level = int(np.log2(node + 1))
        places[node] = ((node + 1 - 2**level + 0.5) / 2**level, -float(level))
    for node in range(n_gates):
        for child, word in ((2 * node + 1, "no"), (2 * node + 2, "yes")):
            (x0, y0), (x1, y1) = places[node], places[child]
            ax.plot([x0, x1], [y0, y1], color=GREY, linewidth=1, zorder=1)
            ax.text((x0 + x1) / 2, (y0 + y1) / 2, word, fontsize=8, ha="center", color=GREY, backgroundcolor="white")
    for node, (x, y) in places.items():
        if node < n_gates:
            text, colour = _gate_text(tree, node, names, centre, spread, n_terms), BLUE
        else:
            text, colour = _leaf_text(tree, node - n_gates, names, scale, n_terms), VERMILION
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour}
        ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
    ax.set_xlim(-0.05, 1.05)
    ax.set_ylim(-tree.depth - 0.5, 0.4)


def _gate_text(tree: SoftTree, node: int, names: list[str], centre: Array, spread: Array, n_terms: int) -> str:
    weights, bias = tree.gate_weights[node].astype(float), float(tree.gate_bias[node])
    used = np.flatnonzero(np.abs(weights) > 1e-12)  # smaller weights have no effect, since z is of order one
    if len(used) == 0:
        return "always no" if bias < 0 else "always yes"
    if len(used) == 1:
        j = used[0]
        threshold = centre[j] - spread[j] * bias / weights[j]
        return f"{names[j]} {'>' if weights[j] > 0 else '<'} {threshold:.3g}?"
    return f"{linear_text(weights, names, n_terms)}\n> {-bias:.2g}?"


def _leaf_text(tree: SoftTree, leaf: int, names: list[str], scale: float, n_terms: int) -> str:
    """Contribution of a leaf, one term per line; terms that are negligible relative to other leaves are omitted."""
    values, slopes = tree.leaf_values[:, 0].astype(float), np.zeros((len(tree.leaf_values), 0))
    if tree.leaf_weights is not None:
        slopes = tree.leaf_weights[:, 0].astype(float)
    least = 1e-6 * max(float(np.abs(values).max()), float(np.abs(slopes).max(initial=0.0)))
    value = values[leaf] if abs(values[leaf]) > least else 0.0
    lines = [f"{scale * value:+.3g}"]
    order = np.argsort(-np.abs(slopes[leaf]), kind="stable")
    terms = [f"{scale * slopes[leaf, j]:+.2g} {names[j]}" for j in order if abs(slopes[leaf, j]) > least]
    return "\n".join([*lines, *terms[:n_terms], *(["+ ..."] if len(terms) > n_terms else [])])
