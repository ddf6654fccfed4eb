"""Shared histories (MK-3, MK-4, MK-6): sums over the hidden states of two samples, computed by native/forest.hpp."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call

SMALLEST = 1e-300
"""If entries are watched, positive evidence must be raised to this floor; a product at the floor counts as lost."""
_NUMBERS = 2e7
"""Multiply-adds of pairs of unlimited range in one call: some tenths of a second."""


class Forest(NamedTuple):
    """A hidden tree: nodes in an order of elimination, children before their parents."""

    children: Indices
    """Number of children of each node, ``(V,)``."""
    roots: Indices
    """1 for a root, ``(V,)``."""
    waits: Indices
    """1 if the message of another branch waits on the stack meanwhile, ``(V,)``."""
    depth: int
    """Size of the stack."""
    step: Floats
    """Transitions ``(V, S, S)``, or ``(1, S, S)`` for all nodes: [b, a] is the probability of b given parent a."""
    root: Floats
    """``(S,)``."""
    watched: bool
    """Whether every positive entry of a message is checked, or only the largest."""
    least: float
    """Smallest number that is not lost, of the largest entry of a message."""
    floor: float
    """The same of any entry, relative to the largest, if they are watched."""


def all_pairs(forest: Forest, left: Floats, right: Floats) -> Floats:
    """Return the logarithms of all pairs of samples, ``(I, J)``; NaN where numbers may have been lost.

    Evidence is relative to the best state of each node, (I, V, S) and (J, V, S); if watched, it is zero or at least
    `SMALLEST`.
    """
    value = np.empty((len(left), len(right)))
    call("histories", **forest._asdict(), left=left, right=right, value=value, alone=None)
    return value


def alone(forest: Forest, samples: Floats) -> Floats:
    """Return the logarithms of all samples with themselves, ``(N,)``: bit-identical to `all_pairs`."""
    value = np.empty(len(samples))
    call("histories", **forest._asdict(), left=samples, right=samples, value=None, alone=value)
    return value


def careful_pairs(forest: Forest, left: Floats, right: Floats, rows: Any, columns: Any) -> Floats:
    """Return the logarithms of the pairs (rows[p], columns[p]), accurate for all evidence; -inf if impossible.

    ``left`` and ``right`` are logarithms of the evidence, (I, V, S) and (J, V, S).
    """
    value = np.empty(len(rows))
    nodes, states = left.shape[1:]
    some = max(64, int(_NUMBERS / (nodes * states * (states + 4))))
    for begin in range(0, len(rows), some):
        part = slice(begin, begin + some)
        call(
            "history_pairs", **forest._asdict(), left=left, right=right, rows=rows[part], columns=columns[part],
            value=value[part],
        )  # fmt: skip
    return value
