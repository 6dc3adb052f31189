"""OnlineSoftBoostRegressor: river's own checks, the parts against plain formulas, drift, memory, saving."""

import math
import pickle
import subprocess
import sys
from datetime import date, datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

import softboost
from helpers import PATIENCE
from softboost import SoftBoostRegressor, _kernels
from softboost._boost.boosting import Recipe, boost
from softboost._boost.soft_tree import SoftTree
from softboost._linear.recursive import RecursiveLeastSquares
from softboost._model.drift import DriftTest
from softboost.losses import SquaredError
from softboost.online import OnlineSoftBoostRegressor
from softboost.online._growth import BoostedTrees, boosted_trees, make_learner, training_data
from softboost.online._parts import Experts, RowEncoder, RunningUnits, SoftTrees

NAMES = ("a", "b", "c", "d")


def truth(x):
    return math.sin(2 * x["a"]) + abs(x["b"]) * x["c"] + x["d"]


def stream(n, seed=0, noise=0.1, function=truth):
    rng = np.random.default_rng(seed)
    for values in rng.normal(size=(n, len(NAMES))).tolist():
        x = dict(zip(NAMES, values, strict=True))
        yield x, function(x) + noise * rng.normal()


def learn(model, rows):
    """Absolute errors of predicting each row before learning it."""
    errors = []
    for x, y in rows:
        errors.append(abs(model.predict_one(x) - y))
        model.learn_one(x, y)
    return np.array(errors)


# -- river -------------------------------------------------------------------------------------------------------------


def test_passes_rivers_own_checks():
    checks = pytest.importorskip("river.checks", reason="river is not installed")
    for check in checks.yield_checks(OnlineSoftBoostRegressor()):
        check(OnlineSoftBoostRegressor())


def test_runs_in_a_river_pipeline_and_in_progressive_validation():
    river = pytest.importorskip("river", reason="river is not installed")
    from river import datasets, evaluate, metrics, preprocessing

    assert isinstance(OnlineSoftBoostRegressor(), river.base.Regressor)
    model = preprocessing.StandardScaler() | OnlineSoftBoostRegressor(n_trees=3)
    metric = evaluate.progressive_val_score(list(datasets.TrumpApproval())[:100], model, metrics.MAE())
    assert metric.get() < 1.0


def test_beats_rivers_models_on_bundled_streams(tmp_path):
    pytest.importorskip("river", reason="river is not installed")
    from softboost._benchmarks import streams

    for name, steps in (("AirlinePassengers", 144), ("Friedman", 400)):
        rows = [(streams.plain(x), y) for x, y in streams.STREAMS[name](steps)]
        scores = {model: streams.progressive(make(), rows)["mae"] for model, make in streams.MODELS.items()}
        assert min(scores, key=scores.get) == "softboost", scores


def test_stays_near_the_last_value_of_a_random_walk():
    rng = np.random.default_rng(5)
    walk = np.cumsum(rng.normal(size=712))
    model, errors = OnlineSoftBoostRegressor(), []
    for t in range(12, 712):
        x = {f"lag{k}": walk[t - k] for k in range(1, 13)}
        errors.append((abs(model.predict_one(x) - walk[t]), abs(walk[t - 1] - walk[t])))
        model.learn_one(x, walk[t])
    own, last = np.mean(errors[100:], axis=0)
    assert own < 1.02 * last


def pegged(jump, length=400):
    """Errors of the model and of the last value on a constant with small steps and one jump, from row 100 on."""
    rng = np.random.default_rng(0)
    level = 5 + np.cumsum(np.where(rng.random(length) < 0.1, 0.01 * rng.normal(size=length), 0.0))
    level += jump(np.arange(length))
    model, errors = OnlineSoftBoostRegressor(), []
    for t in range(3, length):
        x = {f"lag{k}": level[t - k] for k in (1, 2, 3)}
        errors.append((abs(model.predict_one(x) - level[t]), abs(level[t - 1] - level[t])))
        model.learn_one(x, level[t])
    return np.sum(errors[100:], axis=0)


@pytest.mark.parametrize("jump", [lambda t: -1.0 * (t >= 250), lambda t: -1.0 * (t == 250)], ids=["level", "outlier"])
def test_follows_a_jump_where_the_last_value_predicts_best(jump):
    own, last = pegged(jump)
    assert own < 1.05 * last


