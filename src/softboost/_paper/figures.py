"""Figures 1 and 2: cumulative error over time, as defined in a footnote of the paper."""

from pathlib import Path

import numpy as np

from .protocols import FloatArray
from .results import Record
from .settings import Settings

# Colours of Okabe and Ito, distinguishable with colour blindness; the dashes are distinguishable in print.
STYLES = {
    "bsdt_q": ("#D55E00", "-", 2.4),
    "bsdt": ("#E69F00", "--", 1.6),
    "lightgbm": ("#009E73", "-.", 1.6),
    "naive": ("#000000", ":", 1.8),
    "ridge": ("#56B4E9", "--", 1.2),
    "lasso": ("#56B4E9", "-", 1.6),
    "xgboost": ("#CC79A7", "--", 1.2),
    "catboost": ("#CC79A7", "-", 1.2),
    "softboost": ("#0072B2", "-", 2.4),
}


def cumulative_mse(records: list[Record], model: str) -> FloatArray:
    """cMSE_t of one model: MSE_t is the mean over series at step t, cMSE_t the mean of MSE_1 to MSE_t.

    Examples
    --------
    >>> cumulative_mse([{"model": "a", "mse_by_step": [1.0, 3.0]}, {"model": "a", "mse_by_step": [3.0, 5.0]}], "a")
    array([2., 3.])
    """
    by_step = np.array([r["mse_by_step"] for r in records if r["model"] == model])
    mse = by_step.mean(axis=0)
    return np.cumsum(mse) / np.arange(1, len(mse) + 1)


def draw(records: list[Record], labels: dict[str, str], settings: Settings, path: Path) -> Path:
    """Draw the curves of all models into a PNG file.

    Parameters
    ----------
    records : list of dict
        Records of Table II for one data set.
    labels : dict of str
        Names of the models, in the order of the legend.
    settings : dict
        The entry of the figure in ``figures.json``.
    path : Path
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for model, label in labels.items():
        curve = cumulative_mse(records, model)
        colour, dashes, width = STYLES[model]
        steps = np.arange(1, len(curve) + 1)
        above = 3 if model == "naive" else 2  # draw dots above a line that they coincide with
        text = f"{label}  {curve[-1]:.2g}"
        axes.plot(steps, curve, color=colour, linestyle=dashes, linewidth=width, label=text, zorder=above)
    axes.set_yscale("log")
    axes.set_xlabel("step t of the test window")
    axes.set_ylabel("cMSE (log scale)")
    axes.set_title(f"{settings['title']}: cumulative mean squared error")
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, title="model, cMSE at the end")
    figure.savefig(path, dpi=150, metadata={"Software": None})
    return path
