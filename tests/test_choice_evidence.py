"""What the choice counts as evidence: rows by their weight, and fewer rows for less."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from sklearn.model_selection import PredefinedSplit

from softboost import SoftBoostRegressor
from softboost._choice import choose
from softboost._choice.candidates import CONSTANT, RIDGE, TREES
from softboost._choice.judge import Judge, Judged, OutOfFold, convex_weights
from softboost._choice.ladder import LADDERS, Rung, _winsorised, climb, climb_without_pairs, trust
from softboost.losses import AbsoluteError, Huber, SquaredError


@pytest.mark.parametrize("seed", range(3))
def test_choice_counts_a_weight_of_three_as_a_row_three_times(seed):
    """Rounds and penalties, weights of candidates and predictions: of all rows judged, each counts by its weight."""
    rng = np.random.default_rng(seed)
    n = 60
    X, heavy = rng.normal(size=(n, 6)), np.arange(n) % 3 == 0
    # heavy rows follow another function, with less noise: a choice that treats all rows alike is another one
    y = X[:, 0] + np.where(heavy, np.abs(X[:, 1]), 0.0) + np.where(heavy, 0.2, 1.5) * rng.normal(size=n)
    weight, fold = np.where(heavy, 3, 1), rng.permutation(n) % 3
    rows = np.repeat(np.arange(n), weight)
    weighted = SoftBoostRegressor(cv=PredefinedSplit(fold)).fit(X, y, sample_weight=weight)
    repeated = SoftBoostRegressor(cv=PredefinedSplit(fold[rows])).fit(X[rows], y[rows])
    assert weighted.choice_.stages == repeated.choice_.stages
    for name in ("weights", "losses"):
        got, expected = getattr(weighted.choice_, name), getattr(repeated.choice_, name)
        assert got.keys() == expected.keys()
        assert_allclose(list(got.values()), list(expected.values()), rtol=1e-6)
    assert len(weighted.choice_.weights) > 1
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError(), Huber(0.7)], ids=lambda loss: type(loss).__name__)
def test_convex_weights_count_a_weight_of_four_as_a_row_four_times(loss):
    rng = np.random.default_rng(1)
    predictions = rng.normal(size=(3, 1, 60))
    weight = np.repeat([4, 1], 30)
    rows = np.repeat(np.arange(60), weight)
    # the first half of the rows is a mixture of the first two candidates, the second half is the third
    y = np.where(np.arange(60) < 30, 0.6 * predictions[0] + 0.4 * predictions[1], predictions[2])
    weighted = convex_weights(predictions, y, weight.astype(float), loss)
    assert_allclose(weighted, convex_weights(predictions[:, :, rows], y[:, rows], None, loss), atol=1e-3)
    assert np.abs(weighted - convex_weights(predictions, y, None, loss)).max() > 0.1


def weight_of_the_richer(y, richer, required):
    """Weight of a linear model beside the constant, as judged on the rows y."""
    judged = [
        Judged(candidate, 0, prediction, SquaredError().loss(y, prediction).mean(axis=0))
        for candidate, prediction in ((CONSTANT, np.zeros_like(y)), (RIDGE, richer))
    ]
    levels = [one.candidate.level for one in judged]
    return climb(
        [Rung([CONSTANT.level]), required],
        levels,
        OutOfFold(np.stack([one.prediction for one in judged]), y, None, SquaredError()),
    )[1]


@pytest.mark.parametrize(("kind", "doubt"), [("table", 10.0), ("time", 15.0)])
@pytest.mark.parametrize("n", [20, 100])
def test_few_rows_are_doubted_beyond_their_standard_error(n, kind, doubt):
    """A gain of t standard errors is trusted by t - 1 - doubt / n, cut off at 0 and 1."""
    linear = next(rung for rung in LADDERS[kind] if RIDGE.level in rung.candidates)

    def rows(far):
        return np.append(np.ones(n - 1), far)[None]

    def t_value(far):  # a candidate that predicts half of y gains 3/8 of its square; the farther one row, the less sure
        gain = rows(far)[0] ** 2
        return gain.mean() / (gain.std() / np.sqrt(n))

    for t, share in ((0.95, 0.0), (1.3, 0.3), (1.7, 0.7), (2.2, 1.0)):
        y = rows(brentq(lambda far, t=t: t_value(far) - t - doubt / n, 1.5, 1e3))
        assert weight_of_the_richer(y, 0.5 * y, linear) == pytest.approx(share, abs=1e-6)


# -- single rows do not decide -----------------------------------------------------------------------------------------

STEP = [Rung([CONSTANT.level]), Rung([CONSTANT.level, RIDGE.level], 1.0, 10.0)]


def _evidence(n=100, outlier=0.0, weight=None):
    """A constant and a slightly better linear model; in one row the linear model is far off."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1, n))
    better = 0.5 * y + 0.1 * rng.normal(size=(1, n))
    better[0, 7] += outlier
    return OutOfFold(np.stack([np.zeros((1, n)), better]), y, weight, SquaredError(), np.arange(n) % 5)


