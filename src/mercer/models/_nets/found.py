"""Structures as users type them: edges, names without states, and states that are numbers or booleans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mercer._array import as_array
from mercer._checks import is_missing
from mercer.models._nets.graph import GAUSSIAN

Declared = dict[str, Any]
"""Names of nodes, and of each its states, their number, "gaussian", or None: they are in the data."""
Known = Mapping[str, Mapping[Any, float]]
"""Names of nodes whose states are not all strings, and the code of each state."""


def is_edges(value: Any) -> bool:
    """Whether a value is a list of pairs (parent, child)."""
    pairs = isinstance(value, list | tuple) and bool(value)
    return pairs and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value)


def structure(nodes: Any, parents: Any) -> tuple[Declared | None, dict[str, Any]]:
    """Return nodes and parents as dicts; nodes are None if they are the columns of the data."""
    if is_edges(nodes):
        if parents is not None:
            raise ValueError("parents must be None if nodes are edges; got both. Use nodes=None, parents=edges.")
        nodes, parents = list(dict.fromkeys(name for edge in nodes for name in edge)), nodes
    if is_edges(parents):
        above: dict[str, list[str]] = {}
        for parent, child in parents:
            above.setdefault(child, []).append(parent)
        parents = above
    if nodes is not None and not isinstance(nodes, Mapping):
        twice = [name for i, name in enumerate(nodes) if name in nodes[:i]]
        if twice:
            raise ValueError(f"nodes must name each node once; got {twice[0]!r} twice.")
        nodes = dict.fromkeys(nodes)
    return nodes, dict(parents or {})


def is_complete(nodes: Declared | None) -> bool:
    """Whether nothing has to be found in data."""
    return nodes is not None and all(states is not None for states in nodes.values())


def as_text(states: Any) -> Any:
    """Return the names of states, of which some may be whole numbers or booleans; anything else as it is."""
    if not isinstance(states, list | tuple | np.ndarray):
        return states
    return [str(state) if isinstance(state, int | np.integer | np.bool_) else state for state in states]


def known_codes(nodes: Declared) -> Known:
    """Return the codes of states that are not all strings; their names are understood, too."""
    found: dict[str, dict[Any, float]] = {}
    for name, states in nodes.items():
        text = as_text(states)
        if isinstance(text, list) and text != list(states):
            found[name] = {state: float(code) for code, state in enumerate(text)}
            found[name] |= {state: float(code) for code, state in enumerate(states)}
    return found


def complete(nodes: Declared | None, hidden: Iterable[str], tables: list[Any]) -> Declared:
    """Return nodes with the states that are found in tables: in ascending order, or that of categories.

    Parameters
    ----------
    nodes : dict or None
        Names of the nodes and what is declared of each; None: the columns of the tables are the nodes.
    hidden : iterable of str
        Nodes that are not observed, whose states must be declared.
    tables : list of data frames, dicts, or arrays of shape (T, D)
        The data; the columns of arrays are the observed nodes in their order.
    """
    if nodes is None:
        names = [str(name) for name in _columns(tables[0])] if tables else []
        if not names:
            raise ValueError(
                "Without nodes, X must be a data frame, whose columns are the nodes; got none. Pass nodes=."
            )
        nodes = dict.fromkeys(names)
    for name in hidden:
        if name in nodes and nodes[name] is None:
            raise ValueError(
                f"The states of the hidden node {name!r} are not in the data. Declare their number, "
                f"nodes={{{name!r}: 2, ...}}, and None for nodes whose states are."
            )
    observed = [name for name in nodes if name not in set(hidden)]
    wanted = {name: k for k, name in enumerate(observed) if nodes[name] is None}
    found: dict[str, list[Any]] = {name: [_column(table, name, k) for table in tables] for name, k in wanted.items()}
    return {name: _states(name, found[name]) if name in found else states for name, states in nodes.items()}


def _columns(table: Any) -> list[Any]:
    return list(table) if isinstance(table, dict) else list(getattr(table, "columns", ()))


def _column(table: Any, name: str, k: int) -> Any:
    """Return the column of a node; no values if it is missing, which the reader of the data says better."""
    columns = _columns(table)
    by_name = {str(column): column for column in columns}
    if len(by_name) < len(columns):
        twice = next(str(column) for column in columns if list(map(str, columns)).count(str(column)) > 1)
        raise ValueError(f"The columns must have different names; got {twice!r} twice. Rename or drop one.")
    if isinstance(table, dict) or hasattr(table, "columns"):
        return table[by_name[name]] if name in by_name else []
    rows = table if hasattr(table, "shape") else as_array(table, "X", "rows of states")
    return rows[:, k] if rows.ndim == 2 and rows.shape[1] > k else []


def _states(name: str, columns: list[Any]) -> list[Any]:
    """Return the states in the columns of all tables."""
    kinds = [getattr(column, "dtype", None) for column in columns]
    if kinds and all(hasattr(kind, "categories") for kind in kinds):  # of pandas, in their own order
        return list(dict.fromkeys(state for kind in kinds for state in kind.categories.tolist()))  # type: ignore[union-attr]
    values = [value for column in columns for value in np.asarray(column).tolist() if not is_missing(value)]
    distinct = list(dict.fromkeys(int(v) if isinstance(v, float) and v.is_integer() else v for v in values))
    if not distinct:
        raise ValueError(
            f"X has no value of {name!r}, so its states are not known. Declare them: nodes={{{name!r}: [...]}}."
        )
    real = next((value for value in distinct if isinstance(value, float)), None)
    if real is not None:
        raise ValueError(
            f"{name!r} has the value {real:g}, which is not a state. Declare a Gaussian node, nodes={{{name!r}: "
            f"{GAUSSIAN!r}, ...}} with None for nodes whose states are in the data, or put its values into classes."
        )
    if len({type(value) for value in distinct}) > 1 or not isinstance(distinct[0], str | int):
        some = ", ".join(map(repr, distinct[:5]))
        raise ValueError(f"The values of {name!r} must be all strings, all whole numbers or all booleans; got {some}.")
    return sorted(distinct)
