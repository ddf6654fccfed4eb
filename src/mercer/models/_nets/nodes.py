"""What networks are made of: checked tables of nodes as one array, and other models as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer._checks import is_whole
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
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


class Parts(NamedTuple):
    """Arguments of a batch of networks."""

    probability: dict[str, Any]
    nodes: dict[str, Any]
    parents: dict[str, list[str]]
    hidden: list[str]
    mean: dict[str, Any] | None = None
    variance: dict[str, Any] | None = None


def hmm_parts(hmms: Any, length: Any, names: Sequence[str] | None = None) -> Parts:
    """Unroll hidden Markov models: hidden nodes "state0", ... and observed nodes "x0", ... or with other names."""
    if not is_whole(length):
        raise ValueError(f"length must be a whole number of observations, 1 or more; got {length!r}.")
    emission: Any = getattr(hmms, "emission", None)
    gaussian = isinstance(emission, Gaussians) and emission.dimension == 1
    if not gaussian and not isinstance(emission, Categoricals):
        raise TypeError(
            "A network is made of HMMs of symbols or of univariate Gaussians; got "
            f"{type(hmms).__name__} of {type(emission).__name__}."
        )
    seen = [f"x{t}" for t in range(length)] if names is None else list(names)
    if len(seen) != length or len(set(seen)) != length:
        raise ValueError(f"names must be {length} different names, one per observation; got {seen!r}.")
    state = [f"state{t}" for t in range(length)]
    while set(state) & set(seen):
        state = [f"_{name}" for name in state]
    n = int(hmms.initial.shape[-1])
    probability: dict[str, Array] = {state[0]: hmms.initial} | dict.fromkeys(state[1:], hmms.transition)
    parents = {state[t]: [state[t - 1]] for t in range(1, length)} | {x: [s] for x, s in zip(seen, state, strict=True)}
    nodes: dict[str, Any] = dict.fromkeys(state, n)
    if not gaussian:
        symbols = range(emission.probability.shape[-1]) if emission.alphabet is None else emission.alphabet.symbols
        nodes |= {x: [str(symbol) for symbol in symbols] for x in seen}
        return Parts(probability | dict.fromkeys(seen, emission.probability), nodes, parents, state)
    nodes |= dict.fromkeys(seen, "gaussian")
    xp = namespace(emission.mean)
    variance = emission.covariance
    axes = len(variance.shape) - len(emission.shape)
    variance = xp.reshape(variance, emission.shape) if axes else variance
    mean = emission.mean[..., 0]
    return Parts(probability, nodes, parents, state, dict.fromkeys(seen, mean), dict.fromkeys(seen, variance))


def pgmpy_parts(network: Any, hidden: Any) -> Parts:
    """Read a discrete network of pgmpy: its tables have the child first, then the parents."""
    if not hasattr(network, "get_cpds") or not hasattr(network, "nodes"):
        raise TypeError(f"Expected a discrete Bayesian network of pgmpy; got {type(network).__name__}.")
    tables = {cpd.variable: cpd for cpd in network.get_cpds()}
    missing = [name for name in network.nodes() if name not in tables]
    if missing:
        raise ValueError(f"The network has no table for {missing[0]!r}. Use add_cpds, or fit, first.")
    nodes, parents, probability = {}, {}, {}
    for name, cpd in tables.items():
        above = list(cpd.variables)[1:]
        states = (getattr(cpd, "state_names", None) or {}).get(name)
        nodes[str(name)] = [str(s) for s in (range(cpd.values.shape[0]) if states is None else states)]
        parents[str(name)] = [str(u) for u in above]
        table = np.moveaxis(np.asarray(to_numpy(cpd.values), dtype=np.float64), 0, -1)
        for axis, u in enumerate(above):  # a table may list the states of a parent in an order of its own
            mine = (getattr(cpd, "state_names", None) or {}).get(u)
            theirs = (getattr(tables[u], "state_names", None) or {}).get(u)
            if mine is not None and theirs is not None and list(mine) != list(theirs):
                table = np.take(table, [list(mine).index(s) for s in theirs], axis=axis)
        probability[str(name)] = table[None]
    return Parts(probability, nodes, parents, list(hidden))
