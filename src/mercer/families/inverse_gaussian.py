"""Products of inverse Gaussian distributions: first passage times of Brownian motions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer._verdict import Verdict
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import positive
from mercer.families.special import log, log_bessel_k, sqrt


class InverseGaussians(Coordinatewise):
    r"""A batch of products of d independent inverse Gaussian distributions: times to reach a level.

    Parameters
    ----------
    mean : array of shape (..., d)
        Means m, positive.
    concentration : array of shape (..., d)
        Shapes c, positive: the variance is m^3 / c.

    Notes
    -----
    Density :math:`\sqrt{c/2\pi x^3}\,e^{-c(x-m)^2/2m^2x}`. The probability product is a Bessel function K of order
    :math:`|1-3\rho|` (PPK-3.7).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.InverseGaussians([[1.0], [3.0]], [[2.0], [2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8544],
           [0.8544, 1.    ]])
    """

    mean = Parameter(positive)
    concentration = Parameter(positive)
    support = positive
    continued = 0
    labels = ("negative_rate", "negative_inverse_rate")
    dual_verdict = Verdict("always", "exp(t F(mu)) is a mixture of exp(s / mu), s > 0 (DJS-5)")

    def natural(self) -> tuple[Array, Array]:
        return -self.concentration / (2 * self.mean**2), -self.concentration / 2

    def from_natural(self, theta: tuple[Array, Array]) -> tuple[Array, Array]:
        return sqrt(theta[1] / theta[0]), -2 * theta[1]

    def partition(self, theta: tuple[Array, Array]) -> Array:
        return -log(-2 * theta[1]) / 2 - 2 * sqrt(theta[0] * theta[1])

    def statistic(self, x: Array) -> tuple[Array, Array]:
        return x, 1 / x

    def base(self, x: Array) -> Array:
        return -(3 * log(x) + math.log(2 * math.pi)) / 2

    def inward(self, t: tuple[Array, Array], floor: float) -> tuple[Array, Array]:
        return t[0], t[1] * (1 + floor)

    def power_partition(self, c: float, eta: tuple[Array, Array]) -> Array:
        order, z = 1 - 1.5 * c, 2 * sqrt(eta[0] * eta[1])
        ends = math.log(2) - c / 2 * math.log(2 * math.pi)
        return log_bessel_k(abs(order), z) + ends + order / 2 * log(eta[1] / eta[0])

    def moments(self) -> tuple[Array, Array]:
        return self.mean, 1 / self.mean + 1 / self.concentration

    def from_moments(self, mu: tuple[Array, Array]) -> tuple[Array, Array]:
        return mu[0], 1 / (mu[1] - 1 / mu[0])

    def legendre(self, mu: tuple[Array, Array]) -> Array:
        return -log(mu[1] - 1 / mu[0]) / 2

    def information(self) -> Array:
        m, c = self.mean, self.concentration
        xp, first, crossed = namespace(m), m**3 / c, -m / c
        rows = xp.stack([first, crossed], axis=-1), xp.stack([crossed, 1 / (m * c) + 2 / c**2], axis=-1)
        return xp.stack(rows, axis=-1)

    def log_density(self, x: Array) -> Array:
        m, c = self.mean, self.concentration
        return (log(c) - math.log(2 * math.pi) - 3 * log(x) - c * ((x - m) / m) ** 2 / x) / 2

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.maximum(rng.wald(self.mean, self.concentration, shape), np.finfo(float).tiny)


class InverseGaussian(FamilyEstimator, of=InverseGaussians):
    """Fit products of inverse Gaussian distributions, one to every sample (a set of positive rows) or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.InverseGaussian().fit_each([[[1.0], [2.0], [3.0]], [[5.0], [8.0]]])
    >>> p.mean
    array([[2. ],
           [6.5]])
    """
