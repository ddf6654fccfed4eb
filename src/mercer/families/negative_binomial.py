"""Products of negative binomial distributions: counts whose rates are known up to a gamma distribution."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erfc

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._checks import check_rho, checked_parameter
from mercer._random import random_generator, whole_size
from mercer.families._gamma_functions import binet
from mercer.families.coordinatewise import IndependentCoordinates

CHUNK = 2048
"""Counts whose probabilities are in memory at a time."""
LARGEST = 1e300
"""Counts that a sum may reach: their products with probabilities are still floats."""


class NegativeBinomials(IndependentCoordinates):
    r"""A batch of products of d independent negative binomial distributions on 0, 1, 2, ...

    They are the predictive distributions of ``Poisson(estimate="predictive")``: the posterior of a rate is a gamma
    distribution, and the distribution of the next count averages over it. So their variance is larger than their mean.

    Parameters
    ----------
    count : array of shape (..., d)
        Number r of successes at which counting stops, any real number of 0 or more; 0 is always a count of zero. Of
        predictive distributions it is the shape of the gamma distribution.
    probability : array of shape (..., d)
        Probability p of a success, above 0 and up to 1; 1 is always a count of zero.

    Notes
    -----
    :math:`P(k)=\binom{k+r-1}{k}p^r(1-p)^k`, of mean :math:`r(1-p)/p`. Probability product (PPK-2a):
    :math:`\sum_k (P(k)P'(k))^\rho`, at rho = 1 :math:`p^r p'^{r'}{}_2F_1(r,r';1;(1-p)(1-p'))`. Small counts are summed
    one by one and large ones by a rule of quadrature, which makes the sum of a coordinate one matrix product.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.NegativeBinomials(count=[[1.0], [4.0]], probability=[[0.5], [0.5]])
    >>> np.exp(p.log_prob([[0], [1]])).round(4)
    array([[0.5   , 0.25  ],
           [0.0625, 0.125 ]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7599],
           [0.7599, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"count": 1, "probability": 1}
    domain = "counts"
    is_predictive = True

    count: Array
    probability: Array

    def __init__(self, count: Any, probability: Any) -> None:
        r = checked_parameter(count, "count", lambda x: (x >= 0) & np.isfinite(x), "be 0 or more, and finite")
        p = checked_parameter(probability, "probability", lambda x: (x > 0) & (x <= 1), "be above 0 and at most 1")
        self._freeze_alike(count=r, probability=p)

    @property
    def mean(self) -> Array:
        """Mean counts r (1 - p) / p, ``(*B, d)``."""
        return self.count * (1 - self.probability) / self.probability

    @property
    def variance(self) -> Array:
        """Variances of the counts, r (1 - p) / p^2, ``(*B, d)``."""
        return self.mean / self.probability

    def term_log_prob(self, k: Array, r: Array, p: Array) -> Array:
        """Log of C(k + r - 1, k) p^r (1 - p)^k."""
        return log_pmf(k, r, p)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all counts, for any rho (PPK-2a)."""
        check_rho(rho)

        def term(r: Array, p: Array, r2: Array, p2: Array) -> Array:
            return _log_product(Side(r, p, float(rho)), Side(r2, p2, float(rho)))

        return self._coordinates(other, term, crossed=False)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` vectors of counts from every member, ``(*B, size, d)``."""
        size = whole_size(size)
        shape = (*self.shape, size, self.dimension)
        r, p = (np.broadcast_to(to_numpy(side)[..., None, :], shape) for side in (self.count, self.probability))
        rng = random_generator(random_state)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow raises below
            rate = rng.standard_gamma(r) * ((1 - p) / p)
        huge = np.argwhere(~np.isfinite(rate))
        if len(huge):
            where = tuple(map(int, huge[0]))
            raise ValueError(
                f"Samples of the member{f' at index {where[:-2]}' if self.shape else ''} overflow, with count = "
                f"{r[where]:.6g} and probability = {p[where]:.3g} in coordinate {where[-1]}. Use a larger probability."
            )
        # NumPy draws whole numbers of 64 bits; a Poisson count beyond is its rate, to all digits that it has.
        return np.where(rate < 1e15, rng.poisson(np.minimum(rate, 1e15)), rate).astype(float)


def log_pmf(k: Array, r: Array, p: Array) -> Array:
    """Log of C(k + r - 1, k) p^r (1 - p)^k, for real k >= 0, without cancellation of large terms.

    Stirling's formula is taken out of the binomial: with n = k + r what is left of the powers are the deviances of k
    from n (1 - p) and of r from n p, both zero where k is the mean.
    """
    xp = namespace(k, r, p)
    inside = (r > 0) & (p < 1) & (k > 0)
    edge = xp.where(k > 0, -xp.inf, r * xp.log(p))
    # Logarithms of one argument are taken before the arguments cross: there are few of them.
    k, r, p = xp.where(k > 0, k, xp.ones_like(k)), xp.where(r > 0, r, xp.ones_like(r)), xp.where(p < 1, p, p / 2)
    q, n = 1 - p, k + r
    log_k, log_r = xp.log(k), xp.log(r)
    fewer = k < r
    ratio = xp.where(fewer, xp.log1p(xp.where(fewer, k, r) / r), xp.log(n) - log_r)  # log of n / r
    gap = r * q - k * p
    value = binet(n) - binet(r) - binet(k) - (ratio + log_k + float(np.log(2 * np.pi))) / 2
    value = value - _deviance(k, gap, ratio + (log_r + xp.log(q)) - log_k) - _deviance(r, -gap, ratio + xp.log(p))
    return xp.where(inside, value, edge)


def _deviance(x: Array, gap: Array, log_ratio: Array) -> Array:
    """Compute x (e - 1 - log e), e = 1 + gap / x the exponential of ``log_ratio``."""
    xp = namespace(x, gap)
    near = xp.abs(gap) < 0.5 * x
    change = xp.where(near, gap, xp.zeros_like(gap)) / x
    return xp.where(near, x * (change - xp.log1p(change)), gap - x * log_ratio)


def _log_product(a: Side, b: Side) -> Array:
    """Log of the sum over counts of products of two distributions to the power rho, ``(*B, I)`` and ``(*B, J)``."""
    xp = namespace(a.r, b.r)
    if 0 in a.r.shape or 0 in b.r.shape:
        return a.top[..., :, None] + b.top[..., None, :]
    nodes, weights = count_nodes(max(a.largest, b.largest), max(a.reach, b.reach), a.rho)
    total: Any = 0.0
    for first in range(0, len(nodes), CHUNK):
        some = slice(first, first + CHUNK)
        f, g = (side.logs(nodes[some], weights[some]) for side in (a, b))
        total = total + xp.exp(f) @ xp.matrix_transpose(xp.exp(g))
    limits = xp.finfo(total.dtype)
    near = total > limits.smallest_normal / limits.eps**2  # else features may have underflowed
    value = xp.log(xp.where(near, total, xp.ones_like(total)))
    if not bool(xp.all(near)):
        value = xp.where(near, value, _summed_logs(a, b, nodes, weights))
    return value + a.top[..., :, None] + b.top[..., None, :]


def _summed_logs(a: Side, b: Side, nodes: Floats, weights: Floats) -> Array:
    """Sum in logarithms, one count at a time: for distributions so far apart that no number holds their product."""
    total: Any = None
    for first in range(0, len(nodes), CHUNK):
        some = slice(first, first + CHUNK)
        f, g = (side.logs(nodes[some], weights[some]) for side in (a, b))
        xp = namespace(f, g)
        for k in range(f.shape[-1]):
            term = f[..., :, None, k] + g[..., None, :, k]
            total = term if total is None else xp.logaddexp(total, term)
    return total


class Side:
    """Distributions of one coordinate, ``(*B, n)``, to the power rho."""

    def __init__(self, r: Array, p: Array, rho: float) -> None:
        self.r, self.p, self.rho = r, p, rho
        xp = namespace(r, p)
        with np.errstate(over="ignore", invalid="ignore"):  # counts that are too large are refused by `reach`
            mode = xp.floor(xp.clip((r - 1) * (1 - p) / p, 0.0, None))
            self.top = rho * log_pmf(mode, r, p)

    @property
    def largest(self) -> float:
        """The largest number of successes."""
        return float(to_numpy(self.r).max())

    @property
    def reach(self) -> float:
        """A count from which on every distribution, to the power rho, is below exp(-50) of its largest value."""
        r, p = (to_numpy(side).astype(float).ravel() for side in (self.r, self.p))
        width = np.full(len(r), 16.0)
        with np.errstate(over="ignore", invalid="ignore"):
            mode = np.maximum((r - 1) * (1 - p) / p, 0.0)
            top = log_pmf(np.floor(mode), r, p)
            while (inside := self.rho * (top - log_pmf(mode + width, r, p)) < 50).any():
                width[inside] *= 2
        counts = mode + width
        if not np.all(counts < LARGEST):
            worst = int(np.flatnonzero(~(counts < LARGEST))[0])
            raise ValueError(
                f"The probability product of NegativeBinomials with count = {r[worst]:.6g} and probability = "
                f"{p[worst]:.3g} sums over counts beyond {LARGEST:.0e}. Divide the counts by a constant, or use "
                "estimate='point'."
            )
        return float(counts.max())

    def logs(self, nodes: Floats, weights: Floats) -> Array:
        """Return logarithms of features, whose inner products are sums over counts, ``(*B, n, K)``."""
        k, half = (beside(self.r, values, self.r.dtype) for values in (nodes, safe_log(weights) / 2))
        return self.rho * log_pmf(k, self.r[..., None], self.p[..., None]) - self.top[..., None] + half


# Few counts and weights that stand for the sum over all counts, where the summand is smooth.

MOST_NODES = 1 << 18
"""Counts that a sum may take."""
SPREAD = 0.4  # of the step from single counts to nodes, in log counts: six of them make it complete to 1e-17


def count_nodes(successes: float, reach: float, rho: float) -> tuple[Floats, Floats]:
    """Return nodes x and weights w with sum of w f(x) = sum of f(0), f(1), ... to all digits.

    f is the power rho of a product of two negative binomial distributions. Small counts are summed one by one. For
    large ones the sum is an integral, since f is smooth there: the curvature of its logarithm is at most
    2 rho (1/k - 1/(k + r)), r the larger number of successes. With k = r sinh(t / 2)^2 that is at most 2 rho r in t
    everywhere, so equal steps of t, half of such a deviation and at most 1/8, integrate it to full accuracy. A smooth
    step from 0 to 1 joins the two ranges.

    Parameters
    ----------
    successes : float
        The largest number of successes of all distributions.
    reach : float
        A count beyond which f is negligible.
    rho : float
        The power.

    Returns
    -------
    nodes, weights : arrays of shape (K,)
    """
    sharp = max(1.0, 2 * rho)
    middle = 16 * sharp
    single = int(middle * np.exp(6 * SPREAD)) + 1
    if reach <= single:
        nodes = np.arange(32.0 * np.ceil((reach + 1) / 32))
        return nodes, np.ones(len(nodes))
    r = max(successes, 1.0)
    step = min(0.125, 0.5 / np.sqrt(sharp * r))
    low, high = (2 * np.arcsinh(np.sqrt(x / r)) for x in (middle * np.exp(-6 * SPREAD), reach))
    size = int((high - low) / step) + 2
    if size > MOST_NODES:
        raise ValueError(
            f"The probability product of NegativeBinomials with count = {successes:.6g}, up to counts of {reach:.6g}, "
            f"needs {float(size):.3g} terms, more than {MOST_NODES}. Divide the counts by a constant, or use Poissons "
            "(estimate='point'), which are close to negative binomials with such a count."
        )
    x = r * np.sinh((low + step * np.arange(size)) / 2) ** 2
    k = np.arange(single + 1.0)
    nodes = np.concatenate([k, x])
    weights = np.concatenate([1 - _taken(k, middle), step * np.sqrt(x) * np.sqrt(x + r) * _taken(x, middle)])
    return nodes, weights


def _taken(x: Floats, middle: float) -> Floats:
    """Return the part of a count's term that the integral takes: a smooth step from 0 to 1 about ``middle``."""
    return np.asarray(erfc(-np.log(np.maximum(x, 1e-300) / middle) / SPREAD) / 2)
