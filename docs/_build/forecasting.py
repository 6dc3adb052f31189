"""Draw ``docs/forecasting.svg``, the picture of the default forecaster: ``python docs/_build/forecasting.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from softboost import inspection
from softboost.forecast import Forecaster

OUT = Path(__file__).resolve().parent.parent / "forecasting.svg"
HISTORY, BANK, CORRECTION, COMBINATION = "#7f7f7f", "#0072b2", "#d55e00", "#000000"
H, SHOWN = 12, "18"


def series(rng, n_rows=72):
    """Months with a trend, a season, and cycles that fall faster than they rise."""
    cycle, noise = np.zeros(n_rows + 40), 0.5 * rng.normal(size=n_rows + 40)
    for t in range(3, len(cycle)):
        high = cycle[t - 2] > 0
        cycle[t] = (1.2 * cycle[t - 1] - 0.5 * cycle[t - 2] if high else 0.5 * cycle[t - 1] + 0.3) + noise[t]
    season = np.sin(2 * np.pi * (np.arange(n_rows) + rng.integers(12)) / 12)
    return 100 + 0.3 * np.arange(n_rows) * rng.random() + 6 * season + 5 * cycle[40:]


def draw_forecasts(ax, past, truth, forecasts, title):
    """Draw the end of the history, the truth and some forecasts."""
    ax.plot(past["ds"][-30:], past["y"][-30:], color=HISTORY)
    ax.plot(truth["ds"], truth["y"], color=HISTORY, ls=":", label="what followed")
    for label, values, colour in forecasts:
        ax.plot(truth["ds"], values, color=colour, label=label, lw=1.8)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))
    ax.legend(loc="upper left", frameon=False)
    ax.set_title(title, loc="left", fontweight="bold")
    ax.xaxis.set_major_locator(matplotlib.dates.YearLocator())
    ax.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%Y"))


def draw_weights(ax, choice):
    """Draw the error of each candidate at past origins, with its weight."""
    rows = [
        ("last value", 1.0, HISTORY, ""),
        ("smoothing bank", choice.errors["smoothing"], BANK, f"weight {100 * choice.weights['smoothing']:.0f} %"),
        *((name, error, CORRECTION, "") for name, error in choice.errors.items() if name.startswith("correction")),
        ("combination", choice.errors["combination"], COMBINATION, ""),
    ]
    shared = f"weight {100 * choice.weights['correction']:.0f} % together"
    for place, (_, error, colour, text) in enumerate(rows):
        ax.barh(-place, error, color=colour, height=0.6)
        ax.text(error + 0.02, -place, text, va="center")
    ax.text(max(row[1] for row in rows[2:-1]) + 0.02, -2.5, shared, va="center")
    ax.text(0, -len(rows), "Regressions on lags were tried on a sample\nand dropped: they improved too little.", va="center")
    ax.set_yticks([-i for i in range(len(rows))], [row[0] for row in rows])
    ax.set(xlim=(0, 1.15), ylim=(-len(rows) - 0.6, 0.6), xlabel="error at past origins, last value = 1")
    ax.set_title("3  Combine by past errors", loc="left", fontweight="bold")


def main():
    """Forecast a panel of 60 series and draw one of them."""
    plt.rcParams.update({"svg.hashsalt": "softboost", "savefig.facecolor": "white", "font.size": 9})
    rng = np.random.default_rng(0)
    months = pd.date_range("2019-01-01", periods=72, freq="MS")
    df = pd.concat([pd.DataFrame({"unique_id": f"{i:02d}", "ds": months, "y": series(rng)}) for i in range(60)])
    past, ahead = df[df["ds"] < months[-H]], df[df["ds"] >= months[-H]]
    forecaster = Forecaster("MS", H).fit(past)
    table = inspection.candidate_forecasts(forecaster)
    table = table[table["unique_id"] == SHOWN].pivot(index="ds", columns="candidate", values="forecast")
    bank = table["smoothing"]
    corrected = table[[name for name in table if name.startswith("correction")]].mean(axis=1)
    mine = [part[part["unique_id"] == SHOWN] for part in (past, ahead)]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw_forecasts(left, *mine, [("smoothing bank", bank, BANK)], "1  Smooth each series")
    both = [("smoothing bank", bank, BANK), ("corrected by what all series share", corrected, CORRECTION)]
    draw_forecasts(middle, *mine, both, "2  Correct its errors")
    draw_weights(right, forecaster.choice_)
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