def test_after_one_outlier_the_next_jump_may_still_be_a_new_level():
    own, last = pegged(lambda t: -1.0 * (t == 150) + 1.0 * (t >= 250))
    assert own < 1.05 * last


def test_after_several_outliers_the_next_jump_is_one_too():
    own, last = pegged(lambda t: 1.0 * np.isin(t, range(30, 400, 30)))
    assert own < 0.6 * last


def test_two_targets_alike_are_a_new_level_where_the_last_value_predicts_best():
    own, last = pegged(lambda t: 1.0 * np.isin(t, range(30, 240, 30)) + 1.0 * (t >= 250))
    assert own < 0.75 * last  # the jump costs two rows: itself and the next, on which it may be an outlier


def test_a_level_that_was_taken_for_an_early_outlier_does_not_make_experts_equal():
    """The unit falls to a thousandth when the first jump of a constant is found; the last value stays the best."""
    level = np.full(300, 0.2)
    level[[61, 62, 116]] += 2.3e-5
    level[179] -= 2.67e-4
    level[220:] -= 0.02
    model, errors = OnlineSoftBoostRegressor(), []
    for t in range(12, 300):
        x = {f"lag{k}": level[t - k] for k in range(1, 13)}
        errors.append((abs(model.predict_one(x) - level[t]), abs(level[t - 1] - level[t])))
        model.learn_one(x, level[t])
    own, last = np.sum(errors[1:], axis=0)
    assert own < 1.1 * last


@pytest.mark.parametrize("wild", [1e3, -1e12])
def test_an_outlier_leaves_the_next_prediction_and_the_experts_alone(wild):
    rng = np.random.default_rng(0)
    model = OnlineSoftBoostRegressor()
    for a, noise in rng.normal(size=(40, 2)).tolist():
        model.learn_one({"a": a}, a + noise)
    assert 0 < model._experts.weights()[-2].sum() < 0.5  # the previous target has a say
    before, prediction = model._experts.weights(), model.predict_one({"a": 0.5})
    model.learn_one({"a": 0.5}, wild)
    assert_allclose(model._experts.weights(), before, atol=0.1)
    assert abs(model.predict_one({"a": 0.5}) - prediction) < 2.0


def test_benchmark_draws_generated_streams_several_times(tmp_path, monkeypatch, capsys):
    pytest.importorskip("river", reason="river is not installed")
    from softboost._benchmarks import streams

    assert len(streams.draws("Friedman", 5)) == 3
    assert len(streams.draws("TrumpApproval", 5)) == 1
    assert set(streams.GENERATED) < set(streams.STREAMS)
    monkeypatch.delenv("SOFTBOOST_DATA", raising=False)
    settings = ["--refits", "--steps", "20", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    asked = ["--streams", "ETTh2, OT", "TrumpApproval", "FriedmanDrift, local", "--models", "last value"]
    assert streams.main([*asked, *settings]) == 0
    printed = capsys.readouterr()
    assert "skipped ETTh2, OT" in printed.err
    assert "| TrumpApproval | last value | 1 | 20 |" in printed.out
    assert "| FriedmanDrift, local | last value | 3 | 20 |" in printed.out


def test_benchmark_writes_its_tables(tmp_path, capsys):
    pytest.importorskip("river", reason="river is not installed")
    from softboost._benchmarks import streams

    asked = ["--streams", "TrumpApproval", "--models", "softboost", "--refits", "Planes2D"]
    assert streams.main([*asked, "--steps", "60", "--refit-rows", "120", "--out", str(tmp_path)]) == 0
    assert "TrumpApproval | softboost | 1 | 60" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"streams.csv", "wide.csv", "refits.csv"}
    assert streams.main(["--streams", "nonsense", "--out", str(tmp_path)]) == 2
    assert "unknown stream 'nonsense'; choose from TrumpApproval" in capsys.readouterr().err


