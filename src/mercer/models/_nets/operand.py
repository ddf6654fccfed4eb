"""Coupled networks: one factor graph of two networks over shared observed variables (PPK-4.3, GMMK-8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Array, beside, namespace
from mercer._coupling import Coupling, FieldOperand, PowerProduct, Smoothed, power
from mercer.families.gaussian import Gaussians
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.contraction import BATCH, Labels, Plan, find_plan, log_sums, relabeled
from mercer.models._nets.graph import Variables

LEFT, RIGHT = BATCH, BATCH + 1
"""Labels of the axes of the two batches."""
MEMORY = 1 << 21
"""Entries of the tables of all pairs that are contracted at once."""


class Factor(NamedTuple):
    """A factor of two networks: a table of one of them, a Gaussian node of both, or a base kernel of two states."""

    left: int
    """Table of the first network, or its node in a base kernel; -1 if it has none."""
    right: int
    """Table of the second network, or its node in a base kernel; -1 if it has none."""
    own: Labels
    """Labels of the axes of its array."""
    labels: Labels
    """The same, in ascending order and once each."""


class Layout(NamedTuple):
    """The factor graph of two structures."""

    factors: tuple[Factor, ...]
    sizes: tuple[int, ...]
    """Number of states of each variable."""
    batch: Labels
    """The batch axes."""

    @property
    def plan(self) -> Plan:
        """The plan of the contraction, which is found once."""
        return find_plan(tuple(factor.labels for factor in self.factors), self.sizes, self.batch)


def check_observed(p: Variables, q: Variables) -> None:
    """Raise if two structures differ in their observed variables."""
    mine, theirs = ({g.names[v]: g.states[v] for v in g.observed} for g in (p, q))
    missing = [*(mine.keys() ^ theirs.keys())]
    if missing:
        raise ValueError(
            f"Two networks must have the same observed variables; {min(missing)!r} is observed in only one of them. "
            "Use hidden=[...] for nodes that are not observed."
        )
    for name, states in mine.items():
        if set(states) != set(theirs[name]):
            raise ValueError(
                f"Two networks must have the same states of {name!r}; got {', '.join(states) or 'a Gaussian'} and "
                f"{', '.join(theirs[name]) or 'a Gaussian'}."
            )


@lru_cache(maxsize=256)
def layout_of(p: AnyGraph, q: AnyGraph, smoothed: bool, aligned: bool) -> Layout:
    """Join two structures at their observed variables.

    A mean map has an own copy of the observed variables on each side. If ``aligned``, member i of a batch is paired
    with member i of the other only.
    """
    # Variables of the first structure are its nodes.
    shared = {} if smoothed else {p.names[v]: v for v in p.observed}
    theirs, sizes = [], list(p.sizes)
    for name, size in zip(q.names, q.sizes, strict=True):
        theirs.append(shared.get(name, len(sizes)))
        sizes += [size] * (name not in shared)
    batch = (LEFT,) if aligned else (LEFT, RIGHT)
    found: list[Factor] = []

    def add(left: int, right: int, own: Labels) -> None:
        found.append(Factor(left, right, own, tuple(sorted(set(own)))))

    for v in p.tables:
        add(v, -1, (LEFT, *p.families[v]))
    for w in q.tables:
        add(-1, w, (batch[-1], *(theirs[u] for u in q.families[w])))
    for v in p.observed:
        w = q.number[p.names[v]]
        if p.sizes[v] and smoothed:
            add(v, w, (v, theirs[w]))
        elif not p.sizes[v]:
            add(v, w, (LEFT, *p.families[v], *batch[1:], *(theirs[u] for u in q.families[w])))
    return Layout(tuple(found), tuple(sizes), batch)


@dataclass
class NetOperand(FieldOperand):
    """A batch of networks of one structure under a coupling.

    Parameters
    ----------
    graph : Graph
        The structure.
    tables : dict
        Tables of the discrete nodes by number, ``(N, *parents, states)``, raised to the power of the coupling; tables
        of Gaussian nodes are batches of `Gaussians`, ``(N, *parents)``. The states of observed nodes are in the order
        of their names.
    coupling : Coupling
        What is computed.
    log_scale : array of shape (N,), default=None
        Logarithms of factors that all of the kernel values of a member have.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("graph", "coupling")

    graph: AnyGraph
    tables: dict[int, Any]
    coupling: Coupling
    log_scale: Any = None
    tile_hint: ClassVar[int] = 64

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(I, J)``."""
        layout = self._layout(other, aligned=False)
        # The larger side is divided until the tables fit into memory.
        (rows, columns), xp = (len(self), len(other)), namespace(self._any())
        if rows * columns < 2 or rows * columns * self._widest(layout) <= MEMORY:
            return self._values(other, layout)
        if rows >= columns:
            return xp.concat([part.pair(other) for part in (self[: rows // 2], self[rows // 2 :])], axis=0)
        return xp.concat([self.pair(part) for part in (other[: columns // 2], other[columns // 2 :])], axis=1)

    def alone(self) -> Array:
        """Compute the self-kernel of each member."""
        layout = self._layout(self, aligned=True)
        size = max(1, MEMORY // self._widest(layout))
        parts = [self[i : min(i + size, len(self))] for i in range(0, len(self), size)] or [self]
        return namespace(self._any()).concat([part._values(part, layout, aligned=True) for part in parts], axis=0)

    def _layout(self, other: Self, *, aligned: bool) -> Layout:
        return layout_of(self.graph, other.graph, isinstance(self.coupling, Smoothed), aligned)

    def _widest(self, layout: Layout) -> int:
        """Return the number of entries of the largest table of a pair; raise if there are too many."""
        layout.plan.check("The kernel of these networks")
        return layout.plan.largest

    def _any(self) -> Array:
        first = next(iter(self.tables.values()))
        return first.mean if isinstance(first, Gaussians) else first

    def _values(self, other: Self, layout: Layout, *, aligned: bool = False) -> Array:
        """Compute the log kernels of all pairs, or of aligned ones; raise if a table is too large."""
        layout.plan.check("The kernel of these networks")
        found, scales = [], self._log_scales(other, aligned=aligned)
        for (x, in_logs), factor in zip(self._factors(other, layout, aligned=aligned), layout.factors, strict=True):
            if in_logs:
                xp, n = namespace(x), sum(label < BATCH for label in factor.labels)
                top = xp.max(x, axis=tuple(range(n))) if n else x
                scales, x = scales + top, xp.exp(x - top)
            found.append(x)
        return log_sums(layout.plan, found) + scales

    def _log_scales(self, other: Self, *, aligned: bool) -> Any:
        if self.log_scale is None or other.log_scale is None:
            return 0.0
        return self.log_scale + other.log_scale if aligned else self.log_scale[:, None] + other.log_scale

    def _factors(self, other: Self, layout: Layout, *, aligned: bool) -> list[tuple[Array, bool]]:
        """Return all factors, and whether each is a logarithm."""
        like, found = self._any(), []
        xp = namespace(like)
        for left, right, own, labels in layout.factors:
            in_logs = False
            if right < 0 or left < 0:
                x = self.tables[left] if right < 0 else other.tables[right]
            elif self.graph.sizes[left]:
                assert isinstance(self.coupling, Smoothed)
                k, mismatch = self.graph.sizes[left], float(np.exp(-2.0 * self.coupling.gamma))
                x = beside(like, np.where(np.eye(k, dtype=bool), 1.0, mismatch), like.dtype)
            else:  # a factor of the two Gaussians of all pairs of rows of their tables, which may share parents
                p, q = self.tables[left], other.tables[right]
                size = (len(self), -1) if aligned else (-1,)
                logs = self.coupling.leaf(p.reshape(*size), q.reshape(*size))
                x, in_logs = xp.reshape(logs, (*p.shape, *q.shape[1 if aligned else 0 :])), True
            found.append((relabeled(x, own, labels), in_logs))
        return found


def operand_of(graph: AnyGraph, tables: dict[int, Any], coupling: Coupling, log_scale: Any = None) -> NetOperand:
    """Raise tables to the power of a coupling; raise if it is not one that networks have."""
    if not isinstance(coupling, PowerProduct | Smoothed):
        raise TypeError(
            f"Networks have no {type(coupling).__name__}. Use ProbabilityProduct, or MeanMap with base='rbf'."
        )
    raised = {v: x if isinstance(x, Gaussians) else power(x, coupling.power) for v, x in tables.items()}
    return NetOperand(graph, raised, coupling, log_scale)


def in_order(graph: AnyGraph, v: int, table: Array) -> Array:
    """Sort the states of observed nodes in table v, ``(N, *family)``, by their names."""
    for axis, u in enumerate(graph.families[v]):
        order = np.argsort(graph.states[u])
        if graph.names[u] not in graph.hidden and (order != np.arange(len(order))).any():
            table = namespace(table).take(table, beside(table, order), axis=axis + 1)
    return table
