"""The structure of a network: nodes with their states, parents, and where each table is among the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any

import numpy as np

from mercer._array import Floats, as_array, to_numpy
from mercer._checks import is_missing, is_whole


def values_of(
    graph: Variables, x: Any, *, complete: bool = False, known: Mapping[str, Mapping[Any, float]] | None = None
) -> Floats:
    """Return points as floats ``(T, D)``: codes of states, real values of Gaussians, NaN where missing.

    Parameters
    ----------
    graph : Variables
        The structure; its observed nodes are the columns.
    x : array of shape (T, D), data frame, or dict
        Codes or names of states. The columns of a data frame and the keys of a dict (one point) are names of nodes;
        nodes that they do not name are missing.
    complete : bool
        Whether a data frame must have all nodes, as for a fit, which cannot learn about the others.
    known : mapping, default=None
        Nodes whose states are not all strings, and the codes of their states: such columns have states, no codes.
    """
    known = known or {}
    names = [graph.names[v] for v in graph.observed]
    if isinstance(x, dict) or hasattr(x, "columns"):
        found = {str(name): np.atleast_1d(np.asarray(x[name])) for name in (x if isinstance(x, dict) else x.columns)}
        unknown = [name for name in found if name not in names]
        missing = [name for name in names if name not in found] if complete else []
        if unknown or missing:
            what = f"{unknown[0]!r} is not one. Rename or drop it" if unknown else f"{missing[0]!r} is missing. Add it"
            raise ValueError(f"The columns must be the observed nodes {_some(names)}; {what}.")
        sizes = {name: len(column) for name, column in found.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"The columns must have the same length; got {sizes}.")
        absent = np.full(max(sizes.values(), default=1), np.nan)
        columns = [found.get(name, absent) for name in names]
    else:
        table = to_numpy(x if hasattr(x, "shape") else as_array(x, "Points", f"rows of {len(names)} states"))
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(
                f"Points must have shape (T, {len(names)}), one column per observed node; got {tuple(table.shape)}."
            )
        columns = list(table.T)
    given = [known.get(name) for name in names]
    coded = zip(graph.observed, columns, given, strict=True)
    values = np.stack([_coded(graph, v, column, codes) for v, column, codes in coded], axis=1)
    check_values(graph, values)
    return values


def _coded(graph: Variables, v: int, column: Any, known: Mapping[Any, float] | None) -> Floats:
    """Return the codes of a column of states, or of numbers."""
    if column.dtype.kind in "biuf" and known is None:
        return np.asarray(column, dtype=np.float64)
    codes: Mapping[Any, float] = known or {state: float(code) for code, state in enumerate(graph.states[v])}
    out = np.full(len(column), np.nan)
    for row, value in enumerate(column.tolist()):
        if is_missing(value):
            continue
        if (isinstance(value, str) or known) and graph.sizes[v] and value not in codes:
            states = _some(graph.states[v])
            raise ValueError(f"Row {row} has {value!r} in {graph.names[v]!r}, whose states are {states}.")
        try:
            out[row] = codes.get(value, value)
        except (TypeError, ValueError):
            raise TypeError(f"Row {row} has {value!r} in {graph.names[v]!r}; expected a number.") from None
    return out


def check_values(graph: Variables, table: Floats) -> None:
    """Raise if a value is not a code of a state, or not finite."""
    for k, v in enumerate(graph.observed):
        column, size = table[:, k], graph.sizes[v]
        good = np.isnan(column)
        good |= (column >= 0) & (column < size) & (column == np.floor(column)) if size else np.isfinite(column)
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            must = f"a code from 0 to {size - 1}" if size else "a finite number"
            raise ValueError(
                f"Row {row} has {column[row]:g} in {graph.names[v]!r}; expected {must}, or NaN if missing."
            )


GAUSSIAN = "gaussian"
"""The word that declares a node with real values."""
LARGEST_TABLE = 1 << 24
"""Entries of the largest table of a node, 128 MiB: a file of a few lines can ask for one."""

States = tuple[str, ...]
Nodes = tuple[tuple[str, States], ...]
"""Names and states; a Gaussian node has none."""
Parents = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Variables:
    """The nodes of a network, numbered in their given order, and which of them are hidden."""

    nodes: Nodes
    hidden: tuple[str, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(name for name, _ in self.nodes)

    @cached_property
    def number(self) -> dict[str, int]:
        """Number of each node by its name."""
        return {name: v for v, name in enumerate(self.names)}

    @cached_property
    def states(self) -> tuple[States, ...]:
        """Names of the states of each node; none for a Gaussian."""
        return tuple(states for _, states in self.nodes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each node; 0 for a Gaussian."""
        return tuple(map(len, self.states))

    @cached_property
    def gaussian(self) -> tuple[int, ...]:
        """Numbers of the Gaussian nodes."""
        return tuple(v for v, size in enumerate(self.sizes) if not size)

    @cached_property
    def observed(self) -> tuple[int, ...]:
        """Numbers of the observed nodes: the columns of data."""
        return tuple(v for v, name in enumerate(self.names) if name not in self.hidden)


