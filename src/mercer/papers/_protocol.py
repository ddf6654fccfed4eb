"""Test errors of methods on repeatedly drawn small training sets.

Every method has two errors. *Best*: the error of the parameters with the smallest test error averaged over the draws,
as papers report for "the best parameters"; this is optimistic. *Chosen*: the error with the parameters that
cross-validation within the training documents of each draw prefers, as a user would obtain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from sklearn import config_context
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import SVC

from mercer._parallel import n_threads, thread_map
from mercer.papers._results import Cell

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Labels = np.ndarray[Any, Any]

Rows = Callable[[Ints, Ints], Floats]
"""``rows(train, wanted)``: the kernel of the wanted and the training objects, ``(len(wanted), len(train))``."""
Rate = Callable[[Labels, Labels], float]
"""``rate(predicted, truth)`` is an error rate."""


def draw_training(
    labels: Labels, train: Labels, classes: Sequence[str], n: int, draws: int, seed: int = 0
) -> list[dict[str, Ints]]:
    """Draw ``n`` training objects of every class, ``draws`` times.

    Every draw and class has a separate generator, so that a draw depends neither on the number of draws nor on other
    classes, and is the same for all methods and tasks.

    Parameters
    ----------
    labels : array of shape (N,)
        The classes of all objects.
    train : boolean array of shape (N,)
        Which objects may be drawn.
    classes : sequence of str
        The classes to draw from.
    n, draws : int
        Objects per class, and number of draws.
    seed : int, default=0
        Seed of the generators.
    """
    names = np.unique(labels).tolist()
    found = []
    for number in range(draws):
        chosen = {}
        for name in classes:
            pool = np.flatnonzero(train & (labels == name))
            if len(pool) < n:
                raise ValueError(
                    f"Class {name!r} has {len(pool)} training objects, so {n} cannot be drawn; decrease n."
                )
            generator = np.random.default_rng([seed, number, names.index(name)])
            chosen[name] = np.sort(generator.choice(pool, n, replace=False))
        found.append(chosen)
    return found


@dataclass(frozen=True)
class Split:
    """Training and test objects, and the folds within the training objects."""

    train: Ints
    test: Ints
    folds: list[tuple[Ints, Ints]]


def stratified(labels: Labels, rows: Ints, n: int, groups: Labels | None = None, seed: int = 0) -> list[Any]:
    """Split the objects ``rows`` into n stratified folds that keep groups together: pairs of training and held-out."""
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    parts = kind(n, shuffle=True, random_state=seed).split(rows, labels[rows], None if groups is None else groups[rows])
    return [(rows[train], rows[held]) for train, held in parts]


def share_wrong(predicted: Labels, truth: Labels) -> float:
    """Return the fraction of misclassified objects."""
    return float(np.mean(predicted != truth))


def balanced_wrong(predicted: Labels, truth: Labels) -> float:
    """Return the fraction of misclassified objects, averaged over the classes."""
    return float(np.mean([np.mean(predicted[truth == name] != name) for name in np.unique(truth)]))


class Lookup:
    """A kernel computed once for all objects, from which every draw takes its rows and columns."""

    def __init__(self, matrix: Floats, rows: Ints, columns: Ints, size: int) -> None:
        self.matrix = matrix
        self._row, self._column = np.full(size, -1), np.full(size, -1)
        self._row[rows] = np.arange(len(rows))
        self._column[columns] = np.arange(len(columns))

    def __call__(self, train: Ints, wanted: Ints) -> Floats:
        """Return the kernel of the wanted and the training objects."""
        return self.matrix[np.ix_(self._row[wanted], self._column[train])]


class Method(Protocol):
    """Protocol of methods: their settings, and the predictions of each."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def settings(self) -> list[str]:
        """Names of all combinations of parameters."""

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the classes of the test objects under every setting."""


@dataclass(frozen=True)
class KernelSVM:
    """A support vector machine on a kernel with one parameter.

    Parameters
    ----------
    name : str
        Name of the method.
    kernels : dict
        ``Rows`` by name of the kernel parameter.
    costs : tuple of float
        Values of C in units of 1 / the mean self-kernel of the training objects, so that one grid fits every scale.
    """

    name: str
    kernels: dict[str, Rows]
    costs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)

    @property
    def settings(self) -> list[str]:
        """Names of all combinations of the kernel parameter and C."""
        return machine_settings(self.kernels, self.costs)

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the classes of the test objects under every setting."""
        found: list[Labels] = []
        for rows in self.kernels.values():
            matrix = rows(train, np.concatenate([train, test]))
            found += machine_predictions(matrix, labels[train], scaled_costs(matrix, self.costs))
        return found


def machine_settings(kernels: Iterable[str], costs: Sequence[float]) -> list[str]:
    """Return names of all combinations of a kernel and C."""
    return [f"{name}, C={cost:g}".removeprefix(", ") for name, cost in product(kernels, costs)]


def scaled_costs(matrix: Floats, costs: Sequence[float]) -> list[float]:
    """Return values of C, given in units of 1 / the mean self-kernel of the training objects."""
    scale = float(np.mean(np.diag(matrix)))
    return [cost / scale for cost in costs]


