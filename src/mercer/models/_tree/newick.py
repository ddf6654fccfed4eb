"""Trees in Newick notation: a strict reader, which says where it stopped, and a writer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Floats

__all__ = ["Tree", "newick_text", "parse_newick"]

_LABEL = re.compile(r"[^\s()\[\]':;,]+")
_SPECIAL = re.compile(r"[\s()\[\]':;,]")


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree: nodes in preorder, a parent before its children.

    Parameters
    ----------
    parent : ndarray of int of shape (n,)
        The node above every node; -1 for the root, which comes first.
    names : tuple of n str
        Names, "" where a node has none.
    lengths : ndarray of shape (n,)
        Lengths of the branches above the nodes; NaN where none is given.
    """

    parent: Floats
    names: tuple[str, ...]
    lengths: Floats

    def __post_init__(self) -> None:
        self.parent.setflags(write=False)
        self.lengths.setflags(write=False)

    @property
    def is_leaf(self) -> Floats:
        """Whether a node has no children, ``(n,)``."""
        childless = np.ones(len(self.parent), dtype=bool)
        childless[self.parent[1:]] = False
        return childless

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names of the leaves, from left to right."""
        return tuple(self.names[v] for v in np.flatnonzero(self.is_leaf))

    def newick(self) -> str:
        """Write the tree in Newick notation.

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
    """Return the text of a file that is given by its path, and all else as it is; raise for the name of a file."""
    if isinstance(tree, Path):
        return tree.read_text(encoding="utf-8")
    if isinstance(tree, str) and not re.search(r"[(;]", tree) and re.search(r"[./\\]", tree):
        raise ValueError(
            f"tree = {tree!r} looks like the name of a file: give what it holds, Path({tree!r}).read_text(), or the "
            f"path, Path({tree!r})"
        )
    return tree


def parse_newick(text: str) -> Tree:
    """Read one tree in Newick notation.

    Names may be quoted ('it''s one'), comments stand in square brackets, an underscore stays an underscore. Every leaf
    needs a name of its own; branches may have lengths, 0 or more. The tree ends with a semicolon.

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
        raise TypeError(f"a tree is a string in Newick notation, such as '((A,B),C);', not {type(text).__name__}")
    return _Reader(text).tree()


class _Reader:
    """Reads from left to right, without recursion: trees may be thousands of nodes deep."""

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
                raise ValueError(f"the tree has a leaf without a name at position {place}{self._near(place)}: name it")
            raise self._error("'(' or the name of a leaf")
        if name in self.seen:
            raise ValueError(
                f"the tree has two leaves with the name {name!r}, at positions {self.seen[name]} and {place}: give "
                "every leaf a name of its own"
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
            begin = end + 2  # a doubled quote stands for one
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
            raise ValueError(
                f"the tree has a branch of negative length, {found.group()}, at position {start}: lengths are 0 or more"
            )
        self.at = found.end()
        return value

    # -- characters -------------------------------------------------------------------------------------

    def _skip(self) -> int:
        """Pass blanks and comments."""
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
        return ValueError(f"the tree does not parse: expected {expected} at position {place}{self._near(place)}")

    def _near(self, place: int) -> str:
        if place >= len(self.text):
            return ", where the text ends"
        rest = self.text[place : place + 12]
        return f", before {rest + '...' if place + 12 < len(self.text) else rest!r}"
