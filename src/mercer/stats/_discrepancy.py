"""Maximum mean discrepancy of a Gram matrix: all assignments at once, effect size and witness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse, stats

from mercer._array import Floats
from mercer.stats._assignments import Design


@dataclass(frozen=True)
class Discrepancy:
    """Sums over pairs of objects of different groups.

    Parameters
    ----------
    K : ndarray of shape (N, N)
        Gram matrix minus its mean, zero for pairs of one group.
    diagonal : ndarray of shape (N,)
        Self-kernels minus the same mean.
    design : Design
        Samples and groups of the objects.
    members : sparse matrix of shape (U, N)
        1 where an object is in a group.
    scale : float
        Largest absolute value of the kernel, to tell differences from rounding.
    """

    K: Floats
    diagonal: Floats
    design: Design
    members: sparse.csr_array
    scale: float

    @classmethod
    def of(cls, K: Floats, design: Design) -> Self:
        """Return the sums for a Gram matrix, which is copied."""
        units, n = design.units, len(K)
        members = sparse.csr_array((np.ones(n), (units, np.arange(n))), shape=(units.max() + 1, n))
        scale, center = float(np.abs(K).max()), float(K.mean())
        K = K - center  # a constant changes no discrepancy, and loses digits
        diagonal = np.diag(K).copy()
        same = (members.T @ members).tocoo()
        K[same.row, same.col] = 0.0
        return cls(K, diagonal, design, members, scale)

    def squared(self, Z: Floats) -> Floats:
        """Return the unbiased squared discrepancy for every assignment, ``(B,)``; Z is ``(N, B)``, 1 for the first."""
        rows = self.K.sum(axis=0)
        xx = np.einsum("nb,nb->b", Z, self.K @ Z)
        xy = rows @ Z - xx
        yy = rows.sum() - xx - 2 * xy
        return _combined(xx, xy, yy, *self._pairs(Z))

    def observed(self) -> float:
        """Return the squared discrepancy of both samples."""
        return float(self.squared(self.design.first[:, None].astype(float))[0])

    def _pairs(self, Z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the number of ordered pairs of different groups: within the first, between, within the second."""
        inside = self.members @ Z
        outside = self.members.sum(axis=1)[:, None] - inside
        n, m = inside.sum(axis=0), outside.sum(axis=0)
        return n**2 - (inside**2).sum(axis=0), n * m - (inside * outside).sum(axis=0), m**2 - (outside**2).sum(axis=0)

    def witness(self) -> Floats:
        """Return the mean kernel of every object with the first sample minus that with the second, ``(N,)``."""
        first = self.design.first.astype(float)
        means = []
        for z in (first, 1 - first):
            others = z.sum() - (self.members @ z)[self.design.units]
            means.append((self.K @ z) / np.maximum(others, 1.0))
        return np.asarray(means[0] - means[1])

    def effect(self, level: float) -> tuple[float, tuple[float, float]]:
        """Return the squared discrepancy by the variance within samples, and the interval of its root."""
        z = self.design.first.astype(float)
        n_units = self.members.shape[0]
        towards = np.stack([self.K @ z, self.K @ (1 - z)])
        # Sums of each group: with the first and the second sample, of its objects in the first and in the second.
        (xx, xy), (yx, yy) = [[self.members @ (side * row) for row in towards] for side in (z, 1 - z)]
        dx, dy, nx, ny = (self.members @ v for v in (z * self.diagonal, (1 - z) * self.diagonal, z, 1 - z))

        def ratio(keep: Floats) -> Floats:
            """Return the estimate without some groups; each row of ``keep`` has a zero for every group left out."""
            out = 1 - keep
            n, m = keep @ nx, keep @ ny
            pairs = n**2 - keep @ nx**2, n * m - keep @ (nx * ny), m**2 - keep @ ny**2
            sums = xx.sum() - 2 * (out @ xx), xy.sum() - out @ (xy + yx), yy.sum() - 2 * (out @ yy)
            with np.errstate(invalid="ignore", divide="ignore"):
                within = ((keep @ dx) / n - sums[0] / pairs[0] + (keep @ dy) / m - sums[2] / pairs[2]) / 2
                squared = _combined(*sums, *pairs)
                noise = 1e-14 * self.scale
                within, squared = (np.where(np.abs(v) <= noise, 0.0, v) for v in (within, squared))
                return np.where(squared == 0, 0.0, squared / within)

        estimate = float(ratio(np.ones((1, n_units)))[0])
        without = ratio(1 - np.eye(n_units))
        strata = [np.ones(n_units, dtype=bool)] if self.design.crossed else [nx > 0, nx == 0]
        if not np.isfinite(without).all():  # too few groups to leave one out, or no variance within samples
            return estimate, (0.0, np.inf)
        variance = sum((s.sum() - 1) * np.var(without[s]) for s in strata)
        half = float(stats.t.ppf((1 + level) / 2, n_units - len(strata)) * np.sqrt(variance))
        # The deviation of the square shrinks with the square itself, so the upper end is that of the root where it is
        # larger, up to the root of twice the half width.
        size = max(estimate, 0.0)
        upper = size + half + min(half**2 / (4 * size) if size > 0 else np.inf, half)
        return estimate, (float(np.sqrt(max(estimate - half, 0.0))), float(np.sqrt(upper)))


def _combined(xx: Floats, xy: Floats, yy: Floats, nxx: Floats, nxy: Floats, nyy: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(xx / nxx + yy / nyy - 2 * xy / nxy)
