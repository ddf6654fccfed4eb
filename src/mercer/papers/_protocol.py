"""Small training sets drawn again and again from a fixed split, and what every method errs on the test documents.

Two answers for every method. *Best*: the parameters with the smallest test error, averaged over the draws, which is
what a paper reports when it says "the best parameters"; it looks at the test documents. *Chosen*: the parameters that
cross-validation inside the training documents of each draw prefers, which is what a user gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from sklearn import config_context
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import SVC

from mercer.papers._results import Cell

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Labels = np.ndarray[Any, Any]

Rows = Callable[[Ints, Ints], Floats]
"""``rows(train, wanted)``: the kernel of the wanted with the training objects, ``(len(wanted), len(train))``."""
Rate = Callable[[Labels, Labels], float]
"""``rate(predicted, truth)`` is an error rate."""


def draw_training(
    labels: Labels, train: Labels, classes: Sequence[str], n: int, draws: int, seed: int = 0
) -> list[dict[str, Ints]]:
    """Draw ``n`` training objects of every class, ``draws`` times.

    Every draw and class has a generator of its own, so that neither fewer draws nor other classes change a draw, and
    every method and task sees the same ones.

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
        Of the generators.
    """
    names = np.unique(labels).tolist()
    found = []
    for number in range(draws):
        chosen = {}
        for name in classes:
            pool = np.flatnonzero(train & (labels == name))
            if len(pool) < n:
                raise ValueError(f"class {name!r} has {len(pool)} training objects: {n} cannot be drawn")
            generator = np.random.default_rng([seed, number, names.index(name)])
            chosen[name] = np.sort(generator.choice(pool, n, replace=False))
        found.append(chosen)
    return found


def share_wrong(predicted: Labels, truth: Labels) -> float:
    """Return the share of objects that got another class than theirs."""
    return float(np.mean(predicted != truth))


def balanced_wrong(predicted: Labels, truth: Labels) -> float:
    """Return the share of wrong objects averaged over the classes: what a test set of equal classes would give."""
    return float(np.mean([np.mean(predicted[truth == name] != name) for name in np.unique(truth)]))


class Lookup:
    """A kernel computed once for all objects that are ever needed, indexed by every draw."""

    def __init__(self, matrix: Floats, rows: Ints, columns: Ints, size: int) -> None:
        self.matrix = matrix
        self._row, self._column = np.full(size, -1), np.full(size, -1)
        self._row[rows] = np.arange(len(rows))
        self._column[columns] = np.arange(len(columns))

    def __call__(self, train: Ints, wanted: Ints) -> Floats:
        """Return the kernel of the wanted objects with the training objects."""
        return self.matrix[np.ix_(self._row[wanted], self._column[train])]


class Method(Protocol):
    """Something that learns from training objects: its settings, and what each of them predicts."""

    @property
    def name(self) -> str:
        """How a table calls it."""

    @property
    def settings(self) -> list[str]:
        """Every combination of parameters, in words."""

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the classes of the test objects under every setting."""


@dataclass(frozen=True)
class KernelSVM:
    """A support vector machine on a kernel with one parameter.

    Parameters
    ----------
    name : str
        Of the method.
    kernels : dict
        ``Rows`` by the kernel parameter in words.
    costs : tuple of float
        Values of C in units of 1 / the mean self-kernel of the training objects, so that one grid suits every scale.
    """

    name: str
    kernels: dict[str, Rows]
    costs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)

    @property
    def settings(self) -> list[str]:
        """Every combination of the kernel parameter and C."""
        return machine_settings(self.kernels, self.costs)

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the classes of the test objects under every setting."""
        found: list[Labels] = []
        for rows in self.kernels.values():
            found += machine_predictions(rows(train, np.concatenate([train, test])), labels[train], self.costs)
        return found


def machine_settings(kernels: Iterable[str], costs: Sequence[float]) -> list[str]:
    """Name every combination of a kernel and C."""
    return [f"{name}, C={cost:g}".removeprefix(", ") for name, cost in product(kernels, costs)]


def machine_predictions(matrix: Floats, labels: Labels, costs: Sequence[float]) -> Iterator[Labels]:
    """Yield what a support vector machine says of the test objects for every cost.

    Parameters
    ----------
    matrix : array of shape (n + m, n)
        The kernel of the n training objects, and below of the m test objects, with the training objects.
    labels : array of shape (n,)
        Classes of the training objects.
    costs : sequence of float
        Values of C in units of 1 / the mean self-kernel of the training objects.
    """
    n, scale = len(labels), float(np.mean(np.diag(matrix)))
    for cost in costs:
        yield SVC(C=cost / scale, kernel="precomputed").fit(matrix[:n], labels).predict(matrix[n:])


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
    """Return the cross-validated error of every setting inside the training objects, ``(S,)``."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
    inside = splitter.split(train, labels[train])
    return np.mean([errors(method, labels, train[fit], train[held]) for fit, held in inside], axis=0)


def chosen_error(test: Floats, validation: Floats) -> float:
    """Return the test error of the setting that validation prefers; the average where several are equally good."""
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
    """Average what a method errs over draws or folds.

    Parameters
    ----------
    task, method : str
        Names.
    settings : sequence of S str
        Every combination of parameters, in words.
    test : array of shape (draws, S)
        Test errors of every setting.
    chosen : array of shape (draws,)
        Those of the setting that is chosen inside the training objects.
    paper : float or None, default=None
        The paper's error.
    weights : sequence of float or None, default=None
        Of the draws; None weighs them alike.
    """
    average = np.average(test, axis=0, weights=weights)
    at = int(np.argmin(average))
    error = float(np.average(chosen, weights=weights))
    return Cell(task, method, error, spread(chosen), float(average[at]), settings[at], paper)


def spread(errors: Floats) -> float:
    """Return the standard deviation over draws, 0 of a single one."""
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
        What learns.
    task : str
        Name of the task.
    labels : array of shape (N,)
        Classes of all objects.
    draws : sequence of (train, test)
        Indices of objects.
    paper : float or None, default=None
        The paper's error.
    rate : callable, default=share_wrong
        How test errors are counted.
    """
    # The matrices are our own, hence finite: checking them again would be half of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        test = np.array([errors(method, labels, *draw, rate) for draw in draws])
        validation = [validation_errors(method, labels, train) for train, _ in draws]
    chosen = np.array([chosen_error(*pair) for pair in zip(test, validation, strict=True)])
    return summary(task, method.name, method.settings, test, chosen, paper)
