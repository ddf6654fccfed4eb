"""The Bayesian interchange format (BIF): a reader, in time linear in the length of a file, and a writer.

The reader takes the files of bnlearn (R), JavaBayes, pgmpy and others: comments, quotes, properties, ``default`` rows,
tables in one piece, numbers with or without commas, and states with commas and brackets.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from mercer._array import Floats
from mercer._atomic import replacing
from mercer._files import check_path, check_target
from mercer.data.text import decoded, read_bytes
from mercer.models._nets.graph import LARGEST_TABLE, Graph, checked_graph

LOOSE = 1e-2
"""Rows whose sums differ from one by less are rounded numbers, and are normalized."""
_COMMENT = re.compile(r'"[^"]*"?|(?<![^\s;{}()|,\]])//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_PROPERTY = re.compile(r'(?<=[;{])\s*property\b(?:[^;"]|"[^"]*")*;')
_BLOCK = re.compile(r"\s*(\w+)\b([^{};]*)\{([^{}]*(?:\{[^{}]*\}[^{}]*)?)\}")
_STATES = re.compile(r"\s*type\s+(\S+?)\s*\[\s*(\d+)\s*\]\s*=?\s*\{(.*)\}\s*;?\s*", re.DOTALL)


class Read(NamedTuple):
    """A network in BIF."""

    graph: Graph
    tables: dict[str, Floats]


def parsed(source: Any, hidden: Any = ()) -> Read:
    """Read a network from a file, plain or compressed, or from the text itself."""
    text = source
    if not isinstance(source, str) or not ("{" in source or "\n" in source):
        if not isinstance(source, str | bytes | os.PathLike):
            raise TypeError(f"BIF must be a path or text; got {type(source).__name__}.")
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        text = decoded(read_bytes(file, "BIF")[1].removeprefix(b"\xef\xbb\xbf"))
    text = _PROPERTY.sub(" ", _COMMENT.sub(_without_comment, text)).replace('"', " ")
    states: dict[str, tuple[str, ...]] = {}
    given: dict[str, tuple[list[str], str]] = {}
    at = 0
    while text[at:].strip():
        block = _BLOCK.match(text, at)
        if block is None:
            _fail(f"expected a block such as 'variable name {{ ... }}' at {_shown(text[at:])}; it may be truncated")
        at, kind, name, body = block.end(), block[1].lower(), _shown(block[2], 10**6), block[3]
        if kind == "variable":
            if name in states:
                _fail(f"variable {name!r} is declared twice")
            states[name] = _states(name, body)
        elif kind == "probability":
            child, *above = _family(name, states)
            if child in given:
                _fail(f"variable {child!r} has two probability blocks")
            given[child] = above, body
        elif kind != "network":
            _fail(f"unknown block {kind!r}; expected network, variable or probability")
    if not states:
        _fail("no variable is declared")
    missing = [name for name in states if name not in given]
    if missing:
        _fail(f"variable {missing[0]!r} has no probability block; the file may be truncated")
    graph = checked_graph(states, {name: above for name, (above, _) in given.items()}, hidden)
    return Read(graph, {name: _table(graph, name, body) for name, (_, body) in given.items()})


def _fail(what: str) -> NoReturn:
    raise ValueError(f"This is not a network in BIF: {what}.")


def _shown(text: str, most: int = 60) -> str:
    """Return the start of a text in one line."""
    return " ".join(text[: 2 * most].split())[:most]


def _without_comment(found: re.Match[str]) -> str:
    """Replace a comment by a space; keep a quoted string."""
    piece = found[0]
    if (piece[0] == '"' and not piece[1:].endswith('"')) or (piece[:2] == "/*" and not piece[2:].endswith("*/")):
        _fail(f"a comment or a quoted name has no end: {_shown(piece)!r}")
    return piece if piece[0] == '"' else " "


def _states(name: str, body: str) -> tuple[str, ...]:
    """Read the states of a variable, which may have commas of their own: try what separates them, in turn."""
    declared = _STATES.fullmatch(body)
    if declared is None:
        _fail(f"variable {name!r} needs 'type discrete [ n ] {{ states }}'; got {_shown(body)!r}")
    if declared[1].lower() != "discrete":
        _fail(f"variable {name!r} must be discrete; got {declared[1]!r}")
    listed, size = " ".join(declared[3].split()), int(declared[2][:10])
    outside = r",(?![^\[(]*[\])])"  # not within an interval such as [0,5) or (5,10]
    for separator in (",", ", ", outside, " "):
        found = tuple(part.strip() for part in re.split(separator, listed))
        if len(found) == size and all(found):
            return found
    _fail(f"variable {name!r} declares {size} states; got {_shown(listed)!r}")


def _family(header: str, states: dict[str, Any]) -> list[str]:
    """Read ``( child | parent, parent )``; JavaBayes writes no bar before parents."""
    if not (header.startswith("(") and header.endswith(")")):
        _fail(f"expected 'probability ( child | parents )'; got {_shown(header)!r}")
    inside = header[1:-1].strip()
    found = [part.strip() for part in re.split(r"[|,]", inside)]
    if not all(name in states for name in found):
        found = re.split(r"[|,\s]+", inside.rstrip("| "))
    for name in found:
        if name not in states:
            _fail(f"probability of {found[0]!r}: variable {name!r} is not declared")
    return found


def _table(graph: Graph, name: str, body: str) -> Floats:
    """Read the table of one node, ``(*parents, states)``; rows that are not listed get the default row."""
    v = graph.number[name]
    shape, above = graph.shapes[v], graph.above[v]
    size, n_rows = shape[-1], prod(shape[:-1])
    # The longest state first, because one may begin with another.
    known = ("|".join(map(re.escape, sorted(graph.states[u], key=len, reverse=True))) for u in above)
    given = re.compile(r"\s*,?\s*".join(f"({any_state})" for any_state in known))
    rows, default = np.full((n_rows, size), np.nan), np.full(size, np.nan)
    *statements, last = body.split(";")
    if last.strip():
        _fail(f"probability of {name!r}: {_shown(last)!r} has no semicolon; the file may be truncated")
    for statement in statements:
        text = " ".join(statement.split())
        word = text[:8].lower()
        if word.startswith("table"):
            rows[:] = _numbers(text[5:], n_rows * size, name).reshape(size, n_rows).T
        elif word.startswith("default"):
            default = _numbers(text[7:], size, name)
        elif text.startswith("("):
            states, _, numbers = text[1:].rpartition(")")
            found = given.fullmatch(states.strip())
            if found is None:
                _fail(f"probability of {name!r}: {_shown(states)!r} are not states of its parents")
            at = 0
            for u, state in zip(above, found.groups(), strict=True):
                at = at * graph.sizes[u] + graph.states[u].index(state)
            if not np.isnan(rows[at]).any():
                _fail(f"probability of {name!r} has two rows for {_shown(states)!r}")
            rows[at] = _numbers(numbers, size, name)
        elif text:
            _fail(f"probability of {name!r}: expected a row, 'table' or 'default'; got {_shown(text)!r}")
    rows[np.isnan(rows).all(axis=1)] = default
    total = rows.sum(axis=1)
    bad = np.flatnonzero(~(np.abs(total - 1) < LOOSE) | (rows < 0).any(axis=1))
    if len(bad):
        row, total_of = rows[bad[0]], total[bad[0]]
        what = f"contains {row.min():g}" if (row < 0).any() else f"has the sum {total_of:.6g}"
        what = "has no probabilities" if np.isnan(total_of) else what
        _fail(f"the row of {graph.row_name(v, int(bad[0]))} {what}")
    rows /= total[:, None]
    return rows.reshape(shape)


def _numbers(text: str, size: int, name: str) -> Floats:
    words = text.replace(",", " ").split()
    if len(words) != size or size > LARGEST_TABLE:
        _fail(f"probability of {name!r}: a row must have {size} numbers; got {len(words)}")
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        values = np.full(size, np.inf)
    if np.isinf(values).any():
        _fail(f"probability of {name!r}: {_shown(' '.join(words))!r} are not numbers")
    return values


def write_bif(path: Any, graph: Graph, tables: Mapping[str, Floats]) -> None:
    """Write a network in BIF, as bnlearn does; raise if it could not be read again."""
    check_path(path)
    check_target(Path(path), os.fspath(path))
    for v in graph.gaussian:
        raise ValueError(f"BIF has discrete nodes only; got the Gaussian node {graph.names[v]!r}. Use mc.save.")
    lines = ["network unknown {", "}"]
    for name, states in graph.nodes:
        lines += [f"variable {name} {{", f"  type discrete [ {len(states)} ] {{ {', '.join(states)} }};", "}"]
    for v, name in enumerate(graph.names):
        above, size = graph.above[v], graph.sizes[v]
        given = f" | {', '.join(graph.names[u] for u in above)}" if above else ""
        lines.append(f"probability ( {name}{given} ) {{")
        for at, row in zip(np.ndindex(graph.shapes[v][:-1]), tables[name].reshape(-1, size), strict=True):
            row_states = ", ".join(graph.states[u][i] for u, i in zip(above, at, strict=True))
            lines.append(f"  {f'({row_states})' if above else 'table'} {', '.join(map(repr, row.tolist()))};")
        lines.append("}")
    text = "\n".join([*lines, ""])
    try:
        again = parsed(text, graph.hidden)
        same = again.graph is graph and all(np.allclose(again.tables[name], tables[name]) for name in graph.names)
    except ValueError:
        same = False
    if not same:
        raise ValueError(
            "A name of a node or a state has characters that BIF has no place for, such as {}. Use mc.save."
        )
    with replacing(path) as file:
        file.write(gzip.compress(text.encode(), mtime=0) if os.fspath(path).endswith(".gz") else text.encode())
