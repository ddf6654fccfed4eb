"""The EM steps of a Bayesian network of known structure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._probability import normalized
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.evidence import Group, Parameters, groups, inferred
from mercer.models._nets.graph import Graph


class Prior(NamedTuple):
    """Pseudo-observations: ``strength`` of them for each row of each table, distributed as in ``parameters``."""

    strength: float
    parameters: Parameters
    floor: Floats
    """Least variance of each Gaussian row, ``(G,)``."""


class Evidence:
    """The distinct rows of a sample with their numbers, in groups."""

    def __init__(self, graph: AnyGraph, table: Floats) -> None:
        # Sorted, so that sums do not depend on the order of the rows; NaN would not be equal to itself.
        rows: Floats = table
        counts: Floats = np.zeros(0)
        if len(table):
            rows, counts = np.unique(np.where(np.isnan(table), -np.inf, table), axis=0, return_counts=True)
            rows[np.isneginf(rows)] = np.nan
        self.groups = list(groups(graph, rows)) if len(rows) else []
        self.counts = counts.astype(np.float64)
        self.complete = not graph.hidden and not np.isnan(table).any()


def fitted(graph: Graph, data: Evidence, start: Parameters, prior: Prior, n_iter: int, tol: float) -> EMResult:
    """Maximize the log probability plus the log prior from a start; complete data take one iteration."""

    def expect(parameters: Parameters) -> tuple[float, _Sums]:
        objective, sums = _expect(graph, data, parameters)
        return objective + _log_prior(parameters, prior), sums

    def maximize(parameters: Parameters, sums: _Sums) -> Parameters:
        return _maximize(graph, sums, parameters, prior)

    enough = np.inf if data.complete else tol * max(float(data.counts.sum()), 1.0)
    about = f"BayesNet of {data.counts.sum():.0f} samples"
    return em_single(expect, maximize, start, n_iter, enough, about)


class _Sums(NamedTuple):
    """Expected counts of table entries ``(P,)``; weights, sums and sums of squares of Gaussian rows ``(G,)``."""

    counts: Floats
    weight: Floats
    first: Floats
    second: Floats


def _expect(graph: Graph, data: Evidence, parameters: Parameters) -> tuple[float, _Sums]:
    sums = _Sums(np.zeros(graph.n_probabilities), *np.zeros((3, graph.n_means)))
    total, (probability, mean, variance) = 0.0, parameters
    for _, group, logs, tables in inferred(data.groups, (probability[None], mean[None], variance[None])):
        weights = data.counts[group.rows]
        total += float(weights @ logs[0])
        for v, posterior in tables.items():
            _add(sums, graph, group, v, posterior[..., 0, :] * weights, mean)
    return total, sums


def _add(sums: _Sums, graph: Graph, group: Group, v: int, weighted: Floats, mean: Floats) -> None:
    place, at = graph.places[v], group.places[v]
    size = place.stop - place.start

    def summed(values: Floats) -> Floats:
        return np.bincount(at.ravel(), values.ravel(), minlength=size)

    if graph.sizes[v]:
        sums.counts[place] += summed(weighted)
        return
    x = group.values[:, v]
    weighted = weighted * ~np.isnan(x)
    away = np.where(np.isnan(x), 0.0, x) - mean[place][at]  # from the current mean, so that squares do not cancel
    sums.weight[place] += summed(weighted)
    sums.first[place] += summed(weighted * away)
    sums.second[place] += summed(weighted * away**2)


def _maximize(graph: Graph, sums: _Sums, parameters: Parameters, prior: Prior) -> Parameters:
    old, mean, variance = parameters
    wanted, mean0, variance0 = prior.parameters
    s = prior.strength
    probability = np.empty_like(old)
    for v in graph.discrete:
        place, size = graph.places[v], graph.sizes[v]
        counts = (sums.counts[place] + s * wanted[place]).reshape(-1, size)
        probability[place] = normalized(counts, old[place].reshape(-1, size)).ravel()
    total = sums.weight + s
    known = total > 0
    safe = np.where(known, total, 1.0)
    shift = (sums.first + s * (mean0 - mean)) / safe
    squares = sums.second - 2 * shift * sums.first + shift**2 * sums.weight
    spread = (squares + s * (variance0 + (mean0 - mean - shift) ** 2)) / safe
    return (
        probability,
        np.where(known, mean + shift, mean),
        np.where(known, np.maximum(spread, prior.floor), variance),
    )


def _log_prior(parameters: Parameters, prior: Prior) -> float:
    """Return the log prior up to a constant: that of ``strength`` observations in each row."""
    if prior.strength == 0:
        return 0.0
    probability, mean, variance = parameters
    wanted, mean0, variance0 = prior.parameters
    weighted = wanted > 0
    with np.errstate(divide="ignore"):
        logs = float(wanted[weighted] @ np.log(probability[weighted]))
    squares = (variance0 + (mean0 - mean) ** 2) / variance
    return prior.strength * (logs - float((np.log(variance) + squares).sum()) / 2)


def random_tables(graph: Graph, rng: np.random.Generator) -> Floats:
    """Return random tables for a start: even ones, with noise that tells the states of hidden nodes apart."""
    tables = np.empty(graph.n_probabilities)
    for v in graph.discrete:
        place, size = graph.places[v], graph.sizes[v]
        rows = rng.dirichlet(np.full(size, 2.0), size=(place.stop - place.start) // size)
        tables[place] = rows.ravel()
    return tables
