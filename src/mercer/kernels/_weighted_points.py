"""Samples as points with weight vectors: sums of base kernels times inner products of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._array import Floats
from mercer.kernels._operands import Rows
from mercer.kernels.base.transformer import NoFeatures

if TYPE_CHECKING:
    from mercer._native.points import PointSets

TILE_POINTS = 2048
"""Number of points on one side of a tile."""


@dataclass(frozen=True)
class WeightedPoints:
    """Points with weights, and optional rows of further features."""

    sets: PointSets
    """Points and weights of every sample."""
    sizes: Floats
    """Number of points of every sample, ``(N,)`` int."""
    gamma: float
    """Parameter of the base kernel."""
    beside: Rows
    """Features whose inner products are added to the kernel."""

    order = None

    @classmethod
    def of(cls, points: Floats, weights: Floats, offsets: Floats, gamma: float, beside: Rows) -> Self:
        """Arrange points ``(T, d)`` and weights ``(T, m)``, sample i at ``offsets[i]:offsets[i + 1]``."""
        from mercer._native.points import PointSets

        return cls(PointSets.of(points, offsets, weights), np.diff(offsets), gamma, beside)

    @property
    def tile_hint(self) -> int:
        """Number of samples in a tile, from their average number of points."""
        average = float(self.sizes.mean()) if len(self) else 1.0
        return int(np.clip(TILE_POINTS / max(average, 1.0), 1, 256))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, key: Any) -> WeightedPoints:
        return replace(self, sets=self.sets[key], sizes=self.sizes[key], beside=self.beside[key])

    def inner(self, other: WeightedPoints) -> Floats:
        """Return the kernels of every pair."""
        left, right = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        sums = self._sums(other, left, right).reshape(len(self), len(other))
        return np.asarray(sums + self.beside.inner(other.beside))

    def squares(self) -> Floats:
        """Return the self-kernel of every sample."""
        every = np.arange(len(self))
        return np.asarray(self._sums(self, every, every) + self.beside.squares())

    def dense(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "LatentMeanMap of vectors has no finite explicit features. Set n_components=1000 for random ones, or use "
            "its Gram matrix"
        )

    def _sums(self, other: WeightedPoints, left: Floats, right: Floats) -> Floats:
        """Sum over all pairs of points of the samples ``left[p], right[p]``."""
        from mercer._native.points import LOG2_E, WEIGHTED

        scale = np.full(len(left), -LOG2_E * self.gamma)
        return self.sets.ask(WEIGHTED, other.sets, left, right, scale)[:, 0]
