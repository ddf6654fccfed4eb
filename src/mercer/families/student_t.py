"""Student's t distributions: what Gaussian distributions of unknown mean and covariance predict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer.families.base import Family, Parameter
from mercer.families.sets import definite, positive, reals
from mercer.families.special import gammaln, log, log1p, total


class StudentTs(Family):
    r"""A batch of multivariate Student t distributions: what Gaussian distributions of unknown parameters predict.

    They have densities and samples, and no closed form of a kernel: `mercer.Sampled` compares them.

    Parameters
    ----------
    location : array of shape (..., d)
        Centers m.
    scale : array of shape (..., d, d)
        Scale matrices S, positive definite.
    degrees : array of shape (...)
        Degrees of freedom n, positive.

    Notes
    -----
    Density :math:`\frac{\Gamma((n+d)/2)}{\Gamma(n/2)(n\pi)^{d/2}|S|^{1/2}}
    \left(1+\tfrac1n(x-m)^\top S^{-1}(x-m)\right)^{-(n+d)/2}` (PPK-2a).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.StudentTs([[0.0], [1.0]], [[[1.0]], [[4.0]]], [3.0, 5.0])
    >>> p.log_prob([[0.0], [2.0]]).round(4)
    array([[-1.0009, -2.6955],
           [-1.8081, -1.8081]])
    """

    location = Parameter(reals)
    scale = Parameter(definite, axes=2)
    degrees = Parameter(positive, axes=0)

    def log_density(self, x: Array) -> Array:
        xp, nu, d, gap = namespace(x, self.scale), self.degrees, self.dimension, x - self.location
        squared = total(gap * xp.linalg.solve(self.scale, gap[..., None])[..., 0])
        ends = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * log(nu * math.pi)
        return ends - xp.linalg.slogdet(self.scale)[1] / 2 - (nu + d) / 2 * log1p(squared / nu)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        normal = (np.linalg.cholesky(self.scale) @ rng.standard_normal((*shape, self.dimension, 1)))[..., 0]
        return self.location + normal / np.sqrt(rng.chisquare(self.degrees, shape) / self.degrees)[..., None]
