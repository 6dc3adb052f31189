"""The model file: complete, exact, atomic, and safe to load from any source."""

from __future__ import annotations

import json
import os
import stat
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import helpers
import softboost
from fuzz.harness import fuzz
from helpers import Fourier, plain, quartic, quartic_gradient
from softboost import SoftBoostRegressor, load
from softboost._file import values
from softboost._file.container import FORMAT_VERSION, MAGIC, PREFIX, dumps, loads, sealed
from softboost._file.values import ModelFileError
from softboost._regressor import SoftBoostRegressor as RegressorClass
from softboost.forecast import Forecaster
from softboost.losses import LOSSES, Huber, Loss, Quantile, Tweedie
from softboost.online import OnlineSoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Diagonal, Linear
from softboost.weak_learners import HardTrees

GOLDEN = Path(__file__).parent / "golden"
CUSTOM_OBJECTS = {"Fourier": Fourier, "quartic": quartic, "quartic_gradient": quartic_gradient}


def make_data(n=60, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, np.exp(0.5 * X[:, 0]) + np.abs(X[:, 1]) + 0.1


def with_holes(X):
    X = X.copy()
    X[::7, 1] = np.nan
    X[::5, 2] = np.nan
    return X


def frame_of(X):
    frame = pd.DataFrame(X, columns=[f"lag {j}" for j in range(X.shape[1])])
    frame["weekday"] = pd.Categorical(np.array(["mo", "tu", "wé"])[np.arange(len(X)) % 3])
    return frame


PLAIN = {"n_estimators": 4, "learning_rate": 0.3, "depth": 2, "init": "constant"}
MODELS = {
    "default": (SoftBoostRegressor(), {}),
    "bsdt": (bsdt(3, n_steps=5, random_state=0), {}),
    "bsdt_q": (bsdt_q(3, n_steps=5, random_state=0), {}),
    "linear": (SoftBoostRegressor(**PLAIN, feature_transform=Linear(2, "supervised", group_lasso=0.1)), {}),
    "diagonal": (SoftBoostRegressor(**PLAIN, feature_transform=Diagonal(group_lasso=0.01)), {}),
    "constant leaves": (SoftBoostRegressor(**PLAIN, feature_transform=None, leaves="constant"), {}),
    "linear start": (SoftBoostRegressor(4, 0.3, 2, feature_transform=None, init="linear"), {}),
    "early stopping": (SoftBoostRegressor(**PLAIN, early_stopping=True), {}),
    "own transform": (SoftBoostRegressor(**PLAIN, feature_transform=Fourier(n_steps=3)), {"Fourier": Fourier}),
    "own functions": (
        SoftBoostRegressor(**PLAIN, loss=(quartic, quartic_gradient)),
        {"quartic": quartic, "quartic_gradient": quartic_gradient},
    ),
    "few rows": (SoftBoostRegressor(), {}),
    "hard trees": (
        SoftBoostRegressor(3, 0.5, feature_transform=None, weak_learner=DecisionTreeRegressor(max_depth=3)),
        {},
    ),
    "hard trees with Q": (
        SoftBoostRegressor(3, 0.5, feature_transform=Linear(2, n_steps=3), weak_learner=HardTrees("lightgbm")),
        {},
    ),
    **{f"loss {name}": (SoftBoostRegressor(**PLAIN, loss=name, feature_transform=None), {}) for name in LOSSES},
}


def fitted(name, dtype=np.float64):
    X, y = make_data(dtype=dtype)
    rows = 1 if name == "few rows" else len(y)
    return clone(MODELS[name][0]).fit(X[:rows], y[:rows]), X


def assert_same_model(model, other, X):
    assert type(other) is type(model)
    assert np.array_equal(model.predict(X), other.predict(X))
    for early, also in zip(model.staged_predict(X), other.staged_predict(X), strict=True):
        assert np.array_equal(early, also)
    assert model.n_estimators_ == other.n_estimators_
    assert model.evals_result_ == other.evals_result_
    assert repr(model.choice_) == repr(other.choice_)
    assert np.array_equal(model.feature_importances_, other.feature_importances_)
    assert set(vars(model)) == set(vars(other))


class TestRoundTrip:
    @pytest.mark.parametrize("name", MODELS)
    def test_predicts_the_same_bits(self, name, tmp_path):
        model, X = fitted(name)
        path = tmp_path / "model.softboost"
        model.save(path)
        again = load(path, custom_objects=MODELS[name][1])
        assert_same_model(model, again, X)
        assert dumps(again) == path.read_bytes()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("name", ["default", "bsdt_q", "linear"])
    def test_keeps_precision(self, name, dtype):
        model, X = fitted(name, dtype)
        again = loads(dumps(model))
        for kind in (np.float32, np.float64):
            want = model.predict(X.astype(kind))
            assert np.array_equal(again.predict(X.astype(kind)), want)
            assert again.predict(X.astype(kind)).dtype == want.dtype

    def test_keeps_missing_values_names_and_categories(self):
        X, y = make_data()
        frame = frame_of(with_holes(X))
        model = SoftBoostRegressor().fit(frame, y)
        again = loads(dumps(model))
        assert_same_model(model, again, frame)
        assert list(again.feature_names_in_) == list(frame.columns)
        with pytest.raises(ValueError, match="feature names"):
            again.predict(frame.rename(columns={"lag 0": "other"}))
        with pytest.raises(ModelFileError, match="contains a name twice"):
            loads(
                reheaded(
                    dumps(model), lambda h: fitted_part(h, "feature_names_in_")[1]["items"].__setitem__(0, "lag 1")
                )
            )

    def test_keeps_several_outputs(self):
        X, y = make_data()
        model = SoftBoostRegressor().fit(X, np.column_stack([y, -y]))
        assert_same_model(model, loads(dumps(model)), X)

    @pytest.mark.parametrize("loss", [Quantile(0.9), Huber(0.3), Huber(), Tweedie(1.2)])
    def test_keeps_settings_of_losses(self, loss):
        X, y = make_data()
        model = SoftBoostRegressor(**PLAIN, loss=loss, feature_transform=None).fit(X, y)
        again = loads(dumps(model))
        assert type(again.loss) is type(loss)
        assert vars(again.loss) == vars(loss)
        assert vars(again.loss_) == vars(model.loss_)

    @pytest.mark.parametrize(
        "params",
        [
            {"cv": KFold(3)},
            {"cv": TimeSeriesSplit(3, gap=1)},
            {"cv": ShuffleSplit(2, test_size=0.3, random_state=0)},
            {"cv": [(np.arange(30), np.arange(30, 60))]},
            {"random_state": np.random.RandomState(3)},
            {"random_state": np.random.default_rng(3)},
            {"n_jobs": 2, "random_state": 5, "verbose": False},
            {"categorical_features": [0], "tol": 0.0},
        ],
    )
    def test_keeps_parameters(self, params):
        X, y = make_data()
        X[:, 0] = np.round(X[:, 0])
        model = SoftBoostRegressor(**PLAIN, **params).fit(X, y)
        again = loads(dumps(model))
        own, other = model.get_params(), again.get_params()
        if "random_state" in params and not isinstance(params["random_state"], int):
            one, two = own.pop("random_state"), other.pop("random_state")
            assert type(one) is type(two)
            assert one.normal() == two.normal()
        assert repr(own) == repr(other)
        assert np.array_equal(again.fit(X, y).predict(X), clone(model).fit(X, y).predict(X))

    def test_goes_on_learning(self):
        X, y = make_data()
        model = plain(n_estimators=3, feature_transform="linear", warm_start=True).fit(X, y)
        again = loads(dumps(model))
        for m in (model, again):
            m.set_params(n_estimators=6).fit(X, y)
        assert np.array_equal(model.predict(X), again.predict(X))
        for m in (model, again):
            m.partial_fit(X[:20], y[:20] + 1)
        assert np.array_equal(model.predict(X), again.predict(X))
        assert_same_model(again, loads(dumps(again)), X)

    @pytest.mark.parametrize("name", ["default", "bsdt", "bsdt_q", "linear", "constant leaves", "linear start"])
    def test_holds_no_training_rows(self, name):
        X, y = make_data(200, 4)
        data = dumps(clone(MODELS[name][0]).fit(X, y))
        numbers = np.concatenate([X.ravel(), y])
        assert not any(struct.pack("<d", v) in data for v in numbers)
        for own in (X.ravel(), X.T.ravel(), y):  # four bytes of a single number also occur by chance
            assert not any(struct.pack("<ff", *pair) in data for pair in pairwise(own))
        assert not any(repr(float(v)).encode() in data for v in numbers)

    def test_costs_little(self):
        model, _ = fitted("default")
        n_numbers = sum(a.size for a in model._fitted.ensemble.arrays().values())
        assert len(dumps(model)) < 60 * n_numbers + 20_000

    def test_keeps_order_of_arrays_in_memory(self):
        model, X = fitted("own transform")
        rounds = model.members_[0].boosted.rounds
        rounds[:] = [(np.asfortranarray(theta), tree) for theta, tree in rounds]
        again = loads(dumps(model), MODELS["own transform"][1])
        assert again.members_[0].boosted.rounds[0][0].flags.f_contiguous
        assert np.array_equal(again.predict(X), model.predict(X))


class TestEveryTransformAndLearner:
    """Models with gaps in X, before and after partial_fit, to the last bit; with selection and as plain fits."""

    @pytest.mark.parametrize("choose", [False, True], ids=["plain", "chosen"])
    @pytest.mark.parametrize("transform", [None, *helpers.TRANSFORM_TABLE])
    def test_transforms(self, transform, choose, tmp_path):
        self.go_on(None if transform is None else clone(transform), "soft", choose, tmp_path)

    @pytest.mark.parametrize("choose", [False, True], ids=["plain", "chosen"])
    @pytest.mark.parametrize("name", ["mlp", "rnn", "lstm", "cnn"])
    def test_networks(self, name, choose, tmp_path):
        pytest.importorskip("torch", reason="needs the extra torch")
        window = {} if name == "mlp" else {"windows": [[2, 1, 0], [4, 3, 2]]}
        self.go_on(getattr(softboost.transforms, name)(n_steps=2, **window), "soft", choose, tmp_path)

    @pytest.mark.parametrize("transform", [None, "linear"])
    @pytest.mark.parametrize(
        "learner", ["lightgbm", "xgboost", "catboost", DecisionTreeRegressor(max_depth=3), ExtraTreeRegressor()]
    )
    def test_learners(self, learner, transform, tmp_path):
        if isinstance(learner, str):
            pytest.importorskip(learner, reason=f"{learner} is not installed")
        self.go_on(transform, learner, False, tmp_path)

    def go_on(self, transform, learner, choose, tmp_path):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(90, 5))
        y = X[:, 0] + np.abs(X[:, 1])
        X[rng.random(X.shape) < 0.1] = np.nan
        soft = {**PLAIN, "gates": "greedy", "leaves": "linear"} if learner == "soft" else {"n_estimators": 3}
        settings = {} if choose else {"learning_rate": 0.3, **soft}
        model = SoftBoostRegressor(**settings, feature_transform=transform, weak_learner=learner, random_state=0)
        model.fit(X[:60], y[:60])
        custom = {"Fourier": helpers.Fourier}
        for rows in (slice(60, 63), slice(63, 66), slice(66, 90)):  # corrections, and a refit
            model.save(tmp_path / "model")
            again = load(tmp_path / "model", custom_objects=custom)
            assert_same_model(model, again, X)
            for one in (model, again):
                one.partial_fit(X[rows], y[rows])
            assert_same_model(model, again, X)


