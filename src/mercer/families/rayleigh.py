"""Products of Rayleigh distributions: vectors of independent magnitudes, such as wind speeds and wave heights."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy
from mercer._checks import check_gamma, checked_parameter
from mercer._parameters import NONE, Rules, positive
from mercer._random import random_generator, whole_size
from mercer._verdict import Verdict
from mercer.data.segments import point_name, segments
from mercer.families._gamma_functions import excess
from mercer.families._gaps import log_mean_gap
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.domains import check_nonnegative, raised


class Rayleighs(Coordinatewise):
    r"""A batch of products of d independent Rayleigh distributions.

    The length of a vector of two centered Gaussians of variance :math:`\sigma^2` has this distribution; its square is
    exponential, of mean :math:`2\sigma^2`.

    Parameters
    ----------
    scale : array of shape (..., d)
        Scales :math:`\sigma`, positive: the mode; the mean is :math:`\sigma\sqrt{\pi/2}`.

    Notes
    -----
    Density :math:`x/\sigma^2\,e^{-x^2/(2\sigma^2)}`. Probability product (PPK-3.8), for every rho > 0:
    :math:`\tfrac12\Gamma(\rho+\tfrac12)(\sigma\sigma')^{-2\rho}
    [\tfrac\rho2(\sigma^{-2}+\sigma'^{-2})]^{-(\rho+1/2)}`. Mean map (GMMK-2b):
    :math:`[1+w(\tfrac\pi2+\arctan w)]/n` with :math:`n=1+2\gamma(\sigma^2+\sigma'^2)` and
    :math:`w=2\gamma\sigma\sigma'/\sqrt n`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Rayleighs([[1.0], [2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"scale": 1}
    domain = "positive"
    score_labels = ("negative_rate",)
    dual_verdict = Verdict("always", "1/V(mu) = 1/mu^2 is a Laplace transform of a positive measure (DJS-5)")

    scale: Array

    def __init__(self, scale: Any) -> None:
        self._freeze(scale=checked_parameter(scale, "scale", _has_square, "be positive, with a square in range"))

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_statistics(self, x: Array) -> Array:
        """Return x^2."""
        return x * x

    def term_log_base(self, x: Array) -> Array:
        """Return log x."""
        return namespace(x).log(x)

    def term_natural(self, scale: Array) -> Array:
        """Return -1 / (2 scale^2)."""
        return -0.5 / (scale * scale)

    def term_partition(self, theta: Array) -> Array:
        """Return -log(-2 theta) = 2 log scale."""
        return -namespace(theta).log(-2 * theta)

    def term_mean(self, scale: Array) -> Array:
        """Return the mean square, 2 scale^2."""
        return 2 * scale * scale

    def term_from_mean(self, mu: Array) -> Array:
        """Return the square root of half the mean square."""
        return namespace(mu).sqrt(mu / 2)

    def term_dual(self, mu: Array) -> Array:
        """Return -log mu (DJS-4)."""
        return -namespace(mu).log(mu)

    def term_variance(self, scale: Array) -> Array:
        """Return the variance of the square, 4 scale^4."""
        return (2 * scale * scale) ** 2

    def term_log_prob(self, x: Array, scale: Array) -> Array:
        """Return log(x / scale) - log scale - (x / scale)^2 / 2, which no square overflows."""
        xp = namespace(x, scale)
        ratio = x / scale
        return xp.log(ratio) - xp.log(scale) - ratio * ratio / 2

    def term_product(self, a: Array, b: Array, rho: float) -> Array:
        """Log of the integral of p^rho q^rho, for any rho (PPK-3.8).

        With L = log(ab) and D the log of the arithmetic over the geometric mean of a^2 and b^2, both finite:
        (1/2 - rho) L - (rho + 1/2) D + log-gamma(rho + 1/2) - log 2 - (rho + 1/2) log rho.
        """
        xp = namespace(a, b)
        constant = math.lgamma(rho + 0.5) - math.log(2) - (rho + 0.5) * math.log(rho) if rho != 0.5 else 0.0
        return (0.5 - rho) * (xp.log(a) + xp.log(b)) - (rho + 0.5) * log_mean_gap(a * a, b * b) + constant

    def term_divergence(self, a: Array, b: Array) -> Array:
        """Log of the arithmetic over the geometric mean of the squares (DJS-4)."""
        return log_mean_gap(a * a, b * b)

    def term_kl(self, a: Array, b: Array) -> Array:
        """Return r - 1 - log r of the ratio of squared scales r."""
        return excess(a * a, b * b, 2 * namespace(a).log(a)) / (b * b)

    # -- capabilities -----------------------------------------------------------------------------------

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2): an integral over a quarter plane, in polar coordinates (GMMK-2b)."""
        check_gamma(gamma)

        def term(a: Array, b: Array) -> Array:
            xp = namespace(a, b)
            n = 1 + 2 * gamma * (a * a + b * b)
            w = 2 * gamma * a * b / xp.sqrt(n)
            return xp.log1p(w * (math.pi / 2 + xp.atan(w))) - xp.log(n)

        return self._coordinates(other, term)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        size = whole_size(size)
        draws = random_generator(random_state).rayleigh(size=(*self.shape, size, self.dimension))
        return np.maximum(draws, np.finfo(float).eps) * to_numpy(self.scale)[..., None, :]  # 0 has no density


class Rayleigh(CoordinatewiseEstimator):
    """Fit products of Rayleigh distributions, one to every sample (a positive row or a set of rows) or one to all.

    Parameters
    ----------
    smallest : float or None, default=None
        Smaller numbers are raised to it, zeros above all, whose density is zero: the least that could be measured, for
        example. None takes positive data only.
    prior : None, "pooled" or Rayleighs of shape (1,), default=None
        The distribution that mean squares are shrunk to (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Rayleighs of shape (1,)
        The distribution that ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.Rayleigh(prior="pooled").fit_each([[2.0], [4.0]]).scale.round(4)
    array([[1.8708],
           [2.5495]])
    """

    family = Rayleighs
    _parameters: ClassVar[Rules] = {"smallest": positive("Use None for positive data.") | NONE}

    def __init__(self, smallest: float | None = None, prior: Any = None, prior_strength: float = 1.0) -> None:
        super().__init__(prior, prior_strength)
        self.smallest = smallest

    def _converted(self, X: Any) -> Any:
        check_nonnegative(segments(X)[0], type(self).__name__, X)
        X = raised(X, self.smallest)
        x = segments(X)[0]
        bad = np.argwhere((x > 0) & ~_has_square(x))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            raise ValueError(
                f"The data of Rayleigh must have squares in the range of {x.dtype}; got {x[row, column]:.6g} at "
                f"{point_name(X, row)}, column {column}. Multiply the data by a constant."
            )
        return X


def _has_square(x: Floats) -> Floats:
    """Whether sums of many squares neither overflow nor vanish."""
    limits = np.finfo(x.dtype)
    return (x >= math.sqrt(limits.tiny) * 16) & (x <= math.sqrt(limits.max) / 1024)
