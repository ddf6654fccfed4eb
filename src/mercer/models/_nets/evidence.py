"""Probabilities and expected counts of rows of data with missing values: contractions given evidence (FK-7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, Floats, Indices, Mask, beside, namespace, safe_log
from mercer.models._nets.contraction import BATCH, Labels, Plan, find_plan, posteriors, run, run_logs
from mercer.models._nets.graph import Graph

MODELS, ROWS = BATCH, BATCH + 1
"""Labels of the axes of networks and of rows."""
PATTERN_COST = 200_000
"""Cost of another pattern of missing values, in multiplications."""
MEMORY = 1 << 24
"""Entries of the tables that a contraction of several rows may make at once."""
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Group:
    """Rows of data that are contracted together.

    Values of nodes in ``seen`` are known in all of the rows, of those in ``partly`` in some; others are summed over.
    """

    graph: Graph
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
        """Nodes with a table that matters: discrete ones, and Gaussians with a value in some row."""
        graph = self.graph
        return tuple(v for v in range(len(graph.names)) if graph.sizes[v] or v in self.seen or v in self.partly)

    def places(self, v: int) -> Indices:
        """Return where the entries of the table of node v are that agree with each row, ``(*free, T)``."""
        if v not in self._places:
            self._places[v] = self._find_places(v)
        return self._places[v]

    @cached_property
    def _places(self) -> dict[int, Indices]:
        return {}

    def _find_places(self, v: int) -> Indices:
        graph, free = self.graph, self.free[v]
        shape = graph.shapes[v]
        strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
        at = np.zeros((*(graph.sizes[u] for u in free), len(self)), dtype=np.int64)
        for u, stride in zip(graph.families[v], strides, strict=True):
            if u in self.seen:
                at += stride * self.values[:, u].astype(np.int64)
            else:
                axes = [1] * at.ndim
                axes[free.index(u)] = graph.sizes[u]
                at += stride * np.arange(graph.sizes[u]).reshape(axes)
        return at

    def indicator(self, v: int) -> Floats:
        """Return 1 for the states of node v that agree with each row, ``(states, T)``."""
        column = self.values[:, v]
        return ((column == np.arange(self.graph.sizes[v])[:, None]) | np.isnan(column)).astype(np.float64)

    def plan(self, batch: Labels) -> Plan:
        """Return the plan of the contraction; batch axes are last in every factor."""
        labels = [(*self.free[v], *batch) for v in self.used]
        labels += [(v, ROWS) for v in self.partly if self.graph.sizes[v]]
        return find_plan(tuple(labels), self.graph.sizes, batch)

    @property
    def widest(self) -> int:
        """Entries of the largest table, and of all factors, for one row."""
        factors = sum(prod(self.graph.sizes[u] for u in self.free[v]) for v in self.used)
        return self.plan((ROWS,)).largest + factors

    def part(self, start: int, stop: int) -> Group:
        """Return some of the rows."""
        return Group(self.graph, self.rows[start:stop], self.values[start:stop], self.seen, self.partly)


def groups(graph: Graph, table: Floats) -> Iterator[Group]:
    """Divide rows ``(T, D)`` into groups: by their missing values, or all together if these vary much."""
    values = np.full((len(table), len(graph.names)), np.nan)
    values[:, list(graph.observed)] = table
    missing = np.isnan(values)
    kinds, which = np.unique(missing, axis=0, return_inverse=True)
    which = which.reshape(-1)
    together = _group(graph, values, np.arange(len(table)), missing)
    if len(kinds) > 1:
        cost = together.plan((ROWS,)).products * len(table)
        if cost > PATTERN_COST * len(kinds):
            for kind in range(len(kinds)):
                yield from _parts(_group(graph, values, np.flatnonzero(which == kind), missing))
            return
    yield from _parts(together)


def _group(graph: Graph, values: Floats, rows: Indices, missing: Mask) -> Group:
    never, always = ~missing[rows].any(axis=0), missing[rows].all(axis=0)
    partly = tuple(np.flatnonzero(~never & ~always).tolist())
    return Group(graph, rows, values[rows], frozenset(np.flatnonzero(never).tolist()), partly)


def _parts(group: Group) -> Iterator[Group]:
    """Divide a group so that its tables fit into memory."""
    plan = group.plan((ROWS,))
    plan.check("This network, given these rows,")
    size = max(1, MEMORY // group.widest)
    for start in range(0, len(group), size):
        yield group.part(start, start + size)


# -- factors ---------------------------------------------------------------------------------------------------


def crossed_factors(group: Group, probability: Array, mean: Array, variance: Array) -> tuple[list[Array], Array]:
    """Return factors of all networks ``(n, P)`` with all rows, over the batch axes, and log scales ``(n, T)``."""
    graph, xp = group.graph, namespace(probability)
    n = int(probability.shape[0])
    found, scales = [], beside(probability, np.zeros((n, len(group))), probability.dtype)
    for v in group.used:
        place, at = graph.places[v], group.places(v)
        flat = beside(probability, at.reshape(-1))

        def taken(x: Array, place: slice = place, flat: Any = flat, at: Any = at) -> Array:
            rows = xp.take(x[:, place], flat, axis=1)
            rows = xp.reshape(rows, (n, *at.shape))
            return xp.permute_dims(rows, (*range(1, at.ndim), 0, at.ndim))

        if graph.sizes[v]:
            found.append(taken(probability))
            continue
        logs = _log_density(group, v, taken(mean), taken(variance))
        top = xp.max(logs, axis=tuple(range(at.ndim - 1))) if at.ndim > 1 else logs
        scales = scales + top
        found.append(xp.exp(logs - top))
    for v in group.partly:
        if graph.sizes[v]:
            found.append(beside(probability, group.indicator(v), probability.dtype))
    return found, scales


def aligned_factors(
    group: Group, probability: Floats, mean: Floats, variance: Floats, owner: Indices
) -> tuple[list[Floats], Floats]:
    """Return factors of every row under its own network, over the batch axis of rows, and log scales ``(T,)``."""
    graph, found, scales = group.graph, [], np.zeros(len(group))
    model = owner[group.rows]
    for v in group.used:
        place, at = graph.places[v], group.places(v)
        if graph.sizes[v]:
            found.append(probability[model, place.start + at])
            continue
        logs = _log_density(group, v, mean[model, place.start + at], variance[model, place.start + at])
        top = logs.max(axis=tuple(range(at.ndim - 1)))
        scales += top
        found.append(np.exp(logs - top))
    found += [group.indicator(v) for v in group.partly if graph.sizes[v]]
    return found, scales


def _log_density(group: Group, v: int, mean: Array, variance: Array) -> Array:
    """Compute log densities of the values of a Gaussian node; 0 where they are missing."""
    xp, column = namespace(mean), group.values[:, v]
    seen = beside(mean, ~np.isnan(column))
    x = beside(mean, np.where(np.isnan(column), 0.0, column), mean.dtype)
    logs = -((x - mean) ** 2 / variance + xp.log(variance) + LOG_2PI) / 2
    return xp.where(seen, logs, xp.zeros_like(logs))


# -- results ---------------------------------------------------------------------------------------------------


def log_probabilities(graph: Graph, table: Floats, probability: Array, mean: Array, variance: Array) -> Array:
    """Return log probabilities of all rows under all networks, ``(n, P) x (T, D) -> (n, T)``."""
    xp, pieces, places = namespace(probability), [], []
    for group in groups(graph, table):
        plan = group.plan((MODELS, ROWS))
        size = max(1, MEMORY // (len(group) * group.widest))
        rows = []
        for start in range(0, max(int(probability.shape[0]), 1), size):
            models = slice(start, start + size)
            factors, scales = crossed_factors(group, probability[models, :], mean[models, :], variance[models, :])
            rows.append(scales + _rescued(plan, factors))
        pieces.append(xp.concat(rows, axis=0))
        places.append(group.rows)
    if not pieces:
        return beside(probability, np.zeros((int(probability.shape[0]), 0)), probability.dtype)
    joined = xp.concat(pieces, axis=1)
    return xp.take(joined, beside(probability, np.argsort(np.concatenate(places))), axis=1)


def _rescued(plan: Plan, factors: list[Array]) -> Array:
    """Contract scaled factors; in logarithms, if numbers underflow."""
    logs, lost = run(plan, factors)
    xp = namespace(logs)
    if not bool(xp.any(lost)):
        return logs
    return xp.where(lost, run_logs(plan, [safe_log(x) for x in factors]), logs)


class NetExpectations(NamedTuple):
    """Log probabilities of the rows of a group ``(T,)``, and posteriors of each table ``(*free, T)``."""

    logs: Floats
    tables: dict[int, Floats]


def expected(group: Group, parameters: tuple[Floats, Floats, Floats], owner: Indices) -> NetExpectations:
    """Return log probabilities and posteriors of the tables of all nodes, of each row under its own network."""
    factors, scales = aligned_factors(group, *parameters, owner)
    plan = group.plan((ROWS,))
    logs, lost, found = posteriors(plan, factors)
    if lost.any():
        logs = np.where(lost, run_logs(plan, [safe_log(x) for x in factors]), logs)
    return NetExpectations(scales + logs, {v: found[k] for k, v in enumerate(group.used)})
