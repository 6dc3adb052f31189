"""Model inspection: names, importances, directions, Shapley values and plots."""

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from softboost import SoftBoostRegressor
from softboost._boost.soft_tree import SoftTree
from softboost._cli.demo import synthetic_task
from softboost.forecast import Backtest
from softboost.inspection import (
    _attributions,
    _tree_plot,
    attributions,
    describe_features,
    directions,
    dropped_features,
    importances,
    plot_attributions,
    plot_importances,
    plot_partial_dependence,
    plot_transform,
    plot_transform_rounds,
    plot_tree,
    transform_matrix,
)
from softboost.transforms import Diagonal, Linear


def smooth_data(n=100, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.abs(X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=n)


def far_levels(n=150, d=5, seed=0):
    """Rows at very different levels, where y is the first column plus a step in its distance to the second."""
    rng = np.random.default_rng(seed)
    level = 100 * rng.normal(size=n)
    X = level[:, None] + np.column_stack([np.zeros(n), rng.normal(size=(n, d - 1))])
    return X, level + 2 * np.tanh(3 * (X[:, 0] - X[:, 1])) + 0.1 * rng.normal(size=n)


def trees_only(**params):
    return SoftBoostRegressor(n_estimators=15, feature_transform=None, init="constant", **params)


def with_q(transform, **params):
    return SoftBoostRegressor(n_estimators=4, feature_transform=transform, init="constant", **params)


MODELS = {
    "chosen": SoftBoostRegressor(),
    "trees": trees_only(),
    "constant leaves": trees_only(leaves="constant", depth=3),
    "Q": with_q(Linear(2, "supervised")),
    "weights": with_q(Diagonal(group_lasso=0.2)),
    "huber": SoftBoostRegressor(loss="huber", cv=2),
}


@functools.cache
def model_of(name, d=6):
    """The named model, fitted once to the rows of smooth_data."""
    X, y = smooth_data(d=d)
    return clone(MODELS[name]).fit(X, y)


@pytest.fixture(scope="module")
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


# -- importances -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_seeds", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_importances_find_the_relevant_columns_of_the_paper(n_seeds):
    missed = []
    for seed in range(n_seeds):
        task = synthetic_task(seed).task
        model = SoftBoostRegressor().fit(task.X_train, task.y_train)
        top = np.argsort(-model.feature_importances_)[:5]
        if set(top) != set(range(5)):
            missed.append(seed)
    assert len(missed) <= n_seeds // 100, missed


@pytest.mark.parametrize("transform", [Linear(1, "supervised", group_lasso=0.2), Diagonal(), None])
def test_importances_find_them_through_q_and_gates_alone(transform):
    task = synthetic_task(0).task
    model = SoftBoostRegressor(feature_transform=transform, init="constant").fit(task.X_train, task.y_train)
    assert set(np.argsort(-model.feature_importances_)[:5]) == set(range(5))


@pytest.mark.parametrize("name", MODELS)
def test_importances_are_named_sorted_and_sum_to_one(name):
    X, y = smooth_data()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    ranked = importances(MODELS[name].fit(frame, y))
    assert ranked.sum() == pytest.approx(1)
    assert (ranked.diff().dropna() <= 0).all()
    assert sorted(ranked.index) == list("abcdef")
    assert set(ranked.index[:3]) == set("abc")


def test_importance_of_a_category_is_that_of_its_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "c": pd.Categorical(["u", "v", "w"] * 30)})
    y = (frame["c"] == "u") * 2.0 + 0.1 * frame["x"]
    ranked = importances(SoftBoostRegressor().fit(frame, y))
    assert list(ranked.index) == ["c", "x"]


def test_names_must_fit():
    X, y = smooth_data()
    with pytest.raises(ValueError, match="2 names, but the model was fitted on 6"):
        importances(trees_only().fit(X, y), feature_names=["a", "b"])


# -- dropped columns ---------------------------------------------------------------------------------------------------


