"""Mean posteriors of the nodes of a network with their parents (LMMK-0)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats, Indices
from mercer.models._nets.evidence import expected, groups
from mercer.models._nets.graph import Graph
from mercer.models._nets.scores import counts_of
from mercer.models.hidden import Clique


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
