"""Pairs of Gaussians: determinants and quadratic forms of the sums of their covariances.

They are solved on an NVIDIA GPU, in SIMD lanes on the CPU, or in planes of any array library: a plane has one entry
of the matrices of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, namespace, to_numpy
from mercer.families import gaussian_fused
from mercer.families._covariance import Structure, smallest_eigenvalue
from mercer.families.exponential_family import ExponentialFamily


class GaussianPairs(ExponentialFamily):
    """What `Gaussians` compute for all pairs of two batches."""

    mean: Array
    covariance: Array
    structure: Structure

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.mean.shape[-1])

    @property
    def _variances(self) -> Array:
        if self.structure == "isotropic":
            return self.covariance[..., None] * namespace(self.mean).ones_like(self.mean)
        return self.covariance

    def _require_regular(self, what: str) -> None:
        if gaussian_fused.surely_regular(self):
            return
        bad = np.argwhere(smallest_eigenvalue(to_numpy(self.covariance), self.structure) <= 0)
        if len(bad):
            where = tuple(int(i) for i in bad[0])
            raise ValueError(
                f"The Gaussian at index {where} has a singular covariance, for which {what} does not exist. Add a "
                "floor to its covariance."
            )

    def _require_regular_sums(self, other: Self) -> None:
        """Raise if the covariances of a pair have a singular sum; one regular side is enough."""
        if gaussian_fused.surely_regular(self) and gaussian_fused.surely_regular(other):
            return
        a, b = to_numpy(self.covariance), to_numpy(other.covariance)
        if all((smallest_eigenvalue(c, self.structure) > 0).all() for c in (a, b)):
            return
        axes = {"full": 2, "diagonal": 1, "isotropic": 0}[self.structure]
        sums = np.expand_dims(a, -1 - axes) + np.expand_dims(b, -2 - axes)
        bad = np.argwhere(smallest_eigenvalue(sums, self.structure) <= 0)
        if len(bad):
            raise ValueError(
                f"The probability product at rho = 1 is infinite for the pair {tuple(map(int, bad[0]))}, whose "
                "covariances sum to a singular matrix. Add a floor to the covariances."
            )

    def _planes(self, at: tuple[Any, ...] = (..., slice(None), None)) -> list[list[Array]]:
        """Entries of the covariances (by structure), each ``(*B, n, 1)``, or as ``at`` indexes the batch."""
        c, d = self.covariance, self.dimension
        if self.structure == "isotropic":
            return [[c[at]]]
        if self.structure == "diagonal":
            return [[c[(*at, i)]] for i in range(d)]
        return [[c[(*at, i, j)] for j in range(i + 1)] for i in range(d)]

    def _pair_planes(self, other: Self) -> tuple[list[list[Array]], list[Array]]:
        """Planes of S + S' (by structure) and of m - m'."""
        rows = zip(self._planes(), other._planes((..., None, slice(None))), strict=True)
        planes = [[a + b for a, b in zip(own, theirs, strict=True)] for own, theirs in rows]
        difference = [self.mean[..., :, None, i] - other.mean[..., None, :, i] for i in range(self.dimension)]
        return planes, difference

    def _log_kernels(
        self,
        other: Self,
        scale: float,
        identity: float,
        weight: float,
        sides: Sequence[Array] = (),
        constant: float = 0.0,
    ) -> Array:
        """Return -log|M| / 2 - weight v' M^{-1} v of every pair, M as in `_pair_solve`, plus numbers of either side."""
        if gaussian_fused.fits(self, other):
            zeros = [namespace(side.mean).zeros_like(side.mean[:, 0]) for side in (self, other)]
            own, theirs = sides if sides else zeros
            found = gaussian_fused.log_kernels(self, other, scale, identity, weight, own + constant, theirs)
            if found is not None:
                return found
        if self._fused() and other._fused():
            from mercer._native import gaussians

            own, theirs = sides if sides else (np.zeros(len(self)), np.zeros(len(other)))
            pair = (self.mean, self.covariance), (other.mean, other.covariance)
            value = gaussians.log_kernels(*pair, scale, identity, weight, own + constant, theirs)
            if math.isfinite(value.sum()):  # else a pivot left the range of floats
                return value
        log_det, quadratic = self._pair_solve(other, scale, identity)
        value = constant - log_det / 2 - weight * quadratic
        return value + (sides[0][..., :, None] + sides[1][..., None, :]) if sides else value

    def _pair_solve(self, other: Self, scale: float = 1.0, identity: float = 0.0) -> tuple[Array, Array]:
        """Return log|M| and v' M^{-1} v of every pair, for M = scale (S + S') + identity and v = m - m'."""
        if self._in_lanes() and other._in_lanes():
            from mercer._native import gaussians

            pair = (self.mean, self.covariance), (other.mean, other.covariance)
            log_det, quadratic = gaussians.solve(*pair, scale, identity)
            if np.isfinite(log_det).all():  # else a pivot left the range of floats
                return log_det, quadratic
        planes, difference = self._pair_planes(other)
        if (scale, identity) != (1.0, 0.0):
            for i, row in enumerate(planes):
                for j, plane in enumerate(row):
                    row[j] = scale * plane + (identity if i == j or self.structure != "full" else 0.0)
        return self._solve_planes(planes, difference)

    def _in_lanes(self) -> bool:
        """Whether the compiled loop for full covariances takes this batch: float64 on the CPU, one batch axis."""
        return self.structure == "full" and self._fused()

    def _fused(self) -> bool:
        """Whether the compiled loops take this batch: covariances are full or diagonal, and many in one axis."""
        if self.structure == "isotropic" or self.ndim != 1 or len(self) == 0 or self.dimension == 1:
            return False
        return is_numpy_array(self.mean) and self.mean.dtype == self.covariance.dtype == np.float64

    @property
    def _entries(self) -> Array:
        """Full covariances, or variances."""
        return self.covariance if self.structure == "full" else self._variances

    def _solve_planes(self, planes: list[list[Array]], difference: list[Array]) -> tuple[Array, Array]:
        """Return log|M| and v' M^{-1} v for planes of a matrix with this batch's structure."""
        if self.structure == "full":
            return log_det_and_quadratic(planes, difference)
        xp = namespace(difference[0])
        if self.structure == "isotropic":
            variance = planes[0][0]
            squared = sum(v * v for v in difference)
            return self.dimension * xp.log(variance), squared / variance
        log_det = sum(xp.log(row[0]) for row in planes)
        return log_det, sum(v * v / row[0] for row, v in zip(planes, difference, strict=True))


