"""The race of kernels and plain baselines: who races, how accuracy is measured, what is told afterwards."""

from __future__ import annotations

import re
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer.kernels import Kernel

INNER_FOLDS = 3


@dataclass(frozen=True)
class Contender:
    """A classifier and the grid from which its parameters are chosen inside the training data."""

    name: str
    estimator: Any
    grid: dict[str, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel | None:
        """The mercer kernel in it, None for a baseline."""
        steps = self.estimator.steps if isinstance(self.estimator, Pipeline) else []
        return next((step for _, step in steps if isinstance(step, Kernel)), None)


@dataclass(frozen=True)
class Task:
    """Labelled data, and who races on them; data of one group stay in one fold."""

    about: str
    X: Any
    y: Any
    contenders: list[Contender]
    groups: Any = None
    reading: str = ""
    """The line of code that reads the data, where they come from a file."""


@dataclass(frozen=True)
class Outcome:
    """What a contender reached on a task."""

    task: str
    method: str
    is_kernel: bool
    accuracy: float
    sd: float
    seconds: float


def race(name: str, task: Task, contender: Contender, folds: int, seed: int) -> Outcome:
    """Cross-validate a contender; all of its parameters are chosen inside the training folds.

    Parameters
    ----------
    name : str
        Of the task.
    task : Task
        The data.
    contender : Contender
        Who races.
    folds : int
        Outer folds.
    seed : int
        Of the shuffled folds.
    """
    y = np.asarray(task.y)
    start = time.perf_counter()
    scores = []
    # Problems this small are slower on several BLAS threads, much slower on a busy machine.
    with warnings.catch_warnings(), mc.config(progress=False), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for train, test in _splits(y, task.groups, np.arange(len(y)), folds, seed):
            inner = _splits(y, task.groups, train, INNER_FOLDS, seed)
            search = GridSearchCV(contender.estimator, contender.grid, cv=inner, error_score="raise")
            search.fit(_safe_indexing(task.X, train), y[train])
            scores.append(search.score(_safe_indexing(task.X, test), y[test]))
    seconds = time.perf_counter() - start
    is_kernel = contender.kernel is not None
    return Outcome(name, contender.name, is_kernel, float(np.mean(scores)), float(np.std(scores)), seconds)


def _splits(y: Any, groups: Any, index: Any, folds: int, seed: int) -> list[tuple[Any, Any]]:
    """Cut a part of the data into stratified folds, by groups where there are some."""
    if groups is None:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return list(splitter.split(index, y[index]))
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(index, y[index], np.asarray(groups)[index]))


def winners(outcomes: list[Outcome]) -> set[tuple[str, str]]:
    """Return (task, method) of the highest accuracy of every task, all of them where several are equal."""
    top: dict[str, float] = {}
    for o in outcomes:
        top[o.task] = max(top.get(o.task, 0.0), o.accuracy)
    return {(o.task, o.method) for o in outcomes if o.accuracy >= top[o.task] - 1e-12}


def snippet(contender: Contender, reading: str = "") -> str:
    """Return lines that use a contender's kernel on the reader's own data, which ``reading`` reads."""
    steps, needs = [], []
    for _, step in contender.estimator.steps[:-1]:
        text = re.sub(r"\s+", " ", repr(step))
        for part in (step, *(v for v in step.get_params().values() if isinstance(v, BaseEstimator))):
            name, module = type(part).__name__, type(part).__module__
            if module.startswith("mercer"):
                text = re.sub(rf"(?<![\w.]){name}\(", f"mc.{name}(", text)
            elif (line := f"; from {module.split('._')[0]} import {name}") not in needs:
                needs.append(line)
        steps.append(text)
    return (
        "import mercer as mc; from sklearn.pipeline import make_pipeline; from sklearn.svm import SVC"
        f"{''.join(needs)}\n{reading}"
        f"classifier = make_pipeline({', '.join(steps)}, SVC(kernel='precomputed', C=10))\n"
        "classifier.fit(X, y)"
    )
