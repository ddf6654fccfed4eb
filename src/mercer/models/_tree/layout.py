"""The layout of a tree in arrays: internal nodes in preorder, then edges, those to internal nodes first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._array import Floats, Indices
from mercer._cached import cached_property
from mercer.models._tree.newick import Tree


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
