"""Fisher scores of networks: expected counts of all tables, and of the moments of Gaussian nodes (FK-7, FK-4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log
from mercer._coupling import FieldOperand
from mercer._probability import drawn, ratio
from mercer.models._nets.evidence import Group, expected, groups, log_probabilities
from mercer.models._nets.graph import Graph, graph_of
from mercer.models.hidden import Clique


def net_scores(graph: Graph, table: Floats, parameters: tuple[Floats, Floats, Floats], parametrization: str) -> Floats:
    """Compute the scores of all rows under all networks, ``(n, T, P)``."""
    n, size = len(parameters[0]), graph.n_probabilities
    found = np.zeros((n, len(table), size + 2 * graph.n_means))
    for group in groups(graph, table):
        for i in range(n):
            tables = expected(group, parameters, np.full(len(table), i)).tables
            for v, posterior in tables.items():
                counts = counts_of(group, v, posterior)
                start = graph.places[v].start
                at = slice(start, start + counts.shape[1])
                if graph.sizes[v]:
                    p = parameters[0][i, at]
                    found[i, group.rows, at] = _table_scores(counts, p, graph.sizes[v], parametrization)
                    continue
                x = np.where(np.isnan(group.values[:, v]), 0.0, group.values[:, v])[:, None]
                counts = counts * ~np.isnan(group.values[:, v])[:, None]
                away, variance = x - parameters[1][i, at], parameters[2][i, at]
                place = size + 2 * start
                found[i, group.rows, place : place + len(variance)] = counts * away / variance
                place += len(variance)
                found[i, group.rows, place : place + len(variance)] = counts * (away**2 / variance - 1)
    return found


def counts_of(group: Group, v: int, posterior: Floats) -> Floats:
    """Return the expected counts of the whole table of node v in each row, ``(T, size)``."""
    graph = group.graph
    place = graph.places[v]
    counts = np.zeros((len(group), place.stop - place.start))
    at = group.places(v)
    counts[np.broadcast_to(np.arange(len(group)), at.shape), at] = posterior
    return counts


def _table_scores(counts: Floats, p: Floats, size: int, parametrization: str) -> Floats:
    rows = counts.reshape(len(counts), -1, size)
    total = rows.sum(axis=-1, keepdims=True)
    p = p.reshape(-1, size)
    scores = rows - p * total if parametrization == "logit" else ratio(rows, p) - total
    return scores.reshape(counts.shape)


def net_posteriors(graph: Graph, table: Floats, parameters: tuple[Floats, Floats, Floats], v: int) -> Floats:
    """Compute the posteriors of the states of a discrete node in all rows under all networks, ``(n, T, states)``."""
    found = np.zeros((len(parameters[0]), len(table), graph.sizes[v]))
    for group in groups(graph, table):
        for i in range(len(found)):
            if v in group.seen:
                found[i, group.rows, group.values[:, v].astype(int)] = 1.0
                continue
            rows = expected(group, parameters, np.full(len(table), i)).tables[v]
            axes = tuple(k for k, u in enumerate(group.free[v]) if u != v)
            found[i, group.rows] = rows.sum(axis=axes).T
    return found


def net_samples(graph: Graph, parameters: tuple[Floats, Floats, Floats], size: int, rng: np.random.Generator) -> Floats:
    """Sample rows of the observed nodes from each of n networks, ``(n, size, D)``."""
    probability, mean, variance = parameters
    n = len(probability)
    values = np.zeros((n, size, len(graph.names)))
    members = np.arange(n)[:, None]
    for v in graph.order:
        row = np.zeros((n, size), dtype=np.int64)
        for u in graph.above[v]:
            row = row * graph.sizes[u] + values[:, :, u].astype(np.int64)
        start = graph.places[v].start
        if graph.sizes[v]:
            table = probability[:, graph.places[v]].reshape(n, -1, graph.sizes[v])
            values[:, :, v] = drawn(np.cumsum(table, axis=-1)[members, row], rng.random((n, size)))
        else:
            spread = np.sqrt(variance[members, start + row])
            values[:, :, v] = mean[members, start + row] + spread * rng.standard_normal((n, size))
    return values[:, :, list(graph.observed)]


def score_names(graph: Graph) -> list[str]:
    """Name the columns of the scores, such as "wet=yes | rain=no"."""
    names = []
    for v in graph.discrete:
        size = graph.sizes[v]
        for at in range(graph.places[v].stop - graph.places[v].start):
            given = graph.given(v, at // size)
            names.append(f"{graph.names[v]}={graph.states[v][at % size]}{given}")
    for v in graph.gaussian:
        rows = range(graph.places[v].stop - graph.places[v].start)
        for what in ("mean", "log_sd"):
            names += [f"{what}({graph.names[v]}){graph.given(v, row)}" for row in rows]
    return names


# Shared hidden nodes: the probability that one configuration of the hidden nodes generates two samples (MK-2).

MOST = 1 << 16
"""Most configurations of the hidden nodes."""
CELLS = 1 << 22
"""Configurations times samples that are evaluated at once."""


@dataclass
class SharedNodes(FieldOperand):
    """Log features log P(x, h) - log P(h) / 2 of samples, ``(N, H)``; the kernel is the sum of their products."""

    logs: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.logs),)

    def pair(self, other: SharedNodes) -> Floats:
        """Compute the log kernel of all pairs."""
        tops = [np.maximum(x.logs.max(axis=1), -1e300) for x in (self, other)]
        left, right = (np.exp(x.logs - top[:, None]) for x, top in zip((self, other), tops, strict=True))
        value = safe_log(left @ right.T)
        for i, j in np.argwhere(value < -500):  # terms that underflowed may matter
            value[i, j] = logsumexp(self.logs[i] - tops[0][i] + other.logs[j] - tops[1][j])
        return np.asarray(value + tops[0][:, None] + tops[1])

    def alone(self) -> Floats:
        """Compute the self-kernel of each sample."""
        return np.asarray(logsumexp(2 * self.logs, axis=1))


def shared_nodes(graph: Graph, table: Floats, parameters: tuple[Floats, Floats, Floats]) -> SharedNodes:
    """Compute the log features of all rows, for all configurations of the hidden nodes."""
    hidden = [graph.number[name] for name in graph.hidden]
    if not hidden:
        raise ValueError("Marginalization needs a network with hidden nodes; got one without. Use hidden=[...].")
    for v in hidden:
        seen = [graph.names[u] for u in graph.above[v] if u not in hidden]
        if seen:
            raise ValueError(
                f"Marginalization needs hidden nodes whose parents are hidden, because two samples share them; "
                f"{graph.names[v]!r} has the observed parent {seen[0]!r}."
            )
    count = prod(graph.sizes[v] for v in hidden)
    if count > MOST:
        raise ValueError(f"The hidden nodes have {count:,} configurations, more than {MOST:,}. Use fewer hidden nodes.")
    configurations = np.indices([graph.sizes[v] for v in hidden]).reshape(len(hidden), -1).T
    whole = graph_of(graph.nodes, graph.parents, ())
    rows = np.full((count, len(graph.names)), np.nan)
    rows[:, hidden] = configurations
    prior = _logs(whole, rows, parameters)
    logs = np.empty((len(table), count))
    size = max(1, CELLS // count)
    for start in range(0, len(table), size):
        part = table[start : start + size]
        joint = np.repeat(rows[None], len(part), axis=0)
        joint[:, :, list(graph.observed)] = part[:, None]
        logs[start : start + size] = _logs(whole, joint.reshape(-1, rows.shape[1]), parameters).reshape(-1, count)
    possible = np.isfinite(prior)
    return SharedNodes(np.where(possible, logs - np.where(possible, prior, 0.0) / 2, -np.inf))


def _logs(graph: Graph, rows: Floats, parameters: tuple[Any, Any, Any]) -> Floats:
    return np.asarray(log_probabilities(graph, rows, *parameters))[0]


# Mean posteriors of the nodes of a network with their parents (LMMK-0).


def net_cliques(
    graph: Graph, table: Floats, offsets: Indices, parameters: tuple[Floats, Floats, Floats]
) -> list[Clique]:
    """Return one clique per node, from rows ``(T, D)`` of all samples under one network."""
    _check_real(graph, table)
    size, owner = len(offsets) - 1, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    share = 1 / np.maximum(np.diff(offsets), 1)[owner]
    found = {
        v: np.zeros((size if graph.sizes[v] else len(table), graph.places[v].stop - graph.places[v].start))
        for v in range(len(graph.names))
    }
    for group in groups(graph, table):
        tables = expected(group, parameters, np.zeros(len(table), dtype=int)).tables
        for v, posterior in tables.items():
            counts = counts_of(group, v, posterior) * share[group.rows][:, None]
            if graph.sizes[v]:
                np.add.at(found[v], owner[group.rows], counts)
            else:
                found[v][group.rows] = counts
    return [_clique(graph, v, counts) for v, counts in found.items()]


def _clique(graph: Graph, v: int, counts: Floats) -> Clique:
    family = graph.families[v]
    names = tuple(tuple(f"{graph.names[u]}={state}" for state in graph.states[u]) for u in family)
    hidden = tuple(graph.names[u] in graph.hidden for u in family)
    column = None
    if not graph.sizes[v]:
        at = graph.observed.index(v)
        column = slice(at, at + 1)
    return Clique(counts.reshape(-1, *graph.shapes[v]), names, hidden, column=column)


def _check_real(graph: Graph, table: Floats) -> None:
    for v in graph.gaussian:
        missing = np.flatnonzero(np.isnan(table[:, graph.observed.index(v)]))
        if len(missing):
            raise ValueError(
                f"Row {missing[0]} has no value of {graph.names[v]!r}, which is Gaussian; latent kernels infer missing "
                "values of discrete nodes only. Leave the row out, or use mc.Fisher."
            )