def test_works_without_river_and_is_not_imported_with_the_package():
    code = """
import sys
import softboost
assert "river" not in sys.modules and "softboost.online" not in sys.modules
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "river" else found(name, *rest)
from softboost.online import OnlineSoftBoostRegressor
model = OnlineSoftBoostRegressor()
for i in range(40):
    model.learn_one({"a": i % 5}, 2.0 * (i % 5))
assert abs(model.predict_one({"a": 3}) - 6) < 0.5
assert "river" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


# -- learning ----------------------------------------------------------------------------------------------------------


def test_learns_what_a_linear_model_cannot():
    errors = learn(OnlineSoftBoostRegressor(), stream(800))
    linear = learn(OnlineSoftBoostRegressor(n_trees=0), stream(800))
    assert errors[600:].mean() < 0.5 * linear[600:].mean()


@pytest.mark.parametrize(("n_seeds", "most"), [(2, 1.9), pytest.param(6, 1.4, marks=pytest.mark.slow)])
def test_stays_near_fitting_from_scratch(n_seeds, most):
    """Of trees: the Gaussian processes of the default keep all rows, which a stream cannot."""
    ratios = []
    for seed in range(n_seeds):  # one draw says little: either model may be lucky
        rows, test = list(stream(400, seed)), list(stream(200, seed=100 + seed))
        model = OnlineSoftBoostRegressor()
        learn(model, rows)
        X, X_test = (np.array([[x[name] for name in NAMES] for x, _ in part]) for part in (rows, test))
        y, y_test = (np.array([t for _, t in part]) for part in (rows, test))
        online = np.array([model.predict_one(x) for x, _ in test])
        batch = SoftBoostRegressor(gates="greedy").fit(X, y).predict(X_test)
        ratios.append(np.abs(online - y_test).mean() / np.abs(batch - y_test).mean())
    assert np.exp(np.mean(np.log(ratios))) < most


def test_boosted_trees_help_where_the_full_model_is_unlucky(monkeypatch):
    synth = pytest.importorskip("river.datasets.synth", reason="river is not installed")

    def error():
        draws = [synth.Planes2D(seed=seed).take(300) for seed in (46, 47)]  # on which it is
        return sum(learn(OnlineSoftBoostRegressor(), draw)[100:].mean() for draw in draws)

    both = error()
    monkeypatch.setattr(BoostedTrees, "fit", lambda *args: None)
    assert both < 0.9 * error()


def test_moving_gates_and_transform_helps(monkeypatch):
    synth = pytest.importorskip("river.datasets.synth", reason="river is not installed")
    monkeypatch.setattr(BoostedTrees, "fit", lambda *args: None)  # which have neither to move
    for seed in (1, 2):
        still = OnlineSoftBoostRegressor(gate_learning_rate=0.0, transform_learning_rate=0.0)
        moving, fixed = (learn(m, synth.Mv(seed=seed).take(500)) for m in (OnlineSoftBoostRegressor(), still))
        assert moving[200:].mean() < 0.8 * fixed[200:].mean()


def test_after_a_change_of_the_whole_function_is_as_good_as_a_new_model():
    def other(x):
        return 5.0 - 2.0 * truth(x)

    model = OnlineSoftBoostRegressor()
    learn(model, stream(600))
    changed = learn(model, stream(600, seed=1, function=other))
    fresh = learn(OnlineSoftBoostRegressor(), stream(600, seed=1, function=other))
    assert model.n_drifts == 1
    assert changed[300:].mean() < 1.2 * fresh[300:].mean()


def test_follows_a_level_that_wanders():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=400))
    errors = learn(OnlineSoftBoostRegressor(), (({"noise": float(rng.normal())}, float(v)) for v in walk))
    assert errors[50:].mean() < 1.15 * np.abs(np.diff(walk)).mean()


def test_predictions_leave_the_targets_seen_by_at_most_their_range():
    model = OnlineSoftBoostRegressor()
    targets = []
    for x in np.random.default_rng(0).uniform(size=200).tolist():
        targets.append(3 * x - 1)  # a straight line, which the model would carry on
        model.learn_one({"a": x}, targets[-1])
    low, high = min(targets), max(targets)
    assert model.predict_one({"a": 1.5}) == pytest.approx(3.5, abs=0.1)
    assert model.predict_one({"a": 1e3}) == pytest.approx(2 * high - low)
    assert model.predict_one({"a": -1e3}) == pytest.approx(2 * low - high)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_error_moves_gates_by_at_most_three_standard_deviations(monkeypatch, sign):
    model = OnlineSoftBoostRegressor()
    learn(model, stream(100))
    model._errors.forget()  # which would move the target closer
    steps = []
    monkeypatch.setattr(model, "_step", lambda *given: steps.append(given[-1]))
    model.learn_one(dict.fromkeys(NAMES, 0.0), sign * 1e4)
    assert steps == [sign * 3.0]


@pytest.mark.parametrize("unit", [1e6, 1e30, 1e-6, 1e-30])
def test_predictions_have_the_unit_of_the_target(unit):
    """Before the first targets differ, errors have no unit, and must not count once they have one."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=160))
    models = OnlineSoftBoostRegressor(), OnlineSoftBoostRegressor()
    for now, previous in zip(walk[1:], walk, strict=False):
        small = models[0].predict_one({"lag": previous})
        assert models[1].predict_one({"lag": previous * unit}) / unit == pytest.approx(small, rel=1e-6, abs=1e-6)
        models[0].learn_one({"lag": previous}, now)
        models[1].learn_one({"lag": previous * unit}, now * unit)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e90])
