"""SoftBoostRegressor: the scikit-learn estimator around one boosted path or the choice among several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ._boosting import Boosted, Path, boost
from ._choice import Choice, Member, Units, candidate_paths, choose, fit_member
from ._columns import Columns, read_frame
from ._ensemble import Ensemble
from ._kernels import MAX_DEPTH
from ._progress import Progress
from ._tree import GradientTrees, GreedyTrees
from ._validation import (
    check_choice,
    check_integer,
    check_number,
    check_weight,
    make_folds,
    resolve_n_threads,
    resolve_seed,
)
from .losses import Loss, make_loss
from .transforms import Transform, make_transform

__all__ = ["SoftBoostRegressor"]

Array = NDArray[Any]
AUTO = "auto"


class SoftBoostRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting with soft trees and learned features.

    Without arguments the model chooses its own structure, rounds and regularisation: it runs several boosted paths
    and linear starts out of fold and combines those that help; ``choice_`` says which. Every parameter left at
    ``"auto"`` is part of that choice, every other value is kept to. With none at ``"auto"`` the fit is one plain run
    of boosting:

    .. math:: F_k = F_{k-1} + \\nu \\, \\mathrm{tree}_k(Q_k x), \\qquad
              \\mathrm{tree}_k \\approx -\\partial L / \\partial F_{k-1}

    Parameters
    ----------
    n_estimators : int or "auto", default="auto"
        Boosting rounds. More rounds fit closer; the choice stops where the out-of-fold loss is least.
    learning_rate : float or "auto", default="auto"
        Shrinkage nu of each tree, in (0, 1]. Smaller values need more rounds and generalise a little better.
    depth : int or "auto", default="auto"
        Depth of the trees, 1 to 10; the tree is always full. Depth 2 sees interactions of pairs.
    loss : str, Loss or pair of callables, default="squared_error"
        One of squared_error, absolute_error, huber, quantile, log_cosh, poisson, gamma, tweedie, an object of
        :mod:`softboost.losses`, or ``(loss, gradient)``, both functions of ``(y_true, raw_prediction)``.
    feature_transform : None, "auto", "diagonal", "linear" or Transform, default="auto"
        The paper's Q. None boosts trees on the columns themselves (BSDT), ``"linear"`` learns z = Q x (BSDT-Q),
        ``"diagonal"`` only weighs columns; instances of :mod:`softboost.transforms` take settings.
    weak_learner : "soft", default="soft"
        The trees that are boosted.
    leaves : {"auto", "constant", "linear"}, default="auto"
        Linear leaves follow trends and extrapolate; constant ones are the paper's.
    gates : {"auto", "greedy", "random"}, default="auto"
        Where gates start: at the best split, or at small random weights moved by gradient steps.
    init : {"auto", "zero", "constant", "linear"}, default="auto"
        The prediction before the first tree: zero, the best constant or a linear model.
    ridge : float or "auto", default="auto"
        Ridge penalty on the leaves; larger values shrink every tree's answer. Only where leaves are solved in closed
        form (all but ``gates="random"``).
    n_steps : int, default=100
        Gradient steps per tree with ``gates="random"`` and no transform; a transform has its own ``n_steps``.
    standardize : bool, default=True
        Bring columns and y to mean zero and unit variance inside. False takes them as they are.
    cv : None, int, splitter or iterable of splits, default=None
        Folds on which the choice is judged. None takes five, or one hold-out beyond 5,000 rows.
    shuffle : {"blocks", True, False}, default="blocks"
        Folds as contiguous blocks of rows, at random, or (False) in time order: no fold is then trained on rows after
        those it is judged on.
    early_stopping : bool, default=False
        Stop when the loss on rows held out has not improved for ``n_iter_no_change`` rounds, and keep the best
        round. Uses ``eval_set`` if given, else ``validation_fraction`` of the rows. For plain fits; the choice stops
        by itself.
    validation_fraction : float, default=0.1
        Share of rows held out for early stopping: the last ones if ``shuffle=False``, else drawn at random.
    n_iter_no_change : int, default=10
        Rounds without improvement after which early stopping stops.
    tol : float, default=1e-7
        Smallest improvement of the loss that counts.
    categorical_features : "auto", None or list, default="auto"
        Columns to treat as categories, by name or number. ``"auto"`` takes category columns of a frame.
    warm_start : bool, default=False
        Keep the rounds of the previous fit and add to them, up to ``n_estimators``. Plain fits only.
    n_jobs : int or None, default=None
        Threads; -1 uses all cores. Results are the same bits for every number.
    random_state : int, RandomState or None, default=None
        Seed of random gates and random folds. The default choice uses neither.
    verbose : bool or int, default=False
        Show a progress bar and what was chosen.

    Attributes
    ----------
    n_estimators_ : int
        Rounds of the fitted model (of its longest path).
    choice_ : Choice or None
        What was chosen out of fold and how it scored; None for plain fits.
    members_ : list of Member
        The paths of the final model with their weights.
    trees_ : list of SoftTree
        Trees of the path of largest weight, round by round, on z = Q_k x.
    transforms_ : list of ndarray
        Q_k of that path, round by round; empty without a transform.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much each column moves the prediction; sums to one.
    evals_result_ : dict
        Loss after every round on the training rows and, with ``eval_set`` or early stopping, on those held out.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softboost import SoftBoostRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SoftBoostRegressor().fit(X[:100], y[:100])
    >>> model.predict(X[100:103]).shape
    (3,)
    """

    def __init__(
        self,
        n_estimators: int | Literal["auto"] = AUTO,
        learning_rate: float | Literal["auto"] = AUTO,
        depth: int | Literal["auto"] = AUTO,
        loss: Any = "squared_error",
        feature_transform: Any = AUTO,
        weak_learner: Any = "soft",
        *,
        leaves: str = AUTO,
        gates: str = AUTO,
        init: str = AUTO,
        ridge: float | Literal["auto"] = AUTO,
        n_steps: int = 100,
        standardize: bool = True,
        cv: Any = None,
        shuffle: Any = "blocks",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        categorical_features: Any = AUTO,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.depth = depth
        self.loss = loss
        self.feature_transform = feature_transform
        self.weak_learner = weak_learner
        self.leaves = leaves
        self.gates = gates
        self.init = init
        self.ridge = ridge
        self.n_steps = n_steps
        self.standardize = standardize
        self.cv = cv
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.categorical_features = categorical_features
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> SoftBoostRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            NumPy, pandas or polars. NaN is fine.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
            A weight of 2 counts a row twice, 0 leaves it out.
        eval_set : tuple (X, y), or list of one, default=None
            Rows whose loss is recorded after every round; with ``early_stopping`` they decide when to stop.

        Returns
        -------
        self
        """
        self._check_params()
        previous = self._previous_fit()
        task = _Task.from_user(self, X, y, sample_weight, eval_set)
        if previous is not None:
            task.columns, task.units = previous["columns_"], previous["units_"]
            task.loss, task.train_loss = previous["loss_"], previous["train_loss_"]
        state = self._fit_task(task, previous)
        self.__dict__.update(state)  # only now, so that a fit that fails leaves the model as it was
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SoftBoostRegressor:
        """Go on learning from new rows: add a few rounds fitted to what the model gets wrong on them.

        The first call is :meth:`fit`. Later calls keep columns, scaling and all earlier trees.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`; X must have the same columns.

        Returns
        -------
        self
        """
        if not hasattr(self, "members_"):
            return self.fit(X, y, sample_weight)
        self._check_params()
        task = _Task.from_user(self, X, y, sample_weight, None, reset=False)
        task.columns, task.units, task.train_loss = self.columns_, self.units_, self.train_loss_
        self.__dict__.update(self._extended(task))
        return self

    def _extended(self, task: _Task, n_rounds: int = 5) -> dict[str, Any]:
        """The fitted model with a member more: rounds fitted to the residual on new rows, gently."""
        X, y, weight = task.standardised()
        start = (self._ensemble.raw_prediction(task.encoded, task.n_threads) - self.units_.y_centre) / self.units_.y_spread
        learner = GreedyTrees(depth=2, shallower=True, ridge=(10.0, 100.0))
        path = Path("new rows", learner, None, n_rounds, 0.1, "zero")
        raw = np.ascontiguousarray(start.T, dtype=X.dtype)
        model = boost(path, X, y, weight, task.train_loss, raw, rng=np.random.default_rng(task.seed), n_threads=task.n_threads)
        empty = self.members_[0].linear
        empty = replace(empty, coefficients=empty.coefficients * 0, intercepts=empty.intercepts * 0)
        members = [*self.members_, Member(path.name, 1.0, len(model.rounds), empty, model)]
        return self._state(task, members, self.choice_, self.evals_result_)

    def _fit_task(self, task: _Task, previous: dict[str, Any] | None) -> dict[str, Any]:
        X, y, weight = task.standardised()
        paths, linear_level = self._paths(task)
        plain = len(paths) == 1 and not linear_level and self.n_estimators != AUTO
        if plain or self.early_stopping:
            return self._fit_plain(task, X, y, weight, paths[0], previous)
        folds = make_folds(self.cv, self.shuffle, task.X_rows, task.y_rows, task.kept, task.seed)
        if not folds:
            return self._fit_constant(task, y)
        progress = Progress(bool(self.verbose), None, "softboost")
        try:
            members, choice = choose(
                X, y, weight, task.train_loss, paths, folds, task.units,
                linear_level=linear_level, fixed_rounds=self.n_estimators != AUTO, seed=task.seed,
                n_threads=task.n_threads, progress=progress.step,
            )  # fmt: skip
            progress.step(choice.describe())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "fit was stopped while choosing; the model is as it was before. To keep rounds done so far on Ctrl-C, "
                "fix the parameters (no 'auto') and set warm_start=True."
            ) from None
        finally:
            progress.close()
        state = self._state(task, members, choice, {})
        state["evals_result_"] = _staged_losses(state["_ensemble"], task)
        return state

    def _fit_plain(
        self, task: _Task, X: Array, y: Array, weight: Array | None, path: Path, previous: dict[str, Any] | None
    ) -> dict[str, Any]:
        """One path on all rows, with early stopping, warm start and Ctrl-C."""
        held = task.hold_out(self)
        if held is not None and task.eval_rows is None:
            train, judged = held
            X_held, y_held = np.ascontiguousarray(X[:, judged]), y[:, judged]
            w_held = None if weight is None else weight[judged]
            X, y = np.ascontiguousarray(X[:, train]), np.ascontiguousarray(y[:, train])
            weight = None if weight is None else np.ascontiguousarray(weight[train])
        elif task.eval_rows is not None:
            X_held, y_held, w_held = *task.standardised_eval(), None
        else:
            X_held = y_held = w_held = None
        watch = _Watch(self, task.train_loss, X_held, y_held, w_held, path.n_estimators)
        old = previous["members_"][0] if previous is not None else None
        try:
            if old is not None:
                member = self._continued(task, X, y, weight, path, old, watch)
            else:
                member = fit_member(
                    X, y, weight, task.train_loss, path, task.units,
                    seed=task.seed, n_threads=task.n_threads, after_round=watch,
                )  # fmt: skip
        except KeyboardInterrupt:
            done = watch.n_rounds
            if not (self.warm_start and watch.model is not None):
                raise KeyboardInterrupt(
                    f"fit was stopped after {done} of {path.n_estimators} rounds; the model is as it was before. "
                    "Set warm_start=True to keep the rounds done so far on Ctrl-C, then call fit again to go on."
                ) from None
            member = Member(path.name, 1.0, done, watch.start, watch.model)
            self.__dict__.update(self._state(task, [member], None, watch.results))
            raise KeyboardInterrupt(
                f"fit was stopped after {done} of {path.n_estimators} rounds, which are kept; call fit again to go on."
            ) from None
        finally:
            watch.close()
        if self.early_stopping and watch.best_round:
            member.stage = watch.best_round
        return self._state(task, [member], None, watch.results)

    def _continued(
        self, task: _Task, X: Array, y: Array, weight: Array | None, path: Path, old: Member, watch: _Watch
    ) -> Member:
        assert old.boosted is not None
        watch.start = old.linear
        start = old.linear.predict(X)[0]
        added = old.boosted.outputs(X, task.n_threads)[: old.stage].sum(axis=0) if old.stage else 0.0
        before = replace(old.boosted, rounds=old.boosted.rounds[: old.stage])
        model = boost(
            path, X, y, weight, task.train_loss, (start + added).astype(X.dtype),
            columns=old.boosted.columns, rng=np.random.default_rng([task.seed, old.stage]), n_threads=task.n_threads,
            previous=before, after_round=watch,
        )  # fmt: skip
        return Member(path.name, 1.0, len(model.rounds), old.linear, model)

    def _fit_constant(self, task: _Task, y: Array) -> dict[str, Any]:
        """Too few rows to judge anything on: predict the best constant."""
        path = Path("constant", GreedyTrees(), n_estimators=0)
        X, _, weight = task.standardised()
        member = fit_member(X, y, weight, task.train_loss, path, task.units, seed=task.seed, n_threads=1)
        return self._state(task, [member], Choice(weights={"constant": 1.0}, stages={"constant": 0}), {})

    def _state(
        self, task: _Task, members: list[Member], choice: Choice | None, results: dict[str, Any]
    ) -> dict[str, Any]:
        ensemble = Ensemble.build(members, task.units)
        low, high = task.bounds(members)
        return {
            "columns_": task.columns,
            "units_": task.units,
            "loss_": task.loss,
            "train_loss_": task.train_loss,
            "members_": members,
            "choice_": choice,
            "evals_result_": results,
            "n_estimators_": ensemble.n_rounds,
            "n_outputs_": len(task.units.y_spread),
            "_y_ndim": task.y_ndim,
            "_raw_bounds": (low, high),
            "_ensemble": ensemble,
        }

    # -- what was asked for ----------------------------------------------------------------------------------------

    def _check_params(self) -> None:
        if self.n_estimators != AUTO:
            check_integer("n_estimators", self.n_estimators, 1, hint="or use 'auto'")
        if self.learning_rate != AUTO:
            check_number("learning_rate", self.learning_rate, above=0, most=1, hint="or use 'auto'")
        if self.depth != AUTO:
            check_integer("depth", self.depth, 1, MAX_DEPTH, hint="2 or 3 are good values, or use 'auto'")
        if self.ridge != AUTO:
            check_number("ridge", self.ridge, above=0, hint="or use 'auto'")
        check_choice("weak_learner", self.weak_learner, ["soft"])
        check_choice("leaves", self.leaves, [AUTO, "constant", "linear"])
        check_choice("gates", self.gates, [AUTO, "greedy", "random"])
        check_choice("init", self.init, [AUTO, "zero", "constant", "linear"])
        check_choice("shuffle", self.shuffle, ["blocks", True, False])
        check_integer("n_steps", self.n_steps, 1)
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        check_number("validation_fraction", self.validation_fraction, above=0, most=0.9)
        check_number("tol", self.tol, above=-1e-300)
        make_loss(self.loss)
        if self.feature_transform != AUTO:
            make_transform(self.feature_transform)

    def _paths(self, task: _Task) -> tuple[list[Path], bool]:
        """Candidate paths under what the user fixed, and whether linear models compete with them."""
        paths = candidate_paths(task.total_weight)
        if not isinstance(self.feature_transform, str) or self.feature_transform != AUTO:
            transform = make_transform(self.feature_transform)
            if transform is not None:
                transform.check(task.encoded.shape[1])
            paths = self._paths_for(paths, transform)
        paths = [self._under_user(path) for path in paths]
        unique: list[Path] = []
        for path in paths:
            if not any(replace(path, name=other.name) == other for other in unique):
                unique.append(path)
        return unique, self.init == AUTO and self.n_estimators == AUTO

    def _paths_for(self, paths: list[Path], transform: Transform | None) -> list[Path]:
        if transform is None:
            return [path for path in paths if path.transform is None]
        index = next(path for path in paths if path.transform is not None)
        return [replace(index, name=type(transform).__name__.lower(), transform=transform, screen=None)]

    def _under_user(self, path: Path) -> Path:
        """The path with every parameter that the user fixed."""
        learner = path.learner
        if self.gates == "random":
            solve = self.leaves == "linear"
            learner = GradientTrees(
                depth=3, leaves="constant", gates="random", solve_leaves=solve, n_steps=self.n_steps
            )
            path = replace(path, screen=None)
        if self.depth != AUTO:
            learner = replace(learner, depth=self.depth)
            learner = replace(learner, shallower=False) if isinstance(learner, GreedyTrees) else learner
        if self.leaves != AUTO:
            learner = replace(learner, leaves=self.leaves)
        if self.ridge != AUTO:
            ridge = float(self.ridge)
            learner = replace(learner, ridge=(ridge,) if isinstance(learner, GreedyTrees) else ridge)  # type: ignore[arg-type]
        changes: dict[str, Any] = {"learner": learner}
        if self.n_estimators != AUTO:
            changes["n_estimators"] = int(self.n_estimators)
        if self.learning_rate != AUTO:
            changes["learning_rate"] = float(self.learning_rate)
        if self.init != AUTO:
            changes["start"] = self.init
        return replace(path, **changes)

    def _previous_fit(self) -> dict[str, Any] | None:
        """The state to go on from under warm_start."""
        if not (self.warm_start and hasattr(self, "members_")):
            return None
        if len(self.members_) != 1 or self.members_[0].boosted is None or self.n_estimators == AUTO:
            return None
        done = self.members_[0].stage
        if self.n_estimators < done:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {done} rounds already fitted; with warm_start=True "
                "it is the total and must not shrink. Set warm_start=False to start anew."
            )
        return self.__dict__

    # -- prediction ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Predictions at X, of shape (n_samples,) or (n_samples, n_outputs), as y was.

        Far outside the training range predictions stay within one width of the training targets' range beyond it
        (raw predictions, before the inverse link).
        """
        encoded = self._encode(X)
        raw = self._ensemble.raw_prediction(encoded, resolve_n_threads(self.n_jobs))
        return self._finish(raw)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Predictions after each boosting round; the last equals :meth:`predict`."""
        encoded = self._encode(X)
        for raw in self._ensemble.staged_raw_prediction(encoded, resolve_n_threads(self.n_jobs)):
            yield self._finish(raw)

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self)
        if type(X) is np.ndarray and not self.columns_.categories:
            X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
            return self.columns_.encode(X, {})
        validate_data(self, X, skip_check_array=True, reset=False)
        matrix, categories = read_frame(X, sorted(self.columns_.categories) or None)
        matrix = check_array(matrix, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", estimator=self)
        if matrix.shape[1] != self.n_features_in_:
            validate_data(self, matrix, reset=False, ensure_all_finite="allow-nan")
        return self.columns_.encode(matrix, categories)

    def _finish(self, raw: Array) -> Array:
        low, high = self._raw_bounds
        out = self.loss_.inverse_link(np.clip(raw, low.astype(raw.dtype), high.astype(raw.dtype)))
        return out[:, 0] if self._y_ndim == 1 else out

    # -- what was learned ------------------------------------------------------------------------------------------

    def _leading(self) -> Boosted | None:
        check_is_fitted(self)
        boosted = [m for m in self.members_ if m.boosted is not None and m.boosted.rounds]
        return max(boosted, key=lambda m: m.weight).boosted if boosted else None

    @property
    def trees_(self) -> list[Any]:
        """Trees of the path of largest weight, on z = Q_k x."""
        leading = self._leading()
        return [tree for _, tree in leading.rounds] if leading is not None else []

    @property
    def transforms_(self) -> list[Array]:
        """Q_k of the path of largest weight, round by round."""
        leading = self._leading()
        return [theta for theta, _ in leading.rounds if theta is not None] if leading is not None else []

    @property
    def feature_importances_(self) -> Array:
        """How much each column of X moves the prediction; sums to one (all zeros for a constant model)."""
        check_is_fitted(self)
        encoded = self._ensemble.column_importances()
        importance = np.bincount(self.columns_.source, weights=encoded, minlength=self.n_features_in_)
        total = importance.sum()
        return importance / total if total > 0 else importance

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class _Task:
    """The data of one fit, checked: encoded rows, targets, weights, and how they are standardised."""

    def __init__(self) -> None:
        self.encoded: Array
        self.y: Array  # (n_outputs, n_kept)
        self.weight: Array | None
        self.columns: Columns
        self.units: Units
        self.loss: Loss
        self.train_loss: Loss
        self.y_ndim = 1
        self.kept: Array
        self.X_rows: Array
        self.y_rows: Array
        self.seed = 0
        self.n_threads = 1
        self.eval_rows: tuple[Array, Array] | None = None
        self._standardised: tuple[Array, Array, Array | None] | None = None

    @classmethod
    def from_user(
        cls, model: SoftBoostRegressor, X: Any, y: Any, sample_weight: Any, eval_set: Any, reset: bool = True
    ) -> _Task:
        task = cls()
        matrix, categories = task._read_X(model, X, reset)
        task._read_y(y, matrix)
        weight = check_weight(sample_weight, len(matrix))
        task.kept = np.arange(len(matrix)) if weight is None else np.flatnonzero(weight > 0)
        task.X_rows, task.y_rows = matrix, task.y.T
        if len(task.kept) < len(matrix):
            matrix = np.ascontiguousarray(matrix[task.kept])
            categories = {j: values[task.kept] for j, values in categories.items()}
            task.y = np.ascontiguousarray(task.y[:, task.kept])
        task.weight = None if weight is None else weight[task.kept]
        task.seed, task.n_threads = resolve_seed(model.random_state), resolve_n_threads(model.n_jobs)
        task.loss = make_loss(model.loss)
        task.loss.check_target(task.y)
        if reset:
            task.columns = Columns.learn(matrix, categories, task.weight, model.standardize)
            task._learn_units(model.standardize)
        else:
            task.columns = model.columns_
        task.encoded = task.columns.encode(matrix, categories)
        if eval_set is not None:
            task._read_eval_set(model, eval_set)
        return task

    def _read_X(self, model: SoftBoostRegressor, X: Any, reset: bool) -> tuple[Array, dict[int, Array]]:
        numeric, categories = (X, {}) if _is_plain(X, model) else read_frame(X, model.categorical_features)
        kinds = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        if numeric is X:
            return validate_data(model, X, reset=reset, **kinds), categories
        validate_data(model, X, skip_check_array=True, reset=reset)
        return check_array(numeric, estimator=model, **kinds), categories

    def _read_y(self, y: Any, X: Array) -> None:
        if y is None:
            raise ValueError("This SoftBoostRegressor estimator requires y to be passed, but the target y is None.")
        y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=True, input_name="y")
        self.y_ndim = y.ndim
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
            self.y_ndim = 1
        if y.ndim > 2:
            raise ValueError(f"y must have shape (n_samples,) or (n_samples, n_outputs), got {y.shape}")
        check_consistent_length(X, y)
        self.y = np.ascontiguousarray(np.atleast_2d(y.T).astype(X.dtype))

    def _learn_units(self, standardize: bool) -> None:
        n_outputs = self.y.shape[0]
        y_centre, y_spread = np.zeros(n_outputs), np.ones(n_outputs)
        if standardize and self.loss.scales_with_y:
            y = self.y.astype(np.float64)
            y_centre = np.average(y, axis=1, weights=self.weight)
            size = np.maximum(np.abs(y - y_centre[:, None]).max(axis=1), 1e-300)
            variance = np.average(((y - y_centre[:, None]) / size[:, None]) ** 2, axis=1, weights=self.weight)
            y_spread = np.where(variance > 0, np.sqrt(variance) * size, 1.0)
            negligible = y_spread <= 1e-12 * np.abs(y_centre)
            y_spread = np.where(negligible, np.maximum(np.abs(y_centre), 1e-300), y_spread)
        self.units = Units(self.columns.centre, self.columns.spread, y_centre, y_spread)
        self.loss = self.loss.rescaled(self.y, 1.0)
        self.train_loss = self.loss.rescaled(self.y, float(np.sqrt(np.mean(y_spread**2))))

    def _read_eval_set(self, model: SoftBoostRegressor, eval_set: Any) -> None:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not (isinstance(eval_set, tuple) and len(eval_set) == 2):
            raise ValueError(f"eval_set must be a tuple (X, y) or a list with one, got {type(eval_set).__name__}")
        other = _Task()
        matrix, categories = other._read_X(model, eval_set[0], reset=False)
        other._read_y(eval_set[1], matrix)
        if other.y.shape[0] != self.y.shape[0]:
            raise ValueError(f"eval_set has {other.y.shape[0]} outputs, y has {self.y.shape[0]}")
        self.eval_rows = self.columns.encode(matrix, categories), other.y

    @property
    def total_weight(self) -> float:
        return float(self.y.shape[1] if self.weight is None else self.weight.sum())

    def _standard_y(self, y: Array) -> Array:
        units = self.units
        return np.ascontiguousarray((y - units.y_centre[:, None]) / units.y_spread[:, None]).astype(y.dtype)

    def standardised(self) -> tuple[Array, Array, Array | None]:
        """X (n_columns, n_samples), y (n_outputs, n_samples) and weights, all in working units."""
        if self._standardised is None:
            X = self.columns.standardised(self.encoded)
            weight = None if self.weight is None else self.weight.astype(X.dtype)
            self._standardised = X, self._standard_y(self.y), weight
        return self._standardised

    def standardised_eval(self) -> tuple[Array, Array]:
        assert self.eval_rows is not None
        X, y = self.eval_rows
        return self.columns.standardised(X.astype(self.encoded.dtype)), self._standard_y(y)

    def hold_out(self, model: SoftBoostRegressor) -> tuple[Array, Array] | None:
        """Rows to train on and rows to stop by, where early stopping has no eval_set."""
        if not model.early_stopping or self.eval_rows is not None:
            return None
        n = self.y.shape[1]
        n_held = int(np.ceil(model.validation_fraction * n))
        if n_held >= n:
            raise ValueError(
                f"validation_fraction={model.validation_fraction!r} of {n} rows leaves none to train on; "
                "pass eval_set or set early_stopping=False"
            )
        rows = np.arange(n)
        if model.shuffle is not False:
            rows = np.random.default_rng(self.seed).permutation(n)
        return np.sort(rows[: n - n_held]), np.sort(rows[n - n_held :])

    def bounds(self, members: list[Member]) -> tuple[Array, Array]:
        """Raw predictions are kept within one width of the targets' range beyond that range."""
        n_outputs = self.y.shape[0]
        standard = bool(np.any(self.units.y_spread != 1.0)) or bool(np.any(self.units.centre != 0.0))
        if not standard or not self.loss.scales_with_y:
            return np.full(n_outputs, -np.inf), np.full(n_outputs, np.inf)
        y = self.y.astype(np.float64)
        low, high = y.min(axis=1), y.max(axis=1)
        return low - (high - low), high + (high - low)


def _is_plain(X: Any, model: SoftBoostRegressor) -> bool:
    return isinstance(X, np.ndarray) and (model.categorical_features is None or model.categorical_features == AUTO)


class _Watch:
    """Follows a plain fit round by round: losses, early stopping, progress, and the rounds so far for Ctrl-C."""

    def __init__(
        self, model: SoftBoostRegressor, loss: Loss, X_held: Array | None, y_held: Array | None, w_held: Array | None, n_rounds: int
    ) -> None:
        self.settings, self.loss = model, loss
        self.X, self.y, self.weight = X_held, y_held, w_held
        self.raw: Array | None = None
        self.start: Any = None
        self.model: Boosted | None = None
        self.results: dict[str, Any] = {"train": []}
        self.best_round, self.best = 0, np.inf
        self.progress = Progress(bool(model.verbose), n_rounds, "boosting")
        if X_held is not None:
            self.results["validation"] = []

    @property
    def n_rounds(self) -> int:
        return len(self.model.rounds) if self.model is not None else 0

    def begin(self, start: Any) -> None:
        self.start = start

    def __call__(self, model: Boosted) -> bool:
        self.model = model
        self.results["train"] = list(model.train_loss)
        text = f"train {model.train_loss[-1]:.4g}"
        stop = False
        if self.X is not None:
            value = self._held_out(model)
            self.results["validation"].append(value)
            text += f", validation {value:.4g}"
            if value < self.best - self.settings.tol:
                self.best, self.best_round = value, len(model.rounds)
            stop = self.settings.early_stopping and len(model.rounds) - self.best_round >= self.settings.n_iter_no_change
        self.progress.step(text)
        return stop

    def _held_out(self, model: Boosted) -> float:
        assert self.X is not None
        assert self.y is not None
        X = np.ascontiguousarray(self.X[model.columns])
        if self.raw is None:
            self.raw = self.start.predict(self.X)[0]
            for theta, tree in model.rounds[:-1]:
                self.raw = self.raw + model._add(X, theta, tree, 1)
        theta, tree = model.rounds[-1]
        self.raw = self.raw + model._add(X, theta, tree, 1)
        return self.loss.mean(self.y, self.raw, self.weight)

    def close(self) -> None:
        self.progress.close()


def _staged_losses(ensemble: Ensemble, task: _Task) -> dict[str, list[float]]:
    """Loss after every round of a chosen model on the rows of eval_set, in working units."""
    if task.eval_rows is None:
        return {}
    X, y = task.eval_rows
    losses = []
    for raw in ensemble.staged_raw_prediction(X, task.n_threads):
        losses.append(task.loss.mean(y, raw.T, None))
    return {"validation": losses}
