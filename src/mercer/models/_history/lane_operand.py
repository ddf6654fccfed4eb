"""Samples under one hidden chain or tree of few states: tiles by the native library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from mercer._array import Floats, safe_log
from mercer._coupling import FieldOperand
from mercer._native import forest
from mercer._native.forest import Forest
from mercer.models._history.planes import History, check_alike


def _sorted_nodes(history: History) -> forest.Forest:
    """Return a hidden tree with its nodes in the order of elimination."""
    order, step, limits = history.forest, np.asarray(history.transition), history.range
    step = np.ascontiguousarray(np.swapaxes(step[None] if step.ndim == 2 else step[order.order], 1, 2))
    children, roots, waits = (x.astype(np.int64) for x in (order.children, order.roots, order.waits))
    return forest.Forest(
        children, roots, waits, order.depth, step, np.asarray(history.root), not limits.plain, limits.least,
        limits.floor,
    )  # fmt: skip


class Packed(forest.Evidence):
    """Evidence of N samples."""

    @classmethod
    def of(cls, logs: Floats, watched: bool) -> Packed:
        """Create from logarithms; zero means impossible if entries are checked."""
        values = np.exp(logs)
        lost = (values < forest.SMALLEST) & (logs > -np.inf)
        if watched:  # raised values are reported as unsound later
            values[lost] = forest.SMALLEST
        return cls(values, logs if lost.any() else None)

    def logarithms(self) -> Floats:
        """Return logarithms."""
        return np.asarray(safe_log(self.values)) if self.logs is None else self.logs


@dataclass(eq=False)
class LaneOperand(FieldOperand):
    """Samples with the evidence of a shared hidden tree: tiles by the native library (MK-3, MK-4, MK-6)."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("history", "forest", "example")

    history: History
    forest: Forest
    evidence: Packed
    shift: Floats
    example: str | None

    @classmethod
    def of(cls, history: History, logs: Floats, shift: Floats, example: str | None) -> Self:
        """Create from the logarithms of relative evidence, ``(N, V, S)``, and the sums of its scales."""
        ordered = np.ascontiguousarray(logs[:, history.forest.order])
        return cls(history, _sorted_nodes(history), Packed.of(ordered, not history.range.plain), shift, example)

    @property
    def nodes(self) -> int:
        """Number of hidden nodes."""
        return int(self.evidence.values.shape[1])

    @property
    def tile_hint(self) -> int:
        """Rows of a tile: about a millisecond of work, in whole vectors."""
        states = len(self.forest.root)
        pairs = 2e7 / (self.nodes * (states * states + 4 * states))
        return min(512, max(16, 16 * round(math.sqrt(pairs) / 16)))

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``."""
        check_alike(self, other)
        values = forest.all_pairs(self.forest, self.evidence, other.evidence)
        values += self.shift[:, None] + other.shift[None, :]
        return values

    def alone(self) -> Floats:
        """Log kernel of every sample with itself, ``(N,)``: bit-identical to `pair`."""
        return forest.alone(self.forest, self.evidence) + 2 * self.shift