class TestTorch:
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def needs_torch(cls):
        pytest.importorskip("torch", reason="needs the extra torch")

    @pytest.mark.parametrize("maker", ["mlp", "lstm", "cnn"])
    def test_networks_come_back(self, maker):
        make = getattr(softboost.transforms, maker)
        X, y = make_data()
        transform = make(n_steps=2) if maker == "mlp" else make(windows=[[2, 1, 0], [4, 3, 2]], n_steps=2)
        model = SoftBoostRegressor(2, 0.5, 1, feature_transform=transform, init="constant", random_state=0).fit(X, y)
        assert_same_model(model, loads(dumps(model)), X)

    def test_own_modules_are_passed_again(self):
        import torch

        X, y = make_data()
        transform = softboost.transforms.TorchTransform(
            torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.Tanh()), n_steps=2
        )
        model = SoftBoostRegressor(2, 0.5, 1, feature_transform=transform, init="constant", random_state=0).fit(X, y)
        with pytest.raises(ModelFileError, match=r"custom_objects=\{'TorchTransform': transform\}"):
            loads(dumps(model))
        assert_same_model(model, loads(dumps(model), {"TorchTransform": transform}), X)

    def test_networks_larger_than_their_weights_are_refused(self):
        X, y = make_data()
        transform = softboost.transforms.mlp(n_steps=2)
        model = SoftBoostRegressor(1, 0.5, 1, feature_transform=transform, init="constant", random_state=0).fit(X, y)

        def change(node):
            """Every number of every recipe a billion."""
            items = node.values() if isinstance(node, dict) else node
            if isinstance(node, dict) and any(p[0] == "recipe" for p in node.get("items", []) if isinstance(p, list)):
                node["items"] = [
                    [k, [10**9] if isinstance(v, list) else 10**9 if type(v) is int else v] for k, v in node["items"]
                ]
            for child in items:
                if isinstance(child, (dict, list)):
                    change(child)

        with pytest.raises(ModelFileError, match="a size of 1000000000 cannot have"):
            loads(reheaded(dumps(model), change))


