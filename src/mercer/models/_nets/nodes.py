"""Checks of the tables of networks: from a table per node to one array of all entries."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer.models._nets.graph import Graph


def flat_rows(value: Any, graph: Graph, which: tuple[int, ...], name: str) -> Array | None:
    """Return the entries of all tables in one array ``(..., P)``; None if there are no such nodes."""
    wanted, value = [graph.names[v] for v in which], {} if value is None else value
    if not isinstance(value, Mapping):  # as files have it
        rows, size = as_float(value, name), sum(prod(graph.shapes[v]) for v in which)
        if tuple(rows.shape[-1:]) != (size,):
            raise ValueError(f"{name} must have the {size} entries of all tables; got shape {tuple(rows.shape)}.")
        return rows if which else None
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