def test_predictions_do_not_depend_on_the_unit_of_columns(unit):
    """The squares of these values are zero or infinite."""
    models = OnlineSoftBoostRegressor(), OnlineSoftBoostRegressor()
    for x, y in stream(300):
        scaled = {name: value * unit for name, value in x.items()}
        assert models[1].predict_one(scaled) == pytest.approx(models[0].predict_one(x), rel=1e-6, abs=1e-6)
        models[0].learn_one(x, y)
        models[1].learn_one(scaled, y)


def test_model_of_the_largest_columns_can_be_saved(tmp_path):
    model = OnlineSoftBoostRegressor()
    learn(model, [({"a": 1e300 * (-1) ** i, "b": 1e100 * (i % 7)}, float(i % 5)) for i in range(300)])
    model.save(tmp_path / "model")
    x = {"a": 1e100, "b": 3e99}
    assert softboost.load(tmp_path / "model").predict_one(x) == model.predict_one(x)


def test_states_with_variances_go_on():
    """States of older versions have no standard deviations."""
    model = OnlineSoftBoostRegressor()
    learn(model, stream(150))
    state = model.get_state()
    for name in ("units", "target"):
        state[name]["variance"] = state[name].pop("spread") ** 2
    again = OnlineSoftBoostRegressor.from_state(state)
    learn(model, stream(150, 1))
    learn(again, stream(150, 1))
    x, _ = next(stream(1, 2))
    assert again.predict_one(x) == pytest.approx(model.predict_one(x), rel=1e-6)
    state["units"]["variance"][1] = -1.0
    with pytest.raises(ValueError, match="spread contains NaN or a number outside 0"):
        OnlineSoftBoostRegressor.from_state(state)


def test_weights_count_rows():
    """Rows of weight zero change nothing; heavy rows win over light ones that contradict them."""
    rows = list(stream(200))
    plain, weighted = OnlineSoftBoostRegressor(), OnlineSoftBoostRegressor()
    for x, y in rows:
        plain.learn_one(x, y)
        weighted.learn_one(x, y)
        weighted.learn_one(x, y + 100.0, w=0)
    assert plain.predict_one(rows[0][0]) == weighted.predict_one(rows[0][0])
    model = OnlineSoftBoostRegressor(n_trees=0)
    for _ in range(100):
        model.learn_one({"a": 1.0}, 1.0, w=20.0)
        model.learn_one({"a": 1.0}, 0.0, w=0.05)
    assert model.predict_one({"a": 1.0}) > 0.6


def test_same_rows_same_model_whatever_the_order_of_names():
    one, other = OnlineSoftBoostRegressor(), OnlineSoftBoostRegressor()
    for x, y in stream(300):
        assert one.predict_one(x) == other.predict_one(x)
        one.learn_one(x, y)
        other.learn_one(dict(reversed(x.items())), y)


def test_kinds_of_features():
    model = OnlineSoftBoostRegressor()
    rng = np.random.default_rng(0)
    for i in range(300):
        colour, flag = ("red", "green", "blue")[i % 3], bool(i % 2)
        x = {
            "colour": colour,
            "flag": flag,
            "when": datetime(2020, 1, 1 + i % 28, i % 24),
            "none": None,
            "nan": math.nan,
        }
        model.learn_one(x, {"red": 1.0, "green": 5.0, "blue": -3.0}[colour] + 2.0 * flag + 0.01 * rng.normal())
    for colour, flag, y in (("green", True, 7.0), ("blue", False, -3.0)):
        x = {"colour": colour, "flag": flag, "when": date(2020, 1, 5), "never seen": 3, "text": "never seen"}
        assert model.predict_one(x) == pytest.approx(y, abs=0.3)
    with pytest.raises(ValueError, match=r"x\['a'\]=\[1\] is neither a number, a string, a date nor None"):
        model.learn_one({"a": [1]}, 1.0)


