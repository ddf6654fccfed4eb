"""Wishart distributions: covariance matrices of samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer.families.base import Parameter
from mercer.families.calculus import positive_root
from mercer.families.estimator import Context
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import definite, flat_definite, positive
from mercer.families.special import digamma, log, multigammaln, trigamma
from mercer.families.symmetric import inverse, matrix, side, triangle


class Wisharts(ExponentialFamily):
    r"""A batch of Wishart distributions: symmetric positive definite matrices, such as covariances of windows.

    A point is a d x d matrix, row by row: a vector of d^2 numbers.

    Parameters
    ----------
    scale : array of shape (..., d, d)
        Scale matrices V, positive definite: the mean is n V.
    excess : array of shape (...)
        What the degrees of freedom n are above d - 1, positive.

    Notes
    -----
    Density :math:`|X|^{(n-d-1)/2}e^{-\frac12\mathrm{tr}(V^{-1}X)}/\left(2^{nd/2}|V|^{n/2}\Gamma_d(n/2)\right)`.
    There is no base measure, so that probability products follow from the log partition function (PPK-3.0).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Wisharts([np.eye(2), 2 * np.eye(2)], [3.0, 3.0])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7901],
           [0.7901, 1.    ]])
    """

    scale = Parameter(definite, axes=2)
    excess = Parameter(positive, axes=0)
    support = flat_definite

    @property
    def _size(self) -> int:
        return int(self.scale.shape[-1])

    @property
    def dimension(self) -> int:
        """Number of entries of a matrix."""
        return self._size**2

    def natural(self) -> Array:
        xp = namespace(self.scale)
        half = (self.excess - 2) / 2  # (n - d - 1) / 2, of the log determinant
        return xp.concat([triangle(-xp.linalg.inv(self.scale) / 2), half[..., None]], axis=-1)

    def from_natural(self, theta: Array) -> tuple[Array, Array]:
        return inverse(-2 * matrix(theta[..., :-1])), 2 * theta[..., -1] + 2

    def partition(self, theta: Array) -> Array:
        d = side(theta.shape[-1] - 1)
        half = theta[..., -1] + (d + 1) / 2  # n / 2
        return multigammaln(half, d) - half * namespace(theta).linalg.slogdet(-matrix(theta[..., :-1]))[1]

    def statistic(self, x: Array) -> Array:
        xp, d = namespace(x), self._size
        x = xp.reshape(x, (*x.shape[:-1], d, d))
        return xp.concat([triangle(x), xp.linalg.slogdet(x)[1][..., None]], axis=-1)

    def inward(self, t: Array, floor: float) -> Array:
        return namespace(t).concat([t[..., :-1], t[..., -1:] - floor], axis=-1)

    def moments(self) -> Array:
        xp, d = namespace(self.scale), self._size
        n = self.excess + (d - 1)
        logs = sum(digamma((n - i) / 2) for i in range(d)) + d * math.log(2) + xp.linalg.slogdet(self.scale)[1]
        return xp.concat([n[..., None] * triangle(self.scale), logs[..., None]], axis=-1)

    def from_moments(self, mu: Array) -> tuple[Array, Array]:
        """Solve one equation for the degrees of freedom: of log|E X| - E log|X|."""
        mean, d = matrix(mu[..., :-1]), self._size
        gap = namespace(mu).linalg.slogdet(mean)[1] - mu[..., -1]

        def value(e: Array) -> Array:
            n = e + (d - 1)
            return d * log(n / 2) - sum(digamma((n - i) / 2) for i in range(d))

        def slope(e: Array) -> Array:
            n = e + (d - 1)
            return d / n - sum(trigamma((n - i) / 2) for i in range(d)) / 2

        excess = positive_root(value, slope, gap, d * (d + 1) / 2 / gap)
        return mean / (excess + (d - 1))[..., None, None], excess

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draw by Bartlett's decomposition."""
        d = self._size
        a = np.tril(rng.standard_normal((*shape, d, d)), -1)
        n = np.broadcast_to(self.excess + (d - 1), shape)
        a[..., np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(n[..., None] - np.arange(d)))
        root = np.linalg.cholesky(self.scale) @ a
        return (root @ np.swapaxes(root, -1, -2)).reshape(*shape, d * d)


class Wishart(FamilyEstimator, of=Wisharts):
    """Fit Wishart distributions, one to every sample (a set of matrices, row by row) or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> matrices = [[2.0, 0.5, 0.5, 1.0], [1.0, -0.2, -0.2, 3.0], [2.5, 0.1, 0.1, 0.7]]
    >>> p = mc.families.Wishart().fit_each([matrices])
    >>> ((p.excess[0] + 1) * p.scale[0]).round(2)
    array([[1.83, 0.13],
           [0.13, 1.57]])
    """

    def template(self, context: Context) -> Wisharts:
        """Return the standard member of the family, of shape ``()``."""
        return Wisharts.standard(math.isqrt(context.dimension))