def machine_predictions(matrix: Floats, labels: Labels, costs: Sequence[float]) -> Iterator[Labels]:
    """Yield the predictions of a support vector machine for every C.

    Parameters
    ----------
    matrix : array of shape (n + m, n)
        The kernel of the n training and m test objects with the training objects.
    labels : array of shape (n,)
        Classes of the training objects.
    costs : sequence of float
        Values of C.
    """
    n = len(labels)
    # Skip validation of our own matrices, which would take half of the time; the setting is local to the thread.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for cost in costs:
            yield SVC(C=cost, kernel="precomputed").fit(matrix[:n], labels).predict(matrix[n:])


def machine_errors(
    gram: Floats, labels: Labels, train: Ints, test: Ints, costs: Sequence[float], scaled: bool = True
) -> Floats:
    """Return the test error of a support vector machine for every C, ``(costs,)``; the matrix has all objects."""
    matrix = np.asarray(gram[np.ix_(np.concatenate([train, test]), train)], dtype=np.float64)
    costs = scaled_costs(matrix, costs) if scaled else costs
    return np.array([share_wrong(found, labels[test]) for found in machine_predictions(matrix, labels[train], costs)])


def grid_errors(
    grams: Sequence[Floats], labels: Labels, split: Split, costs: Sequence[float], scaled: bool = True, label: str = ""
) -> tuple[Floats, Floats]:
    """Return test errors and cross-validated errors of every kernel at every C in one split, ``(kernels, costs)``.

    Parameters
    ----------
    grams : sequence of arrays of shape (N, N)
        The kernels of all objects.
    labels : array of shape (N,)
        The classes.
    split : Split
        Training objects, test objects and inner folds.
    costs : sequence of float
        Values of C; if ``scaled``, in units of 1 / the mean self-kernel of the training objects.
    scaled : bool, default=True
        Whether C has these units.
    label : str, default=""
        Label of the progress bar.
    """
    test, inside = (np.empty((len(grams), len(costs))) for _ in range(2))

    def work(i: int) -> None:
        test[i] = machine_errors(grams[i], labels, split.train, split.test, costs, scaled)
        parts = [machine_errors(grams[i], labels, *fold, costs, scaled) for fold in split.folds]
        inside[i] = np.mean(parts, axis=0)

    thread_map(work, list(range(len(grams))), threads=n_threads(), label=label)
    return test, inside


@dataclass(frozen=True)
class NaiveBayes:
    """Multinomial naive Bayes with additive smoothing."""

    counts: Any
    alphas: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    name: str = "Naive Bayes"

    @property
    def settings(self) -> list[str]:
        """The values of alpha."""
        return [f"alpha={alpha:g}" for alpha in self.alphas]

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the classes of the test objects under every setting."""
        models = (MultinomialNB(alpha=alpha).fit(self.counts[train], labels[train]) for alpha in self.alphas)
        return [model.predict(self.counts[test]) for model in models]


def errors(method: Method, labels: Labels, train: Ints, test: Ints, rate: Rate = share_wrong) -> Floats:
    """Return the test error of every setting, ``(S,)``."""
    return np.array([rate(predicted, labels[test]) for predicted in method.predictions(labels, train, test)])


def validation_errors(method: Method, labels: Labels, train: Ints, folds: int = 5) -> Floats:
    """Return the cross-validated error of every setting within the training objects, ``(S,)``."""
    return np.mean([errors(method, labels, *fold) for fold in stratified(labels, train, folds)], axis=0)


def chosen_error(test: Floats, validation: Floats) -> float:
    """Return the test error of the setting with the smallest validation error, averaged over ties."""
    return float(np.mean(test[validation <= validation.min() + 1e-12]))


def summary(
    task: str,
    method: str,
    settings: Sequence[str],
    test: Floats,
    chosen: Floats,
    paper: float | None = None,
    weights: Sequence[float] | None = None,
) -> Cell:
    """Average the errors of a method over draws or folds.

    Parameters
    ----------
    task, method : str
        Names.
    settings : sequence of S str
        Names of all combinations of parameters.
    test : array of shape (draws, S)
        Test errors of every setting.
    chosen : array of shape (draws,)
        Test errors of the setting chosen within the training objects.
    paper : float or None, default=None
        The paper's error.
    weights : sequence of float or None, default=None
        Weights of the draws; None weights them equally.
    """
    average = np.average(test, axis=0, weights=weights)
    at = int(np.argmin(average))
    error = float(np.average(chosen, weights=weights))
    return Cell(task, method, error, spread(chosen), float(average[at]), settings[at], paper)


def spread(errors: Floats) -> float:
    """Return the standard deviation over draws; 0 for a single draw."""
    return float(errors.std(ddof=1)) if len(errors) > 1 else 0.0


def evaluate(
    method: Method,
    task: str,
    labels: Labels,
    draws: Sequence[tuple[Ints, Ints]],
    paper: float | None = None,
    rate: Rate = share_wrong,
) -> Cell:
    """Run one method on the (train, test) pairs of one task.

    Parameters
    ----------
    method : Method
        Method to evaluate.
    task : str
        Name of the task.
    labels : array of shape (N,)
        Classes of all objects.
    draws : sequence of (train, test)
        Indices of training and test objects.
    paper : float or None, default=None
        The paper's error.
    rate : callable, default=share_wrong
        Error rate of the test objects.
    """
    test = np.array([errors(method, labels, *draw, rate) for draw in draws])
    validation = [validation_errors(method, labels, train) for train, _ in draws]
    chosen = np.array([chosen_error(*pair) for pair in zip(test, validation, strict=True)])
    return summary(task, method.name, method.settings, test, chosen, paper)
