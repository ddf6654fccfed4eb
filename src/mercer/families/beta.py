"""Products of beta distributions: vectors of independent fractions between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy
from mercer._checks import checked_positive
from mercer._parameters import NONE, Rules, between, nonnegative, positive
from mercer._random import whole_size
from mercer._special import gammaln, trigamma
from mercer._verdict import Verdict
from mercer.data.segments import mapped, segments
from mercer.families._gamma_functions import HALF_LOG_TWO_PI, excess, solve_concentration
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.dirichlet import (
    OPEN,
    concentration_dual,
    draws,
    mean_logs,
    pair_divergence,
    pair_kl,
    pair_log_product,
    remainder,
)
from mercer.families.domains import check_fractions, check_nonnegative
from mercer.families.estimator import Context
from mercer.families.gamma import check_finite_product


class Betas(Coordinatewise):
    r"""A batch of products of d independent beta distributions of fractions between 0 and 1.

    One coordinate is a `Dirichlets` of (x, 1 - x); d of them are d such pairs.

    Parameters
    ----------
    a, b : array of shape (..., d)
        Positive: the mean is a / (a + b).

    Notes
    -----
    Probability product (PPK-3.7) :math:`B(\rho(a+a'-2)+1, \rho(b+b'-2)+1)/(B(a,b)B(a',b'))^\rho`, where the arguments
    are positive for every member with itself: always at rho = 1/2. The mean map has no closed form.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Betas([[1.0], [6.0]], [[1.0], [2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7953],
           [0.7953, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"a": 1, "b": 1}
    domain = "unit"
    score_labels = ("a", "b")
    dual_verdict = Verdict("conditional", OPEN)
    tile_hint = 128

    a: Array
    b: Array

    def __init__(self, a: Any, b: Any) -> None:
        first, second = checked_positive(a, "a"), checked_positive(b, "b")
        self._freeze_alike(a=first, b=second)

    # -- formulas of one coordinate ---------------------------------------------------------------------

    def term_statistics(self, x: Array) -> tuple[Array, Array]:
        """Return log x and log(1 - x)."""
        xp = namespace(x)
        return xp.log(x), xp.log1p(-x)

    def term_log_base(self, x: Array) -> Array:
        """Return -log x - log(1 - x)."""
        log_x, log_rest = self.term_statistics(x)
        return -(log_x + log_rest)

    def term_natural(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Return a and b."""
        return a, b

    def term_partition(self, a: Array, b: Array) -> Array:
        """Return the log of the beta function."""
        return gammaln(a) + gammaln(b) - gammaln(a + b)

    def term_mean(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Return the mean logarithms of x and of 1 - x."""
        logs = mean_logs(_paired(a, b))
        return logs[..., 0], logs[..., 1]

    def term_from_mean(self, log_x: Array, log_rest: Array) -> tuple[Array, Array]:
        """Return a and b: Newton's method."""
        pairs = solve_concentration(_paired(log_x, log_rest))
        return pairs[..., 0], pairs[..., 1]

    def term_dual(self, log_x: Array, log_rest: Array) -> Array:
        """Return the dual of the pair (x, 1 - x) (DJS-4)."""
        return concentration_dual(solve_concentration(_paired(log_x, log_rest)))

    def term_variance(self, a: Array, b: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Return trigamma(a) and trigamma(b), both minus trigamma(a + b), and that off the diagonal."""
        shared = trigamma(a + b)
        return (trigamma(a) - shared, -shared), (-shared, trigamma(b) - shared)

    def term_log_prob(self, x: Array, a: Array, b: Array) -> Array:
        """Return (a - 1) log x + (b - 1) log(1 - x) - log B(a, b), about the mean, where the large terms cancel."""
        xp = namespace(a, x)
        log_x, log_rest, total = xp.log(x), xp.log1p(-x), a + b
        term = remainder(total) - remainder(a) - remainder(b) - HALF_LOG_TWO_PI - log_x - log_rest
        term = term - excess(x * total, a, log_x + xp.log(total))
        return term - excess((1 - x) * total, b, log_rest + xp.log(total))

    # -- capabilities -----------------------------------------------------------------------------------

    def _check_product(self, rho: float) -> None:
        for parameter in (self.a, self.b):
            check_finite_product(parameter, rho, type(self).__name__)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.7), with the large terms taken out by hand."""
        self._check_products(other, rho)
        return self._pairwise(other, lambda p, q: pair_log_product(p, q, float(rho)))

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the distribution g of p q = c g, member by member: exponents add up."""
        log_constant = self._log_overlap(other)
        return log_constant, self._make(a=self.a + (other.a - 1), b=self.b + (other.b - 1))

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence: a sum over coordinates (DJS-2)."""
        return self._pairwise(other, pair_divergence)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence: a sum over coordinates (DJS-1)."""
        return self._pairwise(other, pair_kl)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        size = whole_size(size)
        pairs = to_numpy(_paired(self.a, self.b))[..., None, :, :]
        found = draws(np.broadcast_to(pairs, (*self.shape, size, self.dimension, 2)), random_state)[..., 0]
        return np.minimum(found, 1 - np.finfo(float).epsneg)  # 1 has no density

    def _pairwise(self, other: Self, term: Any) -> Array:
        """Sum a term of Dirichlet pairs (x, 1 - x) over coordinates."""
        return self._coordinates(other, lambda a, b, c, d: term(_paired(a, b), _paired(c, d)), crossed=False)


@dataclass(eq=False, repr=False)
class Beta(CoordinatewiseEstimator):
    """Fit products of beta distributions, one to every sample (a row of fractions or a set of rows) or one to all.

    Parameters
    ----------
    whole : float, default=1.0
        What numbers are fractions of: 100 for percentages.
    smallest : float or None, default=None
        What smaller fractions are raised to, and how far below 1 larger ones are put: the logarithms of 0 and of
        1 - 1 are infinite. None takes fractions above 0 and below 1 only.
    floor : float, default=1e-3
        Subtracted from mean logarithms, so that one point, or equal points, have a distribution too: with a + b about
        1 / (2 floor).
    prior : None, "pooled" or Betas of shape (1,), default=None
        What estimates are shrunk to, in mean logarithms (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Betas of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.Beta().fit([[0.2], [0.1], [0.3], [0.5]]).model_
    >>> p.a.round(2), p.b.round(2)
    (array([[2.39]]), array([[6.27]]))
    """

    family = Betas
    _parameters: ClassVar[Rules] = {
        "whole": positive("It is the number that the data are fractions of, such as 100 for percentages."),
        "smallest": between(0, 0.5, "neither", "It is also the least distance from 1.") | NONE,
        "floor": nonnegative(),
    }

    whole: float = 1.0
    smallest: float | None = None
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each of which varies by itself a little: the floor comes into every estimate once."""
        return super().statistics(x, context) - self.floor

    def _converted(self, X: Any) -> Any:
        check_nonnegative(segments(X)[0], type(self).__name__, X)
        X = mapped(X, lambda x: x / np.asarray(self.whole, dtype=x.dtype))
        if self.smallest is None:
            return X
        check_fractions(segments(X)[0], type(self).__name__, X, closed=True)
        return mapped(X, self._inside)

    def _inside(self, x: Floats) -> Floats:
        assert self.smallest is not None
        most = min(1 - self.smallest, 1 - float(np.finfo(np.float64).epsneg))  # log(1 - 1) would be infinite
        return np.clip(x.astype(np.float64), self.smallest, most)


def _paired(a: Array, b: Array) -> Array:
    """Parameters or mean logarithms of x and of 1 - x, ``(...)`` each, as ``(..., 2)``."""
    return namespace(a, b).stack([a, b], axis=-1)
