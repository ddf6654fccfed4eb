"""One contender on one task: nested cross-validation, fold by fold."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ParameterGrid,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer._array import Floats
from mercer._notices import collected
from mercer.data.channels import is_wrapped
from mercer.kernels import Kernel

INNER_FOLDS = 3


@dataclass(frozen=True)
class Contender:
    """A predictor and the parameter grid searched within the training folds."""

    name: str
    estimator: Any
    grid: dict[str, Any] = field(default_factory=dict)
    is_baseline: bool = False
    """Whether a kernel in the pipeline only serves a plain baseline."""

    @property
    def kernel(self) -> Kernel | None:
        """The mercer kernel in the pipeline (or a search over it), or in its regression; None for a baseline."""
        pipeline = getattr(self.estimator, "estimator", self.estimator)
        steps = pipeline.steps if isinstance(pipeline, Pipeline) else [("", pipeline)]
        parts = (part for _, step in steps for part in (step, getattr(step, "kernel", None)))
        return next((part for part in parts if isinstance(part, Kernel)), None)

    @property
    def is_kernel(self) -> bool:
        """Whether this is a kernel of mercer, and not a baseline."""
        return self.kernel is not None and not self.is_baseline


@dataclass(frozen=True)
class Task:
    """Data with their labels or targets, and the contenders; samples of one group stay in one fold."""

    about: str
    X: Any
    y: Any
    contenders: list[Contender]
    groups: Any = None
    weights: Any = None
    reading: str = ""
    """Line of code that reads the data from a file, if any."""
    known: Any = None
    """Properties of the data that new data must have, too."""
    arguments: str = ""
    """Arguments of the command line that read the data."""
    warnings: tuple[str, ...] = ()
    """What the user should know about the data."""
    ids: tuple[str, ...] = ()
    """Names of the samples; empty for numbers."""
    left_out: int = 0
    """Number of samples of the file that a limit left out."""
    shared: str = ""
    """Description of the data for readers without the command line; empty if ``about`` contains it."""

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers to predict; labels are integers or strings."""
        return np.asarray(self.y).dtype.kind == "f"

    @property
    def is_confounded(self) -> bool:
        """Whether the data come with confounds."""
        return is_wrapped(self.X)

    @property
    def measure(self) -> str:
        """Name of the score."""
        if not self.is_regression:
            return "accuracy"
        return "R2 without the confounds" if self.is_confounded else "R2"

    def data_only(self) -> Task:
        """Return the task without its contenders."""
        return replace(self, contenders=[])


@dataclass(frozen=True)
class Fold:
    """Result of a contender on one outer fold."""

    number: int
    score: float
    """Accuracy or R2 (see `Score`) on the test fold."""
    inner: float
    """Score of the chosen parameters in the inner cross-validation."""
    losses: list[float]
    """Zero-one loss or squared error of every test sample, times its weight."""
    fit_seconds: float
    """Time of the fit with the chosen parameters."""
    search_seconds: float
    """Time of the whole search."""
    predict_seconds: float
    """Time to predict one test sample, on average."""
    parameters: dict[str, str]
    """Parameters that were chosen."""


@dataclass(frozen=True)
class Score:
    """Accuracy, or R2; with confounds, the R2 of the part of the targets that these do not explain.

    The regression of the targets on the confounds is learned from training samples only, as that of every model is.
    """

    is_regression: bool
    explained: Any = None
    """Regression of the targets on the confounds; None if there are none."""

    @classmethod
    def learned(cls, task: Task, train: Any) -> Score:
        """Return the score whose regression on the confounds is learned from the samples at ``train``."""
        if not (task.is_regression and task.is_confounded):
            return cls(task.is_regression)
        weights = None if task.weights is None else np.asarray(task.weights, dtype=float)[train]
        regression = make_pipeline(StandardScaler(), LinearRegression())
        y = np.asarray(task.y)[train]
        return cls(True, regression.fit(task.X.confounds[train], y, linearregression__sample_weight=weights))

    def unexplained(self, X: Any, y: Floats) -> Floats:
        """Return the part of the targets that the confounds do not explain; without confounds, all of it."""
        return y if self.explained is None else np.asarray(y - self.explained.predict(X.confounds))

    def of(self, X: Any, y: Any, predicted: Any, weights: Any = None) -> float:
        """Return the score of predictions."""
        if not self.is_regression:
            return float(accuracy_score(y, predicted, sample_weight=weights))
        rest = self.unexplained(X, y)
        return float(r2_score(rest, predicted - y + rest, sample_weight=weights))

    def total(self, X: Any, y: Any, weights: Floats) -> float:
        """Return what the sum of the losses is divided by: the score is 1 minus that share."""
        if not self.is_regression:
            return float(weights.sum())
        rest = self.unexplained(X, y)
        return float(np.sum(weights * (rest - np.average(rest, weights=weights)) ** 2))

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        """Return the score of a model, as scikit-learn's searches call it."""
        return self.of(X, y, model.predict(X))


