"""Elimination order of the nodes of a hidden chain or tree, and conditions for scaled arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy


@dataclass(frozen=True)
class Forest:
    """Trees in postorder, for message passing with a stack: a node pops its children's messages and pushes its own.

    The child with the most nodes comes first, which keeps the stack short: at most log2(V) + 1 messages if nodes have
    two children, and 1 + (d - 1) log2(V) / log2(d) if they have up to d, which all stay there for their parent.
    A chain is a tree whose nodes have one child, and independent nodes are trees of one node.
    """

    order: Floats
    """Nodes, children before their parents, ``(V,)`` int."""
    children: Floats
    """Number of children of each node, in that order, ``(V,)`` int."""
    roots: Floats
    """Whether a node has no parent, in that order, ``(V,)`` bool."""
    waits: Floats
    """Whether the stack is not empty when a node without children is processed, ``(V,)`` bool."""
    depth: int
    """Maximum number of messages on the stack."""

    @classmethod
    def of(cls, parent: Any) -> Forest:
        """Create from the parent of each node; parents come before their children, and a root has -1."""
        parent = np.asarray(parent)
        size = len(parent)
        if parent.ndim != 1 or size == 0 or parent.dtype.kind not in "iu":
            raise ValueError(f"parent must have one whole number per node, -1 for a root; got shape {parent.shape}.")
        wrong = np.flatnonzero((parent < -1) | (parent >= np.arange(size)))
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"Parents must come before their children, and -1 is a root; got {int(parent[at])} for node {at}."
            )
        order = _postorder(parent)
        children = np.bincount(parent[parent >= 0], minlength=size)[order]
        roots = parent[order] < 0
        waiting = np.cumsum(1 - children - roots)  # messages on the stack after every node
        before = np.concatenate([[0], waiting[:-1]])
        return cls(order, children, roots, (children == 0) & (before > 0), int(waiting.max(initial=0)))

    def __len__(self) -> int:
        return len(self.order)


def _postorder(parent: Floats) -> Floats:
    """Return the postorder, largest branch first."""
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
    while todo:  # parents first and the smallest branch first; reversed at the end
        v = todo.pop()
        found.append(v)
        todo.extend(sorted(below[v], key=lambda c: -size[c]))
    return np.array(found[::-1])


@dataclass(frozen=True)
class Range:
    """Conditions under which scaled numbers of one dtype are accurate, for given transitions.

    A message is divided by its largest entry, so entries underflow if they are smaller than the smallest number times
    the largest entry. If every transition has probability t or more, the message to the parent is at least t in every
    state, and the relative error of underflow is below tiny / t: harmless for t above 1e-100, provided that the
    largest entry was at least ``least`` before scaling, which bounds the loss in products of evidence and of several
    children; the same holds for the sum over the states of a root. Otherwise (``plain`` is False) an entry that
    underflows may matter later, so every possible entry is checked: it must not fall below ``floor``.
    """

    plain: bool
    least: float
    floor: float
    smallest: float
    """The smallest probability that is not zero."""

    @classmethod
    def of(cls, forest: Forest, transition: Array, root: Array) -> Range:
        """Derive the conditions from the probabilities of the model."""
        info = namespace(root).finfo(root.dtype)
        tiny, eps = float(info.smallest_normal), float(info.eps)
        step, first = to_numpy(transition), to_numpy(root)
        if step.ndim == 3:
            step = step[forest.order[~forest.roots]]
        possible = min(float(x[x > 0].min(initial=1.0)) for x in (step, first))
        bound = tiny**_PLAIN
        # Products of a checked entry and a transition do not underflow, so zero means impossible.
        floor = max(tiny**_WATCHED, 1e8 * tiny / possible)
        plain = bool(forest.roots.all()) or float(step.min(initial=1.0)) >= bound
        return cls(plain, tiny / (bound * eps), floor, possible)


_PLAIN = 0.325
"""Power of the smallest number; all transitions must be above it: about 1e-100 in float64."""
_WATCHED = 0.943
"""Power of the smallest number; no possible entry may fall below it: about 1e-290 in float64."""