class OwnLoss(Loss):
    def __init__(self, power):
        self.power = power

    def loss(self, y_true, raw_prediction):
        return np.abs(y_true - raw_prediction) ** self.power

    def gradient(self, y_true, raw_prediction):
        return self.power * np.sign(raw_prediction - y_true) * np.abs(y_true - raw_prediction) ** (self.power - 1)


class TestOwnObjects:
    def test_come_from_custom_objects(self):
        X, y = make_data()
        model = SoftBoostRegressor(**PLAIN, loss=OwnLoss(1.5), feature_transform=None).fit(X, y)
        again = loads(dumps(model), {"OwnLoss": OwnLoss})
        assert_same_model(model, again, X)
        assert again.loss_.power == 1.5

    @pytest.mark.parametrize("name", ["own transform", "own functions"])
    def test_missing_ones_are_named(self, name):
        model, _ = fitted(name)
        with pytest.raises(ModelFileError, match=r"custom_objects=\{'(Fourier|quartic)': \.\.\.\}"):
            loads(dumps(model))

    @pytest.mark.parametrize("wrong", [3, "Fourier", dict, eval])
    def test_wrong_ones_are_refused(self, wrong):
        model, _ = fitted("own transform")
        with pytest.raises(ModelFileError, match="is not a subclass of"):
            loads(dumps(model), {"Fourier": wrong})

    def test_nothing_is_taken_from_elsewhere(self):
        """A file cannot refer to a class or function of Python."""
        model, _ = fitted("own functions")
        data = dumps(model).replace(b'"quartic"', b'"eval"   ')
        header = PREFIX.unpack(data[: PREFIX.size])[2]
        with pytest.raises(ModelFileError, match="named 'eval'"):
            loads(sealed(header, data[PREFIX.size :]))

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"random_state": np.random.Generator(np.random.MT19937(0))}, "random_state uses MT19937"),
            ({"loss": (lambda y, f: (y - f) ** 2, lambda y, f: 2 * (f - y))}, "<lambda>"),
            ({"cv": iter([(np.arange(30), np.arange(30, 60))])}, r"model\.params\['cv'\].*set_params"),
        ],
    )
    def test_that_cannot_be_saved_are_named(self, params, message, tmp_path):
        X, y = make_data()
        model = SoftBoostRegressor(**PLAIN, **params).fit(X, y)
        with pytest.raises(ValueError, match=message):
            model.save(tmp_path / "model")
        assert not list(tmp_path.iterdir())


