"""Products of exponential distributions: vectors of independent waiting times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, namespace
from mercer._parameters import Rules
from mercer._parameters import positive as positive_number
from mercer._special import erfcx
from mercer._verdict import Verdict
from mercer.data.segments import in_digest_order, segments
from mercer.families._gaps import excess, log_mean_gap
from mercer.families.base import Parameter
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.estimator import Context
from mercer.families.fit import SMALLEST, FamilyEstimator
from mercer.families.lomax import Lomaxes
from mercer.families.sets import nonnegative, positive
from mercer.families.special import log


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

    scale = Parameter(positive, moment=True)
    support = nonnegative
    labels = ("negative_rate",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu^2 is a Laplace transform of a positive measure (DJS-5)")

    def natural(self) -> Array:
        return -1 / self.scale

    def from_natural(self, theta: Array) -> Array:
        return -1 / theta

    def partition(self, theta: Array) -> Array:
        return -log(-theta)

    def legendre(self, mu: Array) -> Array:
        return -log(mu)

    def information(self) -> Array:
        return self.scale**2

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.exponential(self.scale, shape)

    def predictive(self, count: Any) -> Lomaxes:
        return Lomaxes(count + 1 + 0 * self.scale, self.scale * count)

    # -- digits ----------------------------------------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        return -x / self.scale - log(self.scale)

    def product(self, other: Self, rho: float) -> Array:
        a, b = self.scale, other.scale
        return (1 - 2 * rho) * (log(a) + log(b)) / 2 - log_mean_gap(a, b) - math.log(2 * rho)

    def divergence(self, other: Self) -> Array:
        return log_mean_gap(self.scale, other.scale)

    def relative_entropy(self, other: Self) -> Array:
        return excess(self.scale, other.scale, log(self.scale)) / other.scale

    def mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma (x - y)^2): the difference of two is a two-sided exponential (GMMK-0)."""
        a, b, xp = self.scale, other.scale, namespace(self.scale)
        if gamma == 0:
            return 0 * (a + b)  # in sight of a gradient
        half, far = 0.5 / math.sqrt(gamma), float(xp.finfo(a.dtype).max) ** 0.5
        with np.errstate(over="ignore"):
            x, y = half / a, half / b
        x, y = xp.where(x < far, x, xp.full_like(x, far)), xp.where(y < far, y, xp.full_like(y, far))
        logs = log(erfcx(x) + erfcx(y)) - log(a / 2 + b / 2) + (math.log(math.pi) / 2 + math.log(half / 2))
        return xp.where((x < far) | (y < far), logs, xp.zeros_like(logs))  # the base kernel is 1 nearly everywhere


@dataclass(eq=False, repr=False)
class Exponential(FamilyEstimator, of=Exponentials):
    """Fit products of exponential distributions, one to every sample (a row of waits or a set of rows) or one to all.

    Parameters
    ----------
    floor : float, default=1e-3
        Least scale of a coordinate, as a fraction of its pooled mean (rounded to a power of two; of 1 where that is 0),
        so that a sample of zeros has a distribution too.
    estimate : {"point", "predictive"}, default="point"
        The member at the MAP estimate, or the predictive distribution: the average of the members over the posterior
        (PPK-2a), which needs a prior.
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

    _parameters: ClassVar[Rules] = {"floor": positive_number("It is a fraction of the pooled mean.")}

    floor: float = 1e-3

    def context(self, X: Any) -> Context:
        """Learn the dimension, how long waits are, rounded, and the pooled model where it is the prior."""
        x, _ = segments(in_digest_order(X))
        seen = ~np.isnan(x)
        mean = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        mean = np.where(mean > SMALLEST, mean, 1.0)
        bare = Context(dimension=x.shape[1], scale=2.0 ** np.round(np.log2(mean)))  # folds share it
        return self._with_pooled(x, bare)

    def from_mean(self, mu: Floats, context: Context) -> Any:
        """Turn means into distributions, none narrower than the floor."""
        least = np.asarray(self.floor * np.asarray(context.scale), dtype=mu.dtype)
        return self.template(context).with_mean_parameters(np.maximum(mu, least))
