"""Features of the mean posteriors of cliques, and sums over cliques with real variables (LMMK-0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.kernels._operands import Rows
from mercer.kernels._weighted_points import WeightedPoints


def clique_rows(clique: Any, gamma: float, gamma_states: float) -> Floats:
    """Return features of tables ``(N, *axes)`` whose inner products are their means of products of base kernels."""
    table = clique.table
    for axis, hidden in enumerate(clique.hidden, start=1):
        width = gamma_states if hidden else gamma
        total = table.sum(axis=axis, keepdims=True) * np.exp(-width)
        table = np.concatenate([table * np.sqrt(-np.expm1(-2.0 * width)), total], axis=axis)
    return np.ascontiguousarray(table).reshape(len(table), -1)


def clique_points(
    cliques: list[Any], points: Any, offsets: Any, gamma: float, gamma_states: float, beside: Rows
) -> SummedPoints:
    """Return the operand of cliques with real variables; ``beside`` are the features of the others."""
    empty = Rows(np.zeros((len(beside), 0)))
    parts = []
    for k, clique in enumerate(cliques):
        own = np.ascontiguousarray(points[:, clique.column], dtype=np.float64)
        weights = clique_rows(clique, gamma, gamma_states)
        parts.append(WeightedPoints.of(own, weights, np.asarray(offsets), gamma, empty if k else beside))
    return SummedPoints(tuple(parts))


@dataclass(frozen=True)
class SummedPoints:
    """Several sets of points with weights, whose kernels add up."""

    parts: tuple[WeightedPoints, ...]

    order = None

    @property
    def tile_hint(self) -> int:
        """Number of samples in a tile."""
        return self.parts[0].tile_hint

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, key: Any) -> SummedPoints:
        return SummedPoints(tuple(part[key] for part in self.parts))

    def inner(self, other: SummedPoints) -> Floats:
        """Return the kernels of every pair."""
        pairs = zip(self.parts, other.parts, strict=True)
        return np.sum([a.inner(b) for a, b in pairs], axis=0)

    def squares(self) -> Floats:
        """Return the self-kernel of every sample."""
        return np.sum([part.squares() for part in self.parts], axis=0)

    def dense(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        return self.parts[0].dense()
