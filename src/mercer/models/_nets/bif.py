"""Reader of the Bayesian interchange format (BIF), in time linear in its length.

It reads the files of bnlearn (R), JavaBayes, pgmpy and others: comments, quotes, properties, ``default`` rows, tables
in one piece, numbers with or without commas, and names with commas, brackets and any other characters.
"""

from __future__ import annotations

import io
import os
import re
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from mercer._array import Floats
from mercer.data.text import decoded, read_bytes
from mercer.models._nets.graph import LARGEST_TABLE, Graph, checked_graph

LOOSE = 1e-2
"""Rows whose sums differ from one by less are rounded numbers, and are normalized."""
MARK = "\x01"
"""Stands for a quoted string in a text, between its number."""

_PIECES = re.compile(r'"[^"]*"?|(?<![^\s;{}()|,\]])//[^\n]*|/\*', re.DOTALL)
_QUOTED = re.compile(f"{MARK}(\\d+){MARK}")
_TYPE = re.compile(r"\s*type\s+(\S+?)\s*\[\s*(\d+)\s*\]\s*=?\s*\Z")
_BLOCK = re.compile(r"\s*(\w+)\b([^{};]*)\Z")


class Read(NamedTuple):
    """A network that was read."""

    graph: Graph
    tables: dict[str, Floats]


def text_of(source: Any) -> str:
    """Return the text of a file, plain or compressed, or the text itself."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return source
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    elif not isinstance(source, str | os.PathLike):
        raise TypeError(f"BIF must be a path or text; got {type(source).__name__}.")
    return decoded(read_bytes(source, "BIF")[1].removeprefix(b"\xef\xbb\xbf"))


def read_bif(source: Any, hidden: Any = ()) -> Read:
    """Read a network."""
    text, quoted = _without_comments(text_of(source))
    states: dict[str, tuple[str, ...]] = {}
    given: dict[str, tuple[list[str], str]] = {}
    at = 0
    while True:
        start = text.find("{", at)
        if start < 0:
            break
        header = text[at:start].rpartition(";")[2]
        block = _BLOCK.match(header)
        if block is None:
            _fail(f"expected a block such as 'variable name {{'; got {_shown(header, quoted)!r}")
        kind, name = block[1].lower(), block[2].strip()
        end, inner = _block_end(text, start)
        if end < 0:
            _fail(f"the block {_shown(header, quoted)!r} has no end; the file is truncated")
        body = text[start + 1 : end]
        if kind == "variable":
            own = _plain(name, quoted)
            if own in states:
                _fail(f"variable {own!r} is declared twice")
            states[own] = _states(own, body, inner, quoted)
        elif kind == "probability":
            child, above = _family(name, quoted, states)
            if child in given:
                _fail(f"variable {child!r} has two probability blocks")
            given[child] = above, body
        elif kind != "network":
            _fail(f"unknown block {kind!r}; expected network, variable or probability")
        at = end + 1
    rest = text[at:].strip()
    if rest:
        _fail(f"unexpected text at the end: {_shown(rest, quoted)!r}")
    if not states:
        _fail("no variable is declared")
    missing = [name for name in states if name not in given]
    if missing:
        _fail(f"variable {missing[0]!r} has no probability block; the file may be truncated")
    graph = checked_graph(states, {name: above for name, (above, _) in given.items()}, hidden)
    return Read(graph, {name: _table(graph, name, body, quoted) for name, (_, body) in given.items()})


def _fail(what: str) -> NoReturn:
    raise ValueError(f"This is not a network in BIF: {what}.")


def _shown(text: str, quoted: list[str]) -> str:
    text = " ".join(text.split())
    return _restored(text[:60], quoted) + ("..." if len(text) > 60 else "")


def _without_comments(text: str) -> tuple[str, list[str]]:
    """Replace comments by spaces and quoted strings by marks with their numbers, in one pass."""
    if MARK in text:
        _fail("it contains control characters")
    quoted: list[str] = []
    parts, at = [], 0
    while True:
        found = _PIECES.search(text, at)
        if found is None:
            parts.append(text[at:])
            return "".join(parts), quoted
        parts.append(text[at : found.start()])
        piece = found[0]
        at = found.end()
        if piece == "/*":
            end = text.find("*/", at)
            if end < 0:
                _fail("a comment /* has no end")
            at = end + 2
            parts.append(" ")
        elif piece[0] == '"':
            if len(piece) < 2 or piece[-1] != '"':
                _fail(f"a quoted name has no end: {piece[:40]!r}")
            parts.append(f"{MARK}{len(quoted)}{MARK}")
            quoted.append(piece[1:-1])
        else:
            parts.append(" ")


def _restored(text: str, quoted: list[str]) -> str:
    return _QUOTED.sub(lambda found: quoted[int(found[1])], text)


def _plain(text: str, quoted: list[str]) -> str:
    """Return a name without quotes and surrounding space."""
    return _restored(" ".join(text.split()), quoted).strip()


def _block_end(text: str, start: int) -> tuple[int, int]:
    """Return where a block ends, and where the list in it ends that has braces of its own, or -1."""
    end, opened = text.find("}", start + 1), text.find("{", start + 1)
    if opened < 0 or end < 0 or end < opened:
        return end, -1
    inner = end
    end = text.find("}", inner + 1)
    again = text.find("{", inner + 1)
    return (-1 if 0 <= again < end else end), inner


def _states(name: str, body: str, inner: int, quoted: list[str]) -> tuple[str, ...]:
    """Read the states of a variable from its block."""
    head, brace, rest = body.partition("{")
    declared = _TYPE.match(head.rpartition(";")[2])
    if inner < 0 or not brace or declared is None:
        _fail(f"variable {name!r} needs 'type discrete [ n ] {{ states }}'; got {_shown(body, quoted)!r}")
    if declared[1].lower() != "discrete":
        _fail(f"variable {name!r} must be discrete; got {declared[1]!r}")
    listed, size = rest.partition("}")[0], int(declared[2]) if len(declared[2]) < 10 else 10**10
    found = _names(listed, size, quoted)
    if found is None:
        _fail(f"variable {name!r} declares {size} states; got {_shown(listed, quoted)!r}")
    return tuple(found)


def _names(text: str, size: int, quoted: list[str]) -> list[str] | None:
    """Split a list of ``size`` names, which may have commas of their own: try what separates them, in turn."""
    text = text.strip()
    tries = [text.split(","), re.split(r",\s+", text), _outside_brackets(text), text.split()]
    for found in tries:
        names = [_plain(part, quoted) for part in found]
        if len(names) == size and all(names):
            return names
    return None


def _outside_brackets(text: str) -> list[str]:
    """Split at commas outside of intervals such as [0,5) or (5,10]."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth = max(depth - 1, 0)
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _family(header: str, quoted: list[str], states: dict[str, Any]) -> tuple[str, list[str]]:
    """Read ``( child | parent, parent )``; JavaBayes writes no bar before parents."""
    inside = header.strip()
    if not (inside.startswith("(") and inside.endswith(")")):
        _fail(f"expected 'probability ( child | parents )'; got {_shown(header, quoted)!r}")
    inside = inside[1:-1].strip()
    child, bar, above = inside.partition("|")
    whole = _plain(child, quoted)
    if not bar and whole not in states:
        child, _, above = inside.partition(",")
        if not above:
            child, _, above = inside.partition(" ")
    child = _plain(child, quoted)
    names = [_plain(part, quoted) for part in re.split(r",", above)] if above.strip() else []
    if len(names) == 1 and names[0] not in states:
        names = [_plain(part, quoted) for part in above.split()]
    for name in (child, *names):
        if name not in states:
            _fail(f"probability of {child!r}: variable {name!r} is not declared")
    return child, names


