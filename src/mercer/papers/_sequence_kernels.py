"""The seven methods of mehta2010's table 1, and a few variants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, TypeVar

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer._notices import collected
from mercer.papers._nested import Grams, Machine, Predict, Rule
from mercer.papers._protocol import Floats, Ints, Labels
from mercer.papers._sequence_tasks import Task

Value = TypeVar("Value")

LENGTHS = (2, 10, 30)
"""Witness lengths T of kernels between models."""
LAMBDAS = (0.1, 1.0, 10.0)
"""Values of lambda of the base kernel exp(-lambda/2 |x - y|^2), in the paper's notation; gamma = lambda/2."""
FINE_LAMBDAS = (1.0, 10.0, 100.0)
"""The same for kernels on observations, which, unlike distributions, have no width of their own."""
ORDERS = (1, 2, 3, 4)
WIDTHS = (0.1, 1.0, 10.0)
"""nu of Gaussians on distances, in units of 1 / the mean squared distance of the training data."""
FREQUENCIES = 250
"""Number of frequencies of random Fourier features, two features each, for numeric observations."""
LARGE = 50.0
"""A gamma for which different symbols or states have similarity exp(-100), practically 0."""
STRENGTHS = (2.0, 10.0, 50.0)
"""Strengths of the pooled prior, in observations."""
MAXIMUM_LIKELIHOOD: dict[str, Any] = {"prior": None, "n_iter": 1000, "tol": 1e-6}
"""Parameters of maximum likelihood with the paper's stopping rule."""


def paper_methods(task: Task) -> list[Machine | Rule]:
    """Return the methods of the table, in the paper's order."""
    with silent():
        models = mc.HMM(task.states, **MAXIMUM_LIKELIHOOD).fit_each(task.data)
    smooth = {f"lambda={lam:g}": paths(mc.MeanMap(gamma=lam / 2), models) for lam in LAMBDAS}
    products = [{"": paths(mc.ProbabilityProduct(rho=rho), models)} for rho in (1.0, 0.5)]
    return [
        Machine("GMMK", fixed(by_length(smooth))),
        Machine("PPK 1", fixed(by_length(products[0]))),
        Machine("PPK .5", fixed(by_length(products[1]))),
        Machine("EMMK", fixed(windows(task.data))),
        Machine("LMMK", lambda train: latent(task, train)),
        Machine("Fisher", lambda train: scores(task, train, [0])),
        Rule("Bayes", likelihood(task)),
    ]


def more_methods(task: Task) -> list[Machine | Rule]:
    """Return methods that are not in the paper: pooled priors, derivatives, models of both classes, a baseline."""
    smooth, joint = mc.MeanMap(gamma=0.5), mc.ProbabilityProduct(rho=0.5)
    found: list[Machine | Rule] = [
        Machine("GMMK, pooled", lambda train: pooled(smooth, task, train)),
        Machine("PPK .5, pooled", lambda train: pooled(joint, task, train)),
        Machine("Fisher, both classes", lambda train: scores(task, train, [0, 1])),
    ]
    if task.data.is_symbols:
        return [*found, Machine("Spectrum 3", lambda train: {"": mc.Spectrum(3)(task.data)})]
    derivatives = Machine("PPK .5, pooled, derivatives", lambda train: pooled(joint, task, train, derivatives=True))
    return [*found, derivatives, nearest(task)]


@contextmanager
def silent() -> Iterator[None]:
    """Drop the warnings of mercer, since models of single short sequences are overfitted on purpose."""
    with collected():
        yield


def remembered(task: Task, key: Hashable, learn: Callable[[], Value]) -> Value:
    """Return ``learn()``, computed once per task and key, for results that several methods share."""
    if key not in task.learned:
        with silent():
            task.learned[key] = learn()
    found: Value = task.learned[key]
    return found


# -- kernels between models, one per sequence ---------------------------------------------------------------


def fixed(grams: Mapping[str, Floats]) -> Grams:
    """Return Gram matrices that do not depend on the training data."""
    return lambda train: grams


def paths(kernel: Any, models: mc.HMMs) -> Floats:
    """Return Gram matrices of all witness lengths, in single precision to save memory."""
    return np.asarray(kernel.path(models, lengths=LENGTHS), dtype=np.float32)


def by_length(grams: Mapping[str, Floats]) -> dict[str, Floats]:
    """Split every path, ``(H, N, N)``, into H matrices by name of the length."""
    return {
        f"{name}, T={length}".removeprefix(", "): matrix
        for name, path in grams.items()
        for length, matrix in zip(LENGTHS, path, strict=True)
    }


