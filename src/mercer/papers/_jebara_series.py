"""Figure 10 of jebara2004: series of random switching linear dynamical systems in two classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mercer as mc
from mercer.papers._protocol import Floats, Labels, machine_predictions, spread
from mercer.papers._results import Curve, Figure

LENGTHS = (5, 10, 15, 20, 25)
"""Values of T, the length of the series on which two models are compared."""
POWERS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Values of rho."""
COSTS = (1.0, 10.0, 100.0)
PAPER = {"ML LDS": ".35", "ML SLDS": ".30", "RBF": ".34", "LDS": "best .28", "SLDS": "best .25"}
"""Errors that the paper reports."""

FIGURES = {
    "figure10": Figure(
        "Series of 20 random switching systems in two classes: one model per series, compared by T and rho",
        "Differs from the paper: the random systems are our own, which the paper does not describe; models of series "
        "are shrunk to one model of all series; C is the best of 1, 10 and 100 for every curve.",
        "T, or rho",
    )
}


@dataclass(frozen=True)
class Task:
    """Series, their classes and the systems that they come from."""

    series: list[Floats]
    labels: Labels
    systems: Labels


def random_systems(n: int, rng: np.random.Generator, regimes: int = 5) -> mc.models.SwitchingLDSs:
    """Return random switching systems of two state and two observed coordinates."""
    angle, radius = rng.uniform(0, np.pi, (n, regimes)), rng.uniform(0.6, 0.99, (n, regimes))
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(n, regimes, 2, 2)
    root = rng.normal(size=(n, regimes, 2, 2))
    unit = np.broadcast_to(np.eye(2), (n, regimes, 2, 2))
    emission = np.repeat(rng.normal(size=(n, 1, 2, 2)), regimes, axis=1)
    parts = mc.LDSs(
        radius[..., None, None] * turn, emission, 0.1 * root @ root.swapaxes(-1, -2) + 0.01 * unit, 0.1 * unit,
        rng.normal(size=(n, regimes, 2)), unit, state_offset=0.3 * rng.normal(size=(n, regimes, 2)),
    )  # fmt: skip
    moves = 0.8 * np.eye(regimes) + 0.2 * rng.dirichlet(np.ones(regimes), (n, regimes))
    return mc.models.SwitchingLDSs(rng.dirichlet(np.ones(regimes), n), moves, parts)


def make_task(seed: Any, models: int = 20, per_model: int = 5, length: int = 25) -> Task:
    """Sample series from random systems, half of which belong to each class."""
    rng = np.random.default_rng(seed)
    drawn = random_systems(models, rng).sample(length, per_model, random_state=rng)
    systems = np.repeat(np.arange(models), per_model)
    return Task(list(drawn.reshape(-1, length, 2)), systems % 2, systems)


def left_out_errors(gram: Floats, labels: Labels) -> Floats:
    """Return the leave-one-out errors of a support vector machine at every C, ``(costs,)``."""
    wrong = np.zeros(len(COSTS))
    every = np.arange(len(labels))
    for i in every:
        train = np.delete(every, i)
        matrix = gram[np.ix_(np.append(train, i), train)]
        found = machine_predictions(matrix, labels[train], COSTS)
        wrong += [predicted[0] != labels[i] for predicted in found]
    return wrong / len(labels)


def likelihood_error(estimator: Any, task: Task) -> float:
    """Return the leave-one-out error of one model per class; a model is refitted without the series in question."""
    series, labels = task.series, task.labels
    members = {name: np.flatnonzero(labels == name) for name in np.unique(labels)}
    whole = {name: estimator.fit([series[i] for i in rows]).model_ for name, rows in members.items()}
    table = {name: np.asarray(model.log_prob(series)[0]) for name, model in whole.items()}
    for name, rows in members.items():
        again = type(estimator)(**{**estimator.get_params(), "init": whole[name], "n_iter": 3, "tol": 0.0})
        for i in rows:
            rest = [series[j] for j in rows if j != i]
            table[name][i] = again.fit(rest).model_.log_prob([series[i]])[0, 0]
    names = list(members)
    return float(np.mean(np.array(names)[np.argmax([table[name] for name in names], axis=0)] != labels))


