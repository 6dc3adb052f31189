"""Draw ``docs/choice.svg``, the picture of the model selection, from a real fit: ``python docs/_build/choice.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from sklearn.datasets import make_friedman1

from softboost import SoftBoostRegressor
from softboost._choice.candidates import competing
from softboost._choice.rows import RowsKind

OUT = Path(__file__).resolve().parent.parent / "choice.svg"
CONSTANT, LINEAR, BOOSTED, HELD_OUT = "#7f7f7f", "#0072b2", "#d55e00", "#e69f00"
LEVELS = {candidate.name: ("constant", "linear", "boosted").index(candidate.level) for candidate in competing(100)
          if candidate.applies(RowsKind("table", positive=True))}


def level_of(name):
    """Index of the level of a candidate: constant, linear or boosted."""
    return LEVELS[name]


def draw_folds(ax, n_folds):
    """Draw the folds as a grid: one line a fold, its validation block marked."""
    for fold in range(n_folds):
        for block in range(n_folds):
            held_out = fold == block
            cell = Rectangle((block, -fold), 0.92, 0.7, color=HELD_OUT if held_out else "#d5dbe1", lw=0)
            ax.add_patch(cell)
        ax.text(-0.25, -fold + 0.35, f"fold {fold + 1}", ha="right", va="center")
    ax.text(0, 1.0, "rows of X and y", va="bottom")
    ax.add_patch(Rectangle((0, -n_folds - 0.1), 0.35, 0.35, color="#d5dbe1", lw=0))
    ax.text(0.5, -n_folds + 0.08, "training rows", va="center")
    ax.add_patch(Rectangle((0, -n_folds - 0.8), 0.35, 0.35, color=HELD_OUT, lw=0))
    ax.text(0.5, -n_folds - 0.62, "validation rows", va="center")
    ax.set(xlim=(-1.6, n_folds), ylim=(-n_folds - 2.6, 1.8), title="1  Cross-validate each candidate")


def draw_losses(ax, losses):
    """Draw the relative error of each candidate, grouped by level; return the colour of each candidate."""
    names = sorted(losses, key=level_of)
    gaps = [1.7 * level_of(name) for name in names]
    places = [-i - gap for i, gap in enumerate(gaps)]
    colours = {name: (CONSTANT, LINEAR, BOOSTED)[level_of(name)] for name in names}
    relative = [losses[name] / losses["constant"] for name in names]
    ax.barh(places, relative, color=[colours[name] for name in names], height=0.7)
    ax.set_yticks(places, names)
    for place, value in zip(places, relative, strict=True):
        ax.text(value + 0.015, place, f"{value:.2f}", va="center", fontsize=8)
    for level, text in enumerate(("constant", "linear models", "boosted models")):
        own = [place for name, place in zip(names, places, strict=True) if level_of(name) == level]
        if level:
            arrow = {"arrowstyle": "-|>", "color": "black"}
            ax.annotate("", xy=(0.02, own[0] + 0.55), xytext=(0.02, own[0] + 2.1), arrowprops=arrow)
            ax.text(0.06, own[0] + 1.33, "is the gain larger than its standard error? yes", va="center", style="italic")
            colour = colours[names[places.index(own[0])]]
            ax.text(1.1, sum(own) / len(own), text, ha="right", va="center", color=colour, fontweight="bold")
    ax.set(xlim=(0, 1.12), title="2  Compare the levels, simplest first", xlabel="cross-validated error, constant = 1")
    return colours


def draw_weights(ax, weights, colours):
    """Draw the ensemble weights of the candidates that were kept."""
    names = sorted(weights, key=weights.get, reverse=True)
    places = [-i for i in range(len(names))]
    ax.barh(places, [weights[name] for name in names], color=[colours[name] for name in names], height=0.7)
    for name, place in zip(names, places, strict=True):
        ax.text(weights[name] + 0.02, place, f"{100 * weights[name]:.0f} %", va="center")
    ax.set_yticks(places, names)
    ax.set(xlim=(0, 1), ylim=(-6, 0.6), title="3  Average and refit", xlabel="ensemble weight")
    ax.text(0, -len(names), "Only these candidates are\nfitted on all rows.", va="center")


def main():
    """Fit Friedman's function and draw how the model was selected."""
    plt.rcParams.update({"svg.hashsalt": "softboost", "savefig.facecolor": "white", "font.size": 9})
    X, y = make_friedman1(n_samples=100, n_features=10, noise=1.0, random_state=1)
    choice = SoftBoostRegressor().fit(X, y).choice_
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12, 4.4), width_ratios=[1, 1.6, 0.9], layout="constrained"
    )
    draw_folds(left, choice.n_folds)
    colours = draw_losses(middle, choice.losses)
    draw_weights(right, choice.weights, colours)
    left.axis("off")
    for ax in (middle, right):
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(left=False)
    for ax in (left, middle, right):
        ax.set_title(ax.get_title(), loc="left", fontweight="bold")
        ax.set_title("", loc="center")
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
