"""Products of negative binomial distributions: counts whose rates are known up to a gamma distribution."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from mercer._array import Array, namespace, safe_log, to_numpy, xlogx
from mercer._checks import check_rho
from mercer._verdict import Verdict
from mercer.families import counting
from mercer.families._gamma_functions import binet
from mercer.families._gaps import excess, overdispersed_entropy, overdispersed_gap
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import counts, nonnegative, positive
from mercer.families.special import expm1, gammaln, log, log1mexp


class NegativeBinomials(Coordinatewise):
    r"""A batch of products of d independent negative binomial distributions.

    They are what Poisson distributions predict. Members of different sizes have a probability product; an exponential
    family, with divergences, are those of one size.

    Parameters
    ----------
    rate : array of shape (..., d)
        Means, 0 or more.
    size : float or array of shape (..., d)
        Sizes r, positive: the variance is mean + mean^2 / r.

    Notes
    -----
    Probability :math:`\binom{x+r-1}{x}\left(\frac{\mu}{\mu+r}\right)^x\left(\frac{r}{\mu+r}\right)^r`. The probability
    product is a sum over counts (PPK-2a).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.NegativeBinomials([[1.0], [4.0]], size=2.0)
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7953],
           [0.7953, 1.    ]])
    """

    rate = Parameter(nonnegative, moment=True)
    size = Parameter(positive, known=True)
    support = counts
    labels = ("log_failure",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu - 1/(size + mu) is a Laplace transform (DJS-5)")

    def natural(self) -> Array:
        return safe_log(self.rate) - log(self.size + self.rate)

    def from_natural(self, theta: Array) -> Array:
        return self.size / expm1(-theta)

    def partition(self, theta: Array) -> Array:
        return -self.size * log1mexp(theta)

    def base(self, x: Array) -> Array:
        return gammaln(x + self.size) - gammaln(self.size) - gammaln(x + 1)

    def legendre(self, mu: Array) -> Array:
        return xlogx(mu) - xlogx(self.size + mu)

    def information(self) -> Array:
        return self.rate * (1 + self.rate / self.size)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.poisson(rng.standard_gamma(self.size, shape) * (self.rate / self.size))

    # -- digits, and members of different sizes --------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        """Stirling's formula is taken out; the deviances of x and of size from their means are left."""
        r, m, xp = self.size, self.rate, namespace(self.rate)
        some = (x > 0) & (m > 0)
        k, m = xp.where(some, x, xp.ones_like(x)), xp.where(some, m, xp.ones_like(m))
        n, whole = k + r, m + r
        ends = binet(n) - binet(r) - binet(k) - (log(n) - log(r) + log(k) + math.log(2 * math.pi)) / 2
        value = ends - excess(n * (m / whole), k, log(n) + log(m) - log(whole))
        value = value - excess(n * (r / whole), r, log(n) + log(r) - log(whole))
        return xp.where(some, value, xp.where(x > 0, -xp.inf, -r * xp.log1p(self.rate / r)))

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all counts of every pair, whatever the sizes."""
        check_rho(rho)
        self._check_pair(other)
        return self._pairs(other, lambda p, q: p.product(q, float(rho)))

    def divergence(self, other: Self) -> Array:
        return overdispersed_gap(self.rate, other.rate, self.size)

    def relative_entropy(self, other: Self) -> Array:
        return overdispersed_entropy(self.rate, other.rate, self.size)

    def product(self, other: Self, rho: float) -> Array:
        top = max(side._reach(rho) for side in (self, other))
        return counting.log_product(self, other, NegativeBinomials.log_density, rho, top)

    def _reach(self, rho: float) -> int:
        """Return a count beyond which probabilities to the power 2 rho no longer count."""
        m, r = to_numpy(self.rate), to_numpy(self.size)
        deviation, scale = np.sqrt(m * (1 + m / r)), 1 / np.log1p(r / np.maximum(m, 1e-300))
        return int(np.max(m + 9 * deviation / math.sqrt(min(2 * rho, 1)) + 45 * scale / (2 * rho), initial=0)) + 30


class NegativeBinomial(FamilyEstimator, of=NegativeBinomials):
    """Fit products of negative binomial distributions of known size.

    One to every sample (a row of counts or a set of rows), or one to all.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.NegativeBinomial(size=2.0).fit_each([[3, 0], [1, 2]]).rate
    array([[3., 0.],
           [1., 2.]])
    """

    largest = np.inf