def evaluate_fold(task: Task, contender: Contender, fold: int, folds: int, seed: int) -> Fold:
    """Search the parameters of a contender on one training fold, and score it on the test fold.

    Parameters
    ----------
    task : Task
        Data, labels or targets, groups and weights.
    contender : Contender
        Predictor and parameter grid.
    fold : int
        Number of the outer fold.
    folds : int
        How many outer folds there are.
    seed : int
        Seed for shuffling the folds.
    """
    y = np.asarray(task.y)
    train, test = splits(task, np.arange(len(y)), folds, seed)[fold]
    weights = np.ones(len(y)) if task.weights is None else np.asarray(task.weights, dtype=float)
    start = time.perf_counter()
    # Small problems are slower with several BLAS threads, much slower on a busy computer.
    with collected(), mc.config(progress=False), threadpool_limits(1):  # models that do not converge go on
        search = searched(task, contender, train, seed)
        fitted = time.perf_counter()
        predicted = search.model.predict(_safe_indexing(task.X, test))
        done = time.perf_counter()
    score = Score.learned(task, train).of(_safe_indexing(task.X, test), y[test], predicted, weights[test])
    losses = (predicted - y[test]) ** 2 if task.is_regression else predicted != y[test]
    return Fold(
        number=fold,
        score=score,
        inner=search.score,
        losses=(losses * weights[test]).tolist(),
        fit_seconds=search.seconds,
        search_seconds=fitted - start,
        predict_seconds=(done - fitted) / len(test),
        parameters={name: repr(value) for name, value in search.parameters.items()},
    )


@dataclass(frozen=True)
class Search:
    """A model with the parameters that were best in the inner cross-validation."""

    model: Any
    score: float
    parameters: dict[str, Any]
    seconds: float
    """Time of the fit with these parameters."""


def searched(task: Task, contender: Contender, train: Any, seed: int) -> Search:
    """Search the contender's parameters on the samples at ``train``, and fit it to all of them."""
    inner = splits(task, train, INNER_FOLDS, seed)
    X, y = _safe_indexing(task.X, train), np.asarray(task.y)[train]
    scoring = Score.learned(task, train)
    if task.weights is None:
        search = GridSearchCV(contender.estimator, contender.grid, cv=inner, scoring=scoring, error_score="raise")
        search.fit(X, y)
        score, seconds = float(search.best_score_), float(search.refit_time_)
        return Search(search.best_estimator_, score, search.best_params_, seconds)
    weights = np.asarray(task.weights)[train]  # which GridSearchCV passes to fits, but not to scores
    tried = []
    for chosen in ParameterGrid(contender.grid):
        scores = []
        for some, rest in inner:
            model = fit_weighted(
                clone(contender.estimator).set_params(**chosen), _safe_indexing(X, some), y[some], weights[some]
            )
            part = _safe_indexing(X, rest)
            scores.append(scoring.of(part, y[rest], model.predict(part), weights[rest]))
        tried.append((float(np.mean(scores)), chosen))
    score, chosen = max(tried, key=lambda one: one[0])
    start = time.perf_counter()
    model = fit_weighted(clone(contender.estimator).set_params(**chosen), X, y, weights)
    return Search(model, score, chosen, time.perf_counter() - start)


def fit_weighted(model: Any, X: Any, y: Any, weights: Any = None) -> Any:
    """Fit a model with weights, if there are any; nearest neighbors take none."""
    name = None if weights is None else weight_parameter(model)
    return model.fit(X, y, **({} if name is None else {name: weights}))


def weight_parameter(model: Any) -> str | None:
    """Return the parameter of ``fit`` that takes weights, if any: that of the last step of a pipeline."""
    last, prefix = model, ""
    if isinstance(model, Pipeline):
        prefix, last = f"{model.steps[-1][0]}__", model.steps[-1][1]
    return f"{prefix}sample_weight" if has_fit_parameter(last, "sample_weight") else None


def splits(task: Task, index: Any, folds: int, seed: int) -> list[tuple[Any, Any]]:
    """Split the samples at ``index`` into folds that keep groups together and, for labels, the share of the classes."""
    labels = np.asarray(task.y)[index]
    groups = None if task.groups is None else np.asarray(task.groups)[index]
    shuffled = {"shuffle": True, "random_state": seed}
    if task.is_regression:
        splitter = KFold(folds, **shuffled) if groups is None else GroupKFold(folds)
    else:
        splitter = StratifiedKFold(folds, **shuffled) if groups is None else StratifiedGroupKFold(folds, **shuffled)
    return list(splitter.split(index, labels, groups))


def too_few(members: int, folds: int) -> bool:
    """Whether a class has too few members for the outer folds, or for the inner folds of the smallest training part."""
    return members < folds or members - -(-members // folds) < INNER_FOLDS
