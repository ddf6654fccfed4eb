"""Trees in Newick format: a parser, whose errors state the position, and a writer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer._immutable import cached_property


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
    columns = np.array([known[name] for name in leaves])
    edges = np.concatenate([inner[1:], columns])
    return Layout(
        parent=np.where(tree.parent[inner] < 0, -1, place[tree.parent[inner]]),
        leaf_parent=place[tree.parent[columns]],
        names=tuple(tree.names[v] for v in edges),
        lengths=tree.lengths[edges],
    )


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree: nodes with a parent before its children; `parse_newick` returns them in preorder.

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
        """Return the tree in Newick format, without nodes that have neither children nor a name.

        Examples
        --------
        >>> parse_newick("( A:1 , 'b c':.5 )root ;").newick()
        "(A:1.0,'b c':0.5)root;"
        """
        below: list[list[str]] = [[] for _ in self.parent]
        text = ""
        for v in reversed(range(len(below))):  # children before their parents, the last one first
            name, length = self.names[v], float(self.lengths[v])
            text = f"({','.join(reversed(below[v]))})" if below[v] else ""
            text += "'" + name.replace("'", "''") + "'" if _SPECIAL.search(name) else name
            text += "" if np.isnan(length) else f":{length!r}"
            below[v] = []
            if text and v:
                below[self.parent[v]].append(text)
        return text + ";"


_SPECIAL = re.compile(r"[\s()\[\]':;,]")
_TOKEN = re.compile(r"(?:\s|\[[^\]]*\])*('(?:[^']|'')*'|[^\s()\[\]':;,]+|[(),:;]|\Z)")
"""Space and comments, then a quoted name, a name or number, a mark, or the end."""


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
    reader = _Reader(text)
    parent: list[int] = []
    names: list[str] = []
    lengths: list[float] = []
    leaves: set[str] = set()
    open_nodes: list[int] = []
    while True:
        closed = len(parent)
        parent.append(open_nodes[-1] if open_nodes else -1)
        names.append("")
        lengths.append(np.nan)
        if reader.take("("):
            open_nodes.append(closed)
            continue
        names[closed] = reader.name()
        if not names[closed]:
            reader.fail("'(' or the name of a leaf")
        if names[closed] in leaves:
            raise ValueError(f"Leaves must have distinct names; got {names[closed]!r} twice. Rename one of them.")
        leaves.add(names[closed])
        lengths[closed] = reader.length()
        while open_nodes and reader.take(")"):
            closed = open_nodes.pop()
            names[closed], lengths[closed] = reader.name(), reader.length()
        if reader.take("," if open_nodes else ";"):
            if open_nodes:
                continue
            if reader.token:
                reader.fail("the end of the text, after the ';' of one tree")
            return Tree(np.array(parent, dtype=np.int64), tuple(names), np.array(lengths))
        reader.fail("',' or ')'" if open_nodes else "';', which ends the tree")


class _Reader:
    """The tokens of a text, one at a time."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff")  # a byte order mark, from a file
        self.end = 0
        self._advance()

    def _advance(self) -> str:
        previous = getattr(self, "token", "")
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            self.at = self.end
            self.fail("a closing quote (') or ']'")
        self.token, self.at, self.end = found[1], found.start(1), found.end()
        return previous

    def take(self, mark: str) -> bool:
        """Whether the next token is this mark, which is then left behind."""
        return self.token == mark and bool(self._advance())

    def name(self) -> str:
        """Take a name; "" if there is none."""
        if self.token[:1] == "'":
            return self._advance()[1:-1].replace("''", "'")
        return "" if self.token in "(),:;" else self._advance()

    def length(self) -> float:
        """Take the length of a branch; NaN if there is none."""
        if not self.take(":"):
            return float("nan")
        try:
            value = float(self.token)
        except ValueError:
            value = float("nan")
        if not 0 <= value < np.inf or "_" in self.token:
            self.fail("the length of a branch, a nonnegative number,")
        self._advance()
        return value

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that says where the text is wrong."""
        rest = self.text[self.at : self.at + 12]
        near = f"before {rest!r}" if rest else "where the text ends"
        raise ValueError(f"The tree cannot be parsed: expected {expected} at position {self.at}, {near}.")