class Bundle:
    """A model that contains models, like a forecaster."""

    def __init__(self, models, window):
        self.models, self.window = models, window


class TestOtherKinds:
    def test_plug_in_with_a_codec(self, monkeypatch):
        monkeypatch.setattr(values, "_CODECS", dict(values._CODECS))
        monkeypatch.setattr(values, "_TAGS", dict(values._TAGS))

        def unpack(fields):
            return Bundle(fields.take("models", list), fields.array("window", "f", (3,)))

        monkeypatch.setattr(values, "_MODELS", set(values._MODELS))
        values.register(Bundle, values.Codec(vars, unpack), model=True)
        (one, X), unfitted = fitted("linear"), SoftBoostRegressor(depth=3)
        data = dumps(Bundle([one, unfitted, one], np.arange(3.0)))
        again = loads(data)
        assert json.loads(data[64 : data.index(b',"model"')] + b"}")["kind"] == "Bundle"
        assert_same_model(one, again.models[0], X)
        assert_same_model(one, again.models[2], X)
        assert again.models[1].get_params() == unfitted.get_params()
        assert not hasattr(again.models[1], "members_")

    def test_unknown_ones_are_told(self, data):
        def change(header):
            header["kind"] = header["model"]["$"] = "Oracle"

        with pytest.raises(ModelFileError, match="class 'Oracle' is unknown to this version"):
            loads(reheaded(data, change))