def test_memory_is_bounded_however_many_rows_features_and_categories_come():
    model = OnlineSoftBoostRegressor(n_trees=3, buffer_size=128, max_features=10)
    sizes = []
    for i in range(600):
        model.learn_one({"a": i % 7, "b": f"category {i}", f"new {i}": 1.0}, i % 7)
        if i in (300, 599):
            sizes.append(len(pickle.dumps(model)))
    assert sizes[1] <= 1.02 * sizes[0]


@pytest.mark.parametrize(
    "rows",
    [
        [({}, i % 3) for i in range(60)],
        [({"a": 1.0}, 5.0)] * 60,
        [({"a": 1e300 * (-1) ** i, "b": 1e-300 * i}, 1e60 * (i % 5)) for i in range(60)],
        [({"a": i}, 1e6 if i == 40 else 0.1 * i) for i in range(60)],
    ],
    ids=["no features", "constant", "huge and tiny", "outlier"],
)
def test_strange_streams_stay_finite(rows):
    model = OnlineSoftBoostRegressor()
    learn(model, rows)
    low, high = min(y for _, y in rows), max(y for _, y in rows)
    assert 2 * low - high <= model.predict_one({"a": 1e9}) <= 2 * high - low


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_trees": -1}, "n_trees must be an integer from 0 to 1000, got -1"),
        ({"depth": 5}, "depth must be an integer from 1 to 4"),
        ({"forgetting": 0.0}, "forgetting must be a number above 0 and at most 1"),
        ({"buffer_size": 10}, "buffer_size must be an integer from 128"),
        ({"n_trees": 500}, "n_trees=500 with depth=2 gives 16000 leaf coefficients.*use fewer trees"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        OnlineSoftBoostRegressor(**params)


@pytest.mark.parametrize("y", [math.nan, math.inf, 10**400])
def test_bad_targets(y):
    model = OnlineSoftBoostRegressor()
    with pytest.raises(ValueError, match="is not a finite number"):
        model.learn_one({"a": 1.0}, y)
    assert model.n_rows_seen == 0


@pytest.mark.parametrize("w", [-1.0, math.nan, 1e300, 10**400])
def test_bad_weights(w):
    with pytest.raises(ValueError, match=r"w must be a number of at least 0 and at most 1e\+100"):
        OnlineSoftBoostRegressor().learn_one({"a": 1.0}, 1.0, w=w)


def test_the_largest_weight_is_learned():
    model = OnlineSoftBoostRegressor()
    for i in range(30):
        model.learn_one({"a": i / 30}, i / 30, w=1e100)
    assert model.predict_one({"a": 0.5}) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("value", [math.inf, -math.inf, np.float32(math.inf), 10**400])
def test_infinite_features_are_refused(value):
    model = OnlineSoftBoostRegressor()
    learn(model, [({"a": float(i)}, i) for i in range(20)])
    before = pickle.dumps(model)
    for x in ({"a": value}, {"b": value}):
        with pytest.raises(ValueError, match=r"x\['[ab]'\] is infinite; replace it by a finite number, or by None"):
            model.learn_one(x, 1.0)
        with pytest.raises(ValueError, match="is infinite"):
            model.predict_one(x)
    assert pickle.dumps(model) == before
    model.learn_one({"a": math.nan}, 1.0)  # missing


@pytest.mark.slow
def test_a_step_takes_at_most_a_millisecond_with_50_features():
    from softboost._benchmarks import streams

    with threadpool_limits(1):  # processor time counts threads of BLAS that wait in a loop
        assert streams.progressive(OnlineSoftBoostRegressor(), streams.wide_rows(2000))["ms"] < 1.0


# -- saving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [0, 1, 150])
@pytest.mark.parametrize("way", ["file", "state", "pickle"])
def test_saved_models_go_on_to_the_last_bit(way, n_rows, tmp_path):
    model = OnlineSoftBoostRegressor(buffer_size=128)
    learn(model, (({**x, "kind": "yes" if x["a"] > 0 else "no"}, y) for x, y in stream(n_rows)))
    if way == "file":
        model.save(tmp_path / "model")
        again = softboost.load(tmp_path / "model")
    else:
        again = (
            OnlineSoftBoostRegressor.from_state(model.get_state())
            if way == "state"
            else pickle.loads(pickle.dumps(model))
        )
    assert_array_equal(learn(again, stream(150, seed=1)), learn(model, stream(150, seed=1)))


def test_weight_of_zero_is_absence():
    """Also where the row has a feature that was never seen before."""
    one, other = OnlineSoftBoostRegressor(), OnlineSoftBoostRegressor()
    for i, (x, y) in enumerate(stream(60)):
        one.learn_one(x, y)
        other.learn_one(x, y)
        other.learn_one({**x, f"new{i}": 1.0, "text": "a"}, 1e6, w=0)
        assert other.predict_one(x) == one.predict_one(x)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("Q"), "must have the entries"),
        (lambda s: s.update(Q=np.eye(2)), "Q must be an array of shape"),
        (lambda s: s["full"].update(coef=np.full_like(s["full"]["coef"], np.nan)), "coef contains NaN"),
        (lambda s: s["trees"]["columns"].fill(99), "trees contains an index of a row or column outside"),
        (lambda s: s["boosted"]["columns"].fill(99), "boosted contains an index of a row or column outside"),
        (lambda s: s["boosted"]["used"].fill(1.0), "more columns than inputs"),
        (lambda s: s["rows"].update(end=10**6), "rows up to position 1000000"),
        (lambda s: s["params"].update(n_trees=10**9), "n_trees must be an integer"),
        (lambda s: s["params"].update(buffer_size=10**6), "buffer_size=1000000"),
        (lambda s: s.update(encoder=[["a", None], ["a", None]]), "twice"),
    ],
)
def test_spoilt_states_are_refused(spoil, message):
    model = OnlineSoftBoostRegressor(buffer_size=128)
    learn(model, stream(40))
    state = model.get_state()
    spoil(state)
    with pytest.raises(ValueError, match=message):
        OnlineSoftBoostRegressor.from_state(state)


