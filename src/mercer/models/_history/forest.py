"""In which order the nodes of a hidden chain or tree are summed out, and when that may be done in scaled numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy


@dataclass(frozen=True)
class Forest:
    """Trees in the order of a machine with a stack: a node takes what its children left there, and leaves one message.

    The child with the most nodes comes first, so that few messages wait at a time: log2(V) + 1 at most where nodes have
    two children, and 1 + (d - 1) log2(V) / log2(d) where they have up to d, which all wait for their parent. A chain is
    a tree whose nodes have one child, and independent nodes are trees of one node.
    """

    order: Floats
    """Nodes, children before their parents, ``(V,)`` int."""
    children: Floats
    """Number of children of every node, in that order, ``(V,)`` int."""
    roots: Floats
    """Whether a node has no parent, in that order, ``(V,)`` bool."""
    waits: Floats
    """Whether a message of another branch waits while a node without children begins, ``(V,)`` bool."""
    depth: int
    """The largest number of messages that wait."""

    @classmethod
    def of(cls, parent: Any) -> Forest:
        """Read the parents of all nodes, each before its children; -1 for a root."""
        parent = np.asarray(parent)
        size = len(parent)
        if parent.ndim != 1 or size == 0 or parent.dtype.kind not in "iu":
            raise ValueError(f"parent has shape {parent.shape}: give one whole number per node, -1 for a root")
        wrong = np.flatnonzero((parent < -1) | (parent >= np.arange(size)))
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(f"the parent of node {at} is {int(parent[at])}: parents come first, -1 is a root")
        order = _postorder(parent)
        children = np.bincount(parent[parent >= 0], minlength=size)[order]
        roots = parent[order] < 0
        waiting = np.cumsum(1 - children - roots)  # messages on the stack after every node
        before = np.concatenate([[0], waiting[:-1]])
        return cls(order, children, roots, (children == 0) & (before > 0), int(waiting.max(initial=0)))

    def __len__(self) -> int:
        return len(self.order)


def _postorder(parent: Floats) -> Floats:
    """Go through every tree with the largest branch first, and then its root."""
    nodes = np.arange(len(parent))
    if np.array_equal(parent, nodes - 1) or not np.any(parent >= 0):
        return nodes[::-1].copy()
    up = parent.tolist()
    size = [1] * len(up)
    below: list[list[int]] = [[] for _ in up]
    for v in range(len(up) - 1, -1, -1):
        if up[v] >= 0:
            size[up[v]] += size[v]
            below[up[v]].append(v)
    found: list[int] = []
    todo = [v for v in nodes.tolist() if up[v] < 0]
    while todo:  # parents first and the smallest branch first; turned round at the end
        v = todo.pop()
        found.append(v)
        todo.extend(sorted(below[v], key=lambda c: -size[c]))
    return np.array(found[::-1])


@dataclass(frozen=True)
class Range:
    """What scaled numbers of one type can be trusted with, for given transitions.

    A message is divided by its largest entry, so that an entry is lost if it is smaller than the smallest number
    beside the largest. Where every state can follow every other with probability t or more, the message to the parent
    is at least t in every state, and what was lost is less than tiny / t of it, everywhere: harmless for t above
    1e-100, if only the largest entry was at least ``least`` before it was scaled, which bounds what products of
    evidence and of several children lost; the same for the sum over the states of a root. Otherwise (``plain`` is
    False) a lost entry may decide later, and every entry that is possible has to be watched: it must not fall below
    ``floor``.
    """

    plain: bool
    least: float
    floor: float

    @classmethod
    def of(cls, forest: Forest, transition: Array, root: Array) -> Range:
        """Look at the probabilities of the model."""
        info = namespace(root).finfo(root.dtype)
        tiny, eps = float(info.smallest_normal), float(info.eps)
        step, first = to_numpy(transition), to_numpy(root)
        if step.ndim == 3:
            step = step[forest.order[~forest.roots]]
        possible = min(float(x[x > 0].min(initial=1.0)) for x in (step, first))
        bound = tiny**_PLAIN
        # Products of a watched entry and a transition stay above the smallest number: zero means impossible.
        floor = max(tiny**_WATCHED, 1e8 * tiny / possible)
        plain = bool(forest.roots.all()) or float(step.min(initial=1.0)) >= bound
        return cls(plain, tiny / (bound * eps), floor)


_PLAIN = 0.325
"""Power of the smallest number above which all transitions must be: about 1e-100 in float64."""
_WATCHED = 0.943
"""Power of the smallest number below which no possible entry may fall: about 1e-290 in float64."""
