"""Diagram of a soft tree, from the root on the left to the leaves on the right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from softboost._boost.soft_tree import SoftTree
from softboost._regressor import SoftBoostRegressor
from softboost._runtime.axes import new_axes

from ._labels import CHARACTER, shortened
from ._names import encoded_names

__all__ = ["plot_tree"]

Array = NDArray[Any]
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8a8a8a"  # distinguishable with every colour vision and in grey
FONT = 8.0
LONGEST = 32  # characters of a name
GAP, PAD, BETWEEN = 0.55, 0.14, 0.16  # inches between levels, around text and between leaves


def plot_tree(
    model: SoftBoostRegressor, k: int = 0, *, n_terms: int = 3, feature_names: Any = None, ax: Any = None
) -> Any:
    """Diagram of a soft tree of the member with the largest ensemble weight.

    Each gate shows the condition under which "yes" is the more likely branch; the probability grows with the distance
    from the threshold. Each leaf shows what it adds to the prediction. The root is on the left, so that boxes have the
    width of their text and never overlap.

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
        Axes to draw on, with text as small as they require; None creates a figure of the right size.

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
    names = [shortened(name, LONGEST) for name in names]
    scale = float(leader.boosted.learning_rate * model.units_.y_spread[0])
    n_gates = 2**tree.depth - 1
    texts = [_gate_text(tree, node, names, centre, spread, n_terms) for node in range(n_gates)]
    texts += [_leaf_text(tree, leaf, names, scale, n_terms) for leaf in range(n_gates + 1)]
    ax = _draw_nodes(ax, tree.depth, texts)
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


def _draw_nodes(ax: Any, depth: int, texts: list[str]) -> Any:
    """Draw boxes in heap order, in coordinates of inches; the axes of the user scale them down if they are smaller."""
    level_of = [int(np.log2(node + 1)) for node in range(len(texts))]
    n_lines = max(text.count("\n") + 1 for text in texts)
    widths = [FONT * CHARACTER * max(map(len, text.split("\n"))) + 2 * PAD for text in texts]
    columns = [max(w for w, at in zip(widths, level_of, strict=True) if at == level) for level in range(depth + 1)]
    lefts = np.concatenate([[0.0], np.cumsum(np.array(columns) + GAP)])
    row = n_lines * 1.3 * FONT / 72 + 2 * PAD + BETWEEN
    width, height = float(lefts[-1] - GAP), row * 2**depth
    if ax is None:
        ax = new_axes(max(width + 0.3, 3.0), height + 0.5)
    room_x, room_y = ax.get_position().size * ax.figure.get_size_inches()
    small = 1.0 if ax.figure.get_layout_engine() is not None else min(1.0, room_x / width, room_y / height)
    places = {}
    for node, level in enumerate(level_of):
        within = node + 1 - 2**level
        places[node] = lefts[level], (within + 0.5) / 2**level * height
    for node in range(2**depth - 1):
        for child, word in ((2 * node + 1, "no"), (2 * node + 2, "yes")):
            (x0, y0), (x1, y1) = places[node], places[child]
            start = x0 + widths[node]
            ax.plot([start, x1], [y0, y1], color=GREY, linewidth=1, zorder=1)
            at = (start + x1) / 2, (y0 + y1) / 2
            paper = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            ax.text(*at, word, fontsize=FONT * small, ha="center", va="center", color=GREY, bbox=paper)
    for node, (x, y) in places.items():
        colour = BLUE if node < 2**depth - 1 else VERMILION
        box = {"boxstyle": f"round,pad={PAD * 72 / FONT:.2f}", "facecolor": "white", "edgecolor": colour}
        middle = x + widths[node] / 2
        ax.text(middle, y, texts[node], ha="center", va="center", fontsize=FONT * small, bbox=box, zorder=2)
    ax.set_xlim(-0.1, width + 0.1)
    ax.set_ylim(height, 0.0)
    return ax


def _gate_text(tree: SoftTree, node: int, names: list[str], centre: Array, spread: Array, n_terms: int) -> str:
    weights, bias = tree.gate_weights[node].astype(float), float(tree.gate_bias[node])
    used = np.flatnonzero(np.abs(weights) > 1e-12)  # smaller weights have no effect, since z is of order one
    if len(used) == 0:
        return "always no" if bias < 0 else "always yes"
    if len(used) == 1:
        j = used[0]
        threshold = centre[j] - spread[j] * bias / weights[j]
        return f"{names[j]}\n{'>' if weights[j] > 0 else '<'} {threshold:.3g}?"
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    terms = [f"{weights[j]:+.2g} {names[j]}" for j in order[:n_terms]]
    return "\n".join([*terms, *(["+ ..."] if len(order) > n_terms else []), f"> {-bias:.2g}?"])


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