# -- parts -------------------------------------------------------------------------------------------------------------


def test_recursive_least_squares_is_weighted_ridge_regression():
    rng = np.random.default_rng(0)
    basis, y, weight = rng.normal(size=(30, 4)), rng.normal(size=30), rng.uniform(0.5, 2, size=30)
    prior, forgetting = np.array([2.0, 1.0, 0.5, 1.0]), 0.9
    stepwise, at_once = RecursiveLeastSquares(prior, 1.0), RecursiveLeastSquares(prior, 1.0)
    for row, t, w in zip(basis, y, weight, strict=True):
        stepwise.update(row, t - stepwise.coef @ row, w)
    at_once.solve(basis, y, weight)
    expected = np.linalg.solve((basis.T * weight) @ basis + np.diag(1 / prior), (basis.T * weight) @ y)
    assert_allclose(stepwise.coef, expected, rtol=1e-10)
    assert_allclose(at_once.coef, expected, rtol=1e-10)
    assert_allclose(np.triu(stepwise.covariance), np.triu(at_once.covariance), rtol=1e-8, atol=1e-12)
    forgetful = RecursiveLeastSquares(prior, forgetting)
    forgetful.solve(basis, y, weight)
    weight = weight * forgetting ** np.arange(29, -1, -1)
    expected = np.linalg.solve((basis.T * weight) @ basis + np.diag(1 / prior), (basis.T * weight) @ y)
    assert_allclose(forgetful.coef, expected, rtol=1e-10)


def test_covariance_is_bounded_by_its_prior():
    model = RecursiveLeastSquares(np.array([1.0, 2.0]), 0.5)
    model.update(np.array([1.0, 0.0]), 1.0, 1.0)
    for _ in range(100):
        model.forget(2.0)
    assert_allclose(np.diag(model.covariance), [1.0, 2.0])


