"""The table of candidates of the forecaster: pages repeat it, and a new row competes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import softboost
from softboost.forecast import Forecaster, _correction, _judging, _origins
from softboost.forecast import _candidates as candidates
from softboost.forecast._correction import (
    HEAVIEST,
    KINDS,
    Correction,
    Kind,
    Ridge,
    Rows,
    fit_correction,
    row_weights,
)
from softboost.forecast._evidence import MOST, Judged, climb
from softboost.forecast._origins import Origins
from softboost.forecast._smoothing import Smoothing
from test_combination import frame, walks

PAGE = Path(__file__).parents[1] / "docs" / "forecasting.md"


def test_the_page_shows_the_table() -> None:
    lines = [f"| `{row.name}` | {row.about} |" for row in candidates.CANDIDATES]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")


def test_names_of_candidates_and_members_are_distinct() -> None:
    members = [member for row in candidates.CANDIDATES for member in row.members]
    assert len(set(members)) == len(members)
    assert [candidates.label(member) for member in members].count("correction (trees)") == 1
    assert members[:2] == [candidates.BANK, candidates.LAST]


def test_a_new_kind_of_correction_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank cannot know that shocks of these series never last; a median of past errors does."""

    class Median:
        def __init__(self, y: np.ndarray) -> None:
            self.value = np.median(y, axis=0)

        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.tile(self.value, (len(X), 1))

    monkeypatch.setitem(KINDS, "median", Kind(lambda rows, n_threads: (Median(rows.y),)))
    rows = [replace(row, kinds=["median"]) if row.kinds is KINDS else row for row in candidates.CANDIDATES]
    monkeypatch.setattr(candidates, "CANDIDATES", tuple(rows))
    rng = np.random.default_rng(0)
    shock = (rng.random((20, 60)) < 0.2) * 5.0
    series = [10 + s + 0.1 * rng.normal(size=60) for s in shock]
    model = Forecaster("MS", h=4, candidates=["smoothing", "correction"]).fit(frame(series))
    assert model.fitted_.members == ("smoothing", "median")
    assert model.choice_.weights["correction"] > 0.2
    assert model.choice_.errors["correction (median)"] < model.choice_.errors["smoothing"]
    assert np.isfinite(model.predict()["SoftBoostRegressor"]).all()


def test_a_candidate_that_needs_more_series_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    rows = [replace(row, judge=lambda members, trial: judged.extend(members)) for row in candidates.CANDIDATES]
    monkeypatch.setattr(candidates, "CANDIDATES", tuple(rows))
    Forecaster("MS", h=3).fit(walks(1, 40))
    assert judged == ["linear", "trees", "networks", "local", "last value"]
    Forecaster("MS", h=3).fit(walks(2, 40))
    assert judged[5:] == ["linear", "trees", "networks", "local", "global", "last value"]


