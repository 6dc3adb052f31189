"""SoftBoostRegressor: the scikit-learn estimator, with model selection or as plain gradient boosting."""

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
from ._boost.greedy import GreedyTrees
from ._boost.hard_trees import make_hard_trees
from ._boost.watch import MAX_UNWATCHED_ROWS, Watch
from ._choice.candidates import CONSTANT, Candidate
from ._choice.choose import Choice, choose
from ._choice.confirm import confirmed, continued
from ._choice.fit import fit_member
from ._choice.given import AUTO, given_candidates, plain_trees
from ._choice.many import Many, fit_many
from ._choice.rows import MAX_SERIES_ROWS, RowsKind, lags_of_columns, recognise
from ._choice.spread import learn_intervals
from ._choice.training import TrainingRows
from ._data.checks import (
    check_choice,
    check_columns,
    check_flag,
    check_integer,
    check_number,
    check_shares,
    resolve_n_threads,
)
from ._data.plain_rows import plain_rows
from ._data.task import Task
from ._file.codecs.state import register_estimator
from ._file.container import save as save_model
from ._file.onnx import write_onnx
from ._kernels import MAX_DEPTH
from ._model.bounds import joint_bounds
from ._model.ensemble import Ensemble
from ._model.fitted import FittedModel
from ._model.intervals import Validated
from ._model.member import Member
from ._model.partial_fit import CORRECTION, Recent
from ._runtime.blas import one_blas_thread
from ._runtime.progress import Progress
from .losses import Loss, SquaredError, make_loss
from .transforms import make_transform

__all__ = ["SoftBoostRegressor"]

Array = NDArray[Any]
ROWS_PER_THREAD = 128  # the kernel predicts this number of rows at a time
_KEEP_ROUNDS = (
    "The model is unchanged. To keep the completed rounds on Ctrl-C, set all parameters that are 'auto' and "
    "warm_start=True."
)


def _learned(name: str) -> Any:
    """Property of the estimator that returns an attribute of the fitted model."""
    return property(lambda model: getattr(model._snapshot()._fitted, name))


