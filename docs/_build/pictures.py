"""Pictures of the pages, drawn afresh at every build by the code that the pages show."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "pictures"


def on_pre_build(**kwargs):
    """Draw all pictures before the files are collected."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from sklearn.datasets import load_diabetes

    from softboost import SoftBoostRegressor, inspection
    from softboost.datasets import make_synthetic
    from softboost.transforms import Linear

    FOLDER.mkdir(exist_ok=True)
    plt.rcParams.update({"svg.hashsalt": "softboost", "savefig.facecolor": "white"})

    def keep(ax, name):
        ax.figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        plt.close(ax.figure)

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = SoftBoostRegressor().fit(X[:200], y[:200])
    keep(inspection.plot_importances(model), "importances")
    why = inspection.attributions(model, X[200:201], background=X[:200:4])
    keep(inspection.plot_attributions(why, n_features=6), "attributions")
    keep(inspection.plot_partial_dependence(model, X[:200], ["bmi"]), "dependence")
    plain = SoftBoostRegressor(n_estimators=20, depth=2, feature_transform=None, init="constant", leaves="constant")
    keep(inspection.plot_tree(plain.fit(X[:200], y[:200])), "tree")
    series = make_synthetic(n_series=1, random_state=0)
    learned = SoftBoostRegressor(feature_transform=Linear(1, "supervised", group_lasso=0.2), init="constant")
    keep(
        inspection.plot_transform_rounds(learned.fit(series.iloc[:100, 3:], series["y"][:100]), n_features=25), "rounds"
    )