def test_a_judged_correction_has_not_seen_what_it_is_judged_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values from the first judged origin on change nothing that the judged correction is fitted to."""
    seen = []

    def spy(kind: str, rows: Rows, n_threads: int) -> Correction:
        seen.append(rows)
        return fit_correction(kind, rows, n_threads)

    monkeypatch.setattr(_judging, "fit_correction", spy)
    monkeypatch.setitem(KINDS, "networks", replace(KINDS["networks"], least_rows=2))
    monkeypatch.setattr(_origins, "correlation_of", lambda errors: 0.0)  # series that move together need more origins
    df, n_judged_rows = walks(8, 80), 0
    for shift in (0.0, 50.0):
        panel = df.assign(y=df["y"] + shift * (df.groupby("unique_id").cumcount() >= 80 - n_judged_rows))
        model = Forecaster("MS", h=4, candidates=["smoothing", "correction"]).fit(panel)
        origins = Origins(model.fitted_.smoothing, model.frame_.panel, 4, columns=True)
        n_judged_rows = int(origins.judged_back.min(axis=1).min() + origins.stride * (origins.n_judged - 1))
    n = len(seen) // 2
    assert n == len(KINDS)
    for rows, others in zip(seen[:n], seen[n:], strict=True):
        for mine, other in zip(rows, others, strict=True):
            assert_allclose(mine, other, atol=1e-6)  # the bank scales a series by all of its values, which rounds


def test_where_a_member_gives_no_forecast_the_mixture_stays() -> None:
    first, second = np.full((2, 1, 3), 4.0), np.full((2, 1, 3), 8.0)
    second[1] = np.nan
    judged = Judged(np.ones((2, 1, 3)), np.ones((2, 1)), 1)
    ladder = _judging.Ladder(judged, ["smoothing"], [first], np.ones(1))
    ladder.join({"local": second}, 0.25)
    assert_allclose(ladder.weights, [0.75, 0.25])
    assert_allclose(ladder.current[:, 0, 0], [5.0, 4.0])


def test_few_series_count_for_less_than_many() -> None:
    """Gains with the same t statistic convince on a hundred series, but not on ten, or on ten blocks of one."""
    shares = []
    for shape, mean in (((1, 10, 1), 0.2), ((10, 1, 1), 0.2), ((100, 1, 1), 0.07)):
        gains = mean + 0.5 * np.linspace(-1, 1, np.prod(shape))
        judged = Judged(np.zeros(shape), np.ones(shape[:2]), 1)
        shares.append(climb(judged, np.ones(shape), (1 - gains).reshape(shape)))
    assert shares[:2] == [0.0, 0.0]
    assert shares[2] > 0.1


def random_walks(n_series: int, n_rows: int) -> list[np.ndarray]:
    """Positive series with independent changes, which no forecast beats the last value on."""
    return list(100 + np.random.default_rng(0).standard_t(3, size=(n_series, n_rows)).cumsum(axis=1))


def test_the_last_value_joins_on_random_walks_only(tmp_path: Path) -> None:
    """It is a part of the smoothing candidate, takes part in intervals and one-pass forecasts, and is saved."""
    model = Forecaster("MS", h=6, season_length=1, candidates=["smoothing"])
    walking = frame(random_walks(250, 80))
    model.fit(walking)
    assert model.fitted_.members == ("smoothing", "last value")
    assert model.choice_.weights == {"smoothing": pytest.approx(1.0)}
    assert model.choice_.errors["smoothing (last value)"] == pytest.approx(1.0)
    share = model.fitted_.weights[:, 1]
    bank = Smoothing(()).outlook(model.frame_.panel, 6).forecast[:, 0]
    last = model.frame_.panel.y[model.frame_.panel.indptr[1:] - 1]
    expected = (1 - share[:, None]) * bank + share[:, None] * last[:, None]
    forecast = model.predict(level=[80])
    assert_allclose(forecast["SoftBoostRegressor"].to_numpy().reshape(-1, 6), expected)
    assert model.forecast(walking, level=[80]).equals(forecast)
    model.save(tmp_path / "walks.softboost")
    assert softboost.load(tmp_path / "walks.softboost").predict(level=[80]).equals(forecast)
    assert Forecaster("MS", h=3, candidates=["smoothing"]).fit(walks(20, 60)).fitted_.members == ("smoothing",)


@pytest.mark.parametrize(("best", "moved"), [(0.1, 0.2), (0.2, 0.4), (0.4, 0.6), (0.8, 0.8), (1.0, 0.8)])
def test_the_best_share_moves_half_way_to_the_usual_one(best: float, moved: float) -> None:
    """Errors of the mixture are one, and vanish at the best share. A candidate that does not help stays out."""
    shape = 30, 2, 3
    current, judged = np.ones(shape), Judged(np.zeros(shape), np.full(shape[:2], 10.0), 1)
    candidate = current * (best - 1) / best
    assert climb(judged, current, candidate) == pytest.approx(min(best, MOST))
    assert climb(judged, current, candidate, usual=0.8) == pytest.approx(moved)
    assert climb(judged, current, 1.2 * current, usual=0.8) == 0


def test_kinds_that_help_join_with_equal_weights_and_the_others_do_not() -> None:
    """The second kind is better than the first one by far, and the third one doubles the errors of the bank."""
    rng = np.random.default_rng(0)
    actual, noise = rng.normal(size=(40, 4, 3)), rng.normal(size=(3, 40, 4, 3))
    judged = Judged(actual, np.ones((40, 4)), 1)
    bank, first, second = (actual + size * e for size, e in zip([3.0, 2.0, 1.0], noise, strict=True))
    third = 2 * bank - actual
    trial = _judging.Trial(
        None, None, None, _judging.Ladder(judged, ["smoothing"], [bank], np.ones(1)), _judging.Judges(None)
    )  # type: ignore[arg-type]
    assert trial.admit({"first": first, "second": second, "third": third}) == ("first", "second")
    share = climb(judged, bank, (first + second) / 2)
    assert 0.3 < share <= MOST
    assert trial.judges.shares == {("first", "second"): share}
    assert_allclose(trial.ladder.weights, [1 - share, share / 2, share / 2], rtol=1e-12)
    assert_allclose(trial.ladder.current, (1 - share) * bank + share * (first + second) / 2, rtol=1e-12)
    assert trial.admit({"third": third}) == ()
    assert trial.ladder.members == ["smoothing", "first", "second"]


def test_the_last_value_does_not_join_far_from_random_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the other sign would reduce those of the mixture, but are three times as large."""
    size = np.random.default_rng(0).uniform(0.5, 1.5, size=(20, 4, 3))
    judged = Judged(np.zeros_like(size), np.ones((20, 4)), 1)

    def members() -> list[str]:
        ladder = _judging.Ladder(judged, ["smoothing"], [size], np.ones(1))
        origins = SimpleNamespace(last_value=lambda: -3 * size)
        trial = _judging.Trial(None, None, origins, ladder, _judging.Judges(None))  # type: ignore[arg-type]
        _judging.judge_last_value(["last value"], trial)
        return ladder.members

    assert members() == ["smoothing"]
    monkeypatch.setattr(_judging, "NEAR_RANDOM_WALKS", 0.0)
    assert members() == ["smoothing", "last value"]


