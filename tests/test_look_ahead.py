"""Back-tests see nothing of the future: later values change no earlier forecast, choice, scaling or interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from softboost import SoftBoostRegressor
from softboost.forecast import (
    Differences,
    ExpandingMean,
    Forecaster,
    LocalMinMaxScaler,
    LocalRobustScaler,
    LocalStandardScaler,
    Log,
    _forecaster,
)
from softboost.forecast._frame import LongFrame
from softboost.forecast._panel import Panel
from softboost.forecast._rolling import own_origins

H = 2
N_WINDOWS = 4
CUTOFF = pd.Timestamp("2018-09-01")  # the second of the four origins
RIDGE = {"model": Ridge(), "lags": [1, 2, 12], "target_transforms": None}
BOOSTED = SoftBoostRegressor(3, 0.3, 1, feature_transform=None, leaves="linear", gates="greedy", init="constant")


def panel(gaps=False, exog=False):
    """Five series: s3 ends five months before the others, s4 starts late."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2015-01-01", periods=49, freq="MS")
    t = np.arange(len(times))
    parts = []
    for i in range(5):
        y = np.exp(3 + 0.2 * np.sin(2 * np.pi * (t + i) / 12) + 0.03 * rng.normal(size=len(t)).cumsum())
        parts.append(pd.DataFrame({"unique_id": f"s{i}", "ds": times, "y": y}))
    parts[3], parts[4] = parts[3][:-5], parts[4][14:]
    df = pd.concat(parts, ignore_index=True)
    if exog:
        df["price"] = rng.normal(size=len(df))
        df["promo"] = rng.choice(["none", "flyer", "radio"], size=len(df))
        df["group"] = np.where(df["unique_id"] < "s2", "a", "b")
        df["level"] = 1.0
        df["y"] += 3 * df["price"].to_numpy() + 2 * (df["promo"] == "radio")
    if gaps:
        number = df.groupby("unique_id").cumcount()
        df = df[~((df["unique_id"] == "s1") & number.isin([30, 44, 45, 46]))]
        df = df.assign(y=df["y"].where(~((df["unique_id"] == "s2") & number.isin([20, 43, 46]))))
    return df.reset_index(drop=True)


def changed_after(df, cutoff, seed=1):
    """Another future: other targets after the cutoff, other columns after what forecasts from it may know.

    One series ends sooner, and two begin after the cutoff.
    """
    rng = np.random.default_rng(seed)
    later = df["ds"] > cutoff
    noise = rng.uniform(2, 40, size=len(df))
    out = df.assign(y=df["y"].where(~later, df["y"] * noise + 5))
    if df["y"].isna().any():
        out["y"] = out["y"].where(~later | (rng.random(len(df)) < 0.5))
    if "price" in df:
        beyond = df["ds"] > cutoff + pd.DateOffset(months=H)
        out["price"] = df["price"].where(~beyond, noise)
        for name, word in (("promo", "new"), ("group", "other")):
            out[name] = df[name].where(~beyond, pd.Series([f"{word}{k:.3f}" for k in noise], index=df.index))
        out["level"] = df["level"].where(~beyond, noise)
    ends = (out["unique_id"] == "s2") & (out["ds"] > cutoff + pd.DateOffset(months=H))
    new = out[(out["unique_id"] == "s0") & later]
    parts = [new.assign(unique_id="a new one", y=1e3), out[~ends], new.assign(unique_id="z new one", y=-1.0)]
    return pd.concat(parts, ignore_index=True)


# One row for each setting: what the forecaster, the back-test and the data are like.
SETTINGS = {
    "default": ({}, {}, {}),
    "default, refit, columns": ({"candidates": ["smoothing", "correction", "global"]}, {"refit": 2}, {"exog": True}),
    "default, gaps": ({"gaps": "interpolate"}, {}, {"gaps": True}),
    "smoothing": ({"candidates": ["smoothing"]}, {"refit": True}, {}),
    "smoothing, gaps": ({"candidates": ["smoothing"], "gaps": "forward"}, {}, {"gaps": True}),
    "correction, columns": ({"candidates": ["smoothing", "correction"]}, {}, {"exog": True}),
    "local regression": ({"candidates": ["smoothing", "local"]}, {"refit": 3}, {}),
    "default, columns, gaps": ({}, {"refit": True}, {"exog": True, "gaps": True}),
    "chosen by back-test": ({"model": Ridge(), "lags": [1, 2]}, {"refit": True}, {"gaps": True}),
    "global": ({**RIDGE, "scope": "global"}, {"refit": True}, {}),
    "global, columns": ({**RIDGE, "scope": "global"}, {"refit": 2}, {"exog": True}),
    "global, scaled": (
        {**RIDGE, "scope": "global", "target_transforms": [Log(), Differences([1]), LocalStandardScaler()]},
        {"refit": True},
        {"gaps": True},
    ),
    "global, robust, dates": (
        {**RIDGE, "scope": "global", "date_features": ["month"], "target_transforms": [LocalRobustScaler("iqr")]},
        {"refit": 2},
        {"gaps": True, "exog": True},
    ),
    "local, seasonal differences": (
        {**RIDGE, "scope": "local", "target_transforms": [Differences([12]), LocalMinMaxScaler()], "gaps": "forward"},
        {"refit": 3},
        {"gaps": True},
    ),
    "expanding": ({**RIDGE, "lag_transforms": {1: [ExpandingMean()]}, "scope": "local"}, {}, {"gaps": True}),
    "direct, columns": ({**RIDGE, "scope": "global", "strategy": "direct"}, {}, {"exog": True}),
    "direct_each, columns": ({**RIDGE, "scope": "local", "strategy": "direct_each"}, {"refit": 2}, {"exog": True}),
    "online": ({**RIDGE, "model": BOOSTED, "scope": "global"}, {"refit": "online"}, {"exog": True}),
    "online, local": ({**RIDGE, "model": BOOSTED, "scope": "local"}, {"refit": "online"}, {"gaps": True}),
}
LOCAL = {**RIDGE, "scope": "local", "target_transforms": [Differences([1]), LocalStandardScaler()]}


