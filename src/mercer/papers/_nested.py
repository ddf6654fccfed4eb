"""Nested cross-validation for kernels whose Gram matrices are computed once for all data.

Every method has two errors, as in ``_protocol``. *Best*: the error of the setting with the smallest average over the
test folds, which is optimistic. *Chosen*: the error with the setting that an inner cross-validation within the training
part of every fold prefers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mercer.papers._protocol import (
    Floats,
    Ints,
    Labels,
    Split,
    chosen_error,
    grid_errors,
    machine_settings,
    share_wrong,
    stratified,
    summary,
)
from mercer.papers._results import Cell

Grams = Callable[[Ints], Mapping[str, Floats]]
"""``grams(train)``: Gram matrices of all objects by name of the setting; they learn from ``train`` only."""
Predict = Callable[[Ints, Ints], Labels]
"""``predict(train, test)``: classes of the test objects."""


@dataclass(frozen=True)
class Machine:
    """A support vector machine on kernels with parameters.

    Parameters
    ----------
    name : str
        Name of the method.
    grams : callable
        Gram matrices of all objects, by setting.
    costs : tuple of float
        Values of C in units of 1 / the mean self-kernel of the training objects.
    """

    name: str
    grams: Grams
    costs: tuple[float, ...] = (1.0, 30.0, 1000.0)


@dataclass(frozen=True)
class Rule:
    """A classifier without parameters."""

    name: str
    predict: Predict
    setting: str = ""


def make_folds(labels: Labels, groups: Labels | None = None, n: int = 10, inner: int = 3, seed: int = 0) -> list[Split]:
    """Return stratified folds, with inner folds within every training part; groups are not split.

    Parameters
    ----------
    labels : array of shape (N,)
        Classes.
    groups : array of shape (N,) or None, default=None
        Groups that must not be split, such as genes.
    n, inner : int
        Numbers of outer and inner folds.
    seed : int, default=0
        Seed for shuffling.
    """
    outer = stratified(labels, np.arange(len(labels)), n, groups, seed)
    return [Split(train, test, stratified(labels, train, inner, groups, seed)) for train, test in outer]


def evaluate_nested(
    method: Machine | Rule, task: str, labels: Labels, folds: Sequence[Split], paper: float | None = None
) -> Cell:
    """Run one method on all folds of one task.

    Parameters
    ----------
    method : Machine or Rule
        Method to evaluate.
    task : str
        Name of the task.
    labels : array of shape (N,)
        Classes of all objects.
    folds : sequence of Split
        Training and test objects.
    paper : float or None, default=None
        The paper's error.
    """
    sizes = [len(fold.test) for fold in folds]  # weight folds by size, as every object is classified once
    if isinstance(method, Rule):
        wrong = np.array([share_wrong(method.predict(f.train, f.test), labels[f.test]) for f in folds])
        return summary(task, method.name, [method.setting], wrong[:, None], wrong, paper, sizes)
    settings: list[str] = []
    test, chosen = [], []
    for fold in folds:
        grams = method.grams(fold.train)
        settings = machine_settings(grams, method.costs)
        errors, inside = grid_errors(list(grams.values()), labels, fold, method.costs, label=method.name)
        test.append(errors.ravel())
        chosen.append(chosen_error(errors, inside))
    return summary(task, method.name, settings, np.array(test), np.array(chosen), paper, sizes)
