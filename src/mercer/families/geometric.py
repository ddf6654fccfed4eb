"""Products of geometric distributions: vectors of independent numbers of failures before a success."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, log_complement, namespace, to_numpy
from mercer._checks import check_gamma, checked_parameter
from mercer._random import random_generator, whole_size
from mercer._verdict import Verdict
from mercer.families._gaps import log_mean_gap
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.estimator import Context

OVERFLOW = " (not below the smallest normal float, where the mean count (1 - p) / p is infinite)"
RARE = 1e-12
"""Probabilities below this have counts beyond those of NumPy's generator, whole numbers of 64 bits."""
MOST_TERMS = 4096
"""Differences of counts that a mean map may sum over."""


class Geometrics(Coordinatewise):
    r"""A batch of products of d independent geometric distributions on 0, 1, 2, ...

    A count is the number of failures *before* the first success, :math:`P(x) = p(1-p)^x`. (SciPy and NumPy count the
    trials, from 1 on.)

    Parameters
    ----------
    probability : array of shape (..., d)
        Probability of a success, above 0 and up to 1; 1 is always a count of zero. The mean count, (1 - p) / p, must
        be a number: 2.3e-308 is the least in double precision.

    Notes
    -----
    Probability product (PPK-3.7) :math:`(pp')^\rho/(1-((1-p)(1-p'))^\rho)`. Mean map (GMMK-0), with q = 1 - p and
    :math:`\vartheta(q)=\sum_{k\ge0} q^k e^{-\gamma k^2}`:
    :math:`\frac{pp'}{1-qq'}[\vartheta(q)+\vartheta(q')-1]`, since the difference of two counts is two-sided geometric.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Geometrics([[0.5], [0.2]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8604],
           [0.8604, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"probability": 1}
    domain = "counts"
    score_labels = ("log_failure",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu - 1/(1 + mu) is a Laplace transform of a positive measure (DJS-5)")

    probability: Array

    def __init__(self, probability: Any) -> None:
        p = checked_parameter(probability, "probability", _has_mean, "be above 0 and at most 1" + OVERFLOW)
        self._freeze(probability=p)

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_natural(self, p: Array) -> Array:
        """Return the log probability of a failure; -inf where a success is certain."""
        return log_complement(p)

    def term_partition(self, theta: Array) -> Array:
        """Return -log(1 - exp(theta))."""
        xp = namespace(theta)
        return -xp.log(-xp.expm1(theta))

    def term_mean(self, p: Array) -> Array:
        """Return the mean count, (1 - p) / p."""
        return _mean(p)

    def term_from_mean(self, mu: Array) -> Array:
        """Return 1 / (1 + mu)."""
        return 1 / (1 + mu)

    def term_dual(self, mu: Array) -> Array:
        """Return mu log mu - (1 + mu) log(1 + mu), 0 at zero (DJS-4)."""
        return _bounded(mu) - namespace(mu).log1p(mu)

    def term_variance(self, p: Array) -> Array:
        """Return mu + mu^2."""
        mu = _mean(p)
        return mu + mu * mu

    def term_log_prob(self, count: Array, p: Array) -> Array:
        """Return log p + x log(1 - p), with 0 * -inf = 0."""
        return namespace(p).log(p) + times_log(count, log_complement(p))

    def term_product(self, a: Array, b: Array, rho: float) -> Array:
        """Log of the sum of p^rho q^rho over all counts, for any rho (PPK-3.7)."""
        xp = namespace(a, b)
        if rho == 1:  # without a logarithm of failures, which is infinite at 1: gradients hold there, too
            return xp.log(a) + xp.log(b) - xp.log(a + b - a * b)
        # At a certain success the slope of failures^rho is infinite below rho = 1: gradients leave it out.
        failure = rho * (log_complement(a) + log_complement(b))
        return rho * (xp.log(a) + xp.log(b)) - xp.log(-xp.expm1(failure))

    def term_divergence(self, a: Array, b: Array) -> Array:
        """Dual Jensen-Shannon divergence (DJS-4)."""
        xp, mu, nu = namespace(a, b), _mean(a), _mean(b)
        value = (_bounded(mu) + _bounded(nu)) / 2 - _bounded((mu + nu) / 2) + log_mean_gap(1 / a, 1 / b)
        value = xp.where(value > 0, value, 0 * value)
        half, low = xp.abs(mu - nu) / 2, mu / 2 + nu / 2
        near = half < 0.1 * low
        return xp.where(near, _near_gap(xp.where(near, half, 0 * half), xp.where(near, low, 1 + 0 * low)), value)

    def term_kl(self, a: Array, b: Array) -> Array:
        """Kullback-Leibler divergence; +inf where q excludes what p allows."""
        xp = namespace(a, b)
        return xp.log(a) - xp.log(b) + _mean(a) * _finite(log_complement(a)) - times_log(_mean(a), log_complement(b))

    # -- capabilities -----------------------------------------------------------------------------------

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the distribution g of p q = c g, member by member: both fail to stop."""
        p, q = self.probability, other.probability
        return self._log_overlap(other), self._make(probability=p + q * (1 - p))

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2) over the counts x of p and y of q (GMMK-0)."""
        check_gamma(gamma)
        return self._coordinates(other, lambda a, b: _log_mean_map(a, b, float(gamma)), crossed=False)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` vectors of counts from every member, ``(*B, size, d)``."""
        size = whole_size(size)
        p = np.broadcast_to(to_numpy(self.probability)[..., None, :], (*self.shape, size, self.dimension))
        rng = random_generator(random_state)
        counts = rng.geometric(np.maximum(p, RARE)) - 1.0  # NumPy counts from 1
        if np.all(p >= RARE):
            return counts
        rare = np.minimum(np.floor(rng.standard_exponential(p.shape) / p), np.finfo(np.float64).max)
        return np.where(p < RARE, rare, counts)