class Notebook:
    """Collects what back-tests calibrate their intervals with."""

    def __init__(self, monkeypatch):
        self.scores = []
        calibrate = Forecaster._calibrate

        def noted(forecaster, *args):
            self.scores.append(calibrate(forecaster, *args))
            return self.scores[-1]

        monkeypatch.setattr(Forecaster, "_calibrate", noted)


def differences(monkeypatch, settings, rolling, data):
    """What a back-test on changed future values does differently up to the cutoff: an empty list for no look-ahead."""
    df = panel(**data)
    if data.get("gaps"):
        settings = {"gaps": "interpolate", **settings}
    notebook = Notebook(monkeypatch)
    tests = [
        Forecaster("MS", H, **settings).backtest(d, n_windows=N_WINDOWS, level=[50, 90], **rolling)
        for d in (df, changed_after(df, CUTOFF))
    ]
    tables = [t.forecasts[t.forecasts["cutoff"] <= CUTOFF].reset_index(drop=True) for t in tests]
    assert tables[0]["cutoff"].nunique() >= 2
    assert not tables[0]["y"].equals(tables[1]["y"])  # something was changed
    told = [c for c in tables[0].columns if c != "y"]
    found = [c for c in told if not tables[0][c].equals(tables[1][c])]
    found += ["choice"] if tests[0].choice != tests[1].choice else []
    steps = [dict(zip(t.ids, t.scales, strict=True)) for t in tests]
    found += ["step sizes"] if any(not _same(size, steps[1][name]) for name, size in steps[0].items()) else []
    one, other = notebook.scores
    return found + [
        name for name in ("errors", "scales", "limits") if not _same(getattr(one, name), getattr(other, name))
    ]


def _same(a, b):
    return a is b or np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_later_values_change_nothing_before(monkeypatch, name):
    assert differences(monkeypatch, *SETTINGS[name]) == []


def test_forecasts_use_the_columns_that_are_known_ahead():
    """The columns above are not ignored: their values within the horizon matter."""
    df = panel(exog=True)
    other = df.assign(price=df["price"].where(df["ds"] <= CUTOFF, 9.0))
    settings, rolling, _ = SETTINGS["global, columns"]
    told = [Forecaster("MS", H, **settings).backtest(d, n_windows=N_WINDOWS, **rolling).forecasts for d in (df, other)]
    at = told[0]["cutoff"] == CUTOFF
    assert (told[0]["Ridge"][at] != told[1]["Ridge"][at]).all()


# -- faults that the test must find ------------------------------------------------------------------------------------


def fill_before_cutting(monkeypatch):
    cut = Panel.cut
    monkeypatch.setattr(Panel, "cut", lambda panel, n_rows: cut(replace(panel, y=panel.filled), n_rows))


def learn_categories_from_all_rows(monkeypatch):
    monkeypatch.setattr(LongFrame, "known_at", lambda frame, *args: frame)


def count_origins_from_the_end_of_each_series(monkeypatch):
    monkeypatch.setattr(_forecaster, "common_origins", own_origins)


def calibrate_on_all_rows(monkeypatch):
    roll, seen = Forecaster._roll, []

    def noted(forecaster, panel, *args):
        if not seen or panel.n_series != seen[-1].n_series or len(panel.y) >= len(seen[-1].y):
            seen.append(panel)
        return roll(forecaster, seen[-1], *args)

    monkeypatch.setattr(Forecaster, "_roll", noted)


def choose_on_all_rows(monkeypatch):
    choose = Forecaster._choose
    monkeypatch.setattr(Forecaster, "_choose", lambda forecaster, _, frame: choose(forecaster, frame.panel, frame))


FAULTS = [
    (fill_before_cutting, "global, scaled"),
    (learn_categories_from_all_rows, "global, columns"),
    (learn_categories_from_all_rows, "correction, columns"),
    (count_origins_from_the_end_of_each_series, "global"),
    (calibrate_on_all_rows, "expanding"),
    (choose_on_all_rows, "chosen by back-test"),
]


@pytest.mark.parametrize(("fault", "name"), FAULTS, ids=[f"{f.__name__}, {n}" for f, n in FAULTS])
def test_a_look_ahead_is_found(monkeypatch, fault, name):
    fault(monkeypatch)
    assert differences(monkeypatch, *SETTINGS[name])
