"""Test errors of support vector machines along C, and with C chosen by cross-validation.

A *family* of kernels has one member for every value of its other parameters (a length, a number of states). At every C
the member is chosen by cross-validation within the training objects; for the error reported next to the curve, C is
chosen as well. A family of one member corresponds to a curve of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from mercer.papers._protocol import (
    Floats,
    Ints,
    Labels,
    Split,
    chosen_error,
    grid_errors,
    machine_errors,
    stratified,
)
from mercer.papers._results import Curve

Outcome = tuple[Floats, Floats]
"""Test errors and cross-validated errors of a family in one split, both ``(members, costs)``."""


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
    return [Split(train, test, stratified(labels, train, 5)) for train, test in drawn]


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
    return Split(train, test, stratified(labels, train, 5, groups))


def errors_along(matrix: Floats, labels: Labels, train: Ints, test: Ints, log_costs: Sequence[float]) -> Floats:
    """Return the test error at every C, ``(costs,)``; the matrix has all objects on both sides."""
    return machine_errors(matrix, labels, train, test, np.exp(log_costs).tolist(), scaled=False)


def outcome(family: Sequence[Floats], labels: Labels, split: Split, log_costs: Sequence[float]) -> Outcome:
    """Run every kernel of a family, ``(N, N)``, at every C in one split; C by its natural logarithms."""
    return grid_errors(family, labels, split, np.exp(log_costs).tolist(), scaled=False)


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
    # At every C, the member that cross-validation prefers.
    along = np.array([[chosen_error(t, v) for t, v in zip(test.T, inside.T, strict=True)] for test, inside in outcomes])
    chosen = [chosen_error(test.ravel(), inside.ravel()) for test, inside in outcomes]
    spread = along.std(axis=0, ddof=1) if len(along) > 1 else np.zeros(len(axis))
    x, error, sd = (tuple(map(float, values)) for values in (axis, along.mean(axis=0), spread))
    return Curve(panel, method, x, error, sd, float(np.mean(chosen)), paper)
