"""Coupled networks: one factor graph of two networks over shared observed variables (PPK-4.3, GMMK-8)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Indices, beside, namespace, safe_log, to_numpy
from mercer._coupling import Coupling, FieldOperand, PowerProduct, Smoothed, power
from mercer.families.gaussian import Gaussians
from mercer.models._nets.contraction import BATCH, Labels, Plan, find_plan, run, run_logs
from mercer.models._nets.graph import Graph
from mercer.models.powers import require_whole

LEFT, RIGHT = BATCH, BATCH + 1
"""Labels of the axes of the two batches."""
MEMORY = 1 << 21
"""Entries of the tables of all pairs that are contracted at once."""

logger = logging.getLogger("mercer")


@dataclass(frozen=True)
class Joined:
    """The factor graph of two structures."""

    inputs: tuple[Labels, ...]
    """Labels of every factor."""
    sizes: tuple[int, ...]
    """Number of states of every variable."""
    left: tuple[tuple[int, tuple[int, ...]], ...]
    """Node of every factor of the first network, and the permutation of the axes of its table."""
    right: tuple[tuple[int, tuple[int, ...]], ...]
    matches: tuple[int, ...]
    """Numbers of states of the variables whose two copies a mean map compares."""
    leaves: tuple[tuple[int, int, Indices], ...]
    """Gaussian nodes of both networks, and which pairs of rows of their tables the entries of their factor are."""


@dataclass(frozen=True)
class Layout:
    """The factor graph of two structures and its plan."""

    graph: Joined
    plan: Plan


def check_observed(p: Graph, q: Graph) -> None:
    """Raise if two structures differ in their observed variables."""
    mine, theirs = ({g.names[v]: g.states[v] for v in g.observed} for g in (p, q))
    for one, other in ((mine, theirs), (theirs, mine)):
        missing = [name for name in one if name not in other]
        if missing:
            raise ValueError(
                f"Two networks must have the same observed variables; {missing[0]!r} is observed in only one of them. "
                "Use hidden=[...] for nodes that are not observed."
            )
    for name, states in mine.items():
        if set(states) != set(theirs[name]):
            raise ValueError(
                f"Two networks must have the same states of {name!r}; got {', '.join(states) or 'a Gaussian'} and "
                f"{', '.join(theirs[name]) or 'a Gaussian'}."
            )


@lru_cache(maxsize=256)
def layout_of(p: Graph, q: Graph, smoothed: bool, copies: int, aligned: bool) -> Layout:
    """Join two structures as `joined` does, and find the plan of the contraction; raise if it is hopeless."""
    graph = joined(p, q, smoothed, copies, aligned)
    plan = find_plan(graph.inputs, graph.sizes, (LEFT,) if aligned else (LEFT, RIGHT))
    logger.info(
        "Contraction of networks of %d and %d nodes: %s multiplications per pair, largest table %s entries",
        len(p.names),
        len(q.names),
        f"{plan.products:,}",
        f"{plan.largest:,}",
    )
    plan.check("The kernel of these networks")
    return Layout(graph, plan)


@lru_cache(maxsize=256)
def joined(p: Graph, q: Graph, smoothed: bool, copies: int, aligned: bool) -> Joined:
    """Join two structures at their observed variables.

    A mean map has an own copy of the observed variables on each side. With several ``copies``, the hidden variables of
    each side occur as often. If ``aligned``, member i of a batch is paired with member i of the other only.
    """
    sizes = list(p.sizes)
    shared = {} if smoothed else {q.number[p.names[v]]: v for v in p.observed}

    def fresh(size: int) -> int:
        sizes.append(size)
        return len(sizes) - 1

    def numbered(graph: Graph, known: dict[int, int]) -> list[dict[int, int]]:
        base = {v: known[v] if v in known else fresh(graph.sizes[v]) for v in range(len(graph.names))}
        hidden = [graph.number[name] for name in graph.hidden]
        return [base, *(base | {v: fresh(graph.sizes[v]) for v in hidden} for _ in range(copies - 1))]

    mine, theirs = numbered(p, {v: v for v in range(len(p.names))}), numbered(q, shared)
    last = LEFT if aligned else RIGHT
    inputs: list[Labels] = []
    factors: list[list[tuple[int, tuple[int, ...]]]] = [[], []]
    for side, (graph, copied, batch) in enumerate(((p, mine, LEFT), (q, theirs, last))):
        known: set[Labels] = set()
        for variables in copied:
            for v in graph.discrete:
                names = [variables[u] for u in graph.families[v]]
                order = tuple(int(k) for k in np.argsort(names))
                labels = (*(names[k] for k in order), batch)
                if (v, *labels) in known:
                    continue  # of observed variables only: its power is in the table
                known.add((v, *labels))
                inputs.append(labels)
                factors[side].append((v, order))
    matches = []
    if smoothed:
        for v in p.observed:
            if p.sizes[v]:
                inputs.append(tuple(sorted((mine[0][v], theirs[0][q.number[p.names[v]]]))))
                matches.append(p.sizes[v])
    leaves = []
    for v in p.gaussian:
        w = q.number[p.names[v]]
        upper = [mine[0][u] for u in p.families[v]], [theirs[0][u] for u in q.families[w]]
        labels = tuple(sorted({*upper[0], *upper[1]}))
        inputs.append((*labels, LEFT, *(() if aligned else (RIGHT,))))
        leaves.append((v, w, _leaf_index(p, q, (v, w), upper, labels, sizes)))
    return Joined(tuple(inputs), tuple(sizes), tuple(factors[0]), tuple(factors[1]), tuple(matches), tuple(leaves))


def _leaf_index(
    p: Graph, q: Graph, node: tuple[int, int], upper: tuple[list[int], list[int]], labels: Labels, sizes: list[int]
) -> Indices:
    """Return, for all states of the parents of a Gaussian node, the pair of rows of the two tables."""
    at = np.indices([sizes[label] for label in labels])
    rows = []
    for graph, v, above in ((p, node[0], upper[0]), (q, node[1], upper[1])):
        row = np.zeros(at.shape[1:], dtype=np.int64)
        for u, label in zip(graph.families[v], above, strict=True):
            code = at[labels.index(label)]
            if graph.names[u] not in graph.hidden:  # states are in the order of the first network
                wanted = p.states[p.number[graph.names[u]]]
                code = np.array([graph.states[u].index(state) for state in wanted])[code]
            row = row * graph.sizes[u] + code
        rows.append(row)
    return rows[0] * prod(q.shapes[node[1]]) + rows[1]


@dataclass
class NetOperand(FieldOperand):
    """A batch of networks of one structure under a coupling.

    Parameters
    ----------
    graph : Graph
        The structure.
    tables : dict
        Tables of the discrete nodes by number, ``(N, *parents, states)``, raised to the power of the coupling; tables
        of Gaussian nodes are batches of `Gaussians`, ``(N, rows)``.
    coupling : Coupling
        What is computed.
    copies : int
        Number of copies of the hidden variables.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("graph", "coupling", "copies")

    graph: Graph
    tables: dict[int, Any]
    coupling: Coupling
    copies: int = 1
    tile_hint: ClassVar[int] = 64

    @property
    def _smoothed(self) -> bool:
        return isinstance(self.coupling, Smoothed)

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(I, J)``."""
        copies = max(self.copies, other.copies)
        layout = layout_of(self.graph, other.graph, self._smoothed, copies, aligned=False)
        xp = namespace(self._any())
        rows = max(1, min(len(self), MEMORY // layout.plan.largest))
        columns = max(1, min(len(other), MEMORY // (layout.plan.largest * rows)))
        return xp.concat(
            [
                xp.concat(
                    [
                        self[i : min(i + rows, len(self))]._block(other[j : min(j + columns, len(other))], layout)
                        for j in range(0, len(other), columns)
                    ],
                    axis=1,
                )
                for i in range(0, len(self), rows)
            ],
            axis=0,
        )

    def _block(self, other: Self, layout: Layout) -> Array:
        factors, scales = self.factors(other, layout.graph, aligned=False)
        logs, lost = run(layout.plan, factors)
        xp = namespace(logs)
        if bool(xp.any(lost)):
            rows = [_careful(layout, self[i : i + 1], other, lost[i, :]) for i in range(len(self))]
            logs = xp.where(lost, xp.concat(rows, axis=0), logs)
        return logs + scales

    def alone(self) -> Array:
        """Compute the self-kernel of each member."""
        layout = layout_of(self.graph, self.graph, self._smoothed, self.copies, aligned=True)
        xp, size = namespace(self._any()), max(1, MEMORY // layout.plan.largest)
        rows = []
        for i in range(0, len(self), size):
            part = self[i : min(i + size, len(self))]
            factors, scales = part.factors(part, layout.graph, aligned=True)
            logs, lost = run(layout.plan, factors)
            if bool(xp.any(lost)):
                logs = xp.where(lost, run_logs(layout.plan, [safe_log(x) for x in factors]), logs)
            rows.append(logs + scales)
        return xp.concat(rows, axis=0)

    def _any(self) -> Array:
        first = next(iter(self.tables.values()))
        return first.mean if isinstance(first, Gaussians) else first

    def factors(self, other: Self, graph: Joined, *, aligned: bool) -> tuple[list[Array], Any]:
        """Return the factors of a block of pairs, and the logarithms of what Gaussian factors were divided by."""
        mine = self._any()
        xp = namespace(mine)
        found = [_turned(self.tables[v], order) for v, order in graph.left]
        moved = other._with_states_of(self.graph)
        found += [_turned(moved[v], order) for v, order in graph.right]
        if isinstance(self.coupling, Smoothed):
            other_state = float(np.exp(-2.0 * self.coupling.gamma))
            found += [
                beside(mine, np.where(np.eye(k, dtype=bool), 1.0, other_state), mine.dtype) for k in graph.matches
            ]
        scales: Any = 0.0
        for v, w, index in graph.leaves:
            logs = self._leaf(other, v, w, aligned=aligned)
            logs = xp.take(logs, beside(mine, index.reshape(-1)), axis=0)
            logs = xp.reshape(logs, (*index.shape, *logs.shape[1:]))
            top = xp.max(logs, axis=tuple(range(index.ndim))) if index.ndim else logs
            scales = scales + top
            found.append(xp.exp(logs - top))
        return found, scales

    def _leaf(self, other: Self, v: int, w: int, *, aligned: bool) -> Array:
        """Return the log kernels of a Gaussian node, over pairs of rows of the tables and the batch axes."""
        p, q = self.tables[v], other.tables[w]
        xp = namespace(p.mean)
        pairs = p.shape[1] * q.shape[1]
        if aligned:
            return xp.reshape(xp.permute_dims(self.coupling.leaf(p, q), (1, 2, 0)), (pairs, len(self)))
        logs = self.coupling.leaf(p.reshape(-1), q.reshape(-1))
        logs = xp.reshape(logs, (len(self), p.shape[1], len(other), q.shape[1]))
        return xp.reshape(xp.permute_dims(logs, (1, 3, 0, 2)), (pairs, len(self), len(other)))

    def _with_states_of(self, reference: Graph) -> dict[int, Any]:
        """Return the tables with the states of observed nodes in the order of another structure."""
        graph, found = self.graph, dict(self.tables)
        turned = {}
        for v in graph.observed:
            wanted = reference.states[reference.number[graph.names[v]]]
            if wanted != graph.states[v]:
                turned[v] = [graph.states[v].index(state) for state in wanted]
        for v in graph.discrete:
            for axis, u in enumerate(graph.families[v]):
                if u in turned:
                    x = found[v]
                    found[v] = namespace(x).take(x, beside(x, np.array(turned[u])), axis=axis + 1)
        return found


def _turned(table: Array, order: tuple[int, ...]) -> Array:
    """Bring a table ``(N, *family)`` to ascending labels with the batch axis last."""
    return namespace(table).permute_dims(table, (*(k + 1 for k in order), 0))


def _careful(layout: Layout, one: NetOperand, other: NetOperand, lost: Array) -> Array:
    """Compute one row of a block in logarithms, where needed."""
    xp = namespace(lost)
    where = np.flatnonzero(to_numpy(lost))
    template = one._any()
    row = beside(template, np.full((1, len(other)), -np.inf), template.dtype)
    if not len(where):
        return row
    factors, _ = one.factors(other[where], layout.graph, aligned=False)
    logs = run_logs(layout.plan, [safe_log(x) for x in factors])
    place = np.cumsum(to_numpy(lost)) - 1
    spread = xp.take(logs, beside(template, np.maximum(place, 0)), axis=1)
    return xp.where(lost[None, :], spread, row)


def operand_of(graph: Graph, tables: dict[int, Any], coupling: Coupling) -> NetOperand:
    """Raise tables to the power of a coupling; raise if it is not one that networks have."""
    copies = 1
    if isinstance(coupling, PowerProduct):
        rho = coupling.rho
        if coupling.marginal and graph.hidden:
            require_whole(rho, "BayesNets")
            copies = int(rho)
            if graph.gaussian and copies > 1:
                raise ValueError(
                    "marginal=True needs networks without Gaussian nodes if rho > 1; got "
                    f"{graph.names[graph.gaussian[0]]!r} and rho = {rho}. Use marginal=False."
                )
    elif not isinstance(coupling, Smoothed):
        raise TypeError(
            f"BayesNets have no {type(coupling).__name__}. Use ProbabilityProduct, or MeanMap with base='rbf'."
        )
    raised = {}
    for v, x in tables.items():
        if isinstance(x, Gaussians):
            raised[v] = x
            continue
        # With copies of hidden variables, only tables of observed variables alone are not repeated.
        whole = copies > 1 and any(graph.names[u] in graph.hidden for u in graph.families[v])
        raised[v] = x if whole else power(x, coupling.power)
    return NetOperand(graph, raised, coupling, copies)
