"""Networks that correct the bank: the kernel against NumPy and PyTorch, and the model in the forecaster."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import helpers
import reference
import softboost
from softboost import _kernels
from softboost._file.container import dumps, loads
from softboost._kernels import NetworkInputs, NetworkLayout
from softboost.forecast import Forecaster, _candidates, _origins
from softboost.forecast._correction import KINDS
from softboost.forecast._networks import Networks
from test_combination import frame

LAYOUTS = [NetworkLayout(1, 1, 1, 1), NetworkLayout(5, 7, 2, 3), NetworkLayout(3, 20, 3, 9)]
dtypes = pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-3), (np.float64, 1e-9)])


def widths(layout: NetworkLayout) -> list[int]:
    return [layout.n_inputs, *[layout.n_hidden] * layout.n_layers, layout.n_outputs]


def problem(layout: NetworkLayout, dtype: type, n_networks: int = 2, n_steps: int = 6, batch: int = 32):
    """Inputs with missing and far values, targets, weights, starts and batches."""
    rng = np.random.default_rng(0)
    x = 3 + 2 * rng.normal(size=(90, layout.n_inputs))
    x[4, 0], x[7, -1] = np.nan, 1e6
    moments = rng.normal(3, 0.1, layout.n_inputs), rng.uniform(1, 3, layout.n_inputs)
    inputs = NetworkInputs(x.astype(dtype), *(m.astype(dtype) for m in moments), 2.0)
    y, weight = rng.normal(size=(90, layout.n_outputs)).astype(dtype), rng.uniform(0.5, 2, 90).astype(dtype)
    start = 0.5 * rng.normal(size=(n_networks, layout.n_parameters))
    order = rng.integers(0, 90, size=(n_networks, n_steps, batch)).astype(np.int32)
    return inputs, y, weight, start.astype(dtype), order


def standardised(inputs: NetworkInputs) -> np.ndarray:
    z = (inputs.x.astype(np.float64) - inputs.mean) / inputs.scale
    return np.clip(np.nan_to_num(z, nan=0.0, posinf=9e9), -inputs.farthest, inputs.farthest)


@dtypes
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fits_and_outputs_match_naive(layout: NetworkLayout, dtype: type, rtol: float) -> None:
    inputs, y, weight, start, order = problem(layout, dtype)
    got = _kernels.fit_networks(layout, inputs, y, weight, start, order, 0.05)
    assert got.dtype == dtype
    z = standardised(inputs)
    exact = [a.astype(np.float64) for a in (y, weight, start)]
    expected = [
        reference.fit_network(z, *exact[:2], widths(layout), s, batches, 0.05)
        for s, batches in zip(exact[2], order, strict=True)
    ]
    assert_allclose(got, expected, rtol=rtol, atol=rtol)
    assert np.abs(got - start).max() > 0.1  # the steps are many times longer than the tolerance
    outputs = [reference.network_values(z, reference.network_layers(p, widths(layout)))[-1] for p in got.astype(float)]
    assert_allclose(_kernels.network_outputs(layout, inputs, got), np.mean(outputs, axis=0), rtol=rtol, atol=rtol)


def test_fits_match_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    layout = NetworkLayout(5, 7, 2, 3)
    inputs, y, weight, start, order = problem(layout, np.float64, n_networks=1, n_steps=20)
    pairs = list(pairwise(widths(layout)))
    layers = [torch.nn.Linear(*pair, dtype=torch.float64) for pair in pairs]
    with torch.no_grad():
        for layer, arrays in zip(layers, reference.network_layers(start[0], widths(layout)), strict=True):
            for parameter, array in zip((layer.weight, layer.bias), arrays, strict=True):
                parameter.copy_(torch.tensor(array))
    parameters = [p for layer in layers for p in layer.parameters()]
    adam = torch.optim.Adam(parameters, lr=0.05)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, len(order[0]))
    z, target, heavy = (torch.tensor(a) for a in (standardised(inputs), y, weight))
    for rows in order[0].astype(np.int64):
        value = z[rows]
        for layer in layers[:-1]:
            value = torch.relu(layer(value))
        loss = ((layers[-1](value) - target[rows]).abs() * heavy[rows, None]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        cosine.step()
    expected = torch.cat([p.detach().ravel() for p in parameters]).numpy()
    got = _kernels.fit_networks(layout, inputs, y, weight, start, order, 0.05)[0]
    assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@dtypes
def test_networks_do_not_depend_on_threads_or_much_on_instructions(dtype: type, rtol: float) -> None:
    layout = NetworkLayout(5, 20, 2, 3)
    inputs, y, weight, start, order = problem(layout, dtype, n_networks=3)

    def results(n_threads: int) -> list[np.ndarray]:
        fitted = _kernels.fit_networks(layout, inputs, y, weight, start, order, 0.05, n_threads)
        return [fitted, _kernels.network_outputs(layout, inputs, start, n_threads)]

    one = results(1)
    for got, expected in zip(results(3), one, strict=True):
        assert_array_equal(got, expected)
    with helpers.instruction_set("baseline"):
        for got, expected in zip(results(1), one, strict=True):
            assert_allclose(got, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("n_rows", [1, 127, 128, 129, 300])
def test_the_output_of_a_row_does_not_depend_on_the_others(n_rows: int) -> None:
    layout = NetworkLayout(5, 20, 2, 3)
    inputs, *_, start, _ = problem(layout, np.float32)
    many = inputs._replace(x=np.resize(inputs.x, (n_rows, 5)))
    last = inputs._replace(x=many.x[-1:].copy())
    outputs = _kernels.network_outputs(layout, many, start)
    assert outputs.shape == (n_rows, 3)
    assert_array_equal(outputs[-1:], _kernels.network_outputs(layout, last, start))


def test_shapes_are_checked() -> None:
    layout = NetworkLayout(5, 7, 2, 3)
    inputs, y, weight, start, order = problem(layout, np.float64)
    fit = _kernels.fit_networks
    with pytest.raises(ValueError, match=r"y has shape \(90, 2\), expected \(90, 3\)"):
        fit(layout, inputs, y[:, :2].copy(), weight, start, order, 0.05)
    with pytest.raises(ValueError, match=r"start has shape \(2, 121\), expected \(2, 122\)"):
        fit(layout, inputs, y, weight, start[:, 1:].copy(), order, 0.05)
    with pytest.raises(ValueError, match="multiple of 16"):
        fit(layout, inputs, y, weight, start, order[:, :, :17].copy(), 0.05)
    with pytest.raises(ValueError, match="rows from 0 to 89"):
        fit(layout, inputs, y, weight, start, order + 60, 0.05)
    with pytest.raises(ValueError, match="columns, expected 5"):
        _kernels.network_outputs(layout, inputs._replace(mean=inputs.mean[1:].copy()), start)
    with pytest.raises(ValueError, match=r"expected \(n_networks, 122\)"):
        _kernels.network_outputs(layout, inputs, start[:, 1:].copy())
    with pytest.raises(ValueError, match="must be positive"):
        _kernels.network_outputs(layout._replace(n_layers=0), inputs, start)


def test_networks_learn_a_product_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that says nothing, a wild value and missing values do no harm."""
    monkeypatch.setattr(Networks, "EPOCHS", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)).astype(np.float32)
    y = np.stack([X[:, 0] * X[:, 1], np.abs(X[:, 2])], axis=1)
    X[:, 3] = 7.0
    X[0, 0], X[1:9, 1] = 1e9, np.nan
    model = Networks.fit(X[:3000], y[:3000], np.ones(3000), 1)
    assert model.n_outputs == 2
    error = np.abs(model.predict(X[3000:]) - y[3000:]).mean(axis=0)
    assert (error < 0.5 * np.abs(y[3000:] - np.median(y[3000:], axis=0)).mean(axis=0)).all()
    again = Networks.fit(X[:3000], y[:3000], np.ones(3000), 2)
    assert_array_equal(again.parameters, model.parameters)


