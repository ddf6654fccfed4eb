"""Support vector machines along C: what a figure with "log(C)" under it shows, and what a user would get.

A *family* of kernels has one member for every value of its other parameters (a length, a number of states). At every C
the member is chosen by cross-validation inside the training objects, and so are both together for the number beside the
line. A family of one member is a plain line of the paper.
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
    """Training and test objects, and the folds inside the training objects."""

    train: Ints
    test: Ints
    folds: tuple[tuple[Ints, Ints], ...]


def drawn_splits(labels: Labels, n: int, draws: int, seed: int = 0) -> list[Split]:
    """Draw n training objects, the classes in proportion, ``draws`` times; all others are test objects.

    Fewer draws are the first of more.

    Parameters
    ----------
    labels : array of shape (N,)
        The classes.
    n, draws : int
        Training objects, and number of draws.
    seed : int, default=0
        Of the draws.
    """
    drawn = StratifiedShuffleSplit(draws, train_size=n, random_state=seed).split(labels, labels)
    return [_with_folds(labels, train, test, None) for train, test in drawn]


def halves(labels: Labels, groups: Labels, seed: int = 0) -> Split:
    """Send half of the groups to each side; the folds inside keep groups together too.

    Parameters
    ----------
    labels, groups : array of shape (N,)
        The classes, and what must not be on both sides.
    seed : int, default=0
        Of the split.
    """
    train, test = next(GroupShuffleSplit(1, test_size=0.5, random_state=seed).split(labels, labels, groups))
    return _with_folds(labels, train, test, groups)


def _with_folds(labels: Labels, train: Ints, test: Ints, groups: Labels | None) -> Split:
    maker = StratifiedKFold if groups is None else StratifiedGroupKFold
    inside = maker(5, shuffle=True, random_state=0).split(
        train, labels[train], groups=None if groups is None else groups[train]
    )
    return Split(train, test, tuple((train[fit], train[held]) for fit, held in inside))


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
        Who trains, and who is tested.
    log_costs : sequence of float
        Natural logarithms of C.
    """
    # The matrices are our own, hence finite: checking them again would be half of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        test = [errors_along(matrix, labels, split.train, split.test, log_costs) for matrix in family]
        inside = [
            np.mean([errors_along(matrix, labels, *fold, log_costs) for fold in split.folds], axis=0)
            for matrix in family
        ]
    return np.array(test), np.array(inside)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Make one family of several, in one split."""
    tests, insides = zip(*outcomes, strict=True)
    return np.concatenate(tests), np.concatenate(insides)


def curve(panel: str, method: str, axis: Sequence[float], outcomes: Sequence[Outcome], paper: str = "") -> Curve:
    """Average the outcomes of all splits: a line of the figure.

    Parameters
    ----------
    panel, method : str
        Where the line is drawn, and its name.
    axis : sequence of float
        What is under it, one value for every C.
    outcomes : sequence of pairs
        One of every split.
    paper : str, default=""
        What the paper says about the line.
    """
    along = np.array([list(_each_cost(*one)) for one in outcomes])
    chosen = [chosen_error(test.ravel(), inside.ravel()) for test, inside in outcomes]
    spread = along.std(axis=0, ddof=1) if len(along) > 1 else np.zeros(len(axis))
    x, error, sd = (tuple(map(float, values)) for values in (axis, along.mean(axis=0), spread))
    return Curve(panel, method, x, error, sd, float(np.mean(chosen)), paper)


def _each_cost(test: Floats, inside: Floats) -> Iterator[float]:
    """Yield the test error at every C of the member that cross-validation prefers there."""
    for column in range(test.shape[1]):
        yield chosen_error(test[:, column], inside[:, column])
