"""Mean field bounds of networks: a distribution that factorizes over all nodes of both networks (PPK-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer._coupling import FieldOperand
from mercer.models._nets.contraction import BATCH, Labels, contract
from mercer.models._nets.graph import Graph
from mercer.models._nets.operand import Joined, NetOperand, joined

TOLERANCE = 1e-9
"""Sweeps end if no bound grows by more than this."""
SWEEPS = 1000
"""Most sweeps over all variables."""
LEAST = 1e-300
"""Probabilities below count as this while a bound is raised, so that logarithms are finite."""
NEVER = 1e-30
"""Beliefs below count as 0 when the result is compared with probabilities of 0."""


@dataclass
class NodeBound(FieldOperand):
    """A batch of networks whose probability products are bounded from below."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("rho", "n_init", "seed")

    nets: NetOperand
    rho: float
    n_init: int
    seed: int
    tile_hint: ClassVar[int] = 32

    @classmethod
    def of(cls, nets: NetOperand, rho: float, n_init: int, seed: int) -> Self:
        """Check that all nodes are discrete."""
        if nets.graph.gaussian:
            raise ValueError(
                "MeanField needs networks of discrete nodes; got the Gaussian node "
                f"{nets.graph.names[nets.graph.gaussian[0]]!r}. Use ProbabilityProduct."
            )
        return cls(nets, rho, n_init, seed)

    def pair(self, other: Self) -> Floats:
        """Compute the log bounds of all pairs, ``(I, J)``."""
        return self._bounds(other, aligned=False)

    def alone(self) -> Floats:
        """Compute the log bound of each member with itself."""
        return self._bounds(self, aligned=True)

    def _bounds(self, other: Self, *, aligned: bool) -> Floats:
        graph = joined(self.nets.graph, other.nets.graph, False, 1, aligned)
        factors, _ = self.nets.factors(other.nets, graph, aligned=aligned)
        tables = [to_numpy(x) for x in factors]
        shape = (len(self),) if aligned else (len(self), len(other))
        best = np.full(shape, -np.inf)
        for k in range(self.n_init):
            rng = None if k == 0 else np.random.default_rng([self.seed, k])
            best = np.maximum(best, _coordinate_ascent(graph, tables, self.rho, shape, rng, decided=False))
        stuck = np.isneginf(best)
        if stuck.any():
            best = np.where(stuck, _coordinate_ascent(graph, tables, self.rho, shape, None, decided=True), best)
        return best


def _coordinate_ascent(
    graph: Joined, tables: list[Floats], rho: float, shape: tuple[int, ...], rng: Any, *, decided: bool
) -> Floats:
    """Update one variable after the other until no bound grows; -inf if the beliefs allow what has probability 0.

    With ``decided``, each variable first takes its best state given the others, which ends ties between states.
    """
    inputs, sizes = graph.inputs, graph.sizes
    logs = [rho * np.log(np.maximum(x, LEAST)) for x in tables]
    batch = tuple(BATCH + k for k in range(len(shape)))
    used = sorted({v for labels in inputs for v in labels if v < BATCH})
    beliefs: dict[int, Floats] = {}
    for v in used:
        rows = np.ones((sizes[v], *shape)) if rng is None else rng.gamma(1.0, size=(sizes[v], *shape)) + 1e-3
        beliefs[v] = rows / rows.sum(axis=0)
    near = {v: [k for k, labels in enumerate(inputs) if v in labels] for v in used}
    before = np.full(shape, -np.inf)
    for sweep in range(SWEEPS):
        for v in used:
            parts: list[Any] = [_expected(inputs[k], logs[k], beliefs, v, batch) for k in near[v]]
            pull = np.broadcast_to(sum(parts), (sizes[v], *shape))
            weight = np.exp(pull - pull.max(axis=0))
            if decided and sweep == 0:
                weight = 1.0 * (np.arange(sizes[v]).reshape(-1, *[1] * len(shape)) == pull.argmax(axis=0))
            beliefs[v] = weight / weight.sum(axis=0)
        bound: Any = sum(_expected(labels, x, beliefs, -1, batch) for labels, x in zip(inputs, logs, strict=True))
        for q in beliefs.values():
            bound = bound - (q * np.log(np.maximum(q, LEAST))).sum(axis=0)
        if np.all(bound - before <= TOLERANCE):
            break
        before = bound
    possible = {v: np.where(q < NEVER, 0.0, q) for v, q in beliefs.items()}
    for labels, x in zip(inputs, tables, strict=True):
        if not (x > 0).all():
            bound = np.where(_expected(labels, 1.0 * (x <= 0), possible, -1, batch) > 0, -np.inf, bound)
    return np.asarray(bound)