class TestWriting:
    def test_replaces_a_file_whole(self, tmp_path):
        first, X = fitted("bsdt")
        second, _ = fitted("linear")
        path = tmp_path / "model"
        first.save(path)
        path.chmod(0o640)
        second.save(path)
        assert np.array_equal(load(path).predict(X), second.predict(X))
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert [p.name for p in tmp_path.iterdir()] == ["model"]

    def test_follows_links(self, tmp_path):
        model, _ = fitted("bsdt")
        (tmp_path / "real").write_bytes(b"old")
        (tmp_path / "link").symlink_to("real")
        model.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        load(tmp_path / "real")

    @pytest.mark.parametrize("path", ["folder", "none/model", "/dev/null"])
    def test_refuses_what_is_no_place_for_a_file(self, path, tmp_path):
        model, _ = fitted("bsdt")
        (tmp_path / "folder").mkdir()
        with pytest.raises((ValueError, FileNotFoundError), match="path="):
            model.save(tmp_path / path)

    def test_needs_a_fitted_model(self, tmp_path):
        with pytest.raises(NotFittedError):
            SoftBoostRegressor().save(tmp_path / "model")

    def test_file_that_could_not_be_loaded_replaces_nothing(self, tmp_path):
        model, _ = fitted("linear")
        path = tmp_path / "model"
        model.save(path)
        old = path.read_bytes()
        model.members_[0].boosted.rounds[0][1].leaf_values[0, 0] = np.nan
        with pytest.raises(ValueError, match=r"cannot be saved.*leaf_values contains NaN"):
            model.save(path)
        assert path.read_bytes() == old
        assert [p.name for p in tmp_path.iterdir()] == ["model"]

    def test_own_objects_are_no_hindrance(self, tmp_path):
        for name in ("own transform", "own functions"):
            model, X = fitted(name)
            model.save(tmp_path / "model")
            assert_same_model(model, load(tmp_path / "model", MODELS[name][1]), X)

    def test_leaves_the_model_alone(self, tmp_path):
        model, X = fitted("default")
        before = model.predict(X)
        model.save(tmp_path / "model")
        assert np.array_equal(model.predict(X), before)


def reheaded(data, change):
    """The file with a changed header and valid lengths and checksum."""
    end = PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]
    header = json.loads(data[PREFIX.size : end])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(PREFIX.size + len(text)) % 8)
    return sealed(len(text), text + data[end:])


def fitted_part(header, name):
    return next(pair for pair in header["model"]["fitted"]["items"] if pair[0] == name)


@pytest.fixture(scope="module")
def data():
    return dumps(fitted("linear")[0])