def test_dropped_columns_change_no_prediction():
    X, y = smooth_data(d=20)
    model = trees_only(depth=1).fit(X, y)
    dropped = dropped_features(model)
    assert 0 < len(dropped) < 20
    other = X.copy()
    for name in dropped:
        other[:, int(name[1:])] += 5.0
    np.testing.assert_array_equal(model.predict(other), model.predict(X))
    kept = next(j for j in range(20) if f"x{j}" not in dropped)
    other[:, kept] += 5.0
    assert np.abs(model.predict(other) - model.predict(X)).max() > 0


def test_sentence_names_what_was_dropped_and_what_counts():
    X, y = smooth_data(d=20)
    model = trees_only(depth=1).fit(X, y)
    text = describe_features(model)
    dropped = dropped_features(model)
    assert f"{len(dropped)} were dropped altogether: {dropped[0]}, " in text
    n, _, total = text.split()[:3]
    assert "columns carry 95% of the prediction" in text
    assert total == "20"
    assert importances(model)[: int(n)].sum() >= 0.95 > importances(model)[: int(n) - 1].sum()


def test_sentence_about_one_column():
    X, _ = smooth_data()
    text = describe_features(SoftBoostRegressor().fit(X, 3 * X[:, 1]))
    assert text.startswith("1 of 6 columns carries 95% of the prediction: x1.")


def test_sentence_of_a_constant_model():
    model = SoftBoostRegressor().fit(np.zeros((30, 2)), np.arange(30.0))
    assert "predicts a constant" in describe_features(model)


# -- the transform -----------------------------------------------------------------------------------------------------


def test_transform_matrix_gives_the_components_that_trees_see():
    X, y = smooth_data()
    model = with_q(Linear(2, "supervised")).fit(X, y)
    Q = transform_matrix(model, k=1)
    assert list(Q.index) == ["z1", "z2"]
    np.testing.assert_allclose(Q.to_numpy(), model.transforms_[1])
    np.testing.assert_allclose(transform_matrix(model).to_numpy(), model.transforms_[-1])


def test_transform_matrix_of_weights_is_diagonal():
    X, y = smooth_data()
    model = with_q(Diagonal()).fit(X, y)
    np.testing.assert_allclose(transform_matrix(model).to_numpy(), np.diag(model.transforms_[-1]))


def test_directions_are_written_by_size():
    X, y = smooth_data()
    model = with_q(Linear(1, "supervised")).fit(X, y)
    weights = transform_matrix(model).to_numpy()[0]
    (text,) = directions(model, n_terms=2)
    order = np.argsort(-np.abs(weights))
    sign = "-" if weights[order[1]] < 0 else "+"
    first, second = (f"{abs(weights[j]):.2g} x{j}" for j in order[:2])
    assert text == f"z1 = {'-' if weights[order[0]] < 0 else ''}{first} {sign} {second} + ..."


def test_model_without_a_transform_says_so():
    X, y = smooth_data()
    with pytest.raises(ValueError, match="has no learned transform"):
        transform_matrix(trees_only().fit(X, y))


def test_round_out_of_range_is_named():
    X, y = smooth_data()
    with pytest.raises(ValueError, match="k=4 is out of range, the model has 4 rounds"):
        transform_matrix(with_q(Linear(1)).fit(X, y), k=4)


# -- attributions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("background", [None, 15])
def test_attributions_add_up(name, background):
    model, (X, _) = model_of(name), smooth_data()
    why = attributions(model, X[:8], None if background is None else X[:background])
    np.testing.assert_allclose(why.baseline + why.values.sum(axis=1), model.predict(X[:8]), rtol=1e-9, atol=1e-9)
    expected = model.predict(X.mean(axis=0)[None] if background is None else X[:background]).mean()
    assert why.baseline == pytest.approx(expected)


@pytest.mark.slow  # importing shap alone takes several seconds; the definition is tested above
@pytest.mark.parametrize("name", MODELS)
def test_attributions_match_shap(name):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model, (X, _) = model_of(name, 5), smooth_data(d=5)
    masker = shap.maskers.Independent(X[:6], max_samples=10)
    explained = shap.explainers.Exact(model.predict, masker)(X[:3], silent=True)
    why = attributions(model, X[:3], X[:6])
    np.testing.assert_allclose(why.values, explained.values, atol=1e-10)
    np.testing.assert_allclose(why.baseline, explained.base_values, atol=1e-10)


