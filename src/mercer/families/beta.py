"""Products of beta distributions: vectors of independent numbers between 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import positive, unit
from mercer.families.special import betaln, digamma, log, log1p, trigamma


class Betas(Coordinatewise):
    r"""A batch of products of d independent beta distributions: shares, rates, probabilities.

    Parameters
    ----------
    a, b : array of shape (..., d)
        Shapes, positive: the mean is a / (a + b).

    Notes
    -----
    Density :math:`x^{a-1}(1-x)^{b-1}/B(a,b)`. Probability product (PPK-3.7)
    :math:`B(\rho(a+a'-2)+1,\,\rho(b+b'-2)+1)/\left[B(a,b)B(a',b')\right]^\rho`, finite where both arguments are
    positive for every member with itself: always at rho = 1/2. Duals are found by Newton's method.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Betas([[1.0], [2.0]], [[1.0], [5.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8346],
           [0.8346, 1.    ]])
    >>> p.dual_divergence(p).round(4)
    array([[0.   , 0.177],
           [0.177, 0.   ]])
    """

    a = Parameter(positive)
    b = Parameter(positive)
    support = unit
    labels = ("a", "b")

    def natural(self) -> tuple[Array, Array]:
        return self.a, self.b

    def partition(self, theta: tuple[Array, Array]) -> Array:
        return betaln(*theta)

    def from_natural(self, theta: tuple[Array, Array]) -> tuple[Array, Array]:
        return theta

    def statistic(self, x: Array) -> tuple[Array, Array]:
        return log(x), log1p(-x)

    def base(self, x: Array) -> Array:
        return -log(x) - log1p(-x)

    def power_partition(self, c: float, eta: tuple[Array, Array]) -> Array:
        return betaln(eta[0] + (1 - c), eta[1] + (1 - c))

    def finite(self, rho: float) -> Array:
        return (2 * rho * (self.a - 1) + 1 > 0) & (2 * rho * (self.b - 1) + 1 > 0)

    def _limits(self, rho: float) -> str:
        return f"for shapes up to {1 - 1 / (2 * rho):.6g}"

    def moments(self) -> tuple[Array, Array]:
        both = digamma(self.a + self.b)
        return digamma(self.a) - both, digamma(self.b) - both

    def information(self) -> Array:
        xp, both = namespace(self.a), -trigamma(self.a + self.b)
        rows = xp.stack([trigamma(self.a) + both, both], axis=-1), xp.stack([both, trigamma(self.b) + both], axis=-1)
        return xp.stack(rows, axis=-1)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.clip(rng.beta(self.a, self.b, shape), 1e-300, 1 - 2**-53)


class Beta(FamilyEstimator, of=Betas):
    """Fit products of beta distributions, one to every sample (a set of rows between 0 and 1) or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.Beta().fit_each([[[0.2], [0.5], [0.3]], [[0.9], [0.8], [0.7]]])
    >>> (p.a / (p.a + p.b)).round(2)
    array([[0.33],
           [0.8 ]])
    """