def random_trees(n_trees=3, depth=2, n_columns=4, n_components=5, seed=0):
    rng = np.random.default_rng(seed)
    trees = SoftTrees(n_trees, depth, n_columns)
    for tree in range(n_trees):
        columns = rng.choice(n_components, 3, replace=False)
        gates = rng.normal(size=(2**depth - 1, 3)), rng.normal(size=2**depth - 1)
        trees.put(tree, SoftTree(depth, columns, *gates, np.zeros((2**depth, 1))))
    return trees, rng


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_trees_agree_with_the_kernel(depth):
    trees, rng = random_trees(depth=depth)
    z, coef = rng.normal(size=(7, 5)), rng.normal(size=trees.n_basis)
    seen, _, reach = trees.forward(z)
    total = np.zeros(7)
    for tree in range(3):
        leaves = coef[trees.leaves(tree)].reshape(2**depth, -1)
        total += _kernels.tree_output(
            np.ascontiguousarray(z[:, trees.columns[tree, :3]].T), depth,
            np.ascontiguousarray(trees.weights[tree][:, :3]), trees.bias[tree],
            np.ascontiguousarray(leaves[:, :1]), np.ascontiguousarray(leaves[:, None, 1:4]),
        )[0]  # fmt: skip
    assert_allclose(trees.basis(seen, reach) @ coef, total, rtol=1e-12)
    assert_allclose(reach.sum(axis=-1), 1.0)
    one = trees.forward(z, 1)
    assert_array_equal(trees.basis(one[0], one[2]), trees.basis(seen, reach)[:, trees.leaves(1)])


def test_boosted_trees_predict_what_they_were_grown_to_and_not_beyond():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.abs(x[:, 0]) + x[:, 1]
    trees = BoostedTrees(24, 2, 4)
    trees.fit(x, y, np.ones(200), rng)
    predicted = np.array([trees.predict(row) for row in x])
    assert np.abs(predicted - y).mean() < 0.1
    seen, _, reach = trees.forward(x)
    assert_allclose(predicted, (trees.start + trees.basis(seen, reach) @ trees.coef).clip(y.min(), y.max()))
    assert trees.predict(np.full(3, 8.0)) == y.max()
    assert trees.predict(np.append(x[0], 5.0)) == pytest.approx(predicted[0])  # a column that came later


@pytest.mark.parametrize("weighted", [False, True])
def test_trees_of_a_stream_are_those_of_algorithm_1(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 120))
    y = np.abs(X[0]) + X[1]
    weight = rng.integers(1, 4, size=120).astype(float) if weighted else np.ones(120)
    learner, y = make_learner(2, 4), y - y.mean()
    trees = boosted_trees(learner, training_data(X, weight), weight, y, 8, 0.25)
    recipe = Recipe("trees", learner, None, 8, 0.25, "zero")
    same = boost(recipe, X, y[None], weight if weighted else None, SquaredError(), np.zeros((1, 120)))
    assert len(trees) == len(same.rounds) == 8
    for tree, output in zip(trees, same.outputs(X), strict=True):
        assert_allclose(0.25 * tree.output(X), output, rtol=1e-9, atol=1e-9)


def test_trees_of_a_stream_end_where_they_predict_nothing():
    rng = np.random.default_rng(0)
    X, noise, weight = rng.normal(size=(2, 100)), rng.normal(size=100), np.ones(100)
    data, learner = training_data(X, weight), make_learner(2, 0)
    assert len(boosted_trees(learner, data, weight, noise, 24, 0.1)) == 0
    assert len(boosted_trees(learner, data, weight, np.abs(X[0]), 24, 0.1)) == 20  # a tree for every five rows


def test_gradients_of_trees_match_differences():
    trees, rng = random_trees()
    z, coef, step = rng.normal(size=5), rng.normal(size=trees.n_basis), 1e-6

    def output(at):
        seen, _, reach = trees.forward(at)
        return trees.basis(seen, reach) @ coef

    by_logit, by_seen = trees.gradients(*trees.forward(z), coef)
    by_z = np.bincount(trees.columns.ravel(), by_seen.ravel(), minlength=5)
    expected = [(output(z + step * e) - output(z - step * e)) / (2 * step) for e in np.eye(5)]
    assert_allclose(by_z, expected, rtol=1e-6, atol=1e-8)
    for place in np.ndindex(by_logit.shape):
        trees.bias[place] += step
        high = output(z)
        trees.bias[place] -= 2 * step
        assert by_logit[place] == pytest.approx((high - output(z)) / (2 * step), rel=1e-5, abs=1e-8)
        trees.bias[place] += step


def test_new_units_leave_the_answers_of_gates_as_they_are():
    trees, rng = random_trees()
    Q, ratio, offset = rng.normal(size=(5, 5)), rng.uniform(0.5, 2, size=5), rng.normal(size=5)
    new = rng.normal(size=(6, 5))
    before = trees.forward((ratio * new + offset) @ Q.T)[1]
    trees.convert(Q, ratio, offset)
    assert_allclose(trees.forward(new @ (Q * ratio / ratio[:, None]).T)[1], before, rtol=1e-10)