def test_attributions_carry_the_labels_of_the_rows():
    X, y = smooth_data()
    frame = pd.DataFrame(X, columns=list("abcdef"), index=[f"day {i}" for i in range(len(X))])
    why = attributions(trees_only().fit(frame, y), frame[3:5])
    assert list(why.frame().index) == ["day 3", "day 4"]
    assert list(why.frame().columns) == list("abcdef")


def naive_shapley(f, x, b):
    """Average contribution of each column over all orders, by definition."""
    from itertools import permutations

    values = np.zeros(len(x))
    orders = list(permutations(range(len(x))))
    for order in orders:
        now = b.copy()
        before = f(now[None])[0]
        for j in order:
            now[j] = x[j]
            after = f(now[None])[0]
            values[j] += after - before
            before = after
    return values / len(orders)


@pytest.mark.parametrize("name", MODELS)
def test_attributions_match_their_definition(name):
    model, (X, _) = model_of(name, 4), smooth_data(d=4)
    why = attributions(model, X[:2], X[10:11])
    for row in range(2):
        np.testing.assert_allclose(why.values[row], naive_shapley(model.predict, X[row], X[10]), atol=1e-10)


def test_linear_model_has_its_slopes_as_attributions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = SoftBoostRegressor().fit(X, X @ [3.0, -2.0, 0.0] + 1)
    why = attributions(model, X[:5])
    np.testing.assert_allclose(why.values, (X[:5] - X.mean(axis=0)) * [3.0, -2.0, 0.0], atol=0.02)


def test_sampled_orders_add_up_and_come_near(monkeypatch):
    X, y = smooth_data()
    model = trees_only(depth=3).fit(X, y)
    exact = attributions(model, X[:5], X[:10])
    monkeypatch.setattr(_attributions, "MAX_EXACT", 1)
    sampled = attributions(model, X[:5], X[:10])
    np.testing.assert_allclose(sampled.prediction, exact.prediction, rtol=1e-9)
    assert 0 < np.abs(sampled.values - exact.values).max() < 0.1 * np.abs(exact.values).max()


def test_attributions_do_not_depend_on_how_rows_are_dealt(monkeypatch):
    X, y = smooth_data()
    model = trees_only(depth=2).fit(X, y)
    at_once = attributions(model, X[:7], X[:9])
    monkeypatch.setattr(_attributions, "MAX_ROWS", 50)
    np.testing.assert_allclose(attributions(model, X[:7], X[:9]).values, at_once.values, atol=1e-12)


def test_attributions_of_columns_with_categories_and_gaps():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=90), "c": pd.Categorical(["u", "v", "w"] * 30), "g": rng.normal(size=90)}
    )
    frame.loc[::4, "g"] = np.nan
    y = (frame["c"] == "u") * 2.0 + frame["x"] + frame["g"].isna()
    model = SoftBoostRegressor().fit(frame, y)
    why = attributions(model, frame[:10], frame[:20])
    assert why.feature_names == ["x", "c", "g"]
    np.testing.assert_allclose(why.baseline + why.frame().sum(axis=1), model.predict(frame[:10]), rtol=1e-9)


def test_attributions_of_several_outputs():
    X, y = smooth_data()
    model = SoftBoostRegressor().fit(X, np.column_stack([y, -y, X[:, 0]]))
    why = attributions(model, X[:4])
    assert why.values.shape == (4, 6, 3)
    np.testing.assert_allclose(why.baseline + why.values.sum(axis=1), model.predict(X[:4]), rtol=1e-9)
    with pytest.raises(ValueError, match="several outputs"):
        why.frame()


def test_attributions_of_counts_add_up_on_the_scale_of_the_link():
    X, _ = smooth_data()
    y = np.random.default_rng(0).poisson(np.exp(0.5 * X[:, 0]))
    model = SoftBoostRegressor(loss="poisson").fit(X, y)
    np.testing.assert_allclose(np.exp(attributions(model, X[:5]).prediction), model.predict(X[:5]), rtol=1e-6)


