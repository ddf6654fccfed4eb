"""Fisher scores of networks: expected counts of all tables, and of the moments of Gaussian nodes (FK-7, FK-4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log
from mercer._coupling import FieldOperand
from mercer._probability import drawn, ratio
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.evidence import Parameters, groups, inferred, log_probabilities
from mercer.models._nets.graph import Graph, graph_of
from mercer.models.hidden import Clique


def net_scores(graph: Graph, table: Floats, parameters: Parameters, parametrization: str) -> tuple[Floats, Floats]:
    """Compute the log probabilities ``(n, T)`` and the scores of all rows under all networks, ``(n, T, P)``."""
    n, size = len(parameters[0]), graph.n_probabilities
    logs, found = np.empty((n, len(table))), np.zeros((n, len(table), size + 2 * graph.n_means))
    for models, group, values, tables in inferred(groups(graph, table), parameters):
        logs[models, group.rows] = values
        probability, mean, variance = (part[models, None] for part in parameters)
        for v, posterior in tables.items():
            counts, place = group.counts(v, posterior), graph.places[v]
            if graph.sizes[v]:
                scores = _table_scores(counts, probability[..., place], graph.sizes[v], parametrization)
                found[models, group.rows, place] = scores
                continue
            x = group.values[:, v, None]
            counts = counts * ~np.isnan(x)
            away, spread = np.nan_to_num(x) - mean[..., place], variance[..., place]
            both = [counts * away / spread, counts * (away**2 / spread - 1)]
            found[models, group.rows, size + 2 * place.start : size + 2 * place.stop] = np.concatenate(both, axis=-1)
    return logs, found


def _table_scores(counts: Floats, p: Floats, size: int, parametrization: str) -> Floats:
    rows, p = (x.reshape(*x.shape[:-1], -1, size) for x in (counts, p))
    total = rows.sum(axis=-1, keepdims=True)
    scores = rows - p * total if parametrization == "logit" else ratio(rows, p) - total
    return scores.reshape(counts.shape)


def net_posteriors(graph: Graph, table: Floats, parameters: Parameters, v: int) -> tuple[Floats, Floats]:
    """Compute log probabilities ``(n, T)`` and the posteriors of the states of a discrete node, ``(n, T, states)``."""
    logs = np.empty((len(parameters[0]), len(table)))
    found = np.zeros((*logs.shape, graph.sizes[v]))
    for models, group, values, tables in inferred(groups(graph, table), parameters):
        logs[models, group.rows] = values
        counts = group.counts(v, tables[v])
        found[models, group.rows] = counts.reshape(*counts.shape[:2], -1, graph.sizes[v]).sum(axis=2)
    return logs, found


def net_samples(graph: Graph, parameters: Parameters, size: int, rng: np.random.Generator) -> Floats:
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


def shared_nodes(graph: Graph, table: Floats, parameters: Parameters) -> SharedNodes:
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
    prior = log_probabilities(whole, rows, parameters)[0]
    logs = np.empty((len(table), count))
    size = max(1, CELLS // count)
    for start in range(0, len(table), size):
        part = table[start : start + size]
        joint = np.repeat(rows[None], len(part), axis=0)
        joint[:, :, list(graph.observed)] = part[:, None]
        logs[start : start + size] = log_probabilities(whole, joint.reshape(-1, rows.shape[1]), parameters).reshape(
            -1, count
        )
    possible = np.isfinite(prior)
    return SharedNodes(np.where(possible, logs - np.where(possible, prior, 0.0) / 2, -np.inf))


# Mean posteriors of the nodes of a network with their parents (LMMK-0).


def net_cliques(
    graph: AnyGraph, table: Floats, offsets: Indices, parameters: Parameters
) -> tuple[Floats, list[Clique]]:
    """Return log probabilities ``(1, T)`` and one clique per node, from rows of all samples under one network."""
    _check_real(graph, table)
    size, owner = len(offsets) - 1, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    share = 1 / np.maximum(np.diff(offsets), 1)[owner]
    found = {
        v: np.zeros((len(table) if v in graph.gaussian else size, graph.places[v].stop - graph.places[v].start))
        for v in range(len(graph.families))
    }
    logs = np.empty(len(table))
    for _, group, values, tables in inferred(groups(graph, table), parameters):
        logs[group.rows] = values[0]
        for v, posterior in tables.items():
            counts = group.counts(v, posterior)[0] * share[group.rows][:, None]
            if v in graph.gaussian:
                found[v][group.rows] = counts
            else:
                np.add.at(found[v], owner[group.rows], counts)
    return logs[None], [_clique(graph, v, counts) for v, counts in found.items()]


def _clique(graph: AnyGraph, v: int, counts: Floats) -> Clique:
    family = graph.families[v]
    names = tuple(tuple(f"{graph.names[u]}={state}" for state in graph.states[u]) for u in family)
    hidden = tuple(graph.names[u] in graph.hidden for u in family)
    column = None
    if v in graph.gaussian:
        at = graph.observed.index(v)
        column = slice(at, at + 1)
    return Clique(counts.reshape(-1, *graph.shapes[v]), names, hidden, column=column)


def _check_real(graph: AnyGraph, table: Floats) -> None:
    for v in graph.gaussian:
        missing = np.flatnonzero(np.isnan(table[:, graph.observed.index(v)]))
        if len(missing):
            raise ValueError(
                f"Row {missing[0]} has no value of {graph.names[v]!r}, which is Gaussian; latent kernels infer missing "
                "values of discrete nodes only. Leave the row out, or use mc.Fisher."
            )
