"""Exact samples of products of factors: nodes are eliminated, then drawn in the opposite order."""

from __future__ import annotations

from math import prod

import numpy as np

from mercer._array import Floats
from mercer._probability import drawn
from mercer.models._nets.cliques import CliqueGraph
from mercer.models._nets.contraction import LARGEST, elimination_order


def factor_samples(graph: CliqueGraph, tables: list[Floats], size: int, rng: np.random.Generator) -> Floats:
    """Sample configurations of all nodes of each of n networks, ``(n, size, V)``, from tables ``(n, *states)``."""
    factors = list(zip(graph.families, tables, strict=True))
    order = elimination_order(tuple(graph.families), graph.sizes, by_fill=True)
    steps = []
    for v in order:
        own = [factor for factor in factors if v in factor[0]]
        around = (*sorted({u for family, _ in own for u in family} - {v}), v)
        entries = prod(graph.sizes[u] for u in around)
        if entries > LARGEST:
            raise ValueError(
                f"Samples of this network need a table of {entries:,} entries, more than {LARGEST:,}. Use a network "
                "with fewer edges or fewer states."
            )
        table = _product(own, around)
        table = table / np.maximum(table.max(axis=tuple(range(1, table.ndim)), keepdims=True), np.finfo(float).tiny)
        steps.append((v, around[:-1], table))
        factors = [factor for factor in factors if v not in factor[0]]
        factors.append((around[:-1], table.sum(axis=-1)))
    n = len(tables[0])
    values, members = np.zeros((n, size, len(graph.names)), dtype=np.int64), np.arange(n)[:, None]
    for v, above, table in reversed(steps):
        rows = table[(members, *(values[:, :, u] for u in above))]
        rows = np.broadcast_to(rows, (n, size, graph.sizes[v]))  # a node without neighbors has one row
        values[:, :, v] = drawn(np.cumsum(rows, axis=-1), rng.random((n, size)))
    return values.astype(np.float64)


def _product(factors: list[tuple[tuple[int, ...], Floats]], around: tuple[int, ...]) -> Floats:
    """Multiply factors ``(n, *family)`` to one table ``(n, *around)``."""
    names = {v: letter + 1 for letter, v in enumerate(around)}
    found = np.ones(1)
    total: Floats = found
    for family, table in factors:
        own = [0, *(names[u] for u in family)]
        ordered = np.einsum(table, own, sorted(own))
        shape = [table.shape[0], *(1,) * len(around)]
        for axis, label in enumerate(sorted(own)):
            shape[label] = ordered.shape[axis]
        total = total * ordered.reshape(shape)
    return total