def bursts(n_series: int, n_rows: int) -> list[np.ndarray]:
    """Series whose next change is the product of the signs of the last two and their sizes."""
    rng = np.random.default_rng(1)
    out = []
    for _ in range(n_series):
        change = list(rng.normal(size=2))
        for _ in range(n_rows - 2):
            change.append(np.sign(change[-1] * change[-2]) * 2 + 0.1 * rng.normal())
        out.append(1000 + np.cumsum(change))
    return out


@pytest.fixture
def networks_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks compete on panels of a test, without trees."""
    monkeypatch.setitem(KINDS, "networks", replace(KINDS["networks"], least_rows=500))
    monkeypatch.setattr(Networks, "EPOCHS", 60)
    rows = [replace(row, kinds=["linear", "networks"]) if row.kinds is KINDS else row for row in _candidates.CANDIDATES]
    monkeypatch.setattr(_candidates, "CANDIDATES", tuple(rows))


@pytest.mark.usefixtures("networks_of_few_rows")
def test_networks_join_panels_of_many_rows_and_are_saved(tmp_path: Path) -> None:
    panel = frame(bursts(60, 60))
    model = Forecaster("MS", h=2, season_length=1, candidates=["smoothing", "correction"]).fit(panel)
    assert "networks" in model.fitted_.members
    assert model.choice_.errors["correction (networks)"] < model.choice_.errors["smoothing"]
    assert model.choice_.weights["correction"] > 0.5
    forecast = model.predict(level=[80])
    assert model.forecast(panel, level=[80]).equals(forecast)
    model.save(tmp_path / "model.softboost")
    assert softboost.load(tmp_path / "model.softboost").predict(level=[80]).equals(forecast)
    few = Forecaster("MS", h=2, season_length=1, candidates=["smoothing", "correction"]).fit(frame(bursts(4, 40)))
    assert "correction (networks)" not in few.choice_.errors


@pytest.mark.usefixtures("networks_of_few_rows")
def test_files_with_other_networks_are_refused() -> None:
    model = Forecaster("MS", h=2, season_length=1, candidates=["smoothing", "correction"]).fit(frame(bursts(60, 60)))
    correction = model.fitted_.corrections["networks"]
    for change, message in (
        ({"parameters": np.zeros((0, 0), dtype=np.float32)}, "parameters"),
        ({"scale": np.zeros(49, dtype=np.float32)}, "scale must be positive"),
        ({"mean": np.full(49, 1e20, dtype=np.float32)}, "no number too large"),
    ):
        other = replace(correction, models=(replace(correction.models[0], **change),))
        model.fitted_.corrections["networks"] = other
        with pytest.raises(ValueError, match=message):
            loads(dumps(model))


def test_of_many_rows_some_of_every_age_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Forecaster("MS", h=4, season_length=1, candidates=["smoothing"]).fit(frame(bursts(30, 60)))
    smoothing, panel = model.fitted_.smoothing, model.frame_.panel
    origins = _origins.Origins(smoothing, panel, 4, columns=True)
    every = origins.rows(origins.first_learned)
    monkeypatch.setattr(_origins, "MAX_ROWS", 150)
    part = origins.rows(origins.first_learned)
    assert len(part.X) == 150 < len(every.X)
    place = {row.tobytes(): i for i, row in enumerate(every.X)}
    kept = np.array([place[row.tobytes()] for row in part.X])
    assert_array_equal(part.y, every.y[kept])
    relative = part.weight / every.weight[kept]
    assert_allclose(relative, relative[0], rtol=0.5)  # in units of another median
    n_ages, rest = divmod(len(every.X), 30)
    assert rest == 0  # rows of a series follow each other, the latest first
    age = kept % n_ages
    assert set(age) == set(range(n_ages))
    assert 55 < np.sum(age < n_ages // 2) < 95