def pooled(kernel: Any, task: Task, train: Ints, *, derivatives: bool = False) -> dict[str, Floats]:
    """Return kernels between models shrunk to one model of the training part, for every strength."""
    data = task.data
    if derivatives:
        steps = make_pipeline(mc.Derivatives(), mc.PerStep(StandardScaler()))
        data = steps.fit(data[train]).transform(data)

    def learn() -> dict[str, mc.HMMs]:
        shared = mc.HMM(task.states).fit(data[train]).model_
        states = int(shared.n_states[0])  # the same for all, as the sequences have equal length
        shrunk = {s: mc.HMM(states, prior=shared, prior_strength=s) for s in STRENGTHS}
        return {f"strength={s:g}": model.fit_each(data) for s, model in shrunk.items()}

    models = remembered(task, ("pooled", derivatives, train.tobytes()), learn)
    return by_length({name: paths(kernel, batch) for name, batch in models.items()})


# -- kernels between sequences ------------------------------------------------------------------------------


def windows(X: mc.Sequences) -> dict[str, Floats]:
    """Return empirical mean map kernels of windows of two to five observations (EMMK-2)."""
    lambdas, frequencies = (LAMBDAS, None) if X.is_symbols else (FINE_LAMBDAS, FREQUENCIES)
    found: dict[str, Floats] = {}
    for order, lam in product(ORDERS, lambdas):
        kernel = mc.EmpiricalMeanMap(order, gamma=lam / 2, n_components=frequencies)
        found[f"order={order}, lambda={lam:g}"] = np.asarray(kernel(X), dtype=np.float32)
    return found


# -- kernels and rules from models of classes ---------------------------------------------------------------


def class_model(task: Task, train: Ints, number: int) -> mc.HMMs:
    """Return the model of the training data of one class, a batch of shape (1,)."""
    rows = train[task.labels[train] == np.unique(task.labels)[number]]
    estimator = mc.HMM(task.shared_states[number], **MAXIMUM_LIKELIHOOD)
    return remembered(task, (number, train.tobytes()), lambda: estimator.fit(task.data[rows]).model_)


def gaussians(squared: Floats, train: Ints, name: str = "") -> dict[str, Floats]:
    """Return Gaussian kernels of squared distances (LMMK-2), for every width."""
    inside = squared[np.ix_(train, train)]
    unit = inside.sum() / (len(train) * (len(train) - 1))
    return {f"{name}, nu={nu:g}".removeprefix(", "): np.exp(-nu / unit * squared) for nu in WIDTHS}


def latent(task: Task, train: Ints) -> dict[str, Floats]:
    """Return latent mean map kernels under the first class; for symbols with infinite lambda, as in the paper."""
    model = class_model(task, train, 0)
    if task.data.is_symbols:
        kernel = mc.LatentMeanMap(model, gamma=LARGE, normalize=False)
        return gaussians(kernel.distance(task.data) ** 2, train)
    found: dict[str, Floats] = {}
    for lam in FINE_LAMBDAS:
        kernel = mc.LatentMeanMap(model, lam / 2, gamma_states=LARGE, n_components=FREQUENCIES, normalize=False)
        found |= gaussians(kernel.fit(task.data[train]).distance(task.data) ** 2, train, f"lambda={lam:g}")
    return found


def scores(task: Task, train: Ints, numbers: list[int]) -> dict[str, Floats]:
    """Return Gaussian kernels of distances between Fisher scores under the models of the given classes."""
    model = mc.HMMs.concat([class_model(task, train, number) for number in numbers])
    found: dict[str, Floats] = {}
    for information in ("identity", "diagonal"):
        kernel = mc.Fisher(model, information=information, normalize=False).fit(task.data[train])
        found |= gaussians(kernel.distance(task.data) ** 2, train, information)
    return found


def likelihood(task: Task) -> Predict:
    """Return the rule that predicts the class whose model gives the sequence the highest likelihood."""
    classes = np.unique(task.labels)

    def predict(train: Ints, test: Ints) -> Labels:
        logs = [class_model(task, train, number).log_prob(task.data[test])[0] for number in (0, 1)]
        return np.asarray(classes[np.argmax(logs, axis=0)])

    return predict


def nearest(task: Task) -> Rule:
    """Return the nearest-neighbor baseline for series of equal length."""
    rows = np.stack([np.ravel(x) for x in task.data])

    def predict(train: Ints, test: Ints) -> Labels:
        return np.asarray(KNeighborsClassifier(1).fit(rows[train], task.labels[train]).predict(rows[test]))

    return Rule("1-NN Euclid", predict)