def test_running_units_are_mean_and_standard_deviation():
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 2))
    rows[::3, 1] = np.nan
    units = RunningUnits()
    units.grow(2)
    for row in rows:
        units.update(row)
    assert_allclose(units.mean, np.nanmean(rows, axis=0))
    assert_allclose(units.spread, np.nanstd(rows, axis=0))
    assert units.have_shifted()
    units.adopt()
    assert not units.have_shifted()
    assert_allclose(units.standardised(rows)[0], [(rows[0, 0] - units.mean[0]) / units.spread[0], 0.0])


def test_columns_are_cut_off_at_eight_standard_deviations():
    units = RunningUnits()
    units.grow(1)
    for value in (-1.0, 1.0) * 50:
        units.update(np.array([value]))
    units.adopt()
    values = np.array([[7.9], [8.0], [8.1], [1e6], [-7.9], [-8.1], [-1e6]])
    assert_allclose(units.standardised(values)[:, 0], [7.9, 8, 8, 8, -7.9, -8, -8])


def test_the_target_as_observed_counts_where_the_previous_target_predicts_best():
    experts = Experts(3, 0.99)
    experts.mass = 100.0
    # at most 95 percent: the jump may still be an outlier
    for errors, expected in (([12.0, 10.0, 10.0], 1.0 - Experts.DOUBT), ([10.0, 10.2, 10.2], 0.0)):
        experts.errors = np.full((3, 3), 12.0)
        experts.errors[:, 0] = errors
        weights = experts.weights()
        assert weights.sum() == pytest.approx(1.0)
        assert weights[-1].sum() == pytest.approx(expected, abs=0.01)


def test_a_jump_is_no_trend_of_the_previous_target():
    """The levels of the last two models, the previous target, move by at most three usual errors, others by all."""
    experts = Experts(3, 0.99)
    for error in 50 * (1.0, -1.0):
        experts.update(np.zeros(3), error, 1.0)
    before = experts.levels.copy()
    experts.update(np.zeros(3), 100.0, 1.0)
    moved = experts.levels - before
    assert moved[0, 2] > 49.0
    assert_allclose(moved[1:, 2], 0.5 * (3.0 - before[1:, 2]))


def test_an_outlier_is_limited_evidence_about_the_next_one():
    experts = Experts(3, 0.99)
    for error in 50 * (1.0, -1.0):
        experts.update(np.array([0.3, 0.0, 0.0]), error, 1.0)
    before, mass = experts.errors.copy(), experts.mass
    experts.update(np.array([0.3, 0.0, -4e3]), 0.0, 1.0, 1e3)  # the target is back at the level before the outlier
    added = experts.errors - 0.99 * before
    assert added[1, 0] == 0.0
    assert_allclose(added[2, 0], experts.MOST_EVIDENCE * before.min() / mass)


def test_a_single_error_counts_at_most_five_standard_deviations():
    errors = []
    for error in (4.0, 5.0, 1e3):
        experts = Experts(2, 0.99)
        experts.update(np.zeros(2), error, 1.0)
        errors.append(experts.errors[0, 0])
    assert errors == [4.0, 5.0, 5.0]


def test_experts_follow_the_best():
    experts = Experts(2, 0.98)
    for i in range(100):
        experts.update(np.array([1.0, 3.0 + (-1) ** i]), 1.2, 1.0)
    weights = experts.weights()
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0].sum() > 0.99
    assert experts.combined(np.array([1.0, 3.0])) == pytest.approx(1.2, abs=0.02)


def test_drift_test_sees_a_rise_and_no_noise():
    rng = np.random.default_rng(0)
    test = DriftTest()
    assert not any(test.update(e) for e in rng.normal(size=3000))
    assert any(test.update(e) for e in 3 * rng.normal(size=60))


def test_encoder_reads_dates_by_their_place_in_the_week():
    encoder = RowEncoder(20)
    first = encoder.encode({"when": datetime(2024, 1, 1, 12)}, learn=True)
    week_later = encoder.encode({"when": datetime(2024, 1, 8, 12)})
    places = [i for (_, part), i in encoder.slots.items() if part and part.startswith(("@day_", "@week"))]
    assert len(places) == 4
    assert_allclose(first[places], week_later[places], atol=1e-9)
