"""Products of Poisson distributions: vectors of independent counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer._array import Array, Floats, namespace, safe_log, to_numpy, xlogx
from mercer._special import i0e
from mercer._verdict import Verdict
from mercer.families import counting
from mercer.families._gaps import jensen_gap
from mercer.families.base import Parameter
from mercer.families.characteristic import averages
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.counting import log_term, steps_around
from mercer.families.estimator import Context
from mercer.families.fit import FamilyEstimator
from mercer.families.negative_binomial import NegativeBinomials
from mercer.families.sets import counts, nonnegative
from mercer.families.special import exp, gammaln, log, relative, sqrt, times

MOST = 20_000
"""Counts that are summed for all pairs at once; beyond, every pair has its own series, about its own mean."""
MOST_COUNTS = 4096
"""Counts that a mean map may sum over."""


class Poissons(Coordinatewise):
    r"""A batch of products of d independent Poisson distributions.

    Parameters
    ----------
    rate : array of shape (..., d)
        Expected counts, 0 or more.

    Notes
    -----
    Probability product (PPK-3.6): :math:`\exp(-\tfrac12(\sqrt\lambda-\sqrt{\lambda'})^2)` at rho = 1/2,
    :math:`e^{-(\lambda+\lambda')} I_0(2\sqrt{\lambda\lambda'})` at rho = 1, a series otherwise. Mean map (GMMK-10d): a
    sum over the counts of both, for rates up to a few thousand.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0]])
    >>> np.exp(p.log_product(p, rho=1.0)).round(4)
    array([[0.3085, 0.0762],
           [0.0762, 0.1434]])
    """

    rate = Parameter(nonnegative, moment=True)
    support = counts
    labels = ("log_rate",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu is a Laplace transform of a positive measure (DJS-5)")

    def natural(self) -> Array:
        return safe_log(self.rate)

    def from_natural(self, theta: Array) -> Array:
        return exp(theta)

    def partition(self, theta: Array) -> Array:
        return exp(theta)

    def base(self, x: Array) -> Array:
        return -gammaln(x + 1)

    def legendre(self, mu: Array) -> Array:
        return xlogx(mu) - mu

    def information(self) -> Array:
        return self.rate

    def predictive(self, count: Any) -> NegativeBinomials:
        return NegativeBinomials(self.rate, count * self.rate)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.poisson(self.rate, shape)

    # -- digits, speed, and rates of zero --------------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        return times(x, safe_log(self.rate)) - self.rate - gammaln(x + 1)

    def product(self, other: Self, rho: float) -> Array:
        """Log of the sum of p^rho q^rho over all counts, for any rho (PPK-3.6)."""
        a, b = self.rate, other.rate
        gap = (sqrt(a) - sqrt(b)) ** 2
        if rho == 0.5:
            return -gap / 2
        if rho == 1:
            return log(i0e(2 * sqrt(a * b))) - gap
        largest = max(float(to_numpy(side).max(initial=0)) for side in (a, b))
        top = int(largest) + steps_around(largest, rho, least=64).stop
        if top > MOST:
            return _series(sqrt(a * b), rho) - rho * gap
        return counting.log_product(self, other, lambda p, n: log_term(n, p.rate), rho, top)

    def divergence(self, other: Self) -> Array:
        return jensen_gap(self.rate, other.rate)

    def relative_entropy(self, other: Self) -> Array:
        return relative(self.rate, other.rate) - self.rate + other.rate

    def mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma (x - y)^2) over the counts x of p and y of q (GMMK-10d)."""
        return _log_mean_map(self.rate[..., 0], other.rate[..., 0, :], gamma)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>) at every row w of ``frequencies (F, d)``, each ``(*B, F)``."""
        gap, sine = averages(self.rate, frequencies)
        return -gap, sine


class Poisson(FamilyEstimator, of=Poissons):
    """Fit products of Poisson distributions, one to every sample (a row of counts or a set of rows) or one to all.

    Parameters
    ----------
    estimate : {"point", "predictive"}, default="point"
        The member at the MAP estimate, or the predictive distribution: the average of the members over the posterior
        (PPK-2a), which needs a prior.
    prior : None, "pooled" or Poissons of shape (1,), default=None
        What rates are shrunk to (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.


    Attributes
    ----------
    model_ : Poissons of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Poisson(prior="pooled").fit_each([[3, 0], [1, 2]]).rate
    array([[2.5, 0.5],
           [1.5, 1.5]])
    """

    largest = np.inf

    def _even(self, x: Any, context: Context) -> Poissons:
        seen = ~np.isnan(x)
        rate = (1 + np.where(seen, x, 0.0).sum(axis=0)) / (1 + seen.sum(axis=0))  # of all data, never zero
        return Poissons._make(rate=rate[None])


def _series(mean: Array, rho: float) -> Array:
    """Log of the sum over n of (exp(-mean) mean^n / n!)^(2 rho), summed outwards from the largest term (PPK-3.6).

    The terms rise to n* = mean and then fall, like a Gaussian of variance mean / (2 rho). Where that is wide, and zero
    is twelve deviations away, every h-th term times h has the same sum (h a quarter of a deviation: the error is below
    1e-100), so that the number of terms does not grow with the rates.
    """
    xp = namespace(mean)
    deviation = xp.sqrt(mean / (2 * rho))
    one = xp.ones_like(mean)
    stride = xp.where(mean >= 12 * deviation, xp.clip(xp.floor(deviation / 4), 1.0, None), one)
    # Ten deviations and more of strided means, and as many terms as the others need.
    widest = float(to_numpy(xp.max(xp.where(stride == 1, mean, 0 * mean)))) if 0 not in mean.shape else 0.0
    top = xp.floor(mean)
    value = xp.zeros_like(mean)
    largest = log_term(top, mean)
    for step in steps_around(widest, rho, least=64):
        n = top + step * stride
        inside = n >= 0
        term = xp.exp(2 * rho * (log_term(xp.where(inside, n, xp.zeros_like(n)), mean) - largest))
        value = value + xp.where(inside, term, xp.zeros_like(term))
    return xp.log(value * stride) + 2 * rho * largest


def _log_mean_map(a: Array, b: Array, gamma: float) -> Array:
    """Log of the sum over counts m, n of p(m) q(n) exp(-gamma (m - n)^2), for rates ``(*B, I)`` and ``(*B, J)``.

    Of all terms only the probabilities fall off, so that counts which no rate reaches may be left out, and all below
    stay: where rates differ and gamma is large, small counts are what both share. First p is smoothed, then every
    pair is summed. Counts come one by one: further ones, which a tile with larger rates has, change no bit.
    """
    xp = namespace(a, b)
    if gamma == 0:
        return 0 * (a[..., :, None] + b[..., None, :])  # in sight of a gradient
    widest = max(float(to_numpy(xp.max(side))) if 0 not in side.shape else 0.0 for side in (a, b))
    size = int(widest) + steps_around(widest, 0.5, least=64).stop
    if size > MOST_COUNTS:
        raise ValueError(
            f"The mean map of Poissons with a rate of {widest:.6g} sums over {size} counts, more than {MOST_COUNTS}. "
            "Divide the counts by a constant, or use ProbabilityProduct."
        )
    counts = xp.arange(size, dtype=a.dtype, device=a.device)
    p, q = (log_term(counts, side[..., None]) for side in (a, b))
    with np.errstate(over="ignore"):  # then only equal counts count
        smooth = _summed(lambda m: p[..., m, None] - gamma * (counts - counts[m]) ** 2, size)
    return _summed(lambda n: smooth[..., :, None, n] + q[..., None, :, n], size)


def _summed(log_term: Callable[[int], Array], size: int) -> Array:
    """Log of the sum of exp(log_term(0)), ..., one after the other."""
    top = log_term(0)  # finite: a count of zero is never impossible
    xp = namespace(top)
    for n in range(1, size):
        top = xp.maximum(top, log_term(n))
    value = xp.exp(log_term(0) - top)
    for n in range(1, size):
        value = value + xp.exp(log_term(n) - top)
    return xp.log(value) + top
