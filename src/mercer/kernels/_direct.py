"""The decisions of a kernel and a support vector machine, without the checks between steps of a pipeline.

For one new sample, scikit-learn spends more time on them than most kernels on a row: it looks up tags and settings of
every step, and checks the row as if a user had written it. Here the kernel checks the input as ever, and its values go
straight into the sums of the SVM.
"""

from __future__ import annotations

from itertools import combinations
from operator import is_
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer._array import Floats
from mercer._config import settings
from mercer._notices import warns_once
from mercer.kernels import _estimators as estimators
from mercer.kernels._copies import sklearn_name
from mercer.kernels._data import libraries
from mercer.kernels._sums import weighted_sums
from mercer.kernels.base.kernel import Kernel

DIRECT = ("predict", "decision_function")
"""The methods that do not need the pipeline."""


class Direct:
    """The decisions of a fitted pipeline whose last steps are a kernel and a support vector machine.

    Parameters
    ----------
    pipeline : Pipeline
        The fitted pipeline; `Direct.of` returns None where it has other steps.
    """

    def __init__(self, pipeline: Any) -> None:
        *self._before, self._kernel, svm = [step for _, step in pipeline.steps]
        self._pipeline, self._steps = pipeline, [step for _, step in pipeline.steps]
        self._states = [(state, tuple(state.values())) for state in _states(self._steps)]
        self._kernel._check_parameters()
        self._kernel._check_unchanged()
        weights = estimators.decisions(svm).toarray()
        self._sums = weighted_sums(self._kernel, weights)
        self._bias = np.array(svm.intercept_, dtype=np.float64)
        self._classes = getattr(svm, "classes_", None)
        self._one_class = sklearn_name(svm) == "OneClassSVM"
        self._pairs = np.array([(0, 1)] if self._classes is None else list(combinations(range(len(self._classes)), 2)))
        decides = self._one_class or (self._classes is not None and len(weights) == 1)
        self.methods = DIRECT if decides else DIRECT[:1]

    @staticmethod
    def of(pipeline: Any) -> Direct | None:
        """Return the decisions of a fitted pipeline; None if it has to be asked step by step."""
        if sklearn_name(pipeline) != "Pipeline" or len(pipeline.steps) < 2 or settings().device is not None:
            return None
        *before, kernel, svm = [step for _, step in pipeline.steps]
        if any(not hasattr(step, "transform") for step in before) or not isinstance(kernel, Kernel):
            return None
        if sklearn_name(svm) not in estimators.SUPPORT or svm.kernel != "precomputed":
            return None
        if getattr(svm, "break_ties", False) or libraries(kernel.train_) != {"numpy"}:
            return None
        return Direct(pipeline)

    def holds(self) -> bool:
        """Return whether no attribute of a step has changed since this was made."""
        steps = self._pipeline.steps
        return (
            len(steps) == len(self._steps)
            and all(step is known for (_, step), known in zip(steps, self._steps, strict=True))
            and all(len(now) == len(then) and all(map(is_, now.values(), then)) for now, then in self._states)
            and settings().device is None
        )

    @warns_once
    def _decisions(self, X: Any) -> Floats:
        """Return all decisions, ``(M, R)``."""
        for step in self._before:
            X = step.transform(X)
        return np.asarray(self._sums(self._kernel._new(X)) + self._bias)

    def decision_function(self, X: Any) -> Floats:
        """Return the decision function of two classes or of one, ``(M,)``."""
        return self._decisions(X)[:, 0]

    def predict(self, X: Any) -> Floats:
        """Return the predictions, ``(M,)``."""
        found = self._decisions(X)
        if self._classes is None:
            return np.where(found[:, 0] > 0, 1, -1) if self._one_class else found[:, 0]
        if found.shape[1] == 1:
            winner = (found[:, 0] >= 0).astype(np.intp)
        else:  # every decision is a vote for one of two classes; of classes with as many votes, the first wins
            first, second = self._pairs.T
            votes = np.where(found > 0, first, second)
            winner = (votes[:, :, None] == np.arange(len(self._classes))).sum(axis=1).argmax(axis=1)
        return np.asarray(self._classes[winner])


def _states(steps: Any) -> list[dict[str, Any]]:
    """Return the attributes of estimators and of those that are among their attributes."""
    found = []
    for step in steps:
        if isinstance(step, BaseEstimator):
            found += [vars(step), *_states(vars(step).values())]
        elif isinstance(step, list | tuple):
            found += _states(step)
    return found
