"""Products of Lomax distributions: what exponential distributions of unknown scale predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinates
from mercer.families.sets import nonnegative, positive
from mercer.families.special import log, log1p


class Lomaxes(Coordinates):
    r"""A batch of products of d independent Lomax distributions: exponential waiting times of unknown scale.

    They have densities and samples, and no closed form of a kernel: `mercer.Sampled` compares them.

    Parameters
    ----------
    concentration : array of shape (..., d)
        Shapes a, positive.
    scale : array of shape (..., d)
        Scales s, positive.

    Notes
    -----
    Density :math:`\frac as(1 + x/s)^{-(a+1)}` (PPK-2a).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.Lomaxes([[2.0], [3.0]], [[1.0], [1.0]])
    >>> p.log_prob([[0.0], [1.0]]).round(4)
    array([[ 0.6931, -1.3863],
           [ 1.0986, -1.674 ]])
    """

    concentration = Parameter(positive)
    scale = Parameter(positive)
    support = nonnegative

    def log_density(self, x: Array) -> Array:
        a, s = self.concentration, self.scale
        return log(a) - log(s) - (a + 1) * log1p(x / s)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.pareto(self.concentration, shape) * self.scale
