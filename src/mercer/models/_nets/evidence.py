"""Probabilities and expected counts of rows of data with missing values: contractions given evidence (FK-7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.contraction import BATCH, Labels, Plan, find_plan, log_sums, posteriors

MODELS, ROWS = BATCH, BATCH + 1
"""Labels of the axes of networks and of rows."""
PATTERN_COST = 200_000
"""Cost of another pattern of missing values, in multiplications."""
MEMORY = 1 << 24
"""Entries of the tables that a contraction of several rows may make at once."""
LOG_2PI = float(np.log(2 * np.pi))

Parameters = tuple[Floats, Floats, Floats]
"""Probabilities ``(n, P)``, means and variances ``(n, G)`` of n networks."""


@dataclass(frozen=True)
class Group:
    """Rows of data that are contracted together.

    Values of nodes in ``seen`` are known in all of the rows, of those in ``partly`` in some; others are summed over.
    """

    graph: AnyGraph
    rows: Indices
    values: Floats
    """Of all nodes, ``(T, V)``; NaN where missing or hidden."""
    seen: frozenset[int]
    partly: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def free(self) -> tuple[Labels, ...]:
        """Variables of each table that are not known in all rows, in ascending order."""
        return tuple(tuple(sorted(u for u in family if u not in self.seen)) for family in self.graph.families)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Tables that matter: of probabilities, and of Gaussians with a value in some row."""
        known = [v for v in self.graph.gaussian if v in self.seen or v in self.partly]
        return tuple(sorted([*self.graph.tables, *known]))

    @cached_property
    def places(self) -> dict[int, Indices]:
        """Where the entries of each table are that agree with each row, ``(*free, T)``."""
        return {v: self._places(v) for v in self.used}

    def _places(self, v: int) -> Indices:
        graph, free, shape = self.graph, self.free[v], self.graph.shapes[v]
        at = np.zeros((*(graph.sizes[u] for u in free), len(self)), dtype=np.int64)
        for k, u in enumerate(graph.families[v]):
            known = u in self.seen
            own = self.values[:, u].astype(np.int64) if known else np.arange(graph.sizes[u])
            after = 0 if known else len(free) - free.index(u)
            at += prod(shape[k + 1 :]) * own.reshape(-1, *(1,) * after)
        return at

    @cached_property
    def plan(self) -> Plan:
        """The plan of the contraction."""
        labels = [(*self.free[v], MODELS, ROWS) for v in self.used]
        labels += [(v, MODELS, ROWS) for v in self.partly if self.graph.sizes[v]]
        return find_plan(tuple(labels), self.graph.sizes, (MODELS, ROWS))

    @cached_property
    def widest(self) -> int:
        """Entries of the largest table, and of all factors, for one row."""
        return self.plan.largest + sum(prod(self.graph.sizes[u] for u in self.free[v]) for v in self.used)

    def factors(self, probability: Floats, mean: Floats, variance: Floats) -> tuple[list[Floats], Floats]:
        """Return factors of all networks with all rows, ``(*free, n, T)``, and log scales ``(n, T)``."""
        graph, found, scales = self.graph, [], np.zeros((len(probability), len(self)))

        def taken(table: Floats, v: int) -> Floats:
            return np.moveaxis(table[:, graph.places[v]][:, self.places[v]], 0, -2)

        for v in self.used:
            if v not in graph.gaussian:
                found.append(taken(probability, v))
                continue
            away, spread = np.nan_to_num(self.values[:, v]) - taken(mean, v), taken(variance, v)
            logs = -(away**2 / spread + np.log(spread) + LOG_2PI) / 2
            logs = np.where(np.isnan(self.values[:, v]), 0.0, logs)
            top = logs.max(axis=tuple(range(logs.ndim - 2)))
            scales += top
            found.append(np.exp(logs - top))
        for v in self.partly:
            if graph.sizes[v]:
                x = self.values[:, v]
                agrees = (x == np.arange(graph.sizes[v])[:, None]) | np.isnan(x)
                found.append(np.repeat(1.0 * agrees[:, None], len(probability), axis=1))
        return found, scales

    def counts(self, v: int, posterior: Floats) -> Floats:
        """Return the expected counts of the whole table of node v in each row, ``(n, T, size)``."""
        at, n = self.places[v], posterior.shape[-2]
        counts = np.zeros((n, len(self), prod(self.graph.shapes[v])))
        counts[:, np.broadcast_to(np.arange(len(self)), at.shape), at] = np.moveaxis(posterior, -2, 0)
        return counts


def groups(graph: AnyGraph, table: Floats) -> Iterator[Group]:
    """Divide rows ``(T, D)`` into groups: by their missing values, or all together if these vary much."""
    values = np.full((len(table), len(graph.names)), np.nan)
    values[:, list(graph.observed)] = table
    missing = np.isnan(values)
    kinds, which = np.unique(missing, axis=0, return_inverse=True)
    found = [_group(graph, values, np.arange(len(table)), missing)] if len(table) else []
    if len(kinds) > 1 and found[0].plan.products * len(table) > PATTERN_COST * len(kinds):
        which = which.reshape(-1)
        found = [_group(graph, values, np.flatnonzero(which == kind), missing) for kind in range(len(kinds))]
    for group in found:
        group.plan.check("This network, given these rows,")
        size = max(1, MEMORY // group.widest)  # so that the tables fit into memory
        for start in range(0, len(group), size):
            part = slice(start, start + size)
            yield replace(group, rows=group.rows[part], values=group.values[part])


def _group(graph: AnyGraph, values: Floats, rows: Indices, missing: Mask) -> Group:
    never, always = ~missing[rows].any(axis=0), missing[rows].all(axis=0)
    partly = tuple(np.flatnonzero(~never & ~always).tolist())
    return Group(graph, rows, values[rows], frozenset(np.flatnonzero(never).tolist()), partly)


class Inferred(NamedTuple):
    """Results of some networks for the rows of a group."""

    models: slice
    """The networks, of which there are n."""
    group: Group
    logs: Floats
    """Log probabilities ``(n, T)``."""
    tables: dict[int, Floats]
    """Posteriors of the table of each node, ``(*free, n, T)``."""


def inferred(found: Iterable[Group], parameters: Parameters) -> Iterator[Inferred]:
    """Compute log probabilities and posteriors of all rows under all networks."""
    for group in found:
        for models, factors, scales in _blocks(group, parameters):
            logs, tables = posteriors(group.plan, factors)
            yield Inferred(models, group, scales + logs, dict(zip(group.used, tables, strict=False)))


def log_probabilities(graph: AnyGraph, table: Floats, parameters: Parameters) -> Floats:
    """Return log probabilities of all rows under all networks, ``(n, T)``."""
    found = np.empty((len(parameters[0]), len(table)))
    for group in groups(graph, table):
        for models, factors, scales in _blocks(group, parameters):
            found[models, group.rows] = scales + log_sums(group.plan, factors)
    return found


def _blocks(group: Group, parameters: Parameters) -> Iterator[tuple[slice, list[Floats], Floats]]:
    """Divide networks so that their tables fit into memory; yield some of them with their factors."""
    size = max(1, MEMORY // (len(group) * group.widest))
    for start in range(0, len(parameters[0]), size):
        models = slice(start, start + size)
        yield models, *group.factors(*(part[models] for part in parameters))