def test_attributions_of_predictions_held_within_bounds():
    X, y = smooth_data()
    model = SoftBoostRegressor().fit(X, y)
    far = np.full((1, 6), 100.0)
    why = attributions(model, far)
    np.testing.assert_allclose(why.baseline + why.values.sum(axis=1), model.predict(far), rtol=1e-9)


def test_attributions_in_the_anchored_view():
    X, y = far_levels()
    model = SoftBoostRegressor().fit(X, y)
    assert any(member.anchor is not None for member in model.members_)
    why = attributions(model, X[:5], X[:20])
    np.testing.assert_allclose(why.baseline + why.values.sum(axis=1), model.predict(X[:5]), rtol=1e-9)


def test_attributions_through_hard_trees():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = smooth_data()
    model = SoftBoostRegressor(n_estimators=3, weak_learner="lightgbm", feature_transform=None, init="constant").fit(
        X, y
    )
    why = attributions(model, X[:3], X[:4])
    np.testing.assert_allclose(why.baseline + why.values.sum(axis=1), model.predict(X[:3]), rtol=1e-6)


# -- pictures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y = smooth_data()
    return X, trees_only(depth=2).fit(X, y), with_q(Linear(2, "supervised")).fit(X, y)


def test_pictures_draw_on_the_axes_they_are_given(pyplot, fitted):
    X, trees, q = fitted
    draw = {
        "importances": lambda ax: plot_importances(trees, ax=ax),
        "transform": lambda ax: plot_transform(q, ax=ax),
        "rounds": lambda ax: plot_transform_rounds(q, ax=ax),
        "tree": lambda ax: plot_tree(trees, ax=ax),
        "attributions": lambda ax: plot_attributions(attributions(trees, X[:1]), ax=ax),
        "dependence": lambda ax: plot_partial_dependence(trees, X, [0], ax=ax),
        "back-test": lambda ax: Backtest(None, np.ones((1, 5, 2)), {}).plot(ax, kind="errors"),
    }
    for function in draw.values():
        _, ax = pyplot.subplots()
        assert function(ax) is ax
        assert function(None).figure is not ax.figure
        ax.figure.canvas.draw()
        pyplot.close("all")


def test_several_panels_of_dependence_take_axes_or_share_one(pyplot, fitted):
    X, trees, _ = fitted
    _, axes = pyplot.subplots(1, 2)
    assert list(plot_partial_dependence(trees, X, [0, 1], ax=axes)) == list(axes)
    _, ax = pyplot.subplots()
    assert [panel.figure for panel in plot_partial_dependence(trees, X, [0, 1], ax=ax)] == [ax.figure] * 2


def test_importances_are_drawn_by_name_and_size(pyplot, fitted):
    _, trees, _ = fitted
    ax = plot_importances(trees, n_features=3, feature_names=list("abcdef"))
    ranked = importances(trees, list("abcdef"))
    assert [t.get_text() for t in ax.get_yticklabels()] == list(ranked.index[:3][::-1])
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], ranked[:3][::-1])


def test_heat_map_shows_the_largest_columns_of_q(pyplot, fitted):
    _, _, q = fitted
    ax = plot_transform(q, n_features=2)
    Q = transform_matrix(q)
    shown = [t.get_text() for t in ax.get_xticklabels()]
    assert set(shown) == set(Q.abs().max().nlargest(2).index)
    np.testing.assert_allclose(ax.images[0].get_array(), Q[shown])


def test_change_over_rounds_has_a_row_a_round(pyplot, fitted):
    _, _, q = fitted
    ax = plot_transform_rounds(q, component=1, n_features=None)
    np.testing.assert_allclose(ax.images[0].get_array(), [theta[1] for theta in q.transforms_])
    with pytest.raises(ValueError, match="component=2 is out of range; use 0 to 1"):
        plot_transform_rounds(q, component=2)


