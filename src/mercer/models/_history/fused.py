"""Sums over shared hidden states on an NVIDIA GPU, by one Triton kernel for all nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer import cuda
from mercer._array import Array, beside, namespace
from mercer.models._history.planes import Evidence, History

MOST_STATES = 16
"""Models with more states use matrix products."""
PAIRS = 2**26
"""Number of pairs that a tile holds."""
_FLOOR, _EVIDENCE, _STEP = 1e-150, 1e-70, 1e-8
"""Where some transitions are impossible: least entry of a message, and least possible evidence and transition, so that
no product of the three underflows."""


def fits(history: History, *sides: Evidence) -> bool:
    """Whether the Triton kernel computes pairs of these samples."""
    arrays = [history.root, history.transition, *(side.logs for side in sides)]
    if not cuda.usable(*arrays) or history.pruning > 0 or int(history.root.shape[0]) > MOST_STATES:
        return False
    return history.range.plain or (history.range.smallest >= _STEP and all(_shown(side) for side in sides))


def _shown(side: Evidence) -> bool:
    """Whether zero evidence is impossible, and no other is tiny."""
    xp = namespace(side.logs)
    return bool(xp.all((side.logs >= math.log(_EVIDENCE)) | (side.logs == -xp.inf)))


def fused_sums(history: History, left: Evidence, right: Evidence | None) -> Array:
    """Log sums of all pairs, ``(I, J)``, NaN where they are not sound; ``right=None`` for samples with themselves.

    If ``right`` is ``left``, only half of the pairs are computed.
    """
    from mercer.cuda.forest import forest_sums

    forest, xp = history.forest, namespace(left.logs)
    order = beside(left.logs, forest.order)

    def sorted_nodes(x: Array) -> Array:
        return xp.take(x, order, axis=0)

    step = history.transition
    step = step[None, ...] if len(step.shape) == 2 else sorted_nodes(step)
    a = sorted_nodes(xp.exp(left.logs))
    b: Any = None
    if right is not None:
        b = a if right is left else sorted_nodes(xp.exp(right.logs))
    shape = tuple(beside(left.logs, np.asarray(x, np.int32)) for x in (forest.children, forest.roots, forest.waits))
    floor = None if history.range.plain else _FLOOR
    return forest_sums(a, b, step, history.root, shape, forest.depth, history.range.least, floor)
