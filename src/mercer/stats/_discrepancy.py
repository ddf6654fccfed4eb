"""Maximum mean discrepancy of a Gram matrix: all assignments at once, effect size and witness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse, stats

from mercer._array import Floats
from mercer.stats._assignments import Design


class Effect(NamedTuple):
    """The squared effect size, its variance, the variance within samples that it is divided by, degrees of freedom."""

    square: float
    variance: float
    within: float
    freedom: int


def interval(effect: Effect, null: Floats, share: float, level: float) -> tuple[float, float]:
    r"""Return the interval of an effect size, which contains 0 unless a test of the same level rejects.

    The deviation of the estimate :math:`e` of a squared effect :math:`x` is that of the hypothesis for :math:`x = 0`,
    and its square increases in proportion to x, as the jackknife says at :math:`x = e`. The lower end solves
    :math:`(e - x)^2 = c^2 + t^2 s x` with the critical value c of the test, the upper end the same with the deviation
    under the hypothesis, :math:`t^2 v`, in place of :math:`c^2`.

    Parameters
    ----------
    effect : Effect
        The estimate.
    null : ndarray of shape (B,)
        The squared difference for every permutation.
    share : float
        Critical value of the test by its statistic; below 1 if the test rejects.
    level : float
        Level of the interval.
    """
    rejects, smallest = share < 1, np.finfo(float).tiny
    if not np.isfinite(effect.square) or not np.isfinite(effect.variance):  # no variance, or too few to leave one out
        low, high = (effect.square, effect.square) if effect.square in (0.0, np.inf) else (0.0, np.inf)
        return (max(low, smallest), high) if rejects else (0.0, high)
    quantile = float(stats.t.ppf((1 + level) / 2, effect.freedom))
    under = float(np.mean(null**2)) / effect.within**2
    estimate, deviation = effect.square, np.sqrt(under)
    slope = max(effect.variance - under, 0.0) / max(estimate, deviation, smallest)
    # An estimate near 0 does not tell the slope, which is at most 2 sqrt(2) deviations: that of the first eigenvector.
    steep = max(slope, 2 * np.sqrt(2) * deviation * min(1.0, deviation / max(estimate, smallest)))
    low, high = 0.0, _root(estimate, quantile**2 * steep, quantile**2 * under, 1)
    if rejects:
        low = max(_root(estimate, quantile**2 * slope, (share * estimate) ** 2, -1), smallest)
    return float(np.sqrt(low)), float(np.sqrt(max(high, 0.0)))


def _root(e: float, slope: float, c: float, sign: int) -> float:
    """Return the smaller or the larger solution x of (e - x)^2 = c + slope x."""
    middle = e + slope / 2
    return float(middle + sign * np.sqrt(max(middle**2 - e**2 + c, 0.0)))


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

    @property
    def spread(self) -> float:
        """Root mean square of the centered kernel of objects of different groups: no permutation changes it."""
        same = (self.members.T @ self.members).tocoo()
        others = len(self.K) - np.asarray(self.members.sum(axis=1))[self.design.units]
        means = self.K.sum(axis=0) / np.maximum(others, 1)
        centered = self.K - means - means[:, None] + self.K.sum() / others.sum()
        centered[same.row, same.col] = 0.0
        return float(np.sqrt((centered**2).sum() / others.sum()))

    def effect(self) -> Effect:
        """Return the squared discrepancy by the variance within samples, and its variance by the jackknife."""
        z = self.design.first.astype(float)
        n_units = self.members.shape[0]
        towards = np.stack([self.K @ z, self.K @ (1 - z)])
        # Sums of each group: with the first and the second sample, of its objects in the first and in the second.
        (xx, xy), (yx, yy) = [[self.members @ (side * row) for row in towards] for side in (z, 1 - z)]
        dx, dy, nx, ny = (self.members @ v for v in (z * self.diagonal, (1 - z) * self.diagonal, z, 1 - z))

        def ratio(keep: Floats) -> tuple[Floats, Floats]:
            """Return the estimate without the groups that have a zero in a row of ``keep``, and its denominator."""
            out = 1 - keep
            n, m = keep @ nx, keep @ ny
            pairs = n**2 - keep @ nx**2, n * m - keep @ (nx * ny), m**2 - keep @ ny**2
            sums = xx.sum() - 2 * (out @ xx), xy.sum() - out @ (xy + yx), yy.sum() - 2 * (out @ yy)
            with np.errstate(invalid="ignore", divide="ignore"):
                within = ((keep @ dx) / n - sums[0] / pairs[0] + (keep @ dy) / m - sums[2] / pairs[2]) / 2
                squared = _combined(*sums, *pairs)
                noise = 1e-14 * self.scale
                within, squared = (np.where(np.abs(v) <= noise, 0.0, v) for v in (within, squared))
                return np.where(squared == 0, 0.0, squared / within), within

        estimate, within = (float(value[0]) for value in ratio(np.ones((1, n_units))))
        without = ratio(1 - np.eye(n_units))[0]
        strata = [np.ones(n_units, dtype=bool)] if self.design.crossed else [nx > 0, nx == 0]
        with np.errstate(invalid="ignore"):  # no variance within samples
            variance = float(sum((s.sum() - 1) * np.var(without[s]) for s in strata))
        freedom = min(int(s.sum()) for s in strata) - 1
        return Effect(estimate, variance if within > 0 else np.nan, within, freedom)


def _combined(xx: Floats, xy: Floats, yy: Floats, nxx: Floats, nxy: Floats, nyy: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(xx / nxx + yy / nyy - 2 * xy / nxy)