def test_attributions_are_drawn_from_baseline_to_prediction(pyplot, fitted):
    X, trees, _ = fitted
    why = attributions(trees, X[:2])
    ax = plot_attributions(why, row=1, n_features=3)
    bars = ax.patches
    assert len(bars) == 4  # three columns and one bar for the others
    assert bars[0].get_x() == pytest.approx(why.baseline)
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(why.prediction[1])


def test_tree_is_drawn_with_its_gates_and_leaves(pyplot, fitted):
    _, trees, _ = fitted
    ax = plot_tree(trees, k=2, feature_names=list("abcdef"))
    texts = [t.get_text() for t in ax.texts]
    n_gates = 2 ** trees.trees_[2].depth - 1
    assert texts.count("yes") == texts.count("no") == n_gates
    assert sum(text.endswith("?") or text in ("always no", "always yes") for text in texts) == n_gates
    assert len(texts) == 2 * n_gates + n_gates + n_gates + 1  # words, gates and leaves
    with pytest.raises(ValueError, match="k=15 is out of range"):
        plot_tree(trees, k=15)


def test_a_gate_that_nothing_turns_says_which_way_it_leads():
    tree = SoftTree(1, np.arange(2), np.array([[1e-22, -3e-22]]), np.array([-64.0]), np.zeros((2, 1)))
    text = _tree_plot._gate_text(tree, 0, ["a", "b"], np.zeros(2), np.ones(2), 3)
    assert text == "always no"


@pytest.mark.parametrize("data", [smooth_data, far_levels])
def test_gates_are_written_in_the_units_of_the_columns(data):
    """At the threshold shown, both branches have probability one half."""
    X, y = data()
    model = SoftBoostRegressor(feature_transform=None, depth=1).fit(X, y)
    member = _tree_plot._leader(model)
    assert (member.anchor is not None) == (data is far_levels)
    _, tree = member.boosted.rounds[0]
    names, centre, spread = _tree_plot._inputs(model, member, tree, None)
    (j,) = np.flatnonzero(tree.gate_weights[0])
    threshold = centre[j] - spread[j] * tree.gate_bias[0] / tree.gate_weights[0, j]
    row = X[:1].copy()
    column, *less = (int(part[1:]) for part in names[j].split(" - "))
    row[0, column] = threshold + (row[0, less[0]] if less else 0.0)
    z = ((row - model.units_.centre) / model.units_.spread).T
    z = z if member.anchor is None else member.anchor.view(z)
    z = z[member.boosted.columns][tree.columns]
    assert tree.gate_weights[0] @ z + tree.gate_bias[0] == pytest.approx(0, abs=1e-8)


def test_model_without_trees_cannot_draw_one():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="contains no tree"):
        plot_tree(SoftBoostRegressor().fit(np.zeros((30, 2)), X[:30, 0]))


LONG = [
    "average_weekly_temperature_in_the_warehouse_celsius", "rolling_mean_of_sales_window_28_shift_7",
    "promotion intensity of the main competitor", "holiday", "x4", "anunbreakablenameofmorethanfortycharactersinall",
]  # fmt: skip


def extents(figure, texts):
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    return [(t.get_bbox_patch() or t).get_window_extent(renderer) for t in texts]


@pytest.mark.parametrize("own_axes", [False, True])
@pytest.mark.parametrize(("depth", "gates"), [(1, "greedy"), (3, "greedy"), (2, "random")])
def test_boxes_of_a_tree_with_long_names_do_not_overlap(pyplot, depth, gates, own_axes):
    X, y = smooth_data()
    model = trees_only(depth=depth, gates=gates, leaves="linear" if gates == "greedy" else "constant")
    ax = plot_tree(model.fit(X, y), feature_names=LONG, ax=pyplot.subplots()[1] if own_axes else None)
    nodes = [t for t in ax.texts if t.get_text() not in ("yes", "no")]
    boxes = extents(ax.figure, nodes)
    assert len(boxes) == 2 ** (depth + 1) - 1
    for i, box in enumerate(boxes):
        assert not [j for j, other in enumerate(boxes[:i]) if box.overlaps(other)]
        assert ax.figure.bbox.x0 - 2 <= box.x0 < box.x1 <= ax.figure.bbox.x1 + 2
    pyplot.close("all")