def test_one_row_does_not_decide_about_a_level():
    gain = np.random.default_rng(0).normal(0.3, 1.0, size=100)
    gain[7] = -30.0
    assert trust(gain, None, 1.0, 10.0) == 0
    assert trust(_winsorised(gain, None), None, 1.0, 10.0) > 0.5
    assert_allclose(_winsorised(gain[:39], None), gain[:39])  # too few rows
    levels, evidence = [CONSTANT.level, RIDGE.level], _evidence(outlier=10.0)
    assert climb(STEP, levels, evidence, winsorise=True)[1] > climb(STEP, levels, evidence)[1]


def test_weights_are_means_over_pairs_of_folds_that_are_left_out():
    levels, evidence = [CONSTANT.level, RIDGE.level], _evidence(outlier=3.0)
    parts = [evidence.without((i, j)) for i in range(5) for j in range(i)]
    assert len(parts) == 10
    assert all(part.y.shape[1] == 60 for part in parts)
    expected = np.mean([climb(STEP, levels, part, winsorise=True) for part in parts], axis=0)
    assert_allclose(climb_without_pairs(STEP, levels, evidence), expected)
    few = OutOfFold(evidence.predictions, evidence.y, None, SquaredError(), evidence.fold // 2)
    assert_allclose(climb_without_pairs(STEP, levels, few), climb(STEP, levels, evidence, winsorise=True))


def test_winsorised_gains_count_a_weight_of_two_as_a_row_twice():
    levels, weight = [CONSTANT.level, RIDGE.level], np.where(np.arange(100) % 3, 1.0, 2.0)
    weighted = _evidence(outlier=6.0, weight=weight)
    rows = np.repeat(np.arange(100), weight.astype(int))
    repeated = OutOfFold(
        weighted.predictions[:, :, rows], weighted.y[:, rows], None, SquaredError(), weighted.fold[rows]
    )
    assert_allclose(climb_without_pairs(STEP, levels, weighted), climb_without_pairs(STEP, levels, repeated), rtol=1e-9)


@pytest.mark.parametrize(("candidate", "stage"), [(RIDGE, 4), (TREES, 2)])
def test_among_equal_stages_a_linear_path_takes_the_middle_and_boosting_the_first(candidate, stage):
    """A column enters a linear path at a slightly different stage on all rows than in the folds."""
    judge = object.__new__(Judge)
    judge.loss, judge.y, judge.weight = SquaredError(), np.zeros((1, 3)), None
    errors = np.array([3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0])
    assert judge._judged(candidate, np.tile(errors[:, None, None], (1, 1, 3))).stage == stage
    falling = np.linspace(2.0, 1.0, 9)
    assert judge._judged(candidate, np.tile(falling[:, None, None], (1, 1, 3))).stage == 8


@pytest.mark.parametrize("loss", ["squared_error", "huber", "log_cosh", "absolute_error", "quantile"])
def test_weights_are_computed_once_and_bounded_losses_are_judged_once(loss, monkeypatch):
    """Under the squared error, a target far from the prediction is moved, and all candidates are judged again."""
    judges, climbs = [], []
    own_judge, own_climbed = choose.Judge, choose._climbed
    monkeypatch.setattr(
        choose, "Judge", lambda *args, **others: judges.append(own_judge(*args, **others)) or judges[-1]
    )
    monkeypatch.setattr(choose, "_climbed", lambda judge: climbs.append(judge) or own_climbed(judge))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=80)
    y[7] += 2.0
    SoftBoostRegressor(loss=loss).fit(X, y)
    assert len(climbs) == len(set(map(id, climbs)))
    assert (len(judges) > 1) == (loss == "squared_error")


def test_convex_weights_of_other_losses_have_the_lowest_loss():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(2, 50))
    predictions = 0.6 * y + 0.5 * rng.normal(size=(4, 2, 50))
    weight = rng.uniform(0.5, 2.0, size=50)
    loss = Huber(0.5)
    found = convex_weights(predictions, y, weight, loss)
    others = rng.dirichlet(np.ones(4), size=3000)
    values = [loss.mean(y, np.tensordot(w, predictions, 1), weight) for w in (found, *others)]
    assert values[0] <= min(values[1:]) + 1e-6
