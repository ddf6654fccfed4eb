"""Shared histories (MK-3, MK-4, MK-6): sums over the hidden states of two samples, computed by native/forest.hpp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call

SMALLEST = 1e-300
"""If entries are watched, positive evidence must be raised to this floor; a product at the floor counts as lost."""


_LANES = 8


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


class Evidence(NamedTuple):
    """Evidence of N samples relative to the best state of every node, nodes in the order of the forest."""

    values: Floats
    """``(N, V, S)``; if watched, zero or at least `SMALLEST`."""
    logs: Floats | None
    """Logarithms, if some values underflow float64."""


def all_pairs(forest: Forest, left: Evidence, right: Evidence) -> Floats:
    """Return the logarithms of all pairs of samples, ``(I, J)``; -inf if a pair is impossible."""
    value = np.empty((len(left.values), len(right.values)))
    call(
        "histories", **forest._asdict(), left=left.values, right=right.values, log_left=left.logs,
        log_right=right.logs, value=value,
    )  # fmt: skip
    return value


def alone(forest: Forest, samples: Evidence) -> Floats:
    """Return the logarithms of all samples with themselves, ``(N,)``: bit-identical to `all_pairs`."""
    found = [np.empty(0)]
    for first in range(0, len(samples.values), _LANES):
        some = slice(first, first + _LANES)
        part = Evidence(samples.values[some], None if samples.logs is None else samples.logs[some])
        found.append(np.diagonal(all_pairs(forest, part, part)))
    return np.concatenate(found)