class TestReading:
    def test_every_cut_is_noticed(self, data):
        for length in [*range(0, 200), *range(200, len(data), 97)]:
            with pytest.raises(ModelFileError, match=r"cut off|not a softboost|bytes"):
                loads(data[:length])

    def test_every_flipped_bit_is_noticed(self, data):
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1 << (at % 8)
            with pytest.raises(ModelFileError):
                loads(bytes(damaged))

    def test_newer_format_is_told(self, data):
        newer = sealed(8, b'{"a":1} ', FORMAT_VERSION + 1)
        with pytest.raises(ModelFileError, match=r"newer softboost.*upgrade"):
            loads(newer)

    def test_version_is_told_where_a_newer_one_has_more(self, data):
        def change(header):
            header["softboost"] = "9.1.0"
            fitted_part(header, "loss_")[1] = {"$": "LossOfTomorrow"}

        message = r"'LossOfTomorrow' is unknown to this version.*written by softboost '9\.1\.0'"
        with pytest.raises(ModelFileError, match=message):
            loads(reheaded(data, change))

    def test_limits_of_columns_may_be_absent_and_must_be_limits(self):
        """The golden files of 0.1.0 have no limits; limits in other files must be ordered."""
        assert load(GOLDEN / "0.1.0" / "default.softboost").units_.low is None
        whole = dumps(fitted("default")[0])
        assert loads(whole).units_.low is not None

        def exchange(header):
            units = fitted_part(header, "units_")[1]
            units["low"], units["high"] = units["high"], units["low"]

        with pytest.raises(ModelFileError, match="low and high must be lower and upper limits"):
            loads(reheaded(whole, exchange))

    def test_path_is_named(self, tmp_path):
        path = tmp_path / "wrong.softboost"
        path.write_bytes(b"PK\x03\x04 something else")
        with pytest.raises(ValueError, match=r"wrong\.softboost.*not a softboost model file"):
            load(path)
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "none")
        with pytest.raises((ValueError, OSError)):
            load(tmp_path)

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
    def test_endless_file_is_not_read(self):
        with pytest.raises(ModelFileError, match="not a file"):
            load("/dev/zero")

    def test_pickle_is_not_run(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "ran"),)

        import pickle

        (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ModelFileError):
            load(tmp_path / "bomb")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("content", [{"$": "dict", "items": []}, {"$": "tuple", "items": []}, {"$": "Linear"}])
    def test_kind_must_be_a_model(self, content):
        header = {"softboost": "", "kind": content["$"], "model": content, "arrays": []}
        text = json.dumps(header).encode()
        text += b" " * (-(PREFIX.size + len(text)) % 8)
        with pytest.raises(ModelFileError, match="which is not a model"):
            loads(sealed(len(text), text))

    def test_keys_cannot_be_made_to_collide(self):
        """Multiples of 2**61 - 1 have the same hash; a dict of 200,000 of them would take minutes."""
        items = ",".join(f"[{k * (2**61 - 1)},0]" for k in range(200_000))
        model = '{"$":"SoftBoostRegressor","fitted":null,"params":{"$":"dict","items":[' + items + "]}}"
        text = f'{{"softboost":"","kind":"SoftBoostRegressor","arrays":[],"model":{model}}}'.encode()
        text += b" " * (-(PREFIX.size + len(text)) % 8)
        with pytest.raises(ModelFileError, match="a key that is too large"):
            loads(sealed(len(text), text))

    def test_huge_shapes_are_refused_before_they_are_made(self, data):
        for shape in ([2**40], [2**62, 0], [2**31, 2**31], [1] * 9, [-1], [1.0]):
            with pytest.raises(ModelFileError, match="array 0"):
                loads(reheaded(data, lambda h, shape=shape: h["arrays"].__setitem__(0, ["<f8", shape])))

    @pytest.mark.parametrize(("d", "limit"), [(12_000, None), (2_000, 2**24)])
    def test_small_file_cannot_ask_for_much_memory(self, d, limit):
        """theta of a diagonal transform has d numbers, its matrix d squared."""
        X, y = make_data(20, 3)
        settings = {"leaves": "linear", "gates": "greedy", "init": "zero"}
        model = SoftBoostRegressor(1, 0.5, 1, feature_transform="diagonal", **settings).fit(X, y)
        data = dumps(model)
        end = PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]
        header = json.loads(data[PREFIX.size : end])
        sizes = [[d if n == 3 else n for n in row[1]] for row in header["arrays"]]
        arrays = b""
        for row, shape in zip(header["arrays"], sizes, strict=True):
            row[1] = shape
            values = np.arange(np.prod(shape)) % d if row[0][1] == "i" else np.full(int(np.prod(shape)), 1.0)
            raw = values.astype(row[0]).tobytes()
            arrays += raw + bytes(-len(raw) % 8)
        fitted_part(header, "columns_")[1]["n_features"] = d
        fitted_part(header, "n_features_in_")[1] = d
        text = json.dumps(header).encode()
        text += b" " * (-(PREFIX.size + len(text)) % 8)
        data = sealed(len(text), text + arrays)
        assert len(data) < 2**20
        limits = {} if limit is None else {"memory_limit": limit}
        with pytest.raises(ModelFileError, match=rf"more than {limit or 2**30:,} bytes.*memory_limit"):
            loads(data, **limits)
        if limit is not None:  # the larger model would take a gigabyte and a long time
            assert loads(data, memory_limit=4 * limit).n_features_in_ == d

    def test_deep_nesting_is_refused(self):
        for depth in (100, 100_000):
            text = b'{"softboost":"","kind":"","arrays":[],"model":' + b"[" * depth + b"]" * depth + b"}"
            text += b" " * (-(PREFIX.size + len(text)) % 8)
            with pytest.raises(ModelFileError):
                loads(sealed(len(text), text))

    def test_small_fuzzing_run(self):
        figures = fuzz(1500, seed=123)
        assert figures["failed"] == 0
        assert figures["accepted"] > 50
        assert figures["rejected"] > 500
        assert figures["memory_growth_mib"] < 300


