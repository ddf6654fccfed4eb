"""Samples as points with weights or Gaussian states, and cliques of variables: operands of `LatentMeanMap` (LMMK)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer.data.segments import segment_sum
from mercer.families.gaussian import Gaussians
from mercer.kernels._operands import Rows, squared_distances
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


GAUSSIAN_TILE_POINTS = 1024
"""Number of points on one side of a tile."""


@dataclass(frozen=True)
class GaussianPoints:
    """Observations of N samples and the Gaussian posteriors of their hidden states."""

    points: Floats
    """Observations, ``(T, d)``."""
    states: Gaussians
    """Posteriors of the states, ``(T,)``."""
    offsets: Indices
    """Sample i is at ``offsets[i]:offsets[i + 1]``."""
    gamma: float
    """Parameter of the base kernel of observations."""
    gamma_states: float
    """Parameter of the base kernel of states."""

    order = None

    @property
    def tile_hint(self) -> int:
        """Number of samples in a tile, from their average number of points."""
        return int(np.clip(GAUSSIAN_TILE_POINTS * len(self) / max(len(self.points), 1), 1, 256))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> GaussianPoints:
        """Take some samples."""
        samples = np.arange(len(self))[key]
        begin, sizes = self.offsets[:-1][samples], np.diff(self.offsets)[samples]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(begin - offsets[:-1], sizes) + np.arange(offsets[-1])
        return GaussianPoints(self.points[rows], self.states[rows], offsets, self.gamma, self.gamma_states)

    def inner(self, other: GaussianPoints) -> Floats:
        """Return the kernels of every pair."""
        found = np.empty((len(self), len(other)))
        scale = np.maximum(np.diff(other.offsets), 1)
        for i in range(len(self)):  # one by one: a sum never depends on the neighbors
            found[i] = segment_sum(self._sums(i, other), other.offsets) / scale
        return found

    def squares(self) -> Floats:
        """Return the self-kernel of every sample."""
        ones = (self[i : i + 1] for i in range(len(self)))
        return np.array([one.inner(one)[0, 0] for one in ones])

    def _sums(self, i: int, other: GaussianPoints) -> Floats:
        """Average kernels of single points over the points of sample i, ``(T',)``."""
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        logs = to_numpy(self.states[rows].log_mean_map(other.states, self.gamma_states))
        logs = logs - self.gamma * squared_distances(self.points[rows], other.points)
        return np.asarray(np.exp(logs).sum(axis=0) / max(len(logs), 1))

    def dense(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "LatentMeanMap of vectors has no finite explicit features. Set n_components=1000 for random ones, or use "
            "its Gram matrix"
        )

    def random_features(self, frequencies: Floats) -> Floats:
        """Return expected random Fourier features (MM-2), ``(N, 2 F)``.

        Parameters
        ----------
        frequencies : array of shape (d + n, F)
            Standard normal numbers, of observations and of states.
        """
        d = self.points.shape[1]
        mean, covariance = to_numpy(self.states.mean), to_numpy(self.states.covariance)
        seen, hidden = np.sqrt(2 * self.gamma) * frequencies[:d], np.sqrt(2 * self.gamma_states) * frequencies[d:]
        angle = self.points @ seen + mean @ hidden
        damped = np.exp(-np.einsum("tij,if,jf->tf", covariance, hidden, hidden, optimize=True) / 2)
        features = np.concatenate([np.cos(angle) * damped, np.sin(angle) * damped], axis=1)
        total = segment_sum(features, self.offsets) / np.maximum(np.diff(self.offsets), 1)[:, None]
        return np.asarray(total / np.sqrt(frequencies.shape[1]))


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
