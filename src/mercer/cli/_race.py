"""Compare kernels with plain baselines by nested cross-validation."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer._notices import collected
from mercer.kernels import Kernel

INNER_FOLDS = 3


@dataclass(frozen=True)
class Contender:
    """A classifier and the parameter grid searched within the training folds."""

    name: str
    estimator: Any
    grid: dict[str, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel | None:
        """The mercer kernel in the pipeline; None for a baseline."""
        steps = self.estimator.steps if isinstance(self.estimator, Pipeline) else []
        return next((step for _, step in steps if isinstance(step, Kernel)), None)


@dataclass(frozen=True)
class Task:
    """Labeled data and the methods to compare on them; samples of one group stay in one fold."""

    about: str
    X: Any
    y: Any
    contenders: list[Contender]
    groups: Any = None
    reading: str = ""
    """Line of code that reads the data from a file, if any."""


@dataclass(frozen=True)
class Outcome:
    """Accuracy of one method on one task."""

    task: str
    method: str
    is_kernel: bool
    accuracy: float
    sd: float
    seconds: float


def race(name: str, task: Task, contender: Contender, folds: int, seed: int) -> Outcome:
    """Cross-validate a contender; its parameters are chosen within the training folds.

    Parameters
    ----------
    name : str
        Name of the task.
    task : Task
        Data, labels and groups.
    contender : Contender
        Classifier and parameter grid.
    folds : int
        Number of outer folds.
    seed : int
        Seed for shuffling the folds.
    """
    y = np.asarray(task.y)
    start = time.perf_counter()
    scores = []
    # Small problems are slower with several BLAS threads, much slower on a busy machine.
    with collected(), mc.config(progress=False), threadpool_limits(1):  # models that do not converge race on
        for train, test in _splits(y, task.groups, np.arange(len(y)), folds, seed):
            inner = _splits(y, task.groups, train, INNER_FOLDS, seed)
            search = GridSearchCV(contender.estimator, contender.grid, cv=inner, error_score="raise")
            search.fit(_safe_indexing(task.X, train), y[train])
            scores.append(search.score(_safe_indexing(task.X, test), y[test]))
    seconds = time.perf_counter() - start
    is_kernel = contender.kernel is not None
    return Outcome(name, contender.name, is_kernel, float(np.mean(scores)), float(np.std(scores)), seconds)


def _splits(y: Any, groups: Any, index: Any, folds: int, seed: int) -> list[tuple[Any, Any]]:
    """Split the samples at ``index`` into stratified folds that keep groups together."""
    if groups is None:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return list(splitter.split(index, y[index]))
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(index, y[index], np.asarray(groups)[index]))


def winners(outcomes: list[Outcome]) -> set[tuple[str, str]]:
    """Return the (task, method) pairs of the highest accuracy on every task, including ties."""
    top: dict[str, float] = {}
    for o in outcomes:
        top[o.task] = max(top.get(o.task, 0.0), o.accuracy)
    return {(o.task, o.method) for o in outcomes if o.accuracy >= top[o.task] - 1e-12}


def snippet(contender: Contender, reading: str = "") -> str:
    """Return code that fits the contender's kernel to the user's data, which ``reading`` loads."""
    steps, imports = [], []
    for _, step in contender.estimator.steps[:-1]:
        text = re.sub(r"\s+", " ", repr(step))
        for part in (step, *(v for v in step.get_params().values() if isinstance(v, BaseEstimator))):
            name, module = type(part).__name__, type(part).__module__
            if module.startswith("mercer"):
                text = re.sub(rf"(?<![\w.]){name}\(", f"mc.{name}(", text)
            elif (line := f"; from {module.split('._')[0]} import {name}") not in imports:
                imports.append(line)
        steps.append(text)
    return (
        "import mercer as mc; from sklearn.pipeline import make_pipeline; from sklearn.svm import SVC"
        f"{''.join(imports)}\n{reading}"
        f"classifier = make_pipeline({', '.join(steps)}, SVC(kernel='precomputed', C=10))\n"
        "classifier.fit(X, y)"
    )
