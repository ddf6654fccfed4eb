"""Products of geometric distributions: how many failures come before a success."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer._array import Array, log_complement, xlogx
from mercer._verdict import Verdict
from mercer.families._gaps import overdispersed_entropy, overdispersed_gap
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import counts, probability
from mercer.families.special import expm1, log, log1mexp, times


class Geometrics(Coordinatewise):
    r"""A batch of products of d independent geometric distributions: failures before the first success.

    Parameters
    ----------
    probability : array of shape (..., d)
        Probabilities p of success, above 0 and at most 1.

    Notes
    -----
    Probability :math:`p(1-p)^x`. Probability product (PPK-3.7)
    :math:`(pp')^\rho/\left(1-((1-p)(1-p'))^\rho\right)`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Geometrics([[0.5], [0.2]])
    >>> np.exp(p.log_product(p, rho=1.0)).round(4)
    array([[0.3333, 0.1667],
           [0.1667, 0.1111]])
    """

    probability = Parameter(probability)
    support = counts
    labels = ("log_failure",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu - 1/(1 + mu) is a Laplace transform of a positive measure (DJS-5)")

    def natural(self) -> Array:
        return log_complement(self.probability)

    def from_natural(self, theta: Array) -> Array:
        return -expm1(theta)

    def partition(self, theta: Array) -> Array:
        return -log1mexp(theta)

    def moments(self) -> Array:
        return 1 / self.probability - 1

    def from_moments(self, mu: Array) -> Array:
        return 1 / (1 + mu)

    def legendre(self, mu: Array) -> Array:
        return xlogx(mu) - xlogx(1 + mu)

    def information(self) -> Array:
        return (1 - self.probability) / self.probability**2

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.geometric(self.probability, shape) - 1

    # -- digits, and no failures at all ----------------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        return times(x, log_complement(self.probability)) + log(self.probability)

    def divergence(self, other: Self) -> Array:
        return overdispersed_gap(self.moments(), other.moments(), 1.0)

    def relative_entropy(self, other: Self) -> Array:
        return overdispersed_entropy(self.moments(), other.moments(), 1.0)


class Geometric(FamilyEstimator, of=Geometrics):
    """Fit products of geometric distributions, one to every sample (a row of counts or a set of rows) or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.Geometric().fit_each([[3, 0], [1, 4]]).probability
    array([[0.25, 1.  ],
           [0.5 , 0.2 ]])
    """

    largest = np.inf
