"""The structure of an undirected network: nodes with their states, and the nodes of each factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations, pairwise, product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from mercer._array import Array, as_float, namespace, to_numpy
from mercer.models._nets.graph import LARGEST_TABLE, Graph, Nodes, Variables, checked_graph

Cliques = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CliqueGraph(Variables):
    """An undirected graph of discrete nodes: a table of factors for each of several cliques."""

    cliques: Cliques

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the nodes of each table, in the order of its axes."""
        return tuple(tuple(self.number[name] for name in clique) for clique in self.cliques)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each table."""
        return tuple(tuple(self.sizes[v] for v in family) for family in self.families)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where each table is among the entries of all tables."""
        ends = np.cumsum([0, *map(prod, self.shapes)]).tolist()
        return tuple(slice(*pair) for pair in pairwise(ends))

    @cached_property
    def tables(self) -> tuple[int, ...]:
        """Numbers of the tables."""
        return tuple(range(len(self.cliques)))

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of all tables."""
        return sum(map(prod, self.shapes))

    @cached_property
    def n_free(self) -> int:
        """Number of free parameters: interactions of all sets of nodes that a clique contains."""
        sets = chain.from_iterable(
            combinations(sorted(family), k) for family in self.families for k in range(1, len(family) + 1)
        )
        return sum(prod(self.sizes[v] - 1 for v in own) for own in set(sets))

    def entries(self) -> list[str]:
        """Name the entries of all tables, such as "rain=yes, wet=no"."""
        return [
            ", ".join(f"{self.names[v]}={state}" for v, state in zip(family, states, strict=True))
            for family in self.families
            for states in product(*(self.states[v] for v in family))
        ]


AnyGraph: TypeAlias = Graph | CliqueGraph


@lru_cache(maxsize=1024)
def clique_graph_of(nodes: Nodes, cliques: Cliques, hidden: tuple[str, ...]) -> CliqueGraph:
    """Return the one graph of a structure, so that what depends on it is found once."""
    return CliqueGraph(nodes, hidden, cliques)


def checked_cliques(nodes: Any, cliques: Any, hidden: Any) -> CliqueGraph:
    """Return the graph of nodes and cliques; raise if they do not fit, or if a node has no factor."""
    plain = checked_graph(nodes, None, hidden)
    if plain.gaussian:
        name = plain.names[plain.gaussian[0]]
        raise ValueError(f"The nodes of a Markov network must be discrete; {name!r} is Gaussian. Use mc.BayesNets.")
    try:
        listed = tuple((clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques)
    except TypeError:
        raise TypeError(f"cliques must be tuples of names of nodes; got {cliques!r}.") from None
    for clique in listed:
        for name in clique:
            if name not in plain.number:
                raise ValueError(f"cliques must name nodes among {', '.join(plain.names[:20])}; got {name!r}.")
        if not clique or len(set(clique)) < len(clique):
            raise ValueError(f"A clique must name one node or more, each once; got {clique!r}.")
        size = prod(plain.sizes[plain.number[name]] for name in clique)
        if size > LARGEST_TABLE:
            raise ValueError(
                f"The factor of {', '.join(clique)} has {size:,} entries, more than {LARGEST_TABLE:,}. Use smaller "
                "cliques or fewer states."
            )
    if len(set(listed)) < len(listed):
        twice = next(clique for clique in listed if listed.count(clique) > 1)
        raise ValueError(f"Every clique must be named once; {twice!r} is there twice. Multiply their factors.")
    alone = [name for name in plain.names if all(name not in clique for clique in listed)]
    if alone:
        raise ValueError(f"Every node must have a factor; {alone[0]!r} has none. Add the clique ({alone[0]!r},).")
    return clique_graph_of(plain.nodes, listed, plain.hidden)


def flat_factors(value: Any, graph: CliqueGraph) -> Array:
    """Return the entries of all factors in one array ``(..., P)``; raise if they are negative or not finite."""
    if isinstance(value, Mapping):
        tables = [as_float(table, f"factors[{clique!r}]") for clique, table in value.items()]
        parts = []
        for clique, shape, table in zip(graph.cliques, graph.shapes, tables, strict=True):
            lead = len(table.shape) - len(shape)
            if lead < 0 or tuple(table.shape[lead:]) != shape:
                raise ValueError(
                    f"The factor of {', '.join(clique)} must have shape (..., {', '.join(map(str, shape))}); got "
                    f"{tuple(table.shape)}."
                )
            parts.append(namespace(table).reshape(table, (*table.shape[:lead], prod(shape))))
        leads = {tuple(part.shape[:-1]) for part in parts}
        if len(leads) > 1:
            raise ValueError(f"All factors must have the same batch shape; got {sorted(leads)}.")
        flat = namespace(*parts).concat(parts, axis=-1)
    else:
        flat = as_float(value, "factors")  # as files have it
        if tuple(flat.shape[-1:]) != (graph.n_entries,):
            raise ValueError(f"factors must have the {graph.n_entries} entries of all tables; got {tuple(flat.shape)}.")
    numbers = to_numpy(flat).reshape(-1, graph.n_entries)
    bad = np.argwhere(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        member, entry = bad[0]
        at = next(t for t in graph.tables if graph.places[t].stop > entry)
        raise ValueError(
            f"The factor of {', '.join(graph.cliques[at])} must be finite and not negative; got "
            f"{numbers[member, entry]:g} for {graph.entries()[entry]} in network {member}."
        )
    return flat
