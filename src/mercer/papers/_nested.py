"""Nested cross-validation for kernels whose Gram matrices are computed once for all data.

Every method has two errors, as in ``_protocol``. *Best*: the error of the setting with the smallest average over the
test folds, which is optimistic. *Chosen*: the error with the setting that an inner cross-validation within the training
part of every fold prefers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from mercer._parallel import n_threads, thread_map
from mercer.papers._protocol import (
    Floats,
    Ints,
    Labels,
    chosen_error,
    machine_predictions,
    machine_settings,
    share_wrong,
    summary,
)
from mercer.papers._results import Cell

Grams = Callable[[Ints], Mapping[str, Floats]]
"""``grams(train)``: Gram matrices of all objects by name of the setting; they learn from ``train`` only."""
Predict = Callable[[Ints, Ints], Labels]
"""``predict(train, test)``: classes of the test objects."""


@dataclass(frozen=True)
class Fold:
    """Training objects with inner folds, and test objects."""

    train: Ints
    test: Ints
    inside: tuple[tuple[Ints, Ints], ...]


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


def make_folds(labels: Labels, groups: Labels | None = None, n: int = 10, inner: int = 3, seed: int = 0) -> list[Fold]:
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

    def split(rows: Ints, k: int) -> list[tuple[Ints, Ints]]:
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        parts = kind(k, shuffle=True, random_state=seed).split(
            rows, labels[rows], None if groups is None else groups[rows]
        )
        return [(rows[train], rows[test]) for train, test in parts]

    outer = split(np.arange(len(labels)), n)
    return [Fold(train, test, tuple(split(train, inner))) for train, test in outer]


def evaluate_nested(
    method: Machine | Rule, task: str, labels: Labels, folds: Sequence[Fold], paper: float | None = None
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
    folds : sequence of Fold
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
        settings, here, inside = _fold_errors(method, labels, fold)
        test.append(here)
        chosen.append(chosen_error(here, inside))
    return summary(task, method.name, settings, np.array(test), np.array(chosen), paper, sizes)


def _fold_errors(method: Machine, labels: Labels, fold: Fold) -> tuple[list[str], Floats, Floats]:
    """Return the settings with their test errors and inner cross-validation errors in one fold."""
    grams = method.grams(fold.train)
    names = list(grams)
    test, inside = (np.empty((len(names), len(method.costs))) for _ in range(2))

    def work(i: int) -> None:
        gram = grams[names[i]]
        # Skip validation of our own matrices; the configuration is local to the thread.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            test[i] = machine_errors(gram, labels, fold.train, fold.test, method.costs)
            inside[i] = np.mean([machine_errors(gram, labels, *part, method.costs) for part in fold.inside], axis=0)

    thread_map(work, list(range(len(names))), threads=n_threads(), label=method.name)
    return machine_settings(names, method.costs), test.ravel(), inside.ravel()


def machine_errors(gram: Floats, labels: Labels, train: Ints, test: Ints, costs: Sequence[float]) -> Floats:
    """Return the test error of a support vector machine for every cost, ``(len(costs),)``."""
    rows: Any = np.asarray(gram[np.ix_(np.concatenate([train, test]), train)], dtype=np.float64)
    return np.array([share_wrong(found, labels[test]) for found in machine_predictions(rows, labels[train], costs)])
