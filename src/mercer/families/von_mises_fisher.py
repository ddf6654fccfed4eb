"""Von Mises-Fisher distributions: unit vectors about a direction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, identity, namespace
from mercer.families.base import Parameter
from mercer.families.calculus import positive_root
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import nonnegative, sphere
from mercer.families.special import bessel_ratio, log_bessel, sqrt, total


class VonMisesFishers(ExponentialFamily):
    r"""A batch of von Mises-Fisher distributions: directions, normalized embeddings.

    Parameters
    ----------
    direction : array of shape (..., d)
        Unit vectors m, the mean directions.
    concentration : array of shape (...)
        Concentrations c, 0 or more; 0 is the uniform distribution on the sphere.

    Notes
    -----
    Density :math:`e^{c\,m^\top x-K(cm)}` on the unit sphere, :math:`K(\theta)=\tfrac d2\log 2\pi+
    \log I_{d/2-1}(|\theta|)-(\tfrac d2-1)\log|\theta|`. Probability product at any rho:
    :math:`e^{K(\rho(\theta+\theta'))-\rho K(\theta)-\rho K(\theta')}` (PPK-3.0).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.VonMisesFishers([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.   , 0.687],
           [0.687, 1.   ]])
    """

    direction = Parameter(sphere)
    concentration = Parameter(nonnegative, axes=0)
    support = sphere

    def natural(self) -> Array:
        return self.concentration[..., None] * self.direction

    def from_natural(self, theta: Array) -> tuple[Array, Array]:
        xp, squared = namespace(theta), total(theta * theta)
        some = squared > 0  # else any direction
        length = xp.where(some, sqrt(xp.where(some, squared, xp.ones_like(squared))), squared)
        safe = xp.where(some, length, xp.ones_like(length))[..., None]
        return xp.where(some[..., None], theta / safe, identity(theta, theta.shape[-1])[0, :]), length

    def partition(self, theta: Array) -> Array:
        d = theta.shape[-1]
        return log_bessel(d / 2 - 1, sqrt(total(theta * theta))) + d / 2 * math.log(2 * math.pi)

    def inward(self, t: Array, floor: float) -> Array:
        return (1 - floor) * t

    def moments(self) -> Array:
        return bessel_ratio(self.dimension / 2, self.concentration)[..., None] * self.direction

    def from_moments(self, mu: Array) -> tuple[Array, Array]:
        """Invert the ratio of Bessel functions from Banerjee's start."""
        d, (direction, r) = mu.shape[-1], self.from_natural(mu)

        def ratio(c: Array) -> Array:
            return bessel_ratio(d / 2, c)

        def slope(c: Array) -> Array:
            return 1 - ratio(c) ** 2 - (d - 1) / c * ratio(c)

        xp = namespace(r)
        start = xp.clip(r * (d - r * r) / (1 - r * r), 1e-8, None)
        return direction, xp.where(r > 1e-8, positive_root(ratio, slope, r, start), d * r)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draw by Wood's method: the cosine to the direction by rejection, the rest uniform."""
        d, c = self.dimension, np.broadcast_to(self.concentration, shape)
        b = (d - 1) / (2 * c + np.sqrt(4 * c * c + (d - 1) ** 2))
        x0 = (1 - b) / (1 + b)
        cosine, left = np.empty(shape), np.ones(shape, dtype=bool)
        while left.any():
            z = rng.beta((d - 1) / 2, (d - 1) / 2, left.sum())
            w = (1 - (1 + b[left]) * z) / (1 - (1 - b[left]) * z)
            bound = (d - 1) * (np.log1p(-x0[left] * w) - np.log1p(-(x0[left] ** 2)))
            taken = c[left] * (w - x0[left]) + bound >= np.log(rng.random(len(w)))
            at = tuple(i[taken] for i in np.nonzero(left))
            cosine[at], left[at] = w[taken], False
        noise = rng.standard_normal((*shape, d))
        noise -= np.sum(noise * self.direction, axis=-1, keepdims=True) * self.direction
        noise /= np.linalg.norm(noise, axis=-1, keepdims=True)
        return cosine[..., None] * self.direction + np.sqrt(1 - cosine**2)[..., None] * noise


class VonMisesFisher(FamilyEstimator, of=VonMisesFishers):
    """Fit von Mises-Fisher distributions, one to every sample (a set of unit vectors) or one to all.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> angles = [np.array([0.1, -0.2, 0.3]), np.array([1.5, 1.0, 2.0])]
    >>> sets = [np.stack([np.cos(a), np.sin(a)], axis=1) for a in angles]
    >>> mc.families.VonMisesFisher().fit_each(sets).direction.round(2)
    array([[1.  , 0.07],
           [0.07, 1.  ]])
    """