def test_gains_in_two_blocks_may_be_chance() -> None:
    def share(n_blocks: int) -> float:
        gains = 0.3 + 0.05 * (-1.0) ** np.arange(n_blocks)  # t is 6 for two blocks and 13 for eight
        judged = Judged(np.zeros((1, n_blocks, 1)), np.ones((1, n_blocks)), 1)
        return climb(judged, np.ones((1, n_blocks, 1)), (1 - gains).reshape(1, n_blocks, 1))

    assert share(2) == 0.0
    assert share(8) > 0.5


def test_rows_of_a_correction_count_by_units_and_by_percent() -> None:
    relative = np.array([0.01, 0.1, 0.1, 0.1, 0.2, 50.0])
    weight = row_weights(relative)
    assert weight.mean() == pytest.approx(1.0)
    assert_allclose(weight / weight[1], [1.1 / 2, 1, 1, 1, 1.5, HEAVIEST / 2], rtol=1e-6)
    both = frame([100 + np.sin(np.arange(60.0)), 100 + 40 * np.sin(np.arange(60.0))])  # calm and wild
    panel = Forecaster("MS", h=2, candidates=["smoothing"]).fit(both).frame_.panel
    calm, wild = np.sort(Origins(Smoothing(()), panel, 2, columns=True).rows(0).weight).reshape(2, -1)
    assert wild.min() > 1.5 * calm.max()


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_correction_follows_heavy_rows(kind: str) -> None:
    """Two groups of rows with the same inputs disagree; the mean error is that of the heavy group."""
    n = max(200, int(KINDS[kind].least_rows))
    X = np.zeros((n, 3), dtype=np.float32)
    y = np.repeat([[1.0, 2.0], [-1.0, -2.0]], n // 2, axis=0)
    model = fit_correction(kind, Rows(X, y, np.repeat([9.0, 1.0], n // 2)), 1).models[0]
    assert (np.asarray(model.predict(X[:1])) > 0.3).all()


def test_many_rows_are_shared_among_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each row is in one of three models, whose mean corrects the bank; a file holds all of them."""
    monkeypatch.setattr(_correction, "ROWS_OF_A_MODEL", 100)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(350, 3)).astype(np.float32), rng.normal(size=(350, 2))
    correction = fit_correction("trees", Rows(X, y, np.ones(350)), 1)
    assert len(correction.models) == 3
    predictions = [model.predict(X) for model in correction.models]
    assert np.abs(predictions[0] - predictions[1]).max() > 1e-3  # each saw other rows
    few = fit_correction("trees", Rows(X[:150], y[:150], np.ones(150)), 1)
    assert len(few.models) == 1
    model = Forecaster("MS", h=4, candidates=["smoothing", "correction"]).fit(frame(chaotic(40, 60)))
    assert len(model.fitted_.corrections["trees"].models) == 3
    model.save(tmp_path / "model.sb")
    loaded = softboost.load(tmp_path / "model.sb")
    assert_array_equal(loaded.predict()["SoftBoostRegressor"], model.predict()["SoftBoostRegressor"])


def test_a_linear_correction_weights_its_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    X -= X.mean(axis=0)
    X = np.concatenate([X, -X])  # with equal weights of each pair, columns have the same mean and scale
    X /= X.std(axis=0)
    y, pair = np.tile(y, (2, 1)), np.tile(np.arange(40), 2)
    twice = np.repeat(np.arange(80), np.where(pair < 10, 2, 1))
    weighted = Ridge.fit(Rows(X, y, np.where(pair < 10, 2.0, 1.0)))
    assert_allclose(weighted.intercept, y[twice].mean(axis=0))
    equal = Ridge.fit(Rows(X, y, np.ones(80)))
    assert np.abs(weighted.intercept - equal.intercept).max() > 1e-3
    Z = np.clip(X, -3, 3)[twice]
    gram = Z.T @ Z + Ridge.PENALTY * np.eye(3)
    expected = np.linalg.solve(gram, Z.T @ (y[twice] - y[twice].mean(axis=0)))
    assert_allclose(weighted.coefficients, expected, atol=1e-7)


def chaotic(n_series: int, n_rows: int) -> list[np.ndarray]:
    """Series whose next value is a curve of the last one, which a regression learns and no smoother does."""
    values = [np.random.default_rng(0).uniform(0.2, 0.8, n_series)]
    for _ in range(n_rows - 1):
        values.append(3.8 * values[-1] * (1 - values[-1]))
    return list(np.array(values).T)


def test_a_regression_must_earn_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Forecaster("MS", h=2, season_length=1, candidates=["smoothing", "local"]).fit(frame(chaotic(6, 60)))
    assert model.fitted_.members == ("smoothing", "local")
    monkeypatch.setattr(_judging, "EARNS", 1.0)  # no gain is that large
    model.fit(frame(chaotic(6, 60)))
    assert model.fitted_.members == ("smoothing",)


def test_a_regression_that_missed_many_rows_is_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Forecaster("MS", h=2, season_length=1, candidates=["smoothing", "local"])
    forecasts = {}
    for keeps in (_judging.KEEPS, 0.0, 1.0):  # as it is, always fitted again, never
        monkeypatch.setattr(_judging, "KEEPS", keeps)
        model.fit(frame(chaotic(6, 26)))
        assert "local" in model.fitted_.members
        forecasts[keeps] = model.predict()["SoftBoostRegressor"].to_numpy()
    usual, always, never = forecasts.values()
    assert_allclose(usual, always, rtol=0)
    assert np.abs(usual - never).max() > 1e-6
