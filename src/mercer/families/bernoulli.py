"""Products of Bernoulli distributions: vectors of independent yes/no answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, as_float, inner_logs, log_complement, namespace, safe_log, xlogx
from mercer._coupling import mismatch_underflows, power
from mercer._parameters import NONE, Rules, number
from mercer._verdict import Verdict
from mercer.data.segments import mapped
from mercer.families._gaps import jensen_gap
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.estimator import Context
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import binary, closed_unit
from mercer.families.special import exp, log1pexp, relative


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

    probability = Parameter(closed_unit, moment=True)
    support = binary
    labels = ("log_odds",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu + 1/(1 - mu) is a Laplace transform of a positive measure (DJS-5)")

    def natural(self) -> Array:
        return safe_log(self.probability) - safe_log(1 - self.probability)

    def from_natural(self, theta: Array) -> Array:
        return 1 / (1 + exp(-theta))

    def partition(self, theta: Array) -> Array:
        return log1pexp(theta)

    def legendre(self, mu: Array) -> Array:
        return xlogx(mu) + xlogx(1 - mu)

    def information(self) -> Array:
        return self.probability * (1 - self.probability)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.random(shape) < self.probability

    # -- digits, and answers that are certain ----------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of every 0/1 vector, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN is marginalized."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        xp, p = namespace(x, self.probability), single.probability
        ones, zeros = (xp.astype(x == answer, self.probability.dtype) for answer in (1, 0))
        value = xp.matrix_transpose(inner_logs(ones, safe_log(p)) + inner_logs(zeros, safe_log(1 - p)))
        return value if self.shape else value[..., 0, :]

    def product(self, other: Self, rho: float) -> Array:
        g, h = self.probability, other.probability
        if rho <= 1:  # where one product underflows, the other is about 1
            return safe_log(power(g * h, rho) + power((1 - g) * (1 - h), rho))
        return _log_sum(rho * (safe_log(g) + safe_log(h)), rho * (log_complement(g) + log_complement(h)))

    def divergence(self, other: Self) -> Array:
        g, h = self.probability, other.probability
        return jensen_gap(g, h) + jensen_gap(1 - g, 1 - h)

    def relative_entropy(self, other: Self) -> Array:
        g, h = self.probability, other.probability
        return relative(g, h) + relative(1 - g, 1 - h)

    def mean_map(self, other: Self, gamma: float) -> Array:
        g, h, e = self.probability, other.probability, math.exp(-gamma)
        alike = g * h + (1 - g) * (1 - h)  # coordinates that differ cost e
        if mismatch_underflows(gamma / 2, g):
            return _log_sum(safe_log(alike), namespace(alike).full_like(alike, -gamma))
        return safe_log(e + (1 - e) * alike)


@dataclass(eq=False, repr=False)
class Bernoulli(FamilyEstimator, of=Bernoullis):
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

    _parameters: ClassVar[Rules] = {"threshold": number("Use None for data that are 0 or 1.") | NONE}

    threshold: float | None = None

    def _even(self, x: Any, context: Context) -> Bernoullis:
        even: Bernoullis = self.template(context).reshape(1)
        return even

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
