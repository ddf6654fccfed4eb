"""Test errors of support vector machines along C, and with C chosen by cross-validation.

A *family* of kernels has one member for every value of its other parameters (a length, a number of states). At every C
the member is chosen by cross-validation within the training objects; for the error reported next to the curve, C is
chosen as well. A family of one member corresponds to a curve of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn import config_context
from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.svm import SVC

from mercer.papers._protocol import Floats, Ints, Labels, chosen_error, share_wrong
from mercer.papers._results import Curve

Outcome = tuple[Floats, Floats]
"""Test errors and cross-validated errors of a family in one split, both ``(members, costs)``."""


@dataclass(frozen=True)
class Split:
    """Training and test objects, and the folds within the training objects."""

    train: Ints
    test: Ints
    folds: tuple[tuple[Ints, Ints], ...]


def drawn_splits(labels: Labels, n: int, draws: int, seed: int = 0) -> list[Split]:
    """Draw n training objects, stratified by class, ``draws`` times; all others are test objects.

    With fewer draws, the first ones are the same.

    Parameters
    ----------
    labels : array of shape (N,)
        The classes.
    n, draws : int
        Number of training objects, and of draws.
    seed : int, default=0
        Seed of the draws.
    """
    drawn = StratifiedShuffleSplit(draws, train_size=n, random_state=seed).split(labels, labels)
    return [_with_folds(labels, train, test, None) for train, test in drawn]


def halves(labels: Labels, groups: Labels, seed: int = 0) -> Split:
    """Split the groups into halves for training and test; inner folds also keep groups together.

    Parameters
    ----------
    labels, groups : array of shape (N,)
        The classes, and the groups that must not be split.
    seed : int, default=0
        Seed of the split.
    """
    train, test = next(GroupShuffleSplit(1, test_size=0.5, random_state=seed).split(labels, labels, groups))
    return _with_folds(labels, train, test, groups)


def _with_folds(labels: Labels, train: Ints, test: Ints, groups: Labels | None) -> Split:
    maker = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = maker(5, shuffle=True, random_state=0).split(
        train, labels[train], groups=None if groups is None else groups[train]
    )
    return Split(train, test, tuple((train[fit], train[held]) for fit, held in folds))


def errors_along(matrix: Floats, labels: Labels, train: Ints, test: Ints, log_costs: Sequence[float]) -> Floats:
    """Return the test error at every C, ``(costs,)``; the matrix has all objects on both sides."""
    inside, across = matrix[np.ix_(train, train)], matrix[np.ix_(test, train)]
    machines = (SVC(C=cost, kernel="precomputed").fit(inside, labels[train]) for cost in np.exp(log_costs))
    return np.array([share_wrong(machine.predict(across), labels[test]) for machine in machines])


def outcome(family: Sequence[Floats], labels: Labels, split: Split, log_costs: Sequence[float]) -> Outcome:
    """Run every kernel of a family at every C in one split.

    Parameters
    ----------
    family : sequence of arrays of shape (N, N)
        The kernels.
    labels : array of shape (N,)
        The classes.
    split : Split
        Training objects, test objects and inner folds.
    log_costs : sequence of float
        Natural logarithms of C.
    """
    # Skip validation of our own matrices, which would take half of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        test = [errors_along(matrix, labels, split.train, split.test, log_costs) for matrix in family]
        inside = [
            np.mean([errors_along(matrix, labels, *fold, log_costs) for fold in split.folds], axis=0)
            for matrix in family
        ]
    return np.array(test), np.array(inside)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge several families of one split into one."""
    tests, insides = zip(*outcomes, strict=True)
    return np.concatenate(tests), np.concatenate(insides)


def curve(panel: str, method: str, axis: Sequence[float], outcomes: Sequence[Outcome], paper: str = "") -> Curve:
    """Average the outcomes of all splits to a curve of the figure.

    Parameters
    ----------
    panel, method : str
        Panel of the curve, and its name.
    axis : sequence of float
        Values on the x-axis, one per C.
    outcomes : sequence of pairs
        One outcome per split.
    paper : str, default=""
        What the paper reports about the curve.
    """
    along = np.array([list(_each_cost(*one)) for one in outcomes])
    chosen = [chosen_error(test.ravel(), inside.ravel()) for test, inside in outcomes]
    spread = along.std(axis=0, ddof=1) if len(along) > 1 else np.zeros(len(axis))
    x, error, sd = (tuple(map(float, values)) for values in (axis, along.mean(axis=0), spread))
    return Curve(panel, method, x, error, sd, float(np.mean(chosen)), paper)


def _each_cost(test: Floats, inside: Floats) -> Iterator[float]:
    """Yield, for every C, the test error of the member that cross-validation prefers."""
    for column in range(test.shape[1]):
        yield chosen_error(test[:, column], inside[:, column])
