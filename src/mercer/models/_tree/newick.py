"""Trees in Newick format: a strict parser, whose errors state the position, and a writer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer._cached import cached_property


@dataclass(frozen=True, eq=False)
class Layout:
    """Internal nodes 0 .. V-1 in preorder, leaves 0 .. L-1 in a given order, and the V - 1 + L edges above them.

    Edges are in the order of the internal nodes 1 .. V-1, then of the leaves.
    """

    parent: Indices
    """Parent of each internal node, ``(V,)``; -1 for the root."""
    leaf_parent: Indices
    """Parent of each leaf, an internal node, ``(L,)``."""
    names: tuple[str, ...]
    """Name of the child of each edge, "" if it has none."""
    lengths: Floats
    """Length of each edge, NaN if it has none."""

    @cached_property
    def way(self) -> float:
        """Median length of the path from the root to a leaf."""
        depth = np.zeros(self.n_internal)
        for v in range(1, self.n_internal):
            depth[v] = depth[self.parent[v]] + self.lengths[v - 1]
        return float(np.median(depth[self.leaf_parent] + self.lengths[self.n_internal - 1 :]))

    @property
    def n_internal(self) -> int:
        """Number of internal nodes."""
        return len(self.parent)


def layout_of(tree: Tree, leaves: tuple[str, ...]) -> Layout:
    """Lay out a tree whose leaves are ``leaves``, in that order."""
    ends = tree.is_leaf
    if ends[0]:
        raise ValueError(
            f"The tree is the single leaf {tree.names[0]!r}, without a hidden node. Add one, as in "
            f"'({tree.newick()[:-1]});'."
        )
    inner = np.flatnonzero(~ends)
    place = np.full(len(ends), -1)
    place[inner] = np.arange(len(inner))
    known = {tree.names[v]: v for v in np.flatnonzero(ends)}
    wanted = set(leaves)
    odd = [name for name in leaves if name not in known] or [name for name in known if name not in wanted]
    if odd:
        raise ValueError(f"All trees must have the same leaves; {odd[0]!r} is missing in one of them.")
    columns = np.array([known[name] for name in leaves])
    edges = np.concatenate([inner[1:], columns])
    above = np.where(tree.parent[inner] < 0, -1, place[tree.parent[inner]])
    return Layout(
        parent=above,
        leaf_parent=place[tree.parent[columns]],
        names=tuple(tree.names[v] for v in edges),
        lengths=tree.lengths[edges],
    )


def newick_of(parent: Indices, leaf_parent: Indices, leaves: tuple[str, ...]) -> str:
    """Return the tree in Newick format, without lengths; internal nodes without children are left out."""
    below: list[list[tuple[bool, int]]] = [[] for _ in parent]
    for leaf, v in enumerate(leaf_parent.tolist()):
        below[v].append((True, leaf))
    full = [bool(children) for children in below]
    for v in range(len(parent) - 1, 0, -1):
        if parent[v] >= 0 and full[v]:
            full[parent[v]] = True
    for v in range(1, len(parent)):
        if full[v]:
            below[parent[v]].append((False, v))
    above, names = [-1], [""]
    waiting = [(child, 0) for child in reversed(below[0])]
    while waiting:
        (is_leaf, child), over = waiting.pop()
        above.append(over)
        names.append(leaves[child] if is_leaf else "")
        if not is_leaf:
            here = len(above) - 1
            waiting += [(grandchild, here) for grandchild in reversed(below[child])]
    return Tree(np.array(above), tuple(names), np.full(len(above), np.nan)).newick()


_LABEL = re.compile(r"[^\s()\[\]':;,]+")
_SPECIAL = re.compile(r"[\s()\[\]':;,]")


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree: nodes in preorder, a parent before its children.

    Parameters
    ----------
    parent : ndarray of int of shape (n,)
        The parent of each node; -1 for the root, which comes first.
    names : tuple of n str
        Names, "" for nodes without a name.
    lengths : ndarray of shape (n,)
        Lengths of the branches above the nodes; NaN if none is given.
    """

    parent: Indices
    names: tuple[str, ...]
    lengths: Floats

    def __post_init__(self) -> None:
        self.parent.setflags(write=False)
        self.lengths.setflags(write=False)

    @property
    def is_leaf(self) -> Mask:
        """Whether each node is a leaf, ``(n,)``."""
        childless = np.ones(len(self.parent), dtype=bool)
        childless[self.parent[1:]] = False
        return childless

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names of the leaves, from left to right."""
        return tuple(self.names[v] for v in np.flatnonzero(self.is_leaf))

    def newick(self) -> str:
        """Return the tree in Newick format.

        Examples
        --------
        >>> parse_newick("( A:1 , 'b c':.5 )root ;").newick()
        "(A:1.0,'b c':0.5)root;"
        """
        ends = self.is_leaf
        pieces: list[str] = []
        open_nodes: list[int] = []
        for v, above in enumerate(self.parent.tolist()):
            while open_nodes and open_nodes[-1] != above:
                pieces.append(")" + self._label(open_nodes.pop()))
            if pieces and pieces[-1] != "(":
                pieces.append(",")
            if ends[v]:
                pieces.append(self._label(v))
            else:
                pieces.append("(")
                open_nodes.append(v)
        pieces += [")" + self._label(v) for v in reversed(open_nodes)]
        return "".join(pieces) + ";"

    def _label(self, v: int) -> str:
        name, length = self.names[v], float(self.lengths[v])
        shown = "'" + name.replace("'", "''") + "'" if _SPECIAL.search(name) else name
        return shown if np.isnan(length) else f"{shown}:{length!r}"


def newick_text(tree: Any) -> Any:
    """Read the file if ``tree`` is a Path, else return ``tree``; raise if a string looks like a file name."""
    if isinstance(tree, Path):
        return tree.read_text(encoding="utf-8")
    if isinstance(tree, str) and not re.search(r"[(;]", tree) and re.search(r"[./\\]", tree):
        raise ValueError(
            f"tree must be a Newick string or a Path; got {tree!r}, which looks like a file name. Pass Path({tree!r})."
        )
    return tree


def parse_newick(text: str) -> Tree:
    """Parse one tree in Newick format.

    Names may be quoted ('it''s one'), comments are in square brackets, and an underscore remains an underscore. Leaves
    must have distinct names; branches may have nonnegative lengths. The tree ends with a semicolon.

    Parameters
    ----------
    text : str
        Such as ``"((A:0.1,B:0.2):0.3,C:0.5);"``.

    Returns
    -------
    Tree

    Examples
    --------
    >>> tree = parse_newick("((human, chimp)apes, mouse);")
    >>> tree.leaves, tree.parent.tolist()
    (('human', 'chimp', 'mouse'), [-1, 0, 1, 1, 0])
    """
    if not isinstance(text, str):
        raise TypeError(f"tree must be a Newick string, such as '((A,B),C);'; got a {type(text).__name__}.")
    return _Reader(text).tree()


class _Reader:
    """A parser from left to right, without recursion, because trees may be thousands of nodes deep."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff")  # a byte order mark, from a file
        self.at = 0
        self.parent: list[int] = []
        self.names: list[str] = []
        self.lengths: list[float] = []
        self.seen: dict[str, int] = {}

    def tree(self) -> Tree:
        open_nodes: list[int] = []
        while True:
            if self._take("("):
                open_nodes.append(self._node(open_nodes))
                continue
            place = self._skip()
            self._named_leaf(self._node(open_nodes), place)
            while open_nodes and self._take(")"):
                closed = open_nodes.pop()
                self.names[closed] = self._name()
                self.lengths[closed] = self._length()
            if open_nodes:
                self._expect(",", "',' or ')'")
                continue
            self._expect(";", "';', which ends the tree")
            if self._skip() < len(self.text):
                raise self._error("the end of the text, after the ';' of one tree")
            return Tree(np.array(self.parent, dtype=np.int64), tuple(self.names), np.array(self.lengths))

    def _node(self, open_nodes: list[int]) -> int:
        self.parent.append(open_nodes[-1] if open_nodes else -1)
        self.names.append("")
        self.lengths.append(np.nan)
        return len(self.parent) - 1

    def _named_leaf(self, v: int, place: int) -> None:
        name = self._name()
        if not name:
            if place < len(self.text) and self.text[place] in "),:;" and self.parent[v] >= 0:
                raise ValueError(
                    f"The tree has a leaf without a name at position {place}{self._near(place)}. Add a name."
                )
            raise self._error("'(' or the name of a leaf")
        if name in self.seen:
            raise ValueError(
                f"Leaves must have distinct names; got {name!r} at positions {self.seen[name]} and {place}. Rename one "
                "of them."
            )
        self.seen[name] = place
        self.names[v] = name
        self.lengths[v] = self._length()

    def _name(self) -> str:
        start = self._skip()
        if self.text[start : start + 1] == "'":
            return self._quoted(start)
        found = _LABEL.match(self.text, start)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def _quoted(self, start: int) -> str:
        pieces, begin = [], start + 1
        while True:
            end = self.text.find("'", begin)
            if end < 0:
                raise self._error("a closing quote (')", start)
            pieces.append(self.text[begin:end])
            if self.text[end + 1 : end + 2] != "'":
                break
            begin = end + 2  # two quotes are an escaped quote
        self.at = end + 1
        return "'".join(pieces)

    def _length(self) -> float:
        if not self._take(":"):
            return float("nan")
        start = self._skip()
        found = _LABEL.match(self.text, start)
        try:
            value = float(found.group()) if found and "_" not in found.group() else float("nan")
        except ValueError:
            value = float("nan")
        if found is None or not np.isfinite(value):
            raise self._error("the length of a branch, a number,", start)
        if value < 0:
            raise ValueError(f"The lengths of branches must be nonnegative; got {found.group()} at position {start}.")
        self.at = found.end()
        return value

    # -- characters -------------------------------------------------------------------------------------

    def _skip(self) -> int:
        """Skip whitespace and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at].isspace():
                self.at += 1
            elif text[self.at] == "[":
                end = text.find("]", self.at)
                if end < 0:
                    raise self._error("']', which closes a comment,")
                self.at = end + 1
            else:
                break
        return self.at

    def _take(self, character: str) -> bool:
        if self.text[self._skip() : self.at + 1] != character:
            return False
        self.at += 1
        return True

    def _expect(self, character: str, what: str) -> None:
        if not self._take(character):
            raise self._error(what)

    def _error(self, expected: str, place: int | None = None) -> ValueError:
        place = self.at if place is None else place
        return ValueError(f"The tree cannot be parsed: expected {expected} at position {place}{self._near(place)}.")

    def _near(self, place: int) -> str:
        if place >= len(self.text):
            return ", where the text ends"
        rest = self.text[place : place + 12]
        return f", before {rest + '...' if place + 12 < len(self.text) else rest!r}"
