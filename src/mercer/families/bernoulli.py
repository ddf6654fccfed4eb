"""Products of Bernoulli distributions: vectors of independent yes/no answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, inner_logs, log_complement, namespace, safe_log, xlogx
from mercer._checks import check_gamma, checked_parameter
from mercer._coupling import mismatch_underflows, power
from mercer._parameters import NONE, Rules, number
from mercer._verdict import Verdict
from mercer.data.segments import mapped
from mercer.families._gaps import jensen_gap
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.estimator import Context


class Bernoullis(Coordinatewise):
    r"""A batch of products of d independent Bernoulli distributions.

    Parameters
    ----------
    probability : array of shape (..., d)
        Probability of a one, for every coordinate.

    Notes
    -----
    Probability product (PPK-3.2) :math:`\prod_d [(g_d g'_d)^\rho + ((1-g_d)(1-g'_d))^\rho]`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Bernoullis([[0.5, 1.0], [0.5, 0.5]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"probability": 1}
    domain = "binary"
    score_label = "log_odds"
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu + 1/(1 - mu) is a Laplace transform of a positive measure (DJS-5)")

    probability: Array

    def __init__(self, probability: Any) -> None:
        p = checked_parameter(probability, "probability", lambda x: (x >= 0) & (x <= 1), "be between 0 and 1")
        self._freeze(probability=p)

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_natural(self, p: Array) -> Array:
        """Return the log odds; infinite where an answer is certain."""
        return safe_log(p) - safe_log(1 - p)

    def term_partition(self, theta: Array) -> Array:
        """Return log(1 + exp(theta))."""
        xp = namespace(theta)
        return xp.logaddexp(theta, xp.zeros_like(theta))

    def term_mean(self, p: Array) -> Array:
        """Return the probability of a one."""
        return p

    def term_from_mean(self, mu: Array) -> Array:
        """Return the mean, which is the probability."""
        return mu

    def term_dual(self, mu: Array) -> Array:
        """Return the negative entropy, finite on the boundary (DJS-4)."""
        return xlogx(mu) + xlogx(1 - mu)

    def term_variance(self, p: Array) -> Array:
        """Return p (1 - p)."""
        return p * (1 - p)

    def term_product(self, g: Array, h: Array, rho: float) -> Array:
        """Log of the sum of p^rho q^rho over both answers (PPK-3.2)."""
        if rho <= 1:  # where one product underflows, the other is about 1
            return safe_log(power(g * h, rho) + power((1 - g) * (1 - h), rho))
        return _log_sum(rho * (safe_log(g) + safe_log(h)), rho * (log_complement(g) + log_complement(h)))

    def term_divergence(self, g: Array, h: Array) -> Array:
        """Dual Jensen-Shannon divergence (DJS-4)."""
        return jensen_gap(g, h) + jensen_gap(1 - g, 1 - h)

    def term_kl(self, g: Array, h: Array) -> Array:
        """Kullback-Leibler divergence; +inf where q excludes what p allows."""
        return _relative(g, h) + _relative(1 - g, 1 - h)

    # -- capabilities -----------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of every 0/1 vector, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN is marginalized."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        xp = namespace(x, self.probability)
        seen = ~xp.isnan(x)
        ones = xp.astype(seen & (x == 1), self.probability.dtype)
        zeros = xp.astype(seen & (x == 0), self.probability.dtype)
        logs = safe_log(single.probability), safe_log(1 - single.probability)
        value = xp.matrix_transpose(inner_logs(ones, logs[0]) + inner_logs(zeros, logs[1]))
        return value if self.shape else value[..., 0, :]

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2): coordinates that differ cost exp(-gamma)."""
        check_gamma(gamma)
        e = float(np.exp(-gamma))
        if mismatch_underflows(gamma / 2, self.probability):

            def coordinate(g: Array, h: Array) -> Array:
                alike = safe_log(g * h + (1 - g) * (1 - h))
                return _log_sum(alike, namespace(alike).full_like(alike, -gamma))

            return self._coordinates(other, coordinate)
        return self._coordinates(other, lambda g, h: safe_log(e + (1 - e) * (g * h + (1 - g) * (1 - h))))

    def term_sample(self, rng: np.random.Generator, p: Floats) -> Floats:
        """Draw zeros and ones."""
        return (rng.random(p.shape) < p).astype(float)


@dataclass(eq=False, repr=False)
class Bernoulli(CoordinatewiseEstimator):
    """Fit products of Bernoulli distributions, one to every sample (a 0/1 row or a set of rows) or one to all.

    Parameters
    ----------
    threshold : float or None, default=None
        Numbers above it are ones; None takes data that are 0 or 1 already (or NaN, not observed).
    prior : None, "pooled" or Bernoullis of shape (1,), default=None
        What frequencies are shrunk to (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Bernoullis of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Bernoulli(prior="pooled").fit_each([[1, 0], [0, 0]]).probability
    array([[0.75, 0.  ],
           [0.25, 0.  ]])
    """

    family = Bernoullis
    _parameters: ClassVar[Rules] = {"threshold": number("Use None for data that are 0 or 1.") | NONE}

    threshold: float | None = None
    prior: Any = None
    prior_strength: float = 1.0

    def _even(self, x: Any, context: Context) -> Bernoullis:
        return self.template(context).reshape(1)

    def _converted(self, X: Any) -> Any:
        if self.threshold is None:
            return X
        return mapped(X, lambda x: np.where(np.isnan(x), np.nan, x > self.threshold))


def _log_sum(a: Array, b: Array) -> Array:
    """Compute log(exp a + exp b); two -inf give -inf, with a zero gradient."""
    xp = namespace(a, b)
    top = xp.maximum(a, b)
    possible = top > -xp.inf
    top = xp.where(possible, top, xp.zeros_like(top))
    total = xp.exp(a - top) + xp.exp(b - top)
    return top + safe_log(total)


def _relative(g: Array, h: Array) -> Array:
    xp = namespace(g, h)
    safe = xp.where(h > 0, h, xp.ones_like(h))
    value = xlogx(g) - g * xp.log(safe)
    return xp.where((g > 0) & (h <= 0), xp.inf, value)
