"""SoftBoostRegressor: the scikit-learn estimator around one boosted model or the choice among several."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._boost.boosting import Boosted, Recipe, boost
from ._boost.hard_trees import make_hard_trees
from ._boost.watch import Watch
from ._choice.candidates import CONSTANT, Candidate
from ._choice.choose import Choice, choose
from ._choice.fit import fit_member
from ._choice.given import AUTO, given_candidates
from ._choice.rows import RowsKind, recognise
from ._choice.training import TrainingRows
from ._data.checks import check_choice, check_columns, check_flag, check_integer, check_number, resolve_n_threads
from ._data.folds import make_folds
from ._data.task import Task
from ._file.codecs.state import register_estimator
from ._file.container import save as save_model
from ._file.onnx import write_onnx
from ._kernels import MAX_DEPTH
from ._model.bounds import joint_bounds
from ._model.ensemble import Ensemble
from ._model.fitted import FittedModel
from ._model.member import Member
from ._model.partial_fit import CORRECTION, Recent
from ._runtime.progress import Progress
from .losses import Loss, make_loss
from .transforms import make_transform

__all__ = ["SoftBoostRegressor"]

Array = NDArray[Any]
_KEEP_ROUNDS = (
    "The model is as it was before. To keep rounds done so far on Ctrl-C, fix the parameters (no 'auto') and set "
    "warm_start=True."
)


def _learned(name: str) -> Any:
    """An attribute of the fitted model as an attribute of the estimator."""
    return property(lambda model: getattr(model._snapshot()._fitted, name))


class SoftBoostRegressor(RegressorMixin, BaseEstimator):
    r"""Gradient boosting with soft trees and learned features.

    Without arguments the model chooses its own structure, rounds and regularisation: it runs several boosted models
    and linear starts out of fold and combines those that help; ``choice_`` says which. Every parameter left at
    ``"auto"`` is part of that choice, every other value is kept to. With none at ``"auto"`` the fit is one plain run
    of boosting:

    .. math:: F_k = F_{k-1} + \nu \, \mathrm{tree}_k(Q_k x), \qquad
              \mathrm{tree}_k \approx -\partial L / \partial F_{k-1}

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
    weak_learner : "soft", "lightgbm", "xgboost", "catboost", HardTrees or estimator, default="soft"
        The trees that are boosted. Names of other libraries boost trees of theirs, with their defaults; an unfitted
        regressor of theirs, or a scikit-learn tree regressor, brings its own parameters. These trees cannot be moved
        together with a transform, so each round alternates between the two;
        :class:`softboost.weak_learners.HardTrees` says how.
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
    shuffle : {"auto", "blocks", True, False}, default="auto"
        Folds as contiguous blocks of rows, at random, or (False) in time order: no fold is then trained on rows after
        those it is judged on. ``"auto"`` is False for a series that wanders (rows are known to be a series when a
        column repeats the target of the row before), else ``"blocks"``.
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
        Rounds of the fitted model (of its longest member).
    choice_ : Choice or None
        What was chosen out of fold and how it scored; None for plain fits.
    members_ : list of Member
        The parts of the final model with their weights.
    trees_ : list of SoftTree
        Trees of the member of largest weight, round by round, on z = Q_k x.
    transforms_ : list of ndarray
        Q_k of that member, round by round; empty without a transform.
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

    _fitted: FittedModel

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
        shuffle: Any = AUTO,
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
            One target, or several that share their trees.
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
        try:
            task = Task.from_user(copy.copy(self), X, y, sample_weight, eval_set, previous)
            self._take(self._fit_task(task, previous))  # only now, so that a fit that fails leaves the model as it was
        except KeyboardInterrupt as stop:
            if stop.args:
                raise
            raise KeyboardInterrupt(f"fit was stopped before the first round. {_KEEP_ROUNDS}") from None
        return self

    def _take(self, fitted: FittedModel) -> None:
        """Become the model that was fitted."""
        own = {name: value for name, value in self.__dict__.items() if name != "feature_names_in_"}
        own |= {"n_features_in_": fitted.n_features_in, "_fitted": fitted}
        if fitted.feature_names_in is not None:
            own["feature_names_in_"] = fitted.feature_names_in
        self.__dict__ = own  # in one step: see _snapshot

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SoftBoostRegressor:
        """Go on learning from new rows, in bounded memory however often it is called.

        The first call is :meth:`fit`. Later ones correct the model by recursive least squares with forgetting, in the
        columns and in the leaves of its strongest trees; gates and transforms stay. The last 2,000 rows are kept in
        the model and in its file, and whenever a fifth of them is new the model is fitted to them anew. After a call
        of :meth:`fit`, whose rows are not kept, or when errors have risen so much that rows of before no longer count,
        that is done only where it predicts better; so begin with ``partial_fit`` where rows will go on coming.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`; X must have the same columns. Categories are those of the first call.

        Returns
        -------
        self
        """
        self._check_params()
        before: FittedModel | None = vars(self).get("_fitted")
        task = Task.from_user(copy.copy(self), X, y, sample_weight, None, before)
        if before is not None:
            fitted = self._extended(task, before)
        else:
            recent = Recent.start(task.encoded, task.y.T, task.weight)
            fitted = replace(self._fit_task(task, None), recent=recent)
        self._take(fitted)
        return self

    def _extended(self, task: Task, before: FittedModel) -> FittedModel:
        """The fitted model after rows more: corrected, or fitted anew where that is due."""
        X, y, weight = task.standardised()
        members = [member for member in before.members if member.name != CORRECTION]
        recent = before.recent
        if recent is None:
            nothing = np.zeros((0, *task.encoded.shape[1:]), dtype=task.encoded.dtype)
            recent = Recent.start(nothing, task.y.T[:0], None)
        recent = recent.copied()
        if recent.basis is None:
            recent.begin(Ensemble.build(members, task.units), task.units.standardised(recent.X))
        now = before.ensemble.raw_prediction(task.encoded, task.n_threads)
        with np.errstate(over="ignore"):
            loss = task.loss.loss(task.y, now.T).mean(axis=0)
        recent.take(task.encoded, task.y.T, task.weight, loss)
        if not recent.due:
            recent.learn(X, y, task.units.standardised_y(now.T.astype(np.float64)), weight, task.train_loss)
        if recent.due:
            fitted = self._refitted(task, before, recent)
            if fitted is not None:
                recent.fitted()
                return replace(fitted, recent=recent)
            recent.postpone()
        members.append(recent.member())
        fitted = FittedModel.of(task, members, before.choice, before.evals_result, before.raw_bounds)
        return replace(fitted, recent=recent)

    def _refitted(self, task: Task, before: FittedModel, recent: Recent) -> FittedModel | None:
        """The model fitted to the rows kept; None where it is doubted and predicts no better than the one there is."""
        n = recent.n_rows
        judged = n - n // 4
        if recent.doubted:
            first = task.of_rows(recent.X[:judged], recent.y[:judged], recent.weight[:judged], self.loss)
            trial = self._fit_task(first, None)
            raw = trial.ensemble.raw_prediction(recent.X[judged:], task.n_threads)
            raw = trial.bounded(raw, recent.X[judged:])
            trial_loss = task.loss.loss(recent.y[judged:].T, raw.T).mean(axis=0)
            if not np.average(trial_loss - recent.loss[judged:], weights=recent.weight[judged:]) < 0:
                return None
        rows = task.of_rows(recent.X, recent.y, recent.weight, self.loss)
        fitted = self._fit_task(rows, None)
        anchor = fitted.anchor_column
        if anchor != before.anchor_column:
            return fitted
        # the range of rows that are no longer kept still counts
        return replace(fitted, raw_bounds=joint_bounds(rows, anchor, fitted.raw_bounds, before.raw_bounds))

    def _fit_task(self, task: Task, previous: FittedModel | None) -> FittedModel:
        X, y, weight = task.standardised()
        given = given_candidates(self, task)
        if given.nothing_to_choose or self.early_stopping:
            return self._fit_plain(task, given.boosted[0], previous)
        kind = recognise(task) if given.linear_models_compete else RowsKind(n_outputs=len(y))
        shuffle = self.shuffle if self.shuffle != AUTO else (False if kind.forward else "blocks")
        folds = make_folds(self.cv, shuffle, task.X_rows, task.y_rows, task.kept, task.seed)
        if not folds:
            return self._fit_constant(task)
        progress = Progress(bool(self.verbose), None, "softboost", keep=True)
        try:
            members, choice = choose(
                X, y, weight, task.train_loss, given.candidates, folds, task.units, kind,
                fixed_rounds=given.fixed_rounds, seed=task.seed, n_threads=task.n_threads, progress=progress.step,
            )  # fmt: skip
            progress.step(choice.describe())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"fit was stopped while choosing. {_KEEP_ROUNDS}") from None
        finally:
            progress.close()
        fitted = FittedModel.of(task, members, choice, in_time_order=kind.is_series)
        if task.eval_rows is None:
            return fitted
        return replace(fitted, evals_result={"validation": fitted.staged_losses(*task.eval_rows, task.n_threads)})

    def _fit_plain(self, task: Task, candidate: Candidate, previous: FittedModel | None) -> FittedModel:
        """One boosted candidate on all rows, with early stopping, warm start and Ctrl-C."""
        recipe = candidate.recipe
        train, held = task.hold_out(self)
        X, y, weight = train
        watch = Watch(self, task, train, held, recipe.n_estimators)
        before = None if previous is None else previous.raw_bounds
        old = None if previous is None else previous.members[0]
        try:
            if old is not None:
                member = self._continued(task, X, y, weight, recipe, old, watch)
            else:
                rows = TrainingRows(X, y, weight, task.units, task.train_loss, task.n_threads)
                member = fit_member(rows, candidate, task.seed, after_round=watch)
        except KeyboardInterrupt:
            done = watch.n_rounds
            stopped = f"fit was stopped after {done} of {recipe.n_estimators} rounds"
            if not self.warm_start or watch.model is None:
                advice = "set warm_start=True to keep the rounds done so far on Ctrl-C, then call fit again to go on"
                advice = "call fit again to start anew" if self.warm_start else advice
                raise KeyboardInterrupt(f"{stopped}. The model is as it was before; {advice}.") from None
            member = Member(recipe.name, 1.0, done, watch.start, watch.model)
            self._take(FittedModel.of(task, [member], None, watch.results, before))
            raise KeyboardInterrupt(f"{stopped}, which are kept; call fit again to go on.") from None
        finally:
            watch.close()
        if self.early_stopping and watch.best_round:
            member.stage = watch.best_round
        return FittedModel.of(task, [member], None, watch.results, before)

    def _continued(
        self, task: Task, X: Array, y: Array, weight: Array | None, recipe: Recipe, old: Member, watch: Watch
    ) -> Member:
        assert old.boosted is not None
        _check_unchanged(old.boosted, recipe, task.loss, make_loss(self.loss))
        watch.begin(old.linear)
        start = old.linear.predict(X)[0]
        added = old.boosted.outputs(X, task.n_threads)[: old.stage].sum(axis=0) if old.stage else 0.0
        before = replace(old.boosted, rounds=old.boosted.rounds[: old.stage])
        model = boost(
            recipe, X, y, weight, task.train_loss, (start + added).astype(X.dtype),
            columns=old.boosted.columns, rng=np.random.default_rng([task.seed, old.stage]), n_threads=task.n_threads,
            previous=before, after_round=watch,
        )  # fmt: skip
        watch(model)  # the losses of the earlier rounds, where none was added
        return Member(recipe.name, 1.0, len(model.rounds), old.linear, model)

    def _fit_constant(self, task: Task) -> FittedModel:
        """Too few rows to judge anything on: predict the best constant."""
        rows = TrainingRows(*task.standardised(), task.units, task.train_loss, 1)
        member = Member(CONSTANT.name, 1.0, 0, rows.flat(rows.constant()))
        return FittedModel.of(task, [member], Choice(weights={member.name: 1.0}, stages={member.name: 0}))

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
        self._check_weak_learner()
        check_choice("leaves", self.leaves, [AUTO, "constant", "linear"])
        check_choice("gates", self.gates, [AUTO, "greedy", "random"])
        check_choice("init", self.init, [AUTO, "zero", "constant", "linear"])
        check_choice("shuffle", self.shuffle, [AUTO, "blocks", True, False])
        check_integer("n_steps", self.n_steps, 1)
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        check_number("validation_fraction", self.validation_fraction, above=0, most=0.9)
        check_number("tol", self.tol, least=0)
        for name in ("standardize", "early_stopping", "warm_start"):
            check_flag(name, getattr(self, name))
        if self.init == "linear" and not make_loss(self.loss).scales_with_y:
            raise ValueError(
                f"init='linear' starts from a linear model of y, which loss={self.loss!r} does not predict directly; "
                "use init='constant'"
            )
        make_loss(self.loss)
        if self.feature_transform != AUTO:
            make_transform(self.feature_transform)

    def _check_weak_learner(self) -> None:
        if make_hard_trees(self.weak_learner) is None:
            return
        for name, allowed in (("leaves", (AUTO, "constant")), ("gates", (AUTO,)), ("ridge", (AUTO,))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(
                    f"{name}={value!r} is for soft trees only; leave it at 'auto' or use weak_learner='soft'"
                )

    def _previous_fit(self) -> FittedModel | None:
        """The fitted model to go on from under warm_start."""
        fitted: FittedModel | None = vars(self).get("_fitted")
        if fitted is None or not self.warm_start:
            return None
        if len(fitted.members) != 1 or fitted.members[0].boosted is None or self.n_estimators == AUTO:
            return None
        done = fitted.members[0].stage
        if self.n_estimators < done:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {done} rounds already fitted; with warm_start=True "
                "it is the total and must not shrink. Set warm_start=False to start anew."
            )
        return fitted

    # -- prediction ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Predictions at X.

        Far outside the training range predictions stay within three widths of the training targets' range beyond it
        (raw predictions, before the inverse link), and a model that was chosen takes a column's values for no farther
        than three widths of its training range beyond it. Where the model is one of changes since a column (see
        ``choice_``), columns may be anywhere, and the predicted change stays within those of the training rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            The columns that the model was fitted on, in the same order.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        model = self._snapshot()
        return model._fitted.predict(model._encode(X), resolve_n_threads(model.n_jobs))

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Predictions after each boosting round; the last equals :meth:`predict`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As in :meth:`predict`.

        Yields
        ------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        model = self._snapshot()
        yield from model._fitted.staged_predict(model._encode(X), resolve_n_threads(model.n_jobs))

    def _snapshot(self) -> SoftBoostRegressor:
        """The fitted model as it is now; a fit in another thread replaces all of it at once and leaves this whole."""
        model = copy.copy(self)
        check_is_fitted(model)
        return model

    def _encode(self, X: Any) -> Array:
        columns = self._fitted.columns
        matrix, categories = check_columns(self, X, sorted(columns.categories) or None, reset=False)
        return columns.encode(matrix, categories)

    # -- what was learned ------------------------------------------------------------------------------------------

    columns_, units_, loss_, train_loss_ = map(_learned, ("columns", "units", "loss", "train_loss"))
    members_, choice_, evals_result_ = map(_learned, ("members", "choice", "evals_result"))
    n_estimators_, n_outputs_ = map(_learned, ("n_estimators", "n_outputs"))

    @property
    def trees_(self) -> list[Any]:
        """Trees of the member of largest weight, on z = Q_k x."""
        return [tree for _, tree in self._snapshot()._fitted.leading_rounds()]

    @property
    def transforms_(self) -> list[Array]:
        """Q_k of the member of largest weight, round by round."""
        return [theta for theta, _ in self._snapshot()._fitted.leading_rounds() if theta is not None]

    @property
    def feature_importances_(self) -> Array:
        """How much each column of X moves the prediction; sums to one (all zeros for a constant model)."""
        return self._snapshot()._fitted.feature_importances()

    # -- going elsewhere -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`softboost.load` reads.

        The file holds numbers and text, no code and no training rows. It is complete on disk before it takes the
        place of one that was there, so neither a crash nor a full disk damages the old one.

        Parameters
        ----------
        path : str or path-like
            Any name will do; ``.softboost`` is usual.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> from softboost import SoftBoostRegressor, load
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = SoftBoostRegressor().fit(X, X[:, 0] ** 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.softboost"
        ...     model.save(path)
        ...     load(path).n_features_in_
        1
        """
        save_model(self._snapshot(), path)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as an ONNX graph of standard operators, in float32; needs the extra ``onnx``.

        The graph takes ``X``, float32 of shape (n_samples, n_features_in_), NaN included, and gives ``prediction``
        in the shape of :meth:`predict`. Models with category columns, with a transform that is not linear or with
        trees other than soft ones have no such graph.

        Parameters
        ----------
        path : str or path-like
            The file to write; ``.onnx`` is usual.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> from softboost import SoftBoostRegressor
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = SoftBoostRegressor().fit(X, X[:, 0] ** 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.onnx"
        ...     model.to_onnx(path)  # doctest: +SKIP
        """
        write_onnx(self._snapshot()._fitted, path)

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


register_estimator(SoftBoostRegressor)


def _check_unchanged(old: Boosted, recipe: Recipe, old_loss: Loss, loss: Loss) -> None:
    """Raise ValueError where rounds to come would not fit the rounds that are there."""
    pairs = {
        "learning_rate": (old.learning_rate, recipe.learning_rate),
        "feature_transform": (repr(old.recipe.transform), repr(recipe.transform)),
        "init": (old.recipe.start, recipe.start),
        "loss": (old_loss.name, loss.name),
    }
    for name, (before, now) in pairs.items():
        if before != now:
            raise ValueError(
                f"warm_start=True goes on from a model with {name}={before}, got {name}={now}; set it back, or set "
                "warm_start=False to start anew"
            )