def rbf_errors(task: Task) -> Floats:
    """Return the leave-one-out errors of Gaussian kernels of whole series, over widths and C."""
    flat = np.stack([x.ravel() for x in task.series])
    squared = ((flat[:, None] - flat) ** 2).sum(axis=-1)
    median = np.median(squared[np.triu_indices(len(flat), 1)])
    return np.concatenate([left_out_errors(np.exp(-squared / (scale * median)), task.labels) for scale in (0.2, 1, 5)])


def fitted(task: Task) -> dict[str, Any]:
    """Return one model per series: linear dynamical systems, and switching ones."""
    return {"LDS": mc.LDS(2).fit_each(task.series), "SLDS": mc.SwitchingLDS(5, 2, n_init=1).fit_each(task.series)}


def model_grams(task: Task, n_paths: int, progress: Callable[[str], None]) -> dict[str, Floats]:
    """Return the kernels of both families, ``(rho, T, N, N)``."""
    progress("models of series")
    found = {}
    for name, batch in fitted(task).items():
        switches = "expected" if name == "SLDS" else "joint"
        grams = []
        for rho in POWERS:
            progress(f"{name} kernels, rho = {rho:g}")
            grams.append(
                mc.ProbabilityProduct(rho=rho, switches=switches, n_paths=n_paths).path(batch, lengths=LENGTHS)
            )
        found[name] = np.array(grams)
    return found


def figure10(*, draws: int, quick: bool, seed: int, progress: Callable[[str, int], None]) -> list[Curve]:
    """Run figure 10 on ``draws`` sets of series; see `mercer.papers.jebara2004.reproduce`."""
    steps = draws * (2 * len(POWERS) + 4)
    errors: dict[str, list[Any]] = {}
    for number in range(draws):
        task = make_task([seed, number], 8 if quick else 20, 3 if quick else 5)

        def told(what: str, number: int = number) -> None:
            progress(f"set {number + 1}: {what}", steps)

        for name, grams in model_grams(task, 8 if quick else 50, told).items():
            told(f"{name} machines")
            table = [[left_out_errors(gram, task.labels) for gram in row] for row in grams]
            errors.setdefault(name, []).append(table)  # (rho, T, C)
        told("likelihoods")
        regimes = 2 if quick else 5
        single = {"ML LDS": mc.LDS(2), "ML SLDS": mc.SwitchingLDS(regimes, 2, n_init=1, n_iter=20)}
        for name, estimator in single.items():
            errors.setdefault(name, []).append(likelihood_error(estimator, task))
        errors.setdefault("RBF", []).append(float(rbf_errors(task).min()))
    return _curves({name: np.array(values) for name, values in errors.items()})


def _curves(errors: dict[str, Floats]) -> list[Curve]:
    found = []
    for name in ("LDS", "SLDS"):
        table = errors[name]
        best = table.mean(axis=0).min()
        lines: list[tuple[str, str, Sequence[float], Floats]] = []
        lines += [(f"{name} rho={POWERS[i]:g}", "over T", LENGTHS, table[:, i]) for i in (0, 2, 3)]
        lines += [(f"{name} T={LENGTHS[i]}", "over rho", POWERS, table[:, :, i]) for i in (0, 2, 4)]
        for method, panel, axis, values in lines:
            at = values.mean(axis=(0, 1)).argmin()  # one C for a curve
            found.append(_curve(panel, method, axis, values[..., at], f"{PAPER[name]} (ours {best:.2f})"))
    for name in ("ML LDS", "ML SLDS", "RBF"):
        found.append(_curve("baselines", name, LENGTHS[-1:], errors[name][:, None], PAPER[name]))
    return sorted(found, key=lambda one: ("over T", "over rho", "baselines").index(one.panel))


def _curve(panel: str, method: str, axis: Sequence[float], values: Floats, paper: str) -> Curve:
    x = tuple(float(value) for value in axis)
    error, sd = tuple(values.mean(axis=0).tolist()), tuple(spread(column) for column in values.T)
    return Curve(panel, method, x, error, sd, None, paper)
