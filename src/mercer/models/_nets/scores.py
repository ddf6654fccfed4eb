"""Fisher scores of networks: expected counts of all tables, and of the moments of Gaussian nodes (FK-7, FK-4)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer._probability import ratio
from mercer.models._nets.evidence import Group, expected, groups
from mercer.models._nets.graph import Graph


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
