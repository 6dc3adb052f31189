"""Input columns: all kinds of data frames, names, missing values, categories."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import helpers
from softboost import SoftBoostRegressor
from softboost._data.columns import Columns
from softboost._data.reading import read_frame
from softboost._data.units import Units
from softboost._file.container import dumps, loads

NAMES = list("abcde")


def frames(X):
    return {"pandas": pd.DataFrame(X, columns=NAMES), "polars": pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("make", [SoftBoostRegressor, helpers.plain], ids=["default", "plain"])
def test_frames_equal_arrays(kind, make):
    X, y = helpers.make_data()
    X[::7, 2] = np.nan
    frame = frames(X)[kind]
    model = make().fit(frame, y)
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 5
    assert_array_equal(model.predict(frame), make().fit(X, y).predict(X))
    assert_array_equal(model.predict(frames(X)["polars"]), model.predict(frames(X)["pandas"]))


@pytest.mark.parametrize("dtype", helpers.DTYPES)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_precision_of_a_frame_is_kept(kind, dtype):
    X, y = helpers.make_data()
    assert helpers.plain().fit(frames(X.astype(dtype))[kind], y).predict(frames(X.astype(dtype))[kind]).dtype == dtype


def test_lists_and_other_layouts_equal_arrays():
    X, y = helpers.make_data()
    expected = helpers.plain().fit(X, y).predict(X)
    assert_array_equal(helpers.plain().fit(X.tolist(), y.tolist()).predict(X.tolist()), expected)
    assert_array_equal(helpers.plain().fit(np.asfortranarray(X), y).predict(np.asfortranarray(X)), expected)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    assert_array_equal(helpers.plain().fit(wide, y).predict(wide), expected)


def test_data_of_the_user_are_left_alone():
    X, y = helpers.make_data()
    X[3, 1] = np.nan
    X_before, y_before, weight = X.copy(), y.copy(), np.ones(60)
    X.flags.writeable = y.flags.writeable = weight.flags.writeable = False
    for layout in (X, np.asfortranarray(X)):
        SoftBoostRegressor().fit(layout, y, sample_weight=weight).predict(layout)
        helpers.plain(standardize=False).fit(layout, y).predict(layout)
    assert_array_equal(X, X_before)
    assert_array_equal(y, y_before)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_names_are_checked_at_predict(kind):
    X, y = helpers.make_data()
    frame = frames(X)[kind]
    model = helpers.plain().fit(frame, y)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[NAMES[::-1]])
    renamed = frame.rename(columns={"a": "z"}) if kind == "pandas" else frame.rename({"a": "z"})
    with pytest.raises(ValueError, match=r"unseen at fit time:\s*- z"):
        model.predict(renamed)
    with pytest.raises(ValueError, match=r"yet now missing:\s*- e"):
        model.predict(frame[NAMES[:4]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_names_of_an_earlier_fit_are_forgotten():
    X, y = helpers.make_data()
    model = helpers.plain().fit(frames(X)["pandas"], y)
    assert not hasattr(model.fit(X, y), "feature_names_in_")


# -- missing values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", helpers.MODEL_TABLE)
def test_nan_at_fit_and_predict(make):
    X, y = helpers.make_data(100)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = make().fit(holes, y)
    assert np.all(np.isfinite(model.predict(holes)))
    assert np.all(np.isfinite(list(model.staged_predict(holes))))


@pytest.mark.parametrize("make", helpers.MODEL_TABLE)
def test_nan_first_seen_at_predict_counts_as_the_mean(make):
    X, y = helpers.make_data()
    model = make().fit(X, y)
    holes, filled = X.copy(), X.copy()
    holes[::2, 1] = np.nan
    filled[::2, 1] = model.units_.centre[1]
    assert_allclose(model.predict(holes), model.predict(filled), rtol=1e-9, atol=1e-9)


def test_nan_that_carries_information_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 0.1 * rng.normal(size=200)
    gone = rng.random(200) < 0.5
    X[gone, 0] = np.nan
    y[gone] += 3.0
    model = SoftBoostRegressor().fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.feature_importances_[0] > 0.8


def test_equal_patterns_of_missing_values_get_one_column():
    X = np.arange(40.0).reshape(10, 4)
    X[::2, 0] = X[::2, 2] = np.nan
    X[1:4, 3] = np.nan
    columns = Columns.learn(X, {}, None)
    assert list(columns.missing) == [0, 3]
    assert columns.encode(X, {}).shape == (10, 6)
    assert_array_equal(columns.source, [0, 1, 2, 3, 0, 3])
    encoded = columns.encode(X, {})
    assert columns.n_encoded == encoded.shape[1]
    assert not np.isnan(Units.learn(encoded, np.zeros((1, 10)), None).standardised(encoded)).any()


def test_nullable_dtypes_of_pandas():
    X, y = helpers.make_data()
    frame = pd.DataFrame({
        "whole": pd.array([None, *range(59)], dtype="Int64"),
        "real": pd.array([None, *X[1:, 0]], dtype="Float64"),
        "truth": pd.array([None, *(X[1:, 1] > 0)], dtype="boolean"),
        "object": pd.Series([None, *X[1:, 2]], dtype=object),
    })  # fmt: skip
    matrix, categories = read_frame(frame, "auto")
    assert categories == {}
    assert matrix.dtype == np.float64
    assert np.isnan(matrix[0]).all()
    assert not np.isnan(matrix[1:]).any()
    assert np.all(np.isfinite(SoftBoostRegressor().fit(frame, y).predict(frame)))


@pytest.mark.parametrize("dtype", ["UInt8", "Int8", "Int16", "Int64", "Boolean"])
def test_small_whole_numbers_with_holes_are_the_same_from_every_library(dtype):
    """polars converts some of them to single precision."""
    values = [1, 0, None, 1, 0, 1, 0, 0] * 5
    y = np.arange(40.0)
    pandas = pd.DataFrame({"a": pd.array(values, dtype=dtype.replace("B", "b")), "b": y})
    polars = pl.DataFrame({"a": pl.Series(values).cast(getattr(pl, dtype)), "b": y})
    for names in (["a"], ["a", "b"]):
        want = helpers.plain().fit(pandas[names], y).predict(pandas[names])
        got = helpers.plain().fit(polars[names], y).predict(polars[names])
        assert got.dtype == want.dtype == np.float64
        assert_array_equal(got, want)


def test_null_and_nan_of_polars_are_both_missing():
    frame = pl.DataFrame({"a": [1.0, None, float("nan")], "b": [1, None, 3], "c": [True, None, False]})
    matrix, _ = read_frame(frame, "auto")
    assert_array_equal(np.isnan(matrix), [[False, False, False], [True, True, True], [True, False, False]])
    assert_array_equal(matrix[0], 1.0)


# -- categories --------------------------------------------------------------------------------------------------------


def category_data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["ankara", "bursa", "izmir"], size=n)
    size = rng.normal(size=n)
    y = np.select([town == "ankara", town == "bursa"], [2.0, -1.0], 0.0) + 0.3 * size + 0.05 * rng.normal(size=n)
    return town, size, y


def category_frames():
    town, size, _ = category_data()
    return {
        "pandas category": pd.DataFrame({"town": pd.Categorical(town), "size": size}),
        "polars categorical": pl.DataFrame({"town": pl.Series(town).cast(pl.Categorical), "size": size}),
        "polars enum": pl.DataFrame(
            {"town": pl.Series(town).cast(pl.Enum(["ankara", "bursa", "izmir"])), "size": size}
        ),
    }


@pytest.mark.parametrize("kind", ["pandas category", "polars categorical", "polars enum"])
def test_category_columns_are_taken_by_themselves(kind):
    frame, y = category_frames()[kind], category_data()[2]
    model = SoftBoostRegressor().fit(frame, y)
    assert model.score(frame, y) > 0.95
    assert model.feature_importances_.shape == (2,)
    assert model.feature_importances_[0] > 0.5


@pytest.mark.parametrize("named", [["town"], [0], [True, False]], ids=["name", "number", "mask"])
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_columns_are_categories_when_named(named, library):
    town, size, y = category_data()
    frame = library.DataFrame({"town": town, "size": size})
    model = SoftBoostRegressor(categorical_features=named).fit(frame, y)
    expected = SoftBoostRegressor().fit(category_frames()["pandas category"], y)
    assert_array_equal(model.predict(frame), expected.predict(category_frames()["pandas category"]))


def test_category_columns_of_arrays_and_lists():
    town, size, y = category_data()
    X = np.column_stack([town.astype(object), size.astype(object)])
    expected = SoftBoostRegressor().fit(category_frames()["pandas category"], y)
    for rows in (X, X.tolist()):
        model = SoftBoostRegressor(categorical_features=[0]).fit(rows, y)
        assert_array_equal(model.predict(rows), expected.predict(category_frames()["pandas category"]))


def test_numbers_can_be_categories_whatever_their_type():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 4, size=100)
    y = np.array([3.0, -1.0, 2.0, 0.0])[code]
    model = SoftBoostRegressor(categorical_features=["code"]).fit(pd.DataFrame({"code": code}), y)
    assert model.score(pd.DataFrame({"code": code.astype(float)}), y) > 0.95
    assert model.score(pl.DataFrame({"code": code}), y) > 0.95


def test_unknown_and_missing_categories_are_no_category():
    frame, y = category_frames()["pandas category"], category_data()[2]
    model = SoftBoostRegressor().fit(frame, y)
    new = pd.DataFrame({"town": ["mersin", None, np.nan], "size": [0.0, 0.0, 0.0]})
    prediction = model.predict(new)
    assert np.all(np.isfinite(prediction))
    assert_array_equal(prediction[1:], prediction[0])


def test_rare_categories_share_the_column_of_none():
    values = np.array(["often"] * 10 + ["twice"] * 2 + ["once"], dtype=object)
    columns = Columns.learn(np.zeros((13, 1)), {0: values}, None)
    assert columns.categories == {0: ["often", "twice"]}
    many = np.array([f"c{j:03d}" for j in range(100)] * 2, dtype=object)
    assert len(Columns.learn(np.zeros((200, 1)), {0: many}, None).categories[0]) == 32


def test_weight_of_two_counts_a_category_twice():
    values = np.array(["a", "a", "b", "c"], dtype=object)
    weighted = Columns.learn(np.zeros((4, 1)), {0: values}, np.array([1.0, 1.0, 2.0, 1.0]))
    repeated = Columns.learn(np.zeros((5, 1)), {0: values[[0, 1, 2, 2, 3]]}, None)
    assert weighted.categories == repeated.categories == {0: ["a", "b"]}


TEXT_TYPES = {
    "pandas object": lambda town: pd.DataFrame({"town": pd.Series(town, dtype=object)}),
    "pandas string": lambda town: pd.DataFrame({"town": pd.Series(town, dtype="string")}),
    "pandas 3 string": lambda town: pd.DataFrame({"town": pd.Series(town, dtype=pd.StringDtype(na_value=np.nan))}),
    "pandas arrow": lambda town: pd.DataFrame({"town": pd.Series(town, dtype="string[pyarrow]")}),
    "polars": lambda town: pl.DataFrame({"town": list(town)}),
    "array of objects": lambda town: np.array(town, dtype=object)[:, None],
    "array of strings": lambda town: np.array(town, dtype=str)[:, None],
    "list": lambda town: [[t] for t in town],
}


@pytest.mark.parametrize("kind", TEXT_TYPES)
def test_text_is_taken_as_categories(kind):
    town, _, y = category_data()
    X = TEXT_TYPES[kind](town)
    expected = helpers.plain().fit(pd.DataFrame({"town": pd.Categorical(town)}), y)
    model = helpers.plain().fit(X, y)
    assert model.columns_.categories == expected.columns_.categories == {0: ["ankara", "bursa", "izmir"]}
    assert_array_equal(model.predict(X), expected.predict(pd.DataFrame({"town": town})))


def test_numbers_beside_text_in_an_array_of_strings():
    town, size, y = category_data()
    X = np.column_stack([town, size])
    assert X.dtype.kind == "U"
    model = helpers.plain().fit(X, y)
    expected = helpers.plain().fit(pd.DataFrame({"town": town, "size": X[:, 1].astype(float)}), y)
    assert list(model.columns_.categories) == [0]
    assert_array_equal(model.feature_importances_, expected.feature_importances_)


def test_missing_text_is_no_category():
    town, size, y = category_data()
    for missing in (None, np.nan, pd.NA):
        words = town.astype(object)
        words[::5] = missing
        model = helpers.plain().fit(pd.DataFrame({"town": words, "size": size}), y)
        assert model.columns_.categories == {0: ["ankara", "bursa", "izmir"]}


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_all_columns_that_cannot_be_used_are_named_at_once(library):
    _, size, y = category_data()
    bytes_ = [b"x"] * 120
    lists = [[1, 2]] * 120
    frame = library.DataFrame({"raw": bytes_, "size": size, "tags": lists})
    expected = r"cannot be used: 'raw' \(.*\), 'tags' \(.*\)\. .*categorical_features=\['raw', 'tags'\]"
    with pytest.raises(ValueError, match=expected):
        SoftBoostRegressor().fit(frame, y)


def test_a_mixture_of_numbers_and_text_is_refused():
    _, size, y = category_data()
    mixed = size.astype(object)
    mixed[3] = "n/a"
    with pytest.raises(ValueError, match=r"'price' \(mixes float and str\)"):
        SoftBoostRegressor().fit(pd.DataFrame({"price": mixed}), y)
    rows = np.array([["a", 1.0, 2.0]] * 120, dtype=object)
    rows[::2, [0, 2]] = [3.0, "b"]
    with pytest.raises(ValueError, match=r"Columns \[0, 2\] hold text; pass categorical_features=\[0, 2\]"):
        SoftBoostRegressor().fit(rows, y)
    named = SoftBoostRegressor(categorical_features=[0, 2]).fit(rows, y)
    assert named.columns_.categories == {0: ["3", "a"], 2: ["2", "b"]}


def test_a_column_of_another_type_at_predict_is_refused():
    town, size, y = category_data()
    model = helpers.plain().fit(pd.DataFrame({"town": town, "size": size, "other": size}), y)
    other = pd.DataFrame({"town": town, "size": town, "other": pd.Timestamp("2024-01-01")})
    expected = r"differ from those in fit: 'size' \(a number in fit, now .*\), 'other' \(a number in fit, now Datetime"
    with pytest.raises(ValueError, match=expected):
        model.predict(other)


def test_numbers_in_place_of_the_categories_of_a_frame_are_refused():
    """An array of codes matches no category; without an error every row would get the same wrong prediction."""
    town, size, y = category_data()
    frame = pd.DataFrame({"town": pd.Categorical(town), "size": size})
    model = helpers.plain().fit(frame, y)
    codes = np.column_stack([frame["town"].cat.codes, size])
    expected = r"column 'town' of X holds numbers .*fitted on its categories \[.*with the columns \['town', 'size'\]"
    for use in (model.predict, lambda X: model.partial_fit(X, y), lambda X: model.fit(frame, y, eval_set=(X, y))):
        for X in (codes, pd.DataFrame(codes, columns=["town", "size"])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # arrays have no names
                with pytest.raises(ValueError, match=expected):
                    use(X)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert_array_equal(model.predict(frame.to_numpy()), model.predict(frame))
    numbered = helpers.plain().fit(frame.assign(town=frame["town"].cat.codes.astype("category")), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        numbered.predict(codes)


def test_categories_can_be_switched_off():
    with pytest.raises(ValueError, match=r"'town' \(dtype Categorical\).*categorical_features=\['town'\]"):
        SoftBoostRegressor(categorical_features=None).fit(category_frames()["pandas category"], category_data()[2])


# -- standardising -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_standardised_columns_have_mean_zero_and_unit_variance(scale):
    X, y = helpers.make_data(200)
    X, y = scale * (3.0 + X), scale * (3.0 + y)[None]
    units = Units.learn(X, y, None)
    for standard in (units.standardised(X), units.standardised_y(y)):
        assert_allclose(standard.mean(axis=1), 0.0, atol=1e-12)
        assert_allclose(standard.std(axis=1), 1.0, rtol=1e-12)
    assert_allclose(units.original_y(units.standardised_y(y)), y, rtol=1e-12)


@pytest.mark.parametrize("largest", [1e308, -1e308])
def test_differences_from_the_mean_do_not_overflow(largest):
    X = largest * np.array([[1.0], *[[-1.0]] * 19])  # the distance of the first row from the mean overflows
    units, small = Units.learn(X, X.T, None), Units.learn(X / 1e9, X.T / 1e9, None)
    assert_allclose(units.standardised(X), small.standardised(X / 1e9), rtol=1e-12)
    assert_allclose(units.standardised_y(X.T), small.standardised_y(X.T / 1e9), rtol=1e-12)


def test_weighted_centre_and_spread_are_those_of_repeated_rows():
    X, y = helpers.make_data(30)
    X[4, 2] = np.nan
    weight = np.random.default_rng(0).integers(1, 4, size=30)
    weighted = Units.learn(X, y[None], weight.astype(float))
    repeated = Units.learn(np.repeat(X, weight, axis=0), np.repeat(y, weight)[None], None)
    for name in ("centre", "spread", "y_centre", "y_spread"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12)


def test_constant_columns_have_a_spread_of_one():
    X = np.column_stack([np.full(10, 1e9), np.full(10, 0.1) * 3, np.arange(10.0)])
    units = Units.learn(X, X.T, None)
    assert_array_equal(units.spread[:2], 1.0)
    assert np.abs(units.standardised(X)[:2]).max() < 1e-6


def test_what_is_not_standardised_stays_as_it_is():
    X, y = helpers.make_data(30)
    for columns, target in ((False, True), (True, False)):
        units = Units.learn(X, y[None], None, columns=columns, target=target)
        assert np.array_equal(units.standardised(X), X.T) is not columns
        assert np.array_equal(units.standardised_y(y[None]), y[None]) is not target


@pytest.mark.parametrize(("scale", "dtype"), [(1e-300, np.float64), (1e-306, np.float64), (1e-36, np.float32)])
def test_tiny_columns_are_no_constants(scale, dtype):
    X, y = helpers.make_data(60)
    model = SoftBoostRegressor().fit((X * scale).astype(dtype), y)
    again = loads(dumps(model))
    assert again.score((X * scale).astype(dtype), y) > 0.8