class SoftBoostRegressor(RegressorMixin, BaseEstimator):
    r"""Gradient boosting with soft trees and learned features.

    Without arguments, the model selects its structure, number of rounds and regularisation: it cross-validates several
    boosted models and linear models and combines those that improve the prediction; see ``choice_``. A parameter that
    is ``"auto"`` takes part in the selection; any other value is fixed. If no parameter is ``"auto"``, the fit is plain
    gradient boosting:

    .. math:: F_k = F_{k-1} + \nu \, \mathrm{tree}_k(Q_k x), \qquad
              \mathrm{tree}_k \approx -\partial L / \partial F_{k-1}

    Parameters
    ----------
    n_estimators : int or "auto", default="auto"
        Number of boosting rounds. More rounds fit the training rows more closely. ``"auto"`` minimises the
        cross-validated loss.
    learning_rate : float or "auto", default="auto"
        Shrinkage nu of each tree, in (0, 1]. Smaller values need more rounds and generalise slightly better.
    depth : int or "auto", default="auto"
        Depth of the trees, 1 to 10. Trees are always complete. Depth 2 represents interactions of pairs.
    loss : str, Loss or pair of callables, default="squared_error"
        One of squared_error, absolute_error, huber, quantile, log_cosh, poisson, gamma, tweedie, an object of
        :mod:`softboost.losses`, or ``(loss, gradient)``, both functions of ``(y_true, raw_prediction)``.
    feature_transform : None, "auto", "diagonal", "linear" or Transform, default="auto"
        The paper's Q. None boosts trees on the columns themselves (BSDT), ``"linear"`` learns z = Q x (BSDT-Q), and
        ``"diagonal"`` learns a weight for each column. Pass an instance from :mod:`softboost.transforms` to set its
        parameters. Unless every parameter of the trees is set, trees without the transform compete with one that starts
        at the identity (``"linear"``, ``"diagonal"``, networks), and with ``n_estimators="auto"`` with every transform.
    weak_learner : "soft", "lightgbm", "xgboost", "catboost", HardTrees or estimator, default="soft"
        The trees to boost. The name of another library boosts its trees with default parameters; pass an unfitted
        regressor of that library, or a scikit-learn tree regressor, to set them. With a feature transform, each round
        alternates between such a tree and the transform; see :class:`softboost.weak_learners.HardTrees`.
    leaves : {"auto", "constant", "linear"}, default="auto"
        Type of leaves. Linear leaves follow trends and extrapolate; the paper uses constant leaves.
    gates : {"auto", "greedy", "random"}, default="auto"
        Initial gates: the best splits, or small random weights that are moved by gradient steps.
    init : {"auto", "zero", "constant", "linear"}, default="auto"
        Prediction before the first tree: zero, the best constant or a linear model. With a log link, zero is a
        prediction of 1, and the mean of y must be between 1e-12 and 1e12.
    ridge : float or "auto", default="auto"
        Ridge penalty on the leaves; larger values shrink the output of each tree. Not used with ``gates="random"`` and
        constant leaves, which have no closed form.
    n_steps : int, default=100
        Number of gradient steps per tree with ``gates="random"`` and no transform; a transform has its own
        ``n_steps``.
    standardize : bool, default=True
        Standardise columns and y internally to mean zero and unit variance.
    cv : None, int, splitter or iterable of splits, default=None
        Cross-validation of the model selection. None uses five folds, or one hold-out set beyond 5,000 rows. Splits are
        pairs of row indices, such as ``list(KFold(5).split(X))``.
    shuffle : {"auto", "blocks", True, False}, default="auto"
        Assignment of rows to folds: contiguous blocks, random (True), or in time order (False), where each fold is
        validated only on rows after its training rows. ``"auto"`` is False for a non-stationary series, else
        ``"blocks"``. Rows are recognised as a series if a column repeats the target of the previous row.
    early_stopping : bool, default=False
        Stop when the validation loss has not improved for ``n_iter_no_change`` rounds, and keep the best round. The
        validation rows are ``eval_set``, or ``validation_fraction`` of the rows. Fits one boosted model, without model
        selection. With ``n_estimators="auto"`` it changes nothing, because model selection already finds the number of
        rounds by cross-validation.
    validation_fraction : float, default=0.1
        Share of rows used for early stopping: the last rows if ``shuffle=False``, else random rows.
    n_iter_no_change : int, default=10
        Number of rounds without improvement after which early stopping stops.
    tol : float, default=1e-7
        Minimum decrease of the loss that counts as an improvement.
    categorical_features : "auto", None or list, default="auto"
        Categorical columns, by name or index. ``"auto"`` uses the columns of text and of a categorical dtype.
    warm_start : bool, default=False
        Keep the rounds of the previous fit and continue up to ``n_estimators``. Only without model selection.
    n_jobs : int or None, default=None
        Number of threads; -1 uses all cores. The result is bitwise identical for every number.
    random_state : int, RandomState or None, default=None
        Seed of random gates and random folds. The default model uses neither.
    verbose : bool or int, default=False
        Show a progress bar and the selected model.

    Attributes
    ----------
    n_estimators_ : int
        Number of boosting rounds of the longest member.
    choice_ : Choice or None
        Result of the model selection; None for plain fits.
    members_ : list of Member
        Members of the ensemble, with their weights.
    trees_ : list of SoftTree
        Trees of the member with the largest weight, by round, on z = Q_k x.
    transforms_ : list of ndarray
        Q_k of that member, by round; empty without a transform.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Importances of the columns; they sum to one.
    evals_result_ : dict
        Loss after every round on the training rows and, with ``eval_set`` or early stopping, on the validation rows.
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

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, groups: Any = None
    ) -> SoftBoostRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            NumPy array, or pandas or polars data frame, with numbers, text, categories, dates and missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            One target, or several targets that share their trees.
        sample_weight : array of shape (n_samples,), default=None
            Sample weights. Weight 2 is equivalent to repeating the row, weight 0 to removing it. Folds and the
            validation rows of early stopping are counted in different rows, so that no fold separates copies.
        eval_set : tuple (X, y), or list of one, default=None
            Validation rows whose loss is recorded after every round; used for early stopping.
        groups : array of shape (n_samples,), default=None
            Groups of rows that belong together, such as the rows of one person. Model selection and early stopping
            validate on other groups than they train on.

        Returns
        -------
        self
        """
        self._check_params()
        previous = self._previous_fit()
        try:
            task = Task.from_user(copy.copy(self), X, y, sample_weight, eval_set, previous, groups=groups)
            fitted = self._fit_task(task, previous, codes=True)
            self._take(fitted)  # last, so that a failed fit leaves the model unchanged
        except KeyboardInterrupt as stop:
            if stop.args:
                raise
            raise KeyboardInterrupt(f"fit was stopped before the first round. {_KEEP_ROUNDS}") from None
        return self

    def _take(self, fitted: FittedModel) -> None:
        """Replace the state of the estimator by a fitted model."""
        own = {name: value for name, value in self.__dict__.items() if name != "feature_names_in_"}
        own |= {"n_features_in_": fitted.n_features_in, "_fitted": fitted}
        if fitted.feature_names_in is not None:
            own["feature_names_in_"] = fitted.feature_names_in
        self.__dict__ = own  # in a single step, see _snapshot

    @property
    def _fits_together(self) -> bool:
        """Whether fits to many small sets of rows are computed together.

        They are for greedy trees under the squared error with all parameters set, if nothing watches the rounds.
        """
        watched = self.early_stopping or self.warm_start or self.verbose or not self.standardize
        numbers = self.categorical_features is None or isinstance(self.categorical_features, str)
        squared = type(make_loss(self.loss)) is SquaredError
        return numbers and squared and not watched and plain_trees(self) is not None

    def _fit_many(self, X: Array, y: Array, indptr: Array) -> Many | None:
        """Fits to the rows from ``indptr[i]`` to ``indptr[i + 1]``, for all i, with the bits of :meth:`fit`.

        None if the fits are not computed together, or if the rows must be checked one set after the other.
        """
        candidate, sizes = plain_trees(self), np.diff(indptr)
        if candidate is None or not self._fits_together or not X.shape[1] or X.dtype != np.float64:
            return None
        if not len(sizes) or sizes.min() < 1 or sizes.max() > MAX_UNWATCHED_ROWS:
            return None
        if np.isinf(X).any() or not np.isfinite(y).all():
            return None
        self._check_params()
        return fit_many(candidate.recipe, X, y.astype(np.float64), indptr, resolve_n_threads(self.n_jobs))

    def _with(self, fitted: FittedModel) -> SoftBoostRegressor:
        """A copy of the estimator with this fitted model."""
        model = copy.copy(self)
        model._take(fitted)
        return model

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SoftBoostRegressor:
        """Update the model with new rows, in bounded memory.

        The first call is equivalent to :meth:`fit`. Later calls correct the model by recursive least squares with
        forgetting, in the columns and in the leaves of its most important trees; gates and transforms are unchanged.
        The model and its file contain the last 2,000 rows. Whenever a fifth of them is new, the model is refitted to
        them. After a call of :meth:`fit`, whose rows are not stored, and after a drift, a refitted model replaces the
        old one only if it predicts better. If more rows will follow, start with ``partial_fit``.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`. X must have the same columns; the categories are those of the first call.

        Returns
        -------
        self
        """
        self._check_params()
        before: FittedModel | None = vars(self).get("_fitted")
        task = Task.from_user(copy.copy(self), X, y, sample_weight, None, before, new_rows=before is not None)
        if before is not None:
            fitted = self._extended(task, before)
        else:
            is_series = lags_of_columns(*task.first_rows(MAX_SERIES_ROWS)) is not None
            recent = Recent.start(task.encoded, task.y.T, task.weight, is_series=is_series)
            fitted = replace(self._fit_task(task, None), recent=recent)
        self._take(fitted)
        return self

    def _extended(self, task: Task, before: FittedModel) -> FittedModel:
        """The fitted model after new rows: corrected, or refitted if a refit is due."""
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
        is_series = lags_of_columns(recent.X, recent.y) is not None
        recent.take(task.encoded, task.y.T, task.weight, loss, is_series=is_series)
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
        return replace(fitted, recent=recent, intervals=before.intervals)

    def _refitted(self, task: Task, before: FittedModel, recent: Recent) -> FittedModel | None:
        """The model refitted to the stored rows; None if it must predict better than the old model and does not."""
        if recent.doubted:
            train, held = recent.split()
            first, last = train > 0, held > 0
            trial = self._fit_task(task.of_rows(recent.X[first], recent.y[first], train[first], self.loss), None)
            raw = trial.ensemble.raw_prediction(recent.X[last], task.n_threads)
            raw = trial.bounded(raw, recent.X[last])
            trial_loss = task.loss.loss(recent.y[last].T, raw.T).mean(axis=0)
            if not np.average(trial_loss - recent.loss[last], weights=held[last]) < 0:
                return None
        rows = task.of_rows(recent.X, recent.y, recent.weight, self.loss)
        fitted = self._fit_task(rows, None)
        anchor = fitted.anchor_column
        if anchor != before.anchor_column:
            return fitted
        # the bounds include rows that are no longer stored
        return replace(fitted, raw_bounds=joint_bounds(rows, anchor, fitted.raw_bounds, before.raw_bounds))

    @one_blas_thread
    def _fit_task(self, task: Task, previous: FittedModel | None, *, codes: bool = False) -> FittedModel:
        """Fit the parameters of the estimator; with ``codes``, the encoding of the columns may change."""
        given = given_candidates(self, task)
        if given.nothing_to_choose or (self.early_stopping and self.n_estimators != AUTO):
            return self._fit_plain(task, given.boosted[0], previous)
        kind = recognise(task) if given.linear_models_compete else RowsKind(n_outputs=len(task.y))
        if not kind.is_series:
            task = task.merged_in_folds(self, kind.forward)
            given = given_candidates(self, task)
        true_y, tamed = task.y, task if kind.is_series else task.tamed(codes=codes)
        if kind.kind == "time":
            kind = recognise(tamed)  # an outlier may make the other targets seem equal to a column
        if kind.kind == "table" or kind.rival is not None:
            task = tamed
        X, y, weight = task.standardised()
        folds = task.folds(self)
        if not folds.in_order(kind.forward):
            return self._fit_constant(task)
        true_y = task.units.standardised_y(true_y)
        progress = Progress(bool(self.verbose), None, "softboost", keep=True)
        try:
            members, choice, validated = choose(
                X, y, weight, task.train_loss, given.candidates, folds, task.units, kind,
                true_y=true_y, suspect=task.moved, fixed_rounds=given.fixed_rounds,
                seed=task.seed, n_threads=task.n_threads, progress=progress.step,
            )  # fmt: skip
            progress.step(choice.describe())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"fit was stopped during model selection. {_KEEP_ROUNDS}") from None
        finally:
            progress.close()
        fitted = FittedModel.of(task, members, choice, in_time_order=kind.is_series)
        fitted = replace(
            fitted,
            intervals=learn_intervals(X, true_y, weight, validated, task.loss, task.units),
        )
        if task.eval_rows is None:
            return fitted
        return replace(fitted, evals_result={"validation": fitted.staged_losses(*task.eval_rows, task.n_threads)})

    def _fit_plain(self, task: Task, candidate: Candidate, previous: FittedModel | None) -> FittedModel:
        """Fit one boosted candidate on all rows, with early stopping, warm start and handling of Ctrl-C."""
        recipe = candidate.recipe
        rounded = task.encoded.dtype == np.float32 or not _is_smooth(recipe, task.loss)
        if task.is_sampled or self.early_stopping or rounded:
            last_rows_are_held = self.early_stopping and self.shuffle is False
            task = task.merged(self.loss if previous is None else None, neighbours=last_rows_are_held)
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
                watching = {} if watch.has_nothing_to_do else {"after_round": watch}
                member = fit_member(rows, confirmed(rows, candidate, task.seed), task.seed, **watching)
                if not watching and member.boosted is not None:
                    watch.record(member.linear, member.boosted)
        except KeyboardInterrupt:
            done = watch.n_rounds
            stopped = f"fit was stopped after {done} of {recipe.n_estimators} rounds"
            if not self.warm_start or watch.model is None:
                advice = "set warm_start=True to keep the completed rounds on Ctrl-C, then call fit again to continue"
                advice = "call fit again to start again" if self.warm_start else advice
                raise KeyboardInterrupt(f"{stopped}. The model is unchanged; {advice}.") from None
            member = Member(recipe.name, 1.0, done, watch.start, watch.model)
            self._take(FittedModel.of(task, [member], None, watch.results, before))
            raise KeyboardInterrupt(f"{stopped}, which are kept; call fit again to continue.") from None
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
            continued(recipe, old.boosted), X, y, weight, task.train_loss, (start + added).astype(X.dtype),
            columns=old.boosted.columns, rng=np.random.default_rng([task.seed, old.stage]), n_threads=task.n_threads,
            previous=before, after_round=watch,
        )  # fmt: skip
        watch(model)  # record the losses of the earlier rounds if no round was added
        return Member(recipe.name, 1.0, len(model.rounds), old.linear, model)

    def _fit_constant(self, task: Task) -> FittedModel:
        """Predict the best constant, because there are too few rows for cross-validation."""
        rows = TrainingRows(*task.standardised(), task.units, task.train_loss, 1)
        member = Member(CONSTANT.name, 1.0, 0, rows.flat(rows.constant()))
        return FittedModel.of(task, [member], Choice(weights={member.name: 1.0}, stages={member.name: 0}))

    # -- parameters ------------------------------------------------------------------------------------------------

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
                f"init='linear' starts from a linear model of y, but loss={self.loss!r} has a link function; "
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
                raise ValueError(f"{name}={value!r} is for soft trees only; use {name}='auto' or weak_learner='soft'")

    def _previous_fit(self) -> FittedModel | None:
        """The fitted model to continue from with warm_start."""
        fitted: FittedModel | None = vars(self).get("_fitted")
        if fitted is None or not self.warm_start:
            return None
        if len(fitted.members) != 1 or fitted.members[0].boosted is None or self.n_estimators == AUTO:
            return None
        done = fitted.members[0].stage
        if self.n_estimators < done:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {done} rounds already fitted; with warm_start=True "
                "it is the total number of rounds and must not decrease. Set warm_start=False to start again."
            )
        return fitted

    # -- prediction ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Predict the targets of X.

        Extrapolation is bounded. Predictions exceed the range of the training targets by at most three times its
        width, and a model from model selection clips each column in the same way. An anchored model (see ``choice_``)
        does not clip columns. Its predicted change stays within the range of the changes in the training rows,
        extended by at most a quarter of its width if the changes of a series grew. With a log link or
        ``standardize=False`` predictions are not bounded.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            The columns that the model was fitted on, in the same order.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        model = self._snapshot()
        encoded = model._encode(X)
        n_threads = 1 if len(encoded) <= ROWS_PER_THREAD else resolve_n_threads(model.n_jobs)
        return model._fitted.predict(encoded, n_threads)

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

    def predict_interval(self, X: Any, level: Any = 0.9) -> Array:
        """Predict intervals that contain the target with a given probability.

        The intervals come from the errors that the model made on the validation rows of its model selection: they are
        the prediction plus quantiles of these errors. Where the errors show it, intervals are wider at large
        predictions, far from the training rows, or depending on the columns. No further model is fitted. A model
        without model selection needs :meth:`calibrate` first.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As in :meth:`predict`.
        level : float or list of float, default=0.9
            Probability that the target is inside, between 0 and 1. Half of the rest is on either side.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, 2, n_levels)
            Lower and upper ends; with several outputs, of shape (n_samples, n_outputs, 2) or
            (n_samples, n_outputs, 2, n_levels).

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from softboost import SoftBoostRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> low, high = SoftBoostRegressor().fit(X[:200], y[:200]).predict_interval(X[200:], level=0.9).T
        >>> bool(0.85 < ((low <= y[200:]) & (y[200:] <= high)).mean() < 0.95)
        True
        """
        levels = check_shares("level", level)
        tail = (1.0 - levels) / 2
        ends = self.predict_quantiles(X, np.stack([tail, 1.0 - tail]).ravel())
        ends = ends.reshape(*ends.shape[:-1], 2, len(levels))
        return ends[..., 0] if np.ndim(level) == 0 else ends

    def predict_quantiles(self, X: Any, quantiles: Any = (0.1, 0.5, 0.9)) -> Array:
        """Predict quantiles of the target; they never cross.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As in :meth:`predict`.
        quantiles : float or list of float, default=(0.1, 0.5, 0.9)
            Probabilities that the target is below, between 0 and 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles)
            For a single number, without the last axis.

        See Also
        --------
        predict_interval : The same quantiles in pairs, with an explanation of where they come from.

        Examples
        --------
        >>> import numpy as np
        >>> from softboost import SoftBoostRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(200, 1))
        >>> model = SoftBoostRegressor().fit(X, X[:, 0] + X[:, 0] * rng.normal(size=200))
        >>> low, high = model.predict_quantiles([[0.1], [0.9]], quantiles=[0.1, 0.9]).T
        >>> bool((high - low)[0] < (high - low)[1])  # noise grows with x
        True
        """
        probabilities = check_shares("quantiles", quantiles)
        model = self._snapshot()
        encoded = model._encode(X)
        out = model._fitted.quantiles(encoded, probabilities, resolve_n_threads(model.n_jobs))
        out = np.ascontiguousarray(out.transpose(2, 1, 0))
        largest = np.finfo(encoded.dtype).max
        out = np.clip(out, -largest, largest).astype(encoded.dtype)
        out = out[:, 0] if model._fitted.y_ndim == 1 else out
        return out[..., 0] if np.ndim(quantiles) == 0 else out

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> SoftBoostRegressor:
        """Learn prediction intervals from rows that the model was not fitted on.

        Needed only for models without intervals: fits without model selection, and files of older versions. Predictions
        do not change. Existing intervals are replaced.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`, with other rows. Fifty rows are enough for intervals of 90 percent.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from softboost.presets import bsdt
        >>> X = np.random.default_rng(0).normal(size=(120, 2))
        >>> y = X[:, 0] + 0.1 * X[:, 1]
        >>> model = bsdt(n_estimators=5, random_state=0).fit(X[:60], y[:60]).calibrate(X[60:], y[60:])
        >>> model.predict_interval(X[:3]).shape
        (3, 2)
        """
        model = self._snapshot()
        fitted = model._fitted
        task = Task.from_user(copy.copy(model), X, y, sample_weight, None, fitted, new_rows=True)
        raw = fitted.bounded(fitted.ensemble.raw_prediction(task.encoded, task.n_threads), task.encoded)
        rows = np.arange(task.y.shape[1])
        validated = Validated(rows, np.zeros_like(rows), task.units.standardised_y(raw.T.astype(np.float64)))
        intervals = learn_intervals(*task.standardised(), validated, task.loss, task.units)
        if intervals is None:
            raise ValueError(f"calibrate needs at least two rows of positive weight, got {len(rows)}")
        self._take(replace(fitted, intervals=intervals))
        return self

    def _snapshot(self) -> SoftBoostRegressor:
        """A copy that refers to the current fitted model, which a fit in another thread does not change."""
        model = self.__class__.__new__(self.__class__)
        model.__dict__ = self.__dict__.copy()
        if "_fitted" not in model.__dict__:
            check_is_fitted(model)
        return model

    def _encode(self, X: Any) -> Array:
        columns, names = self._fitted.columns, self._fitted.feature_names_in
        plain = None if columns.kinds else plain_rows(X, columns.n_features, names)
        if plain is not None:
            return columns.encode(plain, {})
        matrix, categories = check_columns(self, X, None, kinds=columns.kinds)
        columns.check_kinds(categories, getattr(self, "feature_names_in_", None))
        return columns.encode(matrix, categories)

    # -- what was learned ------------------------------------------------------------------------------------------

    columns_, units_, loss_, train_loss_ = map(_learned, ("columns", "units", "loss", "train_loss"))
    members_, choice_, evals_result_ = map(_learned, ("members", "choice", "evals_result"))
    n_estimators_, n_outputs_ = map(_learned, ("n_estimators", "n_outputs"))

    @property
    def trees_(self) -> list[Any]:
        """Trees of the member with the largest weight, on z = Q_k x."""
        return [tree for _, tree in self._snapshot()._fitted.leading_rounds()]

    @property
    def transforms_(self) -> list[Array]:
        """Q_k of the member with the largest weight, by round."""
        return [theta for theta, _ in self._snapshot()._fitted.leading_rounds() if theta is not None]

    @property
    def feature_importances_(self) -> Array:
        """Importances of the columns of X; they sum to one, or are all zero for a constant model."""
        return self._snapshot()._fitted.feature_importances()

    # -- files -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model to a file; :func:`softboost.load` reads it.

        The file contains numbers and text, but no code and, unless ``partial_fit`` was used, no training rows. An
        existing file is replaced only when the new one is complete on disk, so a crash or a full disk does not damage
        it.

        Parameters
        ----------
        path : str or path-like
            The file to write; the usual extension is ``.softboost``.

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
        """Export the fitted model as an ONNX graph of standard operators; needs the extra ``onnx``.

        The input ``X`` is float32 of shape (n_samples, n_features_in_) and may contain NaN; the output ``prediction``
        has the shape of :meth:`predict`. Prediction intervals are not part of the graph. Models with categorical
        columns, non-linear transforms or hard trees are not supported.

        Parameters
        ----------
        path : str or path-like
            The file to write; the usual extension is ``.onnx``.

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


def _is_smooth(recipe: Recipe, loss: Loss) -> bool:
    """Whether rounding has no other consequence than rounding.

    Not so in gradient steps, in trees of other libraries, which also count rows, and under losses with kinks.
    """
    return type(recipe.learner) is GreedyTrees and type(loss) is SquaredError


def _check_unchanged(old: Boosted, recipe: Recipe, old_loss: Loss, loss: Loss) -> None:
    """Raise ValueError if a changed parameter does not match the completed rounds."""
    pairs = {
        "learning_rate": (old.learning_rate, recipe.learning_rate),
        "feature_transform": (repr(old.recipe.transform), repr(recipe.transform)),
        "init": (old.recipe.start, recipe.start),
        "loss": (old_loss.name, loss.name),
    }
    for name, (before, now) in pairs.items():
        if before != now:
            raise ValueError(
                f"warm_start=True continues a model with {name}={before}, got {name}={now}; restore the parameter, or "
                "set warm_start=False to start again"
            )
