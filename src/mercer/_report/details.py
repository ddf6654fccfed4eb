"""What a report shows of one pipeline: its Gram matrix, and predictions for samples that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import _ovr_decision_function
from threadpoolctl import threadpool_limits

from mercer._array import Floats
from mercer._checks import NotAdditive, NotRead
from mercer._comparison.evaluation import Contender, Score, Task, fit_weighted, splits
from mercer._comparison.results import Result, values_of
from mercer._config import config
from mercer._notices import collected
from mercer._parallel import progress_bar
from mercer.data.channels import inside
from mercer.gram import Diagnosis, diagnose
from mercer.kernels import Kernel, explain

REGULARIZATIONS = {"C": tuple(10.0 ** np.arange(-2, 4)), "alpha": tuple(10.0 ** np.arange(-3, 3))}
"""Values of the parameter that estimators are regularized by, for its curve."""


@dataclass(frozen=True)
class Curve:
    """Error of cross-validation over the values of one parameter."""

    name: str
    values: list[float]
    means: Floats
    deviations: Floats
    chosen: float | None
    """The value that is used elsewhere in the report."""


@dataclass(frozen=True)
class Details:
    """What is drawn of one pipeline; without a kernel, there is neither a Gram matrix nor what comes from it."""

    model: Any
    """The pipeline, fitted to all samples."""
    kernel: Kernel | None
    """Its fitted kernel."""
    gram: Floats | None
    diagnosis: Diagnosis | None
    eigenvalues: Floats | None
    """Eigenvalues of the Gram matrix, largest first."""
    embedding: Floats | None
    """Two kernel principal components of each sample."""
    share: Floats
    """Share of the variance of each component."""
    predicted: Any
    """Predictions of cross-validation."""
    margins: Floats
    """How clearly each prediction is right: the decision for the class minus the largest other one, or minus the
    absolute error of a target."""
    probabilities: Floats | None
    """Probabilities of the classes, from decisions of cross-validation."""
    curves: list[Curve]
    """Errors over the regularization and over the main parameter."""


def details_of(task: Task, result: Result, folds: int, seed: int) -> Details:
    """Return what is drawn of a contender that finished, with the parameters that were chosen most often."""
    contender, chosen = result.contender, values_of(result.contender, result.often_chosen)
    with collected(), config(progress=False), threadpool_limits(1):
        pipeline = clone(contender.estimator).set_params(**chosen)
        tried = _Folds(task, folds, seed)
        decisions, predicted = tried.decisions(pipeline)
        model, kernel, K = _fitted(task, pipeline)
        embedding, share = (None, np.zeros(2)) if K is None else _embedded(K)
        return Details(
            model=model,
            kernel=kernel,
            gram=K,
            diagnosis=None if K is None else diagnose(K, task.y),
            eigenvalues=None if K is None else np.linalg.eigvalsh((K + K.T) / 2)[::-1],
            embedding=embedding,
            share=share,
            predicted=predicted,
            margins=-np.abs(predicted - task.y) if task.is_regression else _margins(decisions, task.y),
            probabilities=None if task.is_regression else tried.probabilities(decisions),
            curves=_curves(tried, contender, pipeline, chosen),
        )


class _Folds:
    """The outer folds of a task, and what pipelines give on them."""

    def __init__(self, task: Task, folds: int, seed: int) -> None:
        self.task, self.y = task, np.asarray(task.y)
        self.weights = None if task.weights is None else np.asarray(task.weights, dtype=float)
        self.splits = splits(task, np.arange(len(self.y)), folds, seed)

    def decisions(self, pipeline: Any) -> tuple[Floats, Any]:
        """Return the decisions, of shape (N,) or (N, K), and predictions for samples that are not fitted."""
        decisions: Any = None
        predicted = np.empty(len(self.y), dtype=self.y.dtype)
        for train, test in self.splits:
            weights = None if self.weights is None else self.weights[train]
            model = fit_weighted(clone(pipeline), _safe_indexing(self.task.X, train), self.y[train], weights)
            X = _safe_indexing(self.task.X, test)
            predicted[test] = model.predict(X)
            if self.task.is_regression:
                continue
            part = _decision(model, X)
            decisions = np.zeros((len(self.y), *part.shape[1:])) if decisions is None else decisions
            decisions[test] = part
        return decisions, predicted

    def probabilities(self, decisions: Floats) -> Floats:
        """Return probabilities of the classes from the decisions; those of each fold are fitted to the others."""
        D = decisions[:, None] if decisions.ndim == 1 else decisions
        D = (D - D.mean(axis=0)) / np.maximum(D.std(axis=0), 1e-12)
        probabilities = np.zeros((len(self.y), len(np.unique(self.y))))
        for train, test in self.splits:
            model = LogisticRegression(max_iter=1000).fit(D[train], self.y[train])
            known = np.searchsorted(np.unique(self.y), model.classes_)
            probabilities[np.ix_(test, known)] = model.predict_proba(D[test])
        return probabilities

    def errors(self, pipeline: Any, name: str, values: tuple[Any, ...]) -> Floats:
        """Return the error on each fold for each value of a parameter of the last step, of shape (values, folds).

        What comes before the last step is computed once.
        """
        errors = np.zeros((len(values), len(self.splits)))
        for j, (train, test) in enumerate(self.splits):
            front, estimator = clone(pipeline[:-1]), pipeline[-1]
            known = front.fit_transform(_safe_indexing(self.task.X, train), self.y[train])
            X = _safe_indexing(self.task.X, test)
            new = front.transform(X)
            score = Score.learned(self.task, train)
            for i, value in enumerate(values):
                fitted = clone(estimator).set_params(**{name: value}).fit(known, self.y[train])
                errors[i, j] = 1 - score.of(X, self.y[test], fitted.predict(new))
        return errors


def _decision(model: Any, X: Any) -> Floats:
    """Return the decisions of a classifier; of those that have none, the logarithms of their probabilities."""
    if hasattr(model, "decision_function"):
        D = np.asarray(model.decision_function(X), dtype=float)
        estimator = model[-1] if isinstance(model, Pipeline) else model
        if D.ndim == 2 and getattr(estimator, "decision_function_shape", None) == "ovo":
            return np.asarray(_ovr_decision_function(D < 0, -D, len(model.classes_)))  # as SVC does for "ovr"
        return D
    P = np.log(np.maximum(model.predict_proba(X), 1e-12))
    return P[:, 1] - P[:, 0] if P.shape[1] == 2 else P


def _margins(decisions: Floats, y: Any) -> Floats:
    classes, codes = np.unique(y, return_inverse=True)
    if decisions.ndim == 1:
        return decisions * np.where(codes == 1, 1.0, -1.0)
    own = np.take_along_axis(decisions, codes[:, None], axis=1)[:, 0]
    others = np.where(np.arange(len(classes)) == codes[:, None], -np.inf, decisions)
    return own - others.max(axis=1)


def _fitted(task: Task, pipeline: Any) -> tuple[Any, Kernel | None, Floats | None]:
    """Return the pipeline fitted to all samples, its kernel, and the Gram matrix."""
    model = fit_weighted(clone(pipeline), task.X, task.y, task.weights)
    model = getattr(model, "best_estimator_", model)  # a search that was passed as it is
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for i, step in enumerate(steps):
        kernel = step if isinstance(step, Kernel) else getattr(step, "kernel_", None)
        if isinstance(kernel, Kernel):
            before = model[:i].transform(task.X) if i else task.X
            if kernel is not step:  # a regression takes the confounds out of the data itself
                before = inside(before)
            return model, kernel, np.asarray(clone(kernel).fit_transform(before, task.y), dtype=float)
    return model, None, None


def _embedded(K: Floats) -> tuple[Floats | None, Floats]:
    n = len(K)
    if n < 3:
        return None, np.zeros(2)
    centered = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    total = float(np.trace(centered))
    found = KernelPCA(2, kernel="precomputed", eigen_solver="dense").fit(K)
    if len(found.eigenvalues_) < 2 or not total > 0:
        return None, np.zeros(2)
    embedding = found.eigenvectors_ * np.sqrt(np.maximum(found.eigenvalues_, 0))
    # Signs of eigenvectors are arbitrary: the component of the largest coordinate is positive.
    largest = embedding[np.abs(embedding).argmax(axis=0), [0, 1]]
    return embedding * np.where(largest < 0, -1.0, 1.0), found.eigenvalues_ / total


def _curves(tried: _Folds, contender: Contender, pipeline: Any, chosen: dict[str, Any]) -> list[Curve]:
    """Return the errors over the regularization and over the first other numeric parameter that was searched."""
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2 or tried.task.weights is not None:
        return []
    last, estimator = pipeline.steps[-1]
    parameters = estimator.get_params()
    name = next((name for name in REGULARIZATIONS if name in parameters), None)
    if name is None or isinstance(getattr(estimator, "kernel", None), Kernel):  # the last computes its own matrix
        return []
    now = parameters[name]
    values = {*REGULARIZATIONS[name], *([now] if isinstance(now, float) else [])}
    at = tuple(sorted(values))
    curves = [_curve(name, at, tried.errors(pipeline, name, at), now)]
    main = next((key for key, some in contender.grid.items() if _is_curve(key, some, last)), None)
    if main is not None:
        at = tuple(sorted(contender.grid[main]))
        errors = [
            tried.errors(clone(pipeline).set_params(**{main: value}), name, (now,))[0]
            for value in progress_bar(list(at), "Curve of the report")
        ]
        curves.append(_curve(main.rpartition("__")[2], at, np.stack(errors), chosen[main]))
    return curves


def _is_curve(key: str, values: Any, last: str) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return not key.startswith(f"{last}__") and numbers and len(values) > 1


def _curve(name: str, values: tuple[float, ...], errors: Floats, chosen: Any) -> Curve:
    now = float(chosen) if isinstance(chosen, (int, float)) else None
    return Curve(name, [float(value) for value in values], errors.mean(axis=1), errors.std(axis=1), now)


def class_order(y: Any, K: Floats | None) -> Floats:
    """Return the samples ordered by class (or target), and inside each class from its most central one outward."""
    y = np.asarray(y)
    if y.dtype.kind == "f" or K is None:
        return np.argsort(y, kind="stable")
    order = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        order.append(own[np.argsort(-K[np.ix_(own, own)].mean(axis=1), kind="stable")])
    return np.concatenate(order)


def shares_of(task: Task, found: Details, numbers: list[int]) -> dict[int, Floats]:
    """Return the contributions of positions to the prediction, by sample; empty for kernels without exact ones.

    For labels, positive contributions speak for the class that the model predicts. Channels of series have
    contributions of their own where `explain` can tell them apart.
    """
    if not numbers:
        return {}
    X = _safe_indexing(task.X, np.asarray(numbers))
    try:
        with collected():
            explained = explain(found.model, X, method="additive")
            if len(explained.channels or ()) > 1:  # exact shares may not tell channels apart
                explained = explain(found.model, X)
    except (NotAdditive, NotRead):  # the kernel has no exact shares, or the pipeline is not one of ours
        return {}
    if explained.predicted is not None:
        if explained.n_outputs > 1 and not set(explained.predicted) <= set(explained.outputs):
            return {}  # decisions between pairs of classes
        explained = explained.of_predicted()
    return dict(zip(numbers, explained.contributions, strict=True))
