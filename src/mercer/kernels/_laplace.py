"""Mean maps with the Laplace kernel exp(-gamma |x - y|_1) as the base kernel (GMMK-2a)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, logsumexp, namespace
from mercer._special import erfcx
from mercer.families import Bernoullis, Categoricals, Gaussians, Multinomials
from mercer.kernels._operands import absolute_distances
from mercer.kernels._vector_sets import VectorSets
from mercer.models.kde import KDEs

FAR = 40.0
"""exp(-x^2) is 0 beyond."""
CHUNK = 1 << 20
"""Pairs of points whose kernels are in memory at once."""


def log_expected(gap: Array, variance: Array, gamma: float) -> Array:
    r"""Return the logarithm of :math:`E e^{-\gamma|g|}` for Gaussian g with mean ``gap``, of any shape (GMMK-2a).

    With b = gamma, m = abs(gap), v = variance and z = (b v -+ m) / sqrt(2 v) it is
    ``exp(-m^2 / 2v) (erfcx(z_-) + erfcx(z_+)) / 2``; where z_- is negative, and erfcx large, it is written around
    ``exp(b^2 v / 2 - b m)``. A variance of zero gives the base kernel.
    """
    xp, b = namespace(gap, variance), float(gamma)
    m, some = xp.abs(gap), variance > 0
    v = xp.where(some, variance, xp.ones_like(variance))
    root = xp.sqrt(2 * v)
    low, high = (b * v - m) / root, (b * v + m) / root
    size, upper = erfcx(xp.abs(low)), erfcx(high)
    inside = low >= 0
    near, wide = xp.where(inside, m, xp.zeros_like(m)), xp.where(inside, xp.zeros_like(v), v)  # elsewhere may overflow
    inner = xp.log((size + upper) / 2) - near * near / (2 * v)
    tail = xp.clip(low, -FAR, FAR)
    outer = b * b * wide / 2 - b * m + xp.log1p(xp.exp(-tail * tail) * (upper - size) / 2)
    return xp.where(some, xp.where(inside, inner, outer), -b * m)


DISCRETE: Any = (Categoricals, Multinomials, Bernoullis)
"""Families whose coordinates differ by 0 or 1, or are one-hot, so that both distances are the same."""


@dataclass(frozen=True)
class LaplaceSmoothed:
    """Mean map: log of E exp(-gamma |x - y|_1) (GMMK-0, GMMK-2a)."""

    gamma: float

    power: ClassVar[float] = 1.0
    """A mean map is linear in the hidden weights."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Compute the log kernel of all pairs, ``(*B, n) x (*B, m) -> (*B, n, m)``."""
        if isinstance(p, DISCRETE):
            return p.log_mean_map(q, gamma=self.gamma)
        if isinstance(p, KDEs):
            p._check_alike(q)
            pairs = np.array([[self._of_points(p, i, q, j) for j in range(len(q))] for i in range(len(p))])
            return pairs.reshape(len(p), len(q))
        if not isinstance(p, Gaussians) or "full" in (p.structure, q.structure):
            what = f"{type(p).__name__}{' with full covariances' * isinstance(p, Gaussians)}"
            raise TypeError(
                f"MeanMap(base='laplace') has no closed form for {what}. It has one for Gaussians with diagonal or "
                "isotropic covariances, KDEs, symbols and Bernoullis, and for mixtures, HMMs and Markov chains of "
                "these. Use base='rbf', or n_components=1000 for random features."
            )
        p._check_alike(q)
        return self._of_gaussians(p, q)

    def _of_gaussians(self, p: Gaussians, q: Gaussians) -> Array:
        """Sum over the coordinates, one at a time."""
        total: Any = 0.0
        for k in range(p.dimension):
            left, right = (s.covariance if s.structure == "isotropic" else s.covariance[..., k] for s in (p, q))
            gap = p.mean[..., :, None, k] - q.mean[..., None, :, k]
            total = total + log_expected(gap, left[..., :, None] + right[..., None, :], self.gamma)
        return total

    def _of_points(self, p: KDEs, i: int, q: KDEs, j: int) -> float:
        """Average over all pairs of points of two estimates."""
        x, y = p.points.set(i), q.points.set(j)
        variance = np.array(p.bandwidth[i] + q.bandwidth[j])
        step, logs = max(1, CHUNK // len(y)), []
        for begin in range(0, len(x), step):
            gap = (x[begin : begin + step, None, k] - y[:, k] for k in range(x.shape[1]))
            total = sum(log_expected(one, np.broadcast_to(variance, one.shape), self.gamma) for one in gap)
            logs.append(logsumexp(np.ravel(total), axis=0))
        return float(logsumexp(np.array(logs), axis=0)) - math.log(len(x) * len(y))


class LaplaceSets(VectorSets):
    """Sequences of vectors: the average Laplace kernel of their windows.

    The product of the kernels of the vectors of a window is the kernel of the vectors joined.
    """

    tile_points = 1024

    def _windows(self) -> list[Floats]:
        width = self.window_order + 1
        every = (np.asarray(x, dtype=np.float64).reshape(-1, self.sequences.values.shape[1]) for x in self.sequences)
        return [np.concatenate([x[r : len(x) - width + 1 + r] for r in range(width)], axis=1) for x in every]

    def _log_mean(self, x: Floats, y: Floats) -> float:
        step, total = max(1, CHUNK // len(y)), -math.inf
        for begin in range(0, len(x), step):
            apart = absolute_distances(x[begin : begin + step], y)
            least = float(apart.min())
            if math.isfinite(least):  # else all terms are zero
                part = math.log(np.exp(-self.gamma * (apart - least)).sum()) - self.gamma * least
                total = float(np.logaddexp(total, part))
        return total - math.log(len(x) * len(y))

    def pair(self, other: LaplaceSets) -> Floats:
        """Log average base kernel of every pair of sequences, exact even where all terms underflow."""
        mine, theirs = self._windows(), other._windows()
        values = [[self._log_mean(x, y) for y in theirs] for x in mine]
        return np.array(values, dtype=float).reshape(len(mine), len(theirs))

    def alone(self) -> Floats:
        """Log average base kernel of every sequence with itself."""
        return np.array([self._log_mean(x, x) for x in self._windows()])