@dataclass(frozen=True)
class Graph(Variables):
    """A directed acyclic graph of discrete nodes, with Gaussian leaves. Each node has a table of the same number."""

    parents: Parents

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """Parents of each node, by number."""
        return tuple(tuple(self.number[name] for name in row) for _, row in self.parents)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of the table of each node: its parents, and for a discrete node its own states."""
        return tuple(
            (*(self.sizes[u] for u in above), *((size,) if size else ()))
            for above, size in zip(self.above, self.sizes, strict=True)
        )

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Variables of the table of each node, in the order of its axes."""
        return tuple((*above, *((v,) if self.sizes[v] else ())) for v, above in enumerate(self.above))

    @cached_property
    def discrete(self) -> tuple[int, ...]:
        """Numbers of the discrete nodes."""
        return tuple(v for v, size in enumerate(self.sizes) if size)

    @cached_property
    def tables(self) -> tuple[int, ...]:
        """Numbers of the tables of probabilities: those of the discrete nodes."""
        return self.discrete

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Numbers of the nodes, parents first."""
        return tuple(TopologicalSorter(dict(enumerate(self.above))).static_order())

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the table of each node is among the probabilities, or among the means of Gaussians."""
        ends, found = {True: 0, False: 0}, []
        for size, shape in zip(self.sizes, self.shapes, strict=True):
            kind = bool(size)
            found.append(slice(ends[kind], ends[kind] + prod(shape)))
            ends[kind] = found[-1].stop
        return tuple(found)

    @cached_property
    def n_probabilities(self) -> int:
        """Number of entries of all tables of discrete nodes."""
        return sum(prod(self.shapes[v]) for v in self.discrete)

    @cached_property
    def n_means(self) -> int:
        """Number of entries of all tables of Gaussian nodes."""
        return sum(prod(self.shapes[v]) for v in self.gaussian)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Number of free parameters of each node."""
        return tuple(
            prod(shape[:-1]) * (size - 1) if size else 2 * prod(shape)
            for size, shape in zip(self.sizes, self.shapes, strict=True)
        )

    def given(self, v: int, row: int) -> str:
        """Return the states of the parents in a row of the table of a node, such as " | rain=no"."""
        parts = []
        for u in reversed(self.above[v]):
            row, state = divmod(row, self.sizes[u])
            parts.append(f"{self.names[u]}={self.states[u][state]}")
        return f" | {', '.join(reversed(parts))}" if parts else ""

    def row_name(self, v: int, row: int) -> str:
        """Name a row of the table of a node by the states of its parents."""
        return f"{self.names[v]!r}{self.given(v, row).replace(' |', ' given', 1)}"


@lru_cache(maxsize=1024)
def graph_of(nodes: Nodes, parents: Parents, hidden: tuple[str, ...]) -> Graph:
    """Return the one graph of a structure, so that what depends on it is found once."""
    return Graph(nodes, hidden, parents)


def checked_graph(nodes: Any, parents: Any, hidden: Any) -> Graph:
    """Return the graph of nodes and parents; raise if they are not a directed acyclic graph of this kind."""
    try:
        declared, edges = dict(nodes), {name: _listed(above) for name, above in dict(parents or {}).items()}
        concealed = _listed(hidden)
    except (TypeError, ValueError):
        raise TypeError(
            "nodes must map names to states, parents names to lists of names, and hidden must list names; got "
            f"{nodes!r}, {parents!r} and {hidden!r}."
        ) from None
    if not declared:
        raise ValueError("nodes must have at least one node; got none.")
    kept = {_name(name): _states(name, states) for name, states in declared.items()}
    for child, above in edges.items():
        for name in (child, *above):
            if name not in kept:
                raise ValueError(f"parents must name nodes among {_some(kept)}; got {name!r}.")
        if len(set(above)) < len(above):
            raise ValueError(f"parents[{child!r}] must name each node once; got {list(above)!r}.")
        for name in above:
            if not kept[name]:
                raise ValueError(f"A Gaussian node has no children; got the parent {name!r} of {child!r}.")
    _check_hidden(kept, concealed)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        raise ValueError(f"parents must have no cycle; got {' -> '.join(map(str, error.args[1]))}.") from None
    graph = graph_of(tuple(kept.items()), tuple((name, edges.get(name, ())) for name in kept), concealed)
    for v, shape in enumerate(graph.shapes):
        if prod(shape) > LARGEST_TABLE:
            raise ValueError(
                f"The table of {graph.names[v]!r} has {prod(shape):,} entries, more than {LARGEST_TABLE:,}. Use fewer "
                "parents or states."
            )
    return graph


def _check_hidden(kept: Mapping[str, States], hidden: tuple[str, ...]) -> None:
    for name in hidden:
        if name not in kept or hidden.count(name) > 1:
            raise ValueError(f"hidden must name nodes among {_some(kept)}, each once; got {name!r}.")
        if not kept[name]:
            raise ValueError(f"A Gaussian node must be observed; got {name!r} in hidden.")
    if len(hidden) == len(kept):
        raise ValueError(f"At least one node must be observed; got all {len(hidden)} in hidden.")


def _listed(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError
    listed = tuple(value)
    hash(listed)  # names can be looked up
    return listed


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"A node must have a name, a nonempty string; got {name!r}.")
    return name


def _states(name: str, states: Any) -> States:
    """Return the names of states; a number stands for "0", "1", ..., and the word for a Gaussian for none."""
    if isinstance(states, str):
        if states != GAUSSIAN:
            raise ValueError(f"nodes[{name!r}] must be states, their number or {GAUSSIAN!r}; got {states!r}.")
        return ()
    if is_whole(states):
        if states > LARGEST_TABLE:
            raise ValueError(f"nodes[{name!r}] must have at most {LARGEST_TABLE:,} states; got {states}.")
        return tuple(map(str, range(states)))
    try:
        found = tuple(states)
    except TypeError:
        raise TypeError(f"nodes[{name!r}] must be states, their number or {GAUSSIAN!r}; got {states!r}.") from None
    if not found:
        return ()  # a Gaussian, as it is kept
    for state in found:
        if not isinstance(state, str):
            raise TypeError(f"The states of {name!r} must be strings; got {state!r}.")
    if len(set(found)) < len(found):
        twice = next(state for k, state in enumerate(found) if state in found[:k])
        raise ValueError(f"The states of {name!r} must have different names; got {twice!r} twice.")
    return found


def _some(names: Any) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown if len(shown) <= 20 else [*shown[:20], "..."])


def described(graph: Graph) -> str:
    """Return a table of the nodes as text."""
    rows = [("node", "parents", "parameters", "states")]
    for v, (name, states) in enumerate(graph.nodes):
        above = ", ".join(graph.parents[v][1]) or "-"
        name = f"{name} (hidden)" if name in graph.hidden else name
        rows.append((name, above, str(graph.free[v]), _some(states) or "Gaussian"))
    first, second = (max(len(row[k]) for row in rows) for k in (0, 1))
    lines = [f"{a:<{first}}  {b:<{second}}  {c:>10}  {d}" for a, b, c, d in rows]
    hidden = f" ({len(graph.hidden)} hidden)" if graph.hidden else ""
    return "\n".join([f"BayesNet of {len(graph.nodes)} nodes{hidden}, {sum(graph.free)} free parameters", *lines])


def framed(graph: Variables, x: Any, v: int, found: Floats) -> Any:
    """Return the posteriors of node v at points ``x``, ``(n, T, states)``, as a frame of pandas."""
    import pandas as pd

    n, points, _ = found.shape
    rows = x.index if isinstance(x, pd.DataFrame) else pd.RangeIndex(points)
    if n > 1:
        rows = pd.MultiIndex.from_product([range(n), rows], names=["network", rows.name or "point"])
    columns = pd.Index(graph.states[v], name=graph.names[v])
    return pd.DataFrame(found.reshape(n * points, -1), index=rows, columns=columns)