def _table(graph: Graph, name: str, body: str, quoted: list[str]) -> Floats:
    """Read the table of one node, ``(*parents, states)``; rows that are not listed get the default row."""
    v = graph.number[name]
    shape, above = graph.shapes[v], graph.above[v]
    size, n_rows = shape[-1], prod(shape[:-1])
    codes = [{state: code for code, state in enumerate(graph.states[u])} for u in above]
    rows = np.full((n_rows, size), np.nan)
    default: Floats | None = None
    *statements, last = body.split(";")
    if last.strip():
        _fail(f"probability of {name!r}: {_shown(last, quoted)!r} has no semicolon; the file may be truncated")
    for statement in statements:
        text = statement.strip()
        word = text[:8].lower()
        if not text or word.startswith("property"):
            continue
        if word.startswith("table"):
            rows[:] = _numbers(text[5:], n_rows * size, name).reshape(size, n_rows).T
        elif word.startswith("default"):
            default = _numbers(text[7:], size, name)
        elif text.startswith("("):
            at = text.rfind(")")
            rows[_row(graph, name, text[1:at], codes, quoted)] = _numbers(text[at + 1 :], size, name)
        else:
            _fail(f"probability of {name!r}: expected a row, 'table' or 'default'; got {_shown(text, quoted)!r}")
    missing = np.isnan(rows).all(axis=1)
    if missing.any() and default is not None:
        rows[missing] = default
    total = rows.sum(axis=1)
    bad = np.flatnonzero(~(np.abs(total - 1) < LOOSE) | (rows < 0).any(axis=1))
    if len(bad):
        what = "has no probabilities" if np.isnan(total[bad[0]]) else f"has the sum {total[bad[0]]:.6g}"
        if not np.isnan(total[bad[0]]) and (rows[bad[0]] < 0).any():
            what = f"contains {rows[bad[0]].min():g}"
        _fail(f"the row of {graph.row_name(v, int(bad[0]))} {what}")
    return (rows / total[:, None]).reshape(shape)


def _row(graph: Graph, name: str, text: str, codes: list[dict[str, int]], quoted: list[str]) -> int:
    """Return the position of a row from the states of the parents."""
    found = _names(text, len(codes), quoted)
    if found is None or not all(state in own for state, own in zip(found, codes, strict=True)):
        # A comma may be part of a state: take the longest known state each time.
        found = _known(text, codes, quoted)
    if found is None:
        _fail(f"probability of {name!r}: {_shown(text, quoted)!r} are not states of its parents")
    at = 0
    for state, own in zip(found, codes, strict=True):
        at = at * len(own) + own[state]
    return at


def _known(text: str, codes: list[dict[str, int]], quoted: list[str]) -> list[str] | None:
    text, found = _plain(text, quoted), []
    for k, own in enumerate(codes):
        end = "" if k == len(codes) - 1 else ","
        fits = [s for s in own if text.startswith(s) and text[len(s) :].lstrip()[: len(end) or None] == end]
        if not fits:
            return None
        state = max(fits, key=len)
        found.append(state)
        text = text[len(state) :].lstrip()[1:].lstrip()
    return found


def _numbers(text: str, size: int, name: str) -> Floats:
    words = text.replace(",", " ").split()
    if len(words) != size or size > LARGEST_TABLE:
        _fail(f"probability of {name!r}: a row must have {size} numbers; got {len(words)}")
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        values = np.full(size, np.inf)
    if np.isinf(values).any():
        _fail(f"probability of {name!r}: {' '.join(words)[:60]!r} are not numbers")
    return values
