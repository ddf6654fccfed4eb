"""Products of Rayleigh distributions: lengths of vectors of two Gaussian coordinates."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from mercer._array import Array
from mercer._verdict import Verdict
from mercer.families._gaps import log_mean_gap
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import positive
from mercer.families.special import log, sqrt


class Rayleighs(Coordinatewise):
    r"""A batch of products of d independent Rayleigh distributions: wave heights, lengths of two-dimensional errors.

    Parameters
    ----------
    scale : array of shape (..., d)
        Scales s, positive: standard deviations of the two Gaussian coordinates.

    Notes
    -----
    Density :math:`xs^{-2}e^{-x^2/2s^2}`. Probability product
    :math:`\tfrac12\Gamma(\rho+\tfrac12)\,(ss')^{-2\rho}\left(\tfrac\rho2(s^{-2}+s'^{-2})\right)^{-\rho-1/2}` (PPK-3.7).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Rayleighs([[1.0], [2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    scale = Parameter(positive)
    support = positive
    labels = ("negative_rate",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu^2 is a Laplace transform of a positive measure (DJS-5)")

    def natural(self) -> Array:
        return -0.5 / self.scale**2

    def from_natural(self, theta: Array) -> Array:
        return sqrt(-0.5 / theta)

    def partition(self, theta: Array) -> Array:
        return -log(-2 * theta)

    def statistic(self, x: Array) -> Array:
        return x * x

    def base(self, x: Array) -> Array:
        return log(x)

    def power_partition(self, c: float, eta: Array) -> Array:
        return math.lgamma((c + 1) / 2) - math.log(2) - (c + 1) / 2 * log(-eta)

    def moments(self) -> Array:
        return 2 * self.scale**2

    def from_moments(self, mu: Array) -> Array:
        return sqrt(mu / 2)

    def legendre(self, mu: Array) -> Array:
        return -log(mu)

    def information(self) -> Array:
        return 4 * self.scale**4

    def divergence(self, other: Self) -> Array:
        return log_mean_gap(self.scale**2, other.scale**2)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.maximum(rng.rayleigh(self.scale, shape), np.finfo(float).tiny)


class Rayleigh(FamilyEstimator, of=Rayleighs):
    """Fit products of Rayleigh distributions, one to every sample (a positive row or a set of rows) or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.Rayleigh().fit_each([[1.0, 2.0], [3.0, 4.0]]).scale.round(4)
    array([[0.7071, 1.4142],
           [2.1213, 2.8284]])
    """

    largest = 1e150
