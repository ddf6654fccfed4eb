"""One contender on one task: nested cross-validation, fold by fold."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ParameterGrid,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer._array import Floats
from mercer._notices import collected
from mercer.data.wrapped import is_wrapped
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
        """The mercer kernel in the pipeline; None for a baseline."""
        steps = self.estimator.steps if isinstance(self.estimator, Pipeline) else []
        return next((step for _, step in steps if isinstance(step, Kernel)), None)

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
    """What the data have that new data must have, too."""
    arguments: str = ""
    """Arguments of the command line that read the data."""

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
        return "R2" if self.is_regression else "accuracy"

    def data_only(self) -> Task:
        """Return the task without its contenders."""
        return replace(self, contenders=[])


@dataclass(frozen=True)
class Fold:
    """Result of a contender on one outer fold."""

    number: int
    score: float
    """Accuracy or R2 on the test fold."""
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


def race(task: Task, contender: Contender, fold: int, folds: int, seed: int) -> Fold:
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
    # Small problems are slower with several BLAS threads, much slower on a busy machine.
    with collected(), mc.config(progress=False), threadpool_limits(1):  # models that do not converge race on
        search = searched(task, contender, train, seed)
        fitted = time.perf_counter()
        predicted = search.model.predict(_safe_indexing(task.X, test))
        done = time.perf_counter()
    score = (r2_score if task.is_regression else accuracy_score)(y[test], predicted, sample_weight=weights[test])
    losses = (predicted - y[test]) ** 2 if task.is_regression else predicted != y[test]
    return Fold(
        number=fold,
        score=float(score),
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
    if task.weights is None:
        search = GridSearchCV(contender.estimator, contender.grid, cv=inner, error_score="raise").fit(X, y)
        score, seconds = float(search.best_score_), float(search.refit_time_)
        return Search(search.best_estimator_, score, search.best_params_, seconds)
    weights = np.asarray(task.weights)[train]  # which GridSearchCV passes to fits, but not to scores
    tried = []
    for chosen in ParameterGrid(contender.grid):
        scores = []
        for some, rest in inner:
            model = _fitted(contender, chosen, _safe_indexing(X, some), y[some], weights[some])
            scores.append(model.score(_safe_indexing(X, rest), y[rest], sample_weight=weights[rest]))
        tried.append((float(np.mean(scores)), chosen))
    score, chosen = max(tried, key=lambda one: one[0])
    start = time.perf_counter()
    model = _fitted(contender, chosen, X, y, weights)
    return Search(model, score, chosen, time.perf_counter() - start)


def _fitted(contender: Contender, parameters: dict[str, Any], X: Any, y: Any, weights: Any) -> Any:
    """Fit a clone with weights; nearest neighbors take none."""
    model = clone(contender.estimator).set_params(**parameters)
    last, prefix = model, ""
    if isinstance(model, Pipeline):
        prefix, last = f"{model.steps[-1][0]}__", model.steps[-1][1]
    given = {f"{prefix}sample_weight": weights} if has_fit_parameter(last, "sample_weight") else {}
    return model.fit(X, y, **given)


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


def order_of_tests(task: Task, folds: int, seed: int) -> Floats:
    """Return the numbers of the samples in the order in which the test folds have them."""
    return np.concatenate([test for _, test in splits(task, np.arange(len(task.y)), folds, seed)])
