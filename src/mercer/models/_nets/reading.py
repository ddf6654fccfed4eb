"""From data to codes: rows of values of the observed nodes, by name or by column."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, as_array, to_numpy
from mercer.models._nets.graph import Graph


def values_of(graph: Graph, x: Any, *, complete: bool = False) -> Floats:
    """Return points as floats ``(T, D)``: codes of states, real values of Gaussians, NaN where missing.

    Parameters
    ----------
    graph : Graph
        The structure; its observed nodes are the columns.
    x : array of shape (T, D), data frame, or dict
        Codes or names of states. The columns of a data frame and the keys of a dict (one point) are names of nodes;
        nodes that they do not name are missing.
    complete : bool
        Whether a data frame must have all nodes, as for a fit, which cannot learn about the others.
    """
    names = [graph.names[v] for v in graph.observed]
    if isinstance(x, dict):
        _check_names(list(x), names, complete=False)
        x = [[x.get(name) for name in names]]
    elif hasattr(x, "columns"):
        found = [str(name) for name in x.columns]
        _check_names(found, names, complete=complete)
        known = [k for k, name in enumerate(names) if name in found]
        values = x[[names[k] for k in known]].to_numpy()
        x = values
        if len(known) < len(names):
            x = np.full((len(values), len(names)), None, dtype=object)
            x[:, known] = values
    table = x if hasattr(x, "shape") else as_array(x, "Points", f"rows of {len(names)} states")
    table = np.asarray(to_numpy(table))
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(
            f"Points must have shape (T, {len(names)}), one column per observed node; got {tuple(table.shape)}."
        )
    if table.dtype.kind not in "biuf":
        columns = [_coded(graph, v, table[:, k].tolist()) for k, v in enumerate(graph.observed)]
        table = np.stack(columns, axis=1) if columns else table
    table = table.astype(np.float64)
    check_values(graph, table)
    return table


def _check_names(found: list[str], names: list[str], *, complete: bool) -> None:
    unknown = [name for name in found if name not in names]
    missing = [name for name in names if name not in found] if complete else []
    if unknown or missing:
        what = f"{unknown[0]!r} is not one. Rename or drop it" if unknown else f"{missing[0]!r} is missing. Add it"
        raise ValueError(f"The columns must be the observed nodes {', '.join(names[:20])}; {what}.")


def _coded(graph: Graph, v: int, column: list[Any]) -> Floats:
    """Return the codes of a column of names of states, or of numbers."""
    codes: dict[Any, float] = {state: float(code) for code, state in enumerate(graph.states[v])}
    out = np.empty(len(column))
    for row, value in enumerate(column):
        if value is None or value != value:
            out[row] = np.nan
        elif isinstance(value, str) and graph.sizes[v]:
            if value not in codes:
                states = ", ".join(graph.states[v][:20])
                raise ValueError(f"Row {row} has {value!r} in {graph.names[v]!r}, whose states are {states}.")
            out[row] = codes[value]
        else:
            try:
                out[row] = float(value)
            except (TypeError, ValueError):
                raise TypeError(f"Row {row} has {value!r} in {graph.names[v]!r}; expected a number.") from None
    return out


def check_values(graph: Graph, table: Floats) -> None:
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