@pytest.mark.parametrize("own_axes", [False, True])
def test_long_names_beside_bars_stay_in_the_figure(pyplot, own_axes):
    X, y = smooth_data()
    model = trees_only().fit(pd.DataFrame(X, columns=LONG), y)
    why = attributions(model, pd.DataFrame(X[:2], columns=LONG))
    for draw in (lambda ax: plot_importances(model, ax=ax), lambda ax: plot_attributions(why, 1, ax=ax)):
        ax = draw(pyplot.subplots()[1] if own_axes else None)
        labels = ax.get_yticklabels()
        for box in extents(ax.figure, labels):
            assert 0 <= box.x0 < box.x1 <= ax.get_window_extent().x0
        assert ax.get_window_extent().width > 0.4 * ax.figure.bbox.width
        assert extents(ax.figure, [ax.xaxis.label])[0].x1 <= ax.figure.bbox.x1
    pyplot.close("all")


def test_attributions_show_the_values_of_the_row(pyplot):
    X, y = smooth_data()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(g=pd.Categorical(np.resize(["u", "v"], len(X))))
    model = SoftBoostRegressor().fit(frame, y + 2 * (frame["g"] == "u"))
    why = attributions(model, frame[3:5])
    ax = plot_attributions(why, 1, n_features=7)
    shown = dict(t.get_text().split(" = ") for t in ax.get_yticklabels())
    assert shown["g"] == "u"
    assert float(shown["c"]) == pytest.approx(frame["c"][4], rel=1e-3)


@pytest.mark.parametrize("kind", ["int64", "int8", "Int64", "uint16"])
def test_partial_dependence_of_integers(pyplot, kind):
    X, y = smooth_data()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(n=pd.array(np.resize(np.arange(9), len(X)), dtype=kind))
    model = trees_only(depth=1).fit(frame, y + np.resize(np.arange(9), len(X)))
    at, drawn = plot_partial_dependence(model, frame, ["n"]).lines[0].get_data()
    rows = frame.assign(n=np.full(len(X), at[2]))
    assert drawn[2] == pytest.approx(model.predict(rows).mean())
    assert drawn[-1] > drawn[0] + 3


def test_partial_dependence_of_integer_arrays(pyplot):
    X = np.random.default_rng(0).integers(0, 5, size=(80, 3))
    at, _ = plot_partial_dependence(SoftBoostRegressor().fit(X, X[:, 1]), X, [1]).lines[0].get_data()
    np.testing.assert_allclose(at, np.arange(5))


@pytest.mark.parametrize("kind", ["category", "str", "int"])
def test_partial_dependence_of_categories(pyplot, kind):
    X, y = smooth_data()
    words = np.resize([10, 20, 30] if kind == "int" else ["a", "b", "c"], len(X))
    g = pd.Categorical(words) if kind == "category" else words
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(g=g)
    model = SoftBoostRegressor(categorical_features=["g"]).fit(frame, y + 3 * (words == words[1]))
    bars = plot_partial_dependence(model, frame, ["g"]).patches
    for place, word in enumerate(words[:3]):
        expected = model.predict(frame.assign(g=pd.Categorical([word] * len(X)) if kind == "category" else word)).mean()
        assert bars[place].get_height() == pytest.approx(expected, rel=1e-6)
    assert len(plot_partial_dependence(model, frame, ["a", "g"])) == 2


def test_partial_dependence_follows_the_model(pyplot, fitted):
    X, trees, _ = fitted
    ax = plot_partial_dependence(trees, X, [2], grid_resolution=10)
    at, drawn = ax.lines[0].get_data()
    rows = X.copy()
    rows[:, 2] = at[3]
    assert drawn[3] == pytest.approx(trees.predict(rows).mean())
    assert len(plot_partial_dependence(trees, X, [0, 1], grid_resolution=5)) == 2