def tags(node):
    """Classes of all objects in a header."""
    children = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
    own = {node["$"]} if isinstance(node, dict) and "$" in node else set()
    return own.union(*map(tags, children))


class TestOldFiles:
    """Files of every released version give the same predictions and forecasts as then."""

    @pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.softboost")), ids=lambda p: f"{p.parent.name}-{p.stem}")
    def test_predict_as_then(self, path):
        if path.stem.startswith("torch"):
            pytest.importorskip("torch", reason="needs the extra torch")
        model = load(path, custom_objects=CUSTOM_OBJECTS)
        expected = json.loads(path.with_suffix(".json").read_text())
        use = {SoftBoostRegressor: self.rows, Forecaster: self.forecast, OnlineSoftBoostRegressor: self.stream}
        use[type(model)](model, expected)
        loads(dumps(model), CUSTOM_OBJECTS)

    def rows(self, model, expected):
        X = np.array(expected["X"], dtype=float)
        if "names" in expected:
            X = pd.DataFrame(X, columns=expected["names"])
            for name, values in expected["categories"].items():
                X[name] = values
            for name, values in expected.get("dates", {}).items():
                X[name] = pd.to_datetime(values)
        # sums in single precision depend on the instruction set of the processor
        single = any(Q.dtype == np.float32 for Q in model.transforms_)
        rtol = 1e-6 if single else 1e-9
        np.testing.assert_allclose(model.predict(X), expected["prediction"], rtol=rtol, atol=1e-12)
        if "quantiles" in expected:
            np.testing.assert_allclose(model.predict_quantiles(X), expected["quantiles"], rtol=1e-9, atol=1e-12)

    def forecast(self, model, expected):
        X_df = None if expected["X_df"] is None else pd.DataFrame(expected["X_df"])
        forecast = model.predict(level=[80], X_df=X_df)
        assert list(forecast.columns) == list(expected["forecast"])
        for name, want in expected["forecast"].items():
            got = [v.isoformat() if hasattr(v, "isoformat") else v for v in forecast[name].to_list()]
            if isinstance(want[0], float):  # intervals follow the rules of this version
                np.testing.assert_allclose(got, want, rtol=0.01 if "-lo-" in name or "-hi-" in name else 1e-9)
            else:
                assert got == want

    def stream(self, model, expected):
        got = [model.predict_one(x) for x in expected["rows"]]
        # the experts of older files are weighted by the rules of this version
        np.testing.assert_allclose(got, expected["prediction"], rtol=0.05, atol=1e-12)

    def test_this_version_has_every_kind_of_object(self):
        files = list((GOLDEN / softboost.__version__).glob("*.softboost"))
        found = set()
        for data in (path.read_bytes() for path in files):
            header = json.loads(data[PREFIX.size : PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]])
            found |= tags(header["model"])
        plain = set(values.Decoder([], {}, values.Budget()).plain)
        assert found == plain | set(values._CODECS)

    def test_format_is_as_documented(self):
        """A reader written from the documentation finds the same numbers."""
        data = next((GOLDEN / "0.1.0").glob("*.softboost")).read_bytes()
        magic, version, header_length, total = struct.unpack("<8sIIQ", data[:24])
        assert (magic, version, total) == (MAGIC, 1, len(data))
        header = json.loads(data[64 : 64 + header_length])
        start = 64 + header_length
        for dtype, shape, *_ in header["arrays"]:
            start += -(-np.dtype(dtype).itemsize * int(np.prod(shape)) // 8) * 8
        assert start == total
        assert header["kind"] == RegressorClass.__name__


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is a folder, a pipe or a device, not a file"):
        load(tmp_path / "pipe")


def test_arrays_of_a_tree_in_column_major_order_can_be_learned_from():
    X, y = make_data()
    model = SoftBoostRegressor(3, 0.5, 2, feature_transform=None, init="constant").partial_fit(X, y)
    model.partial_fit(X[:3], y[:3])

    def change(header):
        for row in header["arrays"]:
            if len(row[1]) == 2 and row[1][0] == 3:  # gate weights of trees of depth 2
                row[2:] = ["F"]

    again = loads(reheaded(dumps(model), change))
    again.partial_fit(X[3:6], y[3:6])
    assert np.isfinite(again.predict(X)).all()
