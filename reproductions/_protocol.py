"""Test errors of methods on splits of the data.

Every method has two errors. *Best*: the error of the setting with the smallest test error averaged over the splits, as
papers report for "the best parameters"; this is optimistic. *Chosen*: the error of the setting that cross-validation
within the training objects of each split prefers, as a user would obtain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from _results import Cell, Curve
from sklearn import config_context
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.svm import SVC

Array = np.ndarray[Any, Any]
Kernel = Array | Callable[[Array, Array], Array]
"""Values of all objects with (at least) all training objects, or ``kernel(train, wanted)``: the wanted rows."""


class Split(NamedTuple):
    """Training and test objects, and pairs of training and held-out objects within the training objects."""

    train: Array
    test: Array
    folds: Sequence[tuple[Array, Array]] = ()


def stratified(labels: Array, rows: Array, n: int, groups: Array | None = None, seed: int = 0) -> list[Any]:
    """Split the objects ``rows`` into n stratified folds that keep groups together: pairs of training and held-out."""
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    parts = kind(n, shuffle=True, random_state=seed).split(rows, labels[rows], None if groups is None else groups[rows])
    return [(rows[train], rows[held]) for train, held in parts]


def share_wrong(predicted: Array, truth: Array) -> float:
    """Return the fraction of misclassified objects."""
    return float(np.mean(predicted != truth))


def balanced_wrong(predicted: Array, truth: Array) -> float:
    """Return the fraction of misclassified objects, averaged over the classes."""
    return float(np.mean([np.mean(predicted[truth == name] != name) for name in np.unique(truth)]))


class Outcome(NamedTuple):
    """Test errors and cross-validated errors of all settings of a method in one split."""

    settings: list[str]
    test: Array
    inside: Array

    @property
    def chosen(self) -> float:
        """The test error of the setting with the smallest cross-validated error, averaged over ties."""
        return float(np.mean(self.test[self.inside <= self.inside.min() + 1e-12]))


def svm_errors(
    kernel: Kernel, labels: Array, train: Array, test: Array, costs: Sequence[float], rate=share_wrong, scaled=False
) -> Array:
    """Return the test error of a support vector machine for every C; ``scaled``: see `KernelSVM`."""
    wanted, n = np.concatenate([train, test]), len(train)
    matrix = kernel(train, wanted) if callable(kernel) else kernel[np.ix_(wanted, train)]
    matrix = np.asarray(matrix, dtype=np.float64)
    unit = float(np.mean(np.diag(matrix))) if scaled else 1.0
    # Skip validation of our own matrices, which would take half of the time; the setting is local to the thread.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        svms = (SVC(C=cost / unit, kernel="precomputed").fit(matrix[:n], labels[train]) for cost in costs)
        return np.array([rate(svm.predict(matrix[n:]), labels[test]) for svm in svms])


@dataclass(frozen=True)
class KernelSVM:
    """A support vector machine on kernels by name of their parameters.

    ``kernels`` may be a function that learns them from the training objects. If ``scaled``, ``costs`` are values of C
    in units of 1 / the mean self-kernel of the training objects, so that one grid fits every scale.
    """

    name: str
    kernels: dict[str, Kernel] | Callable[[Array], dict[str, Kernel]]
    costs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    scaled: bool = True

    def outcome(self, labels: Array, split: Split, rate=share_wrong) -> Outcome:
        """Return the errors of every kernel at every C; ``rate`` is that of the test objects."""
        kernels = self.kernels(split.train) if callable(self.kernels) else self.kernels

        def work(kernel: Kernel) -> tuple[Array, Array]:
            test = svm_errors(kernel, labels, split.train, split.test, self.costs, rate, self.scaled)
            inside = [svm_errors(kernel, labels, *fold, self.costs, scaled=self.scaled) for fold in split.folds]
            return test, np.mean(inside, axis=0) if inside else np.zeros(len(test))

        with ThreadPoolExecutor() as pool:
            test, inside = zip(*pool.map(work, kernels.values()), strict=True)
        settings = [f"{name}, C={cost:g}".removeprefix(", ") for name in kernels for cost in self.costs]
        return Outcome(settings, np.concatenate(test), np.concatenate(inside))


@dataclass(frozen=True)
class Rule:
    """A classifier: ``predict(train, test)`` returns the classes of the test objects by name of the setting."""

    name: str
    predict: Callable[[Array, Array], dict[str, Array]]

    def outcome(self, labels: Array, split: Split, rate=share_wrong) -> Outcome:
        """Return the errors of every setting; ``rate`` is that of the test objects."""
        predicted = self.predict(split.train, split.test)
        inside = [np.zeros(len(predicted))]
        for train, held in split.folds if len(predicted) > 1 else ():
            inside.append([share_wrong(found, labels[held]) for found in self.predict(train, held).values()])
        test = np.array([rate(found, labels[split.test]) for found in predicted.values()])
        return Outcome(list(predicted), test, np.mean(inside[1:] or inside, axis=0))


def evaluate(
    method: KernelSVM | Rule,
    task: str,
    labels: Array,
    splits: Sequence[Split],
    paper: float | None = None,
    rate=share_wrong,
    by_size: bool = False,
) -> Cell:
    """Average the errors of a method over the splits of a task, ``by_size``: weighted by the number of test objects."""
    outcomes = [method.outcome(labels, split, rate) for split in splits]
    weights = [len(split.test) for split in splits] if by_size else None
    chosen = np.array([one.chosen for one in outcomes])
    average = np.average([one.test for one in outcomes], axis=0, weights=weights)
    at = int(np.argmin(average))
    error, sd = float(np.average(chosen, weights=weights)), float(spread(chosen))
    return Cell(task, method.name, error, sd, float(average[at]), outcomes[0].settings[at], paper)


def spread(errors: Array) -> Array:
    """Return the standard deviation over the runs, the first axis; 0 for a single run."""
    return errors.std(axis=0, ddof=1) if len(errors) > 1 else np.zeros(errors.shape[1:])


def curve(panel: str, method: str, x: Sequence[float], runs: Array, paper: str = "", chosen=None) -> Curve:
    """Average the errors of all runs, ``(runs, points)``, to a curve of a figure."""
    axis, error, sd = (tuple(map(float, values)) for values in (x, np.mean(runs, axis=0), spread(np.asarray(runs))))
    return Curve(panel, method, axis, error, sd, chosen, paper)