def _expected(labels: Labels, x: Floats, beliefs: dict[int, Floats], v: int, batch: Labels) -> Floats:
    """Return the expectation of a log factor, given each state of variable v."""
    for u in labels:
        if u < BATCH and u != v:
            out = tuple(sorted({*labels, *batch} - {u}))
            x, labels = contract(x, labels, beliefs[u], (u, *batch), out), out
    full = ((v,) if v >= 0 else ()) + batch
    size = dict(zip(labels, x.shape, strict=True))
    return x.reshape(tuple(size.get(u, 1) for u in full))


# Checks of tables: from a table per node to one array of all entries.


def flat_rows(value: Any, graph: Graph, which: tuple[int, ...], name: str) -> Array | None:
    """Return the entries of all tables in one array ``(..., P)``; None if there are no such nodes."""
    if not isinstance(value, Mapping):
        return _checked_flat(value, graph, which, name)
    wanted = [graph.names[v] for v in which]
    for node in value:
        if node not in wanted:
            raise ValueError(f"{name} must have the nodes {', '.join(wanted[:20])}; got {node!r}.")
    if not which:
        return None
    parts = []
    for v in which:
        node, shape = graph.names[v], graph.shapes[v]
        if node not in value:
            raise ValueError(f"{name} must have a table for every node; {node!r} has none.")
        table = as_float(value[node], f"{name}[{node!r}]")
        lead = len(table.shape) - len(shape)
        if lead < 0 or tuple(table.shape[lead:]) != shape:
            axes = ", ".join((*(graph.names[u] for u in graph.above[v]), *([node] if graph.sizes[v] else [])))
            raise ValueError(
                f"{name}[{node!r}] must have shape (..., {', '.join(map(str, shape))}), the axes ({axes}); got "
                f"{tuple(table.shape)}."
            )
        parts.append(namespace(table).reshape(table, (*table.shape[:lead], prod(shape))))
    leads = {tuple(part.shape[:-1]) for part in parts}
    if len(leads) > 1:
        raise ValueError(f"All tables of {name} must have the same batch shape; got {sorted(leads)}.")
    return namespace(*parts).concat(parts, axis=-1)


def _checked_flat(value: Any, graph: Graph, which: tuple[int, ...], name: str) -> Array | None:
    size = sum(prod(graph.shapes[v]) for v in which)
    if value is None:
        if which:
            raise ValueError(f"{name} must be given for {graph.names[which[0]]!r}; got None.")
        return None
    rows = as_float(value, name)
    if len(rows.shape) == 0 or rows.shape[-1] != size:
        raise ValueError(
            f"{name} must have the {size} entries of all tables on its last axis; got {tuple(rows.shape)}."
        )
    return rows if which or len(rows.shape) > 1 else None


def checked_rows(graph: Graph, rows: Array, mean: Array, variance: Array) -> None:
    """Raise if a row of a table is not a distribution, or a Gaussian has no mean or variance."""
    flat = to_numpy(rows)
    flat = flat.reshape(prod(flat.shape[:-1]), flat.shape[-1])
    for v in graph.discrete:
        _check_table(graph, v, flat[:, graph.places[v]].reshape(len(flat), -1, graph.sizes[v]))
    for name, part, low in (("mean", mean, -np.inf), ("variance", variance, 0.0)):
        values = to_numpy(part)
        values = values.reshape(prod(values.shape[:-1]), values.shape[-1])
        for v in graph.gaussian:
            own = values[:, graph.places[v]]
            bad = np.argwhere(~(np.isfinite(own) & (own > low)))
            if len(bad):
                must = "finite" if name == "mean" else "positive and finite"
                raise ValueError(
                    f"{name} of {graph.row_name(v, int(bad[0][1]))} must be {must}; got {own[tuple(bad[0])]}"
                    f"{_of(bad[0][0], len(own))}."
                )


def _check_table(graph: Graph, v: int, table: Floats) -> None:
    total = table.sum(axis=-1)
    bad = np.argwhere(
        ~((table >= 0).all(axis=-1) & (np.abs(total - 1) <= (1e-4 if table.dtype == np.float32 else 1e-6)))
    )
    if not len(bad):
        return
    where = tuple(bad[0])
    negative = table[where][~(table[where] >= 0)]
    what = f"contains {negative[0]}" if len(negative) else f"sums to {total[where]:.8g}, not to one"
    raise ValueError(
        f"The row of {graph.row_name(v, int(where[1]))}{_of(where[0], len(table))} {what}. Divide counts by their sum."
    )


def _of(i: Any, n: int) -> str:
    return f" in network {int(i)}" if n > 1 else ""
