"""Writes the golden files of the version that is installed: run once per release, never again for an old one.

python tests/golden/make.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import softboost
from softboost import SoftBoostRegressor
from softboost.presets import bsdt, bsdt_q
from softboost.transforms import Linear


def main() -> None:
    folder = Path(__file__).parent / softboost.__version__
    folder.mkdir(exist_ok=False)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 4))
    y = np.exp(0.5 * X[:, 0]) + np.abs(X[:, 1])
    holes = X.copy()
    holes[::6, 2] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["e"] = np.array(["x", "y"])[(X[:, 3] > 0).astype(int)]
    rows = np.vstack([rng.normal(size=(5, 4)) * 2, [[np.nan] * 4]])
    plain = {"n_estimators": 3, "learning_rate": 0.3, "depth": 2, "init": "constant"}
    models = {
        "default": SoftBoostRegressor().fit(X, y),
        "missing": SoftBoostRegressor().fit(holes, y),
        "single": SoftBoostRegressor(**plain, feature_transform=Linear(2)).fit(X.astype(np.float32), y),
        "diagonal": SoftBoostRegressor(**plain, feature_transform="diagonal").fit(X, y),
        "bsdt": bsdt(2, n_steps=5, random_state=0).fit(X, y),
        "bsdt_q": bsdt_q(2, n_steps=5, random_state=0).fit(X, np.column_stack([y, -y])),
        "poisson": SoftBoostRegressor(**plain, loss="poisson", feature_transform=None).fit(X, 0.2 * y),
        "names": SoftBoostRegressor(**plain, categorical_features=["e"], early_stopping=True).fit(frame, y),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.softboost")
        expected = {"X": rows.tolist()}
        given = rows
        if name == "names":
            expected |= {"names": list("abcd"), "categories": {"e": ["x", "y", "x", "z", "y", "x"]}}
            given = pd.DataFrame(rows, columns=list("abcd")).assign(e=expected["categories"]["e"])
        expected["prediction"] = model.predict(given).tolist()
        (folder / f"{name}.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
