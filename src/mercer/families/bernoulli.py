"""Products of Bernoulli distributions: vectors of independent yes/no answers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, safe_log, to_numpy, xlogx
from mercer._checks import check_gamma, check_rho, checked_parameter
from mercer._coupling import mismatch_underflows, power
from mercer._parameters import NONE, Rules, number
from mercer._random import random_generator
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import point_name, segments
from mercer.families.base import ExponentialFamily, observed_scores
from mercer.families.estimator import Context, FamilyEstimator
from mercer.families.poisson import jensen_gap


class Bernoullis(ExponentialFamily):
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
    >>> p = mc.Bernoullis([[0.5, 1.0], [0.5, 0.5]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"probability": 1}
    tile_hint = 192

    probability: Array

    def __init__(self, probability: Any) -> None:
        p = checked_parameter(probability, "probability", lambda x: (x >= 0) & (x <= 1), "lie between 0 and 1")
        self._freeze(probability=p)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.probability.shape[-1])

    def estimator(self) -> Bernoulli:
        """Return the estimator of this family."""
        return Bernoulli()

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return x."""
        return as_float(x)

    def log_base(self, x: Array) -> Array:
        """Return zeros."""
        x = as_float(x)
        return namespace(x).zeros_like(x[..., 0])

    @property
    def natural_parameters(self) -> Array:
        """Log odds; infinite where an answer is certain."""
        return safe_log(self.probability) - safe_log(1 - self.probability)

    def log_partition(self, theta: Array) -> Array:
        """Return the sum of log(1 + exp(theta))."""
        xp = namespace(theta)
        return xp.sum(xp.logaddexp(theta, xp.zeros_like(theta)), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Return the probabilities."""
        return self.probability

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these probabilities."""
        return self._make(probability=frozen(mu))

    def dual(self, mu: Array) -> Array:
        """Return the negative entropy, finite on the boundary (DJS-4)."""
        return namespace(mu).sum(xlogx(mu) + xlogx(1 - mu), axis=-1)

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Say that the dual divergence of Bernoullis is conditionally negative definite."""
        return Verdict("always", "1/V(mu) = 1/mu + 1/(1 - mu) is a Laplace transform of a positive measure (DJS-5)")

    # -- capabilities -----------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of every 0/1 vector, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN is marginalised."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        xp = namespace(x, self.probability)
        seen = ~xp.isnan(x)
        ones = xp.astype(seen & (x == 1), self.probability.dtype)
        zeros = xp.astype(seen & (x == 0), self.probability.dtype)
        value = _dot(safe_log(single.probability), ones) + _dot(safe_log(1 - single.probability), zeros)
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        xp = namespace(x)
        if bool(xp.any(~xp.isnan(x) & (x != 0) & (x != 1))):
            raise ValueError("Bernoulli data are 0 or 1, or NaN where not observed: turn counts into x > 0 first")

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all 0/1 vectors (PPK-3.2)."""
        check_rho(rho)
        if rho <= 1:  # where one product underflows, the other is about 1
            return self._coordinates(other, lambda g, h: safe_log(power(g * h, rho) + power((1 - g) * (1 - h), rho)))

        def coordinate(g: Array, h: Array) -> Array:
            return _log_sum(rho * (safe_log(g) + safe_log(h)), rho * (_log_complement(g) + _log_complement(h)))

        return self._coordinates(other, coordinate)

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the law g of p q = c g, member by member."""
        one, zero = self.probability * other.probability, (1 - self.probability) * (1 - other.probability)
        total = one + zero
        xp = namespace(total)
        p = xp.where(total > 0, one / xp.where(total > 0, total, xp.ones_like(total)), self.probability)
        return self._log_overlap(other), self._make(probability=p)  # where c = 0, any law will do

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

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence: a sum over coordinates (DJS-4)."""

        def coordinate(g: Array, h: Array) -> Array:
            return jensen_gap(g, h) + jensen_gap(1 - g, 1 - h)

        return self._coordinates(other, coordinate)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence; +inf where q excludes what p allows."""

        def coordinate(g: Array, h: Array) -> Array:
            return _relative(g, h) + _relative(1 - g, 1 - h)

        return self._coordinates(other, coordinate)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the log odds: answers minus probabilities, ``(*B, n, T, d)`` (FK-3); zero where NaN."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"log_odds[{i}]" for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Information of the log odds: diagonal, p (1 - p) (FK-3)."""
        p = self.probability
        return (p * (1 - p))[..., :, None] * identity(p, self.dimension)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` 0/1 vectors from every member, ``(*B, size, d)``."""
        draws = random_generator(random_state).random((*self.shape, size, self.dimension))
        return (draws < to_numpy(self.probability)[..., None, :]).astype(float)

    def _coordinates(self, other: Self, term: Any) -> Array:
        """Sum a term over coordinates, one plane of pairs at a time."""
        self._check_pair(other)
        p, q = self.probability, other.probability
        return sum(term(p[..., :, None, i], q[..., None, :, i]) for i in range(self.dimension))


class Bernoulli(FamilyEstimator):
    """Fit products of Bernoulli distributions, one to every datum (a 0/1 row or a set of rows) or one to all.

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
        What ``fit`` learned of the data as a whole.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Bernoulli(prior="pooled").fit_each([[1, 0], [0, 0]]).probability
    array([[0.75, 0.  ],
           [0.25, 0.  ]])
    """

    _parameters: ClassVar[Rules] = {"threshold": number("Give None for data that are 0 or 1.") | NONE}

    def __init__(self, threshold: float | None = None, prior: Any = None, prior_strength: float = 1.0) -> None:
        self.threshold = threshold
        self.prior = prior
        self.prior_strength = prior_strength

    def _missing_allowed(self) -> bool:
        return True

    def template(self, context: Context) -> Bernoullis:
        """Return fair coins."""
        return Bernoullis._make(probability=np.full(context.dimension, 0.5))

    def _even(self, x: Any, context: Context) -> Bernoullis:
        return self.template(context).reshape(1)

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` of 0/1 values."""
        self._check_parameters()
        X = super().accept(X, **options)
        if self.threshold is not None:
            X = X.mapped(self._binary) if isinstance(X, Sequences) else self._binary(X)
        x, _ = segments(X)
        bad = np.argwhere(~((x == 0) | (x == 1) | np.isnan(x)))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            raise ValueError(
                f"{point_name(X, row)} holds {x[row, column]} in column {column}: "
                "Bernoulli data are 0 or 1, so give threshold=0, say"
            )
        return X

    def _binary(self, x: Floats) -> Floats:
        return np.where(np.isnan(x), np.nan, x > self.threshold)


def _dot(logs: Array, indicator: Array) -> Array:
    """Inner products with 0 * -inf = 0."""
    xp = namespace(logs, indicator)
    finite = xp.where(xp.isfinite(logs), logs, xp.zeros_like(logs))
    value = finite @ xp.matrix_transpose(indicator)
    impossible = xp.astype(~xp.isfinite(logs), logs.dtype) @ xp.matrix_transpose(indicator)
    return xp.where(impossible > 0, -xp.inf, value)


def _log_complement(g: Array) -> Array:
    """Compute log(1 - g), -inf at 1."""
    xp = namespace(g)
    inside = g < 1
    return xp.where(inside, xp.log1p(-xp.where(inside, g, xp.zeros_like(g))), -xp.inf)


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
