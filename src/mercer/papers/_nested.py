"""Cross-validation inside cross-validation, for kernels whose Gram matrices are computed once for all data.

Two answers for every method, as in ``_protocol``. *Best*: the setting with the smallest error averaged over the test
folds, which has looked at them. *Chosen*: in every fold, the setting that a second cross-validation inside its training
part prefers.
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
"""``grams(train)``: kernels of all objects with all, by setting in words; they learn from ``train`` alone."""
Predict = Callable[[Ints, Ints], Labels]
"""``predict(train, test)``: classes of the test objects."""


@dataclass(frozen=True)
class Fold:
    """A training part with its own folds inside, and the test objects."""

    train: Ints
    test: Ints
    inside: tuple[tuple[Ints, Ints], ...]


@dataclass(frozen=True)
class Machine:
    """A support vector machine on kernels with parameters.

    Parameters
    ----------
    name : str
        Of the method.
    grams : callable
        Kernels of all objects with all, by setting.
    costs : tuple of float
        Values of C in units of 1 / the mean self-kernel of the training objects.
    """

    name: str
    grams: Grams
    costs: tuple[float, ...] = (1.0, 30.0, 1000.0)


@dataclass(frozen=True)
class Rule:
    """A classifier without parameters to choose."""

    name: str
    predict: Predict
    setting: str = ""


def make_folds(labels: Labels, groups: Labels | None = None, n: int = 10, inner: int = 3, seed: int = 0) -> list[Fold]:
    """Cut stratified folds, and folds inside every training part; objects of one group stay together.

    Parameters
    ----------
    labels : array of shape (N,)
        Classes.
    groups : array of shape (N,) or None, default=None
        What must not be torn apart, such as the gene of a piece of DNA.
    n, inner : int
        Numbers of folds, outside and inside.
    seed : int, default=0
        Of the shuffling.
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
        What learns.
    task : str
        Name of the task.
    labels : array of shape (N,)
        Classes of all objects.
    folds : sequence of Fold
        Which objects learn and which are classified.
    paper : float or None, default=None
        The paper's error.
    """
    sizes = [len(fold.test) for fold in folds]  # every object is classified once: its fold counts by its size
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
    """Return the settings of a fold with their errors on its test objects and inside its training part."""
    grams = method.grams(fold.train)
    names = list(grams)
    test, inside = (np.empty((len(names), len(method.costs))) for _ in range(2))

    def work(i: int) -> None:
        gram = grams[names[i]]
        # The matrices are our own, hence finite. The setting belongs to a thread.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            test[i] = machine_errors(gram, labels, fold.train, fold.test, method.costs)
            inside[i] = np.mean([machine_errors(gram, labels, *part, method.costs) for part in fold.inside], axis=0)

    thread_map(work, list(range(len(names))), threads=n_threads(), label=method.name)
    return machine_settings(names, method.costs), test.ravel(), inside.ravel()


def machine_errors(gram: Floats, labels: Labels, train: Ints, test: Ints, costs: Sequence[float]) -> Floats:
    """Return the test error of a support vector machine for every cost, ``(len(costs),)``."""
    rows: Any = np.asarray(gram[np.ix_(np.concatenate([train, test]), train)], dtype=np.float64)
    return np.array([share_wrong(found, labels[test]) for found in machine_predictions(rows, labels[train], costs)])