class Geometric(CoordinatewiseEstimator):
    """Fit products of geometric distributions, one to every sample (a row of counts or a set of rows) or one to all.

    Counts are failures before a success: 0, 1, 2, ...

    Parameters
    ----------
    prior : None, "pooled" or Geometrics of shape (1,), default=None
        What mean counts are shrunk to (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Geometrics of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.Geometric(prior="pooled").fit_each([[3, 0], [1, 0]]).probability
    array([[0.28571429, 1.        ],
           [0.4       , 1.        ]])
    """

    family = Geometrics

    def _even(self, x: Any, context: Context) -> Geometrics:
        seen = ~np.isnan(x)
        mean = (1 + np.where(seen, x, 0.0).sum(axis=0)) / (1 + seen.sum(axis=0))  # of all data, never zero
        return Geometrics._make(probability=1 / (1 + mean[None]))


def _has_mean(p: Floats) -> Floats:
    return (p >= np.finfo(p.dtype).tiny) & (p <= 1)


def _mean(p: Array) -> Array:
    return (1 - p) / p


def _bounded(mu: Array) -> Array:
    """Compute mu log mu - mu log(1 + mu), which stays between 0 and -1."""
    xp = namespace(mu)
    return -mu * xp.log1p(1 / xp.where(mu > 0, mu, xp.ones_like(mu)))


def _near_gap(half: Array, low: Array) -> Array:
    """Return the dual divergence of means ``low - half`` and ``low + half`` that are near each other.

    It is h/2 times the sum over n of (d^(2n-1) - e^(2n-1)) / (n (2n - 1)), d = h / m and e = h / (m + 1): the series
    of `jensen_gap` for m and for m + 1, whose differences are taken factor by factor.
    """
    d, e = half / low, half / (low + 1)
    apart = d / (low + 1)  # d - e
    term, power, value = apart, e, apart
    for n in range(2, 8):
        term = d * d * term + power * apart * (d + e)
        power = power * e * e
        value = value + term / (n * (2 * n - 1))
    return half / 2 * value


def _finite(logs: Array) -> Array:
    xp = namespace(logs)
    return xp.where(xp.isfinite(logs), logs, xp.zeros_like(logs))


def times_log(n: Array, logs: Array) -> Array:
    """Compute n times a logarithm with 0 * -inf = 0."""
    xp = namespace(n, logs)
    value = n * _finite(logs)
    return xp.where((n > 0) & ~xp.isfinite(logs), -xp.inf, value)


def _log_mean_map(a: Array, b: Array, gamma: float) -> Array:
    """Log of E exp(-gamma (x - y)^2), for probabilities ``(*B, I)`` and ``(*B, J)``."""
    xp = namespace(a, b)
    if gamma == 0:
        return 0 * (a[..., :, None] + b[..., None, :])  # in sight of a gradient
    sides = _one_side(a, gamma)[..., :, None] + _one_side(b, gamma)[..., None, :]
    a, b = a[..., :, None], b[..., None, :]
    return xp.log(a) + xp.log(b) - xp.log(a + b - a * b) + xp.log1p(sides)


def _one_side(p: Array, gamma: float) -> Array:
    """Sum over k >= 1 of (1 - p)^k exp(-gamma k^2), term by term: further ones, for a neighbor, change no bit."""
    xp = namespace(p)
    smallest = float(to_numpy(xp.min(p))) if 0 not in p.shape else 1.0
    decay = -float(np.log1p(-smallest)) if smallest < 1 else np.inf
    # below e^-44 where k (decay + gamma k) > 44
    size = int(min(np.sqrt(44 / gamma), 44 / decay)) + 1
    if size > MOST_TERMS:
        raise ValueError(
            f"The mean map of Geometrics with gamma = {gamma:.6g} and a probability of {smallest:.6g} sums over {size} "
            f"differences of counts, more than {MOST_TERMS}. Divide the counts by a constant, or use "
            "ProbabilityProduct."
        )
    value = xp.zeros_like(p)
    failure = 1 - p
    power = xp.ones_like(p)
    for k in range(1, size + 1):
        power = power * failure
        value = value + power * float(np.exp(-gamma * k * k))
    return value
