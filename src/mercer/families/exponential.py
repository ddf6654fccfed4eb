"""Products of exponential distributions: vectors of independent waiting times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, namespace
from mercer._checks import check_gamma, checked_positive
from mercer._parameters import Rules, positive
from mercer._special import erfcx
from mercer._verdict import Verdict
from mercer.data.segments import in_digest_order, segments
from mercer.families._gaps import excess, log_mean_gap
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.estimator import Context

LARGEST = 1e300
"""Data beyond this are refused by estimators: sums of a hundred million below it stay finite."""
SMALLEST = 1e-300
"""Positive numbers below this have no scale whose inverse is sure to be finite."""


class Exponentials(Coordinatewise):
    r"""A batch of products of d independent exponential distributions.

    Parameters
    ----------
    scale : array of shape (..., d)
        Means, positive: 1 / rate.

    Notes
    -----
    Probability product (PPK-3.5) :math:`1/[\rho(1/b+1/b')(bb')^\rho]`. Mean map (GMMK-0)
    :math:`\frac{\sqrt\pi}{2\sqrt\gamma(b+b')}[\mathrm{erfcx}(\frac1{2b\sqrt\gamma}) +
    \mathrm{erfcx}(\frac1{2b'\sqrt\gamma})]`, a product over coordinates.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Exponentials([[1.0], [4.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"scale": 1}
    domain = "nonnegative"
    score_label = "negative_rate"
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu^2 is a Laplace transform of a positive measure (DJS-5)")

    scale: Array

    def __init__(self, scale: Any) -> None:
        self._freeze(scale=checked_positive(scale, "scale"))

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_natural(self, scale: Array) -> Array:
        """Return -1 / scale."""
        return -1 / scale

    def term_partition(self, theta: Array) -> Array:
        """Return -log(-theta)."""
        return -namespace(theta).log(-theta)

    def term_mean(self, scale: Array) -> Array:
        """Return the scale."""
        return scale

    def term_from_mean(self, mu: Array) -> Array:
        """Return the mean, which is the scale."""
        return mu

    def term_dual(self, mu: Array) -> Array:
        """Return -log mu (DJS-4)."""
        return -namespace(mu).log(mu)

    def term_variance(self, scale: Array) -> Array:
        """Return scale^2."""
        return scale**2

    def term_log_prob(self, x: Array, scale: Array) -> Array:
        """Return -x / scale - log scale."""
        return -x / scale - namespace(scale).log(scale)

    def term_product(self, a: Array, b: Array, rho: float) -> Array:
        """Log of the integral of p^rho q^rho, for any rho (PPK-3.5)."""
        logs = (1 - 2 * rho) * (namespace(a).log(a) + namespace(b).log(b)) / 2
        return logs - log_mean_gap(a, b) - float(np.log(2 * rho))

    def term_divergence(self, a: Array, b: Array) -> Array:
        """Log of the arithmetic over the geometric mean (DJS-4)."""
        return log_mean_gap(a, b)

    def term_kl(self, a: Array, b: Array) -> Array:
        """Return r - 1 - log r of the ratio of scales r."""
        return excess(a, b, namespace(a).log(a)) / b

    # -- capabilities -----------------------------------------------------------------------------------

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2): the difference of two is a two-sided exponential (GMMK-0)."""
        check_gamma(gamma)
        if gamma == 0:
            return self._coordinates(other, lambda a, b: 0 * (a + b))  # in sight of a gradient
        half = 0.5 / float(np.sqrt(gamma))

        def coordinate(a: Array, b: Array) -> Array:
            xp = namespace(a, b)
            far = float(xp.finfo(a.dtype).max) ** 0.5
            with np.errstate(over="ignore"):
                x, y = half / a, half / b
            x, y = xp.where(x < far, x, xp.full_like(x, far)), xp.where(y < far, y, xp.full_like(y, far))
            logs = xp.log(erfcx(x) + erfcx(y)) - xp.log(a / 2 + b / 2) + float(np.log(np.pi) / 2 + np.log(half / 2))
            return xp.where((x < far) | (y < far), logs, xp.zeros_like(logs))  # the base kernel is 1 nearly everywhere

        return self._coordinates(other, coordinate)

    def term_sample(self, rng: np.random.Generator, scale: Floats) -> Floats:
        """Draw waiting times."""
        return rng.exponential(scale)


@dataclass(eq=False, repr=False)
class Exponential(CoordinatewiseEstimator):
    """Fit products of exponential distributions, one to every sample (a row of waits or a set of rows) or one to all.

    Parameters
    ----------
    floor : float, default=1e-3
        Least scale of a coordinate, as a fraction of its pooled mean (rounded to a power of two; of 1 where that is 0),
        so that a sample of zeros has a distribution too.
    prior : None, "pooled" or Exponentials of shape (1,), default=None
        What scales are shrunk to (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Exponentials of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.Exponential(prior="pooled").fit_each([[3.0, 1.0], [1.0, 2.0]]).scale
    array([[2.5 , 1.25],
           [1.5 , 1.75]])
    """

    family = Exponentials
    _parameters: ClassVar[Rules] = {"floor": positive("It is a fraction of the pooled mean.")}

    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def context(self, X: Any) -> Context:
        """Learn the dimension, how long waits are, rounded, and the pooled model where it is the prior."""
        x, _ = segments(in_digest_order(X))
        seen = ~np.isnan(x)
        mean = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        mean = np.where(mean > SMALLEST, mean, 1.0)
        bare = Context(dimension=x.shape[1], scale=2.0 ** np.round(np.log2(mean)))  # folds share it
        return self._with_pooled(x, bare)

    def from_mean(self, mu: Floats, context: Context) -> Exponentials:
        """Turn means into distributions, none narrower than the floor."""
        least = np.asarray(self.floor * np.asarray(context.scale), dtype=mu.dtype)
        return self.template(context).with_mean_parameters(np.maximum(mu, least))
