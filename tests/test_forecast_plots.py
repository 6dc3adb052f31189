"""Plots of forecasts and back-tests show the numbers that they are made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from test_forecast import long_frame, quick

H = 4


@pytest.fixture(scope="module")
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return quick().fit(long_frame(3))


def y_of(line):
    return np.asarray(line.get_ydata(), dtype=float)


def corners(band):
    """Lower and upper edge of a filled band."""
    points = band.get_paths()[0].vertices
    return points[:, 1].min(), points[:, 1].max()


def test_each_series_gets_a_panel_with_history_forecast_and_bands(pyplot, model):
    axes = model.plot(level=[80, 95])
    table = model.predict(level=[80, 95])
    assert [ax.get_title(loc="left") for ax in axes] == ["s0", "s1", "s2"]
    for i, ax in enumerate(axes):
        mine = table[table["unique_id"] == f"s{i}"]
        history, forecast = ax.lines
        y = model.frame_.panel.y[60 * i : 60 * (i + 1)]
        assert_array_equal(y_of(history), y)
        assert_array_equal(y_of(forecast), [y[-1], *mine["Ridge"]])
        wide, narrow = (corners(band) for band in ax.collections)
        assert_allclose(wide, [mine["Ridge-lo-95"].min(), mine["Ridge-hi-95"].max()])
        assert_allclose(narrow, [mine["Ridge-lo-80"].min(), mine["Ridge-hi-80"].max()])
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["history", "forecast", "95%", "80%"]
    axes[0].figure.canvas.draw()


def test_series_history_levels_and_axes_can_be_chosen(pyplot, model):
    _, ax = pyplot.subplots()
    assert model.plot(2, None, series="s1", n_history=7, ax=ax) is ax
    assert [len(line.get_xdata()) for line in ax.lines] == [7, 3]
    assert not ax.collections
    _, pair = pyplot.subplots(1, 2)
    assert list(model.plot(series=["s2", "s0"], ax=pair)) == list(pair)
    assert pair[0].get_title(loc="left") == "s2"
    with pytest.raises(ValueError, match=r"series='north' is not among the series; there are \['s0', 's1', 's2'\]"):
        model.plot(series="north")
    with pytest.raises(ValueError, match="ax has 2 axes for 3 series"):
        model.plot(ax=pair)


def test_one_pair_of_axes_holds_all_series(pyplot, model):
    _, ax = pyplot.subplots()
    assert model.plot(ax=ax) is ax
    assert len(ax.lines) == 6
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["s0", "s1", "s2"]
    assert len({line.get_color() for line in ax.lines}) == 3


def test_one_step_polars_and_exogenous_columns_are_drawn(pyplot):
    df = long_frame(1).assign(price=np.cos(np.arange(60)))
    model = quick(h=1).set_params(freq="1mo").fit(pl.from_pandas(df[:-1]))
    ax = model.plot(X_df=pl.from_pandas(df[-1:]))
    assert_array_equal(y_of(ax.lines[1])[1:], model.predict(X_df=pl.from_pandas(df[-1:]))["Ridge"])
    ax.figure.canvas.draw()


def test_integer_times_and_gaps_are_drawn(pyplot):
    df = long_frame(1).assign(ds=np.arange(60)).drop(index=[20, 59])
    df.loc[58, "y"] = np.nan
    ax = quick(gaps="forward").set_params(freq=1).fit(df).plot()
    history, forecast = ax.lines
    assert np.isnan(y_of(history)).sum() == 2
    assert forecast.get_xdata()[0] == 57  # the last value that is known
    ax.figure.canvas.draw()


def test_a_backtest_draws_forecasts_beside_the_truth(pyplot):
    df = long_frame(3)
    result = quick().backtest(df, n_windows=3, step_size=H)
    axes = result.plot()
    worst = result.by_series()["unique_id"].tolist()
    assert [ax.get_title(loc="left") for ax in axes] == worst
    table = result.forecasts[result.forecasts["unique_id"] == worst[0]]
    truth, *lines = axes[0].lines
    assert_array_equal(y_of(truth), table.sort_values("ds")["y"])
    naive, mine = lines[:3], lines[3:]
    for column, drawn in (("naive", naive), ("Ridge", mine)):
        for line, (_, rows) in zip(drawn, table.groupby("cutoff"), strict=True):
            assert_array_equal(y_of(line), rows[column])
    axes[0].figure.canvas.draw()
    _, ax = pyplot.subplots()
    assert result.plot(ax, series="s1") is ax
    assert ax.get_title(loc="left") == "s1"


def test_only_the_worst_of_many_series_are_drawn(pyplot):
    result = quick().backtest(long_frame(8), n_windows=2)
    axes = result.plot()
    assert len(axes) == 6
    assert axes[0].get_title(loc="left") == result.by_series()["unique_id"][0]
    with pytest.raises(ValueError, match="kind='bars' is not valid"):
        result.plot(kind="bars")


def test_dates_before_nanoseconds_are_drawn(pyplot):
    times = (np.datetime64("1600-01", "M") + np.arange(60)).astype("datetime64[s]")
    quick().fit(long_frame(1).assign(ds=pd.Series(times))).plot().figure.canvas.draw()
