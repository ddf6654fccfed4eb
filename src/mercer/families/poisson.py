"""Products of Poisson distributions: vectors of independent counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, namespace, safe_log, to_numpy, xlogx
from mercer._checks import check_gamma, checked_parameter
from mercer._special import gammaln, i0e
from mercer._verdict import Verdict
from mercer.families._gaps import jensen_gap
from mercer.families.characteristic import averages
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.estimator import Context

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

    _arrays: ClassVar[dict[str, int]] = {"rate": 1}
    domain = "counts"
    score_label = "log_rate"
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu is a Laplace transform of a positive measure (DJS-5)")

    rate: Array

    def __init__(self, rate: Any) -> None:
        r = checked_parameter(rate, "rate", lambda x: (x >= 0) & np.isfinite(x), "be 0 or more, and finite")
        self._freeze(rate=r)

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_log_base(self, x: Array) -> Array:
        """Return -log x!."""
        return -gammaln(x + 1)

    def term_natural(self, rate: Array) -> Array:
        """Return the log rate; -inf where the rate is zero."""
        return safe_log(rate)

    def term_partition(self, theta: Array) -> Array:
        """Return exp(theta)."""
        return namespace(theta).exp(theta)

    def term_mean(self, rate: Array) -> Array:
        """Return the rate."""
        return rate

    def term_from_mean(self, mu: Array) -> Array:
        """Return the mean, which is the rate."""
        return mu

    def term_dual(self, mu: Array) -> Array:
        """Return mu log mu - mu, finite at zero (DJS-4)."""
        return xlogx(mu) - mu

    def term_variance(self, rate: Array) -> Array:
        """Return the rate."""
        return rate

    def term_log_prob(self, count: Array, rate: Array) -> Array:
        """Return x log(rate) - rate - log x!, with 0 log 0 = 0."""
        return _times_log(count, rate) - rate - gammaln(count + 1)

    def term_product(self, a: Array, b: Array, rho: float) -> Array:
        """Log of the sum of p^rho q^rho over all counts, for any rho (PPK-3.6)."""
        xp = namespace(a, b)
        gap = (xp.sqrt(a) - xp.sqrt(b)) ** 2
        if rho == 0.5:
            return -gap / 2
        mean = xp.sqrt(a * b)
        if rho == 1:
            return xp.log(i0e(2 * mean)) - gap
        return _series(mean, rho) - rho * gap

    def term_divergence(self, a: Array, b: Array) -> Array:
        """Dual Jensen-Shannon divergence (DJS-4)."""
        return jensen_gap(a, b)

    def term_kl(self, a: Array, b: Array) -> Array:
        """Kullback-Leibler divergence; +inf where q excludes what p allows."""
        xp = namespace(a, b)
        safe = xp.where(b > 0, b, xp.ones_like(b))
        term = xlogx(a) - a * xp.log(safe) - a + b
        return xp.where((a > 0) & (b <= 0), xp.inf, term)

    # -- capabilities -----------------------------------------------------------------------------------

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2) over the counts x of p and y of q (GMMK-10d)."""
        check_gamma(gamma)
        return self._coordinates(other, lambda a, b: _log_mean_map(a, b, float(gamma)), crossed=False)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>) at every row w of ``frequencies (F, d)``, each ``(*B, F)``."""
        gap, sine = averages(self.rate, frequencies)
        return -gap, sine

    def term_sample(self, rng: np.random.Generator, rate: Floats) -> Floats:
        """Draw counts."""
        return rng.poisson(rate).astype(float)


class Poisson(CoordinatewiseEstimator):
    """Fit products of Poisson distributions, one to every sample (a row of counts or a set of rows) or one to all.

    Parameters
    ----------
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

    family = Poissons
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


def steps_around(mean: float, rho: float, least: int = 8) -> range:
    """Return the steps from the largest term to those below 1e-18 of it, for a mean up to this, and at least these."""
    reach = least
    while 2 * rho * (_log_factorial(mean + reach) - _log_factorial(mean) - reach * np.log(mean + 1)) < 42:
        reach += reach // 4
    return range(-reach, reach + 1)


def _log_factorial(n: float) -> float:
    """Log of n!, for real n."""
    return float(gammaln(np.float64(n + 1)))


def log_term(n: Array, mean: Array) -> Array:
    """Compute n log mean - mean - log n! without cancellation, by Stirling's series from n = 16 on."""
    xp = namespace(n, mean)
    large = n >= 16
    safe = xp.where(large, n, xp.full_like(n, 16.0))
    gap = (mean - safe) / safe
    bend = xp.where(gap > -1, xp.log1p(xp.where(gap > -1, gap, xp.zeros_like(gap))), -xp.inf) - gap
    square = safe * safe
    rest = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / safe
    stirling = safe * bend - 0.5 * xp.log(2 * np.pi * safe) - rest
    small = xp.where(large, xp.zeros_like(n), n)
    direct = _times_log(small, mean) - mean - gammaln(small + 1)
    return xp.where(large, stirling, direct)


def _times_log(n: Array, mean: Array) -> Array:
    """Compute n log mean with 0 log 0 = 0; -inf elsewhere where the mean is zero."""
    xp = namespace(n, mean)
    positive = mean > 0
    logs = xp.log(xp.where(positive, mean, xp.ones_like(mean)))
    return xp.where(positive, n * logs, xp.where(n > 0, -xp.inf, xp.zeros_like(n)))