# Small dense algebra on planes: every matrix entry is an (I, J) array over pairs.


def log_det_and_quadratic(entry: list[list[Array]], difference: list[Array]) -> tuple[Array, Array]:
    """Compute log|M| and v' M^{-1} v for a symmetric matrix of planes.

    Parameters
    ----------
    entry : list of lists of arrays
        ``entry[i][j]`` for j <= i, the lower triangle, each of shape ``(..., I, J)``. Overwritten.
    difference : list of arrays
        The d planes of v. Overwritten.

    Returns
    -------
    log_det, quadratic : arrays of shape (..., I, J)
    """
    d = len(difference)
    xp = namespace(difference[0])
    log_det = quadratic = None
    # A right-looking L D L' factorisation: no square roots, and v is carried along as one more row.
    for k in range(d):
        pivot = entry[k][k]
        inverse = 1.0 / pivot
        scaled = [entry[i][k] * inverse for i in range(k + 1, d)]
        v = difference[k]
        term = v * v * inverse
        quadratic = term if quadratic is None else quadratic + term
        log_det = xp.log(pivot) if log_det is None else log_det + xp.log(pivot)
        for i in range(k + 1, d):
            factor = scaled[i - k - 1]
            for j in range(k + 1, i + 1):
                entry[i][j] = entry[i][j] - factor * entry[j][k]
            difference[i] = difference[i] - factor * v
    return log_det, quadratic
